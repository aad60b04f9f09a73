"""How fast do hashers learn and hash, and are their codes as good as those of others?

    python bench/hashers.py [--quick] [--only NAME ...]

transform   1 million × 128 floats to 64 bits, by every hasher, against the bare matrix product
fit         the time to learn, against faiss and scikit-learn where they have the same
quality     mAP of ITQ and LSH against faiss's, means over five seeds
cifar10     all fourteen on CIFAR-10: pixels, setting 1, 12 and 24 bits (fetches 139 MB the first time)
embeddings  all fourteen on EfficientNet-Lite0's embeddings of a fifth of CIFAR-10, 32 bits

Both sides may use all cores. Every time is the best of several runs, side by side; of `embeddings`, the processor's
seconds of one run.
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
from lookalike.core.kernels import prepare_hashing
from lookalike.experiments.claims.material import images
from lookalike.experiments.task import Task, dataset_task
from lookalike.experiments.trials import try_hashers

REPEATS = 7


def best(*cases: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    """Best time of each, taking turns."""
    times = [[] for _ in cases]
    for _ in range(repeats):
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


def line(name: str, ours: float, other: str, theirs: float, target: str = "") -> None:
    print(f"  {name:<11}{ours * 1e3:8.0f} ms   {other} {theirs * 1e3:.0f} ms: {ours / theirs:.2f} times{target}")


def transform(quick: bool) -> None:
    n, d, n_bits = (20_000 if quick else 1_000_000), 128, 64
    X = make_items(n, d)
    W = np.random.default_rng(1).standard_normal((d, n_bits), np.float32)
    print(f"\ntransform: {n:,} × {d} float32 to {n_bits} bits; the bare product is numpy's X @ W")
    lsh = faiss.IndexLSH(d, n_bits, True, False)
    lsh.train(X[:1000])
    for name in hashers.HASHERS:
        fitted = hashers.make(name, n_bits).fit(X[:20_000], np.arange(20_000) % 10)
        line(name, *pair(lambda h=fitted: h.transform(X), "bare product", lambda: X @ W), "   target 1.5")
    fitted = hashers.make("LSH", n_bits).fit(X[:1000])
    line("LSH", *pair(lambda: fitted.transform(X), "faiss IndexLSH", lambda: lsh.sa_encode(X)))


def pair(ours: Callable[[], Any], other: str, theirs: Callable[[], Any]) -> tuple[float, str, float]:
    first, second = best(ours, theirs)
    return first, other, second


def fit(quick: bool) -> None:
    for n, d, n_bits in [(2_000, 64, 32)] if quick else [(5_000, 512, 64), (50_000, 128, 64), (100_000, 128, 128)]:
        fit_size(make_items(n, d), n_bits)


def fit_size(X: np.ndarray, n_bits: int) -> None:
    print(f"\nfit: {len(X):,} × {X.shape[1]} float32, {n_bits} bits")

    def faiss_itq(rows_a_dimension: int) -> None:
        made = faiss.ITQTransform(X.shape[1], n_bits, True)
        made.max_train_per_dim = rows_a_dimension
        made.train(X)

    itq = hashers.make("ITQ", n_bits)
    line("ITQ", *pair(lambda: itq.fit(X), "faiss on the same rows", lambda: faiss_itq(10**6)), "   target 2")
    line(
        "ITQ", *pair(lambda: itq.fit(X), "faiss by default, 32,768 rows at most", lambda: faiss_itq(10)), "   target 2"
    )
    line("PCAH", *pair(lambda: hashers.make("PCAH", n_bits).fit(X), "scikit-learn PCA", lambda: PCA(n_bits).fit(X)))

    def projection() -> np.ndarray:
        return np.packbits(GaussianRandomProjection(n_bits).fit_transform(X) > 0, axis=1)

    ours = hashers.make("LSH", n_bits)
    line("LSH, hashed", *pair(lambda: ours.fit(X).transform(X), "scikit-learn GaussianRandomProjection", projection))
    for name in list(hashers.HASHERS)[4:]:
        labels = np.arange(len(X)) % 10
        (seconds,) = best(lambda name=name: hashers.make(name, n_bits).fit(X, labels), repeats=2)  # noqa: B023
        print(f"  {name:<11}{seconds * 1e3:8.0f} ms")


def quality(quick: bool) -> None:
    seeds = range(2 if quick else 5)
    for name in ["digits"] if quick else ["digits", "fashion-mnist", "cifar10"]:
        task = dataset_task(la.datasets.load(name))
        print(f"\nquality: {task.title}, mAP, mean of {len(seeds)} seeds (standard deviation)")
        for n_bits in (12, 24, 48):
            for kind, (ours, theirs) in {"ITQ": (our_itq, faiss_itq), "LSH": (our_lsh, faiss_lsh)}.items():
                both = [[mean_ap(task, *make(task, n_bits, seed)) for seed in seeds] for make in (ours, theirs)]
                apart = f"{np.mean(both[0]) - np.mean(both[1]):+.4f}"
                print(f"  {kind} {n_bits:3} bits   ours {shown(both[0])}   faiss {shown(both[1])}   apart {apart}")


def our_itq(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    made = hashers.ITQ(n_bits, random_state=seed).fit(task.training)
    return made.transform(task.queries), made.transform(task.gallery)


def faiss_itq(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    """Principal components and ITQMatrix; ITQTransform would also scale items to length 1."""
    reduce, made = faiss.PCAMatrix(task.training.shape[1], n_bits), faiss.ITQMatrix(n_bits)
    reduce.train(task.training)
    made.seed = seed + 1
    made.train(reduce.apply(task.training))
    codes = [la.Codes.pack(made.apply(reduce.apply(x)) > 0) for x in (task.queries, task.gallery)]
    return codes[0], codes[1]


def our_lsh(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    made = hashers.LSH(n_bits, random_state=seed).fit(task.training)
    return made.transform(task.queries), made.transform(task.gallery)


def faiss_lsh(task: Task, n_bits: int, seed: int) -> tuple[la.Codes, la.Codes]:
    """A random rotation, on items that are centred first, as ours are: faiss does not do that itself."""
    made, mean = faiss.IndexLSH(task.training.shape[1], n_bits, True, False), task.training.mean(0)
    made.rrot.init(seed + 1)
    made.is_trained = True
    codes = [la.Codes.from_bytes(made.sa_encode(x - mean), n_bits=n_bits) for x in (task.queries, task.gallery)]
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
    names = ["mAP", "best", "worst", "LGAP@2", "utilisation"]
    print(f"| hasher | bits | {' | '.join(names)} | entropy | fullest code | fit s | hash s |")
    print("|---|---|" + "---|" * (len(names) + 4))
    for row in found.rows():
        numbers = [f"{row[name]:.4f}" for name in names] + [f"{row['entropy']:.2f}", f"{row['largest']:,}"]
        seconds = [f"{row['fit_seconds']:.1f}", f"{row['hash_seconds']:.1f}"]
        print(f"| {' | '.join([row['hasher'], str(row['bits']), *numbers, *seconds])} |")
    seconds = time.perf_counter() - started
    print(f"no hashing, euclidean: mAP {found.exact['AP'].mean:.4f}; all of it took {seconds:.0f} s")


def embeddings(quick: bool) -> None:
    material = images("digits", 2000, "pixels", 0) if quick else images("cifar10", 12_000, "efficientnet-lite0", 0)
    parts = [len(rows) for rows in (material.split.queries, material.split.training, material.split.gallery)]
    print(f"\n{material.dataset.name}: {parts[0]:,} queries, {parts[1]:,} training, {parts[2]:,} gallery, 32 bits")
    made = [(name, hashers.make(name, 32)) for name in hashers.HASHERS]
    prepare_hashing()
    hashers.BRE(2, n_rounds=1, random_state=0).fit(material.vectors[:50])  # its loop is compiled
    print("| hasher | labels | mAP | worst | best | fit and hash, processor s |\n|---|---|---|---|---|---|")
    for name, hasher in [*made, ("BRE, supervised", hashers.BRE(32, supervised=True, random_state=0))]:
        started = time.process_time()
        queries, gallery = material.codes(hasher)
        seconds = time.process_time() - started
        ap = la.evaluate(queries, gallery, material.relevance, ["AP"])["AP"]
        labels = "yes" if hasher.learns_labels else "no"
        print(f"| {name} | {labels} | {ap.mean:.4f} | {ap.worst:.4f} | {ap.best:.4f} | {seconds:.1f} |", flush=True)


def main() -> None:
    sections = {"transform": transform, "fit": fit, "quality": quality, "cifar10": cifar10, "embeddings": embeddings}
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
