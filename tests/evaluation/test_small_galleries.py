"""Small galleries of embeddings in shards are read whole and counted in one pass, with the same numbers."""

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
from lookalike.evaluation.count_shards import search as shard_search
from lookalike.shards.writer import ShardWriter


@pytest.fixture(autouse=True, scope="module")
def in_one_pass(in_two_passes: None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_search, "SMALL", 1 << 20)
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
    world = embeddings_world(np.random.default_rng(6), "labels", similarity="euclidean")
    shards = world.write(tmp_path / "gallery")
    size = len(shards) * shards.width * shards.dtype.itemsize
    for limit, metrics, partials, ways in (
        (size, WHOLE, None, []),
        (size, [*WITHIN, *WHOLE], None, []),
        (size - 1, WHOLE, None, ["Marks", "MarkRanks"]),
        (size, CUT, None, ["First"]),  # the first places of each shard are enough
        (size, WHOLE, tmp_path / "partials", ["Marks", "MarkRanks"]),  # which a job that died goes on from
    ):
        monkeypatch.setattr(shard_search, "SMALL", limit)
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
