"""The image files of a folder: which there are, what is in them, how they are labelled, and why some are left out."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lookalike.core.csv_files import read_csv, write_csv
from lookalike.core.decode import SUFFIXES
from lookalike.core.progress import track

PRESENT, SKIPPED, REMOVED = "present", "skipped", "removed"
FOLDERS = ("category", "identity", "category/identity", "nothing")
FILE_COLUMNS = ("file", "path", "filename", "image", "id")
SMALL = 1 << 20  # bytes that are read at once
BLOCK = 64  # files that a thread reads at a time
CATEGORY_COLUMNS = ("category", "label", "class")

__all__ = [
    "FOLDERS",
    "PRESENT",
    "REMOVED",
    "SKIPPED",
    "ImageFile",
    "Labels",
    "files_below",
    "read_files",
    "write_files",
]


@dataclass(frozen=True)
class ImageFile:
    """A file of a folder of images, present, skipped for a reason, or removed since."""

    path: str  # below the folder, with forward slashes: the id of its item
    size: int  # bytes
    modified: int  # nanoseconds since 1970
    content: str  # a fingerprint of its bytes; empty where they cannot be read
    state: str = PRESENT
    reason: str = ""


def read_files(path: Path) -> dict[str, ImageFile]:
    """The files that `write_files` wrote, by path."""
    columns = read_csv(path, [field.name for field in fields(ImageFile)]).columns
    names = [field.name for field in fields(ImageFile)]
    try:
        rows = [
            ImageFile(name, int(size), int(modified), content, state, reason)
            for name, size, modified, content, state, reason in zip(*(columns[name] for name in names), strict=True)
        ]
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return {file.path: file for file in rows}


def write_files(path: Path, files: Sequence[ImageFile]) -> None:
    """Write a CSV file with a row for each file."""
    write_csv(path, {field.name: [getattr(file, field.name) for file in files] for field in fields(ImageFile)})


def files_below(folder: Path, before: Mapping[str, ImageFile], *, leave_out: Path) -> list[ImageFile]:
    """All files below a folder by path, hidden ones and those in `leave_out` apart; links are followed.

    A file of the same size and time as `before` is not read again.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    files: list[ImageFile] = []
    candidates: list[str] = []
    for name, reason in _walk(str(folder), str(leave_out.resolve())):
        if reason:
            files.append(ImageFile(name, 0, 0, "", SKIPPED, reason))
        else:
            candidates.append(name)
    blocks = [candidates[start : start + BLOCK] for start in range(0, len(candidates), BLOCK)]
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        looked = pool.map(lambda names: [_look(folder, name, before.get(name)) for name in names], blocks)
        for block in track(looked, len(blocks), "reading files"):
            files += block
    return sorted(files, key=lambda file: file.path)


def _walk(root: str, leave_out: str) -> Iterator[tuple[str, str]]:
    """Paths below the root, each with a reason to leave it out, or none; every folder is read once.

    Folders that are links come last, so that files have the paths of the folders that they are in.
    """
    seen: set[str] = {leave_out}
    folders, links = [""], list[str]()
    while folders or links:
        below = folders.pop() if folders else links.pop(0)
        folder = f"{root}/{below}"  # paths are text here, since there may be very many
        real = str(Path(folder).resolve())
        if real in seen:
            if real != leave_out:
                yield _text(below), "leads to a folder that is read already"
            continue
        seen.add(real)
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield _text(below), f"the folder cannot be read: {error.strerror}"
            continue
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.name.startswith("."):
                continue
            if _is_folder(entry):
                (links if entry.is_symlink() else folders).append(name)
            else:
                yield _text(name), _unfit(name)


def _unfit(name: str) -> str:
    """Why a file cannot be an item, from its name; empty where it can."""
    if _text(name) != name:
        return "its name is not valid Unicode: rename it"
    named = f".{name.rpartition('/')[2].rpartition('.')[2].lower()}"
    return "" if named in SUFFIXES else "not named like an image"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _text(name: str) -> str:
    """A name as text that can be written, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _look(folder: Path, name: str, before: ImageFile | None) -> ImageFile:
    """A file as it is now."""
    path = f"{folder}/{name}"
    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            return ImageFile(name, 0, 0, "", SKIPPED, "not a file")
        size, modified = status.st_size, status.st_mtime_ns
        if before is not None and before.content and (before.size, before.modified) == (size, modified):
            return ImageFile(name, size, modified, before.content)
        return ImageFile(name, size, modified, _fingerprint(path, size))
    except FileNotFoundError:
        return ImageFile(name, 0, 0, "", SKIPPED, "cannot be read: a link to nothing")
    except OSError as error:
        return ImageFile(name, 0, 0, "", SKIPPED, f"cannot be read: {error.strerror}")


def _fingerprint(path: str, size: int) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        whole = hashlib.sha256(file.read()) if size <= SMALL else hashlib.file_digest(file, "sha256")
    return whole.hexdigest()[:32]


class Labels:
    """Category, identity and further columns of files: by the folders they lie in, and by a table of labels.

    folders: what the first folder of a path is, or the first two. table: .csv or .parquet with a column file (or path,
    filename, image, id), and identity, category (or label, class) and any others.

    >>> Labels("category/identity").of(["shoes/a12/front.jpg", "loose.jpg"])
    {'category': ['shoes', ''], 'identity': ['a12', 'loose.jpg']}
    """

    def __init__(self, folders: str = "category", table: Path | None = None) -> None:
        if folders not in FOLDERS:
            raise ValueError(f"folders must be {', '.join(FOLDERS[:-1])} or {FOLDERS[-1]}, got {folders!r}")
        self.folders = folders
        self.table = None if table is None else _Table(table)

    def of(self, paths: Sequence[str]) -> dict[str, list[Any]]:
        """Columns with a value for each path; none where there is nothing to say."""
        columns: dict[str, list[Any]] = {}
        kinds = [] if self.folders == "nothing" else self.folders.split("/")
        for level, kind in enumerate(kinds):
            names = [parts[level] if len(parts := path.split("/")) > level + 1 else "" for path in paths]
            if any(names):
                columns[kind] = names
        if self.table is not None:
            columns |= self.table.of(paths)
        if "identity" in columns:  # an item without one is its own
            columns["identity"] = [given or path for given, path in zip(columns["identity"], paths, strict=True)]
        return columns

    def strangers(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Paths that the table does not have, and files of the table that are none of these."""
        if self.table is None:
            return [], []
        known, there = self.table.rows, set(paths)
        return [path for path in paths if path not in known], [name for name in known if name not in there]


class _Table:
    def __init__(self, path: Path) -> None:
        columns = _columns(path)
        name = _first(FILE_COLUMNS, columns)
        if name is None:
            raise ValueError(
                f"{path} must have a column {', '.join(FILE_COLUMNS[:-1])} or {FILE_COLUMNS[-1]} that says which file "
                f"a row is about, got {', '.join(columns) or 'none'}"
            )
        names = [str(value).removeprefix("./") for value in columns.pop(name)]
        self.rows: dict[str, int] = {}
        for row, file in enumerate(names):
            if self.rows.setdefault(file, row) != row:
                raise ValueError(f"{path} has {file!r} twice, in rows {self.rows[file] + 1} and {row + 1}")
        category = _first(CATEGORY_COLUMNS, columns)
        if category is not None and category != "category":
            columns = {"category" if name == category else name: values for name, values in columns.items()}
        self.columns = {name: values for name, values in columns.items() if name not in ("id", "path")}
        if not self.columns:
            raise ValueError(f"{path} says nothing of its files: expected a column category, identity or another")

    def of(self, paths: Sequence[str]) -> dict[str, list[Any]]:
        places = [self.rows.get(path) for path in paths]
        return {
            name: ["" if place is None else str(values[place]) for place in places]
            for name, values in self.columns.items()
        }


def _columns(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".csv":
        return dict(read_csv(path, []).columns)
    if path.suffix == ".parquet":
        from lookalike.core.files import read_arrays

        return {name: values.tolist() for name, values in read_arrays(path)[0].items()}
    raise ValueError(f"cannot read labels from {path}: the name must end in .csv or .parquet")


def _first(wanted: Sequence[str], columns: Mapping[str, Any]) -> str | None:
    return next((name for name in wanted if name in columns), None)
