"""Claim: the gradient of a batch costs O(b·|V|·M²)."""

from collections.abc import Iterable

import numpy as np

from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run

PRINTED = {"M": 2.0, "b": 1.0, "|V|": 1.0}

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """Milliseconds by batch size, bits and grades, and how fast they grow with each."""
    from lookalike.learning.cost import gradient_seconds

    settings = run.settings
    usual = {"M": settings["batch"], "b": 64, "|V|": 2}
    for name in PRINTED:
        seconds = []
        for size in settings[name]:
            sizes = usual | {name: size}
            seconds.append(gradient_seconds(sizes["M"], sizes["b"], sizes["|V|"], repeats=settings["repeats"]))
            yield MeasuredNumber(
                f"{name} = {size}, milliseconds", 1e3 * seconds[-1], group=f"Milliseconds against {name}"
            )
        exponent = float(np.polyfit(np.log(settings[name]), np.log(seconds), 1)[0])
        yield MeasuredNumber(f"exponent of {name}", exponent, printed=PRINTED[name])


def judge(numbers: Numbers) -> list[Check]:
    """The time grows no faster than printed."""
    return [
        Check(
            f"the time grows with {name} no faster than its power of {exponent:g}",
            numbers[f"exponent of {name}"].value <= exponent + 0.25,
        )
        for name, exponent in PRINTED.items()
    ]


CLAIM = PaperClaim(
    name="gradient-cost",
    title="The gradient of a batch costs O(b·|V|·M²)",
    paper="He et al. 2018",
    place="section E, eq. 37",
    says="The gradient of a batch of M examples, b bits and |V| grades takes O(b·|V|·M²).",
    protocol="Shortest of several times of tie-aware DCG and its gradient, one thread; powers by least squares.",
    data="random activations and grades",
    criterion="No fitted power passes the printed one by more than 0.25, which is room for noise.",
    settings={
        "quick": {
            "batch": 384, "M": [128, 256, 512, 1024], "b": [16, 32, 64, 128], "|V|": [2, 4, 8], "repeats": 7,
            "seeds": [0],
        },
        "full": {
            "batch": 512, "M": [128, 256, 512, 1024, 2048, 4096], "b": [8, 16, 32, 64, 128, 256],
            "|V|": [2, 4, 8, 16], "repeats": 20, "seeds": [0],
        },
    },
    measure=measure,
    judge=judge,
)  # fmt: skip
