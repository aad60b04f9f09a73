"""Sampled negatives: unjudged items far down the models' rankings, taken for negatives (Barkan et al. 2023)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lookalike.discovery.collection import Collection
from lookalike.discovery.rankers import Model

__all__ = ["NegativeSample", "draw_negatives"]


@dataclass(frozen=True)
class NegativeSample:
    """How to sample: n items a query, that some model ranks below `above` down to `below`, and none above that."""

    n: int
    above: int = 100
    below: int = 500
    seed: int = 0


def draw_negatives(
    models: Mapping[str, Model],
    collection: Collection,
    judged: np.ndarray,
    sample: NegativeSample,
    *,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the queries and the items of one sample for all models. judged: keys of the judged pairs.

    Barkan et al. 2023 assume such items to be negative. A query with fewer such items gets them all.
    """
    far, near = [], []
    for model in models.values():
        top = model.top(collection, sample.below, threads=threads)
        rows, ranks = top.first(sample.below)
        keys = collection.keys(top.queries[rows], top.items[rows])
        near.append(keys[ranks <= sample.above])
        far.append(keys[ranks > sample.above])
    candidates = np.setdiff1d(np.concatenate(far), np.concatenate([*near, judged]))
    queries = candidates // collection.n_items
    order = np.lexsort((np.random.default_rng([sample.seed, 2]).random(len(candidates)), queries))
    within = np.arange(len(order)) - np.searchsorted(queries, queries)
    chosen = np.sort(candidates[order[within < sample.n]])
    return chosen // collection.n_items, chosen % collection.n_items
