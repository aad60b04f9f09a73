"""The numbers that the released code of Barkan et al. 2023 prints for a task, by enumeration.

Images are known by their path, and "id" is the product. Facts, as the released code has them:

- An image takes part if its phase is one of PHASES and the manifest lists it; an empty manifest lists all.
- Queries are the images that take part and are seeds. Without seeds, they are the first images of all annotations.
- The gallery is every image that takes part, queries too, or only those of the gallery phases.
- A query ranks the gallery by cosine, without images of its own product, and only the best image of each product.
- Annotations are a set of (query, item, value): equal ones count once, and (a, b) and (b, a) are two of them.
- HR@k is the number of positives in the top k of their queries, over k times the queries that have a positive.
- MRR@k is the sum of 1 / rank of these positives, over (1 + 1/2 + … + 1/k) times the queries that have a positive.
- Both areas are of all annotations together, by score: no product and no image is left out there.
- Tied images are in the order in which torch.topk leaves them, which is not defined: `tied` is that order here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from reference.discovery import auc, pr_auc

PHASES = ("train", "test", "query", "gallery", "search")
CUTOFFS = (5, 9)


@dataclass(frozen=True)
class ReleasedTask:
    """What the files of a task say: each as it is parsed from JSON."""

    metadata: dict[str, Any]
    annotations: list[dict[str, Any]]
    seeds: dict[str, Any] | None = None
    manifest: dict[str, Any] | None = None
    gallery_phases: tuple[str, ...] | None = None

    @property
    def products(self) -> dict[str, str]:
        """The product of each image that takes part."""
        listed = [entry["path"] for entry in (self.manifest or {"images": []})["images"]]
        return {
            entry["path"]: entry["id"]
            for entry in self.metadata["images"]
            if entry["phase"] in PHASES and (not listed or entry["path"] in listed)
        }

    @property
    def queries(self) -> list[str]:
        """The images that are searched for."""
        firsts = [tag["key"][0] for tag in self.annotations]
        seeds = firsts if self.seeds is None else self.seeds["seeds"]
        return [path for path in self.products if path in seeds]

    @property
    def gallery(self) -> list[str]:
        """The images that are searched."""
        phases = {entry["path"]: entry["phase"] for entry in self.metadata["images"]}
        return [path for path in self.products if self.gallery_phases is None or phases[path] in self.gallery_phases]


def printed(
    task: ReleasedTask, vectors: Mapping[str, np.ndarray], tied: Sequence[str] | None = None
) -> dict[str, Fraction]:
    """HR@k, MRR@k, ROC-AUC and PR-AUC as shares of 1; the released code prints 100 times as much, with six decimals.

    >>> images = [{"id": name, "path": name, "phase": "test"} for name in "qab"]
    >>> tags = [{"key": ["q", "a"], "value": 1}, {"key": ["q", "b"], "value": 0}]
    >>> vectors = {"q": np.array([1.0, 0.0]), "a": np.array([0.0, 1.0]), "b": np.array([1.0, 1.0])}
    >>> numbers = printed(ReleasedTask({"images": images}, tags), vectors)
    >>> {name: str(value) for name, value in numbers.items() if "@9" not in name}
    {'HR@5': '1/5', 'MRR@5': '30/137', 'ROC-AUC': '0', 'PR-AUC': '1/2'}
    """
    products, gallery = task.products, task.gallery
    place = {path: number for number, path in enumerate(tied or gallery)}
    tags = {(*tag["key"], tag["value"]) for tag in task.annotations}
    tops = {}
    for query in task.queries:
        order = sorted(gallery, key=lambda path: (-_cosine(vectors[query], vectors[path]), place[path]))
        best: dict[str, str] = {}
        for path in order:
            if products[path] != products[query]:
                best.setdefault(products[path], path)
        tops[query] = list(best.values())
    positives = [(query, item) for query, item, value in tags if value]
    n_seeds = len({query for query, _ in positives})
    numbers = {}
    for k in CUTOFFS:
        ranks = [tops[query][:k].index(item) + 1 for query, item in positives if item in tops[query][:k]]
        numbers[f"HR@{k}"] = Fraction(len(ranks), k * n_seeds)
        whole = n_seeds * sum(Fraction(1, rank) for rank in range(1, k + 1))
        numbers[f"MRR@{k}"] = sum((Fraction(1, rank) for rank in ranks), Fraction()) / whole
    scores = [(_cosine(vectors[query], vectors[item]), value) for query, item, value in tags]
    for name, area in (("ROC-AUC", auc(scores)), ("PR-AUC", pr_auc(scores))):
        assert area is not None
        numbers[name] = area
    return numbers


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    a, b = (np.asarray(vector, np.float32) for vector in (one, other))
    return float(np.float32((a / np.linalg.norm(a)) @ (b / np.linalg.norm(b))))
