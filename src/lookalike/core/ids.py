"""Ids of queries and items as arrays."""

from typing import Any

import numpy as np

__all__ = ["id_array"]


def id_array(ids: Any, what: str) -> np.ndarray:
    """Ids as an array of whole numbers or of strings, never of Python objects."""
    values = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    for kind in (int, str):
        if all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            return np.array(values, np.int64 if kind is int else str)
    raise TypeError(f"{what} must be whole numbers or strings, all of one kind")
