"""What each hash function promises, written from its paper: slow, in float64, without a look at the library's code."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def differing_by_angle(angle: float) -> float:
    """The share of bits in which two vectors at an angle differ, cut by random planes: Charikar 2002, section 3.

    >>> differing_by_angle(math.pi / 4)
    0.25
    """
    return angle / math.pi


def differing_by_kernel(distance: float, gamma: float, terms: int = 100_000) -> float:
    """The share of bits of the kernel exp(-gamma s^2 / 2) that differ: Raginsky and Lazebnik 2009, section 2.

    The sum of 1 / (4 m^2 - 1) over all m is 1/2, so only the kernel's part is summed.

    >>> round(differing_by_kernel(1e9, 1.0), 6) == round(4 / math.pi**2, 6)
    True
    >>> round(differing_by_kernel(0.0, 1.0), 5)
    0.0
    """
    m = np.arange(1, terms + 1, dtype=np.float64)
    kernel = np.exp(-gamma * (m * distance) ** 2 / 2)
    return float(8 / math.pi**2 * (0.5 - (kernel / (4 * m**2 - 1)).sum()))


def principal_directions(items: Floats) -> tuple[Floats, Floats]:
    """Variances in falling order and the directions (d, d) of them, from the centred items themselves.

    >>> variances, directions = principal_directions(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    >>> np.round(variances, 12).tolist(), np.abs(directions).round(12).tolist()
    ([4.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    """
    centred = items - items.mean(0)
    _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
    return lengths**2 / len(items), directions.T


def quantisation_error(projected: Floats) -> float:
    """||B - VR||_F^2 / n, B the signs of VR: Gong and Lazebnik 2011, eq. 2, a mean over items.

    >>> quantisation_error(np.array([[2.0, -1.0], [0.5, 1.0]]))
    0.625
    """
    signs = np.where(projected > 0, 1.0, -1.0)
    return float(((signs - projected) ** 2).sum() / len(projected))


def procrustes(projected: Floats, signs: Floats) -> Floats:
    """The rotation R that brings V nearest to B, from the SVD of B^T V: Gong and Lazebnik 2011, section 2.2.

    >>> procrustes(np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]])).round(12).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    left, _, right = np.linalg.svd(signs.T @ projected)
    return (left @ right).T


def eigenfunctions(widths: Floats, n_bits: int) -> list[tuple[int, int]]:
    """(direction, mode) of the lowest eigenvalues 1 - exp(-eps^2/2 |k pi / (b - a)|^2): Weiss et al. 2008, eq. 8.

    The eigenvalue rises with k / (b - a), whatever eps is; for large ones only that tells them apart in floating point.

    >>> eigenfunctions(np.array([1.0, 0.4]), 4)
    [(0, 1), (0, 2), (1, 1), (0, 3)]
    """
    every = itertools.product(range(len(widths)), range(1, n_bits + 1))
    return sorted(every, key=lambda bit: bit[1] / widths[bit[0]])[:n_bits]


def adjacent(groups: Floats, n_neighbours: int) -> set[tuple[int, int]]:
    """Pairs (i < j) of groups of which one is among the other's nearest: Jin et al. 2014, definitions 1 and 2.

    >>> sorted(adjacent(np.array([[0.0], [1.0], [3.0], [7.0]]), 1))
    [(0, 1), (1, 2), (2, 3)]
    """
    distances = np.linalg.norm(groups[:, None] - groups[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, : min(n_neighbours, len(groups) - 1)]
    return {(min(i, int(j)), max(i, int(j))) for i in range(len(groups)) for j in nearest[i]}


def plane_entropy(groups: Floats, shares: Floats, pair: tuple[int, int]) -> float:
    """-P0 log P0 - P1 log P1 of the plane halfway between two groups: Jin et al. 2014, section on entropy.

    P0 and P1 are the shares of the items in the groups on either side.

    >>> plane_entropy(np.array([[0.0], [1.0], [2.0]]), np.array([0.5, 0.25, 0.25]), (0, 1)) == math.log(2)
    True
    """
    one, other = groups[pair[0]], groups[pair[1]]
    beyond = (groups - (one + other) / 2) @ (one - other) > 0
    sides = (float(shares[beyond].sum()), float(shares[~beyond].sum()))
    return -sum(share * math.log(share) for share in sides if share > 0)
