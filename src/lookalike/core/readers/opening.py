"""One door to items in files: the reader is chosen by the ending of a name, else by how the file begins."""

import glob
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lookalike.core.endings import SOURCES, either
from lookalike.core.errors import FileError, InputTypeError
from lookalike.core.file_errors import reading
from lookalike.core.readers.arrow import ArrowFile, FilesTable, MemoryTable, ParquetFile
from lookalike.core.readers.csv_table import CsvTable
from lookalike.core.readers.faiss_index import FaissTable
from lookalike.core.readers.hdf5 import Hdf5Table
from lookalike.core.readers.hugging_face import SCHEME, files_of_snapshot
from lookalike.core.readers.matlab import matlab_table
from lookalike.core.readers.npz import NpyTable, NpzTable
from lookalike.core.readers.safetensors_file import safetensors_table
from lookalike.core.readers.source import Columns, ItemSource
from lookalike.core.readers.table_source import TableSource
from lookalike.core.readers.tables import FileTable
from lookalike.core.readers.torch_files import torch_table

KINDS: dict[str, Callable[[Path], FileTable]] = {
    ".npz": NpzTable,
    ".npy": NpyTable,
    **dict.fromkeys((".parquet", ".pq"), ParquetFile),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), ArrowFile),
    **dict.fromkeys((".csv", ".tsv"), CsvTable),
    **dict.fromkeys((".pt", ".pth", ".bin"), torch_table),
    ".safetensors": safetensors_table,
    ".mat": matlab_table,
    **dict.fromkeys((".h5", ".hdf5"), Hdf5Table),
    **dict.fromkeys((".faiss", ".index"), FaissTable),
}
BEGINNINGS: dict[bytes, Callable[[Path], FileTable]] = {  # of files whose names say nothing
    b"\x93NUMPY": NpyTable,
    b"PAR1": ParquetFile,
    b"ARROW1": ArrowFile,
    b"\x89HDF\r\n\x1a\n": Hdf5Table,
    b"MATLAB 5.0": matlab_table,
}
PARTS = (".parquet", ".pq", ".arrow")  # of which a folder can hold several
OUR_SHARD = re.compile(r"part-\d{5,9}(?:-\d{1,6})?\.parquet")
SPLITS = ("train", "test", "validation", "valid", "val", "dev")

__all__ = ["is_source", "open_source", "open_table"]


def open_source(
    location: Any, columns: Columns | None = None, *, extra: bool = False, labelled_elsewhere: bool = False
) -> ItemSource:
    """Items of a file, of a folder or pattern of Parquet files, of a snapshot (hf://…), or of a table in memory.

    columns: which column is what, as the user names it. extra: pages have all other columns too. labelled_elsewhere:
    labels are in a file of their own, and so may be the columns that this one lacks.
    """
    chosen = columns or Columns()
    return TableSource(open_table(location), chosen, extra=extra, labelled_elsewhere=labelled_elsewhere)


def open_table(location: Any) -> FileTable:
    """The columns of a file, of several files, or of a table of pandas, polars or pyarrow."""
    if not isinstance(location, str | Path):
        if hasattr(location, "__arrow_c_stream__") or hasattr(location, "__arrow_c_array__"):
            return MemoryTable(location)
        raise InputTypeError(
            f"items must be the name of a file, or a table of pandas, polars or pyarrow, got {type(location).__name__}"
        )
    text = str(location)
    if text.startswith(SCHEME):
        return _several(text, files_of_snapshot(text))
    path = Path(location)
    if path.is_dir():
        return _several(text, _parts_in(path))
    if not path.exists() and glob.has_magic(text):
        matches = [Path(match) for match in sorted(glob.glob(text, recursive=True))]  # noqa: PTH207  # patterns from /
        return _several(text, [match for match in matches if match.is_file()])
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    reader = KINDS.get(path.suffix) or _by_beginning(path)
    if reader is None:
        raise FileError(f"cannot read {path}: the name must end in {either(SOURCES)}", path=path)
    return reader(path)


def is_source(location: str | Path) -> bool:
    """Whether a name is that of items: by its ending or its beginning, or as that of Parquet files; it may be new."""
    text, path = str(location), Path(location)
    if text.startswith(SCHEME):
        return True
    if path.is_dir():
        parts = _parts_in(path)
        others = any(file.suffix in KINDS and file.suffix not in PARTS for file in path.iterdir() if file.is_file())
        return bool(parts) and not others and not any(OUR_SHARD.fullmatch(part.name) for part in parts)
    if not path.exists() and glob.has_magic(text):
        return True
    return path.suffix in KINDS or _by_beginning(path) is not None


def _by_beginning(path: Path) -> Callable[[Path], FileTable] | None:
    """The reader of a file by its first bytes; None if they are unknown, or there is no file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(b"PK\3\4"):
        with reading(path, "archive of arrays"), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if any(name.endswith("/data.pkl") for name in names):
            return torch_table
        return NpzTable if names and all(name.endswith(".npy") for name in names) else None
    return next((reader for mark, reader in BEGINNINGS.items() if start.startswith(mark)), None)


def _parts_in(folder: Path) -> list[Path]:
    """The Parquet or Arrow files in a folder, or else in the folders in it."""
    for found in (folder.glob("*"), folder.rglob("*")):
        parts = [path for path in sorted(found) if path.suffix in PARTS and path.name[0] not in "._" and path.is_file()]
        if parts:
            return parts
    return []


def _several(name: str, files: list[Path]) -> FileTable:
    """Several files as one table, in the order of their names; raises where they are not parts of one."""
    if not files:
        raise FileNotFoundError(
            f"there is no Parquet or Arrow file {'in' if Path(name).is_dir() else 'of the name'} {name}"
        )
    for file in files:
        if file.suffix not in PARTS:
            raise FileError(f"several files are read together if they end in {either(PARTS)}, got {file}", path=file)
    kinds = sorted({word for file in files for word in re.split(r"[^a-z]+", file.stem.lower()) if word in SPLITS})
    if len(kinds) > 1:
        raise FileError(f"{name} holds several parts of a data set, {' and '.join(kinds)}: name one of them", path=name)
    revisions = sorted({match[1] for file in files if (match := re.search(r"/snapshots/([^/]+)/", file.as_posix()))})
    if len(revisions) > 1:
        listed = " and ".join(revisions)
        raise FileError(f"{name} holds several revisions of a data set, {listed}: name one of them", path=name)
    counted = [match for file in files if (match := re.search(r"-(\d+)-of-(\d+)$", file.stem))]
    if counted and len(counted) == len(files) and len(files) < int(counted[0][2]):
        raise FileError(f"{name} has {len(files)} of {int(counted[0][2])} files: the others are not there", path=name)
    tables = [KINDS[file.suffix](file) for file in files]
    return tables[0] if len(tables) == 1 else FilesTable(name, tables)  # type: ignore[arg-type]
