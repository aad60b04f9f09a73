"""Hashers whose bits are signs of linear projections: random, principal, or principal and rotated by chance."""

from typing import Any

import numpy as np

from lookalike.core.errors import InputError
from lookalike.hashers.base import Hasher
from lookalike.hashers.projection import centred_blocks

__all__ = ["LSH", "PCAH", "PCARR", "principal_directions", "random_rotation"]


class LSH(Hasher):
    """Locality-sensitive hashing: signs of random projections (Charikar 2002).

    Two items differ in a bit with probability angle/π, the angle being seen from the mean of the training items.
    """

    def __init__(self, n_bits: int = 32, *, random_state: Any = None) -> None:
        self.n_bits, self.random_state = n_bits, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        self.directions_ = random.normal(size=(X.shape[1], self.n_bits)).astype(np.float32)


class PCAH(Hasher):
    """Hashing by principal components: signs of the projections of largest variance (Wang et al. 2012).

    Nothing is drawn at random: `random_state` changes nothing.
    """

    variances_: np.ndarray

    def __init__(self, n_bits: int = 32, *, random_state: Any = None) -> None:
        self.n_bits, self.random_state = n_bits, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        self.directions_, self.variances_ = principal_directions(self, X)


class PCARR(Hasher):
    """Principal components after a random rotation, which spreads their variance over the bits (Jégou et al. 2010)."""

    components_: np.ndarray
    rotation_: np.ndarray

    def __init__(self, n_bits: int = 32, *, random_state: Any = None) -> None:
        self.n_bits, self.random_state = n_bits, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        self.components_, _ = principal_directions(self, X)
        self.rotation_ = random_rotation(self.n_bits, random)
        self.directions_ = self.components_ @ self.rotation_


def random_rotation(n: int, random: np.random.RandomState) -> np.ndarray:
    """A random orthogonal matrix, uniform among all."""
    q, r = np.linalg.qr(random.normal(size=(n, n)))
    return (q * np.sign(np.diag(r))).astype(np.float32)


def principal_directions(hasher: Hasher, X: np.ndarray, n: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The directions of largest variance, (n_features, n), and their variances, falling.

    Without `n` there is one for each bit, and the data must have as many.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    wanted = hasher.n_bits if n is None else n
    name, n_features = type(hasher).__name__, X.shape[1]
    advice = "ask for fewer bits, or use LSH, SH or SKLSH, which have no such limit"
    if wanted > n_features:
        raise InputError(
            f"{name} can make at most {n_features} bits from n_features={n_features}, got n_bits={wanted}: {advice}"
        )
    covariance = np.zeros((n_features, n_features))
    for block in centred_blocks(X, hasher.mean_, np.float64):
        covariance += block.T @ block
    covariance /= len(X)
    if n_features > 1024 and wanted <= n_features // 8:
        variances, directions = eigsh(covariance, wanted, v0=np.ones(n_features))  # a few of many: five times faster
        order = np.argsort(variances)[::-1]
    else:
        variances, directions = eigh(covariance, subset_by_index=[n_features - wanted, n_features - 1])
        order = np.arange(wanted)[::-1]
    variances, directions = variances[order], directions[:, order]
    varying = int((variances > 1e-12 * variances[0]).sum())  # directions below are rounding: float32 has 7 digits
    if n is None and varying < wanted:
        raise InputError(
            f"{name} can make at most {varying} bits here, got n_bits={wanted}: {len(X)} items with {n_features} "
            f"features vary in {varying} directions only; {advice}"
        )
    largest = np.abs(directions).argmax(0)
    directions = directions * np.sign(directions[largest, np.arange(wanted)])  # of two signs the one sklearn takes
    return directions[:, :varying].astype(np.float32), variances[:varying]
