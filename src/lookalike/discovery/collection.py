"""Collection: the queries and the items that all models of a study rank, and the items that are a query's own."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from lookalike.core.checks import distinct
from lookalike.core.errors import InputError
from lookalike.core.files import digest
from lookalike.evaluation.relevance import Groups

__all__ = ["Collection"]


class Collection:
    """Queries and items by id, with the identity (the product) that each shows where it is known.

    A query never ranks itself nor, where identities are known, another image of its own identity.

    >>> shop = Collection(["q"], ["q", "a", "b"], ["shoe"], ["shoe", "shoe", "hat"])
    >>> shop.own.items(0), shop.positions([("q", "b")])
    (array([0, 1]), (array([0]), array([2])))
    """

    def __init__(
        self, query_ids: Any, item_ids: Any, query_identities: Any = None, item_identities: Any = None
    ) -> None:
        self.query_ids, self.item_ids = _ids(query_ids, "query"), _ids(item_ids, "item")
        if (query_identities is None) != (item_identities is None):
            raise InputError("identities are needed of queries and items, or of neither")
        self._query_position = {name: position for position, name in enumerate(self.query_ids.tolist())}
        self._item_position = {name: position for position, name in enumerate(self.item_ids.tolist())}
        self.has_identities = query_identities is not None
        if query_identities is None:
            self.own = Groups(self.query_ids, self.item_ids, "ids")
            self.identities = np.arange(len(self.item_ids))
            return
        of_queries, of_items = (
            _identities(query_identities, self.query_ids, "query"),
            _identities(item_identities, self.item_ids, "item"),
        )
        self.own = Groups(of_queries, of_items, "identities")
        self.identities = self.own.gallery
        for name, query in self._query_position.items():
            item = self._item_position.get(name)
            if item is not None and self.own.queries[query] != self.identities[item]:
                raise InputError(f"query {name!r} has another identity than the item {name!r}: they are one image")

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of ids and identities: collections with the same one are the same."""
        return digest(self.query_ids, self.item_ids, self.own.queries, self.own.gallery)

    @cached_property
    def own_sizes(self) -> np.ndarray:
        """How many items each query never ranks, since they are its own."""
        return np.bincount(self.own.gallery, minlength=self.own.n_groups)[self.own.queries]

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """Items sorted by identity, and where in them each identity that has items starts."""
        order = np.argsort(self.identities, kind="stable")
        sorted_identities = self.identities[order]
        return order, np.flatnonzero(np.concatenate([[True], sorted_identities[1:] != sorted_identities[:-1]]))

    @cached_property
    def identity_numbers(self) -> np.ndarray:
        """The number of each item's identity among those that have items, from 0, in the order of `members`."""
        return np.unique(self.identities, return_inverse=True)[1].astype(np.int64)

    def positions(self, pairs: Iterable[tuple[str, str]], what: str = "pair") -> tuple[np.ndarray, np.ndarray]:
        """Positions of the queries and the items of pairs of ids; raises where an id is not in the collection."""
        pairs = list(pairs)
        sides = []
        for side, (positions, kind) in enumerate(((self._query_position, "query"), (self._item_position, "item"))):
            rows = np.fromiter((positions.get(pair[side], -1) for pair in pairs), np.int64, len(pairs))
            if len(rows) and rows.min() < 0:
                first = int(rows.argmin())
                name = pairs[first][side]
                raise InputError(f"{what} {first + 1} names {kind} {name!r}, which is not in the collection")
            sides.append(rows)
        return sides[0], sides[1]

    def is_own(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Which pairs of positions are a query with itself or with its own identity."""
        return np.asarray(self.own.queries[queries] == self.own.gallery[items])

    def keys(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """A number for each pair of positions, sorted as the pairs are."""
        return np.asarray(queries.astype(np.int64) * self.n_items + items)


def _ids(ids: Any, what: str) -> np.ndarray:
    # numpy's text of any value, and not `text_ids`: saved pools name their collection by the fingerprint of these
    texts = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids)).astype(str)
    if texts.ndim != 1 or not len(texts):
        raise InputError(f"{what} ids must be a list of at least one, got shape {texts.shape}")
    distinct(f"{what} ids", texts)
    return texts


def _identities(values: Any, ids: np.ndarray, what: str) -> np.ndarray:
    if len(values) != len(ids):
        raise InputError(f"there are {len(ids)} {what} ids, but {len(values)} identities of them")
    return np.asarray(values, str)
