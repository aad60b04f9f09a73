"""Recognition: models compared by how well they find other images of a query's own identity (Barkan et al. 2023)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.text_table import aligned
from lookalike.discovery.bias import identification
from lookalike.discovery.collection import Collection
from lookalike.discovery.leaderboard import intervals_of
from lookalike.evaluation.results import Evaluation, shown
from lookalike.metrics.metric import Metric

CUTOFFS = (5, 9)  # of Barkan et al. 2023, table 4
NO_IDENTITIES = (
    "identification needs to know what each query and item shows: give the catalogue a column identity, or Collection "
    "the identities of queries and items"
)
ONE_IMAGE = (
    "identification needs a query of which the items hold another image: here no identity of a query has an image "
    "beside the query itself"
)

__all__ = ["CUTOFFS", "Recognition", "recognition", "why_no_recognition"]


@dataclass(frozen=True, eq=False)
class Recognition:
    """An evaluation of every model with its intervals; prints as table 4 of Barkan et al. 2023 with intervals.

    queries: how many there are; recognisable: how many of them have another image of their identity among the items.
    """

    evaluations: dict[str, Evaluation]
    intervals: dict[str, dict[Metric, tuple[float, float]]]
    queries: int
    recognisable: int

    @property
    def metrics(self) -> list[Metric]:
        """The metrics, in the order of the paper's columns."""
        return list(next(iter(self.evaluations.values())))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each model and metric, with its interval and the best and worst of ties."""
        rows = []
        for name, evaluation in self.evaluations.items():
            for metric, score in evaluation.scores.items():
                low, high = self.intervals[name][metric]
                row: dict[str, Any] = {"model": name, "metric": metric.label, "mean": score.mean, "low": low}
                rows.append(
                    row | {"high": high, "best": score.best, "worst": score.worst, "undefined": score.undefined}
                )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries, as plain Python values."""
        return {"queries": self.queries, "recognisable": self.recognisable, "rows": self.rows()}

    def __str__(self) -> str:
        table = [["finding other images of the same identity", *(metric.label for metric in self.metrics)]]
        for name, evaluation in self.evaluations.items():
            ends = (tuple(map(shown, self.intervals[name][metric])) for metric in self.metrics)
            means = (shown(evaluation[metric].mean) for metric in self.metrics)
            table.append([name, *(f"{mean} ({low} to {high})" for mean, (low, high) in zip(means, ends, strict=True))])
        some = f"{self.recognisable:,} of {self.queries:,} queries have another image of their identity among the items"
        return f"{aligned(table)}\n{some}; 95% intervals over queries"

    __repr__ = __str__


def recognition(
    models: Mapping[str, Any],
    collection: Collection,
    *,
    cutoffs: tuple[int, ...] = CUTOFFS,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
) -> Recognition:
    """How well models find other images of the query's own identity: `identification`, with bootstrap intervals.

    Raises where identities are not known, or no query has another image of its identity.
    """
    if why := why_no_recognition(collection):
        raise InputError(why)
    evaluations = identification(models, collection, cutoffs=cutoffs, threads=threads)
    intervals = intervals_of(evaluations, resamples, seed)
    return Recognition(evaluations, intervals, collection.n_queries, int(_recognisable(collection).sum()))


def why_no_recognition(collection: Collection) -> str:
    """Why nothing can be recognised in a collection, in a sentence; empty where something can."""
    if not collection.has_identities:
        return NO_IDENTITIES
    return "" if _recognisable(collection).any() else ONE_IMAGE


def _recognisable(collection: Collection) -> np.ndarray:
    """Which queries have another image of their identity among the items."""
    return np.asarray(collection.own_sizes > np.isin(collection.query_ids, collection.item_ids))
