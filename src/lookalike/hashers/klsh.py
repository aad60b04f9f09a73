"""KLSH: kernelised locality-sensitive hashing."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError, Option
from lookalike.hashers.anchors import AnchorHasher, draw_anchors

SMALLEST = 1e-7  # of the largest eigenvalue: those below are rounding, which a square root of their inverse would raise

__all__ = ["KLSH"]


class KLSH(AnchorHasher):
    """Kernelised locality-sensitive hashing: random directions in the space of a kernel (Kulis and Grauman 2009).

    The kernel is exp(−γ‖x − y‖²/2), centred on the anchors. Two items differ in a bit with probability angle/π, the
    angle being that of the kernel's space. A direction is the sum of `n_subset` whitened anchors. Defaults: 300
    anchors (or all items, if there are fewer), 30 of them in a subset (at most half), 1/γ the mean squared distance
    between anchors.
    """

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int | None = None,
        n_subset: int | None = None,
        gamma: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.n_anchors, self.n_subset = n_bits, n_anchors, n_subset
        self.gamma, self.random_state = gamma, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        chosen = draw_anchors(self, len(X), 300, random)
        n_anchors = len(chosen)
        if n_anchors < 2:
            raise InputError("KLSH needs at least 2 anchors, since it centres them: set ", Option("n_anchors"))
        size = min(30, n_anchors // 2) if self.n_subset is None else whole_number("n_subset", self.n_subset, 1)
        if size >= n_anchors:
            raise InputError(
                f"KLSH draws n_subset={size} of {n_anchors} anchors for each bit, which must be fewer than all: set ",
                Option("n_subset"),
                f" to {n_anchors - 1} or fewer",
            )
        kernels = self._kernels(X, chosen, chosen)
        means = kernels.mean(0)
        centred = kernels - means - means[:, None] + means.mean()
        whitening = inverse_root(centred)
        drawn = np.argsort(random.random_sample((self.n_bits, n_anchors)), axis=1, kind="stable")[:, :size]
        subsets = np.zeros((n_anchors, self.n_bits))
        subsets[drawn, np.arange(self.n_bits)[:, None]] = 1
        # Kulis and Grauman 2009: w = K^(−1/2) e_S; its sum is 0, so that κ(x, ·) need not be centred
        self.weights_ = whitening @ subsets
        self.offsets_ = -means @ self.weights_


def inverse_root(matrix: np.ndarray) -> np.ndarray:
    """K^(−1/2) of a symmetric matrix on the directions in which it is clearly above 0, 0 on the others."""
    from scipy.linalg import eigh

    values, vectors = eigh(matrix)
    if values[-1] <= 1e-12:
        raise InputError("the anchors of KLSH are equal: set ", Option("n_anchors"), " to more of the items")
    kept = values > SMALLEST * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) @ vectors[:, kept].T)
