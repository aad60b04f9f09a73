"""The order in which pairs of a pool are judged: rank by rank, or first the pairs of the best models so far."""

from collections.abc import Callable

import numpy as np

from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import InputError
from lookalike.discovery.pool import Pool

ORDERS = ("depth", "adaptive")

__all__ = ["ORDERS", "judge_in_order", "next_pairs"]


def next_pairs(pool: Pool, grades: np.ndarray, n: int, order: str = "depth") -> np.ndarray:
    """Rows of the next n pairs to judge. grades: of each pair of the pool, -1 where it is not judged yet.

    depth: all pairs that any model ranked first, then second, and so on. adaptive: the next rank of the model that was
    most often right so far, by the mean of its posterior (MaxMean, Losada et al. 2016). Models that are equally good,
    as all are while nothing is judged, take turns rank by rank, and pairs drawn by chance are mixed in at the pace of
    the others. The pairs of one query stay together.

    >>> from lookalike.discovery import Collection
    >>> shop = Collection(["q"], ["a", "b", "c", "d"])
    >>> pool = Pool.build({"good": np.array([[4, 3, 2, 1]]), "bad": np.array([[1, 2, 3, 4]])}, shop, k=2)
    >>> [pool.pairs[row][1] for row in next_pairs(pool, np.array([1, -1, -1, 0]), 1, "adaptive")]   # a is good, d bad
    ['b']
    """
    choice("order", order, ORDERS)
    if n < 0:
        raise InputError(f"the number of pairs to judge next must be from 0, got {n}")
    if len(grades) != len(pool):
        raise InputError(f"the pool has {len(pool)} pairs, got {len(grades)} grades")
    open_rows = np.flatnonzero(grades < 0)
    if order == "depth" or not pool.models:
        layers = pool.layers()
        chosen = open_rows[np.argsort(layers[open_rows], kind="stable")[:n]]
        return _together(chosen, layers[chosen])
    by_chance = open_rows[~pool.proposed[open_rows].any(1)]
    share = len(by_chance) / max(len(open_rows), 1)
    generator = np.random.default_rng([pool.seed, len(open_rows)])
    n_mixed = int(share * n + generator.random())  # on the average their share, also one at a time
    mixed = generator.permutation(by_chance)[:n_mixed]
    rows, used = [mixed], np.zeros(len(pool), bool)
    left = min(n, len(open_rows)) - len(mixed)
    for models in _best_models(pool, grades):
        if left <= 0:
            break
        ranks = np.where(pool.proposed[:, models], pool.ranks[:, models], pool.k + 1).min(1)
        proposed = np.flatnonzero((ranks <= pool.k) & (grades < 0) & ~used)
        proposed = proposed[np.argsort(ranks[proposed], kind="stable")][:left]
        used[proposed] = True
        rows.append(proposed)
        left -= len(proposed)
    chosen = np.concatenate(rows)
    return _together(chosen, np.zeros(len(chosen)))


def judge_in_order(
    pool: Pool, judge: Callable[[np.ndarray], np.ndarray], budget: int, order: str = "depth", step: int = 100
) -> np.ndarray:
    """Judge `budget` pairs, `step` at a time, in an order; returns the grade of each pair, -1 for the others.

    judge: from rows of the pool to their grades.
    """
    whole_number("step", step)
    grades, asked = np.full(len(pool), -1, np.int64), np.zeros(len(pool), bool)
    while (left := min(budget, len(pool)) - int(asked.sum())) > 0:
        so_far = np.where(asked, np.maximum(grades, 0), -1)  # what nobody could decide is not asked again
        rows = next_pairs(pool, so_far, min(step, left), order)
        asked[rows] = True
        grades[rows] = judge(rows)
    return grades


def _best_models(pool: Pool, grades: np.ndarray) -> list[np.ndarray]:
    """Groups of equally good models, the best first, by the posterior mean of their precision (uniform prior)."""
    judged = pool.proposed & (grades >= 0)[:, None]
    positive = pool.proposed & (grades > 0)[:, None]
    means = (positive.sum(0) + 1) / (judged.sum(0) + 2)
    return [np.flatnonzero(means == mean) for mean in np.unique(means)[::-1]]


def _together(rows: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """The same rows, sorted by query within each layer."""
    return np.asarray(rows[np.lexsort((rows, layers))])
