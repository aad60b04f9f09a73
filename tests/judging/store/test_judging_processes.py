"""Clocks that are wrong, and several stores, threads and processes at once."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.benches import MINUTE, NOW, PEOPLE, YEAR, Bench, assert_acknowledged, assert_exactly, say
from helpers.judges import judge, make_study, process_of, rows_printed
from lookalike.discovery.votes import Votes
from lookalike.judging.store.store import Store

# Clocks


def test_a_clock_that_was_far_ahead_locks_nothing_for_ever(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW + 10 * YEAR)
    assert store.claim("bob", 1, NOW) == [task], "that seat would end in ten years"
    assert store.vote("ann", [say(task)], NOW) == ["enough"]
    assert store.vote("bob", [say(task)], NOW) == ["kept"]


def test_a_clock_that_goes_back_a_little_takes_nothing_away(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW)
    assert store.claim("bob", 1, NOW - 5 * MINUTE) == []
    assert store.claim("ann", 1, NOW - 5 * MINUTE) == [task]
    assert store.claim("bob", 1, NOW + 10 * YEAR) == [task]
    assert store.claim("ann", 1, NOW) == [task], "nor does a jump ahead leave anyone with it for ever"


@pytest.mark.parametrize("now", [-(2**70), 0, 2**62, 2**70])
def test_moments_that_no_calendar_has(bench: Bench, now: int, tmp_path: Path) -> None:
    store = bench.ready(each=1, people=("ann",))
    (task,) = store.claim("ann", 1, now)
    assert store.vote("ann", [say(task)], now) == ["kept"]
    assert store.vote("ann", [say(task, 0)], NOW) == ["kept"]
    store.votes().write(tmp_path / "votes.csv")
    assert Votes.read(tmp_path / "votes.csv").last().answers.tolist() == [0]


# Several stores, threads and processes


def test_two_stores_of_one_study_see_each_other(bench: Bench) -> None:
    one, two = bench.ready(each=2, people=("ann", "bob", "eve")), bench.open()
    seen: Counter[tuple[str, int]] = Counter()
    for turn in range(300):
        store, expert = (one, two)[turn % 2], ("ann", "bob", "eve")[turn % 3]
        for task in store.claim(expert, 2, NOW)[:1]:
            seen[expert, task.pair] += 1
            assert (two, one)[turn % 2].vote(expert, [say(task)], NOW) == ["kept"]
    assert set(seen.values()) == {1}
    assert_exactly(one, bench.study.pool().pairs, 2)
    assert one.progress("ann") == two.progress("ann")
    assert one.status() == two.status()


def test_the_same_votes_sent_by_many_threads_at_once(bench: Bench) -> None:
    store, other = bench.ready(each=1, people=("ann",)), bench.open()
    answers = [say(task) for task in store.claim("ann", 30, NOW)]
    verdicts: list[Any] = []
    threads = [
        threading.Thread(target=lambda number=number: verdicts.extend((store, other)[number % 2].vote("ann", answers)))
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(verdicts) == {"kept": len(answers), "known": 11 * len(answers)}
    assert len(store.votes()) == len(answers)


def test_many_threads_in_several_processes(bench: Bench, tmp_path: Path) -> None:
    """Twelve experts in three processes, one of them in all of them, and seats that run out meanwhile."""
    study = make_study(tmp_path / "large", n_queries=12, n_items=40, k=5)
    where = bench.server.new_database() if bench.on_postgres else None
    people = [f"e{number}" for number in range(12)]
    with Store.open(where, study) as store:
        store.configure(3)
        for name in [*people, "everywhere"]:
            store.add_expert(name)
        running = [process_of(study, where, [*people[start::3], "everywhere"]) for start in range(3)]
        results = [process.communicate(timeout=280) for process in running]
        assert [(process.returncode, error) for process, (_, error) in zip(running, results, strict=True)] == [
            (0, "")
        ] * 3
        acknowledged = [row for output, _ in results for row in rows_printed(output)]
        made = Bench(study, where, bench.server)
        assert_acknowledged(made, acknowledged)
        assert len(acknowledged) == len(store.votes())
        assert_exactly(store, study.pool().pairs, 3)


def test_leases_that_run_out_under_threads(bench: Bench) -> None:
    """Places are so short that most votes come late: even so a pair never gets more than it wants."""
    store = bench.ready(each=2)
    acknowledged: list[Any] = []
    threads = [
        threading.Thread(target=judge, args=(store, expert, acknowledged), kwargs={"lease": 0.002}) for expert in PEOPLE
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_exactly(store, bench.study.pool().pairs, 2)
    assert len(acknowledged) == 2 * len(bench.study.pool())


def test_one_that_fails_does_not_fail_the_others(bench: Bench) -> None:
    store = bench.ready(each=5)
    hands = {expert: store.claim(expert, 20, NOW) for expert in PEOPLE}
    verdicts: list[Any] = []
    failures: list[Exception] = []

    def vote(expert: str) -> None:
        for task in hands[expert]:
            verdicts.extend(store.vote(expert, [say(task)], NOW))

    def fail() -> None:
        for _ in range(20):
            try:
                store._writer.do(lambda work: work.board.pairs.clear() or 1 / 0)
            except ZeroDivisionError as error:
                failures.append(error)

    threads = [threading.Thread(target=vote, args=(expert,)) for expert in PEOPLE] + [threading.Thread(target=fail)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(verdicts) == {"kept": 100}
    assert len(failures) == 20
    assert len(store.votes()) == 100


def test_a_database_changed_past_the_store_is_believed(bench: Bench) -> None:
    """The board in memory is wrong, the constraints of the tables say so, and it is read anew."""
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW)
    store.revoke("ann")
    bench.run(
        f"INSERT INTO places (pair, slot, expert, until, turn, voted) VALUES ({task.pair}, 0, 'eve', {NOW + 9}, 1, 0)"
    )
    assert store.vote("bob", [say(task)], NOW) == ["enough"]
    assert store.vote("bob", [say(task)], NOW + 9) == ["kept"]


def test_a_store_is_of_one_process_and_can_be_closed(bench: Bench) -> None:
    store = bench.ready()
    store._writer._process = -1
    with pytest.raises(RuntimeError, match="opened by another process, before it forked: open one in each process"):
        store.claim("ann", 1)
    store.close()
    store = bench.open()
    store.close()
    store.close()
    with pytest.raises(RuntimeError, match="this store is closed"):
        store.claim("ann", 1)
