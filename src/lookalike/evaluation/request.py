"""A request: what is searched, what is relevant and what does not rank, checked once."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.column import Column
from lookalike.core.embeddings import Embeddings, Scores
from lookalike.core.files import PendingDigest
from lookalike.evaluation.relevance import Groups, Relevance
from lookalike.shards.gallery import Shards

ShardGroups = tuple[np.ndarray, Column | np.ndarray | None]

__all__ = ["Request", "ShardGroups"]


@dataclass(frozen=True)
class Request:
    """A checked question to a gallery; `evaluation.inputs` makes it.

    queries: Codes; for a gallery in shards also embeddings; or the Scores or Embeddings of all queries and all items.
    gallery: Codes, Shards, the embeddings of one shard, or None where `queries` holds the scores of all items.
    relevance: bound to the ids of queries and items, but for a gallery in shards, which bring their own ids.
    excluded: items that do not rank. Of a gallery in shards: the groups of the queries, and a column of groups, the
    groups of all items, or None, for groups that are the ids.
    about: what a result says of where it comes from.
    """

    queries: Codes | np.ndarray | Embeddings | Scores
    gallery: Codes | np.ndarray | Shards | None
    relevance: Relevance
    query_ids: np.ndarray
    gallery_ids: np.ndarray | range | Column | None = None
    excluded: Groups | ShardGroups | None = None
    level: str = "image"
    similarity: str | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def settled_about(self) -> dict[str, Any]:
        """What a result says of where it comes from, after fingerprints that are still computed are there.

        Until then, nobody may change what they are of.
        """
        inputs = self.about.get("inputs", {})
        inputs.update((name, one.digest) for name, one in inputs.items() if isinstance(one, PendingDigest))
        return self.about

    @property
    def excluded_groups(self) -> Groups | None:
        """The items that do not rank, of a gallery in memory."""
        assert not isinstance(self.excluded, tuple)
        return self.excluded
