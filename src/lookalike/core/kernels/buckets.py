"""Compiled loops that count scores around marks without sorting the scores.

A bucket is a short range of scores; the table of buckets says how many marks are below each. Most buckets hold one mark
or none, so that one comparison tells on which side of it a score is.
"""

import numpy as np
from numba import float32, float64, int32, int64, njit, types, uint32, void

from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled

MOST_BUCKETS = 1 << 20
SPAN = 16  # entries of the table that are written at once, wanted or not: most runs of equal ones are shorter
TABLE = MOST_BUCKETS + 2 * SPAN  # entries of a table, with room for those not wanted
TILE = 2048  # scores whose buckets are computed at a time: they stay in the nearest cache


@njit(nogil=True)
def _bucket_numbers(scores, low, scale, top, out):
    # No number is lower than that of a lower score, whatever is rounded; no score is nan.
    zero = scores.dtype.type(0)
    for i in range(len(scores)):
        place = (scores[i] - low) * scale
        place = place if place > zero else zero  # also for nan, which 0 times infinity is
        place = place if place < top else top
        out[i] = np.int32(place)


@njit(nogil=True)
def _lay_buckets(marks, n, table):
    """Fill the table for n rising marks, each once, and return how a score's bucket is found: low, scale, top.

    table[b] is twice the number of marks in buckets below b, and 1 more if b holds several marks.
    """
    size = 1 << 10
    while size < 8 * n and size < MOST_BUCKETS:
        size *= 2
    number = marks.dtype.type
    low, high = marks[0], marks[n - 1]
    inner_low, inner_high = marks[n >> 9], marks[n - 1 - (n >> 9)]
    if high - low > 4 * (inner_high - inner_low):  # a few marks far from the others do not make all buckets wide
        low, high = inner_low, inner_high
    top = number(size - 1)
    scale = number(size) / (high - low) if high > low else number(0)
    numbers = np.empty(TILE, np.int32)
    done, last, below_last = np.uint64(0), np.uint64(size), np.uint32(0)  # entries before `done` are right
    for start in range(0, n, TILE):
        part = marks[start : min(start + TILE, n)]
        _bucket_numbers(part, low, scale, top, numbers)
        for i in range(len(part)):
            bucket, below = np.uint64(np.uint32(numbers[i])), np.uint32(2 * (start + i))
            _write_span(table, done, below)
            done += np.uint64(SPAN)
            while done <= bucket:
                _write_span(table, done, below)
                done += np.uint64(SPAN)
            shared = bucket == last
            below_last = below_last if shared else below
            table[bucket] = below_last | np.uint32(shared)
            done, last = bucket + np.uint64(1), bucket
    for entry in range(done, size + 1):
        table[entry] = np.uint32(2 * n)
    return low, scale, top


@njit(nogil=True)
def _write_span(table, start, value):
    for t in range(SPAN):
        table[start + np.uint64(t)] = value


@njit(nogil=True)
def _count_between(scores, marks, found, table, sign, cells):
    """Add the sign to cells[2 j] for each score with j marks below it, to cells[2 j + 1] if it is equal to mark j.

    found: what `_lay_buckets` returned. After the last mark, marks has infinity: a score may be equal to that.
    """
    low, scale, top = found
    one = np.uint64(1)
    numbers, entries, cell_numbers = np.empty(TILE, np.int32), np.empty(TILE, np.uint32), np.empty(TILE, np.uint32)
    nearest, shared = np.empty(TILE, scores.dtype), np.empty(TILE + 1, np.int32)
    for start in range(0, len(scores), TILE):  # short loops without branches: some become vector instructions
        part = scores[start : min(start + TILE, len(scores))]
        _bucket_numbers(part, low, scale, top, numbers)
        n_shared = np.uint64(0)
        for i in range(len(part)):
            entry = table[np.uint64(np.uint32(numbers[i]))]
            entries[i] = entry
            shared[n_shared] = i
            n_shared += np.uint64(entry & np.uint32(1))
        for i in range(len(part)):
            nearest[i] = marks[np.uint64(entries[i] >> np.uint32(1))]
        for i in range(len(part)):
            side = np.uint32(part[i] > nearest[i]) + np.uint32(part[i] >= nearest[i])
            cell_numbers[i] = (entries[i] & np.uint32(0xFFFFFFFE)) + side
        for k in range(n_shared):  # in a bucket of several marks
            i = shared[k]
            below = np.uint64(entries[i]) >> one
            end = np.uint64(table[np.uint64(np.uint32(numbers[i])) + one]) >> one
            below = _below(part[i], marks, below, end)
            cell_numbers[i] = np.uint32(below + below) + np.uint32(part[i] >= marks[below])
        for i in range(len(part)):
            cells[np.uint64(cell_numbers[i])] += sign


@njit(nogil=True)
def _below(score, marks, first, end):
    """How many marks are below a score, if it is at least `first` and at most `end`."""
    one = np.uint64(1)
    first += np.uint64(score > marks[first])  # most often there are two: no branch
    first += np.uint64(first < end and score > marks[first])
    while first < end:
        middle = (first + end) >> one
        if score > marks[middle]:
            first = middle + one
        else:
            end = middle
    return first


@njit(nogil=True)
def _each_once(marks, grade_starts, out):
    """Write the marks of all grades, rising and each once, and infinity after them; return how many there are."""
    starts, ends = grade_starts[:-1].copy(), grade_starts[1:]
    n = 0
    while True:
        least, n_left = marks.dtype.type(np.inf), 0
        for v in range(len(starts)):
            if starts[v] < ends[v]:
                least = min(least, marks[starts[v]])
                n_left += 1
                only = v
        if n_left == 0:
            break
        if n_left == 1:  # most often from the beginning
            for i in range(starts[only], ends[only]):
                out[n] = marks[i]
                n += i + 1 == ends[only] or marks[i] != marks[i + 1]
            break
        out[n] = least
        n += 1
        for v in range(len(starts)):
            while starts[v] < ends[v] and marks[starts[v]] == least:
                starts[v] += 1
    out[n] = np.inf
    return n


@compiled(
    [
        int64(
            read(t, 1),
            read(t, 1),
            read(int64, 1),
            read(t, 1),
            int64,
            write(t, 1),
            write(uint32, 1),
            write(int32, 1),
            write(float64, 1),
            types.Array(int64, 2, "A"),
        )
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def around_few(
    scores, marks, grade_starts, excluded, background, distinct, table, cells, group_scores, counts
):  # fmt: skip
    """As `around` without `every_score`, of scores in any order. It costs the less the fewer marks there are.

    distinct: room for a number more than there are marks. cells: zeros, two for each of these; they are zeros again
    at the end. table: room for TABLE entries.
    """
    n = _each_once(marks, grade_starts, distinct)
    if n == 0:
        counts[background, 0] = len(scores) - len(excluded)
        return int64(len(scores) > len(excluded))
    found = _lay_buckets(distinct, n, table)
    _count_between(scores, distinct, found, table, np.int32(1), cells)
    _count_between(excluded, distinct, found, table, np.int32(-1), cells)
    ends = grade_starts[1:].copy()
    n_groups = 0
    others = cells[2 * n] + cells[2 * n + 1]
    for j in range(n - 1, -1, -1):
        if others > 0:
            counts[background, n_groups] = others
            n_groups += 1
        rest = cells[2 * j + 1]
        for v in range(len(ends)):
            while ends[v] > grade_starts[v] and marks[ends[v] - 1] == distinct[j]:
                ends[v] -= 1
                counts[v, n_groups] += 1
                rest -= 1
        counts[background, n_groups] += rest
        if len(group_scores) > 0:
            group_scores[n_groups] = distinct[j]
        n_groups += 1
        others = cells[2 * j]
    if others > 0:
        counts[background, n_groups] = others
        n_groups += 1
    cells[: 2 * n + 2] = 0
    return n_groups


@compiled(
    [
        void(
            read(t, 1),
            read(t, 1),
            read(t, 1),
            write(t, 1),
            write(uint32, 1),
            write(int32, 1),
            write(int64, 1),
            write(int64, 1),
        )
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def standing_few(scores, excluded, marks, rising, table, cells, above, at):
    """As `standing` with the sign 1 for scores and -1 for excluded ones, both in any order.

    rising: room for a number more than there are marks. table and cells: as in `around_few`.
    """
    n = len(marks)
    if n == 0:
        return
    for m in range(n):
        rising[n - 1 - m] = marks[m]
    rising[n] = np.inf
    found = _lay_buckets(rising, n, table)
    _count_between(scores, rising, found, table, np.int32(1), cells)
    _count_between(excluded, rising, found, table, np.int32(-1), cells)
    total = cells[2 * n] + cells[2 * n + 1]
    for m in range(n):
        j = n - 1 - m
        above[m] += total
        at[m] += cells[2 * j + 1]
        total += cells[2 * j + 1] + cells[2 * j]
    cells[: 2 * n + 2] = 0


@compiled(
    int64(
        read(int64, 2),
        read(int64, 1),
        read(int64, 1),
        int64,
        int64,
        types.Array(int64, 2, "A"),
        write(int64, 1),
    ),
    nogil=True,
    cache=True,
)
def groups_between(graded, above, at, total, background, counts, marks):
    """Fill one query's groups, the highest score first, and return how many there are.

    graded: (marks, grades and unjudged), items of each mark that are not only of the background. above, at: items
    above each mark and at it. total: all items. Others count in row `background` of counts, as in `around`. marks: of
    each group 2 m + 1 for mark m, 2 m for what lies above it.
    """
    n_groups = before = 0
    for m in range(len(graded) + 1):
        others = (above[m] if m < len(graded) else total) - before
        if others > 0:
            counts[background, n_groups] = others
            marks[n_groups] = 2 * m
            n_groups += 1
        if m == len(graded):
            break
        if at[m] > 0:
            rest = at[m]
            for v in range(graded.shape[1]):
                counts[v, n_groups] += graded[m, v]
                rest -= graded[m, v]
            counts[background, n_groups] += rest
            marks[n_groups] = 2 * m + 1
            n_groups += 1
        before = above[m] + at[m]
    return n_groups
