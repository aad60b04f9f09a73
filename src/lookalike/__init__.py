"""Lookalike: how good a visual search really is, exactly and fast."""

import importlib
import typing

from lookalike.core.version import __version__

if typing.TYPE_CHECKING:
    from lookalike import datasets, discovery, encoders, hashers, learning, metrics, search
    from lookalike.core.codes import Codes
    from lookalike.evaluation import code_space as space
    from lookalike.evaluation.audit import audit
    from lookalike.evaluation.code_space import usage
    from lookalike.evaluation.compare import compare
    from lookalike.evaluation.count import count, count_scores
    from lookalike.evaluation.evaluate import evaluate, evaluate_run, evaluate_scores, evaluate_tally
    from lookalike.evaluation.item_files import read_items
    from lookalike.evaluation.relevance import grades, hierarchy, judged, matching_attributes, same_label, shared_tags
    from lookalike.evaluation.results import Evaluation, Score
    from lookalike.evaluation.tally import Tally
    from lookalike.evaluation.trec import read_qrels, read_run
    from lookalike.metrics import curves
    from lookalike.metrics.metric import Metric
    from lookalike.search.answers import recall_of
    from lookalike.shards.gallery import Shards
    from lookalike.study.study import Study

__all__ = [
    "Codes",
    "Evaluation",
    "Metric",
    "Score",
    "Shards",
    "Study",
    "Tally",
    "__version__",
    "audit",
    "compare",
    "count",
    "count_scores",
    "curves",
    "datasets",
    "discovery",
    "encoders",
    "evaluate",
    "evaluate_run",
    "evaluate_scores",
    "evaluate_tally",
    "grades",
    "hashers",
    "hierarchy",
    "judged",
    "learning",
    "matching_attributes",
    "metrics",
    "read_items",
    "read_qrels",
    "read_run",
    "recall_of",
    "same_label",
    "search",
    "shared_tags",
    "space",
    "usage",
]

# Where each public name is loaded from when it is first used: importing the package costs next to nothing.
_HOMES = {
    "evaluation.audit": ["audit"],
    "core.codes": ["Codes"],
    "evaluation.compare": ["compare"],
    "evaluation.count": ["count", "count_scores"],
    "evaluation.evaluate": ["evaluate", "evaluate_run", "evaluate_scores", "evaluate_tally"],
    "evaluation.item_files": ["read_items"],
    "metrics.metric": ["Metric"],
    "evaluation.relevance": ["grades", "hierarchy", "judged", "matching_attributes", "same_label", "shared_tags"],
    "evaluation.results": ["Evaluation", "Score"],
    "search.answers": ["recall_of"],
    "shards.gallery": ["Shards"],
    "evaluation.code_space": ["usage"],
    "study.study": ["Study"],
    "evaluation.tally": ["Tally"],
    "evaluation.trec": ["read_qrels", "read_run"],
}
_MODULES = {
    "curves": "metrics.curves",
    "datasets": "datasets",
    "discovery": "discovery",
    "encoders": "encoders",
    "hashers": "hashers",
    "learning": "learning",
    "metrics": "metrics",
    "search": "search",
    "space": "evaluation.code_space",
}


def __getattr__(name: str) -> typing.Any:
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = getattr(importlib.import_module(f"lookalike.{home}"), name)
            return globals()[name]
    if name in _MODULES:
        globals()[name] = importlib.import_module(f"lookalike.{_MODULES[name]}")
        return globals()[name]
    raise AttributeError(f"module 'lookalike' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
