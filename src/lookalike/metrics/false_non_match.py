"""FNMR: the share of relevant pairs that a threshold rejects, where it accepts a given share of the other pairs."""

from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from lookalike.metrics.micro_average import Pairs, settled_pairs
from lookalike.metrics.rank_sums import places_before
from lookalike.metrics.values import Values, divide, row_sums

__all__ = ["PooledFalseNonMatch", "false_non_match_rate"]


def false_non_match_rate(relevant: np.ndarray, retrieved: np.ndarray, fmr: float = 0.001) -> Values:
    """FNMR: share of the relevant items that are not accepted where at most a share `fmr` of the others is.

    relevant, retrieved: (n_queries, n_groups) counts. With N others, the m others of the highest scores are accepted,
    m = fmr · N rounded down, and every relevant item above the next other. In a tie group of o others of which the
    j-th is that next one, each order counts alike: a relevant item is accepted with chance j/(o + 1). Lower is better:
    best accepts all relevant items of that group, worst none. Nan with one class only.

    >>> false_non_match_rate([[1, 0, 1]], [[1, 1, 2]], fmr=0.5)         # others at ranks 2 and 3 or 4: m = 1
    Values(expected=array([0.25]), best=array([0.]), worst=array([0.5]))
    """
    r, n = np.asarray(relevant, float), np.asarray(retrieved, float)
    others = n - r
    before, n_relevant, n_others = places_before(others), r.sum(1), others.sum(1)
    accepted = _whole_part(fmr, n_others)[:, None]
    share = np.clip((accepted + 1 - before) / (others + 1), 0, 1)  # of a group's relevant items, over all orders
    rejected = row_sums(r * (1 - share)), (r * (before > accepted)).sum(1), (r * (before + others > accepted)).sum(1)
    return Values(*(np.where(n_others > 0, divide(part, n_relevant), np.nan) for part in rejected))


class PooledFalseNonMatch(NamedTuple):
    """FNMR over the pairs of all queries at once, with one threshold for all of them.

    >>> columns = np.array([2, 1]), np.array([3.0, 1.0, 2.0]), np.array([1, 0, 1]), np.array([0, 1, 1])
    >>> PooledFalseNonMatch(*columns, np.zeros(2)).settled().expected.mean()    # 3 is accepted, 2 ties with another
    np.float64(0.25)
    """

    sizes: np.ndarray  # groups of each query, (n_queries,)
    scores: np.ndarray  # of each group, comparable between queries
    relevant: np.ndarray  # items in each group
    others: np.ndarray
    fmr: np.ndarray  # (n_queries,), the same for all

    @property
    def _pairs(self) -> Pairs:
        return Pairs(*self[:4])

    def of(self, rows: np.ndarray) -> "PooledFalseNonMatch":
        """The groups of some queries."""
        return PooledFalseNonMatch(*self._pairs.of(rows), self.fmr[rows])

    def settled(self) -> Values:
        """The rate, plus each query's influence on it; best and worst are the whole's. Nan with one class only."""
        fmr = float(self.fmr[0])
        values = settled_pairs(self._pairs, partial(false_non_match_rate, fmr=fmr), partial(_influence, fmr=fmr))
        return values._replace(expected=_without_sum(values.expected)) if (values.worst == 0).all() else values


def _influence(relevant: np.ndarray, others: np.ndarray, rate: float, fmr: float) -> tuple[np.ndarray, np.ndarray]:
    """What a relevant and what another item at each threshold does to the rate.

    A relevant item adds to the relevant ones that are rejected or accepted. Another item moves the threshold: one more
    above it, and fewer of the rest may be accepted. How many relevant items that costs is the slope of the ROC curve,
    taken over as many others as chance moves the threshold by, on both sides.
    """
    n_relevant, n_others = relevant.sum(), others.sum()
    before = others.cumsum() - others
    allowed = fmr * n_others

    def share(limit: float) -> np.ndarray:
        """Of each group, the share that is accepted where so many others are."""
        inside = np.divide(limit - before, others, out=(before <= limit).astype(float), where=others > 0)
        return np.clip(inside, 0, 1)

    margin = 1 + np.sqrt(allowed)
    low, high = max(0.0, allowed - margin), min(n_others, allowed + margin)
    slope = (relevant * (share(high) - share(low))).sum() / (high - low) / n_relevant
    accepted = np.clip((_whole_part(fmr, np.array([n_others])) + 1 - before) / (others + 1), 0, 1)
    return (1 - accepted - rate) / n_relevant, slope * (share(allowed) - fmr)


def _without_sum(values: np.ndarray) -> np.ndarray:
    """Values whose sum is 0 but for rounding, made 0: where no order rejects anything, the rate is 0 and not 1e-17.

    >>> float(_without_sum(np.array([0.1, 0.2, -0.3])).sum())
    0.0
    """
    rounded = np.ldexp(np.rint(np.ldexp(values, 40)), -40)  # sums of these are exact
    rounded[np.abs(rounded).argmax()] -= rounded.sum()
    return np.asarray(rounded)


def _whole_part(fmr: float, n_others: np.ndarray) -> np.ndarray:
    """fmr · n rounded down, for each n. The share is what its decimals say: 0.29 of 100 is 29, in floats it is less."""
    exact = Fraction(repr(float(fmr)))
    values, place = np.unique(n_others, return_inverse=True)
    return np.array([exact.numerator * int(n) // exact.denominator for n in values], float)[place]
