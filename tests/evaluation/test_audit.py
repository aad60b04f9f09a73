"""The audit names the script that a number was made by.

The scripts are written here from their definitions, slow and obvious: one query at a time, a sort of all distances, a
loop over ranks. What a vacuous test would let pass: queries that all have a hit (then leaving out and zero agree),
codes with few ties (then all orders agree), a gallery stored by class, and a last item that is never relevant.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

import lookalike as la
from helpers.commands import done, numbers, refused
from lookalike.core.kernels import kernels, plain
from lookalike.evaluation.audit.verdict import check_reported

K = 5


@pytest.fixture(scope="module")
def case() -> dict[str, Any]:
    """40 queries and 300 items of 6 bits, some queries of a label that no item or only far items have."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 12, 340)
    bits = rng.integers(0, 2, (340, 6))
    bits[:, :3] = (labels[:, None] >> np.arange(3) & 1) ^ (rng.random((340, 3)) < 0.3)
    labels[:2] = 99  # no item has it
    apart = (bits[:4, None] != bits[None]).sum(2)
    labels[40:][apart[2, 40:] == 6] = labels[2]  # the farthest items of a query are relevant
    labels[40:][(apart[3, 40:] <= 1) & (labels[40:] == labels[3])] += 1  # the nearest items of another are not
    return {"bits": bits, "labels": labels, "n": 40}


def codes_of(case: dict[str, Any]) -> tuple[la.Codes, la.Codes, Any]:
    codes, n = la.Codes.pack(case["bits"]), case["n"]
    return codes[:n], codes[n:], la.same_label(case["labels"][:n], case["labels"][n:])


@pytest.fixture(scope="module")
def found(case: dict[str, Any]) -> Any:
    return la.audit(*codes_of(case), k=K)


def rankings(case: dict[str, Any], kind: str | None) -> list[list[bool]]:
    """Whether each item of each query's ranking is relevant; sorted as scripts sort, of -1/+1 in single precision."""
    signs, n = (2.0 * case["bits"] - 1).astype(np.float32), case["n"]
    ranked = []
    for query, label in zip(signs[:n], case["labels"][:n], strict=True):
        distance = 0.5 * (signs.shape[1] - signs[n:] @ query)
        order = np.argsort(distance, kind=kind)
        ranked.append([bool(case["labels"][n:][i] == label) for i in order])
    return ranked


def precisions(ranking: list[bool]) -> list[float]:
    return [sum(ranking[: rank + 1]) / (rank + 1) for rank, relevant in enumerate(ranking) if relevant]


def deep_hash(case: dict[str, Any], top: int) -> float:
    """DeepHash-pytorch: numpy's own sort, a slice up to `top`, over what it finds; a query without a hit adds 0."""
    values = [precisions(ranking[0:top]) for ranking in rankings(case, None)]
    return sum(math.fsum(each) / len(each) for each in values if each) / len(values)


def hash_net(case: dict[str, Any], top: int) -> float:
    """HashNet: the same, but a query without a hit is not in the mean."""
    values = [precisions(ranking[0:top]) for ranking in rankings(case, None)]
    return float(np.mean([math.fsum(each) / len(each) for each in values if each]))


def mi_hash(case: dict[str, Any], top: int | None) -> float:
    """MIHash: distances from 0 up, in each the items as stored; what has no hit is not a number, and left out."""
    values = [precisions(ranking[:top]) for ranking in rankings(case, "stable")]
    return float(np.mean([math.fsum(each) / len(each) for each in values if each]))


def deep_mi_hash(case: dict[str, Any], top: int | None) -> float:
    """deep-mihash: precision times the rise of recall since the rank before, of which rank 1 has none."""
    values = []
    for ranking in rankings(case, "stable"):
        ranking = ranking[:top]
        total, value = sum(ranking), 0.0
        for rank in range(1, len(ranking)):
            rise = (sum(ranking[: rank + 1]) - sum(ranking[:rank])) / total if total else 0.0
            value += rise * sum(ranking[: rank + 1]) / (rank + 1)
        values.append(value)
    return float(np.mean(values))


SCRIPTS = {
    "DeepHash-pytorch, topK=-1": lambda case: deep_hash(case, -1),
    f"DeepHash-pytorch, topK={K}": lambda case: deep_hash(case, K),
    f"HashNet, R={K}": lambda case: hash_net(case, K),
    "MIHash, mAP": lambda case: mi_hash(case, None),
    f"MIHash, mAP_{K}": lambda case: mi_hash(case, K),
    "deep-mihash, AP": lambda case: deep_mi_hash(case, None),
    f"deep-mihash, AP@{K}": lambda case: deep_mi_hash(case, K),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_number_is_traced_to_the_script_that_made_it(case: dict[str, Any], found: Any, name: str) -> None:
    made = SCRIPTS[name](case)
    verdict = found.verdict(f"{made:.10f}")
    assert verdict.scripts == [name]
    assert verdict.matches[0].value == pytest.approx(made, abs=1e-12)
    assert f"is what this script gives: {name}" in verdict.sentences()[0]


def test_the_case_tells_the_scripts_apart(case: dict[str, Any]) -> None:
    made = [script(case) for script in SCRIPTS.values()]
    assert min(abs(one - other) for one, other in itertools.combinations(made, 2)) > 1e-6
    stable, by_numpy = rankings(case, "stable"), rankings(case, None)
    assert any(not any(ranking[:K]) and any(ranking) for ranking in stable)  # empty in the top k
    assert any(ranking[-1] for ranking in by_numpy)  # the last rank matters


def test_average_precision_by_thresholds_is_scikit_learns(case: dict[str, Any], found: Any) -> None:
    n, labels = case["n"], case["labels"]
    distances = (case["bits"][:n, None] != case["bits"][None, n:]).sum(2)
    wanted = [
        average_precision_score(labels[n:] == label, -row) if (labels[n:] == label).any() else 0.0
        for row, label in zip(distances, labels[:n], strict=True)
    ]
    assert found.by_threshold == pytest.approx(np.mean(wanted), abs=1e-12)
    assert found.verdict(f"{np.mean(wanted):.9f}").scripts == ["scikit-learn, average_precision_score"]


def test_ties_by_name_are_trec_evals(case: dict[str, Any], found: Any) -> None:
    """The order of trec_eval, through a run, which names items by text: "9" stands above "10"."""
    n, labels = case["n"], case["labels"]
    distances = (case["bits"][:n, None] != case["bits"][None, n:]).sum(2)
    run = {f"q{q}": {str(i): -float(d) for i, d in enumerate(row)} for q, row in enumerate(distances)}
    pairs = [(f"q{q}", str(i), int(labels[q] == labels[n + i])) for q in range(n) for i in range(distances.shape[1])]
    for name, metric in (("trec_eval, map", "map"), (f"trec_eval, map_cut_{K}", f"map_cut_{K}")):
        wanted = la.evaluate_run(run, la.judged(pairs), [metric], ties="trec_eval")[metric].mean
        assert next(one.value for one in found.numbers if one.name == name) == pytest.approx(wanted, abs=1e-12)


def test_expectation_best_and_worst_are_those_of_evaluate(case: dict[str, Any], found: Any) -> None:
    for row in found.rows:
        if row.way.first and row.way.cut != -1:
            undefined = "skip" if row.way.empty == "skip" else "zero"
            score = la.evaluate(*codes_of(case), [row.way.metric], undefined=undefined)[row.way.metric]
            wanted = pytest.approx((score.mean, score.best, score.worst), abs=1e-12)
            assert (row.expected, row.best, row.worst) == wanted, row.name
    cut = la.evaluate(*codes_of(case), ["AP@299"])["AP@299"]
    all_but_last = next(row for row in found.rows if row.way.cut == -1)
    assert (all_but_last.expected, all_but_last.best) == pytest.approx((cut.mean, cut.best), abs=1e-12)


def test_shuffled_galleries_agree_with_the_expectation(found: Any) -> None:
    checked = 0
    for row in found.rows:
        if row.expected == row.expected:
            error = row.shuffled.std(ddof=1) / math.sqrt(len(row.shuffled))
            assert abs(row.shuffled.mean() - row.expected) < 4 * error, row.name
            assert row.worst - 1e-12 <= row.shuffled.min() < row.shuffled.max() <= row.best + 1e-12
            checked += 1
    assert checked == 9


def test_shuffles_are_those_of_a_script_that_shuffles(case: dict[str, Any]) -> None:
    """The first shuffled gallery, shuffled by hand and sorted stably."""
    found = la.audit(*codes_of(case), k=K, shuffles=3, random_state=7)
    n, order = case["n"], np.random.default_rng(7).permutation(300)
    shuffled = {
        name: np.concatenate([case[name][:n], case[name][n:][order]]) for name in ("bits", "labels")
    } | {"n": n}  # fmt: skip
    row = next(row for row in found.rows if str(row.way) == f"AP(norm='retrieved', empty='skip')@{K}")
    assert row.shuffled[0] == pytest.approx(mi_hash(shuffled, K), abs=1e-12)
    assert len(row.shuffled) == 3


def test_relevant_first_and_last_are_best_and_worst_where_the_divisor_is_fixed(found: Any) -> None:
    for row in found.rows:
        ends = row.orders["relevant last"], row.orders["relevant first"]
        if row.way.first and (row.way.cut is None or (row.way.norm != "retrieved" and row.way.empty == "zero")):
            assert ends == pytest.approx((row.worst, row.best), abs=1e-12), row.name
        elif row.way.first:  # one more relevant item in the top k can lower AP@k
            assert row.worst - 1e-12 <= min(ends)
            assert max(ends) <= row.best + 1e-12


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), n_items=st.integers(1, 30), n_groups=st.integers(1, 5))
def test_both_forms_of_the_loop_give_the_same_bits(seed: int, n_items: int, n_groups: int) -> None:
    rng = np.random.default_rng(seed)
    groups, relevant = rng.integers(0, n_groups, (3, n_items)), rng.random((3, n_items)) < 0.4
    keys = (2 * groups + relevant).astype(np.uint16)
    counts = np.stack([[np.bincount(g, minlength=n_groups), np.bincount(g[r], minlength=n_groups)]
                       for g, r in zip(groups, relevant, strict=True)])  # fmt: skip
    before = np.ascontiguousarray(counts.cumsum(2) - counts)
    orders = np.stack([rng.permutation(n_items) for _ in range(4)]).astype(np.int32)
    cuts = np.array([[n_items, n_items - 1, 1, 3]] * 3)
    results = []
    for loops in (plain, kernels()):
        sums, hits = np.zeros((3, 4, 4)), np.zeros((3, 4, 4), np.int64)
        loops.order_sums(keys, orders, before, cuts, sums, hits)
        results.append((sums, hits))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][1][:, :, 0].tolist() == np.repeat(relevant.sum(1), 4).reshape(3, 4).tolist()


# Leave-one-out


def test_the_query_itself_included_is_the_gallery_with_it(case: dict[str, Any]) -> None:
    codes, labels = la.Codes.pack(case["bits"]), case["labels"]
    relevance = la.same_label(labels, labels)
    found = la.audit(codes, codes, relevance, k=K, exclude="self", shuffles=2)
    included = {row.name: row for row in found.rows if row.included}
    score = la.evaluate(codes, codes, relevance, ["AP"])["AP"]
    row = included["AP, the query itself included"]
    assert (row.expected, row.worst) == pytest.approx((score.mean, score.worst), abs=1e-12)
    alone = la.evaluate(codes, codes, relevance, ["AP"], exclude="self")["AP"]
    assert found.rows[0].expected == pytest.approx(alone.mean, abs=1e-12)
    # without the item itself, by hand
    values = []
    for q in range(len(codes)):
        distance = (case["bits"] != case["bits"][q]).sum(1)
        order = [i for i in np.argsort(distance, kind="stable") if i != q]
        each = precisions([bool(labels[i] == labels[q]) for i in order])
        values.append(math.fsum(each) / len(each) if each else 0.0)
    assert found.rows[0].orders["stored"] == pytest.approx(np.mean(values), abs=1e-12)


# What is said


def test_numbers_that_several_scripts_give_are_all_named(found: Any) -> None:
    values = {one.name: one.value for one in found.numbers if one.script is not None}
    text = f"{values['MIHash, mAP']:.1f}"
    verdict = found.verdict(text)
    rounded = {name for name, value in values.items() if abs(value - float(text)) <= 0.05}
    assert set(verdict.scripts) == rounded
    assert len(rounded) > 1
    assert "It cannot tell them apart." in verdict.sentences()[0]


def test_a_number_that_nothing_gives_is_said_to_be_so(found: Any) -> None:
    far = found.verdict("0.001")
    assert far.matches == far.possible == []
    assert [sentence.split(":")[0] for sentence in far.sentences()][1] == "No order of tied items gives it"
    assert "could have been" not in far.range
    row = found.rows[0]
    between = found.verdict(f"{(row.best + row.orders['stored']) / 2:.5f}")
    assert not between.matches
    assert row in between.possible
    assert f"could have been anything from {row.worst:.4f} to {row.best:.4f}" in between.range


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        ("82.1", "must be from 0 to 1, got 82.1: write 0.821 for 82.1 %"),
        ("-0.1", "must be from 0 to 1"),
        ("nan", "must be from 0 to 1"),
        ("high", "must be a number such as 0.82, got 'high'"),
        ("1", "needs digits after the point"),
    ],
)
def test_what_cannot_be_a_reported_number_is_refused(reported: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_reported(reported)


def test_what_cannot_be_audited_is_refused(case: dict[str, Any]) -> None:
    queries, gallery, relevance = codes_of(case)
    with pytest.raises(TypeError, match="an audit is of codes"):
        la.audit(queries.unpack().astype(float), gallery.unpack().astype(float), relevance)
    with pytest.raises(TypeError, match="judged pairs cover some"):
        la.audit(queries, gallery, la.judged([(0, 0, 1)]))
    with pytest.raises(ValueError, match="nothing is relevant to any query"):
        la.audit(queries, gallery, la.same_label(np.zeros(40, int), np.ones(300, int)), shuffles=1)
    assert la.audit(queries, gallery, relevance, k=[K, 300], shuffles=1).notes == [
        "k=300 cuts nothing off: the gallery has 300 items; it is left out"
    ]


# The command


@pytest.fixture
def files(case: dict[str, Any], tmp_path: Path) -> Path:
    n = case["n"]
    np.savez(tmp_path / "q.npz", codes=case["bits"][:n], labels=case["labels"][:n])
    np.savez(tmp_path / "g.npz", codes=case["bits"][n:], labels=case["labels"][n:])
    np.save(tmp_path / "all.npy", case["bits"])
    np.savetxt(tmp_path / "all.txt", case["labels"], fmt="%d")
    return tmp_path


def test_the_command_names_the_script(case: dict[str, Any], files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = f"{hash_net(case, K):.6f}"
    arguments = ["audit", files / "q.npz", files / "g.npz", "--k", K, "--reported", made]
    parsed = numbers(capsys, *arguments)
    assert parsed["verdict"]["scripts"] == [f"HashNet, R={K}"]
    assert parsed["inputs"]["gallery"]
    assert len(parsed["rows"][0]["shuffled"]) == 100
    out = done(capsys, *arguments, "--picture", files / "a.svg")
    assert f"{made} is what this script gives: HashNet, R={K}" in " ".join(out.split())
    picture = (files / "a.svg").read_text()
    assert f"reported {made}" in picture
    assert "prefers-color-scheme: dark" in picture
    assert picture.count('class="tie"') == 1 + sum(
        row.worst == row.worst for row in la.audit(*codes_of(case), k=K).distinct
    )


def test_one_file_is_searched_within_itself(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["audit", files / "all.npy", "--labels", files / "all.txt", "--k", K, "--shuffles", 2]
    out = done(capsys, *arguments)
    assert "AP, the query itself included" in out
    assert "340 queries, 340 items of 6 bits" in out


def test_mistakes_are_one_sentence(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q, g, labels = files / "q.npz", files / "g.npz", files / "all.txt"
    refused(capsys, "--reported must be from 0 to 1, got 82: write 0.82", "audit", q, g, "--reported", "82")
    refused(capsys, "--labels is for one file", "audit", q, g, "--labels", labels)
    refused(capsys, "pass --labels", "audit", files / "all.npy", "--query-labels", labels)
    refused(capsys, "has no labels", "audit", files / "all.npy")
    refused(capsys, "in one file", "audit", q, files)
    np.save(files / "floats.npy", np.random.default_rng(0).normal(size=(340, 6)))
    refused(capsys, "holds embeddings", "audit", files / "floats.npy", "--labels", labels)
    refused(capsys, "must end in .svg", "audit", q, g, "--picture", files / "a.png")
