"""Places: where a model ranks the judged pairs, however far down, without a list of everything that it ranks.

A metric without a cutoff needs the rank of every judged item, and of all others only how many stand in between. So the
scores of a block of queries are made and counted, and nothing of the size queries × items is kept.
"""

from dataclasses import dataclass

import numpy as np

from lookalike.core.kernels import place_kernels

__all__ = [
    "PairsToPlace",
    "Places",
    "WholeRanking",
    "places_in_block",
    "places_in_lists",
    "places_in_row",
    "whole_ranking",
]


@dataclass(frozen=True, eq=False)
class PairsToPlace:
    """Pairs of positions and their scores by one model, sorted by query."""

    queries: np.ndarray
    items: np.ndarray
    scores: np.ndarray

    def of(self, query: int) -> slice:
        """The pairs of one query."""
        return self.of_block(slice(query, query + 1))

    def of_block(self, block: slice) -> slice:
        """The pairs of a block of queries."""
        start, end = np.searchsorted(self.queries, [block.start, block.stop])
        return slice(int(start), int(end))


@dataclass(frozen=True, eq=False)
class Places:
    """Of each pair how many items rank above it and how many tie with it, itself included; of each query its items.

    ranked: which pairs have a rank; not those that a run does not list, nor images that another one stands for.
    n_ranked: (n_queries,), how many items the model ranks for each query.
    """

    above: np.ndarray
    tied: np.ndarray
    ranked: np.ndarray
    n_ranked: np.ndarray

    @classmethod
    def empty(cls, pairs: PairsToPlace, n_queries: int) -> "Places":
        """Places in which nothing is counted yet."""
        above, tied = np.zeros((2, len(pairs.queries)), np.int64)
        return cls(above, tied, np.zeros(len(pairs.queries), bool), np.zeros(n_queries, np.int64))


def places_in_row(ascending: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """How many of one query's scores are above, and equal to, each of some; and how many are ranked at all.

    ascending: the scores of all items, -inf for what does not rank.

    >>> places_in_row(np.array([-np.inf, 1.0, 2.0, 2.0, 5.0]), np.array([2.0, 5.0]))
    (array([1, 0]), array([2, 1]), 4)
    """
    right, left = (np.searchsorted(ascending, scores, side) for side in ("right", "left"))
    n_ranked = len(ascending) - int(np.searchsorted(ascending, -np.inf, "right"))
    return len(ascending) - right, right - left, n_ranked


def places_in_block(
    rows: np.ndarray, lengths: np.ndarray, pairs: PairsToPlace, block: slice, places: Places, *, much: bool
) -> None:
    """Count the pairs of a block of queries among their rows of scores, -inf for what does not rank; sorts the rows.

    lengths: what each row is divided by to be in units of the pairs' scores. much: whether there is so much to do that
    loading compiled loops pays; both ways count the same.
    """
    rows.sort(axis=1)  # all rows at once: numpy sorts with vector instructions
    if much:
        here = pairs.of_block(block)
        starts = np.searchsorted(pairs.queries[here], np.arange(block.start, block.stop + 1))
        counted = places.above[here], places.tied[here], places.n_ranked[block]
        place_kernels().count_places(rows, lengths, starts, np.ascontiguousarray(pairs.scores[here]), *counted)
        return
    for query, row in enumerate(rows, block.start):
        mine, ascending = pairs.of(query), row.astype(float) / lengths[query - block.start]
        places.above[mine], places.tied[mine], places.n_ranked[query] = places_in_row(ascending, pairs.scores[mine])


def places_in_lists(
    pairs: PairsToPlace, queries: np.ndarray, items: np.ndarray, scores: np.ndarray, n_queries: int
) -> Places:
    """The places of pairs in lists that are sorted by query; pairs that are not listed have none."""
    places = Places.empty(pairs, n_queries)
    bounds = np.searchsorted(queries, np.arange(n_queries + 1))
    places.n_ranked[:] = np.diff(bounds)
    for query in np.unique(pairs.queries).tolist():
        rows, here = pairs.of(query), slice(bounds[query], bounds[query + 1])
        places.above[rows], places.tied[rows], _ = places_in_row(np.sort(scores[here]), pairs.scores[rows])
        places.ranked[rows] = np.isin(pairs.items[rows], items[here])
    return places


@dataclass(frozen=True, eq=False)
class WholeRanking:
    """The judged pairs that a model ranks, in tie groups, and how many other items stand in and between these groups.

    queries, items, groups: (n,), the tie group of each pair among those of its query. others: (n_queries, n_groups),
    items without a judgement. Groups of such items alone that follow each other are one: in whatever order they are,
    every metric is the same.
    """

    queries: np.ndarray
    items: np.ndarray
    groups: np.ndarray
    others: np.ndarray


def whole_ranking(pairs: PairsToPlace, places: Places) -> WholeRanking:
    """Put the pairs of each query into tie groups: odd ones hold judged items, even ones what is in between."""
    rows = np.flatnonzero(places.ranked)
    rows = rows[np.lexsort((places.above[rows], pairs.queries[rows]))]
    queries, above, tied = pairs.queries[rows], places.above[rows], places.tied[rows]
    first = np.diff(queries, prepend=-1) != 0
    new = first | (np.diff(above, prepend=-1) != 0)
    number = np.cumsum(new) - 1  # of the group among all
    group = number - number[np.flatnonzero(first)][np.cumsum(first) - 1] if len(rows) else number
    others = np.zeros((len(places.n_ranked), 2 * int(group.max(initial=-1)) + 3), np.int64)
    starts, of, place = np.flatnonzero(new), queries[new], group[new]
    ends = above[starts] + tied[starts]  # ranks up to the end of each group
    before = np.where(first[starts], 0, np.concatenate([[0], ends[:-1]])) if len(starts) else ends
    others[of, 2 * place] = above[starts] - before
    others[of, 2 * place + 1] = tied[starts] - np.bincount(number, minlength=len(starts))
    last = np.flatnonzero(np.diff(of, append=-1) != 0)
    below = places.n_ranked.copy()
    below[of[last]] -= ends[last]
    deepest = np.zeros(len(below), np.int64)
    deepest[of[last]] = 2 * place[last] + 2
    others[np.arange(len(below)), deepest] = below
    return WholeRanking(queries, pairs.items[rows], 2 * group + 1, others)
