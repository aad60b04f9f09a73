"""Whether evaluations are of the same data, counted alike, so that their numbers may be compared."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.errors import InputError
from lookalike.core.files import fingerprints
from lookalike.metrics.metric import Metric

if TYPE_CHECKING:
    from lookalike.evaluation.results import Evaluation

RULES = {  # what changes a number of the same ranking, and what it is called in a sentence
    "ties": "order of ties",
    "unlisted": "rule for judged items without a rank",
    "exclude": "items that do not rank",
    "level": "level of judgements",
}

__all__ = ["check_same_data", "matched_queries", "notes_on_inputs"]


def check_same_data(evaluations: Mapping[str, "Evaluation"], metrics: list[Metric]) -> None:
    """Raise where galleries, relevance or the way of counting differ; what is not known of a saved one passes."""
    of_vectors = {name: e for name, e in evaluations.items() if "run" not in e.about.get("inputs", {})}
    sizes = sorted({evaluation.about["items"] for evaluation in of_vectors.values()})
    if len(sizes) > 1:
        raise InputError(f"the evaluations are of different galleries, of {', '.join(map(str, sizes))} items")
    for metric in metrics:
        kinds = {name: evaluation.relevance_of(metric) for name, evaluation in evaluations.items()}
        _check_equal(f"{metric} cannot be compared, items are relevant by", {n: k for n, k in kinds.items() if k})
        unjudged = {name: _of_metric(e.about.get("unjudged", ""), metric) for name, e in evaluations.items()}
        if any(_is_judged(evaluation, metric) for evaluation in evaluations.values()):
            _check_equal(f"{metric} cannot be compared, unjudged items are", {n: k for n, k in unjudged.items() if k})
        if any(evaluation.scores[metric].undefined for evaluation in evaluations.values()):
            policies = {name: str(e.about.get("undefined", "")) for name, e in evaluations.items()}
            _check_equal(
                f"{metric} cannot be compared, undefined queries are", {n: k for n, k in policies.items() if k}
            )
    for rule, words in RULES.items():
        said = {name: str(_rule(evaluation, rule)) for name, evaluation in of_vectors.items()}
        _check_equal(f"the evaluations cannot be compared, their {words} is", said)


def notes_on_inputs(evaluations: Mapping[str, "Evaluation"]) -> list[str]:
    """A sentence where relevance has different fingerprints, which other rows and another order of rows give alike."""
    relevance = [evaluation.about.get("inputs", {}).get("relevance") for evaluation in evaluations.values()]
    if all(one is relevance[0] for one in relevance):
        return []
    prints = dict(zip(evaluations, map(fingerprints, relevance), strict=True))
    known = {name: str(value) for name, value in prints.items() if value is not None}
    if len(set(known.values())) < 2:
        return []
    first, value = next(iter(known.items()))
    others = [repr(name) for name, other in known.items() if other != value]
    note = (
        f"the labels or judgements of {first!r} and of {', '.join(others)} have different fingerprints: the numbers "
        "are of the same data only if that is no more than another order of the items"
    )
    return [note]


def matched_queries(first_name: str, first: "Evaluation", name: str, other: "Evaluation") -> np.ndarray:
    """Positions in `other` of the queries of `first`; raises when these are other queries."""
    position = {query: i for i, query in enumerate(other.query_ids.tolist())}
    wanted = first.query_ids.tolist()
    if len(position) != len(wanted) or any(query not in position for query in wanted):
        missing = next((query for query in wanted if query not in position), None)
        detail = (
            f"{len(wanted)} and {len(position)} queries" if missing is None else f"query {missing!r} is not in {name!r}"
        )
        raise InputError(f"{first_name!r} and {name!r} were evaluated on different queries: {detail}")
    return np.array([position[query] for query in wanted], np.int64)


def _check_equal(sentence: str, values: Mapping[str, str]) -> None:
    """Raise with a sentence that names each value where they differ."""
    if len(set(values.values())) > 1:
        raise InputError(f"{sentence} {', '.join(f'{value} in {name!r}' for name, value in values.items())}")


def _is_judged(evaluation: "Evaluation", metric: Metric) -> bool:
    return evaluation.relevance_of(metric) not in ("labels", "coarse labels", "tags", "attributes")


def _of_metric(words: Any, metric: Metric) -> str:
    """What is said of a metric, where it may be said of all at once."""
    return str(words.get(str(metric), "")) if isinstance(words, dict) else str(words)


def _rule(evaluation: "Evaluation", rule: str) -> Any:
    """How an evaluation was counted; "as usual" where it does not say."""
    return evaluation.about.get(rule) or evaluation.about.get("inputs", {}).get(rule) or "as usual"
