"""MAP@R, RPrecision and FNMR against the libraries that users know them from, where nothing ties.

What a vacuous test would let pass: numbers near 1, which many wrong formulas share (asserted to be far from it);
classes of one size, where R is the same for all queries (they differ here); a rate at which no relevant pair is
rejected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

import lookalike as la
from helpers.judged import assert_intervals_agree, resampled
from reference import definitions

Array = NDArray[Any]


@pytest.fixture(scope="module")
def embeddings() -> tuple[Array, Array]:
    """Embeddings of classes of 3 to 40 items that overlap; no two scores of a query are equal."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(9), [3, 5, 8, 13, 16, 20, 25, 30, 40])
    vectors = rng.standard_normal((9, 16))[labels] + 1.1 * rng.standard_normal((len(labels), 16))
    return vectors.astype(np.float32), labels


@pytest.mark.parametrize("own_gallery", [True, False])
def test_map_at_r_and_r_precision_are_those_of_pytorch_metric_learning(
    embeddings: tuple[Array, Array], own_gallery: bool
) -> None:
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    vectors, labels = embeddings
    names = ("mean_average_precision_at_r", "r_precision")
    calculator = AccuracyCalculator(include=names, k="max_bin_count", avg_of_avgs=False)
    queries = slice(None) if own_gallery else slice(0, None, 3)
    gallery = slice(None) if own_gallery else np.arange(len(labels)) % 3 > 0
    unit = torch.nn.functional.normalize(torch.as_tensor(vectors))
    theirs = calculator.get_accuracy(
        unit[queries].contiguous(),
        torch.as_tensor(labels[queries]),
        unit[torch.as_tensor(np.arange(len(labels))[gallery])],
        torch.as_tensor(labels[gallery]),
        ref_includes_query=own_gallery,
    )
    ours = la.evaluate(
        vectors[queries],
        vectors[gallery],
        la.same_label(labels[queries], labels[gallery]),
        ["MAP@R", "RPrecision"],
        exclude="self" if own_gallery else None,
    )
    for name, score in zip(names, (ours["MAP@R"], ours["RPrecision"]), strict=True):
        assert score.mean == pytest.approx(theirs[name], abs=1e-6)
        assert 0.1 < score.mean < 0.8
        assert score.best == score.worst
    assert ours["MAP@R"].mean < ours["RPrecision"].mean


def rate_of(relevant: Array, scores: Array, fmr: float) -> float:
    """From the ROC curve of scikit-learn: the most relevant pairs accepted where at most a share fmr of others is."""
    false, true, _ = roc_curve(relevant, scores, drop_intermediate=False)
    return float(1 - true[false <= fmr + 1e-12].max())


@pytest.mark.parametrize("fmr", [0, 0.001, 0.01, 0.0137, 0.1, 0.5])
def test_fnmr_is_that_of_the_roc_curve(embeddings: tuple[Array, Array], fmr: float) -> None:
    vectors, labels = embeddings
    scores = vectors.astype(float) @ vectors.T
    off = ~np.eye(len(labels), dtype=bool)
    # a score occurs twice, as (a, b) and (b, a): half of the pairs are moved a little so that nothing ties
    scores += np.triu(np.full_like(scores, 1e-7))
    relevant = labels[:, None] == labels
    names = [f"FNMR(fmr={fmr})", f"FNMR(fmr={fmr}, average='macro')"]
    result = la.evaluate_scores(scores, la.same_label(labels, labels), names, exclude="self")
    pooled, own = (result[name] for name in names)
    wanted = rate_of(relevant[off], scores[off], fmr)
    np.testing.assert_allclose([pooled.mean, pooled.best, pooled.worst], wanted, rtol=0, atol=1e-12)
    each = [rate_of(relevant[q][off[q]], scores[q][off[q]], fmr) for q in range(len(labels))]
    np.testing.assert_allclose(own.per_query, each, rtol=0, atol=1e-12)
    assert 0.001 < pooled.mean < 0.99
    assert abs(pooled.mean - own.mean) > 0.001


def test_a_share_is_what_its_decimals_say() -> None:
    """0.29 of 100 others is 29 of them; 0.29 * 100 in floats is 28.999999999999996."""
    scores = -np.arange(101.0)[None]
    grades = np.zeros((1, 101), int)
    grades[0, 29] = 1  # below 29 others
    result = la.evaluate_scores(scores, la.grades(grades), ["FNMR(fmr=0.29)", "FNMR(fmr=0.28)"])
    assert result["FNMR(fmr=0.29)"].mean == 0  # and not what rounding leaves of it
    assert result["FNMR(fmr=0.28)"].mean == pytest.approx(1)


def test_ties_at_the_threshold_count_by_the_orders_that_accept_them() -> None:
    """One relevant pair among 4 others of its score: it is above the second of them in 2 of 5 orders."""
    values = definitions.false_non_match_rate([[1], [0, 0, 1, 0, 0], [1, 0]], fmr=0.25)
    score = la.evaluate_scores([[3, 2, 2, 2, 2, 2, 1, 1]], la.grades([[1, 0, 0, 1, 0, 0, 1, 0]]), ["FNMR(fmr=0.25)"])
    found = score["FNMR(fmr=0.25)"]
    assert values is not None
    assert [found.mean, found.best, found.worst] == pytest.approx([float(x) for x in values])
    assert (found.mean, found.best, found.worst) == pytest.approx((1.6 / 3, 1 / 3, 2 / 3))


@pytest.mark.parametrize("levels", [None, 40])
def test_the_interval_of_fnmr_is_that_of_resampling_queries(levels: int | None) -> None:
    """The threshold moves with the queries that are drawn: with one that stays, an interval would be too wide here."""
    rng = np.random.default_rng(5)
    n_queries, n_items = 300, 60
    relevant = rng.random((n_queries, n_items)) < 0.2
    scores = rng.standard_normal((n_queries, n_items)) + 2 * relevant + 0.7 * rng.standard_normal((n_queries, 1))
    if levels is not None:
        scores = np.round(scores * levels / 10)
    name = "FNMR(fmr=0.02)"
    score = la.evaluate_scores(scores, la.grades(relevant.astype(int)), [name])[name]

    def statistic(drawn: Array) -> float:
        _, group = np.unique(-scores[drawn], return_inverse=True)
        hits, items = np.bincount(group.ravel(), relevant[drawn].ravel()), np.bincount(group.ravel())
        return float(la.metrics.false_non_match_rate([hits], [items], 0.02).expected[0])

    assert score.per_query.mean() == pytest.approx(score.mean)
    assert_intervals_agree(score.interval(), resampled(statistic, n_queries, 300, 8))
    fixed = (scores < np.sort(scores[~relevant])[-round(0.02 * (~relevant).sum())]) & relevant
    shares = np.array([row.sum() for row in fixed]) / relevant.sum() * n_queries
    assert 1.1 * score.per_query.std() < (shares - relevant.sum(1) * shares.mean() / relevant.sum(1).mean()).std()
