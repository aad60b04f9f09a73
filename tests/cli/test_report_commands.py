"""The commands around codes: data, hash, usage, report and demo, from a folder of images to numbers and back."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lookalike as la
from helpers.commands import assert_refused, numbers, run
from helpers.pages import Opened, browser  # noqa: F401
from lookalike import cli, hashers
from lookalike.evaluation import code_space as space


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits as files, written by the command itself."""
    made = tmp_path_factory.mktemp("digits")
    with contextlib.suppress(SystemExit):
        cli.main(["data", "digits", "--output", str(made)])
    return made


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of small images in two classes, bright and dark, and a file that is none."""
    rng = np.random.default_rng(0)
    for name, level in (("bright", 200), ("dark", 40)):
        (tmp_path / name).mkdir()
        for i in range(12):
            pixels = (level + rng.integers(-30, 30, (20, 24, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    (tmp_path / "dark" / "broken.jpg").write_bytes(b"not an image")
    return tmp_path


# data


def test_data_writes_the_parts_of_a_split(folder: Path) -> None:
    digits = la.datasets.load("digits")
    split = digits.split()
    for part in ("queries", "training", "gallery"):
        rows = getattr(split, part)
        with np.load(folder / f"{part}.npz", allow_pickle=False) as file:
            np.testing.assert_array_equal(file["embeddings"], digits.pixels(rows))
            np.testing.assert_array_equal(file["labels"], digits.labels[rows].astype(str))
            np.testing.assert_array_equal(file["ids"], rows)
            assert json.loads(str(file["about"]))["seed"] == 0


def test_data_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    said = numbers(capsys, "data", "digits")
    assert (said["images"], said["queries"] + said["gallery"]) == (1797, 1797)
    assert said["classes"] == [str(i) for i in range(10)]
    out = run(capsys, "data", "Digits")[1]
    assert "1,797 images of 8 × 8 in 10 classes" in out
    assert f"{said['queries']} queries" in out


def test_data_lists_and_counts_unreadable_images(
    photos: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code, out, err = run(capsys, "data", photos)
    assert code == 0
    assert "24 images" in out
    assert "1 files could not be read" in out
    assert "broken.jpg" in out
    assert "1 of 25 files in" in err + caplog.text
    assert [Path(row["file"]).name for row in json.loads(run(capsys, "data", photos, "--json")[1])["unreadable"]] == [
        "broken.jpg"
    ]


# hash


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_hashed_files_hold_the_codes_of_python_and_go_on_to_evaluate(
    suffix: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gallery, queries, saved = tmp_path / f"g{suffix}", tmp_path / f"q{suffix}", tmp_path / "itq.npz"
    code, out, err = run(
        capsys, "hash", folder / "gallery.npz", gallery, "--hasher", "itq", "--bits", 24, "--save", saved
    )
    assert (code, err) == (0, "")
    assert "24 bits by ITQ" in out
    assert run(capsys, "hash", folder / "queries.npz", queries, "--hasher", saved)[0] == 0
    digits = la.datasets.load("digits")
    split = digits.split()
    itq = hashers.ITQ(24, random_state=0).fit(digits.pixels(split.gallery))
    assert la.Codes.load(gallery) == itq.transform(digits.pixels(split.gallery))
    assert la.Codes.load(queries) == itq.transform(digits.pixels(split.queries))
    labels = [digits.labels[rows] for rows in (split.queries, split.gallery)]
    expected = la.evaluate(la.Codes.load(queries), la.Codes.load(gallery), la.same_label(*labels), ["AP"])
    printed = numbers(capsys, "evaluate", queries, gallery, "--metrics", "AP")
    assert printed["scores"][0]["mean"] == expected["AP"].mean > 0.5


def test_a_hasher_learns_from_another_file_and_by_its_seed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "c.npz"
    ask = ("--hasher", "LSH", "--bits", 16, "--fit", folder / "training.npz", "--seed", 3)
    said = numbers(capsys, "hash", folder / "queries.npz", made, *ask)
    assert (said["hasher"], said["bits"]) == ("LSH", 16)
    digits = la.datasets.load("digits")
    split = digits.split()
    lsh = hashers.LSH(16, random_state=3).fit(digits.pixels(split.training))
    assert la.Codes.load(made) == lsh.transform(digits.pixels(split.queries))


# usage


def test_usage_prints_what_python_says(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "codes.npz"
    assert run(capsys, "hash", folder / "gallery.npz", made, "--hasher", "SH", "--bits", 12)[0] == 0
    codes = la.Codes.load(made)
    labels = np.load(folder / "gallery.npz")["labels"]
    found = la.usage(codes, labels)
    said = numbers(capsys, "usage", made, "--features", folder / "gallery.npz")
    for name, value in found.row().items():
        assert said[name] == value, name
    assert sum(row["items"] for row in said["items_per_code"]) == len(codes)
    assert sum(row["codes"] for row in said["items_per_code"]) == found.distinct
    numbered = np.bincount(codes.unpack() @ (1 << np.arange(12)[::-1]), minlength=4096)  # the first bit is the highest
    assert said["items_by_code"] == {"prefix_bits": 12, "items": numbered.tolist()}
    apart = space.separation(codes, labels)
    assert said["separation"]["diameters"] == apart.diameters.tolist()
    assert said["separation"]["premise_holds"] is False
    within = space.within_class_correlation(codes, labels, np.load(folder / "gallery.npz")["embeddings"])
    assert said["within_class_correlation"] == within.tolist()
    out = run(capsys, "usage", made)[1]
    for text in (f"{found.distinct:,}", f"{found.entropy:.2f} bits", f"{found.mixed:,}", "proposition 1"):
        assert text in out
    assert "items on codes in numerical order, a column for all that begin with the same 6 bits" in out
    columns = next(line for line in out.splitlines() if "█" in line)
    by_column = numbered.reshape(64, 64).sum(1)
    assert [column != " " for column in columns.ljust(64)] == (by_column > 0).tolist()
    assert columns[by_column.argmax()] == "█"


# report


@pytest.fixture(scope="module")
def small_report(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What a report on files says, and its page."""
    made = tmp_path_factory.mktemp("report") / "r.html"
    out = io.StringIO()
    ask = ["--hashers", "ITQ,lsh", "--bits", "12 100", "--output", str(made), "--json"]
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main(["report", str(folder / "queries.npz"), str(folder / "gallery.npz"), *ask])
    return json.loads(out.getvalue()), made.read_text(encoding="utf-8")


def test_a_report_on_files_tries_what_can_be_tried_and_says_what_cannot(
    small_report: tuple[dict[str, Any], str],
) -> None:
    said, page = small_report
    assert [(row["hasher"], row["bits"]) for row in said["rows"]] == [("ITQ", 12), ("LSH", 12), ("LSH", 100)]
    assert [left["hasher"] for left in said["left_out"]] == ["ITQ at 100 bits"]
    assert "at most 64 bits" in said["left_out"][0]["why"]
    assert "ITQ at 100 bits" in page
    for row in said["rows"]:
        assert row["worst"] <= row["mAP"] <= row["best"]
        assert row["low"] < row["mAP"] < row["high"]
        assert f"{row['mAP']:.4f}" in page
    assert said["exact_mAP"] == pytest.approx(0.6687, abs=1e-3)


def test_codes_made_elsewhere_join_a_report(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Codes of its own: the labels, as bits. Nothing is ever above it, and it uses ten codes."""
    for part in ("queries", "gallery"):
        labels = np.load(folder / f"{part}.npz")["labels"]
        bits = labels.astype(int)[:, None] >> np.arange(4) & 1
        np.savez(tmp_path / f"{part}.npz", codes=bits, labels=labels)
    mine = f"mine={tmp_path / 'queries.npz'},{tmp_path / 'gallery.npz'}"
    made = tmp_path / "r.html"
    ask = ("--hashers", "LSH", "--bits", "12", "--codes", mine, "--output", made)
    rows = numbers(capsys, "report", folder / "queries.npz", folder / "gallery.npz", *ask)["rows"]
    assert [(row["hasher"], row["bits"], row["mAP"] == 1) for row in rows] == [("LSH", 12, False), ("mine", 4, True)]
    assert rows[1]["distinct"] == 10
    only = numbers(capsys, "report", tmp_path / "queries.npz", tmp_path / "gallery.npz", "--output", made)
    assert [(row["hasher"], row["mAP"]) for row in only["rows"]] == [("gallery", 1)]
    assert only["exact_mAP"] is None


def test_a_saved_hasher_joins_a_report(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "mine.npz"
    hashers.ITQ(20, random_state=5).fit(np.load(folder / "gallery.npz")["embeddings"]).save(saved)
    files = (folder / "queries.npz", folder / "gallery.npz")
    ask = ("--hashers", f"PCAH {saved}", "--bits", "12", "--output", tmp_path / "r.html")
    said = numbers(capsys, "report", *files, *ask, "--similarity", "cosine", "--title", "A < B")
    assert [(row["hasher"], row["bits"]) for row in said["rows"]] == [("PCAH", 12), ("mine", 20)]
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "A &lt; B" in page
    assert "no hashing (cosine)" in page
    alone = numbers(capsys, "evaluate", *files, "--metrics", "AP", "--similarity", "cosine")["scores"][0]["mean"]
    assert (said["exact_mAP"], said["exact_similarity"]) == (alone, "cosine")


def test_a_report_on_a_folder_of_images_shows_them(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = photos / "r.html"
    code, out, _ = run(capsys, "report", photos, "--hashers", "LSH SH", "--bits", "8", "--output", made)
    assert code == 0
    assert "2 queries × 22 items" in out
    assert "data:image/" in made.read_text(encoding="utf-8")
    assert made.resolve().as_uri() in out


def test_queries_with_nothing_to_find_are_counted_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    for part, labels in (("q", ["a", "b", "a"]), ("g", ["a"] * 30)):
        np.savez(tmp_path / f"{part}.npz", embeddings=rng.normal(size=(len(labels), 6)), labels=labels)
    ask = ("report", tmp_path / "q.npz", tmp_path / "g.npz", "--hashers", "LSH", "--bits", "4")
    made = tmp_path / "r.html"
    assert [row["undefined"] for row in numbers(capsys, *ask, "--output", made)["rows"]] == [1]
    assert "1 query of these has nothing relevant to find" in made.read_text(encoding="utf-8")
    assert "1 of the queries have nothing relevant to find" in run(capsys, *ask, "--output", made)[1]


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (12, 6))
    made = tmp_path / "codes[bold].npz"
    np.savez(made, codes=bits, labels=["[/q]", ":cat:"] * 6)
    code, out, err = run(capsys, "usage", made)
    assert (code, err) == (0, "")
    assert "[/q]" in out or ":cat:" in out
    ask = ("report", made, made, "--codes", f"[/x]={made},{made}", "--output", tmp_path / "a[red].html")
    code, out, err = run(capsys, *ask)
    assert (code, err) == (0, "")
    for text in ("codes[bold]", "[/x]", "a[red].html"):
        assert text in out


def test_labels_of_bytes_and_dates_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (4, 6))
    days = np.array(["2026-01-01", "2026-01-02"] * 2, "datetime64[D]")
    for labels in (np.array([b"cat", b"dog"] * 2), days):
        np.savez(tmp_path / "c.npz", codes=bits, labels=labels)
        said = numbers(capsys, "usage", tmp_path / "c.npz")
        assert said["separation"]["classes"] in (["cat", "dog"], ["2026-01-01", "2026-01-02"])


def test_a_report_says_at_once_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "altair" else found(name))
    code, out, err = run(capsys, "demo", "--output", tmp_path / "d.html")
    assert (code, out) == (2, "")
    assert 'pip install "lookalike[report]"' in err


# demo


def test_the_demo_tells_its_story_and_writes_a_report_that_a_browser_draws(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    browser: Any,  # noqa: F811  # the fixture
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "demo")
    assert code == 0
    made = tmp_path / "lookalike-demo.html"
    assert made.stat().st_size < 4e6
    Opened(browser, made, made.read_text(encoding="utf-8")).check()  # nothing said, nothing asked for, all drawn
    assert made.resolve().as_uri() in out
    for bits in (12, 24, 48):
        for name in hashers.FIGURE_1:
            assert re.search(rf"^{name} +{bits} +0\.\d{{4}}", out, re.MULTILINE)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    told = re.search(
        r"an mAP of ([\d.]+), between ([\d.]+) and ([\d.]+)\. .*? says ([\d.]+), or ([\d.]+)", " ".join(out.split())
    )
    assert told is not None
    assert all(number in readme for number in told.groups())  # what it says of the demo is what the demo says


def test_the_demo_as_json_has_its_numbers_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "demo", "--bits", "12", "--output", tmp_path / "d.html", "--json")
    said = json.loads(out)
    assert (code, [row["hasher"] for row in said["rows"]]) == (0, list(hashers.FIGURE_1))
    story = said["story"]
    assert story["worst"] <= story["argsort"] <= story["best"]
    assert story["worst"] <= story["argsort_by_class"] <= story["best"]
    assert 0 < story["AP@100"]["total"] <= story["AP@100"]["min"] <= story["AP@100"]["retrieved"] <= 1


# Bad input


BAD = {
    "hash": "requires|argument",
    "hash nowhere.npz c.npz": "there is no file nowhere.npz",
    "hash v.npz c.txt": "must end in .npz or .parquet",
    "hash v.npz no/c.npz": "folder no does not exist",
    "hash codes.npz c.npz": "holds codes already",
    "hash v.npz c.npz --hasher ITK": "no hasher 'ITK'.*did you mean ITQ",
    "hash v.npz c.npz --hasher ITQ --bits 9": "at most 4 bits",
    "hash v.npz c.npz --bits 0": "--bits must be a whole number from 1 to 4096, got 0",
    "hash v.npz c.npz --hasher LSH --fit codes.npz": "learns from embeddings",
    "hash nan.npz c.npz": "NaN",
    "hash v.npz c.npz --hasher v.npz": "holds no hasher",
    "hash v.npz c.npz --hasher nowhere.npz": "there is no file nowhere.npz",
    "hash v.npz c.npz --hasher LSH --save h.txt": "must end in .npz",
    "hash v.npz v.npz": "cannot write v.npz: it is read by the same command",
    "hash v.npz c.npz --bits 4 --save c.npz": "cannot write c.npz twice: both OUTPUT and --save name it",
    "hash v.npz c.npz --bits 4 --save /proc/h.npz": "cannot write /proc/h.npz",
    "hash flat.npz c.npz": "flat.npz: embeddings must be a matrix",
    "hash v.npz c.npz --seed -1": "--seed|-1",
    "usage v.npz": "holds embeddings",
    "usage coded.npz --features three.npz": "three.npz has 3 items, but there are 6 codes",
    "data single": "no class of single has two images",
    "report flat.npz flat.npz": "flat.npz: embeddings must be a matrix",
    "report v.npz v.npz --output v.npz": "cannot write v.npz",
    "usage codes.npz --separation": "has no labels",
    "usage codes.npz --features v.npz": "has no labels",
    "usage codes.npz --labels two.txt": "has 6 items, but 2 labels in ",
    "data digit": "digits",
    "data cifar101": "cifar10",
    "data .": "needs at least two classes",
    "data digits --setting 2": "no official test part",
    "data digits --output v.npz": "not a folder",
    "data digits --source v.npz": "source",
    "report v.npz": "pass two files",
    "report v.npz v.npz": "has no labels",
    "report digits --bits twelve": "--bits must be lengths",
    "report digits --hashers ITQ,XYZ --bits 12": "no hasher 'XYZ'",
    "report digits --codes mine": "NAME=QUERIES,GALLERY",
    "report digits --codes mine=v.npz,codes.npz": "v.npz must hold 176 codes",
    "report digits --output no/r.html": "folder no does not exist",
    "report digits --fit v.npz": "--fit is for files",
    "report v.npz v.npz --setting 2": "--setting is for data sets",
    "report v.npz v.npz --labels two.txt": "--labels is for data sets",
    "report coded.npz coded.npz --hashers ITQ": "--hashers is for embeddings",
    "report coded.npz coded.npz --bits 12": "--bits is for embeddings",
    "usage coded.npz --separation": "at least two classes",
    "report digits --hashers ITQ --bits 65": "at most 64 bits",
    "demo --data nowhere": "digits",
    "demo --output .": "is a folder",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_line_and_exit_code_two(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    np.savez("v.npz", embeddings=vectors)
    np.savez("nan.npz", embeddings=np.where(vectors > 1, np.nan, vectors))
    np.savez("codes.npz", codes=(vectors > 0).astype(int))
    np.savez("coded.npz", codes=(vectors > 0).astype(int), labels=np.zeros(6))
    np.savez("flat.npz", embeddings=vectors.ravel())
    np.savez("three.npz", embeddings=vectors[:3])
    Path("two.txt").write_text("a\nb\n")
    for name in ("x", "y"):
        Path("single", name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(Path("single", name, "i.png"))
    assert_refused(capsys, tmp_path, command, BAD[command])
