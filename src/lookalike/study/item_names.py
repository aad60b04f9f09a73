"""Items found by their names: the file name or id that is meant, or all that hold some words."""

import unicodedata
from collections import defaultdict
from functools import cached_property

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.errors import StudyError
from lookalike.discovery.catalogue import Catalogue

__all__ = ["ItemNames", "folded"]

LIKE = 10_000  # items among which a name that is spelt alike is looked for: more take seconds


def folded(text: str) -> str:
    """A text without what people leave out when they type: case, accents, and the width of letters.

    >>> folded("Café ＡＢＣ Straße")
    'cafe abc strasse'
    """
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text)
    marks = [ord(letter) for letter in set(text) if unicodedata.combining(letter)]
    return unicodedata.normalize("NFC", text.translate(dict.fromkeys(marks)).casefold())


class ItemNames:
    """The names of a catalogue's items: ids, and where they differ from these, paths of files."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.ids = catalogue.ids
        self.paths = catalogue.paths

    def holding(self, words: str) -> np.ndarray:
        """A mask of the items whose id or path holds all words, in any order, folded as by `folded`."""
        names = self._folded
        mask = np.ones(len(names), bool)
        for word in folded(words).split():
            mask &= np.fromiter((word in name for name in names), bool, len(names))
        return mask

    def position(self, name: str) -> int | None:
        """The item of an id, or else of a file name that no other item has; None if no item is called so.

        Raises where several items have this file name.
        """
        name = unicodedata.normalize("NFC", name)
        if name in self._by_id:
            return self._by_id[name]
        items = self._by_file.get(name, [])
        if len(items) > 1:
            some = ", ".join(str(self.ids[item]) for item in items[:3])
            raise StudyError(f"{len(items)} items are called {name}: name one by its id, such as {some}")
        return items[0] if items else None

    def similar(self, name: str) -> str | None:
        """An id like this one: it differs by case or accents alone, or it is spelt alike and among the first."""
        same = np.flatnonzero(self.holding(name)[:LIKE])
        return (
            str(self.ids[same[0]])
            if name.strip() and len(same)
            else nearest(name, self.ids[:LIKE].tolist(), cutoff=0.5)
        )

    @cached_property
    def _folded(self) -> list[str]:
        ids = [folded(name) for name in self.ids.tolist()]
        if self.paths is None:
            return ids
        return [
            name if path.endswith(name) else f"{name}\n{path}"  # a folder's items are called by their paths
            for name, path in zip(ids, map(folded, self.paths.tolist()), strict=True)
        ]

    @cached_property
    def _by_id(self) -> dict[str, int]:
        return {unicodedata.normalize("NFC", name): item for item, name in enumerate(self.ids.tolist())}

    @cached_property
    def _by_file(self) -> dict[str, list[int]]:
        files = defaultdict(list)
        for item, name in enumerate((self.ids if self.paths is None else self.paths).tolist()):
            file = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
            files[unicodedata.normalize("NFC", file)].append(item)
        return dict(files)
