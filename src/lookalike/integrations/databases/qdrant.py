"""Collections of Qdrant: of a server, or of the Python client's local mode."""

import contextlib
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError, StoreError, missing_package
from lookalike.core.readers.source import Columns
from lookalike.integrations.databases.address import DatabaseAddress, malformed
from lookalike.integrations.databases.columns import ColumnRoles, DatabaseColumn, roles_of
from lookalike.integrations.databases.table import DatabaseTable, EngineSearch, TableRows, check_option_names

SIMILARITIES = {"Cosine": "cosine", "Dot": "dot", "Euclid": "euclidean"}
SETTINGS = {"hnsw_ef": "a whole number", "exact": "true or false", "indexed_only": "true or false"}
KEY = "id"  # what the ids of points are called, unless the payload has a key of this name
SAMPLE = 1000  # points whose payload is looked at for the names of its keys
UNNAMED = "vector"  # what the only vector of a point is called where it has no name

__all__ = ["QdrantCollection", "open_qdrant"]


def open_qdrant(address: DatabaseAddress, columns: Columns) -> "QdrantCollection":
    """The collection at an address such as qdrant://HOST:6333/items, or qdrant:FOLDER/items."""
    where = _Qdrant.of(address)
    with where.connected() as client:
        there = sorted(found.name for found in client.get_collections().collections)
        if where.collection not in there:
            guess = nearest(where.collection, there)
            question = "" if guess is None else f", did you mean {guess!r}?"
            listed = f"it has {', '.join(there)}" if there else "it has none"
            raise InputError(f"{where.server} has no collection {where.collection!r}{question}; {listed}")
        vectors = client.get_collection(where.collection).config.params.vectors or {}
        named = vectors if isinstance(vectors, dict) else {UNNAMED: vectors}
        points, _ = client.scroll(where.collection, limit=SAMPLE, with_payload=True, with_vectors=False)
        fields = [*_vector_fields(named), *_payload_fields(points)]
        key = KEY if all(field.name != KEY for field in fields) else f"point {KEY}"
        fields.append(DatabaseColumn(key, "value", "of the point", is_key=True))
        roles = roles_of(where.name, fields, address.columns(columns))
        distance = named[roles.vector.name].distance.value
        using = roles.vector.name if isinstance(vectors, dict) else None
        made = QdrantCollection(where, roles, using, distance, skips_nulls=address.skips_nulls)
        if roles.tags is not None:
            made.read_tags(client)
    return made


class QdrantCollection(DatabaseTable):
    """A collection. using: the name of its vectors, None where they have none. distance: as Qdrant calls it."""

    def __init__(
        self, where: "_Qdrant", roles: ColumnRoles, using: str | None, distance: str, *, skips_nulls: bool
    ) -> None:
        super().__init__(where.name, roles, skips_nulls=skips_nulls)
        self.where, self.using, self.distance = where, using, distance
        if distance == "Cosine" and where.folder is None:
            self.notes = (
                *self.notes,
                f"{self.name}: Qdrant keeps vectors that it compares by cosine scaled to length 1",
            )

    def read_tags(self, client: Any) -> None:
        """List the words of the payload's key of tags."""
        assert self.roles.tags is not None
        key = self.roles.tags.name
        words: set[Any] = set()
        for points in _scroll(client, self.where.collection, 1 << 10, [key], False):
            words.update(word for point in points for word in (point.payload or {}).get(key) or ())
        self._set_tags(words)

    def _rows(self, rows: int) -> Iterator[TableRows]:
        """Points by their ids, as the collection is while it is read."""
        values = self.roles.values
        keys = [field.name for field in values.values() if not field.is_key]
        with_vectors = True if self.using is None else [self.using]
        with self.where.connected() as client:
            for points in _scroll(client, self.where.collection, rows, keys, with_vectors):
                vectors = [_vector(point.vector, self.using) for point in points]
                has = np.array([vector is not None for vector in vectors])
                matrix = np.array([vector for vector in vectors if vector is not None], np.float32)
                columns = {
                    role: [point.id if field.is_key else (point.payload or {}).get(field.name) for point in points]
                    for role, field in values.items()
                }
                yield TableRows(matrix, has, columns)

    @contextlib.contextmanager
    def searching(self, similarity: str | None, options: Mapping[str, str]) -> Iterator[EngineSearch]:
        """Qdrant's own search within a block."""
        own = SIMILARITIES.get(self.distance)
        if own is None:
            raise InputError(
                f"{self.name} compares by {self.distance}: only {', '.join(SIMILARITIES)} can be evaluated"
            )
        if similarity not in (None, own):
            raise InputError(
                f"{self.name} compares by {own}, not by {similarity}: its collection says so, leave --similarity out"
            )
        settings = _settings(options)
        with self.where.connected() as client:
            yield _QdrantSearch(self, client, own, settings)


class _QdrantSearch:
    """An open search of a collection."""

    def __init__(self, table: QdrantCollection, client: Any, similarity: str, settings: Mapping[str, Any]) -> None:
        from qdrant_client.models import SearchParams

        notes = [f"{table.name}: items are compared by {similarity}, as the collection does"]
        if table.where.folder is not None:
            notes.append(
                f"{table.name}: Qdrant's local mode has no index: its answers are exact, and settings change nothing"
            )
        self.similarity: str | None = similarity
        self.notes = tuple(notes)
        self._table, self._client = table, client
        self._settings = SearchParams(**settings) if settings and table.where.folder is None else None

    def prepare(self, query: Any) -> list[float]:
        return np.asarray(query, np.float32).tolist()

    def ask(self, query: list[float], k: int) -> list[Any]:
        roles = self._table.roles
        assert roles.id is not None
        answer = self._client.query_points(
            self._table.where.collection, query=query, using=self._table.using, limit=k,
            search_params=self._settings, with_payload=False if roles.id.is_key else [roles.id.name],
        )  # fmt: skip
        if roles.id.is_key:
            return [point.id for point in answer.points]
        return [(point.payload or {}).get(roles.id.name) for point in answer.points]


class _Qdrant:
    """Where a collection is. folder: of the local mode. The key of the server is in no name."""

    def __init__(self, server: str, collection: str, folder: str | None, options: Mapping[str, Any]) -> None:
        self.server, self.collection, self.folder, self._options = server, collection, folder, options
        self.name = f"{server}/{collection}"

    @classmethod
    def of(cls, address: DatabaseAddress) -> "_Qdrant":
        """What an address says."""
        if not address.location.startswith("//"):
            address.check_options()
            folder, _, collection = address.location.rpartition("/")
            if not folder or not collection:
                raise malformed("qdrant", "a folder and a collection are needed, with a / between them")
            if not (Path(folder) / "meta.json").is_file():  # the client would make it
                raise InputError(f"there is no folder {folder} of Qdrant's local mode")
            return cls(f"qdrant:{folder}", collection, folder, {"path": folder})
        address.check_options("api_key", "https")
        match = re.fullmatch(r"//([\w.-]+|\[[0-9a-f:]+\])(?::(\d{1,5}))?/([^/]+)", address.location, re.ASCII)
        if match is None:
            raise malformed("qdrant", "a host, a port and a collection are needed; a key is given as api_key=… or in "
                            "the variable QDRANT_API_KEY")  # fmt: skip
        https = address.options.get("https", "false")
        if https not in ("true", "false"):
            raise malformed("qdrant", "https is true or false")
        scheme, port = ("https" if https == "true" else "http"), match[2] or "6333"
        key = address.options.get("api_key") or os.environ.get("QDRANT_API_KEY")
        options = {"url": f"{scheme}://{match[1]}:{port}", "api_key": key, "timeout": 30, "check_compatibility": False}
        return cls(f"qdrant://{match[1]}:{port}", match[3], None, options)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        """A client, whose errors are one sentence without the key."""
        try:
            from qdrant_client import QdrantClient
            from qdrant_client.http.exceptions import ApiException
        except ImportError:
            raise missing_package("Qdrant", "qdrant-client", "databases") from None
        client = None
        try:
            with warnings.catch_warnings():  # of a key without https, which on one's own network may be meant
                warnings.simplefilter("ignore")
                client = QdrantClient(**self._options)
            yield client
        except ApiException as error:
            message = " ".join(str(error).split())[:300]
            raise StoreError(f"{self.server} cannot be used: {self._without_key(message)}") from None
        except RuntimeError as error:  # another process has the folder open
            if self.folder is None or "already accessed" not in str(error):
                raise
            raise StoreError(f"{self.server} is open in another process: close it there first") from None
        finally:
            if client is not None:
                client.close()

    def _without_key(self, message: str) -> str:
        key = self._options.get("api_key")
        return message.replace(key, "…") if key else message


def _scroll(client: Any, collection: str, rows: int, keys: list[str], vectors: Any) -> Iterator[list[Any]]:
    """All points, some at a time."""
    offset = None
    while True:
        points, offset = client.scroll(
            collection, limit=rows, offset=offset, with_payload=keys or False, with_vectors=vectors
        )
        if points:
            yield points
        if offset is None:
            return


def _vector(vector: Any, using: str | None) -> Any:
    """The vector of a point; None where it has none of this name."""
    return vector if using is None else (vector or {}).get(using)


def _vector_fields(named: Mapping[str, Any]) -> list[DatabaseColumn]:
    """The dense vectors of a collection; several vectors for one point cannot be compared here."""
    return [
        DatabaseColumn(
            name, "other" if about.multivector_config else "embeddings", f"{about.size} numbers, {about.distance.value}"
        )
        for name, about in named.items()
    ]


def _payload_fields(points: list[Any]) -> list[DatabaseColumn]:
    """The keys of the payload of some points."""
    kinds: dict[str, DatabaseColumn] = {}
    for point in points:
        for key, value in (point.payload or {}).items():
            kind = "list" if isinstance(value, list) else "value" if isinstance(value, str | int | float) else "other"
            if value is not None:
                kinds.setdefault(key, DatabaseColumn(key, kind, f"payload, {type(value).__name__}"))
    return list(kinds.values())


def _settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a search as Qdrant takes them."""
    check_option_names("Qdrant", options, tuple(SETTINGS))
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if name == "hnsw_ef" and re.fullmatch("[1-9][0-9]{0,8}", value):
            settings[name] = int(value)
        elif name != "hnsw_ef" and value in ("true", "false"):
            settings[name] = value == "true"
        else:
            raise InputError(f"{name} must be {SETTINGS[name]}, got {value!r}")
    return settings
