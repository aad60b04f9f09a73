"""HDF5 files, and MATLAB's of version 7.3, which are HDF5: by h5py, and nothing that is outside of the file."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import missing_package
from lookalike.core.file_errors import reading
from lookalike.core.readers.tables import ArraysTable, Field, LazyArray, unreadable

FORM = "HDF5 file"
DEPTH = 16  # of groups in groups
MOST = 10_000  # datasets that are looked at
DENSE = 1 << 12  # bytes that a byte of a file can stand for, packed or as a value that fills what was never written

__all__ = ["Hdf5Table"]


class Hdf5Table:
    """The datasets of an HDF5 file, by their paths. transposed: as MATLAB writes them."""

    def __init__(self, path: Path, *, of_matlab: bool = False) -> None:
        self.name, self._path, self._of_matlab = str(path), path, of_matlab
        self.noun = "variable" if of_matlab else "dataset"
        with self._opened() as table:
            self.fields: tuple[Field, ...] = table.fields
            self.about: dict[str, Any] = table.about

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These datasets, of which no more is in memory than a page."""
        with self._opened() as table:
            pages = table.pages(names, rows, text, packed)
            while True:
                with reading(self.name, FORM):
                    page = next(pages, None)
                if page is None:
                    return
                yield page

    @contextlib.contextmanager
    def _opened(self) -> Iterator[ArraysTable]:
        try:
            import h5py
        except ModuleNotFoundError as error:
            raise missing_package(f"reading {self.name}", "h5py", "files") from error
        with contextlib.ExitStack() as opened:
            with reading(self.name, FORM):
                file = opened.enter_context(h5py.File(self._path, "r"))
                arrays = {
                    name: self._array(dataset)
                    for name, dataset in _datasets(h5py, file)
                    if not (self._of_matlab and name.startswith("#"))
                }
                table = ArraysTable(self.name, self.noun, arrays, {})
            yield table

    def _array(self, dataset: Any) -> LazyArray:
        """A dataset as an array; one that says why it cannot be read where it cannot."""
        import h5py

        problem, kind = "", dataset.dtype
        text = h5py.check_string_dtype(kind)
        matlab_class = dataset.attrs.get("MATLAB_class", b"") if self._of_matlab else b""
        if matlab_class in (b"cell", b"struct", b"char") or "MATLAB_sparse" in dataset.attrs:
            what = "sparse matrix" if "MATLAB_sparse" in dataset.attrs else f"{matlab_class.decode()} array"
            problem = f"it is a {what}: save a full matrix of numbers"
        elif kind.kind == "O" and text is None:
            problem = f"it holds {'references' if h5py.check_ref_dtype(kind) else 'lists of different lengths'}"
        elif dataset.external or dataset.is_virtual:
            problem = "its numbers are in other files"
        elif dataset.size is not None and dataset.size * kind.itemsize > DENSE * (
            dataset.id.get_storage_size() + DENSE
        ):
            problem = "it says that it holds far more than the file does"
        shape = tuple(dataset.shape or ())
        if problem:
            return unreadable(shape, problem)
        if text is not None:
            return LazyArray(shape, np.dtype("U1"), lambda start, stop: _texts(dataset, start, stop))
        if self._of_matlab:
            return _of_matlab(dataset, shape, kind, logical=matlab_class == b"logical")
        return LazyArray(shape, kind, lambda start, stop: dataset[start:stop] if shape else dataset[()])


def _datasets(h5py: Any, group: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The datasets within a group and the groups in it, by their paths; links out of the file are not followed."""
    for name in list(group)[:MOST]:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            continue
        inner = group[name]
        if isinstance(inner, h5py.Dataset):
            yield name, inner
        elif isinstance(inner, h5py.Group) and depth < DEPTH:
            yield from ((f"{name}/{path}", dataset) for path, dataset in _datasets(h5py, inner, depth + 1))


def _texts(dataset: Any, start: int, stop: int) -> np.ndarray:
    values = dataset.asstr(errors="replace")
    return np.asarray(values[start:stop] if dataset.shape else values[()]).astype(str)


def _of_matlab(dataset: Any, shape: tuple[int, ...], kind: np.dtype[Any], *, logical: bool) -> LazyArray:
    """A matrix of MATLAB, whose file has it by columns; a row or a column alone is a list."""
    kind = np.dtype(bool) if logical else kind
    if len(shape) == 2 and 1 in shape:
        values = whole_numbers(dataset[()].ravel()).astype(bool if logical else None)
        return LazyArray(values.shape, values.dtype, lambda start, stop: values[start:stop])
    turned = shape[::-1]
    return LazyArray(turned, kind, lambda start, stop: dataset[..., start:stop].T.astype(kind, copy=False))


def whole_numbers(values: np.ndarray) -> np.ndarray:
    """Values as whole numbers where all are, since MATLAB writes labels as floats."""
    if values.dtype.kind == "f" and len(values) and np.isfinite(values).all() and (abs(values) < 2**53).all():
        whole = values.astype(np.int64)
        return whole if (whole == values).all() else values
    return values
