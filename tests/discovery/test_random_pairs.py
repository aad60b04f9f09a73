"""Pairs drawn by chance estimate how many positives there are, and enter no metric."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookalike.core.csv_files import read_csv
from lookalike.core.files import read_arrays
from lookalike.discovery import Collection, Contest, Judgements, Pool, Votes, by_rule, leaderboard, leave_one_out
from lookalike.discovery.exports import export_judgements, export_votes
from lookalike.discovery.formats import read_judgements
from lookalike.discovery.prevalence import prevalence

RNG = np.random.default_rng(3)
SHOP = Collection([f"q{n}" for n in range(40)], [f"i{n}" for n in range(900)])
TRUTH = RNG.normal(size=(40, 900))
MODELS = {f"m{n}": TRUTH + noise * RNG.normal(size=TRUTH.shape) for n, noise in enumerate((0.8, 1.0, 1.2, 1.4))}
BUILDERS = {name: MODELS[name] for name in ("m0", "m1", "m2")}
METRICS = "AUC AUC(average='micro') PRAUC Bpref Judged@6 VSDHR@6"


def judged(pool: Pool) -> Judgements:
    alike = TRUTH[pool.queries, pool.items] > 2
    return Judgements.of([(*pair, int(yes)) for pair, yes in zip(pool.pairs, alike, strict=True)])


PROPOSED = Pool.build(BUILDERS, SHOP, k=6)
DRAWN = Pool.build(BUILDERS, SHOP, k=6, random=100)  # 13 % of the judged pairs
N_DRAWN = int(DRAWN.random_alone.sum())


def board_of(pool: Pool, **options: Any) -> Any:
    return leaderboard(MODELS, judged(pool), SHOP, pool=pool, metrics=METRICS, resamples=5, **options)


def means(board: Any) -> dict[str, list[float]]:
    return {
        name: [score.mean for scores in (board[name], board.own_out[name]) for score in scores.scores.values()]
        for name in MODELS
    }


def test_a_pool_with_pairs_drawn_by_chance_gives_the_numbers_of_one_without() -> None:
    assert 0.12 < N_DRAWN / len(DRAWN) < 0.14
    board = board_of(DRAWN)
    without = means(board_of(PROPOSED))
    for name, numbers in means(board).items():
        assert numbers == pytest.approx(without[name], abs=1e-12)
    assert (board.about["pairs"], board.about["random_left_out"]) == (len(PROPOSED), N_DRAWN)
    assert f"; {N_DRAWN} more drawn by chance are left out" in str(board)
    assert board.to_dict()["random_left_out"] == N_DRAWN
    assert prevalence(judged(DRAWN), DRAWN).random.judged == 100


def test_they_all_count_where_that_is_asked_for_and_the_board_says_so() -> None:
    board = board_of(DRAWN, with_random=True)
    moved = [board[name]["AUC"].mean - board_of(PROPOSED)[name]["AUC"].mean for name in MODELS]
    assert min(moved) > 0.02  # as on real data: items drawn by chance are easy negatives
    assert board.about["pairs"] == len(DRAWN)
    assert f"; {N_DRAWN} of them drawn by chance, which count too" in str(board)
    assert (board.about["random_left_out"], board.about["random_counted"]) == (0, N_DRAWN)


def test_they_are_no_sampled_negatives() -> None:
    """Every pair is drawn and judged similar: sampled as a negative, each would be a wrong one."""
    everything = Pool.build(BUILDERS, SHOP, k=6, random=len(SHOP.query_ids) * 900)
    rows = judged(everything)
    contest = Contest(MODELS, SHOP, rows, depth=6, negatives=20, pool=everything)
    assert len(contest.sampled_queries) == 0
    assert len(contest.judgements) == len(PROPOSED)
    some = Contest(MODELS, SHOP, judged(PROPOSED), depth=6, negatives=20, pool=PROPOSED)
    assert len(some.sampled_queries) > 0
    assert len(some.rejudged(rows).sampled_queries) == 0


def test_rules_and_leaving_one_out_follow() -> None:
    found = {}
    for pool in (PROPOSED, DRAWN):
        rows = judged(pool)
        votes = Votes(rows.queries, rows.items, ["ann"] * len(rows), rows.grades)
        board = leaderboard(MODELS, rows, SHOP, pool=pool, metrics="AUC", resamples=5)
        rules = by_rule(board.contest, votes, pool=pool)
        found[len(pool)] = [
            *(other[name]["AUC"].mean for other in rules.values() for name in MODELS),
            *(row.value for row in leave_one_out(board.contest, pool, "AUC").rows_),
        ]
        assert {other.about["pairs"] for other in rules.values()} == {len(PROPOSED)}
    assert found[len(DRAWN)] == pytest.approx(found[len(PROPOSED)], abs=1e-12)


def test_a_pair_that_is_proposed_and_drawn_counts_as_proposed() -> None:
    """It stays with the others; and where its one model's own pairs are left out, it goes."""
    lucky = dataclasses.replace(PROPOSED, random=PROPOSED.alone("m0"))
    both, plain = (leaderboard(MODELS, judged(pool), SHOP, pool=pool, metrics="AUC", resamples=5)
                   for pool in (lucky, PROPOSED))  # fmt: skip
    assert both.about["random_left_out"] == 0
    assert both.own_out["m0"]["AUC"].mean == plain.own_out["m0"]["AUC"].mean != plain["m0"]["AUC"].mean
    assert not lucky.alone("m0").any()
    assert lucky.alone("m0", or_random=True).sum() == PROPOSED.alone("m0").sum()


def test_pairs_from_elsewhere_count() -> None:
    rows = [(*pair, grade) for pair, grade in judged(DRAWN).by_pair.items()]
    pooled = set(DRAWN.pairs)
    brought = next(pair for pair in ((f"q{q}", f"i{i}") for q in range(40) for i in range(900)) if pair not in pooled)
    board = leaderboard(MODELS, Judgements.of([*rows, (*brought, 1)]), SHOP, pool=DRAWN, metrics="AUC", resamples=5)
    assert board.about["pairs"] == len(PROPOSED) + 1


def test_an_image_of_a_product_inherits_no_grade_that_chance_drew() -> None:
    """b1 is judged by chance alone: b2 of the same product does not count, and is no sampled negative either."""
    collection = Collection(["q"], ["a1", "a2", "b1", "b2", "c1"], ["q"], ["a", "a", "b", "b", "c"])
    pool = Pool.build({"m": np.array([[9.0, 8, 1, 2, 3]])}, collection, k=2)
    pool = dataclasses.replace(
        pool, queries=np.zeros(3, int), items=np.array([0, 1, 2]), ranks=np.array([[1], [2], [0]]),
        scores=np.zeros((3, 1)), random=np.array([False, False, True]),
    )  # fmt: skip
    rows = Judgements.of([("q", "a1", 1), ("q", "a2", 0), ("q", "b1", 1)])
    contest = Contest({"m": np.array([[9.0, 8, 1, 2, 3]])}, collection, rows, depth=5, level="product", pool=pool)
    assert contest.judgements.items.tolist() == ["a1", "a2"]
    assert contest.random_left_out == 1
    assert contest.evaluate("m", "Judged@5")["Judged@5"].mean == 2 / 5


def test_chance_alone_is_no_contest() -> None:
    drawn = Judgements.of([(*pair, 1) for pair, yes in zip(DRAWN.pairs, DRAWN.random_alone, strict=True) if yes])
    with pytest.raises(ValueError, match=r"all .* judged pairs were drawn by chance.*with_random=True"):
        leaderboard(MODELS, drawn, SHOP, pool=DRAWN, metrics="AUC")


# Files


def test_exports_say_why_each_pair_was_judged(tmp_path: Path) -> None:
    rows = judged(DRAWN)
    queries = [*rows.queries.tolist(), "q0"]
    unknown = next(f"i{n}" for n in range(900) if ("q0", f"i{n}") not in rows.by_pair)
    votes = Votes(queries, [*rows.items.tolist(), unknown], ["ann"] * len(queries), [1] * len(queries))
    expected = [
        *("both" if r and p else "random" if r else "proposed"
          for r, p in zip(DRAWN.random, DRAWN.proposed.any(1), strict=True)),
        "elsewhere",
    ]  # fmt: skip
    by_pair = dict(zip([*DRAWN.pairs, ("q0", unknown)], expected, strict=True))
    wanted = [by_pair[pair] for pair in votes.pairs]
    assert set(wanted) == {"both", "random", "proposed", "elsewhere"}
    for kind in ("csv", "parquet"):
        assert export_votes(tmp_path / f"votes.{kind}", votes, DRAWN).rows == len(votes)
        assert Votes.read(tmp_path / f"votes.{kind}").digest == votes.digest  # which ignores the column
    assert read_csv(tmp_path / "votes.csv", []).columns["source"] == wanted
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "votes.parquet")["source"].to_pylist() == wanted
    export_votes(tmp_path / "plain.csv", votes, None)
    assert "source" not in read_csv(tmp_path / "plain.csv", []).columns


@pytest.mark.parametrize("kind", ["csv", "parquet", "qrels", "json"])
def test_judgements_for_others_leave_chance_out(kind: str, tmp_path: Path) -> None:
    rows, path = judged(DRAWN), tmp_path / f"judged.{kind}"
    assert export_judgements(path, rows, DRAWN) == (len(PROPOSED), N_DRAWN)
    assert {(query, item) for query, item, _ in read_judgements(path)} == set(PROPOSED.pairs)
    assert export_judgements(path, rows, DRAWN, with_random=True) == (len(DRAWN), 0)
    assert {(query, item) for query, item, _ in read_judgements(path)} == set(DRAWN.pairs)
    if kind in ("csv", "parquet"):
        columns = read_csv(path, []).columns if kind == "csv" else read_arrays(path)[0]
        sources = dict(zip(zip(columns["query"], columns["item"], strict=True), columns["source"], strict=True))
        assert {pair for pair, source in sources.items() if source == "random"} == {
            pair for pair, yes in zip(DRAWN.pairs, DRAWN.random_alone, strict=True) if yes
        }
