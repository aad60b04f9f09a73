"""Losses are what their papers say: the ranking losses 1 - the tie-aware metric on codes, and smooth between them.

Sizes are ragged on purpose: 1, 7, 8, 9, 63, 64, 65 and 200 bits; 2, 3, 17 and 130 examples, and 700, more than any
block of rows. What a vacuous test would let pass: activations without ties, whose bins hold nothing or one item; bins
that are never nearly empty and never hold nearly one item, where the formulas divide zero by zero; distances on a
border of bins, where dense autograd has another one-sided derivative; symmetric affinities, for which the printed
gradient happens to be right; hinges of which one side is never reached (each side is counted here).
"""

from __future__ import annotations

import itertools
import math
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
from helpers.loss_batches import (
    BITS,
    KINDS,
    RANKING,
    assert_same,
    batch,
    between_bins,
    binary,
    both_paths,
    distances,
    every_kind,
    every_ranking,
    every_relaxation,
    value_and_gradient,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.learning import losses
from reference import formulas, soft

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
