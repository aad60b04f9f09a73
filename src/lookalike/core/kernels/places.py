"""Compiled loops of pools and leaderboards: the first items of a query, and the places of some.

The loops that rank go over one query's scores a few times while these are in a near cache. None of them sorts all.
"""

import numpy as np
from numba import boolean, float32, float64, int64, njit, types, uint64, void
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read, write

STEP = 16  # scores that are compared at once: most of such steps hold nothing that matters
FEW_MARKS = 48  # up to here every score is compared with every mark, in vectors; beyond, it is looked up


@intrinsic
def _ones(typingctx, word):
    """The number of ones in a word. It is `popcount` of the scans, of which nothing else is needed here."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), codegen


@njit(nogil=True)
def _select(values, n, k):
    """Move the k largest of the first n values to the front; returns the least of them."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


@njit(nogil=True)
def _kth(row, k, scratch):
    """The k-th largest of a row, or the smallest of a shorter one. scratch: room for more than k."""
    n = len(row)
    if n <= k:
        least = row[0]
        for value in row:
            least = min(least, value)
        return least
    scratch[:k] = row[:k]
    least, held = scratch[:k].min(), k  # what is no larger cannot be the k-th any more
    start = k
    while start < n:
        stop = min(start + STEP, n)
        larger = 0
        if stop - start == STEP:
            for j in range(STEP):
                larger += row[start + j] > least
        else:
            larger = 1
        if larger > 0:
            for j in range(start, stop):
                if row[j] > least:
                    scratch[held] = row[j]
                    held += 1
                    if held == len(scratch):
                        least, held = _select(scratch, held, k), k
        start = stop
    return _select(scratch, held, k)


@njit(nogil=True)
def _before(values, items, a, b):
    """Whether entry a stands before entry b: it has the higher value, or the same and the lower item."""
    return values[a] > values[b] or (values[a] == values[b] and items[a] < items[b])


@njit(nogil=True)
def _order(values, items, n):
    """The first n entries in order, by merging longer and longer runs."""
    order, other = np.arange(n), np.empty(n, np.int64)
    for start in range(0, n, 8):
        for i in range(start + 1, min(start + 8, n)):
            entry, j = order[i], i
            while j > start and _before(values, items, entry, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = entry
    width = 8
    while width < n:
        for start in range(0, n, 2 * width):
            a, a_end = start, min(start + width, n)
            b, b_end = a_end, min(start + 2 * width, n)
            for out in range(start, b_end):
                if b == b_end or (a < a_end and not _before(values, items, order[b], order[a])):
                    other[out] = order[a]
                    a += 1
                else:
                    other[out] = order[b]
                    b += 1
        order, other = other, order
        width *= 2
    return order


@njit(nogil=True)
def _longer(array, n):
    """The array with room for at least n entries."""
    out = np.empty(max(n, 2 * len(array)), array.dtype)
    out[: len(array)] = array
    return out


_FOUND = types.Tuple(
    (types.Array(int64, 1, "C"), types.Array(int64, 1, "C"), types.Array(float64, 1, "C"), types.Array(boolean, 1, "C"))
)


@njit(
    [
        _FOUND(types.Array(t, 2, "A"), read(float64, 1), int64, int64, types.Array(int64, 2, "A", readonly=True))
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def first_items(rows, lengths, depth, shallow, names):
    """The first items of each row: all that score no less than the `depth`-th, but for -inf, which does not rank.

    lengths: what scores are divided by. names: the item of each column, (rows, columns); without columns, its number.
    Returns where each row's items start, the items by falling score and rising number, their scores, and which of them
    score no less than the `shallow`-th.
    """
    n = rows.shape[1]
    starts = np.zeros(len(rows) + 1, np.int64)
    room = 4 * depth if depth < n else n
    items, values = np.empty(len(rows) * min(n, depth + 8), np.int64), np.empty(len(rows) * min(n, depth + 8))
    inside = np.empty(len(items), np.bool_)
    scratch = np.empty(max(room, 64), rows.dtype)
    row = np.empty(n, rows.dtype)
    picked, raws = np.empty(min(n, depth + 64), np.int64), np.empty(min(n, depth + 64), rows.dtype)
    for i in range(len(rows)):
        row[:] = rows[i]
        least = _kth(row, depth, scratch)
        count = 0
        start = 0
        while start < n:
            stop = min(start + STEP, n)
            some = 0
            if stop - start == STEP:
                for j in range(STEP):
                    some += row[start + j] >= least
            else:
                some = 1
            if some > 0:
                if count + STEP > len(picked):
                    picked, raws = _longer(picked, count + STEP), _longer(raws, count + STEP)
                for j in range(start, stop):
                    if row[j] >= least and row[j] > -np.inf:
                        picked[count], raws[count] = j, row[j]
                        count += 1
            start = stop
        at = starts[i]
        starts[i + 1] = at + count
        if at + count > len(items):
            items, values = _longer(items, at + count), _longer(values, at + count)
            inside = _longer(inside, at + count)
        if count == 0:
            continue
        least_inside = _kth(raws[:count], shallow, scratch)
        scores = raws[:count].astype(np.float64) / lengths[i]
        if names.shape[1] > 0:
            for j in range(count):
                picked[j] = names[i, picked[j]]
        order = _order(scores, picked, count)
        for j in range(count):
            entry = order[j]
            items[at + j], values[at + j] = picked[entry], scores[entry]
            inside[at + j] = raws[entry] >= least_inside
    end = starts[-1]
    return starts, items[:end].copy(), values[:end].copy(), inside[:end].copy()


@njit(
    [void(types.Array(t, 2, "A"), read(int64, 1), write(t, 2), write(int64, 2)) for t in (float32, float64)],
    nogil=True,
    cache=True,
)
def best_of_identities(rows, identities, best, first):
    """Fill the best score of each identity for each row, and the first item that has it. identities: of items, from 0."""
    for i in range(len(rows)):
        best[i, :] = -np.inf
        first[i, :] = -1
        for j in range(len(identities)):
            identity = identities[j]
            if first[i, identity] < 0 or rows[i, j] > best[i, identity]:
                best[i, identity], first[i, identity] = rows[i, j], j


@njit(nogil=True)
def _count_few(values, marks, above, tied):
    """Compare every value with every mark, a part of the values after the other."""
    for start in range(0, len(values), 1024):
        part = values[start : start + 1024]
        for m in range(len(marks)):
            mark, more, same = marks[m], 0, 0
            for value in part:
                more += value > mark
                same += value == mark
            above[m] += more
            tied[m] += same


@njit(nogil=True)
def _count_many(values, marks, above, tied):
    """Look every value up among the marks, which are put in order, and count between and at them."""
    order = np.argsort(marks)
    rising = marks[order]
    n = len(rising)
    between, at = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for value in values:
        low, length = 0, n  # low: how many marks are below the value
        while length > 1:
            half = length >> 1
            low += half * (rising[low + half - 1] < value)
            length -= half
        low += rising[low] < value
        same = low < n and rising[min(low, n - 1)] == value
        at[low] += same
        between[low] += not same
    total = between[n]
    m = n - 1
    while m >= 0:
        first = m
        while first > 0 and rising[first - 1] == rising[m]:
            first -= 1  # values are counted at the first of equal marks
        for j in range(first, m + 1):
            above[order[j]], tied[order[j]] = total, at[first]
        total += at[first] + between[first]
        m = first - 1


@njit(
    [
        void(
            types.Array(t, 2, "A"), read(float64, 1), read(int64, 1), read(float64, 1),
            write(int64, 1), write(int64, 1), write(int64, 1),
        )
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)  # fmt: skip
def count_places(rows, lengths, starts, marks, above, tied, n_ranked):
    """Of each mark, count the scores of its row above it and equal to it; of each row, the scores that are not -inf.

    lengths: what scores are divided by. starts: where in marks those of each row start; `above` and `tied` begin at 0.
    """
    values = np.empty(rows.shape[1])
    for i in range(len(rows)):
        ranked = 0
        for j in range(rows.shape[1]):
            values[j] = rows[i, j] / lengths[i]
            ranked += values[j] > -np.inf
        n_ranked[i] = ranked
        here, end = starts[i], starts[i + 1]
        if end - here > FEW_MARKS:
            _count_many(values, marks[here:end], above[here:end], tied[here:end])
        else:
            _count_few(values, marks[here:end], above[here:end], tied[here:end])


@njit(
    [void(read(uint64, 2), read(uint64, 2), write(float32, 2))],
    nogil=True,
    cache=True,
)
def negative_distances(queries, gallery, out):
    """out[i, j] = minus the Hamming distance of query i and item j. gallery: (words, items), queries: (rows, words)."""
    n = gallery.shape[1]
    for i in range(len(queries)):
        for start in range(0, n, 4096):
            stop = min(start + 4096, n)
            out[i, start:stop] = 0
            for w in range(len(gallery)):
                word = queries[i, w]
                for j in range(start, stop):
                    out[i, j] -= float32(_ones(gallery[w, j] ^ word))
