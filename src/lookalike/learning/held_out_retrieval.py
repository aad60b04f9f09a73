"""Retrieval by images that are held out of fine-tuning: do they find their identity, and their category?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label
from lookalike.learning.labelled_heads import UNKNOWN

__all__ = ["KINDS", "HeldOutRetrieval", "hold_out"]

KINDS = ("identity", "category")
MOST_QUERIES, MOST_ITEMS = 500, 2000  # searched after every epoch, which should take less time than learning


@dataclass(frozen=True, eq=False)
class HeldOutRetrieval:
    """Queries, which are not learned from, and a gallery of images that are.

    queries, gallery: rows of images. labels: by kind, a number for every image, -1 where it is not known.
    """

    queries: np.ndarray
    gallery: np.ndarray
    labels: dict[str, np.ndarray]

    def figures(self, embeddings_of: Callable[[np.ndarray], np.ndarray]) -> dict[str, float]:
        """AP and Hit@1 of each kind that some query can find, of embeddings compared by cosine.

        Of a category, images of the query's own identity do not rank: they would be found first, and say nothing of
        the others.
        """
        if not len(self.queries):
            return {}
        queries, gallery = embeddings_of(self.queries), embeddings_of(self.gallery)
        figures: dict[str, float] = {}
        for kind, labels in self.labels.items():
            known = labels[self.queries] != UNKNOWN
            rows = self.queries[known]
            exclude = None
            if kind == "category" and "identity" in self.labels:
                own = self.labels["identity"]
                exclude = (own[rows], own[self.gallery])
            if not _is_findable(labels[rows], labels[self.gallery], exclude):
                continue
            relevance = same_label(labels[rows], labels[self.gallery])
            result = evaluate(queries[known], gallery, relevance, ["AP", "Hit@1"], exclude=exclude, undefined="skip")
            figures |= {f"{kind} AP": float(result["AP"].mean), f"{kind} Hit@1": float(result["Hit@1"].mean)}
        return figures


def _is_findable(wanted: np.ndarray, there: np.ndarray, exclude: tuple[np.ndarray, np.ndarray] | None) -> bool:
    """Whether a query has an item of its label that is not of its own group."""
    if exclude is None:
        return bool(np.isin(wanted, there).any())
    pairs = set(zip(there.tolist(), exclude[1].tolist(), strict=True))
    groups: dict[int, int] = {}
    for label, _ in pairs:
        groups[label] = groups.get(label, 0) + 1
    own = ((label, group) in pairs for label, group in zip(wanted.tolist(), exclude[0].tolist(), strict=True))
    return any(groups.get(label, 0) > has for label, has in zip(wanted.tolist(), own, strict=True))


def hold_out(
    labels: dict[str, np.ndarray], n_images: int, part: float, seed: int
) -> tuple[np.ndarray, HeldOutRetrieval]:
    """Rows to learn from, and what is held out of them: of an identity with several images one, at most.

    Where no identity has two images, images of categories with at least two are held out, never the last one.
    """
    random = np.random.default_rng([seed, 2])
    order = random.permutation(n_images)
    queries = np.zeros(0, np.int64)
    for kind in KINDS:
        if kind in labels and not len(queries):
            most_of_class = 1 if kind == "identity" else None
            queries = _drawn(labels[kind], order, round(part * n_images), most_of_class)
    learned = np.setdiff1d(np.arange(n_images), queries, assume_unique=True)
    queries = np.sort(queries[:MOST_QUERIES])
    gallery = learned
    if len(learned) > MOST_ITEMS:  # all that a query should find by identity, and others at random
        mates = np.isin(labels["identity"][learned], labels["identity"][queries]) if "identity" in labels else False
        turns = random.permutation(len(learned)) + len(learned) * ~(mates & np.ones(len(learned), bool))
        gallery = np.sort(learned[np.argsort(turns)[:MOST_ITEMS]])
    return learned, HeldOutRetrieval(queries, gallery, labels)


def _drawn(labels: np.ndarray, order: np.ndarray, n: int, most_of_class: int | None) -> np.ndarray:
    """The first n rows in this order of which others of the same label remain; so many of a label at most."""
    left = dict(zip(*(values.tolist() for values in np.unique(labels, return_counts=True)), strict=True))
    sizes = dict(left)
    drawn: list[int] = []
    for row in order.tolist():
        label = int(labels[row])
        taken = sizes[label] - left[label]
        if len(drawn) < n and label != UNKNOWN and left[label] > 1 and (most_of_class is None or taken < most_of_class):
            left[label] -= 1
            drawn.append(row)
    return np.array(drawn, np.int64)
