"""What is looked for among all pairs of items: groups of near-duplicates, and the nearest pairs of different labels."""

from typing import Protocol

import numpy as np

from lookalike.search.pair_spaces import PairSpace

__all__ = ["LinkedGroups", "NearestAcross", "PairSeeker"]


class PairSeeker(Protocol):
    """Collects the pairs that it looks for; it gets pairs in the order of their first, then their second item."""

    @property
    def limit(self) -> float:
        """The squared distance up to which pairs matter, from here on."""

    @property
    def keys(self) -> np.ndarray:
        """(n,) whole numbers: no pair of two items with the same is wanted."""

    def expect(self, space: PairSpace, sample: np.ndarray) -> None:
        """Estimate from a sample of the items how near the wanted pairs are at most."""

    def wants(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Which of these pairs are worth measuring."""

    def take(self, first: np.ndarray, second: np.ndarray, squares: np.ndarray) -> None:
        """Use the squared distances of these pairs."""


class LinkedGroups:
    """Groups of items that are connected by steps up to a limit. group: (n,), equal for items that are connected."""

    def __init__(self, n: int, limit: float) -> None:
        self.limit = limit
        self.group = np.arange(n)
        self._members: dict[int, list[int]] = {}

    @property
    def keys(self) -> np.ndarray:
        return self.group

    def expect(self, space: PairSpace, sample: np.ndarray) -> None:
        """Do nothing: the limit does not depend on the items."""

    def wants(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(self.group[first] != self.group[second])

    def take(self, first: np.ndarray, second: np.ndarray, squares: np.ndarray) -> None:
        near = np.flatnonzero(squares <= self.limit)
        for i, j in zip(first[near].tolist(), second[near].tolist(), strict=True):
            self._join(int(self.group[i]), int(self.group[j]))

    def _join(self, one: int, other: int) -> None:
        if one == other:
            return
        sides = [(self._members.pop(group, [group]), group) for group in (one, other)]
        (fewer, _), (more, kept) = sorted(sides, key=lambda side: len(side[0]))
        self.group[fewer] = kept
        more += fewer
        self._members[kept] = more

    def groups(self) -> list[np.ndarray]:
        """Groups of at least two items, each in rising order."""
        return [np.array(sorted(members)) for members in self._members.values()]


class NearestAcross:
    """The nearest pairs of different labels: all pairs, or with `by_label` only the nearest pair of each two labels."""

    def __init__(self, labels: np.ndarray, wanted: int, by_label: bool, above: float = -1.0) -> None:
        self._labels = np.unique(labels, return_inverse=True)[1]
        self._labelled = labels != ""
        self._wanted, self._by_label, self._above = wanted, by_label, above
        self._expected = np.inf  # there are enough pairs that are as near as this
        self._best: dict[tuple[int, int], tuple[float, int, int]] = {}
        used = self._labels[self._labelled]
        self._none = bool((used == used[:1]).all())  # all have one label: no pair can differ

    @property
    def keys(self) -> np.ndarray:
        return self._labels

    def beyond(self, near: float, groups: list[np.ndarray]) -> "NearestAcross":
        """A seeker of pairs that are farther apart than `near`; labels that occur in one group become one label."""
        labels = self._labels.copy()
        if self._by_label:
            joined = LinkedGroups(int(labels.max(initial=0)) + 1, 0.0)
            for items in groups:
                names = np.unique(labels[items[self._labelled[items]]])
                joined.take(names[:-1], names[1:], np.zeros(max(0, len(names) - 1)))
            labels = joined.group[labels]
        named = np.where(self._labelled, labels.astype(str), "")
        return NearestAcross(named, self._wanted, self._by_label, near)

    @property
    def limit(self) -> float:
        if self._none:
            return -1.0
        if len(self._best) < self._wanted:
            return self._expected
        # what comes later in the order must be nearer than the last
        worst = max(self._best.values())[0]
        return min(self._expected, float(np.nextafter(worst, -1)) if worst else -1.0)

    def wants(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        differ = self._labels[first] != self._labels[second]
        return np.asarray(differ & self._labelled[first] & self._labelled[second])

    def take(self, first: np.ndarray, second: np.ndarray, squares: np.ndarray) -> None:
        near = (squares <= self.limit) & (squares > self._above)
        matter = np.flatnonzero(near & self.wants(first, second))
        for k in matter[np.lexsort((second[matter], first[matter], squares[matter]))].tolist():
            if squares[k] > self.limit:
                break
            pair = (float(squares[k]), int(first[k]), int(second[k]))
            key = self._key(pair[1], pair[2])
            if key not in self._best or pair < self._best[key]:
                self._best[key] = pair
            if len(self._best) > self._wanted:
                del self._best[max(self._best, key=lambda key: self._best[key])]

    def _key(self, first: int, second: int) -> tuple[int, int]:
        if not self._by_label:
            return first, second
        one, other = sorted((int(self._labels[first]), int(self._labels[second])))
        return one, other

    def expect(self, space: PairSpace, sample: np.ndarray) -> None:
        """Estimate from a sample of the items how near the wanted pairs are at most."""
        rows = space.rows(sample)
        rows -= rows.mean(0)
        lengths = (rows * rows).sum(1)
        squares = lengths[:, None] + lengths - 2 * rows @ rows.T
        first, second = np.triu_indices(len(sample), 1)
        rounding = 1e-9 * float(lengths.max(initial=0)) + 1e-12
        wanted = self.wants(sample[first], sample[second]) & (squares[first, second] > self._above + rounding)
        first, second = first[wanted], second[wanted]
        order = np.argsort(squares[first, second], kind="stable")
        keys: set[tuple[int, int]] = set()
        for k in order.tolist():
            keys.add(self._key(int(sample[first[k]]), int(sample[second[k]])))
            if len(keys) == self._wanted:
                self._expected = float(squares[first[k], second[k]]) + rounding
                return

    def nearest(self) -> list[tuple[float, int, int]]:
        """The pairs as (squared distance, first item, second item); the nearest first, ties by position."""
        return sorted(self._best.values())
