"""Compiled tables over all codes of a few bits: how many items are at each distance from every possible code."""

import numpy as np
from numba import int32, int64, uint32, uint64, void

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
