"""Nearest neighbours of codes and embeddings: exact with ties settled, or approximate with its recall measured."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.codes import Codes, as_numpy
from lookalike.evaluation import n_threads
from lookalike.files import digest, provenance, read_arrays, write_arrays
from lookalike.scoring import SIMILARITIES, Embeddings, as_floats
from lookalike.tally import id_array

KINDS = ("auto", "exact", "ivf", "hnsw")
FAST_CODES = 200_000  # as many codes are scanned in less than a millisecond
FAST_NUMBERS = 1 << 24  # and embeddings of as many numbers in a few
SAMPLE = 1000  # queries to choose the effort by, and as many others to measure the recall with
TIMED = 200  # of them, for the time of exact search
FEWEST = 100  # items that lists or a graph are made for
MOST_VISITED = 1 / 4  # of the lists: where recall asks for more, "auto" scans everything
MOST_EFFORT = 4096  # of HNSW

__all__ = ["KINDS", "Found", "Index", "Measured", "recall"]


@dataclass(frozen=True, eq=False)
class Found:
    """The nearest items of each query, nearest first, ties by position.

    items: (n, k) positions. distances: (n, k), of codes whole numbers of bits, of embeddings their scores, higher
    being better. Where the index holds fewer than k items, the rest are -1, and nan among scores. ids: (n, k), where
    the index has ids; the rest are then -1 or "".
    """

    items: np.ndarray
    distances: np.ndarray
    ids: np.ndarray | None = None


@dataclass(frozen=True)
class Measured:
    """What an approximate index was measured to do, on queries that its effort was not chosen by.

    recall: the share of the k nearest that are found; what is as near as the k-th counts as found.
    speedup: the time of exact search over its own, side by side when it was built. It is not saved, so that a file
    depends on nothing but what was indexed, and None of an index that was loaded.
    """

    recall: float
    k: int
    n_queries: int
    speedup: float | None = None
    target: float = 0.99  # what was asked for
    seed: int = 0


class Index:
    """Items to be searched by their nearness; made by `Index.build` or `Index.load`, never changed.

    >>> index = Index.build(Codes.pack([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]]))
    >>> index
    Index(4 codes of 3 bits, exact)
    >>> found = index.search(Codes.pack([[0, 0, 0]]), k=3)
    >>> found.items, found.distances          # 1 and 3 are equally near: the first comes first
    (array([[0, 1, 3]]), array([[0, 1, 1]]))
    """

    def __init__(
        self,
        space: "_Codes | _Embeddings",
        kind: str,
        ids: np.ndarray | None = None,
        approximate: Any = None,
        effort: int | None = None,
        measured: Measured | None = None,
        order: np.ndarray | None = None,
    ) -> None:
        self._space, self._approximate = space, approximate
        self._order = order  # positions of the items in the order in which faiss was given them
        self.kind, self.ids, self.effort, self.measured = kind, ids, effort, measured
        if effort is not None:
            _set_effort(approximate, kind, effort)

    @classmethod
    def build(
        cls,
        items: Any,
        *,
        ids: Any = None,
        similarity: str = "cosine",
        kind: str = "auto",
        target: float = 0.99,
        k: int = 10,
        queries: Any = None,
        seed: int = 0,
    ) -> "Index":
        """Index Codes, or a matrix of embeddings (n, dim) by their `similarity`: cosine, dot or euclidean.

        kind: "exact" compares a query with every item; "ivf" with the items of the lists nearest to it; "hnsw" walks
        a graph; "auto" is exact where that is fast, else ivf. Of the approximate kinds, the effort (lists visited,
        candidates kept) is the least whose recall of the `k` nearest reaches `target`: on `queries`, else on items
        drawn with `seed`, which join the index only when they have been searched for. Fewer than 100 items are
        always searched exactly.
        """
        space = _space(items, similarity)
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
        if not 0 < target <= 1:
            raise ValueError(f"target must be a recall above 0 and up to 1, got {target!r}")
        _check_k(k)
        named = None if ids is None else _checked_ids(ids, len(space))
        sample = None if queries is None else space.checked(queries)
        if sample is not None and len(sample) < 2:
            raise ValueError(
                f"recall is measured on at least 2 queries, got {len(sample)}: leave them out, or give more"
            )
        if kind == "exact" or len(space) < FEWEST or (kind == "auto" and space.is_fast):
            return cls(space, "exact", named)
        wanted = "ivf" if kind == "auto" else kind
        rng = np.random.default_rng(seed)
        part, order = space, None
        held = np.zeros(0, int)
        if sample is None:  # items would be easier to find once they are in the lists or the graph
            held = rng.permutation(len(space))[: min(2 * SAMPLE, len(space) // 10)]
            rest = np.delete(np.arange(len(space)), held)
            part, sample, order = space.part(rest), space.items[held], np.concatenate([rest, held])
        with _faiss_threads(1):  # several would add to sums and graphs in an order of chance
            approximate = part.approximate(wanted, rng)
        effort, measured = _tuned(cls(part, wanted, None, approximate), sample, min(k, len(part)), target, rng)
        measured = replace(measured, target=target, seed=seed)
        if kind == "auto" and effort > MOST_VISITED * approximate.nlist:
            return cls(space, "exact", named)
        with _faiss_threads(1):
            space.add(approximate, held)
        return cls(space, wanted, named, approximate, effort, measured, order)

    def search(self, queries: Any, k: int, *, among: Any = None, threads: int | None = None) -> Found:
        """The k nearest items of each query: Codes for an index of codes, embeddings for one of embeddings.

        An exact search equals sorting all items by distance and position. An approximate one gives true distances,
        sorted in the same way; a query for which it finds fewer than k items is searched exactly.
        among: a mask (n,) of the items to search, which is done exactly by every kind of index.
        threads: how many to use, all cores by default; results are the same.
        """
        _check_k(k)
        checked: Any = self._space.checked(queries)
        rows = None if among is None else _checked_mask(among, len(self))
        workers = n_threads(threads)
        n = min(k, len(self) if rows is None else len(rows))
        if self._approximate is None or rows is not None or n == len(self):
            items, distances = self._space.exact(checked, n, workers, rows)
        else:
            items, distances = self._nearby(checked, n, workers)
        items, distances = _widened(items, k, -1), _widened(distances, k, self._space.nothing)
        return Found(items, distances, None if self.ids is None else _named(self.ids, items))

    def count_within(
        self, queries: Any, distances: Any, *, among: Any = None, threads: int | None = None
    ) -> np.ndarray:
        """How many items are at most as far from each query as its distance (n,), counted exactly by every kind.

        Of embeddings: how many have at least this score. With the last distance of a search it says how many items
        were as near as the last that was found. among: a mask (n,) of the items to count; threads: as in `search`.

        >>> index = Index.build(Codes.pack([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]]))
        >>> index.count_within(Codes.pack([[0, 0, 0]]), [1])
        array([3])
        """
        checked: Any = self._space.checked(queries)
        limits = as_numpy(distances)
        if limits.shape != (len(checked),) or limits.dtype.kind not in "iuf":
            raise ValueError(
                f"distances must be one number for each of {len(checked)} queries, "
                f"got shape {limits.shape} of {limits.dtype}"
            )
        rows = None if among is None else _checked_mask(among, len(self))
        return self._space.count_within(checked, limits, n_threads(threads), rows)

    def _nearby(self, queries: Any, k: int, workers: int) -> tuple[np.ndarray, np.ndarray]:
        """As the space's `exact`, of the items that the approximate index finds."""
        with _faiss_threads(workers):
            items = self._space.candidates(self._approximate, queries, k)
        short = (items < 0).any(axis=1)
        if self._order is not None:
            items = self._order[items]
        items[short] = 0  # to have a distance until the scan below replaces it
        distances = self._space.distances(queries, items)
        order = np.lexsort((items, self._space.sign * distances), axis=1)
        items, distances = (np.take_along_axis(part, order, axis=1) for part in (items, distances))
        if short.any():
            items[short], distances[short] = self._space.exact(queries[short], k, workers)
        return items, distances

    def fits(self, items: Any, ids: Any = None) -> bool:
        """Whether the index is of just these items (with these ids, if given): if not, it is stale.

        >>> codes = Codes.pack([[0, 1], [1, 1]])
        >>> Index.build(codes).fits(codes), Index.build(codes).fits(codes[:1])
        (True, False)
        """
        given = items if isinstance(items, Codes) else as_floats(items, "embeddings")
        same = type(given) is type(self._space.items) and _fingerprint(given) == self.digest
        if ids is None or not same:
            return same
        return self.ids is not None and np.array_equal(self.ids, _checked_ids(ids, len(given)))

    @property
    def digest(self) -> str:
        """The fingerprint of the items that are indexed."""
        return _fingerprint(self._space.items)

    @property
    def items(self) -> "Codes | np.ndarray":
        """The codes or embeddings that are indexed."""
        return self._space.items

    @property
    def similarity(self) -> str | None:
        """How embeddings are compared; of codes, None."""
        return self._space.similarity

    def save(self, path: str | Path) -> None:
        """Write to .npz, whole or not at all: the items, their ids, the lists or the graph, and the recall.

        The same items, ids, options and seed give the same bytes, if the versions are the same.
        """
        if Path(path).suffix != ".npz":
            raise ValueError(f"cannot write {path}: the name of an index must end in .npz")
        arrays = self._space.arrays()
        if self.ids is not None:
            arrays["ids"] = self.ids
        if self._approximate is not None:
            arrays["faiss"] = self._space.serialised(self._approximate)
        if self._order is not None:
            arrays["order"] = self._order
        about = provenance(
            "index",
            method=self.kind,
            similarity=self.similarity,
            effort=self.effort,
            measured=None if self.measured is None else _without_times(self.measured),
            digest=self.digest,
            content=_content(arrays),
            faiss=None if self._approximate is None else version("faiss-cpu"),
        )
        write_arrays(path, arrays, about)

    @classmethod
    def load(cls, path: str | Path) -> "Index":
        """Read what `save` wrote."""
        arrays, about = read_arrays(path)
        if about.get("lookalike") != "index":
            raise ValueError(f"{path} is not an index: expected a file that Index.save wrote")
        damaged = f"{path} is damaged: build the index again"
        if about.get("content") != _content(arrays):
            raise ValueError(damaged)
        try:
            space = (
                _Codes(Codes.from_arrays(arrays, about, path))
                if "packed" in arrays
                else _Embeddings(arrays["embeddings"], about["similarity"])
            )
            measured = about["measured"] and Measured(**about["measured"])
            approximate = space.deserialised(arrays["faiss"]) if "faiss" in arrays else None
            effort, order = about["effort"], arrays.get("order")
            index = cls(space, about["method"], arrays.get("ids"), approximate, effort, measured, order)
        except (KeyError, TypeError, RuntimeError) as error:
            raise ValueError(damaged) from error
        if index.digest != about["digest"] or (approximate is not None and approximate.ntotal != len(index)):
            raise ValueError(damaged)
        return index

    def __len__(self) -> int:
        return len(self._space)

    def __repr__(self) -> str:
        effort = {"ivf": "lists visited", "hnsw": "candidates kept"}.get(self.kind)
        facts = [self._space.what, self.kind if effort is None else f"{self.kind} with {self.effort} {effort}"]
        if self.measured is not None:
            facts.append(f"recall {self.measured.recall:.4f} of the first {self.measured.k}")
            if self.measured.speedup is not None:
                facts.append(f"{self.measured.speedup:.1f} times as fast as exact")
        return f"Index({', '.join(facts)})"


# What can be searched


class _Codes:
    """Codes and their Hamming distances."""

    sign = 1  # smaller is nearer
    nothing: float = -1
    similarity = None

    def __init__(self, items: Codes) -> None:
        if not len(items):
            raise ValueError("there are no codes to index")
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
            raise TypeError(f"the index is of codes, got {type(queries).__name__} to search for: hash the queries too")
        if queries.n_bits != self.items.n_bits:
            raise ValueError(
                f"indexed codes have {self.items.n_bits} bits, queries have {queries.n_bits}: "
                "encode both with the same hasher"
            )
        return queries

    def exact(
        self, queries: Codes, k: int, workers: int, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest by distance, then position, of all items or of those at these positions, which rise.

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
        with _faiss_threads(workers):
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

    def part(self, rows: np.ndarray) -> "_Codes":
        return _Codes(self.items[rows])

    def candidates(self, index: Any, queries: Codes, k: int) -> np.ndarray:
        return np.array(index.search(queries.to_bytes(), k)[1])

    def arrays(self) -> dict[str, np.ndarray]:
        return {"packed": self.items.to_bytes(), "n_bits": np.array(self.items.n_bits)}

    def serialised(self, index: Any) -> np.ndarray:
        return _faiss().serialize_index_binary(index)

    def deserialised(self, octets: np.ndarray) -> Any:
        return _faiss().deserialize_index_binary(octets)


class _Embeddings:
    """Embeddings and their scores, bit for bit those that `la.evaluate` ranks by."""

    sign = -1  # larger is nearer
    nothing: float = np.nan

    def __init__(self, items: Any, similarity: str) -> None:
        items = as_floats(items, "embeddings")
        if not len(items):
            raise ValueError("there are no embeddings to index")
        if similarity not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {', '.join(map(repr, SIMILARITIES))}, got {similarity!r}")
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
        return Embeddings(np.ones((1, self.items.shape[1]), dtype), self.items, self.similarity)

    def checked(self, queries: Any) -> np.ndarray:
        if isinstance(queries, Codes):
            raise TypeError("the index is of embeddings, got Codes to search for: give the embeddings themselves")
        queries = as_floats(queries, "query embeddings")
        Embeddings(queries, self.items[:1], self.similarity)  # raises for what cannot be compared
        return queries

    def exact(
        self, queries: np.ndarray, k: int, workers: int, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k of the highest score, then position, of all items or of those at these positions, which rise.

        Every score is computed, and all that reach the k-th are sorted.
        """
        items, found = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))

        def keep(query: int, scores: np.ndarray) -> None:
            n = len(scores)
            reach = np.arange(n) if k in (0, n) else np.flatnonzero(scores >= np.partition(scores, -k)[-k])
            best = reach[np.argsort(-scores[reach], kind="stable")[:k]]
            items[query], found[query] = best, scores[best]

        self._scan(queries, workers, rows, keep)
        return items if rows is None else rows[items], found

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
        size = min(48, max(6, (1 << 27) // (8 * len(self)) // 6 * 6))

        def fill(start: int) -> None:
            block = slice(start, min(start + size, len(queries)))
            for query, row in enumerate(_scores(scores, block), start):
                use(query, row if rows is None else row[rows])

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(fill, range(0, len(queries), size)))

    def distances(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        found = np.empty(items.shape)
        for start in range(0, len(queries), 96):
            block = slice(start, start + 96)
            distinct, place = np.unique(items[block], return_inverse=True)
            scores = Embeddings(queries[block], self.items[distinct], self.similarity)
            found[block] = np.take_along_axis(
                _scores(scores, slice(0, scores.n_queries)), place.reshape(items[block].shape), axis=1
            )
        return found

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

    def part(self, rows: np.ndarray) -> "_Embeddings":
        part = _Embeddings(self.items[rows], self.similarity)
        part._centre, part._largest = self._centre, self._largest  # the others are added to the same index
        return part

    def candidates(self, index: Any, queries: np.ndarray, k: int) -> np.ndarray:
        return np.array(index.search(self._as_faiss(queries, are_queries=True), k)[1])

    def _as_faiss(self, rows: np.ndarray, are_queries: bool = False) -> np.ndarray:
        """Rows as float32 of moderate size in which the nearest are the same, but for rounding."""
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


def _space(items: Any, similarity: str) -> _Codes | _Embeddings:
    return _Codes(items) if isinstance(items, Codes) else _Embeddings(items, similarity)


def _scores(scores: Embeddings, block: slice) -> np.ndarray:
    rows = scores.rows(block)
    if scores.query_lengths is not None:
        rows /= scores.query_lengths[block, None]
    return rows


# Effort and recall


def recall(distances: np.ndarray, exact: np.ndarray, sign: int = 1) -> np.ndarray:
    """Of each query, the share of places at which an item is found that is as near as the exact k-th, or nearer.

    distances, exact: (n, k), what was found and the true ones, nearest first; sign: -1 where larger is nearer.

    >>> recall(np.array([[1, 3, 3]]), np.array([[1, 2, 3]]))        # the second 3 ties with the third place
    array([1.])
    >>> recall(np.array([[1, 3, 4]]), np.array([[1, 2, 3]]))
    array([0.66666667])
    """
    return (sign * distances <= sign * exact[:, -1:]).mean(axis=1)


def _tuned(index: Index, sample: Any, k: int, target: float, rng: np.random.Generator) -> tuple[int, Measured]:
    """The least effort that reaches the target for half of a sample of queries, and what it does for the others."""
    space: Any = index._space
    sample = sample[rng.permutation(len(sample))[: 2 * SAMPLE]]
    choosing, measuring = sample[: len(sample) // 2], sample[len(sample) // 2 :]
    workers = n_threads(None)

    def recalls(queries: Any, truth: np.ndarray, effort: int) -> np.ndarray:
        _set_effort(index._approximate, index.kind, effort)
        return recall(index._nearby(queries, k, workers)[1], truth, space.sign)

    def reaches(effort: int) -> bool:
        each = recalls(choosing, known, effort)
        margin = 2 * each.std() / np.sqrt(len(each))  # two standard errors: it is to hold for other queries
        return bool(each.mean() - margin >= target)

    known = space.exact(choosing, k, workers)[1]
    effort = _least(reaches, index._approximate.nlist if index.kind == "ivf" else MOST_EFFORT)
    reached = float(recalls(measuring, space.exact(measuring, k, workers)[1], effort).mean())
    if index.kind == "hnsw" and effort == MOST_EFFORT and reached < target:
        raise ValueError(
            f"hnsw reaches a recall of {reached:.4f} at most, the target is {target}: lower it, or take kind='ivf', "
            "which reaches every target"
        )
    few = measuring[:TIMED]
    slow = _best_time(lambda: space.exact(few, k, workers)) / len(few)
    fast = _best_time(lambda: index._nearby(measuring, k, workers)) / len(measuring)
    return effort, Measured(reached, k, len(measuring), slow / fast)


def _least(reaches: Callable[[int], bool], most: int) -> int:
    """The least whole number up to `most` that reaches the target, taking it that more is never worse."""
    high = 1
    while high < most and not reaches(high):
        high = min(2 * high, most)
    low = high // 2  # does not reach it
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _best_time(search: Callable[[], Any]) -> float:
    times = []
    for _ in range(3):
        started = time.perf_counter()
        search()
        times.append(time.perf_counter() - started)
    return max(min(times), 1e-9)


# faiss


def _has_faiss() -> bool:
    return importlib.util.find_spec("faiss") is not None


def _faiss() -> Any:
    """The library that searches; it has no types."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        message = 'an approximate index needs faiss, exact search does without: pip install "lookalike[search]"'
        raise ModuleNotFoundError(message, name="faiss") from error


@contextmanager
def _faiss_threads(threads: int) -> Iterator[None]:
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _set_effort(index: Any, kind: str, effort: int) -> None:
    if kind == "ivf":
        index.nprobe = effort
    else:
        index.hnsw.efSearch = effort


def _n_lists(n: int) -> int:
    """About twice the square root: reading the lists' centres then costs about as much as reading lists."""
    return max(1, min(n, 2 * round(n**0.5)))


def _training(index: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows to find the lists' centres by, after the index was told how."""
    index.cp.seed = int(rng.integers(1 << 30))
    index.cp.niter = 10
    index.cp.min_points_per_centroid = 1
    return np.sort(rng.choice(n, min(n, 64 * index.nlist), replace=False))


def _width(codes: Codes) -> int:
    return -(-codes.n_bits // 8) * 8


# Small things


def _bits_apart(words: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Hamming distances of all codes from one, (n,)."""
    return np.bitwise_count(words ^ query).sum(axis=1, dtype=np.uint16)


def _without_times(measured: Measured) -> dict[str, Any]:
    return {name: value for name, value in asdict(measured).items() if name != "speedup"}


def _checked_mask(among: Any, n: int) -> np.ndarray:
    """The positions of a mask."""
    mask = as_numpy(among)
    if mask.shape != (n,) or mask.dtype != bool:
        raise ValueError(f"among must be a mask ({n},) of bool, got {mask.shape} of {mask.dtype}")
    return np.flatnonzero(mask)


def _check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a whole number of at least 1, got {k!r}")


def _checked_ids(ids: Any, n: int) -> np.ndarray:
    named = id_array(ids, "ids")
    if len(named) != n:
        raise ValueError(f"there are {n:,} items, but {len(named):,} ids")
    if len(np.unique(named)) != n:
        raise ValueError("ids must all be different: an item is found by its id")
    return named


def _named(ids: np.ndarray, items: np.ndarray) -> np.ndarray:
    return np.where(items < 0, -1 if ids.dtype.kind in "iu" else "", ids[items])


def _widened(found: np.ndarray, k: int, filler: float) -> np.ndarray:
    return np.pad(found, ((0, 0), (0, k - found.shape[1])), constant_values=filler)


def _fingerprint(items: Codes | np.ndarray) -> str:
    return items.digest if isinstance(items, Codes) else digest(items)


def _content(arrays: dict[str, np.ndarray]) -> str:
    return digest(*(arrays[name] for name in sorted(arrays)))
