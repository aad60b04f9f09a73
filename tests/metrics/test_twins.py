"""Twins agree: numpy and compiled forms of one sum, the two ways to count scores, scores wherever their rows stand.

What a vacuous test would let pass: a compiled loop that is never taken because there is too little to do (it is called
here by name, and once through the public function with more queries than its threshold); a cutoff that never falls
inside a group, or never inside one that an empty group follows, as empty distances do in every code space; sums so
short that the formula for long ones is never used; rows that are only ever compared in the first panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lookalike as la
from lookalike.core.embeddings import Embeddings
from lookalike.core.kernels import kernels
from lookalike.metrics.areas import threshold_sums
from lookalike.metrics.average_precision import Sums, at_cut, precision_sums
from lookalike.metrics.dcg import gain_sums, gains_of
from lookalike.metrics.rank_sums import discounts, inverse_ranks
from lookalike.metrics.reciprocal_rank import first_relevant

Array = NDArray[Any]
TOLERANCE = 1e-12


# Sums of precision


def sums_of(function: Callable[..., None], relevant: Array, retrieved: Array, k: float | Array) -> Sums:
    sums = Sums(*np.full((12, len(relevant)), -7.0))  # what is not filled is seen
    function(relevant, retrieved, np.broadcast_to(np.asarray(k, float), len(relevant)).copy(), *sums)
    return sums


def assert_same_sums(groups: list[list[tuple[int, int]]], k: float | Array) -> None:
    """Groups of each query as (items, relevant items)."""
    retrieved, relevant = np.array(groups, float).transpose(2, 0, 1).copy()
    plain, compiled = (sums_of(f, relevant, retrieved, k) for f in (precision_sums, kernels().precision_sums))
    # only the group that is cut has facts worth comparing, and both must say alike that there is none
    for name, one, other in zip(Sums._fields, plain, compiled, strict=True):
        np.testing.assert_allclose(other, one, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{name}, k={k}, {groups}")


GROUPS = st.integers(0, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@settings(deadline=None, max_examples=150)
@given(data=st.data(), shape=st.tuples(st.integers(1, 3), st.integers(1, 6)))
def test_sums_of_precision_agree_at_every_cutoff(data: st.DataObject, shape: tuple[int, int]) -> None:
    n_queries, n_groups = shape
    row = st.lists(GROUPS, min_size=n_groups, max_size=n_groups)
    groups = data.draw(st.lists(row, min_size=n_queries, max_size=n_queries))
    deepest = max(sum(n for n, _ in one) for one in groups)
    for k in [*range(1, deepest + 3), math.inf]:
        assert_same_sums(groups, float(k))
    own = data.draw(st.lists(st.integers(0, deepest + 1), min_size=n_queries, max_size=n_queries))
    assert_same_sums(groups, np.array(own, float))  # a cutoff of each query


@pytest.mark.parametrize("k", [1, 63, 64, 65, 70, 5000, 1_000_000, 2_000_000, math.inf])
def test_sums_of_precision_agree_far_down(k: float) -> None:
    assert_same_sums([[(60, 7), (10, 3), (3, 3), (0, 0), (1_000_000, 999), (1, 1), (500_000, 500_000)]], float(k))


def test_an_empty_distance_behind_the_cut_changes_nothing() -> None:
    """Two items at distance 0, ten at 1, none at 2 and 3: the cutoff 5 falls among the ten."""
    assert_same_sums([[(2, 1), (10, 5), (0, 0), (0, 0), (3, 2)]], 5.0)


def test_average_precision_at_a_cut_agrees_with_every_number_of_hits() -> None:
    """The compiled twin seeks the best at both ends and the worst where the mean turns; numpy tries every number."""
    rng = np.random.default_rng(0)
    rows: list[list[float]] = []
    for size in (3, 12, 200, 5000):
        for _ in range(400):
            before = int(rng.integers(0, size))
            relevant_before = int(rng.integers(0, before + 1)) if rng.random() < 0.7 else 0
            n = int(rng.integers(2, size + 2))
            relevant = int(rng.integers(0, n + 1)) if rng.random() < 0.8 else n
            best, worst = sorted(rng.random(2) * relevant_before)[::-1]  # precisions of 0 to 1 above the group
            middle = (best + worst) / 2
            rows.append([middle, best, worst, before, relevant_before, n, relevant, int(rng.integers(1, n))])
    columns = np.array(rows, float).T.copy()
    plain, compiled = np.full((2, 3, len(rows)), np.nan)
    at_cut(*columns, plain)
    kernels().average_precision_at_cut(*columns, compiled)
    np.testing.assert_allclose(compiled, plain, rtol=TOLERANCE, atol=TOLERANCE)
    assert (np.ptp(plain, axis=0) > 0).mean() > 0.8


def test_many_queries_have_the_value_of_one() -> None:
    """Four thousand equal queries take the compiled loops, one takes numpy's."""
    gallery = la.Codes.pack([[0, 0, 0, 0]] * 2 + [[0, 0, 0, 1]] * 10 + [[1, 1, 1, 1]] * 3)
    labels = [1, 0] + [1, 0] * 5 + [0, 1, 1]
    names = [f"{m}@{k}" for m in ("AP", "AP(norm='total')", "AP(norm='min')", "RR", "Hit") for k in (1, 2, 5, 12, 15)]
    names += ["AP", "RR", "nDCG@5"]
    one, many = (
        la.evaluate(la.Codes.pack(np.zeros((n, 4))), gallery, la.same_label([1] * n, labels), names) for n in (1, 4000)
    )
    for name in names:
        for part in ("per_query", "best_per_query", "worst_per_query"):
            wanted = np.full(4000, getattr(one[name], part)[0])
            np.testing.assert_allclose(getattr(many[name], part), wanted, rtol=0, atol=TOLERANCE, err_msg=name)


# Where the cutoff falls inside a group


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    n=st.one_of(st.integers(2, 30), st.integers(31, 2000)),
    before=st.sampled_from([0, 1, 5, 63, 64, 1000, 100_000]),
)
def test_average_precision_at_the_cut_agrees(data: st.DataObject, n: int, before: int) -> None:
    relevant = data.draw(st.one_of(st.sampled_from([0, 1, n - 1, n]), st.integers(0, n)))
    places = data.draw(st.one_of(st.sampled_from([1, n - 1]), st.integers(1, n - 1)))
    hits = data.draw(st.one_of(st.sampled_from([0, before]), st.integers(0, before)))
    ahead = hits * np.array([0.5, 0.75, 0.25])  # sums of precision of the groups ahead
    arguments = [np.array([x], float) for x in (*ahead, before, hits, n, relevant, places)]
    plain, compiled = np.empty((3, 1)), np.empty((3, 1))
    at_cut(*arguments, plain)
    kernels().average_precision_at_cut(*arguments, compiled)
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=TOLERANCE)


# The first relevant item


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    n=st.one_of(st.integers(1, 30), st.sampled_from([1000, 10_000])),
    before=st.sampled_from([0, 1, 64, 10**6]),
)
def test_the_first_relevant_item_agrees(data: st.DataObject, n: int, before: int) -> None:
    relevant = data.draw(st.one_of(st.sampled_from([1, n]), st.integers(1, n)))
    k = data.draw(st.sampled_from([1.0, before + 1.0, before + n / 2, float(before + n), math.inf]))
    arguments = [np.array([x], float) for x in (before, n, relevant)]
    plain, compiled = np.empty((2, 1)), np.empty((2, 1))
    first_relevant(*arguments, k, plain)
    kernels().first_relevant(*arguments, k, compiled)
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=TOLERANCE)


# Sums over ranks, against the sum of their terms


@pytest.mark.parametrize(
    ("before", "n"),
    [
        *((0, 0), (0, 1), (0, 63), (0, 64), (0, 65), (63, 1), (63, 2), (64, 1), (64, 3), (65, 0), (1, 999)),
        *((0, 10**6), (10**5, 1), (10**5, 7), (999_000, 1000), (10**6, 2), (10**6, 10**5)),
    ],
)
def test_sums_of_inverse_ranks(before: int, n: int) -> None:
    exact = math.fsum(1 / rank for rank in range(before + 1, before + n + 1))
    np.testing.assert_allclose(inverse_ranks(np.array([before]), np.array([n])), [exact], rtol=1e-14, atol=0)


@pytest.mark.parametrize("kind", ["log2", "reciprocal"])
def test_sums_of_discounts(kind: str) -> None:
    """To 1e-13 of their size: a difference of two far down still has the digits that a metric shows."""
    depths = [0, 1, 2, 100, 65_535, 65_536, 65_537, 65_600, 70_000, 10**6]
    terms = (1 / (math.log2(rank + 1) if kind == "log2" else rank) for rank in range(1, depths[-1] + 1))
    values = list(terms)
    exact = [math.fsum(values[:depth]) for depth in depths]
    np.testing.assert_allclose(discounts(np.array(depths), kind), exact, rtol=1e-13, atol=0)


def test_discounts_rise_steadily_where_the_formula_takes_over() -> None:
    ranks = np.arange(65_500, 65_700)
    steps = np.diff(discounts(ranks, "log2"))
    np.testing.assert_allclose(steps, 1 / np.log2(ranks[1:] + 1), rtol=1e-8)


# The two ways to count scores


def relevance_of(kind: str, rng: np.random.Generator, n_queries: int, n_items: int) -> Any:
    def draw(high: int, *more: int) -> list[Array]:
        return [rng.integers(0, high, (n, *more)) for n in (n_queries, n_items)]

    if kind == "labels":
        return la.same_label(*draw(4))
    if kind == "hierarchy":
        (qf, gf), (qc, gc) = draw(6), draw(3)
        return la.hierarchy((qf, qc), (gf, gc))
    if kind == "tags":
        return la.shared_tags(*draw(2, 5))
    if kind == "attributes":
        return la.matching_attributes(*draw(3, 2))
    if kind == "grades":
        return la.grades(rng.integers(0, 4, (n_queries, n_items)))
    pairs = [(q, i, int(g)) for (q, i), g in np.ndenumerate(rng.integers(-3, 3, (n_queries, n_items))) if g >= 0]
    return la.judged([*pairs, (0, n_items + 5, 2)])


@pytest.mark.parametrize("kind", ["labels", "hierarchy", "tags", "attributes", "grades", "judged"])
@pytest.mark.parametrize("excluding", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_counting_around_marks_is_counting_plainly(kind: str, excluding: bool, keep: bool) -> None:
    for n_queries, n_items, n_scores in ((1, 1, 1), (3, 40, 4), (2, 40, 10**6), (96 + 1, 7, 3), (4, 300, 1)):
        rng = np.random.default_rng([n_queries, n_items, keep])
        relevance = relevance_of(kind, rng, n_queries, n_items)
        scores = rng.integers(-n_scores, n_scores, (n_queries, n_items)) / 4
        exclude = (rng.integers(0, 3, n_queries), rng.integers(0, 4, n_items)) if excluding else None
        for dtype in (np.float32, np.float64):
            plain, around = (
                la.count_scores(scores.astype(dtype), relevance, exclude=exclude, scores=keep, method=method)
                for method in ("plain", "around")
            )
            assert (plain.method, around.method) == ("plain", "around")
            ranked = plain.counts.sum() + plain.unjudged.sum()
            assert excluding or ranked == n_queries * n_items, "this test counted nothing"
            for name in ("counts", "unjudged", "scores"):
                np.testing.assert_array_equal(getattr(around, name), getattr(plain, name), err_msg=f"{kind} {name}")
            assert around.complete == plain.complete == keep


# A score depends on its two rows alone


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("n_dims", [1, 2, 7, 33, 128])
def test_a_score_is_the_same_bits_wherever_its_rows_stand(n_dims: int, similarity: str, dtype: type) -> None:
    rng = np.random.default_rng(n_dims)
    query, item = rng.standard_normal((2, n_dims)).astype(dtype)
    alone = Embeddings(query[None], item[None], similarity).rows(slice(0, 1))[0, 0]
    assert np.isfinite(alone)
    for n_queries, n_items in ((5, 15), (6, 16), (7, 17), (13, 33)):
        queries, gallery = (rng.standard_normal((n, n_dims)).astype(dtype) for n in (n_queries, n_items))
        queries[::2], gallery[::3] = query, item
        embeddings = Embeddings(queries, gallery, similarity)
        for rows in (embeddings.rows(slice(0, n_queries))[::2].copy(), embeddings.rows(slice(2, 3)).copy()):
            found = rows[:, ::3]
            assert found.dtype == (np.float64 if similarity == "euclidean" else dtype)
            np.testing.assert_array_equal(found, np.full(found.shape, alone))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_have_distance_zero(dtype: type) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 33)).astype(dtype)
    found = la.evaluate(rows, rows, la.same_label(range(50), range(50)), ["R(radius=0)"], similarity="euclidean")
    np.testing.assert_array_equal(found["R(radius=0)"].per_query, np.ones(50))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), shape=st.tuples(st.integers(1, 4), st.integers(0, 6), st.integers(2, 4)), k=st.integers(1, 40))
def test_sums_of_gains_and_of_thresholds_agree(data: st.DataObject, shape: tuple[int, int, int], k: int) -> None:
    """Counts with empty groups, empty queries, one grade only; cutoffs before, in and behind every group."""
    n_queries, n_groups, n_grades = shape
    cells = st.lists(
        st.integers(0, 5), min_size=n_queries * n_groups * n_grades, max_size=n_queries * n_groups * n_grades
    )
    by_grade = np.array(data.draw(cells), np.int64).reshape(n_grades, n_queries, n_groups)
    for gain, discount in (("linear", "log2"), ("exponential", "reciprocal")):
        found, wanted = np.zeros((2, 3, n_queries))
        gains = gains_of(n_grades, gain)
        gain_sums(by_grade, gains, k, discount, wanted)
        kernels().gain_sums(by_grade, gains, discounts(np.arange(k + 1), discount), found)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    found, wanted = np.empty((2, 5, n_queries))
    relevant, retrieved = by_grade[1:].sum(0).astype(float), by_grade.sum(0).astype(float)
    threshold_sums(relevant, retrieved, wanted)
    kernels().threshold_sums(relevant, retrieved, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
