"""Contests for tests: worlds of models with judged pairs, and how their scores are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from helpers.worlds import World, judgements_of, random_grades, worlds
from lookalike.discovery import Contest
from lookalike.evaluation.results import Score
from reference import discovery as slow
from reference.definitions import Bounds
from reference.discovery import Pair, Ranked

TOLERANCE = 1e-12
DENSE = ("cosine", "dot", "euclidean", "codes", "matrix")


@dataclass(frozen=True)
class Case:
    """A world, what was judged in it, and how it is looked at."""

    world: World
    grades: dict[Pair, int]
    level: str = "image"
    one_per_identity: bool = False

    @property
    def known(self) -> dict[Pair, int]:
        """Grades of all pairs that have one, their own or an inherited one."""
        return slow.inherited(self.world.shop, self.grades) if self.level == "product" else self.grades

    def contest(self, *, depth: int | None = None, **options: Any) -> Contest:
        return Contest(
            self.world.given,
            self.world.collection,
            judgements_of(self.grades),
            depth=depth or len(self.world.shop.items),
            level=self.level,
            one_per_identity=self.one_per_identity,
            **options,
        )

    def ranked(self, name: str, **options: Any) -> list[Ranked]:
        """What rank metrics see of each query."""
        shop, ranking = self.world.shop, self.world.rankings[name]
        options.setdefault("one_per_identity", self.one_per_identity)
        return [slow.ranked(shop, ranking, self.known, query, **options) for query in shop.queries]


@st.composite
def cases(draw: st.DrawFn, *, tied: bool = False, own: bool = False, **options: Any) -> Case:
    world = draw(worlds(tied=tied, **options))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.2, 0.6, 1.0]))
    grades = random_grades(rng, world.shop, share, own=own, max_grade=draw(st.integers(1, 2)))
    assume(any(not world.shop.own(*pair) for pair in grades))
    level = draw(st.sampled_from(["image", "product"])) if world.shop.item_identities else "image"
    # which of several tied images stands for its identity is nobody's business, if all of them are graded alike
    alike = not tied or level == "product" or not world.shop.item_identities
    return Case(world, grades, level, draw(st.booleans()) if alike else False)


def assert_score(score: Score, expected: tuple[float, float, float, int], what: str = "") -> None:
    means = score.mean, score.best, score.worst
    assert means == pytest.approx(expected[:3], abs=TOLERANCE, nan_ok=True), f"{what} {score}"
    assert score.undefined == expected[3], f"{what} {score}"


def zero_where_undefined(values: list[Bounds | None]) -> tuple[float, float, float, int]:
    """Means with 0 for queries that have no value, and how many these are."""
    filled = [Bounds(0.0, 0.0, 0.0) if value is None else value for value in values]
    return *slow.mean_of(filled)[:3], values.count(None)


AREAS = [(name, average) for name in ("AUC", "PRAUC") for average in ("macro", "micro")]


def area_name(name: str, average: str, negatives: str = "judged") -> str:
    return f"{name}(average='{average}', negatives='{negatives}')"


def assert_area(found: Score, expected: tuple[float, int], what: str) -> None:
    assert found.mean == pytest.approx(expected[0], abs=TOLERANCE, nan_ok=True), what
    assert found.undefined == expected[1], what
