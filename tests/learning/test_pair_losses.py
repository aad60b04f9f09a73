"""Losses of pairs are what their papers say: each side of every hinge is reached and counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.loss_batches import (
    COARSE,
    FINE,
    GOOD,
    LABELS,
    N_PAIRED,
    PAIRED_BITS,
    assert_same,
    paired,
    value_and_gradient,
    with_one,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.learning import losses
from reference import soft

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
    printed: bool = False,
) -> Tensor:
    """Grade 2 is the same class, 1 another class of the same superclass, which has a buffer of its own.

    printed: as eq. 25 has it, y = 0 for one class, Y = 0 for one superclass, and so ½A + ½B for a pair of a class.
    """

    def penalty(i: int, j: int, difference: Tensor) -> Tensor:
        distance, grade = difference.abs().sum(), int(grades[i, j])
        if printed:
            y, Y = float(grade < 2), float(grade < 1)  # noqa: N806  # as printed
            A, B, C = outside(distance, *zones[2]), outside(distance, *zones[1]), hinge(margin - distance)  # noqa: N806
            return (1 - y) * A + (1 - Y) * B + Y * C
        return outside(distance, *zones[grade]) if grade else hinge(margin - distance)

    return over_pairs(activations, penalty, quantization)


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


def test_printed_buffers_are_equation_25_as_printed() -> None:
    """A pair of a class pays its class's buffer and its superclass's."""
    grades, b = soft.hierarchy_grades(FINE, COARSE), PAIRED_BITS
    zones = {2: (b / 12, b / 6), 1: (b / 6, b / 3)}
    for margin, m in ((None, b), ("printed", 2 * b)):
        assert_same_loss(
            lambda a, m=margin: losses.dispersed_dsh_hierarchy(a, FINE, COARSE, margin=m, buffers="printed"),
            lambda a, m=m: pairs_hierarchy(a, grades, m, zones, printed=True),
        )
    wanted = losses.dispersed_dsh_hierarchy(paired(0.1), FINE, COARSE)
    assert losses.dispersed_dsh_hierarchy(paired(0.1), FINE, COARSE, buffers="one") == wanted
    assert losses.dispersed_dsh_hierarchy(paired(0.1), FINE, COARSE, buffers="printed") > wanted


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
    assert losses.dispersed_dsh_hierarchy(equal, same, same, buffers="printed") == 0.5 + 1  # ½ · 1 + ½ · 2
    assert losses.dispersed_dsh_hierarchy(opposite, same, same, buffers="printed") == 11 + 10
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
        ("buffers.*'printed'", lambda: losses.dispersed_dsh_hierarchy(GOOD, LABELS, LABELS, buffers="print")),
        ("(?i)nan", lambda: losses.dispersed_dsh_hierarchy(with_one(math.nan), LABELS, LABELS)),
    ],
)
def test_a_bad_option_of_pairs_is_named(words: str, call: Callable[[], Tensor]) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call()
