"""SH: spectral hashing."""

from typing import Any

import numpy as np

from lookalike.core.kernels import bend_kernels
from lookalike.hashers.base import Hasher
from lookalike.hashers.linear import principal_directions
from lookalike.hashers.projection import centred_blocks

__all__ = ["SH"]


class SH(Hasher):
    """Spectral hashing: signs of the smoothest analytic eigenfunctions along principal directions (Weiss et al. 2008).

    Items are assumed to fill a box along the principal directions, from `lowest_` to `highest_`. The eigenfunctions of
    a box are cosines; bit j is the one with the j-th lowest eigenvalue: number `mode_` along direction `direction_`.
    Nothing is drawn at random: `random_state` changes nothing.
    """

    components_: np.ndarray
    lowest_: np.ndarray
    highest_: np.ndarray
    direction_: np.ndarray
    mode_: np.ndarray
    frequencies_: np.ndarray

    of_each_bit = ("direction_", "mode_", "frequencies_")

    def __init__(self, n_bits: int = 32, *, random_state: Any = None) -> None:
        self.n_bits, self.random_state = n_bits, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        self.components_, _ = principal_directions(self, X, min(self.n_bits, X.shape[1]))
        projected = (block @ self.components_ for block in centred_blocks(X, self.mean_))
        ends = [(block.min(0), block.max(0)) for block in projected]
        self.lowest_, self.highest_ = np.min([low for low, _ in ends], 0), np.max([high for _, high in ends], 0)
        # Weiss et al. 2008, eq. 8: the eigenvalue of mode k along a side of length b − a is
        # 1 − exp(−ε²/2 · (kπ / (b − a))²), so for every ε they rise with the frequency kπ / (b − a).
        modes = np.arange(1, self.n_bits + 1)
        frequencies = modes * np.pi / (self.highest_ - self.lowest_).astype(np.float64)[:, None]
        lowest = np.argsort(frequencies, axis=None, kind="stable")[: self.n_bits]
        self.direction_, mode = np.unravel_index(lowest, frequencies.shape)
        self.mode_, self.frequencies_ = modes[mode], frequencies[self.direction_, mode]

    def _directions(self) -> np.ndarray:
        return self.components_[:, self.direction_]

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        # eq. 7: Φ_k(x) = sin(π/2 + kπ/(b − a) · x), which is a cosine, x measured from the lower end
        frequencies = self.frequencies_.astype(np.float32)
        phases = -self.lowest_[self.direction_] * frequencies
        bend_kernels().cosines(projected, frequencies, phases, np.zeros_like(phases))
        return projected
