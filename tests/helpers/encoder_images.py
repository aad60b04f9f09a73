"""Photographs, noise and smooth pictures, as arrays and as files, for tests of decoding and of encoders."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.color
import skimage.data
from PIL import Image

from lookalike.encoders import EfficientNetLite0, Encoder, encode_files

ROUNDING = 1e-4
RNG = np.random.default_rng(0)
PHOTOS = ("chelsea", "astronaut", "coffee", "rocket", "camera", "coins", "hubble_deep_field", "retina", "moon", "page")


def photo(name: str) -> np.ndarray:
    return getattr(skimage.data, name)()


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    """A picture without edges, which survives JPEG: redder to the right, bluer to the bottom."""
    down, right = np.mgrid[0:height, 0:width]
    return np.stack([right * 255 // max(width - 1, 1), down * 0 + 90, down * 255 // max(height - 1, 1)], 2).astype(
        np.uint8
    )


def saved(picture: np.ndarray | Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def animated() -> bytes:
    frames = [Image.new("RGB", (6, 4), colour) for colour in ("red", "lime", "blue")]
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50)


def grey_alpha() -> Image.Image:
    image = Image.new("LA", (6, 4), (0, 0))
    image.putpixel((0, 0), (10, 255))
    return image


def transparent_palette() -> Image.Image:
    image = Image.new("P", (6, 4), 3)
    image.putpalette([0, 0, 0, 10, 10, 10, 20, 20, 20, 200, 30, 30])
    return image


KINDS: dict[str, tuple[bytes, tuple[int, int, int]]] = {  # a file, and the colour of its last pixel
    "rgb.png": (saved(Image.new("RGB", (6, 4), (10, 20, 30)), "PNG"), (10, 20, 30)),
    "grey.png": (saved(Image.new("L", (6, 4), 90), "PNG"), (90, 90, 90)),
    "black-and-white.png": (saved(Image.new("1", (6, 4), 1), "PNG"), (255, 255, 255)),
    "16-bit.png": (saved(np.full((4, 6), 0x8042, np.uint16), "PNG"), (128, 128, 128)),
    "16-bit.tif": (saved(np.full((4, 6), 0x2042, np.uint16), "TIFF"), (32, 32, 32)),
    "palette.png": (saved(Image.new("RGB", (6, 4), (200, 0, 0)).quantize(4), "PNG"), (200, 0, 0)),
    "transparent-palette.png": (saved(transparent_palette(), "PNG", transparency=3), (255, 255, 255)),
    "transparent.png": (saved(Image.new("RGBA", (6, 4), (0, 0, 0, 0)), "PNG"), (255, 255, 255)),
    "one-colour-transparent.png": (
        saved(Image.new("RGB", (6, 4), (10, 20, 30)), "PNG", transparency=(10, 20, 30)),
        (255, 255, 255),
    ),
    "half-transparent.png": (saved(Image.new("RGBA", (6, 4), (0, 0, 0, 128)), "PNG"), (127, 127, 127)),
    "grey-alpha.png": (saved(grey_alpha(), "PNG"), (255, 255, 255)),
    "cmyk.jpg": (saved(Image.new("CMYK", (6, 4), (0, 255, 255, 0)), "JPEG", quality=95), (255, 0, 0)),
    "cmyk.tif": (saved(Image.new("CMYK", (6, 4), (255, 0, 255, 0)), "TIFF"), (0, 255, 0)),
    "grey.jpg": (saved(Image.new("L", (6, 4), 90), "JPEG"), (90, 90, 90)),
    "animated.gif": (animated(), (255, 0, 0)),
    "web.webp": (saved(Image.new("RGBA", (6, 4), (0, 0, 0, 0)), "WEBP", lossless=True), (255, 255, 255)),
    "one.bmp": (saved(Image.new("RGB", (1, 1), (1, 2, 3)), "BMP"), (1, 2, 3)),
    "portable.ppm": (saved(Image.new("RGB", (6, 4), (1, 2, 3)), "PPM"), (1, 2, 3)),
    "a-png-in-truth.jpg": (saved(Image.new("RGB", (6, 4), (9, 8, 7)), "PNG"), (9, 8, 7)),
    "no-suffix": (saved(Image.new("RGB", (6, 4), (9, 8, 7)), "PNG"), (9, 8, 7)),
}


def png_header(width: int, height: int) -> bytes:
    """A PNG of black pixels that says it is so large; whatever is compressed that well takes no space."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"

REFUSED: dict[str, tuple[bytes, str]] = {
    "empty.jpg": (b"", "is empty"),
    "text.jpg": (b"these are words\n" * 9, "is not an image: it is something else, or damaged at its start"),
    "zeros.png": (bytes(500), "is not an image"),
    "program.eps": (EPS, "is not an image"),  # Pillow would start Ghostscript
    "half.jpg": (saved(noise(64, 64, 3), "JPEG")[:1500], "is damaged or cannot be read: .*truncated"),
    "half.png": (saved(noise(64, 64, 3), "PNG")[:5000], "is damaged or cannot be read: "),
    "bomb.png": (png_header(30_000, 30_000), "has more pixels than the 89,478,485 of max_pixels: raise it"),
    "large.png": (png_header(9_460, 9_460), "has more pixels than the 89,478,485 of max_pixels: raise it"),
    "long.png": (png_header(2_000_000_000, 1), "is damaged|pixels"),
}


def rows_of(paths: list[Path], encoder: Encoder, **options: Any) -> np.ndarray:
    files = encode_files(paths, encoder, **options)
    rows = np.concatenate([vectors for _, vectors in files])
    assert not files.reasons
    return rows


def with_exif() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "a description"
    return exif


@pytest.fixture(scope="module")
def lite0() -> EfficientNetLite0:
    return EfficientNetLite0()


@pytest.fixture(scope="module")
def photo_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Photographs as JPEGs of about 400 pixels."""
    folder = tmp_path_factory.mktemp("photos")
    for name in PHOTOS:
        image = Image.fromarray(photo(name)).convert("RGB")
        image.thumbnail((500, 400))
        image.save(folder / f"{name}.jpg", quality=90)
    return [folder / f"{name}.jpg" for name in PHOTOS]
