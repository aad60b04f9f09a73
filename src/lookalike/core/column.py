"""A column of a gallery in shards, named where arrays of a gallery in memory are given."""

from dataclasses import dataclass

__all__ = ["Column"]


@dataclass(frozen=True)
class Column:
    """Values of a gallery in shards, by the name of their column: each shard brings its own."""

    name: str

    def __repr__(self) -> str:
        return f"Column({self.name!r})"
