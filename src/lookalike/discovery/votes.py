"""Votes: the record of what experts answered, and the judgements that a rule makes of it."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.csv_files import read_csv, write_csv
from lookalike.core.file_errors import reading
from lookalike.core.files import PARQUET, digest, provenance, read_arrays, writing
from lookalike.evaluation.relevance import Judged, Relevance, judged

SIMILAR, NOT_SIMILAR, CANT_TELL = 1, 0, -1
WORDS = {SIMILAR: "similar", NOT_SIMILAR: "not similar", CANT_TELL: "can't tell"}

__all__ = [
    "CANT_TELL",
    "NOT_SIMILAR",
    "SIMILAR",
    "WORDS",
    "Ballots",
    "Judgements",
    "Votes",
    "as_ids",
    "as_pairs",
    "majority",
    "numbered",
    "unanimous",
]

_NEEDED = ("query", "item", "expert", "answer")
_KNOWN = (*_NEEDED, "time", "seconds")
_ANSWERS = {word: answer for answer, word in WORDS.items()} | {str(answer): answer for answer in WORDS}
_FORM = "similar, not similar or can't tell (or 1, 0, -1)"
_UNKNOWN = np.datetime64("NaT", "ms")

Where = Callable[[int], str]


class Votes:
    """Every answer of every expert, in the order in which they came; never changed, only added to.

    queries, items, experts: ids. answers: 1 similar, 0 not similar, -1 can't tell, or these words. times: when, in UTC,
    NaT where unknown. seconds: how long it took, nan where unknown. Who thinks again votes again; the last vote counts.

    >>> votes = Votes(["q", "q", "q"], ["a", "a", "a"], ["ann", "bob", "ann"], ["similar", "similar", "not similar"])
    >>> votes, votes.last().answers
    (Votes(3 votes of 2 experts on 1 pairs), array([1, 0], dtype=int8))
    """

    def __init__(
        self, queries: Any, items: Any, experts: Any, answers: Any, times: Any = None, seconds: Any = None
    ) -> None:
        self.queries, self.items = as_ids(queries, "queries of votes"), as_ids(items, "items of votes")
        self.experts = as_ids(experts, "experts of votes")
        self.answers = _answers(answers, _row)
        n = len(self.answers)
        self.times = np.full(n, _UNKNOWN) if times is None else _times(times, _row)
        self.seconds = np.full(n, np.nan) if seconds is None else _seconds(seconds, _row)
        for name, array in self._columns.items():
            if array.shape != (n,):
                raise ValueError(f"there are {n} answers, but {len(array)} of {name}: a vote has one of each")
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
        return Votes(*(array[rows] for array in self._columns.values()))

    def __add__(self, more: "Votes") -> "Votes":
        """This record, then the other."""
        if not isinstance(more, Votes):
            return NotImplemented
        both = zip(self._columns.values(), more._columns.values(), strict=True)
        return Votes(*(np.concatenate(pair) for pair in both))

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
        """The last votes with everything numbered, as all rules count them."""
        return Ballots.of(self)

    def last(self) -> "Votes":
        """The last vote of each expert on each pair, by time, then by place in the record; no time is before any time.

        >>> times = ["2024-05-02", "2024-05-01"]
        >>> Votes(["q", "q"], ["a", "a"], ["ann", "ann"], [1, 0], times).last().answers
        array([1], dtype=int8)
        """
        return self[self.ballots.rows]

    def among(self, others: "Votes") -> np.ndarray:
        """Which of these votes are in another record: the same query, item, expert, answer and time.

        Of several that are the same, the first is the first of those there, and so on.

        >>> votes = Votes(["q", "q", "q"], ["a", "b", "a"], ["ann", "ann", "ann"], [1, 0, 1])
        >>> votes.among(votes[:1]), votes.among(votes)
        (array([ True, False, False]), array([ True,  True,  True]))
        """
        left = Counter(others._keys())
        found = np.zeros(len(self), bool)
        for row, key in enumerate(self._keys()):
            if left[key]:
                left[key] -= 1
                found[row] = True
        return found

    def _keys(self) -> Iterable[tuple[Any, ...]]:
        """What makes each vote itself."""
        columns = (self.queries, self.items, self.experts, self.answers, self.times.view(np.int64))
        return zip(*(column.tolist() for column in columns), strict=True)

    def check(self, pairs: Any) -> None:
        """Raise where a vote is on none of these pairs: a pool, or rows (query, item).

        >>> Votes(["q"], ["b"], ["ann"], [1]).check([("q", "a")])
        Traceback (most recent call last):
            ...
        ValueError: 1 of 1 votes are on pairs that were not asked for, first that of 'ann' on query 'q' and item 'b'
        """
        known = set(as_pairs(pairs, "the pairs to check votes against"))
        strange = [row for row, pair in enumerate(self.pairs) if pair not in known]
        if strange:
            expert, query, item = (str(array[strange[0]]) for array in (self.experts, self.queries, self.items))
            raise ValueError(
                f"{len(strange):,} of {len(self):,} votes are on pairs that were not asked for, "
                f"first that of {expert!r} on query {query!r} and item {item!r}"
            )

    def write(self, path: str | Path, *, raw: bool = False) -> None:
        """Write to a .csv or .parquet file with the columns query, item, expert, answer, time, seconds.

        raw: in CSV, leave text as it is that a spreadsheet takes for a formula.
        """
        path = Path(path)
        if path.suffix == ".csv":
            self._write_csv(path, raw)
        elif path.suffix == ".parquet":
            self._write_parquet(path)
        else:
            raise ValueError(f"cannot write {path}: the name must end in .csv or .parquet")

    @classmethod
    def read(cls, path: str | Path) -> "Votes":
        """Read a .csv or .parquet file with columns query, item, expert, answer and, if known, time and seconds.

        Answers are words or 1, 0, -1; times ISO 8601, in UTC where they do not say. Other columns are left alone.
        """
        path = Path(path)
        if path.suffix not in (".csv", ".parquet"):
            raise ValueError(f"cannot read {path}: the name must end in .csv or .parquet")
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        if path.suffix == ".csv":
            table = read_csv(path, _NEEDED)
            columns: Mapping[str, Sequence[Any]] = table.columns

            def where(row: int) -> str:
                return f"{path}, line {table.lines[row]}"

        else:
            columns = _read_parquet(path)

            def where(row: int) -> str:
                return f"{path}, row {row}"

        queries, items, experts = (_ids(columns[name], name, where) for name in ("query", "item", "expert"))
        answers = _answers(columns["answer"], where)
        times = _times(columns["time"], where) if "time" in columns else None
        seconds = _seconds(columns["seconds"], where) if "seconds" in columns else None
        return cls(queries, items, experts, answers, times, seconds)

    def _write_csv(self, path: Path, raw: bool) -> None:
        times = [math.nan if time == "NaT" else f"{time}Z" for time in np.datetime_as_string(self.times).tolist()]
        columns = {name: array.tolist() for name, array in self._columns.items()}
        words = [WORDS[answer] for answer in columns["answer"]]
        write_csv(path, columns | {"answer": words, "time": times}, raw=raw)

    def _write_parquet(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: pa.array(array) for name, array in self._columns.items()}
        columns["time"] = pa.array(self.times, pa.timestamp("ms", tz="UTC"))
        about = provenance("votes", votes=len(self), digest=self.digest)
        with writing(path) as file:
            pq.write_table(pa.table(columns, metadata={"lookalike": json.dumps(about)}), file)


@dataclass(frozen=True, eq=False)
class Ballots:
    """The last votes with pairs and experts as numbers.

    queries, items: ids of each pair, in the order of their first votes. experts: names, sorted. rows: places of the
    last votes in the record; pair, expert, answers: of each of these. changed: which votes of the record differ from
    what the same expert had said of the same pair before.

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

    @classmethod
    def of(cls, votes: Votes) -> "Ballots":
        """Those of a record of votes."""
        pair, first = numbered(votes.pairs)
        by, first_by = numbered(votes.experts.tolist())
        alphabetic = np.argsort(votes.experts[first_by])
        experts, expert = votes.experts[first_by[alphabetic]], np.argsort(alphabetic)[by]
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
        )

    def counts(self, answer: int) -> np.ndarray:
        """How many experts gave this answer, for each pair."""
        return np.bincount(self.pair[self.answers == answer], minlength=len(self.queries))


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judged pairs: ids of query and item, and a grade from 0; a pair that nobody could decide is not among them.

    rule: what made grades of votes. similar, not_similar, cant_tell: how many experts said so. probability: that the
    pair is similar, where the rule gives one.

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
        """From rows (query, item, grade), {query: {item: grade}} or judged relevance; equal rows are merged.

        >>> Judgements.of([("q", "a", 1), ("q", "a", 0)])
        Traceback (most recent call last):
            ...
        ValueError: query 'q' and item 'a' are judged twice: 1 and 0
        """
        if isinstance(pairs, Judgements):
            return pairs
        found = pairs if isinstance(pairs, Relevance) else judged(pairs)
        if not isinstance(found, Judged):
            raise TypeError(f"judgements are of single pairs, got relevance of all: {found}")
        queries, items, grades = zip(*_rows(found), strict=True)
        ids = (as_ids(side, what).tolist() for side, what in ((queries, "queries"), (items, "items")))
        merged = judged(zip(*ids, grades, strict=True))  # as strings, 1 and "1" are one
        columns = [np.array(column) for column in zip(*_rows(merged), strict=True)]
        return cls(columns[0], columns[1], columns[2])

    def __post_init__(self) -> None:
        grades = np.asarray(self.grades)
        columns = {
            "queries": as_ids(self.queries, "queries"),
            "items": as_ids(self.items, "items"),
            "grades": grades.astype(np.int64),
        }
        if (columns["grades"] != grades).any() or (columns["grades"] < 0).any():
            raise ValueError("a grade must be a whole number from 0")
        for name, column in columns.items():
            object.__setattr__(self, name, column)
        if not len(self.queries) == len(self.items) == len(self.grades):
            sizes = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
            raise ValueError(f"a judgement has a query, an item and a grade, got {sizes}")
        if len(self.by_pair) < len(self):
            raise ValueError("a pair is judged twice: use Judgements.of, which merges equal judgements")

    def __len__(self) -> int:
        return len(self.grades)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} pairs, {self.positives:,} positive, rule {self.rule!r})"

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
        """What evaluations take: relevance of the judged pairs, all others unjudged."""
        return judged(zip(self.queries.tolist(), self.items.tolist(), self.grades.tolist(), strict=True))

    @property
    def digest(self) -> str:
        """A fingerprint, for tracing results."""
        return digest(self.queries, self.items, self.grades)


def majority(votes: Votes) -> Judgements:
    """Grade 1 where more experts say similar than not; a tie is 0, can't tell counts for neither (Barkan et al. 2023).

    >>> votes = Votes(["q"] * 5, ["a", "a", "b", "b", "c"], ["ann", "bob", "ann", "bob", "ann"], [1, -1, 1, 0, -1])
    >>> majority(votes).by_pair     # a: 1 to 0; b: 1 to 1; c: nobody decided
    {('q', 'a'): 1, ('q', 'b'): 0}
    """
    return _judgements(votes, "majority", lambda similar, not_similar: similar > not_similar)


def unanimous(votes: Votes) -> Judgements:
    """Grade 1 where every expert who decided says similar.

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


def as_ids(values: Any, what: str) -> np.ndarray:
    """Ids as an array of strings of its own; whole numbers are written out.

    >>> as_ids([7, 12], "queries").tolist()
    ['7', '12']
    """
    array = as_numpy(values if hasattr(values, "dtype") or isinstance(values, Sequence) else list(values))
    if array.ndim != 1:
        raise ValueError(f"{what} must be a list of ids, got shape {array.shape}")
    return _ids(array, what, _row)


def as_pairs(pairs: Any, what: str) -> list[tuple[str, str]]:
    """Pairs as (query, item) of strings: from a pool or judgements, or from rows (query, item).

    >>> as_pairs([["q", 7]], "proposals")
    [('q', '7')]
    """
    given = getattr(pairs, "pairs", pairs)
    if isinstance(given, Mapping | str) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be rows (query, item), got {type(pairs).__name__}")
    rows = given.tolist() if hasattr(given, "tolist") else list(given)
    for row in rows:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 2:
            raise ValueError(f"{what} must be rows (query, item), got {row!r}")
    sides = ([row[side] for row in rows] for side in (0, 1))
    return list(zip(*(as_ids(side, what).tolist() for side in sides), strict=True))


def _rows(relevance: Relevance) -> list[tuple[Any, Any, int]]:
    assert isinstance(relevance, Judged)
    return [(query, item, grade) for query, items in relevance.judgements.items() for item, grade in items.items()]


def numbered(values: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """A number for each value, in the order in which they appear, and where each appears first.

    A dictionary is much faster than sorting strings.

    >>> numbered(["b", "a", "b"])
    (array([0, 1, 0]), array([0, 1]))
    """
    known: dict[Any, int] = {}
    numbers = np.array([known.setdefault(value, len(known)) for value in values], np.int64)
    highest = np.maximum.accumulate(np.append(-1, numbers))
    return numbers, np.flatnonzero(highest[1:] > highest[:-1])


def _row(row: int) -> str:
    return f"row {row}"


def _ids(values: Any, what: str, where: Where) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuU" and array.size:
        strange = [row for row, value in enumerate(array.tolist()) if not isinstance(value, str | int)]
        if strange:
            value = array.tolist()[strange[0]]
            raise ValueError(f"{where(strange[0])}: {what} must be text or whole numbers, got {value!r}")
    ids = np.array(array.tolist(), object).astype(str) if array.dtype.kind == "O" else array.astype(str)
    empty = np.flatnonzero(np.char.strip(ids) == "")
    if len(empty):
        raise ValueError(f"{where(int(empty[0]))}: {what} must not be empty")
    return ids


def _answers(values: Any, where: Where) -> np.ndarray:
    array = as_numpy(values)
    if array.dtype.kind in "biuf":
        wrong = np.flatnonzero(~np.isin(array, list(WORDS)))
        if len(wrong):
            raise ValueError(f"{where(int(wrong[0]))}: an answer must be {_FORM}, got {array[wrong[0]]}")
        return array.astype(np.int8)
    out = np.empty(len(array), np.int8)
    for row, value in enumerate(array.tolist()):
        answer = _ANSWERS.get(str(value).strip().lower().replace("’", "'"))
        if answer is None:
            raise ValueError(f"{where(row)}: an answer must be {_FORM}, got {value!r}")
        out[row] = answer
    return out


def _times(values: Any, where: Where) -> np.ndarray:
    array = as_numpy(values)
    if array.dtype.kind == "M":
        return array.astype("datetime64[ms]")
    out = np.full(len(array), _UNKNOWN)
    for row, value in enumerate(array.tolist()):
        if value is None or value == "" or value != value:
            continue
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"{where(row)}: a time must be like 2024-05-01T12:30:00Z, or empty, got {value!r}"
            ) from None
        out[row] = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    return out


def _seconds(values: Any, where: Where) -> np.ndarray:
    array = as_numpy(values)
    try:
        out = array.astype(float)
    except (TypeError, ValueError):
        out = np.array([_number(value) for value in array.tolist()])
    wrong = np.flatnonzero(np.isinf(out) | (out < 0))
    if len(wrong):
        raise ValueError(
            f"{where(int(wrong[0]))}: seconds must be a number from 0, or empty, got {array.tolist()[wrong[0]]!r}"
        )
    return out


def _number(text: Any) -> float:
    """A number, nan for nothing, and for nonsense a number that is refused."""
    try:
        return float(text) if text not in (None, "") else np.nan
    except (TypeError, ValueError):
        return -1.0


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    import pyarrow.parquet as pq

    _, about = read_arrays(path, ())
    if about.get("lookalike", "votes") != "votes":
        raise ValueError(f"{path} holds {about['lookalike']}, not votes")
    head = pq.read_schema(path).names
    for name in _KNOWN:
        if head.count(name) != 1 and (name in _NEEDED or name in head):
            raise ValueError(f"{path} must have one column {name!r}, got {', '.join(map(repr, head)) or 'nothing'}")
    with reading(path, PARQUET):
        table = pq.read_table(path, columns=[name for name in head if name in _KNOWN])
        return {name: table[name].to_pylist() for name in table.column_names}
