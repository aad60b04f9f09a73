"""Pictures for a page: made small, thumbnails kept on disk, and words in place of those that cannot be shown."""

import contextlib
import hashlib
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.datasets import cache_folder
from lookalike.datasets.pictures import pillow
from lookalike.encoders.decoding import MAX_PIXELS, opened
from lookalike.files import writing

__all__ = ["THUMBNAIL", "VIEW", "Drawn", "Thumbnails", "lent", "placeholder", "render", "version_of"]

THUMBNAIL, VIEW = 320, 1600  # the longest side, in pixels
FORM = 1  # changes whenever a thumbnail would look different
SQUARES, SMALL = 16, 160  # up to which side pictures are enlarged as squares, and smoothly


@dataclass(frozen=True)
class Drawn:
    """A picture as it is sent: bytes and their kind; `version` changes with them, None where it may change any time."""

    body: bytes
    kind: str
    version: str | None = None


class Thumbnails:
    """Small pictures of files, kept in a folder of the cache; where nothing can be written, made anew each time."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = cache_folder() / "thumbnails" if folder is None else folder

    def of(self, path: Path | None) -> Drawn:
        """The thumbnail of a file, or words that say why there is none."""
        version = version_of(path, THUMBNAIL)
        if path is None or version is None:
            return placeholder("file is missing")
        kept = self.folder / version[:2] / f"{version}.jpg"
        try:
            return Drawn(_whole(kept), "image/jpeg", version)
        except (OSError, ValueError):
            drawn = drawn_from(path, THUMBNAIL, version)
        if drawn.version is not None:
            self._keep(kept, drawn.body)
        return drawn

    @staticmethod
    def view(path: Path | None) -> Drawn:
        """A file large enough to fill a screen, never its own bytes."""
        version = version_of(path, VIEW)
        if path is None or version is None:
            return placeholder("file is missing")
        return drawn_from(path, VIEW, version)

    def _keep(self, kept: Path, body: bytes) -> None:
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with writing(kept) as file:
                file.write(body)
        except (OSError, ValueError):  # a full or read-only disk: everything works without
            return


def drawn_from(path: Path, longest: int, version: str | None) -> Drawn:
    """A file as a picture with no side longer than this, or words."""
    try:
        picture = opened(path, MAX_PIXELS, longest)
    except FileNotFoundError:
        return placeholder("file is missing")
    except (OSError, ValueError, MemoryError):
        return placeholder("cannot be read")
    return Drawn(render(picture, longest), "image/jpeg", version)


def render(picture: np.ndarray, longest: int) -> bytes:
    """A picture as JPEG: no side longer than this, and small ones enlarged, of a few pixels as squares."""
    Image: Any = pillow()  # noqa: N806
    image = Image.fromarray(np.ascontiguousarray(picture))
    own = max(image.size)
    if own > longest:
        image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    elif own < SMALL:
        times = SMALL / own if own > SQUARES else SMALL // own
        method = Image.Resampling.NEAREST if own <= SQUARES else Image.Resampling.BICUBIC
        image = image.resize(tuple(max(1, round(side * times)) for side in image.size), method)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=88, subsampling=0 if own < SMALL else 2, optimize=True)
    return file.getvalue()


def version_of(path: Path | None, longest: int) -> str | None:
    """Another text whenever the picture is another one; None where there is no file."""
    try:
        if path is None:
            return None
        state = path.stat()
    except (OSError, ValueError):
        return None
    facts = f"{FORM} {longest} {path} {state.st_size} {state.st_mtime_ns}"
    return hashlib.sha256(facts.encode(errors="surrogateescape")).hexdigest()[:40]


def placeholder(words: str) -> Drawn:
    """A picture that says why there is none, in a grey that can be read on light and dark."""
    body = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="160" height="160" viewBox="0 0 160 160" fill="none" '
        'stroke="#8390a0" stroke-width="2.5" stroke-linejoin="round" stroke-linecap="round">'
        '<path d="M52 46h56a6 6 0 0 1 6 6v44a6 6 0 0 1-6 6H52a6 6 0 0 1-6-6V52a6 6 0 0 1 6-6z" stroke-dasharray="6 5"/>'
        '<path d="M52 94l18-20 14 13M92 82l6-6 10 12M62 60h.01"/>'
        '<text x="80" y="128" fill="#8390a0" stroke="none" text-anchor="middle" '
        f'font-family="system-ui, sans-serif" font-size="13">{escape(words)}</text></svg>'
    )
    return Drawn(body.encode(), "image/svg+xml")


def _whole(path: Path) -> bytes:
    """A kept thumbnail, if it is one from start to end."""
    body = path.read_bytes()
    if not (body.startswith(b"\xff\xd8") and body.endswith(b"\xff\xd9")):
        raise ValueError(f"{path} is damaged")
    return body


@contextlib.contextmanager
def lent(body: bytes) -> Iterator[Path]:
    """Bytes as a file that only we can read, for as long as a reader of files needs it."""
    with tempfile.TemporaryDirectory(prefix="lookalike-") as folder:
        path = Path(folder) / "picture"
        path.write_bytes(body)
        yield path
