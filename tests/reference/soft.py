"""Relaxed ranking metrics, dense: every pair touches every bin, autograd does the rest, all in float64.

He, Cakir, Adel Bargal and Sclaroff 2018, "Hashing as tie-aware learning to rank", with two readings of the sum of
inverse ranks: "exact" (digamma, equal to the tie-aware metric at whole counts) and "paper" (the logarithm, shifted by
one half). A bin of c items, p of them relevant, behind C items, P of them relevant, adds

    p * ((P + 1) * h + (p - 1) * g),    h = f[x, x + c],    g = -x * f[x, x + 1, x + c],    x = C + 1

where f is digamma or ln(. - 1/2) and f[...] its divided differences. Those are integrals, so nothing here divides by c
or by c - 1, and no bin is a special case. (torch.polygamma(1) is wrong in the tenth digit, so it is not used.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mpmath  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor

_nodes, _weights = np.polynomial.legendre.leggauss(64)
NODES, WEIGHTS = torch.from_numpy(_nodes / 2 + 0.5), torch.from_numpy(_weights / 2)  # of an integral from 0 to 1
SHIFT = 16  # terms of digamma's sum before its asymptotic series takes over
BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6]


# First divided differences


def digamma_slope(x: Tensor, extent: Tensor) -> Tensor:
    """(digamma(x + extent) - digamma(x)) / extent, and digamma'(x) where the extent is 0: the mean of 1/rank.

    digamma' is the sum of 1 / (x + k)^2 over all k >= 0: the first terms one by one, the rest by its asymptotic series.

    >>> slopes = digamma_slope(torch.tensor([1.0, 1.0, 2.0]), torch.tensor([3.0, 0.0, -1.0]))
    >>> np.allclose(slopes, [(1 + 1 / 2 + 1 / 3) / 3, math.pi**2 / 6, 1], rtol=1e-15, atol=0)
    True
    """
    x, extent = x.double()[..., None], extent.double()[..., None]
    k = torch.arange(SHIFT)
    far = x + SHIFT + extent * NODES
    rest = 1 / far + 1 / (2 * far**2) + sum(number / far ** (2 * n + 3) for n, number in enumerate(BERNOULLI))
    return (1 / ((x + k) * (x + extent + k))).sum(-1) + (WEIGHTS * rest).sum(-1)


def log_slope(x: Tensor, extent: Tensor) -> Tensor:
    """(ln(x + extent - 1/2) - ln(x - 1/2)) / extent, and 1 / (x - 1/2) where the extent is 0.

    >>> np.allclose(log_slope(torch.tensor([1.0, 1.5]), torch.tensor([1.0, 0.0])), [math.log(3), 1], rtol=1e-15, atol=0)
    True
    """
    start = x.double() - 0.5
    u = extent.double() / start
    small = u.abs() < 0.05
    series = sum((-u) ** k / (k + 1) for k in range(16))
    large = torch.where(small, torch.ones_like(u), u)  # so that the branch not taken has no infinite gradient
    return torch.where(small, series, torch.log1p(large) / large) / start


def discount_slope(before: Tensor, items: Tensor) -> Tensor:
    """ln 2 (li(C + c + 3/2) - li(C + 3/2)) / c, and 1 / log2(C + 3/2) where c is 0: the mean discount of c places.

    li is the integral of 1 / ln t, which is that of e^u / u over u = ln t.

    >>> wanted = math.log(2) * (mpmath.li(5.5) - mpmath.li(2.5)) / 3
    >>> abs(float(discount_slope(*torch.tensor([1.0, 3.0]))) - wanted) < 1e-15
    True
    """
    shorter = log_slope(before + 2, items)  # the length of the integral over u, for each place
    start = torch.log(before.double() + 1.5)
    u = start[..., None] + (shorter * items)[..., None] * NODES
    return math.log(2) * shorter * (WEIGHTS * torch.exp(u) / u).sum(-1)


SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"exact": digamma_slope, "paper": log_slope}


# Metrics of counts


def before(counts: Tensor) -> Tensor:
    """What all earlier bins hold."""
    return torch.nn.functional.pad(counts.cumsum(-1)[..., :-1], (1, 0))


def precision_sum(relevant: Tensor, items: Tensor, relaxation: str = "exact") -> Tensor:
    """AP times the number of relevant items, from relevant items and items of each bin (..., bins).

    >>> counts = torch.tensor([[5.0], [10.0]])          # ten items tied, five of them relevant
    >>> round(float(precision_sum(*counts)) / 5, 6)
    0.607165
    """
    slope, x = SLOPES[relaxation], before(items) + 1
    h = slope(x, items)
    g = x * (h - slope(x + 1, items - 1))  # a divided difference does not depend on the order of its points
    if relaxation == "paper":  # where ln takes the place of digamma, x · L[x, x + 1] is not 1, as it should be
        g = g - (x * slope(x, torch.ones_like(x)) - 1) * fade(items)
    return (relevant * ((before(relevant) + 1) * h + (relevant - 1) * g)).sum(-1)


def fade(items: Tensor) -> Tensor:
    """1/c from c = 1, and below it the cubic that meets it smoothly and is 0 at 0.

    >>> fade(torch.tensor([0.0, 0.5, 1.0, 4.0])).tolist()
    [0.0, 1.0, 1.0, 0.25]
    """
    return torch.where(items < 1, items * (3 - 2 * items), 1 / items.clamp(min=1))


def gain_sum(gains: Tensor, items: Tensor, slope: Callable[[Tensor, Tensor], Tensor] = discount_slope) -> Tensor:
    """DCG, by default as printed, from the sum of gains and the items of each bin (..., bins).

    slope: the mean discount of items behind others.
    """
    return (gains * slope(before(items), items)).sum(-1)


def printed_inverse_ranks(before: int, items: int) -> float:
    """The sum of 1/rank behind `before` items as He et al. 2018 print it (eq. 11): infinite in front of all."""
    return math.log((before + items) / before)


def precision_sum_slowly(bins: Sequence[tuple[float, float]], relaxation: str = "exact") -> mpmath.mpf:
    """`precision_sum` as one would write it down, from (relevant items, items) of each bin, in 60 digits.

    What divides by zero is moved by 1e-25, which changes the result in about as many digits.

    >>> float(precision_sum_slowly([(1, 1), (0, 2), (1, 1)]))       # ranks 1 and 4
    1.5
    """
    with mpmath.workdps(60):
        half, nudge = mpmath.mpf("0.5"), mpmath.mpf("1e-25")
        f = mpmath.digamma if relaxation == "exact" else lambda t: mpmath.log(t - half)
        total, x, relevant_before = mpmath.mpf(0), mpmath.mpf(1), mpmath.mpf(0)
        for p, c in [(mpmath.mpf(p), mpmath.mpf(c)) for p, c in bins]:
            e = c + nudge if c in (0, 1) else c
            h = (f(x + e) - f(x)) / e
            g = -x * (h - (f(x + 1) - f(x))) / (e - 1)
            if relaxation == "paper":
                g -= (x * (f(x + 1) - f(x)) - 1) * (c * (3 - 2 * c) if c < 1 else 1 / c)
            total += p * ((relevant_before + 1) * h + (p - 1) * g)
            x, relevant_before = x + c, relevant_before + p
        return total


# Metrics of batches


def soft_tally(relaxed: Tensor, grades: Tensor, rows: slice = slice(None)) -> Tensor:
    """Items of each query in `rows` (by default all), bin and grade, each query itself left out: (rows, b + 1, grades).

    >>> relaxed = torch.tensor([[1.0, 1.0], [1.0, 0.5], [-1.0, -1.0]])        # distances 0.25 and 2
    >>> soft_tally(relaxed, torch.tensor([[9, 1, 0], [0] * 3, [0] * 3]), slice(1))[0, :, :2].T.tolist()
    [[0.0, 0.0, 1.0], [0.75, 0.25, 0.0]]
    """
    relaxed = relaxed.double()
    n, n_bits = relaxed.shape
    distances = ((n_bits - relaxed[rows] @ relaxed.T) / 2).clamp(0, n_bits)
    pulses = (1 - (distances[:, :, None] - torch.arange(n_bits + 1)).abs()).clamp(min=0)
    of_grade = torch.nn.functional.one_hot(grades, int(grades.max()) + 1).double()
    others = 1 - torch.eye(n, dtype=torch.float64)
    return torch.einsum("ijd,ijv,ij->idv", pulses, of_grade[rows], others[rows])


def without_self(grades: Tensor) -> Tensor:
    return grades * (1 - torch.eye(len(grades), dtype=grades.dtype))


def relax(activations: Tensor, alpha: float | None) -> Tensor:
    return activations.double() if alpha is None else torch.tanh(alpha * activations.double())


def average_precisions(
    relaxed: Tensor, grades: Tensor, *, rel: int = 1, relaxation: str = "exact", rows: slice = slice(None)
) -> Tensor:
    """AP of the queries in `rows` that have something relevant."""
    tally = soft_tally(relaxed, grades, rows)
    n_relevant = (without_self(grades)[rows] >= rel).sum(1)
    sums = precision_sum(tally[:, :, rel:].sum(2), tally.sum(2), relaxation)
    return sums[n_relevant > 0] / n_relevant[n_relevant > 0]


def gain_of(grades: Tensor, gain: str) -> Tensor:
    return 2.0 ** grades.double() - 1 if gain == "exponential" else grades.double()


def discounted_gains(
    relaxed: Tensor,
    grades: Tensor,
    *,
    gain: str = "exponential",
    slope: Callable[[Tensor, Tensor], Tensor] = discount_slope,
) -> Tensor:
    """nDCG, by default as printed, of the queries that have something relevant; its ideal has the same discounts."""
    tally = soft_tally(relaxed, grades)
    gains = tally @ gain_of(torch.arange(tally.shape[2]), gain)
    places = torch.arange(len(grades), dtype=torch.float64)
    discounts = slope(places, torch.ones_like(places))
    ideal = gain_of(without_self(grades), gain).sort(dim=1, descending=True).values @ discounts
    return gain_sum(gains, tally.sum(2), slope)[ideal > 0] / ideal[ideal > 0]


def tie_aware_ap(
    activations: Tensor, grades: Tensor, *, alpha: float | None = 40.0, rel: int = 1, relaxation: str = "exact"
) -> Tensor:
    """1 - the mean AP of a batch in which each example queries the others."""
    return 1 - average_precisions(relax(activations, alpha), grades, rel=rel, relaxation=relaxation).mean()


def tie_aware_dcg(
    activations: Tensor, grades: Tensor, *, alpha: float | None = 40.0, gain: str = "exponential"
) -> Tensor:
    """1 - the mean nDCG, as printed, of a batch in which each example queries the others."""
    return 1 - discounted_gains(relax(activations, alpha), grades, gain=gain).mean()


def tie_aware_dcg_by_inverse_ranks(
    activations: Tensor,
    grades: Tensor,
    *,
    alpha: float | None = 40.0,
    gain: str = "exponential",
    relaxation: str = "exact",
) -> Tensor:
    """The same with the discount 1/rank, whose mean over a bin is the slope of digamma, or of the logarithm."""

    def slope(before: Tensor, items: Tensor) -> Tensor:
        return SLOPES[relaxation](before + 1, items)

    return 1 - discounted_gains(relax(activations, alpha), grades, gain=gain, slope=slope).mean()


# Grades


def label_grades(labels: Tensor) -> Tensor:
    """1 for the same label."""
    return (labels[:, None] == labels[None]).long()


def tag_grades(tags: Tensor) -> Tensor:
    """The number of shared tags."""
    return tags.long() @ tags.long().T


def hierarchy_grades(fine: Tensor, coarse: Tensor) -> Tensor:
    """2 for the same class, 1 for another class of the same superclass."""
    return label_grades(coarse) + label_grades(fine) * label_grades(coarse)
