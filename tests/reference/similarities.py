"""Similarities of rows of floats by their definitions, in exact arithmetic: every float is a fraction.

Cosines are roots. They are compared by their squares, with a sign, which are fractions too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

Row = Sequence[float]
Exact = Sequence[Any]  # of fractions or whole numbers


def exact(row: Row) -> list[Fraction]:
    return [Fraction(number) for number in row]


def whole(rows: Sequence[Row]) -> list[list[int]]:
    """The same rows in a unit in which all their numbers are whole: they rank and tie alike."""
    unit = max((number.denominator for row in rows for number in exact(row)), default=1)  # of floats a power of two
    return [[int(number * unit) for number in exact(row)] for row in rows]


def dot(a: Exact, b: Exact) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction())


def euclidean(a: Exact, b: Exact) -> Fraction:
    """Minus the squared distance."""
    return -sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), Fraction())


def cosine(a: Exact, b: Exact) -> Fraction:
    """The squared cosine with the cosine's sign: it ranks, and ties, as the cosine does."""
    product = dot(a, b)
    return product * abs(product) / (dot(a, a) * dot(b, b))


SIMILARITIES: dict[str, Callable[[Exact, Exact], Fraction]] = {"cosine": cosine, "dot": dot, "euclidean": euclidean}


def places(queries: Sequence[Row], gallery: Sequence[Row], similarity: str) -> list[list[int]]:
    """For each query the tie group of each item, 0 being the nearest."""
    rows, found = whole([*queries, *gallery]), []
    for query in rows[: len(queries)]:
        scores = [SIMILARITIES[similarity](query, item) for item in rows[len(queries) :]]
        order = {score: place for place, score in enumerate(sorted(set(scores), reverse=True))}
        found.append([order[score] for score in scores])
    return found


def summed_distance(a: Row, b: Row) -> float:
    """Minus the squared distance of float64 rows, as it is computed: each difference, then each sum, rounded once."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        difference = float(Fraction(x) - Fraction(y))
        total = float(Fraction(total) - Fraction(difference) ** 2)
    return total


def summed_product(a: Row, b: Row) -> float:
    """The product of float64 rows, as it is computed: each sum rounded once."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total = float(Fraction(total) + Fraction(x) * Fraction(y))
    return total
