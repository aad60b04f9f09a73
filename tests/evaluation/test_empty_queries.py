"""Queries that find nothing: left out of AP@k, as public hashing code does, or counted as 1, as some nDCG code does.

The formulas of that code are written here in our own words. It breaks ties by the order of the gallery, so it is run
over many random orders: the sums that it divides are then, on average, the expectations that we compute. Their ratio is
compared as a ratio of sums: the mean of its ratios over orders is another number.

What a vacuous test would let pass: queries that all hit in every order (some here hit in no order, some in some); a
best or worst of the mean over a fixed set of queries (a query may be in or out; all orders are enumerated).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

import lookalike as la
from helpers.strategies import Rankings, rankings
from lookalike.discovery import Collection, Judgements, leaderboard
from lookalike.evaluation.results import Score
from reference.definitions import orders

N_ORDERS, K = 300, 8
Array = np.ndarray[Any, Any]


# What public code computes, in our words: sums over queries of one order of the gallery


def hashnet(similarity: Array, relevant: Array, k: int) -> tuple[float, float]:
    """Sum of AP@k over the queries with something relevant in the top k, and how many these are (Cao et al. 2017)."""
    total, counted = 0.0, 0
    for scores, wanted in zip(similarity, relevant, strict=True):
        top = wanted[np.argsort(-scores, kind="stable")[:k]]
        if top.any():
            precision = top.cumsum() / np.arange(1, len(top) + 1)
            total, counted = total + precision[top].sum() / top.sum(), counted + 1
    return total, counted


def mihash(similarity: Array, relevant: Array, k: int) -> tuple[float, float]:
    """The same from buckets of one similarity, by the steps of recall; nan is left out (Cakir et al. 2017)."""
    areas = []
    for scores, wanted in zip(similarity, relevant, strict=True):
        buckets = [np.flatnonzero(scores == value) for value in np.unique(scores)[::-1]]
        top = wanted[np.concatenate(buckets)[:k]]
        positives = top.sum()
        recall = top.cumsum() / positives if positives else np.full(len(top), np.nan)
        areas.append((np.diff(recall, prepend=0) * top.cumsum() / np.arange(1, len(top) + 1)).sum())
    kept = [area for area in areas if not np.isnan(area)]
    return sum(kept), len(kept)


def talr(similarity: Array, grades: Array, k: int) -> tuple[float, float]:
    """Sum of nDCG@k, 1 for a query without a relevant item, and the number of queries (He et al. 2018)."""
    discount = 1 / np.log2(np.arange(k) + 2)
    total = 0.0
    for scores, grade in zip(similarity, grades, strict=True):
        gain = 2.0**grade - 1
        ideal = np.sort(gain)[::-1][:k] @ discount
        total += gain[np.argsort(-scores, kind="stable")[:k]] @ discount / ideal if ideal else 1.0
    return total, len(grades)


def over_orders(count: Callable[..., tuple[float, float]], similarity: Array, grades: Array) -> Array:
    """Both sums of each of many random orders of the gallery."""
    rng = np.random.default_rng(5)
    shuffled = (rng.permutation(similarity.shape[1]) for _ in range(N_ORDERS))
    return np.array([count(similarity[:, order], grades[:, order], K) for order in shuffled])


def within_two_errors(sums: Array, ours: float) -> bool:
    error = sums.std(ddof=1) / np.sqrt(len(sums))
    return abs(sums.mean() - ours) <= max(2 * error, 1e-9)


def world() -> tuple[la.Codes, la.Codes, Array, Array]:
    """Codes of 5 bits with many ties; labels of which some are rare, and one that no item has; similarities."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (30 + 120, 5))
    labels = np.minimum(rng.geometric(0.18, 150), 12)
    labels[:3] = 99
    signs = 2 * bits - 1
    return la.Codes.pack(bits[:30]), la.Codes.pack(bits[30:]), labels, signs[:30] @ signs[30:].T


@pytest.mark.parametrize("code", [hashnet, mihash])
def test_ap_of_queries_with_a_hit_is_that_of_public_code(code: Callable[..., tuple[float, float]]) -> None:
    queries, gallery, labels, similarity = world()
    same = labels[:30, None] == labels[None, 30:]
    result = la.evaluate(queries, gallery, la.same_label(labels[:30], labels[30:]), [f"AP@{K}", f"Hit@{K}", NAME])
    sums = over_orders(code, similarity, same)
    score, weights = result[NAME], result[NAME].weights
    assert weights is not None
    assert ((weights > 0) & (weights < 1)).sum() > 5
    assert (weights == 0).sum() == score.undefined >= 3
    assert within_two_errors(sums[:, 0], result[f"AP@{K}"].per_query.sum())
    assert within_two_errors(sums[:, 1], result[f"Hit@{K}"].per_query.sum())
    assert weights == pytest.approx(result[f"Hit@{K}"].per_query, abs=1e-15)
    assert score.mean == pytest.approx(result[f"AP@{K}"].per_query.sum() / weights.sum(), abs=1e-14)
    assert score.mean - result[f"AP@{K}"].mean > 0.05  # it matters
    assert score.worst < (sums[:, 0] / sums[:, 1]).min() < score.mean < (sums[:, 0] / sums[:, 1]).max() < score.best


def test_ndcg_that_counts_one_without_relevant_items_is_that_of_public_code() -> None:
    queries, gallery, labels, similarity = world()
    grades = np.where(labels[:30, None] == labels[None, 30:], 1 + labels[None, 30:] % 2, 0)
    result = la.evaluate(queries, gallery, la.grades(grades), [f"nDCG@{K}"], undefined="one")[f"nDCG@{K}"]
    sums = over_orders(talr, similarity, grades)
    assert result.undefined == 3
    assert (result.per_query[:3] == 1).all()
    assert within_two_errors(sums[:, 0], result.per_query.sum())
    zero = la.evaluate(queries, gallery, la.grades(grades), [f"nDCG@{K}"])[f"nDCG@{K}"]
    assert result.mean - zero.mean == pytest.approx(3 / 30)


NAME = f"AP(empty='skip')@{K}"


# Best and worst of the mean


@settings(deadline=None, max_examples=60)
@given(case=rankings(max_items=5))
def test_best_and_worst_of_the_mean_are_those_of_all_orders_of_all_queries(case: Rankings) -> None:
    k = 2
    each = [[_ap(order, k) for order in orders(case.groups(q))] for q in range(len(case))]
    assume(np.prod([len(values) for values in each]) < 3000)
    means = []
    for values in itertools.product(*each):
        counted = [value for value in values if value is not None]
        if counted:
            means.append(sum(counted, Fraction()) / len(counted))
    result = la.evaluate_scores(case.scores, la.grades(case.matrix), [f"AP(empty='skip')@{k}"])
    (score,) = result.scores.values()
    if not means:
        assert np.isnan([score.mean, score.best, score.worst]).all()
        return
    assert (score.best, score.worst) == pytest.approx((float(max(means)), float(min(means))), abs=1e-12)
    sums = [sum((value or Fraction() for value in values), Fraction()) / len(values) for values in each]
    hits = [Fraction(sum(value is not None for value in values), len(values)) for values in each]
    assert score.mean == pytest.approx(float(sum(sums, Fraction()) / sum(hits, Fraction())), abs=1e-12)


def _ap(order: tuple[int, ...], k: int) -> Fraction | None:
    """AP@k of one order, None where nothing relevant is in the top k."""
    ranks = [rank for rank, grade in enumerate(order[:k], 1) if grade > 0]
    if not ranks:
        return None
    return sum((Fraction(i, rank) for i, rank in enumerate(ranks, 1)), Fraction()) / len(ranks)


def test_a_ratio_of_expectations_is_not_the_expectation_of_the_ratio() -> None:
    """One query has AP 1, the other AP 1/2 or nothing: the mean of 1 and 3/4 is 7/8, the ratio of sums 5/6."""
    score = la.evaluate_scores([[2, 1, 1], [2, 1, 1]], la.grades([[1, 0, 0], [0, 1, 0]]), ["AP(empty='skip')@2"])
    assert score["AP(empty='skip')@2"].mean == pytest.approx((1 + 1 / 4) / (1 + 1 / 2))


def test_a_chance_that_rounds_to_one_is_not_certain() -> None:
    """Of 4,000 tied items 2,000 are relevant: none of them in the top 100 has a chance of 1e-31, but can be."""
    relevant = np.repeat([[1, 0]], 2000, axis=1).reshape(1, -1)
    name = "AP(empty='skip')@100"
    score = la.evaluate_scores(np.zeros((1, 4000)), la.grades(relevant), [name])[name]
    assert score.weights is not None
    assert score.weights[0] < 1
    assert score.worst == pytest.approx(1 / 100)


# All that is done with results


def scored() -> tuple[la.Evaluation, la.Evaluation]:
    queries, gallery, labels, _ = world()
    relevance = la.same_label(labels[:30], labels[30:])
    other = la.Codes.pack(np.random.default_rng(3).integers(0, 2, (30, 5)))
    return la.evaluate(queries, gallery, relevance, [NAME]), la.evaluate(other, gallery, relevance, [NAME])


def ratio(score: Score, rows: Array) -> float:
    assert score.weights is not None
    weights = score.weights[rows]
    return float(np.nansum(score.per_query[rows] * weights) / weights.sum())


def test_the_interval_is_that_of_the_ratio() -> None:
    score = scored()[0][NAME]
    picks = np.random.default_rng(9).integers(30, size=(4000, 30))
    wanted = np.quantile([ratio(score, rows) for rows in picks], [0.025, 0.975])
    assert score.interval() == pytest.approx(wanted, abs=0.012)
    assert np.ptp(wanted) > 0.1


def test_systems_are_compared_by_their_ratios() -> None:
    first, second = scored()
    (difference,) = la.compare({"a": first, "b": second}).differences
    assert difference.difference == pytest.approx(first[NAME].mean - second[NAME].mean, abs=1e-12)
    picks = np.random.default_rng(9).integers(30, size=(4000, 30))
    wanted = np.quantile([ratio(first[NAME], rows) - ratio(second[NAME], rows) for rows in picks], [0.025, 0.975])
    assert (difference.low, difference.high) == pytest.approx(wanted, abs=0.02)  # right to first order


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    result = scored()[0]
    text = result.to_json(tmp_path / "x.json")
    loaded = la.Evaluation.from_json(tmp_path / "x.json")
    assert json.loads(loaded.to_json()) == json.loads(text)
    assert loaded[NAME].interval() == result[NAME].interval()
    assert f"AP(norm='retrieved', empty='skip')@{K}" in str(loaded)
    table = result.to_pandas(per_query=True)
    assert table[f"AP(norm='retrieved', empty='skip')@{K} weight"].tolist() == pytest.approx(result[NAME].weights)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda row: row.pop("weight_per_query"), "or lacks them"),
        (lambda row: row["weight_per_query"].__setitem__(0, 0.5), "must be from 0, where there is no value"),
        (lambda row: row["weight_per_query"].__setitem__(5, 1.5), "to 1"),
        (lambda row: row["weight_per_query"].pop(), "has 29 values, but there are 30 queries"),
    ],
)
def test_weights_that_cannot_be_are_refused(change: Callable[[Any], Any], match: str, tmp_path: Path) -> None:
    saved = json.loads(scored()[0].to_json())
    change(saved["scores"][0])
    (tmp_path / "x.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=match):
        la.Evaluation.from_json(tmp_path / "x.json")


def test_a_leaderboard_has_the_ratio_with_its_interval() -> None:
    queries, gallery, labels, _ = world()
    ids = [[f"q{i}" for i in range(30)], [f"d{i}" for i in range(120)]]
    pairs = [
        (ids[0][q], ids[1][i], int(labels[q] == labels[30 + i])) for q, i in itertools.product(range(30), range(120))
    ]
    board = leaderboard({"m": (queries, gallery)}, Judgements.of(pairs), Collection(*ids), metrics=[NAME])
    result = la.evaluate(queries, gallery, la.same_label(labels[:30], labels[30:]), [NAME])
    assert board["m"][NAME].mean == result[NAME].mean
    (row,) = board.rows()
    assert (row["low"], row["high"]) == pytest.approx(result[NAME].interval(), abs=0.02)
    assert (row["best"], row["worst"]) == (result[NAME].best, result[NAME].worst)


# What an undefined query counts


def test_one_is_for_undefined_queries_alone_and_is_saved(tmp_path: Path) -> None:
    relevance = la.grades([[0, 1], [0, 0]])
    result = la.evaluate_scores([[2, 1], [2, 1]], relevance, ["AP", "AP(empty='skip')@2", "P@1"], undefined="one")
    assert result["AP"].per_query.tolist() == [0.5, 1.0]
    assert result["P@1"].per_query.tolist() == [0.0, 0.0]  # always defined
    assert result["AP(empty='skip')@2"].mean == 0.5  # left out, whatever undefined queries count
    result.to_json(tmp_path / "x.json")
    loaded = la.Evaluation.from_json(tmp_path / "x.json")
    assert (loaded["AP"].undefined, loaded.about["undefined"]) == (1, "one")


def test_a_query_that_no_order_hits_can_be_an_error() -> None:
    with pytest.raises(ValueError, match=r"AP\(empty='skip'\)@1 is undefined for 1 queries, first for 0"):
        la.evaluate_scores([[2, 1]], la.grades([[0, 1]]), ["AP(empty='skip')@1"], undefined="error")
