"""Importing is light; the first use compiles and says so; the next process finds it done."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lookalike.core import kernels

EVALUATE = """
import time, numpy as np, lookalike as la
from numba.core import event
class Compiled(event.Listener):
    names = []
    def on_start(self, started):
        function = started.data["dispatcher"].py_func
        if function.__module__.startswith("lookalike"):
            self.names.append(function.__name__)
    def on_end(self, ended):
        pass
event.register("numba:compile", Compiled())
items, labels = np.random.default_rng(0).standard_normal((700, 64)).astype(np.float32), [0, 1] * 350
started = time.perf_counter()
la.evaluate(items, items, la.same_label(labels, labels), ["AP", "nDCG"], exclude="self")
print(time.perf_counter() - started, *Compiled.names)
"""  # more than a second of compiling
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
    first = run_together(3, EVALUATE, NUMBA_CACHE_DIR=str(tmp_path))
    assert [errors.count("compiling for this machine") for _, errors in first] == [1, 1, 1]
    entered = [name for output, _ in first for name in output.split()[1:] if not name.startswith("_")]
    assert len(set(entered)) == len(entered)  # each by one process, while the others waited for it
    assert {"product", "around", "precision_sums", "gain_sums"} <= set(entered)
    assert not {"scan", "kth_largest", "distances", "threshold_sums"} & set(entered)
    compiled = kept(tmp_path)
    assert len({path.name.split("-")[0] for path in compiled}) == len(entered)
    for program in (EVALUATE, SLOWLY + EVALUATE):
        output, errors = run(program, NUMBA_CACHE_DIR=str(tmp_path))
        assert kept(tmp_path) == compiled
        assert errors == ""  # however long it takes to load
        assert len(output.split()) == 1  # nothing is compiled
    assert float(output.split()[0]) >= 1.2


def test_one_loop_is_compiled_alone_for_one_signature(tmp_path: Path) -> None:
    program = """
import numpy as np
from lookalike.core.kernels import kernels
print(kernels().kth_largest(np.array([3, 1, 2], np.float32), 2))
"""
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path))[0] == "2.0\n"
    assert sorted(path.suffix for path in kept(tmp_path)) == [".nbc", ".nbi"]  # the code of one signature, and an index
    assert [path.name.split("-")[0] for path in tmp_path.glob("*.compiled")] == [
        "lookalike.core.kernels.scores.kth_largest"
    ]


def test_a_loop_refuses_types_that_it_is_not_compiled_for() -> None:
    with pytest.raises(TypeError, match="kth_largest is compiled for float32, float64, not for int64"):
        kernels.kernels().kth_largest(np.array([3, 1, 2]), 2)


@pytest.mark.parametrize("module", ["kernels", "product_kernel", "bend_kernels", "soft_kernels"])
def test_every_loop_is_kept(module: str) -> None:
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    from lookalike.core.kernels.loop import Loop

    contents = vars(getattr(kernels, module)()).values()
    loops = [loop.prepare(next(iter(loop.signatures))) for loop in contents if isinstance(loop, Loop)]
    # others are compiled as parts of those that call them
    loops += [loop for loop in contents if isinstance(loop, Dispatcher) and not loop.__name__.startswith("_")]
    assert loops
    assert [loop.__name__ for loop in loops if isinstance(loop._cache, NullCache)] == []


def test_importing_loads_little_more_than_numpy() -> None:
    program = "import sys, numpy; before = set(sys.modules); import lookalike; print(*set(sys.modules) - before)"
    loaded = {name.partition(".")[0] for name in run(program)[0].split()}
    assert "lookalike" in loaded
    assert not loaded & {"numba", "torch", "scipy", "sklearn", "pyarrow", "pandas", "rich", "cyclopts"}
