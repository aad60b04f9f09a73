"""Damaged and dishonest files: whatever their bytes are, one sentence names the file, and no memory is taken for lies.

What a vacuous test would let pass: a reader that refuses everything (each kind of file is read before it is damaged);
an error that only comes because memory ran out (what is claimed here is far more than any machine has).
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookalike as la
from lookalike.core.files import read_arrays
from lookalike.core.npy import read_npy
from lookalike.datasets.archives import members
from lookalike.datasets.fashion_mnist import read_idx
from lookalike.discovery.formats import read_judgements, read_metadata
from lookalike.discovery.vote_log import append_votes, create_record, read_votes
from lookalike.discovery.votes import Votes
from lookalike.evaluation.item_files import read_items
from lookalike.shards.convert import shard_file
from lookalike.shards.gallery import MANIFEST, Shards
from lookalike.shards.writer import ShardWriter
from lookalike.study.study import Study

BITS = np.array([[0, 1, 1], [1, 0, 1]], np.uint8)
PLAIN = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }"

Read = Callable[[Path], Any]


def to_shards(path: Path) -> Any:
    return shard_file(path, path.parent / "shards", replace=True)


def told(read: Read, path: Path) -> str:
    """What is said of a file that cannot be read: one sentence with its name in it."""
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read(path)
    assert type(caught.value) is not UnicodeDecodeError
    assert "\n" not in str(caught.value)
    return str(caught.value)


# npy and npz


def npy(header: str | bytes = PLAIN, content: bytes = bytes(6), version: tuple[int, int] = (1, 0)) -> bytes:
    """An npy file with this header, whatever it says."""
    text = header if isinstance(header, bytes) else header.encode("latin1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes(version) + length + text + b"\n" + content


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members:
            made.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def header(**said: Any) -> str:
    return repr({"descr": "|u1", "fortran_order": False, "shape": (2, 3), **said})


HEADERS: dict[str, bytes] = {
    "nothing": b"",
    "no header": b"\x93NUMPY\x01\x00",
    "another version": npy(version=(9, 9)),
    "a header cut short": npy()[:40],
    "a header of four gigabytes": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(9),
    "a header that is no Python": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3"),
    "an open text": npy("{'descr': '''|u1, 'fortran_order': False, 'shape': (2, 3)}"),
    "wrong indents": npy("  {\n'descr'\n\t 1"),
    "many brackets": npy("(" * 9000),
    "many signs": npy("-" * 9000 + "1"),
    "not in any alphabet": npy(b"{'\xff\xfe\x00': 1}"),
    "a header of three": npy("3"),
    "a header of a list": npy("[1, 2]"),
    "no shape": npy("{'descr': '|u1', 'fortran_order': False}"),
    "a type that is none": npy(header(descr="|q9")),
    "a type of numbers": npy(header(descr=7)),
    "a type of lists": npy(header(descr=[[]])),
    "a type of no name": npy(header(descr=("<U99999999999999999999", 4))),
    "a shape of text": npy(header(shape="23")),
    "a shape of one number": npy(header(shape=6)),
    "a shape of lists": npy(header(shape=([2], 3))),
    "a shape of halves": npy(header(shape=(2.5, 3))),
    "a negative shape": npy(header(shape=(-2, 3))),
    "two negatives": npy(header(shape=(-2, -3))),
    "a shape past every number": npy(header(shape=(10**30, 3))),
    "5,000 digits": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (" + "9" * 5000 + ", 3)}"),
    "a shape that wraps": npy(header(shape=(2**63, 2))),
    "none of a huge width": npy(header(shape=(0, 2**63))),
    "70 axes": npy(header(shape=(1,) * 68 + (2, 3))),
    "a million million rows": npy(header(shape=(2**40, 3))),
    "as many columns": npy(header(shape=(3, 2**40))),
    "wide text": npy(header(descr=f"<U{2**28}", shape=(2**12, 1))),
    "cut short": npy(content=bytes(5)),
    "order of a word": npy(header(fortran_order="yes")),
}


@pytest.mark.parametrize("read", [read_items, to_shards])
@pytest.mark.parametrize("case", HEADERS)
def test_a_damaged_npy_file(case: str, read: Read, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(npy())
    read(path)
    path.write_bytes(HEADERS[case])
    assert "is not a readable npy file" in told(read, path)


@pytest.mark.parametrize("read", [read_items, to_shards, la.Codes.load])
@pytest.mark.parametrize("case", HEADERS)
def test_a_damaged_array_in_an_npz_file(case: str, read: Read, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(zipped(("codes.npy", npy())))
    read(path)
    path.write_bytes(zipped(("codes.npy", HEADERS[case])))
    assert "is not a readable npz file" in told(read, path)


def marked(flags: int = 0, method: int | None = None, size: int | None = None, array: bytes = npy()) -> bytes:
    """An npz file whose one member has these flags, method and uncompressed size, as both of its headers say."""
    content = bytearray(zipped(("codes.npy", array)))
    local, central = 0, content.index(b"PK\x01\x02")
    for start, shift in ((local, 0), (central, 2)):
        at = start + 6 + shift
        struct.pack_into("<H", content, at, flags)
        if method is not None:
            struct.pack_into("<H", content, at + 2, method)
        if size is not None:
            struct.pack_into("<I", content, at + 16, size)
    return bytes(content)


ARCHIVES: dict[str, bytes] = {
    "nothing": b"",
    "text": b"not what the name says\n" * 9,
    "an npy file": npy(),
    "an empty archive cut short": zipped()[:-1],
    "cut short": zipped(("codes.npy", npy()))[:-9],
    "its end alone": zipped(("codes.npy", npy()))[-22:],
    "encrypted": marked(flags=1),
    "patched data": marked(flags=0x20),
    "strong encryption": marked(flags=0x41),
    "an unknown method": marked(method=77),
    "bz2 that is none": marked(method=zipfile.ZIP_BZIP2),
    "lzma that is none": marked(method=zipfile.ZIP_LZMA),
    "stored that is not": marked(method=zipfile.ZIP_STORED),
    "another size": marked(size=20),
    "four gigabytes": marked(size=2**32 - 2, array=npy(header(shape=(2**31, 1)))),
    "a member of text": zipped(("codes.npy", b"text")),
    "bytes behind an array": zipped(("codes.npy", npy() + b"more")),
}


@pytest.mark.parametrize("read", [read_items, to_shards, la.Codes.load])
@pytest.mark.parametrize("case", ARCHIVES)
def test_a_damaged_npz_file(case: str, read: Read, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(ARCHIVES[case])
    assert "is not a readable npz file" in told(read, path)


@pytest.mark.parametrize("read", [read_items, to_shards, la.Codes.load])
def test_an_array_that_is_there_twice(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.warns(UserWarning, match="Duplicate"):
        path.write_bytes(zipped(("codes.npy", npy()), ("codes.npy", npy())))
    assert "it has the array 'codes' twice" in told(read, path)


@pytest.mark.parametrize("read", [read_items, to_shards])
def test_a_large_array_that_is_honest(read: Read, tmp_path: Path) -> None:
    """Zeros get a thousand times smaller: what a file holds is not bounded by its size."""
    np.savez_compressed(tmp_path / "a.npz", codes=np.zeros((300_000, 64), np.uint8))
    assert (tmp_path / "a.npz").stat().st_size < 30_000
    found = read(tmp_path / "a.npz")
    assert len(found.vectors if read is read_items else found) == 300_000


KINDS = {
    "objects": (np.array([[1, "a"], [2, "b"]], object), "pickled objects"),
    "records": (np.zeros((2, 3), [("x", "<i4"), ("y", "<f4")]), "records"),
    "raw bytes": (np.zeros((2, 3), "V2"), "records"),
    "lists": (np.zeros((2, 3), "(2,)f4,i1"), "records"),
}


@pytest.mark.parametrize("read", [read_items, to_shards])
@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("case", KINDS)
def test_arrays_of_other_kinds_are_refused_in_words(case: str, ending: str, read: Read, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    array, words = KINDS[case]
    np.save(path, array, allow_pickle=True) if ending == "npy" else np.savez(path, codes=array)
    assert words in told(read, path)


@pytest.mark.parametrize("read", [read_items, to_shards])
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_bits_that_are_none_are_said_with_their_file(ending: str, read: Read, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    np.save(path, BITS + 1) if ending == "npy" else np.savez(path, codes=BITS + 1)
    assert "got 2 in row 0, bit 1" in told(read, path)


def test_a_table_without_usable_columns_or_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", BITS)
    for content in (b"id,l\xff\n1,2\n3,4\n", b"id,id\n1,2\n3,4\n", b"id,label\n"):
        (tmp_path / "a.csv").write_bytes(content)
        told(lambda path: shard_file(tmp_path / "a.npy", tmp_path / "shards", table=path), tmp_path / "a.csv")


def test_votes_of_other_values(tmp_path: Path) -> None:
    path = tmp_path / "votes.sqlite"
    create_record(path)
    append_votes(path, Votes(["q"], ["i"], ["e"], [1]))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TRIGGER votes_stay; UPDATE votes SET time = 'noon'")
    assert "is damaged" in told(read_votes, path)
    sql = b"CREATE TABLE votes (a 'x\xff\n".hex()  # which SQLite repeats in what it says
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = CAST(x'{sql}' AS TEXT)")
    assert "is damaged" in told(read_votes, path)


VECTORS = np.random.default_rng(0).normal(size=(4, 3))


@pytest.mark.parametrize("read", [read_items, to_shards])
@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize(
    "vectors", [VECTORS.astype(">f8"), np.asfortranarray(VECTORS), VECTORS.astype(">f4"), VECTORS.astype("<f2")]
)
def test_the_same_numbers_stored_otherwise(
    vectors: Any, ending: str, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.{ending}"
    np.save(path, vectors) if ending == "npy" else np.savez(path, embeddings=vectors)
    if vectors.flags.f_contiguous and ending == "npz" and read is to_shards:
        with monkeypatch.context() as patch:  # what is larger than a page is read by rows
            patch.setattr("lookalike.shards.convert.PIECE", 2)
            assert "stored by columns: save it by rows" in told(read, path)
    found = read(path)
    np.testing.assert_array_equal(found.vectors if read is read_items else found.read(0).vectors, vectors)


# JSON and TOML

DEEP, LONG = "[" * 100_000 + "]" * 100_000, "9" * 5000
TEXTS = {"deep": DEEP, "deep objects": '{"a":' * 50_000, "long": f'{{"a": {LONG}}}', "bytes": "\udcff", "cut": '{"a"'}


def scheduler_file(path: Path) -> Any:
    from lookalike.shards.dask import connected

    with connected(str(path)):
        raise AssertionError("there is no scheduler")


def onnx_settings(path: Path) -> Any:
    from lookalike.encoders.onnx import OnnxSettings

    return OnnxSettings.read(path)


JSON_FILES: dict[str, tuple[str, Read]] = {
    "an evaluation": ("a.json", la.Evaluation.from_json),
    "a manifest of shards": (MANIFEST, lambda path: Shards.open(path.parent)),
    "annotations": ("a.json", read_judgements),
    "metadata": ("a.json", read_metadata),
    "settings of a network": ("a.json", onnx_settings),
    "a scheduler": ("a.json", scheduler_file),
}


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("file", JSON_FILES)
def test_json_that_cannot_be_read(file: str, case: str, tmp_path: Path) -> None:
    name, read = JSON_FILES[file]
    path = tmp_path / name
    path.write_bytes(TEXTS[case].encode(errors="surrogateescape"))
    told(read, path)


@pytest.mark.parametrize("settings", ["a = " + DEEP, f"a = {LONG}", "\udcff", "a = "])
def test_toml_that_cannot_be_read(settings: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(settings.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=re.escape(f"{path} is damaged: ")):
        Study.open(tmp_path)


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_what_a_foreign_file_says_of_itself_is_left_out(ending: str, case: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    said = TEXTS[case].encode(errors="surrogateescape")
    if ending == "npz":
        np.savez(path, codes=BITS, about=np.array(said.decode(errors="replace")))
    else:
        table = pa.table({"codes": BITS.astype(np.int8).tolist()}, metadata={"lookalike": said})
        pq.write_table(table, path)
    assert read_items(path).vectors == la.Codes.pack(BITS)
    assert len(to_shards(path)) == 2


@pytest.mark.parametrize("content", ['{"lookalike": "evaluation"}', '{"lookalike": "evaluation", "scores": [3]}'])
def test_an_evaluation_without_its_numbers(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    assert "damaged" in told(la.Evaluation.from_json, path)


def test_a_partial_of_other_bytes_is_counted_again(tmp_path: Path) -> None:
    """Also one whose hash is right."""
    import hashlib

    np.savez(tmp_path / "a.npz", codes=BITS)
    shards, partials = to_shards(tmp_path / "a.npz"), tmp_path / "partials"
    options: dict[str, Any] = {"relevance": la.same_label([0, 1], [0, 1]), "metrics": ["AP"], "partials": partials}
    before = la.evaluate(la.Codes.pack(BITS), shards, **options)["AP"].mean
    (path,) = partials.iterdir()
    for content in (b"", b"PK", zipped(("about.npy", npy())), zipped(("a.npy", b"a"))):
        path.write_bytes(hashlib.sha256(content).hexdigest().encode() + content)
        assert la.evaluate(la.Codes.pack(BITS), shards, **options)["AP"].mean == before


# Too little memory: of a process of its own, whose address space is bounded

LITTLE = """
import pathlib, resource, sys
import numpy as np, pyarrow.csv, pyarrow.parquet
from lookalike.core.csv_files import read_csv
from lookalike.discovery.votes import Votes
from lookalike.core.files import read_arrays
from lookalike.evaluation.item_files import read_items
from lookalike.shards.convert import shard_file
from lookalike.shards.gallery import Shards
from lookalike.cli import main
read_items("small.parquet")  # its threads are there
readers = {
    "a.npy": read_items, "a.npz": read_items, "a.parquet": read_items,
    "a.csv": lambda path: read_csv(path, []), "b.txt": lambda path: read_items("small.npz", path),
    "shards": lambda path: Shards.open(path).read(0), "rows.npz": lambda path: shard_file(path, "out"),
    "rows.parquet": lambda path: shard_file(path, "out"), "votes.parquet": Votes.read,
}
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20),) * 2)
for name, read in readers.items():
    try:
        read(name)
        print(name, "was read")
    except Exception as error:
        print(type(error).__name__, str(error).replace(str(pathlib.Path.cwd()) + "/", ""))
sys.stderr = sys.stdout
main(["evaluate", "small.npz", "a.npz"])
"""


def hole(path: Path, size: int) -> None:
    """Make a file longer by zeros that take no space."""
    with path.open("ab") as file:
        file.truncate(size)


def test_too_little_memory_is_told_as_what_it_is(tmp_path: Path) -> None:
    zeros = np.zeros((1 << 19, 64), np.float32)  # 134 MB that are small on disk
    np.savez(tmp_path / "small.npz", embeddings=VECTORS)
    pq.write_table(pa.table({"embeddings": VECTORS.tolist()}), tmp_path / "small.parquet")
    (tmp_path / "a.npy").write_bytes(npy(header(descr="<f4", shape=(1 << 20, 64)), b""))
    hole(tmp_path / "a.npy", (1 << 28) + (1 << 12))
    np.savez_compressed(tmp_path / "a.npz", embeddings=zeros)
    np.savez_compressed(tmp_path / "rows.npz", embeddings=zeros.reshape(2, -1))
    for name, width in (("a.parquet", 64), ("rows.parquet", 1 << 24)):
        lists = pa.FixedSizeListArray.from_arrays(pa.array(zeros.ravel()), width)
        pq.write_table(pa.table({"embeddings": lists}), tmp_path / name)
    names = pa.array(["q" * 64] * (1 << 18))
    pq.write_table(
        pa.table({"query": names, "item": names, "expert": names, "answer": pa.array(["yes"] * (1 << 18))}),
        tmp_path / "votes.parquet",
    )
    for name in ("a.csv", "b.txt"):
        hole(tmp_path / name, 1 << 28)
    (tmp_path / "shards").mkdir()
    to_shards(tmp_path / "small.npz")
    hole(tmp_path / "shards" / "part-00000.parquet", 1 << 28)
    done = subprocess.run(
        [sys.executable, "-c", LITTLE],
        cwd=tmp_path,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},  # others take address space before they need it
        capture_output=True,
        text=True,
        check=False,
    )
    *said, told_by_command = done.stdout.splitlines()
    assert (done.returncode, told_by_command) == (
        2,
        "lookalike: there is not enough memory to read a.npz: it takes about 134.2 MB",
    )
    begin = "MemoryError there is not enough memory to read "
    assert [line for line in said if not line.startswith(begin)] == []
    assert [line.removeprefix(begin) for line in said] == [
        "a.npy: it takes about 268.4 MB",
        "a.npz: it takes about 134.2 MB",
        "a.parquet: it takes about 134.2 MB",
        "a.csv",
        "b.txt",
        "shards/part-00000.parquet",
        "rows.npz: it takes about 134.2 MB",
        "rows.parquet: it takes about 134.2 MB",
        "votes.parquet",
    ]


# Archives of data sets


def deb(size: str, content: bytes = b"") -> bytes:
    return b"!<arch>\n" + b"data.tar".ljust(48) + size.encode().ljust(10) + b"`\n" + content


def tar(size: int) -> bytes:
    """A tar file whose one member says that it is of this size."""
    about = tarfile.TarInfo("train.bin")
    about.size = size
    return about.tobuf() + bytes(1024)


ARCHIVES_OF_DATA = {
    "a package that goes back": deb("-60"),
    "a package of much": deb("9999999999"),
    "a package of nothing": deb("0"),
    "a tar file of much": tar(2**40),
    "text": b"not what the name says\n" * 99,
    "xz that is none": b"\xfd7zXZ\x00" + bytes(99),
    "gzip that is none": b"\x1f\x8b\x08\x04" + bytes(99),
}


@pytest.mark.parametrize("case", ARCHIVES_OF_DATA)
def test_a_damaged_archive(case: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(ARCHIVES_OF_DATA[case])
    told(lambda path: members(path, ["train.bin"]), path)


@pytest.mark.parametrize("shape", [(2**16,) * 4, (1,) * 200, (2**32 - 1,) * 3, (3,)])
def test_an_idx_file_of_other_lengths(shape: tuple[int, ...]) -> None:
    content = bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape)
    with pytest.raises(ValueError, match="the file is not an idx file of bytes"):
        read_idx(gzip.compress(content + bytes(len(shape) == 200)))


def test_a_grade_of_many_digits(tmp_path: Path) -> None:
    path = tmp_path / "a.qrels"
    path.write_text(f"q 0 a {LONG}\n")
    assert "line 1: a grade must be" in told(la.read_qrels, path)


# Parquet

READING = """
import sys
from lookalike.evaluation.item_files import read_items
try:
    read_items(sys.argv[1])
except ValueError as error:
    print(error)
"""


def test_a_parquet_file_whose_columns_contradict_its_schema(tmp_path: Path) -> None:
    """In a process of its own: asked for such a column, pyarrow may end it."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"embeddings": VECTORS.tolist(), "ids": ["a", "b", "c", "d"]}), path)
    content = path.read_bytes()
    optional, required = b"\x25\x02\x18\x03ids", b"\x25\x00\x18\x03ids"
    assert content.count(optional) == 1
    path.write_bytes(content.replace(optional, required))
    done = subprocess.run([sys.executable, "-c", READING, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{path} is not a readable Parquet file" in done.stdout


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    column = pa.array([0, 1])
    pq.write_table(pa.Table.from_arrays([column, column], names=["labels", "labels"]), path)
    assert "it has the column 'labels' twice" in told(read_items, path)


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("letter", [0x110000, 0xD800, 0xFFFFFFFF])
@pytest.mark.parametrize("order", "<>")
def test_text_is_made_of_letters(tmp_path: Path, ending: str, letter: int, order: str) -> None:
    """Numbers that are no letters would break whatever shows or writes the text."""
    text = np.array(["ab", "c"], f"{order}U2")
    text.view(f"{order}u4")[1] = letter
    path = tmp_path / f"labels.{ending}"
    np.save(path, text) if ending == "npy" else np.savez(path, codes=np.eye(2, dtype=int), labels=text)
    with pytest.raises(ValueError, match=f"{path.name} is not a readable"):
        read_npy(path) if ending == "npy" else read_arrays(path)


def test_a_column_of_shards_is_as_the_manifest_says(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, rows=2) as writer:
        writer.add({"embeddings": np.ones((4, 2)), "ids": np.arange(4)})
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["columns"]["ids"] = "fixed_size_list<item: int64>[2]"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"part-00000\.parquet has a column 'ids' of shape \(2,\)"):
        Shards.open(tmp_path).read(0, ["ids"])
