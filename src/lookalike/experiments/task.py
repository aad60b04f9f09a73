"""Tasks: queries, a gallery and what is relevant, made from a data set or from files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import FileError, InputError
from lookalike.evaluation.item_files import Items, relevance_between
from lookalike.evaluation.relevance import Relevance, same_label

if TYPE_CHECKING:
    from lookalike.datasets import Dataset

Picture = Callable[[int], np.ndarray]
TITLES = {
    "digits": "Handwritten digits",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "fashion-mnist": "Fashion-MNIST",
    "emoji": "Emoji",
    "groceries": "Groceries",
    "deepfashion-inshop": "DeepFashion In-shop",
    "deepfashion-consumer2shop": "DeepFashion Consumer-to-shop",
}

__all__ = ["Picture", "Task", "dataset_task", "items_task"]


@dataclass(frozen=True, eq=False)
class Task:
    """Queries, a gallery and what is relevant; features to hash, and pictures to look at."""

    title: str
    relevance: Relevance
    query_labels: np.ndarray  # to show, (n,); empty strings where there are none
    gallery_labels: np.ndarray
    training: np.ndarray | None = None  # features, (n, values)
    training_labels: np.ndarray | None = None
    training_levels: np.ndarray | None = None  # class and superclass, (n, 2), where both are known
    queries: np.ndarray | None = None
    gallery: np.ndarray | None = None
    query_picture: Picture | None = None  # from a query's position, (height, width, 3) of uint8
    gallery_picture: Picture | None = None
    about: dict[str, Any] = field(default_factory=dict)  # where it comes from: sizes, split, seed

    @property
    def classes(self) -> np.ndarray | None:
        """The class of each item of the gallery, if it has one."""
        return self.gallery_labels if self.gallery_labels.any() else None


def dataset_task(
    dataset: "Dataset",
    setting: int = 1,
    *,
    random_state: int = 0,
    features: str = "pixels",
    level: str | None = None,
    rows_of: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Task:
    """Search a data set for images that share a class with a query, by their pixels or by other features.

    level: which labels a class is, "fine" (the default) or "coarse", of a set that has both; both have the same split.
    rows_of: the features of these rows of the data set.
    """
    rows_of = dataset.pixels if rows_of is None else rows_of
    split, labelled = dataset.split(setting, random_state=random_state), dataset.at_level(level)
    names, height_width = np.array(labelled.classes), " × ".join(map(str, dataset.images.shape[1:3]))
    numbers = [labelled.labels[rows] for rows in (split.queries, split.training, split.gallery)]
    levels = None if dataset.coarse is None else np.stack([dataset.labels, dataset.coarse], axis=1)[split.training]
    return Task(
        TITLES.get(dataset.name, dataset.name),
        same_label(numbers[0], numbers[2]),
        names[numbers[0]],
        names[numbers[2]],
        training=rows_of(split.training),
        training_labels=numbers[1],
        training_levels=levels,
        queries=rows_of(split.queries),
        gallery=rows_of(split.gallery),
        query_picture=lambda query: dataset.picture(int(split.queries[query])),
        gallery_picture=lambda item: dataset.picture(int(split.gallery[item])),
        about={
            "data": dataset.name,
            **({} if levels is None else {"labels": level or "fine"}),
            "setting": setting,
            "seed": random_state,
            "features": f"{features}, {height_width}",
            "queries": len(split.queries),
            "training": len(split.training),
            "gallery": len(split.gallery),
        },
    )


def items_task(queries: Items, gallery: Items, training: Items | None = None, *, level: str | None = None) -> Task:
    """Search the items of one file for those of another. Hashers learn from a third file, or from the gallery.

    level: "coarse" takes the coarse labels of the files for their labels.
    """
    levels = (training or gallery).levels
    queries, gallery = queries.at_level(level), gallery.at_level(level)
    parts = {"queries": queries, "gallery": gallery, "training": training.at_level(level) if training else gallery}
    for items in (queries, gallery):
        if not len(items.vectors):
            raise FileError(f"{items.path} holds no items", path=items.path)
    if len({isinstance(items.vectors, Codes) for items in parts.values()}) > 1:
        raise InputError("pass files of embeddings only, to hash them, or files of codes only")
    vectors = {name: None if isinstance(items.vectors, Codes) else items.vectors for name, items in parts.items()}
    about: dict[str, Any] = {name: len(items.vectors) for name, items in parts.items()}
    if vectors["gallery"] is not None:
        about["features"] = f"embeddings, {vectors['gallery'].shape[1]} numbers"
    if level is not None:
        about["labels"] = level
    return Task(
        PurePath(gallery.path).stem,
        relevance_between(queries, gallery),
        _shown_labels(queries),
        _shown_labels(gallery),
        **vectors,  # type: ignore[arg-type]
        training_labels=parts["training"].labels,
        training_levels=levels,
        about={"data": f"{PurePath(queries.path).name}, {PurePath(gallery.path).name}", **about},
    )


def _shown_labels(items: Items) -> np.ndarray:
    one_each = items.labels is not None and items.labels.ndim == 1
    return items.labels.astype(str) if one_each and items.labels is not None else np.full(len(items.vectors), "")
