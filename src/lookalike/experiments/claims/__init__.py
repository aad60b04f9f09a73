"""The claims of five papers, each in a file of its own, and how each is tried again."""

from lookalike.experiments.claims import (
    ap_denominators,
    argsort_ties,
    closed_form,
    dispersion,
    distance_identity,
    error_bound,
    fine_tuning,
    generator_overlap,
    gradient_cost,
    growing_alpha,
    judging_cost,
    leave_one_out_spearman,
    order_of_ties,
    pool_bias,
    pool_richness,
    ranking_against_pairs,
    sampled_negatives,
    supervision_collapses,
    ten_on_one_code,
    two_thirds,
    unsupervised_hashers,
    visual_distance,
)
from lookalike.experiments.claims.claim import BUDGETS, VERDICTS, Check, MeasuredNumber, Numbers, PaperClaim, verdict_of

MODULES = (
    distance_identity,
    ap_denominators,
    argsort_ties,
    closed_form,
    error_bound,
    growing_alpha,
    ranking_against_pairs,
    gradient_cost,
    order_of_ties,
    ten_on_one_code,
    unsupervised_hashers,
    supervision_collapses,
    two_thirds,
    dispersion,
    visual_distance,
    judging_cost,
    pool_richness,
    generator_overlap,
    pool_bias,
    leave_one_out_spearman,
    sampled_negatives,
    fine_tuning,
)
CLAIMS: dict[str, PaperClaim] = {module.CLAIM.name: module.CLAIM for module in MODULES}

__all__ = ["BUDGETS", "CLAIMS", "VERDICTS", "Check", "MeasuredNumber", "Numbers", "PaperClaim", "verdict_of"]
