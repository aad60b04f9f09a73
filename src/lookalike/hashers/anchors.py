"""Hashers whose bits are signs of weighted sums of Gaussian kernels between an item and anchors."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError, Option
from lookalike.core.kernels import bend_kernels
from lookalike.hashers.base import Hasher, check_number
from lookalike.hashers.projection import centred_blocks

__all__ = ["AnchorHasher", "draw_anchors", "squared_distances"]


class AnchorHasher(Hasher):
    """A hasher of the kernels exp(−γ‖x − a‖²/2) between items x and anchors a, which are training items."""

    n_anchors: int | None
    gamma: float | None
    anchors_: np.ndarray
    gamma_: float
    weights_: np.ndarray
    offsets_: np.ndarray

    of_each_bit = ("offsets_",)

    def _kernels(self, X: np.ndarray, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Kernels between these rows and the anchors, which are the chosen rows of X, (n_rows, n_anchors).

        Without `gamma`, 1/γ is their mean squared distance.
        """
        if self.gamma is not None:
            check_number("gamma", self.gamma)
        anchors = np.concatenate(list(centred_blocks(X, self.mean_, np.float64, chosen)))
        self.anchors_ = X[chosen].astype(self.mean_.dtype)
        kernels = np.concatenate(
            [squared_distances(block, anchors) for block in centred_blocks(X, self.mean_, np.float64, rows)]
        )
        if self.gamma is None and not kernels.any():
            raise InputError(
                f"all {len(chosen)} anchors of {type(self).__name__} and the items that it learns from are equal: "
                "learn from more items"
            )
        self.gamma_ = float(1 / kernels.mean() if self.gamma is None else self.gamma)
        kernels *= -self.gamma_ / 2
        return np.asarray(np.exp(kernels, out=kernels))

    def _directions(self) -> np.ndarray:
        return (self.anchors_ - self.mean_).astype(np.float32, copy=False).T

    def _n_learned(self) -> int:
        return int(self.weights_.shape[1])

    def _shapes(self) -> list[tuple[np.ndarray, tuple[int, ...]]]:
        *shapes, _ = super()._shapes()
        n_anchors = len(self.weights_)
        of_anchors = [(self.anchors_, (n_anchors, self.n_features_in_)), (self.weights_, (n_anchors, self.n_bits))]
        return [*shapes, *of_anchors, (np.asarray(self.gamma_), ())]

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        squares = (self._directions().astype(np.float64) ** 2).sum(0)
        weights = np.ascontiguousarray(self.weights_, np.float64)
        offsets = np.ascontiguousarray(self.offsets_, np.float64)
        values: np.ndarray = bend_kernels().gaussians(projected, centred, squares, float(self.gamma_), weights, offsets)
        return values


def draw_anchors(hasher: Any, n_items: int, most: int, random: np.random.RandomState) -> np.ndarray:
    """Random items to be anchors, in order: `n_anchors` of them, or without it `most`, or all if there are fewer."""
    asked = None if hasher.n_anchors is None else whole_number("n_anchors", hasher.n_anchors, 1)
    n_anchors = min(most, n_items) if asked is None else asked
    if n_anchors > n_items:
        raise InputError(
            f"{type(hasher).__name__} draws n_anchors={n_anchors} anchors from the items, but learns from {n_items} "
            "only: set ",
            Option("n_anchors"),
            f" to {n_items} or fewer, or to None",
        )
    return np.sort(random.choice(n_items, n_anchors, replace=False))


def squared_distances(items: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """‖x − a‖² of all items and anchors, (n_items, n_anchors)."""
    squares = (items**2).sum(1)[:, None] + (anchors**2).sum(1)
    squares -= 2 * items @ anchors.T
    return np.maximum(squares, 0, out=squares)
