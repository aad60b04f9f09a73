"""Clusters in which workers or schedulers die, differ, or meet bad shards: work goes on, or an error says what to do.

The cluster is real: scheduler and workers are processes of their own, which are killed while they work.
"""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.cluster_cases import (  # noqa: F401  # fixtures
    HASTE,
    LOCALLY,
    client,
    galleries,
    home,
    nothing_is_done_here,
    one_sentence,
    one_worker,
    shop,
    two_workers,
    whole_files,
)
from helpers.clusters import SCORED, Cluster, Looking, cluster, other_packages
from helpers.galleries import Collection, by_label, differences, evaluated, evaluated_in_shards
from helpers.processes import Job, Process, path_of_workers, wait_for
from lookalike.shards import dask, map_reduce
from lookalike.shards.dask import connected
from lookalike.shards.gallery import Shards
from lookalike.shards.map_reduce import gather
from lookalike.shards.storage import Location

pytestmark = pytest.mark.usefixtures("nothing_is_done_here")  # what is done here would let everything pass


# Workers that die


def go_on(made: Cluster, job: Job, n: int) -> None:
    """Let workers go on until so many shards are done; they then wait, in the middle of the next."""

    def done() -> bool:
        made.allow(len(made.read) + 1)
        return job.done >= n

    wait_for(f"{n} shards to be done", done)


def restarted(made: Cluster) -> int:
    """How many workers nannies have started again."""
    return sum(worker.said.count("Restarting worker") for worker in made.workers)


def test_nannies_whose_workers_are_killed(shop: tuple[Collection, Shards], tmp_path: Path) -> None:
    """Both at once, and one once more: there is no half of a partial, and what is there is right."""
    found, shards = shop
    expected = evaluated(found, by_label, SCORED)
    with cluster(tmp_path / "cluster", 2, nanny=True) as made, connected(made.address) as client:
        how = {"client": client, "partials": tmp_path / "partials"}
        made.allow(0)
        job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, **how))
        for times, killed in enumerate([made.workers, made.workers[:1]]):
            go_on(made, job, 10 * times + 4)
            for worker in killed:
                wait_for("a worker to be back", lambda worker=worker, n=times: worker.times_registered > n)
                worker.kill_child()
        assert not job.ended
        made.allow(None)
        assert differences(expected, job.result()) == []
        wait_for("the nannies to say so", lambda: restarted(made) >= 3)  # the job may end before they do
        assert restarted(made) == 3
        assert {*made.read} == {*range(len(shards.shards))}
        read = len(made.read)
        again = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, **how))
        assert differences(expected, again.result()) == []
        assert len(made.read) == read
    assert len(whole_files(tmp_path / "partials")) == len(shards.shards)


def test_workers_that_are_killed_and_replaced(shop: tuple[Collection, Shards], tmp_path: Path) -> None:
    """Counts of rows seen: a shard that was lost, or counted twice, would show."""
    shards = shop[1]
    with cluster(tmp_path, 2) as made, connected(made.address) as client:
        made.allow(0)
        job = Job(lambda: gather(shards.on(client), Looking(len(shards.shards)), threads=1))
        for number in range(5):
            go_on(made, job, 6 * number + 4)
            made.workers[number].kill()
            made.add()
        assert not job.ended
        made.allow(None)
        (seen,) = job.result()
    assert seen.rows.tolist() == [shard.rows for shard in shards.shards]


def test_a_shard_that_kills_every_worker(shop: tuple[Collection, Shards], tmp_path: Path) -> None:
    shards = shop[1]
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}  # deaths, and one more is too many
    with cluster(tmp_path, 2, settings=settings) as made, connected(made.address) as client:
        job = Job(lambda: gather(shards.on(client), Looking(len(shards.shards), deadly=(0,)), threads=1))
        with pytest.raises(ChildProcessError, match="died again and again") as caught:
            job.result()
        assert one_sentence(str(caught.value))
        made.add_all(1)
        (seen,) = Job(lambda: gather(shards.on(client), Looking(len(shards.shards)), threads=1)).result()
        assert seen.rows.sum() == len(shards)


# Schedulers that are not there, or no more


def reached(address: str) -> Job:
    """Connecting, beside the test: it must end by itself."""

    def connect() -> None:
        with connected(address):
            pass

    return Job(connect)


@two_workers
def test_workers_are_there_while_a_client_looks_for_news(client: Any) -> None:
    """What it knows of the scheduler is then, for a moment, without workers."""
    looking = True

    async def look() -> None:
        while looking:
            await client._update_scheduler_info()

    client.loop.add_callback(look)
    try:
        for _ in range(100):
            dask.check_workers(client)
    finally:
        looking = False


def test_a_scheduler_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is there; and where someone is, but says nothing: as a dashboard does, asked in a scheduler's words."""
    import distributed  # noqa: F401  # before the clock starts

    assert dask.REACHED <= 8  # who asks is promised an answer within ten seconds
    monkeypatch.setattr(dask, "REACHED", 2.0)
    with socket.socket() as closed, socket.socket() as silent:
        for bound in (closed, silent):
            bound.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        addresses = [f"tcp://127.0.0.1:{bound.getsockname()[1]}" for bound in (closed, silent)]
        jobs = [reached(address) for address in addresses]
        for address, job in zip(addresses, jobs, strict=True):
            with pytest.raises(ConnectionError, match=re.escape(address)) as caught:
                job.result(HASTE)
            assert one_sentence(str(caught.value))
            assert time.monotonic() - start < 10


@pytest.mark.parametrize("address", ["nonsense://127.0.0.1:1", "127.0.0.1", "tcp://127.0.0.1", "", "tls://127.0.0.1:1"])
def test_an_address_that_is_none(address: str) -> None:
    """Said at once; and nothing is left behind that fails when it is collected."""
    import distributed  # noqa: F401  # before the clock starts

    start = time.monotonic()
    with pytest.raises((ConnectionError, ValueError), match=f"{re.escape(address)}: .") as caught:
        reached(address).result(HASTE)
    assert one_sentence(str(caught.value))
    gc.collect()
    assert time.monotonic() - start < 10


def test_a_scheduler_without_workers(
    shop: tuple[Collection, Shards], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, shards = shop
    with cluster(tmp_path) as made, connected(made.address) as client:
        with monkeypatch.context() as patch:
            patch.setattr(dask, "WORKERS", 1.0)
            job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, client=client))
            with pytest.raises(ConnectionError, match=f"{re.escape(made.address)} has no workers") as caught:
                job.result(HASTE)
            assert one_sentence(str(caught.value))
        monkeypatch.setattr(dask, "WORKERS", 120.0)
        job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, client=client))
        made.add()  # one that comes late is waited for
        assert differences(evaluated(found, by_label, SCORED), job.result(150)) == []


def test_a_scheduler_that_goes_away(shop: tuple[Collection, Shards], tmp_path: Path) -> None:
    found, shards = shop

    def work() -> None:
        with connected(made.address) as client:
            evaluated_in_shards(found, shards, by_label, SCORED, client=client)

    with cluster(tmp_path, 1) as made:
        made.allow(3)
        job = Job(work)
        made.wait_for_read(3)
        made.scheduler.kill()
        with pytest.raises(ConnectionError, match="scheduler went away") as caught:
            job.result()  # closing the client, too
        assert one_sentence(str(caught.value))


def test_a_command_whose_scheduler_goes_away_says_one_sentence(shop: tuple[Collection, Shards], tmp_path: Path) -> None:
    """What Dask logs of it, with the lines of its code, is not repeated."""
    found, shards = shop
    labels = found.of_queries["labels"]
    np.savez(tmp_path / "queries.npz", codes=found.queries.unpack(), labels=labels)
    with cluster(tmp_path / "cluster", 1) as made:
        made.allow(3)
        command = [sys.executable, "-m", "lookalike", "evaluate", str(tmp_path / "queries.npz"), str(shards.location)]
        started = subprocess.Popen(
            [*command, "--dask", made.address],
            env={**os.environ, "PYTHONPATH": path_of_workers()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            made.wait_for_read(3)
            made.scheduler.kill()
            printed, said = started.communicate(timeout=120)
        finally:
            started.kill()
            started.wait()
    assert (started.returncode, printed) == (2, "")
    assert said.startswith("lookalike: the scheduler went away")
    assert said.count("\n") == 1


# Workers that are not as this one is

OTHER = "0.0.9"


@one_worker
@pytest.mark.parametrize("version", [None, OTHER], ids=["without the package", "of another version"])
def test_a_worker_that_cannot_do_it(
    client: Any, home: Cluster, shop: tuple[Collection, Shards], tmp_path: Path, version: str | None
) -> None:
    found, shards = shop
    read = len(home.read)
    with stranger(home, client, other_packages(tmp_path / "packages", version)) as worker:
        job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, client=client))
        kind: type[Exception] = ModuleNotFoundError if version is None else ValueError
        with pytest.raises(kind, match=re.escape(worker.address)) as caught:
            job.result(HASTE)
    said = str(caught.value)
    assert one_sentence(said)
    assert "install" in said
    assert la.__version__ in said
    assert version is None or version in said
    assert len(home.read) == read  # before anything was counted
    job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, client=client))
    assert differences(evaluated(found, by_label, SCORED), job.result()) == []


@contextlib.contextmanager
def stranger(home: Cluster, client: Any, packages: Path) -> Iterator[Process]:
    """A worker with other packages, until the block ends."""
    n = len(home.workers)
    home.add_all(1, packages=packages)
    worker = home.workers.pop()
    try:
        yield worker
    finally:
        worker.kill()
        wait_for("the worker to go", lambda: len(client.nthreads()) == n)


def with_latecomer(home: Cluster, client: Any, shop: tuple[Collection, Shards], packages: Path) -> la.Evaluation:
    """What comes of a job to which a worker comes when it has begun."""
    found, shards = shop
    read = len(home.read)
    home.allow(read + 3)
    job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, client=client))
    try:
        home.wait_for_read(read + 3)
        assert not job.ended
        with stranger(home, client, packages) as worker:
            refused = re.compile("Compute Failed|Failed to deserialize")
            wait_for("what it was given to be refused", lambda: refused.search(worker.said), HASTE)
            home.allow(None)
            return job.result(HASTE)
    finally:
        home.allow(None)


@one_worker
def test_a_latecomer_of_another_version_refuses(
    client: Any, home: Cluster, shop: tuple[Collection, Shards], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="install the same") as caught:
        with_latecomer(home, client, shop, other_packages(tmp_path / "packages", OTHER))
    assert one_sentence(str(caught.value))
    assert OTHER in str(caught.value)
    assert la.__version__ in str(caught.value)


@one_worker
@pytest.mark.parametrize("lacks", ["count_shards*", "dask.py", "everything"])
def test_a_latecomer_that_cannot_even_read_the_job(
    client: Any, home: Cluster, shop: tuple[Collection, Shards], tmp_path: Path, lacks: str
) -> None:
    """Versions differ in what they have: such a worker refuses, or goes away; nobody waits for it for ever."""
    version = None if lacks == "everything" else OTHER
    packages = other_packages(tmp_path / "packages", version, without=(lacks,))
    try:
        evaluation, said = with_latecomer(home, client, shop, packages), ""
    except (ValueError, ModuleNotFoundError) as error:
        evaluation, said = None, str(error)
    if evaluation is None:
        assert "install" in said
        assert one_sentence(said)
    else:
        assert differences(evaluated(shop[0], by_label, SCORED), evaluation) == []


# Shards that are bad


def missing(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def another(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def without_a_column(path: Path) -> None:
    """A file that was replaced, with the manifest's leave."""
    import hashlib
    import json

    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(path).drop_columns(["labels"]), path)
    manifest = json.loads((path.parent / "manifest.json").read_text())
    entry = next(entry for entry in manifest["shards"] if entry["file"] == path.name)
    entry |= {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (path.parent / "manifest.json").write_text(json.dumps(manifest))


@two_workers
@pytest.mark.parametrize("looked_at", [True, False], ids=["looked at first", "met on the way"])
@pytest.mark.parametrize("damage", [missing, cut_short, another, without_a_column])
def test_a_bad_shard(
    client: Any,
    home: Cluster,
    shop: tuple[Collection, Shards],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    looked_at: bool,
) -> None:
    """The same words as here; and the client, with what else it holds, is as good as before."""
    found, good = shop
    shutil.copytree(good.location.where, tmp_path / "gallery")
    damage(tmp_path / "gallery" / "part-00017.parquet")
    bad = Shards.open(tmp_path / "gallery")
    if not looked_at:
        monkeypatch.setattr(Shards, "check", lambda _: None)
    held, read = client.submit(sum, [1, 2, 3], pure=False), len(home.read)
    job = Job(lambda: evaluated_in_shards(found, bad, by_label, SCORED, client=client))
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        job.result(HASTE)
    with monkeypatch.context() as patch:
        patch.setattr(map_reduce, "_here", LOCALLY)
        with pytest.raises((ValueError, FileNotFoundError)) as expected:
            evaluated_in_shards(found, bad, by_label, SCORED)
    assert type(caught.value) is type(expected.value)
    assert str(caught.value) == str(expected.value)
    assert "part-00017.parquet" in str(caught.value)
    assert len(home.read) == read or not looked_at or damage not in (missing, cut_short)  # nothing was counted
    assert one_sentence(str(caught.value))
    assert held.result(HASTE) == 6
    assert client.submit(sum, [4, 5], pure=False).result(HASTE) == 9
    job = Job(lambda: evaluated_in_shards(found, good, by_label, SCORED, client=client))
    assert differences(evaluated(found, by_label, SCORED), job.result()) == []
    assert held.result(HASTE) == 6


@two_workers
def test_partials_that_cannot_be_written(client: Any, shop: tuple[Collection, Shards], tmp_path: Path) -> None:
    found, shards = shop
    (tmp_path / "file").write_text("")
    how = {"client": client, "partials": tmp_path / "file"}
    job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, **how))
    with pytest.raises((OSError, ValueError), match=re.escape(str(tmp_path / "file"))):
        job.result(HASTE)
    job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, client=client))
    assert differences(evaluated(found, by_label, SCORED), job.result()) == []


def test_a_client_is_for_shards(shop: tuple[Collection, Shards]) -> None:
    with pytest.raises(ValueError, match="in shards"):
        evaluated(shop[0], by_label, SCORED, client=object())


@two_workers
def test_a_folder_that_workers_do_not_have(
    client: Any, shop: tuple[Collection, Shards], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of this machine alone: workers say which file they miss."""
    found, shards = shop
    monkeypatch.setattr(Shards, "check", lambda _: None)
    elsewhere = Shards(Location(str(tmp_path / "only-here")), shards.manifest)
    job = Job(lambda: evaluated_in_shards(found, elsewhere, by_label, SCORED, client=client))
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "only-here"))):
        job.result(HASTE)
