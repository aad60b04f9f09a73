"""Sums of metrics that walk through one tie group of each query: compiled for many queries, run as they are for few.

Nothing here may depend on numba. Each is the twin of a function in `metrics`.
"""

import numpy as np

__all__ = ["average_precision_at_cut", "first_relevant"]


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
        inverse_ranks = 0.0
        for t in range(1, int(places[i]) + 1):
            inverse_ranks += 1 / (before[i] + t)
        # hypergeometric chances, relative to the likeliest number of hits, walked outwards until they vanish
        likeliest = np.floor((places[i] + 1) * (relevant[i] + 1) / (n[i] + 2))
        likeliest = min(max(likeliest, least), most)
        mass, total = 0.0, 0.0
        for direction in (1.0, -1.0):
            h, chance = likeliest, 1.0
            while chance > 1e-25:
                if direction > 0 or h != likeliest:
                    slope = (h - 1) / (places[i] - 1) if places[i] > 1 else 0.0
                    part = (relevant_before[i] + 1) * inverse_ranks
                    part += slope * (places[i] - (before[i] + 1) * inverse_ranks)
                    hits = relevant_before[i] + h
                    mass += chance
                    total += chance * (expected[i] + h / places[i] * part) / hits if hits > 0 else 0.0
                if direction > 0:
                    if h == most:
                        break
                    chance *= (relevant[i] - h) * (places[i] - h)
                    chance /= (h + 1) * (n[i] - relevant[i] - places[i] + h + 1)
                else:
                    if h == least:
                        break
                    chance *= h * (n[i] - relevant[i] - places[i] + h)
                    chance /= (relevant[i] - h + 1) * (places[i] - h + 1)
                h += direction
        out[0, i] = total / mass
        first, last = 0.0, 0.0  # sums of 1 / rank over the first and the last h places
        top, bottom = -1.0, 2.0
        for h in range(int(most) + 1):
            if h > 0:
                first += 1 / (before[i] + h)
                last += 1 / (before[i] + places[i] - h + 1)
            if h >= least:
                hits = relevant_before[i] + h
                high = best[i] + h + (relevant_before[i] - before[i]) * first
                low = worst[i] + h + (relevant_before[i] - before[i] - places[i] + h) * last
                top = max(top, high / hits if hits > 0 else 0.0)
                bottom = min(bottom, low / hits if hits > 0 else 0.0)
        out[1, i], out[2, i] = top, bottom


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
