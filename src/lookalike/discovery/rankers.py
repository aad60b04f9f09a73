"""Models: anything that ranks items for queries. Embeddings, codes, a matrix of scores or a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lookalike.core.checks import same_bits, same_hasher
from lookalike.core.codes import Codes
from lookalike.core.embeddings import Embeddings, Scores
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.kernels import kernels
from lookalike.core.progress import track
from lookalike.core.threads import n_threads
from lookalike.discovery.collection import Collection
from lookalike.discovery.places import PairsToPlace, Places, places_in_lists, places_in_row
from lookalike.evaluation.tally import LOWEST
from lookalike.shards.gallery import Shards

T = TypeVar("T")

__all__ = ["Model", "Ranked", "as_model"]


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

    def places(
        self, collection: Collection, pairs: PairsToPlace, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Places:
        """Where pairs rank among everything that the model ranks for their queries."""
        top = self.top(collection, collection.n_items, one_per_identity=one_per_identity, threads=threads)
        return places_in_lists(pairs, top.queries, top.items, top.scores, collection.n_queries)


class Dense(Model):
    """A model that has a score for every pair, computed a block of queries at a time."""

    lengths: np.ndarray | None = None  # what to divide each query's scores by, to compare them with other queries'

    @abstractmethod
    def rows(self, block: slice) -> np.ndarray:
        """Scores of a block of queries with all items, for the caller to change."""

    def top(
        self, collection: Collection, depth: int, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Ranked:
        def work(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return self._top_of_block(collection, block, depth, one_per_identity)

        parts = self._of_blocks(work, collection, threads)
        return Ranked(depth, *(np.concatenate(column) for column in zip(*parts, strict=True)))

    def places(
        self, collection: Collection, pairs: PairsToPlace, *, one_per_identity: bool = False, threads: int | None = None
    ) -> Places:
        places = Places.empty(pairs, collection.n_queries)

        def work(block: slice) -> None:  # each block writes to its own part of the places
            self._place_block(collection, block, pairs, places, one_per_identity)

        self._of_blocks(work, collection, threads)
        return places

    def _of_blocks(self, work: Callable[[slice], T], collection: Collection, threads: int | None) -> list[T]:
        """The outcome of work on each block of queries, which are as many as memory has room for."""
        size = min(96, max(6, (1 << 28) // (8 * self.n_gallery) // 6 * 6))
        blocks = [slice(start, min(start + size, self.n_queries)) for start in range(0, self.n_queries, size)]
        _ = collection.own.order, collection.members  # once, not in every thread
        with ThreadPoolExecutor(n_threads(threads)) as pool:
            return list(track(pool.map(work, blocks), len(blocks), "ranking"))

    def _place_block(
        self, collection: Collection, block: slice, pairs: PairsToPlace, places: Places, one_per_identity: bool
    ) -> None:
        """Count where the pairs of a block of queries rank; of an identity, the first of its best items ranks."""
        rows = self.rows(block)
        rows[collection.own.pairs(block)] = -np.inf
        order, starts = collection.members
        ends = np.append(starts[1:], len(order))
        for query, row in enumerate(rows, block.start):
            mine = pairs.of(query)
            items, ranked = pairs.items[mine], pairs.scores[mine] > -np.inf
            best = np.maximum.reduceat(row[order], starts) if one_per_identity else row
            if one_per_identity:
                identity = np.searchsorted(collection.identities[order[starts]], collection.identities[items])
                firsts = [_best(row, order[starts[p] : ends[p]]) for p in identity.tolist()]
                ranked &= items == np.array(firsts, np.int64)
            length = 1 if self.lengths is None else self.lengths[query]
            ascending = np.sort(best).astype(float) / length
            places.above[mine], places.tied[mine], places.n_ranked[query] = places_in_row(ascending, pairs.scores[mine])
            places.ranked[mine] = ranked

    def _top_of_block(
        self, collection: Collection, block: slice, depth: int, one_per_identity: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = self.rows(block)
        rows[collection.own.pairs(block)] = -np.inf
        best, (order, starts) = rows, collection.members
        if one_per_identity:
            best = np.maximum.reduceat(rows[:, order], starts, axis=1)
        parts = []
        for query, row in enumerate(best):
            least = kernels().kth_largest(row, depth)
            nearest = np.flatnonzero(row >= least if least > -np.inf else row > -np.inf)
            if one_per_identity:  # the first of the identity's best items
                ends = np.append(starts[1:], len(order))
                nearest = np.array([_best(rows[query], order[starts[p] : ends[p]]) for p in nearest], np.int64)
            scores = rows[query, nearest].astype(float) / (1 if self.lengths is None else self.lengths[block][query])
            parts.append((np.full(len(nearest), block.start + query), nearest, scores))
        queries, items, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((items, -values, queries))
        return queries[order], items[order], values[order]


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
        return self._of_pairs(queries, items, lambda small: small.symmetric_rows(slice(0, 1))[0])

    def scores_in_ranking(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        def of_rows(small: Embeddings) -> np.ndarray:
            row = small.rows(slice(0, 1))[0].astype(float)
            return row if small.query_lengths is None else np.asarray(row / small.query_lengths[0])

        return self._of_pairs(queries, items, of_rows)

    def _of_pairs(
        self, queries: np.ndarray, items: np.ndarray, score: Callable[[Embeddings], np.ndarray]
    ) -> np.ndarray:
        out = np.empty(len(queries))
        for query, rows in _by_query(queries):
            out[rows] = score(
                Embeddings(self._queries[query : query + 1], self._gallery[items[rows]], self._similarity)
            )
        return out


class CodeModel(Dense):
    """A model by its codes, compared by Hamming distance."""

    def __init__(self, queries: Codes, gallery: Codes) -> None:
        same_bits(queries.n_bits, gallery.n_bits)
        same_hasher(queries.hasher, gallery.hasher)
        self._queries, self._gallery = queries.words, gallery.words
        self.n_queries, self.n_gallery = len(queries), len(gallery)

    def rows(self, block: slice) -> np.ndarray:
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


def _best(row: np.ndarray, items: np.ndarray) -> int:
    return int(items[row[items].argmax()])


def _within(queries: np.ndarray) -> np.ndarray:
    """The number of each row among those of its query, from 0; rows are sorted by query."""
    return np.arange(len(queries)) - np.searchsorted(queries, queries)


def _by_query(queries: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Each query that occurs, with its rows."""
    order = np.argsort(queries, kind="stable")
    starts = np.flatnonzero(np.diff(queries[order])) + 1
    return [(int(queries[rows[0]]), rows) for rows in np.split(order, starts) if len(rows)]
