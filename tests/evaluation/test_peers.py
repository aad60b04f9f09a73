"""Outside libraries: the same number where conventions meet, and one test for each place where they do not.

scikit-learn sees tied scores, so it is compared with them; trec_eval (through pytrec_eval) sorts tied items by their
names, so it is compared without, and tests of their own say what it does to ties. A vacuous test would only ever rank
everything that is judged, ask for cutoffs past the end, or average over queries before comparing: here some judged
items are not ranked, some ranked items are not judged, cutoffs fall everywhere, and each query is compared by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score

import lookalike as la
from helpers.strategies import Rankings, rankings

TOLERANCE = 1e-12
GAINS = {"(gain='linear')": lambda grades: grades, "(gain='exponential')": lambda grades: 2**grades - 1}


def close(value: Any) -> Any:
    return pytest.approx(value, rel=0, abs=TOLERANCE)


# scikit-learn, with ties


def with_both_classes(case: Rankings) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """(query, whether each item is relevant, scores) of the queries for which an area is defined."""
    relevant = case.matrix > 0
    both = np.flatnonzero(relevant.any(1) & ~relevant.all(1))
    assume(len(both))
    return [(int(q), relevant[q], case.scores[q]) for q in both]


@settings(deadline=None, max_examples=60)
@given(case=rankings(max_items=12), data=st.data())
def test_ndcg_is_that_of_scikit_learn(case: Rankings, data: st.DataObject) -> None:
    """It averages the gains of tied items too; exponential gain is 2^grade - 1 given to it as relevance."""
    assume(case.n_items > 1)  # it refuses to rank a single item
    k = data.draw(st.integers(1, case.n_items + 1))
    asked = {
        metric + gain + cut: (peer, gains, depth)
        for metric, peer in (("DCG", dcg_score), ("nDCG", ndcg_score))
        for gain, gains in GAINS.items()
        for cut, depth in (("", None), (f"@{k}", k))
    }
    result = la.evaluate_scores(case.scores, la.grades(case.matrix), list(asked))
    for name, (peer, gains, depth) in asked.items():
        each = zip(gains(case.matrix)[:, None], case.scores[:, None], strict=True)
        wanted = [peer(gain, scores, k=depth) for gain, scores in each]
        # a DCG can be far above 1: there the tolerance is relative
        np.testing.assert_allclose(
            result[name].per_query, wanted, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{name} of {case}"
        )


@settings(deadline=None, max_examples=60)
@given(case=rankings(max_items=12))
def test_auc_is_that_of_scikit_learn(case: Rankings) -> None:
    queries = with_both_classes(case)
    result = la.evaluate_scores(case.scores, la.grades(case.matrix), ["AUC"])["AUC"]
    for q, relevant, scores in queries:
        assert result.per_query[q] == close(roc_auc_score(relevant, scores))
    assert result.undefined == len(case) - len(queries)


@settings(deadline=None, max_examples=60)
@given(case=rankings(max_items=12))
def test_prauc_is_the_average_precision_of_scikit_learn(case: Rankings) -> None:
    queries = with_both_classes(case)
    result = la.evaluate_scores(case.scores, la.grades(case.matrix), ["PRAUC"])["PRAUC"]
    for q, relevant, scores in queries:
        assert result.per_query[q] == close(average_precision_score(relevant, scores))


@settings(deadline=None, max_examples=60)
@given(case=rankings(max_items=12))
def test_without_ties_ap_is_the_average_precision_of_scikit_learn(case: Rankings) -> None:
    order = np.array([np.lexsort([np.arange(case.n_items), place]).argsort() for place in case.place])
    result = la.evaluate_scores(-order, la.grades(case.matrix), ["AP"])["AP"]
    for q, relevant, _ in with_both_classes(case):
        assert result.per_query[q] == close(average_precision_score(relevant, -order[q]))


def test_with_ties_ap_is_not_the_average_precision_of_scikit_learn() -> None:
    """There a tie group is one threshold: its relevant items all count at its last rank. Here every order counts."""
    scores, relevant = [[1, 1, 1, 1]], [[1, 0, 0, 0]]
    result = la.evaluate_scores(scores, la.grades(relevant), ["AP", "PRAUC"])
    assert result["AP"].mean == close((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert average_precision_score(relevant[0], scores[0]) == close(1 / 4)
    assert result["PRAUC"].mean == close(1 / 4)


def test_average_precision_of_scikit_learn_can_exceed_every_order_of_the_ties() -> None:
    """Two relevant items tied behind two others: precision 2/4 at the threshold, but 1/3 and 2/4 at their ranks."""
    scores, relevant = [[2, 2, 1, 1]], [[0, 0, 1, 1]]
    result = la.evaluate_scores(scores, la.grades(relevant), ["AP"])["AP"]
    assert (result.worst, result.best) == close(((1 / 3 + 2 / 4) / 2, (1 / 3 + 2 / 4) / 2))
    assert average_precision_score(relevant[0], scores[0]) == close(2 / 4)


@pytest.mark.parametrize("grade", [0, 1])
def test_one_class_has_no_area_here(grade: int) -> None:
    """Undefined here, counted and left out; scikit-learn warns about AUC, and calls the other area 0 or 1."""
    result = la.evaluate_scores([[3, 2, 1]], la.grades([[grade] * 3]), ["AUC", "PRAUC"])
    assert (result["AUC"].undefined, result["PRAUC"].undefined) == (1, 1)
    assert np.isnan([result["AUC"].mean, result["PRAUC"].mean]).all()
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(roc_auc_score([grade] * 3, [3, 2, 1]))
    if grade:
        assert average_precision_score([grade] * 3, [3, 2, 1]) == 1
    else:
        with pytest.warns(UserWarning, match="No positive class"):
            assert average_precision_score([grade] * 3, [3, 2, 1]) == 0


# trec_eval, without ties


@dataclass(frozen=True)
class Pool:
    """Judgements and a run: {query: {item: grade}} and {query: {item: score}}."""

    qrels: dict[str, dict[str, int]]
    run: dict[str, dict[str, float]]


@st.composite
def pools(draw: st.DrawFn, *, ties: bool = False, max_items: int = 9) -> Pool:
    """Queries over a few items, each of them judged, ranked, both or neither."""
    qrels, run = {}, {}
    for q in range(draw(st.integers(1, 3))):
        items = [f"item{i}" for i in range(draw(st.integers(1, max_items)))]
        judged = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
        grades = st.one_of(st.integers(0, 1), st.integers(0, 3))
        qrels[f"q{q}"] = {item: draw(grades) for item in judged}
        ranked = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
        places = [draw(st.integers(0, 2)) for _ in ranked] if ties else range(len(ranked))
        run[f"q{q}"] = {item: -float(place) for item, place in zip(ranked, places, strict=True)}
    return Pool(qrels, run)


def ours(pool: Pool, names: list[str]) -> la.Evaluation:
    return la.evaluate_run(pool.run, la.judged(pool.qrels), names, unjudged="irrelevant")


def theirs(pool: Pool, measures: list[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(pool.qrels, set(measures)).evaluate(pool.run)
    return found


def trec_names(k: int | None) -> dict[str, str]:
    """What trec_eval calls our metrics: whole rankings for None, else cut at k."""
    if k is None:
        return {"AP": "map", "nDCG(gain='linear')": "ndcg", "RR": "recip_rank"}
    return {
        f"AP(norm='total')@{k}": f"map_cut_{k}",
        f"nDCG(gain='linear')@{k}": f"ndcg_cut_{k}",
        f"P@{k}": f"P_{k}",
        f"R@{k}": f"recall_{k}",
        f"Hit@{k}": f"success_{k}",
    }


@settings(deadline=None, max_examples=60)
@given(pool=pools(), k=st.integers(1, 11))
def test_a_run_without_ties_is_worth_what_trec_eval_says(pool: Pool, k: int) -> None:
    """Judged items that are not ranked count in its totals and ideals too, and items nobody judged as irrelevant."""
    for names in (trec_names(None), trec_names(k)):
        result, found = ours(pool, list(names)), theirs(pool, list(names.values()))
        assert sorted(found) == list(pool.qrels) == result.query_ids.tolist()
        for name, measure in names.items():
            wanted = [found[query][measure] for query in pool.qrels]
            score = result[name]
            for values in (score.per_query, score.best_per_query, score.worst_per_query):
                np.testing.assert_allclose(values, wanted, rtol=0, atol=TOLERANCE, err_msg=f"{name} of {pool}")


def test_a_deep_run_is_worth_what_trec_eval_says() -> None:
    """Two thousand ranks; a third of the judged items is not ranked, a third of the ranked items not judged."""
    rng = np.random.default_rng(7)
    items = [f"item{i}" for i in range(3000)]
    qrels, run = {}, {}
    for q in range(5):
        qrels[f"q{q}"] = {items[i]: int(rng.integers(0, 4)) for i in rng.permutation(3000)[:2000]}
        run[f"q{q}"] = dict(zip((items[i] for i in rng.permutation(3000)[:2000]), range(2000, 0, -1), strict=True))
    pool = Pool(qrels, run)
    for k in (None, 1, 10, 100, 1000, 1999, 2000, 5000):
        names = trec_names(k)
        result, found = ours(pool, list(names)), theirs(pool, list(names.values()))
        for name, measure in names.items():
            assert result[name].per_query == close(np.array([found[query][measure] for query in qrels])), name
    assert 0.3 < ours(pool, ["AP"])["AP"].mean < 0.6  # neither everything nor nothing is relevant


# trec_eval, where it differs


@settings(deadline=None, max_examples=60)
@given(pool=pools(ties=True))
def test_with_ties_trec_eval_lies_between_worst_and_best(pool: Pool) -> None:
    """It orders tied items by their names, which is one order of many."""
    names = trec_names(None) | trec_names(3)
    result, found = ours(pool, list(names)), theirs(pool, list(names.values()))
    for name, measure in names.items():
        wanted = np.array([found[query][measure] for query in pool.qrels])
        assert (result[name].worst_per_query <= wanted + TOLERANCE).all(), name
        assert (wanted <= result[name].best_per_query + TOLERANCE).all(), name


@settings(deadline=None, max_examples=60)
@given(pool=pools(ties=True))
def test_with_ties_names_decide_what_trec_eval_says(pool: Pool) -> None:
    """Names that rise with the grade give our best, since it puts the last name first; names that fall, our worst."""

    def renamed(sign: int) -> Pool:
        def name(query: str, item: str) -> str:
            return f"{5 + sign * pool.qrels[query].get(item, 0)}{item}"

        return Pool(
            {query: {name(query, item): grade for item, grade in items.items()} for query, items in pool.qrels.items()},
            {query: {name(query, item): score for item, score in items.items()} for query, items in pool.run.items()},
        )

    names = trec_names(None) | trec_names(3)
    result = ours(pool, list(names))
    for sign, part in ((1, "best_per_query"), (-1, "worst_per_query")):
        found = theirs(renamed(sign), list(names.values()))
        for name, measure in names.items():
            wanted = [found[query][measure] for query in pool.qrels]
            np.testing.assert_allclose(getattr(result[name], part), wanted, rtol=0, atol=TOLERANCE, err_msg=name)


def test_names_change_trec_eval_and_not_us() -> None:
    """Two tied items, one relevant: 1 or 1/2 there, as the relevant one is called b or a; always 3/4 here."""
    for relevant, irrelevant, wanted in (("b", "a", 1.0), ("a", "b", 0.5)):
        pool = Pool({"q": {relevant: 1, irrelevant: 0}}, {"q": {"a": 1.0, "b": 1.0}})
        assert theirs(pool, ["map"])["q"]["map"] == wanted
        assert ours(pool, ["AP"])["AP"].mean == close(0.75)


def test_trec_eval_reads_scores_in_single_precision() -> None:
    """Scores that differ in the tenth digit tie there, so the names decide; here they rank."""
    pool = Pool({"q": {"a": 1, "b": 0}}, {"q": {"a": 1.0 + 1e-10, "b": 1.0}})
    assert theirs(pool, ["map"])["q"]["map"] == 0.5
    score = ours(pool, ["AP"])["AP"]
    assert (score.worst, score.best) == (1.0, 1.0)


def test_ap_at_k_divides_by_what_is_retrieved_unless_told() -> None:
    """Ranks 1 and 3 relevant, four relevant items in all: hashing papers divide by 2, trec_eval by 4."""
    pool = Pool({"q": {"a": 1, "b": 0, "c": 1, "d": 1, "e": 1}}, {"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    result = ours(pool, ["AP@3", "AP(norm='total')@3"])
    assert result["AP@3"].mean == close((1 + 2 / 3) / 2)
    assert result["AP(norm='total')@3"].mean == close((1 + 2 / 3) / 4)
    assert theirs(pool, ["map_cut_3"])["q"]["map_cut_3"] == close((1 + 2 / 3) / 4)


def test_ndcg_has_exponential_gain_unless_told() -> None:
    """Grades 1 and 2 in the wrong order: gains 1 and 3 here, 1 and 2 in trec_eval."""
    pool = Pool({"q": {"a": 1, "b": 2}}, {"q": {"a": 2.0, "b": 1.0}})
    second = 1 / np.log2(3)
    assert ours(pool, ["nDCG"])["nDCG"].mean == close((1 + 3 * second) / (3 + second))
    assert theirs(pool, ["ndcg"])["q"]["ndcg"] == close((1 + 2 * second) / (2 + second))


def test_a_query_that_the_run_does_not_rank_counts_zero() -> None:
    """trec_eval leaves it out of the mean (unless asked with -c), so that answering less can score more."""
    pool = Pool({"easy": {"a": 1}, "hard": {"a": 1}}, {"easy": {"a": 1.0}})
    found = theirs(pool, ["map"])
    assert [found[query]["map"] for query in found] == [1.0]
    result = ours(pool, ["AP"])
    assert dict(zip(result.query_ids.tolist(), result["AP"].per_query.tolist(), strict=True)) == {
        "easy": 1.0,
        "hard": 0.0,
    }
    assert result["AP"].mean == 0.5


def test_a_query_that_nobody_judged_counts_nowhere() -> None:
    pool = Pool({"q": {"a": 1}}, {"q": {"a": 1.0}, "other": {"a": 1.0}})
    assert list(theirs(pool, ["map"])) == ["q"]
    assert ours(pool, ["AP"]).query_ids.tolist() == ["q"]


def test_an_item_that_nobody_judged_is_irrelevant_only_if_told() -> None:
    """trec_eval takes it for irrelevant without a word."""
    pool = Pool({"q": {"a": 1}}, {"q": {"b": 2.0, "a": 1.0}})
    assert theirs(pool, ["map"])["q"]["map"] == 0.5
    with pytest.raises(ValueError, match="nobody judged 1 of the items ranked for query 'q'"):
        la.evaluate_run(pool.run, la.judged(pool.qrels), ["AP"])
    assert ours(pool, ["AP"])["AP"].mean == 0.5
