"""What the metrics of a training loop share: batches are kept in states of torchmetrics, and evaluated at the end."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torchmetrics import Metric as TorchMetric
from torchmetrics.utilities.distributed import gather_all_tensors

from lookalike.core.checks import choice
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import digest
from lookalike.evaluation.evaluate import MetricSet, evaluate
from lookalike.evaluation.results import Evaluation
from lookalike.integrations.batches import (
    RELEVANCE,
    Batch,
    Side,
    distinct_rows,
    id_rows,
    label_rows,
    relevance_of,
)
from lookalike.integrations.processes import ProcessFacts, check_processes

SIDES = {"queries": ("queries", "query_labels", "query_ids"), "gallery": ("gallery", "gallery_labels", "gallery_ids")}
DTYPES = (None, torch.uint8, torch.float16, torch.float32, torch.float64)  # of rows, by the number that is sent
__all__ = ["SIDES", "RetrievalMetric", "check_any", "fingerprint", "n_rows", "parts"]


class RetrievalMetric(TorchMetric):
    """What both metrics share: batches of queries and items are kept, and evaluated when all are there."""

    is_differentiable = False
    full_state_update = False

    def __init__(
        self,
        metric_set: MetricSet,
        relevance: str,
        exclude: str | None,
        threads: int | None,
        config: Iterable[int],
        options: dict[str, Any],
    ) -> None:
        super().__init__(**options)
        choice("relevance", relevance, RELEVANCE)
        if exclude is not None:
            choice("exclude", exclude, ("self",))
        for metric in metric_set.metrics:
            if metric.options().get("negatives", "judged") != "judged":
                raise InputError(f"{metric} is for judged pairs: a metric of a training loop goes by labels")
        self.metric_set, self.relevance, self.exclude, self.threads = metric_set, relevance, exclude, threads
        for name in (*SIDES["queries"], *SIDES["gallery"]):
            self.add_state(name, [], dist_reduce_fx="cat")
        self.add_state("own", torch.tensor(0), dist_reduce_fx="sum")  # items that are queries too
        # a MetricCollection lets metrics share states that are equal: what makes metrics differ is one of them
        numbers = [RELEVANCE.index(relevance), int(exclude is not None), *config]
        self.add_state("config", torch.tensor(numbers), dist_reduce_fx="max")

    queries: list[Tensor] | Tensor
    query_labels: list[Tensor] | Tensor
    query_ids: list[Tensor] | Tensor
    gallery: list[Tensor] | Tensor
    gallery_labels: list[Tensor] | Tensor
    gallery_ids: list[Tensor] | Tensor
    own: Tensor
    config: Tensor

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # there, a fact of the class
        """Whether higher numbers are better; None where the metrics differ in that."""
        directions = {metric.measure.higher_is_better for metric in self.metric_set.metrics}
        return directions.pop() if len(directions) == 1 else None

    def update(
        self,
        *,
        queries: Any = None,
        gallery: Any = None,
        items: Any = None,
        labels: Any = None,
        ids: Any = None,
        query_labels: Any = None,
        gallery_labels: Any = None,
        query_ids: Any = None,
        gallery_ids: Any = None,
    ) -> None:
        """Take a batch of queries, of gallery items, or of both; or of `items`, each of which is a query to all others.

        labels, ids: those of the batch. Where queries and gallery are given in one call, each has its own:
        query_labels, gallery_labels, query_ids, gallery_ids. Labels and ids are whole numbers.
        """
        rows = {"queries": queries, "gallery": gallery, "items": items}
        named = {"queries": (query_labels, query_ids), "gallery": (gallery_labels, gallery_ids), "items": (None, None)}
        sides = [side for side in rows if rows[side] is not None]
        _check_sides(sides, labels, ids, named)
        taken = {}
        for side in sides:  # all are checked before any is kept
            own_labels, own_ids = named[side]
            taken[side] = self._batch(
                side,
                rows[side],
                own_labels if labels is None else labels,
                own_ids if ids is None else ids,
            )
        _check_pair(taken)
        for side, batch in taken.items():
            self._add(side, batch)

    def forward(self, *args: Any, **batch: Any) -> dict[str, Tensor]:
        """Take a batch, as `update` does, and return the metrics of this batch alone.

        A batch of queries alone, or of the gallery alone, has none: it returns an empty dict.
        """
        self.update(*args, **batch)
        alone = {}
        if batch.get("items") is not None or None not in (batch.get("queries"), batch.get("gallery")):
            other = self._with(copy.deepcopy(self._defaults))
            other._to_sync, other._computed = self.dist_sync_on_step, None
            other.update(**batch)
            alone = other.compute()
        self._forward_cache = alone  # type: ignore[assignment]
        return alone

    def compute(self) -> dict[str, Tensor]:
        """The metrics of all batches: the expected value by the metric's name, beside it NAME/best and NAME/worst."""
        queries = self._side("queries")
        gallery = queries if self.own else self._side("gallery")
        check_any(queries, gallery)
        assert queries is not None
        assert gallery is not None
        queries = distinct_rows(queries, "items" if self.own else "queries")
        gallery = queries if self.own else distinct_rows(gallery, "gallery items")
        return self._named(
            evaluate(
                self._vectors(queries),
                self._vectors(gallery),
                relevance_of(self.relevance, queries.labels, gallery.labels),
                self.metric_set.metrics,
                similarity=self._similarity,
                query_ids=queries.ids,
                gallery_ids=gallery.ids,
                exclude="self" if self.own else self.exclude,
                undefined=self.metric_set.undefined,
                threads=self.threads,
            )
        )

    def merge_state(self, incoming_state: "dict[str, Any] | TorchMetric") -> None:
        """Add what another metric of the same kind was given, or its states, such as one of another process."""
        if isinstance(incoming_state, TorchMetric) and type(incoming_state) is not type(self):
            raise InputTypeError(f"only a {type(self).__name__} can be merged, got {type(incoming_state).__name__}")
        states: Any = incoming_state.metric_state if isinstance(incoming_state, TorchMetric) else incoming_state
        if lacking := [name for name in self._defaults if name not in states]:
            raise InputError(f"the states to merge lack {', '.join(lacking)}: pass the metric_state of such a metric")
        check_processes([self._facts(), self._with(states)._facts()], tallies=False, what="metric")
        self._merge(dict(states))  # a copy, which may be changed
        self._update_count, self._computed = self._update_count + 1, None

    def sync(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> None:
        """Gather the states of all processes; an error in all of them where they cannot be put together."""
        available = distributed_available or self.distributed_available_fn
        if should_sync and not self._is_synced and available():
            self._settle()
            gather, group = dist_sync_fn or gather_all_tensors, process_group or self.process_group
            own = torch.tensor(self._facts(), device=self.device)
            facts = [ProcessFacts(*row.tolist()) for row in gather(own, group=group)]
            check_processes(facts, tallies=self._tallies)
            self._fill(facts)
        super().sync(dist_sync_fn, process_group, should_sync, distributed_available)

    def set_dtype(self, dst_type: Any) -> "RetrievalMetric":  # noqa: ARG002
        """Nothing: codes, counts and labels are whole numbers, and embeddings keep the type that they come in."""
        return self

    # What codes and embeddings do differently

    _similarity: str | None = None

    @property
    def _tallies(self) -> bool:
        """Whether items of the gallery are counted as they come."""
        return False

    def _rows(self, values: Any, what: str) -> Tensor:
        raise NotImplementedError

    def _vectors(self, side: Side) -> Any:
        raise NotImplementedError

    def _settle(self) -> None:
        """Count what waits to be counted."""

    # States

    def _batch(self, side: str, values: Any, labels: Any, ids: Any) -> Batch:
        """A checked batch, on the device of the metric."""
        what = {"gallery": "gallery items"}.get(side, side)
        rows = self._rows(values, what)
        if ids is None and self.exclude and side != "items":
            raise InputError(f"exclude='self' needs ids: pass ids of the {what}, the same for a query and its own item")
        id_column = id_rows(ids, len(rows), what)
        batch = Batch(
            rows.to(self.device),
            label_rows(labels, len(rows), self.relevance, what).to(self.device),
            None if id_column is None else id_column.to(self.device),
        )
        self._check_like(side, batch, what)
        return batch

    def _check_like(self, side: str, batch: Batch, what: str) -> None:
        """Raise where a batch cannot stand beside those before."""
        for name in ("queries", "gallery"):
            for rows in parts(getattr(self, name))[:1]:
                if rows.shape[1] != batch.rows.shape[1]:
                    raise InputError(f"{what} have {batch.rows.shape[1]} columns, those before have {rows.shape[1]}")
                if rows.dtype != batch.rows.dtype:
                    raise InputError(f"{what} are of {batch.rows.dtype}, those before of {rows.dtype}: pass one type")
        for name in ("query_labels", "gallery_labels"):
            for labels in parts(getattr(self, name))[:1]:
                if labels.shape[1] != batch.labels.shape[1]:
                    raise InputError(
                        f"labels of {what} have {batch.labels.shape[1]} columns, those before have {labels.shape[1]}"
                    )
        if (side == "items") != bool(self.own) and (n_rows(self.queries) or n_rows(self.gallery)):
            raise InputError("items are queries and gallery at once: give items alone, or queries and gallery")
        rows_before, _, ids_before = (n_rows(getattr(self, name)) for name in SIDES[_stored_as(side)])
        if rows_before and bool(ids_before) != (batch.ids is not None):
            raise InputError(f"some {what} have ids, others have none: pass ids with every batch or with none")

    def _add(self, side: str, batch: Batch) -> None:
        """Keep a batch. Lists are made anew: metrics of one MetricCollection may share the old one."""
        for name, column in zip(SIDES[_stored_as(side)], (batch.rows, batch.labels, batch.ids), strict=True):
            if column is not None and len(column):
                setattr(self, name, [*parts(getattr(self, name)), column])
        if side == "items":
            self.own = self.own + len(batch.rows)

    def _side(self, side: str) -> Side | None:
        """All rows of a side as arrays; None if there are none."""
        rows, labels, ids = (parts(getattr(self, name)) for name in SIDES[side])
        if not sum(map(len, rows)):
            return None
        arrays = [torch.cat(part).cpu().numpy() if part else None for part in (rows, labels, ids)]
        assert arrays[0] is not None
        assert arrays[1] is not None
        given = arrays[2] is not None and len(arrays[2]) > 0
        return Side(arrays[0], arrays[1], arrays[2] if given else None)

    def _named(self, result: Evaluation) -> dict[str, Tensor]:
        values: dict[str, float] = {}
        for metric, score in result.scores.items():
            values |= {f"{metric}": score.mean, f"{metric}/best": score.best, f"{metric}/worst": score.worst}
        dtype = torch.float32 if self.device.type == "mps" else torch.float64  # which has no float64
        return {name: torch.tensor(value, dtype=dtype, device=self.device) for name, value in values.items()}

    def _with(self, states: Mapping[str, Any]) -> Self:
        """The same metric with other states."""
        other = copy.copy(self)
        for name in self._defaults:
            setattr(other, name, states[name])
        return other

    def _merge(self, states: dict[str, Any]) -> None:
        for name, default in self._defaults.items():
            ours, theirs = getattr(self, name), states[name]
            if isinstance(default, list):
                setattr(self, name, [*parts(ours), *(part.to(self.device) for part in parts(theirs))])
            elif name != "config":
                setattr(self, name, ours + theirs.to(ours.device))

    def _facts(self) -> ProcessFacts:
        """What this process knows, for the others."""
        rows = [*parts(self.queries), *parts(self.gallery)][:1]
        labels = [*parts(self.query_labels), *parts(self.gallery_labels)][:1]
        sizes = {name: n_rows(getattr(self, name)) for names in SIDES.values() for name in names}
        return ProcessFacts(
            config=fingerprint(digest(self.config.cpu().numpy())),
            own=int(self.own),
            queries=sizes["queries"],
            gallery=sizes["gallery"],
            counted=0,
            width=rows[0].shape[1] if rows else 0,
            dtype=DTYPES.index(rows[0].dtype) if rows else 0,
            label_width=labels[0].shape[1] if labels else 0,
            query_ids=sizes["query_ids"],
            gallery_ids=sizes["gallery_ids"],
            fingerprint=0,
        )

    def _fill(self, facts: list[ProcessFacts]) -> None:
        """Make every list one tensor, of the shape and type of the other processes where it is empty."""
        width, label_width = (max(getattr(fact, name) for fact in facts) for name in ("width", "label_width"))
        dtype = DTYPES[max(fact.dtype for fact in facts)] or torch.uint8
        label_dtype = torch.uint8 if self.relevance == "tags" else torch.int64
        empty = {
            "rows": torch.empty((0, width), dtype=dtype),
            "labels": torch.empty((0, label_width), dtype=label_dtype),
            "ids": torch.empty(0, dtype=torch.int64),
        }
        for names in SIDES.values():
            for name, kind in zip(names, empty, strict=True):
                self._fill_list(name, empty[kind])

    def _fill_list(self, name: str, empty: Tensor) -> None:
        kept = parts(getattr(self, name))
        setattr(self, name, [torch.cat(kept) if kept else empty.to(self.device)])


def parts(state: list[Tensor] | Tensor) -> list[Tensor]:
    """The tensors of a list state, which is one tensor after processes were gathered."""
    return [state] if isinstance(state, Tensor) else state


def n_rows(state: list[Tensor] | Tensor) -> int:
    """How many rows a list state has."""
    return sum(map(len, parts(state)))


def _stored_as(side: str) -> str:
    return "queries" if side == "items" else side


def fingerprint(digits: str) -> int:
    """A fingerprint of hexadecimal digits as a whole number of 60 bits."""
    return int(digits[:15], 16)


def _check_sides(sides: list[str], labels: Any, ids: Any, named: dict[str, tuple[Any, Any]]) -> None:
    """Raise where it is not said whose labels or ids are given, or where nothing is given."""
    if not sides:
        raise InputError("update needs a batch: pass queries=…, gallery=… or items=…, with labels=…")
    if "items" in sides and len(sides) > 1:
        raise InputError("items are queries and gallery at once: give items alone, or queries and gallery")
    if len(sides) > 1 and (labels is not None or ids is not None):
        raise InputError(
            "queries and gallery are given in one call: pass query_labels and gallery_labels, query_ids and gallery_ids"
        )
    for side, name in (("queries", "query"), ("gallery", "gallery")):
        for what, common, own in (("labels", labels, named[side][0]), ("ids", ids, named[side][1])):
            if own is not None and side not in sides:
                raise InputError(f"{name}_{what} are given, but no {side}")
            if own is not None and common is not None:
                raise InputError(f"{what} and {name}_{what} are given: pass one of them")


def _check_pair(batches: Mapping[str, Batch]) -> None:
    """Raise where queries and gallery of one call cannot be compared."""
    kinds = {(batch.rows.shape[1], batch.rows.dtype, batch.labels.shape[1]) for batch in batches.values()}
    if len(kinds) > 1:
        shapes = ", ".join(
            f"{side} {tuple(batch.rows.shape)} of {batch.rows.dtype} with labels {tuple(batch.labels.shape)}"
            for side, batch in batches.items()
        )
        raise InputError(f"queries and gallery must have as many columns, of one type: got {shapes}")


def check_any(queries: Side | None, gallery: Side | None) -> None:
    """Raise where there is nothing to evaluate."""
    if queries is None:
        raise InputError("no queries were given: call update(queries=…, labels=…), or update(items=…, labels=…)")
    if gallery is None:
        raise InputError("no gallery was given: call update(gallery=…, labels=…)")
