"""Galleries in shards on disk and in stores: what is written is read, and what is wrong is said in one sentence.

What a vacuous test would let pass: rows that come back because all lie in one shard (batches and shards are of sizes
that do not divide each other); a check that only works because an earlier one caught it (hashes and sizes in the
manifest are put right, so that the check behind them is reached); a sentence that does not name the file; a retry that
never retries (failures are counted, and the store's last answer is the one that is given).
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lookalike as la
from lookalike.core import retry
from lookalike.core.column import Column
from lookalike.core.files import FORMAT
from lookalike.shards import storage, writer
from lookalike.shards.gallery import MANIFEST, ShardPart, Shards
from lookalike.shards.storage import Location
from lookalike.shards.writer import ShardWriter, rows_of_a_shard

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


def evaluated(gallery: Shards, **options: Any) -> la.Evaluation:
    return la.evaluate(QUERIES, gallery, la.same_label(np.arange(4), gallery["labels"]), ["AP"], **options)


def says(error: type[Exception], path: Path | str, *words: str) -> Any:
    """One sentence of this kind that names the file, and has these words behind it."""
    return pytest.raises(error, match=r"^[^\n]*" + r"[^\n]*".join(map(re.escape, [str(path), *words])) + r"[^\n]*$")


# What is written is what is read


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


# Bad input of the writer


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


# Bad manifests


def changed_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what the manifest says; a change that gives something replaces it."""
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(change(manifest) or manifest))


def set_shard(**facts: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["shards"][1].update(facts)


def set_all(**facts: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest.update(facts)


NOT_OPENED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "of a later format": (set_all(format=FORMAT + 1, version="9.9"), "was written by lookalike 9.9, which is newer"),
    "of something else": (set_all(lookalike="tally"), "is not of a gallery in shards"),
    "of nobody": (lambda manifest: {"items": 3}, "is not of a gallery in shards"),
    "a list": (lambda manifest: [manifest], "is not of a gallery in shards"),
    "a number": (lambda manifest: 3, "is not of a gallery in shards"),
    "more items": (set_all(items=21), "is damaged: 21 items, but its shards have 20"),
    "fewer rows": (set_shard(rows=4), "is damaged: 20 items, but its shards have 19"),
    "a shard less": (lambda manifest: manifest["shards"].pop() and None, "20 items, but its shards have 15"),
    "a shard twice": (
        lambda manifest: manifest["shards"].append(manifest["shards"][0]),
        "is damaged: 20 items, but its shards have 25",
    ),
    "items of no number": (set_all(items=None), "is damaged: it does not say what the shards are"),
    "no items": (lambda manifest: manifest.pop("items") and None, "is damaged: it does not say what the shards are"),
    "no shards": (lambda manifest: manifest.pop("shards") and None, "is damaged: it does not say what the shards are"),
    "no columns": (lambda manifest: manifest.pop("columns") and None, "is damaged: it does not say"),
    "no bits": (lambda manifest: manifest.pop("n_bits") and None, "is damaged: it does not say"),
    "columns without types": (set_all(columns=["codes"]), "is damaged: it does not say what the shards are"),
    "a shard without hash": (
        lambda manifest: manifest["shards"][1].pop("sha256") and None,
        "is damaged: it does not say what the shards are",
    ),
    "a shard with more": (set_shard(more=1), "is damaged: it does not say what the shards are"),
}


@pytest.mark.parametrize("case", NOT_OPENED)
def test_a_manifest_that_is_wrong_is_not_opened(tmp_path: Path, case: str) -> None:
    change, words = NOT_OPENED[case]
    small(tmp_path)
    changed_manifest(tmp_path, change)
    with says(ValueError, tmp_path / MANIFEST, words):
        Shards.open(tmp_path)


STILL_OPENED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "rows that are words": lambda manifest: [shard.update(rows="5") for shard in manifest["shards"]] and None,
    "rows below zero": lambda manifest: (
        [shard.update(rows=rows) for shard, rows in zip(manifest["shards"], (-5, 15, 5, 5), strict=True)] and None
    ),
    "bits that are a word": set_all(n_bits="12"),
    "bits that are true": set_all(n_bits=True),
    "no bits of codes": set_all(n_bits=0),
    "codes called embeddings": set_all(n_bits=None),
    "no codes among the columns": set_all(columns={"labels": "int64", "ids": "int64"}),
    "bytes that are a word": set_shard(bytes="many"),
    "a file without name": set_shard(file=3),
    "one file for all": lambda manifest: manifest.update(shards=[manifest["shards"][0]] * 4),
    "no shard, no items": set_all(items=0, shards=[]),
}


@pytest.mark.parametrize("case", STILL_OPENED)
def test_a_manifest_that_makes_no_sense_is_not_used(tmp_path: Path, case: str) -> None:
    small(tmp_path)
    changed_manifest(tmp_path, STILL_OPENED[case])
    with says(ValueError, tmp_path / MANIFEST):
        evaluated(Shards.open(tmp_path))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b'{"items": 1', b"PAR1"])
def test_a_manifest_that_is_not_json(tmp_path: Path, content: bytes) -> None:
    small(tmp_path)
    (tmp_path / MANIFEST).write_bytes(content)
    with says(ValueError, tmp_path / MANIFEST, "is not a JSON file in UTF-8: "):
        Shards.open(tmp_path)


def test_where_no_gallery_is(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("text")
    for where in (tmp_path, tmp_path / "nowhere", tmp_path / "a file", str(tmp_path / "nowhere")):
        with says(FileNotFoundError, f"there is no {MANIFEST} in", str(where), "lookalike shard makes one"):
            Shards.open(where)


# Bad shards


def test_a_shard_that_is_missing(tmp_path: Path) -> None:
    gallery = small(tmp_path)
    path = tmp_path / "part-00002.parquet"
    path.unlink()
    with says(FileNotFoundError, path, "is missing: it is one of 4 shards"):
        evaluated(gallery)
    with says(FileNotFoundError, path, "is missing: it is one of 4 shards"):
        gallery.read(2)


def test_a_shard_that_is_cut_short(tmp_path: Path) -> None:
    gallery = small(tmp_path)
    path = tmp_path / "part-00002.parquet"
    content = path.read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with says(ValueError, path, f"has {size:,} bytes, the manifest says {len(content):,}", "cut short"):
            evaluated(gallery)
        with says(ValueError, path, "is cut short"):
            gallery.read(2)
    path.write_bytes(content + b"more")
    with says(ValueError, path, f"has {len(content) + 4:,} bytes, the manifest says {len(content):,}"):
        evaluated(gallery)


def test_nothing_is_read_before_all_files_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = small(tmp_path)
    (tmp_path / "part-00003.parquet").unlink()
    read: list[int] = []
    monkeypatch.setattr(Shards, "read", lambda self, number, columns: read.append(number))
    with pytest.raises(FileNotFoundError):
        evaluated(gallery)
    assert read == []


def test_a_shard_replaced_by_another(tmp_path: Path) -> None:
    """A valid one, of the same size to the byte, with other codes, or that of another number."""
    gallery = small(tmp_path / "one")
    other = {"codes": random_codes(20, seed=9).to_bytes(), "labels": np.arange(20) % 4, "ids": np.arange(100, 120)}
    written(tmp_path / "two", other, n_bits=12, rows=5)
    path = tmp_path / "one" / "part-00001.parquet"
    before = path.stat().st_size
    shutil.copyfile(tmp_path / "two" / "part-00001.parquet", path)
    assert path.stat().st_size == before
    gallery.check()
    for call in (lambda: gallery.read(1), lambda: evaluated(gallery)):
        with says(ValueError, path, "is not the file that the manifest has the hash of"):
            call()


def test_one_wrong_bit_of_a_shard(tmp_path: Path) -> None:
    gallery = small(tmp_path)
    path = tmp_path / "part-00001.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with says(ValueError, path, "is not the file that the manifest has the hash of"):
        evaluated(gallery)


def replaced(folder: Path, number: int, content: bytes) -> Shards:
    """A gallery in which one shard is something else, and the manifest has its size and hash: checks behind these."""
    path = folder / f"part-{number:05}.parquet"
    path.write_bytes(content)
    facts = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    changed_manifest(folder, lambda manifest: manifest["shards"][number].update(facts))
    return Shards.open(folder)


def rewritten(folder: Path, change: Callable[[pa.Table], pa.Table]) -> Shards:
    """A gallery whose shard 1 is changed."""
    table = change(pq.read_table(folder / "part-00001.parquet"))
    pq.write_table(table, folder / "part-00001.parquet")
    return replaced(folder, 1, (folder / "part-00001.parquet").read_bytes())


def with_codes(values: Any, kind: Any = None) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(0, "codes", pa.array(values, kind))


def with_labels(values: Any) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(1, "labels", pa.array(values))


def with_bits(n_bits: int) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.replace_schema_metadata(
        {"lookalike": json.dumps({"lookalike": "shard", "n_bits": n_bits})}
    )


NOT_READ: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "codes of other bits": (with_bits(11), "has codes of 11 bits, the manifest says 12"),
    "no codes": (lambda table: table.drop_columns(["codes"]), "has no column 'codes', which the manifest says it has"),
    "no labels": (lambda table: table.drop_columns(["labels"]), "has no column 'labels', which the manifest says"),
    "a row less": (lambda table: table.slice(0, 4), "has 4 rows, the manifest says 5"),
    "a row more": (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "has 6 rows, the manifest says 5"),
    "no rows": (lambda table: table.slice(0, 0), "has 0 rows, the manifest says 5"),
    "empty codes": (with_codes([b"12"] * 4 + [None], pa.binary(2)), "has 1 empty values"),
    "empty labels": (with_labels([1, 2, None, 3, None]), "has 2 empty values"),
    "longer codes": (with_codes([b"123"] * 5, pa.binary(3)), "has codes of "),
    "codes as lists of bits": (with_codes([[1] * 12] * 5), "has codes of "),
}


@pytest.mark.parametrize("case", NOT_READ)
def test_a_shard_that_is_not_what_the_manifest_says(tmp_path: Path, case: str) -> None:
    change, words = NOT_READ[case]
    small(tmp_path)
    gallery = rewritten(tmp_path, change)
    gallery.check()
    with says(ValueError, tmp_path / "part-00001.parquet", words):
        evaluated(gallery)
    assert gallery.read(0).vectors == random_codes(20)[:5]  # the others are as they were


WRONG_VALUES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "codes that are one number each": with_codes(range(5)),
    "codes that are words": with_codes(list("abcde")),
    "codes that are lists of numbers": with_codes([[1, 2]] * 5),
    "bits beyond the last": with_codes([b"\xff\xff"] * 5, pa.binary(2)),
    "labels that are words": with_labels(list("abcde")),
    "labels that are fractions": with_labels([0.5] * 5),
    "labels that are lists": with_labels([[1, 2]] * 5),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_values_that_make_no_sense_are_said_to_be_in_their_file(tmp_path: Path, case: str) -> None:
    small(tmp_path)
    gallery = rewritten(tmp_path, WRONG_VALUES[case])
    with says(ValueError, tmp_path / "part-00001.parquet"):
        evaluated(gallery)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_embeddings_that_are_no_numbers_are_said_to_be_in_their_file(tmp_path: Path, value: float) -> None:
    rows = np.random.default_rng(0).normal(size=(10, 2))
    rows[7] = value
    gallery = written(tmp_path, {"embeddings": rows, "labels": np.arange(10)}, rows=4)
    with says(ValueError, tmp_path / "part-00001.parquet"):
        la.evaluate(rows[:4], gallery, la.same_label(np.arange(4), gallery["labels"]), ["AP"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([[1.0, 2.0, 3.0]] * 5, pa.list_(pa.float64(), 3)), "3 × float64, the manifest says 2 × float64"),
        (pa.array([[1.0, 2.0]] * 5, pa.list_(pa.float32(), 2)), "2 × float32, the manifest says 2 × float64"),
        (pa.array([[1, 2]] * 5), "2 × int64, the manifest says 2 × float64"),
        (pa.array([1.0] * 5), "embeddings of float64, the manifest says fixed_size_list"),
        (pa.array(["a"] * 5), "embeddings of <U1, the manifest says fixed_size_list"),
    ],
)
def test_a_shard_of_other_embeddings(tmp_path: Path, values: pa.Array, words: str) -> None:
    rows = np.random.default_rng(0).normal(size=(10, 2))
    gallery = written(tmp_path, {"embeddings": rows, "labels": np.arange(10)}, rows=5)
    gallery = rewritten(tmp_path, lambda table: table.set_column(0, "embeddings", values))
    with says(ValueError, tmp_path / "part-00001.parquet", words):
        la.evaluate(rows[:4], gallery, la.same_label(np.arange(4), gallery["labels"]), ["AP"])


@pytest.mark.parametrize("content", [b"PAR1PAR1", b"not Parquet", b"", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_shard_that_is_no_parquet_file(tmp_path: Path, content: bytes) -> None:
    small(tmp_path)
    gallery = replaced(tmp_path, 1, content)
    with says(ValueError, tmp_path / "part-00001.parquet", "is not a readable Parquet file"):
        evaluated(gallery)


@pytest.mark.parametrize("what", ["codes", "embeddings"])
def test_a_shard_without_rows_is_refused(tmp_path: Path, what: str) -> None:
    vectors = random_codes(6).to_bytes() if what == "codes" else np.random.default_rng(0).normal(size=(6, 3))
    arrays = {what: vectors, "labels": np.arange(6) % 2}
    writer = ShardWriter(tmp_path, n_bits=12 if what == "codes" else None)
    writer.put(0, arrays)
    with pytest.raises(ValueError, match="a shard has at least one row"):
        writer.put(1, {name: array[:0] for name, array in arrays.items()})


# Bad questions


VECTORS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0], [7.0, 1.0]])
LABELS = [0, 1, 2, 3]


def by_label(gallery: Shards) -> Any:
    return la.same_label(LABELS, gallery["labels"])


ASKED: dict[str, tuple[type[Exception], Callable[[Shards], Any], str]] = {
    "queries of other bits": (
        ValueError,
        lambda gallery: la.evaluate(random_codes(4, 13), gallery, by_label(gallery)),
        "gallery codes have 12 bits, queries have 13",
    ),
    "embeddings of codes": (
        TypeError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery)),
        "queries and gallery must both be Codes or both embeddings",
    ),
    "no queries": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES[:0], gallery, la.same_label([], gallery["labels"])),
        "there are no queries",
    ),
    "labels of fewer queries": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label([0, 1, 2], gallery["labels"])),
        "relevance is for 3 queries",
    ),
    "labels of fewer items": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label(LABELS, np.arange(19))),
        "relevance is for 4 queries and 19 items, but there are 4 queries and 20 items",
    ),
    "labels of one shard": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label(LABELS, np.arange(5))),
        "relevance is for 4 queries and 5 items, but there are 4 queries and 20 items",
    ),
    "grades of more items": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.grades(np.ones((4, 21), int))),
        "relevance is for 4 queries and 21 items, but there are 4 queries and 20 items",
    ),
    "no relevance": (
        TypeError,
        lambda gallery: la.evaluate(QUERIES, gallery, "labels"),  # type: ignore[arg-type]
        "relevance must come from la.same_label",
    ),
    "a column that is not there": (KeyError, lambda gallery: gallery["label"], "has no column 'label', only codes,"),
    "relevance of a column that is not there": (
        KeyError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.same_label(LABELS, Column("label"))),
        "has no column 'label', only codes, labels, ids",
    ),
    "ids of a column that is not there": (
        KeyError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.judged([(0, 1, 1)]), gallery_ids=Column("id")),
        "has no column 'id', only codes, labels, ids",
    ),
    "groups of a column that is not there": (
        KeyError,
        lambda gallery: evaluated(gallery, exclude=(LABELS, Column("group"))),
        "has no column 'group', only codes, labels, ids",
    ),
    "ids in an array": (
        TypeError,
        lambda gallery: evaluated(gallery, gallery_ids=np.arange(20)),
        "ids of a gallery in shards are a column of it: gallery_ids=shards['ids']",
    ),
    "too few ids of queries": (ValueError, lambda gallery: evaluated(gallery, query_ids=[1, 2]), "must be 4 ids"),
    "columns and values": (
        TypeError,
        lambda gallery: la.hierarchy((LABELS, LABELS), (gallery["labels"], np.arange(20))),
        "either all values of the gallery are columns of shards or none is",
    ),
    "groups of fewer queries": (
        ValueError,
        lambda gallery: evaluated(gallery, exclude=([0, 1], gallery["ids"])),
        "exclude has groups of 2 queries, but there are 4",
    ),
    "groups of fewer items": (
        ValueError,
        lambda gallery: evaluated(gallery, exclude=(LABELS, np.arange(19))),
        "exclude has groups of 4 queries and 19 items, but there are 4 and 20",
    ),
    "itself by position": (ValueError, lambda gallery: evaluated(gallery, exclude="self"), "4 queries are not the 20"),
    "another word": (ValueError, lambda gallery: evaluated(gallery, exclude="me"), "or 'self', got 'me'"),
    "three groups": (TypeError, lambda gallery: evaluated(gallery, exclude=(1, 2, 3)), "or 'self'"),
    "products": (ValueError, lambda gallery: evaluated(gallery, level="product"), "use relevance.inherited"),
    "a similarity of codes": (ValueError, lambda gallery: evaluated(gallery, similarity="dot"), "Hamming distance"),
    "no threads": (ValueError, lambda gallery: evaluated(gallery, threads=0), "threads must be a whole number from 1"),
    "a method": (
        ValueError,
        lambda gallery: la.count(QUERIES, gallery, by_label(gallery), method="scan"),
        "how shards are counted is chosen by itself, got method='scan'",
    ),
    "negatives of labels": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, by_label(gallery), ["AUC(negatives='sampled')"]),
        "negatives='sampled' is for judged pairs",
    ),
    "judgements of others": (
        ValueError,
        lambda gallery: la.evaluate(QUERIES, gallery, la.judged([("x", 1, 1)])),
        "no judgement is about any of the queries",
    ),
    # columns where no shards are
    "labels of shards in memory": (
        TypeError,
        lambda gallery: la.evaluate(QUERIES, random_codes(20), by_label(gallery)),
        "this relevance is of a gallery in shards: pass the la.Shards that its columns are of",
    ),
    "labels of shards with embeddings": (
        TypeError,
        lambda gallery: la.evaluate(VECTORS, VECTORS, by_label(gallery)),
        "this relevance is of a gallery in shards",
    ),
    "labels of shards with scores": (
        TypeError,
        lambda gallery: la.evaluate_scores(VECTORS, by_label(gallery)),
        "this relevance is of a gallery in shards",
    ),
    "ids of shards in memory": (
        ValueError,
        lambda gallery: la.evaluate(
            QUERIES, random_codes(20), la.same_label(LABELS, np.arange(20)), gallery_ids=gallery["ids"]
        ),
        "gallery_ids must be 20 ids",
    ),
    "groups of shards in memory": (
        ValueError,
        lambda gallery: la.evaluate(
            QUERIES, random_codes(20), la.same_label(LABELS, np.arange(20)), exclude=(LABELS, gallery["ids"])
        ),
        "groups to exclude must be one for each item",
    ),
    "partials in memory": (
        ValueError,
        lambda _: la.evaluate(QUERIES, QUERIES, la.same_label(LABELS, LABELS), partials="a folder"),
        "client and partials are for a gallery in shards",
    ),
    "a client in memory": (
        ValueError,
        lambda _: la.evaluate(QUERIES, QUERIES, la.same_label(LABELS, LABELS), client=object()),
        "client and partials are for a gallery in shards",
    ),
    "partials of a count in memory": (
        ValueError,
        lambda _: la.count(QUERIES, QUERIES, la.same_label(LABELS, LABELS), partials="a folder"),
        "client and partials are for a gallery in shards",
    ),
}


@pytest.mark.parametrize("case", ASKED)
def test_what_cannot_be_asked(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is said before a shard is read, where it can be known."""
    error, ask, words = ASKED[case]
    gallery = small(tmp_path)
    read: list[int] = []
    real = Shards.read
    monkeypatch.setattr(Shards, "read", lambda self, number, *more: [read.append(number), real(self, number, *more)][1])
    with pytest.raises(error, match=re.escape(words)) as caught:
        ask(gallery)
    assert "\n" not in str(caught.value)
    assert read == [] or case == "judgements of others"


OF_EMBEDDINGS: dict[str, tuple[type[Exception], Callable[[Shards], Any], str]] = {
    "other columns": (
        ValueError,
        lambda gallery: la.evaluate(np.ones((4, 3)), gallery, by_label(gallery)),
        "gallery embeddings have 2 columns, queries have 3",
    ),
    "codes of embeddings": (
        TypeError,
        lambda gallery: la.evaluate(QUERIES, gallery, by_label(gallery)),
        "queries and gallery must both be Codes or both embeddings",
    ),
    "a similarity that is none": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), similarity="hamming"),
        "similarity must be one of 'cosine', 'dot', 'euclidean'",
    ),
    "nan in queries": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS * np.nan, gallery, by_label(gallery)),
        "query embeddings hold nan, first in row 0, column 0",
    ),
    "a metric of codes": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), ["LGAP@1"]),
        "LGAP is a metric of codes",
    ),
    "a radius of cosines": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), ["P(radius=1)"]),
        "a radius needs a distance",
    ),
    "all pairs of all queries": (
        ValueError,
        lambda gallery: la.evaluate(VECTORS, gallery, by_label(gallery), ["AUC(average='micro')"]),
        "of embeddings in shards it is for judged pairs alone",
    ),
    "all pairs of all queries, judged or not": (
        ValueError,
        lambda gallery: la.evaluate(
            VECTORS, gallery, la.judged([(0, 1, 1)]), ["AUC(average='micro')"], unjudged="irrelevant"
        ),
        "of embeddings in shards it is for judged pairs alone",
    ),
    "a count with scores": (
        ValueError,
        lambda gallery: la.count(VECTORS, gallery, by_label(gallery)),
        "counted without the score of every item: pass scores=False",
    ),
    "a count with a radius": (
        ValueError,
        lambda gallery: la.count(VECTORS, gallery, by_label(gallery), scores=False, radius=1),
        "counted without the score of every item",
    ),
}


@pytest.mark.parametrize("case", OF_EMBEDDINGS)
def test_what_cannot_be_asked_of_embeddings(tmp_path: Path, case: str) -> None:
    error, ask, words = OF_EMBEDDINGS[case]
    gallery = written(tmp_path, {"embeddings": VECTORS, "labels": np.arange(4)}, rows=3)
    with pytest.raises(error, match=re.escape(words)) as caught:
        ask(gallery)
    assert "\n" not in str(caught.value)


def test_an_item_that_was_judged_is_in_one_shard(tmp_path: Path) -> None:
    ids = np.arange(20)
    ids[17] = 3
    gallery = small(tmp_path, ids=ids)
    relevance = la.judged([(1, 3, 1), (1, 4, 0)])
    with pytest.raises(ValueError, match="an item that was judged is in several shards: ids of a gallery must differ"):
        la.evaluate(QUERIES, gallery, relevance, ["AP"], gallery_ids=gallery["ids"], unjudged="irrelevant")
    unjudged = la.judged([(1, 4, 0)])
    la.evaluate(QUERIES, gallery, unjudged, ["AP"], gallery_ids=gallery["ids"], unjudged="irrelevant")


@pytest.mark.parametrize("case", ["in one shard", "where items are left out", "itself"])
def test_an_id_that_two_items_have(tmp_path: Path, case: str) -> None:
    """In memory it is refused; in shards one item counts as judged and the other does not."""
    ids = np.arange(20)
    ids[1 if case == "in one shard" else 17] = 3
    gallery = small(tmp_path, ids=ids)
    relevance = la.judged([(1, 3, 1), (1, 4, 0)])
    exclude = {"where items are left out": (LABELS, gallery["labels"]), "itself": "self"}.get(case)
    with pytest.raises(ValueError, match="must differ"):
        la.evaluate(
            QUERIES, gallery, relevance, ["AP"], gallery_ids=gallery["ids"], exclude=exclude, unjudged="irrelevant"
        )


def test_partials_where_no_folder_can_be(tmp_path: Path) -> None:
    gallery = small(tmp_path / "gallery")
    (tmp_path / "a file").write_text("text")
    with says(ValueError, tmp_path / "a file"):
        evaluated(gallery, partials=tmp_path / "a file")


# Places


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    if request.param == "folder":
        yield Location.of(tmp_path / "not there yet" / "below")
        return
    import fsspec

    store = fsspec.filesystem("memory")
    yield Location.of("memory://lookalike-tests/below/")
    if store.exists("/lookalike-tests"):
        store.rm("/lookalike-tests", recursive=True)


def test_a_place_gives_what_it_was_given(place: Location) -> None:
    assert place.sizes(["a.bin", "b.bin"]) == {}
    assert not place.has("a.bin")
    with pytest.raises(FileNotFoundError):
        place.read("a.bin")
    content = bytes(range(256)) * 100
    place.write("a.bin", content)
    place.write("b.bin", b"")
    assert place.read("a.bin") == content
    assert place.read("b.bin") == b""
    assert place.sizes(["a.bin", "b.bin", "c.bin"]) == {"a.bin": 25_600, "b.bin": 0}
    assert place.has("a.bin")
    assert not place.has("c.bin")
    place.write("a.bin", b"less")
    assert place.read("a.bin") == b"less"
    assert pickle.loads(pickle.dumps(place)).read("a.bin") == b"less"


def test_a_gallery_in_a_store(place: Location) -> None:
    codes = random_codes(20)
    with ShardWriter(place.where, n_bits=12, rows=6) as writer:
        writer.add({"codes": codes.to_bytes(), "labels": np.arange(20) % 4})
    gallery = Shards.open(place.where)
    expected = la.evaluate(QUERIES, codes, la.same_label(LABELS, np.arange(20) % 4), ["AP", "LGAP@2"])
    for _ in range(2):
        found = la.evaluate(QUERIES, gallery, by_label(gallery), ["AP", "LGAP@2"], partials=f"{place.where}/partials")
        np.testing.assert_array_equal(found["AP"].per_query, expected["AP"].per_query)
        np.testing.assert_array_equal(found["LGAP@2"].per_query, expected["LGAP@2"].per_query)
    with pytest.raises(FileNotFoundError, match=f"there is no {MANIFEST} in {place}/nowhere"):
        Shards.open(f"{place.where}/nowhere")


def test_a_file_that_is_half_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Location.of(tmp_path)
    place.write("a.bin", b"before")

    def fail(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        place.write("a.bin", b"after")
    assert place.read("a.bin") == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_how_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("x").where == str(tmp_path / "x") == Location.of("./x/").where == Location.of(Path("x")).where
    assert Location.of(f"file://{tmp_path}/x") == Location.of(tmp_path / "x")
    assert Location.of("s3://bucket/x/") == Location.of("s3://bucket/x")
    assert Location.of(Location.of("x")) == Location.of("x")
    assert Location.of("x").local == tmp_path / "x"
    assert Location.of("s3://bucket/x").local is None


def test_secrets_are_not_shown() -> None:
    for address in (
        "s3://KEY:hush@bucket/gallery",
        "s3://KEY:hush@bucket/gallery?secret=hush&region=here",
        "s3://bucket/gallery?access_key=KEY&secret_key=hush",
        "memory://KEY:hush@nowhere/gallery",
    ):
        place = Location.of(address)
        assert "hush" not in str(place)
        assert "KEY" not in str(place)
        assert "gallery" in str(place)
        assert place.where == address
    for address in ("memory://KEY:hush@nowhere/gallery", "nosuchstore://KEY:hush@bucket/gallery?token=hush"):
        with pytest.raises((FileNotFoundError, ValueError)) as caught:
            Shards.open(address)
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("case", ["repr", "a slash", "an address that is none", "a store's words"])
def test_secrets_are_not_shown_anywhere(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def words() -> str:
        if case == "repr":
            return repr(Location.of("s3://KEY:hush@bucket/gallery"))
        if case == "a slash":
            return str(Location.of("s3://KEY:hu/hush@bucket/gallery"))
        place = Location.of("s3://KEY:hush@bu cket/gallery")
        if case == "a store's words":
            store = Flaky({}, 99, OSError("cannot reach s3://KEY:hush@bucket/gallery/a.bin"))
            monkeypatch.setattr(storage, "TRIES", 1)
            place = flaky(store, "s3://KEY:hush@bucket/gallery")
        try:
            place.read("a.bin")
        except (ValueError, OSError) as error:
            return str(error)
        return "hush: nothing was refused"

    assert "hush" not in words()


def test_secrets_are_not_logged(pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "lookalike")
    store = Flaky({"bucket/x/a.bin": b"hello"}, 1, OSError("cannot reach s3://KEY:hush@bucket/x/a.bin"))
    assert flaky(store).read("a.bin") == b"hello"
    assert "cannot reach" in caplog.text
    assert "hush" not in caplog.text


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="nosuchstore://bucket/x is at no store that is known here"):
        Location.of("nosuchstore://bucket/x").read("a.bin")
    with pytest.raises(ValueError, match="cannot be read as an address"):
        Location.of("s3://a bucket/x").read("a.bin")


class Flaky:
    """A store in memory, as pyarrow has them, that fails so many times before it answers."""

    def __init__(self, files: dict[str, bytes], fails: int, error: Exception) -> None:
        self.files, self.fails, self.error, self.asked = files, fails, error, 0

    def _answer(self) -> None:
        self.asked += 1
        if self.asked <= self.fails:
            raise self.error

    def open_input_file(self, path: str) -> Any:
        self._answer()
        if path not in self.files:
            raise FileNotFoundError(path)
        return pa.BufferReader(self.files[path])

    def open_output_stream(self, path: str) -> Any:
        self._answer()
        store = self

        class Stream:
            def __enter__(self) -> Stream:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def write(self, content: bytes) -> None:
                store.files[path] = content

        return Stream()

    def get_file_info(self, paths: Any) -> list[Any]:
        from pyarrow import fs

        self._answer()
        if isinstance(paths, fs.FileSelector):
            paths = [path for path in self.files if path.startswith(f"{paths.base_dir}/")]
        kinds = {True: fs.FileType.File, False: fs.FileType.NotFound}
        return [fs.FileInfo(path, kinds[path in self.files], size=len(self.files.get(path, b""))) for path in paths]


def flaky(store: Flaky, address: str = "s3://KEY:hush@bucket/x") -> Location:
    place = Location.of(address)
    place.__dict__["_store"] = (store, "bucket/x")  # where the connection is kept
    return place


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=slept.append))  # there alone: other threads go on
    return slept


@pytest.mark.parametrize("error", [OSError("500 slow down"), TimeoutError("no answer"), ConnectionResetError("reset")])
def test_a_store_is_asked_again(error: Exception, pauses: list[float]) -> None:
    for fails in range(storage.TRIES):
        files: dict[str, bytes] = {"bucket/x/a.bin": b"hello"}
        store = Flaky(files, fails, error)
        pauses.clear()
        assert flaky(store).read("a.bin") == b"hello"
        assert store.asked == fails + 1
        np.testing.assert_allclose(pauses, storage.PAUSE * 2.0 ** np.arange(fails))
        assert flaky(Flaky(files, fails, error)).sizes(["a.bin", "b.bin"]) == {"a.bin": 5}
        flaky(Flaky(files, fails, error)).write("b.bin", b"there")
        assert files["bucket/x/b.bin"] == b"there"


def test_a_store_that_never_answers_is_given_up(pauses: list[float]) -> None:
    for action, words in (
        (lambda place: place.read("a.bin"), "read s3://…@bucket/x/a.bin"),
        (lambda place: place.write("a.bin", b""), "write s3://…@bucket/x/a.bin"),
        (lambda place: place.has("a.bin"), "look into s3://…@bucket/x"),
    ):
        store = Flaky({}, 99, OSError("500\n slow   down"))
        with pytest.raises(OSError, match=f"^cannot {words} after {storage.TRIES} tries: 500 slow down$") as caught:
            action(flaky(store))
        assert "hush" not in str(caught.value)
        assert store.asked == storage.TRIES
    assert len(pauses) == 3 * (storage.TRIES - 1)


@pytest.mark.parametrize("word", storage.FINAL)
def test_a_store_that_has_answered_is_not_asked_again(word: str, pauses: list[float]) -> None:
    store = Flaky({}, 99, OSError(f"AWS Error {word} during GetObject: no"))
    with pytest.raises(OSError, match=f"^cannot read s3://…@bucket/x/a.bin: AWS Error {word}"):
        flaky(store).read("a.bin")
    assert (store.asked, pauses) == (1, [])


def test_a_file_that_is_not_there_is_not_asked_for_again(pauses: list[float]) -> None:
    store = Flaky({}, 0, OSError())
    with pytest.raises(FileNotFoundError):
        flaky(store).read("a.bin")
    assert (store.asked, pauses) == (1, [])


def test_a_gallery_in_a_store_that_fails_now_and_then(
    tmp_path: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third question fails, whoever asks: the numbers are the same."""
    local = small(tmp_path)
    expected = evaluated(local)
    files = {f"bucket/x/{path.name}": path.read_bytes() for path in tmp_path.iterdir()}
    store = Flaky(files, 0, OSError("500 slow down"))
    count = iter(range(10_000))

    def answer() -> None:
        if next(count) % 3 == 0:
            raise store.error

    monkeypatch.setattr(store, "_answer", answer)
    gallery = Shards(flaky(store), local.manifest)
    monkeypatch.setattr(Location, "_store", (store, "bucket/x"))
    found = evaluated(gallery, threads=2)
    np.testing.assert_array_equal(found["AP"].per_query, expected["AP"].per_query)
    assert len(pauses) >= 2
