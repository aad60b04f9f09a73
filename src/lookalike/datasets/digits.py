"""Handwritten digits: the 1,797 grey pictures of 8 × 8 that come with scikit-learn."""

import numpy as np

from lookalike.datasets.dataset import Dataset

__all__ = ["read_digits"]


def read_digits() -> Dataset:
    """The digits, their 17 shades spread over 0 to 255."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)
    return Dataset("digits", images, bunch.target.astype(np.int64), tuple("0123456789"))
