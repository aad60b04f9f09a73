"""What can be searched: codes and embeddings, the distances of their items, and their indexes in faiss."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from lookalike.core.checks import choice, same_bits, same_hasher
from lookalike.core.codes import Codes
from lookalike.core.embeddings import SIMILARITIES, Embeddings, as_floats, check_queries
from lookalike.core.errors import InputError, InputTypeError, MissingPackageError

FAST_CODES = 200_000  # as many codes are scanned in less than a millisecond
FAST_NUMBERS = 1 << 24  # and embeddings of as many numbers in a few

__all__ = ["CodeSpace", "EmbeddingSpace", "faiss_threads", "set_effort", "space_of"]


class CodeSpace:
    """Codes and their Hamming distances."""

    sign = 1  # smaller is nearer
    nothing: float = -1
    similarity = None

    def __init__(self, items: Codes) -> None:
        if not len(items):
            raise InputError("there are no codes to index")
        self.items = items
        self._scanner: Any = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def what(self) -> str:
        return f"{len(self):,} codes of {self.items.n_bits} bits"

    @property
    def is_fast(self) -> bool:
        return len(self) * self.items.words.shape[1] <= FAST_CODES

    def checked(self, queries: Any) -> Codes:
        if not isinstance(queries, Codes):
            raise InputTypeError(
                f"the index is of codes, got {type(queries).__name__} to search for: hash the queries too"
            )
        same_bits(queries.n_bits, self.items.n_bits, "indexed codes")
        same_hasher(queries.hasher, self.items.hasher, "indexed codes")
        return queries

    def exact(
        self, queries: Codes, k: int, workers: int, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest items, ties by position, of all items or of those at these rising positions.

        faiss's counting search reads items in order and keeps, at each distance, the first k: ties at the k-th place
        are settled by position. It needs room for k items at every distance, so that long lists are sorted instead,
        and so are all where faiss is not installed.
        """
        if k == 0:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.int64)
        if rows is not None:
            items, distances = self.part(rows).exact(queries, k, workers)
            return rows[items], distances
        if (self.items.n_bits + 1) * k > 1 << 20 or not _has_faiss():
            return self._sorted(queries, k)
        if self._scanner is None:
            scanner = _faiss().IndexBinaryFlat(_width(self.items))
            scanner.add(self.items.to_bytes())
            scanner.use_heap = False
            self._scanner = scanner
        with faiss_threads(workers):
            distances, items = self._scanner.search(queries.to_bytes(), k)
        return items, distances.astype(np.int64)

    def _sorted(self, queries: Codes, k: int) -> tuple[np.ndarray, np.ndarray]:
        items, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.int64)
        for i, words in enumerate(queries.words):
            every = _bits_apart(self.items.words, words)
            items[i] = np.argsort(every, kind="stable")[:k]
            distances[i] = every[items[i]]
        return items, distances

    def count_within(
        self, queries: Codes, limits: np.ndarray, workers: int, rows: np.ndarray | None = None
    ) -> np.ndarray:
        words = self.items.words if rows is None else self.items.words[rows]

        def count(query: int) -> int:
            return int(np.count_nonzero(_bits_apart(words, queries.words[query]) <= limits[query]))

        with ThreadPoolExecutor(workers) as pool:
            return np.array(list(pool.map(count, range(len(queries)))), np.int64)

    def distances(self, queries: Codes, items: np.ndarray) -> np.ndarray:
        differing = self.items.words[items] ^ queries.words[:, None]
        return np.bitwise_count(differing).sum(axis=2, dtype=np.int64)

    def approximate(self, kind: str, rng: np.random.Generator) -> Any:
        faiss, width = _faiss(), _width(self.items)
        if kind == "hnsw":
            index = faiss.IndexBinaryHNSW(width, 16)
            index.hnsw.efConstruction = 80
        else:
            index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(width), width, _n_lists(len(self)))
            index.train(self.items[_training(index, len(self), rng)].to_bytes())
        self.add(index, np.arange(len(self)))
        return index

    def add(self, index: Any, rows: np.ndarray) -> None:
        index.add(self.items[rows].to_bytes())

    def part(self, rows: np.ndarray) -> "CodeSpace":
        return CodeSpace(self.items[rows])

    def candidates(self, index: Any, queries: Codes, k: int) -> np.ndarray:
        return np.array(index.search(queries.to_bytes(), k)[1])

    def arrays(self) -> dict[str, np.ndarray]:
        return {"packed": self.items.to_bytes(), "n_bits": np.array(self.items.n_bits)}

    def serialised(self, index: Any) -> np.ndarray:
        return _faiss().serialize_index_binary(index)

    def deserialised(self, octets: np.ndarray) -> Any:
        return _faiss().deserialize_index_binary(octets)


class EmbeddingSpace:
    """Embeddings and their scores, bit for bit those that `la.evaluate` ranks by."""

    sign = -1  # larger is nearer
    nothing: float = np.nan

    def __init__(self, items: Any, similarity: str) -> None:
        items = as_floats(items, "embeddings")
        if not len(items):
            raise InputError("there are no embeddings to index")
        choice("similarity", similarity, SIMILARITIES)
        self.items = items.copy() if items.flags.writeable else items  # nobody else may change it
        self.items.flags.writeable = False
        self.similarity = similarity
        self._laid_out = {self.items.dtype: self._lay_out(self.items.dtype)}
        self._centre = self.items.mean(axis=0, dtype=np.float64) if similarity == "euclidean" else 0.0
        self._largest = 1.0 if similarity == "cosine" else float(np.abs(self.items).max()) or 1.0

    def __len__(self) -> int:
        return len(self.items)

    @property
    def what(self) -> str:
        return f"{len(self):,} embeddings of {self.items.shape[1]} numbers, {self.similarity}"

    @property
    def is_fast(self) -> bool:
        return self.items.size <= FAST_NUMBERS

    def _lay_out(self, dtype: Any) -> Embeddings:
        return Embeddings(np.ones((1, self.items.shape[1]), dtype), self.items, self.similarity, in_place=True)

    def checked(self, queries: Any) -> np.ndarray:
        if isinstance(queries, Codes):
            raise InputTypeError("the index is of embeddings, got Codes to search for: give the embeddings themselves")
        queries = as_floats(queries, "query embeddings")
        check_queries(queries, self.items, self.similarity)
        return queries

    def exact(
        self,
        queries: np.ndarray,
        k: int,
        workers: int,
        rows: np.ndarray | None = None,
        near: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k items of the highest score, ties by position, of all items or of those at these rising positions.

        Every score is computed, and all that reach the k-th are sorted. near: is filled with how many these are.
        """
        items, best_scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))

        def keep(query: int, scores: np.ndarray) -> None:
            n = len(scores)
            reach = np.arange(n) if k in (0, n) else np.flatnonzero(scores >= np.partition(scores, -k)[-k])
            best = reach[np.argsort(-scores[reach], kind="stable")[:k]]
            items[query], best_scores[query] = best, scores[best]
            if near is not None:
                near[query] = len(reach) if k else 0

        self._scan(queries, workers, rows, keep)
        return items if rows is None else rows[items], best_scores

    def count_within(
        self, queries: np.ndarray, limits: np.ndarray, workers: int, rows: np.ndarray | None = None
    ) -> np.ndarray:
        counts = np.empty(len(queries), np.int64)

        def count(query: int, scores: np.ndarray) -> None:
            counts[query] = np.count_nonzero(scores >= limits[query])

        self._scan(queries, workers, rows, count)
        return counts

    def _scan(
        self, queries: np.ndarray, workers: int, rows: np.ndarray | None, use: Callable[[int, np.ndarray], None]
    ) -> None:
        """Call `use` with each query's number and its scores, of all items or of those at these positions."""
        dtype = np.result_type(queries, self.items)
        if dtype not in self._laid_out:  # once, and not for every search
            self._laid_out[dtype] = self._lay_out(dtype)
        scores = self._laid_out[dtype].with_queries(queries)
        scores.threads = workers if len(queries) == 1 else 1
        size = min(48, max(6, (1 << 27) // (8 * len(self)) // 6 * 6))

        def fill(start: int) -> None:
            block = slice(start, min(start + size, len(queries)))
            for query, row in enumerate(_scores(scores, block), start):
                use(query, row if rows is None else row[rows])

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(fill, range(0, len(queries), size)))

    def distances(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        out = np.empty(items.shape)
        for start in range(0, len(queries), 96):
            block = slice(start, start + 96)
            distinct, columns = np.unique(items[block], return_inverse=True)
            scores = Embeddings(queries[block], self.items[distinct], self.similarity)
            out[block] = np.take_along_axis(
                _scores(scores, slice(0, scores.n_queries)), columns.reshape(items[block].shape), axis=1
            )
        return out

    def approximate(self, kind: str, rng: np.random.Generator) -> Any:
        faiss, width = _faiss(), self.items.shape[1]
        metric = faiss.METRIC_L2 if self.similarity == "euclidean" else faiss.METRIC_INNER_PRODUCT
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(width, 16, metric)
            index.hnsw.efConstruction = 80
        else:
            index = faiss.IndexIVFFlat(faiss.IndexFlat(width, metric), width, _n_lists(len(self)), metric)
            index.train(self._as_faiss(self.items[_training(index, len(self), rng)]))
        self.add(index, np.arange(len(self)))
        return index

    def add(self, index: Any, rows: np.ndarray) -> None:
        for start in range(0, len(rows), 1 << 16):
            index.add(self._as_faiss(self.items[rows[start : start + (1 << 16)]]))

    def part(self, rows: np.ndarray) -> "EmbeddingSpace":
        part = EmbeddingSpace(self.items[rows], self.similarity)
        part._centre, part._largest = self._centre, self._largest  # the others are added to the same index
        return part

    def candidates(self, index: Any, queries: np.ndarray, k: int) -> np.ndarray:
        return np.array(index.search(self._as_faiss(queries, are_queries=True), k)[1])

    def _as_faiss(self, rows: np.ndarray, are_queries: bool = False) -> np.ndarray:
        """Rows as float32 of moderate size; the nearest stay the nearest, but for rounding."""
        out = rows.astype(np.float64) - self._centre
        if self.similarity == "cosine" or (self.similarity == "dot" and are_queries):
            out /= np.maximum(np.abs(out).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        if self.similarity == "cosine":
            out /= np.linalg.norm(out, axis=1, keepdims=True)
        elif not (self.similarity == "dot" and are_queries):
            out /= self._largest
        limit = 1e15  # squares stay within float32
        return np.clip(out, -limit, limit).astype(np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"embeddings": self.items}

    def serialised(self, index: Any) -> np.ndarray:
        return _faiss().serialize_index(index)

    def deserialised(self, octets: np.ndarray) -> Any:
        return _faiss().deserialize_index(octets)


def space_of(items: Any, similarity: str) -> CodeSpace | EmbeddingSpace:
    """The space of these items: Codes or embeddings."""
    return CodeSpace(items) if isinstance(items, Codes) else EmbeddingSpace(items, similarity)


def _scores(scores: Embeddings, block: slice) -> np.ndarray:
    rows = scores.rows(block)
    if scores.query_lengths is not None:
        rows /= scores.query_lengths[block, None]
    return rows


def _bits_apart(words: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Hamming distances of all codes from one, (n,)."""
    return np.bitwise_count(words ^ query).sum(axis=1, dtype=np.uint16)


# faiss


def _has_faiss() -> bool:
    return importlib.util.find_spec("faiss") is not None


def _faiss() -> Any:
    """The faiss module; it has no types."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        message = 'an approximate index needs faiss, exact search does without: pip install "lookalike[search]"'
        raise MissingPackageError(message, package="faiss", extra="search") from error


@contextmanager
def faiss_threads(threads: int) -> Iterator[None]:
    """Within this block, faiss uses this many threads."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def set_effort(index: Any, kind: str, effort: int) -> None:
    """Set how much an index of faiss looks at: lists visited of ivf, candidates kept of hnsw."""
    if kind == "ivf":
        index.nprobe = effort
    else:
        index.hnsw.efSearch = effort


def _n_lists(n: int) -> int:
    """The number of lists for n items, twice the square root: reading centres then costs as much as reading lists."""
    return max(1, min(n, 2 * round(n**0.5)))


def _training(index: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """Set how an index learns the centres of its lists, and draw the rows that it learns them from."""
    index.cp.seed = int(rng.integers(1 << 30))
    index.cp.niter = 10
    index.cp.min_points_per_centroid = 1
    return np.sort(rng.choice(n, min(n, 64 * index.nlist), replace=False))


def _width(codes: Codes) -> int:
    return -(-codes.n_bits // 8) * 8
