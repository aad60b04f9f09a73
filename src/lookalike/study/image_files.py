"""The image files of a folder: which there are, a fingerprint of each, and why some are left out."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

from lookalike.core.csv_files import read_csv, write_csv
from lookalike.core.decode import SUFFIXES
from lookalike.core.errors import FileError
from lookalike.core.progress import track

PRESENT, SKIPPED, REMOVED = "present", "skipped", "removed"
SMALL = 1 << 20  # bytes that are read at once
BLOCK = 64  # files that a thread reads at a time

__all__ = [
    "PRESENT",
    "REMOVED",
    "SKIPPED",
    "ImageFile",
    "files_below",
    "files_named",
    "fingerprint",
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
    names = [field.name for field in fields(ImageFile)]
    columns = read_csv(path, names).columns
    try:
        files = [
            ImageFile(name, int(size), int(modified), content, state, reason)
            for name, size, modified, content, state, reason in zip(*(columns[name] for name in names), strict=True)
        ]
    except ValueError as error:  # sizes and times are whole numbers
        raise FileError(f"{path} is damaged: {error}", path=path) from error
    return {file.path: file for file in files}


def write_files(path: Path, files: Sequence[ImageFile]) -> None:
    """Write a CSV file with a row for each file."""
    write_csv(path, {field.name: [getattr(file, field.name) for file in files] for field in fields(ImageFile)})


def files_below(folder: Path, before: Mapping[str, ImageFile], *, leave_out: Path) -> list[ImageFile]:
    """All files below a folder, sorted by path, without hidden files and those in `leave_out`; links are followed.

    A file that has the same size and time as `before` is not read again.
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
        read = pool.map(lambda names: [_read(folder, name, before.get(name)) for name in names], blocks)
        for block in track(read, len(blocks), "reading files"):
            files += block
    return sorted(files, key=lambda file: file.path)


def files_named(folder: Path, names: Sequence[str]) -> list[ImageFile]:
    """The files of these names, seen from a folder, in their order; a name may be a whole path."""
    blocks = [names[start : start + BLOCK] for start in range(0, len(names), BLOCK)]
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        read = pool.map(lambda block: [_read(folder, name, None) for name in block], blocks)
        return [file for block in track(read, len(blocks), "reading files") for file in block]


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
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
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
    suffix = f".{name.rpartition('/')[2].rpartition('.')[2].lower()}"
    return "" if suffix in SUFFIXES else "not named like an image"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _text(name: str) -> str:
    """A name as text that can be written, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _read(folder: Path, name: str, before: ImageFile | None) -> ImageFile:
    """A file as it is now, with a fingerprint of its content."""
    path = name if name.startswith("/") else f"{folder}/{name}"
    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            return ImageFile(name, 0, 0, "", SKIPPED, "not a file")
        size, modified = status.st_size, status.st_mtime_ns
        if before is not None and before.content and (before.size, before.modified) == (size, modified):
            return ImageFile(name, size, modified, before.content)
        return ImageFile(name, size, modified, fingerprint(path))
    except FileNotFoundError:
        return ImageFile(name, 0, 0, "", SKIPPED, "cannot be read: a link to nothing")
    except OSError as error:
        return ImageFile(name, 0, 0, "", SKIPPED, f"cannot be read: {error.strerror}")


def fingerprint(path: str | Path) -> str:
    """A fingerprint of the bytes of a file."""
    with open(path, "rb") as file:  # noqa: PTH123
        size = os.fstat(file.fileno()).st_size
        whole = hashlib.sha256(file.read()) if size <= SMALL else hashlib.file_digest(file, "sha256")
    return whole.hexdigest()[:32]
