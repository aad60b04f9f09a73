"""Claim: fine-tuning by identity solves identification and does not help discovery."""

from collections.abc import Iterable

from lookalike.experiments.claims.claim import CannotTryError, Check, MeasuredNumber, Numbers, PaperClaim, Run

VARIANTS = ("ID", "CAT", "ID+C", "FT")

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:  # noqa: ARG001
    """Identification and discovery of an encoder before and after each kind of fine-tuning."""
    raise CannotTryError(
        "it needs fine-tuning of encoders by identity and category, and a catalogue with identities; this version has "
        "neither"
    )


def judge(numbers: Numbers) -> list[Check]:
    """Identification is solved by ID; discovery is not helped by ID, and FT helps wild queries."""
    start = numbers["pretrained, identification"]
    best = numbers["ID, identification"]
    closed = {name: numbers[f"{name}, closed"].value for name in ("pretrained", *VARIANTS)}
    wild = {name: numbers[f"{name}, wild"].value for name in ("pretrained", *VARIANTS)}
    return [
        Check("ID solves identification (0.99 and more)", best.value >= 0.99 and best.value > start.value),
        Check("ID does not help discovery in the catalogue", closed["ID"] <= closed["pretrained"]),
        Check("CAT hurts wild queries", wild["CAT"] < wild["pretrained"]),
        Check("FT helps wild queries", wild["FT"] > wild["pretrained"]),
    ]


CLAIM = PaperClaim(
    name="fine-tuning",
    title="Fine-tuning by identity solves identification, not discovery",
    paper="Barkan et al. 2023",
    place="sections 6.4 and 6.5, tables 4, 5 and 6",
    says="ID reaches 99.9 % in identification and does not help discovery; CAT hurts wild queries, FT helps them.",
    protocol="An encoder fine-tuned by identity, by category, by both and without labels, against the pretrained one.",
    data="a catalogue with identities",
    criterion="Identification of ID at least 0.99; closed AUC of ID no higher; wild AUC of CAT lower and of FT higher.",
    settings={"quick": {"seeds": [0]}, "full": {"seeds": [0, 1, 2]}},
    measure=measure,
    judge=judge,
)
