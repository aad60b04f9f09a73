"""Real catalogues with labels as the judge, and real models that rank them: what the claims on discovery work on."""

import functools
from dataclasses import dataclass

import numpy as np

from lookalike.core.errors import MissingPackageError
from lookalike.datasets import NAMES
from lookalike.discovery import Collection, Judgements, Pool
from lookalike.experiments.claims.claim import CannotTryError, Run
from lookalike.experiments.claims.material import subset

WANTED = ("digits", "fashion-mnist", "cifar10", "groceries", "emoji")  # those that this version has
FEWEST = 4  # models
READY = ("pixels", "efficientnet-lite0", "phash", "dhash", "colour")  # encoders that need nothing to be fetched
SMALL = ["mobilenet-v2", "alexnet"]  # further networks, whose weights are fetched
SIZE = 112  # pixels that networks see, as EfficientNet-Lite0 does by default
QUICK = {"items": 1500, "queries": 200, "k": 6, "networks": SMALL}
FULL = {"items": 3000, "queries": 500, "k": 6, "networks": [*SMALL, "efficientnet-lite2", "resnet50", "augnet"]}
LARGE = 28  # pixels of a picture that image hashes can be made of

__all__ = ["FULL", "QUICK", "WANTED", "ShownCatalogue", "catalogues"]


@dataclass(frozen=True, eq=False)
class ShownCatalogue:
    """Queries of a catalogue, what real models score each item for each of them, and which pairs are similar."""

    name: str
    collection: Collection
    models: dict[str, np.ndarray]  # scores, (queries, items)
    truth: np.ndarray  # (queries, items) of bool

    def judged(self, pool: Pool) -> Judgements:
        """What labels say of the pairs of a pool."""
        grades = self.truth[pool.queries, pool.items].astype(int)
        ids = np.array(pool.pairs)
        return Judgements(ids[:, 0], ids[:, 1], grades)

    def pool(self, k: int, models: list[str] | None = None, seed: int = 0) -> Pool:
        """The pool of all models, or of some."""
        chosen = self.models if models is None else {name: self.models[name] for name in models}
        return Pool.build(chosen, self.collection, k=k, seed=seed)

    @property
    def prevalence(self) -> float:
        """The true share of positives among all pairs of a query and another item."""
        return float(self.truth.sum() / (self.truth.shape[0] * (self.truth.shape[1] - 1)))

    def true_ap(self, model: str) -> float:
        """AP of a model over the whole truth."""
        order = np.argsort(-self.models[model], axis=1, kind="stable")
        relevant = np.take_along_axis(self.truth, order, 1)
        precision = relevant.cumsum(1) / np.arange(1, order.shape[1] + 1)
        total = relevant.sum(1)
        return float(((relevant * precision).sum(1)[total > 0] / total[total > 0]).mean())


def catalogues(run: Run, seed: int = 0) -> list[ShownCatalogue]:
    """Every catalogue that is there; raises where none is. A query is an item, and does not find itself."""
    found, missing, settings = [], [], run.settings
    for name in WANTED:
        if name not in NAMES:
            continue
        try:
            found.append(_catalogue(name, settings["items"], settings["queries"], tuple(settings["networks"]), seed))
        except (OSError, MissingPackageError) as error:
            missing.append(f"{name}: {error}")
    if not found:
        raise CannotTryError("; ".join(missing))
    return found


@functools.lru_cache(maxsize=16)
def _catalogue(name: str, n_items: int, n_queries: int, networks: tuple[str, ...], seed: int) -> ShownCatalogue:
    dataset = subset(name, n_items)
    rows = np.random.default_rng([seed, 1]).permutation(len(dataset))[:n_queries]
    ids = [f"{name}-{row}" for row in range(len(dataset))]
    collection = Collection([ids[row] for row in rows], ids)
    truth = dataset.labels[rows][:, None] == dataset.labels[None, :]
    truth[np.arange(len(rows)), rows] = False
    models = {title: _scores(vectors, rows) for title, vectors in _vectors(dataset, networks).items()}
    if len(models) < FEWEST:
        raise MissingPackageError(f"only {', '.join(models)} can run here", package="torch", extra="learn")
    return ShownCatalogue(name, collection, models, truth)


def _vectors(dataset: "object", networks: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The embeddings of each model that can run, without what does not vary."""
    from lookalike.encoders import features, load
    from lookalike.hashers import make

    images = dataset.images  # type: ignore[attr-defined]
    found: dict[str, np.ndarray] = {}
    for name in READY:
        if min(images.shape[1:3]) < LARGE and name not in ("pixels", "efficientnet-lite0"):
            continue  # an image hash of 8 × 8 pixels is the pixels
        if images.ndim == 3 and name == "colour":
            continue
        try:
            found[name] = features(dataset, load(name)).astype(np.float32)  # type: ignore[arg-type]
        except MissingPackageError:
            continue
    for name in networks if min(images.shape[1:3]) >= LARGE else ():
        found[name] = features(dataset, load(name, size=SIZE)).astype(np.float32)  # type: ignore[arg-type]
    pixels = found["pixels"]
    found["PCAH-32 of pixels"] = _signs(make("PCAH", min(32, pixels.shape[1] // 2), 0), pixels)
    network = found.get("efficientnet-lite0")
    if network is not None:
        found["ITQ-64 of efficientnet-lite0"] = _signs(make("ITQ", 64, 0), network)
        found["LSH-128 of efficientnet-lite0"] = _signs(make("LSH", 128, 0), network)
    return found


def _signs(hasher: object, vectors: np.ndarray) -> np.ndarray:
    codes = hasher.fit(vectors).transform(vectors)  # type: ignore[attr-defined]
    return 2.0 * codes.unpack().astype(np.float32) - 1


def _scores(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Cosines of queries and all items, rounded so that equal ones tie."""
    centred = vectors - vectors.mean(0) if set(np.unique(vectors[:50])) <= {0, 1} else vectors
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    return np.round(unit[rows] @ unit.T, 6).astype(np.float64)
