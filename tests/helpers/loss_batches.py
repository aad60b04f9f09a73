"""Batches of examples for losses: who is relevant to whom, activations on codes and between them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import lookalike as la
from helpers.strategies import clustered_bits
from lookalike.learning import losses
from reference import soft

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


GOOD = between_bins(4, 3)
LABELS = torch.tensor([0, 0, 1, 1])


def with_one(value: float) -> Tensor:
    activations = GOOD.clone()
    activations[2, 1] = value
    return activations


N_PAIRED, PAIRED_BITS = 14, 12
FINE = torch.arange(N_PAIRED) % 6
COARSE = FINE // 2


def paired(scale: float) -> Tensor:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(N_PAIRED, PAIRED_BITS)) * np.linspace(0.5, 1.5, N_PAIRED)[:, None]
    return torch.from_numpy(rows * scale)
