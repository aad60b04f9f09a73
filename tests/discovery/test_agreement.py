"""Agreement: published worked examples, loops over votes, and what each figure leaves out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.discovery.agreement import Kappas, agreement, cohen_kappa, gwet_ac1, krippendorff_alpha
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.votes import Votes
from reference import votes as slow

single_votes = st.tuples(
    st.just("q"),
    st.sampled_from("abcdef"),
    st.sampled_from(["ann", "bob", "eve", "dan"]),
    st.sampled_from([1, 1, 1, 0, -1]),
    st.one_of(st.none(), st.integers(0, 2)),
)
records = st.lists(single_votes, max_size=50)


def votes_of(rows: list[slow.Vote]) -> Votes:
    queries, items, experts, answers, times = zip(*rows, strict=True) if rows else ([],) * 5
    return Votes(queries, items, experts, answers, [None if t is None else f"2024-05-01T00:00:0{t}" for t in times])


def counted(*experts: str) -> tuple[np.ndarray, list[list[int]]]:
    """Answers of each unit, as counts and as lists; an expert's are a string, a dot where there is none."""
    answers = sorted(set("".join(experts)) - {"."})
    units = [[answers.index(answer) for answer in unit if answer != "."] for unit in zip(*experts, strict=True)]
    return np.array([[unit.count(i) for i in range(len(answers))] for unit in units]), units


def equal(found: float, expected: Fraction | None) -> bool:
    return math.isnan(found) if expected is None else found == pytest.approx(float(expected), abs=1e-12)


# Published examples

# Krippendorff 2011, "Computing Krippendorff's alpha-reliability": two observers, two values (section A); two observers,
# five values (B); four observers, five values, missing data (C)
KRIPPENDORFF = [
    (("0100000010", "1110010000"), 0.095),
    (("aabbdcccedda", "babbbccceddd"), 0.692),
    (("123321412...", "1233224125.3", ".3332342251.", "12332441251."), 0.743),
]


@pytest.mark.parametrize(("experts", "alpha"), KRIPPENDORFF)
def test_alpha_is_krippendorffs(experts: tuple[str, ...], alpha: float) -> None:
    counts, units = counted(*experts)
    assert krippendorff_alpha(counts) == pytest.approx(alpha, abs=0.0005)
    assert equal(krippendorff_alpha(counts), slow.krippendorff_alpha(units))


def test_coefficients_of_four_raters_with_missing_ratings_are_gwets() -> None:
    """Gwet 2014, the twelve subjects of the data set cac.raw4raters of his package irrCAC, as it prints them."""
    counts, units = counted("123321412...", "1233224125..", ".33323422513", "12332441251.")
    assert gwet_ac1(counts) == pytest.approx(0.77544, abs=5e-6)
    assert krippendorff_alpha(counts) == pytest.approx(0.74342, abs=5e-6)
    assert equal(gwet_ac1(counts), slow.gwet_ac1(units, range(5)))


def test_coefficients_of_six_raters_are_gwets() -> None:
    """Gwet 2014, six psychiatrists and fifteen patients: distrib.6raters of irrCAC, as it prints them."""
    counts = [
        [0, 0, 0, 6, 0], [0, 3, 0, 0, 3], [0, 1, 4, 0, 1], [0, 0, 0, 0, 6], [0, 3, 0, 3, 0],
        [2, 0, 4, 0, 0], [0, 0, 4, 0, 2], [2, 0, 3, 1, 0], [2, 0, 0, 4, 0], [0, 0, 0, 0, 6],
        [1, 0, 0, 5, 0], [1, 1, 0, 4, 0], [0, 3, 3, 0, 0], [1, 0, 0, 5, 0], [0, 2, 0, 3, 1],
    ]  # fmt: skip
    assert gwet_ac1(counts) == pytest.approx(0.4448007, abs=5e-8)
    assert krippendorff_alpha(counts) == pytest.approx(0.4204384, abs=5e-8)


def test_coefficients_of_two_abstractors_are_gwets() -> None:
    """Gwet 2014, a hundred cases: cont3x3abstractors of irrCAC, as it prints them."""
    table = [[13, 0, 0], [0, 20, 7], [0, 4, 56]]
    assert cohen_kappa(table) == pytest.approx(0.7964094, abs=5e-8)
    counts = [np.eye(3)[i] + np.eye(3)[j] for i in range(3) for j in range(3) for _ in range(table[i][j])]
    assert gwet_ac1(counts) == pytest.approx(0.8493305, abs=5e-8)
    assert krippendorff_alpha(counts) == pytest.approx(0.7972585, abs=5e-8)


def test_kappa_is_cohens() -> None:
    """Cohen 1960, table 2: two judges, 200 subjects, kappa 0.492."""
    assert cohen_kappa([[88, 14, 18], [10, 40, 10], [2, 6, 12]]) == pytest.approx(0.492, abs=0.0005)


def test_skewed_answers_spoil_kappa_and_alpha_but_not_ac1() -> None:
    """94.4 % agreement, nearly all positive: chance is 0.9454 for kappa and 0.0545 for AC1, by hand."""
    table = [[118, 5], [2, 0]]
    assert cohen_kappa(table) == pytest.approx((0.944 - 0.94528) / (1 - 0.94528), abs=1e-12)
    counts = [[2, 0]] * 118 + [[1, 1]] * 7
    chance = 2 * (243 / 250) * (7 / 250)
    assert gwet_ac1(counts) == pytest.approx((0.944 - chance) / (1 - chance), abs=1e-12)
    assert cohen_kappa(table) < 0 < 0.9 < gwet_ac1(counts)
    assert krippendorff_alpha(counts) < 0


# Loops


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=8))
def test_alpha_and_ac1_are_those_of_all_pairs_of_answers(units: list[list[int]]) -> None:
    counts = np.array([[unit.count(answer) for answer in range(3)] for unit in units], int).reshape(-1, 3)
    assert equal(krippendorff_alpha(counts), slow.krippendorff_alpha(units))
    assert equal(gwet_ac1(counts), slow.gwet_ac1(units, range(3)))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_kappa_is_that_of_a_list(pairs: list[tuple[int, int]]) -> None:
    table = np.zeros((3, 3), int)
    for first, second in pairs:
        table[first, second] += 1
    first, second = ([pair[i] for pair in pairs] for i in (0, 1))
    assert equal(cohen_kappa(table), slow.cohen_kappa(first, second))


@given(records)
def test_agreement_is_that_of_loops(rows: list[slow.Vote]) -> None:
    table, found = slow.last_votes(rows), agreement(votes_of(rows))
    units = [slow.decided(answers) for answers in table.values()]
    assert equal(found.alpha, slow.krippendorff_alpha(units))
    assert equal(found.ac1, slow.gwet_ac1(units, (0, 1)))
    several = [unit for unit in units if len(unit) > 1]
    assert found.pairs == len(several)
    assert equal(found.unanimous, ratio(sum(len(set(unit)) == 1 for unit in several), len(several)))
    names = sorted({row[2] for row in rows})
    assert [row["expert"] for row in found.rows()] == names
    both = {}
    for first, second in combinations(names, 2):
        shared = [said for said in table.values() if -1 not in (said.get(first, -1), said.get(second, -1))]
        both[first, second] = len(shared), slow.cohen_kappa([s[first] for s in shared], [s[second] for s in shared])
    assert {(row["first"], row["second"]): row["pairs"] for row in found.kappa_rows()} == {
        pair: n for pair, (n, _) in both.items()
    }
    assert all(equal(row["kappa"], both[row["first"], row["second"]][1]) for row in found.kappa_rows())
    np.testing.assert_array_equal(found.kappa, found.kappa.T)
    for row in found.rows():
        said = [answers[row["expert"]] for answers in table.values() if row["expert"] in answers]
        assert (row["votes"], row["decided"]) == (len(said), len(said) - said.count(-1))
        assert equal(row["cant_tell"], ratio(said.count(-1), len(said)))
        assert equal(row["similar"], ratio(said.count(1), len(said) - said.count(-1)))
        assert equal(row["with_others"], slow.as_others(table, row["expert"]))
        assert row["changed"] == slow.changed(rows, row["expert"])


def ratio(part: int, whole: int) -> Fraction | None:
    return Fraction(part, whole) if whole else None


# Figures of experts


def test_perfect_and_opposite_experts() -> None:
    def of(first: Sequence[int], second: Sequence[int]) -> Any:
        n = len(first)
        return agreement(Votes(["q"] * 2 * n, [*range(n)] * 2, ["a"] * n + ["b"] * n, [*first, *second]))

    same, opposite = of([1, 0, 1, 0], [1, 0, 1, 0]), of([1, 0, 1, 0], [0, 1, 0, 1])
    assert (same.alpha, same.ac1, same.kappa[0, 1], same.unanimous) == (1, 1, 1, 1)
    assert (opposite.ac1, opposite.kappa[0, 1], opposite.unanimous) == (-1, -1, 0)
    assert opposite.alpha == pytest.approx(1 - 1 / (32 / 56))
    one_sided = of([1, 1], [1, 1])
    assert (one_sided.ac1, one_sided.unanimous) == (1, 1)
    assert np.isnan([one_sided.alpha, one_sided.kappa[0, 1]]).all()


def test_gold_pairs_are_scored_with_cant_tell_as_not_right() -> None:
    votes = Votes(["q"] * 5, list("abcda"), ["ann"] * 4 + ["bob"], [1, 1, -1, 0, 0])
    gold = [("q", "a", 1), ("q", "b", 0), ("q", "c", 1), ("q", "z", 1)]
    for known in (gold, Judgements.of(gold), Judgements.of([(q, i, 3 * g) for q, i, g in gold])):
        ann, bob = agreement(votes, known).figures
        assert (ann.gold_right, ann.gold_asked, ann.gold) == (1, 3, 1 / 3)
        assert (bob.gold_right, bob.gold_asked, bob.gold) == (0, 1, 0.0)
    assert all(math.isnan(figures.gold) for figures in agreement(votes).figures)


def test_the_gold_score_is_that_of_the_last_vote() -> None:
    votes = Votes(["q"] * 2, ["a"] * 2, ["ann"] * 2, [0, 1])
    (ann,) = agreement(votes, [("q", "a", 1)]).figures
    assert (ann.votes, ann.changed, ann.gold_right, ann.gold_asked) == (1, 1, 1, 1)


def test_pace_is_the_median_of_known_seconds() -> None:
    votes = Votes(["q"] * 5, list("abcda"), ["ann"] * 4 + ["bob"], [1] * 5, seconds=[2, 9, 4, None, None])
    ann, bob = agreement(votes).figures
    assert ann.median_seconds == 4
    assert math.isnan(bob.median_seconds)


def test_nothing_is_no_error() -> None:
    found = agreement(Votes([], [], [], []))
    assert np.isnan([found.alpha, found.ac1, found.unanimous]).all()
    assert (found.figures, found.kappa.shape, found.pairs) == ((), (0, 0), 0)
    assert "not known" in str(found)
    alone = agreement(Votes(["q"], ["a"], ["ann"], [-1]))
    assert str(alone).splitlines()[1].split() == ["ann", "1", "0", "100.0%", "-", "-", "-", "0", "-"]


def test_it_shows_a_table() -> None:
    rows = [("a", "ann", 1, 3), ("a", "bob", 1, 4), ("b", "ann", 0, 5), ("b", "bob", 1, 6), ("c", "bob", -1, 1.25)]
    items, experts, answers, seconds = zip(*rows, strict=True)
    found = agreement(Votes(["q"] * 5, items, experts, answers, seconds=seconds), [("q", "a", 1)])
    assert str(found).splitlines() == [
        "expert  votes  decided  can't tell  similar  as others  seconds  changed  gold",
        "ann         2        2        0.0%    50.0%      50.0%      4.0        0   1/1",
        "bob         3        2       33.3%   100.0%      50.0%      4.0        0   1/1",
        "Krippendorff's alpha 0.0000, Gwet's AC1 0.2000, Cohen's kappa 0.0000 to 0.0000",
        "50.0% of 2 pairs with two decided votes or more are unanimous",
    ]
    table = found.to_pandas()
    assert table.loc["bob", "votes"] == 3
    assert found.kappa_rows() == [{"first": "ann", "second": "bob", "pairs": 2, "kappa": 0.0}]


def test_a_crowd_is_compared_without_a_table_of_pairs_and_experts() -> None:
    generator = np.random.default_rng(0)
    experts, items = generator.integers(300, size=3000), generator.integers(1000, size=3000)
    found = agreement(Votes(["q"] * 3000, items, [f"e{i}" for i in experts], generator.integers(-1, 2, 3000)))
    assert len(found.figures) == 300
    assert found.alpha == pytest.approx(0, abs=0.1)  # five standard deviations of what chance gives, 0.02


def test_experts_with_little_in_common_do_not_make_the_range() -> None:
    """Ann and bob have 30 pairs in common, eve four with either, on which she is wrong every time."""
    n = 30
    rows = [(f"i{i}", expert, int(i % 2)) for i in range(n) for expert in ("ann", "bob")]
    rows[0] = ("i0", "ann", 1)  # so that they do not agree on everything
    rows += [(f"i{i}", "eve", int(i % 2 == 0)) for i in range(4)]
    items, experts, answers = (list(column) for column in zip(*rows, strict=True))
    found = agreement(Votes(["q"] * len(rows), items, experts, answers))
    both = found.kappa[0, 1]
    assert 0 < both < 1
    assert found.kappas == Kappas(both, both, 2)
    assert "(2 left out, with fewer than 20 pairs in common)" in str(found)
    few = agreement(Votes(["q"] * 12, items[:8] + items[-4:], experts[:8] + experts[-4:], answers[:8] + answers[-4:]))
    known = few.kappa[np.triu_indices(3, 1)]
    assert few.kappas == Kappas(known.min(), known.max(), 0)  # there are no others
    assert "left out" not in str(few)
    assert agreement(Votes(["q"], ["a"], ["ann"], [1])).kappas is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: krippendorff_alpha([1, 2]), "matrix of numbers with two answers or more"),
        (lambda: gwet_ac1([[1]]), "matrix of numbers with two answers or more"),
        (lambda: gwet_ac1([[1, -1]]), "whole numbers from 0"),
        (lambda: krippendorff_alpha([[0.5, 1]]), "whole numbers from 0"),
        (lambda: cohen_kappa([[1, 2, 3], [1, 2, 3]]), "as many rows as columns"),
        (lambda: agreement(Votes(["q"], ["a"], ["ann"], [1]), [("q", "a", 1), ("q", "a", 0)]), "judged twice"),
    ],
)
def test_wrong_input_is_told(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_one_expert_alone_has_nobody_to_agree_with() -> None:
    told = str(agreement(Votes(["q", "q"], ["a", "b"], ["ann", "ann"], [1, 0])))
    assert told.endswith("\nno pair has two decided votes: how far experts agree is not known")
    assert "nan" not in told
