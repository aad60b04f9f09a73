"""Requests as bytes on a socket, to a server in a process of its own: whatever arrives, little of it is held."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from lookalike.web.guard import Tokens
from lookalike.web.protocol import MOST_AHEAD, MOST_BYTES, MOST_FIELDS

SERVER = """
import contextlib
from fastapi import FastAPI, Request
from lookalike.web import protocol
from lookalike.web.server import listen, serve

protocol.PATIENCE = {patience}
app = FastAPI()

@app.get("/")
async def first(request: Request):
    return dict(n_headers=len(request.headers.raw), n_query=len(request.url.query))

@app.post("/")
async def sent(request: Request):
    return dict(n_bytes=len(await request.body()))

with contextlib.suppress(KeyboardInterrupt), listen("127.0.0.1", 0) as listening:
    print(listening.getsockname()[1], flush=True)
    serve(app, listening)
"""
GUARDED = """
import contextlib
from fastapi import Request
from lookalike.web import guard
from lookalike.web import server

guard.PATIENCE, guard.LONGEST, guard.MOST_HELD = {patience}, {longest}, 50_000
app = server.create_app(server.Pages(), tokens=guard.Tokens(b"key"), limit=64_000)

@app.post("/")
async def sent(request: Request):
    return dict(n_bytes=len(await request.body()))

with contextlib.suppress(KeyboardInterrupt), server.listen("127.0.0.1", 0) as listening:
    print(listening.getsockname()[1], flush=True)
    server.serve(app, listening)
"""
GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
LAST = GET + b"Connection: close\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nX-CSRF-Token: %s\r\n" % Tokens(b"key").make().encode()
LARGE = 20_000_000


@dataclass(frozen=True)
class Served:
    port: int
    pid: int

    def asked(self, parts: Iterable[bytes]) -> bytes:
        """All that the server answers, until it closes the connection; it may do so before everything is sent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    connection.sendall(part)
            answer = b""
            with contextlib.suppress(ConnectionError):
                while more := connection.recv(65_536):
                    answer += more
                    if answer.startswith(b"HTTP/1.1 431 "):
                        connection.shutdown(socket.SHUT_WR)  # or the server would wait a little for it to end
            return answer

    def most_memory(self) -> int:
        """MB that the server has held at most; 0 where the system does not tell."""
        status = Path(f"/proc/{self.pid}/status")
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
        return int(found[1]) // 1000 if found else 0


@contextlib.contextmanager
def started(code: str, **settings: float) -> Iterator[Served]:
    code = textwrap.dedent(code).format(**settings)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Served(int(process.stdout.readline()), process.pid)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with started(SERVER, patience=600.0) as served:
        yield served


@pytest.fixture(scope="module")
def impatient() -> Iterator[Served]:
    with started(SERVER, patience=0.3) as served:
        yield served


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with started(GUARDED, patience=1.0, longest=600.0) as served:
        yield served


@pytest.fixture(scope="module")
def hurried() -> Iterator[Served]:
    with started(GUARDED, patience=600.0, longest=1.0) as served:
        yield served


def again(part: bytes, n_bytes: int = LARGE) -> Iterator[bytes]:
    """Bytes once more and once more, a good piece at a time."""
    piece = part * (50_000 // len(part))
    for _ in range(n_bytes // len(piece)):
        yield piece


HEADS = {
    "many headers": (GET, b"name: value\r\n", LAST),
    "empty headers": (GET, b"a:\r\n", LAST),
    "one value": (GET + b"name: ", b"a", b"\r\n\r\n"),
    "one name": (GET, b"a", b": value\r\n\r\n"),
    "folded lines": (GET + b"name: a\r\n", b" a\r\n", b"\r\n\r\n"),
    "an address": (b"GET /?", b"a", b" HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a method": (b"", b"A", b" / HTTP/1.1\r\nHost: a\r\n\r\n"),
}
TAILS = {
    "trailers": (CHUNKED + b"0\r\n", b"name: value\r\n", b"\r\n"),
    "one trailer": (CHUNKED + b"0\r\nname: ", b"a", b"\r\n\r\n"),
    "an extension of a chunk": (CHUNKED + b"3;name=", b"a", b"\r\nabc\r\n0\r\n\r\n"),
    "empty lines": (b"", b"\r\n", LAST),
}


@pytest.mark.parametrize("kind", HEADS)
def test_headers_of_any_size_are_refused_as_they_arrive(server: Served, kind: str) -> None:
    first, repeated, last = HEADS[kind]
    before = server.most_memory()
    answer = server.asked([first, *again(repeated), last])
    assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
    if kind not in ("folded lines", "a method"):  # which the parser does not know
        head, _, words = answer.partition(b"\r\n\r\n")
        assert b"431" in head
        assert b"connection: close" in head
        assert words.startswith(b"The address and headers of this request are too large: at most 64 kB and 100 headers")
        assert f"content-length: {len(words)}\r\n".encode() in head + b"\r\n"
    assert server.most_memory() - before < 10


@pytest.mark.parametrize("kind", TAILS)
def test_what_comes_beside_a_body_is_bounded_too(server: Served, kind: str) -> None:
    first, repeated, last = TAILS[kind]
    before = server.most_memory()
    assert server.asked([first, *again(repeated), last]) == b""
    assert server.most_memory() - before < 10


def test_requests_that_are_sent_ahead_are_bounded(server: Served) -> None:
    before = server.most_memory()
    server.asked(again(GET + b"\r\n", 2_000_000))
    assert server.most_memory() - before < 10
    few = server.asked([(GET + b"\r\n") * MOST_AHEAD + LAST])
    assert few.count(b"HTTP/1.1 200 OK") == MOST_AHEAD + 1


def test_what_is_within_the_bounds_is_answered(server: Served) -> None:
    fields = b"".join(b"name-%d: %s\r\n" % (n, b"v" * 500) for n in range(MOST_FIELDS - 2))  # beside two of LAST
    whole = fields.join([GET, LAST.removeprefix(GET)])
    assert b'"n_headers":100,' in server.asked([whole])
    assert b'"n_headers":100,' in server.asked(whole[n : n + 1_000] for n in range(0, len(whole), 1_000))
    assert server.asked([GET + b"one: more\r\n", fields, b"Connection: close\r\n\r\n"]).startswith(b"HTTP/1.1 431 ")
    long = b"GET /?" + b"a" * (MOST_BYTES - 1_000) + LAST.removeprefix(b"GET /")
    assert f'"n_query":{MOST_BYTES - 1_000}'.encode() in server.asked([long])


def test_a_body_is_no_header(server: Served) -> None:
    """However it is cut, and whatever follows it on the same connection."""
    body = b"b" * 3_000_000
    plain = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + body
    few = b"".join(b"5\r\nabcde\r\n" for _ in range(40_000))
    chunked = CHUNKED + few + b"2dc6c0\r\n" + body + b"\r\n0\r\ntrailer: short\r\n\r\n"
    answer = server.asked([plain, chunked, plain, LAST])
    assert re.findall(rb'"n_bytes":(\d+)', answer) == [b"3000000", b"3200003", b"3000000"]
    assert answer.endswith(b'{"n_headers":2,"n_query":0}')


BEGUN = [b"", b"\r\n", b"GET / HT", GET + b"name: a", GET + b"\r\n" + GET]


@pytest.mark.parametrize("begun", BEGUN)
def test_a_request_that_never_comes_is_not_waited_for(impatient: Served, begun: bytes) -> None:
    assert impatient.asked([begun]).count(b"HTTP/1.1 200 OK") == begun.count(b"\r\n\r\n")


def test_who_sends_slowly_is_not_waited_for_either(impatient: Served) -> None:
    """Each byte comes soon after the last; the server counts from the first."""
    sent = 0

    def slowly() -> Iterator[bytes]:
        nonlocal sent
        yield GET
        for _ in range(600):
            time.sleep(0.05)
            sent += 1
            yield b"a"

    assert impatient.asked(slowly()) == b""
    assert sent < 600


def whole(n_bytes: int, last: bytes = b"Connection: close\r\n") -> bytes:
    """A request that says how much it sends, and sends it."""
    return POST + last + b"Content-Length: %d\r\n\r\n" % n_bytes + b"b" * n_bytes


def chunked(n_bytes: int, last: bytes = b"Connection: close\r\n") -> bytes:
    """A request that does not say how much it sends, all of it in one piece."""
    body = b"%x\r\n" % n_bytes + b"b" * n_bytes + b"\r\n0\r\n\r\n"
    return POST + last + b"Transfer-Encoding: chunked\r\n\r\n" + body


@pytest.mark.parametrize("n_bytes", [64_001, 66_000, 200_000])
def test_a_last_piece_that_is_too_much_is_answered(guarded: Served, n_bytes: int) -> None:
    for request in (whole(n_bytes), chunked(n_bytes)):
        answer = guarded.asked([request])
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"at most 64 kB can be sent" in answer


def test_a_last_piece_that_is_too_much_with_those_of_others_is_answered(guarded: Served) -> None:
    for request in (whole(50_001), chunked(50_001)):
        answer = guarded.asked([request])
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Too much is being sent here" in answer


STALLED = [whole(10_000, b"")[:-10], chunked(10_000, b"")[:-10], chunked(10_000, b"")[:-2], whole(1, b"")[:-1]]


def test_a_body_that_stops_is_not_waited_for(guarded: Served) -> None:
    """And no longer counts among what is held, which would leave no room for the last."""
    with ThreadPoolExecutor(len(STALLED)) as threads:
        answers = list(threads.map(lambda request: guarded.asked([request]), STALLED))
    for answer in answers:
        head, _, page = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in head
        assert b"did not arrive" in page
    assert guarded.asked([whole(50_000)]).endswith(b'{"n_bytes":50000}')


def test_a_body_that_stops_after_it_was_refused_is_not_waited_for(guarded: Served) -> None:
    answer = guarded.asked([whole(70_000, b"")[:-10]])
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer


def test_a_body_may_come_slowly(guarded: Served) -> None:
    """It is longer under way than the server waits for a byte."""

    def slowly() -> Iterator[bytes]:
        yield whole(15)[:-15]
        for _ in range(15):
            time.sleep(0.1)
            yield b"b"

    assert guarded.asked(slowly()).endswith(b'{"n_bytes":15}')


def test_a_body_may_not_come_for_ever(hurried: Served) -> None:
    sent = 0

    def slowly() -> Iterator[bytes]:
        nonlocal sent
        yield whole(10_000)[:-9_000]
        for _ in range(600):
            time.sleep(0.05)
            sent += 1
            yield b"b"

    answer = hurried.asked(slowly())
    assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")  # lost where a byte came after it
    assert sent < 600
    assert hurried.asked([whole(50_000)]).endswith(b'{"n_bytes":50000}')
