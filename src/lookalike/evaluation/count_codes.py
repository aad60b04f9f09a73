"""Counting the tally of codes: by table for short codes, by scanning for long ones, plainly for checking.

table   from the number of items on each of the 2^b codes follow the counts around every code at once
scan    every query meets every item: exclusive-or, count the ones, add one to a histogram
plain   the same in a few lines of numpy, slow and obvious
"""

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, Option
from lookalike.core.kernels import kernels
from lookalike.evaluation.distinct_codes import (
    MAX_TABLE_BITS,
    DistinctCodes,
    distinct_codes,
    items_on_codes,
    repeated_codes,
)
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.plane_scan import MAX_ITEMS, BitPlanes, LabelKeys, label_keys, slice_codes
from lookalike.evaluation.relevance import UNJUDGED, Groups, Relevance, SameLabel
from lookalike.evaluation.request import Request
from lookalike.evaluation.tally import Tally
from lookalike.evaluation.tally_parts import Ball

METHODS = ("auto", "table", "scan", "plain")
MAX_PLANE_BITS = 1023  # the sum of half the planes has nine digits
PLANE_QUERIES, PLANE_ITEMS = 32, 1 << 14  # from which on planes paid where they were measured
PLANE_PAIRS = 1 << 27  # with fewer, compiling takes longer than planes save in a hundred evaluations
ITEMS_OF_A_RUN = 128  # of one label and weight, on average, from which on planes are sorted by labels
GATHERED = 1 << 18  # items of labels that are copied at a time

__all__ = ["MAX_TABLE_BITS", "METHODS", "CodeCounter", "code_counter"]


def code_counter(request: Request, needs: Needs, method: str = "auto", threads: int = 1) -> "CodeCounter":
    """A counter of codes, with all that its blocks share made before several threads ask for it."""
    choice("method", method, METHODS)
    assert isinstance(request.queries, Codes)
    n_bits, table = request.queries.n_bits, Option("method", "table")
    levels, sparse = _levels(request.relevance), request.relevance.background == UNJUDGED
    if method == "table" and n_bits > MAX_TABLE_BITS:
        raise InputError(table, f" is for codes of up to {MAX_TABLE_BITS} bits, these have {n_bits}")
    if method == "table" and not (levels or sparse):
        raise InputError(table, " is for labels or judged pairs: other relevance needs every pair")
    counter = CodeCounter(request, needs, levels, method, threads)
    if method == "auto":
        counter = replace(counter, method="table" if counter.table_pays() else "scan")
    if counter.method == "scan":
        counter = replace(counter, by_planes=counter.planes_pay())
    counter.prepare()
    return counter


def _levels(relevance: Relevance) -> list[Groups]:
    """Labels that form a hierarchy. They are counted a level at a time, as runs of a gallery sorted by them.

    Judged pairs are counted one by one, other kinds of relevance in blocks of grades.
    """
    return list(relevance.levels) if isinstance(relevance, SameLabel) and relevance.nested else []


@dataclass(frozen=True)
class CodeCounter:
    """Counts blocks of queries against a gallery of codes; `code_counter` makes it.

    levels: the labels, where they form a hierarchy. method: any but "auto".
    """

    request: Request
    needs: Needs
    levels: list[Groups]
    method: str
    threads: int = 1
    by_planes: bool = False

    @property
    def queries(self) -> Codes:
        """The codes of the queries."""
        assert isinstance(self.request.queries, Codes)
        return self.request.queries

    @property
    def gallery(self) -> Codes:
        """The codes of the items."""
        assert isinstance(self.request.gallery, Codes)
        return self.request.gallery

    @property
    def n_bits(self) -> int:
        """The length of the codes."""
        return self.queries.n_bits

    @property
    def sparse(self) -> bool:
        """Whether only judged pairs have a grade."""
        return self.request.relevance.background == UNJUDGED

    def prepare(self) -> None:
        """Make what all blocks share; else several threads would each make it."""
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(functools.partial(getattr, self), self._shared()))

    def _shared(self) -> list[str]:
        """The names of what all blocks share; no two of them need the same."""
        names = []
        if self.method == "table":
            names.append("_tables")
        if self.method == "scan":
            names.append("_planes" if self.by_planes else "_sorted")
        if self.request.excluded_groups is not None:
            _ = self.request.excluded_groups.order
        if self.needs.radius is not None:
            if self.needs.ball:
                names.append("_distinct_words")
            elif self.method != "table" or self.request.excluded_groups is not None:
                names.append("_repeated")
            else:
                names[:] = ["_largest_table"]  # which needs the tables
        return names

    @functools.cached_property
    def _sorted(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The words of the gallery, sorted by label, and the labels of each level in that order."""
        order = self.levels[-1].order if self.levels else None
        if len(self.levels) > 1:
            order = np.lexsort([level.gallery for level in reversed(self.levels)])
        words = self.gallery.words if order is None else self.gallery.words[order]
        return np.ascontiguousarray(words.T), [level.gallery[order] for level in self.levels]

    @functools.cached_property
    def _distinct(self) -> DistinctCodes:
        return distinct_codes(self.gallery, with_index=self.request.excluded_groups is not None)

    @functools.cached_property
    def _distinct_words(self) -> np.ndarray:
        return np.ascontiguousarray(self._distinct.words.T)

    @functools.cached_property
    def _largest_table(self) -> np.ndarray:
        table = np.zeros((min(self.needs.radius or 0, self.n_bits) + 1, 2**self.n_bits), np.uint32)
        table[0] = self._tables[1]
        kernels(table.size * self.n_bits).spread_largest(table)
        return table

    @functools.cached_property
    def _repeated(self) -> DistinctCodes:
        if self.request.excluded_groups is None:
            return repeated_codes(self.gallery, self.threads)
        return self._distinct.repeated()

    @functools.cached_property
    def _planes(self) -> tuple[list[Groups], LabelKeys, BitPlanes]:
        """The levels of labels that the planes are sorted by, their keys, and the planes of the gallery."""
        sliced = [level for level in self.levels if self._label_planes_pay(level)]
        keys = label_keys(sliced)
        for level in self.levels[len(sliced) :]:
            _ = level.order
        return sliced, keys, slice_codes(self.gallery, keys, self.threads)

    def planes_pay(self) -> bool:
        """Whether a scan of bit planes costs less than one of words, and enough less to be worth compiling."""
        n, few = len(self.gallery), len(self.queries) < PLANE_QUERIES
        if not (self.levels or self.sparse) or self.n_bits > MAX_PLANE_BITS or n > MAX_ITEMS or few:
            return False
        enough = n >= max(PLANE_ITEMS, 2 * self.n_bits**2) and len(self.queries) * n >= PLANE_PAIRS
        return enough and bool(kernels().HAS_VECTOR_POPCOUNT)

    def _label_planes_pay(self, level: Groups) -> bool:
        """Whether labels have enough items to sort the planes by them: each label and weight ends with a transform."""
        return len(self.gallery) >= ITEMS_OF_A_RUN * level.n_groups * (self.n_bits + 1)

    def table_pays(self) -> bool:
        """Whether spreading tables costs less than meeting every item; an addition there is half a pair here."""
        by_block = not self.levels and not self.sparse
        if self.n_bits > MAX_TABLE_BITS or by_block:
            return False
        labels = sum(len(np.unique(level.queries)) for level in self.levels)
        additions = (1 + labels) * self.n_bits * (self.n_bits + 1) / 2 * 2**self.n_bits
        return additions / 2 + len(self.gallery) < len(self.queries) * len(self.gallery)

    def __call__(self, block: slice) -> Tally:
        """The tally of the queries in a slice."""
        block = slice(*block.indices(len(self.queries)))
        n = block.stop - block.start
        # kept grade by grade, so that the items of one grade are contiguous
        by_grade = np.zeros((self.request.relevance.max_grade + 1, n, self.n_bits + 1), np.int64)
        counts, unjudged = np.moveaxis(by_grade, 0, 2), np.zeros(by_grade.shape[1:], np.int64)
        if self.method == "plain":
            self._plain(block, counts, unjudged)
        else:
            if self.levels or self.sparse:
                by_level = self._tables[0][:, block] if self.method == "table" else self._scan(block)
                if self.sparse:
                    unjudged += by_level[0]
                    self._move_judged(block, counts, unjudged)
                else:
                    by_grade[:] = by_level  # items of grade v or more, less those of a higher grade
                    by_grade[:-1] -= by_level[1:]
            else:
                self._scan_blocks(block, by_grade)
            self._take_out(block, counts, unjudged)
        ball = self._ball(block) if self.needs.ball and self.needs.radius is not None else None
        largest = None
        if self.needs.radius is not None:
            largest = self._largest(block, counts.sum(2) + unjudged) if ball is None else ball.largest(n)
        return Tally(
            query_ids=self.request.query_ids[block],
            counts=counts,
            unjudged=unjudged,
            method=self.method,
            n_bits=self.n_bits,
            largest=largest,
            ball=ball,
            unranked=self.request.relevance.unranked_of(block),
        )

    @functools.cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Items at each distance from every query (all, then those of its label at each level); items on each code."""
        words, codes = self.gallery.words[:, 0], self.queries.words[:, 0].astype(np.int64)
        out = np.zeros((1 + len(self.levels), len(codes), self.n_bits + 1), np.int64)
        on_any: np.ndarray | None = None

        def spread(task: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
            on_code, queries, target = task
            table = np.zeros((self.n_bits + 1, 2**self.n_bits), np.uint32)
            table[0] = on_code
            kernels(table.size * self.n_bits).spread(table)
            target[queries] = table[:, codes[queries]].T

        per_batch = max(1, (1 << 26) >> self.n_bits)  # labels of which the items on each code fit into 256 MB
        with ThreadPoolExecutor(self.threads) as pool:
            for target, level in zip(out[1:], self.levels, strict=True):
                labels = np.unique(level.queries)
                for batch in np.array_split(labels, -(-len(labels) // per_batch)):
                    number = np.full(level.n_groups, -1, np.int32)
                    number[batch] = np.arange(len(batch))
                    on_code = np.zeros((len(batch), 2**self.n_bits), np.uint32)
                    kernels(5 * len(words)).tabulate(words, level.gallery, number, on_code)
                    if len(batch) == level.n_groups:  # no label is missing: their sum is the whole gallery
                        on_any = on_code.sum(0, dtype=np.int64)
                    queries = [np.flatnonzero(level.queries == label) for label in batch]
                    list(pool.map(spread, zip(on_code, queries, [target] * len(batch), strict=True)))
        if on_any is None:
            on_any = items_on_codes(self.gallery)
        spread((on_any, np.arange(len(codes)), out[0]))
        return out, on_any

    def _scan(self, block: slice) -> np.ndarray:
        """The first part of `_tables`, for the queries of a block, by comparing each with the whole gallery."""
        n = block.stop - block.start
        out = np.zeros((1 + len(self.levels), n, self.n_bits + 1), np.int64)
        words = self.queries.words[block]
        if self.by_planes:
            sliced, keys, planes = self._planes
            planes.count(words, keys.ranges(sliced, block), out[: 1 + len(sliced)])
            for target, level in zip(out[1 + len(sliced) :], self.levels[len(sliced) :], strict=True):
                self._scan_gathered(block, level, target)
            return out
        gallery, gallery_labels = self._sorted
        _run(words, gallery, np.array([[0, n, 0, len(self.gallery)]]), out[0])
        for target, level, labels in zip(out[1:], self.levels, gallery_labels, strict=True):
            order, names, edges = _queries_by_label(level.queries[block])
            counted = np.zeros((n, self.n_bits + 1), np.int64)
            runs = np.stack([*edges, *_runs(labels, names)], axis=1)
            _run(words[order], gallery, runs.astype(np.int64), counted)
            target[order] = counted
        return out

    def _scan_gathered(self, block: slice, level: Groups, target: np.ndarray) -> None:
        """Count the items of each query's label, where labels have few: a copy of some labels' items at a time."""
        order, _, (firsts, lasts) = _queries_by_label(level.queries[block])
        words = self.queries.words[block][order]
        starts, ends = (edges[order[firsts]] for edges in level.runs(block))
        counted = np.zeros_like(target)
        batches = np.cumsum(ends - starts) // GATHERED
        for batch in np.split(np.arange(len(firsts)), np.flatnonzero(np.diff(batches)) + 1):
            sizes = ends[batch] - starts[batch]
            ahead = np.cumsum(sizes) - sizes
            items = level.order[np.repeat(starts[batch] - ahead, sizes) + np.arange(sizes.sum())]
            runs = np.stack([firsts[batch], lasts[batch], ahead, ahead + sizes], axis=1)
            _run(words, np.ascontiguousarray(self.gallery.words[items].T), runs, counted)
        target[order] = counted

    def _scan_blocks(self, block: slice, counts: np.ndarray) -> None:
        """Any relevance: grades of a block of items at a time, some megabytes each."""
        step = max(1024, (1 << 24) // counts.shape[1])
        words = self.queries.words[block]
        for start in range(0, len(self.gallery), step):
            grades = self.request.relevance.block(block, slice(start, min(start + step, len(self.gallery))))
            kernels(10 * grades.size).scan_graded(words, self._sorted[0], start, grades, counts)

    def _pair_distances(self, block: slice, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        differ = self.queries.words[block][queries] ^ self.gallery.words[items]
        return np.bitwise_count(differ).sum(1, dtype=np.int64)

    def _move_judged(self, block: slice, counts: np.ndarray, unjudged: np.ndarray) -> None:
        special = [self.request.relevance.special(query) for query in range(block.start, block.stop)]
        queries = np.repeat(np.arange(len(special)), [len(items) for items, _ in special])
        items, grades = (np.concatenate([pair[i] for pair in special]) for i in (0, 1))
        distances = self._pair_distances(block, queries, items)
        np.add.at(counts, (queries, distances, grades), 1)
        np.subtract.at(unjudged, (queries, distances), 1)

    def _take_out(self, block: slice, counts: np.ndarray, unjudged: np.ndarray) -> None:
        """Undo the counting of excluded items."""
        if self.request.excluded_groups is None:
            return
        queries, items = self.request.excluded_groups.pairs(block)
        distances = self._pair_distances(block, queries, items)
        grades = self.request.relevance.of_pairs(queries + block.start, items)
        judged = grades != UNJUDGED
        np.subtract.at(counts, (queries[judged], distances[judged], grades[judged]), 1)
        np.subtract.at(unjudged, (queries[~judged], distances[~judged]), 1)

    def moved(self, block: slice) -> tuple[np.ndarray, np.ndarray]:
        """What judged and excluded items change of counts of all items, and of unjudged ones; it may be below zero."""
        counts = np.zeros((block.stop - block.start, self.n_bits + 1, self.request.relevance.max_grade + 1), np.int64)
        unjudged = np.zeros(counts.shape[:2], np.int64)
        if self.sparse:
            self._move_judged(block, counts, unjudged)
        self._take_out(block, counts, unjudged)
        return counts, unjudged

    def _plain(self, block: slice, counts: np.ndarray, unjudged: np.ndarray) -> None:
        for i, query in enumerate(range(block.start, block.stop)):
            distances = np.bitwise_count(self.gallery.words ^ self.queries.words[query]).sum(1, dtype=np.int64)
            grades = self.request.relevance.block(slice(query, query + 1), slice(0, len(self.gallery)))[0]
            ranks = np.ones(len(distances), bool)
            if self.request.excluded_groups is not None:
                ranks[self.request.excluded_groups.items(query)] = False
            for grade in range(counts.shape[2]):
                counts[i, :, grade] = np.bincount(distances[ranks & (grades == grade)], minlength=self.n_bits + 1)
            unjudged[i] = np.bincount(distances[ranks & (grades == UNJUDGED)], minlength=self.n_bits + 1)

    def _excluded_codes(self, block: slice, codes: DistinctCodes) -> tuple[np.ndarray, np.ndarray]:
        """Where each query's excluded items start, and the rows of their codes among the distinct codes."""
        n = block.stop - block.start
        if self.request.excluded_groups is None:
            return np.zeros(n + 1, np.int64), np.zeros(0, np.int64)
        queries, items = self.request.excluded_groups.pairs(block)
        assert codes.index is not None
        rows = codes.index[items]
        listed = rows >= 0
        return np.searchsorted(queries[listed], np.arange(n + 1)), rows[listed]

    def _largest(self, block: slice, present: np.ndarray) -> np.ndarray:
        """The largest number of items on one code at each distance up to the radius, given how many items are there.

        A code with one item matters only where there is no other: the codes that have several are compared with.
        """
        assert self.needs.radius is not None
        radius = min(self.needs.radius, self.n_bits)
        if self.method == "table" and self.request.excluded_groups is None:
            return self._largest_table[:, self.queries.words[block, 0].astype(np.int64)].T.astype(np.int64)
        out = (present[:, : radius + 1] > 0).astype(np.int64)
        starts, excluded = self._excluded_codes(block, self._repeated)
        words = np.ascontiguousarray(self._repeated.words.T)
        loops = kernels(2 * len(out) * (words.size + 2000))
        loops.largest(self.queries.words[block], words, self._repeated.counts, starts, excluded, out)
        return out

    def _ball(self, block: slice) -> Ball:
        assert self.needs.radius is not None
        starts, excluded = self._excluded_codes(block, self._distinct)
        parts, room = [], 1024
        loops = kernels(len(starts) * (self._distinct_words.size + 2000))
        for i, words in enumerate(self.queries.words[block]):
            rows, distances = np.empty(room, np.int64), np.empty(room, np.int64)
            n_near = loops.near(words, self._distinct_words, self.needs.radius, rows, distances)
            if n_near > room:
                room = 2 * n_near
                rows, distances = np.empty(room, np.int64), np.empty(room, np.int64)
                loops.near(words, self._distinct_words, self.needs.radius, rows, distances)
            rows, distances = rows[:n_near], distances[:n_near]
            counts = self._distinct.counts[rows]
            left_out = excluded[starts[i] : starts[i + 1]]
            if len(left_out):
                counts = counts - (rows[:, None] == left_out).sum(1)
            there = counts > 0
            parts.append((np.full(there.sum(), i), self._distinct.words[rows[there]], distances[there], counts[there]))
        radius = min(self.needs.radius, self.n_bits)
        return Ball(radius, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _run(words: np.ndarray, gallery: np.ndarray, runs: np.ndarray, out: np.ndarray) -> None:
    """Scan runs of a gallery (words, items), in the way that is best on this processor."""
    loops = kernels(len(words) * (gallery.size + 2000))
    loops.scan(np.ascontiguousarray(words), gallery, runs, loops.HAS_VECTOR_POPCOUNT, out)


def _queries_by_label(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """An order in which queries of one label, which share their items, stand together; the labels, and their edges."""
    order = np.argsort(labels, kind="stable")
    names, firsts = np.unique(labels[order], return_index=True)
    return order, names, (firsts, np.append(firsts[1:], len(labels)))


def _runs(labels: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the run of each wanted label starts and ends; equal labels stand together, the runs in any order."""
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    starts = np.concatenate([[0], changes])
    ends = np.concatenate([changes, [len(labels)]])
    order = np.argsort(labels[starts], kind="stable")
    names = labels[starts][order]
    run = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    occurs = names[run] == wanted
    return np.where(occurs, starts[order][run], 0), np.where(occurs, ends[order][run], 0)
