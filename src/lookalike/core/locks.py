"""Folders that several processes use: locks, and filling a folder so that its files appear all at once."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["left_in", "lock", "locked", "move_up", "part_of", "take"]


def take(handle: int) -> bool:
    """Take the lock of an open file or folder, if it is free; it goes when that is closed or its process ends."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock(handle: int, seconds: float, held: str) -> None:
    """Take the lock of an open file or folder, waiting for it; after so many seconds, raise TimeoutError(held)."""
    deadline = time.monotonic() + seconds
    while not take(handle):
        if time.monotonic() > deadline:
            raise TimeoutError(held)
        time.sleep(0.02)


@contextlib.contextmanager
def locked(folder: Path, seconds: float, held: str) -> Iterator[None]:
    """Within this block, hold the lock of a folder; see `lock`."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle, seconds, held)
        yield
    finally:
        os.close(handle)


def left_in(folder: Path, kind: str) -> list[Path]:
    """Parts of a folder that were left by processes that were killed."""
    return list(folder.glob(f".{kind}.*.part"))


@contextlib.contextmanager
def part_of(folder: Path, kind: str) -> Iterator[Path]:
    """A hidden folder inside a folder, to be filled, then renamed or emptied by `move_up`; at the end it is removed.

    Parts of the same kind that were left are removed first: only one process may do this at a time.
    """
    for left in left_in(folder, kind):
        shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(dir=folder, prefix=f".{kind}.", suffix=".part"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def move_up(part: Path, folder: Path, *, last: str = "") -> None:
    """Move everything in a part to its folder. last: the name of the file that is moved after all others."""
    for entry in sorted(part.iterdir(), key=lambda entry: (entry.name == last, entry.name)):
        entry.rename(folder / entry.name)
    part.rmdir()
