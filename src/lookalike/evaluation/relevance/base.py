"""What every relevance answers: the grade of an item for a query. A pair that nobody judged has no grade.

No relevance ever holds a queries × gallery matrix, unless the user gave one.
"""

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError

UNJUDGED = -1
MAX_GRADE = 32_767

__all__ = ["MAX_GRADE", "UNJUDGED", "Groups", "Relevance", "Unranked"]


@dataclass(frozen=True)
class Unranked:
    """Judged items that stand in no ranking: (query position, item id, grade) of each."""

    queries: np.ndarray
    items: np.ndarray
    grades: np.ndarray

    @classmethod
    def of(cls, rows: list[tuple[int, Any, int]]) -> "Unranked":
        """From rows (query position, item id, grade)."""
        queries, items, grades = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(
            np.array(queries, np.int64), np.array([repr(item) for item in items], str), np.array(grades, np.int64)
        )

    def of_queries(self, block: slice) -> "Unranked":
        """Those of a block of queries, their positions counted from its start."""
        inside = (self.queries >= block.start) & (self.queries < block.stop)
        return Unranked(self.queries[inside] - block.start, self.items[inside], self.grades[inside])


class Relevance(ABC):
    """How relevant each of `n_gallery` items is to each of `n_queries` queries: grades 0 to `max_grade`."""

    n_queries: int
    n_gallery: int
    max_grade: int
    kind = ""  # what makes an item relevant, in a word
    background = 0  # the grade of all but a few items: 0, or UNJUDGED
    n_levels = 0  # of labels that make a grade each
    unranked: Unranked | None = None

    def bound(self, query_ids: np.ndarray, gallery_ids: np.ndarray | range) -> "Relevance":
        """This relevance for the given queries and items; raises where it was made for others."""
        if (self.n_queries, self.n_gallery) != (len(query_ids), len(gallery_ids)):
            raise InputError(
                f"relevance is for {self.n_queries} queries and {self.n_gallery} items, "
                f"but there are {len(query_ids)} queries and {len(gallery_ids)} items"
            )
        return self

    def in_shard(self, items: slice, values: Mapping[str, np.ndarray]) -> "Relevance":  # noqa: ARG002  # some need them
        """This relevance for the items of one shard, whose columns have these values."""
        return self._cut(items)

    def of_nothing(self) -> "Relevance":
        """This relevance for a gallery without items."""
        return self._cut(slice(0, 0))

    def _cut(self, items: slice) -> Self:
        """This relevance for a part of the gallery."""
        if items.stop > self.n_gallery:
            raise InputError(f"relevance is for {self.n_gallery} items, but the gallery has more")
        other = copy.copy(self)
        other.n_gallery = items.stop - items.start
        return other

    @abstractmethod
    def block(self, queries: slice, items: slice) -> np.ndarray:
        """Grades of a block, (queries, items) of int16."""

    @abstractmethod
    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Grades of single pairs of positions."""

    def __repr__(self) -> str:
        size = f"{self.n_queries:,} queries × {self.n_gallery:,} items" if self.n_queries >= 0 else "by id"
        return f"{type(self).__name__}({size}, grades 0 to {self.max_grade})"

    @property
    @abstractmethod
    def digest(self) -> str:
        """A fingerprint, for tracing results."""

    def unranked_of(self, block: slice) -> Unranked | None:
        """The unranked judged items of a block of queries, their positions counted from its start."""
        return None if self.unranked is None else self.unranked.of_queries(block)

    def special(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """The items of one query whose grade is not the background's, and their grades."""
        row = self.block(slice(query, query + 1), slice(0, self.n_gallery))[0]
        items = np.flatnonzero(row != self.background)
        return items, row[items]


class Groups:
    """Which items are in each query's group: two arrays of labels, turned into runs of a sorted gallery.

    >>> groups = Groups(["b", "x"], ["a", "b", "a", "b"])
    >>> groups.items(0), groups.items(1)
    (array([1, 3]), array([], dtype=int64))
    """

    def __init__(self, queries: Any, gallery: Any, what: str = "labels") -> None:
        self.queries, self.gallery, self.n_groups = _shared_numbers(queries, gallery, what)

    @functools.cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        small = np.uint16 if self.n_groups <= 1 << 16 else np.int32  # 16 bits are sorted by radix, much faster
        sizes = np.bincount(self.gallery, minlength=self.n_groups)
        return np.argsort(self.gallery.astype(small), kind="stable"), np.concatenate([[0], np.cumsum(sizes)])

    def cut(self, items: slice) -> "Groups":
        """The groups of a part of the gallery."""
        other = copy.copy(self)
        other.__dict__.pop("_sorted", None)
        other.gallery = self.gallery[items]
        return other

    @property
    def order(self) -> np.ndarray:
        """Positions of the gallery, sorted by group."""
        return self._sorted[0]

    def runs(self, queries: slice) -> tuple[np.ndarray, np.ndarray]:
        """Where each query's group starts and ends in `order`."""
        groups, starts = self.queries[queries], self._sorted[1]
        return starts[groups], starts[groups + 1]

    def items(self, query: int) -> np.ndarray:
        """Positions of the items in the query's group."""
        (start,), (end,) = self.runs(slice(query, query + 1))
        return self.order[start:end]

    def pairs(self, queries: slice) -> tuple[np.ndarray, np.ndarray]:
        """All (query, item) positions that share a group, queries counted from the slice's start."""
        starts, ends = self.runs(queries)
        sizes = ends - starts
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(np.arange(len(sizes)), sizes), self.order[np.repeat(starts, sizes) + within]


def _shared_numbers(queries: Any, gallery: Any, what: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Two arrays of labels as numbers from 0, the same number where the label is the same."""
    queries, gallery = _plain(as_numpy(queries)), _plain(as_numpy(gallery))
    for labels in (queries, gallery):
        if labels.ndim != 1:
            raise InputError(f"{what} must be one for each item, got shape {labels.shape}")
        if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.floor(labels))).all():
            raise InputError(f"{what} must be whole numbers or strings, got fractions, nan or infinity")
    kinds = {labels.dtype.kind for labels in (queries, gallery) if len(labels)}
    if "U" in kinds and len(kinds) > 1:
        raise InputError(
            f"{what} of queries are {queries.dtype}, those of the gallery {gallery.dtype}: nothing can be equal"
        )
    if all(labels.dtype.kind in "biuf" and len(labels) for labels in (queries, gallery)):
        low = min(int(queries.min()), int(gallery.min()))
        high = max(int(queries.max()), int(gallery.max()))
        if high - low <= max(4 * len(gallery), 1 << 16):  # small numbers need no sorting
            return _less(queries, low), _less(gallery, low), high - low + 1
    if kinds == {"i", "u"}:  # together they would be floats, and large numbers would run into each other
        queries, gallery = queries.astype(object), gallery.astype(object)
    try:
        distinct, numbers = np.unique(np.concatenate([queries, gallery]), return_inverse=True)
    except TypeError as error:
        raise InputError(f"{what} must be all whole numbers or all strings") from error
    numbers = numbers.reshape(-1).astype(np.int32)
    return numbers[: len(queries)], numbers[len(queries) :], len(distinct)


def _plain(labels: np.ndarray) -> np.ndarray:
    """Labels of Python objects, such as a column of a table, as strings where all are."""
    words = labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.flat)
    return labels.astype(str) if words else labels


def _less(numbers: np.ndarray, low: int) -> np.ndarray:
    if numbers.dtype.itemsize < 8 or (low < 0 and numbers.dtype.kind == "u"):
        numbers = numbers.astype(np.int64)
    return np.subtract(numbers, low, out=np.empty(len(numbers), np.int32), casting="unsafe")
