"""Making shards: from the files that users have, read a piece at a time, or by hashing shards of embeddings."""

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.arrow_arrays import arrow_to_numpy
from lookalike.core.codes import Codes, hasher_in
from lookalike.core.embeddings import as_floats
from lookalike.core.errors import FileError, InputError
from lookalike.core.file_errors import no_memory, short_of_memory, within
from lookalike.core.files import digest
from lookalike.core.locks import locked
from lookalike.core.readers.opening import open_source
from lookalike.core.readers.source import ItemSource
from lookalike.core.readers.tables import check_lengths
from lookalike.core.tags import tags_or_labels
from lookalike.shards.gallery import MANIFEST, Shard, ShardPart, Shards, is_manifest
from lookalike.shards.map_reduce import gather
from lookalike.shards.storage import Location
from lookalike.shards.writer import PART, Edition, ShardWriter

PIECE = 1 << 16  # rows that are read at a time
NAMES = {"id": "ids", "label": "labels"}  # columns of a table, and their names in shards

logger = logging.getLogger("lookalike")

__all__ = ["hash_shards", "shard_file"]

Rows = dict[str, np.ndarray]


def shard_file(
    source: Any,
    output: str | Path,
    *,
    table: str | Path | None = None,
    n_bits: int | None = None,
    zero: str | None = None,
    rows: int | None = None,
    replace: bool = False,
) -> Shards:
    """Write the items of a source to shards, reading a little at a time.

    source: the name of a file of any kind, a table in memory, or an `ItemSource` that is open. All of its columns are
    written, under the names of ours where they have one. table: a .csv with a row for each item; its columns are added.
    n_bits: for packed bytes in a source that does not say it. zero: what a 0 among bits of -1 and +1 counts, "one" or
    "minus". rows: of a shard. replace: write over shards that are there.
    """
    location = Location.of(output)
    if not hasattr(source, "pages"):
        source = open_source(source, extra=True)
    name = source.name
    if "tags" in source.about:
        raise InputError(
            f"the tags of {name} are words, which shards do not keep: leave them out, or write them as 0/1"
        )
    _check_location(location, replace)
    for read in (Path(name), *([Path(table)] if table is not None else [])):
        if PART.fullmatch(read.name) and read.resolve().parent == location.local:
            raise InputError(f"cannot write shards to {location}: {read} is one of those there, and is read")
    pieces = _pieces(source, n_bits, zero)
    if table is not None:
        pieces = _with_table(pieces, Path(table), name)
    with _alone_in(location), contextlib.ExitStack() as stack:
        writer: ShardWriter | None = None
        forms: set[str] = set()
        for piece in pieces:
            forms |= _form_of_bits(piece)
            if len(forms) > 1:
                raise FileError(f"{name}: bits change on the way between {' and '.join(sorted(forms))}", path=name)
            columns, bits = _columns(piece, name, n_bits)
            if writer is None:
                hasher = None if bits is None else hasher_in(piece.about)
                writer = stack.enter_context(ShardWriter(output, n_bits=bits, rows=rows, hasher=hasher))
            if bits != writer.n_bits:
                raise FileError(f"{name} changes on the way, from {writer.n_bits} bits to {bits}", path=name)
            writer.add(columns)
        if writer is None:
            raise FileError(f"{name} has no items: there is nothing to write", path=name)
    for note in source.notes:
        logger.warning("%s", note)
    return Shards.open(output)


def _check_location(location: Location, replace: bool) -> None:
    """Raise if shards cannot be written there, or if there are some already and they are not to be replaced."""
    if location.local is not None and location.local.is_file():
        raise InputError(f"cannot write shards to {location}: it is a file, and they need a folder")
    if location.has(MANIFEST) and is_manifest(location.read(MANIFEST)) and not replace:
        raise FileExistsError(f"there are shards in {location} already: write elsewhere, or pass --replace")


@contextlib.contextmanager
def _alone_in(location: Location) -> Iterator[None]:
    """Within this block, no other process of this machine writes shards to the folder."""
    if location.local is None:
        yield
        return
    location.local.mkdir(parents=True, exist_ok=True)
    with locked(location.local, 0, f"another process is writing shards to {location}: try again when it has ended"):
        yield


# Files, a piece at a time


@dataclass(frozen=True)
class _Piece:
    """Some rows of a file, and what the file says about itself."""

    arrays: Rows
    about: dict[str, Any]
    zero: str | None = None  # what a 0 among bits of -1 and +1 counts


def _pieces(source: ItemSource, n_bits: int | None, zero: str | None) -> Iterator[_Piece]:
    for page in source.pages(PIECE):
        check_lengths({name: len(values) if values.ndim else 1 for name, values in page.items()}, source.name)
        if len(next(iter(page.values()))):
            yield _Piece(page, source.about if n_bits is None else {**source.about, "n_bits": n_bits}, zero)


def _columns(piece: _Piece, source: str, n_bits: int | None) -> tuple[Rows, int | None]:
    """Columns as shards have them, with codes as packed bytes; and how many bits they have, None for embeddings."""
    arrays = dict(piece.arrays)
    for name in [name for name, array in arrays.items() if array.dtype.kind == "S"]:
        arrays[name] = np.char.decode(arrays[name], "utf-8", "replace")
    if "labels" in arrays:
        with within(source):
            arrays["labels"] = tags_or_labels(arrays["labels"])
    if "embeddings" in arrays and not {"codes", "packed"} & arrays.keys():
        vectors = arrays["embeddings"]
        if vectors.ndim != 2 or vectors.dtype.kind not in "biuf":
            raise FileError(
                f"{source}: embeddings must be a matrix of numbers (n, dim), got {vectors.shape} of {vectors.dtype}",
                path=source,
            )
        return arrays | {"embeddings": as_floats(vectors, f"{source}: embeddings")}, None
    if n_bits is not None and "codes" in arrays and arrays["codes"].dtype == np.uint8:
        arrays["packed"] = arrays.pop("codes")
    with within(source):
        codes = Codes.from_arrays(arrays, piece.about, source, zero=piece.zero)
    for name in ("packed", "n_bits", "codes"):
        arrays.pop(name, None)
    return {"codes": codes.to_bytes()} | arrays, codes.n_bits


def _form_of_bits(piece: _Piece) -> set[str]:
    """How the bits of a piece are written: each is packed alone, and a 0 must mean the same in all of them."""
    bits = piece.arrays.get("codes")
    if bits is None or bits.dtype.kind not in "if":
        return set()
    if (bits == -1).any():
        return {"-1/+1"}
    return {"0/1"} if (bits == 0).any() else set()


def _with_table(pieces: Iterator[_Piece], table: Path, source: str) -> Iterator[_Piece]:
    """Pieces with the columns of a CSV file, which has a row for each item."""
    import pyarrow as pa
    from pyarrow import csv

    if not table.is_file():
        raise FileNotFoundError(f"there is no file {table}")
    n = 1  # rows that are missing
    try:
        reader = csv.open_csv(table)
        waiting = reader.read_next_batch()
        for piece in pieces:
            n = len(next(iter(piece.arrays.values())))
            batches = []
            while n:
                if not len(waiting):
                    waiting = reader.read_next_batch()
                batches.append(waiting.slice(0, n))
                n -= len(batches[-1])
                waiting = waiting.slice(len(batches[-1]))
            columns = pa.Table.from_batches(batches)
            if len(set(columns.column_names)) < len(columns.column_names):
                raise FileError(f"{table} has a column twice, of {', '.join(columns.column_names)}", path=table)
            added = {
                NAMES.get(name, name): arrow_to_numpy(columns[name], f"column {name!r} of {table}")
                for name in columns.column_names
            }
            if both := added.keys() & piece.arrays.keys():
                raise FileError(f"both {table} and {source} have {min(both)}", path=table)
            yield _Piece(piece.arrays | added, piece.about, piece.zero)
        if len(waiting) or len(reader.read_next_batch()):
            raise _other_items(table, "more", source)
    except StopIteration:
        # a batch that is not there: at the end, as it should be; before it, too few rows
        if n:
            raise _other_items(table, "fewer", source) from None
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter for names of columns
        if short_of_memory(error):
            raise no_memory(table) from error
        reason = " ".join(str(error).split())
        raise FileError(f"{table} is not a CSV file with a row for each item: {reason}", path=table) from error


def _other_items(table: Path, how_many: str, source: str) -> FileError:
    return FileError(
        f"{table} has {how_many} rows than {source} has items: they must be of the same items, in the same order",
        path=table,
    )


# Hashing


@dataclass(frozen=True)
class Written:
    """Shards that were written: their entries for the manifest, by number, and the types of their columns."""

    entries: Mapping[int, Shard]
    columns: Mapping[str, str]

    def __add__(self, other: "Written") -> "Written":
        if self.columns != other.columns:
            raise InputError(f"shards have different columns: {dict(self.columns)} and {dict(other.columns)}")
        return Written({**self.entries, **other.entries}, self.columns)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as plain values."""
        entries = {str(number): asdict(shard) for number, shard in self.entries.items()}
        return {}, {"entries": entries, "columns": dict(self.columns)}

    @classmethod
    def from_arrays(cls, arrays: Rows, about: dict[str, Any]) -> "Written":  # noqa: ARG003
        """The inverse of `to_arrays`."""
        return cls({int(number): Shard(**shard) for number, shard in about["entries"].items()}, about["columns"])


@dataclass(frozen=True)
class Hashing:
    """Work on shards: hash the embeddings of each, and write the codes and all other columns to a new shard."""

    hasher: Any
    output: Edition
    columns: tuple[str, ...]
    gives = Written
    blocks = (slice(0, 1),)

    @property
    def digest(self) -> str:
        learned = self.hasher._learned()
        where, number = self.output.location.where, self.output.number
        facts = [type(self.hasher).__name__, where, *[f"edition {number}"] * (number > 1), *sorted(learned)]
        return digest(np.array(facts), *(np.asarray(learned[name]) for name in sorted(learned)))

    def do(self, part: ShardPart, block: slice) -> Written:  # noqa: ARG002
        codes = self.hasher.transform(part.vectors)
        arrays = {"codes": codes.to_bytes()} | {name: part.values[name] for name in self.columns}
        shard, columns = self.output.write(part.number, arrays)
        return Written({part.number: shard}, columns)

    def stands(self, value: Written) -> bool:
        """Whether what was written is still there, byte for byte."""
        for shard in value.entries.values():
            try:
                content = self.output.location.read(shard.file)
            except FileNotFoundError:
                return False
            if hashlib.sha256(content).hexdigest() != shard.sha256:
                return False
        return True


def hash_shards(
    hasher: Any,
    shards: Shards,
    output: str | Path,
    *,
    threads: int,
    partials: str | Path | None = None,
    replace: bool = False,
) -> Shards:
    """Hash a gallery of embeddings in shards to a gallery of codes, in threads or by the client of the shards."""
    location = Location.of(output)
    if shards.n_bits is not None:
        raise InputError(f"{shards.location} holds codes already: hashing is for embeddings")
    if location == shards.location:
        raise InputError(f"cannot write codes to {location}: the embeddings are there")
    _check_location(location, replace)
    others = tuple(name for name in shards.columns if name != shards.vectors)
    kept = None if partials is None else Location.of(partials)
    with _alone_in(location):
        edition = Edition.begin(location, hasher.n_bits, hasher.fingerprint)
        work = Hashing(hasher, edition, others)
        (written,) = gather(shards, work, threads=threads, partials=kept, what="hashing")
        return edition.finish([written.entries[number] for number in range(len(shards.shards))], written.columns)
