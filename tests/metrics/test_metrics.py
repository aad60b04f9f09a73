"""Every metric of the library against the reference: expected, best and worst, query by query, to 1e-12.

What a vacuous test would let pass: an AP whose three denominators are one (they agree without a cutoff, so every k from
1 to past the gallery is asked); a cutoff that never falls inside a tie group; a best that takes as many relevant items
as it can (wrong for AP over what is retrieved); a metric that is undefined where nobody looked (undefined="skip" marks
it with nan here, so a silent 0 is seen); a mean over queries that all have one shape; a maximum on a code that counts
items of other codes. `check` below fails when it has compared nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.strategies import Rankings, bit_matrices, group_sizes, labels, rankings
from reference import definitions, formulas
from reference.definitions import Bounds

Judge = Callable[[list[list[int]], Sequence[int]], Bounds | None]
TOLERANCE = 1e-12


def name_of(metric: str, options: dict[str, Any], k: int | None) -> str:
    """The metric as a user writes it; an option that is the default is left out."""
    defaults = {"norm": "retrieved", "rel": 1, "gain": "exponential", "discount": "log2", "p": 0.8, "part": "sum"}
    defaults |= {"empty": "zero", "fmr": 0.001, "average": None}
    chosen = ", ".join(f"{key}={value!r}" for key, value in options.items() if defaults[key] != value)
    return metric + (f"({chosen})" if chosen else "") + (f"@{k}" if k is not None else "")


def asked(
    metric: str, judge: Callable[..., Bounds | None], cutoffs: Sequence[int | None], **choices: Any
) -> dict[str, Judge]:
    """Name and definition of a metric for every cutoff and every combination of its options."""
    options: list[dict[str, Any]] = [{}]
    for key, values in choices.items():
        options = [{**chosen, key: value} for chosen in options for value in values]
    return {
        name_of(metric, chosen, k): partial(judge, **chosen, **({} if k is None else {"k": k}))
        for chosen in options
        for k in cutoffs
    }


def without_unranked(judge: Callable[..., Bounds | None]) -> Callable[..., Bounds | None]:
    """A metric that is defined on ranked items only."""

    def judged(groups: list[list[int]], unranked: Sequence[int], **options: Any) -> Bounds | None:
        assert not unranked
        return judge(groups, **options)

    return judged


def macro_rate(groups: list[list[int]], unranked: Sequence[int], *, average: str, **options: Any) -> Bounds | None:
    """FNMR of one query with a threshold of its own."""
    assert average == "macro"
    return without_unranked(definitions.false_non_match_rate)(groups, unranked, **options)


GAINS = {"gain": ["exponential", "linear"], "discount": ["log2", "reciprocal"]}
FAMILIES: dict[str, Callable[[int], dict[str, Judge]]] = {
    "AP": lambda n: asked(
        "AP",
        definitions.average_precision,
        [None, *range(1, n + 3)],
        norm=["retrieved", "total", "min"],
        rel=[1, 2],
        empty=["zero", "skip"],
    ),
    "P": lambda n: asked("P", definitions.precision, range(1, n + 3), rel=[1, 2]),
    "R": lambda n: asked("R", definitions.recall, range(1, n + 3), rel=[1, 2]),
    "Hit": lambda n: asked("Hit", definitions.hit, [None, *range(1, n + 3)], rel=[1, 2]),
    "RR": lambda n: asked("RR", definitions.reciprocal_rank, [None, *range(1, n + 3)], rel=[1, 2]),
    "DCG": lambda n: asked("DCG", definitions.dcg, [None, *range(1, n + 3)], **GAINS),
    "nDCG": lambda n: asked("nDCG", definitions.ndcg, [None, *range(1, n + 3)], **GAINS),
    "MAP@R": lambda n: asked("MAP@R", definitions.average_precision_at_r, [None], rel=[1, 2]),
    "RPrecision": lambda n: asked("RPrecision", definitions.precision_at_r, [None], rel=[1, 2]),
    "VSDHR": lambda n: asked("VSDHR", definitions.discovery_hit_rate, range(1, n + 3), rel=[1, 2]),
    "VSDMRR": lambda n: asked("VSDMRR", definitions.discovery_reciprocal_rank, range(1, n + 3), rel=[1, 2]),
}
MADE_FOR_UNJUDGED: dict[str, Callable[[int], dict[str, Judge]]] = {
    "Judged": lambda n: asked("Judged", definitions.judged, range(1, n + 3)),
    "Bpref": lambda n: asked("Bpref", definitions.bpref, [None], rel=[1, 2]),
    "RBP": lambda n: asked(
        "RBP",
        definitions.rank_biased,
        [None, *range(1, n + 3)],
        p=[0.8, 0.5, 0.05],
        rel=[1, 2],
        part=["sum", "residual"],
    ),
}
AREAS: dict[str, Callable[[int], dict[str, Judge]]] = {
    "AUC": lambda n: asked("AUC", without_unranked(definitions.auc), [None], rel=[1, 2]),
    "FNMR": lambda n: asked(
        "FNMR", macro_rate, [None], average=["macro"], fmr=[0.001, 0, 0.25, 0.29, 0.5, 0.99], rel=[1, 2]
    ),
    "PRAUC": lambda n: asked("PRAUC", without_unranked(definitions.pr_auc), [None], rel=[1, 2]),
}
ALL = FAMILIES | AREAS | MADE_FOR_UNJUDGED


def check(result: Any, metrics: dict[str, Judge], queries: Sequence[tuple[list[list[int]], Sequence[int]]]) -> None:
    """Compare every metric of every query, given as (groups, unranked); the result was made with undefined="skip"."""
    assert metrics
    assert queries
    for name, judge in metrics.items():
        value = result[name]
        expected = [judge(groups, unranked) for groups, unranked in queries]
        nothing = Bounds(math.nan, math.nan, math.nan)
        wanted = np.array([[float(x) for x in bounds or nothing] for bounds in expected]).T
        found = np.array([value.per_query, value.best_per_query, value.worst_per_query])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE, err_msg=f"{name} of {queries}")
        assert value.undefined == sum(bounds is None for bounds in expected), name
        assert found.shape == (3, len(queries))


# Small rankings, against every order of the tied items


@pytest.mark.parametrize("family", ALL)
@settings(deadline=None, max_examples=50)
@given(case=rankings())
def test_every_metric_equals_the_enumeration(family: str, case: Rankings) -> None:
    metrics = ALL[family](case.n_items)
    result = la.evaluate_scores(case.scores, la.grades(case.matrix), metrics=list(metrics), undefined="skip")
    check(result, metrics, [(case.groups(q), ()) for q in range(len(case))])


@pytest.mark.parametrize("family", ALL)
@settings(deadline=None, max_examples=25)
@given(case=rankings(), data=st.data())
def test_excluded_items_neither_rank_nor_count(family: str, case: Rankings, data: st.DataObject) -> None:
    query_groups = data.draw(st.lists(st.integers(0, 2), min_size=len(case), max_size=len(case)))
    item_groups = data.draw(st.lists(st.integers(0, 3), min_size=case.n_items, max_size=case.n_items))
    metrics = ALL[family](case.n_items)
    result = la.evaluate_scores(
        case.scores,
        la.grades(case.matrix),
        metrics=list(metrics),
        exclude=(np.array(query_groups), np.array(item_groups)),
        undefined="skip",
    )
    left_out = [frozenset(i for i, group in enumerate(item_groups) if group == mine) for mine in query_groups]
    check(result, metrics, [(case.groups(q, left_out[q]), ()) for q in range(len(case))])


@settings(deadline=None, max_examples=25)
@given(case=rankings())
def test_the_query_itself_is_excluded_by_its_id(case: Rankings) -> None:
    metrics = ALL["AP"](case.n_items) | ALL["nDCG"](case.n_items)
    names = [f"item {i}" for i in range(case.n_items)]
    query_ids = [names[q] if q < case.n_items else f"no item {q}" for q in range(len(case))]
    result = la.evaluate_scores(
        case.scores,
        la.grades(case.matrix),
        metrics=list(metrics),
        query_ids=query_ids,
        gallery_ids=names,
        exclude="self",
        undefined="skip",
    )
    check(result, metrics, [(case.groups(q, frozenset([q])), ()) for q in range(len(case))])


def as_run(
    case: Rankings, unranked: Sequence[Sequence[int]]
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """The rankings as a run file, and judgements of its items and of others that it does not rank."""
    run: dict[str, dict[str, float]] = {}
    judgements: dict[str, dict[str, int]] = {}
    for q, grades in enumerate(case.grades):
        run[f"q{q}"] = {f"d{i}": float(score) for i, score in enumerate(case.scores[q])}
        judgements[f"q{q}"] = {f"d{i}": grade for i, grade in enumerate(grades)}
        judgements[f"q{q}"] |= {f"missing{i}": grade for i, grade in enumerate(unranked[q])}
    return run, judgements


@pytest.mark.parametrize("family", FAMILIES | MADE_FOR_UNJUDGED)
@settings(deadline=None, max_examples=25)
@given(case=rankings(max_items=5), data=st.data())
def test_judged_items_outside_the_run_count_in_totals_and_ideals(
    family: str, case: Rankings, data: st.DataObject
) -> None:
    unranked = [data.draw(st.lists(st.integers(0, 3), max_size=3)) for _ in range(len(case))]
    run, judgements = as_run(case, unranked)
    metrics = ALL[family](case.n_items)
    result = la.evaluate_run(run, la.judged(judgements), metrics=list(metrics), undefined="skip")
    check(result, metrics, [(case.groups(q), unranked[q]) for q in range(len(case))])


@pytest.mark.parametrize("policy", ["irrelevant", "relevant", "condensed"])
@settings(deadline=None, max_examples=25)
@given(case=rankings(max_items=5), data=st.data())
def test_unjudged_items_are_irrelevant_or_removed_as_asked(policy: str, case: Rankings, data: st.DataObject) -> None:
    judged = [data.draw(st.sets(st.integers(0, case.n_items - 1), min_size=1)) for _ in range(len(case))]
    run, judgements = as_run(case, [()] * len(case))
    for q, kept in enumerate(judged):
        judgements[f"q{q}"] = {f"d{i}": case.grades[q][i] for i in sorted(kept)}
    metrics = {name: judge for family in FAMILIES.values() for name, judge in family(case.n_items).items()}
    result = la.evaluate_run(run, la.judged(judgements), metrics=list(metrics), undefined="skip", unjudged=policy)
    everyone = range(case.n_items)
    queries = []
    for q, kept in enumerate(judged):
        grade = int(policy == "relevant")
        zeroed = Rankings(case.place, [[row[i] if i in kept else grade for i in everyone] for row in case.grades])
        left_out = frozenset(everyone) - kept if policy == "condensed" else frozenset()
        queries.append((zeroed.groups(q, left_out), ()))
    check(result, metrics, queries)


@pytest.mark.parametrize("family", MADE_FOR_UNJUDGED)
@pytest.mark.parametrize("policy", [None, "irrelevant", "relevant", "condensed", "error"])
@settings(deadline=None, max_examples=15)
@given(case=rankings(max_items=5), data=st.data())
def test_metrics_made_for_unjudged_items_see_them_whatever_they_count_elsewhere(
    family: str, policy: str | None, case: Rankings, data: st.DataObject
) -> None:
    judged = [data.draw(st.sets(st.integers(0, case.n_items - 1))) for _ in range(len(case))]
    unranked = [data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)) for _ in range(len(case))]
    run, judgements = as_run(case, unranked)
    for q, kept in enumerate(judged):
        for i in set(range(case.n_items)) - kept:
            del judgements[f"q{q}"][f"d{i}"]
    metrics = MADE_FOR_UNJUDGED[family](case.n_items)
    result = la.evaluate_run(run, la.judged(judgements), metrics=list(metrics), undefined="skip", unjudged=policy)
    known = Rankings(
        case.place,
        [
            [grade if i in kept else definitions.UNJUDGED for i, grade in enumerate(row)]
            for row, kept in zip(case.grades, judged, strict=True)
        ],
    )
    check(result, metrics, [(known.groups(q), unranked[q]) for q in range(len(case))])


def test_an_unjudged_item_in_the_ranking_is_an_error_unless_a_policy_is_given() -> None:
    run, relevance = {"q": {"a": 2.0, "b": 1.0}}, la.judged({"q": {"a": 1}})
    for name in ("AP", "P@1", "MAP@R", "RPrecision", "R@5", "Hit", "RR", "DCG", "nDCG@2", "VSDHR@2", "VSDMRR@2"):
        with pytest.raises(ValueError, match="unjudged"):
            la.evaluate_run(run, relevance, metrics=[name])
        assert la.evaluate_run(run, relevance, metrics=[name], unjudged="irrelevant")[name].mean > 0


def test_judgements_come_as_rows_or_as_a_dict() -> None:
    run = {"q": {"a": 1.0, "b": 2.0}}
    rows = la.evaluate_run(run, la.judged([("q", "a", 2), ("q", "b", 0), ("q", "c", 1)]), metrics=["nDCG"])["nDCG"]
    nested = la.evaluate_run(run, la.judged({"q": {"a": 2, "b": 0, "c": 1}}), metrics=["nDCG"])["nDCG"]
    ideal = 3 + 1 / math.log2(3)
    assert rows.mean == nested.mean == pytest.approx(3 / math.log2(3) / ideal, abs=TOLERANCE)


# What is undefined


UNDEFINED_WITHOUT_A_RELEVANT_ITEM = ["AP", "AP@2", "AP(norm='total')@2", "R@2", "RR", "RR@1", "nDCG", "nDCG@2", "Bpref"]
UNDEFINED_WITHOUT_A_RELEVANT_ITEM += ["MAP@R", "RPrecision"]
NEEDS_TWO_CLASSES = ["AUC", "PRAUC"]
ALWAYS_DEFINED = ["P@2", "Hit", "Hit@2", "DCG", "DCG@2", "RBP", "RBP@2"]
SKIPPED_WITHOUT_A_RELEVANT_ITEM = ["VSDHR@1", "VSDMRR@1"]
TWO_QUERIES = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])


def one_undefined(name: str, **policy: Any) -> Any:
    """A metric over a query that ranks its relevant item first and a query without any."""
    return la.evaluate_scores(TWO_QUERIES, la.grades(np.array([[1, 0, 0], [0, 0, 0]])), metrics=[name], **policy)[name]


@pytest.mark.parametrize(
    "name", UNDEFINED_WITHOUT_A_RELEVANT_ITEM + NEEDS_TWO_CLASSES + SKIPPED_WITHOUT_A_RELEVANT_ITEM
)
def test_undefined_zero_skip_and_error(name: str) -> None:
    zero, skip = one_undefined(name, undefined="zero"), one_undefined(name, undefined="skip")
    assert zero.undefined == skip.undefined == 1
    for values in (zero.per_query, zero.best_per_query, zero.worst_per_query):
        np.testing.assert_array_equal(values, [1.0, 0.0])
    for values in (skip.per_query, skip.best_per_query, skip.worst_per_query):
        np.testing.assert_array_equal(values, [1.0, np.nan])
    assert (zero.mean, zero.best, zero.worst) == (0.5, 0.5, 0.5)
    assert (skip.mean, skip.best, skip.worst) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="undefined"):
        one_undefined(name, undefined="error")


@pytest.mark.parametrize("name", UNDEFINED_WITHOUT_A_RELEVANT_ITEM)
def test_ranking_metrics_count_an_undefined_query_as_zero_by_default(name: str) -> None:
    assert (one_undefined(name).mean, one_undefined(name).undefined) == (0.5, 1)


@pytest.mark.parametrize("name", NEEDS_TWO_CLASSES)
def test_areas_skip_an_undefined_query_by_default(name: str) -> None:
    assert (one_undefined(name).mean, one_undefined(name).undefined) == (1.0, 1)
    everything = la.evaluate_scores(TWO_QUERIES, la.grades(np.array([[1, 0, 0], [1, 1, 1]])), metrics=[name])[name]
    assert (everything.mean, everything.undefined) == (1.0, 1)


@pytest.mark.parametrize("name", SKIPPED_WITHOUT_A_RELEVANT_ITEM)
def test_discovery_is_of_queries_with_a_positive(name: str) -> None:
    assert (one_undefined(name).mean, one_undefined(name).undefined) == (1.0, 1)


@pytest.mark.parametrize("name", ALWAYS_DEFINED)
def test_always_defined(name: str) -> None:
    value = one_undefined(name, undefined="error")
    assert value.undefined == 0
    assert value.per_query[0] > value.per_query[1] == 0.0
    assert value.mean == value.per_query[0] / 2


def test_an_unknown_policy_is_an_error() -> None:
    for policy in ({"undefined": "ignore"}, {"unjudged": "likely"}):
        with pytest.raises(ValueError, match=next(iter(policy.values()))):
            one_undefined("AP", **policy)


def test_the_mean_is_over_queries_not_over_items() -> None:
    """Two queries over one gallery, of which exclusion leaves three items to one and one item to the other."""
    relevance = la.grades(np.array([[0, 0, 1, 0], [0, 0, 0, 1]]))
    scores = np.array([[4.0, 3.0, 2.0, 1.0]] * 2)
    result = la.evaluate_scores(scores, relevance, metrics=["RR"], exclude=([0, 1], [1, 1, 1, 0]))["RR"]
    np.testing.assert_allclose(result.per_query, [1 / 3, 1.0], atol=TOLERANCE)
    assert result.mean == pytest.approx(2 / 3, abs=TOLERANCE)


# Names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HR@2", "Hit@2"),
        ("MRR", "RR"),
        ("mAP@R", "MAP@R"),
        ("MAPR", "MAP@R"),
        ("RPrec", "RPrecision"),
        ("Rprec", "RPrecision"),
        ("FNMR(fmr=1e-1)", "FNMR(average='micro', fmr=0.1)"),
        ("MRR@2", "RR@2"),
        ("AP(norm='retrieved')@2", "AP@2"),
        ('AP(norm="total")@2', "AP(norm='total')@2"),
        ("AP(rel=1)", "AP"),
        ("nDCG(gain='exponential', discount='log2')@2", "nDCG@2"),
    ],
)
def test_two_spellings_of_one_metric(one: str, other: str) -> None:
    scores, relevance = np.array([[1.0, 1.0, 0.0, 0.0]]), la.grades(np.array([[0, 1, 2, 0]]))
    result = la.evaluate_scores(scores, relevance, metrics=[one])
    assert result[one].mean == la.evaluate_scores(scores, relevance, metrics=[other])[other].mean > 0
    assert la.Metric.parse(one) == la.Metric.parse(other)
    assert hash(la.Metric.parse(one)) == hash(la.Metric.parse(other))


@pytest.mark.parametrize("family", ALL)
def test_the_name_of_a_metric_parses_to_the_metric(family: str) -> None:
    for name in ALL[family](3):
        metric = la.Metric.parse(name)
        assert la.Metric.parse(str(metric)) == metric
    without_cutoff = {name for name in ALL[family](3) if "norm" in name and "@" not in name}  # all norms are one there
    assert len({la.Metric.parse(name) for name in ALL[family](3)}) == len(ALL[family](3)) - len(without_cutoff)


NO_METRICS = ["P", "R", "AP@0", "P@-1", "AP(norm='all')@3", "AP(k=3)", "nDCG(rel=2)@3", "XYZ@3"]


@pytest.mark.parametrize("name", [*NO_METRICS, "MAP@R@3", "AP@R", "FNMR(fmr=1)", "FNMR@2"])
def test_what_is_no_metric_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=name.split("@")[0].split("(")[0]):
        la.evaluate_scores(np.array([[1.0]]), la.grades(np.array([[1]])), metrics=[name])


# Scores tie when they are equal, and only then


def test_close_scores_do_not_tie() -> None:
    relevance = la.grades(np.array([[1, 0]]))
    for scores in ([1.0, 1.0 + 1e-12], [1e-300, 2e-300], [-1.0, -1.0 + 1e-15], [1e15, 1e15 + 1]):
        value = la.evaluate_scores(np.array([scores]), relevance, metrics=["RR"])["RR"]
        assert (value.best, value.worst) == (0.5, 0.5), scores


def test_zero_and_minus_zero_tie() -> None:
    for scores in ([0.0, -0.0], [-0.0, 0.0]):
        value = la.evaluate_scores(np.array([scores]), la.grades(np.array([[1, 0]])), metrics=["RR"])["RR"]
        assert (value.mean, value.best, value.worst) == (0.75, 1.0, 0.5)


# Printed numbers


def test_ten_items_on_one_code() -> None:
    """Ding et al. 2018, figure 2, prints 1 and 0.3544 for the same codes."""
    queries, gallery = la.Codes.pack(np.zeros((1, 12))), la.Codes.pack(np.zeros((10, 12)))
    relevance = la.same_label([1], [0, 1] * 5)
    norms = {"AP@3": 0.673611, "AP(norm='total')@3": 0.235185, "AP(norm='min')@3": 0.391975}
    result = la.evaluate(queries, gallery, relevance, metrics=["AP", *norms])
    assert (result["AP"].mean, result["AP"].best, result["AP"].worst) == pytest.approx(
        (0.607165, 1.0, 0.354365), abs=5e-7
    )
    for name, expected in norms.items():
        assert result[name].mean == pytest.approx(expected, abs=5e-7), name


def test_one_more_relevant_item_can_lower_retrieved_ap() -> None:
    """Groups (1, 1), (9, 0), (2, 1) at k = 11: best is not "as many relevant items as fit"."""
    scores = np.array([[3.0] + [2.0] * 9 + [1.0, 1.0]])
    relevance = la.grades(np.array([[1] + [0] * 9 + [1, 0]]))
    value = la.evaluate_scores(scores, relevance, metrics=["AP@11"])["AP@11"]
    assert (value.mean, value.best, value.worst) == pytest.approx((0.795455, 1.0, 0.590909), abs=5e-7)


def test_lgap_worked_example() -> None:
    """Ding et al. 2018, eq. 12-15: balls of 1/1, 4/6, 5/10 relevant, at most 2 items a code: (1 + 4/10 + 5/22) / 3."""
    near = [[1, 0, 0, 0]] * 2 + [[0, 1, 0, 0]] * 2 + [[0, 0, 1, 0]]
    far = [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2
    gallery = la.Codes.pack(np.array([[0, 0, 0, 0], *near, *far]))
    relevance = la.same_label(["x"], np.array(list("xxxxyyxyyy")))
    result = la.evaluate(la.Codes.pack(np.zeros((1, 4))), gallery, relevance, metrics=["LGAP@0", "LGAP@1", "LGAP@2"])
    assert result["LGAP@2"].mean == pytest.approx(0.542424, abs=5e-7)
    assert result["LGAP@1"].mean == pytest.approx((1 + 4 / 10) / 2, abs=TOLERANCE)
    assert result["LGAP@0"].mean == 1.0


# Codes: radius and space


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    n_bits=st.sampled_from([1, 2, 3, 5, 8, 9, 21, 64, 65, 130]),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 12)),
    method=st.sampled_from(["auto", "plain"]),
)
def test_radius_and_lgap_equal_the_definition(
    data: st.DataObject, n_bits: int, sizes: tuple[int, int], method: str
) -> None:
    query_bits, gallery_bits = (data.draw(bit_matrices(n, n_bits)) for n in sizes)
    grades = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 2), min_size=sizes[1], max_size=sizes[1]), min_size=sizes[0], max_size=sizes[0]
            )
        )
    )
    radii = sorted({0, 1, 2, n_bits // 2, n_bits})
    names = [f"{m}({rel}radius={r})" for m in "PR" for rel in ("", "rel=2, ") for r in radii]
    names += [f"LGAP{rel}@{r}" for rel in ("", "(rel=2)") for r in (0, 1, 2, 3)]
    tally = la.count(la.Codes.pack(query_bits), la.Codes.pack(gallery_bits), la.grades(grades), radius=3, method=method)
    result = la.evaluate_tally(tally, metrics=names, undefined="skip")
    queries, gallery = query_bits.tolist(), gallery_bits.tolist()
    for name in names:
        rel = 2 if "rel=2" in name else 1
        wanted = []
        for query, row in zip(queries, grades.tolist(), strict=True):
            groups, distances = definitions.groups_by_distance(query, gallery, row)
            bounds: Bounds | None
            if name.startswith("LGAP"):
                local = definitions.lgap(query, gallery, row, radius=int(name.split("@")[1]), rel=rel)
                bounds = Bounds(local, local, local)
            else:
                radius = int(name.split("radius=")[1].rstrip(")"))
                inside = definitions.precision_in_radius if name[0] == "P" else definitions.recall_in_radius
                bounds = inside(groups, distances, radius=radius, rel=rel)
            wanted.append([math.nan] * 3 if bounds is None else [float(x) for x in bounds])
        value = result[name]
        found = np.array([value.per_query, value.best_per_query, value.worst_per_query])
        np.testing.assert_allclose(found, np.array(wanted).T, rtol=0, atol=TOLERANCE, err_msg=name)


@settings(deadline=None, max_examples=30)
@given(data=st.data(), n_bits=st.sampled_from([1, 3, 8, 21, 65]))
def test_an_excluded_item_is_in_no_ball(data: st.DataObject, n_bits: int) -> None:
    """It counts neither as an item of the ball nor towards the largest number of items on one code."""
    query_bits, gallery_bits = (data.draw(bit_matrices(n, n_bits)) for n in (3, 12))
    mine, theirs = (data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)) for n in (3, 12))
    classes = data.draw(labels(12))
    names = ["LGAP@0", "LGAP@1", "LGAP@2", "P(radius=1)"]
    codes = la.Codes.pack(query_bits), la.Codes.pack(gallery_bits)
    result = la.evaluate(*codes, la.same_label([0, 0, 1], classes), metrics=names, exclude=(mine, theirs))
    for q, label in enumerate([0, 0, 1]):
        rows = [i for i in range(12) if theirs[i] != mine[q]]
        gallery, grades = [gallery_bits[i].tolist() for i in rows], [int(classes[i] == label) for i in rows]
        query = query_bits[q].tolist()
        wanted = [float(definitions.lgap(query, gallery, grades, radius=r)) for r in range(3)]
        inside = definitions.precision_in_radius(*definitions.groups_by_distance(query, gallery, grades), radius=1)
        found = [result[name].per_query[q] for name in names]
        np.testing.assert_allclose(found, [*wanted, float(inside.expected)], rtol=0, atol=TOLERANCE)


def test_an_empty_ball_has_precision_zero() -> None:
    codes = la.Codes.pack(np.zeros((1, 8))), la.Codes.pack(np.ones((3, 8)))
    result = la.evaluate(*codes, la.same_label([1], [1, 1, 0]), metrics=["P(radius=7)", "P(radius=8)", "LGAP@3"])
    assert (result["P(radius=7)"].mean, result["LGAP@3"].mean) == (0.0, 0.0)
    assert result["P(radius=8)"].mean == pytest.approx(2 / 3, abs=TOLERANCE)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), n_bits=st.sampled_from([1, 7, 8, 9, 63, 64, 65, 200]))
def test_hamming_distance_cosine_and_euclid_are_one_thing(data: st.DataObject, n_bits: int) -> None:
    """d = b/2 (1 - cos) = b/4 |x/|x| - y/|y||^2 for codes of -1 and +1."""
    signs = [2.0 * data.draw(bit_matrices(n, n_bits)).astype(np.float64) - 1 for n in (2, 9)]
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in signs]
    from_cosine = n_bits / 2 * (1 - unit[0] @ unit[1].T)
    from_euclid = n_bits / 4 * ((unit[0][:, None] - unit[1][None]) ** 2).sum(axis=2)
    for i in range(len(signs[1])):
        item = la.Codes.pack(signs[1][i : i + 1])
        counts = la.count(la.Codes.pack(signs[0]), item, la.same_label([1, 1], [1])).counts
        d = counts.sum(axis=2).argmax(axis=1)
        assert counts.sum() == 2
        np.testing.assert_allclose(from_cosine[:, i], d, atol=1e-9)
        np.testing.assert_allclose(from_euclid[:, i], d, atol=1e-9)


# Hundreds of items in a group, against exact arithmetic


def large_case(groups: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Scores and grades of one query with these (items, relevant items) groups, the relevant ones spread about."""
    scores = np.concatenate([np.full(n, -float(i)) for i, (n, _) in enumerate(groups)])
    grades = np.concatenate([(np.arange(n) * n_rel) % n < n_rel for n, n_rel in groups]).astype(np.int64)
    assert [int(grades[scores == -i].sum()) for i in range(len(groups))] == [n_rel for _, n_rel in groups]
    shuffled = np.random.default_rng(len(scores)).permutation(len(scores))
    return scores[shuffled][None], grades[shuffled][None]


def cutoffs_of(data: st.DataObject, groups: list[tuple[int, int]]) -> list[int]:
    """Before, at and after the end of a group, inside one, and past the last item."""
    n_items = sum(n for n, _ in groups)
    end = sum(n for n, _ in groups[: data.draw(st.integers(0, len(groups)))])
    inside = data.draw(st.integers(1, n_items))
    return sorted({max(1, end - 1), max(1, end), end + 1, inside, n_items + 5})


@settings(deadline=None, max_examples=25)
@given(groups=group_sizes(), data=st.data())
def test_large_groups_equal_exact_arithmetic(groups: list[tuple[int, int]], data: st.DataObject) -> None:
    scores, grades = large_case(groups)
    total = sum(n_rel for _, n_rel in groups)
    wanted: dict[str, Bounds | None] = {
        "AUC": formulas.auc(groups),
        "RR": formulas.reciprocal_rank(groups),
        "AP": formulas.average_precision(groups),
    }
    if total:
        wanted["MAP@R"] = formulas.average_precision(groups, k=total, norm="total")
        wanted["RPrecision"] = Bounds(*(x / total for x in formulas.relevant_in_top(groups, k=total)))
    for k in cutoffs_of(data, groups):
        for norm in ("retrieved", "total", "min"):
            wanted[f"AP(norm='{norm}')@{k}"] = formulas.average_precision(groups, k=k, norm=norm)
        found = formulas.relevant_in_top(groups, k=k)
        wanted[f"P@{k}"] = Bounds(*(x / k for x in found))
        wanted[f"R@{k}"] = Bounds(*(x / Fraction(total) for x in found)) if total else None
        wanted[f"Hit@{k}"] = formulas.hit(groups, k=k)
        wanted[f"RR@{k}"] = formulas.reciprocal_rank(groups, k=k)
    result = la.evaluate_scores(scores, la.grades(grades), metrics=list(wanted), undefined="skip")
    for name, bounds in wanted.items():
        value = result[name]
        found_floats = [value.per_query[0], value.best_per_query[0], value.worst_per_query[0]]
        wanted_floats = [math.nan] * 3 if bounds is None else [float(x) for x in bounds]
        np.testing.assert_allclose(found_floats, wanted_floats, rtol=0, atol=TOLERANCE, err_msg=f"{name} of {groups}")


@settings(deadline=None, max_examples=25)
@given(groups=group_sizes(), data=st.data())
def test_large_groups_of_many_grades_equal_the_sum_of_mean_gains(
    groups: list[tuple[int, int]], data: st.DataObject
) -> None:
    scores, grades = large_case(groups)
    grades *= np.random.default_rng(grades.size).integers(1, 5, grades.shape)
    by_group = [grades[0][scores[0] == -i].tolist() for i in range(len(groups))]
    ideal = [[grade] for grade in sorted(grades[0].tolist(), reverse=True)]
    for gain in ("exponential", "linear"):
        for discount in ("log2", "reciprocal"):
            for k in cutoffs_of(data, groups):
                options = f"(gain='{gain}', discount='{discount}')@{k}"
                result = la.evaluate_scores(
                    scores, la.grades(grades), metrics=["DCG" + options, "nDCG" + options], undefined="skip"
                )
                bounds = formulas.dcg(by_group, k=k, gain=gain, discount=discount)
                best = float(formulas.dcg(ideal, k=k, gain=gain, discount=discount).best)
                for name, scale in (("DCG", 1.0), ("nDCG", best)):
                    value = result[name + options]
                    found = [value.per_query[0], value.best_per_query[0], value.worst_per_query[0]]
                    wanted = [float(x) / scale if scale else math.nan for x in bounds]
                    # A DCG of hundreds of gains is far above 1: there the tolerance is relative.
                    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name + options)
