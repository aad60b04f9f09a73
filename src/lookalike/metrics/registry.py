"""Every family of metrics: how it is computed from a tally, and which parameters its names may have."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.errors import InputError
from lookalike.metrics.areas import area_under_precision_recall, area_under_roc
from lookalike.metrics.average_precision import EMPTY, NORMS, average_precision_at_r, average_precision_of_hits
from lookalike.metrics.bpref import binary_preference
from lookalike.metrics.dcg import DISCOUNTS, GAINS, dcg, ndcg
from lookalike.metrics.false_non_match import PooledFalseNonMatch, false_non_match_rate
from lookalike.metrics.lgap import local_group_average_precision
from lookalike.metrics.micro_average import PooledPrecisionRecall, PooledRoc
from lookalike.metrics.precision_recall import precision, precision_at_r, precision_within, recall, recall_within
from lookalike.metrics.rbp import PARTS, rank_biased_precision, rank_biased_residual
from lookalike.metrics.reciprocal_rank import hit, reciprocal_rank
from lookalike.metrics.values import Part, Values
from lookalike.metrics.vsd import HIT_NORMS, discovery_hit_rate, discovery_reciprocal_rank

if TYPE_CHECKING:
    from lookalike.evaluation.tally import Tally

AVERAGES = ("macro", "micro")
NEGATIVES = ("judged", "sampled", "both")
KEPT = "kept"  # the policy of measures made for unjudged items

__all__ = ["AVERAGES", "KEPT", "MEASURES", "NEGATIVES", "NUMBER", "WHOLE", "Measure"]


@dataclass(frozen=True)
class Measure:
    """A family of metrics: how it is computed from a tally, and which parameters its names may have."""

    summary: str
    compute: Callable[..., Part]  # of the tally, k and the parameters
    parameters: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # choices, the first the default
    cutoff: str = "optional"  # "optional", "required", "none", or "radius" where @r is one
    undefined: str = "zero"
    where_undefined: str = "nothing relevant"
    higher_is_better: bool = True
    unjudged: str = "error"  # how unjudged items count by default; "kept": the measure always sees them as unjudged


def _groups(tally: "Tally", rel: int, k: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Relevant and retrieved items of the groups that a cutoff reaches."""
    return tally.relevant(rel)[:, tally.top(k)], tally.retrieved[:, tally.top(k)]


def _binary(function: Callable[..., Values]) -> Callable[..., Values]:
    """A metric of relevant and retrieved items alone."""

    def compute(tally: "Tally", rel: int, **options: Any) -> Values:
        return function(*_groups(tally, rel, options.get("k")), **options)

    return compute


def _binary_with_total(function: Callable[..., Part]) -> Callable[..., Part]:
    """A metric that also needs how many relevant items there are, ranked or not."""

    def compute(tally: "Tally", rel: int, **options: Any) -> Part:
        return function(*_groups(tally, rel, options["k"]), total=tally.total_relevant(rel), **options)

    return compute


def _at_r(function: Callable[..., Values]) -> Callable[..., Values]:
    """A metric of the top R of each query, R being its number of relevant items, ranked or not."""

    def compute(tally: "Tally", rel: int) -> Values:
        return function(tally.relevant(rel), tally.retrieved, tally.total_relevant(rel))

    return compute


def _precision(tally: "Tally", rel: int, radius: float | None, k: int | None) -> Values:
    if radius is not None:
        return precision_within(tally.relevant(rel), tally.retrieved, tally.within(radius))
    assert k is not None
    return precision(*_groups(tally, rel, k), k)


def _recall(tally: "Tally", rel: int, radius: float | None, k: int | None) -> Values:
    total = tally.total_relevant(rel)
    if radius is not None:
        return recall_within(tally.relevant(rel), total, tally.within(radius))
    assert k is not None
    return recall(*_groups(tally, rel, k), total, k)


def _lgap(tally: "Tally", rel: int, k: int) -> Values:
    if tally.n_bits is None:
        raise InputError("LGAP is a metric of codes: embeddings and scores have no code space to fill")
    if tally.condensed:
        raise InputError("LGAP needs every item's code: it has no value when unjudged items are left out (condensed)")
    if tally.largest is None or tally.largest.shape[1] <= min(k, tally.n_bits):
        raise InputError(f"LGAP@{k} needs the codes within radius {k}: count with radius={k}")
    return local_group_average_precision(tally.relevant(rel), tally.largest, tally.n_bits, k)


def _dcg(tally: "Tally", k: int | None, **options: Any) -> Values:
    return dcg(tally.counts[:, tally.top(k)], k, **options)


def _ndcg(tally: "Tally", k: int | None, **options: Any) -> Values:
    return ndcg(tally.counts[:, tally.top(k)], tally.totals, k, **options)


def _area(macro: Callable[..., Values], micro: Callable[..., Part]) -> Callable[..., Part]:
    """An area of each query, or one of all pairs of all queries. The count has chosen the negatives already.

    Judged items that have no rank tie below all that have one.
    """

    def compute(tally: "Tally", rel: int, average: str, **_: Any) -> Part:
        if average == "macro":
            return macro(*tally.judged_groups(rel))
        return micro(*tally.scored_groups(rel))

    return compute


def _fnmr(tally: "Tally", fmr: float, rel: int, average: str, **_: Any) -> Part:
    if average == "macro":
        return false_non_match_rate(*tally.judged_groups(rel), fmr)
    return PooledFalseNonMatch(*tally.scored_groups(rel), np.full(len(tally), fmr))


def _judged(tally: "Tally", k: int) -> Values:
    return precision(tally.retrieved[:, tally.top(k)], tally.ranked[:, tally.top(k)], k)


def _bpref(tally: "Tally", rel: int) -> Values:
    relevant, total = tally.relevant(rel), tally.total_relevant(rel)
    return binary_preference(relevant, tally.retrieved - relevant, total, tally.totals.sum(1) - total)


def _rbp(tally: "Tally", p: float, rel: int, part: str, k: int | None) -> Values:
    if part == "residual":
        return rank_biased_residual(tally.unjudged, tally.ranked, p, k)
    return rank_biased_precision(tally.relevant(rel)[:, tally.top(k)], tally.ranked[:, tally.top(k)], p, k)


WHOLE, NUMBER = "whole number", "number"  # parameters that are not a choice of words
_REL = (1, WHOLE)
_RADIUS = (None, NUMBER)
_AREA = {"rel": _REL, "average": AVERAGES, "negatives": NEGATIVES}

MEASURES: dict[str, Measure] = {
    "AP": Measure(
        "mean over the relevant items of the precision at their rank",
        _binary_with_total(average_precision_of_hits),
        {"norm": NORMS, "rel": _REL, "empty": EMPTY},
    ),
    "nDCG": Measure(
        "gains discounted by rank, over those of the ideal ranking",
        _ndcg,
        {"gain": GAINS, "discount": DISCOUNTS},
    ),
    "DCG": Measure(
        "gains discounted by rank, summed", _dcg, {"gain": GAINS, "discount": DISCOUNTS}, where_undefined="never"
    ),
    "P": Measure(
        "share of relevant items in the top k, or within a radius",
        _precision,
        {"radius": _RADIUS, "rel": _REL},
        cutoff="required",
        where_undefined="never",
    ),
    "R": Measure(
        "share of all relevant items that are in the top k, or within a radius",
        _recall,
        {"radius": _RADIUS, "rel": _REL},
        cutoff="required",
    ),
    "Hit": Measure("whether any relevant item is in the top k", _binary(hit), {"rel": _REL}, where_undefined="never"),
    "RR": Measure("1 / rank of the first relevant item", _binary_with_total(reciprocal_rank), {"rel": _REL}),
    "AUC": Measure(
        "share of (relevant, other) pairs in the right order; a tie counts half",
        _area(area_under_roc, PooledRoc),
        _AREA,
        cutoff="none",
        undefined="skip",
        where_undefined="one class only",
        unjudged="condensed",
    ),
    "PRAUC": Measure(
        "area under the precision-recall curve, by steps; a tie group is one threshold",
        _area(area_under_precision_recall, PooledPrecisionRecall),
        _AREA,
        cutoff="none",
        undefined="skip",
        where_undefined="one class only",
        unjudged="condensed",
    ),
    "MAP@R": Measure(
        "sum of the precisions at the relevant items of the top R, over R, the query's number of relevant items",
        _at_r(average_precision_at_r),
        {"rel": _REL},
        cutoff="none",
    ),
    "RPrecision": Measure(
        "share of relevant items in the top R, R being the query's number of relevant items",
        _at_r(precision_at_r),
        {"rel": _REL},
        cutoff="none",
    ),
    "FNMR": Measure(
        "share of the relevant pairs below the threshold that a share fmr of the other pairs passes; lower is better",
        _fnmr,
        {"fmr": (0.001, NUMBER), "rel": _REL, "average": AVERAGES[::-1], "negatives": NEGATIVES},
        cutoff="none",
        undefined="skip",
        where_undefined="one class only",
        higher_is_better=False,
        unjudged="condensed",
    ),
    "LGAP": Measure(
        "precision within radius 0…r, weighed by how evenly items fill the codes there",
        _lgap,
        {"rel": _REL},
        cutoff="radius",
        where_undefined="never",
    ),
    "Judged": Measure(
        "share of the top k that somebody judged", _judged, cutoff="required", where_undefined="never", unjudged=KEPT
    ),
    "Bpref": Measure(
        "whether judged relevant items stand above judged irrelevant ones; unjudged items do not matter",
        _bpref,
        {"rel": _REL},
        cutoff="none",
        unjudged=KEPT,
    ),
    "RBP": Measure(
        "relevant items weighed by (1 - p) · p^(rank - 1); part='residual' is what unjudged items could add",
        _rbp,
        {"p": (0.8, NUMBER), "rel": _REL, "part": PARTS},
        where_undefined="never",
        unjudged=KEPT,
    ),
    "VSDHR": Measure(
        "positives in the top k of all queries, over k, min(k, positives) or positives of each; not the usual hit rate",
        _binary_with_total(discovery_hit_rate),
        {"norm": HIT_NORMS, "rel": _REL},
        cutoff="required",
        undefined="skip",
    ),
    "VSDMRR": Measure(
        "1 / rank of every positive in the top k, over that of k positives; not the usual reciprocal rank",
        _binary_with_total(discovery_reciprocal_rank),
        {"rel": _REL},
        cutoff="required",
        undefined="skip",
    ),
}
