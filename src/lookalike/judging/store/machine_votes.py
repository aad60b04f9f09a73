"""Votes of machines in the store: they take no seat, and people's figures never count them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from lookalike.core.errors import InputError
from lookalike.discovery.notes import NOTE, clean_note
from lookalike.discovery.vote_log import rows_of
from lookalike.discovery.votes import Votes
from lookalike.judging.store.clock import milliseconds
from lookalike.judging.store.import_votes import check_votes, import_votes
from lookalike.judging.store.schema import MACHINES, NOTES, OF_PEOPLE, VOTES
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Imported, VoteRefusedError, VoteRow, check_expert_name
from lookalike.judging.store.work import StoreWork, machine_names
from lookalike.study.study import Study

__all__ = ["MachineVotes", "import_with_machines"]

Pair = tuple[str, str]


@dataclass(frozen=True)
class MachineVotes:
    """The answers of one machine. why: a text for each vote, which becomes a note; "" for none."""

    name: str
    votes: Votes
    why: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        check_expert_name(self.name)
        if set(self.votes.experts.tolist()) - {self.name}:
            raise InputError(f"all votes of a machine are under its name, {self.name!r}")
        if self.why and len(self.why) != len(self.votes):
            raise InputError(f"there are {len(self.votes)} votes, but {len(self.why)} texts on why")


def import_with_machines(
    store: Store,
    study: Study,
    people: Votes,
    of_machines: Sequence[MachineVotes],
    *,
    add_experts: bool = False,
    now: int | None = None,
) -> Imported:
    """Add votes of people and of machines that were made elsewhere, all or none; none is added twice.

    A vote of a machine that has no time is added with that of this import, unless it is what the machine says of the
    pair already. now: in milliseconds since 1970.
    """
    moment = milliseconds(now)
    check_votes(people, study)
    for machine in of_machines:
        check_votes(machine.votes, study)
    whys = [[clean_note(NOTE, text) if text.strip() else "" for text in machine.why] for machine in of_machines]

    def run(work: StoreWork) -> Imported:
        people_now = set(people.experts.tolist()) | work.board.experts.keys() | _voters(work.connection)
        for machine in of_machines:
            if machine.name in people_now:
                raise VoteRefusedError(
                    f"{machine.name!r} is the name of a person who judges here, and a machine needs a name of its own: "
                    "choose another"
                )
        new_rows = [_new_rows(work.connection, machine, moment) for machine in of_machines]
        of_people = import_votes(work, people, add_experts) if len(people) else Imported(0, 0, 0)
        for machine, rows, why in zip(of_machines, new_rows, whys, strict=True):
            _add(work, machine, rows, why, moment)
        added = sum(map(len, new_rows))
        known = sum(len(machine.votes) for machine in of_machines) - added
        return Imported(of_people.added + added, of_people.known + known, of_people.beyond)

    return store.do(run)


def _voters(connection: sa.Connection) -> set[str]:
    """The names of people who have voted."""
    return set(connection.execute(sa.select(VOTES.c.expert).where(OF_PEOPLE).distinct()).scalars())


def _new_rows(connection: sa.Connection, machine: MachineVotes, now: int) -> list[VoteRow]:
    """The votes that are not in the record, each with a time; an error for two answers to a pair at one time."""
    answers: dict[tuple[Pair, int], int] = {}  # by pair and time
    last: dict[Pair, tuple[int, int]] = {}  # by pair, the time and the answer that counts
    stored = sa.select(VOTES.c.query, VOTES.c.item, VOTES.c.time, VOTES.c.answer).where(VOTES.c.expert == machine.name)
    for query, item, when, answer in connection.execute(stored.order_by(VOTES.c.time, VOTES.c.number)):
        answers[(query, item), when] = answer
        last[query, item] = (when, answer)
    new_rows: list[VoteRow] = []
    without_time: set[Pair] = set()
    for query, item, _, answer, when, seconds in rows_of(machine.votes):
        pair = (query, item)
        if when is None:
            if pair in without_time:
                raise VoteRefusedError(_twice(machine.name, pair))
            without_time.add(pair)
            if pair in last and last[pair][1] == answer:
                continue
            when = max(now, last[pair][0] + 1) if pair in last else now
        elif (pair, when) in answers:
            if answers[pair, when] != answer:
                raise VoteRefusedError(_twice(machine.name, pair))
            continue
        answers[pair, when] = answer
        if pair not in last or when >= last[pair][0]:
            last[pair] = (when, answer)
        new_rows.append(VoteRow(query, item, machine.name, answer, when, seconds))
    return new_rows


def _twice(name: str, pair: Pair) -> str:
    return (
        f"the machine {name!r} says two things of query {pair[0]!r} and item {pair[1]!r} at the same time: nothing was "
        "imported"
    )


def _add(work: StoreWork, machine: MachineVotes, rows: list[VoteRow], why: list[str], now: int) -> None:
    """Write the votes of a machine past the board, which knows of people alone; and its texts as notes."""
    connection = work.connection
    if machine.name not in machine_names(connection):
        connection.execute(sa.insert(MACHINES), {"name": machine.name, "since": now})
    if rows:
        connection.execute(sa.insert(VOTES), [row._asdict() for row in rows])
    notes = {}
    for (query, item), text in zip(machine.votes.pairs, why, strict=False):
        if text:
            content = json.dumps([machine.name, query, item, text]).encode()
            client = f"machine:{hashlib.blake2b(content, digest_size=16).hexdigest()}"
            notes[client] = {"query": query, "item": item, "expert": machine.name, "kind": NOTE, "text": text}
    of_machine = sa.select(NOTES.c.client).where(NOTES.c.expert == machine.name)
    there = set(connection.execute(of_machine).scalars())
    new_notes = [row | {"time": now, "client": client} for client, row in notes.items() if client not in there]
    if new_notes:
        connection.execute(sa.insert(NOTES), new_notes)
    work.wrote = True  # other processes see that there are votes
