"""What a loss has beside the network: a classifier that learns with it, or binary targets of classes that stay."""

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.core.checks import whole_number

TRIES = 200  # codes that are drawn for a class; the one that is farthest from the others is taken

__all__ = ["BinaryTargets", "Classifier", "binary_targets"]


class Classifier(nn.Linear):
    """A linear classifier of codes. It is thrown away after training."""

    def __init__(self, n_bits: int, n_classes: int) -> None:
        super().__init__(n_bits, n_classes)
        self.n_classes = n_classes


class BinaryTargets(nn.Module):
    """A code for each class, far from all others: `binary_targets`, which do not change while a network learns."""

    targets: Tensor  # (n_classes, n_bits) of -1 and 1
    tie: Tensor  # (n_bits,), for bits on which tags are evenly split

    def __init__(self, n_bits: int, n_classes: int, seed: int = 0) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.register_buffer("targets", torch.from_numpy(binary_targets(n_classes, n_bits, seed)).float())
        tie = np.random.default_rng((seed, n_bits)).choice((-1.0, 1.0), n_bits)
        self.register_buffer("tie", torch.from_numpy(tie).float())

    def of(self, classes: Tensor) -> Tensor:
        """The targets of numbers of classes (n,); of weights of tags (n, classes), the majority of their bits.

        >>> BinaryTargets(4, 3).of(torch.tensor([[1.0, 1, 1]]))
        tensor([[ 1.,  1.,  1., -1.]])
        """
        if classes.ndim == 1:
            return self.targets[classes]
        balance = (classes > 0).to(self.targets) @ self.targets
        return torch.where(balance == 0, self.tie, balance.sign())


def binary_targets(n_classes: int, n_bits: int, seed: int = 0) -> np.ndarray:
    """A code of -1 and 1 for each class, (n_classes, n_bits), of which any two differ in about half of the bits.

    Where there is a Hadamard matrix, its rows, and for more classes their opposites (Yuan et al. 2020): they are
    orthogonal. For other numbers of bits, and for still more classes, codes with as many ones as minus ones that are
    drawn at random, each the one of several that is farthest from those before it. Fewer classes have the same first
    codes.

    >>> binary_targets(3, 4)
    array([[ 1.,  1.,  1.,  1.],
           [ 1., -1.,  1., -1.],
           [ 1.,  1., -1., -1.]])
    """
    whole_number("n_classes", n_classes)
    whole_number("n_bits", n_bits)
    hadamard = _hadamard(n_bits)
    rows = np.empty((0, n_bits)) if hadamard is None else np.concatenate([hadamard, -hadamard])
    codes = list(rows[:n_classes])
    for number in range(len(codes), n_classes):
        random = np.random.default_rng((seed, n_bits, number))
        halves = np.where(np.arange(n_bits) < n_bits // 2, 1.0, -1.0)
        drawn = np.stack([random.permutation(halves) for _ in range(TRIES)])
        nearest = (drawn @ np.array(codes).T).max(1) if codes else np.zeros(TRIES)
        codes.append(drawn[nearest.argmin()])
    return np.array(codes)


def _hadamard(n: int) -> np.ndarray | None:
    """A matrix of -1 and 1 with orthogonal rows, by doubling (Sylvester), else from a prime (Paley); None if neither.

    >>> {n: _hadamard(n) is not None for n in (1, 2, 10, 12, 16, 24, 36, 48, 64)}
    {1: True, 2: True, 10: False, 12: True, 16: True, 24: True, 36: False, 48: True, 64: True}
    """
    if n == 1:
        return np.ones((1, 1))
    if n & (n - 1) and n % 4 == 0 and _is_prime(n - 1):
        return _paley(n - 1)
    half = _hadamard(n // 2) if n % 2 == 0 else None
    return None if half is None else np.block([[half, half], [half, -half]])


def _paley(prime: int) -> np.ndarray:
    """The Hadamard matrix of prime + 1, for a prime that is 3 more than a multiple of 4 (Paley 1933)."""
    squares = np.unique(np.arange(1, prime) ** 2 % prime)
    character = np.where(np.isin(np.arange(prime), squares), 1.0, -1.0)
    character[0] = 0
    skew = np.zeros((prime + 1, prime + 1))
    skew[0, 1:], skew[1:, 0] = 1, -1
    skew[1:, 1:] = character[(np.arange(prime) - np.arange(prime)[:, None]) % prime]
    return skew + np.eye(prime + 1)


def _is_prime(n: int) -> bool:
    return n > 2 and all(n % divisor for divisor in range(2, int(n**0.5) + 1))
