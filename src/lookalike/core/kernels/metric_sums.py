"""Compiled sums of the metrics, over the tie groups of many queries. Each is the twin of a function in `metrics`."""

import numpy as np
from numba import float64, int64, njit, types, void
from numba.extending import register_jitable

from lookalike.core.kernels import one_query
from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled


@njit(nogil=True)
def _inverse_ranks(before, n):
    # The twin of metrics.rank_sums.inverse_ranks, for one group. `one_query` has its own: numba would not see that a
    # function of another file has changed.
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


@compiled(
    void(read(float64, 2), read(float64, 2), read(float64, 1), *(write(float64, 1),) * 12),
    nogil=True,
    cache=True,
)
def precision_sums(
    relevant, retrieved, k,
    expected, best, worst, hits, cut_expected, cut_best, cut_worst, c_before, c_rel_before, c_n, c_r, c_places,
):  # fmt: skip
    """Sums of precision over each query's own top k; the twin of metrics.average_precision.precision_sums."""
    for i in range(len(relevant)):
        last_rank = k[i]
        cut_expected[i] = cut_best[i] = cut_worst[i] = 0
        c_before[i] = c_rel_before[i] = c_n[i] = c_r[i] = c_places[i] = 0
        before = rel_before = 0.0
        mean_sum = best_sum = worst_sum = relevant_sum = 0.0  # in registers
        for g in range(relevant.shape[1]):
            if before >= last_rank:
                break
            n, r = retrieved[i, g], relevant[i, g]
            places = min(n, last_rank - before)
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
                mean_sum += middle
                best_sum += high
                worst_sum += low
                relevant_sum += r
            else:
                cut_expected[i], cut_best[i], cut_worst[i] = middle, high, low
                c_before[i], c_rel_before[i], c_n[i], c_r[i], c_places[i] = before, rel_before, n, r, places
            before += n
            rel_before += r
        expected[i], best[i], worst[i], hits[i] = mean_sum, best_sum, worst_sum, relevant_sum


for helper in (one_query.sum_of_inverse_ranks, one_query.expected_at_cut, one_query.worst_at_cut):
    register_jitable(helper)


average_precision_at_cut = compiled(
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
)(one_query.average_precision_at_cut)


first_relevant = compiled(
    void(read(float64, 1), read(float64, 1), read(float64, 1), float64, write(float64, 2)),
    nogil=True,
    cache=True,
)(one_query.first_relevant)


@compiled(void(read(float64, 2), read(float64, 2), write(float64, 2)), nogil=True, cache=True)
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


@compiled(
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
