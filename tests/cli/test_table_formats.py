"""`--format` and `lookalike compare`: what one command prints, another program reads."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from lookalike.cli import main
from lookalike.core.errors import InputError
from lookalike.discovery import Catalogue, Votes
from lookalike.discovery.judgements import majority
from lookalike.study.study import Study


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str, int]:
    """What a command prints, what it says beside that, and how it ends."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    captured = capsys.readouterr()
    return captured.out, captured.err, int(end.value.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Codes of three systems, and their saved results."""
    path = tmp_path_factory.mktemp("results")
    generator, labels = np.random.default_rng(0), np.random.default_rng(1).integers(0, 3, 90)
    centres = generator.normal(size=(3, 12))
    for name, noise in (("itq", 0.6), ("lsh", 1.5), ("other", 1.5)):
        codes = la.Codes.pack(centres[labels] + noise * generator.normal(size=(90, 12)) > 0)
        known = labels if name != "other" else (labels + 1) % 2
        for part, rows in (("q", slice(30)), ("g", slice(30, 90))):
            np.savez(path / f"{name}-{part}.npz", codes=codes[rows].unpack(), labels=known[rows])
        relevance = la.same_label(known[:30], known[30:])
        la.evaluate(codes[:30], codes[30:], relevance, "AP P@5").to_json(path / f"{name}.json")
    la.evaluate(codes[:20], codes[30:], la.same_label(known[:20], known[30:]), "AP").to_json(path / "few.json")
    return path


def evaluate(folder: Path) -> list[str]:
    return ["evaluate", str(folder / "itq-q.npz"), str(folder / "itq-g.npz"), "--metrics", "AP P@5"]


def test_evaluate_in_every_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = json.loads((folder / "itq.json").read_text())["scores"][0]["mean"]
    as_json = json.loads(run(capsys, *evaluate(folder), "--format", "json")[0])
    assert as_json == json.loads(run(capsys, *evaluate(folder), "--json")[0])
    text, beside, _ = run(capsys, *evaluate(folder), "--format", "csv", "--interval", "0.9")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert float(rows[0]["expected"]) == expected == as_json["scores"][0]["mean"]
    assert float(rows[0]["90% interval low"]) < expected < float(rows[0]["90% interval high"])
    assert "30 queries, 60 items" in beside
    latex = run(capsys, *evaluate(folder), "--format", "latex")[0]
    assert f"AP & {expected:.4f} &" in latex
    assert all(line.startswith("%") for line in latex.split(r"\begin{tabular}")[0].splitlines())
    assert f"| AP     |   {expected:.4f} |" in run(capsys, *evaluate(folder), "--format", "markdown")[0]
    plain = run(capsys, *evaluate(folder))[0]
    assert plain == run(capsys, *evaluate(folder), "--format", "table")[0]
    assert f"{expected:.4f}" in plain


def test_two_formats_at_once_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, beside, code = run(capsys, *evaluate(folder), "--json", "--format", "csv")
    assert (out, code) == ("", 2)
    assert "--json is --format json, and --format is csv: pass one of them" in beside
    assert run(capsys, *evaluate(folder), "--json", "--format", "json")[2] == 0


@pytest.mark.parametrize("words", [["encoders"], ["replicate", "--list"]])
def test_lists_in_every_format(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, *words, "--json")[0])
    rows = list(csv.DictReader(io.StringIO(run(capsys, *words, "--format", "csv")[0])))
    assert [row["name"] for row in rows] == [fact["name"] for fact in facts]
    assert run(capsys, *words, "--format", "latex")[0].count(r"\\") == len(facts) + 1
    assert len(run(capsys, *words, "--format", "markdown")[0].splitlines()) == len(facts) + 2


def test_usage_says_which_table_csv_leaves_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, beside, _ = run(capsys, "usage", str(folder / "itq-g.npz"), "--format", "csv")
    assert text.startswith("of the codes,value\nitems,60\n")
    assert "CSV has room for one table, and these are left out: items on a code" in beside
    assert run(capsys, "usage", str(folder / "itq-g.npz"), "--format", "latex")[0].count(r"\toprule") == 2


# compare


def test_compare_is_compare_of_python(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [str(folder / "itq.json"), f"plain={folder / 'lsh.json'}"]
    compared = la.compare(
        {"itq": la.Evaluation.from_json(files[0]), "plain": la.Evaluation.from_json(folder / "lsh.json")}
    )
    output = tmp_path / "all.json"
    saved = json.loads(run(capsys, "compare", *files, "--json", "--output", str(output))[0])
    assert saved == json.loads(output.read_text())
    assert saved["differences"] == compared.rows()
    assert saved["systems"]["plain"][0]["mean"] == compared.evaluations["plain"]["AP"].mean
    rows = list(csv.DictReader(io.StringIO(run(capsys, "compare", *files, "--format", "csv")[0])))
    assert [float(row["difference"]) for row in rows] == [d.difference for d in compared.differences]
    one = run(capsys, "compare", *files, "--metric", "P@5", "--baseline", "plain")[0]
    assert "itq - plain" in one
    assert "AP" not in one
    assert "† differs significantly from plain" in one


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["itq.json"], "two saved results or more, got 1"),
        (["itq.json", "itq.json"], "two results are named 'itq': write NAME=FILE"),
        (["itq.json", "=lsh.json"], "given as FILE or NAME=FILE, got '=lsh.json'"),
        (["itq.json", "none.json"], "there is no file none.json"),
        (["itq.json", "few.json"], "different queries: query 20 is not in 'few'"),
        (["itq.json", "lsh.json", "--metric", "RR"], "not every evaluation has RR: all of them have AP, P@5"),
        (["itq.json", "lsh.json", "--baseline", "lhs"], "--baseline must be one of 'itq', 'lsh', got 'lhs'"),
        (["itq.json", "lsh.json", "--level", "95"], "level must be between 0 and 1"),
        (["itq.json", "lsh.json", "--resamples", "0"], "--resamples must be a whole number from 1"),
        (["itq.json", "itq-q.npz"], "itq-q.npz"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: Any, sentence: str
) -> None:
    monkeypatch.chdir(folder)
    out, beside, code = run(capsys, "compare", *words)
    assert (out, code) == ("", 2)
    assert sentence in beside


def test_other_labels_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(folder)
    out = run(capsys, "compare", "itq.json", "other.json", "--format", "markdown")[0]
    assert "have different fingerprints" in out
    assert "have different fingerprints" in caplog.text


# Studies


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two models, of which one built the pool that was voted on."""
    path = tmp_path_factory.mktemp("studies") / "study"
    items, vectors = [f"i{i}" for i in range(12)], np.random.default_rng(0).normal(size=(12, 8))
    made = Study.create(path, "shop", Catalogue(items), queries=items[:4])
    made.add_model("one", gallery=vectors)
    made.add_model("two_x", gallery=vectors[:, ::-1].copy() * np.arange(1, 9))
    made.write_pool(la.discovery.Pool.build({"one": made.model("one").given}, made.collection, k=3))
    pairs = made.pool().pairs
    made.append_votes(Votes(*zip(*pairs, strict=True), ["ann"] * len(pairs), [1, 0] * (len(pairs) // 2)))
    return path


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("leaderboard {}", lambda facts: {row["metric"] for row in facts["rows"]}),
        ("study show {}", lambda facts: facts["models"]),
        ("index {}", lambda facts: facts["indexes"]),
        ("search {} i3 -k 3", lambda facts: facts["found"]),
        ("pool {} --top-up two_x", list),
    ],
)
def test_commands_of_a_study(study: Path, capsys: pytest.CaptureFixture[str], words: str, rows: Any) -> None:
    command = words.format(study).split()
    facts = json.loads(run(capsys, *command, "--json")[0])
    table = list(csv.reader(io.StringIO(run(capsys, *command, "--format", "csv")[0])))
    more = 4 if "leaderboard" in words else 0  # numbers that are neutral to models of the pool, beside the metrics
    assert len(table) == len(rows(facts)) + 1 + more
    assert len({len(row) for row in table}) == 1
    for form, line in (("latex", r"\toprule"), ("markdown", "|:--")):
        assert line in run(capsys, *command, "--format", form)[0]


def test_the_table_of_a_leaderboard(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = Study.open(study)
    models = {name: opened.model(name).given for name in opened.models()}
    board = la.discovery.leaderboard(models, majority(opened.votes()), opened.collection, pool=opened.pool())
    chosen = board.to_table(["AUC", "Bpref, equal terms"])
    assert [head.name for head in chosen.heads] == ["model", "AUC", "Bpref, equal terms"]
    values = {row[0].value: row[1].value for row in chosen.rows}
    assert values == {name: board[name]["AUC"].mean for name in models}
    assert board.to_csv() == run(capsys, "leaderboard", str(study), "--format", "csv")[0]
    assert board.to_csv().splitlines()[0] == "metric," + ",".join(board.placing.ranking)
    assert board.to_csv(transpose=True).splitlines()[1].startswith(board.placing.ranking[0])
    assert board.log("v/")["v/two_x/AUC_best"] == board["two_x"]["AUC"].best
    with pytest.raises(InputError, match="no number 'AUCs', did you mean 'AUC'"):
        board.to_latex(metrics=["AUCs"])
