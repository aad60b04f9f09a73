"""Counting the tally of float scores: embeddings, score matrices and run files.

A query's row of scores is sorted, and the items that are not of the background's grade (the relevant, or the
judged ones) mark it: other items are counted around them, so that a tally is a few groups, not one for each item.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike._compiled import kernels, product_kernel
from lookalike.codes import as_numpy
from lookalike.relevance import UNJUDGED, Groups, Judged, Relevance, Unranked
from lookalike.tally import Tally, stack_ragged

SIMILARITIES = ("cosine", "dot", "euclidean")
METHODS = ("auto", "around", "plain")
BLOCK_ROWS = 96  # queries scored at a time: enough to keep the processor busy, few enough for a long gallery

__all__ = ["BLOCK_ROWS", "METHODS", "SIMILARITIES", "Embeddings", "Scores", "ScoreCounter", "count_run"]


class Scores:
    """Scores that the user brought, higher is better."""

    distance = None

    def __init__(self, matrix: Any) -> None:
        self.matrix = as_floats(matrix, "scores")
        if np.isnan(self.matrix).any():
            row, column = np.argwhere(np.isnan(self.matrix))[0]
            raise ValueError(f"scores hold nan, first in row {row}, column {column}")
        self.n_queries, self.n_gallery = self.matrix.shape

    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with the whole gallery."""
        return self.matrix[block]


class Embeddings:
    """Scores of embeddings, computed a block of queries at a time, bit for bit the same however they are divided."""

    def __init__(self, queries: Any, gallery: Any, similarity: str) -> None:
        if similarity not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {', '.join(map(repr, SIMILARITIES))}, got {similarity!r}")
        left, right = as_floats(queries, "query embeddings"), as_floats(gallery, "gallery embeddings")
        dtype = np.result_type(left, right)
        left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
        if left.shape[1] != right.shape[1]:
            raise ValueError(
                f"gallery embeddings have {right.shape[1]} columns, queries have {left.shape[1]}: "
                "compute both with the same model"
            )
        for rows, what in ((left, "query"), (right, "gallery")):
            _check_finite(rows, what)
        self.distance = "euclidean" if similarity == "euclidean" else None
        self.n_queries, self.n_gallery = len(left), len(right)
        if similarity == "cosine":
            left, right = _unit(left, "query"), _unit(right, "gallery")
        if similarity == "euclidean":
            self._query_squares, self._squares = _squares(left), _squares(right)
        self._queries = left
        self._gallery = _panels(right, product_kernel().panel_width(dtype))

    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with the whole gallery; for euclidean, squared distances below zero."""
        queries = _panels(self._queries[block], product_kernel().ROWS)
        shape = (len(queries) * queries.shape[2], len(self._gallery) * self._gallery.shape[2])
        out = np.empty(shape, self._queries.dtype)
        product_kernel().product(queries, self._gallery, out)
        out = out[: len(self._queries[block]), : self.n_gallery]
        if self.distance == "euclidean":
            out *= 2
            out -= self._squares
            out -= self._query_squares[block, None]
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

    def __post_init__(self) -> None:
        if self.method == "auto":
            self.method = "around"

    def __call__(self, block: slice) -> Tally:
        """The tally of the queries in a slice."""
        block = slice(*block.indices(self.scores.n_queries))
        rows = self.scores.rows(block)
        rising = np.sort(rows, axis=1)  # all rows at once: numpy sorts with vector instructions
        count = self._plain if self.method == "plain" else self._around
        found = [count(row, rising[i], block.start + i) for i, row in enumerate(rows)]
        return _tally_of_groups(
            found,
            query_ids=self.query_ids[block],
            method=self.method,
            distance=self.scores.distance,
            complete=self.keep_scores,
            unranked=self.relevance.unranked_of(block),
        )

    def _around(self, row: np.ndarray, rising: np.ndarray, query: int) -> tuple[np.ndarray, np.ndarray]:
        """One query's groups, best first: their scores, and counts (groups, grades and last the unjudged)."""
        items, grades = self.relevance.special(query)
        left_out = np.zeros(0, np.int64) if self.excluded is None else self.excluded.items(query)
        if len(left_out):
            ranks = ~np.isin(items, left_out)
            items, grades = items[ranks], grades[ranks]
        thresholds = _distinct(rising if self.keep_scores else np.sort(row[items]))
        around = np.zeros(2 * len(thresholds) + 1, np.int64)
        kernels().around(rising, thresholds, around)
        if len(left_out):
            gone = np.zeros_like(around)
            kernels().around(np.sort(row[left_out]), thresholds, gone)
            around -= gone
        n_columns = self.relevance.max_grade + 2
        counts = np.zeros((len(around), n_columns), np.int64)
        places = 2 * np.searchsorted(thresholds, row[items]) + 1
        if self.relevance.max_grade == 1 and self.relevance.background == 0:
            counts[:, 1] = np.bincount(places, minlength=len(around))
        else:
            np.add.at(counts, (places, grades), 1)
        counts[:, self.relevance.background] = around - counts.sum(1) + counts[:, self.relevance.background]
        scores = np.full(len(around), np.nan)
        scores[1::2] = thresholds
        used = np.flatnonzero(around)[::-1]
        return scores[used], counts[used]

    def _plain(self, row: np.ndarray, rising: np.ndarray, query: int) -> tuple[np.ndarray, np.ndarray]:
        """The same in the obvious way: every distinct score a group, then neighbours of background items merged."""
        grades = self.relevance.block(slice(query, query + 1), slice(0, len(row)))[0]
        ranks = np.ones(len(row), bool)
        if self.excluded is not None:
            ranks[self.excluded.items(query)] = False
        scores, place = np.unique(row[ranks], return_inverse=True)
        counts = np.zeros((len(scores), self.relevance.max_grade + 2), np.int64)
        np.add.at(counts, (place, grades[ranks]), 1)
        scores, counts = scores[::-1].astype(float), counts[::-1]
        if self.keep_scores or not len(scores):
            return scores, counts
        plain = np.delete(counts, self.relevance.background, axis=1).sum(1) == 0
        starts = np.flatnonzero(~(plain & np.concatenate([[False], plain[:-1]])))
        return np.where(plain, np.nan, scores)[starts], np.add.reduceat(counts, starts, axis=0)


def count_run(run: Mapping[Any, Mapping[Any, float]], relevance: Judged) -> Tally:
    """The tally of a run, {query_id: {item_id: score}}: only what it ranks has a place, all that is judged counts."""
    query_ids = list(relevance.judgements)
    n_columns = relevance.max_grade + 2
    found, missing = [], []
    for i, query in enumerate(query_ids):
        ranked, judged = run.get(query, {}), relevance.judgements[query]
        values = np.array(list(ranked.values()), float)
        if np.isnan(values).any():
            raise ValueError(f"the run gives query {query!r} a score that is not a number")
        scores, place = np.unique(values, return_inverse=True)
        counts = np.zeros((len(scores), n_columns), np.int64)
        np.add.at(counts, (place, [judged.get(item, UNJUDGED) for item in ranked]), 1)
        found.append((scores[::-1], counts[::-1]))
        missing += [(i, str(item), grade) for item, grade in judged.items() if item not in ranked]
    queries, items, grades = zip(*missing, strict=True) if missing else ((), (), ())
    return _tally_of_groups(
        found,
        query_ids=np.array(query_ids),
        method="run",
        distance=None,
        complete=True,
        unranked=Unranked(np.array(queries, np.int64), np.array(items, str), np.array(grades, np.int64)),
    )


def _tally_of_groups(found: list[tuple[np.ndarray, np.ndarray]], **facts: Any) -> Tally:
    counts = stack_ragged([groups for _, groups in found], 0)
    scores = stack_ragged([scores for scores, _ in found], np.nan)
    return Tally(counts=counts[:, :, :-1], unjudged=counts[:, :, -1], scores=scores, **facts)


def as_floats(values: Any, what: str) -> np.ndarray:
    """A matrix of float32 or float64."""
    values = as_numpy(values)
    if values.ndim != 2:
        raise ValueError(f"{what} must be a matrix, got shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{what} must be numbers, got {values.dtype}")
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if small else np.float64, copy=False)


def _check_finite(rows: np.ndarray, what: str) -> None:
    for start in range(0, len(rows), 4096):
        bad = ~np.isfinite(rows[start : start + 4096])
        if bad.any():
            row, column = np.argwhere(bad)[0]
            value = rows[start + row, column]
            raise ValueError(f"{what} embeddings hold {value}, first in row {start + row}, column {column}")


def _squares(rows: np.ndarray) -> np.ndarray:
    """Squared length of each row, summed in order, so that equal rows have equal lengths."""
    out = np.zeros(len(rows), rows.dtype)
    for start in range(0, len(rows), 4096):
        block = rows[start : start + 4096]
        out[start : start + 4096] = np.square(block).sum(1)
    return out


def _unit(rows: np.ndarray, what: str) -> np.ndarray:
    largest = np.abs(rows).max(axis=1, initial=0) if rows.shape[1] else np.zeros(len(rows))
    if (largest == 0).any():
        raise ValueError(f"{what} embedding in row {np.flatnonzero(largest == 0)[0]} is zero: it has no cosine")
    scaled = rows / largest[:, None]  # so that no square overflows or vanishes
    return np.asarray(scaled / np.sqrt(_squares(scaled))[:, None])


def _panels(rows: np.ndarray, width: int) -> np.ndarray:
    """Rows in panels of `width`, (panels, columns, width), the last filled up with zeros."""
    n, columns = rows.shape
    out = np.zeros((-(-n // width), columns, width), rows.dtype)
    whole = n // width
    out[:whole] = rows[: whole * width].reshape(whole, width, columns).transpose(0, 2, 1)
    if whole < len(out):
        out[whole, :, : n - whole * width] = rows[whole * width :].T
    return out


def _distinct(rising: np.ndarray) -> np.ndarray:
    return rising[np.concatenate([[True], rising[1:] != rising[:-1]])[: len(rising)]]
