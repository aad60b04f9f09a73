"""Metrics without a cutoff on a leaderboard: every rank counts, and no list of all ranks is made.

What a vacuous test would let pass: judged pairs that all rank high, so that a short list would do; no ties between
judged and unjudged items; queries without a judged pair left out of every case; one shard.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.contests import TOLERANCE, Case, assert_score, cases, zero_where_undefined
from helpers.small_shards import written
from helpers.worlds import judgements_of
from lookalike.discovery import Collection, Contest, Judgements, Pool, leaderboard, leave_one_out
from reference import definitions
from reference.definitions import Bounds

METRICS: dict[str, tuple[Callable[..., Bounds | None], dict[str, Any]]] = {
    "AP": (definitions.average_precision, {}),
    "AP(rel=2)": (definitions.average_precision, {"rel": 2}),
    "MAP@R": (definitions.average_precision_at_r, {}),
    "RPrecision(rel=2)": (definitions.precision_at_r, {"rel": 2}),
    "nDCG": (definitions.ndcg, {}),
    "nDCG(gain='linear', discount='reciprocal')": (definitions.ndcg, {"gain": "linear", "discount": "reciprocal"}),
    "DCG": (definitions.dcg, {}),
    "Hit": (definitions.hit, {}),
    "RR": (definitions.reciprocal_rank, {}),
    "RBP": (definitions.rank_biased, {"k": None}),
    "RBP(part='residual')": (definitions.rank_biased, {"k": None, "part": "residual"}),
}


def assert_whole(case: Case) -> None:
    """Every metric of every model, by enumeration of all orders, from a contest that lists one rank."""
    contest = case.contest(depth=1)
    top = max(1, *case.grades.values())
    for name in case.world.given:
        metrics = [metric for metric in METRICS if "rel=2" not in metric or top > 1]
        found = contest.evaluate(name, metrics)
        for metric in metrics:
            function, options = METRICS[metric]
            unjudged = definitions.UNJUDGED if metric.startswith("RBP") else 0
            values = [function(*query, **options) for query in case.ranked(name, unjudged=unjudged)]
            assert_score(found[metric], zero_where_undefined(values), f"{name} {metric}")


@settings(max_examples=80)
@given(case=cases(own=True))
def test_metrics_of_all_ranks_of_untied_models(case: Case) -> None:
    assert_whole(case)


@settings(max_examples=60)
@given(case=cases(tied=True, own=True, max_items=6, max_queries=3, max_models=2))
def test_metrics_of_all_ranks_of_tied_models(case: Case) -> None:
    assert_whole(case)


@settings(max_examples=60)
@given(case=cases(tied=True, max_items=6, max_queries=3, max_models=2), data=st.data())
def test_what_is_left_out_counts_as_unjudged(case: Case, data: st.DataObject) -> None:
    """As when the pairs that a model alone proposed are left out: they stay in the ranking, and nobody judged them."""
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(case.grades), max_size=len(case.grades))))
    contest, names = case.contest(depth=1), ["AP", "nDCG", "RR", "RBP(part='residual')"]
    left = {pair: case.grades[pair] for pair, stays in zip(contest.judgements.pairs, kept, strict=True) if stays}
    assume(any(not case.world.shop.own(*pair) for pair in left))
    fewer = Case(case.world, left, case.level, case.one_per_identity)
    for name in case.world.given:
        found, expected = contest.evaluate(name, names, kept=kept), fewer.contest(depth=1).evaluate(name, names)
        for metric in names:
            values = expected[metric].per_query, expected[metric].best_per_query, expected[metric].worst_per_query
            mine = found[metric].per_query, found[metric].best_per_query, found[metric].worst_per_query
            np.testing.assert_allclose(mine, values, atol=TOLERANCE, err_msg=f"{name} {metric}")
            assert found[metric].undefined == expected[metric].undefined


@settings(max_examples=60)
@given(case=cases(tied=True, max_models=2))
def test_a_metric_of_all_ranks_is_that_at_the_last_rank(case: Case) -> None:
    n = len(case.world.shop.items)
    contest = case.contest()
    for name in case.world.given:
        for whole, cut in (("nDCG", f"nDCG@{n}"), ("RR", f"RR@{n}"), ("AP", f"AP(norm='total')@{n}")):
            one, other = contest.evaluate(name, whole)[whole], contest.evaluate(name, cut)[cut]
            np.testing.assert_allclose(one.per_query, other.per_query, atol=TOLERANCE, err_msg=f"{name} {whole}")


def test_runs_as_trec_eval_has_them() -> None:
    """map, ndcg (whose gains are linear), recip_rank and Rprec, without ties; what a run does not list is not found."""
    rng = np.random.default_rng(1)
    items = [f"i{n}" for n in range(60)]
    qrels = {
        f"q{n}": {item: int(rng.integers(0, 3)) for item in rng.permutation(items)[:20].tolist()} for n in range(12)
    }
    runs = {
        name: {
            query: dict(zip(rng.permutation(items)[:n].tolist(), rng.permutation(n) * 1.0, strict=True))
            for query in qrels
        }
        for name, n in (("short", 7), ("long", 45))
    }
    judged = Judgements.of([(query, item, grade) for query, rows in qrels.items() for item, grade in rows.items()])
    names = {"map": "AP", "ndcg": "nDCG(gain='linear')", "recip_rank": "RR", "Rprec": "RPrecision"}
    board = leaderboard(runs, judged, Collection(list(qrels), items), metrics=[*names.values(), "AUC"])
    for run in runs:
        peer = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(runs[run])
        for measure, metric in names.items():
            expected = [peer[query][measure] for query in qrels]
            assert board[run][metric].per_query.tolist() == pytest.approx(expected, abs=1e-12), (run, measure)
    assert 0 < board["short"]["AP"].mean < board["long"]["AP"].mean


def test_average_precision_by_hand() -> None:
    """a first; then b and d, tied, of which b is relevant; c, relevant, last of five: (1 + (2/2 + 2/3)/2 + 3/5) / 3."""
    matrix = np.array([[5.0, 3, 1, 3, 2], [1, 1, 1, 1, 1]])
    judged = Judgements.of([("q", "a", 1), ("q", "b", 1), ("q", "c", 1)])
    collection = Collection(["q", "r"], list("abcde"))
    found = leaderboard({"m": matrix}, judged, collection, metrics="AP RR")["m"]["AP"]
    assert found.per_query.tolist() == pytest.approx([(1 + 5 / 6 + 3 / 5) / 3, 0])
    assert (found.best * 2, found.worst * 2) == pytest.approx(((2 + 3 / 5) / 3, (1 + 2 / 3 + 3 / 5) / 3))
    assert found.undefined == 1


def test_the_rest_of_a_board_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    collection = Collection([f"q{n}" for n in range(8)], [f"i{n}" for n in range(30)])
    models = {name: rng.normal(size=(8, 30)) for name in ("one", "two", "three")}
    pool = Pool.build({name: models[name] for name in ("one", "two")}, collection, k=4)
    judged = Judgements.of([(*pair, number % 3 == 0) for number, pair in enumerate(pool.pairs)])
    plain = leaderboard(models, judged, collection, pool=pool, metrics="VSDHR@4 AUC")
    more = leaderboard(models, judged, collection, pool=pool, metrics="VSDHR@4 AUC AP nDCG")
    for name in models:
        for metric in ("VSDHR@4", "AUC"):
            assert more[name][metric].per_query.tolist() == plain[name][metric].per_query.tolist()
        assert more.own_out[name]["AUC"].mean == plain.own_out[name]["AUC"].mean
    assert {row["metric"]: row["effect"] for row in more.rows()}["AP"] == "favours"
    assert [row.model for row in leave_one_out(more.contest, pool, "AP").rows_] == ["one", "two"]
    assert len(leaderboard(models, judged, collection, pool=pool, metrics="AP").judged["one"]) == 1  # Judged@4


def test_other_judgements_are_placed_anew() -> None:
    collection = Collection(["q"], list("abcd"))
    contest = Contest({"m": np.array([[4.0, 3, 2, 1]])}, collection, Judgements.of([("q", "a", 1)]), depth=1)
    assert contest.evaluate("m", "AP")["AP"].mean == 1
    assert contest.rejudged(Judgements.of([("q", "d", 1)])).evaluate("m", "AP")["AP"].mean == 0.25
    assert contest.evaluate("m", "AP")["AP"].mean == 1


@pytest.mark.parametrize("kind", ["codes", "cosine", "euclidean"])
def test_galleries_in_shards(tmp_path: Path, kind: str) -> None:
    """Thirty items in five shards, with many ties; queries are items, of identities that shards divide."""
    rng = np.random.default_rng(3)
    ids = np.array([f"i{n}" for n in range(30)])
    identities = (np.arange(30) % 12).astype(str)
    if kind == "codes":
        codes = la.Codes.pack(rng.integers(0, 2, (30, 5)))
        shards = written(tmp_path / "shop", {"codes": codes.to_bytes(), "ids": ids}, n_bits=5, rows=7)
        here, there = (codes[:6], codes), (codes[:6], shards)
    else:
        vectors = rng.integers(-1, 2, (30, 3)).astype(np.float32) + np.float32(0.25)
        shards = written(tmp_path / "shop", {"embeddings": vectors, "ids": ids}, rows=7)
        here, there = (vectors[:6], vectors, kind), (vectors[:6], shards, kind)
    collection = Collection(ids[:6], ids, identities[:6], identities)
    judged = judgements_of({(f"i{q}", f"i{i}"): int(rng.integers(0, 2)) for q in range(5) for i in range(q, 30, 3)})
    names = ["AP", "nDCG", "RR", "RBP", "RBP(part='residual')"]
    contest = Contest({"here": here, "there": there}, collection, judged, depth=2)
    found = {name: contest.evaluate(name, names) for name in ("here", "there")}
    for metric in names:
        assert found["here"][metric].per_query.tolist() == found["there"][metric].per_query.tolist()
    assert 0 < found["here"]["AP"].worst < found["here"]["AP"].mean < found["here"]["AP"].best < 1
    single = Contest({"there": there}, collection, judged, depth=2, one_per_identity=True)
    with pytest.raises(ValueError, match="in shards cannot be ranked to its end by identity"):
        single.evaluate("there", "AP")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_embeddings_of_many_digits(tmp_path: Path, similarity: str, dtype: type) -> None:
    """Ranks are of scores that are rounded in one way, areas of scores rounded in another."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(240, 24)).astype(dtype)
    ids = np.array([f"i{n}" for n in range(200)])
    queries = [f"q{n}" for n in range(40)]
    rows = [(query, str(item), int(rng.integers(0, 2))) for query in queries for item in rng.permutation(ids)[:20]]
    shards = written(tmp_path / "shop", {"embeddings": vectors[40:], "ids": ids}, rows=70)
    models = {"here": (vectors[:40], vectors[40:], similarity), "there": (vectors[:40], shards, similarity)}
    board = leaderboard(models, Judgements.of(rows), Collection(queries, ids), metrics="AP nDCG")
    options: dict[str, Any] = {"query_ids": queries, "gallery_ids": ids, "unjudged": "irrelevant"}
    expected = la.evaluate(
        vectors[:40], vectors[40:], la.judged(rows), ["AP", "nDCG"], similarity=similarity, **options
    )
    for name in models:
        for metric in ("AP", "nDCG"):
            found = board[name][metric]
            assert found.per_query.tolist() == pytest.approx(expected[metric].per_query.tolist(), abs=1e-12)
            assert found.best == found.worst


def test_no_list_of_everything_is_made() -> None:
    """300 queries × 20,000 items as a list take 144 MB; a block of scores takes 8 MB in each thread."""
    rng = np.random.default_rng(0)
    collection = Collection([f"q{n}" for n in range(300)], [f"i{n}" for n in range(20_000)])
    vectors = rng.normal(size=(20_300, 4)).astype(np.float32)
    judged = Judgements.of([(f"q{n}", f"i{n * 7 + i}", i % 2) for n in range(300) for i in range(5)])
    contest = Contest({"m": (vectors[:300], vectors[300:])}, collection, judged, depth=1, threads=2)
    tracemalloc.start()
    contest.evaluate("m", "AP")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize("one_per_identity", [False, True])
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_embeddings_that_do_not_tie_have_every_judged_pair_in_its_place(
    tmp_path: Path, similarity: str, one_per_identity: bool
) -> None:
    """Scores of judged pairs alone are rounded alike in both orders of a pair, those of rankings are not."""
    rng = np.random.default_rng(5)
    ids, identities = np.array([f"i{n}" for n in range(60)]), (np.arange(60) // 2).astype(str)
    vectors = rng.normal(size=(60, 7)).astype(np.float32)
    judged = judgements_of({(f"i{q}", f"i{i}"): int(rng.integers(0, 2)) for q in range(9) for i in range(q % 3, 60, 3)})
    shards = written(tmp_path / "shop", {"embeddings": vectors, "ids": ids}, rows=17)
    models = {"here": (vectors[:9], vectors, similarity), "there": (vectors[:9], shards, similarity)}
    collection = Collection(ids[:9], ids, identities[:9], identities)
    if one_per_identity:
        del models["there"]
    contest = Contest(models, collection, judged, depth=60, one_per_identity=one_per_identity)
    for name in models:
        for whole, cut in (("AP", "AP(norm='total')@60"), ("nDCG", "nDCG@60"), ("RR", "RR@60"), ("RBP", "RBP@60")):
            one, other = contest.evaluate(name, whole)[whole], contest.evaluate(name, cut)[cut]
            np.testing.assert_allclose(one.per_query, other.per_query, atol=TOLERANCE, err_msg=f"{name} {whole}")
