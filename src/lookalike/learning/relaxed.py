"""Metrics of soft bins: their values, and how these change with what each bin holds."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lookalike._compiled import soft_kernels
from lookalike.learning.divided import Differences, differences, mean_discount

RELAXATIONS = ("exact", "paper")

__all__ = ["RELAXATIONS", "Slopes", "average_precision", "discounted_gain"]


class Slopes(NamedTuple):
    """A sum over bins for each query, and its derivatives over the items and the gain of each bin."""

    total: Tensor  # (n_queries,)
    by_items: Tensor  # (n_queries, n_bins)
    by_gain: Tensor


Relaxed = Callable[[Tensor, Tensor, bool, bool], Slopes]


def average_precision(items: Tensor, relevant: Tensor, exact: bool, compiled: bool) -> Slopes:
    """The number of relevant items times AP: on whole counts, that of every order of tied items in the mean.

    items, relevant: (n_queries, n_bins) of float64. With x = 1 + items before the bin, P relevant before it, c items
    and p relevant in it, a bin adds p · ((P + 1) · L[x, x + c] - (p - 1) · x · L[x, x + 1, x + c]), where L is digamma
    and brackets are divided differences. On whole numbers this is He et al. 2018, supplement eq. 10; between them it is
    smooth, which the slope (p - 1) / (c - 1) of that equation is not.
    """
    x, before = 1 + _before(items), _before(relevant)
    d = _compiled_differences(x, items, exact) if compiled else differences(x, items, exact)
    p, others = relevant, relevant - 1
    rank = before + 1
    return Slopes(
        (p * (rank * d.h - others * x * d.g)).sum(1),
        p * (rank * d.h_c - others * x * d.g_c) + _after(p * (rank * d.h_x - others * (d.g + x * d.g_x))),
        rank * d.h - (p + others) * x * d.g + _after(p * d.h),
    )


def discounted_gain(items: Tensor, gain: Tensor, exact: bool, compiled: bool) -> Slopes:  # noqa: ARG001  # as above
    """DCG: a bin adds its mean gain times the sum of the discounts of its ranks (He et al. 2018, eq. 7)."""
    mean, at_start, at_end = mean_discount(_before(items), items, exact)
    share = gain / torch.where(items > 0, items, 1)
    return Slopes((gain * mean).sum(1), share * (at_end - mean) + _after(share * (at_end - at_start)), mean)


def _before(counts: Tensor) -> Tensor:
    """Sums over the bins before each."""
    return torch.nn.functional.pad(counts.cumsum(1)[:, :-1], (1, 0))


def _after(slopes: Tensor) -> Tensor:
    """Sums over the bins behind each."""
    return torch.nn.functional.pad(slopes.flip(1).cumsum(1).flip(1)[:, 1:], (0, 1))


def _compiled_differences(x: Tensor, c: Tensor, exact: bool) -> Differences:
    out = torch.empty(6, x.numel(), dtype=torch.float64)
    soft_kernels().differences(x.numpy().ravel(), c.numpy().ravel(), exact, out.numpy())
    return Differences(*out.view(6, *x.shape))
