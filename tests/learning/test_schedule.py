"""How the learning rate falls: the schedule of Ding et al. 2018, and runs that were stopped in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.learning import Settings, networks, train

RNG = np.random.default_rng(0)
LABELS = np.arange(80) % 4
ITEMS = (RNG.normal(size=(4, 6))[LABELS] + RNG.normal(size=(80, 6)) / 2).astype(np.float32)
STEPPED = Settings(epochs=6, batch_size=40, schedule="step", drop=0.25, every=2, learning_rate=0.01)


def network(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return networks.linear(6, 8)


def test_the_schedule_of_ding_et_al() -> None:
    """0.01, less 40 % after every 150 of 750 epochs; and that is what "step" alone does to a run of any length."""
    printed = Settings(epochs=750, batch_size=200, learning_rate=0.01, schedule="step", drop=0.4, every=150)
    rates = [printed.learning_rate_of(epoch) for epoch in range(750)]
    assert rates == pytest.approx(np.repeat(0.01 * 0.6 ** np.arange(5), 150), rel=1e-12)
    for schedule in ("step", "steps"):
        usual = replace(printed, schedule=schedule, drop=None, every=None)
        assert [usual.learning_rate_of(epoch) for epoch in range(750)] == rates


def test_every_epoch_is_trained_with_its_rate() -> None:
    rates: list[float] = []
    seen = register_optimizer_step_pre_hook(lambda made, *_: rates.append(made.param_groups[0]["lr"]))
    try:
        train(network(), ITEMS, LABELS, STEPPED)
    finally:
        seen.remove()
    assert rates == pytest.approx(np.repeat([0.01, 0.0075, 0.005625], 4))


class Stop(Exception):  # noqa: N818  # not an error of anyone
    pass


@pytest.mark.parametrize("stopped_after", [1, 2, 3, 5])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path: Path, stopped_after: int) -> None:
    def stop(figures: dict[str, float]) -> None:
        if figures["epoch"] == stopped_after:
            raise Stop

    whole, resumed, path = network(), network(5), tmp_path / "run.pt"
    train(whole, ITEMS, LABELS, STEPPED)
    with pytest.raises(Stop):
        train(network(), ITEMS, LABELS, STEPPED, checkpoint=path, watch=stop)
    with pytest.raises(ValueError, match=r"drop was 0\.25, is 0\.3"):
        train(network(), ITEMS, LABELS, replace(STEPPED, drop=0.3), checkpoint=path)
    train(resumed, ITEMS, LABELS, STEPPED, checkpoint=path)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    constant = network()
    train(constant, ITEMS, LABELS, replace(STEPPED, schedule="constant", drop=None, every=None))
    assert not torch.equal(next(constant.parameters()), next(whole.parameters()))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"drop": 0}, "drop must be above 0 and finite, got 0"),
        ({"drop": 1.0}, "drop must be below 1, the part of the learning rate that is lost, got 1.0"),
        ({"drop": float("nan")}, "drop must be above 0 and finite"),
        ({"drop": "0.4"}, "drop must be a number, got '0.4'"),
        ({"every": 0}, "every must be a whole number from 1, got 0"),
        ({"every": 2.5}, "every must be a whole number from 1, got 2.5"),
        ({"every": 6}, "every must be below the 6 epochs, or nothing ever drops, got 6"),
        ({"schedule": "cosine"}, "drop is for schedule='step', not for cosine"),
        ({"schedule": "constant", "drop": None}, "every is for schedule='step', not for constant"),
    ],
)
def test_a_bad_schedule_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        replace(STEPPED, **changed)
