"""What is asked of a gallery in shards, and what is read of each shard for it."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.column import Column
from lookalike.core.embeddings import Embeddings, GalleryParts, check_gallery
from lookalike.core.errors import InputError
from lookalike.core.file_errors import within
from lookalike.core.files import digest
from lookalike.core.memory import available_memory
from lookalike.core.progress import track
from lookalike.evaluation.relevance import Groups, InShards, Judged, Relevance, Unranked
from lookalike.evaluation.request import Request, ShardGroups
from lookalike.evaluation.tally import Tally
from lookalike.shards.gallery import ShardPart, Shards
from lookalike.shards.map_reduce import Partial, ShardWork, gather
from lookalike.shards.storage import Location

ROOM = 1 << 28  # bytes of embeddings or scores that are kept at a time, or more
SHARE = 4  # of the memory that is free, a part for these
LITTLE = 1 << 22  # bytes of embeddings that are laid out as in memory: numpy alone may do for them

__all__ = ["SHARE", "Search", "ShardSearch", "arrays_of", "room", "unranked_of"]


def room() -> int:
    """Bytes of embeddings or of scores that may be kept until all shards were read."""
    return max(ROOM, available_memory() // SHARE)


@dataclass(frozen=True)
class Search:
    """A request to a gallery in shards, as it is sent to workers. exclude: as `Request.excluded`."""

    queries: Codes | np.ndarray
    query_ids: np.ndarray
    relevance: Relevance
    gallery_ids: Column | None = None  # None: positions
    exclude: ShardGroups | None = None
    similarity: str | None = None

    @property
    def columns(self) -> set[str]:
        """What is read of each shard beside its vectors."""
        names = set(self.relevance.columns if isinstance(self.relevance, InShards) else ())
        if self.exclude is not None and isinstance(self.exclude[1], Column):
            names.add(self.exclude[1].name)
        if self.gallery_ids is not None and self._names_items:
            names.add(self.gallery_ids.name)
        return names

    @property
    def _names_items(self) -> bool:
        return isinstance(self.relevance, Judged) or (self.exclude is not None and self.exclude[1] is None)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of it."""
        queries = self.queries.digest if isinstance(self.queries, Codes) else digest(self.queries)
        facts = [queries, self.relevance.digest, digest(self.query_ids), str(self.similarity), str(self.gallery_ids)]
        if self.exclude is not None:
            groups, items = self.exclude
            facts += [digest(groups), digest(items) if isinstance(items, np.ndarray) else str(items)]
        return digest(np.array(facts))

    def check(self, total: Partial[Any], block: slice, n_shards: int) -> None:
        """Raise where a judged item is in several shards: together they rank more items than were judged."""
        if not isinstance(self.relevance, Judged):
            return
        judgements = self.relevance.judgements
        judged = sum(len(judgements.get(query, ())) for query in self.query_ids[block].tolist())
        ranked = n_shards * judged - total.unranked
        if ranked != judged - len(total.value.unranked.queries):
            raise InputError("an item that was judged is in several shards: ids of a gallery must differ")

    def on(self, part: ShardPart) -> Request:
        """The same request to the items of one shard, in memory."""
        items = slice(part.start, part.start + len(part))
        ids: np.ndarray | range = range(items.start, items.stop)
        if self.gallery_ids is not None and self._names_items:
            ids = part.values[self.gallery_ids.name]
        excluded = None
        if self.exclude is not None:
            query_groups, source = self.exclude
            if isinstance(source, Column):
                item_groups: np.ndarray | range = part.values[source.name]
            else:
                item_groups = ids if source is None else source[items]
            excluded = Groups(query_groups, item_groups, "groups to exclude")
        relevance = self.relevance.in_shard(items, part.values).bound(self.query_ids, ids)
        return Request(self.queries, part.vectors, relevance, self.query_ids, ids, excluded, similarity=self.similarity)


@dataclass(frozen=True)
class ShardSearch:
    """A search of a gallery in shards, and how to run it. partials: where to keep what each shard gives, or None."""

    search: Search
    shards: Shards
    threads: int
    partials: Location | None = None
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what is needed more than once

    def blocks(self, queries: slice) -> list[slice]:
        """Queries in blocks to count side by side: several where there are too few shards to keep all threads busy."""
        client = self.shards.client
        workers = self.threads if client is None else max(1, sum(client.nthreads().values()))
        n = queries.stop - queries.start
        parts = 1 if len(self.shards.shards) >= 2 * workers else min(workers, -(-n // 8))
        bounds = np.linspace(queries.start, queries.stop, parts + 1).astype(int).tolist()
        return [slice(start, end) for start, end in pairwise(bounds)]

    @property
    def score_type(self) -> np.dtype[Any]:
        """The type of scores, and of embeddings when they are compared."""
        assert isinstance(self.search.queries, np.ndarray)
        return np.dtype(np.float64) if self.search.similarity == "euclidean" else self.search.queries.dtype

    @property
    def n_bytes(self) -> int:
        """How much memory the embeddings take when they are laid out."""
        return len(self.shards) * self.shards.width * self.score_type.itemsize

    @property
    def is_small(self) -> bool:
        """Whether the gallery is of few embeddings, and nobody else is to count them or to go on after a crash."""
        shards = self.shards
        if shards.n_bits is not None or shards.client is not None or self.partials is not None:
            return False
        return self.n_bytes <= room()

    def in_memory(self) -> Request:
        """The same request to a small gallery, read whole; each shard is laid out when it is read, and then let go."""
        shards, search = self.shards, self.search
        shards.check()
        similarity, queries = search.similarity or "cosine", search.queries
        assert isinstance(queries, np.ndarray)
        size = len(shards), shards.width
        parts = None if self.n_bytes <= LITTLE else GalleryParts(*size, self.score_type, similarity)
        vectors = np.empty(size, shards.dtype) if parts is None else np.empty((len(shards), 0))

        def read(number: int) -> Mapping[str, np.ndarray]:
            part = shards.read(number, search.columns)
            assert isinstance(part.vectors, np.ndarray)
            with within(f"{shards.location}/{shards.shards[number].file}"):
                if parts is not None:
                    parts.put(part.start, part.vectors)
                else:
                    check_gallery(queries, part.vectors, similarity)
                    vectors[part.start : part.start + len(part)] = part.vectors
            return part.values

        with ThreadPoolExecutor(self.threads) as pool:
            read_values = list(track(pool.map(read, range(len(shards.shards))), len(shards.shards), "reading"))
        values = {name: np.concatenate([some[name] for some in read_values]) for name in search.columns}
        request = search.on(ShardPart(0, 0, vectors, values))
        if parts is None:
            embeddings = Embeddings(queries, vectors, similarity)
        else:
            one_item = np.ones((1, shards.width), self.score_type)
            embeddings = Embeddings(queries, one_item, similarity).with_gallery(parts)
        return replace(request, queries=embeddings, gallery=None)

    def gather(self, work: ShardWork, what: str = "counting", *, check: bool = True) -> list[Any]:
        """Do work on all shards; for each block of queries, the sum. check: whether the sum names unranked items."""
        return gather(
            self.shards,
            work,
            threads=self.threads,
            partials=self.partials,
            what=what,
            check=self.search.check if check else None,
        )

    def checked(self, tally: Tally) -> Tally:
        """The tally, if it counts every item of the gallery once for every query; an error if not."""
        counted, n_items = tally.retrieved.sum(1) + tally.unjudged.sum(1), len(self.shards)
        if self.search.exclude is None and (counted != n_items).any():
            query = int((counted != n_items).argmax())
            raise AssertionError(
                f"{int(counted[query]):,} items were counted for a query, but there are {n_items:,}: "
                "this is a mistake of the program"
            )
        return tally


def arrays_of(value: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Those of the named arrays that something has, with its unranked items."""
    arrays = {name: array for name in names if (array := getattr(value, name)) is not None}
    if value.unranked is not None:
        arrays |= {f"unranked_{name}": getattr(value.unranked, name) for name in ("queries", "items", "grades")}
    return arrays


def unranked_of(arrays: dict[str, np.ndarray]) -> Unranked | None:
    """The unranked items among such arrays, taken out of them."""
    names = [f"unranked_{name}" for name in ("queries", "items", "grades")]
    return Unranked(*(arrays.pop(name) for name in names)) if names[0] in arrays else None
