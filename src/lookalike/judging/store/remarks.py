"""Notes, flags and verdicts in the store: each kept once, when it is on disk, and never changed."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from lookalike.core.errors import InputError
from lookalike.discovery.notes import Note, Notes, clean_note
from lookalike.discovery.scale import MOST as MOST_STEPS
from lookalike.discovery.verdicts import TAKEN_BACK, VerdictRow, Verdicts
from lookalike.judging.store.clock import milliseconds
from lookalike.judging.store.schema import NOTES, VERDICTS
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import LAST_MOMENT, ORGANISED, VoteRefusedError
from lookalike.judging.store.work import StoreWork, machine_names

MINUTE, MOST = 60_000, 60  # ms, and notes that an expert may write in it

__all__ = ["Remark", "RemarkOutcome", "add_note", "all_notes", "all_verdicts", "give_verdict", "machines"]

RemarkOutcome = Literal["kept", "known", "unknown", "changed", "often"]
"""What became of a note or a verdict.

kept: it is on disk. known: one with this client id and content is on disk already, and this one was not added again.
unknown: there is no such pair. changed: the client id was used for something else. often: the expert wrote very many
notes within a minute. Of all but the first two, nothing was kept.
"""


@dataclass(frozen=True)
class Remark:
    """What an expert writes of a pair. client: an id that the client made for it, so that it can be sent again."""

    client: str
    pair: int
    kind: str
    text: str = ""

    def __post_init__(self) -> None:
        _check_client(self.client)
        object.__setattr__(self, "text", clean_note(self.kind, self.text))


def add_note(
    store: Store, expert: str, remark: Remark, *, link: int | None = None, now: int | None = None
) -> RemarkOutcome:
    """Keep a note or a flag; what became of it, when it is on disk.

    link: the number of the link by which the expert came, if that is to be checked. now: in milliseconds since 1970.
    """
    moment = milliseconds(now)

    def run(work: StoreWork) -> RemarkOutcome:
        work.board.check_expert(expert, moment, link)
        pair = work.board.pairs.get(remark.pair)
        if pair is None:
            return "unknown"
        row = {"query": pair.query, "item": pair.item, "expert": expert, "kind": remark.kind, "text": remark.text}
        if (known := _known(work, NOTES, remark.client, row)) is not None:
            return known
        lately = sa.select(sa.func.count()).where(NOTES.c.expert == expert, NOTES.c.time > moment - MINUTE)
        if work.connection.execute(lately).scalar_one() >= MOST:
            return "often"
        work.connection.execute(sa.insert(NOTES), row | {"time": moment, "client": remark.client})
        return "kept"

    return store.do(run)


def all_notes(store: Store) -> Notes:
    """All notes and flags, in the order in which they came."""
    columns = sa.select(*(NOTES.c[name] for name in Note._fields)).order_by(NOTES.c.number)
    with store.reading() as connection:
        return Notes(tuple(Note(*row) for row in connection.execute(columns)))


def give_verdict(
    store: Store, pair: tuple[str, str], answer: int, client: str, now: int | None = None
) -> RemarkOutcome:
    """Keep a verdict of the organiser on a pair that people have voted on; what became of it, when it is on disk.

    pair: the ids of the query and the item. answer: a grade, -1 to leave the pair open, -2 to take a verdict back.
    """
    _check_client(client)
    if isinstance(answer, bool) or not isinstance(answer, int) or not TAKEN_BACK <= answer < MOST_STEPS:
        raise InputError(f"a verdict is a grade, -1 (left open) or -2 (taken back), got {answer!r:.60}")
    moment = milliseconds(now)

    def run(work: StoreWork) -> RemarkOutcome:
        if answer > (scale := work.follower.scale).top:
            raise VoteRefusedError(f"a verdict is a grade of the scale {str(scale)!r}, got {answer}")
        if not work.board.voters.get(pair):
            return "unknown"
        row: dict[str, Any] = {"query": pair[0], "item": pair[1], "answer": answer}
        if (known := _known(work, VERDICTS, client, row)) is not None:
            return known
        of_pair = (VERDICTS.c.query == pair[0], VERDICTS.c.item == pair[1])
        before = work.connection.execute(sa.select(sa.func.max(VERDICTS.c.time)).where(*of_pair)).scalar_one()
        # what comes last counts, whatever clocks say
        when = min(max(moment, -math.inf if before is None else before + 1), LAST_MOMENT)
        work.connection.execute(sa.insert(VERDICTS), row | {"time": int(when), "client": client})
        return "kept"

    return store.do(run)


def all_verdicts(store: Store) -> Verdicts:
    """All verdicts, in the order in which they came."""
    columns = sa.select(*(VERDICTS.c[name] for name in VerdictRow._fields)).order_by(VERDICTS.c.number)
    with store.reading() as connection:
        return Verdicts(tuple(VerdictRow(*row) for row in connection.execute(columns)))


def machines(store: Store) -> frozenset[str]:
    """The names under which machines judge."""
    with store.reading() as connection:
        return machine_names(connection)


def _known(work: StoreWork, table: sa.Table, client: str, row: dict[str, Any]) -> RemarkOutcome | None:
    """Whether something with this client's id is there already, with the same content or with another."""
    kept = work.connection.execute(sa.select(table).where(table.c.client == client)).mappings().one_or_none()
    if kept is None:
        return None
    return "known" if all(kept[name] == value for name, value in row.items()) else "changed"


def _check_client(client: str) -> None:
    if not isinstance(client, str) or not 0 < len(client) <= ORGANISED or not client.isprintable():
        raise InputError(f"the id of a note is text of 1 to {ORGANISED} characters, got {client!r:.120}")
