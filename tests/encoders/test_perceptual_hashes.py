"""Perceptual hashes: the same bits as those of imagehash."""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import io

import imagehash
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from helpers.encoder_images import (
    PHOTOS,
    lite0,  # noqa: F401  # fixtures
    noise,
    photo,
    saved,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.encoders import DHash, EfficientNetLite0, Encoder, PHash


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
