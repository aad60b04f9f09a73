"""Metrics of groups of queries: each number is that of evaluating the group's queries alone.

What a vacuous test would let pass: groups of one size, where macro and plain mean agree (they differ here); a micro
average of a group that is a mean of its queries' influence on the whole (compared with the group evaluated alone);
groups in the order in which they came.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lookalike as la
from helpers.sharded import written
from lookalike.evaluation.by_group import MACRO, SHOWN

Array = NDArray[Any]
RANKS = ["AP", "AP@7", "AP(empty='skip')@2", "nDCG@5", "P@3", "MAP@R", "RPrecision", "RR"]
AREAS = ["AUC", "AUC(average='micro')", "PRAUC(average='micro')", "FNMR(fmr=0.05)", "FNMR(fmr=0.05, average='macro')"]
METRICS = [*RANKS, *AREAS, "VSDHR(norm='pairs')@4"]
N_QUERIES, N_ITEMS = 30, 50


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Codes, embeddings and scores of the same sizes, with labels, and groups of 3, 9 and 18 queries."""
    rng = np.random.default_rng(4)
    labels, gallery_labels = rng.integers(0, 4, N_QUERIES), rng.integers(0, 4, N_ITEMS)
    centres = rng.standard_normal((4, 12))
    queries, gallery = (centres[of] + rng.standard_normal((len(of), 12)) for of in (labels, gallery_labels))
    groups = rng.permutation(np.repeat(["shoe", "bag", "hat"], [3, 9, 18]))
    return {"labels": (labels, gallery_labels), "vectors": (queries, gallery), "groups": groups}


def assert_those_of_the_group_alone(result: la.Evaluation, groups: Any, alone: Any) -> None:
    """alone: evaluates the queries at some positions."""
    assert result.by_group is not None
    names = sorted(set(groups))
    assert result.by_group.groups == tuple(names)
    for metric in result:
        of_groups = []
        for name in names:
            rows = np.flatnonzero(np.asarray(groups) == name)
            wanted, found = alone(rows)[metric], result.by_group[metric, name]
            numbers = [wanted.mean, wanted.best, wanted.worst]
            np.testing.assert_allclose([found.mean, found.best, found.worst], numbers, rtol=0, atol=1e-12)
            assert (found.queries, found.undefined) == (len(rows), wanted.undefined)
            of_groups.append(numbers)
        macro = result.by_group.macro(metric)
        np.testing.assert_allclose([macro.mean, macro.best, macro.worst], np.nanmean(of_groups, axis=0), atol=1e-12)
        assert macro.queries == len(groups)


@pytest.mark.parametrize("kind", ["codes", "embeddings"])
def test_groups_of_codes_and_embeddings(world: dict[str, Any], kind: str) -> None:
    (labels, gallery_labels), (queries, gallery) = world["labels"], world["vectors"]
    first, second = queries, gallery
    if kind == "codes":
        first, second = la.Codes.pack(queries > 0), la.Codes.pack(gallery > 0)
    relevance = la.same_label(labels, gallery_labels)
    result = la.evaluate(first, second, relevance, METRICS, by=world["groups"])
    assert_those_of_the_group_alone(
        result,
        world["groups"],
        lambda rows: la.evaluate(first[rows], second, la.same_label(labels[rows], gallery_labels), METRICS),
    )
    assert result.by_group is not None
    assert abs(result.by_group.macro("AP").mean - result["AP"].mean) > 1e-3
    plain = la.evaluate(first, second, relevance, METRICS)
    assert plain.by_group is None
    assert {metric: score.mean for metric, score in plain.scores.items()} == {m: result[m].mean for m in result}
    tally = la.count(first, second, relevance)
    again = la.evaluate_tally(tally, METRICS, by=world["groups"].tolist())
    assert again.by_group is not None
    for row, other in zip(result.by_group.rows(), again.by_group.rows(), strict=True):
        assert [row[key] for key in ("mean", "best", "worst")] == pytest.approx(
            [other[key] for key in ("mean", "best", "worst")], abs=1e-12
        )
        assert (row["metric"], row["group"]) == (other["metric"], other["group"])


def test_groups_of_scores_and_shards(world: dict[str, Any], tmp_path: Path) -> None:
    (labels, gallery_labels), (queries, gallery) = world["labels"], world["vectors"]
    scores, relevance = np.round(queries @ gallery.T), la.same_label(labels, gallery_labels)
    ids = [f"q{q}" for q in range(N_QUERIES)]
    by = dict(zip(ids, world["groups"].tolist(), strict=True)) | {"unknown": "bag"}
    result = la.evaluate_scores(scores, relevance, METRICS, query_ids=ids, by=by)
    assert_those_of_the_group_alone(
        result,
        world["groups"],
        lambda rows: la.evaluate_scores(scores[rows], la.same_label(labels[rows], gallery_labels), METRICS),
    )
    codes = la.Codes.pack(queries > 0), la.Codes.pack(gallery > 0)
    shards = written(tmp_path, codes[1], [20, 29, 1], {"labels": gallery_labels.astype(str)})
    by_column = la.same_label(labels.astype(str), shards["labels"])
    sharded = la.evaluate(codes[0], shards, by_column, METRICS, by=world["groups"])
    memory = la.evaluate(*codes, relevance, METRICS, by=world["groups"])
    assert str(sharded.by_group) == str(memory.by_group)


def test_groups_of_a_run() -> None:
    rng = np.random.default_rng(6)
    run = {f"q{q}": {f"d{i}": float(rng.integers(0, 6)) for i in range(15)} for q in range(12)}
    qrels = {f"q{q}": {f"d{i}": int(rng.integers(0, 2)) for i in range(0, 20, 2)} for q in range(12)}
    groups = {f"q{q}": q % 3 % 2 for q in range(12)}
    result = la.evaluate_run(run, la.judged(qrels), METRICS, unjudged="irrelevant", by=groups)
    assert_those_of_the_group_alone(
        result,
        list(groups.values()),
        lambda rows: la.evaluate_run(
            run, la.judged({f"q{q}": qrels[f"q{q}"] for q in rows}), METRICS, unjudged="irrelevant"
        ),
    )
    with pytest.raises(TypeError, match="by must map query ids to groups, since a run has no order, got list"):
        la.evaluate_run(run, la.judged(qrels), "AP", unjudged="irrelevant", by=list(groups.values()))  # type: ignore[arg-type]
    del groups["q7"]
    with pytest.raises(ValueError, match="by has no group of 1 queries, first of 'q7'"):
        la.evaluate_run(run, la.judged(qrels), "AP", unjudged="irrelevant", by=groups)


SCORES = np.array([[3.0, 2.0, 1.0]] * 4)


def small(by: Any, metrics: str = "AP", **options: Any) -> la.Evaluation:
    """Four queries; nothing is relevant to the last two."""
    grades = la.grades([[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]])
    return la.evaluate_scores(SCORES, grades, metrics, by=by, **options)


def test_undefined_queries_count_as_asked() -> None:
    zero, skip = (small(["a", "b", "a", "c"], undefined=policy).by_group for policy in ("zero", "skip"))
    assert zero is not None
    assert skip is not None
    assert [(zero["AP", name].mean, zero["AP", name].undefined) for name in "abc"] == [(0.5, 1), (0.5, 0), (0, 1)]
    assert zero.macro("AP").mean == pytest.approx(1 / 3)
    assert [skip["AP", name].mean for name in "ab"] == [1, 0.5]
    assert math.isnan(skip["AP", "c"].mean)
    assert skip.macro("AP").mean == 0.75  # of the groups that have a value
    result = small(["a", "b", "a", "c"], undefined="skip")
    assert result.notes == ["AP has no value in 1 of 3 groups ('c'): its macro mean leaves these out"]
    with pytest.raises(ValueError, match="AP is undefined for 2 queries, first for 2"):
        small(["a", "b", "a", "c"], undefined="error")
    with pytest.raises(ValueError, match="is undefined for 1 queries of group 'c', first for 3"):
        small(["a", "b", "a", "c"], "AUC(average='micro')", undefined="error")


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (["a", "b"], "by has groups of 2 queries, but there are 4"),
        (["a", "b", None, "a"], "by must be text or whole numbers, all of one kind, got None for query 2"),
        (["a", "b", math.nan, "a"], "by must be text or whole numbers, all of one kind, got nan for query 2"),
        (np.array([1.0, 2.0, np.nan, 1.0]), "got 1.0 for query 0"),
        (["a", 1, "b", 2], "by must be text or whole numbers, all of one kind, got several kinds"),
        (np.zeros((4, 2), int), r"by must be one group for each query, got shape \(4, 2\)"),
        ("abcd", "by must be one group for each query, or a mapping of query ids to groups, got str"),
        (3, "got int"),
        ({0: "a", 1: "b"}, "by has no group of 2 queries, first of 2: give each one"),
    ],
)
def test_what_is_no_group_of_each_query_is_an_error(by: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(by)


def test_one_group_alone_is_noted() -> None:
    result = small([5, 5, 5, 5])
    assert result.notes == ["all queries are of one group: its numbers are those of all queries"]
    assert result.by_group is not None
    assert result.by_group["AP", 5].mean == result.by_group.macro("AP").mean == result["AP"].mean


def test_groups_are_printed_saved_and_tabled(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    result = small(pandas.Series(["b", "a", "b", "a"], dtype="category"), "AP P@1")
    lines = str(result).splitlines()
    assert "AP      a             0.2500  0.2500  0.2500        2          1" in lines
    assert "P@1     macro mean    0.2500  0.2500  0.2500        4          0" in lines
    assert "macro mean" in result._repr_html_()
    table = result.to_pandas(by_group=True)
    assert table.loc[("AP", "b"), "mean"] == 0.5
    assert table.loc[("AP", MACRO), "mean"] == 0.375
    with pytest.raises(ValueError, match="there are no groups of queries: evaluate with by="):
        la.evaluate_scores(SCORES, la.grades([[1, 0, 0]] * 4), "AP").to_pandas(by_group=True)
    result.to_json(tmp_path / "result.json")
    saved = json.loads((tmp_path / "result.json").read_text())
    assert saved["by_group"]["macro"]["AP"]["mean"] == 0.375
    again = la.Evaluation.from_json(tmp_path / "result.json")
    assert again.by_group == result.by_group
    assert str(again) == str(result)
    skipped = small(["a", "b", "c", "c"], undefined="skip")
    skipped.to_json(tmp_path / "skip.json")
    assert str(la.Evaluation.from_json(tmp_path / "skip.json")) == str(skipped)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["a", "a"]}, "a group twice"),
        ({"groups": ["a"]}, "other groups or queries of AP"),
        ({"groups": 3}, "a list of groups"),
        ({"scores": {}}, "other metrics"),
        ({"scores": {"AP": [{"mean": "high", "best": 1, "worst": 1, "queries": 2, "undefined": 0}] * 2}}, "of numbers"),
        ({"scores": {"AP": [{"mean": 1, "best": 1, "worst": 1, "queries": 2, "undefined": 3}] * 2}}, "cannot have 3"),
        ({"scores": {"AP": [{"mean": 1, "best": 1, "worst": 1, "queries": 1.5, "undefined": 0}] * 2}}, "whole numbers"),
        ({"scores": {"AP": [{"mean": 1}] * 2}}, "lacks best"),
        ({"scores": {"AP": [7, 7]}}, "damaged"),
    ],
)
def test_damaged_groups_are_found(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    saved = json.loads(small(["b", "a", "b", "a"]).to_json())
    saved["by_group"] |= change
    (tmp_path / "result.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=message):
        la.Evaluation.from_json(tmp_path / "result.json")


def test_many_groups_are_printed_by_their_macro_mean() -> None:
    n = SHOWN + 1
    result = la.evaluate_scores([[2.0, 1.0]] * n, la.grades([[1, 0]] * n), "AP", by=list(range(n)))
    assert result.by_group is not None
    assert len(str(result.by_group).splitlines()) == 3
    assert f"{n} groups: by_group.rows() has each of them" in str(result)
    assert len(result.by_group.rows()) == n + 1


def test_what_was_not_evaluated_has_no_group() -> None:
    by_group = small(["b", "a", "b", "a"]).by_group
    assert by_group is not None
    with pytest.raises(KeyError, match="nDCG was not evaluated, only AP"):
        by_group["nDCG", "a"]
    with pytest.raises(KeyError, match="there is no group 'c', only 'a', 'b'"):
        by_group["AP", "c"]
    with pytest.raises(KeyError, match="name a metric and a group"):
        by_group["AP"]  # type: ignore[index]


def test_joined_evaluations_keep_their_groups() -> None:
    both = la.Evaluation.joined(small(["b", "a", "b", "a"], "AP"), small(["b", "a", "b", "a"], "P@1"))
    assert both.by_group is not None
    assert both.by_group["P@1", "b"].mean == 0.5
    assert la.Evaluation.joined(small(["b", "a", "b", "a"], "AP"), small(None, "P@1")).by_group is None
