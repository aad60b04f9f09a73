"""What losses are given: activations, labels, tags and affinities, checked."""

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.core.errors import InputError, InputTypeError
from lookalike.learning.labels import check_labels, check_tags

MOST = 255  # the highest grade, as grades are bytes; more shared tags than that count as so many
ALPHA = 40.0  # He et al. 2018, supplement D

__all__ = [
    "ALPHA",
    "MOST",
    "affinity_rows",
    "check_activations",
    "class_numbers",
    "is_number",
    "labels_tensor",
    "pairs_together",
    "relaxed_codes",
    "tags_of",
]


def check_activations(activations: Tensor) -> Tensor:
    """Activations in float32 at least; raises where they are not a matrix of finite numbers."""
    if not isinstance(activations, Tensor) or activations.ndim != 2 or not activations.is_floating_point():
        is_tensor = isinstance(activations, Tensor)
        got = f"{tuple(activations.shape)} of {activations.dtype}" if is_tensor else type(activations).__name__
        raise InputTypeError(f"activations must be a tensor (n_examples, n_bits) of floats, got {got}")
    if activations.shape[0] < 2 or activations.shape[1] < 1:
        raise InputError(f"activations must be of two examples and one bit at least, got {tuple(activations.shape)}")
    if not torch.isfinite(activations).all():
        bad = int((~torch.isfinite(activations)).any(1).sum())
        raise InputError(f"activations contain NaN or infinite numbers, in {bad} of {len(activations)} examples")
    return activations if activations.dtype == torch.float64 else activations.float()


def relaxed_codes(activations: Tensor, alpha: float | None) -> Tensor:
    """Codes between -1 and 1: tanh(alpha · activations), or the activations where alpha is None."""
    activations = check_activations(activations)
    if alpha is None:
        if activations.abs().max() > 1:
            raise InputError("with alpha=None activations must be relaxed codes from -1 to 1: pass alpha, such as 40")
        return activations
    if not is_number(alpha) or not 0 < alpha <= 1e30:  # more is infinite in float32
        raise InputError(f"alpha must be above 0 and finite, got {alpha}")
    return torch.tanh(alpha * activations)


def affinity_rows(codes: Tensor, labels: Any, affinity: Any) -> tuple[Callable[[slice], Tensor], int]:
    """The grades of a block of queries, (n_queries, n_examples) of uint8, and how many grades there may be."""
    if (labels is None) == (affinity is None):
        raise InputError("pass either labels or affinity" + (", not both" if labels is not None else ""))
    if affinity is not None:
        matrix = _grades(affinity, codes)
        return (lambda rows: matrix[rows]), max(2, int(matrix.max()) + 1)
    marks = labels_tensor("labels", labels, codes)
    if marks.ndim == 1:
        return (lambda rows: (marks[rows, None] == marks).to(torch.uint8)), 2
    check_tags(marks)
    tags = marks.float()
    most = min(MOST, int(tags.sum(1).max()))
    return (lambda rows: (tags[rows] @ tags.T).clamp_(max=MOST).to(torch.uint8)), max(2, most + 1)


def tags_of(labels: Any, codes: Tensor) -> Tensor | None:
    """Labels that are tags, 0 and 1 in the type of the codes; None where each example has one label."""
    marks = labels_tensor("labels", labels, codes)
    if marks.ndim == 1:
        return None
    check_tags(marks)
    return marks.to(codes.dtype)


def class_numbers(labels: Any, codes: Tensor, n_classes: int) -> Tensor:
    """Labels as numbers of classes; raises where one is not among these."""
    marks = labels_tensor("labels", labels, codes).long()
    if int(marks.min()) < 0 or int(marks.max()) >= n_classes:
        raise InputError(
            f"labels must be numbers of classes from 0 to {n_classes - 1}, as the head is of {n_classes} classes, "
            f"got {int(marks.min())} to {int(marks.max())}"
        )
    return marks


def labels_tensor(name: str, labels: Any, codes: Tensor) -> Tensor:
    """Labels (n,), or rows of tags, on the device of the codes; raises where there are not as many as examples."""
    if not isinstance(labels, Tensor):
        labels = np.asarray(labels)
        if labels.ndim == 1:
            check_labels(labels)
        if labels.dtype.kind not in "biuf":
            labels = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
        labels = torch.from_numpy(_native(labels))
    elif labels.is_floating_point() and labels.ndim == 1:
        check_labels(labels.detach().cpu().numpy())
    if labels.ndim not in (1, 2) or len(labels) != len(codes):
        raise InputError(f"there are {len(codes)} examples, but {name} of the shape {tuple(labels.shape)}")
    return labels.to(codes.device)


def _native(values: Any) -> np.ndarray:
    """A copy that torch takes: writable, in one piece, in this machine's order of bytes."""
    values = np.array(values)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def _grades(affinity: Any, codes: Tensor) -> Tensor:
    """An affinity as bytes; the grade of an example with itself becomes 0."""
    grades = torch.as_tensor(affinity if isinstance(affinity, Tensor) else _native(affinity), device=codes.device)
    grades = grades if grades.is_floating_point() else grades.long()
    if grades.shape != (len(codes), len(codes)):
        raise InputError(f"affinity must be ({len(codes)}, {len(codes)}), got {tuple(grades.shape)}")
    own = torch.eye(len(codes), dtype=torch.bool, device=codes.device)
    grades = grades.masked_fill(own, 0)
    if not (
        (grades >= 0) & (grades <= MOST) & (grades == grades.floor() if grades.is_floating_point() else True)
    ).all():
        raise InputError(f"affinity must be whole numbers from 0 to {MOST}")
    return grades.to(torch.uint8).contiguous()


def is_number(value: Any) -> bool:
    """Whether this is one number, perhaps in an array or a tensor."""
    return isinstance(value, numbers.Real) or (isinstance(value, Tensor | np.ndarray) and math.prod(value.shape) == 1)


def pairs_together(activations: Tensor, labels: Any, affinity: Any) -> Tensor:
    """Which pairs i < j belong together, in the order of torch.pdist: either finds the other relevant."""
    rows, _ = affinity_rows(activations, labels, affinity)
    together = rows(slice(None)) > 0
    i, j = torch.triu_indices(len(together), len(together), 1, device=together.device)
    return together[i, j] | together[j, i]
