"""Models with a gallery in shards: the first items of each query are found shard by shard, and merged."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookalike.core.checks import same_bits, same_hasher
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.files import digest
from lookalike.core.kernels import kernels
from lookalike.core.threads import n_threads
from lookalike.discovery.collection import Collection
from lookalike.discovery.places import PairsToPlace, Places, places_in_row
from lookalike.discovery.rankers import CodeModel, EmbeddingModel, Model, Ranked
from lookalike.shards.gallery import ShardPart, Shards
from lookalike.shards.map_reduce import Arrays, gather, summed

QUERIES = 1024  # ranked in one pass, so that memory stays bounded

__all__ = ["Nearest", "ShardModel", "nearest", "run_of"]


@dataclass(frozen=True)
class FirstItems:
    """Items that may be among the first `depth` of each query, with their identities; ties with the last are kept.

    queries, items, identities, scores: (n,), sorted by query and score, tied ones by item.
    """

    depth: int
    queries: np.ndarray
    items: np.ndarray
    identities: np.ndarray
    scores: np.ndarray

    def __add__(self, other: "FirstItems") -> "FirstItems":
        columns = ("queries", "items", "identities", "scores")
        return FirstItems(self.depth, *(np.concatenate([getattr(self, c), getattr(other, c)]) for c in columns)).cut()

    def cut(self) -> "FirstItems":
        """Only the first `depth` items of each query and those that tie with the last, the best of each identity."""
        order = np.lexsort((self.items, -self.scores, self.queries))
        queries, identities, scores = self.queries[order], self.identities[order], self.scores[order]
        keys = queries.astype(np.int64) * (identities.max(initial=0) + 1) + identities
        _, first = np.unique(keys, return_index=True)
        order = order[np.sort(first)]
        queries, scores = self.queries[order], self.scores[order]
        starts = np.searchsorted(queries, queries)
        last = np.minimum(starts + self.depth, np.searchsorted(queries, queries, "right")) - 1
        kept = order[scores >= scores[last]] if len(order) else order
        return FirstItems(self.depth, self.queries[kept], self.items[kept], self.identities[kept], self.scores[kept])

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as named arrays, and the depth."""
        return {c: getattr(self, c) for c in ("queries", "items", "identities", "scores")}, {"depth": self.depth}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> "FirstItems":
        """The value that `to_arrays` wrote."""
        return cls(about["depth"], **arrays)


@dataclass(frozen=True)
class Nearest:
    """Work: the items of each shard that may be among the first `depth` of each query.

    own: the group of each query, and of each item of the gallery: a query does not find those of its own. identities:
    of each item, where only the best of one counts. ids: of each item, to be compared with those in the shards.
    """

    queries: Codes | np.ndarray
    similarity: str
    depth: int
    blocks: Sequence[slice]
    own: tuple[np.ndarray, np.ndarray] | None = None
    identities: np.ndarray | None = None
    ids: np.ndarray | None = None
    gives = FirstItems

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.ids is None else ("ids",)

    @property
    def digest(self) -> str:
        queries = self.queries.digest if isinstance(self.queries, Codes) else digest(self.queries)
        arrays = [array for array in (*(self.own or ()), self.identities, self.ids) if array is not None]
        return digest(np.array(["nearest", queries, self.similarity, str(self.depth)]), *arrays)

    def do(self, part: ShardPart, block: slice) -> FirstItems:
        here = slice(part.start, part.start + len(part))
        if self.ids is not None and not np.array_equal(self.ids[here], part.values["ids"].astype(str)):
            raise InputError("the items of the shards are not those of the collection, in the same order: ids differ")
        model = _model(self.queries[block], part.vectors, self.similarity)
        identities = np.arange(here.start, here.stop) if self.identities is None else self.identities[here]
        order = np.argsort(identities, kind="stable")
        starts = np.flatnonzero(np.diff(identities[order], prepend=-1))
        parts = []
        size = max(6, min(96, (1 << 26) // max(1, len(part)) // 6 * 6))
        for start in range(0, block.stop - block.start, size):
            rows = model.rows(slice(start, min(start + size, block.stop - block.start)))
            for query, row in enumerate(rows, block.start + start):
                if self.own is not None:
                    row[self.own[1][here] == self.own[0][query]] = -np.inf
                best = row if self.identities is None else np.maximum.reduceat(row[order], starts)
                least = kernels().kth_largest(best, self.depth)
                items = np.flatnonzero(row >= least if least > -np.inf else row > -np.inf)
                parts.append((np.full(len(items), query), items + here.start, identities[items], row[items]))
        return FirstItems(self.depth, *(np.concatenate(column) for column in zip(*parts, strict=True))).cut()


@dataclass(frozen=True)
class PairScores(Arrays):
    """Scores of pairs, 0 for items of other shards."""

    scores: np.ndarray

    def __add__(self, other: "PairScores") -> "PairScores":
        return PairScores(self.scores + other.scores)


@dataclass(frozen=True)
class Scoring:
    """Work: the scores of some pairs of a query and an item. in_ranking: to the last bit as items are ranked."""

    queries: Codes | np.ndarray
    similarity: str
    pairs: tuple[np.ndarray, np.ndarray]
    in_ranking: bool = False
    columns: tuple[str, ...] = ()
    blocks: Sequence[slice] = field(default=(slice(0, 1),))
    gives = PairScores

    @property
    def digest(self) -> str:
        queries = self.queries.digest if isinstance(self.queries, Codes) else digest(self.queries)
        what = "scores in ranking" if self.in_ranking else "scores"
        return digest(np.array([what, queries, self.similarity]), *self.pairs)

    def do(self, part: ShardPart, block: slice) -> PairScores:  # noqa: ARG002
        queries, items = self.pairs
        rows = np.flatnonzero((items >= part.start) & (items < part.start + len(part)))
        scores = np.zeros(len(items))
        if len(rows):
            model = _model(self.queries, part.vectors, self.similarity)
            score = model.scores_in_ranking if self.in_ranking else model.scores
            scores[rows] = score(queries[rows], items[rows] - part.start)
        return PairScores(scores)


@dataclass(frozen=True)
class PlaceCounts(Arrays):
    """Of pairs, how many items of some shards rank above them and tie with them; of queries, how many rank at all."""

    above: np.ndarray
    tied: np.ndarray
    n_ranked: np.ndarray

    def __add__(self, other: "PlaceCounts") -> "PlaceCounts":
        return PlaceCounts(self.above + other.above, self.tied + other.tied, self.n_ranked + other.n_ranked)


@dataclass(frozen=True)
class CountingPlaces:
    """Work: how many items of each shard rank above some pairs and tie with them. own: as `Nearest` has it."""

    queries: Codes | np.ndarray
    similarity: str
    pairs: PairsToPlace
    own: tuple[np.ndarray, np.ndarray]
    blocks: Sequence[slice]
    columns: tuple[str, ...] = ()
    gives = PlaceCounts

    @property
    def digest(self) -> str:
        queries = self.queries.digest if isinstance(self.queries, Codes) else digest(self.queries)
        pairs = self.pairs.queries, self.pairs.items, self.pairs.scores
        return digest(np.array(["places", queries, self.similarity]), *pairs, *self.own)

    def do(self, part: ShardPart, block: slice) -> PlaceCounts:
        places = Places.empty(self.pairs, len(self.queries))
        model = _model(self.queries[block], part.vectors, self.similarity)
        groups = self.own[1][part.start : part.start + len(part)]
        size = max(6, min(96, (1 << 26) // max(1, len(part)) // 6 * 6))
        for start in range(0, block.stop - block.start, size):
            rows = model.rows(slice(start, min(start + size, block.stop - block.start)))
            for query, row in enumerate(rows, block.start + start):
                row[groups == self.own[0][query]] = -np.inf
                length = 1 if model.lengths is None else model.lengths[query - block.start]
                mine, ascending = self.pairs.of(query), np.sort(row).astype(float) / length
                places.above[mine], places.tied[mine], places.n_ranked[query] = places_in_row(
                    ascending, self.pairs.scores[mine]
                )
        return PlaceCounts(places.above, places.tied, places.n_ranked)


class ShardModel(Model):
    """A model by codes or embeddings, with those of the items in shards."""

    def __init__(self, queries: Codes | np.ndarray, shards: Shards, similarity: str = "cosine") -> None:
        _check_comparable(queries, shards)
        self._queries, self._shards, self._similarity = queries, shards, similarity
        self.n_queries, self.n_gallery = len(queries), len(shards)

    def top(
        self, collection: Collection, depth: int, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Ranked:
        return nearest(
            self._queries,
            self._shards,
            depth,
            similarity=self._similarity,
            own=(collection.own.queries, collection.own.gallery),
            identities=collection.identities if one_per_identity else None,
            ids=collection.item_ids if "ids" in self._shards.columns else None,
            threads=threads,
        )

    def places(
        self, collection: Collection, pairs: PairsToPlace, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Places:
        if one_per_identity:
            raise InputError(
                "a gallery in shards cannot be ranked to its end by identity, whose images may be in several shards: "
                "give metrics a cutoff, or ",
                Option("one_per_identity", False),
            )
        own = collection.own.queries, collection.own.gallery
        blocks = [slice(start, min(start + QUERIES, self.n_queries)) for start in range(0, self.n_queries, QUERIES)]
        works = (CountingPlaces(self._queries, self._similarity, pairs, own, [block]) for block in blocks)
        parts = [
            part for work in works for part in gather(self._shards, work, threads=n_threads(threads), what="ranking")
        ]
        counts = summed(parts)
        return Places(counts.above, counts.tied, np.ones(len(pairs.queries), bool), counts.n_ranked)

    def scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self._of_pairs(queries, items, in_ranking=False)

    def scores_in_ranking(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self._of_pairs(queries, items, in_ranking=True)

    def _of_pairs(self, queries: np.ndarray, items: np.ndarray, *, in_ranking: bool) -> np.ndarray:
        work = Scoring(self._queries, self._similarity, (queries, items), in_ranking)
        (pairs,) = gather(self._shards, work, threads=n_threads(None), what="scoring")
        return np.asarray(pairs.scores)


def nearest(
    queries: Codes | np.ndarray,
    shards: Shards,
    depth: int,
    *,
    similarity: str = "cosine",
    threads: int | None = None,
    **about: Any,
) -> Ranked:
    """The items of a gallery in shards that are nearest to each query; ties with the last are kept."""
    _check_comparable(queries, shards)
    parts = []
    for start in range(0, len(queries), QUERIES):
        block = slice(start, min(start + QUERIES, len(queries)))
        work = Nearest(queries, similarity, depth, [block], **about)
        parts += gather(shards, work, threads=n_threads(threads), what="ranking")
    of_queries, items, scores = (
        np.concatenate([getattr(part, column) for part in parts]) for column in ("queries", "items", "scores")
    )
    lengths = None
    if not isinstance(queries, Codes):
        lengths = EmbeddingModel(queries, np.ones((1, shards.width), queries.dtype), similarity).lengths
    values = scores.astype(float) / (1 if lengths is None else lengths[of_queries])
    order = np.lexsort((items, -values, of_queries))
    return Ranked(depth, of_queries[order], items[order], values[order])


def run_of(
    ranked: Ranked, query_ids: np.ndarray | None, shards: Shards, threads: int | None = None
) -> list[tuple[Any, Any, float]]:
    """Ranked items as rows (query id, item id, score); positions stand for missing ids."""
    queries = ranked.queries if query_ids is None else query_ids[ranked.queries]
    items = ranked.items
    if "ids" in shards.columns:
        work = Naming(np.unique(items))
        (names,) = gather(shards, work, threads=n_threads(threads), what="naming")
        items = names.of(items)
    return list(zip(queries.tolist(), items.tolist(), ranked.scores.tolist(), strict=True))


@dataclass(frozen=True)
class Names(Arrays):
    """The ids of some positions."""

    positions: np.ndarray
    ids: np.ndarray

    def __add__(self, other: "Names") -> "Names":
        return Names(np.concatenate([self.positions, other.positions]), np.concatenate([self.ids, other.ids]))

    def of(self, items: np.ndarray) -> np.ndarray:
        """The ids of items at these positions."""
        order = np.argsort(self.positions)
        return np.asarray(self.ids[order][np.searchsorted(self.positions[order], items)])


@dataclass(frozen=True)
class Naming:
    """Work: the ids of some positions of the gallery. wanted: these positions, sorted."""

    wanted: np.ndarray
    columns: tuple[str, ...] = ("ids",)
    blocks: Sequence[slice] = field(default=(slice(0, 1),))
    gives = Names

    @property
    def digest(self) -> str:
        return digest(np.array(["names"]), self.wanted)

    def do(self, part: ShardPart, block: slice) -> Names:  # noqa: ARG002
        here = self.wanted[(self.wanted >= part.start) & (self.wanted < part.start + len(part))]
        return Names(here, part.values["ids"][here - part.start])


def _check_comparable(queries: Codes | np.ndarray, shards: Shards) -> None:
    """Raise if queries cannot be compared with the items of a gallery in shards."""
    if isinstance(queries, Codes) != (shards.n_bits is not None):
        raise InputTypeError("queries and shards must both be of codes or both of embeddings")
    if isinstance(queries, Codes) and shards.n_bits is not None:
        same_bits(queries.n_bits, shards.n_bits)
        same_hasher(queries.hasher, shards.hasher)


def _model(queries: Codes | np.ndarray, gallery: Codes | np.ndarray, similarity: str) -> CodeModel | EmbeddingModel:
    if isinstance(queries, Codes):
        assert isinstance(gallery, Codes)
        return CodeModel(queries, gallery)
    return EmbeddingModel(np.asarray(queries), np.asarray(gallery), similarity)
