"""HTTP as it arrives: request lines, headers and trailers of bounded length, in bounded time."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

__all__ = ["BoundedProtocol"]

MOST_BYTES = 64_000  # of a request without its body: its first line, headers and trailers
MOST_FIELDS = 100  # headers and trailers of a request
MOST_AHEAD = 20  # requests that wait on one connection until those before them are answered
PATIENCE = 30.0  # seconds until a request has said what it wants
PARTING = 2.0  # seconds for a client to stop sending and to read why it was refused
SLICE = 16_000  # bytes that are read at a time: by so many a count may be wrong

TOO_MUCH = (
    f"The address and headers of this request are too large: at most {MOST_BYTES // 1000} kB and "
    f"{MOST_FIELDS} headers can be sent. Delete the cookies of this site, or shorten the address."
)


class _RefusedError(Exception):
    """Stops the parser."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which by itself collects headers of any size before an app sees the request.

    A request whose headers are too large is answered with 431 and one sentence, and the connection is closed. A
    connection on which no request begins in time, or on which too many are sent ahead, is closed without an answer.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._n_bytes, self._n_fields = 0, 0  # of this request, as the parser has told them
        self._in_head = False  # whether a request has begun whose headers are not complete
        self._silent = 0  # bytes since the parser told of a request or of a body: it may hold them all
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._close_after(PATIENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), SLICE):
            if self._refused or self.transport.is_closing():
                return  # what is still sent is thrown away
            part = data[start : start + SLICE]
            self._silent += len(part)
            super().data_received(part)
            if self._silent > MOST_BYTES and not self._refused:
                self._refuse()

    # What the parser tells

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._n_bytes = self._n_fields = self._silent = 0
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self._count(len(url), 0)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4, 1)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_AHEAD:
            self._stop()
        self._in_head = False
        self._forget_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._silent = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():  # nothing is left to answer
            self._close_after(PATIENCE)

    def _count(self, n_bytes: int, n_fields: int) -> None:
        self._n_bytes += n_bytes
        self._n_fields += n_fields
        if self._n_bytes > MOST_BYTES or self._n_fields > MOST_FIELDS:
            self._stop()

    # What is refused

    def _stop(self) -> None:
        """Refuse, from within the parser, which stops by an error; uvicorn then answers by `send_400_response`."""
        self._refuse()
        raise _RefusedError

    def send_400_response(self, msg: str) -> None:
        if not self._refused:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        """Close, and where a client waits for the answer to this request and no other, say why."""
        self._refused = True
        if not self._in_head or (self.cycle is not None and not self.cycle.response_complete):
            self.transport.close()
            return
        head = (
            b"content-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(TOO_MUCH)
        )
        self.transport.write(STATUS_LINE[431] + head + TOO_MUCH.encode())
        self._close_after(PARTING)  # closed at once, with bytes unread, the client would see an error instead

    def _close_after(self, seconds: float) -> None:
        self._forget_timer()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
