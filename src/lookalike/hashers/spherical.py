"""SpH: spherical hashing."""

from typing import Any

import numpy as np

from lookalike.core.checks import same_bits, same_hasher, whole_number
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.kernels import bend_kernels
from lookalike.core.progress import track
from lookalike.hashers.base import Hasher, check_number
from lookalike.hashers.projection import centred_blocks, sample_rows

__all__ = ["SpH", "spherical_distances"]


class SpH(Hasher):
    """Spherical hashing: bit j is whether an item is inside sphere j (Heo et al. 2012).

    Spheres are moved until each holds half of the training items and two of them share about a quarter, or until
    `max_rounds` have passed. The paper's rule: shares differ from a quarter by at most `tolerance` of it on average,
    and their standard deviation is at most `deviation` of it. `strict=True` asks, in place of the deviation, that no
    share is further from 0.25 than `tolerance`. `overlaps_` are the shares that were reached. At most `max_samples`
    items take part.
    """

    centres_: np.ndarray
    radii_: np.ndarray
    overlaps_: np.ndarray

    of_each_bit = ("radii_",)

    def __init__(
        self,
        n_bits: int = 32,
        *,
        tolerance: float = 0.1,
        deviation: float = 0.15,
        strict: bool = False,
        max_rounds: int = 1000,
        max_samples: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.tolerance, self.deviation, self.strict = n_bits, tolerance, deviation, strict
        self.max_rounds, self.max_samples, self.random_state = max_rounds, max_samples, random_state

    @classmethod
    def _parameters_of_file(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        return {"strict": True} | parameters  # files from before the paper's rule do not say it, and were strict

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        check_number("tolerance", self.tolerance)
        check_number("deviation", self.deviation)
        if not isinstance(self.strict, bool | np.bool_):
            raise InputTypeError(Option("strict"), f" must be True or False, got {self.strict!r}", value=self.strict)
        whole_number("max_rounds", self.max_rounds, 1)
        whole_number("max_samples", self.max_samples, 2)
        if min(len(X), self.max_samples) < self.n_bits:
            raise InputError(
                f"SpH needs at least as many items as bits, since each sphere starts from one: got {len(X)} items, "
                f"max_samples={self.max_samples} and n_bits={self.n_bits}"
            )
        rows = sample_rows(len(X), self.max_samples, random)
        items = np.concatenate(list(centred_blocks(X, self.mean_, np.float64, rows)))
        start = items[random.choice(len(items), self.n_bits, replace=False)]
        weights, radii, self.overlaps_ = self._move(items, start)
        self.centres_ = (weights @ start + self.mean_).astype(self.mean_.dtype)
        self.radii_ = radii.astype(np.float32)

    def _move(self, items: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights of the first centres that give the last ones, their radii, and the share of items in each two."""
        # Centres move along differences of centres, so they stay weighted sums of the first ones: products with the
        # items, the costly part, are made once.
        squares, products, between = (items**2).sum(1), start @ items.T, start @ start.T
        weights, best = np.eye(len(start)), np.inf
        for _ in track(range(self.max_rounds), self.max_rounds, "moving spheres (SpH)"):
            own = (weights @ between * weights).sum(1)
            distances = own[:, None] - 2 * weights @ products + squares  # squared, (spheres, items)
            radii = _middles(distances)
            inside = (distances < radii[:, None]).astype(np.float32)
            shares = (inside @ inside.T).astype(np.float64) / len(items)
            if (imbalance := self._imbalance(shares)) < best:
                best, spheres = imbalance, (weights, np.sqrt(np.maximum(radii, 0)), shares)
            if imbalance <= 1:
                break
            # Heo et al. 2012, algorithm 1: f_i←j = ½ · (o_ij − m/4) / (m/4) · (c_i − c_j), and f_i is their mean
            excess = shares - 0.25
            np.fill_diagonal(excess, 0)
            force = excess / 0.25 / 2 / len(start)
            weights = weights + force.sum(1)[:, None] * weights - force @ weights
        return spheres

    def _imbalance(self, shares: np.ndarray) -> float:
        """How far the shares of items in each two spheres are from what is asked; at most 1 where it is reached."""
        of_pairs = shares[np.triu_indices(len(shares), 1)]
        if not len(of_pairs):
            return 0.0
        off = np.abs(of_pairs - 0.25)
        # Heo et al. 2012, section 3.2: avg |o_ij − m/4| ≤ ε_m · m/4, and the standard deviation of o_ij ≤ ε_s · m/4
        spread = off.max() / self.tolerance if self.strict else of_pairs.std() / (0.25 * self.deviation)
        return float(max(off.mean() / (0.25 * self.tolerance), spread))

    def _directions(self) -> np.ndarray:
        return (self.centres_ - self.mean_).astype(np.float32, copy=False).T

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        squares = (self._directions() ** 2).sum(0)
        # eq. 1: a bit is set inside the sphere
        bend_kernels().insides(projected, centred, squares, self.radii_)
        return projected


def spherical_distances(queries: Codes, gallery: Codes) -> np.ndarray:
    """The spherical Hamming distance of each query to each item, (n_queries, n_items): |a xor b| / |a and b|.

    Items that share many spheres are near (Heo et al. 2012, section 3.3). Codes without a common 1 are infinitely far,
    unless they are equal. The matrix is made whole: take few queries at a time.

    >>> spherical_distances(Codes.pack([[1, 1, 0]]), Codes.pack([[1, 0, 0], [1, 1, 1], [0, 0, 1]]))
    array([[1. , 0.5, inf]])
    """
    if not isinstance(queries, Codes) or not isinstance(gallery, Codes):
        raise InputTypeError(
            f"spherical distances are of Codes, got {type(queries).__name__} and {type(gallery).__name__}"
        )
    same_bits(queries.n_bits, gallery.n_bits)
    same_hasher(queries.hasher, gallery.hasher)
    ours, theirs = queries.unpack().astype(np.float32), gallery.unpack().astype(np.float32)
    common = (ours @ theirs.T).astype(np.float64)
    different = ours.sum(1, dtype=np.float64)[:, None] + theirs.sum(1, dtype=np.float64) - 2 * common
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(different == 0, 0.0, different / common)


def _middles(distances: np.ndarray) -> np.ndarray:
    """The median of each row, between its two middle values: half of the items are below."""
    half = distances.shape[1] // 2
    ordered = np.partition(distances, [half - 1, half], axis=1)
    return (ordered[:, half - 1] + ordered[:, half]) / 2
