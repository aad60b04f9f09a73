"""A pool holds the best of every model, says who proposed what, and is judged in the order that was asked for.

What a vacuous test would let pass: models that all rank alike; a query's own items that would not have been proposed
anyway; ids in the order of their positions; identities that every item has for itself; ties that never reach across
rank k; a tie broken in favour of whoever comes first; one block of queries; random pairs that no model proposes.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import lookalike as la
from helpers.pools import POOL, SCORES, SHOP, draw_k, provenance_of, refuse_to_judge, unjudged
from helpers.worlds import KINDS, World, collection_of, random_model, random_shop, worlds
from lookalike.core.kernels import kernels
from lookalike.discovery import Collection, Pool, judge_in_order, next_pairs
from reference import discovery as slow
from reference.discovery import Pair, Provenance

TOLERANCE = {"rel": 1e-5, "abs": 1e-5}  # scores of single precision


# The k-th largest


@settings(max_examples=150)
@given(
    row=st.sampled_from([np.float32, np.float64]).flatmap(
        lambda dtype: arrays.arrays(
            dtype,
            st.integers(1, 70),
            elements=st.one_of(
                st.integers(-3, 3), st.floats(width=16, allow_nan=False), st.sampled_from([-np.inf, np.inf])
            ),
        )
    ),
    data=st.data(),
)
def test_the_kth_largest_is_numpys(row: np.ndarray, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(row) + 2))
    before = row.copy()
    place = min(k, len(row))
    assert kernels().kth_largest(row, k) == np.partition(before, len(row) - place)[len(row) - place]
    np.testing.assert_array_equal(row, before)


# What is in a pool


def assert_same_provenance(found: Provenance, expected: Provenance) -> None:
    assert found.keys() == expected.keys()
    for pair, models in expected.items():
        assert found[pair].keys() == models.keys(), pair
        for name, (rank, score) in models.items():
            assert found[pair][name][0] == rank, (pair, name)
            assert found[pair][name][1] == pytest.approx(score, **TOLERANCE), (pair, name)


def assert_same_pool(one: Pool, other: Pool) -> None:
    assert (one.models, one.k, one.pairs) == (other.models, other.k, other.pairs)
    np.testing.assert_array_equal(one.ranks, other.ranks)
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.random, other.random)


def assert_a_top(world: World, name: str, query: str, proposed: list[str], k: int, one_per_identity: bool) -> None:
    """Items in the order of their ranks are k best ones of a query, whatever the order of tied items."""
    scores = dict(slow.listed(world.shop, world.rankings[name], query))
    assert set(proposed) <= set(scores), "own or not listed"
    if one_per_identity:
        best: dict[str, float] = {}
        for item, score in scores.items():
            identity = world.shop.identity(item)
            best[identity] = max(score, best.get(identity, score))
        identities = [world.shop.identity(item) for item in proposed]
        assert len(set(identities)) == len(identities)
        assert [scores[item] for item in proposed] == [best[identity] for identity in identities]
        left_out = [score for identity, score in best.items() if identity not in identities]
    else:
        left_out = [score for item, score in scores.items() if item not in proposed]
    assert len(proposed) == min(k, len(proposed) + len(left_out))
    falling = [scores[item] for item in proposed]
    assert falling == sorted(falling, reverse=True)
    assert max(left_out, default=-math.inf) <= min(falling, default=math.inf)


def assert_holds_tops(world: World, pool: Pool, k: int, one_per_identity: bool = False) -> None:
    """The pool is a union of tops: exactly k proposals of each model and query, none worse than one left out."""
    found = provenance_of(pool)
    assert pool.models == tuple(world.given)
    for name in pool.models:
        for query in world.shop.queries:
            ranks = {item: models[name][0] for (q, item), models in found.items() if q == query and name in models}
            proposed = sorted(ranks, key=ranks.__getitem__)
            assert [ranks[item] for item in proposed] == list(range(1, len(proposed) + 1))
            assert_a_top(world, name, query, proposed, k, one_per_identity)
            for item in proposed:
                score = found[query, item][name][1]
                assert score == pytest.approx(world.rankings[name][query][item], **TOLERANCE)


@settings(max_examples=150)
@given(world=worlds(), data=st.data(), one_per_identity=st.booleans())
def test_a_pool_is_the_union_of_the_best(world: World, data: st.DataObject, one_per_identity: bool) -> None:
    k = draw_k(data, world)
    pool = Pool.build(world.given, world.collection, k=k, one_per_identity=one_per_identity)
    expected = slow.provenance_of(world.shop, world.rankings, k, one_per_identity)
    assert_same_provenance(provenance_of(pool), expected)
    assert_holds_tops(world, pool, k, one_per_identity)
    assert len(pool) == pool.suspects == len(expected) == len(set(pool.pairs))
    order = [(world.shop.queries.index(query), world.shop.items.index(item)) for query, item in pool.pairs]
    assert order == sorted(order) == list(zip(pool.queries.tolist(), pool.items.tolist(), strict=True))


@settings(max_examples=150)
@given(world=worlds(tied=True), data=st.data(), one_per_identity=st.booleans(), seed=st.integers(0, 9))
def test_ties_are_broken_at_exactly_k(world: World, data: st.DataObject, one_per_identity: bool, seed: int) -> None:
    k = draw_k(data, world)
    pool = Pool.build(world.given, world.collection, k=k, one_per_identity=one_per_identity, seed=seed)
    assert_holds_tops(world, pool, k, one_per_identity)
    smaller = data.draw(st.integers(1, k), label="smaller k")
    assert_holds_tops(world, pool.at(smaller), smaller, one_per_identity)
    again = Pool.build(world.given, world.collection, k=k, one_per_identity=one_per_identity, seed=seed)
    assert_same_pool(pool, again)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_gives_its_top(kind: str) -> None:
    rng = np.random.default_rng(5)
    shop = random_shop(rng, 30, 60, identities=25)
    made, ranking = random_model(rng, shop, kind, tied=False)
    world = World(shop, collection_of(shop), {kind: made}, {kind: ranking()})
    if kind == "run":  # which may list nothing of a query
        world.given["all"] = matrix = np.arange(60.0) + np.zeros((30, 1))
        world.rankings["all"] = slow.ranking_of_matrix(shop, matrix.tolist())
    for one_per_identity in (False, True):
        pool = Pool.build(world.given, world.collection, k=7, one_per_identity=one_per_identity)
        assert_same_provenance(provenance_of(pool), slow.provenance_of(shop, world.rankings, 7, one_per_identity))


def test_a_query_never_meets_its_own() -> None:
    """The best three of each row are the query, another image of its shoe, and one that it may meet."""
    shop = Collection(["b", "wild"], ["a", "b", "c", "d"], ["shoe", "hat"], ["hat", "shoe", "shoe", "bag"])
    matrix = np.array([[1.0, 9, 8, 2], [9, 2, 3, 1]])
    assert Pool.build({"m": matrix}, shop, k=1).pairs == [("b", "d"), ("wild", "c")]
    run = {q: dict(zip("abcd", row, strict=True)) for q, row in zip(["b", "wild"], matrix.tolist(), strict=True)}
    assert Pool.build({"m": run}, shop, k=1).pairs == [("b", "d"), ("wild", "c")]


def test_a_query_without_identity_meets_all_but_itself() -> None:
    pool = Pool.build({"m": np.array([[3.0, 9, 2]])}, Collection(["b"], ["a", "b", "c"]), k=2)
    assert pool.pairs == [("b", "a"), ("b", "c")]
    assert pool.ranks.tolist() == [[1], [2]]


@pytest.mark.parametrize("worst", [-np.inf, np.finfo(float).min, -1e300])
def test_the_lowest_scores_do_not_let_a_query_meet_its_own(worst: float) -> None:
    shop = Collection(["a"], ["a", "b", "c", "d"], ["shoe"], ["shoe", "shoe", "hat", "bag"])
    pool = Pool.build({"m": np.array([[worst, worst, worst, 1.0]]), "n": np.zeros((1, 4))}, shop, k=2)
    assert {item for _, item in pool.pairs} == {"c", "d"}
    assert pool.ranks[pool.pairs.index(("a", "d")), 0] == 1


def test_double_precision_is_not_rounded() -> None:
    """Scores that single precision would tie."""
    matrix = 1 + 1e-12 * np.array([[3.0, 1, 4, 2, 0]])
    pool = Pool.build({"m": matrix}, Collection(["q"], list("abcde")), k=4)
    assert dict(zip(pool.pairs, pool.ranks[:, 0].tolist(), strict=True)) == {
        ("q", "a"): 2,
        ("q", "b"): 4,
        ("q", "c"): 1,
        ("q", "d"): 3,
    }
    np.testing.assert_array_equal(pool.scores[:, 0], matrix[0, :4])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "run"])
@pytest.mark.parametrize("one_per_identity", [False, True])
def test_the_pool_is_the_same_with_any_number_of_threads(kind: str, one_per_identity: bool) -> None:
    rng = np.random.default_rng(11)
    shop = random_shop(rng, 250, 120, identities=50)
    made = dict(enumerate(random_model(rng, shop, kind, tied=tied)[0] for tied in (True, False)))
    given = {f"m{n}": model for n, model in made.items()}
    pools = [
        Pool.build(given, collection_of(shop), k=5, threads=threads, seed=3, one_per_identity=one_per_identity)
        for threads in (1, 2, 5, None)
    ]
    for pool in pools[1:]:
        assert_same_pool(pool, pools[0])
    assert (Counter(pools[0].queries[pools[0].proposed[:, 1]].tolist())) == dict.fromkeys(range(250), 5)


def test_what_models_tie_they_share() -> None:
    """Models that say nothing propose the same, as ties are broken once for all of them; by the seed, not by place."""
    n = 40
    shop = Collection(["q", "r"], [f"i{i}" for i in range(n)])
    codes = la.Codes.pack(np.zeros((2, 8))), la.Codes.pack(np.zeros((n, 8)))
    run = {q: dict.fromkeys(shop.item_ids.tolist(), 1.0) for q in ("q", "r")}
    models = {"matrix": np.zeros((2, n)), "codes": codes, "run": run, "same": (np.ones((2, 3)), np.ones((n, 3)))}
    pools = [Pool.build(models, shop, k=5, seed=seed) for seed in range(20)]
    for pool in pools:
        np.testing.assert_array_equal(pool.overlap, np.ones((4, 4)))
        assert pool.duplication == pytest.approx(3 / 4)
        assert (pool.ranks == pool.ranks[:, :1]).all()
    drawn = Counter(item for pool in pools for _, item in pool.pairs)
    assert len(drawn) > 30, "the same items win every tie"


# Questions to the provenance


@settings(max_examples=100)
@given(world=worlds(min_models=2), data=st.data())
def test_who_proposed_what(world: World, data: st.DataObject) -> None:
    k = draw_k(data, world)
    expected = slow.provenance_of(world.shop, world.rankings, k)
    assume(all(slow.proposals(expected, name) for name in world.given))
    pool = Pool.build(world.given, world.collection, k=k)
    overlap = [[float(slow.overlap(expected, a, b)) for b in world.given] for a in world.given]
    np.testing.assert_allclose(pool.overlap, overlap, rtol=1e-14)
    assert pool.duplication == pytest.approx(float(slow.duplication(expected, world.given)), abs=1e-14)
    assert pool.saving == pytest.approx(len(world.shop.pairs) / len(expected), rel=1e-14)
    assert pool.layers().tolist() == [slow.layer(expected, pair) for pair in pool.pairs]
    assert pool.all_pairs == len(world.shop.pairs)
    assert {name: set(pairs) for name, pairs in pool.proposals.items()} == {
        name: slow.proposals(expected, name) for name in world.given
    }
    for m, (name, row) in enumerate(zip(world.given, pool.rows(), strict=True)):
        mine = slow.proposals(expected, name)
        assert {pair for pair, yes in zip(pool.pairs, pool.proposed[:, m], strict=True) if yes} == mine
        lonely = {pair for pair, yes in zip(pool.pairs, pool.alone(name), strict=True) if yes}
        assert lonely == slow.alone(expected, name)
        assert (row["model"], row["pairs"], row["alone"]) == (name, len(mine), len(lonely))
        assert [row[f"in {other}"] for other in world.given] == pytest.approx(overlap[m])


@settings(max_examples=100)
@given(world=worlds(), data=st.data(), one_per_identity=st.booleans(), random=st.integers(0, 3))
def test_a_smaller_pool_is_in_the_larger_one(
    world: World, data: st.DataObject, one_per_identity: bool, random: int
) -> None:
    k = draw_k(data, world)
    smaller = data.draw(st.integers(1, k), label="smaller k")
    assume(random <= len(world.shop.pairs))

    def build(k: int) -> Pool:
        return Pool.build(world.given, world.collection, k=k, one_per_identity=one_per_identity, random=random, seed=4)

    assert_same_pool(build(k).at(smaller), build(smaller))


@settings(max_examples=100)
@given(world=worlds(min_models=2), data=st.data(), random=st.integers(0, 3))
def test_leaving_a_model_out_is_not_having_it(world: World, data: st.DataObject, random: int) -> None:
    k = draw_k(data, world)
    assume(random <= len(world.shop.pairs))
    gone = data.draw(st.sampled_from(sorted(world.given)), label="left out")
    others = {name: model for name, model in world.given.items() if name != gone}
    assume(
        all(
            any(slow.listed(world.shop, world.rankings[name], query) for name in others) for query in world.shop.queries
        )
    )
    pool = Pool.build(world.given, world.collection, k=k, random=random)
    left = pool.without(gone)
    assert_same_pool(left, Pool.build(others, world.collection, k=k, random=random))
    expected = slow.provenance_of(world.shop, world.rankings, k)
    assert_same_provenance(provenance_of(left), slow.without(expected, gone))
    assert len(pool) - len(left) == pool.alone(gone).sum()


@settings(max_examples=50)
@given(world=worlds(min_models=2, tied=True), data=st.data(), random=st.integers(0, 3))
def test_models_may_come_one_by_one(world: World, data: st.DataObject, random: int) -> None:
    k = draw_k(data, world)
    assume(random <= len(world.shop.pairs))
    pool = Pool.empty(world.collection, k=k, random=random, seed=2)
    assert (pool.models, len(pool)) == ((), random)
    for name, model in world.given.items():
        pool = pool.with_model(name, model)
    assert_same_pool(pool, Pool.build(world.given, world.collection, k=k, random=random, seed=2))


def test_the_numbers_of_a_pool_by_hand() -> None:
    """One proposes a and b, two b and c, three b alone, as it lists no more."""
    shop = Collection(["q"], list("abcdefgh"))
    models = {
        "one": np.array([[9.0, 8, 1, 0, 0, 0, 0, 0]]),
        "two": np.array([[1.0, 8, 9, 0, 0, 0, 0, 0]]),
        "three": {"q": {"b": 0.5}},
    }
    pool = Pool.build(models, shop, k=2)
    assert pool.pairs == [("q", "a"), ("q", "b"), ("q", "c")]
    assert pool.ranks.tolist() == [[1, 0, 0], [2, 2, 1], [0, 1, 0]]
    assert pool.scores[1].tolist() == [8, 8, 0.5]
    assert pool.overlap.tolist() == [[1, 0.5, 0.5], [0.5, 1, 0.5], [1, 1, 1]]
    assert pool.duplication == pytest.approx(1 - 3 / 5)
    assert pool.saving == pytest.approx(8 / 3)
    assert pool.layers().tolist() == [1, 1, 1]
    assert [pool.alone(name).tolist() for name in models] == [[True, False, False], [False, False, True], [False] * 3]
    assert "40.0 % duplicates" in str(pool)
    assert "2.7 times fewer than all 8 pairs" in str(pool)
    assert Pool.build(models, shop, k=2, random=7).saving == 1  # what chance drew is to be judged too


# Pairs drawn by chance


@settings(max_examples=100)
@given(world=worlds(max_models=1), data=st.data(), seed=st.integers(0, 99))
def test_pairs_drawn_by_chance(world: World, data: st.DataObject, seed: int) -> None:
    n = data.draw(st.integers(0, len(world.shop.pairs)), label="pairs")
    pool = Pool.empty(world.collection, k=1, random=n, seed=seed)
    assert len(set(pool.pairs)) == len(pool.pairs) == pool.random.sum() == n
    assert set(pool.pairs) <= set(world.shop.pairs)
    assert pool.suspects == 0
    assert pool.pairs == Pool.empty(world.collection, k=1, random=n, seed=seed).pairs
    mixed = Pool.build(world.given, world.collection, k=1, random=n, seed=seed)
    drawn = {pair for pair, yes in zip(mixed.pairs, mixed.random, strict=True) if yes}
    assert drawn == set(pool.pairs) == set(mixed.drawn)
    proposed = slow.provenance_of(world.shop, world.rankings, 1)
    assert set(mixed.pairs) == drawn | set(proposed)
    assert mixed.suspects == len(proposed)
    for name in world.given:
        lonely = {pair for pair, yes in zip(mixed.pairs, mixed.alone(name), strict=True) if yes}
        assert lonely == slow.alone(proposed, name, drawn)
    shown = {row["model"]: row["alone"] for row in mixed.rows()}  # what is proposed and drawn counts as proposed
    assert shown == {name: len(slow.alone(proposed, name)) for name in world.given}


@pytest.mark.parametrize("n", [2, 17])
def test_chance_has_no_favourites(n: int) -> None:
    """Each of 21 pairs is among n drawn ones with the same chance; five deviations of its share over the seeds."""
    shop = slow.Shop(
        ["q", "a", "r"],
        list("abcdefgh"),
        {"q": "x", "a": "y", "r": "z"},
        dict(zip("abcdefgh", ["y", "y", "x", *"12345"], strict=True)),
    )
    assert len(shop.pairs) == 21
    collection, seeds = collection_of(shop), 1000
    drawn = Counter(pair for seed in range(seeds) for pair in Pool.empty(collection, k=1, random=n, seed=seed).pairs)
    assert set(drawn) == set(shop.pairs)
    deviation = math.sqrt(n / 21 * (1 - n / 21) / seeds)
    for count in drawn.values():
        assert abs(count / seeds - n / 21) < 5 * deviation


def test_pairs_drawn_by_chance_are_spread_over_all_layers() -> None:
    """So that whoever stops early has judged some: some 3,900 over 5 layers, 125 being five deviations of each."""
    rng = np.random.default_rng(0)
    shop = Collection([f"q{n}" for n in range(100)], [f"i{n}" for n in range(200)])
    pool = Pool.build({"m": rng.random((100, 200))}, shop, k=5, random=4000)
    only = pool.random & ~pool.proposed.any(1)
    layers = pool.layers()
    assert sorted(set(layers.tolist())) == [1, 2, 3, 4, 5]
    counts = Counter(layers[only].tolist())
    assert all(abs(count - only.sum() / 5) < 125 for count in counts.values()), counts
    np.testing.assert_array_equal(layers[~only], pool.ranks[~only, 0])
    np.testing.assert_array_equal(layers, pool.layers())


# Files

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5).filter(
    str.strip
)


@settings(max_examples=60)
@given(world=worlds(tied=True), data=st.data(), random=st.integers(0, 3), one_per_identity=st.booleans())
def test_a_saved_pool_comes_back(
    world: World, data: st.DataObject, random: int, one_per_identity: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assume(random <= len(world.shop.pairs))
    names = data.draw(st.lists(TEXT, unique=True, min_size=len(world.given), max_size=len(world.given)), label="names")
    assume("random" not in names)
    given = dict(zip(names, world.given.values(), strict=True))
    k = draw_k(data, world)
    pool = Pool.build(given, world.collection, k=k, random=random, one_per_identity=one_per_identity, seed=7)
    path = tmp_path_factory.mktemp("pool") / "pool.parquet"
    pool.save(path)
    back = Pool.load(path, world.collection)
    assert_same_pool(back, pool)
    assert (back.one_per_identity, back.seed) == (pool.one_per_identity, pool.seed)
    assert back.ranks.dtype == pool.ranks.dtype
    np.testing.assert_array_equal(back.layers(), pool.layers())
    newcomer = np.arange(len(world.shop.items)) + np.zeros((len(world.shop.queries), 1))
    assert_same_pool(back.with_model("newcomer of all", newcomer), pool.with_model("newcomer of all", newcomer))


def small_pool() -> Pool:
    shop = Collection(["q,1", "r"], ["a", 'b "x"', "c", "d"])
    models = {"one": np.array([[4.0, 3, 2, 1], [1, 2, 3, 4]]), "two": {"q,1": {"a": 0.25, "d": 1}}}
    return Pool.build(models, shop, k=2, random=3, seed=1)


def test_proposals_as_csv(tmp_path: Path) -> None:
    pool = small_pool()
    pool.save(tmp_path / "pool.csv")
    with (tmp_path / "pool.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    proposed = {
        (row["query"], row["item"], row["model"]): (int(row["rank"]), float(row["score"]))
        for row in rows
        if row["model"] != "random"
    }
    assert proposed == {
        (*pair, name): place for pair, models in provenance_of(pool).items() for name, place in models.items()
    }
    drawn = [(row["query"], row["item"]) for row in rows if row["model"] == "random"]
    assert sorted(drawn) == sorted(pair for pair, yes in zip(pool.pairs, pool.random, strict=True) if yes)
    assert len(drawn) == 3


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.parquet"])
def test_pairs_to_judge_do_not_say_who_proposed_them(name: str, tmp_path: Path) -> None:
    pool = small_pool()

    def read() -> list[Pair]:
        if name.endswith(".csv"):
            with (tmp_path / name).open(newline="", encoding="utf-8") as file:
                found = list(csv.DictReader(file))
        else:
            found = pq.read_table(tmp_path / name).to_pylist()
        assert all(set(row) == {"query", "item"} for row in found)
        return [(row["query"], row["item"]) for row in found]

    pool.write_pairs(tmp_path / name)
    assert read() == pool.pairs
    pool.write_pairs(tmp_path / name, np.array([2, 0]))
    assert read() == [pool.pairs[2], pool.pairs[0]]


def test_a_pool_is_refused_for_another_collection(tmp_path: Path) -> None:
    pool = small_pool()
    pool.save(tmp_path / "pool.parquet")
    for queries, items in [(["q,1", "s"], pool.collection.item_ids), (["q,1", "r"], ["a", "c", 'b "x"', "d"])]:
        with pytest.raises(ValueError, match=r"pool\.parquet is the pool of another collection"):
            Pool.load(tmp_path / "pool.parquet", Collection(queries, items))


# Bad input

NAN = np.where(SCORES == 3, np.nan, SCORES)
VECTORS = np.eye(4)[:2], np.eye(4) + 1
BITS = la.Codes.pack([[0, 1], [1, 1]]), la.Codes.pack([[0, 0], [0, 1], [1, 0], [1, 1]])


def build(model: Any, k: Any = 2, **options: Any) -> Pool:
    return Pool.build({"dino": model}, SHOP, k=k, **options)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no models": (lambda: Pool.build({}, SHOP, k=1), "at least one model"),
    "a name twice": (lambda: POOL.with_model("one", SCORES), "model 'one' in the pool already"),
    "the name of chance": (lambda: Pool.build({"random": SCORES}, SHOP, k=1), "cannot be named 'random'"),
    "no name": (lambda: Pool.build({"": SCORES}, SHOP, k=1), "cannot be named ''"),
    "k of 0": (lambda: build(SCORES, 0), "k must be from 1 to 4.* got 0"),
    "k beyond the catalogue": (lambda: build(SCORES, 5), "k must be from 1 to 4.* got 5"),
    "k beyond a closed catalogue": (
        lambda: Pool.build({"m": np.ones((1, 3))}, Collection(["a"], ["a", "b", "c"]), k=3),
        "k must be from 1 to 2.* got 3",
    ),
    "k in part": (lambda: build(SCORES, 1.5), "k must be .* got 1.5"),
    "k of nothing": (lambda: Pool.empty(SHOP, k=0), "k must be from 1 to 4.* got 0"),
    "more pairs than there are": (lambda: build(SCORES, random=9), "drawn by chance must be from 0 to 8, got 9"),
    "fewer pairs than none": (lambda: build(SCORES, random=-1), "drawn by chance must be from 0 to 8, got -1"),
    "scores of nan": (lambda: build(NAN), "dino: scores hold nan, first in row 0, column 1"),
    "embeddings of nan": (
        lambda: build((VECTORS[0], np.where(VECTORS[1] > 1, np.nan, VECTORS[1]))),
        "dino: gallery embeddings hold nan, first in row 0, column 0",
    ),
    "query embeddings of nan": (lambda: build((VECTORS[0] * np.nan, VECTORS[1])), "dino: query embeddings hold nan"),
    "a run of nan": (lambda: build({"q": {"a": 1, "b": np.nan}}), "dino: .*query 'q' with item 'b' by nan"),
    "a run of text": (lambda: build({"q": {"a": "high"}}), "dino: .*'high'"),
    "a run of lists": (lambda: build({"q": ["a", "b"]}), "dino: .*run"),
    "a run with an unknown item": (lambda: build({"q": {"z": 1}}), "dino: .*item 'z', which is not in the collection"),
    "a run with an unknown query": (lambda: build({"z": {"a": 1}}), "dino: .*query 'z', which is not in the coll"),
    "too few scores": (lambda: build(SCORES[:, :3]), "dino is of 2 queries and 3 items, .* has 2 and 4"),
    "too many queries": (lambda: build(np.vstack([SCORES, SCORES])), "dino is of 4 queries and 4 items"),
    "embeddings of others": (lambda: build((VECTORS[0], VECTORS[1][:3])), "dino is of 2 queries and 3 items"),
    "codes of others": (lambda: build((BITS[0], BITS[1][:3])), "dino is of 2 queries and 3 items"),
    "columns of others": (lambda: build((VECTORS[0], VECTORS[1][:, :3])), "dino: gallery embeddings have 3 columns"),
    "bits of others": (
        lambda: build((BITS[0], la.Codes.pack(np.eye(4)))),
        "dino: gallery codes have 4 bits, queries have 2",
    ),
    "codes by cosine": (lambda: build((*BITS, "cosine")), "dino: codes are given as"),
    "codes and embeddings": (lambda: build((BITS[0], VECTORS[1])), "dino: codes are given as"),
    "an unknown similarity": (lambda: build((*VECTORS, "cosin")), "dino: similarity must be one of .* got 'cosin'"),
    "a zero embedding": (lambda: build((VECTORS[0], 0 * VECTORS[1])), "dino: gallery embedding in row 0 is zero"),
    "text": (lambda: build("dino.npy"), "dino: a model is .* got str"),
    "nothing": (lambda: build(None), "dino: a model is .* got NoneType"),
    "a query without candidates": (
        lambda: Pool.build({"m": np.ones((2, 1))}, Collection(["a", "b"], ["a"]), k=1),
        "no model proposes anything for query 'a'",
    ),
    "a query whose items are all its own": (
        lambda: Pool.build({"m": np.ones((1, 2))}, Collection(["q"], ["a", "b"], ["x"], ["x", "x"]), k=1),
        "no model proposes anything for query 'q'",
    ),
    "a query that no run knows": (lambda: build({"q": {"a": 1}}), "no model proposes anything for query 'r'"),
    "a larger k of a pool": (lambda: POOL.at(3), "the top 2 of each model.* got 3"),
    "no k of a pool": (lambda: POOL.at(0), "k must be from 1.* got 0"),
    "an unknown model left out": (lambda: POOL.without("three"), "no model 'three' in the pool, only one, two"),
    "an unknown model alone": (lambda: POOL.alone("three"), "no model 'three' in the pool, only one, two"),
    "an unknown order": (lambda: next_pairs(POOL, unjudged(POOL), 1, "width"), "depth.*adaptive.*got 'width'"),
    "grades of others": (lambda: next_pairs(POOL, np.array([1, 0]), 1), "8 .*got 2|got 2.* 8|2 grades.* 8"),
    "no step": (lambda: judge_in_order(POOL, refuse_to_judge, 4, step=0), "step .* got 0"),
    "a name that is no text": (lambda: Pool.build({1: SCORES}, SHOP, k=1), "name.* 1"),
    "items twice": (lambda: Collection(["q"], ["a", "b", "a"]), "item ids must differ, 'a' occurs 2 times"),
    "queries twice": (lambda: Collection(["q", "q"], ["a"]), "query ids must differ, 'q' occurs 2 times"),
    "no queries": (lambda: Collection([], ["a"]), "query ids must be a list of at least one"),
    "no items": (lambda: Collection(["q"], []), "item ids must be a list of at least one"),
    "half of the identities": (lambda: Collection(["q"], ["a"], None, ["x"]), "identities .*queries and items"),
    "identities of others": (lambda: Collection(["q"], ["a", "b"], ["x"], ["x"]), "2 item ids, but 1 identities"),
    "an image of two identities": (lambda: Collection(["a"], ["a"], ["x"], ["y"]), "query 'a' has another identity"),
    "a pair with an unknown item": (lambda: SHOP.positions([("q", "a"), ("q", "z")]), "pair 2 names item 'z'"),
    "a pair with an unknown query": (lambda: SHOP.positions([("z", "a")]), "pair 1 names query 'z'"),
    "a file of another kind": (lambda: POOL.save("pool.txt"), "pool.txt: the name must end in"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert re.search(message, str(caught.value)), str(caught.value)
