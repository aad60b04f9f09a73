"""Losses of a batch of activations, to learn hash functions with: ranking metrics under ties, and pairs with a margin.

Each takes activations (n_examples, n_bits): real numbers, their signs become the bits. Which examples belong together
is given by `labels` or by `affinity`:

labels: one for each example; or a 0/1 matrix of tags (n_examples, tags), where the grade is the number shared.
affinity: grades (n_examples, n_examples), whole numbers from 0; row i says how relevant the others are to i, which need
not be mutual. The diagonal is ignored.

Each returns a scalar to minimise, on any device, and is computed in float32 at least, under autocast too.
"""

import inspect
import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import InputError, InputTypeError
from lookalike.learning import relaxed_metrics
from lookalike.learning.labels import check_labels, check_tags
from lookalike.learning.soft_tally import Ranking, RankingLoss

MOST = 255  # the highest grade, as grades are bytes; more shared tags than that count as so many
ALPHA = 40.0  # He et al. 2018, supplement D
Relaxation = Literal["exact", "paper"]

__all__ = [
    "DSH",
    "DispersedDSH",
    "DispersedDSHHierarchy",
    "TieAwareAP",
    "TieAwareDCG",
    "dispersed_dsh",
    "dispersed_dsh_hierarchy",
    "dsh",
    "tie_aware_ap",
    "tie_aware_dcg",
]


def tie_aware_ap(
    activations: Tensor,
    labels: Any = None,
    *,
    affinity: Any = None,
    alpha: float | None = ALPHA,
    rel: int = 1,
    relaxation: Relaxation = "exact",
    compiled: bool | None = None,
) -> Tensor:
    """1 - the mean AP of the batch, each example ranking the others by the relaxed codes tanh(alpha · activations).

    He et al. 2018. On binary codes this is the tie-aware AP itself; between them it is smooth ("exact"), or, with
    relaxation="paper", has the logarithms that are printed there, with both limits of each shifted by 1/2 to keep
    them finite (`lookalike.learning.relaxed_ap_as_printed` shifts nothing). Relevant is what has a grade of at least
    `rel`; examples to which nothing is relevant are left out of the mean. alpha=None takes activations for relaxed
    codes in [-1, 1]. compiled: use the compiled loops; None: on CPU tensors.

    >>> codes = torch.tensor([[1.0, 1], [1, 1], [1, -1], [-1, -1]])
    >>> tie_aware_ap(codes, [0, 0, 1, 1])           # one finds its own in a tie: 1 - (1 + 1 + (1 + 1/2 + 1/3)/3 + 1)/4
    tensor(0.0972)
    """
    whole_number("rel", rel, 1, MOST)
    codes = _relaxed_codes(activations, alpha)
    rows, n_levels = _affinity(codes, labels, affinity)
    if n_levels > 2 or rel != 1:
        rows, graded = (lambda block: (graded(block) >= rel).to(torch.uint8)), rows
    return _rank(codes, rows, torch.tensor([0.0, 1.0]), relaxed_metrics.AVERAGE_PRECISION, relaxation, compiled)


def tie_aware_dcg(
    activations: Tensor,
    labels: Any = None,
    *,
    affinity: Any = None,
    alpha: float | None = ALPHA,
    gain: Literal["exponential", "linear"] = "exponential",
    discount: Literal["log2", "reciprocal"] = "log2",
    relaxation: Relaxation = "exact",
    compiled: bool | None = None,
) -> Tensor:
    """1 - the mean nDCG of the batch, each example ranking the others by the relaxed codes tanh(alpha · activations).

    He et al. 2018. gain: 2^grade - 1, or the grade itself ("linear"). discount: of a rank, 1/log2(rank + 1), or 1/rank
    ("reciprocal", their footnote 1). The rest is as in `tie_aware_ap`; the printed relaxation has the logarithmic
    integral for the sum of discounts, of 1/rank the logarithm, with limits shifted by 1/2.

    >>> codes = torch.tensor([[1.0, 1], [1, 1], [1, -1], [-1, -1]])
    >>> tie_aware_dcg(codes, [0, 0, 1, 1])          # 1 - (1 + 1 + (1 + 1/log2(3) + 1/2)/3 + 1)/4
    tensor(0.0724)
    """
    choice("gain", gain, ("exponential", "linear"))
    choice("discount", discount, tuple(relaxed_metrics.DISCOUNTED_GAIN))
    codes = _relaxed_codes(activations, alpha)
    rows, n_levels = _affinity(codes, labels, affinity)
    grades = torch.arange(n_levels, dtype=torch.float64)
    gains = 2**grades - 1 if gain == "exponential" else grades
    return _rank(codes, rows, gains, relaxed_metrics.DISCOUNTED_GAIN[discount], relaxation, compiled)


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
    activations = _check(activations)
    n_bits = activations.shape[1]
    together = _pairs_together(activations, labels, affinity)
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
    activations = _check(activations)
    n_bits = activations.shape[1]
    together = _pairs_together(activations, labels, affinity)
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
    activations = _check(activations)
    n_bits = activations.shape[1]
    same_class = _pairs_together(activations, _labels("labels", labels, activations), None)
    same_superclass = _pairs_together(activations, _labels("coarse", coarse, activations), None)
    distances = torch.pdist(activations, p=1)
    class_buffer = _outside(distances, *_buffer(near, far, n_bits / 12, n_bits / 6))
    superclass_buffer = _outside(distances, *_buffer(coarse_near, coarse_far, n_bits / 6, n_bits / 3))
    apart = (_margin(margin, float(n_bits), n_bits) - distances).clamp(min=0)
    by_superclass = torch.where(same_superclass, superclass_buffer, apart)
    of_class = class_buffer + by_superclass if buffers == "printed" else class_buffer
    penalties = torch.where(same_class, of_class, by_superclass)
    return _mean_of_pairs(penalties / 2, activations, quantization)


class _Loss(nn.Module):
    """A loss with its options."""

    function: Callable[..., Tensor]

    def __init__(self, **options: Any) -> None:
        super().__init__()
        inspect.signature(self.function).bind_partial(
            **options
        )  # raises for a misspelt option now, not in the first step
        self.options = options

    def forward(self, activations: Tensor, *labels: Any, **named: Any) -> Tensor:
        """The loss of a batch."""
        return self.function(activations, *labels, **self.options, **named)

    def extra_repr(self) -> str:
        """The options of the loss."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


class TieAwareAP(_Loss):
    """`tie_aware_ap` as a module: TieAwareAP(alpha=40)(activations, labels)."""

    function = staticmethod(tie_aware_ap)


class TieAwareDCG(_Loss):
    """`tie_aware_dcg` as a module."""

    function = staticmethod(tie_aware_dcg)


class DSH(_Loss):
    """`dsh` as a module."""

    function = staticmethod(dsh)


class DispersedDSH(_Loss):
    """`dispersed_dsh` as a module."""

    function = staticmethod(dispersed_dsh)


class DispersedDSHHierarchy(_Loss):
    """`dispersed_dsh_hierarchy` as a module: DispersedDSHHierarchy()(activations, labels, coarse)."""

    function = staticmethod(dispersed_dsh_hierarchy)


def _check(activations: Tensor) -> Tensor:
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


def _relaxed_codes(activations: Tensor, alpha: float | None) -> Tensor:
    activations = _check(activations)
    if alpha is None:
        if activations.abs().max() > 1:
            raise InputError("with alpha=None activations must be relaxed codes from -1 to 1: pass alpha, such as 40")
        return activations
    if not _is_number(alpha) or not 0 < alpha <= 1e30:  # more is infinite in float32
        raise InputError(f"alpha must be above 0 and finite, got {alpha}")
    return torch.tanh(alpha * activations)


def _affinity(codes: Tensor, labels: Any, affinity: Any) -> tuple[Callable[[slice], Tensor], int]:
    """The grades of a block of queries, (n_queries, n_examples) of uint8, and how many grades there may be."""
    if (labels is None) == (affinity is None):
        raise InputError("pass either labels or affinity" + (", not both" if labels is not None else ""))
    if affinity is not None:
        matrix = _grades(affinity, codes)
        return (lambda rows: matrix[rows]), max(2, int(matrix.max()) + 1)
    marks = _labels("labels", labels, codes)
    if marks.ndim == 1:
        return (lambda rows: (marks[rows, None] == marks).to(torch.uint8)), 2
    check_tags(marks)
    tags = marks.float()
    most = min(MOST, int(tags.sum(1).max()))
    return (lambda rows: (tags[rows] @ tags.T).clamp_(max=MOST).to(torch.uint8)), max(2, most + 1)


def _labels(name: str, labels: Any, codes: Tensor) -> Tensor:
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


def _rank(
    codes: Tensor,
    levels: Callable[[slice], Tensor],
    gains: Tensor,
    metric: relaxed_metrics.RelaxedMetric,
    relaxation: str,
    compiled: bool | None,
) -> Tensor:
    choice("relaxation", relaxation, relaxed_metrics.RELAXATIONS)
    if compiled and codes.device.type != "cpu":
        raise InputError(f"compiled loops are for CPU tensors, these are on {codes.device}")
    ranking = Ranking(
        levels,
        gains.to(codes.device, torch.float64),
        metric,
        relaxation == "exact",
        codes.device.type == "cpu" if compiled is None else compiled,
    )
    with torch.autocast(codes.device.type, enabled=False):
        loss, n_queries = RankingLoss.apply(codes, ranking)  # type: ignore[no-untyped-call]
    if not n_queries:
        warnings.warn(
            "no example of this batch has a relevant other: its loss is 0 and teaches nothing; "
            "draw batches that hold several examples of a class",
            RuntimeWarning,
            stacklevel=3,
        )
    return loss


def _pairs_together(activations: Tensor, labels: Any, affinity: Any) -> Tensor:
    """Which pairs i < j belong together, in the order of torch.pdist: either finds the other relevant."""
    rows, _ = _affinity(activations, labels, affinity)
    together = rows(slice(None)) > 0
    i, j = torch.triu_indices(len(together), len(together), 1, device=together.device)
    return together[i, j] | together[j, i]


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) or (isinstance(value, Tensor | np.ndarray) and math.prod(value.shape) == 1)


def _margin(margin: float | str | None, default: float, n_bits: int) -> float:
    if margin is None:
        return default
    if margin == "printed":
        return 2.0 * n_bits
    if not _is_number(margin) or not 0 < float(margin) < float("inf"):
        raise InputError(f"margin must be above 0, or 'printed' for twice the number of bits, got {margin!r}")
    return float(margin)


def _buffer(near: float | None, far: float | None, default_near: float, default_far: float) -> tuple[float, float]:
    low, high = default_near if near is None else near, default_far if far is None else far
    if not (_is_number(low) and _is_number(high)) or not 0 <= low <= high:
        raise InputError(f"a class must reach from near to far: near is {low}, far is {high}")
    return low, high


def _outside(distances: Tensor, near: float, far: float) -> Tensor:
    """How far distances are from lying between near and far."""
    return (near - distances).clamp(min=0) + (distances - far).clamp(min=0)


def _mean_of_pairs(penalties: Tensor, activations: Tensor, quantization: float) -> Tensor:
    """Mean over pairs, of which each holds two examples that should be of ±1."""
    if not _is_number(quantization) or not 0 <= quantization < float("inf"):
        raise InputError(f"quantization must be 0 or more, got {quantization}")
    return penalties.mean() + 2 * quantization * (activations.abs() - 1).abs().sum(1).mean()
