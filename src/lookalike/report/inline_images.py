"""Pictures within a page: small, and written as text."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

PIXELS, PIXELATED = 64, 16  # a picture's longest side, and that up to which it is enlarged as squares

__all__ = ["PIXELATED", "PIXELS", "encoded", "uri"]


def encoded(picture: np.ndarray, longest: int = PIXELS) -> tuple[str, bytes]:
    """The kind and the bytes of the smallest file of a picture. longest: of its sides; tiny pictures have no loss."""
    image = Image.fromarray(np.ascontiguousarray(picture, np.uint8)).convert("RGB")
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    values = np.asarray(image)
    if (values == values[..., :1]).all():
        image = image.convert("L")
    files = [("png", _saved(image, "PNG", optimize=True))]
    if max(image.size) > PIXELATED:
        files.append(("jpeg", _saved(image, "JPEG", quality=72, optimize=True)))
        files.append(("webp", _saved(image, "WEBP", quality=65, method=6)))
    else:
        files.append(("webp", _saved(image, "WEBP", lossless=True, quality=100, method=6)))
    return min(files, key=lambda file: len(file[1]))


def uri(picture: np.ndarray, longest: int = PIXELS) -> str:
    """A picture as a data: address."""
    kind, data = encoded(picture, longest)
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
