"""Practice in the store, on both databases: rounds, the score, who may begin, and that nothing of it is a vote."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from helpers.benches import NOW, Bench, say
from lookalike.core.errors import InputError
from lookalike.judging.store.crowd import admit
from lookalike.judging.store.practice import (
    Practice,
    PracticeAnswer,
    PracticePair,
    answer_practice,
    needed_practice,
    practisers,
    set_practice,
)
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import ExpertError, VoteRefusedError

PAIRS = tuple(PracticePair("i0000", f"i{20 + n:04}", n % 2, f"because of {n}") for n in range(5))
PRACTICE = Practice(PAIRS)


def practise(store: Store, name: str, number: int, wrong: int = 0) -> list[PracticePair]:
    """A round, of which the first answers are wrong."""
    seen = []
    for place in range(len(PAIRS)):
        right = PRACTICE.in_order(name, number)[place].answer
        answer = (-1 if place % 2 else 1 - right) if place < wrong else right
        seen.append(answer_practice(store, name, 1, PracticeAnswer(PRACTICE.mark, number, place, answer)))
    return seen


def test_nobody_gets_a_pair_before_the_practice_is_passed(bench: Bench) -> None:
    store = bench.ready(people=("ann", "bob", "eve"))
    (task, *_) = store.claim("eve", 2, NOW)
    store.vote("eve", [say(task)], NOW)  # who had begun before is not stopped
    set_practice(store, PRACTICE, NOW)
    assert store.claim("ann", 3, NOW) == []
    assert store.hand_out("ann", 1, 3).result(10).closed == "practice"
    assert len(store.claim("eve", 3, NOW)) == 3
    assert needed_practice(store, "eve") is None
    first = practise(store, "ann", 1, wrong=2)  # 3 of 5, and 4 are needed
    assert store.claim("ann", 3, NOW) == []
    (ann,) = [one for one in practisers(store, PRACTICE).values() if one.waits]
    assert (ann.expert, ann.rounds, ann.right, ann.asked) == ("ann", 1, 3, 5)
    second = practise(store, "ann", 2, wrong=1)  # 4 of 5 is 0.8
    assert first != second
    assert sorted(pair.item for pair in first) == sorted(pair.item for pair in second)
    assert len(store.claim("ann", 3, NOW)) == 3
    assert store.hand_out("ann", 1, 3).result(10).closed is None
    other = bench.open()  # another process
    assert other.claim("bob", 3, NOW) == []
    assert len(other.claim("ann", 3, NOW)) == 3
    assert admit(store, "bob", NOW) == "bob may begin"
    assert len(other.claim("bob", 3, NOW)) == 3
    assert [one.how for one in practisers(store, PRACTICE).values()] == ["passed", "admitted", "before"]
    assert len(store.votes()) == 1  # that of eve
    assert store.status().votes == 1
    assert store.check() == []


def test_an_answer_of_practice_counts_once_and_in_order(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    set_practice(store, PRACTICE)
    right = PRACTICE.in_order("ann", 1)[0].answer
    for answer in (1 - right, right):  # the first one stays
        answer_practice(store, "ann", 1, PracticeAnswer(PRACTICE.mark, 1, 0, answer))
    assert bench.run("SELECT place, correct FROM practice") == [(0, 0)]
    for number, place in ((1, 2), (1, 5), (2, 0), (3, 0)):
        with pytest.raises(VoteRefusedError, match="another pair of the practice comes next"):
            answer_practice(store, "ann", 1, PracticeAnswer(PRACTICE.mark, number, place, 1))
    with pytest.raises(VoteRefusedError, match="has changed"):
        answer_practice(store, "ann", 1, PracticeAnswer("0" * 16, 1, 1, 1))
    with pytest.raises(ExpertError):
        answer_practice(store, "ann", 2, PracticeAnswer(PRACTICE.mark, 1, 1, 1))
    with pytest.raises(Exception, match="never changed or deleted"):
        bench.run("UPDATE practice SET correct = 1")
    with pytest.raises(Exception, match="never changed or deleted"):
        bench.run("DELETE FROM practice")


def test_another_practice_leaves_those_who_have_passed(bench: Bench) -> None:
    store = bench.ready(people=("ann", "bob"))
    set_practice(store, PRACTICE)
    practise(store, "ann", 1)
    answer_practice(store, "bob", 1, PracticeAnswer(PRACTICE.mark, 1, 0, 0))
    other = Practice(PAIRS[:2], 0.5)
    set_practice(store, other)
    assert needed_practice(store, "ann") is None
    assert needed_practice(store, "bob") == other
    for place in range(2):
        answer_practice(store, "bob", 1, PracticeAnswer(other.mark, 1, place, other.in_order("bob", 1)[0].answer))
    assert needed_practice(store, "bob") is None  # one of two is 0.5
    set_practice(store, None)
    store.add_expert("eve")
    assert len(store.claim("eve", 2)) == 2


def test_practice_moves_with_the_votes(bench: Bench) -> None:
    store = bench.ready(people=("ann", "bob"))
    set_practice(store, PRACTICE)
    practise(store, "ann", 1)
    practise(store, "bob", 1, wrong=5)
    if not bench.on_postgres:
        return
    store.copy_votes(bench.study)
    store.copy_votes(bench.study)  # again: nothing twice
    engine = sa.create_engine(f"sqlite:///{bench.study.path / 'votes.sqlite'}")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM practice").scalar_one() == 10
        assert connection.exec_driver_sql("SELECT expert, how FROM practised").all() == [("ann", "passed")]
    engine.dispose()


def test_a_practice_has_pairs_and_a_share() -> None:
    with pytest.raises(InputError, match="from 1 to 100 pairs, got 0"):
        Practice(())
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="share of the practice that must be right"):
            Practice(PAIRS, share)
    assert [Practice(PAIRS, 0.8).passes(n) for n in (3, 4)] == [False, True]
    assert Practice(PAIRS * 2, 0.7).passes(7)  # 0.7 · 10 is a little more than 7 in floats
