"""Databases that hold vectors, by their addresses: their tables as items, and their own search measured."""

import importlib

from lookalike.core.readers.source import Columns
from lookalike.integrations.databases.address import address_of
from lookalike.integrations.databases.table import DatabaseTable

__all__ = ["open_database"]


def open_database(address: str, columns: Columns = Columns()) -> DatabaseTable | None:  # noqa: B008  # it cannot be changed
    """The table at an address, as an `ItemSource` that also searches; None where the text is no such address.

    address: pgvector://USER:PASSWORD@HOST/DATABASE?table=TABLE, lancedb:FOLDER/TABLE, qdrant://HOST:6333/COLLECTION or
    qdrant:FOLDER/COLLECTION. After a "?" it may name columns, such as vector=emb&label=class, and say nulls=skip.
    columns: for those that the address does not name.
    """
    parsed = address_of(address)
    if parsed is None:
        return None
    module = importlib.import_module(f"lookalike.integrations.databases.{parsed.engine}")
    opened: DatabaseTable = getattr(module, f"open_{parsed.engine}")(parsed, columns)
    return opened
