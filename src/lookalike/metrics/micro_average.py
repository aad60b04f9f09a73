"""Metrics of all queries together, which are no means over queries: ratios of sums, and areas over pooled pairs.

Each query gets the whole plus its own influence on it: the number of queries times the derivative of the whole by the
query's weight. The mean over queries is then the whole itself, and resampling the values, or flipping the signs of
their differences, does to first order what resampling the queries would do to the whole.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from lookalike.metrics.areas import area_under_precision_recall, area_under_roc
from lookalike.metrics.values import Values

__all__ = ["Pairs", "PooledPrecisionRecall", "PooledRoc", "Ratio", "ratio_of_sums", "settled_pairs"]


class Ratio(NamedTuple):
    """The sum over queries of what each adds (expected, best, worst), over the sum of their weights, (n_queries,)."""

    expected: np.ndarray
    best: np.ndarray
    worst: np.ndarray
    weight: np.ndarray

    def settled(self) -> Values:
        """The ratio, plus each query's influence on it; nan where no query has any weight."""
        return Values(*(ratio_of_sums(part, self.weight) for part in self[:3]))

    def of(self, rows: np.ndarray) -> "Ratio":
        """What some queries add."""
        return Ratio(*(column[rows] for column in self))


def ratio_of_sums(part: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Values of each query whose mean is Σ part / Σ weight; a query without part and weight has just that value.

    >>> ratio_of_sums(np.array([1.0, 2.0, 0.0]), np.array([1, 4, 0]))   # 3/5, and what each query does to it
    array([0.84, 0.36, 0.6 ])
    """
    total = weight.sum()
    if total == 0:
        return np.full(len(part), np.nan)
    ratio = part.sum() / total
    return np.asarray(ratio + (part - ratio * weight) * (len(part) / total))


class Pairs(NamedTuple):
    """Groups of equal score, those of one query behind those of another; what pooled areas are made of."""

    sizes: np.ndarray  # groups of each query, (n_queries,)
    scores: np.ndarray  # of each group, comparable between queries
    relevant: np.ndarray  # items in each group
    others: np.ndarray

    def of(self, rows: np.ndarray) -> Self:
        """The groups of some queries.

        >>> pairs = Pairs(np.array([2, 0, 1]), np.array([3.0, 1.0, 2.0]), np.array([1, 0, 1]), np.array([0, 1, 1]))
        >>> pairs.of(np.array([0, 2])).scores, pairs.of(np.array([2])).scores
        (array([3., 1., 2.]), array([2.]))
        """
        sizes, starts = self.sizes[rows], (self.sizes.cumsum() - self.sizes)[rows]
        groups = np.arange(sizes.sum()) + np.repeat(starts - (sizes.cumsum() - sizes), sizes)
        return type(self)(sizes, *(column[groups] for column in self[1:]))


class PooledRoc(Pairs):
    """AUC over the pairs of all queries at once: any relevant item against any other; a tied pair counts half.

    >>> pooled = PooledRoc(np.array([2, 1]), np.array([3.0, 1.0, 2.0]), np.array([1, 0, 1]), np.array([0, 1, 1]))
    >>> pooled.settled()                                                # 3 and 2 against 2 and 1: 0.875
    Values(expected=array([1.125, 0.625]), best=array([1., 1.]), worst=array([0.75, 0.75]))
    """

    def settled(self) -> Values:
        """The area, plus each query's influence on it; best and worst are the whole's. Nan with one class only."""
        return settled_pairs(self, area_under_roc, _roc_influence)


class PooledPrecisionRecall(Pairs):
    """PRAUC over the pairs of all queries at once; items of equal score, whatever their queries, are one threshold."""

    def settled(self) -> Values:
        """The area, plus each query's influence on it. Nan with one class only."""
        return settled_pairs(self, area_under_precision_recall, _precision_recall_influence)


Influence = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]


def settled_pairs(pairs: Pairs, area: Callable[..., Values], influence: Influence) -> Values:
    """A metric of all pairs at once, plus each query's influence on it; best and worst are the whole's."""
    n = len(pairs.sizes)
    thresholds, group = np.unique(-pairs.scores, return_inverse=True)  # the highest score first
    relevant, others = (np.bincount(group, items, len(thresholds)) for items in (pairs.relevant, pairs.others))
    expected, best, worst = (float(part[0]) for part in area([relevant], [relevant + others]))
    added: np.ndarray = np.zeros(n)
    if not np.isnan(expected):
        of_relevant, of_other = influence(relevant, others, expected)
        of_group = pairs.relevant * of_relevant[group] + pairs.others * of_other[group]
        added = np.bincount(np.repeat(np.arange(n), pairs.sizes), of_group, n)
    return Values(expected + n * added, np.full(n, best), np.full(n, worst))


def _roc_influence(relevant: np.ndarray, others: np.ndarray, area: float) -> tuple[np.ndarray, np.ndarray]:
    """What a relevant and what another item at each threshold does to the AUC."""
    n_relevant, n_others = relevant.sum(), others.sum()
    below = (n_others - others.cumsum() + others / 2) / n_others  # share of the others below a relevant item
    above = (relevant.cumsum() - relevant / 2) / n_relevant  # share of the relevant above another item
    return (below - area) / n_relevant, (above - area) / n_others


def _precision_recall_influence(relevant: np.ndarray, others: np.ndarray, area: float) -> tuple[np.ndarray, np.ndarray]:
    """What a relevant and what another item at each threshold does to the PRAUC.

    An item is among the relevant ones, or only among all, of its own threshold and of every later one:
    the derivative of hits/items by its weight is 1/items - hits/items², or -hits/items².
    """
    n_relevant = relevant.sum()
    hits, items = relevant.cumsum(), (relevant + others).cumsum()
    gained, lost = ((relevant * part)[::-1].cumsum()[::-1] for part in (1 / items, hits / items**2))
    return (hits / items + gained - lost - area) / n_relevant, -lost / n_relevant
