"""A leaderboard leaves out what a model alone proposed, says whom each number favours, and refuses what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.contests import AREAS, Case, area_name, assert_area, cases
from helpers.worlds import judgements_of
from lookalike.discovery import Collection, Contest, Judgements, Leaderboard, Pool, discovery_metrics, leaderboard
from lookalike.discovery.leaderboard import board_of, effect
from reference import discovery as slow

# The board


@settings(max_examples=60)
@given(case=cases(min_models=2, own=True), data=st.data(), random=st.integers(0, 3))
def test_own_left_out(case: Case, data: st.DataObject, random: int) -> None:
    """AUC without the pairs that a model alone proposed, for those that helped; for the others nothing changes.

    Pairs that chance alone drew do not count at all.
    """
    world = case.world
    builders = data.draw(st.lists(st.sampled_from(sorted(world.given)), min_size=1, unique=True), label="builders")
    assume(
        all(any(slow.listed(world.shop, world.rankings[h], query) for h in builders) for query in world.shop.queries)
    )
    assume(random <= len(world.shop.pairs))
    k = data.draw(st.integers(1, world.fewest_candidates), label="k")
    pool = Pool.build({name: world.given[name] for name in builders}, world.collection, k=k, random=random, seed=5)
    proposed = slow.provenance_of(world.shop, {name: world.rankings[name] for name in builders}, k)
    by_chance = {pair for pair, yes in zip(pool.pairs, pool.random, strict=True) if yes}
    helped = {name: slow.helped(proposed, name, builders, case.grades, by_chance) for name in world.given}
    assume(any(helped.values()))
    judged_builders = {name: world.rankings[name] for name in builders if helped[name]}  # the pool as it was judged
    provenance = slow.provenance_of(world.shop, judged_builders, k)
    drawn = by_chance - set(provenance)
    counts = {pair: grade for pair, grade in case.grades.items() if pair not in drawn}
    assume(any(not world.shop.own(*pair) for pair in counts))
    board = leaderboard(
        world.given,
        judgements_of(case.grades),
        world.collection,
        pool=pool,
        metrics=["AUC", "AUC(average='micro')"],
        level=case.level,
        resamples=2,
    )
    assert board.about["random_left_out"] == len(case.grades) - len(counts)
    for name, ranking in world.rankings.items():
        assert board.helped[name] == helped[name]
        own = slow.alone(provenance, name)
        left = {pair: grade for pair, grade in counts.items() if pair not in own}
        known = slow.inherited(world.shop, left) if case.level == "product" else left
        for average in ("macro", "micro"):
            expected = slow.area(world.shop, ranking, known, "AUC", average)
            assert_area(board.own_out[name][f"AUC(average='{average}')"], expected, f"{name} {average}")
        if not helped[name]:
            assert board.own_out[name]["AUC"].mean == pytest.approx(board[name]["AUC"].mean, nan_ok=True)


def test_nothing_is_left_out_where_nobody_is_known_to_have_proposed_it() -> None:
    """Judgements without a pool: the number would be AUC once more, under a name that promises something."""
    collection = Collection(["q"], list("abcd"))
    judged = Judgements.of([("q", "a", 1), ("q", "b", 0)])
    board = leaderboard({"m": np.array([[1.0, 2, 3, 4]])}, judged, collection, metrics="AUC Judged@2", resamples=5)
    assert not any(len(evaluation) for evaluation in board.own_out.values())
    assert "left out" not in str(board)
    assert "top-up" not in str(board)
    assert {row["own_out"] for row in board.rows()} == {None}
    (warning,) = board.warnings
    assert "compare models by AUC with sampled negatives" in warning


def small_board(metrics: Any = None, **options: Any) -> Leaderboard:
    rng = np.random.default_rng(1)
    collection = Collection([f"q{n}" for n in range(30)], [f"i{n}" for n in range(150)])
    truth = rng.normal(size=(30, 150))
    models = {f"m{n}": truth + noise * rng.normal(size=(30, 150)) for n, noise in enumerate((0.5, 1, 2))}
    pool = Pool.build({name: models[name] for name in ("m0", "m1")}, collection, k=4)
    grades = [(*pair, int(truth[q, i] > 1.5)) for pair, q, i in zip(pool.pairs, pool.queries, pool.items, strict=True)]
    return leaderboard(models, Judgements.of(grades), collection, pool=pool, metrics=metrics, **options)


def test_the_columns_of_the_paper_are_the_default() -> None:
    board = small_board(negatives=10, resamples=50)
    assert board.metrics == discovery_metrics(4)
    names = {str(metric) for metric in board.metrics}
    assert {"VSDHR@4", "VSDMRR@4", "Judged@4", "P@4", "Bpref", "RBP@4", "RBP(part='residual')@4"} <= names
    areas = {str(la.metrics.Metric.parse(area_name(*which, kind))) for which in AREAS for kind in ("judged", "sampled")}
    assert areas <= names
    assert board.helped == {"m0": True, "m1": True, "m2": False}
    assert board["m0"]["Judged@4"].mean == board["m1"]["Judged@4"].mean == 1
    assert board["m2"]["Judged@4"].mean < 0.8
    assert [line for line in board.warnings if line.startswith("m2: ")] == board.warnings != []
    assert all(line.endswith("or judge its top-up") for line in board.warnings)
    assert board["m2"]["P@4"].mean < board.upper["m2"]["P@4"].mean
    assert board["m0"]["P@4"].mean == pytest.approx(board.upper["m0"]["P@4"].mean)
    assert board.ranking("P@4") == ["m0", "m1", "m2"]


def test_every_number_says_whom_it_favours() -> None:
    """As examples/discovery_simulation.py finds; a board leads with what is neutral."""
    board = small_board(negatives=10, resamples=50)
    lines = str(board).splitlines()
    assert lines[0].split()[:2] == ["metric", "builders"]
    assert lines[2].split()[:4] == ["Bpref,", "equal", "terms", "neutral"]
    said = {}
    for line in lines:
        if found := re.match(r"(\S.*?)  +(favours|punishes|neutral|)  +\S+  \S+  \S+$", line):
            said[found[1]] = found[2]
    expected = {f"{name}@4": "favours" for name in ("VSDHR", "VSDMRR", "P", "RBP")}
    for name in ("AUC", "PRAUC"):
        expected |= dict.fromkeys([name, f"{name}(average='micro')", "Bpref"], "punishes")
        expected |= dict.fromkeys(
            [f"{name}(negatives='sampled')", f"{name}(average='micro', negatives='sampled')"], "neutral"
        )
    expected |= dict.fromkeys(["AUC, own left out", "AUC(average='micro'), own left out"], "neutral")
    expected |= dict.fromkeys(["Bpref, equal terms", "AUC, equal terms"], "neutral")
    assert said == expected | {"Judged@4": "", "RBP(part='residual')@4": ""}
    assert "builders: what a number does to models that helped to build the pool" in str(board)
    told = {row["metric"]: row["effect"] for row in board.rows()}
    assert told == {name: said[name] for name in told}
    assert effect("AUC(negatives='both')") == "punishes"


@pytest.mark.parametrize("metrics", ["VSDHR@4", "AUC nDCG@4 P@4", "RBP@4"])
def test_metrics_of_ranks_are_guarded_whatever_was_asked_for(metrics: str) -> None:
    board, guarded = small_board(metrics, resamples=5), small_board("Judged@4", resamples=5)
    assert board.warnings == guarded.warnings != []
    assert not any(metric.name == "Judged" for metric in board.metrics)
    assert small_board("AUC Bpref", resamples=5).warnings == []  # which do not mind
    assert len(small_board("P@1 VSDHR@4 nDCG@1", resamples=5).warnings) == 2  # a sentence for each k


def test_numbers_without_own_pairs_have_intervals() -> None:
    """Around the number, and where nothing is left out those of all pairs."""
    board = small_board("AUC P@4", resamples=200)
    auc = la.metrics.Metric.parse("AUC")
    for name in ("m0", "m1", "m2"):
        low, high = board.own_out_intervals[name][auc]
        assert low < board.own_out[name]["AUC"].mean < high
    assert board.own_out_intervals["m2"] == {auc: board.intervals["m2"][auc]}
    assert board.own_out_intervals["m0"] != {auc: board.intervals["m0"][auc]}
    rows = [row for row in board.rows() if row["model"] == "m0"]
    assert [(row["own_out_low"], row["own_out_high"]) for row in rows] == [
        board.own_out_intervals["m0"][auc],
        (None, None),
    ]


def test_a_top_that_cuts_through_ties_is_not_told_to_be_judged() -> None:
    """Its pool was judged whole: to top it up would add nothing."""
    collection = Collection([f"q{n}" for n in range(5)], [f"i{n}" for n in range(40)])
    bits = np.random.default_rng(0).random((45, 4)) < 0.5
    models = {"short": (la.Codes.pack(bits[:5]), la.Codes.pack(bits[5:]))}
    pool = Pool.build(models, collection, k=4)
    grades = [(*pair, number % 2) for number, pair in enumerate(pool.pairs)]
    board = leaderboard(models, Judgements.of(grades), collection, pool=pool, negatives=10, resamples=50)
    assert board["short"]["Judged@4"].best == 1
    (warning,) = board.warnings
    assert "% of its top 4 was judged, which cuts through tied items that the pool has some of, so" in warning
    assert warning.endswith("compare models by Bpref on equal terms or by AUC with sampled negatives")


@pytest.mark.parametrize("metrics", ["P@4", "AUC", "AUC(average='micro')", "PRAUC", "AUC VSDHR@2", "Judged@3"])
def test_a_board_of_any_metrics_shows_itself(metrics: str, tmp_path: Path) -> None:
    board = small_board(metrics, resamples=20)
    text = str(board)
    for metric in board.metrics:
        assert str(metric) in text
    for name in ("m0", "m1", "m2"):
        assert name in text
        for evaluation in (board[name], board.own_out[name], board.upper[name]):
            assert "30 queries" in str(evaluation)
    kept = json.loads(board.to_json(tmp_path / "board.json"))
    assert kept == json.loads((tmp_path / "board.json").read_text(encoding="utf-8"))
    means = {(row["model"], row["metric"]): row["mean"] for row in kept["rows"]}
    assert means == {(name, m.label): board[name][m].mean for name in ("m0", "m1", "m2") for m in board.metrics}
    table = board.to_pandas()
    for metric in board.metrics:
        assert table.loc["m1", metric.label] == board["m1"][metric].mean


def test_a_metric_that_no_model_has_is_in_the_table() -> None:
    """AUC is undefined without negatives: null in JSON, nan in pandas."""
    collection = Collection(["q"], list("abc"))
    board = leaderboard(
        {"m": np.array([[3.0, 2, 1]])}, Judgements.of([("q", "a", 1)]), collection, metrics="AUC P@1", resamples=5
    )
    assert [row["mean"] for row in json.loads(board.to_json())["rows"]] == [None, 1.0]
    assert "AUC" in str(board)
    table = board.to_pandas()
    assert list(table.columns) == ["AUC", "P@1"]
    assert np.isnan(table.loc["m", "AUC"])


def test_intervals_are_of_the_same_resamples_for_all_models() -> None:
    """A hit at rank 1 in 30 of 100 queries: 0.3 ± 1.96 deviations of 0.0458; and 0.1 less for who misses ten more."""
    collection = Collection([f"q{n}" for n in range(100)], ["a", "b"])
    judged = Judgements.of([(f"q{n}", item, int(item == "a")) for n in range(100) for item in "ab"])
    matrix = np.where(np.arange(100)[:, None] < 30, [[2.0, 1]], [[1.0, 2]])
    worse = np.where(np.arange(100)[:, None] < 20, [[2.0, 1]], [[1.0, 2]])
    models = {"one": matrix, "other": -worse, "worse": worse}
    board = leaderboard(models, judged, collection, metrics="P@1 AUC", resamples=4000)
    low, high = board.intervals["one"][board.metrics[0]]
    assert (low, high) == pytest.approx((0.3 - 1.96 * 0.0458, 0.3 + 1.96 * 0.0458), abs=0.02)
    metric = board.metrics[0]
    mirrored = board.intervals["worse"][metric]
    assert board.intervals["other"][metric] == pytest.approx((1 - mirrored[1], 1 - mirrored[0]), abs=1e-12)
    assert board.intervals["one"][board.metrics[1]] == pytest.approx((low, high), abs=1e-12)  # here AUC is P@1
    again = leaderboard(models, judged, collection, metrics="P@1 AUC", resamples=4000)
    assert again.intervals == board.intervals
    row = next(row for row in board.rows() if (row["model"], row["metric"]) == ("one", "P@1"))
    assert (row["mean"], row["low"], row["high"]) == (0.3, low, high)


def test_models_are_compared_on_the_same_queries() -> None:
    board = small_board("AUC P@4", resamples=20)
    comparison = board.compare("P@4")
    text = str(comparison)
    difference = board["m0"]["P@4"].mean - board["m2"]["P@4"].mean
    assert f"{difference:+.4f}" in text
    assert "AUC" not in text


def test_a_contest_can_be_looked_at_again() -> None:
    """A leaderboard of a contest is that of its models."""
    rng = np.random.default_rng(0)
    collection = Collection(["q", "r"], list("abcdef"))
    models = {"one": rng.random((2, 6)), "two": rng.random((2, 6))}
    judged = Judgements.of([(q, i, int(rng.random() < 0.5)) for q in "qr" for i in "abcd"])
    direct = leaderboard(models, judged, collection, metrics="AUC P@3 Bpref", resamples=10)
    contest = Contest(models, collection, judged, depth=3)
    wanted = la.metrics.metric.parse_all("AUC P@3 Bpref")
    assert board_of(contest, wanted, None, resamples=10).to_dict() == direct.to_dict()


def test_sampled_negatives_stand_beside_the_grades_that_are_relevant() -> None:
    """With rel=2, judged pairs of grade 1 are neither positives nor sampled negatives, as in `evaluate_scores`."""
    rng = np.random.default_rng(1)
    collection = Collection([f"q{i}" for i in range(5)], [f"i{i}" for i in range(600)])
    scores = rng.normal(size=(5, 600))
    rows = [(f"q{q}", f"i{i}", int(rng.integers(0, 3))) for q in range(5) for i in range(12)]
    metrics = ["AUC(rel=2, negatives='sampled')", "AUC(rel=2, negatives='both')", "PRAUC(rel=2, average='micro')"]
    board = leaderboard({"m": scores}, Judgements.of(rows), collection, metrics=metrics, negatives=20)
    sampled = list(
        zip(
            collection.query_ids[board.contest.sampled_queries].tolist(),
            collection.item_ids[board.contest.sampled_items].tolist(),
            strict=True,
        )
    )
    ids = {"query_ids": collection.query_ids, "gallery_ids": collection.item_ids}
    direct = la.evaluate_scores(scores, la.judged(rows, sampled=sampled), metrics, **ids)
    for metric in metrics:
        assert board["m"][metric].mean == pytest.approx(direct[metric].mean, abs=1e-12)


# Bad input

SHOP = Collection(["q", "r"], ["a", "b", "c", "d"])
SCORES = np.array([[4.0, 3, 2, 1], [1, 2, 3, 4]])
JUDGED = Judgements.of([("q", "a", 1), ("q", "b", 0), ("r", "a", 1), ("r", "b", 0)])


def board(model: Any = SCORES, judged: Any = JUDGED, metrics: Any = "AUC", **options: Any) -> Leaderboard:
    return leaderboard({"dino": model}, judged, SHOP, metrics=metrics, **options)


def pool_of_others() -> Pool:
    return Pool.build({"dino": SCORES}, Collection(["q", "r"], ["d", "c", "b", "a"]), k=2)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no models": (lambda: leaderboard({}, JUDGED, SHOP, metrics="AUC"), "no model"),
    "no judgements": (lambda: board(judged=Judgements.of([])), "no judged pair"),
    "rows for judgements": (lambda: board(judged=[("q", "a", 1)]), "[Jj]udgements.*list"),
    "an unknown item": (lambda: board(judged=Judgements.of([("q", "z", 1)])), "item 'z', which is not in the coll"),
    "an unknown query": (lambda: board(judged=Judgements.of([("z", "a", 1)])), "query 'z', which is not in the coll"),
    "only a query's own": (
        lambda: leaderboard(
            {"m": SCORES[:1]}, Judgements.of([("a", "a", 1)]), Collection(["a"], list("abcd")), metrics="AUC"
        ),
        "own",
    ),
    "scores of nan": (lambda: board(np.where(SCORES == 4, np.nan, SCORES)), "dino: scores hold nan"),
    "a run of nan": (lambda: board({"q": {"a": np.nan}}), "dino: .*query 'q' with item 'a' by nan"),
    "embeddings of nan": (lambda: board((np.eye(4)[:2], np.eye(4) * np.nan)), "dino: gallery embeddings hold nan"),
    "a model of others": (lambda: board(SCORES[:, :3]), "dino is of 2 queries and 3 items, .* has 2 and 4"),
    "a run with an unknown item": (lambda: board({"q": {"z": 1}}), "dino: .*item 'z', which is not in the coll"),
    "an unknown metric": (lambda: board(metrics="AUCC"), "no metric 'AUCC', did you mean 'AUC'"),
    "a cutoff below the catalogue": (lambda: board(metrics="P@5"), "P@5 looks below rank 4"),
    "a radius": (
        lambda: board(metrics="P(radius=2)"),
        r"P\(radius=2\) on a leaderboard needs a cutoff, such as P@4, not",
    ),
    "an unknown level": (lambda: board(level="shelf"), "level must be one of 'image', 'product', got 'shelf'"),
    "products without identities": (lambda: board(level="product"), "level='product' needs the identity"),
    "no samples": (
        lambda: board(metrics="AUC(negatives='sampled')", negatives=0),
        "no sampled negatives for negatives='sampled'",
    ),
    "nothing to sample": (lambda: board(metrics="AUC(negatives='sampled')"), "lists must be that long"),
    "fewer samples than none": (lambda: board(metrics="AUC(negatives='sampled')", negatives=-1), "negatives.* -1"),
    "no resamples": (lambda: board(resamples=0), "resamples must be .* got 0"),
    "the pool of another collection": (lambda: board(pool=pool_of_others()), "pool.*another collection"),
    "a contest of no depth": (lambda: Contest({"m": SCORES}, SHOP, JUDGED, depth=0), "depth must be .* got 0"),
    "below a contest's depth": (
        lambda: Contest({"m": SCORES}, SHOP, JUDGED, depth=2).evaluate("m", "P@3"),
        "P@3 looks below rank 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert re.search(message, str(caught.value)), str(caught.value)


def test_unknown_names_are_told_with_the_known_ones() -> None:
    found = board()
    with pytest.raises(KeyError, match="no model 'clip' on the leaderboard, only dino"):
        found["clip"]
    with pytest.raises(KeyError, match="P@2 was not evaluated, only AUC"):
        found.ranking("P@2")
    with pytest.raises(ValueError, match="no model 'clip' to evaluate, only dino"):
        Contest({"dino": SCORES}, SHOP, JUDGED, depth=2).evaluate("clip", "AUC")
