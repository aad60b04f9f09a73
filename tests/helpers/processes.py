"""Processes and jobs beside a test: started, waited for so long and no longer, and killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import lookalike as la
from lookalike.core.progress import reporting

HERE = Path(__file__).parents[1]  # the folder of all tests
LOOPBACK = "127.0.0.1"
START = 120.0  # seconds that anything may take to start, on a machine that others use too


def wait_for(what: str, condition: Callable[[], Any], seconds: float = START) -> Any:
    """What a condition returns, once it is true; fails if that takes too long."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return value


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
