"""Files of faiss: the vectors of an index that holds them as they were added, read from its bytes a piece at a time.

faiss's own reader trusts a file: it takes as much memory as a damaged count asks for, and for some indexes it ends the
process. Here every count is compared with the bytes that are left, before anything is read or made.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import FileError
from lookalike.core.readers.tables import Field

FLAT = ("IxF2", "IxFI", "IxFl", "IBxF")
GRAPH = ("IHNf", "IBHf")
LISTS = ("IwFl", "IBwF")
NAMED = ("IxMp", "IxM2", "IBMp", "IBM2")
LOSSY = {
    "a product quantizer": ("IxPq", "IPfs", "IwPQ", "IwPf", "IwQR", "IHNp", "INSp"),
    "a scalar quantizer": ("IxSQ", "IwSq", "IHNs", "INSs"),
    "an additive quantizer": ("IxRq", "IxLS", "IxPR", "IxPL", "IwRQ", "IwLS", "IwPR", "IwPL"),
    "a quantizer of two levels": ("Ix2L", "IHN2"),
    "a lattice quantizer": ("IxLa",),
    "RaBitQ codes": ("Ixrq", "Ixrr", "Irfn", "Iwrq", "Iwrr", "Iwrn"),
    "binary hashes": ("IxHe", "IwSh"),
    "transformed vectors (PCA, OPQ, a rotation or a normalisation)": ("IxPT",),
}
LARGEST = 1 << 27  # bytes that are read at a time, where a row is not longer
INSTEAD = "write a flat index of the vectors themselves, by faiss.IndexFlat or faiss.IndexBinaryFlat"

__all__ = ["FaissTable", "faiss_vectors"]


class FaissTable:
    """An index of faiss that holds its vectors as they were added: `packed` or `embeddings`, and `ids`."""

    noun = "column"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        stored = _opened(path)[1]
        self.about: dict[str, Any] = {} if stored.n_bits is None else {"n_bits": stored.n_bits}
        vectors = Field("embeddings", "f", (stored.width // 4,)) if stored.n_bits is None else None
        self.fields = (
            vectors or Field("packed", "u", (stored.width,)),
            *([] if stored.ids is None else [Field("ids", "i")]),
        )

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """The vectors."""
        del text, packed
        for columns, _ in faiss_vectors(self._path, rows):
            yield {name: columns[name] for name in names}


def faiss_vectors(path: Path, rows: int) -> Iterator[tuple[dict[str, np.ndarray], int | None]]:
    """The vectors in an index of faiss, at most `rows` at a time: `packed` and their bits, or `embeddings` and None.

    The index is flat, HNSW or IVF of flat vectors, or one of these with ids of its own (IDMap), of floats or binary.
    Vectors of an IVF index come in the order of their ids. Ids that are not the positions are given as `ids`.
    """
    file, stored = _opened(path)
    step = max(1, min(rows, LARGEST // stored.width))
    for start in range(0, stored.n, step):
        stop = min(start + step, stored.n)
        vectors = stored.rows(file.content, start, stop)
        columns = {"embeddings": vectors.view("<f4")} if stored.n_bits is None else {"packed": vectors}
        if stored.ids is not None:
            columns["ids"] = stored.ids[start:stop].astype(np.int64)
        yield columns, stored.n_bits


def _opened(path: Path) -> "tuple[_Bytes, _Vectors]":
    """The file of an index, and where its vectors are."""
    file = _Bytes(path)
    stored = _read_index(file, (*FLAT, *GRAPH, *LISTS, *NAMED))
    file.check(file.at == len(file.content))
    return file, stored


class _Bytes:
    """A file that is read from its start, never beyond its end."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        self.content = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)

    def check(self, fits: bool) -> None:
        """Raise if the file contradicts itself."""
        if not fits:
            message = f"{self.path} is not a readable index of faiss: it is damaged or something else"
            raise FileError(message, path=self.path)

    def take(self, size: int) -> np.ndarray:
        """The next bytes, not copied."""
        self.check(size <= len(self.content) - self.at)
        self.at += size
        return self.content[self.at - size : self.at]

    def numbers(self, form: str) -> tuple[Any, ...]:
        """The next numbers, in a form of `struct`."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)).tobytes())

    def letters(self) -> str:
        """The four letters that name the kind of what follows."""
        return self.take(4).tobytes().decode("latin-1")

    def array(self, dtype: str) -> np.ndarray:
        """The next array, which has its length before it, not copied."""
        (n,) = self.numbers("Q")
        return self.take(n * np.dtype(dtype).itemsize).view(dtype)


@dataclass(frozen=True)
class _Vectors:
    """The positions of an index's vectors within the file."""

    n: int
    width: int  # bytes of a vector
    n_bits: int | None  # None: the numbers are float32
    start: int = 0  # of the first vector; the others follow it
    starts: np.ndarray | None = None  # of each vector, where they are in lists
    ids: np.ndarray | None = None  # None: positions

    def rows(self, content: np.ndarray, start: int, stop: int) -> np.ndarray:
        """The bytes of some vectors, (stop - start, width)."""
        if self.starts is None:
            block = content[self.start + start * self.width : self.start + stop * self.width]
            return np.array(block).reshape(-1, self.width)
        out = np.empty((stop - start, self.width), np.uint8)
        for row, first in enumerate(self.starts[start:stop].tolist()):
            out[row] = content[first : first + self.width]
        return out


def _read_index(file: _Bytes, kinds: tuple[str, ...]) -> _Vectors:
    """The next index, which must be of one of these kinds."""
    kind = file.letters()
    if kind not in kinds:
        file.check(kind[0] == "I" and kind.isascii() and kind.isalnum())
        for what, lossy in LOSSY.items():
            if kind in lossy:
                raise FileError(
                    f"{file.path} holds {what} (kind {kind}), not the vectors that were added to it: {INSTEAD}",
                    path=file.path,
                )
        raise FileError(
            f"{file.path} has an index of the kind {kind}, which cannot be read; flat ones, HNSW and IVF of flat "
            f"vectors, their binary forms and IDMap around them can: {INSTEAD}",
            path=file.path,
        )
    head = _read_head(file, is_binary=kind.startswith("IB"))
    if kind in FLAT:
        numbers = file.array("u1" if head.n_bits is not None else "<f4")
        file.check(numbers.nbytes == head.n * head.width)
        return replace(head, start=file.at - numbers.nbytes)
    if kind in GRAPH:
        for dtype in ("<f8", "<i4", "<i4", "<u8", "<i4"):  # chance and room of each level; level, place, neighbours
            file.array(dtype)
        file.numbers("5i")  # where a search starts, levels, efforts
        return _read_part(file, head, FLAT)
    if kind in LISTS:
        return _read_lists(file, head)
    inner = _read_part(file, head, (*FLAT, *GRAPH, *LISTS))
    ids = file.array("<i8")
    file.check(inner.ids is None and len(ids) == inner.n)
    return replace(inner, ids=ids)


def _read_head(file: _Bytes, is_binary: bool) -> _Vectors:
    """The start of every index: its dimension, how many vectors it has, whether it is trained, its metric."""
    if is_binary:
        n_bits, width, n, _, _ = file.numbers("iiq?i")
        file.check(n_bits >= 8 and n_bits == 8 * width and n >= 0)
        return _Vectors(n, width, n_bits)
    dimension, n, _, _, _, metric = file.numbers("iqqq?i")
    if metric > 1:
        file.numbers("f")  # the metric's parameter
    file.check(dimension >= 1 and n >= 0)
    return _Vectors(n, 4 * dimension, None)


def _read_part(file: _Bytes, head: _Vectors, kinds: tuple[str, ...]) -> _Vectors:
    """The index within an index, which has as many vectors of the same form."""
    inner = _read_index(file, kinds)
    file.check((inner.n, inner.width, inner.n_bits) == (head.n, head.width, head.n_bits))
    return inner


def _read_lists(file: _Bytes, head: _Vectors) -> _Vectors:
    """The rest of an IVF index: its lists' centres, and the vectors of each list with their ids."""
    n_lists, _ = file.numbers("QQ")
    centres = _read_index(file, (*FLAT, *GRAPH))
    file.check((centres.n, centres.width, centres.n_bits) == (n_lists, head.width, head.n_bits))
    (places,) = file.numbers("b")
    file.array("<i8")
    if places == 2:  # in a table
        file.array("V16")
    file.check(file.letters() == "ilar" and file.numbers("QQ") == (n_lists, head.width))
    form, sizes = file.letters(), file.array("<u8")  # a size for each list, or pairs of a list and its size
    file.check((form == "full" and len(sizes) == n_lists) or (form == "sprs" and len(sizes) % 2 == 0))
    filled = [size for size in (sizes if form == "full" else sizes[1::2]).tolist() if size]
    file.check(sum(filled) == head.n and head.n * (head.width + 8) <= len(file.content) - file.at)
    starts, ids, done = np.empty(head.n, np.int64), np.empty(head.n, np.int64), 0
    for size in filled:
        block = slice(done, done + size)
        starts[block] = np.arange(size) * head.width + file.at
        file.take(size * head.width)
        ids[block] = file.take(8 * size).view("<i8")
        done += size
    order = np.argsort(ids, kind="stable")
    starts, ids = starts[order], ids[order]
    return replace(head, starts=starts, ids=None if np.array_equal(ids, np.arange(head.n)) else ids)
