"""Colours of pictures, in CIELAB."""

from __future__ import annotations

import numpy as np
import pytest
import skimage.color
import skimage.data

from helpers.encoder_images import noise, photo
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.encoders import Colour
from lookalike.encoders.colour import _lab

RNG = np.random.default_rng(0)


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
