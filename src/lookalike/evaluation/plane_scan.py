"""A gallery of codes as bit planes, which `core.kernels.bit_planes` explains, and the counts of queries in it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.kernels import plane_kernels
from lookalike.evaluation.relevance import Groups

MAX_ITEMS = 2**31 - 1  # their positions are sorted as int32

__all__ = ["MAX_ITEMS", "BitPlanes", "LabelKeys", "label_keys", "slice_codes"]


@dataclass(frozen=True)
class LabelKeys:
    """A number for every item, its key, such that the items of a label have neighbouring keys, at every level.

    gallery: the key of each item; without levels empty, and every item has the key 0. of_label: of each level
    (labels, 2), the first key of each label and the one after its last.
    """

    gallery: np.ndarray
    n_keys: int
    of_label: list[np.ndarray]

    def ranges(self, levels: list[Groups], block: slice) -> np.ndarray:
        """The first key of each query's label and the one after its last, (levels, queries, 2)."""
        out = np.zeros((len(levels), block.stop - block.start, 2), np.int64)
        for target, keys, level in zip(out, self.of_label, levels, strict=True):
            target[:] = keys[level.queries[block]]
        return out


def label_keys(levels: list[Groups]) -> LabelKeys:
    """The keys of labels that form a hierarchy, from coarse to fine.

    >>> coarse, fine = Groups([1], [1, 0, 1, 1]), Groups([2], [1, 3, 2, 1])
    >>> keys = label_keys([coarse, fine])
    >>> keys.gallery, keys.ranges([coarse, fine], slice(0, 1)).tolist()
    (array([1, 0, 2, 1], dtype=int32), [[[1, 3]], [[2, 3]]])
    """
    if not levels:
        return LabelKeys(np.zeros(0, np.int32), 1, [])
    finest, n_keys = levels[-1], levels[-1].n_groups
    above = [np.full(n_keys, -1) for _ in levels[:-1]]  # the coarser labels of each fine one; -1 where no item has it
    for target, level in zip(above, levels, strict=False):
        target[finest.gallery] = level.gallery
    order = np.lexsort([np.arange(n_keys), *above[::-1]])
    key = np.empty(n_keys, np.int32)
    key[order] = np.arange(n_keys)
    of_label = [np.zeros((level.n_groups, 2), np.int64) for level in levels]
    for edges, labels in zip(of_label, [*above, np.arange(n_keys)], strict=True):
        names, firsts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
        edges[names[names >= 0]] = np.stack([firsts, firsts + sizes], axis=1)[names >= 0]
    return LabelKeys(key[finest.gallery] if above else finest.gallery, n_keys, of_label)


@dataclass(frozen=True)
class BitPlanes:
    """Codes sorted by weight, then by key, in blocks of one weight; the arrays are those of `scan_planes`."""

    planes: np.ndarray
    segments: np.ndarray
    places: np.ndarray
    n_bits: int

    def count(self, words: np.ndarray, keys: np.ndarray, out: np.ndarray) -> None:
        """Add to `out` (1 + levels, queries, n_bits + 1) the items at each distance: all, then those of its keys."""
        offsets, queries = self._added_planes(words)
        kernels = plane_kernels()
        n_digits = int(queries[:, 1].max(initial=0))
        scratch = _aligned(kernels.scratch_size(n_digits, len(keys), len(words))).view(np.int64)
        kernels.scan_planes(self.planes, self.segments, offsets.reshape(-1), queries, self.places, keys, scratch, out)

    def _added_planes(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The planes that each query adds, by their offset in a block, and what `scan_planes` is told of the query."""
        kernels = plane_kernels()
        bits = Codes(words, self.n_bits).unpack()
        ones = bits.sum(1, dtype=np.int64)
        by_ones = 2 * ones <= self.n_bits
        added = bits == by_ones[:, None]  # the ones, or where they are more than half, the zeros
        n_added = added.sum(1, dtype=np.int64)
        width = -(-max(1, self.n_bits // 2) // kernels.STEP) * kernels.STEP
        offsets = np.full((len(words), width), self.n_bits * kernels.LANES)  # of the plane of zeros
        queries, positions = np.nonzero(added)
        offsets[queries, np.arange(len(queries)) - np.repeat(np.cumsum(n_added) - n_added, n_added)] = (
            positions * kernels.LANES
        )
        steps = np.maximum(1, -(-n_added // kernels.STEP))
        digits = np.maximum(kernels.LOW, np.frexp(n_added.astype(float))[1])  # 2^(digits - 1) <= n_added < 2^digits
        return offsets, np.stack([steps, digits, ones, np.where(by_ones, 1, -1)], axis=1)


def slice_codes(codes: Codes, keys: LabelKeys, threads: int) -> BitPlanes:
    """Sort codes by weight and key, and turn them into planes."""
    kernels = plane_kernels()
    words, n_bits, items = codes.words, codes.n_bits, kernels.ITEMS
    parts = [slice(start, end) for start, end in _even_parts(len(words), threads)]
    counts = np.zeros((len(parts), n_bits + 1, keys.n_keys), np.int64)
    order = np.empty(len(words), np.int32)

    def weigh(part: int) -> None:
        kernels.weigh(words[parts[part]], keys.gallery[parts[part]], counts[part])

    def arrange(part: int) -> None:
        kernels.arrange(words[parts[part]], keys.gallery[parts[part]], parts[part].start, starts[part], order)

    def fill(blocks: tuple[int, int]) -> None:
        rows = _aligned(64 * kernels.LANES)
        kernels.slice_bits(words, order, *blocks, in_order, n_bits, rows, planes)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(weigh, range(len(parts))))
        total = counts.sum(0)
        ends = np.cumsum(total).reshape(total.shape)
        starts = np.cumsum(counts, 0) - counts + (ends - total)  # items of one weight and key stay in their order
        list(pool.map(arrange, range(len(parts))))
        n_of_weight = total.sum(1)
        n_blocks = -(-n_of_weight // items)
        first_blocks = np.cumsum(n_blocks) - n_blocks
        first_items = np.cumsum(n_of_weight) - n_of_weight
        within = np.arange(n_blocks.sum()) - np.repeat(first_blocks, n_blocks)
        block_starts = np.repeat(first_items, n_blocks) + items * within
        in_order = np.stack(
            [block_starts, np.minimum(block_starts + items, np.repeat(first_items + n_of_weight, n_blocks))], axis=1
        )
        planes = _aligned(len(in_order) * (n_bits + 1) * kernels.LANES)
        list(pool.map(fill, _even_parts(len(in_order), threads)))
    within_weight = np.concatenate([np.zeros((n_bits + 1, 1), np.int64), np.cumsum(total, axis=1)], axis=1)
    places = within_weight + items * first_blocks[:, None]
    weights = np.flatnonzero(n_blocks)
    segments = np.stack([first_blocks[weights], n_blocks[weights], weights], axis=1)
    return BitPlanes(planes, segments, places, n_bits)


def _even_parts(n: int, parts: int) -> list[tuple[int, int]]:
    """Where each of some parts of about equal size starts and ends."""
    edges = [n * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def _aligned(n: int) -> np.ndarray:
    """Room for n words that begins where a line of the cache does: no vector then lies in two."""
    room = np.empty(n + 8, np.uint64)
    start = -room.ctypes.data // 8 % 8
    return room[start : start + n]
