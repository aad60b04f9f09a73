"""Small worlds for tests of discovery: a shop, models of every kind, and for each model what it says of every pair.

A world that only ever had easy shapes would let every property pass: queries are items or come from elsewhere or both,
ids are not sorted, identities may be those of many items or be unknown, some models tie all over, some list little.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import lookalike as la
from lookalike.discovery import Collection, Judgements
from reference import discovery as slow
from reference.discovery import Pair, Ranking, Shop

EMBEDDINGS = ("cosine", "dot", "euclidean")
KINDS = (*EMBEDDINGS, "codes", "matrix", "run")
GAP = 1e-4  # scores are told apart by more than single precision blurs


@dataclass(frozen=True)
class World:
    """A shop, the same as a collection, and models as the library and as the references take them."""

    shop: Shop
    collection: Collection
    given: dict[str, Any]
    rankings: dict[str, Ranking]

    def __repr__(self) -> str:
        return f"World({self.shop}, {self.rankings})"

    def candidates(self, query: str, one_per_identity: bool = False) -> int:
        items = [item for item in self.shop.items if not self.shop.own(query, item)]
        return len({self.shop.identity(item) for item in items}) if one_per_identity else len(items)

    @property
    def most_candidates(self) -> int:
        return max(self.candidates(query) for query in self.shop.queries)

    @property
    def fewest_candidates(self) -> int:
        return min(self.candidates(query) for query in self.shop.queries)


def collection_of(shop: Shop) -> Collection:
    if shop.query_identities is None or shop.item_identities is None:
        return Collection(shop.queries, shop.items)
    return Collection(
        shop.queries,
        shop.items,
        [shop.query_identities[query] for query in shop.queries],
        [shop.item_identities[item] for item in shop.items],
    )


def random_shop(
    rng: np.random.Generator, n_queries: int, n_items: int, *, closed: bool | None = None, identities: int = 0
) -> Shop:
    """A shop with queries from the catalogue (closed), from elsewhere, or some of each; of so many identities."""
    items = [f"i{n}" for n in rng.permutation(n_items + 3)[:n_items]]
    inside = [str(item) for item in rng.permutation(items)[:n_queries]]
    from_items = rng.random(n_queries) < 0.5 if closed is None else np.full(n_queries, closed)
    queries = [inside[n] if n < len(inside) and from_items[n] else f"q{n_queries - n}" for n in range(n_queries)]
    if not identities:
        return Shop(queries, items)
    names = [f"p{n}" for n in rng.permutation(identities)]
    of_items = {item: str(rng.choice(names)) for item in items}
    # identities that no item has, sorted before, among and after those of the items
    unseen = [f"{side}{n}" for n in range(n_queries) for side in ("a", "p0-", "p1-", "z")]
    of_wild = {query: str(rng.choice(names if rng.random() < 0.5 else unseen)) for query in queries}
    of_queries = {query: of_items.get(query, of_wild[query]) for query in queries}
    return Shop(queries, items, of_queries, of_items)


def random_model(rng: np.random.Generator, shop: Shop, kind: str, *, tied: bool) -> tuple[Any, Callable[[], Ranking]]:
    """A model as the library takes it, and what gives its ranking, which takes long for many pairs."""
    n_queries, n_items = len(shop.queries), len(shop.items)
    if kind == "matrix":
        rows = [rng.integers(0, 3, n_items) if tied else rng.permutation(n_items) - 2 for _ in range(n_queries)]
        matrix = np.array(rows).astype(rng.choice(["float32", "float64", "int64"]))
        return matrix, lambda: slow.ranking_of_matrix(shop, matrix.tolist())
    if kind == "run":
        run: dict[str, dict[str, float]] = {}
        for query in rng.permutation(shop.queries):
            chosen = rng.permutation(shop.items)[: rng.integers(0, n_items + 1)]
            scores = rng.integers(0, 3, len(chosen)) if tied else rng.permutation(len(chosen)) - 2
            if len(chosen):
                run[str(query)] = {str(i): float(score) for i, score in zip(chosen, scores, strict=True)}
        return run, lambda: run
    if kind == "codes":
        if tied:
            bits = rng.integers(0, 2, (n_queries, 3)), rng.integers(0, 2, (n_items, 3))
        else:  # a different number of ones for each item, so a different distance from nothing and from all ones
            ones = rng.permutation(n_items)[:, None] > np.arange(n_items)
            bits = np.repeat(rng.integers(0, 2, (n_queries, 1)), n_items, axis=1), ones.astype(int)
        codes = tuple(map(la.Codes.pack, bits))
        return codes, lambda: slow.ranking_of(shop, bits[0].tolist(), bits[1].tolist(), "hamming")
    dtype = rng.choice(["float32", "float64"])
    queries = (rng.normal(size=(n_queries, 4)) * 10.0 ** rng.integers(-1, 2, (n_queries, 1))).astype(dtype)
    gallery = (rng.normal(size=(n_items, 4)) * rng.choice([0.5, 1, 3], (n_items, 1))).astype(dtype)
    if tied:
        gallery = gallery[rng.integers(0, 3, n_items)]
    given = (queries, gallery, kind) if kind != "cosine" or rng.random() < 0.5 else (queries, gallery)
    return given, lambda: slow.ranking_of(shop, queries.tolist(), gallery.tolist(), kind)


def well_apart(ranking: Ranking) -> bool:
    """Whether scores are equal or differ by more than rounding: much more within a query."""
    for scores in ranking.values():
        values = sorted(set(scores.values()))
        if any(b - a < GAP * max(map(abs, values)) for a, b in itertools.pairwise(values)):
            return False
    values = sorted({score for scores in ranking.values() for score in scores.values()})
    return all(b - a > GAP / 100 * abs(a) for a, b in itertools.pairwise(values))


def random_grades(
    rng: np.random.Generator, shop: Shop, share: float, *, own: bool = False, max_grade: int = 1
) -> dict[Pair, int]:
    """Grades of a share of the pairs, and where asked for of queries with their own, in no order."""
    pairs = [(query, item) for query in shop.queries for item in shop.items] if own else shop.pairs
    chosen = [pairs[n] for n in rng.permutation(len(pairs)) if rng.random() < share]
    return {pair: int(rng.integers(0, max_grade + 1)) for pair in chosen}


def judgements_of(grades: Mapping[Pair, int]) -> Judgements:
    return Judgements.of([(query, item, grade) for (query, item), grade in grades.items()])


@st.composite
def worlds(
    draw: DrawFn,
    *,
    kinds: tuple[str, ...] = KINDS,
    tied: bool = False,
    max_items: int = 9,
    max_queries: int = 4,
    max_models: int = 3,
    min_models: int = 1,
    identities: bool | None = None,
) -> World:
    """A world with a candidate for every query; without `tied`, no model ties two items of a query."""
    n_items = draw(st.integers(3, max_items))
    n_queries = draw(st.integers(1, min(max_queries, n_items)))
    closed = draw(st.sampled_from([True, False, None]))
    known = draw(st.booleans()) if identities is None else identities
    n_identities = draw(st.integers(2, n_items)) if known else 0
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=min_models, max_size=max_models))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shop = random_shop(rng, n_queries, n_items, closed=closed, identities=n_identities)
    made = {f"{kind} {n}": random_model(rng, shop, kind, tied=tied) for n, kind in enumerate(chosen)}
    world = World(
        shop,
        collection_of(shop),
        {name: given for name, (given, _) in made.items()},
        {name: ranking() for name, (_, ranking) in made.items()},
    )
    assume(all(any(slow.listed(shop, r, query) for r in world.rankings.values()) for query in shop.queries))
    assume(all(well_apart(ranking) for ranking in world.rankings.values()))
    return world
