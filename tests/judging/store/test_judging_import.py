"""Votes that are imported, and what the organiser sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.benches import NOW, Bench, say
from helpers.judges import judge_together, make_study
from lookalike.discovery.votes import Votes
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Imported, VoteRefusedError

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
