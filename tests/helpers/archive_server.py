"""A server of archives that cuts connections, refuses ranges, or answers with an error."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import sys
import threading
from collections.abc import Iterator
from typing import Any

from lookalike.datasets import download
from lookalike.datasets.download import Archive


class Server:
    """A server of one file that may cut connections and may not know ranges; it notes what it was asked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.ranges = True
        self.cuts: list[int] = []  # after how many bytes each answer ends, until the list is empty
        self.status = 200
        self.asked: list[str | None] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/file"

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.asked.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if self.status != 200 or (start and start >= len(self.content)):
            handler.send_error(self.status if self.status != 200 else 416)
            return
        body = self.content[start:]
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)

    def archive(self, name: str = "file.bin") -> Archive:
        digest = base64.b64encode(hashlib.sha512(self.content).digest()).decode()
        command = (sys.executable, "-c", f"print({self.url!r})")
        return Archive(name, command, download.has_digest(f"sha512-{digest}"))


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[Server]:
    server = Server(content)
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        thread.join()
        server.server.server_close()
