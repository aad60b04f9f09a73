"""Judged items that a run does not list: one rule for AUC and PRAUC, in evaluations and on leaderboards.

They tie below all that the run lists, or are left out. What a vacuous test would let pass: runs that list everything
that is judged; one query; scores without ties; a listed item of score -inf that ties with those that are not listed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import lookalike as la
from helpers.commands import numbers, run
from lookalike.discovery import Collection, Judgements, leaderboard
from lookalike.evaluation.trec import write_qrels, write_run

AREAS = ["AUC", "PRAUC", "AUC(average='micro')", "PRAUC(average='micro')", "AUC(rel=2)"]
METRICS = [*AREAS, "Bpref", "P@3", "AP(norm='total')@2"]
Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Qrels, Run]:
    """Judgements and a run with ties: some judged items are not listed, some listed items not judged."""
    qrels: Qrels = {}
    ranked: Run = {}
    for q in range(draw(st.integers(1, 4))):
        items = [f"d{i}" for i in range(draw(st.integers(1, 8)))]
        judged = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
        qrels[f"q{q}"] = {item: draw(st.integers(0, 2)) for item in judged}
        listed = draw(st.lists(st.sampled_from(items), min_size=int(q == 0), unique=True))
        if listed:
            scores = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0])
            ranked[f"q{q}"] = {item: draw(scores) for item in listed}
    return qrels, ranked


def board_of(qrels: Qrels, ranked: Run, unlisted: str) -> la.Evaluation:
    items = dict.fromkeys(item for by_query in (qrels, ranked) for some in by_query.values() for item in some)
    board = leaderboard(
        {"run": ranked},
        Judgements.of(qrels),
        Collection(list(qrels), [*items, "x", "y", "z"]),
        metrics=METRICS,
        resamples=1,
        unlisted=unlisted,
    )
    return board["run"]


@pytest.mark.parametrize("unlisted", ["below", "out"])
@settings(deadline=None, max_examples=80)
@given(case=cases())
def test_an_evaluation_and_a_leaderboard_give_one_number(unlisted: str, case: tuple[Qrels, Run]) -> None:
    qrels, ranked = case
    found = {
        name: la.evaluate_run(
            ranked, la.judged(qrels), [name], unlisted=unlisted, unjudged="irrelevant" if "@" in name else None
        )[name]
        for name in METRICS
    }
    board = board_of(qrels, ranked, unlisted)
    for name in METRICS:
        ours, theirs = found[name], board[name]
        for part in ("per_query", "best_per_query", "worst_per_query"):
            np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part), err_msg=f"{name} {part}")
        assert ours.undefined == theirs.undefined


@settings(deadline=None, max_examples=150)
@given(case=cases())
def test_areas_are_those_of_scikit_learn_with_unlisted_items_last(case: tuple[Qrels, Run]) -> None:
    qrels, ranked = case
    result = la.evaluate_run(ranked, la.judged(qrels), AREAS)
    rows = [
        (q, grade > 0, -1e9 if item not in ranked.get(query, {}) else max(ranked[query][item], -1e8))
        for q, (query, judged) in enumerate(qrels.items())
        for item, grade in judged.items()
    ]
    queries, relevant, scores = (np.array(column) for column in zip(*rows, strict=True))
    for name, peer in (("AUC", roc_auc_score), ("PRAUC", average_precision_score)):
        each = [queries == q for q in range(len(qrels))]
        both = [q for q in each if 0 < relevant[q].sum() < q.sum()]
        wanted = np.mean([peer(relevant[q], scores[q]) for q in both]) if both else np.nan
        assert result[name].mean == pytest.approx(wanted, abs=1e-12, nan_ok=True)
        assert result[name].undefined == len(each) - len(both)
        whole = peer(relevant, scores) if 0 < relevant.sum() < len(relevant) else np.nan
        assert result[f"{name}(average='micro')"].mean == pytest.approx(whole, abs=1e-12, nan_ok=True)


@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_left_out_is_as_if_nobody_had_judged_them(case: tuple[Qrels, Run]) -> None:
    qrels, ranked = case
    gone = [(q, item) for q, judged in qrels.items() for item in judged if item not in ranked.get(q, {})]
    out = la.evaluate_run(ranked, la.judged(qrels), AREAS, unlisted="out")
    less = la.evaluate_run(ranked, la.judged(qrels).without(gone), AREAS)
    for name in AREAS:
        np.testing.assert_array_equal(out[name].per_query, less[name].per_query)
    assert ("unlisted" in out.about) == bool(gone)
    assert "unlisted" not in less.about


# Other sources than runs

QRELS: Qrels = {"q0": {"d0": 1, "d1": 0, "gone": 1}, "q1": {"d2": 1, "d1": 0, "lost": 0}}


def test_items_that_are_not_in_the_gallery_tie_below_all_that_are() -> None:
    """The same pairs from scores, codes, embeddings and a run that lists the whole gallery."""
    ids: dict[str, Any] = {"query_ids": ["q0", "q1"], "gallery_ids": ["d0", "d1", "d2"]}
    bits = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 1], [0, 0, 0]])
    codes = la.Codes.pack(bits)
    scores = -(bits[:2, None] != bits[None, 2:]).sum(2).astype(float)
    ranked = {q: dict(zip(ids["gallery_ids"], row, strict=True)) for q, row in zip(QRELS, scores.tolist(), strict=True)}
    relevance = la.judged(QRELS)
    wanted = la.evaluate_run(ranked, relevance, AREAS)
    results = [
        la.evaluate_scores(scores, relevance, AREAS, **ids),
        la.evaluate(codes[:2], codes[2:], relevance, AREAS, **ids),
        la.evaluate_tally(la.count(codes[:2], codes[2:], relevance, **ids), AREAS),
        la.evaluate_tally(
            la.count(codes[:2], codes[2:4], relevance, query_ids=["q0", "q1"], gallery_ids=["d0", "d1"])
            + la.count(codes[:2], codes[4:], relevance, query_ids=["q0", "q1"], gallery_ids=["d2"]),
            AREAS,
        ),
    ]
    for result in results:
        for name in AREAS:
            np.testing.assert_allclose(result[name].per_query, wanted[name].per_query, atol=1e-15)
        assert result.about["unlisted"] == "below"
        assert str(result).endswith("\nAUC, PRAUC: judged items not in the gallery tie below all in it")
    assert wanted["AUC"].per_query.tolist() == [0.5, 0.75]  # "gone" below d1; d2 ties with d1, "lost" below


def test_sampled_negatives_that_a_run_does_not_list_tie_below_too() -> None:
    relevance = la.judged({"q": {"a": 1, "b": 1}}, sampled=[("q", "x"), ("q", "y")])
    name = "AUC(negatives='sampled')"
    assert la.evaluate_run({"q": {"a": 2.0, "x": 1.0}}, relevance, [name])[name].mean == (2 + 0.5) / 4
    assert la.evaluate_run({"q": {"a": 2.0, "x": 1.0}}, relevance, [name], unlisted="out")[name].mean == 1


# What is said


def test_the_rule_is_told_only_where_it_matters() -> None:
    relevance = la.judged({"q": {"a": 1, "b": 0, "c": 1}})
    short, whole = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    told = "AUC: judged items that the run does not list tie below all that it lists (unlisted='out' leaves them out)"
    assert la.evaluate_run(short, relevance, "AUC AP").conventions() == [told]
    assert la.evaluate_run(short, relevance, "AP").conventions() == []
    assert la.evaluate_run(whole, relevance, "AUC").conventions() == []
    out = la.evaluate_run(short, relevance, "PRAUC", unlisted="out")
    assert out.conventions() == ["PRAUC: judged items that the run does not list are left out"]
    with pytest.raises(ValueError, match="unlisted must be one of 'below', 'out', got 'last'"):
        la.evaluate_run(short, relevance, "AUC", unlisted="last")


def test_both_commands_give_one_number_and_tell_the_rule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    qrels = [(f"q{q}", f"d{i}", int(rng.random() < 0.4)) for q in range(12) for i in rng.permutation(40)[:25]]
    write_qrels(tmp_path / "a.qrels", qrels)
    ranked = [(f"q{q}", f"d{i}", float(rng.integers(0, 6))) for q in range(12) for i in rng.permutation(40)[:15]]
    write_run(tmp_path / "a.run", ranked)
    ask = ["--qrels", tmp_path / "a.qrels", "--metrics", " ".join(AREAS[:4])]
    seen = []
    for option in ([], ["--unlisted", "out"]):
        one = numbers(capsys, "evaluate", "--run", tmp_path / "a.run", *ask, *option)
        two = numbers(capsys, "leaderboard", "--run", f"a={tmp_path / 'a.run'}", *ask, *option)
        means = [row["mean"] for row in one["scores"]]
        assert means == [row["mean"] for row in two["rows"]]
        assert one["unlisted"] == two["unlisted"] == (option[1] if option else "below")
        seen.append(means)
    assert (np.abs(np.diff(seen, axis=0)) > 0.005).all()
    for command in (["evaluate", "--run", tmp_path / "a.run"], ["leaderboard", "--run", f"a={tmp_path / 'a.run'}"]):
        code, out, _ = run(capsys, *command, *ask)
        told = "judged items that the run does not list tie below all that it lists (--unlisted out leaves them out)"
        assert code == 0
        assert f"AUC, PRAUC: {told}" in " ".join(out.split())


def test_a_saved_result_keeps_the_rule(tmp_path: Path) -> None:
    result = la.evaluate_run({"q": {"a": 2.0}}, la.judged({"q": {"a": 1, "b": 0}}), "AUC")
    result.to_json(tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text())["unlisted"] == "below"
    assert la.Evaluation.from_json(tmp_path / "x.json").conventions() == result.conventions() != []
