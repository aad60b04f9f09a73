"""Values: what every metric gives, three numbers for each query."""

from typing import NamedTuple

import numpy as np

__all__ = ["Values", "divide"]


class Values(NamedTuple):
    """A metric of each query over all orders of the tied items: expected (uniformly random order), best, worst."""

    expected: np.ndarray
    best: np.ndarray
    worst: np.ndarray


def divide(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, nan where there is no whole."""
    part, whole = np.broadcast_arrays(np.asarray(part, float), np.asarray(whole, float))
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
