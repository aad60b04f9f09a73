"""Compiled loops of pools and leaderboards: the first items of a query, and the places of some.

The loops that rank go over one query's scores a few times while these are in a near cache. None of them sorts all.
"""

import numpy as np
from numba import boolean, float32, float64, int64, njit, types, uint64, void
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled

STEP = 16  # scores that are compared at once: most of such steps hold nothing that matters
SAMPLED = 32  # one score of so many is looked at to guess where the first items end


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
def _low_guess(row, k, scratch):
    """A score that a few more than k of a long row reach, most likely, by a sample of them; -inf for a short row."""
    n = len(row)
    if n < 1024 or n < 8 * k:
        return row.dtype.type(-np.inf)
    size = n // SAMPLED
    for i in range(size):
        scratch[i] = row[i * SAMPLED]
    share = k / SAMPLED
    return _select(scratch, size, min(size, int(share + 4 * np.sqrt(share + 1)) + 1))


@njit(nogil=True)
def _collect(row, least, columns, values):
    """Fill the columns of scores that reach `least`, but for -inf, and these scores; returns how many there are."""
    n, count, start = len(row), 0, 0
    while start + STEP <= n:
        some = 0
        for j in range(start, start + STEP):
            some += row[j] >= least
        if some > 0:
            for j in range(start, start + STEP):  # written in any case: a branch would be guessed wrong
                columns[count], values[count] = j, row[j]
                count += (row[j] >= least) & (row[j] > -np.inf)
        start += STEP
    for j in range(start, n):
        columns[count], values[count] = j, row[j]
        count += (row[j] >= least) & (row[j] > -np.inf)
    return count


@njit(nogil=True)
def _cut(columns, values, count, k, scratch):
    """Keep the columns whose scores are no less than the k-th largest of all; returns how many are left."""
    if count <= k:
        return count
    scratch[:count] = values[:count]
    least, left = _select(scratch, count, k), 0
    for j in range(count):
        columns[left], values[left] = columns[j], values[j]
        left += values[j] >= least
    return left


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


@compiled(
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
    room = len(rows) * min(n, depth + 8)
    items, values, inside = np.empty(room, np.int64), np.empty(room), np.empty(room, np.bool_)
    row, scratch, raws = np.empty(n, rows.dtype), np.empty(n, rows.dtype), np.empty(n + 1, rows.dtype)
    columns = np.empty(n + 1, np.int64)
    for i in range(len(rows)):
        row[:] = rows[i]
        count = _collect(row, _low_guess(row, depth, scratch), columns, raws)
        if count < depth:  # the guess was too high, or not so many rank
            count = _collect(row, row.dtype.type(-np.inf), columns, raws)
        count = _cut(columns, raws, count, depth, scratch)
        at = starts[i]
        starts[i + 1] = at + count
        if at + count > len(items):
            items, values = _longer(items, at + count), _longer(values, at + count)
            inside = _longer(inside, at + count)
        scratch[:count] = raws[:count]
        least_inside = _select(scratch, count, shallow) if count > shallow else row.dtype.type(-np.inf)
        scores = raws[:count].astype(np.float64) / lengths[i]
        if names.shape[1] > 0:
            for j in range(count):
                columns[j] = names[i, columns[j]]
        order = _order(scores, columns, count)
        for j in range(count):
            entry = order[j]
            items[at + j], values[at + j] = columns[entry], scores[entry]
            inside[at + j] = raws[entry] >= least_inside
    end = starts[-1]
    return starts, items[:end].copy(), values[:end].copy(), inside[:end].copy()


@compiled(
    [
        void(types.Array(t, 2, "A"), read(int64, 1), read(int64, 1), write(t, 2), write(int64, 2))
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def best_of_identities(rows, order, starts, best, first):
    """Fill the best score of each identity for each row, and the first item that has it.

    order: items by identity, those of identity p in order[starts[p] : starts[p + 1]].
    """
    row = np.empty(rows.shape[1], rows.dtype)
    for i in range(len(rows)):
        row[:] = rows[i]
        for p in range(len(starts) - 1):
            item = order[starts[p]]
            most = row[item]
            for m in range(starts[p] + 1, starts[p + 1]):
                value = row[order[m]]
                item = order[m] if value > most else item
                most = value if value > most else most
            best[i, p], first[i, p] = most, item


@njit(nogil=True)
def _below(row, length, mark, with_equal):
    """How many of a row of rising scores, each divided by the length, are below a mark, or equal to it."""
    low, high = 0, len(row)
    while low < high:
        middle = (low + high) // 2
        value = row[middle] / length
        if value < mark or (with_equal and value == mark):
            low = middle + 1
        else:
            high = middle
    return low


@compiled(
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

    rows: rising scores. lengths: what they are divided by. starts: where in marks those of each row start.
    """
    n = rows.shape[1]
    for i in range(len(rows)):
        row, length = rows[i], lengths[i]
        n_ranked[i] = n - _below(row, length, -np.inf, True)
        for m in range(starts[i], starts[i + 1]):
            end = _below(row, length, marks[m], True)
            above[m], tied[m] = n - end, end - _below(row, length, marks[m], False)


@compiled(
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
