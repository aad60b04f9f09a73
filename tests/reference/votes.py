"""Votes counted one by one: rules, agreement and intervals by loops over pairs and experts, exact where they can be.

A vote is (query, item, expert, answer, time), the answer 1, 0 or -1 (can't tell), the time a number or None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, permutations

Vote = tuple[str, str, str, int, int | None]
Pair = tuple[str, str]
Table = dict[Pair, dict[str, int]]


def last_votes(votes: Sequence[Vote]) -> Table:
    """The answer that counts of each expert on each pair: the latest, of equally late ones the last in the record.

    >>> last_votes([("q", "a", "ann", 1, 5), ("q", "a", "ann", 0, 4)])
    {('q', 'a'): {'ann': 1}}
    """
    table: Table = {}
    latest: dict[tuple[Pair, str], float] = {}
    for query, item, expert, answer, time in votes:
        moment = -math.inf if time is None else time
        pair = (query, item)
        table.setdefault(pair, {})
        if moment >= latest.get((pair, expert), -math.inf):
            latest[pair, expert] = moment
            table[pair][expert] = answer
    return table


def changed(votes: Sequence[Vote], expert: str) -> int:
    """How often an expert said something else of a pair than the time before."""
    said: dict[Pair, list[tuple[float, int, int]]] = {}
    for place, (query, item, who, answer, time) in enumerate(votes):
        if who == expert:
            said.setdefault((query, item), []).append((-math.inf if time is None else time, place, answer))
    total = 0
    for history in said.values():
        answers = [answer for _, _, answer in sorted(history)]
        total += sum(a != b for a, b in pairwise(answers))
    return total


def decided(answers: dict[str, int]) -> list[int]:
    return [answer for answer in answers.values() if answer != -1]


def majority(table: Table) -> dict[Pair, int]:
    return {
        pair: int(sum(decided(answers)) * 2 > len(decided(answers)))
        for pair, answers in table.items()
        if decided(answers)
    }


def unanimous(table: Table) -> dict[Pair, int]:
    return {pair: int(all(decided(answers))) for pair, answers in table.items() if decided(answers)}


def dawid_skene(
    table: Table, smoothing: float | str, iterations: int
) -> tuple[dict[Pair, float], dict[str, list[float]]]:
    """Probability of each pair and [sensitivity, specificity] of each expert, after so many iterations.

    Smoothing by a number adds as many right and wrong votes to each expert. By "crowd", all experts share nine right
    and three wrong ones, and each gets two that are right as often as the crowd's: at first the share of all votes,
    later the rate whose log odds are the mean of the experts'.
    """
    judged = {
        pair: {expert: answer for expert, answer in answers.items() if answer != -1}
        for pair, answers in table.items()
        if decided(answers)
    }
    experts = sorted({expert for answers in judged.values() for expert in answers})
    posterior = {pair: sum(answers.values()) / len(answers) for pair, answers in judged.items()}
    by_crowd = smoothing == "crowd"
    right, wrong = (9 / len(experts), 3 / len(experts)) if by_crowd and experts else (smoothing, smoothing)
    pairs_of_each = 1 if by_crowd else float(smoothing)
    usual: list[float] = []
    rates: dict[str, list[float]] = {}
    for _ in range(iterations):
        prevalence = (sum(posterior.values()) + pairs_of_each) / (len(posterior) + 2 * pairs_of_each)
        counts = {expert: _rightly(judged, posterior, expert) for expert in experts}
        if not usual:
            both = [[sum(c[kind][i] for c in counts.values()) for i in (0, 1)] for kind in (0, 1)]
            usual = [(part + 1) / (whole + 2) for part, whole in both]
        rates = {}
        for expert in experts:
            rates[expert] = []
            for (part, whole), rate in zip(counts[expert], usual, strict=True):
                extra, of_crowd = (2, 2 * rate) if by_crowd else (0, 0)
                rates[expert].append((part + float(right) + of_crowd) / (whole + float(right) + float(wrong) + extra))
        for kind in (0, 1) if experts else ():
            odds = [math.log(rates[expert][kind] / (1 - rates[expert][kind])) for expert in experts]
            usual[kind] = 1 / (1 + math.exp(-sum(odds) / len(odds)))
        for pair, answers in judged.items():
            similar, other = prevalence, 1 - prevalence
            for expert, answer in answers.items():
                sensitivity, specificity = rates[expert]
                similar *= sensitivity if answer else 1 - sensitivity
                other *= 1 - specificity if answer else specificity
            posterior[pair] = similar / (similar + other)
    return posterior, rates


def _rightly(judged: Table, posterior: dict[Pair, float], expert: str) -> list[tuple[float, float]]:
    """Right votes and all votes of an expert on similar pairs, then on others, each weighed by the probability."""
    hits = positives = rejections = negatives = 0.0
    for pair, answers in judged.items():
        if expert in answers:
            positives += posterior[pair]
            negatives += 1 - posterior[pair]
            hits += posterior[pair] * answers[expert]
            rejections += (1 - posterior[pair]) * (1 - answers[expert])
    return [(hits, positives), (rejections, negatives)]


def krippendorff_alpha(units: Sequence[Sequence[int]]) -> Fraction | None:
    """1 - observed/expected disagreement: of all ordered pairs of values within units, and of all values there are.

    >>> krippendorff_alpha([[1, 1], [1, 0], [0, 0]])
    Fraction(4, 9)
    """
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    if len(set(values)) < 2:
        return None
    within = sum(
        (Fraction(sum(a != b for a, b in permutations(unit, 2)), len(unit) - 1) for unit in units), Fraction(0)
    )
    between = Fraction(sum(a != b for a, b in permutations(values, 2)), len(values) * (len(values) - 1))
    return 1 - within / len(values) / between


def gwet_ac1(units: Sequence[Sequence[int]], answers: Sequence[int]) -> Fraction | None:
    """Of two experts of a unit, how often they agree, beyond chance that is high where answers are evenly common.

    >>> gwet_ac1([[1, 1], [1, 0], [0, 0]], [0, 1])
    Fraction(1, 3)
    """
    several = [unit for unit in units if len(unit) > 1]
    if not several:
        return None
    agreeing = [Fraction(sum(a == b for a, b in permutations(u, 2)), len(u) * (len(u) - 1)) for u in several]
    rated = [unit for unit in units if unit]
    common = [sum((Fraction(list(u).count(a), len(u)) for u in rated), Fraction(0)) / len(rated) for a in answers]
    chance = sum((share * (1 - share) for share in common), Fraction(0)) / (len(answers) - 1)
    return (sum(agreeing, Fraction(0)) / len(agreeing) - chance) / (1 - chance)


def cohen_kappa(first: Sequence[int], second: Sequence[int]) -> Fraction | None:
    """Of two experts' answers to the same pairs.

    >>> cohen_kappa([1, 1, 0], [1, 0, 0])
    Fraction(2, 5)
    """
    n = len(first)
    if not n:
        return None
    observed = Fraction(sum(a == b for a, b in zip(first, second, strict=True)), n)
    chance = sum(Fraction(list(first).count(a) * list(second).count(a), n * n) for a in set(first) | set(second))
    return (observed - chance) / (1 - chance) if chance < 1 else None


def as_others(table: Table, expert: str) -> Fraction | None:
    """Share of an expert's decided votes that are those of the majority of the others, where there is one."""
    agreeing = compared = 0
    for answers in table.values():
        if answers.get(expert, -1) == -1:
            continue
        others = [answer for name, answer in answers.items() if name != expert and answer != -1]
        if 2 * sum(others) == len(others):
            continue
        compared += 1
        agreeing += answers[expert] == int(2 * sum(others) > len(others))
    return Fraction(agreeing, compared) if compared else None


def exact_interval(a: int, b: int, level: float) -> tuple[float, float]:
    """The shares under which as many positives, or as few, are just not too improbable; by halving."""
    tail = (1 - level) / 2

    def at_least(n: int, share: float) -> float:
        return sum(math.comb(b, i) * share**i * (1 - share) ** (b - i) for i in range(n, b + 1))

    def where(n: int, probability: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if at_least(n, middle) > probability else (middle, high)
        return low

    return (where(a, tail) if a else 0.0), (where(a + 1, 1 - tail) if a < b else 1.0)
