"""Judgements by experts of different reliability, estimated from how they agree (Dawid and Skene 1979)."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.text_table import aligned, percent
from lookalike.discovery.judgements import Judgements, majority, unanimous
from lookalike.discovery.votes import CANT_TELL, NOT_SIMILAR, SIMILAR, Votes, numbered
from lookalike.evaluation.results import as_table

if TYPE_CHECKING:
    import pandas

ROUNDING = 1e-9  # a posterior that exceeds a half by less is a tie, and ties are negative

__all__ = ["RULES", "DawidSkene", "Reliability", "dawid_skene"]


@dataclass(frozen=True)
class Reliability:
    """How well one expert tells similar from not similar; nan for one who never decided."""

    expert: str
    decided: int  # pairs on which the expert said similar or not
    sensitivity: float  # probability of saying similar of a similar pair
    specificity: float  # probability of saying not similar of one that is not


@dataclass(frozen=True, eq=False, repr=False)
class DawidSkene(Judgements):
    """Judgements of `dawid_skene`, with its estimates of each expert's reliability.

    prevalence: share of similar pairs. objective: log-likelihood plus the log of the prior, after each iteration.
    """

    experts: tuple[Reliability, ...] = ()
    prevalence: float = float("nan")
    objective: tuple[float, ...] = ()
    converged: bool = True

    @property
    def iterations(self) -> int:
        """How often reliabilities and probabilities were estimated from each other."""
        return len(self.objective)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each expert."""
        return [vars(expert).copy() for expert in self.experts]

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with a row for each expert."""
        return as_table(self.rows()).set_index("expert")

    def __str__(self) -> str:
        rows = [[e.expert, f"{e.decided:,}", percent(e.sensitivity), percent(e.specificity)] for e in self.experts]
        table = aligned([["expert", "decided", "sensitivity", "specificity"], *rows])
        state = f"{self.iterations} iterations" + ("" if self.converged else ", not converged")
        return f"{table}\n{self.positives:,} of {len(self):,} pairs similar; {state}"


def dawid_skene(
    votes: Votes, *, smoothing: float = 2.0, tolerance: float = 1e-8, max_iterations: int = 10_000
) -> DawidSkene:
    """Grade 1 where the pair is more likely similar than not, given how reliable each expert turns out to be.

    Expectation maximisation for two classes (Dawid and Skene 1979), from each pair's share of similar votes: so
    "similar" means what most experts mean by it. Votes are taken as independent given the truth; can't tell is
    ignored. Three experts or more are needed: of two that disagree, votes alone cannot say who is better.

    smoothing: this many right and this many wrong votes are added to every expert's, of similar pairs and of others,
    and to the prevalence (a Beta prior). Then no probability is 0 or 1, log-likelihood plus log prior never falls, and
    few votes move little. In simulations of 400 pairs, 85 % similar, three experts of whom one guesses did worse than
    their majority when hardly smoothed. The estimate ends when no probability changes by more than `tolerance`.

    >>> items, experts = list("abcdef") * 3, ["ann"] * 6 + ["bob"] * 6 + ["eve"] * 6
    >>> votes = Votes(["q"] * 18, items, experts, [1, 1, 0, 0, 0, 1,  1, 1, 0, 0, 0, -1,  0, 1, 0, 1, 1, 0])
    >>> majority(votes).grades, dawid_skene(votes).grades       # of f ann says 1 and eve 0, and ann agrees with bob
    (array([1, 1, 0, 0, 0, 0]), array([1, 1, 0, 0, 0, 1]))
    """
    if not smoothing > 0 or not tolerance > 0 or max_iterations < 1:
        raise InputError(
            f"smoothing and tolerance must be above 0 and max_iterations from 1, "
            f"got {smoothing}, {tolerance} and {max_iterations}"
        )
    shares = majority(votes)
    panel = Panel.of(votes, smoothing)
    posterior = panel.shares
    objective: list[float] = []
    converged = False
    while not converged and len(objective) < max_iterations:
        before = posterior
        rates = panel.rates(before)
        posterior, value = panel.posterior(*rates)
        objective.append(value)
        converged = bool((np.abs(posterior - before) <= tolerance).all())
    probability = posterior[panel.ballot_of]
    return DawidSkene(
        queries=shares.queries,
        items=shares.items,
        grades=probability > 0.5 + ROUNDING,
        rule="dawid-skene",
        similar=shares.similar,
        not_similar=shares.not_similar,
        cant_tell=shares.cant_tell,
        probability=probability,
        experts=panel.reliabilities(votes.ballots.experts, *rates[:2]),
        prevalence=rates[2],
        objective=tuple(objective),
        converged=converged,
    )


@dataclass(frozen=True, eq=False)
class Panel:
    """The decided votes. Pairs on which every expert gave the same answer are one ballot, weighted by their number.

    ballot_of: (n_pairs,) the ballot of each pair. weights: (n_ballots,) its pairs. ballot, expert, similar: of each
    vote on each ballot.
    """

    n_experts: int
    ballot_of: np.ndarray
    weights: np.ndarray
    ballot: np.ndarray
    expert: np.ndarray
    similar: np.ndarray
    smoothing: float

    @classmethod
    def of(cls, votes: Votes, smoothing: float) -> "Panel":
        """The panel of a record of votes; pairs that nobody decided are left out."""
        ballots = votes.ballots
        decided = ballots.answers != CANT_TELL
        judged = ballots.counts(SIMILAR) + ballots.counts(NOT_SIMILAR) > 0
        pair = (np.cumsum(judged) - 1)[ballots.pair[decided]]
        votes_cast = 2 * ballots.expert[decided] + (ballots.answers[decided] == SIMILAR)
        order = np.lexsort((votes_cast, pair))
        pair, votes_cast = pair[order], votes_cast[order]
        ends = np.cumsum(np.bincount(pair, minlength=int(judged.sum()))).tolist()
        ballot_of, first = numbered([votes_cast[a:b].tobytes() for a, b in itertools.pairwise([0, *ends])])
        is_first = np.zeros(len(ballot_of), bool)
        is_first[first] = True
        kept = is_first[pair]
        return cls(
            n_experts=len(ballots.experts),
            ballot_of=ballot_of,
            weights=np.bincount(ballot_of, minlength=len(first)),
            ballot=ballot_of[pair[kept]],
            expert=votes_cast[kept] // 2,
            similar=votes_cast[kept] % 2 == 1,
            smoothing=smoothing,
        )

    @property
    def shares(self) -> np.ndarray:
        """The share of similar votes on each ballot, from which it starts."""
        return self._on_ballots(self.similar) / self._on_ballots(np.ones(len(self.similar)))

    def rates(self, posterior: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Sensitivity and specificity of each expert, and the prevalence, that fit the probabilities of pairs best."""
        positive, negative = ((self.weights * share)[self.ballot] for share in (posterior, 1 - posterior))
        prevalence = self._smoothed((self.weights * posterior).sum(), self.weights.sum())
        return self._share(positive, self.similar), self._share(negative, ~self.similar), float(prevalence)

    def _share(self, weights: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The weighted share of each expert's votes that are right, eq. 2.3."""
        parts = np.bincount(self.expert, weights * right, self.n_experts)
        return self._smoothed(parts, np.bincount(self.expert, weights, self.n_experts))

    def _smoothed(self, part: Any, whole: Any) -> np.ndarray:
        return np.asarray((part + self.smoothing) / (whole + 2 * self.smoothing))

    def posterior(
        self, sensitivity: np.ndarray, specificity: np.ndarray, prevalence: float
    ) -> tuple[np.ndarray, float]:
        """The probability that the pairs of each ballot are similar, eq. 2.5, and log-likelihood plus log prior."""
        of_similar = np.where(self.similar, np.log(sensitivity)[self.expert], np.log1p(-sensitivity)[self.expert])
        of_others = np.where(self.similar, np.log1p(-specificity)[self.expert], np.log(specificity)[self.expert])
        similar = np.log(prevalence) + self._on_ballots(of_similar)
        either = np.logaddexp(similar, np.log1p(-prevalence) + self._on_ballots(of_others))
        rates = np.concatenate([sensitivity, specificity, [prevalence]])
        prior = self.smoothing * (np.log(rates) + np.log1p(-rates)).sum()
        return np.exp(similar - either), float((self.weights * either).sum() + prior)

    def _on_ballots(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.ballot, values, len(self.weights))

    def reliabilities(
        self, names: np.ndarray, sensitivity: np.ndarray, specificity: np.ndarray
    ) -> tuple[Reliability, ...]:
        """The reliability of each expert; nan for one who never decided."""
        decided = np.bincount(self.expert, self.weights[self.ballot], self.n_experts).astype(int)
        rates = np.where(decided > 0, [sensitivity, specificity], np.nan)
        return tuple(Reliability(*row) for row in zip(names.tolist(), decided.tolist(), *rates.tolist(), strict=True))


RULES: dict[str, Callable[[Votes], Judgements]] = {
    "majority": majority,
    "unanimous": unanimous,
    "dawid-skene": dawid_skene,
}
