"""Claim: judging what models propose costs about 1,400 times less than judging all pairs."""

from collections.abc import Iterable

from lookalike.discovery.prevalence import SECONDS, pairs_saved
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run

QUERIES, ITEMS, MODELS, K, JUDGED = 2_000, 52_712, 6, 6, 54_170  # DeepFashion in the paper
YEAR = 365.25 * 86_400

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:  # noqa: ARG001  # there is nothing to choose
    """The paper's own counts, put into its formulas."""
    saved = pairs_saved(QUERIES, ITEMS, QUERIES * MODELS * K)
    yield MeasuredNumber("times fewer, were no pair proposed twice", saved, printed=1400.0, group="Times fewer pairs")
    distinct = pairs_saved(QUERIES, ITEMS, JUDGED)
    yield MeasuredNumber(
        "times fewer, by the pairs that were judged", distinct, printed=1400.0, group="Times fewer pairs"
    )
    yield MeasuredNumber("years for all pairs of 10,000 items and 1,000 queries", 10**7 * SECONDS / YEAR, printed=4.5)
    yield MeasuredNumber("days for 100,000 pairs", 100_000 * SECONDS / 86_400, printed=17.0)
    yield MeasuredNumber("candidates a query, judged", JUDGED / QUERIES, printed=24.4)


def judge(numbers: Numbers) -> list[Check]:
    """The printed figures follow from the printed counts."""
    close = {
        "times fewer, were no pair proposed twice": "about 1,400 times fewer pairs",
        "years for all pairs of 10,000 items and 1,000 queries": "more than 4.5 years for all pairs",
        "days for 100,000 pairs": "about 17 days for 100,000 pairs",
        "candidates a query, judged": "24.4 candidates a query",
    }
    return [
        Check(f"{words} follow from the printed counts", abs(numbers[name].value / numbers[name].printed - 1) < 0.06)
        for name, words in close.items()
    ]


CLAIM = PaperClaim(
    name="judging-cost",
    title="Judging a pool costs about 1,400 times less than judging all pairs",
    paper="Barkan et al. 2023",
    place="sections 3.1 to 3.3, 6.2",
    says="52,712 items, 2,000 queries, the top 6 of 6 models: about 1,400 times faster; 24.4 candidates a query.",
    protocol="The paper's counts in its formulas, 15 seconds a pair.",
    data="the paper's counts",
    criterion="The printed figures follow from the printed counts within 6 %.",
    settings={"quick": {"seeds": []}, "full": {"seeds": []}},
    measure=measure,
    judge=judge,
)
