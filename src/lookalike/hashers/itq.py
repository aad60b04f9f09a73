"""Iterative quantisation: the rotation under which principal components lie closest to their signs."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.progress import track
from lookalike.hashers.base import Hasher
from lookalike.hashers.linear import principal_directions, random_rotation
from lookalike.hashers.projection import centred_blocks, sample_rows

__all__ = ["ITQ"]


class ITQ(Hasher):
    """Iterative quantisation: principal components, rotated to lie close to their signs (Gong and Lazebnik 2011).

    The principal components come from all items, the rotation from at most `max_samples` of them. `errors_` is the
    mean squared distance of an item to its signs after each round: it never rises.
    """

    components_: np.ndarray
    rotation_: np.ndarray
    errors_: np.ndarray

    def __init__(
        self, n_bits: int = 32, *, n_rounds: int = 50, max_samples: int = 100_000, random_state: Any = None
    ) -> None:
        self.n_bits, self.n_rounds, self.max_samples, self.random_state = n_bits, n_rounds, max_samples, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        whole_number("n_rounds", self.n_rounds, 1)
        whole_number("max_samples", self.max_samples, 2)
        self.components_, _ = principal_directions(self, X)
        rows = sample_rows(len(X), self.max_samples, random)
        projected = np.concatenate([b @ self.components_ for b in centred_blocks(X, self.mean_, rows=rows)])
        rotation = random_rotation(self.n_bits, random)
        squares, errors = float(np.vdot(projected, projected)), []
        together = _signs_by_values(projected, rotation)  # fix R, update B: Gong and Lazebnik 2011, section 2.2
        for _ in track(range(self.n_rounds), self.n_rounds, "rotating (ITQ)"):
            left, _, right = np.linalg.svd(together)  # fix B, update R: BᵀV = S Ω Ŝᵀ, R = Ŝ Sᵀ
            rotation = (left @ right).T.astype(np.float32)
            together = _signs_by_values(projected, rotation)
            # eq. 2, the loss: ‖B − VR‖² = ‖B‖² + ‖V‖² − 2 tr(BᵀVR)
            error = len(projected) * self.n_bits + squares - 2 * np.vdot(together, rotation.T)
            errors.append(error / len(projected))
        self.rotation_, self.errors_ = rotation, np.array(errors)
        self.directions_ = self.components_ @ rotation


def _signs_by_values(projected: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """BᵀV, (n_bits, n_bits), where B are the signs of VR; in blocks that stay in a near cache."""
    total = np.zeros(rotation.shape)
    for start in range(0, len(projected), 4096):
        block = projected[start : start + 4096]
        signs = np.where(block @ rotation > 0, np.float32(1), np.float32(-1))
        total += signs.T @ block
    return total
