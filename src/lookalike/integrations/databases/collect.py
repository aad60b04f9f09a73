"""All items of a table in memory, as files give them."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import InputError
from lookalike.core.readers.source import ItemSource
from lookalike.core.tags import tags_or_labels
from lookalike.evaluation.item_files import Items
from lookalike.evaluation.label_files import read_labels

PAGE = 1 << 14  # rows at a time

__all__ = ["collect", "share_words"]


def collect(source: ItemSource, labels: Path | None = None) -> Items:
    """The items of a source. labels: a file of their own, joined by id, as `read_labels` has it."""
    pages = list(source.pages(PAGE))
    arrays = {name: np.concatenate([page[name] for page in pages]) for name in pages[0]}
    vectors: Codes | np.ndarray
    if "packed" in arrays:
        vectors = Codes.from_bytes(arrays["packed"], n_bits=source.about["n_bits"])
    else:
        vectors = arrays["embeddings"]
    ids, notes = arrays.get("ids"), list(source.notes)
    if labels is not None:
        if "labels" in arrays:
            notes.append(f"labels are those of {labels}, not those that {source.name} has")
        arrays["labels"], assumed = read_labels(labels, len(vectors), ids)
        notes += assumed
    own = None if "labels" not in arrays else tags_or_labels(arrays["labels"]) if labels is None else arrays["labels"]
    path = cast(Path, source.name)  # what messages call it: as a path, an address would lose a slash
    return Items(path, vectors, labels=own, ids=ids, notes=tuple(notes))


def share_words(
    queries: Items, query_words: tuple[str, ...] | None, gallery: Items, gallery_words: tuple[str, ...] | None
) -> tuple[Items, Items]:
    """Queries and gallery with the same tag in the same column. words: of their columns, None for a matrix."""
    if query_words is None and gallery_words is None:
        return queries, gallery
    for items, words, other in ((queries, query_words, gallery), (gallery, gallery_words, queries)):
        if words is None:
            raise InputError(
                f"the tags of {other.path} are words, and {items.path} has labels or a 0/1 matrix: give both as "
                "words, or both as 0/1 in the same order"
            )
    assert query_words is not None
    assert gallery_words is not None
    every = sorted({*query_words, *gallery_words})
    return tuple(  # type: ignore[return-value]  # two of them
        replace(items, labels=_spread(items.labels, words, every))
        for items, words in ((queries, query_words), (gallery, gallery_words))
    )


def _spread(matrix: np.ndarray | None, words: tuple[str, ...], every: list[str]) -> np.ndarray:
    """A 0/1 matrix with a column for each of `every` word."""
    assert matrix is not None
    spread = np.zeros((len(matrix), len(every)), np.uint8)
    place = {word: column for column, word in enumerate(every)}
    spread[:, [place[word] for word in words]] = matrix
    return spread
