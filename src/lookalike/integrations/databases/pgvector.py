"""Tables of PostgreSQL with the extension pgvector."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, StoreError, missing_package
from lookalike.core.readers.source import Columns
from lookalike.integrations.databases.address import COLUMNS, DatabaseAddress, malformed
from lookalike.integrations.databases.columns import ColumnRoles, DatabaseColumn, roles_of
from lookalike.integrations.databases.table import DatabaseTable, EngineSearch, TableRows

OWN = ("table", "schema", "nulls", *COLUMNS)  # options that are ours; all others are PostgreSQL's
OPERATORS = {"cosine": "<=>", "dot": "<#>", "euclidean": "<->", None: "<~>"}
OPCLASSES = {"cosine": "cosine", "ip": "dot", "l2": "euclidean", "hamming": None}  # as indexes name them
PASSES = {"sparsevec": "sparse vectors are not compared here"}
WHOLE = ("smallint", "integer", "bigint")
FLOATS: dict[str, np.dtype[Any]] = {"vector": np.dtype(">f4"), "halfvec": np.dtype(">f2")}
TYPES = """
    SELECT attribute.attname, format_type(attribute.atttypid, attribute.atttypmod), type.typname, attribute.atttypmod,
           type.typcategory, EXISTS (
               SELECT FROM pg_index WHERE indrelid = attribute.attrelid AND indisprimary AND indnatts = 1
                                      AND indkey[0] = attribute.attnum)
    FROM pg_attribute AS attribute JOIN pg_type AS type ON type.oid = attribute.atttypid
    WHERE attribute.attrelid = %s AND attribute.attnum > 0 AND NOT attribute.attisdropped ORDER BY attribute.attnum"""
FIND = """
    SELECT relation.oid, namespace.nspname, relation.relkind::text
    FROM pg_class AS relation JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
    WHERE relation.relname = %(table)s AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND CASE WHEN %(schema)s::text IS NULL THEN pg_table_is_visible(relation.oid)
               ELSE namespace.nspname = %(schema)s END"""
WITH_VECTORS = """
    SELECT DISTINCT namespace.nspname, relation.relname, pg_table_is_visible(relation.oid)
    FROM pg_attribute AS attribute JOIN pg_type AS type ON type.oid = attribute.atttypid
      JOIN pg_class AS relation ON relation.oid = attribute.attrelid
      JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
    WHERE type.typname IN ('vector', 'halfvec', 'bit') AND attribute.attnum > 0 AND NOT attribute.attisdropped
      AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND namespace.nspname NOT IN ('pg_catalog', 'information_schema')
    ORDER BY 1, 2"""
INDEXES = """
    SELECT operators.opcname FROM pg_index AS index
      JOIN pg_opclass AS operators ON operators.oid = index.indclass[0]
      JOIN pg_attribute AS attribute ON attribute.attrelid = index.indrelid AND attribute.attnum = index.indkey[0]
      JOIN pg_class AS relation ON relation.oid = index.indexrelid JOIN pg_am AS method ON method.oid = relation.relam
    WHERE index.indrelid = %s AND attribute.attname = %s AND method.amname IN ('hnsw', 'ivfflat') ORDER BY 1"""

__all__ = ["PgvectorTable", "open_pgvector"]


def open_pgvector(address: DatabaseAddress, columns: Columns) -> "PgvectorTable":
    """The table at an address such as pgvector://HOST/DATABASE?table=items."""
    server = _Server.of(address)
    if "table" not in address.options:
        raise malformed("pgvector", "add ?table= and the name of the table")
    table, schema = address.options["table"], address.options.get("schema")
    shown = f"{server.name}?table={table}" if schema is None else f"{server.name}?table={table}&schema={schema}"
    with server.connected() as connection:
        found = connection.execute(FIND, {"table": table, "schema": schema}).fetchall()
        if not found:
            raise _no_table(server, connection, table)
        oid, schema, kind = found[0]
        columns_there = connection.execute(TYPES, (oid,)).fetchall()
        fields = [_field(*row) for row in columns_there]
        if not any(field.kind in ("embeddings", "codes") for field in fields):
            _extension_schema(server, connection, shown)
        roles = roles_of(shown, fields, address.columns(columns))
        if roles.id is None and kind == "v":
            raise InputError(
                f"{shown} is a view, whose rows have no order: name a column that tells them apart, as id=…"
            )
        _check_type(shown, roles.vector)
        made = PgvectorTable(server, (schema, table, oid), shown, roles, skips_nulls=address.skips_nulls)
        if roles.tags is not None:
            made.read_tags(connection)
    return made


class PgvectorTable(DatabaseTable):
    """A table with a column of `vector`, `halfvec` or `bit`. where: its schema, name and number."""

    def __init__(
        self, server: "_Server", where: tuple[str, str, int], name: str, roles: ColumnRoles, *, skips_nulls: bool
    ) -> None:
        super().__init__(name, roles, skips_nulls=skips_nulls)
        self._server, (self._schema, self._table, self._oid) = server, where
        if roles.vector.kind == "codes":
            self.about["n_bits"] = int(re.findall(r"\d+", roles.vector.shown)[-1])

    def read_tags(self, connection: Any) -> None:
        """List the words of the column of tags."""
        from psycopg import sql

        assert self.roles.tags is not None
        words = sql.SQL("SELECT DISTINCT unnest({}) FROM {}").format(
            sql.Identifier(self.roles.tags.name), self._relation()
        )
        self._set_tags({word for (word,) in connection.execute(words)})

    def _relation(self) -> Any:
        from psycopg import sql

        return sql.Identifier(self._schema, self._table)

    def _rows(self, rows: int) -> Iterator[TableRows]:
        """Rows by their key, read by a cursor of the server in one transaction, which sees one state of the table."""
        from psycopg import IsolationLevel, sql

        values = self.roles.values
        selected = [sql.Identifier(self.roles.vector.name), *map(_expression, values.values())]
        key = self.roles.id
        order = sql.SQL("tableoid, ctid") if key is None else sql.Identifier(key.name)
        statement = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
            sql.SQL(", ").join(selected), self._relation(), order
        )
        with self._server.connected() as connection:
            connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            connection.set_read_only(True)
            with connection.cursor("lookalike", binary=True) as cursor:
                cursor.execute(statement)
                start, length = 0, None
                while part := cursor.fetchmany(rows):
                    vectors, *columns = zip(*part, strict=True)
                    named = dict(zip(values, columns, strict=True))
                    has = np.array([vector is not None for vector in vectors])
                    present = [vector for vector in vectors if vector is not None]
                    if present and length is None:
                        length = len(present[0])
                    for row, vector in enumerate(vectors):
                        if vector is not None and len(vector) != length:
                            raise self._two_lengths(self._row_name(named, row, start), len(vector), length or 0)
                    octets = np.frombuffer(b"".join(present), np.uint8).reshape(len(present), length or 4)
                    yield TableRows(self._decoded(octets), has, named)
                    start += len(part)

    def _two_lengths(self, who: str, length: int, first: int) -> InputError:
        """That vectors differ in length; given in bytes, as PostgreSQL sends them."""
        size = FLOATS[self.roles.vector.base].itemsize
        return InputError(
            f"{self.name}: the vector of {who} has {(length - 4) // size} numbers, those before it have "
            f"{(first - 4) // size}: all must be of one model"
        )

    def _decoded(self, octets: np.ndarray) -> np.ndarray:
        """Vectors as PostgreSQL sends them, behind four bytes each, as a matrix: floats, or codes as packed bytes."""
        if self.roles.vector.kind == "codes":  # the first bit is the highest of its byte
            bits = np.unpackbits(octets[:, 4:], axis=1, count=self.about["n_bits"])
            return np.packbits(bits, axis=1, bitorder="little")
        number = FLOATS[self.roles.vector.base]
        return np.ascontiguousarray(octets[:, 4:]).view(number).astype(number.newbyteorder("="))

    @contextlib.contextmanager
    def searching(self, similarity: str | None, options: Mapping[str, str]) -> Iterator[EngineSearch]:
        """PostgreSQL's own search within a block, by the index that it chooses."""
        with self._server.connected() as connection:
            connection.set_autocommit(True)
            _load_extension(self._server, connection, self.name)
            _set_options(connection, self.name, options)
            found = [name for (name,) in connection.execute(INDEXES, (self._oid, self.roles.vector.name))]
            of_indexes = {OPCLASSES[part] for name in found if (part := name.split("_")[-2]) in OPCLASSES}
            notes: tuple[str, ...] = ()
            if self.roles.vector.kind == "codes":
                similarity = None
            elif similarity is None:
                similarity = of_indexes.pop() if len(of_indexes) == 1 else "cosine"
                if found:
                    notes = (f"{self.name}: items are compared by {similarity}, as its index does",)
            yield _PgvectorSearch(self, connection, similarity, notes)

    def statement(self, similarity: str | None, k: int) -> Any:
        """The question for the k nearest items, with a place for the query."""
        from psycopg import sql

        assert self.roles.id is not None
        vector = _identifier(self.roles.vector.name)
        known = sql.SQL("WHERE {} IS NOT NULL ").format(vector) if self._skips_nulls else sql.SQL("")
        kind = self.roles.vector.shown if self.roles.vector.kind == "codes" else self.roles.vector.base
        return sql.SQL("SELECT {} FROM {} {}ORDER BY {} {} %s::{} LIMIT {}").format(
            _expression(self.roles.id, _identifier), _identifier(self._schema, self._table), known, vector,
            sql.SQL(OPERATORS[similarity]), sql.SQL(kind), sql.Literal(k),
        )  # fmt: skip


class _PgvectorSearch:
    """An open search of a table."""

    def __init__(self, table: PgvectorTable, connection: Any, similarity: str | None, notes: tuple[str, ...]) -> None:
        self.similarity, self.notes = similarity, notes
        self._table, self._connection = table, connection
        self._explained = False
        self._statements: dict[int, Any] = {}

    def prepare(self, query: Any) -> str:
        if isinstance(query, Codes):
            return "".join(map(str, query.unpack()[0].tolist()))
        return "[" + ",".join(f"{number:.9g}" for number in np.asarray(query, np.float32).tolist()) + "]"

    def ask(self, query: str, k: int) -> list[Any]:
        if k not in self._statements:
            self._statements[k] = self._table.statement(self.similarity, k)
            self._explain(query, k)
        return [key for (key,) in self._connection.execute(self._statements[k], (query,)).fetchall()]

    def _explain(self, query: str, k: int) -> None:
        """Note which index PostgreSQL uses."""
        from psycopg import sql

        ((plan,),) = self._connection.execute(
            sql.SQL("EXPLAIN (FORMAT JSON) {}").format(self._statements[k]), (query,)
        ).fetchall()
        names = _index_names(plan[0]["Plan"])
        used = f"the index {names[0]}" if names else "no index: it reads the whole table, and its answers are exact"
        self.notes = (*self.notes, f"{self._table.name}: PostgreSQL uses {used}")


class _Server:
    """A server, and what it may be called: without user and password."""

    def __init__(self, connection_text: str, name: str, secrets: tuple[str, ...]) -> None:
        self.name = name
        self._text, self._secrets = connection_text, secrets

    @classmethod
    def of(cls, address: DatabaseAddress) -> "_Server":
        """The server of an address. What an address leaves out, libpq takes from its variables and ~/.pgpass."""
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict, make_conninfo
        except ImportError:
            raise missing_package("PostgreSQL", "psycopg", "databases") from None
        options = {name: value for name, value in address.options.items() if name not in OWN}
        try:
            parts: dict[str, Any] = conninfo_to_dict(f"postgresql:{address.location}", **options)
            defaults: dict[str, Any] = {"connect_timeout": 10, "application_name": "lookalike"}
            text = make_conninfo("", **(defaults | parts))
        except (psycopg.ProgrammingError, UnicodeError, ValueError):  # its text may repeat a password
            raise malformed("pgvector", "this cannot be read, perhaps because of its port, of signs that are written "
                            "with %, or of an option that PostgreSQL does not have") from None  # fmt: skip
        ports = str(parts.get("port", "5432")).split(",")  # of several hosts; what is no port may be a password
        if not all(re.fullmatch("[0-9]{0,5}", port) and int(port or 5432) in range(1, 1 << 16) for port in ports):
            raise malformed("pgvector", "the port must be from 1 to 65535")
        port = f":{parts['port']}" if "port" in parts else ""
        where = f"{parts.get('host', '')}{port}/{parts.get('dbname', '')}"
        secret = tuple(str(parts[name]) for name in ("password", "sslpassword") if parts.get(name))
        return cls(text, f"pgvector://{where}", secret)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        """A connection, whose errors are one sentence without the password."""
        import psycopg

        try:
            with psycopg.connect(self._text) as connection:
                yield connection
        except (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            psycopg.InternalError,
            psycopg.errors.InsufficientPrivilege,
        ) as error:
            message = " ".join(str(error).split())
            for secret in self._secrets:
                message = message.replace(secret, "…")
            raise StoreError(f"{self.name} cannot be used: {message}") from None


def _identifier(*names: str) -> Any:
    """A name in a statement that has values, in which psycopg takes a % for the place of one."""
    from psycopg import sql

    return sql.Identifier(*(name.replace("%", "%%") for name in names))


def _expression(field: DatabaseColumn, identifier: Callable[[str], Any] | None = None) -> Any:
    """A column as it is selected: whole numbers, booleans and lists as they are, all else as text."""
    from psycopg import sql

    name = (identifier or sql.Identifier)(field.name)
    if field.shown in (*WHOLE, "boolean") or field.kind == "list":
        return name
    return sql.SQL("{}::text").format(name)


def _field(name: str, shown: str, kind: str, modifier: int, category: str, is_key: bool) -> DatabaseColumn:
    """A column as PostgreSQL describes it."""
    if kind in FLOATS:
        return DatabaseColumn(name, "embeddings", shown, base=kind)
    if kind == "bit":
        return DatabaseColumn(name, "codes", shown if modifier > 0 else "bit(1)")
    if kind in PASSES:
        return DatabaseColumn(name, "other", shown)
    of_array = category == "A"
    plain = category in "NSBUDET" and kind not in ("json", "jsonb", "bytea", "xml")
    return DatabaseColumn(name, "list" if of_array else "value" if plain else "other", shown, is_key)


def _check_type(table: str, vector: DatabaseColumn) -> None:
    """Raise where a vector has a type whose name says nothing of its length."""
    if vector.kind == "codes" and not re.search(r"\d", vector.shown):
        raise InputError(f"{table}: the column {vector} must say how many bits it has, such as bit(64)")


def _no_table(server: _Server, connection: Any, table: str) -> InputError:
    """That a table is not there, and which there are."""
    rows = connection.execute(WITH_VECTORS).fetchall()
    names = [name if visible else f"{schema}.{name}" for schema, name, visible in rows]
    there = f"tables with vectors are {', '.join(names)}" if names else "no table there has vectors"
    hint = ": a schema is named apart, as &schema=" if "." in table else ""
    return InputError(f"{server.name} has no table {table!r}{hint}; {there}")


def _extension_schema(server: _Server, connection: Any, table: str) -> str:
    """The schema of the extension; an error where the database lacks it."""
    rows = connection.execute(
        "SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"
    ).fetchall()
    if not rows:
        raise InputError(
            f"{table} cannot be searched for vectors, since {server.name} has no extension vector: run CREATE "
            "EXTENSION vector there, or name another database"
        )
    return str(rows[0][0])


def _load_extension(server: _Server, connection: Any, table: str) -> None:
    """Let this connection find the types and operators of the extension, and know its settings."""
    schema = _extension_schema(server, connection, table)
    path = "SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(%s), false)"
    connection.execute(path, (schema,))
    connection.execute("SELECT '[1]'::vector")  # before the extension is loaded, any name passes for a setting of it


def _set_options(connection: Any, table: str, options: Mapping[str, str]) -> None:
    """Set what the search uses, such as hnsw.ef_search; only in this connection."""
    import psycopg

    for name, value in options.items():
        if not connection.execute("SELECT FROM pg_settings WHERE name = %s", (name,)).fetchall():
            rows = connection.execute(
                "SELECT name FROM pg_settings WHERE name LIKE 'hnsw.%' OR name LIKE 'ivfflat.%' ORDER BY 1"
            )
            raise InputError(
                f"{table}: PostgreSQL has no setting {name!r}; pgvector's are {', '.join(n for (n,) in rows)}"
            )
        try:
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        except psycopg.DataError as error:
            raise InputError(f"{table}: {error.diag.message_primary}") from error


def _index_names(plan: Mapping[str, Any]) -> list[str]:
    """The indexes that a plan uses."""
    own = [plan["Index Name"]] if "Index Name" in plan else []
    return own + [name for part in plan.get("Plans", ()) for name in _index_names(part)]
