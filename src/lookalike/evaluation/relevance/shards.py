"""Relevance of a gallery in shards, by the columns that its shards have."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.column import Column
from lookalike.core.errors import InputTypeError
from lookalike.core.files import digest
from lookalike.evaluation.relevance.base import Relevance

__all__ = ["InShards"]


class InShards(Relevance):
    """Relevance of a gallery in shards, made for each of them from what it brings."""

    def __init__(self, make: Callable[[Any, Any], Relevance], queries: Any, gallery: Any) -> None:
        """queries, gallery: as `make` takes them, with columns in place of the gallery's values."""
        several = isinstance(gallery, tuple | list)
        columns = list(gallery) if several else [gallery]
        if not all(isinstance(column, Column) for column in columns):
            raise InputTypeError("either all values of the gallery are columns of shards or none is")
        self._make, self._several = make, several
        self._queries = [as_numpy(values) for values in (queries if several else [queries])]
        self.columns = [column.name for column in columns]
        self.n_queries, self.n_gallery = len(self._queries[0]), -1
        made = self.of_nothing()
        self.kind = made.kind
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
        raise InputTypeError("this relevance is of a gallery in shards: pass the la.Shards that its columns are of")

    block = of_pairs = bound = _alone

    def __repr__(self) -> str:
        return f"{self._make.__name__}({self.n_queries:,} queries, {', '.join(self.columns)} of shards)"

    @property
    def digest(self) -> str:
        return digest(np.array([self._make.__name__, *self.columns]), *self._queries)
