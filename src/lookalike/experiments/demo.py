"""What the demo tells: how much ties and denominators change a number, for one of the trials."""

from dataclasses import dataclass

import numpy as np

from lookalike.core.codes import Codes
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label
from lookalike.evaluation.results import Score
from lookalike.experiments.trials import Trial, Trials

DENOMINATORS = ("retrieved", "min", "total")
MOST_QUERIES = 200  # an argsort is slow

__all__ = ["Story", "argsort_map", "tell"]


@dataclass(frozen=True, eq=False)
class Story:
    """mAP of one trial by an argsort in two orders of the gallery, and its AP@100 by three denominators."""

    trial: Trial
    n_queries: int
    ap: Score
    argsort: float
    argsort_by_class: float
    at_100: dict[str, float]


def tell(trials: Trials) -> Story:
    """Take the shortest codes with the widest range by ties, and compute the same number by an argsort."""
    shortest = min(trial.n_bits for trial in trials.trials)
    gap = {trial: trial.evaluation["AP"].best - trial.evaluation["AP"].worst for trial in trials.trials}
    trial = max((trial for trial in trials.trials if trial.n_bits == shortest), key=gap.__getitem__)
    queries, gallery = trial.queries[:MOST_QUERIES], trial.gallery
    query_labels, gallery_labels = trials.task.query_labels[:MOST_QUERIES], trials.task.gallery_labels
    metrics = ["AP", *(f"AP(norm={norm!r})@100" for norm in DENOMINATORS)]
    result = evaluate(queries, gallery, same_label(query_labels, gallery_labels), metrics)
    by_class = np.argsort(gallery_labels, kind="stable")  # as folders and archives of images store them
    return Story(
        trial,
        len(queries),
        result["AP"],
        argsort_map(queries, gallery, query_labels, gallery_labels),
        argsort_map(queries, gallery[by_class], query_labels, gallery_labels[by_class]),
        {norm: result[f"AP(norm={norm!r})@100"].mean for norm in DENOMINATORS},
    )


def argsort_map(queries: Codes, gallery: Codes, query_labels: np.ndarray, gallery_labels: np.ndarray) -> float:
    """Mean average precision as scripts compute it, by an argsort of the distances that breaks ties arbitrarily."""
    q, g = (2.0 * codes.unpack() - 1 for codes in (queries, gallery))
    values = []
    for code, label in zip(q, query_labels, strict=True):
        order = np.argsort(0.5 * (queries.n_bits - g @ code), kind="stable")
        relevant = gallery_labels[order] == label
        ranks = np.flatnonzero(relevant) + 1
        values.append(float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0)
    return float(np.mean(values))
