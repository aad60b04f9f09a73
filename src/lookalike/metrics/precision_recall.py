"""Precision and recall of the top k, or of the ball of a radius."""

import numpy as np

from lookalike.metrics.rank_sums import places_before
from lookalike.metrics.values import Values, divide, row_sums

__all__ = ["hits", "precision", "precision_at_r", "precision_within", "recall", "recall_within"]


def precision(relevant: np.ndarray, retrieved: np.ndarray, k: int) -> Values:
    """P@k: relevant items in the top k, over k.

    relevant, retrieved: (n_queries, n_groups) counts. Always defined; a gallery smaller than k is still divided by k.

    >>> precision([[1, 1]], [[1, 4]], k=3)                              # the first, and half of one of four
    Values(expected=array([0.5]), best=array([0.66666667]), worst=array([0.33333333]))
    """
    return Values(*(count / k for count in hits(relevant, retrieved, k)))


def recall(relevant: np.ndarray, retrieved: np.ndarray, total: np.ndarray, k: int) -> Values:
    """R@k: relevant items in the top k, over all relevant ones. Nan where nothing is relevant.

    >>> recall([[1, 1]], [[1, 4]], [2], k=3).expected
    array([0.75])
    """
    return Values(*(divide(count, np.asarray(total)) for count in hits(relevant, retrieved, k)))


def precision_at_r(relevant: np.ndarray, retrieved: np.ndarray, total: np.ndarray | None = None) -> Values:
    """RPrecision: relevant items in the top R, over R; expected, best and worst under ties.

    R is the number of relevant items of the query itself, found or not: `total`. Nan where nothing is relevant.

    >>> precision_at_r([[1, 1]], [[1, 4]])                              # R = 2: the first, and one of four tied
    Values(expected=array([0.625]), best=array([1.]), worst=array([0.5]))
    """
    total = np.asarray(relevant, float).sum(1) if total is None else np.asarray(total, float)
    return Values(*(divide(count, total) for count in hits(relevant, retrieved, total[:, None])))


def precision_within(relevant: np.ndarray, retrieved: np.ndarray, inside: np.ndarray) -> Values:
    """P(radius=r): relevant items among those within the radius; an empty ball has precision 0. No ties matter.

    inside: which groups are within, (n_groups,) or (n_queries, n_groups) of bool.

    >>> precision_within([[1, 1, 5]], [[1, 3, 5]], [True, True, False]).expected
    array([0.5])
    """
    hit, items = (np.where(inside, counts, 0).sum(1) for counts in (relevant, retrieved))
    value = np.divide(hit, items, out=np.zeros(len(hit)), where=items > 0)
    return Values(value, value, value)


def recall_within(relevant: np.ndarray, total: np.ndarray, inside: np.ndarray) -> Values:
    """R(radius=r): relevant items within the radius, over all relevant ones. Nan where nothing is relevant."""
    value = divide(np.where(inside, relevant, 0).sum(1), np.asarray(total))
    return Values(value, value, value)


def hits(relevant: np.ndarray, retrieved: np.ndarray, k: int | np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Relevant items in the top k: expected, most, least. k: one, or one of each query, (n_queries, 1)."""
    r, n = np.asarray(relevant, float), np.asarray(retrieved, float)
    places = np.clip(k - places_before(n), 0, n)
    expected = np.divide(places * r, n, out=np.zeros_like(r), where=n > 0)
    return row_sums(expected), np.minimum(places, r).sum(1), np.maximum(0, places - n + r).sum(1)
