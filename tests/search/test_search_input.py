"""An index says whether it is stale, and what is wrong with what it is given."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.searching import CODES, VECTORS, clustered, many_codes, same
from lookalike.search.index import Index


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
