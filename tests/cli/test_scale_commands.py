"""Commands of a study with a scale, and of pairs that have all their votes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helpers.benches import say
from helpers.commands import assert_refused, done, numbers, run
from helpers.panels import make_vases
from lookalike.discovery.formats import read_judgements
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.rules import judge_by
from lookalike.discovery.scale import Scale
from lookalike.discovery.votes import Votes
from lookalike.judging.store.scale import set_scale
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

SCALE = Scale.parse("0 not alike, 1 related, 2 alike")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose ten pairs all three experts are to judge; eve has judged six of them."""
    folder = tmp_path_factory.mktemp("graded")
    study = make_vases(folder, side=16)
    with Store.open(None, study) as store:
        set_scale(store, SCALE)
        store.configure("all", budget=10)
        for expert, n in {"ann": 10, "bob": 10, "eve": 6}.items():
            store.add_expert(expert)
            tasks = sorted(store.claim(expert, 10), key=lambda task: task.pair)[:n]
            grades = [min(2, max(-1, (task.pair * 7 + len(expert) + n) % 5 - 1)) for task in tasks]
            answers = [say(task, grade) for task, grade in zip(tasks, grades, strict=True)]
            assert store.vote(expert, answers) == ["kept"] * n
    return folder


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    shutil.copytree(template, tmp_path / "shop")
    return Study.open(tmp_path / "shop" / "study")


def test_a_leaderboard_says_what_counts(capsys: pytest.CaptureFixture[str], study: Study, tmp_path: Path) -> None:
    for rel in (1, 2):
        found = numbers(capsys, "leaderboard", study.path, "--rel", rel, "--resamples", 20)
        judged = judge_by("median", study.votes(), rel=rel)
        assert (found["pairs"], found["positives"], found["rel"]) == (len(judged), judged.positives, rel)
        assert (found["scale"], found["rule"]) == (str(SCALE), "median")
        assert "nDCG@5" in {row["metric"] for row in found["rows"]}
        assert found["agreement"]["scale"] == str(SCALE)
        assert "ac2" in found["agreement"]
    page = tmp_path / "page.html"
    shown = done(capsys, "leaderboard", study.path, "--rules", "--rel", 1, "--report", page, "--resamples", 20)
    for words in (
        "positive (related or more)",
        "agrees with the median's",
        "Krippendorff's ordinal alpha",
        "related or more",
    ):
        assert words in shown
    text = page.read_text(encoding="utf-8")
    assert "of them related or more" in text
    assert "Gwet’s AC2" in text
    assert "counts as" in text
    code, _, err = run(capsys, "leaderboard", study.path, "--rel", 3)
    assert (code, err.count("\n")) == (2, 1)
    assert "--rel must be from 1 to 2 on the scale '0 not alike, 1 related, 2 alike', got 3" in err
    assert "lookalike: AUC(rel=2) says itself what is positive: leave that to --rel" in run(
        capsys, "leaderboard", study.path, "--metrics", "AUC(rel=2)"
    )[2]  # fmt: skip


def test_only_complete_pairs_count_if_asked(capsys: pytest.CaptureFixture[str], study: Study) -> None:
    code, out, err = run(capsys, "leaderboard", study.path, "--complete", "--json", "--resamples", 20)
    assert (code, err) == (0, "lookalike: 6 pairs have all their votes and count; 4 wait for more\n")
    votes = study.votes()
    done_by_eve = set(votes[votes.experts == "eve"].pairs)
    expected = judge_by("median", votes[[pair in done_by_eve for pair in votes.pairs]])
    assert json.loads(out)["pairs"] == len(expected)
    with Store.open(None, study) as store:
        store.revoke("eve")
    assert "10 pairs have all their votes and count; 0 wait" in run(capsys, "leaderboard", study.path, "--complete")[2]
    with Store.open(None, study) as store:
        store.configure(3, budget=10)
    assert "6 pairs have all their votes and count; 4 wait" in run(capsys, "leaderboard", study.path, "--complete")[2]
    with Store.open(None, study) as store:
        store.configure("all", budget=10)
        store.add_expert("zoe")
    assert "no pair has all its votes yet, 10 wait for more" in run(capsys, "leaderboard", study.path, "--complete")[2]
    status = done(capsys, "judge", "status", study.path)
    assert "answers: 0 not alike, 1 related, 2 alike" in status
    assert "each pair waits for all 3 experts who may judge: 0 pairs are complete, 10 wait" in " ".join(status.split())
    facts = numbers(capsys, "judge", "status", study.path)
    assert (facts["scale"], facts["settings"]["experts_per_pair"]) == (str(SCALE), "all")


def test_votes_and_judgements_go_out_and_in(capsys: pytest.CaptureFixture[str], study: Study, tmp_path: Path) -> None:
    votes = study.votes()
    for ending in ("csv", "parquet"):
        done(capsys, "judge", "export", study.path, tmp_path / f"votes.{ending}")
        assert Votes.read(tmp_path / f"votes.{ending}", SCALE).digest == votes.digest
        assert numbers(capsys, "judge", "import", study.path, tmp_path / f"votes.{ending}")["added"] == 0
        assert "nothing added, all 26 votes were there" in " ".join(
            done(capsys, "study", "votes", study.path, tmp_path / f"votes.{ending}").split()
        )
    done(capsys, "judge", "export", study.path, tmp_path / "all.qrels", "--rule", "mean")
    mean = judge_by("mean", votes, rel=1)
    assert Judgements.of(read_judgements(tmp_path / "all.qrels")).by_pair == mean.by_pair
    done(capsys, "study", "export", study.path, "judgements", tmp_path / "all.json", "--rule", "mean", "--rel", 1)
    assert Judgements.of(read_judgements(tmp_path / "all.json")).by_pair == mean.binary.by_pair
    (tmp_path / "one.csv").write_text("query,item,expert,answer\n{},{},zoe,similar\n".format(*votes.pairs[0]))
    code, _, err = run(capsys, "judge", "import", study.path, tmp_path / "one.csv", "--add-experts")
    assert code == 2
    assert "line 2: an answer must be alike, related, not alike or can't tell (or 2, 1, 0, -1), got 'similar'" in err
    assert "--rel is for judgements" in run(capsys, "judge", "export", study.path, tmp_path / "v.csv", "--rel", 1)[2]
    done(capsys, "study", "show", study.path)
    done(capsys, "pool", study.path, "--next", 3)
    page = tmp_path / "report.html"
    done(capsys, "report", study.path, "--rel", 1, "--output", page)
    assert "related or more" in page.read_text(encoding="utf-8")


def test_machines_answer_on_the_scale(capsys: pytest.CaptureFixture[str], study: Study, tmp_path: Path) -> None:
    pairs = study.pool().pairs[:3]
    rows = "".join(
        f"{query},{item},{answer}\n" for (query, item), answer in zip(pairs, ("alike", "1", "0"), strict=True)
    )
    (tmp_path / "vlm.csv").write_text(f"query,item,answer\n{rows}")
    done(capsys, "judge", "import", study.path, tmp_path / "vlm.csv", "--as-machine", "vlm")
    assert study.votes(machines=True).answers.tolist()[-3:] == [2, 1, 0]
    shown = done(capsys, "leaderboard", study.path, "--resamples", 5, "--complete")
    assert "Cohen's weighted kappa" in shown
    assert "as people" in shown
    (tmp_path / "vlm.csv").write_text(f"query,item,answer\n{pairs[0][0]},{pairs[0][1]},similar\n")
    code, _, err = run(capsys, "judge", "import", study.path, tmp_path / "vlm.csv", "--as-machine", "vlm")
    assert (code, "line 2: an answer must be alike, related" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--scale", "0 no, 1 yes"), "the scale stays '0 not alike, 1 related, 2 alike', because 26 votes are on it"),
        (("--scale", "no, yes"), "each step of a scale is a grade and its words"),
        (("--experts-per-pair", "0"), "--experts-per-pair must be a number from 1, or all, got 0"),
        (("--experts-per-pair", "most"), "most"),
    ],
)
def test_what_cannot_be_on_a_scale_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], study: Study, options: tuple[str, str], words: str
) -> None:
    code, out, err = run(capsys, "judge", study.path, "--port", 0, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_runs_and_qrels_have_a_lowest_positive_grade(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "all.qrels").write_text("q 0 a 2\nq 0 b 1\nq 0 c 0\n")
    (tmp_path / "one.run").write_text("q Q0 b 1 3 x\nq Q0 a 2 2 x\nq Q0 c 3 1 x\n")
    files = ("--qrels", tmp_path / "all.qrels", "--run", f"one={tmp_path / 'one.run'}", "--metrics", "AUC")
    values = []
    for rel in ((), ("--rel", 1), ("--rel", 2)):
        (row,) = numbers(capsys, "leaderboard", *files, *rel, "--resamples", 5)["rows"]
        values.append(row["mean"])
    assert values == [1.0, 1.0, 0.5]
    files_text = " ".join(map(str, files))
    assert_refused(capsys, tmp_path, f"leaderboard {files_text} --rel 3", "--rel must be a grade from 1 to 2")
    assert_refused(
        capsys, tmp_path, f"leaderboard {files_text} --complete", "and --complete are for the votes of a study"
    )
