"""Metrics of judged pairs and of sampled negatives are what their definitions say, for models of every kind.

What a vacuous test would let pass: queries that all have both classes; scores that compare across queries only by luck
of their scale (cosines of long and short queries); samples that no judged pair could be in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import lookalike as la
from helpers.contests import (
    AREAS,
    DENSE,
    Case,
    area_name,
    assert_area,
    assert_score,
    cases,
    zero_where_undefined,
)
from helpers.worlds import World, collection_of, judgements_of, random_grades, random_model, random_shop
from lookalike.discovery import Collection, Contest, Judgements, leaderboard
from lookalike.discovery.rankers import as_model
from lookalike.discovery.sampled_negatives import NegativeSample, draw_negatives
from reference import discovery as slow
from reference.discovery import Pair, Shop

# Metrics of judged pairs


@settings(max_examples=150)
@given(case=st.one_of(cases(own=True), cases(own=True, tied=True)))
def test_areas_over_judged_pairs(case: Case) -> None:
    """Of every image for itself; what a run does not list is tied below everything it does."""
    contest = case.contest()
    for name, ranking in case.world.rankings.items():
        found = contest.evaluate(name, [area_name(*which) for which in AREAS])
        for which in AREAS:
            expected = slow.area(case.world.shop, ranking, case.known, *which)
            assert_area(found[area_name(*which)], expected, f"{name} {which}")


def test_areas_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(8)
    shop = random_shop(rng, 25, 150)
    grades = random_grades(rng, shop, 0.2)
    matrix = rng.integers(0, 40, (25, 150)).astype(float)
    found = Contest({"m": matrix}, collection_of(shop), judgements_of(grades), depth=5).evaluate(
        "m", [area_name(*which) for which in AREAS]
    )
    rows = slow.scored(shop, slow.ranking_of_matrix(shop, matrix.tolist()), grades)
    peers: dict[str, Callable[..., Any]] = {"AUC": roc_auc_score, "PRAUC": average_precision_score}
    for name, peer in peers.items():
        of_queries = [peer([grade for _, grade in row], [score for score, _ in row]) for row in rows.values()]
        together = [row for of_query in rows.values() for row in of_query]
        assert found[area_name(name, "macro")].mean == pytest.approx(np.mean(of_queries), abs=1e-12)
        of_all = peer([grade for _, grade in together], [score for score, _ in together])
        assert found[area_name(name, "micro")].mean == pytest.approx(of_all, abs=1e-12)


def test_cosines_of_long_and_short_queries_compare() -> None:
    """A positive of cosine 0.8 against negatives of 0.6 and 0.96 of a query of another length: right in one case."""
    queries = np.array([[1.0, 0], [1.4, 0]])
    gallery = np.array([[0.8, 0.6], [0.6, 0.8], [0.96, 0.28]])
    judged = Judgements.of([("q", "a", 1), ("r", "b", 0), ("r", "c", 0)])
    contest = Contest({"m": (queries, gallery)}, Collection(["q", "r"], list("abc")), judged, depth=2)
    assert contest.evaluate("m", "AUC(average='micro')")["AUC(average='micro')"].mean == pytest.approx(0.5)


@settings(max_examples=100)
@given(case=st.one_of(cases(own=True, kinds=DENSE), cases(own=True, kinds=DENSE, tied=True, max_items=6, max_models=1)))
def test_bpref_over_judged_pairs(case: Case) -> None:
    contest = case.contest()
    for name, ranking in case.world.rankings.items():
        shop = case.world.shop
        expected = zero_where_undefined([slow.bpref(shop, ranking, case.known, query) for query in shop.queries])
        assert_score(contest.evaluate(name, "Bpref")["Bpref"], expected, name)


@settings(max_examples=60)
@given(case=cases(kinds=("run",), max_models=1))
def test_bpref_of_a_run_is_that_of_trec_eval(case: Case) -> None:
    """A relevant item that a run does not list adds nothing; every other query counts 0."""
    contest = case.contest()
    shop = case.world.shop
    for name, ranking in case.world.rankings.items():
        expected = zero_where_undefined([slow.bpref(shop, ranking, case.known, query) for query in shop.queries])
        judged: dict[str, dict[str, int]] = {}
        for (query, item), grade in case.known.items():
            if not shop.own(query, item):
                judged.setdefault(query, {})[item] = grade
        run = {query: dict(rows) for query in shop.queries if (rows := slow.listed(shop, ranking, query))}
        peer = pytrec_eval.RelevanceEvaluator(judged, {"bpref"}).evaluate(run)
        of_peer = math.fsum(peer.get(query, {"bpref": 0})["bpref"] for query in shop.queries) / len(shop.queries)
        assert expected[0] == pytest.approx(of_peer, abs=1e-9)  # the definition is trec_eval's
        assert_score(contest.evaluate(name, "Bpref")["Bpref"], expected, name)


def test_one_class_only_is_undefined_and_counted() -> None:
    collection = Collection(["q", "r", "s"], list("abc"))
    matrix = np.array([[3.0, 2, 1], [1, 2, 3], [1, 3, 2]])
    metrics = [area_name(*which) for which in AREAS]
    pairs = [("q", "a", 1), ("q", "b", 0), ("r", "a", 1), ("r", "b", 1)]
    board = leaderboard({"m": matrix}, Judgements.of(pairs), collection, metrics=metrics)
    assert {metric: board["m"][metric].undefined for metric in metrics} == {
        area_name(*which): {"macro": 2, "micro": 0}[which[1]] for which in AREAS
    }
    assert board["m"]["AUC"].mean == 1
    positive = leaderboard({"m": matrix}, Judgements.of(pairs[2:]), collection, metrics=metrics)
    for metric in metrics:
        assert math.isnan(positive["m"][metric].mean)
        assert positive["m"][metric].undefined == 3


def test_a_run_that_lists_nothing_is_as_good_as_chance() -> None:
    collection = Collection(["q"], list("abc"))
    judged = Judgements.of([("q", "a", 1), ("q", "b", 0)])
    board = leaderboard({"m": {}}, judged, collection, metrics=["AUC", "P@2", "VSDHR@2"])
    assert [board["m"][metric].mean for metric in ("AUC", "P@2", "VSDHR@2")] == [0.5, 0, 0]


def test_judgements_of_a_query_with_its_own_change_nothing() -> None:
    shop = Shop(["a"], list("abcd"), {"a": "x"}, dict(zip("abcd", "xxyz", strict=True)))
    models = {"m": np.array([[1.0, 4, 3, 2]])}
    grades = {("a", "c"): 0, ("a", "d"): 1}
    own = {("a", "a"): 1, ("a", "b"): 1}
    metrics = ["AUC", "AUC(average='micro')", "Bpref", "P@2", "Judged@2", "VSDHR(norm='pairs')@2", "VSDMRR@2"]
    for level in ("image", "product"):
        one, other = (
            leaderboard(models, judgements_of(pairs), collection_of(shop), metrics=metrics, level=level)
            for pairs in (grades, grades | own)
        )
        for metric in metrics:
            assert one["m"][metric].mean == other["m"][metric].mean, metric


# Sampled negatives


def ready(world: World) -> dict[str, Any]:
    return {name: as_model(model, world.collection, name) for name, model in world.given.items()}


def sample_of(world: World, judged: Mapping[Pair, int], n: int, **options: Any) -> dict[str, set[str]]:
    positions = world.collection.positions(list(judged))
    keys = world.collection.keys(*positions)
    queries, items = draw_negatives(ready(world), world.collection, keys, NegativeSample(n, **options))
    found: dict[str, set[str]] = {query: set() for query in world.shop.queries}
    for query, item in zip(queries, items, strict=True):
        name = str(world.collection.item_ids[item])
        assert name not in found[str(world.collection.query_ids[query])], "drawn twice"
        found[str(world.collection.query_ids[query])].add(name)
    return found


@settings(max_examples=100)
@given(case=cases(max_items=14), data=st.data(), seed=st.integers(0, 99))
def test_sampled_negatives_come_from_far_enough_down(case: Case, data: st.DataObject, seed: int) -> None:
    """From the ranks below `above` down to `below` of any model, never from the top of one, never judged, never own."""
    world = case.world
    above = data.draw(st.integers(1, 4), label="above")
    below = data.draw(st.integers(above + 1, 12), label="below")
    frame = slow.sampling_frame(world.shop, world.rankings, case.grades, above, below)
    assume(any(frame.values()))
    n = data.draw(st.integers(1, 8), label="n")
    sample = sample_of(world, case.grades, n, above=above, below=below, seed=seed)
    for query, items in sample.items():
        assert items <= frame[query], query
        assert len(items) == min(n, len(frame[query]))
    assert sample == sample_of(world, case.grades, n, above=above, below=below, seed=seed)


def deep_world(rng: np.random.Generator, n_queries: int = 4, n_items: int = 160) -> World:
    shop = random_shop(rng, n_queries, n_items, identities=n_items // 2)
    made = {
        f"{kind} {n}": random_model(rng, shop, kind, tied=False) for n, kind in enumerate(["matrix", "dot", "codes"])
    }
    return World(
        shop,
        collection_of(shop),
        {name: model for name, (model, _) in made.items()},
        {name: ranking() for name, (_, ranking) in made.items()},
    )


def test_every_item_that_may_be_sampled_is() -> None:
    """Forty draws of 5 items leave none of some twenty out; a fair share is within five deviations."""
    rng = np.random.default_rng(2)
    world = deep_world(rng, 2, 60)
    frame = slow.sampling_frame(world.shop, world.rankings, {}, 20, 40)
    drawn = Counter(
        (query, item)
        for seed in range(200)
        for query, items in sample_of(world, {}, 5, above=20, below=40, seed=seed).items()
        for item in items
    )
    assert set(drawn) == {(query, item) for query, items in frame.items() for item in items}
    for (query, _), count in drawn.items():
        share = 5 / len(frame[query])
        assert abs(count / 200 - share) < 5 * math.sqrt(share * (1 - share) / 200)


def test_areas_over_sampled_negatives() -> None:
    """One sample for all models, from below rank 100, as large as was asked for."""
    rng = np.random.default_rng(3)
    world = deep_world(rng)
    grades = random_grades(rng, world.shop, 0.3)
    case = Case(world, grades)
    contest = case.contest(depth=5, negatives=8, seed=6)
    sample = sample_of(world, grades, 8, seed=6)
    frame = slow.sampling_frame(world.shop, world.rankings, grades, 100, 500)
    for query, items in sample.items():
        assert items <= frame[query]
        assert len(items) == min(8, len(frame[query])) > 0
    sampled = [(query, item) for query, items in sample.items() for item in sorted(items)]
    for name, ranking in world.rankings.items():
        for kind in ("judged", "sampled", "both"):
            pairs = slow.with_negatives(grades, sampled, kind)
            for which in AREAS:
                metric = area_name(*which, kind)
                expected = slow.area(world.shop, ranking, pairs, *which)
                assert_area(contest.evaluate(name, metric)[metric], expected, f"{name} {metric}")


def test_a_product_that_was_judged_is_not_sampled() -> None:
    rng = np.random.default_rng(4)
    world = deep_world(rng)
    case = Case(world, random_grades(rng, world.shop, 0.1), "product")
    contest = case.contest(depth=5, negatives=1000)
    sampled = {
        (str(world.collection.query_ids[query]), str(world.collection.item_ids[item]))
        for query, item in zip(contest.sampled_queries, contest.sampled_items, strict=True)
    }
    frame = slow.sampling_frame(world.shop, world.rankings, case.known, 100, 500)
    assert sampled == {(query, item) for query, items in frame.items() for item in items}


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("kind", ["float32", "float64", "whole"])
def test_a_pair_that_was_judged_in_both_orders_ties(similarity: str, kind: str) -> None:
    """Each pair is similar in one order and not in the other: nothing tells them apart, so areas are by chance."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-4, 5, (30, 6)).astype(float) if kind == "whole" else rng.normal(size=(30, 6)).astype(kind)
    rows[rows.any(1) == 0] = 1
    names = [f"i{number}" for number in range(len(rows))]
    both = [row for i, a in enumerate(names) for b in names[:i] for row in ((a, b, 1), (b, a, 0))]
    board = leaderboard(
        {"net": (rows, rows, similarity)}, Judgements.of(both), Collection(names, names),
        metrics=["AUC(average='micro')", "PRAUC(average='micro')"],
    )  # fmt: skip
    assert [score.mean for score in board["net"].scores.values()] == pytest.approx([0.5, 0.5], abs=1e-14)


@pytest.mark.parametrize("metric", ["AUC", "PRAUC", "Bpref"])
def test_pairs_of_a_query_tie_as_they_do_in_an_evaluation(metric: str) -> None:
    """Cosines of so few float32 numbers often round to the same float, and rarely in the order of exact cosines."""
    generator = np.random.default_rng(5)
    queries, gallery = (generator.normal(size=(n, 2)).astype(np.float32) for n in (6, 3000))
    names = [f"q{i}" for i in range(6)], [f"i{i}" for i in range(3000)]
    rows = [(q, i, int(generator.random() < 0.3)) for q in names[0] for i in names[1]]
    board = leaderboard(
        {"m": (queries, gallery)}, Judgements.of(rows), Collection(*names), metrics=[metric], resamples=1
    )
    options = {"query_ids": names[0], "gallery_ids": names[1], "similarity": "cosine"}
    alone = la.evaluate(queries, gallery, la.judged(rows), [metric], **options)
    np.testing.assert_array_equal(board["m"][metric].per_query, alone[metric].per_query)
