"""Claim: letting α of tanh(α·f) grow while learning is better than a fixed one."""

from collections.abc import Iterable

import numpy as np

from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run, mean_of
from lookalike.experiments.claims.material import head

ALPHAS = {"α = 40": {"alpha": 40.0}, "α = 1": {"alpha": 1.0}, "α from 1 to 40": {"alpha": 1.0, "alpha_end": 40.0}}
GROWING = "α from 1 to 40"
PRINTED = {"α = 40": (0.732, 0.789, 0.800, 0.826), GROWING: (0.751, 0.804, 0.813, 0.830)}
LENGTHS = (12, 24, 32, 48)

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """MAP of each α at each length, and what growing adds to each fixed one, paired over queries."""
    for position, n_bits in enumerate(LENGTHS):
        values = {}
        for name, alpha in ALPHAS.items():
            heads = [head(run, n_bits, seed, {"loss": "tie-aware-ap", **alpha})["ap"] for seed in run.settings["seeds"]]
            values[name] = np.mean(heads, axis=0)
            printed = PRINTED[name][position] if name in PRINTED else float("nan")
            yield mean_of(f"{n_bits} bits, {name}", values[name], printed=printed, group=f"mAP, {n_bits} bits")
        for name in ALPHAS:
            if name != GROWING:
                printed = PRINTED[GROWING][position] - PRINTED[name][position] if name in PRINTED else float("nan")
                yield mean_of(f"{n_bits} bits, growing less {name}", values[GROWING] - values[name], printed=printed)


def judge(numbers: Numbers) -> list[Check]:
    """Growing is better than the printed fixed α, and than the fixed one that suits the features."""
    return [
        Check(f"{n_bits} bits: growing is better than {name}", numbers[f"{n_bits} bits, growing less {name}"].low > 0)
        for n_bits in LENGTHS
        for name in ALPHAS
        if name != GROWING
    ]


CLAIM = PaperClaim(
    name="growing-alpha",
    title="A growing α is better than a fixed one",
    paper="He et al. 2018",
    place="section D",
    says="On CIFAR-10, setting 1, increasing α over time beats α = 40 at every length.",
    protocol=(
        "A head of 512 units on embeddings of EfficientNet-Lite0, tie-aware AP loss: α = 40, α = 1 and α from 1 to 40. "
        "The paper fine-tunes a whole network; bench/learned_codes.py --only finetune does that."
    ),
    data="CIFAR-10: a tenth of it (quick), or setting 1 of all (full)",
    criterion="The 95 % interval of the paired difference over queries is above 0, for each length and fixed α.",
    settings={
        "quick": {"images": 6000, "training": 2000, "epochs": 20, "seeds": [0, 1]},
        "full": {"images": 60_000, "training": 5000, "epochs": 30, "seeds": [0, 1, 2, 3, 4]},
    },
    measure=measure,
    judge=judge,
)
