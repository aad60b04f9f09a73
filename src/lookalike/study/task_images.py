"""Which images of a catalogue are the items of a study, and which its queries, as in the released benchmark.

The released tasks (Barkan et al. 2023) are parts of one metadata file. A manifest lists the images that take part.
Seeds are the queries among them. In the closed task the items are all images that take part, queries too. In the wild
task they are those of the phase "gallery" alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError, Option
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.formats import read_manifest

PHASE, QUERY, GALLERY = "phase", "query", "gallery"  # the column, and two of its values in the released files

__all__ = ["TaskImages", "task_images"]


@dataclass(frozen=True, eq=False)
class TaskImages:
    """A catalogue, and which of its images take part and are items.

    >>> images = Catalogue(["a", "b", "q"], attributes={"phase": ["gallery", "gallery", "query"]})
    >>> task = TaskImages(images, np.array([True, True, True]), np.array([True, True, False]))
    >>> task.queries(["q"])                  # a photograph from elsewhere: the study is wild
    (array([2]), [])
    """

    catalogue: Catalogue
    listed: np.ndarray  # (n,) of bool: the image takes part
    items: np.ndarray  # (n,) of bool: it takes part and is searched
    by_phase: bool = False  # items were chosen by their phase

    def draw(self, n: int, *, stratify: str | None = None, seed: int = 0) -> np.ndarray:
        """Positions of n items drawn at random, as `Catalogue.draw` does."""
        return np.flatnonzero(self.items)[self.catalogue[self.items].draw(n, stratify=stratify, seed=seed)]

    def used(self, queries: np.ndarray) -> Catalogue:
        """The images of a study with queries at these positions."""
        used = self.items.copy()
        used[queries] = True
        return self.catalogue[used]

    def queries(self, names: Any, *, wild: bool = False) -> tuple[np.ndarray, list[str]]:
        """Positions of the images of these names that take part, and sentences about what a user may not expect.

        All of them are items, or none, as in a wild study. wild: raise if they are items.
        """
        rows = self.catalogue.positions(names, QUERY)
        kept = rows[self.listed[rows]]
        if not len(kept):
            raise InputError(f"none of the {len(rows):,} queries is among the images that the manifest lists")
        sentences = []
        if len(kept) < len(rows):
            gone = f"{len(rows) - len(kept):,} of {len(rows):,} queries"
            sentences.append(f"{gone} are left out, since the manifest does not list them")
        n_items = int(self.items[kept].sum())
        if n_items == 0:
            return kept, sentences
        if n_items < len(kept):
            raise InputError(
                f"{n_items:,} of {len(kept):,} queries are items and the others are not, such as "
                f"{str(self.catalogue.ids[kept[~self.items[kept]][0]])!r}: queries are all items, or none of them is. "
                "Choose others, or give other phases with ",
                Option(PHASE),
            )
        if wild:
            raise InputError(
                f"the {len(kept):,} queries of this wild study are items too: say which images are items with ",
                Option(PHASE, GALLERY),
            )
        return kept, [*sentences, *self._looks_wild(kept)]

    def _looks_wild(self, queries: np.ndarray) -> list[str]:
        """A sentence if queries are the photographs of a wild task, and yet searched among each other."""
        phases = self.catalogue.attributes.get(PHASE)
        if self.by_phase or phases is None or set(phases[queries].tolist()) != {QUERY}:
            return []
        of_items = phases[self.items].tolist()
        if GALLERY not in of_items:
            return []
        n = of_items.count(QUERY)
        what = f"all queries have the phase {QUERY!r}, and {n:,} images of that phase are items"
        return [f"{what}: the released wild task searches {GALLERY!r} alone, as --{PHASE} {GALLERY} does"]


def task_images(catalogue: Catalogue, manifest: str | Path | None = None, phases: Sequence[str] = ()) -> TaskImages:
    """The images that a manifest lists, all if it is empty; items are those of the phases, or all of them."""
    listed = np.ones(len(catalogue), bool)
    if manifest is not None and len(ids := read_manifest(manifest, catalogue)):
        listed = np.isin(catalogue.ids, ids)
    items = listed & np.isin(_column(catalogue), _known(catalogue, phases)) if phases else listed
    if phases and not items.any():
        raise InputError(f"none of the images that {manifest} lists has the phase {' or '.join(map(repr, phases))}")
    return TaskImages(catalogue, listed, items, bool(phases))


def _column(catalogue: Catalogue) -> np.ndarray:
    return catalogue.column(PHASE).astype(str)


def _known(catalogue: Catalogue, phases: Sequence[str]) -> list[str]:
    """The phases; raises for one that no image has."""
    names, counts = np.unique(_column(catalogue), return_counts=True)
    there = dict(zip(names.tolist(), counts.tolist(), strict=True))
    for phase in phases:
        if phase not in there:
            similar = nearest(phase, there)
            advice = "" if similar is None else f", did you mean {similar!r}?"
            listed = ", ".join(f"{name} {count:,}" for name, count in there.items())
            raise InputError(f"no image has the phase {phase!r}{advice} (there are {listed})")
    return list(phases)
