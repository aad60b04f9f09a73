"""Items to search, and the true nearest ones by sorting everything."""

from __future__ import annotations

import functools

import numpy as np

import lookalike as la
from lookalike.core.embeddings import Embeddings
from lookalike.search.index import Neighbours

CODES, VECTORS = la.Codes.pack(np.eye(8)), np.eye(4, dtype=np.float32) + 1


def brute_codes(queries: la.Codes, items: la.Codes, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest items of each query and their distances, by sorting all."""
    every = np.array([(items.unpack() != row).sum(axis=1) for row in queries.unpack()]).reshape(
        len(queries), len(items)
    )
    order = np.argsort(every, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(every, order, axis=1)


def brute_scores(queries: np.ndarray, items: np.ndarray, similarity: str) -> np.ndarray:
    """Scores of all pairs in float64; exact if rows are whole numbers."""
    left, right = queries.astype(np.float64), items.astype(np.float64)
    if similarity == "euclidean":
        return -((left[:, None] - right[None]) ** 2).sum(axis=2)
    products = left @ right.T
    if similarity == "dot":
        return products
    return products / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)


def clustered(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Items around thirty centres."""
    centres = rng.standard_normal((30, d))
    return (centres[rng.integers(30, size=n)] + 0.4 * rng.standard_normal((n, d))).astype(np.float32)


@functools.cache
def many_codes(n: int, n_bits: int = 64, seed: int = 0) -> la.Codes:
    """Codes of clustered items."""
    rng = np.random.default_rng(seed)
    return la.hashers.LSH(n_bits, random_state=0).fit(clustered(rng, 100, 24)).transform(clustered(rng, n, 24))


def same(one: Neighbours, other: Neighbours) -> bool:
    """Whether two searches found the same items at the same distances."""
    return np.array_equal(one.items, other.items) and np.array_equal(one.distances, other.distances, equal_nan=True)


def evaluated_scores(queries: np.ndarray, items: np.ndarray, similarity: str) -> np.ndarray:
    """Scores of all pairs as `la.evaluate` has them."""
    scores = Embeddings(queries, items, similarity)
    rows = scores.rows(slice(0, len(queries))).copy()
    return rows if scores.query_lengths is None else rows / scores.query_lengths[:, None]
