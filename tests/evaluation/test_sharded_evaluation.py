"""Galleries in shards against the same galleries in memory: every number of every query, bit for bit.

What a vacuous test would let pass: one shard only, or shards that all divide alike (sizes are drawn, 1 row each among
them); rows that lie in shards as they lie in memory (they are shuffled wherever positions do not matter); a way of
counting that is never taken (`tally.method` is asserted, passes over the gallery are counted); ties within a shard only
(codes crowd around a few, embeddings repeat across shards); labels that every shard has (one is in one shard, one in
none); numbers that are equal because all are undefined (`assert_same` wants some that are not); and partials that are
written but never read (the second run must not count anything at all).
"""

from __future__ import annotations

import gc
import math
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.sharded import assert_same, codes_world, written
from lookalike.evaluation.count_shards import codes as shard_codes
from lookalike.shards import map_reduce
from lookalike.shards.gallery import ShardPart, Shards
from lookalike.shards.map_reduce import Partial, _Sum, summed


@pytest.mark.parametrize("n", [*range(1, 20), 64, 100])
def test_a_sum_keeps_its_order_and_adds_things_of_like_size(n: int) -> None:
    class Words(tuple[int, ...]):
        def __add__(self, other: Any) -> Words:
            copied.append(len(self) + len(other))
            return Words((*self, *other))

    copied: list[int] = []
    total = _Sum()
    for number in range(n):
        total.add(Words((number,)))
    assert tuple(total.all()) == tuple(range(n))
    assert sum(copied) <= n * (math.log2(n) + 1)
    assert tuple(summed([Words((number,)) for number in range(n)])) == tuple(range(n))


def test_a_shard_that_counts_twice_or_not_at_all_is_noticed(tmp_path: Path) -> None:
    shards = written(tmp_path, la.Codes.pack(np.eye(5, 9)), [2, 3], {})
    first, second = Partial([1], frozenset([0]), 2), Partial([2], frozenset([1]), 3)
    assert (first + second).whole(shards) == [1, 2]
    with pytest.raises(AssertionError, match="shard 0 would be counted twice"):
        _ = first + first
    with pytest.raises(ValueError, match="1 of 2 shards were counted, 2 rows of 5"):
        first.whole(shards)
    with pytest.raises(ValueError, match="2 of 2 shards were counted, 6 rows of 5"):
        (first + replace(second, rows=4)).whole(shards)


def test_an_item_that_is_lost_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = codes_world(np.random.default_rng(0), 64, "labels", 9, 50)
    shards = world.write(tmp_path)
    real = shard_codes.Scanned.do

    def losing(self: Any, part: ShardPart, block: slice) -> Any:
        tally = real(self, part, block)
        if part.number == 2:
            tally.counts[0, :, 0] = 0
        return tally

    monkeypatch.setattr(shard_codes.Scanned, "do", losing)
    with pytest.raises(AssertionError, match=r"items were counted for a query, but there are 50: this is a mistake"):
        world.sharded(shards, ["AP"])


def test_few_shards_are_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading waits where counting is slow: of forty shards, never more than are read ahead and counted."""
    world = replace(codes_world(np.random.default_rng(0), 64, "labels", 9, 80), sizes=[2] * 40)
    shards = world.write(tmp_path)
    parts: list[weakref.ref[ShardPart]] = []
    most, lock = [0], threading.Lock()
    real_read, real_do = Shards.read, shard_codes.Scanned.do

    def alive() -> int:
        return sum(part() is not None for part in parts)

    def read(self: Shards, *arguments: Any) -> ShardPart:
        part = real_read(self, *arguments)
        with lock:
            parts.append(weakref.ref(part))
            most[0] = max(most[0], alive())
        return part

    def do(self: Any, part: ShardPart, block: slice) -> Any:
        time.sleep(0.002)
        return real_do(self, part, block)

    monkeypatch.setattr(Shards, "read", read)
    monkeypatch.setattr(shard_codes.Scanned, "do", do)
    for threads in (1, 3):
        most[0] = 0
        assert_same(world.sharded(shards, ["AP"], threads=threads), world.memory(["AP"]))
        assert 1 < most[0] <= 2 * map_reduce.AHEAD + threads + 2
        gc.collect()
        assert alive() == 0


def test_an_error_in_one_shard_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = replace(codes_world(np.random.default_rng(0), 64, "labels", 9, 80), sizes=[2] * 40)
    shards = world.write(tmp_path)
    done, real = [], shard_codes.Scanned.do
    before = set(threading.enumerate())

    def do(self: Any, part: ShardPart, block: slice) -> Any:
        done.append(part.number)
        if part.number == 3:
            raise ArithmeticError("in shard 3")
        return real(self, part, block)

    monkeypatch.setattr(shard_codes.Scanned, "do", do)
    for threads in (1, 3):
        done.clear()
        with pytest.raises(ArithmeticError, match="in shard 3"):
            world.sharded(shards, ["AP"], threads=threads)
        assert len(done) < 20
    assert not [thread for thread in set(threading.enumerate()) - before if "ThreadPool" in thread.name]
