"""Moving copies of images away, or making them hard links, so that all of it can be undone; nothing is deleted.

The undo file is written before the first file moves. It lists what is going to happen, and where each file is tells
what has happened. So it is true at every moment, also after a kill.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lookalike.core.errors import FileError, InputError, StudyError
from lookalike.core.files import check_format, provenance, read_json, write_text
from lookalike.core.progress import track
from lookalike.study.image_files import fingerprint

UNDO = "undo"  # the folder in a study that holds undo files and, of links, the originals
UNDONE = ".undone"

__all__ = ["FileMove", "UndoFile", "undo"]


@dataclass(frozen=True)
class FileMove:
    """A file goes from `source` to `target`. kept: a file of the same bytes; its hard link takes the place."""

    source: str
    target: str
    size: int
    content: str
    kept: str | None = None


@dataclass(frozen=True)
class UndoFile:
    """What is going to happen, on disk, and how to do it."""

    path: Path
    moves: list[FileMove]

    @classmethod
    def begin(cls, folder: Path, moves: Sequence[FileMove]) -> "UndoFile":
        """Write the undo file into a new folder of its own below `folder`; nothing has moved yet."""
        for move in moves:
            if Path(move.target).exists():
                raise InputError(f"cannot move {move.source} to {move.target}: there is a file of that name already")
        path = folder / "moves.json"
        folder.mkdir(parents=True)
        write_text(path, json.dumps(provenance("undo", moves=[asdict(move) for move in moves]), indent=1))
        return cls(path, list(moves))

    @classmethod
    def read(cls, path: Path) -> "UndoFile":
        """Read an undo file."""
        if not path.is_file():
            done = path.with_name(path.name + UNDONE)
            raise FileError(f"{path} is undone already" if done.is_file() else f"there is no file {path}", path=path)
        about = read_json(path.read_bytes(), path)
        if not isinstance(about, dict) or about.get("lookalike") != "undo":
            raise FileError(f"{path} is not an undo file of lookalike duplicates", path=path)
        check_format(about, path)
        try:
            return cls(path, [FileMove(**move) for move in about["moves"]])
        except (KeyError, TypeError) as error:
            raise FileError(f"{path} is damaged: {error}", path=path) from error

    def apply(self) -> None:
        """Do all of it. A file that has changed since the plan was made stops it; what is done can be undone."""
        for move in track(self.moves, len(self.moves), "moving files"):
            _check(Path(move.source), move, "has changed since it was compared")
            Path(move.target).parent.mkdir(parents=True, exist_ok=True)
            if move.kept is None:
                _move(Path(move.source), Path(move.target))
            else:
                _link(Path(move.source), Path(move.target), Path(move.kept), move)


def undo(path: Path) -> int:
    """Put every file back where it was, all or none, and return how many moved. The undo file is renamed then."""
    plan = UndoFile.read(path)
    problems = list(_problems(plan.moves))
    if problems:
        more = f"; so it is with {len(problems) - 1:,} more" if len(problems) > 1 else ""
        raise StudyError(f"nothing was undone: {problems[0]}{more}")
    n_back = sum(_back(move) for move in track(plan.moves, len(plan.moves), "moving files back"))
    path.rename(path.with_name(path.name + UNDONE))
    return n_back


def new_undo_folder(study: Path) -> Path:
    """A folder in a study that does not exist yet, named by the time."""
    return study / UNDO / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S-%f")


def _problems(moves: Sequence[FileMove]) -> Iterator[str]:
    """Why files cannot go back: they are gone, have changed, or something else has taken their place."""
    for move in track(moves, len(moves), "checking files"):
        source, target = Path(move.source), Path(move.target)
        there = target.is_file()
        if there and not _is(target, move):
            yield f"{target} has changed since it was moved"
        elif source.exists() and (there or move.kept is not None) and not _is(source, move):
            yield f"another file has taken the place of {source}"
        elif not there and not source.exists():
            yield f"{target} is gone, and so is {source}"


def _back(move: FileMove) -> bool:
    """Put one file back; False where it had never left, or is back already."""
    source, target = Path(move.source), Path(move.target)
    if not target.exists():
        return False
    if source.exists() and (move.kept is None or source.samefile(target)):
        target.unlink()  # a second name or a copy of ours: the kill came before the first was removed
        return False
    source.parent.mkdir(parents=True, exist_ok=True)
    _move(target, source)
    return True


def _move(source: Path, target: Path) -> None:
    """Rename a file; to another device, copy it, check the copy, and only then remove it here."""
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target)
        source.unlink()


def _copy(source: Path, target: Path) -> None:
    """A checked copy that has its name only when it is whole."""
    part = target.with_name(f".{target.name}.part")
    shutil.copy2(source, part)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    if fingerprint(part) != fingerprint(source):
        part.unlink()
        raise FileError(f"{target} would not be what {source} is: the copy was wrong, and nothing was moved", path=part)
    part.replace(target)


def _link(source: Path, target: Path, kept: Path, move: FileMove) -> None:
    """Keep the original as `target`, then let a hard link to the kept file take its name: it always exists."""
    _check(kept, move, "is no longer the same as its copy")
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target)
    part = source.with_name(f".{source.name}.part")
    part.unlink(missing_ok=True)  # of a process that was killed
    part.hardlink_to(kept)
    part.replace(source)


def _is(path: Path, move: FileMove) -> bool:
    """Whether a file has the bytes that the plan says."""
    return path.stat().st_size == move.size and fingerprint(path) == move.content


def _check(path: Path, move: FileMove, problem: str) -> None:
    if not path.is_file() or not _is(path, move):
        raise StudyError(f"{path} {problem}: run the command again")


def planned_moves(files: Sequence[tuple[Path, Any]], folder: Path, root: Path) -> list[FileMove]:
    """Files, each with its ImageFile, that move below `folder` as they are below `root`."""
    return [FileMove(str(path), str(folder / path.relative_to(root)), file.size, file.content) for path, file in files]
