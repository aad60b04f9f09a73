"""Areas under curves over score thresholds: ROC and precision-recall."""

import numpy as np

from lookalike.metrics.values import Values, divide

__all__ = ["area_under_precision_recall", "area_under_roc"]


def area_under_roc(relevant: np.ndarray, retrieved: np.ndarray) -> Values:
    """AUC: share of (relevant, other) pairs in the right order; a tied pair counts half. Nan with one class only.

    relevant, retrieved: (n_queries, n_groups) counts.

    >>> area_under_roc([[1, 1]], [[2, 2]])
    Values(expected=array([0.5]), best=array([0.75]), worst=array([0.25]))
    """
    r, n = np.asarray(relevant, float), np.asarray(retrieved, float)
    others = n - r
    pairs, tied = r.sum(1) * others.sum(1), np.einsum("ij,ij->i", r, others)
    right = pairs - np.einsum("ij,ij->i", r, others.cumsum(1))  # all but those at or ahead of the relevant one
    return Values(*(divide(right + share * tied, pairs) for share in (0.5, 1, 0)))


def area_under_precision_recall(relevant: np.ndarray, retrieved: np.ndarray) -> Values:
    """PRAUC: precision at each threshold times the recall it adds; a tie group is one threshold, so no order matters.

    Nan with one class only.

    >>> area_under_precision_recall([[1, 1]], [[2, 2]]).expected        # 1/2 · 1/2 + 1/2 · 2/4
    array([0.5])
    """
    r, n = np.asarray(relevant, float), np.asarray(retrieved, float)
    ranked = n.cumsum(1)
    precision = r.cumsum(1)
    precision /= np.maximum(ranked, 1)
    one_class = r.sum(1) == n.sum(1)
    value = np.where(one_class, np.nan, divide(np.einsum("ij,ij->i", r, precision), r.sum(1)))
    return Values(value, value, value)
