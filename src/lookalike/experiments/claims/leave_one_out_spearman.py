"""Claim: Spearman's coefficient of leave-one-out shows that AUC is robust."""

from collections.abc import Iterable

import numpy as np

from lookalike.discovery import Contest, leave_one_out
from lookalike.experiments.claims.catalogues import FULL, QUICK, catalogues
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run

METRICS = {"AUC": "AUC", "HR": "VSDHR@{k}"}

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """Mean Spearman's coefficient of the models' order, and the change of the model itself, for AUC and a hit rate."""
    k = run.settings["k"]
    for shown in catalogues(run):
        pool = shown.pool(k)
        contest = Contest(shown.models, shown.collection, shown.judged(pool), depth=k, pool=pool, threads=1)
        for title, metric in METRICS.items():
            rows = leave_one_out(contest, pool, metric.format(k=k)).rows_
            printed = 0.92 if title == "AUC" else float("nan")  # micro, the mean of table 3
            spearman = [row.spearman for row in rows]
            yield MeasuredNumber(f"{shown.name}, {title}, Spearman", float(np.nanmean(spearman)), printed=printed,
                         group=f"Spearman, {shown.name}")  # fmt: skip
            yield MeasuredNumber(f"{shown.name}, {title}, lowest Spearman", float(np.nanmin(spearman)))
            yield MeasuredNumber(f"{shown.name}, {title}, own change", float(np.mean([row.change for row in rows])),
                         group=f"Change of the model left out, {shown.name}")  # fmt: skip


def judge(numbers: Numbers) -> list[Check]:
    """High for AUC; and lower for a hit rate, if it tells anything."""
    checks = []
    for area in numbers.ending("AUC, Spearman"):
        name = area.name.removesuffix(", AUC, Spearman")
        hits = numbers[f"{name}, HR, Spearman"]
        biased = abs(numbers[f"{name}, HR, own change"].value)
        checks.append(Check(f"{name}: AUC keeps the order of models (0.7 or more, as printed)", area.value >= 0.7))
        told = area.value - hits.value > 0.05
        words = f"{name}: the hit rate, which moves by {biased:.3f}, has a plainly lower coefficient"
        checks.append(Check(words, told))
        words = f"{name}: the hit rate falls below 0.7, which is printed as robust"
        checks.append(Check(words, hits.value < 0.7))
    return checks


CLAIM = PaperClaim(
    name="leave-one-out-spearman",
    title="Spearman’s leave-one-out shows that AUC is robust",
    paper="Barkan et al. 2023",
    place="section 6.3.1 and table 3",
    says="Without one generator's pairs the order of models hardly changes by AUC (0.70 to 1.00), so AUC is robust.",
    protocol="Each model's own pairs are dropped and all models ordered again, by AUC and by a biased hit rate.",
    data="each catalogue with labels: digits, Fashion-MNIST, CIFAR-10, and others where this version has them",
    criterion=(
        "Mean Spearman of AUC at least 0.7. If that is evidence, the coefficient of the biased hit rate is lower by "
        "0.05 or more, and below 0.7."
    ),
    settings={
        "quick": {**QUICK, "seeds": [0]},
        "full": {**FULL, "seeds": [0]},
    },
    measure=measure,
    judge=judge,
)
