"""Importing is light; the first use compiles and says so; the next process finds it done."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lookalike.core import kernels

HASH = """
import time, numpy as np, numba, lookalike as la
hasher, items = la.hashers.LSH(2), np.eye(8, dtype=np.float32)
started = time.perf_counter()
hasher.fit(items).transform(items)
print(time.perf_counter() - started, time.process_time())
"""  # of all that is compiled, this takes the least that takes long
SLOWLY = """
import sys, time
class SlowDisk:
    def find_spec(name, path, target=None):
        if name.startswith("lookalike.core.kernels."):
            time.sleep(1.2)
sys.meta_path.insert(0, SlowDisk)
"""  # a slow disk, or a busy machine


def run(program: str, **environment: str) -> tuple[str, str]:
    """What a program says on its two outputs."""
    return run_together(1, program, **environment)[0]


def run_together(n: int, program: str, **environment: str) -> list[tuple[str, str]]:
    command = [sys.executable, "-c", program]
    processes = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        for _ in range(n)
    ]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * n, outputs
    return outputs


def kept(folder: Path) -> dict[Path, int]:
    """The files of compiled loops, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}


def test_the_first_use_says_that_it_compiles_and_the_next_finds_it_done(tmp_path: Path) -> None:
    first = run_together(3, HASH, NUMBA_CACHE_DIR=str(tmp_path))
    assert [errors.count("compiling for this machine") for _, errors in first] == [1, 1, 1]
    *waited, busiest = sorted(float(output.split()[1]) for output, _ in first)
    assert sum(waited) < busiest  # seconds of the processor: one has compiled, the others only load
    compiled = kept(tmp_path)
    assert any(path.name.startswith("product.product") for path in compiled)
    for program in (HASH, SLOWLY + HASH):
        output, errors = run(program, NUMBA_CACHE_DIR=str(tmp_path))
        assert kept(tmp_path) == compiled
        assert errors == ""  # however long it takes to load
    assert float(output.split()[0]) >= 1.2


@pytest.mark.parametrize("module", ["kernels", "product_kernel", "bend_kernels", "soft_kernels"])
def test_every_loop_is_kept(module: str) -> None:
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    loops = [loop for loop in vars(getattr(kernels, module)()).values() if isinstance(loop, Dispatcher)]
    # others are compiled as parts of those that call them
    entered = [loop for loop in loops if not loop._can_compile or not loop.__name__.startswith("_")]
    assert entered
    assert [loop.__name__ for loop in entered if isinstance(loop._cache, NullCache)] == []


def test_importing_loads_little_more_than_numpy() -> None:
    program = "import sys, numpy; before = set(sys.modules); import lookalike; print(*set(sys.modules) - before)"
    loaded = {name.partition(".")[0] for name in run(program)[0].split()}
    assert "lookalike" in loaded
    assert not loaded & {"numba", "torch", "scipy", "sklearn", "pyarrow", "pandas", "rich", "cyclopts"}
