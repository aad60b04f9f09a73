"""Files of all kinds in a folder of images: damaged, linked, changed meanwhile, or no images at all."""

from __future__ import annotations

import inspect
import io
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lookalike as la
from helpers.photos import command, picture, states, write
from lookalike.study.encode import encode_folder
from lookalike.study.finder import Finder
from lookalike.study.hashed_models import hash_model
from lookalike.study.study import Study

# Files of all kinds


def test_files_that_are_skipped_are_listed(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (photos / "empty.png").touch()
    (photos / "text.jpg").write_text("not an image")
    (photos / "notes.txt").write_text("a text")
    (photos / "loop").symlink_to(photos, target_is_directory=True)
    (photos / "nowhere.png").symlink_to(photos / "no such file.png")
    (photos / "itself.png").symlink_to(photos / "itself.png")
    os.mkfifo(photos / "pipe.png")
    (photos / "a folder.png").mkdir()
    (photos / ".hidden.png").touch()
    Path(os.fsdecode(os.fsencode(photos) + b"/\xff\xfe.png")).write_bytes((photos / "cats" / "0.png").read_bytes())
    Image.new("1", (12_000, 9_000)).save(photos / "enormous.png")
    Image.new("1", (1200, 900)).save(photos / "large.png")
    write(photos / "with space, ünïcode 猫\nand a line.png", 60)
    assert command("encode", "photos", "--model", "phash", "--max-pixels", "1000000", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    found = states(tmp_path / "photos-study")
    assert printed["images"] == 7
    assert {each["file"]: each["reason"] for each in printed["skipped"]} == {
        name: reason for name, (state, reason) in found.items() if state == "skipped"
    }
    expected = {
        "empty.png": "empty",
        "text.jpg": "not an image",
        "notes.txt": "not named like an image",
        "loop": "leads to a folder that is read already",
        "nowhere.png": "cannot be read: a link to nothing",
        "itself.png": "cannot be read",
        "pipe.png": "not a file",
        "enormous.png": "has more pixels than the 1,000,000",
        "large.png": "has 1,200 × 900 pixels, more than the 1,000,000",
        "\\xff\\xfe.png": "its name is not valid Unicode: rename it",
    }
    assert {name for name, (state, _) in found.items() if state == "skipped"} == set(expected)
    for name, reason in expected.items():
        assert found[name][1].startswith(reason), name
    assert found["with space, ünïcode 猫\nand a line.png"][0] == "present"
    assert command("encode", "photos", "--model", "phash") == 0
    said = capsys.readouterr()
    assert "7 images" not in said.out
    assert "8 images: 1 new" in said.out
    assert "9 files skipped" in said.err
    assert states(tmp_path / "photos-study")["large.png"] == ("present", "")
    assert "has more pixels than the 89,478,485" in states(tmp_path / "photos-study")["enormous.png"][1]


def test_a_study_inside_its_folder_is_not_read(photos: Path) -> None:
    for _ in range(2):
        done = encode_folder(photos, photos / "study", model="phash")
        assert not done.skipped
    assert len(done.study.catalogue) == 6
    path = done.study.image_path(0)
    assert path is not None
    assert path.is_file()


def kinds() -> dict[str, bytes]:
    """One picture as a file of each kind."""
    found = {}
    for kind, options in {"png": {}, "jpeg": {}, "gif": {}, "webp": {}, "tiff": {}, "bmp": {}, "ppm": {}}.items():
        file = io.BytesIO()
        Image.fromarray(picture(1, (64, 48))).save(file, kind, **options)
        found[kind] = file.getvalue()
    return found


def damage(data: bytes, how: random.Random) -> bytes:
    """A file spoilt in one of the ways in which files are."""
    at = how.randrange(len(data))
    long = how.randrange(1, 64)
    ways: list[Callable[[], bytes]] = [
        lambda: data[:at],
        lambda: data[:at] + bytes(len(data) - at),
        lambda: data[:at] + how.randbytes(long) + data[at + long :],
        lambda: data[:at] + how.randbytes(long) + data[at:],
        lambda: data[: at % 64] + how.randbytes(4) + data[at % 64 + 4 :],
        lambda: data[:at] + data[at + long :],
        lambda: data[:16] + how.randbytes(len(data)),
        lambda: how.randbytes(long) + data,
    ]
    return how.choice(ways)()


def test_malformed_images_are_skipped_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than 300, by the command that users run: it ends well, and each is usable or listed with a reason."""
    how = random.Random(0)
    folder = tmp_path / "malformed"
    folder.mkdir()
    for kind, data in kinds().items():
        (folder / f"good.{kind}").write_bytes(data)
        for number in range(60):
            (folder / f"{number}.{kind}").write_bytes(damage(data, how))
    monkeypatch.chdir(tmp_path)
    assert command("encode", "malformed", "--model", "colour", "--json") == 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    printed = json.loads(said.out)
    assert printed["images"] + len(printed["skipped"]) == 7 * 61
    assert len(printed["skipped"]) > 200
    assert all(each["reason"] and "\n" not in each["reason"] for each in printed["skipped"])
    assert not any(each["file"].startswith("good") for each in printed["skipped"])
    gallery = Study.open(tmp_path / "malformed-study").model("colour").gallery
    assert np.isfinite(gallery).all()


def test_very_many_files_are_gone_through(tmp_path: Path) -> None:
    """As links to a few images, which are encoded once."""
    folder = tmp_path / "many"
    originals = [write(tmp_path / "originals" / f"{number}.png", number) for number in range(10)]
    for below in range(20):
        (folder / f"{below:02}").mkdir(parents=True)
        for number in range(1000):
            os.link(originals[number % 10], folder / f"{below:02}" / f"{number:03}.png")
    started = time.monotonic()
    done = encode_folder(folder, tmp_path / "study", model="dhash")
    assert (done.new, done.encoded) == (20_000, 10)
    first = time.monotonic() - started
    again = encode_folder(folder, tmp_path / "study", model="dhash")
    assert (again.same, again.encoded) == (20_000, 0)
    assert time.monotonic() - started - first < max(30, 2 * first)


# What else happens to files


def test_a_file_that_changes_while_it_is_encoded_has_no_row_of_the_wrong_picture(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = la.encoders.Colour._prepare_file
    changed = photos / "cats" / "1.png"

    def late(self: Any, given: np.ndarray) -> np.ndarray:
        if changed.exists() and np.array_equal(np.asarray(Image.open(changed)), picture(1)):
            write(changed, 66)
            (photos / "dogs" / "3.png").unlink()
        return prepare(self, given)

    monkeypatch.setattr(la.encoders.Colour, "_prepare_file", late)
    done = encode_folder(photos, tmp_path / "study", model="colour", threads=1)  # else one may see it half written
    reasons = {file.path: file.reason for file in done.skipped}
    assert reasons["cats/1.png"] == "changed while it was encoded: encode again"
    assert set(reasons) == {"cats/1.png", "dogs/3.png"}
    monkeypatch.undo()
    again = encode_folder(photos, tmp_path / "study", model="colour")
    assert (again.skipped, again.encoded) == ([], 1)
    found = Finder(again.study, "colour").like_picture(picture(66), 1)
    assert again.study.catalogue.ids[found.items].tolist() == ["cats/1.png"]
    np.testing.assert_allclose(found.distances, 1, atol=1e-6)


def test_folders_that_link_to_each_other_are_read_once(tmp_path: Path) -> None:
    for one in range(9):
        write(tmp_path / "photos" / f"d{one}" / "x.png", one)
        for other in range(9):
            if one != other:
                (tmp_path / "photos" / f"d{one}" / f"to{other}").symlink_to(tmp_path / "photos" / f"d{other}")
    (tmp_path / "photos" / "a-link").symlink_to(tmp_path / "elsewhere")
    write(tmp_path / "elsewhere" / "y.png", 20)
    done = encode_folder(tmp_path / "photos", tmp_path / "study", model="phash")
    assert done.study.catalogue.ids.tolist() == ["a-link/y.png", *(f"d{number}/x.png" for number in range(9))]
    assert {file.reason for file in done.skipped} == {"leads to a folder that is read already"}


def test_folders_may_be_deep_and_pictures_thin(tmp_path: Path) -> None:
    """Deeper than functions may call each other."""
    write(tmp_path / "photos" / "good.png", 1)
    encode_folder(tmp_path / "photos", tmp_path / "loaded", model="phash")  # loading goes deep, too
    limit, depth = sys.getrecursionlimit(), 250
    folder = tmp_path / "photos"
    for _ in range(depth):
        folder = folder / "d"
        folder.mkdir()
    write(folder / "deep.png", 2)
    Image.new("L", (1, 300_000)).save(tmp_path / "photos" / "thin.png")
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 200)
        done = encode_folder(tmp_path / "photos", tmp_path / "study", model="phash")
    finally:
        sys.setrecursionlimit(limit)
    assert done.study.catalogue.ids.tolist() == ["d/" * depth + "deep.png", "good.png"]
    assert [file.reason for file in done.skipped] == ["has 1 × 300,000 pixels, more than 262,144 in a line"]


def test_codes_that_cannot_be_made_any_more_are_dropped_and_said(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    hash_model(study, "colour", "ITQ", 5)
    for number in (3, 4, 5):
        (photos / "dogs" / f"{number}.png").unlink()
    done = encode_folder(photos, tmp_path / "study", model="colour")
    assert done.study.models() == ["colour"]
    assert "the model colour-itq-5 was removed, since it cannot be made of these images: ITQ can make" in caplog.text
    assert encode_folder(photos, tmp_path / "study", model="colour").same == 3


def test_a_folder_that_was_moved_is_named_anew(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("encode", "photos", "--model", "phash", "--study", "s") == 0
    photos.rename(tmp_path / "moved")
    assert command("encode", "s") == 2
    assert "which is gone: if it was moved, lookalike encode NEW_FOLDER --study s" in capsys.readouterr().err
    assert command("encode", "moved", "--study", "s", "--model", "phash", "--json") == 0
    assert json.loads(capsys.readouterr().out)["encoded"] == 0
    path = Study.open(tmp_path / "s").image_path(0)
    assert path is not None
    assert path.is_file()


@pytest.mark.parametrize(
    ("spoil", "arguments", "sentence"),
    [
        (("study.toml", "images = .*", ""), ["search", "s", "cats/0.png"], "[folder] must say images, folders and"),
        (("study.toml", "images = .*", "images = 5"), ["encode", "s"], "[folder] must say images, folders and queries"),
    ],
)
def test_damaged_studies_are_said_to_be(
    spoil: tuple[str, str, str],
    arguments: list[str],
    sentence: str,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import re

    monkeypatch.chdir(tmp_path)
    encode_folder(photos, tmp_path / "s", model="phash")
    name, before, after = spoil
    text = (tmp_path / "s" / name).read_text()
    (tmp_path / "s" / name).write_text(re.sub(before, after, text))
    assert command(*arguments) == 2
    assert sentence in capsys.readouterr().err


def test_more_than_there_are_and_values_with_spaces(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(photos / " lead" / "x.png", 30)
    assert command("encode", "photos", "--model", "phash") == 0
    capsys.readouterr()
    assert command("search", "photos-study", "cats/0.png", "-k", "1000000000", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["found"]) == 6
    assert command("search", "photos-study", "cats/0.png", "--where", "category= lead", "--json") == 0
    assert [each["id"] for each in json.loads(capsys.readouterr().out)["found"]] == [" lead/x.png"]
