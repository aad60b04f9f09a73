"""Checks between the network and a page: host names, other sites, sizes and headers; errors show no details."""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOOPBACK", "Guard", "RequestRefusedError", "Tokens", "host_of"]

LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
MOST_HELD = 256_000_000  # bytes that all requests together may have sent which are not yet answered
PATIENCE = 30.0  # seconds until the next bytes of a body must come
LONGEST = 300.0  # seconds until a whole body must be there
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",  # no other site may show our images
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",  # with no-referrer, browsers would send "Origin: null" with our own posts
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_SENT = {name.encode(): value.encode() for name, value in HEADERS.items()}

logger = logging.getLogger(__name__)


class RequestRefusedError(Exception):
    """A request is refused with a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Tokens:
    """Proofs that a form was made by this server for somebody, which other sites can neither read nor make.

    >>> tokens = Tokens(b"key")
    >>> tokens.right(tokens.make("ann"), "ann"), tokens.right(tokens.make("ann"), "bob"), tokens.right(None, "ann")
    (True, False, False)
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    def make(self, subject: str = "") -> str:
        """The proof for a subject, such as a session."""
        return hmac.new(self._key, subject.encode(), hashlib.sha256).hexdigest()

    def right(self, given: Any, subject: str = "") -> bool:
        """Whether this is the proof; how long it takes to tell does not depend on what was given."""
        return isinstance(given, str) and hmac.compare_digest(self.make(subject).encode(), given.encode())


class Guard:
    """Checks every request before an app sees it, and adds the headers of safety to every answer.

    hosts: names that the server answers to, beside those of the loopback; with any other, another site may have led a
    browser here by a name of its own (DNS rebinding). limit: bytes that a request may have. refuse: makes the page
    that says why, an ASGI app.
    """

    def __init__(
        self,
        app: "ASGIApp",
        *,
        hosts: Iterable[str],
        limit: int,
        refuse: Callable[[RequestRefusedError, Any], "ASGIApp"],
    ) -> None:
        self.app, self.limit, self.refuse = app, limit, refuse
        self.held = 0  # bytes that all requests together have sent which are not yet answered
        self.hosts = LOOPBACK | {name.lower() for name in hosts}

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there is no websocket here
            await send({"type": "websocket.close", "code": 1008})
            return
        answered = False

        async def answer(message: "Message") -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                headers = _with_safety(message.get("headers", []))
                if body.late:  # what else comes on this connection is not waited for
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        body = _Body(self, receive)
        try:
            headers = _headers(scope)
            check(scope["method"], headers, self.hosts)
            body.promised = headers.get("content-length", ["0"])[-1]
            await self.app(scope, body.receive, answer)
        except ClientDisconnect:  # nobody is there any more
            return
        except asyncio.CancelledError:  # the server ends, and does not wait for this
            if not answered:
                await self.refuse(RequestRefusedError(503, "The server is ending. Try again soon."), scope)(
                    scope, receive, answer
                )
        except Exception as error:  # whatever happens, the visitor gets a page and the server goes on
            refused = (
                error
                if isinstance(error, RequestRefusedError)
                else RequestRefusedError(500, "Something went wrong here.")
            )
            if refused is not error:
                logger.error("%s %.200r: %s: %s", scope["method"], _begun(scope["path"]), type(error).__name__, error)
                logger.debug("in full", exc_info=error)
            if answered:
                return
            if body.refused:
                error.__traceback__ = None  # which holds what was sent so far
                await body.drain()
            await self.refuse(refused, scope)(scope, receive, answer)
        finally:
            body.free()


class _Body:
    """What a request sends beside its headers, up to the limits of a guard for one request and for all together.

    It must arrive in time: one that stops would otherwise hold for ever what it has sent.
    """

    def __init__(self, guard: Guard, receive: "Receive") -> None:
        self._guard, self._receive = guard, receive
        self.promised, self.received, self.refused = "0", 0, False
        self.ended, self.late = False, False  # nothing more comes; it did not come in time
        self._until: float | None = None  # when all must be there

    async def receive(self) -> "Message":
        limit = self._guard.limit
        if not self.promised.isdecimal() or len(self.promised) > 15 or int(self.promised) > limit:
            self._refuse(413, f"That is too large: at most {_size(limit)} can be sent.")
        try:
            message = await self._next()
        except TimeoutError:
            self._refuse(408, "What you sent did not arrive in time. Try again, or send less.")
        n_bytes = len(message.get("body", b""))
        if self.received + n_bytes > limit:
            self._refuse(413, f"That is too large: at most {_size(limit)} can be sent.")
        if self._guard.held + n_bytes > MOST_HELD:
            self._refuse(503, "Too much is being sent here at this moment. Try again in a minute.")
        self.received += n_bytes
        self._guard.held += n_bytes
        return message

    async def drain(self) -> None:
        """Read what a browser is still sending: only then does it look at the answer."""
        read = 0
        with contextlib.suppress(TimeoutError):  # who does not send is answered too
            while not (self.ended or self.late) and read <= 4 * self._guard.limit:
                read += len((await self._next()).get("body", b""))

    def free(self) -> None:
        self._guard.held -= self.received
        self.received = 0

    async def _next(self) -> "Message":
        """What arrives next; TimeoutError if that is not soon."""
        if self.ended:  # what is left to come is that the client goes, at any time
            return await self._receive()
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + LONGEST
        try:
            async with asyncio.timeout_at(min(now + PATIENCE, self._until)):
                message = await self._receive()
        except TimeoutError:
            self.late = True
            raise
        self.ended = not message.get("more_body", False)  # nor does more come when the client has gone
        return message

    def _refuse(self, status: int, sentence: str) -> NoReturn:
        self.refused = True
        self.free()
        raise RequestRefusedError(status, sentence)


def check(method: str, headers: Mapping[str, list[str]], hosts: frozenset[str]) -> None:
    """Raise RequestRefusedError for a request by a foreign name or from a foreign site."""
    named = headers.get("host", [])
    if len(named) != 1 or host_of(named[0]) not in hosts:
        shown = named[0][:100] if len(named) == 1 else "no name, or several"
        raise RequestRefusedError(
            403,
            f"This server does not answer to {shown!r}. If that is a name of yours, start it with --allow-host NAME.",
        )
    site = headers.get("sec-fetch-site", ["same-origin"])
    own = set(site) <= {"same-origin", "none"}
    if method in SAFE:
        if not own and headers.get("sec-fetch-mode") != ["navigate"]:  # a link may lead here; nothing may be embedded
            raise RequestRefusedError(403, "Other sites may link to this page, but not use what is on it.")
        return
    if not set(site) <= {"same-origin"} or any(not _is_own(origin, named[0]) for origin in headers.get("origin", [])):
        raise RequestRefusedError(
            403, "This was sent from another site, which is not allowed. Open the page itself and try again."
        )


def host_of(header: str) -> str | None:
    """The name in a Host header, without the port and in small letters; None for what is none.

    >>> host_of("Localhost:8000"), host_of("[::1]:80"), host_of("shop.example"), host_of("a b"), host_of("localhost:")
    ('localhost', '[::1]', 'shop.example', None, None)
    """
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", header.strip().lower())
    return match[1] if match else None


def _is_own(origin: str, host: str) -> bool:
    """Whether an Origin header names the site that was asked; its scheme is the business of a proxy."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.strip().lower()


def _headers(scope: "Scope") -> Mapping[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _with_safety(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _SENT] + list(_SENT.items())


def _begun(path: str) -> str:
    """How a path begins: what follows may be a secret, such as a personal link, which is not for logs.

    >>> _begun("/join/secret"), _begun("/judge")
    ('/join/…', '/judge')
    """
    first, more = path[1:].partition("/")[::2]
    return f"/{first}/…" if more else path


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.0f} kB"
