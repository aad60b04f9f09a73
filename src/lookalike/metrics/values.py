"""The values of a metric: three numbers for each query."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = ["Part", "Values", "Weighted", "divide", "joined", "row_sums"]


class Values(NamedTuple):
    """A metric of each query over all orders of the tied items: expected (uniformly random order), best, worst."""

    expected: np.ndarray
    best: np.ndarray
    worst: np.ndarray

    def settled(self) -> "Values":
        """Per-query values; no aggregation."""
        return self

    def of(self, rows: np.ndarray) -> "Values":
        """The values of some queries."""
        return Values(*(column[rows] for column in self))


class Weighted(NamedTuple):
    """Values of each query over the orders in which it counts, and the chance of these, which weighs it in the mean.

    weight: 1 where a query counts in every order, below 1 where some order leaves it out, 0 where every order does;
    there the values are nan.
    """

    expected: np.ndarray
    best: np.ndarray
    worst: np.ndarray
    weight: np.ndarray

    def settled(self) -> Values:
        """Per-query values; no aggregation."""
        return Values(*self[:3])

    def of(self, rows: np.ndarray) -> "Weighted":
        """The values and weights of some queries."""
        return Weighted(*(column[rows] for column in self))


class Part(Protocol):
    """What a metric computes of a block of queries: columns that are joined over all blocks, then settled."""

    def settled(self) -> Values:
        """The final values, after the columns of all queries are joined."""

    def of(self, rows: np.ndarray) -> "Part":
        """The same of some queries alone, at these positions."""


def joined(parts: Sequence[Any]) -> Any:
    """The parts of several blocks of queries as one, column by column."""
    return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))


def row_sums(values: np.ndarray) -> np.ndarray:
    """The sum of each row, from left to right: zeros among them, and other rows, change nothing of it, not a bit.

    >>> row_sums(np.array([[0.1, 0.2, 0.3]])) == row_sums(np.array([[0.1, 0.2, 0.0, 0.3]]))
    array([ True])
    """
    return np.asarray(np.cumsum(values, axis=1)[:, -1]) if values.shape[1] else np.zeros(len(values))


def divide(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, nan where the whole is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, float), np.asarray(whole, float))
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
