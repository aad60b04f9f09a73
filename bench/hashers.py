"""How fast do hashers learn and hash, and are their codes as good as those of others?

    python bench/hashers.py [--quick] [--only NAME ...]

transform   1 million × 128 floats to 64 bits, by every hasher, against the bare matrix product
fit         the time to learn, against faiss and scikit-learn where they have the same
quality     mAP of ITQ and LSH against faiss's, means over five seeds
cifar10     all eight on CIFAR-10: pixels, setting 1, 12 and 24 bits (fetches 139 MB the first time)

Both sides may use all cores. Every time is the best of several runs, side by side.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when libraries are loaded

import faiss
import numpy as np
from sklearn.decomposition import PCA
from sklearn.random_projection import GaussianRandomProjection

import lookalike as la
from lookalike import hashers
from lookalike.tasks import Task, dataset_task
from lookalike.trials import try_hashers

REPEATS = 7


def best(*cases: Callable[[], Any]) -> list[float]:
    """Best time of each, taking turns."""
    times = [[] for _ in cases]
    for _ in range(REPEATS):
        for case, kept in zip(cases, times, strict=True):
            started = time.perf_counter()
            result = case()
            kept.append(time.perf_counter() - started)
            del result
    return [min(kept) for kept in times]


def make_items(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    spread = (1 / np.arange(1, d + 1) ** 0.5).astype(np.float32)
    centres = rng.standard_normal((100, d), np.float32) * spread
    return centres[rng.integers(100, size=n)] + rng.standard_normal((n, d), np.float32) * spread


def transform(quick: bool) -> None:
    n, d, n_bits = (20_000 if quick else 1_000_000), 128, 64
    X = make_items(n, d)
    W = np.random.default_rng(1).standard_normal((d, n_bits), np.float32)
    print(
        f"\ntransform: {n:,} × {d} float32 to {n_bits} bits; the bare product is numpy's X @ W, (n, {n_bits}) of float32"
    )
    lsh = faiss.IndexLSH(d, n_bits, True, False)
    lsh.train(X[:1000])
    for name in hashers.HASHERS:
        fitted = hashers.make(name, n_bits).fit(X[:20_000])
        ours, bare = best(lambda h=fitted: h.transform(X), lambda: X @ W)
        target = "   target 1.5" if name == "LSH" else ""
        print(
            f"  {name:<11}{ours * 1e3:8.0f} ms   bare product {bare * 1e3:6.0f} ms   {ours / bare:5.2f} times{target}"
        )
    ours, theirs = best(lambda: hashers.make("LSH", n_bits).fit(X[:1000]).transform(X), lambda: lsh.sa_encode(X))
    print(f"  LSH {ours * 1e3:.0f} ms, faiss IndexLSH.sa_encode {theirs * 1e3:.0f} ms: {ours / theirs:.2f} times")


def fit(quick: bool) -> None:
    for n, d, n_bits in [(2_000, 64, 32)] if quick else [(5_000, 512, 64), (50_000, 128, 64), (100_000, 128, 128)]:
        X = make_items(n, d)
        print(f"\nfit: {n:,} × {d} float32, {n_bits} bits")

        def faiss_itq(rows_a_dimension: int, X: np.ndarray = X, d: int = d, n_bits: int = n_bits) -> None:
            made = faiss.ITQTransform(d, n_bits, True)
            made.max_train_per_dim = rows_a_dimension
            made.train(X)

        ours, all_rows, some = best(
            lambda X=X, b=n_bits: hashers.make("ITQ", b).fit(X), lambda: faiss_itq(10**6), lambda: faiss_itq(10)
        )
        print(
            f"  ITQ        {ours * 1e3:8.0f} ms   faiss, the same rows {all_rows * 1e3:.0f} ms: {ours / all_rows:.2f} times"
        )
        small = hashers.make("ITQ", n_bits).set_params(max_samples=10 * d)
        (ours,) = best(lambda X=X, h=small: h.fit(X))
        print(
            f"  ITQ        {ours * 1e3:8.0f} ms   with max_samples={10 * d}, as many as faiss takes by default: "
            f"{some * 1e3:.0f} ms: {ours / some:.2f} times   target 2"
        )
        ours, theirs = best(lambda X=X, b=n_bits: hashers.make("PCAH", b).fit(X), lambda X=X, b=n_bits: PCA(b).fit(X))
        print(f"  PCAH       {ours * 1e3:8.0f} ms   scikit-learn PCA {theirs * 1e3:.0f} ms: {ours / theirs:.2f} times")
        ours, theirs = best(
            lambda X=X, b=n_bits: hashers.make("LSH", b).fit(X).transform(X),
            lambda X=X, b=n_bits: np.packbits(GaussianRandomProjection(b).fit_transform(X) > 0, axis=1),
        )
        print(
            f"  LSH + hash {ours * 1e3:8.0f} ms   scikit-learn GaussianRandomProjection {theirs * 1e3:.0f} ms: {ours / theirs:.2f} times"
        )
        for name in ("SH", "SKLSH", "SpH", "DensityDSH"):
            started = time.perf_counter()
            hashers.make(name, n_bits).fit(X)
            print(f"  {name:<11}{(time.perf_counter() - started) * 1e3:8.0f} ms")


def quality(quick: bool) -> None:
    seeds = range(2 if quick else 5)
    for name in ["digits"] if quick else ["digits", "fashion-mnist"]:
        task = dataset_task(la.datasets.load(name))
        print(f"\nquality: {name}, mAP, mean of {len(seeds)} seeds (standard deviation)")
        for n_bits in (12, 24, 48):
            ours, theirs = (
                [mean_ap(task, *function(task, n_bits, seed)) for seed in seeds] for function in (our_itq, faiss_itq)
            )
            print(
                f"  ITQ {n_bits:3} bits   ours {shown(ours)}   faiss {shown(theirs)}   apart {np.mean(ours) - np.mean(theirs):+.4f}   target 0.01"
            )
            ours, theirs = (
                [mean_ap(task, *function(task, n_bits, seed)) for seed in seeds] for function in (our_lsh, faiss_lsh)
            )
            print(
                f"  LSH {n_bits:3} bits   ours {shown(ours)}   faiss {shown(theirs)}   (faiss rotates, and does not centre)"
            )


def our_itq(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    made = hashers.ITQ(n_bits, random_state=seed).fit(task.training)
    return made.transform(task.queries), made.transform(task.gallery)


def faiss_itq(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    made = faiss.ITQTransform(task.training.shape[1], n_bits, True)
    made.max_train_per_dim, made.itq.seed = 10**6, seed + 1
    made.train(task.training)
    codes = [la.Codes.pack(made.apply(x) > 0) for x in (task.queries, task.gallery)]
    return codes[0], codes[1]


def our_lsh(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    made = hashers.LSH(n_bits, random_state=seed).fit(task.training)
    return made.transform(task.queries), made.transform(task.gallery)


def faiss_lsh(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    made = faiss.IndexLSH(task.training.shape[1], n_bits, True, False)
    made.rrot.init(seed + 1)
    made.is_trained = True
    codes = [la.Codes.from_bytes(made.sa_encode(x), n_bits=n_bits) for x in (task.queries, task.gallery)]
    return codes[0], codes[1]


def mean_ap(task: Task, queries: la.Codes, gallery: la.Codes) -> float:
    return la.evaluate(queries, gallery, task.relevance, ["AP"])["AP"].mean


def shown(values: list[float]) -> str:
    return f"{np.mean(values):.4f} ({np.std(values):.4f})"


def cifar10(quick: bool) -> None:
    task = dataset_task(la.datasets.load("digits" if quick else "cifar10"))
    print(f"\n{task.title}: {task.about}")
    started = time.perf_counter()
    found = try_hashers(task, [(n, hashers.make(n, b)) for b in (12, 24) for n in hashers.HASHERS])
    print("| hasher | bits | mAP | best | worst | mLGAP@2 | utilisation | entropy | fullest code | fit s | hash s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in found.rows():
        print(
            f"| {row['hasher']} | {row['bits']} | {row['mAP']:.4f} | {row['best']:.4f} | {row['worst']:.4f} | {row['LGAP@2']:.4f} | "
            f"{row['utilisation']:.4f} | {row['entropy']:.2f} | {row['largest']:,} | {row['fit_seconds']:.2f} | {row['hash_seconds']:.2f} |"
        )
    print(
        f"no hashing, euclidean: mAP {found.exact['AP'].mean:.4f}; all of it took {time.perf_counter() - started:.0f} s"
    )


def main() -> None:
    sections = {"transform": transform, "fit": fit, "quality": quality, "cifar10": cifar10}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    chosen = parser.parse_args()
    packages = " ".join(f"{name} {version(name)}" for name in ("lookalike", "numpy", "faiss-cpu", "scikit-learn"))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}")
    for name in chosen.only:
        sections[name](chosen.quick)


if __name__ == "__main__":
    main()
