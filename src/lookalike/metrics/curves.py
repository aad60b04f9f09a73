"""Curves over all cutoffs or radii, averaged over queries; expected under ties, like the metrics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lookalike.core.errors import InputError
from lookalike.metrics.precision_recall import precision, precision_within, recall, recall_within

if TYPE_CHECKING:
    from lookalike.evaluation.tally import Tally

__all__ = ["Curve", "by_cutoff", "by_radius"]


class Curve(NamedTuple):
    """Mean precision and recall at each cutoff k or radius; recall over precision is the precision-recall curve."""

    at: np.ndarray
    precision: np.ndarray
    recall: np.ndarray


def by_cutoff(tally: "Tally", cutoffs: Sequence[int] | None = None, *, rel: int = 1) -> Curve:
    """Precision and recall of the top k, for given cutoffs or some hundred up to the whole gallery.

    Queries without a relevant item have no recall and are left out of both means.

    >>> import lookalike as la
    >>> tally = la.count_scores([[3, 2, 2]], la.grades([[1, 0, 1]]))
    >>> by_cutoff(tally, [1, 2, 3])
    Curve(at=array([1, 2, 3]), precision=array([1.        , 0.75      , 0.66666667]), recall=array([0.5 , 0.75, 1.  ]))
    """
    relevant, retrieved, total = _defined(tally, rel)
    deepest = int(retrieved.sum(1).max(initial=1))
    if cutoffs is None:
        at = np.unique(np.geomspace(1, deepest, min(deepest, 128)).round().astype(np.int64))
    else:
        at = np.asarray(cutoffs)
    if at.dtype.kind not in "iu" or (at < 1).any():
        raise InputError(f"cutoffs must be whole numbers from 1, got {at.min()}")
    values = [
        (precision(relevant, retrieved, k).expected.mean(), recall(relevant, retrieved, total, k).expected.mean())
        for k in at.tolist()
    ]
    return Curve(at, *np.array(values).reshape(-1, 2).T)


def by_radius(tally: "Tally", radii: Sequence[float] | None = None, *, rel: int = 1) -> Curve:
    """Precision and recall within each Hamming radius, 0 to n_bits by default.

    Queries without a relevant item have no recall and are left out of both means.
    """
    relevant, retrieved, total = _defined(tally, rel)
    if radii is None and tally.n_bits is None:
        raise InputError("pass the radii: only distances of codes are 0 to n_bits")
    at = np.arange((tally.n_bits or 0) + 1) if radii is None else np.asarray(radii)
    kept = tally.total_relevant(rel) > 0
    values = []
    for radius in at.tolist():
        inside = tally.within(radius)
        inside = inside[kept] if inside.ndim == 2 else inside
        values.append(
            (
                precision_within(relevant, retrieved, inside).expected.mean(),
                recall_within(relevant, total, inside).expected.mean(),
            )
        )
    return Curve(at, *np.array(values).reshape(-1, 2).T)


def _defined(tally: "Tally", rel: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if tally.unjudged.any():
        raise InputError("some ranked items are unjudged: use tally.with_unjudged('irrelevant' or 'condensed') first")
    total = tally.total_relevant(rel)
    kept = total > 0
    if not kept.any():
        raise InputError("no query has a relevant item: there is no curve")
    return tally.relevant(rel)[kept], tally.retrieved[kept], total[kept]
