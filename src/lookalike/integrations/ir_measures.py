"""ir_measures with exact ties: a provider `lookalike` of the measures that both have.

Importing this module registers the provider. The command of ir_measures loads no plugins, so the same command with the
provider is `python -m lookalike.integrations.ir_measures --provider lookalike QRELS RUN nDCG@10 …`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lookalike.core.errors import InputError, MissingPackageError
from lookalike.evaluation.evaluate import evaluate_run
from lookalike.evaluation.relevance import judged

try:
    import ir_measures
    from ir_measures import measures as families
    from ir_measures import providers
    from ir_measures.providers.base import NOT_PROVIDED
    from ir_measures.providers.base import Any as AnyValue
except ModuleNotFoundError as error:
    raise MissingPackageError(
        "lookalike.integrations.ir_measures needs ir_measures: pip install ir_measures", package="ir_measures"
    ) from error

__all__ = ["PROVIDER", "LookalikeProvider", "RunEvaluator", "calc", "calc_aggregate", "evaluator", "iter_calc"]

NAMES = {"P": "P", "R": "R", "RR": "RR", "Success": "Hit", "Bpref": "Bpref", "RBP": "RBP", "Judged": "Judged"}


class _Level:
    """What `rel` may be: a whole number from 1, which may be missing where the measure has a default."""

    def validate(self, value: Any) -> bool:
        return isinstance(value, int) and value >= 1

    def __repr__(self) -> str:
        return "1 or more"


class LookalikeProvider(providers.Provider):
    """Lookalike: the expectation over all orders of tied items, in place of one order."""

    NAME = "lookalike"
    SUPPORTED_MEASURES = [  # noqa: RUF012  # as the base class has it
        families._P(cutoff=AnyValue(), rel=_Level(), judged_only=AnyValue()),
        families._R(cutoff=AnyValue(), rel=_Level(), judged_only=AnyValue()),
        families._RR(cutoff=AnyValue(), rel=_Level(), judged_only=AnyValue()),
        families._AP(cutoff=AnyValue(), rel=_Level(), judged_only=AnyValue()),
        families._nDCG(cutoff=AnyValue(), dcg=AnyValue(), gains=AnyValue(), judged_only=AnyValue()),
        families._Success(cutoff=AnyValue(), rel=_Level(), judged_only=AnyValue()),
        families._Rprec(rel=_Level(), judged_only=AnyValue()),
        families._Bpref(rel=_Level()),
        families._RBP(cutoff=AnyValue(), rel=_Level(), p=AnyValue()),
        families._Judged(cutoff=AnyValue()),
    ]

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> "RunEvaluator":
        asked = list(measures)
        for measure in asked:
            if not self.supports(measure):
                names = ", ".join(str(supported.NAME) for supported in self.SUPPORTED_MEASURES)
                raise InputError(f"the provider lookalike has no {measure}: it has {names}; RBP needs rel=1 or more")
        return RunEvaluator(asked, ir_measures.util.QrelsConverter(qrels).as_dict_of_dict())


class RunEvaluator(providers.Evaluator):
    """Evaluates runs by judgements, {query: {document: grade}}, as ir_measures asks for it.

    Of queries and values it keeps to what ir_measures' own providers do: a judged query that the run does not rank
    counts 0, a query without a relevant document too, and one that nobody judged counts nowhere. A grade below 0 counts
    as 0; for Bpref, and with judged_only, such a document is one that nobody judged.
    """

    def __init__(self, measures: list[Any], qrels: Mapping[str, Mapping[str, int]]) -> None:
        super().__init__(measures, set(qrels))
        self._qrels = qrels

    def _iter_calc(self, run: Any) -> Iterator[Any]:
        ranked = ir_measures.util.RunConverter(run).as_dict_of_dict()
        both = [query for query, documents in self._qrels.items() if documents and ranked.get(query)]
        if not both:
            return
        searched = {query: ranked[query] for query in both}
        for measure in self.measures:
            for query, value in self._values(measure, searched).items():
                yield ir_measures.Metric(query_id=query, measure=measure, value=value)

    def _values(self, measure: Any, run: dict[str, dict[str, float]]) -> dict[str, float]:
        """The value of each query of a run."""
        if measure.NAME == "Rprec":
            return self._precision_at_all_relevant(measure, run)
        values = self._evaluated(_metric(measure, run), measure, run)
        if measure.NAME != "Judged":
            return values
        cutoff = _cutoff(measure, run)  # a list that is shorter than the cutoff is judged as far as it goes
        return {query: value * cutoff / min(cutoff, len(run[query])) for query, value in values.items()}

    def _precision_at_all_relevant(self, measure: Any, run: dict[str, dict[str, float]]) -> dict[str, float]:
        """Precision at the number of relevant documents, which is the recall there; 0 where nothing is relevant."""
        out, by_size = dict.fromkeys(run, 0.0), dict[int, list[str]]()
        for query in run:
            size = sum(grade >= measure["rel"] for grade in self._qrels[query].values())
            by_size.setdefault(size, []).append(query)
        for size, queries in by_size.items():
            if size:
                metric = f"R(rel={measure['rel']})@{size}"
                out |= self._evaluated(metric, measure, {query: run[query] for query in queries})
        return out

    def _evaluated(self, metric: str, measure: Any, run: dict[str, dict[str, float]]) -> dict[str, float]:
        """The expected value of our metric for each query of a run."""
        gains, judged_only = _given(measure, "gains"), bool(_given(measure, "judged_only"))
        lowest = 0 if judged_only or measure.NAME == "Bpref" else -math.inf
        qrels = {
            query: {document: max(grade, 0) for document, grade in self._qrels[query].items() if grade >= lowest}
            for query in run
        }
        if gains is not None:
            qrels = {
                query: {document: gains.get(grade, grade) for document, grade in documents.items()}
                for query, documents in qrels.items()
            }
        unjudged = "condensed" if judged_only else "irrelevant"
        result = evaluate_run(run, judged(qrels), [metric], undefined="zero", unjudged=unjudged)
        return dict(zip(result.query_ids.tolist(), result[metric].per_query.tolist(), strict=True))


def _metric(measure: Any, run: Mapping[str, Mapping[str, float]]) -> str:
    """Our name of a measure; that of AP divides by all relevant documents, that of nDCG says its gain."""
    cutoff = _given(measure, "cutoff")
    at = "" if cutoff is None else f"@{cutoff}"
    if measure.NAME == "nDCG":
        return f"nDCG(gain={'linear' if measure['dcg'] == 'log2' else 'exponential'!r}){at}"
    if measure.NAME == "AP":
        return f"AP(norm='total', rel={measure['rel']}){at}"
    if measure.NAME == "Judged":
        return f"Judged@{_cutoff(measure, run)}"
    p = f"p={measure['p']!r}, " if measure.NAME == "RBP" else ""
    return f"{NAMES[measure.NAME]}({p}rel={measure['rel']}){at}"


def _cutoff(measure: Any, run: Mapping[str, Mapping[str, float]]) -> int:
    """The cutoff of a measure, or the length of the longest list."""
    cutoff = _given(measure, "cutoff")
    return max(map(len, run.values())) if cutoff is None else int(cutoff)


def _given(measure: Any, name: str) -> Any:
    """A parameter of a measure; None where it has none, or none is given."""
    if name not in measure.SUPPORTED_PARAMS:
        return None
    value = measure[name]
    return None if value is NOT_PROVIDED else value


PROVIDER = providers.register(LookalikeProvider())
evaluator, iter_calc, calc = PROVIDER.evaluator, PROVIDER.iter_calc, PROVIDER.calc
calc_aggregate = PROVIDER.calc_aggregate

if __name__ == "__main__":
    from ir_measures.__main__ import main_cli

    main_cli()
