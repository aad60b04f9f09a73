"""The items and queries of a study, which all of its models rank."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError, InputTypeError, StudyError
from lookalike.core.files import digest
from lookalike.core.ids import text_array
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.collection import Collection

__all__ = ["StudyItems", "collection_of", "queries_from_catalogue", "queries_from_elsewhere"]


class StudyItems:
    """The catalogue and the queries in the folder of a study, each read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """The items that are searched."""
        return Catalogue.read(self.folder / "catalogue.parquet")

    @functools.cached_property
    def queries(self) -> Catalogue:
        """The queries, with the same columns as the catalogue if they are items of it."""
        return Catalogue.read(self.folder / "queries.parquet")

    @functools.cached_property
    def collection(self) -> Collection:
        """Queries and items as all models rank them."""
        return collection_of(self.queries, self.catalogue)

    def fingerprint(self, own_queries: bool) -> str:
        """The fingerprint of the ids that a model has vectors of: items, and queries if it has its own for them."""
        return self._with_queries if own_queries else self._without_queries

    @functools.cached_property
    def _with_queries(self) -> str:
        return digest(self.queries.ids, self.catalogue.ids)

    @functools.cached_property
    def _without_queries(self) -> str:
        return digest(self.catalogue.ids)


def collection_of(queries: Catalogue, items: Catalogue) -> Collection:
    """A collection of these queries and items, with identities if either has them."""
    query_identities, item_identities = queries.identities, items.identities
    if query_identities is None and item_identities is None:
        return Collection(queries.ids, items.ids)
    if query_identities is None:  # each query is an identity of its own, and no item has it
        query_identities = np.array([f"query {name}" for name in queries.ids.tolist()])
    if item_identities is None:
        item_identities = np.array([f"item {name}" for name in items.ids.tolist()])
    return Collection(queries.ids, items.ids, query_identities, item_identities)


def queries_from_catalogue(queries: Any, catalogue: Catalogue) -> Catalogue:
    """The items at these positions or with these ids, one at least."""
    if isinstance(queries, Catalogue):
        queries = queries.ids
    values = as_numpy(queries)
    if values.dtype.kind in "iu" and values.ndim == 1:
        outside = values[(values < 0) | (values >= len(catalogue))]
        if outside.size:
            raise InputError(f"positions of queries must be from 0 to {len(catalogue) - 1}, got {outside[0]}")
        chosen = catalogue[values]
    else:
        chosen = catalogue[catalogue.positions(text_array(queries, "queries"), "query")]
    return _some(chosen)


def queries_from_elsewhere(queries: Any, catalogue: Catalogue) -> Catalogue:
    """The queries of a wild study, one at least, of which none has the id of an item."""
    if not isinstance(queries, Catalogue):
        raise InputTypeError(f"queries of a wild study are a Catalogue of their own, got {type(queries).__name__}")
    if (both := np.intersect1d(queries.ids, catalogue.ids)).size:
        raise InputError(
            f"{len(both)} wild queries have the id of an item, such as {str(both[0])!r}: "
            "give them ids of their own, or make a study with queries from the catalogue"
        )
    return _some(queries)


def _some(queries: Catalogue) -> Catalogue:
    if not len(queries):
        raise StudyError("a study needs at least one query")
    return queries
