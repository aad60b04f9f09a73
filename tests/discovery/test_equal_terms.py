"""A number that neither favours nor punishes models that built the pool is what its definition says, and is neutral.

What a vacuous test would let pass: pools that all or none of the models built; models that propose nothing alone, so
that nothing is left out; queries that keep a positive whatever is left out; models that never tie.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from helpers.contests import DENSE, Case, cases
from lookalike.discovery import Collection, Judgements, Leaderboard, Pool, leaderboard
from lookalike.discovery.equal_terms import on_equal_terms
from lookalike.metrics.metric import Metric
from reference import discovery as slow
from reference.definitions import Bounds
from reference.discovery import Pair


@settings(max_examples=120)
@given(
    data=st.data(),
    case=st.one_of(cases(kinds=DENSE, max_models=4), cases(kinds=DENSE, tied=True, max_items=5, max_models=3)),
    metric=st.sampled_from(["Bpref", "AUC"]),
)
def test_every_two_models_are_compared_on_equal_terms(data: st.DataObject, case: Case, metric: str) -> None:
    shop, names = case.world.shop, list(case.world.given)
    contest = case.contest()
    builders = data.draw(st.lists(st.sampled_from(names), unique=True), label="builders")
    pairs = [tuple(pair) for pair in contest.judgements.pairs]
    own_rows = {
        name: np.array(data.draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs))))
        for name in builders
    }
    own = {name: {pair for pair, yes in zip(pairs, rows, strict=True) if yes} for name, rows in own_rows.items()}
    found = on_equal_terms(contest, metric, own_rows)
    for n, query in enumerate(shop.queries):

        def value(name: str, gone: set[Pair], query: str = query) -> Bounds | None:
            left = {pair: grade for pair, grade in case.grades.items() if pair not in gone}
            known = slow.inherited(shop, left) if case.level == "product" else left
            if metric == "Bpref":
                return slow.bpref(shop, case.world.rankings[name], known, query)
            rows = slow.scored(shop, case.world.rankings[name], known)[query]
            ends = [slow.auc([(score + sign * grade * 1e-9, grade) for score, grade in rows]) for sign in (0, 1, -1)]
            return None if None in ends else Bounds(*ends)  # ties in the best and in the worst order

        expected = slow.equal_terms(value, own, names)
        for name in names:
            score, slowly = found[name][metric], expected[name]
            nothing = 0.0 if metric == "Bpref" else np.nan  # as Bpref itself counts such a query
            ends = [score.per_query[n], score.best_per_query[n], score.worst_per_query[n]]
            assert ends == pytest.approx(
                [nothing] * 3 if slowly is None else list(map(float, slowly)), abs=1e-9, nan_ok=True
            ), (name, query)
            if slowly is not None and len(builders) not in (0, len(names)):
                event("some built the pool")


def shop_of(
    seed: int, *, n_queries: int = 60, n_items: int = 300, n_models: int = 6
) -> tuple[Collection, np.ndarray, dict[str, np.ndarray]]:
    """Models of different quality over a truth that is known."""
    rng = np.random.default_rng(seed)
    closeness = rng.normal(size=(n_queries, n_items))
    models = {}
    for number in range(n_models):
        quality = 0.5 + 0.4 * number / n_models
        noise = rng.normal(size=closeness.shape)
        models[f"m{number}"] = quality * closeness + np.sqrt(1 - quality**2) * noise
    collection = Collection([f"q{n}" for n in range(n_queries)], [f"i{n}" for n in range(n_items)])
    return collection, closeness > 2, models


def board_built_by(builders: list[str], seed: int, metrics: str = "Bpref AUC") -> Leaderboard:
    collection, truth, models = shop_of(seed)
    pool = Pool.build({name: models[name] for name in builders}, collection, k=5)
    grades = truth[pool.queries, pool.items]
    judged = Judgements.of([(*pair, int(grade)) for pair, grade in zip(pool.pairs, grades, strict=True)])
    return leaderboard(models, judged, collection, pool=pool, metrics=metrics, resamples=20)


def test_it_does_not_matter_whether_a_model_helped_to_build_the_pool() -> None:
    """Each model's distance from those that always came later, inside the pool less outside: over six worlds.

    Bpref itself takes 0.1 from those inside.
    """
    later = ["m4", "m5"]
    gaps: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(6):
        inside = board_built_by(["m0", "m1", "m2", "m3"], seed)
        for model in ("m0", "m3"):
            outside = board_built_by([name for name in ("m0", "m1", "m2", "m3") if name != model], seed)
            for equal, found in gaps.items():
                ahead = []
                for board in (inside, outside):
                    means = {n: e["Bpref"].mean for n, e in (board.equal_terms if equal else board.evaluations).items()}
                    ahead.append(means[model] - np.mean([means[name] for name in later]))
                found.append(float(ahead[0] - ahead[1]))
    assert np.mean(gaps[False]) < -0.05
    assert abs(np.mean(gaps[True])) < 0.01


@pytest.mark.parametrize("builders", [["m0", "m1", "m2", "m3", "m4", "m5"], ["m0", "m2"]])
def test_it_is_the_metric_itself_where_all_models_built_the_pool(builders: list[str]) -> None:
    board = board_built_by(builders, 0)
    for name in board.evaluations:
        same = board.equal_terms[name]["Bpref"].per_query == pytest.approx(board[name]["Bpref"].per_query, abs=1e-12)
        assert same == (len(builders) == 6)


def test_it_leads_and_has_intervals_and_rows() -> None:
    board = board_built_by(["m0", "m1", "m2"], 1)
    bpref = Metric.parse("Bpref")
    assert board.placing.number.label == "Bpref, equal terms"
    assert "Bpref, equal terms" in str(board)
    assert board.placing.to_dict()["number"] == {"metric": "Bpref", "own_out": False, "equal_terms": True}
    for row in (row for row in board.rows() if row["metric"] == "Bpref"):
        score = board.equal_terms[row["model"]][bpref]
        assert row["equal_terms"] == score.mean
        assert (row["equal_terms_low"], row["equal_terms_high"]) == board.equal_terms_intervals[row["model"]][bpref]
        assert row["equal_terms_low"] < score.mean < row["equal_terms_high"]
    first, second = board.placing.ranking[:2]
    difference = board.equal_terms[first]["Bpref"].mean - board.equal_terms[second]["Bpref"].mean
    compared = {
        frozenset((row["first"], row["second"])): row for row in board.compare("Bpref", equal_terms=True).rows()
    }
    assert abs(compared[frozenset((first, second))]["difference"]) == pytest.approx(difference)


def test_auc_leads_on_equal_terms_where_there_is_no_bpref() -> None:
    assert board_built_by(["m0", "m1", "m2"], 1, "AUC P@3").placing.number.label == "AUC, equal terms"


def test_without_a_pool_nobody_is_on_other_terms() -> None:
    collection, truth, models = shop_of(0, n_queries=5, n_items=20)
    judged = Judgements.of([(f"q{q}", f"i{i}", int(truth[q, i])) for q in range(5) for i in range(10)])
    board = leaderboard(models, judged, collection, metrics="Bpref AUC", resamples=2)
    assert "equal terms" not in str(board)
    assert {row["equal_terms"] for row in board.rows()} == {None}


def test_queries_without_positives_do_not_tell_who_leads() -> None:
    """Bpref counts them as 0; of 60 queries at most nine have a positive here, one too few."""
    collection, truth, models = shop_of(0)
    pool = Pool.build({name: models[name] for name in ("m0", "m1", "m2")}, collection, k=5)
    grades = truth[pool.queries, pool.items] & (pool.queries < 9)
    judged = Judgements.of([(*pair, int(grade)) for pair, grade in zip(pool.pairs, grades, strict=True)])
    board = leaderboard(models, judged, collection, pool=pool, metrics="Bpref", resamples=20)
    assert (board.placing.queries, board.placing.few) == (len(set(pool.queries[grades])), True)
