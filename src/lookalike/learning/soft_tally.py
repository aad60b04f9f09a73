"""The soft tally: each example of a batch ranks the others by relaxed Hamming distance, counted in soft bins.

A pair at distance d lies in bins ⌊d⌋ and ⌊d⌋ + 1, with weights that sum to 1: a tally of real numbers, of which a
metric and its gradient are functions. Pairs are visited in blocks of rows, so that nothing of the size of all pairs
times all bins is ever stored, and of a large batch nothing of the size of all pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lookalike.core.kernels import soft_kernels
from lookalike.learning.relaxed_metrics import RelaxedMetric

BLOCK = 1 << 18  # pairs that are visited at a time

__all__ = ["Ranking", "RankingLoss"]


@dataclass(frozen=True, eq=False)
class Ranking:
    """What is ranked how: the level of each pair, what each level gains, and the metric that is relaxed."""

    levels: Callable[[slice], Tensor]  # of queries: (n_queries, n_examples) of uint8
    gains: Tensor  # (n_levels,) of float64, that of level 0 is 0
    metric: RelaxedMetric
    exact: bool
    compiled: bool


class RankingLoss(torch.autograd.Function):
    """1 - the mean metric of relaxed codes (n_examples, n_bits) in [-1, 1], over the queries that have one."""

    @staticmethod
    def forward(ctx: Any, codes: Tensor, ranking: Ranking) -> tuple[Tensor, int]:
        """The loss and its queries; the gradient is computed on the way, so that only (n_examples, n_bits) are kept."""
        codes = codes.detach()
        total, n_queries, gradient = _mean_metric(codes, ranking, ctx.needs_input_grad[0])
        if gradient is not None:
            ctx.save_for_backward(gradient.mul_(0.5 / max(n_queries, 1)))
        loss = 1 - total / n_queries if n_queries else total
        loss = loss.clamp(min=0) if ranking.exact else loss  # a perfect ranking may sum to 1 and some 1e-15
        return loss.to(codes.dtype), n_queries

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor, _: None) -> tuple[Tensor, None]:
        """The kept gradient, scaled."""
        (gradient,) = ctx.saved_tensors
        return gradient * slope, None


def _mean_metric(codes: Tensor, ranking: Ranking, with_gradient: bool) -> tuple[Tensor, int, Tensor | None]:
    """Sum of the metric over queries, how many queries have one, and -2 times the gradient of the sum.

    He et al. 2018, supplement eq. 34, which is right for asymmetric affinities too: with W the slope of each query's
    metric over its distances, the gradient is -(W + Wᵀ) · codes / 2.
    """
    n, n_bits = codes.shape
    total, n_queries = torch.zeros((), dtype=torch.float64, device=codes.device), 0
    gradient = torch.zeros_like(codes) if with_gradient else None
    step = max(1, BLOCK // n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        products = codes[rows] @ codes.T
        levels = ranking.levels(rows)
        tables = _scatter(products, levels, start, len(ranking.gains), n_bits, ranking.compiled)
        items = tables.sum(1)
        gained = torch.einsum("v,qvb->qb", ranking.gains, tables)
        ideal = ranking.metric.ideal(tables.sum(2).round(), ranking.gains, ranking.exact)
        sums, by_items, by_gain = ranking.metric.slopes(items, gained, ranking.exact, ranking.compiled)
        defined = ideal > 0
        scale = torch.where(defined, 1 / torch.where(defined, ideal, 1), 0)
        total = total + (sums * scale).sum()
        n_queries += int(defined.sum())
        if gradient is not None:
            steps = (by_items.diff() * scale[:, None], by_gain.diff() * scale[:, None])
            slopes = steps[0][:, None] + ranking.gains[:, None] * steps[1][:, None]  # (queries, levels, n_bits)
            pairs = _gather(products, levels, start, slopes, ranking.compiled)
            gradient[rows] += pairs @ codes
            gradient += pairs.T @ codes[rows]
    return total, n_queries, gradient


def _bins(products: Tensor, n_bits: int) -> tuple[Tensor, Tensor]:
    """The bin of each pair and how far it is into it."""
    distances = ((n_bits - products) * 0.5).clamp_(0, n_bits)
    bins = distances.long().clamp_(max=n_bits - 1)
    return bins, distances.sub_(bins)


def _scatter(products: Tensor, levels: Tensor, first: int, n_levels: int, n_bits: int, compiled: bool) -> Tensor:
    """The soft tally of a block of queries: (n_queries, n_levels, n_bits + 1) of float64."""
    tables = torch.zeros(len(products), n_levels, n_bits + 1, dtype=torch.float64, device=products.device)
    if compiled:
        soft_kernels().scatter(products.numpy(), levels.numpy(), first, tables.numpy())
        return tables
    bins, parts = _bins(products, n_bits)
    bins += (levels + torch.arange(len(products), device=levels.device)[:, None] * n_levels) * (n_bits + 1)
    upper = parts.double()
    lower = 1 - upper
    own = torch.arange(len(products), device=products.device)
    upper[own, first + own] = 0
    lower[own, first + own] = 0
    flat, bins = tables.view(-1), bins.view(-1)
    flat.scatter_add_(0, bins, lower.view(-1))
    flat.scatter_add_(0, bins.add_(1), upper.view(-1))
    return tables


def _gather(products: Tensor, levels: Tensor, first: int, slopes: Tensor, compiled: bool) -> Tensor:
    """The slope of each query's metric over the distance of each pair, in place of the pairs' products."""
    if compiled:
        soft_kernels().gather(products.numpy(), levels.numpy(), first, slopes.numpy())
        return products
    n_queries, n_levels, n_bits = slopes.shape
    bins, _ = _bins(products, n_bits)
    bins += (levels + torch.arange(n_queries, device=levels.device)[:, None] * n_levels) * n_bits
    pairs = slopes.to(products.dtype).view(-1)[bins]
    own = torch.arange(n_queries, device=products.device)
    pairs[own, first + own] = 0
    return pairs
