"""Bad input of every kind gets one clear sentence, as a ValueError or TypeError, and leaves nothing half-written.

What a vacuous test would let pass: a sentence that names no row, no line, no file; an error that only comes because
something else broke further down (the words asked for are those of the check); a pickle that was refused after it had
run (the one here leaves a mark when it does).
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from lookalike.core import files
from lookalike.evaluation.item_files import read_items

BITS = np.array([[0, 1, 1], [1, 0, 1]])
CODES = la.Codes.pack(BITS)
SAME = la.same_label([0, 1], [0, 1])
MATRIX = [[2.0, 1.0], [1.0, 2.0]]
VECTORS = np.array([[1.0, 2.0], [3.0, 4.0]])
JUDGED = la.judged([("q", "a", 1), ("q", "b", 0)])
RUN = {"q": {"a": 2.0, "b": 1.0}}


def with_value(value: float, row: int) -> np.ndarray[Any, Any]:
    vectors = VECTORS.copy()
    vectors[row, 1] = value
    return vectors


def scores(metrics: Any = ("AP",), **options: Any) -> Any:
    return la.evaluate_scores(MATRIX, SAME, metrics, **options)


def evaluate(queries: Any = CODES, gallery: Any = CODES, relevance: Any = SAME, **options: Any) -> Any:
    return la.evaluate(queries, gallery, relevance, **{"metrics": ["AP"], **options})


def refused(call: Callable[..., Any], match: str, *arguments: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        call(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 400


TABLE: dict[str, tuple[Callable[[], Any], str]] = {
    # codes
    "different bits": (
        lambda: evaluate(gallery=la.Codes.pack(np.ones((2, 4)))),
        "gallery codes have 4 bits, queries have 3",
    ),
    "one row of bits": (lambda: la.Codes.pack([1, 0]), r"matrix \(n, n_bits\), got shape \(2,\)"),
    "no bits": (lambda: la.Codes.pack(np.ones((2, 0))), "from 1 to 4096, got 0"),
    "too many bits": (lambda: la.Codes.pack(np.ones((1, 4097))), "from 1 to 4096, got 4097"),
    "a two among bits": (lambda: la.Codes.pack([[0, 1], [1, 2]]), "got 2 in row 1, bit 1"),
    "nan among bits": (lambda: la.Codes.pack([[0.0, np.nan]]), "got nan in row 0, bit 1"),
    "half a bit": (lambda: la.Codes.pack([[0.5, 1.0]]), "got 0.5 in row 0, bit 0"),
    "three values": (lambda: la.Codes.pack([[-1, 0, 1]]), "-1, 0 and others together"),
    "words as bits": (lambda: la.Codes.pack([["0", "1"]]), "numbers or booleans"),
    "packed of wrong width": (lambda: la.Codes.from_bytes(np.zeros((2, 3), np.uint8), n_bits=8), r"\(n, 1\) of uint8"),
    "packed of wrong type": (lambda: la.Codes.from_bytes(np.zeros((2, 1), int), n_bits=8), "uint8, got .* int64"),
    "bits beyond the last": (lambda: la.Codes.from_bytes(np.full((2, 1), 255, np.uint8), n_bits=7), "beyond the 7"),
    "fractional n_bits": (lambda: la.Codes.from_bytes(np.zeros((2, 1), np.uint8), n_bits=7.5), "whole number"),  # type: ignore[arg-type]
    "words of wrong type": (lambda: la.Codes(np.zeros((2, 1)), 3), "uint64"),
    # embeddings and scores
    "nan in queries": (lambda: evaluate(with_value(np.nan, 1), VECTORS), "query .* nan, first in row 1, column 1"),
    "infinite gallery": (lambda: evaluate(VECTORS, with_value(np.inf, 0)), "gallery .* inf, first in row 0, column 1"),
    "zero vector": (lambda: evaluate(VECTORS, VECTORS * [[1], [0]]), "gallery embedding in row 1 is zero"),
    "different columns": (lambda: evaluate(VECTORS, np.ones((2, 3))), "3 columns, queries have 2"),
    "one embedding": (lambda: evaluate(VECTORS[0], VECTORS), r"must be a matrix, got shape \(2,\)"),
    "words as embeddings": (lambda: evaluate([["a"]], [["b"]]), "must be numbers"),
    "too far apart": (lambda: evaluate(VECTORS * 1e200, VECTORS, similarity="euclidean"), "query .*row 0.*large"),
    "no columns": (lambda: evaluate(np.ones((2, 0)), np.ones((2, 0)), similarity="dot"), "column"),
    "codes with embeddings": (lambda: evaluate(CODES, VECTORS), "both be Codes or both embeddings"),
    "unknown similarity": (lambda: evaluate(VECTORS, VECTORS, similarity="cos"), "'cosine', 'dot', 'euclidean', got"),
    "nan scores": (lambda: la.evaluate_scores([[1, np.nan]], la.grades([[1, 0]])), "nan, first in row 0, column 1"),
    "LGAP of embeddings": (lambda: evaluate(VECTORS, VECTORS, metrics=["LGAP@2"]), "LGAP is a metric of codes"),
    "radius of cosines": (lambda: evaluate(VECTORS, VECTORS, metrics=["P(radius=1)"]), "radius needs a distance"),
    # nothing there
    "no gallery": (lambda: evaluate(gallery=CODES[:0], relevance=la.same_label([0, 1], [])), "gallery is empty"),
    "no queries": (lambda: evaluate(CODES[:0], relevance=la.same_label([], [0, 1])), "no queries"),
    "no scores": (lambda: la.evaluate_scores(np.ones((1, 0)), la.grades(np.ones((1, 0)))), "gallery is empty"),
    "no judgement": (lambda: la.judged([]), "no judged pair"),
    "no metric": (lambda: scores([]), "no metric is asked for"),
    # relevance
    "negative grade": (lambda: la.grades([[0, -1]]), "from 0 to 32767, got -1 in row 0, column 1"),
    "half a grade": (lambda: la.grades([[0.5]]), "whole number from 0 to 32767, got 0.5 in row 0, column 0"),
    "nan grade": (lambda: la.grades([[0, 1], [np.nan, 1]]), "got nan in row 1, column 0"),
    "grade too large": (lambda: la.grades([[40_000]]), "to 32767, got 40000"),
    "words as grades": (lambda: la.grades([["good"]]), "whole numbers"),
    "judged with half a grade": (lambda: la.judged([("q", "a", 1), ("q", "b", 1.5)]), "got 1.5 in row 1"),
    "judged with a word": (lambda: la.judged([("q", "a", "good")]), "got 'good' in row 0"),
    "judged with two fields": (lambda: la.judged([("q", "a")]), "row 0 is"),
    "judged twice": (lambda: la.judged([("q", "a", 1), ("q", "a", 2)]), "'q' and item 'a' are judged twice: 1 and 2"),
    "tags of two": (lambda: la.shared_tags([[0, 2]], [[0, 1]]), "query tags must be 0 or 1"),
    "tags of other width": (lambda: la.shared_tags([[0, 1]], [[0, 1, 1]]), "2 columns, gallery tags 3"),
    "attributes of other width": (lambda: la.matching_attributes([[0, 1]], [[0]]), r"\(1, 2\) and \(1, 1\)"),
    "labels as a matrix": (lambda: la.same_label([[0]], [0]), r"one for each item, got shape \(1, 1\)"),
    "labels with fractions": (lambda: la.same_label([0.5], [0]), "whole numbers or strings"),
    "words and numbers": (lambda: la.same_label(["0"], [0]), "nothing can be equal"),
    "too few labels": (lambda: evaluate(relevance=la.same_label([0], [0, 1])), "for 1 queries and 2 items, but there"),
    "hierarchy of one level": (lambda: la.hierarchy([0], [0]), r"\(fine, coarse\)"),  # type: ignore[arg-type]
    "hierarchy of other length": (lambda: la.hierarchy(([0, 1], [0]), ([0], [0])), "as many fine as coarse"),
    "relevance as a matrix": (lambda: evaluate(relevance=np.eye(2)), "relevance must come from .* got ndarray"),
    "large grades gained": (lambda: la.evaluate_scores([[1]], la.grades([[2000]]), ["nDCG"]), r"2\^2000 .*linear"),
    # ids, exclusion and options
    "too few ids": (lambda: scores(gallery_ids=["a"]), r"gallery_ids must be 2 ids, .* \(1,\)"),
    "ids twice": (lambda: scores(query_ids=["a", "a"]), "query_ids must differ, 'a' occurs 2 times"),
    "judged others": (lambda: la.evaluate_scores([[1]], JUDGED, query_ids=["x"]), "judged are 'q', queries are 'x'"),
    "excluded word": (lambda: scores(exclude="same"), "'self', got 'same'"),
    "excluded sizes": (lambda: scores(exclude=([0], [0, 1])), "1 queries and 2 items, but there are 2 and 2"),
    "self without ids": (
        lambda: evaluate(CODES[:1], relevance=la.same_label([0], [0, 1]), exclude="self"),
        "needs query_ids and gallery_ids",
    ),
    "no threads": (lambda: evaluate(threads=0), "threads must be a whole number from 1, got 0"),
    "no threads for scores": (lambda: scores(threads=-1), "from 1, got -1"),
    "unknown undefined": (lambda: scores(undefined="nan"), "'zero', 'one', 'skip', 'error', got 'nan'"),
    "unknown unjudged": (lambda: scores(unjudged="skip"), "'irrelevant', 'condensed', 'error', got 'skip'"),
    "unknown method": (lambda: la.count(CODES, CODES, SAME, method="fast"), "'scan', 'plain', got 'fast'"),
    "negative radius": (lambda: la.count(CODES, CODES, SAME, radius=-1), "radius must be a whole number from 0"),
    "unknown option": (lambda: scores(tie="argsort"), "unexpected keyword argument 'tie'"),
    "level of 95": (lambda: scores()["AP"].interval(95), "between 0 and 1, got 95"),
    "level of 0": (lambda: scores()["AP"].interval(0), "between 0 and 1, got 0"),
    # runs
    "run on labels": (lambda: la.evaluate_run(RUN, SAME), "la.judged"),
    "run of others": (lambda: la.evaluate_run({"x": {"a": 1.0}}, JUDGED), "ranks nothing"),
    "run with nan": (lambda: la.evaluate_run({"q": {"a": np.nan}}, JUDGED), "query 'q' a score that is not a number"),
    "unjudged in a run": (lambda: la.evaluate_run({"q": {"c": 1.0}}, JUDGED), "nobody judged 1 .* query 'q'"),
    # tallies and comparisons
    "no tally": (lambda: la.evaluate_tally(CODES), "a tally is needed, got Codes"),  # type: ignore[arg-type]
    "one evaluation": (lambda: la.compare({"a": scores()}), "at least two evaluations, got 1"),
    "nothing in common": (lambda: la.compare({"a": scores(), "b": scores(["P@1"])}), "no metric in common"),
    "other queries": (
        lambda: la.compare({"a": scores(query_ids=["x", "y"]), "b": scores(query_ids=["x", "z"])}),
        "different queries: query 'y' is not in 'b'",
    ),
    "fewer queries": (
        lambda: la.compare({"a": la.evaluate_scores([[1]], la.grades([[1]])), "b": la.evaluate_scores(MATRIX, SAME)}),
        "different queries: 1 and 2 queries",
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_bad_input_is_told_in_one_sentence(case: str) -> None:
    refused(*TABLE[case])


METRIC_NAMES = {
    "nDGC@10": "there is no metric 'nDGC', did you mean 'nDCG'",
    "map@10": "no metric 'map', did you mean 'mAP'",
    "Accuracy": "there is no metric 'Accuracy', did you mean 'AUC'",
    "Recall@5": "there is no metric 'Recall', did you mean 'R'",
    "Precision@5": "there is no metric 'Precision', did you mean 'P'",
    "xyz": "there is no metric 'xyz', only AP, nDCG, DCG, P, R, ",
    "AP@0": "cutoff of AP must be a whole number from 1, got '0'",
    "AP@-1": "whole number from 1, got '-1'",
    "AP@1.5": "whole number from 1, got '1.5'",
    "AP@ten": "whole number from 1, got 'ten'",
    "P": "P needs a cutoff or a radius",
    "P(radius=2)@10": "P needs a cutoff or a radius",
    "P(radius=-1)": "'radius' parameter of P must be a number from 0, got -1",
    "AUC@10": "AUC has no cutoff",
    "LGAP": "LGAP needs a radius",
    "nDCG(gian='linear')": "nDCG has no parameter 'gian', did you mean 'gain'",
    "nDCG(gain='lineal')": "one of 'exponential', 'linear', got 'lineal', did you mean 'linear'",
    "AP(rel=0)": "'rel' parameter of AP must be a whole number from 1, got 0",
    "AP(rel=1.5)": "whole number from 1, got 1.5",
    "AP(rel=1, rel=2)": "given rel twice",
    "AP(2)": "name=value, got '2'",
    "AP@10@20": "is not the name of a metric",
    "": "is not the name of a metric",
}


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_a_wrong_name_of_a_metric(name: str) -> None:
    refused(lambda: scores([name]), METRIC_NAMES[name])


def test_metrics_are_names() -> None:
    assert list(map(str, scores("AP P@1"))) == ["AP", "P@1"]
    refused(lambda: scores([7]), "got 7")


@pytest.mark.parametrize("name", ["nDCG", "DCG", "AP", "R", "RR", "Hit"])
def test_a_cutoff_past_every_number_is_the_whole_ranking(name: str) -> None:
    deep, huge = f"{name}@1000", f"{name}@{10**20}"
    result = scores([deep, huge])
    assert result[deep].mean == result[huge].mean > 0


# Files


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-20])
    return path


def text(path: Path, content: str = "not what the name says\n" * 9) -> Path:
    path.write_text(content)
    return path


def npz(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def saved(path: Path) -> Path:
    CODES.save(path)
    return path


def flipped(path: Path) -> Path:
    """A byte changed in the middle of compressed data."""
    np.savez_compressed(path, codes=np.random.default_rng(0).integers(0, 2, (500, 64)))
    data = bytearray(path.read_bytes())
    data[100:140] = bytes(255 - byte for byte in data[100:140])
    path.write_bytes(data)
    return path


def renamed(path: Path) -> Path:
    """An npy file under the name of an npz file."""
    with path.open("wb") as file:
        np.save(file, BITS)
    return path


FILES: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "npz cut short": ("a.npz", lambda p: truncated(saved(p)), "not a readable npz file"),
    "npz of text": ("a.npz", text, "not (a readable npz file|an npz file of plain arrays)"),
    "npz of nothing": ("a.npz", lambda p: text(p, ""), "not a readable npz file"),
    "npz with a flipped byte": ("a.npz", flipped, "not a readable npz file"),
    "npy named npz": ("a.npz", renamed, "a.npz is not"),
    "npz of other arrays": ("a.npz", lambda p: npz(p, x=[1, 2]), "holds no codes.* it has 'x'"),
    "packed in one row": ("a.npz", lambda p: npz(p, packed=np.zeros(3, np.uint8)), "packed"),
    "too few labels": ("a.npz", lambda p: npz(p, codes=BITS, labels=[1]), "2 items, but 1 labels"),
    "one label for all": ("a.npz", lambda p: npz(p, codes=BITS, labels=1), "labels"),
    "foreign about": ("a.npz", lambda p: npz(p, codes=BITS * 2, about=np.array("[1]")), "a.npz|got 2 in row 0"),
    "parquet cut short": ("a.parquet", lambda p: truncated(saved(p)), "not a readable Parquet file"),
    "parquet of text": ("a.parquet", text, "not a readable Parquet file"),
    "npy of text": ("a.npy", text, "not a readable npy file"),
    "npy in one row": ("a.npy", lambda p: np.save(p, BITS[0]) or p, "must hold a matrix"),  # type: ignore[func-returns-value]
    "another ending": ("a.xyz", text, "must end in .npz, .npy, .parquet, .*or .index"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_named(case: str, tmp_path: Path) -> None:
    name, make, match = FILES[case]
    refused(read_items, match, make(tmp_path / name))


@pytest.mark.parametrize("read", [la.Codes.load, la.Tally.load, read_items, la.read_run, la.read_qrels])
def test_a_missing_file_is_named(read: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=re.escape(f"there is no file {tmp_path / 'no.npz'}")):
        read(tmp_path / "no.npz")


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("ending", ["npz", "npy"])
def test_nothing_is_unpickled(ending: str, tmp_path: Path) -> None:
    path, mark = tmp_path / f"trap.{ending}", tmp_path / "mark"
    trap = np.array([Trap(mark), Trap(mark)], object)
    np.savez(path, codes=BITS, labels=trap) if ending == "npz" else np.save(path, trap)
    refused(read_items, re.escape(str(path)), path)
    assert not mark.exists()


QRELS = {
    "q 0 a 1\nq 0 b\n": "line 2: expected 'query iteration item grade'",
    "q 0 a 1\n\nq 0 b -1\n": "line 3: a grade must be a whole number from 0 to 32767, got '-1'",
    "q 0 a 1.5\n": "line 1: .* got '1.5'",
    "q 0 a 1\nq 0 a 2\n": "line 2: query 'q' and item 'a' were judged 1 before",
    "q 0 a 40000\n": "line 1: .*32767",
    "": "is empty",
}
RUNS = {
    "q Q0 a 1 2.5\n": "line 1: expected 'query Q0 item rank score name'",
    "q Q0 a 1 2.5 r\nq Q0 b 2 high r\n": "line 2: the score must be a number, got 'high'",
    "q Q0 a 1 nan r\n": "line 1: the score is nan",
    "q Q0 a 1 2.5 r\nq Q0 a 2 1.5 r\n": "line 2: query 'q' ranks item 'a' twice",
    "\n": "is empty",
}


@pytest.mark.parametrize(
    ("read", "content", "match"),
    [*((la.read_qrels, c, m) for c, m in QRELS.items()), *((la.read_run, c, m) for c, m in RUNS.items())],
)
def test_a_bad_line_is_named(read: Callable[[Path], Any], content: str, match: str, tmp_path: Path) -> None:
    refused(read, match, text(tmp_path / "lines.txt", content))


def test_a_bad_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"q 0 a 1\n" * 100)[:-9])
    refused(la.read_qrels, "not a whole gzip file", path)
    refused(la.read_qrels, "not a whole gzip file", text(path))
    (tmp_path / "plain.txt").write_bytes(gzip.compress(b"q 0 a 1\n"))
    refused(la.read_qrels, "not a text file", tmp_path / "plain.txt")


def test_a_file_of_a_newer_format_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tally, result = la.count(CODES, CODES, SAME), evaluate()
    with monkeypatch.context() as later:
        later.setattr(files, "FORMAT", files.FORMAT + 1)
        for ending in ("npz", "parquet"):
            CODES.save(tmp_path / f"codes.{ending}")
        tally.save(tmp_path / "tally.npz")
        result.to_json(tmp_path / "result.json")
    for name in ("codes.npz", "codes.parquet"):
        refused(la.Codes.load, "newer: upgrade", tmp_path / name)
    refused(la.Tally.load, "newer: upgrade", tmp_path / "tally.npz")
    refused(la.Evaluation.from_json, "newer: upgrade", tmp_path / "result.json")


def test_a_file_of_another_kind_says_so(tmp_path: Path) -> None:
    CODES.save(tmp_path / "codes.npz")
    refused(la.Tally.load, "holds no tally", tmp_path / "codes.npz")
    refused(la.Evaluation.from_json, "holds no evaluation", text(tmp_path / "a.json", json.dumps({"a": 1})))
    refused(la.Evaluation.from_json, "is not a JSON file", text(tmp_path / "b.json", "{"))


# Sums


def test_a_sum_past_64_bits_is_an_error() -> None:
    by_code, by_score = la.count(CODES, CODES, SAME), la.count_scores(MATRIX, SAME)
    for tally in (by_code, by_score):
        large = replace(tally, counts=tally.counts * 2**62)
        refused(lambda t: t + t, r"2\^63", large)


# Writing


def failing(*_: Any, **__: Any) -> None:
    raise RuntimeError("the disk is full")


@pytest.mark.parametrize("name", ["codes.npz", "codes.parquet", "result.json", "tally.npz"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = la.count(CODES, CODES, SAME)
    save = {"codes": CODES.save, "result": evaluate().to_json, "tally": tally.save}[Path(name).stem]
    save(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    monkeypatch.setattr(os, "fsync", failing)  # when all is written and before it takes its name
    with pytest.raises(RuntimeError, match="full"):
        save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == before


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    text(tmp_path / "file")
    refused(evaluate().to_json, "does not exist", tmp_path / "no" / "a.json")
    refused(evaluate().to_json, "does not exist", tmp_path / "file" / "a.json")
    refused(CODES.save, "must end in .npz or .parquet", tmp_path / "codes.bin")
    refused(la.count(CODES, CODES, SAME).save, "must end in .npz", tmp_path / "tally.parquet")
    with pytest.raises((OSError, ValueError), match=r"folder\.json"):
        evaluate().to_json(tmp_path / "folder.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.json"]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(CODES.save, "does not exist", tmp_path / "file" / "codes.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
