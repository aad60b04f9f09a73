"""MATLAB's .mat files: by scipy, and those of version 7.3, which are HDF5, by h5py."""

from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import FileError
from lookalike.core.file_errors import reading
from lookalike.core.readers.hdf5 import Hdf5Table, whole_numbers
from lookalike.core.readers.tables import ArraysTable, FileTable, LazyArray, unreadable

FORM = "MATLAB file"
HDF5_MARK = b"\x89HDF\r\n\x1a\n"
NUMERIC = ("double", "single", "logical", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)))

__all__ = ["matlab_table"]


def matlab_table(path: Path) -> FileTable:
    """The variables of a .mat file that are matrices of numbers or text; cell arrays and structs are refused."""
    with path.open("rb") as file:
        start = file.read(1024)
    if HDF5_MARK in (start[:8], start[512:520]):
        return Hdf5Table(path, of_matlab=True)
    from scipy.io import whosmat

    with reading(path, FORM):
        variables = whosmat(path, appendmat=False)
    names = [name for name, _, _ in variables]
    for name in names:
        if names.count(name) > 1:
            raise FileError(f"{path} has the variable {name!r} twice", path=path)
    arrays = {name: _variable(path, name, tuple(shape), kind) for name, shape, kind in variables}
    return ArraysTable(str(path), "variable", arrays, {})


def _variable(path: Path, name: str, shape: tuple[int, ...], kind: str) -> LazyArray:
    """A variable; a row or a column alone is a list."""
    if kind not in (*NUMERIC, "char"):
        what = f"{kind} array" if kind in ("cell", "struct") else kind
        problem = f"it is a {what}: save a full matrix of numbers, or of text by char()"
        return unreadable(shape, problem)
    if kind == "char":
        shape = shape[:1]
    elif len(shape) == 2 and 1 in shape:
        shape = (max(shape),)
    values: list[Any] = []

    def rows(start: int, stop: int) -> np.ndarray:
        if not values:
            values.append(_load(path, name, shape))
        return values[0][start:stop]

    if kind == "char":
        return LazyArray(shape, np.dtype("U1"), rows)
    if len(shape) == 1:
        array = _load(path, name, shape)
        return LazyArray(array.shape, array.dtype, lambda start, stop: array[start:stop])
    return LazyArray(shape, np.dtype({"double": "f8", "single": "f4", "logical": "?"}.get(kind, kind)), rows)


def _load(path: Path, name: str, shape: tuple[int, ...]) -> np.ndarray:
    from scipy.io import loadmat

    with reading(path, FORM):
        array = np.asarray(loadmat(path, appendmat=False, variable_names=[name], mat_dtype=True)[name])
        if array.dtype.kind == "U":
            return np.char.rstrip(array.ravel())
        array = array.reshape(shape)
    return whole_numbers(array) if array.ndim == 1 else array
