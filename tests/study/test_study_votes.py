"""The votes, gold pairs, results and pool of a study."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.small_study import GALLERY, assert_same_votes, create, vote
from lookalike.discovery import vote_log
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.pool import Pool
from lookalike.discovery.votes import Votes
from lookalike.study.study import Study

# Votes


VOTES = st.lists(
    st.tuples(
        st.sampled_from("ac"),
        st.sampled_from("bd"),  # a query is not judged with itself
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5).filter(str.strip),
        st.sampled_from([1, 0, -1]),
        st.one_of(st.just("NaT"), st.integers(-(10**12), 10**13).map(lambda ms: str(np.datetime64(ms, "ms")))),
        st.one_of(st.just(float("nan")), st.floats(0, 1e9)),
    ),
    max_size=6,
)


@settings(max_examples=40)
@given(st.lists(VOTES, max_size=3))
def test_votes_come_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[Any, ...]]]
) -> None:
    made = create(tmp_path_factory.mktemp("votes"), queries=["a", "c"])
    expected = Votes([], [], [], [])
    for batch in batches:
        *ids, answers, times, seconds = [list(column) for column in zip(*batch, strict=True)] or [[]] * 6
        votes = Votes(ids[0], ids[1], ids[2], answers, np.array(times, "datetime64[ms]"), np.array(seconds, float))
        made.append_votes(votes)
        expected += votes
    assert_same_votes(Study.open(made.path).votes(), expected)


def test_votes_on_what_is_not_there(closed: Study) -> None:
    for votes, sentence in (
        (
            Votes(["a", "b"], ["b", "c"], ["ann"] * 2, [1, 1]),
            "1 of 2 voted query ids are not among the queries of the study, 'b': ids there are like 'a'",
        ),
        (
            Votes(["a", "a"], ["b", "a"], ["ann"] * 2, [1, 1]),
            "1 of 2 voted pairs are of a query with itself, first 'a': nobody has to judge these, leave them out",
        ),
        (
            Votes(["a", "a"], ["b", "e"], ["ann"] * 2, [1, 1]),
            "1 of 2 voted item ids are not in the catalogue, 'e'",
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            closed.append_votes(votes)
    assert len(closed.votes()) == 0


def test_the_record_is_append_only(closed: Study) -> None:
    closed.append_votes(vote(3))
    with contextlib.closing(sqlite3.connect(closed.path / "votes.sqlite", isolation_level=None)) as connection:
        for statement, sentence in (
            ("UPDATE votes SET answer = 0", "never changed"),
            ("UPDATE votes SET number = 9 WHERE number = 1", "never changed"),
            ("DELETE FROM votes WHERE number = 2", "never deleted"),
            ("INSERT OR REPLACE INTO votes VALUES (2, 'a', 'b', 'eve', 0, NULL, NULL)", "never replaced"),
            ("INSERT INTO votes VALUES (9, 'a', 'b', 'eve', 2, NULL, NULL)", "CHECK constraint"),
        ):
            with pytest.raises(sqlite3.IntegrityError, match=sentence):
                connection.execute(statement)
    assert_same_votes(closed.votes(), vote(3))


def test_a_vote_is_on_disk_when_it_is_said_to_be(closed: Study) -> None:
    with vote_log._opened(closed.path / "votes.sqlite") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA user_version").fetchone() == (vote_log.SCHEMA,)


def test_a_batch_is_added_whole_or_not_at_all(closed: Study) -> None:
    closed.append_votes(vote(2))
    votes = vote(3)
    votes.answers.flags.writeable = True
    votes.answers[2] = 7  # what no vote can be, and the table refuses
    with pytest.raises(ValueError, match=r"votes\.sqlite"):
        closed.append_votes(votes)
    assert len(closed.votes()) == 2
    closed.append_votes(vote(1))
    assert len(closed.votes()) == 3


def test_records_of_later_versions_and_of_others(closed: Study) -> None:
    path = closed.path / "votes.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 4")
    for call in (closed.votes, lambda: closed.append_votes(vote())):
        with pytest.raises(ValueError, match=r"votes.sqlite was written by a newer lookalike, in form 4: upgrade"):
            call()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no file .*votes.sqlite: the study is not whole"):
        closed.votes()
    assert not path.exists()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE votes (x)")
    with pytest.raises(ValueError, match=r"votes.sqlite is no record of votes: it is another SQLite database"):
        closed.votes()


def test_a_damaged_record_is_named(closed: Study) -> None:
    closed.append_votes(vote(500))
    path = closed.path / "votes.sqlite"
    content = path.read_bytes()
    assert not path.with_name("votes.sqlite-wal").exists()
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    with pytest.raises(ValueError, match=r"votes.sqlite is damaged or no record of votes"):
        closed.votes()


# Gold pairs and results


def test_gold_pairs_come_back(closed: Study) -> None:
    closed.set_gold([("a", "b", 1), ("c", "d", 0)])
    gold = Study.open(closed.path).gold()
    assert isinstance(gold, Judgements)
    assert gold.by_pair == {("a", "b"): 1, ("c", "d"): 0}
    closed.set_gold(Judgements.of([("c", "a", 1)]))
    assert closed.gold().by_pair == {("c", "a"): 1}  # type: ignore[union-attr]
    for pairs, sentence in (
        ([("b", "a", 1)], "1 of 1 gold query ids are not among the queries of the study, 'b'"),
        ([("a", "e", 1)], "1 of 1 gold item ids are not in the catalogue, 'e'"),
        ([("a", "b", 1), ("a", "c", 2)], r"a gold pair is 1 \(similar\) or 0: query 'a' and item 'c' have 2"),
        ([], "there is no judged pair"),
    ):
        with pytest.raises(ValueError, match=sentence):
            closed.set_gold(pairs)
    assert closed.gold().by_pair == {("c", "a"): 1}  # type: ignore[union-attr]
    closed.set_gold(None)
    closed.set_gold(None)
    assert closed.gold() is None


def test_results_are_written(closed: Study) -> None:
    assert closed.write_result("leaderboard.csv", "é\n") == closed.path / "results" / "leaderboard.csv"
    closed.write_result("leaderboard.csv", "model\n")
    assert (closed.path / "results" / "leaderboard.csv").read_text() == "model\n"


# Pools that have been voted on


def test_a_judged_pool_is_not_replaced_unawares(
    closed: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lookalike.cli import main

    def ended(*arguments: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(["pool", str(closed.path), *arguments])
        return int(end.value.code or 0)

    closed.add_model("net", gallery=GALLERY)
    assert ended("--k", "1") == 0
    query, item = closed.pool().pairs[0]
    closed.append_votes(Votes([query], [item], ["ann"], [1]))
    assert ended("--k", "2") == 2
    assert (
        "the study has a pool with 1 votes, and its record of who proposed what would be lost"
        in capsys.readouterr().err
    )
    assert closed.pool().k == 1
    assert ended("--k", "2", "--replace") == 0
    assert closed.pool().k == 2
    with pytest.raises(ValueError, match="the pool has what the model 'net' proposed: give the new one another name"):
        closed.add_model("net", gallery=GALLERY[::-1], replace=True)


def test_two_that_top_up_at_once_lose_nothing(closed: Study) -> None:
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(0)
    names = [f"m{number}" for number in range(6)]
    for name in ("first", *names):
        closed.add_model(name, gallery=rng.normal(size=(4, 3)))
    closed.write_pool(Pool.build({"first": closed.model("first").given}, closed.collection, k=1))
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda name: Study.open(closed.path).top_up(name, threads=1), names))
    assert set(closed.pool().models) == {"first", *names}


def test_items_of_a_wild_study_have_identities_without_those_of_queries(tmp_path: Path) -> None:
    items = Catalogue(["a1", "a2", "b1"], identities=["a", "a", "b"])
    study = Study.create(tmp_path / "wild", "wild", items, Catalogue(["q", "a"]), wild=True)
    study.add_model("net", np.eye(2), np.array([[1, 0.2], [0.9, 0.3], [0.1, 1]]))
    pool = Pool.build({"net": study.model("net").given}, study.collection, k=2, one_per_identity=True)
    assert sorted(pool.pairs) == [("a", "a2"), ("a", "b1"), ("q", "a1"), ("q", "b1")]


def test_queries_of_a_pool_can_be_chosen_again_until_somebody_voted(closed: Study) -> None:
    closed.add_model("net", gallery=GALLERY)
    closed.write_pool(Pool.build({"net": closed.model("net").given}, closed.collection, k=1))
    with pytest.raises(ValueError, match=rf"to choose others, remove {re.escape(str(closed.pool_path))}, nobody has"):
        closed.set_queries(["b"])
    query, item = closed.pool().pairs[0]
    closed.append_votes(Votes([query], [item], ["ann"], [1]))
    with pytest.raises(ValueError, match="to choose others, make another study"):
        closed.set_queries(["b"])
