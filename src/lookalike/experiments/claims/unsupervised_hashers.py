"""Claim: hashers without labels use most codes and stay below an mAP of 0.20 at 12 bits on CIFAR-10."""

from collections.abc import Iterable

from lookalike.evaluation.code_space import usage
from lookalike.evaluation.evaluate import evaluate
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run
from lookalike.experiments.claims.material import NETWORK, images
from lookalike.hashers import FIGURE_1, make

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """MAP and use of 12-bit codes of each hasher, of pixels and of embeddings."""
    for encoder in ("pixels", NETWORK):
        material = images("cifar10", run.settings["images"], encoder, 0)
        for name in FIGURE_1:
            queries, gallery = material.codes(make(name, 12, 0))
            score = evaluate(queries, gallery, material.relevance, ["AP"])["AP"]
            interval = score.interval(resamples=500)
            yield MeasuredNumber(f"{encoder}, {name}, mAP", score.mean, *interval, group=f"mAP at 12 bits, {encoder}")
            used = usage(gallery)
            yield MeasuredNumber(
                f"{encoder}, {name}, use", used.possible_utilisation, group=f"Share of possible codes used, {encoder}"
            )


def judge(numbers: Numbers) -> list[Check]:
    """Below 0.20, with half of the codes and more in use."""
    checks = []
    for encoder in ("pixels", NETWORK):
        of_encoder = Numbers(numbers.starting(f"{encoder}, "))
        low = [number.high < 0.2 for number in of_encoder.ending(", mAP")]
        used = [number.value >= 0.5 for number in of_encoder.ending(", use")]
        checks.append(Check(f"{encoder}: all are below 0.20 ({sum(low)} of {len(low)} are)", all(low)))
        checks.append(Check(f"{encoder}: all use half of the codes or more ({sum(used)} of {len(used)} do)", all(used)))
    return checks


CLAIM = PaperClaim(
    name="unsupervised-hashers",
    title="Hashers without labels use many codes and stay below 0.20",
    paper="Ding et al. 2018",
    place="section 1 and figure 1",
    says="Unsupervised hashers use the code space well, but have an mAP below 20 % at 12 bits on CIFAR-10.",
    protocol="The eight hashers of figure 1 at 12 bits, on pixels and on embeddings; the paper names no features.",
    data="CIFAR-10: a tenth of it (quick), or setting 1 of all (full)",
    criterion="The upper end of every interval of mAP is below 0.20; half of the possible codes or more are in use.",
    settings={"quick": {"images": 6000, "seeds": [0]}, "full": {"images": 60_000, "seeds": [0]}},
    measure=measure,
    judge=judge,
)
