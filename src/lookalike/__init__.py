"""Lookalike: how good a visual search really is, exactly and fast."""

import importlib
import typing

from lookalike._version import __version__

if typing.TYPE_CHECKING:
    from lookalike import datasets, discovery, encoders, hashers, learning, metrics, search, space
    from lookalike.codes import Codes
    from lookalike.comparison import compare
    from lookalike.evaluation import count, count_scores, evaluate, evaluate_run, evaluate_scores, evaluate_tally
    from lookalike.metrics import curves
    from lookalike.metrics.names import Metric
    from lookalike.relevance import grades, hierarchy, judged, matching_attributes, same_label, shared_tags
    from lookalike.results import Evaluation, Score
    from lookalike.shards import Shards
    from lookalike.space import usage
    from lookalike.study import Study
    from lookalike.tally import Tally
    from lookalike.trec import read_qrels, read_run

__all__ = [
    "Codes",
    "Evaluation",
    "Metric",
    "Score",
    "Shards",
    "Study",
    "Tally",
    "__version__",
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
    "read_qrels",
    "read_run",
    "same_label",
    "search",
    "shared_tags",
    "space",
    "usage",
]

# Where each public name is loaded from when it is first used: importing the package costs next to nothing.
_HOMES = {
    "codes": ["Codes"],
    "comparison": ["compare"],
    "evaluation": ["count", "count_scores", "evaluate", "evaluate_run", "evaluate_scores", "evaluate_tally"],
    "metrics.names": ["Metric"],
    "relevance": ["grades", "hierarchy", "judged", "matching_attributes", "same_label", "shared_tags"],
    "results": ["Evaluation", "Score"],
    "shards": ["Shards"],
    "space": ["usage"],
    "study": ["Study"],
    "tally": ["Tally"],
    "trec": ["read_qrels", "read_run"],
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
    "space": "space",
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
