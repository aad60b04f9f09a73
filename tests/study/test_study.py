"""A study keeps what it is given: with two processes at once, after a kill, and it says what is wrong with a folder.

What a vacuous test would let pass: processes that never meet (these start together, and their votes interleave); a kill
that comes before anything is written or after all is; a lock that nobody holds when it is asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.core import files
from lookalike.discovery import vote_log
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.pool import Pool
from lookalike.discovery.votes import Judgements, Votes
from lookalike.evaluation.trec import read_run, write_run
from lookalike.judging.store.store import Store
from lookalike.study import folder, model_files, study
from lookalike.study.study import Study

catalogue_of: Any = Catalogue  # of lists, as users write
SHOP: Catalogue = catalogue_of(
    ["a", "b", "c", "d"], ["x", "x", "y", "z"], ["shoe", "shoe", "hat", "hat"], attributes={"price": [1, 2, 3, 4]}
)
WILD: Catalogue = catalogue_of(["photo 1", "photo 2"], ["x", "y"])
RNG = np.random.default_rng(0)
GALLERY = RNG.standard_normal((4, 3)).astype(np.float32)
QUERIES = RNG.standard_normal((2, 3)).astype(np.float32)
CODES = la.Codes.pack(RNG.integers(0, 2, (4, 13)))
RUN = {"a": {"b": 0.1 + 0.2, "c": -1.0}, "c": {"d": 2.0}}


@pytest.fixture
def closed(tmp_path: Path) -> Study:
    return Study.create(tmp_path / "closed", "shoes & hats", SHOP, ["a", "c"])


@pytest.fixture
def wild(tmp_path: Path) -> Study:
    return Study.create(tmp_path / "wild", "wild ones", SHOP, WILD, wild=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "WAIT", 0.1)
    monkeypatch.setattr(vote_log, "WAIT", 0.1)


def vote(n: int = 1, expert: str = "ann", **more: Any) -> Votes:
    return Votes(["a"] * n, ["b"] * n, [expert] * n, [1] * n, **more)


def process(code: str, *arguments: Any) -> subprocess.Popen[str]:
    """Another Python that runs the code with `study`, the folder's study, and `arguments`."""
    start = "import sys\nimport lookalike as la\nstudy, arguments = la.Study.open(sys.argv[1]), sys.argv[2:]\n"
    command = [sys.executable, "-c", start + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def line_from(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


# Creating and opening


def test_a_study_comes_back(closed: Study) -> None:
    for found in (closed, Study.open(closed.path), Study.open(str(closed.path))):
        assert (found.name, found.wild, found.similarity) == ("shoes & hats", False, "cosine")
        assert found.catalogue.digest == SHOP.digest
        assert found.queries.digest == SHOP[[0, 2]].digest
        assert found.models() == []
        assert len(found.votes()) == 0
        assert found.gold() is None
        assert repr(found) == "Study(shoes & hats: 2 closed queries, 4 items, 0 models)"
    names = {"study.toml", "study.lock", "catalogue.parquet", "queries.parquet", "votes.sqlite", "models", "results"}
    assert {file.name for file in closed.path.iterdir()} == names
    assert closed.pool_path == closed.path / "pool.parquet"


def test_study_toml_says_where_it_is_from(wild: Study) -> None:
    about = tomllib.loads((wild.path / "study.toml").read_text(encoding="utf-8"))
    assert about == {
        "lookalike": "study",
        "format": files.FORMAT,
        "version": la.__version__,
        "name": "wild ones",
        "queries": "wild",
        "similarity": "cosine",
    }


@settings(max_examples=30)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
        lambda name: name.strip() and name.isprintable()
    )
)
def test_every_name_comes_back(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("named")
    Study.create(path, name, SHOP, [0])
    assert Study.open(path).name == name


@pytest.mark.parametrize(
    "queries", [["a", "c"], np.array(["a", "c"]), [0, 2], np.array([0, 2]), SHOP[[0, 2]], catalogue_of(["a", "c"])]
)
def test_queries_by_id_by_position_and_as_a_catalogue(queries: Any, tmp_path: Path) -> None:
    made = Study.create(tmp_path / "study", "s", SHOP, queries)
    assert made.queries.digest == SHOP[[0, 2]].digest


def create(path: Path, **changes: Any) -> Study:
    options: dict[str, Any] = {"name": "s", "catalogue": SHOP, "queries": ["a"]} | changes
    return Study.create(path, **options)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": ""}, "a study needs a name on one line, got ''"),
        ({"name": "two\nlines"}, "a name on one line"),
        ({"name": 7}, "a name on one line, got 7"),
        ({"similarity": "cosin"}, "similarity must be one of 'cosine', 'dot', 'euclidean', got 'cosin'"),
        ({"catalogue": SHOP[[]]}, "a catalogue with items, this one is empty"),
        ({"queries": []}, "a study needs at least one query"),
        ({"queries": ["a", "q"]}, "1 of 2 query ids are not in the catalogue, 'q'"),
        ({"queries": [0, 4]}, "positions of queries must be from 0 to 3, got 4"),
        ({"queries": [-1]}, "positions of queries must be from 0 to 3, got -1"),
        ({"queries": ["a", "a"]}, "the id 'a' stands in row 0 too"),
        ({"queries": WILD}, "2 of 2 query ids are not in the catalogue, 'photo 1'"),
        ({"queries": ["a"], "wild": True}, "queries of a wild study are a Catalogue of their own, got list"),
        ({"queries": SHOP[[1]], "wild": True}, "1 wild queries have the id of an item, such as 'b': give them ids"),
        ({"queries": WILD[[]], "wild": True}, "at least one query"),
    ],
)
def test_what_is_no_study(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        create(tmp_path / "study", **changes)
    assert list(tmp_path.iterdir()) == []


def test_a_study_is_made_in_a_new_or_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    create(Path())
    assert Study.open(Path()).catalogue.digest == SHOP.digest  # the folder one stands in is the same as before
    for taken in (tmp_path / "empty", tmp_path):
        with pytest.raises(ValueError, match="it is not a new or empty folder"):
            create(taken)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="not a new or empty folder"):
        create(tmp_path / "file")
    with pytest.raises(ValueError, match=r"the folder .*nowhere does not exist"):
        create(tmp_path / "nowhere" / "study")


def test_a_study_that_could_not_be_made_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(study, "create_record", broken)
    with pytest.raises(OSError, match="full"):
        create(tmp_path / "study")
    assert list((tmp_path / "study").iterdir()) == []
    monkeypatch.undo()
    create(tmp_path / "study")
    assert Study.open(tmp_path / "study").name == "s"


def test_a_study_is_one_only_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []

    def rename(self: Path, target: Path) -> None:
        assert (not (target.parent / "study.toml").exists()) or self.name == "study.toml"
        moved.append(self.name)
        shutil.move(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        create(tmp_path / "study")
    assert moved[-1] == "study.toml"
    assert len(moved) == 8


def spoil(name: str, content: bytes | None) -> Callable[[Path], Any]:
    def change(path: Path) -> None:
        (path / name).unlink() if content is None else (path / name).write_bytes(content)

    return change


def edited(before: str, after: str) -> Callable[[Path], Any]:
    def change(path: Path) -> None:
        text = (path / "study.toml").read_text()
        assert re.search(before, text)
        (path / "study.toml").write_text(re.sub(before, after, text))

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (spoil("study.toml", None), "is not a study, it has no study.toml: lookalike encode makes one"),
        (spoil("study.toml", b"name = \n"), r"study.toml is damaged: .*line 1"),
        (spoil("study.toml", b"\xff"), "study.toml is damaged"),
        (spoil("study.toml", b""), "study.toml is damaged: it does not say 'lookalike'"),
        (edited("format = 1", "format = 2"), r"study.toml was written by lookalike \d.*, which is newer: upgrade"),
        (edited("name = .*", ""), "study.toml is damaged: it does not say 'name'"),
        (edited('"study"', '"codes"'), "study.toml: 'lookalike' must be 'study', got 'codes'"),
        (edited('"closed"', '"open"'), "study.toml: 'queries' must be 'closed' or 'wild', got 'open'"),
        (edited('similarity = "cosine"', ""), "study.toml: 'similarity' must be 'cosine' or .*, got None"),
        (spoil("catalogue.parquet", None), "is not whole: catalogue.parquet is missing"),
        (spoil("queries.parquet", None), "is not whole: queries.parquet is missing"),
        (spoil("votes.sqlite", None), "is not whole: votes.sqlite is missing"),
    ],
)
def test_a_folder_that_is_no_whole_study(change: Callable[[Path], Any], sentence: str, closed: Study) -> None:
    change(closed.path)
    with pytest.raises(ValueError, match=sentence):
        Study.open(closed.path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none"):
        Study.open(tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "read", "sentence"),
    [
        (
            spoil("catalogue.parquet", b"PAR1"),
            lambda s: s.catalogue,
            "catalogue.parquet is not a readable Parquet file",
        ),
        (spoil("queries.parquet", b""), lambda s: s.queries, "queries.parquet is not a readable Parquet file"),
        (spoil("votes.sqlite", b"SQLite format 4" * 99), lambda s: s.votes(), "votes.sqlite is damaged or no record"),
        (spoil("votes.sqlite", b""), lambda s: s.votes(), "votes.sqlite is no record of votes: it is another SQLite"),
        (spoil("gold.parquet", b""), lambda s: s.gold(), "gold.parquet is not a readable Parquet file"),
        (spoil("models/m.npz", b"PK"), lambda s: s.model("m"), "m.npz is not a readable npz file"),
        (spoil("models/m.run.gz", b"PK"), lambda s: s.model("m"), "m.run.gz is not a whole gzip file"),
    ],
)
def test_damaged_files_are_named(
    change: Callable[[Path], Any], read: Callable[[Study], Any], sentence: str, closed: Study
) -> None:
    change(closed.path)
    with pytest.raises(ValueError, match=sentence):
        read(Study.open(closed.path))


def test_folders_without_files_may_be_missing(closed: Study) -> None:
    for name in ("models", "results"):
        (closed.path / name).rmdir()  # as archives and version control leave them
    (closed.path / "study.lock").unlink()
    assert Study.open(closed.path).models() == []
    closed.add_model("m", gallery=GALLERY)
    closed.write_result("r.json", "{}")
    assert closed.models() == ["m"]


# Models


def test_models_come_back_as_they_were_given(wild: Study) -> None:
    wild.add_model("ViT-B+32_v1.0", QUERIES, GALLERY)
    wild.add_model("double", queries=QUERIES.astype(float), gallery=GALLERY.astype(float), similarity="dot")
    wild.add_model("half", QUERIES.astype(np.float16), GALLERY.astype(np.float16), similarity="euclidean")
    wild.add_model("lists", [[1, 2], [3, 4]], [[1, 2]] * 4)
    wild.add_model("hash", CODES[:2], CODES)
    again = Study.open(wild.path)
    assert again.models() == ["ViT-B+32_v1.0", "double", "half", "hash", "lists"]
    for name, queries, gallery, similarity in (
        ("ViT-B+32_v1.0", QUERIES, GALLERY, "cosine"),
        ("double", QUERIES.astype(float), GALLERY.astype(float), "dot"),
        ("half", QUERIES.astype(np.float16), GALLERY.astype(np.float16), "euclidean"),
        ("lists", np.array([[1, 2], [3, 4]]), np.array([[1, 2]] * 4), "cosine"),
    ):
        stored = again.model(name)
        assert (stored.name, stored.similarity, stored.run) == (name, similarity, None)
        for found, expected in ((stored.queries, queries), (stored.gallery, gallery)):
            assert isinstance(found, np.ndarray)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    codes = again.model("hash")
    assert (codes.queries, codes.gallery, codes.similarity) == (CODES[:2], CODES, None)


def test_a_model_file_has_the_names_that_are_promised(wild: Study) -> None:
    wild.add_model("hash", CODES[:2], CODES)
    wild.add_model("net", QUERIES, GALLERY)
    with np.load(wild.path / "models" / "hash.npz", allow_pickle=False) as file:
        assert set(file.files) == {"query_codes", "gallery_codes", "n_bits", "about"}
        assert file["gallery_codes"].shape == (4, 2)
        assert int(file["n_bits"]) == 13
    with np.load(wild.path / "models" / "net.npz", allow_pickle=False) as file:
        assert set(file.files) == {"query_embeddings", "gallery_embeddings", "about"}
        about = json.loads(str(file["about"]))
    assert (about["lookalike"], about["format"], about["similarity"]) == ("model", files.FORMAT, "cosine")


def test_the_study_says_how_embeddings_are_compared(tmp_path: Path) -> None:
    made = create(tmp_path / "study", similarity="dot")
    made.add_model("plain", gallery=GALLERY)
    made.add_model("other", gallery=GALLERY, similarity="cosine")
    again = Study.open(made.path)
    assert [again.model(name).similarity for name in ("plain", "other")] == ["dot", "cosine"]


def test_queries_of_the_catalogue_are_in_the_gallery(closed: Study) -> None:
    closed.add_model("net", gallery=GALLERY)
    closed.add_model("hash", gallery=CODES)
    np.testing.assert_array_equal(closed.model("net").queries, GALLERY[[0, 2]])
    assert closed.model("hash").queries == CODES[[0, 2]]


def test_rows_may_be_in_another_order_if_they_say_which(wild: Study) -> None:
    order, reverse = [2, 0, 3, 1], [1, 0]
    ids = SHOP.ids[order]
    wild.add_model("net", QUERIES[reverse], GALLERY[order], query_ids=WILD.ids[reverse], gallery_ids=ids)
    wild.add_model("hash", CODES[:2][reverse], CODES[order], query_ids=WILD.ids[reverse], gallery_ids=ids.tolist())
    np.testing.assert_array_equal(wild.model("net").gallery, GALLERY)
    np.testing.assert_array_equal(wild.model("net").queries, QUERIES)
    assert wild.model("hash").gallery == CODES
    assert wild.model("hash").queries == CODES[:2]


def with_nan(matrix: np.ndarray, value: float = np.nan) -> np.ndarray:
    out = matrix.copy()
    out[1, 2] = value
    return out


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "'m' needs either embeddings or codes of the gallery, or a run"),
        ({"gallery": GALLERY, "run": {}}, "needs either embeddings or codes"),
        ({"queries": QUERIES}, "needs either embeddings or codes"),
        ({"gallery": GALLERY}, "the model 'm' needs the queries too: they are not in the catalogue"),
        ({"queries": QUERIES, "gallery": GALLERY[:3]}, "the study has 4 items, but the model 'm' has 3 of them"),
        ({"queries": QUERIES[:1], "gallery": GALLERY}, "the study has 2 queries, but the model 'm' has 1 of them"),
        ({"queries": CODES, "gallery": CODES}, "the study has 2 queries, but the model 'm' has 4 of them"),
        ({"queries": QUERIES[0], "gallery": GALLERY}, r"a matrix of embeddings of the queries, got shape \(3,\)"),
        ({"queries": QUERIES, "gallery": CODES}, "both be Codes or both embeddings"),
        ({"queries": CODES[:2], "gallery": la.Codes.pack(np.eye(4))}, "gallery codes have 4 bits, queries have 13"),
        (
            {"queries": CODES[:2], "gallery": CODES, "similarity": "dot"},
            "compared by Hamming distance: similarity='dot'",
        ),
        ({"queries": QUERIES, "gallery": GALLERY, "similarity": "l2"}, "similarity must be one of .* got 'l2'"),
        ({"queries": QUERIES[:, :2], "gallery": GALLERY}, "gallery embeddings have 3 columns, queries have 2"),
        ({"queries": QUERIES, "gallery": with_nan(GALLERY)}, "gallery embeddings hold nan, first in row 1, column 2"),
        ({"queries": with_nan(QUERIES, np.inf), "gallery": GALLERY}, "query embeddings hold inf, first in row 1"),
        ({"queries": QUERIES, "gallery": GALLERY * 0}, "gallery embedding in row 0 is zero"),
        ({"queries": [["x"]] * 2, "gallery": GALLERY}, "embeddings must be numbers"),
        (
            {"queries": QUERIES, "gallery": GALLERY, "gallery_ids": ["a", "b", "c", "e"]},
            "'m' is of another catalogue: 1 of its 4 ids are not among the items of the study, such as 'e'; one .* 'a'",
        ),
        (
            {"queries": QUERIES, "gallery": GALLERY, "query_ids": ["photo 1", "a"]},
            "not among the queries .* such as 'a'",
        ),
        ({"queries": QUERIES, "gallery": GALLERY, "gallery_ids": ["a", "b"]}, "4 rows of items, but 2 ids of them"),
        ({"queries": QUERIES, "gallery": GALLERY, "gallery_ids": list("abca")}, "the id 'a' stands in row 0 too"),
        ({"gallery": GALLERY, "query_ids": WILD.ids}, "the model 'm' has ids of queries, but no queries"),
        ({"run": {"photo 1": {"a": 1}}, "similarity": "dot"}, "'m' is a run, .*: give nothing else"),
        ({"run": {}}, "the run is empty"),
        ({"run": {"photo 1": ["a"]}}, r"a run is a TREC file or {query: {item: score}}"),
        ({"run": {"photo 3": {"a": 1}}}, "the run: there is no query 'photo 3' in the study"),
        ({"run": {"photo 1": {"e": 1}}}, "the run: there is no item 'e' in the study"),
        ({"run": {"photo 1": {"a": np.nan}}}, "the score of query 'photo 1' and item 'a' is nan"),
        ({"run": {"photo 1": {"a": 1}}}, "separates by spaces: the query 'photo 1'"),
    ],
)
def test_models_that_do_not_fit_are_refused(given: dict[str, Any], sentence: str, wild: Study) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wild.add_model("m", **given)
    assert wild.models() == []
    assert list((wild.path / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "-x", "a b", "ä", "a\n", "x" * 101, 7])
def test_names_are_file_names(name: Any, closed: Study) -> None:
    sentence = re.escape(
        f"digits and . _ + -, begins with a letter or digit and has at most 100 characters, got {name!r}"
    )
    for call in (lambda: closed.add_model(name, gallery=GALLERY), lambda: closed.write_result(name, "x")):
        with pytest.raises(ValueError, match=sentence):
            call()
    with pytest.raises(ValueError, match=sentence):
        closed.model(name)


def test_names_used_twice(closed: Study) -> None:
    closed.add_model("m", gallery=GALLERY)
    vectors: Any
    for vectors in ({"gallery": CODES}, {"run": RUN}, {"gallery": GALLERY}):
        with pytest.raises(ValueError, match="the study has a model 'm' already: choose another name, or replace it"):
            closed.add_model("m", **vectors)
    assert closed.model("m").gallery is not None
    closed.add_model("m", gallery=CODES, replace=True)
    assert closed.model("m").gallery == CODES
    closed.add_model("m", run=RUN, replace=True)
    assert closed.model("m").run == RUN
    closed.add_model("m", gallery=GALLERY, replace=True)
    assert closed.model("m").run is None
    assert [file.name for file in (closed.path / "models").iterdir()] == ["m.npz"]
    with pytest.raises(ValueError, match="cannot be named 'random', which is what pairs drawn by chance"):
        closed.add_model("random", gallery=GALLERY)


def test_models_that_are_not_there(closed: Study) -> None:
    with pytest.raises(ValueError, match=r"the study has no model 'net' \(it has none\)"):
        closed.model("net")
    closed.add_model("network", gallery=GALLERY)
    for call in (closed.model, closed.remove_model):
        with pytest.raises(ValueError, match=r"no model 'netwrk', did you mean 'network'\? \(it has network\)"):
            call("netwrk")
    closed.remove_model("network")
    assert closed.models() == []
    closed.add_model("network", run=RUN)
    closed.remove_model("network")
    assert list((closed.path / "models").iterdir()) == []


def test_runs_come_back_exactly(closed: Study, tmp_path: Path) -> None:
    closed.add_model("mapping", run=RUN)
    write_run(tmp_path / "run.txt", RUN)
    closed.add_model("file", run=tmp_path / "run.txt")
    closed.add_model("name", run=str(tmp_path / "run.txt"))
    for name in ("mapping", "file", "name"):
        stored = Study.open(closed.path).model(name)
        assert stored.run == RUN
        assert (stored.queries, stored.gallery, stored.similarity) == (None, None, None)
    assert closed.models() == ["file", "mapping", "name"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("a Q0 e 2 0.5 x", r"run.txt, line 2: there is no item 'e' in the study"),
        ("b Q0 a 2 0.5 x", r"run.txt, line 2: there is no query 'b' in the study"),
        ("a Q0 c 2 nan x", r"run.txt, line 2: the score is nan"),
        ("a Q0 b 2 0.5 x", r"run.txt, line 2: query 'a' ranks item 'b' twice"),
        ("a Q0 c 2 0.5", r"run.txt, line 2: expected 'query Q0 item rank score name'"),
    ],
)
def test_runs_that_do_not_fit_are_named_by_line(line: str, sentence: str, closed: Study, tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text(f"a Q0 b 1 1.0 x\n{line}\n")
    with pytest.raises(ValueError, match=sentence):
        closed.add_model("m", run=tmp_path / "run.txt")
    assert closed.models() == []
    with pytest.raises(FileNotFoundError, match="there is no file"):
        closed.add_model("m", run=tmp_path / "none.txt")


def test_models_of_another_study_are_told_apart(closed: Study, wild: Study) -> None:
    wild.add_model("m", GALLERY[:2], GALLERY)
    shutil.copy(wild.path / "models" / "m.npz", closed.path / "models" / "m.npz")
    with pytest.raises(ValueError, match=r"m.npz was added to another study: its rows are not those"):
        closed.model("m")
    closed.add_model("half", gallery=GALLERY)
    shutil.copy(closed.path / "models" / "half.npz", wild.path / "models" / "half.npz")
    with pytest.raises(ValueError, match=r"half.npz is not a whole model: it lacks codes or embeddings of queries or"):
        wild.model("half")
    la.Codes.pack(np.eye(4)).save(wild.path / "models" / "n.npz")
    with pytest.raises(ValueError, match=r"n.npz is not a model of a study: add it with add_model"):
        wild.model("n")


def test_a_model_is_found_while_it_changes_its_kind(closed: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that has looked for vectors in vain finds no run either, if another process turns it into vectors."""
    closed.add_model("m", run=RUN)

    def just_too_late(path: Path) -> Any:
        monkeypatch.undo()
        closed.add_model("m", gallery=CODES, replace=True)
        return read_run(path)

    monkeypatch.setattr(model_files, "read_run", just_too_late)
    assert closed.model("m").gallery == CODES


def test_a_replacement_is_one_step(closed: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two files of a change of kind the model is the old or the new one, and removing it removes both."""

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def half_replaced(**given: Any) -> Study:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", killed)
            with pytest.raises(KeyboardInterrupt):
                closed.add_model("m", **given, replace=True)
        assert len(list((closed.path / "models").iterdir())) == 2
        assert closed.models() == ["m"]
        return Study.open(closed.path)

    closed.add_model("m", gallery=GALLERY)
    np.testing.assert_array_equal(half_replaced(run=RUN).model("m").gallery, GALLERY)
    closed.add_model("m", run=RUN, replace=True)
    assert closed.model("m").run == RUN
    assert half_replaced(gallery=CODES).model("m").gallery == CODES
    closed.remove_model("m")
    assert list((closed.path / "models").iterdir()) == []


# Votes


def assert_same_votes(one: Votes, other: Votes) -> None:
    for name in ("queries", "items", "experts", "answers", "times", "seconds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


VOTES = st.lists(
    st.tuples(
        st.sampled_from("ac"),
        st.sampled_from("bd"),  # a query is not judged with itself
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5).filter(str.strip),
        st.sampled_from([1, 0, -1]),
        st.one_of(st.just("NaT"), st.integers(-(10**12), 10**13).map(lambda ms: str(np.datetime64(ms, "ms")))),
        st.one_of(st.just(float("nan")), st.floats(0, 1e9)),
    ),
    max_size=6,
)


@settings(max_examples=40)
@given(st.lists(VOTES, max_size=3))
def test_votes_come_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[Any, ...]]]
) -> None:
    made = create(tmp_path_factory.mktemp("votes"), queries=["a", "c"])
    expected = Votes([], [], [], [])
    for batch in batches:
        *ids, answers, times, seconds = [list(column) for column in zip(*batch, strict=True)] or [[]] * 6
        votes = Votes(ids[0], ids[1], ids[2], answers, np.array(times, "datetime64[ms]"), np.array(seconds, float))
        made.append_votes(votes)
        expected += votes
    assert_same_votes(Study.open(made.path).votes(), expected)


def test_votes_on_what_is_not_there(closed: Study) -> None:
    for votes, sentence in (
        (
            Votes(["a", "b"], ["b", "c"], ["ann"] * 2, [1, 1]),
            "1 of 2 voted query ids are not among the queries of the study, 'b': ids there are like 'a'",
        ),
        (
            Votes(["a", "a"], ["b", "a"], ["ann"] * 2, [1, 1]),
            "1 of 2 voted pairs are of a query with itself, first 'a': nobody has to judge these, leave them out",
        ),
        (
            Votes(["a", "a"], ["b", "e"], ["ann"] * 2, [1, 1]),
            "1 of 2 voted item ids are not in the catalogue, 'e'",
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            closed.append_votes(votes)
    assert len(closed.votes()) == 0


def test_the_record_is_append_only(closed: Study) -> None:
    closed.append_votes(vote(3))
    with contextlib.closing(sqlite3.connect(closed.path / "votes.sqlite", isolation_level=None)) as connection:
        for statement, sentence in (
            ("UPDATE votes SET answer = 0", "never changed"),
            ("UPDATE votes SET number = 9 WHERE number = 1", "never changed"),
            ("DELETE FROM votes WHERE number = 2", "never deleted"),
            ("INSERT OR REPLACE INTO votes VALUES (2, 'a', 'b', 'eve', 0, NULL, NULL)", "never replaced"),
            ("INSERT INTO votes VALUES (9, 'a', 'b', 'eve', 2, NULL, NULL)", "CHECK constraint"),
        ):
            with pytest.raises(sqlite3.IntegrityError, match=sentence):
                connection.execute(statement)
    assert_same_votes(closed.votes(), vote(3))


def test_a_vote_is_on_disk_when_it_is_said_to_be(closed: Study) -> None:
    with vote_log._opened(closed.path / "votes.sqlite") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA user_version").fetchone() == (vote_log.SCHEMA,)


def test_a_batch_is_added_whole_or_not_at_all(closed: Study) -> None:
    closed.append_votes(vote(2))
    votes = vote(3)
    votes.answers.flags.writeable = True
    votes.answers[2] = 7  # what no vote can be, and the table refuses
    with pytest.raises(ValueError, match=r"votes\.sqlite"):
        closed.append_votes(votes)
    assert len(closed.votes()) == 2
    closed.append_votes(vote(1))
    assert len(closed.votes()) == 3


def test_records_of_later_versions_and_of_others(closed: Study) -> None:
    path = closed.path / "votes.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    for call in (closed.votes, lambda: closed.append_votes(vote())):
        with pytest.raises(ValueError, match=r"votes.sqlite was written by a newer lookalike, in form 3: upgrade"):
            call()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no file .*votes.sqlite: the study is not whole"):
        closed.votes()
    assert not path.exists()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE votes (x)")
    with pytest.raises(ValueError, match=r"votes.sqlite is no record of votes: it is another SQLite database"):
        closed.votes()


def test_a_damaged_record_is_named(closed: Study) -> None:
    closed.append_votes(vote(500))
    path = closed.path / "votes.sqlite"
    content = path.read_bytes()
    assert not path.with_name("votes.sqlite-wal").exists()
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    with pytest.raises(ValueError, match=r"votes.sqlite is damaged or no record of votes"):
        closed.votes()


# Gold pairs and results


def test_gold_pairs_come_back(closed: Study) -> None:
    closed.set_gold([("a", "b", 1), ("c", "d", 0)])
    gold = Study.open(closed.path).gold()
    assert isinstance(gold, Judgements)
    assert gold.by_pair == {("a", "b"): 1, ("c", "d"): 0}
    closed.set_gold(Judgements.of([("c", "a", 1)]))
    assert closed.gold().by_pair == {("c", "a"): 1}  # type: ignore[union-attr]
    for pairs, sentence in (
        ([("b", "a", 1)], "1 of 1 gold query ids are not among the queries of the study, 'b'"),
        ([("a", "e", 1)], "1 of 1 gold item ids are not in the catalogue, 'e'"),
        ([("a", "b", 1), ("a", "c", 2)], r"a gold pair is 1 \(similar\) or 0: query 'a' and item 'c' have 2"),
        ([], "there is no judged pair"),
    ):
        with pytest.raises(ValueError, match=sentence):
            closed.set_gold(pairs)
    assert closed.gold().by_pair == {("c", "a"): 1}  # type: ignore[union-attr]
    closed.set_gold(None)
    closed.set_gold(None)
    assert closed.gold() is None


def test_results_are_written(closed: Study) -> None:
    assert closed.write_result("leaderboard.csv", "é\n") == closed.path / "results" / "leaderboard.csv"
    closed.write_result("leaderboard.csv", "model\n")
    assert (closed.path / "results" / "leaderboard.csv").read_text() == "model\n"


# Two processes at once

APPEND = """
import random
import time
import numpy as np
from lookalike.discovery.votes import Votes
expert, batches, size = arguments[0], int(arguments[1]), int(arguments[2])
study.queries, study.catalogue
print("ready", flush=True)
sys.stdin.readline()
for batch in range(batches):
    start = time.monotonic()
    seconds = np.arange(batch * size, (batch + 1) * size, dtype=float)
    study.append_votes(Votes(["a"] * size, ["b"] * size, [expert] * size, [1] * size, seconds=seconds))
    print(batch, flush=True)
    time.sleep(2 * random.random() * (time.monotonic() - start))  # or one waits until the other has done all
"""


def test_two_processes_lose_no_vote(closed: Study) -> None:
    writers = [process(APPEND, closed.path, expert, 100, 10) for expert in ("ann", "bob")]
    for writer in writers:
        assert line_from(writer) == "ready"
    seen = 0
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    while any(writer.poll() is None for writer in writers):  # a third one reads all the while
        now = len(closed.votes())
        assert now >= seen
        assert now % 10 == 0
        seen = now
        time.sleep(0.01)
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.communicate()
    votes = closed.votes()
    assert len(votes) == 2000
    for expert in ("ann", "bob"):
        assert votes.seconds[votes.experts == expert].tolist() == list(range(1000))
    turns = int((votes.experts[1:] != votes.experts[:-1]).sum())
    assert turns > 5, "the two never met"
    assert (votes.experts.reshape(-1, 10) == votes.experts.reshape(-1, 10)[:, :1]).all()  # batches stay together


ADD_ONCE = """
from lookalike.discovery.votes import Votes
study.queries, study.catalogue
print("ready", flush=True)
sys.stdin.readline()
times = [[f"2026-01-01T10:{batch // 60:02}:{batch % 60:02}Z", None][batch % 2] for batch in range(200)]
added = [
    len(study.append_votes(Votes(["a"], ["b"], [f"expert {batch}"], [1], [time]), again=False))
    for batch, time in enumerate(times)
]
print(sum(added), flush=True)
"""


@pytest.mark.parametrize("form", [1, 2])
def test_two_processes_that_add_the_same_votes_add_each_once(closed: Study, form: int) -> None:
    if form == 2:
        Store.open(None, closed).close()
    writers = [process(ADD_ONCE, closed.path) for _ in range(2)]
    for writer in writers:
        assert line_from(writer) == "ready"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert sum(int(writer.communicate()[0]) for writer in writers) == 200
    assert sorted(closed.votes().experts.tolist()) == sorted(f"expert {batch}" for batch in range(200))


@pytest.mark.parametrize("form", [1, 2])
def test_a_record_that_holds_votes_twice_gets_no_more_of_them(closed: Study, form: int) -> None:
    twice = vote(2) + vote(2, "bob", times=["2026-01-01T10:00:00Z"] * 2)
    closed.append_votes(twice)
    if form == 2:
        Store.open(None, closed).close()
    assert len(closed.append_votes(twice, again=False)) == 0
    assert len(closed.append_votes(vote(), again=False)) == 0
    assert_same_votes(closed.append_votes(vote(3), again=False), vote(1))
    assert len(closed.append_votes(vote())) == 1
    assert_same_votes(closed.votes(), twice + vote(2))


def test_one_of_two_gets_the_name(closed: Study) -> None:
    code = """
    import numpy as np
    import lookalike as la
    codes = la.Codes.pack(np.full((4, 8), int(arguments[0])))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(30):
        try:
            study.add_model(f"m{number}", gallery=codes)
            print("added", flush=True)
        except ValueError as error:
            assert "already" in str(error), error
            print("refused", flush=True)
    """
    adders = [process(code, closed.path, value) for value in (0, 1)]
    assert [line_from(adder) for adder in adders] == ["ready", "ready"]
    for adder in adders:
        assert adder.stdin is not None
        adder.stdin.write("\n")
        adder.stdin.flush()
    outcomes = [adder.communicate()[0].split() for adder in adders]
    assert [adder.returncode for adder in adders] == [0, 0]
    assert all(sorted(pair) == ["added", "refused"] for pair in zip(*outcomes, strict=True))
    assert len(closed.models()) == 30
    for number, first in enumerate(outcomes[0]):
        assert closed.model(f"m{number}").gallery == la.Codes.pack(np.full((4, 8), 0 if first == "added" else 1))


def test_only_one_of_two_makes_the_study(tmp_path: Path) -> None:
    code = f"""
    import sys
    from pathlib import Path
    from lookalike.discovery.catalogue import Catalogue
    from lookalike.study.study import Study
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        try:
            Study.create(Path({str(tmp_path)!r}) / str(number), sys.argv[1], Catalogue(["a", "b"]), ["a"])
            print("made", flush=True)
        except ValueError as error:
            assert "not a new or empty folder" in str(error), error
            print("refused", flush=True)
    """
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    assert [line_from(maker) for maker in makers] == ["ready", "ready"]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("\n")
        maker.stdin.flush()
    outcomes = [maker.communicate()[0].split() for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0]
    assert all(sorted(pair) == ["made", "refused"] for pair in zip(*outcomes, strict=True))
    for number, first in enumerate(outcomes[0]):
        assert Study.open(tmp_path / str(number)).name == ("one" if first == "made" else "two")


HOLD = """
with study.changing():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.usefixtures("impatient")
def test_who_waits_too_long_is_told_why(closed: Study) -> None:
    holder = process(HOLD, closed.path)
    assert line_from(holder) == "held"
    for call in (
        lambda: closed.add_model("m", gallery=GALLERY),
        lambda: closed.remove_model("m"),
        lambda: closed.set_gold([("a", "b", 1)]),
        lambda: closed.set_gold(None),
        lambda: closed.write_result("r.json", "{}"),
    ):
        with pytest.raises(TimeoutError, match=r"another process is changing this study, .*closed: try again"):
            call()
    closed.append_votes(vote())  # experts do not wait for organisers
    assert len(closed.votes()) == 1
    holder.communicate("\n")
    closed.add_model("m", gallery=GALLERY)


def test_a_lock_goes_with_its_process(closed: Study) -> None:
    holder = process(HOLD, closed.path)
    assert line_from(holder) == "held"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    closed.add_model("m", gallery=GALLERY)
    assert closed.models() == ["m"]


@pytest.mark.usefixtures("impatient")
def test_a_record_that_stays_locked_is_told(closed: Study) -> None:
    with contextlib.closing(sqlite3.connect(closed.path / "votes.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TimeoutError, match=r"another process is changing this study, .*votes.sqlite: try again"):
            closed.append_votes(vote())
        assert len(closed.votes()) == 0  # readers do not wait for writers
        other.execute("ROLLBACK")
    closed.append_votes(vote())


# Killed in the middle


def test_a_writer_of_votes_that_is_killed_leaves_whole_batches(closed: Study) -> None:
    dice = random.Random(0)
    expected = 0
    for round_ in range(3):
        writer = process(APPEND, closed.path, f"e{round_}", 10_000, 50)
        assert line_from(writer) == "ready"
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        line_from(writer)
        time.sleep(dice.uniform(0, 0.2))
        writer.send_signal(signal.SIGKILL)
        said = writer.communicate()[0].split("\n")[:-1]
        assert writer.returncode == -signal.SIGKILL
        votes = closed.votes()
        mine = votes.seconds[votes.experts == f"e{round_}"]
        assert mine.tolist() == list(range(len(mine)))
        assert len(mine) % 50 == 0
        assert len(mine) >= 50 * (1 + len(said)), "a vote that was acknowledged is gone"
        expected += len(mine)
        assert len(votes) == expected
    closed.append_votes(vote())
    assert len(closed.votes()) == expected + 1


def test_a_writer_of_models_that_is_killed_leaves_the_old_or_the_new(closed: Study) -> None:
    code = """
    import numpy as np
    for number in range(10**6):
        gallery = np.full((4, 400_000), float(number + 1), np.float32)
        if number % 3 == 2:
            study.add_model("m", run={"a": {"b": float(number + 1)}}, replace=True)
        else:
            study.add_model("m", gallery=gallery, replace=True)
        print(number, flush=True)
    """
    models = closed.path / "models"
    left = 0
    for n_writes in (1, 2, 3):
        writer = process(code, closed.path)
        assert line_from(writer) == "0"
        seen: set[tuple[str, int]] = set()
        while len(seen) < n_writes:  # files that are being written
            with contextlib.suppress(FileNotFoundError):  # one that has its name since
                seen |= {(file.name, file.stat().st_mtime_ns) for file in models.iterdir() if file.suffix == ".part"}
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        left += len(list(models.glob(".*.part")))
        again = Study.open(closed.path)
        assert again.models() == ["m"]
        stored = again.model("m")
        if stored.run is None:
            assert isinstance(stored.gallery, np.ndarray)
            assert stored.gallery.shape == (4, 400_000)
            assert (stored.gallery == stored.gallery[0, 0]).all()
            assert (stored.queries == stored.gallery[0, 0]).all()
    assert left, "no kill came in the middle of a write"
    closed.add_model("n", gallery=GALLERY)
    assert {file.name for file in models.iterdir()} - {"m.npz", "m.run.gz"} == {"n.npz"}


def test_a_study_whose_maker_was_killed_can_be_made_again(tmp_path: Path) -> None:
    code = f"""
    import time
    from lookalike.study import study
    from lookalike.discovery.catalogue import Catalogue

    def slow(path):
        print("half", flush=True)
        time.sleep(60)

    study.create_record = slow
    study.Study.create({str(tmp_path / "study")!r}, "s", Catalogue(["a"]), ["a"])
    """
    maker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert line_from(maker) == "half"
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    assert any((tmp_path / "study").iterdir())
    with pytest.raises(ValueError, match=r"is not a study, it has no study\.toml"):
        Study.open(tmp_path / "study")
    create(tmp_path / "study")
    assert Study.open(tmp_path / "study").catalogue.digest == SHOP.digest
    assert not list((tmp_path / "study").glob(".*"))


# Pools that have been voted on


def test_a_judged_pool_is_not_replaced_unawares(
    closed: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lookalike.cli import main

    def ended(*arguments: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(["pool", str(closed.path), *arguments])
        return int(end.value.code or 0)

    closed.add_model("net", gallery=GALLERY)
    assert ended("--k", "1") == 0
    query, item = closed.pool().pairs[0]
    closed.append_votes(Votes([query], [item], ["ann"], [1]))
    assert ended("--k", "2") == 2
    assert (
        "the study has a pool with 1 votes, and its record of who proposed what would be lost"
        in capsys.readouterr().err
    )
    assert closed.pool().k == 1
    assert ended("--k", "2", "--replace") == 0
    assert closed.pool().k == 2
    with pytest.raises(ValueError, match="the pool has what the model 'net' proposed: give the new one another name"):
        closed.add_model("net", gallery=GALLERY[::-1], replace=True)


def test_two_that_top_up_at_once_lose_nothing(closed: Study) -> None:
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(0)
    names = [f"m{number}" for number in range(6)]
    for name in ("first", *names):
        closed.add_model(name, gallery=rng.normal(size=(4, 3)))
    closed.write_pool(Pool.build({"first": closed.model("first").given}, closed.collection, k=1))
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda name: Study.open(closed.path).top_up(name, threads=1), names))
    assert set(closed.pool().models) == {"first", *names}


def test_items_of_a_wild_study_have_identities_without_those_of_queries(tmp_path: Path) -> None:
    items = Catalogue(["a1", "a2", "b1"], identities=["a", "a", "b"])
    study = Study.create(tmp_path / "wild", "wild", items, Catalogue(["q", "a"]), wild=True)
    study.add_model("net", np.eye(2), np.array([[1, 0.2], [0.9, 0.3], [0.1, 1]]))
    pool = Pool.build({"net": study.model("net").given}, study.collection, k=2, one_per_identity=True)
    assert sorted(pool.pairs) == [("a", "a2"), ("a", "b1"), ("q", "a1"), ("q", "b1")]


def test_queries_of_a_pool_can_be_chosen_again_until_somebody_voted(closed: Study) -> None:
    closed.add_model("net", gallery=GALLERY)
    closed.write_pool(Pool.build({"net": closed.model("net").given}, closed.collection, k=1))
    with pytest.raises(ValueError, match=rf"to choose others, remove {re.escape(str(closed.pool_path))}, nobody has"):
        closed.set_queries(["b"])
    query, item = closed.pool().pairs[0]
    closed.append_votes(Votes([query], [item], ["ann"], [1]))
    with pytest.raises(ValueError, match="to choose others, make another study"):
        closed.set_queries(["b"])
