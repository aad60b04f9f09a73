"""Sheets of candidates: what a sheet holds, and that no rule of judging changes by them."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.benches import MINUTE, NOW, PEOPLE, Bench, assert_exactly, say
from helpers.judges import make_study
from lookalike.core.errors import InputError
from lookalike.judging.store.board import ALL_CHANGES, CHANGES
from lookalike.judging.store.sheets import Layout, count_votes_on_sheets, read_layout, set_layout
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import JudgingTask


def sheets(tasks: list[JudgingTask]) -> list[list[JudgingTask]]:
    """Pairs in hand as a page groups them: those of one query that follow each other."""
    return [list(group) for _, group in itertools.groupby(tasks, lambda task: task.query)]


def of_query(bench: Bench, query: str) -> set[tuple[str, str]]:
    return {pair for pair in bench.study.pool().pairs if pair[0] == query}


def test_a_sheet_holds_all_open_pairs_of_its_query_in_another_order_for_each_expert(bench: Bench) -> None:
    store = bench.ready()
    orders = []
    for name in ("ann", "bob"):
        first, *_ = sheets(store.claim(name, 1, NOW, sheet=24))
        assert {(task.query, task.item) for task in first} == of_query(bench, first[0].query)
        assert len(first) > 3  # of several layers: three models propose at most three pairs of one rank
        orders.append([task.pair for task in first])
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != sorted(orders[0])  # numbers follow ranks
    again = store.claim("ann", 1, NOW, sheet=24)
    assert [task.pair for task in again] == orders[0]  # what is in hand stays a sheet
    two = sheets(store.claim("ann", len(orders[0]) + 1, NOW, sheet=24))
    assert [task.pair for task in two[0]] == orders[0]
    assert {(task.query, task.item) for task in two[1]} == of_query(bench, two[1][0].query)


def test_more_candidates_than_a_sheet_holds_come_on_sheets_of_the_same_size(bench: Bench) -> None:
    store = bench.ready()
    n = len(of_query(bench, store.claim("ann", 1, NOW)[0].query))
    assert n > 5
    store.revoke("ann", NOW)
    tasks = store.claim("bob", 1, NOW, sheet=n - 1)
    assert len(tasks) == -(-n // 2)  # not n - 1, and then a sheet of one
    store.vote("bob", [say(task, 0) for task in tasks], NOW)
    rest = store.claim("bob", 1, NOW, sheet=n - 1)
    assert {task.query for task in rest} == {tasks[0].query}
    assert len(rest) == n - len(tasks)


def test_put_off_candidates_come_back_together_when_there_is_nothing_else(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann",))
    late = store.claim("ann", 1, NOW, sheet=24)[:2]
    for task in late:
        assert store.later("ann", task.pair, NOW)
    seen: list[JudgingTask] = []
    while tasks := store.claim("ann", 1, NOW, sheet=24):
        if {task.pair for task in tasks} & {task.pair for task in late}:
            break
        store.vote("ann", [say(task, 0) for task in tasks], NOW)
        seen += tasks
    assert len(seen) == len(bench.study.pool()) - 2
    assert {task.pair for task in tasks} == {task.pair for task in late}


def test_a_gold_pair_comes_on_the_sheet_of_its_query(bench: Bench) -> None:
    queries = list(dict.fromkeys(query for query, _ in bench.study.pool().pairs))
    items = bench.study.catalogue.ids.tolist()
    outside = {
        query: next(item for item in items if item != query and (query, item) not in of_query(bench, query))
        for query in queries[:2]
    }
    bench.study.set_gold([(query, item, 1) for query, item in outside.items()])
    store = bench.ready(each=1, people=("ann", "bob"))
    found: dict[str, int] = {}
    while tasks := store.claim("ann", 1, NOW, sheet=24):
        assert len({task.query for task in tasks}) == 1
        if outside.get(tasks[0].query) in {task.item for task in tasks}:
            found[tasks[0].query] = len(tasks)
        store.vote("ann", [say(task, 0) for task in tasks], NOW)
    assert found == {query: len(of_query(bench, query)) + 1 for query in outside}


@pytest.mark.parametrize("order", ["depth", "adaptive"])
def test_experts_with_sheets_and_with_pairs_finish_a_study_together(bench: Bench, order: str) -> None:
    stores = [bench.ready(each=2, people=PEOPLE[:4], order=order), bench.open()]
    how, now, held = random.Random(3), NOW, Counter[int]()
    for turn in range(2000):
        store, name = how.choice(stores), how.choice(PEOPLE[:4])
        sheet = 5 if name in PEOPLE[:2] else 1
        tasks = store.claim(name, how.randint(1, 4), now, sheet=sheet)
        assert len({task.pair for task in tasks}) == len(tasks)
        answers = [say(task, how.choice([1, 0, -1])) for task in tasks if how.random() < 0.8]
        outcome = store.vote(name, [*answers, *answers[:2]], now)  # some are sent twice
        assert set(outcome[: len(answers)]) <= {"kept", "enough"}
        held.update(outcome)
        now += how.choice([1, 1000, MINUTE, 11 * MINUTE])
        if turn % 20 == 0 and not any(stores[0].progress(one).left for one in PEOPLE[:4]):
            break
    assert_exactly(stores[0], list(bench.study.pool().pairs), 2)
    assert held["known"] > 10


def test_sheets_of_24_every_two_seconds_are_kept_and_changes_are_counted_by_candidate(tmp_path: Path) -> None:
    study = make_study(tmp_path / "large", n_queries=40, n_items=60, k=24)
    with Store.open(None, study) as store:
        store.configure(1)
        store.add_expert("ann")
        n, now, last = 0, NOW, []
        while now < NOW + MINUTE + 10_000:
            tasks = store.claim("ann", 1, now, sheet=24)
            last = [say(task, 0, seconds=2 / len(tasks)) for task in tasks]
            assert store.vote("ann", last, now) == ["kept"] * len(tasks)
            n, now = n + len(tasks), now + 2000
        assert n > ALL_CHANGES  # more first answers in a minute than changes may be
        # An undone sheet: each candidate whose answer is another is a change, and one may change CHANGES times a minute
        for turn in range(CHANGES):
            assert set(store.vote("ann", [say(one.pair, turn % 2) for one in last], now)) == {"kept"}
        assert store.vote("ann", [say(last[0].pair, 1)], now) == ["often"]
        votes = store.votes()
        assert votes.seconds[:n].sum() == pytest.approx(2 * 35)


def test_the_layout_is_remembered_and_moves_with_the_database(bench: Bench) -> None:
    store = bench.ready()
    assert read_layout(store) == Layout("pairs", 12)
    set_layout(store, "sheet", 24)
    set_layout(store)
    set_layout(store, sheet_size=6)
    assert read_layout(bench.open()) == Layout("sheet", 6)
    if bench.on_postgres:
        store.copy_votes(bench.study)
        with Store.open(bench.study.path / "votes.sqlite", bench.study) as own:
            assert read_layout(own) == Layout("sheet", 6)
    wrongs: list[dict[str, Any]] = [{"name": "grid"}, {"sheet_size": 1}, {"sheet_size": 25}, {"sheet_size": 2.5}]
    for wrong in wrongs:
        with pytest.raises(InputError):
            set_layout(store, **wrong)
    assert read_layout(store) == Layout("sheet", 6)


def test_votes_on_sheets_are_known_by_the_ids_of_their_answers(bench: Bench) -> None:
    store = bench.ready()
    tasks = store.claim("ann", 4, NOW)
    clients = [f"0f5b0e0e-1111-{version}111-9111-11111111040{n}" for n, version in enumerate("8848")]
    store.vote("ann", [say(task, 0, client) for task, client in zip(tasks, clients, strict=True)], NOW)
    assert count_votes_on_sheets(store) == 3
