"""Votes that come again: imported twice at once, moved between databases, and answers changed again and again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import psycopg
import pytest

from helpers.benches import NOW
from helpers.judges import Server
from lookalike.discovery.votes import Votes
from lookalike.judging.store.board import ALL_CHANGES, CHANGES, MINUTE
from lookalike.judging.store.databases import WRITERS
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Answer
from lookalike.study.study import Study


@pytest.mark.parametrize("isolation", ["read\\ committed", "repeatable\\ read", "serializable"])
def test_the_same_votes_imported_twice_at_once_are_there_once(study: Study, server: Server, isolation: str) -> None:
    """Whatever the server's own setting is, who has waited for another writer sees what that one wrote."""
    url = f"{server.new_database()}%20-cdefault_transaction_isolation%3D{quote(isolation)}"
    queries, items = zip(*study.pool().pairs, strict=True)
    votes = Votes(queries, items, ["ann"] * len(items), [1] * len(items))
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Store.open(url, study)) for _ in range(2)]
        stores[0].add_expert("ann")
        assert [store.status().votes for store in stores] == [0, 0]
        with psycopg.connect(server.url) as first, ThreadPoolExecutor(2) as threads:
            first.execute(f"SELECT pg_advisory_xact_lock({WRITERS})")
            imports = [threads.submit(store.import_votes, votes) for store in stores]
            while server.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != [(2,)]:
                assert not any(one.done() for one in imports)
                time.sleep(0.01)
            first.rollback()
            assert sorted(one.result().added for one in imports) == [0, len(votes)]
        assert len(stores[0].votes()) == len(votes)


def test_copies_of_one_vote_move_between_databases_however_they_came(study: Study, server: Server) -> None:
    """One that was brought along, and more that were imported where it was brought to."""
    url = server.new_database()
    query, item = study.pool().pairs[0]
    study.append_votes(Votes([query], [item], ["ann"], [1]))
    with Store.open(url, study) as store:
        store.import_votes(Votes([query] * 3, [item] * 3, ["ann"] * 3, [1] * 3), add_experts=True)
        assert len(store.votes()) == 3
        assert [store.copy_votes(study), store.copy_votes(study)] == [2, 0]
    assert len(study.votes()) == 3
    study.append_votes(Votes([query], [item], ["ann"], [1]))
    with Store.open(url, study) as store:
        assert len(store.votes()) == 4
        assert store.copy_votes(study) == 0


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, study: Study, server: Server) -> Iterator[list[Store]]:
    """Two stores of one study, as two workers have them."""
    where = server.new_database() if request.param == "postgresql" else None
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Store.open(where, study)) for _ in range(2)]
        opened[0].configure(2)
        for name in ("ann", "bob"):
            opened[0].add_expert(name)
        yield opened


@pytest.mark.parametrize("at", ["none", "now", "long ago"])
def test_an_answer_is_changed_so_often_a_minute_and_no_oftener(stores: list[Store], at: str) -> None:
    """Whichever worker is asked, and whatever the client says of the time."""
    task, other = stores[0].claim("ann", 2, NOW)
    said = {"none": None, "now": NOW, "long ago": NOW - 3_600_000}[at]
    answers = [Answer(f"{n}", task.pair, n % 2, at=said) for n in range(3 * CHANGES)]
    verdicts = [stores[n % 2].vote("ann", [answer], NOW)[0] for n, answer in enumerate(answers)]
    assert verdicts == ["kept"] * (1 + CHANGES) + ["often"] * (2 * CHANGES - 1)
    votes = stores[0].votes()
    assert votes.answers.tolist() == [n % 2 for n in range(1 + CHANGES)]
    assert votes.last().answers.tolist() == [CHANGES % 2]
    assert stores[1].vote("ann", answers[:3], NOW) == ["known"] * 3  # sent again: not counted, and not refused
    assert stores[1].vote("ann", [Answer("other", other.pair, 1)], NOW) == ["kept"]
    later = NOW + MINUTE + 2 * CHANGES
    for store in stores:
        assert store.vote("ann", [Answer(f"later {id(store)}", task.pair, 1)], later) == ["kept"]


def test_the_bound_outlasts_a_restart_and_is_each_experts_own(study: Study) -> None:
    with Store.open(None, study) as store:
        store.configure(2)
        for name in ("ann", "bob"):
            store.add_expert(name)
        task = store.claim("ann", 1, NOW)[0]
        store.vote("ann", [Answer(f"{n}", task.pair, 1) for n in range(1 + CHANGES)], NOW)
    with Store.open(None, study) as store:
        assert store.vote("ann", [Answer("one more", task.pair, 1)], NOW + 1000) == ["often"]
        assert store.vote("bob", [Answer(f"bob {n}", task.pair, 1) for n in range(3)], NOW + 1000) == ["kept"] * 3


def test_all_answers_of_an_expert_together_are_changed_so_often(study: Study) -> None:
    with Store.open(None, study) as store:
        store.configure(2)
        store.add_expert("ann")
        tasks = store.claim("ann", 35, NOW)
        assert {*store.vote("ann", [Answer(f"{task.pair}", task.pair, 1) for task in tasks], NOW)} == {"kept"}
        changes = [Answer(f"{turn} {task.pair}", task.pair, 0) for turn in range(CHANGES) for task in tasks]
        assert store.vote("ann", changes, NOW) == ["kept"] * ALL_CHANGES + ["often"] * (len(changes) - ALL_CHANGES)
        assert len(changes) > ALL_CHANGES
        assert len(store.votes()) == len(tasks) + ALL_CHANGES


def test_who_goes_to_and_fro_as_fast_as_the_page_lets_her_is_never_refused(study: Study) -> None:
    """Ten changes of each of some pairs, one after the other, as they come when a connection is back."""
    with Store.open(None, study) as store:
        store.configure(2)
        store.add_expert("ann")
        tasks = store.claim("ann", 12, NOW)
        waiting = [
            Answer(f"{turn} {task.pair}", task.pair, turn % 3 - 1, at=NOW - 300_000 + 1000 * turn)
            for task in tasks
            for turn in range(11)
        ]
        assert {*store.vote("ann", waiting, NOW)} == {"kept"}
        assert store.votes().last().answers.tolist() == [10 % 3 - 1] * len(tasks)
