"""Collection: the queries and the items that all models of a study rank, and which items are a query's own."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from lookalike.core.checks import distinct
from lookalike.core.errors import InputError
from lookalike.core.files import digest
from lookalike.core.ids import text_ids
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
            raise ValueError("identities are needed of queries and items, or of neither")
        self._query_place = {name: place for place, name in enumerate(self.query_ids.tolist())}
        self._item_place = {name: place for place, name in enumerate(self.item_ids.tolist())}
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
        for name, place in self._query_place.items():
            if name in self._item_place and self.own.queries[place] != self.identities[self._item_place[name]]:
                raise ValueError(f"query {name!r} has another identity than the item {name!r}: they are one image")

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
        """How many items are each query's own, which it never ranks."""
        return np.bincount(self.own.gallery, minlength=self.own.n_groups)[self.own.queries]

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """Items sorted by identity, and where in them each identity that has items starts."""
        order = np.argsort(self.identities, kind="stable")
        sorted_identities = self.identities[order]
        return order, np.flatnonzero(np.concatenate([[True], sorted_identities[1:] != sorted_identities[:-1]]))

    def positions(self, pairs: Iterable[tuple[str, str]], what: str = "pair") -> tuple[np.ndarray, np.ndarray]:
        """Positions of the queries and the items of pairs of ids; raises where one is not known."""
        pairs = list(pairs)
        found = []
        for side, (places, kind) in enumerate(((self._query_place, "query"), (self._item_place, "item"))):
            try:
                found.append(np.fromiter((places[pair[side]] for pair in pairs), np.int64, len(pairs)))
            except KeyError:
                number, name = next((n, pair[side]) for n, pair in enumerate(pairs, 1) if pair[side] not in places)
                raise ValueError(f"{what} {number} names {kind} {name!r}, which is not in the collection") from None
        return found[0], found[1]

    def is_own(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Which pairs of positions are a query with itself or with its own identity."""
        return np.asarray(self.own.queries[queries] == self.own.gallery[items])

    def keys(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """A number for each pair of positions, sorted as the pairs are."""
        return np.asarray(queries.astype(np.int64) * self.n_items + items)


def _ids(ids: Any, what: str) -> np.ndarray:
    texts = text_ids(ids, f"{what} ids")
    if not len(texts):
        raise InputError(f"{what} ids must be a list of at least one, got none")
    distinct(f"{what} ids", texts)
    return texts


def _identities(values: Any, ids: np.ndarray, what: str) -> np.ndarray:
    if len(values) != len(ids):
        raise ValueError(f"there are {len(ids)} {what} ids, but {len(values)} identities of them")
    return np.asarray(values, str)
