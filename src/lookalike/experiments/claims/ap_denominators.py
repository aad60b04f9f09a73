"""Claim: AP@p has three denominators, and on the same codes they are three numbers."""

from collections.abc import Iterable

from lookalike.evaluation.evaluate import evaluate
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run
from lookalike.experiments.claims.material import NETWORK, digits, images
from lookalike.hashers import make

NORMS = ("retrieved", "min", "total")

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """AP@p of the same codes by each denominator, and what ties could make of the usual one."""
    p = run.settings["p"]
    metrics = [f"AP(norm={norm!r})@{p}" for norm in NORMS]
    for name in ("digits", "CIFAR-10"):
        material = digits() if name == "digits" else images("cifar10", run.settings["images"], NETWORK, 0)
        for n_bits in run.settings["bits"]:
            queries, gallery = material.codes(make("ITQ", n_bits, 0))
            result = evaluate(queries, gallery, material.relevance, metrics)
            group = f"AP@{p}, {name}, {n_bits} bits"
            for norm, metric in zip(NORMS, metrics, strict=True):
                score = result[metric]
                yield MeasuredNumber(
                    f"{name}, {n_bits} bits, {norm}", score.mean, *score.interval(resamples=500), group=group
                )
            score = result[metrics[0]]
            yield MeasuredNumber(f"{name}, {n_bits} bits, range by ties", score.best - score.worst)


def judge(numbers: Numbers) -> list[Check]:
    """The denominators differ, and by more than ties do."""
    checks = []
    for tied in numbers.ending("range by ties"):
        codes = tied.name.removesuffix(", range by ties")
        values = [numbers[f"{codes}, {norm}"].value for norm in NORMS]
        apart = max(values) - min(values)
        checks.append(Check(f"{codes}: three numbers", len({round(value, 3) for value in values}) == len(NORMS)))
        checks.append(Check(f"{codes}: they differ by more than the order of ties can change one", apart > tied.value))
    return checks


CLAIM = PaperClaim(
    name="ap-denominators",
    title="AP@p is three different numbers",
    paper="Two evaluation sections without a title",
    place="eq. 2 of both; He et al. 2018, eq. 1; Ding et al. 2018, eq. 4",
    says="The sections and Ding et al. divide by the relevant items among the top p, He et al. by all relevant items.",
    protocol="Codes by ITQ; AP@p of the same codes divided by the relevant items retrieved, by at most p, and by all.",
    data="handwritten digits, pixels; CIFAR-10, embeddings of EfficientNet-Lite0",
    criterion="Rounded to three digits the numbers differ, and by more than the best and the worst order of ties.",
    settings={
        "quick": {"bits": [12, 48], "p": 100, "images": 6000, "seeds": [0]},
        "full": {"bits": [12, 24, 48, 60], "p": 1000, "images": 60_000, "seeds": [0]},
    },
    measure=measure,
    judge=judge,
)
