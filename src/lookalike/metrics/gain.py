"""Discounted cumulative gain of graded relevance."""

import numpy as np

from lookalike.metrics.ranks import discounts, places_before
from lookalike.metrics.values import Values, divide

GAINS = ("exponential", "linear")
DISCOUNTS = ("log2", "reciprocal")

__all__ = ["DISCOUNTS", "GAINS", "dcg", "ndcg"]


def dcg(counts: np.ndarray, k: int | None = None, gain: str = "exponential", discount: str = "log2") -> Values:
    """DCG@k: gain of each item times the discount of its rank, summed. Always defined.

    counts: (n_queries, n_groups, grades). gain: 2^grade - 1, or the grade itself ("linear").
    discount: 1/log2(rank + 1), or 1/rank ("reciprocal").

    >>> dcg([[[1, 0, 1]]])                                              # grades 0 and 2 tied: 3 · (1 + 1/log2(3)) / 2
    Values(expected=array([2.44639463]), best=array([3.]), worst=array([1.89278926]))
    """
    counts = np.asarray(counts)
    gains = gains_of(counts.shape[2], gain)
    n = counts.sum(2)
    before = places_before(n)

    def worth(rank: np.ndarray) -> np.ndarray:
        return discounts(rank if k is None else np.minimum(rank, k), discount)

    start = worth(before)
    whole = np.append(start[:, 1:], worth(n.sum(1))[:, None], axis=1) - start if n.size else np.zeros(n.shape)
    by_grade = np.moveaxis(counts, 2, 0)
    gained = sum(gains[grade] * by_grade[grade] for grade in range(1, len(gains)))
    expected = (gained / np.maximum(n, 1) * whole).sum(1)
    if sum((items > 0).astype(np.int8) for items in by_grade).max(initial=0) <= 1:  # no group mixes grades
        return Values(expected, expected, expected)
    best, worst = np.zeros(len(n)), np.zeros(len(n))
    # the highest grade first, and the highest grade last: each grade takes the places behind the one before
    for out, grades in ((best, range(counts.shape[2] - 1, 0, -1)), (worst, range(counts.shape[2]))):
        place, end = before, start
        for grade in grades:
            place, begin = place + counts[:, :, grade], end
            end = worth(place)
            out += gains[grade] * (end - begin).sum(1)
    return Values(expected, best, worst)


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
    ideal = dcg(totals[:, ::-1, None] * np.eye(counts.shape[2], dtype=np.int64)[::-1], k, gain, discount).expected
    return Values(*(divide(part, ideal) for part in dcg(counts, k, gain, discount)))


def gains_of(n_grades: int, gain: str) -> np.ndarray:
    """The gain of each grade."""
    if gain == "linear":
        return np.arange(n_grades, dtype=float)
    if n_grades > 1000:
        raise ValueError(f"a gain of 2^{n_grades - 1} - 1 is too large a number: use gain='linear'")
    return np.asarray(2.0 ** np.arange(n_grades) - 1)
