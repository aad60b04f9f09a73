"""An object store in a process of its own, and a proxy before it that fails. Both listen on this machine alone."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from helpers.processes import LOOPBACK, Process, path_of_workers, wait_for

KEY, SECRET = "AKIAOFTHETESTS", "vErYsEcReT0fTheTests"
BUCKET = "shop"


def serve_store() -> None:
    """Serve an object store, and say where."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=LOOPBACK, port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"{host}:{port}\n")
    sys.stdout.flush()
    threading.Event().wait(3600)  # where nobody ends it


class Store:
    """A server that speaks S3 in a process of its own, with one bucket."""

    def __init__(self, folder: Path, *, knows_nobody: bool = False) -> None:
        """knows_nobody: once it has its bucket, it refuses all keys."""
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"PYTHONPATH": path_of_workers()}
        if knows_nobody:
            settings["INITIAL_NO_AUTH_ACTION_COUNT"] = "1"
        self._process = Process([sys.executable, "-m", "helpers.object_store"], folder / "store.log", **settings)
        try:
            lines = wait_for("a store", lambda: [line for line in self._process.said.splitlines(True) if "\n" in line])
            self.host, port = lines[-1].strip().split(":")
            self.port = int(port)
            self.ask("PUT", f"/{BUCKET}")
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def ask(self, method: str, path: str) -> bytes:
        """Something asked past the library."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(self.address + path, method=method), timeout=30) as answer:
            return bytes(answer.read())

    def close(self) -> None:
        self._process.kill()


def surroundings(address: str) -> dict[str, str]:
    """The environment in which an object store is found."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@dataclass
class Faults:
    """What a proxy does to requests: how, to which, and how many times for each method and file."""

    how: str | int  # "close", "cut", or a status
    times: float
    methods: tuple[str, ...] = ("GET", "HEAD", "PUT", "POST")
    within: str = ""  # of the path
    code: str = "SlowDown"  # what the body says
    done: Counter[tuple[str, str]] = field(default_factory=Counter)

    def strike(self, method: str, path: str) -> bool:
        """Whether this request fails."""
        file = path.partition("?")[0]
        if method not in self.methods or self.within not in file or self.done[method, file] >= self.times:
            return False
        self.done[method, file] += 1
        return True


class Proxy:
    """Passes requests on to a store, apart from those that fail."""

    def __init__(self, store: Store) -> None:
        self.faults: Faults | None = None
        self.asked: list[tuple[str, str]] = []  # methods and paths
        proxy, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None:
                pass

            def _body(self) -> bytes:
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length", 0)))
                pieces = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(pieces)

            def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, cut: bool = False) -> None:
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if cut else body)
                if cut:
                    self._hang_up()

            def _hang_up(self) -> None:
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

            def _pass(self) -> None:
                body = self._body()
                with lock:
                    proxy.asked.append((self.command, self.path))
                    faults = proxy.faults
                    struck = faults is not None and faults.strike(self.command, self.path)
                if struck and faults is not None and faults.how != "cut":
                    if faults.how == "close":
                        self._hang_up()
                        return
                    text = f"<?xml version='1.0'?><Error><Code>{faults.code}</Code><Message>no</Message></Error>"
                    content = b"" if self.command == "HEAD" else text.encode()
                    kind = [("content-type", "application/xml"), ("content-length", str(len(content)))]
                    self._answer(int(faults.how), kind, content)
                    return
                left_out = ("transfer-encoding", "content-length", "expect", "connection", "date", "server")
                connection = http.client.HTTPConnection(store.host, store.port, timeout=30)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
                    sized = {"content-length": str(len(body))} if self.command in ("PUT", "POST") else {}
                    connection.request(self.command, self.path, body or None, headers | sized)
                    answer = connection.getresponse()
                    content = answer.read()
                finally:
                    connection.close()
                length = answer.getheader("content-length") if self.command == "HEAD" else str(len(content))
                kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in left_out]
                self._answer(answer.status, [*kept, ("content-length", length or "0")], content, cut=struck)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Nothing: those who ask may hang up."""

        self._server = Quiet((LOOPBACK, 0), Handler)
        self.address = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @contextlib.contextmanager
    def failing(self, faults: Faults) -> Iterator[Faults]:
        """Fail like this until the block ends."""
        self.faults = faults
        try:
            yield faults
        finally:
            self.faults = None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    serve_store()
