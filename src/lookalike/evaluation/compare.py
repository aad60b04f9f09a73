"""Comparing evaluations of the same queries: differences, intervals and corrected p-values."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.bootstrap import bootstrap_interval
from lookalike.core.errors import InputError, InputTypeError
from lookalike.evaluation.results import Evaluation, as_table
from lookalike.metrics.metric import Metric

if TYPE_CHECKING:
    import pandas

__all__ = ["Comparison", "Difference", "compare", "holm", "randomisation_test"]


@dataclass(frozen=True)
class Difference:
    """One metric of two systems on the same queries."""

    metric: Metric
    first: str
    second: str
    difference: float  # mean of first minus mean of second, over the queries where both have a value
    low: float
    high: float
    p_value: float
    corrected: float  # Holm's correction over the pairs of systems


@dataclass(frozen=True)
class Comparison:
    """Every pair of systems on every metric they share."""

    differences: list[Difference]
    level: float

    def rows(self) -> list[dict[str, Any]]:
        """A row for each metric and pair."""
        return [{**vars(difference), "metric": difference.metric.label} for difference in self.differences]

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with a row for each metric and pair."""
        return as_table(self.rows())

    def _table(self) -> list[list[str]]:
        head = ["metric", "pair", "difference", f"{self.level:.0%} interval", "p", "p corrected"]
        return [
            head,
            *(
                [
                    d.metric.label,
                    f"{d.first} - {d.second}",
                    f"{d.difference:+.4f}",
                    f"{d.low:+.4f} to {d.high:+.4f}",
                    f"{d.p_value:.4f}",
                    f"{d.corrected:.4f}",
                ]
                for d in self.differences
            ),
        ]

    def __str__(self) -> str:
        table = self._table()
        widths = [max(len(row[i]) for row in table) for i in range(6)]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        import html

        head, *rows = self._table()
        top = "".join(f"<th>{cell}</th>" for cell in head)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def compare(
    evaluations: Mapping[str, Evaluation], *, level: float = 0.95, random_state: int = 0, resamples: int = 9999
) -> Comparison:
    """Compare systems evaluated on the same queries, matched by id, on every metric that all of them have.

    Paired bootstrap interval of the difference, paired randomisation test, Holm's correction over the pairs of systems.

    >>> import lookalike as la
    >>> relevance = la.grades([[1, 0]] * 20)
    >>> good, bad = (la.evaluate_scores([row] * 20, relevance, ["RR"]) for row in ([2, 1], [1, 2]))
    >>> print(la.compare({"good": good, "bad": bad}))
    metric  pair        difference        95% interval       p  p corrected
    RR      good - bad     +0.5000  +0.5000 to +0.5000  0.0001       0.0001
    """
    if not isinstance(evaluations, Mapping):
        raise InputTypeError('evaluations must have names: pass {"one": evaluation, "other": evaluation}')
    if len(evaluations) < 2:
        raise InputError(f"comparing takes at least two evaluations, got {len(evaluations)}")
    for name, evaluation in evaluations.items():
        if not isinstance(evaluation, Evaluation):
            raise InputTypeError(f"{name!r} must be an evaluation, got {type(evaluation).__name__}")
    names = list(evaluations)
    first = evaluations[names[0]]
    shared = [metric for metric in first if all(metric in evaluation.scores for evaluation in evaluations.values())]
    if not shared:
        raise InputError("the evaluations have no metric in common")
    about = [evaluation.about for evaluation in evaluations.values()]
    galleries = [facts for facts in about if "run" not in facts.get("inputs", {})]  # a saved one may have no inputs
    orders = {name: _matched(names[0], first, name, evaluations[name]) for name in names}
    sizes = sorted({facts["items"] for facts in galleries})
    if len(sizes) > 1:
        raise InputError(f"the evaluations are of different galleries, of {', '.join(map(str, sizes))} items")
    _check_relevance(evaluations, shared)
    differences = []
    for metric in shared:
        tested = []
        for a, b in itertools.combinations(names, 2):
            values = evaluations[a][metric].influence[orders[a]] - evaluations[b][metric].influence[orders[b]]
            values = values[~np.isnan(values)]
            mean = float(values.mean()) if len(values) else float("nan")
            low, high = bootstrap_interval(values, level, random_state, min(resamples, 2000))
            tested.append((a, b, mean, low, high, randomisation_test(values, random_state, resamples)))
        corrected = holm([row[-1] for row in tested])
        differences += [Difference(metric, *row, p) for row, p in zip(tested, corrected, strict=True)]
    return Comparison(differences, level)


def _check_relevance(evaluations: Mapping[str, Evaluation], metrics: list[Metric]) -> None:
    """Raise where a metric counts other items as relevant in one evaluation than in another; unknown ones pass."""
    for metric in metrics:
        kinds = {name: evaluation.relevance_of(metric) for name, evaluation in evaluations.items()}
        known = {name: kind for name, kind in kinds.items() if kind}
        if len(set(known.values())) > 1:
            listed = ", ".join(f"{kind} in {name!r}" for name, kind in known.items())
            raise InputError(f"{metric} cannot be compared, items are relevant by {listed}")


def randomisation_test(differences: np.ndarray, random_state: int = 0, resamples: int = 9999) -> float:
    """Two-sided p-value: how often paired differences with random signs have a mean at least as far from 0.

    >>> randomisation_test(np.ones(20))
    0.0001
    """
    if not len(differences):
        return float("nan")
    seen = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()  # sums that differ by rounding are the same
    generator = np.random.default_rng(random_state)
    step = max(1, 10_000_000 // len(differences))
    reached = 0
    for done in range(0, resamples, step):
        shape = (min(step, resamples - done), len(differences))
        signs = generator.integers(2, size=shape, dtype=np.int8)
        reached += int((np.abs(2 * (signs @ differences) - differences.sum()) >= seen).sum())
    return (reached + 1) / (resamples + 1)


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction for testing several hypotheses at once.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tested = [i for i, p in enumerate(p_values) if p == p]  # a pair without common queries has no p-value
    corrected, highest = [float("nan")] * len(p_values), 0.0
    for rank, i in enumerate(sorted(tested, key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(tested) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected


def _matched(first_name: str, first: Evaluation, name: str, other: Evaluation) -> np.ndarray:
    """Positions in `other` of the queries of `first`; raises when these are other queries."""
    position = {query: i for i, query in enumerate(other.query_ids.tolist())}
    wanted = first.query_ids.tolist()
    if len(position) != len(wanted) or any(query not in position for query in wanted):
        missing = next((query for query in wanted if query not in position), None)
        detail = (
            f"{len(wanted)} and {len(position)} queries" if missing is None else f"query {missing!r} is not in {name!r}"
        )
        raise InputError(f"{first_name!r} and {name!r} were evaluated on different queries: {detail}")
    return np.array([position[query] for query in wanted], np.int64)
