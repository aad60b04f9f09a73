"""Manifests and shards that are missing, cut short, replaced or wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookalike as la
from helpers.small_shards import evaluated, random_codes, says, small, written
from lookalike.core.files import FORMAT
from lookalike.shards.gallery import MANIFEST, Shards
from lookalike.shards.writer import ShardWriter

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
    "a column of no type": (lambda manifest: manifest["columns"].update(labels={}), "is damaged: it does not say"),
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
