"""DCG with the discount 1/rank (He et al. 2018, footnote 1), relaxed: on codes the metric, between them smooth."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

import lookalike as la
from helpers.loss_batches import (
    GOOD,
    LABELS,
    assert_same,
    batch,
    between_bins,
    binary,
    both_paths,
    every_kind,
    every_relaxation,
    value_and_gradient,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.learning import losses
from reference import soft

every_gain = pytest.mark.parametrize("gain", ["linear", "exponential"])
RECIPROCAL: dict[str, Any] = {"discount": "reciprocal"}


@both_paths
@every_gain
@every_kind
def test_on_codes_it_is_the_tie_aware_metric(kind: str, gain: str, compiled: bool) -> None:
    for n, n_bits in itertools.product([2, 3, 17, 130], [1, 7, 8, 9, 63, 64, 65, 200]):
        given, codes = batch(kind, n, n * n_bits), binary(n, n_bits, n * n_bits)
        packed = la.Codes.pack((codes > 0).numpy())
        name = f"nDCG(gain='{gain}', discount='reciprocal')"
        wanted = la.evaluate(packed, packed, given.relevance, [name], exclude="self", undefined="skip", threads=1)
        found = losses.tie_aware_dcg(codes, alpha=None, gain=gain, compiled=compiled, **RECIPROCAL, **given.given)
        assert abs(1 - float(found) - wanted[name].mean) < 1e-12


def test_worked_by_hand() -> None:
    """Ten others on one code, five relevant, of grade 3: the mean of 1/rank, over that of the first five."""
    affinity = torch.zeros(11, 11, dtype=torch.int64)
    affinity[0, 1:6] = 3
    harmonic = {n: sum(1 / rank for rank in range(1, n + 1)) for n in (5, 10)}
    found = losses.tie_aware_dcg(torch.ones(11, 4).double(), affinity=affinity, gain="linear", **RECIPROCAL)
    assert abs(float(found) - (1 - 5 * harmonic[10] / 10 / harmonic[5])) < 1e-14


@both_paths
@every_relaxation
@every_gain
@every_kind
def test_value_and_gradient_are_those_of_the_dense_histogram(
    kind: str, gain: str, relaxation: str, compiled: bool
) -> None:
    for seed, (n, n_bits) in enumerate([(3, 7), (17, 8), (40, 9), (64, 12), (64, 64)]):
        given, activations = batch(kind, n, seed), between_bins(n, n_bits, seed)
        options: dict[str, Any] = {"alpha": 1.0, "gain": gain, "relaxation": relaxation}
        wanted = value_and_gradient(soft.tie_aware_dcg_by_inverse_ranks, activations, grades=given.grades, **options)
        found = value_and_gradient(
            losses.tie_aware_dcg, activations, compiled=compiled, **RECIPROCAL, **options, **given.given
        )
        assert_same(found, wanted, 1e-12, 1e-10)


@every_relaxation
@every_gain
@pytest.mark.parametrize("levels", [2, 4])
def test_the_gradient_is_the_slope(gain: str, relaxation: str, levels: int) -> None:
    affinity = torch.randint(0, levels, (5, 5), generator=torch.Generator().manual_seed(levels))
    options: dict[str, Any] = {"affinity": affinity, "alpha": 1.0, "gain": gain, "relaxation": relaxation}
    activations = between_bins(5, 3, levels).requires_grad_()
    function = lambda a: losses.tie_aware_dcg(a, **options, **RECIPROCAL)  # noqa: E731
    assert torch.autograd.gradcheck(function, (activations,), eps=1e-6, atol=1e-7)


@every_kind
def test_random_batches_stay_between_0_and_1(kind: str) -> None:
    """No soft ranking gains more than the ideal one, as digamma is concave."""
    seen = []
    for seed in range(120):
        generator = torch.Generator().manual_seed(seed)
        n, n_bits = (2, 3, 4, 6, 12, 25)[seed % 6], (1, 2, 3, 8, 65)[seed % 5]
        rows = torch.randn(n, n_bits, generator=generator, dtype=torch.float64) * 10 ** (seed % 4 - 2)
        given = batch(kind, n, seed).given
        gains = ("linear", "exponential")
        seen += [float(losses.tie_aware_dcg(rows, alpha=1.0, gain=gain, **RECIPROCAL, **given)) for gain in gains]
    assert min(seen) >= -1e-12
    assert max(seen) <= 1 + 1e-12
    assert min(seen) < 0.05
    assert max(seen) > 0.4


def test_nearly_empty_bins_have_a_gradient() -> None:
    for share in (1e-3, 1e-6, 1e-9, 1e-12):
        relaxed = binary(30, 6, 2)
        relaxed[:, -1] *= 1 - share
        given = batch("tags", 30, 2)
        wanted = value_and_gradient(soft.tie_aware_dcg_by_inverse_ranks, relaxed, grades=given.grades, alpha=None)
        found = value_and_gradient(losses.tie_aware_dcg, relaxed, alpha=None, **RECIPROCAL, **given.given)
        assert_same(found, wanted, 1e-12, 1e-10)
        assert math.isfinite(found[0])


def test_a_bad_discount_is_named() -> None:
    with pytest.raises(ValueError, match=r"discount.*'reciprocal'.*'reciprocl'"):
        losses.tie_aware_dcg(GOOD, LABELS, discount="reciprocl")
