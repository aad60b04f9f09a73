"""Claim: items that models rank from 100 to 500 can stand for judged negatives."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lookalike.discovery import Contest
from lookalike.discovery.bias import agree
from lookalike.experiments.claims.catalogues import FULL, QUICK, catalogues
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run

KINDS = {"judged": "AUC", "sampled": "AUC(negatives='sampled')"}
PRINTED = {"judged": 0.801, "sampled": 0.845}  # macro, the mean of the six generators of table 5

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """AUC by both kinds of negatives, how truly each orders models, and how many sampled ones are positive."""
    k = run.settings["k"]
    for shown in catalogues(run):
        pool = shown.pool(k)
        contest = Contest(
            shown.models, shown.collection, shown.judged(pool), depth=k, negatives=100, pool=pool, threads=1
        )
        wrong = shown.truth[contest.sampled_queries, contest.sampled_items]
        share = float(wrong.mean()) if len(wrong) else float("nan")
        yield MeasuredNumber(f"{shown.name}, sampled ones that are positive", share, printed=0.0)
        values: dict[str, NDArray[np.float64]] = {}
        true = np.array([shown.true_ap(name) for name in shown.models])
        for kind, metric in KINDS.items():
            values[kind] = np.array([contest.evaluate(name, [metric])[metric].mean for name in shown.models])
            mean = float(values[kind].mean())
            yield MeasuredNumber(f"{shown.name}, AUC, {kind}", mean, printed=PRINTED[kind], group=f"AUC, {shown.name}")
            tau = agree(values[kind], true)[2]
            group = f"Kendall's tau with true AP, {shown.name}"
            yield MeasuredNumber(f"{shown.name}, Kendall's tau with true AP, {kind}", tau, group=group)


def judge(numbers: Numbers) -> list[Check]:
    """Higher AUC, negatives that are negative, and an order of models that is at least as true."""
    checks = []
    for positive in numbers.ending("sampled ones that are positive"):
        name = positive.name.removesuffix(", sampled ones that are positive")
        higher = numbers[f"{name}, AUC, sampled"].value > numbers[f"{name}, AUC, judged"].value
        taus = [numbers[f"{name}, Kendall's tau with true AP, {kind}"].value for kind in KINDS]
        checks.append(Check(f"{name}: AUC is higher with sampled negatives", higher))
        checks.append(Check(f"{name}: 99 % of the sampled ones are negative", positive.value <= 0.01))
        checks.append(Check(f"{name}: sampled negatives order models at least as truly", taus[1] >= taus[0] - 1e-9))
    return checks


CLAIM = PaperClaim(
    name="sampled-negatives",
    title="Items of ranks 100 to 500 can stand for judged negatives",
    paper="Barkan et al. 2023",
    place="section 6.4 and table 5",
    says="Negatives drawn from ranks 100 to 500, taken for negative without judging; AUC is then mostly higher.",
    protocol="AUC of every model with judged and with sampled negatives; labels say which sampled ones are positive.",
    data="each catalogue with labels: digits, Fashion-MNIST, CIFAR-10, and others where this version has them",
    criterion="AUC is higher, 99 % are negative, and Kendall's tau with the order by true AP is no lower.",
    settings={
        "quick": {**QUICK, "seeds": [0]},
        "full": {**FULL, "seeds": [0]},
    },
    measure=measure,
    judge=judge,
)
