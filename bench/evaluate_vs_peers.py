"""How much faster than what people use, and how close to the limit?

    python bench/evaluate_vs_peers.py [--quick] [--only NAME ...]

Every section makes its data, runs Lookalike and what it is measured against in turn, and prints the best time of each
with the ratio and, where there is one, the target. One thread unless a line says otherwise. `--quick` shrinks the
sizes to see that everything runs; its ratios mean nothing.

What is timed: the call of `la.evaluate`, with codes and relevance made anew before each repeat, so that nothing is
remembered from the one before; a line of its own says what making them takes. What others need made beforehand (an
index, a run) is made outside their time too.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # libraries read these when they are loaded
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import numpy as np
from numba import njit

import lookalike as la
from lookalike.core.kernels.scan import popcount

ALL = ["AP", "AP@1000", "AP(norm='total')@1000", "nDCG@100", "nDCG", "DCG@100", "P@100", "P(radius=2)", "R@100"]
ALL += ["R(radius=2)", "Hit@10", "RR", "AUC", "PRAUC", "LGAP@2"]
SHORT = ["AP", "nDCG", "P(radius=2)", "R(radius=2)", "LGAP@2"]
OF_EMBEDDINGS = ["AP", "AP@1000", "nDCG@100", "P@100", "R@100", "RR", "AUC", "PRAUC"]
PEERS = {  # what is imported, and the package it comes in
    "faiss": "faiss-cpu",
    "sklearn": "scikit-learn",
    "torch": "torch",
    "torchmetrics": "torchmetrics",
    "ranx": "ranx",
    "ir_measures": "ir_measures",
    "pytrec_eval": "pytrec_eval-terrier",
}
PATIENCE = 20.0  # a case that has taken this many seconds is not repeated again
CLASSES = 10

Prepare = Callable[[], Callable[[], Any]]  # what is not timed returns what is


@dataclass(frozen=True)
class Scale:
    """How much to do: sizes are divided, and every case is repeated."""

    divisor: int
    repeats: int

    def __call__(self, n: int) -> int:
        return n // self.divisor


# Data


def make_words(rng: np.random.Generator, labels: np.ndarray, n_bits: int, centres: np.ndarray) -> np.ndarray:
    """Words of codes as a trained hasher gives them: around a centre for each class, some tightly, a tenth astray."""
    parts = []
    for start in range(0, len(labels), 1 << 17):  # so that the bits of millions of codes never exist at once
        own = labels[start : start + (1 << 17)]
        astray = rng.random(len(own)) < 0.1
        centre = np.where(astray, rng.integers(0, CLASSES, len(own)), own)
        flips = rng.random((len(own), n_bits), np.float32) < rng.uniform(0, 0.4, (len(own), 1))
        parts.append(la.Codes.pack(centres[centre] ^ flips).words)
    return np.concatenate(parts)


class CodeData:
    """Queries and a gallery of labelled codes."""

    def __init__(self, n_queries: int, n_gallery: int, n_bits: int) -> None:
        rng = np.random.default_rng(0)
        self.n_bits = n_bits
        centres = rng.random((CLASSES, n_bits)) < 0.5
        self.query_labels, self.gallery_labels = (rng.integers(0, CLASSES, n) for n in (n_queries, n_gallery))
        self.query_words = make_words(rng, self.query_labels, n_bits, centres)
        self.gallery_words = make_words(rng, self.gallery_labels, n_bits, centres)

    def made(self, n_queries: int | None = None) -> tuple[la.Codes, la.Codes, Any]:
        """Arguments of la.evaluate, made anew."""
        queries = la.Codes(self.query_words[:n_queries], self.n_bits)
        relevance = la.same_label(self.query_labels[:n_queries], self.gallery_labels)
        return queries, la.Codes(self.gallery_words, self.n_bits), relevance

    def lookalike(self, metrics: list[str], *, threads: int = 1, n_queries: int | None = None) -> Prepare:
        return lambda: partial(la.evaluate, *self.made(n_queries), metrics, threads=threads)

    def signs(self, words: np.ndarray) -> np.ndarray:
        """Codes of -1 and +1, as networks give them."""
        return la.Codes(words, self.n_bits).unpack() * np.float32(2) - np.float32(1)

    def one_hot(self, labels: np.ndarray) -> np.ndarray:
        return np.eye(CLASSES, dtype=np.int8)[labels]

    def argsort(self, n_queries: int | None = None) -> Prepare:
        signs = self.signs(self.query_words[:n_queries]), self.signs(self.gallery_words)
        labels = self.one_hot(self.query_labels[:n_queries]), self.one_hot(self.gallery_labels)
        return lambda: partial(argsort_map, *signs, *labels)

    def bare(self) -> Prepare:
        return lambda: partial(bare_pass, self.query_words[:, 0], self.gallery_words[:, 0])

    def distances(self, n_queries: int) -> np.ndarray:
        """All of them, (queries, items): only for the peers, a few queries at a time."""
        return np.bitwise_count(self.query_words[:n_queries] ^ self.gallery_words[:, 0])

    def relevant(self, n_queries: int) -> np.ndarray:
        return self.query_labels[:n_queries, None] == self.gallery_labels


# What people use


def argsort_map(
    queries: np.ndarray, gallery: np.ndarray, query_labels: np.ndarray, gallery_labels: np.ndarray
) -> float:
    """Mean AP as code that comes with hashing papers has it: sort the gallery for each query, ties as they fall."""
    total = 0.0
    for query, labels in zip(queries, query_labels, strict=True):
        relevant = (labels @ gallery_labels.T > 0).astype(np.float32)
        distances = 0.5 * (gallery.shape[1] - query @ gallery.T)
        relevant = relevant[np.argsort(distances)]
        n_relevant = int(relevant.sum())
        if n_relevant == 0:
            continue
        ranks = np.flatnonzero(relevant == 1) + 1.0
        total += float(np.mean(np.arange(1, n_relevant + 1) / ranks))
    return total / len(queries)


@njit(nogil=True)
def bare_pass(queries: np.ndarray, gallery: np.ndarray) -> int:
    """Compare every pair of one-word codes and keep nothing but the sum of distances: the least a scan can cost."""
    total = np.uint64(0)
    for i in range(len(queries)):
        query = queries[i]
        for j in range(len(gallery)):  # by index: twice as fast here as over the items
            total += popcount(query ^ gallery[j])
    return total


# Measuring and printing


def missing(module: str) -> bool:
    """Whether a peer is not installed, which is then said."""
    absent = importlib.util.find_spec(module) is None
    if absent:
        print(f"  {PEERS[module]}: not installed, not measured")
    return absent


def measure(cases: Mapping[str, Prepare], repeats: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Best seconds of each case and what it returned; in turn, so that all meet the same disturbances."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    results = {}
    for _ in range(repeats):
        for name, prepare in cases.items():
            if sum(times[name]) > PATIENCE:
                continue
            run = prepare()
            start = time.perf_counter()
            results[name] = run()
            times[name].append(time.perf_counter() - start)
    return {name: min(found) for name, found in times.items()}, results


def line(name: str, seconds: float, remark: str = "") -> None:
    print(f"  {name:<42} {seconds:>10.4f} s   {remark}".rstrip())


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def faster(seconds: float, ours: float, target: float | None = None) -> str:
    """How many times longer a peer takes than we do; at least `target` times is wished."""
    ratio = seconds / ours
    goal = "" if target is None else f", target at least {target:g}x: {verdict(ratio >= target)}"
    return f"lookalike is {ratio:.1f}x faster{goal}"


def above(ours: float, seconds: float, target: float | None = None) -> str:
    """How many times longer we take than a limit; at most `target` times is wished."""
    ratio = ours / seconds
    goal = "" if target is None else f", target at most {target:g}x: {verdict(ratio <= target)}"
    return f"lookalike takes {ratio:.2f}x this{goal}"


def numbers(score: la.Score) -> str:
    return f"{score.mean:.4f} expected, {score.best:.4f} best, {score.worst:.4f} worst"


def check_between(name: str, value: float, score: la.Score) -> None:
    """Refuse a peer's number that no order of the ties gives: it has measured something else."""
    if not score.worst - 1e-5 <= value <= score.best + 1e-5:
        raise AssertionError(f"{name} reports {value}, but AP lies between {score.worst} and {score.best}")


def seconds_to_make(data: CodeData) -> float:
    return measure({"make": lambda: data.made}, 3)[0]["make"]


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def header(quick: bool) -> None:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((row.split(":")[1].strip() for row in lines if row.startswith("model name")), platform.processor())
    flags = next((set(row.split()) for row in lines if row.startswith("flags")), set())
    vectors = [name for name in ("avx2", "avx512f", "avx512_vpopcntdq") if name in flags]
    print(__doc__.splitlines()[0])
    print(f"machine: {model}, {os.cpu_count()} cores, {', '.join(vectors) or 'no vector instructions known'}")
    print(f"python {platform.python_version()}, numpy {np.__version__}, numba {version('numba')}, ", end="")
    print(f"lookalike {la.__version__}")
    print(", ".join(f"{package} {version(package)}" for package in PEERS.values()))
    print(f"load of the machine before the start: {os.getloadavg()[0]:.2f}")
    if quick:
        print("--quick: a tenth of the sizes and two repeats; targets are for whole sizes")


def title(name: str, text: str) -> None:
    print(f"\n[{name}] {text}", flush=True)


# Memory, each measurement in a process of its own


def resident(what: str) -> float:
    """VmRSS (now) or VmHWM (the peak) of this process in MB. Its maximum in getrusage can be the parent's."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in status if row.startswith(what)) / 1024


def child_memory(what: str, n_queries: int, n_gallery: int) -> None:
    """Print how far the peak rises above the packed codes and labels, with everything loaded and compiled."""
    data = CodeData(n_queries, n_gallery, 64)
    small = CodeData(16, 64, 64)
    for tiny in (small.lookalike(ALL), small.argsort()):
        tiny()()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = resident("VmRSS")
    prepare = data.lookalike(ALL) if what == "lookalike" else data.argsort()
    prepare()()
    print(json.dumps({"before": before, "added": resident("VmHWM") - before}))


def memory_of(what: str, n_queries: int, n_gallery: int) -> dict[str, float] | None:
    if not Path("/proc/self/clear_refs").exists():
        print("  memory: not measured, this system has no /proc/self/clear_refs")
        return None
    command = [sys.executable, __file__, "--child", what, str(n_queries), str(n_gallery)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


# Sections


def codes(scale: Scale) -> None:
    data = CodeData(scale(1000), 59_000, 64)
    n = len(data.query_words)
    title("codes", f"{n:,} queries, 59,000 items of 64 bits, {CLASSES} labels, {len(ALL)} metrics with best and worst")
    cases = {
        "lookalike, all metrics": data.lookalike(ALL),
        "lookalike, AP alone": data.lookalike(["AP"]),
        "argsort mAP (numpy)": data.argsort(),
        "bare pass (numba)": data.bare(),
    }
    if not missing("faiss"):
        faiss = importlib.import_module("faiss")
        faiss.omp_set_num_threads(1)
        index = faiss.IndexBinaryFlat(64)
        index.add(la.Codes(data.gallery_words, 64).to_bytes())
        wanted = la.Codes(data.query_words, 64).to_bytes()
        cases["faiss top 1,000, search alone"] = lambda: partial(index.search, wanted, 1000)
    bare_pass(data.query_words[:1, 0], data.gallery_words[:, 0])  # compiles
    times, results = measure(cases, scale.repeats)
    ours = times["lookalike, all metrics"]
    remarks = {
        "argsort mAP (numpy)": faster(times["argsort mAP (numpy)"], ours, 60),
        "bare pass (numba)": above(ours, times["bare pass (numba)"]),
        "lookalike, AP alone": f"{times['lookalike, AP alone'] / times['bare pass (numba)']:.2f}x the bare pass",
    }
    if "faiss top 1,000, search alone" in times:
        name = "faiss top 1,000, search alone"
        remarks[name] = faster(times[name], ours, 8)
    for name, seconds in times.items():
        line(name, seconds, remarks.get(name, ""))
    line("making Codes and relevance", seconds_to_make(data), "not in the times above")
    score, value = results["lookalike, all metrics"]["AP"], results["argsort mAP (numpy)"]
    check_between("argsort mAP", value, score)
    print(f"  AP: {numbers(score)}; argsort mAP says {value:.4f}")
    for what in ("lookalike", "argsort"):
        if found := memory_of(what, n, 59_000):
            print(f"  memory, {what}: {found['added']:.0f} MB at its peak above packed codes and labels")


def million(scale: Scale) -> None:
    data = CodeData(scale(1000), scale(1_000_000), 64)
    n, slice_of = len(data.query_words), 20
    title(
        "million",
        f"{n:,} queries, {len(data.gallery_words):,} items of 64 bits, {len(ALL)} metrics with best and worst",
    )
    cases = {
        "lookalike, all metrics": data.lookalike(ALL),
        "lookalike, all metrics, 2 threads": data.lookalike(ALL, threads=2),
        "bare pass (numba)": data.bare(),
        "argsort mAP (numpy)": data.argsort(slice_of),
    }
    bare_pass(data.query_words[:1, 0], data.gallery_words[:, 0])  # compiles
    times, _ = measure(cases, scale.repeats)
    times["argsort mAP (numpy)"] *= n / slice_of
    ours, two = times["lookalike, all metrics"], times["lookalike, all metrics, 2 threads"]
    line("lookalike, all metrics", ours)
    remark = f"{ours / two:.2f}x faster than one, target at least 1.7x: {verdict(ours / two >= 1.7)}"
    line("lookalike, all metrics, 2 threads", two, remark if (os.cpu_count() or 1) > 1 else "there is only one core")
    line("bare pass (numba)", times["bare pass (numba)"], above(ours, times["bare pass (numba)"], 4))
    line("argsort mAP (numpy)", times["argsort mAP (numpy)"], faster(times["argsort mAP (numpy)"], ours, 200))
    print(f"  argsort mAP was timed on {slice_of} queries and scaled to {n:,}")
    line("making Codes and relevance", seconds_to_make(data), "not in the times above")


def short(scale: Scale) -> None:
    data = CodeData(scale(10_000), scale(10_000_000), 12)
    n_gallery = len(data.gallery_words)
    title("short", f"{len(data.query_words):,} queries, {n_gallery:,} items of 12 bits, {CLASSES} labels")
    numbers_of = data.gallery_words[:, 0].astype(np.int64)
    few, every, least = (
        f"lookalike, {len(SHORT)} metrics",
        f"lookalike, {len(ALL)} metrics",
        "numpy.bincount of the codes",
    )
    cases = {
        few: data.lookalike(SHORT),
        every: data.lookalike(ALL),
        least: lambda: partial(np.bincount, numbers_of, minlength=4096),
    }
    times, _ = measure(cases, scale.repeats)
    for name in (few, every):
        ratio = times[name] / times[least]
        line(name, times[name], f"{ratio:.1f}x the bincount, target at most 10x: {verdict(ratio <= 10)}")
    line(least, times[least])
    line("making Codes and relevance", seconds_to_make(data), "not in the times above")
    print(f"  the {len(SHORT)} metrics: {', '.join(SHORT)}")


def memory(scale: Scale) -> None:
    n_queries, n_gallery = scale(10_000), scale(1_000_000)
    title("memory", f"{n_queries:,} queries, {n_gallery:,} items of 64 bits, {len(ALL)} metrics")
    found = memory_of("lookalike", n_queries, n_gallery)
    if found:
        added, before = found["added"], found["before"]
        goal = f"target at most 300 MB: {verdict(added <= 300)}"
        print(f"  lookalike: {added:.0f} MB at its peak above the {before:.0f} MB of codes and libraries, {goal}")
        print(f"  a matrix of the distances, one byte each, would take {n_queries * n_gallery / 2**20:,.0f} MB")


def embeddings(scale: Scale) -> None:
    n, n_gallery, width = scale(1000), 59_000, 512
    title(
        "embeddings",
        f"{n:,} queries, {n_gallery:,} items, {width} columns of float32, cosine, {len(OF_EMBEDDINGS)} metrics",
    )
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, width), np.float32)
    labels = [rng.integers(0, CLASSES, count) for count in (n, n_gallery)]
    queries, gallery = (centres[own] + 4 * rng.standard_normal((len(own), width), np.float32) for own in labels)
    unit_queries, unit_gallery = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, gallery))
    out = np.empty((n, n_gallery), np.float32)
    product = partial(np.matmul, unit_queries, unit_gallery.T, out=out)

    def ours() -> Callable[[], Any]:
        return partial(la.evaluate, queries, gallery, la.same_label(*labels), OF_EMBEDDINGS, threads=1)

    cases: dict[str, Prepare] = {
        "lookalike": ours,
        "the product alone (numpy)": lambda: product,
        "product and sort of the rows (numpy)": lambda: lambda: np.sort(product(), axis=1),
        "product and argsort of the rows (numpy)": lambda: lambda: np.argsort(product(), axis=1),
    }
    times, results = measure(cases, scale.repeats)
    for name, seconds in times.items():
        target = 1.4 if name == "the product alone (numpy)" else None
        line(name, seconds, "" if name == "lookalike" else above(times["lookalike"], seconds, target))
    print(f"  AP: {numbers(results['lookalike']['AP'])}")


def peers(scale: Scale) -> None:
    data = CodeData(1000, 59_000, 64)
    title("peers", "1,000 queries, 59,000 items of 64 bits: AP alone, each on a few queries and scaled to 1,000")
    print(
        "  a peer is given the distances, which it need not compute, in its own kind of input; lookalike, timed in turn"
    )
    print("  with each peer, computes AP and PRAUC of all 1,000 queries from the codes")
    for module, n, prepare in (
        ("sklearn", scale(200), prepare_sklearn),
        ("torchmetrics", scale(200), prepare_torchmetrics),
        ("pytrec_eval", scale(100), prepare_pytrec_eval),
        ("ir_measures", scale(100), prepare_ir_measures),
        ("ranx", 10, prepare_ranx),
    ):
        if missing(module) or (module == "torchmetrics" and missing("torch")):
            continue
        name, run = prepare(data, n)
        run()  # compiles, fills caches
        cases: dict[str, Prepare] = {"lookalike": data.lookalike(["AP", "PRAUC"]), name: lambda run=run: run}
        times, values = measure(cases, scale.repeats)
        seconds, ours = times[name] * 1000 / n, times["lookalike"]
        line(name, seconds, f"{faster(seconds, ours)}, with {ours:.4f} s (peer timed on {n} queries)")
        own = la.evaluate(*data.made(n), ["AP", "PRAUC"], threads=1)
        areas = f"; PRAUC {own['PRAUC'].mean:.4f}" if module == "sklearn" else ""
        print(f"    says {values[name]:.4f} of these {n}; AP is {numbers(own['AP'])}{areas}")
        if module != "sklearn":  # whose average precision is the PRAUC here
            check_between(name, values[name], own["AP"])


def prepare_sklearn(data: CodeData, n: int) -> tuple[str, Callable[[], float]]:
    from sklearn.metrics import average_precision_score

    relevant, scores = data.relevant(n), -data.distances(n).astype(np.float32)
    return "scikit-learn average_precision_score", lambda: float(
        np.mean([average_precision_score(*row) for row in zip(relevant, scores, strict=True)])
    )


def prepare_torchmetrics(data: CodeData, n: int) -> tuple[str, Callable[[], float]]:
    import torch
    from torchmetrics.retrieval import RetrievalMAP

    torch.set_num_threads(1)
    scores = torch.from_numpy(65 - data.distances(n).astype(np.float32)).ravel()  # above 0, or they do not count
    relevant = torch.from_numpy(data.relevant(n)).ravel()
    indexes = torch.arange(n).repeat_interleave(len(data.gallery_words))

    def run() -> float:
        metric = RetrievalMAP()
        metric.update(scores, relevant, indexes=indexes)
        return float(metric.compute())

    return "torchmetrics RetrievalMAP", run


def as_run(data: CodeData, n: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgements of all pairs and a run of all items, as dictionaries."""
    names = [str(i) for i in range(len(data.gallery_words))]
    qrels, run = {}, {}
    for q, (relevant, distances) in enumerate(zip(data.relevant(n), data.distances(n), strict=True)):
        qrels[str(q)] = {names[i]: 1 for i in np.flatnonzero(relevant)}
        run[str(q)] = dict(zip(names, (65.0 - distances).tolist(), strict=True))
    return qrels, run


def prepare_pytrec_eval(data: CodeData, n: int) -> tuple[str, Callable[[], float]]:
    import pytrec_eval

    qrels, ranked = as_run(data, n)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"map"})
    return "pytrec_eval map", lambda: float(np.mean([found["map"] for found in evaluator.evaluate(ranked).values()]))


def prepare_ir_measures(data: CodeData, n: int) -> tuple[str, Callable[[], float]]:
    import ir_measures

    qrels, ranked = as_run(data, n)
    evaluator = ir_measures.evaluator([ir_measures.AP], qrels)
    return "ir_measures AP", lambda: float(evaluator.calc_aggregate(ranked)[ir_measures.AP])


def prepare_ranx(data: CodeData, n: int) -> tuple[str, Callable[[], float]]:
    import ranx

    qrels, ranked = as_run(data, n)
    warnings.filterwarnings("ignore", message="unsafe cast")  # of the numbers it makes of names
    prepared = ranx.Qrels(qrels), ranx.Run(ranked)
    return "ranx map", lambda: float(ranx.evaluate(*prepared, "map", threads=1))


SECTIONS = {section.__name__: section for section in (codes, million, short, memory, embeddings, peers)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes: does everything run?")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections to run")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, n_queries, n_gallery = options.child
        child_memory(what, int(n_queries), int(n_gallery))
        return
    header(options.quick)
    la.evaluate(*CodeData(16, 64, 64).made(), ALL, threads=1)  # loads, and at the first time compiles, what is needed
    rows = 2 * np.eye(4, dtype=np.float32)
    la.evaluate(rows, rows, la.same_label(range(4), range(4)), threads=1)
    for name in options.only:
        SECTIONS[name](Scale(10, 2) if options.quick else Scale(1, 5))


if __name__ == "__main__":
    main()
