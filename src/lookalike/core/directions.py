"""Rows of embeddings as directions: rows that point the same way become equal rows, so that their scores tie."""

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.kernels import product_kernel
from lookalike.core.kernels.plain_product import LARGEST, parts

COST = {4: 1, 8: 4}  # steps of a fused multiply-add without numba, by the size of the floats
FIRST = (3, 8, 32, 256)  # numbers of a row that are looked at, more where fewer do not say enough
AT_ONCE = 1 << 14  # rows

__all__ = ["COST", "check_finite", "directions", "factored", "squares"]


def squares(rows: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Squared length of each row times its scale."""
    out = np.empty(len(rows), rows.dtype)
    product_kernel(COST[rows.itemsize] * rows.size, rows).squares(rows, scales, out)
    return out


def check_finite(rows: np.ndarray, sizes: np.ndarray, what: str) -> None:
    """Raise if a number is not finite. sizes: of the rows; a size is not finite if one of its row's numbers is not."""
    for row in np.flatnonzero(~np.isfinite(sizes)):  # nan, infinity, or a square too large: look closer
        for column in np.flatnonzero(~np.isfinite(rows[row])):
            raise InputError(f"{what} embeddings hold {rows[row, column]}, first in row {row}, column {column}")


def directions(rows: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows reduced to their direction, a power of two for each that brings its length near 1, and that length.

    A row and its positive multiples become the same row, unless the multiples lost digits. Every number is
    odd · 2^power; a row is divided by the largest number that divides all its odd parts. In real embeddings that is 1.
    """
    limits = np.finfo(rows.dtype)
    largest, by = _largest_and_divisors(rows)
    check_finite(rows, largest, what)
    if not largest.all():
        raise InputError(f"{what} embedding in row {largest.argmin()} is zero: it has no cosine")
    lifts = np.where(largest / by < limits.tiny / limits.eps, limits.eps**-2, 1).astype(rows.dtype)
    if (by != 1).any() or (lifts != 1).any():
        rows = rows.copy()
        product_kernel(rows.size).divide(rows, by, lifts)
    # Lengths are those of rows whose largest number is near 1: of longer or shorter rows squares would be rounded
    # differently, or not be floats.
    scales = _near_one(largest / by * lifts)
    lengths = np.sqrt(squares(rows, scales))
    return rows, scales * _near_one(lengths), lengths * _near_one(lengths)


def _largest_and_divisors(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each row its largest size, and the largest odd number that divides all its numbers."""
    if _are_ordinary(rows):
        with np.errstate(invalid="ignore"):  # nan, which is refused later
            return np.maximum(rows.max(1), -rows.min(1)), np.ones(len(rows), rows.dtype)
    bits: np.ndarray = rows.view(_whole_type(rows))
    largest, divisors = np.empty(len(rows), bits.dtype), np.empty(len(rows), np.int64)
    product_kernel(10 * rows.size).divisors(bits, np.finfo(rows.dtype).nmant, largest, divisors)
    return largest.view(rows.dtype), divisors.astype(rows.dtype)


def _are_ordinary(rows: np.ndarray) -> bool:
    """Whether the first numbers of each row tell that no odd number divides all of them, and that some are not small.

    So it is in real embeddings. Then the loops that find divisors and squares in lengths need not even be compiled.
    """
    for start in range(0, len(rows), AT_ONCE):
        block = rows[start : start + AT_ONCE]
        for n in FIRST:
            block = block[~_tell_enough(block[:, :n])]
        if len(block):
            return False
    return True


def _tell_enough(first: np.ndarray) -> np.ndarray:
    """Of each row, whether its numbers have no odd divisor in common, and the odd part of one has 17 digits or more."""
    kind = _whole_type(first)
    bits = np.ascontiguousarray(first).view(kind) & np.iinfo(kind).max
    numbers = np.where(bits == 0, 0, parts(bits, np.finfo(first.dtype).nmant)[0])
    common = np.gcd.reduce(numbers, axis=1)
    twos_alone = (common != 0) & (common & (common - 1) == 0)
    return twos_alone & (numbers >> 16 >= np.maximum(numbers & -numbers, 1)).any(1)


def _near_one(sizes: np.ndarray) -> np.ndarray:
    """The powers of two that bring these numbers to at least a half and below 1."""
    return np.ldexp(np.ones(len(sizes), sizes.dtype), -np.frexp(sizes)[1])


def factored(rows: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Lengths as two factors; a product is divided by one, then the other. The first is None if all are 1.

    For rows of small whole numbers the first is whole, and the second is the root of a number without squares: t·√r.
    Then equal cosines are equal floats: if p / (t·√r) = p' / (t'·√r'), r = r', and p / t = p' / t' are rounded alike.
    """
    if _are_ordinary(rows):
        return None, lengths
    limits = np.finfo(rows.dtype)
    factors, rest = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    limit = min(1 << (limits.nmant + 1), LARGEST)  # squares below are exact
    product_kernel(10 * rows.size).square_factors(rows.view(_whole_type(rows)), limits.nmant, limit, factors, rest)
    many = np.flatnonzero(factors > 1)
    if not len(many):
        return None, lengths
    whole = np.sqrt((factors**2 * rest)[many].astype(rows.dtype))
    lengths[many] = np.sqrt(rest[many].astype(rows.dtype)) * (lengths[many] / whole)  # the ratio is a power of two
    return factors.astype(rows.dtype), lengths


def _whole_type(rows: np.ndarray) -> type:
    """The type of whole numbers that are as wide as these floats."""
    return np.int32 if rows.dtype.itemsize == 4 else np.int64
