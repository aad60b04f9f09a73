"""What hashers of kernels, pairs and labels promise, written from their papers: slow, in float64."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def gaussian(items: Floats, anchors: Floats, gamma: float) -> Floats:
    """exp(-gamma |x - a|^2 / 2) of all pairs, from differences.

    >>> gaussian(np.array([[0.0], [2.0]]), np.array([[0.0]]), 0.5).round(4).tolist()
    [[1.0], [0.3679]]
    """
    return np.exp(-gamma / 2 * ((items[:, None] - anchors[None]) ** 2).sum(2))


def all_codes(n_bits: int) -> Floats:
    """Every code of 1 and -1.

    >>> all_codes(2).tolist()
    [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n_bits)))


def residue(similarities: Floats, bits: Floats, n_bits: int) -> Floats:
    """r S - sum of b b^T, (n, n): Liu et al. 2012.

    >>> residue(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[1.0], [-1.0]]), 2).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    left = n_bits * similarities
    for bit in bits.T:
        left = left - np.outer(bit, bit)
    return left


def reconstruction_loss(targets: Floats, bits: Floats) -> float:
    """The squared errors of normalised Hamming distances, summed over pairs: Kulis and Darrell 2009.

    >>> reconstruction_loss(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 1.0], [1.0, -1.0]]))
    0.25
    """
    total = 0.0
    for i, j in itertools.combinations(range(len(bits)), 2):
        total += (targets[i, j] - (bits[i] != bits[j]).mean()) ** 2
    return float(total)


def hinge(distance: int, n_bits: int, rho: int, similar: bool, weight: float) -> float:
    """The loss of a pair: Norouzi and Fleet 2011, each side divided by its largest value.

    >>> hinge(3, 4, 1, True, 2.0), hinge(0, 4, 1, False, 2.0)
    (0.75, 2.0)
    """
    if similar:
        return max(distance - rho + 1, 0) / (n_bits - rho + 1)
    return weight * max(rho - distance + 1, 0) / (rho + 1)


def worst_codes(one: Floats, other: Floats, losses: list[float]) -> float:
    """The largest loss(|g - g'|) + g.u + g'.u' over all pairs of codes: Norouzi and Fleet 2011.

    >>> worst_codes(np.array([1.0]), np.array([2.0]), [0.0, 5.0])
    6.0
    """
    codes = all_codes(len(one))
    return max(losses[int((g != h).sum())] + float(g @ one + h @ other) for g in codes for h in codes)
