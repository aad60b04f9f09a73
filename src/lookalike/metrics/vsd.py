"""The hit rate and reciprocal rank of visual similarity discovery (Barkan et al. 2023), which count every positive."""

import numpy as np

from lookalike.metrics.micro_average import Ratio
from lookalike.metrics.precision_recall import hits
from lookalike.metrics.rank_sums import inverse_ranks, places_before
from lookalike.metrics.values import Part, Values, divide, row_sums

HIT_NORMS = ("k", "positives", "pairs")

__all__ = ["HIT_NORMS", "discovery_hit_rate", "discovery_reciprocal_rank"]


def discovery_hit_rate(relevant: np.ndarray, retrieved: np.ndarray, total: np.ndarray, k: int, norm: str = "k") -> Part:
    """VSDHR@k: positives in the top k of all queries, expected, best and worst under ties, over what `norm` says.

    relevant, retrieved: (n_queries, n_groups) counts; total: positives of each query, found or not. norm: "k", k for
    each query with a positive (nan for the others); "positives", min(k, positives) of each query; "pairs", all
    positives. The last two divide one sum over queries by another.

    >>> relevant, retrieved, total = [[1, 1], [0, 1]], [[1, 1], [1, 1]], np.array([3, 1])
    >>> discovery_hit_rate(relevant, retrieved, total, k=2).settled().expected
    array([1. , 0.5])
    >>> discovery_hit_rate(relevant, retrieved, total, k=2, norm="pairs").settled().expected.mean()    # 3 of 4
    np.float64(0.75)
    """
    counts = hits(relevant, retrieved, k)
    if norm == "k":
        return Values(*(np.where(total > 0, part / k, np.nan) for part in counts))
    return Ratio(*counts, np.minimum(total, k) if norm == "positives" else np.asarray(total))


def discovery_reciprocal_rank(relevant: np.ndarray, retrieved: np.ndarray, total: np.ndarray, k: int) -> Values:
    """VSDMRR@k: Σ 1/rank of all positives in the top k, over 1 + 1/2 + … + 1/k, expected, best and worst under ties.

    relevant, retrieved: (n_queries, n_groups) counts; total: positives of each query. Nan where there is none.

    >>> discovery_reciprocal_rank([[0, 1]], [[1, 2]], np.array([1]), k=3)       # rank 2 or 3, over 11/6
    Values(expected=array([0.22727273]), best=array([0.27272727]), worst=array([0.18181818]))
    """
    r, n = np.asarray(relevant, float), np.asarray(retrieved, float)
    before = places_before(n)
    places = np.clip(k - before, 0, n)
    most, least = np.minimum(r, places), np.maximum(0, places - n + r)
    share = np.divide(r, n, out=np.zeros_like(r), where=n > 0)
    parts = (
        share * inverse_ranks(before, places),
        inverse_ranks(before, most),
        inverse_ranks(before + places - least, least),
    )
    whole = np.where(total > 0, inverse_ranks(np.array(0), np.array(k)), 0)
    return Values(*(divide(row_sums(part), whole) for part in parts))
