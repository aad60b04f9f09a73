"""Image files to pixels: upright, red, green and blue, on white; an error says in a sentence why a file is refused."""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.errors import FileError, MissingPackageError, Option
from lookalike.core.file_errors import no_memory

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "MAX_PIXELS",
    "SUFFIXES",
    "ImageError",
    "cut",
    "decode",
    "decode_file",
    "default_limit",
    "fitted",
    "pillow",
    "pixel_limit",
    "square",
    "upright",
]

SUFFIXES = frozenset(
    [
        ".avif",
        ".bmp",
        ".gif",
        ".heic",
        ".heif",
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
MAX_SIDE = 1 << 18  # pixels: a thin line of millions would take a machine's memory to resize
MAX_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gigabyte in three colours
# Pillow knows other formats too, but these run programs (PostScript) or take almost any file for an image.
FORMATS = ("AVIF", "BMP", "GIF", "HEIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")


class ImageError(FileError):
    """An image file cannot be decoded.

    reason: why, without the file's name, for lists of files. problem: what follows the name in a sentence that gives no
    advice, for pages that show images under other names.
    """

    reason: str = ""
    problem: str = ""


def pillow() -> ModuleType:
    """Pillow's module Image, or an error that says how to get it."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        text = "reading images needs Pillow, which is not installed: pip install pillow"
        raise MissingPackageError(text, package=error.name, extra="images") from error
    _can_read_heif()
    return Image


@functools.cache
def _can_read_heif() -> bool:
    """Whether Pillow can read HEIC and HEIF: from the first call on, if the package pillow-heif is there."""
    try:
        from pillow_heif import register_heif_opener
    except ModuleNotFoundError:
        return False
    register_heif_opener()
    return True


# Limits: Pillow keeps its limit in a global variable and a warning filter, which all threads share


@contextlib.contextmanager
def default_limit() -> Iterator[None]:
    """Within this block, in all threads, Pillow raises for images above its own limit; it gives no other warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        warnings.simplefilter("error", pillow().DecompressionBombWarning)
        yield


@contextlib.contextmanager
def pixel_limit(max_pixels: int) -> Iterator[None]:
    """Within this block, in all threads, `decode_file` may be called: Pillow's limit is at least `max_pixels`."""
    max_pixels = whole_number("max_pixels", max_pixels)
    Image: Any = pillow()  # noqa: N806
    limit = Image.MAX_IMAGE_PIXELS
    with default_limit():
        Image.MAX_IMAGE_PIXELS = None if limit is None else max(limit, max_pixels)
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


# Images of any size


def decode(path: str | Path, *, max_pixels: int = MAX_PIXELS, enough: int | None = None) -> np.ndarray:
    """The image in a file, (height, width, 3) of uint8: as its camera was held, transparent parts white.

    If a file has several images, the first is taken. An image of more than `max_pixels` is refused before it is
    decoded. A JPEG that is more than twice as large as an encoder needs is decoded smaller, with at least `enough`
    pixels on either side.
    """
    with pixel_limit(max_pixels):
        return decode_file(path, max_pixels, enough)


def decode_file(
    path: str | Path, max_pixels: int, enough: int | None, before: Callable[[int], None] | None = None
) -> np.ndarray:
    """The same as `decode`, within a `pixel_limit`. before: called with the number of pixels that are decoded next."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_file():  # a pipe would be waited for
        kind = "a folder" if path.is_dir() else "not a file"
        raise _refused(path, "is ", f"{kind}: pass the paths of image files")
    Image = pillow()  # noqa: N806
    try:
        if not path.stat().st_size:
            raise _refused(path, "is ", "empty")
        # If it is given a path, Pillow maps plain TIFFs to memory, and scrambles those that are to be turned
        with path.open("rb") as file, Image.open(file, formats=_formats()) as image:
            _check_size(image.size, max_pixels, path)
            if enough is not None:
                image.draft(None, (enough, enough))
            if before is not None:
                before(image.size[0] * image.size[1])
            image.load()
            _check_size(image.size, max_pixels, path)  # some formats tell only now
            return np.asarray(_plain(image))
    except ImageError:
        raise
    except Image.UnidentifiedImageError as error:
        if path.suffix.lower() in (".heic", ".heif") and not _can_read_heif():
            raise _refused(path, "needs ", "pillow-heif, which is not installed: pip install pillow-heif") from error
        raise _refused(path, "is ", "not an image: it is something else, or damaged at its start") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(path, "more pixels than", max_pixels) from error
    except MemoryError as error:
        raise no_memory(path) from error
    except Exception as error:  # readers of images raise whatever a damaged file provokes
        if isinstance(error, OSError) and error.filename is not None:  # of the system, about this file
            raise
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        raise _refused(path, "is ", f"damaged or cannot be read: {reason}") from error


@functools.cache
def _formats() -> list[str]:
    """The formats that this Pillow can read."""
    Image = pillow()  # noqa: N806
    Image.init()
    return [kind for kind in FORMATS if kind in Image.OPEN]


def _check_size(size: tuple[int, int], max_pixels: int, path: Path) -> None:
    if max(size) > MAX_SIDE:
        raise _refused(path, "", f"has {size[0]:,} × {size[1]:,} pixels, more than {MAX_SIDE:,} in a line")
    if size[0] * size[1] > max_pixels:
        raise _too_large(path, f"{size[0]:,} × {size[1]:,} pixels, more than", max_pixels)


def _too_large(path: Path, has: str, max_pixels: int) -> ImageError:
    start, end = f"has {has} the {max_pixels:,} of ", ": raise it if the image is to be trusted"
    error = _refused(path, "", start, Option("max_pixels"), end)
    error.problem = f"has {has} the {max_pixels:,} allowed"
    return error


def _refused(path: Path, verb: str, *reason: str | Option) -> ImageError:
    """The error that says why an image is refused, as a sentence about the file and as a reason alone."""
    error = ImageError(f"{path} {verb}", *reason, path=path)
    error.reason = "".join(map(str, reason))
    error.problem = f"{verb}{error.reason}"
    return error


# Images of a size that is asked for


def square(source: Path | IO[bytes], size: int, box: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
    """The middle square of an image, (size, size, 3) of uint8; each pixel is the mean of the area that it covers.

    box: left, top, right and bottom of the part of the image that counts.
    """
    Image = pillow()  # noqa: N806
    with Image.open(source) as image:
        if box is None:
            image.draft(None, (4 * size, 4 * size))  # a large JPEG is decoded no larger than is useful
        turned = cut(upright(image), box)
    side = min(turned.size)
    left, top = ((length - side) // 2 for length in turned.size)
    box = (left, top, left + side, top + side)
    return np.array(turned.resize((size, size), Image.Resampling.BOX, box=box))


def fitted(path: Path, size: int, box: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
    """An image, or a box of it, made to fit into size × size, (height, width, 3) of uint8; a smaller one stays."""
    with pillow().open(path) as image:
        if box is None:
            image.draft(None, (2 * size, 2 * size))
        turned = cut(upright(image), box)
    turned.thumbnail((size, size))
    return np.array(turned)


def cut(image: "Image.Image", box: Sequence[int] | np.ndarray | None) -> "Image.Image":
    """The part of an image that is in a box of left, top, right and bottom; all of it if there is no box."""
    if box is None:
        return image
    left, top, right, bottom = (int(value) for value in box)
    inside = (max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height))
    if inside[0] >= inside[2] or inside[1] >= inside[3]:
        size = f"{image.width} × {image.height}"
        raise FileError(f"its box {left}, {top}, {right}, {bottom} holds nothing of its {size} pixels")
    return image.crop(inside)


# Orientation and colour


def upright(image: "Image.Image") -> "Image.Image":
    """An image as its camera was held, in RGB and on white."""
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


def _plain(image: Any) -> Any:
    """The same as `upright`; an image that is RGB without transparency, as most are, is not copied."""
    from PIL import ImageOps

    if image.mode != "RGB" or image.has_transparency_data:
        return upright(image)
    ImageOps.exif_transpose(image, in_place=True)
    return image
