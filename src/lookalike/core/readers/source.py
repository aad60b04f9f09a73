"""A source: something that holds items, a file, a table or a database, read as columns a page at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

__all__ = ["Columns", "ItemSource", "Page"]

Page = dict[str, np.ndarray]  # some rows: embeddings, codes or packed, with ids, labels, …, as files of ours name them


@dataclass(frozen=True)
class Columns:
    """Which column of a source is what, as a user names it; None where the source may find it by itself."""

    vector: str | None = None
    id: str | None = None
    label: str | None = None
    tags: str | None = None
    group: str | None = None
    by: str | None = None  # what results are split by

    @property
    def named(self) -> dict[str, str]:
        """The columns that the user named."""
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in pairs if value is not None}


class ItemSource(Protocol):
    """Items that are read a page at a time. Its pages have the names of our own files, not those of the source.

    name: what messages and results call it, without credentials. about: what it says of itself, such as `n_bits`. What
    is known of it only from its items is there, as in its notes, once the pages have been read.
    """

    name: str
    about: dict[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, in sentences."""
        ...

    def pages(self, rows: int) -> Iterator[Page]:
        """The items in a fixed order, at most `rows` at a time."""
        ...
