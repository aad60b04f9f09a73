"""Ways to count average precision, as scripts differ in them, and the scripts that people use."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.metrics.average_precision import NORMS

ALL_BUT_LAST = -1  # the cut of `ranked[:-1]`

__all__ = ["ALL_BUT_LAST", "Script", "Way", "scripts_of", "ways_of"]


@dataclass(frozen=True)
class Way:
    """A way to count AP: how many ranks count, what divides the sum, and what a query without a hit counts.

    cut: None for all ranks, -1 for all but the last one (the slice `[:topK]` with topK = -1), or the first k.
    norm: "retrieved", "total" or "min", as `AP` has them. empty: queries with nothing relevant in these ranks count
    "zero", or are left out ("skip"). first: whether the item at rank 1 counts.

    >>> str(Way(1000, "total")), str(Way(ALL_BUT_LAST)), str(Way(None, first=False))
    ("AP(norm='total')@1000", 'AP, last rank left out', 'AP, first rank left out')
    """

    cut: int | None = None
    norm: str = "retrieved"
    empty: str = "zero"
    first: bool = True

    @property
    def metric(self) -> str:
        """The metric whose expectation, best and worst belong to it; only for ways that are one."""
        if self.cut is None:
            return "AP"
        skip = ", empty='skip'" if self.empty == "skip" else ""
        return f"AP(norm={self.norm!r}{skip})@{self.cut}"

    def __str__(self) -> str:
        if not self.first:
            return f"AP{'' if self.cut is None else f'@{self.cut}'}, first rank left out"
        if self.cut == ALL_BUT_LAST:
            return "AP, last rank left out"
        return "AP, empty queries left out" if self.cut is None and self.empty == "skip" else self.metric

    def mean(self, sums: np.ndarray, hits: np.ndarray, opening: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """The mean over queries, of each order of the ties, (n_orders,); nan if no query counts.

        sums, hits: (n_queries, n_orders), of the precisions at the relevant items of the cut, and how many these are.
        opening: whether the item at rank 1 is relevant, likewise. totals: (n_queries,), all relevant items.
        """
        divisor = hits
        if self.norm != "retrieved":
            assert self.cut is not None
            most = totals if self.norm == "total" else np.minimum(totals, self.cut)
            divisor = np.broadcast_to(most[:, None], hits.shape)
        part = sums if self.first else sums - opening
        values = np.divide(part, divisor, out=np.zeros(part.shape), where=divisor > 0)
        counted = np.ones(hits.shape) if self.empty == "zero" else hits > 0
        weight = counted.sum(0)
        return np.divide((values * counted).sum(0), weight, out=np.full(len(weight), np.nan), where=weight > 0)


@dataclass(frozen=True)
class Script:
    """A script that people use: its name, whose it is, in which order it leaves ties, and how it counts.

    order: a name of `orders.ORDERS`, or "threshold" where a tie group is one step.
    """

    name: str
    source: str
    order: str
    way: Way


def ways_of(cutoffs: Sequence[int]) -> list[Way]:
    """Every way to count, with and without each cutoff."""
    ways = [Way(), Way(empty="skip"), Way(ALL_BUT_LAST), Way(first=False)]
    for k in cutoffs:
        ways += [Way(k, norm, empty) for norm in NORMS for empty in ("zero", "skip")]
        ways.append(Way(k, first=False))
    return ways


def scripts_of(cutoffs: Sequence[int]) -> list[Script]:
    """The scripts, with and without each cutoff."""
    deep_hash, hash_net = "DeepHash-pytorch, utils/tools.py (CalcTopMap)", "Cao et al. 2017, test.py"
    mi_hash, deep_mi_hash = "Cakir et al. 2017, evaluate.m", "Cakir et al. 2019, evaluate_AP.m"
    scripts = [
        Script("DeepHash-pytorch, topK=-1", deep_hash, "numpy", Way(ALL_BUT_LAST)),
        Script("MIHash, mAP", mi_hash, "stored", Way(empty="skip")),
        Script("deep-mihash, AP", deep_mi_hash, "stored", Way(first=False)),
        Script("trec_eval, map", "trec_eval", "names", Way()),
        Script("scikit-learn, average_precision_score", "Pedregosa et al. 2011", "threshold", Way()),
    ]
    for k in cutoffs:
        scripts += [
            Script(f"DeepHash-pytorch, topK={k}", deep_hash, "numpy", Way(k)),
            Script(f"HashNet, R={k}", hash_net, "numpy", Way(k, empty="skip")),
            Script(f"MIHash, mAP_{k}", mi_hash, "stored", Way(k, empty="skip")),
            Script(f"deep-mihash, AP@{k}", deep_mi_hash, "stored", Way(k, first=False)),
            Script(f"trec_eval, map_cut_{k}", "trec_eval", "names", Way(k, "total")),
        ]
    return scripts
