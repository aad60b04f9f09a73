"""An approximate index says truly how much it finds, and its ids come with what it finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.searching import brute_codes, clustered, evaluated_scores, many_codes, same
from lookalike.search import index as index_module
from lookalike.search import spaces
from lookalike.search.index import Index, recall

# Approximate


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("what", ["codes", "cosine", "dot", "euclidean"])
def test_recall_is_what_it_says(kind: str, what: str) -> None:
    """Counted here one by one, by distance, for queries that the index has never seen."""
    if what == "codes":
        every = many_codes(10_500)
        items, queries = every[:10_000], every[10_000:]
        index = Index.build(items, kind=kind)
        nearest = brute_codes(queries[:50], items, 10)[1]
    else:
        vectors = clustered(np.random.default_rng(1), 6500, 24)
        items, queries = vectors[:6000], vectors[6000:]
        index = Index.build(items, similarity=what, kind=kind)
        nearest = -np.sort(-evaluated_scores(queries[:50], items, what), axis=1)[:, :10]
    found = index.search(queries[:50], 10).distances
    sign = 1 if what == "codes" else -1
    counted = sum(
        sign * distance <= sign * row[-1] for row, mine in zip(nearest, found, strict=True) for distance in mine
    ) / (50 * 10)
    assert index.measured is not None
    assert index.measured.k == 10
    assert counted == pytest.approx(recall(found, nearest, sign).mean())
    assert counted == pytest.approx(index.measured.recall, abs=0.03)
    assert index.measured.recall > 0.98
    if kind == "ivf":
        assert 1 <= index.effort < index._approximate.nlist  # or it would be a scan


def test_less_effort_finds_less_and_a_lower_target_asks_for_less() -> None:
    every = many_codes(10_500)
    items, queries = every[:10_000], every[10_000:]
    truth = Index.build(items, kind="exact").search(queries, 10).distances
    low, high = (Index.build(items, kind="ivf", target=target) for target in (0.5, 0.999))
    assert low.effort < high.effort
    shares = [recall(index.search(queries, 10).distances, truth).mean() for index in (low, high)]
    assert shares[0] < 0.95 < shares[1]
    assert low.measured.recall == pytest.approx(shares[0], abs=0.06)


def test_what_is_searched_for_is_not_in_the_index_yet() -> None:
    """Else k = 1 would have a recall of 1 however little is read."""
    index = Index.build(many_codes(10_000), kind="ivf", k=1, target=0.3)
    assert index.effort == 1
    assert index.measured.recall < 0.999
    assert index._approximate.ntotal == 10_000
    found = index.search(many_codes(10_000), 1)
    assert (found.distances == 0).all()  # and is so afterwards, under its own position


def test_a_full_target_visits_what_it_takes() -> None:
    items = la.Codes.pack(np.random.default_rng(0).integers(0, 2, (3000, 64)))  # without any structure
    index = Index.build(items, kind="ivf", target=1.0)
    assert index.measured.recall > 0.999
    queries = items[:100]
    np.testing.assert_array_equal(
        index.search(queries, 5).distances, Index.build(items, kind="exact").search(queries, 5).distances
    )


def test_too_few_in_the_lists_is_searched_exactly() -> None:
    items = many_codes(5000)
    index, exact = Index.build(items, kind="ivf", target=0.01, k=1), Index.build(items, kind="exact")
    assert index.effort == 1
    assert same(index.search(items[:20], 4000), exact.search(items[:20], 4000))  # no list holds as many
    assert same(index.search(items[:20], 6000), exact.search(items[:20], 6000))


def test_auto_is_exact_where_that_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    items, vectors = many_codes(5000), clustered(np.random.default_rng(0), 3000, 16)
    assert Index.build(items).kind == Index.build(vectors).kind == "exact"
    monkeypatch.setattr(spaces, "FAST_CODES", 4999)
    monkeypatch.setattr(spaces, "FAST_NUMBERS", 3000 * 16 - 1)
    assert Index.build(items).kind == Index.build(vectors).kind == "ivf"
    noise = la.Codes.pack(np.random.default_rng(0).integers(0, 2, (5000, 64)))  # lists do not help
    assert Index.build(noise).kind == "exact"


def test_queries_to_measure_by_may_be_given() -> None:
    items = many_codes(5000)
    far = la.Codes.pack(np.random.default_rng(1).integers(0, 2, (300, 64)))
    given_far, own = (Index.build(items, kind="ivf", queries=queries) for queries in (far, None))
    assert given_far.effort > own.effort  # what lies between the lists is harder to find
    assert given_far.measured.n_queries == 150


def test_hnsw_that_misses_its_target_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MOST_EFFORT", 1)
    with pytest.raises(ValueError, match=r"hnsw reaches a recall of 0\.\d+ at most, the target is 1\.0: lower it, or"):
        Index.build(many_codes(5000), kind="hnsw", target=1.0)


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("n", [1, 2, 99, 100, 101, 300])
def test_few_items_and_all_the_same(kind: str, n: int) -> None:
    items = la.Codes.pack(np.ones((n, 8)))
    found = Index.build(items, kind=kind).search(items[:1], 3)
    assert (found.distances[0, : min(3, n)] == 0).all()
    assert (found.items[0, min(3, n) :] == -1).all()
    assert len(Index.build(np.ones((n, 4)), kind=kind).search(np.ones((1, 4)), 2).items) == 1


@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_large_and_small_numbers_are_found_too(factor: float, similarity: str) -> None:
    vectors = clustered(np.random.default_rng(0), 4000, 16).astype(np.float64)
    found = [
        Index.build(rows, similarity=similarity, kind="ivf").search(rows[:100], 5).items
        for rows in (vectors, vectors * factor)
    ]
    assert (found[0] == found[1]).mean() > 0.99


# Threads and seeds


@pytest.mark.parametrize("kind", ["exact", "ivf", "hnsw"])
@pytest.mark.parametrize("what", ["codes", "embeddings"])
def test_threads_change_nothing(kind: str, what: str) -> None:
    items: Any = many_codes(6000) if what == "codes" else clustered(np.random.default_rng(0), 3000, 16)
    index = Index.build(items, kind=kind, target=0.9)
    found = [index.search(items[:333], 7, threads=threads) for threads in (1, 2, 3)]
    assert same(found[0], found[1])
    assert same(found[0], found[2])


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_building_does_not_depend_on_threads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).standard_normal((4000, 8)).astype(np.float32)
    built = []
    for threads in (1, 2, 4):
        monkeypatch.setattr(index_module, "n_threads", lambda _, threads=threads: threads)
        index = Index.build(rows, kind=kind, target=0.8)
        built.append((index.effort, index.measured.recall, index._space.serialised(index._approximate).tobytes()))
    assert built[0] == built[1] == built[2]


def test_faiss_keeps_the_threads_that_it_had() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    Index.build(many_codes(100)).search(many_codes(3), 1, threads=1)
    assert faiss.omp_get_max_threads() == before


# Ids


def test_ids_come_with_what_is_found() -> None:
    items = la.Codes.pack(np.eye(3))
    found = Index.build(items, ids=["a", "b", "c"]).search(items[1:2], 4)
    assert found.ids is not None
    assert found.ids.tolist() == [["b", "a", "c", ""]]
    assert Index.build(items, ids=[7, 8, 9]).search(items[1:2], 4).ids.tolist() == [[8, 7, 9, -1]]
    assert Index.build(items).search(items, 1).ids is None
