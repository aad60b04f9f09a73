"""Nearest neighbours of codes and embeddings: exact with ties settled, or approximate with its recall measured."""

import functools
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import choice, distinct, equal_lengths, whole_number
from lookalike.core.codes import Codes, as_numpy
from lookalike.core.embeddings import as_floats
from lookalike.core.errors import FileError, InputError
from lookalike.core.files import digest, is_whole, provenance, read_arrays, seal, write_arrays
from lookalike.core.ids import id_array
from lookalike.core.threads import n_threads
from lookalike.search.measured_recall import SAMPLE, ApproximateSearch, Measured, recall, tune
from lookalike.search.spaces import CodeSpace, EmbeddingSpace, faiss_threads, set_effort, space_of

KINDS = ("auto", "exact", "ivf", "hnsw")
FEWEST = 100  # items that lists or a graph are made for
MOST_VISITED = 1 / 4  # of the lists: where recall asks for more, "auto" scans everything
MOST_EFFORT = 4096  # of HNSW

__all__ = ["KINDS", "Index", "Measured", "Neighbours", "checked_ids", "recall"]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest items of each query, nearest first, ties by position.

    items: (n, k) positions. distances: (n, k), of codes whole numbers of bits, of embeddings their scores, higher
    being better. Where the index holds fewer than k items, the rest are -1, and nan among scores. ids: (n, k), if the
    index has ids; the rest are then -1 or "".
    """

    items: np.ndarray
    distances: np.ndarray
    ids: np.ndarray | None = None

    def __repr__(self) -> str:  # the text that users know
        return f"Found(items={self.items!r}, distances={self.distances!r}, ids={self.ids!r})"


class Index:
    """Items that can be searched for the nearest; made by `Index.build` or `Index.load`, never changed.

    >>> index = Index.build(Codes.pack([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]]))
    >>> index
    Index(4 codes of 3 bits, exact)
    >>> nearest = index.search(Codes.pack([[0, 0, 0]]), k=3)
    >>> nearest.items, nearest.distances          # 1 and 3 are equally near: the first comes first
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
        self._order = order  # positions of the items in the order in which they were added to faiss
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
        """Build an index of Codes, or of embeddings (n, dim) by their `similarity`: cosine, dot or euclidean.

        kind: "exact" compares a query with every item; "ivf" with the items of the lists nearest to it; "hnsw" walks
        a graph; "auto" is exact where that is fast, else ivf. Of the approximate kinds, the effort (lists visited,
        candidates kept) is the least whose recall of the `k` nearest reaches `target`: on `queries`, else on items
        drawn with `seed`, which join the index only when they have been searched for. Fewer than 100 items are
        always searched exactly.
        """
        space = space_of(items, similarity)
        choice("kind", kind, KINDS)
        if not 0 < target <= 1:
            raise InputError(f"target must be a recall above 0 and up to 1, got {target!r}")
        whole_number("k", k)
        named = None if ids is None else checked_ids(ids, len(space))
        sample = None if queries is None else space.checked(queries)
        if sample is not None and len(sample) < 2:
            raise InputError(
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
        trial = cls(part, wanted, None, approximate)._trial()
        effort, measured = tune(trial, sample, min(k, len(part)), target, rng)
        measured = replace(measured, target=target, seed=seed)
        if kind == "auto" and effort > MOST_VISITED * approximate.nlist:
            return cls(space, "exact", named)
        with faiss_threads(1):
            space.add(approximate, held)
        return cls(space, wanted, named, approximate, effort, measured, order)

    def search(self, queries: Any, k: int, *, among: Any = None, threads: int | None = None) -> Neighbours:
        """The k nearest items of each query: Codes for an index of codes, embeddings for one of embeddings.

        An exact search equals sorting all items by distance and position. An approximate one gives true distances,
        sorted in the same way; a query for which it finds fewer than k items is searched exactly.
        among: a mask (n,) of the items to search, which is done exactly by every kind of index.
        threads: how many to use, all cores by default; results are the same.
        """
        whole_number("k", k)
        checked: Any = self._space.checked(queries)
        rows = None if among is None else _checked_mask(among, len(self))
        workers = n_threads(threads)
        n = min(k, len(self) if rows is None else len(rows))
        if self._approximate is None or rows is not None or n == len(self):
            items, distances = self._space.exact(checked, n, workers, rows)
        else:
            items, distances = self._nearby(checked, n, workers)
        return self._neighbours(items, distances, k)

    def search_and_count(
        self, queries: Any, k: int, *, among: Any = None, threads: int | None = None
    ) -> tuple[Neighbours, np.ndarray]:
        """As `search`, and how many items are as near as the last one of each query, (n,); 0 where there is none.

        An exact index of embeddings finds both in one pass over its items.

        >>> index = Index.build(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]))
        >>> nearest, near = index.search_and_count(np.array([[0.0, 1.0]]), k=1)
        >>> nearest.items, near
        (array([[1]]), array([2]))
        """
        whole_number("k", k)
        if self._approximate is None and isinstance(self._space, EmbeddingSpace):
            checked: Any = self._space.checked(queries)
            rows = None if among is None else _checked_mask(among, len(self))
            near = np.zeros(len(checked), np.int64)
            n = min(k, len(self) if rows is None else len(rows))
            found = self._space.exact(checked, n, n_threads(threads), rows, near)
            return self._neighbours(*found, k), near
        nearest = self.search(queries, k, among=among, threads=threads)
        there = (nearest.items >= 0).sum(1)
        near = np.zeros(len(there), np.int64)
        if (some := np.flatnonzero(there)).size:
            last = nearest.distances[some, there[some] - 1]
            near[some] = self.count_within(queries[some], last, among=among, threads=threads)
        return nearest, near

    def _neighbours(self, items: np.ndarray, distances: np.ndarray, k: int) -> Neighbours:
        items, distances = _widened(items, k, -1), _widened(distances, k, self._space.nothing)
        return Neighbours(items, distances, None if self.ids is None else _named(self.ids, items))

    def count_within(
        self, queries: Any, distances: Any, *, among: Any = None, threads: int | None = None
    ) -> np.ndarray:
        """How many items are within a distance of each query, counted exactly by every kind. distances: (n,).

        For embeddings: how many have at least this score. With the last distance of a search, it is the number of items
        that are as near as the last one. among: a mask (n,) of the items to count; threads: as in `search`.

        >>> index = Index.build(Codes.pack([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]]))
        >>> index.count_within(Codes.pack([[0, 0, 0]]), [1])
        array([3])
        """
        checked: Any = self._space.checked(queries)
        limits = as_numpy(distances)
        if limits.shape != (len(checked),) or limits.dtype.kind not in "iuf":
            raise InputError(
                f"distances must be one number for each of {len(checked)} queries, "
                f"got shape {limits.shape} of {limits.dtype}"
            )
        rows = None if among is None else _checked_mask(among, len(self))
        return self._space.count_within(checked, limits, n_threads(threads), rows)

    def _trial(self) -> ApproximateSearch:
        """The search without an effort yet, for `tune`."""
        workers = n_threads(None)
        return ApproximateSearch(
            self._space,
            self.kind,
            most=self._approximate.nlist if self.kind == "ivf" else MOST_EFFORT,
            workers=workers,
            search=functools.partial(self._nearby, workers=workers),
            set_effort=functools.partial(set_effort, self._approximate, self.kind),
        )

    def _nearby(self, queries: Any, k: int, workers: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest items by the approximate index, with their true distances."""
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
        """Whether the index holds exactly these items, with these ids if any; if not, it is stale.

        >>> codes = Codes.pack([[0, 1], [1, 1]])
        >>> Index.build(codes).fits(codes), Index.build(codes).fits(codes[:1])
        (True, False)
        """
        items = items if isinstance(items, Codes) else as_floats(items, "embeddings")
        same = type(items) is type(self._space.items) and _fingerprint(items) == self.digest
        if ids is None or not same:
            return same
        return self.ids is not None and np.array_equal(self.ids, checked_ids(ids, len(items)))

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
        """How embeddings are compared; None for codes."""
        return self._space.similarity

    def save(self, path: str | Path) -> None:
        """Write to .npz, whole or not at all: the items, their ids, the lists or the graph, and the recall.

        The same items, ids, options and seed give the same bytes, if the versions are the same.
        """
        if Path(path).suffix != ".npz":
            raise FileError(f"cannot write {path}: the name of an index must end in .npz", path=path)
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
            measured=None if self.measured is None else self.measured.facts(),
            digest=self.digest,
            content=_content(arrays),
            faiss=None if self._approximate is None else version("faiss-cpu"),
        )
        if isinstance(self.items, Codes) and self.items.hasher is not None:
            about["hasher"] = self.items.hasher
        write_arrays(path, arrays, about | {"seal": seal(arrays, about)})

    @classmethod
    def load(cls, path: str | Path) -> "Index":
        """Read what `save` wrote."""
        arrays, about = read_arrays(path)
        if about.get("lookalike") != "index":
            raise FileError(f"{path} is not an index: expected a file that Index.save wrote", path=path)
        damaged = FileError(f"{path} is damaged: build the index again", path=path)
        # faiss trusts the bytes that it is given: they are compared with what was saved first
        if about.get("content") != _content(arrays) or not is_whole(arrays, about):
            raise damaged
        try:
            index = cls._of(arrays, about, path)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise damaged from error
        if index.digest != about.get("digest"):
            raise damaged
        return index

    @classmethod
    def _of(cls, arrays: dict[str, np.ndarray], about: dict[str, Any], path: str | Path) -> "Index":
        """The index of what `save` wrote; raises anything where its parts do not fit each other."""
        kind, effort, order = about["method"], about["effort"], arrays.get("order")
        space: CodeSpace | EmbeddingSpace
        if "packed" in arrays:
            space = CodeSpace(Codes.from_arrays(arrays, about, path))
        else:
            space = EmbeddingSpace(arrays["embeddings"], about["similarity"])
        named = checked_ids(arrays["ids"], len(space)) if "ids" in arrays else None
        if kind == "exact":
            if effort is not None or about["measured"] is not None or {"faiss", "order"} & arrays.keys():
                raise InputError("an exact index has no lists")
            return cls(space, kind, named)
        choice("kind", kind, KINDS[2:])
        whole_number("effort", effort)
        if order is not None and (order.dtype.kind != "i" or not np.array_equal(np.sort(order), np.arange(len(space)))):
            raise InputError("order must have every position once")
        if arrays["faiss"].dtype != np.uint8 or arrays["faiss"].ndim != 1:
            raise InputError("the lists must be bytes")
        approximate = space.deserialised(arrays["faiss"])
        if approximate.ntotal != len(space) or effort > (approximate.nlist if kind == "ivf" else MOST_EFFORT):
            raise InputError("the lists are of other items, or fewer than are to be visited")
        measured = Measured(**about["measured"])
        if not measured.is_sound():
            raise InputError("a recall must be from 0 to 1")
        return cls(space, kind, named, approximate, effort, measured, order)

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


def _checked_mask(among: Any, n: int) -> np.ndarray:
    """The positions of a mask."""
    mask = as_numpy(among)
    if mask.shape != (n,) or mask.dtype != bool:
        raise InputError(f"among must be a mask ({n},) of bool, got {mask.shape} of {mask.dtype}")
    return np.flatnonzero(mask)


def checked_ids(ids: Any, n: int, what: str = "ids") -> np.ndarray:
    """The ids of n items, which must differ."""
    named = id_array(ids, what)
    equal_lengths({"items": n, what: len(named)})
    distinct(what, named)
    return named


def _named(ids: np.ndarray, items: np.ndarray) -> np.ndarray:
    return np.where(items < 0, -1 if ids.dtype.kind in "iu" else "", ids[items])


def _widened(rows: np.ndarray, k: int, filler: float) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, k - rows.shape[1])), constant_values=filler)


def _fingerprint(items: Codes | np.ndarray) -> str:
    return items.digest if isinstance(items, Codes) else digest(items)


def _content(arrays: dict[str, np.ndarray]) -> str:
    return digest(*(arrays[name] for name in sorted(arrays)))
