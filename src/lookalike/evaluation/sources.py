"""Where tallies come from: codes or scores in memory, shards, a run, or a tally that was counted before."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Generic, Protocol, Self, TypeVar

from lookalike.core.checks import choice
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, Option
from lookalike.core.progress import track
from lookalike.core.threads import n_threads
from lookalike.evaluation.count_codes import code_counter
from lookalike.evaluation.count_scores import METHODS, ScoreCounter, count_run
from lookalike.evaluation.count_shards import SHARE, Search, ShardSearch, requests_of_rows, row_passes, tallies
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import UNJUDGED, Judged, Relevance
from lookalike.evaluation.request import Request
from lookalike.evaluation.tally import NO_DISTANCE, Tally
from lookalike.shards.dask import WorkerThread, computed, worker_threads
from lookalike.shards.gallery import Shards
from lookalike.shards.storage import Location

QUERIES = 32  # for so many a worker of a cluster may read the whole gallery
NO_CODES = "LGAP is a metric of codes: embeddings and scores have no code space to fill"

T = TypeVar("T")

__all__ = ["GivenTally", "RunSource", "TallySource", "source_of"]


class TallySource(Protocol):
    """What gives the tallies of all queries, a block of queries at a time."""

    @property
    def about(self) -> dict[str, Any]:
        """What a result says of where it comes from."""

    @property
    def of_scores(self) -> bool:
        """Whether tie groups can be merged where a metric does not need their scores."""

    @property
    def judged(self) -> bool:
        """Whether pairs can be unjudged."""

    def with_negatives(self, kind: str, rel: int) -> Self:
        """The same with other negatives, as `Judged.with_negatives` has them."""

    def each(self, needs: Needs, use: Callable[[Tally], T]) -> Iterable[T]:
        """What `use` makes of the tally of each block, in order. Tallies are not kept: memory does not grow."""


def source_of(
    request: Request, *, threads: int | None = None, client: Any = None, partials: Any = None, method: str = "auto"
) -> TallySource:
    """What counts a request."""
    if isinstance(request.gallery, Shards):
        if method != "auto":
            raise InputError("how shards are counted is chosen by itself, got ", Option("method", method))
        shards = request.gallery if client is None else request.gallery.on(client)
        return _ShardSource(request, shards, n_threads(threads), None if partials is None else Location.of(partials))
    if client is not None or partials is not None:
        raise InputError(
            "client and partials are for a gallery in shards: lookalike shard writes one, la.Shards.open opens it"
        )
    kind = _CodeSource if isinstance(request.queries, Codes) else _ScoreSource
    return kind(request, n_threads(threads), method)


@dataclass(frozen=True)
class _RequestSource:
    """What all sources that count a request have in common."""

    request: Request

    @property
    def about(self) -> dict[str, Any]:
        return self.request.settled_about()

    @property
    def judged(self) -> bool:
        return self.request.relevance.background == UNJUDGED

    def with_negatives(self, kind: str, rel: int) -> Self:
        relevance = _with_negatives(self.request.relevance, kind, rel)
        return replace(self, request=replace(self.request, relevance=relevance))


@dataclass(frozen=True)
class _CodeSource(_RequestSource):
    """Codes in memory."""

    threads: int
    method: str
    of_scores = False

    def each(self, needs: Needs, use: Callable[[Tally], T]) -> list[T]:
        counter = code_counter(self.request, needs, self.method, self.threads)
        n = len(self.request.query_ids)
        row = (counter.n_bits + 1) * (self.request.relevance.max_grade + 2) * 8
        size = max(8, min(-(-n // self.threads), (1 << 25) // row))
        return _map_blocks(counter, slice(0, n), -(-size // 8) * 8, self.threads, use)


@dataclass(frozen=True)
class _ScoreSource(_RequestSource):
    """Embeddings or scores in memory."""

    threads: int
    method: str
    of_scores = True

    def each(self, needs: Needs, use: Callable[[Tally], T]) -> list[T]:
        if needs.radius is not None:
            raise InputError(NO_CODES)
        choice("method", self.method, METHODS)
        counter = ScoreCounter(self.request, needs, "around" if self.method == "auto" else self.method)
        return _map_blocks(counter, slice(0, len(self.request.query_ids)), counter.block_rows, self.threads, use)


@dataclass(frozen=True)
class _ShardSource(_RequestSource):
    """A gallery in shards, counted here or by the client of the shards."""

    shards: Shards
    threads: int
    partials: Location | None

    @property
    def of_scores(self) -> bool:
        return self.shards.n_bits is None

    def each(self, needs: Needs, use: Callable[[Tally], T]) -> Iterable[T]:
        if self.of_scores:
            self._check(needs)
        request = self.request
        search = Search(
            request.queries,  # type: ignore[arg-type]  # codes or an array, as `inputs` makes it
            request.query_ids,
            request.relevance,
            request.gallery_ids,  # type: ignore[arg-type]
            request.excluded,  # type: ignore[arg-type]
            request.similarity,
        )
        for name in search.columns:
            _ = self.shards[name]  # raises where there is no such column
        run = ShardSearch(search, self.shards, self.threads, self.partials)
        if not self.of_scores or needs.k is not None:
            return (use(tally) for tally in tallies(run, needs))

        if shares := self._shares(run):
            return self._by_shares(run, shares, needs, use)
        if run.is_small:
            return _count_whole(run, run.in_memory(), needs, use, slice(0, len(request.query_ids)))
        if turns := row_passes(run):
            counts = (_count_whole(run, rows, needs, use, turn) for turn, rows in requests_of_rows(run, turns))
            return chain.from_iterable(counts)
        return (use(tally) for tally in tallies(run, needs))

    def _shares(self, run: ShardSearch) -> list[tuple[WorkerThread, slice]]:
        """Queries for each thread of a cluster's workers; empty where the cluster divides the shards.

        Each thread reads the gallery whole. So it must have room for it, and enough queries to be worth the reading.
        """
        if self.shards.client is None or self.partials is not None:
            return []
        threads, n = worker_threads(self.shards.client), len(self.request.query_ids)
        if n < QUERIES * len(threads) or any(run.n_bytes > thread.memory // SHARE for thread in threads):
            return []
        edges = [n * part // len(threads) for part in range(len(threads) + 1)]
        return [(thread, slice(*share)) for thread, share in zip(threads, pairwise(edges), strict=True)]

    def _by_shares(
        self, run: ShardSearch, shares: list[tuple[WorkerThread, slice]], needs: Needs, use: Callable[[Tally], T]
    ) -> list[T]:
        """What `use` makes of the tallies, each share of the queries by a thread of a worker."""
        self.shards.check()
        alone = ShardSearch(run.search, Shards(self.shards.location, self.shards.manifest), threads=1)
        threads, queries = [thread for thread, _ in shares], [share for _, share in shares]
        each = computed(self.shards.client, _Share(alone, needs, use), queries, threads, "evaluating")
        return list(chain.from_iterable(each))

    def _check(self, needs: Needs) -> None:
        """Raise where embeddings in shards cannot give what is needed."""
        if needs.radius is not None:
            raise InputError(NO_CODES)
        if needs.scores:
            raise InputError(
                Option("average", "micro"),
                " compares every score of every query: of embeddings in shards it is for judged pairs alone; take ",
                Option("average", "macro"),
            )
        if needs.distances and self.request.similarity != "euclidean":
            raise InputError(*NO_DISTANCE)


@dataclass(frozen=True)
class _Share(Generic[T]):
    """What a worker of a cluster does with a share of the queries: it reads the gallery whole and counts them."""

    run: ShardSearch
    needs: Needs
    use: Callable[[Tally], T]

    def __call__(self, queries: slice) -> list[T]:
        return _count_whole(self.run, self.run.in_memory(), self.needs, self.use, queries)


def _count_whole(
    run: ShardSearch, request: Request, needs: Needs, use: Callable[[Tally], T], queries: slice
) -> list[T]:
    """What `use` makes of the tallies of some queries. request: has their scores with the items of all shards."""
    counter = ScoreCounter(request, needs)

    def use_checked(tally: Tally) -> T:
        return use(run.checked(replace(tally, method="shards")))  # which keeps what the check computed

    return _map_blocks(counter, queries, counter.block_rows, run.threads, use_checked)


@dataclass(frozen=True)
class RunSource:
    """A run, {query_id: {item_id: score}}, and the judged pairs that it is evaluated on."""

    run: Mapping[Any, Mapping[Any, float]]
    relevance: Judged
    about: dict[str, Any]
    of_scores = False
    judged = True

    def with_negatives(self, kind: str, rel: int) -> Self:
        """The run on judged pairs with other negatives."""
        return replace(self, relevance=_with_negatives(self.relevance, kind, rel))

    def each(self, needs: Needs, use: Callable[[Tally], T]) -> list[T]:  # noqa: ARG002  # it keeps all that metrics need
        """What `use` makes of the tally of all queries."""
        return [use(count_run(self.run, self.relevance))]


@dataclass(frozen=True)
class GivenTally:
    """A tally that was counted before."""

    tally: Tally
    of_scores = False
    judged = True

    @property
    def about(self) -> dict[str, Any]:
        """What the tally says of where it comes from, and how many items it ranks."""
        return {"inputs": self.tally.inputs, "items": int(self.tally.ranked.sum(1).max(initial=0))}

    def with_negatives(self, kind: str, rel: int) -> Self:  # noqa: ARG002
        """An error: negatives are chosen when a tally is counted."""
        raise InputError(
            f"a tally was counted with its own negatives: count with relevance.with_negatives({kind!r}), then "
            f"evaluate without negatives={kind!r}"
        )

    def each(self, needs: Needs, use: Callable[[Tally], T]) -> list[T]:  # noqa: ARG002
        """What `use` makes of the tally."""
        return [use(self.tally)]


def _with_negatives(relevance: Relevance, kind: str, rel: int) -> Judged:
    if not isinstance(relevance, Judged):
        raise InputError(f"negatives={kind!r} is for judged pairs: pass la.judged(pairs, sampled=…) as relevance")
    return relevance.with_negatives(kind, rel)


def _map_blocks(
    counter: Callable[[slice], Tally], queries: slice, size: int, threads: int, use: Callable[[Tally], T]
) -> list[T]:
    """Count queries in blocks of a size and use each tally at once, so that memory does not grow with the queries."""
    blocks = [slice(start, min(start + size, queries.stop)) for start in range(queries.start, queries.stop, size)]
    if threads == 1 or len(blocks) == 1:
        return list(track((use(counter(block)) for block in blocks), len(blocks), "evaluating"))
    with ThreadPoolExecutor(threads) as pool:
        return list(track(pool.map(lambda block: use(counter(block)), blocks), len(blocks), "evaluating"))
