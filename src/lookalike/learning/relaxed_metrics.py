"""Metrics of soft bins: their values, and how these change with what each bin holds."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.core.kernels import soft_kernels
from lookalike.learning.divided_differences import differences, mean_discount

RELAXATIONS = ("exact", "paper")
LEAST = 1e-12  # items of a bin, in logarithms

__all__ = ["AVERAGE_PRECISION", "DISCOUNTED_GAIN", "MUTUAL_INFORMATION", "RELAXATIONS", "RelaxedMetric", "Slopes"]


class Slopes(NamedTuple):
    """A sum over bins for each query, and its derivatives over the items and the gain of each bin."""

    total: Tensor  # (n_queries,)
    by_items: Tensor  # (n_queries, n_bins)
    by_gain: Tensor


class RelaxedMetric(NamedTuple):
    """A metric of soft bins, up to what it is divided by, and that."""

    slopes: Callable[[Tensor, Tensor, bool, bool], Slopes]  # of items, gain, exact, compiled
    ideal: Callable[[Tensor, Tensor, bool], Tensor]  # of items of each level, gain of each level, exact: (n_queries,)


def average_precision(items: Tensor, relevant: Tensor, exact: bool, compiled: bool) -> Slopes:
    """The number of relevant items times AP: on whole counts, that of every order of tied items in the mean.

    items, relevant: (n_queries, n_bins) of float64. With x = 1 + items before the bin, P relevant before it, c items
    and p relevant in it, a bin adds p · ((P + 1) · L[x, x + c] - (p - 1) · x · L[x, x + 1, x + c]), where L is digamma
    and brackets are divided differences. On whole numbers this is He et al. 2018, supplement eq. 10; between them it is
    smooth, which the slope (p - 1) / (c - 1) of that equation is not.
    """
    if compiled:
        return _compiled_average_precision(items, relevant, exact)
    use = _in_use(items)
    p, rank = relevant[use], _before(relevant)[use] + 1
    x = _before(items)[use] + 1
    d = differences(x, items[use], exact)
    others = p - 1
    return _slopes(
        use,
        total=p * (rank * d.h - others * x * d.g),
        by_items=p * (rank * d.h_c - others * x * d.g_c),
        by_earlier_items=p * (rank * d.h_x - others * (d.g + x * d.g_x)),
        by_gain=rank * d.h - (p + others) * x * d.g,
        by_earlier_gain=p * d.h,
    )


def discounted_gain(
    items: Tensor,
    gain: Tensor,
    exact: bool,
    compiled: bool,  # noqa: ARG001  # as above
    discount: str,
) -> Slopes:
    """DCG: a bin adds its mean gain times the sum of the discounts of its ranks (He et al. 2018, eq. 7)."""
    use = _in_use(items)
    c, g = items[use], gain[use]
    mean, at_start, at_end = mean_discount(_before(items)[use], c, exact, discount)
    share = g / torch.where(c > 0, c, 1)
    return _slopes(
        use,
        total=g * mean,
        by_items=share * (at_end - mean),
        by_earlier_items=share * (at_end - at_start),
        by_gain=mean,
        by_earlier_gain=torch.zeros_like(g),
    )


def mutual_information(
    items: Tensor,
    relevant: Tensor,
    exact: bool,  # noqa: ARG001  # it needs no relaxation but the soft bins
    compiled: bool,  # noqa: ARG001
) -> Slopes:
    """The number of items times the mutual information of their bin and their relevance (Cakir et al. 2017).

    With c items and p relevant ones in a bin, n and m in all, a bin adds p · log(pn / cm), and the same of the others.
    How many there are in all does not change when an item moves from bin to bin.
    """
    total, of_relevance = items.sum(1, keepdim=True), relevant.sum(1, keepdim=True)
    others, of_others = items - relevant, total - of_relevance

    def ratio(counts: Tensor, in_all: Tensor) -> Tensor:
        """The logarithm of how much likelier this kind is in a bin than in all; finite where there is nothing."""
        share = counts.clamp(min=LEAST) / items.clamp(min=LEAST)
        return torch.log(share * total / in_all.clamp(min=LEAST))

    for_relevant, for_others = ratio(relevant, of_relevance), ratio(others, of_others)
    return Slopes(
        (relevant * for_relevant + others * for_others).sum(1),
        by_items=for_others,
        by_gain=for_relevant - for_others,
    )


def items_of_both_kinds(counts: Tensor, gains: Tensor, exact: bool) -> Tensor:  # noqa: ARG001  # as below
    """What mutual information is divided by: all items, 0 where all are of one kind."""
    return counts.sum(1) * (counts > 0).all(1)


def relevant_items(counts: Tensor, gains: Tensor, exact: bool) -> Tensor:  # noqa: ARG001  # as below
    """What AP is divided by."""
    return counts @ gains


def ideal_gain(counts: Tensor, gains: Tensor, exact: bool, discount: str) -> Tensor:
    """DCG of the items in the order of their gains, which grow with the level."""
    last = counts.flip(1).cumsum(1).flip(1)[:, 1:]  # the last rank of each level
    means = mean_discount(torch.zeros_like(last), last, exact, discount)[0]
    return (means * last) @ gains.diff()  # a level gains so much more than the one below


MUTUAL_INFORMATION = RelaxedMetric(mutual_information, items_of_both_kinds)
AVERAGE_PRECISION = RelaxedMetric(average_precision, relevant_items)
DISCOUNTED_GAIN = {
    discount: RelaxedMetric(partial(discounted_gain, discount=discount), partial(ideal_gain, discount=discount))
    for discount in ("log2", "reciprocal")
}


def _in_use(items: Tensor) -> Tensor:
    """Bins that hold items, and those beside them, which a pair may move into; often a tenth of all."""
    held = torch.nn.functional.pad(items > 0, (1, 1))
    return held[:, :-2] | held[:, 1:-1] | held[:, 2:]


def _slopes(
    use: Tensor, *, total: Tensor, by_items: Tensor, by_earlier_items: Tensor, by_gain: Tensor, by_earlier_gain: Tensor
) -> Slopes:
    """Sums over bins, and derivatives in which an item also counts as an earlier one for all bins behind it."""

    def spread(values: Tensor) -> Tensor:
        out = torch.zeros(use.shape, dtype=torch.float64, device=use.device)
        out[use] = values
        return out

    return Slopes(
        spread(total).sum(1),
        spread(by_items) + _after(spread(by_earlier_items)),
        spread(by_gain) + _after(spread(by_earlier_gain)),
    )


def _before(counts: Tensor) -> Tensor:
    """Sums over the bins before each."""
    return torch.nn.functional.pad(counts.cumsum(1)[:, :-1], (1, 0))


def _after(slopes: Tensor) -> Tensor:
    """Sums over the bins behind each."""
    return torch.nn.functional.pad(slopes.flip(1).cumsum(1).flip(1)[:, 1:], (0, 1))


def _compiled_average_precision(items: Tensor, relevant: Tensor, exact: bool) -> Slopes:
    slopes = Slopes(torch.empty(len(items), dtype=torch.float64), torch.empty_like(items), torch.empty_like(items))
    arrays = (tensor.numpy() for tensor in (items, relevant, *slopes))
    soft_kernels().average_precision(*arrays, exact)
    return slopes
