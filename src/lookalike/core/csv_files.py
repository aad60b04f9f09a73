"""CSV files: what is written is what is read, and no spreadsheet takes a text for a formula.

A text that begins like a formula gets an apostrophe before it. So does a text that begins with apostrophes and goes on
like a formula. Reading removes that apostrophe: every text comes back. In files of other programs, only cells such as
'=1 change when they are read: this one becomes =1.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.core.errors import FileError
from lookalike.core.file_errors import fitting
from lookalike.core.files import write_text

__all__ = ["Table", "check_header", "csv_text", "read_csv", "unmarked", "write_csv"]

_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last four are = + - @ of full width


@dataclass(frozen=True)
class Table:
    """Columns of a CSV file by name, and the line that each row begins on."""

    columns: dict[str, list[str]]
    lines: list[int]


def read_csv(path: str | Path, required: Iterable[str]) -> Table:
    """Read a CSV file in UTF-8; its first line names its columns. Values stay text, without marks of `write_csv`."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with fitting(path):
        return _read(path, required)


def _read(path: Path, required: Iterable[str]) -> Table:
    try:
        reader = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), strict=True)
        header = [unmarked(name.strip()) for name in next(reader, [])]
        check_header(path, header, required)
        rows, lines, before = [], [], reader.line_num
        for row in reader:
            line, before = before + 1, reader.line_num  # a quoted value may go over several lines
            if not row:
                continue
            if len(row) != len(header):
                raise FileError(
                    f"{path}, line {line}: {len(header)} values are expected, as in line 1, got {len(row)}",
                    path=path,
                    line=line,
                )
            rows.append([unmarked(text) for text in row])
            lines.append(line)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path} is not a CSV file in UTF-8: {error}", path=path) from error
    named = [(number, name) for number, name in enumerate(header) if name]  # pandas leaves its index without a name
    return Table({name: [row[number] for row in rows] for number, name in named}, lines)


def write_csv(path: str | Path, columns: Mapping[str, Iterable[Any]], *, raw: bool = False) -> None:
    """Write equally long columns of text and numbers; nan is left empty.

    raw: write text as it is, also what a spreadsheet takes for a formula.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> write_csv(path, {"id": ["=1+1", "'=1", "'n"], "score": [-0.5, 1, math.nan]})
    >>> print(path.read_text(), end="")
    id,score
    '=1+1,-0.5
    ''=1,1
    'n,
    >>> read_csv(path, ["id"]).columns["id"]
    ['=1+1', "'=1", "'n"]
    """
    write_text(path, csv_text([columns, *zip(*columns.values(), strict=True)], raw=raw))


def csv_text(rows: Iterable[Iterable[Any]], *, raw: bool = False) -> str:
    r"""Rows of text and numbers as CSV, the first of them the names of the columns; nan is left empty.

    >>> csv_text([["system", "AP"], ["-a", 0.1]])
    "system,AP\n'-a,0.1\n"
    """
    marked = str if raw else _marked
    return "".join(",".join(_cell(value, marked) for value in row) + "\n" for row in rows)


def check_header(path: str | Path, header: list[str], required: Iterable[str]) -> None:
    """Raise where the first line of a file does not name its columns, each once."""
    for name in required:
        if name not in header:
            raise FileError(
                f"the first line of {path} must name its columns, {name!r} among them, "
                f"got {', '.join(map(repr, header)) or 'nothing'}",
                path=path,
                line=1,
            )
    twice = [name for name in header if name and header.count(name) > 1]
    if twice:
        raise FileError(f"the first line of {path} names the column {twice[0]!r} twice", path=path, line=1)


def _marked(value: Any) -> str:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else str(value)


def unmarked(text: str) -> str:
    """A text as it was before `write_csv` marked it."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _cell(value: Any, marked: Callable[[Any], str]) -> str:
    if isinstance(value, float) and math.isnan(value):
        return ""
    text = marked(value)
    # csv.writer leaves a carriage return unquoted, which csv.reader takes for the end of a line
    return '"' + text.replace('"', '""') + '"' if not text or any(mark in text for mark in '",\r\n') else text
