"""`lookalike evaluate` of runs: judgements in every format, the order of ties of trec_eval, and curves as CSV."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.commands import assert_refused, numbers, refused, run
from lookalike.core.endings import JUDGEMENTS, TREC
from lookalike.discovery import Votes
from lookalike.discovery.formats import write_judgements
from lookalike.evaluation.trec import write_run

GRADES = {("q1", "a"): 1, ("q1", "b"): 0, ("q1", "c"): 1, ("q2", "a"): 1, ("q2", "d"): 0}
RUN = {"q1": {"a": 3.5, "b": 3.5, "c": 1.0}, "q2": {"d": 0.5, "a": 0.5}}
ASK = ("--metrics", "map P_2 AUC")


def judged(path: Path) -> Path:
    write_judgements(path, *zip(*GRADES, strict=True), list(GRADES.values()))
    return path


@pytest.fixture
def ranked(tmp_path: Path) -> Path:
    write_run(tmp_path / "a.run", RUN)
    return tmp_path / "a.run"


# Judgements


@pytest.mark.parametrize("ending", [*JUDGEMENTS, *(f"{ending}.gz" for ending in TREC)])
def test_judgements_of_every_format(
    ending: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, ranked: Path
) -> None:
    path = judged(tmp_path / f"judged{ending}")
    printed = numbers(capsys, "evaluate", "--run", ranked, "--qrels", path, *ASK)
    wanted = la.evaluate_run(RUN, la.judged([(*pair, grade) for pair, grade in GRADES.items()]), ASK[1])
    assert [row["mean"] for row in printed["scores"]] == [score.mean for score in wanted.scores.values()]
    board = numbers(capsys, "leaderboard", "--run", f"a={ranked}", "--qrels", path, "--metrics", "AUC")
    assert board["rows"][0]["mean"] == wanted["AUC"].mean


@pytest.mark.parametrize("name", ["qrels", "qrels.robust2004", "qrels.2004.gz"])
def test_a_file_whose_name_says_nothing_is_of_trec(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, ranked: Path
) -> None:
    text = "".join(f"{query} 0 {item} {grade}\n" for (query, item), grade in GRADES.items()).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert numbers(capsys, "evaluate", "--run", ranked, "--qrels", tmp_path / name, *ASK)["query_ids"] == ["q1", "q2"]


def test_grades_count(capsys: pytest.CaptureFixture[str], tmp_path: Path, ranked: Path) -> None:
    (tmp_path / "j.csv").write_text("query,item,grade\nq1,a,3\nq1,b,1\nq1,c,0\n")
    printed = numbers(capsys, "evaluate", "--run", ranked, "--qrels", tmp_path / "j.csv", "--metrics", "ndcg AP(rel=2)")
    wanted = la.evaluate_run(RUN, la.judged({"q1": {"a": 3, "b": 1, "c": 0}}), "ndcg AP(rel=2)")
    assert [row["mean"] for row in printed["scores"]] == [score.mean for score in wanted.scores.values()]


def test_files_that_hold_no_judgements(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ranked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    votes = Votes(["q1", "q1"], ["a", "b"], ["ann", "ann"], [1, 0])
    for name in ("votes.csv", "votes.parquet"):
        votes.write(tmp_path / name)
    Path("unjudged.csv").write_text("query,item,grade\nq1,a,\n")
    Path("minus.qrels").write_text("q1 0 a -1\n")
    Path("half.csv").write_text("query,item,grade\nq1,a,0.5\n")
    Path("other.csv.gz").write_text("")
    for name, words in {
        "votes.csv": "votes.csv holds votes, of which a rule has to make judgements: lookalike study votes",
        "votes.parquet": "votes.parquet holds votes, of which a rule has to make judgements",
        "unjudged.csv": "got '': leave out pairs that nobody judged",
        "minus.qrels": "line 1: a grade must be a whole number from 0 to 32767, got '-1': leave out pairs that nobody",
        "half.csv": "half.csv, line 2: a grade must be a whole number from 0 to 32767, got '0.5'",
        "other.csv.gz": "judgements are in .json, .csv, .parquet, .qrels, .txt or .trec .the last three also with",
    }.items():
        assert_refused(capsys, tmp_path, f"evaluate --run {ranked.name} --qrels {name}", words)


# Ties


def test_the_order_of_trec_eval(capsys: pytest.CaptureFixture[str], tmp_path: Path, ranked: Path) -> None:
    ask = [
        "evaluate",
        "--run",
        ranked,
        "--qrels",
        judged(tmp_path / "j.qrels"),
        "--metrics",
        "map",
        "--ties",
        "trec_eval",
    ]
    printed = numbers(capsys, *ask)
    (row,) = printed["scores"]
    assert printed["ties"] == "trec_eval"
    # q1: b, a, c, so (1/2 + 2/3) / 2; q2: d, a
    assert row["mean"] == row["best"] == row["worst"] == pytest.approx((7 / 12 + 1 / 2) / 2)
    assert "ties are in the order of trec_eval" in run(capsys, *ask)[1]


def test_orders_and_unlisted_items_are_of_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("c.npz", codes=np.eye(3, dtype=int), labels=[0, 1, 0])
    for option in ("--ties trec_eval", "--unlisted out"):
        assert_refused(
            capsys, tmp_path, f"evaluate c.npz c.npz {option}", "are for runs, which list some items by name"
        )


def test_an_undefined_query_can_count_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "q.npz", codes=[[0, 0], [0, 1]], labels=[0, 9])
    np.savez(tmp_path / "g.npz", codes=[[0, 0], [1, 1]], labels=[0, 1])
    ask = ["evaluate", tmp_path / "q.npz", tmp_path / "g.npz", "--metrics", "nDCG AP(empty='skip')@1"]
    assert [row["mean"] for row in numbers(capsys, *ask, "--undefined", "one")["scores"]] == [1.0, 1.0]
    assert [row["mean"] for row in numbers(capsys, *ask)["scores"]] == [0.5, 1.0]


# Curves


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value if name == "by" else float(value) for name, value in row.items()} for row in rows]


def test_curves_of_codes_and_embeddings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 46)
    labels[0] = 9  # a query without a relevant item
    vectors = {"codes": rng.integers(0, 2, (46, 6)), "embeddings": rng.integers(0, 3, (46, 2)) + 0.5}
    for kind, values in vectors.items():
        for name, part in (("q", slice(0, 6)), ("g", slice(6, None))):
            np.savez(tmp_path / f"{name}.npz", **{kind: values[part], "labels": labels[part]})
        target = tmp_path / f"{kind}.csv"
        ask = ["evaluate", tmp_path / "q.npz", tmp_path / "g.npz", "--undefined", "zero", "--curve", target]
        assert run(capsys, *ask)[0] == 0
        both = (
            (values[:6], values[6:]) if kind == "embeddings" else (la.Codes.pack(values[:6]), la.Codes.pack(values[6:]))
        )
        tally = la.count(*both, la.same_label(labels[:6], labels[6:]))
        curves = [("cutoff", la.curves.by_cutoff(tally))]
        curves += [("radius", la.curves.by_radius(tally))] if kind == "codes" else []
        wanted = [
            {"by": by, "at": at, "recall": recall, "precision": precision}
            for by, curve in curves
            for at, precision, recall in zip(*map(np.ndarray.tolist, curve), strict=True)
        ]
        found = read(target)
        assert [row["by"] for row in found] == [row["by"] for row in wanted]
        for row, other in zip(found, wanted, strict=True):
            assert row == pytest.approx(other, abs=1e-12)
        assert max(row["at"] for row in found) == 40


def test_the_curve_of_a_run_ends_with_its_longest_list(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ranked: Path
) -> None:
    target = tmp_path / "curve.csv"
    ask = ["evaluate", "--run", ranked, "--qrels", judged(tmp_path / "j.csv"), "--curve", target]
    assert run(capsys, *ask)[0] == 0
    assert target.read_text().splitlines()[0] == "by,at,recall,precision"
    # q1: a or b first, then the other, then c; q2: a or d first
    recalls, precisions = [(1 / 4 + 1 / 2) / 2, (1 / 2 + 1) / 2, 1.0], [1 / 2, 1 / 2, (2 / 3 + 1 / 3) / 2]
    wanted = zip((1, 2, 3), recalls, precisions, strict=True)
    for row, (at, recall, precision) in zip(read(target), wanted, strict=True):
        assert row == pytest.approx({"by": "cutoff", "at": at, "recall": recall, "precision": precision})


def test_a_curve_is_csv_and_overwrites_nothing_that_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ranked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    judged(Path("j.csv"))
    command = f"evaluate --run {ranked.name} --qrels j.csv --curve "
    assert_refused(capsys, tmp_path, command + "c.txt", "the name of this output must end in .csv")
    assert_refused(capsys, tmp_path, command + "j.csv", "it is read by the same command")


def test_a_relevance_that_cannot_be_is_told_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "a.npz", embeddings=rng.normal(size=(9, 3)), labels=np.arange(9) % 3, attributes=np.eye(9, dtype=int)
    )
    ask = ["evaluate", str(tmp_path / "a.npz"), "--metrics", "AP nDCG", "--output", str(tmp_path / "a.json")]
    each = ["--relevance", "AP:labels nDCG:attributes", "--curve", str(tmp_path / "a.csv")]
    refused(capsys, "--curve is for one kind of relevance", *ask, *each)
    refused(capsys, "--relevance names 'AP' twice", *ask, "--relevance", "AP:labels AP:attributes")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
