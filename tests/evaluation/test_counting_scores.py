"""Counts of embeddings and scores, and of single codes, against plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.counting import KINDS, METRICS, Array, Grades, assert_same_metrics, methods_for, shards_of
from helpers.strategies import clustered_bits
from lookalike.core import kernels as _compiled
from lookalike.evaluation.count_codes import code_counter
from lookalike.evaluation.inputs import Ids, request_of_vectors
from lookalike.evaluation.needs import Needs


def merged(table: Array) -> Array:
    """Groups without those that are empty, with neighbours of grade 0 made one."""
    table = table[table.any(axis=-1)]
    plain = ~table[:, 1:].any(axis=1)
    starts = np.flatnonzero(~plain | ~np.concatenate([[False], plain[:-1]]))
    return np.add.reduceat(table, starts, axis=0) if len(table) else table


def groups_of(counts: Array) -> list[list[tuple[int, ...]]]:
    """Tie groups of every query without empty ones, neighbours that hold nothing of a grade above 0 made one.

    Metrics cannot tell these apart, and a tally is free to merge them.
    """
    queries = []
    for table in counts:
        groups: list[tuple[int, ...]] = []
        for row in merged(table).tolist():
            while row and row[-1] == 0:
                row.pop()
            if not row:
                continue
            if len(row) == 1 and groups and len(groups[-1]) == 1:
                groups[-1] = (groups[-1][0] + row[0],)
            else:
                groups.append(tuple(row))
        queries.append(groups)
    return queries


def groups_of_scores(scores: list[list[Any]], grades: Grades) -> list[list[tuple[int, ...]]]:
    """The same from exact scores, higher first, by a loop over the distinct scores of each query."""
    tables = []
    for row, grade in zip(scores, grades, strict=True):
        distinct = sorted(set(row), reverse=True)
        table = [[0] * 6 for _ in distinct]
        for score, value in zip(row, grade, strict=True):
            assert value is not None
            table[distinct.index(score)][value] += 1
        tables.append(table)
    return [groups_of(np.array([table]))[0] for table in tables]


def exact_vectors(rng: np.random.Generator, n_rows: int, similarity: str) -> Array:
    """Rows whose similarities are exact in float32: small whole numbers, or for cosine four of them and a norm of 2."""
    if similarity != "cosine":
        return rng.integers(-3, 4, (n_rows, 6)).astype(np.float32)
    rows = np.zeros((n_rows, 12), np.float32)
    for row in rows:
        row[rng.choice(12, 4, replace=False)] = rng.choice([-1, 1], 4)
    return np.asarray(rows * rng.choice(np.array([0.5, 1, 4], np.float32), (n_rows, 1)))


def exact_similarity(a: Sequence[float], b: Sequence[float], similarity: str) -> float:
    """Dot product, minus squared distance, or dot product over lengths, of numbers that float64 holds exactly."""
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    if similarity == "dot":
        return dot
    if similarity == "euclidean":
        return -sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    return float(dot / (sum(x * x for x in a) ** 0.5 * sum(y * y for y in b) ** 0.5))


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"judged"}))
def test_embeddings_tie_where_their_exact_scores_are_equal(kind: str, similarity: str) -> None:
    for n_queries, n_items in ((1, 1), (1, 30), (5, 120)):
        rng = np.random.default_rng([n_queries, n_items])
        queries, gallery = (exact_vectors(rng, n, similarity) for n in (n_queries, n_items))
        relevance, grades = KINDS[kind](rng, n_queries, n_items)
        scores = [[exact_similarity(a, b, similarity) for b in gallery.tolist()] for a in queries.tolist()]
        expected = groups_of_scores(scores, grades)
        for dtype in (np.float32, np.float64):
            for threads in (1, 2):
                vectors = queries.astype(dtype), gallery.astype(dtype)
                tally = la.count(*vectors, relevance, similarity=similarity, threads=threads)
                assert groups_of(tally.counts) == expected
                assert tally.method in ("around", "plain")
    assert any(sum(group) > 1 and len(group) > 1 for groups in expected for group in groups), "nothing relevant is tied"


@pytest.mark.parametrize("n_bits", [1, 9, 65, 200])
def test_signs_as_embeddings_tie_as_their_codes_do(n_bits: int) -> None:
    """The dot product of codes of -1 and +1 is b - 2d."""
    rng = np.random.default_rng(n_bits)
    queries, gallery = clustered_bits(rng, 5, n_bits), clustered_bits(rng, 200, n_bits)
    relevance = la.same_label(rng.integers(0, 3, 5), rng.integers(0, 3, 200))
    by_code = la.count(la.Codes.pack(queries), la.Codes.pack(gallery), relevance)
    signs = [2 * bits.astype(np.float32) - 1 for bits in (queries, gallery)]
    by_dot = la.count(*signs, relevance, similarity="dot")
    assert groups_of(by_dot.counts) == groups_of(by_code.counts)


EDGES = (0, 1, 63, 64, 127, 128, 255, 256, 511, 512, 1023, 1024, 2047, 2048, 4095, 4096)


def with_duplicates(n_items: int, n_dims: int, seed: int) -> tuple[Array, Array]:
    """Random rows, one of them repeated on both sides of every likely tile edge and at the end; where it is."""
    gallery = np.random.default_rng(seed).standard_normal((n_items, n_dims)).astype(np.float32)
    where = np.array([*EDGES, n_items - 1])
    gallery[where] = gallery[0]
    return gallery, where


def tallied(
    queries: Array, gallery: Array, relevant: Array, similarity: str, **options: Any
) -> list[list[tuple[int, ...]]]:
    relevance = la.same_label(np.ones(len(queries), int), relevant.astype(int))
    return groups_of(la.count(queries, gallery, relevance, similarity=similarity, **options).counts)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("n_dims", [3, 64, 100, 513])
def test_duplicates_tie_across_tile_edges(n_dims: int, similarity: str) -> None:
    """Whatever the number of queries, threads or shards: equal rows have equal scores, so they are in one group."""
    n_items = 5003
    gallery, where = with_duplicates(n_items, n_dims, seed=n_dims)
    queries = np.random.default_rng(1).standard_normal((130, n_dims)).astype(np.float32)
    queries[[3, 63, 64, 127, 129]] = queries[0]
    relevant = np.zeros(n_items, bool)
    relevant[where[::2]] = True
    n_relevant, n_others = len(where[::2]), len(where[1::2])
    together = tallied(queries, gallery, relevant, similarity)
    for groups in together:
        ((others, hits),) = (group for group in groups if len(group) == 2)
        assert hits == n_relevant, "one group holds them all"
        assert n_others <= others <= n_others + 2, "strangers may have the same float32 score, but rarely"
        assert sum(sum(group) for group in groups) == n_items
    assert together[0] == together[3] == together[63] == together[64] == together[127] == together[129]
    assert len({tuple(groups) for groups in together}) > 100, "the queries are alike"
    for n_queries in (1, 2, 63, 64, 65):
        assert tallied(queries[:n_queries], gallery, relevant, similarity) == together[:n_queries]
    assert tallied(queries[50:], gallery, relevant, similarity, threads=1) == together[50:]
    assert tallied(queries[50:], gallery, relevant, similarity, threads=2) == together[50:]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_duplicates_tie_across_shards(similarity: str) -> None:
    gallery, where = with_duplicates(5003, 48, seed=9)
    queries = np.random.default_rng(2).standard_normal((9, 48)).astype(np.float32)
    mine, theirs = np.ones(9, int), np.zeros(5003, int)
    theirs[where[::2]] = 1
    whole = la.count(queries, gallery, la.same_label(mine, theirs), similarity=similarity)
    cuts = [np.split(np.arange(5003), edges) for edges in ([1, 64], [1000, 2048], [4999, 5002])]
    for shards in [*cuts, shards_of(5003, 1)]:
        total = None
        for rows in shards:
            part = la.count(queries, gallery[rows], la.same_label(mine, theirs[rows]), similarity=similarity)
            total = part if total is None else total + part
        assert total is not None
        assert groups_of(total.counts) == groups_of(whole.counts)
        assert_same_metrics(total, whole, METRICS)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_best_equals_worst_only_where_duplicates_agree(similarity: str) -> None:
    """All duplicates relevant: no order matters. Half of them: it does, and the best puts these first."""
    gallery, where = with_duplicates(5003, 32, seed=4)
    queries = np.random.default_rng(3).standard_normal((5, 32)).astype(np.float32)
    for chosen, agree in ((where, True), (where[::2], False)):
        theirs = np.zeros(5003, int)
        theirs[chosen] = 1
        value = la.evaluate(
            queries, gallery, la.same_label(np.ones(5, int), theirs), metrics=["AP"], similarity=similarity
        )["AP"]
        assert ((value.best_per_query == value.worst_per_query) == agree).all()
        assert (value.worst_per_query > 0).all()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_excluded_embeddings_are_not_counted(similarity: str) -> None:
    rng = np.random.default_rng(8)
    gallery = exact_vectors(rng, 40, similarity)
    ids, groups, classes = list(range(40)), np.arange(40) // 3, rng.integers(0, 4, 40)
    for exclude, out in (("self", np.eye(40, dtype=bool)), ((groups, groups), groups[:, None] == groups[None])):
        found = la.count(
            gallery,
            gallery,
            la.same_label(classes, classes),
            similarity=similarity,
            query_ids=ids,
            gallery_ids=ids,
            exclude=exclude,
        )
        for q in range(40):
            rows = [i for i in range(40) if not out[q, i]]
            scores = [exact_similarity(gallery[q].tolist(), gallery[i].tolist(), similarity) for i in rows]
            grades: Grades = [[int(classes[q] == classes[i]) for i in rows]]
            assert groups_of(found.counts[q : q + 1]) == groups_of_scores([scores], grades)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bits", [1, 3, 8, 12, 13, 32, 33, 48, 100, 128])
def test_signs_as_embeddings_tie_as_codes_do(n_bits: int, dtype: type) -> None:
    """Cosine, dot product and distance of -1 and +1 rank as the Hamming distance, ties included."""
    rng = np.random.default_rng(n_bits)
    queries, gallery = (2 * clustered_bits(rng, n, n_bits).astype(dtype) - 1 for n in (9, 300))
    relevance = la.same_label(rng.integers(0, 3, 9), rng.integers(0, 3, 300))
    codes = la.evaluate(la.Codes.pack(queries), la.Codes.pack(gallery), relevance, ["AP", "nDCG@20"])
    for similarity in ("cosine", "dot", "euclidean"):
        signs = la.evaluate(queries, gallery, relevance, ["AP", "nDCG@20"], similarity=similarity)
        for metric in codes:
            for found, wanted in zip(signs[metric].values, codes[metric].values, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_lengths_near_the_limits_of_floats_have_cosines() -> None:
    for size in (1e-40, 1e-20, 1.0, 1e20, 3e38):
        rows = np.array([[1, 1, 0], [0, 0, 1]], np.float32) * np.float32(size)
        result = la.evaluate(rows, rows[::-1], la.same_label([0, 1], [1, 0]), ["AP"])
        assert result["AP"].per_query.tolist() == [1, 1], size


def test_cosines_do_not_depend_on_lengths() -> None:
    """Rows of very different lengths rank as their unit vectors do in float64; scaling rows changes nothing."""
    rng = np.random.default_rng(6)
    gallery, queries = rng.standard_normal((200, 5)), rng.standard_normal((7, 5))
    relevance = la.same_label(np.zeros(7, int), rng.integers(0, 2, 200))
    unit = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
    wanted = la.evaluate_scores(queries @ unit.T, relevance, ["AP", "nDCG@20"])
    for lengths in (np.ones((200, 1)), rng.uniform(0.01, 100, (200, 1))):
        found = la.evaluate(queries, gallery * lengths, relevance, ["AP", "nDCG@20"])
        for metric in wanted:
            np.testing.assert_allclose(found[metric].per_query, wanted[metric].per_query, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_bits", [4, 20, 64, 65])
def test_the_largest_count_of_a_code_is_counted_by_every_method(n_bits: int) -> None:
    """Codes that one, two or three items share, and some of them near each other."""
    rng = np.random.default_rng(n_bits)
    distinct = clustered_bits(rng, 12, n_bits)
    gallery = np.repeat(distinct, [1, 2, 3] * 4, axis=0)
    relevance = la.same_label(np.zeros(12, int), np.zeros(len(gallery), int))
    wanted = np.zeros((12, 3), int)
    for i, query in enumerate(distinct):
        on_code: dict[tuple[int, ...], int] = {}
        for item in gallery.tolist():
            on_code[tuple(item)] = on_code.get(tuple(item), 0) + 1
        for code, count in on_code.items():
            distance = sum(a != b for a, b in zip(query.tolist(), code, strict=True))
            if distance <= 2:
                wanted[i, distance] = max(wanted[i, distance], count)
    assert 2 in wanted, "a code of two items is nowhere the largest"
    codes, items = la.Codes.pack(distinct), la.Codes.pack(gallery)
    for method in methods_for(n_bits):
        counter = code_counter(request_of_vectors(codes, items, Ids(relevance), None), Needs(radius=2), method)
        np.testing.assert_array_equal(counter(slice(0, 12)).largest, wanted)


@pytest.mark.parametrize("n_bits", [64, 65, 300])
def test_galleries_of_several_tiles_are_counted_whole(n_bits: int) -> None:
    """The scan goes over the gallery a tile at a time: all of them, and each once."""
    n, generator = _compiled.kernels().TILE + 3, np.random.default_rng(0)
    gallery = la.Codes.pack(generator.integers(0, 2, (n, n_bits), np.uint8))
    relevance = la.same_label([0, 1], generator.integers(0, 2, n))
    plain, scanned = (la.count(gallery[:2], gallery, relevance, method=method) for method in ("plain", "scan"))
    np.testing.assert_array_equal(scanned.counts, plain.counts)
