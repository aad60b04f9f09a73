"""Relaxed metrics of counts exactly as He et al. 2018 print them, infinities included, and the bound on their error.

Losses do not use them: a first bin makes them infinite, and so nothing could be learned from them.
"""

from typing import Any

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError

__all__ = ["inverse_rank_error_bound", "relaxed_ap_as_printed", "relaxed_dcg_as_printed"]


def relaxed_ap_as_printed(items: Any, relevant: Any) -> np.ndarray:
    """AP_r of counts, He et al. 2018, supplement eq. 13, with its own logarithms: infinite at the first occupied bin.

    items, relevant: (n_queries, n_bins), or (n_bins,) for one query: how many items lie in each bin of distances, in
    rank order, and how many of them are relevant; whole numbers or not. Returns (n_queries,).

    A bin without relevant items adds 0. The first bin that holds items has ln(C_d / 0): if any of its items are
    relevant, the result is inf (-inf if it holds less than one item, where the factor of the logarithm is negative). A
    later bin of exactly one item divides 0 by 0, (c+ - 1) / (c - 1): the result is nan (section C of the paper takes
    1/N_d for such a bin, which is no relaxation). It is nan for a query without relevant items. Losses have
    `relaxation="exact"`, or "paper" with shifted limits, which are finite.

    >>> relaxed_ap_as_printed([[2, 3, 4]], [[0, 2, 1]])        # with ln(5/2) and ln(9/5); the exact value is 0.3827
    array([0.37846992])
    >>> relaxed_ap_as_printed([[2, 3, 4]], [[1, 2, 1]])
    array([inf])
    """
    c, p, before = _counts(items, relevant, "relevant")
    if (p > c).any():
        raise InputError("relevant must be at most items in every bin")
    relevant_before = p.cumsum(1) - p
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (p - 1) / (c - 1)
        factor = relevant_before + 1 - slope * (before + 1)
        bins = p * slope + p / c * factor * np.log((before + c) / before)
        first = (before == 0) & (p > 0)
        bins = np.where(first, np.where((c < 1) & (p < c), -np.inf, np.inf), np.where(p > 0, bins, 0))
        return np.asarray(bins.sum(1) / p.sum(1))


def relaxed_dcg_as_printed(items: Any, gain: Any) -> np.ndarray:
    """DCG_r of counts, He et al. 2018, supplement eq. 16, with Li(C + 1): infinite at the first occupied bin.

    items: as in `relaxed_ap_as_printed`; gain: the sum of the gains of the items in each bin. Returns (n_queries,). A
    bin without gain adds 0. The first bin that holds items has -Li(1), which is infinite: if any of them gains
    something, the result is inf.

    >>> relaxed_dcg_as_printed([[2, 3, 4]], [[0, 2, 1]])       # the exact value is 1.2049
    array([1.2880524])
    >>> relaxed_dcg_as_printed([[2, 3, 4]], [[1, 2, 1]])
    array([inf])
    """
    from scipy.special import expi

    c, g, before = _counts(items, gain, "gain")
    with np.errstate(divide="ignore", invalid="ignore"):  # Li(x) = Ei(ln x), and Ei(0) is -inf
        bins = np.log(2) * g / c * (expi(np.log(before + c + 1)) - expi(np.log(before + 1)))
    return np.asarray(np.where(g > 0, bins, 0).sum(1))


def inverse_rank_error_bound(before: Any, items: Any) -> np.ndarray:
    """How far ln(N_d / N_(d-1)) is at most from the sum of 1/rank that it stands for: He et al. 2018, eq. 21.

    before: N_(d-1), the items before a bin; items: n_d, those in it, whole numbers. The bound is n_d / (2 · N_(d-1) ·
    N_d). Behind at least one item it holds, for every n_d. In front of all items, N_(d-1) = 0, the logarithm is
    infinite and so is the bound: it bounds nothing there. Last in print, n_d / (2 · N_(d-1)²) is larger still.

    >>> inverse_rank_error_bound([0, 1, 10], [5, 5, 5])
    array([       inf, 0.41666667, 0.01666667])
    """
    n_before, n = (np.asarray(as_numpy(values), np.float64) for values in (before, items))
    for name, values in (("before", n_before), ("items", n)):
        if not ((values >= 0) & (values == np.floor(values)) & np.isfinite(values)).all():
            raise InputError(f"{name} must be whole numbers from 0")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(n == 0, 0.0, n / (2 * n_before * (n_before + n))))


def _counts(items: Any, others: Any, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items, what else each bin has, and the items before each bin, all (n_queries, n_bins) of float64."""
    c, p = (np.atleast_2d(np.asarray(as_numpy(values), np.float64)) for values in (items, others))
    if c.ndim != 2 or c.shape != p.shape:
        raise InputError(f"items and {name} must both be (n_queries, n_bins), got {c.shape} and {p.shape}")
    if not ((c >= 0) & (p >= 0) & np.isfinite(c) & np.isfinite(p)).all() or (p[c == 0] > 0).any():
        raise InputError(f"items and {name} must be 0 or more and finite, and a bin without items has no {name}")
    return c, p, c.cumsum(1) - c
