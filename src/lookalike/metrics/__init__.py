"""Metrics: functions of counts, for each query expected, best and worst over all orders of tied items."""

from lookalike.metrics.areas import area_under_precision_recall, area_under_roc
from lookalike.metrics.average_precision import average_precision, average_precision_at_r
from lookalike.metrics.bpref import binary_preference
from lookalike.metrics.dcg import dcg, ndcg
from lookalike.metrics.false_non_match import PooledFalseNonMatch, false_non_match_rate
from lookalike.metrics.lgap import local_group_average_precision
from lookalike.metrics.metric import Metric
from lookalike.metrics.micro_average import PooledPrecisionRecall, PooledRoc, ratio_of_sums
from lookalike.metrics.precision_recall import precision, precision_at_r, precision_within, recall, recall_within
from lookalike.metrics.rbp import rank_biased_precision, rank_biased_residual
from lookalike.metrics.reciprocal_rank import hit, reciprocal_rank
from lookalike.metrics.registry import MEASURES, Measure
from lookalike.metrics.values import Values
from lookalike.metrics.vsd import discovery_hit_rate, discovery_reciprocal_rank

__all__ = [
    "MEASURES",
    "Measure",
    "Metric",
    "PooledFalseNonMatch",
    "PooledPrecisionRecall",
    "PooledRoc",
    "Values",
    "area_under_precision_recall",
    "area_under_roc",
    "average_precision",
    "average_precision_at_r",
    "binary_preference",
    "dcg",
    "discovery_hit_rate",
    "discovery_reciprocal_rank",
    "false_non_match_rate",
    "hit",
    "local_group_average_precision",
    "ndcg",
    "precision",
    "precision_at_r",
    "precision_within",
    "rank_biased_precision",
    "rank_biased_residual",
    "ratio_of_sums",
    "recall",
    "recall_within",
    "reciprocal_rank",
]
