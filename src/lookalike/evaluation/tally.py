"""Tally: how many items of each grade stand in each tie group of each query, in rank order."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.files import fingerprints, is_whole, provenance, read_arrays, seal, write_arrays
from lookalike.evaluation.relevance import Unranked
from lookalike.evaluation.tally_checks import TOO_MANY, faults_of
from lookalike.evaluation.tally_parts import Ball, stack_ragged, unranked_in_both

POLICIES = {"irrelevant": 0, "relevant": 1, "condensed": None}  # the grade that unjudged items get
LOWEST = np.finfo(float).min  # what a ranked item of score -inf counts beside those that have no rank
NO_DISTANCE = ("a radius needs a distance: Codes, or embeddings with ", Option("similarity", "euclidean"))

__all__ = ["LOWEST", "Tally", "concatenate"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Tally:
    """Counts of items per query, tie group and grade; every ranking metric is a function of them.

    counts: (n_queries, n_groups, grades), nearest group first; empty groups change nothing.
    unjudged: (n_queries, n_groups), items that nobody judged.
    For codes group d holds the items at Hamming distance d. For float scores `scores` (n_queries, n_groups) has the
    score of each group, nan where there is none; without them, neighbouring groups of one grade may be merged.

    >>> import lookalike as la
    >>> codes = la.Codes.pack([[0, 0], [0, 1], [1, 1]])
    >>> la.count(codes[:1], codes, la.same_label([7], [7, 7, 8])).counts[0]     # a row for each distance 0, 1, 2
    array([[0, 1],
           [0, 1],
           [1, 0]])
    """

    query_ids: np.ndarray
    counts: np.ndarray
    unjudged: np.ndarray
    method: str
    n_bits: int | None = None
    scores: np.ndarray | None = None
    similarity: str | None = None  # of embeddings; where it is "euclidean", scores are squared distances below zero
    lengths: np.ndarray | None = None  # of cosines: what the scores of each query are divided by to be that
    complete: bool = True  # whether every group is of one score, and kept it, so that tallies of shards add up
    condensed: bool = False  # whether unjudged items were left out, which empties groups
    largest: np.ndarray | None = None
    ball: Ball | None = None
    unranked: Unranked | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    _relevant: dict[int, np.ndarray] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        of = "scores" if self.n_bits is None else f"codes of {self.n_bits} bits"
        return f"Tally({len(self):,} queries, {of}, grades 0 to {self.n_grades - 1}, counted by {self.method!r})"

    @property
    def n_grades(self) -> int:
        """Number of grades, 0 included."""
        return int(self.counts.shape[2])

    @cached_property
    def unranked_counts(self) -> np.ndarray:
        """Judged items in no group, (n_queries, grades)."""
        out = np.zeros((len(self), self.n_grades), np.int64)
        if self.unranked is not None:
            np.add.at(out, (self.unranked.queries, self.unranked.grades), 1)
        return out

    @cached_property
    def totals(self) -> np.ndarray:
        """Items of each grade that a perfect search would rank, (n_queries, grades)."""
        return np.asarray(self.counts.sum(1) + self.unranked_counts)

    @cached_property
    def retrieved(self) -> np.ndarray:
        """Judged items in each group, (n_queries, n_groups), as floats: what metrics compute with."""
        out = self.counts[:, :, 0].astype(float)
        for grade in range(1, self.n_grades):  # several times faster than a sum over the last axis
            out += self.counts[:, :, grade]
        return out

    @cached_property
    def ranked(self) -> np.ndarray:
        """Items in each group, judged or not, (n_queries, n_groups), as floats."""
        return np.asarray(self.retrieved + self.unjudged)

    def relevant(self, rel: int) -> np.ndarray:
        """Items of grade `rel` or more in each group, (n_queries, n_groups), as floats."""
        if rel not in self._relevant:
            at_least = self.counts[:, :, rel] if rel == self.n_grades - 1 else self.counts[:, :, rel:].sum(2)
            self._relevant[rel] = np.ascontiguousarray(at_least, float)
        return self._relevant[rel]

    def top(self, k: int | None) -> slice:
        """The groups that can matter to the first k ranks: where no group is empty, k of them are enough."""
        return slice(0, k if self.n_bits is None and not self.condensed else None)

    def total_relevant(self, rel: int) -> np.ndarray:
        """Items of grade `rel` or more, ranked or not, (n_queries,)."""
        return np.asarray(self.totals[:, rel:].sum(1))

    def within(self, radius: float) -> np.ndarray:
        """Which groups lie within the radius, (n_queries, n_groups) or (n_groups,) of bool."""
        if self.n_bits is not None:
            return np.arange(self.counts.shape[1]) <= radius
        if self.similarity != "euclidean" or self.scores is None:
            raise InputError(*NO_DISTANCE)
        if not self.complete:
            raise InputError("a radius needs the distance of every group: count with scores=True")
        return -self.scores <= radius**2

    def judged_groups(self, rel: int) -> tuple[np.ndarray, np.ndarray]:
        """Relevant and judged items of each group, (n_queries, n_groups); the last group has those without a rank."""
        relevant, retrieved, unranked = self.relevant(rel), self.retrieved, self.unranked_counts
        if not unranked.any():
            return relevant, retrieved
        last = unranked[:, rel:].sum(1), unranked.sum(1)
        return np.column_stack([relevant, last[0]]), np.column_stack([retrieved, last[1]])

    def scored_groups(self, rel: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The groups that hold a judged item, all queries' in a row: how many each query has, scores, relevant, others.

        The scores can be compared between queries: Hamming distances below zero, cosines, or what was given. Items
        without a rank are a group of the score -inf.
        """
        relevant, judged = self.judged_groups(rel)
        used, ranked = judged > 0, self.retrieved > 0
        if self.n_bits is not None:
            scores = np.broadcast_to(-np.arange(ranked.shape[1], dtype=float), ranked.shape)
        elif self.scores is None or (np.isnan(self.scores) & ranked).any():
            raise InputError("average='micro' compares the scores of all queries: count with scores=True")
        else:
            scores = self.scores
        if judged.shape[1] > ranked.shape[1]:
            scores = np.column_stack([np.maximum(scores, LOWEST), np.full(len(scores), -np.inf)])
        scores = scores[used]
        if self.lengths is not None:
            scores = scores / np.repeat(self.lengths, used.sum(1)).astype(float)
        return used.sum(1), scores, relevant[used], judged[used] - relevant[used]

    def with_unjudged(self, policy: str) -> "Tally":
        """This tally with unjudged items of grade 0 ("irrelevant") or 1 ("relevant"), or without them ("condensed")."""
        if policy not in POLICIES:
            raise InputError(f"unjudged items must be one of {', '.join(map(repr, POLICIES))}, got {policy!r}")
        if not self.unjudged.any():
            return self
        nobody, grade = np.zeros_like(self.unjudged), POLICIES[policy]
        if grade is None:  # which codes they were on is not known
            return replace(self, unjudged=nobody, condensed=True, largest=None, ball=None)
        counts = self.counts.copy()
        counts[:, :, grade] += self.unjudged
        return replace(self, counts=counts, unjudged=nobody)

    def __add__(self, other: "Tally") -> "Tally":
        """The tally of two parts of one gallery."""
        if not isinstance(other, Tally):
            return NotImplemented
        self._check_part(other)
        grades = max(self.n_grades, other.n_grades)
        left, right = (_widen(tally.counts, grades) for tally in (self, other))
        common: dict[str, Any] = {
            "query_ids": self.query_ids,
            "method": self.method if self.method == other.method else f"{self.method} + {other.method}",
            "n_bits": self.n_bits,
            "condensed": self.condensed or other.condensed,
            "unranked": unranked_in_both(self.unranked, other.unranked),
            "inputs": {
                name: self.inputs[name] if name == "queries" else [self.inputs[name], other.inputs.get(name)]
                for name in self.inputs
            },
        }
        if self.n_bits is not None:
            ball = self.ball + other.ball if self.ball is not None and other.ball is not None else None
            counts, unjudged = _checked_sum(left, right), _checked_sum(self.unjudged, other.unjudged)
            largest = None if ball is None else ball.largest(len(self))
            return Tally(counts=counts, unjudged=unjudged, ball=ball, largest=largest, **common)
        assert self.scores is not None
        assert other.scores is not None
        all_left, all_right = (
            np.concatenate([counts, tally.unjudged[:, :, None]], axis=2)
            for counts, tally in ((left, self), (right, other))
        )
        rows = [_merge_scores(self.scores[i], all_left[i], other.scores[i], all_right[i]) for i in range(len(self))]
        scores, counts = stack_ragged([row[0] for row in rows], np.nan), stack_ragged([row[1] for row in rows], 0)
        if (counts < 0).any():
            raise InputError(TOO_MANY)
        return Tally(
            counts=counts[:, :, :-1],
            unjudged=counts[:, :, -1],
            scores=scores,
            similarity=self.similarity,
            lengths=self.lengths,
            **common,
        )

    def _check_part(self, other: "Tally") -> None:
        """Raise where two tallies cannot be of parts of one gallery, or lack what their sum needs."""
        if not np.array_equal(self.query_ids, other.query_ids):
            raise InputError("tallies are of different queries: only tallies of parts of one gallery add up")
        if self.n_bits != other.n_bits:
            raise InputError(f"tallies are of codes of {self.n_bits} and {other.n_bits} bits (None: of scores)")
        if self.similarity != other.similarity:
            raise InputError(f"tallies are of different similarities, {self.similarity} and {other.similarity}")
        if not (self.complete and other.complete):
            raise InputError("tallies of scores add up only when every group kept its score: count with scores=True")
        ours, theirs = (fingerprints(tally.inputs.get("queries")) for tally in (self, other))
        if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
            raise InputError("tallies are of different queries with the same ids: only the gallery may be in parts")
        positions = "positions" in (self.inputs.get("gallery_ids"), other.inputs.get("gallery_ids"))
        if positions and not (self.unranked is None and other.unranked is None):
            raise InputError("judged pairs name items by id: count each part of the gallery with its gallery_ids")
        if "product" in (self.inputs.get("level"), other.inputs.get("level")):
            raise InputError(
                "each part of the gallery inherited only its own judgements: count with "
                "relevance.inherited(gallery_ids, gallery_groups) of the whole gallery in place of level='product'"
            )

    def __radd__(self, other: int) -> "Tally":
        """So that sum() works, which starts from 0."""
        return self if other == 0 else NotImplemented

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as named arrays, and the rest as plain values."""
        arrays = {"query_ids": self.query_ids, "counts": self.counts, "unjudged": self.unjudged}
        arrays |= {
            name: value for name in ("scores", "largest", "lengths") if (value := getattr(self, name)) is not None
        }
        if self.ball is not None:
            arrays |= {f"ball_{name}": getattr(self.ball, name) for name in ("queries", "words", "distances", "counts")}
        if self.unranked is not None:
            arrays |= {f"unranked_{name}": getattr(self.unranked, name) for name in ("queries", "items", "grades")}
        facts = {name: getattr(self, name) for name in ("method", "n_bits", "similarity", "complete", "condensed")}
        facts["inputs"] = fingerprints(self.inputs)
        return arrays, facts | {"radius": None if self.ball is None else self.ball.radius}

    def save(self, path: str | Path) -> None:
        """Write to an .npz file."""
        if Path(path).suffix != ".npz":
            raise FileError(f"cannot write {path}: a tally's name must end in .npz", path=path)
        arrays, facts = self.to_arrays()
        about = provenance("tally", **facts)
        write_arrays(path, arrays, about | {"seal": seal(arrays, about)})

    @classmethod
    def load(cls, path: str | Path) -> "Tally":
        """Read what `save` wrote; raises where that cannot be a tally."""
        arrays, about = read_arrays(path)
        if about.get("lookalike") != "tally":
            raise FileError(f"{path} holds no tally: it was not written by Tally.save", path=path)
        if not is_whole(arrays, about):
            raise FileError(f"{path} is damaged: it does not hold the tally that was saved", path=path)
        try:
            tally = cls.from_arrays(arrays, about)
        except KeyError as error:
            raise FileError(f"{path} is damaged: it lacks {error.args[0]}", path=path) from None
        for fault in faults_of(tally):
            raise FileError(f"{path} is damaged: {fault}", path=path)
        return tally

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> "Tally":
        """Take what `to_arrays` gave."""
        ball = unranked = None
        if about["radius"] is not None:
            ball = Ball(
                about["radius"], *(arrays[f"ball_{name}"] for name in ("queries", "words", "distances", "counts"))
            )
        if any(name.startswith("unranked_") for name in arrays):
            unranked = Unranked(*(arrays[f"unranked_{name}"] for name in ("queries", "items", "grades")))
        return cls(
            query_ids=arrays["query_ids"],
            counts=arrays["counts"],
            unjudged=arrays["unjudged"],
            scores=arrays.get("scores"),
            largest=arrays.get("largest"),
            lengths=arrays.get("lengths"),
            ball=ball,
            unranked=unranked,
            **{name: about[name] for name in ("method", "n_bits", "similarity", "complete", "condensed", "inputs")},
        )


def concatenate(tallies: list[Tally]) -> Tally:
    """The tally of several blocks of queries against one gallery, from the tallies of the blocks."""
    if len(tallies) == 1:
        return tallies[0]
    first = tallies[0]
    offsets = np.cumsum([0, *(len(tally) for tally in tallies)])
    merged: dict[str, Any] = {}
    for name, filler in (("counts", 0), ("unjudged", 0), ("scores", np.nan), ("largest", 0)):
        parts = [getattr(tally, name) for tally in tallies]
        if parts[0] is None:
            continue
        if len({part.shape[1] for part in parts}) == 1:
            merged[name] = np.concatenate(parts)
        else:
            merged[name] = stack_ragged([row for part in parts for row in part], filler)
    if first.lengths is not None:
        merged["lengths"] = np.concatenate([tally.lengths for tally in tallies if tally.lengths is not None])
    for name, kind in (("ball", Ball), ("unranked", Unranked)):
        parts = [getattr(tally, name) for tally in tallies]
        if parts[0] is not None:
            columns = [column for column in kind.__dataclass_fields__ if column != "radius"]
            joined = {column: np.concatenate([getattr(part, column) for part in parts]) for column in columns}
            joined["queries"] = np.concatenate([part.queries + o for part, o in zip(parts, offsets, strict=False)])
            merged[name] = replace(parts[0], **joined)
    return replace(first, query_ids=np.concatenate([tally.query_ids for tally in tallies]), **merged)


def _widen(counts: np.ndarray, grades: int) -> np.ndarray:
    return np.pad(counts, ((0, 0), (0, 0), (0, grades - counts.shape[2])))


def _checked_sum(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    total = left + right
    if (total < left).any():  # a sum of two counts that wrapped around
        raise InputError(TOO_MANY)
    return np.asarray(total)


def _merge_scores(
    left_scores: np.ndarray, left: np.ndarray, right_scores: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One query's groups from two parts of a gallery, the highest score first."""
    both = np.concatenate([left_scores, right_scores])
    used = ~np.isnan(both)
    scores, place = np.unique(-both[used], return_inverse=True)
    counts = np.zeros((len(scores), left.shape[1]), np.int64)
    np.add.at(counts, place, np.concatenate([left, right])[used])
    return -scores, counts
