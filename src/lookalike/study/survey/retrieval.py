"""How well each model finds items of the query's own identity or category."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.progress import track
from lookalike.evaluation.compare import Difference, compare
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import Relevance, same_label
from lookalike.evaluation.results import Evaluation
from lookalike.metrics.metric import Metric
from lookalike.study.survey.data import Interval, SurveyData

if TYPE_CHECKING:
    from lookalike.discovery.catalogue import Catalogue
    from lookalike.study.model import Stored

BASELINES = ("pixels", "colour")  # encoders that a model should beat
METRICS = {"identity": ("Hit@1", "Hit@5", "RR", "AP"), "category": ("AP", "P@10")}

__all__ = ["ItemSearch", "Retrieval", "rank_models", "retrieve_by_labels", "search_again"]


@dataclass(frozen=True, eq=False)
class Retrieval:
    """How well each model finds items of the query's own label. The query itself does not rank."""

    label: str  # "identity" or "category"
    queries: np.ndarray  # positions of the items that were searched for
    eligible: int  # items that have something to find, of which the queries were drawn
    without_identity: bool  # whether items of the query's own identity do not rank
    evaluations: dict[str, Evaluation]
    intervals: dict[str, dict[Metric, Interval]]
    lead: Difference | None  # of the best model over the second by the main metric

    @property
    def metrics(self) -> list[Metric]:
        """What was measured, the main metric first."""
        return list(next(iter(self.evaluations.values())))

    @property
    def main(self) -> Metric:
        """The metric that orders models."""
        return Metric.parse("AP")

    def ranking(self, metric: Metric | None = None) -> list[str]:
        """Models, the best first."""
        by = metric or self.main
        return sorted(self.evaluations, key=lambda model: -by.sign * self.evaluations[model][by].mean)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values."""
        rows = [
            {"model": model, "metric": metric.label, "mean": score.mean, "best": score.best, "worst": score.worst}
            | dict(zip(("low", "high"), self.intervals[model][metric], strict=True))
            for model, evaluation in self.evaluations.items()
            for metric, score in evaluation.scores.items()
        ]
        facts = {"queries": len(self.queries), "eligible": self.eligible, "without_identity": self.without_identity}
        return facts | {"rows": rows}


@dataclass(frozen=True, eq=False)
class ItemSearch:
    """Some items searched for among all: what is relevant, and what does not rank."""

    queries: np.ndarray  # positions
    relevance: Relevance
    ids: np.ndarray
    identities: np.ndarray | None  # None: only the query itself does not rank
    threads: int | None

    def evaluate(self, gallery: Any, metrics: Iterable[str], similarity: str | None, **options: Any) -> Evaluation:
        """How well these codes or embeddings of all items find what is relevant."""
        own = "self" if self.identities is None else (self.identities[self.queries], self.identities)
        if not isinstance(gallery, Codes):
            options["similarity"] = similarity
        return evaluate(
            gallery[self.queries], gallery, self.relevance, metrics, query_ids=self.ids[self.queries],
            gallery_ids=self.ids, exclude=own, threads=self.threads, **options,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Goal:
    """A label to find: items of it are relevant to a query of it."""

    label: str
    labels: np.ndarray
    identities: np.ndarray | None  # items of the query's own do not rank; None: only the query itself does not
    eligible: np.ndarray  # positions of the items with something to find


def retrieve_by_labels(data: SurveyData) -> list[Retrieval]:
    """Find the query's identity, and its category among other identities, as far as there are labels and models."""
    return [_retrieve(goal, data) for goal in _goals(data.catalogue)] if data.vectors else []


def _goals(catalogue: "Catalogue") -> list[_Goal]:
    identities, categories = catalogue.identities, catalogue.categories
    goals = []
    if identities is not None:
        eligible = np.flatnonzero(_sizes(identities) > 1)
        goals.append(_Goal("identity", identities, None, eligible))
    if categories is not None and len(np.unique(categories)) > 1:
        own = 1 if identities is None else _sizes(np.char.add(np.char.add(identities, "\0 "), categories))
        eligible = np.flatnonzero((categories != "") & (_sizes(categories) - own > 0))
        goals.append(_Goal("category", categories, identities, eligible))
    return [goal for goal in goals if len(goal.eligible)]


def _sizes(labels: np.ndarray) -> np.ndarray:
    """For each item, how many items have its label."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse])


def _retrieve(goal: _Goal, data: SurveyData) -> Retrieval:
    n_queries = min(data.n_queries, len(goal.eligible))
    queries = np.sort(data.rng.choice(goal.eligible, n_queries, replace=False))
    relevance = same_label(goal.labels[queries], goal.labels)
    search = ItemSearch(queries, relevance, data.catalogue.ids, goal.identities, data.threads)
    evaluations = {
        name: search.evaluate(stored.gallery, METRICS[goal.label], stored.similarity)
        for name, stored in track(data.vectors.items(), len(data.vectors), f"finding the same {goal.label}")
    }
    intervals = {
        name: {metric: score.interval() for metric, score in evaluation.scores.items()}
        for name, evaluation in evaluations.items()
    }
    without_identity = goal.identities is not None
    lead = _lead(evaluations)
    return Retrieval(goal.label, queries, len(goal.eligible), without_identity, evaluations, intervals, lead)


def search_again(retrieval: Retrieval, data: SurveyData) -> ItemSearch:
    """The search of a retrieval, to be made with other codes."""
    labels = data.catalogue.column(retrieval.label)
    identities = data.catalogue.identities if retrieval.without_identity else None
    relevance = same_label(labels[retrieval.queries], labels)
    return ItemSearch(retrieval.queries, relevance, data.catalogue.ids, identities, data.threads)


def _lead(evaluations: Mapping[str, Evaluation]) -> Difference | None:
    """How far the best model is ahead of the second by AP."""
    ranked = sorted(evaluations, key=lambda name: -evaluations[name]["AP"].mean)
    if len(ranked) < 2:
        return None
    ap = Metric.parse("AP")
    best_two = {
        name: Evaluation({ap: evaluations[name][ap]}, evaluations[name].query_ids, evaluations[name].about)
        for name in ranked[:2]
    }
    return compare(best_two, resamples=2000).differences[0]


def rank_models(vectors: "Mapping[str, Stored]", retrieval: Sequence[Retrieval]) -> list[str]:
    """Models, the best by labels first; without labels those that are more than a baseline."""
    if retrieval:
        return retrieval[0].ranking()

    def plainness(name: str) -> tuple[bool, bool]:
        stored = vectors[name]
        return (stored.encoder or name) in BASELINES, isinstance(stored.gallery, Codes)

    return sorted(vectors, key=plainness)
