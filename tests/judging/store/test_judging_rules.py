"""The rules of judging: votes, seats, experts who may judge and those who may not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from helpers.benches import MINUTE, NOW, PEOPLE, YEAR, Bench, assert_exactly, say
from lookalike.judging.store.types import Answer, ExpertError

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
        ({"answer": 5}, "an answer is a grade from 0 on, .* got 5"),
        ({"answer": -2}, "an answer is a grade from 0 on, .* got -2"),
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
