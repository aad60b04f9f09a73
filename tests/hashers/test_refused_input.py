"""Hashers refuse what they cannot learn from or hash, in one sentence that says why, and stay as they were."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from helpers.hashing import (
    LABELLED,
    N_FEATURES,
    PRINCIPAL,
    Array,
    every_hasher,
    fitted,
    learned,
    make,
    refused,
    teach,
    teach_and_hash,
    whole_numbers,
)


@every_hasher
@pytest.mark.parametrize("n_bits", [0, -1, 2.5, True, "8", None, 4097, [8]])
def test_n_bits_must_be_a_whole_number(name: str, n_bits: Any) -> None:
    sentence = refused("n_bits must be a whole number", teach, make(name, n_bits), whole_numbers(60))
    assert repr(n_bits) in sentence
    assert "4096" in sentence or type(n_bits) is not int


@pytest.mark.parametrize(
    ("name", "parameter", "values"),
    [
        ("ITQ", "n_rounds", [0, -1, 2.5, "3", True, None]),
        ("ITQ", "max_samples", [0, -1, 2.5, "3", True, None]),
        ("SpH", "max_rounds", [0, -1, 2.5, "3", True, None]),
        ("SpH", "max_samples", [0, -1, 2.5, "3", True, None]),
        ("SpH", "tolerance", [-1.0, math.nan, "3", True, None]),
        ("SpH", "deviation", [0, -1.0, math.nan, "3", True, None]),
        ("SpH", "strict", [0, 1, "yes", None]),
        ("SKLSH", "gamma", [0, -1.0, math.nan, math.inf, "scale", True]),
        ("DensityDSH", "alpha", [0, -1.5, math.nan, math.inf, "2", True, None]),
        ("DensityDSH", "n_neighbours", [0, -1, 2.5, "3", True, None]),
        ("DensityDSH", "n_rounds", [0, -1, 2.5, "3", True, None]),
        ("KLSH", "n_anchors", [0, -1, 2.5, "3", True]),
        ("KLSH", "n_subset", [0, -1, 2.5, "3", True]),
        ("KLSH", "gamma", [0, -1.0, math.nan, math.inf, "scale", True]),
        ("BRE", "n_anchors", [0, -1, 2.5, "3", True]),
        ("BRE", "n_rounds", [0, -1, 2.5, "3", True, None]),
        ("BRE", "max_samples", [0, 1, 2.5, "3", True, None]),
        ("DGH", "n_anchors", [0, 1, 2.5, "3", True]),
        ("DGH", "n_nearest", [0, -1, 2.5, "3", True, None]),
        ("DGH", "gamma", [0, -1.0, math.nan, math.inf, "scale", True]),
        ("DGH", "rho", [0, -1.0, math.nan, math.inf, "1", True, None]),
        ("DGH", "rotate", [0, 1, "yes", None]),
        ("DGH", "n_rounds", [0, -1, 2.5, "3", True, None]),
        ("KSH", "n_anchors", [0, -1, 2.5, "3", True]),
        ("KSH", "gamma", [0, -1.0, math.nan, math.inf, "scale", True]),
        ("KSH", "n_steps", [0, -1, 2.5, "3", True, None]),
        ("MLH", "rho", [0, 5, 2.5, "3", True]),  # of 4 bits
        ("MLH", "weight", [0, -1.0, math.nan, math.inf, "1", True, None]),
        ("MLH", "learning_rate", [0, -1.0, math.nan, math.inf, "1", True, None]),
        ("MLH", "batch_size", [0, 1, 2.5, "3", True, None]),
        ("SDH", "n_anchors", [0, -1, 2.5, "3", True]),
        ("SDH", "nu", [0, -1.0, math.nan, math.inf, "1", True, None]),
        ("SDH", "max_samples", [0, 1, 2.5, "3", True, None]),
    ],
)
def test_other_parameters_are_checked(name: str, parameter: str, values: list[Any]) -> None:
    for value in values:
        sentence = refused(parameter, teach, make(name, 4, **{parameter: value}), whole_numbers(60))
        assert repr(value) in sentence


@every_hasher
def test_a_seed_is_a_number(name: str) -> None:
    refused("seed|random_state", teach, make(name, seed="today"), whole_numbers(60))


def numbers_in(sentence: str) -> set[int]:
    return {int(number) for number in re.findall(r"\d+", sentence)}


@pytest.mark.parametrize("name", PRINCIPAL)
def test_principal_bits_are_at_most_the_directions(name: str) -> None:
    items = whole_numbers()
    constant = items.copy()
    constant[:, [0, 5, 11, 23]] = [0, 3, 255, 1000]
    twice = np.hstack([items[:, :12], items[:, :12]])
    for rows, most in ((items, 24), (constant, 20), (twice, 12), (items[:10], 9)):
        n_bits = most + 1
        sentence = refused("at most", teach, make(name, n_bits), rows)
        assert {n_bits, most} <= numbers_in(sentence)
        values = teach(make(name, most), rows).project(rows)  # and that many are made
        assert np.isfinite(values).all()
        assert (values.std(0) > 0).all()


@every_hasher
def test_constant_features_do_not_matter(name: str) -> None:
    items = whole_numbers()
    wide = np.hstack([np.full((400, 2), 7, np.float32), items, np.full((400, 1), -1e6, np.float32)])
    hasher = teach(make(name), wide)
    assert np.isfinite(hasher.project(wide)).all()
    for key, value in learned(hasher).items():
        assert np.isfinite(value).all(), key
    assert len(np.unique(hasher.transform(wide).words)) > (10 if name in LABELLED else 100)  # of four classes


@pytest.mark.parametrize("name", ["PCAH", "SH"])
def test_constant_features_change_no_code(name: str) -> None:
    items = whole_numbers()
    wide = np.hstack([np.full((400, 2), 7, np.float32), items, np.full((400, 1), -1e6, np.float32)])
    wanted = fitted(name).transform(items).unpack()
    differing = (teach_and_hash(make(name), wide).unpack() != wanted).mean(0)
    # a principal direction may come out turned: then all of a bit's values are turned (of SH's, the odd modes)
    assert np.minimum(differing, 1 - differing).max() < 0.01


@every_hasher
def test_items_that_do_not_vary_are_refused(name: str) -> None:
    refused("constant|equal|vary|differ", teach, make(name, 2), np.tile(whole_numbers(1), (50, 1)))
    refused("constant|equal|vary|differ", teach, make(name, 2), np.zeros((50, 3)))
    refused("1 sample", teach, make(name, 2), whole_numbers(1))


@every_hasher
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_infinity_are_refused(name: str, value: float, dtype: Any) -> None:
    for n_items, place in ((60, (0, 0)), (5000, (-1, -1))):
        items = whole_numbers(n_items).astype(dtype)
        items[place] = value
        refused("(?i)nan|inf", teach, make(name), items)
        refused("(?i)nan|inf", fitted(name).transform, items)
        refused("(?i)nan|inf", fitted(name).project, items)


@every_hasher
def test_values_too_large_for_float32_are_refused(name: str) -> None:
    items = whole_numbers().astype(np.float64)
    items[-1, -1] = 1e300
    refused("(?i)inf|large", teach, make(name), items)
    refused("(?i)inf|large", fitted(name).transform, items)
    refused("(?i)inf|large", fitted(name).project, items)


@every_hasher
def test_a_hasher_that_is_not_fitted_says_so(name: str) -> None:
    for method in ("transform", "project"):
        with pytest.raises(NotFittedError, match=name):
            getattr(make(name), method)(whole_numbers())


@every_hasher
def test_items_of_another_width_are_refused(name: str) -> None:
    for method in ("transform", "project"):
        for width in (N_FEATURES - 1, N_FEATURES + 1):
            sentence = refused("features", getattr(fitted(name), method), whole_numbers(n_features=width))
            assert {width, N_FEATURES} <= numbers_in(sentence)


@every_hasher
def test_no_items_are_refused(name: str) -> None:
    nothing = np.empty((0, N_FEATURES), np.float32)
    refused(r"0 sample\(s\)", teach, make(name), nothing)
    refused(r"0 sample\(s\)", fitted(name).transform, nothing)
    refused(r"0 sample\(s\)", fitted(name).project, nothing)


@every_hasher
def test_what_is_no_matrix_of_numbers_is_refused(name: str) -> None:
    for items in ([1.0, 2.0], [["a", "b"], ["c", "d"]], np.ones((3, 2, 2)), None):
        for method in (make(name).fit, fitted(name).transform):
            with pytest.raises((ValueError, TypeError)):
                method(items)


def test_fewer_items_than_spheres_or_groups_are_refused() -> None:
    sentence = refused("items|sample", teach, make("SpH", 20), whole_numbers(12))
    assert {12, 20} <= numbers_in(sentence)
    sentence = refused("items|sample", teach, make("DensityDSH", 12), whole_numbers(15))
    assert {15, 18} <= numbers_in(sentence)  # 1.5 groups a bit
    assert len(teach(make("DensityDSH", 1, alpha=1), whole_numbers()).groups_) == 2  # one alone has no neighbour


def bad_items() -> dict[str, Array]:
    with_nan = whole_numbers()
    with_nan[3, 3] = np.nan
    return {"nan": with_nan, "constant": np.tile(whole_numbers(1), (50, 1)), "one item": whole_numbers(1)}


@every_hasher
@pytest.mark.parametrize("kind", bad_items())
def test_a_refused_fit_is_no_fit(name: str, kind: str) -> None:
    hasher = make(name)
    with pytest.raises(ValueError, match=r"nan|NaN|constant|sample"):
        teach(hasher, bad_items()[kind])
    for call in (hasher.transform, hasher.project):
        with pytest.raises(NotFittedError):
            call(whole_numbers())


@pytest.mark.parametrize("name", [*PRINCIPAL, "SpH", "DensityDSH"])
def test_a_fit_refused_for_too_few_items_is_no_fit(name: str) -> None:
    hasher = make(name)
    with pytest.raises(ValueError, match="items"):
        teach(hasher, whole_numbers(10))
    for call in (hasher.transform, hasher.project):
        with pytest.raises(NotFittedError):
            call(whole_numbers())


@every_hasher
@pytest.mark.parametrize("kind", bad_items())
def test_a_refused_fit_does_not_mix_with_the_one_before(name: str, kind: str) -> None:
    hasher = teach(make(name), whole_numbers())
    with pytest.raises(ValueError, match=r"nan|NaN|constant|sample"):
        teach(hasher, bad_items()[kind] + np.float32(9))
    try:
        codes = hasher.transform(whole_numbers())
    except NotFittedError:
        return
    assert codes == fitted(name).transform(whole_numbers())
