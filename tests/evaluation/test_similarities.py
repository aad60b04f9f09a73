"""Scores of embeddings held against exact arithmetic: ranks, ties, and how far a score may be off.

Rows far from the origin, rows of whole numbers, rows of many sizes, multiples of rows: data that real embeddings seldom
are, and on which floats go wrong. A test whose rows have no ties, or whose scores are far apart, would show nothing.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.core.embeddings import Embeddings
from lookalike.search.index import Index
from lookalike.search.spaces import EmbeddingSpace
from lookalike.shards.gallery import Shards
from lookalike.shards.writer import ShardWriter
from reference import similarities

COLUMNS = (1, 7, 8, 9, 63, 64, 65, 200)
ROUNDING = 2.0**-53


def scores_of(queries: np.ndarray, gallery: np.ndarray, similarity: str) -> np.ndarray:
    embeddings = Embeddings(queries, gallery, similarity)
    return embeddings.rows(slice(0, len(queries))).copy()


def places_of(scores: np.ndarray) -> list[list[int]]:
    """For each query the tie group of each item, 0 being the nearest."""
    return [np.unique(-row, return_inverse=True)[1].tolist() for row in scores]


def exact_places(queries: np.ndarray, gallery: np.ndarray, similarity: str) -> list[list[int]]:
    return similarities.places(queries.tolist(), gallery.tolist(), similarity)


# Distances


@settings(deadline=None, max_examples=60)
@given(
    n_columns=st.sampled_from(COLUMNS),
    shape=st.tuples(st.sampled_from([1, 5, 6, 7]), st.sampled_from([1, 7, 8, 9, 17])),
    offset=st.sampled_from([0.0, 1.0, 1e6, -1e12, 1e100]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_distance_is_summed_from_differences(
    n_columns: int, shape: tuple[int, int], offset: float, seed: int
) -> None:
    """To the last bit as by the loop over fractions, and as near to the exact one as so many roundings can be."""
    rng = np.random.default_rng(seed)
    queries, gallery = (rng.standard_normal((n, n_columns)) * max(1, abs(offset) / 1e9) + offset for n in shape)
    gallery[rng.integers(shape[1])] = queries[0]
    found = scores_of(queries, gallery, "euclidean")
    plain = -((queries[:, None] - gallery) ** 2).sum(2)
    np.testing.assert_allclose(found, plain, rtol=2 * (n_columns + 2) * ROUNDING, atol=0)
    for i, j in {(0, 0), (shape[0] - 1, shape[1] - 1), (shape[0] // 2, shape[1] // 2)}:
        assert found[i, j] == similarities.summed_distance(queries[i].tolist(), gallery[j].tolist())
        exact = similarities.euclidean(*(similarities.exact(row.tolist()) for row in (queries[i], gallery[j])))
        assert abs(Fraction(found[i, j]) - exact) <= -exact * (n_columns + 2) * ROUNDING * (1 + 1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("power", range(0, 13, 2))
def test_far_from_the_origin_precision_is_exact(power: int, dtype: type) -> None:
    """The average precision of all of a hundred queries, by rows as far away as a float can tell them apart."""
    rng = np.random.default_rng(power)
    queries, gallery = ((rng.standard_normal((n, 8)) + 10.0**power).astype(dtype) for n in (100, 40))
    relevance = la.same_label(np.zeros(100, int), rng.integers(0, 2, 40))
    wanted = la.evaluate_scores(-np.array(exact_places(queries, gallery, "euclidean")), relevance, ["AP"])["AP"]
    found = la.evaluate(queries, gallery, relevance, ["AP"], similarity="euclidean")["AP"]
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=1e-12)
    assert dtype is np.float32 or len(np.unique(wanted.per_query)) > 90, "the queries are alike"


@pytest.mark.parametrize("offset", [0, 2**20, 2**45])
@pytest.mark.parametrize("n_columns", COLUMNS)
def test_distances_of_whole_numbers_tie_where_they_are_equal(n_columns: int, offset: int) -> None:
    rng = np.random.default_rng([n_columns, offset])
    for largest in (1, 3, 255):
        queries, gallery = (rng.integers(-largest, largest + 1, (n, n_columns)) + offset for n in (4, 40))
        gallery[:8] = rng.permuted(gallery[:8], axis=1)
        gallery[8] = queries[0]
        found = scores_of(queries, gallery, "euclidean")
        assert found.tolist() == [[int(-((a - b) ** 2).sum()) for b in gallery] for a in queries]
        assert places_of(found) == exact_places(queries, gallery, "euclidean")


@pytest.mark.parametrize("similarity", ["dot", "euclidean", "cosine"])
def test_where_all_items_are_one_they_all_tie(similarity: str) -> None:
    rng = np.random.default_rng(0)
    for n_columns in COLUMNS:
        gallery = np.tile(rng.standard_normal(n_columns) + 1e9, (37, 1))
        found = scores_of(np.vstack([gallery[:1], rng.standard_normal((6, n_columns))]), gallery, similarity)
        assert (found == found[:, :1]).all()
        if similarity == "euclidean":
            assert found[0].tolist() == [0.0] * 37
            assert not np.signbit(found[0]).any()  # 0, and not -0


def test_far_from_the_origin_a_distance_depends_on_its_two_rows_alone() -> None:
    rng = np.random.default_rng(0)
    queries, gallery = (rng.standard_normal((n, 19)) + 1e9 for n in (13, 50))
    whole = scores_of(queries, gallery, "euclidean")
    laid_out = Embeddings(queries[:1], gallery, "euclidean").with_queries(queries)
    np.testing.assert_array_equal(laid_out.rows(slice(3, 9)), whole[3:9])
    items = rng.integers(0, 50, (13, 7))
    found = EmbeddingSpace(gallery, "euclidean").distances(queries, items)
    np.testing.assert_array_equal(found, np.take_along_axis(whole, items, axis=1))
    for rows in (slice(0, 1), slice(7, 16), slice(30, 50)):
        np.testing.assert_array_equal(scores_of(queries[4:5], gallery[rows], "euclidean"), whole[4:5, rows])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_far_from_the_origin_search_finds_the_nearest(dtype: type) -> None:
    rng = np.random.default_rng(1)
    offset = 1e8 if dtype is np.float64 else 1e4
    queries, gallery = ((rng.standard_normal((n, 6)) + offset).astype(dtype) for n in (30, 300))
    places = np.array(exact_places(queries, gallery, "euclidean"))
    found = Index.build(gallery, similarity="euclidean").search(queries, 10)
    np.testing.assert_array_equal(found.items, np.argsort(places, axis=1, kind="stable")[:, :10])


def test_the_largest_rows_have_distances() -> None:
    """What is not refused has a finite distance, of opposite rows too."""
    for n_columns in COLUMNS:
        row = np.full((1, n_columns), np.sqrt(np.finfo(np.float64).max / 8 / n_columns) * (1 - 1e-12))
        assert np.isfinite(scores_of(row, np.vstack([-row, row]), "euclidean")).all()
        with pytest.raises(ValueError, match="gallery embedding in row 1 is too large for float64: scale them"):
            Embeddings(row, np.vstack([-row, 1.1 * row]), "euclidean")


# Cosines


def short_rows(rng: np.random.Generator, n: int, n_columns: int, dtype: type) -> np.ndarray:
    """Random rows of so few digits that a thousand times a row loses none."""
    digits = np.finfo(dtype).nmant - 10
    rows = np.rint(rng.standard_normal((n, n_columns)) * 2.0 ** (digits - 3))
    rows[:, rng.integers(n_columns)] = 2.0 ** (digits - 3)  # none is zero
    return (rows * 2.0 ** -rng.integers(0, 40)).astype(dtype)


def rows_and_multiples(rng: np.random.Generator, n_columns: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which some are multiples of others, and the number of the row that each is a multiple of."""
    rows, of = short_rows(rng, 30, n_columns, dtype), rng.integers(0, 30, 200)
    factors = np.concatenate([rng.integers(2, 1001, 180), 2.0 ** rng.integers(-60, 60, 20)])
    gallery = (rows[of].astype(np.float64) * factors[:, None]).astype(dtype)
    for row, origin, factor in zip(gallery.tolist(), of.tolist(), factors.tolist(), strict=True):
        assert [Fraction(x) for x in row] == [Fraction(x) * Fraction(factor) for x in rows[origin].tolist()]
    return np.concatenate([rows, gallery]), np.concatenate([np.arange(30), of])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", COLUMNS)
def test_multiples_of_a_row_tie_with_it(n_columns: int, dtype: type) -> None:
    rng = np.random.default_rng(n_columns)
    gallery, of = rows_and_multiples(rng, n_columns, dtype)
    queries = rng.standard_normal((20, n_columns)).astype(dtype)
    found = scores_of(queries, gallery, "cosine")
    np.testing.assert_array_equal(found, found[:, of])
    if n_columns > 1:
        assert all(len(np.unique(row)) >= 25 for row in found), "strangers tie"
    np.testing.assert_array_equal(scores_of(queries, -gallery, "cosine"), -found)  # they point the other way
    alone = Embeddings(gallery[of], queries, "cosine")
    np.testing.assert_array_equal(scores_of(gallery, queries, "cosine"), alone.rows(slice(0, len(gallery))))
    np.testing.assert_array_equal(Embeddings(gallery, queries, "cosine").query_lengths, alone.query_lengths)


def test_every_whole_multiple_up_to_a_thousand_ties() -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        row = short_rows(rng, 1, 12, dtype)
        found = scores_of(
            rng.standard_normal((30, 12)).astype(dtype), row * np.arange(1, 1001, dtype=dtype)[:, None], "cosine"
        )
        np.testing.assert_array_equal(found, np.repeat(found[:, :1], 1000, axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_multiples_tie_in_memory_in_shards_and_in_search(dtype: type, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    gallery, of = rows_and_multiples(rng, 24, dtype)
    order = rng.permutation(len(gallery))
    gallery, of = gallery[order], of[order]
    queries = rng.standard_normal((25, 24)).astype(dtype)
    labels = rng.integers(0, 3, len(gallery))
    simple = gallery[[int(np.flatnonzero(of == row)[0]) for row in of]]  # each row in place of its multiples
    mine = np.zeros(25, int)
    wanted = la.evaluate(queries, simple, la.same_label(mine, labels), ["AP", "nDCG@10"])
    assert (wanted["AP"].best_per_query > wanted["AP"].worst_per_query).all(), "nothing ties"
    with ShardWriter(tmp_path, rows=37) as writer:
        writer.add({"embeddings": gallery, "labels": labels})
    shards = Shards.open(tmp_path)
    for items, theirs in ((gallery, labels), (shards, shards["labels"])):
        found = la.evaluate(queries, items, la.same_label(mine, theirs), ["AP", "nDCG@10"])
        for metric in wanted:
            np.testing.assert_array_equal(found[metric].values, wanted[metric].values)
    listed, expected = (Index.build(items).search(queries, 60) for items in (gallery, simple))
    np.testing.assert_array_equal(listed.items, expected.items)
    np.testing.assert_array_equal(listed.distances, expected.distances)
    space = EmbeddingSpace(gallery, "cosine")
    np.testing.assert_array_equal(space.distances(queries, listed.items), listed.distances)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_size_tie_with_their_multiples(dtype: type) -> None:
    """From the least float to the largest, and with numbers of very different size in one row."""
    rng = np.random.default_rng(4)
    limits = np.finfo(dtype)
    least = limits.minexp - limits.nmant
    queries = rng.standard_normal((40, 4)).astype(dtype)
    for whole in ([1, 2, 3, -1], [7, 0, 0, 21], [1, 1 << 10, 3, 0], [1001, 13, 17, 1 << 9]):
        rows = []
        for power, factor in itertools.product(
            (least, least + 1, limits.minexp, -40, 0, 60, limits.maxexp - 21), (1, 3, 5, 999)
        ):
            rows.append([math.ldexp(number * factor, power) for number in whole])
        gallery = np.array(rows, dtype)
        assert gallery.tolist() == rows
        found = scores_of(queries, gallery, "cosine")
        np.testing.assert_array_equal(found, np.repeat(found[:, :1], len(rows), axis=1))
        assert np.isfinite(found).all()
        assert found.any()
    wide = np.array([[1.0, 2.0 ** (least + 30), 0, 3]], dtype)
    rows = np.concatenate([wide, 3 * wide, wide * dtype(2.0 ** (limits.maxexp - 5)), wide * dtype(2.0**-20)])
    found = scores_of(queries, rows, "cosine")
    np.testing.assert_array_equal(found, np.repeat(found[:, :1], 4, axis=1))


def test_sums_are_rounded_alike_however_large_a_row_is() -> None:
    """Where squares fall below the least float, a row's length would depend on its size."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        powers = np.sort(rng.integers(-75, 1, 12))
        row = (rng.choice([1, 3, 5, 7], 12) * 2.0**powers).astype(np.float32)
        rows = row * np.float32(2.0) ** np.array([[0], [20], [60], [-60]], np.float32)
        found = scores_of(rng.standard_normal((5, 12)).astype(np.float32), rows, "cosine")
        np.testing.assert_array_equal(found, np.repeat(found[:, :1], 4, axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosines_of_whole_numbers_tie_where_they_are_equal(dtype: type) -> None:
    """Multiples, permutations, and strangers such as (1, 1, 1) and (5, 1, 1) for the query (2, 1, 1)."""
    rng = np.random.default_rng(6)
    ties = 0
    for n_columns, largest in ((2, 9), (3, 5), (4, 3), (9, 2), (40, 1)):
        rows = rng.integers(-largest, largest + 1, (60, n_columns))
        rows = np.concatenate([rows[rows.any(1)], rng.permuted(rows[rows.any(1)], axis=1)])
        rows = (rows * rng.integers(1, 4, (len(rows), 1))).astype(dtype)
        wanted = exact_places(rows[:12], rows, "cosine")
        ties += sum(len(row) - len(set(row)) for row in wanted)
        for unit in (1, 0.125, 1 / 3):  # a third, rounded to few digits so that multiples of it are not
            step = dtype(np.rint(unit * 2**12) / 2**12)
            assert places_of(scores_of(rows[:12] * step, rows * step, "cosine")) == wanted
    assert ties > 1000


def test_strangers_of_equal_cosines_tie() -> None:
    for dtype in (np.float32, np.float64):
        rows = np.array([[1, 1, 1], [3, 3, 3], [5, 1, 1], [10, 2, 2], [1, 5, 1]], dtype)
        found = scores_of(np.array([[2, 1, 1]], dtype), rows, "cosine")[0]
        assert found[0] == found[1] == found[2] == found[3] > found[4]


@settings(max_examples=300)
@given(
    rows=st.lists(st.lists(st.integers(-40, 40), min_size=3, max_size=3).filter(any), min_size=2, max_size=12),
    factors=st.lists(st.integers(1, 9), min_size=12, max_size=12),
)
def test_ranks_and_ties_of_small_whole_rows_are_exact(rows: list[list[int]], factors: list[int]) -> None:
    gallery = np.array([[number * factor for number in row] for row, factor in zip(rows, factors, strict=False)], float)
    for similarity in ("cosine", "dot", "euclidean"):
        wanted = exact_places(gallery[:3], gallery, similarity)
        assert places_of(scores_of(gallery[:3], gallery, similarity)) == wanted


def test_a_multiple_that_was_rounded_is_another_row() -> None:
    rng = np.random.default_rng(7)
    queries = rng.standard_normal((50, 8)).astype(np.float32)
    rows = rng.standard_normal((50, 8)).astype(np.float32)
    found, thrice = (scores_of(queries, part, "cosine") for part in (rows, 3 * rows))
    assert 0.2 < (found == thrice).mean() < 0.8
    np.testing.assert_allclose(found, thrice, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(
        *(scores_of(queries, part.astype(float), "cosine") for part in (rows, 3.0 * rows.astype(float)))
    )
    tenths = np.array([[1, 3], [3, 9], [7, 21]]) / 10  # 0.3 is not three times 0.1
    found = scores_of(rng.standard_normal((50, 2)), tenths, "cosine")
    assert not (found == found[:, :1]).all()
    found = scores_of(rng.standard_normal((50, 2)), np.rint(10 * tenths), "cosine")
    assert (found == found[:, :1]).all()


@settings(max_examples=40)
@given(n_columns=st.sampled_from(COLUMNS), seed=st.integers(0, 2**32 - 1))
def test_a_cosine_is_the_product_over_the_length(n_columns: int, seed: int) -> None:
    """Of rows whose numbers have nothing in common, to the last bit as by the loop over fractions."""
    rng = np.random.default_rng(seed)
    query, *items = rng.standard_normal((4, n_columns)) * 10.0 ** rng.integers(-9, 9)
    if n_columns == 1:
        return  # a number alone is a multiple of 1
    found = scores_of(query[None], np.array(items), "cosine")[0]
    length = math.sqrt(similarities.summed_product(query.tolist(), query.tolist()))
    for item, score in zip(items, found.tolist(), strict=True):
        product = similarities.summed_product(query.tolist(), item.tolist())
        cosine = product / math.sqrt(similarities.summed_product(item.tolist(), item.tolist()))
        assert score == math.ldexp(cosine, -math.frexp(length)[1])


@pytest.mark.parametrize(
    ("similarity", "dtype", "size"), [("dot", np.float32, 1e-24), ("euclidean", np.float64, 1e-170)]
)
def test_rows_too_small_to_be_multiplied_are_refused(similarity: str, dtype: type, size: float) -> None:
    """Their products would all be 0, and tie."""
    rows = (np.array([[1, 2], [0, 0], [5, 9]]) * size).astype(dtype)
    relevance = la.same_label([0, 1, 0], [0, 1, 0])
    with pytest.raises(ValueError, match=r"embedding in row 0 is too small for float\d\d: scale them"):
        la.evaluate(rows, rows, relevance, ["AP"], similarity=similarity)
    assert la.evaluate(rows / dtype(size), rows / dtype(size), relevance, ["AP"], similarity=similarity)["AP"].mean > 0
