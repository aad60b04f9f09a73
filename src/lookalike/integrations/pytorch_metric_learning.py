"""For users of pytorch-metric-learning: its accuracy calculator with our metrics, and our losses in its form."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lookalike.core.checks import choice, nearest
from lookalike.core.codes import Codes, as_numpy
from lookalike.core.embeddings import SIMILARITIES
from lookalike.core.errors import InputError, InputTypeError, MissingPackageError
from lookalike.evaluation.evaluate import MetricSet, evaluate
from lookalike.evaluation.relevance import same_label
from lookalike.evaluation.results import Score
from lookalike.metrics.metric import Metric

try:
    import torch
    from pytorch_metric_learning.losses import BaseMetricLossFunction
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
except ModuleNotFoundError as error:
    package = "torch" if error.name == "torch" else "pytorch-metric-learning"
    raise MissingPackageError(
        f"losses and metrics in the form of pytorch-metric-learning need {package}, which is not installed: "
        f"pip install {package}",
        package=package,
    ) from error

from lookalike.learning import losses

METRICS = ("P@1", "AP", "RR")  # precision_at_1, mean_average_precision and mean_reciprocal_rank of the library itself
HAMMING = "hamming"
LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "tie-aware-ap": losses.tie_aware_ap,
    "tie-aware-dcg": losses.tie_aware_dcg,
    "dsh": losses.dsh,
    "dispersed-dsh": losses.dispersed_dsh,
    "mihash": losses.mihash,
    "dpsh": losses.dpsh,
    "dtsh": losses.dtsh,
    "hashnet": losses.hashnet,
}

__all__ = ["HashingLoss", "TieAwareAccuracyCalculator"]


class TieAwareAccuracyCalculator(AccuracyCalculator):  # type: ignore[misc]  # the library has no types
    """An AccuracyCalculator with exact, tie-aware metrics: each with its best and its worst value over all orders.

    metrics: as `la.evaluate` has them. similarity: "euclidean", as the library has it, "cosine", "dot", or "hamming",
    which takes the signs of embeddings for codes: above 0 is a one. include, exclude: the names to compute, or to
    leave out, such as ("AP", "AP/best"). avg_of_avgs: the mean of the means of each label. return_per_class: a list
    with a mean for each label, in order. As in the library, queries without a relevant item in the reference are left
    out. It needs no faiss.

    >>> calculator = TieAwareAccuracyCalculator(["AP"], similarity="hamming")
    >>> embeddings = torch.tensor([[0.2, -0.1], [0.4, -0.3], [0.1, -0.5]])     # all on one code
    >>> calculator.get_accuracy(embeddings, torch.tensor([0, 0, 1]))
    {'AP': 0.75, 'AP/best': 1.0, 'AP/worst': 0.5}
    """

    def __init__(
        self,
        metrics: str | Iterable[str | Metric] = METRICS,
        *,
        similarity: str = "euclidean",
        include: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        avg_of_avgs: bool = False,
        return_per_class: bool = False,
    ) -> None:
        choice("similarity", similarity, (*SIMILARITIES, HAMMING))
        super().__init__(
            avg_of_avgs=avg_of_avgs,
            return_per_class=return_per_class,
            device=torch.device("cpu"),
            knn_func=_unused,
            kmeans_func=_unused,
        )
        self.similarity, self.metrics = similarity, MetricSet.of(metrics, None, None).metrics
        if avg_of_avgs or return_per_class:
            _check_means(self.metrics)
        self.original_function_dict = {
            name: metric for metric in self.metrics for name in (f"{metric}", f"{metric}/best", f"{metric}/worst")
        }
        self.check_primary_metrics(include, exclude)
        self.original_function_dict = self.get_function_dict(include, exclude)
        self.curr_function_dict = self.get_function_dict()

    def requires_knn(self) -> list[str]:
        """None of the metrics: neighbours are not listed but counted."""
        return []

    def get_accuracy(
        self,
        query: Any,
        query_labels: Any,
        reference: Any = None,
        reference_labels: Any = None,
        ref_includes_query: bool = False,
        include: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """The metrics of a search for `query` in `reference`; without a reference, of each query in all others.

        ref_includes_query: the first rows of the reference are the queries, each of which does not find itself.
        """
        if (reference is None) != (reference_labels is None):
            raise InputError("reference and reference_labels go together: pass both or neither")
        if reference is None:
            reference, reference_labels, ref_includes_query = query, query_labels, True
        self.check_primary_metrics(include, exclude)
        self.curr_function_dict = self.get_function_dict(include, exclude)
        queries, gallery = as_numpy(query), as_numpy(reference)
        own, of_items = (
            _labels(labels, rows, what)
            for labels, rows, what in ((query_labels, queries, "query"), (reference_labels, gallery, "reference"))
        )
        if ref_includes_query and reference is not query:
            _check_first_rows(queries, gallery, own, of_items)
        names, numbers = np.unique(np.concatenate([own, of_items]), return_inverse=True)
        relevant = np.bincount(numbers[len(own) :], minlength=len(names))[numbers[: len(own)]] - int(ref_includes_query)
        counts = np.flatnonzero(relevant > 0)
        if not len(counts):
            return dict.fromkeys(self.curr_function_dict, float("nan"))
        ids: dict[str, Any] = {"query_ids": counts, "gallery_ids": np.arange(len(gallery)), "exclude": "self"}
        result = evaluate(
            self._vectors(queries[counts]),
            self._vectors(gallery),
            same_label(own[counts], of_items),
            list(dict.fromkeys(self.curr_function_dict.values())),
            similarity=None if self.similarity == HAMMING else self.similarity,
            **(ids if ref_includes_query else {}),
        )
        return {
            name: self._reduced(result[metric], name, own[counts]) for name, metric in self.curr_function_dict.items()
        }

    def _vectors(self, rows: np.ndarray) -> Any:
        if self.similarity != HAMMING:
            return rows
        if not np.isfinite(rows).all():
            raise InputError("embeddings contain NaN or infinite numbers, which have no sign to take for a bit")
        return Codes.pack(rows > 0)

    def _reduced(self, score: Score, name: str, labels: np.ndarray) -> float | list[float]:
        """The mean of a metric over queries, over labels, or of each label."""
        kind = name.rpartition("/")[2] if "/" in name else "mean"
        if not (self.avg_of_avgs or self.return_per_class):
            return float(getattr(score, kind))
        values = {"mean": score.per_query, "best": score.best_per_query, "worst": score.worst_per_query}[kind]
        means = [float(values[labels == label].mean()) for label in np.unique(labels)]
        return means if self.return_per_class else float(np.mean(means))


class HashingLoss(BaseMetricLossFunction):  # type: ignore[misc]  # the library has no types
    """A loss of `lookalike.learning.losses` in the form of the library: HashingLoss("tie-aware-ap", alpha=40).

    name: "tie-aware-ap", "tie-aware-dcg", "dsh", "dispersed-dsh", "mihash", "dpsh", "dtsh" or "hashnet"; options: those
    of the loss. Embeddings are the
    activations, whose signs become the bits. Each example of a batch is compared with all others, so that a miner's
    pairs and embeddings from elsewhere (ref_emb) are errors: they would change nothing.

    >>> loss = HashingLoss("dsh", margin=4.0)
    >>> loss(torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]), torch.tensor([0, 0, 1]))
    tensor(0.)
    """

    def __init__(self, name: str, **options: Any) -> None:
        if name not in LOSSES:
            similar = nearest(name, LOSSES)
            hint = "" if similar is None else f"did you mean {similar}? "
            raise InputError(f"there is no loss {name!r}: {hint}Known are {', '.join(LOSSES)}")
        try:
            inspect.signature(LOSSES[name]).bind_partial(**options)
        except TypeError:
            raise InputTypeError(f"{name} has no such options: {', '.join(map(repr, options))}") from None
        super().__init__()
        self.name, self.options = name, options

    def forward(
        self,
        embeddings: Any,
        labels: Any = None,
        indices_tuple: Any = None,
        ref_emb: Any = None,
        ref_labels: Any = None,
    ) -> torch.Tensor:
        """The loss of a batch."""
        if indices_tuple is not None:
            raise InputError(f"{self.name} compares all examples of a batch: leave out the miner, or indices_tuple")
        if (ref_emb is not None and ref_emb is not embeddings) or (ref_labels is not None and ref_labels is not labels):
            raise InputError(
                f"{self.name} compares the examples of one batch with each other: put ref_emb and ref_labels into the "
                "batch, torch.cat([embeddings, ref_emb])"
            )
        return super().forward(embeddings, labels)

    def compute_loss(
        self,
        embeddings: Any,
        labels: Any,
        indices_tuple: Any,  # noqa: ARG002
        ref_emb: Any,  # noqa: ARG002
        ref_labels: Any,  # noqa: ARG002
    ) -> dict[str, dict[str, Any]]:
        """The loss of a batch, as the library's reducers take it."""
        loss = LOSSES[self.name](embeddings, labels, **self.options)
        return {"loss": {"losses": loss, "indices": None, "reduction_type": "already_reduced"}}

    def extra_repr(self) -> str:
        """The name and the options of the loss."""
        return ", ".join([repr(self.name), *(f"{name}={value!r}" for name, value in self.options.items())])


def _check_means(metrics: list[Metric]) -> None:
    """Raise where a metric is no mean over queries, so that it has no mean of those of one label."""
    for metric in metrics:
        if metric.micro or metric.name.startswith("VSD") or metric.options().get("empty") == "skip":
            raise InputError(f"{metric} is no plain mean over queries: leave out avg_of_avgs and return_per_class")


def _unused(*_: Any, **__: Any) -> None:
    """What the library would search and cluster with; given so that it does not ask for faiss."""
    raise AssertionError("tie-aware metrics are counted, not searched for")


def _labels(labels: Any, rows: np.ndarray, what: str) -> np.ndarray:
    """Labels as they are; the library itself rounds them to 24 bits."""
    values = as_numpy(labels)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (len(rows),):
        raise InputError(f"there are {len(rows)} {what} embeddings, but labels of the shape {values.shape}")
    return values


def _check_first_rows(queries: np.ndarray, gallery: np.ndarray, own: np.ndarray, of_items: np.ndarray) -> None:
    n = len(queries)
    if not (np.array_equal(queries, gallery[:n]) and np.array_equal(own, of_items[:n])):
        raise InputError(
            "ref_includes_query says that the first rows of reference and reference_labels are the queries and their "
            "labels, but they differ"
        )
