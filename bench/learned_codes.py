"""How good are codes that are learned from labels, against hashers that see none, on CIFAR-10?

Four questions, each a part of its own (--only heads, finetune, dispersion or buffers):

heads       Embeddings of EfficientNet-Lite0, setting 1 (1,000 queries, 5,000 training images, 59,000 in the gallery), a
            head of 512 hidden units and a linear one, 12 to 48 bits: ranking losses, pairwise losses, a classifier's
            sign bits, an untrained head, and the hashers that need no labels. Five seeds. Settings were chosen by
            --only tune, on a fifth of the training images that was held out; queries were not looked at. One method
            also learns from the mirror images of the training images.
finetune    The encoder itself, trained with the tie-aware AP loss on four heads at once, one for each length.
dispersion  Three convolutions and two dense layers on pixels, setting 2 (10,000 queries; of the 50,000 other images,
            --images): deep supervised hashing with and without dispersion, figures over the epochs.
buffers     The same losses with other margins, other distances within a class and five times the epochs, on a head of
            512 units over embeddings, setting 1: which of these decides what dispersion does?

Every run that has ended is kept in --results and not repeated. Use one thread for each process.
"""

import argparse
import functools
import json
import os
import platform
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

import lookalike as la
from lookalike.encoders.cached_features import features
from lookalike.hashers import FIGURE_1, make
from lookalike.learning import LearnedHasher, Settings, losses, train
from lookalike.learning.augment import flip_and_shift_pictures
from lookalike.learning.networks import convolutions
from lookalike.learning.training import activations, batches

LENGTHS = (12, 24, 32, 48)
SEEDS = range(5)
METRICS = ["AP", "LGAP@0", "LGAP@1", "LGAP@2", "LGAP@3"]
PUBLISHED = {
    "fixed alpha": (0.732, 0.789, 0.800, 0.826),
    "growing alpha": (0.751, 0.804, 0.813, 0.830),
}  # He et al. 2018

SHARED = {"epochs": 30, "batch_size": 250, "together": 10, "weight_decay": 2e-3, "input_dropout": 0.5}
HEADS = {"512 units": {"network": "two-layer", "hidden": 512, "dropout": 0.7}, "linear": {"network": "linear"}}
# Learning rates and alphas of each method that --only tune tries.
RATES = (1e-3, 3e-3)
ALPHAS = {
    "tie-aware AP": [{"alpha": 1.0}, {"alpha": 2.0}],
    "tie-aware AP, growing": [{"alpha": 0.7, "alpha_end": 3.0}, {"alpha": 1.0, "alpha_end": 10.0}],
    "tie-aware DCG": [{"alpha": 1.0}, {"alpha": 2.0}],
    "DSH": [{}],
    "cross-entropy": [{}],
}
MIRRORED = "tie-aware AP, mirrored images too"
LOSS = {
    "tie-aware AP": "tie-aware-ap",
    "tie-aware AP, growing": "tie-aware-ap",
    "tie-aware DCG": "tie-aware-dcg",
    "DSH": "dsh",
    "cross-entropy": "cross-entropy",
    MIRRORED: "tie-aware-ap",
}
# What it chose, for each head and method, at 32 bits.
CHOSEN: dict[tuple[str, str], dict[str, float]] = {
    ("512 units", "tie-aware AP"): {"learning_rate": 0.003, "alpha": 1.0},
    ("512 units", "tie-aware AP, growing"): {"learning_rate": 0.003, "alpha": 1.0, "alpha_end": 10.0},
    ("512 units", "tie-aware DCG"): {"learning_rate": 0.003, "alpha": 2.0},
    ("512 units", "DSH"): {"learning_rate": 0.003},
    ("512 units", "cross-entropy"): {"learning_rate": 0.001},
    ("512 units", MIRRORED): {"learning_rate": 0.003, "alpha": 1.0, "batch_size": 500},
    ("linear", "tie-aware AP"): {"learning_rate": 0.003, "alpha": 1.0},
    ("linear", "tie-aware AP, growing"): {"learning_rate": 0.003, "alpha": 0.7, "alpha_end": 3.0},
    ("linear", "tie-aware DCG"): {"learning_rate": 0.003, "alpha": 1.0},
    ("linear", "DSH"): {"learning_rate": 0.003},
    ("linear", "cross-entropy"): {"learning_rate": 0.001},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(PARTS), required=True)
    parser.add_argument("--results", type=Path, default=Path("learned-codes"))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--epochs", type=int, help="of finetune and dispersion")
    parser.add_argument("--runs", nargs="*", help="of dispersion: only these")
    parser.add_argument("--bits", type=int, nargs="*", help="of dispersion: only these lengths")
    parser.add_argument("--rate", type=float, default=1e-3, help="of dispersion: the learning rate")
    parser.add_argument(
        "--images", type=int, default=50_000, help="of dispersion: how many are learned from and searched"
    )
    parser.add_argument("--every", type=int, default=1, help="of dispersion: epochs between evaluations")
    parser.add_argument("--size", type=int, default=96, help="of finetune: the images' height and width")
    parser.add_argument("--threads", type=int, default=1, help="of finetune")
    options = parser.parse_args()
    options.results.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    print(
        f"{datetime.now(UTC):%Y-%m-%d} lookalike {la.__version__}, torch {torch.__version__}, numpy {np.__version__}, ",
        end="",
    )
    print(f"Python {platform.python_version()}, {platform.machine()}, one thread", flush=True)
    PARTS[options.only](options)


class Embedded:
    """CIFAR-10 by its embeddings, setting 1."""

    def __init__(self) -> None:
        self.data = la.datasets.load("cifar10")
        self.split = self.data.split(1)
        self.encoder = la.encoders.load("efficientnet-lite0")
        self.rows = features(self.data, self.encoder)
        self.training, self.labels = self.rows[self.split.training], self.data.labels[self.split.training]
        self.relevance = la.same_label(self.data.labels[self.split.queries], self.data.labels[self.split.gallery])

    @functools.cached_property
    def with_mirrored(self) -> tuple[np.ndarray, np.ndarray]:
        """Training images and their mirror images, and the labels of both."""
        images = self.data.images[self.split.training][:, :, ::-1]
        mirrored = la.datasets.Dataset("cifar10-mirrored", images, self.labels, self.data.classes)
        rows = features(mirrored, self.encoder)
        return np.concatenate([self.training, rows]), np.concatenate([self.labels, self.labels])

    def tried(self, hasher, mirrored: bool = False) -> dict:
        """Fit a hasher on the training images; figures of its codes."""
        X, y = self.with_mirrored if mirrored else (self.training, self.labels)
        started = time.perf_counter()
        hasher.fit(X, y)
        more = {"seconds": time.perf_counter() - started}
        if isinstance(hasher, LearnedHasher):
            more["losses"] = hasher.losses_.round(5).tolist()
        queries, gallery = (hasher.transform(self.rows[part]) for part in (self.split.queries, self.split.gallery))
        return scored(queries, gallery, self.relevance, **more)


def scored(queries, gallery, relevance, **more) -> dict:
    result = la.evaluate(queries, gallery, relevance, METRICS)
    ap, used = result["AP"], la.usage(gallery).row()
    return {
        "mAP": ap.mean, "best": ap.best, "worst": ap.worst, **{name: result[name].mean for name in METRICS[1:]},
        "utilisation": used["possible_utilisation"], "entropy": used["entropy"], **more,
        "per_query": np.round(ap.per_query, 6).tolist(),
    }  # fmt: skip


def slug(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


def kept(results: Path, name: str, run) -> dict:
    """What a run gave, now or before."""
    path = results / f"{slug(name)}.json"
    if not path.is_file():
        la.files.write_text(path, json.dumps(run()))
        found = json.loads(path.read_text())
        local, seconds = found.get("LGAP@2", np.nan), found.get("seconds", 0)
        print(f"{name}: mAP {found['mAP']:.4f}  mLGAP@2 {local:.4f}  {seconds:.0f} s", flush=True)
    return json.loads(path.read_text())


def tune(options) -> None:
    """Held-out mAP: 1,000 of the 5,000 training images search each other after the other 4,000 were learned from."""
    data = Embedded()
    for head, shape in HEADS.items():
        for method, alphas in ALPHAS.items():
            found = []
            for change in ({"learning_rate": rate, **alpha} for rate in RATES for alpha in alphas):
                settings = SHARED | shape | {"loss": LOSS[method]} | change
                hasher = LearnedHasher(32, **settings, validation=0.2, random_state=100)
                shown = " ".join(f"{name}={value}" for name, value in change.items())
                figures = kept(
                    options.results, f"tune {head} {method} {shown}", partial(held_out_figures, data, hasher)
                )
                found.append((figures["mAP"], change))
            print(f"chosen for {head}, {method}: {max(found, key=lambda pair: pair[0])}", flush=True)


def held_out_figures(data, hasher) -> dict:
    started = time.perf_counter()
    hasher.fit(data.training, data.labels)
    seconds = time.perf_counter() - started
    return {"mAP": hasher.scores_[-1], "best": hasher.scores_.max(), "epoch": hasher.best_epoch_, "seconds": seconds}


def heads(options) -> None:
    data = Embedded()
    budget = f"{SHARED['epochs']} epochs of 5,000 images"
    print(f"heads: {len(LOSS)} methods × {len(HEADS)} heads × {len(LENGTHS)} lengths × {len(SEEDS)} seeds, {budget}")
    untrained = {"epochs": 1, "learning_rate": 1e-12, "weight_decay": 0.0}
    learned = {f"{head} untrained": SHARED | shape | untrained for head, shape in HEADS.items()}
    for (head, method), settings in CHOSEN.items():
        learned[f"{head} {method}"] = SHARED | HEADS[head] | {"loss": LOSS[method]} | settings
    for seed in options.seeds:
        for n_bits in LENGTHS:
            for name, settings in learned.items():
                hasher = LearnedHasher(n_bits, **settings, random_state=seed)
                tried = partial(data.tried, hasher, mirrored=MIRRORED in name)
                kept(options.results, f"heads {name} {n_bits} {seed}", tried)
            for name in FIGURE_1 if seed == 0 else ():
                kept(
                    options.results, f"heads none {name} {n_bits} {seed}", partial(data.tried, make(name, n_bits, seed))
                )


class FourHeads(torch.nn.Module):
    """An encoder with a head for each length of codes; its activations are side by side."""

    def __init__(self, encoder: torch.nn.Module, n_features: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.norm = torch.nn.BatchNorm1d(n_features, affine=False)
        self.heads = torch.nn.ModuleList(torch.nn.Linear(n_features, n_bits) for n_bits in LENGTHS)

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        embedded = self.norm(self.encoder(pictures))
        return [head(embedded) for head in self.heads]


def finetune(options) -> None:
    """The loss of a batch is the sum over the heads; the budget is a number of epochs of the 5,000 training images."""
    epochs = options.epochs or 8
    encoder = la.encoders.EfficientNetLite0(size=options.size)
    data = la.datasets.load("cifar10")
    split = data.split(1)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    network = FourHeads(encoder.network(), encoder.n_features).to(memory_format=torch.channels_last)
    body, new = list(network.encoder.parameters()), list(network.heads.parameters())
    optimizer = torch.optim.AdamW([{"params": body, "lr": 3e-4}, {"params": new, "lr": 1e-3}], weight_decay=0.05)
    steps = epochs * -(-len(split.training) // 125)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [3e-4, 1e-3], steps, pct_start=0.15)
    labels = data.labels[split.training]
    pictures = encoder.preprocess(data.images[split.training])
    started = time.perf_counter()
    print(
        f"finetune: {epochs} epochs of {len(labels):,} images at {options.size} px, batches of 125, four heads at once",
        flush=True,
    )
    for epoch in range(epochs):
        network.train()
        total = []
        for rows in batches(labels, 125, 5, epoch):
            changed = flip_and_shift_pictures(pictures[torch.from_numpy(rows)])
            outputs = network(changed.contiguous(memory_format=torch.channels_last))  # twice as fast
            loss = sum(losses.tie_aware_ap(f, labels[rows], alpha=1.0) for f in outputs) / len(LENGTHS)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(total):.4f}, {time.perf_counter() - started:.0f} s", flush=True)
    trained = time.perf_counter() - started
    network.eval()
    outputs = [[] for _ in LENGTHS]
    with torch.inference_mode():
        for start in range(0, len(data), 250):
            for kept_outputs, output in zip(
                outputs, network(encoder.preprocess(data.images[start : start + 250])), strict=True
            ):
                kept_outputs.append(output.numpy() > 0)
    relevance = la.same_label(data.labels[split.queries], data.labels[split.gallery])
    for n_bits, bits in zip(LENGTHS, outputs, strict=True):
        codes = la.Codes.pack(np.concatenate(bits))
        about = {"seconds": trained, "epochs": epochs, "size": options.size}
        found = scored(codes[split.queries], codes[split.gallery], relevance, **about)
        kept(options.results, f"finetune {n_bits} {options.size}px {epochs} epochs", lambda found=found: found)


# A name, the loss, its options; margins are in L1 distance, which is twice the number of bits that differ.
RUNS = {
    "DSH": ("dsh", {}),
    "dispersed": ("dispersed-dsh", {}),
    "dispersed, printed margin": ("dispersed-dsh", {"margin": "printed"}),
    "hierarchy": ("dispersed-dsh-hierarchy", {}),
}


def dispersion(options) -> None:
    epochs = options.epochs or 10
    data = la.datasets.load("cifar10")
    split = data.split(2)
    learned = np.sort(np.random.default_rng(0).permutation(split.training)[: options.images])
    X, queries = data.pixels(learned), data.pixels(split.queries)
    vehicle = np.isin(data.labels, [data.classes.index(name) for name in ("airplane", "automobile", "ship", "truck")])
    by_class, by_kind = (la.same_label(y[split.queries], y[learned]) for y in (data.labels, vehicle))
    print(f"dispersion: {epochs} epochs of {len(X):,} images, Adam, batches of 200, each run seeded with 0", flush=True)
    for n_bits in options.bits or (12, 24):
        for name, (loss, settings) in RUNS.items():
            if options.runs and name not in options.runs:
                continue

            def run(name=name, n_bits=n_bits, loss=loss, settings=settings) -> dict:
                torch.manual_seed(0)
                network = convolutions(n_bits, (32, 32, 3))
                curve, started = [], time.perf_counter()

                def watch(figures) -> None:
                    if figures["epoch"] % options.every:
                        return
                    codes = [la.Codes.pack(activations(network, part) > 0) for part in (queries, X)]
                    found = scored(*codes, by_class)
                    found["mAP of kinds"] = la.evaluate(*codes, by_kind, ["AP"])["AP"].mean
                    del found["per_query"]
                    curve.append({**figures, **found, "epoch": figures["epoch"]})
                    local = " ".join(f"{found[f'LGAP@{r}']:.4f}" for r in range(4))
                    told = f"loss {figures['loss']:.3f}, mAP {found['mAP']:.4f}, of kinds {found['mAP of kinds']:.4f}"
                    used = f"mLGAP@0-3 {local}, utilisation {found['utilisation']:.4f}"
                    print(f"  {name} {n_bits} bits, epoch {figures['epoch']}: {told}, {used}", flush=True)

                y = data.labels[learned]
                if loss == "dispersed-dsh-hierarchy":
                    y = np.stack([y, vehicle[learned]], 1)
                chosen = Settings(loss=loss, options=settings, epochs=epochs, batch_size=200, together=10,
                                  learning_rate=options.rate, weight_decay=0.0, schedule="steps")  # fmt: skip
                train(
                    network,
                    X,
                    y,
                    chosen,
                    watch=watch,
                    checkpoint=options.results / f"{name}-{n_bits}-{epochs}-{len(X)}.pt",
                )
                return {**curve[-1], "curve": curve, "seconds": time.perf_counter() - started}

            kept(options.results, f"dispersion {name} {n_bits} {epochs} epochs {len(X)} images", run)


# Margin, and the least and the largest distance within a class, in parts of the number of bits. A bit that differs is 4
# in the squared distance of DSH and 2 in the other.
BUFFERS = {
    "DSH, half the bits apart": ("dsh", {"margin": 2}),
    "DSH, all bits apart": ("dsh", {"margin": 4}),
    "dispersed, half the bits apart": ("dispersed-dsh", {"margin": 1, "near": 1 / 6, "far": 1 / 3}),
    "dispersed, all bits apart": ("dispersed-dsh", {"margin": 2, "near": 1 / 6, "far": 1 / 3}),
    "dispersed half as far": ("dispersed-dsh", {"margin": 1, "near": 1 / 12, "far": 1 / 6}),
    "dispersed twice as far": ("dispersed-dsh", {"margin": 1, "near": 1 / 3, "far": 2 / 3}),
}

LONGER = ["DSH, half the bits apart", "dispersed, half the bits apart", "dispersed, all bits apart"]


def buffers(options) -> None:
    data = Embedded()
    for n_bits in options.bits or (12, 24):
        for epochs, names in ((30, list(BUFFERS)), (150, LONGER)):
            for name in names:
                loss, parts = BUFFERS[name]
                sizes = {option: part * n_bits for option, part in parts.items()}
                settings = SHARED | HEADS["512 units"] | {"loss": loss, "options": sizes, "epochs": epochs}
                hasher = LearnedHasher(n_bits, **settings, learning_rate=0.003, random_state=0)
                title = f"buffers {name} {n_bits} bits {epochs} epochs"
                found = kept(options.results, title, partial(data.tried, hasher))
                local = " ".join(f"{found[f'LGAP@{r}']:.4f}" for r in range(4))
                print(f"| {name} | {n_bits} | {epochs} | {found['mAP']:.4f} | {local} | {found['utilisation']:.4f} |")


def tables(options) -> None:
    """What --results holds, as the tables in the docs."""
    runs = {path.stem: json.loads(path.read_text()) for path in sorted(options.results.glob("*.json"))}
    groups = {head: [f"{head} {method}" for method in (*LOSS, "untrained")] for head in HEADS}
    groups["no labels"] = [f"none {name}" for name in FIGURE_1]
    print(
        "\nmAP: mean of the seeds (standard deviation); worst to best that ties could make of it; mLGAP@2; codes used"
    )
    for group, names in groups.items():
        print(f"\n| {group} | " + " | ".join(f"{n_bits} bits" for n_bits in LENGTHS) + " | seconds |")
        print("|---|" + "---|" * (len(LENGTHS) + 1))
        for name in names:
            found = [[run_of(runs, name, n_bits, seed) for seed in SEEDS] for n_bits in LENGTHS]
            if not all(all(of_length) for of_length in found):
                continue
            cells = [
                f"**{mean(of_length, 'mAP'):.4f}** ({np.std([run['mAP'] for run in of_length], ddof=1):.4f}) "
                f"{mean(of_length, 'worst'):.3f}–{mean(of_length, 'best'):.3f}; {mean(of_length, 'LGAP@2'):.4f}; "
                f"{mean(of_length, 'utilisation'):.3f}"
                for of_length in found
            ]
            seconds = mean([run for of_length in found for run in of_length], "seconds")
            print(f"| {name.removeprefix(group).removeprefix('none').strip()} | {' | '.join(cells)} | {seconds:.0f} |")
    for ours in ("512 units tie-aware AP", "512 units tie-aware AP, growing"):
        compared(ours, [name for names in groups.values() for name in names], runs)
    for name, run in runs.items():
        if name.startswith(("finetune", "dispersion")):
            local = " ".join(f"{run[f'LGAP@{r}']:.4f}" for r in range(4))
            more = f"mLGAP@0-3 {local}, utilisation {run['utilisation']:.4f}, {run['seconds']:.0f} s"
            print(f"{name}: mAP {run['mAP']:.4f} ({run['worst']:.4f} to {run['best']:.4f}), {more}")


def compared(ours: str, others: list[str], runs: dict) -> None:
    """Differences of mAP over the 1,000 queries, paired: the mean of the seeds, the smallest of them, the largest p."""
    from scipy.stats import ttest_rel

    print(f"\n| {ours} less | " + " | ".join(f"{n_bits} bits" for n_bits in LENGTHS) + " |")
    print("|---|" + "---|" * len(LENGTHS))
    for other in others:
        cells = []
        for n_bits in LENGTHS:
            pairs = [[run_of(runs, name, n_bits, seed).get("per_query") for name in (ours, other)] for seed in SEEDS]
            if other == ours or not all(all(pair) for pair in pairs):
                break
            differences = np.array([np.subtract(*pair) for pair in pairs])
            worst_p = max(ttest_rel(*pair).pvalue for pair in pairs)
            of_queries = differences.mean(0)
            half = 1.96 * of_queries.std(ddof=1) / np.sqrt(len(of_queries))
            per_seed = differences.mean(1)
            seeds = f"seeds {per_seed.min():+.4f} to {per_seed.max():+.4f}, p {worst_p:.0e}"
            cells.append(f"{of_queries.mean():+.4f} ± {half:.4f} ({seeds})")
        else:
            print(f"| {other.removeprefix('none ')} | {' | '.join(cells)} |")


def run_of(runs: dict, name: str, n_bits: int, seed: int) -> dict:
    """A run; hashers without labels were tried with one seed."""
    return runs.get(slug(f"heads {name} {n_bits} {0 if name.startswith('none') else seed}"), {})


def mean(found: list[dict], name: str) -> float:
    return float(np.mean([run[name] for run in found]))


PARTS = {
    "tune": tune, "heads": heads, "finetune": finetune, "dispersion": dispersion, "buffers": buffers, "tables": tables,
}  # fmt: skip

if __name__ == "__main__":
    main()
