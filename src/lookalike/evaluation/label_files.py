"""Labels in files of their own: .npy, a line for each item, or a table of any kind with ids and labels."""

import csv
import io
import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lookalike.core.errors import FileError, Option
from lookalike.core.file_errors import fitting, within
from lookalike.core.npy import read_npy
from lookalike.core.readers.choosing import LABEL_NAMES, choose_values
from lookalike.core.readers.opening import is_source, open_table
from lookalike.core.readers.tables import FileTable
from lookalike.core.tags import tags_or_labels

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
TAGS = {"0": 0, "0.0": 0, "1": 1, "+1": 1, "1.0": 1, "-1": -1, "-1.0": -1}
ID_NAMES = ("id", "ids", "item", "image", "file", "filename", "path", "name", "query")

__all__ = ["LabelFile", "read_labels"]


@dataclass(frozen=True)
class LabelFile:
    """Labels of a file: (n,) of them, or a 0/1 matrix of tags. ids: of their items, where the file has them."""

    path: str | Path
    values: np.ndarray
    ids: list[str] | None = None
    assumed: str = ""  # what was taken for granted, in a sentence
    more: Mapping[str, np.ndarray] = field(default_factory=dict)  # other columns of the same rows
    said: tuple[str, ...] = ()  # notes, however labels are found

    def of(self, ids: list[str] | None) -> tuple[dict[str, np.ndarray], list[str]]:
        """The labels of items, joined by id where both have ids, else in their order; and what was assumed."""
        notes = [*self.said, self.assumed] if self.assumed else list(self.said)
        found = {"labels": self.values, **self.more}
        if self.ids is None:
            return found, notes
        if ids is None:
            in_order = f"{self.path}: labels are taken in the order of the items, which have no ids"
            return found, notes if self.assumed else [*notes, in_order]
        position = {name: row for row, name in enumerate(self.ids)}
        strange = [name for name in ids if name not in position]
        if not strange:
            rows = [position[name] for name in ids]
            return {name: values[rows] for name, values in found.items()}, list(self.said)
        if self.assumed and len(strange) == len(ids):  # its ids are of another kind: the order is all there is
            return found, notes
        raise FileError(
            f"{self.path} has no label of {len(strange):,} of {len(ids):,} items, such as {strange[0]!r}; "
            f"one of its ids is {self.ids[0]!r}",
            path=self.path,
        )


def read_labels(
    path: str | Path, n_items: int, ids: np.ndarray | None = None, columns: Mapping[str, str] | None = None
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Read `labels` of n items, and what had to be assumed, in sentences. ids: of the items, if they have any.

    They stand in .npy, in text with a label, some tags, or an id and a label on each line, or in a table of any other
    kind. In text, several 0/1 or ±1 on a line are tags, and words with spaces are one label. columns: which column is
    the label, the tags or the id, and others to take along. Raises for what can be read in two ways.
    """
    named = None if ids is None else ids.astype(str).tolist()
    is_text = not columns if Path(path).suffix in (".csv", ".tsv") else not is_source(path)
    if is_text or Path(path).suffix == ".npy":
        return _read(Path(path), n_items, named).of(named)
    return _of_table(path, dict(columns or {})).of(named)


def _of_table(location: str | Path, roles: dict[str, str]) -> LabelFile:
    """Labels of a table of any kind, by what its columns are called."""
    table = open_table(location)
    values, guessed, undecided = choose_values(table, roles, ID_NAMES)
    if "labels" not in values:
        values["labels"] = _only_labels(table, values, undecided.get("labels", ()))
        guessed.append("labels")
    pages = list(table.pages(list(dict.fromkeys(values.values())), sys.maxsize, set(values.values())))
    if not pages:
        raise FileError(f"{table.name} has no rows", path=table.name)
    columns = {ours: np.concatenate([page[name] for page in pages]) for ours, name in values.items()}
    with within(table.name):
        labels = tags_or_labels(columns.pop("labels"))
    ids = columns.pop("ids", None)
    said = tuple(f"{table.name}: {name} are taken from {table.noun} {values[name]!r}" for name in guessed if table.noun)
    if ids is None:
        in_order = f"{table.name}: labels are in the order of the items; it has no ids"
        return LabelFile(table.name, labels, None, in_order, columns, said)
    names = ids.ravel().astype(str).tolist()
    rows: dict[str, int] = {}
    for row, name in enumerate(names):
        if rows.setdefault(name, row) != row:
            message = f"{table.name}: the id {name!r} is there twice, in rows {rows[name]} and {row}"
            raise FileError(message, path=table.name)
    return LabelFile(table.name, labels, names, "", columns, said)


def _only_labels(table: FileTable, values: Mapping[str, str], possible: Sequence[str]) -> str:
    """The one column that can be labels, where none has their name. possible: columns that have."""
    if not table.noun:
        return table.fields[0].name
    if not possible:
        possible = [each.name for each in table.fields if each.is_value and each.name not in values.values()]
    if len(possible) == 1:
        return possible[0]
    listed = ", ".join(map(repr, possible)) or "none of one value for each item"
    problem = f"{table.name}: it cannot be told which {table.noun} holds the labels, of {listed}; say which with "
    raise FileError(problem, Option("label", possible[0] if possible else None), path=table.name)


def _read(path: Path, n_items: int, ids: list[str] | None) -> LabelFile:
    if path.suffix == ".npy":
        with within(path):
            return LabelFile(path, tags_or_labels(read_npy(path)))
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with fitting(path):
            text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a text file with a label on each line", path=path) from error
    lines = text.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise _wrong(path, number, "it is empty: each line has a label")
    known = set(ids or ())
    for split in (_cells, _words):
        rows = _rows(path, lines, split, known)
        if rows is not None:
            return _of_rows(path, rows, known)
    lines = [_cells(path, number, line)[0] if line[0] == '"' else line for number, line in enumerate(lines, 1)]
    lines = [line.strip() for line in lines]
    if len(lines) == n_items + 1 and lines[0].lower() in LABEL_NAMES:
        return LabelFile(path, np.array(lines[1:]), None, f"{path}: line 1 was taken as the name of the column")
    return LabelFile(path, np.array(lines))


def _rows(
    path: Path, lines: list[str], split: Callable[[Path, int, str], list[str]], known: set[str]
) -> list[list[str]] | None:
    """The fields of each line, where lines are rows of a table or of tags; None where each line is one label."""
    rows = [split(path, number, line) for number, line in enumerate(lines, 1)]
    sizes = [len(row) for row in rows]
    if max(sizes, default=1) < 2:
        return None
    numbers = [len(row) > 1 and all(map(_is_number, row)) for row in rows]
    if split is _words and not any(numbers) and not _has_ids(rows, known):
        return None
    if split is _words and any(numbers) and not all(numbers) and not _has_ids(rows, known):
        line = 1 + numbers.index(not numbers[0])
        raise _wrong(
            path, line, "some lines are several numbers and others are words: are these labels, tags or a table?"
        )
    odd = next((row for row, size in enumerate(sizes) if size != sizes[-1]), None)
    if odd is not None:
        raise _wrong(
            path,
            odd + 1,
            f"{sizes[odd]} value{'s' * (sizes[odd] > 1)}, but {sizes[-1]} in line {len(rows)}: are these labels, tags "
            'or a table? Write as many on each line, or a label that holds a comma in "double quotes"',
        )
    return rows


def _is_number(text: str) -> bool:
    return text in TAGS or NUMBER.fullmatch(text) is not None


def _has_ids(rows: list[list[str]], known: set[str]) -> bool:
    """Whether words are rows of an id and labels: the ids are known, or differ and have numbers behind them."""
    if _are_known(rows, known):
        return True
    if not all(len(row) > 1 and all(map(_is_number, row[1:])) for row in rows):
        return False
    return len(rows) > 1 and len({row[0] for row in rows}) == len(rows)


def _are_known(rows: list[list[str]], known: set[str]) -> bool:
    """Whether the first column has all known ids."""
    return bool(known) and known <= {row[0] for row in rows}


def _cells(path: Path, number: int, line: str) -> list[str]:
    """The cells of a line of a table with commas or tabs."""
    if not any(mark in line for mark in ',\t"'):
        return [line]
    try:
        cells = next(csv.reader(io.StringIO(line), delimiter="\t" if "\t" in line else ",", strict=True), [""])
    except csv.Error as error:
        if '"' not in line:
            raise _wrong(path, number, str(error)) from error
        return [line]  # a quotation mark within a label
    return [cell.strip() for cell in cells]


def _words(path: Path, number: int, line: str) -> list[str]:  # noqa: ARG001  # as _cells
    return line.split()


def _of_rows(path: Path, rows: list[list[str]], known: set[str]) -> LabelFile:
    """Labels of a table, or tags."""
    header = _header(rows)
    body, first = rows[len(header) > 0 :], 1 + (len(header) > 0)
    if not body:
        raise _wrong(path, 1, "it names columns, but no row follows")
    if header and any(name in LABEL_NAMES for name in header):
        return _of_named(path, header, body, first)
    if all(map(TAGS.__contains__, itertools.chain.from_iterable(body))):
        return LabelFile(path, _tags(path, body, first))
    ids = [row[0] for row in body]
    if len(body[0]) > 2:
        if not all(value in TAGS for row in body for value in row[1:]):
            line, row = next((n, r) for n, r in enumerate(body, first) if not all(v in TAGS for v in r[1:]))
            raise _wrong(
                path,
                line,
                f"{len(row)} values: a line has one label, tags that are 0 or 1, or an id and a label; name the "
                "columns in the first line, id and label among them",
            )
        _check_ids(path, ids, first)
        return LabelFile(path, _tags(path, [row[1:] for row in body], first), ids, _said(path, "tags"))
    labels = [row[1] for row in body]
    if _are_known(body, known):
        _check_ids(path, ids, first)
        return LabelFile(path, np.array(labels), ids)
    if len(set(ids)) == len(ids) and len(set(labels)) < len(labels):
        return LabelFile(path, np.array(labels), ids, _said(path, "labels"))
    raise _wrong(
        path,
        first,
        "two values, and it cannot be told which is the id and which the label: name the columns in the first line, "
        'such as id,label, or write a label with a comma in "double quotes"',
    )


def _said(path: Path, what: str) -> str:
    return f"{path}: the first column was taken as ids, what follows as {what}, in the order of the items"


def _header(rows: list[list[str]]) -> list[str]:
    """The names of columns, if the first line has them: a known name, or words above tags."""
    names = [name.lower() for name in rows[0]]
    if any(name in LABEL_NAMES for name in names):
        return names
    if len(rows) < 2 or any(map(_is_number, names)):
        return []
    return names if all(value in TAGS for row in rows[1:] for value in row[1:]) else []


def _of_named(path: Path, header: list[str], body: list[list[str]], first: int) -> LabelFile:
    """Labels of a table whose first line names its columns."""
    of_labels = [column for column, name in enumerate(header) if name in LABEL_NAMES]
    of_ids = [column for column, name in enumerate(header) if name in ID_NAMES]
    if len(of_labels) > 1 or len(of_ids) > 1:
        raise _wrong(path, 1, f"several columns could be ids or labels, of {', '.join(header)}: leave one of each")
    labels = np.array([row[of_labels[0]] for row in body])
    if not of_ids:
        return LabelFile(path, labels, None, f"{path}: labels are in the order of the items; it has no column `id`")
    ids = [row[of_ids[0]] for row in body]
    _check_ids(path, ids, first)
    return LabelFile(path, labels, ids)


def _check_ids(path: Path, ids: list[str], first: int) -> None:
    """Raise if an id occurs twice. first: the line of the first."""
    known: dict[str, int] = {}
    for line, name in enumerate(ids, first):
        if name in known:
            raise _wrong(path, line, f"the id {name!r} is there twice, first in line {known[name]}")
        known[name] = line


def _tags(path: Path, rows: list[list[str]], first: int) -> np.ndarray:
    """Tags as a 0/1 matrix."""
    values = np.array([[TAGS[value] for value in row] for row in rows], np.int8)
    if (values == 0).any() and (values == -1).any():
        other = 0 if (values[0] == -1).any() else -1
        line = first + int(np.flatnonzero((values == other).any(1))[0])
        raise _wrong(path, line, "tags are 0 and 1, or -1 and +1, got both -1 and 0")
    return (values > 0).astype(np.int8)


def _wrong(path: Path, line: int, problem: str) -> FileError:
    return FileError(f"{path}, line {line}: {problem}", path=path, line=line)
