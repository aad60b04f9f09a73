"""How codes fill the space: every number against its definition, pair by pair and code by code."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

import lookalike as la
from lookalike.evaluation import code_space as space

Bits = list[tuple[int, ...]]


@st.composite
def coded_items(draw: st.DrawFn, max_bits: int = 6) -> tuple[Bits, list[str]]:
    """A few items on few codes, so that codes are shared; sometimes all on one, sometimes one item."""
    n_bits, n = draw(st.integers(1, max_bits)), draw(st.integers(1, 12))
    codes = draw(st.lists(st.tuples(*[st.integers(0, 1)] * n_bits), min_size=1, max_size=5, unique=True))
    bits = draw(st.lists(st.sampled_from(codes), min_size=n, max_size=n))
    return bits, draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))


def hamming(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(left, right, strict=True))


# Usage


@given(coded_items(max_bits=9), st.integers(1, 9))
def test_items_by_code_is_what_counting_numbers_gives(items: tuple[Bits, list[str]], prefix: int) -> None:
    bits = items[0]
    n_bits = len(bits[0])
    found = space.items_by_code(la.Codes.pack(bits))
    numbers = Counter(int("".join(map(str, code)), 2) for code in bits)  # the first bit is the highest
    assert found.items.tolist() == [numbers[number] for number in range(2**n_bits)]
    assert (found.prefix_bits, found.n_bits, found.is_whole) == (n_bits, n_bits, True)
    assert sorted(found.items[found.items > 0].tolist(), reverse=True) == la.usage(la.Codes.pack(bits)).counts.tolist()
    prefix = min(prefix, n_bits)
    starts = Counter("".join(map(str, code[:prefix])) for code in bits)
    by_prefix = space.items_by_code(la.Codes.pack(bits), prefix)
    assert by_prefix.items.tolist() == [starts[f"{number:0{prefix}b}"] for number in range(2**prefix)]
    assert found.shorter(prefix).items.tolist() == by_prefix.items.tolist()


def test_long_codes_are_put_together_by_their_first_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (500, 200))
    for n_bits, prefix in ((16, 16), (17, 12), (65, 12), (200, 12)):
        found = space.items_by_code(la.Codes.pack(bits[:, :n_bits]))
        assert (found.prefix_bits, found.is_whole) == (prefix, n_bits == 16)
        numbers = bits[:, :prefix] @ (1 << np.arange(prefix)[::-1])
        assert found.items.tolist() == np.bincount(numbers, minlength=2**prefix).tolist()
    with pytest.raises(ValueError, match="prefix_bits must be a whole number from 1 to 8, got 9"):
        space.items_by_code(la.Codes.pack(bits[:, :8]), 9)


@given(coded_items())
def test_usage_is_what_counting_items_one_by_one_gives(items: tuple[Bits, list[str]]) -> None:
    bits, labels = items
    found = la.usage(la.Codes.pack(bits), labels)
    on_code = Counter(bits)
    n, n_bits = len(bits), len(bits[0])
    assert found.items == n
    assert found.counts.tolist() == sorted(on_code.values(), reverse=True)
    assert found.distinct == len(on_code)
    assert found.largest == max(on_code.values())
    assert found.utilisation == len(on_code) / 2**n_bits
    assert found.possible_utilisation == len(on_code) / min(2**n_bits, n)
    assert found.entropy == pytest.approx(-sum(c / n * math.log2(c / n) for c in on_code.values()), abs=1e-12)
    labels_on = {code: {label for other, label in zip(bits, labels, strict=True) if other == code} for code in on_code}
    assert found.mixed == sum(len(labels_on[code]) > 1 for code in bits)
    assert la.usage(la.Codes.pack(bits)).mixed is None
    if n > 1:
        pairs = list(itertools.combinations(bits, 2))
        assert found.collision_rate == pytest.approx(sum(a == b for a, b in pairs) / len(pairs), abs=1e-12)
    else:
        assert math.isnan(found.collision_rate)


@given(coded_items())
def test_balance_and_correlation_of_bits_are_numpy_s(items: tuple[Bits, list[str]]) -> None:
    bits = np.array(items[0])
    found = la.usage(la.Codes.pack(bits))
    np.testing.assert_allclose(found.balance, bits.mean(0), atol=1e-12)
    assert found.imbalance == pytest.approx(np.abs(bits.mean(0) - 0.5).mean())
    for i, j in itertools.product(range(bits.shape[1]), repeat=2):
        if bits[:, i].std() and bits[:, j].std():
            assert found.correlations[i, j] == pytest.approx(np.corrcoef(bits[:, i], bits[:, j])[0, 1], abs=1e-9)
        else:
            assert math.isnan(found.correlations[i, j])
    upper = np.abs(found.correlations[np.triu_indices(bits.shape[1], 1)])
    known = upper[~np.isnan(upper)]
    assert found.redundancy == pytest.approx(known.mean()) if len(known) else math.isnan(found.redundancy)


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 20, 21, 63, 64, 65, 128, 200])
def test_usage_of_every_length_with_and_without_labels_counts_the_same(n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    rows = rng.integers(0, 2, (40, n_bits))
    bits = rows[rng.integers(0, 40, 300)]
    labels = rng.integers(0, 3, 300)
    codes = la.Codes.pack(bits)
    counts = sorted(Counter(map(tuple, bits.tolist())).values(), reverse=True)
    assert la.usage(codes).counts.tolist() == la.usage(codes, labels).counts.tolist() == counts


def test_usage_in_blocks_is_usage_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = la.Codes.pack(np.random.default_rng(0).integers(0, 2, (1000, 12)))
    whole = la.usage(codes)
    monkeypatch.setattr(space, "BLOCK", 7)
    parts = la.usage(codes)
    np.testing.assert_array_equal(parts.balance, whole.balance)
    np.testing.assert_allclose(parts.correlations, whole.correlations, atol=1e-12)


def test_utilisation_of_long_codes_does_not_overflow() -> None:
    assert la.usage(la.Codes.pack(np.eye(3, 4096))).utilisation == 0.0  # 3 / 2^4096 is below the smallest float
    assert la.usage(la.Codes.pack(np.eye(3, 1000))).utilisation == 3 / 2**1000


def test_codes_that_collapse_show_it() -> None:
    """Ten points for ten classes: everything that mAP does not tell."""
    labels = np.arange(1000) % 10
    centres = np.random.default_rng(0).integers(0, 2, (10, 12))
    found = la.usage(la.Codes.pack(centres[labels]), labels)
    assert (found.distinct, found.largest, found.mixed) == (10, 100, 0)
    assert found.entropy == pytest.approx(math.log2(10))
    assert found.collision_rate == pytest.approx(99 / 999)


# Separation, and proposition 1 of Ding et al. 2018


@given(coded_items())
def test_diameters_and_separations_are_those_of_all_pairs(items: tuple[Bits, list[str]]) -> None:
    bits, labels = items
    codes = la.Codes.pack(bits)
    if len(set(labels)) < 2:
        with pytest.raises(ValueError, match="at least two classes"):
            space.separation(codes, labels)
        return
    found = space.separation(codes, labels)
    for name, diameter, distance in zip(found.classes, found.diameters, found.separations, strict=True):
        mine = [code for code, label in zip(bits, labels, strict=True) if label == name]
        others = [code for code, label in zip(bits, labels, strict=True) if label != name]
        assert diameter == max(hamming(a, b) for a in mine for b in mine)
        assert distance == min(hamming(a, b) for a in mine for b in others)
    assert found.holds == all(1 <= d < s for d, s in zip(found.diameters, found.separations, strict=True))
    assert found.utilisation == len(set(bits)) / 2 ** len(bits[0])


def test_a_separation_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    codes, labels = la.Codes.pack(rng.integers(0, 2, (200, 65))), rng.integers(0, 3, 200)
    whole = space.separation(codes, labels)
    monkeypatch.setattr(space, "BLOCK", 13)
    parts = space.separation(codes, labels)
    np.testing.assert_array_equal(parts.diameters, whole.diameters)
    np.testing.assert_array_equal(parts.separations, whole.separations)


def test_classes_that_lie_apart_score_a_map_of_one() -> None:
    bits = np.array([[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    codes, labels = la.Codes.pack(bits), [0, 0, 1, 1]
    assert space.separation(codes, labels).holds
    assert la.evaluate(codes, codes, la.same_label(labels, labels), ["AP"])["AP"].mean == 1


def test_where_the_premise_holds_at_most_two_thirds_of_all_codes_are_used() -> None:
    """Proposition 1, by every way to give the eight codes of three bits to two classes, or to none."""
    codes = list(itertools.product((0, 1), repeat=3))
    used = []
    for owners in itertools.product((None, "a", "b"), repeat=8):
        one, other = ([code for code, owner in zip(codes, owners, strict=True) if owner == name] for name in "ab")
        if len(one) < 2 or len(other) < 2:
            continue
        apart = min(hamming(a, b) for a in one for b in other)
        if max(hamming(a, b) for mine in (one, other) for a in mine for b in mine) >= apart:
            continue
        found = space.separation(la.Codes.pack(one + other), ["a"] * len(one) + ["b"] * len(other))
        assert found.holds
        assert found.utilisation <= found.bound
        used.append(found.utilisation)
    assert max(used) == 0.5  # as the paper says, its bound is not the least
    assert len(used) >= 12


# Within a class


def test_within_class_correlation_is_spearman_s_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 5)) + 100, np.repeat(["x", "y", "z"], 20)
    bits = (features - 100) @ rng.normal(size=(5, 9)) > 0
    found = space.within_class_correlation(la.Codes.pack(bits), labels, features)
    for name, value in zip("xyz", found, strict=True):
        pairs = list(itertools.combinations(np.flatnonzero(labels == name), 2))
        by_bits = [int((bits[i] != bits[j]).sum()) for i, j in pairs]
        by_features = [float(np.linalg.norm(features[i] - features[j])) for i, j in pairs]
        assert value == pytest.approx(spearmanr(by_bits, by_features).statistic, abs=1e-9)


def test_within_class_correlation_is_undefined_for_collapsed_codes_and_tiny_classes() -> None:
    features, labels = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 1, 1, 2, 2])
    collapsed = la.Codes.pack(np.repeat([[0, 1]], 8, axis=0))
    assert np.isnan(space.within_class_correlation(collapsed, labels, features)).all()
    varied = space.within_class_correlation(la.Codes.pack(np.tri(8, 7)), labels, features)
    assert np.isnan(varied).tolist() == [False, True, True]  # two items are one pair, which has no order
    assert space.mean_of_known(varied) == varied[0] == pytest.approx(1)


def test_a_large_class_is_sampled_by_its_seed() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 4))
    codes = la.Codes.pack(features @ rng.normal(size=(4, 16)) > 0)
    ask = {"max_items": 50, "random_state": 1}
    first, again = (space.within_class_correlation(codes, np.zeros(300), features, **ask) for _ in range(2))
    other = space.within_class_correlation(codes, np.zeros(300), features, max_items=50, random_state=2)
    whole = space.within_class_correlation(codes, np.zeros(300), features)
    assert first == again != other
    assert abs(first - whole) < 0.1


@pytest.mark.parametrize(("dims", "spread"), [(512, 1.0), (64, 1e-3), (3, 1e-8)])
def test_equal_pairs_of_features_tie(dims: int, spread: float) -> None:
    """Items at two places only, which the codes tell apart: their order is the same, whatever floats do to zero."""
    rng = np.random.default_rng(0)
    places, where = rng.random((2, dims)) * spread, rng.integers(0, 2, 40)
    codes = la.Codes.pack(np.stack([where, 1 - where], 1))
    assert space.within_class_correlation(codes, np.zeros(40), places[where])[0] == pytest.approx(1, abs=1e-12)


# Bad input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: la.usage(np.eye(3)), "la.Codes.pack"),
        (lambda: la.usage(la.Codes.pack(np.zeros((0, 3)))), "no codes"),
        (lambda: la.usage(la.Codes.pack(np.eye(3)), [1, 2]), "labels must be 3"),
        (lambda: la.usage(la.Codes.pack(np.eye(3)), np.eye(3)), "labels must be 3"),
        (lambda: space.separation(la.Codes.pack(np.eye(3)), [1, 1, 1]), "at least two classes"),
        (lambda: space.WithinClass(np.zeros(3), [0, 0, 0]), "must be a matrix"),
        (lambda: space.WithinClass(np.eye(3), [0, 0]), "labels must be 3"),
        (lambda: space.WithinClass(np.eye(3), [0, 0, 0], max_items=1), "max_items"),
        (lambda: space.WithinClass(np.eye(3), [0] * 3).correlation(la.Codes.pack(np.eye(2))), "features of 3"),
    ],
)
def test_bad_input_is_told(call: object, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call()  # type: ignore[operator]
