"""Tie groups of scores, in a form that adds up over shards."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.kernels import kernels
from lookalike.evaluation.count_shards.search import arrays_of, unranked_of
from lookalike.evaluation.relevance import Unranked
from lookalike.evaluation.tally_parts import unranked_in_both

__all__ = ["ScoreGroups", "widened"]


@dataclass(frozen=True)
class ScoreGroups:
    """Some of the tie groups of each query, all queries' in a row: scores, the highest first, and counts of each.

    starts: (n_queries + 1,); scores: (n,); counts: (n, grades and the unjudged); totals: (n_queries, likewise), of all
    items and not only those of these groups. k: groups that begin past so many items are left out; None: none.
    """

    starts: np.ndarray
    scores: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    k: int | None = None
    unranked: Unranked | None = None

    def of(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and counts of one query."""
        span = slice(self.starts[query], self.starts[query + 1])
        return self.scores[span], self.counts[span]

    @classmethod
    def joined(cls, groups: list[tuple[np.ndarray, np.ndarray]], totals: np.ndarray, **rest: Any) -> "ScoreGroups":
        """From the scores and counts of each query."""
        starts = np.cumsum([0, *(len(scores) for scores, _ in groups)])
        scores, counts = (np.concatenate(column) for column in zip(*groups, strict=True))
        return cls(starts, scores, counts, totals, **rest)

    @classmethod
    def concatenated(cls, blocks: list["ScoreGroups"]) -> "ScoreGroups":
        """Those of several blocks of queries, one after the other."""
        width = max(block.counts.shape[1] for block in blocks)
        sizes = np.concatenate([np.diff(block.starts) for block in blocks])
        counts, totals = (
            np.concatenate([widened(getattr(block, name), width) for block in blocks]) for name in ("counts", "totals")
        )
        firsts = np.cumsum([0, *(len(block.totals) for block in blocks)])
        left = [(block.unranked, first) for block, first in zip(blocks, firsts, strict=False) if block.unranked]
        unranked = None
        if left:
            items, grades = (np.concatenate([getattr(one, name) for one, _ in left]) for name in ("items", "grades"))
            unranked = Unranked(np.concatenate([one.queries + first for one, first in left]), items, grades)
        scores = np.concatenate([block.scores for block in blocks])
        return cls(np.concatenate([[0], np.cumsum(sizes)]), scores, counts, totals, blocks[0].k, unranked)

    def __add__(self, other: "ScoreGroups") -> "ScoreGroups":
        width = max(self.counts.shape[1], other.counts.shape[1])
        room = len(self.scores) + len(other.scores)
        starts, scores = np.empty_like(self.starts), np.empty(room, self.scores.dtype)
        counts = np.empty((room, width), np.int64)
        sides = [x for side in (self, other) for x in (side.starts, side.scores, widened(side.counts, width))]
        k = np.iinfo(np.int64).max if self.k is None else self.k
        n = kernels().merge_groups(*sides, k, starts, scores, counts)
        totals = widened(self.totals, width) + widened(other.totals, width)
        unranked = unranked_in_both(self.unranked, other.unranked)
        scores, counts = scores[:n], counts[:n]
        if n < 0.9 * room:  # else copies would cost more than the room they give back
            scores, counts = scores.copy(), counts.copy()
        return ScoreGroups(starts, scores, counts, totals, self.k, unranked)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as named arrays, and k."""
        return arrays_of(self, ("starts", "scores", "counts", "totals")), {"k": self.k}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> "ScoreGroups":
        """Take what `to_arrays` gave."""
        return cls(unranked=unranked_of(arrays), **arrays, k=about["k"])


def widened(counts: np.ndarray, width: int) -> np.ndarray:
    """Counts of grades and, last, the unjudged, with room for more grades."""
    more = width - counts.shape[1]
    if not more:
        return counts
    return np.concatenate([counts[:, :-1], np.zeros((len(counts), more), np.int64), counts[:, -1:]], axis=1)
