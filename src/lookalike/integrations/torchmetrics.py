"""Metrics for a training loop: `torchmetrics.Metric` classes that give exact, tie-aware numbers.

All that a metric knows is in states of torchmetrics, so that `reset`, `clone`, `merge_state`, `MetricCollection`,
pickling and several processes work as for every other metric.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.codes import Codes, check_n_bits
from lookalike.core.embeddings import SIMILARITIES
from lookalike.core.errors import InputError, MissingPackageError
from lookalike.core.files import digest
from lookalike.evaluation.count import count
from lookalike.evaluation.default_metrics import DEFAULT_METRICS
from lookalike.evaluation.evaluate import MetricSet, evaluate_tally
from lookalike.evaluation.needs import has_radius
from lookalike.evaluation.sources import NO_CODES
from lookalike.evaluation.tally import NO_DISTANCE, Tally
from lookalike.evaluation.tally_parts import Ball
from lookalike.metrics.metric import Metric

try:
    import torch
    import torchmetrics  # noqa: F401  # to say what is missing
    from torch import Tensor
except ModuleNotFoundError as error:
    missing = (error.name or "torchmetrics").partition(".")[0]
    raise MissingPackageError(
        f"lookalike.integrations.torchmetrics needs {missing}, which is not installed: pip install {missing}",
        package=missing,
    ) from error

from lookalike.integrations.batches import Batch, Side, embedding_rows, packed_rows, relevance_of
from lookalike.integrations.processes import ProcessFacts
from lookalike.integrations.retrieval_metric import SIDES, RetrievalMetric, check_any, fingerprint, n_rows, parts

WAITING = 1 << 12  # items that are counted together: a batch alone would be slow
LATE = (
    "queries must all be given before the items of the gallery, which are counted and forgotten: give the queries "
    "first, or make the metric with keep_gallery=True"
)

__all__ = ["EmbeddingRetrieval", "HammingRetrieval"]


class EmbeddingRetrieval(RetrievalMetric):
    """Metrics of a search by embeddings, from batches of queries and items; equal to `la.evaluate`, bit for bit.

    metrics: as `la.evaluate` has them. similarity: "cosine", "dot" or "euclidean". relevance: what labels are,
    "labels" (one for each item), "hierarchy" (two columns, fine and coarse) or "tags" (0/1 columns). exclude: "self",
    a query's own item, by its id, does not rank. undefined, threads: as `la.evaluate` has them. options: those of
    `torchmetrics.Metric`. Embeddings are kept until `reset`; of several processes each may have its part.

    >>> metric = EmbeddingRetrieval("AP P@1")
    >>> metric.update(items=torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]), labels=[0, 0, 1, 1])
    >>> {name: value.item() for name, value in metric.compute().items()}
    {'AP': 1.0, 'AP/best': 1.0, 'AP/worst': 1.0, 'P@1': 1.0, 'P@1/best': 1.0, 'P@1/worst': 1.0}
    """

    def __init__(
        self,
        metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
        *,
        similarity: str = "cosine",
        relevance: str = "labels",
        exclude: str | None = None,
        undefined: str | None = None,
        threads: int | None = None,
        **options: Any,
    ) -> None:
        metric_set = MetricSet.of(metrics, undefined, None)
        choice("similarity", similarity, SIMILARITIES)
        if metric_set.radius is not None:
            raise InputError(NO_CODES)
        if similarity != "euclidean" and any(map(has_radius, metric_set.metrics)):
            raise InputError(*NO_DISTANCE)
        super().__init__(metric_set, relevance, exclude, threads, [], options)
        self._similarity = similarity

    def _rows(self, values: Any, what: str) -> Tensor:
        return embedding_rows(values, what)

    def _vectors(self, side: Side) -> np.ndarray:
        return side.rows


class HammingRetrieval(RetrievalMetric):
    """Metrics of a search by binary codes, from batches of queries and items; equal to `la.evaluate`, bit for bit.

    n_bits: the length of the codes, which are bits (n, n_bits): 0/1, -1/+1 or booleans. The other parameters are those
    of `EmbeddingRetrieval`. Where the queries come first, items of the gallery are counted and forgotten: memory does
    not grow with the gallery, and the counts of several processes, each with its part of the gallery and all queries,
    are summed. Metrics of codes near the query (LGAP) keep the codes within their radius, and ids, where they are
    given, take 8 bytes each. keep_gallery: keep all codes until `reset`; then queries and items come in any order, and
    each process may have its part of both.

    >>> metric = HammingRetrieval(["AP", "P@2"], n_bits=3)
    >>> metric.update(queries=torch.tensor([[0, 0, 0]]), labels=[7])
    >>> metric.update(gallery=torch.tensor([[0, 0, 1], [0, 1, 0]]), labels=[7, 8])
    >>> {name: value.item() for name, value in metric.compute().items()}
    {'AP': 0.75, 'AP/best': 1.0, 'AP/worst': 0.5, 'P@2': 0.5, 'P@2/best': 0.5, 'P@2/worst': 0.5}
    """

    counts: Tensor  # (grades, queries, distances), all of the items that were counted
    counted: Tensor
    closed: Tensor
    counted_ids: list[Tensor] | Tensor
    ball: list[Tensor] | Tensor

    def __init__(
        self,
        metrics: str | Iterable[str | Metric] = DEFAULT_METRICS,
        *,
        n_bits: int,
        relevance: str = "labels",
        exclude: str | None = None,
        undefined: str | None = None,
        threads: int | None = None,
        keep_gallery: bool = False,
        **options: Any,
    ) -> None:
        metric_set = MetricSet.of(metrics, undefined, None)
        check_n_bits(n_bits)
        config = [n_bits, int(keep_gallery), -1 if metric_set.radius is None else metric_set.radius]
        super().__init__(metric_set, relevance, exclude, threads, config, options)
        self.n_bits, self.keep_gallery = n_bits, keep_gallery
        self.add_state("counts", torch.zeros((0, 0, 0), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("counted", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("closed", torch.tensor(0), dist_reduce_fx="max")  # whether items came after queries
        self.add_state("counted_ids", [], dist_reduce_fx="cat")
        self.add_state("ball", [], dist_reduce_fx="cat")

    def compute(self) -> dict[str, Tensor]:
        """The metrics of all batches: the expected value by the metric's name, beside it NAME/best and NAME/worst."""
        if not self._tallies:
            return super().compute()
        self._settle()
        queries = self._queries()
        check_any(queries, queries if self.counted else None)
        assert queries is not None
        self._check_ids()
        return self._named(
            evaluate_tally(self._tally(queries), self.metric_set.metrics, undefined=self.metric_set.undefined)
        )

    def _rows(self, values: Any, what: str) -> Tensor:
        return packed_rows(values, self.n_bits, what)

    def _vectors(self, side: Side) -> Codes:
        return Codes.from_bytes(side.rows, n_bits=self.n_bits)

    @property
    def _tallies(self) -> bool:
        return not (self.keep_gallery or self.own)

    def _check_like(self, side: str, batch: Batch, what: str) -> None:
        super()._check_like(side, batch, what)
        if side == "queries" and self.closed:
            raise InputError(LATE)
        if side == "gallery" and self.counted and bool(n_rows(self.counted_ids)) != (batch.ids is not None):
            raise InputError(f"some {what} have ids, others have none: pass ids with every batch or with none")

    def _add(self, side: str, batch: Batch) -> None:
        super()._add(side, batch)
        if side == "gallery" and self._tallies and n_rows(self.queries):
            self.closed = torch.ones_like(self.closed)
            if n_rows(self.gallery) >= WAITING:
                self._settle()

    def _queries(self) -> Side | None:
        """The queries; where several processes were gathered, each brought the same."""
        queries, n = self._side("queries"), self.counts.shape[1]
        if queries is None or not n:
            return queries
        return Side(queries.rows[:n], queries.labels[:n], None if queries.ids is None else queries.ids[:n])

    def _settle(self) -> None:
        """Count the items that wait, and forget them."""
        if not self._tallies or not n_rows(self.queries) or not n_rows(self.gallery):
            return
        queries, gallery = self._queries(), self._side("gallery")
        assert queries is not None
        assert gallery is not None
        items = gallery
        if gallery.ids is not None:  # repeated ids are an error of `compute`, so that all processes raise it
            first = np.unique(gallery.ids, return_index=True)[1]
            items = Side(gallery.rows[first], gallery.labels[first], gallery.ids[first])
        tally = count(
            self._vectors(queries),
            self._vectors(items),
            relevance_of(self.relevance, queries.labels, items.labels),
            query_ids=queries.ids,
            gallery_ids=items.ids,
            exclude=self.exclude,
            radius=self.metric_set.radius,
            threads=self.threads,
        )
        by_grade = np.zeros((self._n_grades(queries), *tally.counts.shape[:2]), np.int64)
        by_grade[: tally.n_grades] = np.moveaxis(tally.counts, 2, 0)
        new = torch.from_numpy(by_grade).to(self.device)
        self.counts = self.counts + new if self.counts.numel() else new
        if tally.ball is not None:
            self.ball = [
                _rows_of_ball(tally.ball if not parts(self.ball) else self._ball() + tally.ball).to(self.device)
            ]
        self.counted, self.closed = self.counted + len(gallery.rows), torch.ones_like(self.closed)
        self.counted_ids = [*parts(self.counted_ids), *parts(self.gallery_ids)]
        for name in SIDES["gallery"]:
            setattr(self, name, [])

    def _n_grades(self, queries: Side) -> int:
        """How many grades items can have for these queries, 0 included."""
        if self.relevance == "tags":
            return 1 + max(1, int(queries.labels.sum(1).max(initial=0)))
        return {"labels": 2, "hierarchy": 3}[self.relevance]

    def _ball(self) -> Ball:
        """The codes near each query, from the rows that are kept; those of several processes are added."""
        radius, width = self.metric_set.radius, 3 + -(-self.n_bits // 64)
        assert radius is not None
        rows = torch.cat(
            [torch.zeros((0, width), dtype=torch.int64), *(part.cpu() for part in parts(self.ball))]
        ).numpy()
        radius = min(radius, self.n_bits)
        whole = Ball(radius, rows[:, 0], np.ascontiguousarray(rows[:, 3:]).view(np.uint64), rows[:, 1], rows[:, 2])
        return whole + replace(
            whole, **{name: getattr(whole, name)[:0] for name in ("queries", "words", "distances", "counts")}
        )

    def _tally(self, queries: Side) -> Tally:
        """The tally of all that was counted."""
        by_grade = self.counts.cpu().numpy()
        # a query may have more tags than it shares with any item
        highest = int(np.flatnonzero(by_grade.any((1, 2))).max(initial=1))
        counts = np.moveaxis(by_grade[: highest + 1], 0, 2)
        ball = None if self.metric_set.radius is None else self._ball()
        return Tally(
            query_ids=np.arange(len(queries.rows)) if queries.ids is None else queries.ids,
            counts=counts,
            unjudged=np.zeros(counts.shape[:2], np.int64),
            method="batches",
            n_bits=self.n_bits,
            largest=None if ball is None else ball.largest(len(queries.rows)),
            ball=ball,
        )

    def _check_ids(self) -> None:
        """Raise where an item was counted twice, as with a sampler that repeats items to fill the last batch."""
        if not n_rows(self.counted_ids):
            return
        ids, times = np.unique(torch.cat(parts(self.counted_ids)).cpu().numpy(), return_counts=True)
        if len(repeated := ids[times > 1]):
            raise InputError(
                f"{len(repeated)} items were counted twice, such as the one with id {repeated[0]}: a "
                "DistributedSampler repeats items to fill the last batches, so give each item to one process alone, "
                "or make the metric with keep_gallery=True, which leaves repeated items out"
            )

    def _merge(self, states: dict[str, Any]) -> None:
        theirs = n_rows(states["queries"])
        if self._tallies and not states["own"] and n_rows(self.queries) and theirs:
            for name in SIDES["queries"]:
                ours, other = (torch.cat(parts(state)).cpu() if parts(state) else torch.empty(0)
                               for state in (getattr(self, name), states[name]))  # fmt: skip
                if not torch.equal(ours, other):
                    raise InputError(
                        "the metrics to merge have different queries, so that their counts cannot be added: give both "
                        "the same queries, or make both with keep_gallery=True"
                    )
                states[name] = []
        self._settle()
        if not states["counts"].numel():
            states["counts"] = torch.zeros_like(self.counts)
        elif not self.counts.numel():
            self.counts = torch.zeros_like(states["counts"], device=self.device)
        closed = torch.maximum(self.closed, states["closed"].to(self.device))
        super()._merge(states)
        self.closed = closed

    def _facts(self) -> ProcessFacts:
        queries = [torch.cat(parts(getattr(self, name))).cpu().numpy()
                   for name in SIDES["queries"] if self._tallies and parts(getattr(self, name))]  # fmt: skip
        return (
            super()
            ._facts()
            ._replace(
                counted=int(self.counted),
                gallery_ids=n_rows(self.counted_ids) + n_rows(self.gallery_ids),
                fingerprint=fingerprint(digest(*queries)),
            )
        )

    def _fill(self, facts: list[ProcessFacts]) -> None:
        super()._fill(facts)
        self._fill_list("counted_ids", torch.empty(0, dtype=torch.int64))
        self._fill_list("ball", torch.empty((0, 3 + -(-self.n_bits // 64)), dtype=torch.int64))
        queries = self._queries()
        if not any(fact.own for fact in facts) and self._tallies and queries is not None and not self.counts.numel():
            shape = self._n_grades(queries), len(queries.rows), self.n_bits + 1
            self.counts = torch.zeros(shape, dtype=torch.int64, device=self.device)


def _rows_of_ball(ball: Ball) -> Tensor:
    """The codes near each query as rows (query, distance, items, words of the code)."""
    columns = [column.astype(np.int64)[:, None] for column in (ball.queries, ball.distances, ball.counts)]
    return torch.from_numpy(np.concatenate([*columns, ball.words.view(np.int64)], axis=1))
