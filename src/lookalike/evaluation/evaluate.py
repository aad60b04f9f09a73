"""Evaluating: from codes, embeddings, scores, runs or tallies to metrics."""

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.errors import InputError, InputTypeError, Option
from lookalike.core.files import digest
from lookalike.core.ids import id_array
from lookalike.evaluation.by_group import ByGroup, GroupScore, QueryGroups
from lookalike.evaluation.default_metrics import DEFAULT_METRICS
from lookalike.evaluation.inputs import Ids, request_of_scores, request_of_vectors
from lookalike.evaluation.needs import has_radius, needs_of
from lookalike.evaluation.notes import extremes, notes_of_relevance
from lookalike.evaluation.relevance import Judged, Relevance
from lookalike.evaluation.results import Evaluation, Score
from lookalike.evaluation.sources import GivenTally, RunSource, TallySource, source_of
from lookalike.evaluation.tally import Tally
from lookalike.evaluation.trec import in_order_of_trec_eval
from lookalike.metrics.metric import Metric, parse_all
from lookalike.metrics.registry import KEPT
from lookalike.metrics.values import Part, Values, Weighted, joined

UNDEFINED = {"zero": 0.0, "one": 1.0, "skip": np.nan, "error": np.nan}  # what an undefined query counts
UNLISTED = ("below", "out")
TIES = ("expected", "trec_eval")
POLICIES = ("relevant", "irrelevant", "condensed", "error")  # for unjudged items

logger = logging.getLogger("lookalike")

__all__ = ["DEFAULT_METRICS", "evaluate", "evaluate_run", "evaluate_scores", "evaluate_tally"]


def evaluate(
    queries: Any,
    gallery: Any,
    relevance: Relevance,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    similarity: str | None = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    exclude: Any = None,
    level: str = "image",
    undefined: str | None = None,
    unjudged: str | None = None,
    by: Any = None,
    threads: int | None = None,
    client: Any = None,
    partials: Any = None,
) -> Evaluation:
    """Evaluate a search: metrics of every query, expected, best and worst over all orders of tied items.

    queries, gallery: Codes, or float embeddings compared by `similarity`: "cosine" (the default), "dot" or "euclidean".
    The gallery may also be `la.Shards`, of either, which are read one at a time: with `client`, a distributed.Client,
    by the workers of a Dask cluster; `partials` is a folder or an address in which what each shard gives is kept, so
    that a job that died goes on.
    exclude: (query_groups, gallery_groups), items of the query's own group do not rank; or "self", the item with the
    query's own id. level: "product", a judgement is about every item of the judged item's group, which `exclude` gives.
    undefined: what a query without a value counts, "zero", "one", "skip" or "error" (default: the metric's).
    unjudged: what an item that nobody judged counts, "irrelevant", "relevant", "condensed" (left out) or "error"
    (default: the metric's). by: a group of each query, such as its category, in their order or as {query_id: group}:
    every metric is then given of each group too, in `by_group` of the result, with its mean over the groups.
    threads: how many to use, all cores by default.

    >>> import lookalike as la
    >>> codes = la.Codes.pack([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    >>> evaluate(codes, codes, la.same_label([0, 0, 1, 1], [0, 0, 1, 1]), ["AP", "P@2"], exclude="self")
    metric  expected    best   worst  undefined
    AP        0.8750  1.0000  0.7500          0
    P@2       0.5000  0.5000  0.5000          0
    4 queries, 4 items: codes of 3 bits, relevant by labels
    """
    metric_set = MetricSet.of(metrics, undefined, unjudged)
    ids = Ids(relevance, query_ids, gallery_ids, exclude, level)
    request = request_of_vectors(queries, gallery, ids, similarity)
    groups = None if by is None else QueryGroups.of(by, request.query_ids)
    return metric_set.evaluate(source_of(request, threads=threads, client=client, partials=partials), groups)


def evaluate_scores(
    scores: Any,
    relevance: Relevance,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    query_ids: Any = None,
    gallery_ids: Any = None,
    exclude: Any = None,
    level: str = "image",
    undefined: str | None = None,
    unjudged: str | None = None,
    by: Any = None,
    threads: int | None = None,
) -> Evaluation:
    """Evaluate a matrix of scores (n_queries, n_gallery), higher is better; equal scores tie.

    >>> import lookalike as la
    >>> la.evaluate_scores([[3, 1, 1]], la.grades([[0, 1, 0]]), ["AP"])["AP"]
    AP 0.4167 (best 0.5000, worst 0.3333)
    """
    metric_set = MetricSet.of(metrics, undefined, unjudged)
    request = request_of_scores(scores, Ids(relevance, query_ids, gallery_ids, exclude, level))
    groups = None if by is None else QueryGroups.of(by, request.query_ids)
    return metric_set.evaluate(source_of(request, threads=threads), groups)


def evaluate_run(
    run: Mapping[Any, Mapping[Any, float]],
    relevance: Relevance,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    undefined: str | None = None,
    unjudged: str | None = None,
    unlisted: str = "below",
    ties: str = "expected",
    by: Mapping[Any, Any] | None = None,
) -> Evaluation:
    """Evaluate a run, {query_id: {item_id: score}}, on judged pairs; every judged query counts, ranked or not.

    unlisted: for AUC and PRAUC, judged items that the run does not list tie "below" all that it lists, or are left
    "out". ties: "expected", over all orders of tied items, or "trec_eval", the one order that trec_eval takes: by
    scores in single precision, then by names, the last first. It is for checking old numbers. by: {query_id: group},
    for every metric of each group of queries too.

    >>> import lookalike as la
    >>> qrels = la.judged([("q", "a", 1), ("q", "b", 0), ("q", "c", 1)])
    >>> la.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, qrels, ["AP", "R@2"])      # "c" was not found
    metric  expected    best   worst  undefined
    AP        0.5000  0.5000  0.5000          0
    R@2       0.5000  0.5000  0.5000          0
    1 queries, 2 items: relevant by judgements
    """
    if not isinstance(relevance, Judged):
        raise InputTypeError("a run is evaluated on judged pairs: pass la.judged(pairs) or la.read_qrels(path)")
    groups = None
    if by is not None:
        if not isinstance(by, Mapping):
            raise InputTypeError(
                Option("by"), f" must map query ids to groups, since a run has no order, got {type(by).__name__}"
            )
        groups = QueryGroups.of(by, id_array(list(relevance.judgements), "queries of a run"))
    if not any(query in run for query in relevance.judgements):
        raise InputError("the run ranks nothing for any of the judged queries: are these the right files?")
    metric_set = MetricSet.of(metrics, undefined, unjudged, unlisted)
    choice("ties", ties, TIES)
    pairs = [f"{query}\t{item}\t{score!r}" for query, items in run.items() for item, score in items.items()]
    inputs = {"run": digest(np.array(sorted(pairs))), "relevance": relevance}
    n_items = len({item for items in run.values() for item in items})
    about = {"inputs": inputs, "items": n_items, "deepest": max(map(len, run.values())), "relevance": relevance.kind}
    if ties == "trec_eval":
        if areas := [metric.name for metric in metric_set.metrics if metric.area]:
            raise InputError(f"trec_eval has no {areas[0]}: leave it out, or ", Option("ties", ties))
        run, about = in_order_of_trec_eval(run), about | {"ties": ties}
    return metric_set.evaluate(RunSource(run, relevance, about), groups)


def evaluate_tally(
    tally: Tally,
    metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    undefined: str | None = None,
    unjudged: str | None = None,
    unlisted: str = "below",
    by: Any = None,
) -> Evaluation:
    """Evaluate a tally, such as the sum of the tallies of gallery shards.

    by: a group of each query, as `evaluate` has it.
    """
    if not isinstance(tally, Tally):
        raise InputTypeError(f"a tally is needed, got {type(tally).__name__}: la.count makes one")
    groups = None if by is None else QueryGroups.of(by, tally.query_ids)
    return MetricSet.of(metrics, undefined, unjudged, unlisted).evaluate(GivenTally(tally), groups)


@dataclass(frozen=True)
class MetricSet:
    """Metrics to compute, and what undefined values and unjudged items count; None: as each metric has it.

    unlisted: whether judged items without a rank tie "below" all others in areas under curves, or are left "out".
    """

    metrics: list[Metric]
    undefined: str | None
    unjudged: str | None
    unlisted: str = "below"

    @classmethod
    def of(
        cls,
        metrics: str | Iterable[str | Metric],
        undefined: str | None,
        unjudged: str | None,
        unlisted: str = "below",
    ) -> "MetricSet":
        """From what users give."""
        parsed = parse_all(metrics)
        if undefined is not None:
            choice("undefined", undefined, UNDEFINED)
        if unjudged is not None:
            choice("unjudged", unjudged, POLICIES)
        choice("unlisted", unlisted, UNLISTED)
        return cls(parsed, undefined, unjudged, unlisted)

    def policy(self, metric: Metric) -> str:
        """What unjudged items count for a metric."""
        own = metric.measure.unjudged
        return own if own == KEPT else self.unjudged or own

    @property
    def radius(self) -> int | None:
        """The largest radius of all metrics of the code space (LGAP); None if there is none."""
        radii = [metric.cutoff for metric in self.metrics if metric.measure.cutoff == "radius"]
        return max((radius for radius in radii if radius is not None), default=None)

    def evaluate(self, source: TallySource, groups: QueryGroups | None = None, *, log: bool = True) -> Evaluation:
        """All metrics of all queries, and of groups of them. log: tell notes, too."""
        parts: dict[Metric, Part] = {}
        relevant: list[tuple[bool, bool]] = []
        facts: dict[str, Any] = {"undefined": self.undefined or "default"}
        for (negatives, rel), metrics in self._runs(of_scores=source.of_scores):
            counted = source if negatives == "judged" else source.with_negatives(negatives, rel)
            policies = {metric: self.policy(metric) for metric in metrics}
            needs = needs_of(policies, radius=self.radius, judged=counted.judged)
            blocks = list(counted.each(needs, functools.partial(self._block, policies)))
            query_ids = np.concatenate([block.query_ids for block in blocks])
            parts |= zip(metrics, map(joined, zip(*(block.parts for block in blocks), strict=True)), strict=True)
            relevant += [block.extremes for block in blocks]
            if any(metric.area for metric in metrics) and any(block.unranked for block in blocks):
                facts["unlisted"] = self.unlisted
        scores = {metric: self._score(metric, parts[metric], query_ids) for metric in self.metrics}
        unjudged = {str(metric): self.policy(metric) for metric in self.metrics}
        facts["unjudged"] = unjudged if len(set(unjudged.values())) > 1 else next(iter(unjudged.values()))
        facts["notes"] = [*source.about.get("notes", ()), *notes_of_relevance(relevant)]
        by_group = None
        if groups is not None:
            by_group = self._by_group(parts, query_ids, groups)
            facts["notes"] += [*groups.notes(), *by_group.notes()]
        for note in facts["notes"] if log else ():
            logger.warning("%s", note)
        return Evaluation(scores, query_ids, source.about | facts, by_group)

    def _by_group(self, parts: Mapping[Metric, Part], query_ids: np.ndarray, groups: QueryGroups) -> ByGroup:
        """Every metric of each group: of what its queries alone add, so that metrics of all pairs are right too."""
        scores: dict[Metric, list[GroupScore]] = {}
        for metric in self.metrics:
            scores[metric] = []
            for name, rows in zip(groups.names, groups.rows(), strict=True):
                score = self._score(metric, parts[metric].of(rows), query_ids[rows], f" of group {name!r}")
                scores[metric].append(GroupScore(score.mean, score.best, score.worst, len(rows), score.undefined))
        return ByGroup(groups.names, scores)

    def _runs(self, *, of_scores: bool) -> Iterator[tuple[tuple[str, int], list[Metric]]]:
        """Metrics that are of the same counts: of the same negatives, and, of scores, with or without a radius.

        Of scores, a radius needs groups that other metrics would be rounded by.
        """
        by_negatives: dict[tuple[str, int], list[Metric]] = {}
        for metric in self.metrics:
            by_negatives.setdefault(_negatives(metric), []).append(metric)
        for negatives, metrics in by_negatives.items():
            with_radius = [metric for metric in metrics if of_scores and has_radius(metric)]
            others = [metric for metric in metrics if metric not in with_radius]
            yield from ((negatives, some) for some in (others, with_radius) if some)

    def _block(self, policies: Mapping[Metric, str], tally: Tally) -> "QueryBlock":
        """What a block of queries adds to each metric. policies: what unjudged items count."""
        if "error" in policies.values():
            _check_judged(tally)
        tallies = {
            policy: tally if policy in ("error", KEPT) else tally.with_unjudged(policy) for policy in policies.values()
        }
        of_areas = tallies
        if self.unlisted == "out":
            of_areas = {policy: replace(tally, unranked=None) for policy, tally in tallies.items()}
        parts = [metric.part((of_areas if metric.area else tallies)[policy]) for metric, policy in policies.items()]
        return QueryBlock(tally.query_ids, parts, extremes(tally), bool(tally.unranked_counts.any()))

    def _score(self, metric: Metric, part: Part, query_ids: np.ndarray, where: str = "") -> Score:
        policy = self.undefined or metric.measure.undefined
        values = part.settled()
        nothing = np.isnan(values.expected)
        if policy == "error" and nothing.any():
            query = query_ids[np.flatnonzero(nothing)[0]].item()
            raise InputError(f"{metric} is undefined for {nothing.sum()} queries{where}, first for {query!r}")
        if isinstance(part, Weighted):  # a query that no order counts stays out
            return Score(metric, values, int(nothing.sum()), part.weight)
        filled = Values(*(np.where(nothing, UNDEFINED[policy], column) for column in values))
        return Score(metric, filled, int(nothing.sum()))


class QueryBlock(NamedTuple):
    """What a block of queries adds to each metric, and what its counts look like."""

    query_ids: np.ndarray
    parts: list[Part]
    extremes: tuple[bool, bool]  # whether nothing is relevant to any query, and whether everything is to all
    unranked: bool  # whether a judged item has no rank


def _negatives(metric: Metric) -> tuple[str, int]:
    """Which negatives a metric is of, and, where judged ones are replaced, the least grade that is none of them."""
    options = metric.options()
    negatives = options.get("negatives", "judged")
    return negatives, options["rel"] if negatives == "sampled" else 1


def _check_judged(tally: Tally) -> None:
    """Raise where nobody judged an item that is ranked."""
    if tally.unjudged.any():
        row = np.flatnonzero(tally.unjudged.any(1))[0]
        raise InputError(
            f"nobody judged {int(tally.unjudged[row].sum())} of the items ranked for query "
            f"{tally.query_ids[row].item()!r}: say what they count with ",
            Option("unjudged", "irrelevant"),
            " or ",
            Option("unjudged", "condensed"),
            " (left out)",
        )
