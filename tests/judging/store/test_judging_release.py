"""Which pairs are released, in which order, and what new settings change."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.benches import NOW, PEOPLE, Bench, assert_exactly, say, voters
from helpers.judges import judge, judge_together, make_study
from lookalike.core.files import digest
from lookalike.discovery.judging_order import next_pairs
from lookalike.discovery.votes import Votes
from lookalike.judging.store.configure import make_plan
from lookalike.judging.store.release import JudgingSettings
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import LAST_MOMENT
from lookalike.study.study import Study

# The order


def test_depth_goes_layer_by_layer_and_keeps_the_pairs_of_a_query_together(bench: Bench) -> None:
    store, pool = bench.ready(each=5), bench.study.pool()
    block = dict(zip(pool.pairs, zip(pool.layers().tolist(), pool.queries.tolist(), strict=True), strict=True))
    orders = {}
    for expert in PEOPLE:
        orders[expert] = [(task.query, task.item) for task in store.claim(expert, 100, NOW)]
        blocks = [block[pair] for pair in orders[expert]]
        assert blocks == sorted(blocks)
        assert len(blocks) == len(pool)
    assert len({tuple(order) for order in orders.values()}) == len(PEOPLE), "each has an order of their own"
    assert bench.open().claim("ann", 100, NOW) == store.claim("ann", 100, NOW)


def test_a_budget_is_of_pairs_and_holds(bench: Bench) -> None:
    store, pool = bench.ready(each=2, budget=7), bench.study.pool()
    acknowledged: list[Any] = []
    judge_together(store, list(PEOPLE), acknowledged)
    first = next_pairs(pool, np.full(len(pool), -1), 7)
    assert_exactly(store, [pool.pairs[row] for row in first], 2)
    assert len(acknowledged) == 14
    status = store.status()
    assert (status.pairs, status.complete, status.everybody_done, status.everybody_total) == (7, 7, 14, 14)


def test_the_adaptive_order_follows_the_models_that_proved_best(tmp_path: Path, bench: Bench) -> None:
    study = make_study(tmp_path / "large", n_queries=40, n_items=60, k=10)
    pool = study.pool()
    good = set(pool.proposals["last"])  # before anything is judged, the others are as good
    where = bench.server.new_database() if bench.on_postgres else None
    with Store.open(where, study) as store:
        store.configure(1, order="adaptive", budget=400)
        store.add_expert("ann")
        seen: list[tuple[str, str]] = []
        while tasks := store.claim("ann", 5, NOW):
            seen += [(task.query, task.item) for task in tasks]
            store.vote("ann", [say(task, int((task.query, task.item) in good)) for task in tasks], NOW)
            assert store.status().pairs >= len(seen)
        assert len(seen) == len(set(seen)) == 400
        share = [np.mean([pair in good for pair in part]) for part in (seen[:50], seen[150:350])]
        assert share[1] > 0.8 > 0.6 > share[0], share
        assert store.progress("ann").left == 0


def test_the_adaptive_order_releases_as_next_pairs_says(bench: Bench) -> None:
    store, pool = bench.ready(each=1, people=("ann",), order="adaptive"), bench.study.pool()
    expected = {pool.pairs[row] for row in next_pairs(pool, np.full(len(pool), -1), len(pool), "adaptive")[:50]}
    tasks = store.claim("ann", 1, NOW)
    assert store.status().pairs == min(50, len(pool))
    assert {(task.query, task.item) for task in tasks} <= expected


def test_pairs_that_wait_for_answers_say_nothing_of_a_model(tmp_path: Path, bench: Bench) -> None:
    study = make_study(tmp_path / "large", n_queries=40, n_items=60, k=10)
    pool = study.pool()
    first = set(pool.proposals["first"])
    query, item = pool.pairs[np.flatnonzero(pool.alone("first"))[0]]
    study.append_votes(Votes([query], [item], ["panel"], [1]))  # which makes it the best
    with Store.open(bench.server.new_database() if bench.on_postgres else None, study) as store:
        store.configure(1, order="adaptive")
        given = set()
        for number in range(15):
            store.add_expert(f"e{number}")
            given |= {(task.query, task.item) for task in store.claim(f"e{number}", 20, NOW)}
        assert len(given) == 300
        assert given <= first, "nothing was said against it yet"


def test_a_fast_expert_is_not_held_up_by_the_adaptive_order(bench: Bench) -> None:
    store = bench.ready(each=3, order="adaptive")
    acknowledged: list[Any] = []
    judge(store, "ann", acknowledged)
    assert len(acknowledged) == len(bench.study.pool())


def test_what_was_judged_before_is_finished_in_the_adaptive_order(bench: Bench) -> None:
    query, item = bench.study.pool().pairs[-1]
    bench.study.append_votes(Votes([query], [item], ["panel"], [1]))
    store = bench.ready(each=2, people=("ann", "bob"), order="adaptive")
    assert [(task.query, task.item) for task in store.claim("ann", 1, NOW)] == [(query, item)]
    judge_together(store, ["ann", "bob"], [])
    assert voters(store)[query, item] in ({"panel", "ann"}, {"panel", "bob"})
    progress = store.progress("ann")
    assert progress.everybody_done == progress.everybody_total == 2 * len(bench.study.pool())


def test_gold_pairs_are_judged_by_everybody_and_mixed_in(tmp_path: Path, bench: Bench) -> None:
    study = make_study(tmp_path / "large", n_queries=40, n_items=60, k=10)
    pairs = study.pool().pairs
    outside = [("i0000", item) for item in study.catalogue.ids.tolist() if ("i0000", item) not in set(pairs)]
    gold = [*pairs[5:400:16], *[pair for pair in outside if pair[1] != "i0000"][:5]]
    study.set_gold([(*pair, 1) for pair in gold])
    where = bench.server.new_database() if bench.on_postgres else None
    with Store.open(where, study) as store:
        store.configure(1, budget=450)
        orders = {}
        for expert in ("ann", "bob", "eve"):
            store.add_expert(expert)
            orders[expert] = []
            for _ in range(30):
                tasks = store.claim(expert, 5, NOW)
                orders[expert] += [(task.query, task.item) in set(gold) for task in tasks]
                store.vote(expert, [say(task) for task in tasks], NOW)
        for order in orders.values():
            assert len(order) == 150
            assert 5 <= sum(order) <= 28, "about one in ten"
        assert len({tuple(order) for order in orders.values()}) == 3
        for expert in orders:
            judge(store, expert, [])
        found = voters(store)
        assert all(found[pair] == {"ann", "bob", "eve"} for pair in gold)
        assert {len(found[pair]) for pair in found.keys() - set(gold)} == {1}
        assert len(found) == 450 + len(gold)
        status = store.status()
        assert (status.gold, status.pairs, status.everybody_total) == (len(gold), 450, 450)
        assert [row["gold"] for row in status.experts] == [len(gold)] * 3
        assert store.progress("ann").left == 0


# Settings that change


def test_configuring_again_keeps_what_was_begun(bench: Bench) -> None:
    store = bench.ready(each=2, people=("ann", "bob", "eve"))
    first = store.claim("ann", 3, NOW)
    store.vote("ann", [say(first[0])], NOW)
    store.configure(2)
    assert store.claim("ann", 2, NOW) == first[1:]
    store.configure(2, budget=5)
    assert store.status().pairs == 5
    assert store.claim("ann", 2, NOW) == first[1:]
    store.configure(3, order="adaptive", budget=8)
    judge_together(store, ["ann", "bob", "eve"], [])
    assert set(map(len, voters(store).values())) == {3}
    assert len(voters(store)) == 8


def test_wanting_fewer_experts_ends_what_is_in_hand(bench: Bench) -> None:
    store = bench.ready(each=3, people=("ann", "bob", "eve"), budget=1)
    (task,) = store.claim("ann", 1, NOW)
    assert store.claim("bob", 1, NOW) == store.claim("eve", 1, NOW) == [task]
    store.vote("ann", [say(task)], NOW)
    bench.open().configure(1, budget=1)
    assert store.vote("bob", [say(task)], NOW) == ["enough"]
    store.configure(2, budget=1)
    assert store.vote("eve", [say(task)], NOW) == ["kept"]
    assert store.vote("bob", [say(task)], NOW) == ["enough"]
    assert store.vote("ann", [say(task, 0)], NOW) == ["kept"]


def test_a_pool_that_has_grown_and_gold_that_has_changed(bench: Bench) -> None:
    study, store = bench.study, bench.ready(each=1, people=("ann", "bob"))
    judge(store, "ann", [])
    before = study.pool()
    extra = np.random.default_rng(7).normal(size=(5, 30))
    study.write_pool(before.with_model("new", extra))
    gold = before.pairs[3]
    study.set_gold([(*gold, 1)])
    store.configure(1)
    judge(store, "bob", [])
    new = set(study.pool().pairs) - set(before.pairs)
    assert new
    found = voters(store)
    assert all(found[pair] == {"bob"} for pair in new)
    assert found[gold] == {"ann", "bob"}
    study.set_gold(None)
    store.configure(1)
    assert store.status().gold == 0
    assert store.claim("ann", 1, NOW) == []
    assert store.check() == []


# What is changed while experts look at pairs


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3)])
def test_answers_to_what_is_on_show_count_when_another_number_of_experts_is_wanted(
    bench: Bench, before: int, after: int
) -> None:
    store = bench.ready(before)
    hand = store.claim("ann", 6)
    store.configure(after)
    assert [store.vote("ann", [say(task)]) for task in hand] == [["kept"]] * 6


def test_a_gold_pair_that_becomes_an_ordinary_one_gets_no_more_votes_than_others(bench: Bench) -> None:
    pairs = bench.study.pool().pairs
    bench.study.set_gold([(*pairs[0], 1)])
    store = bench.ready(1)
    held = {
        name: next(task for task in store.claim(name, 100) if (task.query, task.item) == pairs[0]) for name in PEOPLE
    }
    bench.study.set_gold([(*pairs[1], 1)])
    store.configure(1)
    said = [store.vote(name, [say(task)])[0] for name, task in held.items()]
    assert sorted(said) == ["enough"] * (len(PEOPLE) - 1) + ["kept"]
    assert store.check() == []


def test_no_count_tells_which_pairs_are_gold(bench: Bench) -> None:
    bench.study.set_gold([(*pair, 1) for pair in bench.study.pool().pairs[:4]])
    store = bench.ready(2)
    seen = [store.progress("ann")]
    while tasks := store.claim("ann", 1):
        store.vote("ann", [say(tasks[0])])
        seen.append(store.progress("ann"))
    assert [one.everybody_done for one in seen] == list(range(len(seen)))
    assert len({one.everybody_total for one in seen}) == 1


def test_an_older_copy_in_place_of_the_record_is_seen_for_what_it_is(tmp_path: Path, template: Path) -> None:
    shutil.copytree(template, tmp_path / "study")
    study = Study.open(tmp_path / "study")
    backup = tmp_path / "backup.sqlite"
    with Store.open(None, study) as store:
        store.configure(1)
        store.add_expert("ann")
        with contextlib.closing(sqlite3.connect(study.path / "votes.sqlite")) as old:
            old.execute(f"VACUUM INTO '{backup}'")
        for task in (tasks := store.claim("ann", 5)):
            store.vote("ann", [say(task)])
        for beside in ("-wal", "-shm"):  # which belong to the file that is replaced
            (study.path / f"votes.sqlite{beside}").unlink()
        backup.replace(study.path / "votes.sqlite")
        assert store.progress("ann").done == 0
        assert len(store.votes()) == 0
        assert {task.pair for task in store.claim("ann", 5)} == {task.pair for task in tasks}


def test_times_end_with_the_year_9999(bench: Bench) -> None:
    store = bench.ready()
    (task,) = store.claim("ann", 1)
    late = Votes([task.query], [task.item], ["ann"], [1], np.array([LAST_MOMENT], "datetime64[ms]"))
    store.import_votes(late)
    store.vote("ann", [say(task, 0)])
    assert str(store.votes().times.max()) < "9999-12-31T23:59:59.001"
    with pytest.raises(ValueError, match="year 9999"):
        store.import_votes(Votes([task.query], [task.item], ["ann"], [1], np.array([2**62], "datetime64[ms]")))


def test_the_mark_of_a_release_is_the_one_that_databases_hold(study: Study) -> None:
    """Another mark for the same settings would release pairs again in every study that is being judged."""
    text = "Settings(experts_per_pair=3, order='depth', budget=None, seed=0)"
    assert make_plan(study, JudgingSettings()).mark == digest(np.array([study.pool().digest, text]))
