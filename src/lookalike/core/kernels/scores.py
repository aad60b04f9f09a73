"""Compiled loops over sorted scores: tie groups of a query, their merging, and the k-th largest score."""

import numpy as np
from numba import boolean, float32, float64, int64, njit, types, void

from lookalike.core.kernels.arrays import read, write


@njit(nogil=True)
def _take(scores, end, value, equal):
    # the start of the run of scores above `value`, or equal to it, that ends before `end`
    start = end
    if equal:
        while start > 0 and scores[start - 1] == value:
            start -= 1
    else:
        while start > 0 and scores[start - 1] > value:
            start -= 1
    return start


@njit(
    [
        int64(
            read(t, 1),
            read(t, 1),
            read(int64, 1),
            read(t, 1),
            boolean,
            int64,
            write(float64, 1),
            types.Array(int64, 2, "A"),
        )
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def around(scores, marks, grade_starts, excluded, every_score, background, group_scores, counts):
    """Fill one query's groups, the highest score first, and return how many there are.

    scores, excluded: rising, of all items and of those that do not rank. marks: scores of the items that are not of
    the background's grade, those of grade v rising in marks[grade_starts[v] : grade_starts[v + 1]]. Other items count
    in row `background` of counts (grades and unjudged, groups): between two marks they are one group, or with
    `every_score` one for each score. The scores of groups that are of one score are kept, if there is room for any.
    """
    n_grades = len(grade_starts) - 1
    ends = grade_starts[1:].copy()
    position, gone = len(scores), len(excluded)
    n_groups = 0
    while position > 0:
        unmoved = position
        mark = -np.inf
        marked = False
        for v in range(n_grades):
            if ends[v] > grade_starts[v]:
                mark = max(mark, marks[ends[v] - 1])
                marked = True
        if every_score:
            mark = scores[position - 1]
        above = _take(scores, position, mark, False) if marked or every_score else 0
        gone_above = _take(excluded, gone, mark, False) if marked or every_score else 0
        others = position - above - (gone - gone_above)
        if others > 0:
            counts[background, n_groups] = others
            n_groups += 1
        position, gone = above, gone_above
        if not (marked or every_score):
            break
        start, gone_start = _take(scores, position, mark, True), _take(excluded, gone, mark, True)
        here = position - start - (gone - gone_start)
        rest = here
        for v in range(n_grades):
            first = ends[v]
            while first > grade_starts[v] and marks[first - 1] == mark:
                first -= 1
            counts[v, n_groups] = ends[v] - first
            rest -= ends[v] - first
            ends[v] = first
        if here > 0:
            counts[background, n_groups] += rest
            if len(group_scores) > 0:
                group_scores[n_groups] = mark
            n_groups += 1
        position, gone = start, gone_start
        if position == unmoved:  # a score that is no number: never, but no reason to go on for ever
            break
    return n_groups


@njit(
    [
        int64(
            *(read(int64, 1), read(t, 1), read(int64, 2)) * 2,
            int64,
            write(int64, 1),
            write(t, 1),
            write(int64, 2),
        )
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def merge_groups(starts, scores, counts, more_starts, more_scores, more_counts, k, out_starts, out_scores, out_counts):
    """Merge the tie groups of each query in two parts of a gallery, both with the highest score first.

    Those of query i are starts[i] : starts[i + 1]; counts: (groups, columns). Groups that begin past k items are left
    out. Returns how many groups there are.
    """
    n = 0
    for i in range(len(starts) - 1):
        out_starts[i] = n
        before = 0
        a, a_end, b, b_end = starts[i], starts[i + 1], more_starts[i], more_starts[i + 1]
        while before < k and (a < a_end or b < b_end):
            from_a = b == b_end or (a < a_end and scores[a] >= more_scores[b])
            from_b = a == a_end or (b < b_end and more_scores[b] >= scores[a])
            out_scores[n] = scores[a] if from_a else more_scores[b]
            for column in range(out_counts.shape[1]):
                count = 0
                if from_a:
                    count += counts[a, column]
                if from_b:
                    count += more_counts[b, column]
                out_counts[n, column] = count
                before += count
            a += from_a
            b += from_b
            n += 1
    out_starts[len(starts) - 1] = n
    return n


@njit(
    [void(read(t, 1), read(t, 1), int64, write(int64, 1), write(int64, 1)) for t in (float32, float64)],
    nogil=True,
    cache=True,
)
def standing(scores, marks, sign, above, at):
    """Add to `above` and `at`, times the sign, how many scores are above each mark and how many equal to it.

    scores rise, marks fall, each once.
    """
    position = len(scores)
    for m in range(len(marks)):
        while position > 0 and scores[position - 1] > marks[m]:
            position -= 1
        above[m] += sign * (len(scores) - position)
        first = position
        while first > 0 and scores[first - 1] == marks[m]:
            first -= 1
        at[m] += sign * (position - first)
        position = first


@njit([t(read(t, 1), int64) for t in (float32, float64)], nogil=True, cache=True)
def kth_largest(row, k):
    """The k-th largest number of a row, or the smallest of a shorter one; none is nan."""
    # The largest k so far, in a heap with the smallest of them on top: few of a long row get past it.
    heap = row[:k].copy()
    heap.sort()
    for i in range(len(heap), len(row)):
        value = row[i]
        if value <= heap[0]:
            continue
        slot = 0
        while 2 * slot + 1 < k:
            child = 2 * slot + 1
            if child + 1 < k and heap[child + 1] < heap[child]:
                child += 1
            if value <= heap[child]:
                break
            heap[slot] = heap[child]
            slot = child
        heap[slot] = value
    return heap[0]
