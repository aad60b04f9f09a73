"""Every metric by its definition: enumerate all orders of the tied items, score each one as a textbook would.

A ranking is a list of tie groups in rank order, each a list of grades. `unranked` lists the grades of judged items
that no group holds: they count in totals and ideals, never at a rank. Every metric returns Bounds(expected, best,
worst) over all orders of the tied items, in Fraction unless a logarithm is in it, or None where it is undefined.

The orders of a group are its distinct arrangements of grades: each stands for the same number of orders of the items
themselves, so all weigh the same (McSherry and Najork, ECIR 2008; He et al., CVPR 2018).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

Groups = Sequence[Sequence[int]]
Order = Sequence[int]
Number = Fraction | float


class Bounds(NamedTuple):
    """One metric of one query: its mean, maximum and minimum over all orders of the tied items."""

    expected: Number
    best: Number
    worst: Number


# Orders of tied items


def arrangements(grades: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every distinct order of the grades, once.

    >>> list(arrangements([1, 0, 1]))
    [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
    """
    if not grades:
        yield ()
    for first in sorted(set(grades)):
        rest = list(grades)
        rest.remove(first)
        for tail in arrangements(rest):
            yield (first, *tail)


def orders(groups: Groups) -> Iterator[tuple[int, ...]]:
    """Every full ranking that the tie groups allow.

    >>> list(orders([[2], [0, 1]]))
    [(2, 0, 1), (2, 1, 0)]
    """
    for parts in itertools.product(*(list(arrangements(group)) for group in groups)):
        yield tuple(itertools.chain.from_iterable(parts))


def over_orders(groups: Groups, value: Callable[[Order], Number]) -> Bounds:
    """Mean, maximum and minimum of `value` over every order, each order equally likely.

    >>> over_orders([[0, 1]], lambda order: Fraction(order[0]))
    Bounds(expected=Fraction(1, 2), best=Fraction(1, 1), worst=Fraction(0, 1))
    """
    values = [value(order) for order in orders(groups)]
    exact = [v for v in values if isinstance(v, Fraction)]
    mean: Number = (
        sum(exact, Fraction()) / len(values) if len(exact) == len(values) else math.fsum(values) / len(values)
    )
    return Bounds(mean, max(values), min(values))


def flatten(groups: Groups) -> list[int]:
    """All ranked grades, whatever their order."""
    return [grade for group in groups for grade in group]


def relevant_items(grades: Sequence[int], rel: int) -> int:
    """How many of the grades are at least `rel`."""
    return sum(grade >= rel for grade in grades)


# Metrics of a ranking


def average_precision(
    groups: Groups,
    unranked: Sequence[int] = (),
    *,
    k: int | None = None,
    rel: int = 1,
    norm: str = "retrieved",
    empty: str = "zero",
) -> Bounds | None:
    """Sum over relevant ranks r <= k of (precision at r), over D; undefined without a relevant item.

    D is the number of relevant items in the top k ("retrieved"), of all relevant items ("total"), or min(k, all
    relevant) ("min"). An order with nothing relevant in the top k counts 0, or with empty="skip" is left out: then the
    metric is undefined where every order is.

    >>> average_precision([[1], [0], [0], [1]]).expected        # ranks 1 and 4: (1 + 2/4) / 2
    Fraction(3, 4)
    """
    total = relevant_items(flatten(groups), rel) + relevant_items(unranked, rel)
    if total == 0:
        return None

    def value(order: Order) -> Fraction:
        top = order if k is None else order[:k]
        found, precisions = 0, Fraction()
        for rank, grade in enumerate(top, start=1):
            if grade >= rel:
                found += 1
                precisions += Fraction(found, rank)
        if norm == "retrieved":
            # Nothing to cut off without k: what is retrieved is everything that is relevant, ranked or not.
            denominator = total if k is None else found
        elif norm == "total":
            denominator = total
        elif norm == "min":
            denominator = total if k is None else min(k, total)
        else:
            raise ValueError(f"unknown norm {norm!r}")
        return precisions / denominator if denominator else Fraction()

    if empty == "zero":
        return over_orders(groups, value)
    counted = [value(order) for order in orders(groups) if any(grade >= rel for grade in order[:k])]
    return Bounds(sum(counted, Fraction()) / len(counted), max(counted), min(counted)) if counted else None


def precision(groups: Groups, unranked: Sequence[int] = (), *, k: int, rel: int = 1) -> Bounds:
    """Relevant items in the top k, over k even where fewer than k items are ranked.

    >>> precision([[1, 0]], k=4).expected
    Fraction(1, 4)
    """
    return over_orders(groups, lambda order: Fraction(relevant_items(order[:k], rel), k))


def recall(groups: Groups, unranked: Sequence[int] = (), *, k: int, rel: int = 1) -> Bounds | None:
    """Relevant items in the top k, over all relevant items; undefined without a relevant item.

    >>> recall([[1, 0]], [1], k=1).best
    Fraction(1, 2)
    """
    total = relevant_items(flatten(groups), rel) + relevant_items(unranked, rel)
    if total == 0:
        return None
    return over_orders(groups, lambda order: Fraction(relevant_items(order[:k], rel), total))


def average_precision_at_r(groups: Groups, unranked: Sequence[int] = (), *, rel: int = 1) -> Bounds | None:
    """Sum over relevant ranks r <= R of (precision at r), over R, the number of relevant items (Musgrave et al. 2020).

    >>> average_precision_at_r([[1], [0], [1]]).expected        # R = 2: the second relevant item is too far down
    Fraction(1, 2)
    """
    total = relevant_items(flatten(groups), rel) + relevant_items(unranked, rel)
    return average_precision(groups, unranked, k=total, rel=rel, norm="total") if total else None


def precision_at_r(groups: Groups, unranked: Sequence[int] = (), *, rel: int = 1) -> Bounds | None:
    """Relevant items in the top R, over R, the number of relevant items.

    >>> precision_at_r([[1], [0], [1]]).expected
    Fraction(1, 2)
    """
    total = relevant_items(flatten(groups), rel) + relevant_items(unranked, rel)
    return precision(groups, unranked, k=total, rel=rel) if total else None


def precision_in_radius(groups: Groups, distances: Sequence[int], *, radius: int, rel: int = 1) -> Bounds:
    """Share of relevant items among those at distance <= radius; 0 for an empty ball. The order is no matter.

    >>> precision_in_radius([[1, 0], [1]], [0, 3], radius=2).expected
    Fraction(1, 2)
    """
    ball = [grade for group, distance in zip(groups, distances, strict=True) if distance <= radius for grade in group]
    value = Fraction(relevant_items(ball, rel), len(ball)) if ball else Fraction()
    return Bounds(value, value, value)


def recall_in_radius(
    groups: Groups, distances: Sequence[int], unranked: Sequence[int] = (), *, radius: int, rel: int = 1
) -> Bounds | None:
    """Share of all relevant items that are at distance <= radius; undefined without a relevant item.

    >>> recall_in_radius([[1, 0], [1]], [0, 3], radius=2).expected
    Fraction(1, 2)
    """
    total = relevant_items(flatten(groups), rel) + relevant_items(unranked, rel)
    if total == 0:
        return None
    ball = [grade for group, distance in zip(groups, distances, strict=True) if distance <= radius for grade in group]
    value = Fraction(relevant_items(ball, rel), total)
    return Bounds(value, value, value)


def hit(groups: Groups, unranked: Sequence[int] = (), *, k: int | None = None, rel: int = 1) -> Bounds:
    """1 if any relevant item is in the top k, else 0.

    >>> hit([[0, 0, 1]], k=2).expected
    Fraction(2, 3)
    """
    return over_orders(groups, lambda order: Fraction(int(relevant_items(order[:k], rel) > 0)))


def reciprocal_rank(
    groups: Groups, unranked: Sequence[int] = (), *, k: int | None = None, rel: int = 1
) -> Bounds | None:
    """1 / rank of the first relevant item, 0 past k; undefined without a relevant item.

    >>> reciprocal_rank([[0, 1]]).expected
    Fraction(3, 4)
    """
    if relevant_items(flatten(groups), rel) + relevant_items(unranked, rel) == 0:
        return None

    def value(order: Order) -> Fraction:
        for rank, grade in enumerate(order[:k], start=1):
            if grade >= rel:
                return Fraction(1, rank)
        return Fraction()

    return over_orders(groups, value)


def gain_of(grade: int, gain: str) -> int:
    """2^grade - 1 ("exponential") or the grade itself ("linear")."""
    return {"exponential": (1 << grade) - 1, "linear": grade}[gain]


def discount_of(rank: int, discount: str) -> Number:
    """1 / log2(rank + 1) ("log2") or 1 / rank ("reciprocal")."""
    return 1 / math.log2(rank + 1) if discount == "log2" else {"reciprocal": Fraction(1, rank)}[discount]


def dcg_of(order: Order, k: int | None, gain: str, discount: str) -> Number:
    """Discounted gain of one order: the sum over ranks <= k of gain(grade) * discount(rank)."""
    terms = [gain_of(grade, gain) * discount_of(rank, discount) for rank, grade in enumerate(order[:k], start=1)]
    return math.fsum(terms) if discount == "log2" else sum(terms, Fraction())


def dcg(
    groups: Groups,
    unranked: Sequence[int] = (),
    *,
    k: int | None = None,
    gain: str = "exponential",
    discount: str = "log2",
) -> Bounds:
    """Sum over ranks <= k of gain(grade) * discount(rank).

    >>> dcg([[0, 3]], discount="reciprocal").expected        # 7 at rank 1 or at rank 2
    Fraction(21, 4)
    """
    return over_orders(groups, lambda order: dcg_of(order, k, gain, discount))


def ndcg(
    groups: Groups,
    unranked: Sequence[int] = (),
    *,
    k: int | None = None,
    gain: str = "exponential",
    discount: str = "log2",
) -> Bounds | None:
    """DCG over the DCG of all items, ranked or not, in order of falling grade; undefined where every grade is 0.

    >>> ndcg([[0], [1]], [1], discount="reciprocal").expected        # (1/2) / (1 + 1/2)
    Fraction(1, 3)
    """
    ideal = dcg_of(sorted([*flatten(groups), *unranked], reverse=True), k, gain, discount)
    if ideal == 0:
        return None
    return over_orders(groups, lambda order: dcg_of(order, k, gain, discount) / ideal)


def auc(groups: Groups, *, rel: int = 1) -> Bounds | None:
    """Share of (relevant, other) pairs in which the relevant item ranks first; undefined with one class only.

    Over all orders a tied pair is right half of the time, so the expected value counts a tie 1/2, the worst 0.

    >>> auc([[1, 0], [0]])
    Bounds(expected=Fraction(3, 4), best=Fraction(1, 1), worst=Fraction(1, 2))
    """
    grades = flatten(groups)
    relevant = relevant_items(grades, rel)
    other = len(grades) - relevant
    if relevant == 0 or other == 0:
        return None

    def value(order: Order) -> Fraction:
        right = sum(first >= rel > second for first, second in itertools.combinations(order, 2))
        return Fraction(right, relevant * other)

    return over_orders(groups, value)


def false_non_match_rate(groups: Groups, *, fmr: float = 0.001, rel: int = 1) -> Bounds | None:
    """Share of the relevant items that are rejected, where the threshold accepts as many others as it may.

    It may accept a share `fmr` of the others at most, and accepts every item above the first other that is one too
    many. Lower is better: best is the minimum. Undefined with one class only.

    >>> false_non_match_rate([[1], [0], [1, 0]], fmr=0.5)
    Bounds(expected=Fraction(1, 4), best=Fraction(0, 1), worst=Fraction(1, 2))
    """
    grades = flatten(groups)
    relevant = relevant_items(grades, rel)
    other = len(grades) - relevant
    if relevant == 0 or other == 0:
        return None
    allowed = Fraction(str(fmr)) * other

    def value(order: Order) -> Fraction:
        accepted = others = 0
        for grade in order:
            if grade >= rel:
                accepted += 1
                continue
            others += 1
            if others > allowed:
                break
        return 1 - Fraction(accepted, relevant)

    expected, highest, lowest = over_orders(groups, value)
    return Bounds(expected, lowest, highest)


def pr_auc(groups: Groups, *, rel: int = 1) -> Bounds | None:
    """Sum over tie groups of (recall gained by the group) * (precision down to its end); undefined with one class only.

    A tie group is one threshold, so nothing depends on an order.

    >>> pr_auc([[1, 0], [1]]).expected        # 1/2 * 1/2 + 1/2 * 2/3
    Fraction(7, 12)
    """
    grades = flatten(groups)
    total = relevant_items(grades, rel)
    if total == 0 or total == len(grades):
        return None
    area = Fraction()
    seen: list[int] = []
    for group in groups:
        seen.extend(group)
        if group:
            area += Fraction(relevant_items(group, rel), total) * Fraction(relevant_items(seen, rel), len(seen))
    return Bounds(area, area, area)


# Judged pairs: a grade of UNJUDGED is that of a ranked item which nobody judged

UNJUDGED = -1


def judged(groups: Groups, unranked: Sequence[int] = (), *, k: int) -> Bounds:
    """Items in the top k that somebody judged, over k even where fewer than k items are ranked.

    >>> judged([[0, UNJUDGED], [2]], k=1).expected
    Fraction(1, 2)
    """
    return over_orders(groups, lambda order: Fraction(sum(grade != UNJUDGED for grade in order[:k]), k))


def bpref(groups: Groups, unranked: Sequence[int] = (), *, rel: int = 1) -> Bounds | None:
    """Mean over all R relevant items of 1 - min(judged irrelevant ones above it, R) / min(R, judged irrelevant ones).

    A relevant item that is not ranked adds 0, one with nothing irrelevant above it adds 1. Undefined without one.

    >>> bpref([[0], [UNJUDGED], [1]], [1, 0]).expected        # one of two found, below one of two
    Fraction(1, 4)
    """
    known = [grade for grade in [*flatten(groups), *unranked] if grade != UNJUDGED]
    relevant = relevant_items(known, rel)
    irrelevant = len(known) - relevant
    if relevant == 0:
        return None

    def value(order: Order) -> Fraction:
        total, above = Fraction(), 0
        for grade in order:
            if grade >= rel:
                total += 1 - Fraction(min(above, relevant), min(relevant, irrelevant)) if above else 1
            elif grade != UNJUDGED:
                above += 1
        return total / relevant

    return over_orders(groups, value)


def rank_biased(
    groups: Groups,
    unranked: Sequence[int] = (),
    *,
    k: int | None = None,
    p: float = 0.8,
    rel: int = 1,
    part: str = "sum",
) -> Bounds:
    """Sum over relevant ranks <= k of (1 - p) p^(rank - 1); or of unjudged ranks, and of all ranks not looked at.

    >>> rank_biased([[1], [UNJUDGED]], p=0.5).expected, rank_biased([[1], [UNJUDGED]], p=0.5, part="residual").expected
    (Fraction(1, 2), Fraction(1, 2))
    """
    patience = Fraction(str(p))

    def value(order: Order) -> Fraction:
        top = order[:k]
        counts = [grade >= rel if part == "sum" else grade == UNJUDGED for grade in top]
        found = sum((patience**i for i, wanted in enumerate(counts) if wanted), Fraction()) * (1 - patience)
        return found + (patience ** len(top) if part == "residual" else 0)

    return over_orders(groups, value)


def discovery_hits(groups: Groups, unranked: Sequence[int] = (), *, k: int, rel: int = 1) -> Bounds:
    """Positives in the top k.

    >>> discovery_hits([[1, 0], [1]], k=1).expected
    Fraction(1, 2)
    """
    return over_orders(groups, lambda order: Fraction(relevant_items(order[:k], rel)))


def discovery_hit_rate(groups: Groups, unranked: Sequence[int] = (), *, k: int, rel: int = 1) -> Bounds | None:
    """Positives in the top k, over k; undefined without a positive.

    >>> discovery_hit_rate([[1], [1], [0]], k=3).expected
    Fraction(2, 3)
    """
    if relevant_items([*flatten(groups), *unranked], rel) == 0:
        return None
    return Bounds(*(hits / k for hits in discovery_hits(groups, k=k, rel=rel)))


def discovery_reciprocal_rank(groups: Groups, unranked: Sequence[int] = (), *, k: int, rel: int = 1) -> Bounds | None:
    """1 / rank of every positive in the top k, over 1 + 1/2 + ... + 1/k; undefined without a positive.

    >>> discovery_reciprocal_rank([[1], [0], [1]], k=3).expected        # (1 + 1/3) / (1 + 1/2 + 1/3)
    Fraction(8, 11)
    """
    if relevant_items([*flatten(groups), *unranked], rel) == 0:
        return None
    whole = sum(Fraction(1, rank) for rank in range(1, k + 1))

    def value(order: Order) -> Fraction:
        ranks = [rank for rank, grade in enumerate(order[:k], start=1) if grade >= rel]
        return sum((Fraction(1, rank) for rank in ranks), Fraction()) / whole

    return over_orders(groups, value)


def pooled_groups(queries: Sequence[tuple[Groups, Sequence[float]]]) -> list[list[int]]:
    """One ranking of the judged items of all queries, each given by its tie groups and their scores.

    >>> pooled_groups([([[1], [0]], [3, 1]), ([[0, 1]], [3])])
    [[1, 0, 1], [0]]
    """
    together: dict[float, list[int]] = {}
    for groups, scores in queries:
        for group, score in zip(groups, scores, strict=True):
            together.setdefault(score, []).extend(grade for grade in group if grade != UNJUDGED)
    return [together[score] for score in sorted(together, reverse=True)]


# Codes


def distance(a: Sequence[int], b: Sequence[int]) -> int:
    """Number of places where two equally long bit lists differ.

    >>> distance([0, 1, 1], [1, 1, 0])
    2
    """
    return sum(x != y for x, y in zip(a, b, strict=True))


def tally(
    queries: Sequence[Sequence[int]],
    gallery: Sequence[Sequence[int]],
    grades: Sequence[Sequence[int | None]],
    max_grade: int,
    excluded: Sequence[Sequence[bool]] | None = None,
) -> list[list[list[int]]]:
    """For every query, distance 0..b and grade 0..max_grade: how many items there are. None is unjudged: not counted.

    >>> tally([[0, 0]], [[0, 0], [0, 1], [1, 0]], [[1, 0, 1]], 1)
    [[[0, 1], [1, 1], [0, 0]]]
    """
    table = [[[0] * (max_grade + 1) for _ in range(len(query) + 1)] for query in queries]
    for q, query in enumerate(queries):
        for i, item in enumerate(gallery):
            grade = grades[q][i]
            if grade is not None and not (excluded and excluded[q][i]):
                table[q][distance(query, item)][grade] += 1
    return table


def groups_by_distance(
    query: Sequence[int], gallery: Sequence[Sequence[int]], grades: Sequence[int]
) -> tuple[list[list[int]], list[int]]:
    """Tie groups at distance 0..b (empty ones too), and these distances.

    >>> groups_by_distance([0], [[1], [0], [1]], [3, 2, 0])
    ([[2], [3, 0]], [0, 1])
    """
    distances = list(range(len(query) + 1))
    groups: list[list[int]] = [[] for _ in distances]
    for item, grade in zip(gallery, grades, strict=True):
        groups[distance(query, item)].append(grade)
    return groups, distances


def lgap(
    query: Sequence[int], gallery: Sequence[Sequence[int]], grades: Sequence[int], *, radius: int, rel: int = 1
) -> Fraction:
    """Local group average precision (Ding et al. 2018): mean over k = 0..radius of P(d <= k) * phi_k; no order matters.

    phi_k = (items in the ball) / (largest number of items on one code in the ball * number of codes in the ball, used
    or not). An empty ball adds 0.

    >>> lgap([0, 0], [[0, 0], [0, 1], [0, 1]], [1, 1, 0], radius=1)        # (1 + 2/3 * 3/(2*3)) / 2
    Fraction(2, 3)
    """
    summed = Fraction()
    for k in range(radius + 1):
        ball = [i for i, item in enumerate(gallery) if distance(query, item) <= k]
        if ball:
            share = Fraction(relevant_items([grades[i] for i in ball], rel), len(ball))
            largest = max(Counter(tuple(gallery[i]) for i in ball).values())
            codes_in_ball = sum(math.comb(len(query), i) for i in range(k + 1))
            summed += share * Fraction(len(ball), largest * codes_in_ball)
    return summed / (radius + 1)
