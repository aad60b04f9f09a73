"""Counting the tally of float scores: embeddings, score matrices and run files.

The items that are not of the background's grade (the relevant, or the judged ones) mark a query's row of scores: other
items are counted around them, so that a tally is a few groups, not one for each item. The row is sorted only where
marks are many, or every score is asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.embeddings import Embeddings, Scores
from lookalike.core.errors import InputError
from lookalike.core.ids import id_array
from lookalike.core.kernels import is_little, kernels
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import UNJUDGED, Judged, Relevance, SameLabel, Unranked
from lookalike.evaluation.request import Request
from lookalike.evaluation.tally import Tally
from lookalike.evaluation.tally_parts import stack_ragged

METHODS = ("auto", "around", "plain")
FEW = 4  # scores are not sorted where a mark has at least so many items

__all__ = [
    "FEW",
    "METHODS",
    "ScoreCounter",
    "background_runs",
    "block_rows",
    "count_run",
    "groups_of",
    "work_room",
]


def block_rows(n_gallery: int, relevance: Relevance, *, every_score: bool = False) -> int:
    """Queries to score at a time: enough to keep the processor busy, few enough to take half a gigabyte at most."""
    # Where grades have no background, every item may become a group of its own.
    sparse = isinstance(relevance, SameLabel | Judged) and not every_score
    per_query = max(1, n_gallery) * (12 if sparse else 8 * (relevance.max_grade + 4))
    return min(96, max(12, (1 << 29) // per_query // 12 * 12))


@dataclass(frozen=True)
class ScoreCounter:
    """Counts blocks of queries by their scores with the whole gallery. method: "around" or "plain"."""

    request: Request
    needs: Needs
    method: str = "around"

    @property
    def scores(self) -> Scores | Embeddings:
        """The scores of all queries with all items."""
        assert isinstance(self.request.queries, Scores | Embeddings)
        return self.request.queries

    @property
    def block_rows(self) -> int:
        """Queries to score at a time."""
        return block_rows(self.scores.n_gallery, self.request.relevance, every_score=self.needs.every_score)

    def __call__(self, block: slice) -> Tally:
        """The tally of the queries in a slice."""
        block = slice(*block.indices(self.scores.n_queries))
        rows = self.scores.rows(block)
        plain = self.method == "plain" or is_little(20 * rows.size)  # which give the same
        scores, by_grade = self._plain(rows, block) if plain else self._around(rows, block)
        return Tally(
            query_ids=self.request.query_ids[block],
            counts=np.moveaxis(by_grade[:-1], 0, 2),
            unjudged=by_grade[-1],
            scores=scores if self.needs.every_score or self.needs.marks else None,
            method=self.method,
            similarity=self.scores.similarity,
            lengths=None if self.scores.query_lengths is None else self.scores.query_lengths[block],
            complete=self.needs.every_score,
            unranked=self.request.relevance.unranked_of(block),
        )

    def _around(self, rows: np.ndarray, block: slice) -> tuple[np.ndarray, np.ndarray]:
        """Scores of each query's groups, (queries, groups), and counts, (grades and the unjudged, queries, groups)."""
        marks = [self._marks(row, query) for row, query in zip(rows, range(block.start, block.stop), strict=True)]
        every_score = self.needs.every_score
        n_marks = max(len(mark[0]) for mark in marks)
        most = rows.shape[1] if every_score else min(rows.shape[1], 1 + 2 * n_marks)
        scores = np.full((len(rows), most if every_score or self.needs.marks else 0), np.nan)
        by_grade = np.zeros((self.request.relevance.max_grade + 2, len(rows), most), np.int64)
        background = self.request.relevance.background % len(by_grade)
        room = work_room(n_marks, rows.dtype)
        widest = 0
        for i, (row, mark) in enumerate(zip(rows, marks, strict=True)):
            if every_score or FEW * len(mark[0]) > len(row):
                row.sort()  # numpy sorts with vector instructions
                n_groups = kernels().around(row, *mark, every_score, background, scores[i], by_grade[:, i])
            else:
                n_groups = kernels().around_few(row, *mark, background, *room, scores[i], by_grade[:, i])
            widest = max(widest, n_groups)
        return scores[:, :widest], by_grade[:, :, :widest]

    def _marks(self, row: np.ndarray, query: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores of the items not of the background's grade, rising within each grade; where grades start; excluded."""
        items, grades = self.request.relevance.special(query)
        excluded = np.zeros(0, row.dtype)
        if self.request.excluded_groups is not None:
            left_out = self.request.excluded_groups.items(query)
            excluded = np.sort(row[left_out])
            ranks = np.ones(len(row), bool)
            ranks[left_out] = False
            items, grades = items[ranks[items]], grades[ranks[items]]
        if self.request.relevance.max_grade == 1 and self.request.relevance.background == 0:  # then all are of grade 1
            return np.sort(row.take(items)), np.array([0, 0, len(items)]), excluded
        sizes = np.bincount(grades, minlength=self.request.relevance.max_grade + 1)
        by_grade = [
            np.sort(row[items if size == len(items) else items[grades == v]]) for v, size in enumerate(sizes) if size
        ]
        marks = np.concatenate([np.zeros(0, row.dtype), *by_grade])
        return marks, np.concatenate([[0], np.cumsum(sizes)]), excluded

    def _plain(self, rows: np.ndarray, block: slice) -> tuple[np.ndarray, np.ndarray]:
        """As `_around`, in the obvious way: every score a group, then neighbours of background items merged."""
        groups = []
        for row, query in zip(rows, range(block.start, block.stop), strict=True):
            grades = self.request.relevance.block(slice(query, query + 1), slice(0, len(row)))[0]
            ranks = np.ones(len(row), bool)
            if self.request.excluded_groups is not None:
                ranks[self.request.excluded_groups.items(query)] = False
            scores, counts = groups_of(row[ranks], grades[ranks], self.request.relevance.max_grade + 2)
            if not self.needs.every_score and len(scores):
                plain, starts = background_runs(counts, self.request.relevance.background)
                scores = np.where(plain, np.nan, scores)[starts] if self.needs.marks else scores[:0]
                counts = np.add.reduceat(counts, starts, axis=0)
            groups.append((scores, counts))
        return _stacked(groups)


def work_room(n_marks: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `around_few` and `standing_few` work in, made once for many queries."""
    cells = np.zeros(2 * n_marks + 2, np.int32)
    return np.empty(n_marks + 1, dtype), np.empty(kernels().TABLE, np.uint32), cells


def count_run(run: Mapping[Any, Mapping[Any, float]], relevance: Judged) -> Tally:
    """The tally of a run, {query_id: {item_id: score}}: only what it ranks has a rank, all that is judged counts."""
    query_ids = list(relevance.judgements)
    groups, missing = [], []
    for i, query in enumerate(query_ids):
        ranked, judged = run.get(query, {}), relevance.judgements[query]
        values = np.array(list(ranked.values()), float)
        if np.isnan(values).any():
            raise InputError(f"the run gives query {query!r} a score that is not a number")
        grades = np.array([judged.get(item, UNJUDGED) for item in ranked], np.int64)
        groups.append(groups_of(values, grades, relevance.max_grade + 2))
        missing += [(i, item, grade) for item, grade in judged.items() if item not in ranked]
    scores, by_grade = _stacked(groups)
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
    distinct, group = np.unique(scores, return_inverse=True)
    counts = np.zeros((len(distinct), n_columns), np.int64)
    np.add.at(counts, (group, grades), 1)
    return distinct[::-1], counts[::-1]


def _stacked(groups: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    scores, counts = (
        stack_ragged(list(part), filler) for part, filler in zip(zip(*groups, strict=True), (np.nan, 0), strict=True)
    )
    return scores.astype(float), np.ascontiguousarray(np.moveaxis(counts, 2, 0))
