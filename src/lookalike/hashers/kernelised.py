"""SKLSH: locality-sensitive hashing for shift-invariant kernels."""

from typing import Any

import numpy as np

from lookalike.core.errors import InputError, Option
from lookalike.core.kernels import bend_kernels
from lookalike.hashers.base import Hasher, check_number
from lookalike.hashers.projection import centred_blocks, sample_rows

__all__ = ["SKLSH"]


class SKLSH(Hasher):
    """Shift-invariant kernel hashing: sign(cos(w·x + τ) + t), all drawn at random (Raginsky and Lazebnik 2009).

    In how many bits two items differ, on average, depends on their Gaussian kernel exp(−γ‖x − y‖²/2) alone.
    Without `gamma`, 1/√γ is the mean distance of a training item to its 50th nearest neighbour.
    """

    phases_: np.ndarray
    thresholds_: np.ndarray
    gamma_: float

    of_each_bit = ("phases_", "thresholds_")

    def __init__(self, n_bits: int = 32, *, gamma: float | None = None, random_state: Any = None) -> None:
        self.n_bits, self.gamma, self.random_state = n_bits, gamma, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        if self.gamma is not None:
            check_number("gamma", self.gamma)
        self.gamma_ = self._neighbour_gamma(X, random) if self.gamma is None else float(self.gamma)
        # section 2: w ~ N(0, γI), τ ~ U[0, 2π], t ~ U[−1, 1]
        self.directions_ = (random.normal(size=(X.shape[1], self.n_bits)) * np.sqrt(self.gamma_)).astype(np.float32)
        self.phases_ = random.uniform(0, 2 * np.pi, self.n_bits).astype(np.float32)
        self.thresholds_ = random.uniform(-1, 1, self.n_bits).astype(np.float32)

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        ones = np.ones_like(self.phases_)
        bend_kernels().cosines(projected, ones, self.phases_, self.thresholds_)
        return projected

    def _neighbour_gamma(self, X: np.ndarray, random: np.random.RandomState, rank: int = 50) -> float:
        """1 / squared mean distance of 200 items to their 50th neighbour, or to the last if there are fewer."""
        probes = next(centred_blocks(X, self.mean_, np.float64, sample_rows(len(X), 200, random)))
        kept = min(rank, len(X) - 1) + 1  # an item is its own nearest
        nearest = np.full((len(probes), kept), np.inf)
        for block in centred_blocks(X, self.mean_, np.float64):
            squares = (probes**2).sum(1)[:, None] + (block**2).sum(1) - 2 * probes @ block.T
            both = np.concatenate([nearest, squares], axis=1)
            nearest = np.partition(both, kept - 1, axis=1)[:, :kept]
        distance = float(np.sqrt(np.maximum(nearest.max(1), 0)).mean())
        scale = float(np.sqrt((probes**2).sum(1).mean()))
        if distance <= 1e-6 * scale:
            raise InputError(
                f"most items equal {rank} others, so their distances do not tell a width for the kernel: pass ",
                Option("gamma"),
            )
        return 1 / distance**2
