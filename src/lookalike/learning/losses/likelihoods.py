"""Losses that are likelihoods of pairs or triplets: how probable it is that who belongs together is nearer."""

import math
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.core.errors import InputError
from lookalike.learning.losses.inputs import ALPHA, affinity_rows, check_activations, is_number, relaxed_codes, tags_of

__all__ = ["dpsh", "dtsh", "hashnet"]


def dpsh(activations: Tensor, labels: Any = None, *, affinity: Any = None, quantization: float = 0.1) -> Tensor:
    """Deep pairwise-supervised hashing: pairs that belong together have a large inner product (Li et al. 2016).

    With Θ half the inner product of two examples' activations, the mean over pairs of log(1 + e^Θ), less Θ where they
    belong together; and `quantization` times the mean squared distance of activations from their signs.

    >>> dpsh(torch.tensor([[1.0, 1], [1, 1], [-1, -1]]), [0, 0, 1])     # log(1 + e^-1) for every pair
    tensor(0.3133)
    """
    activations = check_activations(activations)
    together, i, j = _pairs(activations, labels, affinity)
    halves = (activations @ activations.T)[i, j] / 2
    return (softplus(halves) - halves * together).mean() + _from_signs(activations, quantization)


def hashnet(
    activations: Tensor,
    labels: Any = None,
    *,
    affinity: Any = None,
    alpha: float | None = ALPHA,
    slope: float = 0.1,
) -> Tensor:
    """HashNet: the likelihood of pairs, weighed so that both kinds count alike, by codes tanh(alpha · activations).

    Cao et al. 2017. With x `slope` times the inner product of two codes, the mean over pairs of log(1 + e^x), less x
    where they belong together, each pair weighed by the number of pairs over those of its kind. Pairs that share tags
    are also weighed by the part of their tags that they share. alpha grows while it learns (`alpha_end` of training);
    None takes activations for relaxed codes.

    >>> hashnet(torch.tensor([[1.0, 1], [1, 1], [-1, -1]]), [0, 0, 1], slope=0.5)   # 2 log(1 + e^-1)
    tensor(0.6265)
    """
    codes = relaxed_codes(activations, alpha)
    if not is_number(slope) or not 0 < float(slope) < math.inf:
        raise InputError(f"slope must be above 0 and finite, got {slope}")
    together, i, j = _pairs(codes, labels, affinity)
    scaled = slope * (codes @ codes.T)[i, j]
    n_together = int(together.sum())
    n_of_kind = torch.where(together, n_together, len(together) - n_together)
    weights = len(together) / n_of_kind.to(codes.dtype)
    if labels is not None and (tags := tags_of(labels, codes)) is not None:
        shared = tags @ tags.T
        joined = (tags.sum(1)[:, None] + tags.sum(1) - shared)[i, j]
        weights = torch.where(together, weights * shared[i, j] / joined.clamp(min=1), weights)
    return (weights * (softplus(scaled) - scaled * together)).mean()


def dtsh(
    activations: Tensor,
    labels: Any = None,
    *,
    affinity: Any = None,
    margin: float | None = None,
    quantization: float = 1.0,
) -> Tensor:
    """Deep supervised hashing with triplets: who belongs to an example is nearer than who does not (Wang et al. 2016).

    With Θ half an inner product of activations, the mean over triplets (example, one of its own, another) of
    log(1 + e^(margin - Θ_own + Θ_other)), an example at a time, so that each that has triplets counts alike; and
    `quantization` times the mean squared distance of activations from their signs. margin: a quarter of the number of
    bits; all of the bits is the most that codes can reach.

    >>> dtsh(torch.tensor([[1.0, 1], [1, 1], [-1, -1]]), [0, 0, 1], margin=2)       # Θ are 1 and -1
    tensor(0.6931)
    """
    activations = check_activations(activations)
    n, n_bits = activations.shape
    margin = n_bits / 4 if margin is None else margin
    if not is_number(margin) or not 0 <= float(margin) < math.inf:
        raise InputError(f"margin must be 0 or more and finite, got {margin}")
    rows, _ = affinity_rows(activations, labels, affinity)
    own = rows(slice(None)) > 0
    own.fill_diagonal_(fill_value=False)
    other = ~own
    other.fill_diagonal_(fill_value=False)
    halves = activations @ activations.T / 2
    means = [
        softplus(margin - halves[i, own[i], None] + halves[i, other[i]]).mean()
        for i in range(n)
        if own[i].any() and other[i].any()
    ]
    if not means:
        warnings.warn(
            "no example of this batch has both one of its own and another: its triplets teach nothing; "
            "draw batches that hold several examples of several classes",
            RuntimeWarning,
            stacklevel=2,
        )
        return activations.sum() * 0 + _from_signs(activations, quantization)
    return torch.stack(means).mean() + _from_signs(activations, quantization)


def _pairs(activations: Tensor, labels: Any, affinity: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Which pairs i < j belong together (either finds the other relevant), and their rows i and j."""
    rows, _ = affinity_rows(activations, labels, affinity)
    related = rows(slice(None)) > 0
    i, j = torch.triu_indices(len(related), len(related), 1, device=related.device)
    return related[i, j] | related[j, i], i, j


def _from_signs(activations: Tensor, weight: float) -> Tensor:
    """How far activations are from their signs: the mean square, times a weight."""
    if not is_number(weight) or not 0 <= weight < math.inf:
        raise InputError(f"quantization must be 0 or more, got {weight}")
    return weight * (activations.abs() - 1).square().mean()
