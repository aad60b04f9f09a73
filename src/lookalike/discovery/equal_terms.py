"""Equal terms: a metric of judged pairs that neither favours nor punishes the models that built the pool.

A model that helped to build the pool meets its own mistakes among the judged pairs; a model that came later does not.
So every two models are compared on equal terms:

- two models that both helped to build the pool, or that both came later: on all judged pairs,
- a model that helped and one that came later: without the pairs that the first one alone proposed. Then the pool is one
  that neither of the two helped to build.

A model's value for a query is the mean of all models on all pairs, plus the mean of its differences from each of them.
Where all models helped, or none did, this is the metric itself.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from lookalike.discovery.contest import Contest
from lookalike.evaluation.results import Evaluation, Score
from lookalike.metrics.metric import Metric, parse_all
from lookalike.metrics.values import Values

__all__ = ["on_equal_terms", "values_on_equal_terms"]


def on_equal_terms(
    contest: Contest,
    metrics: str | Iterable[str | Metric],
    own: Mapping[str, np.ndarray],
    kept: np.ndarray | None = None,
) -> dict[str, Evaluation]:
    """Metrics of every model, each two models compared on equal terms.

    own: for each model that helped to build the pool, which judgements are of pairs that it alone proposed. kept: which
    judgements count, by default all.
    """
    wanted, names = parse_all(metrics), list(contest.entries)
    later = [name for name in names if name not in own]
    everything = np.ones(len(contest.judgements), bool) if kept is None else kept
    full = {name: contest.evaluate(name, wanted, kept=everything) for name in names}
    without = {
        builder: {name: contest.evaluate(name, wanted, kept=everything & ~gone) for name in [builder, *later]}
        for builder, gone in own.items()
        if builder in full and later
    }
    scores: dict[str, dict[Metric, Score]] = {name: {} for name in names}
    for metric in wanted:
        values = values_on_equal_terms(
            {name: evaluation[metric].values for name, evaluation in full.items()},
            {
                builder: {name: evaluation[metric].values for name, evaluation in evaluations.items()}
                for builder, evaluations in without.items()
            },
        )
        for name in names:
            scores[name][metric] = Score(metric, values[name], full[name][metric].undefined)
    return {name: Evaluation(scores[name], full[name].query_ids, full[name].about) for name in names}


def values_on_equal_terms(full: Mapping[str, Values], without: Mapping[str, Mapping[str, Values]]) -> dict[str, Values]:
    """The values of every model for every query, each two models compared on equal terms.

    full: of each model on all judged pairs. without: of each builder and of all models that came later, on the pairs
    that are left without the builder's own. A query that has no value there counts as no difference. Nan where a query
    has no value on all pairs. Best and worst are those of the model's own ties; the others' ties stand as expected.

    >>> on_all = {name: Values(*3 * [np.array([value])]) for name, value in (("built", 0.5), ("later", 0.7))}
    >>> without_own = {name: Values(*3 * [np.array([0.8])]) for name in on_all}         # there both are as good
    >>> {name: values.expected for name, values in values_on_equal_terms(on_all, {"built": without_own}).items()}
    {'built': array([0.6]), 'later': array([0.6])}
    """
    out = {}
    for name, on_all in full.items():
        if name in without:
            terms = [(without[name], other) for other in without[name] if other != name]
        else:
            terms = [(some, builder) for builder, some in without.items()]
        parts = []
        for mine in ("expected", "best", "worst"):
            value = getattr(on_all, mine)
            change = np.zeros(len(value))
            for some, other in terms:
                fair = np.nan_to_num(getattr(some[name], mine) - some[other].expected)
                change += fair - (value - full[other].expected)
            parts.append(value + change / len(full))
        out[name] = Values(*parts)
    return out
