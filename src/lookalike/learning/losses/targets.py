"""Losses of single examples: each is drawn to the target of its class, or read by a classifier."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, normalize, one_hot

from lookalike.core.errors import InputError
from lookalike.learning.heads import BinaryTargets, Classifier
from lookalike.learning.losses.inputs import check_activations, class_numbers, is_number, tags_of

__all__ = ["csq", "dpn", "greedy_hash", "orthohash"]


def greedy_hash(activations: Tensor, labels: Any, head: Classifier, *, quantization: float = 0.1) -> Tensor:
    """GreedyHash: a classifier reads the signs, and its gradient is passed straight through them (Su et al. 2018).

    The cross-entropy of `head(signs)`, and `quantization` times the mean of |activation - sign|³. labels: numbers of
    classes; tags are read as probabilities that sum to 1.
    """
    activations = check_activations(activations)
    signs = torch.where(activations > 0, 1.0, -1.0).to(activations)
    passed = activations + (signs - activations).detach()  # the signs, with the slope of the activations
    distance = (activations.abs() - 1).abs().pow(3).mean()
    return cross_entropy(head(passed), _classes(labels, activations, head)) + _weight(quantization) * distance


def csq(activations: Tensor, labels: Any, head: BinaryTargets, *, quantization: float = 1e-4) -> Tensor:
    """Central similarity quantization: each bit is drawn to that of a centre far from all others (Yuan et al. 2020).

    The binary cross-entropy of codes tanh(activations), moved to 0 and 1, to the centre of the class in `head`; and
    `quantization` times the mean of (|code| - 1)². Of several tags the centre is the majority of their bits.
    """
    activations = check_activations(activations)
    centres = head.of(_classes(labels, activations, head)).to(activations)
    likelihood = binary_cross_entropy_with_logits(2 * activations, (centres + 1) / 2)  # (tanh(x) + 1) / 2 = σ(2x)
    return likelihood + _weight(quantization) * (torch.tanh(activations).abs() - 1).square().mean()


def dpn(activations: Tensor, labels: Any, head: BinaryTargets, *, margin: float = 1.0) -> Tensor:
    """Deep polarized network: each bit is beyond a margin, on the side of its class's target (Fan et al. 2020).

    The mean over examples and bits of what margin is above target · activation. Of several tags the target is the
    majority of their bits.

    >>> dpn(torch.tensor([[2.0, 0.5], [-2, 0.5]]), [0, 1], BinaryTargets(2, 2))     # targets are 1 1 and 1 -1
    tensor(1.2500)
    """
    activations = check_activations(activations)
    if not is_number(margin) or not 0 < float(margin) < math.inf:
        raise InputError(f"margin must be above 0 and finite, got {margin}")
    targets = head.of(_classes(labels, activations, head)).to(activations)
    return (margin - targets * activations).clamp(min=0).mean()


def orthohash(
    activations: Tensor, labels: Any, head: BinaryTargets, *, scale: float = 8.0, margin: float = 0.2
) -> Tensor:
    """OrthoHash: the cosine to the class's binary target is above all others by a margin (Hoe et al. 2021).

    The cross-entropy of scale · (cosine - margin for the own class), with targets that are orthogonal where they can
    be. It needs no term for quantization: the nearest binary code of what points at a target is the target. Tags
    are read as probabilities that sum to 1, and all own classes have the margin.
    """
    activations = check_activations(activations)
    for name, value in {"scale": scale, "margin": margin}.items():
        if not is_number(value) or not 0 <= float(value) < math.inf:
            raise InputError(f"{name} must be 0 or more and finite, got {value}")
    classes = _classes(labels, activations, head)
    cosines = normalize(activations) @ normalize(head.targets.to(activations)).T
    own = one_hot(classes, head.n_classes) if classes.ndim == 1 else classes > 0
    return cross_entropy(scale * (cosines - margin * own.to(cosines)), classes)


def _classes(labels: Any, activations: Tensor, head: Classifier | BinaryTargets) -> Tensor:
    """Numbers of classes (n,), or for tags the probabilities (n, classes); raises where the head has other ones."""
    tags = tags_of(labels, activations)
    if tags is None:
        return class_numbers(labels, activations, head.n_classes)
    if tags.shape[1] != head.n_classes:
        raise InputError(f"there are {tags.shape[1]} tags, but the head is of {head.n_classes} classes")
    none = int((tags.sum(1) == 0).sum())
    if none:
        raise InputError(f"{none} of {len(tags)} examples have no tag: they have no target")
    return tags / tags.sum(1, keepdim=True)


def _weight(quantization: float) -> float:
    if not is_number(quantization) or not 0 <= quantization < math.inf:
        raise InputError(f"quantization must be 0 or more, got {quantization}")
    return float(quantization)
