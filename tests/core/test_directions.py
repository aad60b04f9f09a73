"""Rows as directions: what the first numbers of rows tell is what the loops over whole rows find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.core import directions
from lookalike.core.kernels import plain_product

KINDS = (np.float32, np.float64)


def by_whole_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest size, the common divisor and the factor of the length of each row, from all its numbers."""
    kind, digits = (np.int32 if rows.dtype.itemsize == 4 else np.int64), np.finfo(rows.dtype).nmant
    largest, found = np.empty(len(rows), kind), [np.empty(len(rows), np.int64) for _ in range(3)]
    plain_product.divisors(rows.view(kind), digits, largest, found[0])
    limit = min(1 << (digits + 1), plain_product.LARGEST)
    plain_product.square_factors(rows.view(kind), digits, limit, found[1], found[2])
    return largest.view(rows.dtype), found[0], found[1]


def check(rows: np.ndarray) -> bool:
    """Whether rows are ordinary; if they are, nothing divides them and their lengths have no factor."""
    largest, by, factors = by_whole_rows(rows)
    is_ordinary = directions._are_ordinary(rows)
    if is_ordinary:
        assert (by == 1).all()
        assert (factors == 1).all()
    found, divisors = directions._largest_and_divisors(rows)
    assert np.array_equal(found, largest)
    assert np.array_equal(divisors, by)
    assert found.dtype == divisors.dtype == rows.dtype
    return is_ordinary


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS))
def test_what_the_first_numbers_tell_is_true(seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((int(rng.integers(1, 9)), int(rng.integers(1, 40))))
    whole = np.round(rows * 10 ** rng.integers(0, 8)) * rng.choice([1, 3, 7, 12])
    rows = np.where(rng.random((len(rows), 1)) < rng.random(), whole, rows * 2.0 ** rng.integers(-40, 40))
    rows = np.where(rng.random(rows.shape) < rng.random(), 0, rows)
    check(np.ascontiguousarray(rows, dtype))


@pytest.mark.parametrize("dtype", KINDS)
def test_embeddings_are_ordinary_and_rows_of_whole_numbers_are_not(dtype: type) -> None:
    rows = np.random.default_rng(0).standard_normal((20_000, 64)).astype(dtype)
    assert check(rows)
    sparse = np.where(np.random.default_rng(1).random(rows.shape) < 0.7, 0, rows).astype(dtype)
    assert check(sparse)
    one_of_whole_numbers = rows.copy()
    one_of_whole_numbers[19_999] = np.arange(64)
    tripled = rows.copy()
    tripled[7] = np.round(tripled[7] * 1000) * 3
    assert check(np.where(np.arange(64) < 40, 0, rows).astype(dtype))
    for odd in (one_of_whole_numbers, tripled):
        assert not check(odd)
