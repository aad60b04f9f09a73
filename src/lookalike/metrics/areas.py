"""Areas under curves over score thresholds: ROC and precision-recall."""

import numpy as np

from lookalike.core.kernels import kernels
from lookalike.metrics.values import Values, divide

__all__ = ["area_under_precision_recall", "area_under_roc", "threshold_sums"]


def area_under_roc(relevant: np.ndarray, retrieved: np.ndarray) -> Values:
    """AUC: share of (relevant, other) pairs in the right order; a tied pair counts half. Nan with one class only.

    relevant, retrieved: (n_queries, n_groups) counts.

    >>> area_under_roc([[1, 1]], [[2, 2]])
    Values(expected=array([0.5]), best=array([0.75]), worst=array([0.25]))
    """
    right, tied, _, hits, others = _sums(relevant, retrieved)
    return Values(*(divide(right + share * tied, hits * others) for share in (0.5, 1, 0)))


def area_under_precision_recall(relevant: np.ndarray, retrieved: np.ndarray) -> Values:
    """PRAUC: precision at each threshold times the recall it adds; a tie group is one threshold, so no order matters.

    Nan with one class only.

    >>> area_under_precision_recall([[1, 1]], [[2, 2]]).expected        # 1/2 · 1/2 + 1/2 · 2/4
    array([0.5])
    """
    _, _, area, hits, others = _sums(relevant, retrieved)
    value = np.where(others > 0, divide(area, hits), np.nan)
    return Values(value, value, value)


def _sums(relevant: np.ndarray, retrieved: np.ndarray) -> np.ndarray:
    r, n = (np.ascontiguousarray(counts, float) for counts in (relevant, retrieved))
    out = np.empty((5, len(r)))
    kernels(10 * r.size).threshold_sums(r, n, out)  # a twin of the function below
    return out


def threshold_sums(relevant: np.ndarray, retrieved: np.ndarray, out: np.ndarray) -> None:
    """Fill `out`: (relevant, other) pairs in the right order, tied ones, precision at relevant items, relevant, others.

    The precision at an item is that of the threshold that lets in its whole group.
    """
    others = retrieved - relevant
    out[1] = np.einsum("ij,ij->i", relevant, others)
    out[0] = relevant.sum(1) * others.sum(1) - np.einsum("ij,ij->i", relevant, others.cumsum(1))
    out[2] = np.einsum("ij,ij->i", relevant, relevant.cumsum(1) / np.maximum(retrieved.cumsum(1), 1))
    out[3], out[4] = relevant.sum(1), others.sum(1)
