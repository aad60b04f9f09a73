"""Tables: the columns of a file, described before they are read, and read a page at a time."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lookalike.core.errors import FileError

NUMBERS = "biuf"

__all__ = [
    "NUMBERS",
    "ArraysTable",
    "Field",
    "FileTable",
    "LazyArray",
    "check_lengths",
    "field_of",
    "of_bfloat16",
    "unreadable",
]


@dataclass(frozen=True)
class Field:
    """A column of a table: its name, and what its values are.

    kind: of its values as numpy calls it, b i u f for numbers, U for text; S for packed bytes; "" for what cannot be
    read, which `problem` says. shape: of one row, () for a value, (n,) for a vector; None is a length not known yet.
    sample: the first text. octets: numbers are of 8 bits, in lists.
    """

    name: str
    kind: str
    shape: tuple[int | None, ...] = ()
    problem: str = ""
    sample: str = ""
    octets: bool = False

    @property
    def is_value(self) -> bool:
        """Whether each row has one number or text; text may be bytes of any length."""
        if self.kind == "S":
            return self.shape == (None,)
        return self.kind in ("b", "i", "u", "f", "U", "M") and self.shape in ((), (1,))

    @property
    def is_matrix(self) -> bool:
        """Whether each row is a vector of numbers, or packed bytes of one length."""
        if self.kind == "S":
            return self.shape != (None,)
        return self.kind in ("b", "i", "u", "f") and len(self.shape) == 1 and self.shape != (1,)


class FileTable(Protocol):
    """A file or something else that has columns. noun: what it calls a column; "" where it is one matrix alone."""

    name: str
    noun: str
    about: dict[str, Any]
    fields: tuple[Field, ...]

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These columns, at most `rows` rows at a time; one page alone where that is all of them.

        text: columns of which every letter counts, such as the zeros of the id 007. packed: columns of bytes that are
        packed codes.
        """
        ...


@dataclass(frozen=True)
class LazyArray:
    """An array of a file that is read when rows of it are asked for."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: Callable[[int, int], np.ndarray]  # from one row up to another
    problem: str = ""  # why it cannot be read


def unreadable(shape: tuple[int, ...], problem: str) -> LazyArray:
    """An array that cannot be read, and why."""
    return LazyArray(shape, np.dtype("V1"), lambda start, stop: np.empty(0), problem)  # noqa: ARG005


class ArraysTable:
    """The arrays of a file, each of which is a column."""

    def __init__(self, name: str, noun: str, arrays: Mapping[str, LazyArray], about: dict[str, Any]) -> None:
        self.name, self.noun, self._arrays = name, noun, dict(arrays)
        self.about = dict(about)
        bits = self._arrays.get("n_bits")
        if bits is not None and not bits.problem and np.prod(bits.shape, dtype=int) == 1:
            self.about.setdefault("n_bits", np.ravel(bits.rows(0, 1))[0])
            del self._arrays["n_bits"]
        self.fields = tuple(
            field_of(key, array.shape, array.dtype, array.problem) for key, array in self._arrays.items()
        )

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These arrays, at most `rows` rows at a time."""
        del text, packed  # arrays have types of their own
        lengths = {name: (*self._arrays[name].shape, 1)[0] for name in names}
        n = max(lengths.values(), default=0)
        if rows >= n:
            yield {name: self._arrays[name].rows(0, length) for name, length in lengths.items()}
            return
        check_lengths(lengths, self.name)
        for start in range(0, n, rows):
            yield {name: self._arrays[name].rows(start, min(start + rows, n)) for name in names}


def check_lengths(lengths: Mapping[str, int], name: str) -> None:
    """Raise if the columns of a file are not equally long."""
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{n} {column}" for column, n in lengths.items())
        raise FileError(f"{name} must have as many of everything, got {listed}", path=name)


def field_of(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], problem: str = "") -> Field:
    """The column that an array is."""
    kind = "U" if dtype.kind == "S" else dtype.kind
    if not problem and kind not in "biufUM":
        problem = f"it holds {dtype}, which is neither numbers nor text"
    if not problem and not shape:
        problem = "it holds one value, not one for each item"
    return Field(name, "" if problem else kind, tuple(shape[1:]), problem)


def of_bfloat16(halves: np.ndarray) -> np.ndarray:
    """Numbers of bfloat16, which are the upper halves of float32, given as uint16.

    >>> of_bfloat16(np.array([0x3F80, 0xC040], np.uint16))
    array([ 1., -3.], dtype=float32)
    """
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)
