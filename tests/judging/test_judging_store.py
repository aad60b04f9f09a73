"""The store of judgements, on SQLite and on a real PostgreSQL: its rules, and that nothing is lost or counted twice.

Faults are real: processes are killed, the server is crashed and started, disks are full, clocks jump. A test with one
expert at a time would let every race pass, so the counts are also held with threads and processes at once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from helpers import judges
from helpers.judges import Server, judge, judge_together, make_study, process_of, rows_printed
from lookalike.discovery.judging_order import next_pairs
from lookalike.discovery.vote_log import NEWEST, rows_of
from lookalike.discovery.votes import Votes
from lookalike.judging.store.location import forget_database
from lookalike.judging.store.pairs import LONGEST
from lookalike.judging.store.store import (
    Answer,
    Briefing,
    ExpertError,
    Imported,
    JudgingTask,
    Store,
    StoreAwayError,
    StoreFullError,
    VoteRefusedError,
)
from lookalike.judging.store.types import LAST_MOMENT
from lookalike.study.study import Study

NOW = 1_750_000_000_000  # milliseconds since 1970
MINUTE, YEAR = 60_000, 365 * 86_400_000
PEOPLE = ("ann", "bob", "eve", "joe", "kim")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("template") / "study").path


class Bench:
    """A study, and where its judging is kept; stores that are opened here are closed at the end."""

    def __init__(self, study: Study, where: str | None, server: Server) -> None:
        self.study, self.where, self.server = study, where, server
        self._opened = contextlib.ExitStack()

    @property
    def on_postgres(self) -> bool:
        return self.where is not None

    def open(self, **more: Any) -> Store:
        return self._opened.enter_context(Store.open(self.where, self.study, **more))

    def ready(self, each: int = 2, people: tuple[str, ...] = PEOPLE, patience: float = 15.0, **settings: Any) -> Store:
        store = self.open(patience=patience)
        store.configure(each, **settings)
        for name in people:
            store.add_expert(name)
        return store

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Something done to the database past the store."""
        if self.where is not None:
            return self.server.run(statement, self.where)
        with contextlib.closing(
            sqlite3.connect(self.study.path / "votes.sqlite", isolation_level=None, timeout=20)
        ) as connection:
            return connection.execute(statement).fetchall()

    def close(self) -> None:
        self._opened.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, template: Path, server: Server) -> Iterator[Bench]:
    shutil.copytree(template, tmp_path / "study")
    made = Bench(
        Study.open(tmp_path / "study"), server.new_database() if request.param == "postgresql" else None, server
    )
    yield made
    made.close()


names = itertools.count()


def say(pair: int | JudgingTask, answer: int = 1, client: str | None = None, **more: Any) -> Answer:
    return Answer(
        client or f"client {next(names)}", pair.pair if isinstance(pair, JudgingTask) else pair, answer, **more
    )


def voters(store: Store) -> dict[tuple[str, str], set[str]]:
    votes = store.votes()
    found: dict[tuple[str, str], set[str]] = {}
    for pair, expert in zip(votes.pairs, votes.experts.tolist(), strict=True):
        found.setdefault(pair, set()).add(expert)
    return found


def assert_exactly(store: Store, pairs: list[tuple[str, str]], each: int) -> None:
    """Every pair has been judged by as many experts as it wants, and the tables agree with the record."""
    found = voters(store)
    assert {pair: len(found.get(pair, ())) for pair in pairs} == dict.fromkeys(pairs, each)
    assert store.check() == []


def assert_acknowledged(bench: Bench, acknowledged: list[tuple[Any, ...]]) -> None:
    """Every vote that was acknowledged is in the record as it was sent, and none is there twice."""
    rows = bench.run("SELECT client, query, item, expert, answer FROM votes")
    kept = {row[0]: tuple(row) for row in rows}
    assert len(kept) == len(rows)
    assert len({row[0] for row in acknowledged}) == len(acknowledged)
    assert [row for row in acknowledged if kept.get(row[0]) != tuple(row)] == []


# The rules


def test_a_vote_is_kept_and_read_as_it_was_given(bench: Bench) -> None:
    store = bench.ready()
    (task,) = store.claim("ann", 1, NOW)
    assert store.vote("ann", [say(task, -1, seconds=2.5, at=NOW + 5)], NOW + 10) == ["kept"]
    votes = store.votes()
    assert (votes.pairs, votes.experts.tolist(), votes.answers.tolist()) == ([(task.query, task.item)], ["ann"], [-1])
    assert votes.seconds.tolist() == [2.5]
    assert votes.times.view(np.int64).tolist() == [NOW + 5]
    assert store.recent("ann") == [(task, -1)]
    assert store.task("ann", task.pair) == task
    assert store.task("bob", task.pair) is None


@pytest.mark.parametrize("at", [None, NOW + 1, NOW - 2 * 86_400_000, 0])
def test_a_clock_of_a_client_that_cannot_be_right_is_not_believed(bench: Bench, at: int | None) -> None:
    store = bench.ready()
    (task,) = store.claim("ann", 1, NOW)
    store.vote("ann", [say(task, at=at)], NOW)
    assert store.votes().times.view(np.int64).tolist() == [NOW]


def test_no_pair_is_given_twice_and_each_is_judged_by_just_enough(bench: Bench) -> None:
    store = bench.ready(each=2)
    given: Counter[tuple[str, int]] = Counter()
    for turn in range(400):
        expert = PEOPLE[turn % len(PEOPLE)]
        for task in store.claim(expert, 1, NOW):
            given[expert, task.pair] += 1
            assert store.vote(expert, [say(task)], NOW) == ["kept"]
    assert set(given.values()) == {1}
    assert_exactly(store, bench.study.pool().pairs, 2)
    assert all(store.claim(expert, 3, NOW) == [] for expert in PEOPLE)


def test_a_hand_stays_and_is_filled_up(bench: Bench) -> None:
    store = bench.ready()
    first = store.claim("ann", 3, NOW)
    assert store.claim("ann", 3, NOW + 1) == first
    store.vote("ann", [say(first[1])], NOW)
    second = store.claim("ann", 3, NOW)
    assert second[:2] == [first[0], first[2]]
    assert second[2] not in first
    assert store.claim("ann", 2, NOW) == second[:2]
    assert store.claim("ann", 5, NOW)[:3] == second


def test_seats_run_out_and_are_taken_over_and_late_votes_are_enough(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW, seconds=60)
    assert store.claim("bob", 1, NOW + MINUTE - 1) == []
    assert store.claim("bob", 1, NOW + MINUTE) == [task]
    assert store.claim("ann", 1, NOW + MINUTE) == []
    assert store.vote("ann", [say(task, 0)], NOW + MINUTE) == ["enough"]
    assert store.vote("bob", [say(task, 1)], NOW + MINUTE) == ["kept"]
    assert store.vote("ann", [say(task, 0)], NOW + 9 * MINUTE) == ["enough"]
    assert store.votes().experts.tolist() == ["bob"]


def test_a_late_vote_counts_where_nobody_took_over(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW, seconds=60)
    assert store.vote("ann", [say(task)], NOW + YEAR) == ["kept"]
    assert store.claim("bob", 1, NOW + YEAR) == []


def test_empty_slots_are_given_before_those_that_ran_out(bench: Bench) -> None:
    """Who was away for a while has a chance as long as nobody needs the seat."""
    store = bench.ready(each=2, people=("ann", "bob", "eve"), budget=1)
    (task,) = store.claim("ann", 1, NOW, seconds=60)
    assert store.claim("bob", 1, NOW + 5 * MINUTE) == [task]
    assert [row["held"] for row in store.status().experts] == [1, 1, 0]
    assert store.vote("ann", [say(task)], NOW + 6 * MINUTE) == ["kept"]
    assert store.claim("eve", 1, NOW + 6 * MINUTE) == []


def test_seats_are_renewed_by_claiming(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW, seconds=60)
    assert store.claim("ann", 1, NOW + MINUTE // 2 + 1, seconds=60) == [task]
    assert store.claim("bob", 1, NOW + MINUTE + 1) == []
    assert store.claim("bob", 1, NOW + 2 * MINUTE) == [task]


def test_what_is_sent_again_counts_once_and_changed_content_is_refused(bench: Bench) -> None:
    store = bench.ready()
    first, second = store.claim("ann", 2, NOW)
    answer = say(first, 1, "one", seconds=1)
    assert store.vote("ann", [answer], NOW) == ["kept"]
    assert store.vote("ann", [answer, answer], NOW + MINUTE) == ["known", "known"]
    assert store.vote("ann", [say(first, 0, "one")], NOW) == ["changed"]
    assert store.vote("ann", [say(second, 1, "one")], NOW) == ["changed"]
    assert store.vote("bob", [say(first, 1, "one")], NOW) == ["changed"]
    assert store.vote("ann", [say(second, 1, "two"), say(second, 1, "two"), say(second, 0, "two")], NOW) == [
        "kept", "known", "changed",
    ]  # fmt: skip
    assert bench.open().vote("ann", [answer], NOW) == ["known"]
    assert len(store.votes()) == 2


def test_who_thinks_again_votes_again_and_the_last_counts(bench: Bench) -> None:
    store = bench.ready(each=1)
    (task,) = store.claim("ann", 1, NOW)
    for answer, now in ((1, NOW), (0, NOW), (1, NOW - YEAR), (0, 0), (-1, NOW - 1)):  # whatever the clock says
        assert store.vote("ann", [say(task, answer)], now) == ["kept"]
    votes = store.votes()
    assert votes.answers.tolist() == [1, 0, 1, 0, -1]
    assert votes.last().answers.tolist() == [-1]
    assert store.recent("ann") == [(task, -1)]
    assert store.progress("ann").done == 1


def test_later_brings_a_pair_back_when_nothing_else_is_left(bench: Bench) -> None:
    store = bench.ready(each=2, people=("ann", "bob"))
    first, second = store.claim("ann", 2, NOW)
    assert store.later("ann", second.pair, NOW)
    assert store.later("ann", first.pair, NOW + 1)
    assert store.task("ann", first.pair) == first
    seen = []
    while tasks := store.claim("ann", 1, NOW + 2):
        seen += tasks
        store.vote("ann", [say(tasks[0])], NOW + 2)
    assert seen[-2:] == [second, first]
    assert len(seen) == len(set(seen)) == len(bench.study.pool())
    assert not store.later("ann", first.pair, NOW)
    assert not store.later("ann", 999_999, NOW)


def test_what_was_put_off_may_be_judged_by_others_meanwhile(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW)
    store.later("ann", task.pair, NOW)
    assert store.claim("bob", 1, NOW) == [task]
    assert store.claim("ann", 1, NOW) == []
    store.later("bob", task.pair, NOW)
    assert store.claim("ann", 1, NOW) == [task]
    assert store.vote("ann", [say(task)], NOW) == ["kept"]
    assert store.claim("bob", 1, NOW) == []


def test_unknown_pairs_and_people(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    assert store.vote("ann", [say(987_654), say(-1), say(2**62)], NOW) == ["unknown"] * 3
    for call in (
        lambda: store.claim("zoe", 1, NOW),
        lambda: store.vote("zoe", [say(1)], NOW),
        lambda: store.later("zoe", 1, NOW),
        lambda: store.missing("zoe", 1, "item", NOW),
        lambda: store.progress("zoe"),
        lambda: store.revoke("zoe"),
        lambda: store.renew("zoe"),
    ):
        with pytest.raises(ExpertError, match="there is no expert 'zoe'") as caught:
            call()
        assert caught.value.reason == "unknown"
    assert store.expert("zoe") is None
    assert len(store.votes()) == 0


def test_who_is_revoked_or_expired_judges_no_more(bench: Bench) -> None:
    store, other = bench.ready(each=1, people=("ann", "bob"), budget=1), bench.open()
    (task,) = store.claim("ann", 1, NOW)
    assert other.revoke("ann", NOW).revoked == NOW
    for call in (
        lambda: store.claim("ann", 1, NOW),
        lambda: store.vote("ann", [say(task)], NOW),
        lambda: store.later("ann", task.pair, NOW),
        lambda: store.missing("ann", task.pair, "item", NOW),
    ):
        with pytest.raises(ExpertError, match="the link of 'ann' was taken back"):
            call()
    assert store.claim("bob", 1, NOW) == [task]  # what was in hand went back
    renewed = store.renew("ann", NOW + MINUTE)
    assert (renewed.link_number, renewed.revoked) == (2, None)
    assert other.expert("ann") == renewed
    assert store.claim("ann", 1, NOW) == []
    with pytest.raises(ExpertError, match="the link of 'ann' has expired"):
        store.claim("ann", 1, NOW + MINUTE)
    assert [expert.name for expert in store.experts()] == ["ann", "bob"]


def test_adding_someone_twice_changes_nothing_but_the_expiry(bench: Bench) -> None:
    store = bench.ready(people=())
    assert store.add_expert("ann") == store.add_expert("ann")
    store.renew("ann", NOW)
    assert store.add_expert("ann").expires == NOW
    assert store.add_expert("ann", NOW + 1).expires == NOW + 1
    assert store.expert("ann").link_number == 2
    for wrong in ("", " ann", "a\nb", "x" * 101, 7):
        with pytest.raises(ValueError, match=r"the name of an expert is text on one line"):
            store.add_expert(wrong)
    with pytest.raises(ValueError, match="expires is a time in milliseconds"):
        store.add_expert("bob", 1.5)  # type: ignore[arg-type]
    hostile = "<script>'\";--%\\"
    assert store.add_expert(hostile).name == hostile
    assert store.claim(hostile, 1, NOW)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"answer": 2}, "an answer is 1 .* got 2"),
        ({"answer": True}, "'answer' of an answer must be a whole number, got True"),
        ({"pair": "7"}, "'pair' of an answer must be a whole number, got '7'"),
        ({"pair": 2**63}, "'pair' of an answer must be"),
        ({"client": ""}, "the id of an answer is text of 1 to 100"),
        ({"client": "x" * 101}, "the id of an answer is text of 1 to 100"),
        ({"client": "a\0b"}, "the id of an answer is text"),
        ({"seconds": float("nan")}, "seconds must be a number from 0, got nan"),
        ({"seconds": -1}, "seconds must be a number from 0, got -1"),
        ({"at": 1.5}, "'at' of an answer must be a whole number, got 1.5"),
    ],
)
def test_answers_that_are_none_are_refused_with_words(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Answer(**({"client": "c", "pair": 1, "answer": 1} | wrong))


def test_settings_and_claims_out_of_bounds_are_refused_with_words(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    for wrong, sentence in (
        ({"experts_per_pair": 0}, "experts_per_pair must be a whole number from 1, got 0"),
        ({"order": "random"}, "order must be one of 'depth', 'adaptive', got 'random'"),
        ({"budget": -1}, "budget must be a whole number from 0, got -1"),
        ({"seed": "x"}, "seed must be a whole number from 0, got 'x'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            store.configure(**wrong)
    for n, seconds in ((0, 600), (101, 600), (1, 0), (1, 3601)):
        with pytest.raises(ValueError, match=r"an expert can have|a seat can be held"):
            store.claim("ann", n, NOW, seconds)
    with pytest.raises(ValueError, match="the side of a pair is 'query' or 'item', got 'left'"):
        store.missing("ann", 1, "left", NOW)  # type: ignore[arg-type]


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


# The record, and older and newer forms of it


def test_votes_cannot_be_changed_or_deleted(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    (task,) = store.claim("ann", 1, NOW)
    store.vote("ann", [say(task, 1, "once")], NOW)
    before = bench.run("SELECT * FROM votes")
    statements = ["UPDATE votes SET answer = 0", "UPDATE votes SET client = 'x'", "DELETE FROM votes"]
    if bench.on_postgres:
        statements += [
            "TRUNCATE votes",
            "INSERT INTO votes SELECT * FROM votes ON CONFLICT (number) DO UPDATE SET answer = 0",
        ]
    else:
        statements += ["INSERT OR REPLACE INTO votes SELECT * FROM votes"]
    statements += ["INSERT INTO votes (query, item, expert, answer, client) VALUES ('q', 'i', 'e', 1, 'once')"]
    for statement in statements:
        with pytest.raises(Exception, match=r"never (changed|deleted|replaced)|(?i:unique)"):
            bench.run(statement)
    assert bench.run("SELECT * FROM votes") == before


def test_the_database_holds_the_number_of_experts_itself(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob"), budget=1)
    (task,) = store.claim("ann", 1, NOW)
    for slot, expert in ((0, "bob"), (1, "ann"), (-1, "bob")):
        with pytest.raises(Exception, match=r"(?i)unique|check|pkey"):
            bench.run(
                "INSERT INTO places (pair, slot, expert, until, turn, voted) "
                f"VALUES ({task.pair}, {slot}, '{expert}', 0, 1, 1)"
            )


def test_votes_of_the_first_form_are_taken_on(bench: Bench) -> None:
    pool = bench.study.pool()
    full, half = pool.pairs[0], pool.pairs[1]
    earlier = Votes(
        [full[0], full[0], half[0], full[0]], [full[1], full[1], half[1], full[1]], ["ann", "panel", "ann", "ann"],
        [1, 0, -1, 0], ["2024-05-01", None, "2024-05-02", "2024-05-03"], [1.5, None, 2, 3],
    )  # fmt: skip
    bench.study.append_votes(earlier)
    store = bench.ready(each=2, people=("ann", "bob"))
    assert store.votes().digest == earlier.digest
    assert store.progress("ann").done == 2
    judge_together(store, ["ann", "bob"], [])
    found = voters(store)
    assert found[full] == {"ann", "panel"}
    assert found[half] == {"ann", "bob"}
    assert_exactly(store, pool.pairs, 2)
    assert store.votes()[: len(earlier)].digest == earlier.digest
    if not bench.on_postgres:
        assert bench.run("PRAGMA user_version") == [(NEWEST,)]
        assert bench.study.votes().digest == store.votes().digest


def test_votes_added_by_the_command_while_it_runs_are_seen(tmp_path: Path, template: Path) -> None:
    shutil.copytree(template, tmp_path / "study")
    study = Study.open(tmp_path / "study")
    with Store.open(None, study) as store:
        store.configure(1)
        store.add_expert("ann")
        store.add_expert("bob")
        first, second = store.claim("ann", 2, NOW)
        study.append_votes(Votes([first.query], [first.item], ["panel"], [1]))
        assert store.vote("ann", [say(first)], NOW) == ["enough"]
        assert store.claim("ann", 1, NOW) == [second]
        assert store.check() == []


def test_a_newer_form_is_refused_in_one_sentence(bench: Bench) -> None:
    bench.open().close()
    bench.run("UPDATE meta SET value = '3' WHERE key = 'schema'" if bench.on_postgres else "PRAGMA user_version = 3")
    with pytest.raises(ValueError, match="was written by a newer lookalike, in form 3: upgrade"):
        bench.open()


def test_a_migration_that_was_killed_is_done_again(tmp_path: Path, template: Path) -> None:
    shutil.copytree(template, tmp_path / "study")
    code = f"""
import os, signal
from lookalike.judging.store import schema
from lookalike.judging.store.store import Store
from lookalike.study.study import Study
schema._begin_meta = lambda connection: os.kill(os.getpid(), signal.SIGKILL)
Store.open(None, Study.open({str(tmp_path / "study")!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-9, "")
    study = Study.open(tmp_path / "study")
    study.append_votes(Votes(["i0000"], ["i0009"], ["ann"], [1]))
    with Store.open(None, study) as store:
        assert len(store.votes()) == 1
        assert store.check() == []


def test_a_file_that_is_no_record_is_refused(tmp_path: Path, template: Path) -> None:
    shutil.copytree(template, tmp_path / "study")
    study = Study.open(tmp_path / "study")
    other = tmp_path / "other.sqlite"
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE votes (x)")
    with pytest.raises(ValueError, match=r"other.sqlite is no record of votes: it is another SQLite database"):
        Store.open(other, study)
    with pytest.raises(ValueError, match=r"the database must be postgresql://… or the path of a file, got mysql://…"):
        Store.open("mysql://user:secret@host/name", study)
    (study.path / "votes.sqlite").write_bytes(b"nothing" * 1000)
    with pytest.raises(StoreAwayError, match=r"votes.sqlite cannot be used now: file is not a database"):
        Store.open(None, study, patience=0)


# Two databases of one study


def test_votes_on_a_server_come_into_the_study_once(bench: Bench) -> None:
    query, item = bench.study.pool().pairs[0]
    bench.study.append_votes(Votes([query, query], [item, item], ["panel", "panel"], [1, 1]))
    store = bench.ready(each=3, people=("ann", "bob"))
    judge_together(store, ["ann", "bob"], [])
    store.import_votes(Votes([query], [item], ["third"], [0]), add_experts=True)
    new = len(store.votes()) - 2 if bench.on_postgres else 0
    assert [store.copy_votes(bench.study), store.copy_votes(bench.study)] == [new, 0]
    assert bench.study.votes().digest == store.votes().digest
    bench.study.append_votes(Votes([query], [item], ["fourth"], [0]))
    again = bench.open()  # where the server gets what the study got meanwhile
    assert again.votes().digest == bench.study.votes().digest
    assert again.copy_votes(bench.study) == 0
    assert store.votes().digest == bench.study.votes().digest


def test_what_was_restored_from_a_backup_gets_its_votes_back_once(
    tmp_path: Path, template: Path, server: Server
) -> None:
    shutil.copytree(template, tmp_path / "study")
    study, url = Study.open(tmp_path / "study"), server.new_database()
    query, items = study.queries.ids[0], study.catalogue.ids
    backup = tmp_path / "backup.sqlite"
    study.append_votes(Votes([query], items[1:2], ["ann"], [1]))
    with contextlib.closing(sqlite3.connect(study.path / "votes.sqlite")) as old:
        old.execute(f"VACUUM INTO '{backup}'")
    with Store.open(url, study) as store:
        study.append_votes(Votes([query, query], items[1:3], ["bob", "bob"], [1, 0]))
    with Store.open(url, study) as store:
        everything = store.votes()
        assert len(everything) == 3
    for path in study.path.glob("votes.sqlite*"):
        path.unlink()
    shutil.copy(backup, study.path / "votes.sqlite")  # in its first form, with one vote of three
    study.append_votes(Votes([query], items[3:4], ["zoe"], [0]))
    with Store.open(None, study) as store:
        assert store.copy_votes(study) == 2
        assert Counter(rows_of(store.votes())) == Counter(rows_of(study.votes()))
        assert sorted(store.votes().experts.tolist()) == ["ann", "bob", "bob", "zoe"]


def test_two_copies_of_a_study_share_a_server_and_each_vote_is_there_once(
    tmp_path: Path, template: Path, server: Server
) -> None:
    url = server.new_database()
    for name, item in (("one", 1), ("two", 2)):
        shutil.copytree(template, tmp_path / name)
        study = Study.open(tmp_path / name)
        study.append_votes(Votes([study.queries.ids[0]], study.catalogue.ids[item : item + 1], ["ann"], [1]))
        with Store.open(url, study):
            pass
    with Store.open(url, study) as store:
        assert len(store.votes()) == 2


def test_a_database_that_another_program_uses_is_left_alone(tmp_path: Path, template: Path, server: Server) -> None:
    shutil.copytree(template, tmp_path / "study")
    study = Study.open(tmp_path / "study")
    for table in ("votes (a int)", "meta (a int)", "meta (key text, value text)"):
        url = server.new_database()
        server.run(f"CREATE TABLE {table}", url)
        with pytest.raises(ValueError, match="of something else"):
            Store.open(url, study)
        there = server.run("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema", url)
        assert there == [(table.partition(" ")[0],)]


def test_a_store_whose_study_has_moved_takes_nothing_more(tmp_path: Path, template: Path, server: Server) -> None:
    shutil.copytree(template, tmp_path / "study")
    study, url = Study.open(tmp_path / "study"), server.new_database()
    with Store.open(None, study, patience=0.1) as here:
        here.configure(2, "adaptive", 5, seed=3)
        here.brief("Alike?", "Look.")
        here.add_expert("ann")
        (task,) = here.claim("ann", 1)
        with Store.open(url, study, patience=0.1) as there:
            with pytest.raises(StoreAwayError, match="in another database"):
                here.vote("ann", [say(task)])
            assert there.status().settings == here_settings
            assert there.briefing() == Briefing("Alike?", "Look.")
            there.configure(1)
            there.copy_votes(study)
            forget_database(study)
            with pytest.raises(StoreAwayError, match="in another database"):
                there.claim("ann", 1)
        assert here.status().settings == {"experts_per_pair": 1, "order": "depth", "budget": None, "seed": 0}


here_settings = {"experts_per_pair": 2, "order": "adaptive", "budget": 5, "seed": 3}


def test_the_server_is_remembered_where_only_the_owner_reads(tmp_path: Path, template: Path, server: Server) -> None:
    shutil.copytree(template, tmp_path / "study")
    study, url = Study.open(tmp_path / "study"), server.new_database()
    with Store.open(url, study) as store:
        store.add_expert("ann")
        assert store.status().database == f"PostgreSQL, postgres on {server.folder / 'data'}"
    kept = study.path / "judging" / "database"
    assert kept.read_text().strip() == url
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    with Store.open(None, study) as store:
        assert [expert.name for expert in store.experts()] == ["ann"]
    other = make_study(tmp_path / "other", n_queries=4)
    with pytest.raises(ValueError, match="holds the judging of another study"):
        Store.open(url, other)
    assert not (other.path / "judging" / "database").exists()
    secret = url.replace("postgres@", "postgres:secret@").replace("/postgres?", "/nowhere?")
    with pytest.raises(StoreAwayError, match="nowhere") as caught:
        Store.open(secret, other, patience=0)
    assert "secret" not in str(caught.value)


# Importing


def test_importing_twice_adds_once(bench: Bench, tmp_path: Path) -> None:
    store = bench.ready(each=2, people=("ann", "bob"))
    judge_together(store, ["ann", "bob"], [])
    (task, _), *_ = store.recent("ann")
    store.vote("ann", [say(task, 0)], NOW)
    store.votes().write(tmp_path / "votes.csv")
    everything = Votes.read(tmp_path / "votes.csv")
    assert store.import_votes(everything) == Imported(0, len(everything), 0)
    other = make_study(tmp_path / "other")
    with Store.open(bench.server.new_database() if bench.on_postgres else None, other) as fresh:
        fresh.configure(2)
        with pytest.raises(VoteRefusedError, match="2 experts of these votes are not known here, such as 'ann'"):
            fresh.import_votes(everything)
        assert fresh.import_votes(everything, add_experts=True) == Imported(len(everything), 0, 0)
        assert fresh.import_votes(everything) == Imported(0, len(everything), 0)
        assert fresh.votes().digest == everything.digest
        assert fresh.claim("ann", 1, NOW) == []
        assert fresh.check() == []


def test_imports_that_contradict_are_refused_whole(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    (task,) = store.claim("ann", 1, NOW)
    store.vote("ann", [say(task, 1)], NOW)
    moment = np.array([NOW], "datetime64[ms]")
    pair = [task.query], [task.item]
    with pytest.raises(VoteRefusedError, match=r"'ann' says two things of query .* at the same time, 2025-06-15"):
        store.import_votes(Votes(*pair, ["ann"], [0], moment))
    with pytest.raises(ValueError, match="1 of 1 voted item ids are not in the catalogue, 'strange'"):
        store.import_votes(Votes([task.query], ["strange"], ["ann"], [0]))
    with pytest.raises(ValueError, match=r"the name of an expert is text on one line"):
        store.import_votes(Votes(*pair, [" ann "], [0]), add_experts=True)
    assert len(store.votes()) == 1
    assert store.import_votes(Votes(*pair, ["ann"], [0], moment + 1)) == Imported(1, 0, 0)
    assert store.recent("ann") == [(task, 0)]


def test_imported_votes_go_before_what_is_only_in_hand(bench: Bench) -> None:
    store = bench.ready(each=1, people=("ann", "bob", "eve"), budget=1)
    (task,) = store.claim("ann", 1, NOW)
    pair = [task.query], [task.item]
    assert store.import_votes(Votes(*pair, ["bob"], [0])) == Imported(1, 0, 0)
    assert store.claim("ann", 1, NOW) == []
    assert store.vote("ann", [say(task)], NOW) == ["enough"]
    assert store.import_votes(Votes(*pair, ["eve"], [0])) == Imported(1, 0, 1)
    assert store.vote("eve", [say(task)], NOW) == ["kept"]  # a change of mind adds nobody
    assert store.progress("ann").everybody_done == 1
    assert bench.open().progress("ann") == store.progress("ann")


# What the organiser sees


def test_the_status_and_images_that_are_missing(bench: Bench) -> None:
    store = bench.ready(each=2, people=("ann", "bob"))
    first, second = store.claim("ann", 2, NOW)
    store.vote("ann", [say(first)], NOW)
    store.later("ann", second.pair, NOW)
    store.claim("bob", 3, NOW)
    for _ in range(2):
        assert store.missing("bob", first.pair, "item", NOW + 1)
    assert not store.missing("bob", 999_999, "item", NOW)
    status, n = bench.open().status(), len(bench.study.pool())
    assert (status.pairs, status.begun, status.complete, status.in_pool, status.votes) == (n, 1, 0, n, 1)
    assert status.settings == {"experts_per_pair": 2, "order": "depth", "budget": None, "seed": 0}
    ann, bob = status.experts
    assert (ann["done"], ann["held"], ann["later"], ann["last"]) == (1, 0, 1, NOW)
    assert (bob["done"], bob["held"], bob["later"], bob["last"]) == (0, 3, 0, None)
    assert status.missing == [
        {"query": first.query, "item": first.item, "side": "item", "expert": "bob", "at": NOW + 1}
    ]


def test_a_check_finds_seats_without_votes(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    assert len(store.claim("ann", 1, NOW)) == 1
    assert store.check() == []
    bench.run("UPDATE places SET voted = 1")
    bench.run("INSERT INTO places (pair, slot, expert, until, turn, voted) VALUES (999999, 0, 'x', 0, 1, 0)")
    assert store.check() == [
        "1 seats are said to have a vote that is not in the record",
        "1 seats are at pairs that are not there",
    ]


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


def wait_for(happens: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# Everything at once, against a slow and obvious model of the rules


class Slots:
    """The model of a pair: a list of slots, each empty or [expert, until, voted]; what experts said, in order."""

    def __init__(self, wanted: int) -> None:
        self.slots: list[list[Any] | None] = [None] * wanted
        self.said: dict[str, int] = {}

    def of(self, expert: str) -> list[Any] | None:
        return next((slot for slot in self.slots if slot is not None and slot[0] == expert), None)

    def held(self, expert: str) -> bool:
        seat = self.of(expert)
        return seat is not None and not seat[2]

    @staticmethod
    def live(slot: list[Any], now: int) -> bool:
        return slot[2] or now < slot[1] <= now + LONGEST

    def room(self, now: int) -> bool:
        taken = len(self.said) + sum(slot is not None and not slot[2] and self.live(slot, now) for slot in self.slots)
        return taken < len(self.slots)

    def seat(self, expert: str, until: int, now: int, *, force: bool = False) -> bool:
        """Sit in the first empty slot, or that which ran out first, or by force in any without a vote."""
        if None in self.slots:
            self.slots[self.slots.index(None)] = [expert, until, False]
            return True
        free = [slot for slot in self.slots if slot is not None and not self.live(slot, now)]
        free = free or [slot for slot in self.slots if slot is not None and force and not slot[2]]
        if not free:
            return False
        first = min(free, key=lambda slot: slot[1])
        first[:] = [expert, until, False]
        return True


class Judging(RuleBasedStateMachine):
    """Two stores of one study, used in turn, do what the model says."""

    study: Study
    new_where: Callable[[], tuple[Study, str | None]]
    people = PEOPLE[:4]

    @initialize(each=st.integers(1, 3), budget=st.sampled_from([3, 6, None]))
    def begin(self, each: int, budget: int | None) -> None:
        study, self.where = type(self).new_where()
        self.judged_study = study
        self.stores = [Store.open(self.where, study) for _ in range(2)]
        self.stores[0].configure(each, budget=budget)
        for name in self.people:
            self.stores[0].add_expert(name)
        pairs = self.stores[0]._writer.do(lambda work: {n: (p.query, p.item) for n, p in work.board.pairs.items()})
        self.ids: dict[int, tuple[str, str]] = pairs
        self.pairs = {number: Slots(each) for number in pairs}
        self.each, self.now, self.clients = each, NOW, {}
        self.put_off: dict[str, list[int]] = {name: [] for name in self.people}
        self.revoked: set[str] = set()
        self.record: list[tuple[int, str, int]] = []
        self.imports = itertools.count(NOW + 50 * YEAR)  # later than everything: an import is what counts

    def teardown(self) -> None:
        for store in getattr(self, "stores", []):
            assert store.check() == []
            store.close()

    def refused(self, expert: str, call: Callable[[], Any]) -> bool:
        if expert in self.revoked:
            with pytest.raises(ExpertError, match="taken back"):
                call()
            return True
        return False

    @rule(step=st.sampled_from([0, 1, MINUTE, 10 * MINUTE, -MINUTE, -30 * MINUTE, 10 * YEAR, -10 * YEAR]))
    def time_goes(self, step: int) -> None:
        self.now = max(YEAR, self.now + step)

    @rule(
        which=st.integers(0, 1),
        expert=st.sampled_from(people),
        n=st.integers(1, 4),
        minutes=st.sampled_from([1, 10, 60]),
    )
    def claim(self, which: int, expert: str, n: int, minutes: int) -> None:
        call = lambda: self.stores[which].claim(expert, n, self.now, minutes * 60)  # noqa: E731
        if self.refused(expert, call):
            return
        before = {number for number, pair in self.pairs.items() if pair.held(expert)}
        tasks = call()
        given = [task.pair for task in tasks]
        assert [self.ids[task.pair] for task in tasks] == [(task.query, task.item) for task in tasks]
        assert len(set(given)) == len(given) <= n
        old, new = [p for p in given if p in before], [p for p in given if p not in before]
        assert given == old + new
        assert len(old) == min(n, len(before))
        until = self.now + minutes * MINUTE
        for number in old:
            seat = self.pairs[number].of(expert)
            assert seat is not None
            if not self.now + minutes * MINUTE // 2 <= seat[1] <= self.now + LONGEST:
                seat[1] = until
        open_to = self.open_to(expert)
        for number in new:
            assert number in open_to
            fresh = [p for p in open_to if p not in self.put_off[expert]]
            assert number in fresh or not fresh, "put off, and there was something else"
            assert self.pairs[number].seat(expert, until, self.now)
            open_to.remove(number)
        assert len(given) == n or not open_to or len(before) >= n

    def open_to(self, expert: str) -> list[int]:
        return [
            number
            for number, pair in self.pairs.items()
            if expert not in pair.said and pair.of(expert) is None and pair.room(self.now)
        ]

    @rule(
        which=st.integers(0, 1),
        expert=st.sampled_from(people),
        answer=st.sampled_from([1, 0, -1]),
        again=st.booleans(),
        data=st.data(),
    )
    def vote(self, which: int, expert: str, answer: int, again: bool, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([*self.pairs, 10**6]))
        held = [n for n, pair in self.pairs.items() if pair.held(expert)]
        if held and data.draw(st.booleans()):
            number = data.draw(st.sampled_from(held))
        client = data.draw(st.sampled_from(sorted(self.clients))) if again and self.clients else uuid.uuid4().hex
        call = lambda: self.stores[which].vote(expert, [Answer(client, number, answer)], self.now)  # noqa: E731
        if self.refused(expert, call):
            return
        content = (number, expert, answer)
        pair = self.pairs.get(number)
        if client in self.clients:
            expected = "known" if self.clients[client] == content else "changed"
        elif pair is None:
            expected = "unknown"
        elif expert in pair.said or pair.of(expert) is not None or pair.room(self.now):
            expected = "kept"
            self.clients[client] = content
            self.judged(pair, expert, number, answer)
        else:
            expected = "enough"
        assert call() == [expected]

    def judged(self, pair: Slots, expert: str, number: int, answer: int, *, force: bool = False) -> None:
        if expert not in pair.said and pair.of(expert) is None:
            pair.seat(expert, self.now, 0 if force else self.now, force=force)
        seat = pair.of(expert)
        if seat is not None:
            seat[2] = True
        pair.said[expert] = answer
        self.record.append((number, expert, answer))
        if number in self.put_off.get(expert, ()) and not force:
            self.put_off[expert].remove(number)

    @rule(which=st.integers(0, 1), expert=st.sampled_from(people), data=st.data())
    def later(self, which: int, expert: str, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([*self.pairs, 10**6]))
        call = lambda: self.stores[which].later(expert, number, self.now)  # noqa: E731
        if self.refused(expert, call):
            return
        pair = self.pairs.get(number)
        possible = pair is not None and expert not in pair.said
        assert call() == possible
        if possible and pair is not None:
            pair.slots = [None if slot is not None and slot[0] == expert else slot for slot in pair.slots]
            if number not in self.put_off[expert]:
                self.put_off[expert].append(number)

    @rule(
        which=st.integers(0, 1),
        expert=st.sampled_from([*people, "panel"]),
        answer=st.sampled_from([1, 0]),
        data=st.data(),
    )
    def import_vote(self, which: int, expert: str, answer: int, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([*self.pairs]))
        pair = self.pairs[number]
        if expert in pair.said:  # what counts is then a matter of times
            return
        query, item = self.ids[number]
        moment = np.array([next(self.imports)], "datetime64[ms]")
        found = self.stores[which].import_votes(Votes([query], [item], [expert], [answer], moment), add_experts=True)
        self.judged(pair, expert, number, answer, force=True)
        assert (found.added, found.known, found.beyond) == (1, 0, int(pair.of(expert) is None))

    @rule(which=st.integers(0, 1), expert=st.sampled_from(people))
    def revoke(self, which: int, expert: str) -> None:
        self.stores[which].revoke(expert, self.now)
        self.revoked.add(expert)
        for pair in self.pairs.values():
            if pair.held(expert):
                pair.slots = [None if slot is not None and slot[0] == expert else slot for slot in pair.slots]

    @rule(which=st.integers(0, 1), expert=st.sampled_from(people))
    def renew(self, which: int, expert: str) -> None:
        self.stores[which].renew(expert)
        self.revoked.discard(expert)

    @precondition(lambda self: len(self.record) > 3)
    @rule(which=st.integers(0, 1))
    def open_anew(self, which: int) -> None:
        self.stores[which].close()
        self.stores[which] = Store.open(self.where, self.judged_study)

    @invariant()
    def the_record_and_progress_are_the_models(self) -> None:
        if not hasattr(self, "stores"):
            return
        store = self.stores[len(self.record) % 2]
        votes = store.votes()
        expected = [(*self.ids[number], expert, answer) for number, expert, answer in self.record]
        columns = (votes.queries.tolist(), votes.items.tolist(), votes.experts.tolist(), votes.answers.tolist())
        assert list(zip(*columns, strict=True)) == expected
        last = votes.last()
        counted = {
            (pair, expert): answer
            for pair, expert, answer in zip(last.pairs, last.experts.tolist(), last.answers.tolist(), strict=True)
        }
        assert counted == {
            (self.ids[n], expert): answer for n, pair in self.pairs.items() for expert, answer in pair.said.items()
        }
        for expert in self.people[:2]:
            progress = store.progress(expert)
            assert progress.done == sum(expert in pair.said for pair in self.pairs.values())
            assert progress.left == sum(
                expert not in pair.said and len(pair.said) < self.each for pair in self.pairs.values()
            )
            assert progress.everybody_done == sum(min(self.each, len(pair.said)) for pair in self.pairs.values())
            assert progress.everybody_total == self.each * len(self.pairs)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_store_does_what_the_model_says(kind: str, tmp_path: Path, server: Server) -> None:
    template = make_study(tmp_path / "template", n_queries=2, n_items=6, k=2).path
    count = itertools.count()

    def new_where() -> tuple[Study, str | None]:
        folder = tmp_path / f"study{next(count)}"
        shutil.copytree(template, folder)
        return Study.open(folder), server.new_database() if kind == "postgresql" else None

    machine = type("Machine", (Judging,), {"new_where": staticmethod(new_where)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40 if kind == "sqlite" else 15,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


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
