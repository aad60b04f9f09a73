"""Fixtures of the tests of evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lookalike.evaluation.count_shards import search as shard_search


@pytest.fixture(autouse=True, scope="module")
def in_two_passes() -> Iterator[None]:
    """The galleries of tests are counted shard by shard, as large ones are, but for test_small_galleries.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_search, "room", lambda: 0)
        yield


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The kind of each work that is done on all shards, and for how many blocks of queries."""
    done: list[tuple[str, int]] = []
    real = shard_search.gather

    def gather(shards: Any, work: Any, **options: Any) -> Any:
        done.append((type(work).__name__, len(work.blocks)))
        return real(shards, work, **options)

    monkeypatch.setattr(shard_search, "gather", gather)
    return done
