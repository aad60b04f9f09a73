"""Shards: a gallery as a folder of Parquet files and a manifest, which is read one file at a time."""

import functools
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import MAX_BITS, Codes, check_n_bits
from lookalike.core.column import Column
from lookalike.core.files import arrow_table, check_format, digest, provenance, read_json, read_table
from lookalike.shards.storage import Location

MANIFEST = "manifest.json"
PART = re.compile(r"part-\d{5,9}(?:-(\d{1,6}))?\.parquet")  # a shard's file, from the second edition on with its number
MOST_ROWS = 1 << 20  # of a shard, unless told
MOST_BYTES = 1 << 26  # of the vectors of a shard, unless told

__all__ = [
    "MANIFEST",
    "Edition",
    "Shard",
    "ShardPart",
    "ShardWriter",
    "Shards",
    "is_manifest",
    "is_sharded",
    "rows_of_a_shard",
]


@dataclass(frozen=True)
class Shard:
    """A file of a gallery, as the manifest has it."""

    file: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ShardPart:
    """A part of a gallery in memory: which one it is, where it starts, its vectors, and values by name."""

    number: int
    start: int
    vectors: Codes | np.ndarray
    values: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.vectors)


class Shards:
    """A gallery in shards, opened by `Shards.open`; it stands where codes or embeddings do, and is read in parts.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with ShardWriter(folder, n_bits=2, rows=2) as writer:
    ...     writer.add({"codes": Codes.pack([[0, 0], [0, 1], [1, 1]]).to_bytes(), "labels": np.array([7, 7, 8])})
    >>> gallery = Shards.open(folder)
    >>> gallery
    Shards(3 codes of 2 bits in 2 shards, with labels)
    >>> gallery["labels"]
    Column('labels')
    """

    def __init__(self, place: Location, manifest: Mapping[str, Any]) -> None:
        self.place = place
        try:
            self.shards = tuple(Shard(**shard) for shard in manifest["shards"])
            self.n_bits: int | None = manifest["n_bits"]
            self.columns: dict[str, str] = dict(manifest["columns"])  # their types, as pyarrow writes them
            n_items = int(manifest["items"])
            self._check_manifest()
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{place}/{MANIFEST} is damaged: it does not say what the shards are") from error
        self.starts = np.cumsum([0, *(shard.rows for shard in self.shards)])
        if self.starts[-1] != n_items:
            raise ValueError(
                f"{place}/{MANIFEST} is damaged: {n_items:,} items, but its shards have {self.starts[-1]:,}"
            )
        if len({shard.file for shard in self.shards}) < len(self.shards):
            raise ValueError(f"{place}/{MANIFEST} is damaged: a file is there twice")
        self.client: Any = None

    def _check_manifest(self) -> None:
        """Raise where it is not what could have been written."""
        if self.n_bits is not None and (type(self.n_bits) is not int or not 1 <= self.n_bits <= MAX_BITS):
            raise ValueError(f"codes of {self.n_bits!r} bits")
        if not self.shards or self.vectors not in self.columns:
            raise ValueError("nothing to search")
        for shard in self.shards:
            sizes = (shard.rows, shard.bytes)
            if not all(type(size) is int for size in sizes) or shard.rows < 1 or type(shard.sha256) is not str:
                raise ValueError(f"a shard of {sizes}")
            if Path(shard.file).name != shard.file:  # never outside its folder
                raise ValueError(f"a shard {shard.file!r}")

    @classmethod
    def open(cls, where: str | Path) -> "Shards":
        """Open the gallery in a folder, or at an address such as s3://bucket/gallery."""
        place = Location.of(where)
        try:
            content = place.read(MANIFEST)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(f"there is no {MANIFEST} in {place}: lookalike shard makes one") from None
        manifest = read_json(content, f"{place}/{MANIFEST}")
        if not isinstance(manifest, dict) or manifest.get("lookalike") != "shards":
            raise ValueError(f"{place}/{MANIFEST} is not of a gallery in shards")
        check_format(manifest, f"{place}/{MANIFEST}")
        return cls(place, manifest)

    def on(self, client: Any) -> "Shards":
        """The same gallery, read and counted by the workers of a Dask client."""
        other = Shards(self.place, self.manifest)
        other.client = client
        return other

    @property
    def manifest(self) -> dict[str, Any]:
        """What is written beside the shards."""
        return provenance(
            "shards",
            items=len(self),
            n_bits=self.n_bits,
            columns=self.columns,
            shards=[asdict(shard) for shard in self.shards],
        )

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __repr__(self) -> str:
        beside = [name for name in self.columns if name not in ("codes", "embeddings")]
        what = f"codes of {self.n_bits} bits" if self.n_bits else f"embeddings, {self.columns['embeddings']},"
        return f"Shards({len(self):,} {what} in {len(self.shards)} shards{', with ' * bool(beside)}{', '.join(beside)})"

    def __getitem__(self, name: str) -> Column:
        """The values of a column, to make relevance or groups of: each shard brings its own."""
        if name not in self.columns:
            raise KeyError(f"{self.place} has no column {name!r}, only {', '.join(self.columns)}")
        return Column(name)

    @functools.cached_property
    def digest(self) -> str:
        """A fingerprint of everything in it."""
        return digest(np.array([self.n_bits or 0]), np.array([shard.sha256 for shard in self.shards], str))

    @property
    def vectors(self) -> str:
        """The column that is searched."""
        return "embeddings" if self.n_bits is None else "codes"

    @property
    def width(self) -> int:
        """How many numbers an embedding has."""
        found = re.search(r"\[(\d+)\]$", self.columns[self.vectors])
        if found is None:
            raise ValueError(f"{self.place}: embeddings must be lists of one length, not {self.columns[self.vectors]}")
        return int(found[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers of embeddings."""
        return np.dtype(np.float64 if "double" in self.columns[self.vectors] else np.float32)

    def check(self) -> None:
        """Raise where a file is missing or of another size than it had: before anything is counted."""
        found = self.place.sizes([shard.file for shard in self.shards])
        for shard in self.shards:
            if shard.file not in found:
                raise FileNotFoundError(f"{self.place}/{shard.file} is missing: it is one of {len(self.shards)} shards")
            if found[shard.file] != shard.bytes:
                raise ValueError(
                    f"{self.place}/{shard.file} has {found[shard.file]:,} bytes, the manifest says {shard.bytes:,}: "
                    "it is cut short or of another gallery"
                )

    def read(self, number: int, columns: Collection[str] = ()) -> ShardPart:
        """Read one shard, its vectors and the named columns, and check it against the manifest."""
        import pyarrow as pa

        shard = self.shards[number]
        path = f"{self.place}/{shard.file}"
        try:
            content = self.place.read(shard.file)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is missing: it is one of {len(self.shards)} shards") from None
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            cut = len(content) < shard.bytes
            raise ValueError(f"{path} is {'cut short' if cut else 'not the file that the manifest has the hash of'}")
        arrays, about = read_table(pa.BufferReader(content), path, {self.vectors, *columns})
        missing = {self.vectors, *columns} - arrays.keys()
        if missing:
            raise ValueError(f"{path} has no column {min(missing)!r}, which the manifest says it has")
        vectors = arrays.pop(self.vectors)
        for name, array in arrays.items():
            if array.ndim != 1 + self.columns[name].endswith("]"):
                raise ValueError(
                    f"{path} has a column {name!r} of shape {array.shape}, the manifest says {self.columns[name]}"
                )
        if len(vectors) != shard.rows:
            raise ValueError(f"{path} has {len(vectors):,} rows, the manifest says {shard.rows:,}")
        if vectors.ndim != 2:
            raise ValueError(
                f"{path} has {self.vectors} of {vectors.dtype}, the manifest says {self.columns[self.vectors]}"
            )
        if self.n_bits is None:
            if vectors.dtype != self.dtype or vectors.shape[1] != self.width:
                raise ValueError(
                    f"{path} has embeddings of {vectors.shape[1]} × {vectors.dtype}, the manifest says "
                    f"{self.width} × {self.dtype}"
                )
            return ShardPart(number, int(self.starts[number]), vectors, arrays)
        if about.get("n_bits", self.n_bits) != self.n_bits or vectors.shape[1] != -(-self.n_bits // 8):
            found = about.get("n_bits", vectors.shape[1] * 8)
            raise ValueError(f"{path} has codes of {found} bits, the manifest says {self.n_bits}")
        try:
            return ShardPart(number, int(self.starts[number]), Codes.from_bytes(vectors, n_bits=self.n_bits), arrays)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Edition:
    """A gallery that is being written beside the one that is there, if any, and takes its place by `finish`.

    number: 1 for a new gallery, else one more than that of the gallery it replaces: names of their shards differ.
    replaced: shards that were there before, of that gallery or of a process that was killed.
    """

    place: Location
    n_bits: int | None
    number: int = 1
    replaced: tuple[str, ...] = ()

    @classmethod
    def begin(cls, place: Location, n_bits: int | None) -> "Edition":
        """Look at what is there; raises where a file has the name of a shard or of the manifest, and is none."""
        manifest = place.read(MANIFEST) if place.has(MANIFEST) else None
        present = [name for name in place.names() if PART.fullmatch(name)]
        cannot = f"cannot write shards to {place}"
        for name in (MANIFEST, *present):
            if place.local is not None and (place.local / name).is_symlink():
                raise FileExistsError(f"{cannot}: {name} is a link to somewhere else; write to a folder of its own")
        if manifest is not None and not is_manifest(manifest):
            raise FileExistsError(f"{cannot}: its {MANIFEST} is another program's; write elsewhere")
        named = _named_in(manifest)
        for name in present:
            if name not in named and not _is_shard(place.read(name)):
                raise FileExistsError(f"{cannot}: {name} is another's file; write elsewhere")
        numbers = [int(found[1] or 1) for found in map(PART.fullmatch, named or present) if found is not None]
        return cls(place, n_bits, 1 if manifest is None else 1 + max(numbers, default=1), tuple(present))

    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> tuple[Shard, dict[str, str]]:
        """Write one shard; its entry for the manifest, and the types of its columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = arrow_table(arrays, provenance("shard", n_bits=self.n_bits))
        if not len(table):
            raise ValueError("a shard has at least one row")
        vectors = "embeddings" if self.n_bits is None else "codes"
        others = [name for name in arrays if name != vectors]
        sink = pa.BufferOutputStream()
        compression = {name: "ZSTD" if name in others else "NONE" for name in arrays}  # vectors hardly get smaller
        pq.write_table(table, sink, row_group_size=max(1, len(table)), compression=compression, use_dictionary=others)
        content = sink.getvalue().to_pybytes()
        file = f"part-{number:05}{f'-{self.number}' if self.number > 1 else ''}.parquet"
        self.place.write(file, content)
        shard = Shard(file, len(table), len(content), hashlib.sha256(content).hexdigest())
        return shard, {field.name: str(field.type) for field in table.schema}

    def finish(self, shards: list[Shard], columns: Mapping[str, str]) -> Shards:
        """Write the manifest of shards that are all there, which puts them in place of those before; remove these."""
        items = sum(shard.rows for shard in shards)
        entries = [asdict(shard) for shard in shards]
        manifest = provenance("shards", items=items, n_bits=self.n_bits, columns=dict(columns), shards=entries)
        gallery = Shards(self.place, manifest)
        gallery.check()
        self.place.write(MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        for name in set(self.replaced) - {shard.file for shard in shards}:
            self.place.remove(name)
        return gallery

    def discard(self, shards: Iterable[Shard]) -> None:
        """Remove shards that were written, unless the manifest has them by now."""
        kept = _named_in(self.place.read(MANIFEST)) if self.place.has(MANIFEST) else set()
        for shard in shards:
            if shard.file not in kept:
                self.place.remove(shard.file)


def is_manifest(content: bytes) -> bool:
    """Whether a manifest is of a gallery in shards, also one that is damaged further on."""
    return re.match(rb'\s*\{\s*"lookalike":\s*"shards"', content) is not None


def _named_in(manifest: bytes | None) -> set[str]:
    """The shards that a manifest names; none where it is damaged."""
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
    """Writes rows as they come to shards of equal size, and the manifest when all are there.

    A gallery that is there stays until then, and is replaced at once.
    """

    def __init__(self, where: str | Path, *, n_bits: int | None = None, rows: int | None = None) -> None:
        """n_bits: of codes; None for embeddings. rows: of a shard, by default a million, or fewer long ones."""
        self.place, self.n_bits = Location.of(where), n_bits
        self._edition: Edition | None = None
        if n_bits is not None:
            check_n_bits(n_bits)
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1):
            raise ValueError(f"rows of a shard must be a whole number from 1, got {rows!r}")
        self._rows = rows
        self._columns: dict[str, str] | None = None
        self._waiting: list[dict[str, np.ndarray]] = []
        self._n_waiting = 0
        self.shards: list[Shard] = []

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
        """Take rows: `codes` as packed bytes or `embeddings`, and whatever else each has, always the same names."""
        arrays = self._checked(arrays)
        name = "embeddings" if self.n_bits is None else "codes"
        n = len(arrays[name])
        if self._rows is None:
            self._rows = rows_of_a_shard(arrays[name])
        for start in range(0, n, self._rows):
            # copies: who gives rows may fill their arrays again while these wait
            piece = {name: array[start : start + self._rows].copy() for name, array in arrays.items()}
            self._waiting.append(piece)
            self._n_waiting += len(piece[name])
            while self._n_waiting >= self._rows:
                self._write(self._rows)

    def _checked(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows that can be written and read again, of the same types as those before; raises where they cannot."""
        out: dict[str, np.ndarray] = {}
        vectors = "embeddings" if self.n_bits is None else "codes"
        if len({len(array) for array in arrays.values()}) != 1 or vectors not in arrays:
            raise ValueError(f"rows of shards must have {vectors}, and as many values of everything else")
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise TypeError(f"column {name!r} must be an array of numpy, got {type(array).__name__}")
            if array.dtype.kind == "O" and not all(isinstance(value, str) for value in array.flat):
                raise ValueError(f"column {name!r} must be all numbers or all strings, none empty")
            out[name] = array.astype(str) if array.dtype.kind == "O" else array
        if self.n_bits is not None:
            Codes.from_bytes(out["codes"], n_bits=self.n_bits)  # raises
        elif (
            (found := out["embeddings"]).ndim != 2 or found.dtype not in (np.float32, np.float64) or not found.shape[1]
        ):
            raise ValueError(
                f"embeddings must be a matrix of float32 or float64 with at least a column, got {found.shape} of "
                f"{found.dtype}"
            )
        types: dict[str, str] = {}
        for name, array in out.items():
            if array.ndim not in (1, 2) or array.dtype.kind not in "biufUM" or 0 in array.shape[1:]:
                raise ValueError(f"column {name!r} must be numbers or strings, a row or a matrix, got {array.dtype}")
            types |= {name: str(arrow_table({name: array[:1]}, {}).schema.field(0).type)}
        if self._columns is None:
            self._columns = types
        _check_types(self._columns, types)
        return out

    def _write(self, rows: int) -> None:
        """Write the first rows of those that wait."""
        taken, n = [], 0
        while n < rows:
            piece = self._waiting.pop(0)
            size = len(next(iter(piece.values())))
            if n + size > rows:
                self._waiting.insert(0, {name: array[rows - n :] for name, array in piece.items()})
                piece = {name: array[: rows - n] for name, array in piece.items()}
                size = rows - n
            taken.append(piece)
            n += size
        self._n_waiting -= rows
        joined = {name: np.concatenate([piece[name] for piece in taken]) for name in taken[0]}
        self.put(len(self.shards), joined)

    def put(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write these rows as the shard of this number, which must be the next."""
        arrays = self._checked(arrays)
        if self._edition is None:
            self._edition = Edition.begin(self.place, self.n_bits)
        self.shards.append(self._edition.write(number, arrays)[0])

    def close(self) -> Shards:
        """Write what is left, and the manifest."""
        if self._n_waiting:
            self._write(self._n_waiting)
        if not self.shards:
            raise ValueError("there is nothing to write: a gallery has at least one item")
        assert self._columns is not None
        assert self._edition is not None
        return self._edition.finish(self.shards, self._columns)


def _check_types(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    if before.keys() != now.keys():
        raise ValueError("all rows of shards must have the same columns")
    for name, kind in now.items():
        if kind != before[name]:
            raise ValueError(
                f"column {name!r} changes on the way, from {before[name]} to {kind}: it must be of one type in all rows"
            )


def rows_of_a_shard(vectors: np.ndarray) -> int:
    """How many rows of these a shard has, unless told."""
    width = int(np.prod(vectors.shape[1:])) * vectors.dtype.itemsize
    return max(1, min(MOST_ROWS, MOST_BYTES // max(1, width)))


def is_sharded(where: str | Path) -> bool:
    """Whether this is the folder or the address of a gallery in shards, rather than a file."""
    return bool(re.match(r"\w[\w+.-]*://", str(where))) or Path(where).is_dir()
