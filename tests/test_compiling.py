"""Importing is light; the first use compiles and says so; the next process finds it done."""

import os
import subprocess
import sys
from pathlib import Path

EVALUATE = """
import time, lookalike as la
codes = la.Codes.pack([[0, 1], [1, 1]])
started = time.perf_counter()
la.evaluate(codes, codes, la.same_label([0, 1], [0, 1]), ["AP"])
print(time.perf_counter() - started)
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ | environment
    )


def test_the_first_use_says_that_it_compiles_and_the_next_finds_it_done(tmp_path: Path) -> None:
    first, *later = (run(EVALUATE, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(4))
    assert first.stderr.count("compiling for this machine") == 1
    assert "" in [done.stderr for done in later]  # on a busy machine even loading takes long, and is said
    assert min(float(done.stdout) for done in later) < float(first.stdout) / 2


def test_importing_loads_little_more_than_numpy() -> None:
    program = "import sys, numpy; before = set(sys.modules); import lookalike; print(*set(sys.modules) - before)"
    loaded = {name.partition(".")[0] for name in run(program).stdout.split()}
    assert "lookalike" in loaded
    assert not loaded & {"numba", "torch", "scipy", "sklearn", "pyarrow", "pandas", "rich", "cyclopts"}
