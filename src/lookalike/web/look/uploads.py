"""Pictures that visitors brought: held in memory under names that nobody can guess, the oldest forgotten first."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["Upload", "Uploads"]


@dataclass(frozen=True)
class Upload:
    """A picture as it was brought, and as it is shown."""

    name: str
    body: bytes
    shown: bytes


class Uploads:
    """At most so many pictures and bytes of them.

    >>> uploads = Uploads(most=1)
    >>> first, second = (uploads.add(Upload(name, b"", b"")) for name in ("a.png", "b.png"))
    >>> uploads.get(first), uploads.get(second).name
    (None, 'b.png')
    """

    def __init__(self, most: int = 100, most_bytes: int = 200_000_000) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._held: OrderedDict[str, Upload] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, upload: Upload) -> str:
        """Hold a picture, and say under which name."""
        token = secrets.token_urlsafe(18)
        with self._lock:
            self._held[token] = upload
            while len(self._held) > 1 and (len(self._held) > self.most or self._bytes() > self.most_bytes):
                self._held.popitem(last=False)
        return token

    def get(self, token: str) -> Upload | None:
        """A picture that is still held."""
        with self._lock:
            if token in self._held:
                self._held.move_to_end(token)
            return self._held.get(token)

    def _bytes(self) -> int:
        return sum(len(upload.body) + len(upload.shown) for upload in self._held.values())
