"""Records that stand beside the votes of a study, notes and verdicts: read from votes.sqlite, written to files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.csv_files import write_csv
from lookalike.core.endings import TABLES, either
from lookalike.core.errors import FileError
from lookalike.core.files import provenance, writing
from lookalike.discovery.vote_log import rows_of_table

__all__ = ["read_side_table", "write_side_table"]


def read_side_table(path: Path, table: str, statement: str, kinds: Sequence[type]) -> list[tuple[Any, ...]]:
    """The rows of a table of votes.sqlite; none where it has no such table. kinds: the type of each column."""
    rows = rows_of_table(path, table, statement)
    for row in rows:
        if len(row) != len(kinds) or not all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True)):
            raise FileError(f"{path} is damaged: a row of {table} has values of another kind", path=path)
    return rows


def write_side_table(
    path: str | Path, kind: str, names: Sequence[str], rows: Sequence[Sequence[Any]], *, raw: bool
) -> None:
    """Write rows to a .csv or .parquet file. A column `time` holds milliseconds since 1970, and is written as a time.

    kind: what the rows are, which Parquet keeps. raw: in CSV, leave text as it is that spreadsheets take for a formula.
    """
    path = Path(path)
    columns: dict[str, list[Any]] = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    times = np.array(columns["time"], np.int64).view("datetime64[ms]")
    if path.suffix == ".csv":
        write_csv(path, columns | {"time": [f"{time}Z" for time in np.datetime_as_string(times).tolist()]}, raw=raw)
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = {name: pa.array(column, pa.string()) for name, column in columns.items() if name != "time"}
        arrays["time"] = pa.array(times, pa.timestamp("ms", tz="UTC"))
        about = json.dumps(provenance(kind, rows=len(rows)))
        with writing(path) as file:
            pq.write_table(pa.table(arrays, metadata={"lookalike": about}), file)
    else:
        raise FileError(f"cannot write {path}: the name must end in {either(TABLES)}", path=path)
