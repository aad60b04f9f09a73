"""Galleries in shards against the same galleries in memory: every number of every query, bit for bit.

What a vacuous test would let pass: one shard only, or shards that all divide alike (sizes are drawn, 1 row each among
them); rows that lie in shards as they lie in memory (they are shuffled wherever positions do not matter); a way of
counting that is never taken (`tally.method` is asserted, passes over the gallery are counted); ties within a shard only
(codes crowd around a few, embeddings repeat across shards); labels that every shard has (one is in one shard, one in
none); numbers that are equal because all are undefined (`assert_same` wants some that are not); and partials that are
written but never read (the second run must not count anything at all).
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

import lookalike as la
from helpers.strategies import clustered_bits
from lookalike.evaluation.count_shards import codes as shard_codes
from lookalike.evaluation.count_shards import scores as shard_scores
from lookalike.evaluation.count_shards import search as shard_search
from lookalike.shards import map_reduce as gathering
from lookalike.shards.gallery import ShardPart, Shards, ShardWriter
from lookalike.shards.map_reduce import Partial, _Sum, summed

Array = NDArray[Any]
WORKS = {
    "Scanned": shard_codes.Scanned,
    "OnCodes": shard_codes.OnCodes,
    "First": shard_scores.First,
    "Marks": shard_scores.Marks,
    "MarkRanks": shard_scores.MarkRanks,
    "Counted": shard_scores.Counted,
}

KEPT = ["Judged@3", "Bpref", "RBP", "RBP(p=0.5)@4", "RBP(part='residual')", "RBP(part='residual')@5"]
KEPT_CUT = [name for name in KEPT if "@" in name]
CUT = [
    "AP@3",
    "AP(norm='total')@5",
    "AP(norm='min')@5",
    "AP(rel=2)@4",
    "nDCG@4",
    "nDCG(gain='linear')@7",
    "DCG@3",
    "P@5",
    "R@5",
    "Hit@2",
    "RR@4",
    "VSDHR@3",
    "VSDHR(norm='positives')@3",
    "VSDHR(norm='pairs')@4",
    "VSDMRR@5",
]
FAR = ["AP@20", "AP@1000", "P@1000", "nDCG@1000"]  # past the end of a shard, and of most galleries
WHOLE = ["AP", "AP(rel=2)", "nDCG", "nDCG(gain='linear')", "DCG", "Hit", "RR"]
AREAS = ["AUC", "PRAUC", "AUC(rel=2)"]
MICRO = ["AUC(average='micro')", "PRAUC(average='micro')"]
NEGATIVES = [
    f"{area}(average={average!r}, negatives={negatives!r}, rel={rel})"
    for area in ("AUC", "PRAUC")
    for average in ("macro", "micro")
    for negatives in ("sampled", "both")
    for rel in (1, 2)
]
LGAP = [f"LGAP@{radius}" for radius in range(4)]
WITHIN = ["P(radius=0)", "P(radius=1.5)", "R(radius=2)", "R(radius=0)"]
OF_CODES = [*CUT, *FAR, *WHOLE, *AREAS, *MICRO, *KEPT, *LGAP, *WITHIN]


# Relevance of a gallery in memory, and of the same one in shards


@dataclass(frozen=True)
class Relevant:
    """Relevance in memory; columns that shards bring; relevance of shards; whether rows may lie in any order."""

    memory: Any
    columns: dict[str, Array]
    sharded: Callable[[Shards], Any]
    moves: bool = True
    judged: bool = False


@dataclass(frozen=True)
class Names:
    """Ids of queries and items: some queries are items. None: positions."""

    queries: Array | None
    items: Array | None

    def query(self, place: int) -> Any:
        return place if self.queries is None else self.queries[place].item()

    def item(self, place: int) -> Any:
        return place if self.items is None else self.items[place].item()


def in_memory(relevance: Any) -> Relevant:
    """Relevance that the user holds for all items, by their positions."""
    return Relevant(relevance, {}, lambda _: relevance, moves=False)


def int_labels(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Array, Array]:
    """Labels of queries and items; one that a single item has, and one that none has."""
    queries, items = rng.integers(0, 4, n_queries), rng.integers(0, 4, n_items)
    items[rng.integers(n_items)] = queries[0] = 9
    if n_queries > 1:
        queries[-1] = 10
    return queries, items


def labels_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    q, g = int_labels(rng, n_queries, n_items)
    return Relevant(la.same_label(q, g), {"labels": g}, lambda shards: la.same_label(q, shards["labels"]))


def labels_in_memory_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    return in_memory(la.same_label(*int_labels(rng, n_queries, n_items)))


def far_labels_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    """Labels too far apart to be numbered without sorting, but in some shards near each other."""
    values = np.array([-(10**15), 10**15, 10**15 + 1, 3, 2**62])
    q, g = (values[rng.integers(0, 5, n)] for n in (n_queries, n_items))
    return Relevant(la.same_label(q, g), {"labels": g}, lambda shards: la.same_label(q, shards["labels"]))


def string_labels_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    """Strings of other lengths, so that the types of two shards' arrays differ; those of the queries are a list."""
    names = ["cat", "", "Katze", "a longer name", *map(str, range(4, 9)), "in one shard", "in no shard"]
    q, g = ([names[i] for i in labels] for labels in int_labels(rng, n_queries, n_items))
    return Relevant(la.same_label(q, g), {"labels": np.array(g)}, lambda shards: la.same_label(q, shards["labels"]))


def nested_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    q, g = int_labels(rng, n_queries, n_items)
    columns = {"fine": g, "coarse": np.array([f"over {label}" for label in g // 2])}
    coarse = [f"over {label}" for label in q // 2]
    return Relevant(
        la.hierarchy((q, coarse), (g, columns["coarse"])),
        columns,
        lambda shards: la.hierarchy((q, coarse), (shards["fine"], shards["coarse"])),
    )


def crossed_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    """Fine labels under several coarse ones: no hierarchy in all, though many a shard has one."""
    (qf, gf), (qc, gc) = (int_labels(rng, n_queries, n_items) for _ in range(2))
    return Relevant(
        la.hierarchy((qf, qc), (gf, gc)),
        {"fine": gf, "coarse": gc},
        lambda shards: la.hierarchy((qf, qc), (shards["fine"], shards["coarse"])),
    )


def crossed_in_memory_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    (qf, gf), (qc, gc) = (int_labels(rng, n_queries, n_items) for _ in range(2))
    return in_memory(la.hierarchy((qf, qc), (gf, gc)))


def tags_of(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Array, Array]:
    """Few tags each, but one item and one query with all: a single shard has the highest grade."""
    q, g = (rng.integers(0, 4, (n, 5)) == 0 for n in (n_queries, n_items))
    q[0] = g[rng.integers(n_items)] = True
    return q, g


def tags_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    q, g = tags_of(rng, n_queries, n_items)
    g = g.astype(rng.choice([bool, np.uint8, np.int64, np.float32]))
    return Relevant(la.shared_tags(q, g), {"tags": g}, lambda shards: la.shared_tags(q, shards["tags"]))


def tags_in_memory_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    return in_memory(la.shared_tags(*tags_of(rng, n_queries, n_items)))


def attributes_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    q, g = (rng.integers(0, 3, (n, 3)) for n in (n_queries, n_items))
    if rng.integers(2):
        q, g = np.array(["red", "", "a long colour"])[q], np.array(["red", "", "a long colour"])[g]
    return Relevant(
        la.matching_attributes(q, g), {"attributes": g}, lambda shards: la.matching_attributes(q, shards["attributes"])
    )


def attributes_in_memory_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    return in_memory(la.matching_attributes(*(rng.integers(0, 3, (n, 3)) for n in (n_queries, n_items))))


def dense_kind(rng: np.random.Generator, n_queries: int, n_items: int, _: Names) -> Relevant:
    return in_memory(la.grades(rng.integers(0, 4, (n_queries, n_items))))


def judged_kind(rng: np.random.Generator, n_queries: int, n_items: int, names: Names) -> Relevant:
    """Some pairs judged, some sampled, some neither; a query that nobody judged; judged items that are nowhere."""
    matrix = rng.choice([-2, -1, 0, 1, 2], (n_queries, n_items), p=[0.4, 0.2, 0.2, 0.1, 0.1])
    matrix[0, 0] = 1
    if n_queries > 2:
        matrix[-1] = -1
    pairs = [(names.query(q), names.item(i), int(matrix[q, i])) for q, i in np.argwhere(matrix >= 0)]
    sampled = [(names.query(q), names.item(i)) for q, i in np.argwhere(matrix == -1)]
    nowhere = -7 if isinstance(names.item(0), int) else "nowhere"
    pairs += [(names.query(q), nowhere, int(rng.integers(3))) for q in range(n_queries) if rng.integers(2)]
    sampled += [(names.query(0), -8 if nowhere == -7 else "nowhere too")]
    relevance = la.judged(pairs, sampled=sampled)
    return Relevant(relevance, {}, lambda _: relevance, moves=names.items is not None, judged=True)


KINDS: dict[str, Callable[[np.random.Generator, int, int, Names], Relevant]] = {
    "labels": labels_kind,
    "labels in memory": labels_in_memory_kind,
    "labels far apart": far_labels_kind,
    "string labels": string_labels_kind,
    "nested hierarchy": nested_kind,
    "crossed hierarchy": crossed_kind,
    "crossed hierarchy in memory": crossed_in_memory_kind,
    "tags": tags_kind,
    "tags in memory": tags_in_memory_kind,
    "attributes": attributes_kind,
    "attributes in memory": attributes_in_memory_kind,
    "dense grades": dense_kind,
    "judged": judged_kind,
}
TABLED = ("labels", "labels in memory", "string labels", "judged")


def names_of(rng: np.random.Generator, n_queries: int, n_items: int, kind: str) -> Names:
    if kind == "positions":
        return Names(None, None)
    items = rng.permutation(n_items + 20)[:n_items]  # not the positions, and in no order
    own = items[rng.permutation(n_items)[: n_queries // 2]]
    queries = np.concatenate([own, 10_000 + np.arange(n_queries - len(own))])
    if kind == "strings":
        return Names(np.array([f"i{name}" for name in queries]), np.array([f"i{name}" for name in items]))
    return Names(queries, items)


# A gallery in memory and in shards


@dataclass(frozen=True)
class World:
    """Queries and a gallery, who is relevant and who left out, and how the rows lie in shards."""

    queries: Any
    gallery: Any
    relevant: Relevant
    names: Names
    excluded: str = "nobody"  # "by column", "by array", "self"
    sizes: Sequence[int] = ()
    order: Array | None = None  # of the rows in shards; None: as in memory
    similarity: str | None = None
    groups: tuple[Array, Array] | None = None

    def memory(self, metrics: Sequence[str], **options: Any) -> Any:
        return la.evaluate(self.queries, self.gallery, self.relevant.memory, metrics, **self._memory(), **options)

    def count_memory(self, **options: Any) -> la.Tally:
        return la.count(self.queries, self.gallery, self.relevant.memory, **self._memory(), **options)

    def sharded(self, shards: Shards, metrics: Sequence[str], **options: Any) -> Any:
        relevance, about = self.relevant.sharded(shards), self._sharded(shards)
        return la.evaluate(self.queries, shards, relevance, metrics, **about, **options)

    def count_sharded(self, shards: Shards, **options: Any) -> la.Tally:
        return la.count(self.queries, shards, self.relevant.sharded(shards), **self._sharded(shards), **options)

    def _memory(self) -> dict[str, Any]:
        exclude = {"nobody": None, "self": "self"}.get(self.excluded, self.groups)
        return {**self._common, "gallery_ids": self.names.items, "exclude": exclude}

    def _sharded(self, shards: Shards) -> dict[str, Any]:
        exclude: Any = {"nobody": None, "self": "self"}.get(self.excluded, self.groups)
        if self.excluded == "by column":
            assert self.groups is not None
            exclude = self.groups[0], shards["groups"]
        ids = None if self.names.items is None else shards["ids"]
        return {**self._common, "gallery_ids": ids, "exclude": exclude}

    @property
    def _common(self) -> dict[str, Any]:
        return {"query_ids": self.names.queries, "similarity": self.similarity}

    def write(self, folder: Path) -> Shards:
        """The gallery in shards of the sizes of this world."""
        columns = dict(self.relevant.columns)
        if self.names.items is not None:
            columns["ids"] = self.names.items
        if self.excluded == "by column":
            assert self.groups is not None
            columns["groups"] = self.groups[1]
        return written(folder, self.gallery, self.sizes, columns, self.order)


def written(
    folder: Path, vectors: Any, sizes: Sequence[int], columns: dict[str, Array], order: Array | None = None
) -> Shards:
    n_bits = vectors.n_bits if isinstance(vectors, la.Codes) else None
    arrays = {"embeddings": vectors} if n_bits is None else {"codes": vectors.to_bytes()}
    arrays |= columns
    assert sum(sizes) == len(vectors)
    if order is not None:
        arrays = {name: array[order] for name, array in arrays.items()}
    writer, start = ShardWriter(folder, n_bits=n_bits), 0
    for number, size in enumerate(sizes):
        writer.put(number, {name: array[start : start + size] for name, array in arrays.items()})
        start += size
    writer.close()
    return Shards.open(folder)


@contextlib.contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    """Where shards and partials may lie: hypothesis calls a test many times, a fixture once."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "gallery", Path(name) / "partials"


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the words of its error."""
    try:
        return call()
    except ValueError as error:
        return str(error)


def assert_same(found: Any, expected: Any) -> None:
    """The same bits of every query and metric, or the same error."""
    if isinstance(expected, str):
        assert found == expected
        return
    assert list(found) == list(expected)
    np.testing.assert_array_equal(found.query_ids, expected.query_ids)
    for metric in expected:
        assert found[metric].undefined == expected[metric].undefined, metric
        for name, mine, theirs in zip(
            ("expected", "best", "worst"), found[metric].values, expected[metric].values, strict=True
        ):
            assert np.array_equal(mine, theirs, equal_nan=True), (
                f"{name} of {metric}: {mine[mine != theirs][:3]} in place of {theirs[mine != theirs][:3]}"
            )


def assert_counts(found: la.Tally, expected: la.Tally) -> None:
    """The same counts; groups without items, and grades that no item has, may be missing."""
    np.testing.assert_array_equal(found.query_ids, expected.query_ids)
    both = [np.concatenate([tally.counts, tally.unjudged[:, :, None]], axis=2) for tally in (found, expected)]
    if found.n_bits is None:
        both = [packed_groups(counts) for counts in both]
    widths = [max(counts.shape[i] for counts in both) for i in (1, 2)]
    mine, theirs = (
        np.pad(
            np.insert(counts, [counts.shape[2] - 1] * (widths[1] - counts.shape[2]), 0, axis=2),
            ((0, 0), (0, widths[0] - counts.shape[1]), (0, 0)),
        )
        for counts in both
    )
    assert mine.dtype == np.int64
    np.testing.assert_array_equal(mine, theirs)
    assert (found.largest is None) == (expected.largest is None)
    if expected.largest is not None:
        np.testing.assert_array_equal(found.largest, expected.largest)
    assert unranked_rows(found) == unranked_rows(expected)


def packed_groups(counts: Array) -> Array:
    """Without groups that hold nothing."""
    rows = [row[row.any(1)] for row in counts]
    out = np.zeros((len(rows), max(map(len, rows)), counts.shape[2]), np.int64)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out


def unranked_rows(tally: la.Tally) -> list[tuple[int, str, int]]:
    if tally.unranked is None:
        return []
    columns = (tally.unranked.queries, tally.unranked.items, tally.unranked.grades)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def some_are_defined(evaluation: Any) -> bool:
    """Whether there is something to compare."""
    return any(score.mean > 0 and score.undefined < len(score.per_query) for score in evaluation.scores.values())


@st.composite
def divided(draw: DrawFn, n_items: int) -> list[int]:
    """Sizes of shards."""
    way = draw(st.sampled_from(["one", "a row each", "equal", "any"]))
    if way == "one":
        return [n_items]
    if way == "a row each" and n_items <= 12:
        return [1] * n_items
    if way == "equal":
        rows = draw(st.integers(-(-n_items // 12), n_items))
        return [min(rows, n_items - start) for start in range(0, n_items, rows)]
    cuts = sorted(draw(st.sets(st.integers(1, n_items - 1), max_size=6))) if n_items > 1 else []
    return np.diff([0, *cuts, n_items]).tolist()


@st.composite
def worlds(draw: DrawFn, what: str, kinds: Sequence[str] = tuple(KINDS), max_queries: int = 20) -> World:
    """what: "codes" or "embeddings"."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_queries, n_items = draw(st.integers(1, max_queries)), draw(st.integers(1, 60))
    often = ["judged"] * 5 if "judged" in kinds else []  # of policies for the unjudged there are several
    kind = draw(st.sampled_from([*kinds, *often]))
    excluded = draw(st.sampled_from(["nobody", "nobody", "by column", "by array", "self"]))
    named = draw(st.sampled_from(["strings", "ints", "positions"]))
    if excluded == "self" and named == "positions":
        n_queries = n_items = min(n_items, 20)
    names = names_of(rng, n_queries, n_items, named)
    relevant = KINDS[kind](rng, n_queries, n_items, names)
    moves = relevant.moves and excluded != "by array" and not (excluded == "self" and named == "positions")
    world = World(
        *(codes if what == "codes" else embeddings)(draw, rng, n_queries, n_items),
        relevant,
        names,
        excluded,
        draw(divided(n_items)),
        rng.permutation(n_items) if moves else None,
        groups=(rng.integers(0, 8, n_queries), rng.integers(0, 8, n_items)) if excluded.startswith("by") else None,
    )
    return replace(world, similarity=draw(st.sampled_from(SIMILARITIES))) if what == "embeddings" else world


SIMILARITIES = ("cosine", "dot", "euclidean")
N_BITS = (1, 7, 8, 9, 12, 63, 64, 65, 200)


def codes(draw: DrawFn, rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[la.Codes, la.Codes]:
    n_bits = draw(st.sampled_from(N_BITS))
    bits = clustered_bits(rng, n_queries + n_items, n_bits)
    return la.Codes.pack(bits[:n_queries]), la.Codes.pack(bits[n_queries:])


def embeddings(draw: DrawFn, rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Array, Array]:
    width = draw(st.integers(1, 5))
    types = [draw(st.sampled_from([np.float32, np.float64])) for _ in range(2)]
    return repeated_rows(rng, n_queries, width).astype(types[0]), repeated_rows(rng, n_items, width).astype(types[1])


def repeated_rows(rng: np.random.Generator, n: int, width: int) -> Array:
    """Rows that occur several times, on a grid or between, and none of zeros."""
    distinct = max(1, n // 3)
    on_grid = np.random.default_rng(0).integers(-2, 3, (distinct, width)) + 0.5  # the same for queries and items
    anywhere = rng.normal(size=(distinct, width))
    rows = np.where(rng.integers(0, 2, (distinct, 1)) == 0, on_grid, anywhere)
    return rows[rng.integers(0, distinct, n)]


def policies(relevant: Relevant) -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, "irrelevant", "relevant", "condensed", "error"] if relevant.judged else [None])


def metrics_for(world: World, policy: str | None) -> list[str]:
    """All that have a value: metrics of codes, where unjudged items count as the policy says."""
    if not world.relevant.judged:
        return OF_CODES
    if policy is None:
        return [*AREAS, *MICRO, *KEPT, *NEGATIVES]
    return [name for name in [*OF_CODES, *NEGATIVES] if policy != "condensed" or name not in LGAP]


# Codes


def check_same_bits(data: st.DataObject, world: World, metrics: list[str], policy: str | None) -> None:
    """In memory, on several threads, in shards and from partials: the same numbers, or the same error."""
    threads, kept = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    expected = outcome(lambda: world.memory(metrics, unjudged=policy, threads=1))
    assert_same(outcome(lambda: world.memory(metrics, unjudged=policy, threads=3)), expected)
    with folders() as (gallery, partials):
        shards = world.write(gallery)
        for _ in range(1 + kept):
            found = outcome(
                lambda: world.sharded(
                    shards, metrics, unjudged=policy, threads=threads, partials=partials if kept else None
                )
            )
            assert_same(found, expected)
        assert partials.exists() == kept
    event(f"an error: {isinstance(expected, str)}")


@given(st.data())
@settings(max_examples=60)
def test_codes_in_shards_give_the_same_bits(data: st.DataObject) -> None:
    world = data.draw(worlds("codes"))
    policy = data.draw(policies(world.relevant))
    metrics = metrics_for(world, policy)
    check_same_bits(data, world, metrics, policy)


@given(st.data())
@settings(max_examples=80)
def test_counts_of_codes_in_shards(data: st.DataObject) -> None:
    world = data.draw(worlds("codes"))
    radius = data.draw(st.sampled_from([None, 0, 2, 300]))
    expected = world.count_memory(radius=radius, method="plain", threads=1)
    assert_counts(world.count_memory(radius=radius, threads=3), expected)
    with folders() as (gallery, _):
        found = world.count_sharded(world.write(gallery), radius=radius, threads=data.draw(st.integers(1, 3)))
    event(f"counted by {'table' if found.method == 'table' else 'scan'}")
    assert_counts(found, expected)
    assert found.n_bits == expected.n_bits
    assert expected.counts.sum() + expected.unjudged.sum() > 0 or world.excluded != "nobody"


def codes_world(
    rng: np.random.Generator, n_bits: int, kind: str, n_queries: int, n_items: int, excluded: str = "nobody"
) -> World:
    """Many codes, shuffled into shards of several sizes, wherever they may be."""
    names = names_of(rng, n_queries, n_items, "strings")
    relevant = KINDS[kind](rng, n_queries, n_items, names)
    bits = clustered_bits(rng, n_queries + n_items, n_bits)
    moves = relevant.moves and excluded != "by array"
    return World(
        la.Codes.pack(bits[:n_queries]),
        la.Codes.pack(bits[n_queries:]),
        relevant,
        names,
        excluded,
        [1, 7, n_items // 2, n_items - 8 - n_items // 2],
        rng.permutation(n_items) if moves else None,
        groups=(rng.integers(0, 8, n_queries), rng.integers(0, 8, n_items)) if excluded.startswith("by") else None,
    )


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The kind of each work that is done on all shards, and for how many blocks of queries."""
    done: list[tuple[str, int]] = []
    real = shard_search.gather

    def gather(shards: Any, work: Any, **options: Any) -> Any:
        done.append((type(work).__name__, len(work.blocks)))
        return real(shards, work, **options)

    monkeypatch.setattr(shard_search, "gather", gather)
    return done


@pytest.mark.parametrize(("n_bits", "n_queries", "n_items"), [(1, 3, 40), (8, 70, 700), (9, 150, 900)])
@pytest.mark.parametrize("kind", TABLED)
@pytest.mark.parametrize("excluded", ["nobody", "by column", "by array", "self"])
def test_short_codes_are_counted_in_a_table(
    tmp_path: Path,
    kind: str,
    n_bits: int,
    n_queries: int,
    n_items: int,
    excluded: str,
    gathered: list[tuple[str, int]],
) -> None:
    if kind == "judged":  # one row of the table in place of one for each label
        n_queries, n_items = min(n_queries, 40), min(n_items, 400)
    world = codes_world(np.random.default_rng(n_bits), n_bits, kind, n_queries, n_items, excluded)
    shards = world.write(tmp_path)
    tally = world.count_sharded(shards, threads=2)
    assert (tally.method, gathered) == ("table", [("OnCodes", 1)])
    assert_counts(tally, world.count_memory(method="plain"))
    gathered.clear()
    with_radius = world.count_sharded(shards, radius=2, threads=1)
    # of what each query leaves out, the most on a code is another for each: shard by shard, then
    assert gathered == [("OnCodes" if excluded == "nobody" else "Scanned", 1)]
    assert_counts(with_radius, world.count_memory(method="plain", radius=2))
    options = {"unjudged": "irrelevant"} if kind == "judged" else {}
    expected = world.memory(OF_CODES, **options)
    assert some_are_defined(expected)
    assert_same(world.sharded(shards, OF_CODES, **options), expected)


def test_codes_of_twelve_bits_are_counted_in_a_table(tmp_path: Path, gathered: list[tuple[str, int]]) -> None:
    world = codes_world(np.random.default_rng(12), 12, "labels", 300, 4000)
    shards = world.write(tmp_path)
    tally = world.count_sharded(shards, radius=3)
    assert (tally.method, gathered) == ("table", [("OnCodes", 1)])
    assert_counts(tally, world.count_memory(method="scan", radius=3))
    assert_same(world.sharded(shards, OF_CODES), world.memory(OF_CODES))


@pytest.mark.parametrize("n_bits", [12, 63, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_longer_codes_are_scanned(tmp_path: Path, kind: str, n_bits: int, gathered: list[tuple[str, int]]) -> None:
    """Also short ones with relevance that is of pairs, or with more labels than a table pays for."""
    world = codes_world(np.random.default_rng(n_bits), n_bits, kind, 30, 50)
    tally = world.count_sharded(world.write(tmp_path), radius=1, threads=2)
    assert (tally.method, gathered) == ("scan", [("Scanned", 1)])
    assert_counts(tally, world.count_memory(method="plain", radius=1))


def test_more_labels_than_a_table_can_hold_are_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathered: list[tuple[str, int]]
) -> None:
    world = codes_world(np.random.default_rng(0), 7, "labels", 60, 300)
    shards = world.write(tmp_path)
    for most, way in ((7 << 7, "OnCodes"), ((7 << 7) - 1, "Scanned")):  # six labels of queries, and all items
        monkeypatch.setattr(shard_codes, "MOST_COUNTERS", most)
        gathered.clear()
        assert_counts(world.count_sharded(shards, threads=1), world.count_memory(method="plain"))
        assert gathered == [(way, 1)]


# Embeddings


def embeddings_world(
    rng: np.random.Generator,
    kind: str,
    n_queries: int = 12,
    n_items: int = 50,
    *,
    similarity: str = "cosine",
    dtype: type = np.float32,
    sizes: Sequence[int] | None = None,
    width: int = 4,
) -> World:
    names = names_of(rng, n_queries, n_items, "ints")
    relevant = KINDS[kind](rng, n_queries, n_items, names)
    return World(
        repeated_rows(rng, n_queries, width).astype(dtype),
        repeated_rows(rng, n_items, width).astype(dtype),
        relevant,
        names,
        "nobody",
        [1, 7, n_items // 2, n_items - 8 - n_items // 2] if sizes is None else sizes,
        rng.permutation(n_items) if relevant.moves else None,
        similarity,
    )


@given(st.data())
@settings(max_examples=90)
def test_embeddings_in_shards_give_the_same_bits(data: st.DataObject) -> None:
    world = data.draw(worlds("embeddings", max_queries=30))
    policy = data.draw(policies(world.relevant))
    of_all = policy is not None or not world.relevant.judged  # otherwise those alone that may see the unjudged
    cut = data.draw(st.sampled_from(["near", "far", "nowhere"]))
    metrics = [*KEPT_CUT, *(CUT * of_all), *(FAR * (of_all and cut == "far"))]
    if cut == "nowhere":
        metrics += [*KEPT, *([*FAR, *WHOLE, *AREAS] if of_all else AREAS)]
    check_same_bits(data, world, metrics, policy)


@given(st.data())
@settings(max_examples=50)
def test_counts_of_embeddings_in_shards(data: st.DataObject) -> None:
    world = data.draw(worlds("embeddings"))
    expected = world.count_memory(scores=False, method="plain", threads=1)
    assert_counts(world.count_memory(scores=False, threads=3), expected)
    with folders() as (gallery, _):
        found = world.count_sharded(world.write(gallery), scores=False, threads=data.draw(st.integers(1, 3)))
    assert found.method == "shards"
    assert found.similarity == world.similarity
    assert_counts(found, expected)


@given(st.data())
@settings(max_examples=50)
def test_metrics_within_a_radius(data: st.DataObject) -> None:
    """Radii that go right through items, beside metrics of all items."""
    world = data.draw(worlds("embeddings", [kind for kind in KINDS if kind != "judged"]))
    world = replace(world, similarity="euclidean")
    first = world.queries[0].astype(float) - world.gallery.astype(float)
    through = math.sqrt((first**2).sum(1)[data.draw(st.integers(0, len(first) - 1))])
    metrics = [
        *WITHIN,
        f"P(radius={through!r})",
        f"R(radius={through!r})",
        "P(radius=1000)",
        *CUT,
        *FAR,
        *WHOLE,
        *AREAS,
    ]
    expected = world.memory(metrics, threads=1)
    with folders() as (gallery, _):
        assert_same(world.sharded(world.write(gallery), metrics, threads=data.draw(st.integers(1, 3))), expected)


@pytest.mark.parametrize("policy", ["irrelevant", "condensed"])
def test_metrics_within_a_radius_of_judged_pairs(tmp_path: Path, policy: str) -> None:
    world = embeddings_world(np.random.default_rng(1), "judged", similarity="euclidean")
    expected = world.memory([*WITHIN, *WHOLE, *CUT], unjudged=policy)
    assert 0 < expected["P(radius=1.5)"].mean < 1
    assert_same(world.sharded(world.write(tmp_path), [*WITHIN, *WHOLE, *CUT], unjudged=policy), expected)


@pytest.mark.parametrize("policy", ["relevant", "condensed"])
def test_a_radius_changes_nothing_of_what_unjudged_items_count(tmp_path: Path, policy: str) -> None:
    metrics = [*WITHIN, *WHOLE, *CUT, *KEPT]
    for seed in range(6):
        world = embeddings_world(np.random.default_rng(seed), "judged", 20, 100, similarity="euclidean", width=5)
        shards = world.write(tmp_path / str(seed))
        assert_same(world.sharded(shards, metrics, unjudged=policy), world.memory(metrics, unjudged=policy))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("query_type", [np.float32, np.float64])
@pytest.mark.parametrize("item_type", [np.float32, np.float64])
def test_pairs_of_all_queries_together(tmp_path: Path, similarity: str, query_type: type, item_type: type) -> None:
    """Queries that differ by their length alone have the same cosines: what ties across queries must tie in shards."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        world = embeddings_world(rng, "judged", 20, 60, similarity=similarity, dtype=item_type)
        queries = rng.normal(size=world.queries.shape).astype(query_type)
        queries[10:] = queries[:10] * 3
        world = replace(world, queries=queries)
        metrics = [*MICRO, *NEGATIVES, *AREAS]
        expected = world.memory(metrics)
        assert some_are_defined(expected)
        assert_same(world.sharded(world.write(tmp_path / str(seed)), metrics, threads=2), expected)


@pytest.mark.parametrize("kind", ["labels", "tags", "judged", "dense grades"])
def test_more_queries_than_are_scored_at_once(tmp_path: Path, kind: str) -> None:
    """In memory blocks of 96 queries, in shards others: blocks of few groups and of many."""
    world = embeddings_world(np.random.default_rng(3), kind, 203, 150, dtype=np.float64)
    shards = world.write(tmp_path)
    options = {"unjudged": "irrelevant"} if kind == "judged" else {}
    for metrics in (CUT, [*CUT, *FAR], [*CUT, *FAR, *WHOLE, *AREAS, *KEPT]):
        expected = world.memory(metrics, threads=1, **options)
        assert some_are_defined(expected)
        assert_same(world.memory(metrics, threads=3, **options), expected)
        for threads in (1, 3):
            assert_same(world.sharded(shards, metrics, threads=threads, **options), expected)


def passes_of(sizes: list[int], room: int) -> int:
    """How many passes are made where each takes queries as long as there is room for them."""
    passes, left = 1, room
    for size in sizes:
        if size > left and left < room:
            passes, left = passes + 1, room
        left -= size
    return passes


@pytest.mark.parametrize("kind", ["labels", "judged", "dense grades", "tags"])
def test_several_passes_over_the_gallery(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, gathered: list[tuple[str, int]]
) -> None:
    """Where the marks of all queries do not fit into memory together."""
    world = embeddings_world(np.random.default_rng(5), kind, 30, 50)
    shards = world.write(tmp_path)
    options = {"unjudged": "irrelevant"} if kind == "judged" else {}
    for metrics, work in ((["AP@3", "nDCG@7", *FAR], "First"), (["AP@3", *WHOLE, "AUC"], "Marks")):
        expected = world.memory(metrics, **options)
        passes = {}
        for marks, in_a_tally in ((1 << 28, 1), (1 << 28, 64 * 40), (1 << 28, 1 << 24), (64 * 150, 64 * 40), (1, 1)):
            monkeypatch.setattr(shard_scores, "MARKS", marks)
            monkeypatch.setattr(shard_scores, "TALLIES", in_a_tally)
            gathered.clear()
            assert_same(world.sharded(shards, metrics, threads=2, **options), expected)
            passes[marks] = [name for name, _ in gathered].count(work)
        assert passes[1 << 28] == 1
        marked = np.full(30, 50)  # items of each query that are kept: all, for cutoffs past the end
        if work == "Marks" and kind != "judged":
            marked = world.count_memory(scores=False).counts[:, :, 1:].sum((1, 2))
        if work == "First" or kind != "judged":
            assert passes[64 * 150] == passes_of(marked.tolist(), 150)
        assert 1 < passes[64 * 150] < 20
        assert 20 < passes[1] <= 30  # one query a pass, and those that have no mark with it
    assert ("Counted" in [name for name, _ in gathered]) == (kind != "judged")  # what is judged is known beforehand


@pytest.mark.parametrize("policy", ["irrelevant", "relevant", "condensed"])
def test_what_unjudged_items_count_where_metrics_are_cut(tmp_path: Path, policy: str) -> None:
    """Left out, they bring others up from far below the cutoff."""
    for seed in range(4):
        world = embeddings_world(np.random.default_rng(seed), "judged", 20, 150)
        expected = world.memory(CUT, unjudged=policy)
        assert some_are_defined(expected)
        assert_same(world.sharded(world.write(tmp_path / str(seed)), CUT, unjudged=policy, threads=2), expected)


def test_what_is_asked_for_says_how_often_the_gallery_is_read(tmp_path: Path, gathered: list[tuple[str, int]]) -> None:
    world = embeddings_world(np.random.default_rng(6), "judged", similarity="euclidean")
    shards = world.write(tmp_path)
    for metrics, policy, ways in (
        (["AP@3", "P@7"], "irrelevant", ["First"]),
        (["Judged@3", "RBP@4"], None, ["First"]),
        (["AP@3", "AP"], "irrelevant", ["Marks", "MarkRanks"]),
        (["AP@3"], "condensed", ["Marks", "MarkRanks"]),  # what is left out brings others up from below
        (["AP@3"], "relevant", ["Marks", "MarkRanks"]),
        (["P(radius=1)"], "irrelevant", ["Marks", "MarkRanks"]),
    ):
        gathered.clear()
        expected = world.memory(metrics, unjudged=policy)
        assert_same(world.sharded(shards, metrics, unjudged=policy, threads=1), expected)
        assert [name for name, _ in gathered] == ways


@pytest.mark.parametrize("what", ["codes", "embeddings"])
def test_queries_are_in_blocks_where_shards_are_few(tmp_path: Path, what: str, gathered: list[tuple[str, int]]) -> None:
    """As many as threads, eight queries each at least, and one block where there are shards enough."""
    rng = np.random.default_rng(7)
    world = codes_world(rng, 64, "labels", 17, 50) if what == "codes" else embeddings_world(rng, "labels", 17, 50)
    expected = world.memory(["AP@5"])
    for sizes, threads, blocks in (([50], 1, 1), ([50], 2, 2), ([50], 8, 3), ([10] * 5, 3, 3), ([10] * 5, 2, 1)):
        gathered.clear()
        shards = replace(world, sizes=sizes).write(tmp_path / f"{len(sizes)} {threads}")
        assert_same(world.sharded(shards, ["AP@5"], threads=threads), expected)
        assert [n for _, n in gathered] == [blocks]


# How it adds up


@pytest.mark.parametrize("n", [*range(1, 20), 64, 100])
def test_a_sum_keeps_its_order_and_adds_things_of_like_size(n: int) -> None:
    class Words(tuple[int, ...]):
        def __add__(self, other: Any) -> Words:
            copied.append(len(self) + len(other))
            return Words((*self, *other))

    copied: list[int] = []
    total = _Sum()
    for number in range(n):
        total.add(Words((number,)))
    assert tuple(total.all()) == tuple(range(n))
    assert sum(copied) <= n * (math.log2(n) + 1)
    assert tuple(summed([Words((number,)) for number in range(n)])) == tuple(range(n))


def test_a_shard_that_counts_twice_or_not_at_all_is_noticed(tmp_path: Path) -> None:
    shards = written(tmp_path, la.Codes.pack(np.eye(5, 9)), [2, 3], {})
    first, second = Partial([1], frozenset([0]), 2), Partial([2], frozenset([1]), 3)
    assert (first + second).whole(shards) == [1, 2]
    with pytest.raises(ValueError, match="shard 0 would be counted twice"):
        _ = first + first
    with pytest.raises(ValueError, match="1 of 2 shards were counted, 2 rows of 5"):
        first.whole(shards)
    with pytest.raises(ValueError, match="2 of 2 shards were counted, 6 rows of 5"):
        (first + replace(second, rows=4)).whole(shards)


def test_an_item_that_is_lost_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = codes_world(np.random.default_rng(0), 64, "labels", 9, 50)
    shards = world.write(tmp_path)
    real = shard_codes.Scanned.do

    def losing(self: Any, part: ShardPart, block: slice) -> Any:
        tally = real(self, part, block)
        if part.number == 2:
            tally.counts[0, :, 0] = 0
        return tally

    monkeypatch.setattr(shard_codes.Scanned, "do", losing)
    with pytest.raises(AssertionError, match=r"items were counted for a query, but there are 50: this is a mistake"):
        world.sharded(shards, ["AP"])


def test_few_shards_are_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading waits where counting is slow: of forty shards, never more than are read ahead and counted."""
    world = replace(codes_world(np.random.default_rng(0), 64, "labels", 9, 80), sizes=[2] * 40)
    shards = world.write(tmp_path)
    parts: list[weakref.ref[ShardPart]] = []
    most, lock = [0], threading.Lock()
    real_read, real_do = Shards.read, shard_codes.Scanned.do

    def alive() -> int:
        return sum(part() is not None for part in parts)

    def read(self: Shards, *arguments: Any) -> ShardPart:
        part = real_read(self, *arguments)
        with lock:
            parts.append(weakref.ref(part))
            most[0] = max(most[0], alive())
        return part

    def do(self: Any, part: ShardPart, block: slice) -> Any:
        time.sleep(0.002)
        return real_do(self, part, block)

    monkeypatch.setattr(Shards, "read", read)
    monkeypatch.setattr(shard_codes.Scanned, "do", do)
    for threads in (1, 3):
        most[0] = 0
        assert_same(world.sharded(shards, ["AP"], threads=threads), world.memory(["AP"]))
        assert 1 < most[0] <= 2 * gathering.AHEAD + threads + 2
        gc.collect()
        assert alive() == 0


def test_an_error_in_one_shard_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = replace(codes_world(np.random.default_rng(0), 64, "labels", 9, 80), sizes=[2] * 40)
    shards = world.write(tmp_path)
    done, real = [], shard_codes.Scanned.do
    before = set(threading.enumerate())

    def do(self: Any, part: ShardPart, block: slice) -> Any:
        done.append(part.number)
        if part.number == 3:
            raise ArithmeticError("in shard 3")
        return real(self, part, block)

    monkeypatch.setattr(shard_codes.Scanned, "do", do)
    for threads in (1, 3):
        done.clear()
        with pytest.raises(ArithmeticError, match="in shard 3"):
            world.sharded(shards, ["AP"], threads=threads)
        assert len(done) < 20
    assert not [thread for thread in set(threading.enumerate()) - before if "ThreadPool" in thread.name]


# Partials: what each shard gave, kept


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is counted, and of which shard."""
    done: list[tuple[str, int]] = []

    def spied(name: str) -> Callable[..., Any]:
        real = WORKS[name].do

        def do(self: Any, part: ShardPart, block: slice) -> Any:
            done.append((name, part.number))
            return real(self, part, block)

        return do

    for name, work in WORKS.items():
        monkeypatch.setattr(work, "do", spied(name))
    return done


def no_reading(self: Shards, *arguments: Any) -> Any:
    raise AssertionError("a shard was read")


SORTS: dict[str, tuple[Callable[[], World], list[str], dict[str, Any], set[str]]] = {
    "scan": (
        lambda: codes_world(np.random.default_rng(1), 65, "judged", 20, 60),
        OF_CODES,
        {"unjudged": "relevant"},
        {"Scanned"},
    ),
    "scan by column": (
        lambda: codes_world(np.random.default_rng(1), 65, "tags", 20, 60, "by column"),
        OF_CODES,
        {},
        {"Scanned"},
    ),
    "table": (lambda: codes_world(np.random.default_rng(1), 7, "labels", 60, 300), OF_CODES, {}, {"OnCodes"}),
    "table of judged": (
        lambda: codes_world(np.random.default_rng(1), 7, "judged", 60, 300),
        OF_CODES,
        {"unjudged": "irrelevant"},
        {"OnCodes"},
    ),
    "first": (
        lambda: embeddings_world(np.random.default_rng(1), "judged"),
        CUT,
        {"unjudged": "irrelevant"},
        {"First"},
    ),
    "marks": (
        lambda: embeddings_world(np.random.default_rng(1), "tags", similarity="euclidean"),
        [*WHOLE, *WITHIN],
        {},
        {"Marks", "MarkRanks"},
    ),
    "marks of judged": (
        lambda: embeddings_world(np.random.default_rng(1), "judged", dtype=np.float64),
        [*MICRO, *NEGATIVES, *AREAS],
        {},
        {"Marks", "MarkRanks"},
    ),
}


@pytest.mark.parametrize("sort", SORTS)
def test_what_is_kept_is_not_counted_again(
    tmp_path: Path, sort: str, worked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, metrics, options, ways = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.memory(metrics, **options)
    assert some_are_defined(expected)
    assert_same(world.sharded(shards, metrics, threads=2, partials=str(kept), **options), expected)
    assert {name for name, _ in worked} == ways
    assert len(list(kept.iterdir())) == len(worked) >= len(shards.shards)
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    worked.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Shards, "read", no_reading)
        assert_same(world.sharded(shards, metrics, threads=2, partials=kept, **options), expected)
    assert worked == []
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


@pytest.mark.parametrize("sort", SORTS)
def test_a_job_that_died_goes_on(tmp_path: Path, sort: str, worked: list[tuple[str, int]]) -> None:
    """Of the shards that were counted nothing is read; those that were not, and only they, are counted."""
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.sharded(shards, metrics, threads=1, partials=kept, **options)
    gone = sorted(kept.iterdir())[::3]
    for path in gone:
        path.unlink()
    worked.clear()
    assert_same(world.sharded(shards, metrics, threads=1, partials=kept, **options), expected)
    assert len(worked) == len(gone)


def damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    """A file as it might be found after an accident."""
    yield "empty", b""
    yield "text", b"not an archive"
    for share in (0.01, 0.3, 0.6, 0.95, 0.999):
        yield f"cut at {share}", content[: int(len(content) * share)]
    yield "zeros at the end", content[: len(content) // 2] + bytes(len(content) - len(content) // 2)
    yield "zeros", bytes(len(content))
    yield "another byte", content.replace(b"NUMPY", b"NUMPX", 2)


@pytest.mark.parametrize("sort", SORTS)
def test_a_damaged_partial_is_counted_again(
    tmp_path: Path, sort: str, worked: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.sharded(shards, metrics, threads=1, partials=kept, **options)
    path = min(kept.iterdir())
    whole = path.read_bytes()
    for what, content in damages(whole):
        path.write_bytes(content)
        worked.clear()
        caplog.clear()
        found = world.sharded(shards, metrics, threads=1, partials=kept, **options)
        assert_same(found, expected)
        assert len(worked) == 1, what
        assert f"{path} is damaged, its shard is counted again" in caplog.text, what
        assert path.read_bytes() == whole, what


@pytest.mark.parametrize("sort", ["scan", "table of judged", "first", "marks"])
def test_a_partial_of_something_else_is_not_taken(tmp_path: Path, sort: str, worked: list[tuple[str, int]]) -> None:
    """That of another shard, or of another gallery, under this one's name."""
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.sharded(shards, metrics, threads=1, partials=kept, **options)
    paths = sorted(kept.iterdir(), key=lambda path: path.name.split("-")[1:])
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)
    worked.clear()
    assert_same(world.sharded(shards, metrics, threads=1, partials=kept, **options), expected)
    assert len(worked) == len(paths)


@pytest.mark.parametrize("sort", ["scan", "table of judged", "first", "marks"])
def test_a_wrong_byte_of_a_partial_is_noticed(tmp_path: Path, sort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is: what is loaded is what was kept, or nothing. The list of arrays is at the end of the file."""
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    tasks, real = [], gathering._here

    def here(task: Any, *arguments: Any) -> Any:
        tasks.append(task)
        return real(task, *arguments)

    monkeypatch.setattr(gathering, "_here", here)
    world.sharded(shards, metrics[:3], threads=1, partials=kept, **options)
    path = kept / tasks[0]._name(0, 0)
    whole = path.read_bytes()
    expected, facts = tasks[0].kept(0, 0).value.to_arrays()
    for place in [*np.linspace(0, len(whole) - 700, 60).astype(int), *range(len(whole) - 700, len(whole), 3)]:
        for bits in (0xFF, 0x01):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bits]) + whole[place + 1 :])
            found = tasks[0].kept(0, 0)
            if found is not None:
                arrays, about = found.value.to_arrays()
                assert (arrays.keys(), about) == (expected.keys(), facts), f"byte {place}"
                assert all(np.array_equal(arrays[name], expected[name]) for name in arrays)


def test_one_folder_of_partials_for_everything(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    """Other queries, relevance, items left out, radii, cutoffs and similarities: nothing is taken for another."""
    rng = np.random.default_rng(2)
    judged = codes_world(rng, 65, "judged", 20, 60)
    labels = replace(codes_world(rng, 65, "labels", 20, 60, "by column"), gallery=judged.gallery)
    other = replace(labels, queries=judged.queries, names=judged.names)
    groups = (rng.integers(0, 8, 20), rng.integers(0, 8, 60))
    table = codes_world(rng, 7, "labels", 60, 300)
    vectors = embeddings_world(rng, "judged", similarity="euclidean")
    tasks: list[tuple[World, list[str], dict[str, Any]]] = [
        (judged, ["AP", "LGAP@1"], {"unjudged": "irrelevant"}),
        (judged, ["LGAP@3"], {"unjudged": "relevant"}),
        (judged, ["AP"], {"unjudged": "condensed"}),
        (judged, NEGATIVES, {}),
        (replace(judged, queries=judged.queries[::-1]), ["AP"], {"unjudged": "irrelevant"}),
        (
            replace(judged, names=Names(judged.names.queries[::-1], judged.names.items)),
            ["AP"],
            {"unjudged": "irrelevant"},
        ),
        (replace(judged, excluded="self"), ["AP"], {"unjudged": "irrelevant"}),
        (labels, ["AP"], {}),
        (replace(labels, groups=(groups[0], labels.groups[1])), ["AP"], {}),
        (replace(labels, excluded="by array", order=None), ["AP"], {}),
        (replace(labels, excluded="by array", groups=groups, order=None), ["AP"], {}),
        (replace(labels, excluded="by array", groups=(labels.groups[0], groups[1]), order=None), ["AP"], {}),
        (replace(labels, excluded="nobody"), ["AP"], {}),
        (other, ["AP"], {}),
        (replace(other, order=None), ["AP"], {}),
        (replace(table, relevant=labels_kind(rng, 60, 300, table.names)), ["AP", "LGAP@2"], {}),
        (table, ["AP", "LGAP@1"], {}),
        (replace(table, queries=table.queries[::-1]), ["AP"], {}),
        (vectors, ["AP@3"], {"unjudged": "irrelevant"}),
        (vectors, ["AP@9"], {"unjudged": "irrelevant"}),
        (vectors, ["P(radius=1)"], {"unjudged": "irrelevant"}),
        (vectors, ["P(radius=2)"], {"unjudged": "irrelevant"}),
        (replace(vectors, similarity="dot"), ["AP@3"], {"unjudged": "irrelevant"}),
        (replace(vectors, similarity="dot"), ["AP"], {"unjudged": "irrelevant"}),
        (replace(vectors, queries=vectors.queries[::-1].copy()), ["AP@3"], {"unjudged": "irrelevant"}),
        (replace(vectors, queries=vectors.queries.astype(float)), ["AP"], {"unjudged": "irrelevant"}),
    ]
    tasks += [
        (replace(labels, relevant=KINDS[kind](rng, 20, 60, labels.names), order=None), ["AP", "nDCG"], {})
        for kind in ("labels in memory", "crossed hierarchy", "crossed hierarchy in memory", "tags", "dense grades")
        for _ in range(2)
    ]
    for turn in range(2):
        for number, (world, metrics, options) in enumerate(tasks):
            shards = world.write(tmp_path / str(number)) if not turn else Shards.open(tmp_path / str(number))
            found = world.sharded(shards, metrics, threads=1, partials=tmp_path / "kept", **options)
            assert_same(found, world.memory(metrics, **options))
        if not turn:
            assert len(list((tmp_path / "kept").iterdir())) == len(worked) > 4 * len(tasks)
            worked.clear()
    assert worked == []  # all lie side by side


def test_other_columns_of_the_same_shards(tmp_path: Path) -> None:
    """Labels, groups and ids of one column are not taken for those of another."""
    rng = np.random.default_rng(8)
    queries, gallery = (la.Codes.pack(clustered_bits(rng, n, 64)) for n in (10, 40))
    columns = {name: rng.permutation(40) // (8 if name < "c" else 1) for name in "abcd"}
    shards = written(tmp_path / "gallery", gallery, [13, 13, 14], columns)
    labels, ids = rng.integers(0, 5, 10), np.arange(10)
    judged = la.judged([(query, item, 1) for query in range(10) for item in range(query, 40, 3)])
    for _ in range(2):
        for one, two, three in itertools.product("ab", "ab", "cd"):
            options: dict[str, Any] = {"metrics": ["AP"], "unjudged": "irrelevant", "query_ids": ids}
            for mine, theirs in (
                (la.same_label(labels, shards[one]), la.same_label(labels, columns[one])),
                (
                    la.hierarchy((labels, ids), (shards[one], shards[two])),
                    la.hierarchy((labels, ids), (columns[one], columns[two])),
                ),
                (judged, judged),
            ):
                found = la.evaluate(
                    queries,
                    shards,
                    mine,
                    exclude=(labels, shards[two]),
                    gallery_ids=shards[three],
                    partials=tmp_path / "kept",
                    threads=1,
                    **options,
                )
                expected = la.evaluate(
                    queries,
                    gallery,
                    theirs,
                    exclude=(labels, columns[two]),
                    gallery_ids=columns[three],
                    **options,
                )
                assert_same(found, expected)


def test_equal_shards_in_two_places_are_two(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    """The same rows twice, with grades by position: one partial is not taken for the other."""
    rng = np.random.default_rng(3)
    bits = clustered_bits(rng, 30, 64)
    world = World(
        la.Codes.pack(bits[:10]),
        la.Codes.pack(np.concatenate([bits[10:], bits[10:]])),
        dense_kind(rng, 10, 40, Names(None, None)),
        Names(None, None),
        sizes=[20, 20],
    )
    shards = world.write(tmp_path / "gallery")
    assert shards.shards[0].sha256 == shards.shards[1].sha256
    for _ in range(2):
        found = world.sharded(shards, ["AP", "nDCG"], threads=1, partials=tmp_path / "kept")
        assert_same(found, world.memory(["AP", "nDCG"]))
        assert worked == [("Scanned", 0), ("Scanned", 1)]  # once


def test_a_shard_behind_a_longer_one_is_counted_again(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    """Judgements by position: the same shard under the same number, but its items are others."""
    rng = np.random.default_rng(3)
    queries, rows = la.Codes.pack(clustered_bits(rng, 10, 64)), clustered_bits(rng, 40, 64)
    relevance = la.judged([(query, item, 1) for query in range(10) for item in range(query, 30, 3)])
    for first in (10, 12):
        gallery = la.Codes.pack(np.concatenate([rows[:first], rows[12:30]]))
        shards = written(tmp_path / str(first), gallery, [first, 18], {})
        worked.clear()
        found = la.evaluate(
            queries, shards, relevance, ["AP"], threads=1, partials=tmp_path / "kept", unjudged="irrelevant"
        )
        assert worked == [("Scanned", 0), ("Scanned", 1)]
        assert_same(found, la.evaluate(queries, gallery, relevance, ["AP"], unjudged="irrelevant"))


def test_an_added_shard_is_counted_alone(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    rng = np.random.default_rng(4)
    for number, whole in enumerate(
        (codes_world(rng, 65, "labels", 9, 60), codes_world(rng, 65, "judged", 9, 60), embeddings_world(rng, "judged"))
    ):
        n = len(whole.gallery)
        folder, kept = tmp_path / str(number), tmp_path / "kept"
        options = {"unjudged": "irrelevant"} if whole.relevant.judged else {}
        columns = {**whole.relevant.columns, "ids": whole.names.items}
        for end in (30, n):
            vectors, sizes = whole.gallery[:end], [10, 10, 10, *([] if end == 30 else [n - 30])]
            shards = written(folder, vectors, sizes, {name: array[:end] for name, array in columns.items()})
            worked.clear()
            found = whole.sharded(shards, ["AP@4"], threads=1, partials=kept, **options)
            assert [shard for _, shard in worked] == ([0, 1, 2] if end == 30 else [3])
        assert_same(found, whole.memory(["AP@4"], **options))


def test_a_row_that_changed_is_counted_again(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    world = replace(codes_world(np.random.default_rng(5), 65, "labels", 9, 60), sizes=[20, 20, 20], order=None)
    kept = tmp_path / "kept"
    world.sharded(world.write(tmp_path / "gallery"), ["AP"], threads=1, partials=kept)
    words = world.gallery.words.copy()
    words[25, 0] ^= np.uint64(5)
    changed = replace(world, gallery=la.Codes(words, 65))
    worked.clear()
    found = changed.sharded(changed.write(tmp_path / "gallery"), ["AP"], threads=1, partials=kept)
    assert worked == [("Scanned", 1)]
    assert_same(found, changed.memory(["AP"]))


@pytest.mark.parametrize("sort", ["scan", "first", "marks"])
def test_another_number_of_threads_takes_no_partials_of_other_blocks(tmp_path: Path, sort: str) -> None:
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.memory(metrics, **options)
    for threads in (1, 3, 2, 1):
        assert_same(world.sharded(shards, metrics, threads=threads, partials=kept, **options), expected)


def test_an_added_shard_that_makes_one_block_of_two(tmp_path: Path) -> None:
    world = codes_world(np.random.default_rng(4), 65, "labels", 20, 60)
    for sizes in ([20, 20], [20, 20, 10, 10]):
        n = sum(sizes)
        shards = written(
            tmp_path / "gallery", world.gallery[:n], sizes, {"labels": world.relevant.columns["labels"][:n]}
        )
        found = la.evaluate(
            world.queries, shards, world.relevant.sharded(shards), ["AP"], threads=2, partials=tmp_path / "kept"
        )
    assert_same(found, la.evaluate(world.queries, world.gallery, world.relevant.memory, ["AP"]))


def test_ids_that_look_alike_are_not_the_same(tmp_path: Path) -> None:
    """Judgements with strings for ids find nothing in a column of numbers; put right, nothing old may be taken."""
    rng = np.random.default_rng(6)
    queries, gallery = (la.Codes.pack(clustered_bits(rng, n, 64)) for n in (4, 20))
    shards = written(tmp_path / "gallery", gallery, [10, 10], {"ids": np.arange(20)})
    rows = [(0, item, 1) for item in range(5)]
    for pairs in ([(query, str(item), grade) for query, item, grade in rows], rows):
        found = la.evaluate(
            queries,
            shards,
            la.judged(pairs),
            ["AP"],
            gallery_ids=shards["ids"],
            unjudged="irrelevant",
            partials=tmp_path / "kept",
        )
    assert_same(found, la.evaluate(queries, gallery, la.judged(rows), ["AP"], unjudged="irrelevant"))


def test_ids_that_look_alike_and_are_nowhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    queries, gallery = (la.Codes.pack(clustered_bits(rng, n, 64)) for n in (4, 20))
    relevance = la.judged([(0, 1, 1), (0, "1", 0), (0, 7, 1)])
    expected = la.evaluate(queries, gallery, relevance, ["AP"], unjudged="irrelevant")
    for order in (np.arange(20), np.arange(20)[::-1]):
        shards = written(tmp_path / str(order[0]), gallery[order], [10, 10], {"ids": order})
        found = la.evaluate(queries, shards, relevance, ["AP"], unjudged="irrelevant", gallery_ids=shards["ids"])
        assert_same(found, expected)


# What comes out


def test_results_say_where_they_come_from(tmp_path: Path) -> None:
    world = codes_world(np.random.default_rng(8), 65, "labels", 9, 50, "by column")
    shards = world.write(tmp_path / "gallery")
    found = world.sharded(shards, ["AP", "P@3"])
    assert (found.about["items"], found.about["bits"]) == (50, 65)
    found.to_json(tmp_path / "found.json")
    loaded = la.Evaluation.from_json(tmp_path / "found.json")
    assert_same(loaded, found)
    assert loaded.about["inputs"]["gallery"] == shards.digest
    assert loaded.about["inputs"]["queries"] == world.queries.digest
    assert "positions" not in loaded.about["inputs"].values()
    again = replace(world, sizes=[50]).write(tmp_path / "again")
    assert again.digest != shards.digest
    shutil.copytree(tmp_path / "gallery", tmp_path / "copy")
    assert Shards.open(tmp_path / "copy").digest == shards.digest


def test_tallies_of_shards_are_saved_and_evaluated(tmp_path: Path) -> None:
    world = codes_world(np.random.default_rng(9), 65, "judged", 9, 50)
    shards = world.write(tmp_path / "gallery")
    world.count_sharded(shards, radius=2).save(tmp_path / "tally.npz")
    metrics = [*CUT, *WHOLE, "LGAP@2"]
    found = la.evaluate_tally(la.Tally.load(tmp_path / "tally.npz"), metrics, unjudged="irrelevant")
    assert_same(found, world.memory(metrics, unjudged="irrelevant"))


def test_default_metrics_and_a_string_of_metrics(tmp_path: Path) -> None:
    world = embeddings_world(np.random.default_rng(10), "labels")
    shards = world.write(tmp_path)
    relevance = world.relevant.sharded(shards)
    assert_same(
        la.evaluate(world.queries, shards, relevance),
        la.evaluate(world.queries, world.gallery, world.relevant.memory),
    )
    assert_same(
        la.evaluate(world.queries, shards, relevance, "AP@3 nDCG@2", undefined="skip"),
        la.evaluate(world.queries, world.gallery, world.relevant.memory, "AP@3 nDCG@2", undefined="skip"),
    )
