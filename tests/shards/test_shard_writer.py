"""Rows that cannot be written to shards, or not be read again, are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from helpers.small_shards import read_all, says
from lookalike.shards.gallery import MANIFEST, Shards
from lookalike.shards.writer import ShardWriter

Array = NDArray[Any]


def test_a_writer_that_fails_leaves_no_manifest(tmp_path: Path) -> None:
    def fail() -> None:
        with ShardWriter(tmp_path, rows=2) as writer:
            writer.add({"embeddings": np.ones((5, 2))})
            raise KeyError("something else")

    with pytest.raises(KeyError, match="something else"):
        fail()
    assert not (tmp_path / MANIFEST).exists()
    with says(FileNotFoundError, tmp_path, "lookalike shard makes one"):
        Shards.open(tmp_path)


def batches(*given: dict[str, Array], n_bits: int | None = None, rows: int | None = 2) -> Callable[[Path], Any]:
    def write(folder: Path) -> None:
        with ShardWriter(folder, n_bits=n_bits, rows=rows) as writer:
            for arrays in given:
                writer.add(arrays)

    return write


ONES = np.ones((2, 2))
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no rows at all": (batches(), "there is nothing to write: a gallery has at least one item"),
    "an empty batch alone": (batches({"embeddings": ONES[:0]}), "there is nothing to write"),
    "no embeddings": (batches({"vectors": ONES}), "must have embeddings"),
    "codes for embeddings": (batches({"codes": ONES}), "must have embeddings"),
    "embeddings for codes": (batches({"embeddings": ONES}, n_bits=8), "must have codes"),
    "no arrays": (batches({}), "must have embeddings"),
    "labels too few": (batches({"embeddings": ONES, "labels": np.ones(1)}), "as many values of everything else"),
    "a column less": (
        batches({"embeddings": ONES, "labels": np.ones(2)}, {"embeddings": ONES}, rows=4),
        "all rows of shards must have the same columns",
    ),
    "a column less in another shard": (
        batches({"embeddings": ONES, "labels": np.ones(2)}, {"embeddings": ONES}),
        "all rows of shards must have the same columns",
    ),
    "a column more in another shard": (
        batches({"embeddings": ONES}, {"embeddings": ONES, "labels": np.ones(2)}),
        "all rows of shards must have the same columns",
    ),
    "other numbers in another shard": (
        batches({"embeddings": ONES}, {"embeddings": ONES.astype(np.float32)}),
        "column 'embeddings' changes on the way, from fixed_size_list<item: double>",
    ),
    "another width in another shard": (
        batches({"embeddings": ONES}, {"embeddings": np.ones((2, 3))}),
        "column 'embeddings' changes on the way",
    ),
    "words for numbers in another shard": (
        batches({"embeddings": ONES, "x": np.ones(2)}, {"embeddings": ONES, "x": np.array(["a", "b"])}),
        "column 'x' changes on the way, from double to string",
    ),
    "rows of nothing": (batches(rows=0), "rows must be a whole number from 1, got 0"),
    "rows below zero": (batches(rows=-1), "rows must be a whole number from 1, got -1"),
    "half a row": (batches(rows=2.5), "rows must be a whole number from 1, got 2.5"),  # type: ignore[arg-type]
    "true rows": (batches(rows=True), "rows must be a whole number from 1, got True"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused(tmp_path: Path, case: str) -> None:
    write, words = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        write(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / MANIFEST).exists()


UNREFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another width in the same shard": (
        batches({"embeddings": ONES}, {"embeddings": np.ones((2, 3))}, rows=4),
        "embeddings",
    ),
    "words for numbers in the same shard": (
        batches({"embeddings": ONES, "x": np.ones(2)}, {"embeddings": ONES, "x": np.array(["a", "b"])}, rows=4),
        "'x'",
    ),
    "other whole numbers in the same shard": (
        batches(
            {"embeddings": ONES, "x": np.array([2**63 + 1, 2], np.uint64)},
            {"embeddings": ONES, "x": np.array([-1, 1])},
            rows=4,
        ),
        "'x'",
    ),
    "other floats in the same shard": (
        batches({"embeddings": ONES}, {"embeddings": ONES.astype(np.float32)}, rows=4),
        "'embeddings'",
    ),
    "bytes too few for the bits": (batches({"codes": np.ones((2, 1), np.uint8)}, n_bits=9), "9 bits"),
    "bits that were not packed": (batches({"codes": np.ones((2, 8), np.uint8)}, n_bits=8), "8 bits"),
    "bits beyond the last": (batches({"codes": np.full((2, 1), 255, np.uint8)}, n_bits=7), "7"),
    "codes that are not bytes": (batches({"codes": np.ones((2, 1), np.int64)}, n_bits=8), "uint8"),
    "codes in a row": (batches({"codes": np.ones(2, np.uint8)}, n_bits=8), "codes"),
    "embeddings in a row": (batches({"embeddings": np.ones(2)}), "embeddings"),
    "words for embeddings": (batches({"embeddings": np.array([["a", "b"]])}), "embeddings"),
    "embeddings without columns": (batches({"embeddings": np.ones((2, 0))}), "column"),
    "empty values": (batches({"embeddings": ONES, "x": np.array(["a", None], object)}), "'x'"),
    "words and numbers in one array": (batches({"embeddings": ONES, "x": np.array(["a", 1], object)}), "'x'"),
    "no number of bits": (batches({"codes": np.ones((2, 1), np.uint8)}, n_bits=0), "n_bits"),
}


@pytest.mark.parametrize("case", UNREFUSED)
def test_what_cannot_be_read_again_is_refused(tmp_path: Path, case: str) -> None:
    write, words = UNREFUSED[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(words)) as caught:
        write(tmp_path)
    assert not isinstance(caught.value, pa.ArrowException)
    assert "numpy" not in str(caught.value)
    assert "concatenation axis" not in str(caught.value)


NUMPY_WORDS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a list of words": (batches({"embeddings": ONES, "x": ["a", "b"]}), "'x'"),  # type: ignore[dict-item]
    "blocks in a column": (batches({"embeddings": ONES, "x": np.ones((2, 2, 2))}), "'x'"),
    "complex numbers in a column": (batches({"embeddings": ONES, "x": np.ones(2, complex)}), "'x'"),
    "a column without width": (batches({"embeddings": ONES, "x": np.ones((2, 0))}), "'x'"),
    "a shard without embeddings": (lambda folder: ShardWriter(folder).put(0, {"x": ONES}), "embeddings"),
    "a shard of other lengths": (
        lambda folder: ShardWriter(folder).put(0, {"embeddings": ONES, "x": np.ones(3)}),
        "as many values",
    ),
}


@pytest.mark.parametrize("case", NUMPY_WORDS)
def test_what_cannot_be_written_is_refused_in_words(tmp_path: Path, case: str) -> None:
    write, words = NUMPY_WORDS[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(words)) as caught:
        write(tmp_path)
    assert not isinstance(caught.value, pa.ArrowException)


def test_a_buffer_may_be_filled_again(tmp_path: Path) -> None:
    """As one who reads a file into the same array again and again."""
    buffer = np.zeros((3, 2))
    with ShardWriter(tmp_path, rows=5) as writer:
        for number in range(4):
            buffer[:] = number
            writer.add({"embeddings": buffer})
    parts, _ = read_all(Shards.open(tmp_path))
    found = np.concatenate([part.vectors for part in parts])[:, 0]
    np.testing.assert_array_equal(found, np.repeat(np.arange(4), 3))
