"""The record of votes: its older and newer forms, and two databases of one study."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from helpers.benches import NOW, Bench, assert_exactly, say, voters
from helpers.judges import Server, judge_together, make_study
from lookalike.discovery.vote_log import JUDGED, rows_of
from lookalike.discovery.votes import Votes
from lookalike.judging.store.location import forget_database
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Briefing, StoreAwayError
from lookalike.study.study import Study

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
        assert bench.run("PRAGMA user_version") == [(JUDGED,)]
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
    bench.run("UPDATE meta SET value = '4' WHERE key = 'schema'" if bench.on_postgres else "PRAGMA user_version = 4")
    with pytest.raises(ValueError, match="was written by a newer lookalike, in form 4: upgrade"):
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
