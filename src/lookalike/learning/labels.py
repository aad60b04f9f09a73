"""Checks of labels: whole numbers or strings, or tags of 0 and 1."""

import numpy as np
from torch import Tensor

from lookalike.core.errors import InputError
from lookalike.hashers.labels import check_labels

__all__ = ["check_labels", "check_tags"]


def check_tags(tags: np.ndarray | Tensor) -> None:
    """Raise if labels in several columns are not 0 or 1."""
    if not ((tags == 0) | (tags == 1)).all():
        raise InputError("labels in several columns are tags, which must be 0 or 1")
