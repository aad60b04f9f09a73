"""DGH: discrete graph hashing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.kernels import bend_kernels
from lookalike.core.progress import track
from lookalike.hashers.anchors import AnchorHasher, squared_distances
from lookalike.hashers.base import check_number
from lookalike.hashers.kmeans import group_items
from lookalike.hashers.projection import centred_blocks, sample_rows

STEPS = 300  # of B, until it does not change; Liu et al. 2014
ROTATIONS = 100  # rounds that rotate the start

__all__ = ["DGH"]


class DGH(AnchorHasher):
    """Discrete graph hashing: balanced, uncorrelated bits that are smooth on a graph of anchors (Liu et al. 2014).

    The graph is A = ZΛ⁻¹Zᵀ; Z says how near an item is to its `n_nearest` anchors, which are the centres of `n_anchors`
    groups. It maximises tr(BᵀAB) + rho·tr(BᵀY) over bits B of 1 and −1 and Y, whose columns sum to 0 and are
    orthogonal. `rotate` turns the start to lie close to its signs (DGH-R); without it the start is spectral (DGH-I).
    `objectives_` is what is maximised, after each round. Defaults: 300 anchors (or all items, if there are fewer),
    1/γ half the squared mean distance to the anchor that is last in Z. At most `max_samples` items take part.
    """

    objectives_: np.ndarray
    n_used_: int

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int | None = None,
        n_nearest: int = 3,
        gamma: float | None = None,
        rho: float = 0.1,
        rotate: bool = True,
        n_rounds: int = 20,
        max_samples: int = 20_000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.n_anchors, self.n_nearest, self.gamma = n_bits, n_anchors, n_nearest, gamma
        self.rho, self.rotate, self.n_rounds = rho, rotate, n_rounds
        self.max_samples, self.random_state = max_samples, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        self._check()
        rows = sample_rows(len(X), self.max_samples, random)
        n_anchors = min(300, len(rows)) if self.n_anchors is None else self.n_anchors
        if n_anchors > len(rows):
            raise InputError(
                f"DGH makes n_anchors={n_anchors} groups of the items, but learns from {len(rows)} only: set ",
                Option("n_anchors"),
                f" to {len(rows)} or fewer, or to None",
            )
        centres, _ = group_items(X[rows] if len(rows) < len(X) else X, self.mean_, n_anchors, 5, random, "DGH")
        self.n_used_ = min(self.n_nearest, n_anchors)
        graph, used, self.gamma_ = self._graph(X, rows, centres)
        self.anchors_ = (centres[used] + self.mean_).astype(self.mean_.dtype)
        start = spectral_start(graph, self.n_bits)
        if self.rotate:
            start = rotated(start, random)
        bits, _, objectives = alternate(graph, start, self.rho, self.n_rounds)
        # Liu et al. 2014: b(x) = sgn(Bᵀ ZΛ⁻¹ z(x))
        self.weights_, self.offsets_ = graph.to_anchors(bits), np.zeros(self.n_bits)
        self.objectives_ = objectives

    def _check(self) -> None:
        check_number("rho", self.rho)
        if self.gamma is not None:
            check_number("gamma", self.gamma)
        if self.n_anchors is not None:
            whole_number("n_anchors", self.n_anchors, 2)
        for name in ("n_nearest", "n_rounds"):
            whole_number(name, getattr(self, name), 1)
        whole_number("max_samples", self.max_samples, 2)
        if not isinstance(self.rotate, bool | np.bool_):
            raise InputTypeError(Option("rotate"), f" must be True or False, got {self.rotate!r}", value=self.rotate)

    def _graph(self, X: np.ndarray, rows: np.ndarray, centres: np.ndarray) -> tuple["AnchorGraph", np.ndarray, float]:
        """The graph of these rows, which of the centres are near to any of them, and γ."""
        nearest, squares = [], []
        for block in centred_blocks(X, self.mean_, np.float64, rows):
            distances = squared_distances(block, centres)
            nearest.append(np.argsort(distances, axis=1, kind="stable")[:, : self.n_used_])
            squares.append(np.take_along_axis(distances, nearest[-1], axis=1))
        near, distances = np.concatenate(nearest), np.concatenate(squares)
        last = float(np.sqrt(distances[:, -1]).mean())
        scale = float(np.sqrt((centres**2).sum(1).mean()))
        if self.gamma is None and last <= 1e-6 * scale:
            raise InputError(
                f"most items equal their {self.n_used_} nearest anchors, so that their distances do not tell a width "
                "for the kernel: pass ",
                Option("gamma"),
            )
        gamma = 2 / last**2 if self.gamma is None else float(self.gamma)  # exp(−d² / t), t the square of that mean
        kernels = np.exp(-gamma / 2 * (distances - distances[:, :1]))
        used, near = np.unique(near, return_inverse=True)
        return AnchorGraph(near.reshape(kernels.shape), kernels / kernels.sum(1, keepdims=True), len(used)), used, gamma

    def _bend(self, projected: np.ndarray, centred: np.ndarray) -> np.ndarray:
        squares = (self._directions().astype(np.float64) ** 2).sum(0)
        weights = np.ascontiguousarray(self.weights_, np.float64)
        values: np.ndarray = bend_kernels().nearest_gaussians(
            projected, centred, squares, float(self.gamma_), int(self.n_used_), weights
        )
        return values

    def _shapes(self) -> list[tuple[np.ndarray, tuple[int, ...]]]:
        nearest = np.empty(int(self.n_used_) if 1 <= self.n_used_ <= len(self.weights_) else 0)
        return [*super()._shapes(), (nearest, (max(1, int(self.n_used_)),))]


@dataclass(frozen=True, eq=False)
class AnchorGraph:
    """Z, by its anchors and numbers, (n_items, n_nearest) each; its rows sum to 1. A = ZΛ⁻¹Zᵀ, Λ = diag(Zᵀ1)."""

    near: np.ndarray
    shares: np.ndarray
    n_anchors: int

    def matrix(self) -> Any:
        """Z as a sparse matrix."""
        from scipy.sparse import csr_matrix

        starts = np.arange(0, self.near.size + 1, self.near.shape[1])
        return csr_matrix((self.shares.ravel(), self.near.ravel(), starts), (len(self.near), self.n_anchors))

    def sizes(self) -> np.ndarray:
        """Λ, the sum of each column of Z."""
        return np.bincount(self.near.ravel(), self.shares.ravel(), self.n_anchors)

    def to_anchors(self, bits: np.ndarray) -> np.ndarray:
        """Λ⁻¹Zᵀ·bits."""
        return np.asarray(self.matrix().T @ bits) / self.sizes()[:, None]


def spectral_start(graph: AnchorGraph, n_bits: int) -> np.ndarray:
    """Eigenvectors of A of the largest eigenvalues that are orthogonal to 1, (n_items, n_bits), each of length √n."""
    from scipy.linalg import eigh

    links, roots = graph.matrix(), np.sqrt(graph.sizes())
    small = np.asarray((links.T @ links).todense()) / np.outer(roots, roots)  # A's eigenvalues are this one's too
    ones = roots / np.linalg.norm(roots)
    small -= np.outer(ones, ones)  # the eigenvector of 1 is taken out
    values, vectors = eigh(small)
    n_possible = int((values > 1e-9).sum())
    if n_possible < n_bits:
        raise InputError(
            f"DGH can make at most {n_possible} bits here, got n_bits={n_bits}: its graph has {len(small)} anchors; "
            "ask for fewer bits, or set ",
            Option("n_anchors"),
            " to more",
        )
    values, vectors = values[::-1][:n_bits], vectors[:, ::-1][:, :n_bits]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), np.arange(n_bits)])
    return np.asarray(np.sqrt(len(graph.near)) * (links @ (vectors / np.sqrt(values) / roots[:, None])))


def rotated(start: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """The start, turned by the rotation that brings it near to its signs: Liu et al. 2014 with DGH-R."""
    rotation = np.linalg.qr(random.normal(size=(start.shape[1],) * 2))[0]
    for _ in range(ROTATIONS):
        left, _, right = np.linalg.svd(np.where(start @ rotation > 0, 1.0, -1.0).T @ start)
        following = (left @ right).T
        if np.array_equal(following, rotation):
            break
        rotation = following
    return np.asarray(start @ rotation)


def alternate(
    graph: AnchorGraph, start: np.ndarray, rho: float, n_rounds: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B, Y, and the objective after each round: Liu et al. 2014."""
    links = graph.matrix()
    sizes = graph.sizes()[:, None]
    balanced, bits = start, np.where(start > 0, 1.0, -1.0)
    objectives: list[float] = []
    for _ in track(range(n_rounds), n_rounds, "alternating (DGH)"):
        for _ in range(STEPS):
            following = climb(links, sizes, bits, rho * balanced)
            if np.array_equal(following, bits):
                break
            bits = following
        balanced = balance(bits)
        objectives.append(objective(links, sizes, bits, rho * balanced))
        if len(objectives) > 1 and objectives[-1] - objectives[-2] <= 1e-9 * abs(objectives[-1]):
            break
    return bits, balanced, np.array(objectives)


def climb(links: Any, sizes: np.ndarray, bits: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """A signed-gradient step, sgn(2AB + ρY), which keeps a bit where that is 0: Liu et al. 2014."""
    gradient = 2 * (links @ (links.T @ bits / sizes)) + pull
    return np.where(gradient > 0, 1.0, np.where(gradient < 0, -1.0, bits))


def objective(links: Any, sizes: np.ndarray, bits: np.ndarray, pull: np.ndarray) -> float:
    """tr(BᵀAB) + ρ·tr(BᵀY); pull: ρY."""
    near = links.T @ bits
    return float((near**2 / sizes).sum() + (bits * pull).sum())


def balance(bits: np.ndarray) -> np.ndarray:
    """Y of the largest tr(BᵀY) with 1ᵀY = 0 and YᵀY = nI: Liu et al. 2014, from the SVD of the centred bits.

    Directions in which the centred bits do not vary are filled up with others, orthogonal to all and to 1.
    """
    n, n_bits = bits.shape
    left, lengths, right = np.linalg.svd(bits - bits.mean(0), full_matrices=False)
    rank = int((lengths > 1e-8 * max(lengths[0], 1)).sum())
    kept = left[:, :rank]
    if rank < n_bits:
        ones = np.full(n, n**-0.5)
        orthonormal = np.linalg.qr(np.column_stack([ones, kept, np.eye(n, n_bits - rank)]))[0]
        kept = np.column_stack([kept, orthonormal[:, rank + 1 :]])
    return np.asarray(np.sqrt(n) * kept @ right)
