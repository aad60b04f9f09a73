"""Divided differences, of which the relaxed metrics are made: exact between whole numbers, smooth elsewhere."""

import functools
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lookalike.metrics.rank_sums import discounts

POLES = 16  # of digamma that are summed one by one; beyond, its series in 1/z is exact to the last digits
SERIES = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720)  # digamma(z + 1/2) = ln z + these over z^2, z^4, z^6, z^8

__all__ = ["Differences", "differences", "mean_discount"]


class Differences(NamedTuple):
    """Of L at the nodes of a bin that begins behind C = x - 1 items and holds c, and how they change.

    L is digamma, or ln(x - 1/2) as He et al. print it. Slopes over c and x are meant to be multiplied by a number
    that is at most c: at c = 0 they are finite, not exact.
    """

    h: Tensor  # L[x, x + c]: of digamma, the mean of 1/rank over the bin
    h_c: Tensor
    h_x: Tensor
    g: Tensor  # L[x, x + 1, x + c]
    g_c: Tensor
    g_x: Tensor


def differences(x: Tensor, c: Tensor, exact: bool) -> Differences:
    """Divided differences for bins of float64, plain torch operations on any device.

    Digamma's poles near x are summed one by one, where a divided difference of 1/t is a product and nothing cancels.
    """
    end = x + c
    poles = POLES if exact else 0
    z = x + (poles - 0.5)
    h, _, _, at_x, at_end = _tail(z, z + c, exact)
    # L[x, x + 1, x + c] over its other two nodes where c is near 1, and x + c near x + 1
    w, w_end, w_slope, _, _ = _tail(z + 1, z + c, exact)
    u = 1 / x
    for k in range(poles):
        v, above = 1 / (end + k), 1 / (x + (k + 1))
        h = torch.addcmul(h, u, v)
        at_x = torch.addcmul(at_x, u, u)
        at_end = torch.addcmul(at_end, v, v)
        both = above * v
        w = w + both
        w_end = torch.addcmul(w_end, both, v, value=-1)
        w_slope = torch.addcmul(w_slope, both, above + v, value=-1)
        u = above
    s = 1 / x if exact else torch.log1p(1 / (x - 0.5))  # L[x, x + 1], and its slope
    s_slope = -1 / (x * x) if exact else -1 / ((x - 0.5) * (x + 0.5))
    some = torch.where(c > 0, c, 1)
    h_c, h_x = (at_end - h) / some, (at_end - at_x) / some
    near = (c > 0.5) & (c < 1.5)
    step = torch.where(near, c, c - 1)
    g = (torch.where(near, w, h) - s) / step
    g_c = (torch.where(near, w_end, h_c) - g) / step
    g_x = (torch.where(near, w_slope, h_x) - s_slope) / step
    if not exact:  # of digamma L[x, x + 1] is 1/x; without this a perfect ranking would score up to 1.1
        off, fade, fade_c = s - 1 / x, *_fade(c)
        g, g_c, g_x = g + off * fade, g_c + off * fade_c, g_x + (s_slope + 1 / (x * x)) * fade
    return Differences(h, h_c, h_x, g, g_c, g_x)


def _fade(c: Tensor) -> tuple[Tensor, Tensor]:
    """1/c from c = 1, going smoothly to 0 at c = 0, and its slope."""
    inverse = 1 / c.clamp(min=1)
    return torch.where(c < 1, c * (3 - 2 * c), inverse), torch.where(c < 1, 3 - 4 * c, -inverse * inverse)


def _tail(z: Tensor, end: Tensor, exact: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """L[z, end], L[z, end, end], L'[z, end], L'(z) and L'(end) of L(z) = ln z + digamma's series, for any nodes."""
    u, v, step = 1 / z, 1 / end, end - z
    s = step * v
    close = s.abs() < 0.06
    one, two = torch.zeros_like(s), torch.zeros_like(s)
    for m in range(12, -1, -1):
        one = one * s + 1 / (m + 1)
        two = two * s + 1 / (m + 2)
    apart = torch.where(close, 1, step)
    one = torch.where(close, one * v, torch.log1p(step * u) / apart)
    two = torch.where(close, -two * v * v, (v - one) / apart)
    slope, at_z, at_end = -u * v, u, v
    if not exact:
        return one, two, slope, at_z, at_end
    r = p = q = torch.zeros_like(
        s
    )  # sums of products of powers of u and v, for nodes [z, end], [z, end, end], [z, z, end]
    un = vn = torch.ones_like(s)
    for n in range(1, 2 * len(SERIES) + 1):
        r = v * r + un * u * v
        un, vn = un * u, vn * v
        p = u * p + n * u * vn * v
        q = v * q + n * v * un * u
        if n % 2 == 0:
            k = SERIES[n // 2 - 1]
            one, two, slope = one - k * r, two + k * p, slope + k * (p + q)
            at_z, at_end = at_z - k * n * un * u, at_end - k * n * vn * v
    return one, two, slope, at_z, at_end


def mean_discount(before: Tensor, c: Tensor, exact: bool, discount: str) -> tuple[Tensor, Tensor, Tensor]:
    """F[C, C + c], F'(C) and F'(C + c), where F(n) is the sum of the discounts of ranks 1 to n.

    Of "log2", F is a concave cubic between whole numbers; as He et al. print it, it is ln 2 · li(n + 3/2), a midpoint
    rule. Of "reciprocal", F is digamma(n + 1), or ln(n + 1/2), up to a constant.
    """
    if discount == "reciprocal":
        return _mean_of_inverse_ranks(before + 1, c, exact)
    return _mean_of_cubics(before, c) if exact else _mean_of_logarithms(before, c)


def _mean_of_inverse_ranks(x: Tensor, c: Tensor, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
    """L[x, x + c], L'(x) and L'(x + c), as `differences` has them."""
    poles = POLES if exact else 0
    z = x + (poles - 0.5)
    mean, _, _, at_x, at_end = _tail(z, z + c, exact)
    for k in range(poles):
        u, v = 1 / (x + k), 1 / (x + c + k)
        mean, at_x, at_end = mean + u * v, at_x + u * u, at_end + v * v
    return mean, at_x, at_end


@functools.lru_cache(maxsize=16)
def _cubics(n: int) -> np.ndarray:
    """Rows F(i), F'(i) and the coefficients of t^2 and t^3 in F(i + t), for i from 0 to n.

    Slopes at whole numbers are harmonic means of the discounts beside them, which keeps every piece concave; so no
    soft ranking gains more than the ideal one.
    """
    sums = discounts(np.arange(n + 3), "log2")
    steps = np.diff(sums)  # the discount of rank i + 1
    slopes = np.empty(n + 2)
    slopes[1:] = 2 * steps[:-1] * steps[1:] / (steps[:-1] + steps[1:])
    slopes[0] = (3 * steps[0] - slopes[1]) / 2
    s, m0, m1 = steps[: n + 1], slopes[:-1], slopes[1:]
    return np.stack([sums[: n + 1], m0, 3 * s - 2 * m0 - m1, m0 + m1 - 2 * s])


def _mean_of_cubics(before: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    end = before + c
    table = torch.as_tensor(_cubics(int(end.max().ceil()) + 1), device=c.device)
    i, j = before.floor().long(), end.floor().long()
    t0, t1 = before - i, end - j
    _, m, quadratic, cubic = table[:, i]
    end_sum, end_m, end_quadratic, end_cubic = table[:, j]
    within = m + quadratic * (t0 + t1) + cubic * (t0 * t0 + t0 * t1 + t1 * t1)  # both ends in one piece
    head = (1 - t0) * (m + quadratic * (1 + t0) + cubic * (1 + t0 + t0 * t0))
    tail = t1 * (end_m + t1 * (end_quadratic + t1 * end_cubic))
    across = head + (end_sum - table[0][i + 1]) + tail
    mean = torch.where(i == j, within, across / torch.where(c > 0, c, 1))
    return mean, m + t0 * (2 * quadratic + 3 * t0 * cubic), end_m + t1 * (2 * end_quadratic + 3 * t1 * end_cubic)


def _mean_of_logarithms(before: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    start, end = before + 1.5, before + c + 1.5
    short = c < 0.1
    mean = torch.zeros_like(c)
    for point, weight in zip(*np.polynomial.legendre.leggauss(6), strict=True):
        mean = mean + weight / 2 / torch.log(start + (1 + point) / 2 * c)
    across = (logarithmic_integral(end) - logarithmic_integral(start)) / torch.where(short, 1, c)
    ln2 = math.log(2)
    return ln2 * torch.where(short, mean, across), ln2 / torch.log(start), ln2 / torch.log(end)


def logarithmic_integral(x: Tensor) -> Tensor:
    """li(x) for x above 1, which torch does not have: the sum of (ln x)^k / (k · k!), all of one sign.

    >>> logarithmic_integral(torch.tensor([2.0, 1000.0], dtype=torch.float64))
    tensor([  1.0452, 177.6097], dtype=torch.float64)
    """
    y = torch.log(x)
    total, power = np.euler_gamma + torch.log(y), torch.ones_like(y)
    for k in range(1, 80):
        power = power * y / k
        total = total + power / k
    return total
