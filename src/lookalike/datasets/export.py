"""The images of a data set written out: a folder of files, with a subfolder for each class, and a table of them."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lookalike.core.csv_files import write_csv
from lookalike.core.decode import cut, pillow, upright
from lookalike.core.errors import InputError, Option
from lookalike.core.file_errors import naming
from lookalike.core.locks import left_in, move_up, part_of
from lookalike.core.progress import track
from lookalike.datasets.dataset import PHASE, Dataset

ITEMS, QUERIES = "items.csv", "queries.csv"

__all__ = ["ITEMS", "QUERIES", "check_new", "write_images"]


def write_images(
    dataset: Dataset, folder: str | Path, *, first: int | None = None, random_state: int = 0
) -> np.ndarray:
    """Write the images of a data set as PNG files into a new or empty folder, all or none; returns their rows.

    Image 42 of class cat becomes cat/00042.png; where images have ids, face-smiling/google-1f600.png. `first` writes as
    many images only: the first of `dataset.shuffled`, in which classes take turns. Photographs with boxes, those of
    deepfashion, are cut to them and written as JPEG files of the same paths as in the official folder. Of a set with
    ids, `items.csv` says id, identity, category, path and all else that is known of each image, as a study takes it;
    where some images are queries by their phase, `queries.csv` says it of these.
    """
    folder = Path(folder)
    check_new(folder)
    if dataset.paths and dataset.boxes is None:
        raise InputError(f"{dataset.name} is a folder of images already: expected a data set that has a name")
    if first is not None and not 1 <= first <= len(dataset):
        text = f" must be from 1 to {len(dataset):,}, the images of {dataset.name}, got {first}"
        raise InputError(Option("first"), text)
    rows = np.sort(dataset.shuffled(random_state)[:first])
    paths = _paths(dataset, rows)
    with _becoming(folder) as made:
        for above in {Path(path).parent for path in paths}:
            (made / above).mkdir(parents=True, exist_ok=True)
        _write(dataset, {row: made / path for row, path in zip(rows.tolist(), paths, strict=True)})
        if dataset.ids is not None:
            _write_tables(dataset, rows, paths, made)
    return rows


def _paths(dataset: Dataset, rows: np.ndarray) -> list[str]:
    """The path of the file of each row."""
    if dataset.boxes is not None and dataset.ids is not None:
        return [_inside(name) for name in dataset.ids[rows].tolist()]
    names = _folder_names(dataset.classes)
    files = [f"{row:05}" for row in rows.tolist()] if dataset.ids is None else dataset.ids[rows].tolist()
    return [f"{names[label]}/{file}.png" for label, file in zip(dataset.labels[rows].tolist(), files, strict=True)]


def _inside(name: str) -> str:
    """A path from a list; raises where it leads out of the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"cannot write {name}: the path of an image must stay below the folder")
    return name


def _write_tables(dataset: Dataset, rows: np.ndarray, paths: list[str], folder: Path) -> None:
    """Write items.csv, and queries.csv if the images have phases."""
    assert dataset.ids is not None
    classes, coarse_classes = np.array(dataset.classes), np.array(dataset.coarse_classes)
    columns = {"id": dataset.ids[rows]}
    if dataset.identities is not None:
        columns["identity"] = dataset.identities[rows]
    if dataset.coarse is None:
        columns["category"] = classes[dataset.labels[rows]]
    else:
        columns |= {"category": coarse_classes[dataset.coarse[rows]], "subcategory": classes[dataset.labels[rows]]}
    columns |= {"path": np.array(paths)} | {name: values[rows] for name, values in dataset.columns.items()}
    write_csv(folder / ITEMS, {name: values.tolist() for name, values in columns.items()})
    if PHASE in columns:
        queries = columns[PHASE] == "query"
        write_csv(folder / QUERIES, {name: values[queries].tolist() for name, values in columns.items()})


def _write(dataset: Dataset, files: dict[int, Path]) -> None:
    """Write the image of each row to its file."""
    Image = pillow()  # noqa: N806

    def save(row: int) -> None:
        with naming(files[row]):
            if dataset.boxes is None:
                Image.fromarray(dataset.images[row]).save(files[row])
            else:
                with Image.open(dataset.paths[row]) as image:
                    cut(upright(image), dataset.boxes[row]).save(files[row], "JPEG", quality=95, subsampling=0)

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
