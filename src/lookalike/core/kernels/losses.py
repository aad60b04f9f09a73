"""Compiled loops of the ranking losses: pairs into soft bins and back, and the relaxed AP of bins."""

import numpy as np
from numba import njit

__all__ = ["average_precision", "gather", "scatter"]

POLES = 16  # of digamma that are summed one by one; beyond, its series in 1/z is exact to the last digits
# digamma(z + 1/2) = ln z + the sum of these over z^2, z^4, z^6 and z^8
SERIES = np.array([1 / 24, -7 / 960, 31 / 8064, -127 / 30720])
CLOSE = 0.06  # relative distance of two nodes below which differences of ln are summed as a series
ONE = 1 / np.arange(1.0, 15.0)


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


# What follows is lookalike.learning.divided_differences.differences, one bin at a time.


@njit(cache=True, nogil=True, error_model="numpy")
def _log_first(z, end):
    """ln[z, end]."""
    step = end - z
    s = step / end
    if abs(s) >= CLOSE:
        return np.log1p(step / z) / step
    total = 0.0
    for m in range(len(ONE) - 1, -1, -1):
        total = total * s + ONE[m]
    return total / end


@njit(cache=True, nogil=True, error_model="numpy")
def _log_second(z, end, first):
    """ln[z, end, end]."""
    step = end - z
    s = step / end
    if abs(s) >= CLOSE:
        return (1 / end - first) / step
    total = 0.0
    for m in range(len(ONE) - 1, 0, -1):
        total = total * s + ONE[m]
    return -total / (end * end)


@njit(cache=True, nogil=True, error_model="numpy")
def _series_first(u, v):
    """What the series of digamma adds to ln[1/u, 1/v]."""
    a, b = u * u, v * v
    both = a + b
    inner = SERIES[0] + both * SERIES[1] + (a * a + a * b + b * b) * SERIES[2] + both * (a * a + b * b) * SERIES[3]
    return -u * v * (u + v) * inner


@njit(cache=True, nogil=True, error_model="numpy")
def _series_slope(u):
    """What the series of digamma adds to the slope of ln at 1/u."""
    a = u * u
    return -u * a * (2 * SERIES[0] + a * (4 * SERIES[1] + a * (6 * SERIES[2] + a * 8 * SERIES[3])))


@njit(cache=True, nogil=True, error_model="numpy")
def _series_second(u, v):
    """What the series of digamma adds to ln[1/u, 1/v, 1/v]."""
    total = power = 0.0
    vn = v
    for n in range(1, 9):
        vn *= v
        power = u * power + n * u * vn
        if n % 2 == 0:
            total += SERIES[n // 2 - 1] * power
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _bin_differences(x, c, exact):
    poles = max(0, int(np.ceil(POLES + 1 - x))) if exact else 0
    z = x + poles - 0.5
    end = z + c
    s = 1 / x if exact else np.log1p(1 / (x - 0.5))  # L[x, x + 1]
    at_x = 1 / z + (_series_slope(1 / z) if exact else 0.0)
    if c == 0:
        for k in range(poles):
            at_x += 1 / ((x + k) * (x + k))
        return at_x, 0.0, 0.0, s - at_x, 0.0, 0.0
    h = _log_first(z, end)
    at_end = 1 / end
    if exact:
        h += _series_first(1 / z, 1 / end)
        at_end += _series_slope(1 / end)
    near = 0.5 < c < 1.5
    w = w_end = w_slope = 0.0
    if near:
        u, v = 1 / (z + 1), 1 / end
        w = _log_first(z + 1, end)
        w_end = _log_second(z + 1, end, w)
        w_slope = -u * v
        if exact:
            w += _series_first(u, v)
            w_end += _series_second(u, v)
            w_slope += _series_second(u, v) + _series_second(v, u)
    u = 1 / x
    for k in range(poles):
        v, above = 1 / (x + c + k), 1 / (x + k + 1)
        h += u * v
        at_x += u * u
        at_end += v * v
        if near:
            w += above * v
            w_end -= above * v * v
            w_slope -= above * v * (above + v)
        u = above
    s_slope = -1 / (x * x) if exact else -1 / ((x - 0.5) * (x + 0.5))
    h_c, h_x = (at_end - h) / c, (at_end - at_x) / c
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
def average_precision(items, relevant, total, by_items, by_gain, exact):
    """Fill the arrays of lookalike.learning.relaxed_metrics.Slopes, which see, from items and relevant of each bin."""
    n_queries, n_bins = items.shape
    by_earlier_items, by_earlier_gain = np.empty(n_bins), np.empty(n_bins)
    for i in range(n_queries):
        total[i] = 0
        x, rank = 1.0, 1.0
        for k in range(n_bins):
            c, p = items[i, k], relevant[i, k]
            h, h_c, h_x, g, g_c, g_x = _bin_differences(x, c, exact)
            total[i] += p * (rank * h - (p - 1) * x * g)
            by_items[i, k] = p * (rank * h_c - (p - 1) * x * g_c)
            by_earlier_items[k] = p * (rank * h_x - (p - 1) * (g + x * g_x))
            by_gain[i, k] = rank * h - (2 * p - 1) * x * g
            by_earlier_gain[k] = p * h
            x += c
            rank += p
        items_behind, gain_behind = 0.0, 0.0
        for k in range(n_bins - 1, -1, -1):
            by_items[i, k] += items_behind
            by_gain[i, k] += gain_behind
            items_behind += by_earlier_items[k]
            gain_behind += by_earlier_gain[k]
