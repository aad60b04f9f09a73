"""Claim: ten items on one code, five of them relevant, have an AP from 0.3544 to 1."""

import itertools
from collections.abc import Iterable

import numpy as np

from lookalike.core.codes import Codes
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label
from lookalike.experiments.claims.claim import Check, MeasuredNumber, Numbers, PaperClaim, Run

GROUP = "AP of the same ten items"

__all__ = ["CLAIM"]


def measure(run: Run) -> Iterable[MeasuredNumber]:
    """AP in each of the 252 orders, and by the tally."""
    n, relevant = run.settings["items"], run.settings["relevant"]
    values = [
        np.mean([(number + 1) / place for number, place in enumerate(places)])
        for places in itertools.combinations(range(1, n + 1), relevant)
    ]
    codes = Codes.pack(np.zeros((n, 4), bool))
    labels = np.arange(n) < relevant
    score = evaluate(codes[:1], codes, same_label([True], labels), ["AP"])["AP"]
    yield MeasuredNumber("highest of all orders", float(max(values)), printed=1.0, group=GROUP)
    yield MeasuredNumber("lowest of all orders", float(min(values)), printed=0.3544, group=GROUP)
    yield MeasuredNumber("mean of all orders", float(np.mean(values)), group=GROUP)
    yield MeasuredNumber("orders", float(len(values)))
    for name, value in (("best", score.best), ("worst", score.worst), ("expected", score.mean)):
        yield MeasuredNumber(f"{name} by the tally", value, group=GROUP)


def judge(numbers: Numbers) -> list[Check]:
    """The printed ends are those of all orders, and the tally has them."""
    pairs = (("highest", "best"), ("lowest", "worst"), ("mean", "expected"))
    same = all(abs(numbers[f"{a} of all orders"].value - numbers[f"{b} by the tally"].value) < 1e-9 for a, b in pairs)
    ends = [numbers["highest of all orders"], numbers["lowest of all orders"]]
    return [
        Check("the printed AP are the highest and the lowest", all(abs(n.value - n.printed) < 5e-5 for n in ends)),
        Check("the tally gives the same without looking at any order", same),
    ]


CLAIM = PaperClaim(
    name="ten-on-one-code",
    title="The same ten items have an AP from 0.3544 to 1",
    paper="Ding et al. 2018",
    place="figure 2",
    says="Ten items share a code, five of them relevant: by their order AP is between 0.3544 and 1.",
    protocol="AP of all 252 orders, one by one; best, worst and expected AP by the tally.",
    data="the paper's example",
    criterion="The highest and the lowest AP are the printed ones to four digits, and the tally's.",
    settings={
        "quick": {"items": 10, "relevant": 5, "seeds": []},
        "full": {"items": 10, "relevant": 5, "seeds": []},
    },
    measure=measure,
    judge=judge,
)
