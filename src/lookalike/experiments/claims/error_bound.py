"""Claim: the logarithm that stands for a sum of inverse ranks is off by at most n/(2·N·(N + n))."""

from collections.abc import Iterable

import numpy as np

from lookalike.evaluation.count import count
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run
from lookalike.experiments.claims.material import digits
from lookalike.hashers import make

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """The error over its bound for all small counts, and for every tie group of real codes."""
    from lookalike.learning.as_printed import inverse_rank_error_bound, relaxed_ap_as_printed

    most = run.settings["most"]
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, 2 * most + 1))])
    before, items = np.meshgrid(np.arange(1, most + 1), np.arange(1, most + 1))
    error = np.abs(harmonic[before + items] - harmonic[before] - np.log((before + items) / before))
    ratio = error / inverse_rank_error_bound(before, items)
    yield MeasuredNumber("error over bound, largest", float(ratio.max()), printed=1.0, group="Error over its bound")
    yield MeasuredNumber("error over bound, mean", float(ratio.mean()), group="Error over its bound")
    yield MeasuredNumber("pairs of counts tried", float(ratio.size))
    material = digits()
    queries, gallery = material.codes(make("ITQ", run.settings["bits"], 0))
    counts = count(queries, gallery, material.relevance).counts
    n, relevant = counts.sum(2), counts[:, :, 1]
    first = (n.cumsum(1) - n == 0) & (n > 0)
    bounded = np.isfinite(inverse_rank_error_bound(n.cumsum(1) - n, n)).all(1)
    printed = relaxed_ap_as_printed(n, relevant)
    yield MeasuredNumber(
        "queries whose every tie group is bounded", float(bounded.mean()), group="Real codes, share of queries"
    )
    relevant_first = (relevant * first).any(1)
    yield MeasuredNumber("queries with something relevant in the first group", float(relevant_first.mean()),
                 group="Real codes, share of queries")  # fmt: skip
    yield MeasuredNumber("queries whose AP as printed is finite", float(np.isfinite(printed).mean()),
                 group="Real codes, share of queries")  # fmt: skip


def judge(numbers: Numbers) -> list[Check]:
    """The bound holds behind one item and more, and does not exist in front of all."""
    return [
        Check("behind at least one item the bound holds", numbers["error over bound, largest"].value <= 1 + 1e-9),
        Check(
            "every tie group of real codes is bounded", numbers["queries whose every tie group is bounded"].value == 1
        ),
    ]


CLAIM = PaperClaim(
    name="error-bound",
    title="The logarithm is off by no more than its bound",
    paper="He et al. 2018",
    place="section C, eq. 20 and 21",
    says="ln(N_d / N_(d−1)) is off by O(n_d / (2 N_(d−1) N_d)), in general still small.",
    protocol="All counts up to a size; then the tie groups of real codes by ITQ, whose first group has N_(d−1) = 0.",
    data="all pairs of counts; handwritten digits, pixels, 12 bits",
    criterion="The error never passes the bound with the constant 1; every tie group of real codes has a finite bound.",
    settings={"quick": {"most": 500, "bits": 12, "seeds": [0]}, "full": {"most": 5000, "bits": 12, "seeds": [0]}},
    measure=measure,
    judge=judge,
)
