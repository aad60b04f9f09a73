"""The folder of a study: the names of its files, and how a new one becomes whole."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from lookalike.core.errors import InputError, StudyError
from lookalike.core.locks import left_in, lock, locked, move_up, part_of

READY = ".study.ready"  # holds the files of a new study that are whole and only have to move up
UNFINISHED = "encoding"  # holds what images were encoded to before it is a model
WAIT = 60.0  # seconds to wait for another process that changes the study
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")

__all__ = ["UNFINISHED", "check_name", "finish_new_study", "is_name", "new_study", "wait_for_lock"]


def check_name(name: str, what: str) -> None:
    """Raise if a name cannot be the name of a file."""
    if not is_name(name):
        raise InputError(
            f"the name of {what} is a file's: it has letters from a to z, digits and . _ + -, begins with a letter or "
            f"digit and has at most 100 characters, got {name!r}"
        )


def is_name(name: object) -> bool:
    """Whether a name can be the name of a file on every system."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


@contextlib.contextmanager
def new_study(folder: Path) -> Iterator[Path]:
    """A hidden folder to write a new study into; at the end of the block its files move to their location.

    The file study.toml moves last: a folder with this file is a study. An UNFINISHED folder may exist before.
    """
    if not folder.parent.is_dir():
        raise StudyError(f"cannot make a study in {folder}: the folder {folder.parent} does not exist")
    in_use = StudyError(f"cannot make a study in {folder}: it is not a new or empty folder: choose another")
    if folder.exists() and not folder.is_dir():
        raise in_use
    folder.mkdir(exist_ok=True)
    with locked(folder, WAIT, _busy(folder)):
        _move_up(folder)
        left = left_in(folder, "study")
        if any(entry not in left and entry.name != UNFINISHED for entry in folder.iterdir()):
            raise in_use
        with part_of(folder, "study") as part:
            yield part
            part.rename(folder / READY)
            _move_up(folder)


def finish_new_study(folder: Path) -> None:
    """Move the files of a new study to their location, if the process that wrote them was killed before it did."""
    if (folder / READY).is_dir():
        with locked(folder, WAIT, _busy(folder)):
            _move_up(folder)


def wait_for_lock(handle: int, folder: Path) -> None:
    """Take the lock of a study's open file; raises TimeoutError if another process holds it for too long."""
    lock(handle, WAIT, _busy(folder))


def _busy(folder: Path) -> str:
    return f"another process is changing this study, {folder}: try again when it has ended"


def _move_up(folder: Path) -> None:
    if (folder / READY).is_dir():
        move_up(folder / READY, folder, last="study.toml")
