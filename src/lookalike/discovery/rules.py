"""The rules that make judgements of votes, by name, and how each does on gold pairs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from lookalike.core.checks import choice
from lookalike.discovery.dawid_skene import dawid_skene
from lookalike.discovery.judgements import Judgements, majority, mean, median, unanimous
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.verdicts import VERDICT, Verdicts, by_verdict
from lookalike.discovery.votes import Votes

RULES: dict[str, Callable[..., Judgements]] = {
    "majority": majority,
    "unanimous": unanimous,
    "dawid-skene": dawid_skene,
    "median": median,
    "mean": mean,
}
OF_SCALES = ("median", "majority", "mean", "unanimous", "dawid-skene")  # without a scale three of them are the same

__all__ = ["RULES", "GoldScore", "gold_scores", "judge_by", "judge_by_all", "rules_for", "usual_rule"]


def usual_rule(scale: Scale) -> str:
    """The rule that is used unless another is named: the median on a scale, or else the majority."""
    return "majority" if scale == BINARY else "median"


def rules_for(scale: Scale) -> list[str]:
    """The rules that differ on a scale, the usual one first."""
    return ["majority", "unanimous", "dawid-skene"] if scale == BINARY else list(OF_SCALES)


def judge_by(
    rule: str | None,
    votes: Votes,
    smoothing: float | Literal["crowd"] = "crowd",
    rel: int | None = None,
    verdicts: Verdicts | None = None,
) -> Judgements:
    """What a rule makes of votes, None for the usual one; `smoothing` is that of dawid-skene.

    rel: the lowest grade of a scale that is positive, by default the highest step. verdicts: for the rule verdict,
    which takes them first, else the usual rule.
    """
    rule = rule or usual_rule(votes.scale)
    choice("rule", rule, (*RULES, VERDICT))
    if rule == VERDICT:
        return by_verdict(votes, verdicts or Verdicts(), lambda other: judge_by(None, other, rel=rel))
    return dawid_skene(votes, smoothing=smoothing, rel=rel) if rule == "dawid-skene" else RULES[rule](votes, rel=rel)


def judge_by_all(
    votes: Votes,
    smoothing: float | Literal["crowd"] = "crowd",
    rel: int | None = None,
    verdicts: Verdicts | None = None,
) -> dict[str, Judgements]:
    """What each rule makes of votes.

    Without dawid-skene where fewer than three experts voted: it needs three. With the rule verdict if there are any.
    """
    few = len(votes.ballots.experts) < 3
    rules = [rule for rule in rules_for(votes.scale) if not (few and rule == "dawid-skene")]
    rules += [VERDICT] if verdicts else []
    return {rule: judge_by(rule, votes, smoothing, rel, verdicts) for rule in rules}


@dataclass(frozen=True)
class GoldScore:
    """How many gold pairs experts decided, and on how many of these their judgement is the known answer."""

    decided: int
    right: int

    @property
    def accuracy(self) -> float:
        """The share of the decided ones that is right; nan without any."""
        return self.right / self.decided if self.decided else float("nan")


def gold_scores(
    votes: Votes,
    gold: Any,
    *,
    smoothing: float | Literal["crowd"] = "crowd",
    rel: int | None = None,
    verdicts: Verdicts | None = None,
) -> dict[str, GoldScore]:
    """How each rule does on gold pairs, whose answers are known: judgements, or rows (query, item, grade).

    On a scale a judgement is right where its grade is the known one; that of dawid-skene, which is 1 or 0, where it
    says rightly whether the known grade is positive.

    >>> votes = Votes(["q"] * 6, list("aaabbb"), ["ann", "bob", "eve"] * 2, [1, 1, 0, 0, 0, 0])
    >>> gold_scores(votes, [("q", "a", 1), ("q", "b", 0), ("q", "c", 1)])["unanimous"]       # nobody was asked about c
    GoldScore(decided=2, right=1)
    """
    known, least = Judgements.of(gold).by_pair, votes.scale.rel(rel)
    scores = {}
    for rule, judgements in judge_by_all(votes, smoothing, rel, verdicts).items():
        decided = [(grade, known[pair]) for pair, grade in judgements.by_pair.items() if pair in known]
        if judgements.graded:
            answers = [grade == answer for grade, answer in decided]
        else:
            answers = [(grade >= 1) == (answer >= least) for grade, answer in decided]
        scores[rule] = GoldScore(decided=len(answers), right=sum(answers))
    return scores
