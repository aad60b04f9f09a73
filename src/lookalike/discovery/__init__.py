"""Discovery of similar pairs: which pairs to judge, judgements from votes, and a fair leaderboard of models."""

from lookalike.discovery.agreement import Agreement, agreement
from lookalike.discovery.bias import by_rule, identification, leave_one_out
from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.collection import Collection
from lookalike.discovery.contest import Contest
from lookalike.discovery.coverage import Coverage, coverage
from lookalike.discovery.dawid_skene import dawid_skene
from lookalike.discovery.judgements import Judgements, majority, mean, median, unanimous
from lookalike.discovery.judging_order import judge_in_order, next_pairs
from lookalike.discovery.leaderboard import Leaderboard, discovery_metrics, leaderboard
from lookalike.discovery.paper_tables import PaperTables, paper_tables
from lookalike.discovery.pool import Pool
from lookalike.discovery.prevalence import Prevalence, prevalence
from lookalike.discovery.recognition import Recognition, recognition
from lookalike.discovery.rules import GoldScore, gold_scores
from lookalike.discovery.scale import Scale
from lookalike.discovery.votes import Votes

__all__ = [
    "Agreement",
    "Catalogue",
    "Collection",
    "Contest",
    "Coverage",
    "GoldScore",
    "Judgements",
    "Leaderboard",
    "PaperTables",
    "Pool",
    "Prevalence",
    "Recognition",
    "Scale",
    "Votes",
    "agreement",
    "by_rule",
    "coverage",
    "dawid_skene",
    "discovery_metrics",
    "gold_scores",
    "identification",
    "judge_in_order",
    "leaderboard",
    "leave_one_out",
    "majority",
    "mean",
    "median",
    "next_pairs",
    "paper_tables",
    "prevalence",
    "recognition",
    "unanimous",
]
