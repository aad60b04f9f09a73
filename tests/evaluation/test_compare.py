"""Comparing: the randomisation test against every flip of signs, Holm by hand, intervals that cover as they say."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lookalike as la
from lookalike.core.bootstrap import bootstrap_interval
from lookalike.evaluation.compare import holm, randomisation_test

Array = NDArray[Any]


def exact_p(differences: Array) -> float:
    """The share of all sign flips whose sum is at least as far from zero."""
    signs = np.array(list(itertools.product([-1, 1], repeat=len(differences))))
    sums = np.abs(signs @ differences)
    return float((sums >= abs(differences.sum()) - 1e-12 * np.abs(differences).sum()).mean())


def evaluation(values: Any, ids: Any = None, name: str = "P@1") -> Any:
    """An evaluation whose metric has these values, made of scores: RR is 1/rank, P@1 is 0 or 1."""
    n = len(values)
    scores = np.zeros((n, 4))
    for row, value in zip(scores, values, strict=True):
        row[:] = [2 if value else 0, 1, 0.5, -1]
    return la.evaluate_scores(scores, la.grades([[1, 0, 0, 0]] * n), [name, "RR"], query_ids=ids)


# The randomisation test


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.one_of(st.sampled_from([0.0, 0.5, -0.5, 1.0]), st.integers(-999, 999).map(lambda i: i / 1000)),
        min_size=1,
        max_size=11,
    )
)
def test_the_p_value_is_that_of_every_flip(differences: list[float]) -> None:
    values = np.array(differences)
    exact = exact_p(values)
    found = randomisation_test(values, resamples=9999)
    # five standard deviations of a share of 9999 draws, and the one that is always counted
    assert abs(found - exact) <= 5 * math.sqrt(exact * (1 - exact) / 9999) + 1 / 9999


def test_sums_that_differ_by_rounding_alone_are_equal() -> None:
    """0.1 + 0.2 - 0.3 is not quite 0 in floats, and no flip of signs may count as nearer to 0 than it."""
    for values in ([0.1, 0.2, -0.3], [0.3, -0.1, -0.2], [0.7, -0.1, -0.6, 0.0], [0.1, 0.7, -0.2, -0.6]):
        assert exact_p(np.array(values)) == 1.0
        assert randomisation_test(np.array(values)) == 1.0


def test_no_difference_and_no_query() -> None:
    assert randomisation_test(np.zeros(10)) == 1.0
    assert math.isnan(randomisation_test(np.zeros(0)))


def test_the_p_value_is_never_zero_and_is_reproducible() -> None:
    values = np.random.default_rng(0).normal(1, 0.1, 100)
    assert randomisation_test(values, resamples=999) == 1 / 1000
    noise = np.random.default_rng(1).normal(0.1, 1, 100)
    assert randomisation_test(noise, random_state=3) == randomisation_test(noise, random_state=3)
    assert randomisation_test(noise, random_state=3) == randomisation_test(-noise, random_state=3)


# Holm


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        # sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04 -> 0.06, which may not fall
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.2], [0.2]),
        ([], []),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.01, 0.01, 0.01], [0.03, 0.03, 0.03]),
    ],
)
def test_holm_by_hand(p_values: list[float], corrected: list[float]) -> None:
    assert holm(p_values) == pytest.approx(corrected, abs=1e-15)


def test_a_pair_without_a_common_query_does_not_spoil_the_others() -> None:
    for p_values, i in (([math.nan, 0.01], 1), ([0.01, math.nan], 0), ([0.5, math.nan, 0.01], 2)):
        assert holm(p_values)[i] <= len(p_values) * 0.01 + 1e-15


# Bootstrap intervals


def test_intervals_cover_the_true_mean_as_often_as_they_say() -> None:
    """Percentile intervals of 60 skewed values cover a little less than their level: 0.9 within 0.05, of 300 draws."""
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(300):
        low, high = bootstrap_interval(rng.beta(2, 3, 60), 0.9, seed, 400)
        covered += low <= 2 / 5 <= high
    assert 0.85 <= covered / 300 <= 0.95


def test_a_higher_level_is_a_wider_interval_around_the_mean() -> None:
    score = evaluation([1, 0] * 20)["RR"]
    narrow, wide = score.interval(0.5), score.interval(0.99)
    assert wide[0] < narrow[0] < score.mean < narrow[1] < wide[1]


def test_intervals_are_reproducible_by_seed() -> None:
    score = evaluation([1, 0, 0] * 20)["RR"]
    assert score.interval(0.95, random_state=1) == score.interval(0.95, random_state=1)
    assert score.interval(0.95, random_state=1) != score.interval(0.95, random_state=2)
    pair = {"a": evaluation([1, 0, 0] * 20), "b": evaluation([0, 0, 1] * 20)}
    assert str(la.compare(pair, random_state=4)) == str(la.compare(pair, random_state=4))


def test_an_interval_leaves_undefined_queries_out() -> None:
    relevance = la.grades([[1, 0]] * 10 + [[0, 0]] * 10)
    score = la.evaluate_scores([[2, 1]] * 20, relevance, ["AP"], undefined="skip")["AP"]
    assert score.interval() == (1.0, 1.0)
    nothing = la.evaluate_scores([[2, 1]], la.grades([[0, 0]]), ["AP"], undefined="skip")["AP"]
    assert all(math.isnan(bound) for bound in nothing.interval())


# Comparing evaluations


def test_queries_are_matched_by_id_whatever_their_order() -> None:
    values = np.array([1, 1, 0, 1, 0, 0, 1, 0])
    ids = np.array([f"q{i}" for i in range(8)])
    order = np.random.default_rng(0).permutation(8)
    a, b = evaluation(values, ids), evaluation(1 - values, ids)
    shuffled = evaluation((1 - values)[order], ids[order])
    straight, crossed = la.compare({"a": a, "b": b}), la.compare({"a": a, "b": shuffled})
    assert straight.rows() == crossed.rows()
    other_way = la.compare({"b": shuffled, "a": a})
    for one, two in zip(straight.differences, other_way.differences, strict=True):
        assert (one.difference, one.p_value) == pytest.approx((-two.difference, two.p_value), abs=1e-12)
    same = la.compare({"a": evaluation(values, ids), "b": evaluation(values[order], ids[order])})
    assert all(d.difference == d.low == d.high == 0 and d.p_value == 1 for d in same.differences)


def test_a_comparison_has_every_pair_and_the_right_numbers() -> None:
    systems = {"good": evaluation([1] * 12), "fair": evaluation([1, 0] * 6), "poor": evaluation([0] * 12)}
    comparison = la.compare(systems, level=0.9)
    p1 = [d for d in comparison.differences if str(d.metric) == "P@1"]
    assert [(d.first, d.second) for d in p1] == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    assert [d.difference for d in p1] == [0.5, 1.0, 0.5]
    assert all(d.low <= d.difference <= d.high for d in p1)
    assert [d.corrected for d in p1] == holm([d.p_value for d in p1])
    assert len(comparison.differences) == 2 * 3
    assert "90% interval" in str(comparison)
    table = comparison.to_pandas()
    assert list(table["metric"].unique()) == ["P@1", "RR"]
    assert len(table) == 6


def test_only_metrics_that_all_have_are_compared() -> None:
    a, b = evaluation([1, 0], name="P@1"), evaluation([1, 0], name="P@2")
    assert {str(d.metric) for d in la.compare({"a": a, "b": b}).differences} == {"RR"}


def test_only_queries_where_both_have_a_value_count() -> None:
    relevance = la.grades([[1, 0], [1, 1], [1, 0]])  # the second has one class only: no AUC
    a, b = (la.evaluate_scores([row] * 3, relevance, ["AUC"]) for row in ([2, 1], [1, 2]))
    (found,) = la.compare({"a": a, "b": b}).differences
    assert found.difference == 1.0


def test_names_of_systems_are_escaped_in_html() -> None:
    html = la.compare({"<b>": evaluation([1, 0]), "b&": evaluation([0, 1])})._repr_html_()
    assert "&lt;b&gt; - b&amp;" in html
    assert "<b>" not in html


def test_saved_evaluations_that_do_not_say_their_inputs_are_compared(tmp_path: Path) -> None:
    evaluation = la.evaluate_scores([[2, 1]] * 5, la.grades([[1, 0]] * 5), ["RR"])
    saved = json.loads(evaluation.to_json())
    del saved["inputs"]
    (tmp_path / "saved.json").write_text(json.dumps(saved))
    compared = la.compare({"one": evaluation, "other": la.Evaluation.from_json(tmp_path / "saved.json")})
    assert "+0.0000" in str(compared)
