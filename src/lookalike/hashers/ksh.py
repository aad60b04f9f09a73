"""KSH: supervised hashing with kernels."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.progress import track
from lookalike.hashers.anchors import AnchorHasher, draw_anchors
from lookalike.hashers.labels import LabelGroups, group_labels
from lookalike.hashers.projection import sample_rows

SMALLEST = 1e-8  # of the largest eigenvalue of KᵀK: directions below are rounding

__all__ = ["KSH"]


class KSH(AnchorHasher):
    """Supervised hashing with kernels: products of codes are fitted to which items are similar (Liu et al. 2012).

    y: a label for each item, or a matrix of tags of 0 and 1; items are similar if they share a label or a tag. The
    product of two codes of 1 and −1 should be n_bits for similar items, −n_bits for others. Bits are learned one after
    the other. Each starts from the largest direction of what the bits before leave over, and is refined with a smooth
    sign, for `n_steps` steps at most; the better of the two is taken. `residues_` is the squared norm of what is left
    over, before the first bit and after each. Defaults: 300 anchors (at most half of the items: with as many anchors
    as items every direction fits all of them), 1/γ the mean squared distance between items and anchors. At most
    `max_samples` items take part.
    """

    learns_labels = True
    residues_: np.ndarray
    spectral_: np.ndarray
    refined_: np.ndarray

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int | None = None,
        gamma: float | None = None,
        n_steps: int = 100,
        max_samples: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.n_anchors, self.gamma = n_bits, n_anchors, gamma
        self.n_steps, self.max_samples, self.random_state = n_steps, max_samples, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        whole_number("n_steps", self.n_steps, 1)
        whole_number("max_samples", self.max_samples, 2)
        groups = group_labels("KSH", y, len(X))
        rows = sample_rows(len(X), self.max_samples, random)
        kernels = self._kernels(X, rows, rows[draw_anchors(self, len(rows), min(300, len(rows) // 2), random)])
        means = kernels.mean(0)
        kernels -= means
        basis, back = orthonormal(kernels)
        del kernels
        residue = Residue(groups.of(rows), self.n_bits)
        residues, spectral, refined = [residue.square], [], []
        weights = np.empty((basis.shape[1], self.n_bits))
        products = basis.T @ residue.times(basis)
        for bit in track(range(self.n_bits), self.n_bits, "learning bits (KSH)"):
            first = np.sqrt(len(basis)) * largest_direction(products)
            values = basis @ first
            first *= np.sign(values[np.abs(values).argmax()])  # of two signs the one that rounding does not change
            second = refine(basis, residue, first, self.n_steps)
            fits = [residue.fit(signs(basis @ direction)) for direction in (first, second)]
            weights[:, bit] = second if fits[1] > fits[0] else first
            taken = signs(basis @ weights[:, bit])
            residue.take(taken)
            products -= np.outer(basis.T @ taken, basis.T @ taken)
            residues.append(residue.square)
            spectral.append(fits[0])
            refined.append(max(fits))
        self.weights_ = back @ weights
        self.offsets_ = -means @ self.weights_
        self.residues_, self.spectral_, self.refined_ = np.array(residues), np.array(spectral), np.array(refined)


class Residue:
    """R = r·S − Σ b bᵀ, what bits leave over of the similarities S (1 and −1); kept by groups, never made whole."""

    def __init__(self, groups: LabelGroups, n_bits: int) -> None:
        self._groups, self._n_bits = groups, n_bits
        self._similar = np.where(groups.similar, 1.0, -1.0)
        self._bits = np.empty((len(groups.group), 0))
        self.square = float(n_bits**2 * len(groups.group) ** 2)

    def times(self, values: np.ndarray) -> np.ndarray:
        """R @ values."""
        similar = (self._similar @ self._groups.sums(values))[self._groups.group]
        return np.asarray(self._n_bits * similar - self._bits @ (self._bits.T @ values))

    def fit(self, bit: np.ndarray) -> float:
        """bᵀ R b: how much of the residue a bit of 1 and −1 explains."""
        return float(bit @ self.times(bit))

    def take(self, bit: np.ndarray) -> None:
        """Subtract b bᵀ; ‖R − b bᵀ‖² = ‖R‖² − 2 bᵀRb + n²."""
        self.square += len(bit) ** 2 - 2 * self.fit(bit)
        self._bits = np.column_stack([self._bits, bit])


def signs(values: np.ndarray) -> np.ndarray:
    """1 where a value is above 0, else −1."""
    return np.where(values > 0, 1.0, -1.0)


def orthonormal(kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis Q of the columns of K, and T with Q = K·T; directions of rounding are left out."""
    from scipy.linalg import eigh

    values, vectors = eigh(kernels.T @ kernels)
    kept = values > SMALLEST * values[-1]
    back = vectors[:, kept] / np.sqrt(values[kept])
    return kernels @ back, back


def largest_direction(products: np.ndarray) -> np.ndarray:
    """The unit direction a of the largest aᵀ(QᵀRQ)a: Liu et al. 2012, KᵀRK·a = λ·KᵀK·a in the basis Q."""
    from scipy.linalg import eigh

    size = len(products)
    _, vectors = eigh(products, subset_by_index=[size - 1, size - 1])
    return np.asarray(vectors[:, 0])


def refine(basis: np.ndarray, residue: Residue, start: np.ndarray, n_steps: int) -> np.ndarray:
    """Climb yᵀRy with the smooth sign y = 2/(1 + e^(−Qa)) − 1: Liu et al. 2012."""
    from scipy.optimize import minimize

    scale = float(len(basis)) ** 2

    def loss(direction: np.ndarray) -> tuple[float, np.ndarray]:
        smooth = np.tanh(basis @ direction / 2)
        left = residue.times(smooth)
        return -float(smooth @ left) / scale, -(basis.T @ (left * (1 - smooth**2))) / scale

    done = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": n_steps})
    return np.asarray(done.x)
