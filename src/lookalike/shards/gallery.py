"""Shards: a gallery as a folder of Parquet files and a manifest; one file is read at a time."""

import functools
import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from lookalike.core.codes import MAX_BITS, Codes, hasher_in
from lookalike.core.column import Column
from lookalike.core.errors import FileError
from lookalike.core.file_errors import within
from lookalike.core.files import check_format, digest, provenance, read_json, read_table
from lookalike.shards.storage import Location

MANIFEST = "manifest.json"

__all__ = ["MANIFEST", "Shard", "ShardPart", "Shards", "is_manifest", "is_sharded", "vector_column"]


@dataclass(frozen=True)
class Shard:
    """A file of a gallery, as the manifest describes it."""

    file: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ShardPart:
    """A shard in memory: its number, the position of its first item, its vectors, and its other columns by name.

    made: what was made of these by somebody who may need it again while the shard is in memory.
    """

    number: int
    start: int
    vectors: Codes | np.ndarray
    values: Mapping[str, np.ndarray]
    made: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.vectors)


class Shards:
    """A gallery in shards, opened by `Shards.open`; it is used like codes or embeddings, and is read in parts.

    >>> import tempfile
    >>> from lookalike.shards import ShardWriter
    >>> folder = tempfile.mkdtemp()
    >>> with ShardWriter(folder, n_bits=2, rows=2) as writer:
    ...     writer.add({"codes": Codes.pack([[0, 0], [0, 1], [1, 1]]).to_bytes(), "labels": np.array([7, 7, 8])})
    >>> gallery = Shards.open(folder)
    >>> gallery
    Shards(3 codes of 2 bits in 2 shards, with labels)
    >>> gallery["labels"]
    Column('labels')
    """

    def __init__(self, location: Location, manifest: Mapping[str, Any]) -> None:
        content = _Content.of(manifest, f"{location}/{MANIFEST}")
        self.location = location
        self.shards, self.n_bits, self.columns = content.shards, content.n_bits, content.columns
        self.hasher = content.hasher  # the fingerprint of the hasher that made the codes; None if it is not known
        self.starts = np.cumsum([0, *(shard.rows for shard in self.shards)])
        self.client: Any = None

    @classmethod
    def open(cls, where: str | Path) -> "Shards":
        """Open the gallery in a folder, or at an address such as s3://bucket/gallery."""
        location = Location.of(where)
        path = f"{location}/{MANIFEST}"
        try:
            content = location.read(MANIFEST)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(f"there is no {MANIFEST} in {location}: lookalike shard makes one") from None
        manifest = read_json(content, path)
        if not isinstance(manifest, dict) or manifest.get("lookalike") != "shards":
            raise FileError(f"{path} is not of a gallery in shards", path=path)
        check_format(manifest, path)
        return cls(location, manifest)

    def on(self, client: Any) -> "Shards":
        """The same gallery, read and counted by the workers of a Dask client."""
        other = Shards(self.location, self.manifest)
        other.client = client
        return other

    @property
    def manifest(self) -> dict[str, Any]:
        """What the manifest beside the shards says."""
        return provenance(
            "shards",
            items=len(self),
            n_bits=self.n_bits,
            columns=self.columns,
            shards=[asdict(shard) for shard in self.shards],
            **({} if self.hasher is None else {"hasher": self.hasher}),
        )

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __repr__(self) -> str:
        beside = [name for name in self.columns if name not in ("codes", "embeddings")]
        what = f"codes of {self.n_bits} bits" if self.n_bits else f"embeddings, {self.columns['embeddings']},"
        return f"Shards({len(self):,} {what} in {len(self.shards)} shards{', with ' * bool(beside)}{', '.join(beside)})"

    def __getitem__(self, name: str) -> Column:
        """The values of a column, for relevance or groups: each shard brings its own."""
        if name not in self.columns:
            raise KeyError(f"{self.location} has no column {name!r}, only {', '.join(self.columns)}")
        return Column(name)

    @functools.cached_property
    def digest(self) -> str:
        """A fingerprint of everything in the gallery."""
        return digest(np.array([self.n_bits or 0]), np.array([shard.sha256 for shard in self.shards], str))

    @property
    def vectors(self) -> str:
        """The name of the column that is searched."""
        return vector_column(self.n_bits)

    @property
    def width(self) -> int:
        """How many numbers an embedding has."""
        kind = self.columns[self.vectors]
        length = re.search(r"\[(\d+)\]$", kind)
        if length is None:
            raise FileError(f"{self.location}: embeddings must be lists of one length, not {kind}", path=self.location)
        return int(length[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers of embeddings."""
        return np.dtype(np.float64 if "double" in self.columns[self.vectors] else np.float32)

    def check(self) -> None:
        """Raise if a file is missing or has another size than in the manifest; called before anything is counted."""
        sizes = self.location.sizes([shard.file for shard in self.shards])
        for shard in self.shards:
            path = f"{self.location}/{shard.file}"
            if shard.file not in sizes:
                raise self._missing(path)
            if sizes[shard.file] != shard.bytes:
                raise FileError(
                    f"{path} has {sizes[shard.file]:,} bytes, the manifest says {shard.bytes:,}: "
                    "it is cut short or of another gallery",
                    path=path,
                )

    def read(self, number: int, columns: Collection[str] = ()) -> ShardPart:
        """Read the vectors and the named columns of one shard, and check them against the manifest."""
        import pyarrow as pa

        shard = self.shards[number]
        path = f"{self.location}/{shard.file}"
        try:
            content = self.location.read(shard.file)
        except FileNotFoundError:
            raise self._missing(path) from None
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            cut = len(content) < shard.bytes
            problem = "cut short" if cut else "not the file that the manifest has the hash of"
            raise FileError(f"{path} is {problem}", path=path)
        arrays, about = read_table(pa.BufferReader(content), path, {self.vectors, *columns})
        missing = {self.vectors, *columns} - arrays.keys()
        if missing:
            raise FileError(f"{path} has no column {min(missing)!r}, which the manifest says it has", path=path)
        vectors = arrays.pop(self.vectors)
        for name, array in arrays.items():
            if array.ndim != 1 + self.columns[name].endswith("]"):
                raise FileError(
                    f"{path} has a column {name!r} of shape {array.shape}, the manifest says {self.columns[name]}",
                    path=path,
                )
        if len(vectors) != shard.rows:
            raise FileError(f"{path} has {len(vectors):,} rows, the manifest says {shard.rows:,}", path=path)
        return ShardPart(number, int(self.starts[number]), self._checked_vectors(vectors, about, path), arrays)

    def _checked_vectors(self, vectors: np.ndarray, about: Mapping[str, Any], path: str) -> Codes | np.ndarray:
        """Codes or embeddings as the manifest describes them; raises for others."""
        if vectors.ndim != 2:
            raise FileError(
                f"{path} has {self.vectors} of {vectors.dtype}, the manifest says {self.columns[self.vectors]}",
                path=path,
            )
        if self.n_bits is None:
            if vectors.dtype != self.dtype or vectors.shape[1] != self.width:
                raise FileError(
                    f"{path} has embeddings of {vectors.shape[1]} × {vectors.dtype}, the manifest says "
                    f"{self.width} × {self.dtype}",
                    path=path,
                )
            return vectors
        if about.get("n_bits", self.n_bits) != self.n_bits or vectors.shape[1] != -(-self.n_bits // 8):
            n_bits = about.get("n_bits", vectors.shape[1] * 8)
            raise FileError(f"{path} has codes of {n_bits} bits, the manifest says {self.n_bits}", path=path)
        with within(path):
            return Codes.from_bytes(vectors, n_bits=self.n_bits, hasher=self.hasher)

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(f"{path} is missing: it is one of {len(self.shards)} shards")


@dataclass(frozen=True)
class _Content:
    """The content of a manifest, checked: its shards, the bits of codes, and the types of columns."""

    shards: tuple[Shard, ...]
    n_bits: int | None
    columns: dict[str, str]  # types as pyarrow writes them
    hasher: str | None

    @classmethod
    def of(cls, manifest: Mapping[str, Any], path: str) -> Self:
        """Take the content out of a manifest; raises for one that no writer can have written."""
        try:
            shards = tuple(Shard(**shard) for shard in manifest["shards"])
            content = cls(shards, manifest["n_bits"], dict(manifest["columns"]), hasher_in(manifest))
            n_items = int(manifest["items"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileError(f"{path} is damaged: it does not say what the shards are", path=path) from error
        if not content._is_possible():
            raise FileError(f"{path} is damaged: it does not say what the shards are", path=path)
        rows = sum(shard.rows for shard in shards)
        if rows != n_items:
            raise FileError(f"{path} is damaged: {n_items:,} items, but its shards have {rows:,}", path=path)
        if len({shard.file for shard in shards}) < len(shards):
            raise FileError(f"{path} is damaged: a file is there twice", path=path)
        return content

    def _is_possible(self) -> bool:
        """Whether every value is of its type and in its range."""
        if self.n_bits is not None and (type(self.n_bits) is not int or not 1 <= self.n_bits <= MAX_BITS):
            return False
        if not self.shards or vector_column(self.n_bits) not in self.columns:
            return False
        if not all(type(kind) is str for kind in self.columns.values()):
            return False
        return all(
            type(shard.rows) is int
            and type(shard.bytes) is int
            and shard.rows >= 1
            and type(shard.sha256) is str
            and type(shard.file) is str
            and Path(shard.file).name == shard.file  # never outside its folder
            for shard in self.shards
        )


def vector_column(n_bits: int | None) -> str:
    """The name of the column that is searched: "codes", or "embeddings" if they have no number of bits."""
    return "embeddings" if n_bits is None else "codes"


def is_manifest(content: bytes) -> bool:
    """Whether a manifest is of a gallery in shards; it may be damaged after its start."""
    return re.match(rb'\s*\{\s*"lookalike":\s*"shards"', content) is not None


def is_sharded(where: str | Path) -> bool:
    """Whether this is the folder or the address of a gallery in shards, rather than a file."""
    return bool(re.match(r"\w[\w+.-]*://", str(where))) or Path(where).is_dir()
