"""Local group average precision: accuracy near the query, weighed by how well codes fill the space there."""

import math

import numpy as np

from lookalike.metrics.values import Values

__all__ = ["local_group_average_precision"]


def local_group_average_precision(relevant: np.ndarray, largest: np.ndarray, n_bits: int, r: int) -> Values:
    """LGAP@r (Ding et al. 2018, eq. 9): mean over k = 0…r of precision in the ball of radius k times its dispersion.

    relevant: (n_queries, n_bits + 1) counts by distance; largest: (n_queries, r + 1), the most items on one code at
    each distance. Dispersion is items / (most items on a code · codes in the ball), so that the items cancel against
    precision's. An empty ball counts 0. Always defined, and no order of ties matters.

    >>> local_group_average_precision([[1, 3, 1, 0, 0]], [[1, 2, 1]], n_bits=4, r=2).expected
    array([0.54242424])
    """
    relevant, largest = np.asarray(relevant), np.asarray(largest)
    total, codes = np.zeros(len(relevant)), 0
    for k in range(min(r, n_bits) + 1):
        codes += math.comb(n_bits, k)
        hits, most = relevant[:, : k + 1].sum(1), largest[:, : k + 1].max(1)
        # beyond n_bits the ball is the whole space and does not grow: its last summand repeats
        times = r - k + 1 if k == n_bits else 1
        total += times * np.divide(hits, most, out=np.zeros(len(hits)), where=most > 0) * (1 / codes)
    value = total / (r + 1)
    return Values(value, value, value)
