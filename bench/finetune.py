"""Does fine-tuning help to find what looks alike, or only to recognise? On emoji, as Barkan et al. 2023 ask.

The gallery is emoji as Google and Twitter draw them, and encoders learn from all of it: identities (which emoji),
categories (99 kinds of emoji), both, or images alone; the tie-aware AP of both is tried beside them. Closed queries are
the images of the gallery itself. Wild queries are the same emoji as Microsoft draws them, which nothing was learned
from. Identification: a query finds other drawings of its emoji. Discovery, with labels as the judge: it finds emoji of
its category that are not its own.

Every run that has ended is kept in --results and not repeated; a run that was ended goes on from its checkpoint. One
thread for each process is used. Printed are 50 epochs; fewer, and few emoji (--identities), are for a quick look.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

import lookalike as la
from lookalike.learning import FinetuneSettings, finetune

METHODS = {
    "before": None,
    "ID": {"labels": "identity"},
    "CAT": {"labels": "category"},
    "ID+C": {"labels": "both"},
    "none": {"labels": "none"},
    "tie-aware AP": {"labels": "both", "objective": "tie-aware-ap"},
}
COLUMNS = [
    f"{part} {what}"
    for part in ("closed", "wild")
    for what in ("identity Hit@1", "identity AP", "category P@5", "category AP")
]


def parts(n_identities: int) -> tuple[la.datasets.Dataset, np.ndarray, np.ndarray]:
    """The data set, rows of the gallery, and rows of wild queries; of some emoji, drawn once for all seeds."""
    emoji = la.datasets.load("emoji:google,twitter,fluent")
    names = np.unique(emoji.identities)
    kept = np.random.default_rng(0).permutation(names)[:n_identities] if n_identities else names
    rows = np.isin(emoji.identities, kept)
    wild = emoji.columns["vendor"] == "fluent"
    return emoji, np.flatnonzero(rows & ~wild), np.flatnonzero(rows & wild)


def figures(encoder, emoji, gallery: np.ndarray, wild: np.ndarray) -> dict[str, float]:
    """Identification and discovery of closed and of wild queries."""
    items, found = encoder.encode(emoji.images[gallery]), {}
    for part, rows in (("closed", gallery), ("wild", wild)):
        queries = items if part == "closed" else encoder.encode(emoji.images[rows])
        numbers = np.unique(emoji.identities, return_inverse=True)[1]
        itself = (rows, gallery)
        result = la.evaluate(
            queries, items, la.same_label(numbers[rows], numbers[gallery]), ["Hit@1", "AP"], exclude=itself,
            undefined="skip",
        )  # fmt: skip
        found |= {f"{part} identity {name}": float(result[name].mean) for name in ("Hit@1", "AP")}
        own = (numbers[rows], numbers[gallery])
        relevance = la.same_label(emoji.labels[rows], emoji.labels[gallery])
        result = la.evaluate(queries, items, relevance, ["P@5", "AP"], exclude=own, undefined="skip")
        found |= {f"{part} category {name}": float(result[name].mean) for name in ("P@5", "AP")}
    return found


def run(arguments, method: str, seed: int, data) -> dict[str, float]:
    """The figures of a method after fine-tuning with a seed."""
    emoji, gallery, wild = data
    encoder = la.encoders.load(arguments.encoder, size=arguments.size)
    if METHODS[method] is None:
        return figures(encoder, emoji, gallery, wild)
    settings = FinetuneSettings(**METHODS[method], epochs=arguments.epochs, validation=0.0, seed=seed)
    checkpoint = arguments.results.with_suffix(f".{method.replace(' ', '-')}-{seed}.pt")
    started = time.process_time()
    tuning = finetune(
        encoder, emoji.images[gallery], identities=emoji.identities[gallery], categories=emoji.labels[gallery],
        settings=settings, checkpoint=checkpoint,
    )  # fmt: skip
    place = arguments.results.with_suffix(f".{method.replace(' ', '-')}-{seed}.lookalike")
    row = figures(tuning.save(place), emoji, gallery, wild)
    checkpoint.unlink()
    return row | {"loss": tuning.history[-1]["loss"], "seconds": time.process_time() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("finetune-results.json"))
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--identities", type=int, default=0, help="how many emoji; 0: all of them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    course = {name: getattr(arguments, name) for name in ("encoder", "size", "epochs", "identities")}
    kept = json.loads(arguments.results.read_text()) if arguments.results.exists() else {"course": course, "runs": {}}
    if kept["course"] != course:
        parser.error(f"{arguments.results} is of {kept['course']}: name another file")
    data = parts(arguments.identities)
    print(f"{platform.machine()}, torch {torch.__version__}, {len(data[1])} images to learn from, {course}")
    for seed in range(arguments.seeds):
        for method in arguments.methods:
            name = f"{method} {seed}"
            if name in kept["runs"] or (seed and METHODS[method] is None):
                continue
            kept["runs"][name] = run(arguments, method, seed, data)
            arguments.results.write_text(json.dumps(kept, indent=1))
            print(name, {key: round(value, 4) for key, value in kept["runs"][name].items()}, flush=True)
    show(kept["runs"], arguments.methods)


def show(runs: dict[str, dict[str, float]], methods: list[str]) -> None:
    """Means over seeds, with the standard deviation where there are several."""
    print("| " + " | ".join(["method", *COLUMNS]) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for method in methods:
        rows = [row for name, row in runs.items() if name.rpartition(" ")[0] == method]
        cells = []
        for column in COLUMNS if rows else ():
            values = [row[column] for row in rows]
            spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.3f}{spread}")
        if rows:
            print("| " + " | ".join([method, *cells]) + " |")


if __name__ == "__main__":
    main()
