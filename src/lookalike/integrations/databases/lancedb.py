"""Tables of LanceDB."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, StoreError, missing_package
from lookalike.core.readers.source import Columns
from lookalike.integrations.databases.address import DatabaseAddress, malformed
from lookalike.integrations.databases.columns import ColumnRoles, DatabaseColumn, roles_of
from lookalike.integrations.databases.table import DatabaseTable, EngineSearch, TableRows, check_option_names

DISTANCES = {"cosine": "cosine", "dot": "dot", "euclidean": "l2", None: "hamming"}
SETTINGS = ("nprobes", "ef", "refine_factor")

__all__ = ["LanceTable", "open_lancedb"]


def open_lancedb(address: DatabaseAddress, columns: Columns) -> "LanceTable":
    """The table at an address such as lancedb:FOLDER/items."""
    try:
        import lancedb
    except ImportError:
        raise missing_package("LanceDB", "lancedb", "databases") from None
    address.check_options("bitorder")
    folder, _, table = address.location.rpartition("/")
    if not folder or not table:
        raise malformed("lancedb", "a folder and a table are needed, with a / between them")
    if "://" in folder and "@" in folder:
        raise malformed("lancedb", "keys of an object store are not in its address, but in variables")
    if "://" not in folder and not Path(folder).is_dir():  # LanceDB would make it
        raise InputError(f"there is no folder {folder} of LanceDB")
    bit_order = address.options.get("bitorder", "little")
    if bit_order not in ("little", "big"):
        raise malformed("lancedb", "bitorder is little (the first bit is the lowest of its byte) or big")
    name = f"lancedb:{folder}/{table}"
    with _worded(name):
        database = lancedb.connect(folder)
        tables = list(database.list_tables().tables)
        if table not in tables:
            guess = nearest(table, tables)
            question = "" if guess is None else f", did you mean {guess!r}?"
            there = f"it has {', '.join(tables)}" if tables else "it has no tables"
            raise InputError(f"{folder} has no table {table!r} of LanceDB{question}; {there}")
        opened = database.open_table(table)
        fields = [_field(field) for field in opened.schema]
    made = LanceTable(opened, name, roles_of(name, fields, address.columns(columns)), bit_order, address.skips_nulls)
    if made.roles.tags is not None:
        made.read_tags()
    return made


class LanceTable(DatabaseTable):
    """A table with a column of fixed-size lists: of floats, or of bytes, which are packed codes."""

    def __init__(self, table: Any, name: str, roles: ColumnRoles, bit_order: str, skips_nulls: bool) -> None:
        super().__init__(name, roles, skips_nulls=skips_nulls)
        self.table, self.bit_order = table, bit_order
        if roles.vector.kind == "codes":
            self.about["n_bits"] = 8 * table.schema.field(roles.vector.name).type.list_size
            lowest = "lowest" if bit_order == "little" else "highest"
            self.notes = (*self.notes, f"{name}: the first bit of a code is taken as the {lowest} of its byte")

    def read_tags(self) -> None:
        """List the words of the column of tags."""
        assert self.roles.tags is not None
        name = self.roles.tags.name
        words: set[Any] = set()
        with _worded(self.name):
            for batch in self.table.search().select([name]).to_batches(batch_size=1 << 16):
                words.update(word for words in batch.column(name).to_pylist() if words for word in words)
        self._set_tags(words)

    def _rows(self, rows: int) -> Iterator[TableRows]:
        """Rows in the order of the table's files, of the version that was opened."""
        values = {role: field.name for role, field in self.roles.values.items()}
        names = list(dict.fromkeys([self.roles.vector.name, *values.values()]))
        with _worded(self.name):
            for batch in self.table.search().select(names).to_batches(batch_size=rows):
                for start in range(0, batch.num_rows, rows):  # a batch may be larger than was asked for
                    part = batch.slice(start, rows)
                    vectors = part.column(self.roles.vector.name)
                    has = np.asarray(vectors.is_valid())
                    columns = {role: part.column(name).to_pylist() for role, name in values.items()}
                    yield TableRows(self._matrix(vectors, columns), has, columns)

    def _matrix(self, vectors: Any, columns: Mapping[str, list[Any]]) -> np.ndarray:
        """A column of lists as a matrix of those rows that have one."""
        numbers = vectors.flatten()  # of rows that are not NULL
        if numbers.null_count:
            row = next(row for row, numbers in enumerate(vectors.to_pylist()) if numbers and None in numbers)
            raise InputError(f"{self.name}: the vector of {self._row_name(columns, row, 0)} holds NULL: fill it in")
        matrix = numbers.to_numpy(zero_copy_only=False).reshape(-1, vectors.type.list_size)
        if self.roles.vector.kind == "codes" and self.bit_order == "big":
            return np.packbits(np.unpackbits(matrix, axis=1), axis=1, bitorder="little")
        return matrix

    @contextlib.contextmanager
    def searching(self, similarity: str | None, options: Mapping[str, str]) -> Iterator[EngineSearch]:
        """LanceDB's own search within a block, by the index of the column if there is one."""
        check_option_names("LanceDB", options, SETTINGS)
        numbers = {}
        for name, value in options.items():
            if not re.fullmatch("[1-9][0-9]{0,8}", value):
                raise InputError(f"{name} must be a whole number from 1, got {value!r}")
            numbers[name] = int(value)
        yield _LanceSearch(self, similarity, numbers)

    def index_distance(self) -> tuple[str, str] | None:
        """The index on the vectors and the distance that it is made for; None where there is none."""
        with _worded(self.name):
            for index in self.table.list_indices():
                if list(index.columns) == [self.roles.vector.name]:
                    return index.name, self.table.index_stats(index.name).distance_type
        return None


class _LanceSearch:
    """An open search of a table."""

    def __init__(self, table: LanceTable, similarity: str | None, options: Mapping[str, int]) -> None:
        index, notes = table.index_distance(), []
        similarities = {distance: name for name, distance in DISTANCES.items()}
        if table.roles.vector.kind == "codes":
            similarity = None
        elif similarity is None:
            similarity = similarities.get(index[1]) if index else "cosine"
            if similarity is None:
                raise InputError(
                    f"{table.name}: its index is of {index and index[1]}, by which items are not compared here"
                )
            if index:
                notes.append(f"{table.name}: items are compared by {similarity}, as its index does")
        used = "no index: it reads the whole table, and its answers are exact"
        if index and index[1] == DISTANCES[similarity]:
            used = f"the index {index[0]}"
        self.notes = (*notes, f"{table.name}: LanceDB uses {used}")
        self.similarity = similarity
        self._table, self._options = table, options

    def prepare(self, query: Any) -> np.ndarray:
        if not isinstance(query, Codes):
            return np.asarray(query, np.float32)
        return np.packbits(query.unpack()[0], bitorder="big" if self._table.bit_order == "big" else "little")

    def ask(self, query: np.ndarray, k: int) -> list[Any]:
        assert self._table.roles.id is not None
        name = self._table.roles.id.name
        search = self._table.table.search(query, vector_column_name=self._table.roles.vector.name)
        search = search.distance_type(DISTANCES[self.similarity]).limit(k).select([name, "_distance"])
        for setting, value in self._options.items():
            search = getattr(search, setting)(value)
        with _worded(self._table.name):
            return search.to_arrow().column(name).to_pylist()


@contextlib.contextmanager
def _worded(name: str) -> Iterator[None]:
    """Within this block, errors of LanceDB are one sentence. It raises ValueError, RuntimeError and OSError alike."""
    try:
        yield
    except (InputError, StoreError):
        raise
    except (ValueError, RuntimeError, OSError) as error:
        raise StoreError(f"{name} cannot be used: {' '.join(str(error).split())[:300]}") from error


def _field(field: Any) -> DatabaseColumn:
    """A column as Arrow describes it."""
    import pyarrow as pa

    kind = "other"
    types = pa.types
    if types.is_fixed_size_list(field.type) and types.is_floating(field.type.value_type):
        kind = "embeddings"
    elif types.is_fixed_size_list(field.type) and types.is_uint8(field.type.value_type):
        kind = "codes"
    elif types.is_list(field.type) or types.is_large_list(field.type):
        kind = "list"
    elif (
        types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)
        or types.is_string(field.type) or types.is_large_string(field.type) or types.is_dictionary(field.type)
        or types.is_temporal(field.type) or types.is_decimal(field.type)
    ):  # fmt: skip
        kind = "value"
    shown = re.sub(r"(fixed_size_)?list<(item|element): (\w+)( not null)?>", r"list of \3", str(field.type))
    return DatabaseColumn(field.name, kind, shown)
