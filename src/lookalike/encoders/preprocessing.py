"""How a network wants its pictures: of one size, cut, squashed or padded to it, and scaled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.datasets.pictures import pillow

__all__ = ["INTERPOLATIONS", "ORDERS", "RESIZES", "Preprocessing"]

RESIZES = ("crop", "squash", "pad")
INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
ORDERS = ("RGB", "BGR")
Box = tuple[float, float, float, float]  # left, top, right and bottom
GAP = 8  # a picture that is much larger is first made about this many times as large as wanted, by means of pixels


@dataclass(frozen=True)
class Preprocessing:
    """A picture of any size to (height, width, 3) of float32, (pixel / 255 - mean) / std, as a network wants it.

    resize: "crop" keeps the middle, as much of it as has the wanted proportions; "squash" keeps all and gives up the
    proportions; "pad" keeps all and fills what is left with the grey `fill`. crop: the part of each side that is kept,
    which is 0.875 where others say "resize to 256, then crop to 224". mean and std are those of red, green and blue.

    >>> Preprocessing((1, 2), mean=(0.2,) * 3, std=(0.4,) * 3)(np.array([[51, 255]], np.uint8))[..., 0]
    array([[0., 2.]], dtype=float32)
    """

    size: tuple[int, int]  # height and width
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: str = "crop"
    crop: float = 1.0
    interpolation: str = "bicubic"
    order: str = "RGB"
    fill: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("resize", self.resize, RESIZES),
            ("interpolation", self.interpolation, INTERPOLATIONS),
            ("order", self.order, ORDERS),
        ):
            if value not in known:
                raise ValueError(f"{name} must be {', '.join(known[:-1])} or {known[-1]}, got {value!r}")
        if not _are_numbers(self.size, 2, int) or min(self.size) < 1:
            raise ValueError(f"size must be a height and a width in whole pixels, got {self.size!r}")
        if not _are_numbers(self.mean, 3) or not _are_numbers(self.std, 3) or min(self.std) <= 0:
            raise ValueError(
                f"mean and std must be three numbers each, of pixels from 0 to 1, and std above 0: "
                f"got {self.mean!r} and {self.std!r}"
            )
        if not _are_numbers([self.crop], 1) or not 0 < self.crop <= 1:
            raise ValueError(f"crop must be the part of a side that is kept, above 0 and up to 1, got {self.crop!r}")
        if not _are_numbers([self.fill], 1, int) or not 0 <= self.fill <= 255:
            raise ValueError(f"fill must be a grey from 0 to 255, got {self.fill!r}")

    @property
    def shorter(self) -> int:
        """The side of the square of which nothing is cut off but what `crop` says."""
        return round(max(self.size) / self.crop)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """The picture, (height, width) or (height, width, 3) of uint8, as the network wants it."""
        (height, width), box = self._fit(*picture.shape[:2])
        top, left = (self.size[0] - height) // 2, (self.size[1] - width) // 2
        planes = self._planes(picture, height, width, box)
        values = np.empty((*self.size, 3), np.float32)
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            values[..., channel] = (self.fill - 255 * mean) / (255 * std)
            plane = planes[channel % len(planes)] - np.float32(255 * mean)
            values[top : top + height, left : left + width, channel] = plane / np.float32(255 * std)
        return values[..., ::-1] if self.order == "BGR" else values

    def _fit(self, height: int, width: int) -> tuple[tuple[int, int], Box]:
        """How large a picture is made, height and width, and which part of it."""
        if self.resize == "pad":
            scale = min(self.size[0] / height, self.size[1] / width)
            return (max(1, round(height * scale)), max(1, round(width * scale))), (0, 0, width, height)
        kept_height, kept_width = height * self.crop, width * self.crop
        if self.resize == "crop":
            scale = min(kept_height / self.size[0], kept_width / self.size[1])
            kept_height, kept_width = min(height, self.size[0] * scale), min(width, self.size[1] * scale)
        left, top = (width - kept_width) / 2, (height - kept_height) / 2
        return self.size, (left, top, left + kept_width, top + kept_height)

    def _planes(self, picture: np.ndarray, height: int, width: int, box: Box) -> list[np.ndarray]:
        """A part of a picture made this large, each of its colours as float32 from 0 to 255, not rounded."""
        Image = pillow()  # noqa: N806
        image = Image.fromarray(picture)
        shrunk = min((box[2] - box[0]) / width, (box[3] - box[1]) / height)
        if shrunk >= 2 * GAP and self.interpolation != "nearest":  # else floats would take much memory for nothing
            factor = int(shrunk / GAP)
            image, box = image.reduce(factor), (box[0] / factor, box[1] / factor, box[2] / factor, box[3] / factor)
        filtering = Image.Resampling[self.interpolation.upper()]
        resized = [plane.convert("F").resize((width, height), filtering, box=box) for plane in image.split()]
        return [np.asarray(plane).clip(0, 255) for plane in resized]  # bicubic and Lanczos leave the range of pixels


def _are_numbers(values: Any, how_many: int, kind: Any = (int, float)) -> bool:
    """Whether these are so many finite numbers.

    >>> _are_numbers([1, 0.5], 2), _are_numbers([1, True], 2), _are_numbers("12", 2), _are_numbers([1, 0.5], 2, int)
    (True, False, False, False)
    """
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != how_many:
        return False
    return all(isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value) for value in values)
