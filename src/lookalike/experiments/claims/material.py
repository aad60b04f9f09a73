"""What several claims work on: images with embeddings, codes of them, and heads that are trained on them."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.datasets import Dataset, Split, load
from lookalike.evaluation.code_space import usage, within_class_correlation
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import Relevance, same_label
from lookalike.experiments.claims.claim import Run
from lookalike.hashers import make

VEHICLES = ("airplane", "automobile", "ship", "truck")
LGAP = tuple(f"LGAP@{r}" for r in range(4))
NETWORK = "efficientnet-lite0"

__all__ = [
    "LGAP",
    "NETWORK",
    "EmbeddedImages",
    "digits",
    "head",
    "head_name",
    "images",
    "measured",
    "subset",
    "without_labels",
]


@dataclass(frozen=True, eq=False)
class EmbeddedImages:
    """Images of a data set by a vector each, divided into queries, training images and gallery."""

    dataset: Dataset
    vectors: np.ndarray
    split: Split

    @property
    def relevance(self) -> Relevance:
        """Relevant is what has the query's class."""
        labels = self.dataset.labels
        return same_label(labels[self.split.queries], labels[self.split.gallery])

    @property
    def gallery_labels(self) -> np.ndarray:
        """The class of each item."""
        return self.dataset.labels[self.split.gallery]

    @property
    def kinds(self) -> np.ndarray:
        """Of CIFAR-10: 1 for vehicles, 0 for animals."""
        return np.isin(self.dataset.labels, [self.dataset.classes.index(name) for name in VEHICLES]).astype(np.int64)

    def codes(self, hasher: Any, y: np.ndarray | None = None) -> tuple[Codes, Codes]:
        """Fit a hasher on the training images; codes of the queries and of the gallery."""
        labels = self.dataset.labels if y is None else y
        hasher.fit(self.vectors[self.split.training], labels[self.split.training])
        return hasher.transform(self.vectors[self.split.queries]), hasher.transform(self.vectors[self.split.gallery])


def subset(name: str, n_images: int) -> Dataset:
    """The first images of a data set in a seeded order, as many of each class; the whole set if it has no more."""
    dataset = load(name)
    if n_images >= len(dataset):
        return dataset
    rows = np.sort(dataset.shuffled(0)[:n_images])
    images, labels = dataset.images[rows], dataset.labels[rows]
    return Dataset(f"{name}-{n_images}", images, labels, dataset.classes)


def digits() -> EmbeddedImages:
    """Handwritten digits by their pixels."""
    return images("digits", 10_000, "pixels", 0)


@functools.lru_cache(maxsize=4)
def images(name: str, n_images: int, encoder: str, n_training: int) -> EmbeddedImages:
    """Images of a data set by the vectors of an encoder. n_training: images that are learned from; 0 for all."""
    from lookalike.encoders import features
    from lookalike.encoders import load as encoder_of

    dataset = subset(name, n_images)
    split = dataset.split(1)
    if n_training:
        labels = dataset.labels[split.training]
        each = n_training // len(dataset.classes)
        rows = np.concatenate([np.flatnonzero(labels == label)[:each] for label in range(len(dataset.classes))])
        split = replace(split, training=np.sort(split.training[rows]))
    return EmbeddedImages(dataset, features(dataset, encoder_of(encoder)), split)


def head_name(settings: Mapping[str, Any], n_bits: int, seed: int, options: Mapping[str, Any], target: str) -> str:
    """A name that says everything a trained head depends on."""
    shown = " ".join(f"{name}={value}" for name, value in sorted(options.items()))
    sizes = " ".join(f"{name}={settings[name]}" for name in ("images", "training", "epochs"))
    return f"head cifar10 {NETWORK} {sizes} {n_bits} bits seed={seed} {target} {shown}"


def head(run: Run, n_bits: int, seed: int, options: Mapping[str, Any], target: str = "class") -> dict[str, Any]:
    """Train a head of 512 units on embeddings of CIFAR-10, and measure its codes; kept as a step.

    options: of LearnedHasher. target: what is learned: the class, the kind (animal or vehicle), or both.
    """
    name = head_name(run.settings, n_bits, seed, options, target)
    return dict(run.keep(name, lambda: _trained(run.settings, n_bits, seed, target, options)))


def _trained(
    settings: Mapping[str, Any], n_bits: int, seed: int, target: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    from lookalike.learning import LearnedHasher
    from lookalike.learning.cost import one_thread

    material = images("cifar10", settings["images"], NETWORK, settings["training"])
    labels, kinds = material.dataset.labels, material.kinds
    y = {"class": labels, "kind": kinds, "both": np.stack([labels, kinds], axis=1)}[target]
    usual = {"epochs": settings["epochs"], "batch_size": 250, "weight_decay": 2e-3, "random_state": seed}
    with one_thread():
        queries, gallery = material.codes(LearnedHasher(n_bits, **{**usual, **options}), y)
    return measured(material, queries, gallery)


def without_labels(run: Run, hasher: str, n_bits: int) -> dict[str, Any]:
    """Codes of a hasher that sees no labels, on the embeddings that heads are trained on; kept as a step."""
    n_images, n_training = run.settings["images"], run.settings["training"]

    def compute() -> dict[str, Any]:
        material = images("cifar10", n_images, NETWORK, n_training)
        return measured(material, *material.codes(make(hasher, n_bits, 0)))

    return dict(run.keep(f"hasher cifar10 {NETWORK} {n_images} {n_training} {hasher} {n_bits} bits", compute))


def measured(material: EmbeddedImages, queries: Codes, gallery: Codes) -> dict[str, Any]:
    """AP of each query, mLGAP, and how the codes fill the space, as plain values."""
    result = evaluate(queries, gallery, material.relevance, ["AP", *LGAP])
    split, kinds = material.split, material.kinds
    of_kinds = evaluate(queries, gallery, same_label(kinds[split.queries], kinds[split.gallery]), ["AP", *LGAP])
    used = usage(gallery)
    within = within_class_correlation(gallery, material.gallery_labels, material.vectors[split.gallery], max_items=200)
    pixels = within_class_correlation(
        gallery, material.gallery_labels, material.dataset.pixels(split.gallery), max_items=200
    )
    return {
        "ap": np.round(result["AP"].per_query, 6).tolist(),
        "kinds_ap": np.round(of_kinds["AP"].per_query, 6).tolist(),
        **{name: np.round(result[name].per_query, 6).tolist() for name in LGAP},
        **{f"kinds_{name}": np.round(of_kinds[name].per_query, 6).tolist() for name in LGAP},
        "use": used.possible_utilisation,
        "entropy": used.entropy,
        "ten_fullest": float(used.counts[:10].sum() / used.items),
        "within": within.tolist(),
        "within_pixels": pixels.tolist(),
    }
