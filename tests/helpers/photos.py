"""Small images in a folder, and what a study that is made of them holds."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from lookalike.cli import main
from lookalike.study.image_files import read_files


def picture(seed: int, size: tuple[int, int] = (24, 20)) -> np.ndarray:
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return np.asarray(Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC))


def write(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(seed)).save(path)
    return path


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder with a hash of what is in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def states(study: Path) -> dict[str, tuple[str, str]]:
    return {name: (file.state, file.reason) for name, file in read_files(study / "images.csv").items()}


def command(*arguments: str) -> int:
    try:
        main([*arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def labelled(photos: Path, tmp_path: Path, table: dict[str, list[Any]], suffix: str) -> Path:
    path = tmp_path / f"labels{suffix}"
    if suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([table, *zip(*table.values(), strict=True)])
    else:
        pq.write_table(pa.table(table), path)
    return path
