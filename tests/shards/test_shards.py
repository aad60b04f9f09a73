"""Galleries in shards: what is written is what is read."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lookalike as la
from helpers.small_shards import N_BITS, random_codes, read_all, small, written
from lookalike.core.column import Column
from lookalike.core.files import FORMAT
from lookalike.shards import writer
from lookalike.shards.gallery import MANIFEST, Shards
from lookalike.shards.writer import ShardWriter, rows_of_a_shard

Array = NDArray[Any]


@pytest.mark.parametrize("n_bits", N_BITS)
def test_codes_come_back(tmp_path: Path, n_bits: int) -> None:
    codes = random_codes(23, n_bits)
    gallery = written(tmp_path, {"codes": codes.to_bytes()}, n_bits=n_bits, rows=7)
    parts, _ = read_all(gallery)
    assert [len(part) for part in parts] == [7, 7, 7, 2]
    assert [(part.number, part.start) for part in parts] == [(0, 0), (1, 7), (2, 14), (3, 21)]
    for part in parts:
        assert part.vectors == codes[part.start : part.start + len(part)]
        assert part.values == {}
    assert (len(gallery), gallery.n_bits, gallery.vectors) == (23, n_bits, "codes")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 128])
def test_embeddings_come_back(tmp_path: Path, dtype: type, width: int) -> None:
    rows = np.random.default_rng(0).normal(size=(11, width)).astype(dtype)
    rows[3], rows[4, 0], rows[5, 0] = -0.0, np.finfo(dtype).tiny / 4, np.finfo(dtype).max
    gallery = written(tmp_path, {"embeddings": rows}, rows=4)
    parts, _ = read_all(gallery)
    assert [len(part) for part in parts] == [4, 4, 3]
    together = np.concatenate([part.vectors for part in parts])
    assert together.dtype == dtype
    assert together.tobytes() == rows.tobytes()  # not a bit is lost, not even of zeros
    assert (gallery.n_bits, gallery.vectors, gallery.width) == (None, "embeddings", width)


COLUMNS: dict[str, Array] = {
    "strings": np.array(["a", "", "ä longer näme", "猫", "b", "\n", "x" * 300, "0", "a"]),
    "objects": np.array(["a", "bb", "ccc", "", "d", "e", "f", "g", "h"], object),
    "ints": np.array([-(2**63), 2**63 - 1, 0, 1, 2, 3, 4, 5, 6]),
    "unsigned": np.array([2**64 - 1, 0, 1, 2, 3, 4, 5, 6, 7], np.uint64),
    "small": np.arange(9, dtype=np.uint8) * 31,
    "floats": np.array([0.1, -0.0, 1e-300, np.inf, 2, 3, 4, 5, 6]),
    "booleans": np.arange(9) % 2 == 0,
    "tags": np.eye(9, 5, dtype=bool),
    "byte tags": np.eye(9, 5, dtype=np.uint8),
    "int tags": np.eye(9, 5, dtype=np.int64),
    "attributes": np.array([["red", "", "a long one"]] * 5 + [["blue", "b", "c"]] * 4),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_back(tmp_path: Path, name: str) -> None:
    values = COLUMNS[name]
    gallery = written(tmp_path, {"codes": random_codes(9).to_bytes(), name: values}, n_bits=12, rows=4)
    _, found = read_all(gallery, name)
    np.testing.assert_array_equal(found[name], values)
    same = values.dtype.kind == found[name].dtype.kind or name in ("objects", "small", "attributes")
    assert same, (values.dtype, found[name].dtype)
    assert gallery[name] == Column(name)
    assert all(gallery.read(number).values == {} for number in range(3))  # what is not asked for is not read


@given(st.data())
@settings(max_examples=25)
def test_batches_of_any_size_fill_shards_of_one_size(data: st.DataObject) -> None:
    n, rows = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 25))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))  # empty batches among them
    codes, labels = random_codes(n), np.arange(n)
    ids = np.array([f"{'long ' * (i % 3)}{i}" for i in range(n)])
    with tempfile.TemporaryDirectory() as folder:
        with ShardWriter(folder, n_bits=12, rows=rows) as writer:
            for start, end in zip([0, *cuts], [*cuts, n], strict=True):
                batch = slice(start, end)
                writer.add({"codes": codes.to_bytes()[batch], "labels": labels[batch], "ids": ids[batch].astype(str)})
        gallery = Shards.open(folder)
        assert [shard.rows for shard in gallery.shards] == [rows] * (n // rows) + [n % rows] * (n % rows > 0)
        parts, found = read_all(gallery, "labels", "ids")
    np.testing.assert_array_equal(found["labels"], labels)
    np.testing.assert_array_equal(found["ids"], ids)
    assert all(part.vectors == codes[part.start : part.start + len(part)] for part in parts)


def test_how_many_rows_a_shard_has_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_of_a_shard(np.zeros((1, 8), np.uint8)) == 1 << 20
    assert rows_of_a_shard(np.zeros((1, 2048), np.float32)) == 1 << 13  # 64 MB
    assert rows_of_a_shard(np.zeros((1, 1 << 25))) == 1
    assert rows_of_a_shard(np.zeros((1, 0))) == 1 << 20
    monkeypatch.setattr(writer, "MOST_BYTES", 100)
    gallery = written(tmp_path / "bytes", {"embeddings": np.ones((40, 2))})
    assert [shard.rows for shard in gallery.shards] == [6] * 6 + [4]
    monkeypatch.setattr(writer, "MOST_ROWS", 5)
    gallery = written(tmp_path / "rows", {"embeddings": np.ones((12, 2))})
    assert [shard.rows for shard in gallery.shards] == [5, 5, 2]


def test_a_stream_is_never_in_memory(tmp_path: Path) -> None:
    """Of forty batches, those of the shard that is being filled; and a batch of many shards is written at once."""
    written(tmp_path / "before", {"embeddings": np.ones((5, 64))})  # what is loaded when it is first needed
    tracemalloc.start()
    try:
        with ShardWriter(tmp_path / "small", rows=2500) as writer:
            for number in range(40):
                writer.add({"embeddings": np.full((1000, 64), number, float)})  # half a megabyte
                assert len(list((tmp_path / "small").glob("*.parquet"))) == (number + 1) * 1000 // 2500
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 2500 * 64 * 8 < most < 6 * 2500 * 64 * 8  # of sixteen shards
    with ShardWriter(tmp_path / "large", rows=25) as writer:
        writer.add({"embeddings": np.ones((500, 2))})
        assert len(list((tmp_path / "large").glob("*.parquet"))) == 20


def test_the_manifest_says_what_is_there(tmp_path: Path) -> None:
    gallery = small(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert (manifest["lookalike"], manifest["format"], manifest["version"]) == ("shards", FORMAT, la.__version__)
    assert (manifest["items"], manifest["n_bits"]) == (20, 12)
    assert manifest["columns"] == {"codes": "fixed_size_binary[2]", "labels": "int64", "ids": "int64"}
    assert manifest == gallery.manifest
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, *(f"part-0000{i}.parquet" for i in range(4))}
    for number, shard in enumerate(manifest["shards"]):
        content = (tmp_path / f"part-0000{number}.parquet").read_bytes()
        assert shard == {
            "file": f"part-0000{number}.parquet",
            "rows": 5,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }


def test_others_can_read_shards(tmp_path: Path) -> None:
    small(tmp_path)
    table = pq.read_table(tmp_path / "part-00001.parquet")
    assert table["labels"].to_pylist() == [1, 2, 3, 0, 1]
    assert table["codes"].to_pylist() == [bytes(row) for row in random_codes(20).to_bytes()[5:10]]
    assert la.Codes.load(tmp_path / "part-00001.parquet") == random_codes(20)[5:10]  # each is a gallery of its own


def test_the_same_rows_make_the_same_shards(tmp_path: Path) -> None:
    one, two = (small(tmp_path / name) for name in ("one", "two"))
    assert one.shards == two.shards
    assert one.digest == two.digest != small(tmp_path / "three", labels=np.arange(20)).digest
    same_rows = {"codes": random_codes(20).to_bytes(), "labels": np.arange(20) % 4, "ids": np.arange(100, 120)}
    assert written(tmp_path / "four", same_rows, n_bits=12, rows=6).digest != one.digest


def test_a_gallery_shows_itself(tmp_path: Path) -> None:
    gallery = small(tmp_path / "codes")
    assert repr(gallery) == "Shards(20 codes of 12 bits in 4 shards, with labels, ids)"
    assert repr(gallery["ids"]) == "Column('ids')"
    vectors = written(tmp_path / "vectors", {"embeddings": np.ones((2, 3), np.float32)})
    assert repr(vectors) == "Shards(2 embeddings, fixed_size_list<item: float>[3], in 1 shards)"
    assert la.Shards is Shards


def test_a_gallery_goes_to_other_processes_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    gallery = Shards.open("here")
    sent = pickle.loads(pickle.dumps(gallery))
    monkeypatch.chdir("/")
    assert sent.read(2).vectors == random_codes(20)[10:15]
    assert sent.manifest == gallery.manifest
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert Shards.open(tmp_path / "there").digest == gallery.digest
    assert Shards.open(f"file://{tmp_path}/there/").read(0).vectors == random_codes(20)[:5]


def test_a_gallery_written_again_is_the_new_one(tmp_path: Path) -> None:
    small(tmp_path)
    codes = random_codes(7, 9)
    gallery = written(tmp_path, {"codes": codes.to_bytes()}, n_bits=9, rows=4)
    parts, _ = read_all(gallery)
    assert [part.vectors for part in parts] == [codes[:4], codes[4:]]
    assert (len(gallery), gallery.columns) == (7, {"codes": "fixed_size_binary[2]"})
    gallery.check()
