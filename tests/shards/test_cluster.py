"""Galleries in shards on a Dask cluster: the same bits as in memory, whatever dies, and errors that say what to do.

The cluster is real: scheduler and workers are processes of their own, which are killed while they work. A test that let
work be done here would let everything pass, so what is done here fails; one whose job is over before anything dies
would, too, so jobs are slow and their progress is waited for.
"""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.cluster_cases import (  # noqa: F401  # fixtures
    HASTE,
    WORKERS,
    client,
    galleries,
    home,
    in_shards,
    nothing_is_done_here,
    shop,
    two_workers,
    whole_files,
)
from helpers.clusters import SCORED, Cluster, Looking, driver
from helpers.galleries import (
    Asked,
    Collection,
    Of,
    by_grades,
    by_judgements,
    by_label,
    by_levels,
    by_tags,
    differences,
    evaluated,
    evaluated_in_shards,
    without_groups,
    without_self,
)
from helpers.processes import Job, wait_for
from lookalike.core.progress import reporting
from lookalike.evaluation import sources
from lookalike.shards import dask
from lookalike.shards.dask import connected
from lookalike.shards.gallery import Shards
from lookalike.shards.map_reduce import gather

pytestmark = pytest.mark.usefixtures("nothing_is_done_here")  # what is done here would let everything pass


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


CUT, WHOLE = ("AP@10", "nDCG@5", "P@30"), ("AP", "nDCG", "R@20", "MAP@R", "FNMR(fmr=0.01, average='macro')")
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


BY_SHARES = {
    "labels": Case("float32", by_label, (*CUT, *WHOLE)),
    "that tie": Case("float64", by_tags, WHOLE, similarity="euclidean"),
    "by grades": Case("float32", by_grades, WHOLE, similarity="dot"),
    "within a radius": Case("float64", by_label, ("P(radius=5)", "AP"), similarity="euclidean"),
    "judged": Case("float32", by_judgements, ("AUC(average='micro')", "AP"), unjudged="condensed"),
    "without groups": Case("float32", without_groups, WHOLE),
}


@two_workers
@pytest.mark.parametrize("case", BY_SHARES)
def test_many_queries_are_divided_among_workers(client: Any, home: Cluster, galleries: Path, case: str) -> None:
    """Each of two workers reads all shards and evaluates half of the queries; with partials they divide the shards."""
    of = BY_SHARES[case]
    found, shards = in_shards(galleries, of.kind, 50, n_queries=2 * sources.QUERIES + 1, n_items=230)
    how = {"similarity": of.similarity, "unjudged": of.unjudged}
    expected = evaluated(found, of.ask, list(of.metrics), **how)
    runs = len({"radius" in metric for metric in of.metrics})  # metrics within a radius are counted by themselves
    before = len(home.read)
    evaluation = evaluated_in_shards(found, shards, of.ask, list(of.metrics), client=client, **how)
    assert differences(expected, evaluation) == []
    read = Counter(home.read[before:])
    assert list(read.values()) == [2 * runs] * len(shards.shards)


@two_workers
def test_where_workers_have_no_room_for_the_gallery(
    client: Any, galleries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then they divide the shards; so they do where partials are kept."""
    found, shards = in_shards(galleries, "float32", 50, n_queries=2 * sources.QUERIES, n_items=230)
    size, expected = 4 * len(shards) * shards.width, evaluated(found, by_label, ["AP"])
    threads, real, shares = dask.worker_threads(client), sources.computed, []

    def computed(client: Any, function: Any, arguments: list[slice], *rest: Any) -> list[Any]:
        shares.extend(arguments)
        return real(client, function, arguments, *rest)

    monkeypatch.setattr(sources, "computed", computed)
    for room, partials, n_shares in ((size, None, 2), (size - 1, None, 0), (size, tmp_path, 0)):
        allowed = [thread._replace(memory=room * sources.SHARE) for thread in threads]
        monkeypatch.setattr(sources, "worker_threads", lambda _, allowed=allowed: allowed)
        shares.clear()
        evaluation = evaluated_in_shards(found, shards, by_label, ["AP"], client=client, partials=partials)
        assert differences(expected, evaluation) == []
        assert len(shares) == n_shares


@two_workers
def test_counts_of_many_queries_are_the_same(client: Any, galleries: Path) -> None:
    found, shards = in_shards(galleries, "float32", 50, n_queries=2 * sources.QUERIES, n_items=230)
    labels = found.of_queries["labels"]
    expected = la.count(found.queries, found.gallery, la.same_label(labels, found.of_items["labels"]), scores=False)
    tally = la.count(found.queries, shards, la.same_label(labels, shards["labels"]), client=client, scores=False)
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
        home.allow(start + job.done + dask.TOGETHER)
        most = max(most, client.run_on_scheduler(in_memory))
        return job.ended

    home.allow(start)
    job = Job(lambda: gather(shards.on(client), Looking(len(shards.shards)), threads=1))
    try:
        wait_for("the job", look)
    finally:
        home.allow(None)
    assert job.result()[0].rows.sum() == len(shards)
    assert 0 < most <= 4 * dask.TOGETHER  # of 46: those of a few sums that are not yet made
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
