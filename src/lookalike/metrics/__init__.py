"""Metrics: functions of counts, for each query expected, best and worst over all orders of tied items."""

from lookalike.metrics.average_precision import average_precision
from lookalike.metrics.discovery import discovery_hit_rate, discovery_reciprocal_rank
from lookalike.metrics.first import hit, reciprocal_rank
from lookalike.metrics.gain import dcg, ndcg
from lookalike.metrics.local_group import local_group_average_precision
from lookalike.metrics.measures import MEASURES, Measure
from lookalike.metrics.names import Metric
from lookalike.metrics.pooled import PooledPrecisionRecall, PooledRoc, ratio_of_sums
from lookalike.metrics.preference import binary_preference
from lookalike.metrics.rank_biased import rank_biased_precision, rank_biased_residual
from lookalike.metrics.retrieved import precision, precision_within, recall, recall_within
from lookalike.metrics.thresholds import area_under_precision_recall, area_under_roc
from lookalike.metrics.values import Values

__all__ = [
    "MEASURES",
    "Measure",
    "Metric",
    "PooledPrecisionRecall",
    "PooledRoc",
    "Values",
    "area_under_precision_recall",
    "area_under_roc",
    "average_precision",
    "binary_preference",
    "dcg",
    "discovery_hit_rate",
    "discovery_reciprocal_rank",
    "hit",
    "local_group_average_precision",
    "ndcg",
    "precision",
    "precision_within",
    "rank_biased_precision",
    "rank_biased_residual",
    "ratio_of_sums",
    "recall",
    "recall_within",
    "reciprocal_rank",
]
