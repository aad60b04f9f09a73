"""A study is made and opened again, and says what is wrong with a folder."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.small_study import GALLERY, SHOP, WILD, catalogue_of, create
from lookalike.core import files
from lookalike.study import study
from lookalike.study.study import Study

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
