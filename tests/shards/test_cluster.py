"""Galleries in shards on a Dask cluster: the same bits as in memory, whatever dies, and errors that say what to do.

The cluster is real: scheduler and workers are processes of their own, which are killed while they work. A test that let
work be done here would let everything pass, so what is done here fails; one whose job is over before anything dies
would, too, so jobs are slow and their progress is waited for.
"""

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
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.clusters import (
    SCORED,
    Asked,
    Cluster,
    Collection,
    Job,
    Looking,
    Of,
    Process,
    by_grades,
    by_judgements,
    by_label,
    by_levels,
    by_tags,
    cluster,
    collection,
    differences,
    driver,
    evaluated,
    evaluated_in_shards,
    other_packages,
    path_of_workers,
    wait_for,
    without_groups,
    without_self,
)
from lookalike.core.progress import reporting
from lookalike.shards import dask as tested
from lookalike.shards import map_reduce as gathering
from lookalike.shards.dask import connected
from lookalike.shards.gallery import Shards
from lookalike.shards.map_reduce import gather
from lookalike.shards.storage import Location

WORKERS = (1, 2, 4)
LOCALLY = gathering._here
HASTE = 60.0  # seconds within which an error must come, where it comes without waiting for anybody


@pytest.fixture(autouse=True)
def nothing_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("this is the work of a cluster")

    monkeypatch.setattr(gathering, "_here", fail)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose scheduler stays."""
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module", params=WORKERS, ids=lambda n: f"{n} workers")
def client(request: pytest.FixtureRequest, home: Cluster) -> Iterator[Any]:
    """A client of so many workers."""
    home.resize(request.param)
    with connected(home.address) as found:
        yield found


one_worker = pytest.mark.parametrize("client", [1], indirect=True, ids=lambda n: f"{n} workers")
two_workers = pytest.mark.parametrize("client", [2], indirect=True, ids=lambda n: f"{n} workers")


@pytest.fixture(scope="module")
def galleries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("galleries")


def in_shards(folder: Path, kind: str, rows: int, **sizes: int) -> tuple[Collection, Shards]:
    """A collection, and its gallery in shards of so many rows, written once."""
    found = collection(kind, **sizes)
    where = folder / "-".join([kind.replace(" ", "-"), str(rows), *map(str, sizes.values())])
    return found, Shards.open(where) if where.is_dir() else found.write(where, rows)


@pytest.fixture(scope="module")
def shop(galleries: Path) -> tuple[Collection, Shards]:
    """A collection of 64 bits in 46 shards: sums of sums."""
    return in_shards(galleries, "64 bits", 5)


def one_sentence(text: str) -> bool:
    return "\n" not in text and "Traceback" not in text


def whole_files(folder: Path) -> list[Path]:
    """Files, without those that someone was writing when it was killed."""
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


# The same bits


@dataclass(frozen=True)
class Case:
    """Something to be evaluated; rows: of a shard."""

    kind: str
    ask: Callable[[Of, Of, int], Asked]
    metrics: tuple[str, ...]
    rows: int = 21
    sizes: tuple[int, int] = (24, 230)
    similarity: str | None = None
    unjudged: str | None = None


CUT, WHOLE = ("AP@10", "nDCG@5", "P@30"), ("AP", "nDCG", "R@20")
CASES = {
    "labels": Case("64 bits", by_label, ("AP", "AP@10", "nDCG@10", "RR")),
    "labels in many shards": Case("64 bits", by_label, WHOLE, rows=3),
    "labels in nine shards": Case("64 bits", by_label, WHOLE, rows=27),  # one more than are summed at once
    "labels in few shards": Case("64 bits", by_label, WHOLE, rows=100),
    "labels in one shard": Case("64 bits", by_label, WHOLE, rows=1000),
    "labels in a table": Case("12 bits", by_label, (*WHOLE, "LGAP@2"), rows=299, sizes=(400, 3000)),
    "levels": Case("64 bits", by_levels, WHOLE),
    "tags": Case("64 bits", by_tags, WHOLE),
    "grades": Case("64 bits", by_grades, WHOLE),
    "judged": Case("64 bits", by_judgements, ("AP", "nDCG@10", "Bpref", "Judged@5"), unjudged="irrelevant"),
    "judged, together": Case("64 bits", by_judgements, ("AUC(average='micro')", "AUC")),
    "LGAP": Case("64 bits", by_label, ("LGAP@24", "AP")),
    "without groups": Case("64 bits", without_groups, WHOLE),
    "without itself": Case("12 bits", without_self, (*WHOLE, "LGAP@2")),
    "embeddings, first ranks": Case("float32", by_label, CUT),
    "embeddings, all ranks": Case("float32", by_label, WHOLE),
    "embeddings that tie": Case("float64", by_tags, (*CUT, *WHOLE), similarity="euclidean"),
    "embeddings in few shards": Case("float32", by_grades, WHOLE, rows=100, similarity="dot"),
    "embeddings within a radius": Case("float64", by_label, ("P(radius=5)", "AP"), similarity="euclidean"),
    "embeddings, judged": Case("float32", by_judgements, ("AUC(average='micro')", "AP"), unjudged="condensed"),
    "embeddings, first ranks judged": Case("float64", by_judgements, CUT, unjudged="irrelevant"),
    "embeddings without groups": Case("float32", without_groups, WHOLE),
    "embeddings without itself": Case("float32", without_self, CUT, rows=100),
}


EVERYWHERE = {  # also by one worker and by four, who sum in other orders: a case of each kind of tally
    "labels in many shards",
    "labels in nine shards",
    "labels in one shard",
    "labels in a table",
    "judged, together",
    "LGAP",
    "embeddings, first ranks",
    "embeddings that tie",
    "embeddings, judged",
}
BY_WORKERS = [(n, case) for n in WORKERS for case in CASES if n == 2 or case in EVERYWHERE]


@pytest.mark.parametrize(
    ("client", "case"), BY_WORKERS, indirect=["client"], ids=[f"{n} workers-{case}" for n, case in BY_WORKERS]
)
def test_the_same_bits_as_in_memory(client: Any, galleries: Path, case: str) -> None:
    of = CASES[case]
    n_queries, n_items = of.sizes
    found, shards = in_shards(galleries, of.kind, of.rows, n_queries=n_queries, n_items=n_items)
    how = {"similarity": of.similarity, "unjudged": of.unjudged}
    expected = evaluated(found, of.ask, list(of.metrics), **how)
    evaluation = evaluated_in_shards(found, shards, of.ask, list(of.metrics), client=client, **how)
    assert differences(expected, evaluation) == []
    assert len({*expected[of.metrics[0]].per_query}) > 3  # values that could differ


@two_workers
def test_counts_are_the_same(client: Any, galleries: Path) -> None:
    found, shards = in_shards(galleries, "12 bits", 299, n_queries=400, n_items=3000)
    labels = found.of_queries["labels"]
    expected = la.count(found.queries, found.gallery, la.same_label(labels, found.of_items["labels"]))
    tally = la.count(found.queries, shards, la.same_label(labels, shards["labels"]), client=client)
    assert tally.method == "table"
    assert np.array_equal(tally.counts, expected.counts)


@two_workers
def test_every_shard_is_seen_once(client: Any, shop: tuple[Collection, Shards]) -> None:
    """In four blocks of queries as in one; and a large job sends no warning."""
    shards = shop[1]
    blocks = tuple(slice(start, start + 6) for start in range(0, 24, 6))
    job = Job(
        lambda: gather(
            shards.on(client), Looking(len(shards.shards), blocks=blocks, ballast=bytes(11 << 20)), threads=1
        )
    )
    found = job.result()
    assert [seen.rows.tolist() for seen in found] == [[shard.rows for shard in shards.shards]] * 4
    assert job.done == 4 * len(shards.shards)  # progress was reported


@two_workers
def test_what_is_summed_is_not_kept(client: Any, home: Cluster, shop: tuple[Collection, Shards]) -> None:
    """Memory of workers does not grow with the shards: what a sum holds is let go.

    Workers are never far ahead of the client, which alone can let go.
    """

    def in_memory(dask_scheduler: Any) -> int:
        tasks = dask_scheduler.tasks.values()
        return sum(task.state == "memory" and "outcome" in str(task.key) for task in tasks)

    shards, start = shop[1], len(home.read)
    most = 0

    def look() -> bool:
        nonlocal most
        home.allow(start + job.done + tested.TOGETHER)
        most = max(most, client.run_on_scheduler(in_memory))
        return job.ended

    home.allow(start)
    job = Job(lambda: gather(shards.on(client), Looking(len(shards.shards)), threads=1))
    try:
        wait_for("the job", look)
    finally:
        home.allow(None)
    assert job.result()[0].rows.sum() == len(shards)
    assert 0 < most <= 4 * tested.TOGETHER  # of 46: those of a few sums that are not yet made
    wait_for("the workers to be rid of it", lambda: client.run_on_scheduler(in_memory) == 0)


def wait_for_the_rest_to_be_taken_back(client: Any) -> None:
    """Wait until workers have nothing more to do than what they are doing."""

    def known(dask_scheduler: Any) -> int:  # apart from what is done, and held by somebody
        to_do = ("waiting", "queued", "no-worker", "processing")
        return sum(task.state in to_do for task in dask_scheduler.tasks.values())

    def given(dask_worker: Any) -> int:
        return len(dask_worker.state.ready) + len(dask_worker.state.waiting)

    wait_for("the tasks to be forgotten", lambda: client.run_on_scheduler(known) == 0, HASTE)
    wait_for("what workers were given to be taken back", lambda: not any(client.run(given).values()), HASTE)


def wait_for_workers_to_be_idle(client: Any) -> None:
    def at_work(dask_worker: Any) -> int:
        return len(dask_worker.state.executing)

    wait_for("those at work to end", lambda: not any(client.run(at_work).values()))


@two_workers
def test_who_is_interrupted_leaves_no_work_behind(client: Any, home: Cluster, shop: tuple[Collection, Shards]) -> None:
    """The rest is not begun, also while the error is kept, as a notebook keeps it."""
    shards, read = shop[1], len(home.read)
    work = Looking(len(shards.shards), blocks=(slice(0, 1), slice(1, 2)))

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    home.allow(read + 6)
    try:
        with reporting(interrupt), pytest.raises(KeyboardInterrupt) as kept:
            gather(shards.on(client), work, threads=1)
        wait_for_the_rest_to_be_taken_back(client)
    finally:
        home.allow(None)
    wait_for_workers_to_be_idle(client)
    assert len(home.read) <= read + 10  # of 92: those that were allowed, and those at work
    assert kept.value is not None


# Partials


@two_workers
def test_partials_are_of_what_was_asked(client: Any, galleries: Path, tmp_path: Path) -> None:
    """One folder for several questions and galleries: each finds its own, and nothing is counted again."""
    found, shards = in_shards(galleries, "64 bits", 21)
    other, other_shards = in_shards(galleries, "64 bits", 21, seed=1)
    vectors, vector_shards = in_shards(galleries, "float32", 21)
    questions: list[tuple[Collection, Shards, Any, list[str]]] = [
        (found, shards, by_label, ["AP"]),
        (other, other_shards, by_label, ["AP"]),
        (replace(found, queries=other.queries), shards, by_label, ["AP"]),
        (found, shards, by_tags, ["AP"]),
        (found, shards, without_groups, ["AP"]),
        (found, shards, by_label, ["LGAP@2"]),
        (vectors, vector_shards, by_label, ["AP"]),
        (vectors, vector_shards, by_label, ["AP@10"]),
        (vectors, vector_shards, by_label, ["AP@20"]),
    ]
    for _ in range(2):
        for of, gallery, ask, metrics in questions:
            how = {"client": client, "partials": tmp_path / "partials"}
            assert differences(evaluated(of, ask, metrics), evaluated_in_shards(of, gallery, ask, metrics, **how)) == []
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "partials").iterdir()}
    assert len(first) == 10 * 11  # nine questions, one of which is asked in two passes, of eleven shards
    assert max(Counter(first.values()).values()) < len(first)
    again = evaluated_in_shards(found, shards, by_label, ["AP"], client=client, partials=tmp_path / "partials")
    assert differences(evaluated(found, by_label, ["AP"]), again) == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "partials").iterdir()} == first


def test_a_driver_that_is_killed_goes_on(home: Cluster, shop: tuple[Collection, Shards], tmp_path: Path) -> None:
    found, shards = shop
    partials, n = tmp_path / "partials", len(shards.shards)
    partials.mkdir()
    home.resize(2)

    def kept() -> dict[str, tuple[int, int]]:
        facts = {path.name: path.stat() for path in whole_files(partials)}
        return {name: (fact.st_mtime_ns, fact.st_ino) for name, fact in facts.items()}

    start, closed = len(home.read), home.scheduler.said.count("Close client connection")
    home.allow(start + 15)
    first = driver(home, Path(shards.location.where), partials)
    home.wait_for_read(start + 15)
    first.kill()
    wait_for("the scheduler to notice", lambda: home.scheduler.said.count("Close client connection") > closed)
    with connected(home.address) as client:
        wait_for_the_rest_to_be_taken_back(client)
        home.allow(None)  # those at work end what they do
        wait_for_workers_to_be_idle(client)
        before, read = kept(), len(home.read)
        assert len(before) == read - start  # what was read was kept
        assert 15 <= len(before) < n - 15, "the job was over"
        how = {"client": client, "partials": partials}
        job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, **how))
        assert differences(evaluated(found, by_label, SCORED), job.result()) == []
    after = kept()
    assert {name: after[name] for name in before} == before  # not written again
    assert len(after) == n
    assert len(home.read) - read == n - len(before)  # nor even read


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
            tested.check_workers(client)
    finally:
        looking = False


def test_a_scheduler_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is there; and where someone is, but says nothing: as a dashboard does, asked in a scheduler's words."""
    import distributed  # noqa: F401  # before the clock starts

    assert tested.REACHED <= 8  # who asks is promised an answer within ten seconds
    monkeypatch.setattr(tested, "REACHED", 2.0)
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
            patch.setattr(tested, "WORKERS", 1.0)
            job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, client=client))
            with pytest.raises(ConnectionError, match=f"{re.escape(made.address)} has no workers") as caught:
                job.result(HASTE)
            assert one_sentence(str(caught.value))
        monkeypatch.setattr(tested, "WORKERS", 120.0)
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
@pytest.mark.parametrize("lacks", ["tallying.py", "cluster.py", "everything"])
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
        patch.setattr(gathering, "_here", LOCALLY)
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
