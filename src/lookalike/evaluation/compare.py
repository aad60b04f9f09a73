"""Comparing evaluations of the same queries: differences, intervals and corrected p-values."""

import itertools
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.bootstrap import bootstrap_interval
from lookalike.core.checks import choice
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.tables.formats import TableFormats
from lookalike.core.tables.render import as_html, as_text
from lookalike.core.tables.table import DAGGER, ResultTable, TableCell, TableHead, ValueRange
from lookalike.evaluation.result_tables import direction, log_key, safe_names, systems_table
from lookalike.evaluation.results import Evaluation, as_table
from lookalike.evaluation.same_data import check_same_data, matched_queries, notes_on_inputs
from lookalike.metrics.metric import Metric, parse_all

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger("lookalike")

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
class Comparison(TableFormats):
    """Every pair of systems on every metric they share, or with a baseline, every other system and it."""

    differences: list[Difference]
    level: float
    evaluations: dict[str, Evaluation]
    baseline: str | None = None
    notes: tuple[str, ...] = ()  # what readers should know of the data, in sentences

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that all systems have."""
        return list(dict.fromkeys(difference.metric for difference in self.differences))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each metric and pair."""
        return [{**vars(difference), "metric": difference.metric.label} for difference in self.differences]

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with a row for each metric and pair."""
        return as_table(self.rows())

    def to_table(self, *, pairs: bool = False, ties: bool = False, significance: bool = False) -> ResultTable:
        """A row for each system and a column for each metric; or with pairs, a row for each metric and pair.

        ties: best and worst stand beside each number. significance: a dagger marks systems that cannot be told from the
        best one; with a baseline, those that differ from it.
        """
        if pairs:
            if ties or significance:
                raise InputError("ties and significance are of the table of systems: leave out pairs")
            return self._pairs()
        table = systems_table(self.evaluations, self.metrics, ties, self._daggers() if significance else {})
        legend = (*table.legend, self._dagger_legend()) if significance else table.legend
        return replace(table, legend=legend, notes=self.notes)

    def _pairs(self) -> ResultTable:
        numbers = ("difference", f"{self.level:.0%} interval", "p", "p corrected")
        rows = [
            [
                d.metric.label,
                f"{d.first} - {d.second}",
                TableCell(d.difference, signed=True),
                TableCell(ValueRange(d.low, d.high), signed=True),
                *(TableCell(p, f"{p:.4f}" if p == p else None) for p in (d.p_value, d.corrected)),
            ]
            for d in self.differences
        ]
        return ResultTable.of(["metric", "pair", *map(TableHead, numbers)], rows, notes=self.notes)

    def _daggers(self) -> dict[tuple[str, Metric], str]:
        """The numbers that a dagger stands behind."""
        corrected = {(pair, d.metric): d.corrected for d in self.differences for pair in _both_ways(d)}
        marked: list[tuple[str, Metric]] = []
        for metric in self.metrics:
            means = {name: e[metric].mean for name, e in self.evaluations.items() if e[metric].mean == e[metric].mean}
            if not means:
                continue
            sign = 1 if direction(metric) is not False else -1
            others = self.baseline or max(means, key=lambda name: sign * means[name])
            for name in means:
                differs = corrected.get(((name, others), metric), float("nan")) < 1 - self.level
                if name != others and differs == (self.baseline is not None):
                    marked.append((name, metric))
        return dict.fromkeys(marked, DAGGER)

    def _dagger_legend(self) -> str:
        test = f"paired randomisation test, Holm's correction, p {{}} {1 - self.level:.2g}"
        if self.baseline is not None:
            return f"{DAGGER} differs significantly from {self.baseline} ({test.format('<')})."
        return f"{DAGGER} does not differ significantly from the best ({test.format('≥')})."

    def log(self, prefix: str = "") -> dict[str, float]:
        """Every number by a name that trackers accept: of each system, and the difference and p-value of each pair.

        "good_minus_bad/RR" is a difference, "good_minus_bad/RR_p" its p-value with Holm's correction.
        """
        names = safe_names(self.evaluations)
        numbers: dict[str, float] = {}
        for name, evaluation in self.evaluations.items():
            shared = Evaluation({m: evaluation[m] for m in self.metrics}, evaluation.query_ids, evaluation.about)
            numbers |= shared.log(f"{prefix}{names[name]}/")
        for d in self.differences:
            key = f"{prefix}{names[d.first]}_minus_{names[d.second]}/{log_key(d.metric)}"
            numbers |= {key: d.difference, f"{key}_p": d.corrected}
        return numbers

    def __str__(self) -> str:
        return as_text(self._pairs())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self._pairs())


def _both_ways(difference: Difference) -> tuple[tuple[str, str], tuple[str, str]]:
    return (difference.first, difference.second), (difference.second, difference.first)


def compare(
    evaluations: Mapping[str, Evaluation],
    *,
    metrics: str | Iterable[str | Metric] | None = None,
    baseline: str | None = None,
    level: float = 0.95,
    random_state: int = 0,
    resamples: int = 9999,
) -> Comparison:
    """Compare systems evaluated on the same queries, matched by id, on every metric that all of them have.

    Paired bootstrap interval of the difference, paired randomisation test, Holm's correction over the pairs of systems.
    metrics: those to compare, if not all. baseline: a system that each other one is compared with, in place of every
    pair.

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
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95, got {level}")
    names = list(evaluations)
    if baseline is not None:
        choice("baseline", baseline, names)
    first = evaluations[names[0]]
    shared = [metric for metric in first if all(metric in evaluation.scores for evaluation in evaluations.values())]
    if not shared:
        raise InputError("the evaluations have no metric in common")
    if metrics is not None:
        shared = _wanted(parse_all(metrics), shared)
    orders = {name: matched_queries(names[0], first, name, evaluations[name]) for name in names}
    check_same_data(evaluations, shared)
    pairs = [pair for pair in itertools.combinations(names, 2) if baseline is None or baseline in pair]
    differences = []
    for metric in shared:
        tested = []
        for a, b in ((b, a) if a == baseline else (a, b) for a, b in pairs):
            values = evaluations[a][metric].influence[orders[a]] - evaluations[b][metric].influence[orders[b]]
            values = values[~np.isnan(values)]
            mean = float(values.mean()) if len(values) else float("nan")
            low, high = bootstrap_interval(values, level, random_state, min(resamples, 2000))
            tested.append((a, b, mean, low, high, randomisation_test(values, random_state, resamples)))
        corrected = holm([row[-1] for row in tested])
        differences += [Difference(metric, *row, p) for row, p in zip(tested, corrected, strict=True)]
    notes = notes_on_inputs(evaluations)
    for note in notes:
        logger.warning("%s", note)
    return Comparison(differences, level, dict(evaluations), baseline, tuple(notes))


def _wanted(metrics: list[Metric], shared: list[Metric]) -> list[Metric]:
    """The metrics that are asked for; raises for one that some evaluation lacks."""
    for metric in metrics:
        if metric not in shared:
            raise InputError(f"not every evaluation has {metric}: all of them have {', '.join(map(str, shared))}")
    return metrics


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
