"""CSV files as tables, read a block at a time."""

import contextlib
import csv
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.csv_files import check_header, unmarked
from lookalike.core.errors import FileError
from lookalike.core.file_errors import no_memory, short_of_memory
from lookalike.core.readers.arrow import fields_of, pages_of
from lookalike.core.readers.number_columns import NumberColumns
from lookalike.core.readers.tables import Field
from lookalike.core.readers.text_vectors import is_bit_text

FORM = "CSV file"
START = 1 << 16  # bytes of which the first line is looked for
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

__all__ = ["CsvTable"]


class CsvTable:
    """A CSV file in UTF-8, of which the first line names the columns; values between commas, semicolons or tabs."""

    noun = "column"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        self.about: dict[str, Any] = {}
        with path.open("rb") as file:
            first = file.read(START).decode("utf-8-sig", "replace").splitlines(keepends=True)
        if not first or not first[0].strip():
            raise FileError(f"the first line of {path} must name its columns, got nothing", path=path, line=1)
        self._delimiter = max(",;\t", key=first[0].count)
        with self._failing():
            schema = self._reader({}, None).schema
            names = list(schema.names)
        check_header(path, names, ())
        numbers = [name for name in names if NUMBER.fullmatch(name)]
        groups = NumberColumns.among(map(Field, numbers, "f" * len(numbers)))
        if len(numbers) == len(names) and all(group.missing is not None for group in groups):
            raise FileError(
                f"the first line of {path} must name its columns, got numbers alone: {', '.join(numbers[:3])}",
                path=path,
                line=1,
            )
        fields = fields_of(schema, self.name, FORM)
        cells = self._cells(first)
        self.fields = tuple(
            _with_sample(field, cells[number] if len(cells) == len(fields) else "")
            for number, field in enumerate(fields)
            if field.name
        )
        self._floats = {name for group in NumberColumns.among(self.fields) for name in group.names}

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These columns, of which no more is in memory than a block."""
        import pyarrow as pa

        kinds = {name: pa.float64() for name in self._floats}
        kinds |= {field.name: pa.large_string() for field in self.fields if field.kind == "U" or field.name in text}
        with self._failing():
            batches = iter(self._reader(kinds, list(names)))
        row, pages = 0, pages_of(batches, names, rows, self.name, packed)
        while True:
            with self._failing():
                page = next(pages, None)
            if page is None:
                return
            yield {name: self._texts(name, values, row, name in text) for name, values in page.items()}
            row += len(next(iter(page.values())))

    def _texts(self, name: str, values: np.ndarray, first_row: int, required: bool) -> np.ndarray:
        """Values without the marks of `write_csv`; raises for an id or a label that is not there."""
        if values.dtype.kind != "U":
            return values
        if required and (empty := np.flatnonzero(np.char.strip(values) == "")).size:
            row = first_row + int(empty[0])
            raise FileError(
                f"column {name!r} of {self.name} has an empty value, the first in row {row}", path=self.name
            )
        if required:
            values = np.char.strip(values)
        if any(text.startswith("'") for text in values.tolist()):
            return np.array([unmarked(text) for text in values.tolist()])
        return values

    def _reader(self, kinds: dict[str, Any], names: list[str] | None) -> Any:
        from pyarrow import csv as arrow_csv

        return arrow_csv.open_csv(
            self._path,
            parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=kinds, include_columns=names),
        )

    def _cells(self, lines: list[str]) -> list[str]:
        """The values of the first row as they are written; none if there is no such row."""
        rows = csv.reader(lines, delimiter=self._delimiter)
        with contextlib.suppress(csv.Error):
            return next(itertools.islice(rows, 1, None), [])
        return []

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Within this block, what Arrow says of a bad file becomes a FileError."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, UnicodeDecodeError) as error:
            if short_of_memory(error):
                raise no_memory(self.name) from error
            reason = " ".join(str(error).split())[:200]
            raise FileError(f"{self.name} is not a readable {FORM} in UTF-8: {reason}", path=self.name) from error


def _with_sample(field: Field, cell: str) -> Field:
    """A column of text with its first value; bits that look like a number are text."""
    if field.kind == "U" or (field.kind in ("i", "f") and is_bit_text(cell)):
        return Field(field.name, "U", sample=cell)
    return field
