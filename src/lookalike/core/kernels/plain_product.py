"""The matrix product and the loops over directions in numpy, for work so small that loading numba would take longer.

They give the same bits as the compiled ones. Those add by fused multiply-adds, which round once; numpy has none, so
that the exact product and sum are kept here in two or three floats until they are rounded.
"""

from typing import Any

import numpy as np

__all__ = [
    "LARGEST",
    "PRIMES",
    "ROWS",
    "distances",
    "divide",
    "divisors",
    "fits",
    "pack",
    "panel_width",
    "product",
    "score_rows",
    "square_factors",
    "squares",
]

ROWS = 6  # of queries in a panel
# These are those of `directions`, which cannot be loaded without numba. It keeps its own: numba sees that a file has
# changed which holds a loop, not that another has.
PRIMES = np.array([n for n in range(3, 1626, 2) if all(n % d for d in range(3, 41, 2) if d < n)])
LARGEST = 1 << 32
SAFE = 2.0**300  # products of float64 between this and its inverse have exact parts


def panel_width(dtype: "np.dtype[Any]") -> int:
    """Gallery items a step."""
    return 64 // dtype.itemsize


def fits(rows: np.ndarray) -> bool:
    """Whether fused sums over these rows can be made of floats: always in float32, in float64 if none is extreme."""
    if rows.dtype == np.float32:
        return True
    sizes = np.abs(rows)
    return bool(((sizes < SAFE) & ((sizes > 1 / SAFE) | (sizes == 0))).all())


# Fused multiply-adds


def _fused(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """a * b + total, rounded once, in the type of the total."""
    return _fused_single(a, b, total) if total.dtype == np.float32 else _fused_double(a, b, total)


def _fused_single(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    exact = a.astype(np.float64) * b  # two float32 have 48 digits
    wide = exact + total
    # Rounded to float64, then to float32: that is wrong only where the first step ends halfway between two float32.
    halfway = (wide.view(np.int64) & ((1 << 29) - 1)) == 1 << 28
    small = np.abs(wide) < 2.0**-126  # where float32 has fewer digits
    if small.any():
        halfway[small] = np.abs(wide[small]) * 2.0**150 % 2 == 1
    if halfway.any():
        error = _sum(exact[halfway], np.broadcast_to(total, wide.shape)[halfway])[1]
        wide[halfway] = np.where(error == 0, wide[halfway], np.nextafter(wide[halfway], np.copysign(np.inf, error)))
    return wide.astype(np.float32)


def _fused_double(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Boldo and Melquiond 2008: the last but one sum is rounded to an odd last digit, so that it is never halfway."""
    high, low = _product(a, b)
    upper, lower = _sum(total, low)
    top, rest = _sum(high, upper)
    middle, error = _sum(rest, lower)
    even = (error != 0) & (middle.view(np.int64) & 1 == 0)
    if even.any():
        middle[even] = np.nextafter(middle[even], np.copysign(np.inf, error[even]))
    return np.asarray(top + middle)


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b exactly, as the rounded sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b exactly, as the rounded product and its error (Veltkamp, Dekker)."""
    total = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = a_high * b_high - total
    error += a_high * b_low
    error += a_low * b_high
    return total, error + a_low * b_low


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of 26 digits whose sum is a."""
    large = a * 134217729.0  # 2^27 + 1
    high = large - (large - a)
    return high, a - high


# Rows in panels


def pack(rows: np.ndarray, scales: np.ndarray, out: np.ndarray) -> None:
    """Put rows times their scales into panels (panels, columns, width), the last filled up with zeros."""
    padded = np.zeros((out.shape[0] * out.shape[2], out.shape[1]), out.dtype)
    padded[: len(rows)] = rows * scales[:, None]
    out[:] = padded.reshape(out.shape[0], out.shape[2], out.shape[1]).transpose(0, 2, 1)


def _unpacked(panels: np.ndarray) -> np.ndarray:
    """Columns of rows in panels, (columns, rows)."""
    return panels.transpose(1, 0, 2).reshape(panels.shape[1], -1)


def product(queries: np.ndarray, gallery: np.ndarray, out: np.ndarray) -> None:
    """out[i, j] = query i · item j, of rows packed in panels."""
    total = np.zeros(out.shape, out.dtype)
    with np.errstate(all="ignore"):
        for query, item in zip(_unpacked(queries), _unpacked(gallery), strict=True):
            total = _fused(query[:, None], item, total)
    out[:] = total


def score_rows(rows: np.ndarray, scales: np.ndarray, query: np.ndarray, out: np.ndarray) -> None:
    """out[i] = query · row i times its scale, summed as `product` does."""
    total = np.zeros(len(rows), rows.dtype)
    with np.errstate(all="ignore"):
        for value, column in zip(query[:, None], (rows * scales[:, None]).T, strict=True):
            total = _fused(value, column, total)
    out[:] = total


def distances(queries: np.ndarray, gallery: np.ndarray, out: np.ndarray) -> None:
    """out[i, j] = -|query i - item j|², of rows packed as for `product`."""
    total = np.zeros(out.shape, out.dtype)
    with np.errstate(all="ignore"):
        for query, item in zip(_unpacked(queries), _unpacked(gallery), strict=True):
            difference = query[:, None] - item
            total = _fused(-difference, difference, total)
    out[:] = total


def squares(rows: np.ndarray, scales: np.ndarray, out: np.ndarray) -> None:
    """out[i] = row i · row i of rows times their scales, summed as `product` does."""
    total = np.zeros(len(rows), rows.dtype)
    with np.errstate(all="ignore"):
        for column in (rows * scales[:, None]).T:
            total = _fused(column, column, total)
    out[:] = total


# Directions


def parts(bits: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Floats by their bits as whole number · 2^power."""
    sizes = bits.astype(np.int64) & ((1 << (bits.itemsize * 8 - 1)) - 1)
    power, number = sizes >> digits, sizes & ((1 << digits) - 1)
    return np.where(power == 0, number, number | (1 << digits)), np.maximum(power, 1)


def divisors(bits: np.ndarray, digits: int, largest: np.ndarray, out: np.ndarray) -> None:
    """Of each row, by its bits: the largest size, as bits too, and the largest odd number that divides all numbers."""
    largest[:] = (bits & np.iinfo(bits.dtype).max).max(1)
    numbers, _ = parts(bits, digits)
    numbers[bits & np.iinfo(bits.dtype).max == 0] = 0
    common = np.gcd.reduce(numbers, axis=1)
    out[:] = np.where(common == 0, 1, common // np.maximum(common & -common, 1))


def divide(rows: np.ndarray, by: np.ndarray, scales: np.ndarray) -> None:
    """Divide rows by these numbers and multiply them by powers of two, in place."""
    rows /= by[:, None]
    rows *= scales[:, None]


def square_factors(bits: np.ndarray, digits: int, limit: int, factors: np.ndarray, rest: np.ndarray) -> None:
    """Of each row that is a power of two times whole numbers: t and r, for which t²·r is the squared length of these.

    t is odd, and r has no odd square in it. They are 1 and 0 where t²·r would reach the limit, at most LARGEST.
    """
    square = _whole_squares(bits, digits, limit)
    odd = np.where(square == 0, 1, square // np.maximum(square & -square, 1))
    factors[:] = 1
    for prime in PRIMES:
        if not (prime**3 <= odd).any():
            break
        small = prime**3 <= odd
        while (twice := small & (odd % (prime * prime) == 0)).any():
            odd[twice] //= prime * prime
            factors[twice] *= prime
        odd[small & (odd % prime == 0)] //= prime
    root = (np.sqrt(odd) + 0.5).astype(np.int64)
    factors[:] = np.where(root * root == odd, factors * root, factors)
    rest[:] = square // (factors * factors)


def _whole_squares(bits: np.ndarray, digits: int, limit: int) -> np.ndarray:
    """Squared lengths of rows, by their bits, in units of their last binary digit; 0 where one reaches the limit."""
    number, power = parts(bits, digits)
    present = bits & np.iinfo(bits.dtype).max != 0
    low = np.where(present, number & -number, 1)
    odd, power = np.where(present, number // low, 0), power + np.log2(low).astype(np.int64)
    steps = power - np.where(present, power, np.iinfo(np.int64).max).min(1, initial=1 << 62)[:, None]
    whole = ~present | ((odd < 1 << 16) & (steps < 16))
    terms = (odd % (1 << 16) << np.where(present & whole, steps, 0)) ** 2
    total = np.minimum(np.where(present, terms, 0), limit).sum(1)  # so that no sum overflows
    return np.where(whole.all(1) & (total < limit), total, 0)
