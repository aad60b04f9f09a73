"""Faults are real: processes are killed, the server is crashed and started, disks are full."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from helpers import judges
from helpers.benches import NOW, PEOPLE, Bench, assert_acknowledged, assert_exactly, say, voters, wait_for
from helpers.judges import Server, judge, make_study, process_of, rows_printed
from lookalike.core.errors import FileError
from lookalike.judging.store.types import StoreAwayError, StoreFullError
from lookalike.study.study import Study

# Faults


@pytest.mark.parametrize("limit", ["space", "size"])
def test_a_full_disk_is_told_and_the_store_goes_on(tmp_path: Path, template: Path, limit: str) -> None:
    """space: a small file system of its own, where this machine lets one be made; size: files that may not grow."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = str(Path(judges.__file__))
    mount = f"mount -t tmpfs -o size=4m none {disk} && cp -r {template} {disk}/study"
    inside = ["unshare", "-rm", "sh", "-c"]
    if limit == "space" and subprocess.run([*inside, mount], capture_output=True).returncode == 0:
        command = [*inside, f"{mount} && exec {sys.executable} {script} space {disk}/study ''"]
    else:
        shutil.copytree(template, disk / "study")
        command = [sys.executable, script, "size", str(disk / "study"), ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    sentence, kept, reading, after, at_end, wrong = json.loads(done.stdout)
    assert "is full: nothing was kept; make space, and it goes on" in sentence
    assert reading == kept > 0
    assert after == ["kept"]
    assert (at_end, wrong) == (kept + 1, [])


def test_a_server_whose_disk_is_full(tmp_path: Path, template: Path, server: Server) -> None:
    """The server itself says so, with its own code for it, when a row is written."""
    shutil.copytree(template, tmp_path / "study")
    bench = Bench(Study.open(tmp_path / "study"), server.new_database(), server)
    store = bench.ready(people=("ann",))
    (task,) = store.claim("ann", 1, NOW)
    bench.run(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
    )
    bench.run("CREATE TRIGGER full_disk BEFORE INSERT ON votes FOR EACH ROW EXECUTE FUNCTION full_disk()")
    with pytest.raises(StoreFullError, match="the disk of the database is full: nothing was kept; make space"):
        store.vote("ann", [say(task)], NOW)
    assert store.claim("ann", 1, NOW) == [task]
    bench.run("DROP TRIGGER full_disk ON votes")
    assert store.vote("ann", [say(task)], NOW) == ["kept"]
    bench.close()


def test_a_server_that_crashes_in_the_midst_of_work(tmp_path: Path, template: Path, server: Server) -> None:
    study = make_study(tmp_path / "large", n_queries=20, n_items=60, k=8)
    bench = Bench(study, server.new_database(), server)
    store = bench.ready(each=2, patience=120)
    acknowledged: list[Any] = []
    threads = [threading.Thread(target=judge, args=(store, expert, acknowledged)) for expert in PEOPLE]
    for thread in threads:
        thread.start()
    for _ in range(3):
        before = len(acknowledged)
        wait_for(
            lambda before=before: len(acknowledged) > before + 20 or not any(map(threading.Thread.is_alive, threads))
        )
        server.crash()
        time.sleep(0.3)
        server.start()
    for thread in threads:
        thread.join()
    assert_acknowledged(bench, acknowledged)
    assert len(acknowledged) == len(store.votes()) == 2 * len(study.pool())
    assert_exactly(store, study.pool().pairs, 2)
    bench.close()


def test_a_server_that_stays_away_is_told_in_time(tmp_path: Path, template: Path, server: Server) -> None:
    shutil.copytree(template, tmp_path / "study")
    bench = Bench(Study.open(tmp_path / "study"), server.new_database(), server)
    bench.ready(people=("ann",))
    store = bench.open(patience=1.0)
    (task,) = store.claim("ann", 1, NOW)
    server.crash()
    try:
        for call, patience in (
            (lambda: store.vote("ann", [say(task)], NOW), 1.0),
            (lambda: store.vote("ann", [say(task)], NOW), 0.0),  # given up on: not waited for again
            (lambda: store.expert("ann"), 0.0),
            (lambda: store.claim("ann", 1, NOW), 0.0),
        ):
            begun = time.monotonic()
            with pytest.raises(StoreAwayError, match="the database cannot be used now, PostgreSQL"):
                call()
            assert patience / 2 <= time.monotonic() - begun < patience + 5
    finally:
        server.start()
    assert store.claim("ann", 1, NOW) == [task]
    assert store.vote("ann", [say(task)], NOW) == ["kept"]
    assert len(store.votes()) == 1
    bench.close()


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("action", ["writing", "reading"])
def test_an_interrupt_within_a_statement_comes_through_as_itself(bench: Bench, action: str, nth: int) -> None:
    store = bench.ready()
    with store.database.reading() as connection:
        engine = connection.engine
    counted = itertools.count(1)

    def interrupt(*_: Any) -> None:  # by which the connection is lost, wherever in a statement Ctrl-C comes
        if next(counted) == nth:
            raise KeyboardInterrupt

    sa.event.listen(engine, "after_cursor_execute", interrupt)
    with pytest.raises(KeyboardInterrupt), getattr(store.database, action)() as connection:
        assert [connection.exec_driver_sql("SELECT 1") for _ in range(2)]
    sa.event.remove(engine, "after_cursor_execute", interrupt)
    assert store.vote("ann", [say(task) for task in store.claim("ann", 3)]) == ["kept"] * 3
    assert len(store.votes()) == 3


def test_a_file_that_is_gone_and_comes_back(tmp_path: Path, template: Path) -> None:
    shutil.copytree(template, tmp_path / "study")
    bench = Bench(Study.open(tmp_path / "study"), None, None)  # type: ignore[arg-type]
    bench.ready(people=("ann",))
    bench.close()
    store = bench.open(patience=0.1)
    (task,) = store.claim("ann", 1, NOW)
    file, aside = bench.study.path / "votes.sqlite", bench.study.path / "aside.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.rename(aside)
    with pytest.raises(StoreAwayError, match=r"the file .*votes.sqlite is gone: put it back"):
        store.vote("ann", [say(task)], NOW)
    assert not file.exists()
    aside.rename(file)
    assert store.vote("ann", [say(task)], NOW) == ["kept"]
    assert len(bench.study.votes()) == 1
    bench.close()


def test_a_writer_that_does_not_end_is_told(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lookalike.judging.store import databases

    shutil.copytree(template, tmp_path / "study")
    bench = Bench(Study.open(tmp_path / "study"), None, None)  # type: ignore[arg-type]
    bench.ready(people=("ann",))
    monkeypatch.setattr(databases, "WAIT", 0.2)
    store = bench.open(patience=0)
    told = pytest.raises(StoreAwayError, match=r"another process is writing to .*study and does not end")
    with databases.Turnstile(bench.study.path / "judging"), told:
        store.claim("ann", 1, NOW)
    assert store.claim("ann", 1, NOW)
    with contextlib.closing(sqlite3.connect(bench.study.path / "votes.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreAwayError, match="cannot be used now: database is locked"):
            store.claim("ann", 2, NOW)
        other.execute("ROLLBACK")
    assert len(store.claim("ann", 2, NOW)) == 2
    bench.close()


def test_killed_processes_lose_no_acknowledged_vote(bench: Bench, tmp_path: Path) -> None:
    study = make_study(tmp_path / "large", n_queries=150, n_items=200, k=20)
    made = Bench(study, bench.server.new_database() if bench.on_postgres else None, bench.server)
    store = made.ready(each=3)
    acknowledged: list[tuple[Any, ...]] = []
    generator = np.random.default_rng(0)
    for _ in range(4):
        running = process_of(study, made.where, list(PEOPLE))
        with running as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(int(generator.integers(1, 60)))]
            time.sleep(float(generator.uniform(0, 0.05)))
            process.kill()
            lines.append(process.stdout.read())
        assert running.returncode == -9, "it had not ended"
        acknowledged += rows_printed("".join(lines))
        assert_acknowledged(made, acknowledged)
        assert store.check() == []
    assert len(acknowledged) > 50
    assert max(map(len, voters(store).values())) <= 3
    (task, *_) = store.claim("ann", 1)
    assert store.vote("ann", [say(task)]) == ["kept"]
    made.close()


def test_a_process_killed_before_its_commit_leaves_nothing(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    running = process_of(bench.study, bench.where, ["ann"], "die")
    running.communicate(timeout=60)
    assert running.returncode == -9
    assert store.check() == []
    assert len(store.votes()) == 0
    (task,) = store.claim("ann", 1)
    assert store.claim("bob", 1) == []
    assert store.vote("ann", [say(task, 1, "never")]) == ["kept"]


def test_a_lock_that_cannot_be_opened_is_told_each_time(tmp_path: Path) -> None:
    from lookalike.judging.store import databases

    (tmp_path / "judging" / "write.lock").mkdir(parents=True)
    turnstile = databases.Turnstile(tmp_path / "judging")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        with pytest.raises(IsADirectoryError), turnstile:
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_database_about_which_sqlite_has_no_text_is_damaged(tmp_path: Path) -> None:
    from lookalike.discovery.vote_log import create_record
    from lookalike.judging.store.databases import SQLite

    path = tmp_path / "votes.sqlite"
    create_record(path)
    content = path.read_bytes()
    assert b"CREATE TABLE votes" in content
    path.write_bytes(content.replace(b"CREATE TABLE votes", b"CREATE \xff\xfeBLE votes"))
    with pytest.raises(FileError, match=r"votes\.sqlite is damaged"), SQLite(path, tmp_path / "locks").writing():
        pass
