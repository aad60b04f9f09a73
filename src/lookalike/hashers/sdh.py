"""SDH: supervised discrete hashing."""

from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.progress import track
from lookalike.hashers.anchors import AnchorHasher, draw_anchors
from lookalike.hashers.base import check_number
from lookalike.hashers.labels import group_labels
from lookalike.hashers.projection import sample_rows

__all__ = ["SDH"]

SWEEPS = 10  # over the bits, in one step


class SDH(AnchorHasher):
    """Supervised discrete hashing: codes from which a linear classifier reads the labels (Shen et al. 2015).

    y: a label for each item, or a matrix of tags of 0 and 1. It minimises ‖Y − BW‖² + alpha·‖W‖² + nu·(‖B − F‖² +
    ridge·‖P‖²) over bits B of 1 and −1, a classifier W, and F = ΦP, which gives codes to new items; Φ are kernels and
    a column of 1.
    `losses_` is this number after each step: it never rises. Defaults: 1,000 anchors (or all items, if there are
    fewer), 1/γ the mean squared distance between items and anchors. At most `max_samples` items take part.
    """

    learns_labels = True
    losses_: np.ndarray

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int | None = None,
        gamma: float | None = None,
        alpha: float = 1.0,
        nu: float = 1e-5,
        ridge: float = 1e-2,
        n_rounds: int = 5,
        max_samples: int = 20_000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.n_anchors, self.gamma = n_bits, n_anchors, gamma
        self.alpha, self.nu, self.ridge = alpha, nu, ridge
        self.n_rounds, self.max_samples, self.random_state = n_rounds, max_samples, random_state

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        for name in ("alpha", "nu", "ridge"):
            check_number(name, getattr(self, name))
        whole_number("n_rounds", self.n_rounds, 1)
        whole_number("max_samples", self.max_samples, 2)
        groups = group_labels("SDH", y, len(X))
        rows = sample_rows(len(X), self.max_samples, random)
        kernels = self._kernels(X, rows, rows[draw_anchors(self, len(rows), 1000, random)])
        kernels = np.column_stack([kernels, np.ones(len(rows))])
        targets = groups.tags[groups.group[rows]]
        bits = np.where(random.normal(size=(len(rows), self.n_bits)) > 0, 1.0, -1.0)
        self.losses_, weights = self._alternate(kernels, targets, bits)
        self.weights_, self.offsets_ = weights[:-1], weights[-1]

    def _alternate(self, kernels: np.ndarray, targets: np.ndarray, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The loss after each step, and P: Shen et al. 2015. Bits are changed in place."""
        from scipy.linalg import cho_factor, cho_solve

        gram = cho_factor(kernels.T @ kernels + self.ridge * np.eye(kernels.shape[1]))

        def regress() -> tuple[np.ndarray, np.ndarray]:
            """The classifier and the function of new items: two ridge regressions."""
            square = bits.T @ bits + self.alpha * np.eye(self.n_bits)
            return np.linalg.solve(square, bits.T @ targets), cho_solve(gram, kernels.T @ bits)

        classifier, weights = regress()
        losses = [self._loss(targets, bits, classifier, kernels @ weights, weights)]
        for _ in track(range(self.n_rounds), self.n_rounds, "alternating (SDH)"):
            fitted = kernels @ weights
            cycle(bits, targets @ classifier.T + self.nu * fitted, classifier)
            losses.append(self._loss(targets, bits, classifier, fitted, weights))
            classifier, weights = regress()
            losses.append(self._loss(targets, bits, classifier, kernels @ weights, weights))
        return np.array(losses), weights

    def _loss(
        self, targets: np.ndarray, bits: np.ndarray, classifier: np.ndarray, fitted: np.ndarray, weights: np.ndarray
    ) -> float:
        """Shen et al. 2015 with the squared loss; and the ridge of the last regression."""
        read = ((targets - bits @ classifier) ** 2).sum() + self.alpha * (classifier**2).sum()
        return float(read + self.nu * (((bits - fitted) ** 2).sum() + self.ridge * (weights**2).sum()))


def cycle(bits: np.ndarray, linear: np.ndarray, classifier: np.ndarray) -> None:
    """Minimise ‖BW‖² − 2·tr(BᵀQ) over one bit of all items after the other, in place, until none changes.

    Shen et al. 2015: z = sgn(q − B′W′v), v the bit's row of W, B′ and W′ without it. linear: Q, (n, n_bits).
    """
    for _ in range(SWEEPS):
        changed = False
        for bit in range(bits.shape[1]):
            row = classifier[bit]
            others = (bits @ classifier - np.outer(bits[:, bit], row)) @ row
            best = np.sign(linear[:, bit] - others)
            best = np.where(best == 0, bits[:, bit], best)  # both are as good
            changed |= bool((best != bits[:, bit]).any())
            bits[:, bit] = best
        if not changed:
            return
