"""Machines, flags and verdicts on the command line: counted only where asked, exported, and read again."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers.commands import done, numbers, refused, run
from helpers.panels import make_vases
from lookalike.discovery.votes import Votes
from lookalike.judging.store.remarks import Remark, add_note, give_verdict
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

NOW = 1_750_000_000_000


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Three people on 24 pairs of vases, who disagree on some."""
    made = make_vases(tmp_path / "shop", side=8)
    scores = np.random.default_rng(3).normal(size=(len(made.queries), len(made.catalogue)))
    items = made.catalogue.ids.tolist()
    ranked = {
        query: {item: score for item, score in zip(items, row, strict=True) if item != query}
        for query, row in zip(made.queries.ids.tolist(), scores.tolist(), strict=True)
    }
    made.add_model("by-chance", run=ranked)
    asked, shown = zip(*made.pool().pairs[:24], strict=True)
    for expert, answers in {"ann": [1] * 24, "bob": [1, 0] * 12, "eve": [1, 1, 0, 0, 1, 0] * 4}.items():
        made.append_votes(Votes(asked, shown, [expert] * 24, answers, ["2025-06-01T10:00:00Z"] * 24, [2.0] * 24))
    with Store.open(None, made) as store:
        store.configure(3)
        for name in ("ann", "bob", "eve"):
            store.add_expert(name)
    return made


def write_answers(path: Path, rows: list[tuple[Any, ...]], head: str = "query,item,answer,why") -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head.split(","), *rows])
    return path


def test_a_machine_counts_nowhere_unless_asked(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = study.path
    before = numbers(capsys, "leaderboard", folder), numbers(capsys, "judge", "status", folder)
    text = done(capsys, "leaderboard", folder)
    for name in ("votes.csv", "judged.qrels"):
        done(capsys, "judge", "export", folder, tmp_path / f"before-{name}")
    pairs = study.pool().pairs[:30]
    rows = [(*pair, "not similar" if at % 5 else "similar", "=2+2" if at == 0 else "") for at, pair in enumerate(pairs)]
    answers = write_answers(tmp_path / "answers.csv", rows)
    assert "30 votes were added, 0 were there already" in done(
        capsys, "judge", "import", folder, answers, "--as-machine", "some-vlm"
    )
    assert "0 votes were added, 30" in done(capsys, "judge", "import", folder, answers, "--as-machine", "some-vlm")
    after = numbers(capsys, "leaderboard", folder), numbers(capsys, "judge", "status", folder)
    machine = after[0].pop("machines")
    assert machine == after[1].pop("machines")
    assert [row["expert"] for row in machine] == ["some-vlm"]
    assert [row["expert"] for row in machine[0]["kappas"]] == ["ann", "bob", "eve"]
    assert after[0] == before[0]
    assert {name: value for name, value in after[1].items() if name != "votes"} == {
        name: value for name, value in before[1].items() if name != "votes"
    }
    shown = done(capsys, "leaderboard", folder)
    table = shown[shown.index("machine ") : shown.index("24 of 60 pairs")]
    assert shown.replace(table, "") == text  # nothing else has changed
    assert "some-vlm" in table
    done(capsys, "judge", "export", folder, tmp_path / "judged.qrels")
    assert (tmp_path / "judged.qrels").read_bytes() == (tmp_path / "before-judged.qrels").read_bytes()
    done(capsys, "judge", "export", folder, tmp_path / "with.qrels", "--with-machines")
    assert len((tmp_path / "with.qrels").read_text().splitlines()) == 30
    counted = numbers(capsys, "leaderboard", folder, "--with-machines")
    assert [row["expert"] for row in counted["agreement"]["experts"]] == ["ann", "bob", "eve", "some-vlm"]
    assert "machines" not in counted
    for options, said in (((), True), (("--with-machines",), False)):
        done(capsys, "leaderboard", folder, "--report", tmp_path / "page.html", *options)
        page = (tmp_path / "page.html").read_text()
        assert "some-vlm" in page
        assert ("The votes of machines count nowhere" in page) == said


def test_exported_votes_of_machines_are_known_again(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(*pair, 1) for pair in study.pool().pairs[:5]]
    answers = write_answers(tmp_path / "answers.csv", rows, "query,item,answer")
    done(capsys, "judge", "export", study.path, tmp_path / "people.csv")
    done(capsys, "judge", "import", study.path, answers, "--as-machine", "vlm")
    other = make_vases(tmp_path / "other", side=8)
    for name in ("all.csv", "all.parquet"):
        done(capsys, "judge", "export", study.path, tmp_path / name)
    with (tmp_path / "all.csv").open() as file:
        table = list(csv.DictReader(file))
    assert {(row["expert"], row["machine"]) for row in table} == {("ann", ""), ("bob", ""), ("eve", ""), ("vlm", "yes")}
    assert "machine" not in (tmp_path / "people.csv").read_text().splitlines()[0]
    refused(capsys, "has 5 votes of machines", "study", "votes", other.path, tmp_path / "all.csv")
    for name, n in (("all.csv", 77), ("all.parquet", 0)):
        told = done(capsys, "judge", "import", other.path, tmp_path / name, "--add-experts")
        assert told.startswith(f"{n} votes were added")
    assert other.machines() == {"vlm"}
    assert other.votes().digest == study.votes().digest
    everything = study.votes(machines=True)
    assert len(other.votes(machines=True)) == len(everything)
    assert other.votes(machines=True).among(everything).all()


@pytest.mark.parametrize(
    ("head", "row", "told"),
    [
        ("query,item,answer", ["Q", "I", "maybe"], "line 2: an answer must be"),
        ("query,item,answer", ["Q", "nothing", "1"], "line 2: there is no item 'nothing'"),
        ("query,item", ["Q", "I"], "'answer' among them"),
        ("query,item,expert,answer", ["Q", "I", "ann", "1"], "this vote is of 'ann', not of the machine 'vlm'"),
        ("query,item,answer,why", ["Q", "I", "1", "x" * 1001], "at most 1,000 characters"),
        ("query,item,answer,machine", ["Q", "I", "1", "perhaps"], "machine is yes for the votes of machines"),
    ],
)
def test_wrong_files_of_machines_are_refused_whole(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, row: list[str], told: str
) -> None:
    query, item = study.pool().pairs[0]
    filled = tuple({"Q": query, "I": item}.get(value, value) for value in row)
    answers = write_answers(tmp_path / "answers.csv", [filled], head)
    refused(capsys, told, "judge", "import", study.path, answers, "--as-machine", "vlm")
    assert study.machines() == frozenset()


def test_a_machine_needs_a_name_of_its_own(study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = study.pool().pairs[0]
    answers = write_answers(tmp_path / "answers.csv", [(*pair, 1)], "query,item,answer")
    told = "'ann' is the name of a person who judges here"
    refused(capsys, told, "judge", "import", study.path, answers, "--as-machine", "ann")
    refused(capsys, "leave --expert", "judge", "import", study.path, answers, "--as-machine", "m", "--expert", "ann")
    twice = write_answers(tmp_path / "twice.csv", [(*pair, 1), (*pair, 0)], "query,item,answer")
    refused(capsys, "says two things of query", "judge", "import", study.path, twice, "--as-machine", "m")


def test_flags_and_verdicts(study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, pairs = study.path, study.pool().pairs[:24]
    before = numbers(capsys, "leaderboard", folder)
    assert "verdict" not in numbers(capsys, "leaderboard", folder, "--rules")["rules"]
    code, out, told = run(capsys, "leaderboard", folder, "--rule", "verdict")
    assert code == 0, out
    assert "no verdicts yet" in told
    with Store.open(None, study) as store:
        numbers_of = {(task.query, task.item): task.pair for task, _ in store.recent("ann", 100)}
        add_note(store, "ann", Remark("a", numbers_of[pairs[0]], "flag", "=cut off"), now=NOW)
        add_note(store, "bob", Remark("b", numbers_of[pairs[1]], "note", "hm"), now=NOW)
        give_verdict(store, pairs[1], 0, "v1", NOW)  # a majority says similar
        give_verdict(store, pairs[2], -1, "v2", NOW)
    flagged = numbers(capsys, "leaderboard", folder)
    assert flagged.pop("flagged") == 1
    assert flagged == before  # what is flagged counts all the same, and that is said
    assert "1 judged pair is flagged as broken by an expert, and counts all the same: --without-flagged" in " ".join(
        run(capsys, "leaderboard", folder)[2].split()
    )
    status = numbers(capsys, "judge", "status", folder)
    assert (status["notes"], status["flagged"], status["verdicts"]) == (1, 1, 2)

    def judged(name: str, *options: str) -> dict[tuple[str, str], int]:
        done(capsys, "judge", "export", folder, tmp_path / name, *options)
        rows = json.loads((tmp_path / name).read_text())
        return {tuple(row["key"]): row["value"] for row in rows}  # type: ignore[misc]

    majority = judged("a.json")
    assert set(judged("b.json", "--without-flagged")) == set(majority) - {pairs[0]}
    assert judged("c.json", "--rule", "verdict") == {
        pair: 0 if pair == pairs[1] else grade for pair, grade in majority.items() if pair != pairs[2]
    }
    for rule in ("majority", "verdict"):  # the comparison of rules is the same, whichever the leaderboard uses
        rules = numbers(capsys, "leaderboard", folder, "--rules", "--rule", rule)["rules"]
        assert list(rules) == ["majority", "unanimous", "dawid-skene", "verdict"]
        assert rules["majority"] != rules["verdict"]
    assert numbers(capsys, "leaderboard", folder, "--without-flagged")["flagged_left_out"] == 1
    for name in ("notes", "verdicts"):
        for ending in (".csv", ".parquet"):
            done(capsys, "judge", "export", folder, tmp_path / f"{name}{ending}", f"--{name}")
    assert "'=cut off" in (tmp_path / "notes.csv").read_text()  # no formula for a spreadsheet
    assert pq.read_table(tmp_path / "notes.parquet")["text"].to_pylist() == ["=cut off", "hm"]
    assert pq.read_table(tmp_path / "verdicts.parquet")["answer"].to_pylist() == ["not similar", "can't tell"]
    for told, *options in (
        ("go to .csv or .parquet", "notes.qrels", "--notes"),
        ("pass one of them", "x.csv", "--notes", "--verdicts"),
        ("all notes are written", "x.csv", "--notes", "--without-flagged"),
        ("--with-machines is for judgements", "x.csv", "--with-machines"),
        ("--rule is for judgements", "x.csv", "--verdicts", "--rule", "verdict"),
    ):
        refused(capsys, told, "judge", "export", folder, tmp_path / options[0], *options[1:])
