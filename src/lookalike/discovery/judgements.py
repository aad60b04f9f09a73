"""Judgements: the grade of each judged pair, and the rules that make judgements of votes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import digest
from lookalike.core.ids import text_ids
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.votes import CANT_TELL, Votes
from lookalike.evaluation.relevance import Judged, Relevance, judged

__all__ = ["Judgements", "majority", "mean", "median", "unanimous"]


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judged pairs: ids of query and item, and a grade from 0. A pair that no expert decided is left out.

    rule: the name of the rule that made grades of votes. similar, not_similar, cant_tell: how many experts gave each
    answer; on a scale, a grade from `rel` on or one below. probability: that the pair is similar, where the rule gives
    one. rel: the lowest grade that is positive. scale: of the grades, None where they were given.

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
    rel: int = 1
    scale: Scale | None = None

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
        """Number of pairs with a grade from `rel` on: by default, above 0."""
        return int((self.grades >= self.rel).sum())

    @property
    def graded(self) -> bool:
        """Whether grades are of a scale of three steps or more, so that graded metrics say more than others."""
        return self.scale is not None and self.scale.graded

    @property
    def positive(self) -> str:
        """What a positive pair is called: similar, or the words of a scale."""
        return "similar" if self.scale is None else self.scale.positive(self.rel)

    @property
    def binary(self) -> "Judgements":
        """The same judgements with grade 1 where they are positive, and 0 elsewhere.

        >>> Judgements(["q", "q"], ["a", "b"], [2, 1], rel=2).binary.grades
        array([1, 0])
        """
        if self.rel == 1 and not self.graded:
            return self
        return replace(self, grades=self.grades >= self.rel, rel=1, scale=None)

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


def majority(votes: Votes, rel: int | None = None) -> Judgements:
    """Grade 1 where more experts say similar than not similar, and 0 for ties (Barkan et al. 2023).

    On a scale, the grade that most experts gave; of several, the lowest. Can't tell counts for neither side. A pair
    without a decided vote is left out. rel: the lowest grade that is positive, by default the highest step.

    >>> votes = Votes(["q"] * 5, ["a", "a", "b", "b", "c"], ["ann", "bob", "ann", "bob", "ann"], [1, -1, 1, 0, -1])
    >>> majority(votes).by_pair     # a: 1 to 0; b: 1 to 1; c: nobody decided
    {('q', 'a'): 1, ('q', 'b'): 0}
    """
    return _judgements(votes, "majority", rel, lambda counts: counts.argmax(1))


def unanimous(votes: Votes, rel: int | None = None) -> Judgements:
    """Grade 1 where every expert who decided says similar. A pair without a decided vote is left out.

    On a scale, the lowest grade that an expert gave: the pair is positive where every expert says so.

    >>> votes = Votes(["q"] * 5, ["a"] * 2 + ["b"] * 3, ["ann", "bob", "ann", "bob", "eve"], [1, -1, 1, 1, 0])
    >>> unanimous(votes).by_pair    # a: 1 to 0; b: 2 to 1
    {('q', 'a'): 1, ('q', 'b'): 0}
    """
    return _judgements(votes, "unanimous", rel, lambda counts: (counts > 0).argmax(1))


def median(votes: Votes, rel: int | None = None) -> Judgements:
    """The middle of the grades that experts gave; of two in the middle, the lower.

    Without a scale it is the majority. Can't tell is left out, and so is a pair without a decided vote.

    >>> scale = Scale.parse("0 not alike, 1 related, 2 alike")
    >>> votes = Votes(["q"] * 5, list("aaabb"), ["ann", "bob", "eve", "ann", "bob"], [2, 1, 2, 2, 0], scale=scale)
    >>> median(votes).by_pair
    {('q', 'a'): 2, ('q', 'b'): 0}
    """
    return _judgements(votes, "median", rel, lambda counts: (2 * counts.cumsum(1) >= counts.sum(1)[:, None]).argmax(1))


def mean(votes: Votes, rel: int | None = None) -> Judgements:
    """The mean of the grades that experts gave, rounded to the next grade; a half is rounded down.

    Without a scale it is the majority. Can't tell is left out, and so is a pair without a decided vote.

    >>> scale = Scale.parse("0 not alike, 1 related, 2 alike")
    >>> votes = Votes(["q"] * 5, list("aaabb"), ["ann", "bob", "eve", "ann", "bob"], [2, 2, 1, 2, 1], scale=scale)
    >>> mean(votes).by_pair     # a: 5/3; b: 3/2
    {('q', 'a'): 2, ('q', 'b'): 1}
    """

    def rounded(counts: np.ndarray) -> np.ndarray:
        n, total = counts.sum(1), counts @ np.arange(counts.shape[1])
        return np.asarray(-((n - 2 * total) // (2 * n)))  # the ceiling of total/n - 1/2, in whole numbers

    return _judgements(votes, "mean", rel, rounded)


def _judgements(votes: Votes, rule: str, rel: int | None, grade: Callable[[np.ndarray], np.ndarray]) -> Judgements:
    """Judgements of votes. grade: from counts (n_pairs, n_steps), none of them without a decided vote, to grades."""
    ballots, least = votes.ballots, votes.scale.rel(rel)
    counts = ballots.by_grade
    is_judged = counts.any(1)
    counts = counts[is_judged]
    return Judgements(
        queries=ballots.queries[is_judged],
        items=ballots.items[is_judged],
        grades=grade(counts),
        rule=rule,
        similar=counts[:, least:].sum(1),
        not_similar=counts[:, :least].sum(1),
        cant_tell=ballots.counts(CANT_TELL)[is_judged],
        rel=least,
        scale=None if votes.scale == BINARY else votes.scale,
    )


def _rows(relevance: Relevance) -> list[tuple[Any, Any, int]]:
    """Judged pairs as rows (query, item, grade)."""
    assert isinstance(relevance, Judged)
    return [(query, item, grade) for query, items in relevance.judgements.items() for item, grade in items.items()]
