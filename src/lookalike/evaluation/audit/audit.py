"""The audit itself: every way to count, in every order of the ties, and its exact expectation."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.figures import shown
from lookalike.core.files import fingerprints, provenance
from lookalike.core.threads import n_threads
from lookalike.evaluation.audit.orders import OrderSums, sums_by_order, without_exclusion
from lookalike.evaluation.audit.verdict import Candidate, Verdict, verdict
from lookalike.evaluation.audit.ways import ALL_BUT_LAST, Script, Way, scripts_of, ways_of
from lookalike.evaluation.count import whole_tally
from lookalike.evaluation.inputs import Ids, request_of_vectors
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import Judged, Relevance
from lookalike.evaluation.request import Request
from lookalike.evaluation.results import Score
from lookalike.evaluation.sources import source_of
from lookalike.evaluation.tally import Tally
from lookalike.metrics.areas import area_under_precision_recall
from lookalike.metrics.average_precision import average_precision_of_hits
from lookalike.metrics.metric import Metric
from lookalike.metrics.values import Values, Weighted

SHUFFLES = 100
_CUTS = {None: 0, ALL_BUT_LAST: 1}  # which cut of `sums_by_order` a way takes; 2 is rank 1, then come the cutoffs

__all__ = ["SHUFFLES", "Audit", "AuditRow", "audit"]


def audit(
    queries: Codes,
    gallery: Codes,
    relevance: Relevance,
    *,
    k: int | Iterable[int] = 1000,
    query_ids: Any = None,
    gallery_ids: Any = None,
    exclude: Any = None,
    shuffles: int = SHUFFLES,
    random_state: int = 0,
    threads: int | None = None,
) -> "Audit":
    """What each common script would have printed as the mean average precision of these codes.

    k: the cutoffs that scripts are tried with, beside none. exclude: as `evaluate` has it; with it, every number is
    also given with the excluded items in the ranking. shuffles: how many shuffled galleries to count.

    >>> import lookalike as la
    >>> codes = la.Codes.pack([[0, 0], [0, 0], [0, 1], [0, 1]])
    >>> found = audit(codes[:1], codes, la.same_label([7], [8, 7, 8, 7]), k=2)
    >>> row = found.rows[0]
    >>> row.orders["stored"], row.worst, round(row.expected, 4), round(row.best, 4)  # ranks 2 and 4, or better ones
    (0.5, 0.5, 0.6667, 0.8333)
    >>> "MIHash, mAP" in found.verdict("0.50").scripts
    True
    """
    if not isinstance(queries, Codes) or not isinstance(gallery, Codes):
        raise InputTypeError(
            "an audit is of codes, which tie: pass la.Codes; embeddings hardly ever tie, and la.evaluate has "
            "their AP with each denominator"
        )
    if isinstance(relevance, Judged):
        raise InputTypeError("an audit needs relevance for every item, as labels give it: judged pairs cover some")
    shuffles = whole_number("shuffles", shuffles, least=1)
    cutoffs = [whole_number("k", cutoff) for cutoff in (k if isinstance(k, Iterable) else [k])]
    request = request_of_vectors(queries, gallery, Ids(relevance, query_ids, gallery_ids, exclude), None)
    notes = list(request.about.get("notes", ()))
    size = f"the gallery has {len(gallery):,} items"
    notes += [f"k={cutoff} cuts nothing off: {size}; it is left out" for cutoff in cutoffs if cutoff >= len(gallery)]
    cutoffs = list(dict.fromkeys(cutoff for cutoff in cutoffs if cutoff < len(gallery)))
    many = n_threads(threads)
    rows, areas = _rows(request, cutoffs, shuffles, random_state, many)
    if request.excluded_groups is not None:
        rows += _rows(without_exclusion(request), cutoffs, 0, random_state, many, included=True)[0]
    about = request.about | {"notes": notes, "k": cutoffs, "shuffles": shuffles, "random_state": random_state}
    return Audit(rows, scripts_of(cutoffs), areas, len(request.query_ids), about | {"numpy": np.__version__})


@dataclass(frozen=True, eq=False)
class AuditRow:
    """One way to count: its exact expectation, best and worst, and what each order of the ties gives.

    expected, best, worst: nan where no closed form is known. shuffled: of each shuffled gallery, (n_shuffles,).
    included: whether what `exclude` leaves out ranks here.
    """

    way: Way
    expected: float
    best: float
    worst: float
    orders: dict[str, float]
    shuffled: np.ndarray
    included: bool = False

    @property
    def name(self) -> str:
        """What is counted, in words."""
        return f"{self.way}{', the query itself included' if self.included else ''}"

    @property
    def low(self) -> float:
        """The lowest number that an order of ties gives: the worst, or of the orders that were counted."""
        return self.worst if self.worst == self.worst else min(self.counted)

    @property
    def high(self) -> float:
        """The highest number that an order of ties gives, likewise."""
        return self.best if self.best == self.best else max(self.counted)

    @property
    def range(self) -> str:
        """What the order of ties alone can make of it, in a sentence."""
        exact = "" if self.expected != self.expected else f"; the exact expectation is {shown(self.expected)}"
        ends = f"anything from {shown(self.low)} to {shown(self.high)}"
        return f"By the order of tied items alone, {self.name} of these codes is {ends}{exact}."

    def same_numbers(self, other: "AuditRow") -> bool:
        """Whether another row of the same cut has the same numbers, such as where no query is empty."""
        if (self.included, self.way.cut) != (other.included, other.way.cut):
            return False
        own, others = (np.array([row.expected, row.best, row.worst, *row.counted]) for row in (self, other))
        return np.array_equal(own, others, equal_nan=True)

    @property
    def counted(self) -> list[float]:
        """The numbers of all orders that were counted."""
        return [*self.orders.values(), *self.shuffled.tolist()]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain Python values."""
        way = {"cut": self.way.cut, "norm": self.way.norm, "empty": self.way.empty, "first": self.way.first}
        exact = {"expected": self.expected, "best": self.best, "worst": self.worst}
        counted = {"orders": self.orders, "shuffled": self.shuffled.tolist()}
        return {"name": self.name, **way, "query_included": self.included, **exact, **counted}


@dataclass(frozen=True, eq=False)
class Audit:
    """Every way to count in every order of ties; `rows` has them, `scripts` says which of them people use."""

    rows: list[AuditRow]
    scripts: list[Script]
    by_threshold: float  # scikit-learn's average_precision_score, the mean over queries
    n_queries: int
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """What was assumed, and what looks like a mistake, in sentences."""
        return list(self.about["notes"])

    @cached_property
    def distinct(self) -> list[AuditRow]:
        """The rows without those that give the numbers of one above, such as where no query is empty."""
        kept: list[AuditRow] = []
        for row in self.rows:
            if not any(row.same_numbers(other) for other in kept):
                kept.append(row)
        return kept

    @cached_property
    def numbers(self) -> list[Candidate]:
        """Every number of the audit, those of scripts first."""
        by_way = {row.way: row for row in self.rows if not row.included}
        found = [
            Candidate(one.name, one.order, by_way[one.way].orders[one.order], by_way[one.way], one)
            for one in self.scripts
            if one.order != "threshold"
        ]
        used = [(one.order, one.row) for one in found]
        for row in self.distinct:
            for order, value in (row.orders | {"expected": row.expected}).items():
                if not any(order == other and row.same_numbers(script_row) for other, script_row in used):
                    found.append(Candidate(row.name, order, value, row))
        threshold = next(script for script in self.scripts if script.order == "threshold")
        found.append(Candidate(threshold.name, "threshold", self.by_threshold, self.rows[0], threshold))
        return sorted((one for one in found if one.value == one.value), key=lambda one: one.script is None)

    def verdict(self, reported: str | float) -> Verdict:
        """Which of the numbers are the one that somebody reported, to the digits that it is given with."""
        return verdict(reported, self.numbers, self.rows)

    def to_dict(self, reported: str | float | None = None) -> dict[str, Any]:
        """Everything, as plain Python values; with the verdict on a reported number, if there is one."""
        about = self.about | {"inputs": fingerprints(self.about.get("inputs", {}))}
        scripts = [
            {"script": one.name, "source": one.script.source, "order": one.order, "counted": one.row.name}
            | {"value": one.value}
            for one in self.numbers
            if one.script is not None
        ]
        out = provenance("audit", **about, queries=self.n_queries, scripts=scripts)
        out["rows"] = [row.to_dict() for row in self.rows]
        return out if reported is None else out | {"verdict": self.verdict(reported).to_dict()}


def _rows(
    request: Request, cutoffs: list[int], shuffles: int, random_state: int, threads: int, *, included: bool = False
) -> tuple[list[AuditRow], float]:
    """A row for each way to count, and the mean area by thresholds."""
    tally = whole_tally(source_of(request, threads=threads), Needs(scores=False))
    found = sums_by_order(request, cutoffs, shuffles, random_state, threads)
    totals = tally.total_relevant(1)
    if not totals.any():
        raise InputError("nothing is relevant to any query: do labels of queries and gallery mean the same?")
    places = _CUTS | {cutoff: 3 + number for number, cutoff in enumerate(cutoffs)}
    rows = []
    for way in ways_of(cutoffs):
        cut = places[way.cut]
        means = way.mean(found.sums[:, :, cut], found.hits[:, :, cut], found.hits[:, :, 2], totals)
        by_name = {name: float(means[found.of(name)[0]]) for name in dict.fromkeys(found.names) if name != "shuffled"}
        exact = _exact(way, tally, found)
        rows.append(AuditRow(way, *exact, by_name, means[found.of("shuffled")], included))
    return rows, _mean_area(tally)


def _exact(way: Way, tally: Tally, found: OrderSums) -> tuple[float, float, float]:
    """Expected, best and worst over all orders of ties; nan for ways that no metric is."""
    if not way.first:
        return (float("nan"),) * 3
    relevant, retrieved, total = tally.relevant(1), tally.retrieved, tally.total_relevant(1)
    if way.cut == ALL_BUT_LAST:  # queries may rank different numbers of items
        values = np.zeros((3, len(total)))
        for length in np.unique(found.lengths[found.lengths > 1]):
            some = found.lengths == length
            part = average_precision_of_hits(relevant[some], retrieved[some], total[some], int(length) - 1)
            values[:, some] = np.nan_to_num(np.array(part.settled()))
        return Score(Metric("AP"), Values(*values), 0).mean, float(values[1].mean()), float(values[2].mean())
    part = average_precision_of_hits(relevant, retrieved, total, way.cut, way.norm, way.empty)
    if isinstance(part, Weighted):
        score = Score(Metric.parse(way.metric), part.settled(), 0, part.weight)
    else:
        score = Score(Metric.parse(way.metric), Values(*map(np.nan_to_num, part.settled())), 0)
    return score.mean, score.best, score.worst


def _mean_area(tally: Tally) -> float:
    """The mean of scikit-learn's average_precision_score: 0 where nothing is relevant, 1 where everything is."""
    relevant, retrieved = tally.relevant(1), tally.retrieved
    areas = area_under_precision_recall(relevant, retrieved).expected
    nothing = relevant.sum(1) == 0
    return float(np.where(np.isnan(areas), np.where(nothing, 0.0, 1.0), areas).mean())
