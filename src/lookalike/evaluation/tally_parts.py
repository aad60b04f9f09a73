"""Parts of a tally: the codes around a query, the judged items without a rank, and arrays of different lengths."""

from dataclasses import dataclass

import numpy as np

from lookalike.core.errors import InputError
from lookalike.evaluation.relevance import Unranked

__all__ = ["Ball", "stack_ragged", "unranked_in_both"]


@dataclass(frozen=True)
class Ball:
    """The codes within a radius of each query and how many items lie on each: what LGAP needs, in a form that adds up.

    queries, distances, counts: (n,); words: (n, words of a code). One row for each query and code.
    """

    radius: int
    queries: np.ndarray
    words: np.ndarray
    distances: np.ndarray
    counts: np.ndarray

    def __add__(self, other: "Ball") -> "Ball":
        if self.radius != other.radius:
            raise InputError(f"tallies kept the codes within different radii, {self.radius} and {other.radius}")
        queries = np.concatenate([self.queries, other.queries])
        words = np.concatenate([self.words, other.words])
        order = np.lexsort((*words.T, queries))
        queries, words = queries[order], words[order]
        new = np.ones(len(queries), bool)
        new[1:] = (queries[1:] != queries[:-1]) | (words[1:] != words[:-1]).any(1)
        starts = np.flatnonzero(new)
        counts = np.concatenate([self.counts, other.counts])[order]
        distances = np.concatenate([self.distances, other.distances])[order]
        summed = np.add.reduceat(counts, starts) if len(starts) else counts
        return Ball(self.radius, queries[starts], words[starts], distances[starts], summed)

    def largest(self, n_queries: int) -> np.ndarray:
        """The largest number of items on one code at each distance, (n_queries, radius + 1)."""
        out = np.zeros((n_queries, self.radius + 1), np.int64)
        np.maximum.at(out, (self.queries, self.distances), self.counts)
        return out


def stack_ragged(rows: list[np.ndarray], filler: float) -> np.ndarray:
    """Arrays of different lengths as one, the missing places filled."""
    longest = max((len(row) for row in rows), default=0)
    out = np.full((len(rows), longest, *rows[0].shape[1:]), filler, rows[0].dtype)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out


def unranked_in_both(left: Unranked | None, right: Unranked | None) -> Unranked | None:
    """Judged items that neither part of the gallery ranks."""
    if left is None or right is None:
        return left if right is None else right
    others = set(zip(right.queries.tolist(), right.items.tolist(), strict=True))
    both = [pair in others for pair in zip(left.queries.tolist(), left.items.tolist(), strict=True)]
    keep = np.array(both, bool)
    return Unranked(left.queries[keep], left.items[keep], left.grades[keep])
