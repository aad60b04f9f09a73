"""Pools for tests: a small one, who proposed what in any, and how a judge is refused."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from helpers.worlds import World
from lookalike.discovery import Collection, Pool
from reference.discovery import Provenance

SHOP = Collection(["q", "r"], ["a", "b", "c", "d"])
SCORES = np.array([[4.0, 3, 2, 1], [1, 2, 3, 4]])
POOL = Pool.build({"one": SCORES, "two": -SCORES}, SHOP, k=2)


def provenance_of(pool: Pool) -> Provenance:
    """Who proposed each pair, by ids; pairs that only chance drew are left out."""
    found: Provenance = {}
    for row, pair in enumerate(pool.pairs):
        models = {
            name: (int(pool.ranks[row, m]), float(pool.scores[row, m]))
            for m, name in enumerate(pool.models)
            if pool.ranks[row, m] > 0
        }
        assert models or pool.random[row], f"{pair} is in the pool for no reason"
        if models:
            found[pair] = models
    assert np.isnan(pool.scores[pool.ranks == 0]).all()
    return found


def draw_k(data: st.DataObject, world: World) -> int:
    return data.draw(st.integers(1, world.most_candidates), label="k")


def unjudged(pool: Pool) -> np.ndarray:
    return np.full(len(pool), -1)


def refuse_to_judge(rows: np.ndarray) -> np.ndarray:
    raise RuntimeError(f"asked for {len(rows)}")
