"""How much do a pool and a leaderboard cost, beside the least that they could?

pool         2,000 queries × 52,712 items × 6 models × 768 floats, k = 6: against the matrix products alone
leaderboard  54,000 judged pairs, 20 models, every metric and 1,000 bootstrap resamples: against a loop of
             scikit-learn's roc_auc_score over models and queries, which gives one metric and no interval
board        2,000 queries × 52,712 items × 10 models × 128 floats, six of them pooled and judged by three experts:
             every metric, sampled negatives, leave-one-out and three rules, against the matrix products alone
"""

import argparse
import os
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np

from lookalike.discovery import Collection, Judgements, Pool, Votes, by_rule, leaderboard, leave_one_out, majority
from lookalike.discovery.leaderboard import discovery_metrics
from lookalike.metrics.metric import parse_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["pool", "leaderboard", "board"])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.only in (None, "pool"):
        pool(options.repeats)
    if options.only in (None, "leaderboard"):
        boards(options.repeats)
    if options.only in (None, "board"):
        whole_board(options.repeats)


class Peak:
    """How much more memory the process held inside the block than before it, looked at a hundred times a second."""

    def __enter__(self) -> "Peak":
        self._before = self._most = self._now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self.grown = self._most - self._before

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self._most = max(self._most, self._now())

    def _now(self) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ids(n_queries: int, n_items: int) -> Collection:
    items = [f"item-{i:05}" for i in range(n_items)]
    return Collection(items[:n_queries], items)


def pool(repeats: int) -> None:
    n_queries, n_items, n_models, width = 2000, 52_712, 6, 768
    generator = np.random.default_rng(0)
    base = generator.normal(size=(n_items, width)).astype(np.float32)
    models = {}
    for number in range(n_models):
        items = base + generator.normal(size=base.shape).astype(np.float32)
        items /= np.linalg.norm(items, axis=1, keepdims=True)
        models[f"model {number}"] = (np.ascontiguousarray(items[:n_queries]), items)
    del base
    collection = ids(n_queries, n_items)
    Pool.build({"warm": (models["model 0"][0][:8], models["model 0"][1][:50])}, ids(8, 50), k=3)
    print(f"pool: {n_queries:,} queries × {n_items:,} items × {n_models} models × {width} floats, k = 6")
    print(f"  inputs take {sum(items.nbytes for _, items in models.values()) / 2**20:,.0f} MB")
    products, pools = [], []
    for _ in range(repeats):
        started = time.perf_counter()
        with Peak() as peak:
            made = Pool.build(models, collection, k=6)
        pools.append(time.perf_counter() - started)
        started = time.perf_counter()
        for queries, items in models.values():
            for start in range(0, n_queries, 200):
                queries[start : start + 200] @ items.T
        products.append(time.perf_counter() - started)
    ratio = min(pools) / min(products)
    print(f"  pool {min(pools):.2f} s, products alone {min(products):.2f} s: {ratio:.2f} times, target at most 1.5")
    print(f"  peak memory beside the inputs: {peak.grown / 2**20:,.0f} MB, target below 2,048")
    print(f"  {len(made):,} pairs, {made.duplication:.1%} duplicates")


def boards(repeats: int) -> None:
    from sklearn.metrics import roc_auc_score

    n_queries, n_items, n_models, n_pairs = 2000, 10_000, 20, 27
    generator = np.random.default_rng(0)
    collection = ids(n_queries, n_items)
    runs: dict[str, dict[str, dict[str, float]]] = {}
    judged = [generator.choice(np.arange(n_queries, n_items), 100, replace=False) for _ in range(n_queries)]
    grades = generator.random((n_queries, n_pairs)) < 0.85
    names = collection.item_ids
    for number in range(n_models):
        scores = generator.normal(size=(n_queries, 100)).round(6)
        scores[:, :n_pairs] += grades
        runs[f"model {number}"] = {
            str(names[q]): dict(zip(names[judged[q]].tolist(), scores[q].tolist(), strict=True))
            for q in range(n_queries)
        }
    rows = [
        (str(names[q]), str(names[judged[q][i]]), int(grades[q, i])) for q in range(n_queries) for i in range(n_pairs)
    ]
    judgements = Judgements.of(rows)
    metrics = parse_all(
        "VSDHR@6 VSDMRR@6 Judged@6 P@6 AUC AUC(average='micro') PRAUC PRAUC(average='micro') Bpref RBP@6"
    )
    ours, theirs = [], []
    print(f"leaderboard: {len(rows):,} judged pairs, {n_models} models, {len(metrics)} metrics, 1,000 resamples")
    for _ in range(repeats):
        started = time.perf_counter()
        board = leaderboard(runs, judgements, collection, metrics=metrics, resamples=1000)
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        means = {}
        for name, run in list(runs.items())[:2]:  # the time of two, scaled: all of them take minutes
            values = []
            for q in range(n_queries):
                ranked = run[str(names[q])]
                truth = grades[q]
                if truth.any() and not truth.all():
                    values.append(roc_auc_score(truth, [ranked[str(names[i])] for i in judged[q][:n_pairs]]))
            means[name] = np.mean(values)
        theirs.append((time.perf_counter() - started) * n_models / len(means))
    gap = max(abs(board[name]["AUC"].mean - mean) for name, mean in means.items())
    print(f"  leaderboard {min(ours):.2f} s, roc_auc_score in a loop {min(theirs):.2f} s:", end=" ")
    print(f"{min(theirs) / min(ours):.1f} times faster, target at least 5; AUC differs by {gap:.1e} at most")


def whole_board(repeats: int) -> None:
    n_queries, n_items, n_models, width, n_pooled = 2000, 52_712, 10, 128, 6
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(n_items // 20, width)).astype(np.float32)
    cluster = generator.integers(len(centres), size=n_items)
    base = centres[cluster] + 0.8 * generator.normal(size=(n_items, width)).astype(np.float32)
    models = {}
    for number in range(n_models):
        items = base + (0.2 + 0.08 * number) * generator.normal(size=base.shape).astype(np.float32)
        models[f"model {number}"] = (np.ascontiguousarray(items[:n_queries]), items)
    del base
    collection = ids(n_queries, n_items)
    pooled = Pool.build(dict(list(models.items())[:n_pooled]), collection, k=6, random=n_queries)
    chance = np.where(cluster[pooled.queries] == cluster[pooled.items], 0.9, 0.1)
    queries, items = zip(*pooled.pairs * 3, strict=True)
    experts = np.repeat(["ann", "bob", "eve"], len(pooled))
    votes = Votes(queries, items, experts, (generator.random(len(experts)) < np.tile(chance, 3)).astype(np.int8))
    judgements = majority(votes)
    size = f"{n_queries:,} queries × {n_items:,} items × {n_models} models × {width} floats"
    print(f"board: {size}, {len(votes):,} votes")
    boards, products, processor, of_products = [], [], [], []
    for _ in range(repeats):
        for all_ranks in (False, True):
            metrics = [*discovery_metrics(pooled.k), *(parse_all("AP nDCG") if all_ranks else [])]
            started, before = time.perf_counter(), time.process_time()
            with Peak() as peak:
                board = leaderboard(models, judgements, collection, pool=pooled, metrics=metrics)
                leave_one_out(board.contest, pooled)
                by_rule(board.contest, votes, pool=pooled)
                board.to_dict()
            boards.append((all_ranks, time.perf_counter() - started))
            processor.append((all_ranks, time.process_time() - before))
        started, before = time.perf_counter(), time.process_time()
        for rows, gallery in models.values():
            for start in range(0, n_queries, 200):
                rows[start : start + 200] @ gallery.T
        products.append(time.perf_counter() - started)
        of_products.append(time.process_time() - before)
    for all_ranks, what in ((False, "every metric of the docs"), (True, "with AP and nDCG of all ranks")):
        took = min(seconds for which, seconds in boards if which == all_ranks)
        used = min(seconds for which, seconds in processor if which == all_ranks)
        ratio = took / min(products)
        print(f"  {what}: {took:.2f} s, products alone {min(products):.2f} s: {ratio:.2f} times", end="; ")
        print(f"processor time {used:.2f} s and {min(of_products):.2f} s: {used / min(of_products):.2f} times")
    print(f"  target at most 4; peak memory beside the inputs: {peak.grown / 2**20:,.0f} MB")


if __name__ == "__main__":
    main()
