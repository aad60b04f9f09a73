"""A gallery on disk or in an object store, read here or on Dask."""

from lookalike.shards.gallery import Shards
from lookalike.shards.writer import ShardWriter

__all__ = ["ShardWriter", "Shards"]
