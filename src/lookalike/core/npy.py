"""Arrays of npy and npz files, read without trust: no memory is taken for what a header says and a file has not."""

import contextlib
import io
import math
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from lookalike.core.file_errors import ContentError, reading

NPY, NPZ = "npy file of numbers or text", "npz file of plain arrays"
HEADER = 10_012  # bytes: numpy reads no header that is longer
CHUNK = 1 << 24  # bytes that are unpacked at a time

__all__ = ["StoredArray", "map_npy", "opened_npz", "read_npy", "read_npz"]


class StoredArray:
    """An array in a file, as its header has it; its rows are read when they are asked for."""

    def __init__(self, file: IO[bytes], path: object, form: str, name: str | None = None) -> None:
        """path, name: what the file is called, and the array in it."""
        self.name, self._file, self._path, self._form = name or "", file, path, form
        with reading(path, form):
            head = file.read(HEADER)
            self.shape, self.by_column, self.dtype, self.start = _header(head)
        if self.dtype.kind in "OV":
            which = "it" if name is None else f"its array {name!r}"
            held = "pickled objects, which can run any code" if self.dtype.hasobject else f"records, {self.dtype}"
            raise ContentError(f"{path} is not a readable {form}: {which} holds {held}; save numbers or text")
        self.n_bytes = math.prod(self.shape) * self.dtype.itemsize
        self._ahead, self._left = head[self.start :], self.n_bytes

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 1

    def rows(self, n: int) -> np.ndarray:
        """The next rows, of an array that is stored by rows."""
        return self._taken((n, *self.shape[1:]))

    def all(self) -> np.ndarray:
        """Everything, where nothing was taken yet."""
        return self._taken(self.shape)

    def _taken(self, shape: tuple[int, ...]) -> np.ndarray:
        size = math.prod(shape) * self.dtype.itemsize
        with reading(self._path, self._form, size):
            content = bytearray(self._ahead[:size])
            self._ahead = self._ahead[size:]
            while len(content) < size:  # grows with what is there, not with what was said
                piece = self._file.read(min(size - len(content), CHUNK))
                if not piece:
                    raise EOFError(self.name)
                content += piece
            self._left -= size
            if not self._left and (self._ahead or self._file.read(1)):
                raise ValueError("more than an array")
            return _as_text(np.ndarray(shape, self.dtype, content, order="F" if self.by_column else "C"))


def read_npy(path: Path) -> np.ndarray:
    """The array of an npy file."""
    with _opened_npy(path) as (file, array), reading(path, NPY, array.n_bytes):
        order: Any = "F" if array.by_column else "C"
        if not array.n_bytes:
            return np.empty(array.shape, array.dtype, order)
        file.seek(array.start)
        flat = _as_text(np.fromfile(file, array.dtype, math.prod(array.shape)))
        return flat.reshape(array.shape, order=order)


def map_npy(path: Path) -> np.ndarray:
    """The same, whose rows are read when they are looked at."""
    with _opened_npy(path) as (file, array), reading(path, NPY, array.n_bytes):
        order: Any = "F" if array.by_column else "C"
        if not array.n_bytes:
            return np.empty(array.shape, array.dtype, order)
        return np.memmap(file, array.dtype, "r", array.start, array.shape, order)


@contextlib.contextmanager
def _opened_npy(path: Path) -> Iterator[tuple[IO[bytes], StoredArray]]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with path.open("rb") as file:
        array = StoredArray(file, path, NPY)
        with reading(path, NPY):
            if os.fstat(file.fileno()).st_size < array.start + array.n_bytes:
                raise EOFError
        yield file, array


def read_npz(source: Path | bytes, names: Collection[str] | None = None, path: object = None) -> dict[str, np.ndarray]:
    """The arrays (of these names only) of an npz file, or of its bytes. path: what it is called, if it is no file."""
    with opened_npz(source, names, path) as arrays:
        return {array.name: array.all() for array in arrays}


@contextlib.contextmanager
def opened_npz(
    source: Path | bytes, names: Collection[str] | None = None, path: object = None
) -> Iterator[list[StoredArray]]:
    """The same, to be read side by side."""
    import zipfile

    path = source if path is None else path
    with contextlib.ExitStack() as opened:
        with reading(path, NPZ):
            file: Any = io.BytesIO(source) if isinstance(source, bytes) else opened.enter_context(source.open("rb"))
            archive = opened.enter_context(zipfile.ZipFile(file))
            members = {entry: entry.filename.removesuffix(".npy") for entry in archive.infolist()}
        wanted = [entry for entry, name in members.items() if names is None or name in names]
        for name, n in Counter(members.values()).items():
            if n > 1:
                raise ContentError(f"{path} is not a readable {NPZ}: it has the array {name!r} twice")
        arrays = []
        for entry in wanted:
            with reading(path, NPZ):
                member = opened.enter_context(archive.open(entry))
            arrays.append(StoredArray(member, path, NPZ, members[entry]))
        yield arrays


def _as_text(array: np.ndarray) -> np.ndarray:
    """The array; raises where it is text with a number in it that is no letter's."""
    if array.dtype.kind == "U" and array.dtype.itemsize:
        letters = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if (letters > sys.maxunicode).any() or ((letters >= 0xD800) & (letters < 0xE000)).any():
            raise ValueError("no text")
    return array


def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns come first, type, and where the numbers begin."""
    file = io.BytesIO(head)
    known = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
        (3, 0): np.lib.format.read_array_header_2_0,  # differs in the names of records alone
    }
    try:
        shape, by_column, dtype = known[np.lib.format.read_magic(file)](file)
    except (MemoryError, RecursionError) as error:  # Python's parser, of a header of ten thousand brackets
        raise ValueError("no header") from error
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("no shape")
    if math.prod(max(n, 1) for n in shape) * max(dtype.itemsize, 1) > sys.maxsize:  # also where another length is 0
        raise ValueError("past every memory")
    return shape, by_column, dtype, file.tell()
