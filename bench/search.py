"""How much faster than reading every code is an index that misses one neighbour in a hundred?

    python bench/search.py [--data fashion-mnist] [--seed 0] [--items 1000000]

1 million codes of 64 bits by ITQ, of images each moved, turned, stretched, mirrored, dimmed and disturbed at random.
1,000 further such images are searched for; none of them is in the index, and none was used to choose its effort. They
vary the same originals, though: codes lie in clumps, which suits lists. Fashion-MNIST has 70,000 originals; the digits
that come with scikit-learn are only 1,797, and as easy as it gets. Photographs (cifar10, made grey) are harder.
The index is what "auto" chooses, for the 10 and for the 100 nearest. Both sides use the same threads and take turns;
the best time counts. Recall is counted by distance: what is as near as the true k-th is found.
"""

import argparse
import datetime
import os
import platform
import time
from importlib.metadata import version

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when libraries are loaded

import numpy as np

import lookalike as la
from lookalike.search.index import Index, recall

DEPTHS = (10, 100)
QUERIES = 1000
TRAINING = 50_000
BLOCK = 1000  # images made at a time: they fit into the cache
REPEATS = 5


def originals(name: str) -> np.ndarray:
    """Images as (n, side, side) floats from 0 to 1."""
    images = la.datasets.load(name).images
    return (images if images.ndim == 3 else images.mean(axis=3)).astype(np.float32) / 255


def varied(images: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n images, each one of the given moved, turned, stretched, mirrored, dimmed and disturbed; rows of pixels."""
    side = images.shape[1]
    centre = (side - 1) / 2
    angles = rng.uniform(-0.25, 0.25, n)
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    turns /= rng.uniform(0.85, 1.15, (n, 1, 2))
    turns[:, :, 1] *= rng.choice([-1, 1], (n, 1))
    moves = centre + rng.uniform(-side / 16, side / 16, (n, 2, 1))
    grid = np.indices((side, side)).reshape(2, -1) - centre
    out = interpolated(images[rng.integers(len(images), size=n)], turns @ grid + moves)
    out *= rng.uniform(0.7, 1, (n, 1)).astype(np.float32)
    out += 0.02 * rng.standard_normal(out.shape, np.float32)
    return out


def interpolated(images: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Pixels (n, m) of n images at places (n, 2, m) between their own; black outside."""
    framed = np.pad(images, ((0, 0), (1, 2), (1, 2)))
    width = framed.shape[2]
    places = np.clip(places + 1, 0, width - 2)
    corner = places.astype(np.int32)
    down, right = (places - corner).astype(np.float32).transpose(1, 0, 2)
    first = corner[:, 0] * width + corner[:, 1] + width * width * np.arange(len(images))[:, None]
    at = framed.ravel().take
    upper = at(first) * (1 - right) + at(first + 1) * right
    lower = at(first + width) * (1 - right) + at(first + width + 1) * right
    return upper * (1 - down) + lower * down


def coded(images: np.ndarray, n: int, seed: int) -> la.Codes:
    """Codes of n varied images, by an ITQ that was fitted to others."""
    rng = np.random.default_rng(seed)
    training = [varied(images, BLOCK, rng) for _ in range(TRAINING // BLOCK)]
    itq = la.hashers.ITQ(n_bits=64, random_state=seed).fit(np.concatenate(training))
    words = [itq.transform(varied(images, min(BLOCK, n - done), rng)).words for done in range(0, n, BLOCK)]
    return la.Codes(np.concatenate(words), 64)


def side_by_side(searches: dict[str, Index], queries: la.Codes, k: int, threads: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(REPEATS):
        for name, index in searches.items():
            started = time.perf_counter()
            index.search(queries, k, threads=threads)
            times[name].append(time.perf_counter() - started)
    return {name: min(kept) for name, kept in times.items()}


def compare(gallery: la.Codes, queries: la.Codes, k: int, seed: int) -> None:
    exact = Index.build(gallery, kind="exact")
    started = time.perf_counter()
    index = Index.build(gallery, k=k, seed=seed)
    print(f"\nk = {k}, built in {time.perf_counter() - started:.0f} s: {index}")
    reached = recall(index.search(queries, k).distances, exact.search(queries, k).distances).mean()
    print(f"recall of the new queries {reached:.4f}, wanted 0.99: {'met' if reached >= 0.99 else 'NOT MET'}")
    for threads in (1, os.cpu_count() or 1):
        times = side_by_side({"exact": exact, "index": index}, queries, k, threads)
        ratio = times["exact"] / times["index"]
        each = {side: 1e6 * total / len(queries) for side, total in times.items()}
        print(
            f"threads: {threads}. exact {each['exact']:.0f} µs a query, index {each['index']:.0f} µs: "
            f"{ratio:.1f} times as fast, wanted 5: {'met' if ratio >= 5 else 'NOT MET'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion-mnist", help="fashion-mnist, digits or cifar10")
    parser.add_argument("--seed", type=int, default=0, help="of the images, the hasher and the index")
    parser.add_argument("--items", type=int, default=1_000_000)
    given = parser.parse_args()
    print(
        f"{datetime.date.today()}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"lookalike {la.__version__}, faiss-cpu {version('faiss-cpu')}, numpy {version('numpy')}"
    )
    codes = coded(originals(given.data), given.items + QUERIES, given.seed)
    gallery, queries = codes[: given.items], codes[given.items :]
    distinct = len(np.unique(gallery.words))
    print(f"{len(gallery):,} codes of 64 bits, ITQ of varied {given.data}, {distinct:,} distinct; seed {given.seed}")
    for k in DEPTHS:
        compare(gallery, queries, k, given.seed)


if __name__ == "__main__":
    main()
