"""Named arrays on disk, as npz or Parquet: written whole or not at all, never pickled, always traceable."""

import contextlib
import errno
import itertools
import json
import os
import stat
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from lookalike.core.arrow_arrays import arrow_columns, arrow_table, bytes_of
from lookalike.core.endings import ARRAYS, either
from lookalike.core.errors import FileError
from lookalike.core.file_errors import naming, reading
from lookalike.core.locks import take
from lookalike.core.npy import map_npz, read_npz, write_npz
from lookalike.core.version import __version__

FORMAT = 1
PARQUET = "Parquet file"

__all__ = [
    "FORMAT",
    "check_format",
    "check_target",
    "digest",
    "fingerprints",
    "is_whole",
    "provenance",
    "read_arrays",
    "read_json",
    "read_toml",
    "said_by",
    "seal",
    "write_arrays",
    "write_text",
    "writing",
]


def digest(*arrays: np.ndarray) -> str:
    """A short fingerprint of arrays, to trace a number back to what it was computed from.

    >>> digest(np.arange(3))
    '129d7c8430eea69d'
    """
    import hashlib  # here and below: what only files need is not loaded with the package

    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        if array.dtype.kind == "O":
            total.update(json.dumps([str(value) for value in array.ravel()]).encode())
        else:
            total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
    return total.hexdigest()[:16]


class PendingDigest:
    """A fingerprint of an array that a thread of its own computes, beside other work.

    >>> PendingDigest(np.arange(3)).digest
    '129d7c8430eea69d'
    """

    def __init__(self, array: np.ndarray) -> None:
        from concurrent.futures import Future

        self._future: Future[str] = Future()
        threading.Thread(target=self._compute, args=(array,), daemon=True).start()

    def _compute(self, array: np.ndarray) -> None:
        try:
            self._future.set_result(digest(array))
        except BaseException as error:
            self._future.set_exception(error)

    @property
    def digest(self) -> str:
        """The fingerprint, when it is there."""
        return self._future.result()


def fingerprints(inputs: Any) -> Any:
    """The fingerprint of each input, for saving; an input has one as `digest`, or is one."""
    if isinstance(inputs, dict):
        return {name: fingerprints(value) for name, value in inputs.items()}
    if isinstance(inputs, list):
        return [fingerprints(value) for value in inputs]
    return getattr(inputs, "digest", inputs)


def provenance(kind: str, **facts: Any) -> dict[str, Any]:
    """What every saved file carries: the number of its format, the version of the library, and these facts."""
    return {"lookalike": kind, "format": FORMAT, "version": __version__, **facts}


def seal(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> str:
    """A fingerprint of everything in a file; stored in the file, it shows whether anything has changed."""
    facts = {name: value for name, value in about.items() if name != "seal"}
    names = sorted(arrays)
    return digest(np.array([json.dumps(facts, sort_keys=True), *names]), *(arrays[name] for name in names))


def is_whole(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> bool:
    """Whether a file holds what was written to it; older files have no seal and count as whole."""
    return "seal" not in about or about["seal"] == seal(arrays, about)


def check_target(path: Path) -> None:
    """Raise if no file of this name can be written."""
    import tempfile

    if path.is_dir():
        raise FileError(f"cannot write {path}: it is a folder", path=path)
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: the folder {path.parent} does not exist", path=path)
    if path.is_file() or not path.exists():
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}", path=path) from error


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when the block has ended well."""
    name = Path(path)
    path = name.resolve()  # a link stays, and what it leads to is replaced
    check_target(path)
    with naming(name):
        if path.exists() and not path.is_file():  # a pipe or a device has no halves
            with path.open("wb") as file:
                yield file
            return
        part, handle = _part_of(path)
        with os.fdopen(handle, "wb") as file:  # it holds the lock: nobody else takes the part for one that was left
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise


def _part_of(path: Path) -> tuple[Path, int]:
    """A hidden file beside a path, locked and open for writing: `.name.0.part`, or the next number that is free.

    The lock goes with its process. So a part that nobody holds was left by a process that was killed: one is used
    again, others are removed.
    """
    reserved: tuple[Path, int] | None = None
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None  # who may read the old one may read the new one
    for number in itertools.count():
        part = path.with_name(f".{path.name}.{number}.part")
        if reserved is not None and not part.exists():
            return reserved
        try:
            handle = _locked(part, 0o666 if mode is None else 0o600)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            part.unlink(missing_ok=True)  # a file system without locks
            part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
            return part, os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        if handle is None:
            continue
        if reserved is None:
            os.ftruncate(handle, 0)
            if mode is not None:
                os.fchmod(handle, mode)
            reserved = part, handle
        else:
            part.unlink()
            os.close(handle)
    raise AssertionError("there is always another number")


def _locked(part: Path, mode: int) -> int | None:
    """Open a part, creating it with this mode, and take its lock; None if another process holds the lock."""
    while True:
        try:
            handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
        except OSError:
            if part.is_symlink() or part.exists():  # something that is no part of ours
                return None
            raise
        try:
            state = os.fstat(handle)
            if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and take(handle):
                if _is_still(part, state):
                    return handle
                os.close(handle)  # its owner gave it its name meanwhile: it is no part any more
                continue
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        return None


def _is_still(path: Path, state: os.stat_result) -> bool:
    """Whether an open file has this name."""
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (state.st_dev, state.st_ino)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with writing(path) as file:
        file.write(text.encode())


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write arrays and the facts `about` them to .npz, or to .parquet: there each is a column, all equally long."""
    path = Path(path)
    if path.suffix == ".npz":
        with writing(path) as file:
            write_npz(file, {"about": np.array(json.dumps(about)), **arrays})
    elif path.suffix == ".parquet":
        _write_parquet(path, arrays, about)
    else:
        raise FileError(f"cannot write {path}: the name must end in {either(ARRAYS)}", path=path)


def read_arrays(
    path: str | Path, names: Collection[str] | None = None, *, mapped: bool = False
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays (of these names only) from .npz or .parquet, and the facts about them; the file may be foreign.

    mapped: read all arrays of an .npz, of which large ones stay in the file until their rows are looked at.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix == ".npz":
        arrays = map_npz(path) if mapped else read_npz(path, None if names is None else {*names, "about"})
        about = said_by(arrays.pop("about", "{}"))
    elif path.suffix == ".parquet":
        arrays, about = _read_parquet(path, names)
    else:
        raise FileError(f"cannot read {path}: the name must end in {either(ARRAYS)}", path=path)
    check_format(about, path)
    return arrays, about


def check_format(about: Mapping[str, Any], path: str | Path) -> None:
    """Raise if a later version wrote the file in a format that this version cannot read."""
    if isinstance(about.get("format"), int) and about["format"] > FORMAT:
        message = f"{path} was written by lookalike {about.get('version')}, which is newer: upgrade to read it"
        raise FileError(message, path=path)


def said_by(text: Any) -> dict[str, Any]:
    """The facts that a file holds about itself; none if another program wrote it."""
    try:
        about = read_json(str(text), "what a file says")
    except FileError:
        return {}
    return about if isinstance(about, dict) and "lookalike" in about else {}


def read_json(content: str | bytes, path: object) -> Any:
    """The value of JSON text in UTF-8; raises FileError for anything else, however deep or long."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        message = f"{path} is not a JSON file in UTF-8: line {error.lineno}, {error.msg}"
        raise FileError(message, path=path, line=error.lineno) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"{path} is not a JSON file in UTF-8: {error}", path=path) from error
    except ValueError as error:
        raise FileError(f"{path} has a number of too many digits", path=path) from error


def read_toml(content: str | bytes, path: object) -> dict[str, Any]:
    """The table of TOML text; raises FileError for anything else."""
    import tomllib

    try:
        return tomllib.loads(content if isinstance(content, str) else content.decode())
    except RecursionError as error:
        raise FileError(f"{path} is damaged: it has too many brackets in brackets", path=path) from error
    except ValueError as error:  # also of text that is not in UTF-8, and of numbers of too many digits
        raise FileError(f"{path} is damaged: {error}", path=path) from error


def _write_parquet(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    import pyarrow.parquet as pq

    table = arrow_table(arrays, about)
    with writing(path) as file:
        pq.write_table(table, file)


def _read_parquet(path: Path, names: Collection[str] | None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    return read_table(path, path, names)


def read_table(
    source: Any, path: str | Path, names: Collection[str] | None = None, packed: Collection[str] = ()
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The columns (of these names only) of a Parquet file and the facts about them. source: its path or its bytes.

    path: the name of the file in errors. packed: columns of bytes that are packed codes.
    """
    import pyarrow.parquet as pq

    with reading(path, PARQUET):
        metadata = pq.read_metadata(source)
        schema = metadata.schema.to_arrow_schema()
        columns = [name for name in schema.names if names is None or name in names]
        for name, n in Counter(columns).items():
            if n > 1:
                raise FileError(f"{path} is not a readable {PARQUET}: it has the column {name!r} twice", path=path)
        # of the schema alone: asked for its columns one by one, pyarrow ends the process where these are damaged
        n_bytes = metadata.num_rows * sum(bytes_of(schema.field(name).type) for name in columns)
    with reading(path, PARQUET, n_bytes):
        table = pq.read_table(source, columns=columns)
        arrays = arrow_columns(table, path, packed=packed)
    return arrays, said_in(table.schema)


def said_in(schema: Any) -> dict[str, Any]:
    """The facts that an Arrow schema holds about its table; none if another program wrote it."""
    return said_by((schema.metadata or {}).get(b"lookalike", b"{}").decode(errors="replace"))
