"""Every model ranks once, and what it is asked is the same however it is counted.

Compiled loops and plain numpy give equal numbers, to the last bit: for rows shorter and longer than a step, a sample
and the depth; with ties, with items that do not rank, and with a sample that misleads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.core.bootstrap import _sums
from lookalike.core.embeddings import EmbeddingPairScores, Embeddings
from lookalike.discovery import Collection, Contest, Pool, by_rule, leave_one_out
from lookalike.discovery import rankers as rankers_module
from lookalike.discovery.collection import Collection as Shop
from lookalike.discovery.first_items import (
    best_of_identities,
    best_of_identities_plainly,
    first_items,
    first_items_plainly,
)
from lookalike.discovery.judgements import majority
from lookalike.discovery.known_scores import KnownScores
from lookalike.discovery.leaderboard import leaderboard
from lookalike.discovery.places import PairsToPlace, Places, places_in_block
from lookalike.discovery.rankers import CodeModel, EmbeddingModel, Model, RankingRequest, ScoreModel, as_model
from lookalike.discovery.sampled_negatives import FirstLists, NegativeSample, draw_negatives, sample_negatives
from lookalike.discovery.votes import Votes

SIZES = [1, 2, 15, 16, 17, 63, 200, 1023, 1024, 1056, 3000]


@st.composite
def blocks(draw: st.DrawFn) -> np.ndarray:
    """Rows of scores: with many ties or with none, some of them -inf, some that deceive a sample."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 4)), draw(st.sampled_from(SIZES))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rows: np.ndarray = rng.normal(size=shape).astype(dtype)
    match draw(st.sampled_from(["distinct", "tied", "equal", "deceiving"])):
        case "tied":
            rows = np.round(rows * 2) / 2
        case "equal":
            rows[:] = 0.5
        case "deceiving":  # the scores that a sample looks at are the highest
            rows[:, ::32] += 100
    rows[rng.random(shape) < draw(st.sampled_from([0, 0.1, 0.9, 1.0]))] = -np.inf
    return rows


@settings(max_examples=300, deadline=None)
@given(blocks(), st.sampled_from([1, 2, 6, 20, 100, 5000]), st.sampled_from([1, 5, 50]), st.booleans())
def test_first_items_are_the_same_compiled(rows: np.ndarray, depth: int, shallow: int, named: bool) -> None:
    lengths = np.linspace(0.5, 0.9, len(rows))
    names = np.stack([np.random.default_rng(i).permutation(rows.shape[1]) for i in range(len(rows))]) if named else None
    compiled = first_items(rows, lengths, max(depth, shallow), shallow, names, much=True)
    plain = first_items_plainly(rows, lengths, max(depth, shallow), shallow, names)
    for name, column, expected in zip(plain._fields, compiled, plain, strict=True):
        assert np.array_equal(column, expected), name


def test_scores_that_become_equal_when_divided_tie_but_are_cut_apart() -> None:
    low, length = 1.75, 0.7  # the quotient is above 2, where floats lie twice as far apart
    while low / length != np.nextafter(low, 2) / length:
        low = float(np.nextafter(low, 2))
    high = np.nextafter(low, 2)
    rows = np.array([[low, high]])
    for much in (True, False):
        found = first_items(rows, np.array([length]), 2, 1, much=much)
        assert found.items.tolist() == [0, 1]  # tied, so by number
        assert found.inside.tolist() == [False, True]  # though the second alone is among the first 1


@settings(max_examples=100, deadline=None)
@given(blocks(), st.integers(1, 40))
def test_best_of_identities_is_the_same_compiled(rows: np.ndarray, n_identities: int) -> None:
    rng = np.random.default_rng(rows.shape[1])
    names = rng.integers(n_identities, size=rows.shape[1]).astype(str)
    members = Collection(["q"], np.arange(rows.shape[1]), ["q"], names).members
    for part, expected in zip(
        best_of_identities(rows, members, much=True), best_of_identities_plainly(rows, members), strict=True
    ):
        assert np.array_equal(part, expected)
    order, starts = members
    for identity, of_one in enumerate(np.split(order, starts[1:])):  # the first of the highest
        first = best_of_identities_plainly(rows, members)[1][:, identity]
        assert first.tolist() == [int(of_one[row[of_one].argmax()]) for row in rows]


@settings(max_examples=100, deadline=None)
@given(blocks(), st.integers(0, 60))
def test_places_are_the_same_compiled(rows: np.ndarray, n_pairs: int) -> None:
    rng, block = np.random.default_rng(n_pairs), slice(2, 2 + len(rows))
    lengths = np.linspace(0.5, 0.9, len(rows))
    queries = np.sort(rng.integers(block.start, block.stop, n_pairs))
    items = rng.integers(rows.shape[1], size=n_pairs)
    scores = rows[queries - 2, items].astype(float) / lengths[queries - 2]
    pairs = PairsToPlace(queries, items, scores)
    compiled, plain = (Places.empty(pairs, block.stop + 1) for _ in range(2))
    places_in_block(rows.copy(), lengths, pairs, block, compiled, much=True)
    places_in_block(rows.copy(), lengths, pairs, block, plain, much=False)
    for name in ("above", "tied", "n_ranked"):
        assert np.array_equal(getattr(compiled, name), getattr(plain, name)), name
    divided = rows.astype(float) / lengths[:, None]
    assert plain.above.tolist() == [int((divided[q - 2] > s).sum()) for q, s in zip(queries, scores, strict=True)]
    assert plain.n_ranked[block].tolist() == (rows > -np.inf).sum(1).tolist()


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 63, 64, 65, 128, 200])
def test_distances_of_codes_are_the_same_compiled(n_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n_bits)
    queries, gallery = (la.Codes.pack(rng.random((n, n_bits)) < 0.5) for n in (5, 4100))
    monkeypatch.setattr(rankers_module, "MUCH", 0)
    model = CodeModel(queries, gallery)
    assert np.array_equal(model.rows(slice(1, 5)), model.rows_plainly(slice(1, 5)))


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("values", ["real", "whole", "tiny"])
@pytest.mark.parametrize("width", [1, 3, 16, 65])
def test_single_pairs_score_as_all_pairs_do(similarity: str, dtype: type, values: str, width: int) -> None:
    rng = np.random.default_rng(width)
    rows: np.ndarray = rng.normal(size=(47, width))
    if values == "whole":
        rows = np.round(3 * rows)
        rows[~rows.any(1)] = 1
    if values == "tiny":
        rows *= 10.0 ** rng.integers(-12, 1, (47, 1))
    queries, gallery = rows[:9].astype(dtype), rows.astype(dtype)
    every = Embeddings(queries, gallery, similarity)
    in_ranking = every.rows(slice(0, 9)).astype(float)
    if every.query_lengths is not None:
        in_ranking = in_ranking / every.query_lengths[:, None]
    whole = every.symmetric_rows(slice(0, 9))
    pairs = np.repeat(np.arange(9), 47), np.tile(np.arange(47), 9)
    for n in (9 * 47, 6, 1, 0):
        some = tuple(part[:n] for part in pairs)
        found = EmbeddingPairScores(queries, gallery, similarity).scores(*some)
        assert np.array_equal(found[0], in_ranking[some])
        assert np.array_equal(found[1], whole[some])


def shop_of(n_queries: int, n_items: int, *, identities: bool) -> Shop:
    items = [f"i{i}" for i in range(n_items)]
    if not identities:
        return Collection(items[:n_queries], items)
    products = [f"p{i % (n_items // 3)}" for i in range(n_items)]
    return Collection(items[:n_queries], items, products[:n_queries], products)


@pytest.mark.parametrize("much", [True, False])
@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(("depth", "deep"), [(3, 40), (40, 3), (5, 0), (400, 500)])
def test_one_ranking_answers_everything(
    much: bool, single: bool, depth: int, deep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankers_module, "MUCH", 0 if much else 1 << 60)
    rng = np.random.default_rng(depth)
    collection = shop_of(20, 300, identities=True)
    model = ScoreModel(np.round(rng.normal(size=(20, 300)), 1))
    queries = np.repeat(np.arange(20), 5)
    items = rng.integers(300, size=100)
    others = ~collection.is_own(queries, items)  # a query's own items are never judged pairs
    queries, items = queries[others], items[others]
    pairs = PairsToPlace(queries, items, model.scores(queries, items))
    ranking = model.rank(collection, RankingRequest(depth, single, deep, pairs), threads=2)
    alone = model.top(collection, depth, one_per_identity=single)
    assert np.array_equal([ranking.top.items, ranking.top.scores], [alone.items, alone.scores])
    if deep:
        assert ranking.deep is not None
        alone = model.top(collection, deep)
        assert np.array_equal([ranking.deep.items, ranking.deep.scores], [alone.items, alone.scores])
    else:
        assert ranking.deep is None
    assert ranking.places is not None
    by_lists = Model.places(model, collection, pairs, one_per_identity=single)
    assert np.array_equal(ranking.places.ranked, by_lists.ranked)
    ranked = ranking.places.ranked
    assert np.array_equal(ranking.places.above[ranked], by_lists.above[ranked])
    assert np.array_equal(ranking.places.tied[ranked], by_lists.tied[ranked])
    assert np.array_equal(ranking.places.n_ranked, by_lists.n_ranked)


def world(n_queries: int = 24, n_items: int = 700) -> tuple[dict[str, Any], Collection, Votes, Pool]:
    rng = np.random.default_rng(3)
    collection = shop_of(n_queries, n_items, identities=True)
    base = rng.normal(size=(n_items, 12))
    vectors = [base + noise * rng.normal(size=base.shape) for noise in (0.2, 0.5, 0.9)]
    codes = la.Codes.pack(vectors[1] > 0)
    models: dict[str, Any] = {
        "cosine": (vectors[0][:n_queries], vectors[0]),
        "codes": (codes[:n_queries], codes),
        "matrix": (vectors[2][:n_queries] @ vectors[2].T).astype(np.float32),
        "late": (vectors[1][:n_queries].astype(np.float32), vectors[1].astype(np.float32), "euclidean"),
    }
    pool = Pool.build({name: models[name] for name in ("cosine", "codes", "matrix")}, collection, k=4, random=20)
    pairs = pool.pairs
    queries, items = (np.repeat(column, 3) for column in zip(*pairs, strict=True))
    experts = np.tile(["ann", "bob", "eve"], len(pairs))
    return models, collection, Votes(queries, items, experts, (rng.random(len(items)) < 0.6).astype(np.int8)), pool


METRICS = "AP nDCG P@4 RBP@4 AUC AUC(average='micro') AUC(negatives='sampled') PRAUC(negatives='both') Bpref"


def test_each_model_scores_each_query_once(monkeypatch: pytest.MonkeyPatch) -> None:
    models, collection, votes, pool = world()
    scored: dict[str, list[int]] = {}
    for kind in (EmbeddingModel, CodeModel, ScoreModel):
        rows = kind.rows

        def counting(self: Any, block: slice, rows: Any = rows) -> np.ndarray:
            scored.setdefault(f"{type(self).__name__} {self.n_gallery} {self.name}", []).extend(
                range(block.start, block.stop)
            )
            return np.asarray(rows(self, block))

        monkeypatch.setattr(kind, "rows", counting)
    made = rankers_module._as_model

    def named(source: Any, collection: Collection) -> Any:
        model: Any = made(source, collection)
        model.name = next(name for name, given in models.items() if given is source)
        return model

    monkeypatch.setattr(rankers_module, "_as_model", named)
    board = leaderboard(models, majority(votes), collection, pool=pool, metrics=METRICS, resamples=20)
    leave_one_out(board.contest, pool, METRICS)
    by_rule(board.contest, votes, pool=pool)
    assert {name: sorted(queries) for name, queries in scored.items()} == {
        name: list(range(collection.n_queries)) for name in scored
    }
    assert len(scored) == len(models)


@pytest.mark.parametrize("single", [True, False])
def test_leaderboards_are_the_same_compiled(single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    models, collection, votes, pool = world()
    texts = []
    for much in (0, 1 << 60):
        monkeypatch.setattr(rankers_module, "MUCH", much)
        board = leaderboard(
            models, majority(votes), collection, pool=pool, metrics=METRICS, one_per_identity=single, resamples=50
        )
        texts.append(board.to_json())
    assert texts[0] == texts[1]
    assert len(board.contest.sampled_queries) > 100


def test_places_counted_at_once_are_those_counted_when_asked_for() -> None:
    models, collection, votes, _ = world()
    contests = [
        Contest(models, collection, majority(votes), depth=4, one_per_identity=True, all_ranks=at_once)
        for at_once in (True, False)
    ]
    for name in models:
        values = [contest.evaluate(name, "AP nDCG RR") for contest in contests]
        assert all(
            np.array_equal(a.values, b.values) for a, b in zip(*(v.scores.values() for v in values), strict=True)
        )


def test_pairs_are_scored_once() -> None:
    collection = shop_of(3, 9, identities=False)
    matrix = np.arange(27.0).reshape(3, 9)
    asked: list[int] = []

    def model() -> Any:
        made: Any = as_model(matrix, collection)
        both = made.both_scores
        made.both_scores = lambda queries, items: (asked.append(len(queries)), both(queries, items))[1]
        return made

    known = KnownScores(collection)
    queries, items = np.array([2, 0, 2, 0]), np.array([1, 8, 1, 0])
    for _ in range(2):
        assert known.of(queries, items, model).tolist() == [
            [matrix[q, i]] * 2 for q, i in zip(queries, items, strict=True)
        ]
    assert asked == [3]  # one of the four is there twice
    assert known.of(np.array([1, 0]), np.array([3, 8]), model)[:, 0].tolist() == [12.0, 8.0]
    assert asked == [3, 1]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 50]), st.booleans())
def test_sampled_negatives_as_sets_of_all_keys_give_them(seed: int, n: int, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    collection = shop_of(6, 60, identities=False)
    models = {}
    for name in "abc":
        scores: np.ndarray = rng.normal(size=(6, 60))
        models[name] = as_model(np.round(scores) if tied else scores, collection, name)
    judged = rng.choice(360, 40, replace=False)
    sample = NegativeSample(n, above=5, below=20, seed=seed % 7)
    far, near = [], []
    for model in models.values():  # as it was before: every key in one list
        top = model.top(collection, sample.below)
        rows, ranks = top.first(sample.below)
        keys = collection.keys(top.queries[rows], top.items[rows])
        near.append(keys[ranks <= sample.above])
        far.append(keys[ranks > sample.above])
    candidates = np.setdiff1d(np.concatenate(far), np.concatenate([*near, judged]))
    queries = candidates // 60
    order = np.lexsort((np.random.default_rng([sample.seed, 2]).random(len(candidates)), queries))
    within = np.arange(len(order)) - np.searchsorted(queries, queries)
    chosen = np.sort(candidates[order[within < n]])
    found = draw_negatives(models, collection, judged, sample)
    assert found[0].tolist() == (chosen // 60).tolist()
    assert found[1].tolist() == (chosen % 60).tolist()


def test_no_list_gives_no_sample() -> None:
    collection = shop_of(2, 5, identities=False)
    nothing = FirstLists(np.zeros(3, np.int64), np.zeros(0, np.int32))
    queries, items = sample_negatives([nothing], collection, np.zeros(0, np.int64), NegativeSample(3))
    assert len(queries) == len(items) == 0


@pytest.mark.parametrize("n", [1, 7, 500, 3001])
def test_sums_of_resamples_do_not_depend_on_other_columns(n: int) -> None:
    rng = np.random.default_rng(n)
    times = rng.multinomial(n, np.full(n, 1 / n), size=203).astype(float)
    columns = rng.random((n, 5))
    sums = _sums(times, columns)
    assert np.allclose(sums, times @ columns, rtol=1e-12, atol=0)
    for number in range(5):
        assert np.array_equal(_sums(times, columns[:, number : number + 1])[:, 0], sums[:, number])
