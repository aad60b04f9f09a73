"""Files in the form of the released benchmark, with several images of a product, and models of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from reference.released_benchmark import ReleasedTask

NAMES = {  # what our leaderboard calls the columns that the released code prints
    "HR@5": "VSDHR@5",
    "HR@9": "VSDHR@9",
    "MRR@5": "VSDMRR@5",
    "MRR@9": "VSDMRR@9",
    "ROC-AUC": "AUC(average='micro')",
    "PR-AUC": "PRAUC(average='micro')",
}


def released_task(
    wild: bool, seed: int = 0, *, n_products: int = 40, n_seeds: int = 12
) -> tuple[ReleasedTask, dict[str, np.ndarray]]:
    """A task with 1 to 4 images of a product, and a vector of each image.

    Wild: consumers' photographs have the phase "query", and look more like each other than like the shop's images.
    Closed: queries are of any phase, and some pairs are annotated in both orders, with equal and other values.
    """
    rng = np.random.default_rng(seed)
    images, vectors = [], {}
    styles = rng.normal(size=(8, 12))
    photograph = rng.normal(size=12)
    for product in range(n_products):
        of_product = styles[product % 8] + 0.7 * rng.normal(size=12)
        for view in range(rng.integers(1, 5)):
            phase = (
                "query"
                if wild and view == 1
                else str(rng.choice(["gallery"] if wild else ["train", "query", "gallery"]))
            )
            path = f"img/id_{product:03}/{view:02}_{phase}.jpg"
            images.append({"id": f"id_{product:03}", "path": path, "phase": phase})
            vectors[path] = of_product + 0.5 * rng.normal(size=12) + (0.6 * photograph if phase == "query" else 0)
    manifest = [entry["path"] for entry in images if rng.random() < 0.9]
    phases = {entry["path"]: entry["phase"] for entry in images}
    seeds = [path for path in manifest if not wild or phases[path] == "query"]
    seeds = [str(path) for path in rng.choice(seeds, min(n_seeds, len(seeds)), replace=False)]
    task = ReleasedTask(
        {"images": images}, [], {"seeds": seeds}, {"images": [{"path": path} for path in manifest]},
        ("gallery",) if wild else None,
    )  # fmt: skip
    return _annotated(task, vectors, rng), vectors


def _annotated(task: ReleasedTask, vectors: dict[str, np.ndarray], rng: np.random.Generator) -> ReleasedTask:
    """The same task with annotations of what two noisy models rank first, repeats and both orders."""
    products, gallery = task.products, task.gallery
    tags: dict[tuple[str, str], int] = {}
    for query in task.queries:
        for noise in (0.2, 1.0):
            scores = {
                path: float(vectors[query] @ (vectors[path] + noise * rng.normal(size=12)))
                for path in gallery
                if products[path] != products[query]
            }
            for path in sorted(scores, key=lambda path: -scores[path])[:7]:
                same = int(products[path][-3:]) % 8 == int(products[query][-3:]) % 8
                tags[query, path] = int(same != (rng.random() < 0.2))
    for (query, item), value in list(tags.items()):
        if item in task.queries and (item, query) not in tags and query in gallery:
            tags[item, query] = int(value != (rng.random() < 0.5))  # the other order, with the same value or another
    rows = [{"key": list(pair), "value": value} for pair, value in tags.items()]
    rows += rows[:5]  # said twice
    return ReleasedTask(task.metadata, rows, task.seeds, task.manifest, task.gallery_phases)


def write_task(folder: Path, task: ReleasedTask, vectors: dict[str, np.ndarray]) -> Path:
    """Write metadata, seeds, manifest and annotations; and the model's vectors of items and of queries with ids."""
    folder.mkdir(exist_ok=True)
    files: dict[str, Any] = {
        "metadata": task.metadata, "seeds": task.seeds, "manifest": task.manifest, "annotations": task.annotations
    }  # fmt: skip
    for name, content in files.items():
        if content is not None:
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    for name, paths in (("items", task.gallery), ("queries", task.queries)):
        np.savez(folder / f"{name}.npz", embeddings=np.array([vectors[path] for path in paths]), ids=np.array(paths))
    return folder


def in_digits(number: Any) -> str:
    """A share as the released code prints it: times 100, with six decimals."""
    return f"{100 * float(number):.6f}"
