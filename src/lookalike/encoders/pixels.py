"""The pixels themselves, the baseline that every encoder has to beat."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import InputError
from lookalike.encoders.base import Encoder
from lookalike.encoders.preprocessing import Preprocessing

__all__ = ["Pixels"]


class Pixels(Encoder):
    """The pixels of equally large images, flattened, from 0 to 1; of files, those of the middle made size × size.

    >>> Pixels().encode(np.array([[[0, 255], [51, 102]]], np.uint8))
    array([[0. , 1. , 0.2, 0.4]], dtype=float32)
    """

    name = "pixels"
    is_cached = False
    similarity = "euclidean"  # a black picture has no direction

    def __init__(self, size: int = 32) -> None:
        self.size = size = whole_number("size", size)
        self._square = Preprocessing((size, size), (0.0,) * 3, (1 / 255,) * 3, interpolation="box")

    @property
    def version(self) -> str:
        return "1"

    @property
    def n_features(self) -> None:
        return None

    def encode(self, images: np.ndarray | Sequence[Any], *, batch_size: int = 64) -> np.ndarray:
        if isinstance(images, np.ndarray) and not len(images):  # no image, but the array has its size
            return np.empty((0, math.prod(images.shape[1:])), np.float32)
        return super().encode(images, batch_size=batch_size)

    def _prepare_file(self, picture: np.ndarray) -> np.ndarray:
        return self._square(picture)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        rows = np.array(prepared, np.float32).reshape(len(prepared), -1)
        rows /= 255
        return rows

    def _pictures(self, images: np.ndarray | Sequence[Any]) -> list[np.ndarray]:
        pictures = super()._pictures(images)
        for row, picture in enumerate(pictures):
            if picture.shape != pictures[0].shape:
                raise InputError(
                    f"pixels can be compared only where images are equally large: image {row} is {picture.shape}, "
                    f"image 0 is {pictures[0].shape}; resize them, or choose another encoder"
                )
        return pictures
