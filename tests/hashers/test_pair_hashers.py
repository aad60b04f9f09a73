"""BRE and MLH do what defines them: their steps against every threshold and every code, tried one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.hashing import Array, digits, refused, whole_numbers
from lookalike import hashers
from lookalike.hashers import bre, mlh
from lookalike.hashers.labels import group_labels
from reference.learned_hashers import hinge, reconstruction_loss, worst_codes

# BRE


def problem(seed: int, n: int = 15, n_bits: int = 4) -> tuple[Array, Array, Array, Array]:
    """Kernels, targets, anchors and weights of a small problem."""
    rng = np.random.default_rng(seed)
    items = bre.unit_rows(rng.normal(size=(n, 3)))
    kernels = items @ items.T
    targets = (1 - kernels) / 2
    np.fill_diagonal(targets, 0)
    return kernels, targets, np.stack([rng.permutation(n)[:5] for _ in range(n_bits)]), rng.normal(size=(n_bits, 5))


def signs_of(kernels: Array, anchors: Array, weights: Array) -> Array:
    return np.stack([bre.side(kernels[:, a] @ w) for a, w in zip(anchors, weights, strict=True)], axis=1)


@pytest.mark.parametrize("seed", range(8))
def test_bre_line_search_finds_the_best_of_all_thresholds(seed: int) -> None:
    kernels, targets, anchors, weights = problem(seed)
    signs = signs_of(kernels, anchors, weights)
    better = 0
    for bit in range(len(weights)):
        for q in range(5):
            column, values = kernels[:, anchors[bit, q]], kernels[:, anchors[bit]] @ weights[bit]

            def loss_at(
                weight: float, bit: int = bit, q: int = q, column: Array = column, values: Array = values
            ) -> float:
                turned = signs.copy()
                turned[:, bit] = bre.side(values + (weight - weights[bit, q]) * column)
                return reconstruction_loss(targets, turned)

            thresholds = np.sort(weights[bit, q] - values / column)
            places = np.concatenate([thresholds[:1] - 1, (thresholds[1:] + thresholds[:-1]) / 2, thresholds[-1:] + 1])
            wanted = min(loss_at(place) for place in places)
            gains = bre.bit_gains(targets, signs, bit)
            own = np.ascontiguousarray(signs[:, bit])
            found = bre.best_weight(gains, column, values, weights[bit, q], own, gains @ own)
            reached = loss_at(weights[bit, q] if found is None else found)
            assert reached == pytest.approx(wanted, abs=1e-12)
            better += reached < loss_at(weights[bit, q]) - 1e-12
    assert better > 5  # else there was nothing to find


@pytest.mark.parametrize("seed", range(4))
def test_bre_steps_never_raise_the_loss(seed: int) -> None:
    kernels, targets, anchors, weights = problem(seed, n=25)
    signs = signs_of(kernels, anchors, weights)
    losses = [reconstruction_loss(targets, signs)]
    assert bre.loss(targets, signs) == pytest.approx(losses[0])
    for bit in (*range(4), *range(4)):
        gains = bre.bit_gains(targets, signs, bit)
        for q in range(5):  # one step, all other weights fixed
            values = kernels[:, anchors[bit]] @ weights[bit]
            own, column = np.ascontiguousarray(signs[:, bit]), kernels[:, anchors[bit, q]]
            found = bre.best_weight(gains, column, values, weights[bit, q], own, gains @ own)
            weights[bit, q] = weights[bit, q] if found is None else found
            signs = signs_of(kernels, anchors, weights)
            losses.append(reconstruction_loss(targets, signs))
    assert (np.diff(losses) <= 1e-12).all()
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("supervised", [False, True])
def test_bre_losses_are_those_of_its_codes(supervised: bool) -> None:
    items, classes = digits()
    items, classes = items[:120].astype(np.float64), classes[:120]
    hasher = hashers.BRE(8, supervised=supervised, random_state=0).fit(items, classes)
    assert (np.diff(hasher.losses_) <= 0).all()
    assert hasher.losses_[-1] < hasher.losses_[0]
    rows = items - items.mean(0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    distances = ((rows[:, None] - rows[None]) ** 2).sum(2) / 4
    targets = (classes[:, None] != classes[None]).astype(float) if supervised else distances
    bits = hasher.transform(items).unpack().astype(float)
    assert hasher.losses_[-1] == pytest.approx(reconstruction_loss(targets, bits), rel=1e-3)
    codes = (bits[:, None] != bits[None]).mean(2)
    assert np.corrcoef(codes[np.triu_indices(120, 1)], targets[np.triu_indices(120, 1)])[0, 1] > 0.4


def test_bre_looks_at_labels_only_if_asked() -> None:
    items, labels = whole_numbers(80), np.arange(80) % 2
    plain = hashers.BRE(6, random_state=0)
    assert not plain.learns_labels
    assert plain.fit_transform(items) == plain.fit_transform(items, labels)
    taught = hashers.BRE(6, supervised=True, random_state=0)
    assert taught.learns_labels
    assert taught.fit_transform(items, labels) != plain.fit_transform(items)
    refused("BRE with supervised=True learns from labels", taught.fit, items)
    refused("supervised must be True or False, got 'yes'", hashers.BRE(6, supervised="yes").fit, items)  # type: ignore[arg-type]


# MLH


@pytest.mark.parametrize("seed", range(20))
def test_mlh_inference_is_exact(seed: int) -> None:
    """Against all pairs of codes: 4 to the power of the bits."""
    rng = np.random.default_rng(seed)
    n_bits, rho, weight = int(rng.integers(1, 5)), 1, float(rng.uniform(0.2, 3))
    rho = int(rng.integers(1, n_bits + 1))
    one, other = (rng.normal(size=(4, n_bits)) * rng.choice([0.1, 0.3, 1]) for _ in range(2))
    similar = np.array([True, False, True, False])
    losses = np.stack([mlh.hinge_losses(n_bits, rho, bool(s), weight) for s in similar])
    (first, second), bounds = mlh.adjusted(one, other, losses)
    for i in range(4):
        listed = [hinge(m, n_bits, rho, bool(similar[i]), weight) for m in range(n_bits + 1)]
        np.testing.assert_allclose(losses[i], listed)
        best = worst_codes(one[i], other[i], listed)
        reached = listed[int((first[i] != second[i]).sum())] + first[i] @ one[i] + second[i] @ other[i]
        assert reached == pytest.approx(best)
        assert bounds[i] == pytest.approx(best - np.abs(one[i]).sum() - np.abs(other[i]).sum())
        loss = listed[int(((one[i] > 0) != (other[i] > 0)).sum())]
        assert bounds[i] >= loss - 1e-12  # an upper bound of the loss of the codes


def test_mlh_bounds_are_above_its_losses_and_both_fall() -> None:
    items, classes = digits()
    hasher = hashers.MLH(16, random_state=0, n_steps=1000).fit(items[:800], classes[:800])
    assert len(hasher.losses_) == len(hasher.bounds_) == 10
    assert (hasher.bounds_ >= hasher.losses_).all()
    assert hasher.bounds_[-1] < 0.7 * hasher.bounds_[0]
    assert hasher.losses_[-1] < 0.7 * hasher.losses_[0]


def test_mlh_pairs_are_similar_in_half() -> None:
    tags = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]])
    for y in (np.array([0, 0, 1, 1, 1, 2]), tags):
        groups = group_labels("MLH", y, 6)
        pairs = mlh.LabelledPairs(groups, np.random.RandomState(0))
        one, other, similar = pairs.draw(4000)
        shares = y[:, None] == y[None] if y.ndim == 1 else y @ y.T > 0
        np.testing.assert_array_equal(similar, shares[one, other])
        assert similar[:2000].all()
        assert set(zip(one[:2000].tolist(), other[:2000].tolist(), strict=True)) == {
            (int(i), int(j)) for i, j in np.argwhere(shares)
        }
        apart = {(int(i), int(j)) for i, j in np.argwhere(~shares)}
        assert apart <= set(zip(one[2000:].tolist(), other[2000:].tolist(), strict=True))


# Labels


LABELLED: list[Any] = [
    hashers.KSH(4, random_state=0),
    hashers.SDH(4, random_state=0),
    hashers.MLH(4, n_steps=20, random_state=0),
    hashers.BRE(4, supervised=True, random_state=0),
]


@pytest.mark.parametrize("hasher", LABELLED, ids=lambda hasher: type(hasher).__name__)
def test_labels_that_teach_nothing_are_refused(hasher: Any) -> None:
    items, name = whole_numbers(60), type(hasher).__name__
    assert name in refused("requires y to be passed, but the target y is None", hasher.fit, items)
    refused("60 items but 59 labels", hasher.fit, items, np.zeros(59))
    refused("only one class: all items have the same label", hasher.fit, items, np.zeros(60, int))
    refused("only one class: all items share tags", hasher.fit, items, np.tile([[1, 0], [1, 1]], (30, 1)))
    refused("none of 60 do: are these ids", hasher.fit, items, np.arange(60))
    refused("some are NaN or fractions", hasher.fit, items, np.where(np.arange(60) > 5, 1, np.nan))
    refused("some are missing", hasher.fit, items, np.array(["a", "b", None] * 20, object))
    refused("which must be 0 or 1", hasher.fit, items, np.arange(120).reshape(60, 2))
    refused("got shape", hasher.fit, items, np.zeros((60, 2, 2)))


@pytest.mark.parametrize("hasher", LABELLED, ids=lambda hasher: type(hasher).__name__)
def test_labels_are_names_and_tags_of_one_class_are_labels(hasher: Any) -> None:
    items, numbers = whole_numbers(90), np.arange(90) % 3
    wanted = hasher.fit_transform(items, numbers)
    names = np.array(["ant", "bee", "cow"])[numbers]
    for labels in (
        names,
        names.tolist(),
        names.astype(object),
        numbers.astype(object),
        numbers[:, None],
        numbers + 0.0,
    ):
        assert hasher.fit_transform(items, labels) == wanted
    # tags in the order of np.unique of rows: the same groups, numbered backwards
    same = hasher.fit_transform(items, np.eye(3, dtype=int)[:, ::-1][numbers])
    assert same == wanted
    several = np.column_stack([numbers == 0, numbers > 0, np.zeros(90), np.arange(90) % 2])
    assert hasher.fit_transform(items, several).n_bits == 4  # more than one tag, and a tag that no item has
