"""pytorch-metric-learning with our metrics and losses: its testers, trainers and conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses as their_losses
from pytorch_metric_learning import miners, testers, trainers
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from torch.utils.data import TensorDataset

import lookalike as la
from lookalike.core.errors import InputError
from lookalike.integrations.pytorch_metric_learning import HashingLoss, TieAwareAccuracyCalculator
from lookalike.learning import losses

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 9, 200)
EMBEDDINGS = (RNG.standard_normal((200, 8)) + 1.5 * RNG.standard_normal((9, 8))[LABELS]).astype(np.float32)
X, Y = torch.tensor(EMBEDDINGS), torch.tensor(LABELS)
THEIRS = {"P@1": "precision_at_1", "AP": "mean_average_precision", "RR": "mean_reciprocal_rank"}


@pytest.mark.parametrize("averages", [{}, {"avg_of_avgs": True}, {"return_per_class": True}])
@pytest.mark.parametrize("case", ["alone", "apart", "included", "lone labels", "lone item"])
def test_without_ties_the_numbers_are_those_of_the_library(case: str, averages: dict[str, bool]) -> None:
    arguments: tuple[Any, ...] = {
        "alone": (X, Y),
        "apart": (X[:50], Y[:50], X[50:], Y[50:]),
        "included": (X[:50], Y[:50], X, Y, True),
        "lone item": (X, torch.where(torch.arange(200) == 7, 99, Y)),
        "lone labels": (X[:50], Y[:50], X[50:], torch.where(Y[50:] == 3, 4, Y[50:])),
    }[case]
    theirs = AccuracyCalculator(include=tuple(THEIRS.values()), device=torch.device("cpu"), **averages)
    ours = TieAwareAccuracyCalculator(**averages).get_accuracy(*arguments)
    expected = theirs.get_accuracy(*arguments)
    assert list(ours) == [f"{name}{part}" for name in THEIRS for part in ("", "/best", "/worst")]
    for name, their_name in THEIRS.items():
        for part in ("", "/best", "/worst"):
            np.testing.assert_allclose(ours[name + part], expected[their_name], rtol=1e-6)  # theirs are of float32


def test_with_ties_there_is_an_expected_a_best_and_a_worst_value() -> None:
    codes, metrics = la.Codes.pack(EMBEDDINGS > 0), ["AP", "AP@20", "nDCG@10", "LGAP@1"]
    result = la.evaluate(codes, codes, la.same_label(LABELS, LABELS), metrics, exclude="self")
    accuracy = TieAwareAccuracyCalculator(metrics, similarity="hamming").get_accuracy(X, Y)
    for metric, score in result.scores.items():
        values = [accuracy[f"{metric}{part}"] for part in ("", "/best", "/worst")]
        assert values == [score.mean, score.best, score.worst]
    assert accuracy["AP/worst"] < accuracy["AP"] < accuracy["AP/best"]
    signs = torch.tensor(EMBEDDINGS > 0) * 2.0 - 1
    theirs = AccuracyCalculator(include=("mean_average_precision",), device=torch.device("cpu"))
    order = torch.tensor(np.argsort(LABELS, kind="stable"))  # how the gallery is stored should change nothing
    numbers = {theirs.get_accuracy(signs[rows], Y[rows])["mean_average_precision"] for rows in (order, order.flip(0))}
    assert len(numbers) == 2
    assert all(accuracy["AP/worst"] < number < accuracy["AP/best"] for number in numbers)


def test_names_are_included_and_excluded() -> None:
    calculator = TieAwareAccuracyCalculator("AP P@1", exclude=("P@1/worst",))
    assert calculator.get_curr_metrics() == ["AP", "AP/best", "AP/worst", "P@1", "P@1/best"]
    whole = calculator.get_accuracy(X, Y)
    assert list(whole) == calculator.get_curr_metrics()
    assert calculator.get_accuracy(X, Y, include=("AP/best",)) == {"AP/best": whole["AP/best"]}
    assert list(calculator.get_accuracy(X, Y, exclude=("AP", "AP/best", "AP/worst"))) == ["P@1", "P@1/best"]
    for wrong in ({"include": ("NMI",)}, {"exclude": ("precision_at_1",)}):
        with pytest.raises(ValueError, match="Primary metrics must be one or more of"):
            TieAwareAccuracyCalculator("AP", **wrong)


def test_large_labels_stay_apart() -> None:
    """The library turns labels into float32, in which these two are equal."""
    labels = torch.tensor([2**24, 2**24 + 1] * 4)
    accuracy = TieAwareAccuracyCalculator("R@3").get_accuracy(X[:8], labels)
    expected = la.evaluate(
        EMBEDDINGS[:8], EMBEDDINGS[:8], la.same_label(labels, labels), "R@3", similarity="euclidean", exclude="self"
    )
    assert accuracy["R@3"] == expected["R@3"].mean < 1


def test_nothing_relevant_is_nan() -> None:
    accuracy = TieAwareAccuracyCalculator("AP").get_accuracy(X[:5], Y[:5], X[5:], Y[5:] + 100)
    assert np.isnan(list(accuracy.values())).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_in_a_tester_of_the_library() -> None:
    levels = torch.stack([Y, Y // 3], dim=1)
    tester = testers.GlobalEmbeddingSpaceTester(
        accuracy_calculator=TieAwareAccuracyCalculator("AP P@1", similarity="hamming"),
        dataloader_num_workers=0,
        data_device=torch.device("cpu"),
        label_hierarchy_level="all",
    )
    sets = {"train": TensorDataset(X[:150], levels[:150]), "val": TensorDataset(X[150:], levels[150:])}
    accuracies = tester.test(
        sets, 1, torch.nn.Identity(), splits_to_eval=[("val", ["train", "val"]), ("train", ["train"])]
    )
    rows = np.r_[150:200, :150]
    codes = la.Codes.pack(EMBEDDINGS[rows] > 0)
    ids = np.arange(200)
    for level, labels in enumerate((LABELS[rows], LABELS[rows] // 3)):
        result = la.evaluate(
            codes[:50],
            codes,
            la.same_label(labels[:50], labels),
            "AP",
            query_ids=ids[:50],
            gallery_ids=ids,
            exclude="self",
        )
        keys = [f"AP{part}_level{level}" for part in ("", "/best", "/worst")]
        assert [accuracies["val"][key] for key in keys] == [result["AP"].mean, result["AP"].best, result["AP"].worst]
    assert accuracies["val"]["AVERAGE_AP/best"] == np.mean(
        [accuracies["val"][f"AP/best_level{level}"] for level in (0, 1)]
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TieAwareAccuracyCalculator("AP", similarity="l2"), "similarity"),
        (lambda: TieAwareAccuracyCalculator("VSDHR@5", avg_of_avgs=True), "no plain mean over queries"),
        (lambda: TieAwareAccuracyCalculator("AUC(average='micro')", return_per_class=True), "no plain mean"),
        (lambda: TieAwareAccuracyCalculator("LGAP@1").get_accuracy(X, Y), "LGAP is a metric of codes"),
        (lambda: TieAwareAccuracyCalculator().get_accuracy(X, Y[:5]), "there are 200 query embeddings, but labels"),
        (lambda: TieAwareAccuracyCalculator().get_accuracy(X, Y, X), "go together"),
        (lambda: TieAwareAccuracyCalculator().get_accuracy(X[:5], Y[:5], X[5:], Y[5:], True), "but they differ"),
        (lambda: TieAwareAccuracyCalculator(similarity="hamming").get_accuracy(X * torch.nan, Y), "NaN"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


OPTIONS = [
    ("tie-aware-ap", losses.tie_aware_ap, {"alpha": 0.5}),
    ("tie-aware-dcg", losses.tie_aware_dcg, {"alpha": 0.5, "gain": "linear"}),
    ("dsh", losses.dsh, {"margin": 5.0}),
    ("dispersed-dsh", losses.dispersed_dsh, {}),
]


@pytest.mark.parametrize(("name", "function", "options"), OPTIONS)
def test_losses_and_gradients_are_ours(name: str, function: Any, options: dict[str, Any]) -> None:
    theirs, ours = X[:40].clone().requires_grad_(), X[:40].clone().requires_grad_()
    loss, expected = HashingLoss(name, **options)(theirs, Y[:40]), function(ours, Y[:40], **options)
    loss.backward()
    expected.backward()
    assert isinstance(HashingLoss(name), their_losses.BaseMetricLossFunction)
    assert loss.item() == expected.item()
    assert torch.equal(theirs.grad, ours.grad)
    assert theirs.grad.abs().sum() > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_in_a_trainer_of_the_library() -> None:
    torch.manual_seed(0)
    trunk, embedder = torch.nn.Identity(), torch.nn.Linear(8, 12)
    before = losses.tie_aware_ap(embedder(X), Y, alpha=1).item()
    trainer = trainers.MetricLossOnly(
        models={"trunk": trunk, "embedder": embedder},
        optimizers={"embedder_optimizer": torch.optim.Adam(embedder.parameters(), lr=0.02)},
        batch_size=100,
        loss_funcs={"metric_loss": HashingLoss("tie-aware-ap", alpha=1)},
        dataset=TensorDataset(X, Y),
        data_device=torch.device("cpu"),
        dataloader_num_workers=0,
        set_min_label_to_zero=False,
    )
    trainer.train(num_epochs=15)
    assert losses.tie_aware_ap(embedder(X), Y, alpha=1).item() < before - 0.05


def test_what_a_loss_cannot_use_is_an_error() -> None:
    loss = HashingLoss("tie-aware-ap", alpha=1)
    assert loss(X, Y, None, X, Y) == loss(X, Y)  # as the library's own wrappers pass the batch itself
    pairs = miners.MultiSimilarityMiner()(X, Y)
    for arguments, message in (((X, Y, pairs), "leave out the miner"), ((X, Y, None, X[:5], Y[:5]), "ref_emb")):
        with pytest.raises(InputError, match=message):
            loss(*arguments)
    with pytest.raises(InputError, match="did you mean tie-aware-ap"):
        HashingLoss("tie_aware_ap")
    with pytest.raises(InputError, match="no such options: 'margn'"):
        HashingLoss("dsh", margn=3)
    assert "HashingLoss" in repr(HashingLoss("dsh", margin=3))
    assert "margin=3" in repr(HashingLoss("dsh", margin=3))
