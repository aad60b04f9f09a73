"""What losses refuse, and the losses as modules."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import lookalike as la
from helpers.loss_batches import (
    COARSE,
    FINE,
    GOOD,
    LABELS,
    RANKING,
    batch,
    between_bins,
    every_ranking,
    paired,
    value_and_gradient,
    with_one,
)
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.learning import losses

# Bad input


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
        *("mihash", "dpsh", "dtsh", "hashnet", "greedy_hash", "csq", "dpn", "orthohash"),
        *("MIHash", "DPSH", "DTSH", "HashNet", "GreedyHash", "CSQ", "DPN", "OrthoHash"),
    }
    assert la.learning.losses is losses
