"""How codes fill the space: how many are used and how evenly, and how the classes lie in it (Ding et al. 2018)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes, as_numpy
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.progress import track
from lookalike.evaluation.count import count
from lookalike.evaluation.distinct_codes import distinct_codes
from lookalike.evaluation.relevance import same_label

BLOCK = 1 << 22  # numbers that are looked at together

EVERY_CODE = 16  # bits up to which every code has its own place in a histogram
PREFIX = 12  # bits by which longer codes are put together

__all__ = [
    "CodeHistogram",
    "Separation",
    "Usage",
    "WithinClass",
    "items_by_code",
    "mean_of_known",
    "separation",
    "usage",
    "within_class_correlation",
]


@dataclass(frozen=True, eq=False)
class Usage:
    """How a gallery's codes fill the space of all codes of their length."""

    items: int
    n_bits: int
    counts: np.ndarray  # (distinct,) items on each code that occurs, the fullest first
    mixed: int | None  # items on codes that items of different labels share; None without labels
    balance: np.ndarray  # (n_bits,) share of ones
    correlations: np.ndarray  # (n_bits, n_bits) between bits; nan for a bit that is always the same

    @property
    def distinct(self) -> int:
        """Codes that occur."""
        return len(self.counts)

    @property
    def utilisation(self) -> float:
        """Share of all 2^n_bits codes that occur."""
        return float(np.ldexp(float(self.distinct), -self.n_bits))

    @property
    def possible_utilisation(self) -> float:
        """Codes that occur over those that could: there are no more than items."""
        possible = min(self.items, 2**self.n_bits)
        return self.distinct / possible

    @property
    def entropy(self) -> float:
        """Entropy of the code of a random item, in bits; at most n_bits and log2 of the items."""
        shares = self.counts / self.items
        return float(max(0.0, -(shares * np.log2(shares)).sum()))

    @property
    def collision_rate(self) -> float:
        """Chance that two items drawn at random share a code; nan for a single item."""
        pairs = self.items * (self.items - 1)
        return float((self.counts * (self.counts - 1.0)).sum() / pairs) if pairs else float("nan")

    @property
    def largest(self) -> int:
        """Items on the fullest code."""
        return int(self.counts[0])

    @property
    def imbalance(self) -> float:
        """How far a bit's share of ones is from a half, averaged over bits: 0 is best, 0.5 is constant."""
        return float(np.abs(self.balance - 0.5).mean())

    @property
    def redundancy(self) -> float:
        """Mean absolute correlation between two bits, constant ones left out; nan where there are no two."""
        upper = np.abs(self.correlations[np.triu_indices(self.n_bits, 1)])
        defined = upper[~np.isnan(upper)]
        return float(defined.mean()) if len(defined) else float("nan")

    def row(self) -> dict[str, Any]:
        """The numbers by name, as they are printed and saved."""
        names = (
            "items n_bits distinct utilisation possible_utilisation entropy collision_rate largest mixed "
            "imbalance redundancy"
        )
        return {name: getattr(self, name) for name in names.split()}

    def __repr__(self) -> str:
        shared = "" if self.mixed is None else f", {self.mixed:,} items on codes shared by different labels"
        return (
            f"Usage({self.items:,} items on {self.distinct:,} codes of {self.n_bits} bits: "
            f"{self.utilisation:.3g} of all, {self.possible_utilisation:.3g} of the possible; "
            f"entropy {self.entropy:.2f} bits, collision rate {self.collision_rate:.3g}, "
            f"at most {self.largest:,} on one{shared})"
        )


def usage(codes: Codes, labels: Any = None) -> Usage:
    """How these codes fill the space; with labels, also how many items share a code with another label.

    >>> usage(Codes.pack([[0, 0], [0, 0], [0, 1], [1, 1]]), labels=["cat", "dog", "cat", "cat"])
    Usage(4 items on 3 codes of 2 bits: 0.75 of all, 0.75 of the possible; entropy 1.50 bits, collision rate 0.167, \
at most 2 on one, 2 items on codes shared by different labels)
    """
    _check_codes(codes)
    mixed = None
    if labels is None:
        counts = distinct_codes(codes).counts
    else:
        used = distinct_codes(codes, with_index=True)
        assert used.index is not None
        mixed, counts = _mixed(used.index, _numbers(labels, len(codes))[1]), used.counts
    ones, together = np.zeros(codes.n_bits), np.zeros((codes.n_bits, codes.n_bits))
    for bits in _blocks_of_bits(codes):
        ones += bits.sum(0, dtype=np.float64)
        together += bits.T @ bits  # whole numbers below 2^24: exact
    balance = ones / len(codes)
    spread = np.sqrt(balance * (1 - balance))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = (together / len(codes) - np.outer(balance, balance)) / np.outer(spread, spread)
    correlations[:, spread == 0] = correlations[spread == 0] = np.nan
    return Usage(len(codes), codes.n_bits, np.sort(counts)[::-1], mixed, balance, np.clip(correlations, -1, 1))


@dataclass(frozen=True, eq=False)
class CodeHistogram:
    """Items on each code, codes in numerical order; or on all codes that begin with the same bits."""

    n_bits: int  # of the codes
    prefix_bits: int  # of what is counted: all of them, or the first
    items: np.ndarray  # (2^prefix_bits,)

    @property
    def is_whole(self) -> bool:
        """Whether every code has a place of its own."""
        return self.prefix_bits == self.n_bits

    def shorter(self, prefix_bits: int) -> "CodeHistogram":
        """The same by fewer bits, if it has more."""
        prefix_bits = min(prefix_bits, self.prefix_bits)
        return CodeHistogram(self.n_bits, prefix_bits, self.items.reshape(2**prefix_bits, -1).sum(1))

    def __repr__(self) -> str:
        what = "codes" if self.is_whole else f"first {self.prefix_bits} bits"
        return f"CodeHistogram({self.items.sum():,} items on {len(self.items):,} {what} of {self.n_bits} bits)"


def items_by_code(codes: Codes, prefix_bits: int | None = None) -> CodeHistogram:
    """How many items lie on each code, codes in numerical order (Ding et al. 2018, figure 1).

    A code is read as a binary number, its first bit the highest. prefix_bits: put codes together by so many of their
    first bits, 24 at most; by default every code is counted up to 16 bits, and longer codes by their first 12.

    >>> items_by_code(Codes.pack([[0, 0], [1, 0], [1, 0], [1, 1]])).items
    array([1, 0, 2, 1])
    """
    _check_codes(codes)
    if prefix_bits is None:
        prefix_bits = codes.n_bits if codes.n_bits <= EVERY_CODE else PREFIX
    whole_number("prefix_bits", prefix_bits, 1, min(24, codes.n_bits))
    numbers = np.zeros(len(codes), np.int64)
    first_word = codes.words[:, 0]
    for bit in range(prefix_bits):  # bit j of a code is bit j of its first word
        numbers = numbers << 1 | (first_word >> np.uint64(bit) & np.uint64(1)).astype(np.int64)
    return CodeHistogram(codes.n_bits, prefix_bits, np.bincount(numbers, minlength=2**prefix_bits))


@dataclass(frozen=True, eq=False)
class Separation:
    """Whether classes lie apart among codes, and what that says of its use (Ding et al. 2018, proposition 1).

    A class's diameter is the largest distance between two of its codes, its separation the smallest to a code of
    another class. If every class is wider than a point and narrower than its separation, every query of it ranks its
    class first and mAP is 1; then at most two thirds of all codes can be used.
    """

    classes: np.ndarray
    diameters: np.ndarray
    separations: np.ndarray
    utilisation: float
    bound: float = 2 / 3

    @property
    def holds(self) -> bool:
        """Whether every class has a diameter of 1 or more, and smaller than its separation."""
        return bool(((self.diameters >= 1) & (self.diameters < self.separations)).all())

    def __repr__(self) -> str:
        apart = int((self.diameters < self.separations).sum())
        verdict = (
            f"the premise holds, so utilisation is at most {self.bound:.3f}"
            if self.holds
            else "the premise does not hold, so nothing follows"
        )
        return (
            f"Separation({apart} of {len(self.classes)} classes are narrower than their distance to the next; "
            f"{verdict}; measured {self.utilisation:.3g})"
        )


def separation(codes: Codes, labels: Any) -> Separation:
    """Diameter of every class of codes and its distance to the nearest other class.

    Every code of a class meets every other code, so the time grows with the square of the distinct codes.

    >>> separation(Codes.pack([[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 0]]), [0, 0, 1, 1])
    Separation(2 of 2 classes are narrower than their distance to the next; the premise holds, so utilisation is at \
most 0.667; measured 0.25)
    """
    _check_codes(codes)
    classes, numbers = _numbers(labels, len(codes))
    if len(classes) < 2:
        raise InputError(f"separation needs at least two classes, got {len(classes)}")
    used = distinct_codes(codes, with_index=True)
    assert used.index is not None
    pairs = np.unique(np.stack([used.index, numbers], 1), axis=0)  # each code of each class once
    points, owners = Codes(used.words[pairs[:, 0]], codes.n_bits), pairs[:, 1]
    diameters = np.zeros(len(classes), np.int64)
    separations = np.full(len(classes), codes.n_bits + 1)
    distances = np.arange(codes.n_bits + 1)
    rows = max(1, BLOCK // (codes.n_bits + 1))
    starts = range(0, len(points), rows)
    for start in track(starts, len(starts), "measuring classes"):
        block_owners = owners[start : start + rows]
        tally = count(points[start : start + rows], points, same_label(block_owners, owners))
        of_class, of_others = tally.counts[:, :, 1] > 0, tally.counts[:, :, 0] > 0
        np.maximum.at(diameters, block_owners, np.where(of_class, distances, 0).max(1))
        np.minimum.at(separations, block_owners, np.where(of_others, distances, codes.n_bits + 1).min(1))
    return Separation(classes, diameters, separations, float(np.ldexp(float(len(used.words)), -codes.n_bits)))


def mean_of_known(values: np.ndarray) -> float:
    """Mean of the values that are not nan; nan where there are none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


class WithinClass:
    """Whether, inside a class, Hamming distance follows the distance between features; made once, asked of many codes.

    From each class at most `max_items` are drawn; `correlation(codes)` is Spearman's, over all their pairs.
    """

    def __init__(self, features: Any, labels: Any, *, max_items: int = 500, random_state: int = 0) -> None:
        features = as_numpy(features)
        if features.ndim != 2 or features.dtype.kind not in "biuf":
            raise InputError(f"features must be a matrix of numbers, got {features.shape} of {features.dtype}")
        if max_items < 3:
            raise InputError(f"max_items must be at least 3, two pairs being the fewest to rank, got {max_items}")
        self.classes, numbers = _numbers(labels, len(features))
        self.n_items = len(features)
        generator = np.random.default_rng(random_state)
        self._rows, self._ranks = [], []
        for number in range(len(self.classes)):
            rows = np.flatnonzero(numbers == number)
            if len(rows) > max_items:
                rows = np.sort(generator.choice(rows, max_items, replace=False))
            self._rows.append(rows)
            self._ranks.append(_centred_ranks(_distances(features[rows].astype(np.float64))))

    def correlation(self, codes: Codes) -> np.ndarray:
        """Rank correlation of both distances in each class; nan where one of them never varies."""
        _check_codes(codes)
        if len(codes) != self.n_items:
            raise InputError(f"there are {len(codes)} codes, but features of {self.n_items} items")
        return np.array([self._of_class(codes[rows], ranks) for rows, ranks in self._chosen()])

    def _chosen(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return zip(self._rows, self._ranks, strict=True)

    @staticmethod
    def _of_class(codes: Codes, ranks: np.ndarray) -> float:
        hamming = _centred_ranks(_hamming(codes))
        scale = np.sqrt((ranks @ ranks) * (hamming @ hamming))
        return float(ranks @ hamming / scale) if scale > 0 else float("nan")


def within_class_correlation(
    codes: Codes, labels: Any, features: Any, *, max_items: int = 500, random_state: int = 0
) -> np.ndarray:
    """Spearman's correlation of Hamming distance and distance of features, (n_classes,), classes in sorted order.

    >>> line = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> codes = Codes.pack([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    >>> within_class_correlation(codes, ["all"] * 4, line)
    array([1.])
    """
    return WithinClass(features, labels, max_items=max_items, random_state=random_state).correlation(codes)


def _check_codes(codes: Any) -> None:
    if not isinstance(codes, Codes):
        raise InputTypeError(f"codes must be la.Codes, got {type(codes).__name__}: la.Codes.pack(bits) makes them")
    if not len(codes):
        raise InputError("there are no codes")


def _numbers(labels: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted, and the place of each item's among them."""
    labels = as_numpy(labels)
    if labels.shape != (n,):
        raise InputError(f"labels must be {n}, one for each item, got shape {labels.shape}")
    classes, numbers = np.unique(labels, return_inverse=True)
    return classes, numbers


def _mixed(code: np.ndarray, label: np.ndarray) -> int:
    """Items on a code that has more than one label."""
    one_label = np.zeros(code.max() + 1, label.dtype)
    one_label[code] = label
    mixed = np.zeros(len(one_label), bool)
    mixed[code[one_label[code] != label]] = True
    return int(mixed[code].sum())


def _blocks_of_bits(codes: Codes) -> Iterator[np.ndarray]:
    rows = max(1, BLOCK // codes.n_bits)
    for start in range(0, len(codes), rows):
        yield codes[start : start + rows].unpack().astype(np.float32)


def _distances(rows: np.ndarray) -> np.ndarray:
    """Squared distances of all pairs of rows, which rank as distances do; equal pairs tie exactly."""
    from scipy.spatial.distance import pdist

    return np.asarray(pdist(rows, "sqeuclidean"))


def _hamming(codes: Codes) -> np.ndarray:
    """Hamming distances of all pairs of codes, in the same order."""
    bits = codes.unpack().astype(np.float64)
    ones = bits.sum(1)
    return (ones[:, None] + ones - 2 * (bits @ bits.T))[np.triu_indices(len(bits), 1)]


def _centred_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, ties sharing their mean, less the mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values)) - (len(values) + 1) / 2
