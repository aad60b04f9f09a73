"""Counts of the library against a double loop: exactly equal, whatever the method, the shape, the threads, the shards.

What a vacuous test would let pass: a method that is never taken (`tally.method` is asserted); a last word of 64 bits
that is only right when full (7, 63, 65, 200, 300 bits); a last tile that is only right when full (4095, 4096, 4097
items); codes so random that no distance is ever 0 or b (the codes here crowd around a few, all zeros and all ones among
them); shards that are all alike; scores of equal rows that happen to be equal because they lie in one tile (duplicates
are put on both sides of every likely tile edge); and counts of nothing (`assert_counts` wants some).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.counting import KINDS, METRICS, Array, Grades, assert_same_metrics, judged_kind, methods_for, shards_of
from helpers.strategies import BITS, bit_matrices, clustered_bits, labels
from lookalike.core import kernels as _compiled
from reference import definitions


def assert_method(tally: Any, asked: str) -> None:
    assert tally.method == asked if asked != "auto" else tally.method in ("table", "scan", "plain")


def assert_counts(counts: Array, expected: Array) -> None:
    """Exactly equal; a grade that never occurs may or may not have its column."""
    assert counts.dtype == np.int64
    assert counts.shape[:2] == expected.shape[:2]
    n_grades = max(counts.shape[2], expected.shape[2])
    found, wanted = (np.pad(a, ((0, 0), (0, 0), (0, n_grades - a.shape[2]))) for a in (counts, expected))
    np.testing.assert_array_equal(found, wanted)
    assert wanted.sum() > 0, "this test counted nothing"


def ids_of(n_queries: int, n_items: int) -> dict[str, list[str]]:
    return {"query_ids": [f"q{i}" for i in range(n_queries)], "gallery_ids": [f"g{i}" for i in range(n_items)]}


@pytest.mark.parametrize("n_bits", BITS)
@pytest.mark.parametrize("kind", KINDS)
def test_counts_equal_the_double_loop(kind: str, n_bits: int) -> None:
    for n_queries, n_items in ((1, 1), (3, 40), (1, 3), (4, 1)):
        rng = np.random.default_rng([n_bits, n_queries, n_items])
        queries, gallery = clustered_bits(rng, n_queries, n_bits), clustered_bits(rng, n_items, n_bits)
        relevance, grades = KINDS[kind](rng, n_queries, n_items)
        expected = np.array(definitions.tally(queries.tolist(), gallery.tolist(), grades, 5))
        unjudged = np.array(
            definitions.tally(
                queries.tolist(), gallery.tolist(), [[0 if v is None else None for v in r] for r in grades], 0
            )
        )[:, :, 0]
        for method in methods_for(n_bits, kind):
            tally = la.count(
                la.Codes.pack(queries), la.Codes.pack(gallery), relevance, method=method, **ids_of(n_queries, n_items)
            )
            assert_method(tally, method)
            assert_counts(tally.counts, expected)
            np.testing.assert_array_equal(np.broadcast_to(tally.unjudged, unjudged.shape), unjudged)


@pytest.mark.parametrize("n_bits", BITS)
@pytest.mark.parametrize("kind", KINDS)
def test_excluded_items_are_not_counted(kind: str, n_bits: int) -> None:
    n_queries, n_items = 4, 30
    rng = np.random.default_rng(n_bits)
    queries, gallery = clustered_bits(rng, n_queries, n_bits), clustered_bits(rng, n_items, n_bits)
    relevance, grades = KINDS[kind](rng, n_queries, n_items)
    mine, theirs = rng.integers(0, 3, n_queries), rng.integers(0, 4, n_items)
    excluded = [[bool(a == b) for b in theirs] for a in mine]
    expected = np.array(definitions.tally(queries.tolist(), gallery.tolist(), grades, 5, excluded))
    named = ([f"group {i}" for i in mine], [f"group {i}" for i in theirs])
    for method in methods_for(n_bits, kind):
        for exclude in ((mine, theirs), named):
            tally = la.count(
                la.Codes.pack(queries),
                la.Codes.pack(gallery),
                relevance,
                method=method,
                exclude=exclude,
                **ids_of(n_queries, n_items),
            )
            assert_method(tally, method)
            assert_counts(tally.counts, expected)


@pytest.mark.parametrize("n_bits", BITS)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"judged"}))
def test_the_query_itself_is_not_counted(kind: str, n_bits: int) -> None:
    """The queries are the items 5, 0, 2 of the gallery, and one that the gallery does not have."""
    rng = np.random.default_rng(n_bits)
    gallery = clustered_bits(rng, 20, n_bits)
    rows = [5, 0, 2, 7]
    query_ids, gallery_ids = ["i5", "i0", "i2", "elsewhere"], [f"i{i}" for i in range(20)]
    relevance, grades = KINDS[kind](rng, 4, 20)
    excluded = [[query == item for item in gallery_ids] for query in query_ids]
    expected = np.array(definitions.tally(gallery[rows].tolist(), gallery.tolist(), grades, 5, excluded))
    assert expected.sum(axis=(1, 2)).tolist() == [19, 19, 19, 20]
    codes = la.Codes.pack(gallery)
    for method in methods_for(n_bits, kind):
        tally = la.count(
            la.Codes.pack(gallery[rows]),
            codes,
            relevance,
            method=method,
            query_ids=query_ids,
            gallery_ids=gallery_ids,
            exclude="self",
        )
        assert_method(tally, method)
        assert_counts(tally.counts, expected)


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    n_bits=st.one_of(st.sampled_from(BITS), st.integers(1, 40)),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 20)),
)
def test_all_methods_count_what_the_double_loop_counts(
    data: st.DataObject, n_bits: int, sizes: tuple[int, int]
) -> None:
    (queries, gallery), (q, g) = (
        [data.draw(bit_matrices(n, n_bits)) for n in sizes],
        [data.draw(labels(n)) for n in sizes],
    )
    grades: Grades = [[int(a == b) for b in g] for a in q]
    expected = np.array(definitions.tally(queries.tolist(), gallery.tolist(), grades, 1))
    for method in methods_for(n_bits):
        tally = la.count(la.Codes.pack(queries), la.Codes.pack(gallery), la.same_label(q, g), method=method)
        assert_method(tally, method)
        assert_counts(tally.counts, expected)


def test_the_table_is_refused_where_it_would_not_fit() -> None:
    codes = la.Codes.pack(np.ones((2, 21)))
    with pytest.raises(ValueError, match="21"):
        la.count(codes, codes, la.same_label([0, 1], [0, 1]), method="table")
    with pytest.raises(ValueError, match="quick"):
        la.count(codes, codes, la.same_label([0, 1], [0, 1]), method="quick")
    short = la.Codes.pack(np.ones((2, 4)))
    with pytest.raises(ValueError, match="labels or judged pairs"):
        la.count(short, short, la.grades([[0, 1], [1, 0]]), method="table")


@pytest.mark.parametrize(
    ("n_bits", "n_queries", "method"),
    [
        (12, 1000, "table"),
        (12, 20, "scan"),
        (16, 6000, "table"),
        (16, 50, "scan"),
        (17, 20000, "table"),
        (64, 1000, "scan"),
    ],
)
def test_auto_takes_the_cheaper_way(n_bits: int, n_queries: int, method: str) -> None:
    rng = np.random.default_rng(0)
    queries, gallery = (la.Codes.pack(clustered_bits(rng, n, n_bits)) for n in (n_queries, 5000))
    relevance = la.same_label(rng.integers(0, 3, n_queries), rng.integers(0, 3, 5000))
    tally = la.count(queries, gallery, relevance)
    assert tally.method == method
    other = la.count(queries[:20], gallery, la.same_label([9] * 20, [8] * 5000), method="plain")
    np.testing.assert_array_equal(tally.counts[:20].sum(2), other.counts.sum(2))


@pytest.mark.parametrize("n_bits", [1, 7, 8, 63, 64])
def test_both_ways_to_scan_one_word_agree(n_bits: int) -> None:
    """Distances through a buffer, taken where the processor counts the bits of vectors, and eight queries at a time."""
    kernels = _compiled.kernels()
    rng = np.random.default_rng(n_bits)
    for n_queries, n_items in ((1, 1), (7, 4097), (8, 100), (9, 8192), (17, 3)):
        queries, gallery = (la.Codes.pack(clustered_bits(rng, n, n_bits)).words for n in (n_queries, n_items))
        runs = np.array([[0, n_queries, 0, n_items], [n_queries // 2, n_queries, n_items // 3, n_items]])
        counts = np.zeros((2, n_queries, n_bits + 1), np.int64)
        for buffered in (False, True):
            kernels.scan(queries, np.ascontiguousarray(gallery.T), runs, buffered, counts[int(buffered)])
        np.testing.assert_array_equal(counts[0], counts[1])
        assert counts[0].sum() == n_queries * n_items + (n_queries - n_queries // 2) * (n_items - n_items // 3)


def test_queries_and_gallery_need_as_many_bits() -> None:
    with pytest.raises(ValueError, match=r"48.*64|64.*48"):
        la.count(la.Codes.pack(np.ones((1, 64))), la.Codes.pack(np.ones((1, 48))), la.same_label([0], [0]))


def counted_by_matrix_product(queries: Array, gallery: Array, grades: Array, n_grades: int) -> Array:
    """Distances from a product of unpacked bits (whole numbers, exact in float32), then a histogram per query."""
    n_bits = queries.shape[1]
    q, g = queries.astype(np.float32), gallery.astype(np.float32)
    distances = (q.sum(1)[:, None] + g.sum(1)[None] - 2 * (q @ g.T)).astype(np.int64)
    cells = (np.arange(len(q))[:, None] * (n_bits + 1) + distances) * n_grades + grades
    counts = np.bincount(cells.ravel(), minlength=len(q) * (n_bits + 1) * n_grades)
    return counts.reshape(len(q), n_bits + 1, n_grades)


def test_the_matrix_product_is_the_double_loop() -> None:
    rng = np.random.default_rng(0)
    for n_bits in (1, 9, 65):
        queries, gallery = clustered_bits(rng, 3, n_bits), clustered_bits(rng, 20, n_bits)
        grades = rng.integers(0, 3, (3, 20))
        expected = definitions.tally(queries.tolist(), gallery.tolist(), grades.tolist(), 2)
        np.testing.assert_array_equal(counted_by_matrix_product(queries, gallery, grades, 3), expected)


@pytest.mark.parametrize("n_bits", [8, 12, 16, 17, 64, 65, 300])
@pytest.mark.parametrize(
    ("n_queries", "n_items"), [(1, 4096), (3, 4097), (65, 4095), (4097, 3), (4095, 1), (257, 4096), (130, 9001)]
)
def test_ragged_sizes(n_bits: int, n_queries: int, n_items: int) -> None:
    rng = np.random.default_rng([n_bits, n_queries, n_items])
    queries, gallery = clustered_bits(rng, n_queries, n_bits), clustered_bits(rng, n_items, n_bits)
    q, g = rng.integers(0, 10, n_queries), rng.integers(0, 10, n_items)
    expected = counted_by_matrix_product(queries, gallery, q[:, None] == g[None], 2)
    for method in methods_for(n_bits):
        tallies = [
            la.count(
                la.Codes.pack(queries), la.Codes.pack(gallery), la.same_label(q, g), method=method, threads=threads
            )
            for threads in (1, 2)
        ]
        for tally in tallies:
            assert_method(tally, method)
            assert_counts(tally.counts, expected)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"labels", "string labels", "judged"}))
@pytest.mark.parametrize("n_bits", [12, 65])
def test_graded_relevance_of_a_large_gallery_with_exclusion(kind: str, n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    n_queries, n_items = 9, 4097
    queries, gallery = clustered_bits(rng, n_queries, n_bits), clustered_bits(rng, n_items, n_bits)
    relevance, grades = KINDS[kind](rng, n_queries, n_items)
    mine, theirs = rng.integers(0, 50, n_queries), rng.integers(0, 50, n_items)
    dense = np.where(mine[:, None] == theirs[None], 6, np.array(grades, dtype=np.int64))  # 6: a column to throw away
    expected = counted_by_matrix_product(queries, gallery, dense, 7)[:, :, :6]
    for method in methods_for(n_bits, kind):
        for threads in (1, 2):
            tally = la.count(
                la.Codes.pack(queries),
                la.Codes.pack(gallery),
                relevance,
                method=method,
                threads=threads,
                exclude=(mine, theirs),
            )
            assert_method(tally, method)
            assert_counts(tally.counts, expected)


@pytest.mark.parametrize("n_bits", BITS)
def test_packing_keeps_every_bit_however_it_is_written(n_bits: int) -> None:
    bits = clustered_bits(np.random.default_rng(n_bits), 13, n_bits)
    codes = la.Codes.pack(bits)
    assert (len(codes), codes.n_bits) == (13, n_bits)
    for same in (bits, bits.astype(bool), 2 * bits.astype(np.int8) - 1, bits.astype(np.float32)):
        np.testing.assert_array_equal(la.Codes.pack(same).unpack(), bits)
    again = la.Codes.from_bytes(codes.to_bytes(), n_bits=n_bits)
    np.testing.assert_array_equal(again.unpack(), bits)
    # The layout of faiss: bit i of a code is bit i % 8, counted from the lowest, of byte i // 8.
    np.testing.assert_array_equal(codes.to_bytes(), np.packbits(bits, axis=1, bitorder="little"))
    mask = np.arange(13) % 3 == 0
    np.testing.assert_array_equal(codes[mask].unpack(), bits[mask])


@pytest.mark.parametrize("n_bits", [1, 8, 12, 64, 65, 200])
def test_shards_of_codes_add_up_with_what_lgap_needs(n_bits: int) -> None:
    """The items of one code are dealt to several shards, so the largest count of the whole is in no shard."""
    rng = np.random.default_rng(n_bits)
    queries, gallery = clustered_bits(rng, 7, n_bits), clustered_bits(rng, 60, n_bits)
    queries[0] = gallery[0] = gallery[1] = gallery[2] = 0
    q, g = rng.integers(0, 3, 7), rng.integers(0, 3, 60)
    radius, names = min(2, n_bits), [f"LGAP@{r}" for r in range(min(2, n_bits) + 1)]

    def count(rows: Array, method: str) -> Any:
        codes = la.Codes.pack(queries), la.Codes.pack(gallery[rows])
        return la.count(*codes, la.same_label(q, g[rows]), radius=radius, method=method)

    definition = [
        [float(definitions.lgap(query, gallery.tolist(), (g == label).tolist(), radius=r)) for r in range(radius + 1)]
        for query, label in zip(queries.tolist(), q, strict=True)
    ]
    for method in methods_for(n_bits):
        whole = count(np.arange(60), method)
        first, second, third = (count(rows, method) for rows in shards_of(60, n_bits))
        for total in (first + second + third, third + (first + second)):
            np.testing.assert_array_equal(total.counts, whole.counts)
            assert_same_metrics(total, whole, [*METRICS, *names, "P(radius=1)", "FNMR(fmr=0.1)"])
            result = la.evaluate_tally(total, metrics=names)
            found = np.array([result[name].per_query for name in names]).T
            np.testing.assert_allclose(found, definition, rtol=0, atol=1e-12)
    lonely = la.evaluate_tally(count(shards_of(60, n_bits)[0], "auto"), metrics=names)
    assert any((lonely[name].per_query != result[name].per_query).any() for name in names), "the shards are alike"


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"judged"}))
def test_shards_add_up_for_every_relevance_when_grades_differ_per_shard(kind: str) -> None:
    rng = np.random.default_rng(5)
    queries, gallery = clustered_bits(rng, 4, 16), clustered_bits(rng, 30, 16)
    _, grades = KINDS[kind](rng, 4, 30)
    matrix = np.array(grades, dtype=np.int64)
    low = np.arange(30) < 10
    matrix[:, low] = 0
    whole = la.count(la.Codes.pack(queries), la.Codes.pack(gallery), la.grades(matrix))
    parts = [
        la.count(la.Codes.pack(queries), la.Codes.pack(gallery[rows]), la.grades(matrix[:, rows]))
        for rows in (low, ~low)
    ]
    for total in (parts[0] + parts[1], parts[1] + parts[0]):
        assert_counts(total.counts, whole.counts)
        assert_same_metrics(total, whole, METRICS)


def test_shards_with_judged_pairs_add_up_or_say_that_they_cannot() -> None:
    """A judged item is missing from the one shard because it is in the other: it must not count twice."""
    rng = np.random.default_rng(3)
    queries, gallery = clustered_bits(rng, 4, 16), clustered_bits(rng, 30, 16)
    relevance, _ = judged_kind(rng, 4, 30)
    names = ids_of(4, 30)
    tallies = []
    for rows in (slice(0, 30), slice(0, 12), slice(12, 30)):
        ids = {"query_ids": names["query_ids"], "gallery_ids": names["gallery_ids"][rows]}
        tallies.append(la.count(la.Codes.pack(queries), la.Codes.pack(gallery[rows]), relevance, **ids))
    whole, first, second = tallies
    try:
        total = first + second
    except ValueError:
        return
    assert_counts(total.counts, whole.counts)
    assert_same_metrics(total, whole, ["AP", "R@5", "nDCG"])


def test_sums_that_lack_what_they_need_are_errors() -> None:
    bits = clustered_bits(np.random.default_rng(0), 12, 16)
    codes, relevance = la.Codes.pack(bits), la.same_label(range(12), range(12))
    with_codes = la.count(codes, codes, relevance, radius=2)
    smaller = la.count(codes, codes, relevance, radius=1)
    without = la.count(codes, codes, relevance)
    assert la.evaluate_tally(with_codes + with_codes, metrics=["LGAP@2"])["LGAP@2"].mean > 0
    assert la.evaluate_tally(without + without, metrics=["AP"])["AP"].mean > 0
    for one, other in ((with_codes, without), (without, with_codes), (without, without), (with_codes, smaller)):
        with pytest.raises(ValueError, match=r"radius|LGAP|code"):
            la.evaluate_tally(one + other, metrics=["LGAP@2"])
    with pytest.raises(ValueError, match=r"radius|LGAP"):
        la.evaluate_tally(without, metrics=["LGAP@2"])
    with pytest.raises(ValueError, match=r"radius|LGAP"):
        la.evaluate_tally(smaller, metrics=["LGAP@2"])
    fewer = la.count(codes[np.arange(12) < 5], codes, la.same_label(range(5), range(12)))
    with pytest.raises(ValueError, match="quer"):
        without + fewer
    wider = la.Codes.pack(np.hstack([bits, bits]))
    with pytest.raises(ValueError, match="bits"):
        without + la.count(wider, wider, relevance)


def test_sums_of_scores_need_the_scores() -> None:
    rng = np.random.default_rng(1)
    queries, gallery = (rng.integers(-2, 3, (n, 4)).astype(np.float32) for n in (3, 20))
    relevance = la.same_label([0, 1, 2], [0, 1] * 10)
    kept = la.count(queries, gallery, relevance, similarity="dot")
    dropped = la.count(queries, gallery, relevance, similarity="dot", scores=False)
    assert_same_metrics(kept, dropped, METRICS)
    for one, other in ((kept, dropped), (dropped, kept), (dropped, dropped)):
        with pytest.raises(ValueError, match="score"):
            one + other
    codes = la.Codes.pack(queries > 0), la.Codes.pack(gallery > 0)
    with pytest.raises(ValueError, match=r"score|distance|code"):
        kept + la.count(*codes, relevance)


def test_a_saved_tally_comes_back_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    bits, vectors = clustered_bits(rng, 30, 20), rng.integers(-2, 3, (30, 4)).astype(np.float32)
    relevance = la.same_label(np.arange(30) % 4, np.arange(30) % 4)
    ids = {"query_ids": list(range(30)), "gallery_ids": list(range(30))}
    pairs = la.judged([(q, i, (q + i) % 3) for q in range(30) for i in range(0, 45, 2)])
    codes = la.Codes.pack(bits)
    tallies = {
        "codes": la.count(codes, codes, relevance, radius=2, exclude="self", **ids),
        "scores": la.count(vectors, vectors, relevance, similarity="dot"),
        "judged": la.count(codes, codes, pairs, **ids),
    }
    for name, tally in tallies.items():
        tally.save(tmp_path / f"{name}.npz")
        loaded = la.Tally.load(tmp_path / f"{name}.npz")
        assert loaded.method == tally.method
        assert_counts(loaded.counts, tally.counts)
        np.testing.assert_array_equal(loaded.unjudged, tally.unjudged)
        lgap = ["LGAP@2"] if name == "codes" else []
        assert_same_metrics(loaded, tally, METRICS + lgap)
        if name != "judged":
            assert_same_metrics(loaded + tally, tally + loaded, METRICS + lgap)
            assert_same_metrics(loaded + tally, tally + tally, METRICS + lgap)
