"""Photographs, and pictures as networks want them.

A vacuous test would let pass: a photo that is encoded as any other, or pictures of another size or colour.
"""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from helpers.encoder_images import (
    PHOTOS,
    cosine,
    lite0,  # noqa: F401  # fixtures
    noise,
    photo,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.encoders import Colour, DHash, EfficientNetLite0, PHash, Preprocessing


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
