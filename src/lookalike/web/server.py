"""The base of every page: an app with templates, static files, errors in words, and the server that runs it."""

import asyncio
import contextlib
import functools
import hashlib
import importlib.resources
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import python_multipart  # noqa: F401  # which reading forms needs: said here, not when the first form comes
import uvicorn
from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from lookalike.core.errors import InputError, Option
from lookalike.core.version import __version__
from lookalike.web.guard import SAFE, Guard, RequestRefusedError, Tokens
from lookalike.web.protocol import BoundedProtocol

__all__ = ["Pages", "Sent", "add_frequent", "create_app", "listen", "read_form", "serve"]

LIMIT = 32_000_000  # bytes of a request: a photo of a good camera
TITLES = {
    401: "Your personal link is needed",
    403: "Not allowed",
    404: "Not here",
    405: "Not allowed",
    408: "Too slow",
    410: "No longer here",
    413: "Too large",
    422: "That does not work",
    429: "Too fast",
    503: "Not just now",
    507: "The disk is full",
}


class Pages:
    """Templates of this package, filled: whatever is put in is shown as text."""

    def __init__(self, **everywhere: Any) -> None:
        self.environment = Environment(
            loader=PackageLoader("lookalike.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.globals.update(static=static, tuple=tuple, version=__version__, **everywhere)

    def answer(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """A page that browsers ask for anew each time."""
        body = self.environment.get_template(template).render(values)
        return HTMLResponse(body, status, {"cache-control": "no-cache, private"})

    def problem(self, status: int, sentence: str, request: Any = None) -> HTMLResponse:
        """A page for what went wrong; within a page that is open already, a notice in it."""
        title = TITLES.get(status, "Something went wrong" if status >= 500 else "That does not work")
        answer = self.answer("problem.html", status=status, title=title, sentence=sentence)
        if request is not None and request.headers.get("hx-request") == "true":
            within = {"hx-retarget": "#notice", "hx-reselect": "#problem", "hx-reswap": "innerHTML"}
            answer.headers.update({**within, "hx-push-url": "false"})
        return answer


def create_app(
    pages: Pages,
    *,
    tokens: Tokens,
    hosts: Iterable[str] = (),
    limit: int = LIMIT,
    subject: Callable[[Request], str] = lambda _: "",
    running: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> FastAPI:
    """An app without pages of its own, guarded: whatever is added to it can be posted to from its own pages only.

    hosts: names that it answers to beside those of the loopback. subject: whom a request's token must have been made
    for, such as its session. running: entered while the app runs.
    """

    async def proven(request: Request) -> None:
        if request.method in SAFE:
            return
        token = request.headers.get("x-csrf-token") or (await read_form(request)).get("csrf")
        if not tokens.right(token, subject(request)):
            raise RequestRefusedError(
                403, "This page is from before the server was started anew. Load it again, then repeat."
            )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with running():
            yield

    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # which would send a secret address, once more, by plain http
        dependencies=[Depends(proven)],
        lifespan=lifespan,
        debug=False,
    )
    app.state.proven = proven
    app.mount("/static", _Static(packages=[("lookalike.web", "static")]), name="static")

    def refused(refusal: RequestRefusedError, scope: Any) -> Response:
        return pages.problem(refusal.status, refusal.sentence, Request(scope))

    def unknown(request: Request, error: Any) -> Response:
        sentences = {404: "There is no such page.", 405: "This page takes no such request."}
        sentence = sentences.get(error.status_code, str(error.detail))
        return pages.problem(error.status_code, sentence, request)

    def unfit(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        return pages.problem(422, f"The address has a wrong {first['loc'][-1]}: {first['msg']}.", request)

    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_middleware(Guard, hosts=hosts, limit=limit, refuse=refused)
    return app


def add_frequent(app: FastAPI, path: str, act: Callable[[Request], Awaitable[Response]]) -> None:
    """Answer what is posted to a path, proven like everything else, but without FastAPI's reading of parameters.

    That reading takes half of the time of a small request.
    """

    async def answered(request: Request) -> Response:
        await app.state.proven(request)
        return await act(request)

    app.router.routes.append(Route(path, answered, methods=["POST"]))


@dataclass(frozen=True)
class Sent:
    """A file that a form sent."""

    name: str
    body: bytes


async def read_form(request: Request) -> dict[str, str | Sent]:
    """What a form sent, read once and held in memory alone."""
    form_before: dict[str, str | Sent] | None = getattr(request.state, "form", None)
    if form_before is not None:
        return form_before
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise RequestRefusedError(422, "A form was expected, of the kind multipart/form-data.")
    body = await request.body()

    async def whole() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        form = await _InMemory(request.headers, whole(), max_files=1, max_fields=100).parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise RequestRefusedError(422, "What was sent is not a whole form.") from error
    try:
        fields = {
            name: value if isinstance(value, str) else Sent(value.filename or "", await value.read())
            for name, value in form.multi_items()
        }
    finally:
        await form.close()
    for name, value in fields.items():
        try:
            "".join([name, value if isinstance(value, str) else value.name]).encode()
        except UnicodeEncodeError as error:
            raise RequestRefusedError(422, "What was sent is not text.") from error
    request.state.form = fields
    return fields


class _InMemory(MultiPartParser):
    """Files that were sent are not written to disk."""

    spool_max_size = 2**40


@functools.cache
def static(name: str) -> str:
    """The address of a static file, which is another one when its contents are."""
    contents = importlib.resources.files("lookalike.web").joinpath("static", name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(contents).hexdigest()[:12]}"


class _Static(StaticFiles):
    """Files that browsers keep when they were asked for by version."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        answer = super().file_response(*args, **options)
        answer.headers["cache-control"] = "no-cache"
        scope = args[2] if len(args) > 2 else options["scope"]
        if b"v=" in scope.get("query_string", b""):
            answer.headers["cache-control"] = "public, max-age=31536000, immutable"
        return answer


def listen(host: str, port: int) -> socket.socket:
    """A socket that browsers can connect to from now on; port 0 takes any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except socket.gaierror as error:
        raise InputError(f"there is no host {host!r} on this machine: use 127.0.0.1, or an address it has") from error
    except OverflowError as error:
        raise InputError(f"a port is from 0 to 65535, got {port}") from error
    try:
        listening = socket.create_server((host, port), family=family)
    except PermissionError as error:
        message = f"port {port} may not be used by you: choose one from 1024, such as "
        raise InputError(message, Option("port", 8000), parameter="port", value=port) from error
    except OSError as error:
        message = f"port {port} of {host} cannot be used, {error.strerror}: choose another "
        raise InputError(message, Option("port"), ", or 0", parameter="port", value=port) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an answer does not wait until its head is taken
    return listening


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve an app until the process is told to stop, by a signal that then does what it does."""
    settings = uvicorn.Config(
        app,
        http=BoundedProtocol,
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    logging.getLogger("uvicorn.error").addFilter(_tells)
    uvicorn.Server(settings).run(sockets=[listening])


def _tells(record: logging.LogRecord) -> bool:
    """Whether a record is news: not that a request was still being answered when the server was told to stop."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
