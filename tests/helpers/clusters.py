"""Dask clusters of real processes, killed one by one. All listen on this machine alone.

Workers import this file: what they are to do is here, and so is what slows them down.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import lookalike as la
from helpers.galleries import by_label, collection, evaluated_in_shards
from helpers.processes import LOOPBACK, Process, path_of_workers, wait_for
from lookalike.shards.dask import connected
from lookalike.shards.gallery import ShardPart, Shards

GATE, READ = "LOOKALIKE_TEST_GATE", "LOOKALIKE_TEST_READ"  # files: how many shards may be read, and those that were
SCORED = ["AP", "nDCG@10", "LGAP@24"]


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
            facts = wait_for("a scheduler", lambda: about.exists() and about.read_text())
            self.address: str = json.loads(facts)["address"]
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
        workers = [self.add(**options) for _ in range(n)]
        for worker in workers:
            wait_for("a worker", lambda worker=worker: worker.times_registered > 0)
        return workers

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
    """On a worker, called by Dask as --preload says: note which shards are read, and read none too many."""
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
    """All installed packages, with lookalike in another version and without some of its modules, or without it."""
    folder.mkdir()
    for installed in {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}:
        for entry in installed.iterdir():
            if "lookalike" not in entry.name and entry.suffix != ".pth" and entry.name != "__pycache__":
                (folder / entry.name).symlink_to(entry)
    if version is not None:
        ignored = shutil.ignore_patterns("__pycache__", *without)
        shutil.copytree(Path(la.__file__).parent, folder / "lookalike", ignore=ignored)
        (folder / "lookalike" / "core" / "version.py").write_text(f"__version__ = {version!r}\n")
        about = folder / f"lookalike-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: lookalike\nVersion: {version}\n")
    return folder


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


def drive(address: str, where: str, partials: str) -> None:
    """Evaluate a collection of 64 bits on a cluster."""
    with connected(address) as client:
        how = {"client": client, "partials": partials}
        evaluated_in_shards(collection("64 bits"), Shards.open(where), by_label, SCORED, **how)


def driver(cluster: Cluster, where: Path, partials: Path) -> Process:
    """A process that does what `drive` does."""
    command = [sys.executable, "-m", "helpers.clusters", cluster.address, str(where), str(partials)]
    log = cluster.folder / f"driver-{len(cluster.processes)}.log"
    cluster.processes.append(Process(command, log, PYTHONPATH=path_of_workers()))
    return cluster.processes[-1]


if __name__ == "__main__":
    drive(*sys.argv[1:])
