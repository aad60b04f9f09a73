"""Files and encoders of all kinds: decoding, damaged files, streams of rows, hashes, colours, ONNX, other libraries.

A vacuous test would let pass: a photo that is encoded as any other, rows in the wrong order or of the wrong file, a
damaged file that ends the run, a limit that is checked after decoding, an exported network with other preprocessing.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import re
import struct
import sys
import threading
import time
import types
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imagehash
import numpy as np
import onnx
import pytest
import skimage.color
import skimage.data
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import lookalike as la
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.core import progress
from lookalike.encoders import (
    Colour,
    DHash,
    EfficientNetLite0,
    Encoder,
    Onnx,
    PHash,
    Pixels,
    Preprocessing,
    decode,
    encode_files,
    load,
)
from lookalike.encoders.colour import _lab

ROUNDING = 1e-4
RNG = np.random.default_rng(0)
PHOTOS = ("chelsea", "astronaut", "coffee", "rocket", "camera", "coins", "hubble_deep_field", "retina", "moon", "page")


def photo(name: str) -> np.ndarray:
    return getattr(skimage.data, name)()


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    """A picture without edges, which survives JPEG: redder to the right, bluer to the bottom."""
    down, right = np.mgrid[0:height, 0:width]
    return np.stack([right * 255 // max(width - 1, 1), down * 0 + 90, down * 255 // max(height - 1, 1)], 2).astype(
        np.uint8
    )


def saved(picture: np.ndarray | Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.fixture(scope="module")
def lite0() -> EfficientNetLite0:
    return EfficientNetLite0()


# Photographs


def test_a_cat_is_like_itself_and_unlike_other_photos(lite0: EfficientNetLite0) -> None:
    cat = photo("chelsea")
    height, width = cat.shape[:2]
    crop = cat[height // 10 : -height // 10, width // 10 : -width // 10][:, ::-1]  # 0.92
    rows = lite0.encode([crop, *map(photo, PHOTOS)])
    assert cosine(rows[0], rows[1]) >= 0.9
    for name, row in zip(PHOTOS[1:], rows[2:], strict=True):
        assert cosine(row, rows[1]) <= 0.4, name  # at most 0.25


def test_of_pictures_that_are_not_square_the_middle_counts(lite0: EfficientNetLite0) -> None:
    cat = photo("chelsea")  # 300 × 451
    middle = cat[:, 75:376]  # 301 wide, of which half a pixel falls off on either side
    np.testing.assert_allclose(lite0.preprocess([cat])[0], lite0.preprocess([middle])[0], atol=0.05)
    sides = cat.copy()
    sides[:, :70], sides[:, -70:] = 0, 255
    np.testing.assert_array_equal(lite0.encode([sides]), lite0.encode([cat]))
    np.testing.assert_array_equal(lite0.encode([sides.transpose(1, 0, 2)]), lite0.encode([cat.transpose(1, 0, 2)]))


def test_pictures_of_pillow_are_those_of_arrays(lite0: EfficientNetLite0) -> None:
    cat = Image.fromarray(photo("chelsea"))
    white = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    palette = cat.quantize(16)
    turned = cat.copy()
    turned.getexif()[0x0112] = 6
    expected = [np.asarray(cat), np.full((20, 20, 3), 255, np.uint8), np.asarray(palette.convert("RGB"))]
    expected += [np.rot90(np.asarray(cat), -1), np.asarray(cat.convert("L"))]
    for encoder in (lite0, PHash(), DHash(), Colour()):
        given = encoder.encode([cat, white, palette, turned, cat.convert("L")])
        np.testing.assert_array_equal(given, encoder.encode(expected))
    with pytest.raises(ValueError, match=r"a single one as \[image\]"):
        lite0.encode(cat)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"image 1 .* got \(\) of object: for files, use .*encode_files"):
        lite0.encode([cat, Path("cat.jpg")])


# How networks want their pictures

UNIT = ((0.0,) * 3, (1 / 255,) * 3)  # pixels as they are


def middle(picture: np.ndarray, shorter: int, size: int, kernel: Image.Resampling) -> np.ndarray:
    """As everyone does it: the shorter side is made so long, then the middle is cut out."""
    image = Image.fromarray(picture)
    scale = shorter / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), kernel)
    left, top = round((image.width - size) / 2), round((image.height - size) / 2)
    return np.asarray(image.crop((left, top, left + size, top + size)).convert("RGB"))


@pytest.mark.parametrize("kernel", ["bilinear", "bicubic", "lanczos", "box", "hamming"])
@pytest.mark.parametrize(("size", "shorter"), [(64, 64), (56, 64)])
@pytest.mark.parametrize("shape", [(192, 288, 3), (288, 192, 3), (16, 32, 3), (192, 192)])
def test_the_middle_is_what_others_crop(kernel: str, size: int, shorter: int, shape: tuple[int, ...]) -> None:
    coarse = Image.fromarray(64 + noise(8, 8, 3) // 2)  # others clip what leaves the range, twice
    picture = np.asarray(coarse.resize((shape[1], shape[0]), Image.Resampling.BICUBIC))
    picture = picture if len(shape) == 3 else picture[..., 0]
    made = Preprocessing((size, size), *UNIT, crop=size / shorter, interpolation=kernel)(picture)
    expected = middle(picture, shorter, size, Image.Resampling[kernel.upper()])
    assert made.shape == (size, size, 3)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, atol=1.5)  # others round twice
    assert np.ptp(expected) > 50


@pytest.mark.parametrize("shape", [(9, 9, 3), (40, 40, 3), (300, 300, 3), (7, 7)])
def test_floats_are_resized_as_torch_does(shape: tuple[int, ...]) -> None:
    picture = noise(*shape)
    values = torch.from_numpy(picture.astype(np.float32).reshape(1, *shape[:2], -1)).permute(0, 3, 1, 2)
    expected = torch.nn.functional.interpolate(values, (32, 32), mode="bicubic", antialias=True)[0].permute(1, 2, 0)
    made = Preprocessing((32, 32), *UNIT)(picture)
    np.testing.assert_allclose(made, np.broadcast_to(expected.clamp(0, 255), (32, 32, 3)), atol=2e-3)


def by_pillow(picture: np.ndarray, wants: Preprocessing) -> np.ndarray:
    """Each colour as floats that Pillow resizes, from the definition of `crop`, `squash` and `pad`."""
    (height, width), box = wants._fit(*picture.shape[:2])
    kernel = Image.Resampling[wants.interpolation.upper()]
    planes = [plane.convert("F").resize((width, height), kernel, box=box) for plane in Image.fromarray(picture).split()]
    made = np.full((*wants.size, len(planes)), wants.fill, np.float32)
    top, left = (wants.size[0] - height) // 2, (wants.size[1] - width) // 2
    made[top : top + height, left : left + width] = np.stack(planes, 2)
    return np.broadcast_to(made.clip(0, 255), (*wants.size, 3))


@given(
    st.tuples(st.integers(1, 300), st.integers(1, 300), st.sampled_from([(), (3,)])),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(["crop", "squash", "pad"]),
    st.sampled_from(["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]),
    st.sampled_from([1.0, 0.875, 0.61]),
)
def test_every_size_is_that_of_pillow_with_floats(
    shape: tuple[int, int, tuple[int, ...]], size: tuple[int, int], resize: str, kernel: str, crop: float
) -> None:
    picture = noise(*shape[:2], *shape[2])
    wants = Preprocessing(size, *UNIT, resize=resize, interpolation=kernel, crop=crop, fill=7)
    (height, width), box = wants._fit(*picture.shape[:2])
    shrunk = min((box[2] - box[0]) / width, (box[3] - box[1]) / height)
    if shrunk < 16:  # beyond, in two steps
        atol = 2e-3 if shrunk > 1 else 0  # what is made larger has the very same numbers
        np.testing.assert_allclose(wants(picture), by_pillow(picture, wants), rtol=0, atol=atol)


def test_wide_pictures_are_shrunk_strip_by_strip() -> None:
    picture = noise(40, 4000, 3)  # 12,000 numbers in a line
    wants = Preprocessing((20, 900), *UNIT, resize="squash")
    np.testing.assert_allclose(wants(picture), by_pillow(picture, wants), atol=2e-3)


def test_squashing_and_padding() -> None:
    picture = np.full((10, 40, 3), 200, np.uint8)
    picture[:, :20] = 100
    squashed = Preprocessing((20, 20), *UNIT, resize="squash", interpolation="box")(picture)
    assert (squashed[:, :10] == 100).all()
    assert (squashed[:, 10:] == 200).all()
    padded = Preprocessing((20, 20), *UNIT, resize="pad", fill=7, interpolation="box")(picture)
    assert (padded[:7] == 7).all()
    assert (padded[7:12, :10] == 100).all()
    assert (padded[7:12, 10:] == 200).all()
    assert (padded[12:] == 7).all()
    half = Preprocessing((20, 20), *UNIT, resize="squash", crop=0.5, interpolation="nearest")(picture[:, 10:])
    assert (half[:, :3] == 100).all()
    assert (half[:, 4:] == 200).all()


def test_colours_are_scaled_each_by_its_own() -> None:
    picture = np.array([[[0, 51, 255]]], np.uint8)
    wants = Preprocessing((2, 3), (0.5, 0.1, 0.25), (0.5, 0.2, 0.25))
    np.testing.assert_allclose(wants(picture), np.broadcast_to([-1, 0.5, 3], (2, 3, 3)), atol=1e-6)
    reverse = Preprocessing((2, 3), (0.5, 0.1, 0.25), (0.5, 0.2, 0.25), order="BGR")
    np.testing.assert_allclose(reverse(picture), np.broadcast_to([3, 0.5, -1], (2, 3, 3)), atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 3000, 3), (3000, 1, 3), (2, 1), (2000, 30, 3)])
@pytest.mark.parametrize("resize", ["crop", "squash", "pad"])
def test_pictures_of_any_shape_are_made_of_one_size(shape: tuple[int, ...], resize: str) -> None:
    made = Preprocessing((24, 32), *UNIT, resize=resize, fill=0)(np.full(shape, 77, np.uint8))
    assert made.shape == (24, 32, 3)
    assert set(np.unique(made.round(3))) <= {0, 77}
    assert (made.round(3) == 77).any()
    assert resize == "pad" or (made.round(3) == 77).all()


def test_large_pictures_are_resized_in_two_steps() -> None:
    cat = np.asarray(Image.fromarray(photo("chelsea")).resize((1400, 1400), Image.Resampling.BICUBIC))
    expected = np.asarray(Image.fromarray(cat).resize((48, 48), Image.Resampling.BICUBIC))
    np.testing.assert_allclose(Preprocessing((48, 48), *UNIT)(cat), expected, atol=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resize": "cut"}, "resize must be one of 'crop', 'squash', 'pad', got 'cut'"),
        ({"interpolation": 3}, "interpolation must be one of 'nearest', .* 'lanczos', got 3"),
        ({"order": "rgb"}, "order must be one of 'RGB', 'BGR', got 'rgb', did you mean 'RGB'"),
        ({"size": (224,)}, "size must be a height and a width in whole pixels"),
        ({"size": (0, 224)}, "size must be"),
        ({"size": (224.0, 224)}, "size must be"),
        ({"mean": (0.5, 0.5)}, "mean and std must be three numbers each"),
        ({"mean": (0.5, 0.5, "x")}, "mean and std"),
        ({"std": (0.5, 0.5, 0)}, "std above 0"),
        ({"std": (0.5, 0.5, float("nan"))}, "std above 0"),
        ({"crop": 0}, "crop must be the part of a side that is kept"),
        ({"crop": 1.2}, "crop must be"),
        ({"fill": 256}, "fill must be a grey from 0 to 255"),
    ],
)
def test_preprocessing_that_cannot_be(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"size": (8, 8), "mean": (0.5,) * 3, "std": (0.5,) * 3}
    with pytest.raises(ValueError, match=message):
        Preprocessing(**{**given, **options})


# From files to pictures


def with_orientation(picture: np.ndarray, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(picture, "PNG", exif=exif)


UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {  # what undoes each orientation of EXIF 2.32, table 6
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_pictures_are_as_the_camera_was_held(orientation: int, tmp_path: Path) -> None:
    picture = noise(5, 9, 3)
    (tmp_path / "a.png").write_bytes(with_orientation(picture, orientation))
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), UPRIGHT[orientation](picture))


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "CMYK"])
def test_pictures_of_all_modes_are_turned_once(mode: str, tmp_path: Path) -> None:
    image = Image.fromarray(smooth(40, 60)).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.tif", exif=exif)
    expected = np.rot90(np.asarray(image.convert("RGB")), -1)
    np.testing.assert_allclose(decode(tmp_path / "a.tif").astype(int), expected, atol=2)


def animated() -> bytes:
    frames = [Image.new("RGB", (6, 4), colour) for colour in ("red", "lime", "blue")]
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50)


def grey_alpha() -> Image.Image:
    image = Image.new("LA", (6, 4), (0, 0))
    image.putpixel((0, 0), (10, 255))
    return image


def transparent_palette() -> Image.Image:
    image = Image.new("P", (6, 4), 3)
    image.putpalette([0, 0, 0, 10, 10, 10, 20, 20, 20, 200, 30, 30])
    return image


KINDS: dict[str, tuple[bytes, tuple[int, int, int]]] = {  # a file, and the colour of its last pixel
    "rgb.png": (saved(Image.new("RGB", (6, 4), (10, 20, 30)), "PNG"), (10, 20, 30)),
    "grey.png": (saved(Image.new("L", (6, 4), 90), "PNG"), (90, 90, 90)),
    "black-and-white.png": (saved(Image.new("1", (6, 4), 1), "PNG"), (255, 255, 255)),
    "16-bit.png": (saved(np.full((4, 6), 0x8042, np.uint16), "PNG"), (128, 128, 128)),
    "16-bit.tif": (saved(np.full((4, 6), 0x2042, np.uint16), "TIFF"), (32, 32, 32)),
    "palette.png": (saved(Image.new("RGB", (6, 4), (200, 0, 0)).quantize(4), "PNG"), (200, 0, 0)),
    "transparent-palette.png": (saved(transparent_palette(), "PNG", transparency=3), (255, 255, 255)),
    "transparent.png": (saved(Image.new("RGBA", (6, 4), (0, 0, 0, 0)), "PNG"), (255, 255, 255)),
    "one-colour-transparent.png": (
        saved(Image.new("RGB", (6, 4), (10, 20, 30)), "PNG", transparency=(10, 20, 30)),
        (255, 255, 255),
    ),
    "half-transparent.png": (saved(Image.new("RGBA", (6, 4), (0, 0, 0, 128)), "PNG"), (127, 127, 127)),
    "grey-alpha.png": (saved(grey_alpha(), "PNG"), (255, 255, 255)),
    "cmyk.jpg": (saved(Image.new("CMYK", (6, 4), (0, 255, 255, 0)), "JPEG", quality=95), (255, 0, 0)),
    "cmyk.tif": (saved(Image.new("CMYK", (6, 4), (255, 0, 255, 0)), "TIFF"), (0, 255, 0)),
    "grey.jpg": (saved(Image.new("L", (6, 4), 90), "JPEG"), (90, 90, 90)),
    "animated.gif": (animated(), (255, 0, 0)),
    "web.webp": (saved(Image.new("RGBA", (6, 4), (0, 0, 0, 0)), "WEBP", lossless=True), (255, 255, 255)),
    "one.bmp": (saved(Image.new("RGB", (1, 1), (1, 2, 3)), "BMP"), (1, 2, 3)),
    "portable.ppm": (saved(Image.new("RGB", (6, 4), (1, 2, 3)), "PPM"), (1, 2, 3)),
    "a-png-in-truth.jpg": (saved(Image.new("RGB", (6, 4), (9, 8, 7)), "PNG"), (9, 8, 7)),
    "no-suffix": (saved(Image.new("RGB", (6, 4), (9, 8, 7)), "PNG"), (9, 8, 7)),
}


@pytest.mark.parametrize("name", KINDS)
def test_files_of_all_kinds(name: str, tmp_path: Path) -> None:
    data, colour = KINDS[name]
    (tmp_path / name).write_bytes(data)
    picture = decode(str(tmp_path / name))
    assert picture.shape == ((1, 1, 3) if name == "one.bmp" else (4, 6, 3))
    assert picture.dtype == np.uint8
    np.testing.assert_allclose(picture[-1, -1].astype(int), colour, atol=2)


def png_header(width: int, height: int) -> bytes:
    """A PNG of black pixels that says it is so large; whatever is compressed that well takes no space."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"

REFUSED: dict[str, tuple[bytes, str]] = {
    "empty.jpg": (b"", "is empty"),
    "text.jpg": (b"these are words\n" * 9, "is not an image: it is something else, or damaged at its start"),
    "zeros.png": (bytes(500), "is not an image"),
    "program.eps": (EPS, "is not an image"),  # Pillow would start Ghostscript
    "half.jpg": (saved(noise(64, 64, 3), "JPEG")[:1500], "is damaged or cannot be read: .*truncated"),
    "half.png": (saved(noise(64, 64, 3), "PNG")[:5000], "is damaged or cannot be read: "),
    "bomb.png": (png_header(30_000, 30_000), "has more pixels than the 89,478,485 of max_pixels: raise it"),
    "large.png": (png_header(9_460, 9_460), "has more pixels than the 89,478,485 of max_pixels: raise it"),
    "long.png": (png_header(2_000_000_000, 1), "is damaged|pixels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused(name: str, tmp_path: Path) -> None:
    data, message = REFUSED[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path / name))} .*({message})"):
        decode(tmp_path / name)


def test_paths_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*no\.jpg"):
        decode(tmp_path / "no.jpg")
    with pytest.raises(ValueError, match="is a folder: pass the paths of image files"):
        decode(tmp_path)
    with pytest.raises(ValueError, match="/dev/null is not a file"):
        decode("/dev/null")


def test_the_limit_of_pixels_is_checked_before_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(noise(20, 30, 3), "PNG"))
    assert decode(path, max_pixels=600).shape == (20, 30, 3)
    with monkeypatch.context() as patch:
        patch.setattr("PIL.ImageFile.ImageFile.load", None)  # not called
        with pytest.raises(ValueError, match="has 30 × 20 pixels, more than the 599 of max_pixels: raise it"):
            decode(path, max_pixels=599)
    for wrong in (0, -1, 1e6, True, None):
        with pytest.raises(ValueError, match="max_pixels must be a whole number from 1"):
            decode(path, max_pixels=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [100, 10_000, None])  # Pillow's own limit: refused, doubted, none
def test_the_limit_can_be_above_that_of_pillow(
    own: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", own)
    path = tmp_path / "a.png"
    path.write_bytes(saved(noise(100, 150, 3), "PNG"))
    assert decode(path, max_pixels=15_000).shape == (100, 150, 3)
    assert own == Image.MAX_IMAGE_PIXELS
    with pytest.raises(ValueError, match=f"{path} has .*max_pixels"):
        decode(path, max_pixels=14_999)
    assert own == Image.MAX_IMAGE_PIXELS


def test_a_damaged_description_does_not_cost_the_picture(tmp_path: Path) -> None:
    data = saved(smooth(20, 30), "JPEG", exif=with_exif())
    start = data.index(b"Exif\0\0") + 6
    for place in range(start, start + 24):
        damaged = data[:place] + b"\xa5" + data[place + 1 :]
        (tmp_path / "a.jpg").write_bytes(damaged)
        assert sorted(decode(tmp_path / "a.jpg").shape) == [3, 20, 30]


def test_large_jpegs_are_decoded_as_far_as_needed(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(saved(smooth(400, 600), "JPEG"))
    (tmp_path / "a.png").write_bytes(saved(smooth(400, 600), "PNG"))
    assert decode(tmp_path / "a.jpg").shape == (400, 600, 3)
    assert decode(tmp_path / "a.jpg", enough=201).shape == (400, 600, 3)
    assert decode(tmp_path / "a.jpg", enough=200).shape == (200, 300, 3)
    assert decode(tmp_path / "a.jpg", enough=32).shape == (50, 75, 3)
    assert decode(tmp_path / "a.png", enough=32).shape == (400, 600, 3)


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


@pytest.fixture(scope="module")
def photo_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Photographs as JPEGs of about 400 pixels."""
    folder = tmp_path_factory.mktemp("photos")
    for name in PHOTOS:
        image = Image.fromarray(photo(name)).convert("RGB")
        image.thumbnail((500, 400))
        image.save(folder / f"{name}.jpg", quality=90)
    return [folder / f"{name}.jpg" for name in PHOTOS]


def rows_of(paths: list[Path], encoder: Encoder, **options: Any) -> np.ndarray:
    files = encode_files(paths, encoder, **options)
    rows = np.concatenate([vectors for _, vectors in files])
    assert not files.reasons
    return rows


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


def with_exif() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "a description"
    return exif


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


# Perceptual hashes


def rowwise(picture: np.ndarray, height: int, width: int) -> Image.Image:
    """Resized along the rows first, by whatever version of Pillow."""
    grey = Image.fromarray(picture).convert("L")
    half = grey.resize((width, grey.height), Image.Resampling.LANCZOS)
    return half.resize((width, height), Image.Resampling.LANCZOS)


@given(st.integers(1, 90), st.integers(1, 90), st.booleans(), st.integers(0, 2**32 - 1))
def test_hashes_are_those_of_imagehash(height: int, width: int, is_grey: bool, seed: int) -> None:
    picture = noise(height, width, seed=seed) if is_grey else noise(height, width, 3, seed=seed)
    expected = imagehash.phash(rowwise(picture, 32, 32)).hash.ravel()
    np.testing.assert_array_equal(PHash().encode([picture])[0], expected)
    expected = imagehash.dhash(rowwise(picture, 8, 9)).hash.ravel()
    np.testing.assert_array_equal(DHash().encode([picture])[0], expected)


@pytest.mark.parametrize("name", PHOTOS)
def test_hashes_of_photos_are_those_of_imagehash(name: str) -> None:
    picture = photo(name)
    np.testing.assert_array_equal(PHash().encode([picture])[0], imagehash.phash(Image.fromarray(picture)).hash.ravel())
    np.testing.assert_array_equal(DHash().encode([picture])[0], imagehash.dhash(Image.fromarray(picture)).hash.ravel())


@pytest.mark.parametrize("encoder", [PHash(), DHash()], ids=["phash", "dhash"])
def test_hashes_stay_where_a_photo_is_recompressed(encoder: Encoder) -> None:
    assert encoder.gives_codes
    pictures = [photo(name) for name in PHOTOS[:8]]
    smaller = []
    for picture in pictures:
        image = Image.open(io.BytesIO(saved(picture, "JPEG", quality=60)))
        smaller.append(np.asarray(image.resize((image.width // 2, image.height // 2))))
    codes, others = encoder.codes(pictures), encoder.codes(smaller)
    assert (len(codes), codes.n_bits) == (8, 64)
    np.testing.assert_array_equal(codes.unpack(), encoder.encode(pictures))
    distances = (codes.unpack()[:, None] != others.unpack()).sum(2)
    assert distances.diagonal().max() <= 6
    assert np.min(distances + 64 * np.eye(8, dtype=int)) > 12


def test_networks_give_no_codes(lite0: EfficientNetLite0) -> None:
    assert not lite0.gives_codes
    with pytest.raises(ValueError, match="efficientnet-lite0 gives numbers, not bits: learn a hasher"):
        lite0.codes([noise(8, 8, 3)])


# Colours


def test_colours_are_in_cielab() -> None:
    colours = noise(1000, 3)
    np.testing.assert_allclose(_lab(colours), skimage.color.rgb2lab(colours), atol=0.02)


def test_colours_say_nothing_of_where() -> None:
    cat = photo("chelsea")
    shuffled = RNG.permutation(cat.reshape(-1, 3)).reshape(cat.shape)
    rows = Colour().encode([cat, shuffled[:, ::-1], 255 - cat, cat // 2])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.999
    assert rows[0] @ rows[2] < 0.5
    assert rows[0] @ rows[3] < 0.9


def test_near_colours_have_near_rows() -> None:
    """No edges between bins: what a colour and its neighbours share falls without a jump."""
    greys = np.arange(256, dtype=np.uint8).repeat(4).reshape(256, 2, 2)
    rows = Colour().encode(greys)
    assert (rows[1:] * rows[:-1]).sum(1).min() > 0.98
    assert rows[0] @ rows[-1] == 0
    blue, red = Colour().encode(np.array([[0, 0, 255], [255, 0, 0]], np.uint8).reshape(2, 1, 1, 3))
    assert blue @ red == 0


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 100_000, 3), (100_000, 1, 3), (700, 500, 3), (300, 1)])
def test_colours_of_pictures_of_any_shape(shape: tuple[int, ...]) -> None:
    rows = Colour().encode([np.full(shape, 120, np.uint8), np.full((2, 2, 3), 120, np.uint8)])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)


# ONNX


def graph_of(
    nodes: list[onnx.NodeProto],
    outputs: dict[str, list[Any]],
    shape: tuple[Any, ...] = ("n", 3, "h", "w"),
    kind: int = onnx.TensorProto.FLOAT,
) -> onnx.ModelProto:
    made = [onnx.helper.make_tensor_value_info(name, kind, dims) for name, dims in outputs.items()]
    graph = onnx.helper.make_graph(
        nodes, "graph", [onnx.helper.make_tensor_value_info("images", kind, list(shape))], made
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def mean_model(**options: Any) -> onnx.ModelProto:
    """The mean of each channel."""
    node = onnx.helper.make_node("ReduceMean", ["images"], ["means"], axes=[2, 3], keepdims=0)
    return graph_of([node], {"means": ["n", 3]}, **options)


SETTINGS: dict[str, Any] = {"size": 16, "mean": 0, "std": 1}


def written(path: Path, model: onnx.ModelProto, **settings: Any) -> str:
    path.write_bytes(model.SerializeToString())
    path.with_name(f"{path.name}.json").write_text(json.dumps({**SETTINGS, **settings}))
    return f"onnx:{path}"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, lite0: EfficientNetLite0) -> str:
    """EfficientNet-Lite0 as PyTorch exports it."""
    path = tmp_path_factory.mktemp("onnx") / "lite0.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is an old one, and twenty times as fast as the new
        torch.onnx.export(
            lite0.network(),
            (torch.zeros(1, 3, 112, 112),),
            str(path),
            input_names=["images"],
            output_names=["features"],
            dynamic_axes={"images": {0: "n"}, "features": {0: "n"}},
            dynamo=False,
        )
    path.with_name("lite0.onnx.json").write_text(json.dumps({"size": 112, "mean": 127 / 255, "std": 128 / 255}))
    return f"onnx:{path}"


def test_an_exported_network_gives_the_same_rows(
    exported: str, lite0: EfficientNetLite0, photo_files: list[Path]
) -> None:
    encoder = load(exported)
    pictures = [*map(photo, PHOTOS), noise(9, 12, 3), noise(5, 7)]
    rows = lite0.encode(pictures)
    np.testing.assert_allclose(encoder.encode(pictures), rows, atol=ROUNDING)
    assert (encoder.n_features, encoder.size, encoder.enough, encoder.name) == (1280, 112, 224, exported)
    for threads in (1, 2):
        few = load(exported, threads=threads)
        np.testing.assert_allclose(few.encode(pictures, batch_size=5), rows, atol=ROUNDING)
    np.testing.assert_allclose(rows_of(photo_files, encoder, batch=3), rows_of(photo_files, lite0), atol=ROUNDING)


def test_features_of_an_exported_network_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    encoder = load(written(tmp_path / "m.onnx", mean_model()))
    images = noise(5, 8, 8, 3)
    data = la.datasets.Dataset("tiny", images, np.zeros(5, np.int64), ("all",))
    rows = la.encoders.features(data, encoder)
    np.testing.assert_allclose(rows, images.mean((1, 2)) / 255, atol=0.01)
    (kept,) = (tmp_path / "cache" / "features").iterdir()
    assert re.fullmatch(r"tiny-onnx-[\w.-]+-[0-9a-f]{16}\.npz", kept.name)
    monkeypatch.setattr(Onnx, "_rows", None)
    np.testing.assert_array_equal(la.encoders.features(data, load(encoder.name)), rows)


def test_settings_are_those_of_preprocessing(tmp_path: Path) -> None:
    name = written(
        tmp_path / "m.onnx",
        mean_model(),
        size=[12, 20],
        mean=[0.1, 0.2, 0.3],
        std=[0.4, 0.5, 0.6],
        resize="pad",
        fill=9,
        order="BGR",
        interpolation="lanczos",
    )
    picture = photo("chelsea")
    wants = Preprocessing(
        (12, 20), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "pad", fill=9, order="BGR", interpolation="lanczos"
    )
    encoder = load(name)
    assert isinstance(encoder, Onnx)
    assert encoder.settings.preprocessing == wants
    np.testing.assert_allclose(encoder.encode([picture])[0], wants(picture).mean((0, 1)), atol=1e-5)
    cropped = load(written(tmp_path / "c.onnx", mean_model(), size=224, crop=0.875))
    assert (cropped.size, cropped.enough) == (256, 512)


def test_rows_may_be_made_of_length_one(tmp_path: Path) -> None:
    pictures = [noise(16, 16, 3), np.zeros((16, 16, 3), np.uint8)]
    plain = load(written(tmp_path / "a.onnx", mean_model())).encode(pictures)
    rows = load(written(tmp_path / "b.onnx", mean_model(), normalise=True)).encode(pictures)
    np.testing.assert_allclose(rows[0], plain[0] / np.linalg.norm(plain[0]), rtol=1e-6)
    assert (rows[1] == 0).all()


@pytest.mark.parametrize("fixed", [1, 4])
def test_models_that_take_a_fixed_number_of_images(fixed: int, tmp_path: Path) -> None:
    pictures = noise(7, 16, 16, 3)
    free = load(written(tmp_path / "a.onnx", mean_model())).encode(pictures)
    encoder = load(written(tmp_path / "b.onnx", mean_model(shape=(fixed, 3, 16, 16))))
    np.testing.assert_allclose(encoder.encode(pictures, batch_size=5), free, atol=1e-6)


def test_models_of_other_layouts_and_kinds(tmp_path: Path) -> None:
    pictures = noise(3, 16, 16, 3)
    plain = load(written(tmp_path / "a.onnx", mean_model())).encode(pictures)
    node = onnx.helper.make_node("ReduceMean", ["images"], ["means"], axes=[1, 2], keepdims=0)
    last = graph_of([node], {"means": ["n", 3]}, shape=("n", 16, 16, 3))
    np.testing.assert_allclose(
        load(written(tmp_path / "b.onnx", last, layout="NHWC")).encode(pictures), plain, atol=1e-6
    )
    half = load(written(tmp_path / "c.onnx", mean_model(kind=onnx.TensorProto.FLOAT16))).encode(pictures)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, plain, atol=1e-3)


def places_model() -> onnx.ModelProto:
    """Three outputs: the pictures themselves, their pixels as places, and places without a known number of features."""
    shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [3], [0, 3, -1])
    nodes = [
        onnx.helper.make_node("Constant", [], ["shape"], value=shape),
        onnx.helper.make_node("Reshape", ["images", "shape"], ["flat"]),
        onnx.helper.make_node("Transpose", ["flat"], ["places"], perm=[0, 2, 1]),
        onnx.helper.make_node("Identity", ["images"], ["map"]),
    ]
    return graph_of(nodes, {"map": ["n", 3, "h", "w"], "places": ["n", "p", 3], "flat": ["n", 3, "p"]})


def test_outputs_and_how_they_are_pooled(tmp_path: Path) -> None:
    picture = noise(16, 16, 3)
    means, first = picture.mean((0, 1)) / 255, picture[0, 0] / 255

    def rows(**settings: Any) -> np.ndarray:
        return load(written(tmp_path / "m.onnx", places_model(), **settings)).encode([picture])[0]

    np.testing.assert_allclose(rows(output="map", pool="mean"), means, atol=1e-5)
    np.testing.assert_allclose(rows(output="places", pool="mean"), means, atol=1e-5)
    np.testing.assert_allclose(rows(output="places", pool="first"), first, atol=1e-5)
    assert rows(output="flat", pool="first").shape == (256,)
    with pytest.raises(ValueError, match=r"has the outputs map, places, flat: set output in .*m.onnx.json"):
        rows()
    with pytest.raises(ValueError, match=r"no output 'pooled', it has map, places, flat"):
        rows(output="pooled")
    with pytest.raises(ValueError, match=r"no input 'pixels', it has images"):
        rows(output="map", pool="mean", input="pixels")
    with pytest.raises(ValueError, match=r"output 'places' of .* is \('n', 256, 3\), with pool None"):
        rows(output="places")
    with pytest.raises(ValueError, match=r"output 'map' of .* of which no row can be made"):
        rows(output="map", pool="first")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[1]", "must hold one object"),
        ("{size: 3}", "is not a JSON file in UTF-8: "),
        ("\xff", "is not a JSON file|must hold"),
        ('{"size": 224}', "mean and std must be set, as the model was trained with"),
        ({"sise": 224}, r"there is no setting 'sise': did you mean size\? Known are size, mean, std, .*, normalise"),
        ({"normalize": True}, r"did you mean normalise\?"),
        ({"preprocessing": 1}, r"there is no setting 'preprocessing'"),
        ({"size": "224"}, "size must be a height and a width"),
        ({"size": [1, 2, 3]}, "size must be a height and a width"),
        ({"mean": "0.5"}, "mean and std must be three numbers"),
        ({"std": [1, 1]}, "mean and std must be three numbers"),
        ({"resize": "stretch"}, "resize must be one of 'crop', 'squash', 'pad'"),
        ({"layout": "CHW"}, "layout must be one of 'NCHW', 'NHWC', got 'CHW', did you mean 'NCHW'"),
        ({"pool": "max"}, "pool must be one of 'first', 'mean', got 'max'"),
        ({"normalise": "yes"}, "normalise must be true or false, got 'yes'"),
        ({"output": 3}, "output must be the name of an output of the model, got 3"),
    ],
)
def test_settings_that_cannot_be(settings: Any, message: str, tmp_path: Path) -> None:
    name = written(tmp_path / "m.onnx", mean_model())
    text = settings if isinstance(settings, str) else json.dumps({**SETTINGS, **settings})
    (tmp_path / "m.onnx.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=f"m.onnx.json.*({message})"):
        load(name)


def test_models_that_are_none(tmp_path: Path) -> None:
    model = mean_model().SerializeToString()
    path = tmp_path / "m.onnx"
    written(path, mean_model())
    photograph = saved(photo("chelsea"), "PNG")
    for data in (b"", b"words", photograph, bytes(300), b"\x08", model[:-1], model[:40], model + b"\xff", b"\x08\x08"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"m\.onnx is not an encoder: it is damaged, or not a model exported"):
            load(f"onnx:{path}")
    broken = mean_model()
    broken.graph.node[0].op_type = "NoSuchThing"
    path.write_bytes(broken.SerializeToString())
    with pytest.raises(ValueError, match=r"m\.onnx is not an encoder that ONNX Runtime can run: .*NoSuchThing"):
        load(f"onnx:{path}").encode([noise(8, 8, 3)])


def test_models_that_take_other_things(tmp_path: Path) -> None:
    flat = graph_of([onnx.helper.make_node("Identity", ["images"], ["rows"])], {"rows": ["n", 3]}, shape=("n", 3))
    for model, message in (
        (
            mean_model(shape=("n", 3, 32, 32)),
            r"takes \['n', 3, 32, 32\], but m.onnx.json says \['n', 3, 16, 16\]: correct",
        ),
        (flat, r"takes \['n', 3\], but"),
        (mean_model(kind=onnx.TensorProto.INT64), r"takes tensor\(int64\): export it to take one of tensor\(float\)"),
    ):
        encoder = load(written(tmp_path / "m.onnx", model))
        with pytest.raises(ValueError, match=message):
            encoder.encode([noise(8, 8, 3)])


def test_files_of_models_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*m\.onnx"):
        load(f"onnx:{tmp_path / 'm.onnx'}")
    (tmp_path / "m.onnx").write_bytes(mean_model().SerializeToString())
    with pytest.raises(FileNotFoundError, match=r'no file .*m.onnx.json, which says how m.onnx is used: .*"size": 224'):
        load(f"onnx:{tmp_path / 'm.onnx'}")


@pytest.mark.parametrize("threads", [0, 1.5, True])
def test_threads_of_onnx_runtime(threads: Any, tmp_path: Path) -> None:
    name = written(tmp_path / "m.onnx", mean_model())
    with pytest.raises(ValueError, match="threads must be a whole number from 1"):
        load(name, threads=threads)
    encoder = load(name, threads=3)
    assert isinstance(encoder, Onnx)
    assert encoder._session.get_session_options().intra_op_num_threads == 3


def test_a_version_is_that_of_model_and_settings(tmp_path: Path) -> None:
    def version(model: onnx.ModelProto, folder: str = "", **settings: Any) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        return load(written(tmp_path / folder / "m.onnx", model, **settings)).version

    first = version(mean_model())
    other = mean_model()
    other.graph.doc_string = "other"
    assert len({first, version(other), version(mean_model(), size=17), version(mean_model(), normalise=True)}) == 4
    assert version(mean_model(), "elsewhere") == first
    assert re.fullmatch(r"preprocessing 1, model and settings [0-9a-f]{16}", first)


def test_weights_beside_a_model_are_part_of_its_version(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.full((1, 3, 1, 1), 2, np.float32), "weights")
    nodes = [
        onnx.helper.make_node("Mul", ["images", "weights"], ["products"]),
        onnx.helper.make_node("ReduceMean", ["products"], ["means"], axes=[2, 3], keepdims=0),
    ]
    model = graph_of(nodes, {"means": ["n", 3]})
    model.graph.initializer.append(weights)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    (tmp_path / "m.onnx.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "unrelated.bin").write_bytes(b"1")
    encoder = load(f"onnx:{tmp_path / 'm.onnx'}")
    white = np.full((1, 8, 8, 3), 255, np.uint8)
    np.testing.assert_allclose(encoder.encode(white), 2)
    first = encoder.version
    (tmp_path / "unrelated.bin").write_bytes(b"2")
    assert load(encoder.name).version == first
    data = (tmp_path / "m.onnx.data").read_bytes()
    (tmp_path / "m.onnx.data").write_bytes(data.replace(np.float32(2).tobytes(), np.float32(3).tobytes()))
    again = load(encoder.name)
    np.testing.assert_allclose(again.encode(white), 3)
    assert again.version != first


def test_onnx_runtime_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load(written(tmp_path / "m.onnx", mean_model()))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs onnxruntime, .*: pip install 'lookalike\[images\]'"):
        encoder.encode([noise(8, 8, 3)])


# Networks of other libraries, which stand here for themselves: they call the same functions with the same names


class Tiny(torch.nn.Module):
    """The mean of each channel, times a weight."""

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor([factor]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3)) * self.factor


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    known = {"timm": "1.0", "open_clip_torch": "3.0", "transformers": "5.0"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: known.get(name) or real(name))


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def fake_timm(monkeypatch: pytest.MonkeyPatch, create: Callable[..., Any], **wants: Any) -> None:
    config = {"input_size": (3, 8, 8), "mean": (0.0,) * 3, "std": (0.5,) * 3, "crop_pct": 0.8, **wants}
    data = types.SimpleNamespace(resolve_model_data_config=lambda network: config)
    fake(monkeypatch, "timm", create_model=create, data=data, list_models=lambda: ["resnet18", "resnet50", "vit_tiny"])


def test_networks_of_timm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def create(name: str, **options: Any) -> Tiny:
        asked.append((name, options))
        return Tiny()

    fake_timm(monkeypatch, create, interpolation="bilinear", crop_mode="center")
    encoder = load("timm:resnet18.a1_in1k")
    assert asked == []  # loaded when it is used
    picture = noise(20, 30, 3)
    wants = Preprocessing((8, 8), (0.0,) * 3, (0.5,) * 3, crop=0.8, interpolation="bilinear")
    np.testing.assert_allclose(encoder.encode([picture])[0], 2 * wants(picture).mean((0, 1)), atol=1e-5)
    assert asked == [("resnet18.a1_in1k", {"pretrained": True, "num_classes": 0})]
    assert (encoder.name, encoder.n_features, encoder.size, encoder.enough) == ("timm:resnet18.a1_in1k", 3, 10, 20)
    Image.fromarray(picture).save(tmp_path / "a.png")
    np.testing.assert_allclose(rows_of([tmp_path / "a.png"], encoder), encoder.encode([picture]), atol=1e-6)


def test_a_version_of_a_network_is_that_of_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch, lambda name, **options: Tiny(2.0))
    first = load("timm:resnet18").version
    assert re.fullmatch(r"timm 1.0, preprocessing 1, weights [0-9a-f]{16}", first)
    assert load("timm:resnet18").version == first
    fake_timm(monkeypatch, lambda name, **options: Tiny(2.0001))
    assert load("timm:resnet18").version != first


def test_networks_that_timm_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch, lambda name, **options: Tiny())
    with pytest.raises(
        ValueError, match=r"timm has no network 'resnt18': did you mean timm:resnet18 or timm:resnet50\?"
    ):
        load("timm:resnt18").encode([noise(8, 8, 3)])


def offline(*given: Any, **options: Any) -> Any:
    raise ConnectionError("We couldn't connect. Try again.\nDetails follow")


def test_weights_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", "/somewhere")
    fake_timm(monkeypatch, offline)
    names = types.SimpleNamespace(from_pretrained=offline)
    fake(monkeypatch, "transformers", AutoModel=names, AutoImageProcessor=names)
    tags = {"list_models": lambda: ["ViT-B-32"], "list_pretrained_tags_by_model": lambda model: ["openai", "laion2b"]}
    fake(monkeypatch, "open_clip", create_model=offline, **tags)
    for name in ("timm:resnet18", "timm:hf-hub:a/b", "hf:a/b", "open_clip:ViT-B-32/openai", "open_clip:hf-hub:a/b"):
        message = (
            rf"the weights of {name} cannot be had: We couldn't connect \(they are fetched when first used: where "
            r"there is no network, .* copy the cache, /somewhere, or export the network to ONNX and use onnx:FILE\)"
        )
        with pytest.raises(OSError, match=message):
            load(name).encode([noise(8, 8, 3)])
    with pytest.raises(
        ValueError, match=r"must say whose weights, as open_clip:ViT-B-32/TAG; TAG may be openai, laion2b"
    ):
        load("open_clip:ViT-B-32").encode([noise(8, 8, 3)])


def test_networks_of_open_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Clip(Tiny):
        def __init__(self) -> None:
            super().__init__(3.0)
            config = {"size": 8, "mean": (0.1,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic"}
            self.visual = types.SimpleNamespace(preprocess_cfg={**config, "resize_mode": "squash", "fill_color": 0})

        def encode_image(self, images: torch.Tensor) -> torch.Tensor:
            return self(images)

    def create(name: str, pretrained: str | None) -> Clip:
        asked.append((name, pretrained))
        return Clip()

    tags = {"list_models": lambda: ["ViT-B-32"], "list_pretrained_tags_by_model": lambda model: ["openai"]}
    fake(monkeypatch, "open_clip", create_model=create, **tags)
    picture = noise(20, 30, 3)
    wants = Preprocessing((8, 8), (0.1,) * 3, (0.5,) * 3, resize="squash")
    for name, expected in (
        ("open_clip:ViT-B-32/openai", ("ViT-B-32", "openai")),
        ("open_clip:hf-hub:a/b", ("hf-hub:a/b", None)),
    ):
        encoder = load(name)
        np.testing.assert_allclose(encoder.encode([picture])[0], 3 * wants(picture).mean((0, 1)), atol=1e-5)
        assert asked.pop() == expected
        assert encoder.version.startswith("open_clip_torch 3.0, ")


class Output(types.SimpleNamespace):
    """What networks of transformers return."""


class Transformer(Tiny):
    """Tokens, the first of which is the mean; with a pooling that was or was not trained."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.pooler = torch.nn.Linear(3, 3)  # of random weights

    def forward(self, pixel_values: torch.Tensor) -> Output:  # type: ignore[override]
        means = pixel_values.mean((2, 3))
        return Output(last_hidden_state=torch.stack([means, means * 0], 1), pooler_output=means * 10)


class Convolutions(Tiny):
    def forward(self, pixel_values: torch.Tensor) -> Output:  # type: ignore[override]
        return Output(last_hidden_state=pixel_values)


class Contrastive(Tiny):
    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return pixel_values.mean((2, 3)) * 5


class NewContrastive(Tiny):
    def get_image_features(self, pixel_values: torch.Tensor) -> Output:
        return Output(pooler_output=pixel_values.mean((2, 3)) * 6)


class Processor:
    """Every fourth pixel of a square, channels first, as a processor of transformers returns it."""

    size: Any = {"shortest_edge": 8}  # noqa: RUF012

    def __call__(self, images: list[np.ndarray], return_tensors: str, input_data_format: str) -> dict[str, np.ndarray]:
        assert (return_tensors, input_data_format) == ("np", "channels_last")
        return {"pixel_values": np.stack([image[::4, ::4].transpose(2, 0, 1) / 255 for image in images])}


def fake_transformers(
    monkeypatch: pytest.MonkeyPatch, network: Callable[[], Any], missing: tuple[str, ...] = ()
) -> None:
    model = types.SimpleNamespace(
        from_pretrained=lambda name, output_loading_info: (network(), {"missing_keys": missing})
    )
    processor = types.SimpleNamespace(from_pretrained=lambda name: Processor())
    fake(monkeypatch, "transformers", AutoModel=model, AutoImageProcessor=processor)


@pytest.mark.parametrize(
    ("network", "missing", "factor"),
    [
        (Transformer, (), 10),
        (Transformer, ("pooler.weight", "pooler.bias"), 1),
        (Convolutions, (), 1),
        (Contrastive, (), 5),
        (NewContrastive, (), 6),
    ],
)
def test_networks_of_transformers(
    network: Callable[[], Any], missing: tuple[str, ...], factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_transformers(monkeypatch, network, missing)
    encoder = load("hf:facebook/dinov2-base")
    picture = noise(32, 32, 3)
    np.testing.assert_allclose(encoder.encode([picture])[0], factor * picture[::4, ::4].mean((0, 1)) / 255, rtol=1e-5)
    grey = encoder.encode([picture[..., 0]])
    np.testing.assert_array_equal(grey, encoder.encode([picture[..., :1].repeat(3, 2)]))
    assert (encoder.size, encoder.enough, encoder.n_features) == (8, 16, 3)
    if missing:  # weights that are drawn at random are not used, and not part of the version
        assert load("hf:facebook/dinov2-base").version == encoder.version


def test_networks_of_transformers_that_are_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_transformers(monkeypatch, Transformer, ("factor", "pooler.weight"))
    with pytest.raises(ValueError, match="hf:a/b lacks weights of its network, factor among them"):
        load("hf:a/b").encode([noise(8, 8, 3)])


def test_pictures_that_would_be_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_transformers(monkeypatch, Transformer)
    path = tmp_path / "long.png"
    path.write_bytes(saved(noise(1, 65, 3), "PNG"))
    files = encode_files([path], load("hf:a/b"))
    assert list(files) == []
    assert re.match(rf"{path} cannot be encoded: hf:a/b takes no picture that is 64 times", files.reasons[0])


@pytest.mark.parametrize(
    ("size", "crop", "expected"),
    [
        ({"shortest_edge": 256}, {"height": 224, "width": 224}, 256),
        ({"height": 224, "width": 200}, None, 224),
        ({"longest_edge": 300, "shortest_edge": None}, None, 300),
        (None, {"height": 96, "width": 96}, 96),
        (None, None, 224),
    ],
)
def test_sizes_of_processors(size: Any, crop: Any, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Processor, "size", size)
    monkeypatch.setattr(Processor, "crop_size", crop, raising=False)
    fake_transformers(monkeypatch, Transformer)
    assert load("hf:a/b").size == expected


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("timm:resnet18", "timm", "timm"),
        ("open_clip:ViT-B-32/openai", "open_clip", "open_clip_torch"),
        ("hf:a/b", "transformers", "transformers"),
    ],
)
def test_libraries_that_are_missing(name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ModuleNotFoundError, match=f"^{name} needs {module}, which is not installed: pip install {package}$"
    ):
        load(name)


def test_what_a_library_needs_itself_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text("import no_such_vision\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"timm:resnet18 needs no_such_vision, .*: pip install timm"):
        load("timm:resnet18").encode([noise(8, 8, 3)])


# By name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "phsh",
            r"no encoder 'phsh': did you mean phash\? Known are .*, and onnx:FILE, timm:NAME, open_clip:NAME, hf:NAME",
        ),
        ("color", r"did you mean colour\?"),
        ("model.onnx", r"did you mean onnx:model.onnx\?"),
        ("onx:model.onnx", r"did you mean onnx:model.onnx\?"),
        ("openclip:ViT-B-32", r"did you mean open_clip:ViT-B-32\?"),
        ("onnx:", r"onnx: needs a file behind its colon"),
        ("hf:", r"hf: needs a name behind its colon"),
        (__file__, r"it is a file, but not an encoder"),
    ],
)
def test_names_that_are_none(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(name)


def test_options_by_name(tmp_path: Path) -> None:
    assert load("EfficientNet-Lite0", size=64).size == 64
    name = written(tmp_path / "M.onnx", mean_model())
    assert load(name.replace("onnx:", "ONNX:"), threads=1).encode([noise(8, 8, 3)]).shape == (1, 3)
    with pytest.raises(ValueError, match="efficientnet-lite0 has no option 'threads': it has size"):
        load("efficientnet-lite0", threads=3)
    with pytest.raises(ValueError, match="phash has no option 'size': it has none"):
        load("phash", size=3)
    with pytest.raises(ValueError, match="has no option 'size': it has threads, providers"):
        load(name, size=3)


def test_numbers_of_any_range_become_grey(tmp_path: Path) -> None:
    """One that is no number does not make all others black; 16 bits are scaled alike in every kind of file."""
    values = np.linspace(0, 3, 48, dtype=np.float32).reshape(6, 8)
    values[0, 0], values[5, 7] = np.nan, np.inf
    Image.fromarray(values).save(tmp_path / "floats.tiff")
    grey = decode(tmp_path / "floats.tiff")[..., 0]
    assert grey[0, 0] == 0
    assert grey[5, 7] == 255
    assert len(np.unique(grey)) > 30
    deep = (np.arange(48).reshape(6, 8) * 1000).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(deep).save(tmp_path / "deep.pgm")
    np.testing.assert_array_equal(decode(tmp_path / "deep.png"), decode(tmp_path / "deep.pgm"))
    np.testing.assert_array_equal(decode(tmp_path / "deep.png")[..., 0], deep >> 8)


@pytest.mark.parametrize("kind", ["batch of one", "scalar", "one row"])
def test_an_exported_network_that_fails_is_an_error_of_its_file(kind: str, tmp_path: Path) -> None:
    helper, tensor = onnx.helper, onnx.TensorProto.FLOAT
    shape = {"batch of one": [1, 48], "scalar": [], "one row": [1, 48]}[kind]
    nodes = {
        "batch of one": [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "scalar": [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        "one row": [
            helper.make_node("ReduceMean", ["x", "axes"], ["m"], keepdims=1),
            helper.make_node("Reshape", ["m", "shape"], ["y"]),
        ],
    }[kind]
    constants = [
        helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [1, 48]),
        helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [0]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", tensor, ["n", 3, 4, 4])],
        [helper.make_tensor_value_info("y", tensor, shape or None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "m.onnx.json").write_text('{"size": 4, "mean": 0, "std": 1}')
    encoder = load(f"onnx:{tmp_path / 'm.onnx'}")
    with pytest.raises(OSError, match=r"m\.onnx (fails on 3 images at once|is \(.*\) for 3 images: expected a row)"):
        encoder.encode(np.zeros((3, 4, 4, 3), np.uint8))
