"""Claim: labels raise mAP and collapse the codes of a class onto few."""

from collections.abc import Iterable

import numpy as np

from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run, mean_of
from lookalike.experiments.claims.material import head, without_labels

LEARNED = ("dsh", "tie-aware-ap")
UNSUPERVISED = "ITQ"
LENGTHS = (12, 24)

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """MAP, use of codes, entropy, and the share of items on the ten fullest codes, with and without labels."""
    for n_bits in LENGTHS:
        runs = {}
        for loss in LEARNED:
            alpha = {"alpha": 1.0} if loss == "tie-aware-ap" else {}
            runs[loss] = [head(run, n_bits, seed, {"loss": loss, **alpha}) for seed in run.settings["seeds"]]
        runs[UNSUPERVISED] = [without_labels(run, UNSUPERVISED, n_bits)]
        for method, of_method in runs.items():
            group, ap = f"{n_bits} bits", np.mean([each["ap"] for each in of_method], axis=0)
            yield mean_of(f"{n_bits} bits, {method}, mAP", ap, group=f"mAP, {group}")
            for key, title in (("use", "share of possible codes used"), ("ten_fullest", "items on ten codes")):
                value = float(np.mean([each[key] for each in of_method]))
                yield MeasuredNumber(f"{n_bits} bits, {method}, {title}", value, group=f"{title.capitalize()}, {group}")


def judge(numbers: Numbers) -> list[Check]:
    """Labels raise mAP, fewer codes are used, and ten codes hold more items."""
    checks = []
    for n_bits in LENGTHS:
        plain = f"{n_bits} bits, {UNSUPERVISED}"
        for loss in LEARNED:
            own = f"{n_bits} bits, {loss}"
            better = numbers[f"{own}, mAP"].low > numbers[f"{plain}, mAP"].high
            fewer = all(
                sign * numbers[f"{own}, {title}"].value > sign * numbers[f"{plain}, {title}"].value
                for sign, title in ((-1, "share of possible codes used"), (1, "items on ten codes"))
            )
            checks.append(Check(f"{own} has a higher mAP than {UNSUPERVISED}", better))
            checks.append(Check(f"{own} uses fewer codes, and ten of them hold more items", fewer))
    return checks


CLAIM = PaperClaim(
    name="supervision-collapses",
    title="Labels raise mAP and collapse codes",
    paper="Ding et al. 2018",
    place="sections 1 and 2, figure 1",
    says="With labels more samples of a class share a code: mAP rises above 60 %, and the code space is used less.",
    protocol="Heads of 512 units by DSH and by tie-aware AP against ITQ, on the same embeddings.",
    data="CIFAR-10: a tenth of it (quick), or setting 1 of all (full); embeddings of EfficientNet-Lite0",
    criterion="Intervals of mAP lie apart; fewer of the possible codes are used, and the ten fullest hold more items.",
    settings={
        "quick": {"images": 6000, "training": 2000, "epochs": 20, "seeds": [0, 1]},
        "full": {"images": 60_000, "training": 5000, "epochs": 30, "seeds": [0, 1, 2, 3, 4]},
    },
    measure=measure,
    judge=judge,
)
