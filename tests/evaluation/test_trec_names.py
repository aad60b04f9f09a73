"""trec_eval's names mean exactly what trec_eval computes, and its order of ties can be asked for.

Compared with pytrec_eval: without ties in every order, with ties in trec_eval's own, which goes by scores in single
precision and then by names. What a vacuous test would let pass: runs without ties, grades of 0 and 1 alone (their nDCG
is the same with every gain), scores that single precision keeps apart, names in the order of the scores.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.metrics.metric import TREC_NAMES, Metric

CUTOFFS = (1, 3, 5, 10)
NAMES = [name.replace("K", str(k)) for name in TREC_NAMES for k in (CUTOFFS if "K" in name else (0,))]
WORDS = st.text(st.sampled_from("aAzZ09-_.é中"), min_size=1, max_size=3)
NEAR = [1.0, 1.0 + 1e-10, 1.0 + 1e-7, 16777216.0, 16777217.0, 1e300, 2e300, -1e300, -1.0, 0.0]


@st.composite
def pools(draw: st.DrawFn, *, ties: bool) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    qrels, run = {}, {}
    for q in range(draw(st.integers(1, 3))):
        items = draw(st.lists(WORDS, min_size=1, max_size=9, unique=True))
        judged = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
        qrels[f"q{q}"] = {item: draw(st.integers(0, 3)) for item in judged}
        ranked = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
        scores = [draw(st.sampled_from(NEAR)) for _ in ranked] if ties else [-float(i) for i in range(len(ranked))]
        run[f"q{q}"] = dict(zip(ranked, scores, strict=True))
    return qrels, run


def assert_those_of_trec_eval(
    result: la.Evaluation, qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]], names: list[str]
) -> None:
    found = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)
    assert result.query_ids.tolist() == list(qrels)
    for name in names:
        wanted = [found[query][name] for query in qrels]
        for part in ("per_query", "best_per_query", "worst_per_query"):
            values = getattr(result[name], part)
            np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-12, err_msg=f"{name} of {qrels}, {run}")


@pytest.mark.parametrize("ties", ["expected", "trec_eval"])
@settings(deadline=None, max_examples=60)
@given(pool=pools(ties=False))
def test_names_of_trec_eval_without_ties(
    ties: str, pool: tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]
) -> None:
    qrels, run = pool
    result = la.evaluate_run(run, la.judged(qrels), NAMES, unjudged="irrelevant", ties=ties)
    assert_those_of_trec_eval(result, qrels, run, NAMES)


@settings(deadline=None, max_examples=150)
@given(pool=pools(ties=True))
def test_names_of_trec_eval_in_its_order_of_ties(
    pool: tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]],
) -> None:
    qrels, run = pool
    result = la.evaluate_run(run, la.judged(qrels), NAMES, unjudged="irrelevant", ties="trec_eval")
    assert_those_of_trec_eval(result, qrels, run, NAMES)


def test_a_deep_run_with_ties_in_the_order_of_trec_eval() -> None:
    rng = np.random.default_rng(2)
    qrels = {f"q{q}": {f"d{i}": int(rng.integers(0, 4)) for i in rng.permutation(900)[:500]} for q in range(4)}
    run = {f"q{q}": {f"d{i}": float(rng.integers(0, 9)) for i in rng.permutation(900)[:600]} for q in range(4)}
    result = la.evaluate_run(run, la.judged(qrels), NAMES, unjudged="irrelevant", ties="trec_eval")
    assert_those_of_trec_eval(result, qrels, run, NAMES)
    expected = la.evaluate_run(run, la.judged(qrels), NAMES, unjudged="irrelevant")
    assert abs(expected["map"].mean - result["map"].mean) > 1e-4
    assert expected["map"].worst < result["map"].mean < expected["map"].best
    assert result.about["inputs"]["run"] == expected.about["inputs"]["run"]
    assert "order of trec_eval" in str(result)
    assert "trec_eval" not in str(expected)


def test_names_are_those_of_our_metrics() -> None:
    assert {name: str(Metric.parse(name.replace("K", "7"))) for name in TREC_NAMES} == {
        "map": "AP",
        "map_cut_K": "AP(norm='total')@7",
        "ndcg": "nDCG(gain='linear')",
        "ndcg_cut_K": "nDCG(gain='linear')@7",
        "P_K": "P@7",
        "recall_K": "R@7",
        "Rprec": "RPrecision",
        "recip_rank": "RR",
        "success_K": "Hit@7",
        "bpref": "Bpref",
    }
    assert str(Metric.parse(" P_5 (rel=2) ")) == "P(rel=2)@5"
    for wrong in ("ndcg@10", "map_cut", "P_0", "recall_x", "bpref_5", "map_cut_5(norm='min')", "recip_rank_10"):
        with pytest.raises(ValueError, match=r"metric|cutoff|twice"):
            Metric.parse(wrong)


def test_trec_eval_has_no_area_and_takes_no_other_order() -> None:
    relevance = la.judged({"q": {"a": 1, "b": 0}})
    with pytest.raises(ValueError, match="trec_eval has no AUC: leave it out"):
        la.evaluate_run({"q": {"a": 1.0}}, relevance, "map AUC", ties="trec_eval")
    with pytest.raises(ValueError, match="ties must be one of 'expected', 'trec_eval', got 'names'"):
        la.evaluate_run({"q": {"a": 1.0}}, relevance, "map", ties="names")
    with pytest.raises(ValueError, match="not a number"):
        la.evaluate_run({"q": {"a": math.nan}}, relevance, "map", ties="trec_eval")
