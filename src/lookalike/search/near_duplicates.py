"""Which items of a collection are near each other: groups of near-duplicates, and the nearest pairs across labels.

Every pair is compared, but most of them only roughly: a few numbers of each item give a distance that the true one
never falls below (the others by their length, which is Cauchy and Schwarz), and only what is near by these is measured.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.kernels import product_kernel
from lookalike.core.progress import report
from lookalike.core.threads import n_threads

ROWS, COLUMNS = 240, 2048  # items that are compared with items at once
CHUNK = 1 << 16  # pairs that are looked at, and
MEASURED = 1 << 18  # numbers of those that are measured at once
FEW, SMALL = 256, 5000  # numbers of an item, and items, that are not worth cutting
LEARNED = (32, 64, 128)  # numbers that are tried in place of all
SAMPLE = 1000  # items to learn from where a collection lies and how far its items are apart
DRAWN = 20_000  # pairs whose median distance is the usual one
SHARE = 1 / 4  # of the usual distance: near-duplicates
BITS = 16  # near-duplicates differ in one bit of so many
CLOSEST = 200  # items of a group whose distances are all measured

__all__ = ["Group", "Near", "Pair", "Space", "find_near", "space_of"]


@dataclass(frozen=True, eq=False)
class Group:
    """Items that are connected by steps of near-duplicates."""

    items: np.ndarray  # positions, rising
    nearest: float  # of its pairs, as the space writes distances
    farthest: float
    whole: bool = True  # whether all pairs were measured, or only those of its first items


@dataclass(frozen=True)
class Pair:
    """Two items that are near each other and are labelled as different."""

    first: int
    second: int
    distance: float  # as the space writes distances


@dataclass(frozen=True, eq=False)
class Near:
    """What is near in a collection, in one space."""

    unit: str  # of all distances: "bits", "cosine" (higher is nearer) or "distance"
    usual: float  # the median of two items drawn by chance
    limit: float  # up to which two items are near-duplicates
    chosen: bool  # whether that limit was given, rather than derived
    groups: list[Group]  # the largest first, then the tightest
    pairs: list[Pair]  # of different labels, the nearest first
    beyond: list[Pair]  # the same without near-duplicates, and labels that these connect taken for one

    @property
    def grouped(self) -> int:
        """How many items are in some group."""
        return sum(len(group.items) for group in self.groups)


class Space(Protocol):
    """Where items lie, with squared distances (of codes, bits) between them."""

    unit: str

    def __len__(self) -> int:
        """How many items there are."""

    def rows(self, items: np.ndarray) -> np.ndarray:
        """The places of items, (n, dim) of float64."""

    def squares(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The squared distance of each pair of items, 0 exactly where they are the same."""

    def shown(self, square: float) -> float:
        """A squared distance as people read it."""

    def square(self, shown: float) -> float:
        """The squared distance of what people read."""


class _Bits:
    """Codes: the squared distance is the number of bits that differ."""

    unit = "bits"

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, items: np.ndarray) -> np.ndarray:
        return self.codes[items].unpack().astype(np.float64)

    def squares(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        differing = self.codes.words[first] ^ self.codes.words[second]
        return np.bitwise_count(differing).sum(1, dtype=np.int64).astype(np.float64)

    def shown(self, square: float) -> float:
        return int(square)

    def square(self, shown: float) -> float:
        return float(shown)


class _Rows:
    """Embeddings: by the angle between them (cosine), else by their distance."""

    def __init__(self, vectors: np.ndarray, similarity: str | None) -> None:
        self.vectors = vectors
        self.unit = "cosine" if similarity in (None, "cosine") else "distance"
        self.lengths = np.ones(len(vectors))
        if self.unit == "cosine":
            for start in range(0, len(vectors), COLUMNS):
                block = vectors[start : start + COLUMNS].astype(np.float64)
                self.lengths[start : start + COLUMNS] = np.sqrt((block * block).sum(1))
            self.lengths[self.lengths == 0] = 1.0

    def __len__(self) -> int:
        return len(self.vectors)

    def rows(self, items: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.vectors[items].astype(np.float64) / self.lengths[items, None]
        return found

    def squares(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        apart = self.rows(first) - self.rows(second)
        found: np.ndarray = (apart * apart).sum(1)
        return found

    def shown(self, square: float) -> float:
        return float(1 - square / 2) if self.unit == "cosine" else float(np.sqrt(square))

    def square(self, shown: float) -> float:
        return 2 * (1 - shown) if self.unit == "cosine" else shown * shown


def space_of(vectors: Any, similarity: str | None = None) -> Space:
    """The space of Codes, or of embeddings (n, dim): by angle for cosine, by distance for dot and euclidean."""
    return _Bits(vectors) if isinstance(vectors, Codes) else _Rows(np.asarray(vectors), similarity)


def find_near(
    vectors: Any,
    labels: np.ndarray | None = None,
    *,
    similarity: str | None = None,
    limit: float | None = None,
    pairs: int = 24,
    seed: int = 0,
    what: str = "comparing items",
) -> Near:
    """Groups of near-duplicates, and the nearest pairs of different labels; all of them, exactly.

    vectors: Codes or embeddings. labels: one an item, "" where unknown; where there are many, only the nearest pair of
    two labels is taken. limit: up to which two items are near-duplicates, in bits, as cosine, or as distance; by
    default one bit of 16, or a quarter of the median distance of pairs drawn with `seed`. what: as progress says it.

    >>> codes = Codes.pack(np.repeat(np.eye(4), 16, axis=1)[[0, 0, 1, 2]])
    >>> near = find_near(codes, np.array(["red", "blue", "red", "red"]), pairs=1)
    >>> near.limit, [group.items for group in near.groups], near.pairs
    (4, [array([0, 1])], [Pair(first=0, second=1, distance=0)])
    """
    space = space_of(vectors, similarity)
    rng = np.random.default_rng(seed)
    usual = _usual(space, rng)
    near = _default_limit(vectors, usual) if limit is None else space.square(limit)
    groups = _Groups(len(space), near)
    across = None if labels is None else _Across(labels, pairs, _are_many(labels, pairs))
    _sweep(space, [groups] if across is None else [groups, across], rng, what)
    found = groups.found()
    return Near(
        space.unit,
        space.shown(usual),
        space.shown(near),
        limit is not None,
        _described(space, found),
        *([[], []] if across is None else _pairs(space, across, found, near, rng, f"{what}, once more")),
    )


def _pairs(
    space: Space, across: "_Across", groups: list[np.ndarray], near: float, rng: np.random.Generator, what: str
) -> list[list[Pair]]:
    """The nearest pairs of different labels, and those of them that are not near-duplicates."""
    first = across.found()
    if first and first[0][0] <= near:
        later = across.beyond(near, groups)
        _sweep(space, [later], rng, what)
        second = later.found()
    else:
        second = first
    return [[Pair(i, j, space.shown(square)) for square, i, j in found] for found in (first, second)]


def _are_many(labels: np.ndarray, pairs: int) -> bool:
    """Whether so many pairs of labels can be near that the nearest pair of items of each is enough."""
    n = len(np.unique(labels[labels != ""]))
    return n * (n - 1) // 2 >= 50 * pairs


def _usual(space: Space, rng: np.random.Generator) -> float:
    """The median squared distance of two items drawn by chance."""
    n = len(space)
    if n < 2:
        return 0.0
    first = rng.integers(n, size=DRAWN)
    second = (first + rng.integers(1, n, size=DRAWN)) % n
    squares = [space.squares(first[part], second[part]) for part in _slices(DRAWN, 1000)]
    return float(np.quantile(np.concatenate(squares), 0.5, method="lower"))


def _default_limit(vectors: Any, usual: float) -> float:
    return float(vectors.n_bits // BITS) if isinstance(vectors, Codes) else usual * SHARE**2


def _described(space: Space, found: list[np.ndarray]) -> list[Group]:
    groups = []
    for items in found:
        looked = items[:CLOSEST]
        first, second = np.triu_indices(len(looked), 1)
        step = max(1, MEASURED // max(1, space.rows(items[:1]).shape[1]))
        squares = [space.squares(looked[first[part]], looked[second[part]]) for part in _slices(len(first), step)]
        ends = min(part.min() for part in squares), max(part.max() for part in squares)
        group = Group(items, space.shown(ends[0]), space.shown(ends[1]), len(looked) == len(items))
        groups.append((ends[1], group))
    groups.sort(key=lambda pair: (-len(pair[1].items), pair[0], pair[1].items[0]))
    return [group for _, group in groups]


# What is looked for


class _Seeker(Protocol):
    """What pairs are looked for; pairs come in the order of their first and then their second item."""

    @property
    def limit(self) -> float:
        """The squared distance up to which pairs matter, from here on."""

    def expect(self, space: Space, sample: np.ndarray) -> None:
        """Learn from some of the items how near the pairs that are looked for will be at most."""

    def wants(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Which of these pairs are worth measuring."""

    def take(self, first: np.ndarray, second: np.ndarray, squares: np.ndarray) -> None:
        """Learn how far the items of pairs are apart."""


class _Groups:
    """Items that steps up to a limit connect; group: (n,), equal for those that are connected."""

    def __init__(self, n: int, limit: float) -> None:
        self.limit = limit
        self.group = np.arange(n)
        self._members: dict[int, list[int]] = {}

    def expect(self, space: Space, sample: np.ndarray) -> None:
        """The limit is known."""

    def wants(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(self.group[first] != self.group[second])

    def take(self, first: np.ndarray, second: np.ndarray, squares: np.ndarray) -> None:
        near = np.flatnonzero(squares <= self.limit)
        for i, j in zip(first[near].tolist(), second[near].tolist(), strict=True):
            self._join(int(self.group[i]), int(self.group[j]))

    def _join(self, one: int, other: int) -> None:
        if one == other:
            return
        sides = [(self._members.pop(group, [group]), group) for group in (one, other)]
        (fewer, _), (more, kept) = sorted(sides, key=lambda side: len(side[0]))
        self.group[fewer] = kept
        more += fewer
        self._members[kept] = more

    def found(self) -> list[np.ndarray]:
        """Groups of at least two, each in rising order."""
        return [np.array(sorted(members)) for members in self._members.values()]


class _Across:
    """The nearest pairs of different labels: of every two labels the nearest, or all pairs."""

    def __init__(self, labels: np.ndarray, wanted: int, by_label: bool, above: float = -1.0) -> None:
        self._labels = np.unique(labels, return_inverse=True)[1]
        self._known = labels != ""
        self._wanted, self._by_label, self._above = wanted, by_label, above
        self._expected = np.inf  # there are enough pairs that are as near as this
        self._best: dict[tuple[int, int], tuple[float, int, int]] = {}

    def beyond(self, near: float, groups: list[np.ndarray]) -> "_Across":
        """The same for pairs that are farther apart than this; labels of one group are then one label."""
        labels = self._labels.copy()
        if self._by_label:
            joined = _Groups(int(labels.max(initial=0)) + 1, 0.0)
            for items in groups:
                names = np.unique(labels[items[self._known[items]]])
                joined.take(names[:-1], names[1:], np.zeros(max(0, len(names) - 1)))
            labels = joined.group[labels]
        named = np.where(self._known, labels.astype(str), "")
        return _Across(named, self._wanted, self._by_label, near)

    @property
    def limit(self) -> float:
        if len(self._best) < self._wanted:
            return self._expected
        # what comes later in the order must be nearer than the last
        worst = max(self._best.values())[0]
        return min(self._expected, float(np.nextafter(worst, -1)) if worst else -1.0)

    def wants(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        differ = self._labels[first] != self._labels[second]
        return np.asarray(differ & self._known[first] & self._known[second])

    def take(self, first: np.ndarray, second: np.ndarray, squares: np.ndarray) -> None:
        near = (squares <= self.limit) & (squares > self._above)
        matter = np.flatnonzero(near & self.wants(first, second))
        for k in matter[np.lexsort((second[matter], first[matter], squares[matter]))].tolist():
            if squares[k] > self.limit:
                break
            found = (float(squares[k]), int(first[k]), int(second[k]))
            key = self._key(found[1], found[2])
            if key not in self._best or found < self._best[key]:
                self._best[key] = found
            if len(self._best) > self._wanted:
                del self._best[max(self._best, key=lambda key: self._best[key])]

    def _key(self, first: int, second: int) -> tuple[int, int]:
        if not self._by_label:
            return first, second
        one, other = sorted((int(self._labels[first]), int(self._labels[second])))
        return one, other

    def expect(self, space: Space, sample: np.ndarray) -> None:
        """Learn from some of the items how near the pairs that are looked for will be at most."""
        rows = space.rows(sample)
        rows -= rows.mean(0)
        lengths = (rows * rows).sum(1)
        squares = lengths[:, None] + lengths - 2 * rows @ rows.T
        first, second = np.triu_indices(len(sample), 1)
        rounding = 1e-9 * float(lengths.max(initial=0)) + 1e-12
        wanted = self.wants(sample[first], sample[second]) & (squares[first, second] > self._above + rounding)
        first, second = first[wanted], second[wanted]
        order = np.argsort(squares[first, second], kind="stable")
        keys: set[tuple[int, int]] = set()
        for k in order.tolist():
            keys.add(self._key(int(sample[first[k]]), int(sample[second[k]])))
            if len(keys) == self._wanted:
                self._expected = float(squares[first[k], second[k]]) + rounding
                return

    def found(self) -> list[tuple[float, int, int]]:
        """Squared distance, first and second item; the nearest first, ties by position."""
        return sorted(self._best.values())


# All pairs


def _sweep(space: Space, seekers: list[_Seeker], rng: np.random.Generator, what: str) -> None:
    """Give the seekers every pair that is as near as some of them ask, in order."""
    n = len(space)
    if n < 2:
        return
    for seeker in seekers:
        seeker.expect(space, rng.permutation(n)[:SAMPLE])
    rough = _Rough(space, max(seeker.limit for seeker in seekers), rng)
    step = max(1, MEASURED // rough.dim)
    for start in range(0, n, ROWS):
        limit = max(seeker.limit for seeker in seekers)
        for first, second in rough.pairs(start, min(start + ROWS, n), limit):
            wanted = _any(seeker.wants(first, second) for seeker in seekers)
            first, second = first[wanted], second[wanted]
            for part in _slices(len(first), step):
                one, other = first[part], second[part]
                still = _any(seeker.wants(one, other) for seeker in seekers)
                one, other = one[still], other[still]
                squares = space.squares(one, other)
                for seeker in seekers:
                    seeker.take(one, other, squares)
        report(what, min(start + ROWS, n), n)


class _Rough:
    """Items by a few numbers each, whose squared distance is at most the true one."""

    def __init__(self, space: Space, limit: float, rng: np.random.Generator) -> None:
        n = len(space)
        sample = rng.permutation(n)[: 2 * SAMPLE]
        rows = space.rows(sample)
        self.dim = rows.shape[1]
        self._exact = space.unit == "bits" and self.dim <= FEW  # whole numbers that float32 holds
        centre = 0.0 if self._exact else rows.mean(0)
        scale = 1.0 if self._exact else float(np.sqrt(((rows - centre) ** 2).sum(1).mean())) or 1.0
        cut = self.dim > FEW and n > SMALL
        basis = _basis((rows - centre) / scale, limit / scale**2, rng) if cut else None
        self._scale = scale * scale
        width = self.dim if basis is None else basis.shape[1] + 1
        left = np.empty((n, width + 2), np.float32)
        for part in _slices(n, 1024):
            left[part, :width] = _cut((space.rows(np.arange(n)[part]) - centre) / scale, basis)
        lengths = (left[:, :width].astype(np.float64) ** 2).sum(1)
        # -½ the squared distance is one product: x·y - ½x·x - ½y·y; float32 may be off by 1e-5 of the lengths
        left[:, width] = -(0.5 if self._exact else 0.5 - 1e-5) * lengths
        left[:, width + 1] = 1
        self._left = left
        self._right = _panels(left[:, [*range(width), width + 1, width]], product_kernel().panel_width(left.dtype))

    def pairs(self, start: int, stop: int, limit: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of an item of these and a later one that may be as near as the limit, in order."""
        if limit < 0:
            return
        least = np.float32(-(np.floor(limit) + 0.25) / 2 if self._exact else -limit / self._scale / 2)
        kernel = product_kernel()
        queries, wide = _panels(self._left[start:stop], kernel.ROWS), self._right.shape[2]
        begin = start // wide * wide
        near = np.empty((stop - start, len(self._right) * wide - begin), bool)

        def compare(first: int) -> None:
            items = self._right[first : first + COLUMNS // wide]
            products = np.empty((len(queries) * kernel.ROWS, len(items) * wide), np.float32)
            kernel.product(queries, items, products)
            column = first * wide - begin
            np.greater_equal(products[: stop - start], least, out=near[:, column : column + products.shape[1]])

        with ThreadPoolExecutor(n_threads(None)) as pool:
            list(pool.map(compare, range(begin // wide, len(self._right), COLUMNS // wide)))
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
