"""`lookalike judge` with practice and an open link, as its users have it."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers import commands
from helpers.panels import Visitor, make_vases, serving
from lookalike.judging.store.crowd import crowd_terms, join_crowd, open_crowd
from lookalike.judging.store.gates import CrowdTerms
from lookalike.judging.store.practice import practice_of
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Answer
from lookalike.study.study import Study

ROWS = ["vase-000.png,vase-030.png,Not similar,Another form.", "vase-004.png,vase-005.png,1,The same form."]


class Ran(NamedTuple):
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object, code: int = 0) -> Ran:
        ended, out, err = commands.run(capsys, *arguments)
        assert ended == code, out + err
        return Ran(out, err)

    return call


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    make_vases(folder, side=48)
    return folder


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    shutil.copytree(template, tmp_path / "shop")
    return Study.open(tmp_path / "shop" / "study")


def practice_file(study: Study, *rows: str) -> Path:
    path = study.path.parent / "practice.csv"
    path.write_text("\n".join(["query,item,answer,why", *rows, ""]), encoding="utf-8")
    return path


def test_practice_and_an_open_link_from_the_command_line(study: Study, tmp_path: Path, run: Run) -> None:
    file = practice_file(study, *ROWS)
    options = (
        "--practice",
        str(file),
        "--pass",
        "0.5",
        "--open-link",
        "C0DE",
        "--pairs-each",
        "2",
        "--most-experts",
        "5",
    )
    with serving(study.path, ["ann"], *options) as server:
        assert "1 of 2 practice pairs are in the pool" in server.said
        page = Visitor(server.experts["ann"]).page
        assert "First, some practice" in page
        with urllib.request.urlopen(f"{server.open}?PROLIFIC_PID=5f", timeout=60) as answer:
            assert "2 pairs one after the other" in answer.read().decode()
        said = run("judge", "status", study.path).out
        assert "practice of 2 pairs: 0 passed, 0 below the score" in said
        assert "open link (open): 0 of at most 5 people, 2 pairs each, 0 completed" in said
    with serving(study.path, [], "--pairs-each", "4", "--pass", "1") as again:  # what is not said stays
        assert again.open.rpartition("/")[2] == server.open.rpartition("/")[2]
    with Store.open(None, study) as store:
        assert crowd_terms(store) == CrowdTerms("C0DE", 4, 5)
        practice = practice_of(store)
        assert practice is not None
        assert (practice.share, [pair.answer for pair in practice.pairs]) == (1.0, [0, 1])
    assert run("judge", "admit", study.path, "ann").out == "ann may begin\n"
    facts = json.loads(run("judge", "status", study.path, "--json").out)
    assert (facts["practice"][0]["how"], facts["crowd"]["terms"]["code"]) == ("admitted", "C0DE")
    assert "wrote 1 experts" in run("judge", "experts", study.path, tmp_path / "experts.csv").out
    assert (tmp_path / "experts.csv").read_text().splitlines()[1].startswith("ann,personal,")
    with serving(study.path, [], "--open-link", "none", "--practice", "none") as closed:
        assert closed.open == ""
        assert "practice" not in re.findall(r"First, some practice", Visitor(closed.experts["ann"]).page)


def test_votes_of_who_was_screened_out_do_not_count(study: Study, tmp_path: Path, run: Run) -> None:
    gold = [("vase-000.png", f"vase-04{n}.png", 0) for n in range(2)]
    study.set_gold(gold)
    with Store.open(None, study) as store:
        store.configure(experts_per_pair=1)
        open_crowd(store, CrowdTerms("C", 4, screen=1, screen_after=2))
        join_crowd(store, 1, None)
        store.add_expert("ann")
        for name in ("crowd-0001", "ann"):
            for n, task in enumerate(store.claim(name, 4)):
                store.vote(name, [Answer(f"{name} {n}", task.pair, 1)])
        n_bad = int((store.votes().experts == "crowd-0001").sum())
    said = run("judge", "export", study.path, tmp_path / "judged.qrels")
    assert f"{n_bad} votes of people whom gold pairs screened out do not count" in said.err
    asked = {tuple(line.split()[::2][:2]) for line in (tmp_path / "judged.qrels").read_text().splitlines()}
    counted = study.counted_votes()
    assert asked == set(counted.pairs)
    assert set(counted.experts.tolist()) == {"ann"}
    assert "screened out, so that their votes do not count: 1 (crowd-0001)" in run("judge", "status", study.path).out
    assert "votes of people" in run("leaderboard", study.path, "--metrics", "P@1").err
    run("judge", "admit", study.path, "crowd-0001")
    assert "screened" not in run("judge", "export", study.path, tmp_path / "judged.qrels").err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["vase-000.png,vase-999.png,1,so"], "line 2: there is no item 'vase-999.png' in the study"),
        (["vase-001.png,vase-000.png,1,so"], "line 2: there is no query 'vase-001.png' in the study"),
        ([ROWS[0], ROWS[0]], "line 3: the pair of line 2 again"),
        (["vase-000.png,vase-000.png,1,so"], "line 2: a pair of a query with itself"),
        (["vase-000.png,vase-030.png,1,"], "line 2: 'why' is a sentence"),
        (["vase-000.png,vase-030.png,2,so"], "one of not similar (0), similar (1), got '2'"),
        (["vase-000.png,vase-030.png,can't tell,so"], "one of not similar (0), similar (1)"),
        (["vase-000.png,vase-040.png,1,so"], "are a gold pair, and experts would be told its answer"),
        ([], "practice has from 1 to 100 pairs, got 0"),
    ],
)
def test_a_wrong_practice_is_refused_in_one_line(study: Study, rows: list[str], words: str, run: Run) -> None:
    study.set_gold([("vase-000.png", "vase-040.png", 0)])
    said = run("judge", study.path, "--port", "0", "--practice", practice_file(study, *rows), code=2).err
    assert words in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--pass", "0.5"], "--pass belongs to --practice FILE"),
        (["--screen", "0.5"], "--screen belongs to --open-link CODE"),
        (["--open-link", "C", "--screen", "0.5"], "by 5 gold pairs, and the study has 0"),
        (["--open-link", "C", "--screen", "2"], "--screen is the share of gold pairs"),
        (["--open-link", "C", "--pairs-each", "0"], "--pairs-each must be a whole number from 1"),
        (["--open-link", " "], "a completion code is one line"),
        (["--guide", "GUIDE"], "line 2: there is no item 'nowhere' in the study"),
    ],
)
def test_what_cannot_be_offered_is_said_in_one_line(study: Study, options: list[str], words: str, run: Run) -> None:
    guide = study.path.parent / "guide.md"
    guide.write_text("# Look\n![x](item:nowhere)\n")
    said = run("judge", study.path, "--port", "0", *(str(guide) if o == "GUIDE" else o for o in options), code=2).err
    assert words in said
    assert len(said.splitlines()) == 1
