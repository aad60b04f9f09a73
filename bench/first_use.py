"""How long does a command take on a machine where nothing is compiled, and how long after that?

    python bench/first_use.py [--repeats 3] [--look]

Seconds of the processor of whole processes, `python -m lookalike …`. Cold: the folder of compiled loops is empty. Warm:
the same command again, the least of several. Small files are 50 queries and 500 items, large ones 1,000 and 59,000, of
codes of 64 bits or embeddings of 128 numbers, with the five usual metrics. --look also opens a study of 100,000
embeddings of 1,280 numbers in the page's app, and searches it for one item after another.
"""

import argparse
import datetime
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np


def write_items(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for size, counts in {"small": (50, 500), "large": (1000, 59_000)}.items():
        for part, n in zip("qg", counts, strict=True):
            labels = np.arange(n) % 10
            bits = rng.integers(0, 2, (n, 64))
            bits[:, :4] = labels[:, None] >> np.arange(4) & 1
            rows = rng.standard_normal((n, 128)).astype(np.float32)
            rows[np.arange(n), labels] += 2
            np.savez(folder / f"{size}-codes-{part}.npz", codes=bits.astype(np.uint8), labels=labels)
            np.savez(folder / f"{size}-embeddings-{part}.npz", embeddings=rows, labels=labels)


def seconds(folder: Path, *arguments: str) -> float:
    """Seconds of the processor that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command, environment = [sys.executable, "-m", "lookalike", *arguments], {"NUMBA_CACHE_DIR": str(folder)}
    subprocess.run(command, check=True, capture_output=True, env=os.environ | environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_items(folder)
        print(f"  {'command':34} {'cold':>8} {'warm':>8}")
        for size in ("small", "large"):
            for what in ("codes", "embeddings"):
                files = [str(folder / f"{size}-{what}-{part}.npz") for part in "qg"]
                compiled = folder / f"{size}-{what}"
                compiled.mkdir()
                cold = seconds(compiled, "evaluate", *files)
                warm = min(seconds(compiled, "evaluate", *files) for _ in range(repeats))
                print(f"  {f'evaluate, {size} {what}':34} {cold:6.2f} s {warm:6.2f} s")
        print(f"  {'--help':34} {'':8} {min(seconds(folder, '--help') for _ in range(repeats)):6.2f} s")


def look(repeats: int) -> None:
    from starlette.testclient import TestClient

    from lookalike.discovery.catalogue import Catalogue
    from lookalike.study.study import Study
    from lookalike.web.look.app import create_look_app

    n = 100_000
    with tempfile.TemporaryDirectory() as name:
        ids = [f"{i:06}" for i in range(n)]
        study = Study.create(Path(name) / "study", "large", Catalogue(ids), queries=ids[:1])
        study.add_model("m", gallery=np.random.default_rng(0).standard_normal((n, 1280), dtype=np.float32))
        client = TestClient(create_look_app(Study.open(study.path)), base_url="http://127.0.0.1")
        started = time.process_time()
        assert client.get("/").status_code == 200
        assert client.get("/like?item=000007").status_code == 200
        print(f"  first page and first search: {time.process_time() - started:.2f} s of the processor")
        state = Path("/proc/self/status").read_text().splitlines()
        own = next(line.split()[1] for line in state if line.startswith("RssAnon"))
        print(f"  memory of its own then: {int(own) // 1024} MB")
        times = []
        for i in range(20 * repeats):
            started = time.perf_counter()
            client.get(f"/like?item={ids[i * 37 % n]}")
            times.append(1000 * (time.perf_counter() - started))
        middle, late = np.percentile(times, [50, 99])
        print(f"  a search, page included: p50 {middle:.0f} ms, p99 {late:.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--look", action="store_true")
    options = parser.parse_args()
    print(f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}")
    commands(options.repeats)
    if options.look:
        look(options.repeats)
