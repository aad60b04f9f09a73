"""Average precision, whole or cut at rank k, under ties."""

from typing import NamedTuple

import numpy as np

from lookalike.core.kernels import kernels
from lookalike.metrics.rank_sums import inverse_ranks, places_before
from lookalike.metrics.reciprocal_rank import hit
from lookalike.metrics.values import Part, Values, Weighted, divide

NORMS = ("retrieved", "total", "min")
EMPTY = ("zero", "skip")

__all__ = [
    "EMPTY",
    "NORMS",
    "Sums",
    "at_cut",
    "average_precision",
    "average_precision_at_r",
    "average_precision_of_hits",
    "precision_sums",
]


def average_precision(
    relevant: np.ndarray,
    retrieved: np.ndarray,
    total: np.ndarray | None = None,
    k: int | None = None,
    norm: str = "retrieved",
) -> Values:
    """AP: the mean over relevant items of the precision at their rank, expected, best and worst under ties.

    relevant, retrieved: (n_queries, n_groups) counts; total: relevant items of each query, found or not.
    norm: what divides the sum of precisions in the top k: relevant items "retrieved" there, in "total", or
    "min"(k, total). Nan where nothing is relevant.

    >>> average_precision([[1, 0, 1]], [[1, 2, 1]]).expected            # ranks 1 and 4: (1 + 2/4) / 2
    array([0.75])
    >>> average_precision([[5]], [[10]])                                # ten items on one code, five relevant
    Values(expected=array([0.6071649]), best=array([1.]), worst=array([0.35436508]))
    """
    total = np.asarray(relevant, float).sum(1) if total is None else np.asarray(total, float)
    sums = _sums_up_to(np.full(len(total), np.inf if k is None else float(k)), relevant, retrieved)
    if k is None or norm == "total":
        return Values(*(divide(part, total) for part in sums.whole))
    if norm == "min":
        return Values(*(divide(part, np.minimum(total, k)) for part in sums.whole))
    return Values(*(np.where(total > 0, part, np.nan) for part in _over_retrieved(sums)))


def average_precision_at_r(relevant: np.ndarray, retrieved: np.ndarray, total: np.ndarray | None = None) -> Values:
    """MAP@R: the precisions at the relevant items of the top R, over R; expected, best and worst under ties.

    R is the number of relevant items of the query itself, found or not: `total`. Nan where nothing is relevant.
    Relevant items below rank R count 0 (Musgrave, Belongie and Lim 2020).

    >>> average_precision_at_r([[1, 0, 1]], [[1, 1, 1]]).expected       # R = 2: 1/1 at rank 1, nothing at rank 2
    array([0.5])
    >>> average_precision_at_r([[1, 1]], [[1, 2]])                      # the second is at rank 2, or at 3, below R
    Values(expected=array([0.75]), best=array([1.]), worst=array([0.5]))
    """
    total = np.asarray(relevant, float).sum(1) if total is None else np.asarray(total, float)
    return Values(*(divide(part, total) for part in _sums_up_to(total, relevant, retrieved).whole))


def average_precision_of_hits(
    relevant: np.ndarray,
    retrieved: np.ndarray,
    total: np.ndarray | None = None,
    k: int | None = None,
    norm: str = "retrieved",
    empty: str = "zero",
) -> Part:
    """AP, where an order of ties with nothing relevant in the top k counts 0 (empty="zero") or is left out ("skip").

    Left out, the values of a query are over the orders with a hit, and its weight is the chance of one. The weighted
    mean over queries is then the sum of expected APs over the sum of expected hits. Nan where no order has a hit.

    >>> average_precision_of_hits([[0, 1]], [[1, 2]], k=2, empty="skip")        # rank 2 with chance 1/2, or left out
    Weighted(expected=array([0.5]), best=array([0.5]), worst=array([0.5]), weight=array([0.5]))
    """
    values = average_precision(relevant, retrieved, total, k, norm)
    if empty == "zero":
        return values
    hits = hit(relevant, retrieved, k)
    always = hits.worst > 0
    weight = np.where(always, 1.0, np.minimum(hits.expected, np.nextafter(1, 0)))  # a chance may round to 1
    worst = values.worst
    if k is not None:  # the worst order that has a hit, where others have none: one relevant item, at rank k
        n_relevant = np.asarray(relevant).sum(1) if total is None else np.asarray(total)
        divisor = {"retrieved": np.ones(len(worst)), "total": n_relevant, "min": np.minimum(n_relevant, k)}[norm]
        worst = np.where(always, worst, divide(np.full(len(worst), 1 / k), divisor))
    best, worst = (np.where(weight > 0, part, np.nan) for part in (values.best, worst))
    return Weighted(divide(values.expected, weight), best, worst, weight)


class Sums(NamedTuple):
    """Sums of the precision at each relevant item of the top k, for each query, and the group that k cuts."""

    expected: np.ndarray  # over the groups that are wholly in the top k
    best: np.ndarray
    worst: np.ndarray
    hits: np.ndarray  # relevant items in these groups
    cut_expected: np.ndarray  # over the places of the cut group that are in the top k
    cut_best: np.ndarray
    cut_worst: np.ndarray
    before: np.ndarray  # items and relevant items ahead of the cut group, in it, and how many of its places count
    relevant_before: np.ndarray
    n: np.ndarray
    relevant: np.ndarray
    places: np.ndarray  # 0 where no group is cut

    @property
    def whole(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Expected, best and worst sum over the top k."""
        return self.expected + self.cut_expected, self.best + self.cut_best, self.worst + self.cut_worst


def _sums_up_to(k: np.ndarray, relevant: np.ndarray, retrieved: np.ndarray) -> Sums:
    """The sums of precision over the top k of each query, whose k is its own."""
    r, n = (np.ascontiguousarray(counts, float) for counts in (relevant, retrieved))
    sums = Sums(*np.empty((12, len(r))))
    kernels(20 * r.size).precision_sums(r, n, k, *sums)  # a twin of the function below
    return sums


def precision_sums(relevant: np.ndarray, retrieved: np.ndarray, k: np.ndarray, *out: np.ndarray) -> None:
    """Fill the arrays of `Sums`. k: the cutoff of each query, (n_queries,)."""
    r, n = relevant, retrieved
    before, rel_before = places_before(n), places_before(r)
    places = np.clip(k[:, None] - before, 0, n)  # how many of a group's places count
    inverse = inverse_ranks(before, places)
    slope = np.divide(r - 1, n - 1, out=np.zeros_like(r), where=n > 1)
    # He et al. 2018, supplement eq. 10, which needs only the sum of 1/rank
    expected = (rel_before + 1) * inverse + slope * (places - (before + 1) * inverse)
    expected *= np.divide(r, n, out=np.zeros_like(r), where=n > 0)
    most, least = np.minimum(r, places), np.maximum(0, places - n + r)
    # the i-th relevant item at the i-th place: (R + i)/(N + i) = 1 + (R - N)/(N + i)
    best = most + (rel_before - before) * inverse_ranks(before, most)
    last = before + places - least  # the rank before the first relevant item when they stand last
    worst = least + (rel_before - last) * inverse_ranks(last, least)
    whole, cut = places == n, (places > 0) & (places < n)  # at most one group of a query is cut
    for target, part in zip(out, (expected, best, worst, r), strict=False):
        target[:] = np.where(whole, part, 0).sum(1)
    for target, part in zip(out[4:], (expected, best, worst, before, rel_before, n, r, places), strict=True):
        target[:] = np.where(cut, part, 0).sum(1)


def _over_retrieved(sums: Sums) -> list[np.ndarray]:
    """AP@k over the relevant items retrieved, whose number depends on the order where k cuts a group."""
    head = sums.expected, sums.best, sums.worst
    out = [np.divide(part, sums.hits, out=np.zeros_like(part), where=sums.hits > 0) for part in head]
    queries = np.flatnonzero((sums.places > 0) & (sums.relevant > 0))  # else there is nothing to divide differently
    if len(queries):
        cut = sums.before, sums.relevant_before, sums.n, sums.relevant, sums.places
        values = np.empty((3, len(queries)))
        # a twin of the function below
        steps = 100 * (sums.places[queries] + 300).sum()
        kernels(steps).average_precision_at_cut(*(array[queries] for array in (*head, *cut)), values)
        for target, value in zip(out, values, strict=True):
            target[queries] = value
    return out


def at_cut(
    expected: np.ndarray,
    best: np.ndarray,
    worst: np.ndarray,
    before: np.ndarray,
    relevant_before: np.ndarray,
    n: np.ndarray,
    relevant: np.ndarray,
    places: np.ndarray,
    out: np.ndarray,
) -> None:
    """AP@k over the retrieved where the cutoff leaves `places` of a group of n items, `relevant` of them relevant.

    expected, best, worst: sums of precision above the group. The number h of relevant items among the places is
    hypergeometric; given h the sum and the divisor are known. With one more relevant item AP@k can fall, so that
    best and worst are sought over every possible h.
    """
    for i in range(len(n)):
        most, least = min(relevant[i], places[i]), max(0, places[i] - n[i] + relevant[i])
        h = np.arange(least, most + 1)
        hits = relevant_before[i] + h
        others = n[i] - relevant[i] - places[i]
        steps = (relevant[i] - h[:-1]) * (places[i] - h[:-1]) / ((h[:-1] + 1) * (others + h[:-1] + 1))
        logs = np.concatenate([[0.0], np.cumsum(np.log(steps))])
        chance = np.exp(logs - logs.max())
        inverse = inverse_ranks(before[i], places[i])
        slope = (h - 1) / (places[i] - 1) if places[i] > 1 else np.zeros(len(h))
        part = (relevant_before[i] + 1) * inverse + slope * (places[i] - (before[i] + 1) * inverse)
        last = before[i] + places[i] - h
        first_sum = h + (relevant_before[i] - before[i]) * inverse_ranks(np.full(len(h), before[i]), h)
        last_sum = h + (relevant_before[i] - last) * inverse_ranks(last, h)
        sums = expected[i] + h / places[i] * part, best[i] + first_sum, worst[i] + last_sum
        values = [np.divide(total, hits, out=np.zeros(len(h)), where=hits > 0) for total in sums]
        out[:, i] = values[0] @ chance / chance.sum(), values[1].max(), values[2].min()
