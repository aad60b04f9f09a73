"""Files of votes: CSV and Parquet with the columns query, item, expert, answer, time and seconds."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.csv_files import read_csv, write_csv
from lookalike.core.endings import TABLES, either
from lookalike.core.errors import FileError, InputError, InputTypeError
from lookalike.core.file_errors import reading
from lookalike.core.files import PARQUET, provenance, read_arrays, writing
from lookalike.core.ids import RowError, text_ids
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.vote_columns import answer_column, seconds_column, time_column

__all__ = ["read_vote_columns", "write_vote_columns"]

_NEEDED = ("query", "item", "expert", "answer")
_COLUMNS = (*_NEEDED, "time", "seconds", "why", "machine")
_MARKS = {"": False, "no": False, "false": False, "0": False, "yes": True, "true": True, "1": True}


def read_vote_columns(
    path: str | Path, scale: Scale | None = None, *, machine: str | None = None
) -> tuple[dict[str, np.ndarray | None], Scale]:
    """The checked columns of a .csv or .parquet file by name, and the scale of its answers.

    Times or seconds that the file does not have are None. scale: the one that answers must be of; None: that which a
    .parquet file says, or else similar and not similar. machine: whose votes they are; then the file need not name
    experts, and names no other. The columns "why", texts, and "machine", whether a vote is a machine's, are there only
    if the file has them.
    """
    path = Path(path)
    if path.suffix not in TABLES:
        raise FileError(f"cannot read {path}: the name must end in {either(TABLES)}", path=path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    needed = _NEEDED if machine is None else tuple(name for name in _NEEDED if name != "expert")
    columns, error, own = (*_read_csv(path, needed), None) if path.suffix == ".csv" else _read_parquet(path, needed)
    if scale is not None and own is not None and own != scale:
        raise FileError(f"{path} has votes on the scale {str(own)!r}, and here it is {str(scale)!r}", path=path)
    scale = scale or own or BINARY
    if machine is not None:
        columns = {**columns, "expert": _one_expert(columns, machine, error)}
    checked: dict[str, np.ndarray | None] = {
        name: text_ids(columns[name], name, error) for name in ("query", "item", "expert")
    }
    checked["answer"] = answer_column(columns["answer"], error, scale)
    checked["time"] = time_column(columns["time"], error) if "time" in columns else None
    checked["seconds"] = seconds_column(columns["seconds"], error) if "seconds" in columns else None
    if "why" in columns:
        checked["why"] = np.array(["" if text is None else str(text) for text in columns["why"]], str)
    if "machine" in columns:
        checked["machine"] = np.array([_is_machine(mark, row, error) for row, mark in enumerate(columns["machine"])])
    return checked, scale


def _one_expert(columns: Mapping[str, Sequence[Any]], machine: str, error: RowError) -> list[str]:
    """The name of a machine for every vote; an error where the file has votes of others."""
    for row, name in enumerate(columns.get("expert", ())):
        if name != machine:
            raise error(row, f"this vote is of {name!r}, not of the machine {machine!r}: leave the column expert out")
    return [machine] * len(columns["answer"])


def _is_machine(mark: Any, row: int, error: RowError) -> bool:
    """Whether a mark says that a vote is a machine's."""
    text = str("" if mark is None else mark).strip().lower()
    if text not in _MARKS:
        raise error(row, f"machine is yes for the votes of machines, and empty for others, got {mark!r}")
    return _MARKS[text]


def write_vote_columns(
    path: str | Path, columns: Mapping[str, np.ndarray], digest: str, *, raw: bool, scale: Scale = BINARY
) -> None:
    """Write columns to a .csv or .parquet file. digest: the fingerprint of the votes, which Parquet keeps."""
    path = Path(path)
    if path.suffix == ".csv":
        _write_csv(path, columns, raw, scale)
    elif path.suffix == ".parquet":
        _write_parquet(path, columns, digest, scale)
    else:
        raise FileError(f"cannot write {path}: the name must end in {either(TABLES)}", path=path)


def _read_csv(path: Path, needed: Sequence[str]) -> tuple[Mapping[str, Sequence[Any]], RowError]:
    table = read_csv(path, needed)

    def error(row: int, problem: str) -> FileError:
        line = table.lines[row]
        return FileError(f"{path}, line {line}: {problem}", path=path, line=line)

    return table.columns, error


def _read_parquet(path: Path, needed: Sequence[str]) -> tuple[Mapping[str, Sequence[Any]], RowError, Scale | None]:
    import pyarrow.parquet as pq

    def error(row: int, problem: str) -> FileError:
        return FileError(f"{path}, row {row}: {problem}", path=path)

    _, about = read_arrays(path, ())
    if about.get("lookalike", "votes") != "votes":
        raise FileError(f"{path} holds {about['lookalike']}, not votes", path=path)
    own = _scale_of(path, about)
    names = pq.read_schema(path).names
    for name in _COLUMNS:
        if names.count(name) != 1 and (name in needed or name in names):
            listed = ", ".join(map(repr, names)) or "nothing"
            raise FileError(f"{path} must have one column {name!r}, got {listed}", path=path)
    with reading(path, PARQUET):
        table = pq.read_table(path, columns=[name for name in names if name in _COLUMNS])
        return {name: table[name].to_pylist() for name in table.column_names}, error, own


def _scale_of(path: Path, about: Mapping[str, Any]) -> Scale | None:
    """The scale of a .parquet file of votes; None for a file that another program made, which does not say."""
    if "lookalike" not in about:
        return None
    try:
        return Scale.parse(about["scale"]) if "scale" in about else BINARY
    except (InputError, InputTypeError) as error:
        raise FileError(f"{path} is damaged: {error}", path=path) from error


def _write_csv(path: Path, columns: Mapping[str, np.ndarray], raw: bool, scale: Scale) -> None:
    times = [math.nan if time == "NaT" else f"{time}Z" for time in np.datetime_as_string(columns["time"]).tolist()]
    values = {name: array.tolist() for name, array in columns.items()}
    words = [scale.answers[answer] for answer in values["answer"]]
    write_csv(path, values | {"answer": words, "time": times}, raw=raw)


def _write_parquet(path: Path, columns: Mapping[str, np.ndarray], digest: str, scale: Scale) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {name: pa.array(array) for name, array in columns.items()}
    arrays["time"] = pa.array(columns["time"], pa.timestamp("ms", tz="UTC"))
    named = {} if scale == BINARY else {"scale": str(scale)}
    about = provenance("votes", votes=len(columns["answer"]), digest=digest, **named)
    with writing(path) as file:
        pq.write_table(pa.table(arrays, metadata={"lookalike": json.dumps(about)}), file)
