"""Errors of files: damage, too little memory, no space. Each is one sentence that names the file."""

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path

from lookalike.core.errors import FileError, LookalikeError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EPIPE)  # nothing more can be written there

__all__ = ["FULL", "fitting", "naming", "no_memory", "reading", "short_of_memory", "within"]


@contextlib.contextmanager
def reading(path: object, form: str, n_bytes: int | None = None) -> Iterator[None]:
    """Within this block, every error of a damaged file becomes a FileError, and a lack of memory a MemoryError.

    A LookalikeError stays as it is: it says already what is wrong.

    path: the name of the file. form: what it should be, such as "npz file of plain arrays". n_bytes: how much memory
    it takes, if that is known.
    """
    try:
        yield
    except LookalikeError:
        raise
    except Exception as error:  # numpy, zipfile, pyarrow and Python's parser raise whatever the bytes lead to
        if short_of_memory(error):
            raise no_memory(path, n_bytes) from error
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # of the disk, not of the bytes
            raise
        message = f"{path} is not a readable {form}: it is damaged, cut short or something else"
        raise FileError(message, path=path) from error


def short_of_memory(error: BaseException) -> bool:
    """Whether an error means that there is no memory left; libraries raise several types for it."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    texts = r"alloc of size \d+ failed|bad_alloc|Failed to allocate memory"  # pyarrow, C++, ONNX Runtime
    return isinstance(error, MemoryError) or re.search(texts, str(error)) is not None


def no_memory(path: object, n_bytes: int | None = None) -> MemoryError:
    """The error that a file does not fit into memory."""
    needed = "" if n_bytes is None else f": it takes about {_size(n_bytes)}"
    return MemoryError(f"there is not enough memory to read {path}{needed}")


@contextlib.contextmanager
def within(path: object) -> Iterator[None]:
    """Within this block, an error about values becomes a FileError that names the file of these values."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if str(path) in str(error):
            raise
        parts = error.args if isinstance(error, LookalikeError) else (str(error),)
        raise FileError(f"{path}: ", *parts, path=path) from error


@contextlib.contextmanager
def fitting(path: object, n_bytes: int | None = None) -> Iterator[None]:
    """Within this block, a lack of memory becomes an error that names this file."""
    try:
        yield
    except MemoryError as error:
        raise no_memory(path, n_bytes) from error


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Within this block, an error of the system that names no file gets the name of this one."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def _size(n_bytes: int) -> str:
    """A number of bytes as people read it.

    >>> _size(2_500_000), _size(3 * 10**9)
    ('2.5 MB', '3.0 GB')
    """
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 10**9 else f"{n_bytes / 1e6:,.1f} MB"
