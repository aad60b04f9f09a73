"""Losses are what their papers say: the ranking losses 1 - the tie-aware metric on codes, and smooth between them.

Sizes are ragged on purpose: 1, 7, 8, 9, 63, 64, 65 and 200 bits; 2, 3, 17 and 130 examples, and 700, more than any
block of rows. What a vacuous test would let pass: activations without ties, whose bins hold nothing or one item; bins
that are never nearly empty and never hold nearly one item, where the formulas divide zero by zero; distances on a
border of bins, where dense autograd has another one-sided derivative; symmetric affinities, for which the printed
gradient happens to be right; hinges of which one side is never reached (each side is counted here).
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lookalike as la
from helpers.strategies import clustered_bits
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.learning import losses
from reference import formulas, soft

RANKING: dict[str, Callable[..., Tensor]] = {"ap": losses.tie_aware_ap, "dcg": losses.tie_aware_dcg}
RELAXATIONS = ("exact", "paper")
BITS = (1, 7, 8, 9, 63, 64, 65, 200)

every_ranking = pytest.mark.parametrize("name", RANKING)
every_relaxation = pytest.mark.parametrize("relaxation", RELAXATIONS)
both_paths = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])


# What is relevant to whom


@dataclass(frozen=True)
class Batch:
    """What a loss is given, the same as a matrix of grades, and the same for `evaluate`."""

    given: dict[str, Tensor]
    grades: Tensor
    relevance: Any


def batch(kind: str, n: int, seed: int = 0) -> Batch:
    """The second example has the highest grade for the first, so that some query has something relevant."""
    rng = np.random.default_rng(seed)
    if kind == "labels":
        labels = rng.integers(-3, 4, n) * 1000
        labels[1] = labels[0]
        made = torch.from_numpy(labels)
        return Batch({"labels": made}, soft.label_grades(made), la.same_label(labels, labels))
    if kind == "tags":
        tags = (rng.random((n, 5)) < 0.3).astype(np.int64)
        tags[:2] = [1, 0, 1, 0, 0]
        made = torch.from_numpy(tags)
        return Batch({"labels": made}, soft.tag_grades(made), la.shared_tags(tags, tags))
    if kind == "hierarchy":
        fine = rng.integers(0, 6, n)
        fine[1] = fine[0]
        coarse = fine // 2
        grades = soft.hierarchy_grades(torch.from_numpy(fine), torch.from_numpy(coarse))
        return Batch({"affinity": grades}, grades, la.hierarchy((fine, coarse), (fine, coarse)))
    grades = rng.choice([0, 0, 0, 1, 3], (n, n))
    grades[0, 1] = 3
    return Batch({"affinity": torch.from_numpy(grades)}, torch.from_numpy(grades), la.grades(grades))


KINDS = ("labels", "tags", "hierarchy", "asymmetric")
every_kind = pytest.mark.parametrize("kind", KINDS)


# Activations


def binary(n: int, n_bits: int, seed: int = 0) -> Tensor:
    """-1 and 1 around few centres, so that codes and distances tie."""
    bits = clustered_bits(np.random.default_rng(seed), n, n_bits)
    return torch.from_numpy(bits.astype(np.float64) * 2 - 1)


def distances(activations: Tensor, alpha: float | None) -> Tensor:
    """Relaxed distances of all pairs, and 0.5 for an example and itself."""
    relaxed = soft.relax(activations, alpha)
    found = (relaxed.shape[1] - relaxed @ relaxed.T) / 2
    return found.fill_diagonal_(0.5)


def between_bins(n: int, n_bits: int, seed: int = 0, *, alpha: float = 1.0, margin: float = 1e-3) -> Tensor:
    """Clustered activations, float64; every distance is at least `margin` from a whole number."""
    return _found_between_bins(n, n_bits, seed, alpha, margin).clone()


@functools.cache
def _found_between_bins(n: int, n_bits: int, seed: int, alpha: float, margin: float) -> Tensor:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, n_bits))

    def draw(n_rows: int) -> Tensor:
        return torch.from_numpy(centres[rng.integers(0, 3, n_rows)] + 0.7 * rng.normal(size=(n_rows, n_bits)))

    activations = draw(n)
    for _ in range(1000):
        found = distances(activations, alpha)
        rows = torch.nonzero(((found - found.round()).abs() < margin).triu().any(0)).flatten()
        if not len(rows):
            return activations
        activations[rows] = draw(len(rows))
    raise AssertionError("no activations found")


def value_and_gradient(function: Callable[..., Tensor], activations: Tensor, **given: Any) -> tuple[float, Tensor]:
    leaf = activations.clone().requires_grad_()
    value = function(leaf, **given)
    assert value.shape == ()
    (gradient,) = torch.autograd.grad(value, leaf)
    assert gradient.shape == leaf.shape
    assert gradient.dtype == leaf.dtype
    return float(value.detach()), gradient


def assert_same_gradient(one: Tensor, other: Tensor, tolerance: float) -> None:
    """Equal to within a share of the largest, or of 1e-4 where a loss that cannot change has next to none."""
    assert float((one.double() - other.double()).abs().max()) <= tolerance * max(float(other.abs().max()), 1e-4)


def assert_same(one: tuple[float, Tensor], other: tuple[float, Tensor], value: float, gradient: float) -> None:
    assert abs(one[0] - other[0]) <= value
    assert_same_gradient(one[1], other[1], gradient)


# The reference itself


COUNTS = st.one_of(
    st.sampled_from([0.0, 1e-12, 1e-6, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 1 + 1e-4, 2.0, 7.0, 300.0]), st.floats(1e-9, 40)
)
BINS = st.lists(
    COUNTS.flatmap(lambda c: st.tuples(st.sampled_from([0.0, c / 3, c]), st.just(c))), max_size=4, min_size=1
)


@every_relaxation
@settings(max_examples=60)
@given(bins=BINS)
def test_the_reference_is_the_formula_and_its_derivative(relaxation: str, bins: list[tuple[float, float]]) -> None:
    counts = torch.tensor(bins, dtype=torch.float64, requires_grad=True)
    value = soft.precision_sum(*counts.T, relaxation)
    value.backward()
    assert math.isclose(
        float(value.detach()), soft.precision_sum_slowly(bins, relaxation), rel_tol=1e-12, abs_tol=1e-12
    )
    assert counts.grad is not None
    for place, part in itertools.product(range(len(bins)), range(2)):
        around = []
        for sign in (1, -1):
            with mpmath.workdps(60):
                moved: list[list[Any]] = [list(pair) for pair in bins]
                moved[place][part] += sign * mpmath.mpf("1e-15")
                around.append(soft.precision_sum_slowly([tuple(pair) for pair in moved], relaxation))
        with mpmath.workdps(60):
            slope = float((around[0] - around[1]) / mpmath.mpf("2e-15"))
        assert math.isclose(float(counts.grad[place, part]), slope, rel_tol=1e-11, abs_tol=1e-11)


@settings(max_examples=60)
@given(groups=st.lists(st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1))
def test_the_reference_is_the_metric_at_whole_counts(groups: list[tuple[int, int]]) -> None:
    wanted = formulas.average_precision(groups)
    n_relevant = sum(n_rel for _, n_rel in groups)
    counts = torch.tensor(groups, dtype=torch.float64).T
    found = float(soft.precision_sum(counts[1], counts[0]))
    assert wanted is None or math.isclose(found / n_relevant, wanted.expected, abs_tol=1e-13)
    assert wanted is not None or found == 0


def test_the_printed_logarithm_is_as_near_as_printed() -> None:
    """He et al. 2018, section C, eq. 20 and 21: what the sum of 1/rank is away from ln(N_d / N_(d-1))."""
    tightest = 1.0
    for before, items in itertools.product([*range(1, 40), 100, 1000], [*range(1, 40), 100, 1000]):
        inverse_ranks = float(sum((Fraction(1, before + j) for j in range(1, items + 1)), Fraction()))
        bound = items / (2 * before * (before + items))
        away = abs(inverse_ranks - soft.printed_inverse_ranks(before, items))
        assert away <= bound
        tightest = min(tightest, 1 - away / bound)
    assert tightest < 0.01  # so no smaller bound would do


# On codes: the tie-aware metric


def assert_is_the_metric(kind: str, n: int, n_bits: int, seed: int, compiled: bool | None = None) -> None:
    given, codes = batch(kind, n, seed), binary(n, n_bits, seed)
    packed = la.Codes.pack((codes > 0).numpy())
    names = ["AP", "nDCG", "nDCG(gain='linear')"] + ["AP(rel=2)"] * (kind != "labels")
    result = la.evaluate(packed, packed, given.relevance, names, exclude="self", undefined="skip", threads=1)
    for alpha in (40.0, None):
        options: dict[str, Any] = {**given.given, "alpha": alpha, "compiled": compiled}
        found = {
            "AP": losses.tie_aware_ap(codes, **options),
            "nDCG": losses.tie_aware_dcg(codes, **options),
            "nDCG(gain='linear')": losses.tie_aware_dcg(codes, gain="linear", **options),
            "AP(rel=2)": losses.tie_aware_ap(codes, rel=2, **options) if kind != "labels" else None,
        }
        for name in names:
            assert abs(1 - float(found[name]) - result[name].mean) < 1e-9, (name, alpha)


@every_kind
@pytest.mark.parametrize("n", [2, 3, 17, 130])
@pytest.mark.parametrize("n_bits", BITS)
def test_on_codes_the_losses_are_the_tie_aware_metrics(kind: str, n: int, n_bits: int) -> None:
    assert_is_the_metric(kind, n, n_bits, seed=n * n_bits)


@both_paths
@every_kind
def test_on_codes_both_paths_are_the_tie_aware_metrics(kind: str, compiled: bool) -> None:
    for seed, (n, n_bits) in enumerate([(2, 1), (17, 9), (130, 64), (65, 200)]):
        assert_is_the_metric(kind, n, n_bits, seed, compiled)


@settings(max_examples=60)
@given(kind=st.sampled_from(KINDS), n=st.integers(2, 40), n_bits=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_on_any_codes_the_losses_are_the_tie_aware_metrics(kind: str, n: int, n_bits: int, seed: int) -> None:
    assert_is_the_metric(kind, n, n_bits, seed)


def test_worked_by_hand() -> None:
    """Ten others on one code, five relevant: 0.607165 (Ding et al. 2018, figure 2, between its 1 and 0.3544)."""
    affinity = torch.zeros(11, 11, dtype=torch.int64)
    affinity[0, 1:6] = 1
    codes = torch.ones(11, 4)
    assert abs(float(losses.tie_aware_ap(codes, affinity=affinity)) - (1 - 0.6071649029982363)) < 1e-7
    mean_discount = sum(1 / math.log2(rank + 1) for rank in range(1, 11)) / 10
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, 6))
    assert abs(float(losses.tie_aware_dcg(codes, affinity=affinity)) - (1 - 5 * mean_discount / ideal)) < 1e-7


@every_ranking
@pytest.mark.parametrize("itself", [3, 7, -1])
def test_what_an_example_is_to_itself_does_not_matter(name: str, itself: int) -> None:
    grades, activations = batch("asymmetric", 20).grades, between_bins(20, 9)
    first, second = (
        value_and_gradient(RANKING[name], activations, affinity=grades.clone().fill_diagonal_(value), alpha=1.0)
        for value in (0, itself)
    )
    assert_same(first, second, 1e-14, 1e-13)


@every_ranking
def test_labels_are_names(name: str) -> None:
    """Which numbers stand for classes, their type and their container change nothing."""
    activations, labels = between_bins(30, 9), torch.arange(30) % 4
    wanted = value_and_gradient(RANKING[name], activations, labels=labels, alpha=1.0)
    names = torch.tensor([-7, 2**40, 0, 3])
    tags = torch.nn.functional.one_hot(labels)
    alike: list[dict[str, Any]] = [
        {"labels": names[labels]},
        {"labels": labels.to(torch.int32)},
        {"labels": labels.to(torch.uint8)},
        {"labels": labels.numpy()},
        {"labels": tags},
        {"labels": tags.bool()},
        {"affinity": soft.label_grades(labels)},
        {"affinity": soft.label_grades(labels).to(torch.uint8)},
        {"affinity": soft.label_grades(labels).double()},
    ]
    for one in alike:
        assert_same(value_and_gradient(RANKING[name], activations, alpha=1.0, **one), wanted, 1e-12, 1e-12)


def test_however_many_tags_are_shared() -> None:
    """Half the examples share 256 tags, which a byte cannot count."""
    tags = torch.ones(6, 256, dtype=torch.int64)
    tags[3:] = 0
    activations = between_bins(6, 9)
    wanted = value_and_gradient(losses.tie_aware_ap, activations, affinity=(tags @ tags.T).clamp(max=1), alpha=1.0)
    assert_same(value_and_gradient(losses.tie_aware_ap, activations, labels=tags, alpha=1.0), wanted, 1e-12, 1e-12)


def test_queries_without_anything_relevant_are_left_out() -> None:
    activations, affinity = between_bins(12, 9), torch.zeros(12, 12, dtype=torch.int64)
    affinity[3, [4, 5]] = 1
    affinity[7, 2] = 2
    relaxed = soft.relax(activations, 1.0)
    values = [soft.average_precisions(relaxed, affinity, rows=slice(i, i + 1)) for i in (3, 7)]
    wanted = 1 - float(torch.cat(values).mean())
    assert abs(float(losses.tie_aware_ap(activations, affinity=affinity, alpha=1.0)) - wanted) < 1e-12
    wanted = 1 - float(values[1])  # of grade 2 there is one
    assert abs(float(losses.tie_aware_ap(activations, affinity=affinity, alpha=1.0, rel=2)) - wanted) < 1e-12


# Between codes: bounds


def assert_bounded(activations: Tensor, given: dict[str, Tensor], alpha: float | None) -> list[float]:
    values = [
        float(losses.tie_aware_ap(activations, alpha=alpha, **given)),
        float(losses.tie_aware_dcg(activations, alpha=alpha, **given)),
        float(losses.tie_aware_dcg(activations, alpha=alpha, gain="linear", **given)),
    ]
    for value in values:
        assert -1e-12 <= value <= 1 + 1e-12, (values, alpha, activations, given)
    return values


@every_kind
def test_random_batches_stay_between_0_and_1(kind: str) -> None:
    """Of all sizes from 2, saturated and not, with repeated rows; 250 of each kind, three losses each."""
    rng = np.random.default_rng(KINDS.index(kind))
    seen = []
    for seed in range(250):
        n, n_bits = int(rng.choice([2, 3, 4, 6, 12, 25])), int(rng.choice([1, 2, 3, 8, 16, 65]))
        alpha, scale = 10 ** rng.uniform(-1, math.log10(40)), 10 ** rng.uniform(-2, 1)
        rows = rng.normal(size=(n, n_bits))[rng.integers(0, n, n)] + rng.choice([0, 0.1]) * rng.normal(size=(n, n_bits))
        seen += assert_bounded(torch.from_numpy(rows * scale), batch(kind, n, seed).given, alpha)
    assert min(seen) < 0.05
    assert max(seen) > 0.5


@settings(max_examples=120)
@given(data=st.data(), n=st.integers(2, 6), n_bits=st.integers(1, 4), kind=st.sampled_from(KINDS))
def test_no_batch_leaves_0_to_1(data: st.DataObject, n: int, n_bits: int, kind: str) -> None:
    """Relaxed codes are drawn themselves: borders of bins, nearly empty bins and bins of nearly one item among them."""
    number = st.one_of(st.sampled_from([-1.0, 0.0, 1.0, 1 - 1e-12, 1e-9 - 1, 0.5]), st.floats(-1, 1))
    relaxed = data.draw(st.lists(st.lists(number, min_size=n_bits, max_size=n_bits), min_size=n, max_size=n))
    assert_bounded(
        torch.tensor(relaxed, dtype=torch.float64), batch(kind, n, data.draw(st.integers(0, 99))).given, None
    )


@both_paths
@pytest.mark.parametrize("alpha", [0.3, 1.0, 40.0])
def test_perfect_separation_is_exactly_0(alpha: float, compiled: bool) -> None:
    """Also between codes, where bins hold fractions of items, as long as no bin holds both."""
    rng = np.random.default_rng(0)
    labels = torch.arange(40) % 4
    centres = 3 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).repeat(16, axis=1)
    activations = torch.from_numpy(centres[labels.numpy()] + 0.4 * rng.normal(size=(40, 48)))
    found, same = distances(activations, alpha), soft.label_grades(labels).bool().fill_diagonal_(False)
    assert float(found[same].max()) + 2 < float(found[~soft.label_grades(labels).bool()].min())
    given: dict[str, Any] = {"labels": labels, "alpha": alpha, "compiled": compiled}
    assert abs(float(losses.tie_aware_ap(activations, **given))) < 1e-12
    assert abs(float(losses.tie_aware_dcg(activations, **given))) < 1e-12


@every_ranking
def test_the_nearer_the_relevant_the_lower_the_loss(name: str) -> None:
    """The obvious guard of the slope (c+ - 1)/(c - 1) is wrong here: gradients of the wrong sign."""
    affinity = torch.zeros(4, 4, dtype=torch.int64)
    affinity[0, 1] = 1
    places = torch.linspace(0.02, 2.98, 75, dtype=torch.float64)
    values = []
    for place in places:
        by_distance = torch.tensor([0.0, float(place), 0.8, 1.7], dtype=torch.float64)
        relaxed = (1 - 2 * by_distance / 3)[:, None].expand(4, 3).clamp(-1, 1)
        values.append(float(RANKING[name](relaxed, affinity=affinity, alpha=None)))
    assert (np.diff(values) > -1e-12).all()
    assert values[-1] - values[0] > 0.4


# Between codes: gradients


@both_paths
@every_relaxation
@every_ranking
@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
def test_the_gradient_is_the_slope(name: str, relaxation: str, levels: int, symmetric: bool, compiled: bool) -> None:
    generator = torch.Generator().manual_seed(levels)
    affinity = torch.randint(0, levels, (5, 5), generator=generator)
    affinity = torch.maximum(affinity, affinity.T) if symmetric else affinity
    options: dict[str, Any] = {"affinity": affinity, "alpha": 1.0, "relaxation": relaxation, "compiled": compiled}
    if name == "ap":
        options["rel"] = levels // 2
    activations = between_bins(5, 3, levels).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: RANKING[name](a, **options), (activations,), eps=1e-6, atol=1e-7)


SIZES = [(2, 1), (3, 7), (17, 8), (40, 9), (64, 12), (64, 64), (65, 65), (20, 200)]


@every_relaxation
@every_kind
def test_value_and_gradient_are_those_of_the_dense_histogram(kind: str, relaxation: str) -> None:
    for seed, (n, n_bits) in enumerate(SIZES if kind in ("labels", "asymmetric") else SIZES[:5]):
        relevant, activations = batch(kind, n, seed), between_bins(n, n_bits, seed)
        for rel in (1, 2) if kind != "labels" and n < 50 else (1,):
            options: dict[str, Any] = {"alpha": 1.0, "rel": rel, "relaxation": relaxation}
            wanted = value_and_gradient(soft.tie_aware_ap, activations, grades=relevant.grades, **options)
            for compiled in (True, False):
                found = value_and_gradient(
                    losses.tie_aware_ap, activations, compiled=compiled, **relevant.given, **options
                )
                assert_same(found, wanted, 1e-12, 1e-10)


@both_paths
@every_kind
@pytest.mark.parametrize("gain", ["exponential", "linear"])
def test_the_printed_dcg_is_that_of_the_dense_histogram(kind: str, gain: str, compiled: bool) -> None:
    for seed, (n, n_bits) in enumerate(SIZES[1:6]):
        given, activations = batch(kind, n, seed), between_bins(n, n_bits, seed)
        wanted = value_and_gradient(soft.tie_aware_dcg, activations, grades=given.grades, alpha=1.0, gain=gain)
        options: dict[str, Any] = {"alpha": 1.0, "gain": gain, "relaxation": "paper", "compiled": compiled}
        assert_same(
            value_and_gradient(losses.tie_aware_dcg, activations, **given.given, **options), wanted, 1e-12, 1e-10
        )


@both_paths
@every_relaxation
@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-9, 1e-12])
def test_nearly_empty_bins_and_bins_of_nearly_one_item(relaxation: str, share: float, compiled: bool) -> None:
    """Codes with a last bit of 1 - share: every distance is a share above or below a whole number."""
    for seed, (n, kind) in enumerate([(5, "labels"), (9, "asymmetric"), (30, "tags")]):
        relaxed = binary(n, 6, seed)
        relaxed[:, -1] *= 1 - share
        given = batch(kind, n, seed)
        wanted = value_and_gradient(soft.tie_aware_ap, relaxed, grades=given.grades, alpha=None, relaxation=relaxation)
        options: dict[str, Any] = {"alpha": None, "relaxation": relaxation, "compiled": compiled}
        assert_same(value_and_gradient(losses.tie_aware_ap, relaxed, **given.given, **options), wanted, 1e-12, 1e-10)


@both_paths
@every_relaxation
@every_ranking
def test_the_gradient_does_not_jump_where_counts_are_whole(name: str, relaxation: str, compiled: bool) -> None:
    """Two items at distances 1.3 and 1.7 fill a bin with one item; a line between whole counts would bend there."""
    affinity = torch.zeros(5, 5, dtype=torch.int64)
    affinity[0] = torch.tensor([0, 1, 0, 2, 0])

    def gradient(moved: float) -> Tensor:
        by_distance = torch.tensor([0, 1.3, 1.7 - moved, 2.6, 0.2], dtype=torch.float64)
        relaxed = (1 - 2 * by_distance / 3)[:, None].expand(5, 3)
        return value_and_gradient(
            RANKING[name], relaxed, affinity=affinity, alpha=None, relaxation=relaxation, compiled=compiled
        )[1]

    # Of the other four bins' borders none is crossed.
    below, above = gradient(-1e-8), gradient(1e-8)
    assert float(below.abs().max()) > 0.01
    assert float((below - above).abs().max()) < 1e-6


@every_relaxation
@every_ranking
def test_both_paths_agree(name: str, relaxation: str) -> None:
    for seed, (kind, (n, n_bits)) in enumerate(itertools.product(KINDS, [*SIZES[1:], (130, 63), (257, 16)])):
        activations = between_bins(n, n_bits, seed, margin=1e-6)
        options: dict[str, Any] = {**batch(kind, n, seed).given, "alpha": 1.0, "relaxation": relaxation}
        compiled, plain, chosen = (
            value_and_gradient(RANKING[name], activations, compiled=which, **options) for which in (True, False, None)
        )
        assert_same(compiled, plain, 1e-12, 1e-12)
        assert chosen[0] == compiled[0]
        assert torch.equal(chosen[1], compiled[1])


@every_relaxation
@every_ranking
def test_both_paths_agree_on_borders_of_bins(name: str, relaxation: str) -> None:
    """Whole distances, 0 and the number of bits among them, where the slope is that of the bin that begins there."""
    for seed, n_bits in enumerate(BITS):
        relaxed = binary(40, n_bits, seed)
        options: dict[str, Any] = {**batch("tags", 40, seed).given, "alpha": None, "relaxation": relaxation}
        compiled, plain = (
            value_and_gradient(RANKING[name], relaxed, compiled=which, **options) for which in (True, False)
        )
        assert_same(compiled, plain, 1e-12, 1e-12)


@every_ranking
def test_a_gradient_is_scaled_by_what_comes_after_the_loss(name: str) -> None:
    given, activations = batch("labels", 20), between_bins(20, 9)
    _, wanted = value_and_gradient(RANKING[name], activations, alpha=1.0, **given.given)
    leaf = activations.clone().requires_grad_()
    loss = RANKING[name](leaf, alpha=1.0, **given.given)
    (5 * loss).backward(retain_graph=True)
    (-2 * loss).backward()  # the second time through the same graph
    assert_same_gradient(leaf.grad, 3 * wanted, 1e-14)


@every_ranking
def test_the_gradient_passes_tanh(name: str) -> None:
    given, activations = batch("labels", 20), between_bins(20, 9, alpha=2.5)
    wanted = value_and_gradient(
        lambda a, **g: RANKING[name](torch.tanh(2.5 * a), alpha=None, **g), activations, **given.given
    )
    assert_same(value_and_gradient(RANKING[name], activations, alpha=2.5, **given.given), wanted, 1e-14, 1e-13)


@every_ranking
def test_rows_need_not_lie_together_in_memory(name: str) -> None:
    given, activations = batch("asymmetric", 20), between_bins(20, 9)
    wanted = value_and_gradient(RANKING[name], activations, alpha=1.0, **given.given)
    apart = torch.empty(9, 40, dtype=torch.float64)[:, ::2].T.copy_(activations)
    turned = {"affinity": given.given["affinity"].T.contiguous().T}
    assert not apart.is_contiguous()
    found = RANKING[name](apart.requires_grad_(), alpha=1.0, **turned)
    (gradient,) = torch.autograd.grad(found, apart)
    assert_same((float(found.detach()), gradient), wanted, 1e-14, 1e-13)


@pytest.mark.parametrize("relaxed", [False, True], ids=["activations", "relaxed"])
@every_relaxation
@every_ranking
@pytest.mark.parametrize(
    ("activations", "labels"),
    [
        (torch.zeros(6, 4), [0, 0, 1, 1, 2, 2]),
        (torch.zeros(6, 5), [0, 0, 1, 1, 2, 2]),
        (torch.full((6, 4), 0.3), [0, 0, 1, 1, 2, 2]),
        (torch.ones(6, 4), [0, 0, 1, 1, 2, 2]),
        (torch.tensor([[0.2, -0.7], [0.4, 0.1]]), [5, 5]),
        (torch.tensor([[0.2], [-0.7], [1.0]]), [0, 0, 1]),
        (torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]), [0, 0, 1]),
        (between_bins(30, 64).tanh().float(), [0, 0, *range(1, 29)]),
        (between_bins(30, 3).tanh().float(), [0, 0, *range(1, 29)]),
        (binary(30, 64).float(), [0, 0, *range(1, 29)]),
    ],
    ids=[
        *("zeros", "zeros, odd bits", "all equal", "one code", "two", "one bit", "as far as can be"),
        *("one relevant, empty bins", "one relevant", "codes"),
    ],
)
def test_gradients_are_finite(
    name: str, relaxation: str, activations: Tensor, labels: list[int], relaxed: bool
) -> None:
    for compiled, dtype in itertools.product((True, False), (torch.float32, torch.float64)):
        value, gradient = value_and_gradient(
            RANKING[name],
            activations.to(dtype),
            labels=torch.tensor(labels),
            alpha=None if relaxed else 40.0,
            relaxation=relaxation,
            compiled=compiled,
        )
        assert math.isfinite(value)
        assert gradient.isfinite().all()


@every_ranking
def test_far_saturated_activations_have_no_gradient_and_no_nan(name: str) -> None:
    for scale in (1e3, 1e30, 3e38):
        value, gradient = value_and_gradient(RANKING[name], binary(20, 9).float() * scale, **batch("labels", 20).given)
        assert 0 <= value <= 1
        assert (gradient == 0).all()


# Many examples


@every_relaxation
def test_many_examples_are_those_of_the_dense_histogram(relaxation: str) -> None:
    """700 examples are more than any block of rows: the reference goes through them a hundred at a time."""
    relevant, activations = batch("asymmetric", 700), between_bins(700, 16, margin=1e-7)
    leaf, total, n_queries = activations.clone().requires_grad_(), 0.0, 0
    for start in range(0, 700, 100):
        values = soft.average_precisions(
            soft.relax(leaf, 1.0), relevant.grades, relaxation=relaxation, rows=slice(start, start + 100)
        )
        values.sum().backward()
        total, n_queries = total + float(values.detach().sum()), n_queries + len(values)
    assert leaf.grad is not None
    for compiled in (True, False):
        options: dict[str, Any] = {"alpha": 1.0, "relaxation": relaxation, "compiled": compiled}
        found = value_and_gradient(losses.tie_aware_ap, activations, **relevant.given, **options)
        assert_same(found, (1 - total / n_queries, -leaf.grad / n_queries), 1e-12, 1e-10)


@both_paths
@every_relaxation
@every_ranking
@pytest.mark.parametrize("n", [65, 129, 513, 700])
def test_the_order_of_examples_does_not_matter(name: str, relaxation: str, n: int, compiled: bool) -> None:
    """So it does not matter where blocks of rows begin and end either."""
    given, activations = batch("asymmetric", n), between_bins(n, 16, margin=1e-7)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    options: dict[str, Any] = {"alpha": 1.0, "relaxation": relaxation, "compiled": compiled}
    value, gradient = value_and_gradient(RANKING[name], activations, affinity=given.grades, **options)
    moved = value_and_gradient(RANKING[name], activations[order], affinity=given.grades[order][:, order], **options)
    assert_same(moved, (value, gradient[order]), 1e-12, 1e-10)


@every_relaxation
@every_ranking
def test_twice_the_same_is_the_same_to_the_last_bit(name: str, relaxation: str) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for compiled, dtype in itertools.product((True, False), (torch.float32, torch.float64)):
            activations = between_bins(300, 32, margin=1e-6).to(dtype)
            options: dict[str, Any] = {"alpha": 1.0, "relaxation": relaxation, "compiled": compiled}
            runs = [
                value_and_gradient(RANKING[name], activations, **batch("tags", 300).given, **options) for _ in range(4)
            ]
            for value, gradient in runs[1:]:
                assert value == runs[0][0]
                assert torch.equal(gradient, runs[0][1])
    finally:
        torch.set_num_threads(threads)


# Narrow numbers


@both_paths
@every_relaxation
@every_ranking
def test_float32_is_nearly_float64(name: str, relaxation: str, compiled: bool) -> None:
    for seed, (kind, (n, n_bits)) in enumerate(itertools.product(KINDS, [(17, 9), (64, 64), (130, 24), (64, 200)])):
        activations = between_bins(n, n_bits, seed).float()
        options: dict[str, Any] = {"alpha": 1.0, "relaxation": relaxation, "compiled": compiled}
        wide = value_and_gradient(RANKING[name], activations.double(), **batch(kind, n, seed).given, **options)
        narrow = value_and_gradient(RANKING[name], activations, **batch(kind, n, seed).given, **options)
        assert_same(narrow, wide, 1e-5, 1e-4)


@every_ranking
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [False, True], ids=["plain", "autocast"])
def test_half_precision_is_what_it_is_in_float32(name: str, dtype: torch.dtype, autocast: bool) -> None:
    given, activations = batch("labels", 60), between_bins(60, 24).to(dtype)
    for alpha, compiled in itertools.product((1.0, 40.0), (True, False)):
        options: dict[str, Any] = {**given.given, "alpha": alpha, "compiled": compiled}
        wide = value_and_gradient(RANKING[name], activations.float(), **options)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            narrow = value_and_gradient(RANKING[name], activations, **options)
        assert narrow[0] == wide[0]
        assert torch.equal(narrow[1], wide[1].to(dtype))


@every_ranking
def test_autocast_lowers_no_precision_inside(name: str) -> None:
    given, activations = batch("asymmetric", 60), between_bins(60, 24).float()
    for compiled in (True, False):
        options: dict[str, Any] = {**given.given, "alpha": 1.0, "compiled": compiled}
        wanted = value_and_gradient(RANKING[name], activations, **options)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = value_and_gradient(RANKING[name], activations, **options)
        assert found[0] == wanted[0]
        assert torch.equal(found[1], wanted[1])


@pytest.mark.parametrize("autocast", [False, True], ids=["plain", "autocast"])
def test_losses_train_a_network(autocast: bool) -> None:
    """Thirty steps on two classes that a line separates: every loss falls, and its gradient reaches the weights."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(32) % 2
    items = torch.randn(32, 6, generator=generator) + 1.5 * (labels[:, None] * 2 - 1)
    for module in (losses.TieAwareAP(alpha=1.0), losses.TieAwareDCG(alpha=1.0), losses.DSH(), losses.DispersedDSH()):
        weights = (0.1 * torch.randn(6, 8, generator=generator)).requires_grad_()
        optimiser = torch.optim.Adam([weights], lr=0.05)
        values = []
        for _ in range(30):
            optimiser.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                loss = module(items @ weights, labels)
            loss.backward()
            optimiser.step()
            values.append(float(loss.detach()))
        assert values[-1] < 0.6 * values[0], module


# As printed


@pytest.mark.parametrize("n", [64, 128, 256])
def test_the_printed_form_is_near_the_exact_one_where_codes_mix(n: int) -> None:
    away = []
    for seed, n_bits in itertools.product(range(5), (8, 12, 24, 48)):
        generator = torch.Generator().manual_seed(seed)
        codes = torch.randint(0, 2, (n, n_bits), generator=generator).double() * 2 - 1
        labels = torch.randint(0, 10, (n,), generator=generator)
        exact, paper = (float(losses.tie_aware_ap(codes, labels, relaxation=name)) for name in RELAXATIONS)
        away.append(exact - paper)
    assert 0 < np.mean(away) < 0.003 * 64 / n  # measured: 0.0020, 0.0011, 0.0005
    assert max(away) < 0.01


def test_the_printed_form_flatters_where_few_items_tie_on_top() -> None:
    """It takes ln 3 for the 1 of a first rank: the fewer the relevant items and the better the codes, the more."""
    codes = torch.tensor([[1.0, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, -1]])
    labels = torch.tensor([0, 0, 1, 1])
    assert float(losses.tie_aware_ap(codes, labels)) == pytest.approx(0, abs=1e-7)
    assert float(losses.tie_aware_ap(codes, labels, relaxation="paper")) == pytest.approx(1 - math.log(3), abs=1e-6)


# Bad input

GOOD = between_bins(4, 3)
LABELS = torch.tensor([0, 0, 1, 1])


@every_ranking
@pytest.mark.parametrize("given", ["labels", "affinity", "tags"])
def test_nothing_relevant_is_a_warning_and_no_gradient(name: str, given: str) -> None:
    nothing: dict[str, Any] = {
        "labels": {"labels": torch.arange(4)},
        "affinity": {"affinity": torch.eye(4, dtype=torch.int64)},
        "tags": {"labels": torch.eye(4, dtype=torch.int64)},
    }[given]
    for compiled in (True, False, None):
        leaf = GOOD.clone().requires_grad_()
        with pytest.warns(RuntimeWarning, match="relevant"):
            loss = RANKING[name](leaf, compiled=compiled, **nothing)
        assert float(loss.detach()) == 0
        assert loss.requires_grad
        loss.backward()
        assert leaf.grad is not None
        assert (leaf.grad == 0).all()


def test_nothing_as_relevant_as_asked_is_a_warning_too() -> None:
    with pytest.warns(RuntimeWarning, match="relevant"):
        assert float(losses.tie_aware_ap(GOOD, LABELS, rel=2)) == 0


@every_ranking
def test_one_class_is_perfect(name: str) -> None:
    for compiled in (True, False):
        value, gradient = value_and_gradient(
            RANKING[name], GOOD, labels=torch.ones(4).long(), compiled=compiled, alpha=1.0
        )
        assert abs(value) < 1e-12
        assert float(gradient.abs().max()) < 1e-12


def with_one(value: float) -> Tensor:
    activations = GOOD.clone()
    activations[2, 1] = value
    return activations


FRACTION = torch.tensor([[0, 0.5, 1, 0]] * 4)
BAD_FOR_ALL: list[tuple[str, Any, dict[str, Any]]] = [
    (r"(?i)nan", with_one(math.nan), {"labels": LABELS}),
    (r"(?i)nan|infinite", with_one(math.inf), {"labels": LABELS}),
    (r"(?i)nan|infinite", with_one(-math.inf), {"labels": LABELS}),
    ("4 .*labels.*3", GOOD, {"labels": LABELS[:3]}),
    ("4 .*labels.*5", GOOD, {"labels": torch.ones(5, 2, dtype=torch.int64)}),
    ("labels", GOOD, {"labels": torch.ones(4, 2, 2, dtype=torch.int64)}),
    ("tags.*0.*1", GOOD, {"labels": torch.full((4, 2), 2)}),
    ("tags", GOOD, {"labels": torch.full((4, 2), 0.5)}),
    ("labels.*affinity", GOOD, {"labels": LABELS, "affinity": torch.ones(4, 4, dtype=torch.int64)}),
    ("labels.*affinity", GOOD, {}),
    ("affinity.*4", GOOD, {"affinity": torch.ones(3, 3, dtype=torch.int64)}),
    ("affinity.*4", GOOD, {"affinity": torch.ones(4, 3, dtype=torch.int64)}),
    ("affinity", GOOD, {"affinity": torch.ones(4, dtype=torch.int64)}),
    ("affinity.*whole numbers from 0", GOOD, {"affinity": torch.tensor([[0, -1, 1, 0]] * 4)}),
    ("affinity.*whole", GOOD, {"affinity": FRACTION}),
    (r"(?i)affinity", GOOD, {"affinity": torch.full((4, 4), math.nan)}),
    ("activations", GOOD[0], {"labels": LABELS[:3]}),
    ("activations", GOOD[None], {"labels": LABELS}),
    ("two examples", GOOD[:1], {"labels": LABELS[:1]}),
    ("two examples", GOOD[:0], {"labels": LABELS[:0]}),
    ("one bit", GOOD[:, :0], {"labels": LABELS}),
    ("activations.*float|activations.*real", (GOOD * 10).long(), {"labels": LABELS}),
]


@pytest.mark.parametrize(("words", "activations", "given"), BAD_FOR_ALL)
@pytest.mark.parametrize("name", [*RANKING, "dsh", "dispersed_dsh"])
def test_bad_input_is_named(name: str, words: str, activations: Tensor, given: dict[str, Any]) -> None:
    function = RANKING.get(name) or getattr(losses, name)
    with pytest.raises((ValueError, TypeError), match=re.compile(words, re.DOTALL)):
        function(activations, **given)


@every_ranking
@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("alpha.*0", {"alpha": 0.0}),
        ("alpha.*-3", {"alpha": -3.0}),
        ("alpha.*nan", {"alpha": math.nan}),
        ("alpha.*inf", {"alpha": math.inf}),
        ("relaxation.*'exact'.*'papre'|relaxation.*'papre'.*'exact'", {"relaxation": "papre"}),
        (r"(?i)alpha.*\[?-1.*1", {"alpha": None}),
    ],
)
def test_a_bad_option_is_named(name: str, words: str, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        RANKING[name](with_one(1.5), LABELS, **options)


def test_a_bad_gain_or_grade_is_named() -> None:
    with pytest.raises(ValueError, match=r"gain.*'linear'"):
        losses.tie_aware_dcg(GOOD, LABELS, gain="linar")
    for rel in (0, -1, 1.5):  # as la.Metric.parse("AP(rel=0)") refuses them
        with pytest.raises(ValueError, match=rf"rel.*{rel}"):
            losses.tie_aware_ap(GOOD, LABELS, rel=rel)


# Pairs: Liu et al. 2016 and Ding et al. 2018, eq. 16 to 31


def hinge(value: Tensor) -> Tensor:
    return value.clamp(min=0)


def outside(distance: Tensor, near: float, far: float) -> Tensor:
    return hinge(near - distance) + hinge(distance - far)


def over_pairs(
    activations: Tensor, penalty: Callable[[int, int, Tensor], Tensor], quantization: float = 0.01
) -> Tensor:
    """The mean over pairs i < j of half the penalty and how far both are from -1 and 1, one pair at a time."""
    terms = []
    for i, j in itertools.combinations(range(len(activations)), 2):
        one, other = activations[i], activations[j]
        from_codes = (one.abs() - 1).abs().sum() + (other.abs() - 1).abs().sum()
        terms.append(penalty(i, j, one - other) / 2 + quantization * from_codes)
    return torch.stack(terms).mean()


def pairs_dsh(activations: Tensor, grades: Tensor, margin: float, quantization: float = 0.01) -> Tensor:
    def penalty(i: int, j: int, difference: Tensor) -> Tensor:
        squared = difference.square().sum()
        return squared if grades[i, j] > 0 else hinge(margin - squared)

    return over_pairs(activations, penalty, quantization)


def pairs_dispersed(
    activations: Tensor, grades: Tensor, margin: float, near: float, far: float, quantization: float = 0.01
) -> Tensor:
    def penalty(i: int, j: int, difference: Tensor) -> Tensor:
        distance = difference.abs().sum()
        return outside(distance, near, far) if grades[i, j] > 0 else hinge(margin - distance)

    return over_pairs(activations, penalty, quantization)


def pairs_hierarchy(
    activations: Tensor,
    grades: Tensor,
    margin: float,
    zones: dict[int, tuple[float, float]],
    quantization: float = 0.01,
) -> Tensor:
    """Grade 2 is the same class, 1 another class of the same superclass, which has a buffer of its own."""

    def penalty(i: int, j: int, difference: Tensor) -> Tensor:
        distance, grade = difference.abs().sum(), int(grades[i, j])
        return outside(distance, *zones[grade]) if grade else hinge(margin - distance)

    return over_pairs(activations, penalty, quantization)


N_PAIRED, PAIRED_BITS = 14, 12
FINE = torch.arange(N_PAIRED) % 6
COARSE = FINE // 2


def paired(scale: float) -> Tensor:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(N_PAIRED, PAIRED_BITS)) * np.linspace(0.5, 1.5, N_PAIRED)[:, None]
    return torch.from_numpy(rows * scale)


SCALES = (0.1, 0.2, 0.3, 0.6, 1.0, 2.0)


def test_every_side_of_every_hinge_is_reached() -> None:
    """Distances of pairs within classes, within superclasses and across them, at the scales of the tests below."""
    grades, b = soft.hierarchy_grades(FINE, COARSE), PAIRED_BITS
    upper = torch.ones(N_PAIRED, N_PAIRED).triu(1).bool()
    found: dict[int, list[Tensor]] = {0: [], 1: [], 2: []}
    squared = []
    for scale in SCALES:
        apart = paired(scale)[:, None] - paired(scale)[None]
        for grade, kept in found.items():
            kept.append(apart.abs().sum(2)[upper & (grades == grade)])
        squared.append(apart.square().sum(2)[upper & (grades < 2)])
    zones = {2: [b / 12, b / 6, b / 3], 1: [b / 6, b / 3], 0: [b, 2 * b]}
    for grade, borders in zones.items():
        counts = np.histogram(torch.cat(found[grade]).numpy(), [0, *borders, np.inf])[0]
        assert (counts >= 2).all(), (grade, counts)
    assert 10 < int((torch.cat(squared) < 2 * b).sum()) < len(torch.cat(squared)) - 10


def grades_of(kind: str) -> tuple[dict[str, Tensor], Tensor]:
    if kind == "labels":
        return {"labels": FINE}, soft.label_grades(FINE)
    if kind == "tags":
        tags = torch.nn.functional.one_hot(FINE) + torch.nn.functional.one_hot(COARSE + 3, 6) * (FINE % 2)[:, None]
        tags = tags.clamp(max=1)
        return {"labels": tags}, soft.tag_grades(tags)
    grades = soft.hierarchy_grades(FINE, COARSE)
    return {"affinity": grades}, grades


every_pair_kind = pytest.mark.parametrize("kind", ["labels", "tags", "affinity"])


def assert_same_loss(found: Callable[[Tensor], Tensor], wanted: Callable[[Tensor], Tensor]) -> None:
    for scale in SCALES:
        first, second = (value_and_gradient(function, paired(scale)) for function in (found, wanted))
        assert_same(first, second, 1e-12 * max(1, second[0]), 1e-12)
        narrow = value_and_gradient(found, paired(scale).float())
        assert_same(narrow, second, 1e-5 * max(1, second[0]), 1e-4)


@every_pair_kind
def test_dsh_is_equation_16(kind: str) -> None:
    (given, grades), b = grades_of(kind), PAIRED_BITS
    assert_same_loss(lambda a: losses.dsh(a, **given), lambda a: pairs_dsh(a, grades, 2 * b))
    assert_same_loss(
        lambda a: losses.dsh(a, margin=5.0, quantization=0.3, **given), lambda a: pairs_dsh(a, grades, 5, 0.3)
    )


@every_pair_kind
def test_dispersed_dsh_is_equation_20(kind: str) -> None:
    (given, grades), b = grades_of(kind), PAIRED_BITS
    cases: list[tuple[dict[str, Any], tuple[float, ...]]] = [
        ({}, (b, b / 6, b / 3)),
        ({"margin": "printed"}, (2 * b, b / 6, b / 3)),
        ({"margin": 7.5}, (7.5, b / 6, b / 3)),
        ({"near": 1.0, "far": 6.0, "quantization": 0.3}, (b, 1, 6, 0.3)),
    ]
    for options, numbers in cases:
        assert_same_loss(
            lambda a, o=options: losses.dispersed_dsh(a, **o, **given),
            lambda a, n=numbers: pairs_dispersed(a, grades, *n),
        )


def test_dispersed_dsh_hierarchy_is_equation_25() -> None:
    """With a buffer for pairs of one superclass but different classes; the print adds it to pairs of one class too."""
    grades, b = soft.hierarchy_grades(FINE, COARSE), PAIRED_BITS
    usual = {2: (b / 12, b / 6), 1: (b / 6, b / 3)}
    cases: list[tuple[dict[str, Any], float, dict[int, tuple[float, float]], float]] = [
        ({}, b, usual, 0.01),
        ({"margin": "printed"}, 2 * b, usual, 0.01),
        ({"margin": 7.5, "quantization": 0.3}, 7.5, usual, 0.3),
        ({"near": 0.5, "far": 3.0, "coarse_near": 3.5, "coarse_far": 5.0}, b, {2: (0.5, 3), 1: (3.5, 5)}, 0.01),
    ]
    for options, margin, zones, quantization in cases:
        assert_same_loss(
            lambda a, o=options: losses.dispersed_dsh_hierarchy(a, FINE, COARSE, **o),
            lambda a, m=margin, z=zones, q=quantization: pairs_hierarchy(a, grades, m, z, q),
        )


def test_pairs_worked_by_hand() -> None:
    """Twelve bits. Two equal codes, then two opposite ones, at squared distance 48 and L1 distance 24."""
    equal, opposite = torch.ones(2, 12), torch.tensor([[1.0], [-1.0]]).expand(2, 12)
    same, other = torch.tensor([0, 0]), torch.tensor([0, 1])
    assert losses.dsh(equal, same) == 0
    assert losses.dsh(equal, other) == 12
    assert losses.dsh(opposite, same) == 24
    assert losses.dsh(opposite, other) == 0
    assert losses.dispersed_dsh(equal, same) == 1
    assert losses.dispersed_dsh(opposite, same) == 10
    assert losses.dispersed_dsh(equal, other) == 6
    assert losses.dispersed_dsh(equal, other, margin="printed") == 12
    assert losses.dispersed_dsh_hierarchy(equal, same, same) == 0.5
    assert losses.dispersed_dsh_hierarchy(equal, other, same) == 1
    assert losses.dispersed_dsh_hierarchy(equal, other, other) == 6
    assert losses.dispersed_dsh_hierarchy(opposite, same, same) == 11
    assert losses.dispersed_dsh_hierarchy(opposite, other, same) == 10
    assert losses.dsh(equal / 2, same, quantization=1.0) == 12  # half from 1, twelve bits, two of them


def test_gradients_of_pairs_are_slopes() -> None:
    for scale in SCALES[::2]:
        for function in (
            lambda a: losses.dsh(a, FINE),
            lambda a: losses.dispersed_dsh(a, FINE),
            lambda a: losses.dispersed_dsh_hierarchy(a, FINE, COARSE),
        ):
            assert torch.autograd.gradcheck(function, (paired(scale).requires_grad_(),), eps=1e-7, atol=1e-6)


def test_gradients_of_equal_pairs_are_finite() -> None:
    for function in (losses.dsh, losses.dispersed_dsh):
        for activations in (torch.zeros(4, 6), torch.ones(4, 6), torch.full((4, 6), 0.3)):
            value, gradient = value_and_gradient(function, activations, labels=LABELS)
            assert math.isfinite(value)
            assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pairs_in_half_precision_are_what_they_are_in_float32(dtype: torch.dtype) -> None:
    activations = paired(1.0).to(dtype)
    for function in (losses.dsh, losses.dispersed_dsh):
        wide = value_and_gradient(function, activations.float(), labels=FINE)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            narrow = value_and_gradient(function, activations, labels=FINE)
        assert narrow[0] == wide[0]
        assert torch.equal(narrow[1], wide[1].to(dtype))


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("margin.*'printed'", lambda: losses.dispersed_dsh(GOOD, LABELS, margin="print")),
        ("margin.*-1", lambda: losses.dsh(GOOD, LABELS, margin=-1.0)),
        ("margin.*nan", lambda: losses.dispersed_dsh(GOOD, LABELS, margin=math.nan)),
        ("near.*far", lambda: losses.dispersed_dsh(GOOD, LABELS, near=2.0, far=1.0)),
        ("quantization.*-1", lambda: losses.dsh(GOOD, LABELS, quantization=-1.0)),
        ("coarse", lambda: losses.dispersed_dsh_hierarchy(GOOD, LABELS, LABELS[:3])),
        ("(?i)nan", lambda: losses.dispersed_dsh_hierarchy(with_one(math.nan), LABELS, LABELS)),
    ],
)
def test_a_bad_option_of_pairs_is_named(words: str, call: Callable[[], Tensor]) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call()


# Modules


@pytest.mark.parametrize(
    ("module", "function", "options"),
    [
        ("TieAwareAP", losses.tie_aware_ap, {}),
        ("TieAwareAP", losses.tie_aware_ap, {"alpha": 2.5, "rel": 1, "relaxation": "paper"}),
        ("TieAwareDCG", losses.tie_aware_dcg, {}),
        ("TieAwareDCG", losses.tie_aware_dcg, {"alpha": 0.5, "gain": "linear", "relaxation": "paper"}),
        ("DSH", losses.dsh, {}),
        ("DSH", losses.dsh, {"margin": 5.0, "quantization": 0.5}),
        ("DispersedDSH", losses.dispersed_dsh, {}),
        ("DispersedDSH", losses.dispersed_dsh, {"margin": "printed", "near": 1.0, "far": 2.5, "quantization": 0.5}),
    ],
)
def test_modules_are_functions(module: str, function: Callable[..., Tensor], options: dict[str, Any]) -> None:
    made = getattr(losses, module)(**options)
    assert isinstance(made, torch.nn.Module)
    activations = between_bins(20, 9)
    for kind in ("labels", "tags", "hierarchy"):
        relevant = batch(kind, 20).given
        found = value_and_gradient(made, activations, **relevant)
        wanted = value_and_gradient(function, activations, **relevant, **options)
        assert found[0] == wanted[0]
        assert torch.equal(found[1], wanted[1])
    assert made(activations, LABELS.repeat(5)) == function(activations, LABELS.repeat(5), **options)
    assert_readable(made, options)


@pytest.mark.parametrize("options", [{}, {"margin": "printed", "near": 0.5, "coarse_far": 9.0, "quantization": 0.5}])
def test_the_module_of_the_hierarchy_is_the_function(options: dict[str, Any]) -> None:
    made = losses.DispersedDSHHierarchy(**options)
    wanted = losses.dispersed_dsh_hierarchy(paired(1.0), FINE, COARSE, **options)
    assert made(paired(1.0), FINE, COARSE) == wanted
    assert_readable(made, options)


def assert_readable(module: torch.nn.Module, options: dict[str, Any]) -> None:
    """Its repr is the call that makes it, and says at least what was asked for."""
    assert repr(module) == f"{type(module).__name__}({module.extra_repr()})"
    for name, value in options.items():
        assert f"{name}={value!r}" in module.extra_repr()
    again = eval(repr(module), vars(losses))
    assert repr(again) == repr(module)


@pytest.mark.parametrize("module", ["TieAwareAP", "TieAwareDCG", "DSH", "DispersedDSH", "DispersedDSHHierarchy"])
def test_modules_know_their_options(module: str) -> None:
    with pytest.raises(TypeError, match="alhpa"):
        getattr(losses, module)(alhpa=3.0)


def test_public_names() -> None:
    assert set(losses.__all__) == {
        *("tie_aware_ap", "tie_aware_dcg", "dsh", "dispersed_dsh", "dispersed_dsh_hierarchy"),
        *("TieAwareAP", "TieAwareDCG", "DSH", "DispersedDSH", "DispersedDSHHierarchy"),
    }
    assert la.learning.losses is losses
