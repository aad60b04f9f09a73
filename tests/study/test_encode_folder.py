"""From a folder of images to a study: what is encoded, and how it is labelled.

A vacuous test would let pass: vectors of another file, a changed file that keeps its old vector, a file that is encoded
twice, a damaged one that ends the run, a study that differs because its making was interrupted.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lookalike as la
from helpers.photos import command, contents, labelled, picture, states, write
from lookalike.study import encode
from lookalike.study.encode import encode_folder, model_name
from lookalike.study.finder import Finder
from lookalike.study.hashed_models import hash_model
from lookalike.study.image_labels import ImageLabels
from lookalike.study.study import Study

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
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encode_folder(photos, tmp_path / "study", model="colour")
    monkeypatch.setattr(la.encoders.Colour, "version", property(lambda self: "2"))
    with pytest.raises(
        ValueError,
        match="the encoder colour has changed since 'colour' was made: run lookalike encode study --model co",
    ):
        Finder(Study.open(tmp_path / "study"), "colour").like_picture(photos / "cats" / "0.png", 1)
    assert "has changed" not in caplog.text
    assert encode_folder(photos, tmp_path / "study", model="colour").encoded == 6
    assert "the encoder colour has changed since 'colour' was made (it was 1, it is 2): all images" in caplog.text
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
    with encode.alone(tmp_path / "study"), pytest.raises(ValueError, match="another process is encoding into"):
        encode_folder(photos, tmp_path / "study", model="phash")
    assert encode_folder(photos, tmp_path / "study", model="phash").new == 6
