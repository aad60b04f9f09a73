"""The provider for ir_measures: pytrec_eval's numbers without ties, the expectation with them.

What a vacuous test would let pass: runs that rank every judged document, grades of 0 and 1 alone, a `rel` that is
always 1, queries that all have a relevant document, and means that hide which query counts 0.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RBP, RR, Bpref, Judged, P, R, Rprec, Success, nDCG

from lookalike.integrations import ir_measures as ours

BY_PYTREC_EVAL = [
    *(P @ 1, P @ 3, P(rel=2) @ 3, P(judged_only=True) @ 3, R @ 2, R(rel=2) @ 5, RR, RR(rel=2), RR(judged_only=True)),
    *(AP, AP @ 3, AP(rel=2), AP(rel=2) @ 2, AP(judged_only=True), nDCG, nDCG @ 3, nDCG(judged_only=True) @ 3),
    *(nDCG(gains={0: 0, 1: 1, 2: 7, 3: 50}), nDCG(gains={2: 5}) @ 2, Success @ 1, Success(rel=2) @ 3),
    *(Rprec, Rprec(rel=2), Rprec(judged_only=True), Bpref, Bpref(rel=2)),
]


@st.composite
def searches(draw: st.DrawFn, *, ties: bool = False) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgements and a run over a few queries: some judged alone, some ranked alone, some without a relevant item."""
    qrels, run = {}, {}
    for q in range(draw(st.integers(1, 4))):
        documents = [f"d{i}" for i in range(draw(st.integers(1, 8)))]
        judged = draw(st.lists(st.sampled_from(documents), min_size=1, unique=True))
        ranked = draw(st.lists(st.sampled_from(documents), min_size=1, unique=True))
        kind = draw(st.sampled_from(["both", "both", "both", "judged", "ranked"]))
        if kind != "ranked":
            qrels[f"q{q}"] = {document: draw(st.integers(0, 3)) for document in judged}
        if kind != "judged":
            places = [draw(st.integers(0, 1)) for _ in ranked] if ties else range(len(ranked))
            run[f"q{q}"] = {document: -float(place) for document, place in zip(ranked, places, strict=True)}
    qrels.setdefault("q", {"d": 1})
    run.setdefault("q", {"e": 1.0, "d": 0.5})
    return qrels, run


def by_query(metrics: Any) -> dict[tuple[str, str], float]:
    found = [((metric.query_id, str(metric.measure)), metric.value) for metric in metrics]
    assert len(dict(found)) == len(found)
    return dict(found)


@settings(deadline=None, max_examples=80)
@given(search=searches())
def test_without_ties_every_query_is_worth_what_pytrec_eval_says(search: Any) -> None:
    theirs = by_query(ir_measures.pytrec_eval.iter_calc(BY_PYTREC_EVAL, *search))
    found = by_query(ours.iter_calc(BY_PYTREC_EVAL, *search))
    assert found.keys() == theirs.keys() == {(query, str(measure)) for query in search[0] for measure in BY_PYTREC_EVAL}
    for key, value in theirs.items():
        assert found[key] == pytest.approx(value, abs=1e-9), (key, search)


@settings(deadline=None, max_examples=60)
@given(search=searches(ties=True))
def test_judged_is_that_of_ir_measures_where_names_cannot_matter(search: Any) -> None:
    qrels, run = search
    alone = {query: dict(list(documents.items())[:1]) for query, documents in run.items()}
    measures = [Judged, Judged @ 2, Judged @ 100]
    theirs = by_query(ir_measures.judged.iter_calc(measures, qrels, alone))
    found = by_query(ours.iter_calc(measures, qrels, alone))
    for key, value in theirs.items():
        assert found[key] == pytest.approx(value), (key, search)
    whole = by_query(ours.iter_calc([Judged], qrels, run))
    for (query, _), value in whole.items():
        judged = [document for document in run.get(query, {}) if document in qrels[query]]
        assert value == pytest.approx(len(judged) / max(len(run.get(query, {})), 1))


@settings(deadline=None, max_examples=40)
@given(search=searches())
def test_reciprocal_rank_with_a_cutoff_is_that_of_msmarco(search: Any) -> None:
    theirs = by_query(ir_measures.msmarco.iter_calc([RR @ 2, RR(rel=2) @ 3], *search))
    found = by_query(ours.iter_calc([RR @ 2, RR(rel=2) @ 3], *search))
    assert found == pytest.approx(theirs, abs=1e-12)


def test_gains_are_linear_unless_exponential_ones_are_asked_for() -> None:
    qrels, run = {"q": {"a": 1, "b": 3}}, {"q": {"a": 2.0, "b": 1.0}}
    second = 1 / np.log2(3)
    exponential = nDCG(dcg="exp-log2") @ 10
    found = ours.calc_aggregate([nDCG @ 10, exponential], qrels, run)
    assert found[nDCG @ 10] == pytest.approx((1 + 3 * second) / (3 + second))
    assert found[exponential] == pytest.approx((1 + 7 * second) / (7 + second))


def test_rank_biased_precision_by_hand() -> None:
    qrels, run = {"q": {"a": 2, "b": 1, "c": 2}}, {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    found = ours.calc_aggregate([RBP(rel=2, p=0.5), RBP(rel=1, p=0.5) @ 2], qrels, run)
    assert list(found.values()) == pytest.approx([0.5 * (1 + 0.25), 0.5 * (1 + 0.5)])


# Ties


def test_with_ties_names_decide_what_pytrec_eval_says_and_not_what_we_say() -> None:
    """Two tied documents, one relevant: AP is 1 or 1/2 there, as the relevant one is called b or a; always 3/4 here."""
    for relevant, wanted in (("b", 1.0), ("a", 0.5)):
        qrels, run = {"q": {relevant: 1}}, {"q": {"a": 1.0, "b": 1.0}}
        assert ir_measures.pytrec_eval.calc_aggregate([AP], qrels, run)[AP] == wanted
        assert ours.calc_aggregate([AP], qrels, run)[AP] == pytest.approx(0.75)


@settings(deadline=None, max_examples=40)
@given(search=searches(ties=True))
def test_with_ties_pytrec_eval_is_right_on_average_over_names(search: Any) -> None:
    """Over all ways to name the documents, pytrec_eval gives the expectation."""
    qrels, run = search
    query = next(query for query in qrels if query in run)
    documents = sorted({*qrels[query], *run[query]})
    if len(documents) > 5:
        return
    measures = [AP, nDCG @ 2, P @ 2, RR]
    sums = dict.fromkeys(measures, 0.0)
    orders = list(itertools.permutations(documents))
    for order in orders:
        new = dict(zip(documents, order, strict=True))
        renamed = [{query: {new[document]: value for document, value in part[query].items()}} for part in (qrels, run)]
        for measure, value in ir_measures.pytrec_eval.calc_aggregate(measures, *renamed).items():
            sums[measure] += value / len(orders)
    found = ours.calc_aggregate(measures, {query: qrels[query]}, {query: run[query]})
    for measure in measures:
        assert found[measure] == pytest.approx(sums[measure], abs=1e-9)


# Undefined, missing and wrong


def test_missing_queries_count_as_ir_measures_has_it() -> None:
    qrels = {"easy": {"a": 1}, "hard": {"a": 1}, "nothing": {"a": 0}}
    run = {"easy": {"a": 1.0}, "nothing": {"a": 1.0}, "unknown": {"a": 1.0}}
    for provider in (ir_measures.pytrec_eval, ours.PROVIDER):
        found = by_query(provider.iter_calc([AP, nDCG], qrels, run))
        assert found == {
            (query, name): float(query == "easy") for query in qrels for name in ("AP", "nDCG")
        }  # fmt: skip
        assert provider.calc_aggregate([AP], qrels, run)[AP] == pytest.approx(1 / 3)
    for provider in (ir_measures.pytrec_eval, ours.PROVIDER):
        assert provider.calc_aggregate([AP], qrels, {"other": {"a": 1.0}})[AP] == 0


def test_tables_and_tuples_are_taken_too() -> None:
    qrels = [ir_measures.Qrel("q", "a", 1), ir_measures.Qrel("q", "b", 0)]
    run = [ir_measures.ScoredDoc("q", "b", 1.0), ir_measures.ScoredDoc("q", "a", 0.5)]
    assert ours.calc_aggregate([AP], qrels, run)[AP] == 0.5
    assert ours.calc_aggregate([AP], pd.DataFrame(qrels), pd.DataFrame(run))[AP] == 0.5
    aggregated, per_query = ours.calc([AP], qrels, run)
    assert aggregated[AP] == per_query[0].value == 0.5


@pytest.mark.parametrize("measure", [ir_measures.ERR @ 10, RBP, AP(rel=0)])
def test_other_measures_are_refused_by_name(measure: Any) -> None:
    with pytest.raises(ValueError, match="the provider lookalike has no"):
        ours.calc_aggregate([measure], {"q": {"a": 1}}, {"q": {"a": 1.0}})
    assert not ours.PROVIDER.supports(measure)


def test_a_grade_below_zero_is_a_judgement_of_zero() -> None:
    """As the providers judged and cwl_eval have it; pytrec_eval does not end where all grades are below 0."""
    found = ours.calc_aggregate([AP, Judged @ 2], {"q": {"a": -2, "b": 1}}, {"q": {"a": 1.0, "b": 0.5}})
    assert found == {AP: 0.5, Judged @ 2: 1.0}
    assert ir_measures.judged.calc_aggregate([Judged @ 2], {"q": {"a": -2}}, {"q": {"a": 1.0}})[Judged @ 2] == 1.0


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="a score that is not a number"):
        ours.calc_aggregate([AP], {"q": {"a": 1}}, {"q": {"a": float("nan")}})


def test_importing_the_room_loads_none_of_it() -> None:
    code = (
        "import lookalike, lookalike.integrations, sys; print('ir_measures' in sys.modules, 'sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 b 0\nr 0 a 1\n")
    (tmp_path / "run").write_text("q Q0 a 1 1.0 x\nq Q0 b 2 1.0 x\n")
    command = [sys.executable, "-m", "lookalike.integrations.ir_measures", "--provider", "lookalike"]
    done = subprocess.run(
        [*command, "qrels", "run", "AP", "nDCG@10", "RR", "-q"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert ["q", "AP", "0.7500"] in lines
    assert ["all", "AP", "0.3750"] in lines
    assert ["r", "nDCG@10", "0.0000"] in lines


def test_a_grade_below_0_is_unjudged_for_bpref() -> None:
    """By hand, since trec_eval's C code may not return on such grades: a has none above it, d has b: (1 + 0) / 2."""
    qrels = {"q": {"a": 1, "b": 0, "c": -1, "d": 1}}
    run = {"q": {"c": 4.0, "a": 3.0, "b": 2.0, "d": 1.0}}
    assert ours.calc_aggregate([Bpref], qrels, run) == {Bpref: 0.5}
    assert ours.calc_aggregate([AP], qrels, run)[AP] == pytest.approx((1 / 2 + 2 / 4) / 2)
