"""Claim: fine-tuning by identity solves identification and does not help discovery."""

import functools
import math
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.datasets import load
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run, mean_of

GALLERY, WILD = ("google", "fluent"), "twitter"  # who draws the catalogue, and the queries from elsewhere
BEFORE = "pretrained"
VARIANTS = {"ID": "identity", "CAT": "category", "ID+C": "both", "FT": "none"}
TASKS = ("identification", "closed", "wild")
PRINTED = {  # HR@5 of table 4, Argus; micro AUC of tables 5 and 6, DINO
    ("identification", BEFORE): 0.152, ("identification", "ID"): 0.999, ("identification", "ID+C"): 0.998,
    ("closed", BEFORE): 0.704, ("closed", "ID"): 0.688, ("closed", "CAT"): 0.710, ("closed", "ID+C"): 0.719,
    ("closed", "FT"): 0.692, ("wild", BEFORE): 0.708, ("wild", "FT"): 0.718,
}  # fmt: skip

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """Identification and discovery of an encoder before and after each kind of fine-tuning, paired over queries."""
    values: dict[str, dict[str, np.ndarray]] = {}
    for name in (BEFORE, *VARIANTS):
        seeds = run.settings["seeds"][:1] if name == BEFORE else run.settings["seeds"]
        kept = [_kept(run, name, seed) for seed in seeds]
        values[name] = {task: np.mean([np.array(each[task], float) for each in kept], axis=0) for task in TASKS}
    for task in TASKS:
        group = "Identification, HR@5" if task == "identification" else f"AUC, {task} queries"
        for name in values:
            printed = PRINTED.get((task, name), math.nan)
            yield mean_of(f"{name}, {task}", values[name][task], printed=printed, group=group)
        for name in VARIANTS:
            yield mean_of(f"{name} less {BEFORE}, {task}", values[name][task] - values[BEFORE][task])


def _kept(run: Run, name: str, seed: int) -> dict[str, list[float]]:
    settings = run.settings
    sizes = " ".join(f"{key}={settings[key]}" for key in ("emoji", "size", "epochs", "local_crops"))
    return dict(run.keep(f"finetuned emoji {sizes} {name} seed={seed}", lambda: _tried(settings, name, seed)))


def _tried(settings: Mapping[str, Any], name: str, seed: int) -> dict[str, list[float]]:
    """Fine-tune on the catalogue's own images, and search it for each query."""
    from lookalike.encoders import EfficientNetLite0
    from lookalike.learning import FinetuneSettings, finetune
    from lookalike.learning.cost import one_thread

    drawings = {vendor: load(f"emoji:{vendor}") for vendor in (*GALLERY, WILD)}
    first, shown = drawings[GALLERY[0]], {v: np.asarray(each.identities) for v, each in drawings.items()}
    drawn_by_all = functools.reduce(np.intersect1d, shown.values())
    emoji = np.random.default_rng(0).permutation(drawn_by_all)[: settings["emoji"]]
    rows = {vendor: np.array([np.flatnonzero(ids == name)[0] for name in emoji]) for vendor, ids in shown.items()}
    images = np.concatenate([drawings[vendor].images[rows[vendor]] for vendor in GALLERY])
    elsewhere = drawings[WILD].images[rows[WILD]]
    categories = np.tile(np.asarray(first.coarse)[rows[GALLERY[0]]], len(GALLERY))
    identities = np.tile(emoji, len(GALLERY))
    encoder: Any = EfficientNetLite0(size=settings["size"])
    with one_thread():
        if name != BEFORE:
            chosen = FinetuneSettings(
                labels=VARIANTS[name], epochs=settings["epochs"], local_crops=settings["local_crops"], validation=0.0,
                seed=seed,
            )  # fmt: skip
            tuned = finetune(encoder, images, identities=identities, categories=categories, settings=chosen)
            with tempfile.TemporaryDirectory() as folder:
                encoder = tuned.save(Path(folder) / "tuned.lookalike")
                gallery, wild = encoder.encode(images), encoder.encode(elsewhere)
        else:
            gallery, wild = encoder.encode(images), encoder.encode(elsewhere)
    return _searched(gallery, wild, len(emoji), np.asarray(first.labels)[rows[GALLERY[0]]])


def _searched(gallery: np.ndarray, wild: np.ndarray, n: int, classes: np.ndarray) -> dict[str, list[float]]:
    """Of each query: whether its other drawing is in the top 5, and AUC of its subcategory among other emoji."""
    unit, outside = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (gallery, wild))
    closed = unit[:n] @ unit.T
    closed[np.arange(n), np.arange(n)] = -np.inf
    other = closed[np.arange(n), n + np.arange(n)]
    hits = (closed > other[:, None]).sum(1) < 5
    return {
        "identification": hits.astype(float).tolist(),
        "closed": _areas(closed, n, classes),
        "wild": _areas(outside @ unit.T, n, classes),
    }


def _areas(scores: np.ndarray, n: int, classes: np.ndarray) -> list[float]:
    """AUC of each query over the emoji that are not its own; nan where its subcategory has no other."""
    from scipy.stats import rankdata

    owners, of_items = np.tile(np.arange(n), len(GALLERY)), np.tile(classes, len(GALLERY))
    areas = []
    for query in range(n):
        others = owners != query
        relevant = of_items[others] == classes[query]
        positives, negatives = int(relevant.sum()), int((~relevant).sum())
        ranks = rankdata(scores[query, others])
        area = (ranks[relevant].sum() - positives * (positives + 1) / 2) / max(positives * negatives, 1)
        areas.append(float(area) if positives and negatives else math.nan)
    return areas


def judge(numbers: Numbers) -> list[Check]:
    """Identification is solved by ID; discovery is not helped by ID; CAT hurts wild queries, and FT helps them."""
    solved, raised = numbers["ID, identification"].value, numbers[f"ID less {BEFORE}, identification"].low > 0
    return [
        Check("ID raises identification", raised),
        Check("ID solves it (0.99 and more)", solved >= 0.99),
        Check("ID does not help discovery in the catalogue", numbers[f"ID less {BEFORE}, closed"].low <= 0),
        Check("CAT hurts wild queries", numbers[f"CAT less {BEFORE}, wild"].high < 0),
        Check("FT helps wild queries", numbers[f"FT less {BEFORE}, wild"].low > 0),
    ]


CLAIM = PaperClaim(
    name="fine-tuning",
    title="Fine-tuning by identity solves identification, not discovery",
    paper="Barkan et al. 2023",
    place="sections 6.4 and 6.5, tables 4, 5 and 6",
    says="ID reaches 99.9 % in identification and does not help discovery; CAT hurts wild queries, FT helps them.",
    protocol=(
        "EfficientNet-Lite0 fine-tuned on the catalogue's own images by identity, by category, by both and without "
        "labels, against the pretrained one. Identification: the other drawing in the top 5. Discovery: AUC of emoji "
        "of the same subcategory among all others, for queries of the catalogue and of a vendor that it lacks."
    ),
    data="emoji as Google and Fluent draw them; wild queries are Twitter's",
    criterion=(
        "Paired intervals over queries: ID raises identification, to 0.99 or more; closed AUC of ID is not raised; "
        "wild AUC falls by CAT and rises by FT."
    ),
    settings={
        "quick": {"emoji": 150, "size": 64, "epochs": 6, "local_crops": 1, "seeds": [0]},
        "full": {"emoji": 1834, "size": 96, "epochs": 50, "local_crops": 4, "seeds": [0, 1, 2]},
    },
    measure=measure,
    judge=judge,
)
