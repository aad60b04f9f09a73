"""From a file to a picture: upright, in red, green and blue; what cannot be read is refused in one sentence."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.file_errors import no_memory
from lookalike.datasets.pictures import _upright, guarded, pillow

__all__ = ["MAX_PIXELS", "decode", "guard", "opened"]

MAX_SIDE = 1 << 18  # pixels: a thin line of millions would take a machine's memory to resize
MAX_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gigabyte in three colours
# Others that Pillow knows run programs (PostScript) or take almost any file for a picture.
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")


def decode(path: str | Path, *, max_pixels: int = MAX_PIXELS, enough: int | None = None) -> np.ndarray:
    """The picture in a file, (height, width, 3) of uint8: as its camera was held, transparent parts white.

    Of several pictures, the first is taken. One of more than `max_pixels` is refused before it is decoded. Of a JPEG
    that is more than twice as large as an encoder needs, no more is decoded than leaves `enough` pixels on either side.
    """
    with guard(max_pixels):
        return opened(path, max_pixels, enough)


@contextlib.contextmanager
def guard(max_pixels: int) -> Iterator[None]:
    """Within this block, in all threads, `opened` may be called: Pillow's own limit is not below `max_pixels`."""
    if isinstance(max_pixels, bool) or not isinstance(max_pixels, int) or max_pixels < 1:
        raise ValueError(f"max_pixels must be a whole number from 1, got {max_pixels!r}")
    Image: Any = pillow()  # noqa: N806
    limit = Image.MAX_IMAGE_PIXELS
    with guarded():
        Image.MAX_IMAGE_PIXELS = None if limit is None else max(limit, max_pixels)
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def opened(
    path: str | Path, max_pixels: int, enough: int | None, before: Callable[[int], None] | None = None
) -> np.ndarray:
    """What `decode` gives, within a `guard`; before: called with the number of pixels that are now decoded."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_file():  # a pipe would be waited for
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'not a file'}: pass the paths of image files")
    Image = pillow()  # noqa: N806
    try:
        if not path.stat().st_size:
            raise ValueError(f"{path} is empty")
        # Given a path, Pillow would map plain TIFFs to memory, and scramble those that are to be turned
        with path.open("rb") as file, Image.open(file, formats=_formats()) as image:
            _check_size(image.size, max_pixels, path)
            if enough is not None:
                image.draft(None, (enough, enough))
            if before is not None:
                before(image.size[0] * image.size[1])
            image.load()
            _check_size(image.size, max_pixels, path)  # some formats tell only now
            return np.asarray(_plain(image))
    except Image.UnidentifiedImageError as error:
        raise ValueError(f"{path} is not an image: it is something else, or damaged at its start") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(_too_large(path, "more pixels than", max_pixels)) from error
    except MemoryError as error:
        raise no_memory(path) from error
    except Exception as error:  # readers of images raise whatever a damaged file provokes
        if str(path) in str(error):
            raise
        why = (str(error) or type(error).__name__).partition("\n")[0]
        raise ValueError(f"{path} is damaged or cannot be read: {why}") from error


def _plain(image: Any) -> Any:
    """Upright, red, green and blue, and on white; of a picture that is so already, as most are, nothing is copied."""
    from PIL import ImageOps

    if image.mode != "RGB" or image.has_transparency_data:
        return _upright(image)
    ImageOps.exif_transpose(image, in_place=True)
    return image


@functools.cache
def _formats() -> list[str]:
    """Those that this Pillow can read."""
    Image = pillow()  # noqa: N806
    Image.init()
    return [kind for kind in FORMATS if kind in Image.OPEN]


def _check_size(size: tuple[int, int], max_pixels: int, path: Path) -> None:
    if max(size) > MAX_SIDE:
        raise ValueError(f"{path} has {size[0]:,} × {size[1]:,} pixels, more than {MAX_SIDE:,} in a line")
    if size[0] * size[1] > max_pixels:
        raise ValueError(_too_large(path, f"{size[0]:,} × {size[1]:,} pixels, more than", max_pixels))


def _too_large(path: Path, has: str, max_pixels: int) -> str:
    return f"{path} has {has} the {max_pixels:,} of max_pixels: raise it if the picture is to be trusted"
