"""Average precision, whole or cut at rank k, under ties."""

import numpy as np

from lookalike._compiled import kernels
from lookalike.metrics.ranks import inverse_ranks, places_before
from lookalike.metrics.values import Values, divide

NORMS = ("retrieved", "total", "min")

__all__ = ["NORMS", "at_cut", "average_precision"]


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
    Values(expected=array([0.60716482]), best=array([1.]), worst=array([0.35436508]))
    """
    r, n = np.asarray(relevant, float), np.asarray(retrieved, float)
    found = r.sum(1)
    total = found if total is None else np.asarray(total, float)
    before, rel_before = places_before(n), places_before(r)
    places = n if k is None else np.clip(k - before, 0, n)  # how many of a group's places count
    sums = [part.sum(1) for part in _sums_of_precision(r, n, before, rel_before, places)]
    if k is None or norm == "total":
        divisor = total
    elif norm == "min":
        divisor = np.minimum(total, k)
    else:
        return _over_retrieved(r, n, before, rel_before, places, total)
    return Values(*(divide(part, divisor) for part in sums))


def _sums_of_precision(
    r: np.ndarray, n: np.ndarray, before: np.ndarray, rel_before: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision at each relevant item, summed over each group's first places: expected, best, worst."""
    inverse = inverse_ranks(before, places)
    slope = np.divide(r - 1, n - 1, out=np.zeros_like(r), where=n > 1)
    # He et al. 2018, supplement eq. 10, which needs only the sum of 1/rank
    expected = (rel_before + 1) * inverse + slope * (places - (before + 1) * inverse)
    expected *= np.divide(r, n, out=np.zeros_like(r), where=n > 0)
    if not ((r > 0) & (r < n)).any():
        return expected, expected, expected
    most, least = np.minimum(r, places), np.maximum(0, places - n + r)
    # (R + i)/(N + i) summed over the i-th relevant item at the i-th place: 1 + (R - N)/(N + i)
    best = most + (rel_before - before) * inverse_ranks(before, most)
    last = before + places - least  # rank before the first of the relevant items when they stand last
    worst = least + (rel_before - last) * inverse_ranks(last, least)
    return expected, best, worst


def _over_retrieved(
    r: np.ndarray, n: np.ndarray, before: np.ndarray, rel_before: np.ndarray, places: np.ndarray, total: np.ndarray
) -> Values:
    """AP@k over the relevant items retrieved, whose number depends on the order where k cuts a group."""
    whole = np.where(places == n, n, 0)  # the groups above the cut one count with all their places
    head = [part.sum(1) for part in _sums_of_precision(np.where(whole > 0, r, 0), whole, before, rel_before, whole)]
    hits = np.where(whole > 0, r, 0).sum(1)
    out = [np.divide(part, hits, out=np.zeros_like(part), where=hits > 0) for part in head]
    queries, groups = np.nonzero((places > 0) & (places < n))  # at most one group of a query is cut
    if len(queries):
        cut = [array[queries, groups] for array in (before, rel_before, n, r, places)]
        values = np.empty((3, len(queries)))
        # the compiled twin where there is enough to do
        compute = kernels().average_precision_at_cut if len(queries) > 16 else at_cut
        compute(*(part[queries] for part in head), *cut, values)
        for target, value in zip(out, values, strict=True):
            target[queries] = value
    return Values(*(np.where(total > 0, part, np.nan) for part in out))


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
