"""Labels of image files: by the folders that they are in, and by a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.core.checks import choice
from lookalike.core.csv_files import read_csv
from lookalike.core.endings import TABLES, either
from lookalike.core.errors import FileError

FOLDERS = ("category", "identity", "category/identity", "nothing")
FILE_COLUMNS = ("file", "path", "filename", "image", "id")
CATEGORY_COLUMNS = ("category", "label", "class")

__all__ = ["FOLDERS", "ImageLabels", "LabelTable", "read_labels"]


def read_labels(folders: str, table: Path | None) -> "ImageLabels":
    """The labels that folders and a table give, after a check of both; see `ImageLabels`."""
    choice("folders", folders, FOLDERS)
    return ImageLabels(folders, None if table is None else read_label_table(table))


@dataclass(frozen=True, eq=False)
class ImageLabels:
    """Category, identity and further columns of files: by the folders they are in, and by a table of labels.

    folders: what the first folder of a path is, or the first two. table: its columns replace those of the folders.

    >>> ImageLabels("category/identity").columns_of(["shoes/a12/front.jpg", "loose.jpg"])
    {'category': ['shoes', ''], 'identity': ['a12', 'loose.jpg']}
    """

    folders: str = "category"
    table: "LabelTable | None" = None

    def columns_of(self, paths: Sequence[str]) -> dict[str, list[Any]]:
        """Columns with a value for each path; a column without any value is left out."""
        columns: dict[str, list[Any]] = {}
        kinds = [] if self.folders == "nothing" else self.folders.split("/")
        for level, kind in enumerate(kinds):
            names = [parts[level] if len(parts := path.split("/")) > level + 1 else "" for path in paths]
            if any(names):
                columns[kind] = names
        if self.table is not None:
            columns |= self.table.columns_of(paths)
        if "identity" in columns:  # an item without one is its own
            columns["identity"] = [name or path for name, path in zip(columns["identity"], paths, strict=True)]
        return columns

    def strangers(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Paths that the table does not have, and files of the table that are not among the paths."""
        if self.table is None:
            return [], []
        rows, present = self.table.rows, set(paths)
        return [path for path in paths if path not in rows], [name for name in rows if name not in present]


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Labels of files from a table."""

    rows: Mapping[str, int]  # the row of each file
    columns: Mapping[str, Sequence[Any]]

    def columns_of(self, paths: Sequence[str]) -> dict[str, list[Any]]:
        """Columns with a value for each path, empty for files that are not in the table."""
        rows = [self.rows.get(path) for path in paths]
        return {
            name: ["" if row is None else str(values[row]) for row in rows] for name, values in self.columns.items()
        }


def read_label_table(path: Path) -> LabelTable:
    """A .csv or .parquet file with a column file (or path, filename, image, id), and columns of labels.

    These are identity, category (or label, class) and any others.
    """
    columns = _read_columns(path)
    file_column = _first(FILE_COLUMNS, columns)
    if file_column is None:
        raise FileError(
            f"{path} must have a column {', '.join(FILE_COLUMNS[:-1])} or {FILE_COLUMNS[-1]} that says which file "
            f"a row is about, got {', '.join(columns) or 'none'}",
            path=path,
        )
    rows: dict[str, int] = {}
    for row, value in enumerate(columns.pop(file_column)):
        file = str(value).removeprefix("./")
        if rows.setdefault(file, row) != row:
            raise FileError(f"{path} has {file!r} twice, in rows {rows[file] + 1} and {row + 1}", path=path)
    category = _first(CATEGORY_COLUMNS, columns)
    if category is not None and category != "category":
        columns = {"category" if name == category else name: values for name, values in columns.items()}
    labels = {name: values for name, values in columns.items() if name not in ("id", "path")}
    if not labels:
        raise FileError(f"{path} says nothing of its files: expected a column category, identity or another", path=path)
    return LabelTable(rows, labels)


def _read_columns(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".csv":
        return dict(read_csv(path, []).columns)
    if path.suffix == ".parquet":
        from lookalike.core.files import read_arrays

        return {name: values.tolist() for name, values in read_arrays(path)[0].items()}
    raise FileError(f"cannot read labels from {path}: the name must end in {either(TABLES)}", path=path)


def _first(wanted: Sequence[str], columns: Mapping[str, Any]) -> str | None:
    return next((name for name in wanted if name in columns), None)
