"""Judgements by experts of different reliability, estimated from how they agree (Dawid and Skene 1979)."""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.text_table import aligned, percent
from lookalike.discovery.judgements import Judgements, majority
from lookalike.discovery.votes import CANT_TELL, NOT_SIMILAR, SIMILAR, Votes, numbered
from lookalike.evaluation.results import as_table

if TYPE_CHECKING:
    import pandas

ROUNDING = 1e-9  # a posterior that exceeds a half by less is a tie, and ties are negative

__all__ = ["DawidSkene", "Reliability", "dawid_skene"]


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
    votes: Votes,
    *,
    smoothing: float | Literal["crowd"] = "crowd",
    tolerance: float = 1e-8,
    max_iterations: int = 10_000,
    rel: int | None = None,
) -> DawidSkene:
    """Grade 1 where the pair is more likely similar than not, given how reliable each expert turns out to be.

    Expectation maximisation for two classes (Dawid and Skene 1979), from each pair's share of similar votes: so
    "similar" means what most experts mean by it. Votes are taken as independent given the truth; can't tell is
    ignored. Three experts or more are needed: of two that disagree, votes alone cannot say who is better. Grades of a
    scale count as similar from `rel` on, by default the highest step: here, too, a judgement is 1 or 0.

    smoothing: the votes that are added to those of every expert, of similar pairs and of others, so that few votes move
    little, and no probability is 0 or 1. "crowd" adds two votes that are right as often as those of all experts
    together, and twelve, nine of them right, that all experts share: of three experts each gets three right and one
    wrong. A number adds this many right and this many wrong votes to each. docs/reference/smoothing.md compares them.
    The log-likelihood plus the log of the prior never falls, and the estimate ends when no probability changes by more
    than `tolerance`.

    >>> items, experts = list("abcdef") * 3, ["ann"] * 6 + ["bob"] * 6 + ["eve"] * 6
    >>> votes = Votes(["q"] * 18, items, experts, [1, 1, 0, 0, 0, 1,  1, 1, 0, 0, 0, -1,  0, 1, 0, 1, 1, 0])
    >>> majority(votes).grades, dawid_skene(votes).grades       # of f ann says 1 and eve 0, and ann agrees with bob
    (array([1, 1, 0, 0, 0, 0]), array([1, 1, 0, 0, 0, 1]))
    """
    _check_smoothing(smoothing)
    if not tolerance > 0 or max_iterations < 1:
        raise InputError(
            f"tolerance must be above 0 and max_iterations from 1, got {tolerance} and {max_iterations}",
        )
    votes = votes.at_least(votes.scale.rel(rel))
    shares = majority(votes)
    panel = Panel.of(votes, smoothing)
    fit = panel.fit(tolerance, max_iterations)
    probability = fit.posterior[panel.ballot_of]
    return DawidSkene(
        queries=shares.queries,
        items=shares.items,
        grades=probability > 0.5 + ROUNDING,
        rule="dawid-skene",
        similar=shares.similar,
        not_similar=shares.not_similar,
        cant_tell=shares.cant_tell,
        probability=probability,
        experts=panel.reliabilities(votes.ballots.experts, fit.rates),
        prevalence=fit.rates.prevalence,
        objective=fit.objective,
        converged=fit.converged,
    )


def _check_smoothing(smoothing: Any) -> None:
    if smoothing == "crowd":
        return
    if isinstance(smoothing, bool) or not isinstance(smoothing, int | float | np.integer | np.floating):
        message = f" must be 'crowd' or a number of votes, got {smoothing!r}"
        raise InputTypeError(Option("smoothing"), message, parameter="smoothing", value=smoothing)
    if not 0 < smoothing < np.inf:
        message = f" must be above 0 and finite, got {smoothing}: a small number, such as 0.01, hardly smooths"
        raise InputError(Option("smoothing"), message, parameter="smoothing", value=smoothing)


@dataclass(frozen=True)
class Prior:
    """Votes that are added to those of each expert before the expert's rates are taken, for each kind of pairs.

    right, wrong: so many of either. crowd: so many in all, right as often as the crowd's. pairs: so many similar pairs,
    and as many others, are added to the prevalence.
    """

    right: float
    wrong: float
    crowd: float
    pairs: float

    @classmethod
    def of(cls, smoothing: float | Literal["crowd"], n_experts: int) -> "Prior":
        """The prior that `smoothing` names, for so many experts who decided."""
        if smoothing == "crowd":
            # The crowd's votes hold those who voted little to what is usual. The shared ones matter where experts are
            # few: they keep one who guesses from passing for the one who knows (bench/dawid_skene.py).
            n_experts = max(1, n_experts)
            return cls(right=9 / n_experts, wrong=3 / n_experts, crowd=2, pairs=1)
        return cls(right=float(smoothing), wrong=float(smoothing), crowd=0, pairs=float(smoothing))


@dataclass(frozen=True, eq=False)
class Rates:
    """Sensitivity and specificity of each expert, those of the crowd, and the prevalence."""

    sensitivity: np.ndarray
    specificity: np.ndarray
    of_crowd: tuple[float, float]
    prevalence: float


@dataclass(frozen=True, eq=False)
class Fit:
    """Rates and the probability that the pairs of each ballot are similar, as they fit each other."""

    rates: Rates
    posterior: np.ndarray
    objective: tuple[float, ...]
    converged: bool


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
    prior: Prior

    @classmethod
    def of(cls, votes: Votes, smoothing: float | Literal["crowd"]) -> "Panel":
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
            prior=Prior.of(smoothing, len(np.unique(votes_cast // 2))),
        )

    @property
    def shares(self) -> np.ndarray:
        """The share of similar votes on each ballot, from which it starts."""
        return self._on_ballots(self.similar) / self._on_ballots(np.ones(len(self.similar)))

    @cached_property
    def decided(self) -> np.ndarray:
        """How many votes each expert decided."""
        return np.bincount(self.expert, self.weights[self.ballot], self.n_experts).astype(int)

    def fit(self, tolerance: float, max_iterations: int) -> Fit:
        """Estimate rates and probabilities from each other, until no probability changes by more than `tolerance`."""
        posterior, rates = self.shares, None
        objective: list[float] = []
        converged = False
        while not converged and len(objective) < max_iterations:
            before = posterior
            rates = self.rates(before, rates)
            posterior, value = self.posterior(rates)
            objective.append(value)
            converged = bool((np.abs(posterior - before) <= tolerance).all())
        assert rates is not None  # there is one iteration at least
        return Fit(rates, posterior, tuple(objective), converged)

    def rates(self, posterior: np.ndarray, before: Rates | None = None) -> Rates:
        """The rates that fit the probabilities of pairs best, given those of the crowd before; eq. 2.3 and 2.4."""
        positive, negative = ((self.weights * share)[self.ballot] for share in (posterior, 1 - posterior))
        crowd = (None, None) if before is None else before.of_crowd
        sensitivity, of_similar = self._share(positive, self.similar, crowd[0])
        specificity, of_others = self._share(negative, ~self.similar, crowd[1])
        pairs = self.prior.pairs
        prevalence = ((self.weights * posterior).sum() + pairs) / (self.weights.sum() + 2 * pairs)
        return Rates(sensitivity, specificity, (of_similar, of_others), float(prevalence))

    def _share(self, weights: np.ndarray, right: np.ndarray, of_crowd: float | None) -> tuple[np.ndarray, float]:
        """The weighted share of each expert's votes that are right, with those of the prior, and the crowd's share."""
        parts = np.bincount(self.expert, weights * right, self.n_experts)
        wholes = np.bincount(self.expert, weights, self.n_experts)
        if of_crowd is None:
            of_crowd = float((parts.sum() + 1) / (wholes.sum() + 2))
        prior = self.prior
        shares = (parts + prior.right + prior.crowd * of_crowd) / (wholes + prior.right + prior.wrong + prior.crowd)
        # The share from which those of the experts differ least, by Σ KL(crowd‖expert): the mean of their log odds.
        odds = (np.log(shares) - np.log1p(-shares))[self.decided > 0]
        return shares, float(1 / (1 + np.exp(-odds.mean()))) if len(odds) else 0.5

    def posterior(self, rates: Rates) -> tuple[np.ndarray, float]:
        """The probability that the pairs of each ballot are similar, eq. 2.5, and log-likelihood plus log prior."""
        sensitivity, specificity, prevalence = rates.sensitivity, rates.specificity, rates.prevalence
        of_similar = np.where(self.similar, np.log(sensitivity)[self.expert], np.log1p(-sensitivity)[self.expert])
        of_others = np.where(self.similar, np.log1p(-specificity)[self.expert], np.log(specificity)[self.expert])
        similar = np.log(prevalence) + self._on_ballots(of_similar)
        either = np.logaddexp(similar, np.log1p(-prevalence) + self._on_ballots(of_others))
        return np.exp(similar - either), float((self.weights * either).sum() + self._log_prior(rates))

    def _log_prior(self, rates: Rates) -> float:
        """The log of the prior, less a constant: its votes, and −crowd · KL(crowd‖expert) of each expert."""
        total = self.prior.pairs * (np.log(rates.prevalence) + np.log1p(-rates.prevalence))
        for shares, of_crowd in zip((rates.sensitivity, rates.specificity), rates.of_crowd, strict=True):
            right, wrong = np.log(shares[self.decided > 0]), np.log1p(-shares[self.decided > 0])
            total += (self.prior.right * right + self.prior.wrong * wrong).sum()
            apart = of_crowd * (np.log(of_crowd) - right) + (1 - of_crowd) * (np.log1p(-of_crowd) - wrong)
            total -= self.prior.crowd * apart.sum()
        return float(total)

    def _on_ballots(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.ballot, values, len(self.weights))

    def reliabilities(self, names: np.ndarray, rates: Rates) -> tuple[Reliability, ...]:
        """The reliability of each expert; nan for one who never decided."""
        known = np.where(self.decided > 0, [rates.sensitivity, rates.specificity], np.nan).tolist()
        return tuple(Reliability(*row) for row in zip(names.tolist(), self.decided.tolist(), *known, strict=True))
