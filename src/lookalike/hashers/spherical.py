"""SpH: spherical hashing."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError
from lookalike.core.kernels import bend_kernels
from lookalike.core.progress import track
from lookalike.hashers.base import Hasher, check_number
from lookalike.hashers.projection import centred_blocks, sample_rows

__all__ = ["SpH"]


class SpH(Hasher):
    """Spherical hashing: bit j is whether an item is inside sphere j (Heo et al. 2012).

    Spheres are moved until each holds half of the training items and every two of them share a quarter: on average
    up to `tolerance` of that quarter, and no two further from 0.25 than `tolerance`; or until `max_rounds` have passed.
    `overlaps_` are the shares that were reached. At most `max_samples` items take part.
    """

    centres_: np.ndarray
    radii_: np.ndarray
    overlaps_: np.ndarray

    of_each_bit = ("radii_",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        tolerance: float = 0.05,
        max_rounds: int = 1000,
        max_samples: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.tolerance, self.max_rounds = n_bits, tolerance, max_rounds
        self.max_samples, self.random_state = max_samples, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        check_number("tolerance", self.tolerance)
        whole_number("max_rounds", self.max_rounds, 1)
        whole_number("max_samples", self.max_samples, 2)
        if min(len(X), self.max_samples) < self.n_bits:
            raise InputError(
                f"SpH needs at least as many items as bits, since each sphere starts from one: got {len(X)} items, "
                f"max_samples={self.max_samples} and n_bits={self.n_bits}"
            )
        rows = sample_rows(len(X), self.max_samples, random)
        items = np.concatenate(list(centred_blocks(X, self.mean_, np.float64, rows)))
        start = items[random.choice(len(items), self.n_bits, replace=False)]
        weights, radii, self.overlaps_ = self._move(items, start)
        self.centres_ = (weights @ start + self.mean_).astype(self.mean_.dtype)
        self.radii_ = radii.astype(np.float32)

    def _move(self, items: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights of the first centres that give the last ones, their radii, and the share of items in each two."""
        # Centres move along differences of centres, so they stay weighted sums of the first ones: products with the
        # items, the costly part, are made once.
        squares, products, between = (items**2).sum(1), start @ items.T, start @ start.T
        weights, best = np.eye(len(start)), np.inf
        for _ in track(range(self.max_rounds), self.max_rounds, "moving spheres (SpH)"):
            own = (weights @ between * weights).sum(1)
            distances = own[:, None] - 2 * weights @ products + squares  # squared, (spheres, items)
            radii = _middles(distances)
            inside = (distances < radii[:, None]).astype(np.float32)
            shares = (inside @ inside.T).astype(np.float64) / len(items)
            excess = shares - 0.25
            np.fill_diagonal(excess, 0)
            off = np.abs(excess)
            mean = off.sum() / max(1, off.size - len(off))  # the diagonal is 0
            if (worst := max(off.max(), 4 * mean)) < best:
                best, spheres = worst, (weights, np.sqrt(np.maximum(radii, 0)), shares)
            if worst <= self.tolerance:
                break
            # Heo et al. 2012, algorithm 1: f_i←j = ½ · (o_ij − m/4) / (m/4) · (c_i − c_j), and f_i is their mean
            force = excess / 0.25 / 2 / len(start)
            weights = weights + force.sum(1)[:, None] * weights - force @ weights
        return spheres

    def _directions(self) -> np.ndarray:
        return (self.centres_ - self.mean_).astype(np.float32, copy=False).T

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        squares = (self._directions() ** 2).sum(0)
        # eq. 1: a bit is set inside the sphere
        bend_kernels().insides(projected, centred, squares, self.radii_)
        return projected


def _middles(distances: np.ndarray) -> np.ndarray:
    """The median of each row, between its two middle values: half of the items are below."""
    half = distances.shape[1] // 2
    ordered = np.partition(distances, [half - 1, half], axis=1)
    return (ordered[:, half - 1] + ordered[:, half]) / 2
