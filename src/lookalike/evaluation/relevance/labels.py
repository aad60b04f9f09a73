"""Relevance by labels, hierarchies of labels, tags and attributes."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.column import Column
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import digest
from lookalike.core.tags import zero_one
from lookalike.evaluation.relevance.base import MAX_GRADE, Groups, Relevance
from lookalike.evaluation.relevance.shards import InShards

__all__ = ["SameLabel", "hierarchy", "matching_attributes", "same_label", "shared_tags"]


def same_label(query_labels: Any, gallery_labels: Any) -> Relevance:
    """Grade 1 where the labels are equal; whole numbers or strings."""
    if isinstance(gallery_labels, Column):
        return InShards(same_label, query_labels, gallery_labels)
    return SameLabel([Groups(query_labels, gallery_labels)])


def hierarchy(query_labels: tuple[Any, Any], gallery_labels: tuple[Any, Any]) -> Relevance:
    """Grade 2 where the fine labels are equal, 1 where only the coarse ones are; labels as (fine, coarse)."""
    if not all(isinstance(labels, tuple | list) and len(labels) == 2 for labels in (query_labels, gallery_labels)):
        raise InputTypeError("hierarchy takes (fine, coarse) labels of the queries and of the gallery")
    if any(isinstance(labels, Column) for labels in gallery_labels):
        return InShards(hierarchy, query_labels, gallery_labels)
    (query_fine, query_coarse), (gallery_fine, gallery_coarse) = query_labels, gallery_labels
    coarse = Groups(query_coarse, gallery_coarse, "coarse labels")
    fine = Groups(query_fine, gallery_fine, "fine labels")
    if (len(fine.queries), len(fine.gallery)) != (len(coarse.queries), len(coarse.gallery)):
        raise InputError("there must be as many fine as coarse labels")
    return SameLabel([coarse, fine])


def shared_tags(query_tags: Any, gallery_tags: Any) -> Relevance:
    """Grade = number of tags in common; matrices (n, tags) of 0/1, or of -1/+1."""
    if isinstance(gallery_tags, Column):
        return InShards(shared_tags, query_tags, gallery_tags)
    return SharedTags(query_tags, gallery_tags)


def matching_attributes(query_attributes: Any, gallery_attributes: Any) -> Relevance:
    """Grade = number of equal attributes; matrices (n, attributes) of whole numbers or strings."""
    if isinstance(gallery_attributes, Column):
        return InShards(matching_attributes, query_attributes, gallery_attributes)
    return MatchingAttributes(query_attributes, gallery_attributes)


class SameLabel(Relevance):
    """Grade i + 1 where level i of the labels is equal, the highest level that is: labels, hierarchies."""

    def __init__(self, levels: Sequence[Groups]) -> None:
        self.levels = levels
        self.n_queries, self.n_gallery = len(levels[0].queries), len(levels[0].gallery)
        self.max_grade = self.n_levels = len(levels)
        self.kind = "labels" if len(levels) == 1 else "a hierarchy of labels"

    @property
    def nested(self) -> bool:
        """Whether what is equal at a level is equal at every lower one too, as in a true hierarchy."""
        for coarse, fine in zip(self.levels, self.levels[1:], strict=False):
            parent = np.full(fine.n_groups, -1)
            parent[fine.gallery] = coarse.gallery
            query_parent = parent[fine.queries]
            met = query_parent >= 0  # a fine label that no item has cannot break the nesting
            if (parent[fine.gallery] != coarse.gallery).any() or (query_parent != coarse.queries)[met].any():
                return False
        return True

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.levels = [level.cut(items) for level in self.levels]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        out = np.zeros((len(self.levels[0].queries[queries]), len(self.levels[0].gallery[items])), np.int16)
        for grade, level in enumerate(self.levels, 1):
            out[level.queries[queries, None] == level.gallery[items]] = grade
        return out

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        out = np.zeros(len(queries), np.int16)
        for grade, level in enumerate(self.levels, 1):
            out[level.queries[queries] == level.gallery[items]] = grade
        return out

    def special(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        if len(self.levels) == 1:
            items = self.levels[0].items(query)
            return items, np.ones(len(items), np.int16)
        items = np.unique(np.concatenate([level.items(query) for level in self.levels]))
        return items, self.of_pairs(np.full(len(items), query), items)

    @property
    def digest(self) -> str:
        return digest(*(array for level in self.levels for array in (level.queries, level.gallery)))


class SharedTags(Relevance):
    """Grade = number of tags in common."""

    kind = "tags"

    def __init__(self, query_tags: Any, gallery_tags: Any) -> None:
        self.queries, self.gallery = (
            _zero_one(tags, what) for tags, what in ((query_tags, "query"), (gallery_tags, "gallery"))
        )
        if self.queries.shape[1] != self.gallery.shape[1]:
            raise InputError(f"query tags have {self.queries.shape[1]} columns, gallery tags {self.gallery.shape[1]}")
        self.n_queries, self.n_gallery = len(self.queries), len(self.gallery)
        most = [int(tags.sum(1).max(initial=0)) for tags in (self.queries, self.gallery)]
        self.max_grade = max(1, min(most))

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.gallery = self.gallery[items]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        # sums of at most 2^24 ones: exact in float32, in any order
        return np.rint(self.queries[queries] @ self.gallery[items].T).astype(np.int16)

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->i", self.queries[queries], self.gallery[items]).astype(np.int16)

    @property
    def digest(self) -> str:
        return digest(self.queries, self.gallery)


class MatchingAttributes(Relevance):
    """Grade = number of attributes that are equal."""

    kind = "attributes"

    def __init__(self, query_attributes: Any, gallery_attributes: Any) -> None:
        queries, gallery = as_numpy(query_attributes), as_numpy(gallery_attributes)
        if queries.ndim != 2 or gallery.ndim != 2 or queries.shape[1] != gallery.shape[1]:
            raise InputError(
                f"attributes must be two matrices with as many columns, got shapes {queries.shape} and {gallery.shape}"
            )
        if queries.shape[1] == 0:
            raise InputError("attributes have no column")
        columns = [Groups(q, g, "attributes") for q, g in zip(queries.T, gallery.T, strict=True)]
        self.queries = np.stack([column.queries for column in columns], axis=1)
        self.gallery = np.stack([column.gallery for column in columns], axis=1)
        self.n_queries, self.n_gallery = len(queries), len(gallery)
        self.max_grade = len(columns)

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.gallery = self.gallery[items]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        out = np.zeros((len(self.queries[queries]), len(self.gallery[items])), np.int16)
        for q, g in zip(self.queries[queries].T, self.gallery[items].T, strict=True):
            out += q[:, None] == g
        return out

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return (self.queries[queries] == self.gallery[items]).sum(1).astype(np.int16)

    @property
    def digest(self) -> str:
        return digest(self.queries, self.gallery)


def _zero_one(tags: Any, what: str) -> np.ndarray:
    tags = as_numpy(tags)
    if tags.ndim != 2:
        raise InputError(f"{what} tags must be a 0/1 matrix (n, tags), got shape {tags.shape}")
    try:
        tags = zero_one(tags)
    except InputError as error:
        raise InputError(f"{what} ", *error.args) from error
    if tags.shape[1] > MAX_GRADE:
        raise InputError(f"{what} tags have {tags.shape[1]} columns, at most {MAX_GRADE} can be counted")
    return tags.astype(np.float32)
