"""Every number of a leaderboard is what its definition says, for models of every kind on the same judged pairs.

What a vacuous test would let pass: judged pairs that every model ranks first; queries that all have both classes;
scores that compare across queries only by luck of their scale (cosines of long and short queries); identities with one
image each, so that no judgement is inherited and none hides behind another; samples that no judged pair could be in.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import lookalike as la
from helpers.worlds import World, collection_of, judgements_of, random_grades, random_model, random_shop, worlds
from lookalike.discovery import Collection, Contest, Judgements, Leaderboard, Pool, discovery_metrics, leaderboard
from lookalike.discovery.leaderboard import board_of, effect
from lookalike.discovery.rankers import as_model
from lookalike.discovery.sampled_negatives import NegativeSample, draw_negatives
from lookalike.evaluation.results import Score
from reference import definitions
from reference import discovery as slow
from reference.definitions import Bounds
from reference.discovery import Pair, Ranked, Shop

TOLERANCE = 1e-12
DENSE = ("cosine", "dot", "euclidean", "codes", "matrix")


@dataclass(frozen=True)
class Case:
    """A world, what was judged in it, and how it is looked at."""

    world: World
    grades: dict[Pair, int]
    level: str = "image"
    one_per_identity: bool = False

    @property
    def known(self) -> dict[Pair, int]:
        """Grades of all pairs that have one, their own or an inherited one."""
        return slow.inherited(self.world.shop, self.grades) if self.level == "product" else self.grades

    def contest(self, *, depth: int | None = None, **options: Any) -> Contest:
        return Contest(
            self.world.given,
            self.world.collection,
            judgements_of(self.grades),
            depth=depth or len(self.world.shop.items),
            level=self.level,
            one_per_identity=self.one_per_identity,
            **options,
        )

    def ranked(self, name: str, **options: Any) -> list[Ranked]:
        """What rank metrics see of each query."""
        shop, ranking = self.world.shop, self.world.rankings[name]
        options.setdefault("one_per_identity", self.one_per_identity)
        return [slow.ranked(shop, ranking, self.known, query, **options) for query in shop.queries]


@st.composite
def cases(draw: st.DrawFn, *, tied: bool = False, own: bool = False, **options: Any) -> Case:
    world = draw(worlds(tied=tied, **options))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.2, 0.6, 1.0]))
    grades = random_grades(rng, world.shop, share, own=own, max_grade=draw(st.integers(1, 2)))
    assume(any(not world.shop.own(*pair) for pair in grades))
    level = draw(st.sampled_from(["image", "product"])) if world.shop.item_identities else "image"
    # which of several tied images stands for its identity is nobody's business, if all of them are graded alike
    alike = not tied or level == "product" or not world.shop.item_identities
    return Case(world, grades, level, draw(st.booleans()) if alike else False)


def assert_score(score: Score, expected: tuple[float, float, float, int], what: str = "") -> None:
    means = score.mean, score.best, score.worst
    assert means == pytest.approx(expected[:3], abs=TOLERANCE, nan_ok=True), f"{what} {score}"
    assert score.undefined == expected[3], f"{what} {score}"


def zero_where_undefined(values: list[Bounds | None]) -> tuple[float, float, float, int]:
    """Means with 0 for queries that have no value, and how many these are."""
    filled = [Bounds(0.0, 0.0, 0.0) if value is None else value for value in values]
    return *slow.mean_of(filled)[:3], values.count(None)


# Metrics of ranks


def rank_metrics(k: int) -> dict[str, Callable[[list[Ranked]], tuple[float, float, float, int]]]:
    """Every rank metric by its definition, from what is seen of all queries."""

    def mean(metric: Callable[..., Bounds | None], **options: Any) -> Callable[..., tuple[float, float, float, int]]:
        return lambda queries: slow.mean_of(metric(*query, k=k, **options) for query in queries)

    return {
        f"VSDHR@{k}": mean(definitions.discovery_hit_rate),
        f"VSDMRR@{k}": mean(definitions.discovery_reciprocal_rank),
        f"P@{k}": mean(definitions.precision),
        f"Judged@{k}": mean(definitions.judged),
        f"RBP@{k}": mean(definitions.rank_biased),
        f"RBP(p=0.5)@{k}": mean(definitions.rank_biased, p=0.5),
        f"RBP(part='residual')@{k}": mean(definitions.rank_biased, part="residual"),
    }


def assert_rank_metrics(case: Case, k: int) -> None:
    contest = case.contest()
    for name in case.world.given:
        queries = case.ranked(name)
        metrics = rank_metrics(k)
        ratios = {f"VSDHR(norm='{norm}')@{k}": norm for norm in ("k", "positives", "pairs")}
        found = contest.evaluate(name, [*metrics, *ratios])
        for metric, expected in metrics.items():
            assert_score(found[metric], expected(queries), f"{name} {metric}")
        for metric, norm in ratios.items():
            expected_rate = slow.hit_rate(queries, k, norm)
            assert found[metric].mean == pytest.approx(expected_rate, abs=TOLERANCE, nan_ok=True), (name, metric)
        upper = contest.evaluate(name, f"P@{k}", unjudged="relevant")
        assert_score(upper[f"P@{k}"], metrics[f"P@{k}"](case.ranked(name, unjudged=1)), f"{name} upper P")


@settings(max_examples=150)
@given(case=cases(own=True), data=st.data())
def test_rank_metrics_of_untied_models(case: Case, data: st.DataObject) -> None:
    assert_rank_metrics(case, data.draw(st.integers(1, len(case.world.shop.items)), label="k"))


@settings(max_examples=60)
@given(case=cases(tied=True, own=True, max_items=6, max_queries=3, max_models=2), data=st.data())
def test_rank_metrics_of_tied_models(case: Case, data: st.DataObject) -> None:
    assert_rank_metrics(case, data.draw(st.integers(1, len(case.world.shop.items)), label="k"))


@settings(max_examples=60)
@given(case=cases(), data=st.data())
def test_what_is_not_looked_at_does_not_matter(case: Case, data: st.DataObject) -> None:
    """A contest that ranks k deep has the metrics at k of one that ranks everything."""
    k = data.draw(st.integers(1, len(case.world.shop.items)), label="k")
    names = [*rank_metrics(k), f"VSDHR(norm='positives')@{k}", f"VSDHR(norm='pairs')@{k}", "AUC", "PRAUC", "Bpref"]
    deep, shallow = case.contest(), case.contest(depth=k)
    for name in case.world.given:
        one, other = deep.evaluate(name, names), shallow.evaluate(name, names)
        for metric in names:
            assert one[metric].mean == pytest.approx(other[metric].mean, abs=TOLERANCE, nan_ok=True), metric


@settings(max_examples=60)
@given(case=cases(), data=st.data())
def test_rank_biased_precision_is_of_the_ranks_looked_at(case: Case, data: st.DataObject) -> None:
    depth = data.draw(st.integers(1, len(case.world.shop.items)), label="depth")
    contest = case.contest(depth=depth)
    for name in case.world.given:
        found = contest.evaluate(name, f"RBP@{depth}, RBP(part='residual')@{depth}")
        queries = case.ranked(name, depth=depth)
        for metric, part in ((f"RBP@{depth}", "sum"), (f"RBP(part='residual')@{depth}", "residual")):
            expected = slow.mean_of(definitions.rank_biased(*query, part=part) for query in queries)
            assert_score(found[metric], expected, f"{name} {metric}")


def test_rank_biased_precision_does_not_look_further_for_ties() -> None:
    """One rank is looked at: all four items tie for it, so each has it with a chance of a quarter."""
    collection = Collection(["q"], list("abcd"))
    contest = Contest({"m": np.zeros((1, 4))}, collection, Judgements.of([("q", "a", 1), ("q", "b", 0)]), depth=1)
    assert contest.evaluate("m", "RBP(p=0.5)@1")["RBP(p=0.5)@1"].mean == pytest.approx(0.5 / 4)
    with pytest.raises(ValueError, match="RBP on a leaderboard needs a cutoff"):
        contest.evaluate("m", "RBP")


def test_rank_metrics_by_hand() -> None:
    """q finds a at rank 1 and c, unjudged, at 2; r finds nothing of d and e."""
    collection = Collection(["q", "r", "s"], list("abcde"))
    matrix = np.array([[5.0, 1, 4, 2, 3], [5, 4, 3, 2, 1], [1, 2, 3, 4, 5]])
    pairs = [("q", "a", 1), ("q", "b", 1), ("q", "e", 0), ("r", "d", 1), ("r", "e", 1), ("r", "a", 0), ("s", "a", 0)]
    metrics = ["VSDHR@2", "VSDHR(norm='positives')@2", "VSDHR(norm='pairs')@2", "VSDMRR@2", "P@2", "Judged@2"]
    board = leaderboard({"m": matrix}, Judgements.of(pairs), collection, metrics=metrics)
    found = [board["m"][metric].mean for metric in metrics]
    assert found == pytest.approx([1 / 4, 1 / 4, 1 / 4, 1 / 2 / (3 / 2), 1 / 6, 2 / 6])
    assert board["m"]["VSDHR@2"].undefined == 1
    assert board.upper["m"]["P@2"].mean == pytest.approx((2 + 1 + 2) / 6)


# One image per identity, judgements of products


def views() -> tuple[Shop, dict[Pair, int], np.ndarray]:
    """A shoe with three views, a hat with two, and a bag; the shoe's front was judged similar, its back not."""
    items = {"front": "shoe", "back": "shoe", "sole": "shoe", "brim": "hat", "crown": "hat", "bag": "bag"}
    shop = Shop(["q"], list(items), {"q": "boot"}, items)
    grades = {("q", "front"): 1, ("q", "back"): 0, ("q", "brim"): 0}
    return shop, grades, np.array([[1.0, 2, 6, 3, 4, 5]])  # sole, bag, crown, brim, back, front


def board_of_views(metrics: list[str], **options: Any) -> dict[str, float]:
    shop, grades, matrix = views()
    board = leaderboard({"m": matrix}, judgements_of(grades), collection_of(shop), metrics=metrics, **options)
    return {metric: board["m"][metric].mean for metric in metrics}


def test_a_judgement_of_a_product_is_about_all_its_views() -> None:
    metrics = ["P@1", "P@6", "Judged@6", "VSDHR(norm='pairs')@1", "AUC"]
    by_image = board_of_views(metrics, one_per_identity=False)
    by_product = board_of_views(metrics, one_per_identity=False, level="product")
    # of sole, bag, crown, brim, back, front
    assert list(by_image.values()) == pytest.approx([0, 1 / 6, 3 / 6, 0, 0])
    assert list(by_product.values()) == pytest.approx([1, 3 / 6, 5 / 6, 1 / 3, 2 / 6])


def test_a_judgement_of_a_product_is_about_its_query_only() -> None:
    """Queries show what no item does, sorted in between what the items show: numbers of identities pass the items."""
    shop = Shop(["q0", "q1", "q2"], ["x", "y"], {"q0": "b", "q1": "c", "q2": "d"}, {"x": "a", "y": "z"})
    models = {"m": np.array([[2.0, 1]] * 3)}
    contest = Contest(models, collection_of(shop), Judgements.of([("q0", "y", 1)]), depth=2, level="product")
    assert contest.evaluate("m", "P@2")["P@2"].per_query.tolist() == [0.5, 0, 0]
    assert contest.evaluate("m", "Judged@2")["Judged@2"].per_query.tolist() == [0.5, 0, 0]


def test_one_image_stands_for_its_identity() -> None:
    """Sole, bag, crown: two more of the three hidden images were judged; only that of the shoe is similar."""
    metrics = ["P@1", "P@3", "Judged@3", "VSDHR(norm='pairs')@3", "VSDHR(norm='positives')@3", "VSDMRR@3"]
    by_image = board_of_views(metrics)  # one per identity wherever identities are known
    assert by_image == board_of_views(metrics, one_per_identity=True)
    assert list(by_image.values()) == pytest.approx([0, 0, 0, 0, 0, 0])
    by_product = board_of_views(metrics, level="product")
    assert list(by_product.values()) == pytest.approx([1, 1 / 3, 2 / 3, 1, 1, 1 / (1 + 1 / 2 + 1 / 3)])


def test_all_models_are_measured_on_the_same_queries() -> None:
    """Whichever image a model shows, the query has a positive: the one that shows the wrong view must pay for it."""
    shop = Shop(["q"], ["front", "back", "bag"], {"q": "boot"}, {"front": "shoe", "back": "shoe", "bag": "bag"})
    judged = judgements_of({("q", "front"): 1, ("q", "back"): 0})
    models = {"right": np.array([[3.0, 2, 1]]), "wrong": np.array([[2.0, 3, 1]])}
    metrics = ["VSDHR@1", "VSDHR(norm='positives')@1", "VSDHR(norm='pairs')@1", "VSDMRR@1"]
    board = leaderboard(models, judged, collection_of(shop), metrics=metrics, one_per_identity=True)
    for metric in metrics:
        assert (board["right"][metric].mean, board["wrong"][metric].mean) == (1, 0), metric


# Metrics of judged pairs


AREAS = [(name, average) for name in ("AUC", "PRAUC") for average in ("macro", "micro")]


def area_name(name: str, average: str, negatives: str = "judged") -> str:
    return f"{name}(average='{average}', negatives='{negatives}')"


def assert_area(found: Score, expected: tuple[float, int], what: str) -> None:
    assert found.mean == pytest.approx(expected[0], abs=TOLERANCE, nan_ok=True), what
    assert found.undefined == expected[1], what


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


# The board


@settings(max_examples=60)
@given(case=cases(min_models=2, own=True), data=st.data(), random=st.integers(0, 3))
def test_own_left_out(case: Case, data: st.DataObject, random: int) -> None:
    """AUC without the pairs that a model alone proposed, for those that helped; for the others nothing changes."""
    world = case.world
    builders = data.draw(st.lists(st.sampled_from(sorted(world.given)), min_size=1, unique=True), label="builders")
    assume(
        all(any(slow.listed(world.shop, world.rankings[h], query) for h in builders) for query in world.shop.queries)
    )
    assume(random <= len(world.shop.pairs))
    k = data.draw(st.integers(1, world.fewest_candidates), label="k")
    pool = Pool.build({name: world.given[name] for name in builders}, world.collection, k=k, random=random, seed=5)
    drawn = [pair for pair, yes in zip(pool.pairs, pool.random, strict=True) if yes]
    board = leaderboard(
        world.given,
        judgements_of(case.grades),
        world.collection,
        pool=pool,
        metrics=["AUC", "AUC(average='micro')"],
        level=case.level,
        resamples=2,
    )
    provenance = slow.provenance_of(world.shop, {name: world.rankings[name] for name in builders}, k)
    for name, ranking in world.rankings.items():
        assert board.helped[name] == (name in builders)
        own = slow.alone(provenance, name, drawn)
        left = {pair: grade for pair, grade in case.grades.items() if pair not in own}
        known = slow.inherited(world.shop, left) if case.level == "product" else left
        for average in ("macro", "micro"):
            expected = slow.area(world.shop, ranking, known, "AUC", average)
            assert_area(board.own_out[name][f"AUC(average='{average}')"], expected, f"{name} {average}")
        if name not in builders:
            assert board.own_out[name]["AUC"].mean == pytest.approx(board[name]["AUC"].mean, nan_ok=True)


def test_nothing_is_left_out_where_nobody_is_known_to_have_proposed_it() -> None:
    """Judgements without a pool: the number would be AUC once more, under a name that promises something."""
    collection = Collection(["q"], list("abcd"))
    judged = Judgements.of([("q", "a", 1), ("q", "b", 0)])
    board = leaderboard({"m": np.array([[1.0, 2, 3, 4]])}, judged, collection, metrics="AUC Judged@2", resamples=5)
    assert not any(len(evaluation) for evaluation in board.own_out.values())
    assert "left out" not in str(board)
    assert "top-up" not in str(board)
    assert {row["own_out"] for row in board.rows()} == {None}
    (warning,) = board.warnings
    assert "compare models by AUC with sampled negatives" in warning


def small_board(metrics: Any = None, **options: Any) -> Leaderboard:
    rng = np.random.default_rng(1)
    collection = Collection([f"q{n}" for n in range(30)], [f"i{n}" for n in range(150)])
    truth = rng.normal(size=(30, 150))
    models = {f"m{n}": truth + noise * rng.normal(size=(30, 150)) for n, noise in enumerate((0.5, 1, 2))}
    pool = Pool.build({name: models[name] for name in ("m0", "m1")}, collection, k=4)
    grades = [(*pair, int(truth[q, i] > 1.5)) for pair, q, i in zip(pool.pairs, pool.queries, pool.items, strict=True)]
    return leaderboard(models, Judgements.of(grades), collection, pool=pool, metrics=metrics, **options)


def test_the_columns_of_the_paper_are_the_default() -> None:
    board = small_board(negatives=10, resamples=50)
    assert board.metrics == discovery_metrics(4)
    names = {str(metric) for metric in board.metrics}
    assert {"VSDHR@4", "VSDMRR@4", "Judged@4", "P@4", "Bpref", "RBP@4", "RBP(part='residual')@4"} <= names
    areas = {str(la.metrics.Metric.parse(area_name(*which, kind))) for which in AREAS for kind in ("judged", "sampled")}
    assert areas <= names
    assert board.helped == {"m0": True, "m1": True, "m2": False}
    assert board["m0"]["Judged@4"].mean == board["m1"]["Judged@4"].mean == 1
    assert board["m2"]["Judged@4"].mean < 0.8
    assert [line for line in board.warnings if line.startswith("m2: ")] == board.warnings != []
    assert all(line.endswith("or judge its top-up") for line in board.warnings)
    assert board["m2"]["P@4"].mean < board.upper["m2"]["P@4"].mean
    assert board["m0"]["P@4"].mean == pytest.approx(board.upper["m0"]["P@4"].mean)
    assert board.ranking("P@4") == ["m0", "m1", "m2"]


def test_every_number_says_whom_it_favours() -> None:
    """As examples/discovery_simulation.py finds; a board leads with what is neutral."""
    board = small_board(negatives=10, resamples=50)
    lines = str(board).splitlines()
    assert lines[0].split()[:2] == ["metric", "builders"]
    assert lines[2].split()[:5] == ["AUC,", "own", "left", "out", "neutral"]
    said = {}
    for line in lines:
        if found := re.match(r"(\S.*?)  +(favours|punishes|neutral|)  +\S+  \S+  \S+$", line):
            said[found[1]] = found[2]
    expected = {f"{name}@4": "favours" for name in ("VSDHR", "VSDMRR", "P", "RBP")}
    for name in ("AUC", "PRAUC"):
        expected |= dict.fromkeys([name, f"{name}(average='micro')", "Bpref"], "punishes")
        expected |= dict.fromkeys(
            [f"{name}(negatives='sampled')", f"{name}(average='micro', negatives='sampled')"], "neutral"
        )
    expected |= dict.fromkeys(["AUC, own left out", "AUC(average='micro'), own left out"], "neutral")
    assert said == expected | {"Judged@4": "", "RBP(part='residual')@4": ""}
    assert "builders: what a number does to models that helped to build the pool" in str(board)
    told = {row["metric"]: row["effect"] for row in board.rows()}
    assert told == {name: said[name] for name in told}
    assert effect("AUC(negatives='both')") == "punishes"


@pytest.mark.parametrize("metrics", ["VSDHR@4", "AUC nDCG@4 P@4", "RBP@4"])
def test_metrics_of_ranks_are_guarded_whatever_was_asked_for(metrics: str) -> None:
    board, guarded = small_board(metrics, resamples=5), small_board("Judged@4", resamples=5)
    assert board.warnings == guarded.warnings != []
    assert not any(metric.name == "Judged" for metric in board.metrics)
    assert small_board("AUC Bpref", resamples=5).warnings == []  # which do not mind
    assert len(small_board("P@1 VSDHR@4 nDCG@1", resamples=5).warnings) == 2  # a sentence for each k


def test_numbers_without_own_pairs_have_intervals() -> None:
    """Around the number, and where nothing is left out those of all pairs."""
    board = small_board("AUC P@4", resamples=200)
    auc = la.metrics.Metric.parse("AUC")
    for name in ("m0", "m1", "m2"):
        low, high = board.own_out_intervals[name][auc]
        assert low < board.own_out[name]["AUC"].mean < high
    assert board.own_out_intervals["m2"] == {auc: board.intervals["m2"][auc]}
    assert board.own_out_intervals["m0"] != {auc: board.intervals["m0"][auc]}
    rows = [row for row in board.rows() if row["model"] == "m0"]
    assert [(row["own_out_low"], row["own_out_high"]) for row in rows] == [
        board.own_out_intervals["m0"][auc],
        (None, None),
    ]


def test_a_top_that_cuts_through_ties_is_not_told_to_be_judged() -> None:
    """Its pool was judged whole: to top it up would add nothing."""
    collection = Collection([f"q{n}" for n in range(5)], [f"i{n}" for n in range(40)])
    bits = np.random.default_rng(0).random((45, 4)) < 0.5
    models = {"short": (la.Codes.pack(bits[:5]), la.Codes.pack(bits[5:]))}
    pool = Pool.build(models, collection, k=4)
    grades = [(*pair, number % 2) for number, pair in enumerate(pool.pairs)]
    board = leaderboard(models, Judgements.of(grades), collection, pool=pool, negatives=10, resamples=50)
    assert board["short"]["Judged@4"].best == 1
    (warning,) = board.warnings
    assert "% of its top 4 was judged, which cuts through tied items that the pool has some of, so" in warning
    assert warning.endswith("or with sampled negatives")


@pytest.mark.parametrize("metrics", ["P@4", "AUC", "AUC(average='micro')", "PRAUC", "AUC VSDHR@2", "Judged@3"])
def test_a_board_of_any_metrics_shows_itself(metrics: str, tmp_path: Path) -> None:
    board = small_board(metrics, resamples=20)
    text = str(board)
    for metric in board.metrics:
        assert str(metric) in text
    for name in ("m0", "m1", "m2"):
        assert name in text
        for evaluation in (board[name], board.own_out[name], board.upper[name]):
            assert "30 queries" in str(evaluation)
    kept = json.loads(board.to_json(tmp_path / "board.json"))
    assert kept == json.loads((tmp_path / "board.json").read_text(encoding="utf-8"))
    means = {(row["model"], row["metric"]): row["mean"] for row in kept["rows"]}
    assert means == {(name, m.label): board[name][m].mean for name in ("m0", "m1", "m2") for m in board.metrics}
    table = board.to_pandas()
    for metric in board.metrics:
        assert table.loc["m1", metric.label] == board["m1"][metric].mean


def test_a_metric_that_no_model_has_is_in_the_table() -> None:
    """AUC is undefined without negatives: null in JSON, nan in pandas."""
    collection = Collection(["q"], list("abc"))
    board = leaderboard(
        {"m": np.array([[3.0, 2, 1]])}, Judgements.of([("q", "a", 1)]), collection, metrics="AUC P@1", resamples=5
    )
    assert [row["mean"] for row in json.loads(board.to_json())["rows"]] == [None, 1.0]
    assert "AUC" in str(board)
    table = board.to_pandas()
    assert list(table.columns) == ["AUC", "P@1"]
    assert np.isnan(table.loc["m", "AUC"])


def test_intervals_are_of_the_same_resamples_for_all_models() -> None:
    """A hit at rank 1 in 30 of 100 queries: 0.3 ± 1.96 deviations of 0.0458; and 0.1 less for who misses ten more."""
    collection = Collection([f"q{n}" for n in range(100)], ["a", "b"])
    judged = Judgements.of([(f"q{n}", item, int(item == "a")) for n in range(100) for item in "ab"])
    matrix = np.where(np.arange(100)[:, None] < 30, [[2.0, 1]], [[1.0, 2]])
    worse = np.where(np.arange(100)[:, None] < 20, [[2.0, 1]], [[1.0, 2]])
    models = {"one": matrix, "other": -worse, "worse": worse}
    board = leaderboard(models, judged, collection, metrics="P@1 AUC", resamples=4000)
    low, high = board.intervals["one"][board.metrics[0]]
    assert (low, high) == pytest.approx((0.3 - 1.96 * 0.0458, 0.3 + 1.96 * 0.0458), abs=0.02)
    metric = board.metrics[0]
    mirrored = board.intervals["worse"][metric]
    assert board.intervals["other"][metric] == pytest.approx((1 - mirrored[1], 1 - mirrored[0]), abs=1e-12)
    assert board.intervals["one"][board.metrics[1]] == pytest.approx((low, high), abs=1e-12)  # here AUC is P@1
    again = leaderboard(models, judged, collection, metrics="P@1 AUC", resamples=4000)
    assert again.intervals == board.intervals
    row = next(row for row in board.rows() if (row["model"], row["metric"]) == ("one", "P@1"))
    assert (row["mean"], row["low"], row["high"]) == (0.3, low, high)


def test_models_are_compared_on_the_same_queries() -> None:
    board = small_board("AUC P@4", resamples=20)
    comparison = board.compare("P@4")
    text = str(comparison)
    difference = board["m0"]["P@4"].mean - board["m2"]["P@4"].mean
    assert f"{difference:+.4f}" in text
    assert "AUC" not in text


def test_a_contest_can_be_looked_at_again() -> None:
    """A leaderboard of a contest is that of its models."""
    rng = np.random.default_rng(0)
    collection = Collection(["q", "r"], list("abcdef"))
    models = {"one": rng.random((2, 6)), "two": rng.random((2, 6))}
    judged = Judgements.of([(q, i, int(rng.random() < 0.5)) for q in "qr" for i in "abcd"])
    direct = leaderboard(models, judged, collection, metrics="AUC P@3 Bpref", resamples=10)
    contest = Contest(models, collection, judged, depth=3)
    wanted = la.metrics.metric.parse_all("AUC P@3 Bpref")
    assert board_of(contest, wanted, None, resamples=10).to_dict() == direct.to_dict()


def test_sampled_negatives_stand_beside_the_grades_that_are_relevant() -> None:
    """With rel=2, judged pairs of grade 1 are neither positives nor sampled negatives, as in `evaluate_scores`."""
    rng = np.random.default_rng(1)
    collection = Collection([f"q{i}" for i in range(5)], [f"i{i}" for i in range(600)])
    scores = rng.normal(size=(5, 600))
    rows = [(f"q{q}", f"i{i}", int(rng.integers(0, 3))) for q in range(5) for i in range(12)]
    metrics = ["AUC(rel=2, negatives='sampled')", "AUC(rel=2, negatives='both')", "PRAUC(rel=2, average='micro')"]
    board = leaderboard({"m": scores}, Judgements.of(rows), collection, metrics=metrics, negatives=20)
    sampled = list(
        zip(
            collection.query_ids[board.contest.sampled_queries].tolist(),
            collection.item_ids[board.contest.sampled_items].tolist(),
            strict=True,
        )
    )
    ids = {"query_ids": collection.query_ids, "gallery_ids": collection.item_ids}
    direct = la.evaluate_scores(scores, la.judged(rows, sampled=sampled), metrics, **ids)
    for metric in metrics:
        assert board["m"][metric].mean == pytest.approx(direct[metric].mean, abs=1e-12)


# Bad input

SHOP = Collection(["q", "r"], ["a", "b", "c", "d"])
SCORES = np.array([[4.0, 3, 2, 1], [1, 2, 3, 4]])
JUDGED = Judgements.of([("q", "a", 1), ("q", "b", 0), ("r", "a", 1), ("r", "b", 0)])


def board(model: Any = SCORES, judged: Any = JUDGED, metrics: Any = "AUC", **options: Any) -> Leaderboard:
    return leaderboard({"dino": model}, judged, SHOP, metrics=metrics, **options)


def pool_of_others() -> Pool:
    return Pool.build({"dino": SCORES}, Collection(["q", "r"], ["d", "c", "b", "a"]), k=2)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no models": (lambda: leaderboard({}, JUDGED, SHOP, metrics="AUC"), "no model"),
    "no judgements": (lambda: board(judged=Judgements.of([])), "no judged pair"),
    "rows for judgements": (lambda: board(judged=[("q", "a", 1)]), "[Jj]udgements.*list"),
    "an unknown item": (lambda: board(judged=Judgements.of([("q", "z", 1)])), "item 'z', which is not in the coll"),
    "an unknown query": (lambda: board(judged=Judgements.of([("z", "a", 1)])), "query 'z', which is not in the coll"),
    "only a query's own": (
        lambda: leaderboard(
            {"m": SCORES[:1]}, Judgements.of([("a", "a", 1)]), Collection(["a"], list("abcd")), metrics="AUC"
        ),
        "own",
    ),
    "scores of nan": (lambda: board(np.where(SCORES == 4, np.nan, SCORES)), "dino: scores hold nan"),
    "a run of nan": (lambda: board({"q": {"a": np.nan}}), "dino: .*query 'q' with item 'a' by nan"),
    "embeddings of nan": (lambda: board((np.eye(4)[:2], np.eye(4) * np.nan)), "dino: gallery embeddings hold nan"),
    "a model of others": (lambda: board(SCORES[:, :3]), "dino is of 2 queries and 3 items, .* has 2 and 4"),
    "a run with an unknown item": (lambda: board({"q": {"z": 1}}), "dino: .*item 'z', which is not in the coll"),
    "an unknown metric": (lambda: board(metrics="AUCC"), "no metric 'AUCC', did you mean 'AUC'"),
    "a cutoff below the catalogue": (lambda: board(metrics="P@5"), "P@5 looks below rank 4"),
    "a rank metric without a cutoff": (lambda: board(metrics="AP"), "AP on a leaderboard needs a cutoff"),
    "an unknown level": (lambda: board(level="shelf"), "level must be one of 'image', 'product', got 'shelf'"),
    "products without identities": (lambda: board(level="product"), "level='product' needs the identity"),
    "no samples": (
        lambda: board(metrics="AUC(negatives='sampled')", negatives=0),
        "no sampled negatives for negatives='sampled'",
    ),
    "nothing to sample": (lambda: board(metrics="AUC(negatives='sampled')"), "lists must be that long"),
    "fewer samples than none": (lambda: board(metrics="AUC(negatives='sampled')", negatives=-1), "negatives.* -1"),
    "no resamples": (lambda: board(resamples=0), "resamples must be .* got 0"),
    "the pool of another collection": (lambda: board(pool=pool_of_others()), "pool.*another collection"),
    "a contest of no depth": (lambda: Contest({"m": SCORES}, SHOP, JUDGED, depth=0), "depth must be .* got 0"),
    "below a contest's depth": (
        lambda: Contest({"m": SCORES}, SHOP, JUDGED, depth=2).evaluate("m", "P@3"),
        "P@3 looks below rank 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert re.search(message, str(caught.value)), str(caught.value)


def test_unknown_names_are_told_with_the_known_ones() -> None:
    found = board()
    with pytest.raises(KeyError, match="no model 'clip' on the leaderboard, only dino"):
        found["clip"]
    with pytest.raises(KeyError, match="P@2 was not evaluated, only AUC"):
        found.ranking("P@2")
    with pytest.raises(ValueError, match="no model 'clip' to evaluate, only dino"):
        Contest({"dino": SCORES}, SHOP, JUDGED, depth=2).evaluate("clip", "AUC")
