"""Discovery by its definitions: dictionaries and sets of ids, a loop over every pair, nothing fast.

A ranking is {query: {item: score}}, what one model says of the items that it lists, higher being better. A pair is
(query, item). Grades are {pair: grade}; a pair that is not in them is unjudged. Orders of tied items are enumerated in
`definitions`; where a function here has to choose between tied items it says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from . import definitions
from .definitions import UNJUDGED, Bounds

Pair = tuple[str, str]
Vector = Sequence[float]
Ranking = Mapping[str, Mapping[str, float]]
Grades = Mapping[Pair, int]
Provenance = dict[Pair, dict[str, tuple[int, float]]]
Ranked = tuple[list[list[int]], list[int]]


@dataclass(frozen=True)
class Shop:
    """Queries and items by id, and what each shows where that is known: {id: identity}."""

    queries: list[str]
    items: list[str]
    query_identities: dict[str, str] | None = None
    item_identities: dict[str, str] | None = None

    def identity(self, item: str) -> str:
        """What an item shows; without identities each item is its own."""
        return self.item_identities[item] if self.item_identities else item

    def own(self, query: str, item: str) -> bool:
        """Whether an item is the query itself or shows the same thing.

        >>> Shop(["q"], ["q", "a"], {"q": "shoe"}, {"q": "shoe", "a": "shoe"}).own("q", "a")
        True
        """
        if query == item:
            return True
        return self.query_identities is not None and self.query_identities[query] == self.identity(item)

    @property
    def pairs(self) -> list[Pair]:
        """Every query with every item that is not its own."""
        return [(query, item) for query in self.queries for item in self.items if not self.own(query, item)]


# Scores


def dot(a: Vector, b: Vector) -> float:
    """Sum of products."""
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def cosine(a: Vector, b: Vector) -> float:
    """Dot product over both lengths."""
    return dot(a, b) / math.sqrt(dot(a, a)) / math.sqrt(dot(b, b))


def euclidean(a: Vector, b: Vector) -> float:
    """Minus the squared distance, which ranks as the distance does."""
    return -math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def hamming(a: Vector, b: Vector) -> float:
    """Minus the number of places that differ."""
    return -float(sum(x != y for x, y in zip(a, b, strict=True)))


SIMILARITIES: dict[str, Callable[[Vector, Vector], float]] = {
    "cosine": cosine,
    "dot": dot,
    "euclidean": euclidean,
    "hamming": hamming,
}


def ranking_of(shop: Shop, queries: Sequence[Vector], gallery: Sequence[Vector], similarity: str) -> Ranking:
    """The ranking that vectors give, one for each query and item of the shop."""
    score = SIMILARITIES[similarity]
    return {
        query: {item: score(a, b) for item, b in zip(shop.items, gallery, strict=True)}
        for query, a in zip(shop.queries, queries, strict=True)
    }


def ranking_of_matrix(shop: Shop, matrix: Sequence[Vector]) -> Ranking:
    """The ranking of a matrix of scores."""
    return {
        query: {item: float(score) for item, score in zip(shop.items, row, strict=True)}
        for query, row in zip(shop.queries, matrix, strict=True)
    }


# The pool


def listed(shop: Shop, ranking: Ranking, query: str, one_per_identity: bool = False) -> list[tuple[str, float]]:
    """Items and scores of one query, the best first, without its own; of each identity only the best, where asked for.

    Tied items stand in the order of the shop.

    >>> listed(Shop(["q"], ["q", "a", "b"]), {"q": {"a": 1, "b": 2, "q": 3}}, "q")
    [('b', 2), ('a', 1)]
    """
    scores = ranking.get(query, {})
    rows = [(item, scores[item]) for item in shop.items if item in scores and not shop.own(query, item)]
    rows.sort(key=lambda row: -row[1])
    if not one_per_identity:
        return rows
    seen: set[str] = set()
    kept = []
    for item, score in rows:
        if shop.identity(item) not in seen:
            seen.add(shop.identity(item))
            kept.append((item, score))
    return kept


def provenance_of(
    shop: Shop, rankings: Mapping[str, Ranking], k: int, one_per_identity: bool = False
) -> dict[Pair, dict[str, tuple[int, float]]]:
    """Every pair in the top k of a model, and for each such model its rank and score."""
    found: Provenance = {}
    for model, ranking in rankings.items():
        for query in shop.queries:
            top = listed(shop, ranking, query, one_per_identity)[:k]
            for rank, (item, score) in enumerate(top, start=1):
                found.setdefault((query, item), {})[model] = rank, score
    return found


def proposals(provenance: Provenance, model: str) -> set[Pair]:
    """The pairs that a model proposed."""
    return {pair for pair, models in provenance.items() if model in models}


def overlap(provenance: Provenance, one: str, other: str) -> Fraction:
    """Share of what one model proposed that the other did too."""
    mine, yours = proposals(provenance, one), proposals(provenance, other)
    return Fraction(len(mine & yours), len(mine))


def duplication(provenance: Provenance, models: Iterable[str]) -> Fraction:
    """1 - |union| / (sum of what each proposed)."""
    return 1 - Fraction(len(provenance), sum(len(proposals(provenance, model)) for model in models))


def without(provenance: Provenance, model: str) -> Provenance:
    """What is left when one model proposes nothing."""
    left = {
        pair: {name: place for name, place in models.items() if name != model} for pair, models in provenance.items()
    }
    return {pair: models for pair, models in left.items() if models}


def alone(provenance: Provenance, model: str, drawn: Collection[Pair] = ()) -> set[Pair]:
    """The pairs that only this model proposed and chance did not draw."""
    return {pair for pair, models in provenance.items() if set(models) == {model} and pair not in drawn}


def helped(
    provenance: Provenance, model: str, builders: Sequence[str], judged: Collection[Pair], drawn: Collection[Pair] = ()
) -> bool:
    """Whether a pair is judged that this model brought, before any other and not chance; or all, if it brought none.

    >>> pairs = {("q", "a"): {"one": (1, 1.0)}, ("q", "b"): {"two": (1, 1.0)}}
    >>> [helped(pairs, model, ["one", "two"], {("q", "a")}) for model in ("one", "two", "three")]
    [True, False, False]
    """
    if model not in builders:
        return False
    earlier = builders[: list(builders).index(model)]
    mine = proposals(provenance, model)
    brought = {pair for pair in mine if not any(other in provenance[pair] for other in earlier)} - set(drawn)
    return any(pair in judged for pair in brought) if brought else all(pair in judged for pair in mine)


def layer(provenance: Provenance, pair: Pair) -> int:
    """The best rank that a model gave a pair."""
    return min(rank for rank, _ in provenance[pair].values())


# The order of judging


def posterior_mean(provenance: Provenance, grades: Grades, model: str) -> Fraction:
    """(positives + 1) / (judged + 2) among what a model proposed: MaxMean of Losada et al. 2016.

    >>> posterior_mean({("q", "a"): {"m": (1, 0.5)}}, {("q", "a"): 1}, "m")
    Fraction(2, 3)
    """
    judged = [grades[pair] for pair in proposals(provenance, model) if pair in grades]
    return Fraction(sum(grade > 0 for grade in judged) + 1, len(judged) + 2)


def next_ones(provenance: Provenance, grades: Grades, model: str) -> set[Pair]:
    """The unjudged proposals of a model at the best rank that has any."""
    left = {pair: provenance[pair][model][0] for pair in proposals(provenance, model) if pair not in grades}
    return {pair for pair, rank in left.items() if rank == min(left.values())}


def most_promising(provenance: Provenance, grades: Grades, models: Iterable[str]) -> list[str]:
    """The models with the highest posterior mean among those that have something left to judge."""
    means = {m: posterior_mean(provenance, grades, m) for m in models if next_ones(provenance, grades, m)}
    return [model for model, mean in means.items() if mean == max(means.values())]


def next_adaptive(provenance: Provenance, grades: Grades, models: Iterable[str]) -> set[Pair]:
    """What may be judged next: the next rank of any of the most promising models."""
    best = most_promising(provenance, grades, models)
    return {pair for model in best for pair in next_ones(provenance, grades, model)}


# Judgements


def inherited(shop: Shop, grades: Grades) -> dict[Pair, int]:
    """Judgements about products: all items of a judged item's identity have the highest grade that one of them got.

    >>> inherited(Shop(["q"], ["a", "b"], {"q": "hat"}, {"a": "shoe", "b": "shoe"}), {("q", "a"): 2})
    {('q', 'a'): 2, ('q', 'b'): 2}
    """
    highest: dict[Pair, int] = {}
    for (query, item), grade in grades.items():
        product = query, shop.identity(item)
        highest[product] = max(grade, highest.get(product, grade))
    return {
        (query, item): highest[query, shop.identity(item)]
        for query in shop.queries
        for item in shop.items
        if (query, shop.identity(item)) in highest
    }


# Metrics of ranks


def tie_groups(rows: Iterable[tuple[float, int]]) -> list[list[int]]:
    """Grades of the items of each score, the highest score first; rows are (score, grade).

    >>> tie_groups([(1.0, 0), (2.0, 1), (1.0, 1)])
    [[1], [0, 1]]
    """
    groups: dict[float, list[int]] = {}
    for score, grade in rows:
        groups.setdefault(score, []).append(grade)
    return [groups[score] for score in sorted(groups, reverse=True)]


def ranked(
    shop: Shop,
    ranking: Ranking,
    grades: Grades,
    query: str,
    *,
    one_per_identity: bool = False,
    unjudged: int = UNJUDGED,
    depth: int | None = None,
) -> Ranked:
    """What rank metrics see of a query: grades in tie groups, and the grades of judged items that no group holds.

    With one item per identity an identity is one thing to find: where another of its items is positive but not the one
    that stands for it, there is one thing left to be found, and where both are there is none.
    """
    shown = listed(shop, ranking, query, one_per_identity)[:depth]
    groups = tie_groups((score, grades.get((query, item), unjudged)) for item, score in shown)
    shown_items = {item for item, _ in shown}
    hidden = {
        item: grade
        for (q, item), grade in grades.items()
        if q == query and item not in shown_items and not shop.own(q, item)
    }
    if not one_per_identity:
        return groups, list(hidden.values())
    found = {shop.identity(item) for item, _ in shown if grades.get((query, item), UNJUDGED) > 0}
    missed: dict[str, int] = {}
    for item, grade in hidden.items():
        if grade > 0 and shop.identity(item) not in found:
            missed[shop.identity(item)] = max(grade, missed.get(shop.identity(item), 0))
    return groups, list(missed.values())


def mean_of(values: Iterable[Bounds | None]) -> tuple[float, float, float, int]:
    """Means over the queries where a metric is defined (expected, best, worst), and how many queries have none."""
    given = list(values)
    known = [value for value in given if value is not None]
    if not known:
        return math.nan, math.nan, math.nan, len(given)
    means = [math.fsum(float(value[i]) for value in known) / len(known) for i in range(3)]
    return means[0], means[1], means[2], len(given) - len(known)


def hit_rate(queries: Sequence[Ranked], k: int, norm: str) -> float:
    """Positives in the top k of all queries, expected, over what `norm` says of each query that has a positive.

    >>> hit_rate([([[1], [0]], [1, 1])], 2, "k"), hit_rate([([[1], [0]], [1, 1])], 2, "pairs")
    (0.5, 0.3333333333333333)
    """
    hits, whole = Fraction(), 0
    for groups, unranked in queries:
        positives = definitions.relevant_items([*definitions.flatten(groups), *unranked], 1)
        if positives:
            hits += Fraction(definitions.discovery_hits(groups, k=k).expected)
            whole += {"k": k, "positives": min(k, positives), "pairs": positives}[norm]
    return float(hits / whole) if whole else math.nan


# Metrics of judged pairs


Scored = list[tuple[float, int]]


def scored(shop: Shop, ranking: Ranking, pairs: Grades) -> dict[str, Scored]:
    """For each query (score, grade) of its pairs but its own; what a run does not list stands below everything."""
    found: dict[str, Scored] = {query: [] for query in shop.queries}
    for (query, item), grade in pairs.items():
        if not shop.own(query, item):
            found[query].append((ranking.get(query, {}).get(item, -math.inf), grade))
    return found


def auc(rows: Scored) -> Fraction | None:
    """Share of (positive, negative) pairs in the right order, a tie counting half; None with one class only.

    >>> auc([(2.0, 1), (1.0, 0), (2.0, 0)])
    Fraction(3, 4)
    """
    positive = [score for score, grade in rows if grade > 0]
    negative = [score for score, grade in rows if grade <= 0]
    if not positive or not negative:
        return None
    points = sum((Fraction(1) if p > n else Fraction(p == n, 2) for p in positive for n in negative), Fraction())
    return points / (len(positive) * len(negative))


def pr_auc(rows: Scored) -> Fraction | None:
    """Sum over thresholds of (recall gained) * (precision there); None with one class only.

    >>> pr_auc([(2.0, 1), (1.0, 0), (0.0, 1)])        # 1/2 * 1 + 1/2 * 2/3
    Fraction(5, 6)
    """
    positives = sum(grade > 0 for _, grade in rows)
    if positives in (0, len(rows)):
        return None
    area = Fraction()
    for threshold in {score for score, _ in rows}:
        at = sum(grade > 0 for score, grade in rows if score == threshold)
        above = [grade > 0 for score, grade in rows if score >= threshold]
        area += Fraction(at, positives) * Fraction(sum(above), len(above))
    return area


AREAS: dict[str, Callable[[Scored], Fraction | None]] = {"AUC": auc, "PRAUC": pr_auc}


def area(shop: Shop, ranking: Ranking, pairs: Grades, name: str, average: str) -> tuple[float, int]:
    """An area over the pairs of each query, averaged, or over all pairs at once; and how many queries have none."""
    rows = scored(shop, ranking, pairs)
    if average == "micro":
        whole = AREAS[name]([row for query in rows for row in rows[query]])
        return (math.nan, len(rows)) if whole is None else (float(whole), 0)
    areas = [AREAS[name](rows[query]) for query in rows]
    known = [value for value in areas if value is not None]
    return (float(sum(known, Fraction()) / len(known)) if known else math.nan), len(areas) - len(known)


def with_negatives(grades: Grades, sampled: Iterable[Pair], kind: str) -> dict[Pair, int]:
    """The pairs of an area: positives with the judged negatives, the sampled ones, or both."""
    pairs = {pair: grade for pair, grade in grades.items() if grade > 0 or kind != "sampled"}
    return pairs if kind == "judged" else pairs | dict.fromkeys(sampled, 0)


def sampling_frame(
    shop: Shop, rankings: Mapping[str, Ranking], judged: Collection[Pair], above: int, below: int
) -> dict[str, set[str]]:
    """Items of each query that some model ranks from above + 1 to below, none in its top `above`, and nobody judged."""
    frame: dict[str, set[str]] = {}
    for query in shop.queries:
        orders = [[item for item, _ in listed(shop, ranking, query)] for ranking in rankings.values()]
        deep = {item for order in orders for item in order[above:below]}
        high = {item for order in orders for item in order[:above]}
        frame[query] = {item for item in deep - high if (query, item) not in judged}
    return frame


def bpref(shop: Shop, ranking: Ranking, grades: Grades, query: str) -> Bounds | None:
    """Bpref of the judged pairs of a query, every image for itself."""
    groups, unranked = ranked(shop, ranking, grades, query)
    judged = [[grade for grade in group if grade != UNJUDGED] for group in groups]
    return definitions.bpref(judged, unranked)


# Models that built the pool beside models that did not


def equal_terms(values: Callable[[str, set[Pair]], Bounds | None], own: Mapping[str, set[Pair]], models: Sequence[str],
                ) -> dict[str, tuple[Fraction, Fraction, Fraction] | None]:  # fmt: skip
    """Values of a query: the mean of all models, plus each model's mean difference from every model.

    values: of a model, on all pairs but some. own: what each model that built the pool alone proposed. Two models are
    compared without the own pairs of whichever of them built the pool, if the other did not. What is undefined there is
    no difference. In its best and worst a model meets all others, and the mean, as they are expected to be.
    """
    everything = {model: values(model, set()) for model in models}
    out: dict[str, tuple[Fraction, Fraction, Fraction] | None] = {}
    for model, mine in everything.items():
        if mine is None:
            out[model] = None
            continue
        ends = []
        for end in range(3):
            others = [everything[other] for other in models if other != model]
            mean = (Fraction(mine[end]) + sum(Fraction(value[0]) for value in others if value)) / len(models)
            total = Fraction()
            for other in models:
                built = [one for one in (model, other) if one in own]
                gone = own[built[0]] if other != model and len(built) == 1 else set()
                pair = values(model, gone), values(other, gone)
                if other != model and pair[0] is not None and pair[1] is not None:
                    total += Fraction(pair[0][end]) - Fraction(pair[1][0])
            ends.append(mean + total / len(models))
        out[model] = ends[0], ends[1], ends[2]
    return out


# Agreement of two orders


def average_ranks(values: Sequence[float]) -> list[Fraction]:
    """Rank of every value from the smallest, tied values sharing the mean of their ranks.

    >>> average_ranks([5.0, 1.0, 5.0])
    [Fraction(5, 2), Fraction(1, 1), Fraction(5, 2)]
    """
    return [
        Fraction(1) + sum(other < value for other in values) + Fraction(sum(other == value for other in values) - 1, 2)
        for value in values
    ]


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation of the average ranks; nan where one list never varies."""
    one, other = average_ranks(first), average_ranks(second)
    middle = Fraction(len(one) + 1, 2)
    products = sum((a - middle) * (b - middle) for a, b in zip(one, other, strict=True))
    squares = [sum((a - middle) ** 2 for a in ranks) for ranks in (one, other)]
    return float(products) / math.sqrt(squares[0] * squares[1]) if all(squares) else math.nan


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Tau-b: pairs in the same order less those in the other, over what ties leave; nan where one list never varies."""
    pairs = [(i, j) for i in range(len(first)) for j in range(i)]
    signs = [
        [(values[i] > values[j]) - (values[i] < values[j]) for i, j in pairs] for values in (list(first), list(second))
    ]
    untied = [sum(sign != 0 for sign in side) for side in signs]
    agreeing = sum(a * b for a, b in zip(*signs, strict=True))
    return agreeing / math.sqrt(untied[0] * untied[1]) if all(untied) else math.nan


def places(values: Sequence[float]) -> list[float]:
    """Place of every value in the order, 1 the highest, tied values sharing the mean of their places."""
    return [float(rank) for rank in average_ranks([-value for value in values])]
