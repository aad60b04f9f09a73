"""Pictures as a network wants them: cut, squashed or padded to one size, and scaled."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.decode import pillow
from lookalike.core.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["INTERPOLATIONS", "ORDERS", "RESIZES", "Preprocessing"]

RESIZES = ("crop", "squash", "pad")
KERNELS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {  # how far each reaches, and its weights there
    "bilinear": (1, lambda x: 1 - x),
    "hamming": (1, lambda x: np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x))),
    "bicubic": (2, lambda x: np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, ((2.5 - 0.5 * x) * x - 4) * x + 2)),
    "lanczos": (3, lambda x: np.sinc(x) * np.sinc(x / 3)),
}
INTERPOLATIONS = ("nearest", "box", *KERNELS)
ORDERS = ("RGB", "BGR")
Box = tuple[float, float, float, float]  # left, top, right and bottom
STRIP = 4096  # numbers of each line that are floats at once, lest large pictures take much memory
GAP = 8  # a picture that is much larger is first made about this many times as large as wanted, by means of pixels


@dataclass(frozen=True)
class Preprocessing:
    """A picture of any size to (height, width, 3) of float32, (pixel / 255 - mean) / std, as a network wants it.

    The numbers of each colour lie together, since that is how networks take them.

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
        choice("resize", self.resize, RESIZES)
        choice("interpolation", self.interpolation, INTERPOLATIONS)
        choice("order", self.order, ORDERS)
        if not _are_numbers(self.size, 2, int) or min(self.size) < 1:
            raise InputError(f"size must be a height and a width in whole pixels, got {self.size!r}")
        if not _are_numbers(self.mean, 3) or not _are_numbers(self.std, 3) or min(self.std) <= 0:
            raise InputError(
                f"mean and std must be three numbers each, of pixels from 0 to 1, and std above 0: "
                f"got {self.mean!r} and {self.std!r}"
            )
        if not _are_numbers([self.crop], 1) or not 0 < self.crop <= 1:
            raise InputError(f"crop must be the part of a side that is kept, above 0 and up to 1, got {self.crop!r}")
        if not _are_numbers([self.fill], 1, int) or not 0 <= self.fill <= 255:
            raise InputError(f"fill must be a grey from 0 to 255, got {self.fill!r}")

    @property
    def shorter(self) -> int:
        """The side of the square of which nothing is cut off but what `crop` says."""
        return round(max(self.size) / self.crop)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """The picture, (height, width) or (height, width, 3) of uint8, as the network wants it."""
        (height, width), box = self._fit(*picture.shape[:2])
        top, left = (self.size[0] - height) // 2, (self.size[1] - width) // 2
        values = np.empty((3, *self.size), np.float32)  # plane by plane: numpy is slow where the last axis is short
        if (height, width) != self.size:
            values[:] = self.fill
        middle = values[:, top : top + height, left : left + width]
        np.clip(self._resized(picture, height, width, box), 0, 255, out=middle)  # bicubic and Lanczos leave the range
        mean, std = (255 * np.array([self.mean, self.std])).astype(np.float32)[..., None, None]
        values -= mean
        values /= std
        return (values[::-1] if self.order == "BGR" else values).transpose(1, 2, 0)

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

    def _resized(self, picture: np.ndarray, height: int, width: int, box: Box) -> np.ndarray:
        """A part of a picture made this large, as float32 that is not rounded, (3 or 1, height, width)."""
        shrunk = min((box[2] - box[0]) / width, (box[3] - box[1]) / height)
        if shrunk >= 2 * GAP and self.interpolation != "nearest":  # else floats would take much memory for nothing
            factor = int(shrunk / GAP)
            picture = np.asarray(pillow().fromarray(picture).reduce(factor))
            box = (box[0] / factor, box[1] / factor, box[2] / factor, box[3] / factor)
        resize = _shrunk if shrunk > 1 and self.interpolation in KERNELS else _by_pillow
        return resize(picture, height, width, box, self.interpolation)


def _by_pillow(picture: np.ndarray, height: int, width: int, box: Box, interpolation: str) -> np.ndarray:
    """A part of a picture, resized by Pillow as floats."""
    Image = pillow()  # noqa: N806
    kernel = Image.Resampling[interpolation.upper()]
    planes = [plane.convert("F") for plane in Image.fromarray(picture).split()]
    return np.stack([np.asarray(plane.resize((width, height), kernel, box=box)) for plane in planes])


def _shrunk(picture: np.ndarray, height: int, width: int, box: Box, interpolation: str) -> np.ndarray:
    """The same as `_by_pillow` for pictures that get smaller, several times as fast: first columns, then rows."""
    down, rows = _weights(picture.shape[0], height, box[1], box[3], interpolation)
    right, columns = _weights(picture.shape[1], width, box[0], box[2], interpolation)
    part = picture[down, right]
    lines = part.reshape(len(part), -1)  # (height of the part, its width × colours)
    strips = [rows @ lines[:, at : at + STRIP].astype(np.float32) for at in range(0, lines.shape[1], STRIP)]
    values = columns @ np.concatenate(strips, 1).T.reshape(part.shape[1], -1)  # (width, colours × height)
    return values.reshape(width, -1, height).transpose(1, 2, 0)


@functools.lru_cache(256)
def _weights(length: int, size: int, first: float, last: float, interpolation: str) -> "tuple[slice, csr_array]":
    """Which pixels of a line of this length count, and how much each counts for `size` pixels from first to last."""
    from scipy.sparse import csr_array

    reach, weight = KERNELS[interpolation]
    scale = float(np.float32(last) - np.float32(first)) / size  # rounded as Pillow rounds
    centres = float(np.float32(first)) + (np.arange(size) + 0.5) * scale
    starts = np.maximum(centres - reach * scale + 0.5, 0).astype(np.int32)
    counts = np.minimum(centres + reach * scale + 0.5, length).astype(np.int32) - starts
    ends = np.concatenate([[0], counts.cumsum()])
    pixels = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], counts)
    weights = weight(abs(pixels + 0.5 - np.repeat(centres, counts)) / scale)
    weights /= np.repeat(np.add.reduceat(weights, ends[:-1]), counts)
    used = slice(int(starts[0]), int(pixels[-1]) + 1)
    entries = (weights.astype(np.float32), pixels - used.start, ends)
    return used, csr_array(entries, shape=(size, used.stop - used.start))


def _are_numbers(values: Any, how_many: int, kind: Any = (int, float)) -> bool:
    """Whether these are finite numbers, as many as wanted.

    >>> _are_numbers([1, 0.5], 2), _are_numbers([1, True], 2), _are_numbers("12", 2), _are_numbers([1, 0.5], 2, int)
    (True, False, False, False)
    """
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != how_many:
        return False
    return all(isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value) for value in values)
