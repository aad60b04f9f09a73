"""Votes: every answer of every expert, and the last answer of each expert on each pair."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import digest
from lookalike.core.ids import row_error, text_ids
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.vote_columns import (
    CANT_TELL,
    NO_TIME,
    NOT_SIMILAR,
    SIMILAR,
    WORDS,
    answer_column,
    seconds_column,
    time_column,
)
from lookalike.discovery.vote_files import read_vote_columns, write_vote_columns

logger = logging.getLogger(__name__)

__all__ = ["CANT_TELL", "NOT_SIMILAR", "SIMILAR", "WORDS", "Ballots", "Votes", "as_pairs", "numbered"]


class Votes:
    """Every answer of every expert, in the order in which the answers came.

    Votes are never changed. An expert who changes an answer votes again, and the last vote counts.
    queries, items, experts: ids. answers: 1 similar, 0 not similar, -1 can't tell, or these words. times: in UTC, NaT
    where unknown. seconds: how long the vote took, nan where unknown. scale: the steps of other answers, whose grades
    or words they then are.

    >>> votes = Votes(["q", "q", "q"], ["a", "a", "a"], ["ann", "bob", "ann"], ["similar", "similar", "not similar"])
    >>> votes, votes.last().answers
    (Votes(3 votes of 2 experts on 1 pairs), array([1, 0], dtype=int8))
    """

    def __init__(
        self, queries: Any, items: Any, experts: Any, answers: Any, times: Any = None, seconds: Any = None, *,
        scale: Scale = BINARY,
    ) -> None:  # fmt: skip
        self.queries, self.items = text_ids(queries, "queries of votes"), text_ids(items, "items of votes")
        self.experts = text_ids(experts, "experts of votes")
        self.scale = scale
        self.answers = answer_column(answers, row_error, scale)
        n = len(self.answers)
        self.times = np.full(n, NO_TIME) if times is None else time_column(times, row_error)
        self.seconds = np.full(n, np.nan) if seconds is None else seconds_column(seconds, row_error)
        for name, array in self._columns.items():
            if array.shape != (n,):
                raise InputError(f"there are {n} answers, but {len(array)} of {name}: a vote has one of each")
            array.flags.writeable = False

    @property
    def _columns(self) -> dict[str, np.ndarray]:
        return {
            "query": self.queries,
            "item": self.items,
            "expert": self.experts,
            "answer": self.answers,
            "time": self.times,
            "seconds": self.seconds,
        }

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, rows: Any) -> "Votes":
        """The votes of a mask, a slice or positions."""
        return Votes(*(array[rows] for array in self._columns.values()), scale=self.scale)

    def __add__(self, more: "Votes") -> "Votes":
        """The votes of this record, then those of the other."""
        if not isinstance(more, Votes):
            return NotImplemented
        self.check_scale(more.scale)
        both = zip(self._columns.values(), more._columns.values(), strict=True)
        return Votes(*(np.concatenate(pair) for pair in both), scale=self.scale)

    def check_scale(self, scale: Scale) -> None:
        """Raise where these votes are on another scale."""
        if self.scale != scale:
            raise InputError(f"votes on the scale {str(self.scale)!r} and on {str(scale)!r} cannot be put together")

    def at_least(self, grade: int) -> "Votes":
        """The same votes as similar and not similar: similar from this grade on."""
        answers = np.where(self.answers < 0, self.answers, self.answers >= grade)
        return Votes(*(self._columns | {"answer": answers}).values())

    def __repr__(self) -> str:
        n_experts, n_pairs = len(self.ballots.experts), len(self.ballots.queries)
        return f"Votes({len(self):,} votes of {n_experts:,} experts on {n_pairs:,} pairs)"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Ids of query and item of every vote."""
        return list(zip(self.queries.tolist(), self.items.tolist(), strict=True))

    @property
    def digest(self) -> str:
        """A fingerprint, for tracing results."""
        return digest(*(array.view(np.int64) if name == "time" else array for name, array in self._columns.items()))

    @cached_property
    def ballots(self) -> "Ballots":
        """The last vote of each expert on each pair, with pairs and experts as numbers."""
        return Ballots.of(self)

    def last(self) -> "Votes":
        """The last vote of each expert on each pair, by time, then by position in the record.

        A vote without a time comes before those with one.

        >>> times = ["2024-05-02", "2024-05-01"]
        >>> Votes(["q", "q"], ["a", "a"], ["ann", "ann"], [1, 0], times).last().answers
        array([1], dtype=int8)
        """
        return self[self.ballots.rows]

    def among(self, others: "Votes") -> np.ndarray:
        """Which of these votes are in another record: the same query, item, expert, answer and time.

        Of equal votes, the first is matched with the first equal vote there, the second with the second, and so on.

        >>> votes = Votes(["q", "q", "q"], ["a", "b", "a"], ["ann", "ann", "ann"], [1, 0, 1])
        >>> votes.among(votes[:1]), votes.among(votes)
        (array([ True, False, False]), array([ True,  True,  True]))
        """
        copies_left = Counter(others._keys())
        is_there = np.zeros(len(self), bool)
        for row, key in enumerate(self._keys()):
            if copies_left[key]:
                copies_left[key] -= 1
                is_there[row] = True
        return is_there

    def _keys(self) -> Iterable[tuple[Any, ...]]:
        """The values by which a vote is the same as another: all but its seconds."""
        columns = (self.queries, self.items, self.experts, self.answers, self.times.view(np.int64))
        return zip(*(column.tolist() for column in columns), strict=True)

    def check(self, pairs: Any) -> None:
        """Raise where a vote is on none of these pairs: a pool, or rows (query, item).

        >>> Votes(["q"], ["b"], ["ann"], [1]).check([("q", "a")])     # doctest: +ELLIPSIS
        Traceback (most recent call last):
        lookalike.core.errors.InputError: 1 of 1 votes are on pairs that were not asked for, first that of 'ann' ...
        """
        asked = set(as_pairs(pairs, "the pairs to check votes against"))
        strange = [row for row, pair in enumerate(self.pairs) if pair not in asked]
        if strange:
            expert, query, item = (str(array[strange[0]]) for array in (self.experts, self.queries, self.items))
            raise InputError(
                f"{len(strange):,} of {len(self):,} votes are on pairs that were not asked for, "
                f"first that of {expert!r} on query {query!r} and item {item!r}"
            )

    def write(self, path: str | Path, *, raw: bool = False, sources: Any = None, machines: Any = ()) -> None:
        """Write to a .csv or .parquet file with the columns query, item, expert, answer, time, seconds.

        raw: in CSV, leave text as it is that a spreadsheet takes for a formula. sources: a further column, as
        `Pool.sources` gives it; reading ignores it. machines: names of experts that are machines; if there are any, a
        further column `machine` says yes for their votes.
        """
        more = {} if sources is None else {"source": np.asarray(sources)}
        if machines:
            more["machine"] = np.where(np.isin(self.experts, sorted(machines)), "yes", "")
        write_vote_columns(path, self._columns | more, self.digest, raw=raw, scale=self.scale)

    @classmethod
    def read(cls, path: str | Path, scale: Scale | None = None) -> "Votes":
        """Read a .csv or .parquet file with columns query, item, expert, answer and, if known, time and seconds.

        Answers are words or 1, 0, -1, or the words and grades of a scale. Times are ISO 8601, in UTC where they name no
        zone. Other columns are ignored. scale: None for what a .parquet file says, or else similar and not similar.
        There is a warning if a column `machine` says that votes are a machine's: here they count as all others do.
        """
        columns, own = read_vote_columns(path, scale)
        votes = cls(*(columns[name] for name in ("query", "item", "expert", "answer", "time", "seconds")), scale=own)
        marked = columns.get("machine")
        if marked is not None and marked.any():
            logger.warning(
                "%s has %d votes of machines, such as %s, which count here like those of experts: lookalike judge "
                "import keeps them apart",
                path,
                int(marked.sum()),
                votes.experts[marked][0],
            )
        return votes


@dataclass(frozen=True, eq=False)
class Ballots:
    """The last vote of each expert on each pair, with pairs and experts as numbers.

    queries, items: ids of each pair, in the order of their first votes. experts: names, sorted. rows: positions of the
    last votes in the record. pair, expert, answers: of each of these. changed: which votes of the record differ from
    the same expert's vote before on the same pair.

    >>> ballots = Ballots.of(Votes(["q"] * 4, ["b", "a", "b", "b"], ["bob", "bob", "bob", "ann"], [1, 1, 0, 1]))
    >>> ballots.rows, ballots.pair, ballots.expert, ballots.changed
    (array([1, 2, 3]), array([1, 0, 0]), array([1, 1, 0]), array([False, False,  True, False]))
    """

    queries: np.ndarray
    items: np.ndarray
    experts: np.ndarray
    rows: np.ndarray
    pair: np.ndarray
    expert: np.ndarray
    answers: np.ndarray
    changed: np.ndarray
    scale: Scale = BINARY

    @classmethod
    def of(cls, votes: Votes) -> "Ballots":
        """The ballots of a record of votes."""
        pair, first = numbered(votes.pairs)
        expert_by_time, first_of_expert = numbered(votes.experts.tolist())
        alphabetic = np.argsort(votes.experts[first_of_expert])
        experts, expert = votes.experts[first_of_expert[alphabetic]], np.argsort(alphabetic)[expert_by_time]
        key = pair * max(len(experts), 1) + expert
        order = np.lexsort((votes.times.view(np.int64), key))  # stable; NaT is the smallest number
        same = key[order[1:]] == key[order[:-1]]
        is_last = np.ones(len(votes), bool)
        is_last[order[:-1][same]] = False
        changed = np.zeros(len(votes), bool)
        changed[order[1:]] = same & (votes.answers[order[1:]] != votes.answers[order[:-1]])
        rows = np.flatnonzero(is_last)
        return cls(
            queries=votes.queries[first],
            items=votes.items[first],
            experts=experts,
            rows=rows,
            pair=pair[rows],
            expert=expert[rows],
            answers=votes.answers[rows],
            changed=changed,
            scale=votes.scale,
        )

    def counts(self, answer: int) -> np.ndarray:
        """How many experts gave this answer, for each pair."""
        return np.bincount(self.pair[self.answers == answer], minlength=len(self.queries))

    @property
    def by_grade(self) -> np.ndarray:
        """(n_pairs, n_steps), how many experts gave each grade; can't tell is left out."""
        return np.stack([self.counts(grade) for grade in range(len(self.scale))], axis=1)

    @property
    def spread(self) -> np.ndarray:
        """The variance of the grades of each pair, 0 where nobody or one alone decided; equal spreads are equal bits.

        >>> Ballots.of(Votes(["q"] * 3, list("aab"), ["ann", "bob", "ann"], [1, 0, 1])).spread
        array([0.25, 0.  ])
        """
        counts, grades = self.by_grade, np.arange(len(self.scale))
        n, first, second = counts.sum(1), counts @ grades, counts @ grades**2
        return np.asarray((n * second - first**2) / np.maximum(n, 1) ** 2)


def as_pairs(pairs: Any, what: str) -> list[tuple[str, str]]:
    """Pairs as tuples (query, item) of strings, from a pool, from judgements or from rows (query, item).

    >>> as_pairs([["q", 7]], "proposals")
    [('q', '7')]
    """
    values = getattr(pairs, "pairs", pairs)
    if isinstance(values, Mapping | str) or not isinstance(values, Iterable):
        raise InputTypeError(f"{what} must be rows (query, item), got {type(pairs).__name__}")
    rows = values.tolist() if hasattr(values, "tolist") else list(values)
    for row in rows:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 2:
            raise InputError(f"{what} must be rows (query, item), got {row!r}")
    sides = ([row[side] for row in rows] for side in (0, 1))
    return list(zip(*(text_ids(side, what).tolist() for side in sides), strict=True))


def numbered(values: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Number values in the order in which they appear; also the positions at which each appears first.

    A dictionary is much faster than sorting strings.

    >>> numbered(["b", "a", "b"])
    (array([0, 1, 0]), array([0, 1]))
    """
    number_of: dict[Any, int] = {}
    numbers = np.array([number_of.setdefault(value, len(number_of)) for value in values], np.int64)
    highest = np.maximum.accumulate(np.append(-1, numbers))
    return numbers, np.flatnonzero(highest[1:] > highest[:-1])
