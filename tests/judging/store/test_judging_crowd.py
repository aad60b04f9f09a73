"""People who come by an open link, in the store, on both databases: caps, screening, completion."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from helpers.benches import NOW, Bench, say
from lookalike.core.errors import InputError
from lookalike.judging.store.crowd import (
    CrowdFullError,
    admit,
    close_crowd,
    counted_votes,
    crowd_link,
    crowd_members,
    join_crowd,
    member_of,
    open_crowd,
)
from lookalike.judging.store.gates import CrowdMember, CrowdTerms, Gates
from lookalike.judging.store.participants import expert_rows
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import VoteRefusedError


def work(store: Store, name: str, answer: Callable[[str, str], int] = lambda query, item: 1, n: int = 100) -> list[str]:
    """Judge up to n pairs, one at a time; the verdicts."""
    said: list[str] = []
    while len(said) < n and (tasks := store.claim(name, 1, NOW)):
        said += store.vote(name, [say(tasks[0], answer(tasks[0].query, tasks[0].item))], NOW)
    return said


def with_gold(bench: Bench, n: int = 6) -> dict[tuple[str, str], int]:
    gold = {(f"i{q:04}", f"i{25 + q:04}"): q % 2 for q in range(min(n, 5))} | {("i0000", "i0029"): 1}
    bench.study.set_gold([(*pair, grade) for pair, grade in gold.items()])
    return gold


def test_everybody_by_the_link_judges_so_many_pairs_and_completes(bench: Bench) -> None:
    store = bench.ready(3, people=("ann",))
    open_crowd(store, CrowdTerms("C0DE", pairs_each=4, most_experts=3))
    link = crowd_link(store)
    assert link == 1
    names = [join_crowd(store, link, participant, NOW).name for participant in ("p1", None, "p1")]
    assert names == ["crowd-0001", "crowd-0002", "crowd-0001"]
    handed = store.hand_out("crowd-0001", 1, 12, now=NOW).result(10)
    assert (len(handed.tasks), handed.progress.total, handed.closed) == (4, 4, None)
    put_off, *rest = handed.tasks
    store.later("crowd-0001", put_off.pair, NOW)
    assert len(store.claim("crowd-0001", 12, NOW)) == 4  # another in its place
    assert work(store, "crowd-0001") == ["kept"] * 4
    assert store.vote("crowd-0001", [say(put_off)], NOW) == ["unknown"]  # more than four are not taken
    assert store.vote("crowd-0001", [say(rest[0], 0)], NOW) == ["kept"]  # but a mind may change
    handed = store.hand_out("crowd-0001", 1, 12, now=NOW).result(10)
    assert (handed.tasks, handed.progress.left, handed.closed) == ([], 0, "end")
    member = member_of(store, "crowd-0001")
    assert member is not None
    assert member.completed == NOW
    assert member_of(store, "ann") is None
    join_crowd(store, link, "p3")
    with pytest.raises(CrowdFullError, match="enough people"):
        join_crowd(store, link, "p4")
    assert join_crowd(store, link, "p3").name == "crowd-0003"
    assert len(store.claim("ann", 12, NOW)) == 12  # who has a link of their own has no such cap
    rows = {row["expert"]: row for row in expert_rows(store, bench.study)}
    assert rows["crowd-0001"]["participant"] == "p1"
    assert rows["crowd-0001"]["completed"].endswith("Z")
    assert (rows["ann"]["link"], rows["crowd-0002"]["link"]) == ("personal", "open")
    close_crowd(store)
    with pytest.raises(CrowdFullError, match="closed"):
        join_crowd(store, link, "p1")
    assert len(store.claim("crowd-0002", 12, NOW)) == 4  # who has begun goes on
    open_crowd(store, CrowdTerms("C0DE", pairs_each=4, most_experts=9))
    with pytest.raises(CrowdFullError, match="closed"):
        join_crowd(store, link, None)  # the old link stays dead
    assert crowd_link(store) == 2
    assert store.check() == []


def test_the_cap_is_exact_for_several_processes(bench: Bench) -> None:
    stores = [bench.ready(1, people=()), bench.open()]
    open_crowd(stores[0], CrowdTerms("C", most_experts=7))
    refused = []

    def come(store: Store) -> None:
        for _ in range(6):
            try:
                join_crowd(store, 1, None)
            except CrowdFullError as error:
                refused.append(error.reason)

    threads = [threading.Thread(target=come, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [member.expert for member in crowd_members(stores[0])] == [f"crowd-{n:04}" for n in range(1, 8)]
    assert refused == ["full"] * 5


def test_who_misses_gold_pairs_is_screened_out_and_others_take_the_seats(bench: Bench) -> None:
    gold = with_gold(bench)
    store = bench.ready(1, people=("ann",), budget=20)
    terms = CrowdTerms("C0DE", 12, 10, screen=0.5, screen_after=4)
    open_crowd(store, terms)
    for participant in ("good", "bad"):
        join_crowd(store, 1, participant, NOW)

    def right(query: str, item: str) -> int:
        return gold.get((query, item), 1)

    said = work(store, "crowd-0002", lambda query, item: -1 if (query, item) in gold else 1)
    bad = member_of(store, "crowd-0002")
    assert bad is not None
    assert (bad.screened, bad.correct, bad.asked) == (NOW, 0, 4)
    assert 4 <= len(said) <= 6  # four gold pairs are among the first six
    assert store.claim("crowd-0002", 3, NOW) == []
    assert store.hand_out("crowd-0002", 1, 3).result(10).closed == "end"
    bad_votes = len(store.votes())
    assert work(store, "crowd-0001", right) == ["kept"] * 12
    good = member_of(store, "crowd-0001")
    assert good is not None
    assert (good.screened, good.correct, good.asked) == (None, 4, 4)
    votes = store.votes()
    assert len(votes) == bad_votes + 12
    counted = counted_votes(store, votes)
    assert set(counted.experts.tolist()) == {"crowd-0001"}
    # Each pair still gets one vote that counts
    work(store, "ann", right)
    counted = counted_votes(store, store.votes())
    released = {pair for pair in counted.pairs if pair not in gold}
    by_pair = np.unique([" ".join(pair) for pair in counted.pairs if pair not in gold], return_counts=True)[1]
    assert (len(released), set(by_pair.tolist())) == (20, {1})
    store.configure(2, budget=20)  # the seats of votes that do not count stay free for others
    assert {row[0] for row in bench.run("SELECT wanted FROM pairs WHERE wanted IS NOT NULL")} == {2, 3}
    store.copy_votes(bench.study)
    assert len(bench.study.counted_votes()) == len(bench.study.votes()) - bad_votes
    assert admit(store, "crowd-0002", NOW) == "the votes of crowd-0002 count again"
    store.copy_votes(bench.study)
    assert len(bench.study.counted_votes()) == len(bench.study.votes())
    assert len(store.claim("crowd-0002", 12, NOW)) == 12 - len(said)
    assert admit(store, "crowd-0002") == "crowd-0002 may judge already"
    assert store.check() == []


def test_a_batch_ends_where_somebody_is_screened_out(bench: Bench) -> None:
    gold = with_gold(bench)
    store = bench.ready(2, people=())
    open_crowd(store, CrowdTerms("C", 12, 5, screen=1, screen_after=2))
    join_crowd(store, 1, None, NOW)
    tasks = store.claim("crowd-0001", 12, NOW)
    verdicts = store.vote("crowd-0001", [say(task, -1) for task in tasks], NOW)
    last = [(task.query, task.item) in gold for task in tasks].index(True)
    second = [(task.query, task.item) in gold for task in tasks].index(True, last + 1)
    assert second < 6
    assert verdicts == ["kept"] * (second + 1) + ["unknown"] * (11 - second)
    assert store.check() == []


def test_gold_pairs_come_in_the_first_half_at_turns_of_chance() -> None:
    terms = CrowdTerms("C", 20, screen=0.7, screen_after=3)
    gates = Gates(terms=terms, crowd={"c": CrowdMember("c", None, 0)})
    rng, turns = np.random.default_rng(0), np.zeros(20)
    for _ in range(4000):
        given = 0
        for turn in range(20):
            chance = gates.gold_chance("c", turn, given)
            if chance is not None and rng.random() < chance:
                given += 1
                turns[turn] += 1
        assert given == 3
    assert (turns[10:] == 0).all()
    assert np.abs(turns[:10] / 4000 - 0.3).max() < 0.03  # each as likely as any other
    assert gates.gold_chance("ann", 0, 0) is None


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"code": ""}, "a completion code is one line"),
        ({"code": "a\nb"}, "a completion code is one line"),
        ({"code": "c", "pairs_each": 0}, "pairs_each must be a whole number from 1"),
        ({"code": "c", "most_experts": 10**9}, "most_experts must be a whole number from 1 to 100000"),
        ({"code": "c", "screen": 1.5}, "share of gold pairs that must be right"),
        ({"code": "c", "screen": 0.5, "pairs_each": 6}, "within the first half"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        CrowdTerms(**terms)  # type: ignore[arg-type]


def test_screening_needs_gold_pairs(bench: Bench) -> None:
    store = bench.ready(1, people=())
    with pytest.raises(VoteRefusedError, match="by 5 gold pairs, and the study has 0"):
        open_crowd(store, CrowdTerms("C", screen=0.5))
    assert crowd_link(store) is None
