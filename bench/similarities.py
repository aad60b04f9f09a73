"""What do exact distances and exact ties of cosines cost?

    OMP_WAIT_POLICY=PASSIVE python bench/similarities.py [--queries 1000] [--items 59000] [--columns 128] [--repeats 5]

Squared distances are summed from differences. Beside them: the product that 2 q·g - q·q - g·g takes, with the three
passes that make distances of it, which far from the origin have no digits left. Of cosines, rows are first divided by
what their numbers have in common; beside it: the whole evaluation. One thread, random embeddings; both sides take
turns, the best time of the processor counts.
"""

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when libraries are loaded

import numpy as np

import lookalike as la
from lookalike.core.embeddings import Embeddings
from lookalike.core.kernels import product_kernel

BLOCK = 96


def side_by_side(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.process_time()
            way()
            times[name].append(time.process_time() - start)
    return {name: min(found) for name, found in times.items()}


def distances(queries: np.ndarray, gallery: np.ndarray, repeats: int) -> None:
    """Both kernels on the same panels."""
    kernel = product_kernel()
    squares = [(rows * rows).sum(1) for rows in (queries, gallery)]
    panels = []
    for rows, width in ((queries, kernel.ROWS), (gallery, kernel.panel_width(gallery.dtype))):
        panels.append(np.empty((-(-len(rows) // width), rows.shape[1], width)))
        kernel.pack(rows, np.ones(len(rows)), panels[-1])
    step = BLOCK // kernel.ROWS
    out = np.empty((BLOCK, len(panels[1]) * panels[1].shape[2]))

    def by_differences() -> None:
        for start in range(0, len(panels[0]), step):
            part = panels[0][start : start + step]
            kernel.distances(part, panels[1], out[: len(part) * kernel.ROWS])

    def by_product() -> None:
        for start in range(0, len(panels[0]), step):
            part = panels[0][start : start + step]
            kernel.product(part, panels[1], out[: len(part) * kernel.ROWS])
            mine = squares[0][start * kernel.ROWS : (start + step) * kernel.ROWS]
            found = out[: len(mine), : len(gallery)]
            found *= 2
            found -= squares[1]
            found -= mine[:, None]

    took = side_by_side({"differences": by_differences, "product": by_product}, repeats)
    ratio = took["differences"] / took["product"]
    print(
        f"[euclidean] by differences {took['differences']:.3f} s, by the product {took['product']:.3f} s: {ratio:.2f}"
    )


def cosines(queries: np.ndarray, gallery: np.ndarray, repeats: int) -> None:
    """Laying out the gallery, of which the common divisors are a part, beside all that `la.evaluate` does."""
    kernel = product_kernel()
    bits = gallery.view(np.int32 if gallery.dtype == np.float32 else np.int64)
    largest, out = np.empty(len(bits), bits.dtype), np.empty(len(bits), np.int64)
    digits = np.finfo(gallery.dtype).nmant
    labels = np.arange(len(gallery)) % 10
    relevance = la.same_label(labels[: len(queries)], labels)
    took = side_by_side(
        {
            "divisors": lambda: kernel.divisors(bits, digits, largest, out),
            "layout": lambda: Embeddings(queries[:1], gallery, "cosine"),
            "all": lambda: la.evaluate(queries, gallery, relevance, ["AP", "nDCG@10"], threads=1),
        },
        repeats,
    )
    share = took["divisors"] / took["all"]
    print(
        f"[cosine, {gallery.dtype}] common divisors {1000 * took['divisors']:.0f} ms, laying out with them "
        f"{1000 * took['layout']:.0f} ms, the evaluation {1000 * took['all']:.0f} ms: divisors take {share:.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("queries", 1000), ("items", 59_000), ("columns", 128), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=number)
    ask = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    print(f"{datetime.date.today()}, {platform.machine()}, {versions}")
    print(f"{ask.queries:,} queries, {ask.items:,} items, {ask.columns} columns")
    rng = np.random.default_rng(0)
    queries, gallery = (rng.standard_normal((n, ask.columns)) for n in (ask.queries, ask.items))
    distances(queries, gallery, ask.repeats)
    for dtype in (np.float32, np.float64):
        cosines(queries.astype(dtype), gallery.astype(dtype), ask.repeats)


if __name__ == "__main__":
    main()
