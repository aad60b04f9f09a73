"""Lookalike: how good a visual search really is, exactly and fast."""

from lookalike import metrics
from lookalike._version import __version__
from lookalike.codes import Codes
from lookalike.comparison import compare
from lookalike.evaluation import count, count_scores, evaluate, evaluate_run, evaluate_scores, evaluate_tally
from lookalike.metrics import curves
from lookalike.metrics.names import Metric
from lookalike.relevance import grades, hierarchy, judged, matching_attributes, same_label, shared_tags
from lookalike.results import Evaluation, Score
from lookalike.tally import Tally
from lookalike.trec import read_qrels, read_run

__all__ = [
    "Codes",
    "Evaluation",
    "Metric",
    "Score",
    "Tally",
    "__version__",
    "compare",
    "count",
    "count_scores",
    "curves",
    "evaluate",
    "evaluate_run",
    "evaluate_scores",
    "evaluate_tally",
    "grades",
    "hierarchy",
    "judged",
    "matching_attributes",
    "metrics",
    "read_qrels",
    "read_run",
    "same_label",
    "shared_tags",
]
