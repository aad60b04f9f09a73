"""Pictures for a page: made small, thumbnails kept on disk, and words in place of those that cannot be shown."""

import contextlib
import hashlib
import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import anyio
import numpy as np

from lookalike.core.decode import MAX_PIXELS, decode_file, pillow, pixel_limit
from lookalike.core.files import writing
from lookalike.datasets import cache_folder

__all__ = [
    "ROOM",
    "THUMBNAIL",
    "VIEW",
    "Drawing",
    "Drawn",
    "Room",
    "Thumbnails",
    "able_to_draw",
    "lent",
    "placeholder",
    "render",
    "shown",
    "version_of",
]

THUMBNAIL, VIEW = 320, 1600  # the longest side, in pixels
BLOCK = 64 << 20  # bytes, in which Pillow asks for memory: smaller ones the C library keeps, for each thread its own
FORM = 1  # changes whenever a thumbnail would look different
SQUARES, SMALL = 16, 160  # up to which side pictures are enlarged as squares, and smoothly


class Room:
    """So many pixels may be decoded at the same time, by all threads together; who wants more waits, in turn.

    A file of a few kilobytes may hold a picture of a gigabyte. A picture larger than all of the room gets all of it.

    >>> room = Room(100)
    >>> with room.lent() as take:
    ...     take(60)
    ...     room.left
    40
    >>> room.left
    100
    """

    def __init__(self, pixels: int) -> None:
        self.pixels = self.left = pixels
        self._turn, self._freed = threading.Lock(), threading.Condition()

    @contextlib.contextmanager
    def lent(self) -> Iterator[Callable[[int], None]]:
        """A function to take pixels by, once and when they are known, which are free again after this block."""
        borrowed = 0

        def take(pixels: int) -> None:
            nonlocal borrowed
            wanted = min(pixels, self.pixels)
            with self._turn, self._freed:  # small pictures do not overtake a large one for ever
                self._freed.wait_for(lambda: self.left >= wanted)
                self.left -= wanted
            borrowed = wanted

        try:
            yield take
        finally:
            with self._freed:
                self.left += borrowed
                self._freed.notify_all()


ROOM = Room(MAX_PIXELS)  # of this process: one or two gigabytes, of numbers of four bytes three


@contextlib.contextmanager
def able_to_draw() -> Iterator[None]:
    """Within this block, in all threads, pictures may be decoded, and their memory goes back to the system."""
    core: Any = pillow().core
    before = core.get_block_size()
    core.set_block_size(BLOCK)
    try:
        with pixel_limit(MAX_PIXELS):
            yield
    finally:
        core.set_block_size(before)


class Drawing:
    """Threads that draw: few, and not those that answer everything else, which never wait for an image."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None

    @property
    def limiter(self) -> anyio.CapacityLimiter:
        """What keeps them few; made when it is first asked for, by the loop that waits for them."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(max(2, os.cpu_count() or 2))
        return self._limiter


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
        body = _kept_thumbnail(kept)
        if body is not None:
            return Drawn(body, "image/jpeg", version)
        drawn = drawn_from(path, THUMBNAIL, version)
        if drawn.version is not None:
            self._keep(kept, drawn.body)
        return drawn

    @staticmethod
    def view(path: Path | None, longest: int = VIEW) -> Drawn:
        """A file large enough to fill a screen, or a tile of it, never its own bytes."""
        version = version_of(path, longest)
        if path is None or version is None:
            return placeholder("file is missing")
        return drawn_from(path, longest, version)

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
        return Drawn(shown(path, longest), "image/jpeg", version)
    except FileNotFoundError:
        return placeholder("file is missing")
    except (OSError, ValueError, MemoryError):
        return placeholder("cannot be read")


def shown(path: Path, longest: int) -> bytes:
    """A file as JPEG with no side longer than this, as soon as there is room to decode it."""
    with ROOM.lent() as take:
        return render(decode_file(path, MAX_PIXELS, longest, take), longest)


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


def _kept_thumbnail(path: Path) -> bytes | None:
    """A thumbnail that was kept, None if it is not there or damaged."""
    try:
        body = path.read_bytes()
    except OSError:
        return None
    return body if body.startswith(b"\xff\xd8") and body.endswith(b"\xff\xd9") else None


@contextlib.contextmanager
def lent(body: bytes) -> Iterator[Path]:
    """Bytes as a file that only we can read, for as long as a reader of files needs it."""
    with tempfile.TemporaryDirectory(prefix="lookalike-") as folder:
        path = Path(folder) / "picture"
        path.write_bytes(body)
        yield path
