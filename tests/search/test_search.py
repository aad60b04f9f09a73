"""Search: exact equals sorting everything, approximate says truly how much it finds, files are whole or refused."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lookalike as la
from helpers.strategies import BITS, clustered_bits
from lookalike.core.embeddings import Embeddings
from lookalike.search import index as searching
from lookalike.search import spaces as neighbours
from lookalike.search.index import Index, Neighbours, recall

# What is true, by sorting everything


def brute_codes(queries: la.Codes, items: la.Codes, k: int) -> tuple[np.ndarray, np.ndarray]:
    every = np.array([(items.unpack() != row).sum(axis=1) for row in queries.unpack()]).reshape(
        len(queries), len(items)
    )
    order = np.argsort(every, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(every, order, axis=1)


def brute_scores(queries: np.ndarray, items: np.ndarray, similarity: str) -> np.ndarray:
    """In float64, or as whole numbers where rows are whole."""
    left, right = queries.astype(np.float64), items.astype(np.float64)
    if similarity == "euclidean":
        return -((left[:, None] - right[None]) ** 2).sum(axis=2)
    products = left @ right.T
    if similarity == "dot":
        return products
    return products / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)


def clustered(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    centres = rng.standard_normal((30, d))
    return (centres[rng.integers(30, size=n)] + 0.4 * rng.standard_normal((n, d))).astype(np.float32)


@functools.cache
def many_codes(n: int, n_bits: int = 64, seed: int = 0) -> la.Codes:
    rng = np.random.default_rng(seed)
    return la.hashers.LSH(n_bits, random_state=0).fit(clustered(rng, 100, 24)).transform(clustered(rng, n, 24))


def same(one: Neighbours, other: Neighbours) -> bool:
    return np.array_equal(one.items, other.items) and np.array_equal(one.distances, other.distances, equal_nan=True)


# Exact


@given(
    n_bits=st.sampled_from(BITS),
    n=st.sampled_from([1, 2, 7, 31, 33, 64, 65, 130]),
    n_queries=st.sampled_from([0, 1, 5, 33]),
    k=st.sampled_from([1, 2, 7, 64, 129]),
    seed=st.integers(0, 2**32 - 1),
)
def test_exact_codes_equal_sorting_everything(n_bits: int, n: int, n_queries: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = la.Codes.pack(clustered_bits(rng, n, n_bits))
    queries = la.Codes.from_bytes(
        np.packbits(clustered_bits(rng, n_queries, n_bits), axis=1, bitorder="little"), n_bits=n_bits
    )
    found = Index.build(items, kind="exact").search(queries, k)
    expected, distances = brute_codes(queries, items, k)
    assert found.items.shape == found.distances.shape == (n_queries, k)
    assert found.distances.dtype.kind == "i"
    kept = min(k, n)
    np.testing.assert_array_equal(found.items[:, :kept], expected)
    np.testing.assert_array_equal(found.distances[:, :kept], distances)
    assert (found.items[:, kept:] == -1).all()
    assert (found.distances[:, kept:] == -1).all()


def test_ties_of_many_blocks_are_settled_by_position() -> None:
    """100,000 equal codes, and one nearer near the end: larger than any block that faiss reads at a time."""
    bits = np.zeros((100_000, 64), np.uint8)
    bits[:, 0] = 1
    bits[99_000] = 0
    found = Index.build(la.Codes.pack(bits)).search(la.Codes.pack(np.zeros((40, 64))), 50)
    assert (found.items == [99_000, *range(49)]).all()
    assert (found.distances == [0, *[1] * 49]).all()


def test_long_lists_are_sorted_in_another_way_to_the_same_end() -> None:
    items = many_codes(8500, 128)
    queries, index = items[:5], Index.build(items)
    longer = index.search(queries, 8500)  # 129 · 8500 is beyond what counting has room for
    assert same(index.search(queries, 100), Neighbours(longer.items[:, :100], longer.distances[:, :100]))
    np.testing.assert_array_equal(longer.items, brute_codes(queries, items, 8500)[0])


@given(
    similarity=st.sampled_from(["cosine", "dot", "euclidean"]),
    shape=st.sampled_from([(1, 1), (2, 3), (7, 1), (17, 5), (65, 8), (130, 33)]),
    n_queries=st.sampled_from([0, 1, 7, 50]),
    k=st.sampled_from([1, 3, 64, 131]),
    types=st.sampled_from([("f4", "f4"), ("f8", "f4"), ("f4", "f8"), ("i8", "i8")]),
    seed=st.integers(0, 2**32 - 1),
)
def test_exact_embeddings_equal_sorting_everything(
    similarity: str, shape: tuple[int, int], n_queries: int, k: int, types: tuple[str, str], seed: int
) -> None:
    """Rows of few small whole numbers: most are tied, and products are exact. Of cosines only near ones may change."""
    rng = np.random.default_rng(seed)
    items = rng.integers(1, 4, shape).astype(types[0])
    queries = rng.integers(1, 4, (n_queries, shape[1])).astype(types[1])
    found = Index.build(items, similarity=similarity, kind="exact").search(queries, k)
    every, kept = brute_scores(queries, items, similarity), min(k, len(items))
    order = np.argsort(-every, axis=1, kind="stable")[:, :kept]
    if similarity == "cosine":
        ours = _evaluated(queries, items, similarity)
        np.testing.assert_allclose(ours, every, rtol=1e-5)
        every, order = ours, np.argsort(-ours, axis=1, kind="stable")[:, :kept]
    np.testing.assert_array_equal(found.items[:, :kept], order)
    np.testing.assert_array_equal(found.distances[:, :kept], np.take_along_axis(every, order, axis=1))
    assert (found.items[:, kept:] == -1).all()
    assert np.isnan(found.distances[:, kept:]).all()


def _evaluated(queries: np.ndarray, items: np.ndarray, similarity: str) -> np.ndarray:
    scores = Embeddings(queries, items, similarity)
    rows = scores.rows(slice(0, len(queries))).copy()
    return rows if scores.query_lengths is None else rows / scores.query_lengths[:, None]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("kind", ["exact", "ivf", "hnsw"])
def test_scores_are_those_of_evaluation(similarity: str, kind: str) -> None:
    items = clustered(np.random.default_rng(0), 3000, 16)
    queries = clustered(np.random.default_rng(0), 150, 16) + np.float32(0.01)
    found = Index.build(items, similarity=similarity, kind=kind, target=0.9).search(queries, 10)
    every = _evaluated(queries, items, similarity)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(every, found.items, axis=1))
    assert (np.diff(found.distances, axis=1) <= 0).all()
    np.testing.assert_allclose(every, brute_scores(queries, items, similarity), rtol=1e-4, atol=1e-4)


# A part of the items, and how many are as near


def search_and_count(index: Index, queries: Any, k: int, mask: np.ndarray) -> tuple[Neighbours, np.ndarray, np.ndarray]:
    """What is found among masked items, and how many items, masked and all, are as near as the last found."""
    found = index.search(queries, k, among=mask)
    last = found.distances[:, min(k, mask.sum()) - 1]
    return found, index.count_within(queries, last, among=mask), index.count_within(queries, last)


@given(
    n_bits=st.sampled_from([1, 8, 63, 65]),
    n=st.sampled_from([1, 2, 31, 130]),
    k=st.sampled_from([1, 2, 7, 129]),
    share=st.sampled_from([0.02, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_codes_among_some_equal_sorting_those(n_bits: int, n: int, k: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = la.Codes.pack(clustered_bits(rng, n, n_bits))
    queries = la.Codes.pack(clustered_bits(rng, 3, n_bits))
    mask = rng.random(n) < share
    mask[rng.integers(n)] = True
    rows = np.flatnonzero(mask)
    found, within, within_all = search_and_count(Index.build(items), queries, k, mask)
    expected, distances = brute_codes(queries, items[rows], k)
    kept = expected.shape[1]
    np.testing.assert_array_equal(found.items[:, :kept], rows[expected])
    np.testing.assert_array_equal(found.distances[:, :kept], distances)
    assert (found.items[:, kept:] == -1).all()
    every = (queries.unpack()[:, None] != items.unpack()).sum(axis=2) <= distances[:, -1:]
    np.testing.assert_array_equal(within_all, every.sum(axis=1))
    np.testing.assert_array_equal(within, every[:, rows].sum(axis=1))


@given(
    similarity=st.sampled_from(["cosine", "dot", "euclidean"]),
    types=st.sampled_from([("f4", "f4"), ("f8", "f4"), ("f4", "f8")]),
    n=st.sampled_from([1, 7, 130]),
    k=st.sampled_from([1, 3, 131]),
    share=st.sampled_from([0.02, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_embeddings_among_some_equal_sorting_those(
    similarity: str, types: tuple[str, str], n: int, k: int, share: float, seed: int
) -> None:
    """Cosines of these rows are not exact: what ties is what has equal scores, to the last bit."""
    rng = np.random.default_rng(seed)
    items, queries = rng.integers(1, 4, (n, 5)).astype(types[0]), rng.integers(1, 4, (50, 5)).astype(types[1])
    mask = rng.random(n) < share
    mask[rng.integers(n)] = True
    rows = np.flatnonzero(mask)
    found, within, within_all = search_and_count(Index.build(items, similarity=similarity), queries, k, mask)
    every = _evaluated(queries, items, similarity)
    order = np.argsort(-every[:, rows], axis=1, kind="stable")[:, :k]
    kept = order.shape[1]
    np.testing.assert_array_equal(found.items[:, :kept], rows[order])
    scores = np.take_along_axis(every[:, rows], order, axis=1)
    np.testing.assert_array_equal(found.distances[:, :kept], scores)
    assert np.isnan(found.distances[:, kept:]).all()
    np.testing.assert_array_equal(within_all, (every >= scores[:, -1:]).sum(axis=1))
    np.testing.assert_array_equal(within, (every[:, rows] >= scores[:, -1:]).sum(axis=1))


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("what", ["codes", "embeddings"])
def test_among_some_an_approximate_index_is_exact_too(kind: str, what: str) -> None:
    items: Any = many_codes(5000) if what == "codes" else clustered(np.random.default_rng(0), 5000, 16)
    index, exact = (Index.build(items, kind=kind, target=0.3, k=1) for kind in (kind, "exact"))
    queries = items[:300]
    assert not same(index.search(queries, 10), exact.search(queries, 10))  # or it would show nothing
    for share in (0.01, 0.6, 1.0):
        mask = np.random.default_rng(1).random(5000) < share
        expected = search_and_count(exact, queries, 10, mask)
        for threads in (1, 2):
            found = index.search(queries, 10, among=mask, threads=threads)
            assert same(found, expected[0])
            last = found.distances[:, min(10, mask.sum()) - 1]
            counted = index.count_within(queries, last, among=mask, threads=threads)
            np.testing.assert_array_equal(counted, expected[1])


@pytest.mark.parametrize("items", [la.Codes.pack(np.eye(8)), np.eye(8) + 1], ids=["codes", "embeddings"])
def test_among_none_nothing_is_found(items: Any) -> None:
    index = Index.build(items, ids=list("abcdefgh"))
    found = index.search(items, 3, among=np.zeros(8, bool))
    assert (found.items == -1).all()
    assert (found.ids == "").all()
    assert index.count_within(items, found.distances[:, -1]).tolist() == [0] * 8
    assert index.count_within(items, found.distances[:, -1], among=np.zeros(8, bool)).tolist() == [0] * 8
    assert len(index.count_within(items[:0], np.zeros(0))) == 0


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_other_queries_of_the_same_gallery(similarity: str) -> None:
    gallery = clustered(np.random.default_rng(0), 70, 9)
    laid_out = Embeddings(gallery[:2], gallery, similarity)
    before = laid_out.rows(slice(0, 2)).copy()
    for queries in (gallery[3:20], gallery[:0], gallery[5:6]):
        anew, again = Embeddings(queries, gallery, similarity), laid_out.with_queries(queries)
        assert again.n_queries == len(queries)
        np.testing.assert_array_equal(again.rows(slice(0, 20)), anew.rows(slice(0, 20)))
        np.testing.assert_array_equal(again.query_lengths, anew.query_lengths)
    np.testing.assert_array_equal(laid_out.rows(slice(0, 2)), before)


def test_other_queries_must_fit() -> None:
    laid_out = Embeddings(VECTORS, VECTORS, "cosine")
    with pytest.raises(ValueError, match="the gallery is laid out as float32, queries are float64: round them first"):
        laid_out.with_queries(VECTORS.astype(np.float64))
    with pytest.raises(ValueError, match="gallery embeddings have 4 columns, queries have 3"):
        laid_out.with_queries(VECTORS[:, :3])
    with pytest.raises(ValueError, match="query embedding in row 1 is zero: it has no cosine"):
        laid_out.with_queries(np.float32([[1, 1, 1, 1], [0, 0, 0, 0]]))


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
        nearest = -np.sort(-_evaluated(queries[:50], items, what), axis=1)[:, :10]
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
    monkeypatch.setattr(neighbours, "FAST_CODES", 4999)
    monkeypatch.setattr(neighbours, "FAST_NUMBERS", 3000 * 16 - 1)
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
    monkeypatch.setattr(searching, "MOST_EFFORT", 1)
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
        monkeypatch.setattr(searching, "n_threads", lambda _, threads=threads: threads)
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


# Files


@pytest.mark.parametrize("kind", ["exact", "ivf", "hnsw"])
@pytest.mark.parametrize("what", ["codes", "cosine", "dot", "euclidean"])
def test_what_is_saved_is_loaded(kind: str, what: str, tmp_path: Path) -> None:
    items: Any = many_codes(2000, 40) if what == "codes" else clustered(np.random.default_rng(0), 2000, 8)
    similarity = "cosine" if what == "codes" else what
    ids = [f"item {i}" for i in range(2000)]
    index = Index.build(items, ids=ids, kind=kind, similarity=similarity, target=0.8)
    index.save(tmp_path / "index.npz")
    again = Index.load(tmp_path / "index.npz")
    assert repr(index).startswith(repr(again)[:-1])
    assert ("times as fast" in repr(index), "times as fast" in repr(again)) == (kind != "exact", False)
    assert (again.effort, again.digest) == (index.effort, index.digest)
    assert again.measured == (index.measured and replace(index.measured, speedup=None))
    found = [each.search(items[:70], 9) for each in (index, again)]
    assert same(*found)
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    assert again.fits(items)
    assert [path.name for path in tmp_path.iterdir()] == ["index.npz"]


def test_a_file_says_where_it_comes_from(tmp_path: Path) -> None:
    index = Index.build(many_codes(500), kind="ivf")
    index.save(tmp_path / "index.npz")
    about = json.loads(str(np.load(tmp_path / "index.npz", allow_pickle=False)["about"]))
    assert about["lookalike"] == "index"
    assert about["version"] == la.__version__
    assert about["digest"] == index.digest == many_codes(500).digest
    asked = {"target": 0.99, "seed": 0}
    assert about["measured"] == {"recall": index.measured.recall, "k": 10, "n_queries": 25, **asked}


SAVE_ALL = """
import os, sys
import numpy as np
import lookalike as la
from lookalike.search.index import Index
if sys.argv[2] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
vectors = np.random.default_rng(0).standard_normal((4000, 24)).astype("f4")
vectors += 3 * vectors[np.arange(4000) % 30]
for what, items in (("codes", la.Codes.pack(vectors > 0)), ("embeddings", vectors)):
    for kind in ("exact", "ivf", "hnsw"):
        Index.build(items, ids=range(4000), kind=kind, target=0.9, seed=3).save(f"{sys.argv[1]}/{what}-{kind}.npz")
"""


def test_the_same_items_give_the_same_file_whatever_the_time_and_the_cores(tmp_path: Path) -> None:
    files = []
    for run, cores in (("first", "1"), ("second", "all"), ("third", "1")):
        (tmp_path / run).mkdir()
        subprocess.run([sys.executable, "-c", SAVE_ALL, str(tmp_path / run), cores], check=True)
        files.append({path.name: path.read_bytes() for path in (tmp_path / run).iterdir()})
    assert len(files[0]) == 6
    for name, octets in files[0].items():
        assert octets == files[1][name], name
        assert octets == files[2][name], name


def loaded_or_refused(path: Path) -> Index | None:
    try:
        return Index.load(path)
    except ValueError as error:
        if path.name not in str(error):
            raise
    return None


def test_every_cut_and_many_changed_bytes_are_refused(tmp_path: Path) -> None:
    path, items = tmp_path / "index.npz", many_codes(150)
    index = Index.build(items, kind="ivf")
    index.save(path)
    expected = index.search(items, 5)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    cuts = [whole[:end] for end in rng.integers(0, len(whole), 60)]
    for damaged in cuts:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"index\.npz"):
            Index.load(path)
    for place in rng.integers(0, len(whole), 200):  # what a changed byte does not break, it does not change
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        loaded = loaded_or_refused(path)
        assert loaded is None or same(loaded.search(items, 5), expected)


def test_an_array_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    Index.build(many_codes(150), kind="ivf").save(path)
    arrays = dict(np.load(path, allow_pickle=False))
    for name in ("packed", "faiss", "order"):
        changed = arrays[name].copy()
        changed.flat[len(changed) // 2] ^= 1
        np.savez(path, **{**arrays, name: changed})
        with pytest.raises(ValueError, match=r"index\.npz is damaged: build the index again"):
            Index.load(path)


def test_newer_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    Index.build(many_codes(60)).save(path)
    arrays = dict(np.load(path, allow_pickle=False))
    about = json.loads(str(arrays["about"]))
    np.savez(path, **{**arrays, "about": np.array(json.dumps({**about, "format": 99, "version": "9.9"}))})
    with pytest.raises(ValueError, match=r"index\.npz was written by lookalike 9\.9, which is newer: upgrade"):
        Index.load(path)
    many_codes(60).save(path)
    with pytest.raises(ValueError, match=r"index\.npz is not an index: expected a file that Index\.save wrote"):
        Index.load(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Index.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        Index.build(many_codes(60)).save(tmp_path / "index.parquet")


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    Index.build(many_codes(60)).save(path)
    before = path.read_bytes()
    code = (
        "import numpy as np, sys; from lookalike.search.index import Index;"
        "index = Index.build(np.ones((100_000, 40), 'f4'), kind='exact'); print('ready', flush=True);\n"
        "while True: index.save(sys.argv[1])"
    )
    for wait in (0.01, 0.03):
        path.write_bytes(before)
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(wait)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert len(Index.load(path)) in (60, 100_000)


# Stale, and wrong


def test_a_stale_index_is_told() -> None:
    items = many_codes(50)
    index = Index.build(items, ids=range(50))
    assert index.fits(items)
    assert index.fits(items, ids=range(50))
    assert not index.fits(items, ids=range(1, 51))
    assert not index.fits(items[::-1])
    assert not index.fits(la.Codes.from_bytes(items.to_bytes()[:, :4], n_bits=32))
    assert not index.fits(items.unpack())
    vectors = clustered(np.random.default_rng(0), 50, 4)
    index = Index.build(vectors)
    changed = vectors.copy()
    changed[49, 3] = np.nextafter(changed[49, 3], np.float32(9))
    assert index.fits(vectors.copy())
    assert not index.fits(changed)


def test_the_caller_may_change_what_was_indexed() -> None:
    vectors = clustered(np.random.default_rng(0), 50, 4)
    index = Index.build(vectors)
    before = index.search(vectors[:3].copy(), 5)
    queries = vectors[:3].copy()
    vectors[:] = 1
    assert same(index.search(queries, 5), before)


CODES, VECTORS = la.Codes.pack(np.eye(8)), np.eye(4, dtype=np.float32) + 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Index.build(CODES[:0]), "there are no codes to index"),
        (lambda: Index.build(np.zeros((0, 3))), "there are no embeddings to index"),
        (lambda: Index.build(np.zeros((3, 0))), "embeddings have no column"),
        (lambda: Index.build([1.0, 2.0]), r"embeddings must be a matrix, got shape \(2,\)"),
        (lambda: Index.build([["a"]]), "embeddings must be numbers"),
        (lambda: Index.build([[1, np.nan]]), "gallery embeddings hold nan, first in row 0, column 1"),
        (lambda: Index.build([[1.0, 0], [0, 0]]), "gallery embedding in row 1 is zero: it has no cosine"),
        (lambda: Index.build(VECTORS, similarity="near"), "similarity must be one of 'cosine', .*, got 'near'"),
        (lambda: Index.build(CODES, kind="tree"), "kind must be one of 'auto', .*, got 'tree'"),
        (lambda: Index.build(CODES, target=1.2), "target must be a recall above 0 and up to 1, got 1.2"),
        (lambda: Index.build(CODES, k=0), "k must be a whole number from 1, got 0"),
        (lambda: Index.build(CODES, ids=[1, 2]), "there are 8 items but 2 ids"),
        (lambda: Index.build(CODES, ids=[1] * 8), "ids must differ, 1 occurs 8 times"),
        (lambda: Index.build(CODES, kind="ivf", queries=CODES[:1]), "at least 2 queries, got 1"),
        (lambda: Index.build(CODES).search(CODES, 2.0), "k must be a whole number from 1, got 2.0"),
        (
            lambda: Index.build(CODES).search(CODES, 2, among=np.ones(7, bool)),
            r"among must be a mask \(8,\) of bool, got \(7,\) of bool",
        ),
        (
            lambda: Index.build(CODES).search(CODES, 2, among=[0, 1, 2, 3, 4, 5, 6, 7]),
            r"among must be a mask \(8,\) of bool, got \(8,\) of int64",
        ),
        (
            lambda: Index.build(VECTORS).count_within(VECTORS[:2], [0.5]),
            r"distances must be one number for each of 2 queries, got shape \(1,\) of float64",
        ),
        (
            lambda: Index.build(CODES).count_within(CODES[:1], ["near"]),
            r"distances must be one number for each of 1 queries, got shape \(1,\) of <U4",
        ),
        (
            lambda: Index.build(CODES).count_within(CODES[:1], [1], among=np.ones((1, 8), bool)),
            r"among must be a mask \(8,\) of bool, got \(1, 8\) of bool",
        ),
        (lambda: Index.build(CODES).search(CODES, 2, threads=0), "threads must be a whole number from 1, got 0"),
        (lambda: Index.build(CODES).search(VECTORS, 1), "the index is of codes, got ndarray to search for"),
        (lambda: Index.build(VECTORS).search(CODES, 1), "the index is of embeddings, got Codes to search for"),
        (
            lambda: Index.build(CODES).search(la.Codes.pack(np.eye(9)), 1),
            "indexed codes have 8 bits, queries have 9: encode both with the same hasher",
        ),
        (lambda: Index.build(VECTORS).search(np.ones((1, 3)), 1), "gallery embeddings have 4 columns, queries have 3"),
        (
            lambda: Index.build(VECTORS).search(np.zeros((1, 4)), 1),
            "query embedding in row 0 is zero: it has no cosine",
        ),
        (lambda: Index.build(VECTORS).search([[1, 1, np.inf, 1]], 1), "query embeddings hold inf, first in row 0"),
    ],
)
def test_what_is_wrong_is_said(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_without_faiss_exact_search_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = la.Codes.pack(np.random.default_rng(0).random((300, 5)) < 0.5)  # with many ties
    known = Index.build(codes).search(codes[:20], 7)
    monkeypatch.setitem(sys.modules, "faiss", None)
    found = Index.build(codes).search(codes[:20], 7)
    assert np.array_equal(found.items, known.items)
    assert np.array_equal(found.distances, known.distances)
    assert found.distances.dtype == known.distances.dtype
    assert Index.build(codes).search(codes[:1], 3, among=np.arange(300) > 200).items.min() > 200


def test_without_faiss_an_approximate_index_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    codes = la.Codes.pack(np.random.default_rng(0).random((300, 16)) < 0.5)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "lookalike\[search\]"'):
        Index.build(codes, kind="ivf")


def test_faiss_is_loaded_when_it_is_needed() -> None:
    code = "import lookalike.search.index, sys; print('faiss' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
