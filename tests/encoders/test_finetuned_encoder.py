"""Encoders that were fine-tuned: their files, what they give, ONNX, and files that are refused.

A vacuous test would let pass: a file that is written but whose weights are not used, a version that stays the same when
weights change, a damaged file that still gives numbers.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import lookalike as la
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from helpers.tiny_encoder import Lesson, Tiny, Wide, lesson
from lookalike.core.errors import FileError, InputError
from lookalike.encoders import FineTuned, load
from lookalike.encoders.finetuned import write_finetuned
from lookalike.learning import FinetuneSettings, FineTuning, finetune
from lookalike.learning.onnx_export import check_exportable
from lookalike.study.encode import encode_folder
from lookalike.study.finder import Finder

LESSON: Lesson = lesson()
SETTINGS = FinetuneSettings(labels="both", epochs=2, batch_size=16, learning_rate=3e-3)


@pytest.fixture(autouse=True)
def tiny_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(la.encoders.ENCODERS, "tiny", Tiny)
    monkeypatch.setitem(la.encoders.ENCODERS, "wide", Wide)


@pytest.fixture(scope="module")
def tuning() -> FineTuning:
    return finetune(Tiny(20), LESSON.images, identities=LESSON.identities, categories=LESSON.categories,
                    settings=SETTINGS)  # fmt: skip


def changed(path: Path, about: dict[str, object] | None = None, **arrays: np.ndarray) -> None:
    """Write a file again with other facts or other arrays."""
    with np.load(path) as file:
        content = {name: file[name] for name in file.files}
    facts = json.loads(str(content["about"])) | (about or {})
    np.savez(path.with_suffix(".npz"), **content | arrays | {"about": np.array(json.dumps(facts))})
    path.with_suffix(".npz").replace(path)


def test_it_is_an_encoder_like_all_others(tuning: FineTuning, tmp_path: Path) -> None:
    path = tmp_path / "both.lookalike"
    saved = tuning.save(path)
    again = load(str(path))
    assert isinstance(again, FineTuned)
    with torch.inference_mode():
        expected = tuning.network(Tiny(20).preprocess(LESSON.images)).numpy()
    np.testing.assert_allclose(again.encode(LESSON.images), expected, atol=1e-6)
    assert np.abs(again.encode(LESSON.images) - Tiny(20).encode(LESSON.images)).max() > 0.01
    assert (again.size, again.n_features, again.name) == (20, 16, str(path))
    assert again.version == saved.version
    other = finetune(Tiny(20), LESSON.images, categories=LESSON.categories,
                     settings=FinetuneSettings(labels="category", epochs=1, batch_size=16)).save(path)  # fmt: skip
    assert other.version != again.version


def test_the_file_says_what_it_was_made_of(tuning: FineTuning, tmp_path: Path) -> None:
    about = tuning.save(tmp_path / "both.lookalike").about
    assert (about["lookalike"], about["format"], about["version"]) == ("encoder", 1, la.__version__)
    assert (about["base"], about["base_version"], about["options"]) == ("tiny", "1", {"size": 20})
    training = about["training"]
    assert (training["labels"], training["seed"], training["images"], training["held_out"]) == ("both", 0, 60, 6)
    assert len(training["data"]) == 16
    assert [figures["epoch"] for figures in training["history"]] == [0, 1, 2]


def test_it_can_be_fine_tuned_again(tuning: FineTuning, tmp_path: Path) -> None:
    first = tuning.save(tmp_path / "first.lookalike")
    again = finetune(first, LESSON.images, categories=LESSON.categories,
                     settings=FinetuneSettings(labels="category", epochs=1, batch_size=16))  # fmt: skip
    second = again.save(tmp_path / "second.lookalike")
    (tmp_path / "first.lookalike").unlink()  # it is not needed any more
    rows = load(str(tmp_path / "second.lookalike")).encode(LESSON.images)
    assert second.about["base"] == "tiny"
    assert second.about["training"]["encoder"] == str(tmp_path / "first.lookalike")
    assert np.abs(rows - Tiny(20).encode(LESSON.images)).max() > 0.01


def test_a_study_is_encoded_and_searched_by_it(
    tuning: FineTuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    tuning.save(tmp_path / "Shop ID.lookalike")
    (tmp_path / "shop").mkdir()
    for row in range(6):
        Image.fromarray(LESSON.images[row]).save(tmp_path / "shop" / f"{row}.png")
    monkeypatch.chdir(tmp_path)
    encoded = encode_folder("shop", "shop-study", model="Shop ID.lookalike", folders="nothing")
    assert encoded.model == "Shop-ID"
    monkeypatch.chdir("/")  # the study knows the whole path of the encoder
    study = encoded.study
    looks = Finder(study, "Shop-ID").like_picture(tmp_path / "shop" / "3.png", 1)
    assert study.catalogue.ids[looks.items[0]] == "3.png"


def test_onnx_gives_the_same(tuning: FineTuning, tmp_path: Path) -> None:
    path = tmp_path / "both.onnx"
    tuning.save_onnx(path)
    rows = load(f"onnx:{path}").encode(LESSON.images)
    expected = tuning.save(tmp_path / "both.lookalike").encode(LESSON.images)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["both.lookalike", "both.onnx", "both.onnx.json"]


def test_onnx_files_that_cannot_be_are_refused(tuning: FineTuning, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"must end in \.onnx"):
        tuning.save_onnx(tmp_path / "both.pt")

    class Own(Tiny):
        def __init__(self) -> None:
            super().__init__()
            self._preprocessing = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="tiny prepares images by its own library"):
        check_exportable(Own(), "a.onnx")


def test_files_that_cannot_be_used_are_refused(tuning: FineTuning, tmp_path: Path) -> None:
    path = tmp_path / "a.lookalike"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(str(path))
    with pytest.raises(FileError, match=r"must end in \.lookalike"):
        tuning.save(tmp_path / "a.npz")
    path.write_bytes(b"nothing")
    with pytest.raises(FileError, match="not a readable"):
        load(str(path))
    np.savez(tmp_path / "b.npz", a=np.zeros(3))
    (tmp_path / "b.npz").replace(path)
    with pytest.raises(FileError, match="is not an encoder that lookalike finetune wrote"):
        load(str(path))
    tuning.save(path)
    changed(path, {"format": 99, "version": "9.0"})
    with pytest.raises(FileError, match=r"written by lookalike 9\.0, which is newer"):
        load(str(path))
    tuning.save(path)
    changed(path, **{"weights.0.bias": np.ones(8, np.float32)})
    with pytest.raises(FileError, match="damaged: it does not hold what was written"):
        load(str(path)).encode(LESSON.images[:1])
    tuning.save(path)
    changed(path, {"base": str(path)})
    with pytest.raises(FileError, match="names another file"):
        load(str(path))
    tuning.save(path)
    changed(path, {"base": "phash", "options": {}})
    with pytest.raises(FileError, match="phash, of which it names itself made, has no network"):
        load(str(path))


def test_weights_of_another_architecture_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.lookalike"
    write_finetuned(path, Tiny(), Wide().network())
    with pytest.raises(FileError, match=r"weights of another architecture than tiny, 0\.bias|, 1\.bias"):
        load(str(path)).encode(LESSON.images[:1])
