"""RetrievalResults of Open Metric Learning: ties, lists that end early, relevant items that were not retrieved.

The real class is taken where oml is installed. It needs torchvision, so that most machines which test this have an
object with the same three attributes in its place, as the class has them: tuples of tensors, one for each query.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import lookalike as la
from lookalike.integrations.oml import from_oml


@dataclass(frozen=True)
class SameAttributes:
    """What oml.retrieval.RetrievalResults holds."""

    distances: Any
    retrieved_ids: Any
    gt_ids: Any


def made(distances: Any, retrieved: Any, relevant: Any) -> Any:
    """RetrievalResults of lists; of the real class if it is there."""
    kind: Any = SameAttributes
    if importlib.util.find_spec("oml") is not None:
        kind = importlib.import_module("oml.retrieval").RetrievalResults
    return kind(
        distances=tuple(torch.tensor(row, dtype=torch.float) for row in distances),
        retrieved_ids=tuple(torch.tensor(row, dtype=torch.long) for row in retrieved),
        gt_ids=None if relevant is None else tuple(torch.tensor(row, dtype=torch.long) for row in relevant),
    )


@pytest.fixture(scope="module")
def search() -> dict[str, Any]:
    """30 queries and 200 items on a grid of small whole numbers, so that many distances are equal."""
    rng = np.random.default_rng(0)
    queries, gallery = rng.integers(0, 4, (30, 3)).astype(float), rng.integers(0, 4, (200, 3)).astype(float)
    labels = rng.integers(0, 8, 30), rng.integers(0, 8, 200)
    distances = np.sqrt(((queries[:, None] - gallery[None]) ** 2).sum(2))
    return {"distances": distances, "labels": labels}


def results(search: dict[str, Any], top: int) -> Any:
    order = np.argsort(search["distances"], axis=1, kind="stable")[:, :top]
    queries, gallery = search["labels"]
    relevant = [np.flatnonzero(gallery == label) for label in queries]
    return made(np.take_along_axis(search["distances"], order, 1), order, relevant)


def exact(search: dict[str, Any], metrics: list[str]) -> la.Evaluation:
    return la.evaluate_scores(-search["distances"], la.same_label(*search["labels"]), metrics)


METRICS = ["AP@5", "AP(norm='total')@10", "nDCG@10", "P@3", "R@10", "Hit@2", "RR@10", "RBP@10"]


def test_metrics_above_the_last_distance_are_exact(search: dict[str, Any]) -> None:
    """Of the first 60 of 200 items; the tie at a cutoff of 10 is in the list as a whole."""
    found = from_oml(results(search, 60), METRICS)
    wanted = exact(search, METRICS)
    assert found.notes == []
    assert len(found) == len(METRICS)
    for metric, score in found.scores.items():
        for part in ("per_query", "best_per_query", "worst_per_query"):
            np.testing.assert_allclose(getattr(score, part), getattr(wanted[metric], part), atol=1e-12, err_msg=metric)
    assert found["AP@5"].best - found["AP@5"].worst > 0.05  # there are ties


def test_a_whole_ranking_is_whole(search: dict[str, Any]) -> None:
    found = from_oml(results(search, 200), ["AP", "nDCG"], n_gallery=200)
    assert found.notes == []
    assert found["AP"].mean == pytest.approx(exact(search, ["AP"])["AP"].mean, abs=1e-12)


def test_what_is_cut_off_is_a_lower_bound_and_said(search: dict[str, Any]) -> None:
    found = from_oml(results(search, 20), ["AP", "R@50", "P@20", "P@1"])
    wanted = exact(search, ["AP", "R@50"])
    for name in ("AP", "R@50"):
        assert (found[name].best_per_query <= wanted[name].best_per_query + 1e-12).all()
        assert found[name].mean < wanted[name].mean - 0.05
    deep, at_end = found.notes
    assert deep.startswith("AP, R@50: lists end at rank 20; relevant items behind them count as never found")
    assert at_end.startswith("P@20: the cutoff reaches the last distance of a list")
    assert found["P@1"].mean == pytest.approx(exact(search, ["P@1"])["P@1"].mean, abs=1e-12)


def test_totals_count_what_was_not_retrieved() -> None:
    found = from_oml(made([[0.1, 0.2]], [[5, 6]], [[6, 7, 8]]), ["R@1", "AP(norm='total')@1", "nDCG@1"])
    assert found["R@1"].mean == 0
    found = from_oml(made([[0.1, 0.2, 0.3]], [[6, 5, 4]], [[6, 7, 8]]), ["R@1"])
    assert found["R@1"].mean == pytest.approx(1 / 3)


def test_lists_of_different_lengths_and_queries_without_an_answer() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # oml's own, of queries without relevant items
        odd = made([[0.1, 0.1, 0.3], [], [0.2]], [[1, 2, 3], [], [4]], [[2], [1], []])
    found = from_oml(odd, ["RR", "P@1"])
    assert found["RR"].per_query.tolist() == [0.75, 0, 0]
    assert found["RR"].undefined == 1
    assert found["P@1"].per_query.tolist() == [0.5, 0, 0]
    assert "lists end at rank 0" in found.notes[0]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda: made([[0.1]], [[1]], None), "have no gt_ids"),
        (lambda: object(), "RetrievalResults of oml are needed, got object"),
        (lambda: SameAttributes([torch.tensor([0.1, 0.2])], [torch.tensor([1])], [torch.tensor([1])]), "2 distances"),
        (lambda: SameAttributes([torch.tensor([0.1, 0.2])], [torch.tensor([1, 1])], [torch.tensor([1])]), "item twice"),
        (lambda: SameAttributes([torch.tensor([float("nan")])], [torch.tensor([1])], [torch.tensor([1])]), "not a num"),
        (lambda: SameAttributes([], [], []), "no queries"),
    ],
)
def test_mistakes_are_one_sentence(broken: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_oml(broken(), ["AP@1"])


def test_metrics_of_whole_rankings_are_refused(search: dict[str, Any]) -> None:
    for name in ("AUC", "PRAUC", "FNMR", "Bpref", "Judged@5"):
        with pytest.raises(ValueError, match="needs the whole ranking"):
            from_oml(results(search, 20), [name])
    with pytest.raises(ValueError, match="n_gallery is 100"):
        from_oml(results(search, 20), ["P@1"], n_gallery=100)
