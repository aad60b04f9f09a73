"""How close is the scan of codes to a bare pass, at every length?

    python bench/scan_vs_bare_pass.py [--bits 12 16 …] [--queries 1000] [--items 1000000] [--repeats 3]

A bare pass compares every pair of codes, exclusive-or and popcount, and keeps nothing but the sum: the least that a
scan of words can cost. Beside it: the counts by a scan of words and by one of bit planes, all that they sort and copy
included; `la.evaluate` with all metrics; and an argsort for each query, timed on a few and scaled. One thread, the best
of several, in turn. Times are of the processor, so that a busy machine disturbs them less.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from evaluate_vs_peers import ALL, CodeData, argsort_map, header
from numba import njit

import lookalike as la
from lookalike.core.kernels.scan import popcount
from lookalike.evaluation.count_codes import CodeCounter

SLICE = 5  # queries of which an argsort is timed


@njit(nogil=True)
def bare_pass(queries: np.ndarray, gallery: np.ndarray) -> int:
    """The sum of all distances of codes (queries, words) to codes (words, items)."""
    total = np.uint64(0)
    for i in range(len(queries)):
        for word in range(len(gallery)):
            query, words = queries[i, word], gallery[word]
            for j in range(len(words)):
                total += popcount(query ^ words[j])
    return total


def count(data: CodeData, by_planes: bool) -> la.Tally:
    """The counts by a scan of words or of planes, whichever is asked for."""
    chosen = CodeCounter.planes_pay
    CodeCounter.planes_pay = lambda self: by_planes  # type: ignore[method-assign]  # noqa: ARG005
    try:
        return la.count(*data.made(), method="scan", threads=1)
    finally:
        CodeCounter.planes_pay = chosen  # type: ignore[method-assign]


def best(cases: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least seconds of the processor that each case took."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, case in cases.items():
            start = time.process_time()
            case()
            times[name].append(time.process_time() - start)
    return {name: min(seconds) for name, seconds in times.items()}


def row(n_bits: int, options: argparse.Namespace) -> str:
    """Measure codes of a length: a row of the table."""
    data = CodeData(options.queries, options.items, n_bits)
    gallery = np.ascontiguousarray(data.gallery_words.T)
    bare_pass(data.query_words[:1], gallery)  # compiles
    words, planes = count(data, False), count(data, True)
    np.testing.assert_array_equal(words.counts, planes.counts)
    few = data.signs(data.query_words[:SLICE]), data.signs(data.gallery_words)
    labels = data.one_hot(data.query_labels[:SLICE]), data.one_hot(data.gallery_labels)
    times = best(
        {
            "bare": lambda: bare_pass(data.query_words, gallery),
            "words": lambda: count(data, False),
            "planes": lambda: count(data, True),
            "all": lambda: la.evaluate(*data.made(), ALL, threads=1),
        },
        options.repeats,
    )
    sort = best({"argsort": partial(argsort_map, *few, *labels)}, 1)["argsort"] * options.queries / SLICE
    pairs = options.queries * options.items / 1e9
    return (
        f"{n_bits:>5} {times['bare'] * 1e3:>8.1f} {times['words'] * 1e3:>8.1f} {times['planes'] * 1e3:>8.1f} "
        f"{times['all'] * 1e3:>9.1f} {sort * 1e3:>9.0f} {pairs / times['planes']:>10.1f} "
        f"{times['planes'] / times['bare']:>12.2f} {times['all'] / times['bare']:>9.2f} {sort / times['all']:>12.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, nargs="+", default=[12, 16, 24, 32, 48, 64, 96, 128, 256])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    header(quick=False)
    print(f"{options.queries:,} queries, {options.items:,} items, 10 labels; milliseconds of the processor, one thread")
    titles = (
        "bits",
        "bare",
        "words",
        "planes",
        "evaluate",
        "argsort",
        "G pairs/s",
        "planes/bare",
        "all/bare",
        "argsort/all",
    )
    print("{:>5} {:>8} {:>8} {:>8} {:>9} {:>9} {:>10} {:>12} {:>9} {:>12}".format(*titles), flush=True)
    for n_bits in options.bits:
        print(row(n_bits, options), flush=True)


if __name__ == "__main__":
    main()
