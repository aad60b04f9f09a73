"""Small galleries in shards, and questions to them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lookalike as la
from lookalike.shards.gallery import ShardPart, Shards
from lookalike.shards.writer import ShardWriter

Array = NDArray[Any]
N_BITS = (1, 7, 8, 9, 12, 63, 64, 65, 200)


def random_codes(n: int, n_bits: int = 12, seed: int = 0) -> la.Codes:
    return la.Codes.pack(np.random.default_rng(seed).integers(0, 2, (n, n_bits)))


def written(folder: Path, arrays: dict[str, Array], *, n_bits: int | None = None, rows: int | None = None) -> Shards:
    with ShardWriter(folder, n_bits=n_bits, rows=rows) as writer:
        writer.add(arrays)
    return Shards.open(folder)


def small(folder: Path, **columns: Array) -> Shards:
    """Twenty codes of 12 bits in four shards, with labels and ids."""
    arrays = {"codes": random_codes(20).to_bytes(), "labels": np.arange(20) % 4, "ids": np.arange(100, 120)}
    return written(folder, arrays | columns, n_bits=12, rows=5)


def read_all(gallery: Shards, *columns: str) -> tuple[list[ShardPart], dict[str, Array]]:
    parts = [gallery.read(number, columns) for number in range(len(gallery.shards))]
    return parts, {name: np.concatenate([part.values[name] for part in parts]) for name in columns}


QUERIES = random_codes(4, seed=1)
LABELS = [0, 1, 2, 3]


def by_label(gallery: Shards) -> Any:
    return la.same_label(LABELS, gallery["labels"])


def evaluated(gallery: Shards, **options: Any) -> la.Evaluation:
    return la.evaluate(QUERIES, gallery, la.same_label(np.arange(4), gallery["labels"]), ["AP"], **options)


def says(error: type[Exception], path: Path | str, *words: str) -> Any:
    """One sentence of this kind that names the file, and has these words behind it."""
    return pytest.raises(error, match=r"^[^\n]*" + r"[^\n]*".join(map(re.escape, [str(path), *words])) + r"[^\n]*$")
