"""Nearest neighbours of codes and embeddings: exact with ties settled, or approximate with its recall measured."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import Codes, as_numpy
from lookalike.core.embeddings import as_floats
from lookalike.core.files import digest, is_whole, provenance, read_arrays, seal, write_arrays
from lookalike.core.ids import id_array
from lookalike.core.threads import n_threads
from lookalike.search.spaces import CodeSpace, EmbeddingSpace, faiss_threads, set_effort, space_of

KINDS = ("auto", "exact", "ivf", "hnsw")
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
        space: CodeSpace | EmbeddingSpace,
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
            set_effort(approximate, kind, effort)

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
        space = space_of(items, similarity)
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
        with faiss_threads(1):  # several would add to sums and graphs in an order of chance
            approximate = part.approximate(wanted, rng)
        effort, measured = _tuned(cls(part, wanted, None, approximate), sample, min(k, len(part)), target, rng)
        measured = replace(measured, target=target, seed=seed)
        if kind == "auto" and effort > MOST_VISITED * approximate.nlist:
            return cls(space, "exact", named)
        with faiss_threads(1):
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
        with faiss_threads(workers):
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
        write_arrays(path, arrays, about | {"seal": seal(arrays, about)})

    @classmethod
    def load(cls, path: str | Path) -> "Index":
        """Read what `save` wrote."""
        arrays, about = read_arrays(path)
        if about.get("lookalike") != "index":
            raise ValueError(f"{path} is not an index: expected a file that Index.save wrote")
        damaged = f"{path} is damaged: build the index again"
        # faiss trusts the bytes that it is given: they are compared with what was saved first
        if about.get("content") != _content(arrays) or not is_whole(arrays, about):
            raise ValueError(damaged)
        try:
            index = cls._of(arrays, about, path)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(damaged) from error
        if index.digest != about.get("digest"):
            raise ValueError(damaged)
        return index

    @classmethod
    def _of(cls, arrays: dict[str, np.ndarray], about: dict[str, Any], path: str | Path) -> "Index":
        """The index of what `save` wrote; raises where its parts do not fit each other."""
        kind, effort, measured, order = about["method"], about["effort"], about["measured"], arrays.get("order")
        space: CodeSpace | EmbeddingSpace
        if "packed" in arrays:
            space = CodeSpace(Codes.from_arrays(arrays, about, path))
        else:
            space = EmbeddingSpace(arrays["embeddings"], about["similarity"])
        named = _checked_ids(arrays["ids"], len(space)) if "ids" in arrays else None
        if kind == "exact":
            if effort is not None or measured is not None or {"faiss", "order"} & arrays.keys():
                raise ValueError("an exact index has no lists")
            return cls(space, kind, named)
        if kind not in KINDS[2:]:
            raise ValueError(f"there is no kind {kind!r}")
        _check_k(effort)
        if order is not None and (order.dtype.kind != "i" or not np.array_equal(np.sort(order), np.arange(len(space)))):
            raise ValueError("order must have every position once")
        if arrays["faiss"].dtype != np.uint8 or arrays["faiss"].ndim != 1:
            raise ValueError("the lists must be bytes")
        approximate = space.deserialised(arrays["faiss"])
        if approximate.ntotal != len(space) or effort > (approximate.nlist if kind == "ivf" else MOST_EFFORT):
            raise ValueError("the lists are of other items, or fewer than are to be visited")
        return cls(space, kind, named, approximate, effort, _checked_measured(Measured(**measured)), order)

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
        set_effort(index._approximate, index.kind, effort)
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


# Small things


def _without_times(measured: Measured) -> dict[str, Any]:
    return {name: value for name, value in asdict(measured).items() if name != "speedup"}


def _checked_measured(measured: Measured) -> Measured:
    """What was measured, as a file has it."""
    _check_k(measured.k)
    _check_k(measured.n_queries)
    if not 0 <= measured.recall <= 1 or not 0 < measured.target <= 1 or not isinstance(measured.seed, int):
        raise ValueError("a recall must be from 0 to 1")
    return measured


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
