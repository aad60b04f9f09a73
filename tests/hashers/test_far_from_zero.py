"""Items far from zero: float64 items are centred before they are rounded to float32.

What a vacuous test would let pass: an offset so small that float32 still holds the items; items that float32 holds
exactly (here they have all digits of a float64); a reference that rounds in the same way (here it is plain float64).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.hashing import LINEAR, NAMES, PRINCIPAL, Array, correlated, fitted, make, teach, whole_numbers
from lookalike import hashers

FAR = [1e4, 1e5, 1e6]


def items(n_items: int = 500, seed: int = 0) -> Array:
    """Items of spread 1 with all digits of a float64."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_items, 24)) @ rng.normal(size=(24, 24)) / 5


def plain_values(hasher: Any, rows: Array) -> Array:
    """What a linear hasher projects, in float64: centred on the mean, then projected."""
    return (rows - np.asarray(hasher.mean_, np.float64)) @ hasher.directions_.astype(np.float64)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("offset", FAR)
def test_an_offset_changes_no_code(name: str, offset: float) -> None:
    rows = items()
    near, far = teach(make(name), rows), teach(make(name), rows + offset)
    same = near.transform(rows).unpack() == far.transform(rows + offset).unpack()
    assert same.mean() > 0.999, 1 - same.mean()  # an item on a border may fall to its other side


@settings(deadline=None, max_examples=40)
@given(name=st.sampled_from(LINEAR), offset=st.floats(1e4, 1e6), seed=st.integers(0, 9))
def test_codes_are_those_of_plain_float64(name: str, offset: float, seed: int) -> None:
    rows = items(200, seed) + offset
    hasher = teach(make(name), rows)
    np.testing.assert_allclose(hasher.mean_, rows.mean(0), rtol=1e-13)
    values = plain_values(hasher, rows)
    centred = np.abs(rows - rows.mean(0)) @ np.abs(hasher.directions_)
    sure = np.abs(values) > 1e-5 * centred  # beyond what float32 rounds
    assert sure.mean() > 0.99
    np.testing.assert_array_equal(hasher.transform(rows).unpack()[sure], (values > 0)[sure])
    np.testing.assert_allclose(hasher.project(rows), values, atol=1e-5 * float(centred.max()))


def test_principal_directions_are_not_those_of_rounding() -> None:
    """Items in five directions: far from zero, rounding to float32 would add directions of its own."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 24)) + 1e6
    for name in PRINCIPAL:
        assert teach(make(name, 5), rows).transform(rows).n_bits == 5
        with pytest.raises(ValueError, match="can make at most 5 bits here"):
            teach(make(name, 6), rows)


def test_whole_numbers_beyond_float32_keep_their_digits() -> None:
    rows = whole_numbers().astype(np.int64)
    for name in NAMES:
        near, far = teach(make(name), rows), teach(make(name), rows + (1 << 40))
        same = near.transform(rows).unpack() == far.transform(rows + (1 << 40)).unpack()
        assert same.mean() > (0.97 if name == "MLH" else 0.999), name  # MLH chooses codes in every step


@pytest.mark.parametrize("name", NAMES)
def test_float32_keeps_its_mean_and_its_codes(name: str, tmp_path: Path) -> None:
    """Also in float64, if float32 holds the numbers: equal values make equal hashers."""
    rows = correlated(500, 24, offset=1e4)
    narrow, wide = teach(make(name), rows), teach(make(name), rows.astype(np.float64))
    assert narrow.mean_.dtype == wide.mean_.dtype == np.float32
    assert narrow.transform(rows) == wide.transform(rows) == narrow.transform(rows.astype(np.float64))
    far = teach(make(name), items() + 1e6)
    assert far.mean_.dtype == np.float64
    far.save(tmp_path / "far.npz")
    assert hashers.load(tmp_path / "far.npz").transform(items() + 1e6) == far.transform(items() + 1e6)


@pytest.mark.parametrize("name", NAMES)
def test_constant_features_change_no_code_far_from_zero(name: str) -> None:
    """0.1 is no float: its sum over many items, divided by their number, is another number."""
    rows = items()
    wide = np.hstack([rows, np.full((len(rows), 2), 0.1), np.full((len(rows), 1), 1e6 / 3)])
    with pytest.raises(ValueError, match="constant"):
        teach(make(name), wide[:, 24:])
    assert teach(make(name), wide).mean_[24:].tolist() == [0.1, 0.1, 1e6 / 3]


def test_a_hasher_of_float32_centres_float64_items_as_they_are() -> None:
    rows = whole_numbers() + 0.1 + 1e-9
    for name in LINEAR:
        values = plain_values(fitted(name), rows)
        scale = float(np.abs(values).max())
        np.testing.assert_allclose(fitted(name).project(rows), values, atol=1e-6 * scale)
