"""Near-duplicates and look-alikes in a collection, by each model."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.search.near_duplicates import Near, find_near

if TYPE_CHECKING:
    from lookalike.discovery.catalogue import Catalogue
    from lookalike.study.model import Stored

ITEMS = 200_000  # of which all pairs are compared

__all__ = ["Alike", "find_alike", "label_across", "n_repeated_files", "sample_items"]


@dataclass(frozen=True, eq=False)
class Alike:
    """Near-duplicates and look-alikes by one model; positions are those of the catalogue."""

    model: str
    near: Near
    compared: int  # items, all unless there are very many
    same_vectors: int  # items with an embedding or code that another has too

    @property
    def unit(self) -> str:
        """The unit of distances: "bits", "cosine" or "distance"."""
        return self.near.unit

    def to_dict(self, ids: np.ndarray, across: str | None) -> dict[str, Any]:
        """Plain Python values, items by their ids. across: the label that look-alikes differ in."""
        near = self.near
        groups = [
            {"items": ids[group.items].tolist(), "nearest": group.nearest, "farthest": group.farthest}
            for group in near.groups
        ]
        pairs, beyond = (
            [
                {"first": str(ids[pair.first]), "second": str(ids[pair.second]), "distance": pair.distance}
                for pair in listed
            ]
            for listed in (near.pairs, near.beyond)
        )
        facts = {"unit": near.unit, "limit": near.limit, "usual": near.usual, "compared": self.compared}
        facts |= {"same_vectors": self.same_vectors, "groups": groups, "across": across}
        return facts | {"pairs": pairs, "beyond": beyond}


def find_alike(
    stored: "Stored", labels: np.ndarray | None, limit: float | None, pairs: int, sample: np.ndarray | None, seed: int
) -> Alike:
    """What is alike by one model. sample: positions of the items to compare, None for all."""
    vectors: Any = stored.gallery
    if sample is not None:
        vectors, labels = vectors[sample], None if labels is None else labels[sample]
    near = find_near(
        vectors, labels, similarity=stored.similarity, limit=limit, pairs=pairs, seed=seed,
        what=f"comparing items: {stored.name}",
    )  # fmt: skip
    if sample is not None:
        near = _in_catalogue(near, sample)
    return Alike(stored.name, near, len(vectors), _n_repeated_vectors(vectors))


def sample_items(n_items: int, rng: np.random.Generator) -> np.ndarray | None:
    """Positions of the items that are compared, None for all."""
    return np.sort(rng.choice(n_items, ITEMS, replace=False)) if n_items > ITEMS else None


def _in_catalogue(near: Near, sample: np.ndarray) -> Near:
    """Change positions in the sample to positions in the catalogue."""
    groups = [replace(group, items=sample[group.items]) for group in near.groups]
    pairs, beyond = (
        [replace(pair, first=int(sample[pair.first]), second=int(sample[pair.second])) for pair in listed]
        for listed in (near.pairs, near.beyond)
    )
    return replace(near, groups=groups, pairs=pairs, beyond=beyond)


def label_across(catalogue: "Catalogue") -> tuple[str | None, np.ndarray | None]:
    """The label that look-alikes should share: the identity, else the category."""
    for name, labels in (("identity", catalogue.identities), ("category", catalogue.categories)):
        if labels is not None and len(np.unique(labels[labels != ""])) > 1:
            return name, labels
    return None, None


def n_repeated_files(vectors: "Mapping[str, Stored]") -> int | None:
    """How many items have a file that is byte for byte another's; None if no model knows its files."""
    contents = next((stored.contents for stored in vectors.values() if stored.contents is not None), None)
    return None if contents is None else _n_repeated(contents.tolist())


def _n_repeated_vectors(vectors: Any) -> int:
    """How many items have the embedding or code of another."""
    if isinstance(vectors, Codes):
        return _n_repeated(row.tobytes() for row in vectors.words)
    # fingerprints of 16 bytes: the embeddings themselves would all be held in memory once more
    return _n_repeated(hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in vectors)


def _n_repeated(values: Iterable[Any]) -> int:
    """How many values are equal to another.

    >>> _n_repeated("abcaba")
    5
    """
    counts: dict[Any, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return sum(count for count in counts.values() if count > 1)
