"""Claim: a dispersed loss lowers mAP and raises mLGAP and the use of codes."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run, mean_of
from lookalike.experiments.claims.material import LGAP, head

LENGTHS = (12, 24)
PLAIN, KINDS = "DSH", "DSH of kinds"
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {  # what is learned, and how
    PLAIN: ("class", {"loss": "dsh"}),
    "dispersed, margin b": ("class", {"loss": "dispersed-dsh"}),
    "dispersed, printed margin": ("class", {"loss": "dispersed-dsh", "options": {"margin": "printed"}}),
    KINDS: ("kind", {"loss": "dsh"}),
    "hierarchy": ("both", {"loss": "dispersed-dsh-hierarchy", "options": {"buffers": "printed", "margin": "printed"}}),
}
BESIDE = {"dispersed, margin b": PLAIN, "dispersed, printed margin": PLAIN, "hierarchy": KINDS}
PRINTED = {  # table 1: mAP and mLGAP, whose r is not printed; the hierarchy's are of CIFAR-100
    (12, PLAIN): (0.6012, 0.2633), (12, "dispersed, printed margin"): (0.3008, 0.2796),
    (24, PLAIN): (0.6407, 0.2889), (24, "dispersed, printed margin"): (0.3124, 0.3461),
    (12, KINDS): (0.1514, 0.0637), (12, "hierarchy"): (0.1156, 0.1703),
    (24, KINDS): (0.1556, 0.0660), (24, "hierarchy"): (0.1187, 0.3310),
}  # fmt: skip

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """MAP, mLGAP and use of codes of each loss, and what dispersion changes, paired over queries."""
    for n_bits in LENGTHS:
        values: dict[str, dict[str, np.ndarray]] = {}
        for name, (target, options) in LOSSES.items():
            before = "" if target == "class" else "kinds_"
            heads = [head(run, n_bits, seed, options, target) for seed in run.settings["seeds"]]
            keys = {"mAP": f"{before}ap", **{f"m{metric}": f"{before}{metric}" for metric in LGAP}}
            values[name] = {title: np.mean([each[key] for each in heads], axis=0) for title, key in keys.items()}
            values[name]["use"] = np.array([each["use"] for each in heads])
            printed = PRINTED.get((n_bits, name), (float("nan"), float("nan")))
            for title, of_title in values[name].items():
                value = printed[0] if title == "mAP" else printed[1] if title == "mLGAP@2" else float("nan")
                group = f"{title}, {n_bits} bits" if title in ("mAP", "mLGAP@2", "use") else ""
                yield _number(f"{n_bits} bits, {name}, {title}", title, of_title, value, group)
        for name, plain in BESIDE.items():
            for title, of_title in values[name].items():
                yield _number(f"{n_bits} bits, {name} less {plain}, {title}", title, of_title - values[plain][title])


def _number(
    name: str, title: str, values: np.ndarray, printed: float = float("nan"), group: str = ""
) -> MeasuredNumber:
    """The mean of queries with its interval; of use, which has a value for each seed, with the range of seeds."""
    if title == "use":
        return MeasuredNumber(name, float(values.mean()), float(values.min()), float(values.max()), printed, group)
    return mean_of(name, values, printed=printed, group=group)


def judge(numbers: Numbers) -> list[Check]:
    """MAP falls; mLGAP rises for each r; more codes are used."""
    checks = []
    for n_bits in LENGTHS:
        for name, plain in BESIDE.items():
            change = f"{n_bits} bits, {name} less {plain}"
            risen = [r for r, metric in enumerate(LGAP) if numbers[f"{change}, m{metric}"].low > 0]
            at = f" (at r = {', '.join(map(str, risen))})" if risen else ""
            words = f"{n_bits} bits, {name}"
            checks.append(Check(f"{words}: mAP falls", numbers[f"{change}, mAP"].high < 0))
            checks.append(Check(f"{words}: mLGAP rises for every r of 0 to 3{at}", len(risen) == len(LGAP)))
            checks.append(Check(f"{words}: more codes are used", numbers[f"{change}, use"].low > 0))
    return checks


CLAIM = PaperClaim(
    name="dispersion",
    title="Dispersion lowers mAP, and raises mLGAP and the use of codes",
    paper="Ding et al. 2018",
    place="table 1 and figure 8, eq. 16 to 31",
    says="Against DSH, the dispersed losses lower mAP, raise mLGAP (on CIFAR-100 several times), and use more codes.",
    protocol=(
        "Heads of 512 units on embeddings: DSH, dispersed DSH at the printed margin 2b and at b, and the hierarchy as "
        "printed against DSH of kinds, both scored on kinds. The printed 750 epochs of a network on pixels are a "
        "command (docs/guide/learning.md)."
    ),
    data="CIFAR-10: a tenth of it (quick), or setting 1 of all (full); animals and vehicles stand for superclasses",
    criterion="Intervals of differences lie below 0 for mAP, above 0 for mLGAP@0 to @3; use rises in every seed.",
    settings={
        "quick": {"images": 6000, "training": 2000, "epochs": 20, "seeds": [0, 1]},
        "full": {"images": 60_000, "training": 5000, "epochs": 150, "seeds": [0, 1, 2, 3, 4]},
    },
    measure=measure,
    judge=judge,
)
