"""Which smoothing makes Dawid and Skene's rule right, with few experts and with large crowds?

    python bench/dawid_skene.py [--quick] [--only WORLD ...] [--votes answers.csv --truth truth.csv]

In simulated worlds the truth is known. A way is judged by the log-likelihood of votes that were held out (one in ten),
and by the accuracy and F1 of its judgements of all votes. All ways see the same votes; "less" is the difference to the
default, paired over draws. ± are 95 % intervals over draws.

experts   three experts, one of whom guesses, 400 pairs, 85 % similar
crowd     176 workers, 8,315 pairs with three votes each, 12 % similar; few workers gave most votes, and most miss more
          similar pairs than they invent
balanced  20 workers, 1,500 pairs with five votes each, half of them similar
sparse    40 workers, 300 pairs with three votes each, 30 % similar: a worker sees some seven similar pairs
small     three experts, none of whom guesses, 30 pairs, 30 % similar

The ways: a number of right and of wrong votes that each expert gets ("0.000001": none, all but); the default, "crowd";
its two parts alone; mean and strength of the prior estimated from the votes (a beta distribution for sensitivities, one
for specificities); and the number that is best by the votes held out ("chosen").

--votes, --truth: votes of your own, with the columns question, worker and answer (1 or 0), and question and truth.
"""

import argparse
import csv
import datetime
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, digamma, expit

from lookalike.discovery.dawid_skene import Fit, Panel, Prior
from lookalike.discovery.votes import CANT_TELL, Votes

NUMBERS = (1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0)
DEFAULT = "crowd (default)"
TOLERANCE, MOST = 1e-5, 2000


@dataclass(frozen=True)
class World:
    """Votes, and which pairs are similar; item i is pair i."""

    similar: np.ndarray
    votes: Votes

    @classmethod
    def of(cls, rng: np.random.Generator, similar: np.ndarray, expert: np.ndarray, rates: np.ndarray) -> "World":
        """expert: (n_pairs, n_votes), who votes. rates: (2, n_experts), sensitivity and specificity."""
        pair, expert = np.repeat(np.arange(len(similar)), expert.shape[1]), expert.ravel()
        says = rng.random(len(pair)) < np.where(similar[pair], rates[0][expert], 1 - rates[1][expert])
        names = np.char.add("e", expert.astype(str))
        return cls(similar, Votes(["q"] * len(pair), pair.astype(str), names, says.astype(int)))


def few(rng: np.random.Generator, n: int, prevalence: float, rates: list[list[float]]) -> World:
    """Everybody judges every pair."""
    similar = rng.random(n) < prevalence
    return World.of(rng, similar, np.tile(np.arange(len(rates[0])), (n, 1)), np.array(rates))


def crowd(
    rng: np.random.Generator, sizes: tuple[int, int, int], prevalence: float, skew: float, betas: list[list[float]]
) -> World:
    """sizes: pairs, workers, votes on a pair. skew: standard deviation of the log of how much a worker votes."""
    n, n_workers, n_votes = sizes
    similar = rng.random(n) < prevalence
    much = rng.normal(0, skew, n_workers)
    workers = np.argsort(-(much + rng.gumbel(size=(n, n_workers))), axis=1)[:, :n_votes]
    return World.of(rng, similar, workers, np.array([rng.beta(*beta, n_workers) for beta in betas]))


WORLDS: dict[str, tuple[int, Callable[[np.random.Generator], World]]] = {
    "experts": (30, lambda rng: few(rng, 400, 0.85, [[0.9, 0.9, 0.55], [0.9, 0.9, 0.5]])),
    "crowd": (10, lambda rng: crowd(rng, (8315, 176, 3), 0.12, 1.2, [[2.5, 1.9], [2.0, 0.38]])),
    "balanced": (12, lambda rng: crowd(rng, (1500, 20, 5), 0.5, 0.7, [[7.0, 2.0], [7.0, 2.0]])),
    "sparse": (30, lambda rng: crowd(rng, (300, 40, 3), 0.3, 1.0, [[7.0, 2.0], [7.0, 2.0]])),
    "small": (30, lambda rng: few(rng, 30, 0.3, [[0.9, 0.85, 0.8], [0.9, 0.85, 0.8]])),
}


class EstimatedPrior(Panel):
    """A panel whose prior is estimated with everything else: empirical Bayes, by the beta-binomial likelihood."""

    def _share(self, weights: np.ndarray, right: np.ndarray, of_crowd: float | None) -> tuple[np.ndarray, float]:
        parts = np.bincount(self.expert, weights * right, self.n_experts)
        wholes = np.bincount(self.expert, weights, self.n_experts)

        def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
            mean, strength = expit(at[0]), np.exp(at[1])
            a, b = strength * mean, strength * (1 - mean)
            likelihood = (betaln(a + parts, b + wholes - parts) - betaln(a, b)).sum()
            whole = digamma(a + b) - digamma(a + b + wholes)
            by_a = (digamma(a + parts) - digamma(a) + whole).sum()
            by_b = (digamma(b + wholes - parts) - digamma(b) + whole).sum()
            # of few experts the strength is not known: it is held to 4 votes, up to a factor of e
            held = at[1] - np.log(4)
            slope = [-(by_a - by_b) * strength * mean * (1 - mean) - 1 + 2 * mean, -by_a * a - by_b * b + held]
            return float(-likelihood + held**2 / 2 - np.log(mean) - np.log1p(-mean)), np.array(slope)

        start = (np.log(3), np.log(4)) if of_crowd is None else self.last[bool(right is self.similar)]
        found = minimize(loss, start, jac=True, method="BFGS", options={"maxiter": 3}).x
        self.last[bool(right is self.similar)] = found
        mean, strength = expit(found[0]), np.exp(found[1])
        return (parts + strength * mean) / (wholes + strength), float(mean)

    @property
    def last(self) -> dict[bool, np.ndarray]:
        return self.__dict__.setdefault("last_", {})


def ways() -> dict[str, Callable[[Votes], tuple[Panel, Fit]]]:
    """What makes a panel of votes, and fits it."""

    def by(smoothing: float | str) -> Callable[[Votes], tuple[Panel, Fit]]:
        return lambda votes: fitted(Panel.of(votes, smoothing))

    def part(**gone: float) -> Callable[[Votes], tuple[Panel, Fit]]:
        def way(votes: Votes) -> tuple[Panel, Fit]:
            panel = Panel.of(votes, "crowd")
            return fitted(replace(panel, prior=replace(panel.prior, **gone)))

        return way

    def estimated(votes: Votes) -> tuple[Panel, Fit]:
        panel = Panel.of(votes, "crowd")
        return fitted(EstimatedPrior(**vars(replace(panel, prior=Prior(0, 0, 0, 1)))))

    return {
        **{f"{number:f}".rstrip("0").rstrip("."): by(number) for number in NUMBERS},
        DEFAULT: by("crowd"),
        "crowd's votes alone": part(right=1e-6, wrong=1e-6),
        "shared votes alone": part(crowd=0),
        "estimated": estimated,
    }


def fitted(panel: Panel) -> tuple[Panel, Fit]:
    return panel, panel.fit(TOLERANCE, MOST)


def held_out(votes: Votes, out: np.ndarray, panel: Panel, fit: Fit) -> float:
    """Mean log-likelihood of the votes that a fit has not seen, each given the other votes on its pair."""
    ballots = votes.ballots
    known = np.zeros(len(ballots.queries), bool)
    known[ballots.pair[~out]] = True
    posterior = np.full(len(known), fit.rates.prevalence)
    posterior[known] = fit.posterior[panel.ballot_of]
    pair, expert, rates = ballots.pair[out], ballots.expert[out], fit.rates
    says = posterior[pair] * rates.sensitivity[expert] + (1 - posterior[pair]) * (1 - rates.specificity[expert])
    return float(np.log(np.where(ballots.answers[out] == 1, says, 1 - says)).mean())


def scores(similar: np.ndarray, judged: np.ndarray) -> tuple[float, float]:
    """Accuracy and F1."""
    both = 2 * (similar & judged).sum()
    return float((similar == judged).mean()), float(both / max(1, similar.sum() + judged.sum()))


def measured(world: World, rng: np.random.Generator) -> dict[str, tuple[float, float, float]]:
    """Log-likelihood, accuracy and F1 of every way; pairs are in the order of their first votes."""
    votes = world.votes
    out = rng.random(len(votes)) < 0.1
    out[rng.integers(len(votes))] = True
    kept = Votes(votes.queries, votes.items, votes.experts, np.where(out, CANT_TELL, votes.answers))
    similar = world.similar[votes.ballots.items.astype(int)]
    n_similar, n_votes = votes.ballots.counts(1), votes.ballots.counts(1) + votes.ballots.counts(0)
    found = {"majority": (np.nan, *scores(similar, 2 * n_similar > n_votes))}
    for name, way in ways().items():
        panel, fit = way(votes)
        judged = fit.posterior[panel.ballot_of] > 0.5
        found[name] = (held_out(votes, out, *way(kept)), *scores(similar, judged))
    numbers = list(ways())[: len(NUMBERS)]
    found["chosen"] = (np.nan, *found[max(numbers, key=lambda name: found[name][0])][1:])
    return found


def show(title: str, draws: list[dict[str, tuple[float, float, float]]]) -> None:
    print(f"\n## {title}: {len(draws)} draws\n")
    print("| smoothing | log-likelihood | less the default's | accuracy | F1 | F1 less the default's |")
    print("|---|---|---|---|---|---|")
    table = {name: np.array([draw[name] for draw in draws]) for name in draws[0]}
    for name, values in table.items():
        less = values - table[DEFAULT]
        likelihood = "–", "–"
        if not np.isnan(values[:, 0]).any():
            likelihood = f"{values[:, 0].mean():.4f}", with_interval(less[:, 0], "+")
        cells = [*likelihood, with_interval(values[:, 1]), with_interval(values[:, 2]), with_interval(less[:, 2], "+")]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def with_interval(values: np.ndarray, sign: str = "") -> str:
    if len(values) < 2 or np.ptp(values) == 0:
        return f"{values.mean():{sign}.4f}"
    return f"{values.mean():{sign}.4f} ± {1.96 * values.std(ddof=1) / len(values) ** 0.5:.4f}"


def read(votes: Path, truth: Path) -> World:
    """Real votes on pairs whose truth is known."""
    with truth.open(newline="", encoding="utf-8") as file:
        known = {row["question"]: row["truth"] == "1" for row in csv.DictReader(file)}
    with votes.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["question"] in known]
    number = {question: i for i, question in enumerate(known)}
    pairs = [str(number[row["question"]]) for row in rows]
    answers = [int(row["answer"]) for row in rows]
    given = Votes(["q"] * len(rows), pairs, [row["worker"] for row in rows], answers)
    return World(np.array(list(known.values())), given.last())


def draws_of(make: Callable[[np.random.Generator], World], n: int) -> Iterator[dict[str, tuple[float, float, float]]]:
    for seed in range(n):
        rng = np.random.default_rng(seed)
        yield measured(make(rng), rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the draws")
    parser.add_argument("--only", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--votes", type=Path)
    parser.add_argument("--truth", type=Path)
    options = parser.parse_args()
    versions = " ".join(f"{name} {version(name)}" for name in ("lookalike", "numpy", "scipy"))
    print(f"{datetime.date.today()}, {platform.machine()}, Python {platform.python_version()}, {versions}")
    start = time.perf_counter()
    if options.votes is not None:
        world = read(options.votes, options.truth)
        show(f"{world.votes}, drawn: which votes are held out", list(draws_of(lambda _: world, 5)))
    else:
        for name in options.only:
            n, make = WORLDS[name]
            show(name, list(draws_of(make, max(2, n // 5) if options.quick else n)))
    print(f"\nall of it took {time.perf_counter() - start:.0f} s, {time.process_time():.0f} s of the processor")


if __name__ == "__main__":
    main()
