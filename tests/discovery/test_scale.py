"""Scales: their text, votes on them, rules, agreement, files, and leaderboards of graded judgements."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from lookalike.discovery import Collection, Judgements, Pool, Votes, agreement, by_rule, leaderboard, prevalence
from lookalike.discovery.complete import complete_votes
from lookalike.discovery.exports import export_judgements
from lookalike.discovery.formats import read_judgements
from lookalike.discovery.ordinal_agreement import gwet_ac2, ordinal_alpha, weighted_kappa
from lookalike.discovery.rules import gold_scores, judge_by, judge_by_all, rules_for
from lookalike.discovery.scale import BINARY, Scale
from lookalike.discovery.vote_log import JudgingTerms
from reference import scales as slow
from reference import votes as binary

THREE = Scale.parse("0 not alike, 1 related, 2 alike")
FIVE = Scale(("none", "little", "some", "much", "all"))
RULES: dict[str, Callable[[list[int]], int]] = {
    "median": slow.median, "majority": slow.majority, "mean": slow.mean, "unanimous": slow.unanimous,
}  # fmt: skip
EXPERTS = ["ann", "bob", "eve", "dan", "kim"]


@st.composite
def boards(draw: st.DrawFn) -> tuple[Scale, list[list[int]]]:
    """A scale, and for each pair the answers of five experts: a grade, -1 (can't tell), or None."""
    scale = Scale(tuple("abcde"[: draw(st.integers(2, 5))]))
    answers = st.sampled_from([None, -1, *range(len(scale))])
    return scale, draw(st.lists(st.lists(answers, min_size=5, max_size=5), max_size=8))


def votes_of(scale: Scale, pairs: list[list[Any]]) -> Votes:
    rows = [(f"i{n}", EXPERTS[e], said) for n, pair in enumerate(pairs) for e, said in enumerate(pair)]
    rows = [row for row in rows if row[2] is not None]
    items, experts, answers = zip(*rows, strict=True) if rows else ([],) * 3
    return Votes(["q"] * len(rows), items, experts, answers, scale=scale)


def decided(pair: list[Any]) -> list[int]:
    return [answer for answer in pair if answer is not None and answer >= 0]


def equal(found: float, expected: Fraction | None) -> bool:
    return math.isnan(found) if expected is None else found == pytest.approx(float(expected), abs=1e-12)


# Text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 not alike, 2 alike", "grades of a scale are 0, 1, 2, … in order, .* got '2 alike'"),
        ("1 related, 2 alike", "grades of a scale are 0, 1, 2, … in order, .* got '1 related'"),
        ("0 no, 1 yes, 1 no", "in order"),
        ("0 No, 1 no", "the steps 0 and 1 of the scale have the same words, 'no'"),
        ("0 no", "a scale has 2 to 5 steps, .*, got 1"),
        ("0 a, 1 b, 2 c, 3 d, 4 e, 5 f", "a scale has 2 to 5 steps, .*, got 6"),
        ("0 no, 1", "each step of a scale is a grade and its words, .* got '1'"),
        ("0 no, 1 yes, really", "got 'really': a comma stands between two steps only"),
        ("", "each step of a scale is a grade and its words, .* got ''"),
        ("0 no, 1 2", "words of step 1 are a number, '2'"),
        ("0 no, 1 Can’t tell", "step 1 cannot be 'Can’t tell'"),
        ("0 no, 1 " + "x" * 41, "words of step 1 are text of at most 40 letters"),
        ("0 no, 1 a\0b", "words of step 1 are text"),
    ],
)
def test_texts_that_are_no_scale_are_refused_with_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Scale.parse(text)


def test_a_scale_of_python_is_checked_like_a_text() -> None:
    for wrong, words in ((("a, b", "c"), "have a comma"), (("a", ""), "step 1 of the scale has no words")):
        with pytest.raises(ValueError, match=words):
            Scale(wrong)
    for odd in (7, ("a", 7), "ab"):
        with pytest.raises(TypeError, match=r"a scale (is text|has the words)"):
            Scale.parse(odd) if odd == 7 else Scale(odd)  # type: ignore[arg-type]


@given(st.lists(st.text(min_size=1, max_size=40), min_size=2, max_size=5))
def test_the_text_of_a_scale_parses_back(words: list[str]) -> None:
    try:
        scale = Scale(tuple(words))
    except ValueError:
        return
    assert Scale.parse(str(scale)) == scale
    assert len({other.mark for other in (scale, THREE, FIVE)}) == 3 or scale in (THREE, FIVE)


def test_the_lowest_step_is_never_positive() -> None:
    assert (THREE.rel(None), THREE.rel(1), BINARY.rel(None)) == (2, 1, 1)
    assert (THREE.positive(1), THREE.positive(2), BINARY.positive(1)) == ("related or more", "alike", "similar")
    for wrong in (0, 3, -1, True):
        with pytest.raises(ValueError, match=r"rel must be from 1 to 2 on the scale .* the lowest step is never"):
            THREE.rel(wrong)


# Votes and their files


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_votes_on_a_scale_come_back_from_files(tmp_path: Path, ending: str) -> None:
    scale = Scale.parse("0 <b>no</b>, 1 =SUM(1), 2 similar")
    votes = Votes(["q"] * 4, list("abcd"), ["ann"] * 4, ["Similar", 1, -1, 0], scale=scale)
    file = tmp_path / f"votes.{ending}"
    votes.write(file)
    again = Votes.read(file, scale)
    assert (again.digest, again.scale) == (votes.digest, scale)
    assert votes.answers.tolist() == [2, 1, -1, 0]
    if ending == "parquet":  # which says of which scale its grades are
        assert Votes.read(file).scale == scale
        with pytest.raises(ValueError, match=r"has votes on the scale .*, and here it is '0 not alike"):
            Votes.read(file, THREE)
        Votes(["q"], ["a"], ["ann"], [1]).write(file)
        with pytest.raises(ValueError, match="has votes on the scale '0 not similar, 1 similar', and here it is"):
            Votes.read(file, THREE)  # 1 would be "related"
    else:
        with pytest.raises(ValueError, match=r"line 3: an answer must be similar, not similar or can't tell"):
            Votes.read(file)


def test_votes_on_different_scales_are_not_put_together() -> None:
    votes = Votes(["q"], ["a"], ["ann"], [2], scale=THREE)
    assert (votes + votes).scale == votes[:1].scale == votes.last().scale == THREE
    with pytest.raises(ValueError, match="cannot be put together"):
        votes + Votes(["q"], ["a"], ["ann"], [1])
    with pytest.raises(
        ValueError, match=r"an answer must be alike, related, not alike or can't tell \(or 2, 1, 0, -1\)"
    ):
        Votes(["q"], ["a"], ["ann"], [3], scale=THREE)


# Rules


@given(boards())
def test_rules_are_their_definitions(made: tuple[Scale, list[list[Any]]]) -> None:
    scale, pairs = made
    votes = votes_of(scale, pairs)
    for rule, definition in RULES.items():
        expected = {("q", f"i{n}"): definition(decided(p)) for n, p in enumerate(pairs) if decided(p)}
        for rel in range(1, len(scale)):
            found = judge_by(rule, votes, rel=rel)
            assert found.by_pair == expected
            assert found.positives == sum(grade >= rel for grade in expected.values())
            assert found.binary.by_pair == {pair: int(grade >= rel) for pair, grade in expected.items()}
            counts = [sum(answer >= rel for answer in decided(p)) for p in pairs if decided(p)]
            assert found.similar is not None
            assert found.similar.tolist() == counts
    assert judge_by(None, votes).rule == "median"
    several = len(set(votes.experts.tolist())) > 2
    assert list(judge_by_all(votes)) == [rule for rule in rules_for(scale) if several or rule != "dawid-skene"]


@settings(max_examples=20)
@given(boards())
def test_reliability_is_that_of_grades_from_rel_on(made: tuple[Scale, list[list[Any]]]) -> None:
    scale, pairs = made
    votes = votes_of(scale, pairs)
    for rel in range(1, len(scale)):
        found = judge_by("dawid-skene", votes, rel=rel)
        plain = [[said if said is None or said < 0 else int(said >= rel) for said in pair] for pair in pairs]
        expected = judge_by("dawid-skene", votes_of(BINARY, plain))
        assert found.by_pair == expected.by_pair
        assert (found.rel, found.graded) == (1, False)


def test_without_a_scale_median_and_mean_are_the_majority() -> None:
    rng = np.random.default_rng(0)
    votes = Votes(["q"] * 60, rng.integers(0, 15, 60), rng.choice(EXPERTS, 60), rng.integers(-1, 2, 60))
    expected = judge_by("majority", votes).by_pair
    assert judge_by("median", votes).by_pair == judge_by("mean", votes).by_pair == expected
    assert judge_by(None, votes).rule == "majority"
    assert rules_for(votes.scale) == ["majority", "unanimous", "dawid-skene"]


def test_gold_pairs_are_right_with_the_same_grade_alone() -> None:
    votes = votes_of(THREE, [[2, 2, 2], [1, 1, 1], [0, 0, 0]])
    gold = [("q", "i0", 2), ("q", "i1", 2), ("q", "i2", 0)]
    scores = gold_scores(votes, gold, rel=1)
    assert {name: (score.decided, score.right) for name, score in scores.items()} == {
        "median": (3, 2), "majority": (3, 2), "mean": (3, 2), "unanimous": (3, 2), "dawid-skene": (3, 3),
    }  # fmt: skip
    assert [figures.gold_right for figures in agreement(votes, gold).figures] == [2, 2, 2]


# Agreement

# Krippendorff 2011, "Computing Krippendorff's alpha-reliability", section C: four observers, five values, missing data;
# printed for ordinal data as 0.815 (nominal 0.743)
OBSERVERS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def test_ordinal_alpha_is_krippendorffs() -> None:
    units = [[int(said) - 1 for said in unit if said != "."] for unit in zip(*OBSERVERS, strict=True)]
    counts = [[unit.count(grade) for grade in range(5)] for unit in units]
    assert ordinal_alpha(counts) == pytest.approx(0.815, abs=5e-4)
    pairs = [[None if said == "." else int(said) - 1 for said in unit] for unit in zip(*OBSERVERS, strict=True)]
    found = agreement(votes_of(FIVE, pairs))
    assert found.alpha == ordinal_alpha(counts)
    assert "Krippendorff's ordinal alpha 0.8154, Gwet's AC2" in str(found)


@given(boards())
def test_agreement_on_a_scale_is_its_definition(made: tuple[Scale, list[list[Any]]]) -> None:
    scale, pairs = made
    found, units = agreement(votes_of(scale, pairs)), [decided(pair) for pair in pairs]
    assert equal(found.alpha, slow.ordinal_alpha(units))
    assert equal(found.ac1, slow.gwet_ac2(units, len(scale)))
    names = [figures.expert for figures in found.figures]
    for row in found.kappa_rows():
        first, second = (EXPERTS.index(row[side]) for side in ("first", "second"))
        both = [p for p in pairs if len(decided([p[first], p[second]])) == 2]
        grades = [[p[expert] for p in both] for expert in (first, second)]
        assert row["pairs"] == len(both)
        assert equal(row["kappa"], slow.weighted_kappa(*grades))
        if len(scale) == 2:
            assert equal(row["kappa"], binary.cohen_kappa(*grades))
        elif not math.isnan(row["kappa"]):
            theirs = cohen_kappa_score(*grades, weights="quadratic", labels=range(len(scale)))
            assert row["kappa"] == pytest.approx(theirs, abs=1e-12)
    assert len(names) == len(
        {expert for p in pairs for expert, said in zip(EXPERTS, p, strict=True) if said is not None}
    )
    if len(scale) == 2:
        assert equal(found.alpha, binary.krippendorff_alpha(units))
        assert equal(found.ac1, binary.gwet_ac1(units, [0, 1]))


def test_what_is_no_table_is_refused() -> None:
    for wrong in ([1, 2], [[1], [2]], [[-1, 2]], [[0.5, 1]]):
        for figure in (ordinal_alpha, gwet_ac2, weighted_kappa):
            with pytest.raises(ValueError, match="counts must be"):
                figure(wrong)
    with pytest.raises(ValueError, match="as many rows as columns"):
        weighted_kappa([[1, 2, 3], [1, 2, 3]])


# Leaderboards and exports


@pytest.fixture(scope="module")
def contest() -> tuple[dict[str, np.ndarray], Collection, Pool, Votes]:
    rng = np.random.default_rng(5)
    collection = Collection([f"q{n}" for n in range(6)], [f"i{n}" for n in range(20)])
    models = {name: rng.normal(size=(6, 20)) for name in ("one", "two", "three")}
    pool = Pool.build(models, collection, k=4, random=10)
    pairs = [pair for pair in pool.pairs for _ in range(3)]
    answers = rng.integers(-1, 3, len(pairs))
    queries, items = zip(*pairs, strict=True)
    return models, collection, pool, Votes(queries, items, EXPERTS[:3] * len(pool), answers, scale=THREE)


@pytest.mark.parametrize("rel", [1, 2])
def test_a_leaderboard_counts_grades_from_rel_on(contest: Any, rel: int) -> None:
    models, collection, pool, votes = contest
    judgements = judge_by(None, votes, rel=rel)
    board = leaderboard(models, judgements, collection, pool=pool, negatives=0, resamples=50)
    plain = leaderboard(models, judgements.binary, collection, pool=pool, negatives=0, resamples=50)
    assert [metric for metric in board.metrics if metric.name != "nDCG"] == plain.metrics
    alone = {pair for pair, random in zip(pool.pairs, pool.random_alone, strict=True) if random}
    for name in models:
        for metric in plain.metrics:
            np.testing.assert_array_equal(board[name][metric].per_query, plain[name][metric].per_query)
        for query, values in enumerate(models[name]):
            order = [f"i{item}" for item in np.argsort(-values)]
            of_query = {i: g for (q, i), g in judgements.by_pair.items() if q == f"q{query}" and (q, i) not in alone}
            expected = slow.ndcg([of_query.get(item, 0) for item in order], list(of_query.values()), 4)
            assert board[name]["nDCG@4"].per_query[query] == pytest.approx(expected, abs=1e-12)
    about = board.to_dict()
    assert (about["positives"], about["scale"], about["rel"]) == (plain.to_dict()["positives"], str(THREE), rel)
    assert "scale" not in plain.to_dict()
    assert f"positive ({THREE.positive(rel)})" in board.facts
    shares, theirs = (prevalence(given, pool) for given in (judgements, judgements.binary))
    assert shares.to_dict() == theirs.to_dict()
    if rel > 1:
        with pytest.raises(ValueError, match=r"says itself what is positive: leave that to rel"):
            leaderboard(models, judgements, collection, metrics=["AUC(rel=2)"])
    assert list(by_rule(board.contest, votes, pool=pool, rel=rel)) == rules_for(THREE)


def test_exports_have_grades_but_for_the_released_benchmark(contest: Any, tmp_path: Path) -> None:
    judgements = judge_by("median", contest[3], rel=1)
    for ending in ("qrels", "csv", "parquet"):
        export_judgements(tmp_path / f"all.{ending}", judgements, None)
        assert Judgements.of(read_judgements(tmp_path / f"all.{ending}")).by_pair == judgements.by_pair
    export_judgements(tmp_path / "all.json", judgements, None)
    rows = json.loads((tmp_path / "all.json").read_text())
    assert {tuple(row["key"]): row["value"] for row in rows} == judgements.binary.by_pair
    assert {row["value"] for row in rows} == {0, 1}


# Pairs that have all their votes


@given(boards(), st.integers(1, 5), st.sets(st.sampled_from([*EXPERTS, "zoe"])))
def test_complete_pairs_have_all_their_votes(made: Any, each: int, judging: set[str]) -> None:
    scale, pairs = made
    votes = votes_of(scale, pairs)
    voters = [{e for e, said in zip(EXPERTS, pair, strict=True) if said is not None} for pair in pairs]
    for terms, done in (
        (JudgingTerms(scale, each), [len(who) >= each for who in voters]),
        (JudgingTerms(scale, "all", tuple(sorted(judging))), [judging <= who for who in voters]),
    ):
        found = complete_votes(votes, terms)
        expected = {f"i{n}" for n, who in enumerate(voters) if who and done[n]}
        assert set(found.votes.items.tolist()) == expected
        assert found.complete == len(expected)
        assert found.waiting == sum(bool(who) for who in voters) - len(expected)
    with pytest.raises(ValueError, match="nobody has said yet how many experts judge each pair"):
        complete_votes(votes, JudgingTerms())
