"""BRE: binary reconstructive embeddings."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.kernels import search_kernels
from lookalike.core.progress import track
from lookalike.hashers.anchors import draw_anchors
from lookalike.hashers.base import Hasher
from lookalike.hashers.labels import group_labels
from lookalike.hashers.projection import centred_blocks, sample_rows

__all__ = ["BRE"]


class BRE(Hasher):
    """Binary reconstructive embeddings: distances of codes are fitted to those of items (Kulis and Darrell 2009).

    Bit j is the sign of Σ w·(a·x) over `n_anchors` training items a of its own. The weights are changed one after the
    other, each to its best value, so that Hamming distances divided by n_bits come near to ¼‖x − y‖² of centred items
    of length 1. With `supervised=True` they come near to 0 for items that share a label or a tag and to 1 for others;
    otherwise y is not looked at. `losses_` is the sum of squared errors over pairs, before the first round and after
    each: it never rises. Without `n_anchors` there are 50 a bit (or all items, if there are fewer). At most
    `max_samples` items take part.
    """

    anchors_: np.ndarray
    weights_: np.ndarray
    losses_: np.ndarray

    def __init__(
        self,
        n_bits: int = 32,
        *,
        supervised: bool = False,
        n_anchors: int | None = None,
        n_rounds: int = 5,
        max_samples: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.supervised, self.n_anchors = n_bits, supervised, n_anchors
        self.n_rounds, self.max_samples, self.random_state = n_rounds, max_samples, random_state

    @property
    def learns_labels(self) -> bool:  # type: ignore[override]  # of the others it is always one
        """Whether fit needs y."""
        return bool(self.supervised)

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        if not isinstance(self.supervised, bool | np.bool_):
            message = f" must be True or False, got {self.supervised!r}"
            raise InputTypeError(Option("supervised"), message, value=self.supervised)
        whole_number("n_rounds", self.n_rounds, 1)
        whole_number("max_samples", self.max_samples, 2)
        groups = group_labels("BRE with supervised=True", y, len(X)) if self.supervised else None
        rows = sample_rows(len(X), self.max_samples, random)
        items = unit_rows(np.concatenate(list(centred_blocks(X, self.mean_, np.float64, rows))))
        if not items.any():
            raise InputError(
                "the items that BRE learns from are all equal: set ", Option("max_samples"), " to more of them"
            )
        products = items @ items.T
        if groups is None:
            targets = (1 - products) / 2  # ¼‖x − y‖² of rows of length 1
        else:
            group = groups.group[rows]
            targets = np.where(groups.similar[np.ix_(group, group)], 0.0, 1.0)
        np.fill_diagonal(targets, 0)  # an item is no pair with itself
        anchors = np.stack([draw_anchors(self, len(items), 50, random) for _ in range(self.n_bits)])
        weights = random.normal(size=anchors.shape)
        self.losses_ = self._descend(products, targets, anchors, weights)
        self.anchors_, self.weights_ = rows[anchors], weights
        self.directions_ = np.einsum("bsd,bs->db", items[anchors], weights).astype(np.float32)

    def _descend(
        self, kernels: np.ndarray, targets: np.ndarray, anchors: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """The loss before the first round and after each; weights are changed in place."""
        signs = np.stack([side(kernels[:, a] @ w) for a, w in zip(anchors, weights, strict=True)], axis=1)
        losses = [loss(targets, signs)]
        for _ in track(range(self.n_rounds), self.n_rounds, "descending (BRE)"):
            for bit in range(self.n_bits):
                gains = bit_gains(targets, signs, bit)
                columns = np.ascontiguousarray(kernels[:, anchors[bit]].T)
                signs[:, bit] = best_weights(gains, columns, weights[bit], signs[:, bit])
            losses.append(loss(targets, signs))
            if losses[-1] == losses[-2]:
                break
        return np.array(losses)


def unit_rows(items: np.ndarray) -> np.ndarray:
    """Rows of length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(items, axis=1, keepdims=True)
    return np.asarray(items / np.where(lengths > 0, lengths, 1))


def side(values: np.ndarray) -> np.ndarray:
    """1 where a value is above 0, else −1."""
    return np.where(values > 0, 1.0, -1.0)


def loss(targets: np.ndarray, signs: np.ndarray) -> float:
    """Σ over pairs of (target − Hamming distance / n_bits)²: Kulis and Darrell 2009."""
    distances = (1 - signs @ signs.T / signs.shape[1]) / 2
    return float(((targets - distances) ** 2).sum() / 2)


def bit_gains(targets: np.ndarray, signs: np.ndarray, bit: int) -> np.ndarray:
    """G, 0 on its diagonal: the loss as a function of one bit h is a constant − ½·½·hᵀGh.

    With R = what the other bits leave of the targets, (R − δ/b)² = R² + δ·(1/b² − 2R/b), δ = (1 − h·h′)/2.
    """
    n_bits = signs.shape[1]
    others = np.delete(signs, bit, axis=1)
    left = targets - ((n_bits - 1) - others @ others.T) / (2 * n_bits)
    gains = 1 / n_bits**2 - 2 * left / n_bits
    np.fill_diagonal(gains, 0)
    return np.asarray(gains)


def best_weights(gains: np.ndarray, columns: np.ndarray, weights: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Set each weight of a bit to its best value, the others fixed; the bit's signs. columns: (n_weights, n_items)."""
    values, products = weights @ columns, gains @ signs
    for q in range(len(weights)):
        weight = best_weight(gains, columns[q], values, weights[q], signs, products)
        if weight is not None:
            values = values + (weight - weights[q]) * columns[q]
            weights[q], signs = weight, side(values)
            products = gains @ signs
    return signs


def best_weight(
    gains: np.ndarray,
    column: np.ndarray,
    values: np.ndarray,
    weight: float,
    signs: np.ndarray,
    products: np.ndarray,
) -> float | None:
    """The value of one weight with the largest hᵀGh, None if no other is better: Kulis and Darrell 2009.

    Item i changes its sign at weight − values[i] / column[i]. Between two such thresholds nothing changes, so all that
    can happen is tried in their order, upwards and downwards from the weight as it is. products: gains @ signs.
    """
    moving = np.flatnonzero(column)
    steps = -values[moving] / column[moving]
    best, found = 0.0, None
    for direction in (1, -1):
        ahead = steps * direction > 0 if direction > 0 else steps <= 0
        ahead &= np.isfinite(steps)
        order = moving[ahead][np.argsort(direction * steps[ahead], kind="stable")]
        places = np.sort(direction * steps[ahead], kind="stable")
        falls = np.empty(len(order) + 1)
        search_kernels().flip_gains(gains, signs.copy(), products.copy(), order, falls)
        ends = np.append(places[1:], 2 * places[-1:] + np.abs(values).max() + 1) if len(places) else places
        wide = ends - places > 1e-9 * np.abs(ends)  # else rounding could tell two thresholds apart wrongly
        better = np.flatnonzero(wide & (falls[1:] < -best))
        for k in better[np.argsort(falls[1:][better], kind="stable")]:
            step = direction * (places[k] + ends[k]) / 2
            if np.array_equal(side(values + step * column), _turned(signs, order[: k + 1])):
                best, found = -falls[k + 1], weight + step
                break
    return None if found is None else float(found)


def _turned(signs: np.ndarray, items: np.ndarray) -> np.ndarray:
    turned = signs.copy()
    turned[items] *= -1
    return turned
