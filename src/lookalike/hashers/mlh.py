"""MLH: minimal loss hashing."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError, Option
from lookalike.core.progress import track
from lookalike.hashers.base import Hasher, check_number
from lookalike.hashers.bre import side, unit_rows
from lookalike.hashers.labels import LabelGroups, group_labels
from lookalike.hashers.projection import centred_blocks, sample_rows

__all__ = ["MLH"]


class MLH(Hasher):
    """Minimal loss hashing: a hinge loss on Hamming distances, lowered through an upper bound (Norouzi and Fleet 2011).

    y: a label for each item, or a matrix of tags of 0 and 1; items are similar if they share a label or a tag. Similar
    items should differ in fewer than `rho` bits, others in more than `rho`; `weight` multiplies the loss of the others.
    Without `rho` it is n_bits / 8, rounded up. `n_steps` steps of `batch_size` pairs, half of them similar, follow the
    gradient of the bound. `losses_` and `bounds_` are the means over the pairs of each hundred steps.
    At most `max_samples` items take part.
    """

    learns_labels = True
    losses_: np.ndarray
    bounds_: np.ndarray

    def __init__(
        self,
        n_bits: int = 32,
        *,
        rho: int | None = None,
        weight: float = 1.0,
        n_steps: int = 2000,
        batch_size: int = 100,
        learning_rate: float = 0.3,
        weight_decay: float = 1e-3,
        max_samples: int = 20_000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.rho, self.weight, self.n_steps = n_bits, rho, weight, n_steps
        self.batch_size, self.learning_rate, self.weight_decay = batch_size, learning_rate, weight_decay
        self.max_samples, self.random_state = max_samples, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        for name in ("weight", "learning_rate", "weight_decay"):
            check_number(name, getattr(self, name))
        whole_number("n_steps", self.n_steps, 1)
        whole_number("batch_size", self.batch_size, 2)
        whole_number("max_samples", self.max_samples, 2)
        rho = -(-self.n_bits // 8) if self.rho is None else whole_number("rho", self.rho, 1, self.n_bits)
        groups = group_labels("MLH", y, len(X))
        rows = sample_rows(len(X), self.max_samples, random)
        items = unit_rows(np.concatenate(list(centred_blocks(X, self.mean_, np.float64, rows))))
        pairs = LabelledPairs(groups.of(rows), random)
        hinge = {similar: hinge_losses(self.n_bits, rho, similar, self.weight) for similar in (True, False)}
        directions = 0.1 * random.normal(size=(items.shape[1], self.n_bits))
        self.losses_, self.bounds_ = self._descend(items, pairs, np.stack([hinge[False], hinge[True]]), directions)
        self.directions_ = directions.astype(np.float32)

    def _descend(
        self, items: np.ndarray, pairs: "LabelledPairs", hinge: np.ndarray, directions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean losses and bounds of each hundred steps; directions are changed in place."""
        velocity, measured = np.zeros_like(directions), []
        for step in track(range(self.n_steps), self.n_steps, "stepping (MLH)"):
            one, other, similar = pairs.draw(self.batch_size)
            both = items[np.concatenate([one, other])]
            values = both @ directions
            halves = values[: len(one)], values[len(one) :]
            wanted, bounds = adjusted(*halves, hinge[similar.astype(int)])
            bits = side(values)
            differ = (bits[: len(one)] != bits[len(one) :]).sum(1)
            measured.append((hinge[similar.astype(int), differ].mean(), bounds.mean()))
            # Norouzi and Fleet 2011: towards the codes as they are, away from the loss-adjusted ones
            gradient = both.T @ (bits - np.concatenate(wanted)) / len(one)
            rate = self.learning_rate * (1 - step / self.n_steps)
            velocity = 0.9 * velocity + rate * (gradient - self.weight_decay * directions)
            directions += velocity
        means = [np.mean(measured[start : start + 100], axis=0) for start in range(0, self.n_steps, 100)]
        return np.array(means)[:, 0], np.array(means)[:, 1]


class LabelledPairs:
    """Draws pairs of items, half of them similar."""

    def __init__(self, groups: LabelGroups, random: np.random.RandomState) -> None:
        self._groups, self._random = groups, random
        self._order = np.argsort(groups.group, kind="stable")
        self._sizes = np.bincount(groups.group, minlength=len(groups.tags))
        self._starts = np.cumsum(self._sizes) - self._sizes
        tagged = np.asarray(groups.similar.any(axis=1))
        self._first = np.flatnonzero(tagged[groups.group])  # an item without tags is similar to none
        if not len(self._first) or groups.similar.all():
            raise InputError("the items that MLH draws have one class only: set ", Option("max_samples"), " to more")

    def draw(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One item and the other of n pairs, and whether they are similar."""
        group, half = self._groups.group, n // 2
        one = np.concatenate([self._random.choice(self._first, half), self._random.randint(len(group), size=n - half)])
        counts = self._groups.similar[group[one[:half]]] * self._sizes
        # a random one of the items that are similar: their groups stand side by side
        number = (self._random.random_sample(half) * counts.sum(1)).astype(np.int64)
        ends = np.cumsum(counts, axis=1)
        chosen = (ends <= number[:, None]).sum(1)
        within = number - (ends - counts)[np.arange(half), chosen]
        partner = self._order[self._starts[chosen] + within]
        other = np.concatenate([partner, self._random.randint(len(group), size=n - half)])
        return one, other, self._groups.similar[group[one], group[other]]


def hinge_losses(n_bits: int, rho: int, similar: bool, weight: float = 1.0) -> np.ndarray:
    """The loss of a pair at each Hamming distance from 0 to n_bits: Norouzi and Fleet 2011.

    Similar: max(m − ρ + 1, 0); not: weight · max(ρ − m + 1, 0). Each is divided by its largest value without weight.

    >>> hinge_losses(4, 2, True).tolist()
    [0.0, 0.0, 0.3333333333333333, 0.6666666666666666, 1.0]
    >>> hinge_losses(4, 1, False).tolist()
    [1.0, 0.5, 0.0, 0.0, 0.0]
    """
    distance = np.arange(n_bits + 1)
    if similar:
        return np.maximum(distance - rho + 1, 0) / (n_bits - rho + 1)
    return np.asarray(weight * np.maximum(rho - distance + 1, 0) / (rho + 1))


def adjusted(
    one: np.ndarray, other: np.ndarray, losses: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Loss-adjusted inference: the codes g, g′ with the largest loss(‖g − g′‖) + g·u + g′·u′, and the bounds.

    one, other: real values u and u′ of pairs, (n, n_bits). losses: of each pair at each distance, (n, n_bits + 1). The
    bound of a pair is that largest value less Σ|u| + Σ|u′|; it is not below the loss of the signs.
    Norouzi and Fleet 2011: a bit that differs costs |u + u′| − |u − u′|, so that of all codes at one
    distance those with the cheapest bits are best; every distance is tried.
    """
    gain = np.abs(one - other) - np.abs(one + other)
    order = np.argsort(-gain, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(gain, order, axis=1), axis=1)
    totals = losses + np.column_stack([np.zeros(len(one)), sums])
    distance = totals.argmax(1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(one.shape[1])[None], axis=1)
    differ = place < distance[:, None]
    first = side(np.where(differ, one - other, one + other))
    alike = np.abs(one + other).sum(1) - np.abs(one).sum(1) - np.abs(other).sum(1)
    return (first, np.where(differ, -first, first)), totals[np.arange(len(one)), distance] + alike
