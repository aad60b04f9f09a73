"""Metrics of judged pairs: against trec_eval, scikit-learn and resampling; the same for every kind of input.

The table of families in test_metrics.py compares Judged, Bpref, RBP, VSDHR and VSDMRR with the enumeration of every
order. Here is what concerns several queries at once (micro averages, ratios of sums), which pairs count (unjudged
items, sampled negatives, judgements inherited by a product) and what other libraries say.

What a vacuous test would let pass: a micro average that is a macro average (they are far apart here, and asserted to
be); an influence that sums to 0 and is otherwise wrong (compared with derivatives and with resampling); scores of
different queries that were never comparable (cosines of queries of different lengths); negatives that stayed the judged
ones.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import lookalike as la
from helpers.judged import TOLERANCE, Array, Study, assert_intervals_agree, close, micro, resampled, study
from helpers.strategies import Rankings, rankings
from lookalike.core.embeddings import Scores
from lookalike.evaluation.count_scores import ScoreCounter
from lookalike.evaluation.needs import Needs
from lookalike.evaluation.relevance import Groups
from lookalike.evaluation.request import Request
from reference import definitions
from reference.definitions import Bounds

PEERS = {"AUC": roc_auc_score, "PRAUC": average_precision_score}


@st.composite
def pools(draw: st.DrawFn) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgements and a run without ties; some judged items are not ranked, some ranked items not judged."""
    qrels, run = {}, {}
    for q in range(draw(st.integers(1, 3))):
        items = [f"item{i}" for i in range(draw(st.integers(1, 12)))]
        judged = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
        qrels[f"q{q}"] = {item: draw(st.sampled_from([0, 0, 1, 2])) for item in judged}
        ranked = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
        run[f"q{q}"] = {item: -float(place) for place, item in enumerate(ranked)}
    return qrels, run


@settings(deadline=None, max_examples=200)
@given(pool=pools(), rel=st.sampled_from([1, 2]))
def test_bpref_is_that_of_trec_eval(pool: Any, rel: int) -> None:
    qrels, run = pool
    name = f"Bpref(rel={rel})"
    score = la.evaluate_run(run, la.judged(qrels), [name])[name]
    found = pytrec_eval.RelevanceEvaluator(qrels, {"bpref"}, relevance_level=rel).evaluate(run)
    wanted = [found[query]["bpref"] for query in qrels]
    for values in (score.per_query, score.best_per_query, score.worst_per_query):
        np.testing.assert_allclose(values, wanted, rtol=0, atol=TOLERANCE, err_msg=str(pool))


def test_bpref_of_deep_runs_is_that_of_trec_eval() -> None:
    rng = np.random.default_rng(3)
    qrels, run = {}, {}
    for q, share in enumerate((0.02, 0.2, 0.5, 0.9)):  # fewer and more relevant than irrelevant items
        judged, ranked = rng.permutation(3000)[:1500], rng.permutation(3000)[:2000]
        qrels[f"q{q}"] = {f"d{i}": int(rng.random() < share) for i in judged}
        run[f"q{q}"] = {f"d{i}": float(-place) for place, i in enumerate(ranked)}
    found = pytrec_eval.RelevanceEvaluator(qrels, {"bpref"}).evaluate(run)
    score = la.evaluate_run(run, la.judged(qrels), ["Bpref"])["Bpref"]
    assert score.per_query == close(np.array([found[query]["bpref"] for query in qrels]))
    assert np.ptp(score.per_query) > 0.3


def test_precision_between_its_bounds_and_trec_eval_at_the_lower() -> None:
    case = study(1)
    bounds = {policy: la.evaluate_run(case.run, case.relevance, "P@5", unjudged=policy)["P@5"].per_query
              for policy in ("irrelevant", "relevant")}  # fmt: skip
    broken = {
        q: {item: score - 1e-3 * i for i, (item, score) in enumerate(items.items())} for q, items in case.run.items()
    }
    found = pytrec_eval.RelevanceEvaluator(case.qrels, {"P_5"}).evaluate(broken)
    lower = la.evaluate_run(broken, case.relevance, "P@5", unjudged="irrelevant")["P@5"].per_query
    assert lower == close(np.array([found[query]["P_5"] for query in case.query_ids]))
    judged = la.evaluate_run(case.run, case.relevance, "Judged@5")["Judged@5"].per_query
    assert bounds["relevant"] - bounds["irrelevant"] == close(1 - judged)
    assert 0.2 < judged.mean() < 0.8


def test_rbp_and_its_residual_are_those_of_its_authors() -> None:
    """cwl-eval 1.0.12 (Azzopardi, Thomas, Moffat) prints, with -r, these of qrels and run below; z is not ranked."""
    qrels = la.judged({"q": {"a": 1, "b": 0, "d": 1, "e": 0, "z": 1}})
    run = {"q": {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0, "e": 5.0, "f": 4.0}}
    printed = {0.2: (0.8064, 0.0323), 0.4: (0.6384, 0.1062), 0.8: (0.3024, 0.4557)}
    for p, (wanted, residual) in printed.items():
        names = [f"RBP(p={p})", f"RBP(p={p}, part='residual')"]
        result = la.evaluate_run(run, qrels, names)
        assert [result[name].mean for name in names] == pytest.approx([wanted, residual], abs=5e-5)


def test_rbp_by_hand() -> None:
    """Ranks 1 (relevant), 2 (unjudged), 3 (irrelevant), 4 (relevant); cut at 2, ranks 3, 4, … are not looked at."""
    run = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}
    result = la.evaluate_run(
        run,
        la.judged({"q": {"a": 1, "c": 0, "d": 2}}),
        [
            "RBP(p=0.5)",
            "RBP(p=0.5)@2",
            "RBP(p=0.5, rel=2)",
            "RBP(p=0.5, part='residual')",
            "RBP(p=0.5, part='residual')@2",
        ],
    )
    wanted = [1 / 2 + 1 / 16, 1 / 2, 1 / 16, 1 / 4 + 1 / 16, 1 / 4 + 1 / 4]
    assert [score.mean for score in result.scores.values()] == close(wanted)


def test_rbp_of_deep_rankings_keeps_its_digits() -> None:
    """All of 10^5 items tied, half of them relevant: half of 1 - p^n; and a last rank far below 1."""
    grades = np.arange(100_000) % 2
    half = la.evaluate_scores(np.zeros((1, 100_000)), la.grades([grades]), ["RBP(p=0.999)"])["RBP(p=0.999)"]
    assert half.mean == close((1 - 0.999**100_000) / 2)
    assert half.best == close(1 - 0.999**50_000)
    last = la.evaluate_scores([-np.arange(1000.0)], la.grades([np.arange(1000) == 999]), ["RBP"])["RBP"]
    assert last.mean == pytest.approx(0.2 * 0.8**999, rel=1e-12)
    assert last.mean > 0


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 300))
def test_bpref_of_large_groups_equals_a_loop(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [rng.integers(-1, 2, rng.integers(1, size, endpoint=True)) for _ in range(3)]
    relevant = sum(int((g == 1).sum()) for g in groups)
    irrelevant = sum(int((g == 0).sum()) for g in groups)
    assume(relevant)
    sums, above = [0.0, 0.0, 0.0], 0
    for group in groups:
        tied = int((group == 0).sum())
        places = [above + j for j in range(tied + 1)]
        for number, chosen in enumerate((places, places[:1], places[-1:])):
            worth = [1 - min(b, relevant) / min(relevant, irrelevant) if b else 1.0 for b in chosen]
            sums[number] += int((group == 1).sum()) * math.fsum(worth) / len(worth)
        above += tied
    run = {f"{g}-{i}": -float(g) for g, group in enumerate(groups) for i in range(len(group))}
    qrels = {f"{g}-{i}": int(v) for g, group in enumerate(groups) for i, v in enumerate(group) if v >= 0}
    score = la.evaluate_run({"q": run}, la.judged({"q": qrels}), ["Bpref"])["Bpref"]
    assert [score.mean, score.best, score.worst] == close([total / relevant for total in sums])


@settings(deadline=None, max_examples=80)
@given(case=rankings(max_items=4, max_queries=3), data=st.data())
def test_micro_areas_equal_the_enumeration(case: Rankings, data: st.DataObject) -> None:
    """All items of all queries in one ranking, those of equal score tied, and every order of them tried."""
    names = {micro("AUC"): definitions.auc, micro("PRAUC"): definitions.pr_auc}
    for fmr in (0, 0.001, 0.25, 0.4):
        names[f"FNMR(fmr={fmr})"] = partial(definitions.false_non_match_rate, fmr=fmr)
    judged = [[data.draw(st.booleans()) for _ in row] for row in case.grades]
    known = Rankings(case.place, [[v if k else -1 for v, k in zip(*rows, strict=True)]
                                  for rows in zip(case.grades, judged, strict=True)])  # fmt: skip
    by_score = [(known.groups(q), [-p for p in sorted(set(known.place[q]))]) for q in range(len(case))]
    pooled = [group for group in definitions.pooled_groups(by_score) if group]
    relevance = la.judged([(q, i, v) for q, row in enumerate(known.grades) for i, v in enumerate(row) if v >= 0] or
                          [(0, "nowhere", 1)])  # fmt: skip
    result = la.evaluate_scores(case.scores, relevance, list(names))
    for name, judge in names.items():
        bounds = judge(pooled) or Bounds(math.nan, math.nan, math.nan)
        score = result[name]
        np.testing.assert_allclose([score.mean, score.best, score.worst], [float(x) for x in bounds], atol=TOLERANCE)
        assert score.undefined == (len(case) if math.isnan(float(bounds.expected)) else 0)
        assert np.ptp(score.best_per_query) == 0 or score.undefined


@pytest.mark.parametrize("negatives", ["judged", "sampled", "both"])
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("grades", [2, 4])
def test_areas_are_those_of_scikit_learn(name: str, negatives: str, grades: int) -> None:
    """Micro: of all pairs at once; macro: the mean over the queries with both classes."""
    case = study(grades, grades=grades)
    for rel in range(1, max(2, grades - 1)):
        queries, relevant, scores = case.pairs(negatives, rel)
        pooled = micro(name, negatives, rel)
        macro = f"{name}(rel={rel}, negatives='{negatives}')"
        result = la.evaluate_scores(case.scores, case.relevance, [pooled, macro], **case.ids)
        assert result[pooled].mean == close(PEERS[name](relevant, scores))
        each = [(relevant[queries == q], scores[queries == q]) for q in range(len(case.scores))]
        wanted = [PEERS[name](r, s) if 0 < r.sum() < len(r) else np.nan for r, s in each]
        np.testing.assert_allclose(result[macro].per_query, wanted, rtol=0, atol=TOLERANCE)
        assert abs(result[pooled].mean - result[macro].mean) > 0.01
        assert np.isnan(wanted).sum() == result[macro].undefined < len(wanted)


@pytest.mark.parametrize("name", PEERS)
def test_the_influence_of_a_query_is_the_derivative_by_its_weight(name: str) -> None:
    """scikit-learn's areas take weights: those of one query's pairs are moved a little up and down."""
    case = study(5, n_queries=12, n_items=15, levels=6)
    queries, relevant, scores = case.pairs()
    values = la.evaluate_scores(case.scores, case.relevance, [micro(name)], **case.ids)[micro(name)].per_query
    assert values.mean() == close(PEERS[name](relevant, scores))
    for q in range(12):
        up, down = (PEERS[name](relevant, scores, sample_weight=1.0 + step * (queries == q)) for step in (1e-5, -1e-5))
        assert (values[q] - values.mean()) / 12 == pytest.approx((up - down) / 2e-5, abs=1e-8)
    assert np.ptp(values) > 0.1


@pytest.mark.parametrize("name", PEERS)
def test_the_interval_of_a_micro_average_is_that_of_resampling_queries(name: str) -> None:
    case = study(7, n_queries=200)
    queries, relevant, scores = case.pairs()
    starts = np.searchsorted(queries, np.arange(201))

    def statistic(drawn: Array) -> float:
        rows = np.concatenate([np.arange(starts[q], starts[q + 1]) for q in drawn])
        return float(PEERS[name](relevant[rows], scores[rows]))

    score = la.evaluate_scores(case.scores, case.relevance, [micro(name)], **case.ids)[micro(name)]
    assert_intervals_agree(score.interval(), resampled(statistic, 200, 1000, 8))


def test_a_difference_of_micro_averages_is_compared_by_queries() -> None:
    case = study(9, n_queries=100)
    worse = np.round(case.scores * 0.4 + 6 * np.random.default_rng(1).standard_normal(case.scores.shape))
    queries, relevant, scores = case.pairs()
    others = worse[np.nonzero(case.grades >= 0)]
    good, bad = (la.evaluate_scores(s, case.relevance, [micro("AUC")], **case.ids) for s in (case.scores, worse))
    (found,) = la.compare({"good": good, "bad": bad}).differences
    assert found.difference == close(roc_auc_score(relevant, scores) - roc_auc_score(relevant, others))
    starts = np.searchsorted(queries, np.arange(101))

    def statistic(drawn: Array) -> float:
        rows = np.concatenate([np.arange(starts[q], starts[q + 1]) for q in drawn])
        return float(roc_auc_score(relevant[rows], scores[rows]) - roc_auc_score(relevant[rows], others[rows]))

    assert_intervals_agree((found.low, found.high), resampled(statistic, 100, 1000, 2))


def test_blocks_of_queries_make_one_pool() -> None:
    """Embeddings are counted 96 queries at a time, codes in blocks too: pooled numbers are of all blocks together."""
    case = study(11, n_queries=250, n_items=20)
    names = [micro("AUC"), micro("PRAUC"), "VSDHR(norm='pairs')@3", "AUC"]
    whole = la.evaluate_tally(la.count_scores(case.scores, case.relevance, **case.ids), names, unjudged="condensed")
    blocks = la.evaluate_scores(case.scores, case.relevance, names, unjudged="condensed", threads=2, **case.ids)
    for name in names:
        np.testing.assert_allclose(whole[name].per_query, blocks[name].per_query, rtol=0, atol=TOLERANCE)
    _, relevant, scores = case.pairs()
    assert blocks[names[0]].mean == close(roc_auc_score(relevant, scores))


def test_a_query_without_a_judged_pair_leaves_a_micro_average_as_it_is() -> None:
    case = study(13, n_queries=10)
    more = Study(*(np.concatenate([array, np.full_like(array[:1], fill)])
                   for array, fill in ((case.scores, 0), (case.grades, -1), (case.sampled, 0))))  # fmt: skip
    few, many = (la.evaluate_scores(c.scores, c.relevance, [micro("AUC")], **c.ids)[micro("AUC")] for c in (case, more))
    assert few.mean == close(many.mean)
    assert many.per_query[-1] == close(many.mean)
    assert many.undefined == 0


def test_every_kind_of_input_gives_the_same_numbers() -> None:
    """Codes of 16 bits; the same as vectors of -1 and +1 of any length, as scores, as a run, as a tally of shards."""
    rng = np.random.default_rng(15)
    bits = rng.integers(0, 2, (60, 16)), rng.integers(0, 2, (90, 16))
    bits[0][:, :6] = bits[1][:60, :6]  # some are near
    signs = [2.0 * b - 1 for b in bits]
    dots = signs[0] @ signs[1].T
    known = rng.random(dots.shape) < 0.2
    truth = (dots + 4 * rng.standard_normal(dots.shape) > 4).astype(int)
    case = Study(dots, np.where(known, truth, -1), ~known & (rng.random(dots.shape) < 0.1))
    assert known.any(1).all()
    pairs = [micro(name, kind) for name in PEERS for kind in ("judged", "sampled", "both")]
    pairs += [f"{name}(negatives='{kind}')" for name in PEERS for kind in ("judged", "sampled", "both")]
    names = [*pairs, "Judged@7", "Bpref", "RBP", "RBP@5", "RBP(part='residual')", "RBP(part='residual')@5"]
    ranks = ["VSDHR@5", "VSDHR(norm='positives')@5", "VSDHR(norm='pairs')@5", "VSDMRR@5", "P@5"]
    codes = [la.Codes.pack(b) for b in bits]
    scale = rng.uniform(0.5, 4, (60, 1)).astype(np.float32)
    halves = [slice(0, 50), slice(50, 90)]
    relevance, ids = case.relevance, case.ids
    for asked, policy in ((names, None), (ranks, "irrelevant"), (ranks, "relevant"), (ranks, "condensed")):
        options: dict[str, Any] = {"metrics": asked, "unjudged": policy}
        wanted = la.evaluate(*codes, relevance, **options, **ids)
        given = {
            "dot": la.evaluate(*signs, relevance, similarity="dot", **options, **ids),
            "cosine": la.evaluate(*signs, relevance, **options, **ids),
            "float32": la.evaluate(*(s.astype(np.float32) for s in signs), relevance, **options, **ids),
            "euclidean": la.evaluate(*signs, relevance, similarity="euclidean", **options, **ids),
            "scores": la.evaluate_scores(dots, relevance, **options, **ids),
            "run": la.evaluate_run(case.run, relevance, **options),
        }
        if asked is ranks:
            given["long queries"] = la.evaluate(signs[0] * scale, signs[1], relevance, **options, **ids)
            given["tally"] = la.evaluate_tally(la.count_scores(dots, relevance, **ids), **options)
        for kind, found in given.items():
            for name in asked:
                for part in ("per_query", "best_per_query", "worst_per_query"):
                    one, other = (getattr(result[name], part) for result in (found, wanted))
                    np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE, err_msg=f"{name} of {kind}")
    shards = sum(
        la.count(*(signs[0], signs[1][half]), relevance, query_ids=case.query_ids, gallery_ids=case.gallery_ids[half])
        for half in halves
    )
    kept = [name for name in names if "sampled" not in name and "both" not in name]
    for one, other in ((la.evaluate_tally(shards, kept), la.evaluate(*codes, relevance, kept, **ids)),):
        for name in kept:
            np.testing.assert_allclose(one[name].per_query, other[name].per_query, rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("method", ["around", "plain"])
def test_cosines_of_different_queries_can_be_compared(method: str, tmp_path: Any) -> None:
    """Queries a thousand times longer than others: dot products would rank all their items first."""
    rng = np.random.default_rng(17)
    queries, gallery = rng.standard_normal((30, 8)), rng.standard_normal((50, 8))
    queries *= np.geomspace(0.03, 30, 30)[:, None]
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, gallery)]
    cosines = unit[0] @ unit[1].T
    known = rng.random(cosines.shape) < 0.3
    truth = (cosines + 0.3 * rng.standard_normal(cosines.shape) > 0.2).astype(int)
    case = Study(cosines, np.where(known, truth, -1), ~known)
    _, relevant, scores = case.pairs()
    wanted = roc_auc_score(relevant, scores)
    assert abs(wanted - roc_auc_score(relevant, (queries @ gallery.T)[case.grades >= 0])) > 0.02
    tally = la.count(queries, gallery, case.relevance, method=method, **case.ids)
    tally.save(tmp_path / "tally.npz")
    for found in (
        la.evaluate(queries, gallery, case.relevance, [micro("AUC")], **case.ids),
        la.evaluate_tally(tally, [micro("AUC")]),
        la.evaluate_tally(la.Tally.load(tmp_path / "tally.npz"), [micro("AUC")]),
    ):
        assert found[micro("AUC")].mean == close(wanted)


def test_micro_averages_of_labels_and_of_unjudged_items_count_every_pair() -> None:
    case = study(19, n_queries=15)
    for policy, grade in (("irrelevant", 0), ("relevant", 1)):
        filled = np.where(case.grades < 0, grade, case.grades)
        wanted = roc_auc_score((filled > 0).ravel(), case.scores.ravel())
        asked: dict[str, Any] = {"metrics": [micro("AUC")], "unjudged": policy}
        found = la.evaluate_scores(case.scores, case.relevance, **asked, **case.ids)
        dense = la.evaluate_scores(case.scores, la.grades(filled), [micro("AUC")])
        assert found[micro("AUC")].mean == close(wanted)
        assert dense[micro("AUC")].mean == close(wanted)
    labels = np.arange(30) % 3
    bits = np.random.default_rng(2).integers(0, 2, (30, 9))
    distances = (bits[:, None] != bits).sum(2)
    codes = la.Codes.pack(bits)
    result = la.evaluate(codes, codes, la.same_label(labels, labels), [micro("PRAUC")], exclude="self")
    others = ~np.eye(30, dtype=bool)
    wanted = average_precision_score((labels[:, None] == labels)[others], -distances[others])
    assert result[micro("PRAUC")].mean == close(wanted)


@pytest.mark.parametrize("excluding", [False, True])
def test_scores_are_kept_of_judged_groups_alone(excluding: bool) -> None:
    """The compiled loop and its plain twin; groups of unjudged items between two marks are one, without a score."""
    for n_queries, n_items, n_scores in ((1, 1, 1), (3, 40, 4), (2, 4000, 10**6), (4, 300, 1)):
        rng = np.random.default_rng([n_queries, n_items])
        scores = rng.integers(-n_scores, n_scores, (n_queries, n_items)) / 4
        relevance = la.judged([(q, int(i), int(rng.integers(0, 3))) for q in range(n_queries)
                               for i in rng.permutation(n_items)[:5]])  # fmt: skip
        bound = relevance.bound(np.arange(n_queries), range(n_items))
        groups = Groups(rng.integers(0, 3, n_queries), rng.integers(0, 4, n_items)) if excluding else None
        request = Request(Scores(scores), None, bound, np.arange(n_queries), excluded=groups)
        plain, around = (
            ScoreCounter(request, Needs(marks=True), method)(slice(0, n_queries)) for method in ("plain", "around")
        )
        assert around.scores is not None
        for name in ("counts", "unjudged", "scores"):
            np.testing.assert_array_equal(getattr(around, name), getattr(plain, name))
        assert around.scores.shape[1] <= 11
        np.testing.assert_array_equal(np.isnan(around.scores), around.retrieved == 0)
        every = la.count_scores(scores, relevance, exclude=None if groups is None else (groups.queries, groups.gallery))
        for one, other in zip(around.scored_groups(1), every.scored_groups(1), strict=True):
            np.testing.assert_array_equal(one, other)
        assert not around.complete
