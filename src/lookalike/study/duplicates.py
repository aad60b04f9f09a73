"""Copies among the images of a study: which are the same byte for byte, which look the same, and which one to keep."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.decode import pillow
from lookalike.core.errors import InputError, Option, StudyError
from lookalike.search.all_pairs import measure
from lookalike.search.near_duplicates import find_near
from lookalike.search.pair_spaces import PairSpace, pair_space
from lookalike.study.duplicate_decisions import APART, Decision, DecisionLog, Decisions, new_id
from lookalike.study.image_files import ImageFile, files_named
from lookalike.study.study import Study

KEEP = ("largest", "oldest", "first")

__all__ = ["KEEP", "CopiedFile", "CopyGroup", "Duplicates", "decided_duplicates", "find_duplicates", "remember_apart"]


@dataclass(frozen=True)
class CopiedFile:
    """A copy of the file that is kept. nearness: to the kept one, as the model writes it; None if nobody measured."""

    position: int
    same_bytes: bool
    nearness: float | None


@dataclass(frozen=True)
class CopyGroup:
    """One file to keep, and its copies: each is near the kept file itself, not only near another copy."""

    kept: int
    copies: list[CopiedFile]


@dataclass(frozen=True)
class Duplicates:
    """All copies among the images of a study. files: of each item that is in a group, as they are now."""

    groups: list[CopyGroup]
    files: dict[int, ImageFile]
    unit: str | None  # "bits", "cosine" or "distance"; None where only bytes were compared
    limit: float | None
    notes: list[str]
    n_apart: int = 0  # pairs that would be listed, had nobody said that they are no duplicates
    between: Callable[[int, int], float | None] = lambda _one, _other: None  # the nearness of any two items

    @property
    def copies(self) -> list[CopiedFile]:
        """The copies of all groups."""
        return [copy for group in self.groups for copy in group.copies]

    @property
    def n_bytes(self) -> int:
        """How many bytes the copies take."""
        return sum(self.files[copy.position].size for copy in self.copies)


def find_duplicates(study: Study, *, model: str | None = None, near: float | None = None, keep: str) -> Duplicates:
    """Find copies, and choose which of them to keep.

    model: by which files look the same; None: only files that are the same byte for byte are copies. near: up to which
    nearness, in bits, as cosine, or as distance; by default as `find_near` has it. keep: the "largest" picture, the
    "oldest" file, or the "first" in the catalogue.
    """
    choice("keep", keep, KEEP)
    files = _Files(study)
    decisions = DecisionLog(study.path).read()
    if model is None:
        members = files.same_bytes(files.sizes_that_repeat())
        groups, n_apart = _chosen(members, files, keep, lambda _, others: [None] * len(others), np.inf, decisions)
        return Duplicates(groups, files.of(groups), None, None, files.notes, n_apart)
    stored = study.model(model)
    if stored.gallery is None:
        raise StudyError(f"the model {model!r} is a run: it has no vectors to compare images by")
    space = pair_space(stored.gallery, stored.similarity)
    if near is not None:
        _check_limit(near, space)
    found = find_near(stored.gallery, similarity=stored.similarity, limit=near)
    members = [files.unchanged(group.items, stored.contents) for group in found.groups]

    def squares(kept: int, others: Sequence[int]) -> list[float]:
        return measure(space, np.full(len(others), kept), np.array(others)).tolist()

    limit = space.square(found.limit)
    groups, n_apart = _chosen(members, files, keep, squares, limit * (1 + 1e-12), decisions, space.shown)
    return Duplicates(
        groups, files.of(groups), space.unit, found.limit, files.notes, n_apart,
        lambda one, other: space.shown(squares(one, [other])[0]),
    )  # fmt: skip


def _check_limit(near: float, space: PairSpace) -> None:
    fits = 0 < near <= 1 if space.unit == "cosine" else near >= 0
    if not fits:
        expected = "a cosine above 0, up to 1" if space.unit == "cosine" else f"a number of {space.unit} from 0"
        raise InputError(Option("near"), f" must be {expected}, got {near}", parameter="near", value=near)


class _Files:
    """The image files of a study's items as they are now; each is read once, when it is first asked for."""

    def __init__(self, study: Study) -> None:
        if study.catalogue.paths is None:
            raise StudyError(f"the study {study.name!r} has no images: its catalogue has no column path")
        self.study = study
        self.paths = [str(study.path / str(path)) for path in study.catalogue.paths.tolist()]
        self.read: dict[int, ImageFile] = {}
        self.notes: list[str] = []

    def load(self, positions: Iterable[int]) -> None:
        """Read files that were not read yet."""
        missing = [position for position in positions if position not in self.read]
        named = files_named(self.study.path, [self.paths[position] for position in missing])
        self.read |= zip(missing, named, strict=True)

    def sizes_that_repeat(self) -> list[int]:
        """Items whose file has the size of another's: all others differ."""
        by_size: dict[int, list[int]] = {}
        n_missing = 0
        for position, path in enumerate(self.paths):
            try:
                by_size.setdefault(Path(path).stat().st_size, []).append(position)
            except OSError:
                n_missing += 1
        if n_missing:
            self.notes.append(f"{n_missing:,} files of the study cannot be read: they are left out")
        return [position for positions in by_size.values() if len(positions) > 1 for position in positions]

    def same_bytes(self, positions: Sequence[int]) -> list[list[int]]:
        """Groups of items whose files are the same byte for byte."""
        self.load(positions)
        groups: dict[str, list[int]] = {}
        for position in self.distinct(positions):
            groups.setdefault(self.read[position].content, []).append(position)
        return [group for group in groups.values() if len(group) > 1]

    def distinct(self, positions: Iterable[int]) -> list[int]:
        """Items that can be read and are files of their own: not links, and not one file under two names."""
        seen: set[tuple[int, int]] = set()
        kept = []
        for position in positions:
            path = Path(self.paths[position])
            if not self.read[position].content or path.is_symlink():
                continue
            status = path.stat()
            if (status.st_dev, status.st_ino) not in seen:
                kept.append(position)
            seen.add((status.st_dev, status.st_ino))
        return kept

    def unchanged(self, items: np.ndarray, contents: np.ndarray | None) -> list[int]:
        """Of some items, those whose file is there and is the one that was encoded."""
        positions = items.tolist()
        self.load(positions)
        kept = self.distinct(positions)
        if contents is None:
            return kept
        same = [position for position in kept if self.read[position].content.encode() == contents[position]]
        for position in sorted(set(kept) - set(same)):
            changed = self.study.catalogue.ids[position]
            self.notes.append(
                f"{changed} has changed since it was encoded, and is left out: run lookalike encode again"
            )
        return same

    def order(self, position: int, keep: str) -> tuple[Any, ...]:
        """What the files of a group are sorted by: the first is kept."""
        file = self.read[position]
        if keep == "largest":
            with pillow().open(self.paths[position]) as image:
                return -image.width * image.height, -file.size, position
        return (file.modified, position) if keep == "oldest" else (position,)

    def of(self, groups: Iterable[CopyGroup]) -> dict[int, ImageFile]:
        """The files of all items that are in a group."""
        members = [position for group in groups for position in (group.kept, *(c.position for c in group.copies))]
        return {position: self.read[position] for position in members}


def _chosen(
    members: Iterable[Sequence[int]],
    files: _Files,
    keep: str,
    squares: Callable[[int, Sequence[int]], Sequence[float | None]],
    limit: float,
    decisions: Decisions,
    shown: Callable[[float], float] = float,
) -> tuple[list[CopyGroup], int]:
    """Groups with the file to keep, and how many pairs are left out since they are no duplicates.

    What is far from the kept file, though near one of its copies, is kept too. A file that somebody dropped comes
    last: it is never kept in place of another one.
    """
    ids = [str(name) for name in files.study.catalogue.ids.tolist()]
    groups, n_apart = [], 0
    for group in members:
        rest = sorted(group, key=lambda position: (ids[position] in decisions.dropped, *files.order(position, keep)))
        while len(rest) > 1:
            kept, *others = rest
            copies, rest = [], []
            for other, square in zip(others, squares(kept, others), strict=True):
                same = files.read[other].content == files.read[kept].content
                near = same or square is None or square <= limit
                apart = near and decisions.apart(ids[kept], ids[other])
                n_apart += apart
                if near and not apart:
                    copies.append(CopiedFile(other, same, None if square is None else shown(square)))
                else:
                    rest.append(other)
            if copies:
                groups.append(CopyGroup(kept, copies))
    return groups, n_apart


def decided_duplicates(study: Study) -> Duplicates:
    """The copies that somebody decided to drop, each with the file that stays in its place.

    A file that is gone, or is a link already, needs nothing more and is left out. So is one that has changed since, or
    whose kept file has: that is noted.
    """
    decisions, files = DecisionLog(study.path).read(), _Files(study)
    places = {str(name): position for position, name in enumerate(study.catalogue.ids.tolist())}
    drops = [(each, decisions.kept_for(name)) for name, each in decisions.dropped.items()]
    known = [(each, kept) for each, kept in drops if each.second in places and kept in places]
    files.load({places[name] for each, kept in known for name in (each.second, kept)})
    contents: dict[str, set[str]] = {}  # of files that are kept, when that was decided
    for each, _ in known:
        contents.setdefault(each.first, set()).add(each.contents[0])
    groups: dict[int, list[CopiedFile]] = {}
    for each, kept in known:
        position, place = places[each.second], places[kept]
        dropped, stays = files.read[position].content, files.read[place].content
        if kept in decisions.dropped:
            files.notes.append(f"{each.second} is left out: the decisions go round in a circle")
        elif dropped and dropped != each.contents[1]:
            files.notes.append(f"{each.second} is left out: it has changed since this was decided")
        elif dropped and stays not in contents[kept]:
            files.notes.append(f"{each.second} is left out: {kept}, which stays, is gone or has changed since")
        elif dropped and len(files.distinct([place, position])) == 2:
            groups.setdefault(place, []).append(CopiedFile(position, dropped == stays, None))
    chosen = [CopyGroup(place, copies) for place, copies in groups.items()]
    return Duplicates(chosen, files.of(chosen), None, None, files.notes, decisions.n_apart)


def remember_apart(study: Study, pairs: Iterable[tuple[str, str]]) -> int:
    """Remember pairs of ids that are no duplicates, so that nobody is asked again. Returns how many are new."""
    new = {frozenset(pair): pair for pair in pairs}
    for pair in new:
        if len(pair) == 2:
            study.catalogue.positions(np.array(sorted(pair)), "item")
    log = DecisionLog(study.path)
    known = {frozenset((each.first, each.second)) for each in log.read().live.values() if each.kind == APART}
    added = [Decision(new_id(), APART, min(pair), max(pair)) for key, pair in new.items() if key not in known]
    for problem in log.add(added):
        if problem:
            raise InputError(problem)
    return len(added)
