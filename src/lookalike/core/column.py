"""The name of a column of a gallery in shards; it stands where a gallery in memory has an array."""

from dataclasses import dataclass

__all__ = ["Column"]


@dataclass(frozen=True)
class Column:
    """Values of a gallery in shards, by the name of their column; each shard holds its own part."""

    name: str

    def __repr__(self) -> str:
        return f"Column({self.name!r})"
