"""Losses of rankings under ties: each example of a batch ranks the others by relaxed Hamming distance."""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import InputError
from lookalike.learning import relaxed_metrics
from lookalike.learning.losses.inputs import ALPHA, MOST, affinity_rows, relaxed_codes
from lookalike.learning.soft_tally import Ranking, RankingLoss

Relaxation = Literal["exact", "paper"]

__all__ = ["mihash", "tie_aware_ap", "tie_aware_dcg"]


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
    codes = relaxed_codes(activations, alpha)
    rows, n_levels = affinity_rows(codes, labels, affinity)
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
    codes = relaxed_codes(activations, alpha)
    rows, n_levels = affinity_rows(codes, labels, affinity)
    grades = torch.arange(n_levels, dtype=torch.float64)
    gains = 2**grades - 1 if gain == "exponential" else grades
    return _rank(codes, rows, gains, relaxed_metrics.DISCOUNTED_GAIN[discount], relaxation, compiled)


def mihash(
    activations: Tensor,
    labels: Any = None,
    *,
    affinity: Any = None,
    alpha: float | None = ALPHA,
    rel: int = 1,
    compiled: bool | None = None,
) -> Tensor:
    """Minus the mutual information of Hamming distance and relevance, in nats: MIHash (Cakir et al. 2017).

    Each example of a batch counts the others by their distance in the relaxed codes tanh(alpha · activations), those
    that are relevant to it and those that are not. The more the distance tells which of the two one is, the better.
    Examples to which nothing, or everything, is relevant are left out of the mean. The rest is as in `tie_aware_ap`.

    >>> mihash(torch.tensor([[1.0, 1], [1, 1], [-1, -1], [-1, -1]]), [0, 0, 1, 1])  # all is told: -log(3) + 2/3 log(2)
    tensor(-0.6365)
    """
    whole_number("rel", rel, 1, MOST)
    codes = relaxed_codes(activations, alpha)
    rows, n_levels = affinity_rows(codes, labels, affinity)
    if n_levels > 2 or rel != 1:
        rows, graded = (lambda block: (graded(block) >= rel).to(torch.uint8)), rows
    gains = torch.tensor([0.0, 1.0])
    return _rank(codes, rows, gains, relaxed_metrics.MUTUAL_INFORMATION, "exact", compiled) - 1


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
