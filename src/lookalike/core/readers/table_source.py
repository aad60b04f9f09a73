"""Items of a table: its columns under the names of ours, its vectors as codes or embeddings."""

from collections.abc import Iterator

import numpy as np

from lookalike.core.errors import FileError
from lookalike.core.readers.choosing import ChosenColumns, choose_columns
from lookalike.core.readers.source import Columns, Page
from lookalike.core.readers.tables import NUMBERS, FileTable
from lookalike.core.readers.text_vectors import vectors_of_text

TEXT_ROWS = 1 << 12  # rows of vectors in text that are read at a time
SPELT = ("ids", "labels", "coarse_labels", "groups", "by")  # of these, every letter counts

__all__ = ["TableSource"]


class TableSource:
    """The items of a table, an `ItemSource`. Its notes are complete when its pages have been read."""

    def __init__(
        self, table: FileTable, columns: Columns, *, extra: bool = False, labelled_elsewhere: bool = False
    ) -> None:
        """extra: all other columns go along, under their own names. labelled_elsewhere: as `choose_columns` has it."""
        self.name, self.about = table.name, dict(table.about)
        self.chosen: ChosenColumns = choose_columns(table, columns, labelled_elsewhere=labelled_elsewhere)
        self._taken = {name: self.chosen.values[name] for name in self.chosen.guessed}  # columns that nobody named
        self._remarks: list[str] = []
        self._table = table
        self._extra = self._extra_columns() if extra else []
        vector = self.chosen.vector
        self._vectors = None if vector.form == "bytes" and vector.own == "codes" else vector.own  # None: not known yet
        self._width: int | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, in sentences: which columns were taken that nobody named, and what was left out."""
        if not self._taken:
            return tuple(self._remarks)
        (first, name), *others = self._taken.items()
        more = "".join(f", {ours} from {column!r}" for ours, column in others)
        verb = f"{first} are taken from {self._table.noun} {name!r}{more}"
        return (f"{self.name}: {verb}", *self._remarks)

    def without_ids(self) -> None:
        """Say that the ids that nobody named are no ids, since items share them."""
        name = self._taken.pop("ids")
        self._remarks.append(f"{self.name}: {self._table.noun} {name!r} is not taken for ids, since items share one")

    def _extra_columns(self) -> list[str]:
        """Columns that go along; what cannot be read is left out, and said."""
        used = {*self.chosen.vector.names, *self.chosen.values.values(), *self.chosen.values}
        extra = [field for field in self._table.fields if field.name not in used]
        for field in extra:
            if not field.kind:
                self._remarks.append(f"{self.name}: {self._table.noun} {field.name!r} is left out: {field.problem}")
        return [field.name for field in extra if field.kind]

    def pages(self, rows: int) -> Iterator[Page]:
        """The items in the order of the table, at most `rows` at a time."""
        vector, values = self.chosen.vector, self.chosen.values
        names = list(dict.fromkeys((*vector.names, *values.values(), *self._extra)))
        text = {name for ours, name in values.items() if ours in SPELT}
        packed = vector.names if vector.form == "bytes" else ()
        size = min(rows, TEXT_ROWS) if vector.form == "text" else rows
        start = 0
        for raw in self._table.pages(names, size, text, packed):
            page = {ours: raw[name] for ours, name in values.items()} | {name: raw[name] for name in self._extra}
            vectors = self._vectors_of(raw, start)
            yield {self._named(vectors): vectors} | page
            start += len(vectors) if vectors.ndim else 1

    def _vectors_of(self, raw: dict[str, np.ndarray], start: int) -> np.ndarray:
        """The vectors of a page, which begins at this row."""
        vector = self.chosen.vector
        matrix = raw[vector.names[0]]
        if len(vector.names) > 1:
            matrix = np.stack([raw[name] for name in vector.names], axis=1)
        elif matrix.dtype.kind == "U" and vector.form == "text":
            matrix = vectors_of_text(matrix.tolist(), f"{self._table.noun} {vector.title!r} of {self.name}", start)
        if vector.octets and matrix.dtype.kind in "iu":
            matrix = matrix.astype(np.uint8)
        if matrix.ndim == 2:
            if self._width not in (None, matrix.shape[1]):
                raise FileError(
                    f"{self.name} has vectors of different lengths: {self._width} numbers before row {start}, "
                    f"{matrix.shape[1]} from there",
                    path=self.name,
                )
            self._width = matrix.shape[1]
        return matrix

    def _named(self, vectors: np.ndarray) -> str:
        """What pages call the vectors, which is decided and said with the first page."""
        vector = self.chosen.vector
        if self._vectors is not None:
            return self._vectors
        if vector.form == "bytes":
            self._vectors = "packed"
            if self.about.get("n_bits") is None and "n_bits" not in self.chosen.values:
                self.about["n_bits"] = 8 * vectors.shape[1]
        elif vectors.dtype.kind not in NUMBERS or vectors.dtype in (bool, np.uint8) or _are_bits(vectors):
            self._vectors = "codes"  # which says what is wrong if they are no bits, such as packed bytes
        else:
            self._vectors = "embeddings"
        kind = "embeddings" if self._vectors == "embeddings" else "codes"
        if vector.guessed:
            self._taken = {kind: vector.title} | self._taken
        if kind == "embeddings" and vectors.dtype.kind in "iu":
            self._remarks.append(f"{self.name}: whole numbers are taken as embeddings, since they are not all bits")
        return self._vectors


def _are_bits(vectors: np.ndarray) -> bool:
    """Whether all numbers are bits: 0 and 1, or -1 and +1."""
    low, high = vectors.min(initial=0), vectors.max(initial=0)
    return bool(low >= -1 and high <= 1 and np.isin(vectors, (-1, 0, 1)).all())
