"""Metrics of the first relevant item: whether it is in the top k, and how far up."""

import numpy as np

from lookalike.core.kernels import kernels
from lookalike.metrics.rank_sums import places_before
from lookalike.metrics.values import Values

__all__ = ["first_relevant", "hit", "reciprocal_rank"]


def hit(relevant: np.ndarray, retrieved: np.ndarray, k: int | None = None) -> Values:
    """Hit@k: 1 if any relevant item is in the top k; expected, the chance of it. Always defined.

    relevant, retrieved: (n_queries, n_groups) counts.

    >>> hit([[0, 1]], [[1, 4]], k=3)                                    # two of the four tied places count
    Values(expected=array([0.5]), best=array([1.]), worst=array([0.]))
    """
    chances, best, worst, limit = _first_group(relevant, retrieved, k)
    has_relevant = np.isfinite(best)
    return Values(chances[0], *((has_relevant & (rank <= limit)).astype(float) for rank in (best, worst)))


def reciprocal_rank(
    relevant: np.ndarray, retrieved: np.ndarray, total: np.ndarray | None = None, k: int | None = None
) -> Values:
    """RR@k: 1/rank of the first relevant item, 0 past k. Nan where nothing is relevant, found or not.

    >>> reciprocal_rank([[0, 1]], [[1, 2]])                             # rank 2 or 3
    Values(expected=array([0.41666667]), best=array([0.5]), worst=array([0.33333333]))
    """
    chances, best, worst, limit = _first_group(relevant, retrieved, k)
    total = np.asarray(relevant).sum(1) if total is None else np.asarray(total)
    parts = (chances[1], np.where(best <= limit, 1 / best, 0), np.where(worst <= limit, 1 / worst, 0))
    return Values(*(np.where(total > 0, part, np.nan) for part in parts))


def _first_group(
    relevant: np.ndarray, retrieved: np.ndarray, k: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(chance in the top k, expected 1/rank), best and worst rank of the first relevant item, and the last rank."""
    r, n = np.asarray(relevant, float), np.asarray(retrieved, float)
    limit = np.inf if k is None else float(k)
    relevant_groups = r > 0
    queries = np.flatnonzero(relevant_groups.any(1))
    groups = relevant_groups.argmax(1)[queries] if len(queries) else queries
    near = slice(0, groups.max(initial=0) + 1)  # nothing matters behind the last first group
    before, size, hits = (array[queries, groups] for array in (places_before(n[:, near]), n, r))
    best, worst = np.full(len(r), np.inf), np.full(len(r), np.inf)
    best[queries], worst[queries] = before + 1, before + size - hits + 1
    chances = np.zeros((2, len(r)))
    if len(queries):
        values = np.empty((2, len(queries)))
        kernels(100 * size.sum()).first_relevant(before, size, hits, limit, values)  # a twin of the function below
        chances[:, queries] = values
    return chances, best, worst, limit


def first_relevant(before: np.ndarray, n: np.ndarray, relevant: np.ndarray, k: float, out: np.ndarray) -> None:
    """out[0] = chance that the first relevant item is in the top k, out[1] = its expected reciprocal rank.

    In a group of n items behind `before` others the first of the relevant ones is at place s with chance
    C(n - s, relevant - 1) / C(n, relevant), each from the one before.
    """
    for i in range(len(n)):
        places = np.arange(1, n[i] - relevant[i] + 2)
        steps = (n[i] - places[:-1] - relevant[i] + 1) / (n[i] - places[:-1])
        chance = relevant[i] / n[i] * np.concatenate([[1.0], np.cumprod(steps)])
        counts = before[i] + places <= k
        out[0, i] = 1.0 if counts.all() else min(1.0, chance[counts].sum())
        out[1, i] = (chance[counts] / (before[i] + places[counts])).sum()
