"""Sampled negatives: unjudged items far down the models' rankings, taken for negatives (Barkan et al. 2023)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lookalike.discovery.collection import Collection
from lookalike.discovery.rankers import Model, Ranked

__all__ = ["FirstLists", "NegativeSample", "draw_negatives", "sample_negatives"]


@dataclass(frozen=True)
class NegativeSample:
    """How to sample: n items a query, that some model ranks below `above` down to `below`, and none above that."""

    n: int
    above: int = 100
    below: int = 500
    seed: int = 0


@dataclass(frozen=True, eq=False)
class FirstLists:
    """The first items of each query by one model, in order, small enough to keep for every model.

    starts: (n_queries + 1,), where in `items` those of each query start.
    """

    starts: np.ndarray
    items: np.ndarray

    @classmethod
    def of(cls, top: Ranked, k: int, n_queries: int) -> "FirstLists":
        """The first k of each query; ties are broken by position."""
        rows, _ = top.first(k)
        items = top.items[rows].astype(np.int32 if top.items.max(initial=0) < 1 << 31 else np.int64)
        return cls(np.searchsorted(top.queries[rows], np.arange(n_queries + 1)), items)

    def of_query(self, query: int) -> np.ndarray:
        """The first items of a query, the best one first."""
        return self.items[self.starts[query] : self.starts[query + 1]]


def draw_negatives(
    models: Mapping[str, Model],
    collection: Collection,
    judged: np.ndarray,
    sample: NegativeSample,
    *,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the queries and the items of one sample for all models. judged: keys of the judged pairs."""
    tops = (model.top(collection, sample.below, threads=threads) for model in models.values())
    lists = [FirstLists.of(top, sample.below, collection.n_queries) for top in tops]
    return sample_negatives(lists, collection, judged, sample)


def sample_negatives(
    lists: Iterable[FirstLists], collection: Collection, judged: np.ndarray, sample: NegativeSample
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the queries and the items of one sample for all models. lists: the first `below` items of each.

    Barkan et al. 2023 assume such items to be negative. A query with fewer such items gets them all.
    """
    lists = list(lists)
    judged = np.sort(judged)
    bounds = np.searchsorted(judged, np.arange(collection.n_queries + 1) * collection.n_items)
    generator = np.random.default_rng([sample.seed, 2])
    is_far, chosen = np.zeros(collection.n_items, bool), []
    for query in range(collection.n_queries):
        is_far[:] = False
        firsts = [found.of_query(query) for found in lists]
        for items in firsts:
            is_far[items[sample.above :]] = True
        for items in firsts:
            is_far[items[: sample.above]] = False
        is_far[judged[bounds[query] : bounds[query + 1]] - query * collection.n_items] = False
        candidates = np.flatnonzero(is_far)
        chances = generator.random(len(candidates))
        if len(candidates) > sample.n:
            rows = np.flatnonzero(chances <= np.partition(chances, sample.n - 1)[sample.n - 1])
            rows = np.sort(rows[np.argsort(chances[rows], kind="stable")[: sample.n]])
            candidates = candidates[rows]
        chosen.append(candidates)
    sizes = [len(candidates) for candidates in chosen]
    return np.repeat(np.arange(collection.n_queries), sizes), np.concatenate(chosen).astype(np.int64)
