"""Shared hypothesis strategies: small tied rankings, larger group sizes, bit matrices, labels.

A strategy that only ever drew easy shapes would let every property pass, so the shapes at the edge (one group, no ties,
nothing relevant, everything relevant, one item) are drawn on purpose, not left to luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

BITS = (1, 7, 8, 9, 12, 16, 17, 63, 64, 65, 128, 200, 256, 300)


@dataclass(frozen=True)
class Rankings:
    """Several queries over one gallery: for every query and item, the tie group it falls in and its grade."""

    place: list[list[int]]
    grades: list[list[int]]

    @property
    def scores(self) -> NDArray[np.float64]:
        """Higher is better: minus the index of the tie group."""
        return -np.array(self.place, dtype=np.float64)

    @property
    def matrix(self) -> NDArray[np.int64]:
        return np.array(self.grades, dtype=np.int64)

    @property
    def n_items(self) -> int:
        return len(self.place[0])

    def __len__(self) -> int:
        return len(self.place)

    def groups(self, query: int, left_out: frozenset[int] = frozenset()) -> list[list[int]]:
        """The tie groups of one query in rank order, without the items left out."""
        place, grades = self.place[query], self.grades[query]
        return [
            [grades[i] for i in range(len(place)) if place[i] == p and i not in left_out] for p in sorted(set(place))
        ]


def places(n_items: int) -> SearchStrategy[list[int]]:
    """A tie group for every item: everything tied, no ties, or anything between."""
    return st.one_of(
        st.just([0] * n_items),
        st.permutations(range(n_items)),
        st.lists(st.integers(0, 3), min_size=n_items, max_size=n_items),
    )


def item_grades(n_items: int, max_grade: int = 3) -> SearchStrategy[list[int]]:
    """A grade for every item: nothing relevant, all relevant, binary, or graded."""
    return st.one_of(
        st.just([0] * n_items),
        st.lists(st.integers(1, max_grade), min_size=n_items, max_size=n_items),
        st.lists(st.integers(0, 1), min_size=n_items, max_size=n_items),
        st.lists(st.integers(0, max_grade), min_size=n_items, max_size=n_items),
    )


@st.composite
def rankings(draw: DrawFn, max_items: int = 7, max_queries: int = 3) -> Rankings:
    """One or several queries of different shapes over the same items, few enough to enumerate every order."""
    n_items = draw(st.integers(1, max_items))
    n_queries = draw(st.integers(1, max_queries))
    return Rankings(
        [draw(places(n_items)) for _ in range(n_queries)], [draw(item_grades(n_items)) for _ in range(n_queries)]
    )


@st.composite
def group_sizes(draw: DrawFn, max_groups: int = 4, max_size: int = 300) -> list[tuple[int, int]]:
    """(items, relevant items) of tie groups of hundreds of items, with at least one item."""
    groups = []
    for _ in range(draw(st.integers(1, max_groups))):
        n = draw(st.one_of(st.just(1), st.integers(1, max_size)))
        groups.append((n, draw(st.one_of(st.sampled_from([0, 1, n]), st.integers(0, n)))))
    return groups


@st.composite
def bit_matrices(draw: DrawFn, n_rows: int, n_bits: int) -> NDArray[np.uint8]:
    """Rows of bits around few centres, so that codes repeat, with the distances 0 and n_bits within reach."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return clustered_bits(rng, n_rows, n_bits)


def clustered_bits(rng: np.random.Generator, n_rows: int, n_bits: int) -> NDArray[np.uint8]:
    """Bits around four centres (all zeros and all ones among them), most rows with no or few flips."""
    centres = np.vstack([np.zeros((1, n_bits)), np.ones((1, n_bits)), rng.integers(0, 2, (2, n_bits))])
    bits = centres[rng.integers(0, len(centres), n_rows)].astype(np.uint8)
    flips = rng.random((n_rows, n_bits)) < rng.choice([0.0, 0.02, 0.3], (n_rows, 1))
    return np.asarray(bits ^ flips, dtype=np.uint8)


def labels(n_items: int, n_classes: int = 3) -> SearchStrategy[list[int]]:
    """A class for every item, at times one class only."""
    return st.one_of(
        st.just([0] * n_items), st.lists(st.integers(0, n_classes - 1), min_size=n_items, max_size=n_items)
    )
