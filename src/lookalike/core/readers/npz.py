"""npz and npy files as tables."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import FileError
from lookalike.core.files import check_format, said_by
from lookalike.core.npy import map_npy, npz_headers, opened_npz, read_npy, read_npz
from lookalike.core.readers.tables import Field, check_lengths, field_of

__all__ = ["NpyTable", "NpzTable"]


class NpzTable:
    """The arrays of an npz file, each unpacked as far as it is needed."""

    noun = "array"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        headers = npz_headers(path)
        scalars = read_npz(path, {"about", "n_bits"})
        self.about: dict[str, Any] = said_by(scalars.get("about", "{}"))
        check_format(self.about, path)
        lengths = np.unique(scalars.get("n_bits", ()))
        if self.about.get("n_bits") is None and len(lengths) == 1:
            self.about["n_bits"] = lengths[0]
        self.fields = tuple(
            Field(name, "", (), header) if isinstance(header, str) else field_of(name, header.shape, header.dtype)
            for name, header in headers.items()
            if name not in ("about", "n_bits")
        )

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """These arrays side by side."""
        del text, packed
        with opened_npz(self._path, names) as arrays:
            lengths = {array.name: len(array) for array in arrays}
            n = max(lengths.values(), default=0)
            if rows >= n:
                yield {array.name: array.all() for array in arrays}
                return
            for array in arrays:
                if array.by_column and len(array.shape) > 1:
                    message = f"array {array.name!r} of {self.name} is stored by columns: save it by rows"
                    raise FileError(message, path=self.name)
            check_lengths(lengths, self.name)
            for start in range(0, n, rows):
                yield {array.name: array.rows(min(rows, n - start)) for array in arrays}


class NpyTable:
    """The one matrix of an npy file."""

    noun = ""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        self.about: dict[str, Any] = {}
        matrix = map_npy(path)
        self.fields: tuple[Field, ...] = (Field("", matrix.dtype.kind, matrix.shape[1:]),)
        self._shape = matrix.shape

    def pages(
        self, names: Sequence[str], rows: int, text: Collection[str] = (), packed: Collection[str] = ()
    ) -> Iterator[dict[str, np.ndarray]]:
        """The matrix."""
        del text, packed
        if len(self._shape) != 2:
            wanted = "a matrix, bits (n, n_bits) or embeddings (n, dim)"
            raise FileError(f"{self.name} must hold {wanted}, got shape {self._shape}", path=self.name)
        if rows >= self._shape[0]:
            yield dict.fromkeys(names, read_npy(self._path))
            return
        matrix = map_npy(self._path)
        for start in range(0, len(matrix), rows):
            yield dict.fromkeys(names, np.asarray(matrix[start : start + rows]))
