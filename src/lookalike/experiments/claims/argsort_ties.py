"""Claim: an argsort of distances gives one of many possible mAP, and the tie-aware mean gives the one."""

from collections.abc import Iterable

import numpy as np

from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run
from lookalike.experiments.claims.material import digits
from lookalike.experiments.demo import argsort_map
from lookalike.hashers import make

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """MAP by an argsort in several orders of the same gallery, and the exact mean over all orders of ties."""
    material = digits()
    query_labels, gallery_labels = (
        material.dataset.labels[part] for part in (material.split.queries, material.split.gallery)
    )
    for n_bits in run.settings["bits"]:
        queries, gallery = material.codes(make("ITQ", n_bits, 0))
        orders = {"by class": np.argsort(gallery_labels, kind="stable")}
        for seed in run.settings["seeds"]:
            orders[f"shuffled {seed}"] = np.random.default_rng(seed).permutation(len(gallery))
        group = f"mAP, {n_bits} bits"
        exact = evaluate(queries, gallery, material.relevance, ["AP"])["AP"]
        yield MeasuredNumber(f"{n_bits} bits, exact mean", exact.mean, *exact.interval(resamples=500), group=group)
        yield MeasuredNumber(f"{n_bits} bits, worst order", exact.worst, group=group)
        yield MeasuredNumber(f"{n_bits} bits, best order", exact.best, group=group)
        changes = []
        for name, order in orders.items():
            labels = gallery_labels[order]
            again = evaluate(queries, gallery[order], same_label(query_labels, labels), ["AP"])["AP"].mean
            changes.append(abs(again - exact.mean))
            value = argsort_map(queries, gallery[order], query_labels, labels)
            yield MeasuredNumber(f"{n_bits} bits, argsort, gallery {name}", value, group=group)
        yield MeasuredNumber(f"{n_bits} bits, change of the exact mean", max(changes))


def judge(numbers: Numbers) -> list[Check]:
    """An argsort depends on the order of the gallery and stays within the bounds; the exact mean does not depend."""
    checks, errors = [], []
    for exact in numbers.ending("exact mean"):
        if "change" in exact.name:
            continue
        codes = exact.name.removesuffix(", exact mean")
        sorted_by = [number.value for number in numbers.starting(f"{codes}, argsort")]
        low, high = numbers[f"{codes}, worst order"].value, numbers[f"{codes}, best order"].value
        within = all(low - 1e-9 <= value <= high + 1e-9 for value in sorted_by)
        errors.append(max(abs(value - exact.value) for value in sorted_by))
        checks.append(Check(f"{codes}: an argsort gives other numbers for other orders", np.ptp(sorted_by) > 1e-4))
        checks.append(Check(f"{codes}: all are between the worst and the best order", within))
        same = numbers[f"{codes}, change of the exact mean"].value < 1e-9
        checks.append(Check(f"{codes}: the exact mean is the same for every order", same))
    checks.append(Check("the shorter the codes, the more an argsort is off", errors == sorted(errors, reverse=True)))
    return checks


CLAIM = PaperClaim(
    name="argsort-ties",
    title="An argsort gives one of many possible mAP",
    paper="He et al. 2018",
    place="section A, eq. 1 to 3, after McSherry and Najork 2008",
    says="Codes tie many items; a metric that breaks ties arbitrarily is not well defined: average over all orders.",
    protocol="Codes by ITQ; mAP by an argsort of the same codes, the gallery stored by class and shuffled; exact mean.",
    data="handwritten digits, pixels: 178 queries, 1,619 items",
    criterion="Argsort changes with the order, within exact bounds; the exact mean does not; short codes suffer more.",
    settings={
        "quick": {"bits": [8, 12, 24, 48], "seeds": [0, 1]},
        "full": {"bits": [8, 12, 24, 32, 48, 60], "seeds": list(range(10))},
    },
    measure=measure,
    judge=judge,
)
