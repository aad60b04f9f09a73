"""Trials: each hasher learns from the training part alone, and every number is of the codes it made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from lookalike import curves, hashers
from lookalike.core.errors import InputError
from lookalike.evaluation.code_space import within_class_correlation
from lookalike.evaluation.item_files import Items
from lookalike.evaluation.relevance import same_label
from lookalike.experiments.task import Task, dataset_task, items_task
from lookalike.experiments.trials import METRICS, try_hashers


@pytest.fixture(scope="module")
def task() -> Task:
    """Three groups; the training part is elsewhere than the gallery, so that it matters from what one learns."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 8)) * 3
    parts = {}
    for name, n, shift in (("training", 90, 2.0), ("queries", 12, 0.0), ("gallery", 200, 0.0)):
        labels = rng.integers(0, 3, n)
        parts[name] = (centres[labels] + rng.normal(size=(n, 8)) + shift).astype(np.float32), labels
    relevance = same_label(parts["queries"][1], parts["gallery"][1])
    shown = [parts[name][1].astype(str) for name in ("queries", "gallery")]
    vectors = {name: part[0] for name, part in parts.items()}
    return Task("groups", relevance, *shown, **vectors, training_labels=parts["training"][1])


def test_a_trial_is_what_its_parts_give_by_hand(task: Task) -> None:
    (trial,) = try_hashers(task, [("mine", hashers.ITQ(6, random_state=0))]).trials
    fitted = hashers.ITQ(6, random_state=0).fit(task.training)
    assert (trial.name, trial.n_bits) == ("mine", 6)
    assert trial.queries == fitted.transform(task.queries)
    assert trial.gallery == fitted.transform(task.gallery)
    assert trial.gallery != hashers.ITQ(6, random_state=0).fit(task.gallery).transform(task.gallery)
    expected = la.evaluate(trial.queries, trial.gallery, task.relevance, METRICS)
    for metric in METRICS:
        assert trial.evaluation[metric].mean == expected[metric].mean
    assert trial.usage.row() == la.usage(trial.gallery, task.gallery_labels).row()
    tally = la.count(trial.queries, trial.gallery, task.relevance)
    for found, wanted in ((trial.by_cutoff, curves.by_cutoff(tally)), (trial.by_radius, curves.by_radius(tally))):
        for left, right in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(left, right)
    assert trial.within_class == within_class_correlation(trial.gallery, task.gallery_labels, task.gallery).mean()
    assert trial.fit_seconds > 0
    assert trial.hash_seconds > 0


def test_searching_the_features_is_evaluated_beside_them(task: Task) -> None:
    found = try_hashers(task, [("LSH", hashers.LSH(4, random_state=0))])
    exact = la.evaluate(task.queries, task.gallery, task.relevance, ["AP"], similarity="euclidean")
    assert found.exact is not None
    assert found.exact["AP"].mean == exact["AP"].mean


def test_a_fitted_hasher_stays_as_it_is(task: Task) -> None:
    fitted = hashers.LSH(4, random_state=3).fit(np.asarray(task.gallery) * 2)
    before = fitted.mean_.copy()
    (trial,) = try_hashers(task, [("fitted", fitted)]).trials
    np.testing.assert_array_equal(fitted.mean_, before)
    assert trial.gallery == fitted.transform(task.gallery)
    assert np.isnan(trial.fit_seconds)


def test_what_cannot_be_fitted_is_left_out_and_said(task: Task) -> None:
    found = try_hashers(task, [("PCAH", hashers.PCAH(9)), ("LSH", hashers.LSH(9, random_state=0))])
    assert [trial.name for trial in found.trials] == ["LSH"]
    ((name, why),) = found.left_out
    assert name == "PCAH at 9 bits"
    assert "at most 8 bits" in why
    with pytest.raises(ValueError, match="at most 8 bits"):
        try_hashers(task, [("PCAH", hashers.PCAH(9))])
    with pytest.raises(ValueError, match="nothing to try"):
        try_hashers(task, [])


def test_a_task_of_a_data_set_has_its_split() -> None:
    digits = la.datasets.load("digits")
    split = digits.split(random_state=1)
    task = dataset_task(digits, random_state=1)
    np.testing.assert_array_equal(task.queries, digits.pixels(split.queries))
    np.testing.assert_array_equal(task.gallery, digits.pixels(split.gallery))
    np.testing.assert_array_equal(task.training, digits.pixels(split.training))
    assert task.query_labels.tolist() == digits.labels[split.queries].astype(str).tolist()
    assert task.query_picture is not None
    assert task.gallery_picture is not None
    np.testing.assert_array_equal(task.query_picture(3), digits.picture(int(split.queries[3])))
    np.testing.assert_array_equal(task.gallery_picture(5), digits.picture(int(split.gallery[5])))
    relevant = task.relevance.block(slice(0, 1), slice(0, len(split.gallery)))[0] > 0
    assert relevant.tolist() == (digits.labels[split.gallery] == digits.labels[split.queries[0]]).tolist()


def test_a_task_of_files_learns_from_the_gallery_or_a_third() -> None:
    rng = np.random.default_rng(0)
    q, g, t = (Items(Path("x.npz"), rng.normal(size=(n, 4)), np.arange(n) % 2) for n in (3, 9, 5))
    assert items_task(q, g).training is g.vectors
    assert items_task(q, g, t).training is t.vectors
    codes = Items(Path("c.npz"), la.Codes.pack(np.eye(3)), np.arange(3))
    with pytest.raises(ValueError, match="embeddings only"):
        items_task(codes, g)
    assert items_task(codes, codes).gallery is None


def test_a_table_of_hashers_by_length(task: Task) -> None:
    chosen = [(name, hashers.HASHERS[name](n, random_state=0)) for name in ("ITQ", "LSH") for n in (4, 6)]
    trials = try_hashers(task, [*chosen, ("LSH", hashers.LSH(9, random_state=0))])
    means = {(trial.name, trial.n_bits): trial.evaluation["AP@1000"].mean for trial in trials.trials}
    table = trials.to_table("AP@1000")
    assert [head.name for head in table.heads] == ["hasher", "4 bits", "6 bits", "9 bits"]
    assert [[cell.value for cell in row] for row in table.rows] == [
        ["ITQ", means["ITQ", 4], means["ITQ", 6], None],
        ["LSH", means["LSH", 4], means["LSH", 6], means["LSH", 9]],
    ]
    assert trials.exact is not None
    assert f"Without hashing (euclidean) it is {trials.exact['AP@1000'].mean:.4f}." in table.legend
    assert [row[2].value for row in trials.to_table(None).rows] == [t.evaluation["AP"].mean for t in trials.trials]
    assert trials.log()["ITQ_6/AP_at_1000"] == means["ITQ", 6]
    assert trials.to_latex(digits=2).count(r"\\") == 3
    twice = try_hashers(task, [("x", hashers.LSH(4, random_state=seed)) for seed in (0, 1)])
    with pytest.raises(InputError, match="two trials have the same name and length"):
        twice.to_markdown()
