"""Parquet and Arrow files, folders of them, and tables in memory: all have Arrow's columns."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.arrow_arrays import arrow_columns
from lookalike.core.errors import FileError, InputError
from lookalike.core.file_errors import reading
from lookalike.core.files import PARQUET, check_format, read_table, said_in
from lookalike.core.readers.tables import Field

ARROW = "Arrow or Feather file"
FEATHER_1 = b"FEA1"  # how files of the first Feather begin

__all__ = ["ArrowFile", "FilesTable", "MemoryTable", "ParquetFile"]


class ParquetFile:
    """A Parquet file."""

    noun = "column"

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.name, self._path = str(path), path
        with reading(path, PARQUET):
            metadata = pq.read_metadata(path)
            schema = metadata.schema.to_arrow_schema()
            self._n_rows = metadata.num_rows
        self.about = said_in(schema)
        check_format(self.about, path)
        self.fields = fields_of(schema, self.name, PARQUET)

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These columns, of which no more is in memory than a page."""
        import pyarrow.parquet as pq

        del text
        if rows >= self._n_rows:
            yield read_table(self._path, self._path, names, packed)[0]
            return
        with contextlib.ExitStack() as opened:
            with reading(self.name, PARQUET):
                # unless told not to, pyarrow reads ahead, to the end of the file
                file = opened.enter_context(pq.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 20))
                batches = file.iter_batches(rows, columns=list(names))
            first_row = 0
            while True:
                with reading(self.name, PARQUET):
                    batch = next(batches, None)
                    if batch is None:
                        return
                    page = arrow_columns(batch, self.name, first_row=first_row, packed=packed)
                yield page
                first_row += len(batch)


class ArrowFile:
    """A file or a stream of Arrow, or a Feather file."""

    noun = "column"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with self._opened() as (schema, _):
            self.about = said_in(schema)
            check_format(self.about, path)
            self.fields = fields_of(schema, self.name, ARROW)

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These columns, of which no more is in memory than a batch of the file."""
        del text
        with self._opened() as (_, batches):
            yield from pages_of(batches, names, rows, self.name, packed)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any]]]:
        """The schema, and the batches as they are read."""
        import pyarrow as pa

        with contextlib.ExitStack() as opened:
            with reading(self.name, ARROW):
                file = opened.enter_context(pa.OSFile(self.name))
                start = file.read(6)
                file.seek(0)
                if start[:4] == FEATHER_1:
                    message = f"{self.name} is of the first version of Feather: write it again, by pyarrow.feather"
                    raise FileError(message, path=self.name)
                if start == b"ARROW1":
                    whole = opened.enter_context(pa.ipc.open_file(file))
                    schema = whole.schema
                    batches = map(whole.get_batch, range(whole.num_record_batches))
                else:
                    stream = opened.enter_context(pa.ipc.open_stream(file))
                    schema, batches = stream.schema, iter(stream)
            yield schema, self._checked(batches)

    def _checked(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches; raises where one is damaged, which Arrow does not see by itself."""
        while True:
            with reading(self.name, ARROW):
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)
            yield batch


class MemoryTable:
    """A table of pandas, polars or pyarrow, or of anything else that gives its columns to Arrow."""

    name, noun = "the table", "column"

    def __init__(self, table: Any) -> None:
        import pyarrow as pa

        try:
            self._table = pa.table(table)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"the table cannot be read as columns of numbers, text and lists: {reason}") from error
        self.about: dict[str, Any] = said_in(self._table.schema)
        self.fields = fields_of(self._table.schema, self.name, "table")

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These columns."""
        del text
        if rows >= len(self._table):
            yield arrow_columns(self._table.select(list(names)), self.name, packed=packed)
            return
        yield from pages_of(iter(self._table.to_batches()), names, rows, self.name, packed)


class FilesTable:
    """Several Parquet or Arrow files, one behind the other in the order of their names."""

    noun = "column"

    def __init__(self, name: str, files: Sequence[ParquetFile | ArrowFile]) -> None:
        self.name, self._files = name, files
        first = files[0]
        self.about, self.fields = first.about, first.fields
        for file in files[1:]:
            if {field.name for field in file.fields} != {field.name for field in first.fields}:
                ours, others = ([field.name for field in each.fields] for each in (first, file))
                raise FileError(
                    f"the files of {name} have different columns: {first.name} has {_listed(ours)}, {file.name} has "
                    f"{_listed(others)}",
                    path=name,
                )
            if file.about.get("n_bits") != first.about.get("n_bits") or (
                file.about.get("hasher") != first.about.get("hasher")
            ):
                raise FileError(f"{first.name} and {file.name} hold codes of different hashers", path=name)

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These columns, file by file."""
        for file in self._files:
            yield from file.pages(names, rows, text, packed)


def pages_of(
    batches: Iterator[Any], names: Sequence[str], rows: int, path: str, packed: Collection[str]
) -> Iterator[dict[str, np.ndarray]]:
    """Columns of Arrow batches, at most `rows` rows at a time."""
    first_row = 0
    for batch in batches:
        chosen = batch.select(list(names))
        for start in range(0, len(chosen), rows):
            yield arrow_columns(chosen.slice(start, rows), path, first_row=first_row + start, packed=packed)
        first_row += len(batch)


def fields_of(schema: Any, path: str, form: str) -> tuple[Field, ...]:
    """The columns that an Arrow schema describes."""
    with reading(path, form):
        names = list(schema.names)
    for name in names:
        if names.count(name) > 1:
            raise FileError(f"{path} is not a readable {form}: it has the column {name!r} twice", path=path)
    return tuple(field_of_type(field.name, field.type) for field in schema)


def field_of_type(name: str, kind: Any) -> Field:
    """A column of an Arrow type."""
    import pyarrow as pa

    is_a = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if is_a.is_dictionary(kind):
        kind = kind.value_type
    if is_a.is_fixed_size_binary(kind):
        return Field(name, "S", (kind.byte_width,))
    if is_a.is_fixed_size_list(kind) or is_a.is_list(kind) or is_a.is_large_list(kind):
        length = kind.list_size if is_a.is_fixed_size_list(kind) else None
        inner = field_of_type(name, kind.value_type)
        if inner.shape or not inner.kind:
            return Field(name, "", (), f"it is of the type {kind}")
        return Field(name, inner.kind, (length,), octets=is_a.is_uint8(kind.value_type))
    for test, letter in (
        (is_a.is_floating, "f"),
        (is_a.is_signed_integer, "i"),
        (is_a.is_unsigned_integer, "u"),
        (is_a.is_boolean, "b"),
        (is_a.is_temporal, "M"),
    ):
        if test(kind):
            return Field(name, letter)
    if is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_binary_view(kind):
        return Field(name, "S", (None,))
    if is_a.is_nested(kind) or is_a.is_null(kind):
        return Field(name, "", (), f"it is of the type {kind}")
    return Field(name, "U")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, sorted(names)))
