"""Streams of embeddings of files, damaged ones among them.

A vacuous test would let pass: rows in the wrong order or of the wrong file, a damaged file that ends the run.
"""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.encoder_images import (  # noqa: F401  # fixtures
    KINDS,
    REFUSED,
    animated,
    cosine,
    lite0,
    noise,
    photo,
    photo_files,
    png_header,
    rows_of,
    saved,
    smooth,
    with_exif,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.core import progress
from lookalike.encoders import Colour, DHash, EfficientNetLite0, Encoder, PHash, Pixels, decode, encode_files, load

ROUNDING = 1e-4


# Files to rows


class Means(Encoder):
    """The mean of each picture's red, green and blue; what is prepared is counted."""

    name = "means"
    version = "1"
    n_features = 3

    def __init__(self) -> None:
        self.prepared = 0
        self.most_ahead = 0
        self.lock = threading.Lock()
        self.encoded = 0
        self.sizes: list[int] = []

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        with self.lock:
            self.prepared += 1
            self.most_ahead = max(self.most_ahead, self.prepared - self.encoded)
        return picture.reshape(-1, 3).mean(0)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        self.encoded += len(prepared)
        self.sizes.append(len(prepared))
        return np.array(prepared, np.float32)


def colour_files(folder: Path, n: int, *, broken: tuple[int, ...] = ()) -> list[Path]:
    """Files of one colour each, whose red is their number; those that are broken are only half there."""
    paths = [folder / f"{number}.png" for number in range(n)]
    for number, path in enumerate(paths):
        data = saved(Image.new("RGB", (20 + number % 7, 30), (number, 100, 200)), "PNG")
        path.write_bytes(data[: len(data) // 2] if number in broken else data)
    return paths


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (4, 3), (7, 2), (23, 1), (64, 8)])
def test_rows_are_in_order_and_failures_have_reasons(batch: int, threads: int, tmp_path: Path) -> None:
    broken = (0, 5, 8, 9, 10, 11, 22)  # a whole batch of four, the first and the last
    paths = colour_files(tmp_path, 23, broken=broken)
    files = encode_files(paths, Means(), batch=batch, threads=threads)
    for _ in range(2):  # once more gives the same
        pieces = list(files)
        rows = np.concatenate([rows for rows, _ in pieces])
        vectors = np.concatenate([vectors for _, vectors in pieces])
        assert rows.tolist() == [row for row in range(23) if row not in broken]
        np.testing.assert_array_equal(vectors, [[row, 100, 200] for row in rows])
        assert tuple(files.reasons) == broken
        assert all(str(paths[row]) in reason and "\n" not in reason for row, reason in files.reasons.items())
        assert all(0 < len(rows) == len(vectors) <= batch for rows, vectors in pieces)


def test_only_so_many_pictures_are_held_in_memory(tmp_path: Path) -> None:
    means = Means()
    for _ in encode_files(colour_files(tmp_path, 60), means, batch=5, threads=4):
        time.sleep(0.005)  # threads could run far ahead
    assert means.prepared == 60
    assert 5 < means.most_ahead <= 15
    assert means.sizes == [5] * 12


def test_decoding_goes_on_while_the_network_works(tmp_path: Path) -> None:
    class Slow(Means):
        def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
            next_too = min(16, 4 * (len(hidden) + 2))  # this batch and the one after it
            deadline = time.monotonic() + 30
            while self.prepared < next_too and time.monotonic() < deadline:
                time.sleep(0.001)
            hidden.append(self.prepared >= next_too)
            return super()._rows(prepared)

    slow, hidden = Slow(), list[bool]()
    assert sum(len(rows) for rows, _ in encode_files(colour_files(tmp_path, 16), slow, batch=4, threads=1)) == 16
    assert hidden == [True] * 4


def test_whoever_stops_early_leaves_nothing_behind(tmp_path: Path) -> None:
    means = Means()
    before = set(threading.enumerate())
    filters = list(warnings.filters)
    limit = Image.MAX_IMAGE_PIXELS
    for rows, _ in encode_files(colour_files(tmp_path, 60), means, batch=4, threads=2, max_pixels=10**9):
        assert rows.tolist() == [0, 1, 2, 3]
        break
    assert not [thread for thread in set(threading.enumerate()) - before if "decoding" in thread.name]
    assert list(warnings.filters) == filters
    assert limit == Image.MAX_IMAGE_PIXELS
    assert means.prepared <= 12


def test_what_was_begun_is_not_finished_for_nobody(tmp_path: Path) -> None:
    class Slow(Means):
        def _prepare(self, picture: np.ndarray) -> np.ndarray:
            time.sleep(0.05)
            return super()._prepare(picture)

    slow = Slow()
    for _ in encode_files(colour_files(tmp_path, 60), slow, batch=10, threads=1):
        break
    assert 10 <= slow.prepared < 20  # of 30 that were asked for


def test_reasons_are_those_of_the_last_time(tmp_path: Path) -> None:
    paths = colour_files(tmp_path, 3, broken=(1,))
    files = encode_files(paths, Means())
    assert [rows.tolist() for rows, _ in files] == [[0, 2]]
    assert list(files.reasons) == [1]
    colour_files(tmp_path, 3)
    assert [rows.tolist() for rows, _ in files] == [[0, 1, 2]]
    assert files.reasons == {}


def test_no_files_and_only_broken_files(tmp_path: Path) -> None:
    assert list(encode_files([], Means())) == []
    files = encode_files(colour_files(tmp_path, 3, broken=(0, 1, 2)), Means(), batch=2)
    assert list(files) == []
    assert list(files.reasons) == [0, 1, 2]


def test_an_error_of_the_encoder_is_not_one_of_the_file(tmp_path: Path) -> None:
    class Broken(Means):
        def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        list(encode_files(colour_files(tmp_path, 3), Broken()))


def test_progress_says_how_fast_and_how_long(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with progress.reporting(lambda *step: steps.append(step)):
        list(encode_files(colour_files(tmp_path, 7, broken=(3,)), Means(), batch=3))
    assert [step[1:] for step in steps] == [(3, 7), (6, 7), (7, 7)]
    for what, done, _ in steps:
        assert re.fullmatch(r"encoding \(means\): [\d,.]+ images/s, \d+ s left", what), what
        assert done < 7 or what.endswith(" 0 s left")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be a whole number from 1, got 0"),
        ({"batch": 2.5}, "batch must be"),
        ({"threads": 0}, "threads must be a whole number from 1, got 0"),
        ({"threads": True}, "threads must be"),
    ],
)
def test_options_of_files_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_files(["a.jpg"], Means(), **options)
    with pytest.raises(ValueError, match=r"got the single 'a.jpg': pass \[path\]"):
        encode_files("a.jpg", Means())


def test_batches_and_threads_do_not_change_rows(photo_files: list[Path], lite0: EfficientNetLite0) -> None:
    rows = rows_of(photo_files, lite0, batch=10, threads=1)
    assert rows.shape == (10, 1280)
    for batch, threads in [(1, 2), (3, 4), (7, 1), (64, 2)]:
        np.testing.assert_allclose(rows_of(photo_files, lite0, batch=batch, threads=threads), rows, atol=ROUNDING)
    number = torch.get_num_threads()
    torch.set_num_threads(2)
    np.testing.assert_allclose(rows_of(photo_files, lite0, batch=4), rows, atol=ROUNDING)
    torch.set_num_threads(number)


def test_runs_of_the_same_batches_are_the_same_bit_for_bit(photo_files: list[Path], lite0: EfficientNetLite0) -> None:
    """Whoever resumes a run compares rows by their bytes, whatever threads there were before."""
    paths = [photo_files[number % len(photo_files)] for number in range(23)]
    for torch_threads in (1, 2):
        number = torch.get_num_threads()
        torch.set_num_threads(torch_threads)
        rows = rows_of(paths, lite0, batch=20, threads=1).tobytes()
        for threads in (1, 2, 5):
            assert rows_of(paths, lite0, batch=20, threads=threads).tobytes() == rows, (threads, torch_threads)
        tail = [vectors for _, vectors in encode_files(paths[20:], lite0, batch=20)]  # as if stopped after a batch
        assert rows.endswith(tail[0].tobytes())
        torch.set_num_threads(number)


def test_files_are_encoded_as_their_pictures(photo_files: list[Path], lite0: EfficientNetLite0) -> None:
    pictures = [decode(path) for path in photo_files]
    for encoder in (lite0, PHash(), DHash(), Colour()):
        whole = rows_of(photo_files, encoder, whole=True)
        np.testing.assert_allclose(whole, encoder.encode(pictures), atol=ROUNDING)
        assert encoder.enough is not None or (rows_of(photo_files, encoder) == whole).all()


def test_what_is_not_decoded_is_not_missed(tmp_path: Path, lite0: EfficientNetLite0) -> None:
    """Large JPEGs are decoded smaller: their rows change less than by another quality of the JPEG."""
    paths, others = [], []
    for name in ("chelsea", "astronaut", "coffee", "rocket", "retina"):
        image = Image.fromarray(photo(name))
        image = image.resize((image.width * 450 // min(image.size), image.height * 450 // min(image.size)))
        for folder, quality in ((paths, 90), (others, 80)):
            folder.append(tmp_path / f"{name}-{quality}.jpg")
            image.save(folder[-1], quality=quality)
    whole, part, other = (
        rows_of(paths, lite0, whole=True),
        rows_of(paths, lite0),
        rows_of(others, lite0, whole=True),
    )
    assert not np.allclose(whole, part, atol=ROUNDING)  # they are decoded smaller
    assert min(map(cosine, whole, part)) > 0.99
    assert np.mean([*map(cosine, whole, part)]) > np.mean([*map(cosine, whole, other)])


def test_pixels_of_files_are_those_of_the_middle(tmp_path: Path) -> None:
    sizes = [(40, 60), (64, 32), (32, 32)]
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, (width, height) in zip(paths, sizes, strict=True):
        Image.fromarray(smooth(height, width)).save(path)
    rows = rows_of(paths, load("pixels"))
    assert rows.shape == (3, 32 * 32 * 3)
    np.testing.assert_allclose(rows[2], smooth(32, 32).ravel() / 255, atol=1e-6)
    np.testing.assert_allclose(rows[1].reshape(32, 32, 3), smooth(32, 64)[:, 16:48] / 255, atol=1e-6)
    assert rows_of(paths, load("pixels", size=4)).shape == (3, 48)
    with pytest.raises(ValueError, match="size must be a whole number from 1, got 0"):
        Pixels(0)


# Damaged files: each is a row or a reason, and none ends the run


def malformed() -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(4)
    whole = {
        "jpg": saved(photo("chelsea")[:96, :128], "JPEG", exif=with_exif()),
        "progressive.jpg": saved(smooth(96, 128), "JPEG", progressive=True),
        "png": saved(smooth(50, 40), "PNG", exif=with_exif()),
        "gif": animated(),
        "webp": saved(smooth(50, 40), "WEBP", exif=with_exif()),
        "tif": saved(smooth(50, 40), "TIFF", compression="tiff_lzw"),
        "bmp": saved(smooth(50, 40), "BMP"),
        "ppm": saved(smooth(50, 40), "PPM"),
        "jp2": saved(smooth(50, 40), "JPEG2000"),
        "avif": saved(smooth(50, 40), "AVIF"),
        "cmyk.jpg": saved(Image.fromarray(smooth(50, 40)).convert("CMYK"), "JPEG"),
        "palette.png": saved(Image.fromarray(smooth(50, 40)).quantize(8), "PNG", transparency=2),
        "16-bit.png": saved(noise(50, 40).astype(np.uint16) << 8, "PNG"),
    }
    for suffix, data in whole.items():
        for part in (0, 1, 2, 3, 7, 12, 20, 50, len(data) // 3, len(data) // 2, len(data) - 40, len(data) - 2):
            yield f"cut-{part}.{suffix}", data[:part]
        for number in range(12):
            flipped = bytearray(data)
            first = min(len(data), 400) if number % 2 else len(data)  # every other one in the header
            for place in rng.integers(0, first, 1 + number // 3):
                flipped[place] ^= 1 << rng.integers(8)
            yield f"flip-{number}.{suffix}", bytes(flipped)
        yield f"doubled.{suffix}", data + data
        yield f"headless.{suffix}", data[16:]
        yield f"named-otherwise-{suffix}.txt", data
    for number in range(10):
        yield f"random-{number}.jpg", rng.bytes(200)
        yield f"random-{number}.png", b"\x89PNG\r\n\x1a\n" + rng.bytes(200)
        yield f"random-{number}.tif", b"II*\x00" + rng.bytes(200)
        yield f"random-{number}.webp", b"RIFF\xff\x00\x00\x00WEBP" + rng.bytes(200)
    for side in (9_500, 40_000, 2**31 - 1):
        yield f"bomb-{side}.png", png_header(side, side)
    for name, (data, _) in {**KINDS, **REFUSED}.items():
        yield f"whole-{name}", data


def test_damaged_files_are_rows_or_reasons(tmp_path: Path) -> None:
    paths = []
    for name, data in malformed():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    assert len({path.read_bytes() for path in paths}) >= 300
    found = {}
    files = encode_files(paths, PHash(), batch=32, threads=2)
    with warnings.catch_warnings(record=True) as voiced:
        for rows, vectors in files:
            found |= dict(zip(rows.tolist(), vectors, strict=True))
    assert not voiced
    assert sorted([*found, *files.reasons]) == list(range(len(paths)))
    assert len(found) > 100  # much damage leaves a picture
    assert len(files.reasons) > 100
    for row, reason in files.reasons.items():
        assert reason.startswith(f"{paths[row]} "), reason
        assert 20 < len(reason) - len(str(paths[row])) + 20 < 250, reason
        assert "\n" not in reason
    for row, path in enumerate(paths):
        if path.name.startswith("whole-"):
            assert (row in found) == (path.name.removeprefix("whole-") in KINDS), path
        if path.name.startswith(("random-", "headless.jpg", "cut-0.", "cut-3.", "bomb-")):
            assert row in files.reasons, path


def test_a_damaged_file_gives_the_same_with_any_encoder(tmp_path: Path, lite0: EfficientNetLite0) -> None:
    paths = []
    for name, data in [*malformed()][::25]:
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    reasons = []
    for encoder in (PHash(), lite0, Colour(), Pixels()):
        files = encode_files(paths, encoder, batch=8)
        for _, vectors in files:
            assert np.isfinite(vectors).all()
        reasons.append(files.reasons)
    assert all(reason == reasons[0] for reason in reasons)
    assert 0 < len(reasons[0]) < len(paths)
