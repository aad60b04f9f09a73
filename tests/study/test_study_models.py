"""The models of a study: added, read, replaced and removed, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.small_study import CODES, GALLERY, QUERIES, RUN, SHOP, WILD, create
from lookalike.core import files
from lookalike.evaluation.trec import read_run, write_run
from lookalike.study import model_files
from lookalike.study.study import Study

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
        with pytest.raises(ValueError, match="the study has a model 'm' already: choose another name, or pass replace"):
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
