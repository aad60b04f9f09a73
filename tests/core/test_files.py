"""What goes in comes out: codes from every kind of array, files that come back whole and say where they are from."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookalike as la
from lookalike.core import files
from lookalike.core.errors import FileError
from lookalike.core.npy import map_npz, write_npz
from lookalike.evaluation.item_files import read_items

RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (7, 13)).astype(np.uint8)
PACKED = np.packbits(BITS, axis=1, bitorder="little")
CODES = la.Codes.pack(BITS)
LABELS = np.array([0, 1, 2, 0, 1, 2, 0])


class Tensor:
    """As much of torch's tensor as is asked for."""

    def __init__(self, values: np.ndarray[Any, Any], *steps: str) -> None:
        self.values, self.steps = values, steps

    def detach(self) -> Tensor:
        return Tensor(self.values, *self.steps, "detach")

    def cpu(self) -> Tensor:
        return Tensor(self.values, *self.steps, "cpu")

    def numpy(self) -> np.ndarray[Any, Any]:
        assert self.steps == ("detach", "cpu")
        return self.values


# Codes from what users have


@pytest.mark.parametrize(
    "bits",
    [
        BITS,
        BITS.astype(bool),
        BITS.astype(float),
        BITS.astype(np.float16),
        2 * BITS.astype(np.int8) - 1,
        2 * BITS.astype(np.float32) - 1,
        np.asfortranarray(BITS),
        np.repeat(BITS, 2, axis=1)[:, ::2],
        BITS.tolist(),
        BITS.astype(bool).tolist(),
        pa.FixedSizeListArray.from_arrays(pa.array(BITS.ravel()), 13),
        pa.chunked_array([pa.array(part.tolist(), pa.list_(pa.uint8(), 13)) for part in (BITS[:3], BITS[3:])]),
        pa.array([[9] * 13, *BITS.tolist()], pa.list_(pa.int64(), 13))[1:],
    ],
    ids=lambda bits: f"{type(bits).__name__} {getattr(bits, 'dtype', '')}",
)
def test_codes_from_bits(bits: Any) -> None:
    codes = la.Codes.pack(bits)
    assert codes == CODES
    assert codes.digest == CODES.digest
    np.testing.assert_array_equal(codes.unpack(), BITS)


@pytest.mark.parametrize(
    "packed",
    [
        PACKED,
        np.asfortranarray(PACKED),
        pa.array([row.tobytes() for row in PACKED], pa.binary(2)),
        pa.array([b"xx", *(row.tobytes() for row in PACKED)], pa.binary(2))[1:],
        pa.chunked_array(
            [pa.array([row.tobytes() for row in part], pa.binary(2)) for part in (PACKED[:2], PACKED[2:])]
        ),
    ],
    ids=["numpy", "columns first", "binary", "a slice", "chunks"],
)
def test_codes_from_packed_bytes(packed: Any) -> None:
    assert la.Codes.from_bytes(packed, n_bits=13) == CODES


def test_codes_and_vectors_from_tensors() -> None:
    assert la.Codes.pack(Tensor(BITS)) == CODES
    vectors = RNG.standard_normal((7, 3)).astype(np.float32)
    relevance = la.same_label(Tensor(LABELS), Tensor(LABELS))
    found = la.evaluate(Tensor(vectors), vectors, relevance, ["RR"])["RR"]
    np.testing.assert_array_equal(found.per_query, np.ones(7))


@pytest.mark.parametrize("n_bits", [1, 8, 63, 64, 65, 4096])
@pytest.mark.parametrize("ending", ["npz", "parquet"])
@pytest.mark.parametrize("n_codes", [1, 9])
def test_codes_come_back_from_files(n_bits: int, ending: str, n_codes: int, tmp_path: Path) -> None:
    bits = np.random.default_rng(n_bits).integers(0, 2, (n_codes, n_bits))
    codes = la.Codes.pack(bits)
    assert codes.words.shape == (n_codes, -(-n_bits // 64))
    codes.save(tmp_path / f"codes.{ending}")
    again = la.Codes.load(str(tmp_path / f"codes.{ending}"))
    assert again == codes
    assert again.n_bits == n_bits
    np.testing.assert_array_equal(again.unpack(), bits)


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_no_codes_are_codes_too(ending: str, tmp_path: Path) -> None:
    assert CODES[:0].unpack().shape == (0, 13)
    CODES[:0].save(tmp_path / f"codes.{ending}")
    assert la.Codes.load(tmp_path / f"codes.{ending}") == CODES[:0]


def test_codes_do_not_change_and_are_equal_by_content() -> None:
    assert CODES[:3] != CODES
    assert CODES[[2, 0]] == la.Codes.pack(BITS[[2, 0]])
    assert len(CODES[3]) == 1
    assert la.Codes.pack(np.pad(BITS, ((0, 0), (0, 1)))) != CODES
    with pytest.raises(ValueError, match="read-only"):
        CODES.words[0, 0] = 1


def test_labels_from_tables_and_lists_are_the_same() -> None:
    """A column of a table is an array of Python objects, a list of words is not."""
    words = ["cat", "dog", "cat"]
    plain = la.same_label(words, words).block(slice(0, 3), slice(0, 3))
    for column in (np.array(words, object), pa.array(words), pa.array(words).dictionary_encode()):
        np.testing.assert_array_equal(la.same_label(words, column).block(slice(0, 3), slice(0, 3)), plain)
    signed, unsigned = np.array([-1, 3]), np.array([1, 3], np.uint64)
    np.testing.assert_array_equal(
        la.same_label(signed, unsigned).block(slice(0, 2), slice(0, 2)), [[False, False], [False, True]]
    )


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    codes = la.Codes.from_bytes(PACKED, n_bits=np.int64(13))  # type: ignore[arg-type]
    codes.save(tmp_path / "codes.npz")
    assert la.Codes.load(tmp_path / "codes.npz") == CODES
    result = la.evaluate(codes, codes, la.same_label(LABELS, LABELS), ["AP"])
    assert json.loads(result.to_json())["bits"] == 13
    tally = la.count(codes, codes, la.same_label(LABELS, LABELS), radius=np.int64(1))  # type: ignore[arg-type]
    tally.save(tmp_path / "tally.npz")
    assert la.Tally.load(tmp_path / "tally.npz").ball.radius == 1  # type: ignore[union-attr]


# What files say about themselves


def test_codes_in_npz_have_the_names_that_are_promised(tmp_path: Path) -> None:
    CODES.save(tmp_path / "codes.npz")
    with np.load(tmp_path / "codes.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["packed"], PACKED)
        assert int(file["n_bits"]) == 13
        about = json.loads(str(file["about"]))
    assert about == {
        "lookalike": "codes",
        "format": files.FORMAT,
        "version": la.__version__,
        "n_bits": 13,
        "digest": CODES.digest,
    }


def test_codes_in_parquet_are_fixed_size_binary(tmp_path: Path) -> None:
    CODES.save(tmp_path / "codes.parquet")
    table = pq.read_table(tmp_path / "codes.parquet")
    assert table.schema.field("codes").type == pa.binary(2)
    about = json.loads(table.schema.metadata[b"lookalike"])
    assert (about["lookalike"], about["format"], about["n_bits"]) == ("codes", files.FORMAT, 13)
    assert about["digest"] == CODES.digest


def test_files_that_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, codes=2 * BITS.astype(np.int8) - 1, labels=LABELS, ids=np.array([f"i{i}" for i in range(7)]))
    items = read_items(path)
    assert items.vectors == CODES
    assert items.ids is not None
    assert items.ids[6] == "i6"
    np.savez(path, packed=PACKED)
    with pytest.raises(ValueError, match="not their `n_bits`"):
        la.Codes.load(path)
    np.savez(path, packed=PACKED, n_bits=13)
    assert la.Codes.load(path) == CODES


def table_of(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_that_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    binary = pa.array([row.tobytes() for row in PACKED], pa.binary(2))
    vectors = RNG.standard_normal((7, 3))
    items = read_items(table_of(path, codes=binary, labels=pa.array(list("abcabca")), attributes=BITS[:, :2].tolist()))
    assert isinstance(items.vectors, la.Codes)
    np.testing.assert_array_equal(items.vectors.unpack()[:, :13], BITS)
    assert items.labels is not None
    assert items.labels.tolist() == list("abcabca")
    assert items.attributes is not None
    np.testing.assert_array_equal(items.attributes, BITS[:, :2])
    np.testing.assert_array_equal(read_items(table_of(path, embeddings=vectors.tolist())).vectors, vectors)
    assert read_items(table_of(path, codes=(2 * BITS.astype(np.int8) - 1).tolist())).vectors == CODES


def test_columns_that_are_not_asked_for_may_be_anything(tmp_path: Path) -> None:
    binary = pa.array([row.tobytes() for row in PACKED], pa.binary(2))
    prices, words = pa.array([None, *[1.0] * 6]), pa.array([[1], *[[1, 2]] * 6])
    items = read_items(table_of(tmp_path / "a.parquet", codes=binary, labels=LABELS, price=prices, words=words))
    assert len(items.vectors) == 7


# Tallies


@pytest.mark.parametrize("kind", ["codes", "ball", "scores", "small", "judged"])
def test_a_tally_comes_back_with_all_it_knows(kind: str, tmp_path: Path) -> None:
    relevance = la.same_label(LABELS, LABELS)
    vectors = RNG.standard_normal((7, 2))
    if kind in ("codes", "ball"):
        tally = la.count(CODES, CODES, relevance, radius=2 if kind == "ball" else None)
    elif kind == "judged":
        tally = la.count_scores(
            [[2, 1]], la.judged([("q", "a", 2), ("q", "x", 1)]), query_ids=["q"], gallery_ids=["a", "b"]
        )
    else:
        tally = la.count(vectors, vectors, relevance, similarity="euclidean", scores=kind == "scores")
    tally.save(tmp_path / "tally.npz")
    again = la.Tally.load(tmp_path / "tally.npz")
    for name in ("query_ids", "counts", "unjudged", "scores", "largest"):
        np.testing.assert_array_equal(getattr(again, name), getattr(tally, name))
    for name in ("method", "n_bits", "similarity", "complete", "condensed"):
        assert getattr(again, name) == getattr(tally, name)
    for name in ("ball", "unranked"):
        one, other = getattr(tally, name), getattr(again, name)
        assert (one is None) == (other is None)
        for key, value in vars(one).items() if one is not None else ():
            np.testing.assert_array_equal(getattr(other, key), value)
    with np.load(tmp_path / "tally.npz", allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
    assert (about["lookalike"], about["format"], about["version"]) == ("tally", files.FORMAT, la.__version__)
    assert all(len(value) == 16 for name, value in about["inputs"].items() if name != "gallery_ids")
    assert "relevance" in about["inputs"]


def test_sums_of_condensed_tallies_know_that_groups_may_be_empty() -> None:
    relevance = la.judged([("q", "a", 1)])
    tallies = [
        la.count_scores(row, relevance, query_ids=["q"], gallery_ids=ids).with_unjudged("condensed")
        for row, ids in (([[5.0, 1.0]], ["x", "a"]), ([[4.0]], ["y"]))
    ]
    assert la.evaluate_tally(tallies[0] + tallies[1], ["P@1"])["P@1"].mean == 1.0


# Results


def result_with_nan() -> la.Evaluation:
    relevance = la.grades([[1, 0, 2], [0, 0, 0]])
    names = ["AP@2", "nDCG(gain='linear')@10", "AUC"]
    return la.evaluate_scores([[1, 1, 0], [3, 2, 1]], relevance, names, query_ids=["<q>", "ü"], undefined="skip")


def test_a_result_comes_back_from_json(tmp_path: Path) -> None:
    result = result_with_nan()
    text = result.to_json(tmp_path / "result.json")
    assert "NaN" not in text
    again = la.Evaluation.from_json(tmp_path / "result.json")
    assert list(again) == list(result)
    assert again.query_ids.tolist() == ["<q>", "ü"]
    for metric in result:
        for part in ("per_query", "best_per_query", "worst_per_query"):
            np.testing.assert_array_equal(getattr(again[metric], part), getattr(result[metric], part))
        assert again[metric].undefined == result[metric].undefined == 1
        assert math.isnan(again[metric].per_query[1])
    assert str(again) == str(result)
    assert json.loads(again.to_json()) == json.loads(text)


def test_a_saved_result_can_be_traced(tmp_path: Path) -> None:
    relevance = la.same_label(LABELS, LABELS)
    result = la.evaluate(CODES, CODES, relevance, ["mAP@3", "P(radius=2)"], undefined="zero")
    saved = json.loads(result.to_json())
    assert (saved["lookalike"], saved["format"], saved["version"]) == ("evaluation", files.FORMAT, la.__version__)
    inputs = {"queries": CODES.digest, "gallery": CODES.digest, "relevance": relevance.digest}
    assert saved["inputs"] == inputs | {"gallery_ids": "positions"}
    assert [row["name"] for row in saved["scores"]] == ["AP@3", "P(radius=2)"]
    assert (saved["undefined"], saved["unjudged"], saved["bits"], saved["items"]) == ("zero", "error", 13, 7)
    other = la.evaluate(CODES[::-1], CODES, relevance, ["AP"]).to_dict()["inputs"]
    assert other["queries"] != other["gallery"]


def test_tables_of_metrics_and_of_queries() -> None:
    result = result_with_nan()
    short = result.to_pandas()
    assert list(short.index) == ["AP(norm='retrieved')@2", "nDCG(gain='linear')@10", "AUC"]
    assert short.loc["AUC", "mean"] == result["AUC"].mean
    assert list(short.columns) == ["mean", "best", "worst", "undefined", "queries"]
    long = result.to_pandas(per_query=True)
    assert list(long.index) == ["<q>", "ü"]
    assert long.index.name == "query"
    np.testing.assert_array_equal(long["AUC"], result["AUC"].per_query)


def test_html_escapes_names() -> None:
    html = result_with_nan()._repr_html_()
    assert "AP(norm=&#x27;retrieved&#x27;)@2" in html
    assert "'" not in html
    assert html.count("<tr>") == 4


def test_a_result_is_found_by_any_spelling() -> None:
    result = result_with_nan()
    assert result["mAP@2"] is result['AP(norm="retrieved")@2'] is result[la.Metric.parse("AP@2")]
    assert len(result) == 3
    with pytest.raises(KeyError, match="AP@3 was not evaluated, only AP@2"):
        result["AP@3"]


# Files that are being written


KILLED = """
import os, signal, sys
from lookalike.core.files import writing
with writing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("begun", flush=True)
    {then}
"""


def begun(path: Path, then: str) -> subprocess.Popen[str]:
    """A process in the middle of writing a file."""
    code = [sys.executable, "-c", KILLED.format(then=then), str(path)]
    child = subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    return child


def test_what_a_killed_process_left_goes_with_the_next_file_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"before")
    at_once = [begun(path, "sys.stdin.read()") for _ in range(3)]
    assert len(list(tmp_path.glob(".out.txt.*.part"))) == 3
    for child in at_once:
        child.kill()
        child.communicate()
    assert path.read_bytes() == b"before"
    assert len(list(tmp_path.glob(".out.txt.*.part"))) == 3
    (tmp_path / ".other.txt.0.part").write_bytes(b"of another file")
    files.write_text(path, "new")
    assert path.read_text() == "new"
    assert sorted(file.name for file in tmp_path.iterdir()) == [".other.txt.0.part", "out.txt"]


def test_what_a_living_process_writes_stays(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    child = begun(path, "sys.stdin.read()")
    for text in ("one", "two"):
        files.write_text(path, text)
        assert path.read_text() == text
    child.communicate("")
    assert child.returncode == 0
    assert path.read_bytes() == b"half"  # it ended last
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_many_write_one_file_at_once(tmp_path: Path) -> None:
    """Each file is whole, no process takes another's part, and nothing is left."""
    code = """
import sys
from lookalike.core.files import write_text
for _ in range(150):
    write_text(sys.argv[1], sys.argv[2] * 50_000)
    assert len(set(open(sys.argv[1]).read())) == 1
"""
    path = str(tmp_path / "out.txt")
    children = [subprocess.Popen([sys.executable, "-c", code, path, letter]) for letter in "abcd"]
    assert [child.wait() for child in children] == [0] * 4
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_nothing_is_left_where_the_block_fails(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with pytest.raises(TypeError), files.writing(path) as file:
        file.writelines([b"half", "text"])  # type: ignore[list-item]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_locks_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_: int) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files, "take", no_locks)
    files.write_text(tmp_path / "out.txt", "text")
    assert (tmp_path / "out.txt").read_text() == "text"
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_links_and_folders_with_the_name_of_a_part_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".out.txt.0.part").symlink_to("precious")
    (tmp_path / ".out.txt.1.part").mkdir()
    files.write_text(tmp_path / "out.txt", "text")
    assert (tmp_path / "out.txt").read_text() == "text"
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / ".out.txt.1.part").is_dir()


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    """A file that may not grow stands for a disk that is full."""
    code = """
import resource, signal, sys
from lookalike.core.files import writing
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with writing(sys.argv[1]) as file:
        file.write(bytes(10_000_000))
except OSError as error:
    print(error.filename)
"""
    path = tmp_path / "out.npz"
    path.write_bytes(b"before")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{path}\n"
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["out.npz"]


def test_who_may_read_a_file_may_read_the_next(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for name, mode in (("private", 0o600), ("shared", 0o664), ("new", None)):
            if mode is not None:
                (tmp_path / name).write_text("before")
                (tmp_path / name).chmod(mode)
            files.write_text(tmp_path / name, "after")
            assert (tmp_path / name).stat().st_mode & 0o777 == (0o640 if mode is None else mode)
    finally:
        os.umask(before)


def test_a_pipe_with_the_name_of_a_part_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".out.txt.0.part")
    files.write_text(tmp_path / "out.txt", "text")
    assert (tmp_path / "out.txt").read_text() == "text"
    assert (tmp_path / ".out.txt.0.part").is_fifo()


# npz files in place


def large_arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "text": np.array(["a", "bcd"]),
        "rows": rng.standard_normal((1000, 301)).astype(np.float32),
        "columns": np.asfortranarray(rng.standard_normal((400, 400))),
        "small": np.arange(3),
        "bytes": rng.integers(0, 256, 1 << 21).astype(np.uint8),
    }


def is_mapped(array: Any) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base if isinstance(array, np.ndarray) else None
    return False


@pytest.mark.parametrize("writer", ["own", "numpy", "compressed"])
def test_an_npz_file_is_read_in_place(tmp_path: Path, writer: str) -> None:
    path, arrays = tmp_path / "a.npz", large_arrays()
    if writer == "own":
        with path.open("wb") as file:
            write_npz(file, arrays)
    else:
        (np.savez if writer == "numpy" else np.savez_compressed)(path, **arrays)
    mapped, loaded = map_npz(path), np.load(path)
    assert list(mapped) == list(loaded) == list(arrays)
    for name, array in arrays.items():
        for other in (mapped[name], loaded[name]):
            np.testing.assert_array_equal(other, array)
            assert other.dtype == array.dtype
            assert other.flags.f_contiguous == array.flags.f_contiguous
        assert mapped[name].flags.aligned
        assert not mapped[name].flags.writeable
        if writer != "numpy":  # whose arrays begin where they happen to
            assert is_mapped(mapped[name]) == (writer == "own" and name in ("rows", "columns", "bytes"))


def test_damage_of_an_npz_file_in_place_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        write_npz(file, large_arrays())
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"a\.npz"):
        map_npz(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileError, match=r"a\.npz"):
        map_npz(path)
