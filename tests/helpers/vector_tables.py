"""The same items in every database: written by the databases' own libraries, as their users do."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers.judges import Server

PASSWORD = "zuGeheim7"  # no part of any other text
DISTANCES = {"cosine": "Cosine", "dot": "Dot", "euclidean": "Euclid"}
_count = itertools.count()


@dataclass(frozen=True, eq=False)  # hashed as the one object that it is
class Shop:
    """Items of a shop: vectors or bits, with ids and whatever else a table has."""

    vectors: np.ndarray
    columns: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def is_bits(self) -> bool:
        return self.vectors.dtype == np.uint8


def database(server: Server, name: str, *, extension: bool = True) -> str:
    """The URL of a new database on the server."""
    server.run(f"CREATE DATABASE {name}")
    url = server.url.replace("/postgres?", f"/{name}?")
    if extension:
        server.run("CREATE EXTENSION vector", url)
    return url


def address_of(url: str, table: str, **options: str) -> str:
    """The address of a table in the database at a URL."""
    added = "".join(f"&{name}={value}" for name, value in options.items())
    return f"pgvector:{url.partition(':')[2]}&table={table}{added}"


def to_postgres(url: str, shop: Shop, kind: str | None = None, table: str | None = None) -> str:
    """Write a table with the columns id, emb and those of the shop, and give its address."""
    import psycopg
    from psycopg import sql

    kind = kind or (f"bit({shop.vectors.shape[1]})" if shop.is_bits else f"vector({shop.vectors.shape[1]})")
    table = table or f"items{next(_count)}"
    types = {int: "bigint", str: "text", list: "text[]", float: "float8"}
    columns = {name: types[type(values[0])] for name, values in shop.columns.items()}
    definitions = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(of)) for name, of in columns.items()]
    with psycopg.connect(url) as connection:
        connection.execute(
            sql.SQL("CREATE TABLE {} (id bigint PRIMARY KEY, emb {}{})").format(
                sql.Identifier(table),
                sql.SQL(kind),
                sql.SQL("").join(sql.SQL(", {}").format(definition) for definition in definitions),
            )
        )
        with (
            connection.cursor() as cursor,
            cursor.copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as copy,
        ):
            for row, vector in enumerate(shop.vectors.tolist()):
                text = "".join(map(str, vector)) if shop.is_bits else str(vector)
                copy.write_row([row, text, *(values[row] for values in shop.columns.values())])
    return address_of(url, table)


def to_lance(folder: Path, shop: Shop, bitorder: str = "little", table: str | None = None) -> str:
    """Write a table of LanceDB with the columns id, emb and those of the shop, and give its address."""
    import lancedb
    import pyarrow as pa

    vectors = np.packbits(shop.vectors, axis=1, bitorder=bitorder) if shop.is_bits else shop.vectors
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    table = table or f"items{next(_count)}"
    lancedb.connect(folder).create_table(table, pa.table({"id": range(len(vectors)), "emb": lists} | shop.columns))
    return f"lancedb:{folder}/{table}"


def to_qdrant(folder: Path, shop: Shop, similarity: str = "euclidean", name: str | None = None) -> str:
    """Write a collection of Qdrant's local mode, whose payload has the columns of the shop, and give its address."""
    from qdrant_client import QdrantClient, models

    collection = f"items{next(_count)}"
    of_vectors: Any = models.VectorParams(size=shop.vectors.shape[1], distance=models.Distance(DISTANCES[similarity]))
    client = QdrantClient(path=str(folder))
    client.create_collection(collection, vectors_config=of_vectors if name is None else {name: of_vectors})
    payloads = [{key: values[row] for key, values in shop.columns.items()} for row in range(len(shop.vectors))]
    vectors = shop.vectors.tolist()
    client.upsert(
        collection,
        models.Batch(
            ids=list(range(len(vectors))), vectors=vectors if name is None else {name: vectors}, payloads=payloads
        ),
    )
    client.close()
    return f"qdrant:{folder}/{collection}"
