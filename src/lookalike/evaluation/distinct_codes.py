"""The codes that occur in a gallery, each once, and how many items are on each."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from lookalike.core.codes import Codes

SAMPLE = 1024  # numbers that say where the ranges of threads begin
MAX_TABLE_BITS = 20  # of codes for which there is a counter for every possible code

__all__ = [
    "MAX_TABLE_BITS",
    "DistinctCodes",
    "distinct_codes",
    "items_on_codes",
    "repeated_codes",
    "sorted_by_threads",
]


@dataclass(frozen=True)
class DistinctCodes:
    """Each code that occurs, once: words, number of items, and (if asked) the row of every item's code."""

    words: np.ndarray
    counts: np.ndarray
    index: np.ndarray | None

    def repeated(self) -> "DistinctCodes":
        """The codes that several items have; the row of any other code is -1."""
        several = self.counts > 1
        index = None if self.index is None else np.where(several, np.cumsum(several) - 1, -1)[self.index]
        return DistinctCodes(self.words[several], self.counts[several], index)


def distinct_codes(codes: Codes, *, with_index: bool = False) -> DistinctCodes:
    """The codes that occur, in rising order, and how many items are on each."""
    if codes.n_bits <= MAX_TABLE_BITS and not with_index:
        on_code = items_on_codes(codes)
        used = np.flatnonzero(on_code)
        return DistinctCodes(used.astype(np.uint64)[:, None], on_code[used], None)
    order, words = _sorted_words(codes, with_order=with_index)
    first = ~_as_before(words)
    starts = np.flatnonzero(first)
    index = None
    if with_index:
        index = np.empty(len(words), np.int64)
        index[order] = np.cumsum(first) - 1
    return DistinctCodes(words[starts], np.diff(starts, append=len(words)), index)


def repeated_codes(codes: Codes, threads: int = 1) -> DistinctCodes:
    """The codes that several items have, as `DistinctCodes.repeated` gives them, without a list of all the others."""
    if codes.n_bits <= MAX_TABLE_BITS:
        return distinct_codes(codes).repeated()
    if codes.words.shape[1] > 1:
        words = _sorted_words(codes[_may_repeat(codes.words, threads)])[1]
    else:
        words = sorted_by_threads(codes.words[:, 0], threads)[:, None]
    again = np.flatnonzero(_as_before(words))  # neighbours among these are of one code
    edges = np.concatenate([np.flatnonzero(np.diff(again, prepend=-1) > 1), [len(again)]])
    return DistinctCodes(words[again[edges[:-1]]], np.diff(edges) + 1, None)


def _may_repeat(words: np.ndarray, threads: int) -> np.ndarray:
    """Which codes have the fingerprint of another: all that occur twice, and hardly any else. Sorting those is fast."""
    factors = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    prints = (words * factors).sum(1, dtype=np.uint64)
    ranked = sorted_by_threads(prints, threads)
    twice = np.append(ranked[1:][ranked[1:] == ranked[:-1]], ranked[:1])  # never empty where there are codes
    twice.sort()
    return np.asarray(twice[np.minimum(np.searchsorted(twice, prints), len(twice) - 1)] == prints)


def sorted_by_threads(values: np.ndarray, threads: int) -> np.ndarray:
    """Whole numbers in rising order: each thread sorts those of a range, which a sample makes about as many.

    >>> sorted_by_threads(np.array([5, 1, 4, 1, 3]), 2)
    array([1, 1, 3, 4, 5])
    """
    if threads == 1 or len(values) < threads:
        return np.sort(values)
    sample = np.sort(values[:: max(1, len(values) // SAMPLE)])
    pivots = [sample[len(sample) * part // threads] for part in range(1, threads)]

    def sort_range(part: int) -> np.ndarray:
        inside = np.ones(len(values), bool)
        if part > 0:
            inside &= values >= pivots[part - 1]
        if part < threads - 1:
            inside &= values < pivots[part]
        own = values[inside]
        own.sort()
        return own

    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(sort_range, range(threads))))


def _sorted_words(codes: Codes, *, with_order: bool = False) -> tuple[np.ndarray | None, np.ndarray]:
    """The words of codes in rising order, and, if asked or needed for it, the position of each."""
    if codes.words.shape[1] == 1 and not with_order:
        return None, np.sort(codes.words, axis=0)
    order = np.lexsort(codes.words.T[::-1])
    return order, codes.words[order]


def _as_before(words: np.ndarray) -> np.ndarray:
    """Whether each code is that of the row before it."""
    same = np.zeros(len(words), bool)
    same[1:] = words[1:, 0] == words[:-1, 0]
    for column in range(1, words.shape[1]):
        same[1:] &= words[1:, column] == words[:-1, column]
    return same


def items_on_codes(codes: Codes) -> np.ndarray:
    """Number of items on each of the 2^n_bits codes."""
    return np.bincount(codes.words[:, 0].view(np.int64), minlength=2**codes.n_bits)
