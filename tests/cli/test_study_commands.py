"""The commands of discovery, from a catalogue in CSV to a leaderboard and out again."""

from __future__ import annotations

import csv
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.commands import done, refused, run
from lookalike.cli.study import votes as add_votes
from lookalike.discovery import Judgements, Votes, dawid_skene, leaderboard, majority, vote_log
from lookalike.discovery.formats import read_judgements
from lookalike.discovery.vote_log import rows_of
from lookalike.evaluation.trec import write_run
from lookalike.study.study import Study

N, STYLES = 120, 12
STYLE = np.arange(N) % STYLES


def write_csv(path: Path, rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A catalogue of two images a product, and three models of falling quality."""
    items = [[f"i{i}", f"p{i // 2}", f"style {STYLE[i]}"] for i in range(N)]
    write_csv(tmp_path / "items.csv", [["id", "identity", "category"], *items])
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(STYLES, 8))
    for name, noise in (("good", 0.3), ("fair", 0.9), ("late", 0.6)):
        rows = (centres[STYLE] + noise * generator.normal(size=(N, 8))).astype(np.float32)
        order = generator.permutation(N)  # matched by id, not by place
        np.savez(tmp_path / f"{name}.npz", embeddings=rows[order], ids=np.array([f"i{i}" for i in order]))
    return tmp_path


@pytest.fixture
def study(files: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A study with two models in the pool, judged by three experts, and one that came later."""
    folder = files / "shop"
    done(capsys, "study", "new", str(folder), "--catalogue", str(files / "items.csv"), "--draw", "24",
        "--stratify", "category")  # fmt: skip
    for name in ("good", "fair"):
        done(capsys, "study", "add", str(folder), name, str(files / f"{name}.npz"))
    done(capsys, "pool", str(folder), "--k", "4", "--random", "30", "--output", str(files / "pairs.csv"))
    votes = [["query", "item", "expert", "answer"]]
    with (files / "pairs.csv").open(encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            alike = STYLE[int(row["query"][1:])] == STYLE[int(row["item"][1:])]
            for expert in ("ann", "bob", "cy"):
                wrong = expert == "cy" and number % 7 == 0
                votes.append([row["query"], row["item"], expert, "similar" if alike != wrong else "not similar"])
    done(capsys, "study", "votes", str(folder), str(write_csv(files / "votes.csv", votes)))
    done(capsys, "study", "add", str(folder), "late", str(files / "late.npz"))
    return folder


def test_a_study_from_csv_to_leaderboard(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = Study.open(study)
    assert opened.models() == ["fair", "good", "late"]
    assert len(set(opened.queries.column("category"))) == STYLES  # two of each, as they were drawn
    pool = opened.pool()
    assert (pool.k, set(pool.models), int(pool.random.sum())) == (4, {"good", "fair"}, 30)
    told = json.loads(
        done(capsys, "leaderboard", str(study), "--leave-one-out", "--rules", "--compare", "AUC", "--json")
    )
    models = {name: opened.model(name).given for name in opened.models()}
    board = leaderboard(models, majority(opened.votes()), opened.collection, pool=pool)
    rows = {(row["model"], row["metric"]): row for row in told["rows"]}
    for row in board.rows():
        assert rows[row["model"], row["metric"]]["mean"] == pytest.approx(row["mean"], nan_ok=True)
    assert {row["model"]: row["helped"] for row in told["rows"]} == {"good": True, "fair": True, "late": False}
    assert len(told["leave_one_out"]) == 4
    assert set(told["rules"]) == {"majority", "unanimous", "dawid-skene"}
    assert len(told["comparison"]) == 3
    assert any(warning.startswith("late: ") for warning in told["warnings"])
    kept = json.loads((study / "results" / "leaderboard.json").read_text())
    assert kept["pairs"] + kept["random_left_out"] == len(pool)


def test_each_rule_is_held_against_gold_pairs(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Experts judged all pairs of the pool: ann and bob are always right, cy says the contrary of every seventh."""
    assert "rules_on_gold" not in json.loads(done(capsys, "leaderboard", str(study), "--rules", "--json"))
    opened = Study.open(study)
    opened.set_gold([(*pair, grade) for pair, grade in list(majority(opened.votes()).by_pair.items())[:70]])
    told = json.loads(done(capsys, "leaderboard", str(study), "--rules", "--json"))
    assert set(told["rules_on_gold"]) == {"majority", "unanimous", "dawid-skene"}
    assert told["rules_on_gold"]["majority"] == {"decided": 70, "right": 70, "accuracy": 1.0}
    right = told["rules_on_gold"]["unanimous"]["right"]
    assert 60 <= right < 70
    text = done(capsys, "leaderboard", str(study), "--metrics", "AUC", "--rules")
    assert "gold pairs right" in text
    assert f"{right} of 70" in text


def test_smoothing_is_an_option_wherever_the_rule_is(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    votes = Study.open(study).votes()
    for given, smoothing in (([], "crowd"), (["--smoothing", "crowd"], "crowd"), (["--smoothing", "1e6"], 1e6)):
        expected = dawid_skene(votes, smoothing=smoothing).by_pair  # type: ignore[arg-type]
        for command in (["study", "export", str(study), "judgements"], ["judge", "export", str(study)]):
            file = tmp_path / "judged.json"
            done(capsys, *command, str(file), "--rule", "dawid-skene", "--with-random", *given)
            written = {(query, item): grade for query, item, grade in read_judgements(file)}
            assert written == expected
        ruled = ["--rule", "dawid-skene", "--with-random", *given]
        told = json.loads(done(capsys, "leaderboard", str(study), *ruled, "--json"))
        assert told["positives"] == sum(expected.values())
    assert sum(expected.values()) != sum(dawid_skene(votes).by_pair.values())  # so much smoothing is seen
    wrong = "--smoothing is for --rule dawid-skene, and the rule is majority"
    refused(capsys, wrong, "leaderboard", str(study), "--smoothing", "2")
    refused(capsys, wrong, "study", "export", str(study), "judgements", str(file), "--smoothing", "2")
    refused(capsys, wrong, "judge", "export", str(study), str(file), "--smoothing", "2")
    refused(capsys, "--smoothing must be above 0", "leaderboard", str(study), "--rules", "--smoothing", "-1")


def test_leaving_one_out_is_of_the_metrics_that_were_asked_for(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--metrics", "VSDHR@4 PRAUC", "--compare", "AUC", "--leave-one-out"]
    told = json.loads(done(capsys, "leaderboard", str(study), *asked, "--json"))
    assert {row["metric"] for row in told["leave_one_out"]} == {"VSDHR@4", "PRAUC"}
    assert any(warning.startswith("late: ") for warning in told["warnings"])  # though Judged@4 was not asked for
    told = json.loads(done(capsys, "leaderboard", str(study), "--leave-one-out", "--json"))
    assert {row["metric"] for row in told["leave_one_out"]} == {"AUC", "AUC(average='micro')"}


def test_what_is_compared_is_measured(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(done(capsys, "leaderboard", str(study), "--metrics", "AUC", "--compare", "PRAUC", "--json"))
    assert {row["metric"] for row in told["comparison"]} == {"PRAUC"}


def test_the_table_is_for_reading(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = done(capsys, "leaderboard", str(study), "--metrics", "AUC VSDHR@4", "--rules")
    assert "helped to build the pool" in text
    assert "AUC, own left out" in text
    assert "dawid-skene" in text


def test_the_cost_is_the_same_wherever_it_is_told(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All pairs of 24 queries but those of their own product, over all pairs to judge, those drawn by chance too."""
    pool = Study.open(study).pool()
    times = f"{24 * (N - 2) / len(pool):.0f} times"
    shown = done(capsys, "study", "show", str(study))
    assert f"{times} fewer than all {24 * (N - 2):,} pairs" in shown
    assert f"judging {len(pool):,} takes" in shown
    assert f"{times} as long" in shown
    page = study.parent / "cost.html"
    done(capsys, "leaderboard", str(study), "--report", str(page))
    assert f"{times} fewer than all {24 * (N - 2):,}" in page.read_text(encoding="utf-8")
    told = json.loads(done(capsys, "pool", str(study), "--k", "4", "--random", "30", "--replace",
                          "--models", "good fair", "--json"))  # fmt: skip
    assert (told["pairs"], told["all_pairs"]) == (len(pool), 24 * (N - 2))
    assert told["saving"] == pytest.approx(24 * (N - 2) / len(pool))


def test_show_tells_what_there_is(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = done(capsys, "study", "show", str(study))
    for part in ("embeddings of 8 numbers, cosine", "Krippendorff's alpha", "times richer", "of all"):
        assert part in text
    told = json.loads(done(capsys, "study", "show", str(study), "--json"))
    assert told["votes"] == 3 * told["pool"]["pairs"]
    assert told["prevalence"]["pool"]["unjudged"] == 0


def test_show_goes_on_without_a_model_that_cannot_be_read(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = study / "models" / "fair.npz"
    file.write_bytes(file.read_bytes()[:-100])
    code, text, remarks = run(capsys, "study", "show", str(study))
    assert code == 0
    assert remarks.startswith(f"lookalike: {file} is ")
    assert remarks.count("\n") == 1
    for part in ("cannot be read", "embeddings of 8 numbers, cosine", "Krippendorff's alpha"):
        assert part in text
    told = json.loads(done(capsys, "study", "show", str(study), "--json"))
    assert told["models"] == ["fair", "good", "late"]
    assert told["kinds"] == dict.fromkeys(("good", "late"), "embeddings of 8 numbers, cosine")
    assert [*told["problems"]] == ["fair"]
    assert str(file) in told["problems"]["fair"]
    for command in (["leaderboard", study], ["pool", study, "--replace"]):
        refused(capsys, str(file), *command)


@pytest.mark.parametrize("removed", [["fair"], ["fair", "late"]])
def test_a_model_of_the_pool_may_be_removed(
    removed: list[str], study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in removed:
        done(capsys, "study", "remove", str(study), name)
    page = study.parent / "page.html"
    text = done(capsys, "leaderboard", str(study), "--report", str(page))
    assert "without the pairs that only one model proposed" in text
    assert "fair" in page.read_text()  # it still has its part in the pool
    told = json.loads(done(capsys, "leaderboard", str(study), "--leave-one-out", "--json"))
    assert {row["model"] for row in told["leave_one_out"]} == {"good"}
    done(capsys, "report", str(study), "--output", str(study.parent / "collection.html"))


def test_a_top_up_lists_what_a_new_model_adds(study: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done(capsys, "pool", str(study), "--top-up", "late", "--output", str(files / "top-up.csv"))
    with (files / "top-up.csv").open(encoding="utf-8") as file:
        listed = {(row["query"], row["item"]) for row in csv.DictReader(file)}
    opened = Study.open(study)
    late = set(opened.pool().proposals["late"])  # which it is now part of
    assert listed == late - set(opened.votes().pairs)
    assert listed
    votes = [["query", "item", "expert", "answer"], *([*pair, "ann", "similar"] for pair in sorted(listed))]
    done(capsys, "study", "votes", str(study), str(write_csv(files / "more.csv", votes)))
    told = json.loads(done(capsys, "leaderboard", str(study), "--metrics", "Judged@4", "--json"))
    assert {row["model"]: (row["helped"], row["mean"]) for row in told["rows"]}["late"] == (True, 1)


def test_the_next_pairs_of_an_order(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = study.parent / "fresh"
    done(capsys, "study", "new", str(folder), "--catalogue", str(study.parent / "items.csv"), "--draw", "10")
    done(capsys, "study", "add", str(folder), "good", str(study.parent / "good.npz"))
    done(capsys, "pool", str(folder), "--k", "3")
    pairs = json.loads(done(capsys, "pool", str(folder), "--next", "10", "--json"))
    pool = Study.open(folder).pool()
    assert {(row["query"], row["item"]) for row in pairs} == {
        pair for pair, rank in zip(pool.pairs, pool.ranks[:, 0], strict=True) if rank == 1
    }


def test_a_pool_says_what_comes_next(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = files / "next"
    done(capsys, "study", "new", str(folder), "--catalogue", str(files / "items.csv"), "--draw", "10")
    done(capsys, "study", "add", str(folder), "good", str(files / "good.npz"))
    told = done(capsys, "pool", str(folder))
    by_file = f"lookalike pool {folder} --next N --output FILE and lookalike study votes {folder} FILE"
    assert f"Next: {by_file}\n" in told  # there is no picture for a browser to show
    assert "are queries" not in told
    refused(capsys, "lookalike judge next --expert NAME", "leaderboard", str(folder))
    items = [[f"i{i}", f"{i}.png"] for i in range(200)]
    write_csv(files / "shown.csv", [["id", "path"], *items])
    for _, name in items:
        (files / name).touch()
    (files / "all.txt").write_text("\n".join(name for name, _ in items), encoding="utf-8")
    rows = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    np.savez(files / "rows.npz", embeddings=rows, ids=np.array([name for name, _ in items]))
    folder = files / "all"
    done(capsys, "study", "new", str(folder), "--catalogue", str(files / "shown.csv"), "--queries",
        str(files / "all.txt"))  # fmt: skip
    done(capsys, "study", "add", str(folder), "rows", str(files / "rows.npz"))
    told = done(capsys, "pool", str(folder), "--k", "2")
    assert f"Next: lookalike judge {folder} --expert NAME, or lookalike pool {folder} --next N" in told
    assert f"All 200 items are queries: to judge fewer pairs, remove {folder / 'pool.parquet'}" in told
    (folder / "pool.parquet").unlink()
    done(capsys, "study", "queries", str(folder), "--draw", "20")  # as it says
    assert "are queries" not in done(capsys, "pool", str(folder), "--k", "2")


@pytest.mark.parametrize("name", ["out.qrels", "out.csv", "out.parquet", "out.json"])
def test_judgements_go_out_and_come_in(study: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = study.parent / name
    done(capsys, "study", "export", str(study), "judgements", str(path), "--with-random")
    assert Judgements.of(read_judgements(path)).by_pair == majority(Study.open(study).votes()).by_pair
    again = study.parent / "again"
    done(capsys, "study", "new", str(again), "--catalogue", str(study.parent / "items.csv"), "--queries",
        str(_queries(study)))  # fmt: skip
    done(capsys, "study", "votes", str(again), str(path), "--expert", "panel")
    assert majority(Study.open(again).votes()).by_pair == majority(Study.open(study).votes()).by_pair


def _queries(study: Path) -> Path:
    path = study.parent / "queries.txt"
    path.write_text("\n".join(Study.open(study).queries.ids), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("what", "name"), [("votes", "v.csv"), ("votes", "v.parquet"), ("pool", "p.csv"), ("catalogue", "c.csv")]
)
def test_everything_else_goes_out(study: Path, what: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = study.parent / name
    done(capsys, "study", "export", str(study), what, str(path))
    opened = Study.open(study)
    if what == "votes":
        assert Votes.read(path).digest == opened.votes().digest
    else:
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        proposed = int(opened.pool().proposed.sum()) + 30
        assert len(rows) == (proposed if what == "pool" else N)


def test_runs_and_qrels_need_no_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {"good": {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, "bad": {"q": {"c": 3.0, "b": 2.0}}}
    for name, ranked in runs.items():
        write_run(tmp_path / f"{name}.run", ranked, name)
    (tmp_path / "x.qrels").write_text("q 0 a 1\nq 0 c 0\n", encoding="utf-8")
    given = [part for name in runs for part in ("--run", f"{name}={tmp_path / name}.run")]
    told = json.loads(done(capsys, "leaderboard", *given, "--qrels", str(tmp_path / "x.qrels"),
                          "--metrics", "AUC VSDHR@2 Judged@2", "--json"))  # fmt: skip
    found = {(row["model"], row["metric"]): row["mean"] for row in told["rows"]}
    assert (found["good", "AUC"], found["bad", "AUC"]) == (1, 0)  # what "bad" does not list is below all it lists
    assert (found["good", "VSDHR@2"], found["bad", "Judged@2"]) == (0.5, 0.5)


def test_a_report_of_a_study(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = study.parent / "shop.html"
    done(capsys, "report", str(study), "--output", str(page))
    assert "What each model owes to its own pairs" in page.read_text(encoding="utf-8")
    refused(capsys, "--features", "report", str(study), "--features", "pixels")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["study", "new", "{}/x", "--catalogue", "{}/items.csv"], "--queries FILE, or --draw N"),
        (["study", "new", "{}/x", "--catalogue", "{}/items.csv", "--draw", "999"], "from 0 to 120"),
        (["study", "new", "{}/shop", "--catalogue", "{}/items.csv", "--draw", "2"], "not a new or empty folder"),
        (["study", "add", "{}/shop", "good", "{}/good.npz"], "already"),
        (["study", "add", "{}/nowhere", "good", "{}/good.npz"], "no folder"),
        (["study", "add", "{}", "good", "{}/good.npz"], "not a study"),
        (["pool", "{}/shop", "--k", "500", "--replace"], "k must be from 1 to"),
        (["pool", "{}/shop", "--top-up", "nobody"], "no model 'nobody'"),
        (["pool", "{}/shop", "--top-up", "late", "--next", "3"], "either --top-up or --next"),
        (["pool", "{}/shop", "--next", "3", "--k", "4"], "--next takes the pool as it was made: leave out --k"),
        (["pool", "{}/shop", "--next", "3", "--random", "9", "--replace"], "leave out --random, --replace"),
        (["pool", "{}/shop", "--next", "3", "--seed", "9", "--seconds", "3"], "leave out --seconds, --seed"),
        (["pool", "{}/shop", "--top-up", "late", "--models", "late"], "--top-up takes the pool as it was made"),
        (["pool", "{}/shop", "--top-up", "late", "--one-per-identity"], "leave out --one-per-identity"),
        (["pool", "{}/shop", "--top-up", "late", "--order", "adaptive"], "pass --next N"),
        (["pool", "{}/shop", "--replace", "--order", "adaptive"], "--order adaptive is of the pairs that --next lists"),
        (["leaderboard", "--run", "a=b.run", "--qrels", "c.qrels", "--rule", "unanimous"], "judgements already"),
        (["pool", "{}/shop", "--seconds", "0"], "seconds"),
        (["pool", "{}/shop", "--output", "{}/pairs.txt"], ".csv or .parquet"),
        (["pool", "{}/shop", "--next", "-1"], "from 0, got -1"),
        (["leaderboard", "{}/shop", "--compare", "AUK"], "no metric 'AUK'"),
        (["leaderboard"], "pass a study, or --run and --qrels"),
        (["leaderboard", "--run", "a=b.run"], "--run and --qrels belong together"),
        (["leaderboard", "{}/shop", "--metrics", "AUK"], "no metric 'AUK'"),
        (["leaderboard", "{}/shop", "--metrics", "P(radius=2)"], "needs a cutoff, such as P@"),
        (["leaderboard", "{}/shop", "--output", "{}/none/x.json"], "none"),
    ],
)
def test_bad_input_is_one_sentence(
    study: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
    refused(capsys, told, *(part.replace("{}", str(study.parent)) for part in arguments))
    assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before


def test_a_query_is_not_judged_with_itself(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = str(Study.open(study).queries.ids[0])
    itself = write_csv(study.parent / "itself.csv", [["query", "item", "expert", "answer"], [query, query, "ann", "1"]])
    told = f"1 of 1 voted pairs are of a query with itself, first '{query}'"
    refused(capsys, told, "study", "votes", str(study), str(itself))
    grades = write_csv(study.parent / "grades.csv", [["query", "item", "grade"], [query, query, 1]])
    refused(capsys, told, "study", "votes", str(study), str(grades), "--expert", "ann")
    refused(capsys, told.replace("voted", "gold"), "study", "votes", str(study), str(grades), "--gold")
    assert Study.open(study).gold() is None


def test_gold_pairs_say_what_they_replace(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = Study.open(study).pool().pairs
    first = write_csv(study.parent / "first.csv", [["query", "item", "grade"], *([*pair, 1] for pair in pairs[:3])])
    second = write_csv(study.parent / "second.csv", [["query", "item", "grade"], [*pairs[4], 0]])
    assert done(capsys, "study", "votes", str(study), str(first), "--gold").endswith("3 gold pairs\n")
    told = done(capsys, "study", "votes", str(study), str(second), "--gold")
    assert told.endswith("1 gold pairs, in place of the 3 before\n")


def test_the_same_votes_are_added_once(study: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file twice, and a file that has grown: what was there stays once, unless it is meant."""
    before = Study.open(study).votes()
    told = done(capsys, "study", "votes", str(study), str(files / "votes.csv"))
    assert f"all {len(before):,} votes were there already" in told
    assert "--again" in told
    assert Study.open(study).votes().digest == before.digest
    with (files / "votes.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    first = [*rows[1][:3], "can't tell"]  # who thinks again
    grown = write_csv(files / "grown.csv", [*rows, first])
    told = done(capsys, "study", "votes", str(study), str(grown))
    assert "added 1 vote of 1 expert on 1 pair" in told
    assert f"{len(before):,} were there already" in told
    after = Study.open(study).votes()
    assert (len(after), after.answers[-1]) == (len(before) + 1, -1)
    back = write_csv(files / "back.csv", [rows[0], rows[1]])  # and once more, back to the first answer, without a time
    done(capsys, "study", "votes", str(study), str(back), "--again")
    assert len(Study.open(study).votes()) == len(before) + 2
    told = json.loads(done(capsys, "study", "votes", str(study), str(grown), "--json"))
    assert (told["added"], told["there_already"], told["votes"]) == (0, len(before) + 1, len(before) + 2)
    timed = [[*rows[0], "time"], [*rows[1], "2026-01-01T10:00:00Z"], [*rows[1], "2026-01-01T10:00:01Z"]]
    done(capsys, "study", "votes", str(study), str(write_csv(files / "timed.csv", timed)))
    assert len(Study.open(study).votes()) == len(before) + 4  # at another time it is another vote


def test_the_same_votes_by_two_commands_at_once_are_added_once(
    study: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins when the first has seen what is there and has added nothing yet."""
    with (files / "votes.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    timed = [[*head, "time"], *([*row, "2026-01-01T10:00:00Z" * (n % 2)] for n, row in enumerate(rows[:60]))]
    fresh = write_csv(files / "fresh.csv", timed)  # half of them are there already
    before, seconds = len(Study.open(study).votes()), []

    def meet(votes: Votes) -> list[Any]:
        if not seconds:
            seconds.append(threading.Thread(target=add_votes, args=(study, fresh)))
            seconds[0].start()
            seconds[0].join(1.0)  # it waits for the first to end; if it does not, it ends here
        return rows_of(votes)

    monkeypatch.setattr(vote_log, "rows_of", meet)
    add_votes(study, fresh)
    seconds[0].join()
    assert len(Study.open(study).votes()) == before + 30


def test_a_repeated_answer_in_a_file_counts_as_often_as_it_stands_there(
    study: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without times, who goes back to an earlier answer says it twice, and the last counts."""
    with (files / "votes.csv").open(encoding="utf-8") as file:
        head, (query, item, *_), *_ = csv.reader(file)
    said = [[query, item, "dee", answer] for answer in ("similar", "not similar", "similar")]
    for length, added in ((1, 1), (3, 2), (3, 0), (2, 0)):
        given = write_csv(files / "dee.csv", [head, *said[:length]])
        told = json.loads(done(capsys, "study", "votes", str(study), str(given), "--json"))
        assert (told["added"], told["there_already"]) == (added, length - added)
    votes = Study.open(study).votes()
    assert votes[votes.experts == "dee"].answers.tolist() == [1, 0, 1]


def test_votes_outside_the_pool_and_unknown_ids(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = str(Study.open(study).queries.ids[0])
    head = ["query", "item", "expert", "answer"]
    outside = next(f"i{i}" for i in range(N) if (query, f"i{i}") not in set(Study.open(study).pool().pairs))
    strange = write_csv(study.parent / "strange.csv", [head, [query, outside, "ann", "similar"]])
    refused(capsys, "not asked for", "study", "votes", str(study), str(strange))
    unknown = write_csv(study.parent / "unknown.csv", [head, [query, "zz", "ann", "similar"]])
    refused(capsys, "unknown.csv, line 2: there is no item 'zz'", "study", "votes", str(study), str(unknown))
    wrong = write_csv(study.parent / "wrong.csv", [head, [query, outside, "ann", "maybe"]])
    refused(capsys, "line 2", "study", "votes", str(study), str(wrong))
    run_file = study.parent / "strange.run"
    run_file.write_text(f"{query} Q0 i3 1 2.0 x\n{query} Q0 nothing 2 1.0 x\n", encoding="utf-8")
    refused(capsys, "line 2", "study", "add", str(study), "strange", str(run_file))
    nan = study.parent / "nan.npz"
    np.savez(nan, embeddings=np.full((N, 3), np.nan, np.float32), ids=np.array([f"i{i}" for i in range(N)]))
    refused(capsys, "nan", "study", "add", str(study), "nan", str(nan))
    assert la.Study.open(study).models() == ["fair", "good", "late"]
