"""The judging app as processes: one that serves, or several workers on one port and a parent that watches them."""

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from lookalike.core.errors import LookalikeError
from lookalike.judging.pages.app import create_judge_app
from lookalike.judging.pages.links import Keys
from lookalike.judging.store.store import Store
from lookalike.study.study import Study
from lookalike.web.server import serve

__all__ = ["Service", "Workers"]

SOON = 5.0  # seconds: a worker that ends sooner than this cannot have served
CANNOT = 2  # the exit code of a worker that has said why it cannot serve
TRIES = 3  # workers in a row that may end so soon
LOOK = 0.1  # seconds between two looks at the workers

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """What a process serves. hosts: names it answers to. secure: whether browsers come by https alone."""

    study: str
    database: str | None = None  # the URL of one, or None for the study's own file
    hosts: tuple[str, ...] = ()
    secure: bool = False

    def run(self, listening: socket.socket) -> None:
        """Serve in this process, until it is told to stop by a signal that then does what it does."""
        study = Study.open(Path(self.study))
        with Store.open(self.database or study.path / "votes.sqlite", study) as store:
            serve(create_judge_app(study, store, Keys.of(study.path), hosts=self.hosts, secure=self.secure), listening)


class Workers:
    """Processes that serve one port together; those that end are started again, and all end with this one."""

    def __init__(self, service: Service, listening: socket.socket, n: int) -> None:
        self._service, self._listening = service, listening
        self._workers = [self._start() for _ in range(n)]
        self._short_lives = 0

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [worker.process.pid for worker in self._workers]

    def watch(self) -> None:
        """Start workers again that end, until this process is told to stop; raises when they end at once."""
        while True:
            time.sleep(LOOK)
            for number, worker in enumerate(self._workers):
                if (code := worker.process.poll()) is not None:
                    self._again(number, worker, code)

    def _again(self, number: int, worker: "_Worker", code: int) -> None:
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        failed = code == CANNOT or time.monotonic() - worker.started < SOON
        self._short_lives = self._short_lives + 1 if failed else 0
        if self._short_lives >= TRIES:
            raise ChildProcessError(f"workers end as soon as they are started, the last by {cause}")
        logger.warning("a worker has ended, %s: started again", cause)
        self._workers[number] = self._start()

    def _start(self) -> "_Worker":
        """Start a worker; its standard input is a pipe that ends when this process does, however that happens.

        What it serves is written there too: arguments could be read by everybody on the machine, a password with them.
        """
        handle = self._listening.fileno()
        process = subprocess.Popen(  # noqa: S603  # this program itself
            [sys.executable, "-m", __name__, str(handle)],
            stdin=subprocess.PIPE,
            pass_fds=(handle,),
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(self._service)).encode() + b"\n")
        process.stdin.flush()
        return _Worker(process, time.monotonic())

    def stop(self) -> None:
        """End all workers, when they have answered what they were asked."""
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.process.terminate()
        for worker in self._workers:
            worker.process.communicate()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


@dataclass(frozen=True)
class _Worker:
    process: subprocess.Popen[bytes]
    started: float


def _first_line() -> bytes:
    """The first line that the parent writes: what to serve, as JSON."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 65_536)
        if not more:
            sys.exit(CANNOT)  # it is gone already
        line += more
    return line


def _end_with_parent() -> None:
    """Stop this process when its standard input ends, which the parent holds."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(handle: str) -> None:
    """Run as a worker."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    service = json.loads(_first_line())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with socket.socket(fileno=int(handle)) as listening:
            Service(service["study"], service["database"], tuple(service["hosts"]), service["secure"]).run(listening)
    except KeyboardInterrupt:  # Ctrl-C in a terminal goes to workers too
        pass
    except (LookalikeError, OSError) as error:
        logger.error("%s", error)  # a sentence; whoever serves can do something about it
        sys.exit(CANNOT)


if __name__ == "__main__":
    main(*sys.argv[1:])
