"""Pictures decoded with Pillow: upright, in RGB, transparent parts white, cut to a square or fitted into one."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["SUFFIXES", "fitted", "guarded", "pillow", "square"]

SUFFIXES = frozenset(
    [
        ".avif",
        ".bmp",
        ".gif",
        ".j2k",
        ".jfif",
        ".jp2",
        ".jpe",
        ".jpeg",
        ".jpg",
        ".mpo",
        ".pbm",
        ".pgm",
        ".png",
        ".pnm",
        ".ppm",
        ".tif",
        ".tiff",
        ".webp",
    ]
)


def pillow() -> ModuleType:
    """Pillow's module Image, or an error that says how to get it."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading images needs Pillow: pip install pillow") from error
    return Image


def square(path: Path, size: int) -> np.ndarray:
    """The middle square of a picture, (size, size, 3) of uint8, each pixel the mean of the area that it covers."""
    Image = pillow()  # noqa: N806
    with Image.open(path) as image:
        image.draft(None, (4 * size, 4 * size))  # a large JPEG is decoded no larger than is useful
        upright = _upright(image)
    side = min(upright.size)
    left, top = ((length - side) // 2 for length in upright.size)
    box = (left, top, left + side, top + side)
    return np.array(upright.resize((size, size), Image.Resampling.BOX, box=box))


def fitted(path: Path, size: int) -> np.ndarray:
    """A picture made to fit into size × size, (height, width, 3) of uint8; a smaller one stays as it is."""
    with pillow().open(path) as image:
        image.draft(None, (2 * size, 2 * size))
        upright = _upright(image)
    upright.thumbnail((size, size))
    return np.array(upright)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Within this block, in all threads, pictures too large to be honest are errors; other doubts are not voiced."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        warnings.simplefilter("error", pillow().DecompressionBombWarning)
        yield


def _upright(image: "Image.Image") -> "Image.Image":
    """As its camera was held, in RGB and on white."""
    from PIL import Image, ImageOps

    is_deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")  # of 16 bits
    image = ImageOps.exif_transpose(image)
    if is_deep:  # Pillow would clip rather than scale
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):  # numbers of any range: from their lowest to their highest
        values = np.asarray(image, np.float64)
        finite = values[np.isfinite(values)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
        values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
        image = Image.fromarray(((values - low) / ((high - low) or 1.0) * 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
