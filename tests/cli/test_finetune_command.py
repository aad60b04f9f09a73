"""`lookalike finetune`: from a study or a data set to an encoder that other commands take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from torch.optim.optimizer import register_optimizer_step_pre_hook

import lookalike as la
from helpers.commands import assert_refused, done, run
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from helpers.tiny_encoder import Tiny, lesson

ONCE = ("--encoder", "tiny", "--batch-size", 16, "--lr", 0.003, "--epochs", 1)
QUICK = (*ONCE[:-1], 2)


@pytest.fixture(autouse=True)
def tiny_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(la.encoders.ENCODERS, "tiny", Tiny)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A study of 60 images with identities in folders of categories."""
    images, identities, categories = lesson()
    for row, (image, identity, category) in enumerate(zip(images, identities, categories, strict=True)):
        place = tmp_path / "shop" / f"c{category}" / identity
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{row}.png")
    done(capsys, "encode", "shop", "--folders", "category/identity", "--model", "pixels")
    return tmp_path / "shop-study"


def test_a_study_gets_an_encoder_of_its_own(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "finetune", shop, "--labels", "both", *QUICK, "--output", "id.lookalike", "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["images"], said["held_out"], said["labels"], said["of"]) == (60, 6, "both", "tiny")
    assert said["history"][-1].keys() == {
        *("epoch", "loss", "seconds", "identity AP", "identity Hit@1", "category AP", "category Hit@1")
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["id.lookalike", "shop", "shop-study"]
    done(capsys, "encode", "shop", "--study", shop, "--model", "id.lookalike")
    assert "c1/p1/" in done(capsys, "search", shop, "c1/p1/5.png", "--model", "id")


@pytest.mark.parametrize("labels", ["identity", "category", "none"])
def test_a_table_shows_before_and_after(shop: Path, labels: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = done(capsys, "finetune", shop, "--labels", labels, *QUICK, "--onnx", "a.onnx", "--local-crops", 1)
    assert "54 images, 6 held out, 2 epochs" in out
    assert "0 (before)" in out
    assert "← kept" in out
    assert "identity Hit@1" in out
    assert "the encoder is in finetuned.lookalike" in out
    assert Path("a.onnx.json").is_file()


def test_an_interrupted_run_goes_on(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n_steps = 0

    def interrupt(*_: object) -> None:
        nonlocal n_steps
        n_steps += 1
        if n_steps == 6:
            raise KeyboardInterrupt

    command = ("finetune", shop, *QUICK, "--output", "id.lookalike")
    hook = register_optimizer_step_pre_hook(interrupt)
    try:
        code, _, err = run(capsys, *command)
        assert code == 130
        assert "the same command goes on from id.lookalike.checkpoint" in err
        code, _, err = run(capsys, *command)
        assert "going on from id.lookalike.checkpoint" in err
    finally:
        hook.remove()
    assert n_steps == 6 + 4
    assert not Path("id.lookalike.checkpoint").exists()


def test_a_data_set_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "finetune", "digits", "--labels", "category", *ONCE, "--json")
    assert code == 0
    said = json.loads(out)
    digits = la.datasets.load("digits")
    assert said["images"] == len(digits.split().training)
    assert "category AP" in said["history"][0]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("finetune digits --encoder tiny", ("no identities to learn from, which --labels identity needs: give them, or "
         "--labels category")),
        ("finetune digits --encoder phash --labels category", "phash cannot be fine-tuned"),
        ("finetune digits --encoder tiny --labels category --batch-size 5000", "--batch-size 5000 is above the"),
        ("finetune digits --encoder tiny --labels category --objective dino", "--objective dino learns from images"),
        ("finetune digits --encoder tiny --labels category --output a.npz", r"must end in \.lookalike"),
        ("finetune digits --encoder tiny --labels category --onnx a.bin", r"must end in \.onnx"),
        ("finetune nowhere --encoder tiny", "nowhere"),
        ("finetune digits --encoder nothing.lookalike", "there is no file nothing.lookalike"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    command: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(capsys, tmp_path, command, words)


def test_images_that_are_gone_are_said(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop" / "c0" / "p0" / "0.png").unlink()
    (tmp_path / "shop" / "c0" / "p0" / "1.png").write_bytes(b"no image")
    code, out, err = run(capsys, "finetune", shop, *ONCE, "--json")
    assert code == 0
    assert json.loads(out)["images"] == 58
    assert "0.png is left out: the file is gone" in err
    assert "1.png is left out: not an image" in err
    assert_refused(capsys, tmp_path, f"finetune {shop} --encoder tiny --setting 2", "--source and --setting are for")
