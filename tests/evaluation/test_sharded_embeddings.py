"""Embeddings in shards give what they give in memory."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.sharded import (
    AREAS,
    CUT,
    FAR,
    KEPT,
    KINDS,
    MICRO,
    NEGATIVES,
    SIMILARITIES,
    WHOLE,
    WITHIN,
    assert_counts,
    assert_same,
    check_same_bits,
    codes_world,
    embeddings_world,
    folders,
    policies,
    some_are_defined,
    worlds,
)
from lookalike.evaluation.count_shards import scores as shard_scores

KEPT_CUT = [name for name in KEPT if "@" in name]


@given(st.data())
@settings(max_examples=90)
def test_embeddings_in_shards_give_the_same_bits(data: st.DataObject) -> None:
    world = data.draw(worlds("embeddings", max_queries=30))
    policy = data.draw(policies(world.relevant))
    of_all = policy is not None or not world.relevant.judged  # otherwise those alone that may see the unjudged
    cut = data.draw(st.sampled_from(["near", "far", "nowhere"]))
    metrics = [*KEPT_CUT, *(CUT * of_all), *(FAR * (of_all and cut == "far"))]
    if cut == "nowhere":
        metrics += [*KEPT, *([*FAR, *WHOLE, *AREAS] if of_all else AREAS)]
    check_same_bits(data, world, metrics, policy)


@given(st.data())
@settings(max_examples=50)
def test_counts_of_embeddings_in_shards(data: st.DataObject) -> None:
    world = data.draw(worlds("embeddings"))
    expected = world.count_memory(scores=False, method="plain", threads=1)
    assert_counts(world.count_memory(scores=False, threads=3), expected)
    with folders() as (gallery, _):
        found = world.count_sharded(world.write(gallery), scores=False, threads=data.draw(st.integers(1, 3)))
    assert found.method == "shards"
    assert found.similarity == world.similarity
    assert_counts(found, expected)


@given(st.data())
@settings(max_examples=50)
def test_metrics_within_a_radius(data: st.DataObject) -> None:
    """Radii that go right through items, beside metrics of all items."""
    world = data.draw(worlds("embeddings", [kind for kind in KINDS if kind != "judged"]))
    world = replace(world, similarity="euclidean")
    first = world.queries[0].astype(float) - world.gallery.astype(float)
    through = math.sqrt((first**2).sum(1)[data.draw(st.integers(0, len(first) - 1))])
    metrics = [
        *WITHIN,
        f"P(radius={through!r})",
        f"R(radius={through!r})",
        "P(radius=1000)",
        *CUT,
        *FAR,
        *WHOLE,
        *AREAS,
    ]
    expected = world.memory(metrics, threads=1)
    with folders() as (gallery, _):
        assert_same(world.sharded(world.write(gallery), metrics, threads=data.draw(st.integers(1, 3))), expected)


@pytest.mark.parametrize("policy", ["irrelevant", "condensed"])
def test_metrics_within_a_radius_of_judged_pairs(tmp_path: Path, policy: str) -> None:
    world = embeddings_world(np.random.default_rng(1), "judged", similarity="euclidean")
    expected = world.memory([*WITHIN, *WHOLE, *CUT], unjudged=policy)
    assert 0 < expected["P(radius=1.5)"].mean < 1
    assert_same(world.sharded(world.write(tmp_path), [*WITHIN, *WHOLE, *CUT], unjudged=policy), expected)


@pytest.mark.parametrize("policy", ["relevant", "condensed"])
def test_a_radius_changes_nothing_of_what_unjudged_items_count(tmp_path: Path, policy: str) -> None:
    metrics = [*WITHIN, *WHOLE, *CUT, *KEPT]
    for seed in range(6):
        world = embeddings_world(np.random.default_rng(seed), "judged", 20, 100, similarity="euclidean", width=5)
        shards = world.write(tmp_path / str(seed))
        assert_same(world.sharded(shards, metrics, unjudged=policy), world.memory(metrics, unjudged=policy))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("query_type", [np.float32, np.float64])
@pytest.mark.parametrize("item_type", [np.float32, np.float64])
def test_pairs_of_all_queries_together(tmp_path: Path, similarity: str, query_type: type, item_type: type) -> None:
    """Queries that differ by their length alone have the same cosines: what ties across queries must tie in shards."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        world = embeddings_world(rng, "judged", 20, 60, similarity=similarity, dtype=item_type)
        queries = rng.normal(size=world.queries.shape).astype(query_type)
        queries[10:] = queries[:10] * 3
        world = replace(world, queries=queries)
        metrics = [*MICRO, *NEGATIVES, *AREAS]
        expected = world.memory(metrics)
        assert some_are_defined(expected)
        assert_same(world.sharded(world.write(tmp_path / str(seed)), metrics, threads=2), expected)


@pytest.mark.parametrize("kind", ["labels", "tags", "judged", "dense grades"])
def test_more_queries_than_are_scored_at_once(tmp_path: Path, kind: str) -> None:
    """In memory blocks of 96 queries, in shards others: blocks of few groups and of many."""
    world = embeddings_world(np.random.default_rng(3), kind, 203, 150, dtype=np.float64)
    shards = world.write(tmp_path)
    options = {"unjudged": "irrelevant"} if kind == "judged" else {}
    for metrics in (CUT, [*CUT, *FAR], [*CUT, *FAR, *WHOLE, *AREAS, *KEPT]):
        expected = world.memory(metrics, threads=1, **options)
        assert some_are_defined(expected)
        assert_same(world.memory(metrics, threads=3, **options), expected)
        for threads in (1, 3):
            assert_same(world.sharded(shards, metrics, threads=threads, **options), expected)


def passes_of(sizes: list[int], room: int) -> int:
    """How many passes are made where each takes queries as long as there is room for them."""
    passes, left = 1, room
    for size in sizes:
        if size > left and left < room:
            passes, left = passes + 1, room
        left -= size
    return passes


@pytest.mark.parametrize("kind", ["labels", "judged", "dense grades", "tags"])
def test_several_passes_over_the_gallery(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, gathered: list[tuple[str, int]]
) -> None:
    """Where the marks of all queries do not fit into memory together."""
    world = embeddings_world(np.random.default_rng(5), kind, 30, 50)
    shards = world.write(tmp_path)
    options = {"unjudged": "irrelevant"} if kind == "judged" else {}
    for metrics, work in ((["AP@3", "nDCG@7", *FAR], "First"), (["AP@3", *WHOLE, "AUC"], "Marks")):
        expected = world.memory(metrics, **options)
        passes = {}
        for marks, in_a_tally in ((1 << 28, 1), (1 << 28, 64 * 40), (1 << 28, 1 << 24), (64 * 150, 64 * 40), (1, 1)):
            monkeypatch.setattr(shard_scores, "MARKS", marks)
            monkeypatch.setattr(shard_scores, "TALLIES", in_a_tally)
            gathered.clear()
            assert_same(world.sharded(shards, metrics, threads=2, **options), expected)
            passes[marks] = [name for name, _ in gathered].count(work)
        assert passes[1 << 28] == 1
        marked = np.full(30, 50)  # items of each query that are kept: all, for cutoffs past the end
        if work == "Marks" and kind != "judged":
            marked = world.count_memory(scores=False).counts[:, :, 1:].sum((1, 2))
        if work == "First" or kind != "judged":
            assert passes[64 * 150] == passes_of(marked.tolist(), 150)
        assert 1 < passes[64 * 150] < 20
        assert 20 < passes[1] <= 30  # one query a pass, and those that have no mark with it
    assert ("Counted" in [name for name, _ in gathered]) == (kind != "judged")  # what is judged is known beforehand


@pytest.mark.parametrize("policy", ["irrelevant", "relevant", "condensed"])
def test_what_unjudged_items_count_where_metrics_are_cut(tmp_path: Path, policy: str) -> None:
    """Left out, they bring others up from far below the cutoff."""
    for seed in range(4):
        world = embeddings_world(np.random.default_rng(seed), "judged", 20, 150)
        expected = world.memory(CUT, unjudged=policy)
        assert some_are_defined(expected)
        assert_same(world.sharded(world.write(tmp_path / str(seed)), CUT, unjudged=policy, threads=2), expected)


def test_what_is_asked_for_says_how_often_the_gallery_is_read(tmp_path: Path, gathered: list[tuple[str, int]]) -> None:
    world = embeddings_world(np.random.default_rng(6), "judged", similarity="euclidean")
    shards = world.write(tmp_path)
    for metrics, policy, ways in (
        (["AP@3", "P@7"], "irrelevant", ["First"]),
        (["Judged@3", "RBP@4"], None, ["First"]),
        (["AP@3", "AP"], "irrelevant", ["Marks", "MarkRanks"]),
        (["AP@3"], "condensed", ["Marks", "MarkRanks"]),  # what is left out brings others up from below
        (["AP@3"], "relevant", ["Marks", "MarkRanks"]),
        (["P(radius=1)"], "irrelevant", ["Marks", "MarkRanks"]),
    ):
        gathered.clear()
        expected = world.memory(metrics, unjudged=policy)
        assert_same(world.sharded(shards, metrics, unjudged=policy, threads=1), expected)
        assert [name for name, _ in gathered] == ways


@pytest.mark.parametrize("what", ["codes", "embeddings"])
def test_queries_are_in_blocks_where_shards_are_few(tmp_path: Path, what: str, gathered: list[tuple[str, int]]) -> None:
    """As many as threads, eight queries each at least, and one block where there are shards enough."""
    rng = np.random.default_rng(7)
    world = codes_world(rng, 64, "labels", 17, 50) if what == "codes" else embeddings_world(rng, "labels", 17, 50)
    expected = world.memory(["AP@5"])
    for sizes, threads, blocks in (([50], 1, 1), ([50], 2, 2), ([50], 8, 3), ([10] * 5, 3, 3), ([10] * 5, 2, 1)):
        gathered.clear()
        shards = replace(world, sizes=sizes).write(tmp_path / f"{len(sizes)} {threads}")
        assert_same(world.sharded(shards, ["AP@5"], threads=threads), expected)
        assert [n for _, n in gathered] == [blocks]
