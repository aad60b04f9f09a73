"""Reading npy and npz files without trust: a header that promises more than the file holds takes no memory."""

import contextlib
import io
import math
import os
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from lookalike.core.errors import FileError
from lookalike.core.file_errors import reading

NPY, NPZ = "npy file of numbers or text", "npz file of plain arrays"
HEADER = 10_012  # bytes: numpy reads no header that is longer
CHUNK = 1 << 24  # bytes that are unpacked at a time
MAPPED = 1 << 20  # bytes of an array from which on it is mapped
ALIGNED = 64  # bytes: where arrays in an npz file begin, so that they can be used in place
PADDING = 0xD935  # the mark of bytes in a zip file that only fill up, as Android's zipalign writes them

__all__ = ["StoredArray", "map_npy", "map_npz", "npz_headers", "opened_npz", "read_npy", "read_npz", "write_npz"]


class _NoArrayError(Exception):
    """Bytes that are not an array; `reading` turns it into a FileError."""


class StoredArray:
    """An array in a file, described by its header; its rows are read when they are asked for."""

    def __init__(self, file: IO[bytes], path: object, form: str, name: str | None = None) -> None:
        """path, name: the names of the file and of the array in it."""
        self.name, self._file, self._path, self._form = name or "", file, path, form
        with reading(path, form):
            head = file.read(HEADER)
            self.shape, self.by_column, self.dtype, self.start = _header(head)
        if self.dtype.kind in "OV":
            which = "it" if name is None else f"its array {name!r}"
            held = "pickled objects, which can run any code" if self.dtype.hasobject else f"records, {self.dtype}"
            message = f"{path} is not a readable {form}: {which} holds {held}; save numbers or text"
            raise FileError(message, path=path)
        self.n_bytes = math.prod(self.shape) * self.dtype.itemsize
        self._ahead, self._left = head[self.start :], self.n_bytes

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 1

    def rows(self, n: int) -> np.ndarray:
        """The next rows, of an array that is stored by rows."""
        return self._read((n, *self.shape[1:]))

    def all(self) -> np.ndarray:
        """The whole array, if no rows were read before."""
        return self._read(self.shape)

    def _read(self, shape: tuple[int, ...]) -> np.ndarray:
        size = math.prod(shape) * self.dtype.itemsize
        with reading(self._path, self._form, size):
            content = bytearray(self._ahead[:size])
            self._ahead = self._ahead[size:]
            while len(content) < size:  # memory grows with the bytes that are there, not with what the header says
                piece = self._file.read(min(size - len(content), CHUNK))
                if not piece:
                    raise EOFError(self.name)
                content += piece
            self._left -= size
            if not self._left and (self._ahead or self._file.read(1)):
                raise _NoArrayError("more than an array")
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
    """The array of an npy file; its rows are read when they are looked at."""
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


def map_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file; rows of large ones that are not compressed are read when they are looked at.

    They are read once before, to see that they are whole, but stay in no memory that others could not have. All are
    read-only. Files that numpy or earlier versions wrote may hold numbers where none may begin: those are copied.
    """
    import zipfile

    arrays = {}
    with reading(path, NPZ), zipfile.ZipFile(path) as archive, path.open("rb") as file:
        large = {
            entry.filename.removesuffix(".npy"): entry
            for entry in archive.infolist()
            if entry.compress_type == zipfile.ZIP_STORED and entry.file_size >= MAPPED and not entry.flag_bits & 1
        }
        with opened_npz(path) as stored:
            for array in stored:
                if array.name in large and array.dtype.kind in "fiub":
                    arrays[array.name] = _mapped(file, large[array.name], array)
                else:
                    arrays[array.name] = array.all()
                arrays[array.name].flags.writeable = False
    return arrays


def _mapped(file: IO[bytes], entry: Any, array: StoredArray) -> np.ndarray:
    """An array of a zip file in place; raises if it is damaged."""
    if entry.file_size != array.start + array.n_bytes:
        raise _NoArrayError("more or less than an array")
    file.seek(entry.header_offset + 26)  # the lengths of the member's name and of what is said about it
    lengths = np.frombuffer(file.read(4), "<u2")
    first = entry.header_offset + 30 + int(lengths.sum())
    octets = np.memmap(file, np.uint8, "r", first, (entry.file_size,))
    checksum = 0
    for start in range(0, len(octets), CHUNK):
        checksum = zlib.crc32(octets[start : start + CHUNK].data, checksum)
    if checksum != entry.CRC:
        raise _NoArrayError("damaged")
    order: Any = "F" if array.by_column else "C"
    numbers: np.ndarray = np.ndarray(array.shape, array.dtype, octets, array.start, order=order)
    return numbers if numbers.flags.aligned else numbers.copy(order)


def write_npz(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as numpy.savez does, each where it can be used in place (`map_npz`)."""
    import zipfile

    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            before = archive.start_dir + 30 + len(entry.filename.encode()) + 20  # its header, and lengths in 64 bits
            gap = -(before + 4) % ALIGNED
            entry.extra = struct.pack("<HH", PADDING, gap) + bytes(gap)
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


@contextlib.contextmanager
def opened_npz(
    source: Path | bytes, names: Collection[str] | None = None, path: object = None
) -> Iterator[list[StoredArray]]:
    """Open the arrays of an npz file, to read them side by side; arguments as for `read_npz`."""
    path = source if path is None else path
    with contextlib.ExitStack() as opened:
        archive, members = opened.enter_context(_opened_archive(source, path))
        arrays = []
        for name, entry in members.items():
            if names is None or name in names:
                with reading(path, NPZ):
                    member = opened.enter_context(archive.open(entry))
                arrays.append(StoredArray(member, path, NPZ, name))
        yield arrays


def npz_headers(path: Path) -> dict[str, StoredArray | str]:
    """What each array of an npz file is, by its name; of one that cannot be read, the sentence that says why."""
    headers: dict[str, StoredArray | str] = {}
    with _opened_archive(path, path) as (archive, members):
        for name, entry in members.items():
            try:
                with reading(path, NPZ), archive.open(entry) as member:
                    headers[name] = StoredArray(member, path, NPZ, name)
            except FileError as error:
                headers[name] = str(error)
    return headers


@contextlib.contextmanager
def _opened_archive(source: Path | bytes, path: object) -> Iterator[tuple[Any, dict[str, Any]]]:
    """An npz file, and its members by the names of their arrays. path: what it is called."""
    import zipfile

    with contextlib.ExitStack() as opened:
        with reading(path, NPZ):
            file: Any = io.BytesIO(source) if isinstance(source, bytes) else opened.enter_context(source.open("rb"))
            archive = opened.enter_context(zipfile.ZipFile(file))
            named = [(entry.filename.removesuffix(".npy"), entry) for entry in archive.infolist()]
        for name, n in Counter(name for name, _ in named).items():
            if n > 1:
                raise FileError(f"{path} is not a readable {NPZ}: it has the array {name!r} twice", path=path)
        yield archive, dict(named)


def _as_text(array: np.ndarray) -> np.ndarray:
    """The array; raises if it is text and holds a number that is not a character."""
    if array.dtype.kind == "U" and array.dtype.itemsize:
        letters = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if (letters > sys.maxunicode).any() or ((letters >= 0xD800) & (letters < 0xE000)).any():
            raise _NoArrayError("no text")
    return array


def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns come first, type, and the position of the first number."""
    file = io.BytesIO(head)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
        (3, 0): np.lib.format.read_array_header_2_0,  # differs in the names of records alone
    }
    try:
        shape, by_column, dtype = readers[np.lib.format.read_magic(file)](file)
    except (MemoryError, RecursionError) as error:  # Python's parser, of a header of ten thousand brackets
        raise _NoArrayError("no header") from error
    if not all(type(n) is int and n >= 0 for n in shape):
        raise _NoArrayError("no shape")
    if math.prod(max(n, 1) for n in shape) * max(dtype.itemsize, 1) > sys.maxsize:  # also where another length is 0
        raise _NoArrayError("past every memory")
    return shape, by_column, dtype, file.tell()
