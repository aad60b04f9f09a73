"""Kinds of relevance, and what a tally must equal, for the tests of counting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lookalike as la

Array = NDArray[Any]
Grades = list[list[int | None]]
BY_BLOCK = {"crossed hierarchy", "tags", "attributes", "dense grades"}  # kinds whose grades only a block can give


def methods_for(n_bits: int, kind: str = "labels") -> list[str]:
    return ["auto", "plain", "scan", *(["table"] if n_bits <= 20 and kind not in BY_BLOCK else [])]


def label_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    q, g = rng.integers(0, 4, n_queries), rng.integers(0, 4, n_items)
    return la.same_label(q, g), [[int(a == b) for b in g] for a in q]


def string_label_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    names = ["cat", "a longer name", "", "Katze"]
    q, g = ([names[i] for i in rng.integers(0, 4, n)] for n in (n_queries, n_items))
    return la.same_label(q, g), [[int(a == b) for b in g] for a in q]


def hierarchy_grades(q: Sequence[tuple[int, int]], g: Sequence[tuple[int, int]]) -> Grades:
    """Equal fine label 2, else equal coarse label 1, else 0."""
    return [[2 if a[0] == b[0] else int(a[1] == b[1]) for b in g] for a in q]


def nested_hierarchy_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    qf, gf = rng.integers(0, 6, n_queries), rng.integers(0, 6, n_items)
    qc, gc = qf // 2, gf // 2
    return la.hierarchy((qf, qc), (gf, gc)), hierarchy_grades(
        list(zip(qf, qc, strict=True)), list(zip(gf, gc, strict=True))
    )


def crossed_hierarchy_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    """Not nested: one fine label under several coarse ones."""
    qf, gf, qc, gc = (rng.integers(0, 3, n) for n in (n_queries, n_items, n_queries, n_items))
    return la.hierarchy((qf, qc), (gf, gc)), hierarchy_grades(
        list(zip(qf, qc, strict=True)), list(zip(gf, gc, strict=True))
    )


def tags_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    q, g = rng.integers(0, 2, (n_queries, 5)), rng.integers(0, 2, (n_items, 5))
    return la.shared_tags(q, g), [[int(sum(a * b)) for b in g] for a in q]


def attributes_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    q, g = rng.integers(0, 3, (n_queries, 3)), rng.integers(0, 3, (n_items, 3))
    return la.matching_attributes(q, g), [[int(sum(a == b)) for b in g] for a in q]


def dense_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    matrix = rng.integers(0, 4, (n_queries, n_items))
    return la.grades(matrix), matrix.tolist()


def judged_kind(rng: np.random.Generator, n_queries: int, n_items: int) -> tuple[Any, Grades]:
    """Some pairs judged (the first always), some not, and for every query a relevant item that no gallery holds."""
    matrix = rng.integers(-2, 3, (n_queries, n_items))
    matrix[0, 0] = 1
    grades: Grades = [[None if v < 0 else v for v in row] for row in matrix.tolist()]
    pairs = [(f"q{q}", f"g{i}", v) for q, row in enumerate(grades) for i, v in enumerate(row) if v is not None]
    pairs += [(f"q{q}", "nowhere", 2) for q in range(n_queries)]
    return la.judged(pairs), grades


KINDS: dict[str, Callable[[np.random.Generator, int, int], tuple[Any, Grades]]] = {
    "labels": label_kind,
    "string labels": string_label_kind,
    "nested hierarchy": nested_hierarchy_kind,
    "crossed hierarchy": crossed_hierarchy_kind,
    "tags": tags_kind,
    "attributes": attributes_kind,
    "dense grades": dense_kind,
    "judged": judged_kind,
}


def shards_of(n_items: int, seed: int) -> list[Array]:
    """Three uneven shards, their items scattered over the gallery, the last of one item."""
    order = np.random.default_rng(seed).permutation(n_items)
    return [order[: n_items // 5], order[n_items // 5 : -1], order[-1:]]


METRICS = ["AP", "AP@7", "AP(norm='total')@7", "nDCG@10", "R@20", "P@3", "RR", "AUC", "PRAUC", "MAP@R", "RPrecision"]
METRICS += ["FNMR(fmr=0.1, average='macro')"]


def assert_same_metrics(one: Any, other: Any, metrics: Sequence[str]) -> None:
    a, b = (la.evaluate_tally(tally, metrics=list(metrics), unjudged="irrelevant") for tally in (one, other))
    for name in metrics:
        for part in ("per_query", "best_per_query", "worst_per_query"):
            np.testing.assert_array_equal(getattr(a[name], part), getattr(b[name], part), err_msg=f"{name} {part}")
