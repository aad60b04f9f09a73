"""Dawid and Skene's rule against loops over votes, and against experts whose reliability is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.vote_records import accuracy, records, simulated, votes_of
from lookalike.discovery.dawid_skene import DawidSkene, dawid_skene
from lookalike.discovery.judgements import majority
from lookalike.discovery.rules import GoldScore, gold_scores
from lookalike.discovery.votes import CANT_TELL, Votes
from reference import votes as slow

SMOOTHINGS = st.sampled_from([0.01, 0.5, 2.0, "crowd"])


@settings(max_examples=60)
@given(records, SMOOTHINGS)
def test_expectation_maximisation_is_that_of_loops(rows: list[slow.Vote], smoothing: Any) -> None:
    found = dawid_skene(votes_of(rows), smoothing=smoothing, max_iterations=200)
    posterior, rates = slow.dawid_skene(slow.last_votes(rows), smoothing, found.iterations)
    assert found.probability is not None
    assert dict(zip(found.pairs, found.probability.tolist(), strict=True)) == pytest.approx(posterior, abs=1e-9)
    for expert in found.experts:
        if expert.decided:
            assert [expert.sensitivity, expert.specificity] == pytest.approx(rates[expert.expert], abs=1e-9)
        else:
            assert np.isnan([expert.sensitivity, expert.specificity]).all()
    decided = {pair: {name: a for name, a in said.items() if a != -1} for pair, said in slow.last_votes(rows).items()}
    assert {e.expert: e.decided for e in found.experts} == {
        name: sum(name in said for said in decided.values()) for name in {row[2] for row in rows}
    }


@settings(max_examples=60)
@given(records, SMOOTHINGS)
def test_the_objective_never_falls_and_no_probability_is_certain(rows: list[slow.Vote], smoothing: Any) -> None:
    found = dawid_skene(votes_of(rows), smoothing=smoothing, max_iterations=200)
    steps = np.diff(found.objective)
    assert (steps >= -1e-9 * np.abs(found.objective[0])).all()
    for expert in found.experts:
        if expert.decided:
            assert 0 < expert.sensitivity < 1
            assert 0 < expert.specificity < 1
    assert 0 < found.prevalence < 1
    assert found.probability is not None
    assert found.grades.tolist() == (found.probability > 0.5 + 1e-9).tolist()


def test_the_objective_is_likelihood_and_prior() -> None:
    """One vote, smoothing 1: rates and prevalence are 2/3 and 1/2, so it can be written down."""
    found = dawid_skene(Votes(["q"], ["a"], ["ann"], [1]), smoothing=1.0, max_iterations=1)
    sensitivity, specificity, prevalence = 2 / 3, 1 / 2, 2 / 3  # (1 + 1)/(1 + 2), (0 + 1)/(0 + 2), (1 + 1)/(1 + 2)
    assert (found.experts[0].sensitivity, found.experts[0].specificity) == pytest.approx((sensitivity, specificity))
    assert found.prevalence == pytest.approx(prevalence)
    likelihood = prevalence * sensitivity + (1 - prevalence) * (1 - specificity)
    prior = sensitivity * (1 - sensitivity) * specificity * (1 - specificity) * prevalence * (1 - prevalence)
    assert found.objective == pytest.approx((np.log(likelihood * prior),))
    assert found.probability == pytest.approx([prevalence * sensitivity / likelihood])
    assert not found.converged


def test_the_crowd_prior_is_likelihood_and_prior() -> None:
    """Two experts, one pair, both say similar; the first round starts from the share 1 and the crowd's (2 + 1)/(2 + 2).

    Each gets 9/2 right and 3/2 wrong votes, and two as the crowd: sensitivity is (1 + 4.5 + 2 · 3/4)/(1 + 6 + 2) = 7/9;
    specificity, where there are no votes and the crowd's is 1/2, (4.5 + 2 · 1/2)/(6 + 2) = 11/16. The two are equal, so
    that the crowd is like them, and the part of the prior that tells them apart is 0.
    """
    found = dawid_skene(Votes(["q"] * 2, ["a"] * 2, ["ann", "bob"], [1, 1]), max_iterations=1)
    sensitivity, specificity, prevalence = 7 / 9, 11 / 16, 2 / 3
    for expert in found.experts:
        assert (expert.sensitivity, expert.specificity) == pytest.approx((sensitivity, specificity))
    assert found.prevalence == pytest.approx(prevalence)
    likelihood = prevalence * sensitivity**2 + (1 - prevalence) * (1 - specificity) ** 2
    prior = np.log(prevalence * (1 - prevalence))
    for rate in (sensitivity, specificity):
        prior += 2 * (4.5 * np.log(rate) + 1.5 * np.log(1 - rate))
    assert found.objective == pytest.approx((np.log(likelihood) + prior,))


def test_reliabilities_are_recovered() -> None:
    """Of 60 draws of 600 pairs the largest error of 12 rates was 0.085 at most, of the prevalence 0.023."""
    sensitivity, specificity = [0.95, 0.9, 0.85, 0.8, 0.75, 0.6], [0.9, 0.95, 0.7, 0.85, 0.8, 0.6]
    for seed in range(5):
        similar, votes = simulated(seed, 600, sensitivity, specificity, 0.6)
        found = dawid_skene(votes)
        assert found.converged
        assert [e.expert for e in found.experts] == [f"e{i}" for i in range(6)]
        assert [e.sensitivity for e in found.experts] == pytest.approx(sensitivity, abs=0.1)
        assert [e.specificity for e in found.experts] == pytest.approx(specificity, abs=0.1)
        assert found.prevalence == pytest.approx(similar.mean(), abs=0.03)
        assert accuracy(found, similar) > accuracy(majority(votes), similar)


def test_one_bad_expert_spoils_the_majority_only() -> None:
    """Four experts, one of them wrong more often than right: of 60 draws the gain was 0.067 at least."""
    for seed in range(5):
        similar, votes = simulated(seed, 400, [0.9, 0.85, 0.88, 0.3], [0.9, 0.85, 0.88, 0.3], 0.6)
        found = dawid_skene(votes)
        assert accuracy(found, similar) > accuracy(majority(votes), similar) + 0.05
        assert found.experts[3].sensitivity + found.experts[3].specificity < 0.9


def test_smoothing_keeps_a_guesser_from_leading() -> None:
    """Three experts, one guesses, 85 % similar: with hardly any smoothing the guesser can win, by default not."""
    gains = []
    for seed in range(8):
        similar, votes = simulated(seed, 400, [0.9, 0.9, 0.55], [0.9, 0.9, 0.5], 0.85)
        gains.append(accuracy(dawid_skene(votes, tolerance=1e-5), similar) - accuracy(majority(votes), similar))
    assert np.mean(gains) > 0.02


def crowd(seed: int, n_pairs: int = 2000, n_workers: int = 60) -> tuple[np.ndarray, Votes]:
    """Three votes a pair, 12 % similar; few workers give most votes, and most miss more than they invent."""
    rng = np.random.default_rng(seed)
    similar = rng.random(n_pairs) < 0.12
    much, rates = rng.normal(0, 1.2, n_workers), np.array([rng.beta(2.4, 2.0, n_workers), rng.beta(2, 0.38, n_workers)])
    expert = np.argsort(-(much + rng.gumbel(size=(n_pairs, n_workers))), axis=1)[:, :3].ravel()
    pair = np.repeat(np.arange(n_pairs), 3)
    says = rng.random(len(pair)) < np.where(similar[pair], rates[0][expert], 1 - rates[1][expert])
    return similar, Votes(["q"] * len(pair), pair, [f"e{i}" for i in expert], says.astype(int))


def f1(judged: np.ndarray, similar: np.ndarray) -> float:
    return float(2 * (judged & similar).sum() / (judged.sum() + similar.sum()))


def test_a_sparse_crowd_is_not_drawn_to_guessing() -> None:
    """Two right and two wrong votes for everybody cost F1: 0.12 on average of 20 draws, 0.02 at least."""
    gains = []
    for seed in range(4):
        similar, votes = crowd(seed)
        of_pairs = [found.grades.astype(bool) for found in (dawid_skene(votes), dawid_skene(votes, smoothing=2))]
        by_default, by_two = (f1(judged, similar[majority(votes).items.astype(int)]) for judged in of_pairs)
        assert by_default > f1(majority(votes).grades.astype(bool), similar[majority(votes).items.astype(int)])
        gains.append(by_default - by_two)
    assert np.mean(gains) > 0.02


def test_few_pairs_on_which_all_agree_are_judged_so() -> None:
    """Two right and two wrong votes for each expert overrule all three of them on some."""
    for seed in range(40):
        for n_pairs in (6, 12, 30):
            _, votes = simulated(seed, n_pairs, [0.9, 0.9, 0.55], [0.9, 0.9, 0.5], 0.5)
            found = dawid_skene(votes)
            assert found.similar is not None
            assert found.not_similar is not None
            agreed = (found.similar == 0) | (found.not_similar == 0)
            np.testing.assert_array_equal(found.grades[agreed], found.similar[agreed] > 0)


def test_those_who_never_decided_change_nothing() -> None:
    _, votes = simulated(0, 60, [0.9, 0.8, 0.7], [0.9, 0.8, 0.7], 0.5)
    silent = Votes(["q"] * 3, ["0", "1", "2"], ["x", "y", "z"], [CANT_TELL] * 3)
    one, other = dawid_skene(votes), dawid_skene(votes + silent)
    assert one.probability is not None
    assert other.probability is not None
    assert one.probability.tolist() == other.probability.tolist()
    assert one.objective == pytest.approx(other.objective)


def test_rules_are_held_against_gold_pairs() -> None:
    rows = {"a": [1, 1, 1], "b": [1, 1, 0], "c": [0, 0, 0], "d": [-1, -1, -1], "e": [1, 0, 0]}
    items = [item for item in rows for _ in range(3)]
    votes = Votes(["q"] * 15, items, ["ann", "bob", "eve"] * 5, [vote for said in rows.values() for vote in said])
    gold = [("q", "a", 1), ("q", "b", 1), ("q", "c", 1), ("q", "d", 1), ("q", "z", 0)]  # d undecided, z not asked
    scores = gold_scores(votes, gold)
    assert scores["majority"] == GoldScore(decided=3, right=2)
    assert scores["unanimous"] == GoldScore(decided=3, right=1)
    assert scores["majority"].accuracy == pytest.approx(2 / 3)
    by_pair = dawid_skene(votes, smoothing=5).by_pair
    right = sum(by_pair["q", item] == 1 for item in "abc")
    assert gold_scores(votes, gold, smoothing=5)["dawid-skene"] == GoldScore(decided=3, right=right)
    assert np.isnan(gold_scores(votes, [("q", "z", 1)])["majority"].accuracy)
    assert set(gold_scores(votes[votes.experts != "eve"], gold)) == {"majority", "unanimous"}


def test_the_order_of_votes_does_not_matter_and_runs_are_equal() -> None:
    _, votes = simulated(3, 60, [0.9, 0.8, 0.7], [0.9, 0.8, 0.7], 0.5)
    shuffled = votes[np.random.default_rng(0).permutation(len(votes))]
    one, two, again = dawid_skene(votes), dawid_skene(shuffled), dawid_skene(votes)
    assert one.by_pair == two.by_pair
    assert one.objective == again.objective
    assert one.probability is not None
    assert again.probability is not None
    assert one.probability.tolist() == again.probability.tolist()
    same = {}
    for pair, probability in zip(one.pairs, one.probability.tolist(), strict=True):
        said = tuple(votes.answers[(votes.items == pair[1])].tolist())
        assert same.setdefault(said, probability) == probability


def test_it_says_what_it_found() -> None:
    _, votes = simulated(0, 200, [0.9, 0.8, 0.9], [0.9, 0.8, 0.9], 0.5)
    found = dawid_skene(votes + Votes(["q"], ["0"], ["none"], [CANT_TELL]))
    assert isinstance(found, DawidSkene)
    lines = str(found).splitlines()
    assert lines[0] == "expert  decided  sensitivity  specificity"
    assert lines[4].split() == ["none", "0", "-", "-"]
    assert lines[5] == f"{found.positives} of 200 pairs similar; {found.iterations} iterations"
    assert found.to_pandas().loc["e0", "decided"] == 200
    assert found.cant_tell is not None
    assert found.cant_tell.sum() == 1
    assert str(dawid_skene(votes, max_iterations=1)).endswith("1 iterations, not converged")
    for wrong in ({"smoothing": 0}, {"tolerance": 0}, {"max_iterations": 0}, {"smoothing": float("nan")}):
        with pytest.raises(ValueError, match="must be above 0"):
            dawid_skene(votes, **wrong)  # type: ignore[arg-type]
    for strange in ("auto", None, True):
        with pytest.raises(TypeError, match="smoothing must be 'crowd' or a number of votes, got"):
            dawid_skene(votes, smoothing=strange)  # type: ignore[arg-type]
