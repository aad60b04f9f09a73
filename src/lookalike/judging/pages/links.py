"""Personal links: a key for each study, links that it signs, and the sessions that a link opens."""

import base64
import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from lookalike.core.errors import FileError, InputError

__all__ = ["EXPERT", "ORGANISER", "Keys", "Pass"]

EXPERT: Literal["expert"] = "expert"
ORGANISER: Literal["organiser"] = "organiser"
LONGEST = 2_000  # letters of a signed text; a link holds a name
SIZE = 32  # bytes of a key
HALF, TURNS = 2**24 - 1, 4  # bits of half a disguised number, and how often the halves are mixed

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pass:
    """Whom a link or a session is for. number: of the link; expires: in milliseconds since 1970, None for never."""

    name: str
    role: Literal["expert", "organiser"] = EXPERT
    number: int = 0
    expires: int | None = None

    def is_over(self, now: int) -> bool:
        """Whether it has run out at this moment, in ms."""
        return self.expires is not None and now >= self.expires


class Keys:
    """The key of a study, which signs texts for one purpose each: a proof for one does not work for another.

    >>> keys = Keys(b"k" * 32)
    >>> token = keys.signed("link", Pass("ann", number=2))
    >>> keys.read("link", token)
    Pass(name='ann', role='expert', number=2, expires=None)
    >>> keys.read("session", token), keys.read("link", token[:-1]), Keys(b"other" * 8).read("link", token)
    (None, None, None)
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < SIZE:
            raise InputError(f"a key has {SIZE} bytes or more, got {len(key)}", parameter="key")
        self._key = key
        self._derived: dict[str, bytes] = {}

    @classmethod
    def of(cls, study: Path) -> "Keys":
        """The key of the study in this folder, made when it is first asked for; only its owner may read the file."""
        path = Path(study) / "judging" / "key"
        if not path.exists():
            _make(path)
        _tighten(path)
        key = path.read_bytes()
        if len(key) != SIZE:
            raise FileError(
                f"{path} is damaged: remove it and start again, then give every expert a new link", path=path
            )
        return cls(key)

    def derived(self, purpose: str) -> bytes:
        """A key for one purpose, from which nobody can tell another."""
        if purpose not in self._derived:
            self._derived[purpose] = hmac.digest(self._key, purpose.encode(), "sha256")
        return self._derived[purpose]

    def proof(self, purpose: str, *facts: object) -> str:
        """A short text that only the holder of the key can make, for these facts."""
        body = json.dumps([str(fact) for fact in facts]).encode()
        return _text(hmac.new(self.derived(purpose), body, hashlib.sha256).digest())

    def proves(self, proof: str, purpose: str, *facts: object) -> bool:
        """Whether this is that text; how long it takes to tell does not depend on what was given."""
        return hmac.compare_digest(self.proof(purpose, *facts).encode(), proof.encode(errors="replace"))

    def disguised(self, purpose: str, number: int) -> int:
        """Another number that stands for this one and tells nothing without the key; both are below 2^48.

        >>> keys = Keys(b"k" * 32)
        >>> hidden = [keys.disguised("pair ann", number) for number in (1, 2, 3)]
        >>> hidden, [keys.revealed("pair ann", number) for number in hidden]
        ([242889801400375, 4641980241113, 246726399621343], [1, 2, 3])
        """
        left, right = number >> 24, number & HALF
        for turn in range(TURNS):  # a Feistel network: what each turn does can be undone, whatever it mixes in
            left, right = right, left ^ self._mixed(purpose, turn, right)
        return left << 24 | right

    def revealed(self, purpose: str, number: int) -> int:
        """The number that was disguised as this one."""
        left, right = number >> 24, number & HALF
        for turn in reversed(range(TURNS)):
            left, right = right ^ self._mixed(purpose, turn, left), left
        return left << 24 | right

    def _mixed(self, purpose: str, turn: int, half: int) -> int:
        body = f"{turn} {half}".encode()
        return int.from_bytes(hmac.digest(self.derived(f"disguise {purpose}"), body, "sha256")[:3])

    def signed(self, purpose: str, visitor: Pass) -> str:
        """A pass as text for an address or a cookie, with its proof."""
        text = _text(json.dumps(asdict(visitor), separators=(",", ":")).encode())
        return f"{text}.{self.proof(purpose, text)}"

    def read(self, purpose: str, token: str | None) -> Pass | None:
        """The pass in a text, if it was signed here for this purpose."""
        if token is None or len(token) > LONGEST:
            return None
        text, _, proof = token.partition(".")
        if not self.proves(proof, purpose, text):
            return None
        try:
            return Pass(**json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))
        except (ValueError, TypeError):  # signed by another version of this
            return None

    def __repr__(self) -> str:
        return "Keys(…)"


def _text(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _make(path: Path) -> None:
    """Write a key, whole from the first moment; if two processes write one at once, one of them counts."""
    path.parent.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".key.", suffix=".part")  # readable by the owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


def _tighten(path: Path) -> None:
    if path.stat().st_mode & 0o077 == 0:
        return
    try:
        path.chmod(0o600)
    except OSError as error:
        raise FileError(
            f"others can read {path}, and it is not yours to change: chmod 600 {path}", path=path
        ) from error
    logger.warning(
        "others could read %s, which signs all links: now only you can; remove it to make all links new", path
    )
