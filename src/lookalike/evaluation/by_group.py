"""Every metric of groups of queries, such as those of one category, and its macro mean over the groups."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.tables.formats import TableFormats
from lookalike.core.tables.render import as_text
from lookalike.core.tables.table import ResultTable, TableHead
from lookalike.metrics.metric import Metric

MACRO = "macro mean"
SHOWN = 20  # groups that are printed
ONE_GROUP = "all queries are of one group: its numbers are those of all queries"

__all__ = ["MACRO", "ByGroup", "GroupScore", "QueryGroups"]


@dataclass(frozen=True)
class QueryGroups:
    """The group of every query. names: the groups, in rising order; numbers: the place of each query's group in them.

    Values are text, whole numbers or bool, as users give them; text and numbers are not mixed.
    """

    names: tuple[Any, ...]
    numbers: np.ndarray

    @classmethod
    def of(cls, groups: Any, query_ids: np.ndarray) -> "QueryGroups":
        """From what users give as `by`: one group for each query, in their order, or {query_id: group}."""
        if isinstance(groups, Mapping):
            missing = [query for query in query_ids.tolist() if query not in groups]
            if missing:
                raise InputError(
                    Option("by"), f" has no group of {len(missing):,} queries, first of {missing[0]!r}: give each one"
                )
            values = [groups[query] for query in query_ids.tolist()]
        else:
            values = _listed(groups, len(query_ids))
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        kinds = {type(value) for value in values}
        if len(kinds) > 1 or not kinds <= {str, int, bool}:
            wrong = next((i for i, value in enumerate(values) if type(value) not in (str, int, bool)), None)
            given = "several kinds" if wrong is None else f"{values[wrong]!r} for query {query_ids[wrong].item()!r}"
            raise InputTypeError(Option("by"), f" must be text or whole numbers, all of one kind, got {given}")
        names = tuple(sorted(set(values)))
        place = {name: number for number, name in enumerate(names)}
        return cls(names, np.array([place[value] for value in values], np.int64))

    def rows(self) -> list[np.ndarray]:
        """The positions of each group's queries, in the order of the groups."""
        order = np.argsort(self.numbers, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.numbers))[:-1])

    def notes(self) -> list[str]:
        """What looks like a mistake."""
        return [ONE_GROUP] if len(self.names) == 1 else []


def _listed(groups: Any, n: int) -> list[Any]:
    """The group of each query from a list or an array; raises where these are not n."""
    if isinstance(groups, str) or not (isinstance(groups, Sequence) or hasattr(groups, "__array__")):
        raise InputTypeError(
            Option("by"),
            f" must be one group for each query, or a mapping of query ids to groups, got {type(groups).__name__}",
        )
    values = list(groups) if isinstance(groups, Sequence) else as_numpy(groups)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(Option("by"), f" must be one group for each query, got shape {values.shape}")
        values = list(values)
    if len(values) != n:
        raise InputError(Option("by"), f" has groups of {len(values):,} queries, but there are {n:,}")
    return values


@dataclass(frozen=True)
class GroupScore:
    """One metric of the queries of one group, as `Score` has it of all; undefined: queries without a value."""

    mean: float
    best: float
    worst: float
    queries: int
    undefined: int


@dataclass(frozen=True)
class ByGroup(TableFormats):
    """Every metric of every group: `by_group["AP", "cats"].mean`, and its macro mean `by_group.macro("AP").mean`."""

    groups: tuple[Any, ...]
    scores: dict[Metric, list[GroupScore]]  # in the order of the groups

    def __getitem__(self, key: tuple[str | Metric, Any]) -> GroupScore:
        if not isinstance(key, tuple) or len(key) != 2:
            raise KeyError(f"name a metric and a group, such as by_group['AP', {self.groups[0]!r}], got {key!r}")
        metric, group = self._metric(key[0]), key[1]
        if group not in self.groups:
            raise KeyError(f"there is no group {group!r}, only {', '.join(map(repr, self.groups[:10]))}")
        return self.scores[metric][self.groups.index(group)]

    def macro(self, metric: str | Metric) -> GroupScore:
        """The mean over the groups of each group's mean, best and worst; groups without a value are left out."""
        of_groups = self.scores[self._metric(metric)]
        values = np.array([[score.mean, score.best, score.worst] for score in of_groups])
        defined = values[~np.isnan(values[:, 0])]
        mean, best, worst = defined.mean(axis=0).tolist() if len(defined) else [float("nan")] * 3
        return GroupScore(mean, best, worst, sum(s.queries for s in of_groups), sum(s.undefined for s in of_groups))

    def _metric(self, metric: str | Metric) -> Metric:
        wanted = Metric.parse(metric)
        if wanted not in self.scores:
            raise KeyError(f"{wanted} was not evaluated, only {', '.join(map(str, self.scores))}")
        return wanted

    def joined(self, other: "ByGroup | None") -> "ByGroup | None":
        """The metrics of both; None where these are not of the same groups."""
        if other is None or other.groups != self.groups:
            return None
        return ByGroup(self.groups, self.scores | other.scores)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each metric and group, below those of a metric its macro mean."""
        return [
            {"metric": metric.label, "group": group, **vars(score)}
            for metric, of_groups in self.scores.items()
            for group, score in [*zip(self.groups, of_groups, strict=True), (MACRO, self.macro(metric))]
        ]

    def to_table(self) -> ResultTable:
        """A row for each metric and group, and below those of a metric its macro mean."""
        return self._table(self.rows())

    def __str__(self) -> str:
        many = len(self.groups) > SHOWN
        rows = [row for row in self.rows() if row["group"] == MACRO or not many]
        return as_text(self._table(rows)) + f"\n{len(self.groups):,} groups: by_group.rows() has each of them" * many

    @staticmethod
    def _table(rows: list[dict[str, Any]]) -> ResultTable:
        numbers = ("expected", "best", "worst", "queries", "undefined")
        heads = ["metric", "group", *(TableHead(name, main=name == "expected") for name in numbers)]
        names = ("mean", *numbers[1:])
        cells = [[row["metric"], str(row["group"]), *map(row.get, names)] for row in rows]
        return ResultTable.of(heads, cells, title="Groups of queries")

    def notes(self) -> list[str]:
        """Which metrics have groups without a value, which the macro mean leaves out."""
        out = []
        for metric, of_groups in self.scores.items():
            without = [group for group, score in zip(self.groups, of_groups, strict=True) if np.isnan(score.mean)]
            if without:
                some = ", ".join(map(repr, without[:3])) + (", …" if len(without) > 3 else "")
                out.append(
                    f"{metric} has no value in {len(without)} of {len(of_groups)} groups ({some}): "
                    "its macro mean leaves these out"
                )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values."""
        scores = {str(metric): [vars(score) for score in of_groups] for metric, of_groups in self.scores.items()}
        macro = {str(metric): vars(self.macro(metric)) for metric in self.scores}
        return {"groups": list(self.groups), "scores": scores, "macro": macro}

    @classmethod
    def from_dict(cls, saved: Any, metrics: Collection[Metric], n_queries: int) -> "ByGroup":
        """Read what `to_dict` gave, nan as None; raises where that cannot be the groups of these metrics."""
        groups, scores = saved["groups"], saved["scores"]
        if not isinstance(groups, list) or not isinstance(scores, dict) or not groups:
            raise InputError("by_group must have a list of groups and the scores of each metric")
        if len({type(group) for group in groups}) > 1 or len(set(groups)) < len(groups):
            raise InputError("by_group has a group twice, or groups of several kinds")
        read = {Metric.parse(name): [_read_score(row) for row in rows] for name, rows in scores.items()}
        if read.keys() != set(metrics):
            raise InputError("by_group has other metrics than the evaluation")
        for metric, of_groups in read.items():
            if len(of_groups) != len(groups) or sum(score.queries for score in of_groups) != n_queries:
                raise InputError(f"by_group has other groups or queries of {metric} than the evaluation")
        return cls(tuple(groups), read)


def _read_score(row: Any) -> GroupScore:
    values = [float("nan") if row[name] is None else row[name] for name in ("mean", "best", "worst")]
    queries, undefined = row["queries"], row["undefined"]
    if not all(type(value) in (int, float) for value in values):
        raise InputTypeError(f"a score of a group must be of numbers, got {row!r}")
    if type(queries) is not int or type(undefined) is not int:
        raise InputTypeError(f"a score of a group must have whole numbers of queries, got {row!r}")
    if not 0 <= undefined <= queries or queries < 1:
        raise InputError(f"a group of {queries} queries cannot have {undefined} without a value")
    mean, best, worst = values
    return GroupScore(mean, best, worst, queries, undefined)
