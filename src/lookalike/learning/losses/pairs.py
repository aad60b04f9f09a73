"""Losses of pairs: those of a class come near, others go beyond a margin."""

from typing import Any, Literal

import torch
from torch import Tensor

from lookalike.core.checks import choice
from lookalike.core.errors import InputError
from lookalike.learning.losses.inputs import check_activations, is_number, labels_tensor, pairs_together

__all__ = ["dispersed_dsh", "dispersed_dsh_hierarchy", "dsh"]


def dsh(
    activations: Tensor,
    labels: Any = None,
    *,
    affinity: Any = None,
    margin: float | None = None,
    quantization: float = 0.01,
) -> Tensor:
    """Deep supervised hashing: pairs of a class at squared distance 0, others beyond a margin (Liu et al. 2016).

    The mean over pairs of half the squared distance, or half of what it lacks to `margin` (twice the number of bits:
    half of the bits differ); and `quantization` times how far the activations are from ±1.

    >>> dsh(torch.tensor([[1.0, 1], [1, 1], [-1, -1]]), [0, 0, 1])      # no pair is closer than it should be
    tensor(0.)
    """
    activations = check_activations(activations)
    n_bits = activations.shape[1]
    together = pairs_together(activations, labels, affinity)
    distances = torch.pdist(activations) ** 2
    apart = (_margin(margin, 2.0 * n_bits, n_bits) - distances).clamp(min=0)
    return _mean_of_pairs(torch.where(together, distances, apart) / 2, activations, quantization)


def dispersed_dsh(
    activations: Tensor,
    labels: Any = None,
    *,
    affinity: Any = None,
    margin: float | Literal["printed"] | None = None,
    near: float | None = None,
    far: float | None = None,
    quantization: float = 0.01,
) -> Tensor:
    """Deep supervised hashing that disperses: pairs of a class from `near` to `far` apart (Ding et al. 2018, eq. 20).

    Distances are sums of absolute differences, two for each bit that differs: `near` is a sixth of the number of bits,
    `far` a third, and `margin` the number of bits, which half of them reach. Printed is a margin of twice that, which
    asks that all bits differ and which more than two classes cannot reach: margin="printed".
    """
    activations = check_activations(activations)
    n_bits = activations.shape[1]
    together = pairs_together(activations, labels, affinity)
    distances = torch.pdist(activations, p=1)
    buffer = _outside(distances, *_buffer(near, far, n_bits / 6, n_bits / 3))
    apart = (_margin(margin, float(n_bits), n_bits) - distances).clamp(min=0)
    return _mean_of_pairs(torch.where(together, buffer, apart) / 2, activations, quantization)


def dispersed_dsh_hierarchy(
    activations: Tensor,
    labels: Any,
    coarse: Any,
    *,
    margin: float | Literal["printed"] | None = None,
    near: float | None = None,
    far: float | None = None,
    coarse_near: float | None = None,
    coarse_far: float | None = None,
    buffers: Literal["one", "printed"] = "one",
    quantization: float = 0.01,
) -> Tensor:
    """`dispersed_dsh` for classes within superclasses, each with distances of its own (Ding et al. 2018, eq. 25).

    labels: the class of each example; coarse: its superclass. Pairs of a class are `near` (a twelfth of the number of
    bits) to `far` (a sixth) apart, other pairs of a superclass `coarse_near` (a sixth) to `coarse_far` (a third), and
    all others beyond the margin. Printed is that a pair of a class pays for both distances, its class's and its
    superclass's, which by default meet in one point, far = coarse_near: buffers="printed". By default it pays for its
    class's alone.
    """
    choice("buffers", buffers, ("one", "printed"))
    activations = check_activations(activations)
    n_bits = activations.shape[1]
    same_class = pairs_together(activations, labels_tensor("labels", labels, activations), None)
    same_superclass = pairs_together(activations, labels_tensor("coarse", coarse, activations), None)
    distances = torch.pdist(activations, p=1)
    class_buffer = _outside(distances, *_buffer(near, far, n_bits / 12, n_bits / 6))
    superclass_buffer = _outside(distances, *_buffer(coarse_near, coarse_far, n_bits / 6, n_bits / 3))
    apart = (_margin(margin, float(n_bits), n_bits) - distances).clamp(min=0)
    by_superclass = torch.where(same_superclass, superclass_buffer, apart)
    of_class = class_buffer + by_superclass if buffers == "printed" else class_buffer
    penalties = torch.where(same_class, of_class, by_superclass)
    return _mean_of_pairs(penalties / 2, activations, quantization)


def _margin(margin: float | str | None, default: float, n_bits: int) -> float:
    if margin is None:
        return default
    if margin == "printed":
        return 2.0 * n_bits
    if not is_number(margin) or not 0 < float(margin) < float("inf"):
        raise InputError(f"margin must be above 0, or 'printed' for twice the number of bits, got {margin!r}")
    return float(margin)


def _buffer(near: float | None, far: float | None, default_near: float, default_far: float) -> tuple[float, float]:
    low, high = default_near if near is None else near, default_far if far is None else far
    if not (is_number(low) and is_number(high)) or not 0 <= low <= high:
        raise InputError(f"a class must reach from near to far: near is {low}, far is {high}")
    return low, high


def _outside(distances: Tensor, near: float, far: float) -> Tensor:
    """How far distances are from lying between near and far."""
    return (near - distances).clamp(min=0) + (distances - far).clamp(min=0)


def _mean_of_pairs(penalties: Tensor, activations: Tensor, quantization: float) -> Tensor:
    """Mean over pairs, of which each holds two examples that should be of ±1."""
    if not is_number(quantization) or not 0 <= quantization < float("inf"):
        raise InputError(f"quantization must be 0 or more, got {quantization}")
    return penalties.mean() + 2 * quantization * (activations.abs() - 1).abs().sum(1).mean()
