"""The nearest items of a study, and the commands that encode and search."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.photos import command, picture, write
from lookalike.study.encode import NothingUsableError, encode_folder
from lookalike.study.finder import Finder, build_index
from lookalike.study.study import Study

# Finding


def test_look_alikes_of_items_and_pictures(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    finder = Finder(study, "colour")
    gallery = study.model("colour").gallery
    assert isinstance(gallery, np.ndarray)
    scores = gallery @ gallery.T
    np.fill_diagonal(scores, -np.inf)
    looks = finder.like_item(2, 4)
    assert looks.items.tolist() == np.argsort(-scores[2], kind="stable")[:4].tolist()
    np.testing.assert_allclose(looks.distances, np.sort(scores[2])[::-1][:4], atol=1e-6)
    dogs = np.arange(6) >= 3
    assert set(finder.like_item(4, 9, among=dogs).items.tolist()) == {3, 5}
    new = finder.like_picture(photos / "cats" / "2.png", 2)
    assert new.items[0] == 2
    assert np.array_equal(finder.like_picture(picture(2), 2).items, new.items)
    with pytest.raises(ValueError, match="positions from 0 to 5, got 6"):
        finder.like_item(6, 1)
    with pytest.raises(ValueError, match=r"there is no file none\.png"):
        finder.like_picture(Path("none.png"), 1)


def test_ties_that_k_cuts_are_counted(tmp_path: Path) -> None:
    from lookalike.discovery import Catalogue

    bits = np.zeros((9, 8), int)
    bits[1:6, 0] = 1
    bits[6:, :3] = 1
    study = Study.create(tmp_path / "s", "s", Catalogue([f"i{n}" for n in range(9)]), [0])
    study.add_model("codes", gallery=la.Codes.pack(bits))
    looks = Finder(study, "codes").like_item(0, 3)
    assert (looks.items.tolist(), looks.distances.tolist(), looks.groups.tolist(), looks.more) == (
        [1, 2, 3], [1, 1, 1], [0, 0, 0], 2,
    )  # fmt: skip
    looks = Finder(study, "codes").like_item(0, 6)
    assert (looks.groups.tolist(), looks.more) == ([0, 0, 0, 0, 0, 1], 2)
    looks = Finder(study, "codes").like_item(8, 2)  # of equals, itself is not the first
    assert (looks.items.tolist(), looks.distances.tolist(), looks.more) == ([6, 7], [0, 0], 0)
    with pytest.raises(ValueError, match="was added from a file, so that new pictures cannot be searched for"):
        Finder(study, "codes").like_picture(picture(0), 1)
    study.add_model("run", run={"i0": {"i1": 1.0}})
    with pytest.raises(ValueError, match="'run' is a run, which ranks only the queries it names"):
        Finder(study, "run")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, apart from loading of loops, which takes long on a busy machine and is then said."""
    return [message for message in caplog.messages if "compiling" not in message]


def test_a_stale_index_is_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from lookalike.discovery import Catalogue

    rng = np.random.default_rng(0)
    study = Study.create(tmp_path / "s", "s", Catalogue([f"i{n}" for n in range(400)]), [0])
    study.add_model("net", gallery=rng.normal(size=(400, 8)).astype(np.float32))
    assert build_index(study, "net", kind="ivf").kind == "ivf"
    assert Finder(study, "net").index.kind == "ivf"
    assert told(caplog) == []
    study.add_model("net", gallery=rng.normal(size=(400, 8)).astype(np.float32), replace=True)
    finder = Finder(study, "net")
    assert "the study has changed since net was indexed" in caplog.text
    assert finder.index.fits(study.model("net").gallery)
    assert finder.index.kind == "ivf"
    caplog.clear()
    assert Finder(study, "net").index.kind == "ivf"
    assert told(caplog) == []
    build_index(study, "net", kind="exact")
    assert not study.index_path("net").exists()


# Commands


def test_search_by_path_and_id(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("encode", "photos", "--model", "phash") == 0
    assert "lookalike look photos-study" in capsys.readouterr().out

    def found(*arguments: str) -> Any:
        assert command("search", "photos-study", *arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    by_id, by_path = found("cats/1.png", "-k", "3"), found("photos/cats/1.png", "-k", "3")
    assert by_id["found"] == by_path["found"]
    assert by_id["is_item"]
    assert len(by_id["found"]) == 3
    assert "cats/1.png" not in [each["id"] for each in by_id["found"]]
    shutil.copy(photos / "cats" / "1.png", tmp_path / "elsewhere.png")
    other = found("elsewhere.png", "-k", "1")
    assert (other["is_item"], other["found"][0]["id"], other["found"][0]["distance"]) == (False, "cats/1.png", 0)
    dogs = found("cats/1.png", "--where", "category=dogs")
    assert {each["category"] for each in dogs["found"]} == {"dogs"}
    assert command("search", "photos-study", "cats/1.png", "-k", "3", "--paths") == 0
    paths = capsys.readouterr().out.splitlines()
    assert paths == [str(photos.resolve() / each["id"]) for each in by_id["found"]]
    assert command("search", "photos-study", "cats/1.png", "-k", "4", "--html") == 0
    printed = capsys.readouterr().out
    assert "Hamming distance of 64 bits" in printed
    page = (tmp_path / "lookalike-search.html").read_text()
    assert page.count("data:image/") == 5
    assert "What looks like cats/1.png" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["cats/11.png"],
            "there is no file cats/11.png, and no item of that id in the study: did you mean cats/1.png?",
        ),
        (["cats/1.png", "--model", "phas"], "the study has no model 'phas', did you mean 'phash'?"),
        (["cats/1.png", "--where", "dogs"], "--where must be COLUMN=VALUE"),
        (["cats/1.png", "--where", "category=dog"], "no item has the category 'dog': values are cats, dogs"),
        (["cats/1.png", "--where", "colour=red"], "the catalogue has no column 'colour'"),
        (["cats/1.png", "-k", "0"], "k"),
        (["text.png"], "text.png is not an image"),
        (["."], "is a folder"),
    ],
)
def test_what_cannot_be_searched_is_said_in_a_sentence(
    arguments: list[str],
    sentence: str,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    encode_folder(photos, tmp_path / "study", model="phash")
    (tmp_path / "text.png").write_text("a text")
    assert command("search", "study", *arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_index_tells_what_it_measured(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(10, 160):
        write(photos / "birds" / f"{number}.png", number)
    encode_folder(photos, tmp_path / "study", model="colour")
    assert command("index", "study", "--json") == 0
    only = json.loads(capsys.readouterr().out)["indexes"]
    assert [(each["model"], each["kind"], each["recall"]) for each in only] == [("colour", "exact", None)]
    assert command("index", "study", "--kind", "ivf", "--recall", "0.9") == 0
    assert "ivf" in capsys.readouterr().out
    assert command("index", "study", "--hasher", "itq", "--bits", "16", "--kind", "ivf", "--json") == 0
    made = json.loads(capsys.readouterr().out)["indexes"]
    assert [(each["model"], each["of"], each["k"]) for each in made] == [("colour-itq-16", "codes of 16 bits", 10)]
    assert 0.5 < made[0]["recall"] <= 1
    assert command("index", "study", "--bits", "16") == 2
    assert "--bits is the length of codes that a hasher makes" in capsys.readouterr().err


def test_nothing_usable_says_why(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").touch()
    with pytest.raises(NothingUsableError) as caught:
        encode_folder(tmp_path / "photos", tmp_path / "study", model="phash")
    assert [(file.path, file.reason) for file in caught.value.skipped] == [("a.png", "empty")]
    assert not (tmp_path / "study").exists()
