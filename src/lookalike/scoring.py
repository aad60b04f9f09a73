"""Counting the tally of float scores: embeddings, score matrices and run files.

A query's row of scores is sorted, and the items that are not of the background's grade (the relevant, or the
judged ones) mark it: other items are counted around them, so that a tally is a few groups, not one for each item.
"""

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike._compiled import kernels, product_kernel
from lookalike.codes import as_numpy
from lookalike.relevance import UNJUDGED, Groups, Judged, Relevance, SameLabel, Unranked
from lookalike.tally import Tally, id_array, stack_ragged

SIMILARITIES = ("cosine", "dot", "euclidean")
METHODS = ("auto", "around", "plain")

__all__ = [
    "METHODS",
    "SIMILARITIES",
    "Embeddings",
    "ScoreCounter",
    "Scores",
    "as_floats",
    "background_runs",
    "count_run",
    "groups_of",
]


class Scores:
    """Scores that the user brought, higher is better."""

    similarity = None
    query_lengths = None

    def __init__(self, matrix: Any) -> None:
        self.matrix = as_floats(matrix, "scores")
        if np.isnan(self.matrix).any():
            row, column = np.argwhere(np.isnan(self.matrix))[0]
            raise ValueError(f"scores hold nan, first in row {row}, column {column}")
        self.n_queries, self.n_gallery = self.matrix.shape

    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with the whole gallery, for the caller to change."""
        return self.matrix[block].copy()


class Embeddings:
    """Scores of embeddings, computed a block of queries at a time, bit for bit the same however they are divided."""

    def __init__(self, queries: Any, gallery: Any, similarity: str) -> None:
        if similarity not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {', '.join(map(repr, SIMILARITIES))}, got {similarity!r}")
        left, right = as_floats(queries, "query embeddings"), as_floats(gallery, "gallery embeddings")
        self.similarity = similarity
        self.n_gallery, self._n_columns = right.shape
        # differences of float32 are exact in float64, but for those of numbers of very different size
        self._dtype = np.dtype(np.float64) if similarity == "euclidean" else np.result_type(left, right)
        self._ask(left)
        self._lay_out(right)

    def with_queries(self, queries: Any) -> "Embeddings":
        """The same gallery, which is laid out already, with other queries; they must not be wider floats.

        >>> gallery = np.array([[3.0, 4.0], [1.0, 0.0]])
        >>> Embeddings(gallery, gallery, "dot").with_queries([[1.0, 1.0]]).rows(slice(0, 1))
        array([[7., 1.]])
        """
        left = as_floats(queries, "query embeddings")
        if np.result_type(left, self._dtype) != self._dtype:
            raise ValueError(f"the gallery is laid out as {self._dtype}, queries are {left.dtype}: round them first")
        other = copy.copy(self)
        other._ask(left)
        return other

    def _ask(self, queries: np.ndarray) -> None:
        """Take these queries."""
        if queries.shape[1] != self._n_columns:
            raise ValueError(
                f"gallery embeddings have {self._n_columns} columns, queries have {queries.shape[1]}: "
                "compute both with the same model"
            )
        if self._n_columns == 0:
            raise ValueError("embeddings have no column: there is nothing to compare")
        self.n_queries = len(queries)
        # query_lengths: where scores are cosines times a number for each query, that number
        self._queries, self._query_scales, self.query_lengths = self._scaled(queries, "query")
        self._buffers = threading.local()

    def _lay_out(self, gallery: np.ndarray) -> None:
        """Take this gallery."""
        rows, scales, self._lengths = self._scaled(gallery, "gallery")
        self._factors: np.ndarray | None = None
        if self._lengths is not None:
            self._factors, self._lengths = _factored(rows, self._lengths)
        self._gallery = _panels(rows, scales, product_kernel().panel_width(self._dtype))

    def _scaled(self, rows: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Rows to compare, a power of two to multiply each by, and, where cosines are asked for, their lengths then."""
        rows = np.ascontiguousarray(rows, self._dtype)
        if self.similarity == "cosine":
            return _directions(rows, what)
        ones = np.ones(len(rows), rows.dtype)
        squares = _squares(rows, ones)
        _check_finite(rows, squares, what)
        _check_range(rows, squares, what)
        return rows, ones, None

    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with the whole gallery, for the caller to change, until the thread's next call.

        Dot products, squared distances below zero, or cosines times `query_lengths`.
        """
        queries = _panels(self._queries[block], self._query_scales[block], product_kernel().ROWS)
        shape = (len(queries) * queries.shape[2], len(self._gallery) * self._gallery.shape[2])
        # One buffer a thread, used again for the next block: fresh memory costs half as much as the product.
        out = getattr(self._buffers, "out", None)
        if out is None or out.shape != shape:
            out = self._buffers.out = np.empty(shape, self._queries.dtype)
        score = product_kernel().distances if self.similarity == "euclidean" else product_kernel().product
        score(queries, self._gallery, out)
        out = out[: len(self._queries[block]), : self.n_gallery]
        if self._factors is not None:
            out /= self._factors
        if self._lengths is not None:
            out /= self._lengths
        return out


@dataclass
class ScoreCounter:
    """Counts blocks of queries by their scores with the whole gallery."""

    scores: Scores | Embeddings
    relevance: Relevance
    query_ids: np.ndarray
    excluded: Groups | None
    method: str
    keep_scores: bool = False  # every group with its score, so that tallies of shards add up
    keep_marks: bool = False  # the scores of groups that hold an item not of the background's grade

    def __post_init__(self) -> None:
        if self.method == "auto":
            self.method = "around"

    @property
    def block_rows(self) -> int:
        """Queries to score at a time: enough to keep the processor busy, few enough to take half a gigabyte at most."""
        # Where grades have no background, every item may become a group of its own.
        sparse = isinstance(self.relevance, SameLabel | Judged) and not self.keep_scores
        per_query = self.scores.n_gallery * (12 if sparse else 8 * (self.relevance.max_grade + 4))
        return min(96, max(6, (1 << 29) // per_query // 6 * 6))

    def __call__(self, block: slice) -> Tally:
        """The tally of the queries in a slice."""
        block = slice(*block.indices(self.scores.n_queries))
        rows = self.scores.rows(block)
        scores, by_grade = self._plain(rows, block) if self.method == "plain" else self._around(rows, block)
        return Tally(
            query_ids=self.query_ids[block],
            counts=np.moveaxis(by_grade[:-1], 0, 2),
            unjudged=by_grade[-1],
            scores=scores if self.keep_scores or self.keep_marks else None,
            method=self.method,
            similarity=self.scores.similarity,
            lengths=None if self.scores.query_lengths is None else self.scores.query_lengths[block],
            complete=self.keep_scores,
            unranked=self.relevance.unranked_of(block),
        )

    def _around(self, rows: np.ndarray, block: slice) -> tuple[np.ndarray, np.ndarray]:
        """Scores of each query's groups, (queries, groups), and counts, (grades and the unjudged, queries, groups)."""
        marks = [self._marks(row, query) for row, query in zip(rows, range(block.start, block.stop), strict=True)]
        most = rows.shape[1] if self.keep_scores else min(rows.shape[1], 1 + 2 * max(len(mark[0]) for mark in marks))
        rows.sort(axis=1)  # all rows at once: numpy sorts with vector instructions
        scores = np.full((len(rows), most if self.keep_scores or self.keep_marks else 0), np.nan)
        by_grade = np.zeros((self.relevance.max_grade + 2, len(rows), most), np.int64)
        background = self.relevance.background % len(by_grade)
        n_groups = [
            kernels().around(rows[i], *mark, self.keep_scores, background, scores[i], by_grade[:, i])
            for i, mark in enumerate(marks)
        ]
        widest = max(n_groups)
        return scores[:, :widest], by_grade[:, :, :widest]

    def _marks(self, row: np.ndarray, query: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores of the items not of the background's grade, rising within each grade; where grades start; excluded."""
        items, grades = self.relevance.special(query)
        excluded = np.zeros(0, row.dtype)
        if self.excluded is not None:
            left_out = self.excluded.items(query)
            excluded = np.sort(row[left_out])
            ranks = np.ones(len(row), bool)
            ranks[left_out] = False
            items, grades = items[ranks[items]], grades[ranks[items]]
        sizes = np.bincount(grades, minlength=self.relevance.max_grade + 1)
        by_grade = [
            np.sort(row[items if size == len(items) else items[grades == v]]) for v, size in enumerate(sizes) if size
        ]
        marks = np.concatenate([np.zeros(0, row.dtype), *by_grade])
        return marks, np.concatenate([[0], np.cumsum(sizes)]), excluded

    def _plain(self, rows: np.ndarray, block: slice) -> tuple[np.ndarray, np.ndarray]:
        """As `_around`, in the obvious way: every score a group, then neighbours of background items merged."""
        found = []
        for row, query in zip(rows, range(block.start, block.stop), strict=True):
            grades = self.relevance.block(slice(query, query + 1), slice(0, len(row)))[0]
            ranks = np.ones(len(row), bool)
            if self.excluded is not None:
                ranks[self.excluded.items(query)] = False
            scores, counts = groups_of(row[ranks], grades[ranks], self.relevance.max_grade + 2)
            if not self.keep_scores and len(scores):
                plain, starts = background_runs(counts, self.relevance.background)
                scores = np.where(plain, np.nan, scores)[starts] if self.keep_marks else scores[:0]
                counts = np.add.reduceat(counts, starts, axis=0)
            found.append((scores, counts))
        return _stacked(found)


def count_run(run: Mapping[Any, Mapping[Any, float]], relevance: Judged) -> Tally:
    """The tally of a run, {query_id: {item_id: score}}: only what it ranks has a place, all that is judged counts."""
    query_ids = list(relevance.judgements)
    found, missing = [], []
    for i, query in enumerate(query_ids):
        ranked, judged = run.get(query, {}), relevance.judgements[query]
        values = np.array(list(ranked.values()), float)
        if np.isnan(values).any():
            raise ValueError(f"the run gives query {query!r} a score that is not a number")
        grades = np.array([judged.get(item, UNJUDGED) for item in ranked], np.int64)
        found.append(groups_of(values, grades, relevance.max_grade + 2))
        missing += [(i, item, grade) for item, grade in judged.items() if item not in ranked]
    scores, by_grade = _stacked(found)
    return Tally(
        query_ids=id_array(query_ids, "queries of a run"),
        counts=np.moveaxis(by_grade[:-1], 0, 2),
        unjudged=by_grade[-1],
        scores=scores,
        method="run",
        unranked=Unranked.of(missing),
    )


def background_runs(counts: np.ndarray, background: int) -> tuple[np.ndarray, np.ndarray]:
    """Which groups, (n, columns), hold only items of the background's grade; where groups start if neighbours merge."""
    plain = np.delete(counts, background, axis=1).sum(1) == 0
    return plain, np.flatnonzero(~(plain & np.concatenate([[False], plain[:-1]])))


def groups_of(scores: np.ndarray, grades: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct scores, the highest first, and how many items of each grade (last: unjudged) have them."""
    distinct, place = np.unique(scores, return_inverse=True)
    counts = np.zeros((len(distinct), n_columns), np.int64)
    np.add.at(counts, (place, grades), 1)
    return distinct[::-1], counts[::-1]


def _stacked(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    scores, counts = (
        stack_ragged(list(part), filler) for part, filler in zip(zip(*found, strict=True), (np.nan, 0), strict=True)
    )
    return scores.astype(float), np.ascontiguousarray(np.moveaxis(counts, 2, 0))


def as_floats(values: Any, what: str) -> np.ndarray:
    """A matrix of float32 or float64."""
    values = as_numpy(values)
    if values.ndim != 2:
        raise ValueError(f"{what} must be a matrix, got shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{what} must be numbers, got {values.dtype}")
    if values.dtype.kind in "iu" and values.size and max(int(values.max()), -int(values.min())) > 1 << 53:
        raise ValueError(f"{what} are whole numbers beyond 2^53, which floats cannot tell apart")
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if small else np.float64, copy=False)


def _squares(rows: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Squared length of each row times its scale."""
    out = np.empty(len(rows), rows.dtype)
    product_kernel().squares(rows, scales, out)
    return out


def _check_finite(rows: np.ndarray, sizes: np.ndarray, what: str) -> None:
    """Raise where a number is not finite; sizes: of the rows, not finite where a number is not."""
    for row in np.flatnonzero(~np.isfinite(sizes)):  # nan, infinity, or a square too large: look closer
        for column in np.flatnonzero(~np.isfinite(rows[row])):
            raise ValueError(f"{what} embeddings hold {rows[row, column]}, first in row {row}, column {column}")


def _check_range(rows: np.ndarray, squares: np.ndarray, what: str) -> None:
    """Raise where a product or squared distance of two rows could pass the largest or smallest number of its type."""
    # |q - g|² ≤ (|q| + |g|)² ≤ 4 times the larger square
    too_large = squares > np.finfo(squares.dtype).max / 8
    if too_large.any():
        raise ValueError(f"{what} embedding in row {too_large.argmax()} is too large for {squares.dtype}: scale them")
    limits = np.finfo(squares.dtype)
    for row in np.flatnonzero(squares < limits.tiny / limits.eps):
        if rows[row].any():  # products of such rows have lost their digits; rows of zeros have none to lose
            raise ValueError(f"{what} embedding in row {row} is too small for {squares.dtype}: scale them")


def _directions(rows: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that only say where they point, a power of two for each that brings its length near 1, and that length.

    A row and its positive multiples, unless these lost digits, become the same: a number is odd · 2^power, and all of a
    row are divided by the largest number that divides every odd one. In real embeddings that is 1.
    """
    kernel, limits = product_kernel(), np.finfo(rows.dtype)
    bits: np.ndarray = rows.view(_whole_type(rows))
    largest, divisors = np.empty(len(rows), bits.dtype), np.empty(len(rows), np.int64)
    kernel.divisors(bits, limits.nmant, largest, divisors)
    largest, by = largest.view(rows.dtype), divisors.astype(rows.dtype)
    _check_finite(rows, largest, what)
    if not largest.all():
        raise ValueError(f"{what} embedding in row {largest.argmin()} is zero: it has no cosine")
    lifts = np.where(largest / by < limits.tiny / limits.eps, limits.eps**-2, 1).astype(rows.dtype)
    if (by != 1).any() or (lifts != 1).any():
        rows = rows.copy()
        kernel.divide(rows, by, lifts)
    # Lengths are those of rows whose largest number is near 1: of longer or shorter rows squares would be rounded
    # differently, or not be floats.
    scales = _near_one(largest / by * lifts)
    lengths = np.sqrt(_squares(rows, scales))
    return rows, scales * _near_one(lengths), lengths * _near_one(lengths)


def _near_one(sizes: np.ndarray) -> np.ndarray:
    """The powers of two that bring these numbers to at least a half and below 1."""
    return np.ldexp(np.ones(len(sizes), sizes.dtype), -np.frexp(sizes)[1])


def _factored(rows: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Lengths as two factors, of which products are divided in turn; None in place of the first where all are 1.

    Of rows of small whole numbers the first is whole, and the second the root of a number without squares: t·√r. Then
    equal cosines are equal floats: where p / (t·√r) = p' / (t'·√r'), r = r', and p / t = p' / t' are rounded alike.
    """
    kernel, limits = product_kernel(), np.finfo(rows.dtype)
    factors, rest = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    limit = min(1 << (limits.nmant + 1), kernel.LARGEST)  # squares below are exact
    kernel.square_factors(rows.view(_whole_type(rows)), limits.nmant, limit, factors, rest)
    many = np.flatnonzero(factors > 1)
    if not len(many):
        return None, lengths
    whole = np.sqrt((factors**2 * rest)[many].astype(rows.dtype))
    lengths[many] = np.sqrt(rest[many].astype(rows.dtype)) * (lengths[many] / whole)  # the ratio is a power of two
    return factors.astype(rows.dtype), lengths


def _whole_type(rows: np.ndarray) -> type:
    """Whole numbers as wide as these floats."""
    return np.int32 if rows.dtype.itemsize == 4 else np.int64


def _panels(rows: np.ndarray, scales: np.ndarray, width: int) -> np.ndarray:
    """Scaled rows in panels of `width`, (panels, columns, width), the last filled up with zeros."""
    out = np.empty((-(-len(rows) // width), rows.shape[1], width), rows.dtype)
    product_kernel().pack(rows, scales, out)
    return out
