"""`lookalike train`, and what takes its result: hash, report and a run that was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lookalike as la
from helpers.commands import assert_refused, run
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.evaluation.item_files import read_items
from lookalike.learning import LearnedHasher


def numbers(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """What a command with --json printed, parsed; on a slow machine it tells its progress beside."""
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    return dict(json.loads(out))


QUICK = ("--epochs", 3, "--bits", 12)


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """A file of embeddings with labels: 300 digits."""
    digits = la.datasets.load("digits")
    path = tmp_path / "items.npz"
    np.savez(path, embeddings=digits.pixels()[:300], labels=digits.labels[:300])
    return path


def test_a_data_set_is_learned_hashed_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, page = tmp_path / "ap.npz", tmp_path / "page.html"
    said = numbers(capsys, "train", "--data", "digits", "--network", "two-layer", *QUICK, "--output", saved)
    digits = la.datasets.load("digits")
    split = digits.split()
    labels = digits.labels[split.training]
    same = LearnedHasher(12, epochs=3, validation=0.1, image_shape=(8, 8)).fit(digits.pixels(split.training), labels)
    found = la.hashers.load(saved)
    np.testing.assert_array_equal(found.project(digits.pixels()), same.project(digits.pixels()))
    relevance = la.same_label(digits.labels[split.queries], digits.labels[split.gallery])
    codes = [found.transform(digits.pixels(rows)) for rows in (split.queries, split.gallery)]
    expected = la.evaluate(*codes, relevance, ["AP"])["AP"].mean
    assert said["test"]["mAP"] == pytest.approx(expected, abs=1e-12)
    assert said["curves"]["loss"] == pytest.approx(list(same.losses_))
    assert said["best_epoch"] == same.best_epoch_
    rows = numbers(capsys, "report", "digits", "--hashers", f"ITQ {saved}", "--bits", 12, "--output", page)["rows"]
    assert {row["hasher"] for row in rows} == {"ITQ", "ap"}
    assert next(row["mAP"] for row in rows if row["hasher"] == "ap") == pytest.approx(expected, abs=1e-12)
    assert "tie-aware" in page.read_text() or "ap" in page.read_text()


def test_what_is_printed_is_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "train", "--data", "digits", *QUICK, "--loss", "dsh", "--output", tmp_path / "h.npz")
    assert code == 0
    assert "12 bits by dsh, convolutions: 3 epochs" in out
    assert "← kept" in out
    assert "queries, which were not learned from: mAP 0." in out


def test_a_file_is_learned_from_and_hashed(items: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, codes = tmp_path / "h.npz", tmp_path / "codes.npz"
    said = numbers(capsys, "train", "--data", items, *QUICK, "--output", saved, "--loss", "cross-entropy")
    assert said["items"] == 300
    assert said["test"] is None
    assert numbers(capsys, "hash", items, codes, "--hasher", saved)["hasher"] == "cross-entropy"
    with np.load(items) as file:
        expected = la.hashers.load(saved).transform(file["embeddings"])
    np.testing.assert_array_equal(read_items(codes).vectors.to_bytes(), expected.to_bytes())


def test_hash_learns_by_the_name_of_a_loss(items: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = numbers(capsys, "hash", items, tmp_path / "codes.npz", "--hasher", "tie-aware-dcg", "--bits", 8)
    assert (said["hasher"], said["bits"]) == ("tie-aware-dcg", 8)


def test_images_are_encoded_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two classes that only their colours tell apart, through a real network; then from its kept features alone."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for name, level in (("bright", 200), ("dark", 40)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(12):
            pixels = (level + rng.integers(-30, 30, (20, 24, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    command = (
        "train",
        "--data",
        tmp_path / "photos",
        "--features",
        "efficientnet-lite0",
        "--output",
        tmp_path / "h.npz",
    )
    first = numbers(capsys, *command, *QUICK)
    kept = list((tmp_path / "cache" / "features").glob("*.npz"))
    assert len(kept) == 1
    with np.load(kept[0]) as file:  # of the files themselves, not of what is shown of them
        pictures = la.datasets.load(tmp_path / "photos", size=112).images
        np.testing.assert_allclose(file["rows"], la.encoders.load("efficientnet-lite0").encode(pictures), atol=1e-4)
    monkeypatch.setattr("lookalike.encoders.efficientnet.EfficientNetLite0._rows", None)
    again = numbers(capsys, *command, *QUICK)
    assert first["curves"] == again["curves"]
    assert la.hashers.load(tmp_path / "h.npz").n_features_in_ == 1280
    parts = tmp_path / "parts"
    run(capsys, "data", tmp_path / "photos", "--features", "efficientnet-lite0", "--output", parts)
    with np.load(parts / "gallery.npz") as file:
        assert file["embeddings"].shape[1] == 1280
    page = tmp_path / "page.html"
    chosen = ("--hashers", f"LSH {tmp_path / 'h.npz'}", "--bits", 12, "--output", page)
    rows = numbers(capsys, "report", tmp_path / "photos", "--features", "efficientnet-lite0", *chosen)["rows"]
    assert {row["hasher"] for row in rows} == {"LSH", "h"}


KILLED = """
import os, signal, sys, torch
from lookalike import cli
from lookalike.learning import training

torch.set_num_threads(1)
training.report = lambda what, done, total: done == 14 and os.kill(os.getpid(), signal.SIGKILL)
cli.main(sys.argv[1:])
"""


def test_a_command_that_was_interrupted_and_killed_goes_on(
    items: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of the second epoch and of the third: there are 6 steps in each."""
    whole, parted, checkpoint = tmp_path / "whole.npz", tmp_path / "parted.npz", tmp_path / "run.pt"
    command = ("train", "--data", items, "--epochs", 4, "--bits", 8, "--batch-size", 50)
    numbers(capsys, *command, "--output", whole)
    command = (*command, "--output", parted, "--checkpoint", checkpoint)
    steps: list[int] = []

    def interrupt(what: str, done: int, total: int) -> None:
        steps.append(done)
        if done == 9 and len(steps) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr("lookalike.learning.training.report", interrupt)
    code, _, err = run(capsys, *command)
    assert (code, err) == (130, f"lookalike: stopped; the same command goes on from {checkpoint}\n")
    killed = subprocess.run([sys.executable, "-c", KILLED, *map(str, command)], capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert not parted.exists()
    numbers(capsys, *command)
    assert steps == [*range(1, 10), *range(13, 25)]
    digits = la.datasets.load("digits").pixels()
    np.testing.assert_array_equal(la.hashers.load(whole).project(digits), la.hashers.load(parted).project(digits))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("train --data digitz", "did you mean digits"),
        ("train --data nowhere.npz", "there is no file nowhere.npz"),
        ("train --data items.npz --features efficientnet-lite0", "are for data sets and folders of images"),
        ("train --data codes.npz", "holds codes: a hasher learns from embeddings"),
        ("train --data plain.npz", "has no labels, which a network learns from"),
        ("train --data one.npz", "all items have the same label"),
        ("train --data items.npz --alpha 0", "alpha must be above 0 and finite, got 0"),
        ("train --data items.npz --alpha -2", "alpha must be above 0"),
        ("train --data items.npz --bits 0", "--bits must be a whole number from 1"),
        ("train --data items.npz --epochs 0", "epochs must be a whole number from 1"),
        (
            "train --data items.npz --loss dsh --alpha 3",
            "--alpha is for tie-aware-ap and tie-aware-dcg and mihash and hashnet, not for dsh",
        ),
        (
            "train --data items.npz --margin 3",
            "--margin is for dsh and dispersed-dsh and dispersed-dsh-hierarchy and dtsh and dpn and orthohash, not",
        ),
        ("train --data items.npz --validation 1.5", "validation must be from 0 to below 1"),
        ("train --data items.npz --loss tie-aware", "--loss"),
        ("train --data items.npz --network convolutions", "is for the pixels of a data set"),
        ("hash plain.npz c.npz --hasher dsh --bits 4", "plain.npz has no labels, which dsh learns from"),
        ("hash plain.npz c.npz --hasher ksh --bits 4", "plain.npz has no labels, which ksh learns from"),
        ("train --data items.npz --output items.npz", "it is read by the same command"),
        ("train --data items.npz --output hasher.txt", "must end in .npz"),
        ("train --data items.npz --checkpoint items.npz", "it is read by the same command"),
        ("train --data items.npz --checkpoint plain.npz", "not a checkpoint"),
        ("train --data digits --features efficientnet", "did you mean efficientnet-lite"),
        ("train", "--data"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    arguments: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(40, 5)).astype(np.float32), np.arange(40) % 4
    np.savez(tmp_path / "items.npz", embeddings=rows, labels=labels)
    np.savez(tmp_path / "plain.npz", embeddings=rows)
    np.savez(tmp_path / "one.npz", embeddings=rows, labels=np.zeros(40))
    np.savez(tmp_path / "codes.npz", codes=rng.integers(0, 2, (40, 8)), labels=labels)
    assert_refused(capsys, tmp_path, arguments, words)
