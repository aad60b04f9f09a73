"""Items that commands read: one door for all files, tables and databases."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookalike.core.readers.source import Columns, ItemSource
    from lookalike.evaluation.item_files import Items

DATABASES = ("pgvector:", "postgresql:", "postgres:", "lancedb:", "qdrant:")  # how addresses begin

__all__ = ["is_database", "is_gallery", "is_items", "open_items", "open_source_of"]


def is_database(location: str | Path) -> bool:
    """Whether a location is the address of a table in a database."""
    return str(location).startswith(DATABASES)


def is_items(location: str | Path) -> bool:
    """Whether a location is that of items: a file, Parquet files, a snapshot or a table of a database."""
    from lookalike.core.readers.opening import is_source

    return is_database(location) or is_source(location)


def is_gallery(location: str | Path) -> bool:
    """Whether a location is that of a gallery in shards, rather than of items in files."""
    from lookalike.shards.gallery import is_sharded

    return is_sharded(location) and not is_items(location)


def open_source_of(
    location: str | Path, columns: "Columns", *, extra: bool = False, labelled_elsewhere: bool = False
) -> "ItemSource":
    """The items at a location, to be read by pages; options as for `open_source`.

    Addresses of databases are handed to `integrations` here.
    """
    from lookalike.core.readers.opening import open_source

    if is_database(location):
        from lookalike.integrations.databases import open_database

        table = open_database(str(location), columns)
        assert table is not None
        return table

    return open_source(location, columns, extra=extra, labelled_elsewhere=labelled_elsewhere)


def open_items(
    location: str | Path, columns: "Columns", labels: str | Path | None = None, *, zero: str | None = None
) -> "Items":
    """The items at a location, in memory. labels: a file of labels alone. zero: what a 0 among -1 and +1 counts."""
    from lookalike.evaluation import item_files

    if is_database(location):
        return item_files.items_of(open_source_of(location, columns), columns, labels, zero=zero)
    return item_files.read_items(location, labels, zero=zero, **columns.named)
