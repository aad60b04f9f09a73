"""DensityDSH: density sensitive hashing."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError
from lookalike.hashers.base import Hasher, check_number
from lookalike.hashers.kmeans import group_items

__all__ = ["DensityDSH"]


class DensityDSH(Hasher):
    """Density sensitive hashing: planes between neighbouring groups of items, the most even ones (Jin et al. 2014).

    k-means with `alpha` groups a bit and a few rounds; a plane halfway between each two adjacent groups (one is
    among the `n_neighbours` nearest of the other); the planes that split the items with the highest entropy.
    """

    groups_: np.ndarray
    shares_: np.ndarray
    pairs_: np.ndarray
    entropies_: np.ndarray
    offsets_: np.ndarray

    of_each_bit = ("offsets_",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        alpha: float = 1.5,
        n_neighbours: int = 3,
        n_rounds: int = 3,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.alpha, self.n_neighbours = n_bits, alpha, n_neighbours
        self.n_rounds, self.random_state = n_rounds, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        check_number("alpha", self.alpha)
        whole_number("n_neighbours", self.n_neighbours, 1)
        whole_number("n_rounds", self.n_rounds, 1)
        n_groups = max(2, round(self.alpha * self.n_bits))
        if len(X) < n_groups:
            raise InputError(
                f"DensityDSH makes {n_groups} groups for n_bits={self.n_bits}, but there are only {len(X)} items"
            )
        centres, self.shares_ = group_items(X, self.mean_, n_groups, self.n_rounds, random, "DensityDSH")
        pairs = adjacent_groups(centres, self.n_neighbours)
        left, right = centres[pairs[:, 0]], centres[pairs[:, 1]]
        directions = left - right  # Jin et al. 2014, the median plane: w = μ1 − μ2, t = ((μ1 + μ2) / 2)ᵀ (μ1 − μ2)
        offsets = ((left + right) / 2 * directions).sum(1)
        # its entropy, −P0 log P0 − P1 log P1: the items on either side are told by the centre of their group
        above = (centres @ directions.T > offsets).T @ self.shares_
        entropies = _entropy(above) + _entropy(1 - above)
        chosen = np.argsort(-entropies, kind="stable")[: self.n_bits]
        if len(chosen) < self.n_bits:
            raise InputError(
                f"DensityDSH found only {len(chosen)} planes between adjacent groups for n_bits={self.n_bits}: "
                "too few of the items differ; ask for fewer bits or more groups (alpha)"
            )
        self.groups_ = (centres + self.mean_).astype(self.mean_.dtype)
        self.pairs_, self.entropies_ = pairs[chosen], entropies[chosen]
        self.directions_ = directions[chosen].T.astype(np.float32)
        self.offsets_ = offsets[chosen].astype(np.float32)

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        projected -= self.offsets_
        return projected


def adjacent_groups(centres: np.ndarray, n_neighbours: int) -> np.ndarray:
    """Pairs of different centres of which one is among the nearest of the other, (n_pairs, 2), each once."""
    squares = (centres**2).sum(1)
    distances = squares[:, None] + squares - 2 * centres @ centres.T
    same = distances <= 1e-12 * (squares[:, None] + squares)  # no plane lies between equal centres
    distances[same] = np.inf
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbours]
    rows = np.repeat(np.arange(len(centres)), nearest.shape[1])
    pairs = np.sort(np.stack([rows, nearest.ravel()], axis=1), axis=1)
    pairs = pairs[np.isfinite(distances[rows, nearest.ravel()])]
    return np.unique(pairs, axis=0)


def _entropy(share: np.ndarray) -> np.ndarray:
    """−P log P, 0 at 0."""
    return -share * np.log(np.where(share > 0, share, 1))
