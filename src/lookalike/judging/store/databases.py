"""The databases of judging: SQLite or PostgreSQL, with one writer at a time, and their errors in words."""

import contextlib
import errno
import fcntl
import ipaddress
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

import sqlalchemy as sa

from lookalike.core.errors import FileError, InputError, MissingPackageError
from lookalike.discovery.vote_log import check_record, create_record
from lookalike.judging.store.types import StoreAwayError, StoreFullError

WAIT = 30.0  # seconds to wait for other writers
WRITERS = 0x4C4B414C  # the number of PostgreSQL's lock for writers, "LKAL"

__all__ = ["Database", "PostgreSQL", "SQLite", "database_at"]


class Database(Protocol):
    """A database with tables of `lookalike.judging.store.schema`; errors of it are StoreAwayError or StoreFullError."""

    words: str  # what it is, with no secret in it

    def writing(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """A transaction of the only writer: on disk when the block ends, undone if it raises."""

    def reading(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """A connection that sees one state of the database."""

    def forget(self) -> None:
        """Close all connections; new ones are made when needed."""


def database_at(where: str | Path, locks: Path) -> "Database":
    """The database at a URL or in a file. Writers of SQLite lock files in the folder `locks`."""
    if not isinstance(where, str) or "://" not in where:
        return SQLite(Path(where), locks)
    return PostgreSQL(_url_of(where))


def _url_of(text: str) -> sa.URL:
    """The URL of a PostgreSQL database. The text of an error holds nothing that may be a password.

    >>> _url_of("postgresql://judge:p%40ss@db.example/shop").password
    'p@ss'
    >>> _url_of("mysql://judge:p@ss@db.example/shop")
    Traceback (most recent call last):
        ...
    lookalike.core.errors.InputError: the database must be postgresql://… or the path of a file, got mysql://…
    """
    kind, _, rest = text.partition("://")
    if kind.partition("+")[0] not in ("postgresql", "postgres"):
        shown = f", got {kind}://…" if re.fullmatch("[a-z0-9+]{1,30}", kind) else ""
        raise InputError(f"the database must be postgresql://… or the path of a file{shown}")
    bracketed = re.match(r"(?:[^@]*@)?\[([^\]/?]*)\](?=[:/?]|$)", rest)
    if not rest:
        raise _malformed("it names no server and no database")
    if not text.isprintable() or " " in text:
        raise _malformed("a space or a sign that cannot be printed is written as % and two digits, such as %20")
    if re.search("%(?![0-9A-Fa-f]{2})", text):
        raise _malformed("a % stands before two hexadecimal digits, and is itself written %25")
    if not _is_text(unquote_to_bytes(text)):
        raise _malformed("what is written with % must be text in UTF-8, without a zero byte")
    if rest.count("@") > 1:
        raise _malformed("an @ in a password is written %40")
    if re.search(r"[\[\]]", rest.rpartition("@")[2].partition("?")[0]) and not (bracketed and _is_ipv6(bracketed[1])):
        raise _malformed("brackets are for addresses such as [::1]")
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):  # of a port that is no number; what is there may be a password
        raise _malformed(
            "this cannot be read, perhaps because of its port or of signs that are written with %"
        ) from None
    if url.port is not None and not 0 < url.port < 2**16:
        raise _malformed("the port must be from 1 to 65535")
    if not all(map(_is_host, [url.host or "", *_texts(url.query.get("host", ""))])):
        raise _malformed("the host is no name of a server")
    return url


def _malformed(why: str) -> InputError:
    return InputError(f"the database must be like postgresql://USER:PASSWORD@HOST:PORT/NAME: {why}")


def _is_text(body: bytes) -> bool:
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_host(name: str) -> bool:
    """Whether a name can be looked up, or is a folder of sockets. Whether there is such a server is not checked."""
    try:
        name.startswith("/") or name.encode("idna")
    except UnicodeError:
        return False
    return True


class SQLite:
    """A file of SQLite, which processes of this machine may share."""

    def __init__(self, path: Path, locks: Path) -> None:
        self.path = path.resolve()
        self.words = f"SQLite, {self.path}"
        self._turnstile = Turnstile(locks)
        self._file: tuple[int, int] | None = None  # which file the writer has open under the name
        self._read_file: tuple[int, int] | None = None  # and which one readers
        self._readers = sa.create_engine(
            "sqlite://",
            creator=self._connect,
            isolation_level="AUTOCOMMIT",
            poolclass=sa.QueuePool,
            pool_size=64,  # made when needed, and kept
        )
        self._writer: sa.Connection | None = None
        self._handle: Any = None  # the connection below the writer's
        if not self.path.exists():
            with self._worded():
                create_record(self.path)

    def _connect(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise StoreAwayError(f"the file {self.path} is gone: put it back, or start anew with another")
        uri = f"{self.path.as_uri()}?mode=rw"  # never makes an empty database where one was deleted
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
        try:
            check_record(connection, self.path)
            connection.execute("PRAGMA synchronous = FULL")  # with WAL: a commit waits for the disk
            connection.execute("PRAGMA cache_size = -16384")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction of the only writer: on disk when the block ends, undone if it raises."""
        with self._worded(), self._turnstile:
            if self._writer is not None and _identity(self.path) != self._file:
                self._disconnect()  # else votes would go to a file without a name
            if self._writer is None:
                self._file = _identity(self.path)
                self._writer = self._readers.connect()
                self._handle = self._writer.connection.dbapi_connection
                self._writer.detach()  # it stays with the writer
            try:
                self._writer.exec_driver_sql("BEGIN IMMEDIATE")
                yield self._writer
                self._writer.exec_driver_sql("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # it may have ended already, by an error on the disk
                    self._handle.execute("ROLLBACK")  # by hand: a writer forgets it when Ctrl-C comes in a statement
                if self._writer.invalidated:
                    self._disconnect()
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection that sees one state of the database."""
        if (file := _identity(self.path)) != self._read_file:
            self._readers.dispose()
            self._read_file = file
        with self._worded(), self._readers.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                if not connection.invalidated:  # by Ctrl-C in a statement
                    connection.exec_driver_sql("ROLLBACK")

    def forget(self) -> None:
        """Close all connections; new ones are made when needed."""
        self._disconnect()
        self._turnstile.close()

    def _disconnect(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._handle.close()
            self._writer = None
        self._readers.dispose()

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
            cause = getattr(error, "orig", error)
            if isinstance(cause, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                raise
            name = getattr(cause, "sqlite_errorname", "")
            if name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"):
                raise _full(f"the disk of {self.path}") from error
            raise StoreAwayError(f"{self.path} cannot be used now: {cause}") from error
        except UnicodeDecodeError as error:  # SQLite's words may repeat bytes that are not UTF-8
            raise FileError(f"{self.path} is damaged or no record of votes: {error}", path=self.path) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _full(f"the disk of {self.path}") from error
            raise StoreAwayError(f"{self.path} cannot be used now: {error}") from error


class PostgreSQL:
    """A database of a PostgreSQL server, which holds the judging of one study."""

    def __init__(self, url: sa.URL) -> None:
        self.url = url.set(drivername="postgresql+psycopg")
        hosts = [url.host, *_texts(url.query.get("host", "")), "this machine"]
        self.words = f"PostgreSQL, {url.database or 'postgres'} on {next(filter(None, hosts))}"
        milliseconds = int(WAIT * 1000)
        own_options = f"-c lock_timeout={milliseconds} -c synchronous_commit=on"
        options = " ".join([*_texts(url.query.get("options", ())), own_options])
        times = {"connect_timeout": 5, "keepalives_idle": 10, "tcp_user_timeout": milliseconds}
        _check_options(self.url)
        self._engine = sa.create_engine(
            self.url,
            connect_args=times | {"options": options},
            pool_size=4,
            max_overflow=60,
            pool_pre_ping=True,
        )

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction of the only writer: on disk when the block ends, undone if it raises."""
        with self._worded(), self._engine.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WRITERS)))
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection that sees one state of the database."""
        with self._worded(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="REPEATABLE READ")

    def forget(self) -> None:
        """Close all connections; new ones are made when needed."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.InternalError) as error:
            if getattr(error.orig, "sqlstate", None) == "53100":  # disk_full
                raise _full("the disk of the database") from error
            message = " ".join(str(error.orig).split())
            raise StoreAwayError(f"the database cannot be used now, {self.words}: {message}") from error


def _check_options(url: sa.URL) -> None:
    """Raise if the options after the ? of a URL are not those of PostgreSQL, or if the driver is missing."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import make_conninfo
    except ImportError as error:
        raise MissingPackageError(
            "PostgreSQL needs psycopg, which is not installed or not whole: pip install 'lookalike[judge]'",
            package="psycopg",
            extra="judge",
        ) from error
    try:
        options = url.get_dialect()().create_connect_args(url)[1]
        make_conninfo(**{name: value for name, value in options.items() if name != "context"})  # SQLAlchemy's own
    except (ProgrammingError, sa.exc.ArgumentError):
        raise _malformed("after a ? stand options of PostgreSQL, and one of these is none") from None


class Turnstile:
    """A fair lock between processes: one that has just had it does not overtake one that waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: list[int] = []

    def __enter__(self) -> None:
        if not self._files:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with contextlib.ExitStack() as opened:  # both or none
                files = []
                for name in ("next.lock", "write.lock"):
                    files.append(os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                    opened.callback(os.close, files[-1])
                opened.pop_all()
            self._files = files
        gate, inside = self._files
        deadline = time.monotonic() + WAIT
        _lock(gate, deadline, self.folder)  # held while waiting, so that whoever comes out queues behind
        try:
            _lock(inside, deadline, self.folder)
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)

    def __exit__(self, *error: object) -> None:
        fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.pop())


def _lock(handle: int, deadline: float, folder: Path) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreAwayError(f"another process is writing to {folder.parent} and does not end") from None
            time.sleep(0.001)


def _texts(values: str | Iterable[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def _full(what: str) -> StoreFullError:
    return StoreFullError(f"{what} is full: nothing was kept; make space, and it goes on")
