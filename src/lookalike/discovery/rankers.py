"""Models: anything that ranks items for queries. Embeddings, codes, a matrix of scores or a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from lookalike.core.checks import same_bits, same_hasher
from lookalike.core.codes import Codes
from lookalike.core.embeddings import EmbeddingPairScores, Embeddings, Scores
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.kernels import place_kernels
from lookalike.core.progress import track
from lookalike.core.threads import n_threads
from lookalike.discovery.collection import Collection
from lookalike.discovery.first_items import MUCH, FirstOfRows, best_of_identities, first_items
from lookalike.discovery.places import PairsToPlace, Places, places_in_block, places_in_lists
from lookalike.evaluation.tally import LOWEST
from lookalike.shards.gallery import Shards

T = TypeVar("T")

__all__ = ["Dense", "Model", "ModelRanking", "Ranked", "RankingRequest", "as_model"]


@dataclass(frozen=True, eq=False)
class Ranked:
    """The first items of each query: all that score no less than the `depth`-th, sorted by query and score.

    queries, items, scores: (n,). Items that tie with the `depth`-th are all here.
    """

    depth: int
    queries: np.ndarray
    items: np.ndarray
    scores: np.ndarray

    def first(self, k: int, tie_order: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the k best of each query and their ranks, from 1; ties are broken by `tie_order`, or by position."""
        order = np.arange(len(self.queries))
        if tie_order is not None:
            order = np.lexsort((tie_order[self.items], -self.scores, self.queries))
        ranks = _within(self.queries[order]) + 1
        return order[ranks <= k], ranks[ranks <= k]


@dataclass(frozen=True, eq=False)
class RankingRequest:
    """What to know of how a model ranks, so that it ranks once.

    depth: how many of the first items, or with one_per_identity of the first identities. deep: how many of the first
    items besides, whatever their identity; 0 for none. pairs: pairs to place among everything that is ranked, with
    one_per_identity among identities; None for none.
    """

    depth: int
    one_per_identity: bool = False
    deep: int = 0
    pairs: PairsToPlace | None = None


@dataclass(frozen=True, eq=False)
class ModelRanking:
    """How a model ranks: what a `RankingRequest` asks for, None for what it does not."""

    top: Ranked
    deep: Ranked | None = None
    places: Places | None = None


class Model(ABC):
    """Ranks the items of a collection for its queries; higher scores are better."""

    n_queries = n_gallery = -1  # -1 for a model that lists only some pairs

    @abstractmethod
    def top(
        self, collection: Collection, depth: int, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Ranked:
        """The best items of each query, without its own. one_per_identity: only the best item of each identity."""

    @abstractmethod
    def scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Scores of single pairs of positions, -inf for what is not ranked."""

    def scores_in_ranking(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Scores of single pairs to the last bit as `top` and `places` rank by them."""
        return self.scores(queries, items)

    def both_scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """`scores_in_ranking` and `scores` of single pairs, (pairs, 2)."""
        return np.stack([self.scores_in_ranking(queries, items), self.scores(queries, items)], axis=1)

    def places(
        self, collection: Collection, pairs: PairsToPlace, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Places:
        """Where pairs rank among everything that the model ranks for their queries."""
        top = self.top(collection, collection.n_items, one_per_identity=one_per_identity, threads=threads)
        return places_in_lists(pairs, top.queries, top.items, top.scores, collection.n_queries)

    def rank(self, collection: Collection, request: RankingRequest, *, threads: int | None = None) -> ModelRanking:
        """Everything that is asked of the ranking."""
        single = request.one_per_identity
        top = self.top(collection, request.depth, one_per_identity=single, threads=threads)
        deep = self.top(collection, request.deep, threads=threads) if request.deep else None
        if request.pairs is None:
            return ModelRanking(top, deep)
        return ModelRanking(top, deep, self.places(collection, request.pairs, one_per_identity=single, threads=threads))


class Dense(Model):
    """A model that has a score for every pair, computed a block of queries at a time."""

    lengths: np.ndarray | None = None  # what to divide each query's scores by, to compare them with other queries'

    @abstractmethod
    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with all items, for the caller to change."""

    def top(
        self, collection: Collection, depth: int, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Ranked:
        return self.rank(collection, RankingRequest(depth, one_per_identity), threads=threads).top

    def places(
        self, collection: Collection, pairs: PairsToPlace, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Places:
        places = self.rank(collection, RankingRequest(1, one_per_identity, pairs=pairs), threads=threads).places
        assert places is not None
        return places

    def rank(self, collection: Collection, request: RankingRequest, *, threads: int | None = None) -> ModelRanking:
        """Everything that is asked of the ranking, from scores that are computed once."""
        pairs = request.pairs
        places = None if pairs is None else Places.empty(pairs, collection.n_queries)
        much = self.n_queries * self.n_gallery >= MUCH

        def work(block: slice) -> list[FirstOfRows]:  # each block writes to its own part of the places
            rows = self.rows(block)
            rows[collection.own.pairs(block)] = -np.inf
            lengths = np.ones(len(rows)) if self.lengths is None else self.lengths[block].astype(float)
            shown, names = rows, None
            if request.one_per_identity:
                shown, names = best_of_identities(rows, collection.members, much=much)
            if request.one_per_identity or not request.deep:
                first = [first_items(shown, lengths, request.depth, request.depth, names, much=much)]
                if request.deep:
                    first.append(first_items(rows, lengths, request.deep, request.deep, much=much))
            else:  # the first of the smaller depth are among those of the larger one
                both = request.depth, request.deep
                first = [first_items(rows, lengths, max(both), min(both), much=much)]
            if pairs is not None and places is not None:  # the last: it sorts the scores
                places_in_block(shown, lengths, pairs, block, places, much=much)
                here = pairs.of_block(block)
                places.ranked[here] = pairs.scores[here] > -np.inf
                if names is not None:  # of an identity, the first of its best items ranks
                    identities = collection.identity_numbers[pairs.items[here]]
                    places.ranked[here] &= names[pairs.queries[here] - block.start, identities] == pairs.items[here]
            return [part._replace(rows=part.rows + block.start) for part in first]

        parts = [
            FirstOfRows(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
            for blocks in zip(*self._of_blocks(work, collection, threads), strict=True)
        ]
        if request.one_per_identity or not request.deep:
            depths = [request.depth, request.deep]
            tops = [Ranked(depth, *part[:3]) for depth, part in zip(depths, parts, strict=False)]
            return ModelRanking(tops[0], tops[1] if request.deep else None, places)
        (part,) = parts
        larger = Ranked(max(request.depth, request.deep), *part[:3])
        smaller = Ranked(min(request.depth, request.deep), *(column[part.inside] for column in part[:3]))
        top, deep = (smaller, larger) if request.depth <= request.deep else (larger, smaller)
        return ModelRanking(top, deep, places)

    def _of_blocks(self, work: Callable[[slice], T], collection: Collection, threads: int | None) -> list[T]:
        """The outcome of work on each block of queries, which are as many as memory has room for."""
        size = min(96, max(6, (1 << 28) // (8 * self.n_gallery) // 6 * 6))
        blocks = [slice(start, min(start + size, self.n_queries)) for start in range(0, self.n_queries, size)]
        _ = collection.own.order, collection.members, collection.identity_numbers  # once, not in every thread
        with ThreadPoolExecutor(n_threads(threads)) as pool:
            return list(track(pool.map(work, blocks), len(blocks), "ranking"))


class EmbeddingModel(Dense):
    """A model by its embeddings of queries and items."""

    def __init__(self, queries: np.ndarray, gallery: np.ndarray, similarity: str) -> None:
        self._queries, self._gallery, self._similarity = queries, gallery, similarity
        self._embeddings = Embeddings(queries, gallery, similarity)
        self.n_queries, self.n_gallery = self._embeddings.n_queries, self._embeddings.n_gallery
        self.lengths = self._embeddings.query_lengths

    def rows(self, block: slice) -> np.ndarray:
        return self._embeddings.rows(block)

    def scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        # a score depends on its two embeddings alone, whichever of them is the query's
        return self.both_scores(queries, items)[:, 1]

    def scores_in_ranking(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self.both_scores(queries, items)[:, 0]

    def both_scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        pairs = EmbeddingPairScores(self._queries, self._gallery, self._similarity)
        return np.stack(pairs.scores(queries, items), axis=1)


class CodeModel(Dense):
    """A model by its codes, compared by Hamming distance."""

    def __init__(self, queries: Codes, gallery: Codes) -> None:
        same_bits(queries.n_bits, gallery.n_bits)
        same_hasher(queries.hasher, gallery.hasher)
        self._queries, self._gallery = queries.words, gallery.words
        self.n_queries, self.n_gallery = len(queries), len(gallery)

    def rows(self, block: slice) -> np.ndarray:
        if self.n_queries * self.n_gallery >= MUCH:
            out = np.empty((len(self._queries[block]), self.n_gallery), np.float32)
            queries = np.ascontiguousarray(self._queries[block])
            place_kernels().negative_distances(queries, self._words_of_items, out)
            return out
        return self.rows_plainly(block)

    @cached_property
    def _words_of_items(self) -> np.ndarray:
        """The first word of all items, then the second: so that a loop reads them in order."""
        return np.ascontiguousarray(self._gallery.T)

    def rows_plainly(self, block: slice) -> np.ndarray:
        """As `rows`, in plain numpy."""
        out = np.zeros((len(self._queries[block]), self.n_gallery), np.float32)
        for query_word, words in zip(self._queries[block].T, self._gallery.T, strict=True):
            out -= np.bitwise_count(query_word[:, None] ^ words)
        return out

    def scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return -np.bitwise_count(self._queries[queries] ^ self._gallery[items]).sum(1, dtype=float)


class ScoreModel(Dense):
    """A model by a matrix of scores."""

    def __init__(self, matrix: Any) -> None:
        self._scores = Scores(matrix)
        self.n_queries, self.n_gallery = self._scores.n_queries, self._scores.n_gallery

    def rows(self, block: slice) -> np.ndarray:
        return self._scores.rows(block)

    def scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self._scores.matrix[queries, items].astype(float)


class RunModel(Model):
    """A model by its run: items that it lists rank by their scores, all others tie below them."""

    def __init__(self, run: Mapping[str, Mapping[str, float]], collection: Collection) -> None:
        if not all(isinstance(ranked, Mapping) for ranked in run.values()):
            raise InputTypeError("a run is {query: {item: score}}")
        pairs = [(str(query), str(item)) for query, ranked in run.items() for item in ranked]
        queries, items = collection.positions(pairs, "run entry")
        scores = np.array([score for ranked in run.values() for score in ranked.values()], float)
        if np.isnan(scores).any():
            query, item = pairs[int(np.isnan(scores).argmax())]
            raise InputError(f"the run scores query {query!r} with item {item!r} by nan")
        scores = np.maximum(scores, LOWEST)  # -inf is what a run does not list
        order = np.argsort(collection.keys(queries, items))
        self._keys = collection.keys(queries, items)[order]
        self._queries, self._items, self._scores = queries[order], items[order], scores[order]
        self._collection = collection

    def top(
        self,
        collection: Collection,
        depth: int,
        *,
        one_per_identity: bool = False,
        threads: int | None = None,  # noqa: ARG002  # there is little to do
    ) -> Ranked:
        kept = ~collection.is_own(self._queries, self._items)
        queries, items, scores = self._queries[kept], self._items[kept], self._scores[kept]
        order = np.lexsort((items, -scores, queries))
        if one_per_identity:
            identities = collection.identities[items[order]]
            _, first = np.unique(queries[order] * (collection.identities.max() + 1) + identities, return_index=True)
            order = order[np.sort(first)]
        queries, items, scores = queries[order], items[order], scores[order]
        starts = np.searchsorted(queries, np.arange(collection.n_queries))
        last = np.minimum(starts[queries] + depth, np.searchsorted(queries, queries, "right")) - 1
        kept = scores >= scores[last]
        return Ranked(depth, queries[kept], items[kept], scores[kept])

    def scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        if not len(self._keys):
            return np.full(len(queries), -np.inf)
        wanted = self._collection.keys(queries, items)
        rows = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[rows] == wanted, self._scores[rows], -np.inf)


def as_model(source: Any, collection: Collection, name: str = "model") -> Model:
    """A model from (queries, gallery) or (queries, gallery, similarity), a matrix of scores, or a run.

    The gallery may be `la.Shards`, which are read one at a time. name: what an error calls the model.
    """
    try:
        model = _as_model(source, collection)
    except InputTypeError as error:
        raise InputTypeError(f"{name}: ", *error.args) from error
    except InputError as error:
        raise InputError(f"{name}: ", *error.args) from error
    except TypeError as error:
        raise InputTypeError(f"{name}: {error}") from error
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error
    if model.n_gallery >= 0 and (model.n_queries, model.n_gallery) != (collection.n_queries, collection.n_items):
        raise InputError(
            f"{name} is of {model.n_queries} queries and {model.n_gallery} items, but the collection has "
            f"{collection.n_queries} and {collection.n_items}: models must rank the same catalogue"
        )
    return model


def _as_model(source: Any, collection: Collection) -> Model:
    if isinstance(source, Model):
        return source
    if isinstance(source, Mapping):
        return RunModel(source, collection)
    if isinstance(source, tuple) and len(source) in (2, 3):
        queries, gallery, *similarity = source
        if isinstance(gallery, Shards):
            from lookalike.discovery.sharded_rankers import ShardModel  # it is made of the models here

            return ShardModel(queries if isinstance(queries, Codes) else np.asarray(queries), gallery, *similarity)
        if isinstance(queries, Codes) and isinstance(gallery, Codes) and not similarity:
            return CodeModel(queries, gallery)
        if isinstance(queries, Codes) or isinstance(gallery, Codes):
            raise InputTypeError("codes are given as (query codes, gallery codes), compared by Hamming distance")
        return EmbeddingModel(np.asarray(queries), np.asarray(gallery), *(similarity or ["cosine"]))
    if hasattr(source, "ndim") and source.ndim == 2:
        return ScoreModel(source)
    raise InputTypeError(
        "a model is (queries, gallery) embeddings or Codes, a matrix of scores (n_queries, n_items), or a run "
        f"{{query: {{item: score}}}}, got {type(source).__name__}"
    )


def _within(queries: np.ndarray) -> np.ndarray:
    """The number of each row among those of its query, from 0; rows are sorted by query."""
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    return np.arange(len(queries)) - np.repeat(starts, np.diff(starts, append=len(queries)))
