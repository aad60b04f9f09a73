"""A study that may only be read is shown, exported, searched and ranked like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.pool import Pool
from lookalike.discovery.votes import Votes
from lookalike.study.study import Study

# Root may write everywhere: it is asked to do without that right.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
INSERT = "INSERT INTO votes (query, item, expert, answer) VALUES ('i0', 'i1', 'zoe', 1)"
KILLED = f"""
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("{INSERT}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A judged study."""
    vectors = np.random.default_rng(0).normal(size=(20, 4))
    study = Study.create(tmp_path / "shop", "shop", Catalogue([f"i{n}" for n in range(20)]), queries=range(5))
    study.add_model("one", gallery=vectors)
    study.add_model("two", gallery=vectors[:, ::-1] * [1, 2, 3, 4])
    study.write_pool(Pool.build({"one": study.model("one").given}, study.collection, k=4))
    pairs = study.pool().pairs
    study.append_votes(Votes(*zip(*pairs, strict=True), ["ann"] * len(pairs), [1, 0] * (len(pairs) // 2)))
    return study.path


def close(folder: Path) -> None:
    """Let nobody write into a folder."""
    for path in [*folder.rglob("*"), folder]:
        path.chmod(path.stat().st_mode & ~0o222)


@pytest.fixture(autouse=True)
def _open_again(tmp_path: Path) -> object:
    yield
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def lookalike(*arguments: object) -> subprocess.CompletedProcess[str]:
    code = "import sys; from lookalike.cli import main; main(sys.argv[1:])"
    command = [*WITHOUT_RIGHTS, sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "call",
    [
        "study show S",
        "study export S votes O/votes.csv",
        "study export S judgements O/judged.qrels",
        "study export S pool O/pool.csv",
        "judge export S O/votes.parquet",
        "judge status S",
        "judge status S --json",
        "pool S --next 3 --output O/next.csv",
        "search S i3 -k 3",
        "leaderboard S --metrics AUC --output O/board.json",
    ],
)
def test_what_only_reads_works(study: Path, tmp_path: Path, call: str) -> None:
    close(study)
    (tmp_path / "out").mkdir()
    done = lookalike(*call.replace("S", str(study)).replace("O/", f"{tmp_path}/out/").split())
    assert done.returncode == 0, done.stderr
    if "O/" in call:
        assert [path.stat().st_size > 0 for path in (tmp_path / "out").iterdir()] == [True]
    if call.startswith("leaderboard"):
        assert "can only be read: this result is not kept" in done.stderr


@pytest.mark.parametrize("call", ["pool S --k 2 --replace", "study remove S two", "study votes S V --again"])
def test_what_changes_it_says_that_it_cannot(study: Path, tmp_path: Path, call: str) -> None:
    query, item = Study.open(study).pool().pairs[0]
    (tmp_path / "votes.csv").write_text(f"query,item,expert,answer\n{query},{item},bob,similar\n")
    close(study)
    done = lookalike(*call.replace("S", str(study)).replace("V", str(tmp_path / "votes.csv")).split())
    assert done.returncode == 2
    assert "can only be read" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shared", [True, False], ids=["with its index", "copied without it"])
def test_votes_in_the_log_are_counted(study: Path, tmp_path: Path, shared: bool) -> None:
    """The last votes of a server that was killed stand in a log beside the record: they must not be missed."""
    child = subprocess.run([sys.executable, "-c", KILLED, str(study / "votes.sqlite")], check=False)
    assert child.returncode == -signal.SIGKILL
    assert (study / "votes.sqlite-wal").stat().st_size
    if not shared:
        (study / "votes.sqlite-shm").unlink()
    close(study)
    done = lookalike("study", "export", study, "votes", tmp_path / "votes.csv")
    assert done.returncode == 0, done.stderr
    assert "i0,i1,zoe" in (tmp_path / "votes.csv").read_text()
