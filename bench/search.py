"""How much faster than reading every code is an index that misses one neighbour in a hundred?

    python bench/search.py [--quick]

1 million codes of 64 bits by ITQ, of images moved, turned, stretched and dimmed at random: Fashion-MNIST where it is in
the cache, else the digits that come with scikit-learn. 1,000 further such images are searched for; none of them is in
the index, and none was used to choose its effort. They vary the same originals, though, and the digits are only
1,797: the codes lie in clumps, about as many as there are lists, which is as easy as it gets for lists.
Both sides use the same threads and take turns; the best time counts.
Recall is counted by distance: what is as near as the true 10th is found.
"""

import argparse
import os
import platform
import time
from importlib.metadata import version

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when libraries are loaded

import numpy as np
from scipy.ndimage import affine_transform

import lookalike as la
from lookalike.datasets import cache_folder
from lookalike.search import Index, recall

K = 10
REPEATS = 5


def originals() -> tuple[str, np.ndarray]:
    """Images as (n, side, side) floats from 0 to 1."""
    name = "fashion-mnist" if any(cache_folder().glob("fashion*mnist*")) else "digits"
    data = la.datasets.load(name)
    rows = data.pixels(np.arange(len(data.labels))).astype(np.float32)
    side = round(rows.shape[1] ** 0.5)
    return name, (rows / rows.max()).reshape(-1, side, side)


def varied(images: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n images, each one of the given moved, turned, stretched and dimmed; rows of pixels."""
    side = images.shape[1]
    centre = (side - 1) / 2
    out = np.empty((n, side, side), np.float32)
    for i, source in enumerate(rng.integers(len(images), size=n)):
        angle, stretch = rng.uniform(-0.25, 0.25), rng.uniform(0.85, 1.15, 2)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / stretch
        shift = centre - turn @ [centre, centre] + rng.uniform(-side / 16, side / 16, 2)
        affine_transform(images[source], turn, shift, output=out[i], order=1)
        out[i] *= rng.uniform(0.7, 1)
    out += rng.normal(0, 0.02, out.shape)
    return out.reshape(n, -1)


def side_by_side(searches: dict[str, Index], queries: la.Codes, threads: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(REPEATS):
        for name, index in searches.items():
            started = time.perf_counter()
            index.search(queries, K, threads=threads)
            times[name].append(time.perf_counter() - started)
    return {name: min(kept) for name, kept in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 codes")
    n = 100_000 if parser.parse_args().quick else 1_000_000
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, faiss-cpu {version('faiss-cpu')}")
    rng = np.random.default_rng(0)
    name, images = originals()
    pixels = varied(images, n + 1000, rng)
    itq = la.hashers.ITQ(n_bits=64, random_state=0).fit(pixels[:50_000])
    codes = itq.transform(pixels)
    gallery, queries = codes[:n], codes[n:]
    distinct = len(np.unique(gallery.words))
    print(f"{n:,} codes of 64 bits (ITQ of varied {name}, {distinct:,} distinct), {len(queries):,} queries, k = {K}")
    exact = Index.build(gallery, kind="exact")
    started = time.perf_counter()
    index = Index.build(gallery, kind="ivf", k=K)
    print(f"built in {time.perf_counter() - started:.0f} s: {index}")
    truth, found = exact.search(queries, K), index.search(queries, K)
    reached = recall(found.distances, truth.distances).mean()
    print(f"recall of the new queries {reached:.4f}, target at least 0.99: {'met' if reached >= 0.99 else 'NOT MET'}")
    for threads in (1, os.cpu_count() or 1):
        times = side_by_side({"exact": exact, "index": index}, queries, threads)
        ratio = times["exact"] / times["index"]
        each = {side: 1e6 * total / len(queries) for side, total in times.items()}
        print(
            f"threads: {threads}. exact {each['exact']:.0f} µs a query, index {each['index']:.0f} µs: "
            f"{ratio:.1f} times as fast, target at least 5: {'met' if ratio >= 5 else 'NOT MET'}"
        )


if __name__ == "__main__":
    main()
