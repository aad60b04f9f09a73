"""Counting codes in shards.

scan    the tallies of the shards add up
table   of short codes with labels, the numbers of items on each code add up; the sum is spread at the end
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.files import digest
from lookalike.core.kernels import kernels
from lookalike.evaluation.count_codes import MAX_TABLE_BITS, code_counter
from lookalike.evaluation.count_shards.search import Search, ShardSearch, arrays_of, unranked_of
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import Judged, Unranked
from lookalike.evaluation.tally import Tally
from lookalike.evaluation.tally_parts import unranked_in_both
from lookalike.shards.gallery import ShardPart

MOST_COUNTERS = 1 << 24  # of a table of items on codes, 128 MB

__all__ = ["tallies_of_codes"]


def tallies_of_codes(run: ShardSearch, radius: int | None) -> Iterator[Tally]:
    """The tallies of all queries, block by block, by a table if that costs less than a scan."""
    table_work = OnCodes(run.search, radius)
    if table_work.pays(len(run.shards)):
        (table,) = run.gather(table_work)
        yield run.checked(table_work.tally(table, run.threads))
        return
    everybody = slice(0, len(run.search.queries))
    for tally in run.gather(Scanned(run.search, radius, run.blocks(everybody))):
        yield run.checked(tally)


@dataclass(frozen=True)
class Scanned:
    """Work: the tally of each shard, by comparing every query with every item."""

    search: Search
    radius: int | None
    blocks: Sequence[slice]
    gives = Tally

    @property
    def columns(self) -> set[str]:
        return self.search.columns

    @property
    def digest(self) -> str:
        return digest(np.array(["scan", self.search.digest, str(self.radius)]))

    def do(self, part: ShardPart, block: slice) -> Tally:
        needs = Needs(radius=self.radius, ball=self.radius is not None)
        return code_counter(self.search.on(part), needs)(block)


@dataclass(frozen=True)
class CodeTable:
    """How many items are on each code: (1 + labels, 2^n_bits), of all items, then of each label; and what to move.

    counts, unjudged: what judged and excluded items change of the counts that follow from the table.
    """

    on_code: np.ndarray
    counts: np.ndarray | None = None
    unjudged: np.ndarray | None = None
    unranked: Unranked | None = None

    def __add__(self, other: "CodeTable") -> "CodeTable":
        on_code = self.on_code + other.on_code
        if self.counts is None or other.counts is None or self.unjudged is None or other.unjudged is None:
            return CodeTable(on_code)
        unranked = unranked_in_both(self.unranked, other.unranked)
        return CodeTable(on_code, self.counts + other.counts, self.unjudged + other.unjudged, unranked)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as named arrays."""
        return arrays_of(self, ("on_code", "counts", "unjudged")), {}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> "CodeTable":  # noqa: ARG003
        """Take what `to_arrays` gave."""
        return cls(unranked=unranked_of(arrays), **arrays)


@dataclass(frozen=True)
class OnCodes:
    """Work: how many items of each label are on each code, for short codes."""

    search: Search
    radius: int | None
    gives = CodeTable

    @property
    def blocks(self) -> list[slice]:
        return [slice(0, len(self.search.queries))]

    @property
    def columns(self) -> set[str]:
        return self.search.columns

    @property
    def digest(self) -> str:
        return digest(np.array(["on codes", self.search.digest]))

    @property
    def n_bits(self) -> int:
        assert isinstance(self.search.queries, Codes)
        return self.search.queries.n_bits

    @cached_property
    def _labels(self) -> tuple[np.ndarray, np.ndarray] | None:
        """A query of each label that queries have, and the number of every query's label; None where there are none."""
        relevance = self.search.relevance
        if isinstance(relevance, Judged):
            return None
        labels = relevance.of_nothing().levels[0].queries  # type: ignore[attr-defined]
        _, first, number = np.unique(labels, return_index=True, return_inverse=True)
        order = np.argsort(first)  # as they occur, which no shard's labels change
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return first[order], rank[number.reshape(-1)]

    def pays(self, n_items: int) -> bool:
        """Whether a table does, and costs less than comparing every query with every item."""
        relevance = self.search.relevance
        if self.n_bits > MAX_TABLE_BITS or not (relevance.n_levels == 1 or isinstance(relevance, Judged)):
            return False
        if self.radius is not None and self.search.exclude is not None:
            return False  # the largest number on a code is another for each query
        rows = 1 + (0 if self._labels is None else len(self._labels[0]))
        additions = rows * self.n_bits * (self.n_bits + 1) / 2 * 2**self.n_bits
        return rows << self.n_bits <= MOST_COUNTERS and additions / 2 + n_items < len(self.search.queries) * n_items

    def do(self, part: ShardPart, block: slice) -> CodeTable:
        request = self.search.on(part)
        relevance = request.relevance
        assert isinstance(part.vectors, Codes)
        words = part.vectors.words[:, 0]
        rows = [np.bincount(words.view(np.int64), minlength=2**self.n_bits)]
        if self._labels is not None:
            first, _ = self._labels
            level = relevance.levels[0]  # type: ignore[attr-defined]
            number = np.full(level.n_groups, -1, np.int32)
            number[level.queries[first]] = np.arange(len(first))
            of_label = np.zeros((len(first), 2**self.n_bits), np.uint32)
            kernels().tabulate(np.ascontiguousarray(words), level.gallery, number, of_label)
            rows.extend(of_label.astype(np.int64))
        if request.excluded is None and not isinstance(relevance, Judged):
            return CodeTable(np.stack(rows))
        counter = code_counter(request, Needs(), "plain")
        return CodeTable(np.stack(rows), *counter.moved(block), relevance.unranked_of(block))

    def tally(self, table: CodeTable, threads: int) -> Tally:
        """The tally that the items on each code give."""
        search = self.search
        assert isinstance(search.queries, Codes)
        n, codes = len(search.queries), search.queries.words[:, 0].astype(np.int64)
        of_all, of_label = np.zeros((n, self.n_bits + 1), np.int64), np.zeros((n, self.n_bits + 1), np.int64)

        def spread(row: int) -> None:
            queries, target = np.arange(n), of_all
            if row:
                assert self._labels is not None
                queries, target = np.flatnonzero(self._labels[1] == row - 1), of_label
            counts = np.zeros((self.n_bits + 1, 2**self.n_bits), np.int64)
            counts[0] = table.on_code[row]
            kernels().spread(counts)
            target[queries] = counts[:, codes[queries]].T

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(spread, range(len(table.on_code))))
        largest = None
        if self.radius is not None:
            most = np.zeros((min(self.radius, self.n_bits) + 1, 2**self.n_bits), np.int64)
            most[0] = table.on_code[0]
            kernels().spread_largest(most)
            largest = np.ascontiguousarray(most[:, codes].T)
        counts, unjudged = np.stack([of_all - of_label, of_label], axis=2), np.zeros_like(of_all)
        if self._labels is None:
            counts, unjudged = np.zeros((n, self.n_bits + 1, 1), np.int64), of_all
        if table.counts is not None and table.unjudged is not None:
            moved = table.counts.copy()
            moved[:, :, : counts.shape[2]] += counts
            counts, unjudged = moved, unjudged + table.unjudged
        return Tally(
            query_ids=search.query_ids,
            counts=counts,
            unjudged=unjudged,
            method="table",
            n_bits=self.n_bits,
            largest=largest,
            unranked=table.unranked,
        )
