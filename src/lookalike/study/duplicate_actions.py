"""What is done about copies: moved to a folder, or made hard links. It is planned first, so that it can be shown."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lookalike.core.errors import InputError, StudyError
from lookalike.study.duplicates import Duplicates
from lookalike.study.file_moves import UNDO, FileMove, UndoFile, new_undo_folder, planned_moves, undo
from lookalike.study.study import Study

__all__ = ["MovePlan", "UndoEntry", "images_of", "plan_links", "plan_moves", "put_back", "undo_entries"]


@dataclass(frozen=True)
class MovePlan:
    """Moves that can be done as they are; `folder` is where the undo file will be."""

    folder: Path
    moves: list[FileMove]
    notes: list[str]

    @property
    def n_bytes(self) -> int:
        """How many bytes all its files have."""
        return sum(move.size for move in self.moves)

    @property
    def digest(self) -> str:
        """A text that is another one for other moves, whatever the moment: two plans with one text do the same."""
        moves = [
            (move.source, move.content, move.kept, None if move.kept else move.target)
            for move in sorted(self.moves, key=lambda move: move.source)
        ]
        return hashlib.sha256(json.dumps(moves).encode()).hexdigest()

    def apply(self, study: Study, unfinished: Callable[[Path], None] = lambda _path: None) -> Path | None:
        """Do it; returns the undo file, None if there is nothing to do. unfinished: told of it if something fails."""
        if not self.moves:
            return None
        with study.changing():
            plan = UndoFile.begin(self.folder, self.moves)
            try:
                plan.apply()
            except BaseException:
                unfinished(plan.path)
                raise
        return plan.path


def plan_moves(study: Study, found: Duplicates, move: Path) -> MovePlan:
    """The copies, each with the path below the new folder that it has below the folder of images."""
    if study.folder is None:
        raise StudyError(
            f"the study {study.name!r} has a catalogue that names its images: moved, they would be missing there; "
            "--link leaves every file in its place"
        )
    root = images_of(study)
    target = move.resolve()
    if target.is_relative_to(root):
        raise InputError(f"cannot move copies to {move}: it is inside {root}, where lookalike encode would find them")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"cannot move copies to {move}: it is not a new or empty folder")
    files = [(root / str(study.catalogue.ids[copy.position]), found.files[copy.position]) for copy in found.copies]
    return MovePlan(new_undo_folder(study.path), planned_moves(files, target, root), [])


def plan_links(study: Study, found: Duplicates) -> MovePlan:
    """The copies of the same bytes, each with the file that its name will be a link to."""
    folder = new_undo_folder(study.path)
    moves: list[FileMove] = []
    notes: list[str] = []
    for group in found.groups:
        kept = found.files[group.kept]
        for copy in group.copies:
            file = found.files[copy.position]
            if not copy.same_bytes:
                continue
            if Path(file.path).stat().st_dev != Path(kept.path).stat().st_dev:
                notes.append(f"{file.path} is on another device than {kept.path}: it cannot be a link, and stays")
                continue
            original = folder / "originals" / f"{len(moves):06}{Path(file.path).suffix}"
            moves.append(FileMove(file.path, str(original), file.size, file.content, kept.path))
    return MovePlan(folder, moves, notes)


@dataclass(frozen=True)
class UndoEntry:
    """Something that was done and can be undone. name: of its folder, which is the time."""

    name: str
    path: Path
    n_files: int
    links: bool


def undo_entries(study: Study) -> list[UndoEntry]:
    """All that was done in a study and is not undone, the last first."""
    entries = []
    for path in sorted((study.path / UNDO).glob("*/moves.json"), reverse=True):
        moves = UndoFile.read(path).moves
        entries.append(UndoEntry(path.parent.name, path, len(moves), any(move.kept for move in moves)))
    return entries


def put_back(study: Study, path: Path) -> int:
    """Undo what an undo file says, all or none; returns how many files moved."""
    with study.changing():
        return undo(path)


def images_of(study: Study) -> Path:
    """The folder of images that a study was made from."""
    assert study.folder is not None
    return (study.path / str(study.folder["images"])).resolve()
