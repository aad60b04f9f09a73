"""Facts about the judging for the organiser, and whether the database is whole."""

from dataclasses import asdict

import sqlalchemy as sa

from lookalike.judging.store.board import Board
from lookalike.judging.store.schema import MISSING, PAIRS, SEATS, VOTES
from lookalike.judging.store.types import Status
from lookalike.judging.store.work import StoreWork

__all__ = ["find_faults", "read_status"]

_MISSING_IMAGES = (
    sa.select(PAIRS.c.query, PAIRS.c.item, MISSING.c.side, MISSING.c.expert, MISSING.c.at)
    .join(PAIRS, PAIRS.c.id == MISSING.c.pair)
    .order_by(MISSING.c.at, MISSING.c.pair, MISSING.c.expert, MISSING.c.side)
)
_LAST_VOTES = sa.select(VOTES.c.expert, sa.func.max(VOTES.c.time)).group_by(VOTES.c.expert)
_VOTED = sa.exists().where(
    VOTES.c.query == PAIRS.c.query, VOTES.c.item == PAIRS.c.item, VOTES.c.expert == SEATS.c.expert
)
_FAULTS = {  # what is wrong, and a count of it that must be 0
    "seats are said to have a vote that is not in the record": sa.select(sa.func.count())
    .select_from(SEATS.join(PAIRS, PAIRS.c.id == SEATS.c.pair))
    .where(SEATS.c.voted == 1, ~_VOTED),
    "seats are at pairs that are not there": sa.select(sa.func.count())
    .select_from(SEATS.outerjoin(PAIRS, PAIRS.c.id == SEATS.c.pair))
    .where(PAIRS.c.id.is_(None)),
}


def read_status(work: StoreWork, database: str) -> Status:
    """The facts of this moment. database: what the votes are kept in, in words."""
    board, connection = work.board, work.connection
    released = [pair for pair in board.pairs.values() if pair.wanted]
    return Status(
        settings=asdict(work.follower.settings),
        pairs=len(released),
        complete=sum(pair.complete for pair in released),
        begun=sum(bool(pair.voters) for pair in released),
        to_judge=len(released) + board.unreleased,
        in_pool=int(work.follower.meta.get("in_pool", 0)),
        gold=sum(pair.gold for pair in board.pairs.values()),
        votes=connection.execute(sa.select(sa.func.count()).select_from(VOTES)).scalar_one(),
        everybody_done=board.votes_done,
        everybody_total=board.votes_wanted,
        experts=_expert_rows(board, {row[0]: row[1] for row in connection.execute(_LAST_VOTES)}),
        missing=[dict(row) for row in connection.execute(_MISSING_IMAGES).mappings()],
        database=database,
        scale=str(work.follower.scale),
    )


def _expert_rows(board: Board, last_votes: dict[str, int | None]) -> list[dict[str, int | str | None]]:
    return [
        {
            "name": name,
            "expires": expert.expires,
            "revoked": expert.revoked,
            "done": len(board.judged.get(name, {})),
            "gold": board.gold_judged(name),
            "held": len(board.hands.get(name, {})),
            "later": sum(not board.pairs[number].complete for number in board.put_off.get(name, {})),
            "last": last_votes.get(name),
        }
        for name, expert in sorted(board.experts.items())
    ]


def find_faults(connection: sa.Connection) -> list[str]:
    """What is wrong with the database, a sentence each; an empty list if it is whole."""
    faults = []
    if connection.dialect.name == "sqlite":
        lines = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
        faults = [f"SQLite: {line}" for line in lines if line != "ok"]
    for sentence, count in _FAULTS.items():
        if n := connection.execute(count).scalar_one():
            faults.append(f"{n:,} {sentence}")
    return faults
