"""Tables 4 to 8 of Barkan et al. 2023, and identification with its intervals.

What a vacuous test would let pass: columns in another order than the paper's that happen to hold the same metrics; a
study in which every model built the pool; identities with one image each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lookalike.discovery import (
    Collection,
    Judgements,
    Pool,
    identification,
    leaderboard,
    paper_tables,
    recognition,
)
from lookalike.discovery.paper_tables import PaperTable

N_QUERIES, N_ITEMS = 10, 700
NAMES = ("argus", "dino", "new")
ANNO = ["Micro Anno.", "Micro Neg", "Macro Anno.", "Macro Neg"]
COLUMNS = {
    4: ["HR @5", "HR @9", "MRR @5", "MRR @9"],
    5: ["HR @5", "HR @9", "MRR @5", "MRR @9"] + [f"{area} {kind}" for area in ("ROC-AUC", "PR-AUC") for kind in ANNO],
    7: ["HR @5", "MRR @5", "ROC-AUC Micro", "ROC-AUC Macro", "PR-AUC Micro", "PR-AUC Macro"],
}
COLUMNS |= {6: COLUMNS[5], 8: COLUMNS[7]}
METRICS = {
    "HR @5": "VSDHR@5",
    "MRR @9": "VSDMRR@9",
    "ROC-AUC Micro Anno.": "AUC(average='micro')",
    "ROC-AUC Macro Neg": "AUC(negatives='sampled')",
    "PR-AUC Micro Neg": "PRAUC(average='micro', negatives='sampled')",
    "PR-AUC Macro Anno.": "PRAUC",
}


def world(
    *, closed: bool = True, images: int = 2, n_items: int = N_ITEMS, builders: int = 2
) -> tuple[dict[str, Any], Judgements, Collection, Pool]:
    """Products of so many images each, found by three models, of which the first ones build the pool."""
    rng = np.random.default_rng(0)
    ids = [f"i{n}" for n in range(n_items)]
    queries = ids[:N_QUERIES] if closed else [f"w{n}" for n in range(N_QUERIES)]
    identity = [f"p{n // images}" for n in range(n_items)]
    of_queries = identity[:N_QUERIES]
    collection = Collection(queries, ids, of_queries, identity)
    truth = rng.normal(size=(N_QUERIES, n_items))
    models = {name: truth + 0.5 * (n + 1) * rng.normal(size=truth.shape) for n, name in enumerate(NAMES)}
    pool = Pool.build({name: models[name] for name in NAMES[:builders]}, collection, k=6)
    judged = Judgements.of(
        [(*pair, int(truth[q, i] > 1.5)) for pair, q, i in zip(pool.pairs, pool.queries, pool.items, strict=True)]
    )
    return models, judged, collection, pool


def tables_of(**options: Any) -> dict[int, PaperTable]:
    models, judged, collection, pool = world(**options)
    return {table.number: table for table in paper_tables(models, judged, collection, pool=pool, resamples=20).tables}


def columns_of(table: PaperTable) -> list[str]:
    return table.to_dict()["columns"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("closed", [True, False])
def test_the_columns_are_the_papers_in_its_order(closed: bool) -> None:
    tables = tables_of(closed=closed)
    assert list(tables) == [4, 5, 6, 7, 8]
    here, elsewhere = ((5, 7), (6, 8)) if closed else ((6, 8), (5, 7))
    for number in (4, *here):
        assert tables[number].missing == ""
        assert columns_of(tables[number]) == COLUMNS[number]
    for number in elsewhere:
        assert "of queries that are" in tables[number].missing
        assert str(tables[number]).count("\n") == 0


def test_the_numbers_are_those_of_the_leaderboard() -> None:
    models, judged, collection, pool = world()
    table = tables_of()[5]
    board = leaderboard(
        models, judged, collection, pool=pool, metrics=list(METRICS.values()), resamples=20, one_per_identity=False
    )
    rows = {(row["model"], row["column"]): row for row in table.rows()}
    for model in models:
        for column, metric in METRICS.items():
            row = rows[model, column]
            assert row["metric"] == metric
            assert row["mean"] == board[model][metric].mean
            low, high = board.intervals[model][board[model][metric].metric]
            assert (row["low"], row["high"]) == pytest.approx((low, high))
    assert {row["group"] for row in table.rows() if row["model"] == "new"} == {"New models"}
    assert table.groups == {"GT generators": ["argus", "dino"], "New models": ["new"]}
    assert "rank every image of a product" in table.note  # as the pool was made


def test_models_outside_the_pool_have_a_table_of_their_own() -> None:
    tables = tables_of()
    assert tables[7].groups == {"": ["new"]}
    everyone = tables_of(builders=3)
    assert everyone[5].groups == {"GT generators": list(NAMES)}
    assert str(everyone[7]) == (
        "Table 7. Closed-catalog discovery performance: of models that did not build the pool, and all of these did"
    )


def test_without_a_pool_nobody_knows_who_built_it() -> None:
    models, judged, collection, _ = world()
    tables = {table.number: table for table in paper_tables(models, judged, collection, resamples=20).tables}
    assert tables[5].groups == tables[7].groups == {"": list(NAMES)}
    assert "did not build" not in str(tables[7])


def test_lists_too_short_to_sample_from_leave_the_columns_out_and_say_so() -> None:
    table = tables_of(n_items=60)[5]
    assert columns_of(table) == [column for column in COLUMNS[5] if "Neg" not in column]
    assert "no column Neg: negatives are sampled among unjudged items that some model ranks 101 to 500" in table.note
    assert "no column Neg" in str(table)
    few = tables_of(n_items=16)
    assert few[5].missing == ""
    models, _, collection, _ = world(n_items=16)
    eight = Collection(collection.query_ids[:4], collection.item_ids[:8])
    small = Judgements.of([("i0", "i5", 1), ("i1", "i5", 0)])
    tables = paper_tables({"m": models["dino"][:4, :8]}, small, eight).tables
    assert tables[1].missing == "it looks at 9 ranks, and there are 8 items"
    assert tables[0].missing.startswith("identification needs to know what each query and item shows")


def test_the_print_is_in_per_cent_and_marks_the_best() -> None:
    table = tables_of()[5]
    lines = str(table).splitlines()
    assert lines[0] == "Table 5. Discovery performance"
    assert [line.split() for line in lines[1:4]] == [
        ["HR", "MRR", "ROC-AUC", "PR-AUC"],
        ["@5", "@9", "@5", "@9", "Micro", "Macro", "Micro", "Macro"],
        ["Anno.", "Neg"] * 4,
    ]
    best = {metric: max(values[metric][0] for values in table.values.values()) for metric in table.metrics}
    for model in NAMES:
        (line,) = (line for line in lines if line.startswith(model))
        values = [table.values[model][metric][0] for metric in table.metrics]
        stars = ["*" if value == best[metric] else "" for value, metric in zip(values, table.metrics, strict=True)]
        assert line.split()[1:] == [f"{value * 100:.1f}{star}" for value, star in zip(values, stars, strict=True)]


def test_equal_numbers_are_best_together() -> None:
    models, judged, collection, _ = world()
    twins = {"one": models["argus"], "two": models["argus"].copy()}
    table = paper_tables(twins, judged, collection, resamples=20).tables[1]
    assert all(table.is_best(model, metric) for model in twins for metric in table.metrics)


def test_recognition_is_identification_with_intervals() -> None:
    models, _, collection, _ = world(images=3)
    found, plain = recognition(models, collection, resamples=50, seed=1), identification(models, collection)
    labels = ["VSDHR(norm='positives')@5", "VSDHR(norm='positives')@9", "VSDMRR@5", "VSDMRR@9"]
    assert [metric.label for metric in found.metrics] == labels
    assert (found.queries, found.recognisable) == (N_QUERIES, N_QUERIES)
    for row in found.rows():
        assert row["mean"] == plain[row["model"]][row["metric"]].mean
        assert row["low"] <= row["mean"] <= row["high"]
    assert any(row["low"] < row["high"] for row in found.rows())
    assert "10 of 10 queries have another image" in str(found)
    same = paper_tables(models, *world(images=3)[1:3], resamples=50, seed=1).tables[0]
    assert [(row["mean"], row["low"], row["high"]) for row in same.rows()] == [
        (row["mean"], row["low"], row["high"]) for row in found.rows()
    ]


def test_a_wild_query_is_recognised_by_one_image() -> None:
    assert tables_of(closed=False, images=1)[4].missing == ""


def test_why_nothing_is_recognised() -> None:
    models, judged, collection, _ = world(images=1)
    with pytest.raises(ValueError, match="no identity of a query has an image beside the query itself"):
        recognition(models, collection)
    assert "beside the query itself" in paper_tables(models, judged, collection, resamples=20).tables[0].missing
    with pytest.raises(ValueError, match="give the catalogue a column identity"):
        recognition(models, Collection(collection.query_ids, collection.item_ids))
