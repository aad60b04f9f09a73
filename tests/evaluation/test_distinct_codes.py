"""Distinct and repeated codes are what numpy's unique finds, for codes of one word and of several."""

import numpy as np
import pytest

import lookalike as la
from lookalike.evaluation.distinct_codes import distinct_codes, repeated_codes, sorted_by_threads


@pytest.mark.parametrize("n_bits", [8, 20, 21, 64, 65, 130])
def test_distinct_and_repeated_codes(n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    for n, n_codes in ((1, 1), (2, 1), (2, 2), (300, 3), (300, 250), (3000, 100_000)):
        pool = rng.integers(0, 2, (n_codes, n_bits))
        codes = la.Codes.pack(pool[rng.integers(0, n_codes, n)])
        words, counts = np.unique(codes.words[:, ::-1], axis=0, return_counts=True)
        expected = {tuple(row[::-1]): count for row, count in zip(words.tolist(), counts.tolist(), strict=True)}
        for found, least in ((distinct_codes(codes), 1), (repeated_codes(codes), 2)):
            wanted = {code: count for code, count in expected.items() if count >= least}
            assert dict(zip(map(tuple, found.words.tolist()), found.counts.tolist(), strict=True)) == wanted
            assert len(found.words) == len(wanted)


@pytest.mark.parametrize("n_bits", [8, 64, 130])
def test_no_codes(n_bits: int) -> None:
    codes = la.Codes(np.zeros((0, -(-n_bits // 64)), np.uint64), n_bits)
    assert len(distinct_codes(codes).words) == len(repeated_codes(codes).words) == 0


@pytest.mark.parametrize("n_bits", [40, 64, 90])
@pytest.mark.parametrize("n", [0, 1, 3, 5000, 40_000])
def test_threads_find_the_same_repeated_codes(n_bits: int, n: int) -> None:
    rng = np.random.default_rng(n)
    several = la.Codes.pack(rng.integers(0, 2, (2 * n + 1, n_bits)))  # of some none, of some one, of some several
    codes = several[rng.integers(0, len(several), n)]
    expected = distinct_codes(codes).repeated()
    for threads in (1, 2, 3, 7):
        found = repeated_codes(codes, threads)
        np.testing.assert_array_equal(found.words, expected.words)
        np.testing.assert_array_equal(found.counts, expected.counts)


@pytest.mark.parametrize("kinds", [1, 2, 50, 1 << 62])
def test_threads_sort_whatever_ranges_hold(kinds: int) -> None:
    """Where all numbers are one, a thread has them all."""
    values = np.random.default_rng(0).integers(0, kinds, 3000).astype(np.uint64) << np.uint64(1)
    for threads in (1, 2, 3, 8):
        np.testing.assert_array_equal(sorted_by_threads(values, threads), np.sort(values))
