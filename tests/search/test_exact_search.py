"""Exact search equals sorting everything, of all items and of a part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lookalike as la
from helpers.searching import VECTORS, brute_codes, brute_scores, clustered, evaluated_scores, many_codes, same
from helpers.strategies import BITS, clustered_bits
from lookalike.core.embeddings import Embeddings
from lookalike.search.index import Index, Neighbours

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
        ours = evaluated_scores(queries, items, similarity)
        np.testing.assert_allclose(ours, every, rtol=1e-5)
        every, order = ours, np.argsort(-ours, axis=1, kind="stable")[:, :kept]
    np.testing.assert_array_equal(found.items[:, :kept], order)
    np.testing.assert_array_equal(found.distances[:, :kept], np.take_along_axis(every, order, axis=1))
    assert (found.items[:, kept:] == -1).all()
    assert np.isnan(found.distances[:, kept:]).all()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("kind", ["exact", "ivf", "hnsw"])
def test_scores_are_those_of_evaluation(similarity: str, kind: str) -> None:
    items = clustered(np.random.default_rng(0), 3000, 16)
    queries = clustered(np.random.default_rng(0), 150, 16) + np.float32(0.01)
    found = Index.build(items, similarity=similarity, kind=kind, target=0.9).search(queries, 10)
    every = evaluated_scores(queries, items, similarity)
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
    every = evaluated_scores(queries, items, similarity)
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


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_query_alone_has_the_scores_that_it_has_among_others(similarity: str, dtype: type) -> None:
    """Alone it reads rows where they are, in several threads; among others it reads panels."""
    rng = np.random.default_rng(0)
    for n_items in (1, 7, 8, 17, 9001):
        gallery = (rng.standard_normal((n_items, 13)) * 10 ** rng.uniform(-3, 3, (n_items, 1))).astype(dtype)
        queries = rng.standard_normal((5, 13)).astype(dtype)
        packed = Embeddings(queries, gallery, similarity).rows(slice(0, 5)).copy()
        in_place = Embeddings(queries, gallery, similarity, in_place=True)
        for in_place.threads in (1, 2, 3):
            alone = [in_place.rows(slice(i, i + 1)).copy() for i in range(5)]
            np.testing.assert_array_equal(np.concatenate(alone), packed)
        np.testing.assert_array_equal(in_place.rows(slice(0, 5)), packed)


@pytest.mark.parametrize("what", ["codes", "embeddings"])
@pytest.mark.parametrize("kind", ["exact", "ivf"])
def test_searching_and_counting_at_once(kind: str, what: str) -> None:
    """Few distinct distances, so that ties cross the last place."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (400, 9))
    items: Any = la.Codes.pack(bits) if what == "codes" else bits.astype(np.float32) + 1
    index = Index.build(items, kind=kind, similarity="dot")
    for k in (1, 5, 399, 400, 450):
        for among in (None, rng.random(400) < 0.1, np.zeros(400, bool)):
            nearest, near = index.search_and_count(items[:6], k, among=among)
            assert same(nearest, index.search(items[:6], k, among=among))
            there = (nearest.items >= 0).sum(1)
            if not there[0]:
                assert near.tolist() == [0] * 6
                continue
            last = nearest.distances[np.arange(6), there - 1]
            np.testing.assert_array_equal(near, index.count_within(items[:6], last, among=among))
            assert (near >= there).all()
    assert (index.search_and_count(items[:6], 5)[1] > 5).any()
