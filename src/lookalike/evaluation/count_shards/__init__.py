"""The tally of a gallery in shards: what is counted of each shard, and how the sum becomes the tally of all."""

from collections.abc import Iterator

from lookalike.core.codes import Codes
from lookalike.evaluation.count_shards.codes import tallies_of_codes
from lookalike.evaluation.count_shards.rows import requests_of_rows, row_passes
from lookalike.evaluation.count_shards.scores import tallies_of_first, tallies_of_marks
from lookalike.evaluation.count_shards.search import SHARE, Search, ShardSearch
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.tally import Tally

__all__ = ["SHARE", "Search", "ShardSearch", "requests_of_rows", "row_passes", "tallies"]


def tallies(run: ShardSearch, needs: Needs) -> Iterator[Tally]:
    """The tallies of the queries, block by block, over all shards."""
    if isinstance(run.search.queries, Codes):
        return tallies_of_codes(run, needs.radius)
    if needs.k is not None:
        return tallies_of_first(run, needs.k)
    return tallies_of_marks(run, needs)
