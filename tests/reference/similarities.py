"""Similarities of rows of floats by their definitions, in exact arithmetic: every float is a fraction.

Cosines are roots. They are compared by their squares, with a sign, which are fractions too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

Row = Sequence[float]


def exact(row: Row) -> list[Fraction]:
    return [Fraction(number) for number in row]


def dot(a: Row, b: Row) -> Fraction:
    return sum((x * y for x, y in zip(exact(a), exact(b), strict=True)), Fraction())


def euclidean(a: Row, b: Row) -> Fraction:
    """Minus the squared distance."""
    return -sum(((x - y) ** 2 for x, y in zip(exact(a), exact(b), strict=True)), Fraction())


def cosine(a: Row, b: Row) -> Fraction:
    """The squared cosine with the cosine's sign: it ranks, and ties, as the cosine does."""
    product = dot(a, b)
    return product * abs(product) / (dot(a, a) * dot(b, b))


SIMILARITIES: dict[str, Callable[[Row, Row], Fraction]] = {"cosine": cosine, "dot": dot, "euclidean": euclidean}


def places(queries: Sequence[Row], gallery: Sequence[Row], similarity: str) -> list[list[int]]:
    """For each query the tie group of each item, 0 being the nearest."""
    found = []
    for query in queries:
        scores = [SIMILARITIES[similarity](query, item) for item in gallery]
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
