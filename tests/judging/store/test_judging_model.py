"""The store against a slow and obvious model of the rules, everything at once."""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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

from helpers.benches import MINUTE, NOW, PEOPLE, YEAR
from helpers.judges import Server, make_study
from lookalike.discovery.votes import Votes
from lookalike.judging.store.pairs import LONGEST
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Answer, ExpertError
from lookalike.study.study import Study

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
        sheet=st.sampled_from([1, 1, 2, 5]),
    )
    def claim(self, which: int, expert: str, n: int, minutes: int, sheet: int) -> None:
        call = lambda: self.stores[which].claim(expert, n, self.now, minutes * 60, sheet=sheet)  # noqa: E731
        if self.refused(expert, call):
            return
        before = {number for number, pair in self.pairs.items() if pair.held(expert)}
        tasks = call()
        given = [task.pair for task in tasks]
        assert [self.ids[task.pair] for task in tasks] == [(task.query, task.item) for task in tasks]
        assert len(set(given)) == len(given)
        assert len(given) <= (n if sheet == 1 else max(n - 1 + sheet, len(before)))
        old, new = [p for p in given if p in before], [p for p in given if p not in before]
        assert given == old + new
        assert len(old) == (min(n, len(before)) if sheet == 1 else len(before))
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
        assert len(given) >= n or not open_to or len(before) >= n

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
