"""`lookalike leaderboard` on the terminal: models in their places, who leads and how surely, the rest on request."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import done, refused, run
from lookalike.core.csv_files import read_csv
from lookalike.discovery import Catalogue, Pool, Votes
from lookalike.discovery.formats import read_judgements
from lookalike.evaluation.trec import write_run
from lookalike.study.study import Study

HEAD = ["model", "Bpref, equal terms", "95 % interval", "built the pool", "judged of top 5"]
IDS = [f"i{n:03}" for n in range(300)]
TRUTH = np.random.default_rng(7).normal(size=(300, 24))


def made(folder: Path, noises: dict[str, float], *, builders: tuple[str, ...], random: int = 40) -> Study:
    """A study of 25 queries that three experts judged; models of the same noise are the same."""
    study = Study.create(folder, "shop", Catalogue(IDS), queries=IDS[:25])
    for name, noise in noises.items():
        rows = TRUTH + noise * np.random.default_rng(int(1000 * noise)).normal(size=TRUTH.shape)
        study.add_model(name, None, rows.astype(np.float32), similarity="cosine", gallery_ids=IDS)
    study.write_pool(
        Pool.build({name: study.model(name).given for name in builders}, study.collection, k=5, random=random)
    )
    pool = study.pool()
    unit = TRUTH / np.linalg.norm(TRUTH, axis=1, keepdims=True)
    alike = (unit @ unit.T)[pool.queries, pool.items] > 0.45
    queries, items = zip(*pool.pairs, strict=True)
    for expert in ("ann", "bob", "eve"):
        study.append_votes(Votes(queries, items, [expert] * len(pool), alike.astype(int)))
    return study


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Study:
    noises = {"clip": 0.3, "dino": 0.9, "late": 0.6}
    return made(tmp_path_factory.mktemp("three") / "shop", noises, builders=("clip", "dino"))


def test_models_stand_in_their_places_and_the_rest_is_asked_for(
    three: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(three.path)
    text = done(capsys, "leaderboard", folder)
    lines = text.splitlines()
    assert re.split(r"  +", lines[0].strip()) == HEAD
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "3"]
    told = json.loads(done(capsys, "leaderboard", folder, "--json"))
    standing = told["standing"]
    assert [line.split()[1] for line in lines[1:4]] == [place["model"] for place in standing["places"]]
    assert lines[4].startswith(f"{standing['leaders'][0]} leads by Bpref, equal terms: ")
    assert f"{told['pairs']} judged pairs, {told['positives']} positive; {told['random_left_out']} more drawn" in text
    assert "VSDMRR" not in text
    assert "VSDMRR@5" in done(capsys, "leaderboard", folder, "--all")
    asked = done(capsys, "leaderboard", folder, "--metrics", "AUC PRAUC")
    assert "PRAUC" in asked
    assert "VSDMRR" not in asked


def test_pairs_drawn_by_chance_count_where_that_is_asked_for(three: Study, capsys: pytest.CaptureFixture[str]) -> None:
    told = [
        json.loads(done(capsys, "leaderboard", str(three.path), *more, "--json")) for more in ([], ["--with-random"])
    ]
    drawn = int(three.pool().random_alone.sum())
    assert [each["random_left_out"] for each in told] == [drawn, 0]
    assert [each["pairs"] for each in told] == [len(three.pool()) - drawn, len(three.pool())]
    assert f"; {drawn} of them drawn by chance, which count too" in done(
        capsys, "leaderboard", str(three.path), "--with-random"
    )


def test_equal_models_share_a_place_and_two_leave_no_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = made(tmp_path / "two", {"clip": 0.5, "twin": 0.5}, builders=("clip", "twin"))
    text = done(capsys, "leaderboard", str(study.path), "--leave-one-out", "--report", str(tmp_path / "two.html"))
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["1=", "1="]
    assert "clip and twin share the first place by Bpref, equal terms" in text
    assert not re.search(r"\bnan\b", text)
    assert "–: there is no order where all models are equal, or one is alone" in text
    page = (tmp_path / "two.html").read_text(encoding="utf-8")
    assert "shared by 2 models" in page
    assert " leads by " not in page
    other = made(tmp_path / "pair", {"clip": 0.3, "dino": 0.9}, builders=("clip", "dino"))
    text = done(capsys, "leaderboard", str(other.path), "--leave-one-out")
    assert not re.search(r"\bnan\b", text)
    assert " 1.000  1.000    1.000 " in text  # of two models in the same order, as is one of their two orders


def test_a_top_up_that_nobody_judged_leaves_builders_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = made(tmp_path / "shop", {"clip": 0.3, "dino": 0.9, "late": 0.6}, builders=("clip", "dino"))
    done(capsys, "pool", str(study.path), "--top-up", "late")
    page = tmp_path / "page.html"
    told = json.loads(done(capsys, "leaderboard", str(study.path), "--report", str(page), "--json"))
    assert {row["model"]: row["helped"] for row in told["rows"]} == {"clip": True, "dino": True, "late": False}
    assert "All of them built the pool" not in page.read_text(encoding="utf-8")


def test_a_short_run_is_told_that_it_is_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of = {f"q{q}": {f"i{i}": float(20 - i) for i in range(10)} for q in range(12)}
    write_run(tmp_path / "short.run", run_of, name="short")
    lines = [f"q{q} 0 i{i} {(q + i) % 2}" for q in range(12) for i in range(10)]
    (tmp_path / "judged.qrels").write_text("\n".join(lines) + "\n")
    given = ["--run", f"short={tmp_path / 'short.run'}", "--qrels", str(tmp_path / "judged.qrels")]
    # a second run makes the collection larger than what the first one lists
    write_run(tmp_path / "long.run", {q: row | {f"j{n}": -float(n) for n in range(30)} for q, row in run_of.items()})
    given += ["--run", f"long={tmp_path / 'long.run'}"]
    _, _, remarks = run(capsys, "leaderboard", *given, "--metrics", "P@20")
    assert "short lists only 10 items a query: metrics of the top 20 count the rest as not found" in remarks
    assert "short: 50%" not in remarks
    assert "long: 50% of its top 20 was judged" in remarks
    refused(capsys, "--with-random needs a pool", "leaderboard", *given, "--with-random")


def test_exports_leave_chance_out_and_say_so(three: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool, folder = three.pool(), str(three.path)
    drawn = int(pool.random_alone.sum())
    for kind in ("qrels", "csv"):
        file = tmp_path / f"judged.{kind}"
        _, _, remarks = run(capsys, "study", "export", folder, "judgements", str(file))
        assert f"{drawn} judged pairs that chance alone drew are left out of judged.{kind}" in remarks
        assert len(read_judgements(file)) == len(pool) - drawn
        _, _, remarks = run(capsys, "study", "export", folder, "judgements", str(file), "--with-random")
        assert remarks == ""
        assert len(read_judgements(file)) == len(pool)
    assert read_csv(tmp_path / "judged.csv", []).columns["source"].count("random") == drawn
    done(capsys, "study", "export", folder, "votes", str(tmp_path / "votes.csv"))
    assert read_csv(tmp_path / "votes.csv", []).columns["source"].count("random") == 3 * drawn
    told = json.loads(done(capsys, "judge", "export", folder, str(tmp_path / "judged.json"), "--json"))
    assert (told["rows"], told["random_left_out"]) == (len(pool) - drawn, drawn)
    for what in ("votes", "pool"):
        refused(
            capsys, "--with-random is for judgements",
            "study", "export", folder, what, str(tmp_path / f"{what}.csv"), "--with-random",
        )  # fmt: skip


def test_nothing_is_said_to_be_richer_without_a_pair_drawn_by_chance(
    three: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "times richer" in done(capsys, "study", "show", str(three.path))
    plain = made(tmp_path / "plain", {"clip": 0.3, "dino": 0.9}, builders=("clip", "dino"), random=0)
    text = done(capsys, "study", "show", str(plain.path))
    assert "richer" not in text
    assert "no random pair is judged to say how many more" in text
    told = json.loads(done(capsys, "study", "show", str(plain.path), "--json"))
    assert told["prevalence"]["enrichment"] is None


def runs_and_judgements(folder: Path) -> list[str]:
    """Two short runs of twelve queries, and judgements of most of what they list."""
    given = ["--qrels", str(folder / "judged.qrels")]
    lines = [f"q{q} 0 i{i} {int((q + i) % 3 == 0)}" for q in range(12) for i in range(9)]
    (folder / "judged.qrels").write_text("\n".join(lines) + "\n")
    for number, name in enumerate(("one", "two")):
        listed = {f"q{q}": {f"i{(i * 5 + q * number) % 10}": float(i) for i in range(8)} for q in range(12)}
        write_run(folder / f"{name}.run", listed, name=name)
        given += ["--run", f"{name}={folder / f'{name}.run'}"]
    return given


def test_lists_too_short_to_sample_from_are_compared_by_any_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = runs_and_judgements(tmp_path)
    told = json.loads(done(capsys, "leaderboard", *given, "--compare", "nDCG@3", "--json"))
    assert [row["metric"] for row in told["comparison"]] == ["nDCG@3"]
    assert {"AUC", "nDCG@3"} <= {row["metric"] for row in told["rows"]}


def test_smoothing_by_0_is_not_taken_for_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = made(tmp_path / "shop", {"clip": 0.3, "dino": 0.9}, builders=("clip", "dino"))
    for asked in (["--rule", "dawid-skene"], ["--rules"]):
        refused(capsys, "--smoothing must be above 0", "leaderboard", str(study.path), *asked, "--smoothing", "0")


def test_judgements_of_one_kind_are_told_once_and_models_that_rank_everything_list_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = made(tmp_path / "shop", {"clip": 0.3, "dino": 0.9}, builders=("clip", "dino"))
    deepest = f"P@{len(study.catalogue.ids)}"
    code, _, told = run(capsys, "leaderboard", str(study.path), "--metrics", f"AUC {deepest}")
    assert code == 0
    assert "of its top" in told
    assert "lists only" not in told
    given = runs_and_judgements(tmp_path)
    (tmp_path / "judged.qrels").write_text("".join(f"q{q} 0 i{i} 0\n" for q in range(12) for i in range(10)))
    code, _, told = run(capsys, "leaderboard", *given)
    assert code == 0
    assert told.count("no judged pair is positive") == 1
    assert "do labels of" not in told
