"""lookalike replicate: claims are listed, tried, kept and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import refused, run
from helpers.pages import Opened, Reader, browser  # noqa: F401
from lookalike.experiments.claims import CLAIMS
from lookalike.experiments.replicate import results_in
from lookalike.report.replication import render_replication
from lookalike.report.replication.figures import short_names

KEPT = Path(__file__).parents[2] / "docs" / "understanding" / "replication"


def test_the_list_names_every_claim(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "replicate", "--list")
    assert code == 0
    for claim in CLAIMS.values():
        assert claim.name in out
        assert claim.title in out
    code, out, _ = run(capsys, "replicate", "--list", "--json")
    listed = json.loads(out)
    assert [row["name"] for row in listed] == list(CLAIMS)
    assert all(row["criterion"] and row["data"] and "seeds" in row["settings"]["quick"] for row in listed)


def test_claims_are_tried_kept_and_shown(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    browser: Any,  # noqa: F811  # the fixture
) -> None:
    names = ("ten-on-one-code", "judging-cost", "two-thirds")
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, "replicate", *names, "--results", tmp_path / "found", "--report", page)
    assert code == 0
    lines = {line.split()[0]: " ".join(line.split()) for line in out.splitlines() if line.split()}
    assert lines["ten-on-one-code"].startswith("ten-on-one-code holds 2 of 2 parts")
    assert lines["judging-cost"].startswith("judging-cost holds in part 3 of 4 parts")
    assert "Of 3 claims: 2 hold, 1 holds in part." in out
    assert "0.3544" in out  # the printed figure, beside ours
    opened = Opened(browser, page, page.read_text(encoding="utf-8"))
    opened.check()  # nothing said, nothing asked for, all drawn
    code, out, _ = run(capsys, "replicate", *names, "--results", tmp_path / "found")
    assert out.count("from before") == 3
    code, out, _ = run(capsys, "replicate", names[0], "--results", tmp_path / "found", "--again", "--json")
    (row,) = json.loads(out)
    assert (row["claim"], row["verdict"], row["lookalike"]) == ("ten-on-one-code", "holds", "replication")
    assert {"low": None, "printed": 1.0}.items() <= row["numbers"][0].items()


def test_bad_input_gets_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, "there is no claim 'dispersal': did you mean dispersion?", "replicate", "dispersal")
    refused(capsys, "must end in .html", "replicate", "two-thirds", "--report", tmp_path / "page.txt")
    refused(capsys, "quick", "replicate", "--budget", "fast")


def test_the_page_has_every_verdict_and_number() -> None:
    results = results_in(KEPT, "quick")
    page = render_replication(results)
    assert page == render_replication(results)
    told = Reader(page).text
    for result in results:
        assert CLAIMS[result.claim].title in told
        assert result.why in told
        for check in result.checks:
            assert check.sentence in told
        for number in result.numbers:
            assert number.name in told
    for verdict in ("holds", "holds in part", "cannot be tried here"):
        badges = [attributes for tag, attributes in Reader(page).found if tag == "span" and "badge" in str(attributes)]
        assert len(badges) == 2 * len(results)
        assert told.count(verdict) >= sum(result.verdict == verdict for result in results)


def test_names_lose_what_all_share() -> None:
    assert short_names(["a, x, c", "a, y, c"]) == ["x", "y"]
    assert short_names(["a, x"]) == ["a, x"]
    assert short_names(["a", "a, x"]) == ["a", "a, x"]
