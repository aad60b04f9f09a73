"""Hashers to test, items to fit them on, and rows on the borders of their bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from lookalike import hashers
from lookalike.core.errors import LookalikeError

Array = np.ndarray[Any, Any]

NAMES = sorted(hashers.HASHERS)
RANDOM = [name for name in NAMES if name not in ("PCAH", "SH")]  # these two draw nothing
LINEAR = ["LSH", "PCAH", "PCARR", "ITQ"]  # signs of projections
PRINCIPAL = ["PCAH", "PCARR", "ITQ"]  # at most one bit for each direction in which the items vary
LABELLED = ["KSH", "MLH", "SDH"]  # they learn from labels
N_FEATURES, N_BITS = 24, 20
QUICK: dict[str, dict[str, Any]] = {  # parameters of those that learn long: of few items, in few steps
    "BRE": {"max_samples": 60, "n_rounds": 1, "n_anchors": 5},
    "DGH": {"max_samples": 200, "n_rounds": 3},
    "KSH": {"max_samples": 120, "n_steps": 5},
    "MLH": {"n_steps": 40},
    "SDH": {"max_samples": 150, "n_rounds": 2},
}

every_hasher = pytest.mark.parametrize("name", NAMES)


def make(name: str, n_bits: int = N_BITS, seed: Any = 0, **parameters: Any) -> Any:
    """A hasher that is quick to learn; the parameters replace those that make it so."""
    return hashers.HASHERS[name](n_bits=n_bits, random_state=seed, **(QUICK.get(name, {}) | parameters))


def teach(hasher: Any, rows: Any) -> Any:
    """Fit a hasher to items and their labels; those that learn without labels do not look at them."""
    return hasher.fit(rows, labels_of(rows))


def teach_and_hash(hasher: Any, rows: Any) -> Any:
    return hasher.fit_transform(rows, labels_of(rows))


def labels_of(rows: Any) -> Array | None:
    """Four classes: the quarters of the items in the order of their first feature; None of what is no matrix."""
    try:
        first = np.asarray(rows, np.float64)[:, 0]
    except (TypeError, ValueError, IndexError):
        return None
    return np.argsort(np.argsort(first, kind="stable"), kind="stable") * 4 // max(len(first), 1)


def quick(name: str, n_bits: int) -> Any:
    """The same, content with spheres that are far from balanced: more of them than few items can balance take long."""
    return make(name, n_bits, **({"max_rounds": 20} if name == "SpH" else {}))


def whole_numbers(n_items: int = 400, n_features: int = N_FEATURES, seed: int = 0) -> Array:
    """Clustered items of whole numbers from 0 to 255: every type of array holds them exactly. float32, C order."""
    rng = np.random.default_rng(seed)
    spreads = np.linspace(30, 8, n_features)
    centres = rng.uniform(80, 175, (5, n_features))
    items = centres[rng.integers(0, 5, n_items)] + rng.normal(size=(n_items, n_features)) * spreads
    return np.clip(np.rint(items), 0, 255).astype(np.float32)


def correlated(n_items: int, n_features: int, seed: int = 0, offset: float = 0.0) -> Array:
    """Gaussian items of clearly different variances along rotated axes, float32."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
    items = rng.normal(size=(n_items, n_features)) * 1.25 ** -np.arange(n_features)
    return np.asarray(items @ axes.T * 3 + offset, np.float32)


@functools.cache
def digits() -> tuple[Array, Array]:
    items, classes = load_digits(return_X_y=True)
    return items.astype(np.float32), classes


@functools.cache
def fitted(name: str) -> Any:
    """A hasher of 20 bits that has seen 400 items; tests must not change it."""
    return teach(make(name), whole_numbers())


def border_rows(hasher: Any, items: Array, n_rows: int, seed: int = 0) -> Array:
    """Rows on the border of some bit: between two items that differ in it, halved until float32 ends it."""
    rng = np.random.default_rng(seed)
    bits = hasher.transform(items).unpack()
    rows: list[Array] = []
    while sum(map(len, rows)) < n_rows:
        one, other = rng.integers(0, len(items), (2, n_rows))
        bit = rng.integers(0, bits.shape[1], n_rows)
        differ = bits[one, bit] != bits[other, bit]
        one, other, bit = one[differ], other[differ], bit[differ]
        inside, outside, wanted = items[one], items[other], bits[one, bit]
        for _ in range(48):
            middle = (inside + outside) / np.float32(2)
            same = hasher.transform(middle).unpack()[np.arange(len(bit)), bit] == wanted
            inside, outside = np.where(same[:, None], middle, inside), np.where(same[:, None], outside, middle)
        rows += [inside, outside]
    return np.concatenate(rows)[:n_rows]


def learned(hasher: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(hasher).items() if key.endswith("_") and not key.startswith("_")}


def assert_same(one: Any, other: Any) -> None:
    """The same parameters, learned attributes and codes."""
    assert type(one) is type(other)
    assert one.get_params() == other.get_params()
    assert learned(one).keys() == learned(other).keys()
    for key, value in learned(one).items():
        np.testing.assert_array_equal(value, getattr(other, key), err_msg=key)


def bounds(share: float, n: int) -> float:
    """Five standard deviations of a binomial share, and what float32 blurs."""
    return 5 * math.sqrt(share * (1 - share) / n) + 1e-4


def refused(match: str, call: Callable[..., Any], *arguments: Any) -> str:
    """The sentence that a call is refused with, an error that a user can put right."""
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        call(*arguments)
    assert isinstance(caught.value, LookalikeError)
    sentence = str(caught.value)
    assert "\n" not in sentence or "NaN" in sentence  # scikit-learn has more to say about that
    return sentence
