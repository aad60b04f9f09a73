"""Ratios of sums, unjudged items, sampled negatives and judgements of products, against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.judged import TOLERANCE, Array, Study, assert_intervals_agree, close, micro, resampled, study
from helpers.strategies import Rankings, rankings
from lookalike.metrics.micro_average import ratio_of_sums
from reference import definitions


@settings(deadline=None, max_examples=60)
@given(case=rankings(max_items=5), k=st.integers(1, 6), rel=st.sampled_from([1, 2]), data=st.data())
def test_discovery_hit_rates_are_sums_over_sums(case: Rankings, k: int, rel: int, data: st.DataObject) -> None:
    unranked = [data.draw(st.lists(st.integers(0, 2), max_size=3)) for _ in range(len(case))]
    run = {q: {i: float(score) for i, score in enumerate(row)} for q, row in enumerate(case.scores)}
    judgements = {q: dict(enumerate([*row, *unranked[q]])) for q, row in enumerate(case.grades)}
    positives = [sum(grade >= rel for grade in items.values()) for items in judgements.values()]
    hits = [definitions.discovery_hits(case.groups(q), k=k, rel=rel) for q in range(len(case))]
    weights = {"positives": [min(k, n) for n in positives], "pairs": positives}
    for norm, weight in weights.items():
        name = f"VSDHR(norm='{norm}', rel={rel})@{k}"
        score = la.evaluate_run(run, la.judged(judgements), [name])[name]
        if not sum(weight):
            assert math.isnan(score.mean)
            assert score.undefined == len(case)
            continue
        wanted = [float(sum(column) / sum(weight)) for column in zip(*hits, strict=True)]
        assert [score.mean, score.best, score.worst] == close(wanted)
        assert score.undefined == 0


def test_the_three_denominators_by_hand() -> None:
    """Two of three positives in the top 2 of one query, none of one in that of another, no positive for a third."""
    run = {q: {"a": 3.0, "b": 2.0, "c": 1.0} for q in ("one", "two", "none")}
    qrels = la.judged(
        {"one": {"a": 1, "b": 1, "c": 0, "z": 1}, "two": {"a": 0, "b": 0, "c": 1}, "none": {"a": 0, "b": 0, "c": 0}}
    )
    names = ["VSDHR@2", "VSDHR(norm='positives')@2", "VSDHR(norm='pairs')@2", "VSDMRR@2", "HR@2", "R@2"]
    result = la.evaluate_run(run, qrels, names)
    assert [score.mean for score in result.scores.values()] == close([2 / 4, 2 / 3, 2 / 4, 1 / 2, 1 / 3, 2 / 9])
    assert [score.undefined for score in result.scores.values()] == [1, 0, 0, 1, 0, 1]
    assert result["VSDHR(norm='positives')@2"].per_query[2] == close(2 / 3)


@pytest.mark.parametrize("norm", ["positives", "pairs"])
def test_the_interval_of_a_ratio_is_that_of_resampling_queries(norm: str) -> None:
    case = study(21, n_queries=200)
    name = f"VSDHR(norm='{norm}')@5"
    score = la.evaluate_scores(case.scores, case.relevance, [name], unjudged="irrelevant", **case.ids)[name]
    hits = (
        5 * la.evaluate_scores(case.scores, case.relevance, "P@5", unjudged="irrelevant", **case.ids)["P@5"].per_query
    )
    positives = (case.grades > 0).sum(1)
    weight = np.minimum(positives, 5) if norm == "positives" else positives

    def statistic(drawn: Array) -> float:
        return float(hits[drawn].sum() / weight[drawn].sum())

    assert score.mean == close(hits.sum() / weight.sum())
    assert_intervals_agree(score.interval(), resampled(statistic, 200, 4000, 3))


def test_a_ratio_of_nothing_is_undefined() -> None:
    assert np.isnan(ratio_of_sums(np.zeros(3), np.zeros(3))).all()
    values = ratio_of_sums(np.array([3.0, 0.0, 1.0]), np.array([4, 2, 3]))
    assert values.mean() == close(4 / 9)


def test_each_metric_of_a_list_has_its_own_policy() -> None:
    case = study(23)
    names = ["AUC", "PRAUC", "Judged@5", "Bpref", "RBP"]
    result = la.evaluate_scores(case.scores, case.relevance, names, **case.ids)
    assert result.about["unjudged"] == {
        "AUC": "condensed", "PRAUC": "condensed", "Judged@5": "kept", "Bpref": "kept", "RBP": "kept",
    }  # fmt: skip
    alone = la.evaluate_scores(case.scores, case.relevance, ["AUC"], unjudged="condensed", **case.ids)
    assert alone.about["unjudged"] == "condensed"
    np.testing.assert_array_equal(result["AUC"].per_query, alone["AUC"].per_query)
    with pytest.raises(ValueError, match="nobody judged"):
        la.evaluate_scores(case.scores, case.relevance, [*names, "AP"], **case.ids)
    with pytest.raises(ValueError, match="nobody judged"):
        la.evaluate_scores(case.scores, case.relevance, ["AUC"], unjudged="error", **case.ids)
    mixed = la.evaluate_scores(case.scores, case.relevance, [*names, "AP"], unjudged="irrelevant", **case.ids)
    assert mixed.about["unjudged"]["AP"] == mixed.about["unjudged"]["AUC"] == "irrelevant"
    assert mixed.about["unjudged"]["Bpref"] == "kept"
    assert mixed["Bpref"].mean == result["Bpref"].mean
    filled = np.where(case.grades < 0, 0, case.grades)
    assert mixed["AUC"].mean == close(la.evaluate_scores(case.scores, la.grades(filled), ["AUC"])["AUC"].mean)
    assert abs(mixed["AUC"].mean - result["AUC"].mean) > 0.005


def test_policies_survive_a_file(tmp_path: Any) -> None:
    case = study(25)
    result = la.evaluate_scores(case.scores, case.relevance, ["AUC", "Judged@5", micro("AUC")], **case.ids)
    result.to_json(tmp_path / "result.json")
    again = la.Evaluation.from_json(tmp_path / "result.json")
    assert again.about["unjudged"] == result.about["unjudged"]
    np.testing.assert_array_equal(again[micro("AUC")].per_query, result[micro("AUC")].per_query)


def test_judged_counts_places_that_no_item_takes() -> None:
    """Divided by k, as P@k is: a ranking of three items is judged to three fifths at most."""
    score = la.evaluate_run({"q": {"a": 3.0, "b": 2.0, "x": 1.0}}, la.judged({"q": {"a": 1, "b": 0}}), ["Judged@5"])
    assert score["Judged@5"].mean == close(2 / 5)


def test_a_tally_knows_its_policies() -> None:
    tally = la.count_scores([[3.0, 2.0, 1.0]], la.judged([(0, 0, 2), (0, 1, 0)]))
    assert tally.with_unjudged("relevant").counts[0].tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert tally.with_unjudged("irrelevant").counts[0].tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0]]
    assert tally.with_unjudged("condensed").counts[0].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match="'irrelevant', 'relevant', 'condensed', got 'skip'"):
        tally.with_unjudged("skip")


def test_sampled_pairs_are_unjudged_to_every_other_metric() -> None:
    case = study(27)
    plain = la.judged(case.qrels)
    names = ["AUC", "Judged@5", "Bpref", micro("PRAUC")]
    with_samples = la.evaluate_scores(case.scores, case.relevance, [*names, micro("AUC", "both")], **case.ids)
    without = la.evaluate_scores(case.scores, plain, names, **case.ids)
    for name in names:
        np.testing.assert_array_equal(with_samples[name].per_query, without[name].per_query)
    assert case.relevance.digest != plain.digest


def test_samples_of_a_query_that_nobody_judged_count_nowhere() -> None:
    relevance = la.judged([("q", "a", 1)], sampled=[("q", "b"), ("r", "a"), ("r", "b")])
    assert relevance.with_negatives("sampled").judgements == {"q": {"a": 1, "b": 0}}
    assert relevance.with_negatives("judged") is relevance
    name = micro("AUC", "sampled")
    run = {"q": {"a": 1.0, "b": 2.0}, "r": {"a": 0.0, "b": 0.0}}
    assert la.evaluate_run(run, relevance, [name])[name].mean == 0.0
    scores = la.evaluate_scores(
        [[1.0, 2.0], [0.0, 0.0]], relevance, [name], query_ids=["q", "r"], gallery_ids=["a", "b"]
    )
    assert scores[name].mean == 0.0


def test_excluded_items_are_no_negatives() -> None:
    relevance = la.judged([("q", "a", 1), ("q", "b", 0)], sampled=[("q", "c"), ("q", "d")])
    ids = {"query_ids": ["q"], "gallery_ids": ["a", "b", "c", "d"]}
    names = ["AUC(negatives='both')", "AUC(negatives='sampled')"]
    result = la.evaluate_scores([[2.0, 3.0, 4.0, 1.0]], relevance, names, **ids)
    assert [score.mean for score in result.scores.values()] == close([1 / 3, 1 / 2])
    left_out = la.evaluate_scores([[2.0, 3.0, 4.0, 1.0]], relevance, names, exclude=([7], [0, 0, 7, 0]), **ids)
    assert [score.mean for score in left_out.scores.values()] == close([1 / 2, 1])


VIEWS: dict[str, Any] = {
    "query_ids": ["q"],
    "gallery_ids": ["front", "back", "side", "other", "own"],
    "exclude": (["Q"], ["A", "A", "A", "B", "Q"]),
}


def test_a_judgement_is_inherited_by_other_views_of_the_product() -> None:
    relevance = la.judged([("q", "front", 1), ("q", "side", 0), ("q", "other", 0), ("q", "gone", 1)])
    scores = [[1.0, 5.0, 4.0, 3.0, 9.0]]
    names = ["P@2", "Judged@2", "R@3"]
    by_image = la.evaluate_scores(scores, relevance, names, unjudged="irrelevant", **VIEWS)
    by_product = la.evaluate_scores(scores, relevance, names, level="product", unjudged="irrelevant", **VIEWS)
    assert [score.mean for score in by_image.scores.values()] == [0.0, 0.5, 0.0]
    assert [score.mean for score in by_product.scores.values()] == close([1.0, 1.0, 2 / 4])
    assert by_product.about["inputs"]["level"] == "product"
    assert "level" not in by_image.about["inputs"]


def test_products_in_every_kind_of_input() -> None:
    rng = np.random.default_rng(29)
    bits = rng.integers(0, 2, (6, 12)), rng.integers(0, 2, (24, 12))
    signs = [2.0 * b - 1 for b in bits]
    groups = np.arange(6), np.arange(24) % 8
    relevance = la.judged([(q, int(i), int(rng.random() < 0.5)) for q in range(6) for i in rng.permutation(24)[:6]])
    wanted = relevance.inherited(range(24), groups[1])
    assert sum(map(len, wanted.judgements.values())) > 2 * sum(map(len, relevance.judgements.values()))
    options: dict[str, Any] = {"metrics": [micro("AUC"), "Judged@3", "Bpref"], "exclude": groups}
    codes = [la.Codes.pack(b) for b in bits]
    expected = la.evaluate_scores(signs[0] @ signs[1].T, wanted, **options)
    for found in (
        la.evaluate(*codes, relevance, level="product", **options),
        la.evaluate(*signs, relevance, level="product", **options),
        la.evaluate_scores(signs[0] @ signs[1].T, relevance, level="product", **options),
        la.evaluate_tally(la.count(*codes, relevance, exclude=groups, level="product"), options["metrics"]),
        la.evaluate_tally(
            la.count_scores(signs[0] @ signs[1].T, relevance, exclude=groups, level="product"), options["metrics"]
        ),
    ):
        for name in options["metrics"]:
            assert found[name].per_query == close(expected[name].per_query)


def test_inheriting_takes_the_highest_grade_and_frees_the_samples() -> None:
    relevance = la.judged(
        [("q", "a1", 0), ("q", "a2", 2), ("q", "b1", 0), ("r", "b1", 1), ("r", "b2", 0), ("q", "gone", 1)],
        sampled=[("q", "a3"), ("q", "c1"), ("r", "a1")],
    ).inherited(["a1", "a2", "a3", "b1", "b2", "c1"], ["a", "a", "a", "b", "b", "c"])
    assert relevance.judgements == {
        "q": {"a1": 2, "a2": 2, "a3": 2, "b1": 0, "b2": 0, "gone": 1},
        "r": {"b1": 1, "b2": 1},
    }
    assert relevance.with_negatives("sampled").judgements["q"] == {"a1": 2, "a2": 2, "a3": 2, "gone": 1, "c1": 0}


def test_parts_of_a_gallery_inherit_from_the_whole() -> None:
    """A part that does not hold the judged view cannot know of what product it is."""
    ids, groups = ["front", "x", "back", "y"], ["A", "B", "A", "C"]
    scores, relevance = np.array([[1.0, 2.0, 4.0, 3.0]]), la.judged([("q", "front", 1), ("q", "x", 0)])

    def part(half: slice, relevance: Any, **options: Any) -> Any:
        exclude = (["Q"], groups[half])
        return la.count_scores(
            scores[:, half], relevance, query_ids=["q"], gallery_ids=ids[half], exclude=exclude, **options
        )

    halves = [slice(0, 2), slice(2, 4)]
    with pytest.raises(ValueError, match=r"relevance\.inherited"):
        sum(part(half, relevance, level="product") for half in halves)
    whole = sum(part(half, relevance.inherited(ids, groups)) for half in halves)
    assert la.evaluate_tally(whole, ["Judged@1", "Bpref"])["Judged@1"].mean == 1.0


def test_pairs_left_out_are_unjudged_and_their_queries_stay() -> None:
    case = study(31)
    drawn = np.random.default_rng(4).random(case.grades.shape) < 0.5
    drawn[3] = True
    pairs = [(f"q{q}", f"d{i}") for q, i in np.argwhere(drawn).tolist()]  # unjudged ones among them
    left = case.relevance.without(pairs)
    kept = Study(case.scores, np.where(drawn, -1, case.grades), case.sampled)
    names = [micro("AUC"), "AUC", micro("AUC", "sampled"), "Judged@5"]
    found = la.evaluate_run(case.run, left, names)
    wanted = la.evaluate_scores(case.scores, kept.relevance, names, **case.ids)
    assert found.query_ids.tolist() == case.query_ids
    for name in ("AUC", micro("AUC"), "Judged@5"):
        np.testing.assert_allclose(found[name].per_query, wanted[name].per_query, rtol=0, atol=TOLERANCE)
    assert np.isnan(found["AUC"].per_query[3])
    assert sum(map(len, case.relevance.judgements.values())) > sum(map(len, left.judgements.values())) > 0
    assert left.sampled == case.relevance.sampled


JUDGED = la.judged([("q", "a", 1), ("q", "b", 0)])
BOTH = la.judged([("q", "a", 1), ("q", "b", 0)], sampled=[("q", "c")])
IDS: dict[str, Any] = {"query_ids": ["q"], "gallery_ids": ["a", "b"]}
MATRIX = [[2.0, 1.0]]
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "sampled and judged": (
        lambda: la.judged([("q", "a", 1)], sampled=[("q", "a")]),
        "'q' and item 'a' are sampled as a negative, but were judged",
    ),
    "sampled with a grade": (
        lambda: la.judged([("q", "a", 1)], sampled=[("q", "b", 0)]),
        "rows .query_id, item_id., row 0 is",
    ),
    "samples by query": (
        lambda: la.judged([("q", "a", 1)], sampled={"q": ["b"]}),
        "rows .query_id, item_id., row 0 is 'q'",
    ),
    "no samples": (
        lambda: la.evaluate_scores(MATRIX, JUDGED, ["AUC(negatives='both')"], **IDS),
        "negatives='both' needs sampled negatives: la.judged",
    ),
    "no samples for a run": (
        lambda: la.evaluate_run({"q": {"a": 1.0}}, JUDGED, ["AUC(negatives='sampled')"]),
        "negatives='sampled' needs sampled negatives",
    ),
    "samples of labels": (
        lambda: la.evaluate_scores(MATRIX, la.grades([[1, 0]]), ["PRAUC(negatives='sampled')"]),
        "negatives='sampled' is for judged pairs",
    ),
    "samples of a tally": (
        lambda: la.evaluate_tally(la.count_scores(MATRIX, BOTH, **IDS), ["AUC(negatives='sampled')"]),
        "counted with its own negatives: count with relevance.with_negatives",
    ),
    "unknown negatives": (lambda: BOTH.with_negatives("random"), "'judged', 'sampled', 'both', got 'random'"),
    "negatives misspelt": (lambda: la.Metric.parse("AUC(negatives='sample')"), "did you mean 'sampled'"),
    "micro without scores": (
        lambda: la.evaluate_tally(la.count_scores(MATRIX, JUDGED, scores=False, **IDS), [micro("AUC")]),
        "average='micro' compares the scores of all queries: count with scores=True",
    ),
    "p of 1": (lambda: la.Metric.parse("RBP(p=1)"), "'p' parameter of RBP must be a number between 0 and 1, got 1"),
    "p of 0": (lambda: la.Metric.parse("RBP(p=0.0)"), "between 0 and 1, got 0.0"),
    "p of 80": (lambda: la.Metric.parse("RBP(p=80)"), "between 0 and 1, got 80"),
    "p as a word": (lambda: la.Metric.parse("RBP(p=high)"), "between 0 and 1, got high"),
    "Judged of all": (lambda: la.Metric.parse("Judged"), "Judged needs a cutoff, such as Judged@10"),
    "VSDHR of all": (lambda: la.Metric.parse("VSDHR(norm='pairs')"), "VSDHR needs a cutoff, such as VSDHR@10"),
    "Bpref with a cutoff": (lambda: la.Metric.parse("Bpref@10"), "Bpref has no cutoff"),
    "norm of AP": (lambda: la.Metric.parse("VSDHR(norm='total')@5"), "one of 'k', 'positives', 'pairs', got 'total'"),
    "level of items": (
        lambda: la.evaluate_scores(MATRIX, JUDGED, level="item", **IDS),
        "level must be one of 'image', 'product', got 'item'",
    ),
    "product without groups": (
        lambda: la.evaluate_scores(MATRIX, JUDGED, level="product", **IDS),
        "level='product' needs .* exclude=.query_groups, gallery_groups",
    ),
    "product by id": (
        lambda: la.evaluate_scores(MATRIX, JUDGED, level="product", exclude="self", **IDS),
        "level='product' needs .* exclude=",
    ),
    "product of labels": (
        lambda: la.evaluate_scores(MATRIX, la.grades([[1, 0]]), level="product", exclude=([0], [1, 2])),
        "level='product' is for judged pairs",
    ),
    "groups of other length": (lambda: JUDGED.inherited(["a", "b"], [1]), "got 2 gallery_ids and 1 gallery_groups"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_in_one_sentence(case: str) -> None:
    call, match = BAD[case]
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("RBP(p=0.8)", "RBP"),
        ("RBP(p=.95, part='residual')@10", "RBP(p=0.95, part='residual')@10"),
        ("AUC(average='macro', negatives='judged')", "AUC"),
        ("AUC(negatives=both, average=micro)", "AUC(average='micro', negatives='both')"),
        ("VSDHR(norm='k')@5", "VSDHR@5"),
    ],
)
def test_names_of_judged_metrics(written: str, printed: str) -> None:
    assert str(la.Metric.parse(written)) == printed
    assert la.Metric.parse(printed) == la.Metric.parse(written)
