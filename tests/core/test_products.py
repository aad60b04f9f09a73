"""Products and distances of all pairs have the same bits whatever the width of the processor's vectors."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from lookalike.core.embeddings import SIMILARITIES, Embeddings, GalleryParts
from lookalike.core.kernels import product_kernel

NARROW = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2,+popcnt,+sse4.2"}


def bits_of_scores() -> str:
    """A fingerprint of scores of many shapes: rows and items on both sides of every step's size."""
    found = hashlib.sha256()
    for n_columns in (1, 3, 64, 101):
        rng = np.random.default_rng(n_columns)
        rows = rng.standard_normal((70, n_columns))
        for dtype in (np.float32, np.float64):
            for similarity in SIMILARITIES:
                for n_queries in (1, 5, 6, 7, 11, 12, 13, 25):
                    for n_items in (1, 7, 8, 15, 16, 17, 31, 32, 33, 65):
                        pair = rows[:n_queries].astype(dtype), rows[-n_items:].astype(dtype)
                        found.update(Embeddings(*pair, similarity).rows(slice(0, n_queries)).tobytes())
    return found.hexdigest()


def test_the_width_of_vectors_changes_no_bit() -> None:
    if not product_kernel().WIDE:
        pytest.skip("this processor has no vectors of 64 bytes")
    code = (
        "from core.test_products import bits_of_scores; from lookalike.core.kernels import product_kernel; "
        "print(product_kernel().BYTES, bits_of_scores())"
    )
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join([tests, *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **NARROW, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["32", bits_of_scores()], done.stderr


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_depends_on_its_two_rows_alone(dtype: type) -> None:
    rng = np.random.default_rng(0)
    queries, gallery = rng.standard_normal((25, 77)).astype(dtype), rng.standard_normal((70, 77)).astype(dtype)
    for similarity in SIMILARITIES:
        whole = Embeddings(queries, gallery, similarity).rows(slice(0, 25))
        for query in (0, 11, 12, 24):
            for item in (0, 15, 16, 31, 32, 64, 69):
                pair = queries[query : query + 1], gallery[item : item + 1]
                alone = Embeddings(*pair, similarity).rows(slice(0, 1))
                assert alone[0, 0].tobytes() == whole[query, item].tobytes()


def test_embeddings_that_share_buffers_overwrite_each_other() -> None:
    """What `buffers` says; without them scores stay."""
    rng = np.random.default_rng(0)
    queries, gallery = rng.standard_normal((3, 8)), rng.standard_normal((9, 8))
    own, shared = Embeddings(queries, gallery, "dot"), threading.local()
    first, second = (own.with_queries(rows, shared) for rows in (queries, queries + 1))
    expected = own.rows(slice(0, 3)).copy()
    scores = first.rows(slice(0, 3))
    assert np.array_equal(scores, expected)
    second.rows(slice(0, 3))
    assert not np.array_equal(scores, expected)
    assert np.array_equal(own.rows(slice(0, 3)), expected)
    assert np.array_equal(first.rows(slice(1, 3)), expected[1:]), "a smaller block in the same buffer"


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gallery_laid_out_in_parts_has_the_same_bits(similarity: str, dtype: type) -> None:
    """Parts that end within a step, that are shorter than one and that are several; put in any order."""
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((13, 7)).astype(dtype)
    for edges in ([], [1], [32], [33, 34, 40], [5, 64, 97], [16, 17, 18, 96]):
        for n_items in (98, 128):
            rows = rng.standard_normal((n_items, 7)).astype(dtype)
            rows[60:90] = rng.integers(1, 5, (30, 7))  # of which the lengths have whole factors
            parts = GalleryParts(n_items, 7, dtype, similarity)
            starts = [0, *edges]
            for start, part in reversed(list(zip(starts, np.split(rows, edges), strict=True))):
                parts.put(start, part)
            one_item = Embeddings(queries, rows[:1], similarity)
            expected = Embeddings(queries, rows, similarity)
            np.testing.assert_array_equal(one_item.with_gallery(parts).rows(slice(0, 13)), expected.rows(slice(0, 13)))
