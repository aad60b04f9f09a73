"""The images of a data set written out: a folder of PNG files, with a subfolder for each class."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lookalike.core.decode import pillow
from lookalike.core.errors import InputError, Option
from lookalike.core.file_errors import naming
from lookalike.core.locks import left_in, move_up, part_of
from lookalike.core.progress import track
from lookalike.datasets.dataset import Dataset

__all__ = ["check_new", "write_images"]


def write_images(
    dataset: Dataset, folder: str | Path, *, first: int | None = None, random_state: int = 0
) -> np.ndarray:
    """Write the images of a data set as PNG files into a new or empty folder, all or none; returns their rows.

    Image 42 of class cat becomes cat/00042.png. `first` writes as many images only: the first of `dataset.shuffled`,
    in which classes take turns.
    """
    folder = Path(folder)
    check_new(folder)
    if dataset.paths:
        raise InputError(f"{dataset.name} is a folder of images already: expected a data set that has a name")
    if first is not None and not 1 <= first <= len(dataset):
        text = f" must be from 1 to {len(dataset):,}, the images of {dataset.name}, got {first}"
        raise InputError(Option("first"), text)
    rows = np.sort(dataset.shuffled(random_state)[:first])
    names = _folder_names(dataset.classes)
    with _becoming(folder) as made:
        for label in np.unique(dataset.labels[rows]):
            (made / names[label]).mkdir()
        _write(dataset, {row: made / names[dataset.labels[row]] / f"{row:05}.png" for row in rows.tolist()})
    return rows


def _write(dataset: Dataset, files: dict[int, Path]) -> None:
    """Write the image of each row to its file."""
    Image = pillow()  # noqa: N806

    def save(row: int) -> None:
        with naming(files[row]):
            Image.fromarray(dataset.images[row]).save(files[row])

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        done = pool.map(save, files)
        for _ in track(done, len(files), "writing images"):
            pass
    finally:
        pool.shutdown(cancel_futures=True)  # whoever interrupts does not wait for the rest


def check_new(folder: Path) -> None:
    """Raise if a folder has something in it already, or cannot be made."""
    if not folder.resolve().parent.is_dir():
        raise InputError(f"cannot write images into {folder}: the folder {folder.parent} does not exist")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write images into {folder}: it is not a folder")
    entry = min(set(folder.iterdir()) - set(left_in(folder, "images")), default=None) if folder.exists() else None
    if entry is not None:
        raise InputError(
            f"cannot write images into {folder}: it is not empty, it holds {entry.name}; name a new folder"
        )


@contextmanager
def _becoming(folder: Path) -> Iterator[Path]:
    """A hidden folder inside; its content moves up when the block ends without an error, else nothing stays."""
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        with part_of(folder, "images") as made:
            yield made
            move_up(made, folder)
    finally:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def _folder_names(classes: tuple[str, ...]) -> list[str]:
    """Names of classes as names of folders.

    >>> _folder_names(("T-shirt/top", "Ankle boot"))
    ['T-shirt-top', 'Ankle boot']
    """
    names = [re.sub(r"[^\w ().,&+-]", "-", name).strip(" .") for name in classes]
    for title, name in zip(classes, names, strict=True):
        if not name:
            raise InputError(f"class {title!r} has nothing to name a folder by: expected letters or digits")
    for name, count in Counter(names).items():
        if count > 1:
            same = [title for title, other in zip(classes, names, strict=True) if other == name]
            raise InputError(f"classes {', '.join(map(repr, same))} would share the folder {name}: rename them")
    return names
