"""A sweep over all pairs of a collection: every pair is compared, but most of them only roughly.

A few numbers of each item give a distance that the true distance never falls below (the other numbers enter by their
length, by Cauchy and Schwarz). Only pairs that are near by this distance are measured. Codes are scanned as they are.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.kernels import kernels, product_kernel
from lookalike.core.progress import report
from lookalike.core.threads import n_threads
from lookalike.search.pair_seekers import PairSeeker
from lookalike.search.pair_spaces import CodePairs, PairSpace

ROWS, COLUMNS = 240, 2048  # items that are compared with items at once
CHUNK = 1 << 16  # pairs that are looked at, and
MEASURED = 1 << 18  # numbers of those that are measured at once
FEW, SMALL = 256, 5000  # numbers of an item, and items, that are not worth cutting
LEARNED = (32, 64, 128)  # numbers that are tried in place of all
LONG = 1 << 16  # bits of codes whose distances the scan cannot hold
SAMPLE = 1000  # items to learn from where a collection lies and how far its items are apart

__all__ = ["AllPairs", "measure"]


class AllPairs:
    """Sweeps over all pairs of a collection; what the first one learns of the items, later ones use again."""

    def __init__(self, space: PairSpace, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        self._candidates: _Candidates | None = None

    def sweep(self, seekers: Sequence[PairSeeker], what: str) -> None:
        """Give the seekers, in order, every pair that is near enough for one of them."""
        n = len(self._space)
        if n < 2:
            return
        for seeker in seekers:
            seeker.expect(self._space, self._rng.permutation(n)[:SAMPLE])
        limit = max(seeker.limit for seeker in seekers)
        if limit < 0:  # no pair can be wanted
            report(what, n, n)
            return
        if self._candidates is None:
            self._candidates = _candidates(self._space, limit, self._rng)
        step = max(1, MEASURED // self._candidates.dim)
        for start in range(0, n, ROWS):
            for first, second in self._candidates.pairs(start, min(start + ROWS, n), seekers):
                self._take(first, second, seekers, step)
            report(what, min(start + ROWS, n), n)

    def _take(self, first: np.ndarray, second: np.ndarray, seekers: Sequence[PairSeeker], step: int) -> None:
        """Measure the pairs that a seeker wants, and give them to all."""
        wanted = _any(seeker.wants(first, second) for seeker in seekers)
        first, second = first[wanted], second[wanted]
        for part in _slices(len(first), step):
            one, other = first[part], second[part]
            still = _any(seeker.wants(one, other) for seeker in seekers)  # some were joined meanwhile
            one, other = one[still], other[still]
            squares = self._space.squares(one, other)
            for seeker in seekers:
                seeker.take(one, other, squares)


def measure(space: PairSpace, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The squared distances of many pairs, computed in pieces."""
    step = max(1, MEASURED // max(1, space.rows(first[:1]).shape[1]))
    squares = [space.squares(first[part], second[part]) for part in _slices(len(first), step)]
    return np.concatenate(squares) if squares else np.zeros(0)


class _Candidates(Protocol):
    """Finds the pairs that are worth measuring."""

    dim: int

    def pairs(self, start: int, stop: int, seekers: Sequence[PairSeeker]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of an item of these and a later one that a seeker may want, in order."""


def _candidates(space: PairSpace, limit: float, rng: np.random.Generator) -> _Candidates:
    if isinstance(space, CodePairs) and space.codes.n_bits < LONG:
        return CodeScan(space.codes)
    return RoughSpace(space, limit, rng)


class CodeScan:
    """Codes as they are: every distance is counted, and no pair is listed that is too far or has equal keys."""

    def __init__(self, codes: Codes) -> None:
        self.dim = codes.n_bits
        self._words = np.ascontiguousarray(codes.words.T)
        self._loops = kernels(len(codes) ** 2 / 2 * len(self._words))

    def pairs(self, start: int, stop: int, seekers: Sequence[PairSeeker]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of an item of these and a later one that a seeker may want, in order."""
        parts = np.linspace(start, stop, n_threads(None) + 1).astype(np.int64)
        positions = [np.array([first, first + 1]) for first in parts[:-1]]
        with ThreadPoolExecutor(len(positions)) as pool:
            listed = list(pool.map(self._list, positions, parts[1:], [seekers] * len(positions)))
        for pairs, position, end in zip(listed, positions, parts[1:], strict=True):
            yield pairs
            while position[0] < end:  # there were more than fit into the list; seekers may want less of the others
                yield self._list(position, end, seekers)

    def _list(self, position: np.ndarray, stop: int, seekers: Sequence[PairSeeker]) -> tuple[np.ndarray, np.ndarray]:
        """Some pairs from a position on, which is moved to the next."""
        seeking = [seeker for seeker in seekers if seeker.limit >= 0]
        if not seeking:
            position[:] = stop, stop + 1
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        limit = int(min(max(seeker.limit for seeker in seeking), self.dim))
        first, second = np.empty((2, CHUNK), np.int64)
        keys = np.ascontiguousarray([seeker.keys for seeker in seeking])
        n = self._loops.later_near(self._words, keys, limit, stop, position, first, second)
        return first[:n], second[:n]


class RoughSpace:
    """Items by a few numbers each: their squared distance is at most the true one."""

    def __init__(self, space: PairSpace, limit: float, rng: np.random.Generator) -> None:
        n = len(space)
        sample = rng.permutation(n)[: 2 * SAMPLE]
        rows = space.rows(sample)
        self.dim = rows.shape[1]
        centre = rows.mean(0)
        scale = float(np.sqrt(((rows - centre) ** 2).sum(1).mean())) or 1.0
        cut = self.dim > FEW and n > SMALL
        basis = _basis((rows - centre) / scale, limit / scale**2, rng) if cut else None
        self._scale = scale * scale
        width = self.dim if basis is None else basis.shape[1] + 1
        left = np.empty((n, width + 2), np.float32)
        for part in _slices(n, 1024):
            left[part, :width] = _cut((space.rows(np.arange(n)[part]) - centre) / scale, basis)
        lengths = (left[:, :width].astype(np.float64) ** 2).sum(1)
        # -½ the squared distance is one product: x·y - ½x·x - ½y·y; float32 may be off by 1e-5 of the lengths
        left[:, width] = -(0.5 - 1e-5) * lengths
        left[:, width + 1] = 1
        self._left = left
        self._right = _panels(left[:, [*range(width), width + 1, width]], product_kernel().panel_width(left.dtype))

    def pairs(self, start: int, stop: int, seekers: Sequence[PairSeeker]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of an item of these and a later one that a seeker may want, in order."""
        limit = max(seeker.limit for seeker in seekers)
        if limit < 0:
            return
        least = np.float32(-limit / self._scale / 2)
        kernel = product_kernel()
        queries, wide = _panels(self._left[start:stop], kernel.ROWS), self._right.shape[2]
        begin, at_once = start // wide * wide, max(1, COLUMNS // wide)
        near = np.empty((stop - start, len(self._right) * wide - begin), bool)

        def compare(first: int) -> None:
            items = self._right[first : first + at_once]
            products = np.empty((len(queries) * kernel.ROWS, len(items) * wide), np.float32)
            kernel.product(queries, items, products)
            column = first * wide - begin
            np.greater_equal(products[: stop - start], least, out=near[:, column : column + products.shape[1]])

        with ThreadPoolExecutor(n_threads(None)) as pool:
            list(pool.map(compare, range(begin // wide, len(self._right), at_once)))
        flat = np.flatnonzero(near)
        for part in _slices(len(flat), CHUNK):
            first, second = np.divmod(flat[part], near.shape[1])
            first, second = first + start, second + begin
            later = (second > first) & (second < len(self._left))  # the last panel is filled up
            yield first[later], second[later]


def _panels(rows: np.ndarray, width: int) -> np.ndarray:
    """Rows as the product takes them, (panels, columns, width)."""
    out = np.empty((-(-len(rows) // width), rows.shape[1], width), np.float32)
    product_kernel().pack(np.ascontiguousarray(rows), np.ones(len(rows), np.float32), out)
    return out


def _basis(rows: np.ndarray, limit: float, rng: np.random.Generator) -> np.ndarray | None:
    """Directions (dim, r), as many as make comparing cheapest, learned from one half of rows and tried on the other."""
    half = len(rows) // 2
    learned, tried = rows[:half], rows[half:]
    directions = rng.normal(size=(rows.shape[1], max(LEARNED)))
    for _ in range(3):  # powers of the covariance turn them to where rows spread most
        directions = np.linalg.qr(learned.T @ (learned @ directions))[0]
    turned = np.linalg.eigh((learned @ directions).T @ (learned @ directions))[1]
    directions = directions @ turned[:, ::-1]
    best, least = None, float(rows.shape[1])
    for r in LEARNED:
        cut = _cut(tried, directions[:, :r])
        lengths = (cut * cut).sum(1)
        squares = lengths[:, None] + lengths - 2 * cut @ cut.T
        cost = r + 20 * float((squares <= limit).mean()) * rows.shape[1]  # measuring a pair costs about 20 rough ones
        if cost < least:
            best, least = directions[:, :r], cost
    return best


def _cut(rows: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    """Rows along the directions of the basis, and the length of what remains."""
    if basis is None:
        return rows
    along = rows @ basis
    remains = np.sqrt(np.maximum((rows * rows).sum(1) - (along * along).sum(1), 0))
    return np.column_stack([along, remains])


def _any(masks: Iterator[np.ndarray]) -> np.ndarray:
    return np.logical_or.reduce(list(masks))


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
