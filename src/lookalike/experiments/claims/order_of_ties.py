"""Claim: mLGAP does not depend on the order of tied items, mAP does."""

from collections.abc import Iterable

import numpy as np

from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run
from lookalike.experiments.claims.material import LGAP, digits
from lookalike.hashers import make

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """How much the order of tied items can change mAP and mLGAP, for each hasher."""
    material = digits()
    labels = material.dataset.labels
    for name in run.settings["hashers"]:
        queries, gallery = material.codes(make(name, run.settings["bits"], 0))
        result = evaluate(queries, gallery, material.relevance, ["AP", *LGAP])
        ap = result["AP"]
        yield MeasuredNumber(
            f"{name}, mAP: best less worst order", ap.best - ap.worst, group="Range by the order of ties"
        )
        local = [result[metric] for metric in LGAP]
        values = {metric: [result[metric].mean] for metric in LGAP}
        for seed in run.settings["seeds"]:
            order = np.random.default_rng(seed).permutation(len(gallery))
            relevance = same_label(labels[material.split.queries], material.gallery_labels[order])
            again = evaluate(queries, gallery[order], relevance, LGAP)
            for metric in LGAP:
                values[metric].append(again[metric].mean)
        widest = max(float(np.ptp(of_metric)) for of_metric in values.values())
        widest = max(widest, *(score.best - score.worst for score in local))
        yield MeasuredNumber(
            f"{name}, mLGAP: best less worst order", widest, printed=0.0, group="Range by the order of ties"
        )


def judge(numbers: Numbers) -> list[Check]:
    """MLGAP stays the same; mAP can change by a hundredth and more."""
    still = all(number.value < 1e-12 for number in numbers if "mLGAP" in number.name)
    moves = all(number.value > 0.01 for number in numbers if "mAP" in number.name)
    return [
        Check("mLGAP@0 to @3 are the same for every order", still),
        Check("mAP can change by more than 0.01 for every hasher", moves),
    ]


CLAIM = PaperClaim(
    name="order-of-ties",
    title="mLGAP does not depend on the order of tied items, mAP does",
    paper="Ding et al. 2018",
    place="section 1, and section 4, eq. 10",
    says="mLGAP is not affected by the order of retrieved samples when codes collide; mAP differs significantly.",
    protocol="Hashers; mAP between its best and worst order of ties; mLGAP over shuffled galleries and its bounds.",
    data="handwritten digits, pixels: 178 queries, 1,619 items",
    criterion="mLGAP changes by less than 1e-12; mAP can change by more than 0.01.",
    settings={
        "quick": {"bits": 12, "hashers": ["LSH", "PCAH", "ITQ", "SpH"], "seeds": [0, 1]},
        "full": {
            "bits": 12,
            "hashers": ["LSH", "PCAH", "PCARR", "ITQ", "SH", "SKLSH", "SpH", "DensityDSH"],
            "seeds": list(range(20)),
        },
    },
    measure=measure,
    judge=judge,
)
