"""Which number should lead a leaderboard: which one is neutral to models that built the pool, and orders them truly?

    OMP_WAIT_POLICY=PASSIVE python bench/leading_metric.py [--quick] [--only KIND …] [--json FILE]
    python bench/leading_metric.py --only runs --runs FOLDER --qrels FILE        # TREC runs of your own

A world has models that rank items for queries, and the whole truth. Some of the models build a pool of their top k, the
pool is judged (in every other world with mistakes), and estimators give every model a number.

inside − outside  how much more a model gets when it helped to build the pool than when it did not, beside models that
                  came later in both cases: the same model, the same pool but for its own pairs. 0 is neutral
equal − equal     how much more those inside get than those outside, at the same true AP (regression)
tau               Kendall's tau of the models' order with that of true AP, over complete truth
beside Bpref      the same less that of plain Bpref on the same pool
spread            standard deviation of the numbers of all models: what a bias is to be held against

kinds   unlike, alike: simulated; models differ in quality, in the errors that they share with a family, and in "alike"
        share most errors with all others. builders: all models built the pool. few: six models, one or two came later
        digits, fashion-mnist, cifar10: real features of real images, labels as judge
        runs: TREC runs and judgements in files
metrics AUC, PRAUC, Bpref: of judged pairs alone. AP: what nobody judged is wrong. AUC against chance: judged positives
        against 50 items drawn by chance for each query
Intervals are 95 %, over worlds.
"""

import argparse
import datetime
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when libraries are loaded

import numpy as np
from scipy.stats import kendalltau, norm

import lookalike as la
from lookalike import encoders, hashers
from lookalike.discovery import Collection, Judgements, Pool, leaderboard

METRICS = ("AUC", "PRAUC", "Bpref", "AP")
KINDS = ("unlike", "alike", "builders", "few", "digits", "fashion-mnist", "cifar10")
NONE: frozenset[int] = frozenset()


@dataclass
class World:
    """Ranks of items by models, (models, queries, items), from 0; the truth; and what a judge says of each pair."""

    order: np.ndarray
    rank: np.ndarray
    truth: np.ndarray
    said: np.ndarray
    true_ap: np.ndarray

    @classmethod
    def of(
        cls, scores: np.ndarray, truth: np.ndarray, seed: int, mistakes: tuple[float, float] = (0.0, 0.0)
    ) -> "World":
        """Rank by scores, ties by chance. mistakes: how often a similar pair is judged not to be, and the other way."""
        generator = np.random.default_rng([seed, 99])
        chance = generator.random(scores.shape[1:])
        order = np.stack([np.lexsort((chance, -of_model)) for of_model in scores]).astype(np.int32)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(order.shape[2], dtype=np.int32)[None, None], 2)
        wrong = generator.random(truth.shape)
        said = np.where(truth, wrong >= mistakes[0], wrong < mistakes[1])
        relevant = np.take_along_axis(np.broadcast_to(truth, order.shape), order, 2)
        precision = relevant.cumsum(2) / np.arange(1, order.shape[2] + 1)
        total = truth.sum(1)
        some = total > 0
        true_ap = ((relevant * precision).sum(2)[:, some] / total[some]).mean(1)
        return cls(order, rank, truth, said, true_ap)

    def only(self, models: np.ndarray) -> "World":
        """The world with fewer models."""
        return World(self.order[models], self.rank[models], self.truth, self.said, self.true_ap[models])


@dataclass
class Judged:
    """The judged pairs of a pool, each query's in the order of each model: (models, queries, pairs)."""

    world: World
    builders: list[int]
    k: int
    cache: dict[frozenset[int], dict[str, np.ndarray]] = field(default_factory=dict)
    means: dict[tuple[frozenset[int], str], np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world = self.world
        self.n_models, n_queries, n_items = world.order.shape
        proposers = np.zeros((n_queries, n_items), np.int64)
        for bit, builder in enumerate(self.builders):
            top = world.order[builder, :, : self.k]
            np.put_along_axis(proposers, top, np.take_along_axis(proposers, top, 1) | 1 << bit, 1)
        self.proposers = proposers
        width = int((proposers > 0).sum(1).max())
        items = np.argsort(proposers == 0, axis=1, kind="stable")[:, :width]
        bits = np.take_along_axis(proposers, items, 1)
        relevant = np.take_along_axis(world.said, items, 1) & (bits > 0)
        rank = np.take_along_axis(world.rank, np.broadcast_to(items, (self.n_models, *items.shape)), 2)
        rank = np.where(bits > 0, rank, n_items)
        order = np.argsort(rank, axis=2)
        self.rank = np.take_along_axis(rank, order, 2) + 1
        self.bits = np.take_along_axis(np.broadcast_to(bits, rank.shape), order, 2)
        self.relevant = np.take_along_axis(np.broadcast_to(relevant, rank.shape), order, 2)
        drawn = np.random.default_rng(0).integers(0, n_items, (n_queries, 50))
        drawn_ranks = np.take_along_axis(world.rank, np.broadcast_to(drawn, (self.n_models, *drawn.shape)), 2)
        counted = ~np.take_along_axis(world.said, drawn, 1)
        self.above_chance = np.stack(  # share of the items drawn by chance that a judged item ranks above
            [
                ((self.rank[:, query, :, None] <= drawn_ranks[:, query, None, :]) & counted[query]).sum(2)
                / max(int(counted[query].sum()), 1)
                for query in range(n_queries)
            ],
            axis=1,
        )

    def values(self, without: frozenset[int], metric: str) -> np.ndarray:
        """A metric of every model for every query, on the pool that is left without some builders; nan: no value."""
        if without not in self.cache:
            self.cache[without] = self._values(without)
        return self.cache[without][metric]

    def mean(self, without: frozenset[int], metric: str) -> np.ndarray:
        """The same, averaged over queries that have a value."""
        key = without, metric
        if key not in self.means:
            self.means[key] = over_queries(self.values(without, metric))
        return self.means[key]

    def _values(self, without: frozenset[int]) -> dict[str, np.ndarray]:
        left = sum(1 << bit for bit, builder in enumerate(self.builders) if builder not in without)
        judged = (self.bits & left) > 0
        hit, miss = self.relevant & judged, judged & ~self.relevant
        hits, misses = hit.cumsum(2, dtype=np.float32), miss.cumsum(2, dtype=np.float32)
        n_hit, n_miss = hits[:, :, -1], misses[:, :, -1]
        own = np.zeros(self.n_models, np.int64)
        own[self.builders] = [1 << bit for bit in range(len(self.builders))]
        others = self.bits & left & ~own[:, None, None]
        weight = sum(((others >> bit) & 1).astype(np.float32) for bit in range(len(self.builders)))
        w_hit, w_miss = hit * weight, miss * weight
        w_hits, w_misses = w_hit.cumsum(2), w_miss.cumsum(2)
        fewest = np.maximum(np.minimum(n_hit, n_miss), 1)[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            both, some = (n_hit > 0) & (n_miss > 0), n_hit > 0
            area = (w_hit * w_misses).sum(2) / (w_hits[:, :, -1] * w_misses[:, :, -1])
            return {
                "AUC": np.where(both, 1 - (hit * misses).sum(2) / (n_hit * n_miss), np.nan),
                "PRAUC": np.where(both, (hit * hits / np.maximum(hits + misses, 1)).sum(2) / n_hit, np.nan),
                "Bpref": np.where(
                    some, (hit * (1 - np.minimum(misses, n_hit[:, :, None]) / fewest)).sum(2) / n_hit, np.nan
                ),
                "AP": np.where(some, (hit * hits / self.rank).sum(2) / n_hit, np.nan),
                "AUC against chance": np.where(some, (hit * self.above_chance).sum(2) / n_hit, np.nan),
                "weighted AUC": np.where(np.isfinite(area), 1 - area, np.nan),
            }


def over_queries(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.nanmean(values, axis=-1))


# Estimators: a number for each model, from the judged pairs of the pool that is left without some builders


def plain(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """The metric on all judged pairs."""
    return judged.mean(gone, metric)


def own_left_out(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """The metric without the pairs that the model alone proposed."""
    out = judged.mean(gone, metric).copy()
    for builder in inside(judged, gone):
        out[builder] = judged.mean(gone | {builder}, metric)[builder]
    return out


def thinned_alike(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """Own left out; models that came later on the mean of the pools without one builder, so that all are as thin."""
    builders = inside(judged, gone)
    out = np.mean([judged.mean(gone | {builder}, metric) for builder in builders], axis=0)
    for builder in builders:
        out[builder] = judged.mean(gone | {builder}, metric)[builder]
    return out


def own_changes(judged: Judged, metric: str, gone: frozenset[int], beside: list[int]) -> np.ndarray:
    """For each builder and query, what its own pairs do to it beyond what they do to other models."""
    rows = []
    for builder in inside(judged, gone):
        change = judged.values(gone, metric) - judged.values(gone | {builder}, metric)
        rows.append(change[builder] - change[[model for model in beside if model != builder]].mean(0))
    return np.array(rows)


def given_back(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """All builders get back what own pairs take from a builder on average (as Webber and Park 2009 do for AP)."""
    builders = inside(judged, gone)
    later = [model for model in range(judged.n_models) if model not in builders]
    out = judged.mean(gone, metric).copy()
    if later:
        out[builders] -= over_queries(own_changes(judged, metric, gone, later)).mean()
    return out


def shrunk(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """Each builder gets back what its own pairs take, shrunk to the mean as far as that is noise (empirical Bayes)."""
    builders = inside(judged, gone)
    changes = own_changes(judged, metric, gone, list(range(judged.n_models)))
    means = over_queries(changes)
    counts = np.maximum((~np.isnan(changes)).sum(1), 2)
    noise = np.nan_to_num(np.nanvar(changes, axis=1, ddof=1)) / counts
    real = max(float(means.var(ddof=1) - noise.mean()), 0.0) if len(builders) > 1 else 0.0
    share = np.divide(real, real + noise, out=np.zeros(len(means)), where=real + noise > 0)
    out = judged.mean(gone, metric).copy()
    out[builders] -= means.mean() + share * (means - means.mean())
    return out


def both_left_out(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """Each two models compared without the own pairs of both; the mean difference from all others."""
    builders = frozenset(inside(judged, gone))
    differences = np.zeros((judged.n_models, judged.n_models))
    for one in range(judged.n_models):
        for other in range(one):
            values = judged.mean(gone | ({one, other} & builders), metric)
            differences[one, other] = values[one] - values[other]
    return judged.mean(gone, metric).mean() + (differences - differences.T).mean(1)


def equal_terms(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """As `lookalike.discovery.equal_terms`: own pairs are left out only where one of two models has some."""
    builders = inside(judged, gone)
    later = [model for model in range(judged.n_models) if model not in builders]
    full = judged.values(gone, metric)
    out = full.copy()
    for builder in builders:
        left = judged.values(gone | {builder}, metric)
        for model in later:
            change = np.nan_to_num(left[builder] - left[model]) - (full[builder] - full[model])
            out[builder] += change / judged.n_models
            out[model] -= change / judged.n_models
    return over_queries(out)


def weighted(judged: Judged, metric: str, gone: frozenset[int]) -> np.ndarray:
    """Each pair weighs as much as there are other models that proposed it, so that own pairs weigh nothing."""
    return judged.mean(gone, f"weighted {metric}")


def inside(judged: Judged, gone: frozenset[int]) -> list[int]:
    return [builder for builder in judged.builders if builder not in gone]


Estimator = Callable[[Judged, str, frozenset[int]], np.ndarray]
ESTIMATORS: dict[str, Estimator] = {
    "on all pairs": plain,
    "own left out": own_left_out,
    "thinned alike": thinned_alike,
    "given back": given_back,
    "shrunk": shrunk,
    "both left out": both_left_out,
    "equal terms": equal_terms,
}


def numbers() -> Iterator[tuple[str, str, Estimator]]:
    for metric in METRICS:
        for name, estimator in ESTIMATORS.items():
            yield metric, name, estimator
    yield "AUC", "weighted by other proposers", weighted
    for name in ("on all pairs", "own left out", "equal terms"):
        yield "AUC against chance", name, ESTIMATORS[name]


# What the numbers are worth


def judge(
    world: World, builders: list[int], k: int, generator: np.random.Generator
) -> dict[tuple[str, str], dict[str, float]]:
    """For each number: tau, its bias in both senses, and its spread, on one pool."""
    judged = Judged(world, builders, k)
    later = [model for model in range(judged.n_models) if model not in builders]
    left_out = [int(model) for model in generator.permutation(builders)[:3]] if later and len(builders) > 2 else []
    helped = np.isin(np.arange(judged.n_models), builders)
    design = np.stack([np.ones(len(helped)), world.true_ap, world.true_ap**2, helped], axis=1)
    out = {}
    for metric, name, estimator in numbers():
        values = estimator(judged, metric, NONE)
        row = {"tau": float(kendalltau(values, world.true_ap).statistic), "spread": float(values.std())}
        if left_out:
            changes = []
            for model in left_out:
                outside = estimator(judged, metric, frozenset([model]))
                ahead = [found[model] - found[later].mean() for found in (values, outside)]
                changes.append(ahead[0] - ahead[1])
            row["inside"] = float(np.mean(changes))
        if later and len(helped) > 8:
            row["equal"] = float(np.linalg.lstsq(design, values, rcond=None)[0][3])
        out[metric, name] = row
    reference = out["Bpref", "on all pairs"]["tau"]
    for row in out.values():
        row["beside"] = row["tau"] - reference
    return out


def as_the_package(world: World, builders: list[int], k: int) -> None:
    """Raise where the package's numbers on equal terms are not those of this file."""
    judged = Judged(world, builders, k)
    n_models, n_queries, n_items = world.order.shape
    collection = Collection([f"q{n}" for n in range(n_queries)], [f"i{n}" for n in range(n_items)])
    models = {f"m{n}": -world.rank[n].astype(float) for n in range(n_models)}
    pool = Pool.build({f"m{n}": models[f"m{n}"] for n in builders}, collection, k=k)
    grades = world.said[pool.queries, pool.items]
    judgements = Judgements.of([(*pair, int(grade)) for pair, grade in zip(pool.pairs, grades, strict=True)])
    board = leaderboard(models, judgements, collection, pool=pool, metrics="Bpref AUC", resamples=1)
    for metric in ("Bpref", "AUC"):
        ours = equal_terms(judged, metric, NONE)
        if metric == "Bpref":  # a query without positives counts 0 in the package
            ours = ours * (~np.isnan(judged.values(NONE, metric)[0])).mean()
        theirs = [board.equal_terms[name][metric].mean for name in models]
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


# Worlds


def simulated(seed: int, common: float) -> World:
    """16 models: closeness, errors common to all, those of one of four families, and errors of their own."""
    generator = np.random.default_rng(seed)
    shape = (80, 800)
    closeness, shared = (generator.normal(size=shape).astype(np.float32) for _ in range(2))
    families = generator.normal(size=(4, *shape)).astype(np.float32)
    prevalence = (0.005, 0.01, 0.03)[seed % 3] * np.exp(0.7 * generator.normal(size=shape[0]))
    truth = closeness > norm.isf(np.clip(prevalence, 1 / shape[1], 0.3))[:, None]
    scores = []
    for _ in range(16):
        quality, of_family = generator.uniform(0.35, 0.8), generator.uniform(0, (0.3, 0.9)[seed // 2 % 2])
        noise = generator.normal(size=shape).astype(np.float32)
        error = np.sqrt(of_family) * families[generator.integers(4)] + np.sqrt(1 - of_family) * noise
        error = np.sqrt(common) * shared + np.sqrt(1 - common) * error
        scores.append(quality * closeness + np.sqrt(1 - quality**2) * error)
    return World.of(np.array(scores), truth, seed, mistakes=((0.0, 0.0), (0.1, 0.03))[seed % 2])


def features(images: np.ndarray, train: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """About two dozen models of images: pixels, projections, gradients, colours, hashes, and some that saw labels."""
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    generator = np.random.default_rng([seed, 3])
    flat, flat_train = (part.reshape(len(part), -1).astype(np.float32) / part.max() for part in (images, train))
    grey = images.astype(np.float32).mean(3) if images.ndim == 4 else images.astype(np.float32)
    grey = grey / grey.max()
    height, width = grey.shape[1:]
    mean = flat_train.mean(0)
    pca = PCA(min(64, flat.shape[1] - 1), random_state=0).fit(flat_train)
    projected, deviations = pca.transform(flat), np.sqrt(pca.explained_variance_)
    out = {"raw": flat, "centred": flat - mean, "standardised": (flat - mean) / (flat_train.std(0) + 0.05)}
    out |= {f"pca {size}": projected[:, :size] for size in (4, 8, 16, 32)}
    out |= {f"whitened {size}": (projected / deviations)[:, :size] for size in (16, 32)}
    out |= {f"random {size}": (flat - mean) @ generator.normal(size=(flat.shape[1], size)) for size in (16, 64)}
    down, across = np.gradient(grey, axis=(1, 2))
    strength, angle = np.hypot(down, across), np.arctan2(down, across) % np.pi / np.pi
    for cells, bins in ((2, 8), (4, 4), (4, 8)):
        kind = np.minimum((angle * bins).astype(int), bins - 1)
        columns = [
            np.where(kind[:, rows, :][:, :, cols] == one, strength[:, rows, :][:, :, cols], 0).sum((1, 2))
            for rows in np.array_split(np.arange(height), cells)
            for cols in np.array_split(np.arange(width), cells)
            for one in range(bins)
        ]
        out[f"gradients {cells} {bins}"] = np.sqrt(np.stack(columns, 1))
    out["rows and columns"] = np.concatenate([grey.mean(1), grey.mean(2)], 1)
    out["histogram"] = np.stack([((grey >= low) & (grey < low + 0.1)).mean((1, 2)) for low in np.arange(0, 1, 0.1)], 1)
    for size in (100, 300):
        rows = generator.permutation(len(train))[:size]
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.3)
        out[f"lda {size}"] = lda.fit(pca.transform(flat_train[rows]), labels[rows]).transform(projected)
    for name, size in (("LSH", 32), ("ITQ", 32), ("PCAH", 16)):
        hasher = hashers.HASHERS[name](n_bits=size).fit(flat_train)
        out[f"{name} {size}"] = hasher.transform(flat).unpack().astype(np.float32) * 2 - 1
    if images.shape[1] >= 28:
        for name in ("phash", "dhash", *(("colour",) if images.ndim == 4 else ())):
            rows = encoders.load(name).encode(images)
            out[name] = rows - (0.5 if set(np.unique(rows)) <= {0, 1} else 0)
    return out


def labelled(name: str, seed: int) -> World:
    """Images of a data set. Classes have shares of their own, so that queries have few or many similar items."""
    data = la.datasets.load(name)
    images, labels = np.asarray(data.images), np.asarray(data.labels)
    generator = np.random.default_rng([seed, 1])
    order = generator.permutation(len(labels))
    train, queries, rest = order[:600], order[600:700], order[700:]
    weights = np.exp(1.5 * generator.normal(size=labels.max() + 1))[labels[rest]]
    gallery = generator.choice(rest, min(1200, len(rest) // 2), replace=False, p=weights / weights.sum())
    both = np.concatenate([queries, gallery])
    scores = []
    for rows in features(images[both], images[train], labels[train], seed).values():
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        scores.append(np.round(rows[:100] @ rows[100:].T, 5))
    truth = labels[queries][:, None] == labels[gallery]
    return World.of(np.array(scores), truth, seed, mistakes=((0.0, 0.0), (0.08, 0.03))[seed % 2])


def trec(folder: Path, qrels: Path) -> World:
    """Runs and judgements of TREC. Items of a query: those that are judged or that a run lists."""
    grades: dict[str, dict[str, int]] = {}
    for line in qrels.read_text().splitlines():
        query, _, item, grade = line.split()
        grades.setdefault(query, {})[item] = int(grade)
    runs: list[dict[str, dict[str, float]]] = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        run: dict[str, dict[str, float]] = {}
        for line in path.read_text().splitlines():
            query, _, item, _, score, *_ = line.split()
            run.setdefault(query, {})[item] = float(score)
        runs.append(run)
    queries = [query for query in grades if any(query in run for run in runs)]
    items = {
        query: sorted({*grades[query], *(item for run in runs for item in run.get(query, ()))}) for query in queries
    }
    most = max(map(len, items.values()))
    scores = np.full((len(runs), len(queries), most), -np.inf)
    truth = np.zeros((len(queries), most), bool)
    for row, query in enumerate(queries):
        for column, item in enumerate(items[query]):
            truth[row, column] = grades[query].get(item, 0) > 0
            scores[:, row, column] = [run.get(query, {}).get(item, -np.inf) for run in runs]
    return World.of(scores, truth, 0)


def worlds(kind: str, count: int, options: argparse.Namespace) -> Iterator[tuple[int, World, list[int], int]]:
    """Number of the world, the world, who builds its pool, and how deep."""
    runs = trec(options.runs, options.qrels) if kind == "runs" else None
    for seed in range(options.first, options.first + count):
        generator = np.random.default_rng([seed, 5])
        if runs is not None:
            for size in (4, 6, 8):
                yield seed, runs, draw(generator, len(runs.order), size), (10, 20, 50)[seed % 3]
        elif kind in KINDS[4:]:
            world = labelled(kind, seed)
            for size in (3, 5, 8):
                yield seed, world, draw(generator, len(world.order), size), (4, 10, 25)[seed % 3]
        else:
            world = simulated(seed, 0.7 if kind == "alike" else 0.0)
            depth = (10, 20, 40) if kind == "alike" else (4, 8, 16)
            if kind in ("builders", "few"):
                world = world.only(np.array(draw(generator, 16, 6)))
            size = {"builders": 6, "few": 4 + seed % 2}.get(kind, 4 + 2 * (seed % 2))
            yield seed, world, draw(generator, len(world.order), size), depth[seed // 3 % 3]


def draw(generator: np.random.Generator, n: int, size: int) -> list[int]:
    return [int(model) for model in generator.permutation(n)[:size]]


# Tables


def summary(rows: list[tuple[int, dict[str, float]]]) -> dict[str, tuple[float, float]]:
    """Mean and half of the 95 % interval of each figure, over worlds."""
    out = {}
    for name in ("inside", "equal", "tau", "beside", "spread"):
        by_world: dict[int, list[float]] = {}
        for world, row in rows:
            if name in row and not np.isnan(row[name]):
                by_world.setdefault(world, []).append(row[name])
        means = [float(np.mean(found)) for found in by_world.values()]
        if len(means) > 1:
            out[name] = float(np.mean(means)), float(1.96 * np.std(means, ddof=1) / np.sqrt(len(means)))
    return out


def show(kind: str, n_worlds: int, n_pools: int, found: dict[tuple[str, str], dict[str, tuple[float, float]]]) -> None:
    print(f"\n{kind}: {n_worlds} worlds, {n_pools} pools")
    heads = {"inside": "inside − outside", "equal": "equal − equal", "tau": "tau", "beside": "beside Bpref"}
    print(f"{'':37}" + "".join(f"{head:>18}" for head in heads.values()) + f"{'spread':>9}")
    for (metric, name), row in found.items():
        cells = []
        for figure in heads:
            sign = "" if figure == "tau" else "+"
            digits = 4 if figure in ("inside", "equal") else 3
            text = (
                "{:{}.{}f} ± {:.{}f}".format(row[figure][0], sign, digits, row[figure][1], digits)
                if figure in row
                else "–"
            )
            cells.append(f"{text:>18}")
        print(f"{metric + ', ' + name:37}{''.join(cells)}{row['spread'][0]:9.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few worlds: to see that it runs")
    parser.add_argument("--only", nargs="+", choices=[*KINDS, "runs"], default=KINDS)
    parser.add_argument("--runs", type=Path, help="a folder of TREC runs")
    parser.add_argument("--qrels", type=Path, help="their judgements")
    parser.add_argument("--first", type=int, default=0, help="the first seed; worlds from 1000 on chose nothing")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # no query has a value
    packages = ", ".join(f"{name} {version(name)}" for name in ("lookalike", "numpy", "scipy", "scikit-learn"))
    print(f"{datetime.date.today()}, {packages}, Python {platform.python_version()}")
    started, written = time.perf_counter(), {}
    as_the_package(simulated(1, 0.0).only(np.arange(6)), [0, 2, 5], 6)
    for kind in options.only:
        count = (12 if kind in KINDS[4:] else 8 if kind == "runs" else 60) // (6 if options.quick else 1)
        rows: dict[tuple[str, str], list[tuple[int, dict[str, float]]]] = {}
        n_pools = 0
        for seed, world, builders, k in worlds(kind, max(count, 2), options):
            n_pools += 1
            for key, row in judge(world, builders, k, np.random.default_rng([seed, 7])).items():
                rows.setdefault(key, []).append((seed, row))
        found = {key: summary(of_key) for key, of_key in rows.items()}
        show(kind, max(count, 2), n_pools, found)
        written[kind] = {", ".join(key): row for key, row in found.items()}
    print(f"\n{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"made": f"{datetime.date.today()}", "with": packages, **written}, indent=1))


if __name__ == "__main__":
    main()
