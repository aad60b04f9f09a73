"""Exports of votes and judgements: where each pair comes from, without pairs that no evaluation should count."""

from pathlib import Path
from typing import NamedTuple

from lookalike.discovery.formats import write_judgements
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.pool import RANDOM, Pool
from lookalike.discovery.votes import Votes

__all__ = ["Exported", "export_judgements", "export_votes"]


class Exported(NamedTuple):
    """How many rows a file got, and how many pairs drawn by chance were left out of it."""

    rows: int
    random_left_out: int = 0


def export_votes(
    path: str | Path, votes: Votes, pool: Pool | None, *, raw: bool = False, machines: frozenset[str] = frozenset()
) -> Exported:
    """Write every vote to .csv or .parquet; with a pool, a column `source` says why its pair was to be judged.

    machines: names of experts that are machines; if there are any, a column `machine` marks their votes.
    """
    sources = None if pool is None else pool.sources(votes.queries, votes.items)
    votes.write(path, raw=raw, sources=sources, machines=machines)
    return Exported(len(votes))


def export_judgements(
    path: str | Path, judgements: Judgements, pool: Pool | None, *, with_random: bool = False, raw: bool = False
) -> Exported:
    """Write judgements by the file's name; .csv and .parquet have a column `source` where there is a pool.

    Pairs that chance alone drew estimate how many positives there are. An evaluation must not count them, so they are
    left out unless with_random is true: the format of TREC and that of the released benchmark cannot mark them.
    Grades of a scale are written as they are, but for the released benchmark's .json: that has 1 where a pair is
    positive, and 0.
    """
    if Path(path).suffix == ".json":
        judgements = judgements.binary
    left_out = 0
    sources = None
    if pool is not None:
        sources = pool.sources(judgements.queries, judgements.items)
        kept = (sources != RANDOM) | with_random
        left_out = int((~kept).sum())
        judgements, sources = judgements.some(kept), sources[kept]
    write_judgements(path, judgements.queries, judgements.items, judgements.grades, raw=raw, sources=sources)
    return Exported(len(judgements), left_out)
