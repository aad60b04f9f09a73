"""What do the commands on a study cost when it has 25,000, 50,000 and 100,000 images?

    OMP_WAIT_POLICY=PASSIVE python bench/large_study.py [--items 25000 50000 100000] [--only report show pool train]
    [--folder studies]

Each study has embeddings of 1,280 numbers, codes of 64 bits by ITQ and of 12 bits by LSH, 50 categories, products of
four images, and 1,000 queries. Embeddings lie around a centre for each category and each product, in 96 directions of
falling weight, with a little noise in all. One item in twenty is nearly another one, one in a hundred the same as
another one. The files of images are 1,000 small PNGs, of which every item shows one. Commands are processes of their
own. Seconds of the clock and of the processor are the least of several, megabytes the most that a process had of its
own, without files that it maps into memory. Fingerprints of results follow, without speeds and dates.
"""

import argparse
import contextlib
import hashlib
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when libraries are loaded

import numpy as np
from PIL import Image

import lookalike as la
from lookalike.discovery import Catalogue

COLUMNS, DIRECTIONS, CATEGORIES, ALIKE = 1280, 96, 50, 4
QUERIES, FILES = 1000, 1000
RUNS = re.compile(r'"per_second": [0-9.e+]+|"date": "[^"]*"')  # what differs from run to run


def embeddings(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings (n, 1280) of float32, and the category and the product of each."""
    products = np.arange(n) // ALIKE
    categories = rng.integers(CATEGORIES, size=products[-1] + 1)[products]
    weights = 1 / np.sqrt(1 + np.arange(DIRECTIONS))
    inner = rng.normal(size=(CATEGORIES, DIRECTIONS))[categories]
    inner += rng.normal(size=(products[-1] + 1, DIRECTIONS))[products]
    inner += 0.7 * rng.normal(size=inner.shape)
    turn = np.linalg.qr(rng.normal(size=(COLUMNS, DIRECTIONS)))[0].T
    rows = ((inner * weights) @ turn).astype(np.float32)
    rows += 0.01 * rng.standard_normal(rows.shape, np.float32)
    nearly = rng.choice(n, n // 20, replace=False)
    same, other = nearly[: n // 100], rng.integers(n, size=n)
    rows[nearly] = rows[other[nearly]] + 0.002 * rng.standard_normal((len(nearly), COLUMNS), np.float32)
    rows[same] = rows[other[same]]
    return rows, categories, products


def write_study(folder: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    images = folder.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        small = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        small.resize((32, 32), Image.Resampling.BICUBIC).save(images / f"{number:03}.png")
    rows, categories, products = embeddings(n, rng)
    catalogue = Catalogue(
        [f"photo-{item:06}" for item in range(n)],
        identities=[f"product {product}" for product in products],
        categories=[f"category {category}" for category in categories],
        paths=[f"../images/{item % FILES:03}.png" for item in range(n)],
    )
    study = la.Study.create(folder, f"{n} images", catalogue, rng.choice(n, min(QUERIES, n), replace=False))
    study.add_model("network", gallery=rows)
    for name, hasher in (("itq64", la.hashers.ITQ(64, random_state=0)), ("lsh12", la.hashers.LSH(12, random_state=0))):
        study.add_model(name, gallery=hasher.fit(rows[:5000]).transform(rows))
    np.savez(folder.with_suffix(".npz"), embeddings=rows, labels=categories)


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands to time, by name."""
    page, trained = folder.with_suffix(".html"), folder.with_suffix(".hasher.npz")
    learn = ["--bits", "48", "--epochs", "1", "--validation", "0", "--output", str(trained)]
    return {
        "show": ["study", "show", str(folder)],
        "report": ["report", str(folder), "--output", str(page)],
        "pool": ["pool", str(folder), "--models", "itq64,lsh12", "--replace"],
        "train": ["train", "--data", str(folder.with_suffix(".npz")), *learn],
    }


def run(arguments: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of the processor, and megabytes of its own at most, of a command."""
    command = [sys.executable, "-m", "lookalike", *arguments]
    started, most = time.perf_counter(), 0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        ended = 0
        while not ended:
            time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                state = Path(f"/proc/{process.pid}/status").read_text()
                own = re.search(r"RssAnon:\s+(\d+)", state)  # files that are mapped belong to all
                most = max(most, int(own[1]) if own else 0)
            ended, state_at_end, used = os.wait4(process.pid, os.WNOHANG)
        seconds = time.perf_counter() - started
        output.seek(0)
        if state_at_end:
            sys.exit(f"{' '.join(command)} failed:\n{output.read().decode()}")
    return seconds, used.ru_utime + used.ru_stime, most / 1024


def fingerprints(folder: Path) -> Mapping[str, str]:
    """Fingerprints of what the commands wrote, without speeds and dates: they must not change."""
    prints = {}
    for name in ("results/survey.json", "pool.parquet"):
        if (folder / name).exists():
            text = (folder / name).read_bytes() if name.endswith("parquet") else read_text(folder / name)
            prints[name] = hashlib.sha256(text).hexdigest()[:16]
    return prints


def read_text(path: Path) -> bytes:
    return RUNS.sub("", path.read_text()).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[25_000, 50_000, 100_000])
    parser.add_argument("--only", nargs="+", choices=["show", "report", "pool", "train"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where studies are kept for another run")
    options = parser.parse_args()
    load, python = os.getloadavg()[0], platform.python_version()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, python {python}")
    with tempfile.TemporaryDirectory() as temporary:
        for n in options.items:
            folder = (options.folder or Path(temporary)) / f"study-{n}"
            if not folder.exists():
                write_study(folder, n)
            for name, arguments in commands(folder).items():
                if options.only and name not in options.only:
                    continue
                least = [math.inf] * 3
                for _ in range(options.repeats):
                    least = [*map(min, least, run(arguments))]
                print(
                    f"  {name:8} {n:8,} items {least[0]:8.2f} s {least[1]:8.2f} s of the processor {least[2]:6.0f} MB",
                    flush=True,
                )
            print(f"  {'':8} {n:8,} items {json.dumps(fingerprints(folder))}")


if __name__ == "__main__":
    main()
