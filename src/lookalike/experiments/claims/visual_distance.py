"""Claim: inside a class, codes that are spread out follow visual distance."""

from collections.abc import Iterable

import numpy as np

from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run, mean_of
from lookalike.experiments.claims.dispersion import LOSSES, PLAIN
from lookalike.experiments.claims.material import head

DISPERSED = ("dispersed, margin b", "dispersed, printed margin")
DISTANCES = {"embeddings": "within", "pixels": "within_pixels"}
LENGTHS = (12, 24)

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """Rank correlation of Hamming distance and distance of embeddings or pixels inside each class."""
    for n_bits in LENGTHS:
        for space, key in DISTANCES.items():
            values = {}
            for name in (PLAIN, *DISPERSED):
                target, options = LOSSES[name]
                heads = [head(run, n_bits, seed, options, target)[key] for seed in run.settings["seeds"]]
                values[name] = np.mean(np.array(heads, float), axis=0)  # of each class
                group = f"Rank correlation with {space}, {n_bits} bits"
                yield mean_of(f"{n_bits} bits, {space}, {name}", values[name], group=group)
            for name in DISPERSED:
                yield mean_of(f"{n_bits} bits, {space}, {name} less {PLAIN}", values[name] - values[PLAIN])


def judge(numbers: Numbers) -> list[Check]:
    """Correlations are above 0, and higher with dispersion."""
    checks = []
    for n_bits in LENGTHS:
        for space in DISTANCES:
            for name in DISPERSED:
                own = f"{n_bits} bits, {space}, {name}"
                checks.append(Check(f"{own}: Hamming distance follows visual distance", numbers[own].low > 0))
                more = numbers[f"{own} less {PLAIN}"].low > 0
                checks.append(Check(f"{own}: and more closely than by {PLAIN}", more))
    return checks


CLAIM = PaperClaim(
    name="visual-distance",
    title="Inside a class, Hamming distance follows visual distance",
    paper="Ding et al. 2018",
    place="section 4.1 and figure 7",
    says="Codes that fill the space leave room for distinctions inside a class: near codes, similar pictures.",
    protocol="Spearman's correlation of Hamming distance and of distance in features, in each class, over all pairs.",
    data="CIFAR-10: a tenth of it (quick), or setting 1 of all (full); heads as in the claim dispersion",
    criterion="The 95 % interval over classes is above 0, for the correlation and for what dispersion adds to DSH.",
    settings={
        "quick": {"images": 6000, "training": 2000, "epochs": 20, "seeds": [0, 1]},
        "full": {"images": 60_000, "training": 5000, "epochs": 150, "seeds": [0, 1, 2, 3, 4]},
    },
    measure=measure,
    judge=judge,
)
