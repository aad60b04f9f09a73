"""Pairs are judged in the order that was asked for: rank by rank, or by the models that proved best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.pools import POOL, draw_k, provenance_of, unjudged
from helpers.worlds import World, worlds
from lookalike.discovery import Collection, Pool, judge_in_order, next_pairs
from reference import discovery as slow
from reference.discovery import Pair


def with_some_judged(data: st.DataObject, pool: Pool) -> np.ndarray:
    known = st.lists(st.sampled_from([-1, -1, 0, 1]), min_size=len(pool), max_size=len(pool))
    return np.array(data.draw(known, label="grades"))


@settings(max_examples=100)
@given(world=worlds(tied=True), data=st.data(), random=st.integers(0, 4))
def test_depth_order_goes_layer_by_layer(world: World, data: st.DataObject, random: int) -> None:
    assume(random <= len(world.shop.pairs))
    pool = Pool.build(world.given, world.collection, k=draw_k(data, world), random=random)
    grades = with_some_judged(data, pool)
    n = data.draw(st.integers(0, len(pool) + 2), label="n")
    rows = next_pairs(pool, grades, n).tolist()
    left = np.flatnonzero(grades < 0).tolist()
    assert len(rows) == min(n, len(left))
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(left)
    layers = pool.layers()
    assert [layers[row] for row in rows] == sorted(layers[row] for row in rows)
    assert max((layers[row] for row in rows), default=0) <= min(
        (layers[row] for row in left if row not in rows), default=math.inf
    )
    assert_together(rows, layers, pool)


def assert_together(rows: list[int], layers: np.ndarray, pool: Pool) -> None:
    """Within a layer a query's pairs follow each other."""
    keys = [(layers[row], pool.queries[row]) for row in rows]
    starts = [key for i, key in enumerate(keys) if i == 0 or keys[i - 1] != key]
    assert len(starts) == len(set(starts)), keys


def test_depth_order_by_hand() -> None:
    shop = Collection(["q", "r"], list("abcd"))
    models = {"one": np.array([[4.0, 3, 2, 1], [4, 3, 2, 1]]), "two": np.array([[3.0, 2, 4, 1], [1, 2, 3, 4]])}
    pool = Pool.build(models, shop, k=2)
    order = ["".join(pool.pairs[row]) for row in next_pairs(pool, unjudged(pool), 99)]
    assert order == ["qa", "qc", "ra", "rd", "qb", "rb", "rc"]


def grades_by_pair(pool: Pool, grades: np.ndarray) -> dict[Pair, int]:
    return {pair: int(grade) for pair, grade in zip(pool.pairs, grades, strict=True) if grade >= 0}


@settings(max_examples=150)
@given(world=worlds(tied=True), data=st.data())
def test_the_most_promising_model_is_judged_next(world: World, data: st.DataObject) -> None:
    pool = Pool.build(world.given, world.collection, k=draw_k(data, world))
    grades = with_some_judged(data, pool)
    provenance = provenance_of(pool)
    allowed = slow.next_adaptive(provenance, grades_by_pair(pool, grades), world.given) if (grades < 0).any() else set()
    rows = next_pairs(pool, grades, 1, "adaptive")
    assert len(rows) == min(1, len(allowed))
    assert {pool.pairs[row] for row in rows} <= allowed


@settings(max_examples=150)
@given(world=worlds(tied=True), data=st.data())
def test_several_at_once_are_the_best_models_next_ranks(world: World, data: st.DataObject) -> None:
    """Nothing is learnt within a batch: the best model's pairs come first, by rank, then the next model's."""
    pool = Pool.build(world.given, world.collection, k=draw_k(data, world))
    grades = with_some_judged(data, pool)
    provenance, known = provenance_of(pool), grades_by_pair(pool, grades)
    means = {name: slow.posterior_mean(provenance, known, name) for name in world.given}
    assume(len(set(means.values())) == len(means))
    n = data.draw(st.integers(0, len(pool) + 2), label="n")
    rows = next_pairs(pool, grades, n, "adaptive").tolist()
    assert len(rows) == len(set(rows)) == min(n, int((grades < 0).sum()))
    left = {pool.pairs[row] for row in rows}
    assert not left & set(known)
    for name in sorted(means, key=means.__getitem__, reverse=True):
        mine = {pair: provenance[pair][name][0] for pair in slow.proposals(provenance, name) if pair not in known}
        chosen = {pair: rank for pair, rank in mine.items() if pair in left}
        passed = [rank for pair, rank in mine.items() if pair not in left]
        left -= set(chosen)
        if passed:
            assert max(chosen.values(), default=0) <= min(passed)
            assert not left, f"{left} were taken of a worse model"
        known |= dict.fromkeys(mine, 0)  # not to be taken again


@settings(max_examples=60)
@given(
    world=worlds(tied=True),
    data=st.data(),
    order=st.sampled_from(["depth", "adaptive"]),
    random=st.integers(0, 4),
    step=st.integers(1, 5),
)
def test_a_budget_is_used_up_and_no_more(world: World, data: st.DataObject, order: str, random: int, step: int) -> None:
    assume(random <= len(world.shop.pairs))
    pool = Pool.build(world.given, world.collection, k=draw_k(data, world), random=random)
    truth = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(pool), max_size=len(pool)), label="truth"))
    budget = data.draw(st.integers(0, len(pool)), label="budget")
    asked: list[int] = []

    def judge(rows: np.ndarray) -> np.ndarray:
        assert 1 <= len(rows) <= step
        asked.extend(rows.tolist())
        return truth[rows]

    grades = judge_in_order(pool, judge, budget, order, step)
    assert len(asked) == len(set(asked)) == budget
    expected = unjudged(pool)
    expected[asked] = truth[asked]
    np.testing.assert_array_equal(grades, expected)
    if order == "depth":
        assert asked == next_pairs(pool, unjudged(pool), budget).tolist()


@settings(max_examples=60)
@given(world=worlds(min_models=2, tied=True), data=st.data())
def test_judging_one_by_one_follows_the_evidence(world: World, data: st.DataObject) -> None:
    pool = Pool.build(world.given, world.collection, k=draw_k(data, world))
    truth = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(pool), max_size=len(pool)), label="truth"))
    provenance = provenance_of(pool)
    known: dict[Pair, int] = {}

    def judge(rows: np.ndarray) -> np.ndarray:
        (row,) = rows
        assert pool.pairs[row] in slow.next_adaptive(provenance, known, world.given)
        known[pool.pairs[row]] = int(truth[row])
        return truth[rows]

    judge_in_order(pool, judge, len(pool), "adaptive", step=1)
    assert len(known) == len(pool)


def test_adaptive_order_by_hand() -> None:
    """Good is right with what it ranks first, bad is wrong: (1 + 1) / (1 + 2) against 1/3."""
    shop = Collection(["q", "r"], list("abcdef"))
    rows = {"good": [6.0, 5, 4, 3, 2, 1], "bad": [1.0, 2, 3, 4, 5, 6]}
    pool = Pool.build({name: np.array([row, row]) for name, row in rows.items()}, shop, k=3)
    grades = np.array([{"a": 1, "f": 0}.get(item, -1) for _, item in pool.pairs])

    def of_next(n: int) -> set[str]:
        return {"".join(pool.pairs[row]) for row in next_pairs(pool, grades, n, "adaptive")}

    assert of_next(2) == {"qb", "rb"}
    assert of_next(4) == {"qb", "rb", "qc", "rc"}
    assert of_next(6) == {"qb", "rb", "qc", "rc", "qe", "re"}
    assert len(of_next(9)) == 8


def test_adaptive_order_begins_with_all_models() -> None:
    """While nothing is judged nobody is better: the first batch is what each ranks first, not all of one model."""
    rng = np.random.default_rng(2)
    shop = Collection([f"q{n}" for n in range(20)], [f"i{n}" for n in range(300)])
    pool = Pool.build({name: rng.random((20, 300)) for name in ("one", "two", "three")}, shop, k=5)
    first = next_pairs(pool, unjudged(pool), 60, "adaptive")
    assert (pool.layers()[first] == 1).all()
    assert pool.proposed[first].sum(0).tolist() == pytest.approx([20, 20, 20], abs=3)
    grades = unjudged(pool)
    grades[first] = pool.proposed[first, 0]  # only the first is ever right
    second = next_pairs(pool, grades, 60, "adaptive")
    assert pool.proposed[second, 0].all()


@pytest.mark.parametrize("step", [1, 3, 20])
def test_adaptive_order_mixes_in_what_chance_drew(step: int) -> None:
    """A quarter of the pairs in the pool are drawn by chance: of any 120 next ones about 30 are, give or take 15."""
    rng = np.random.default_rng(1)
    shop = Collection([f"q{n}" for n in range(50)], [f"i{n}" for n in range(400)])
    pool = Pool.build({"one": rng.random((50, 400)), "two": rng.random((50, 400))}, shop, k=5, random=165)
    chance = pool.random & ~pool.proposed.any(1)
    assert chance.sum() == pytest.approx(len(pool) / 4, abs=10)
    asked: list[int] = []

    def judge(rows: np.ndarray) -> np.ndarray:
        asked.extend(rows.tolist())
        return np.zeros(len(rows), int)

    judge_in_order(pool, judge, len(pool), "adaptive", step=step)
    shares = [np.mean(chance[asked[start : start + 120]]) for start in range(0, 600, 120)]
    assert all(0.125 < share < 0.375 for share in shares), shares


@pytest.mark.parametrize("order", ["depth", "adaptive"])
def test_a_pair_that_nobody_could_decide_is_not_asked_again(order: str) -> None:
    asked: list[int] = []

    def judge(rows: np.ndarray) -> np.ndarray:
        asked.extend(rows.tolist())
        assert len(asked) <= 8, "pairs are asked again"
        return np.full(len(rows), -1)

    judge_in_order(POOL, judge, 6, order, step=2)
    assert len(asked) == len(set(asked)) == 6
