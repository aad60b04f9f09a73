"""Notes, flags, verdicts and machines in the store, on SQLite and PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.benches import MINUTE, NOW, Bench, say, wait_for
from helpers.judges import judge_together, make_study
from lookalike.discovery.machines import machine_agreement
from lookalike.discovery.verdicts import TAKEN_BACK
from lookalike.discovery.votes import Votes
from lookalike.judging.store.machine_votes import MachineVotes, import_with_machines
from lookalike.judging.store.remarks import Remark, add_note, all_notes, all_verdicts, give_verdict, machines
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import ExpertError, Imported, VoteRefusedError
from lookalike.study.study import Study

NOTHING = Votes([], [], [], [])


def of_machine(bench: Bench, answers: dict[tuple[str, str], int], **more: Any) -> MachineVotes:
    queries, items = zip(*answers, strict=True)
    return MachineVotes("vlm", Votes(queries, items, ["vlm"] * len(answers), list(answers.values())), **more)


def test_a_note_that_is_sent_twice_is_kept_once_and_none_is_ever_changed(bench: Bench) -> None:
    store = bench.ready(people=("ann", "bob"))
    first, second = store.claim("ann", 2, NOW)
    note = Remark("n1", first.pair, "note", "  the handle differs\r\nsee left ")
    assert [add_note(store, "ann", note, now=NOW + at) for at in (0, 1)] == ["kept", "known"]
    assert add_note(store, "bob", note, now=NOW) == "changed"
    assert add_note(store, "ann", Remark("n1", first.pair, "note", "other"), now=NOW) == "changed"
    assert add_note(store, "ann", Remark("n2", 999_999, "note", "x"), now=NOW) == "unknown"
    assert add_note(store, "ann", Remark("n3", second.pair, "flag"), now=NOW + 2) == "kept"
    assert add_note(store, "bob", Remark("n4", second.pair, "flag", "grey"), now=NOW + 3) == "kept"
    assert add_note(store, "bob", Remark("n5", second.pair, "unflag"), now=NOW + 4) == "kept"
    notes = all_notes(bench.open())
    assert next(tuple(note) for note in notes) == (
        first.query, first.item, "ann", "note", "the handle differs\nsee left", NOW,
    )  # fmt: skip
    assert (len(notes), notes.written, notes.flagged) == (4, 1, {(second.query, second.item)})  # bob took his back
    for statement in (
        "UPDATE notes SET text = 'x'", "DELETE FROM notes", "UPDATE verdicts SET answer = 0", "DELETE FROM verdicts",
    ):  # fmt: skip
        if "verdicts" in statement and not bench.on_postgres:
            continue  # a trigger of SQLite sees rows, and there is none yet
        with pytest.raises(Exception, match=r"are never (changed|deleted)"):
            bench.run(statement)
    store.revoke("ann", NOW)
    with pytest.raises(ExpertError, match="was taken back"):
        add_note(store, "ann", Remark("n6", first.pair, "note", "late"), now=NOW)
    assert len(store.votes()) == 0
    assert store.vote("bob", [say(second)], NOW) == ["kept"]  # what is flagged can still be judged


def test_notes_have_limits(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    (task,) = store.claim("ann", 1, NOW)
    for kind, text, words in (
        ("note", " ", "needs some text"),
        ("note", "x" * 1001, "at most 1,000 characters, got 1,001"),
        ("note", "a\0b", "zero byte"),
        ("note", "\ud800", "signs that are none"),
        ("shout", "x", "is of the kind note, flag, unflag"),
    ):
        with pytest.raises(ValueError, match=words):
            Remark("n", task.pair, kind, text)
    outcomes = [add_note(store, "ann", Remark(f"n{n}", task.pair, "note", "x" * 1000), now=NOW) for n in range(61)]
    assert outcomes == ["kept"] * 60 + ["often"]
    assert add_note(store, "ann", Remark("n60", task.pair, "note", "x"), now=NOW + MINUTE) == "kept"


def test_the_last_verdict_counts_and_all_stay(bench: Bench) -> None:
    store = bench.ready(each=2, people=("ann", "bob"))
    (task,) = store.claim("ann", 1, NOW)
    pair = (task.query, task.item)
    assert give_verdict(store, pair, 1, "v0", NOW) == "unknown"  # nobody has voted on it
    store.vote("ann", [say(task, 1)], NOW)
    store.vote("bob", [say(task, 0)], NOW)
    before = store.votes().digest, store.progress("ann"), store.status()
    assert [give_verdict(store, pair, 1, "v1", NOW) for _ in range(2)] == ["kept", "known"]
    assert give_verdict(store, pair, 0, "v1", NOW) == "changed"
    assert give_verdict(store, pair, 0, "v2", NOW - MINUTE) == "kept"  # a clock that went back
    assert all_verdicts(bench.open()).by_pair == {pair: 0}
    assert give_verdict(store, pair, TAKEN_BACK, "v3", NOW) == "kept"
    verdicts = all_verdicts(store)
    assert (len(verdicts), [row.answer for row in verdicts]) == (0, [1, 0, TAKEN_BACK])
    for wrong in (5, -3, True, 1.0):
        with pytest.raises(ValueError, match="a verdict is a grade"):
            give_verdict(store, pair, wrong, "v4", NOW)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="verdicts are never changed"):
        bench.run("UPDATE verdicts SET answer = 0")
    assert (store.votes().digest, store.progress("ann"), store.status()) == before  # no vote, no seat


def test_a_machine_takes_no_seat_and_counts_nowhere_unless_asked(bench: Bench) -> None:
    store = bench.ready(each=2, people=("ann", "bob"))
    judge_together(store, ["ann"], [])
    pairs = bench.study.pool().pairs
    before = store.status()
    answers = dict.fromkeys(pairs, 1)
    why = ["=both blue" if at == 0 else "" for at in range(len(pairs))]
    machine = of_machine(bench, answers, why=why)
    assert import_with_machines(store, bench.study, NOTHING, [machine], now=NOW) == Imported(len(pairs), 0, 0)
    assert import_with_machines(store, bench.study, NOTHING, [machine], now=NOW + 5) == Imported(0, len(pairs), 0)
    other = bench.open()
    for one in (store, other):
        status = one.status()
        assert (status.everybody_done, status.everybody_total) == (before.everybody_done, before.everybody_total)
        assert (status.begun, status.complete, status.experts) == (before.begun, before.complete, before.experts)
        assert machines(one) == {"vlm"}
        assert set(one.votes().experts) == {"ann"}
        assert len(one.votes(machines=True)) == len(one.votes()) + len(pairs)
        assert one.check() == []
    assert [(note.expert, note.text) for note in all_notes(store)] == [("vlm", "=both blue")]
    judge_together(store, ["bob"], [])  # every seat is still there for people
    assert store.status().complete == len(pairs)
    # it changes its mind, and goes back: what comes last counts
    first = pairs[0]
    for n, answer in enumerate((0, 1)):
        changed = of_machine(bench, {first: answer})
        assert import_with_machines(store, bench.study, NOTHING, [changed], now=NOW + 10 + n) == Imported(1, 0, 0)
    everything = store.votes(machines=True)
    mine = everything[(everything.experts == "vlm") & (everything.queries == first[0]) & (everything.items == first[1])]
    assert mine.answers.tolist() == [1, 0, 1]
    assert mine.last().answers.tolist() == [1]
    of_vlm = everything[everything.experts == "vlm"]
    (figures,) = machine_agreement(store.votes(), of_vlm).machines
    assert figures.figures.votes == len(pairs)
    assert [name for name, *_ in figures.kappas] == ["ann", "bob"]


def test_a_name_is_a_persons_or_a_machines(bench: Bench) -> None:
    store = bench.ready(people=("ann", "bob"))
    (task,) = store.claim("ann", 1, NOW)
    pair = (task.query, task.item)
    store.import_votes(Votes([task.query], [task.item], ["joe"], [1]), add_experts=True)
    for name in ("ann", "joe"):
        votes = Votes([task.query], [task.item], [name], [1])
        with pytest.raises(VoteRefusedError, match=f"'{name}' is the name of a person who judges here"):
            import_with_machines(store, bench.study, NOTHING, [MachineVotes(name, votes)])
    assert machines(store) == frozenset()
    import_with_machines(store, bench.study, NOTHING, [of_machine(bench, {pair: 1})], now=NOW)
    as_person = Votes([task.query], [task.item], ["vlm"], [0])
    for act in (lambda: store.add_expert("vlm"), lambda: store.import_votes(as_person, add_experts=True)):
        with pytest.raises(VoteRefusedError, match="'vlm' is a machine in this study"):
            act()
    everything = len(store.votes(machines=True))
    twice = Votes([task.query] * 2, [task.item] * 2, ["vlm"] * 2, [1, 0])
    people = Votes([task.query], [task.item], ["bob"], [1])
    with pytest.raises(VoteRefusedError, match="the machine 'vlm' says two things"):  # and nothing of people is kept
        import_with_machines(store, bench.study, people, [MachineVotes("vlm", twice)])
    at = np.array([NOW], "datetime64[ms]")
    contrary = MachineVotes("vlm", Votes([task.query], [task.item], ["vlm"], [0], at))
    with pytest.raises(VoteRefusedError, match="the machine 'vlm' says two things"):
        import_with_machines(store, bench.study, people, [contrary])
    assert len(store.votes(machines=True)) == everything
    if not bench.on_postgres:
        with pytest.raises(ValueError, match="'vlm' is a machine in the study"):
            bench.study.append_votes(as_person)


def test_remarks_travel_between_databases_each_once(bench: Bench, tmp_path: Path) -> None:
    if not bench.on_postgres:
        pytest.skip("between the two")
    study = bench.study
    with Store.open(None, study) as own:  # first in the study's own file
        own.configure(2)
        own.add_expert("ann")
        (task,) = own.claim("ann", 1, NOW)
        own.vote("ann", [say(task)], NOW)
        pair = (task.query, task.item)
        add_note(own, "ann", Remark("n1", task.pair, "flag", "grey"), now=NOW)
        give_verdict(own, pair, 0, "v1", NOW)
        import_with_machines(own, study, NOTHING, [of_machine(bench, {pair: 0}, why=["dull"])], now=NOW)
    there = bench.ready(people=("ann",))
    assert (len(all_notes(there)), len(all_verdicts(there)), machines(there)) == (2, 1, {"vlm"})
    assert len(there.votes()) == 1
    give_verdict(there, pair, 1, "v2", NOW + 1)
    add_note(there, "ann", Remark("n2", there.recent("ann")[0][0].pair, "note", "ok"), now=NOW + 1)
    for _ in range(2):
        there.copy_votes(study)
    assert study.verdicts().by_pair == {pair: 1}
    assert [note.text for note in study.notes()] == ["grey", "dull", "ok"]
    assert (study.machines(), len(study.votes()), len(study.votes(machines=True))) == ({"vlm"}, 1, 2)
    assert study.notes() == all_notes(bench.open())
    # a name that is a person's in one database and a machine's in the other
    other = make_study(tmp_path / "other")
    where = bench.server.new_database()
    with Store.open(where, other) as server, Store.open(tmp_path / "own.sqlite", other) as plain:
        import_with_machines(plain, other, NOTHING, [of_machine(bench, {pair: 0})], now=NOW)
        server.add_expert("vlm")
    (tmp_path / "own.sqlite").replace(other.path / "votes.sqlite")
    with pytest.raises(ValueError, match="'vlm' is a machine in one database of this study, and a person in the other"):
        Store.open(where, other)


def test_a_study_of_before_opens_and_gets_the_tables(study: Study) -> None:
    with Store.open(None, study) as store:
        store.configure(2)
    bench = Bench(study, None, None)  # type: ignore[arg-type]
    for table in ("notes", "verdicts", "machines"):
        bench.run(f"DROP TABLE {table}")
    assert (len(study.notes()), len(study.verdicts()), study.machines()) == (0, 0, frozenset())
    assert len(study.votes()) == 0
    with Store.open(None, study) as store:
        assert (len(all_notes(store)), len(all_verdicts(store)), machines(store)) == (0, 0, frozenset())


WRITING = """
    import sys
    from lookalike.judging.store.remarks import Remark, add_note, give_verdict
    from lookalike.judging.store.store import Store
    from lookalike.study.study import Study
    with Store.open(sys.argv[2] or None, Study.open(sys.argv[1])) as store:
        (task,) = store.claim("ann", 1)
        for number in range(10**6):
            at = 1_750_000_000_000 + 60_000 * number
            assert add_note(store, "ann", Remark(f"n{number}", task.pair, "note", f"text {number}"), now=at) == "kept"
            print("n", number, flush=True)
            assert give_verdict(store, (task.query, task.item), number % 2, f"v{number}", at) == "unknown"
"""


def test_what_was_acknowledged_survives_a_kill(bench: Bench) -> None:
    bench.ready(people=("ann",)).close()
    command = [sys.executable, "-c", textwrap.dedent(WRITING), str(bench.study.path), bench.where or ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    told = [int(line.split()[1]) for line in lines if line.endswith("\n")]
    assert len(told) >= 20
    found: list[str] = []
    wait_for(lambda: bool(found.extend(note.text for note in all_notes(bench.open())) or found))
    assert found[: len(told)] == [f"text {number}" for number in told]
    assert len(found) - len(told) in (0, 1)  # the last may be on disk, and not told
