"""Judged pairs of random studies, for the tests of metrics of judged pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lookalike as la

TOLERANCE = 1e-12
Array = np.ndarray[Any, Any]


def close(value: Any) -> Any:
    return pytest.approx(value, rel=0, abs=TOLERANCE)


@dataclass(frozen=True)
class Study:
    """Scores of every pair, the grade of the judged ones (-1: unjudged), and which pairs were sampled."""

    scores: Array
    grades: Array
    sampled: Array

    @property
    def query_ids(self) -> list[str]:
        return [f"q{q}" for q in range(len(self.scores))]

    @property
    def gallery_ids(self) -> list[str]:
        return [f"d{i}" for i in range(self.scores.shape[1])]

    @property
    def ids(self) -> dict[str, list[str]]:
        return {"query_ids": self.query_ids, "gallery_ids": self.gallery_ids}

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        qrels: dict[str, dict[str, int]] = {query: {} for query in self.query_ids}
        for q, i in np.argwhere(self.grades >= 0).tolist():
            qrels[f"q{q}"][f"d{i}"] = int(self.grades[q, i])
        return {query: items for query, items in qrels.items() if items}

    @property
    def relevance(self) -> Any:
        sampled = [(f"q{q}", f"d{i}") for q, i in np.argwhere(self.sampled).tolist()]
        return la.judged(self.qrels, sampled=sampled)

    @property
    def run(self) -> dict[str, dict[str, float]]:
        return {
            query: dict(zip(self.gallery_ids, row.tolist(), strict=True))
            for query, row in zip(self.query_ids, self.scores, strict=True)
        }

    def pairs(self, negatives: str = "judged", rel: int = 1) -> tuple[Array, Array, Array]:
        """Query, class and score of each pair that counts."""
        counts = self.grades >= (rel if negatives == "sampled" else 0)
        if negatives != "judged":
            counts = counts | self.sampled
        queries, items = np.nonzero(counts)
        return queries, self.grades[queries, items] >= rel, self.scores[queries, items]


def study(seed: int, n_queries: int = 40, n_items: int = 30, *, levels: int = 12, grades: int = 2) -> Study:
    """Queries of different difficulty, each with its own share of positives, all of them judged in part."""
    rng = np.random.default_rng(seed)
    quality, offset = rng.uniform(0, 3, (n_queries, 1)), rng.uniform(-2, 2, (n_queries, 1))
    positive = rng.random((n_queries, n_items)) < rng.uniform(0.1, 0.7, (n_queries, 1))
    truth = positive * rng.integers(1, grades, positive.shape)
    scores = np.round((offset + quality * truth + rng.standard_normal(truth.shape)) * levels / 4)
    known = rng.random(truth.shape) < 0.5
    known[:, 0] = True  # every query is judged
    return Study(scores, np.where(known, truth, -1), ~known & (rng.random(truth.shape) < 0.4))


def micro(name: str, negatives: str = "judged", rel: int = 1) -> str:
    options = [f"rel={rel}"] * (rel > 1) + ["average='micro'"] + [f"negatives='{negatives}'"] * (negatives != "judged")
    return f"{name}({', '.join(options)})"


def resampled(statistic: Callable[[Array], float], n: int, n_resamples: int, seed: int) -> tuple[float, float]:
    """The percentile interval of a statistic of queries, drawn anew each time."""
    rng = np.random.default_rng(seed)
    drawn = [statistic(rng.integers(n, size=n)) for _ in range(n_resamples)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def assert_intervals_agree(found: tuple[float, float], wanted: tuple[float, float]) -> None:
    """To a tenth of the width: what resampling 2,000 times leaves to chance, and the second order."""
    width = wanted[1] - wanted[0]
    assert 0.005 < width < 0.3
    assert np.abs(np.subtract(found, wanted)).max() < 0.1 * width
