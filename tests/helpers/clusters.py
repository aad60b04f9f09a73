"""Dask clusters of real processes, killed one by one; galleries in memory and in shards; an object store that fails.

All listen on this machine alone. Workers import this file: what they are to do is here, and so is what slows them down.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import lookalike as la
from lookalike.core.progress import reporting
from lookalike.shards.dask import connected
from lookalike.shards.gallery import ShardPart, Shards
from lookalike.shards.writer import ShardWriter

HERE = Path(__file__).parents[1]  # the folder of all tests
LOOPBACK = "127.0.0.1"
START = 120.0  # seconds that anything may take to start, on a machine that others use too
GATE, READ = "LOOKALIKE_TEST_GATE", "LOOKALIKE_TEST_READ"  # files: how many shards may be read, and those that were


def wait_for(what: str, condition: Callable[[], Any], seconds: float = START) -> Any:
    """What a condition gives, once it is something; fails where that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return found


# Processes


class Process:
    """A process and its children, which it takes with it; what it says is in a file."""

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def address(self) -> str:
        """Of a worker."""
        return str(wait_for("a worker", lambda: re.search(r"Start worker at: +(\S+)", self.said))[1])

    @property
    def times_registered(self) -> int:
        """How many times a worker, or those of a nanny, came to a scheduler."""
        return self.said.count("Registered to:")

    def wait(self, seconds: float) -> int:
        """Its exit code; fails where it goes on for longer."""
        return self._process.wait(seconds)

    def kill(self) -> None:
        """End it and its children at once; nothing, where it has ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(START)

    def kill_child(self) -> None:
        """End the worker of a nanny, which starts another."""
        import psutil

        children = psutil.Process(self.pid).children()
        (worker,) = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        worker.kill()


def path_of_workers() -> str:
    """Where workers find this file, and the package that is tested."""
    return os.pathsep.join([str(HERE), str(Path(la.__file__).parents[1])])


class Cluster:
    """A scheduler and its workers, each a process: started and killed one by one.

    Workers note which shards they read, and read no more than is allowed: what is killed is killed at work.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._read, self._gate = folder, folder / "read.txt", folder / "gate.txt"
        self._read.touch()
        self.processes: list[Process] = []
        about = folder / "scheduler.json"
        options = ["--port", "0", "--scheduler-file", str(about), "--idle-timeout", "3600"]  # where nobody ends it
        self.scheduler = self._start("scheduler", options, **environment)
        self.workers: list[Process] = []
        try:
            said = wait_for("a scheduler", lambda: about.exists() and about.read_text())
            self.address: str = json.loads(said)["address"]
        except BaseException:
            self.close()
            raise

    def _start(self, kind: str, options: list[str], python: tuple[str, ...] = (), **environment: str) -> Process:
        command = [sys.executable, *python, "-m", "dask", kind, *options, "--host", LOOPBACK]
        command += ["--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0"]
        log = self.folder / f"{kind}-{len(self.processes)}.log"
        self.processes.append(Process(command, log, **{"PYTHONPATH": path_of_workers()} | environment))
        return self.processes[-1]

    def add(self, *, nanny: bool = False, packages: Path | None = None, **environment: str) -> Process:
        """Start a worker. packages: of `other_packages`, in place of those that are installed."""
        options = [self.address, "--nthreads", "1", "--memory-limit", "0", "--nanny" if nanny else "--no-nanny"]
        options += ["--local-directory", str(self.folder / "scratch")]
        if packages is None:
            options += ["--preload", "helpers.clusters"]
            files = {GATE: str(self._gate), READ: str(self._read)}
            self.workers.append(self._start("worker", options, **files, **environment))
        else:
            self.workers.append(self._start("worker", options, ("-S",), PYTHONPATH=str(packages), **environment))
        return self.workers[-1]

    def add_all(self, n: int, **options: Any) -> list[Process]:
        """Start some workers, and wait until the scheduler knows them."""
        found = [self.add(**options) for _ in range(n)]
        for worker in found:
            wait_for("a worker", lambda worker=worker: worker.times_registered > 0)
        return found

    def resize(self, n: int) -> None:
        """Have so many workers, starting or killing some."""
        while len(self.workers) > n:
            self.workers.pop().kill()
        self.add_all(n - len(self.workers))

    @property
    def read(self) -> list[int]:
        """The shards that workers have read, in this order."""
        return [int(line) for line in self._read.read_text().splitlines()]

    def wait_for_read(self, n: int) -> None:
        """Wait until so many shards have been read."""
        wait_for(f"{n} shards to be read", lambda: len(self.read) >= n)

    def allow(self, n: int | None) -> None:
        """Let workers read so many shards in all, and then wait; None: as many as they like."""
        if n is None:
            self._gate.unlink(missing_ok=True)
        else:
            written = self._gate.with_suffix(".new")
            written.write_text(str(n))
            written.replace(self._gate)

    @property
    def said(self) -> str:
        return "\n".join(process.said for process in self.processes)

    def close(self) -> None:
        for process in reversed(self.processes):  # the scheduler last: workers would look for it
            process.kill()


@contextlib.contextmanager
def cluster(
    folder: Path, n: int = 0, *, settings: Mapping[str, str] | None = None, **options: Any
) -> Iterator[Cluster]:
    """A cluster with so many workers, of which nothing is left at the end. settings: environment of the scheduler."""
    made = Cluster(folder, **settings or {})
    try:
        made.add_all(n, **options)
        yield made
    finally:
        made.close()


def dask_setup(worker: Any) -> None:
    """On a worker that was started with --preload helpers.clusters: note which shards are read, and read none too many."""
    gate, log, read = Path(os.environ[GATE]), Path(os.environ[READ]), Shards.read

    def may_go_on() -> bool:
        try:
            return len(log.read_text().splitlines()) < int(gate.read_text())
        except FileNotFoundError:
            return True

    def noted(self: Shards, number: int, columns: Any = ()) -> ShardPart:
        wait_for("leave to read", may_go_on)
        part = read(self, number, columns)
        with log.open("a") as file:
            file.write(f"{number}\n")
        return part

    Shards.read = noted  # type: ignore[method-assign]


def other_packages(folder: Path, version: str | None, *, without: tuple[str, ...] = ()) -> Path:
    """All packages that are installed here, with this one in another version, without some of its modules, or not."""
    folder.mkdir()
    for found in {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}:
        for entry in found.iterdir():
            if "lookalike" not in entry.name and entry.suffix != ".pth" and entry.name != "__pycache__":
                (folder / entry.name).symlink_to(entry)
    if version is not None:
        ignored = shutil.ignore_patterns("__pycache__", *without)
        shutil.copytree(Path(la.__file__).parent, folder / "lookalike", ignore=ignored)
        (folder / "lookalike" / "_version.py").write_text(f"__version__ = {version!r}\n")
        about = folder / f"lookalike-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: lookalike\nVersion: {version}\n")
    return folder


# Jobs


class Job:
    """Something that runs beside the test: how far it is, and what comes of it, waited for so long and no longer."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.done = 0
        self._outcome: Future[Any] = Future()
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[], Any]) -> None:
        def note(what: str, done: int, total: int) -> None:
            self.done += 1

        try:
            with reporting(note):
                self._outcome.set_result(work())
        except BaseException as error:
            self._outcome.set_exception(error)

    def wait_until(self, done: int, seconds: float = START) -> None:
        """Wait until so many steps are done."""
        wait_for(f"{done} steps", lambda: self.done >= done or self._outcome.done(), seconds)
        assert not self._outcome.done(), "the job has ended too soon for this test"

    @property
    def ended(self) -> bool:
        return self._outcome.done()

    def result(self, seconds: float = START) -> Any:
        """What came of it; raises its error, and TimeoutError where it goes on for longer."""
        return self._outcome.result(seconds)


@dataclass(frozen=True)
class Seen:
    """How many rows of each shard were seen."""

    rows: np.ndarray

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.rows + other.rows)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"rows": self.rows}, {}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Seen:
        return cls(**arrays)


@dataclass(frozen=True)
class Looking:
    """Work: look at each shard for a while."""

    n_shards: int
    pause: float = 0.0
    deadly: tuple[int, ...] = ()  # shards at which the worker dies
    ballast: bytes = b""
    digest: str = "looking"
    columns: tuple[str, ...] = ()
    blocks: tuple[slice, ...] = (slice(0, 1),)
    gives: ClassVar[type[Seen]] = Seen

    def do(self, part: ShardPart, block: slice) -> Seen:
        time.sleep(self.pause)
        if part.number in self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = np.zeros(self.n_shards, np.int64)
        rows[part.number] = len(part)
        return Seen(rows)


# Galleries


@dataclass(frozen=True)
class Collection:
    """Queries and a gallery, vectors and what is known of each, in memory."""

    queries: Any  # Codes or embeddings
    gallery: Any
    of_queries: Mapping[str, np.ndarray]
    of_items: Mapping[str, np.ndarray]

    def write(self, where: str | Path, rows: int) -> Shards:
        """The gallery in shards of so many rows."""
        codes = isinstance(self.gallery, la.Codes)
        vectors = {"codes": self.gallery.to_bytes()} if codes else {"embeddings": self.gallery}
        with ShardWriter(where, n_bits=self.gallery.n_bits if codes else None, rows=rows) as writer:
            writer.add({**vectors, **self.of_items})
        return Shards.open(where)


@functools.cache
def collection(kind: str, n_queries: int = 24, n_items: int = 230, seed: int = 0) -> Collection:
    """A collection of codes ("64 bits") or embeddings ("float32"), some of whose queries are items."""
    rng = np.random.default_rng(seed)
    n, (width, unit) = n_queries + n_items, (kind.split() if " " in kind else ("12", kind))
    labels = rng.integers(0, 5, n)
    centres = rng.normal(size=(5, int(width)))
    vectors = centres[labels] + 1.5 * rng.normal(size=(n, int(width)))
    vectors[n_queries : n_queries + n_queries // 2] = vectors[: n_queries // 2]
    known = {
        "ids": np.array([f"i{number:04}" for number in rng.permutation(n)]),
        "labels": labels,
        "groups": rng.integers(0, n // 4, n),
        "tags": (rng.random((n, 6)) < 0.3).astype(np.int64),
        "fine": labels * 3 + rng.integers(0, 3, n),
    }
    known["ids"][:n_queries] = known["ids"][n_queries : 2 * n_queries]  # for exclude="self"
    queries, items = slice(0, n_queries), slice(n_queries, n)
    found: tuple[Any, Any]
    if unit == "bits":
        found = la.Codes.pack(vectors[queries] > 0), la.Codes.pack(vectors[items] > 0)
    else:
        rounded = np.round(vectors, 1 if unit == "float64" else 8).astype(unit)
        found = rounded[queries], rounded[items]
    cut = [{name: values[part] for name, values in known.items()} for part in (queries, items)]
    return Collection(*found, *cut)


Asked = dict[str, Any]
Of = Mapping[str, Any]  # values by name: of a gallery in memory the values, of one in shards its columns


def by_label(queries: Of, items: Of, _: int) -> Asked:
    return {"relevance": la.same_label(queries["labels"], items["labels"])}


def by_tags(queries: Of, items: Of, _: int) -> Asked:
    return {"relevance": la.shared_tags(queries["tags"], items["tags"])}


def by_levels(queries: Of, items: Of, _: int) -> Asked:
    names = ("fine", "labels")
    both = (tuple(side[name] for name in names) for side in (queries, items))
    return {"relevance": la.hierarchy(*both)}


def by_grades(queries: Of, items: Of, n_items: int) -> Asked:
    matrix = np.random.default_rng(3).integers(0, 4, (len(queries["labels"]), n_items))
    return {"relevance": la.grades(matrix)}


def by_judgements(queries: Of, items: Of, n_items: int) -> Asked:
    rng = np.random.default_rng(4)
    n = len(queries["ids"])
    everything = sorted(f"i{number:04}" for number in range(n + n_items))  # and some that are in no gallery
    rows = {
        (str(query), str(item)): (str(query), str(item), int(rng.integers(0, 3)))
        for query in queries["ids"]
        for item in rng.choice(everything, 20)
    }
    return {"relevance": la.judged(list(rows.values())), "query_ids": queries["ids"], "gallery_ids": items["ids"]}


def without_groups(queries: Of, items: Of, n_items: int) -> Asked:
    return by_label(queries, items, n_items) | {"exclude": (queries["groups"], items["groups"])}


def without_self(queries: Of, items: Of, n_items: int) -> Asked:
    more = {"exclude": "self", "query_ids": queries["ids"], "gallery_ids": items["ids"]}
    return by_label(queries, items, n_items) | more


def evaluated(found: Collection, ask: Callable[[Of, Of, int], Asked], metrics: list[str], **how: Any) -> la.Evaluation:
    """The evaluation in memory."""
    asked = ask(found.of_queries, found.of_items, len(found.gallery))
    return la.evaluate(found.queries, found.gallery, asked.pop("relevance"), metrics, **asked, **how)


def evaluated_in_shards(
    found: Collection, shards: Shards, ask: Callable[[Of, Of, int], Asked], metrics: list[str], **how: Any
) -> la.Evaluation:
    """The evaluation of the same gallery in shards."""
    asked = ask(found.of_queries, shards, len(found.gallery))  # type: ignore[arg-type]  # it gives columns by name
    return la.evaluate(found.queries, shards, asked.pop("relevance"), metrics, **asked, **how)


def differences(one: la.Evaluation, other: la.Evaluation) -> list[str]:
    """Where two evaluations are not the same, bit for bit."""
    found = [] if np.array_equal(one.query_ids, other.query_ids) else ["query ids"]
    found += [] if list(map(str, one)) == list(map(str, other)) else ["metrics"]
    for metric in one:
        for kind in ("expected", "best", "worst"):
            values = [np.asarray(getattr(side[metric].values, kind)) for side in (one, other)]
            if values[0].dtype != values[1].dtype or not np.array_equal(*values, equal_nan=True):
                found.append(f"{kind} {metric}: {values[0][:3]} is not {values[1][:3]}")
    return found


# A driver that can be killed

SCORED = ["AP", "nDCG@10", "LGAP@24"]


def drive(address: str, where: str, partials: str) -> None:
    """Evaluate a collection of 64 bits on a cluster."""
    with connected(address) as client:
        how = {"client": client, "partials": partials}
        evaluated_in_shards(collection("64 bits"), Shards.open(where), by_label, SCORED, **how)


def driver(cluster: Cluster, where: Path, partials: Path) -> Process:
    """A process that does this."""
    command = [sys.executable, __file__, "drive", cluster.address, str(where), str(partials)]
    log = cluster.folder / f"driver-{len(cluster.processes)}.log"
    cluster.processes.append(Process(command, log, PYTHONPATH=path_of_workers()))
    return cluster.processes[-1]


# An object store, and a proxy before it that fails

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
        self._process = Process([sys.executable, __file__, "store"], folder / "store.log", **settings)
        try:
            said = wait_for("a store", lambda: [line for line in self._process.said.splitlines(True) if "\n" in line])
            self.host, port = said[-1].strip().split(":")
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
                import socket

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
                    said = b"" if self.command == "HEAD" else text.encode()
                    kind = [("content-type", "application/xml"), ("content-length", str(len(said)))]
                    self._answer(int(faults.how), kind, said)
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


def main(job: str, *arguments: str) -> None:
    {"drive": drive, "store": serve_store}[job](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
