"""Who leads a leaderboard, and how surely: one difference, interval and p-value that belong together; ties are ties."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.discovery import Collection, Judgements, Leaderboard, Pool, leaderboard, leave_one_out
from lookalike.discovery.standing import Number, Placing, leaders_of, leading_number, placing
from lookalike.discovery.standing_text import place_text, standing_table, who_leads
from lookalike.evaluation.results import Evaluation, Score
from lookalike.metrics.metric import Metric
from lookalike.metrics.values import Values
from lookalike.report.leaderboard.standing import Standing
from lookalike.report.leaderboard.table import _best, columns

AUC = Metric.parse("AUC")


def board_with(values: dict[str, Any], *, seed: int = 0) -> Leaderboard:
    """A board without a pool whose models have these AUCs of each query."""
    columns = {name: np.asarray(each, float) for name, each in values.items()}
    n = len(next(iter(columns.values())))
    collection = Collection([f"q{i}" for i in range(n)], ["a", "b"])
    judged = Judgements.of([(f"q{i}", item, int(item == "a")) for i in range(n) for item in "ab"])
    models = {name: np.array([[2.0, 1.0]] * n) for name in columns}
    base = leaderboard(models, judged, collection, metrics="AUC", resamples=20, seed=seed)
    scores = {name: Score(AUC, Values(each, each, each), int(np.isnan(each).sum())) for name, each in columns.items()}
    found = {name: Evaluation({AUC: score}, base[name].query_ids, base[name].about) for name, score in scores.items()}
    return dataclasses.replace(base, evaluations=found)


def random_placing(seed: int, n_models: int, n_queries: int, shift: float, undefined: float) -> Placing:
    rng = np.random.default_rng(seed)
    values = {}
    for n in range(n_models):
        column = rng.normal(0.5 + shift * (n == 0), 0.2, n_queries)
        column[rng.random(n_queries) < undefined] = np.nan
        column[0] = 0.5
        values[f"m{n}"] = column
    return placing(board_with(values))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n_models=st.integers(2, 6),
    n_queries=st.integers(3, 60),
    shift=st.sampled_from([0.0, 0.05, 0.1, 0.15]),
    undefined=st.sampled_from([0.0, 0.4]),
)
def test_difference_interval_and_p_value_belong_together(
    seed: int, n_models: int, n_queries: int, shift: float, undefined: float
) -> None:
    found = random_placing(seed, n_models, n_queries, shift, undefined)
    values = {place.model: place.value for place in found.places}
    assert len(found.gaps) == n_models - 1
    for gap in found.gaps:
        assert gap.difference == values[found.leaders[0]] - values[gap.model] >= 0
        assert (gap.low > 0 or gap.high < 0) == (gap.p_value < 0.05)
        assert 0 < gap.p_value <= 1
        assert gap.low <= gap.high


def test_a_difference_is_that_of_the_two_numbers_though_queries_without_a_value_differ() -> None:
    """Paired over the common queries the difference would be +0.12, of two means that nobody sees."""
    first = [0.9] * 10 + [0.3] * 5 + [math.nan] * 5
    second = [0.78] * 10 + [math.nan] * 5 + [0.1] * 5
    found = placing(board_with({"first": first, "second": second}))
    assert [place.value for place in found.places] == pytest.approx([0.7, 0.5533333333])
    assert found.gaps[0].difference == pytest.approx(0.1466666667)
    assert "0.700" in who_leads(found)
    assert "ahead of second (0.553) by 0.147 (" in who_leads(found)  # as the reader subtracts them


@pytest.mark.parametrize("n_models", [2, 6])
def test_interval_and_p_value_are_bonferronis(n_models: int) -> None:
    """Of many queries, those of the normal approximation."""
    rng = np.random.default_rng(4)
    other = rng.normal(0.5, 0.1, 400)
    values = {"first": other + rng.normal(0.012, 0.1, 400)} | {f"m{n}": other for n in range(1, n_models)}
    difference = values["first"] - other
    found = placing(board_with(values))
    error = float(difference.std()) / math.sqrt(400)
    normal = statistics.NormalDist()
    wide = normal.inv_cdf(1 - 0.025 / (n_models - 1)) * error
    expected = (n_models - 1) * 2 * (1 - normal.cdf(float(difference.mean()) / error))
    for gap in found.gaps:
        assert (gap.low, gap.high) == pytest.approx((difference.mean() - wide, difference.mean() + wide), abs=0.002)
        assert gap.p_value == pytest.approx(expected, rel=0.2, abs=0.002)
    assert ("corrected for 5 comparisons" in who_leads(found)) == (n_models == 6)


def test_queries_weigh_in_the_lead_as_in_the_number() -> None:
    """AP(empty='skip') counts a query by its chance of a hit; the interval is that of the normal approximation."""
    rng = np.random.default_rng(0)
    queries, items = [f"q{n}" for n in range(200)], [f"i{n}" for n in range(30)]
    models = {name: rng.integers(0, 3, (200, 30)).astype(float) for name in ("one", "two")}
    judged = Judgements.of([(query, item, int(rng.random() < 0.1)) for query in queries for item in items])
    board = leaderboard(models, judged, Collection(queries, items), metrics="AP(empty=skip)@3")
    first, second = (board[model]["AP(empty=skip)@3"] for model in board.placing.ranking)
    (gap,) = board.placing.gaps
    error = float((first.influence - second.influence).std()) / math.sqrt(200)
    assert gap.difference == first.mean - second.mean
    assert (gap.low + gap.high) / 2 == pytest.approx(gap.difference, abs=0.1 * error)
    assert gap.high - gap.low == pytest.approx(2 * 1.96 * error, rel=0.05)


def test_equal_numbers_share_a_place() -> None:
    half = np.tile([0.25, 0.75], 10)
    rounded = half + 1e-14
    found = placing(board_with({"low": half - 0.2, "one": half, "two": rounded, "none": np.full(20, np.nan)}))
    assert [(place.rank, place.tied, place.model) for place in found.places] == [
        (1, True, "one"),
        (1, True, "two"),
        (3, False, "low"),
        (4, False, "none"),
    ]
    assert found.leaders == ["one", "two"]
    assert [place_text(place) for place in found.places] == ["1=", "1=", "3", "–"]
    assert who_leads(found) == "one and two share the first place by AUC: 0.500."
    assert found.gaps[0].p_value == 1
    assert len(found.gaps) == 2  # the model without a value is compared with nobody


def test_few_queries_cannot_tell() -> None:
    """All nine queries speak for the first: no resample speaks against it, and yet they are few."""
    found = placing(board_with({"first": [0.9] * 9, "second": [0.5] * 9}))
    assert found.gaps[0].p_value < 0.05
    assert found.clear == []
    assert "ahead of second (0.500) by 0.400, but 9 queries are too few to tell" in who_leads(found)
    assert not found.to_dict()["gaps"][0]["sure"]
    assert "more than other queries would change" in who_leads(
        placing(board_with({"first": [0.9] * 10, "second": [0.5] * 10}))
    )


def test_the_verdict_names_whom_the_leader_is_clearly_ahead_of() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0.6, 0.1, 50)
    board = board_with({"a": base, "b": base - 0.01 + rng.normal(0, 0.2, 50), "c": base - 0.3})
    assert "too close to call against b, clearly ahead of c." in who_leads(placing(board))
    assert "too close to call." in who_leads(placing(board_with({"a": base, "b": base + rng.normal(0, 0.2, 50)})))


def test_one_model_or_no_value() -> None:
    assert who_leads(placing(board_with({"m": [0.5] * 20}))).startswith("m is the only model with a value of AUC: 0.5")
    nothing = placing(board_with({"m": [math.nan] * 20, "n": [math.nan] * 20}))
    assert nothing.leaders == nothing.gaps == []
    assert "No model has a value of AUC" in who_leads(nothing)


# Boards of pools


def pooled(**options: Any) -> tuple[dict[str, np.ndarray], Collection, Pool, Judgements]:
    rng = np.random.default_rng(1)
    collection = Collection([f"q{n}" for n in range(30)], [f"i{n}" for n in range(300)])
    truth = rng.normal(size=(30, 300))
    models = {f"m{n}": truth + noise * rng.normal(size=truth.shape) for n, noise in enumerate((0.5, 1, 1.5))}
    pool = Pool.build({name: models[name] for name in ("m0", "m1")}, collection, k=4, **options)
    grades = [(*pair, int(truth[q, i] > 1.5)) for pair, q, i in zip(pool.pairs, pool.queries, pool.items, strict=True)]
    return models, collection, pool, Judgements.of(grades)


def test_a_model_of_a_top_up_that_nobody_judged_did_not_build_the_pool() -> None:
    models, collection, pool, judged = pooled()
    grown = pool.with_model("m2", models["m2"])
    board = leaderboard(models, judged, collection, pool=grown, metrics="AUC Judged@4", resamples=20)
    assert board.helped == {"m0": True, "m1": True, "m2": False}
    before = leaderboard(models, judged, collection, pool=pool, metrics="AUC Judged@4", resamples=20)
    assert board.own_out["m2"]["AUC"].mean == before.own_out["m2"]["AUC"].mean
    new = [pair for pair in grown.pairs if pair not in judged.by_pair]
    more = Judgements.of([*((*pair, grade) for pair, grade in judged.by_pair.items()), (*new[0], 1)])
    assert leaderboard(models, more, collection, pool=grown, metrics="AUC", resamples=20).helped["m2"]


def test_a_top_up_changes_no_number_before_somebody_judges_it() -> None:
    """The model shares most pairs with a builder, and chance drew some of its others, so that they are judged."""
    models, collection, pool, judged = pooled(random=1500)
    models["m2"] = models["m0"] + np.random.default_rng(2).normal(scale=0.3, size=models["m0"].shape)
    options: dict[str, Any] = {"metrics": "AUC Bpref", "resamples": 20, "with_random": True}
    grown = pool.with_model("m2", models["m2"])
    assert (grown.alone("m2", or_random=True) & grown.random).any()
    assert grown.alone("m0").sum() < pool.alone("m0").sum()
    before, after = (leaderboard(models, judged, collection, pool=each, **options) for each in (pool, grown))
    assert after.helped == before.helped == {"m0": True, "m1": True, "m2": False}
    for scores in ("own_out", "equal_terms"):
        for name, evaluation in getattr(before, scores).items():
            for metric in evaluation:
                assert getattr(after, scores)[name][metric].mean == evaluation[metric].mean, (scores, name, metric)


def test_a_model_that_proposes_what_another_does_built_the_pool_with_it() -> None:
    models, collection, _, _ = pooled()
    both = {"m0": models["m0"], "twin": models["m0"]}
    pool = Pool.build(both, collection, k=4)
    judged = Judgements.of([(*pair, number % 2) for number, pair in enumerate(pool.pairs)])
    board = leaderboard(both, judged, collection, pool=pool, metrics="AUC", resamples=20)
    assert board.helped == {"m0": True, "twin": True}
    assert board.placing.leaders == ["m0", "twin"]
    assert leaders_of(board, Number(AUC)) == ["m0", "twin"]


def test_the_leading_number_is_neutral_to_builders() -> None:
    models, collection, pool, judged = pooled()
    sampled = "AUC AUC(negatives='sampled')"
    with_pool = leaderboard(models, judged, collection, pool=pool, metrics=sampled, resamples=5)
    assert leading_number(with_pool) == Number(AUC, equal_terms=True)
    with_bpref = leaderboard(models, judged, collection, pool=pool, metrics=f"{sampled} Bpref", resamples=5)
    assert leading_number(with_bpref) == Number(Metric.parse("Bpref"), equal_terms=True)
    of_files = dataclasses.replace(with_bpref, equal_terms={})
    assert leading_number(of_files) == Number(AUC, own_out=True)
    without = leaderboard(models, judged, collection, metrics=sampled, resamples=5)
    assert leading_number(without) == Number(Metric.parse("AUC(negatives='sampled')"))
    assert leading_number(leaderboard(models, judged, collection, metrics="P@4 AUC", resamples=5)) == Number(AUC)
    assert leading_number(leaderboard(models, judged, collection, metrics="P@4", resamples=5)).metric.name == "P"


def test_the_table_has_the_number_that_leads() -> None:
    models, collection, pool, judged = pooled()
    board = leaderboard(models, judged, collection, pool=pool, resamples=50)
    head, *rows = standing_table(board, board.placing).splitlines()
    assert head.split("  ")[1].strip() == "model"
    assert "Bpref, equal terms" in head
    assert head.endswith("built the pool  judged of top 4")
    assert [row.split()[:2] for row in rows] == [[str(n), name] for n, name in enumerate(board.placing.ranking, 1)]
    values = {row.split()[1]: float(row.split()[2]) for row in rows}
    assert values == {name: round(board.equal_terms[name]["Bpref"].mean, 3) for name in models}
    assert rows[board.placing.ranking.index("m2")].split()[-2] == "no"
    standing = board.to_dict()["standing"]
    assert [place["model"] for place in standing["places"]] == board.placing.ranking
    assert standing["number"] == {"metric": "Bpref", "own_out": False, "equal_terms": True}
    assert {"model", "difference", "low", "high", "p_value", "sure"} == set(standing["gaps"][0])


def test_a_run_that_lists_little_is_not_told_to_be_judged() -> None:
    """It lists 10 items a query, all of them judged: nothing is left to judge of its top 20."""
    models, collection, _, _ = pooled()
    order = np.argsort(-models["m0"], axis=1)
    run = {f"q{q}": {f"i{i}": float(20 - rank) for rank, i in enumerate(order[q, :10])} for q in range(30)}
    judged = Judgements.of([(query, item, n % 2) for query, items in run.items() for n, item in enumerate(items)])
    board = leaderboard({"short": run}, judged, collection, metrics="P@20", resamples=5)
    assert board["short"]["P@20"].mean == 0.25
    assert board.warnings == ["short lists only 10 items a query: metrics of the top 20 count the rest as not found"]
    assert board.judged_share("short", 20) == 1
    half = Judgements.of([(*pair, grade) for n, (pair, grade) in enumerate(judged.by_pair.items()) if n % 10 < 5])
    lists, unjudged = leaderboard({"short": run}, half, collection, metrics="P@20", resamples=5).warnings
    assert lists.startswith("short lists only 10 items a query")
    assert unjudged.startswith("short: 50% of the items that it lists was judged")


def test_a_top_up_that_nobody_judged_changes_no_number_though_chance_drew_some_of_it() -> None:
    models, collection, pool, judged = pooled(random=1500)
    grown = pool.with_model("m2", models["m2"])
    both = grown.random & ~grown.proposed[:, :2].any(1) & grown.proposed[:, 2]
    assert both.any()  # judged because chance drew them, and proposed by the new model alone
    shared = grown.proposed[:, 2] & (grown.proposed[:, :2].sum(1) == 1)
    assert shared.any()  # judged because one builder alone proposed them
    before, after = (
        leaderboard(models, judged, collection, pool=some, metrics="AUC Bpref P@4", resamples=20)
        for some in (pool, grown)
    )
    assert after.helped == {"m0": True, "m1": True, "m2": False}
    assert after.rows() == before.rows()
    assert after.placing == before.placing
    assert str(leave_one_out(after.contest, grown)) == str(leave_one_out(before.contest, pool))


def test_a_lead_by_a_weighted_mean_has_an_interval_of_weighted_means() -> None:
    """AP(empty='skip') weighs a query by how surely it finds something: unweighted resamples are of another number."""
    rng = np.random.default_rng(4)
    collection = Collection([f"q{n}" for n in range(40)], [f"i{n}" for n in range(12)])
    models = {name: rng.permuted(np.tile(np.arange(12.0), (40, 1)), axis=1) for name in ("one", "two")}
    models["one"][:20] = 0  # all tied: what is relevant is rarely among the first two, and high up if it is
    models["one"][20:, 0], models["two"][:, 0] = 10.5, 10.5
    judged = Judgements.of([(f"q{q}", f"i{i}", int(i == 0)) for q in range(40) for i in range(12)])
    found = leaderboard(models, judged, collection, metrics="AP(empty='skip')@2", resamples=5)
    (gap,) = found.placing.gaps
    scores = [found[name]["AP(empty='skip')@2"] for name in found.placing.ranking]
    rows = np.random.default_rng(9).integers(0, 40, (4000, 40))
    ahead, behind = (
        np.nansum((score.per_query * score.weights)[rows], 1) / score.weights[rows].sum(1) for score in scores
    )
    assert gap.difference == pytest.approx(scores[0].mean - scores[1].mean, abs=1e-12)
    assert (gap.low, gap.high) == pytest.approx(np.quantile(ahead - behind, [0.025, 0.975]), abs=0.012)


def test_the_lowest_rate_leads_where_lower_is_better() -> None:
    """FNMR at no false match, computed by the board itself: the good model puts relevant items above all others."""
    rng = np.random.default_rng(0)
    n, items = 40, [f"i{i}" for i in range(12)]
    relevant = np.tile(np.arange(12) < 4, (n, 1))
    collection = Collection([f"q{i}" for i in range(n)], items)
    judged = Judgements.of([(f"q{q}", item, int(i < 4)) for q in range(n) for i, item in enumerate(items)])
    noise = rng.standard_normal((2, n, 12))
    models = {"poor": relevant + 2 * noise[0], "good": relevant + 0.3 * noise[1]}
    board = leaderboard(models, judged, collection, metrics=["FNMR(fmr=0.05)", "MAP@R"], resamples=20)
    rate = Metric.parse("FNMR(fmr=0.05)")
    assert board["good"][rate].mean < 0.2 < 0.5 < board["poor"][rate].mean
    for name, scores in models.items():
        peer = la.evaluate_scores(scores, la.grades(relevant.astype(int)), [rate, "MAP@R"])
        for metric in peer:
            np.testing.assert_allclose(board[name][metric].per_query, peer[metric].per_query, rtol=0, atol=1e-12)
    assert board.ranking(rate) == board.ranking("MAP@R") == ["good", "poor"]
    found = placing(board)
    assert found.number == Number(rate)
    assert (found.leaders, leaders_of(board, Number(rate))) == (["good"], ["good"])
    (gap,) = found.gaps
    assert gap.difference == board["poor"][rate].mean - board["good"][rate].mean
    assert 0 < gap.low < gap.difference < gap.high
    assert gap.sure
    assert "good leads" in who_leads(found)
    assert "by −" not in who_leads(found)
    column = next(column for column in columns(Standing(board)) if column.of == Number(rate))
    assert _best(Standing(board), column) == round(board["good"][rate].mean, 12)
