"""What judgements are about: single pairs, or a query with all images of an identity."""

from dataclasses import dataclass

import numpy as np

from lookalike.core.errors import InputError, InputTypeError
from lookalike.discovery.collection import Collection
from lookalike.discovery.judgements import Judgements
from lookalike.evaluation.relevance import UNJUDGED

__all__ = ["JudgedUnits", "identity_keys", "judged_units"]


@dataclass(frozen=True, eq=False)
class JudgedUnits:
    """Judgements by unit: a pair at level "image", a query and an identity at level "product".

    judged: the key of each judged pair. keys: of each unit, sorted. unit_of: the unit of each judgement.
    pair_queries, pair_items, pair_units: every pair that has a judgement, also one that it inherits from another image
    of its identity; pairs of a query with its own are left out, since they never rank.
    """

    collection: Collection
    judgements: Judgements
    level: str
    judged: np.ndarray
    keys: np.ndarray
    unit_of: np.ndarray
    pair_queries: np.ndarray
    pair_items: np.ndarray
    pair_units: np.ndarray

    @property
    def max_grade(self) -> int:
        """The highest grade, at least 1."""
        return max(1, int(self.judgements.grades.max(initial=0)))

    @property
    def pair_keys(self) -> np.ndarray:
        """A number for each pair that has a judgement."""
        return self.collection.keys(self.pair_queries, self.pair_items)

    def units(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """The unit of each pair of positions, -1 where nothing was judged."""
        keys = _unit_keys(self.collection, self.level, queries, items)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[rows] == keys, rows, -1)

    def grades(self, kept: np.ndarray | None = None) -> np.ndarray:
        """The highest grade of every unit among the judgements that are kept; -1 where there is none."""
        highest = np.full(len(self.keys), UNJUDGED, np.int64)
        rows = slice(None) if kept is None else kept
        np.maximum.at(highest, self.unit_of[rows], self.judgements.grades[rows])
        return highest


def judged_units(judgements: Judgements, collection: Collection, level: str) -> JudgedUnits:
    """Number what was judged; raises where no judged pair can rank."""
    if not isinstance(judgements, Judgements):
        raise InputTypeError(
            f"judgements are needed, got {type(judgements).__name__}: Judgements.of makes them of rows"
        )
    if not len(judgements):
        raise InputError("no pair is judged: a leaderboard needs judgements")
    queries, items = collection.positions(judgements.pairs, "judged pair")
    own = collection.is_own(queries, items)
    if own.all():
        raise InputError("all judged pairs are of a query with itself or its own identity, which never rank")
    unit_keys = _unit_keys(collection, level, queries, items)
    keys, first, unit_of = np.unique(unit_keys, return_index=True, return_inverse=True)
    unit_of = unit_of.reshape(-1)
    if level == "image":
        rows = np.flatnonzero(~own)
        pairs = queries[rows], items[rows], unit_of[rows]
    else:
        pairs = _inherited(collection, queries[first], items[first])
    return JudgedUnits(collection, judgements, level, collection.keys(queries, items), keys, unit_of, *pairs)


def identity_keys(collection: Collection, queries: np.ndarray, identities: np.ndarray) -> np.ndarray:
    """A number for each query and identity."""
    return np.asarray(queries * (int(collection.identities.max()) + 1) + identities)


def _unit_keys(collection: Collection, level: str, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
    if level == "image":
        return collection.keys(queries, items)
    return identity_keys(collection, queries, collection.identities[items])


def _inherited(
    collection: Collection, queries: np.ndarray, items: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query, item and unit of all images of each unit's identity. queries, items: one pair of each unit."""
    order, starts = collection.members
    ends = np.append(starts[1:], len(order))
    identity = np.searchsorted(collection.identities[order[starts]], collection.identities[items])
    sizes = ends[identity] - starts[identity]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    units = np.repeat(np.arange(len(queries)), sizes)
    unit_queries, images = queries[units], order[np.repeat(starts[identity], sizes) + within]
    kept = ~collection.is_own(unit_queries, images)
    return unit_queries[kept], images[kept], units[kept]
