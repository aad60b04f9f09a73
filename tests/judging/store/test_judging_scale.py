"""A scale in the databases of votes, and pairs that all experts judge."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.benches import NOW, PEOPLE, Bench, say, voters
from helpers.judges import make_study
from lookalike.core.errors import FileError
from lookalike.discovery import vote_log
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.votes import Votes
from lookalike.judging.store import schema
from lookalike.judging.store.location import forget_database
from lookalike.judging.store.scale import set_scale, stored_scale
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

THREE = Scale.parse("0 not alike, 1 related, 2 alike")
OTHER = Scale.parse("0 no, 1 perhaps, 2 yes")


# A scale


def test_answers_on_a_scale_are_kept_and_stay(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    store = bench.ready(people=("ann", "bob"))
    assert (stored_scale(store), store.votes().scale, bench.study.scale) == (BINARY, BINARY, BINARY)
    assert set_scale(store, OTHER)
    assert set_scale(store, THREE)
    assert not set_scale(store, THREE)
    assert (stored_scale(store), bench.study.scale) == (THREE, THREE)  # also the study's own file knows it
    tasks = store.claim("ann", 4, NOW)
    answers = [say(task, grade) for task, grade in zip(tasks, (2, 1, 0, -1), strict=True)]
    assert store.vote("ann", answers, NOW) == ["kept"] * 4
    assert store.vote("ann", answers, NOW) == ["known"] * 4
    assert store.vote("bob", [say(tasks[0], 3), say(tasks[0], 2, scale=OTHER.mark)], NOW) == ["scale", "scale"]
    assert store.vote("bob", [say(tasks[0], 1, scale=THREE.mark)], NOW) == ["kept"]
    votes = store.votes()
    assert (votes.scale, votes.answers.tolist()) == (THREE, [2, 1, 0, -1, 1])
    assert set_scale(store, THREE) is False
    with pytest.raises(
        ValueError, match="the scale stays '0 not alike, 1 related, 2 alike', because 5 votes are on it"
    ):
        set_scale(store, OTHER)
    for answer in (3, -2, 9):
        with pytest.raises(Exception, match=r"(?i)check"):
            bench.run(f"INSERT INTO votes (query, item, expert, answer) VALUES ('q', 'i', 'e', {answer})")
    for statement in ("UPDATE votes SET answer = 0", "DELETE FROM votes"):
        with pytest.raises(Exception, match=r"never (changed|deleted)"):
            bench.run(statement)
    assert store.check() == []
    with Store.open(bench.where, bench.study) as another:  # a process of its own reads the same
        assert another.votes().digest == votes.digest
        assert another.vote("bob", [say(tasks[1], 3)], NOW) == ["scale"]
    form = "SELECT value FROM meta WHERE key = 'schema'" if bench.on_postgres else "PRAGMA user_version"
    assert [int(row[0]) for row in bench.run(form)] == [vote_log.NEWEST]
    monkeypatch.setattr(vote_log, "NEWEST", vote_log.JUDGED)  # as a version without scales has it
    monkeypatch.setattr(schema, "NEWEST", vote_log.JUDGED)
    with pytest.raises(FileError, match="was written by a newer lookalike, in form 3: upgrade to read it"):
        bench.open()


def test_a_study_without_a_scale_is_as_before(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    form = "SELECT value FROM meta WHERE key = 'schema'" if bench.on_postgres else "PRAGMA user_version"
    assert [int(row[0]) for row in bench.run(form)] == [vote_log.JUDGED]
    before = bench.run("SELECT key FROM meta ORDER BY key")
    assert not set_scale(store, BINARY)
    assert bench.run("SELECT key FROM meta ORDER BY key") == before
    set_scale(store, THREE)
    set_scale(store, BINARY)  # and back, as long as nobody has voted
    assert [int(row[0]) for row in bench.run(form)] == [vote_log.JUDGED]
    (task,) = store.claim("ann", 1, NOW)
    assert store.vote("ann", [say(task, 2)], NOW) == ["scale"]
    assert store.vote("ann", [say(task, 1, scale=THREE.mark)], NOW) == ["scale"]  # a page that was open meanwhile
    assert store.vote("ann", [say(task, 1, scale="")], NOW) == ["kept"]
    with pytest.raises(ValueError, match="the scale stays '0 not similar, 1 similar', because 1 votes are on it"):
        set_scale(store, THREE)


def test_a_scale_goes_along_to_a_server_and_back(bench: Bench) -> None:
    if not bench.on_postgres:
        pytest.skip("of two databases")
    with Store.open(bench.study.path / "votes.sqlite", bench.study) as own:
        set_scale(own, THREE)
        own.configure("all", order="adaptive")
        own.add_expert("ann")
        tasks = own.claim("ann", 2, NOW)
        own.vote("ann", [say(task, 2) for task in tasks], NOW)
    store = bench.open()
    assert (stored_scale(store), store.votes().answers.tolist()) == (THREE, [2, 2])
    assert store.status().settings["experts_per_pair"] == "all"
    store.release_again()
    (third,) = [task for task in store.claim("ann", 3, NOW) if task not in tasks][:1]
    assert store.vote("ann", [say(third, 1)], NOW) == ["kept"]
    assert store.copy_votes(bench.study) == 1
    assert bench.study.votes().answers.tolist() == [2, 2, 1]
    assert (bench.study.terms().experts_per_pair, bench.study.terms().experts) == ("all", ("ann",))
    bench.close()
    forget_database(bench.study)
    other = bench.server.new_database()
    strange = make_study(bench.study.path.parent / "strange")
    with Store.open(other, strange) as theirs:  # the same queries and items, and votes without a scale
        theirs.add_expert("ann")
        theirs.configure(1)
        theirs.vote("ann", [say(task) for task in theirs.claim("ann", 1, NOW)], NOW)
    with pytest.raises(ValueError, match="cannot go to a database with votes on '0 not alike"):
        Store.open(other, bench.study)


def test_votes_on_another_scale_are_not_imported(bench: Bench) -> None:
    store = bench.ready(people=("ann",))
    set_scale(store, THREE)
    query, item = bench.study.pool().pairs[0]
    with pytest.raises(ValueError, match="these votes are on the scale '0 not similar, 1 similar', and those of the"):
        store.import_votes(Votes([query], [item], ["ann"], [1]))
    assert store.import_votes(Votes([query], [item], ["ann"], ["alike"], scale=THREE)).added == 1
    if not bench.on_postgres:
        with pytest.raises(ValueError, match="cannot be put together"):
            bench.study.append_votes(Votes([query], [item], ["ann"], [1]))
        bench.study.append_votes(Votes([query], [item], ["bob"], [2], scale=THREE))
        assert bench.study.votes().answers.tolist() == [2, 2]


def test_gold_pairs_have_grades_of_the_scale(study: Study) -> None:
    (query, item), (other, another) = study.pool().pairs[:2]
    study.set_gold([(query, item, 1)])
    with Store.open(None, study) as store:
        with pytest.raises(ValueError, match="the answers of 1 gold pairs are on the scale '0 not similar, 1 similar'"):
            set_scale(store, THREE)
        set_scale(store, THREE, new_gold=True)
    study.set_gold([(query, item, 2), (other, another, 0)])
    with pytest.raises(ValueError, match=r"a gold pair is a grade of '0 not alike, 1 related, 2 alike': .* have 3"):
        study.set_gold([(query, item, 3)])


def test_a_scale_that_is_damaged_is_said_with_the_file(study: Study) -> None:
    with Store.open(None, study) as store:
        set_scale(store, THREE)
    with contextlib.closing(sqlite3.connect(study.path / "votes.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value = '0 no' WHERE key = 'scale'")
    with pytest.raises(FileError, match=r"votes.sqlite is damaged: a scale has 2 to 5 steps"):
        study.votes()
    with pytest.raises(FileError, match="is damaged: a scale has 2 to 5 steps"), Store.open(None, study) as store:
        store.status()


def test_the_adaptive_order_takes_the_highest_step_for_positive(study: Study) -> None:
    with Store.open(None, study) as store:
        set_scale(store, THREE)
        store.configure(1, order="adaptive", budget=10)
        store.add_expert("ann")
        while tasks := store.claim("ann", 5, NOW):
            assert store.vote("ann", [say(task, task.pair % 3) for task in tasks], NOW) == ["kept"] * len(tasks)
        assert len(store.votes()) == 10


# Pairs that all experts judge


def test_all_experts_judge_each_pair_also_who_comes_later(bench: Bench) -> None:
    store = bench.ready("all", people=("ann", "bob"), budget=4)  # type: ignore[arg-type]
    _judge_all(store, "ann")
    assert (store.status().complete, store.progress("bob").left) == (0, 4)
    _judge_all(store, "bob")
    state = store.status()
    assert (state.complete, state.everybody_done, state.everybody_total) == (4, 8, 8)
    assert (store.progress("ann").left, store.progress("ann").sure) == (0, True)
    store.add_expert("eve")  # finished pairs are open again, for her alone
    state = store.status()
    assert (state.complete, state.everybody_done, state.everybody_total) == (0, 8, 12)
    assert store.claim("ann", 3, NOW) == []
    (task, *_) = store.claim("eve", 3, NOW)
    assert store.vote("eve", [say(task)], NOW) == ["kept"]
    assert store.status().complete == 1
    store.revoke("eve")  # nobody waits for her any more; what she said stays
    state = store.status()
    assert (state.complete, state.everybody_done, state.everybody_total) == (4, 9, 9)
    store.renew("eve")
    assert (store.status().complete, store.progress("eve").left) == (1, 3)
    _judge_all(store, "eve")
    assert store.status().complete == 4
    assert all(who == {"ann", "bob", "eve"} for who in voters(store).values())
    assert store.check() == []
    store.configure(2, budget=4)
    assert (store.status().complete, store.progress("ann").left) == (4, 0)
    store.configure("all", budget=5)
    state = store.status()
    assert (state.complete, state.everybody_done, state.everybody_total) == (4, 12, 15)
    with pytest.raises(ValueError, match="experts_per_pair must be one of 'all', got 'most'"):
        store.configure("most")


def _judge_all(store: Store, expert: str) -> None:
    while tasks := store.claim(expert, 3, NOW):
        assert store.vote(expert, [say(task) for task in tasks], NOW) == ["kept"] * len(tasks)


DEEDS = st.lists(
    st.tuples(st.sampled_from(["vote", "add", "revoke", "renew", "reopen"]), st.sampled_from(PEOPLE[:3])), max_size=25
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=DEEDS)
def test_a_pair_is_complete_when_everybody_who_may_judge_has(
    deeds: list[tuple[str, str]], template: Path, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("all")
    shutil.copytree(template, folder / "study")
    study, said, judging = Study.open(folder / "study"), dict[int, set[str]](), dict[str, bool]()
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Store.open(None, study)) for _ in range(2)]
        stores[0].configure("all", budget=3)
        for turn, (deed, name) in enumerate(deeds):
            store = stores[turn % 2]  # two processes in turn
            if deed == "add":
                store.add_expert(name)
                judging.setdefault(name, True)
            elif deed == "reopen":
                store.configure("all", budget=3)
            elif name in judging and deed in ("revoke", "renew"):
                getattr(store, deed)(name)
                judging[name] = deed == "renew"
            elif judging.get(name):
                for task in store.claim(name, 1, NOW):
                    assert store.vote(name, [say(task)], NOW) == ["kept"]
                    assert name not in said.setdefault(task.pair, set())
                    said[task.pair].add(name)
            active = {who for who, may in judging.items() if may}
            found = store.status()
            assert found.complete == sum(active <= who for who in said.values())
            assert found.everybody_done == sum(map(len, said.values()))
            left = {who: 3 - sum(who in voted for voted in said.values()) for who in active}
            assert found.everybody_total == found.everybody_done + sum(left.values())
            assert {who: store.progress(who).left for who in active} == left
        assert stores[0].check() == []
    assert study.terms().experts == tuple(sorted(who for who, may in judging.items() if may))
