"""The record of votes on disk: a table in SQLite. Batches are added to it, and nothing is ever changed."""

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import FileError, InputError
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.votes import Votes

SCHEMA = 1  # the form that is made here
JUDGED = 2  # the form that `lookalike.judging` makes of it, with more tables and a client's id for each vote
NEWEST = 3  # the form of a study with a scale: the same tables, votes with more grades
APPLICATION = 0x4C4B414C  # "LKAL", which marks the file as one of ours
WAIT = 60.0  # seconds to wait for other processes

__all__ = [
    "JUDGED",
    "NEWEST",
    "SCHEMA",
    "TRIGGERS",
    "JudgingTerms",
    "append_votes",
    "check_record",
    "create_record",
    "read_machines",
    "read_screened",
    "read_terms",
    "read_votes",
    "rows_of",
    "rows_of_table",
    "scale_of",
    "votes_of",
]

Row = tuple[str, str, str, int, int | None, float | None]

NOTHING = np.iinfo(np.int64).min  # numpy's number of a time that is not known

_TABLE = """
CREATE TABLE votes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    query TEXT NOT NULL,
    item TEXT NOT NULL,
    expert TEXT NOT NULL,
    answer INTEGER NOT NULL CHECK (answer IN (1, 0, -1)),
    time INTEGER,
    seconds REAL
);
"""
TRIGGERS = (
    """CREATE TRIGGER votes_stay BEFORE UPDATE ON votes
    BEGIN SELECT RAISE(ABORT, 'votes are never changed: add a new one'); END;""",
    """CREATE TRIGGER votes_remain BEFORE DELETE ON votes
    BEGIN SELECT RAISE(ABORT, 'votes are never deleted'); END;""",
    """CREATE TRIGGER votes_are_new BEFORE INSERT ON votes WHEN EXISTS (SELECT 1 FROM votes WHERE number = NEW.number)
    BEGIN SELECT RAISE(ABORT, 'votes are never replaced: add a new one'); END;""",
)

_ALL = "SELECT query, item, expert, answer, time, seconds FROM votes ORDER BY number"
_JUDGING = "SELECT name FROM experts WHERE revoked IS NULL ORDER BY name"
_JUDGING_KNOWN = _JUDGING.replace(" ORDER", " AND name NOT IN (SELECT expert FROM crowd) ORDER")
_OF_PEOPLE = _ALL.replace(" ORDER", " WHERE expert NOT IN (SELECT name FROM machines) ORDER")


def create_record(path: Path) -> None:
    """Make an empty record."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript("\n".join((_TABLE, *TRIGGERS)))
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
    except sqlite3.Error as error:
        raise _full(path, error) or OSError(f"cannot write {path}: {error}") from error


def append_votes(path: Path, votes: Votes, *, again: bool = True) -> Votes:
    """Add votes at the end, all or none; when this returns they are on disk. Returns those that were added.

    again: whether to add votes that the record has already. Without it, the n-th copy of a vote is taken to be the
    n-th copy in the record.

    The record is read in the transaction that adds, and SQLite lets one process write at a time: of two processes that
    add the same votes at once, the second sees those of the first. No index of the table forbids equal votes, since
    they can be right: with `again`, and where an expert, in votes without times, goes back to an earlier answer.
    """
    with _opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")  # waits for other writers here, where waiting is possible
        try:
            votes.check_scale(scale := _terms(connection, path).scale)
            before = [] if again else connection.execute(_ALL).fetchall()
            added = votes if again else votes[~votes.among(votes_of(before, path, scale))]
            connection.executemany(
                "INSERT INTO votes (query, item, expert, answer, time, seconds) VALUES (?, ?, ?, ?, ?, ?)",
                rows_of(added),
            )
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
    return added


def read_votes(path: Path, *, machines: bool = False) -> Votes:
    """All votes of people, in the order in which they came. machines: those of machines too."""
    with _to_read(path) as uri, _opened(path, uri) as connection:
        of_people = not machines and _has_table(connection, "machines")
        rows = connection.execute(_OF_PEOPLE if of_people else _ALL).fetchall()
        return votes_of(rows, path, _terms(connection, path).scale)


@dataclass(frozen=True)
class JudgingTerms:
    """How a study is judged. scale: of its answers. experts: those with a link who may judge, sorted by name.

    experts_per_pair: how many judge each pair, or "all"; None where experts never judged in the browser.
    """

    scale: Scale = BINARY
    experts_per_pair: int | str | None = None
    experts: tuple[str, ...] = ()


def read_terms(path: Path) -> JudgingTerms:
    """How the study of a record is judged."""
    with _to_read(path) as uri, _opened(path, uri) as connection:
        return _terms(connection, path)


def _terms(connection: sqlite3.Connection, path: Path) -> JudgingTerms:
    if check_record(connection, path) < JUDGED:
        return JudgingTerms()
    meta = {key: value for key, value in connection.execute("SELECT key, value FROM meta") if value is not None}
    statement = _JUDGING_KNOWN if _has_table(connection, "crowd") else _JUDGING
    experts = connection.execute(statement).fetchall()
    each = meta.get("experts_per_pair")
    try:
        number = each if each in (None, "all") else int(each)
    except (TypeError, ValueError) as error:
        raise FileError(f"{path} is damaged: {each!r} experts judge each pair", path=path) from error
    return JudgingTerms(scale_of(meta, path), number, tuple(str(name) for (name,) in experts))


def scale_of(meta: dict[str, str], where: object) -> Scale:
    """The scale that the table meta of a database names. where: the file or database, for errors."""
    if "scale" not in meta:
        return BINARY
    try:
        return Scale.parse(meta["scale"])
    except InputError as error:
        raise FileError(f"{where} is damaged: {error}", path=where) from error


def read_machines(path: Path) -> frozenset[str]:
    """The names in a record of votes under which machines judge, not people."""
    return frozenset(str(name) for (name,) in rows_of_table(path, "machines", "SELECT name FROM machines"))


def rows_of_table(path: Path, table: str, statement: str) -> list[Any]:
    """What a statement finds in a table; nothing where the record has no such table."""
    with _to_read(path) as uri, _opened(path, uri) as connection:
        return connection.execute(statement).fetchall() if _has_table(connection, table) else []


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    statement = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(statement, (name,)).fetchone() is not None


def rows_of(votes: Votes) -> list[Row]:
    """Votes as rows of a table: query, item, expert, answer, time in milliseconds or None, seconds or None."""
    times = [None if when == NOTHING else when for when in votes.times.view(np.int64).tolist()]
    seconds = [None if value != value else value for value in votes.seconds.tolist()]
    ids = (column.tolist() for column in (votes.queries, votes.items, votes.experts))
    return list(zip(*ids, votes.answers.tolist(), times, seconds, strict=True))


def votes_of(rows: Sequence[Any], where: object, scale: Scale = BINARY) -> Votes:
    """Votes from rows of a table. where: the file or database that they come from, for errors."""
    queries, items, experts, answers, times, seconds = zip(*rows, strict=True) if rows else ((),) * 6
    try:
        return Votes(
            np.array(queries, str),
            np.array(items, str),
            np.array(experts, str),
            np.array(answers, np.int8),
            np.array([NOTHING if when is None else when for when in times], np.int64).view("datetime64[ms]"),
            np.array([np.nan if value is None else value for value in seconds], float),
            scale=scale,
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise FileError(f"{where} is damaged: a vote has values of another kind", path=where) from error


@contextlib.contextmanager
def _to_read(path: Path) -> Iterator[str]:
    """The address by which SQLite opens a record for reading, also where nothing may be written, not even a lock."""
    path = path.resolve()
    wal, shared = (path.with_name(f"{path.name}-{ending}") for ending in ("wal", "shm"))
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        yield f"{path.as_uri()}?mode=rw"
    elif shared.exists():  # somebody else may write at this moment
        yield f"{path.as_uri()}?mode=ro"
    elif not wal.exists() or not wal.stat().st_size:
        yield f"{path.as_uri()}?immutable=1"
    else:  # the last votes are in the log beside it, which SQLite opens only where it may write
        with tempfile.TemporaryDirectory(prefix="lookalike-") as folder:
            for file in (path, wal):
                shutil.copyfile(file, Path(folder) / file.name)
            yield f"{(Path(folder) / path.name).as_uri()}?mode=rw"


@contextlib.contextmanager
def _opened(path: Path, uri: str | None = None) -> Iterator[sqlite3.Connection]:
    """A connection to an existing record; errors of SQLite become sentences that name the file.

    uri: the address to open it by, by default for writing.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: the study is not whole")
    try:
        uri = uri or f"{path.resolve().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)
        with contextlib.closing(connection):
            connection.execute("PRAGMA synchronous = FULL")
            check_record(connection, path)
            yield connection
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_READONLY"):
            raise PermissionError(f"{path} can only be read here: no votes can be added") from error
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise TimeoutError(
                f"another process is changing this study, {path}: try again when it has ended"
            ) from error
        raise _full(path, error) or FileError(f"{path} cannot be used: {error}", path=path) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite's words may repeat bytes that are not UTF-8
        reason = " ".join(str(error).split())
        raise FileError(f"{path} is damaged or no record of votes: {reason}", path=path) from error


def _full(path: Path, error: sqlite3.Error) -> OSError | None:
    """The system's error for a full disk, where that is what SQLite reports; None for other errors."""
    if getattr(error, "sqlite_errorname", "") not in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"):
        return None
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def check_record(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a record's form; raises for other databases and for newer versions."""
    (application,), (schema,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise FileError(f"{path} is no record of votes: it is another SQLite database", path=path)
    if schema > NEWEST:
        raise FileError(f"{path} was written by a newer lookalike, in form {schema}: upgrade to read it", path=path)
    return int(schema)


def read_screened(path: Path) -> list[str]:
    """Experts whose votes are kept but do not count: they came by an open link, and gold pairs screened them out."""
    with _to_read(path) as uri, _opened(path, uri) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'crowd'").fetchone() is None:
            return []
        rows = connection.execute("SELECT expert FROM crowd WHERE screened IS NOT NULL ORDER BY expert").fetchall()
    return [str(row[0]) for row in rows]
