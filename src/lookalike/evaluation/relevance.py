"""Who is relevant to whom, and how much; a pair that nobody judged is neither relevant nor irrelevant.

Every kind answers the same few questions, block by block, and none ever holds a queries × gallery matrix
that the user did not bring.
"""

import copy
import functools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.column import Column
from lookalike.core.files import digest

UNJUDGED = -1
MAX_GRADE = 32_767

__all__ = [
    "UNJUDGED",
    "Groups",
    "InShards",
    "Judged",
    "Relevance",
    "Unranked",
    "grades",
    "hierarchy",
    "judged",
    "matching_attributes",
    "same_label",
    "shared_tags",
]


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
        mine = (self.queries >= block.start) & (self.queries < block.stop)
        return Unranked(self.queries[mine] - block.start, self.items[mine], self.grades[mine])


class Relevance(ABC):
    """How relevant each of `n_gallery` items is to each of `n_queries` queries: grades 0 to `max_grade`."""

    n_queries: int
    n_gallery: int
    max_grade: int
    background = 0  # the grade of all but a few items: 0, or UNJUDGED
    n_levels = 0  # of labels that make a grade each
    unranked: Unranked | None = None

    def bound(self, query_ids: np.ndarray, gallery_ids: np.ndarray | range) -> "Relevance":
        """This relevance for the given queries and items; raises where it was made for others."""
        if (self.n_queries, self.n_gallery) != (len(query_ids), len(gallery_ids)):
            raise ValueError(
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
            raise ValueError(f"relevance is for {self.n_gallery} items, but the gallery has more")
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


class SameLabel(Relevance):
    """Grade i + 1 where level i of the labels is equal, the highest level that is: labels, hierarchies."""

    def __init__(self, levels: Sequence[Groups]) -> None:
        self.levels = levels
        self.n_queries, self.n_gallery = len(levels[0].queries), len(levels[0].gallery)
        self.max_grade = self.n_levels = len(levels)

    @property
    def nested(self) -> bool:
        """Whether what is equal at a level is equal at every lower one too, as in a true hierarchy."""
        for coarse, fine in zip(self.levels, self.levels[1:], strict=False):
            parent = np.full(fine.n_groups, -1)
            parent[fine.gallery] = coarse.gallery
            query_parent = parent[fine.queries]
            met = query_parent >= 0  # a fine label that no item has cannot break the nesting
            if (parent[fine.gallery] != coarse.gallery).any() or (query_parent != coarse.queries)[met].any():
                return False
        return True

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.levels = [level.cut(items) for level in self.levels]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        out = np.zeros((len(self.levels[0].queries[queries]), len(self.levels[0].gallery[items])), np.int16)
        for grade, level in enumerate(self.levels, 1):
            out[level.queries[queries, None] == level.gallery[items]] = grade
        return out

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        out = np.zeros(len(queries), np.int16)
        for grade, level in enumerate(self.levels, 1):
            out[level.queries[queries] == level.gallery[items]] = grade
        return out

    def special(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        if len(self.levels) == 1:
            items = self.levels[0].items(query)
            return items, np.ones(len(items), np.int16)
        items = np.unique(np.concatenate([level.items(query) for level in self.levels]))
        return items, self.of_pairs(np.full(len(items), query), items)

    @property
    def digest(self) -> str:
        return digest(*(array for level in self.levels for array in (level.queries, level.gallery)))


class SharedTags(Relevance):
    """Grade = number of tags in common."""

    def __init__(self, query_tags: Any, gallery_tags: Any) -> None:
        self.queries, self.gallery = (
            _zero_one(tags, what) for tags, what in ((query_tags, "query"), (gallery_tags, "gallery"))
        )
        if self.queries.shape[1] != self.gallery.shape[1]:
            raise ValueError(f"query tags have {self.queries.shape[1]} columns, gallery tags {self.gallery.shape[1]}")
        self.n_queries, self.n_gallery = len(self.queries), len(self.gallery)
        most = [int(tags.sum(1).max(initial=0)) for tags in (self.queries, self.gallery)]
        self.max_grade = max(1, min(most))

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.gallery = self.gallery[items]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        # sums of at most 2^24 ones: exact in float32, in any order
        return np.rint(self.queries[queries] @ self.gallery[items].T).astype(np.int16)

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->i", self.queries[queries], self.gallery[items]).astype(np.int16)

    @property
    def digest(self) -> str:
        return digest(self.queries, self.gallery)


class MatchingAttributes(Relevance):
    """Grade = number of attributes that are equal."""

    def __init__(self, query_attributes: Any, gallery_attributes: Any) -> None:
        queries, gallery = as_numpy(query_attributes), as_numpy(gallery_attributes)
        if queries.ndim != 2 or gallery.ndim != 2 or queries.shape[1] != gallery.shape[1]:
            raise ValueError(
                f"attributes must be two matrices with as many columns, got shapes {queries.shape} and {gallery.shape}"
            )
        if queries.shape[1] == 0:
            raise ValueError("attributes have no column")
        columns = [Groups(q, g, "attributes") for q, g in zip(queries.T, gallery.T, strict=True)]
        self.queries = np.stack([column.queries for column in columns], axis=1)
        self.gallery = np.stack([column.gallery for column in columns], axis=1)
        self.n_queries, self.n_gallery = len(queries), len(gallery)
        self.max_grade = len(columns)

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.gallery = self.gallery[items]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        out = np.zeros((len(self.queries[queries]), len(self.gallery[items])), np.int16)
        for q, g in zip(self.queries[queries].T, self.gallery[items].T, strict=True):
            out += q[:, None] == g
        return out

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return (self.queries[queries] == self.gallery[items]).sum(1).astype(np.int16)

    @property
    def digest(self) -> str:
        return digest(self.queries, self.gallery)


class Grades(Relevance):
    """Grades in a matrix that the user brought."""

    def __init__(self, matrix: Any) -> None:
        matrix = as_numpy(matrix)
        if matrix.ndim != 2:
            raise ValueError(f"grades must be a matrix (n_queries, n_gallery), got shape {matrix.shape}")
        self.matrix = _whole_grades(matrix, "grades")
        self.n_queries, self.n_gallery = matrix.shape
        self.max_grade = max(1, int(self.matrix.max(initial=0)))

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.matrix = self.matrix[:, items]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        return np.ascontiguousarray(self.matrix[queries, items])

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return np.asarray(self.matrix[queries, items])

    @property
    def digest(self) -> str:
        return digest(self.matrix)


class Judged(Relevance):
    """Grades of single pairs, by the ids of query and item; every other pair is unjudged.

    judgements: {query: {item: grade}}. sampled: {query: items}, unjudged pairs that may stand in for negatives.
    """

    background = UNJUDGED

    def __init__(
        self, judgements: dict[Any, dict[Any, int]], sampled: Mapping[Any, Collection[Any]] | None = None
    ) -> None:
        self.judgements, self.sampled = judgements, sampled or {}
        self.max_grade = max([1, *(grade for items in judgements.values() for grade in items.values())])
        self.n_queries = self.n_gallery = -1
        self._items: list[np.ndarray] = []
        self._grades: list[np.ndarray] = []
        self._bound_to: tuple[np.ndarray, np.ndarray | range] | None = None

    def in_shard(self, items: slice, values: Mapping[str, np.ndarray]) -> "Judged":  # noqa: ARG002
        """These judgements: they are about ids, wherever the items lie."""
        return self

    def with_negatives(self, kind: str, rel: int = 1) -> "Judged":
        """These judgements with other negatives: the "judged" ones, the "sampled" ones in their place, or "both".

        Judged negatives are the pairs graded below `rel`. Samples of a query that has no judged pair count nowhere.

        >>> relevance = judged([("q", "a", 1), ("q", "b", 0)], sampled=[("q", "c")])
        >>> relevance.with_negatives("sampled").judgements
        {'q': {'a': 1, 'c': 0}}
        """
        if kind not in ("judged", "sampled", "both"):
            raise ValueError(f"negatives must be one of 'judged', 'sampled', 'both', got {kind!r}")
        if kind == "judged":
            return self
        if not self.sampled:
            raise ValueError(
                f"negatives={kind!r} needs sampled negatives: la.judged(pairs, sampled=rows of (query_id, item_id))"
            )
        least = rel if kind == "sampled" else 0
        return self._with(
            {
                query: {item: grade for item, grade in items.items() if grade >= least}
                | dict.fromkeys(self.sampled.get(query, ()), 0)
                for query, items in self.judgements.items()
            }
        )

    def inherited(self, gallery_ids: Any, gallery_groups: Any) -> "Judged":
        """These judgements for all items of a judged item's group, such as all images of a product.

        Where items of a group were judged differently, the highest grade counts for all. A sampled pair that inherits
        a judgement is sampled no more.

        >>> judged([("q", "front", 1)]).inherited(["front", "back", "other"], [7, 7, 8]).judgements
        {'q': {'front': 1, 'back': 1}}
        """
        ids, groups = (as_numpy(array).tolist() for array in (gallery_ids, gallery_groups))
        if len(ids) != len(groups):
            raise ValueError(f"every item has one group: got {len(ids)} gallery_ids and {len(groups)} gallery_groups")
        group_of, members = dict(zip(ids, groups, strict=True)), defaultdict(list)
        for item, group in group_of.items():
            members[group].append(item)
        judgements: dict[Any, dict[Any, int]] = {}
        for query, items in self.judgements.items():
            mine = judgements.setdefault(query, {})
            for item, grade in items.items():
                for view in members[group_of[item]] if item in group_of else [item]:
                    mine[view] = max(grade, mine.get(view, 0))
        sampled = {
            query: [item for item in items if item not in judgements.get(query, {})]
            for query, items in self.sampled.items()
        }
        return self._with(judgements, sampled)

    def without(self, pairs: Iterable[tuple[Any, Any]]) -> "Judged":
        """These judgements without some pairs, which are then unjudged; pairs that nobody judged change nothing.

        A query that loses all its pairs stays, so that evaluations are of the same queries.

        >>> judged([("q", "a", 1), ("q", "b", 0)]).without([("q", "b")]).judgements
        {'q': {'a': 1}}
        """
        gone = {(_id(query), _id(item)) for query, item in pairs}
        return self._with(
            {
                query: {item: grade for item, grade in items.items() if (query, item) not in gone}
                for query, items in self.judgements.items()
            },
            self.sampled,
        )

    def _with(
        self, judgements: dict[Any, dict[Any, int]], sampled: Mapping[Any, Collection[Any]] | None = None
    ) -> "Judged":
        """Other judgements about the same queries and items."""
        other = Judged(judgements, sampled)
        return other if self._bound_to is None else other.bound(*self._bound_to)

    def check_queries(self, query_ids: np.ndarray) -> None:
        """Raise where no judgement is about any of these."""
        queries = query_ids.tolist()
        if not any(query in self.judgements for query in queries):
            raise ValueError(
                f"no judgement is about any of the queries: judged are {_some(self.judgements)}, "
                f"queries are {_some(queries)}; pass query_ids and gallery_ids as they stand in the judgements"
            )

    def bound(self, query_ids: np.ndarray, gallery_ids: np.ndarray | range) -> "Judged":
        bound = Judged(self.judgements, self.sampled)
        bound._bound_to = query_ids, gallery_ids
        position = {item: i for i, item in enumerate(np.asarray(gallery_ids).tolist())}
        if len(position) < len(gallery_ids):
            raise ValueError("gallery_ids must differ, some occur several times")
        self.check_queries(query_ids)
        queries = query_ids.tolist()
        missing: list[tuple[int, Any, int]] = []
        for i, query in enumerate(queries):
            found = [(position.get(item, -1), item, grade) for item, grade in self.judgements.get(query, {}).items()]
            missing += [(i, item, grade) for place, item, grade in found if place < 0]
            ranked = sorted((place, grade) for place, _, grade in found if place >= 0)
            bound._items.append(np.array([place for place, _ in ranked], np.int64))
            bound._grades.append(np.array([grade for _, grade in ranked], np.int16))
        bound.n_queries, bound.n_gallery = len(queries), len(position)
        bound.unranked = Unranked.of(missing)
        return bound

    def special(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        return self._items[query], self._grades[query]

    def block(self, queries: slice, items: slice) -> np.ndarray:
        first, last, _ = items.indices(self.n_gallery)
        rows = range(self.n_queries)[queries]
        out = np.full((len(rows), last - first), UNJUDGED, np.int16)
        for i, query in enumerate(rows):
            inside = (self._items[query] >= first) & (self._items[query] < last)
            out[i, self._items[query][inside] - first] = self._grades[query][inside]
        return out

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        out = np.full(len(queries), UNJUDGED, np.int16)
        for query in np.unique(queries):
            mine = queries == query
            judged, wanted = self._items[query], items[mine]
            places = np.minimum(np.searchsorted(judged, wanted), max(len(judged) - 1, 0))
            if len(judged):
                out[mine] = np.where(judged[places] == wanted, self._grades[query][places], UNJUDGED)
        return out

    @property
    def digest(self) -> str:
        rows = sorted(f"{q!r}\t{i!r}\t{g}" for q, items in self.judgements.items() for i, g in items.items())
        rows += sorted(f"{q!r}\t{i!r}\tsampled" for q, items in self.sampled.items() for i in items)
        return digest(np.array(rows, str))


class InShards(Relevance):
    """Relevance of a gallery in shards, made for each of them from what it brings."""

    def __init__(self, make: Callable[[Any, Any], Relevance], queries: Any, gallery: Any) -> None:
        """queries, gallery: as `make` takes them, with columns in place of the gallery's values."""
        several = isinstance(gallery, tuple | list)
        columns = list(gallery) if several else [gallery]
        if not all(isinstance(column, Column) for column in columns):
            raise TypeError("either all values of the gallery are columns of shards or none is")
        self._make, self._several = make, several
        self._queries = [as_numpy(values) for values in (queries if several else [queries])]
        self.columns = [column.name for column in columns]
        self.n_queries, self.n_gallery = len(self._queries[0]), -1
        made = self.of_nothing()
        self.max_grade, self.n_levels = made.max_grade, made.n_levels  # grades may be more, as the shards have it

    def _made(self, values: list[np.ndarray]) -> Relevance:
        if self._several:
            return self._make(tuple(self._queries), tuple(values))
        return self._make(self._queries[0], values[0])

    def of_nothing(self) -> Relevance:
        return self._made([values[:0] for values in self._queries])

    def in_shard(self, items: slice, values: Mapping[str, np.ndarray]) -> Relevance:  # noqa: ARG002
        """The relevance of the items of one shard."""
        return self._made([values[name] for name in self.columns])

    def _alone(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this relevance is of a gallery in shards: pass the la.Shards that its columns are of")

    block = of_pairs = bound = _alone

    def __repr__(self) -> str:
        return f"{self._make.__name__}({self.n_queries:,} queries, {', '.join(self.columns)} of shards)"

    @property
    def digest(self) -> str:
        return digest(np.array([self._make.__name__, *self.columns]), *self._queries)


def same_label(query_labels: Any, gallery_labels: Any) -> Relevance:
    """Grade 1 where the labels are equal; whole numbers or strings."""
    if isinstance(gallery_labels, Column):
        return InShards(same_label, query_labels, gallery_labels)
    return SameLabel([Groups(query_labels, gallery_labels)])


def hierarchy(query_labels: tuple[Any, Any], gallery_labels: tuple[Any, Any]) -> Relevance:
    """Grade 2 where the fine labels are equal, 1 where only the coarse ones are; labels as (fine, coarse)."""
    if not all(isinstance(labels, tuple | list) and len(labels) == 2 for labels in (query_labels, gallery_labels)):
        raise TypeError("hierarchy takes (fine, coarse) labels of the queries and of the gallery")
    if any(isinstance(labels, Column) for labels in gallery_labels):
        return InShards(hierarchy, query_labels, gallery_labels)
    (query_fine, query_coarse), (gallery_fine, gallery_coarse) = query_labels, gallery_labels
    coarse = Groups(query_coarse, gallery_coarse, "coarse labels")
    fine = Groups(query_fine, gallery_fine, "fine labels")
    if (len(fine.queries), len(fine.gallery)) != (len(coarse.queries), len(coarse.gallery)):
        raise ValueError("there must be as many fine as coarse labels")
    return SameLabel([coarse, fine])


def shared_tags(query_tags: Any, gallery_tags: Any) -> Relevance:
    """Grade = number of tags in common; 0/1 matrices (n, tags)."""
    if isinstance(gallery_tags, Column):
        return InShards(shared_tags, query_tags, gallery_tags)
    return SharedTags(query_tags, gallery_tags)


def matching_attributes(query_attributes: Any, gallery_attributes: Any) -> Relevance:
    """Grade = number of equal attributes; matrices (n, attributes) of whole numbers or strings."""
    if isinstance(gallery_attributes, Column):
        return InShards(matching_attributes, query_attributes, gallery_attributes)
    return MatchingAttributes(query_attributes, gallery_attributes)


def grades(matrix: Any) -> Relevance:
    """Grades given in full, (n_queries, n_gallery) of whole numbers from 0."""
    return Grades(matrix)


def judged(pairs: Any, sampled: Any = None) -> Judged:
    """Grades of judged pairs: rows (query_id, item_id, grade), or {query_id: {item_id: grade}}; the rest is unjudged.

    A judged item that is not in the gallery counts in totals and ideals, as one that the search never finds.
    sampled: rows (query_id, item_id) of unjudged pairs that AUC(negatives='sampled') takes for negatives.
    """
    form = "judged pairs must be rows (query_id, item_id, grade), or {query_id: {item_id: grade}}"
    if isinstance(pairs, Mapping):
        if not all(isinstance(items, Mapping) for items in pairs.values()):
            raise TypeError(form)
        pairs = [(query, item, grade) for query, items in pairs.items() for item, grade in items.items()]
    judgements: dict[Any, dict[Any, int]] = {}
    for number, (query, item, grade) in enumerate(_rows(pairs, 3, form)):
        value = _whole_grade(grade, f"row {number} of the judged pairs")
        before = judgements.setdefault(_id(query), {}).setdefault(_id(item), value)
        if before != value:
            raise ValueError(f"query {query!r} and item {item!r} are judged twice: {before} and {value}")
    if not judgements:
        raise ValueError("there is no judged pair")
    samples: dict[Any, dict[Any, None]] = {}
    for query, item in _rows([] if sampled is None else sampled, 2, "sampled pairs must be rows (query_id, item_id)"):
        if _id(item) in judgements.get(_id(query), {}):
            raise ValueError(f"query {query!r} and item {item!r} are sampled as a negative, but were judged")
        samples.setdefault(_id(query), {})[_id(item)] = None
    return Judged(judgements, samples)


def _rows(pairs: Any, n_fields: int, form: str) -> list[Sequence[Any]]:
    """Rows of a table, an array or anything that gives them one by one."""
    if hasattr(pairs, "itertuples"):  # a pandas table
        pairs = pairs.itertuples(index=False, name=None)
    elif not isinstance(pairs, Iterable) or hasattr(pairs, "dtype"):
        pairs = np.atleast_1d(as_numpy(pairs)).tolist()
    rows = list(pairs)
    for number, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != n_fields:
            raise ValueError(f"{form}, row {number} is {row!r}")
    return rows


def _id(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _whole_grade(value: Any, where: str) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"a grade must be a whole number from 0 to {MAX_GRADE}, got {value!r} in {where}") from None
    if not number.is_integer() or not 0 <= number <= MAX_GRADE:
        raise ValueError(f"a grade must be a whole number from 0 to {MAX_GRADE}, got {value} in {where}")
    return int(number)


def _whole_grades(matrix: np.ndarray, what: str) -> np.ndarray:
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{what} must be whole numbers, got {matrix.dtype}")
    if matrix.dtype != bool:
        with np.errstate(invalid="ignore"):
            wrong = ~((matrix >= 0) & (matrix <= MAX_GRADE) & (matrix == np.floor(matrix)))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            _whole_grade(matrix[row, column].item(), f"row {row}, column {column} of the {what}")
    return matrix.astype(np.int16)


def _zero_one(tags: Any, what: str) -> np.ndarray:
    tags = as_numpy(tags)
    if tags.ndim != 2:
        raise ValueError(f"{what} tags must be a 0/1 matrix (n, tags), got shape {tags.shape}")
    if tags.dtype.kind not in "biuf" or not np.isin(tags, (0, 1)).all():
        raise ValueError(f"{what} tags must be 0 or 1")
    if tags.shape[1] > MAX_GRADE:
        raise ValueError(f"{what} tags have {tags.shape[1]} columns, at most {MAX_GRADE} can be counted")
    return tags.astype(np.float32)


def _some(ids: Any) -> str:
    shown = [repr(value) for value, _ in zip(ids, range(3), strict=False)]
    return ", ".join(shown) + (", …" if len(ids) > 3 else "")


def _shared_numbers(queries: Any, gallery: Any, what: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Two arrays of labels as numbers from 0, the same number where the label is the same."""
    queries, gallery = _plain(as_numpy(queries)), _plain(as_numpy(gallery))
    for labels in (queries, gallery):
        if labels.ndim != 1:
            raise ValueError(f"{what} must be one for each item, got shape {labels.shape}")
        if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.floor(labels))).all():
            raise ValueError(f"{what} must be whole numbers or strings, got fractions, nan or infinity")
    kinds = {labels.dtype.kind for labels in (queries, gallery) if len(labels)}
    if "U" in kinds and len(kinds) > 1:
        raise ValueError(
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
        raise ValueError(f"{what} must be all whole numbers or all strings") from error
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
