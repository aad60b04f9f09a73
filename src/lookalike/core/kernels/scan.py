"""Compiled scans of packed codes: how many items are at each distance, and which items are near.

Every function has a plain twin of the same meaning elsewhere in the package, and tests hold them equal.
"""

import numpy as np
from llvmlite import binding
from numba import int16, int64, njit, uint64, void
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled

HAS_VECTOR_POPCOUNT = bool(binding.get_host_cpu_features().get("avx512vpopcntdq", False))
BLOCK = 4096  # codes per block: their distances fit the first-level cache as bytes
TILE = 1 << 18  # items that all queries meet before the next ones: they stay in a near cache, and no uint32 overflows


@intrinsic
def popcount(typingctx, word):
    """The number of ones in an unsigned word: one instruction."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), codegen


@njit(nogil=True, inline="always")
def _eight_queries(queries, gallery, out):
    # Eight histograms at once: neighbouring increments never meet in one counter, so none waits for another.
    histograms = np.zeros((8, 65), np.int64)
    h0, h1, h2, h3 = histograms[0], histograms[1], histograms[2], histograms[3]
    h4, h5, h6, h7 = histograms[4], histograms[5], histograms[6], histograms[7]
    last = len(queries) - 1
    for first in range(0, len(queries), 8):
        histograms[:] = 0
        q0, q1 = queries[first], queries[min(first + 1, last)]
        q2, q3 = queries[min(first + 2, last)], queries[min(first + 3, last)]
        q4, q5 = queries[min(first + 4, last)], queries[min(first + 5, last)]
        q6, q7 = queries[min(first + 6, last)], queries[min(first + 7, last)]
        for item in gallery:
            h0[popcount(q0 ^ item)] += 1
            h1[popcount(q1 ^ item)] += 1
            h2[popcount(q2 ^ item)] += 1
            h3[popcount(q3 ^ item)] += 1
            h4[popcount(q4 ^ item)] += 1
            h5[popcount(q5 ^ item)] += 1
            h6[popcount(q6 ^ item)] += 1
            h7[popcount(q7 ^ item)] += 1
        for i in range(min(8, len(queries) - first)):
            for d in range(out.shape[1]):
                out[first + i, d] += histograms[i, d]


@njit(nogil=True, inline="always")
def _distances(query, gallery, start, buffer):
    # One pass over the block for each word: contiguous reads, which the compiler turns into vector instructions.
    for w in range(len(query)):
        word = query[w]
        block = gallery[w, start : start + len(buffer)]
        if w == 0:
            for j in range(len(block)):
                buffer[j] = popcount(word ^ block[j])
        else:
            for j in range(len(block)):
                buffer[j] += popcount(word ^ block[j])


@njit(nogil=True, inline="always")
def _byte_distances(queries, gallery, first, last, out):
    # Distances below 256 as bytes; two bytes read as one uint16 count two items with one increment.
    n_bins = out.shape[1]
    buffer = np.empty(BLOCK, np.uint8)
    pairs = np.zeros(256 * n_bins, np.uint32)
    for i in range(len(queries)):
        for start in range(first, last, BLOCK):
            block = buffer[: min(BLOCK, last - start)]
            _distances(queries[i], gallery, start, block)
            if len(block) % 2:
                out[i, block[len(block) - 1]] += 1
            for pair in block[: len(block) // 2 * 2].view(np.uint16):
                pairs[pair] += np.uint32(1)
        for high in range(n_bins):
            for low in range(n_bins):
                count = pairs[256 * high + low]
                out[i, high] += count
                out[i, low] += count
                pairs[256 * high + low] = 0


@njit(nogil=True, inline="always")
def _long_distances(queries, gallery, first, last, out):
    buffer = np.empty(BLOCK, np.uint16)
    for i in range(len(queries)):
        for start in range(first, last, BLOCK):
            block = buffer[: min(BLOCK, last - start)]
            _distances(queries[i], gallery, start, block)
            for distance in block:
                out[i, distance] += 1


_RUNS = void(read(uint64, 2), read(uint64, 2), read(int64, 2), write(int64, 2))


@compiled(_RUNS, nogil=True, cache=True)
def _scan_long(queries, gallery, runs, out):
    for t in range(len(runs)):
        q0, q1, g0, g1 = runs[t]
        for first in range(g0, g1, TILE):
            _long_distances(queries[q0:q1], gallery, first, min(first + TILE, g1), out[q0:q1])


@compiled(_RUNS, nogil=True, cache=True)
def _scan_bytes(queries, gallery, runs, out):
    for t in range(len(runs)):
        q0, q1, g0, g1 = runs[t]
        for first in range(g0, g1, TILE):
            _byte_distances(queries[q0:q1], gallery, first, min(first + TILE, g1), out[q0:q1])


@compiled(_RUNS, nogil=True, cache=True)
def _scan_eight(queries, gallery, runs, out):
    for t in range(len(runs)):
        q0, q1, g0, g1 = runs[t]
        for first in range(g0, g1, TILE):
            _eight_queries(queries[q0:q1, 0], gallery[0, first : min(first + TILE, g1)], out[q0:q1])


def scan(queries, gallery, runs, buffered, out):
    """Add to `out` (queries, n_bits + 1) how many items stand at each distance from each query.

    queries: (queries, words); gallery: (words, items). Each row (q0, q1, g0, g1) of `runs` compares queries
    q0..q1 with items g0..g1. `buffered` chooses, for codes of one word, distances written to a buffer (best
    where the processor counts the bits of a whole vector) over eight queries at a time (best elsewhere).
    """
    if out.shape[1] > 256:  # longer than a byte
        _scan_long(queries, gallery, runs, out)
    elif queries.shape[1] == 1:
        (_scan_bytes if buffered else _scan_eight)(queries, gallery, runs, out)
    else:  # only what is chosen is compiled
        # For few items, emptying the counts of pairs of distances would take longest.
        few = out.shape[1] ** 2 > runs[:, 3] - runs[:, 2]
        for loop, chosen in ((_scan_long, runs[few]), (_scan_bytes, runs[~few])):
            if len(chosen):
                loop(queries, gallery, chosen, out)


@compiled(
    void(read(uint64, 2), read(uint64, 2), int64, read(int16, 2), write(int64, 3)),
    nogil=True,
    cache=True,
)
def scan_graded(queries, gallery, first, grades, out):
    """Add to `out` (grades, queries, n_bits + 1) the items first, first + 1, … with the grades of a block."""
    buffer = np.empty(BLOCK, np.uint16)
    n_items = grades.shape[1]
    for i in range(len(queries)):
        for start in range(0, n_items, BLOCK):
            block = buffer[: min(BLOCK, n_items - start)]
            _distances(queries[i], gallery, first + start, block)
            for j in range(len(block)):
                out[grades[i, start + j], i, block[j]] += 1


@compiled(
    void(read(uint64, 2), read(uint64, 2), read(int64, 1), read(int64, 1), read(int64, 1), write(int64, 2)),
    nogil=True,
    cache=True,
)
def largest(queries, gallery, counts, excluded_start, excluded, out):
    """Raise out[i, d] to the largest number of items on one code at distance d from query i, for d below out's width.

    gallery: (words, codes), each code once, with the number of its items in `counts`; query i leaves out one
    item of each code in excluded[excluded_start[i] : excluded_start[i + 1]].
    """
    radius = out.shape[1] - 1
    counts = counts.copy()
    buffer = np.empty(BLOCK, np.uint16)
    n_codes = gallery.shape[1]
    for i in range(len(queries)):
        left_out = excluded[excluded_start[i] : excluded_start[i + 1]]
        for code in left_out:
            counts[code] -= 1
        for start in range(0, n_codes, BLOCK):
            block = buffer[: min(BLOCK, n_codes - start)]
            _distances(queries[i], gallery, start, block)
            nearest = block[0]  # most blocks hold nothing near: a vector minimum finds that out fastest
            for distance in block:
                nearest = min(nearest, distance)
            if nearest <= radius:
                for j in range(len(block)):
                    if block[j] <= radius:
                        out[i, block[j]] = max(out[i, block[j]], counts[start + j])
        for code in left_out:
            counts[code] += 1


@compiled(
    int64(read(uint64, 1), read(uint64, 2), int64, write(int64, 1), write(int64, 1)),
    nogil=True,
    cache=True,
)
def near(query, gallery, radius, positions, distances):
    """Count the codes within a radius of a query; fill in positions and distances while there is room."""
    buffer = np.empty(BLOCK, np.uint16)
    n_codes = gallery.shape[1]
    n_near = 0
    for start in range(0, n_codes, BLOCK):
        block = buffer[: min(BLOCK, n_codes - start)]
        _distances(query, gallery, start, block)
        nearest = block[0]
        for distance in block:
            nearest = min(nearest, distance)
        if nearest <= radius:
            for j in range(len(block)):
                if block[j] <= radius:
                    if n_near < len(positions):
                        positions[n_near] = start + j
                        distances[n_near] = block[j]
                    n_near += 1
    return n_near


@compiled(
    int64(read(uint64, 2), read(int64, 2), int64, int64, write(int64, 1), write(int64, 1), write(int64, 1)),
    nogil=True,
    cache=True,
)
def later_near(codes, keys, limit, stop, position, first, second):
    """List pairs of a code and a later one within a limit, if they have different keys in some row of `keys`.

    position: the pair to begin with; it is moved on to where the list ends, at latest to the code `stop`. Returns how
    many pairs of `first` and `second` are filled.
    """
    buffer = np.empty(BLOCK, np.uint16)
    code = np.empty(len(codes), np.uint64)
    n_codes, n_pairs, begin = codes.shape[1], 0, position[1]
    for i in range(position[0], stop):
        for w in range(len(codes)):
            code[w] = codes[w, i]
        for start in range(begin, n_codes, BLOCK):
            block = buffer[: min(BLOCK, n_codes - start)]
            _distances(code, codes, start, block)
            nearest = block[0]
            for distance in block:
                nearest = min(nearest, distance)
            if nearest <= limit:
                for j in range(len(block)):
                    if block[j] <= limit:
                        differ = False
                        for k in range(len(keys)):
                            differ |= keys[k, i] != keys[k, start + j]
                        if differ:
                            if n_pairs == len(first):
                                position[0], position[1] = i, start + j
                                return n_pairs
                            first[n_pairs], second[n_pairs] = i, start + j
                            n_pairs += 1
        begin = i + 2
    position[0], position[1] = stop, stop + 1
    return n_pairs
