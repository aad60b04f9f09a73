"""Writing shards: rows are gathered into files of equal size, and the manifest is written last."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.arrow_arrays import arrow_table
from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes, check_n_bits
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import provenance
from lookalike.shards.gallery import MANIFEST, Shard, Shards, is_manifest, vector_column
from lookalike.shards.storage import Location

PART = re.compile(r"part-\d{5,9}(?:-(\d{1,6}))?\.parquet")  # a shard's file; from the second edition on with its number
MOST_ROWS = 1 << 20  # of a shard, by default
MOST_BYTES = 1 << 26  # of the vectors of a shard, by default

__all__ = ["PART", "Edition", "ShardWriter", "rows_of_a_shard"]


@dataclass(frozen=True)
class Edition:
    """A gallery that is being written beside the one that is there, if any; `finish` replaces that one.

    number: 1 for a new gallery, else one more than the number of the gallery it replaces: names of their shards differ.
    replaced: shards that were there before, of that gallery or of a process that was killed.
    hasher: the fingerprint of the hasher that made the codes, None if it is not known.
    """

    location: Location
    n_bits: int | None
    number: int = 1
    replaced: tuple[str, ...] = ()
    hasher: str | None = None

    @classmethod
    def begin(cls, location: Location, n_bits: int | None, hasher: str | None = None) -> "Edition":
        """Look at what is there; raises if another program's file has the name of a shard or of the manifest."""
        manifest = location.read(MANIFEST) if location.has(MANIFEST) else None
        present = [name for name in location.names() if PART.fullmatch(name)]
        cannot = f"cannot write shards to {location}"
        for name in (MANIFEST, *present):
            if location.local is not None and (location.local / name).is_symlink():
                raise FileExistsError(f"{cannot}: {name} is a link to somewhere else; write to a folder of its own")
        if manifest is not None and not is_manifest(manifest):
            raise FileExistsError(f"{cannot}: its {MANIFEST} is another program's; write elsewhere")
        named = _named_in(manifest)
        for name in present:
            if name not in named and not _is_shard(location.read(name)):
                raise FileExistsError(f"{cannot}: {name} is another's file; write elsewhere")
        numbers = [int(match[1] or 1) for match in map(PART.fullmatch, named or present) if match is not None]
        number = 1 if manifest is None else 1 + max(numbers, default=1)
        return cls(location, n_bits, number, tuple(present), hasher)

    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> tuple[Shard, dict[str, str]]:
        """Write one shard; returns its entry for the manifest, and the types of its columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = arrow_table(arrays, provenance("shard", n_bits=self.n_bits))
        if not len(table):
            raise InputError("a shard has at least one row")
        vectors = vector_column(self.n_bits)
        others = [name for name in arrays if name != vectors]
        sink = pa.BufferOutputStream()
        compression = {name: "ZSTD" if name in others else "NONE" for name in arrays}  # vectors hardly get smaller
        pq.write_table(table, sink, row_group_size=max(1, len(table)), compression=compression, use_dictionary=others)
        content = sink.getvalue().to_pybytes()
        file = f"part-{number:05}{f'-{self.number}' if self.number > 1 else ''}.parquet"
        self.location.write(file, content)
        shard = Shard(file, len(table), len(content), hashlib.sha256(content).hexdigest())
        return shard, {field.name: str(field.type) for field in table.schema}

    def finish(self, shards: list[Shard], columns: Mapping[str, str]) -> Shards:
        """Write the manifest, once all shards are there; then remove the shards of the gallery before."""
        items = sum(shard.rows for shard in shards)
        entries = [asdict(shard) for shard in shards]
        manifest = provenance("shards", items=items, n_bits=self.n_bits, columns=dict(columns), shards=entries)
        if self.hasher is not None:
            manifest["hasher"] = self.hasher
        gallery = Shards(self.location, manifest)
        gallery.check()
        self.location.write(MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        for name in set(self.replaced) - {shard.file for shard in shards}:
            self.location.remove(name)
        return gallery

    def discard(self, shards: Iterable[Shard]) -> None:
        """Remove shards that were written, except those that the manifest has by now."""
        kept = _named_in(self.location.read(MANIFEST)) if self.location.has(MANIFEST) else set()
        for shard in shards:
            if shard.file not in kept:
                self.location.remove(shard.file)


def _named_in(manifest: bytes | None) -> set[str]:
    """The shards that a manifest names; none if it is damaged."""
    try:
        return {shard["file"] for shard in json.loads(manifest or b"{}")["shards"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return set()


def _is_shard(content: bytes) -> bool:
    """Whether a file was written as a shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(pa.BufferReader(content)).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return b'"lookalike": "shard"' in metadata.get(b"lookalike", b"")


class ShardWriter:
    """Writes rows to shards of equal size as they come, and the manifest when all are there.

    A gallery that is there already stays until then, and is replaced at once.
    """

    def __init__(
        self, where: str | Path, *, n_bits: int | None = None, rows: int | None = None, hasher: str | None = None
    ) -> None:
        """n_bits: of codes; None for embeddings. rows: of a shard, by default a million, or fewer long ones.

        hasher: the fingerprint of the hasher that made the codes, if it is known.
        """
        if n_bits is not None:
            check_n_bits(n_bits)
        self.location, self.n_bits, self.hasher = Location.of(where), n_bits, hasher
        self.shards: list[Shard] = []
        self._rows = None if rows is None else whole_number("rows", rows)
        self._edition: Edition | None = None
        self._columns: dict[str, str] | None = None
        self._waiting: list[dict[str, np.ndarray]] = []
        self._n_waiting = 0

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        try:
            if kind is None:
                self.close()
        except BaseException:
            self._discard()
            raise
        if kind is not None:
            self._discard()

    def _discard(self) -> None:
        if self._edition is not None:
            self._edition.discard(self.shards)

    def add(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take rows: `codes` as packed bytes or `embeddings`, and other columns, with the same names in every call."""
        arrays = self._checked(arrays)
        vectors = arrays[vector_column(self.n_bits)]
        if self._rows is None:
            self._rows = rows_of_a_shard(vectors)
        for start in range(0, len(vectors), self._rows):
            # copies: the caller may fill its arrays again while these wait
            piece = {name: array[start : start + self._rows].copy() for name, array in arrays.items()}
            self._waiting.append(piece)
            self._n_waiting += min(self._rows, len(vectors) - start)
            while self._n_waiting >= self._rows:
                self._write(self._rows)

    def _checked(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The rows, if they can be written and read again and have the same types as those before; else raises."""
        vectors = vector_column(self.n_bits)
        if len({len(array) for array in arrays.values()}) != 1 or vectors not in arrays:
            raise InputError(f"rows of shards must have {vectors}, and as many values of everything else")
        columns = {name: _plain_column(name, array) for name, array in arrays.items()}
        if self.n_bits is None:
            _check_embeddings(columns["embeddings"])
        else:
            Codes.from_bytes(columns["codes"], n_bits=self.n_bits)  # raises
        types = {name: _column_type(name, array) for name, array in columns.items()}
        if self._columns is None:
            self._columns = types
        _check_types(self._columns, types)
        return columns

    def _write(self, rows: int) -> None:
        """Write a shard of the first rows that wait."""
        pieces, n = [], 0
        while n < rows:
            piece = self._waiting.pop(0)
            size = len(next(iter(piece.values())))
            if n + size > rows:
                self._waiting.insert(0, {name: array[rows - n :] for name, array in piece.items()})
                piece = {name: array[: rows - n] for name, array in piece.items()}
                size = rows - n
            pieces.append(piece)
            n += size
        self._n_waiting -= rows
        joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        self.put(len(self.shards), joined)

    def put(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write these rows as the shard of this number, which must be the next."""
        arrays = self._checked(arrays)
        if self._edition is None:
            self._edition = Edition.begin(self.location, self.n_bits, self.hasher)
        self.shards.append(self._edition.write(number, arrays)[0])

    def close(self) -> Shards:
        """Write the rows that are left, and the manifest."""
        if self._n_waiting:
            self._write(self._n_waiting)
        if not self.shards:
            raise InputError("there is nothing to write: a gallery has at least one item")
        assert self._columns is not None
        assert self._edition is not None
        return self._edition.finish(self.shards, self._columns)


def _plain_column(name: str, array: np.ndarray) -> np.ndarray:
    """A column as an array of numbers or strings; Python's strings become numpy's."""
    if not isinstance(array, np.ndarray):
        raise InputTypeError(f"column {name!r} must be an array of numpy, got {type(array).__name__}")
    if array.dtype.kind == "O" and not all(isinstance(value, str) for value in array.flat):
        raise InputError(f"column {name!r} must be all numbers or all strings, none empty")
    return array.astype(str) if array.dtype.kind == "O" else array


def _check_embeddings(embeddings: np.ndarray) -> None:
    if embeddings.ndim != 2 or embeddings.dtype not in (np.float32, np.float64) or not embeddings.shape[1]:
        raise InputError(
            "embeddings must be a matrix of float32 or float64 with at least a column, got "
            f"{embeddings.shape} of {embeddings.dtype}"
        )


def _column_type(name: str, array: np.ndarray) -> str:
    """The type of a column, as pyarrow writes it; raises for one that shards cannot hold."""
    if array.ndim not in (1, 2) or array.dtype.kind not in "biufUM" or 0 in array.shape[1:]:
        raise InputError(f"column {name!r} must be numbers or strings, a row or a matrix, got {array.dtype}")
    return str(arrow_table({name: array[:1]}, {}).schema.field(0).type)


def _check_types(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    if before.keys() != now.keys():
        raise InputError("all rows of shards must have the same columns")
    for name, kind in now.items():
        if kind != before[name]:
            raise InputError(
                f"column {name!r} changes on the way, from {before[name]} to {kind}: it must be of one type in all rows"
            )


def rows_of_a_shard(vectors: np.ndarray) -> int:
    """How many of these rows a shard has by default."""
    width = int(np.prod(vectors.shape[1:])) * vectors.dtype.itemsize
    return max(1, min(MOST_ROWS, MOST_BYTES // max(1, width)))
