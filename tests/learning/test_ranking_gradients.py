"""Gradients of the ranking losses between codes, for many examples, in narrow numbers and as printed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.loss_batches import (
    BITS,
    KINDS,
    RANKING,
    RELAXATIONS,
    assert_same,
    assert_same_gradient,
    batch,
    between_bins,
    binary,
    both_paths,
    every_kind,
    every_ranking,
    every_relaxation,
    value_and_gradient,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.learning import losses
from reference import soft

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
