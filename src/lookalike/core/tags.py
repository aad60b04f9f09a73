"""Tags: a matrix of which of some tags each item has, as 0/1 or -1/+1."""

import numpy as np

from lookalike.core.errors import InputError

__all__ = ["tags_or_labels", "zero_one"]


def zero_one(tags: np.ndarray) -> np.ndarray:
    """A matrix of 0 and 1, or of -1 and +1, as 0 and 1; raises for any other value.

    >>> zero_one(np.array([[1, -1]]))
    array([[1, 0]])
    """
    if tags.dtype == bool:
        return tags
    wrong = ~np.isin(tags, (-1, 0, 1)) if tags.dtype.kind in "iuf" else np.ones(tags.shape, bool)
    minus = tags == -1
    if minus.any() and not wrong.any():
        wrong = tags == 0
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        value = tags[row, column].item()
        both = " as well as -1" if minus.any() else ""
        raise InputError(f"tags must be 0 or 1, or all -1 or +1, got {value!r}{both} in row {row}, column {column}")
    return (tags > 0).astype(tags.dtype) if minus.any() else tags


def tags_or_labels(values: np.ndarray) -> np.ndarray:
    """Labels (n,), or tags as a 0/1 matrix: a column (n, 1) is labels.

    >>> tags_or_labels(np.array([[3], [4]])), tags_or_labels(np.array([[1, -1]]))
    (array([3, 4]), array([[1, 0]]))
    """
    if values.ndim != 2:
        return values
    return values[:, 0] if values.shape[1] == 1 else zero_one(values)
