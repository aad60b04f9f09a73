"""Compiled loops of the ranking losses: pairs into soft bins and back, and the differences that bins are made of."""

import numpy as np
from numba import njit

__all__ = ["differences", "gather", "scatter"]

POLES = 16  # of digamma that are summed one by one; beyond, its series in 1/z is exact to the last digits
# digamma(z + 1/2) = ln z + the sum of these over z^2, z^4, z^6 and z^8
SERIES = np.array([1 / 24, -7 / 960, 31 / 8064, -127 / 30720])


@njit(cache=True, nogil=True, error_model="numpy")
def _bin(product, n_bits):
    """The bin of a pair and how far it is into it: a pair at d lies in bins ⌊d⌋ and ⌊d⌋ + 1."""
    distance = min(max((n_bits - product) * 0.5, 0.0), float(n_bits))
    place = min(int(distance), n_bits - 1)
    return place, distance - place


@njit(cache=True, nogil=True, error_model="numpy")
def scatter(products, levels, first, tables):
    """Add each pair of a block of queries to the two bins it lies in: tables (queries, levels, n_bits + 1)."""
    n_queries, n_items = products.shape
    n_levels, n_bins = tables.shape[1:]
    # neighbouring pairs often share a bin: adding them to two tables in turn lets one not wait for the other
    turns = np.empty((2, n_levels, n_bins))
    for i in range(n_queries):
        turns[:] = 0
        for j in range(n_items):
            place, part = _bin(products[i, j], n_bins - 1)
            weight = 0.0 if j == first + i else 1.0
            turn = turns[j & 1, levels[i, j]]
            turn[place] += weight * (1 - part)
            turn[place + 1] += weight * part
        tables[i] = turns[0] + turns[1]


@njit(cache=True, nogil=True, error_model="numpy")
def gather(products, levels, first, slopes):
    """Overwrite each pair's product by the slope of its query's metric over its distance; with itself by 0."""
    n_queries, n_items = products.shape
    n_bits = slopes.shape[2]
    for i in range(n_queries):
        for j in range(n_items):
            place, _ = _bin(products[i, j], n_bits)
            products[i, j] = slopes[i, levels[i, j], place]
        products[i, first + i] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _tail(z, end):
    """L[z, end], L[z, end, end], L'[z, end] and L'(z), L'(end) of the series L(z) = ln z + …, whatever the nodes."""
    u, v = 1 / z, 1 / end
    step = end - z
    s = step * v
    if abs(s) < 0.06:
        one = two = 0.0
        for m in range(12, -1, -1):
            one = one * s + 1 / (m + 1)
            two = two * s + 1 / (m + 2)
        one, two = one * v, -two * v * v
    else:
        one = np.log1p(step * u) / step
        two = (v - one) / step
    return one, two, -u * v, u, v


@njit(cache=True, nogil=True, error_model="numpy")
def _corrections(u, v):
    """What the series adds to the five values of _tail."""
    one = two = slope = at_start = at_end = 0.0
    r = p = q = 0.0  # sums of products of powers of u and v: r for [a, b], p for [a, b, b], q for [a, a, b]
    un = vn = 1.0
    for n in range(1, 9):
        r = v * r + un * u * v
        un, vn = un * u, vn * v
        p = u * p + n * u * vn * v
        q = v * q + n * v * un * u
        if n % 2 == 0:
            k = SERIES[n // 2 - 1]
            one -= k * r
            two += k * p
            slope += k * (p + q)
            at_start -= k * n * un * u
            at_end -= k * n * vn * v
    return one, two, slope, at_start, at_end


@njit(cache=True, nogil=True, error_model="numpy")
def _bin_differences(x, c, exact):
    end = x + c
    poles = max(0, int(np.ceil(POLES + 1 - x))) if exact else 0
    z = x + poles - 0.5
    h, _, _, at_x, at_end = _tail(z, z + c)
    if exact:
        d = _corrections(1 / z, 1 / (z + c))
        h, at_x, at_end = h + d[0], at_x + d[3], at_end + d[4]
    near = 0.5 < c < 1.5
    w = w_end = w_slope = 0.0
    if near:
        w, w_end, w_slope, _, _ = _tail(z + 1, z + c)
        if exact:
            d = _corrections(1 / (z + 1), 1 / (z + c))
            w, w_end, w_slope = w + d[0], w_end + d[1], w_slope + d[2]
    u = 1 / x
    for k in range(poles):
        v, above = 1 / (end + k), 1 / (x + k + 1)
        h += u * v
        at_x += u * u
        at_end += v * v
        if near:
            w += above * v
            w_end -= above * v * v
            w_slope -= above * v * (above + v)
        u = above
    s = 1 / x if exact else np.log1p(1 / (x - 0.5))
    s_slope = -1 / (x * x) if exact else -1 / ((x - 0.5) * (x + 0.5))
    h_c = (at_end - h) / c if c > 0 else 0.0
    h_x = (at_end - at_x) / c if c > 0 else 0.0
    if near:
        g = (w - s) / c
        g_c, g_x = (w_end - g) / c, (w_slope - s_slope) / c
    else:
        g = (h - s) / (c - 1)
        g_c, g_x = (h_c - g) / (c - 1), (h_x - s_slope) / (c - 1)
    if not exact:
        off = s - 1 / x
        fade, fade_c = (c * (3 - 2 * c), 3 - 4 * c) if c < 1 else (1 / c, -1 / (c * c))
        g, g_c, g_x = g + off * fade, g_c + off * fade_c, g_x + (s_slope + 1 / (x * x)) * fade
    return h, h_c, h_x, g, g_c, g_x


@njit(cache=True, nogil=True, error_model="numpy")
def differences(x, c, exact, out):
    """Fill out (6, n) with what lookalike.learning.divided.differences returns."""
    for i in range(len(x)):
        out[0, i], out[1, i], out[2, i], out[3, i], out[4, i], out[5, i] = _bin_differences(x[i], c[i], exact)
