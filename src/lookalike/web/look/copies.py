"""Items of the same bytes, so that pages can show all of them and counts can explain them."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lookalike.study.model import UNREADABLE

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["ExactCopies", "copies_in"]


class ExactCopies:
    """Which items are copies of each other, by the fingerprints of their files when they were encoded.

    >>> copies = ExactCopies(np.array([b"a", b"b", b"a", b"a"]))
    >>> copies.of(0), copies.of(1), copies.words([0, 1, 2, 3])
    ([2, 3], [], '2 of them copies of 1 image')
    """

    def __init__(self, contents: np.ndarray | None) -> None:
        self.contents = contents

    @cached_property
    def _groups(self) -> dict[bytes, list[int]]:
        """Items by content, where there are several."""
        if self.contents is None:
            return {}
        order = np.argsort(self.contents, kind="stable")
        ordered = self.contents[order]
        groups = np.split(order, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        return {self.contents[group[0]]: group.tolist() for group in groups if len(group) > 1}

    def of(self, item: int) -> list[int]:
        """The other items that have the bytes of an item."""
        if self.contents is None:
            return []
        return [other for other in self._groups.get(self.contents[item], []) if other != item]

    def words(self, items: Iterable[int]) -> str:
        """How many of some items are copies of others among them; empty if none is."""
        if not self._groups:
            return ""
        members = np.fromiter(items, np.int64)
        assert self.contents is not None
        counts = np.unique(self.contents[members], return_counts=True)[1]
        n_copies, n_images = int((counts - 1).sum()), int((counts > 1).sum())
        if not n_copies:
            return ""
        return (
            f"{n_copies:,} of them {_some(n_copies, 'a copy', 'copies')} of {n_images:,} image{'s' * (n_images != 1)}"
        )


def copies_in(study: "Study", models: Sequence[str]) -> ExactCopies:
    """The copies of a study, by the first of its models that knows of which files it was made."""
    for name in models:
        try:
            contents = study.model(name, mapped=True).contents
        except UNREADABLE:  # the page says so beside the model
            continue
        if contents is not None and len(contents) == len(study.catalogue):
            return ExactCopies(np.asarray(contents))
    return ExactCopies(None)


def _some(n: int, one: str, many: str) -> str:
    return one if n == 1 else many
