"""Compiled loops that find what rows of floats share exactly: a common divisor, and squares in their squared lengths.

Rows that point the same way become equal rows by these, so that their scores tie.
"""

import numpy as np
from llvmlite import ir
from numba import float32, float64, int32, int64, njit, void
from numba.extending import intrinsic

from lookalike.core.kernels.arrays import read
from lookalike.core.kernels.loop import compiled


@intrinsic
def _trailing_zeros(typingctx, number):
    """How many times two divides a whole number, which is not 0."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return int64(int64), codegen


@njit
def _parts(bits, digits):
    """A float that is not 0, by its bits, as whole number · 2^power; digits: binary ones after the first."""
    power, number = bits >> digits, bits & ((1 << digits) - 1)
    return (number, 1) if power == 0 else (number | (1 << digits), power)  # below the least power the first digit is 0


@compiled(
    [void(read(int32, 2), int64, int32[::1], int64[::1]), void(read(int64, 2), int64, int64[::1], int64[::1])],
    nogil=True,
    cache=True,
)
def divisors(bits, digits, largest, out):
    """Of each row, by its bits: the largest size, as bits too, and the largest odd number that divides all numbers."""
    unsigned = bits.dtype.type((1 << (bits.itemsize * 8 - 1)) - 1)
    for i in range(len(bits)):
        top = bits.dtype.type(0)
        for j in range(bits.shape[1]):
            top = max(top, bits[i, j] & unsigned)
        largest[i] = top
        common = 0
        for j in range(bits.shape[1]):
            size = int64(bits[i, j] & unsigned)
            if size:
                number = _parts(size, digits)[0]
                while number:  # Euclid; twos do not matter
                    common, number = number, common % number
                if common & (common - 1) == 0:  # in most rows after two or three numbers
                    break
        out[i] = common >> _trailing_zeros(common) if common else 1


@compiled(
    [void(float32[:, ::1], read(float32, 1), read(float32, 1)),
     void(float64[:, ::1], read(float64, 1), read(float64, 1))],
    nogil=True,
    cache=True,
)  # fmt: skip
def divide(rows, by, scales):
    """Divide rows by these numbers and multiply them by powers of two, in place."""
    for i in range(len(rows)):
        if by[i] != 1 or scales[i] != 1:
            for j in range(rows.shape[1]):
                rows[i, j] = rows[i, j] / by[i] * scales[i]


@njit
def _whole_square(row, digits, limit):
    """The squared length of a row, by its bits, in units of its last binary digit; 0 where it reaches the limit."""
    unsigned = (1 << (row.itemsize * 8 - 1)) - 1
    lowest = 1 << 62
    for value in row:
        size = int64(value) & unsigned
        if size:
            number, power = _parts(size, digits)
            zeros = _trailing_zeros(number)
            if (number >> zeros) >= 1 << 16:
                return 0  # real embeddings: at the first number
            lowest = min(lowest, power + zeros)
    total = 0
    for value in row:
        size = int64(value) & unsigned
        if size:
            number, power = _parts(size, digits)
            zeros = _trailing_zeros(number)
            if power + zeros - lowest >= 16:
                return 0
            total += ((number >> zeros) << (power + zeros - lowest)) ** 2
            if total >= limit:
                return 0
    return total


PRIMES = np.array([n for n in range(3, 1626, 2) if all(n % d for d in range(3, 41, 2) if d < n)])
LARGEST = 1 << 32  # at most two primes of a number up to this are not among these


@compiled(
    [void(read(int32, 2), int64, int64, int64[::1], int64[::1]),
     void(read(int64, 2), int64, int64, int64[::1], int64[::1])],
    nogil=True,
    cache=True,
)  # fmt: skip
def square_factors(bits, digits, limit, factors, rest):
    """Of each row that is a power of two times whole numbers: t and r, for which t²·r is the squared length of these.

    t is odd, and r has no odd square in it. They are 1 and 0 where t²·r would reach the limit, at most LARGEST.
    """
    for i in range(len(bits)):
        square = _whole_square(bits[i], digits, limit)
        factor = 1
        odd = square >> _trailing_zeros(square) if square else 1
        for prime in PRIMES:
            if prime * prime * prime > odd:
                break
            while odd % (prime * prime) == 0:
                odd //= prime * prime
                factor *= prime
            if odd % prime == 0:
                odd //= prime
        root = int(np.sqrt(odd) + 0.5)
        if root * root == odd:
            factor *= root
        factors[i], rest[i] = factor, square // (factor * factor)
