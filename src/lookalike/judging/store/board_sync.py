"""The board follows the database: it is read once, then only what other processes have changed is read."""

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from lookalike.discovery.scale import BINARY
from lookalike.discovery.vote_log import scale_of
from lookalike.judging.store.board import Board
from lookalike.judging.store.gates import CrowdMember, CrowdTerms, Gates
from lookalike.judging.store.release import JudgingSettings
from lookalike.judging.store.schema import (
    ALL_EXPERTS,
    CROWD,
    LATER,
    META,
    OF_PEOPLE,
    PAIRS,
    PRACTISED,
    SEATS,
    VOTE_ROWS,
    VOTES,
    read_meta,
    write_meta,
)
from lookalike.judging.store.types import Expert, VoteRow

CHUNK = 500  # values of one statement

__all__ = ["Follower", "chunks", "settings_of", "votes_by_client"]


def _meta(key: str) -> sa.ScalarSelect[Any]:
    return sa.select(META.c.value).where(META.c.key == key).scalar_subquery()


_STATE = sa.select(_meta("revision"), _meta("epoch"), sa.select(sa.func.max(VOTES.c.number)).scalar_subquery())
_VOTES = (  # those of machines take no seat, and the board knows nothing of them
    sa.select(VOTES.c.query, VOTES.c.item, VOTES.c.expert, VOTES.c.answer, VOTES.c.time)
    .where(OF_PEOPLE)
    .order_by(VOTES.c.number)
)
_NEW_VOTES = _VOTES.where(VOTES.c.number > sa.bindparam("last"))
_SEATS = sa.select(SEATS.c.pair, SEATS.c.slot, SEATS.c.expert, SEATS.c.until, SEATS.c.turn, SEATS.c.voted).order_by(
    SEATS.c.pair, SEATS.c.slot
)
_HELD = _SEATS.where(SEATS.c.voted == 0)
_SEATS_OF = _SEATS.where(SEATS.c.pair.in_(sa.bindparam("pairs", expanding=True)))
_PAIRS = sa.select(PAIRS.c.id, PAIRS.c.query, PAIRS.c.item, PAIRS.c.block, PAIRS.c.wanted).order_by(
    PAIRS.c.block, PAIRS.c.id
)
_NEW_PAIRS = _PAIRS.where(PAIRS.c.id > sa.bindparam("last"))
_CROWD = sa.select(*(CROWD.c[name] for name in CrowdMember.__dataclass_fields__))
_LATER = sa.select(LATER.c.pair, LATER.c.expert, LATER.c.at)
_SENT_VOTES = VOTE_ROWS.order_by(None).where(VOTES.c.client.in_(sa.bindparam("clients", expanding=True)))
_ADD_VOTE = sa.insert(VOTES)
_ADD_SEAT = sa.insert(SEATS)
_REMOVE_SEAT = sa.delete(SEATS).where(  # one with a vote is never removed, whatever the board says
    SEATS.c.pair == sa.bindparam("at_pair"),
    SEATS.c.slot == sa.bindparam("at_slot"),
    SEATS.c.expert == sa.bindparam("of"),
    SEATS.c.voted == 0,
)
_REMOVE_LATER = sa.delete(LATER).where(LATER.c.pair == sa.bindparam("at_pair"), LATER.c.expert == sa.bindparam("of"))
_ADD_LATER = sa.insert(LATER)
_REVISE = sa.update(META).where(META.c.key == "revision").values(value=sa.bindparam("revision"))


class Follower:
    """Keeps a board in step with the database; every method is called within a transaction that writes."""

    def __init__(self) -> None:
        self.board: Board | None = None
        self.settings = JudgingSettings()
        self.scale = BINARY
        self.meta: dict[str, str] = {}
        self._revision = self._epoch = ""
        self._last_vote = self._last_pair = 0
        self._process = uuid.uuid4().hex
        self._count = 0

    def follow(self, connection: sa.Connection) -> Board:
        """The board as it is now."""
        revision, epoch, last = connection.execute(_STATE).one()
        if (
            self.board is None or epoch != self._epoch or (last or 0) < self._last_vote
        ):  # or an older copy was put there
            return self.load(connection)
        if revision != self._revision or (last or 0) != self._last_vote:
            self._catch_up(connection, self.board)
            self._revision, self._last_vote = revision, last or 0
        return self.board

    def load(self, connection: sa.Connection) -> Board:
        """The board, read again from the start."""
        self.board = None
        self._revision, self._epoch, last = connection.execute(_STATE).one()
        self._last_vote = last or 0
        self.meta = read_meta(connection)
        self.settings = settings_of(self.meta)
        self.scale = scale_of(self.meta, "the database of votes")
        board = Board(self.settings.seed, self.settings.wanted)
        board.gates = Gates("practice" in self.meta, terms=CrowdTerms.of(self.meta))
        self._last_pair = 0
        self._add_pairs(connection, board)
        for vote in connection.execute(_VOTES):
            board.add_vote(*vote)
        for row in connection.execute(_SEATS):
            board.put_seat(tuple(row))
        self._read_people(connection, board)
        for pair in board.pairs.values():
            if not pair.voters.keys() <= pair.seats.keys():
                board.seat_voters(pair)
        self.board = board
        return board

    def _catch_up(self, connection: sa.Connection, board: Board) -> None:
        """Read what other processes have done since."""
        self._add_pairs(connection, board)
        votes = connection.execute(_NEW_VOTES, {"last": self._last_vote}).all()
        changed = {board.ids[query, item] for query, item, *_ in votes if (query, item) in board.ids}
        board.drop_held()
        for vote in votes:
            board.add_vote(*vote)
        for numbers in chunks(sorted(changed)):
            for row in connection.execute(_SEATS_OF, {"pairs": numbers}):
                board.put_seat(tuple(row))
        for row in connection.execute(_HELD):
            board.put_seat(tuple(row))
        self._read_people(connection, board)
        for number in sorted(changed):
            board.seat_voters(board.pairs[number])

    def _add_pairs(self, connection: sa.Connection, board: Board) -> None:
        for row in connection.execute(_NEW_PAIRS, {"last": self._last_pair}).all():
            board.add_pair(*row)
            self._last_pair = max(self._last_pair, row.id)
        board.unreleased = max(0, int(self.meta.get("target", 0)) - board.released)

    def release(self, connection: sa.Connection, pairs: Iterable[tuple[str, str, int]], wanted: int | None) -> None:
        """Add pairs to the database and the board."""
        rows = [{"query": query, "item": item, "block": block, "wanted": wanted} for query, item, block in pairs]
        if rows:
            connection.execute(sa.insert(PAIRS), rows)
            assert self.board is not None
            last_before = self._last_pair
            self._add_pairs(connection, self.board)
            for number, pair in self.board.pairs.items():
                if number > last_before and pair.voters:
                    self.board.seat_voters(pair)
            self._mark(connection)

    def _read_people(self, connection: sa.Connection, board: Board) -> None:
        board.gates.practised = set(connection.execute(sa.select(PRACTISED.c.expert)).scalars())
        board.gates.crowd = {row.expert: CrowdMember(*row) for row in connection.execute(_CROWD)}
        board.set_experts(Expert(*row) for row in connection.execute(ALL_EXPERTS))
        board.put_off = {}
        for pair, expert, at in connection.execute(_LATER):
            if pair in board.pairs:
                board.put_off.setdefault(expert, {})[pair] = at

    def write(self, connection: sa.Connection, *, people: bool = False) -> None:
        """Write the changes of the board. people: whether the tables of experts or settings were written."""
        board = self.board
        assert board is not None
        if not (board.changed or people):
            return
        old, new = board.changed_seats()
        if old:
            connection.execute(
                _REMOVE_SEAT, [{"at_pair": pair, "at_slot": slot, "of": expert} for pair, slot, expert, *_ in old]
            )
        if new:
            names = ("pair", "slot", "expert", "until", "turn", "voted")
            connection.execute(_ADD_SEAT, [dict(zip(names, row, strict=True)) for row in new])
        if board.new_votes:
            connection.execute(_ADD_VOTE, [vote._asdict() for vote in board.new_votes])
            self._last_vote = connection.execute(sa.select(sa.func.max(VOTES.c.number))).scalar_one()
        if board.put_off_changed:
            gone = [{"at_pair": pair, "of": expert} for pair, expert in board.put_off_changed]
            connection.execute(_REMOVE_LATER, gone)
            rows = [
                {"pair": pair, "expert": expert, "at": at}
                for (pair, expert), at in board.put_off_changed.items()
                if at is not None
            ]
            if rows:
                connection.execute(_ADD_LATER, rows)
        board.clear_changes()
        self._mark(connection)

    def _mark(self, connection: sa.Connection) -> None:
        """Tell other processes that something has changed."""
        self._count += 1
        self._revision = f"{self._process}:{self._count}"
        connection.execute(_REVISE, {"revision": self._revision})

    def begin_epoch(self, connection: sa.Connection, **settings: Any) -> None:
        """Store settings, then read the board again, here and in all other processes."""
        self._count += 1
        write_meta(connection, epoch=f"{self._process}:{self._count}", **settings)
        self._mark(connection)
        self.load(connection)


def settings_of(meta: dict[str, str]) -> JudgingSettings:
    """The settings that a database has."""
    if "order" not in meta:
        return JudgingSettings()
    budget = int(meta["budget"]) if "budget" in meta else None
    each = meta["experts_per_pair"]
    return JudgingSettings(each if each == "all" else int(each), meta["order"], budget, int(meta["seed"]))


def votes_by_client(connection: sa.Connection, clients: list[str]) -> dict[str, VoteRow]:
    """The votes in the database that have these ids of clients, by id."""
    votes = {}
    for part in chunks(clients):
        for row in connection.execute(_SENT_VOTES, {"clients": part}):
            votes[row.client] = VoteRow(*row)
    return votes


def chunks(values: list[Any]) -> Iterator[list[Any]]:
    """A list in parts that are small enough for one statement."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
