"""What tables of every database have in common: pages of items, and a search for each query."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.readers.source import Page
from lookalike.core.tags import zero_one
from lookalike.integrations.databases.columns import ColumnRoles, DatabaseColumn

PAGE = 1 << 14  # rows that are asked for at once

__all__ = ["DatabaseTable", "EngineSearch", "TableRows", "check_option_names"]


@dataclass(frozen=True)
class TableRows:
    """Some rows as a database gives them. vectors: of those rows that have one; has_vector: which these are.

    values: the other columns, by their names in pages; None where a row has no value.
    """

    vectors: np.ndarray
    has_vector: np.ndarray
    values: Mapping[str, Sequence[Any]]


class EngineSearch(Protocol):
    """The search of a database, open. similarity: what it compares by; None for codes. notes: what it used."""

    similarity: str | None
    notes: tuple[str, ...]

    def prepare(self, query: Any) -> Any:
        """One row of embeddings, or one code, in the form that the database takes."""

    def ask(self, query: Any, k: int) -> list[Any]:
        """The ids of the k items that the database says are nearest to a prepared query, nearest first."""


class DatabaseTable(ABC):
    """A table of a database as an `ItemSource`, which also searches.

    name: its address without user and password. about: `n_bits` of codes, and `tags`, the words of each column of tags.
    """

    def __init__(self, name: str, roles: ColumnRoles, *, skips_nulls: bool) -> None:
        self.name, self.roles, self.notes = name, roles, roles.notes
        self.about: dict[str, Any] = {}
        self._skips_nulls = skips_nulls

    @abstractmethod
    def _rows(self, rows: int) -> Iterator[TableRows]:
        """All rows in a fixed order, at most `rows` at a time."""

    @abstractmethod
    def searching(self, similarity: str | None, options: Mapping[str, str]) -> AbstractContextManager[EngineSearch]:
        """Its own search within a block. similarity: None for the one of its index. options: its settings."""

    def pages(self, rows: int) -> Iterator[Page]:
        """The items in a fixed order, at most `rows` at a time."""
        start, n_skipped, seen = 0, 0, []
        vectors = "packed" if self.roles.vector.kind == "codes" else "embeddings"
        for part in self._rows(min(rows, PAGE)):
            n_skipped += self._check_vectors(part, start)
            if len(part.vectors):
                page = {vectors: part.vectors} | self._columns(part, start)
                if "ids" in page and not (self.roles.id and self.roles.id.is_key):
                    seen.append(page["ids"])
                yield page
            start += len(part.has_vector)
        if start == n_skipped:
            raise InputError(f"{self.name} has no items" + " that have a vector" * bool(start))
        self._check_ids(seen)
        if n_skipped:
            note = f"{self.name}: {n_skipped:,} rows without a vector are left out"
            self.notes = tuple(dict.fromkeys([*self.notes, note]))

    def _row_name(self, values: Mapping[str, Sequence[Any]], row: int, start: int) -> str:
        """What an error calls a row: its id, or its number."""
        ids = values.get("ids")
        return f"row {start + row}" if ids is None or ids[row] is None else f"item {ids[row]!r}"

    def _check_vectors(self, part: TableRows, start: int) -> int:
        """How many rows have no vector; an error unless they are to be left out."""
        missing = np.flatnonzero(~part.has_vector)
        if len(missing) and not self._skips_nulls:
            who = self._row_name(part.values, int(missing[0]), start)
            raise InputError(
                f"{self.name}: {who} has no vector (NULL in {self.roles.vector.name!r}): fill it in, or add nulls=skip "
                "to the address to leave out such rows"
            )
        return len(missing)

    def _columns(self, part: TableRows, start: int) -> Page:
        """The columns beside the vectors, of rows that have a vector."""
        page: Page = {}
        for name, field in self.roles.values.items():
            values = [value for value, has in zip(part.values[name], part.has_vector, strict=True) if has]
            for row, value in enumerate(part.values[name]):
                if value is None and part.has_vector[row]:
                    who = f"row {start + row}" if name == "ids" else self._row_name(part.values, row, start)
                    raise InputError(f"{self.name}: {who} has no value in {field.name!r} (NULL): fill it in")
            if name == "tags":
                page["labels"] = self._tag_matrix(field, values)
            else:
                page[name] = _plain_array(values, f"{self.name}: the column {field.name!r}")
        return page

    def _tag_matrix(self, field: DatabaseColumn, lists: list[list[Any]]) -> np.ndarray:
        """Lists of words, or of 0 and 1, as a 0/1 matrix."""
        if "tags" not in self.about:
            if len({len(values) for values in lists}) > 1:
                raise InputError(
                    f"{self.name}: the column {field} must have as many 0/1 for every item, or be of words"
                )
            return zero_one(np.array(lists))
        place = {word: column for column, word in enumerate(self.about["tags"])}
        matrix = np.zeros((len(lists), len(place)), np.uint8)
        for row, words in enumerate(lists):
            for word in words:
                if word not in place:  # words were listed before
                    raise InputError(
                        f"{self.name} changed while it was read: {word!r} is new in {field.name!r}; try again"
                    )
                matrix[row, place[word]] = 1
        return matrix

    def _set_tags(self, words: set[Any]) -> None:
        """Keep the words of a column of tags, each a column of the matrix; none where they are 0/1 already."""
        if None in words:
            raise InputError(f"{self.name}: a list in {self.roles.tags} holds NULL: take it out")
        if all(isinstance(word, str) for word in words):
            self.about["tags"] = tuple(sorted(words))

    def _check_ids(self, pages: list[np.ndarray]) -> None:
        """Raise where an id occurs twice."""
        if not pages:
            return
        ids, counts = np.unique(np.concatenate(pages), return_counts=True)
        if (counts > 1).any():
            assert self.roles.id is not None
            raise InputError(
                f"{self.name}: ids must differ, {ids[counts > 1][0].item()!r} occurs {counts.max()} times in "
                f"{self.roles.id.name!r}: name another column, such as id=sku, or none, as id="
            )

    def check_query(self, queries: Any) -> None:
        """Raise where these queries cannot be asked for."""
        if isinstance(queries, Codes) != (self.roles.vector.kind == "codes"):
            kinds = {True: "codes", False: "embeddings"}
            asked = isinstance(queries, Codes)
            raise InputTypeError(f"the queries are {kinds[asked]}, but {self.name} holds {kinds[not asked]}")


def _plain_array(values: list[Any], what: str) -> np.ndarray:
    """Values as whole numbers or text: booleans as 0 and 1, whole floats as whole numbers, all else as it prints."""
    if all(isinstance(value, int) for value in values):  # booleans too
        return np.array([int(value) for value in values], np.int64 if max(values, default=0) < 2**63 else np.uint64)
    if all(isinstance(value, float) and value.is_integer() for value in values):
        return np.array([int(value) for value in values], np.int64)
    if any(isinstance(value, list | dict) for value in values):
        raise InputError(f"{what} must have one value for each item, got {type(values[0]).__name__}")
    return np.array([str(value) for value in values])


def check_option_names(engine: str, options: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise for a setting that a search does not have."""
    for name in options:
        if name not in known:
            raise InputError(f"{engine} has no setting {name!r}; it has {', '.join(known)}")
