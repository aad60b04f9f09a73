"""Verdicts: what the organiser says of pairs on which experts disagree. They are no votes, and never count as such."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lookalike.discovery.judgements import Judgements, majority
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.side_files import read_side_table, write_side_table
from lookalike.discovery.votes import CANT_TELL, Votes

TAKEN_BACK = -2  # in place of an answer: there is no verdict any more
VERDICT = "verdict"  # the name of the rule

__all__ = ["TAKEN_BACK", "VERDICT", "VerdictRow", "Verdicts", "by_verdict", "read_verdicts"]

_ALL = "SELECT query, item, answer, time FROM verdicts ORDER BY number"


class VerdictRow(NamedTuple):
    """A verdict on a pair. answer: a grade, -1 to leave the pair open, -2 where the verdict before is taken back.

    time: milliseconds since 1970.
    """

    query: str
    item: str
    answer: int
    time: int


@dataclass(frozen=True)
class Verdicts:
    """All verdicts of a study, in the order in which they came. A later one on the same pair counts; all stay.

    >>> verdicts = Verdicts((VerdictRow("q", "a", 1, 10), VerdictRow("q", "a", 0, 20), VerdictRow("q", "b", -1, 30)))
    >>> verdicts.by_pair
    {('q', 'a'): 0, ('q', 'b'): -1}
    """

    rows: tuple[VerdictRow, ...] = ()

    def __len__(self) -> int:
        """How many pairs have a verdict."""
        return len(self.by_pair)

    def __iter__(self) -> Iterator[VerdictRow]:
        return iter(self.rows)

    @cached_property
    def by_pair(self) -> dict[tuple[str, str], int]:
        """The verdict that counts on each pair, by time, then by position; without those that were taken back."""
        last: dict[tuple[str, str], int] = {}
        for row in sorted(self.rows, key=lambda row: row.time):
            last.pop((row.query, row.item), None)  # so that the pair settled last is the last here
            last[row.query, row.item] = row.answer
        return {pair: answer for pair, answer in last.items() if answer != TAKEN_BACK}

    def without(self, pairs: frozenset[tuple[str, str]]) -> "Verdicts":
        """The verdicts on all but these pairs."""
        return Verdicts(tuple(row for row in self.rows if (row.query, row.item) not in pairs))

    def write(self, path: str | Path, *, raw: bool = False, scale: Scale = BINARY) -> None:
        """Write all to a .csv or .parquet file with the columns query, item, answer and time. scale: of the answers."""
        words = scale.answers | {TAKEN_BACK: "taken back"}
        rows = [row._replace(answer=words.get(row.answer, str(row.answer))) for row in self.rows]  # type: ignore[arg-type]
        write_side_table(path, "verdicts", VerdictRow._fields, rows, raw=raw)


def read_verdicts(path: Path) -> Verdicts:
    """All verdicts of a record of votes; none where none could be given yet."""
    return Verdicts(tuple(VerdictRow(*row) for row in read_side_table(path, "verdicts", _ALL, (str, str, int, int))))


def by_verdict(votes: Votes, verdicts: Verdicts, otherwise: Callable[[Votes], Judgements] = majority) -> Judgements:
    """The verdict where there is one, else what the majority says. A pair that a verdict leaves open is left out.

    otherwise: the rule for pairs without a verdict; on a scale `judge_by` takes the median.

    >>> votes = Votes(["q"] * 6, list("aabbcc"), ["ann", "bob"] * 3, [1, 0, 1, 0, 1, 0])
    >>> verdicts = Verdicts((VerdictRow("q", "a", 1, 10), VerdictRow("q", "b", -1, 20)))
    >>> by_verdict(votes, verdicts).by_pair     # a: the verdict; b: left open; c: 1 to 1, which is negative
    {('q', 'a'): 1, ('q', 'c'): 0}
    """
    judged, given = otherwise(votes), verdicts.by_pair
    pairs = judged.pairs
    grades = np.array([given.get(pair, grade) for pair, grade in judged.by_pair.items()], np.int64)
    kept = grades != CANT_TELL
    known = replace(judged, grades=np.where(kept, grades, 0), rule=VERDICT).some(kept)
    voted = set(pairs)
    more = [(*pair, answer) for pair, answer in given.items() if pair not in voted and answer != CANT_TELL]
    return known if not more else _with_rows(known, more)


def _with_rows(judged: Judgements, more: list[tuple[str, str, int]]) -> Judgements:
    """Judgements with pairs added that no expert decided."""
    queries, items, grades = (np.array(column) for column in zip(*more, strict=True))
    none = np.zeros(len(more), np.int64)
    counts = {name: getattr(judged, name) for name in ("similar", "not_similar", "cant_tell")}
    return Judgements(
        queries=np.concatenate([judged.queries, queries]),
        items=np.concatenate([judged.items, items]),
        grades=np.concatenate([judged.grades, grades]),
        rule=judged.rule,
        rel=judged.rel,
        scale=judged.scale,
        **{name: None if column is None else np.concatenate([column, none]) for name, column in counts.items()},
    )
