"""safetensors files: a header in JSON that says where each tensor lies, then the numbers."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import FileError
from lookalike.core.file_errors import reading
from lookalike.core.files import read_json
from lookalike.core.readers.tables import ArraysTable, LazyArray, of_bfloat16, unreadable

TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "BOOL": "?",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
}
HEADER = 100_000_000  # bytes: the longest header that the format allows
FORM = "safetensors file"

__all__ = ["safetensors_table"]


def safetensors_table(path: Path) -> ArraysTable:
    """The tensors of a safetensors file, of which only the rows that are asked for are in memory."""
    with reading(path, FORM):
        content = np.memmap(path, np.uint8, "r")  # refuses an empty file
        if len(content) < 8:
            raise EOFError
        size = int(content[:8].view("<u8")[0])
        if size > min(HEADER, len(content) - 8):
            raise EOFError
        header = read_json(content[8 : 8 + size].tobytes(), path)
        header.pop("__metadata__", None)
        arrays = {name: _tensor(content[8 + size :], facts) for name, facts in header.items()}
    if not arrays:
        raise FileError(f"{path} holds no tensors", path=path)
    return ArraysTable(str(path), "tensor", arrays, {})


def _tensor(content: np.ndarray, facts: dict[str, Any]) -> LazyArray:
    """A tensor that lies in the bytes behind the header; raises where it does not fit them."""
    shape, (start, stop) = tuple(facts["shape"]), facts["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, start, stop)) or math.prod(shape) > sys.maxsize:
        raise ValueError(shape)
    name = facts["dtype"]
    if name not in TYPES:
        return unreadable(shape, f"it is a tensor of {name}, which numpy does not have")
    kind = np.dtype(TYPES[name])
    if stop > len(content) or stop - start != math.prod(shape) * kind.itemsize:
        raise EOFError(name)
    numbers: np.ndarray = np.ndarray(shape, kind, content, start) if start < stop else np.empty(shape, kind)

    def rows(first: int, last: int) -> np.ndarray:
        part = np.array(numbers[first:last] if shape else numbers)
        return of_bfloat16(part) if name == "BF16" else part

    return LazyArray(shape, np.dtype(np.float32) if name == "BF16" else kind, rows)
