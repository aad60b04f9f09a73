"""The pixels themselves, the baseline that every encoder has to beat."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from lookalike.encoders.encoder import Encoder

__all__ = ["Pixels"]


class Pixels(Encoder):
    """The pixels of equally large images, flattened, from 0 to 1.

    >>> Pixels().encode(np.array([[[0, 255], [51, 102]]], np.uint8))
    array([[0. , 1. , 0.2, 0.4]], dtype=float32)
    """

    name: ClassVar[str] = "pixels"
    is_cached: ClassVar[bool] = False

    @property
    def version(self) -> str:
        return "1"

    @property
    def n_features(self) -> None:
        return None

    def encode(self, images: np.ndarray | Sequence[Any], *, batch_size: int = 64) -> np.ndarray:
        if isinstance(images, np.ndarray) and not len(images):  # no image, and yet known how large
            return np.empty((0, math.prod(images.shape[1:])), np.float32)
        return super().encode(images, batch_size=batch_size)

    def _rows(self, pictures: list[np.ndarray]) -> np.ndarray:
        rows = np.array(pictures, np.float32).reshape(len(pictures), -1)
        rows /= 255
        return rows

    def _pictures(self, images: np.ndarray | Sequence[Any]) -> list[np.ndarray]:
        pictures = super()._pictures(images)
        for row, picture in enumerate(pictures):
            if picture.shape != pictures[0].shape:
                raise ValueError(
                    f"pixels can be compared only where images are equally large: image {row} is {picture.shape}, "
                    f"image 0 is {pictures[0].shape}; resize them, or choose another encoder"
                )
        return pictures
