"""Counting scores in shards as in memory: all scores of some queries are kept until every shard was read.

Then a pass over the gallery is enough for these queries. As many queries are taken at a time as memory has room for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lookalike.core.embeddings import Embeddings, Scores
from lookalike.core.files import digest
from lookalike.evaluation.count_shards import search as shard_search
from lookalike.evaluation.count_shards.scores import Scored, mark_passes
from lookalike.evaluation.count_shards.search import ShardSearch
from lookalike.evaluation.relevance import Judged
from lookalike.evaluation.request import Request
from lookalike.shards.gallery import ShardPart
from lookalike.shards.map_reduce import Arrays

__all__ = ["requests_of_rows", "row_passes"]


def row_passes(run: ShardSearch) -> list[slice]:
    """The queries in turns whose scores have room; empty if marks need fewer passes over the gallery, or must be kept.

    Marks are scored in one pass and ranked in another. To know how many there are takes a third one, but for judged
    pairs.
    """
    if run.shards.client is not None or run.partials is not None:
        return []
    n_queries = len(run.search.queries)
    at_a_time = shard_search.room() // (len(run.shards) * run.score_type.itemsize)
    if at_a_time == 0:
        return []
    turns = [slice(start, min(start + at_a_time, n_queries)) for start in range(0, n_queries, at_a_time)]
    known = 2 if isinstance(run.search.relevance, Judged) else 3
    return turns if len(turns) <= known or len(turns) <= 2 * len(mark_passes(run)) else []


def requests_of_rows(run: ShardSearch, turns: list[slice]) -> Iterator[tuple[slice, Request]]:
    """For each turn its queries, and a request that has their scores in memory, until the next is asked for."""
    shards, search = run.shards, run.search
    n_queries, similarity = len(search.queries), search.similarity or "cosine"
    columns: dict[int, Mapping[str, np.ndarray]] = {}
    one_item = np.ones((1, shards.width), run.score_type)
    lengths = Embeddings(search.queries, one_item, similarity).query_lengths
    matrix = np.empty((max(turn.stop - turn.start for turn in turns), len(shards)), run.score_type)
    request: Request | None = None
    for turn in turns:
        run.gather(ScoreRows(search, run.blocks(turn), matrix=matrix, columns_of=columns), "scoring", check=False)
        if request is None:
            values = {name: np.concatenate([columns[i][name] for i in sorted(columns)]) for name in search.columns}
            request = search.on(ShardPart(0, 0, np.empty((len(shards), 0)), values))
        scores = _KeptScores(matrix, turn.start, n_queries, similarity, lengths)
        yield turn, replace(request, queries=scores, gallery=None)


class _KeptScores(Scores):
    """Scores of the queries of a turn with all items. first: the first of these queries."""

    def __init__(
        self, matrix: np.ndarray, first: int, n_queries: int, similarity: Any, lengths: np.ndarray | None
    ) -> None:
        self.matrix, self._first = matrix, first
        self.n_queries, self.n_gallery = n_queries, matrix.shape[1]
        self.similarity, self.query_lengths = similarity, lengths  # type: ignore[assignment]

    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries of the turn with the whole gallery, for the caller to change."""
        return self.matrix[block.start - self._first : block.stop - self._first]


@dataclass(frozen=True)
class Kept(Arrays):
    """How many scores were kept."""

    n: int

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.n + other.n)


@dataclass(frozen=True)
class ScoreRows(Scored):
    """Work in this process: the scores of all items, written to the matrix, and the other columns of each shard."""

    matrix: np.ndarray = field(kw_only=True)
    columns_of: dict[int, Mapping[str, np.ndarray]] = field(kw_only=True)
    gives = Kept

    @property
    def digest(self) -> str:
        return digest(np.array(["rows", self.search.digest]))

    def do(self, part: ShardPart, block: slice) -> Kept:
        """Keep the scores of one shard for a block of queries."""
        self.columns_of[part.number] = part.values
        first, items = self.blocks[0].start, slice(part.start, part.start + len(part))
        for query, row in self._rows(part, block, self.search.relevance):
            self.matrix[query - first, items] = row
        return Kept((block.stop - block.start) * len(part))
