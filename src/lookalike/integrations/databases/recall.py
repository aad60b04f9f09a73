"""The recall of somebody else's search: by how near its items are, and naively by their ids."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.embeddings import Embeddings

BLOCK = 1 << 24  # scores at a time

__all__ = ["recall_by_id", "tie_aware_recall"]


def tie_aware_recall(
    answer_positions: np.ndarray,
    queries: Any,
    gallery: Any,
    k: int,
    similarity: str | None,
    *,
    excluded: np.ndarray | None = None,
) -> np.ndarray:
    """The share of each query's k answers that are as near as its exact k-th nearest item, or nearer, (n_queries,).

    Distances are our own exact ones, of the items that were answered: how the engine rounds does not matter.
    answer_positions: (n_queries, k), places in the gallery; -1 where fewer were answered. An item counts once.
    similarity: of embeddings; None for codes. excluded: the item that does not rank for each query, -1 for none.

    >>> gallery = np.array([[1.0], [2.0], [2.0], [5.0]])
    >>> answers = np.array([[0, 2], [0, 3]])        # for the first query, item 2 is as near as item 1
    >>> tie_aware_recall(answers, np.array([[1.0], [1.0]]), gallery, 2, "euclidean")
    array([1. , 0.5])
    """
    recalls = np.ones(len(queries))
    for query, scores in _scores(queries, gallery, similarity, excluded):
        n = min(k, int(np.count_nonzero(scores > -np.inf)))
        answers = np.unique(answer_positions[query])
        if n:
            kth = np.partition(scores, -n)[-n]
            recalls[query] = np.count_nonzero(scores[answers[answers >= 0]] >= kth) / n
    return recalls


def recall_by_id(
    answer_positions: np.ndarray,
    queries: Any,
    gallery: Any,
    k: int,
    similarity: str | None,
    *,
    excluded: np.ndarray | None = None,
) -> np.ndarray:
    """The share of each query's exact k nearest items that were answered, (n_queries,), as scripts count it.

    Of items at one distance, those that stand first in the gallery are taken: an engine that answers others of them is
    blamed for it. Arguments as of `tie_aware_recall`.

    >>> gallery = np.array([[1.0], [2.0], [2.0], [5.0]])
    >>> recall_by_id(np.array([[0, 2]]), np.array([[1.0]]), gallery, 2, "euclidean")
    array([0.5])
    """
    recalls = np.ones(len(queries))
    for query, scores in _scores(queries, gallery, similarity, excluded):
        n = min(k, int(np.count_nonzero(scores > -np.inf)))
        if n:
            exact = np.argsort(-scores, kind="stable")[:n]
            recalls[query] = len(np.intersect1d(exact, answer_positions[query])) / n
    return recalls


def _scores(
    queries: Any, gallery: Any, similarity: str | None, excluded: np.ndarray | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Each query's exact scores of the whole gallery, higher is nearer; -inf of the item that does not rank."""
    of_codes = isinstance(queries, Codes)
    every = _code_scores(queries, gallery) if of_codes else _embedding_scores(queries, gallery, similarity or "cosine")
    for query, scores in enumerate(every):
        if excluded is not None and excluded[query] >= 0:
            scores[excluded[query]] = -np.inf
        yield query, scores


def _code_scores(queries: Codes, gallery: Codes) -> Iterator[np.ndarray]:
    for words in queries.words:
        yield -np.bitwise_count(gallery.words ^ words).sum(axis=1, dtype=np.int64).astype(float)


def _embedding_scores(queries: Any, gallery: Any, similarity: str) -> Iterator[np.ndarray]:
    scores = Embeddings(queries, gallery, similarity)
    size = max(1, BLOCK // max(1, scores.n_gallery))
    for start in range(0, scores.n_queries, size):
        yield from scores.rows(slice(start, start + size))
