"""Prevalence: the paper's figures, exact intervals against sums of binomials, and which pairs count."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from lookalike.discovery.judgements import Judgements
from lookalike.discovery.prevalence import (
    Prevalence,
    chebyshev_error,
    chebyshev_size,
    cost,
    enrichment,
    estimate,
    exact_interval,
    lower_bound,
    pairs_saved,
    prevalence,
)
from reference import votes as slow

# Barkan et al. 2023, sections 3.1 to 3.3


def test_the_papers_figures_follow() -> None:
    share = 45_920 / 54_170
    assert round(share, 4) == 0.8477
    assert round(lower_bound(45_920, 2_000, 52_712), 6) == 0.000436
    assert lower_bound(45_920, 2_000, 52_712) == 45_920 / (2_000 * 52_711)
    floor = lower_bound(45_920, 2_000, 52_712)
    assert estimate(2, 2_000, floor) == 0.001
    assert round(enrichment(share, 0.001)) == 848
    assert round(enrichment(share, 8 * 0.001)) == 106
    assert round(pairs_saved(2_000, 52_712, 2_000 * 36)) == round(52_711 / 36) == 1_464
    assert (cost(10**7), cost(100_000)) == ("4.75 years", "17.4 days")


def test_the_whole_of_it_at_the_papers_size() -> None:
    """Six models with 54,170 pairs of 2,000 queries between them, 45,920 positive, and 2 of 2,000 random pairs."""
    pairs = [(f"q{i % 2_000}", f"i{i}") for i in range(54_170)]
    chance = [(f"q{i}", f"r{i}") for i in range(2_000)]
    rows = [(*pair, int(i < 45_920)) for i, pair in enumerate(pairs)]
    rows += [(*pair, int(i < 2)) for i, pair in enumerate(chance)]
    models = {f"m{m}": pairs[m::6] for m in range(6)}
    found = prevalence(rows, models, random=chance, n_queries=2_000, n_items=52_712)
    assert (found.pool.pairs, found.pool.positives, found.pool.unjudged) == (54_170, 45_920, 0)
    assert round(found.pool.share, 4) == 0.8477
    assert round(found.p_lower, 6) == round(found.p_lower_proposed, 6) == 0.000436
    assert found.p_lower_proposed == 45_920 / (2_000 * 52_711)
    assert (found.p_estimate, round(found.enrichment)) == (0.001, 848)
    assert found.interval == (found.p_lower, pytest.approx(0.003608, abs=1e-6))  # 0.000121 without the floor
    p_k, by_chance = (
        binomtest(*counts).proportion_ci(0.975, method="exact") for counts in ((45_920, 54_170), (2, 2_000))
    )
    assert found.enrichment_interval == pytest.approx((p_k.low / by_chance.high, p_k.high / found.p_lower), rel=1e-9)
    assert found.to_judge == 54_170 + 2_000
    assert found.saved == pytest.approx(2_000 * 52_711 / 56_170)
    assert [model.pairs for model in found.models] == [len(part) for part in models.values()]
    by_proposals = "at least 4.4e-04 are positive (4.4e-04 of proposed pairs alone)"
    assert str(found).splitlines()[-3:] == [
        f"of all 105,422,000 pairs {by_proposals}, by estimate 0.0010 (4.4e-04 to 0.0036)",
        "the pool is 848 times richer (208 to 1,954)",
        "judging 56,170 takes 9.75 days at 15 seconds a pair, judging all 50.1 years, 1,877 times as long",
    ]


# The functions


@settings(max_examples=60)
@given(
    st.integers(0, 30).flatmap(lambda b: st.tuples(st.integers(0, b), st.just(b))), st.sampled_from([0.5, 0.9, 0.99])
)
def test_intervals_are_those_of_binomial_sums(counts: tuple[int, int], level: float) -> None:
    assert exact_interval(*counts, level) == pytest.approx(slow.exact_interval(*counts, level), abs=1e-9)


def test_intervals_are_scipys() -> None:
    for a, b in ((2, 2_000), (0, 2_000), (45_920, 54_170), (7, 7)):
        theirs = binomtest(a, b).proportion_ci(0.95, method="exact")
        assert exact_interval(a, b) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_exact_intervals_never_cover_less_than_they_say() -> None:
    n = 25
    intervals = [exact_interval(a, n, 0.9) for a in range(n + 1)]
    for share in np.linspace(0.001, 0.999, 499):
        hits = [math.comb(n, a) * share**a * (1 - share) ** (n - a) for a in range(n + 1)]
        assert sum(hit for hit, (low, high) in zip(hits, intervals, strict=True) if low <= share <= high) >= 0.9 - 1e-9


@given(st.integers(0, 20), st.integers(0, 20), st.floats(0, 1))
def test_the_floor_is_never_undercut(a: int, more: int, floor: float) -> None:
    low, high = exact_interval(a, a + more, 0.95, floor)
    free_low, free_high = exact_interval(a, a + more, 0.95)
    assert (low, high) == (max(low, floor, free_low), max(floor, free_high))
    assert low <= estimate(a, a + more, floor) <= high
    assert estimate(0, 0, floor) == floor
    assert exact_interval(0, 0, 0.95, floor) == (floor, 1.0)


def test_chebyshevs_size_keeps_its_promise() -> None:
    """With b = 1/(ε·q) random pairs the error reaches ε less often than q, whatever the share below ε."""
    error, risk = 0.05, 0.2
    b = chebyshev_size(error, risk)
    assert b == 100
    for share in np.linspace(0.001, 0.0499, 20):
        far = sum(
            math.comb(b, a) * share**a * (1 - share) ** (b - a) for a in range(b + 1) if abs(a / b - share) >= error
        )
        assert far <= risk
    assert chebyshev_size(0.001, 0.05) == 20_000
    assert chebyshev_size(0.003, 0.07) == math.ceil(1 / 0.00021)
    assert [chebyshev_size(1 / k, 0.1) for k in (3, 7, 11, 1000)] == [30, 70, 110, 10_000]


def test_what_chebyshev_promises_of_so_many_pairs() -> None:
    assert chebyshev_error(2_000, 0.05) == pytest.approx(0.01)  # of the 2,000 random pairs of Barkan et al. 2023
    assert chebyshev_error(0, 0.05) == math.inf
    for error, risk in ((0.01, 0.05), (0.003, 0.07), (0.2, 0.5)):
        b = chebyshev_size(error, risk)
        assert chebyshev_error(b, risk) <= error + 1e-15 < chebyshev_error(b - 1, risk)


def test_costs_in_every_unit() -> None:
    costs = [cost(pairs) for pairs in (0, 1, 4, 6, 240, 5760, 5_000_000, 10**9)]
    assert costs == [
        "0 seconds", "15 seconds", "1 minute", "1.5 minutes", "1 hour", "1 day", "2.38 years", "475 years",
    ]  # fmt: skip
    assert cost(10_000, seconds=3) == "8.33 hours"


def test_enrichment_where_nothing_is_positive() -> None:
    assert enrichment(0.5, 0.0) == math.inf
    assert math.isnan(enrichment(0.0, 0.0))
    assert enrichment(0.0, 0.1) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimate(3, 2), "from 0 to the number of pairs, got 3 of 2"),
        (lambda: exact_interval(-1, 2), "from 0 to the number of pairs, got -1 of 2"),
        (lambda: exact_interval(1, 2, 1.0), "level of an interval must be between 0 and 1, got 1.0"),
        (lambda: exact_interval(1, 2, 0.9, 1.5), "got a floor of 1.5"),
        (lambda: chebyshev_size(0, 0.1), "error must be between 0 and 1, got 0"),
        (lambda: chebyshev_size(0.1, 1), "risk must be between 0 and 1, got 1"),
        (lambda: chebyshev_error(100, 0), "risk must be between 0 and 1, got 0"),
        (lambda: lower_bound(1, 0, 5), "got 0 queries and 5 items"),
        (lambda: pairs_saved(1, 1, 5), "got 1 queries and 1 items"),
        (lambda: cost(-1), "pairs must be from 0"),
        (lambda: cost(1, seconds=0), "seconds above 0"),
    ],
)
def test_wrong_numbers_are_told(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# Judgements and proposals

PAIRS = [("q", "a"), ("q", "b"), ("q", "c"), ("p", "a"), ("p", "d")]


def small(**options: Any) -> Prevalence:
    rows = [("q", "a", 1), ("q", "b", 0), ("p", "a", 2), ("q", "z", 1), ("p", "z", 0)]
    models = {"one": {PAIRS[0], PAIRS[1], PAIRS[3]}, "two": np.array([PAIRS[0], PAIRS[2], PAIRS[4], PAIRS[4]])}
    options = {"random": [("q", "z"), ("p", "z"), ("p", "y")], "n_queries": 2, "n_items": 101} | options
    return prevalence(rows, models, **options)


def test_only_judged_pairs_count_and_each_once() -> None:
    found = small()
    assert {row["name"]: [row[n] for n in ("pairs", "judged", "unjudged", "positives")] for row in found.rows()} == {
        "pool": [5, 3, 2, 2],
        "one": [3, 3, 0, 2],
        "two": [3, 1, 2, 1],
        "random": [3, 2, 1, 1],
    }
    assert found.pool.share == 2 / 3
    assert (found.pool.low, found.pool.high) == exact_interval(2, 3)
    assert found.p_lower == 3 / 200  # two were proposed, one only drawn
    assert found.p_lower_proposed == found.to_dict()["p_lower_proposed"] == 2 / 200  # as Barkan et al. 2023 count
    assert "at least 0.0150 are positive (0.0100 of proposed pairs alone)" in str(found)
    assert found.p_estimate == 1 / 2
    assert found.enrichment == pytest.approx(4 / 3)
    assert found.interval == exact_interval(1, 2, 0.95, 0.015)
    low, high = exact_interval(1, 2, 0.975, 0.015)
    pool_low, pool_high = exact_interval(2, 3, 0.975)
    assert found.enrichment_interval == pytest.approx((pool_low / high, pool_high / low))


def test_without_random_pairs_the_estimate_is_the_lower_bound() -> None:
    for nothing in ((), [("p", "y")]):
        found = small(random=nothing)
        assert (found.p_estimate, found.interval) == (found.p_lower, (found.p_lower, 1.0))
        assert "no random pair is judged" in str(found)
    assert "by estimate" in str(small())


def test_the_number_of_pairs_can_be_given() -> None:
    found = small(n_pairs=50)
    assert (found.n_pairs, found.p_lower) == (50, 3 / 50)
    assert (found.to_judge, found.saved) == (8, 50 / 8)


def test_a_pool_without_judgements_is_no_error() -> None:
    nothing = Judgements(np.array([], str), np.array([], str), np.array([], int))
    found = prevalence(nothing, {"one": PAIRS}, n_queries=2, n_items=5)
    assert math.isnan(found.pool.share)
    assert math.isnan(found.enrichment)
    assert (found.pool.judged, found.p_lower, found.p_estimate) == (0, 0, 0)
    assert str(found).splitlines()[1].split()[:5] == ["pool", "5", "5", "0", "-"]


def test_it_is_plain_values_and_a_table() -> None:
    found = small()
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["pool"]["unjudged"] == 2
    assert [model["name"] for model in plain["models"]] == ["one", "two"]
    assert plain["enrichment_interval"] == list(found.enrichment_interval)
    assert set(plain) == set(vars(found)) | {"saved"}
    assert found.to_pandas().loc["two", "pairs"] == 3
    assert str(found).splitlines()[0].split() == ["pairs", "unjudged", "positive", "share", "95%", "interval"]
    assert "90% interval" in str(small(level=0.9))
    assert small(level=0.5).pool.low > small(level=0.9).pool.low
    assert "at 3 seconds a pair" in str(small(seconds=3))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"n_queries": 1}, ValueError, "5 pairs of 2 queries are proposed, more than the 100 pairs of 1 queries"),
        ({"n_items": 3}, ValueError, "5 pairs of 2 queries are proposed, more than the 4 pairs"),
        ({"n_pairs": 0}, ValueError, "more than the 0 pairs"),
        ({"random": "qz"}, TypeError, "random pairs must be rows"),
        ({"random": [("q", "z", 1)]}, ValueError, "random pairs must be rows"),
        ({"level": 2}, ValueError, "level of an interval"),
    ],
)
def test_what_does_not_fit_is_told(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        small(**change)


def test_proposals_have_names() -> None:
    for wrong in (PAIRS, {}):
        with pytest.raises(TypeError, match="proposals must have the models' names"):
            prevalence([("q", "a", 1)], wrong, n_queries=2, n_items=9)  # type: ignore[arg-type]
