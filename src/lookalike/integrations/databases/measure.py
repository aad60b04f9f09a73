"""An engine measured: its own answers to every query, beside the exact ones."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, Option
from lookalike.core.files import provenance
from lookalike.core.progress import track
from lookalike.evaluation.evaluate import MetricSet, evaluate
from lookalike.evaluation.item_files import Items, check_own_ids
from lookalike.evaluation.relevance import Relevance
from lookalike.evaluation.results import Evaluation, Score
from lookalike.evaluation.sources import GivenTally
from lookalike.evaluation.tally import Tally
from lookalike.integrations.databases.table import EngineSearch
from lookalike.metrics.metric import Metric
from lookalike.search.answers import AnswerRecall, recall_of

BLOCK = 1 << 24  # grades at a time

__all__ = ["EngineAnswers", "EngineEvaluation", "ask_all", "measure_engine"]


@dataclass(frozen=True)
class EngineAnswers:
    """What an engine answered. positions: (n_queries, k), places in the gallery, -1 where it answered fewer.

    seconds: of each query, (n_queries,). own: the query's own item where it does not rank, else -1.
    """

    positions: np.ndarray
    seconds: np.ndarray
    own: np.ndarray

    @property
    def k(self) -> int:
        """How many items were asked for."""
        return int(self.positions.shape[1])


@dataclass(frozen=True)
class EngineEvaluation:
    """The metrics of an engine's answers beside the exact ones, its recall, and its speed.

    scores: of the answers in the engine's order, for metrics whose cutoff is at most k. exact: of all metrics, by our
    own search of the same items. recall: by distance, and by ids.
    """

    engine: str
    similarity: str | None
    answers: EngineAnswers
    scores: dict[Metric, Score]
    exact: Evaluation
    recall: AnswerRecall
    notes: tuple[str, ...] = ()

    @property
    def latency(self) -> tuple[float, float]:
        """The 50th and 99th percentile of the milliseconds that a query took."""
        p50, p99 = np.percentile(1000 * self.answers.seconds, [50, 99])
        return float(p50), float(p99)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain Python values."""
        exact = self.exact.to_dict()
        engine_scores = [
            {"metric": metric.label, "name": str(metric), "mean": score.mean, "per_query": score.per_query.tolist()}
            for metric, score in self.scores.items()
        ]
        p50, p99 = self.latency
        return provenance(
            "engine evaluation",
            engine=self.engine,
            k=self.answers.k,
            similarity=self.similarity,
            recall={"tie_aware": self.recall.mean, "by_id": self.recall.naive},
            recall_per_query={
                "tie_aware": self.recall.per_query.tolist(),
                "by_id": self.recall.naive_per_query.tolist(),
            },
            latency_ms={"p50": p50, "p99": p99},
            seconds_per_query=self.answers.seconds.tolist(),
            engine_scores=engine_scores,
            notes=list(self.notes),
            exact=exact,
        )


def ask_all(
    search: EngineSearch, queries: Items, gallery: Items, k: int, *, exclude_self: bool = False
) -> EngineAnswers:
    """Ask an engine for the k nearest items of every query, one query after the other.

    The first query is asked twice and timed the second time, since an engine reads its index when it is first asked.
    """
    k = whole_number("engine_k", k)
    if gallery.ids is None:
        raise InputError(
            f"{gallery.path} has no column of ids, by which answers are told apart: name one, such as id=…"
        )
    n_ranked = len(gallery.vectors) - exclude_self
    if k > n_ranked:
        raise InputError(
            Option("engine_k"), f" must be at most {n_ranked:,}, the number of items that can be answered, got {k:,}"
        )
    own = _own_items(queries, gallery) if exclude_self else np.full(len(queries.vectors), -1)
    place = {key: position for position, key in enumerate(gallery.ids.tolist())}
    positions = np.full((len(own), k), -1)
    seconds = np.empty(len(own))
    for row in track(range(len(own)), len(own), "asking the engine"):
        vector = queries.vectors[row : row + 1] if isinstance(queries.vectors, Codes) else queries.vectors[row]
        prepared = search.prepare(vector)
        n_asked = k + int(own[row] >= 0)
        if row == 0:
            search.ask(prepared, n_asked)
        started = time.perf_counter()
        keys = search.ask(prepared, n_asked)
        seconds[row] = time.perf_counter() - started
        answered = [item for item in _places(keys, place, gallery) if item != own[row]][:k]
        positions[row, : len(answered)] = answered
    return EngineAnswers(positions, seconds, own)


def _places(keys: Sequence[Any], place: dict[Any, int], gallery: Items) -> list[int]:
    """Where the answered items stand in the gallery; an item that is not there is an error."""
    assert gallery.ids is not None
    if gallery.ids.dtype.kind == "U":
        keys = [str(key) for key in keys]
    for key in keys:
        if key not in place:
            raise InputError(
                f"{gallery.path} changed while it was read: it answers with the item {key!r}, which is new; try again"
            )
    return [place[key] for key in keys]


def _own_items(queries: Items, gallery: Items) -> np.ndarray:
    """Where each query's own item stands in the gallery, by its id; -1 where it is not there."""
    check_own_ids(queries, gallery)
    assert queries.ids is not None
    assert gallery.ids is not None
    place = {str(key): position for position, key in enumerate(gallery.ids.tolist())}
    return np.array([place.get(str(key), -1) for key in queries.ids.tolist()])


def measure_engine(
    search: EngineSearch, queries: Items, gallery: Items, relevance: Relevance, k: int, **options: Any
) -> EngineEvaluation:
    """The metrics, recall and speed of an engine, beside the exact metrics of the same items.

    gallery: the items of the engine's table, which our own search reads. options: of `la.evaluate`.
    """
    exact = evaluate(
        queries.vectors,
        gallery.vectors,
        relevance,
        similarity=search.similarity,
        query_ids=queries.ids,
        gallery_ids=gallery.ids,
        **options,
    )
    answers = ask_all(search, queries, gallery, k, exclude_self=options.get("exclude") == "self")
    measured = [metric for metric in exact if _reaches(metric, k)]
    scores: dict[Metric, Score] = {}
    if measured:
        metric_set = MetricSet.of(measured, options.get("undefined"), options.get("unjudged"))
        tally = _tally(answers, relevance, exact.query_ids)
        scores = metric_set.evaluate(GivenTally(tally), log=False).scores
    similarity = None if isinstance(gallery.vectors, Codes) else search.similarity
    own = answers.own if (answers.own >= 0).any() else None
    recall = recall_of(answers.positions, queries.vectors, gallery.vectors, k, similarity=similarity, own=own)
    name, notes = str(gallery.path), tuple(dict.fromkeys([*queries.notes, *gallery.notes, *search.notes]))
    return EngineEvaluation(name, search.similarity, answers, scores, exact, recall, notes)


def _reaches(metric: Metric, k: int) -> bool:
    """Whether k answers are enough for a metric."""
    return metric.cutoff is not None and metric.cutoff <= k and metric.measure.cutoff != "radius"


def _tally(answers: EngineAnswers, relevance: Relevance, query_ids: np.ndarray) -> Tally:
    """The tally of an engine's answers: a group for each answer in its order, and one for all items behind the k-th.

    A place that the engine left empty has an item of grade 0, so that no item from behind comes up.
    """
    n_queries, k = answers.positions.shape
    grades, counts = relevance.max_grade + 1, np.zeros((n_queries, k + 1, relevance.max_grade + 1), np.int64)
    size = max(1, BLOCK // max(1, relevance.n_gallery))
    for start in range(0, n_queries, size):
        block = relevance.block(slice(start, min(start + size, n_queries)), slice(0, relevance.n_gallery))
        for row, of_query in enumerate(block, start):
            totals = np.bincount(of_query, minlength=grades)
            if answers.own[row] >= 0:
                totals[of_query[answers.own[row]]] -= 1
            items = answers.positions[row]
            found = np.where(items >= 0, of_query[items], 0)
            counts[row, np.arange(k), found] = 1
            counts[row, k] = totals - np.bincount(found[items >= 0], minlength=grades)
    nobody = np.zeros((n_queries, k + 1), np.int64)
    return Tally(query_ids=query_ids, counts=counts, unjudged=nobody, method="engine", complete=False)
