"""Claim: models of different training propose different candidates."""

from collections.abc import Iterable

import numpy as np

from lookalike.experiments.claims.catalogues import FULL, QUICK, catalogues
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """Overlap of each two models, its mean, and the share of proposals that are repeats."""
    for shown in catalogues(run):
        pool = shown.pool(run.settings["k"])
        overlap = pool.overlap
        pairs = [(i, j) for i in range(len(overlap)) for j in range(i)]
        for i, j in pairs:
            yield MeasuredNumber(f"{shown.name}, {pool.models[i]} and {pool.models[j]}", float(overlap[i, j]),
                         group=f"Overlap, {shown.name}")  # fmt: skip
        yield MeasuredNumber(
            f"{shown.name}, mean overlap", float(np.mean([overlap[pair] for pair in pairs])), printed=0.10
        )
        yield MeasuredNumber(f"{shown.name}, repeats", pool.duplication, printed=0.18)
        yield MeasuredNumber(
            f"{shown.name}, candidates a query", pool.suspects / shown.collection.n_queries, printed=24.4
        )


def judge(numbers: Numbers) -> list[Check]:
    """Little overlap, few repeats."""
    checks = []
    for mean in numbers.ending(", mean overlap"):
        name = mean.name.removesuffix(", mean overlap")
        checks.append(Check(f"{name}: the mean overlap is below a fifth", mean.value < 0.2))
        checks.append(Check(f"{name}: less than a third are repeats", numbers[f"{name}, repeats"].value < 1 / 3))
    return checks


CLAIM = PaperClaim(
    name="generator-overlap",
    title="Models propose different candidates",
    paper="Barkan et al. 2023",
    place="section 6.2 and table 2",
    says="The overlap of two generators is about 10 % on average (3.8 to 27.6 %), and 18 % of candidates are repeats.",
    protocol="The top 6 of every model that can run: networks, pixels, colours, image hashes, and codes of them.",
    data="each catalogue with labels: digits, Fashion-MNIST, CIFAR-10, and others where this version has them",
    criterion="The mean overlap is below 0.20 and repeats are below a third: twice the printed figures at most.",
    settings={
        "quick": {**QUICK, "seeds": [0]},
        "full": {**FULL, "seeds": [0]},
    },
    measure=measure,
    judge=judge,
)
