"""Counting scores in shards.

first   where only the first k ranks are asked for, the groups of each shard that hold its first k items
marks   else two passes: first the scores of the items that are not of the background's grade (the marks), then of all
        items: how many stand above each mark and how many at it
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lookalike.core.embeddings import Embeddings
from lookalike.core.files import digest
from lookalike.core.kernels import kernels
from lookalike.evaluation.count_scores import FEW, background_runs, block_rows, groups_of, work_room
from lookalike.evaluation.count_shards.score_groups import ScoreGroups, widened
from lookalike.evaluation.count_shards.search import Search, ShardSearch
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import UNJUDGED, Groups, Judged, Relevance, SameLabel, Unranked
from lookalike.evaluation.request import Request
from lookalike.evaluation.tally import Tally
from lookalike.evaluation.tally_parts import stack_ragged
from lookalike.shards.gallery import ShardPart
from lookalike.shards.map_reduce import Arrays

MARKS = 1 << 28  # bytes of marks, or of first places, of one pass over the gallery
TALLIES = 1 << 24  # and of those that become a tally at a time, which is larger
SETS = 16  # of queries that are scored together with items among which all their marks are

_buffers = threading.local()  # of the scores of all shards that a thread works on, one after the other

__all__ = ["Scored", "mark_passes", "tallies_of_first", "tallies_of_marks"]


def tallies_of_first(run: ShardSearch, k: int) -> Iterator[Tally]:
    """The tallies of all queries, block by block, of the first k ranks."""
    k = min(k, len(run.shards))
    for queries in _passes(np.full(len(run.search.queries), k)):
        work = First(run.search, run.blocks(queries), k)
        for block, groups in zip(work.blocks, run.gather(work), strict=True):
            yield run.checked(work.tally(groups, block))


def tallies_of_marks(run: ShardSearch, needs: Needs) -> Iterator[Tally]:
    """The tallies of all queries, block by block, of all ranks."""
    for queries in mark_passes(run):
        first = Marks(run.search, run.blocks(queries))
        marks = _with_edges(ScoreGroups.concatenated(run.gather(first, "scoring")), needs.distances)
        second = MarkRanks(run.search, first.blocks, starts=marks.starts, scores=marks.scores, first=queries.start)
        sums = run.gather(second, "ranking", check=False)
        ranks = Ranks(np.concatenate([one.above for one in sums]), np.concatenate([one.at for one in sums]))
        for block in _passes(np.diff(marks.starts), TALLIES):
            rows = slice(queries.start + block.start, queries.start + block.stop)
            edges = bool(needs.distances)
            yield run.checked(second.tally(marks, ranks, rows, keep=needs.marks or edges, complete=edges))


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


def mark_passes(run: ShardSearch) -> list[slice]:
    """Queries in blocks whose marks fit into memory together; the gallery is read twice for each."""
    if "mark passes" not in run.made:
        run.made["mark passes"] = _passes(_mark_counts(run))
    passes: list[slice] = run.made["mark passes"]
    return passes


def _mark_counts(run: ShardSearch) -> np.ndarray:
    """How many marks each query has, or more."""
    search, n = run.search, len(run.search.queries)
    relevance = search.relevance
    if isinstance(relevance, Judged):
        return np.array([len(relevance.judgements.get(query, ())) for query in search.query_ids.tolist()])
    if n * len(run.shards) * 64 <= MARKS:  # they fit, however many there are
        return np.zeros(n, np.int64)
    (totals,) = run.gather(Counted(search, [slice(0, n)]), "looking at what is relevant", check=False)
    counts = np.delete(totals.counts, UNJUDGED if relevance.background == UNJUDGED else 0, axis=1)
    return np.asarray(counts.sum(1))


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
        return self._rows_of(part, np.arange(block.start, block.stop), relevance)

    def _rows_of(self, part: ShardPart, queries: np.ndarray, relevance: Relevance) -> Iterator[tuple[int, np.ndarray]]:
        """As `_rows`, of queries by their positions."""
        similarity, vectors = self.search.similarity or "cosine", np.asarray(self.search.queries[queries])
        key = ("embeddings", similarity, vectors.dtype)
        if key not in part.made:
            part.made[key] = Embeddings(vectors[:1], part.vectors, similarity)
        embeddings = part.made[key].with_queries(vectors, _buffers)
        size = block_rows(len(part), relevance)
        for start in range(0, len(queries), size):
            rows = embeddings.rows(slice(start, min(start + size, len(queries))))
            yield from zip(queries[start : start + size].tolist(), rows, strict=True)

    def _special(self, request: Request, query: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Items not of the background's grade and their grades, those left out, and how many there are of each."""
        relevance = request.relevance
        items, grades = relevance.special(query)
        left_out = np.zeros(0, np.int64)
        if isinstance(request.excluded, Groups):
            left_out = request.excluded.items(query)
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
        request = self.search.on(part)
        groups, totals = [], []
        for query, row in self._rows(part, block, request.relevance):
            _, _, left_out, total = self._special(request, query, len(row))
            ranked = np.delete(row, left_out) if len(left_out) else row
            reach = row >= kernels().kth_largest(ranked, self.k) if len(ranked) else np.zeros(len(row), bool)
            reach[left_out] = False
            items = np.flatnonzero(reach)
            grades = request.relevance.of_pairs(np.full(len(items), query), items)
            groups.append(groups_of(row[items], grades, len(total)))
            totals.append(total)
        return ScoreGroups.joined(groups, np.stack(totals), k=self.k, unranked=request.relevance.unranked_of(block))

    def tally(self, groups: ScoreGroups, queries: slice) -> Tally:
        """The tally of the first k ranks; what follows them is one group."""
        rows, background = [], self.search.relevance.background
        for query, total in enumerate(groups.totals):
            _, counts = groups.of(query)
            rest = total - counts.sum(0)
            if len(counts):  # neighbours of the background's grade are one group, as where all is counted at once
                counts = np.add.reduceat(counts, background_runs(counts, background)[1], axis=0)
            rows.append(np.concatenate([counts, rest[None]]) if rest.any() else counts)
        by_grade = np.ascontiguousarray(np.moveaxis(stack_ragged(rows, 0), 2, 0))
        return _tally(self.search, queries, by_grade, None, groups.unranked)


@dataclass(frozen=True)
class Marks(Scored):
    """Work: the scores of the items that are not of the background's grade."""

    gives = ScoreGroups

    @property
    def digest(self) -> str:
        return digest(np.array(["marks", self.search.digest]))

    def do(self, part: ShardPart, block: slice) -> ScoreGroups:
        request = self.search.on(part)
        relevance, background = request.relevance, request.relevance.background
        groups: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        totals = np.zeros((block.stop - block.start, relevance.max_grade + 2), np.int64)
        for query, place, row in self._candidates(part, block, relevance):
            items, grades, _, total = self._special(request, query, len(part))
            scores = row[items if place is None else place[items]]
            of_one_grade = relevance.max_grade == 1 and background == 0
            groups[query] = (
                _groups_of_one(scores, len(total)) if of_one_grade else groups_of(scores, grades, len(total))
            )
            totals[query - block.start] = total
        in_order = [groups[query] for query in range(block.start, block.stop)]
        return ScoreGroups.joined(in_order, totals, unranked=relevance.unranked_of(block))

    def _candidates(
        self, part: ShardPart, block: slice, relevance: Relevance
    ) -> Iterator[tuple[int, np.ndarray | None, np.ndarray]]:
        """Each query of a block in some order, and scores of items among which all its marks are.

        Between them, the place of each item among these, or None if these are all items. A score depends on its query
        and its item alone, not on what else is scored.
        """
        for queries, items in _queries_with_items(relevance, block):
            if 2 * len(items) > len(part):
                for query, row in self._rows_of(part, queries, relevance):
                    yield query, None, row
                continue
            place = np.zeros(len(part), np.int64)
            place[items] = np.arange(len(items))
            few = ShardPart(part.number, part.start, part.vectors[items], {})
            for query, row in self._rows_of(few, queries, relevance):
                yield query, place, row


def _queries_with_items(relevance: Relevance, block: slice) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The queries of a block in a few sets, and of each set all items that are marks of one of them."""
    queries = np.arange(block.start, block.stop)
    if not isinstance(relevance, SameLabel):
        yield queries, np.unique(np.concatenate([relevance.special(query)[0] for query in queries.tolist()]))
        return
    labels = np.stack([level.queries[queries] for level in relevance.levels])
    _, firsts, numbers = np.unique(
        labels, axis=1, return_index=True, return_inverse=True
    )  # queries with the same marks
    for several in np.array_split(np.arange(len(firsts)), min(SETS, len(firsts))):
        marks = [relevance.special(query)[0] for query in queries[firsts[several]].tolist()]
        yield queries[np.isin(numbers.reshape(-1), several)], np.unique(np.concatenate(marks))


def _groups_of_one(scores: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """As `groups_of`, of items that are all of grade 1."""
    distinct, sizes = np.unique(scores, return_counts=True)
    counts = np.zeros((len(distinct), n_columns), np.int64)
    counts[:, 1] = sizes[::-1]
    return distinct[::-1], counts


@dataclass(frozen=True)
class Ranks(Arrays):
    """How many items stand above each mark, and how many at it; those of queries in a row."""

    above: np.ndarray
    at: np.ndarray

    def __add__(self, other: "Ranks") -> "Ranks":
        return Ranks(self.above + other.above, self.at + other.at)


@dataclass(frozen=True)
class MarkRanks(Scored):
    """Work: how many items stand above and at each of the marks that all shards gave, of the queries from `first`."""

    starts: np.ndarray = field(kw_only=True)
    scores: np.ndarray = field(kw_only=True)
    first: int = 0
    gives = Ranks

    @property
    def digest(self) -> str:
        return digest(np.array(["ranks", self.search.digest]), self.starts, self.scores)

    def do(self, part: ShardPart, block: slice) -> Ranks:
        request = self.search.on(part)
        starts = self.starts[block.start - self.first : block.stop - self.first + 1]
        above, at = np.zeros(starts[-1] - starts[0], np.int64), np.zeros(starts[-1] - starts[0], np.int64)
        room = work_room(min(int(np.diff(starts).max(initial=0)), len(part) // FEW), self.scores.dtype)
        for query, row in self._rows(part, block, request.relevance):
            start, end = starts[query - block.start : query - block.start + 2] - starts[0]
            marks, out = self.scores[starts[0] :][start:end], (above[start:end], at[start:end])
            excluded = row[request.excluded.items(query) if isinstance(request.excluded, Groups) else slice(0, 0)]
            if FEW * len(marks) <= len(row):
                kernels().standing_few(row, excluded, marks, *room, *out)
                continue
            kernels().standing(np.sort(excluded), marks, -1, *out)
            row.sort()
            kernels().standing(row, marks, 1, *out)
        return Ranks(above, at)

    def tally(self, marks: ScoreGroups, ranks: Ranks, queries: slice, *, keep: bool, complete: bool) -> Tally:
        """The tally of some queries, of all their items: the marks, and what stands between them.

        marks and ranks: of all queries.
        """
        own = slice(queries.start - self.first, queries.stop - self.first)
        n_columns, most = (
            marks.counts.shape[1],
            1 + 2 * int(np.diff(self.starts[own.start : own.stop + 1]).max(initial=0)),
        )
        by_grade = np.zeros((n_columns, own.stop - own.start, most), np.int64)
        background = self.search.relevance.background % n_columns
        scores, of_group, widest = np.full((own.stop - own.start, most), np.nan), np.zeros(most, np.int64), 0
        for i, query in enumerate(range(own.start, own.stop)):
            span = slice(self.starts[query], self.starts[query + 1])
            marked, graded = marks.of(query)
            total = int(marks.totals[query].sum())
            n = kernels().groups_between(
                graded, ranks.above[span], ranks.at[span], total, background, by_grade[:, i], of_group
            )
            widest = max(widest, n)
            if keep:
                # Where every group is to have a score, one between two marks gets one that is between them.
                lower = np.append(marked, -np.inf).astype(float)
                between = np.nextafter(lower, np.inf) if complete else np.full(len(lower), np.nan)
                scores[i, :n] = np.where(of_group[:n] % 2 == 1, lower[of_group[:n] // 2], between[of_group[:n] // 2])
        unranked = None if marks.unranked is None else marks.unranked.of_queries(own)
        kept = scores[:, :widest] if keep else None
        tally = _tally(self.search, queries, by_grade[:, :, :widest], kept, unranked)
        return replace(tally, complete=complete)


def _tally(
    search: Search,
    queries: slice,
    by_grade: np.ndarray,
    scores: np.ndarray | None,
    unranked: Unranked | None,
) -> Tally:
    """A tally of counts (grades and the unjudged, queries, groups)."""
    embeddings = Embeddings(search.queries[queries], search.queries[:1], search.similarity or "cosine")
    return Tally(
        query_ids=search.query_ids[queries],
        counts=np.moveaxis(by_grade[:-1], 0, 2),
        unjudged=by_grade[-1],
        scores=scores,
        method="shards",
        similarity=search.similarity,
        lengths=embeddings.query_lengths,
        complete=False,
        unranked=unranked,
    )


@dataclass(frozen=True)
class Totals(Arrays):
    """How many items of each grade there are for each query."""

    counts: np.ndarray

    def __add__(self, other: "Totals") -> "Totals":
        width = max(self.counts.shape[1], other.counts.shape[1])
        return Totals(widened(self.counts, width) + widened(other.counts, width))


@dataclass(frozen=True)
class Counted(Scored):
    """Work: how many items of each grade there are."""

    gives = Totals

    @property
    def digest(self) -> str:
        return digest(np.array(["totals", self.search.digest]))

    def do(self, part: ShardPart, block: slice) -> Totals:
        request = self.search.on(part)
        queries = range(block.start, block.stop)
        return Totals(np.stack([self._special(request, query, len(part))[3] for query in queries]))
