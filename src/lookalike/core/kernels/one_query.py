"""Sums of metrics that walk through one tie group of each query: compiled for many queries, run as they are for few.

Nothing here may depend on numba. Each is the twin of a function in `metrics`.
"""

import math

import numpy as np

__all__ = [
    "average_precision_at_cut",
    "expected_at_cut",
    "first_relevant",
    "sum_of_inverse_ranks",
    "worst_at_cut",
]


def average_precision_at_cut(
    expected: np.ndarray,
    best: np.ndarray,
    worst: np.ndarray,
    before: np.ndarray,
    relevant_before: np.ndarray,
    n: np.ndarray,
    relevant: np.ndarray,
    places: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[:, i] = expected, best and worst AP of query i when the cutoff falls inside a tie group.

    The twin of metrics.average_precision.at_cut, which explains it.
    """
    for i in range(len(n)):
        most, least = min(relevant[i], places[i]), max(0.0, places[i] - n[i] + relevant[i])
        out[0, i] = expected_at_cut(expected[i], before[i], relevant_before[i], n[i], relevant[i], places[i])
        top = 0.0
        for h in (least, most):  # between them it is lower: see `worst_at_cut`
            if relevant_before[i] + h > 0:
                total = best[i] + h + (relevant_before[i] - before[i]) * sum_of_inverse_ranks(before[i], h)
                top = max(top, total / (relevant_before[i] + h))
        out[1, i] = top
        out[2, i] = worst_at_cut(worst[i], before[i] + places[i], relevant_before[i], least, most)


def sum_of_inverse_ranks(before: float, n: float) -> float:
    """The twin of metrics.rank_sums.inverse_ranks, for one group."""
    total = 0.0
    while n > 0 and (before < 64 or n < 4):
        before, n = before + 1, n - 1
        total += 1 / before
    if n == 0:
        return total
    x, y = before + 0.5, before + n + 0.5
    u, v = 1 / (x * x), 1 / (y * y)
    total += math.log1p(n / x)  # not numpy's, which differs in the last bit
    return total + v * (1 / 24 + v * (-7 / 960 + v * 31 / 8064)) - u * (1 / 24 + u * (-7 / 960 + u * 31 / 8064))


def expected_at_cut(
    expected: float, before: float, relevant_before: float, n: float, relevant: float, places: float
) -> float:
    """Expected AP of one query: hypergeometric chances, relative to the likeliest number of hits, walked outwards."""
    most, least = min(relevant, places), max(0.0, places - n + relevant)
    inverse_ranks = sum_of_inverse_ranks(before, places)
    level = (relevant_before + 1) * inverse_ranks / places
    slope = (places - (before + 1) * inverse_ranks) / (places * (places - 1)) if places > 1 else 0.0
    likeliest = min(max(math.floor((places + 1) * (relevant + 1) / (n + 2)) * 1.0, least), most)
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


def worst_at_cut(worst: float, last: float, relevant_before: float, least: float, most: float) -> float:
    """Worst AP of one query.

    With h hits at the last places the sum of precisions is W + Σ_j (R + h - j) / (last - j) over j below h. One hit
    more adds a term that grows with h, and one to the divisor: the mean falls while the term is below it, then rises.
    (So does that of the best order, whose next term is (R + h + 1) / (N + h + 1).)
    """
    if relevant_before + least == 0:
        return 0.0
    low, high = least, most
    while low < high:
        h = math.floor((low + high) / 2) * 1.0
        inverse_ranks = sum_of_inverse_ranks(last - h, h)
        mean = (worst + h + (relevant_before + h - last) * inverse_ranks) / (relevant_before + h)
        if inverse_ranks + (relevant_before + 1) / (last - h) < mean:
            low = h + 1
        else:
            high = h
    bottom = 2.0
    for h in (low - 1, low, low + 1):  # rounding may have misled the search by one
        if least <= h <= most:
            total = worst + h + (relevant_before + h - last) * sum_of_inverse_ranks(last - h, h)
            bottom = min(bottom, total / (relevant_before + h))
    return bottom


def first_relevant(before: np.ndarray, n: np.ndarray, relevant: np.ndarray, k: float, out: np.ndarray) -> None:
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
