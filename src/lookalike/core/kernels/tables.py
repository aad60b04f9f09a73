"""Compiled tables over codes: items at each distance from every possible short code, and marks of codes met before."""

import numpy as np
from numba import boolean, int32, int64, njit, uint32, uint64, void

from lookalike.core.kernels.arrays import read, write
from lookalike.core.kernels.loop import compiled


@compiled(
    void(read(uint64, 1), read(int32, 1), read(int32, 1), write(uint32, 2)),
    nogil=True,
    cache=True,
)
def tabulate(words, labels, rows, out):
    """Add one to out[rows[label], code] for every item whose label has a row; -1 is none."""
    for i in range(len(words)):
        row = rows[labels[i]]
        if row >= 0:
            out[row, words[i]] += np.uint32(1)


@compiled([void(write(uint32, 2)), void(write(int64, 2))], nogil=True, cache=True)
def spread(counts):
    """Turn counts[0] = items on each code into counts[d, x] = items at distance d from code x, for every x.

    Bit by bit: an item at distance d from x either shares the bit or stood at distance d - 1 from x with the
    bit flipped. Descending d reads the row below before this bit has changed it.
    """
    n_bits, n_codes = counts.shape[0] - 1, counts.shape[1]
    for bit in range(n_bits):
        step = 1 << bit
        for d in range(bit + 1, 0, -1):
            here, below = counts[d], counts[d - 1]
            for base in range(0, n_codes, 2 * step):
                zero, one = here[base : base + step], here[base + step : base + 2 * step]
                below_zero, below_one = below[base : base + step], below[base + step : base + 2 * step]
                for x in range(step):
                    zero[x] += below_one[x]
                    one[x] += below_zero[x]


@compiled([void(write(uint32, 2)), void(write(int64, 2))], nogil=True, cache=True)
def spread_largest(counts):
    """As `spread`, for the largest number of items on one code at each distance below counts' height."""
    n_codes = counts.shape[1]
    step = 1
    while step < n_codes:
        for d in range(len(counts) - 1, 0, -1):
            here, below = counts[d], counts[d - 1]
            for base in range(0, n_codes, 2 * step):
                zero, one = here[base : base + step], here[base + step : base + 2 * step]
                below_zero, below_one = below[base : base + step], below[base + step : base + 2 * step]
                for x in range(step):
                    zero[x] = max(zero[x], below_one[x])
                    one[x] = max(one[x], below_zero[x])
        step *= 2


@njit
def _mark(code, shift):
    """A number of 64 - shift bits that is the same for equal codes, and spread evenly over others."""
    mark = np.uint64(0)
    for word in code:
        mark = (mark ^ word) * np.uint64(0x9E3779B97F4A7C15)
    return mark >> shift


@compiled(void(read(uint64, 2), uint64, write(uint64, 1), write(uint64, 1)), nogil=True, cache=True)
def note_marks(words, shift, seen, again):
    """Set the bit of each code's mark in `seen`, and in `again` where it was set before."""
    for i in range(len(words)):
        mark = _mark(words[i], shift)
        place, bit = mark >> np.uint64(6), np.uint64(1) << (mark & np.uint64(63))
        if seen[place] & bit:  # rarely: most often the other table is not touched
            again[place] |= bit
        seen[place] |= bit


@compiled(void(read(uint64, 2), uint64, read(uint64, 1), write(boolean, 1)), nogil=True, cache=True)
def marked_again(words, shift, again, out):
    """Whether the mark of each code is one that several codes have."""
    for i in range(len(words)):
        mark = _mark(words[i], shift)
        out[i] = again[mark >> np.uint64(6)] >> (mark & np.uint64(63)) & np.uint64(1)
