"""Training, checkpoints and the learned hasher.

A vacuous test would let pass: a checkpoint that is written but not read, weights that depend on the interruption, a
hasher whose file holds another network, batches in which every item stands alone.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

import lookalike as la
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.core import progress
from lookalike.learning import LOSSES, LearnedHasher, Settings, losses, networks, objectives, train
from lookalike.learning.augment import flip_and_shift
from lookalike.learning.training import activations, batches, held_out

DIGITS = la.datasets.load("digits")
SPLIT = DIGITS.split(1)
X, Y = DIGITS.pixels(SPLIT.training), DIGITS.labels[SPLIT.training]
FEW, FEW_Y = X[:300], Y[:300]
QUICK = Settings(epochs=3, batch_size=64, validation=0.2)


def network(seed: int = 0, n_bits: int = 16) -> nn.Module:
    torch.manual_seed(seed)
    return networks.two_layers(64, n_bits, hidden=32)


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in module.state_dict().items()}


def assert_same(one: nn.Module, other: nn.Module) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])


def map_of(hasher: Any) -> float:
    rows = [DIGITS.pixels(part) for part in (SPLIT.queries, SPLIT.gallery)]
    relevance = la.same_label(DIGITS.labels[SPLIT.queries], DIGITS.labels[SPLIT.gallery])
    return la.evaluate(*map(hasher.transform, rows), relevance, ["AP"])["AP"].mean


# Batches


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.integers(2, 20), st.integers(2, 8), st.integers(0, 9))
def test_batches_hold_every_item_once(labels: list[int], size: int, together: int, seed: int) -> None:
    drawn = batches(np.array(labels), size, together, seed)
    seen = np.concatenate(drawn)
    assert len(np.unique(seen)) == len(seen)
    assert len(labels) - len(seen) <= 1  # a last batch of one has nothing to rank
    assert all(2 <= len(rows) <= size for rows in drawn)


def test_batches_hold_several_of_a_class() -> None:
    """With 100 classes of 20 and batches of 40, batches at random would hold 0.4 of a class; groups hold 8."""
    labels = np.repeat(np.arange(100), 20)
    for rows in batches(labels, 40, 8, seed=1):
        alone = [n for n in Counter(labels[rows]).values() if n == 1]
        assert not alone


def test_batches_are_drawn_anew_for_each_seed_and_alike_for_the_same() -> None:
    first, again, other = (batches(Y, 64, 8, seed) for seed in (3, 3, 4))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not all(a.shape == b.shape and (a == b).all() for a, b in zip(first, other, strict=True))


def test_a_part_of_each_class_is_held_out() -> None:
    training, holding = held_out(Y, 0.2, 0)
    assert not set(training) & set(holding)
    assert len(training) + len(holding) == len(Y)
    for label in np.unique(Y):
        assert (Y[holding] == label).sum() == (label == Y).sum() // 5
    assert len(held_out(Y, 0.0, 0)[1]) == 0


# Learning


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "dispersed-dsh-hierarchy"])
def test_every_loss_learns(loss: str) -> None:
    learned = LearnedHasher(16, loss=loss, epochs=12, hidden=128, random_state=0).fit(X, Y)
    untrained = LearnedHasher(16, loss=loss, epochs=1, hidden=128, learning_rate=1e-12, random_state=0).fit(X, Y)
    assert map_of(learned) > map_of(untrained) + 0.15
    assert learned.losses_[-1] < learned.losses_[0]


def test_a_hierarchy_is_learned_from_two_columns() -> None:
    both = np.stack([Y, Y < 5], axis=1)
    hasher = LearnedHasher(24, loss="dispersed-dsh-hierarchy", epochs=12, hidden=128).fit(X, both)
    codes = hasher.transform(X).unpack().astype(int)
    rows = np.arange(0, len(X), 4)
    apart = (codes[rows, None] != codes[None, rows]).sum(2)
    same = Y[rows, None] == Y[rows]
    kin = ((Y[rows, None] < 5) == (Y[rows] < 5)) & ~same
    assert apart[same].mean() < apart[kin].mean() < apart[~same & ~kin].mean()


def test_tags_are_learned() -> None:
    tags = np.zeros((len(Y), 10), np.uint8)
    tags[np.arange(len(Y)), Y] = 1
    tags[:, 0] |= Y < 3
    hasher = LearnedHasher(16, loss="tie-aware-dcg", epochs=8, hidden=128, validation=0.2).fit(X, tags)
    assert hasher.scores_[-1] > hasher.scores_[0]


def test_the_best_epoch_is_kept() -> None:
    """After the third all weights are set to 0, of which nothing is learned: it cannot be the last."""
    made = network()
    kept: list[dict[str, np.ndarray]] = []

    def watch(figures: dict[str, float]) -> None:
        kept.append(weights(made))
        if figures["epoch"] == 3:
            for weight in made.parameters():
                weight.data.zero_()

    how = train(made, FEW, FEW_Y, replace(QUICK, epochs=5), watch=watch)
    scores = [epoch["mAP"] for epoch in how.history]
    assert how.best_epoch == int(np.argmax(scores)) + 1 <= 3
    for name, value in weights(made).items():
        np.testing.assert_array_equal(value, kept[how.best_epoch - 1][name])
    assert not made.training


def test_training_stops_when_it_does_not_get_better() -> None:
    settings = replace(QUICK, epochs=50, learning_rate=1e-12, patience=3)
    how = train(network(), FEW, FEW_Y, settings)
    assert len(how.history) == how.best_epoch + 3


def test_alpha_and_the_learning_rate_go_as_they_are_told() -> None:
    settings = Settings(epochs=5, alpha=1, alpha_end=16, learning_rate=1.0)
    assert [settings.alpha_of(epoch) for epoch in range(5)] == pytest.approx([1, 2, 4, 8, 16])
    assert settings.learning_rate_of(0) == 1
    assert settings.learning_rate_of(4) == pytest.approx((1 + np.cos(0.8 * np.pi)) / 2)
    steps = replace(settings, schedule="steps", epochs=10)
    assert [steps.learning_rate_of(epoch) for epoch in (0, 1, 2, 9)] == pytest.approx([1, 1, 0.6, 0.6**4])


def test_every_step_is_made_with_the_alpha_and_the_learning_rate_of_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    alphas: list[float] = []
    rates: list[float] = []

    def loss(activations: torch.Tensor, labels: torch.Tensor, *, alpha: float) -> torch.Tensor:
        alphas.append(alpha)
        return losses.tie_aware_ap(activations, labels, alpha=alpha)

    monkeypatch.setitem(objectives.KINDS, "tie-aware-ap", objectives.LossKind(loss, alpha=True))
    seen = register_optimizer_step_pre_hook(lambda made, *_: rates.append(made.param_groups[0]["lr"]))
    try:
        settings = Settings(epochs=3, batch_size=100, alpha=1, alpha_end=16, learning_rate=0.004)
        how = train(network(), FEW, FEW_Y, settings)
    finally:
        seen.remove()
    assert alphas == pytest.approx(np.repeat([1, 4, 16], 3))
    assert rates == pytest.approx(np.repeat([0.004, 0.003, 0.001], 3))  # of a cosine from 1 to -1: 1, 0.5, -0.5
    assert [epoch["alpha"] for epoch in how.history] == pytest.approx([1, 4, 16])


def test_every_epoch_draws_its_own_batches() -> None:
    def items_of_two_epochs(seed: int) -> list[list[list[float]]]:
        seen: list[torch.Tensor] = []
        settings = Settings(epochs=2, batch_size=100, seed=seed)
        train(network(), FEW, FEW_Y, settings, augment=lambda items: seen.append(items) or items)
        return [torch.cat(epoch).tolist() for epoch in (seen[:3], seen[3:])]

    first, second = items_of_two_epochs(0)
    assert first != second
    assert sorted(first) == sorted(second)
    assert items_of_two_epochs(0) == [first, second]
    assert items_of_two_epochs(1)[0] not in (first, second)  # nor is the next epoch that of the next seed


def test_any_module_can_be_trained_and_hash() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 8)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.layer(rows - rows.mean(1, keepdim=True))

    made = Own()
    before = weights(made)
    train(made, FEW, FEW_Y, QUICK)
    assert (before["layer.weight"] != weights(made)["layer.weight"]).any()
    given = nn.Linear(64, 8)
    start = weights(given)["weight"]
    LearnedHasher(8, network=given, epochs=1).fit(FEW, FEW_Y)
    np.testing.assert_array_equal(weights(given)["weight"], start)  # it is a copy that learns
    hasher = LearnedHasher(8, network=lambda n_features, n_bits: nn.Linear(n_features, n_bits), epochs=1)
    assert hasher.fit(FEW, FEW_Y).transform(FEW).n_bits == 8
    with pytest.raises(ValueError, match="state_dict"):
        hasher.save("own.npz")


def test_the_callers_random_numbers_are_not_touched() -> None:
    made = network()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(made, FEW, FEW_Y, QUICK)
    assert (torch.rand(3) == expected).all()


# Interruptions


class Stop(Exception):  # noqa: N818  # not an error of anyone
    pass


@pytest.mark.parametrize("stopped_after", [1, 2, 3])
@pytest.mark.parametrize("loss", ["tie-aware-ap", "cross-entropy"])  # the second has weights of its own
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path: Path, stopped_after: int, loss: str) -> None:
    settings = replace(QUICK, epochs=4, loss=loss, alpha_end=3.0)
    whole, parted = network(), network()
    expected = train(whole, FEW, FEW_Y, settings)

    def stop(figures: dict[str, float]) -> None:
        if figures["epoch"] == stopped_after:
            raise Stop

    path = tmp_path / "run.pt"
    with pytest.raises(Stop):
        train(parted, FEW, FEW_Y, settings, checkpoint=path, watch=stop)
    fresh = network(seed=99)
    found = train(fresh, FEW, FEW_Y, settings, checkpoint=path)
    assert_same(whole, fresh)
    for one, other in zip(expected.history, found.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert found.best_epoch == expected.best_epoch


HASHER = LearnedHasher(16, epochs=4, hidden=64, batch_size=64, validation=0.1, random_state=3)
COMMAND = f"""
import os, signal, sys, torch
import lookalike as la
from lookalike.core import progress
from lookalike.learning import LearnedHasher

torch.set_num_threads(1)
data = la.datasets.load("digits")
rows = data.split(1).training[:300]

def die(what, done, total):
    if done == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

with progress.reporting(die):
    {HASHER!r}.fit(data.pixels(rows), data.labels[rows], checkpoint=sys.argv[1])
"""


def test_a_process_that_was_interrupted_and_killed_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """In the midst of the second epoch and of the third: there are 5 steps in each."""
    whole, checkpoint = clone(HASHER).fit(FEW, FEW_Y), tmp_path / "run.pt"

    def epochs_kept() -> int:
        return len(torch.load(checkpoint)["state"]["history"])

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), progress.reporting(interrupt):
        clone(HASHER).fit(FEW, FEW_Y, checkpoint=checkpoint)
    assert epochs_kept() == 1
    killed = subprocess.run([sys.executable, "-c", COMMAND, checkpoint, "13"])
    assert killed.returncode == -signal.SIGKILL
    assert epochs_kept() == 2
    assert_same(whole.network_, clone(HASHER).fit(FEW, FEW_Y, checkpoint=checkpoint).network_)
    assert list(tmp_path.iterdir()) == [checkpoint]


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    train(network(), FEW, FEW_Y, QUICK, checkpoint=path)
    with pytest.raises(ValueError, match=r"epochs was 3, is 4; loss was 'tie-aware-ap', is 'dsh'"):
        train(network(), FEW, FEW_Y, replace(QUICK, epochs=4, loss="dsh"), checkpoint=path)
    with pytest.raises(ValueError, match="data was"):
        train(network(), FEW + 1, FEW_Y, QUICK, checkpoint=path)
    with pytest.raises(ValueError, match="bits was 16, is 8"):
        train(network(n_bits=8), FEW, FEW_Y, QUICK, checkpoint=path)
    with pytest.raises(ValueError, match=r"network was …opout\(p=0\.7, .*, is …opout\(p=0\.1, "):
        train(networks.two_layers(64, 16, 32, 0.5, 0.1), FEW, FEW_Y, QUICK, checkpoint=path)


def test_a_checkpoint_of_numpy_numbers_is_read_back(tmp_path: Path) -> None:
    settings = replace(QUICK, learning_rate=np.float64(1e-3), seed=np.int64(3), epochs=np.int32(2))
    expected = train(network(), FEW, FEW_Y, settings, checkpoint=tmp_path / "run.pt")
    assert train(network(), FEW, FEW_Y, settings, checkpoint=tmp_path / "run.pt") == expected


def test_a_checkpoint_of_a_later_version_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    torch.save({"lookalike": "checkpoint", "format": 99, "version": "9.0", "about": {}, "state": {}}, path)
    with pytest.raises(ValueError, match=r"written by lookalike 9\.0, which is newer"):
        train(network(), FEW, FEW_Y, QUICK, checkpoint=path)
    with pytest.raises(ValueError, match="is a folder"):
        train(network(), FEW, FEW_Y, QUICK, checkpoint=tmp_path)


def test_a_bit_that_fell_over_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    train(network(), FEW, FEW_Y, QUICK, checkpoint=path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a checkpoint of lookalike, or is damaged"):
        train(network(), FEW, FEW_Y, QUICK, checkpoint=path)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "run.pt"
    if content is None:
        train(network(), FEW, FEW_Y, QUICK, checkpoint=path)
        content = path.read_bytes()[:-200]
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a checkpoint"):
        train(network(), FEW, FEW_Y, QUICK, checkpoint=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["network", "optimizer", "random", "history", "about", "state"])
def test_a_checkpoint_that_lacks_something_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.pt"
    train(network(), FEW, FEW_Y, QUICK, checkpoint=path)
    saved = torch.load(path, weights_only=True)
    for broken in ({}, None):
        (saved if name in saved else saved["state"])[name] = broken
        torch.save(saved, path)
        with pytest.raises(ValueError, match=r"run\.pt (is|is not a checkpoint|is of another) .*to start anew"):
            train(network(), FEW, FEW_Y, QUICK, checkpoint=path)


# The learned hasher is a hasher


@pytest.mark.parametrize(
    "options",
    [{}, {"network": "linear"}, {"network": "convolutions", "image_shape": (8, 8), "augment": True}],
    ids=["two-layer", "linear", "convolutions"],
)
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, options: dict[str, Any]) -> None:
    hasher = LearnedHasher(24, epochs=2, **options).fit(FEW, FEW_Y)
    hasher.save(tmp_path / "learned.npz")
    found = la.hashers.load(tmp_path / "learned.npz")
    assert isinstance(found, LearnedHasher)
    np.testing.assert_array_equal(found.project(X), hasher.project(X))
    np.testing.assert_array_equal(found.losses_, hasher.losses_)
    assert found.n_features_in_ == 64
    assert found.title == "tie-aware-ap"
    np.testing.assert_array_equal(hasher.transform(X).unpack(), hasher.project(X) > 0)


def test_codes_of_an_item_are_its_own() -> None:
    hasher = LearnedHasher(24, epochs=2).fit(FEW, FEW_Y)
    whole = hasher.project(X)
    for rows in (slice(0, 1), slice(3, 260), slice(700, 703)):
        np.testing.assert_array_equal(hasher.project(X[rows]), whole[rows])


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    torch.set_num_threads(2)  # as outside of tests
    try:
        one, again, other = (LearnedHasher(8, epochs=2, random_state=seed).fit(FEW, FEW_Y) for seed in (1, 1, 2))
    finally:
        torch.set_num_threads(1)
    assert_same(one.network_, again.network_)
    assert (one.project(FEW) != other.project(FEW)).any()


def test_it_is_trained_with_the_settings_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Settings] = []

    def train_instead(network: nn.Module, items: np.ndarray, labels: np.ndarray, settings: Settings, **_: Any) -> None:
        used.append(settings)
        raise Stop

    monkeypatch.setattr("lookalike.learning.hasher.train", train_instead)
    asked = Settings(
        loss="dsh",
        options={"margin": 5.0},
        epochs=7,
        batch_size=50,
        together=5,
        optimizer="sgd",
        learning_rate=0.25,
        weight_decay=0.5,
        schedule="step",
        drop=0.3,
        every=2,
        alpha=3.0,
        alpha_end=5.0,
        validation=0.2,
        patience=4,
        seed=6,
    )
    assert all(value != getattr(Settings(), name) for name, value in vars(asked).items())
    options = {name: value for name, value in vars(asked).items() if name != "seed"}
    for hasher in (
        LearnedHasher(8, **options, random_state=6),
        LearnedHasher(8),
        LearnedHasher(8, network="convolutions", image_shape=(8, 8)),
    ):
        with pytest.raises(Stop):
            hasher.fit(FEW, FEW_Y)
    assert used == [asked, Settings(learning_rate=3e-3, alpha=1.0), Settings(learning_rate=1e-3, alpha=10.0)]


def test_it_is_cloned_and_set_like_any_estimator() -> None:
    hasher = LearnedHasher(8, loss="dsh", epochs=2)
    assert clone(hasher).get_params() == hasher.get_params()
    hasher.set_params(loss="cross-entropy")
    assert hasher.fit(FEW, FEW_Y.astype(str)).title == "cross-entropy"


def test_it_is_made_by_the_name_of_its_loss_and_tried_with_the_others() -> None:
    from lookalike.experiments.task import dataset_task
    from lookalike.experiments.trials import try_hashers

    chosen = [(name, la.hashers.make(name, 12)) for name in ("ITQ", "tie-aware-AP")]
    chosen[1][1].set_params(epochs=4)
    found = try_hashers(dataset_task(DIGITS), chosen)
    scores = {row["hasher"]: row["mAP"] for row in found.rows()}
    assert scores["tie-aware-AP"] > scores["ITQ"]


def test_pictures_are_flipped_and_shifted() -> None:
    torch.manual_seed(0)
    rows = torch.zeros(400, 5, 5)
    rows[:, 2, 1] = 1
    changed = flip_and_shift((5, 5), by=1)(rows.view(400, 25)).view(400, 5, 5)
    places = Counter((int(row), int(column)) for _, row, column in changed.nonzero())
    expected = {(row, column) for row in (1, 2, 3) for column in (0, 1, 2, 2, 3, 4)}
    assert set(places) == expected
    assert changed.sum() == 400
    assert 90 < sum(n for (_, column), n in places.items() if column < 2) < 180  # a third


# Bad input


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"alpha": 0.0}, "alpha must be above 0 and finite, got 0.0"),
        ({"alpha": -1.0}, "alpha must be above 0"),
        ({"alpha_end": -1.0}, "alpha_end must be above 0"),
        ({"epochs": 0}, "epochs must be a whole number from 1, got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number from 1, got 2.5"),
        ({"batch_size": 1}, "batch_size must be a whole number from 2"),
        ({"together": 1}, "together must be a whole number from 2 to 250, got 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0 and finite"),
        ({"learning_rate": 1e40}, "learning_rate must be below a million"),
        ({"hidden": 0}, "hidden must be a whole number from 1"),
        ({"options": {"alpha": 3}}, "alpha is a setting of its own"),
        ({"schedule": "cosinus"}, "schedule must be constant, cosine or step"),
        ({"optimizer": "adamw"}, "optimizer must be adam or sgd"),
        ({"validation": 1.0}, "validation must be from 0 to below 1"),
        ({"patience": 3}, "patience must be None where no validation part is held out"),
        ({"loss": "tie-aware"}, "there is no loss 'tie-aware': did you mean tie-aware-ap"),
        ({"options": {"margins": 3}, "loss": "dsh"}, "dsh has no such options: 'margins'"),
        ({"network": nn.Linear(64, 5)}, "the network gives 5 activations for each item, but n_bits is 8"),
        ({"network": "convolutions", "image_shape": (64,)}, "image_shape must be"),
        ({"network": "three-layer"}, "there is no network 'three-layer'"),
        ({"network": "convolutions"}, "image_shape"),
        ({"network": "convolutions", "image_shape": (9, 9)}, "81 pixels, but items have 64"),
        ({"augment": True}, "image_shape"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        LearnedHasher(8, **settings).fit(FEW, FEW_Y)


def test_labels_must_be_there_and_as_many_and_different() -> None:
    with pytest.raises(ValueError, match="labels to learn from"):
        LearnedHasher(8).fit(FEW)
    with pytest.raises(ValueError, match="there are 300 items but 299 labels"):
        LearnedHasher(8).fit(FEW, FEW_Y[:-1])
    with pytest.raises(ValueError, match="all items have the same label"):
        LearnedHasher(8).fit(FEW, np.zeros(300))
    with pytest.raises(ValueError, match="tags, which must be 0 or 1"):
        LearnedHasher(8).fit(FEW, np.full((300, 2), 2))
    for labels in (np.where(FEW_Y == 3, np.nan, FEW_Y), FEW_Y + 0.5, np.where(FEW_Y == 3, None, "a")):
        with pytest.raises(ValueError, match="labels must be whole numbers or strings"):
            LearnedHasher(8).fit(FEW, labels)


@pytest.mark.parametrize("loss", ["tie-aware-ap", "cross-entropy"])
def test_weights_that_are_no_numbers_are_told(loss: str) -> None:
    """In the midst of a run, and after its only step."""
    settings = Settings(loss=loss, optimizer="sgd", learning_rate=9e5, weight_decay=1e35, batch_size=300, epochs=1)
    with pytest.raises(ValueError, match="epoch 1: weights are not finite after it"):
        train(network(), FEW, FEW_Y, settings)
    with pytest.raises(ValueError, match=r"epoch 1, step \d of \d+: "):
        train(network(), FEW, FEW_Y, replace(settings, batch_size=20))


def test_classes_that_are_small_hold_out_two_or_none() -> None:
    labels = np.repeat([0, 1, 2], [15, 3, 40])
    training, holding = held_out(labels, 0.1, 0)
    assert Counter(labels[holding]) == {0: 2, 2: 4}
    assert len(training) == 52
    with pytest.raises(ValueError, match="no class has more than 3 items: hold out a larger part, or 0"):
        held_out(np.repeat([0, 1], 3), 0.4, 0)


def test_one_column_of_labels_is_labels() -> None:
    flat, column = (LearnedHasher(8, epochs=1).fit(FEW, y).project(FEW) for y in (FEW_Y, FEW_Y[:, None]))
    np.testing.assert_array_equal(flat, column)


def test_numbers_too_large_for_float32_are_refused() -> None:
    hasher = LearnedHasher(8, epochs=1).fit(FEW, FEW_Y)
    with pytest.raises(ValueError, match="too large for float32"):
        hasher.transform(np.full((2, 64), 1e39))


def test_loading_leaves_the_callers_random_numbers(tmp_path: Path) -> None:
    LearnedHasher(8, epochs=1).fit(FEW, FEW_Y).save(tmp_path / "h.npz")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    la.hashers.load(tmp_path / "h.npz")
    assert (torch.rand(3) == expected).all()


def test_activations_that_are_no_numbers_are_told_with_their_step() -> None:
    made = network()
    with pytest.raises(ValueError, match=r"epoch 1, step \d+ of \d+: activations contain NaN"):
        train(made, FEW, FEW_Y, replace(QUICK, learning_rate=9e5, weight_decay=1e30, optimizer="sgd"))


def test_batches_without_a_relevant_pair_are_warned_of_and_teach_nothing() -> None:
    made = network()
    before = weights(made)
    settings = Settings(epochs=1, batch_size=300, weight_decay=0.0)
    with pytest.warns(RuntimeWarning, match="no example of this batch has a relevant other"):
        train(made, FEW, np.arange(300), settings)
    for name, value in weights(made).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_failed_fit_leaves_the_one_before() -> None:
    hasher = LearnedHasher(8, epochs=1).fit(FEW, FEW_Y)
    before = hasher.project(FEW)
    hasher.set_params(alpha=-1)
    with pytest.raises(ValueError, match="alpha"):
        hasher.fit(FEW, FEW_Y)
    np.testing.assert_array_equal(hasher.project(FEW), before)


def test_warnings_come_once() -> None:
    """Python shows a warning of one line once; a loop over batches therefore tells once."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(5):
            losses.tie_aware_ap(torch.randn(4, 3), [0, 1, 2, 3])
    assert len(seen) == 1


def test_activations_of_no_items() -> None:
    assert activations(network(), X[:0]).shape == (0, 16)
