"""Results as papers, spreadsheets and trackers take them: the same numbers as the result itself has."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from lookalike.core.csv_files import read_csv
from lookalike.core.errors import InputError
from lookalike.evaluation.result_tables import direction, log_key
from lookalike.metrics.metric import MEASURES, Metric, parse_all

MLFLOW = re.compile(r"[\w.\- /:]+")  # what MLflow accepts; TensorBoard leaves as it is what is of these but : and space
WANDB = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")  # what Weights & Biases can sort and filter by, but for slashes


def some(seed: int, noise: float = 1.0, metrics: str = "AP AP@5 P(radius=2)", **options: Any) -> la.Evaluation:
    """An evaluation of codes of 8 bits with many ties; equal labels, other noise."""
    labels = np.random.default_rng(0).integers(0, 3, 120)
    generator = np.random.default_rng(seed)
    bits = (
        np.eye(3)[labels] @ np.random.default_rng(1).normal(size=(3, 8)) + noise * generator.normal(size=(120, 8))
    ) > 0
    codes = la.Codes.pack(bits)
    return la.evaluate(codes[:40], codes[40:], la.same_label(labels[:40], labels[40:]), metrics, **options)


@pytest.fixture(scope="module")
def systems() -> dict[str, la.Evaluation]:
    return {"good": some(2, 0.5), "fair": some(4, 0.5), "bad_100%": some(4, 3.0)}


def test_an_evaluation_comes_back_from_csv(tmp_path: Path) -> None:
    result = some(2)
    text = result.to_csv(tmp_path / "r.csv")
    assert text == (tmp_path / "r.csv").read_text()
    columns = read_csv(tmp_path / "r.csv", ["metric"]).columns
    for row, name in enumerate(columns["metric"]):
        score = result[name]
        assert [float(columns[part][row]) for part in ("expected", "best", "worst")] == [
            score.mean, score.best, score.worst,
        ]  # fmt: skip
    ties = read_csv(_written(tmp_path / "t.csv", result.to_csv(ties=True)), ["expected best"]).columns
    assert ties["expected best"] == columns["best"]


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_all_formats_show_the_numbers_of_an_evaluation() -> None:
    result = some(2)
    value = f"{result['AP'].mean:.3f}"
    for text in (result.to_latex(digits=3), result.to_markdown(digits=3), result.to_html(digits=3)):
        assert value in text
        assert "AP(norm='retrieved')@5" in text.replace("&#x27;", "'")
    for wrong in (-1, 18, 2.5):
        with pytest.raises(ValueError if wrong != 2.5 else TypeError, match="digits must be a whole number"):
            result.to_latex(digits=wrong)
    with pytest.raises(TypeError, match="significance"):
        result.to_latex(significance=True)


def test_marks_and_daggers_of_a_comparison(systems: dict[str, la.Evaluation]) -> None:
    compared = la.compare(systems)
    means = {name: result["AP"].mean for name, result in systems.items()}
    best = max(means, key=means.__getitem__)
    corrected = {(d.first, d.second): d.corrected for d in compared.differences if str(d.metric) == "AP"}
    table = compared.to_table(significance=True).with_marks()
    for row in table.rows:
        name, cell = str(row[0].value), row[1]
        assert cell.value == means[name]
        p = corrected.get((name, best), corrected.get((best, name), math.nan))
        assert (cell.sign == "†") == (name != best and not p < 0.05)
        assert (cell.place == 1) == (name == best)
    assert [row[1].sign for row in table.rows] == ["", "†", ""]  # by these seeds
    assert any("does not differ significantly from the best" in sentence for sentence in table.legend)
    assert "bad\\_100\\%" in compared.to_latex()


def test_daggers_beside_a_baseline(systems: dict[str, la.Evaluation]) -> None:
    compared = la.compare(systems, baseline="fair", metrics="AP")
    assert [(d.first, d.second) for d in compared.differences] == [("good", "fair"), ("bad_100%", "fair")]
    table = compared.to_table(significance=True)
    assert [row[1].sign for row in table.rows] == ["", "", "†"]
    assert table.legend[-1].startswith("† differs significantly from fair (")
    every = {(d.first, d.second): d for d in la.compare(systems, metrics="AP").differences}
    one = every["fair", "bad_100%"]
    assert compared.differences[1].difference == pytest.approx(-one.difference)
    assert compared.differences[1].p_value == one.p_value
    with pytest.raises(InputError, match="baseline must be one of 'good', 'fair', 'bad_100%', got 'god', did you mean"):
        la.compare(systems, baseline="god")
    with pytest.raises(InputError, match="not every evaluation has P@3"):
        la.compare(systems, metrics="P@3")
    with pytest.raises(InputError, match="leave out pairs"):
        compared.to_latex(pairs=True, ties=True)


def test_lower_is_better_where_a_metric_says_so(monkeypatch: pytest.MonkeyPatch, systems: Any) -> None:
    assert direction(Metric.parse("AP")) is True
    assert direction(Metric.parse("RBP(part='residual')")) is None
    lower = replace(MEASURES["AP"])
    object.__setattr__(lower, "higher_is_better", False)
    monkeypatch.setitem(MEASURES, "AP", lower)
    table = la.compare(systems, metrics="AP").to_table(significance=True).with_marks()
    assert [row[1].place for row in table.rows] == [0, 2, 1]
    assert [row[1].sign for row in table.rows] == ["", "", ""]  # both differ from the worst, which is the best now


# What may be compared


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exclude": "self", "query_ids": range(40), "gallery_ids": range(80)}, "items that do not rank is"),
        ({"labels": True}, "different fingerprints"),
    ],
)
def test_other_data_and_other_rules_are_told(options: Any, words: str, caplog: pytest.LogCaptureFixture) -> None:
    first = some(2)
    if "labels" in options:
        labels = np.random.default_rng(5).integers(0, 3, 120)
        codes = la.Codes.pack(np.random.default_rng(6).random((120, 8)) > 0.5)
        other = la.evaluate(codes[:40], codes[40:], la.same_label(labels[:40], labels[40:]), "AP")
        compared = la.compare({"a": first, "b": other})
        assert words in caplog.text
        assert words in compared.notes[0]
        assert words in compared.to_markdown()
        return
    with pytest.raises(InputError, match=words):
        la.compare({"a": first, "b": some(3, **options)})


def test_undefined_queries_count_alike() -> None:
    relevance = la.grades([[1, 0], [0, 0]])
    first, second = (la.evaluate_scores([[2, 1], [1, 2]], relevance, "AP", undefined=rule) for rule in ("zero", "skip"))
    with pytest.raises(InputError, match="undefined queries are zero in 'a', skip in 'b'"):
        la.compare({"a": first, "b": second})


# Trackers


def test_names_that_every_tracker_accepts(systems: dict[str, la.Evaluation]) -> None:
    compared = la.compare(systems)
    logged = compared.log("val/")
    assert logged["val/good/AP_at_5"] == systems["good"]["AP@5"].mean
    assert logged["val/good_minus_fair/AP_p"] == compared.differences[0].corrected
    assert "val/bad_100_/P_radius_2_worst" in logged
    for key, value in logged.items():
        assert MLFLOW.fullmatch(key)
        assert all(WANDB.fullmatch(part) for part in key.split("/"))
        assert isinstance(value, float)
    # a tracker that keeps files has no room for a number and a folder of one name
    assert not {key for key in logged if any(other.startswith(f"{key}/") for other in logged)}


def test_one_result_in_a_tracker() -> None:
    result = some(2)
    names = [log_key(metric) + part for metric in result for part in ("", "_best", "_worst")]
    assert list(result.log()) == names
    assert result.log()["AP_at_5_best"] == result["AP@5"].best
    for wrong in ("a b/", "@", "5/"):
        with pytest.raises(InputError, match="prefix must be"):
            result.log(wrong)


def test_different_metrics_have_different_names() -> None:
    of_precision = "P@5 P@2 P(radius=2) P(radius=2.5) P(radius=25) RBP RBP(p=0.5) RBP(p=0.05) LGAP@0 LGAP@1 "
    others = "AP AP@5 AP(norm='min')@5 AP(norm='total')@5 AP(rel=2) AUC(average='micro') AUC(negatives='sampled')"
    names = of_precision + others
    keys = [log_key(metric) for metric in parse_all(names)]
    assert len(set(keys)) == len(keys)
    assert all(WANDB.fullmatch(key) for key in keys)


def test_two_systems_of_one_name_in_a_tracker() -> None:
    with pytest.raises(InputError, match="'a b' and 'a_b' are both 'a_b'"):
        la.compare({"a b": some(2), "a_b": some(3)}).log()
