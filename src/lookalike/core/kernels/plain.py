"""The loops of counting and of the metrics in numpy, for work so small that loading numba would take longer.

They give the same bits as the compiled ones: sums are taken in the same order. What takes a loop of its own for each
query is one source for both (`one_query`).
"""

import math

import numpy as np

from lookalike.core.kernels.one_query import average_precision_at_cut, first_relevant

__all__ = [
    "HAS_VECTOR_POPCOUNT",
    "average_precision_at_cut",
    "first_relevant",
    "gain_sums",
    "largest",
    "later_near",
    "near",
    "order_sums",
    "precision_sums",
    "scan",
    "scan_graded",
    "spread",
    "spread_largest",
    "tabulate",
    "threshold_sums",
]

HAS_VECTOR_POPCOUNT = False  # no matter here


# Codes


def _distances(query: np.ndarray, gallery: np.ndarray) -> np.ndarray:
    """From one query to each of the codes, (words, items)."""
    return np.asarray(np.bitwise_count(gallery ^ query[:, None]).sum(0, dtype=np.int64))


def scan(queries: np.ndarray, gallery: np.ndarray, runs: np.ndarray, _: bool, out: np.ndarray) -> None:
    """Add to `out` (queries, n_bits + 1) how many items stand at each distance from each query."""
    for q0, q1, g0, g1 in runs:
        for i in range(q0, q1):
            out[i] += np.bincount(_distances(queries[i], gallery[:, g0:g1]), minlength=out.shape[1])


def scan_graded(queries: np.ndarray, gallery: np.ndarray, first: int, grades: np.ndarray, out: np.ndarray) -> None:
    """Add to `out` (grades, queries, n_bits + 1) the items first, first + 1, … with the grades of a block."""
    for i, query in enumerate(queries):
        distances = _distances(query, gallery[:, first : first + grades.shape[1]])
        np.add.at(out[:, i], (grades[i], distances), 1)


def largest(
    queries: np.ndarray,
    gallery: np.ndarray,
    counts: np.ndarray,
    excluded_start: np.ndarray,
    excluded: np.ndarray,
    out: np.ndarray,
) -> None:
    """Raise out[i, d] to the largest number of items on one code at distance d from query i, for d below its width."""
    for i, query in enumerate(queries):
        left = counts.copy()
        np.subtract.at(left, excluded[excluded_start[i] : excluded_start[i + 1]], 1)
        distances = _distances(query, gallery)
        close = distances < out.shape[1]
        np.maximum.at(out[i], distances[close], left[close])


def near(query: np.ndarray, gallery: np.ndarray, radius: int, positions: np.ndarray, distances: np.ndarray) -> int:
    """Count the codes within a radius of a query; fill in positions and distances while there is room."""
    found = _distances(query, gallery)
    rows = np.flatnonzero(found <= radius)
    n = min(len(rows), len(positions))
    positions[:n], distances[:n] = rows[:n], found[rows[:n]]
    return len(rows)


def later_near(
    codes: np.ndarray,
    keys: np.ndarray,
    limit: int,
    stop: int,
    position: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> int:
    """List pairs of a code and a later one within a limit, if they have different keys in some row of `keys`."""
    n_pairs = 0
    for i in range(position[0], stop):
        later = position[1] + np.flatnonzero(_distances(codes[:, i], codes[:, position[1] :]) <= limit)
        later = later[(keys[:, [i]] != keys[:, later]).any(0)]
        listed = later[: len(first) - n_pairs]
        first[n_pairs : n_pairs + len(listed)], second[n_pairs : n_pairs + len(listed)] = i, listed
        n_pairs += len(listed)
        if len(listed) < len(later):
            position[:] = i, later[len(listed)]
            return n_pairs
        position[:] = i + 1, i + 2
    return n_pairs


def tabulate(words: np.ndarray, labels: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    """Add one to out[rows[label], code] for every item whose label has a row; -1 is none."""
    row = rows[labels]
    np.add.at(out, (row[row >= 0], words[row >= 0].astype(np.int64)), 1)


def spread(counts: np.ndarray) -> None:
    """Turn counts[0] = items on each code into counts[d, x] = items at distance d from code x, for every x."""
    for bit in range(counts.shape[0] - 1):
        halves = counts.reshape(len(counts), -1, 2, 1 << bit)  # of each code the neighbour that differs in this bit
        for d in range(bit + 1, 0, -1):
            halves[d] += halves[d - 1, :, ::-1]


def spread_largest(counts: np.ndarray) -> None:
    """As `spread`, for the largest number of items on one code at each distance below counts' height."""
    step = 1
    while step < counts.shape[1]:
        halves = counts.reshape(len(counts), -1, 2, step)
        for d in range(len(counts) - 1, 0, -1):
            np.maximum(halves[d], halves[d - 1, :, ::-1], out=halves[d])
        step *= 2


# Metrics


def _in_order(terms: np.ndarray) -> np.ndarray:
    """The sum of each row from left to right."""
    return np.asarray(np.cumsum(terms, axis=1)[:, -1]) if terms.shape[1] else np.zeros(len(terms))


def _inverse_ranks(before: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Sum of 1/rank over the n ranks behind `before`, as the compiled loop takes it."""
    before, n, total = before.copy(), n.copy(), np.zeros(len(n))
    while True:
        single = np.flatnonzero((n > 0) & ((before < 64) | (n < 4)))
        if not len(single):
            break
        before[single] += 1
        n[single] -= 1
        total[single] += 1 / before[single]
    rest = np.flatnonzero(n)
    n, x, y = n[rest], before[rest] + 0.5, before[rest] + n[rest] + 0.5
    u, v = 1 / (x * x), 1 / (y * y)
    tail = total[rest] + [math.log1p(part) for part in n / x]  # numpy's own log1p may differ in the last bit
    ends = (part * (1 / 24 + part * (-7 / 960 + part * 31 / 8064)) for part in (v, u))
    total[rest] = tail + next(ends) - next(ends)
    return total


def precision_sums(relevant: np.ndarray, retrieved: np.ndarray, k: np.ndarray, *out: np.ndarray) -> None:
    """Sums of precision over each query's own top k, (n_queries,)."""
    n, r, k = retrieved, relevant, k[:, None]
    before, rel_before = n.cumsum(1) - n, r.cumsum(1) - r
    places = np.minimum(n, k - before)
    cells = np.nonzero((before < k) & (r > 0))
    parts = np.zeros((3, *n.shape))  # middle, high, low
    parts[:, cells[0], cells[1]] = _of_groups(*(array[cells] for array in (before, rel_before, n, r, places)))
    whole, cut = (before < k) & (places == n), (before < k) & (places < n)  # at most one group of a query is cut
    for target, part in zip(out, (*parts, r), strict=False):
        target[:] = _in_order(np.where(whole, part, 0))
    for target, part in zip(out[4:], (*parts, before, rel_before, n, r, places), strict=True):
        target[:] = _in_order(np.where(cut, part, 0))


def _of_groups(
    before: np.ndarray, rel_before: np.ndarray, n: np.ndarray, r: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Expected, highest and lowest sum of precision over the places of groups that have something relevant."""
    inverse = _inverse_ranks(before, places)
    slope = np.divide(r - 1, n - 1, out=np.zeros(len(n)), where=n > 1)
    middle = r / n * ((rel_before + 1) * inverse + slope * (places - (before + 1) * inverse))
    most, least = np.minimum(r, places), np.maximum(0.0, places - n + r)
    high = most + (rel_before - before) * _inverse_ranks(before, most)
    last = before + places - least
    low = least + (rel_before - last) * _inverse_ranks(last, least)
    alone = (rel_before + 1) / (before + 1)
    return np.where((r == 1) & (n == 1), alone, [middle, high, low])


def threshold_sums(relevant: np.ndarray, retrieved: np.ndarray, out: np.ndarray) -> None:
    """Pairs in the right order, tied pairs, and precision."""
    r, n = relevant, retrieved
    ranked, hits = n.cumsum(1), r.cumsum(1)
    n_ranked, n_hits = (array[:, -1] if array.shape[1] else np.zeros(len(r)) for array in (ranked, hits))
    others = n_ranked - n_hits
    out[0] = n_hits * others - _in_order(r * (ranked - hits))
    out[1] = _in_order(r * (n - r))
    out[2] = _in_order(np.divide(r * hits, ranked, out=np.zeros(r.shape), where=r > 0))
    out[3], out[4] = n_hits, others


def gain_sums(by_grade: np.ndarray, gains: np.ndarray, discounts: np.ndarray, out: np.ndarray) -> None:
    """Expected, best and worst DCG; discounts[r] is the sum of those of ranks 1 to r, the last the cutoff."""
    k, n = len(discounts) - 1, by_grade.sum(0)
    before = n.cumsum(1) - n
    gained = np.zeros(n.shape)
    for gain, counts in zip(gains, by_grade, strict=True):
        gained += gain * counts
    counted = (before < k) & (gained > 0)

    def worth(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        return np.asarray(discounts[np.minimum(end, k)] - discounts[np.minimum(start, k)])

    out[0] += _in_order(np.where(counted, gained / np.maximum(n, 1) * worth(before, before + n), 0))
    first, last, highs, lows = before, before + n, [], []
    for gain, counts in zip(gains[:0:-1], by_grade[:0:-1], strict=True):  # the highest grade first
        highs.append(gain * worth(first, first + counts))
        lows.append(gain * worth(last - counts, last))
        first, last = first + counts, last - counts
    for target, terms in ((out[1], highs), (out[2], lows)):
        if terms:
            target += _in_order(np.where(counted[:, :, None], np.stack(terms, 2), 0).reshape(len(n), -1))


def order_sums(
    keys: np.ndarray, orders: np.ndarray, before: np.ndarray, cuts: np.ndarray, sums: np.ndarray, hits: np.ndarray
) -> None:
    """Sums of the precision at each relevant item in the top of each cut, and how many these are, for each order."""
    for o, order in enumerate(orders):
        for q, row in enumerate(keys):
            groups = row[order] >> 1
            ranked = order[np.argsort(groups, kind="stable")]
            relevant = np.flatnonzero(row[ranked] & 1)
            precision, group = np.arange(1, len(relevant) + 1) / (relevant + 1), row[ranked[relevant]] >> 1
            for c, cut in enumerate(cuts[q]):
                within = relevant < cut
                parts = np.bincount(group[within], precision[within], minlength=before.shape[2])
                sums[q, o, c] = _in_order(parts[None])[0]
                hits[q, o, c] = within.sum()
