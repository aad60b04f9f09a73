"""What commands show as Barkan et al. 2023 do: identification, their tables, Student's t, Chebyshev's sample size."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import done, refused
from lookalike.discovery import identification
from lookalike.evaluation.trec import write_run
from lookalike.study.study import Study

N, STYLES = 60, 6


def items(path: Path, images: int) -> Path:
    """A catalogue with so many images of each product; none: products are not known."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "identity"] if images else ["id"])
        rows.writerows([f"i{n}", f"p{n // images}"] if images else [f"i{n}"] for n in range(N))
    return path


def a_study(folder: Path, capsys: pytest.CaptureFixture[str], images: int = 2) -> str:
    """A study of two models and 12 queries, without a pool."""
    shop = str(folder / "shop")
    catalogue = str(items(folder / "items.csv", images))
    done(capsys, "study", "new", shop, "--catalogue", catalogue, "--draw", "12")
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(STYLES, 8))
    for name, noise in (("good", 0.4), ("fair", 0.9)):
        rows = (centres[np.arange(N) // 2 % STYLES] + noise * rng.normal(size=(N, 8))).astype(np.float32)
        np.savez(folder / f"{name}.npz", embeddings=rows, ids=np.array([f"i{n}" for n in range(N)]))
        done(capsys, "study", "add", shop, name, str(folder / f"{name}.npz"))
    return shop


def judge(shop: str, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> None:
    """Pool and judge everything."""
    done(capsys, "pool", shop, "--k", "3", "--output", str(folder / "pairs.csv"), *options)
    with (folder / "pairs.csv").open(encoding="utf-8") as file:
        pairs = [(row["query"], row["item"]) for row in csv.DictReader(file)]
    with (folder / "votes.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["query", "item", "expert", "answer"])
        for query, item in pairs:
            alike = int(query[1:]) // 2 % STYLES == int(item[1:]) // 2 % STYLES
            rows.writerow([query, item, "ann", "similar" if alike else "not similar"])
    done(capsys, "study", "votes", shop, str(folder / "votes.csv"))


def test_identification_needs_no_votes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = a_study(tmp_path, capsys)
    text = done(capsys, "leaderboard", shop, "--identification")
    assert "VSDHR(norm='positives')@5" in text
    assert "12 of 12 queries have another image" in text
    assert "no votes yet" in text
    output = tmp_path / "found.json"
    told = json.loads(done(capsys, "leaderboard", shop, "--identification", "--json", "--output", str(output)))
    assert told == json.loads(output.read_text(encoding="utf-8"))
    study = Study.open(shop)
    expected = identification({name: study.model(name).given for name in study.models()}, study.collection)
    for row in told["rows"]:
        assert row["mean"] == pytest.approx(expected[row["model"]][row["metric"]].mean)
        assert row["low"] <= row["mean"] <= row["high"]
    refused(capsys, "leave out --report", "leaderboard", shop, "--identification", "--report", tmp_path / "x.html")


@pytest.mark.parametrize(
    ("images", "why"), [(0, "give the catalogue a column identity"), (1, "no identity of a query")]
)
def test_why_there_is_no_identification(
    tmp_path: Path, images: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = a_study(tmp_path, capsys, images)
    refused(capsys, why, "leaderboard", shop, "--identification")
    judge(shop, tmp_path, capsys)
    refused(capsys, why, "leaderboard", shop, "--identification")
    text = done(capsys, "leaderboard", shop, "--paper-tables")
    (line,) = (line for line in text.splitlines() if line.startswith("Table 4"))
    assert why in line
    page = tmp_path / "page.html"
    done(capsys, "leaderboard", shop, "--report", str(page))
    assert 'id="identification"' not in page.read_text(encoding="utf-8")


def test_tables_of_the_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = a_study(tmp_path, capsys)
    judge(shop, tmp_path, capsys, "--random", "20")
    text = done(capsys, "leaderboard", shop, "--paper-tables", "--identification")
    titles = [line for line in text.splitlines() if line.startswith("Table ")]
    assert [title[:7] for title in titles] == ["Table 4", "Table 5", "Table 6", "Table 7", "Table 8"]
    assert "no column Neg" in text
    assert "finding other images of the same identity" in text
    page = tmp_path / "page.html"
    told = json.loads(done(capsys, "leaderboard", shop, "--paper-tables", "--report", str(page), "--json"))
    assert [table["table"] for table in told["paper_tables"]] == [4, 5, 6, 7, 8]
    assert {row["model"] for row in told["identification"]["rows"]} == {"good", "fair"}  # the page shows it
    kept = json.loads((Path(shop) / "results" / "leaderboard.json").read_text(encoding="utf-8"))
    assert kept["paper_tables"] == told["paper_tables"]
    html = page.read_text(encoding="utf-8")
    assert "Table 5. Discovery performance" in html
    assert 'id="identification"' in html
    plain = json.loads(done(capsys, "leaderboard", shop, "--json"))
    assert not {"paper_tables", "identification"} & set(plain)


def test_students_t_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = a_study(tmp_path, capsys)
    judge(shop, tmp_path, capsys)
    told = json.loads(done(capsys, "leaderboard", shop, "--leave-one-out", "--p", "t", "--json"))
    assert {row["p_by"] for row in told["leave_one_out"]} == {"t"}
    assert "Student's t" in done(capsys, "leaderboard", shop, "--leave-one-out", "--p", "t")
    refused(capsys, "--p t is for --leave-one-out", "leaderboard", shop, "--p", "t")


def test_metrics_without_a_cutoff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = a_study(tmp_path, capsys)
    judge(shop, tmp_path, capsys)
    told = json.loads(done(capsys, "leaderboard", shop, "--metrics", "AP nDCG RR AUC", "--json"))
    means = {(row["model"], row["metric"]): row["mean"] for row in told["rows"]}
    assert 0 < means["fair", "AP"] < means["good", "AP"] <= 1
    (tmp_path / "judged.qrels").write_text("q 0 a 1\nq 0 b 1\nq 0 c 0\n", encoding="utf-8")
    write_run(tmp_path / "one.run", [("q", "c", 3.0), ("q", "a", 2.0)])
    told = json.loads(
        done(capsys, "leaderboard", "--qrels", str(tmp_path / "judged.qrels"), "--run", f"one={tmp_path / 'one.run'}",
            "--metrics", "AP RR", "--json")
    )  # fmt: skip
    assert [row["mean"] for row in told["rows"]] == pytest.approx([0.25, 0.5])  # b is not listed: not found


def test_chebyshev_says_how_many_pairs_to_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = a_study(tmp_path, capsys)
    text = done(capsys, "pool", shop, "--k", "3", "--random", "100")
    promise = "100 pairs drawn by chance estimate a share of positives below 0.2 to within 0.2"
    assert f"{promise}, except with a probability of 0.05" in text
    told = json.loads(done(capsys, "pool", shop, "--k", "3", "--error", "0.1", "--risk", "0.1", "--json"))
    assert told["chebyshev"] == {"random": 100, "risk": 0.1, "error": pytest.approx(0.1)}
    assert int(Study.open(shop).pool().random.sum()) == 100
    assert "too few for Chebyshev's inequality" in done(capsys, "pool", shop, "--k", "3", "--random", "9")
    assert "Chebyshev" not in done(capsys, "pool", shop, "--k", "3")
    refused(capsys, "either --random", "pool", shop, "--error", "0.1", "--random", "5")
    refused(capsys, "--error must be between 0 and 1, got 2", "pool", shop, "--error", "2")
    refused(capsys, "--risk must be between 0 and 1, got 0", "pool", shop, "--risk", "0")
    refused(capsys, "takes 20,000 pairs drawn by chance, more than the 696 that", "pool", shop, "--error", "0.001")
    refused(capsys, "leave out --error", "pool", shop, "--next", "3", "--error", "0.1")
