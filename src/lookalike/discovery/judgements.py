"""Judgements: the grade of each judged pair, and the rules that make judgements of votes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import digest
from lookalike.core.ids import text_ids
from lookalike.discovery.votes import CANT_TELL, NOT_SIMILAR, SIMILAR, Votes
from lookalike.evaluation.relevance import Judged, Relevance, judged

__all__ = ["Judgements", "majority", "unanimous"]


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judged pairs: ids of query and item, and a grade from 0. A pair that no expert decided is left out.

    rule: the name of the rule that made grades of votes. similar, not_similar, cant_tell: how many experts gave each
    answer. probability: that the pair is similar, where the rule gives one.

    >>> judgements = Judgements.of([("q", "a", 1), ("q", "b", 0)])
    >>> len(judgements), judgements.positives, judgements.by_pair["q", "a"]
    (2, 1, 1)
    """

    queries: np.ndarray
    items: np.ndarray
    grades: np.ndarray
    rule: str = "given"
    similar: np.ndarray | None = None
    not_similar: np.ndarray | None = None
    cant_tell: np.ndarray | None = None
    probability: np.ndarray | None = None

    @classmethod
    def of(cls, pairs: Any) -> "Judgements":
        """Judgements from rows (query, item, grade), {query: {item: grade}} or judged relevance; equal rows are merged.

        >>> Judgements.of([("q", "a", 1), ("q", "b", 0), ("q", "a", 1)])
        Judgements(2 pairs, 1 positive, rule 'given')
        """
        if isinstance(pairs, Judgements):
            return pairs
        relevance = pairs if isinstance(pairs, Relevance) else judged(pairs)
        if not isinstance(relevance, Judged):
            raise InputTypeError(f"judgements are of single pairs, got relevance of all pairs: {relevance}")
        queries, items, grades = zip(*_rows(relevance), strict=True)
        ids = (text_ids(side, what).tolist() for side, what in ((queries, "queries"), (items, "items")))
        merged = judged(zip(*ids, grades, strict=True))  # as strings, 1 and "1" are one
        columns = [np.array(column) for column in zip(*_rows(merged), strict=True)]
        return cls(columns[0], columns[1], columns[2])

    def __post_init__(self) -> None:
        grades = np.asarray(self.grades)
        if grades.dtype.kind not in "biuf" and grades.size:
            raise InputTypeError("a grade must be a whole number from 0")
        with np.errstate(invalid="ignore"):  # nan, which is refused below
            whole = grades.astype(np.int64)
        columns = {
            "queries": text_ids(self.queries, "queries"),
            "items": text_ids(self.items, "items"),
            "grades": whole,
        }
        if (columns["grades"] != grades).any() or (columns["grades"] < 0).any():
            raise InputError("a grade must be a whole number from 0")
        for name, column in columns.items():
            object.__setattr__(self, name, column)
        if not len(self.queries) == len(self.items) == len(self.grades):
            sizes = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
            raise InputError(f"a judgement has a query, an item and a grade, got {sizes}")
        if len(self.by_pair) < len(self):
            raise InputError("a pair is judged twice: use Judgements.of, which merges equal judgements")

    def __len__(self) -> int:
        return len(self.grades)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} pairs, {self.positives:,} positive, rule {self.rule!r})"

    def some(self, rows: np.ndarray) -> "Judgements":
        """The judgements in some rows, a mask or positions."""
        columns = {name: column[rows] for name, column in vars(self).items() if isinstance(column, np.ndarray)}
        return replace(self, **columns)

    @property
    def positives(self) -> int:
        """Number of pairs with a grade above 0."""
        return int((self.grades > 0).sum())

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Ids of query and item of every judged pair."""
        return list(zip(self.queries.tolist(), self.items.tolist(), strict=True))

    @cached_property
    def by_pair(self) -> dict[tuple[str, str], int]:
        """The grade of each (query, item)."""
        return dict(zip(self.pairs, self.grades.tolist(), strict=True))

    @cached_property
    def relevance(self) -> Relevance:
        """Relevance of the judged pairs, for evaluations; all other pairs are unjudged."""
        return judged(zip(self.queries.tolist(), self.items.tolist(), self.grades.tolist(), strict=True))

    @property
    def digest(self) -> str:
        """A fingerprint, for tracing results."""
        return digest(self.queries, self.items, self.grades)


def majority(votes: Votes) -> Judgements:
    """Grade 1 where more experts say similar than not similar, and 0 for ties (Barkan et al. 2023).

    Can't tell counts for neither side. A pair without a decided vote is left out.

    >>> votes = Votes(["q"] * 5, ["a", "a", "b", "b", "c"], ["ann", "bob", "ann", "bob", "ann"], [1, -1, 1, 0, -1])
    >>> majority(votes).by_pair     # a: 1 to 0; b: 1 to 1; c: nobody decided
    {('q', 'a'): 1, ('q', 'b'): 0}
    """
    return _judgements(votes, "majority", lambda similar, not_similar: similar > not_similar)


def unanimous(votes: Votes) -> Judgements:
    """Grade 1 where every expert who decided says similar. A pair without a decided vote is left out.

    >>> votes = Votes(["q"] * 5, ["a"] * 2 + ["b"] * 3, ["ann", "bob", "ann", "bob", "eve"], [1, -1, 1, 1, 0])
    >>> unanimous(votes).by_pair    # a: 1 to 0; b: 2 to 1
    {('q', 'a'): 1, ('q', 'b'): 0}
    """
    return _judgements(votes, "unanimous", lambda similar, not_similar: (similar > 0) & (not_similar == 0))


def _judgements(votes: Votes, rule: str, positive: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Judgements:
    ballots = votes.ballots
    similar, not_similar, cant_tell = (ballots.counts(answer) for answer in (SIMILAR, NOT_SIMILAR, CANT_TELL))
    is_judged = similar + not_similar > 0
    return Judgements(
        queries=ballots.queries[is_judged],
        items=ballots.items[is_judged],
        grades=positive(similar, not_similar)[is_judged],
        rule=rule,
        similar=similar[is_judged],
        not_similar=not_similar[is_judged],
        cant_tell=cant_tell[is_judged],
    )


def _rows(relevance: Relevance) -> list[tuple[Any, Any, int]]:
    """Judged pairs as rows (query, item, grade)."""
    assert isinstance(relevance, Judged)
    return [(query, item, grade) for query, items in relevance.judgements.items() for item, grade in items.items()]
