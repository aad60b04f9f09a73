"""Pairs that have all their votes: as many as each is to get, or those of all experts."""

from typing import NamedTuple

import numpy as np

from lookalike.core.errors import StudyError
from lookalike.discovery.vote_log import JudgingTerms
from lookalike.discovery.votes import Votes

__all__ = ["CompleteVotes", "complete_votes"]


class CompleteVotes(NamedTuple):
    """The votes on pairs that have all their votes; how many such pairs there are, and how many wait for more."""

    votes: Votes
    complete: int
    waiting: int

    def __str__(self) -> str:
        counts = "1 pair has all its votes and counts" if self.complete == 1 else None
        counts = counts or f"{self.complete:,} pairs have all their votes and count"
        return f"{counts}; {self.waiting:,} wait{'s' * (self.waiting == 1)} for more"


def complete_votes(votes: Votes, terms: JudgingTerms) -> CompleteVotes:
    """The votes on pairs that have all their votes, can't tell among them.

    Where all experts judge each pair, it waits for everybody who may judge now: not for one whose link was taken back.

    >>> votes = Votes(["q"] * 3, ["a", "a", "b"], ["ann", "bob", "ann"], [1, -1, 0])
    >>> print(complete_votes(votes, JudgingTerms(experts_per_pair=2)))
    1 pair has all its votes and counts; 1 waits for more
    """
    ballots, each = votes.ballots, terms.experts_per_pair
    if each is None:
        raise StudyError(
            "nobody has said yet how many experts judge each pair: lookalike judge STUDY --experts-per-pair, with a "
            "number or all, says it"
        )
    if each == "all":
        waited_for = np.isin(ballots.experts, terms.experts)
        missing = len(terms.experts) - np.bincount(
            ballots.pair[waited_for[ballots.expert]], minlength=len(ballots.queries)
        )
    else:
        missing = int(each) - np.bincount(ballots.pair, minlength=len(ballots.queries))
    done = missing <= 0
    number = {pair: row for row, pair in enumerate(zip(ballots.queries.tolist(), ballots.items.tolist(), strict=True))}
    rows = np.array([number[pair] for pair in votes.pairs], np.int64)
    return CompleteVotes(votes[done[rows]], int(done.sum()), int((~done).sum()))
