"""Codes in shards give what they give in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from helpers.sharded import (
    AREAS,
    KEPT,
    KINDS,
    LGAP,
    MICRO,
    NEGATIVES,
    OF_CODES,
    World,
    assert_counts,
    assert_same,
    check_same_bits,
    codes_world,
    folders,
    policies,
    some_are_defined,
    worlds,
)
from lookalike.evaluation.count_shards import codes as shard_codes

TABLED = ("labels", "labels in memory", "string labels", "judged")


def metrics_for(world: World, policy: str | None) -> list[str]:
    """All that have a value: metrics of codes, where unjudged items count as the policy says."""
    if not world.relevant.judged:
        return OF_CODES
    if policy is None:
        return [*AREAS, *MICRO, *KEPT, *NEGATIVES]
    return [name for name in [*OF_CODES, *NEGATIVES] if policy != "condensed" or name not in LGAP]


@given(st.data())
@settings(max_examples=60)
def test_codes_in_shards_give_the_same_bits(data: st.DataObject) -> None:
    world = data.draw(worlds("codes"))
    policy = data.draw(policies(world.relevant))
    metrics = metrics_for(world, policy)
    check_same_bits(data, world, metrics, policy)


@given(st.data())
@settings(max_examples=80)
def test_counts_of_codes_in_shards(data: st.DataObject) -> None:
    world = data.draw(worlds("codes"))
    radius = data.draw(st.sampled_from([None, 0, 2, 300]))
    expected = world.count_memory(radius=radius, method="plain", threads=1)
    assert_counts(world.count_memory(radius=radius, threads=3), expected)
    with folders() as (gallery, _):
        found = world.count_sharded(world.write(gallery), radius=radius, threads=data.draw(st.integers(1, 3)))
    event(f"counted by {'table' if found.method == 'table' else 'scan'}")
    assert_counts(found, expected)
    assert found.n_bits == expected.n_bits
    assert expected.counts.sum() + expected.unjudged.sum() > 0 or world.excluded != "nobody"


@pytest.mark.parametrize(("n_bits", "n_queries", "n_items"), [(1, 3, 40), (8, 70, 700), (9, 150, 900)])
@pytest.mark.parametrize("kind", TABLED)
@pytest.mark.parametrize("excluded", ["nobody", "by column", "by array", "self"])
def test_short_codes_are_counted_in_a_table(
    tmp_path: Path,
    kind: str,
    n_bits: int,
    n_queries: int,
    n_items: int,
    excluded: str,
    gathered: list[tuple[str, int]],
) -> None:
    if kind == "judged":  # one row of the table in place of one for each label
        n_queries, n_items = min(n_queries, 40), min(n_items, 400)
    world = codes_world(np.random.default_rng(n_bits), n_bits, kind, n_queries, n_items, excluded)
    shards = world.write(tmp_path)
    tally = world.count_sharded(shards, threads=2)
    assert (tally.method, gathered) == ("table", [("OnCodes", 1)])
    assert_counts(tally, world.count_memory(method="plain"))
    gathered.clear()
    with_radius = world.count_sharded(shards, radius=2, threads=1)
    # of what each query leaves out, the most on a code is another for each: shard by shard, then
    assert gathered == [("OnCodes" if excluded == "nobody" else "Scanned", 1)]
    assert_counts(with_radius, world.count_memory(method="plain", radius=2))
    options = {"unjudged": "irrelevant"} if kind == "judged" else {}
    expected = world.memory(OF_CODES, **options)
    assert some_are_defined(expected)
    assert_same(world.sharded(shards, OF_CODES, **options), expected)


def test_codes_of_twelve_bits_are_counted_in_a_table(tmp_path: Path, gathered: list[tuple[str, int]]) -> None:
    world = codes_world(np.random.default_rng(12), 12, "labels", 300, 4000)
    shards = world.write(tmp_path)
    tally = world.count_sharded(shards, radius=3)
    assert (tally.method, gathered) == ("table", [("OnCodes", 1)])
    assert_counts(tally, world.count_memory(method="scan", radius=3))
    assert_same(world.sharded(shards, OF_CODES), world.memory(OF_CODES))


@pytest.mark.parametrize("n_bits", [12, 63, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_longer_codes_are_scanned(tmp_path: Path, kind: str, n_bits: int, gathered: list[tuple[str, int]]) -> None:
    """Also short ones with relevance that is of pairs, or with more labels than a table pays for."""
    world = codes_world(np.random.default_rng(n_bits), n_bits, kind, 30, 50)
    tally = world.count_sharded(world.write(tmp_path), radius=1, threads=2)
    assert (tally.method, gathered) == ("scan", [("Scanned", 1)])
    assert_counts(tally, world.count_memory(method="plain", radius=1))


def test_more_labels_than_a_table_can_hold_are_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathered: list[tuple[str, int]]
) -> None:
    world = codes_world(np.random.default_rng(0), 7, "labels", 60, 300)
    shards = world.write(tmp_path)
    for most, way in ((7 << 7, "OnCodes"), ((7 << 7) - 1, "Scanned")):  # six labels of queries, and all items
        monkeypatch.setattr(shard_codes, "MOST_COUNTERS", most)
        gathered.clear()
        assert_counts(world.count_sharded(shards, threads=1), world.count_memory(method="plain"))
        assert gathered == [(way, 1)]
