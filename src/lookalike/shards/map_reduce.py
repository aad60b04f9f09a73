"""Work on a gallery in shards: what each shard gives, done here or on a cluster, and the sum of it, checked."""

import functools
import hashlib
import io
import json
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.file_errors import within
from lookalike.core.files import digest, provenance, said_by
from lookalike.core.npy import read_npz
from lookalike.core.progress import track
from lookalike.shards.gallery import ShardPart, Shards
from lookalike.shards.storage import Location

HASH = 64  # bytes of a hash in hexadecimal
AHEAD = 2  # shards that are read while others are counted

logger = logging.getLogger("lookalike")
T = TypeVar("T")

__all__ = ["Adds", "Arrays", "Partial", "ShardTask", "ShardWork", "gather", "summed"]


class Adds(Protocol):
    """Something that adds up over shards, and can be written down."""

    def __add__(self, other: Any) -> Any:
        """Both together."""

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as named arrays, and the rest as plain values."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Self:
        """Take what `to_arrays` gave."""


class Arrays:
    """A dataclass of arrays alone, which is written down as they are."""

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Its fields."""
        return dict(vars(self)), {}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Self:  # noqa: ARG003
        """Take what `to_arrays` gave."""
        return cls(**arrays)


class ShardWork(Protocol):
    """What is done with each shard; sent to other processes, so it holds plain data only."""

    @property
    def gives(self) -> type[Any]:
        """What `do` gives, a kind that adds up."""

    @property
    def columns(self) -> Collection[str]:
        """What it reads beside the vectors."""

    @property
    def blocks(self) -> Sequence[slice]:
        """The queries in blocks: each has a sum of its own."""

    @property
    def digest(self) -> str:
        """A fingerprint of all that its outcome depends on, beside the shard."""

    def do(self, part: ShardPart, block: slice) -> Any:
        """What one shard gives for a block of queries."""


@dataclass(frozen=True)
class Partial(Generic[T]):
    """What some shards gave, with the numbers of these shards and how many rows they have."""

    value: T
    shards: frozenset[int]
    rows: int
    unranked: int = 0  # judged pairs whose items each shard did not have, of all shards together

    def __add__(self, other: "Partial[T]") -> "Partial[T]":
        """Both together; raises where a shard would count twice."""
        if twice := self.shards & other.shards:
            raise ValueError(f"shard {min(twice)} would be counted twice: this is a mistake of the program")
        value: Any = self.value
        unranked = self.unranked + other.unranked
        return Partial(value + other.value, self.shards | other.shards, self.rows + other.rows, unranked)

    def whole(self, shards: Shards) -> T:
        """The value, once every shard is in it; raises where one is missing."""
        if self.shards != set(range(len(shards.shards))) or self.rows != len(shards):
            raise ValueError(
                f"{len(self.shards)} of {len(shards.shards)} shards were counted, {self.rows:,} rows of {len(shards):,}"
            )
        return self.value


@dataclass(frozen=True)
class ShardTask:
    """Work on the shards of a gallery. partials: where to keep what each gives, so that a job that died goes on."""

    shards: Shards
    work: Any  # a ShardWork
    partials: Location | None = None

    def outcome(self, number: int, block: int) -> Partial[Any]:
        """What one shard gives for a block of queries: as it was kept, or done now."""
        kept = self.kept(number, block)
        return kept or self.done(number, block, self.shards.read(number, self.work.columns))

    def done(self, number: int, block: int, part: ShardPart) -> Partial[Any]:
        """What one shard, which was read, gives for a block of queries; kept for a job that goes on after this one."""
        with within(f"{self.shards.location}/{self.shards.shards[number].file}"):
            value = self.work.do(part, self.work.blocks[block])
        if self.partials is not None:
            self.partials.write(self._name(number, block), self._written(value, number))
        return self._partial(value, number)

    def _partial(self, value: Any, number: int) -> Partial[Any]:
        unranked = getattr(value, "unranked", None)
        missing = 0 if unranked is None else len(unranked.queries)
        return Partial(value, frozenset([number]), self.shards.shards[number].rows, missing)

    def _name(self, number: int, block: int) -> str:
        queries = self.work.blocks[block]
        mark = digest(np.array([self.work.digest, self.shards.shards[number].sha256]))
        return f"{mark}-{number:05}-{queries.start}-{queries.stop}.partial"

    def _facts(self, number: int) -> dict[str, Any]:
        shard = self.shards.shards[number]
        return {"shard": shard.sha256, "start": int(self.shards.starts[number]), "rows": shard.rows}

    def _written(self, value: Any, number: int) -> bytes:
        """An npz file behind a line with its hash: no part of it can be damaged unseen."""
        arrays, facts = value.to_arrays()
        about = provenance("partial", value=facts, work=self.work.digest, **self._facts(number))
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)
        return _hash(content.getvalue()) + content.getvalue()

    def kept(self, number: int, block: int) -> Partial[Any] | None:
        """What an earlier job kept of this shard; None where there is nothing, or nothing that can be used."""
        if self.partials is None:
            return None
        name = self._name(number, block)
        try:
            content = self.partials.read(name)
        except FileNotFoundError:
            return None
        if content[:HASH] != _hash(content[HASH:]):
            logger.warning("%s/%s is damaged, its shard is counted again", self.partials, name)
            return None
        try:
            arrays = read_npz(content[HASH:], path=f"{self.partials}/{name}")
        except ValueError:  # of another version: its hash is right
            return None
        about = said_by(arrays.pop("about", "{}"))
        if about != provenance("partial", value=about.get("value"), work=self.work.digest, **self._facts(number)):
            return None
        value = self.work.gives.from_arrays(arrays, about["value"])
        stands = getattr(self.work, "stands", None)  # of work that writes files: whether these are there
        if stands is not None and not stands(value):
            logger.warning("what was written for %s/%s is gone or changed: it is written again", self.partials, name)
            return None
        return self._partial(value, number)


def gather(
    shards: Shards,
    work: ShardWork,
    *,
    threads: int,
    partials: Location | None = None,
    what: str = "counting",
    check: Callable[[Partial[Any], slice, int], None] | None = None,
) -> list[Any]:
    """Do work on all shards, in threads here or by the client of the shards; for each block of queries, the sum.

    check: raises where a sum, for a block of queries and over so many shards, cannot be.
    """
    shards.check()
    if partials is not None and partials.local is not None and partials.local.is_file():
        raise InputError(f"cannot keep partials in {partials}: it is a file, and they need a folder")
    task = ShardTask(Shards(shards.location, shards.manifest), work, partials)
    if shards.client is not None:
        from lookalike.shards.dask import outcomes

        totals = outcomes(shards.client, task, what)
    else:
        totals = _here(task, threads, what)
    values = [total.whole(shards) for total in totals]
    if check is not None:
        for block, total in zip(work.blocks, totals, strict=True):
            check(total, block, len(shards.shards))
    return values


def _here(task: ShardTask, threads: int, what: str) -> list[Partial[Any]]:
    """In this process: shards are read while others are counted, a few at a time, so that memory stays bounded."""
    n_blocks, numbers = len(task.work.blocks), range(len(task.shards.shards))
    sums = [_Sum() for _ in range(n_blocks)]
    counting: deque[list[Future[Partial[Any]]]] = deque()

    def add_first() -> None:
        for total, future in zip(sums, counting.popleft(), strict=True):
            total.add(future.result())

    def read(number: int) -> list[Callable[[], Partial[Any]]]:
        """What gives the outcome of each block: a shard is read where one of them was not kept."""
        kept = [task.kept(number, block) for block in range(n_blocks)]
        part: Any = None if all(kept) else task.shards.read(number, task.work.columns)
        return [
            functools.partial(task.done, number, block, part) if before is None else functools.partial(_same, before)
            for block, before in enumerate(kept)
        ]

    reader, crew = ThreadPoolExecutor(AHEAD), ThreadPoolExecutor(threads)
    try:
        for blocks in track(_ahead(reader, read, numbers), len(numbers), what):
            counting.append([crew.submit(block) for block in blocks])
            while sum(map(len, counting)) > threads + 1 and len(counting) > 1:
                add_first()
        while counting:
            add_first()
    finally:
        for pool in (reader, crew):
            pool.shutdown(cancel_futures=True)
    return [total.all() for total in sums]


def _ahead(reader: ThreadPoolExecutor, read: Callable[[int], T], numbers: Iterable[int]) -> Iterator[T]:
    """What `read` gives for each number, in order, read a little ahead."""
    reading: deque[Future[T]] = deque()
    for number in numbers:
        reading.append(reader.submit(read, number))
        if len(reading) > AHEAD:
            yield reading.popleft().result()
    while reading:
        yield reading.popleft().result()


def _same(value: T) -> T:
    return value


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


class _Sum:
    """A sum in which things of like size are added: what grows with every addition is not copied each time."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Any]] = []  # how many are in each, and their sum

    def add(self, value: Any) -> None:
        n = 1
        while self._parts and self._parts[-1][0] <= n:
            before, other = self._parts.pop()
            n, value = n + before, other + value
        self._parts.append((n, value))

    def all(self) -> Any:
        return summed([value for _, value in self._parts])


def summed(values: Sequence[Any]) -> Any:
    """The sum of several things, the last ones first."""
    total = values[-1]
    for value in reversed(values[:-1]):
        total = value + total
    return total
