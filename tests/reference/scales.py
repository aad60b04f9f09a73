"""Votes on a scale counted one by one: rules and agreement by loops, in fractions.

A pair's answers are a list of grades; can't tell is left out of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

Units = Sequence[Sequence[int]]


def median(grades: Sequence[int]) -> int:
    """The grade that stands in the middle; of two, the lower.

    >>> median([2, 0, 1]), median([2, 0])
    (1, 0)
    """
    ordered = list(grades)
    while len(ordered) > 2:
        ordered.remove(max(ordered))
        ordered.remove(min(ordered))
    return min(ordered)


def majority(grades: Sequence[int]) -> int:
    """The most frequent grade; of several, the lowest.

    >>> majority([2, 2, 0]), majority([2, 1])
    (2, 1)
    """
    most = max(list(grades).count(grade) for grade in grades)
    return min(grade for grade in grades if list(grades).count(grade) == most)


def mean(grades: Sequence[int]) -> int:
    """The grade nearest to the mean; of two, the lower.

    >>> mean([2, 1]), mean([2, 2, 1])
    (1, 2)
    """
    exact = Fraction(sum(grades), len(grades))
    return min(range(max(grades) + 1), key=lambda grade: (abs(grade - exact), grade))


def unanimous(grades: Sequence[int]) -> int:
    """The highest grade that every expert reaches."""
    return max(grade for grade in range(max(grades) + 1) if all(given >= grade for given in grades))


def ordinal_alpha(units: Units) -> Fraction | None:
    """1 - observed/expected disagreement; of two grades it is the square of how many values lie from one to the other.

    The values of both ends count half.

    >>> ordinal_alpha([[0, 0], [1, 2], [2, 2]])
    Fraction(7, 9)
    """
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]

    def apart(a: int, b: int) -> Fraction:
        if a == b:
            return Fraction(0)
        between = sum(min(a, b) <= value <= max(a, b) for value in values)
        return (between - Fraction(values.count(a) + values.count(b), 2)) ** 2

    if len(set(values)) < 2:
        return None
    within = sum(
        (sum((apart(a, b) for a, b in permutations(u, 2)), Fraction(0)) / (len(u) - 1) for u in units), Fraction(0)
    )
    all_pairs = sum((apart(a, b) for a, b in permutations(values, 2)), Fraction(0)) / (len(values) - 1)
    return 1 - within / all_pairs


def weighted_kappa(first: Sequence[int], second: Sequence[int]) -> Fraction | None:
    """Of two experts' grades of the same pairs: mean squared difference, over that of all pairs of their grades.

    >>> weighted_kappa([0, 1, 2], [0, 2, 2])
    Fraction(4, 5)
    """
    n = len(first)
    by_chance = sum((a - b) ** 2 for a in first for b in second)
    observed = sum((a - b) ** 2 for a, b in zip(first, second, strict=True))
    return 1 - Fraction(n * observed, by_chance) if by_chance else None


def gwet_ac2(units: Units, steps: int) -> Fraction | None:
    """Of two experts of a unit, how far they agree, beyond chance that is high where grades are evenly common.

    >>> gwet_ac2([[0, 0], [1, 2], [2, 2]], 3)
    Fraction(11, 14)
    """
    several = [unit for unit in units if len(unit) > 1]
    if not several:
        return None

    def near(a: int, b: int) -> Fraction:
        return 1 - Fraction((a - b) ** 2, (steps - 1) ** 2)

    agreeing = [
        sum((near(a, b) for a, b in permutations(u, 2)), Fraction(0)) / (len(u) * (len(u) - 1)) for u in several
    ]
    rated = [unit for unit in units if unit]
    common = [sum((Fraction(list(u).count(g), len(u)) for u in rated), Fraction(0)) / len(rated) for g in range(steps)]
    weights = sum((near(a, b) for a in range(steps) for b in range(steps)), Fraction(0))
    chance = weights * sum((share * (1 - share) for share in common), Fraction(0)) / (steps * (steps - 1))
    return (sum(agreeing, Fraction(0)) / len(agreeing) - chance) / (1 - chance)


def ndcg(ranked: Sequence[int], all_grades: Sequence[int], k: int) -> float:
    """Gains 2^grade - 1 over log2(rank + 1), over those of the best order; what nobody judged has grade 0."""

    def gain(grades: Sequence[int]) -> float:
        return math.fsum((2**grade - 1) / math.log2(rank + 2) for rank, grade in enumerate(grades[:k]))

    return gain(ranked) / gain(sorted(all_grades, reverse=True))
