"""Scores of embeddings held against exact arithmetic: ranks, ties, and how far a score may be off.

Rows far from the origin, rows of whole numbers, rows of many sizes: data that real embeddings seldom are, and on which
floats go wrong. A test whose rows have no ties, or whose scores are all far apart, would show nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.neighbours import EmbeddingSpace
from lookalike.scoring import Embeddings
from lookalike.search import Index
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
        exact = similarities.euclidean(queries[i].tolist(), gallery[j].tolist())
        assert abs(similarities.Fraction(found[i, j]) - exact) <= -exact * (n_columns + 2) * ROUNDING * (1 + 1e-9)


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
