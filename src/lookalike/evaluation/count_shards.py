"""The tally of a gallery in shards: what is counted of each shard, and how the sum becomes the tally of all.

codes    the tally itself adds up; of short codes with labels, the items on each code do, and are spread at the end
scores   what stands first in each shard, where only that is asked for; else two passes: the scores of all items that
         are not of the background's grade (the marks), then how many items stand above and at each mark
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.column import Column
from lookalike.core.embeddings import Embeddings
from lookalike.core.files import digest
from lookalike.core.kernels import kernels
from lookalike.evaluation.count_codes import MAX_TABLE_BITS, CodeCounter
from lookalike.evaluation.count_scores import ScoreCounter, background_runs, groups_of
from lookalike.evaluation.relevance import UNJUDGED, Groups, InShards, Judged, Relevance, Unranked
from lookalike.evaluation.tally import Tally, stack_ragged, unranked_in_both
from lookalike.shards.gallery import ShardPart, Shards
from lookalike.shards.map_reduce import Arrays, Partial, gather
from lookalike.shards.storage import Location

MOST_COUNTERS = 1 << 24  # of a table of items on codes, 128 MB
MARKS = 1 << 28  # bytes of marks, or of first places, of one pass over the gallery
TALLIES = 1 << 24  # and of those that become a tally at a time, which is larger

__all__ = ["Needs", "Search", "tallies"]


@dataclass(frozen=True)
class Needs:
    """What metrics need of a tally: codes within a radius, the first k ranks alone, the scores of marks or radii."""

    radius: int | None = None
    k: int | None = None
    marks: bool = False
    distances: tuple[float, ...] = ()


@dataclass(frozen=True)
class Search:
    """What is asked of a gallery in shards. exclude: groups of the queries, and where those of the items are."""

    queries: Codes | np.ndarray
    query_ids: np.ndarray
    relevance: Relevance
    gallery_ids: Column | None = None  # None: positions
    exclude: tuple[np.ndarray, Column | np.ndarray | None] | None = None  # None within: the ids
    similarity: str | None = None

    @property
    def columns(self) -> set[str]:
        """What is read of each shard beside its vectors."""
        names = set(self.relevance.columns if isinstance(self.relevance, InShards) else ())
        if self.exclude is not None and isinstance(self.exclude[1], Column):
            names.add(self.exclude[1].name)
        if self.gallery_ids is not None and self._names_items:
            names.add(self.gallery_ids.name)
        return names

    @property
    def _names_items(self) -> bool:
        return isinstance(self.relevance, Judged) or (self.exclude is not None and self.exclude[1] is None)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of it."""
        queries = self.queries.digest if isinstance(self.queries, Codes) else digest(self.queries)
        facts = [queries, self.relevance.digest, digest(self.query_ids), str(self.similarity), str(self.gallery_ids)]
        if self.exclude is not None:
            groups, items = self.exclude
            facts += [digest(groups), digest(items) if isinstance(items, np.ndarray) else str(items)]
        return digest(np.array(facts))

    def check(self, total: Partial[Any], block: slice, n_shards: int) -> None:
        """Raise where a judged item is in several shards: they found more than there is."""
        if not isinstance(self.relevance, Judged):
            return
        judgements = self.relevance.judgements
        judged = sum(len(judgements.get(query, ())) for query in self.query_ids[block].tolist())
        found = n_shards * judged - total.unranked
        if found != judged - len(total.value.unranked.queries):
            raise ValueError("an item that was judged is in several shards: ids of a gallery must differ")

    def on(self, part: ShardPart) -> tuple[Relevance, Groups | None]:
        """The relevance of a shard's items, and those that queries leave out."""
        items = slice(part.start, part.start + len(part))
        ids: np.ndarray | range = range(items.start, items.stop)
        if self.gallery_ids is not None and self._names_items:
            ids = part.values[self.gallery_ids.name]
        excluded = None
        if self.exclude is not None:
            groups, given = self.exclude
            if isinstance(given, Column):
                excluded = Groups(groups, part.values[given.name], "groups to exclude")
            else:
                excluded = Groups(groups, ids if given is None else given[items], "groups to exclude")
        return self.relevance.in_shard(items, part.values).bound(self.query_ids, ids), excluded


def tallies(
    search: Search, shards: Shards, needs: Needs, *, threads: int, partials: Location | None = None
) -> Iterator[Tally]:
    """The tallies of the queries, block by block, over all shards."""
    if isinstance(search.queries, Codes):
        yield from _of_codes(search, shards, needs, threads, partials)
    elif needs.k is not None:
        yield from _of_first(search, shards, needs.k, threads, partials)
    else:
        yield from _of_marks(search, shards, needs, threads, partials)


def _blocks(queries: slice, shards: Shards, threads: int) -> list[slice]:
    """Queries in blocks to be counted side by side: where shards are too few to keep all threads busy."""
    workers = threads if shards.client is None else max(1, sum(shards.client.nthreads().values()))
    n = queries.stop - queries.start
    parts = 1 if len(shards.shards) >= 2 * workers else min(workers, -(-n // 8))
    bounds = np.linspace(queries.start, queries.stop, parts + 1).astype(int).tolist()
    return [slice(start, end) for start, end in pairwise(bounds)]


# Codes


def _of_codes(search: Search, shards: Shards, needs: Needs, threads: int, partials: Location | None) -> Iterator[Tally]:
    assert isinstance(search.queries, Codes)
    everybody = slice(0, len(search.queries))
    tabled = OnCodes(search, needs.radius)
    if tabled.pays(len(shards)):
        (table,) = gather(shards, tabled, threads=threads, partials=partials, check=search.check)
        yield checked(tabled.tally(table, threads), shards, search)
        return
    scanned = Scanned(search, needs.radius, _blocks(everybody, shards, threads))
    for tally in gather(shards, scanned, threads=threads, partials=partials, check=search.check):
        yield checked(tally, shards, search)


def checked(tally: Tally, shards: Shards, search: Search) -> Tally:
    """The tally, in which every item of the gallery is counted once for every query; raises where not."""
    counted = tally.ranked.sum(1)
    if search.exclude is None and (counted != len(shards)).any():
        query = int((counted != len(shards)).argmax())
        raise ValueError(
            f"{int(counted[query]):,} items were counted for a query, but there are {len(shards):,}: "
            "this is a mistake of the program"
        )
    return tally


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
        search, (relevance, excluded) = self.search, self.search.on(part)
        assert isinstance(search.queries, Codes)
        assert isinstance(part.vectors, Codes)
        return CodeCounter(
            search.queries,
            part.vectors,
            relevance,
            search.query_ids,
            excluded,
            "auto",
            self.radius,
            keep_ball=self.radius is not None,
        )(block)


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
        return _arrays_of(self, ("on_code", "counts", "unjudged")), {}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> "CodeTable":  # noqa: ARG003
        """Take what `to_arrays` gave."""
        return cls(unranked=_unranked_of(arrays), **arrays)


def _arrays_of(value: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Those of the named arrays that something has, with its unranked items."""
    arrays = {name: array for name in names if (array := getattr(value, name)) is not None}
    if value.unranked is not None:
        arrays |= {f"unranked_{name}": getattr(value.unranked, name) for name in ("queries", "items", "grades")}
    return arrays


def _unranked_of(arrays: dict[str, np.ndarray]) -> Unranked | None:
    """The unranked items among such arrays, taken out of them."""
    names = [f"unranked_{name}" for name in ("queries", "items", "grades")]
    return Unranked(*(arrays.pop(name) for name in names)) if names[0] in arrays else None


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
        """A query of each label that queries have, and the place of every query's label; None where there are none."""
        relevance = self.search.relevance
        if isinstance(relevance, Judged):
            return None
        labels = relevance.of_nothing().levels[0].queries  # type: ignore[attr-defined]
        _, first, place = np.unique(labels, return_index=True, return_inverse=True)
        order = np.argsort(first)  # as they occur, which no shard's labels change
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return first[order], rank[place.reshape(-1)]

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
        search, (relevance, excluded) = self.search, self.search.on(part)
        assert isinstance(search.queries, Codes)
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
        if excluded is None and not isinstance(relevance, Judged):
            return CodeTable(np.stack(rows))
        counter = CodeCounter(search.queries, part.vectors, relevance, search.query_ids, excluded, "plain")
        return CodeTable(np.stack(rows), *counter.moved(block), relevance.unranked_of(block))

    def tally(self, table: CodeTable, threads: int) -> Tally:
        """The tally that the items on each code give."""
        search = self.search
        assert isinstance(search.queries, Codes)
        n, codes = len(search.queries), search.queries.words[:, 0].astype(np.int64)
        of_all, of_label = np.zeros((n, self.n_bits + 1), np.int64), np.zeros((n, self.n_bits + 1), np.int64)

        def spread(row: int) -> None:
            mine, target = np.arange(n), of_all
            if row:
                assert self._labels is not None
                mine, target = np.flatnonzero(self._labels[1] == row - 1), of_label
            counts = np.zeros((self.n_bits + 1, 2**self.n_bits), np.int64)
            counts[0] = table.on_code[row]
            kernels().spread(counts)
            target[mine] = counts[:, codes[mine]].T

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


# Scores


@dataclass(frozen=True)
class ScoreGroups:
    """Some of the tie groups of each query, all queries' in a row: scores, the highest first, and counts of each.

    starts: (n_queries + 1,); scores: (n,); counts: (n, grades and the unjudged); totals: (n_queries, likewise), of all
    items and not only those of these groups. k: groups that begin past so many items are left out; None: none.
    """

    starts: np.ndarray
    scores: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    k: int | None = None
    unranked: Unranked | None = None

    def of(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and counts of one query."""
        mine = slice(self.starts[query], self.starts[query + 1])
        return self.scores[mine], self.counts[mine]

    @classmethod
    def joined(cls, found: list[tuple[np.ndarray, np.ndarray]], totals: np.ndarray, **rest: Any) -> "ScoreGroups":
        """From the scores and counts of each query."""
        starts = np.cumsum([0, *(len(scores) for scores, _ in found)])
        scores, counts = (np.concatenate(column) for column in zip(*found, strict=True))
        return cls(starts, scores, counts, totals, **rest)

    @classmethod
    def concatenated(cls, blocks: list["ScoreGroups"]) -> "ScoreGroups":
        """Those of several blocks of queries, one after the other."""
        width = max(block.counts.shape[1] for block in blocks)
        sizes = np.concatenate([np.diff(block.starts) for block in blocks])
        counts, totals = (
            np.concatenate([_widened(getattr(block, name), width) for block in blocks]) for name in ("counts", "totals")
        )
        firsts = np.cumsum([0, *(len(block.totals) for block in blocks)])
        left = [(block.unranked, first) for block, first in zip(blocks, firsts, strict=False) if block.unranked]
        unranked = None
        if left:
            items, grades = (np.concatenate([getattr(one, name) for one, _ in left]) for name in ("items", "grades"))
            unranked = Unranked(np.concatenate([one.queries + first for one, first in left]), items, grades)
        scores = np.concatenate([block.scores for block in blocks])
        return cls(np.concatenate([[0], np.cumsum(sizes)]), scores, counts, totals, blocks[0].k, unranked)

    def __add__(self, other: "ScoreGroups") -> "ScoreGroups":
        width = max(self.counts.shape[1], other.counts.shape[1])
        room = len(self.scores) + len(other.scores)
        starts, scores = np.empty_like(self.starts), np.empty(room, self.scores.dtype)
        counts = np.empty((room, width), np.int64)
        sides = [x for side in (self, other) for x in (side.starts, side.scores, _widened(side.counts, width))]
        k = np.iinfo(np.int64).max if self.k is None else self.k
        n = kernels().merge_groups(*sides, k, starts, scores, counts)
        totals = _widened(self.totals, width) + _widened(other.totals, width)
        unranked = unranked_in_both(self.unranked, other.unranked)
        scores, counts = scores[:n], counts[:n]
        if n < 0.9 * room:  # else copies would cost more than the room they give back
            scores, counts = scores.copy(), counts.copy()
        return ScoreGroups(starts, scores, counts, totals, self.k, unranked)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as named arrays, and k."""
        return _arrays_of(self, ("starts", "scores", "counts", "totals")), {"k": self.k}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> "ScoreGroups":
        """Take what `to_arrays` gave."""
        return cls(unranked=_unranked_of(arrays), **arrays, k=about["k"])


def _widened(counts: np.ndarray, width: int) -> np.ndarray:
    """Counts of grades and, last, the unjudged, with room for more grades."""
    more = width - counts.shape[1]
    if not more:
        return counts
    return np.concatenate([counts[:, :-1], np.zeros((len(counts), more), np.int64), counts[:, -1:]], axis=1)


@dataclass(frozen=True)
class Scored:
    """What all work on scores has in common: the scores of a shard's items, a query at a time."""

    search: Search
    blocks: Sequence[slice]

    @property
    def columns(self) -> set[str]:
        return self.search.columns

    def _rows(self, part: ShardPart, block: slice, relevance: Relevance) -> Iterator[tuple[int, np.ndarray]]:
        """Each query of a block and its scores with the items of a shard, until the next is asked for."""
        search = self.search
        embeddings = Embeddings(search.queries, part.vectors, search.similarity or "cosine")
        size = ScoreCounter(embeddings, relevance, search.query_ids, None, "around").block_rows
        for start in range(block.start, block.stop, size):
            rows = embeddings.rows(slice(start, min(start + size, block.stop)))
            yield from enumerate(rows, start)

    def _special(
        self, relevance: Relevance, excluded: Groups | None, query: int, n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Items not of the background's grade and their grades, those left out, and how many there are of each."""
        items, grades = relevance.special(query)
        left_out = np.zeros(0, np.int64)
        if excluded is not None:
            left_out = excluded.items(query)
            ranks = np.ones(n, bool)
            ranks[left_out] = False
            items, grades = items[ranks[items]], grades[ranks[items]]
        totals = np.bincount(grades, minlength=relevance.max_grade + 2)
        totals[relevance.background] += n - len(left_out) - len(items)
        return items, grades, left_out, totals


@dataclass(frozen=True)
class First(Scored):
    """Work: the groups that hold the first k items of each query."""

    k: int = 1
    gives = ScoreGroups

    @property
    def digest(self) -> str:
        return digest(np.array(["first", self.search.digest, str(self.k)]))

    def do(self, part: ShardPart, block: slice) -> ScoreGroups:
        relevance, excluded = self.search.on(part)
        found, totals = [], []
        for query, row in self._rows(part, block, relevance):
            _, _, left_out, total = self._special(relevance, excluded, query, len(row))
            ranked = np.delete(row, left_out) if len(left_out) else row
            reach = row >= kernels().kth_largest(ranked, self.k) if len(ranked) else np.zeros(len(row), bool)
            reach[left_out] = False
            items = np.flatnonzero(reach)
            grades = relevance.of_pairs(np.full(len(items), query), items)
            found.append(groups_of(row[items], grades, len(total)))
            totals.append(total)
        return ScoreGroups.joined(found, np.stack(totals), k=self.k, unranked=relevance.unranked_of(block))

    def tally(self, groups: ScoreGroups, queries: slice) -> Tally:
        """The tally of the first k ranks; what follows them is one group."""
        found, background = [], self.search.relevance.background
        for query, total in enumerate(groups.totals):
            _, counts = groups.of(query)
            rest = total - counts.sum(0)
            if len(counts):  # neighbours of the background's grade are one group, as where all is counted at once
                counts = np.add.reduceat(counts, background_runs(counts, background)[1], axis=0)
            found.append(np.concatenate([counts, rest[None]]) if rest.any() else counts)
        return _tally(self.search, queries, found, None, groups.unranked)


@dataclass(frozen=True)
class Marks(Scored):
    """Work: the scores of the items that are not of the background's grade."""

    gives = ScoreGroups

    @property
    def digest(self) -> str:
        return digest(np.array(["marks", self.search.digest]))

    def do(self, part: ShardPart, block: slice) -> ScoreGroups:
        relevance, excluded = self.search.on(part)
        found, totals = [], []
        for query, row in self._rows(part, block, relevance):
            items, grades, _, total = self._special(relevance, excluded, query, len(row))
            found.append(groups_of(row[items], grades, len(total)))
            totals.append(total)
        return ScoreGroups.joined(found, np.stack(totals), unranked=relevance.unranked_of(block))


@dataclass(frozen=True)
class Ranks(Arrays):
    """How many items stand above each mark, and how many at it; those of queries in a row."""

    above: np.ndarray
    at: np.ndarray

    def __add__(self, other: "Ranks") -> "Ranks":
        return Ranks(self.above + other.above, self.at + other.at)


@dataclass(frozen=True)
class Ranked(Scored):
    """Work: how many items stand above and at each of the marks that all shards gave, of the queries from `first`."""

    starts: np.ndarray = field(kw_only=True)
    scores: np.ndarray = field(kw_only=True)
    first: int = 0
    gives = Ranks

    @property
    def digest(self) -> str:
        return digest(np.array(["ranks", self.search.digest]), self.starts, self.scores)

    def do(self, part: ShardPart, block: slice) -> Ranks:
        relevance, excluded = self.search.on(part)
        starts = self.starts[block.start - self.first : block.stop - self.first + 1]
        above, at = np.zeros(starts[-1] - starts[0], np.int64), np.zeros(starts[-1] - starts[0], np.int64)
        for query, row in self._rows(part, block, relevance):
            start, end = starts[query - block.start : query - block.start + 2] - starts[0]
            marks, out = self.scores[starts[0] :][start:end], (above[start:end], at[start:end])
            if excluded is not None:
                kernels().standing(np.sort(row[excluded.items(query)]), marks, -1, *out)
            row.sort()
            kernels().standing(row, marks, 1, *out)
        return Ranks(above, at)

    def tally(self, marks: ScoreGroups, ranks: Ranks, queries: slice, *, keep: bool, complete: bool) -> Tally:
        """The tally of some queries, of all their items: the marks, and what stands between them.

        marks and ranks: of all queries.
        """
        counts, scores, background = [], [], self.search.relevance.background
        for query in range(queries.start - self.first, queries.stop - self.first):
            mine = slice(self.starts[query], self.starts[query + 1])
            marked, graded = marks.of(query)
            at, above = ranks.at[mine], ranks.above[mine]
            between = np.zeros((len(marked) + 1, graded.shape[1]), np.int64)
            ends = np.append(above, marks.totals[query].sum())
            between[:, background] = np.diff(ends, prepend=0) - np.concatenate([[0], at])
            groups = np.empty((2 * len(marked) + 1, graded.shape[1]), np.int64)
            groups[::2], groups[1::2] = between, graded
            groups[1::2, background] += at - graded.sum(1)
            filled = groups.sum(1) > 0
            counts.append(groups[filled])
            if keep:
                # Where every group is to have a score, one between two marks gets one that is between them.
                lower = np.append(marked, -np.inf).astype(float)
                values = np.empty(len(groups))
                values[::2] = np.nextafter(lower, np.inf) if complete else np.nan
                values[1::2] = marked
                scores.append(values[filled])
        unranked = marks.unranked
        if unranked is not None:
            unranked = unranked.of_queries(slice(queries.start - self.first, queries.stop - self.first))
        tally = _tally(self.search, queries, counts, scores if keep else None, unranked)
        return replace(tally, complete=complete)


def _tally(
    search: Search,
    queries: slice,
    counts: list[np.ndarray],
    scores: list[np.ndarray] | None,
    unranked: Unranked | None,
) -> Tally:
    stacked = np.ascontiguousarray(np.moveaxis(stack_ragged(counts, 0), 2, 0))
    embeddings = Embeddings(search.queries[queries], search.queries[:1], search.similarity or "cosine")
    return Tally(
        query_ids=search.query_ids[queries],
        counts=np.moveaxis(stacked[:-1], 0, 2),
        unjudged=stacked[-1],
        scores=None if scores is None else stack_ragged(scores, np.nan),
        method="shards",
        similarity=search.similarity,
        lengths=embeddings.query_lengths,
        complete=False,
        unranked=unranked,
    )


def _of_first(search: Search, shards: Shards, k: int, threads: int, partials: Location | None) -> Iterator[Tally]:
    k = min(k, len(shards))
    for queries in _passes(np.full(len(search.queries), k)):
        work = First(search, _blocks(queries, shards, threads), k)
        sums = gather(shards, work, threads=threads, partials=partials, check=search.check)
        for block, groups in zip(work.blocks, sums, strict=True):
            yield checked(work.tally(groups, block), shards, search)


def _of_marks(search: Search, shards: Shards, needs: Needs, threads: int, partials: Location | None) -> Iterator[Tally]:
    how: dict[str, Any] = {"threads": threads, "partials": partials}
    for queries in _passes(_special_sizes(search, shards, **how)):
        first = Marks(search, _blocks(queries, shards, threads))
        found = ScoreGroups.concatenated(gather(shards, first, **how, what="scoring", check=search.check))
        marks = _with_edges(found, needs.distances)
        second = Ranked(search, first.blocks, starts=marks.starts, scores=marks.scores, first=queries.start)
        sums = gather(shards, second, **how, what="ranking")
        ranks = Ranks(np.concatenate([one.above for one in sums]), np.concatenate([one.at for one in sums]))
        for block in _passes(np.diff(marks.starts), TALLIES):
            mine = slice(queries.start + block.start, queries.start + block.stop)
            edges = bool(needs.distances)
            tally = second.tally(marks, ranks, mine, keep=needs.marks or edges, complete=edges)
            yield checked(tally, shards, search)


def _with_edges(marks: ScoreGroups, distances: Sequence[float]) -> ScoreGroups:
    """Marks with others, of no item, at the scores of these distances: no group then lies on both sides of one."""
    for distance in distances:
        n = len(marks.totals)
        scores = np.full(n, -(distance**2), marks.scores.dtype)
        nothing = np.zeros((n, marks.counts.shape[1]), np.int64)
        marks = marks + ScoreGroups(
            np.arange(n + 1), scores, nothing, np.zeros_like(marks.totals), None, marks.unranked
        )
    return marks


def _passes(sizes: np.ndarray, most_bytes: int | None = None) -> list[slice]:
    """Queries in blocks whose marks fit into memory together, at least one a block."""
    most, passes = (MARKS if most_bytes is None else most_bytes) // 64, []
    start = total = 0
    for query, size in enumerate(sizes.tolist()):
        if query > start and total + size > most:
            passes.append(slice(start, query))
            start, total = query, 0
        total += size
    return [*passes, slice(start, len(sizes))]


@dataclass(frozen=True)
class Totals(Arrays):
    """How many items of each grade there are for each query."""

    counts: np.ndarray

    def __add__(self, other: "Totals") -> "Totals":
        width = max(self.counts.shape[1], other.counts.shape[1])
        return Totals(_widened(self.counts, width) + _widened(other.counts, width))


@dataclass(frozen=True)
class Counted(Scored):
    """Work: how many items of each grade there are."""

    gives = Totals

    @property
    def digest(self) -> str:
        return digest(np.array(["totals", self.search.digest]))

    def do(self, part: ShardPart, block: slice) -> Totals:
        relevance, excluded = self.search.on(part)
        queries = range(block.start, block.stop)
        return Totals(np.stack([self._special(relevance, excluded, query, len(part))[3] for query in queries]))


def _special_sizes(search: Search, shards: Shards, *, threads: int, partials: Location | None) -> np.ndarray:
    """How many marks each query has, or more."""
    n, relevance = len(search.queries), search.relevance
    if isinstance(relevance, Judged):
        return np.array([len(relevance.judgements.get(query, ())) for query in search.query_ids.tolist()])
    if n * len(shards) * 64 <= MARKS:  # they fit, however many there are
        return np.zeros(n, np.int64)
    work = Counted(search, [slice(0, n)])
    (totals,) = gather(shards, work, threads=threads, partials=partials, what="looking at what is relevant")
    counts = np.delete(totals.counts, UNJUDGED if relevance.background == UNJUDGED else 0, axis=1)
    return np.asarray(counts.sum(1))
