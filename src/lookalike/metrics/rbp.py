"""Rank-biased precision, and how much of it hangs on what nobody judged."""

import numpy as np

from lookalike.metrics.rank_sums import places_before
from lookalike.metrics.values import Values, row_sums

PARTS = ("sum", "residual")

__all__ = ["PARTS", "rank_biased_precision", "rank_biased_residual"]


def rank_biased_precision(items: np.ndarray, ranked: np.ndarray, p: float = 0.8, k: int | None = None) -> Values:
    """RBP (Moffat and Zobel 2008): (1 - p) · Σ p^(rank - 1) over the ranks of relevant items. Always defined.

    items, ranked: (n_queries, n_groups) counts of the relevant and of all items. Expected, each place of a group has
    the same share of its relevant items; best has them first, worst last.

    >>> rank_biased_precision([[1, 1]], [[1, 2]], p=0.5)                # rank 1, and rank 2 or 3
    Values(expected=array([0.6875]), best=array([0.75]), worst=array([0.625]))
    """
    r, n = np.asarray(items, float), np.asarray(ranked, float)
    before = places_before(n)
    places = np.clip((np.inf if k is None else k) - before, 0, n)
    most, least = np.minimum(r, places), np.maximum(0, places - n + r)
    share = np.divide(r, n, out=np.zeros_like(r), where=n > 0)
    parts = (
        share * _weights(before, places, p),
        _weights(before, most, p),
        _weights(before + places - least, least, p),
    )
    return Values(*(row_sums(part) for part in parts))


def rank_biased_residual(unjudged: np.ndarray, ranked: np.ndarray, p: float = 0.8, k: int | None = None) -> Values:
    """What RBP would gain if every unjudged item and every rank below the last one looked at were relevant.

    unjudged, ranked: (n_queries, n_groups) counts of the unjudged and of all items. Best is the largest residual.

    >>> rank_biased_residual([[1, 0]], [[1, 1]], p=0.5).expected        # rank 1, and ranks 3, 4, …: 1/2 + 1/4
    array([0.75])
    """
    seen = np.asarray(ranked, float).sum(1)
    unseen = p ** (seen if k is None else np.minimum(seen, k))
    return Values(*(part + unseen for part in rank_biased_precision(unjudged, ranked, p, k)))


def _weights(before: np.ndarray, n: np.ndarray, p: float) -> np.ndarray:
    """(1 - p) · Σ p^(rank - 1) over the n ranks that follow rank `before`: p^before - p^(before + n), without loss."""
    return np.asarray(p**before * -np.expm1(n * np.log(p)))
