"""The load tool of the judging app: it works, and finds what it is there to find."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[2] / "bench" / "judging.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_judging", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("layout", ["pairs", "sheet"])
def test_a_study_is_judged_to_its_end_by_a_server_that_is_killed(tmp_path: Path, layout: str) -> None:
    facts = tmp_path / "facts.json"
    few = ["--experts", "4", "--rate", "12", "--pairs", "50", "--experts-per-pair", "2", "--seconds", "0.2"]
    command = [sys.executable, str(FILE), *few, "--kills", "1", "--seed", "1", "--until-done", "--json", str(facts)]
    command += ["--layout", layout]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(facts.read_text())
    assert found["pairs"] == {"exactly": 50, "more": 0, "fewer": 0, "rows": 100}
    assert sum(found["verdicts"].values()) == found["votes made"] == 100
    assert (found["kills"], found["errors"], found["wrong"]) == (1, 0, [])
    assert "log and database are the same" in done.stdout


VOTE = ("q", "i", "ann", 1, "a")  # query, item, expert, answer, the id that its client made


@pytest.mark.parametrize(
    ("log", "rows", "expected"),
    [
        ([(VOTE, "kept")], [VOTE], []),
        ([(VOTE, "known")], [VOTE], []),
        ([(VOTE, "enough")], [], []),
        ([], [VOTE], []),  # kept, and nobody got the answer
        ([(VOTE, "kept")], [], ["1 votes were acknowledged and are not in the database"]),
        ([(VOTE, "enough")], [VOTE], ["1 votes were said not to be kept and are in the database"]),
        ([(VOTE, "kept")], [("q", "i", "ann", 0, "a")], ["1 votes differ from what was sent"]),
        ([(VOTE, "kept")], [("q", "j", "ann", 1, "a")], ["1 votes differ from what was sent"]),
        ([(VOTE, "kept")], [("q", "i", "bob", 1, "a")], ["1 votes differ from what was sent"]),
        ([(VOTE, "kept"), (VOTE, "known")], [VOTE], ["1 votes were acknowledged twice"]),
        ([(VOTE, "kept")], [VOTE, ("q", "i", "bob", 1, "z")], ["1 votes are in the database and nobody has made them"]),
        ([(VOTE, "kept")], [VOTE, ("q", "i", "ann", 1, "b")], ["1 pairs have two votes of one expert"]),
        (
            [(VOTE, "kept")],
            [VOTE, VOTE],
            ["1 votes are in the database twice", "1 pairs have two votes of one expert"],
        ),
        ([(VOTE, "changed")], [], ["1 votes had a verdict that none of them should get"]),
    ],
)
def test_what_differs_is_said(bench: ModuleType, log: list[Any], rows: list[Any], expected: list[str]) -> None:
    assert bench.differences(log, rows, {"a", "b"}) == expected
