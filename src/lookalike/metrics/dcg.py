"""Discounted cumulative gain of graded relevance."""

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.kernels import kernels
from lookalike.metrics.rank_sums import LONGEST_TABLE, discounts, places_before
from lookalike.metrics.values import Values, divide, row_sums

GAINS = ("exponential", "linear")
DISCOUNTS = ("log2", "reciprocal")

__all__ = ["DISCOUNTS", "GAINS", "dcg", "gain_sums", "ndcg"]


def dcg(counts: np.ndarray, k: int | None = None, gain: str = "exponential", discount: str = "log2") -> Values:
    """DCG@k: gain of each item times the discount of its rank, summed. Always defined.

    counts: (n_queries, n_groups, grades). gain: 2^grade - 1, or the grade itself ("linear").
    discount: 1/log2(rank + 1), or 1/rank ("reciprocal").

    >>> dcg([[[1, 0, 1]]])                                              # grades 0 and 2 tied: 3 · (1 + 1/log2(3)) / 2
    Values(expected=array([2.44639463]), best=array([3.]), worst=array([1.89278926]))
    """
    by_grade = np.moveaxis(np.asarray(counts, np.int64), 2, 0)
    gains = gains_of(len(by_grade), gain)
    deepest = int(by_grade.sum((0, 2)).max(initial=0))
    k = deepest if k is None else min(k, deepest)
    out = np.zeros((3, by_grade.shape[1]))
    if k <= LONGEST_TABLE:  # a twin, as far down as its table reaches
        kernels(10 * by_grade.size).gain_sums(by_grade, gains, discounts(np.arange(k + 1), discount), out)
    else:
        gain_sums(by_grade, gains, k, discount, out)
    return Values(*out)


def gain_sums(by_grade: np.ndarray, gains: np.ndarray, k: int, discount: str, out: np.ndarray) -> None:
    """Fill `out` with expected, best and worst DCG of counts (grades, n_queries, n_groups)."""
    n = by_grade.sum(0)
    before = places_before(n)

    def worth(rank: np.ndarray) -> np.ndarray:
        return discounts(np.minimum(rank, k), discount)

    edges = worth(np.concatenate([before, before[:, -1:] + n[:, -1:]], axis=1))  # a group ends where the next starts
    start, stop = edges[:, : n.shape[1]], edges[:, edges.shape[1] - n.shape[1] :]
    gained = sum(gains[grade] * by_grade[grade] for grade in range(1, len(gains)))
    out[0] = row_sums(gained / np.maximum(n, 1) * (stop - start))
    # the highest grade first, or the highest grade last: each grade takes the places behind the one before
    for target, grades in ((out[1], range(len(gains) - 1, 0, -1)), (out[2], range(len(gains)))):
        rank, end = before, start
        for n_grades, grade in enumerate(grades, 1):
            rank, begin = rank + by_grade[grade], end
            end = stop if n_grades == len(gains) else worth(rank)  # all grades end where their group does
            target += gains[grade] * row_sums(end - begin)


def ndcg(
    counts: np.ndarray,
    totals: np.ndarray | None = None,
    k: int | None = None,
    gain: str = "exponential",
    discount: str = "log2",
) -> Values:
    """nDCG@k: DCG@k over that of the ideal ranking of all items, ranked or not. Nan where no item has a gain.

    counts: (n_queries, n_groups, grades); totals: (n_queries, grades).

    >>> ndcg([[[1, 0, 1]]]).expected
    array([0.81546488])
    """
    counts = np.asarray(counts)
    totals = counts.sum(1) if totals is None else np.asarray(totals)
    last = totals[:, ::-1].cumsum(1)[:, ::-1]  # the last rank of each grade in the ideal ranking
    ends = discounts(last if k is None else np.minimum(last, k), discount)
    steps = np.diff(gains_of(counts.shape[2], gain), prepend=0.0)  # a grade gains a step more than the one below
    ideal = row_sums(ends * steps)
    # sums in another order may differ in the last digit: a perfect ranking is 1
    return Values(*(np.minimum(divide(part, ideal), 1) for part in dcg(counts, k, gain, discount)))


def gains_of(n_grades: int, gain: str) -> np.ndarray:
    """The gain of each grade."""
    if gain == "linear":
        return np.arange(n_grades, dtype=float)
    if n_grades > 1000:
        raise InputError(f"a gain of 2^{n_grades - 1} - 1 is too large a number: use gain='linear'")
    return np.asarray(2.0 ** np.arange(n_grades) - 1)
