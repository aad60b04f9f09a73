"""Votes from files and other studies, added to the record within one transaction: all or none."""

from collections import Counter
from typing import Any

import numpy as np

from lookalike.core.errors import InputError, Option
from lookalike.discovery.vote_log import rows_of
from lookalike.discovery.votes import Votes
from lookalike.judging.store.board import Board
from lookalike.judging.store.schema import ALL_VOTES
from lookalike.judging.store.types import LAST_MOMENT, Expert, Imported, VoteRefusedError, VoteRow, check_expert_name
from lookalike.judging.store.work import StoreWork, refuse_machines, set_expert
from lookalike.study.study import Study

__all__ = ["check_votes", "import_votes"]


def check_votes(votes: Votes, study: Study) -> None:
    """Raise if a query or an item is not in the study, or if a name or a time cannot be kept."""
    study.queries.positions(votes.queries, "voted query", "among the queries of the study")
    study.catalogue.positions(votes.items, "voted item")
    for name in sorted(set(votes.experts.tolist())):
        check_expert_name(name)
    if len(votes) and (latest := int(votes.times.view(np.int64).max())) > LAST_MOMENT:
        raise InputError(f"no vote can be later than the year 9999, got one {latest:,} milliseconds after 1970")


def import_votes(work: StoreWork, votes: Votes, add_experts: bool) -> Imported:
    """Add the votes that are not in the record yet."""
    board = work.board
    if votes.scale != work.follower.scale:
        raise VoteRefusedError(
            f"these votes are on the scale {str(votes.scale)!r}, and those of the study on {str(work.follower.scale)!r}"
        )
    refuse_machines(work, set(votes.experts.tolist()))
    names = sorted(set(votes.experts.tolist()) - board.experts.keys())
    if names and not add_experts:
        raise VoteRefusedError(
            f"{len(names):,} experts of these votes are not known here, such as {names[0]!r}: add them first, or pass ",
            Option("add_experts", True),
        )
    rows = [VoteRow(*row) for row in rows_of(votes)]
    new_rows = _new_rows(work, rows, votes)
    for name in names:
        set_expert(work, Expert(name))
    return Imported(len(new_rows), len(rows) - len(new_rows), _add(board, new_rows))


def _new_rows(work: StoreWork, rows: list[VoteRow], votes: Votes) -> list[VoteRow]:
    """The rows that are not in the record; an error if an expert gives two answers to a pair at the same time."""
    copies: Counter[tuple[Any, ...]] = Counter()  # in the record; of equal votes, the n-th is the n-th there
    answers: dict[tuple[Any, ...], int] = {}
    for query, item, expert, answer, when, *_ in work.connection.execute(ALL_VOTES):
        copies[query, item, expert, answer, when] += 1
        answers[query, item, expert, when] = answer
    new_rows = []
    for position, row in enumerate(rows):
        query, item, expert, answer, when, *_ = row
        if when is not None and answers.setdefault((query, item, expert, when), answer) != answer:
            raise VoteRefusedError(
                f"{expert!r} says two things of query {query!r} and item {item!r} at the same time, "
                f"{votes.times[position]}: nothing was imported"
            )
        if copies[query, item, expert, answer, when]:
            copies[query, item, expert, answer, when] -= 1
        else:
            new_rows.append(row)
    return new_rows


def _add(board: Board, rows: list[VoteRow]) -> int:
    """Add votes to the board; how many are of experts that a pair has no seat for."""
    beyond = 0
    for vote in rows:
        new = vote.expert not in board.voters.get((vote.query, vote.item), {})
        board.add_vote(*vote[:5])
        board.new_votes.append(vote)
        number = board.ids.get((vote.query, vote.item))
        if new and number is not None:
            board.seat_voters(board.pairs[number])
            beyond += vote.expert not in board.pairs[number].seats
    return beyond
