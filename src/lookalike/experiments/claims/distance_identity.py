"""Claim: Hamming distance is cosine and normalised Euclidean distance of codes of ±1."""

from collections.abc import Iterable

import numpy as np

from lookalike.evaluation.count import count
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run
from lookalike.experiments.claims.material import digits
from lookalike.hashers import make

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """The largest difference of the three distances, and of the tallies that are counted from bits."""
    material = digits()
    for n_bits in run.settings["bits"]:
        queries, gallery = material.codes(make("ITQ", n_bits, 0))
        q, g = (2.0 * codes.unpack() - 1 for codes in (queries, gallery))
        hamming = (q[:, None, :] != g[None, :, :]).sum(2)
        unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (q, g)]
        cosine = n_bits / 2 * (1 - unit[0] @ unit[1].T)
        euclidean = n_bits / 4 * np.stack([((unit[1] - row) ** 2).sum(1) for row in unit[0]])
        yield MeasuredNumber(
            f"{n_bits} bits, Hamming less cosine form", float(np.abs(hamming - cosine).max()), printed=0.0
        )
        yield MeasuredNumber(
            f"{n_bits} bits, Hamming less Euclidean form", float(np.abs(hamming - euclidean).max()), printed=0.0
        )
        rounded = np.rint(cosine).astype(int)
        of_cosine = np.stack([np.bincount(row, minlength=n_bits + 1) for row in rounded])
        counted = count(queries, gallery, material.relevance).counts.sum(2)
        yield MeasuredNumber(
            f"{n_bits} bits, items tallied differently", float((of_cosine != counted).sum()), printed=0.0
        )


def judge(numbers: Numbers) -> list[Check]:
    """Equal but for rounding."""
    forms = {"cosine form": "as a cosine", "Euclidean form": "as a Euclidean distance", "differently": "in tallies"}
    return [
        Check(f"Hamming distance is the same {words}", all(number.value < 1e-9 for number in numbers.ending(end)))
        for end, words in forms.items()
    ]


CLAIM = PaperClaim(
    name="distance-identity",
    title="Hamming distance is a cosine and a Euclidean distance",
    paper="Two evaluation sections without a title",
    place="eq. 1 of both",
    says="For codes of ±1 and length K, d = K/4 · ‖x/‖x‖ − y/‖y‖‖² = K/2 · (1 − cos(x, y)).",
    protocol="Codes by ITQ; all pairs of queries and items by three formulas, and the tally of each query.",
    data="handwritten digits, pixels: 178 queries, 1,619 items",
    criterion="The three distances differ by less than 1e-9, and so do the tallies.",
    settings={"quick": {"bits": [8, 24, 48], "seeds": [0]}, "full": {"bits": [1, 8, 12, 24, 33, 48, 60], "seeds": [0]}},
    measure=measure,
    judge=judge,
)
