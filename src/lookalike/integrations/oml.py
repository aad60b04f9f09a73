"""Open Metric Learning: exact metrics of its `RetrievalResults`, which hold the first items of each query."""

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError, InputTypeError
from lookalike.evaluation.evaluate import DEFAULT_METRICS, evaluate_run
from lookalike.evaluation.relevance import Judged
from lookalike.evaluation.results import Evaluation
from lookalike.metrics.metric import Metric, parse_all

WHOLE_RANKING = (
    "AUC",
    "PRAUC",
    "FNMR",
    "Bpref",
    "Judged",
)  # metrics that need the irrelevant items behind the list too

logger = logging.getLogger("lookalike")

__all__ = ["from_oml"]


def from_oml(
    results: Any,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    n_gallery: int | None = None,
    undefined: str | None = None,
) -> Evaluation:
    """Evaluate the RetrievalResults of Open Metric Learning: expected, best and worst over all orders of ties.

    Items at the same distance tie. Relevant items that were not retrieved count in totals and ideals, as items that
    the search never finds. So a metric that is cut above the last distance of every list is exact; one that reaches
    further is a lower bound, and a note says so. n_gallery: how many items there are; lists of all of them are whole.
    """
    parsed = parse_all(metrics)
    for metric in parsed:
        if metric.name in WHOLE_RANKING:
            raise InputError(f"{metric} needs the whole ranking, and RetrievalResults hold its first items alone")
    if n_gallery is not None:
        n_gallery = whole_number("n_gallery", n_gallery)
    for name in ("distances", "retrieved_ids", "gt_ids"):
        if not hasattr(results, name):
            raise InputTypeError(f"RetrievalResults of oml are needed, got {type(results).__name__} without {name}")
    if results.gt_ids is None:
        raise InputError("these RetrievalResults have no gt_ids: make them from a dataset with labels")
    run: dict[int, dict[int, float]] = {}
    judgements: dict[int, dict[int, int]] = {}
    lists = []
    for query, row in enumerate(zip(results.distances, results.retrieved_ids, results.gt_ids, strict=True)):
        distances, items, relevant = (as_numpy(part) for part in row)
        _check(query, distances, items, relevant, n_gallery)
        run[query] = dict(zip(items.tolist(), (-distances).tolist(), strict=True))
        judgements[query] = dict.fromkeys(items.tolist(), 0) | dict.fromkeys(relevant.tolist(), 1)
        lists.append(distances)
    if not run:
        raise InputError("there are no queries in these RetrievalResults")
    evaluation = evaluate_run(run, Judged(judgements), parsed, undefined=undefined)
    notes = _notes(parsed, [row for row in lists if n_gallery is None or len(row) < n_gallery])
    for note in notes:
        logger.warning("%s", note)
    return evaluation.with_notes(*notes)


def _check(query: int, distances: np.ndarray, items: np.ndarray, relevant: np.ndarray, n_gallery: int | None) -> None:
    """Raise where the list of a query cannot be one."""
    where = f"query {query} of these RetrievalResults"
    if distances.shape != items.shape or distances.ndim != 1:
        raise InputError(f"{where} has {distances.size} distances and {items.size} retrieved_ids")
    if np.isnan(distances).any():
        raise InputError(f"{where} has a distance that is not a number")
    for name, ids in (("retrieved_ids", items), ("gt_ids", relevant)):
        if len(np.unique(ids)) < len(ids):
            raise InputError(f"{where} has an item twice in {name}")
        if n_gallery is not None and len(ids) and ids.max() >= n_gallery:
            raise InputError(f"{where} has the item {ids.max()} in {name}, but n_gallery is {n_gallery}")


def _notes(metrics: list[Metric], cut_lists: list[np.ndarray]) -> list[str]:
    """What lists that do not hold the whole gallery leave open."""
    if not cut_lists:
        return []
    shortest = min(map(len, cut_lists))
    sure = min(int((row < row[-1]).sum()) if len(row) else 0 for row in cut_lists)  # ranks above the last distance
    deep = [metric.label for metric in metrics if metric.cutoff is None or metric.cutoff > shortest]
    at_end = [metric.label for metric in metrics if metric.cutoff is not None and sure < metric.cutoff <= shortest]
    notes = []
    if deep:
        notes.append(
            f"{', '.join(deep)}: lists end at rank {shortest}; relevant items behind them count as never found, so "
            "that these numbers are lower bounds"
        )
    if at_end:
        notes.append(
            f"{', '.join(at_end)}: the cutoff reaches the last distance of a list, and items behind the list may tie "
            f"with it; cut at {sure} or less, or retrieve more items"
            if sure
            else f"{', '.join(at_end)}: all items of a list tie, and items behind it may too; retrieve more items"
        )
    return notes
