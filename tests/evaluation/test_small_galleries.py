"""Galleries of embeddings in shards that have room in memory, or whose scores have, are read once: the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.sharded import (
    AREAS,
    CUT,
    KEPT,
    WHOLE,
    WITHIN,
    assert_counts,
    assert_same,
    check_same_bits,
    embeddings_world,
    folders,
    policies,
    worlds,
)
from lookalike.core.errors import InputError
from lookalike.evaluation.count_shards import ShardSearch
from lookalike.evaluation.count_shards import scores as shard_scores
from lookalike.evaluation.count_shards import search as shard_search
from lookalike.shards.writer import ShardWriter

IS_SMALL = ShardSearch.is_small


@pytest.fixture(autouse=True, scope="module", params=["as in memory", "laid out in parts", "scores of some queries"])
def in_one_pass(in_two_passes: None, request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_search, "room", lambda: 1 << 20)
        patch.setattr(shard_search, "LITTLE", 1 << 20 if request.param == "as in memory" else 0)
        if request.param == "scores of some queries":
            patch.setattr(ShardSearch, "is_small", False)
            patch.setattr(shard_search, "room", lambda: 2000)  # bytes, of the scores of a few queries
            patch.setattr(shard_scores, "MARKS", 1)  # else marks would be read less often
        yield


@given(st.data())
@settings(max_examples=60)
def test_small_galleries_give_the_same_bits(data: st.DataObject) -> None:
    world = data.draw(worlds("embeddings", max_queries=30))
    policy = data.draw(policies(world.relevant))
    of_all = policy is not None or not world.relevant.judged
    check_same_bits(data, world, [*KEPT, *AREAS, *([*CUT, *WHOLE] if of_all else [])], policy)


@given(st.data())
@settings(max_examples=30)
def test_counts_of_small_galleries(data: st.DataObject) -> None:
    world = data.draw(worlds("embeddings"))
    with folders() as (gallery, _):
        found = world.count_sharded(world.write(gallery), scores=False, threads=data.draw(st.integers(1, 3)))
    assert (found.method, found.similarity) == ("shards", world.similarity)
    assert_counts(found, world.count_memory(scores=False, method="plain", threads=1))


def test_what_is_small_and_asked_for_whole_is_read_once(
    tmp_path: Path, gathered: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = embeddings_world(np.random.default_rng(6), "labels", similarity="euclidean", width=16)
    shards = world.write(tmp_path / "gallery")
    size = len(shards) * shards.width * 8  # distances are of float64
    monkeypatch.setattr(shard_scores, "MARKS", 1 << 28)
    monkeypatch.setattr(ShardSearch, "is_small", IS_SMALL)
    row = 8 * len(shards)  # bytes of the scores of a query
    for limit, metrics, partials, ways in (
        (size, WHOLE, None, []),
        (size, [*WITHIN, *WHOLE], None, []),
        (size - 1, WHOLE, None, ["ScoreRows"]),
        (5 * row, WHOLE, None, ["ScoreRows"] * 3),
        (row, WHOLE, None, ["Marks", "MarkRanks"]),  # else as many turns as queries
        (row - 1, WHOLE, None, ["Marks", "MarkRanks"]),
        (size, CUT, None, ["First"]),  # the first places of each shard are enough
        (size, WHOLE, tmp_path / "partials", ["Marks", "MarkRanks"]),  # which a job that died goes on from
    ):
        monkeypatch.setattr(shard_search, "room", lambda limit=limit: limit)
        gathered.clear()
        expected = world.memory(metrics)
        assert_same(world.sharded(shards, metrics, threads=2, partials=partials), expected)
        assert [name for name, _ in gathered if name != "Counted"] == ways


def test_an_embedding_that_cannot_be_compared_is_named_with_its_shard(tmp_path: Path) -> None:
    rows = np.ones((5, 2), np.float32)
    rows[4] = 0
    with ShardWriter(tmp_path, rows=3) as writer:
        writer.add({"embeddings": rows, "labels": np.arange(5)})
    shards = la.Shards.open(tmp_path)
    with pytest.raises(InputError, match=f"{shards.shards[1].file}.*row 1 is zero"):
        la.evaluate(rows[:2], shards, la.same_label([0, 1], shards["labels"]), ["AP"])
