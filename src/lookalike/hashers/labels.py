"""Labels and tags that hashers learn from, as groups of items that are labelled alike."""

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.checks import equal_lengths
from lookalike.core.errors import InputError

__all__ = ["LabelGroups", "check_labels", "group_labels"]


@dataclass(frozen=True, eq=False)
class LabelGroups:
    """Items that are labelled alike are one group: those of one label, or with the same tags.

    group: the group of each item. tags: (n_groups, n_tags) of 0 and 1, one column for each label. similar: whether
    two groups share a label or a tag, (n_groups, n_groups).
    """

    group: np.ndarray
    tags: np.ndarray
    similar: np.ndarray

    def of(self, rows: np.ndarray) -> "LabelGroups":
        """The groups of some of the items."""
        kept, group = np.unique(self.group[rows], return_inverse=True)
        return LabelGroups(group, self.tags[kept], self.similar[np.ix_(kept, kept)])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over the items of each group, (n_groups, …)."""
        if values.ndim == 1:
            return np.bincount(self.group, values, len(self.tags))
        return np.stack([np.bincount(self.group, column, len(self.tags)) for column in values.T], axis=1)


def group_labels(hasher: str, y: Any, n_items: int) -> LabelGroups:
    """The groups of labels in one column, or of tags of 0 and 1 in several; raises if they teach nothing."""
    if y is None:
        raise InputError(
            f"{hasher} learns from labels and requires y to be passed, but the target y is None: pass one label for "
            "each item, or a matrix of tags of 0 and 1"
        )
    labels = np.asarray(y)
    if labels.dtype.kind == "O" and all(isinstance(label, numbers.Integral) for label in labels.ravel()):
        labels = labels.astype(np.int64)
    if labels.ndim not in (1, 2):
        raise InputError(
            f"{hasher} needs y with one label for each item, or a matrix of tags, got shape {labels.shape}"
        )
    equal_lengths({"items": n_items, "labels": len(labels)})
    check_labels(labels)
    if labels.ndim == 1 or labels.shape[1] == 1:
        names, group = np.unique(labels.ravel(), return_inverse=True)
        tags = np.eye(len(names))
    else:
        if not np.isin(labels, (0, 1)).all():
            raise InputError(
                f"{hasher} reads y with several columns as tags, which must be 0 or 1: pass labels as one column"
            )
        tags, group = np.unique(labels.astype(np.float64), axis=0, return_inverse=True)
        group = group.ravel()
    groups = LabelGroups(group, tags, tags @ tags.T > 0)
    _check_pairs(hasher, groups)
    return groups


def check_labels(labels: np.ndarray) -> None:
    """Raise if labels are not whole numbers or strings: a missing one would be a class of its own."""
    if labels.dtype.kind == "f" and not (np.isfinite(labels).all() and (labels == np.floor(labels)).all()):
        raise InputError("labels must be whole numbers or strings: some are NaN or fractions")
    if labels.dtype.kind not in "biufU" and not all(isinstance(label, str) for label in labels.ravel()):
        raise InputError("labels must be whole numbers or strings: some are missing, or something else")


def _check_pairs(hasher: str, groups: LabelGroups) -> None:
    """Raise if all items are similar, or none to another."""
    if groups.similar.all():
        what = "all items have the same label" if len(groups.tags) == 1 else "all items share tags with all others"
        raise InputError(f"{hasher} learns to tell classes apart, but there is only one class: {what}")
    sizes = np.bincount(groups.group)
    others = groups.similar @ sizes - 1  # an item is similar to itself
    if not (groups.similar.diagonal() & (others > 0)).any():
        raise InputError(
            f"{hasher} learns from items that share a label, but none of {len(groups.group):,} do: are these ids?"
        )
