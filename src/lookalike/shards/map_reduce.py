"""Work on a gallery in shards: an outcome for each shard, computed here or on a cluster, and their checked sum."""

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
    """Something that adds up over shards, and can be written to a file."""

    def __add__(self, other: Any) -> Any:
        """The sum of both."""

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All arrays by name, and everything else as plain values."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Self:
        """The inverse of `to_arrays`."""


class Arrays:
    """A dataclass that has only arrays; they are written as they are."""

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Its fields."""
        return dict(vars(self)), {}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Self:  # noqa: ARG003
        """The inverse of `to_arrays`."""
        return cls(**arrays)


class ShardWork(Protocol):
    """What is done with each shard. It is sent to other processes, so it holds plain data only."""

    @property
    def gives(self) -> type[Any]:
        """The type that `do` returns, which adds up."""

    @property
    def columns(self) -> Collection[str]:
        """The columns that it reads beside the vectors."""

    @property
    def blocks(self) -> Sequence[slice]:
        """The queries in blocks; each block has its own sum."""

    @property
    def digest(self) -> str:
        """A fingerprint of everything that its outcome depends on, except the shard."""

    def do(self, part: ShardPart, block: slice) -> Any:
        """The outcome of one shard for a block of queries."""


@dataclass(frozen=True)
class Partial(Generic[T]):
    """The outcome of some shards, with the numbers of these shards and how many rows they have."""

    value: T
    shards: frozenset[int]
    rows: int
    unranked: int = 0  # judged pairs of which a shard did not have the item, summed over shards

    def __add__(self, other: "Partial[T]") -> "Partial[T]":
        """The sum of both; raises if a shard would count twice."""
        if twice := self.shards & other.shards:
            raise AssertionError(f"shard {min(twice)} would be counted twice")
        value: Any = self.value
        unranked = self.unranked + other.unranked
        return Partial(value + other.value, self.shards | other.shards, self.rows + other.rows, unranked)

    def whole(self, shards: Shards) -> T:
        """The value of all shards; raises if one is missing."""
        if self.shards != set(range(len(shards.shards))) or self.rows != len(shards):
            raise InputError(
                f"{len(self.shards)} of {len(shards.shards)} shards were counted, {self.rows:,} rows of {len(shards):,}"
            )
        return self.value


@dataclass(frozen=True)
class ShardTask:
    """Work on the shards of a gallery. partials: where each outcome is kept, so that a job that died can go on."""

    shards: Shards
    work: Any  # a ShardWork
    partials: Location | None = None

    def outcome(self, number: int, block: int) -> Partial[Any]:
        """The outcome of one shard for a block of queries, kept by an earlier job or computed now."""
        kept = self.kept(number, block)
        return kept or self.done(number, block, self.shards.read(number, self.work.columns))

    def done(self, number: int, block: int, part: ShardPart) -> Partial[Any]:
        """The outcome of a shard that was read, for a block of queries; kept for a job that goes on after this."""
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
        """An npz file after its hash, which shows any damage."""
        arrays, facts = value.to_arrays()
        about = provenance("partial", value=facts, work=self.work.digest, **self._facts(number))
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)
        return _hash(content.getvalue()) + content.getvalue()

    def kept(self, number: int, block: int) -> Partial[Any] | None:
        """The outcome that an earlier job kept of this shard; None if there is none that can be used."""
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
    """The sum of the outcomes of all shards, for each block of queries, computed in threads or by the shards' client.

    check: called with each sum, its block of queries and the number of shards; raises if the sum cannot be right.
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
    """The sums, computed in this process: a few shards are read while others are counted; memory stays bounded."""
    n_blocks, numbers = len(task.work.blocks), range(len(task.shards.shards))
    sums = [_Sum() for _ in range(n_blocks)]
    counting: deque[list[Future[Partial[Any]]]] = deque()

    def add_first() -> None:
        for total, future in zip(sums, counting.popleft(), strict=True):
            total.add(future.result())

    def read(number: int) -> list[Callable[[], Partial[Any]]]:
        """A function for the outcome of each block; the shard is read only if an outcome was not kept."""
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
    """The results of `read` for each number, in order, computed a little ahead."""
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
    """A sum that adds things of similar size: what grows with every addition is not copied each time."""

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
