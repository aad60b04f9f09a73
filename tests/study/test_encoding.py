"""From a folder of images to a study: what is encoded, what is not, and what a kill leaves behind.

A vacuous test would let pass: rows of another file, a changed file that keeps its old row, a file that is encoded
twice, a damaged one that ends the run, a study that differs because its making was interrupted.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import inspect
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import lookalike as la
from lookalike.cli import main
from lookalike.study import encode, encoded_images
from lookalike.study.encode import NothingUsableError, encode_folder, model_name
from lookalike.study.finder import Finder, build_index
from lookalike.study.hashed_models import hash_model
from lookalike.study.image_files import read_files
from lookalike.study.image_labels import ImageLabels
from lookalike.study.study import Study


def picture(seed: int, size: tuple[int, int] = (24, 20)) -> np.ndarray:
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return np.asarray(Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC))


def write(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(seed)).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number in range(6):
        write(folder / ("cats" if number < 3 else "dogs") / f"{number}.png", number)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder with a hash of what is in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def states(study: Path) -> dict[str, tuple[str, str]]:
    return {name: (file.state, file.reason) for name, file in read_files(study / "images.csv").items()}


def command(*arguments: str) -> int:
    try:
        main([*arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


# What is made


def test_a_folder_becomes_a_study(photos: Path, tmp_path: Path) -> None:
    done = encode_folder(photos, tmp_path / "study", model="colour")
    study = Study.open(tmp_path / "study")
    assert (done.new, done.changed, done.same, done.removed, done.skipped, done.encoded) == (6, 0, 0, [], [], 6)
    assert study.catalogue.ids.tolist() == [f"cats/{n}.png" for n in range(3)] + [f"dogs/{n}.png" for n in range(3, 6)]
    assert study.catalogue.categories is not None
    assert study.catalogue.categories.tolist() == ["cats"] * 3 + ["dogs"] * 3
    assert study.catalogue.identities is None
    assert study.queries.digest == study.catalogue.digest
    assert study.name == "photos"
    expected = la.encoders.load("colour").encode([picture(number) for number in range(6)])
    stored = study.model("colour")
    np.testing.assert_allclose(stored.gallery, expected, atol=1e-6)
    assert (stored.similarity, stored.encoder, stored.hasher) == ("cosine", "colour", None)
    for number in range(6):
        path = study.image_path(number)
        assert path is not None
        assert np.array_equal(np.asarray(Image.open(path)), picture(number))
    assert not (study.path / "encoding").exists()


def test_perceptual_hashes_become_codes(photos: Path, tmp_path: Path) -> None:
    encode_folder(photos, tmp_path / "study", model="phash")
    stored = Study.open(tmp_path / "study").model("phash")
    assert stored.gallery == la.encoders.load("phash").codes([picture(number) for number in range(6)])


def test_black_images_have_pixels_too(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number, grey in enumerate((0, 0, 128)):
        Image.new("RGB", (8 + number, 8), (grey,) * 3).save(tmp_path / "photos" / f"{number}.png")
    done = encode_folder(tmp_path / "photos", tmp_path / "study", model="pixels")
    assert not done.skipped
    assert done.study.model("pixels").similarity == "euclidean"
    assert Finder(done.study, "pixels").like_item(0, 2).items.tolist() == [1, 2]


def test_only_what_is_new_or_changed_is_encoded(photos: Path, tmp_path: Path) -> None:
    place = tmp_path / "study"
    encode_folder(photos, place, model="colour")
    before = Study.open(place).model("colour").gallery
    write(photos / "cats" / "1.png", 77)  # changed
    write(photos / "birds" / "9.png", 99)  # new
    (photos / "dogs" / "5.png").unlink()  # removed
    shutil.move(photos / "dogs" / "4.png", photos / "cats" / "moved.png")
    shutil.copy(photos / "cats" / "0.png", photos / "cats" / "again.png")
    os.utime(photos / "cats" / "2.png")  # touched, and the same
    done = encode_folder(photos, place, model="colour")
    assert (done.encoded, done.new, done.changed, done.same) == (2, 3, 1, 3)
    assert sorted(done.removed) == ["dogs/4.png", "dogs/5.png"]
    study = Study.open(place)
    seeds = {"birds/9.png": 99, "cats/0.png": 0, "cats/1.png": 77, "cats/2.png": 2, "cats/again.png": 0}
    seeds |= {"cats/moved.png": 4, "dogs/3.png": 3}
    assert study.catalogue.ids.tolist() == sorted(seeds)
    expected = la.encoders.load("colour").encode([picture(seeds[name]) for name in sorted(seeds)])
    after = study.model("colour").gallery
    np.testing.assert_allclose(after, expected, atol=1e-6)
    assert isinstance(before, np.ndarray)
    assert isinstance(after, np.ndarray)
    assert np.array_equal(after[1], before[0])  # not encoded again, not even to other rounding
    assert states(place)["dogs/5.png"] == ("removed", "")
    write(photos / "dogs" / "5.png", 5)
    encode_folder(photos, place, model="colour")
    assert states(place)["dogs/5.png"] == ("present", "")


def test_nothing_new_changes_no_file(photos: Path, tmp_path: Path) -> None:
    for model in ("colour", "dhash"):
        encode_folder(photos, tmp_path / "study", model=model)
    hash_model(Study.open(tmp_path / "study"), "colour", "ITQ", 4)
    before = contents(tmp_path / "study")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "models").iterdir()}
    done = encode_folder(photos, tmp_path / "study", model="colour")
    assert (done.encoded, done.same) == (0, 6)
    assert contents(tmp_path / "study") == before
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "models").iterdir()} == times


def test_all_models_follow_the_folder(photos: Path, tmp_path: Path) -> None:
    place = tmp_path / "study"
    for model in ("colour", "phash"):
        encode_folder(photos, place, model=model)
    name = hash_model(Study.open(place), "colour", "ITQ", 4, seed=3)
    assert name == "colour-itq-4"
    write(photos / "cats" / "new.png", 50)
    encode_folder(photos, place, model="phash")
    study = Study.open(place)
    assert study.models() == ["colour", "colour-itq-4", "phash"]
    colours = study.model("colour").gallery
    assert isinstance(colours, np.ndarray)
    assert len(colours) == 7
    hasher = la.hashers.ITQ(4, random_state=3).fit(colours)
    assert study.model(name).gallery == hasher.transform(colours)
    assert (study.model(name).encoder, study.model(name).hasher) == ("colour", "ITQ, 4 bits")
    looks = Finder(study, name).like_picture(photos / "cats" / "new.png", 1)
    assert looks.distances.tolist() == [0]


def test_another_version_of_an_encoder_encodes_all(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_folder(photos, tmp_path / "study", model="colour")
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    with pytest.raises(
        ValueError, match="the encoder colour has changed since 'colour' was made: run lookalike encode"
    ):
        Finder(Study.open(tmp_path / "study"), "colour").like_picture(photos / "cats" / "0.png", 1)
    assert encode_folder(photos, tmp_path / "study", model="colour").encoded == 6
    recipe = Study.open(tmp_path / "study").model("colour").recipe
    assert recipe is not None
    assert recipe.version == "2"


@pytest.mark.parametrize(
    ("model", "options", "name"),
    [
        ("Colour", {}, "colour"),
        ("onnx:a b/CLIP (large).onnx", {}, "CLIP-large"),
        ("timm:resnet50.a1_in1k", {}, "timm-resnet50.a1_in1k"),
        ("open_clip:ViT-B-32/laion2b", {}, "open_clip-ViT-B-32-laion2b"),
        ("hf:facebook/dinov2-base", {}, "hf-facebook-dinov2-base"),
        ("pixels", {"size": 8}, "pixels-8"),
        ("onnx:模型.onnx", {}, "model"),
    ],
)
def test_names_of_models(model: str, options: dict[str, Any], name: str) -> None:
    assert model_name(model, options) == name


# Labels


def labelled(photos: Path, tmp_path: Path, table: dict[str, list[Any]], suffix: str) -> Path:
    path = tmp_path / f"labels{suffix}"
    if suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([table, *zip(*table.values(), strict=True)])
    else:
        pq.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_labels_from_a_table(suffix: str, photos: Path, tmp_path: Path) -> None:
    names = [f"{'cats' if n < 3 else 'dogs'}/{n}.png" for n in range(5)]
    table = {"file": [*names, "gone.png"], "label": list("aabbcx"), "identity": ["p", "p", "q", "", "r", "s"]}
    table["price"] = ["10", "20", "30", "40", "50", "60"]
    path = labelled(photos, tmp_path, table, suffix)
    done = encode_folder(photos, tmp_path / "study", model="phash", labels=path)
    catalogue = done.study.catalogue
    assert catalogue.column("category").tolist() == ["a", "a", "b", "b", "c", ""]
    assert catalogue.column("identity").tolist() == ["p", "p", "q", "dogs/3.png", "r", "dogs/5.png"]
    assert catalogue.column("price").tolist() == ["10", "20", "30", "40", "50", ""]
    assert (done.unlabelled, done.strange_labels) == (["dogs/5.png"], ["gone.png"])
    write(photos / "dogs" / "6.png", 6)  # the study remembers where labels come from
    again = encode_folder(photos, tmp_path / "study", model="phash").study.catalogue
    assert again.column("price").tolist() == ["10", "20", "30", "40", "50", "", ""]


@pytest.mark.parametrize(
    ("folders", "columns"),
    [
        ("category", {"category": ["shoes", ""]}),
        ("identity", {"identity": ["shoes", "loose.png"]}),
        ("category/identity", {"category": ["shoes", ""], "identity": ["a1", "loose.png"]}),
        ("nothing", {}),
    ],
)
def test_labels_from_folders(folders: str, columns: dict[str, list[str]]) -> None:
    assert ImageLabels(folders).columns_of(["shoes/a1/front.png", "loose.png"]) == columns


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"name": ["a"]}, "must have a column file, path, filename, image or id that says which file"),
        ({"file": ["a", "a"], "label": ["x", "y"]}, "has 'a' twice, in rows 1 and 2"),
        ({"file": ["a"]}, "says nothing of its files"),
    ],
)
def test_labels_that_are_none(table: dict[str, list[str]], sentence: str, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        encode_folder(photos, tmp_path / "s", model="phash", labels=labelled(photos, tmp_path, table, ".csv"))


# A study that has a pool, models from elsewhere


def test_a_pool_holds_a_study_to_its_images(photos: Path, tmp_path: Path) -> None:
    from lookalike.discovery import Pool

    place = tmp_path / "study"
    study = encode_folder(photos, place, model="colour").study
    study.write_pool(Pool.build({"colour": study.model("colour").given}, study.collection, k=2))
    write(photos / "cats" / "new.png", 50)
    done = encode_folder(photos, place, model="phash")
    assert done.left_out == ["cats/new.png"]
    assert len(done.study.catalogue) == 6
    assert done.study.models() == ["colour", "phash"]
    write(photos / "cats" / "0.png", 51)
    with pytest.raises(ValueError, match=r"the study has a pool, .* but cats/0.png has changed: put it back, or make"):
        encode_folder(photos, place, model="phash")
    (photos / "cats" / "0.png").unlink()
    with pytest.raises(ValueError, match=r"but cats/0.png is gone"):
        encode_folder(photos, place, model="phash")


def test_a_model_from_a_file_cannot_follow(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    study.add_model("other", gallery=np.eye(6))
    assert encode_folder(photos, tmp_path / "study", model="phash").study.models() == ["colour", "other", "phash"]
    write(photos / "cats" / "new.png", 50)
    with pytest.raises(ValueError, match=r"'other' was added from a file and cannot follow: remove it with lookalike"):
        encode_folder(photos, tmp_path / "study", model="phash")
    assert command("study", "remove", str(tmp_path / "study"), "other") == 0
    assert len(encode_folder(photos, tmp_path / "study", model="phash").study.catalogue) == 7


def test_chosen_queries_stay(photos: Path, tmp_path: Path) -> None:
    place = tmp_path / "study"
    encode_folder(photos, place, model="colour")
    assert command("study", "queries", str(place), "--draw", "4", "--stratify", "category") == 0
    chosen = Study.open(place).queries.ids.tolist()
    assert len(chosen) == 4
    (photos / chosen[0]).unlink()
    write(photos / "cats" / "new.png", 50)
    study = encode_folder(photos, place, model="colour").study
    assert study.queries.ids.tolist() == chosen[1:]
    stored = study.model("colour")
    assert isinstance(stored.gallery, np.ndarray)
    assert isinstance(stored.queries, np.ndarray)
    assert np.array_equal(stored.queries, stored.gallery[study.catalogue.positions(chosen[1:])])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["encode", "none"], "there is no folder none"),
        (["encode", "photos", "--model", "colours"], "there is no encoder 'colours': did you mean colour?"),
        (["encode", "photos", "--model", "onnx:none.onnx"], "none.onnx"),
        (["encode", "photos", "--model", "onnx:photos/cats/0.png"], "0.png"),
        (["encode", "photos", "--model", "timm:resnet18"], "pip install timm"),
        (["encode", "photos", "--model", "phash", "--labels", "none.csv"], "there is no file"),
        (["encode", "photos", "--model", "phash", "--study", "photos"], "is not a study"),
        (["encode", "photos", "--model", "phash", "--study", "a/b/c"], "does not exist"),
        (["encode", "photos", "--model", "phash", "--size", "8"], "phash has no option 'size'"),
        (["encode", "photos", "--model", "phash", "--name", "../x"], "the name of a model is a file's"),
        (["encode", "empty", "--model", "phash"], "there is no image in empty: it is empty"),
        (["encode", "texts", "--model", "phash"], "none of its 2 files is named like one"),
        (["encode", "broken", "--model", "phash"], "none of the 1 images in broken can be used; x.png: empty"),
    ],
)
def test_what_cannot_be_encoded_is_said_in_a_sentence(
    arguments: list[str],
    sentence: str,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, files in {"empty": [], "texts": ["a.txt", "b.md"], "broken": ["x.png"]}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    assert command(*arguments) == 2
    assert sentence in capsys.readouterr().err
    assert not [path for path in tmp_path.glob("*-study") if path.exists()]


def test_a_study_is_of_one_folder(photos: Path, tmp_path: Path) -> None:
    encode_folder(photos, tmp_path / "study", model="phash")
    shutil.copytree(photos, tmp_path / "others")
    with pytest.raises(ValueError, match=r"is a study of the images in .*photos: choose another study for those in"):
        encode_folder(tmp_path / "others", tmp_path / "study", model="phash")
    with pytest.raises(ValueError, match="has a model 'phash' that is of phash, made otherwise: choose another name"):
        encode_folder(photos, tmp_path / "study", model="dhash", name="phash")


def test_two_at_once_do_not_disturb_each_other(photos: Path, tmp_path: Path) -> None:
    with encode._alone(tmp_path / "study"), pytest.raises(ValueError, match="another process is encoding into"):
        encode_folder(photos, tmp_path / "study", model="phash")
    assert encode_folder(photos, tmp_path / "study", model="phash").new == 6


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


# Kills


RUN = """
import json, os, signal, sys, time
import faiss, sklearn.decomposition  # loaded once; each command is then a process of its own
from lookalike import cli, encoders, hashers
from lookalike.core import kernels
from lookalike.study import encode, encoded_images, finder, hashed_models
kernels.kernels(), kernels.product_kernel()
encoded_images.KEEP_EVERY, encoded_images.BATCH = 0.0, 8

def done(arguments):
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1), os.dup2(silent, 2)
    code = 1
    try:
        cli.main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        os._exit(code)

for line in sys.stdin:
    folder, arguments, kill_after = json.loads(line)
    os.chdir(folder)
    begun = time.monotonic()
    process = os.fork() or done(arguments)
    while not (ended := os.waitpid(process, os.WNOHANG))[0]:
        if kill_after is not None and time.monotonic() - begun > kill_after:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.001)
    print(json.dumps([os.waitstatus_to_exitcode(ended[1]), time.monotonic() - begun]), flush=True)
"""


@contextlib.contextmanager
def runner() -> Iterator[Callable[..., float | None]]:
    """What runs a command for so many seconds at most: how long it took, or None where it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        sender, receiver = process.stdin, process.stdout
        assert sender is not None
        assert receiver is not None

        def ran(folder: Path, arguments: list[str], kill_after: float | None = None) -> float | None:
            sender.write(json.dumps([str(folder), arguments, kill_after]) + "\n")
            code, seconds = json.loads(receiver.readline())
            assert code in (0, -signal.SIGKILL)
            return float(seconds) if code == 0 else None

        yield ran


def test_a_study_is_the_same_whenever_its_making_was_killed(tmp_path: Path) -> None:
    """encode and index, killed at three random moments each and run again: every file equal to those undisturbed."""
    for number in range(160):
        path = write(tmp_path / "a" / "photos" / f"{number % 4}" / f"{number:03}.png", number)
        Image.fromarray(picture(number, (200, 150))).save(path)
    (tmp_path / "a" / "photos" / "broken.png").write_bytes(b"no image")
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copy2)
    commands = [
        ["encode", "photos", "--model", "colour"],
        ["index", "photos-study", "--hasher", "ITQ", "--bits", "16", "--kind", "ivf"],
    ]
    how = random.Random(1)
    with runner() as ran:
        for arguments in commands:
            seconds, kills = ran(tmp_path / "a", arguments), 0
            assert seconds is not None
            part = (0.1, 0.4) if arguments[0] == "encode" else (0.1, 0.9)  # it goes on where it was
            while kills < 3:
                if ran(tmp_path / "b", arguments, how.uniform(*part) * seconds) is None:
                    kills += 1
                else:
                    seconds *= 0.6  # the machine was busier when it ran undisturbed
            assert ran(tmp_path / "b", arguments) is not None
    undisturbed, disturbed = (contents(tmp_path / each / "photos-study") for each in "ab")
    assert {"models/colour.npz", "models/colour-itq-16.npz", "indexes/colour-itq-16.npz", "images.csv"} <= set(
        undisturbed
    )
    assert disturbed == undisturbed


def test_kept_rows_that_were_altered_are_refused(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_images, "KEEP_EVERY", 0.0)
    monkeypatch.setattr(Study, "create", lambda *given, **options: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        encode_folder(photos, tmp_path / "study", model="colour")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is not yet a study: lookalike encode was ended early, run it again"):
        Study.open(tmp_path / "study")
    kept = next((tmp_path / "study" / "encoding").rglob("*.npz"))
    data = bytearray(kept.read_bytes())
    at = data.index(np.float32(la.encoders.load("colour").encode([picture(0)])[0].max()).tobytes())
    data[at] ^= 1
    kept.write_bytes(data)
    with pytest.raises(ValueError, match=r"npz is (damaged|not a readable npz)"):
        encode_folder(photos, tmp_path / "study", model="colour")
    kept.unlink()
    assert encode_folder(photos, tmp_path / "study", model="colour").encoded == 6


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


# Odd orders


STOPPED = """
import os, shutil
from pathlib import Path
from lookalike.study import encoded_images
from lookalike.study.encode import encode_folder
encoded_images.KEEP_EVERY = 0.0
shutil.copytree("begun", "loaded")
encode_folder("photos", "loaded", model="phash")
for left in range(30):
    shutil.copytree("begun", f"study-{left}")
    process = os.fork()  # with all that is loaded
    if process:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(code, flush=True)
        if code != 9:
            break
    else:
        take = Path.replace
        def stop(*given):
            global left
            if left == 0:
                os._exit(9)
            left -= 1
            return take(*given)
        Path.replace = stop
        try:
            encode_folder("photos", f"study-{left}", model="phash")
            os._exit(0)
        finally:
            os._exit(1)
"""


def test_an_update_is_the_same_whichever_write_it_was_killed_at(photos: Path, tmp_path: Path) -> None:
    place = tmp_path / "study"
    for model in ("colour", "phash"):
        encode_folder(photos, place, model=model)
    hash_model(Study.open(place), "colour", "LSH", 8)
    Study.open(place).set_queries([0, 2, 4])
    shutil.copytree(place, tmp_path / "begun")
    (photos / "cats" / "0.png").unlink()  # the first of the queries
    write(photos / "cats" / "new.png", 50)
    (photos / "text.png").write_text("no image")
    encode_folder(photos, place, model="phash")
    expected = contents(place)
    stopped = subprocess.run([sys.executable, "-c", STOPPED], cwd=tmp_path, capture_output=True, text=True)
    *kills, whole = stopped.stdout.split()
    assert whole == "0", stopped.stderr
    assert contents(tmp_path / f"study-{len(kills)}") == expected
    assert len(kills) >= 8  # rows of two encoders, queries, catalogue, study.toml, four files of models, images.csv
    for n_writes in range(len(kills)):
        again = tmp_path / f"study-{n_writes}"
        encode_folder(photos, again, model="phash")
        assert contents(again) == expected, n_writes
        assert Study.open(again).queries.ids.tolist() == ["cats/2.png", "dogs/4.png"]


def test_other_models_are_not_mixed_of_two_versions(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_folder(photos, tmp_path / "study", model="colour")
    encode_folder(photos, tmp_path / "study", model="phash")
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    write(photos / "cats" / "new.png", 50)
    assert encode_folder(photos, tmp_path / "study", model="phash").encoded == 7 + 1
    recipe = Study.open(tmp_path / "study").recipe("colour")
    assert recipe is not None
    assert recipe.version == "2"


def test_rows_of_another_encoder_are_not_taken_up(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded_images, "KEEP_EVERY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Study, "create", lambda *given, **options: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            encode_folder(photos, tmp_path / "study", model="phash", name="bits")
    done = encode_folder(photos, tmp_path / "study", model="dhash", name="bits")
    assert done.encoded == 6
    assert done.study.model("bits").gallery == la.encoders.load("dhash").codes([picture(n) for n in range(6)])


def test_a_pool_holds_labels_and_unreadable_images_too(photos: Path, tmp_path: Path) -> None:
    from lookalike.discovery import Pool

    place = tmp_path / "study"
    (photos / "text.png").write_text("no image")
    Image.fromarray(picture(0, (60, 60))).save(photos / "cats" / "0.png")
    study = encode_folder(photos, place, model="colour").study
    study.write_pool(Pool.build({"colour": study.model("colour").given}, study.collection, k=2))
    with pytest.raises(ValueError, match=r"has a pool, which was made of its items, but cats/0\.png cannot be"):
        encode_folder(photos, place, model="phash", max_pixels=1000)
    with pytest.raises(ValueError, match="has a pool, which was made of its items, but labels have changed"):
        encode_folder(photos, place, model="phash", folders="identity")
    assert len(Study.open(place).pool()) == len(study.pool())
    done = encode_folder(photos, place, model="phash")
    assert [(file.path, file.reason) for file in done.skipped] == [("text.png", states(place)["text.png"][1])]
    assert done.left_out == []
    with pytest.raises(ValueError, match="has a pool, which was made of its items: they stay"):
        study.set_items(study.catalogue, [0], study.folder or {})


def test_a_judged_study_may_move_and_get_other_categories(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("encode", "photos", "--model", "colour", "--study", "s") == 0
    assert command("study", "queries", "s", "--draw", "2") == 0
    assert command("pool", "s", "--k", "2") == 0
    study = Study.open("s")
    ids, queries, pool = study.catalogue.ids, study.queries.ids, study.pool()
    photos.rename(tmp_path / "moved")
    assert command("encode", "moved", "--study", "s", "--model", "colour") == 0
    (tmp_path / "away").mkdir()
    (tmp_path / "moved").rename(tmp_path / "away" / "moved")
    (tmp_path / "s").rename(tmp_path / "away" / "s")
    kinds = {"file": ids.tolist(), "category": [f"kind {number}" for number in range(6)]}
    table = labelled(photos, tmp_path, kinds, ".csv")
    assert command("encode", "away/s", "--model", "colour", "--labels", str(table)) == 0
    after = Study.open("away/s")
    path = after.image_path(0)
    assert path is not None
    assert path.is_file()
    assert after.pool().digest == pool.digest
    assert after.queries.ids.tolist() == queries.tolist()
    assert after.catalogue.column("category").tolist() == kinds["category"]
    with pytest.raises(ValueError, match="has a pool, which was made of its items: they stay"):
        after.set_items(la.discovery.Catalogue(ids, ["shoe"] * 6), queries, after.folder or {})


@pytest.mark.parametrize("pooled", ["colour", "colour-lsh-8"])
def test_a_pooled_model_is_refused_another_version_before_anything_is_encoded(
    pooled: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "study"
    study = encode_folder(photos, place, model="colour").study
    hash_model(study, "colour", "LSH", 8)
    assert command("pool", str(place), "--k", "2", "--models", pooled) == 0
    before = contents(place)
    with pytest.raises(ValueError, match=f"the pool has what the model '{pooled}' proposed"):
        study.add_model("colour", gallery=np.eye(6), recipe=study.recipe("colour"), replace=True)
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    monkeypatch.setattr(la.encoders.Colour, "_rows", lambda self, given: pytest.fail("it was encoded"))
    with pytest.raises(
        ValueError, match=rf"colour has changed since 'colour' was made, but the pool has what '{pooled}'"
    ):
        encode_folder(photos, place, model="colour")
    assert contents(place) == before
    monkeypatch.undo()
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    assert encode_folder(photos, place, model="colour", name="colour-2").encoded == 6


def test_a_pooled_hashed_model_keeps_its_hasher(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    name = hash_model(study, "colour", "LSH", 8)
    assert command("pool", str(study.path), "--k", "2") == 0
    with pytest.raises(ValueError, match="the pool has what the model 'colour-lsh-8' proposed: take another hasher or"):
        hash_model(study, "colour", "LSH", 8, seed=5)
    assert Finder(study, name).like_picture(picture(3), 1).items.tolist() == [3]


def test_only_codes_that_cannot_be_learnt_are_dropped(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    study.add_model("other", gallery=np.random.default_rng(0).normal(size=(6, 500)))
    name = hash_model(study, "other", "LSH", 8)
    path = study.path / "models" / "other.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with pytest.raises(ValueError, match=r"other\.npz is not a readable npz file"):
        encode_folder(photos, study.path, model="phash")
    path.write_bytes(whole)
    assert encode_folder(photos, study.path, model="phash").study.models() == ["colour", "other", name, "phash"]


def test_hashed_models_and_their_sources(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="colour").study
    name = hash_model(study, "colour", "LSH", 8)
    with pytest.raises(ValueError, match="'colour-lsh-8' was hashed from 'colour': remove that first"):
        study.remove_model("colour")
    with pytest.raises(ValueError, match="'colour-lsh-8' was hashed from 'colour': remove that first"):
        study.add_model("colour", gallery=np.eye(6), replace=True)
    other = hash_model(study, "colour", "LSH", 8, seed=5)
    assert other == name
    assert Finder(study, name).like_picture(picture(3), 1).items.tolist() == [3]
    la.hashers.LSH(8, random_state=9).fit(study.model("colour").gallery).save(study.hasher_path(name))
    with pytest.raises(ValueError, match="the codes of 'colour-lsh-8' are not of its hasher: run lookalike index"):
        Finder(study, name).like_picture(picture(3), 1)
    study.add_model("colour-itq-4", gallery=np.eye(6))
    with pytest.raises(ValueError, match="the study has another model 'colour-itq-4': remove it first"):
        hash_model(study, "colour", "ITQ", 4)
    with pytest.raises(ValueError, match="is codes of 8 bits, LSH of colour: a hasher learns from embeddings"):
        hash_model(study, name, "ITQ", 4)
    study.remove_model(name)
    assert not study.hasher_path(name).exists()
    assert study.models() == ["colour", "colour-itq-4"]


def test_a_repaired_file_needs_a_row_of_every_model(photos: Path, tmp_path: Path) -> None:
    (photos / "cats" / "large.png").write_bytes(write(tmp_path / "large.png", 9).read_bytes())
    Image.fromarray(picture(9, (60, 60))).save(photos / "cats" / "large.png")
    study = encode_folder(photos, tmp_path / "study", model="phash", max_pixels=1000).study
    study.add_model("other", gallery=np.eye(6))
    with pytest.raises(ValueError, match="'other' was added from a file and cannot follow"):
        encode_folder(photos, tmp_path / "study", model="phash")
    assert Study.open(tmp_path / "study").model("other").kind == "embeddings of 6 numbers, cosine"


def test_queries_that_were_chosen_and_are_gone(photos: Path, tmp_path: Path) -> None:
    study = encode_folder(photos, tmp_path / "study", model="phash").study
    study.set_queries(["cats/0.png", "cats/1.png"])
    for number in range(2, 6):
        (photos / ("cats" if number < 3 else "dogs") / f"{number}.png").unlink()
    write(photos / "cats" / "new.png", 50)
    assert encode_folder(photos, tmp_path / "study", model="phash").study.queries.ids.tolist() == [
        "cats/0.png",
        "cats/1.png",
    ]
    for number in range(2):
        (photos / "cats" / f"{number}.png").unlink()
    with pytest.raises(ValueError, match="none of the images is left that were chosen as queries: choose others with"):
        encode_folder(photos, tmp_path / "study", model="phash")


def test_an_index_of_another_similarity_is_stale_and_ties_are_counted_by_every_kind(tmp_path: Path) -> None:
    from lookalike.discovery import Catalogue

    rng = np.random.default_rng(0)
    gallery = np.repeat(rng.normal(size=(40, 8)), 10, axis=0)
    study = Study.create(tmp_path / "s", "s", Catalogue([f"i{n}" for n in range(400)]), [0])
    study.add_model("net", gallery=gallery)
    build_index(study, "net", kind="ivf", target=0.7, seed=4)
    looks = Finder(study, "net").like_item(0, 3)
    assert len(set(looks.distances.tolist())) == 1
    assert (len({*looks.items.tolist()} - {*range(1, 10)}), looks.more) == (0, 6)
    study.add_model("net", gallery=gallery, similarity="dot", replace=True)
    index = Finder(study, "net").index
    assert (index.kind, index.similarity) == ("ivf", "dot")
    assert index.measured is not None
    assert (index.measured.target, index.measured.seed) == (0.7, 4)


@pytest.mark.parametrize("wrong", [np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8), np.zeros(4, np.uint8)])
def test_an_array_that_is_no_picture(wrong: np.ndarray, photos: Path, tmp_path: Path) -> None:
    finder = Finder(encode_folder(photos, tmp_path / "study", model="phash").study, "phash")
    with pytest.raises(ValueError, match="image 0 must be"):
        finder.like_picture(wrong, 1)


def test_an_item_that_is_a_link_is_found_by_its_path(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (photos / "linked.png").symlink_to(write(tmp_path / "elsewhere.png", 70))
    encode_folder(photos, tmp_path / "study", model="phash")
    assert command("search", "study", "photos/linked.png", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_item"]
    assert "linked.png" not in [each["id"] for each in found["found"]]
    (tmp_path / "file").touch()
    assert command("encode", "photos", "--model", "phash", "--study", "file") == 2
    assert "file: it is a file" in capsys.readouterr().err


def test_the_model_to_search_by(photos: Path, tmp_path: Path) -> None:
    from lookalike.study.finder import default_model

    place = tmp_path / "study"
    expected = {"dhash": "dhash", "pixels": "pixels", "colour": "colour"}
    for model, first in expected.items():
        study = encode_folder(photos, place, model=model).study
        assert default_model(study) == first
    hash_model(study, "colour", "LSH", 8)
    assert default_model(study) == "colour"
    study.add_model("net", gallery=np.eye(6))
    assert default_model(study) == "net"


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
