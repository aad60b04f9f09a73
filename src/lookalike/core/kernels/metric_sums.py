"""Compiled sums of the metrics, over the tie groups of many queries. Each is the twin of a function in `metrics`."""

import numpy as np
from numba import float64, int64, njit, types, void

from lookalike.core.kernels.arrays import read, write


@njit(nogil=True)
def _inverse_ranks(before, n):
    # the twin of metrics.rank_sums.inverse_ranks, for one group
    total = 0.0
    while n > 0 and (before < 64 or n < 4):
        before, n = before + 1, n - 1
        total += 1 / before
    if n == 0:
        return total
    x, y = before + 0.5, before + n + 0.5
    u, v = 1 / (x * x), 1 / (y * y)
    total += np.log1p(n / x)
    return total + v * (1 / 24 + v * (-7 / 960 + v * 31 / 8064)) - u * (1 / 24 + u * (-7 / 960 + u * 31 / 8064))


@njit(
    void(read(float64, 2), read(float64, 2), float64, *(write(float64, 1),) * 12),
    nogil=True,
    cache=True,
)
def precision_sums(
    relevant, retrieved, k,
    expected, best, worst, hits, cut_expected, cut_best, cut_worst, c_before, c_rel_before, c_n, c_r, c_places,
):  # fmt: skip
    """Sums of precision over each query's top k; the twin of metrics.average_precision.precision_sums."""
    for i in range(len(relevant)):
        expected[i] = best[i] = worst[i] = hits[i] = 0
        cut_expected[i] = cut_best[i] = cut_worst[i] = 0
        c_before[i] = c_rel_before[i] = c_n[i] = c_r[i] = c_places[i] = 0
        before = rel_before = 0.0
        for g in range(relevant.shape[1]):
            if before >= k:
                break
            n, r = retrieved[i, g], relevant[i, g]
            places = min(n, k - before)
            high = low = middle = 0.0
            if r == n == 1:  # by far the most frequent, and no order matters
                high = low = middle = (rel_before + 1) / (before + 1)
            elif r > 0:
                inverse = _inverse_ranks(before, places)
                slope = (r - 1) / (n - 1) if n > 1 else 0.0
                middle = r / n * ((rel_before + 1) * inverse + slope * (places - (before + 1) * inverse))
                most, least = min(r, places), max(0.0, places - n + r)
                high = most + (rel_before - before) * _inverse_ranks(before, most)
                last = before + places - least
                low = least + (rel_before - last) * _inverse_ranks(last, least)
            if places == n:
                expected[i] += middle
                best[i] += high
                worst[i] += low
                hits[i] += r
            else:
                cut_expected[i], cut_best[i], cut_worst[i] = middle, high, low
                c_before[i], c_rel_before[i], c_n[i], c_r[i], c_places[i] = before, rel_before, n, r, places
            before += n
            rel_before += r


@njit(nogil=True)
def _expected_at_cut(expected, before, relevant_before, n, relevant, places):
    # hypergeometric chances, relative to the likeliest number of hits, walked outwards until they vanish
    most, least = min(relevant, places), max(0.0, places - n + relevant)
    inverse_ranks = _inverse_ranks(before, places)
    level = (relevant_before + 1) * inverse_ranks / places
    slope = (places - (before + 1) * inverse_ranks) / (places * (places - 1)) if places > 1 else 0.0
    likeliest = min(max(np.floor((places + 1) * (relevant + 1) / (n + 2)), least), most)
    others = n - relevant - places
    mass, total = 0.0, 0.0
    h, chance = likeliest, 1.0
    while chance > 1e-20:
        mass += chance
        if relevant_before + h > 0:
            total += chance * (expected + h * (level + (h - 1) * slope)) / (relevant_before + h)
        # at `most` this is 0; dividing first keeps the wait for a division out of the chain of products
        chance *= (relevant - h) * (places - h) / ((h + 1) * (others + h + 1))
        h += 1
    h, chance = likeliest, 1.0
    while h > least:
        chance *= h * (others + h) / ((relevant - h + 1) * (places - h + 1))
        h -= 1
        if chance <= 1e-20:
            break
        mass += chance
        if relevant_before + h > 0:
            total += chance * (expected + h * (level + (h - 1) * slope)) / (relevant_before + h)
    return total / mass


@njit(nogil=True)
def _worst_at_cut(worst, last, relevant_before, least, most):
    # With h hits at the last places the sum of precisions is W + Σ_j (R + h - j) / (last - j) over j below h. One hit
    # more adds a term that grows with h, and one to the divisor: the mean falls while the term is below it, then rises.
    # (So does that of the best order, whose next term is (R + h + 1) / (N + h + 1).)
    if relevant_before + least == 0:
        return 0.0
    low, high = least, most
    while low < high:
        h = np.floor((low + high) / 2)
        inverse_ranks = _inverse_ranks(last - h, h)
        mean = (worst + h + (relevant_before + h - last) * inverse_ranks) / (relevant_before + h)
        if inverse_ranks + (relevant_before + 1) / (last - h) < mean:
            low = h + 1
        else:
            high = h
    bottom = 2.0
    for h in (low - 1, low, low + 1):  # rounding may have misled the search by one
        if least <= h <= most:
            total = worst + h + (relevant_before + h - last) * _inverse_ranks(last - h, h)
            bottom = min(bottom, total / (relevant_before + h))
    return bottom


@njit(
    void(
        read(float64, 1),
        read(float64, 1),
        read(float64, 1),
        read(float64, 1),
        read(float64, 1),
        read(float64, 1),
        read(float64, 1),
        read(float64, 1),
        write(float64, 2),
    ),
    nogil=True,
    cache=True,
)
def average_precision_at_cut(expected, best, worst, before, relevant_before, n, relevant, places, out):
    """out[:, i] = expected, best and worst AP of query i when the cutoff falls inside a tie group.

    The twin of metrics.average_precision.at_cut, which explains it.
    """
    for i in range(len(n)):
        most, least = min(relevant[i], places[i]), max(0.0, places[i] - n[i] + relevant[i])
        out[0, i] = _expected_at_cut(expected[i], before[i], relevant_before[i], n[i], relevant[i], places[i])
        top = 0.0
        for h in (least, most):  # between them it is lower: see `_worst_at_cut`
            if relevant_before[i] + h > 0:
                total = best[i] + h + (relevant_before[i] - before[i]) * _inverse_ranks(before[i], h)
                top = max(top, total / (relevant_before[i] + h))
        out[1, i] = top
        out[2, i] = _worst_at_cut(worst[i], before[i] + places[i], relevant_before[i], least, most)


@njit(
    void(read(float64, 1), read(float64, 1), read(float64, 1), float64, write(float64, 2)),
    nogil=True,
    cache=True,
)
def first_relevant(before, n, relevant, k, out):
    """out[0] = chance that the first relevant item is in the top k, out[1] = its expected reciprocal rank.

    The twin of metrics.reciprocal_rank.first_relevant, which explains it.
    """
    for i in range(len(n)):
        chance, hit, reciprocal = relevant[i] / n[i], 0.0, 0.0
        rank = 1.0
        while rank <= n[i] - relevant[i] + 1 and before[i] + rank <= k and chance > 1e-25:
            hit += chance
            reciprocal += chance / (before[i] + rank)
            chance *= (n[i] - rank - relevant[i] + 1) / max(n[i] - rank, 1.0)
            rank += 1
        certain = before[i] + n[i] - relevant[i] + 1 <= k
        out[0, i], out[1, i] = 1.0 if certain else min(hit, 1.0), reciprocal


@njit(void(read(float64, 2), read(float64, 2), write(float64, 2)), nogil=True, cache=True)
def threshold_sums(relevant, retrieved, out):
    """Pairs in the right order, tied pairs, and precision; the twin of metrics.areas.threshold_sums."""
    for i in range(len(relevant)):
        wrong = tied = area = ranked = hits = 0.0
        for g in range(relevant.shape[1]):
            r, n = relevant[i, g], retrieved[i, g]
            ranked += n
            if r > 0:
                hits += r
                wrong += r * (ranked - hits)  # others at or ahead of it
                tied += r * (n - r)
                area += r * hits / ranked
        others = ranked - hits
        out[0, i], out[1, i], out[2, i], out[3, i], out[4, i] = hits * others - wrong, tied, area, hits, others


@njit(
    void(types.Array(int64, 3, "A", readonly=True), read(float64, 1), read(float64, 1), write(float64, 2)),
    nogil=True,
    cache=True,
)
def gain_sums(by_grade, gains, discounts, out):
    """Expected, best and worst DCG; discounts[r] is the sum of those of ranks 1 to r, the last the cutoff.

    The twin of metrics.dcg.gain_sums.
    """
    n_grades, n_queries, n_groups = by_grade.shape
    k = len(discounts) - 1
    for i in range(n_queries):
        before = 0
        for g in range(n_groups):
            if before >= k:
                break
            n, gained = 0, 0.0
            for v in range(n_grades):
                n += by_grade[v, i, g]
                gained += gains[v] * by_grade[v, i, g]
            if gained > 0:
                out[0, i] += gained / n * (discounts[min(before + n, k)] - discounts[before])
                first, last = before, before + n  # the highest grade takes the first places, or the last
                for v in range(n_grades - 1, 0, -1):
                    count = by_grade[v, i, g]
                    out[1, i] += gains[v] * (discounts[min(first + count, k)] - discounts[min(first, k)])
                    out[2, i] += gains[v] * (discounts[min(last, k)] - discounts[min(last - count, k)])
                    first, last = first + count, last - count
            before += n
