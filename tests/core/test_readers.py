"""Bad files and unclear columns are refused in one sentence, and what is assumed is said.

What a vacuous test would let pass: an error that any damaged file would give (each names what is wrong with this one),
and a file that is unpickled before it is refused (one leaves a mark when that happens).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import torch
from safetensors.torch import save_file

import lookalike as la
from lookalike.core.endings import SOURCES
from lookalike.core.errors import FileError, InputError, MissingPackageError
from lookalike.core.readers.opening import KINDS, is_source, open_source, open_table
from lookalike.core.readers.source import Columns

ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
LISTS = ROWS.tolist()
NAMES = [f"i{n}" for n in range(6)]
LABELS = list("abcabc")


def table(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def matlab(path: Path, **variables: Any) -> Path:
    scipy.io.savemat(path, variables)
    return path


def saved(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


def hdf5(path: Path, **datasets: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return path


def float8(path: Path) -> Path:
    save_file({"emb": torch.tensor(ROWS).to(torch.float8_e4m3fn)}, path)
    return path


def linked(path: Path) -> Path:
    hdf5(path.with_name("other.h5"), emb=ROWS)
    with h5py.File(path, "w") as file:
        file["emb"] = h5py.ExternalLink("other.h5", "/emb")
    return path


def without(*left_out: int) -> list[Any]:
    return [None if row in left_out else values for row, values in enumerate(LISTS)]


CELLS = np.empty((1, 6), object)
CELLS[0] = LABELS
INNER = [*LISTS[:2], [1.0, None, 2.0, 3.0], *LISTS[3:]]
RAGGED = [*LISTS[:4], [1.0, 2.0], LISTS[5]]

# what is written, the columns that are named, and what is said of it
REFUSED: dict[str, tuple[Callable[[Path], Path], dict[str, str], str]] = {
    "wrong label": (
        lambda p: table(p / "a.parquet", emb=LISTS, clas=LABELS, x=NAMES),
        {"label": "class"},
        r"a.parquet has no column 'class': it has 'clas', 'emb', 'x'$",
    ),
    "wrong vector": (
        lambda p: table(p / "a.parquet", emb=LISTS, label=LABELS),
        {"vector": "embs"},
        "has no column 'embs': it has 'emb', 'label'",
    ),
    "two vectors": (
        lambda p: table(p / "a.parquet", emb=LISTS, box=LISTS),
        {},
        "several could be the vectors: 'emb', 'box'; say which with vector='emb'",
    ),
    "no vectors": (lambda p: table(p / "a.parquet", label=LABELS), {}, "holds no codes: .*; it has 'label'"),
    "NULL vector": (
        lambda p: table(p / "a.parquet", emb=without(3, 4)),
        {},
        "'emb' .* 2 empty values, the first in row 3",
    ),
    "NULL within": (
        lambda p: table(p / "a.parquet", emb=INNER),
        {},
        "1 empty values within its lists, the first in row 2",
    ),
    "NULL label": (
        lambda p: table(p / "a.parquet", emb=LISTS, label=[*LABELS[:5], None]),
        {},
        "column 'label' .* has 1 empty values, the first in row 5",
    ),
    "two lengths": (
        lambda p: table(p / "a.parquet", emb=RAGGED),
        {},
        "different lengths, from 2 to 4: row 0 has 4 values, row 4 has 2",
    ),
    "bytes of two lengths": (
        lambda p: table(p / "a.parquet", code=[b"12", b"123"]),
        {"vector": "code"},
        "bytes of different lengths: 2 in its first row, 3 in row 1",
    ),
    "bytes that are no text": (
        lambda p: table(p / "a.parquet", emb=LISTS, label=[b"\xff"] * 6),
        {"label": "label"},
        "bytes that are not text",
    ),
    "a struct": (
        lambda p: table(p / "a.parquet", emb=LISTS, image=[{"a": 1}] * 6),
        {"vector": "image"},
        "'image' .* cannot be read: it is of the type struct",
    ),
    "words for tags": (
        lambda p: table(p / "a.parquet", emb=LISTS, words=[["a"]] * 6),
        {"tags": "words"},
        "tags must be lists of 0 and 1",
    ),
    "labels and tags": (
        lambda p: table(p / "a.parquet", emb=LISTS, label=LABELS, t=[[0, 1]] * 6),
        {"label": "label", "tags": "t"},
        "pass either label or tags",
    ),
    "lists for ids": (
        lambda p: table(p / "a.parquet", emb=LISTS, n=LISTS),
        {"id": "n", "vector": "emb"},
        "one for each",
    ),
    "packed bytes as uint8": (
        lambda p: table(p / "a.parquet", code=pa.array([[7, 9]] * 6, pa.list_(pa.uint8()))),
        {},
        "if these are packed codes",
    ),
    "a column twice": (lambda p: two_columns(p / "a.parquet"), {}, "column 'emb' twice"),
    "pickled": (
        lambda p: saved(p / "a.pt", {"emb": ROWS}),
        {},
        "would have to be unpickled.*torch.save of a dict of tensors",
    ),
    "a model": (lambda p: saved(p / "a.pt", torch.nn.Linear(2, 2)), {}, "would have to be unpickled"),
    "a list of tensors": (lambda p: saved(p / "a.pt", [torch.ones(2, 2)]), {}, "it holds a list"),
    "a tensor of one axis": (lambda p: saved(p / "a.pt", {"emb": torch.ones(3)}), {"vector": "emb"}, "one number each"),
    "a tensor of three axes": (
        lambda p: saved(p / "a.pt", {"emb": torch.ones(3, 2, 2)}),
        {"vector": "emb"},
        r"arrays of \(2, 2\) for each item",
    ),
    "a number": (lambda p: saved(p / "a.pt", {"emb": torch.tensor(3.0)}), {"vector": "emb"}, "holds one value"),
    "float8": (lambda p: float8(p / "a.safetensors"), {}, "F8_E4M3, which numpy does not have"),
    "cell array": (lambda p: matlab(p / "a.mat", X=ROWS, label=CELLS), {"label": "label"}, "it is a cell array: save"),
    "cells alone": (lambda p: matlab(p / "a.mat", label=CELLS), {}, "holds no codes.*it is a cell array"),
    "struct": (lambda p: matlab(p / "a.mat", X={"a": 1}), {"vector": "X"}, "it is a struct array"),
    "links": (lambda p: linked(p / "a.h5"), {}, "holds no codes"),
    "several datasets": (lambda p: hdf5(p / "a.h5", train=ROWS, test=ROWS), {}, "'test', 'train'; say which"),
    "csv of numbers": (lambda p: csv(p / "a.csv", "0.5,0.25\n1.5,2\n"), {}, "must name its columns, got numbers alone"),
    "csv of nothing": (lambda p: csv(p / "a.csv", ""), {}, "must name its columns, got nothing"),
    "csv without a number": (
        lambda p: csv(p / "a.csv", "e0,e1,e3\n1,2,3\n"),
        {"vector": "e"},
        "has 'e0' to 'e3', but not 'e2'",
    ),
    "csv with an empty cell": (lambda p: csv(p / "a.csv", "e0,e1\n1,2\n3,\n"), {}, "'e1' .* the first in row 1"),
    "csv with a word": (lambda p: csv(p / "a.csv", "e0,e1\n" + "1,2\n" * 300_000 + "3,x\n"), {}, "a.csv .* 'x'"),
    "csv with a word early": (lambda p: csv(p / "a.csv", "e0,e1\n1,2\n3,x\n"), {}, "but 'e1' holds text"),
    "csv without a label": (
        lambda p: csv(p / "a.csv", "e0,e1,label\n1,2,a\n3,4, \n"),
        {},
        "empty value, the first in row 1",
    ),
    "csv with rows too short": (lambda p: csv(p / "a.csv", "e0,e1\n1,2\n3\n"), {}, "not a readable CSV file"),
    "csv cut by numpy": (
        lambda p: csv(p / "a.csv", 'emb,label\n"[0.1 0.2 ... 0.3]",a\n'),
        {"vector": "emb"},
        "row 0 .* was cut short when it was written",
    ),
    "csv of two lengths": (
        lambda p: csv(p / "a.csv", 'emb\n"[1, 2]"\n"[1, 2, 3]"\n'),
        {},
        "row 0 has 2 numbers, row 1 has 3",
    ),
    "a name for a matrix": (
        lambda p: saved(p / "a.pt", torch.tensor(ROWS)),
        {"vector": "emb"},
        "one matrix without names",
    ),
    "folder of others": (lambda p: p, {}, "no Parquet or Arrow file in"),
}


def two_columns(path: Path) -> Path:
    pq.write_table(pa.Table.from_arrays([pa.array(LISTS), pa.array(LISTS)], names=["emb", "emb"]), path)
    return path


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    write, columns, words = REFUSED[case]
    with pytest.raises((InputError, FileNotFoundError), match=words) as refused:
        la.read_items(write(tmp_path), **columns)
    assert "\n" not in str(refused.value)


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_of_pytorch_is_unpickled(zipped: bool, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    value = {"emb": torch.tensor(ROWS), "trap": Trap(mark)}
    torch.save(value, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(FileError, match=r"would have to be unpickled, .* \(it asks for posix mkdir\)"):
        la.read_items(tmp_path / "a.pt", vector="emb")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["a.h5", "a.mat"])
def test_a_missing_package_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5(tmp_path / name, emb=ROWS)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        MissingPackageError, match=re.escape("needs h5py, which is not installed: pip install 'lookalike[files]'")
    ):
        la.read_items(tmp_path / name)


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", emb=(ROWS * 10).astype(np.int32).tolist(), target=LABELS, id=["a"] * 6)
    items = la.read_items(path)
    assert items.ids is None
    assert items.notes == (
        f"{path}: embeddings are taken from column 'emb', labels from 'target'",
        f"{path}: whole numbers are taken as embeddings, since they are not all bits",
        f"{path}: column 'id' is not taken for ids, since items share one",
    )
    assert la.read_items(path, vector="emb", label="target", id="id").notes[0].endswith("since they are not all bits")


def test_files_of_our_own_names_are_read_without_a_note(tmp_path: Path) -> None:
    others = {"emb": LISTS, "label": LABELS, "id": NAMES}
    items = la.read_items(table(tmp_path / "a.parquet", embeddings=LISTS, labels=LABELS, ids=NAMES, **others))
    assert items.notes == ()
    assert items.ids is not None
    bits = (ROWS > 0).astype(np.uint8)
    packed = la.Codes.pack(bits).to_bytes()
    save_file({"packed": torch.tensor(packed), "n_bits": torch.tensor(4)}, tmp_path / "a.safetensors")
    assert la.read_items(tmp_path / "a.safetensors").vectors == la.Codes.pack(bits)
    torch.save({"packed": torch.tensor(packed), "n_bits": 4, "labels": LABELS}, tmp_path / "a.pt")
    items = la.read_items(tmp_path / "a.pt")
    assert (items.vectors, items.labels.tolist(), items.notes) == (la.Codes.pack(bits), LABELS, ())


@pytest.mark.parametrize("kind", [pa.binary(1), pa.binary(), pa.large_binary()])
def test_bytes_are_packed_codes(kind: pa.DataType, tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (6, 8))
    octets = [row.tobytes() for row in la.Codes.pack(bits).to_bytes()]
    path = table(tmp_path / "a.parquet", hash=pa.array(octets, kind), label=[b"x", b"y"] * 3)
    items = la.read_items(path, vector="hash")
    assert items.vectors == la.Codes.pack(bits)
    assert items.labels.tolist() == ["x", "y"] * 3


def test_revisions_of_a_data_set_are_not_read_as_one(tmp_path: Path) -> None:
    for revision in "ab":
        folder = tmp_path / "datasets--me--set" / "snapshots" / revision
        folder.mkdir(parents=True)
        table(folder / "train.parquet", emb=LISTS, label=LABELS)
    for location in (tmp_path / "datasets--me--set", f"{tmp_path}/*/snapshots/*/train.parquet"):
        with pytest.raises(FileError, match="holds several revisions of a data set, a and b: name one of them"):
            la.read_items(location)
    assert len(la.read_items(tmp_path / "datasets--me--set" / "snapshots" / "b").vectors) == 6


def test_lists_of_8_bits_called_packed_are_packed_codes(tmp_path: Path) -> None:
    bits = ROWS > 0
    packed = la.Codes.pack(bits).to_bytes()
    lists = pa.array(packed.tolist(), pa.list_(pa.uint8()))
    items = la.read_items(table(tmp_path / "t.parquet", packed=lists, labels=LABELS, n_bits=[4] * 6))
    assert items.vectors.n_bits == 4
    np.testing.assert_array_equal(items.vectors.unpack(), bits)
    with pytest.raises(ValueError, match="if these are packed codes, name the array `packed` and add `n_bits`"):
        la.read_items(table(tmp_path / "c.parquet", codes=lists, labels=LABELS))


def test_several_columns_of_labels_are_listed_when_labels_are_needed(tmp_path: Path) -> None:
    from lookalike.evaluation.item_files import relevance_between

    items = la.read_items(table(tmp_path / "a.parquet", emb=LISTS, category=LABELS, **{"class": LABELS}), vector="emb")
    assert items.labels is None
    with pytest.raises(FileError, match="could be labels, 'category', 'class': say which with label='category'"):
        relevance_between(items, items)


def test_groups_and_tags_are_read_also_of_a_file_of_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    tags = [[0, 1], [1, 1], [1, 0]] * 2
    path = table(tmp_path / "a.parquet", name=NAMES, tags=tags, product=[7, 7, 8, 8, 9, 9], shop=LABELS)
    items = la.read_items(tmp_path / "a.npy", path, tags="tags", group="product", by="shop")
    assert (items.labels.tolist(), items.groups.tolist(), items.by.tolist()) == (tags, [7, 7, 8, 8, 9, 9], LABELS)
    with pytest.raises(FileError, match="no column 'produkt': it has 'product', "):
        la.read_items(tmp_path / "a.npy", path, tags="tags", group="produkt")


LABEL_FILES = {
    "an id twice": ({"id": ["i0"] * 6, "label": LABELS}, {}, "the id 'i0' is there twice, in rows 0 and 1"),
    "an id that is missing": ({"id": [*NAMES[:5], "x"], "label": LABELS}, {}, "no label of 1 of 6 items, such as 'i5'"),
    "several labels": ({"id": NAMES, "a": LABELS, "b": LABELS}, {}, "of 'a', 'b'; say which with label='a'"),
    "no such label": ({"id": NAMES, "a": LABELS}, {"label": "b"}, "no column 'b': it has 'id', 'a'|has 'a', 'id'"),
    "no such id": ({"key": NAMES, "a": LABELS}, {"id": "id"}, "no column 'id': it has"),
}


@pytest.mark.parametrize("case", LABEL_FILES)
def test_labels_that_cannot_be_joined_are_refused(case: str, tmp_path: Path) -> None:
    columns, named, words = LABEL_FILES[case]
    items = table(tmp_path / "items.parquet", embeddings=LISTS, ids=NAMES)
    with pytest.raises(FileError, match=words):
        la.read_items(items, table(tmp_path / "labels.parquet", **columns), **named)


def test_items_without_the_ids_that_were_named_are_refused(tmp_path: Path) -> None:
    items = table(tmp_path / "items.parquet", embeddings=LISTS)
    labels = table(tmp_path / "labels.parquet", key=NAMES, label=LABELS)
    with pytest.raises(FileError, match=r"items.parquet has no column 'key' to find labels in .*labels.parquet by"):
        la.read_items(items, labels, id="key")
    assert la.read_items(items, labels).notes[-1].endswith("labels are in the order of the items; it has no ids")


def test_ids_of_a_csv_keep_their_zeros_and_join(tmp_path: Path) -> None:
    ids = ["007", "7", "070"]
    csv(tmp_path / "a.csv", "id,e0,e1\n" + "".join(f"{name},1.5,{n}\n" for n, name in enumerate(ids)))
    csv(tmp_path / "labels.csv", "id,class\n070,c\n007,a\n7,b\n")
    items = la.read_items(tmp_path / "a.csv", tmp_path / "labels.csv", label="class", id="id")
    assert (items.ids.tolist(), items.labels.tolist()) == (ids, ["a", "b", "c"])


def test_columns_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    rows = np.arange(24.0).reshape(2, 12)
    frame = pd.DataFrame(rows, columns=[f"x{n}" for n in range(12)])
    frame[sorted(frame.columns)].to_csv(tmp_path / "a.csv", index=False)
    np.testing.assert_array_equal(la.read_items(tmp_path / "a.csv").vectors, rows)


def test_bits_as_text_are_codes(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "code,label\n01100000,a\n10000001,b\n")
    bits = [[0, 1, 1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 1]]
    assert la.read_items(path).vectors == la.Codes.pack(bits)


def test_pages_are_no_longer_than_asked_for(tmp_path: Path) -> None:
    paths = [
        table(tmp_path / "a.parquet", emb=LISTS, label=LABELS),
        hdf5(tmp_path / "a.h5", emb=ROWS, label=LABELS),
        csv(tmp_path / "a.csv", "label,e0,e1\n" + "a,1.5,2\n" * 6),
        saved(tmp_path / "a.pt", {"emb": torch.tensor(ROWS), "label": LABELS}),
    ]
    for path in paths:
        source = open_source(path, Columns(label="label"))
        pages = list(source.pages(4))
        assert [len(page["embeddings"]) for page in pages] == [4, 2], path
        assert [set(page) for page in pages] == [{"embeddings", "labels"}] * 2, path


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_rows_are_counted_from_the_start_of_the_file(rows: int, tmp_path: Path) -> None:
    made = pa.table({"emb": without(4), "label": LABELS})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, made.schema) as writer:
        writer.write_table(made, max_chunksize=3)
    pq.write_table(made, tmp_path / "a.parquet")
    for name in ("a.arrow", "a.parquet"):
        with pytest.raises(InputError, match="1 empty values, the first in row 4"):
            list(open_source(tmp_path / name, Columns(vector="emb")).pages(rows))


def test_a_file_that_says_nothing_by_its_name_is_known_by_its_beginning(tmp_path: Path) -> None:
    with (tmp_path / "npz-file").open("wb") as file:
        np.savez(file, embeddings=ROWS)
    torch.save(torch.tensor(ROWS), tmp_path / "pt-file")
    for name in ("npz-file", "pt-file"):
        assert is_source(tmp_path / name)
        np.testing.assert_array_equal(la.read_items(tmp_path / name).vectors, ROWS)
    csv(tmp_path / "run", "q Q0 i 1 0.5 x\n")
    assert not is_source(tmp_path / "run")


def test_every_ending_that_is_told_has_a_reader() -> None:
    assert tuple(KINDS) == SOURCES


@pytest.mark.parametrize("ending", KINDS)
def test_a_damaged_file_is_refused_and_takes_no_memory(ending: str, tmp_path: Path) -> None:
    for content in (b"", b"x" * 100, b"\xff" * 1000):
        path = tmp_path / f"a{ending}"
        path.write_bytes(content)
        with pytest.raises(FileError, match=re.escape(str(path))):
            open_table(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_table(tmp_path / f"none{ending}")


@pytest.mark.parametrize(
    "facts",
    [
        {"dtype": "F32", "shape": [1 << 40, 4], "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 1 << 40]},
        {"dtype": "F32", "shape": [4, -4], "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": [4, 4], "data_offsets": [64, 0]},
        {"dtype": "F32", "shape": [4, 4]},
        3,
    ],
)
def test_a_header_of_safetensors_that_lies_is_refused(facts: Any, tmp_path: Path) -> None:
    header = json.dumps({"emb": facts}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    with pytest.raises(FileError, match="not a readable safetensors file"):
        open_table(tmp_path / "a.safetensors")
