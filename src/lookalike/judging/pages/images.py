"""Images of pairs. Each address works for one expert only, and the image file itself is never sent."""

import functools
import re
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from starlette.requests import Request
from starlette.responses import Response

from lookalike.judging.pages.links import Keys
from lookalike.web.guard import RequestRefusedError
from lookalike.web.image_responses import image_response, not_modified, with_version
from lookalike.web.thumbnails import THUMBNAIL, VIEW, Drawing, Drawn, Thumbnails, version_of

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["Held", "Images"]

HELD = 64_000_000  # bytes of pictures held in memory
SIDES = {"query": VIEW, "item": VIEW, "tile": 640}  # the longest side in pixels; a tile: an item, as one of many
KNOWN, LOOKED_AT = 20_000, 30.0  # addresses that are known; seconds until files are looked at again


class Images:
    """The images of a study, by side of a pair (query or item, or item as a tile) and position."""

    def __init__(self, study: "Study", keys: Keys, thumbnails: Thumbnails | None) -> None:
        self.study, self.keys = study, keys
        self.thumbnails = Thumbnails() if thumbnails is None else thumbnails
        self.held = Held(HELD)
        self._address = functools.lru_cache(KNOWN)(self._new_address)  # pages ask again for pairs that they have
        self._drawing = Drawing()

    @property
    def drawing(self) -> anyio.CapacityLimiter:
        """Threads that draw: few, and not those that take answers, which never wait for an image."""
        return self._drawing.limiter

    def address(self, name: str, side: str, wanted: str) -> str:
        """The address of an image, which works for this expert only."""
        return self._address(name, side, wanted, int(time.monotonic() / LOOKED_AT))

    def _new_address(self, name: str, side: str, wanted: str, _: int) -> str:
        position = self._position(side, wanted)
        version = version_of(self._path(side, position), SIDES[side])
        proof = self.keys.proof("picture", name, side, position)
        hidden = self.keys.disguised(f"picture {side}", position)  # positions in a catalogue show what belongs together
        return with_version(f"/picture/{side}/{hidden}.{proof}", version)

    def _position(self, side: str, wanted: str) -> int:
        catalogue = self.study.queries if side == "query" else self.study.catalogue
        return int(catalogue.positions([wanted])[0])

    def _path(self, side: str, position: int) -> Path | None:
        catalogue = self.study.queries if side == "query" else self.study.catalogue
        if catalogue.paths is None or not 0 <= position < len(catalogue):
            return None
        return self.study.path / str(catalogue.paths[position])

    def handed(self, name: str, side: str, given: str, request: Request) -> Response:
        """An image that was handed to this expert; 404 if it cannot be shown, and the page says so."""
        parts = re.fullmatch(r"([0-9]{1,15})\.([A-Za-z0-9_-]{43})", given)
        if parts is None or side not in SIDES or int(parts[1]) >= 2**48:
            raise RequestRefusedError(404, "There is no such image.")
        position = self.keys.revealed(f"picture {side}", int(parts[1]))
        if not self.keys.proves(parts[2], "picture", name, side, position):
            raise RequestRefusedError(404, "There is no such image for you.")
        return self._view(self._path(side, position), SIDES[side], request)

    def thumbnail(self, side: str, given: str, request: Request) -> Response:
        """A small image, or a picture of words."""
        if not re.fullmatch("[0-9]{1,12}", given) or side not in ("query", "item"):
            raise RequestRefusedError(404, "There is no such image.")
        return image_response(self.thumbnails.of(self._path(side, int(given))), request)

    def thumbnail_address(self, side: str, wanted: str) -> str:
        """Where the organiser finds a small image."""
        position = self._position(side, wanted)
        version = version_of(self._path(side, position), THUMBNAIL)
        return with_version(f"/organise/picture/{side}/{position}", version)

    def view(self, side: str, given: str, request: Request) -> Response:
        """A large image for the organiser; 404 if it cannot be shown."""
        if not re.fullmatch("[0-9]{1,12}", given) or side not in ("query", "item"):
            raise RequestRefusedError(404, "There is no such image.")
        return self._view(self._path(side, int(given)), VIEW, request)

    def view_address(self, side: str, wanted: str) -> str:
        """Where the organiser finds a large image."""
        position = self._position(side, wanted)
        return with_version(f"/organise/view/{side}/{position}", version_of(self._path(side, position), VIEW))

    def _view(self, path: Path | None, longest: int, request: Request) -> Response:
        version = version_of(path, longest)
        if (unchanged := not_modified(version, request)) is not None:
            return unchanged
        drawn = self.held.get(version) if version is not None else None
        if drawn is None:
            drawn = self.thumbnails.view(path, longest)
            if drawn.version is None:
                raise RequestRefusedError(404, "This image cannot be shown.")
            self.held.put(drawn)
        return image_response(drawn, request)


class Held:
    """A cache of pictures: several experts see the same ones, one after the other."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._held: OrderedDict[str, Drawn] = OrderedDict()
        self._bytes, self._lock = 0, threading.Lock()

    def get(self, version: str) -> Drawn | None:
        """A picture that is held."""
        with self._lock:
            if version in self._held:
                self._held.move_to_end(version)
            return self._held.get(version)

    def put(self, drawn: Drawn) -> None:
        """Hold a picture, and let go of those that were asked for the longest ago."""
        with self._lock:
            if drawn.version is None or drawn.version in self._held:
                return
            self._held[drawn.version] = drawn
            self._bytes += len(drawn.body)
            while self._bytes > self.most_bytes:
                self._bytes -= len(self._held.popitem(last=False)[1].body)
