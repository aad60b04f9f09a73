"""What an evaluation takes for granted and its user should know, in sentences: they are logged, kept and printed."""

from typing import Any

import numpy as np

from lookalike.core.codes import Codes, as_numpy
from lookalike.evaluation.relevance import Groups
from lookalike.evaluation.tally import Tally

LIKE_BITS = "these embeddings look like bits: to evaluate codes, pass la.Codes.pack(bits)"
LIKE_BYTES = (
    "these embeddings are bytes, 0 to 255: if they are packed codes, pass la.Codes.from_bytes(packed, n_bits=…); "
    "in a file, name the array `packed` and add `n_bits`"
)
NOTHING_RELEVANT = "nothing is relevant to any query: do labels of queries and gallery mean the same?"
ALL_RELEVANT = "every item is relevant to every query: is that what labels, tags or attributes should say?"
NOTHING_EXCLUDED = {
    True: "no query has its own id in the gallery, so that nothing is left out: are ids written alike in both?",
    False: "no query shares its group with an item, so that nothing is left out: are groups written alike in both?",
}  # by whether it is the query's own item that is left out
_LEAVE_OUT = "exclude='self' (--exclude-self) leaves a query's own item out"

__all__ = ["extremes", "notes_of_embeddings", "notes_of_exclusion", "notes_of_relevance", "notes_of_vectors"]


def notes_of_vectors(
    queries: Any, gallery: Any, query_ids: np.ndarray | None = None, gallery_ids: np.ndarray | None = None
) -> list[str]:
    """What to know of queries and a gallery in memory, of which no item is excluded. ids: None for positions."""
    if isinstance(queries, Codes):
        rows, items = queries.words, gallery.words
        notes = []
    else:
        rows, items = as_numpy(queries), as_numpy(gallery)
        notes = notes_of_embeddings(rows, items)
    n_selves = _selves(rows, items, query_ids, gallery_ids)
    if n_selves == len(rows):
        notes.append(f"each query finds itself in the gallery: {_LEAVE_OUT}")
    elif n_selves:
        notes.append(f"{n_selves:,} of {len(rows):,} queries find themselves in the gallery: {_LEAVE_OUT}")
    return notes


def notes_of_embeddings(*vectors: Any) -> list[str]:
    """Whether embeddings look like codes that were not packed, or not said to be."""
    arrays = [as_numpy(part) for part in vectors]
    if all(array.ndim == 2 and np.isin(array[:100], (-1, 0, 1)).all() for array in arrays):
        return [LIKE_BITS]
    return [LIKE_BYTES] if all(array.dtype == np.uint8 for array in arrays) else []


def notes_of_exclusion(excluded: Groups, own: bool) -> list[str]:
    """Whether nothing is excluded, though it was asked for. own: it is by the ids of queries and items."""
    return [] if np.isin(excluded.queries, excluded.gallery).any() else [NOTHING_EXCLUDED[own]]


def _selves(
    queries: np.ndarray, gallery: np.ndarray, query_ids: np.ndarray | None, gallery_ids: np.ndarray | None
) -> int:
    """How many queries are items of the gallery: all of them, in their order, or those with an item's id and vector."""
    if {queries.dtype.kind, gallery.dtype.kind} == {"f"}:  # what a CSV file gives is wider than what was written
        narrow = min(queries.dtype, gallery.dtype, key=lambda kind: kind.itemsize)
        queries, gallery = queries.astype(narrow, copy=False), gallery.astype(narrow, copy=False)
    if queries.shape == gallery.shape and np.array_equal(queries, gallery):
        return len(queries)
    if query_ids is None or gallery_ids is None or query_ids.dtype.kind != gallery_ids.dtype.kind:
        return 0
    _, rows, items = np.intersect1d(query_ids, gallery_ids, return_indices=True)
    return int((queries[rows] == gallery[items]).all(1).sum())


def notes_of_relevance(blocks: list[tuple[bool, bool]]) -> list[str]:
    """What to know of relevance, from what `extremes` says of each block of queries."""
    nothing, everything = (all(values) for values in zip(*blocks, strict=True))
    return [NOTHING_RELEVANT] if nothing else [ALL_RELEVANT] if everything else []


def extremes(tally: Tally) -> tuple[bool, bool]:
    """Whether nothing is relevant to any query of a tally, and whether everything is relevant to all of them."""
    nothing = not tally.total_relevant(1).any()
    return nothing, not (nothing or tally.totals[:, 0].any() or tally.unjudged.any())
