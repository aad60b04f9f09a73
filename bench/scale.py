"""Does a gallery in shards cost more than one in memory? Rate and memory of one process, threads, and a Dask cluster.

Galleries of codes with ten labels are generated shard by shard, so that none needs more memory than a shard. Each
way of counting runs in a process of its own, whose peak memory is told; ratios are of runs side by side, the best of
several. What is counted is the same each time, and compared bit by bit.

    python bench/scale.py                                1 and 10 million items, a few minutes
    python bench/scale.py --millions 1 10 100            a quarter of an hour, 1.3 GB of disk
    python bench/scale.py --millions 4 --bits 12         short codes: a table, and no pair is met
    python bench/scale.py --embeddings 64 --millions 0.5 --queries 500    floats: read whole where they have room
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lookalike as la
from lookalike.shards import ShardWriter
from lookalike.shards.dask import connected

METRICS = {"codes": "AP AP@1000 nDCG@100 P(radius=2)", "embeddings": "AP AUC"}
WAYS = {
    "memory, 1 thread": ("memory", 1, 0),
    "memory, 2 threads": ("memory", 2, 0),
    "shards, 1 thread": ("shards", 1, 0),
    "shards, 2 threads": ("shards", 2, 0),
    "Dask, 1 worker": ("shards", 1, 1),
    "Dask, 2 workers": ("shards", 1, 2),
}


def main() -> None:
    options = arguments()
    if options.way:
        print(json.dumps(one(options)))
        return
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "pyarrow", "distributed")
    )
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions}")
    with tempfile.TemporaryDirectory(prefix="lookalike-scale-", dir=options.folder) as folder:
        for millions in options.millions:
            compare(options, Path(folder) / f"{millions}", millions)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10], help="items of the galleries")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--embeddings", type=int, help="numbers of an embedding, in place of codes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), help=f"of: {', '.join(WAYS)}")
    parser.add_argument("--folder", type=Path, help="where to write galleries; the system's place for such files")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--gallery", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    return parser.parse_args()


def make(options: argparse.Namespace, folder: Path, n: int) -> la.Shards:
    """A gallery, a shard at a time."""
    generator = np.random.default_rng(0)
    n_bits = None if options.embeddings else options.bits
    with ShardWriter(folder, n_bits=n_bits) as writer:
        for start in range(0, n, 1 << 20):
            rows = min(1 << 20, n - start)
            arrays = {"labels": generator.integers(0, 10, rows, dtype=np.int32)}
            if options.embeddings:
                arrays["embeddings"] = generator.normal(size=(rows, options.embeddings)).astype(np.float32)
            else:
                arrays["codes"] = generator.integers(0, 256, (rows, -(-options.bits // 8)), dtype=np.uint8)
                arrays["codes"][:, -1] &= 0xFF >> (-options.bits % 8)
            writer.add(arrays)
    return la.Shards.open(folder)


def asked(options: argparse.Namespace) -> tuple[la.Codes | np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 10, options.queries, dtype=np.int32)
    if options.embeddings:
        return generator.normal(size=(options.queries, options.embeddings)).astype(np.float32), labels
    return la.Codes.pack(generator.integers(0, 2, (options.queries, options.bits))), labels


def one(options: argparse.Namespace) -> dict[str, object]:
    """One way of counting, in this process: seconds, peak memory, and a fingerprint of every number."""
    kind, threads, _ = WAYS[options.way]
    queries, labels = asked(options)
    shards = la.Shards.open(options.gallery)
    metrics = METRICS["embeddings" if options.embeddings else "codes"]
    small = la.Codes.pack(np.eye(8)) if not options.embeddings else np.eye(8)
    la.evaluate(small, small, la.same_label(range(8), range(8)), metrics)  # compiled before the clock starts
    if kind == "memory":
        parts = [shards.read(number, ["labels"]) for number in range(len(shards.shards))]
        values = np.concatenate([part.values["labels"] for part in parts])
        if options.embeddings:
            gallery: la.Codes | np.ndarray = np.concatenate([part.vectors for part in parts])
        else:
            gallery = la.Codes(np.concatenate([part.vectors.words for part in parts]), options.bits)
        del parts
    started = time.perf_counter()
    if kind == "memory":
        result = la.evaluate(queries, gallery, la.same_label(labels, values), metrics, threads=threads)
    elif options.address:
        with connected(options.address) as client:
            client.wait_for_workers(WAYS[options.way][2], timeout=60)
            la.evaluate(queries[:8], shards, la.same_label(labels[:8], shards["labels"]), metrics, client=client)
            started = time.perf_counter()  # workers have loaded what they need
            result = la.evaluate(queries, shards, la.same_label(labels, shards["labels"]), metrics, client=client)
    else:
        result = la.evaluate(queries, shards, la.same_label(labels, shards["labels"]), metrics, threads=threads)
    seconds = time.perf_counter() - started
    numbers = hashlib.sha256(b"".join(part.tobytes() for score in result.scores.values() for part in score.values))
    return {
        "seconds": seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "numbers": numbers.hexdigest()[:16],
    }


def run(options: argparse.Namespace, folder: Path, way: str) -> dict[str, float]:
    """One way of counting in a process of its own, with a cluster where it needs one."""
    command = [sys.executable, __file__, "--way", way, "--gallery", str(folder), "--queries", str(options.queries)]
    command += ["--embeddings", str(options.embeddings)] if options.embeddings else ["--bits", str(options.bits)]
    n_workers = WAYS[way][2]
    processes: list[subprocess.Popen[bytes]] = []
    surroundings = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    try:
        if n_workers:
            port = 18786 + os.getpid() % 1000
            address = f"tcp://127.0.0.1:{port}"
            begin = [sys.executable, "-m", "dask"]
            quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": surroundings}
            scheduler = [*begin, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
            worker = [
                *begin,
                "worker",
                address,
                "--nthreads",
                "1",
                "--no-dashboard",
                "--no-nanny",
                "--memory-limit",
                "0",
            ]
            processes.append(subprocess.Popen(scheduler, **quiet))
            processes += [subprocess.Popen(worker, **quiet) for _ in range(n_workers)]
            command += ["--address", address]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=surroundings)
        found = json.loads(done.stdout.splitlines()[-1])
        if n_workers:
            found["peak"] = max(peak_of(process.pid) for process in processes[1:])
        return found
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)


def peak_of(pid: int) -> float:
    """The largest memory that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def compare(options: argparse.Namespace, folder: Path, millions: float) -> None:
    started = time.perf_counter()
    shards = make(options, folder, int(millions * 1_000_000))
    size = sum(shard.bytes for shard in shards.shards)
    print(
        f"\n{shards}, {size / 1e6:,.0f} MB, made in {time.perf_counter() - started:.0f} s; {options.queries:,} queries"
    )
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for way in options.ways:
            found = run(options, folder, way)
            if way not in best or found["seconds"] < best[way]["seconds"]:
                best[way] = found
    pairs = len(shards) * options.queries
    print(f"{'':20} {'seconds':>8} {'pairs/s':>9} {'peak MB':>8}   : memory with as many")
    for way, found in best.items():
        _, threads, workers = WAYS[way]
        base = best.get(f"memory, {max(threads, workers)} thread{'s' * (max(threads, workers) > 1)}")
        ratio = f"{found['seconds'] / base['seconds']:.2f}" if base else "-"
        rate = pairs / found["seconds"] / 1e9
        print(f"{way:20} {found['seconds']:8.2f} {rate:8.2f}G {found['peak'] / 1e6:8,.0f}   {ratio:>6}")
    if "Dask, 2 workers" in best and "shards, 2 threads" in best:
        ratio = best["Dask, 2 workers"]["seconds"] / best["shards, 2 threads"]["seconds"]
        print(f"Dask with two workers of one thread takes {ratio:.2f} times as long as two threads")
    same = len({found["numbers"] for found in best.values()}) == 1
    print("every number of every query is the same, bit for bit" if same else "NUMBERS DIFFER")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
