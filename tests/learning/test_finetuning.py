"""Fine-tuning an encoder: what it learns, how it goes on after an interruption, and what it refuses.

A vacuous test would let pass: a run that learns nothing, a checkpoint that is written but not read, weights that depend
on the interruption, held-out images that are learned from, heads whose losses are not added.
"""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.optimizer import register_optimizer_step_pre_hook

import lookalike as la
from helpers.onnx_models import mean_model, written
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from helpers.tiny_encoder import Tiny, lesson
from lookalike.core import progress
from lookalike.core.errors import FileError, InputError
from lookalike.learning import FinetuneSettings, FineTuning, finetune, finetuning
from lookalike.learning.finetuning_data import scale_of
from lookalike.learning.held_out_retrieval import hold_out
from lookalike.learning.labelled_heads import LabelledHeads
from lookalike.learning.losses import tie_aware_ap

IMAGES, IDENTITIES, CATEGORIES = lesson()
KNOWN = {"identities": IDENTITIES, "categories": CATEGORIES}
QUICK = FinetuneSettings(labels="identity", epochs=3, batch_size=16, learning_rate=3e-3, validation=0.15)
COURSES = {
    "identity": QUICK,
    "category": replace(QUICK, labels="category"),
    "both": replace(QUICK, labels="both"),
    "none": replace(QUICK, labels="none", objective="dino", outputs=32, local_crops=2),
    "ranking": replace(QUICK, labels="both", objective="tie-aware-ap"),
}


def tuned(settings: FinetuneSettings = QUICK, **options: Any) -> FineTuning:
    return finetune(Tiny(), IMAGES, **{**KNOWN, "settings": settings, **options})


def weights(tuning: FineTuning) -> dict[str, np.ndarray]:
    return {name: values.numpy().copy() for name, values in tuning.network.state_dict().items()}


def assert_same(one: FineTuning, other: FineTuning) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])
    timeless = [[{k: v for k, v in each.items() if k != "seconds"} for each in t.history] for t in (one, other)]
    assert str(timeless[0]) == str(timeless[1])  # nan is not nan
    assert one.best_epoch == other.best_epoch


# What it learns


@pytest.mark.parametrize("labels", ["identity", "category", "both"])
@pytest.mark.parametrize("objective", ["cross-entropy", "tie-aware-ap"])
def test_labels_are_learned(labels: str, objective: str) -> None:
    """Held-out images find more of what was learned than before, by far."""
    tuning = tuned(replace(QUICK, labels=labels, objective=objective, epochs=20, augment="none"))
    before, best = tuning.history[0], tuning.history[tuning.best_epoch]
    assert tuning.history[-1]["loss"] < 0.8 * tuning.history[1]["loss"]
    for kind in ("identity", "category") if labels == "both" else (labels,):
        assert best[f"{kind} AP"] > before[f"{kind} AP"] + 0.1


def test_the_printed_schedule_is_the_default() -> None:
    """Barkan et al. 2023, appendix B: 50 epochs, batches of 64, Adam without momentum, weight decay 5e-5."""
    settings = FinetuneSettings()
    assert (settings.epochs, settings.batch_size, settings.weight_decay) == (50, 64, 5e-5)
    groups: list[dict[str, Any]] = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: groups.append(optimizer.param_groups[0]))
    try:
        tuned(replace(QUICK, epochs=1))
    finally:
        hook.remove()
    assert groups[0]["betas"] == (0.0, 0.999)
    assert groups[0]["weight_decay"] == 5e-5
    names = dict(Tiny().network().named_parameters())
    assert len(groups[0]["params"]) == len(names) + 2  # the backbone learns too, beside a linear head


def test_losses_of_two_heads_are_added() -> None:
    torch.manual_seed(0)
    heads, network, scale = LabelledHeads(16, {"identity": 5, "category": 3}, None, False), Tiny().network(), None
    pictures = torch.rand(6, 3, 16, 16)
    targets = torch.tensor([[0, 0], [1, 1], [2, 2], [3, 0], [4, -1], [0, 0]])  # one has no category

    class Same:
        size = 16

        def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
            return pictures

    scale = Same()
    rows, known = network(pictures), targets[:, 1] >= 0
    identity = cross_entropy(heads.heads["identity"](rows), targets[:, 0])
    category = cross_entropy(heads.heads["category"](rows[known]), targets[known, 1])
    torch.testing.assert_close(heads.loss(network, pictures, targets, scale), identity + category)
    ranking = LabelledHeads(16, {"identity": 5, "category": 3}, None, True).train()
    wanted = [tie_aware_ap(ranking.heads["identity"](rows), targets[:, 0], alpha=1.0)]
    wanted += [tie_aware_ap(ranking.heads["category"](rows[known]), targets[known, 1], alpha=1.0)]
    torch.testing.assert_close(ranking.loss(network, pictures, targets, scale), sum(wanted))


def test_views_are_scaled_as_the_encoder_scales() -> None:
    encoder = Tiny()
    scale = scale_of(encoder, encoder.network())
    whole = torch.from_numpy(IMAGES[:4]).permute(0, 3, 1, 2).float() / 255
    torch.testing.assert_close(scale(whole), encoder.preprocess(IMAGES[:4]), atol=1e-5, rtol=0)
    assert (scale.size, scale.small) == (16, 8)

    class OneSize(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.reshape(len(images), 3, 16, 16).mean((2, 3))

    assert scale_of(encoder, OneSize()).small == 16


def test_another_seed_gives_other_weights_and_the_caller_s_draws_are_not_touched() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    one = tuned()
    torch.testing.assert_close(torch.rand(2), expected)
    assert_same(one, tuned())
    other = weights(tuned(replace(QUICK, seed=1)))
    assert any((values != other[name]).any() for name, values in weights(one).items())


# What is held out


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.floats(0, 0.9), st.integers(0, 9))
def test_a_held_out_image_leaves_another_of_its_identity(labels: list[int], part: float, seed: int) -> None:
    known = {"identity": np.array(labels)}
    learned, held = hold_out(known, len(labels), part, seed)
    assert not np.intersect1d(learned, held.queries).size
    assert len(held.queries) <= round(part * len(labels))
    assert set(Counter(known["identity"][held.queries].tolist()).values()) <= {1}
    assert np.isin(known["identity"][held.queries], known["identity"][learned]).all()


def test_figures_are_those_of_evaluate() -> None:
    numbers = {"identity": np.repeat(np.arange(12), 5), "category": CATEGORIES}
    learned, held = hold_out(numbers, 60, 0.15, 0)
    assert len(held.queries) == 9
    rows = Tiny().encode(IMAGES)
    figures = held.figures(lambda positions: rows[positions])
    for kind, labels in numbers.items():
        own = (numbers["identity"][held.queries], numbers["identity"][learned])
        relevance = la.same_label(labels[held.queries], labels[learned])
        options = {} if kind == "identity" else {"exclude": own}
        expected = la.evaluate(rows[held.queries], rows[learned], relevance, ["AP", "Hit@1"], **options)
        assert figures[f"{kind} AP"] == pytest.approx(expected["AP"].mean)
        assert figures[f"{kind} Hit@1"] == pytest.approx(expected["Hit@1"].mean)


def test_held_out_images_are_not_learned_from() -> None:
    """Other pixels in their place change their figures, and no weight."""
    numbers = {"identity": np.unique(IDENTITIES, return_inverse=True)[1]}
    _, held = hold_out(numbers, len(IMAGES), QUICK.validation, QUICK.seed)
    changed = IMAGES.copy()
    changed[held.queries] = 255 - changed[held.queries]
    settings = replace(QUICK, labels="none", objective="dino", outputs=32, local_crops=1)  # the last epoch is kept
    one, other = tuned(settings), finetune(Tiny(), changed, **KNOWN, settings=settings)
    assert one.history[0] != other.history[0]
    for name, values in weights(one).items():
        np.testing.assert_array_equal(values, weights(other)[name])


def test_it_stops_early_and_keeps_the_best_epoch() -> None:
    settings = replace(QUICK, epochs=40, learning_rate=0.05, patience=2)
    tuning = tuned(settings)
    scores = [figures["identity AP"] for figures in tuning.history[1:]]
    assert len(scores) < 40
    assert tuning.best_epoch == 1 + int(np.argmax(scores)) == len(scores) - 2
    network = tuning.network
    numbers = {"identity": np.unique(IDENTITIES, return_inverse=True)[1], "category": CATEGORIES}
    _, held = hold_out(numbers, len(IMAGES), QUICK.validation, QUICK.seed)
    with torch.inference_mode():
        rows = network(Tiny().preprocess(IMAGES)).numpy()
    assert held.figures(lambda positions: rows[positions])["identity AP"] == pytest.approx(max(scores))


# Interruptions


@pytest.mark.parametrize("course", COURSES)
def test_an_interrupted_run_ends_with_the_same_weights(
    course: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the middle of the second epoch, and again, with a checkpoint after every step."""
    monkeypatch.setattr(finetuning, "SECONDS", -1.0)
    whole, path = tuned(COURSES[course]), tmp_path / "run.pt"
    n_steps = 0

    def interrupt(*_: Any) -> None:
        nonlocal n_steps
        n_steps += 1
        if n_steps in (6, 7, 9):
            raise KeyboardInterrupt

    hook = register_optimizer_step_pre_hook(interrupt)
    try:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                tuned(COURSES[course], checkpoint=path)
        assert_same(tuned(COURSES[course], checkpoint=path), whole)
    finally:
        hook.remove()
    assert n_steps == 12 + 3  # three epochs of four steps, and those that were interrupted: none was done twice
    assert_same(tuned(COURSES[course], checkpoint=path), whole)  # nothing is left to do
    assert n_steps == 15


KILLED = """
import sys, time, torch
torch.set_num_threads(1)
from helpers.tiny_encoder import Tiny, lesson
from lookalike.encoders import ENCODERS
from lookalike.learning import finetune, FinetuneSettings
ENCODERS["tiny"] = Tiny
images, identities, categories = lesson()
settings = FinetuneSettings(labels="both", epochs=4, batch_size=16, learning_rate=3e-3, validation=0.15)
def watch(figures):
    print(figures["epoch"], flush=True)
    time.sleep(0 if sys.argv[2] == "whole" else 30)
tuning = finetune(Tiny(), images, identities=identities, categories=categories, settings=settings,
    checkpoint=sys.argv[1], watch=watch)
print(tuning.save(sys.argv[3]).about["seal"])
"""


def test_a_killed_process_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(la.encoders.ENCODERS, "tiny", Tiny)

    def command(name: str, how: str) -> list[str]:
        places = [str(tmp_path / f"{name}.pt"), how, str(tmp_path / f"{name}.lookalike")]
        return [sys.executable, "-c", KILLED, *places]

    here = Path(__file__).parents[1]
    with subprocess.Popen(command("a", "slow"), stdout=subprocess.PIPE, text=True, cwd=here) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / "a.pt").is_file()
    assert not (tmp_path / "a.lookalike").exists()
    ends = [
        subprocess.run(command(name, "whole"), capture_output=True, text=True, check=True, cwd=here).stdout.split()
        for name in ("a", "b")
    ]
    assert ends[0][:-1] == ["2", "3", "4"]
    assert ends[1][:-1] == ["1", "2", "3", "4"]
    first, second = (la.encoders.load(str(tmp_path / f"{name}.lookalike")) for name in "ab")
    states = [encoder.network().state_dict() for encoder in (first, second)]  # type: ignore[attr-defined]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    tuned(replace(QUICK, epochs=1), checkpoint=path)
    with pytest.raises(FileError, match=r"of another run: learning_rate was 0\.003, is 0\.01"):
        tuned(replace(QUICK, epochs=1, learning_rate=0.01), checkpoint=path)
    with pytest.raises(FileError, match=r"of another run: data was"):
        finetune(Tiny(), IMAGES[::-1], **KNOWN, settings=replace(QUICK, epochs=1), checkpoint=path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileError, match="damaged"):
        tuned(replace(QUICK, epochs=1), checkpoint=path)


def test_progress_tells_loss_figures_and_time_left() -> None:
    said: list[str] = []
    with progress.reporting(lambda what, done, total: said.append(f"{what} {done}/{total}")):
        tuned()
    steps = [text for text in said if text.startswith("fine-tuning")]
    assert len(steps) == 12
    assert steps[-1].endswith("0 min left 12/12")
    assert all(word in steps[0] for word in ("loss", "identity Hit@1", "category Hit@1", "min left"))


# Bad input


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({}, {"identities": None}, (r"no identities to learn from, which labels='identity' needs: give them, or "
            r"labels='category', or labels='none'")),
        ({"labels": "both"}, {"categories": None}, "no categories to learn from"),
        ({"labels": "category"}, {"categories": [""] * 60}, "no categories to learn from"),
        ({"labels": "category"}, {"categories": ["a"] * 60}, "all images have the same category"),
        ({"batch_size": 64}, {}, r"batch_size=64 is above the 51 images to learn from \(9 are held out\)"),
        ({}, {"identities": IDENTITIES[1:]}, "60 images but 59 identities"),
        ({"objective": "tie-aware-ap"}, {"identities": np.arange(60)}, "needs two images of some identity"),
        ({"learning_rate": 1e30}, {}, r"epoch \d, step \d: the loss is nan|not finite"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_learned_from_is_refused(
    settings: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        tuned(replace(QUICK, **settings), **options)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"labels": "identities"}, "did you mean 'identity'"),
        ({"objective": "dino"}, "objective='dino' learns from images alone, not with labels='identity'"),
        ({"labels": "none", "objective": "cross-entropy"}, "learns from labels, not with labels='none'"),
        ({"epochs": 0}, "epochs must be a whole number from 1"),
        ({"validation": 1.0}, "validation must be a number from 0 to below 1"),
        ({"weight_decay": -1}, "weight_decay must be a number from 0, got -1"),
        ({"labels": "none", "patience": 3}, "patience needs labels"),
        ({"augment": "heavy"}, "augment must be one of"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FinetuneSettings(**settings)


@pytest.mark.parametrize("name", ["phash", "pixels", "colour"])
def test_an_encoder_without_a_network_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} cannot be fine-tuned: it is not a network of PyTorch"):
        finetune(name, IMAGES, **KNOWN, settings=QUICK)


def test_a_network_in_onnx_is_refused(tmp_path: Path) -> None:
    name = written(tmp_path / "mean.onnx", mean_model(), size=8, mean=0, std=1)
    with pytest.raises(InputError, match="cannot be fine-tuned"):
        finetune(name, IMAGES, **KNOWN, settings=QUICK)


def test_one_image_for_each_identity_is_said() -> None:
    few, numbers = slice(0, 60, 5), np.arange(12)
    settings = replace(QUICK, batch_size=4, epochs=1)
    tuning = finetune(Tiny(), IMAGES[few], identities=numbers, settings=settings)
    assert tuning.notes == (
        (
            "each identity has one image: changed views of it are all there is to learn from, and no identity can be "
            "searched for"
        ),
    )
    assert tuning.history[-1].keys() == {"epoch", "loss", "seconds"}
    assert math.isnan(tuning.history[0]["loss"])
    some = np.concatenate([[0, 0], np.arange(1, 11)])
    assert finetune(Tiny(), IMAGES[few], identities=some, settings=settings).notes == (
        "10 of 11 identities have one image: of these, changed views are learned from",
    )
