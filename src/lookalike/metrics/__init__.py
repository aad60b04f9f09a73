"""Metrics: functions of counts, for each query expected, best and worst over all orders of tied items."""

from lookalike.metrics.average_precision import average_precision
from lookalike.metrics.first import hit, reciprocal_rank
from lookalike.metrics.gain import dcg, ndcg
from lookalike.metrics.local_group import local_group_average_precision
from lookalike.metrics.names import MEASURES, Measure, Metric
from lookalike.metrics.retrieved import precision, precision_within, recall, recall_within
from lookalike.metrics.thresholds import area_under_precision_recall, area_under_roc
from lookalike.metrics.values import Values

__all__ = [
    "MEASURES",
    "Measure",
    "Metric",
    "Values",
    "area_under_precision_recall",
    "area_under_roc",
    "average_precision",
    "dcg",
    "hit",
    "local_group_average_precision",
    "ndcg",
    "precision",
    "precision_within",
    "recall",
    "recall_within",
    "reciprocal_rank",
]
