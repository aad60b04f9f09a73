"""Points of the precision-recall curve, from an evaluation of precision and recall at many cutoffs and radii."""

from typing import Any

import numpy as np

from lookalike.evaluation.results import Evaluation
from lookalike.metrics.metric import Metric, parse_all

MOST = 128  # cutoffs of a curve

__all__ = ["curve_metrics", "curve_table"]


def curve_metrics(evaluation: Evaluation) -> list[Metric]:
    """Precision and recall at cutoffs from 1 to the last rank, and of codes within every radius."""
    about = evaluation.about
    last = max(1, about.get("deepest", about["items"]))
    cutoffs = np.unique(np.geomspace(1, last, min(last, MOST)).round().astype(int)).tolist()
    radii = range(about["bits"] + 1) if "bits" in about else ()
    at = [f"@{k}" for k in cutoffs] + [f"(radius={radius})" for radius in radii]
    return parse_all([f"{name}{where}" for where in at for name in ("P", "R")])


def curve_table(evaluation: Evaluation) -> dict[str, list[Any]]:
    """A row for each cutoff, then for each radius: "by" which of them, "at" which, mean "recall" and "precision".

    evaluation: of `curve_metrics`, with undefined="skip". Queries without a relevant item have no recall, and are left
    out of both means.

    >>> import lookalike as la
    >>> scores, relevance = [[3, 2, 2, 0]], la.grades([[1, 0, 1, 0]])
    >>> asked = curve_metrics(la.evaluate_scores(scores, relevance, ["AP"]))
    >>> curve_table(la.evaluate_scores(scores, relevance, asked, undefined="skip"))["precision"]
    [1.0, 0.75, 0.6666666666666666, 0.5]
    """
    table: dict[str, list[Any]] = {"by": [], "at": [], "recall": [], "precision": []}
    metrics = list(evaluation)
    for precision, recall in zip(metrics[::2], metrics[1::2], strict=True):
        radius = recall.options()["radius"]
        table["by"].append("cutoff" if radius is None else "radius")
        table["at"].append(recall.cutoff if radius is None else radius)
        defined = ~np.isnan(evaluation[recall].per_query)
        for name, metric in (("recall", recall), ("precision", precision)):
            values = evaluation[metric].per_query[defined]
            table[name].append(float(values.mean()) if len(values) else float("nan"))
    return table
