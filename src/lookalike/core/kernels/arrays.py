"""Types of the arrays that compiled loops take. All are contiguous; read-only arrays are accepted for reading."""

from typing import Any

from numba import types

__all__ = ["read", "write"]


def read(dtype: Any, ndim: int) -> Any:
    """The type of an array that a loop only reads."""
    return types.Array(dtype, ndim, "C", readonly=True)


def write(dtype: Any, ndim: int) -> Any:
    """The type of an array that a loop writes to."""
    return types.Array(dtype, ndim, "C")
