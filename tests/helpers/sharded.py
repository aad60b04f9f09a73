"""Galleries in memory and the same ones in shards, for the tests of evaluation."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

import lookalike as la
from helpers.strategies import clustered_bits
from lookalike.shards.gallery import Shards
from lookalike.shards.writer import ShardWriter

Array = NDArray[Any]
KEPT = ["Judged@3", "Bpref", "RBP", "RBP(p=0.5)@4", "RBP(part='residual')", "RBP(part='residual')@5"]
CUT = [
    "AP@3",
    "AP(norm='total')@5",
    "AP(norm='min')@5",
    "AP(rel=2)@4",
    "AP(empty='skip')@4",
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
WHOLE = ["AP", "AP(rel=2)", "nDCG", "nDCG(gain='linear')", "DCG", "Hit", "RR", "MAP@R", "RPrecision(rel=2)"]
AREAS = ["AUC", "PRAUC", "AUC(rel=2)", "FNMR(fmr=0.05, average='macro')"]
MICRO = ["AUC(average='micro')", "PRAUC(average='micro')", "FNMR(fmr=0.05)"]
NEGATIVES = [
    f"{area}(average={average!r}, negatives={negatives!r}, rel={rel})"
    for area in ("AUC", "PRAUC", "FNMR")
    for average in ("macro", "micro")
    for negatives in ("sampled", "both")
    for rel in (1, 2)
]
LGAP = [f"LGAP@{radius}" for radius in range(4)]
WITHIN = ["P(radius=0)", "P(radius=1.5)", "R(radius=2)", "R(radius=0)"]
OF_CODES = [*CUT, *FAR, *WHOLE, *AREAS, *MICRO, *KEPT, *LGAP, *WITHIN]


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


def names_of(rng: np.random.Generator, n_queries: int, n_items: int, kind: str) -> Names:
    if kind == "positions":
        return Names(None, None)
    items = rng.permutation(n_items + 20)[:n_items]  # not the positions, and in no order
    own = items[rng.permutation(n_items)[: n_queries // 2]]
    queries = np.concatenate([own, 10_000 + np.arange(n_queries - len(own))])
    if kind == "strings":
        return Names(np.array([f"i{name}" for name in queries]), np.array([f"i{name}" for name in items]))
    return Names(queries, items)


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
