"""How does the time grow when queries, items, bits, columns, models or images double?

    OMP_WAIT_POLICY=PASSIVE python bench/growth.py [--quick] [--only NAME ...] [--plot docs/figures/growth.svg]

Each row doubles one size three times, the others stay. Times are the best of several on one thread, of a call that
starts from arrays in memory (images: from files on disk). The last column is the growth for a doubling: 1 is no growth,
2 is in proportion. What is fixed in a call, such as reading tables of discounts, makes the first doublings cheaper.
"""

import argparse
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # libraries read these when they are loaded
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import numpy as np

import lookalike as la
from lookalike.discovery import Collection, Pool, leaderboard
from lookalike.discovery.judgements import Judgements

CODE_METRICS = ["AP", "AP@1000", "nDCG@100", "P(radius=2)", "AUC", "LGAP@2"]
SCORE_METRICS = ["AP", "AP@1000", "nDCG@100", "AUC"]
BOARD_METRICS = ["AUC", "PRAUC", "Bpref", "VSDHR@6", "Judged@6"]
STEPS = 4  # sizes of a row
SECONDS = 20.0  # after which a case is not repeated again

Case = Callable[[int], Callable[[], Any]]  # a size to what is timed


def codes(n_queries: int, n_items: int, n_bits: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n_queries + n_items)
    words = rng.integers(0, 256, (n_queries + n_items, -(-n_bits // 8)), dtype=np.uint8)
    words[:, -1] &= (1 << (n_bits - 1) % 8 + 1) - 1
    both = la.Codes.from_bytes(words, n_bits=n_bits)
    queries, gallery = both[:n_queries], both[n_queries:]
    relevance = la.same_label(labels[:n_queries], labels[n_queries:])
    return lambda: la.evaluate(queries, gallery, relevance, CODE_METRICS, threads=1)


def embeddings(n_queries: int, n_items: int, n_columns: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n_queries + n_items)
    rows = rng.standard_normal((n_queries + n_items, n_columns), dtype=np.float32)
    relevance = la.same_label(labels[:n_queries], labels[n_queries:])
    return lambda: la.evaluate(rows[:n_queries], rows[n_queries:], relevance, SCORE_METRICS, threads=1)


def board(n_models: int, n_queries: int, n_items: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((n_items, 64), dtype=np.float32)
    rows = (truth + rng.standard_normal(truth.shape, dtype=np.float32) for _ in range(n_models))
    models = {f"m{i}": (each[:n_queries], each) for i, each in enumerate(rows)}
    ids = [f"i{i}" for i in range(n_items)]
    collection = Collection(ids[:n_queries], ids)
    pool = Pool.build(models, collection, k=6)
    alike = np.einsum("ij,ij->i", truth[pool.queries], truth[pool.items]) > 20
    pairs = np.array(pool.pairs)
    judged = Judgements(pairs[:, 0], pairs[:, 1], alike.astype(int))
    return lambda: leaderboard(models, judged, collection, pool=pool, metrics=BOARD_METRICS, threads=1)


def images(n_images: int) -> Callable[[], Any]:
    from PIL import Image

    from lookalike.encoders import load
    from lookalike.encoders.stream import encode_files

    folder = Path(tempfile.mkdtemp(prefix="growth-"))
    rng = np.random.default_rng(0)
    paths = []
    for number in range(n_images):
        small = Image.fromarray(rng.integers(0, 256, (20, 15, 3), dtype=np.uint8))
        paths.append(folder / f"{number}.jpg")
        small.resize((300, 225), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    encoder = load("efficientnet-lite0")
    return lambda: sum(len(rows) for _, rows in encode_files(paths, encoder, threads=1))


def cases(divisor: int) -> Iterator[tuple[str, str, list[int], Case]]:
    """What grows, the sizes, and how a size becomes something to time."""
    many = 1_000_000 // divisor
    yield "codes", "queries", [250, 500, 1000, 2000], lambda n: codes(n, many, 64)
    yield "codes", "items", [many // 4, many // 2, many, 2 * many], lambda n: codes(1000, n, 64)
    yield "codes", "bits", [32, 64, 128, 256], lambda n: codes(1000, many, n)
    some = 60_000 // divisor
    yield "embeddings", "queries", [125, 250, 500, 1000], lambda n: embeddings(n, some, 256)
    yield "embeddings", "items", [some // 4, some // 2, some, 2 * some], lambda n: embeddings(500, n, 256)
    yield "embeddings", "columns", [64, 128, 256, 512], lambda n: embeddings(500, some, n)
    yield "leaderboard", "models", [2, 4, 8, 16], lambda n: board(n, 500, 20_000 // divisor)
    yield "leaderboard", "items", [10_000 // divisor * 2**i for i in range(4)], lambda n: board(4, 500, n)
    few = 256 // min(divisor, 16)
    yield "encode", "images", [few, 2 * few, 4 * few, 8 * few], images


def best_time(call: Callable[[], Any], repeats: int) -> float:
    call()  # compiled, and in the caches
    times: list[float] = []
    while len(times) < repeats and sum(times) < SECONDS:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--only", nargs="*", help="codes, embeddings, leaderboard, encode")
    parser.add_argument("--plot", type=Path, help="write the curves to this .svg file")
    parser.add_argument("--json", type=Path, help="write the times to this file")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print("| what | doubled | sizes | seconds | growth for a doubling |\n|---|---|---|---|---|")
    for what, doubled, sizes, case in cases(20 if arguments.quick else 1):
        if arguments.only and what not in arguments.only:
            continue
        times = [best_time(case(size), 1 if arguments.quick else 5) for size in sizes]
        growth = [later / earlier for earlier, later in itertools.pairwise(times)]
        rows += [
            {"what": f"{what}, {doubled}", "times": 2**i, "seconds": seconds / times[0]}
            for i, seconds in enumerate(times)
        ]
        shown = [" ".join(f"{size:,}" for size in sizes), " ".join(f"{value:.3g}" for value in times)]
        print(f"| {what} | {doubled} | {' | '.join(shown)} | {' '.join(f'{g:.2f}' for g in growth)} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    if arguments.plot:
        plot(rows, arguments.plot)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Curves of time over size, both relative to the smallest; a line of slope 1 is growth in proportion."""
    import altair
    import vl_convert

    sizes = [2**i for i in range(STEPS)]
    data = altair.Data(values=rows)
    axis = altair.Axis(values=sizes, format="d")
    chart = altair.Chart(data).mark_line(point=True).encode(
        x=altair.X("times:Q", title="size, times the smallest").scale(type="log", base=2).axis(axis),
        y=altair.Y("seconds:Q", title="time, times that of the smallest").scale(type="log", base=2).axis(axis),
        color=altair.Color("what:N", title=None),
    )  # fmt: skip
    line = altair.Chart(altair.Data(values=[{"times": size, "seconds": size} for size in sizes]))
    proportional = line.mark_line(strokeDash=[4, 4], color="grey").encode(x="times:Q", y="seconds:Q")
    whole = (chart + proportional).properties(width=420, height=320, background="white")
    path.write_text(vl_convert.vegalite_to_svg(whole.to_json()))


if __name__ == "__main__":
    main()
