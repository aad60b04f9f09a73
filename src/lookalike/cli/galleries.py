"""Galleries in shards, opened here or on a cluster."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookalike.shards.gallery import Shards

__all__ = ["open_shards"]


@contextlib.contextmanager
def open_shards(where: str | Path, dask: str | None = None) -> Iterator["Shards"]:
    """A gallery in shards, counted here or by the workers of a cluster."""
    from lookalike.shards.gallery import Shards

    shards = Shards.open(where)
    if dask is None:
        yield shards
        return
    from lookalike.shards.dask import connected

    with connected(dask) as client:
        yield shards.on(client)
