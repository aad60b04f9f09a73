"""How much of a pool has been judged, and by how many experts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.text_table import percent
from lookalike.discovery.pool import Pool
from lookalike.discovery.votes import Votes

__all__ = ["Coverage", "coverage"]


@dataclass(frozen=True)
class Coverage:
    """How many pairs of a pool are judged.

    by_experts: for each number of experts from 1, the pairs that exactly so many have decided. undecided: pairs that
    have only can't-tell votes. elsewhere: decided pairs that are not in the pool, such as gold pairs.
    """

    pool: int
    by_experts: dict[int, int]
    undecided: int
    elsewhere: int

    @property
    def judged(self) -> int:
        """Pairs of the pool that somebody has decided."""
        return sum(self.by_experts.values())

    @property
    def share(self) -> float:
        """The share of the pool that somebody has decided; nan for an empty pool."""
        return self.judged / self.pool if self.pool else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""
        return {
            "pool": self.pool,
            "judged": self.judged,
            "share": self.share,
            "by_experts": {str(n): pairs for n, pairs in self.by_experts.items()},
            "undecided": self.undecided,
            "elsewhere": self.elsewhere,
        }

    def __str__(self) -> str:
        parts = [f"{pairs:,} by {n}" for n, pairs in sorted(self.by_experts.items(), reverse=True)]
        parts[:1] = [f"{part} {'expert' if part.endswith(' 1') else 'experts'}" for part in parts[:1]]
        parts += [f"{self.undecided:,} undecided"] * bool(self.undecided)
        share = (
            f"{self.judged:,} of {self.pool:,} pairs of the pool ({percent(self.share)}) are judged, "
            "can't tell not counted"
        )
        return ": ".join([share, ", ".join(parts)] if parts else [share])


def coverage(votes: Votes, pool: Pool) -> Coverage:
    """How much of the pool is judged.

    >>> from lookalike.discovery import Collection
    >>> pool = Pool.build({"one": {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}}, Collection(["q"], list("abc")), k=3)
    >>> print(coverage(Votes(list("qqqq"), list("aabb"), ["ann", "bob"] * 2, [1, 1, 0, -1]), pool))
    2 of 3 pairs of the pool (66.7%) are judged, can't tell not counted: 1 by 2 experts, 1 by 1
    """
    ballots = votes.ballots
    decided = ballots.by_grade.sum(1)
    pooled = set(pool.pairs)
    pairs = zip(ballots.queries.tolist(), ballots.items.tolist(), strict=True)
    inside = np.fromiter((pair in pooled for pair in pairs), bool, len(decided))
    numbers, counts = np.unique(decided[inside & (decided > 0)], return_counts=True)
    return Coverage(
        pool=len(pool),
        by_experts=dict(zip(numbers.tolist(), counts.tolist(), strict=True)),
        undecided=int((inside & (decided == 0)).sum()),
        elsewhere=int((~inside & (decided > 0)).sum()),
    )
