"""A folder of images as a data set: a subfolder for each class, or a CSV file that says the class of each image."""

import csv
import io
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.decode import SUFFIXES, default_limit, square
from lookalike.core.errors import FileError
from lookalike.core.progress import track
from lookalike.datasets.dataset import Dataset

logger = logging.getLogger("lookalike")

__all__ = ["decode_squares", "image_folder"]

FILE_COLUMNS, LABEL_COLUMNS = ("file", "path", "filename", "image"), ("label", "class")


def image_folder(path: str | Path, labels: str | Path | None = None, size: int = 32) -> Dataset:
    """Load the images of a folder: the middle square of each, size × size.

    The class of an image is the first folder of its path, or what the CSV file `labels` says. Hidden files and files
    without the ending of an image are passed over; files that cannot be read are listed in `unreadable`.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    size = whole_number("size", size)
    present = [file.relative_to(folder) for file in _images_below(folder)]
    if labels is None:
        classes_of = _classes_by_folder(folder, present)
    else:
        classes_of = _classes_by_csv(folder, present, Path(labels))
    _check_classes(folder, set(classes_of.values()))
    files = sorted(classes_of)
    images, reasons = decode_squares([folder / file for file in files], size)
    unreadable = tuple((folder / files[row], reason) for row, reason in reasons.items())
    readable = [file for row, file in enumerate(files) if row not in reasons]
    if not readable:
        text = f"none of the {len(files)} images in {folder} can be read; {files[0]}: {unreadable[0][1]}"
        raise FileError(text, path=folder)
    if unreadable:
        logger.warning(
            "%d of %d files in %s cannot be read and are left out, %s: %s",
            *(len(unreadable), len(files), folder, *unreadable[0]),
        )
    classes = sorted({classes_of[file] for file in readable})
    _check_classes(folder, set(classes))
    return Dataset(
        name=folder.resolve().name,
        images=images,
        labels=np.array([classes.index(classes_of[file]) for file in readable], np.int64),
        classes=tuple(classes),
        paths=tuple(folder / file for file in readable),
        unreadable=unreadable,
    )


def _images_below(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Files with the ending of an image; links are followed, except into a folder that is being walked already."""
    real = folder.resolve()
    if real in above:
        return
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _images_below(entry, (*above, real))
        elif entry.suffix.lower() in SUFFIXES and (entry.is_file() or not entry.exists()):  # a broken link is reported
            yield entry


def _classes_by_folder(folder: Path, files: list[Path]) -> dict[Path, str]:
    if not files:
        raise FileError(f"{folder} has no images: expected files like {folder / 'class' / 'image.jpg'}", path=folder)
    loose = [file for file in files if len(file.parts) == 1]
    if loose:
        raise FileError(
            f"{len(loose)} images lie directly in {folder}, the first is {loose[0]}: "
            "put each into the folder of its class, or pass a CSV file of labels",
            path=folder,
        )
    return {file: file.parts[0] for file in files}


def _classes_by_csv(folder: Path, files: list[Path], table: Path) -> dict[Path, str]:
    classes_of: dict[Path, str] = {}
    for line, name, label in _rows(table):
        file = Path(name)
        if file.is_absolute() or ".." in file.parts:
            text = f"{table}, line {line}: {name} is not below {folder}, as the path of every image must be"
            raise FileError(text, path=table, line=line)
        if classes_of.setdefault(file, label) != label:
            text = f"{table}, line {line}: {name} is {label!r}, but {classes_of[file]!r} before"
            raise FileError(text, path=table, line=line)
    present = set(files)
    missing = [file for file in classes_of if file not in present and not (folder / file).is_file()]
    if missing:
        text = f"{table} names {len(missing)} files that are not in {folder}, the first is {missing[0]}"
        raise FileError(text, path=table)
    unlabelled = [file for file in files if file not in classes_of]
    if unlabelled:
        text = f"{len(unlabelled)} images in {folder} have no row in {table}, the first is {unlabelled[0]}"
        raise FileError(text, path=table)
    if not classes_of:
        raise FileError(f"{folder} has no images, and {table} no rows", path=folder)
    return classes_of


def _rows(table: Path) -> Iterator[tuple[int, str, str]]:
    """Line, file and label of each row of a CSV file."""
    if not table.is_file():
        raise FileNotFoundError(f"there is no file {table}")
    try:
        reader = csv.reader(io.StringIO(table.read_text(encoding="utf-8-sig")))
        header = [name.strip().lower() for name in next(reader, [])]
        columns = [[header.index(name) for name in names if name in header] for names in (FILE_COLUMNS, LABEL_COLUMNS)]
        if not all(columns):
            raise FileError(
                f"the first line of {table} must name its columns, one of {', '.join(FILE_COLUMNS)} "
                f"and one of {', '.join(LABEL_COLUMNS)}, got {', '.join(header) or 'nothing'}",
                path=table,
                line=1,
            )
        for row in filter(None, reader):
            name, label = (row[positions[0]].strip() if positions[0] < len(row) else "" for positions in columns)
            if not (name and label):
                text = f"{table}, line {reader.line_num}: a file and a label are expected, got {row}"
                raise FileError(text, path=table, line=reader.line_num)
            yield reader.line_num, name, label
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{table} is not a CSV file in UTF-8: {error}", path=table) from error


def _check_classes(folder: Path, classes: set[str]) -> None:
    if len(classes) < 2:
        text = f"{folder} needs at least two classes, as nothing can be told apart in one: got only {min(classes)!r}"
        raise FileError(text, path=folder)


def decode_squares(
    files: Sequence[Path], size: int, boxes: np.ndarray | None = None
) -> tuple[np.ndarray, dict[int, str]]:
    """The images that can be read, and the reasons why others cannot, by row. boxes: the part of each that counts."""
    images: list[np.ndarray] = []
    reasons: dict[int, str] = {}
    with default_limit(), ThreadPoolExecutor(os.cpu_count()) as pool:
        decoded = pool.map(
            lambda file, box: _square_or_reason(file, size, box), files, [None] * len(files) if boxes is None else boxes
        )
        for row, result in enumerate(track(decoded, len(files), "reading images")):
            if isinstance(result, str):
                reasons[row] = result
            else:
                images.append(result)
    return np.array(images, np.uint8).reshape(-1, size, size, 3), reasons


def _square_or_reason(file: Path, size: int, box: np.ndarray | None) -> np.ndarray | str:
    try:
        if not file.stat().st_size:
            return "the file is empty"
        return square(file, size, box)
    except MemoryError:
        return "it takes more memory than there is"
    except Exception as error:  # readers of images raise whatever a broken file provokes
        if type(error).__name__ == "UnidentifiedImageError":
            return "not an image"  # its text repeats the path
        return (str(error) or type(error).__name__).partition("\n")[0]
