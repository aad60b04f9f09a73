"""The codes that occur in a gallery, each once, and how many items are on each."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.kernels import kernels

SAMPLE = 1024  # numbers that say where the ranges of threads begin
MANY = 1 << 15  # codes that are worth a look before they are sorted
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
    if len(codes) >= MANY:
        codes = codes[_may_repeat(codes.words, threads)]  # sorting takes longer than finding out what need not be
    if codes.words.shape[1] > 1:
        words = _sorted_words(codes)[1]
    else:
        words = sorted_by_threads(codes.words[:, 0], threads)[:, None]
    again = np.flatnonzero(_as_before(words))  # neighbours among these are of one code
    edges = np.concatenate([np.flatnonzero(np.diff(again, prepend=-1) > 1), [len(again)]])
    return DistinctCodes(words[again[edges[:-1]]], np.diff(edges) + 1, None)


def _may_repeat(words: np.ndarray, threads: int) -> np.ndarray:
    """Which codes have the mark of another: all that occur twice, and about one in 16 of those that do not.

    There are 16 bits or more for each code. Each thread notes the marks of some codes; then all are brought together.
    """
    n_bits = math.ceil(math.log2(16 * len(words)))
    shift, loops, is_again = np.uint64(64 - n_bits), kernels(), np.empty(len(words), bool)
    parts = [slice(*edges) for edges in itertools.pairwise(np.linspace(0, len(words), threads + 1, dtype=int))]

    def note(part: slice) -> tuple[np.ndarray, np.ndarray]:
        seen, again = np.zeros((2, (1 << n_bits) // 64), np.uint64)
        loops.note_marks(words[part], shift, seen, again)
        return seen, again

    def ask(part: slice) -> None:
        loops.marked_again(words[part], shift, again, is_again[part])

    with ThreadPoolExecutor(threads) as pool:
        (seen, again), *others = pool.map(note, parts)
        for theirs, again_there in others:
            again |= again_there | (seen & theirs)
            seen |= theirs
        list(pool.map(ask, parts))
    return is_again


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
