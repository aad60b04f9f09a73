"""Metrics of ranks on a leaderboard are what their definitions say, for models of every kind.

What a vacuous test would let pass: judged pairs that every model ranks first; identities with one image each, so that
no judgement is inherited and none hides behind another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.contests import TOLERANCE, Case, assert_score, cases
from helpers.worlds import collection_of, judgements_of
from lookalike.discovery import Collection, Contest, Judgements, leaderboard
from reference import definitions
from reference import discovery as slow
from reference.definitions import Bounds
from reference.discovery import Pair, Ranked, Shop

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
    assert contest.evaluate("m", "RBP(p=0.5)")["RBP(p=0.5)"].mean == pytest.approx((1 - 1 / 16) / 4)  # of all ranks


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
