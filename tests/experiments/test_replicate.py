"""Claims tried again: each says how, its verdict follows from numbers alone, and a killed run goes on."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookalike.core.errors import FileError, InputError, MissingPackageError
from lookalike.experiments.claims import (
    BUDGETS,
    CLAIMS,
    Check,
    MeasuredNumber,
    Numbers,
    PaperClaim,
    two_thirds,
    verdict_of,
)
from lookalike.experiments.claims.claim import FAILS, HOLDS, IN_PART, UNTRIED, CannotTryError, Run, mean_of
from lookalike.experiments.replicate import (
    Replication,
    choose,
    fingerprint,
    read_result,
    replicate,
    result_path,
    results_in,
)

KEPT = Path(__file__).parents[2] / "docs" / "understanding" / "replication"
FAST = ["ten-on-one-code", "two-thirds", "judging-cost"]


def made(*, steps: list[str], fails_at: str = "", error: Exception | None = None) -> tuple[PaperClaim, list[str]]:
    """A claim of some steps, and a list of those that were really computed."""
    computed: list[str] = []

    def compute(step: str) -> float:
        if step == fails_at:
            raise error or KeyboardInterrupt
        computed.append(step)
        return float(len(step))

    def measure(run: Run) -> Iterator[MeasuredNumber]:
        for step in steps:
            yield MeasuredNumber(step, run.keep(f"made {step}", lambda step=step: compute(step)))

    texts = dict.fromkeys(("title", "paper", "place", "says", "protocol", "data", "criterion"), "x")
    settings = {budget: {"seeds": [0]} for budget in BUDGETS}
    judge = lambda numbers: [Check("all", all(n.value > 0 for n in numbers))]  # noqa: E731
    return PaperClaim(name="ten-on-one-code", **texts, settings=settings, measure=measure, judge=judge), computed


# What a claim says


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_says_where_it_is_from_and_how_it_is_tried(claim: PaperClaim) -> None:
    for fact in ("title", "paper", "place", "says", "protocol", "data", "criterion"):
        assert len(getattr(claim, fact)) > 3, fact
    assert not any(claim.title.endswith(end) for end in ".,;")
    assert set(claim.settings) == set(BUDGETS)
    for budget in BUDGETS:
        assert claim.seeds(budget)
        assert isinstance(claim.settings[budget]["seeds"], list)
    file = Path(__file__).parents[2] / "src/lookalike/experiments/claims" / f"{claim.name.replace('-', '_')}.py"
    assert file.is_file()


def test_every_file_of_a_claim_is_known() -> None:
    folder = Path(__file__).parents[2] / "src/lookalike/experiments/claims"
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py")}
    assert files - {"--init--", "claim", "material", "catalogues"} == set(CLAIMS)


# Verdicts


def test_a_verdict_is_how_many_parts_were_seen() -> None:
    yes, no = Check("a", True), Check("b", False)
    assert [verdict_of(checks) for checks in ([yes, yes], [yes, no], [no])] == [HOLDS, IN_PART, FAILS]
    with pytest.raises(InputError, match="at least one part"):
        verdict_of([])


CONSTRUCTED = {  # what each number of a kind is set to, by a part of its name, so that a claim holds, or fails wholly
    "growing-alpha": ({"less": 0.1}, {"less": -0.1}),
    "ranking-against-pairs": ({"less": 0.1}, {"less": -0.1}),
    "gradient-cost": ({"exponent": 0.5}, {"exponent": 3.0}),
    "order-of-ties": ({"mAP": 0.2, "mLGAP": 0.0}, {"mAP": 0.0, "mLGAP": 0.2}),
    "ap-denominators": (
        {"retrieved": 0.9, "min": 0.5, "total": 0.1, "range": 0.1},
        {"retrieved": 0.5, "min": 0.5, "total": 0.5, "range": 0.1},
    ),
    "unsupervised-hashers": ({", mAP": 0.1, ", use": 0.9}, {", mAP": 0.4, ", use": 0.1}),
    "dispersion": ({"less": 0.1, ", mAP": -0.1}, {"less": -0.1, ", mAP": 0.1}),
    "visual-distance": ({"bits": 0.1}, {"bits": -0.1}),
    "distance-identity": ({"bits": 0.0}, {"bits": 0.5}),
    "error-bound": ({"largest": 0.9, "every tie group": 1.0}, {"largest": 1.2, "every tie group": 0.5}),
    "pool-richness": ({"all pairs": 0.1, "pool": 0.6, "by ": 0.5}, {"all pairs": 0.1, "pool": 0.2, "by ": 0.05}),
    "generator-overlap": ({"mean overlap": 0.1, "repeats": 0.2}, {"mean overlap": 0.4, "repeats": 0.5}),
    "pool-bias": (
        {"HR": 0.2, "MRR": 0.2, "AUC": 0.0, "Bpref": 0.0},
        {"HR": -0.2, "MRR": -0.2, "AUC": -0.2, "Bpref": -0.2},
    ),
    "leave-one-out-spearman": ({"AUC, S": 0.95, "HR, S": 0.5}, {"AUC, S": 0.6, "HR, S": 0.9}),
    "two-thirds": ({"bits": 0.5}, {"bits": 0.9, "all arrangements": 0.0}),
}


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_numbers_decide_and_each_verdict_can_be_given(name: str) -> None:
    claim, kept = CLAIMS[name], read_result(result_path(KEPT, name, "quick")).numbers
    verdicts = [verdict_of(claim.judge(Numbers(constructed(kept, values)))) for values in CONSTRUCTED[name]]
    assert verdicts == [HOLDS, FAILS]


def constructed(kept: tuple[MeasuredNumber, ...], values: dict[str, float]) -> list[MeasuredNumber]:
    """The kept numbers, with these values by the last part of their names that is known."""
    out = []
    for number in kept:
        for part, value in values.items():
            if part in number.name:
                number = replace(number, value=value, low=value, high=value)
        out.append(number)
    return out


def test_some_parts_make_a_claim_hold_in_part() -> None:
    kept = read_result(result_path(KEPT, "pool-bias", "quick")).numbers
    numbers = Numbers(constructed(kept, {"HR": 0.2, "MRR": 0.2, "AUC": -0.2, "Bpref": 0.0}))
    checks = CLAIMS["pool-bias"].judge(numbers)
    assert verdict_of(checks) == IN_PART
    assert [check.held for check in checks] == [True, True, False, False, True]


def test_fine_tuning_is_judged_by_identification_and_discovery() -> None:
    def of_encoder(encoder: str, identified: float, closed: float, cat: float, ft: float) -> list[MeasuredNumber]:
        changes = {"ID, identification": identified - 0.3, "ID, closed": closed, "CAT, wild": cat, "FT, wild": ft}
        rows = [MeasuredNumber(f"{encoder}: ID, identification", identified)]
        for name, value in changes.items():
            variant, task = name.split(", ")
            rows.append(MeasuredNumber(f"{encoder}: {variant} less pretrained, {task}", value, value, value))
        return rows

    def numbers(*values: float) -> Numbers:
        return Numbers(of_encoder("a", *values))

    judge = CLAIMS["fine-tuning"].judge
    assert verdict_of(judge(numbers(0.999, -0.1, -0.1, 0.1))) == HOLDS
    assert verdict_of(judge(numbers(0.999, 0.1, -0.1, 0.1))) == IN_PART
    assert verdict_of(judge(numbers(0.2, 0.1, 0.1, -0.1))) == FAILS
    two = Numbers([*of_encoder("a", 0.999, -0.1, -0.1, 0.1), *of_encoder("b", 0.999, -0.1, 0.1, 0.1)])
    assert [check.sentence for check in judge(two) if not check.held] == ["b: CAT hurts wild queries"]


def test_a_mean_has_the_interval_of_what_is_known() -> None:
    number = mean_of("x", [0.0, 1.0, math.nan, 1.0, 0.0])
    assert number.value == 0.5
    assert 0 <= number.low < 0.5 < number.high <= 1
    with pytest.raises(AssertionError, match="two numbers"):
        Numbers([number, number])


# What is kept in the documentation


def test_the_kept_results_are_of_the_claims_as_they_are() -> None:
    assert {result.claim for result in results_in(KEPT, "quick")} == set(CLAIMS)
    for budget in BUDGETS:
        for result in results_in(KEPT, budget):
            claim = CLAIMS[result.claim]
            assert result.fingerprint == fingerprint(claim, budget), f"try {claim.name} again"
            assert result.made
            assert result.versions["lookalike"]
            if result.verdict != UNTRIED:
                assert verdict_of(claim.judge(Numbers(result.numbers))) == result.verdict, claim.name
    for path in KEPT.glob("*.json"):
        assert path.stat().st_size < 80_000, f"{path.name} is large for a result"


# Whole claims


def test_fast_claims_whole(tmp_path: Path) -> None:
    results = {result.claim: result for result in replicate(choose(FAST), "quick", tmp_path)}
    assert [result.verdict for result in results.values()] == [HOLDS, HOLDS, IN_PART]
    numbers = Numbers(results["ten-on-one-code"].numbers)
    assert numbers["orders"].value == 252
    assert round(numbers["lowest of all orders"].value, 4) == 0.3544
    assert Numbers(results["judging-cost"].numbers)["times fewer, were no pair proposed twice"].value == pytest.approx(
        1464.1944, rel=1e-6
    )
    for name, result in results.items():
        kept = read_result(result_path(KEPT, name, "quick"))
        assert [(n.name, pytest.approx(n.value, rel=1e-5)) for n in kept.numbers] == [
            (n.name, n.value) for n in result.numbers
        ]


def test_the_largest_arrangement_is_that_of_all_subsets_and_partitions() -> None:
    """Of three bits, every way to give each code one of two classes or none, or one of up to four."""
    apart = two_thirds._distances(3)
    best = 0
    for number in range(3**8):
        owners = np.array([number // 3**place % 3 for place in range(8)])
        sets = [np.flatnonzero(owners == owner) for owner in (1, 2)]
        if min(map(len, sets)) < 2:
            continue
        widths = [apart[np.ix_(codes, codes)].max() for codes in sets]
        if apart[np.ix_(*sets)].min() > max(widths):
            best = max(best, sum(map(len, sets)))
    assert two_thirds._largest(3) == best / 8 == 0.5
    assert two_thirds._edges_apart(4) == 0.5


def test_a_claim_that_lacks_something_says_what(tmp_path: Path) -> None:
    for error, words in (
        (CannotTryError("no catalogue"), "no catalogue"),
        (MissingPackageError("it needs torch", package="torch", extra="learn"), "it needs torch"),
        (OSError("no connection"), "no connection"),
    ):
        claim, _ = made(steps=["a"], fails_at="a", error=error)
        (result,) = replicate([claim], "quick", tmp_path)
        assert (result.verdict, result.why, result.numbers) == (UNTRIED, words, ())
    claim, _ = made(steps=["a"])
    unknown = replace(claim, measure=lambda run: [MeasuredNumber("x", math.nan)])
    (result,) = replicate([unknown], "quick", tmp_path)
    assert (result.verdict, result.why.split(":")[0]) == (UNTRIED, "x has no value")  # not a verdict on nothing
    assert replicate([claim], "quick", tmp_path)[0].verdict == HOLDS  # what could not be tried is tried anew


# Interruptions


def test_a_run_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    def interrupt(result: Replication) -> None:
        if result.claim == "two-thirds":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replicate(choose(FAST), "quick", tmp_path, watch=interrupt)
    again = replicate(choose(FAST), "quick", tmp_path)
    assert {result.claim: result.kept for result in again} == {
        "two-thirds": True, "ten-on-one-code": True, "judging-cost": False
    }  # fmt: skip
    third = replicate(choose(FAST), "quick", tmp_path)
    assert [r.to_dict() for r in third] == [r.to_dict() for r in again]


def test_steps_that_have_ended_are_not_repeated(tmp_path: Path) -> None:
    broken, computed = made(steps=["a", "bb", "ccc"], fails_at="ccc")
    with pytest.raises(KeyboardInterrupt):
        replicate([broken], "quick", tmp_path)
    assert computed == ["a", "bb"]
    whole, computed = made(steps=["a", "bb", "ccc"])
    (result,) = replicate([whole], "quick", tmp_path)
    assert computed == ["ccc"]
    assert [number.value for number in result.numbers] == [1, 2, 3]
    replicate([whole], "quick", tmp_path, again=True)
    assert computed == ["ccc", "a", "bb", "ccc"]


def test_a_step_that_was_damaged_is_computed_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    claim, computed = made(steps=["a"])
    replicate([claim], "quick", tmp_path)
    (step,) = (tmp_path / "steps").iterdir()
    step.write_text('{"value"')
    result_path(tmp_path, claim.name, "quick").unlink()
    with caplog.at_level(logging.WARNING):
        replicate([claim], "quick", tmp_path)
    assert computed == ["a", "a"]
    assert "is computed anew" in caplog.text


def test_another_protocol_is_another_result(tmp_path: Path) -> None:
    claim, _ = made(steps=["a"])
    replicate([claim], "quick", tmp_path)
    assert replicate([claim], "quick", tmp_path)[0].kept
    assert not replicate([replace(claim, criterion="other")], "quick", tmp_path)[0].kept


# Files


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    (result,) = replicate(choose(["ten-on-one-code"]), "quick", tmp_path)
    read = read_result(result_path(tmp_path, "ten-on-one-code", "quick"))
    assert read.to_dict() == result.to_dict()
    assert read.to_dict()["lookalike"] == "replication"
    assert math.isnan(read.numbers[0].low)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lookalike": "tally"}, "holds no result"),
        ({"format": 99}, "newer"),
        ({"verdict": "fine"}, "no known claim, budget or verdict"),
        ({"numbers": [{"name": 3}]}, "damaged"),
        ({"checks": [{"sentence": "a", "held": "yes"}]}, "damaged"),
        ({"seconds": "long"}, "damaged"),
        ({"settings": []}, "damaged"),
    ],
)
def test_a_file_that_was_changed_is_refused_and_tried_again(
    tmp_path: Path, change: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    replicate(choose(["ten-on-one-code"]), "quick", tmp_path)
    path = result_path(tmp_path, "ten-on-one-code", "quick")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileError, match=words):
        read_result(path)
    with caplog.at_level(logging.WARNING):
        (result,) = replicate(choose(["ten-on-one-code"]), "quick", tmp_path)
    assert not result.kept
    assert "is tried again" in caplog.text


def test_an_unknown_claim_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean pool-bias"):
        choose(["pool-bais"])
    assert [claim.name for claim in choose([])] == list(CLAIMS)
