"""Items of a collection that are near each other: groups of near-duplicates, and the nearest pairs across labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.search.all_pairs import AllPairs, measure
from lookalike.search.pair_seekers import LinkedGroups, NearestAcross
from lookalike.search.pair_spaces import PairSpace, pair_space

DRAWN = 20_000  # pairs drawn by chance: their median distance is the usual one
SHARE = 1 / 4  # of the usual distance: near-duplicates
BITS = 16  # near-duplicates differ in one bit of so many
CLOSEST = 200  # items of a group between which all distances are measured

__all__ = ["DuplicateGroup", "Near", "NearPair", "find_near"]


@dataclass(frozen=True, eq=False)
class DuplicateGroup:
    """Items that are connected by steps of near-duplicates."""

    items: np.ndarray  # positions, rising
    nearest: float  # of its pairs, as the space writes distances
    farthest: float
    whole: bool = True  # whether all pairs were measured, or only those of its first items


@dataclass(frozen=True)
class NearPair:
    """Two items that are near each other and are labelled as different."""

    first: int
    second: int
    distance: float  # as the space writes distances


@dataclass(frozen=True, eq=False)
class Near:
    """The near-duplicates of a collection, and its nearest pairs of different labels."""

    unit: str  # of all distances: "bits", "cosine" (higher is nearer) or "distance"
    usual: float  # the median distance of two items drawn by chance
    limit: float  # up to which two items are near-duplicates
    chosen: bool  # whether the user set the limit
    groups: list[DuplicateGroup]  # the largest first, then the tightest
    pairs: list[NearPair]  # of different labels, the nearest first
    beyond: list[NearPair]  # the same without near-duplicates; labels that near-duplicates connect count as one

    @property
    def grouped(self) -> int:
        """How many items are in some group."""
        return sum(len(group.items) for group in self.groups)


def find_near(
    vectors: Any,
    labels: np.ndarray | None = None,
    *,
    similarity: str | None = None,
    limit: float | None = None,
    pairs: int = 24,
    seed: int = 0,
    what: str = "comparing items",
) -> Near:
    """Find groups of near-duplicates, and the nearest pairs of different labels; all of them, exactly.

    vectors: Codes or embeddings. labels: one an item, "" where unknown; where there are many, only the nearest pair of
    each two labels counts. limit: up to which two items are near-duplicates, in bits, as cosine, or as distance; by
    default one bit of 16, or a quarter of the median distance of pairs drawn with `seed`. what: as progress says it.

    >>> codes = Codes.pack(np.repeat(np.eye(4), 16, axis=1)[[0, 0, 1, 2]])
    >>> near = find_near(codes, np.array(["red", "blue", "red", "red"]), pairs=1)
    >>> near.limit, [group.items for group in near.groups], near.pairs
    (4, [array([0, 1])], [NearPair(first=0, second=1, distance=0)])
    """
    space = pair_space(vectors, similarity)
    rng = np.random.default_rng(seed)
    usual = _usual(space, rng)
    near = _default_limit(vectors, usual) if limit is None else space.square(limit)
    links = LinkedGroups(len(space), near)
    across = None if labels is None else NearestAcross(labels, pairs, _are_many(labels, pairs))
    all_pairs = AllPairs(space, rng)
    all_pairs.sweep([links] if across is None else [links, across], what)
    groups = links.groups()
    return Near(
        space.unit,
        space.shown(usual),
        space.shown(near),
        limit is not None,
        _described(space, groups),
        *([[], []] if across is None else _pairs(space, all_pairs, across, groups, near, f"{what}, once more")),
    )


def _pairs(
    space: PairSpace, all_pairs: AllPairs, across: NearestAcross, groups: list[np.ndarray], near: float, what: str
) -> list[list[NearPair]]:
    """The nearest pairs of different labels, and those of them that are not near-duplicates."""
    first = across.nearest()
    if first and first[0][0] <= near:
        later = across.beyond(near, groups)
        all_pairs.sweep([later], what)
        second = later.nearest()
    else:
        second = first
    return [[NearPair(i, j, space.shown(square)) for square, i, j in pairs] for pairs in (first, second)]


def _are_many(labels: np.ndarray, pairs: int) -> bool:
    """Whether there are so many pairs of labels that the nearest pair of items of each is enough."""
    n = len(np.unique(labels[labels != ""]))
    return n * (n - 1) // 2 >= 50 * pairs


def _usual(space: PairSpace, rng: np.random.Generator) -> float:
    """The median squared distance of two items drawn by chance."""
    n = len(space)
    if n < 2:
        return 0.0
    first = rng.integers(n, size=DRAWN)
    second = (first + rng.integers(1, n, size=DRAWN)) % n
    return float(np.quantile(measure(space, first, second), 0.5, method="lower"))


def _default_limit(vectors: Any, usual: float) -> float:
    return float(vectors.n_bits // BITS) if isinstance(vectors, Codes) else usual * SHARE**2


def _described(space: PairSpace, members: list[np.ndarray]) -> list[DuplicateGroup]:
    """The groups with their nearest and farthest pair, the largest first, then the tightest."""
    groups = []
    for items in members:
        looked = items[:CLOSEST]
        first, second = np.triu_indices(len(looked), 1)
        squares = measure(space, looked[first], looked[second])
        nearest, farthest = squares.min(), squares.max()
        group = DuplicateGroup(items, space.shown(nearest), space.shown(farthest), len(looked) == len(items))
        groups.append((farthest, group))
    groups.sort(key=lambda pair: (-len(pair[1].items), pair[0], pair[1].items[0]))
    return [group for _, group in groups]
