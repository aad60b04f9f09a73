"""Who a visitor is: a personal link opens a session, and every request is checked against it."""

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lookalike.judging.pages.links import EXPERT, ORGANISER, Keys, Pass
from lookalike.judging.store.types import Expert, ExpertError
from lookalike.web.guard import RequestRefusedError, Tokens

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store

__all__ = ["Rate", "Sessions", "expert_link", "now_ms", "open_link", "organiser_link"]

SESSION = 90 * 86_400  # seconds for which a browser stays signed in, where the link does not end before
AT_ONCE = 6.0  # seconds whose requests may come at once
NEEDED = "Open the personal link that the organiser gave you: this page knows you by it alone."

Role = Literal["expert", "organiser"]


class Sessions:
    """Visitors of a study that is judged: experts, who are in its store, and the organiser.

    Each role has a cookie of its own, so that an organiser may also try an expert's link. secure: whether browsers
    come by https alone. rate: requests a second that one of them may make, of all kinds together.
    """

    def __init__(self, store: "Store", keys: Keys, *, secure: bool, rate: float) -> None:
        self.store, self.keys, self.secure = store, keys, secure
        self.tokens = Tokens(keys.derived("forms"))
        self.rate = Rate(rate, rate * AT_ONCE)
        # studies that one machine serves on several ports share its cookies: each has names of its own
        self.cookies: dict[Role, str] = {
            role: f"{role}-{keys.proof('cookie', role)[:12]}" for role in (EXPERT, ORGANISER)
        }

    def subject(self, request: Request) -> str:
        """Whom a token of a form is made for: the session that the path is for."""
        role: Role = ORGANISER if request.scope["path"].startswith("/organise") else EXPERT
        return request.cookies.get(self.cookies[role], "")

    def join(self, token: str, request: Request) -> Response:
        """Open a session by a personal link, then redirect, so that the link does not stay in the address bar."""
        visitor = self.keys.read("link", token)
        if visitor is None:
            raise RequestRefusedError(401, "This link is not whole: open it just as the organiser gave it to you.")
        self._check(visitor)
        return self.admitted(visitor, request)

    def admitted(self, visitor: Pass, request: Request) -> Response:
        """A redirect to the page of a visitor, with the cookie of a session."""
        answer = RedirectResponse("/organise" if visitor.role == ORGANISER else "/judge", 303)
        answer.headers["cache-control"] = "no-store"
        left = SESSION if visitor.expires is None else min(SESSION, max(1, (visitor.expires - now_ms()) // 1000))
        answer.set_cookie(
            self.cookies[visitor.role],
            self.keys.signed("session", visitor),
            max_age=left,
            httponly=True,
            samesite="lax",
            secure=self.is_secure(request),
        )
        return answer

    def visitor(self, request: Request) -> Pass | None:
        """The expert whom the cookie names, if it was made here and has not run out; nothing else is checked."""
        visitor = self.keys.read("session", request.cookies.get(self.cookies[EXPERT]))
        return None if visitor is None or visitor.role != EXPERT or visitor.is_over(now_ms()) else visitor

    def expert(self, request: Request) -> str:
        """The expert of this session; an error for everybody else, and for one who asks too fast."""
        return self.session(request, EXPERT).name

    def bearer(self, request: Request) -> Pass:
        """As `expert`, but for what only the store knows: whether the link is still good. It is asked by the caller."""
        return self._counted(request, EXPERT)

    def organiser(self, request: Request) -> None:
        """Raise for everybody but the organiser."""
        self.session(request, ORGANISER)

    def session(self, request: Request, role: Role) -> Pass:
        """Whose session of this role it is; raises where there is none, or it is over, or asks too fast."""
        visitor = self._counted(request, role)
        self._check(visitor)
        return visitor

    def _counted(self, request: Request, role: Role) -> Pass:
        """What the cookie of a role says, if it was made here and has not run out; this is one of its requests.

        Requests of all kinds are counted together, for each link by itself: an older one takes nothing from a newer.
        """
        visitor = self.keys.read("session", request.cookies.get(self.cookies[role]))
        if visitor is None or visitor.role != role:
            raise RequestRefusedError(401, NEEDED)
        _check_time(visitor)
        self.rate.take(f"{role}\n{visitor.number}\n{visitor.name}")
        return visitor

    def _check(self, visitor: Pass) -> None:
        """Raise for a link or session that is no longer good."""
        _check_time(visitor)
        if visitor.role == ORGANISER:
            if visitor.number != self.store.organiser():
                raise RequestRefusedError(
                    401, "This link was taken back: lookalike judge prints the organiser's new one."
                )
            return
        expert = self.store.expert(visitor.name)
        if expert is None:
            raise ExpertError(visitor.name, "unknown")
        expert.check(now_ms(), visitor.number)

    def is_secure(self, request: Request) -> bool:
        """Whether browsers reach this by https, perhaps through a proxy that says so."""
        return self.secure or "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""))

    def token(self, request: Request) -> str:
        """What proves that a form, or a request of a script, comes from a page that this session was given."""
        return self.tokens.make(self.subject(request))

    def start(self, request: Request) -> Response:
        """A redirect to the page of the visitor's role."""
        for role, path in ((EXPERT, "/judge"), (ORGANISER, "/organise")):
            if self.keys.read("session", request.cookies.get(self.cookies[role])) is not None:
                return RedirectResponse(path, 303)
        raise RequestRefusedError(401, NEEDED)


def _check_time(visitor: Pass) -> None:
    if visitor.is_over(now_ms()):
        raise RequestRefusedError(401, "Your link has expired: ask the organiser for a new one.")


def expert_link(keys: Keys, expert: Expert, address: str) -> str:
    """The personal link of an expert, at the address of the server, such as https://judge.example."""
    visitor = Pass(expert.name, EXPERT, expert.link_number, expert.expires)
    return f"{address.rstrip('/')}/join/{keys.signed('link', visitor)}"


def organiser_link(keys: Keys, number: int, address: str, *, expires: int | None = None) -> str:
    """The link of the organiser, of the number that the store says; expires: ms since 1970, None for never."""
    visitor = Pass("organiser", ORGANISER, number, expires)
    return f"{address.rstrip('/')}/join/{keys.signed('link', visitor)}"


def open_link(keys: Keys, number: int, address: str) -> str:
    """The link by which anybody can judge, of this number, at the address of the server."""
    return f"{address.rstrip('/')}/crowd/{keys.signed('crowd', Pass('crowd', EXPERT, number))}"


class Rate:
    """Requests that each session may make: so many a second, and so many at once.

    >>> rate = Rate(1.0, 2.0)
    >>> for _ in range(3):
    ...     rate.take("ann", now=5.0)
    Traceback (most recent call last):
        ...
    lookalike.web.guard.RequestRefusedError: That is too fast: wait a second, then go on.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str, now: float | None = None) -> None:
        """Count a request, or refuse it."""
        at = time.monotonic() if now is None else now
        with self._lock:
            left, before = self._left.pop(name, (self.burst, at))
            left = min(self.burst, left + (at - before) * self.rate)
            self._left[name] = (left - 1 if left >= 1 else left, at)
            while len(self._left) > 10_000:
                self._left.popitem(last=False)
        if left < 1:
            raise RequestRefusedError(429, "That is too fast: wait a second, then go on.")


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
