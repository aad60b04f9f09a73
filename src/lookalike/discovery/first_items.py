"""The first items of each query from a block of scores: in plain numpy, and compiled where there is much to do.

Both give the same numbers. A few scores take the plain way, which has nothing to compile.
"""

from typing import NamedTuple

import numpy as np

from lookalike.core.kernels import place_kernels

MUCH = 1 << 17  # scores in all from which loading compiled loops pays

__all__ = [
    "MUCH",
    "FirstOfRows",
    "best_of_identities",
    "best_of_identities_plainly",
    "first_items",
    "first_items_plainly",
]


class FirstOfRows(NamedTuple):
    """The first items of each row of scores, by falling score; equal scores by rising number of the item.

    rows, items, scores: (n,). inside: which of them belong to the first of a smaller depth, too.
    """

    rows: np.ndarray
    items: np.ndarray
    scores: np.ndarray
    inside: np.ndarray


def first_items(
    rows: np.ndarray, lengths: np.ndarray, depth: int, shallow: int, names: np.ndarray | None = None, *, much: bool
) -> FirstOfRows:
    """All that score no less than the `depth`-th of their row, but for -inf, which does not rank.

    lengths: what each row is divided by, after what is no less has been found. names: the item of each column of each
    row; by default its number. much: whether there is so much to do, in all blocks, that loading compiled loops pays.

    >>> found = first_items(np.array([[1.0, 3, 2, 2, -np.inf]]), np.ones(1), 2, 1, much=False)
    >>> found.items, found.scores, found.inside
    (array([1, 2, 3]), array([3., 2., 2.]), array([ True, False, False]))
    """
    if not much:
        return first_items_plainly(rows, lengths, depth, shallow, names)
    own = np.zeros((len(rows), 0), np.int64) if names is None else names
    starts, items, scores, inside = place_kernels().first_items(rows, lengths, depth, shallow, own)
    return FirstOfRows(np.repeat(np.arange(len(rows)), np.diff(starts)), items, scores, inside)


def first_items_plainly(
    rows: np.ndarray, lengths: np.ndarray, depth: int, shallow: int, names: np.ndarray | None = None
) -> FirstOfRows:
    """As `first_items`, in plain numpy."""
    parts = []
    for number, row in enumerate(rows):
        falling = np.sort(row)[::-1]
        least, least_inside = (falling[min(k, len(row)) - 1] for k in (depth, shallow))
        columns = np.flatnonzero((row >= least) & (row > -np.inf))
        items = columns if names is None else names[number, columns]
        scores = row[columns].astype(float) / lengths[number]
        order = np.lexsort((items, -scores))
        inside = row[columns] >= least_inside
        parts.append((np.full(len(items), number), items[order], scores[order], inside[order]))
    return FirstOfRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def best_of_identities(
    rows: np.ndarray, members: tuple[np.ndarray, np.ndarray], *, much: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The best score of each identity in each row, and the first item that has it, both (rows, identities).

    members: as `Collection.members`. much: as `first_items` has it.
    """
    if not much:
        return best_of_identities_plainly(rows, members)
    order, starts = members
    best, first = np.empty((len(rows), len(starts)), rows.dtype), np.empty((len(rows), len(starts)), np.int64)
    place_kernels().best_of_identities(rows, order, np.append(starts, len(order)), best, first)
    return best, first


def best_of_identities_plainly(
    rows: np.ndarray, members: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """As `best_of_identities`, in plain numpy."""
    order, starts = members
    best = np.maximum.reduceat(rows[:, order], starts, axis=1)
    is_best = rows[:, order] == np.repeat(best, np.diff(starts, append=len(order)), axis=1)
    return best, np.minimum.reduceat(np.where(is_best, order, len(order)), starts, axis=1)
