"""Trials: hashers tried on one task, with the scores of their codes and their use of the code space."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import InputError
from lookalike.core.figures import shown
from lookalike.core.kernels import prepare_hashing
from lookalike.core.progress import track
from lookalike.core.tables.formats import TableFormats
from lookalike.core.tables.table import ResultTable, TableCell, TableHead
from lookalike.evaluation.code_space import Usage, WithinClass, mean_of_known, usage
from lookalike.evaluation.count import count
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.result_tables import cell_of_score, direction, safe_names, ties_legend
from lookalike.evaluation.results import Evaluation
from lookalike.experiments.task import Task
from lookalike.metrics.curves import Curve, by_cutoff, by_radius
from lookalike.metrics.metric import Metric

if TYPE_CHECKING:
    from lookalike.hashers import Hasher

METRICS = ("AP", "AP@1000", "nDCG@100", "P@100", "P(radius=2)", "LGAP@0", "LGAP@1", "LGAP@2", "LGAP@3")

METRICS_OF_FEATURES = METRICS[:4]  # the others are of codes

__all__ = ["METRICS", "METRICS_OF_FEATURES", "Trial", "Trials", "examine", "try_hashers"]


@dataclass(frozen=True, eq=False)
class Trial:
    """One hasher at one code length: its codes, their scores, and their use of the code space."""

    name: str
    queries: Codes
    gallery: Codes
    evaluation: Evaluation
    usage: Usage
    by_cutoff: Curve
    by_radius: Curve
    within_class: float = float("nan")  # mean over classes of the rank correlation of Hamming and feature distance
    fit_seconds: float = float("nan")
    hash_seconds: float = float("nan")  # of queries and gallery

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return self.gallery.n_bits

    def row(self) -> dict[str, Any]:
        """The numbers by name, as they are printed and saved."""
        ap = self.evaluation["AP"]
        low, high = ap.interval()
        return {
            "hasher": self.name,
            "bits": self.n_bits,
            "mAP": ap.mean,
            "best": ap.best,
            "worst": ap.worst,
            "low": low,
            "high": high,
            "undefined": ap.undefined,
            **{str(metric): score.mean for metric, score in self.evaluation.scores.items() if str(metric) != "AP"},
            **{name: value for name, value in self.usage.row().items() if name not in ("n_bits", "items")},
            "within_class": self.within_class,
            "fit_seconds": self.fit_seconds,
            "hash_seconds": self.hash_seconds,
        }


@dataclass(frozen=True, eq=False)
class Trials(TableFormats):
    """Several trials of one task, and the scores of the features without hashing."""

    task: Task
    trials: tuple[Trial, ...]
    exact: Evaluation | None = None  # of the features themselves: what hashing gives up
    left_out: tuple[tuple[str, str], ...] = ()  # hashers that could not be tried, and why

    def rows(self) -> list[dict[str, Any]]:
        """A row for each trial."""
        return [trial.row() for trial in self.trials]

    def to_table(self, metric: str | None = "AP", *, ties: bool = False) -> ResultTable:
        """One metric of every hasher: a row for each, and a column for each length of codes.

        metric: None for a row for each trial with its main numbers. ties: best and worst stand beside each number.
        """
        if metric is None:
            return _numbers_of_each(self, ties)
        return _lengths(self, Metric.parse(metric), ties)

    def log(self, prefix: str = "") -> dict[str, float]:
        """Every metric of every trial by a name that trackers accept, such as "ITQ_32/AP" and "ITQ_32/AP_best"."""
        names = safe_names(f"{trial.name}_{trial.n_bits}" for trial in self.trials)
        parts = (t.evaluation.log(f"{prefix}{names[f'{t.name}_{t.n_bits}']}/") for t in self.trials)
        return {key: value for part in parts for key, value in part.items()}


def _lengths(trials: Trials, metric: Metric, ties: bool) -> ResultTable:
    """A row for each hasher and a column for each length of codes: one metric."""
    cells = {(trial.name, trial.n_bits): cell_of_score(trial.evaluation[metric], ties) for trial in trials.trials}
    if len(cells) < len(trials.trials):
        raise InputError("two trials have the same name and length: a table has a place for one of them")
    bits = sorted({trial.n_bits for trial in trials.trials})
    hashers = dict.fromkeys(trial.name for trial in trials.trials)
    heads = ["hasher", *(TableHead(f"{n} bits", higher_is_better=direction(metric)) for n in bits)]
    rows = [[name, *(cells.get((name, n)) for n in bits)] for name in hashers]
    legend = [f"{metric.label} of {trials.task.title}, by length of codes."]
    if trials.exact is not None and metric in trials.exact.scores:
        similarity, mean = trials.exact.about["similarity"], trials.exact[metric].mean
        legend.append(f"Without hashing ({similarity}) it is {shown(mean)}.")
    facts: dict[str, Any] = {"legend": (*legend, *ties_legend(ties)), "notes": _notes(trials), "across": "codes"}
    return ResultTable.of(heads, rows, **facts)


def _numbers_of_each(trials: Trials, ties: bool) -> ResultTable:
    """A row for each trial: how good the search is, and how the codes fill their space."""
    quality = ["mAP"] if ties else ["mAP", "worst", "best"]
    space = ("codes used", "of possible", "entropy", "fullest code")
    heads = [
        *("hasher", TableHead("bits")),
        *(TableHead(name, higher_is_better=name == "mAP" or None, main=name == "mAP") for name in quality),
        *(TableHead("mLGAP@2", higher_is_better=True), *map(TableHead, space)),
    ]
    rows = []
    for trial in trials.trials:
        row, ap = trial.row(), trial.evaluation["AP"]
        used = [
            TableCell(row["distinct"], f"{row['distinct']:,}"),
            TableCell(row["possible_utilisation"], f"{row['possible_utilisation']:.1%}"),
            TableCell(row["entropy"], f"{row['entropy']:.2f}"),
            TableCell(row["largest"], f"{row['largest']:,}"),
        ]
        means = [cell_of_score(ap, True)] if ties else [ap.mean, ap.worst, ap.best]
        rows.append([trial.name, trial.n_bits, *means, row["LGAP@2"], *used])
    return ResultTable.of(heads, rows, legend=ties_legend(ties), notes=_notes(trials))


def _notes(trials: Trials) -> tuple[str, ...]:
    task = trials.task
    return (
        f"{task.title}: {len(task.query_labels):,} queries × {len(task.gallery_labels):,} items",
        *(f"left out: {name}: {why}" for name, why in trials.left_out),
    )


def try_hashers(
    task: Task,
    hashers: Iterable[tuple[str, "Hasher"]],
    codes: Iterable[tuple[str, Codes, Codes]] = (),
    *,
    similarity: str = "euclidean",
) -> Trials:
    """Fit each hasher on the task's training part, hash queries and gallery, and examine the codes.

    hashers: names to show, and hashers; one that is fitted already stays as it is. codes: names, and codes of the
    queries and the gallery that were made elsewhere. similarity: how the features themselves are searched.
    """
    prepare_hashing()  # compiled before the clock starts
    hashers = list(hashers)
    features = task.gallery is not None
    within = WithinClass(task.gallery, task.classes) if features and task.classes is not None else None
    trials, left_out = [], []
    for name, hasher in track(hashers, len(hashers), "trying hashers"):
        try:
            codes_and_times = _hash(task, hasher)
        except ValueError as error:  # such as more bits than the data can give
            left_out.append((f"{name} at {hasher.n_bits} bits", str(error)))
        else:
            trials.append(examine(task, name, *codes_and_times, within=within))
    trials += [examine(task, name, queries, gallery, within=within) for name, queries, gallery in codes]
    if not trials:
        raise InputError(left_out[0][1] if left_out else "there is nothing to try: name hashers or pass codes")
    exact = (
        evaluate(task.queries, task.gallery, task.relevance, METRICS_OF_FEATURES, similarity=similarity)
        if features
        else None
    )
    return Trials(task, tuple(trials), exact, tuple(left_out))


def _hash(task: Task, hasher: "Hasher") -> tuple[Codes, Codes, float, float]:
    """Codes of the queries and of the gallery, and how long fitting and hashing took."""
    started = time.perf_counter()
    fitted = hasattr(hasher, "n_features_in_")
    if not fitted:
        hasher.fit(task.training, _labels_for(hasher, task))
    between = time.perf_counter()
    queries, gallery = hasher.transform(task.queries), hasher.transform(task.gallery)
    return queries, gallery, float("nan") if fitted else between - started, time.perf_counter() - between


def _labels_for(hasher: "Hasher", task: Task) -> np.ndarray | None:
    """What a hasher learns from beside the items: classes, or classes and superclasses."""
    if not getattr(hasher, "learns_levels", False):
        return task.training_labels
    if task.training_levels is None:
        raise InputError(f"{hasher.title} learns from fine and coarse labels, which {task.title} does not have")
    return task.training_levels


def examine(
    task: Task,
    name: str,
    queries: Codes,
    gallery: Codes,
    fit_seconds: float = float("nan"),
    hash_seconds: float = float("nan"),
    *,
    within: WithinClass | None = None,
) -> Trial:
    """Evaluate codes of a task's queries and gallery."""
    tally = count(queries, gallery, task.relevance)
    return Trial(
        name,
        queries,
        gallery,
        evaluate(queries, gallery, task.relevance, METRICS),
        usage(gallery, task.classes),
        by_cutoff(tally),
        by_radius(tally),
        float("nan") if within is None else mean_of_known(within.correlation(gallery)),
        fit_seconds,
        hash_seconds,
    )
