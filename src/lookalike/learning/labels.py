"""Checks of labels: whole numbers or strings, or tags of 0 and 1."""

import numpy as np
from torch import Tensor

from lookalike.core.errors import InputError

__all__ = ["check_labels", "check_tags"]


def check_labels(labels: np.ndarray) -> None:
    """Raise if labels are not whole numbers or strings: a missing one would be a class of its own."""
    if labels.dtype.kind == "f" and not (np.isfinite(labels).all() and (labels == np.floor(labels)).all()):
        raise InputError("labels must be whole numbers or strings: some are NaN or fractions")
    if labels.dtype.kind not in "biufU" and not all(isinstance(label, str) for label in labels.ravel()):
        raise InputError("labels must be whole numbers or strings: some are missing, or something else")


def check_tags(tags: np.ndarray | Tensor) -> None:
    """Raise if labels in several columns are not 0 or 1."""
    if not ((tags == 0) | (tags == 1)).all():
        raise InputError("labels in several columns are tags, which must be 0 or 1")
