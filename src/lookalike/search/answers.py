"""The recall of somebody else's search: which of its answers are as near to the query as the exact k-th nearest."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookalike.core.checks import equal_lengths, whole_number
from lookalike.core.codes import Codes, as_numpy
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.figures import shown
from lookalike.core.ids import id_array
from lookalike.core.threads import n_threads
from lookalike.search.index import checked_ids
from lookalike.search.measured_recall import recall
from lookalike.search.spaces import CodeSpace, EmbeddingSpace, space_of

BLOCK = 1024  # queries whose answers are compared at once
ROUNDING = 1e-4  # of the scale of the distances: what single precision may lose in sums over many numbers

logger = logging.getLogger("lookalike")

__all__ = ["AnswerRecall", "recall_of"]


@dataclass(frozen=True, eq=False)
class AnswerRecall:
    """How many of the k nearest a search found, by distance and by id.

    per_query: (n_queries,), answers as near as the exact k-th nearest, over k. naive_per_query: (n_queries,), answers
    that one exact search gave too, over k, which punishes a search that took another of several tied items.
    notes: what was assumed, and what looks like a mistake, in sentences; they were logged too.
    """

    k: int
    per_query: np.ndarray
    naive_per_query: np.ndarray
    notes: list[str] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """The recall, averaged over queries."""
        return float(self.per_query.mean())

    @property
    def naive(self) -> float:
        """The recall by comparing ids, averaged over queries."""
        return float(self.naive_per_query.mean())

    def __str__(self) -> str:
        line = f"recall@{self.k} {shown(self.mean)} of {len(self.per_query):,} queries"
        return "\n".join([f"{line} (comparing ids: {shown(self.naive)})", *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__


def recall_of(
    answers: Any,
    queries: Any,
    gallery: Any,
    k: int,
    *,
    similarity: str | None = None,
    gallery_ids: Any = None,
    own: Any = None,
    threads: int | None = None,
) -> AnswerRecall:
    """The recall of somebody else's search: the share of its first k answers that are as near as the exact k-th item.

    answers: ids, (n_queries, at least k), the nearest first: positions in the gallery, or of `gallery_ids`. -1 marks no
    answer ("" among ids that are text). Or a pair of ids and distances, as a search of faiss gives it, in any order.
    queries, gallery: Codes, or embeddings compared by `similarity`: "cosine" (the default), "dot" or "euclidean"; they
    must be all that was searched, exactly compared here. An item that ties with the k-th nearest counts; an id that is
    answered twice counts once. Distances are only looked at to see whether they are the exact ones.
    own: (n_queries,), the position of the query itself in the gallery, which does not rank; -1 where it is not there.

    >>> gallery = Codes.pack([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]])
    >>> recall_of([[0, 2]], Codes.pack([[0, 0, 0]]), gallery, k=2)      # 1 and 2 are equally near
    recall@2 1.0000 of 1 queries (comparing ids: 0.5000)
    """
    k = whole_number("k", k)
    space, checked = _space(queries, gallery, similarity)
    n_ranked = len(space) - (own is not None)
    if k > n_ranked:
        raise InputError(f"k must be at most the number of items, {n_ranked:,}, got {k:,}", parameter="k", value=k)
    own = _own(own, len(checked), len(space))
    ids, distances = _split(answers)
    _check_shape("answers", ids, len(checked), k)
    items = _positions(ids[:, :k], gallery_ids, len(space))
    again = _repeated(items)
    per_query, naive, found = np.empty(len(items)), np.empty(len(items)), np.empty(items.shape)
    for start in range(0, len(items), BLOCK):
        block = slice(start, start + BLOCK)
        counts = (items[block] >= 0) & ~again[block] & (items[block] != own[block, None])
        nearest, exact = _nearest(space, checked[block], k, own[block], n_threads(threads))
        found[block] = space.distances(checked[block], np.maximum(items[block], 0))
        per_query[block] = recall(np.where(counts, found[block], space.sign * np.inf), exact, space.sign)
        row = np.arange(len(nearest))[:, None] * len(space)
        naive[block] = (counts & np.isin(row + items[block], row + nearest)).mean(axis=1)
    notes = _notes_of_answers(items, again)
    if distances is not None:
        _check_shape("distances", distances, len(checked), k)
        notes += _notes_of_distances(distances[:, :k], found, items, space, checked)
    for note in notes:
        logger.warning("%s", note)
    return AnswerRecall(k, per_query, naive, notes)


def _nearest(space: Any, queries: Any, k: int, own: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest items without the query itself, and their distances."""
    if (own < 0).all():
        return space.exact(queries, k, threads)
    items, distances = space.exact(queries, k + 1, threads)
    leaves = items == own[:, None]
    leaves[~leaves.any(axis=1), -1] = True  # a query that is not among the first k + 1 takes no place of theirs
    return items[~leaves].reshape(-1, k), distances[~leaves].reshape(-1, k)


# What is given


def _own(own: Any, n_queries: int, n: int) -> np.ndarray:
    """The position of each query in the gallery, -1 for none."""
    if own is None:
        return np.full(n_queries, -1)
    positions = as_numpy(own)
    if positions.dtype.kind not in "iu":
        raise InputTypeError(f"own must be positions in the gallery, got {positions.dtype}")
    equal_lengths({"queries": n_queries, "positions in own": len(positions)})
    if ((positions < -1) | (positions >= n)).any():
        raise InputError(f"own must be positions from 0 to {n - 1:,}, or -1, got {positions.max()}")
    return positions


def _space(queries: Any, gallery: Any, similarity: str | None) -> tuple[Any, Any]:
    """What is searched, and the queries as it compares them."""
    if isinstance(queries, Codes) != isinstance(gallery, Codes):
        raise InputTypeError("queries and gallery must both be Codes or both embeddings")
    if isinstance(gallery, Codes) and similarity is not None:
        raise InputError("codes are compared by Hamming distance: ", Option("similarity", similarity), " is for others")
    space = space_of(gallery, similarity or "cosine")
    checked = space.checked(queries)
    if not len(checked):
        raise InputError("there are no queries")
    return space, checked


def _split(answers: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Ids and distances of answers that are ids, or a pair of both in any order; distances are None if not given.

    Distances are not whole numbers, or whole numbers of 32 bits beside ids of 64, as faiss has it for codes.
    """
    if not (isinstance(answers, tuple) and len(answers) == 2 and all(np.ndim(part) == 2 for part in answers)):
        return _as_ids(as_numpy(answers)), None
    first, second = (as_numpy(part) for part in answers)
    if first.dtype.kind == "f" or (first.dtype == np.int32 and second.dtype == np.int64):
        first, second = second, first
    if second.dtype.kind not in "iuf":
        raise InputTypeError(f"answers must be ids, or ids and distances, got {first.dtype} and {second.dtype}")
    return _as_ids(first), second


def _as_ids(array: np.ndarray) -> np.ndarray:
    """Ids as whole numbers of 64 bits or text."""
    if array.dtype.kind in "iu":
        return array.astype(np.int64)  # the largest of unsigned ones, which marks no answer too, becomes -1
    if array.dtype.kind not in "UO":
        raise InputTypeError(f"answers must be ids of items, whole numbers or text, got {array.dtype}")
    return id_array(array.ravel(), "answers").reshape(array.shape)


def _check_shape(what: str, array: np.ndarray, n_queries: int, k: int) -> None:
    if array.ndim != 2:
        raise InputError(f"{what} must have a row for each query and {k} columns, got shape {array.shape}")
    equal_lengths({"queries": n_queries, f"rows of {what}": len(array)})
    if k > array.shape[1]:
        raise InputError(
            f"k must be at most the number of {what} of each query, {array.shape[1]}, got {k}", parameter="k", value=k
        )


def _positions(ids: np.ndarray, gallery_ids: Any, n: int) -> np.ndarray:
    """The positions of ids in the gallery, -1 where there is no answer."""
    if gallery_ids is None:
        if ids.dtype.kind == "U":
            raise InputError("answers are text: pass gallery_ids, which say the name of each item")
        known = (ids >= -1) & (ids < n)
        positions, where = ids, f"the gallery has items 0 to {n - 1:,}; if ids are names, pass gallery_ids"
    else:
        named = checked_ids(gallery_ids, n, "gallery_ids")
        nothing = "" if named.dtype.kind == "U" else -1
        if named.dtype.kind != ids.dtype.kind:
            kinds = {"U": "text", "i": "whole numbers"}
            raise InputTypeError(
                f"answers are {kinds[ids.dtype.kind]}, gallery_ids are {kinds[named.dtype.kind]}: give both as one kind"
            )
        if (named == nothing).any():
            raise InputError(f"gallery_ids must not hold {nothing!r}, which marks that there is no answer")
        order = np.argsort(named)
        place = order[np.minimum(np.searchsorted(named, ids, sorter=order), n - 1)]
        positions = np.where(ids == nothing, -1, place)
        known, where = (ids == nothing) | (named[place] == ids), "gallery_ids do not hold it"
    if not known.all():
        row, column = np.argwhere(~known)[0]
        raise InputError(f"answers hold {ids[row, column].item()!r} for query {row}, but {where}")
    return positions


def _repeated(items: np.ndarray) -> np.ndarray:
    """Which answers repeat an earlier one of the same query, (n, k) of bool."""
    order = np.argsort(items, axis=1, kind="stable")
    ordered = np.take_along_axis(items, order, axis=1)
    again = np.zeros(items.shape, bool)
    np.put_along_axis(again, order[:, 1:], (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0), axis=1)
    return again


# Notes


def _notes_of_answers(items: np.ndarray, again: np.ndarray) -> list[str]:
    notes = []
    if n := int(again.any(axis=1).sum()):
        notes.append(f"{n:,} of {len(items):,} queries have an item twice among their answers: it counts once")
    if n := int((items < 0).any(axis=1).sum()):
        notes.append(f"{n:,} of {len(items):,} queries have fewer than {items.shape[1]} answers: the rest is not found")
    return notes


def _notes_of_distances(
    given: np.ndarray, exact: np.ndarray, items: np.ndarray, space: CodeSpace | EmbeddingSpace, queries: Any
) -> list[str]:
    """Whether distances differ from the exact ones by more than rounding, in whatever form they are given."""
    there = items >= 0
    allowed = (ROUNDING * _scale(space, queries, np.maximum(items, 0)))[there]
    given, exact = given[there].astype(float), exact[there]
    apart = [np.abs(form(given) - exact) for form in _forms(space)]
    wrong = [~(differences <= allowed) for differences in apart]  # nan is wrong too
    best = int(np.argmin([rows.sum() for rows in wrong]))
    if not wrong[best].any():
        return []
    largest = shown(float(np.nanmax(apart[best], initial=0)))
    n_wrong = int(wrong[best].sum())
    why = "the search compresses its vectors, has another similarity, or searched other vectors"
    return [f"{n_wrong:,} of {len(given):,} distances are not the exact ones, but up to {largest} away: {why}"]


def _forms(space: CodeSpace | EmbeddingSpace) -> list[Callable[[np.ndarray], np.ndarray]]:
    """How the distances of other libraries become the scores of ours."""
    if isinstance(space, CodeSpace):
        n_bits = space.items.n_bits
        return [lambda bits: bits, lambda share: share * n_bits]
    if space.similarity == "euclidean":  # a score is the squared distance below zero
        return [lambda squared: -squared, lambda distance: -(distance**2), lambda score: score]
    product: list[Callable[[np.ndarray], np.ndarray]] = [lambda s: s, lambda s: 1 - s, lambda s: -s]
    if space.similarity == "cosine":  # of vectors of length 1, the squared euclidean distance is 2 - 2 cos
        product += [lambda squared: 1 - squared / 2, lambda distance: 1 - distance**2 / 2]
    return product


def _scale(space: CodeSpace | EmbeddingSpace, queries: Any, items: np.ndarray) -> np.ndarray:
    """How large the numbers are that a score is the sum of, (n, k): what rounding is relative to."""
    if isinstance(space, CodeSpace) or space.similarity == "cosine":
        return np.ones(items.shape)
    lengths, of_items = (np.sqrt(np.einsum("ij,ij->i", x, x, dtype=float)) for x in (queries, space.items))
    if space.similarity == "dot":
        return np.asarray(lengths[:, None] * of_items[items] + np.finfo(float).tiny)
    return np.asarray((lengths[:, None] + of_items[items]) ** 2 + np.finfo(float).tiny)
