"""Judging that moves between two databases of one study: votes and remarks, each once, links, settings, texts."""

import contextlib
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import sqlalchemy as sa

from lookalike.core.errors import StudyError
from lookalike.discovery.vote_log import scale_of
from lookalike.judging.store.databases import Database, PostgreSQL, SQLite
from lookalike.judging.store.gates import CrowdTerms
from lookalike.judging.store.schema import (
    ALL_EXPERTS,
    CROWD,
    EXPERTS,
    MACHINES,
    NOTES,
    OF_PEOPLE,
    PRACTICE,
    PRACTISED,
    VERDICTS,
    VOTE_ROWS,
    VOTES,
    make_newest,
    read_meta,
    remake_votes,
    write_meta,
)
from lookalike.judging.store.sheets import LAYOUT_NAMES
from lookalike.judging.store.types import Expert, VoteRow
from lookalike.judging.store.work import machine_names
from lookalike.study.study import Study

SETTINGS = (
    *("experts_per_pair", "order", "budget", "seed", "question", "guide", "address", "port"),
    *LAYOUT_NAMES,
    *("practice", "practice_pass", "crowd_open", "crowd_link", *CrowdTerms("-").to_meta()),
)
BROUGHT = "content:"  # how the id begins that a vote without a client's gets where it is brought to

DATABASE = "the database of votes"

__all__ = [
    "DATABASE",
    "bring_links",
    "bring_remarks",
    "bring_scale",
    "bring_settings",
    "bring_votes",
    "n_votes",
    "own_record",
    "prepare",
]


def prepare(database: Database, study: Study) -> None:
    """Make the tables; a server's database also gets the votes that the study has."""
    with database.writing() as connection:
        make_newest(connection, database.words)
        if isinstance(database, PostgreSQL):
            _check_study(connection, study, database.words)
    if isinstance(database, PostgreSQL):
        with own_record(study) as (_, own), own.writing() as theirs, database.writing() as ours:
            fresh = "order" not in read_meta(ours)
            bring_scale(*((theirs, ours) if fresh else (ours, theirs)))
            bring_remarks(theirs, ours)
            bring_votes(theirs, ours)
            bring_links(theirs, ours)
            if fresh:
                bring_settings(theirs, ours)


@contextlib.contextmanager
def own_record(study: Study) -> Iterator[tuple[Path, SQLite]]:
    """The study's own file of votes, in the newest form."""
    own = SQLite(study.path / "votes.sqlite", study.path / "judging")
    try:
        with own.writing() as connection:
            make_newest(connection, own.words)
        yield own.path, own
    finally:
        own.forget()


def _check_study(connection: sa.Connection, study: Study, words: str) -> None:
    """Raise if a database holds the judging of another study."""
    own, held = study.collection.digest, read_meta(connection).get("collection")
    if held is None:
        write_meta(connection, collection=own)
    elif held != own:
        raise StudyError(f"{words} holds the judging of another study, with other queries or items: use another one")


def bring_scale(source: sa.Connection, target: sa.Connection) -> None:
    """Give a database the scale of another whose votes it gets; an error if both have votes, on different scales."""
    theirs, ours = (scale_of(read_meta(connection), DATABASE) for connection in (source, target))
    if theirs == ours:
        return
    if not n_votes(target):
        remake_votes(target, theirs)
    elif n_votes(source):
        raise StudyError(
            f"votes on the scale {str(theirs)!r} cannot go to a database with votes on {str(ours)!r}: use another one"
        )


def n_votes(connection: sa.Connection) -> int:
    """How many votes a database has."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(VOTES)).scalar_one())


def bring_votes(source: sa.Connection, target: sa.Connection) -> int:
    """Add the votes of one database that another does not have; how many.

    A vote is known by its client's id. One without is known by its content: of several that are the same, the first is
    the first of those there, and so on. So it does not matter which database it came to first, or was restored from.
    """
    clients = {vote.client for vote in _named_votes(target)}
    new_votes = [vote._asdict() for vote in _named_votes(source) if vote.client not in clients]
    if new_votes:
        target.execute(sa.insert(VOTES), new_votes)
    return len(new_votes)


def _named_votes(connection: sa.Connection) -> Iterator[VoteRow]:
    """Every vote with an id that is the same in each database: a client's, or one made of its content."""
    copies: Counter[str] = Counter()
    for row in connection.execute(VOTE_ROWS):
        vote = VoteRow(*row)
        if vote.client is None or vote.client.startswith(BROUGHT):
            content = json.dumps(vote[:-1]).encode()
            name = f"{BROUGHT}{hashlib.blake2b(content, digest_size=16).hexdigest()}"
            copies[name] += 1
            vote = vote._replace(client=f"{name}:{copies[name]}")
        yield vote


def bring_remarks(source: sa.Connection, target: sa.Connection) -> None:
    """Add the notes, flags and verdicts of the source to the target, each once, and the names of machines.

    Raises where a name is that of a machine in one of them, and of a person in the other.
    """
    _bring_machines(source, target)
    for table in (NOTES, VERDICTS):
        clients = set(target.execute(sa.select(table.c.client)).scalars())
        columns = [column for column in table.c if column.name != "number"]
        rows = source.execute(sa.select(*columns).order_by(table.c.number)).mappings()
        if new_rows := [dict(row) for row in rows if row["client"] not in clients]:
            target.execute(sa.insert(table), new_rows)


def _bring_machines(source: sa.Connection, target: sa.Connection) -> None:
    theirs, ours = machine_names(source), machine_names(target)
    if mixed := (theirs & _people(target)) | (ours & _people(source)):
        raise StudyError(
            f"{min(mixed)!r} is a machine in one database of this study, and a person in the other: their votes cannot "
            "be brought together"
        )
    rows = source.execute(sa.select(MACHINES.c.name, MACHINES.c.since)).mappings()
    if new_rows := [dict(row) for row in rows if row["name"] not in ours]:
        target.execute(sa.insert(MACHINES), new_rows)


def _people(connection: sa.Connection) -> set[str]:
    """The names of experts, and of people who have voted."""
    voted = sa.select(VOTES.c.expert).where(OF_PEOPLE).distinct()
    return set(connection.execute(sa.select(EXPERTS.c.name)).scalars()) | set(connection.execute(voted).scalars())


def bring_links(source: sa.Connection, target: sa.Connection) -> None:
    """Add the experts of the source to the target, and revoke the links there that are revoked in the source."""
    here = {row.name: Expert(*row) for row in target.execute(ALL_EXPERTS)}
    for row in source.execute(ALL_EXPERTS).all():
        theirs, ours = Expert(*row), here.get(row.name, Expert(row.name, 0))
        revoked = theirs.link_number == ours.link_number and theirs.revoked is not None and ours.revoked is None
        if theirs.link_number > ours.link_number or revoked:
            target.execute(sa.delete(EXPERTS).where(EXPERTS.c.name == theirs.name))
            target.execute(sa.insert(EXPERTS), asdict(theirs))
            write_meta(target, revision=secrets.token_hex(16))  # servers of the target look at their experts again
    _bring_people(source, target)
    numbers = [int(read_meta(connection).get("organiser", 0)) for connection in (source, target)]
    if numbers[0] > numbers[1]:
        write_meta(target, organiser=numbers[0])


def _bring_people(source: sa.Connection, target: sa.Connection) -> None:
    """Add what the source knows of the crowd and of practice; of the same person, what was decided last."""
    here = {row.expert: row.changed for row in target.execute(sa.select(CROWD))}
    crowd = [dict(row) for row in source.execute(sa.select(CROWD)).mappings()]
    newer = [row for row in crowd if row["changed"] > here.get(row["expert"], -1)]
    for row in newer:
        target.execute(sa.delete(CROWD).where(CROWD.c.expert == row["expert"]))
    known = set(target.execute(sa.select(PRACTISED.c.expert)).scalars())
    practised = [dict(row) for row in source.execute(sa.select(PRACTISED)).mappings() if row["expert"] not in known]
    kept = [column for column in PRACTICE.columns if column is not PRACTICE.c.number]
    once = (PRACTICE.c.expert, PRACTICE.c.mark, PRACTICE.c.round, PRACTICE.c.place)
    there = {tuple(row) for row in target.execute(sa.select(*once))}
    answers = [dict(row) for row in source.execute(sa.select(*kept).order_by(PRACTICE.c.number)).mappings()]
    answers = [row for row in answers if tuple(row[column.name] for column in once) not in there]
    for table, rows in ((CROWD, newer), (PRACTISED, practised), (PRACTICE, answers)):
        if rows:
            target.execute(sa.insert(table), rows)
            write_meta(target, revision=secrets.token_hex(16))


def bring_settings(source: sa.Connection, target: sa.Connection) -> None:
    """Copy the settings, the texts for experts and the address to the target; `configure` then releases pairs."""
    theirs, ours = read_meta(source), read_meta(target)
    settings = {name: theirs.get(name) for name in SETTINGS}
    if "order" in theirs and settings != {name: ours.get(name) for name in SETTINGS}:
        write_meta(target, **settings, epoch=secrets.token_hex(16))
