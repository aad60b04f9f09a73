"""Results: what an evaluation found, to look at, compare and keep."""

import json
import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.bootstrap import bootstrap_interval
from lookalike.core.errors import FileError, InputError, InputTypeError, MissingPackageError, Option
from lookalike.core.figures import shown, without_nan
from lookalike.core.files import check_format, fingerprints, provenance, read_json, write_text
from lookalike.core.ids import id_array
from lookalike.core.tables.formats import TableFormats
from lookalike.core.tables.render import as_text
from lookalike.core.tables.table import ResultTable
from lookalike.evaluation.by_group import ByGroup
from lookalike.evaluation.result_tables import logged, metrics_table
from lookalike.evaluation.result_text import relevance_text, unlisted_note, vectors_text
from lookalike.metrics.metric import Metric
from lookalike.metrics.micro_average import ratio_of_sums
from lookalike.metrics.values import Values

if TYPE_CHECKING:
    import pandas

FILLERS = (0, 1)  # what an undefined query may count
LONGEST_IDS = 1 << 28  # letters of all query ids that are read, each as long as the longest

__all__ = ["Evaluation", "Score", "as_table", "shown", "without_nan"]


@dataclass(frozen=True, eq=False)
class Score:
    """One metric of an evaluation: expected, best and worst over all orders of tied items.

    per_query, best_per_query, worst_per_query: (n_queries,), 0, 1 or nan where undefined, as was asked. Of a metric of
    all queries together (a ratio of sums, average='micro') each query has the whole plus its influence on it, which may
    pass 0 or 1: their mean is the whole, and intervals and comparisons are right to first order.
    weights: of AP(empty='skip')@k, the chance that a query counts, (n_queries,): the mean is weighted by it. Best and
    worst are then the extremes over all orders of all queries, in which a query of a weight below 1 may be left out.
    """

    metric: Metric
    values: Values
    undefined: int  # queries for which the metric has no value
    weights: np.ndarray | None = None

    @property
    def per_query(self) -> np.ndarray:
        """Expected value of each query."""
        return self.values.expected

    @property
    def best_per_query(self) -> np.ndarray:
        """Best value of each query."""
        return self.values.best

    @property
    def worst_per_query(self) -> np.ndarray:
        """Worst value of each query."""
        return self.values.worst

    @property
    def mean(self) -> float:
        """The number to report: the expected value, averaged over queries; nan if no query has one."""
        if self.weights is None:
            return _mean(self.per_query)
        total = self.weights.sum()
        return float(self._weighted.sum() / total) if total > 0 else float("nan")

    @property
    def best(self) -> float:
        """Mean over queries of the best that an order of tied items can give."""
        if self.weights is not None:
            return _highest_mean(self.best_per_query, self.weights)
        return _mean(self.best_per_query)

    @property
    def worst(self) -> float:
        """Mean over queries of the worst that an order of tied items can give."""
        if self.weights is not None:
            return -_highest_mean(-self.worst_per_query, self.weights)
        return _mean(self.worst_per_query)

    @property
    def mean_weights(self) -> np.ndarray:
        """What each query weighs in the mean, (n_queries,): 1 for most metrics."""
        return np.ones(len(self.per_query)) if self.weights is None else self.weights

    @property
    def influence(self) -> np.ndarray:
        """Values of each query whose plain mean is `mean`: of a weighted mean, the whole plus the query's influence."""
        if self.weights is None:
            return self.per_query
        return ratio_of_sums(self._weighted, self.weights)

    @property
    def _weighted(self) -> np.ndarray:
        """What each query adds to the sum of a weighted mean; 0 where it has no value."""
        assert self.weights is not None
        return np.where(self.weights > 0, self.per_query * self.weights, 0)

    def interval(self, level: float = 0.95, *, random_state: int = 0, resamples: int = 2000) -> tuple[float, float]:
        """Bootstrap interval of the mean over queries: what other queries like these might have given."""
        return bootstrap_interval(self.per_query, level, random_state, resamples, self.weights)

    def __repr__(self) -> str:
        return f"{self.metric.label} {shown(self.mean)} (best {shown(self.best)}, worst {shown(self.worst)})"


@dataclass(frozen=True, eq=False)
class Evaluation(TableFormats):
    """Every metric of one evaluation; `evaluation["AP@1000"]` is its `Score`."""

    scores: dict[Metric, Score]
    query_ids: np.ndarray
    about: dict[str, Any]  # where the numbers come from
    by_group: ByGroup | None = None  # the same of groups of queries, if asked for with `by`

    @property
    def notes(self) -> list[str]:
        """What was assumed, and what looks like a mistake, in sentences; they were logged too."""
        return list(self.about.get("notes", ()))

    @property
    def basis(self) -> str:
        """What was evaluated, in a line: how many queries and items, what they were taken as, what is relevant."""
        facts = [text for text in (vectors_text(self.about), relevance_text(self.about.get("relevance", ""))) if text]
        return f"{len(self.query_ids):,} queries, {self.about['items']:,} items" + ": " * bool(facts) + ", ".join(facts)

    def relevance_of(self, metric: Metric) -> str:
        """What makes an item relevant for a metric, such as "labels"; "" if that is not known."""
        return _of_each(self, "relevance").get(str(metric), "")

    def with_notes(self, *notes: str) -> "Evaluation":
        """The same with further notes."""
        return replace(self, about=self.about | {"notes": list(dict.fromkeys([*self.notes, *notes]))})

    @classmethod
    def joined(cls, *evaluations: "Evaluation") -> "Evaluation":
        """All metrics of evaluations of the same queries and items, such as one by labels and one by attributes.

        >>> import lookalike as la
        >>> codes = la.Codes.pack([[0, 0], [0, 1], [1, 1]])
        >>> ap = la.evaluate(codes[:1], codes[1:], la.same_label([7], [7, 8]), ["AP"])
        >>> dcg = la.evaluate(codes[:1], codes[1:], la.matching_attributes([[1, 2]], [[1, 2], [3, 4]]), ["nDCG"])
        >>> la.Evaluation.joined(ap, dcg)
        metric  expected    best   worst  undefined
        AP        1.0000  1.0000  1.0000          0
        nDCG      1.0000  1.0000  1.0000          0
        1 queries, 2 items: codes of 2 bits, relevant by labels (AP) and attributes (nDCG)
        """
        if len(evaluations) == 1:
            return evaluations[0]
        first = evaluations[0]
        scores: dict[Metric, Score] = {}
        about: dict[str, Any] = dict(first.about)
        for other in evaluations:
            if not np.array_equal(first.query_ids, other.query_ids) or first.about["items"] != other.about["items"]:
                raise InputError("evaluations that are joined must be of the same queries and the same gallery")
            if twice := scores.keys() & other.scores.keys():
                raise InputError(
                    f"evaluations that are joined must have different metrics: {min(map(str, twice))} twice"
                )
            scores |= other.scores
        about["inputs"] = dict(first.about.get("inputs", {})) | {
            "relevance": [other.about.get("inputs", {}).get("relevance") for other in evaluations]
        }
        about["notes"] = list(dict.fromkeys(note for other in evaluations for note in other.notes))
        for name in ("relevance", "unjudged"):
            of_each = {k: v for other in evaluations for k, v in _of_each(other, name).items()}
            about[name] = of_each if len(set(of_each.values())) > 1 else next(iter(of_each.values()), "")
        by_group = first.by_group
        for other in evaluations[1:]:
            by_group = None if by_group is None else by_group.joined(other.by_group)
        return cls(scores, first.query_ids, about, by_group)

    def __getitem__(self, metric: str | Metric) -> Score:
        wanted = Metric.parse(metric)
        if wanted not in self.scores:
            raise KeyError(f"{wanted} was not evaluated, only {', '.join(map(str, self.scores))}")
        return self.scores[wanted]

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each metric, as they are printed and saved."""
        return [
            {
                "metric": metric.label,
                "mean": score.mean,
                "best": score.best,
                "worst": score.worst,
                "undefined": score.undefined,
                "queries": len(score.per_query),
            }
            for metric, score in self.scores.items()
        ]

    def __str__(self) -> str:
        table = self.to_table()
        groups = () if self.by_group is None else ("", str(self.by_group), "")
        return as_text(replace(table, notes=(*groups, *table.notes)))

    __repr__ = __str__

    def conventions(self, spell: Callable[[Option], str] = str) -> list[str]:
        """How the numbers were counted, in sentences. spell: how an option is written."""
        of_run = "run" in self.about.get("inputs", {})
        areas = dict.fromkeys(metric.name for metric in self.scores if metric.area)
        out = []
        if areas and "unlisted" in self.about:
            out.append(unlisted_note(areas, self.about["unlisted"], of_run, spell))
        if self.about.get("ties") == "trec_eval":
            out.append("ties are in the order of trec_eval: by score in single precision, then by name, the last first")
        return out

    def to_table(self, *, ties: bool = False) -> ResultTable:
        """A row for each metric. ties: best and worst stand within the cell of the expected number."""
        return metrics_table(self, ties)

    def _repr_html_(self) -> str:
        groups = "" if self.by_group is None else self.by_group._repr_html_()
        return super()._repr_html_() + groups

    def log(self, prefix: str = "") -> dict[str, float]:
        """Every number by a name that MLflow, Weights & Biases and TensorBoard accept: "AP@5" is AP_at_5.

        AP_at_5_best and AP_at_5_worst are those of ties. prefix: stands before each name, such as "val/".
        """
        return logged(self, prefix)

    def to_pandas(self, *, per_query: bool = False, by_group: bool = False) -> "pandas.DataFrame":
        """A table with a row for each metric, or with a row for each query and a column for each metric.

        by_group: a row for each metric and group, below those of a metric its macro mean.
        """
        if by_group:
            if self.by_group is None:
                raise InputError("there are no groups of queries: evaluate with by=, one group for each query")
            return as_table(self.by_group.rows()).set_index(["metric", "group"])
        if not per_query:
            return as_table(self.rows()).set_index("metric")
        columns = {metric.label: score.per_query for metric, score in self.scores.items()}
        columns |= {f"{metric.label} weight": s.weights for metric, s in self.scores.items() if s.weights is not None}
        return as_table({"query": self.query_ids, **columns}).set_index("query")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain Python values."""
        scores = [
            row
            | {"name": str(metric)}
            | {name: _plain(getattr(score, name)) for name in ("per_query", "best_per_query", "worst_per_query")}
            | ({} if score.weights is None else {"weight_per_query": _plain(score.weights)})
            for row, (metric, score) in zip(self.rows(), self.scores.items(), strict=True)
        ]
        about = self.about | {"inputs": fingerprints(self.about.get("inputs", {}))}
        groups = {} if self.by_group is None else {"by_group": self.by_group.to_dict()}
        return provenance("evaluation", **about, query_ids=self.query_ids.tolist(), scores=scores, **groups)

    def to_json(self, path: str | Path | None = None) -> str:
        """Everything as JSON, written to `path` if given; nan becomes null."""
        text = json.dumps(without_nan(self.to_dict()), indent=1, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    @classmethod
    def from_json(cls, path: str | Path) -> "Evaluation":
        """Read what `to_json` wrote; raises where that cannot be an evaluation."""
        saved = read_json(Path(path).read_bytes(), path)
        if not isinstance(saved, dict) or saved.get("lookalike") != "evaluation":
            raise FileError(f"{path} holds no evaluation: it was not written by Evaluation.to_json", path=path)
        check_format(saved, path)
        try:
            query_ids = _read_ids(saved["query_ids"])
            scores = [_read_score(row, len(query_ids)) for row in _checked("scores", saved["scores"], list)]
            _checked("inputs", saved.get("inputs", {}), dict)
            _check_words(saved)
            by_group = None
            if "by_group" in saved:
                groups = _checked("by_group", saved["by_group"], dict)
                by_group = ByGroup.from_dict(groups, [score.metric for score in scores], len(query_ids))
            if _checked("items", saved["items"], int) < 0 or len({score.metric for score in scores}) < len(scores):
                raise InputError("it has fewer than 0 items, or a metric twice")
        except KeyError as error:
            raise FileError(f"{path} is damaged: it lacks {error.args[0]}", path=path) from None
        except (ValueError, TypeError, OverflowError) as error:
            raise FileError(f"{path} is damaged: {error}", path=path) from error
        own_keys = ("lookalike", "format", "version", "query_ids", "scores", "by_group")
        about = {key: value for key, value in saved.items() if key not in own_keys}
        return cls({score.metric: score for score in scores}, query_ids, about, by_group)


# Reading what was saved: each raises where it is not what `to_dict` gives


def _check_words(saved: dict[str, Any]) -> None:
    """Raise where what is said of an evaluation is not text, or text for each metric."""
    for note in _checked("notes", saved.get("notes", []), list):
        _checked("a note", note, str)
    for name in ("relevance", "unjudged"):
        words = saved.get(name, "")
        for word in words.values() if isinstance(words, dict) else [words]:
            _checked(name, word, str)


def _read_ids(saved: Any) -> np.ndarray:
    ids = _checked("query_ids", saved, list)
    longest = max((len(value) for value in ids if isinstance(value, str)), default=0)
    if len(ids) * longest > LONGEST_IDS:  # an array has room for the longest in every place
        raise InputError(f"{len(ids):,} query_ids of up to {longest:,} letters are too long")
    return id_array(ids, "query_ids")


def _read_score(saved: Any, n: int) -> Score:
    row = _checked("a score", saved, dict)
    metric, undefined = Metric.parse(row["name"]), _checked("undefined", row["undefined"], int)
    if Metric.parse(row["metric"]) != metric or row["queries"] != n:
        raise InputError(f"{metric} of {n} queries is called {row['metric']} of {row['queries']}")
    values = np.array([_read_values(row, f"{part}per_query", n) for part in ("", "best_", "worst_")])
    missing = np.isnan(values)
    if (missing != missing[0]).any():
        raise InputError(f"a query has some values of {metric}, but not all")
    filled = max(int((values == filler).all(axis=0).sum()) for filler in FILLERS)
    if undefined not in ({missing[0].sum()} if missing.any() else range(filled + 1)):
        raise InputError(f"{metric} cannot be undefined for {undefined} queries: their values say otherwise")
    weights = _read_weights(row, metric, missing[0])
    score = Score(metric, Values(*values), undefined, weights)
    for name in ("mean", "best", "worst"):
        written, is_so = row[name], getattr(score, name)
        number = float("nan") if written is None else float(_checked(name, written, int, float))
        if not np.isclose(number, is_so, rtol=1e-9, atol=1e-12, equal_nan=True):
            raise InputError(f"the {name} of {metric} is {written}, but that of its values is {is_so}")
    return score


def _read_weights(row: dict[str, Any], metric: Metric, missing: np.ndarray) -> np.ndarray | None:
    if (metric.options().get("empty") == "skip") != ("weight_per_query" in row):
        raise InputError(f"{metric} has weights where it should have none, or lacks them")
    if "weight_per_query" not in row:
        return None
    weights = _read_values(row, "weight_per_query", len(missing))
    if not ((weights >= 0) & (weights <= 1)).all() or ((weights == 0) != missing).any():
        raise InputError(f"weight_per_query of {metric} must be from 0, where there is no value, to 1")
    return weights


def _read_values(row: dict[str, Any], name: str, n: int) -> np.ndarray:
    values = _checked(name, row[name], list)
    if len(values) != n:
        raise InputError(f"{name} has {len(values)} values, but there are {n} queries")
    numbers = np.array([np.nan if value is None else float(_checked(name, value, int, float)) for value in values])
    if np.isfinite(numbers).sum() != len(values) - values.count(None):
        raise InputError(f"{name} has a value that is not finite")
    return numbers


def _checked(name: str, value: Any, *kinds: type) -> Any:
    """A value that is of one of these kinds, of which bool is none."""
    if type(value) not in kinds:
        raise InputTypeError(
            f"{name} must be {' or '.join(kind.__name__ for kind in kinds)}, got {reprlib.repr(value)}"
        )
    return value


def _of_each(evaluation: Evaluation, name: str) -> dict[str, str]:
    """What is said for each metric, where it may be said for all at once."""
    said = evaluation.about.get(name, "")
    return said if isinstance(said, dict) else dict.fromkeys(map(str, evaluation.scores), said)


def as_table(columns: Any) -> "pandas.DataFrame":
    """A pandas table, if pandas is there."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "to_pandas needs pandas: pip install pandas; .rows() does without", package="pandas"
        ) from error
    return pandas.DataFrame(columns)


def _mean(values: np.ndarray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _highest_mean(values: np.ndarray, weights: np.ndarray) -> float:
    """The highest mean of values of which those of a weight below 1 may be left out, and of weight 0 are.

    >>> _highest_mean(np.array([0.5, 0.9, 0.6]), np.array([1, 0.2, 0.8]))     # 0.6 is below the mean of the others
    0.7
    """
    fixed, free = values[weights == 1], np.sort(values[(weights > 0) & (weights < 1)])[::-1]
    if not len(fixed) + len(free):
        return float("nan")
    first = len(fixed) == 0  # without a query that always counts, the best of the others does
    counts = len(fixed) + np.arange(first, len(free) + 1)
    return float(((fixed.sum() + np.concatenate([[0.0], free.cumsum()])[int(first) :]) / counts).max())


def _plain(values: np.ndarray) -> list[float]:
    return [float(value) for value in values]
