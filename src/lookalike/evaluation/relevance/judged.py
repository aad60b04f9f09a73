"""Relevance by judged pairs of query and item; every other pair is unjudged."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import digest
from lookalike.evaluation.relevance.base import UNJUDGED, Relevance, Unranked
from lookalike.evaluation.relevance.grades import whole_grade

__all__ = ["Judged", "judged"]


def judged(pairs: Any, sampled: Any = None) -> "Judged":
    """Grades of judged pairs: rows (query_id, item_id, grade), or {query_id: {item_id: grade}}; the rest is unjudged.

    A judged item that is not in the gallery counts in totals and ideals, as one that the search never finds.
    sampled: rows (query_id, item_id) of unjudged pairs that AUC(negatives='sampled') takes for negatives.
    """
    form = "judged pairs must be rows (query_id, item_id, grade), or {query_id: {item_id: grade}}"
    if isinstance(pairs, Mapping):
        if not all(isinstance(items, Mapping) for items in pairs.values()):
            raise InputTypeError(form)
        pairs = [(query, item, grade) for query, items in pairs.items() for item, grade in items.items()]
    judgements: dict[Any, dict[Any, int]] = {}
    for number, (query, item, grade) in enumerate(_rows(pairs, 3, form)):
        value = whole_grade(grade, f"row {number} of the judged pairs")
        before = judgements.setdefault(_id(query), {}).setdefault(_id(item), value)
        if before != value:
            raise InputError(f"query {query!r} and item {item!r} are judged twice: {before} and {value}")
    if not judgements:
        raise InputError("there is no judged pair")
    samples: dict[Any, dict[Any, None]] = {}
    for query, item in _rows([] if sampled is None else sampled, 2, "sampled pairs must be rows (query_id, item_id)"):
        if _id(item) in judgements.get(_id(query), {}):
            raise InputError(f"query {query!r} and item {item!r} are sampled as a negative, but were judged")
        samples.setdefault(_id(query), {})[_id(item)] = None
    return Judged(judgements, samples)


class Judged(Relevance):
    """Grades of single pairs, by the ids of query and item; every other pair is unjudged.

    judgements: {query: {item: grade}}. sampled: {query: items}, unjudged pairs that may stand in for negatives.
    """

    kind = "judgements"

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
            raise InputError(f"negatives must be one of 'judged', 'sampled', 'both', got {kind!r}")
        if kind == "judged":
            return self
        if not self.sampled:
            raise InputError(
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
            raise InputError(f"every item has one group: got {len(ids)} gallery_ids and {len(groups)} gallery_groups")
        group_of, members = dict(zip(ids, groups, strict=True)), defaultdict(list)
        for item, group in group_of.items():
            members[group].append(item)
        judgements: dict[Any, dict[Any, int]] = {}
        for query, items in self.judgements.items():
            grades = judgements.setdefault(query, {})
            for item, grade in items.items():
                for view in members[group_of[item]] if item in group_of else [item]:
                    grades[view] = max(grade, grades.get(view, 0))
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
            raise InputError(
                f"no judgement is about any of the queries: judged are {_some(self.judgements)}, "
                f"queries are {_some(queries)}; pass query_ids and gallery_ids as they stand in the judgements"
            )

    def bound(self, query_ids: np.ndarray, gallery_ids: np.ndarray | range) -> "Judged":
        bound = Judged(self.judgements, self.sampled)
        bound._bound_to = query_ids, gallery_ids
        position = {item: i for i, item in enumerate(np.asarray(gallery_ids).tolist())}
        if len(position) < len(gallery_ids):
            raise InputError("gallery_ids must differ, some occur several times")
        self.check_queries(query_ids)
        queries = query_ids.tolist()
        missing: list[tuple[int, Any, int]] = []
        for i, query in enumerate(queries):
            pairs = [(position.get(item, -1), item, grade) for item, grade in self.judgements.get(query, {}).items()]
            missing += [(i, item, grade) for place, item, grade in pairs if place < 0]
            ranked = sorted((place, grade) for place, _, grade in pairs if place >= 0)
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
            rows = queries == query
            judged, wanted = self._items[query], items[rows]
            places = np.minimum(np.searchsorted(judged, wanted), max(len(judged) - 1, 0))
            if len(judged):
                out[rows] = np.where(judged[places] == wanted, self._grades[query][places], UNJUDGED)
        return out

    @property
    def digest(self) -> str:
        rows = sorted(f"{q!r}\t{i!r}\t{g}" for q, items in self.judgements.items() for i, g in items.items())
        rows += sorted(f"{q!r}\t{i!r}\tsampled" for q, items in self.sampled.items() for i in items)
        return digest(np.array(rows, str))


def _rows(pairs: Any, n_fields: int, form: str) -> list[Sequence[Any]]:
    """Rows of a table, an array or anything that gives them one by one."""
    if hasattr(pairs, "itertuples"):  # a pandas table
        pairs = pairs.itertuples(index=False, name=None)
    elif not isinstance(pairs, Iterable) or hasattr(pairs, "dtype"):
        pairs = np.atleast_1d(as_numpy(pairs)).tolist()
    rows = list(pairs)
    for number, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != n_fields:
            raise InputError(f"{form}, row {number} is {row!r}")
    return rows


def _id(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _some(ids: Any) -> str:
    shown = [repr(value) for value, _ in zip(ids, range(3), strict=False)]
    return ", ".join(shown) + (", …" if len(ids) > 3 else "")
