"""Folders of images as data sets: classes by folder or by CSV file, and images that cannot be read."""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import logging
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.archives import unpacked
from helpers.caches import folder  # noqa: F401  # fixtures
from lookalike import datasets
from lookalike.core import progress
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.folder import image_folder

pytestmark = pytest.mark.usefixtures("folder")  # a cache of its own, and no network by accident

RNG = np.random.default_rng(0)


# Folders of images


def save(path: Path, colour: Any = "red", size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)
    return path


@pytest.fixture
def photos(folder: Path) -> Path:
    photos = folder / "photos"
    for name, colour in {
        "cats/b.png": "red",
        "cats/deep/er/a.JPG": "lime",
        "dogs/z.bmp": "blue",
        "dogs/c.gif": "white",
    }.items():
        save(photos / name, colour)
    unpacked(photos, {"readme.txt": b"", "dogs/notes.md": b"", "dogs/.hidden.png": b"", ".git/x/y.png": b""})
    return photos


def names(dataset: Dataset, folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in dataset.paths]


def test_folders_are_classes(photos: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with progress.reporting(lambda *step: steps.append(step)):
        dataset = datasets.load(str(photos))
    assert names(dataset, photos) == ["cats/b.png", "cats/deep/er/a.JPG", "dogs/c.gif", "dogs/z.bmp"]
    assert (dataset.name, dataset.classes, dataset.labels.tolist()) == ("photos", ("cats", "dogs"), [0, 0, 1, 1])
    assert dataset.images.shape == (4, 32, 32, 3)
    np.testing.assert_allclose(dataset.images.mean((1, 2))[[0, 2, 3]], [[255, 0, 0], [255] * 3, [0, 0, 255]])
    assert dataset.unreadable == ()
    assert steps == [("reading images", done, 4) for done in (1, 2, 3, 4)]
    assert repr(image_folder(photos, size=7)) == "Dataset(photos: 4 images of 7 × 7 in 2 classes)"
    with pytest.raises(ValueError, match="no official test part"):
        dataset.split(2)


def first(folder: Path, size: int = 32) -> np.ndarray:
    """The first image, with another class beside it."""
    save(folder / "z" / "other.png")
    return image_folder(folder, size=size).images[0]


def test_the_middle_square_is_averaged(folder: Path) -> None:
    values = RNG.integers(0, 256, (8, 12, 3)).astype(np.uint8)
    (folder / "p" / "a").mkdir(parents=True)
    Image.fromarray(values).save(folder / "p" / "a" / "x.png")
    means = values[:, 2:10].reshape(4, 2, 4, 2, 3).mean((1, 3))
    assert abs(first(folder / "p", 4) - means).max() <= 1  # Pillow rounds twice, across and down


def test_a_large_jpeg_is_nearly_as_exact(folder: Path) -> None:
    ramp = np.broadcast_to(np.linspace(0, 255, 1600).astype(np.uint8)[:, None, None], (1600, 1600, 3))
    (folder / "p" / "a").mkdir(parents=True)
    Image.fromarray(ramp).save(folder / "p" / "a" / "x.jpg")
    expected = ramp.reshape(16, 100, 16, 100, 3).mean((1, 3))
    assert abs(first(folder / "p", 16) - expected).max() < 3


def test_pictures_are_upright(folder: Path) -> None:
    image = Image.new("RGB", (40, 40), "black")
    image.paste("white", (0, 0, 40, 20))  # the upper half
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter: the upper half belongs on the right
    (folder / "p" / "a").mkdir(parents=True)
    image.save(folder / "p" / "a" / "x.png", exif=exif)
    seen = first(folder / "p")
    assert seen[:, 17:].min() > 250
    assert seen[:, :15].max() < 5
    picture = image_folder(folder / "p").picture(0, 20)
    assert picture[:, 12:].min() > 250
    assert picture[:, :8].max() < 5


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (255, 0, 0, 255), (255, 0, 0)),
        ("LA", (0, 0), (255, 255, 255)),
        ("L", 100, (100, 100, 100)),
        ("1", 1, (255, 255, 255)),
        ("I;16", 100 << 8, (100, 100, 100)),
        ("P", 0, (0, 0, 0)),
    ],
)
def test_every_kind_of_pixel_becomes_rgb(folder: Path, mode: str, colour: Any, expected: tuple[int, ...]) -> None:
    save(folder / "p" / "a" / "x.png", colour, mode=mode)
    assert (first(folder / "p") == expected).all()


def test_a_transparent_colour_of_a_palette_is_white(folder: Path) -> None:
    save(folder / "p" / "a" / "x.png", 0, mode="P", transparency=0)
    assert (first(folder / "p") == 255).all()


def test_pictures_are_fitted_and_not_enlarged(folder: Path) -> None:
    save(folder / "p" / "a" / "wide.png", size=(400, 100))
    save(folder / "p" / "b" / "small.png", size=(10, 20))
    dataset = image_folder(folder / "p")
    assert dataset.picture(0).shape == (24, 96, 3)
    assert dataset.picture(0, 40).shape == (10, 40, 3)
    assert dataset.picture(1).shape == (20, 10, 3)
    assert dataset.picture(1).dtype == np.uint8


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_files_that_cannot_be_read_are_listed(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = save(photos / "dogs" / "whole.jpg", size=(300, 300)).read_bytes()
    bad = {
        "cats/bomb.png": (png_that_claims(30_000, 30_000), "decompression bomb"),
        "cats/large.png": (png_that_claims(10_000, 10_000), "decompression bomb"),
        "cats/cut.jpg": (whole[: len(whole) // 2], "truncated"),
        "cats/empty.jpg": (b"", "the file is empty"),
        "cats/text.jpg": (b"not an image at all", "not an image"),
        "birds/only.png": (b"\x89PNG\r\n\x1a\n", "not an image|."),
    }
    unpacked(photos, {name: content for name, (content, _) in bad.items()})
    (photos / "cats" / "gone.jpg").symlink_to(photos / "nowhere.jpg")
    with caplog.at_level(logging.WARNING, "lookalike"):
        dataset = image_folder(photos)
    reasons = {path.relative_to(photos).as_posix(): reason for path, reason in dataset.unreadable}
    assert set(reasons) == {*bad, "cats/gone.jpg"}
    for name, (_, reason) in bad.items():
        assert re.search(reason, reasons[name]), (name, reasons[name])
        assert "\n" not in reasons[name]
    assert len(dataset) == 5
    assert len(dataset.images) == len(dataset.paths) == 5
    assert dataset.classes == ("cats", "dogs")  # nothing of birds could be read
    assert "7 of 12 files" in caplog.text


def test_a_folder_where_nothing_can_be_read(folder: Path) -> None:
    unpacked(folder / "p", {"a/x.png": b"", "b/y.png": b"?"})
    with pytest.raises(ValueError, match=r"none of the 2 images in .*p can be read; a/x\.png: the file is empty"):
        image_folder(folder / "p")


def test_one_class_is_too_few(folder: Path) -> None:
    save(folder / "p" / "a" / "x.png")
    with pytest.raises(ValueError, match=r"needs at least two classes.* only 'a'"):
        image_folder(folder / "p")
    unpacked(folder / "p", {"b/y.png": b""})
    with pytest.raises(ValueError, match="needs at least two classes"):
        image_folder(folder / "p")


def test_folders_without_images_and_images_without_folders(folder: Path) -> None:
    (folder / "p" / "a").mkdir(parents=True)
    with pytest.raises(ValueError, match="has no images: expected files like"):
        image_folder(folder / "p")
    for name in ("y.png", "x.png", "z.png", "a/y.png"):
        save(folder / "p" / name)
    with pytest.raises(ValueError, match=r"3 images lie directly in .* the first is x\.png: .* CSV file of labels"):
        image_folder(folder / "p")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        image_folder(folder / "p" / "x.png")
    with pytest.raises(ValueError, match="size must be a whole number from 1, got 0"):
        image_folder(folder / "p", size=0)


def test_links_are_followed_and_loops_end(photos: Path, folder: Path) -> None:
    save(folder / "elsewhere" / "e.png")
    (photos / "birds").symlink_to(folder / "elsewhere")
    (photos / "cats" / "up").symlink_to(photos)
    (photos / "cats" / "self").symlink_to(photos / "cats" / "self")
    (photos / "cats" / "self.png").symlink_to(photos / "cats" / "self.png")
    os.mkfifo(photos / "cats" / "pipe.png")
    dataset = image_folder(photos)
    assert dataset.classes == ("birds", "cats", "dogs")
    assert len(dataset) == 5
    assert [path.name for path, _ in dataset.unreadable] == ["self.png"]


# Labels from a CSV file


def test_labels_from_a_csv_file(folder: Path) -> None:
    for name in ("x.png", "y.png", "sub/z.png"):
        save(folder / "p" / name)
    (folder / "p" / "odd name").write_bytes((folder / "p" / "x.png").read_bytes())  # named by the table alone
    table = folder / "p" / "labels.csv"
    table.write_text(
        '\ufeffFILENAME, Class ,id\nx.png,dog,1\n./y.png," cat",2\n\n'
        'sub/z.png,dog,3\nsub/z.png,dog,3\nodd name,"a, b",4\n'
    )
    dataset = datasets.load(folder / "p", labels=table)
    assert names(dataset, folder / "p") == ["odd name", "sub/z.png", "x.png", "y.png"]
    assert [dataset.classes[label] for label in dataset.labels] == ["a, b", "dog", "dog", "cat"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"file,label\nx.png,a\ny.png,b\nz.png,b\nw.png,b\n", r"names 2 files that are not in .* first is z\.png"),
        (b"file,label\nx.png,a\n", r"1 images in .* have no row in .* first is y\.png"),
        (b"file,label\nx.png,a\ny.png,b\nx.png,b\n", "line 4: x.png is 'b', but 'a' before"),
        (b"file,label\n../x.png,a\ny.png,b\n", r"line 2: \.\./x\.png is not below"),
        (b"file,label\nsub/../../x.png,a\ny.png,b\n", "line 2: .* is not below"),
        (b"file,label\n/etc/x.png,a\ny.png,b\n", "line 2: /etc/x.png is not below"),
        (b"file,label\nx.png,a\ny.png,a\n", "at least two classes"),
        (b"file,label\nx.png,\ny.png,a\n", "line 2: a file and a label are expected"),
        (b"file,label\nx.png\ny.png,a\n", "line 2: a file and a label are expected"),
        (b"x.png,a\ny.png,b\n", "must name its columns, .* got x.png, a"),
        (b"file,name\nx.png,a\n", "must name its columns"),
        (b"", "must name its columns, .* got nothing"),
        (b"file,label\nx.png,\xff\n", "is not a CSV file in UTF-8"),
    ],
)
def test_labels_that_do_not_match(folder: Path, text: bytes, message: str) -> None:
    for name in ("x.png", "p/x.png", "p/y.png"):
        save(folder / name)
    (folder / "labels.csv").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        image_folder(folder / "p", folder / "labels.csv")


def test_labels_that_are_not_there(photos: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        image_folder(photos, photos / "labels.csv")
    (photos / "empty").mkdir()
    (photos / "labels.csv").write_text("file,label\n")
    with pytest.raises(ValueError, match=r"has no images, and .* no rows"):
        image_folder(photos / "empty", photos / "labels.csv")
