"""The loops in numpy for small inputs give the same bits as the compiled ones, and small inputs load no numba.

What a vacuous test would let pass: fused sums that never meet the case in which rounding twice goes wrong (whole
numbers and far-apart sizes make it frequent here), cutoffs that fall into no group, counts with no empty group, and a
process in which numba was loaded by something else.
"""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookalike.core import embeddings
from lookalike.core.embeddings import SIMILARITIES, Embeddings
from lookalike.core.kernels import kernels, plain, plain_product, product_kernel

Array = NDArray[Any]
SEEDS = st.integers(0, 2**32 - 1)


def same(name: str, *arguments: Any, out: Array, loops: tuple[Any, Any] = (plain, kernels())) -> None:
    """Whether both forms of a loop fill `out`, the last argument, with the same bits."""
    filled = []
    for module in loops:
        target = out.copy()
        getattr(module, name)(*arguments, *(target if name == "precision_sums" else [target]))
        filled.append(target)
    np.testing.assert_array_equal(*filled, err_msg=name)
    assert filled[0].dtype == filled[1].dtype


# Counting


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, n_bits=st.sampled_from([1, 7, 8, 9, 63, 64, 65, 200, 255, 256, 300]), n_items=st.integers(0, 40))
def test_scans(seed: int, n_bits: int, n_items: int) -> None:
    rng = np.random.default_rng(seed)
    words = -(-n_bits // 64)
    bits = rng.integers(0, 2, (n_items + 5, words * 64)) * (np.arange(words * 64) < n_bits)
    codes = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    queries, gallery = codes[:5].copy(), np.ascontiguousarray(codes[5:].T)
    cut = np.sort(rng.integers(0, n_items + 1, 2))
    runs = np.array([[0, 5, 0, n_items], [1, 1, 0, n_items], [2, 4, *cut]])
    for buffered in (False, True):
        same("scan", queries, gallery, runs, buffered, out=np.zeros((5, n_bits + 1), np.int64))
    grades = rng.integers(0, 3, (5, n_items - cut[0])).astype(np.int16)
    same("scan_graded", queries, gallery, int(cut[0]), grades, out=np.zeros((3, 5, n_bits + 1), np.int64))
    excluded = rng.integers(0, max(n_items, 1), 4 if n_items else 0)
    starts = np.sort(np.concatenate([[0, len(excluded)], rng.integers(0, len(excluded) + 1, 4)]))
    counts = rng.integers(4, 9, n_items)
    if n_items:
        same("largest", queries, gallery, counts, starts, excluded, out=np.zeros((5, min(4, n_bits) + 1), np.int64))
    for room in (0, 2, n_items):
        found = []
        for module in (plain, kernels()):
            places = np.full((2, room), -1)
            found.append((module.near(queries[0], gallery, n_bits // 2, *places), places))
        assert found[0][0] == found[1][0]
        np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("n_bits", [64, 70, 128, 300])
def test_scans_of_runs_of_any_length(n_bits: int, buffered: bool) -> None:
    """Of longer codes, runs of few and of many items are counted by different loops; both kinds stand in one call."""
    rng, n_items = np.random.default_rng(n_bits), (n_bits + 1) ** 2 + 900
    n_words = -(-n_bits // 64)
    queries, gallery = (rng.integers(0, 1 << 63, size, np.uint64) for size in ((5, n_words), (n_words, n_items)))
    last = np.uint64((1 << (n_bits - 64 * (n_words - 1))) - 1) if n_bits % 64 else np.uint64(2**64 - 1)
    queries[:, -1] &= last
    gallery[-1] &= last
    runs = np.array([[0, 2, 0, n_items], [2, 3, 7, 40], [3, 5, 11, n_items - 1], [4, 5, 3, 3]])
    same("scan", queries, gallery, runs, buffered, out=np.zeros((5, n_bits + 1), np.int64))


@pytest.mark.parametrize(("n_bits", "limit"), [(8, 2), (64, 24), (70, 26), (130, 0)])
def test_lists_of_near_pairs(n_bits: int, limit: int) -> None:
    """Both list all pairs in order, however often the list is full; a block of codes and a part of one are compared."""
    rng, n = np.random.default_rng(n_bits), 4300
    bits = np.zeros((n, -(-n_bits // 64) * 64), np.uint8)
    bits[:, :n_bits] = rng.integers(0, 2, (n, n_bits))
    bits[4200:] = bits[:100]
    codes = np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little").view(np.uint64).T)
    keys = rng.integers(0, 3, (2, n))
    rows = [5, 60]
    expected = [
        (i, j)
        for i in range(*rows)
        for j in range(i + 1, n)
        if (bits[i] != bits[j]).sum() <= limit and (keys[:, i] != keys[:, j]).any()
    ]
    assert expected
    for module in (plain, kernels()):
        position, room, listed = np.array([rows[0], rows[0] + 1]), 7, []
        while position[0] < rows[1]:
            first, second = np.empty((2, room), np.int64)
            n_pairs = module.later_near(codes, keys, limit, rows[1], position, first, second)
            listed += zip(first[:n_pairs].tolist(), second[:n_pairs].tolist(), strict=True)
        assert listed == expected


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, n_bits=st.integers(1, 9))
def test_tables(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    words, labels = rng.integers(0, 2**n_bits, 60).astype(np.uint64), rng.integers(0, 5, 60).astype(np.int32)
    same("tabulate", words, labels, np.array([1, -1, 0, 2, -1], np.int32), out=np.zeros((3, 2**n_bits), np.uint32))
    for dtype in (np.uint32, np.int64):
        table = np.zeros((n_bits + 1, 2**n_bits), dtype)
        table[0] = rng.integers(0, 4, 2**n_bits)
        same("spread", out=table)
        same("spread_largest", out=table[: rng.integers(1, n_bits + 2)])


# Metrics


@settings(deadline=None, max_examples=120)
@given(seed=SEEDS, n_groups=st.integers(0, 12), size=st.sampled_from([1, 2, 5, 40, 3000]))
def test_sums_of_metrics(seed: int, n_groups: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    retrieved = rng.integers(0, size + 1, (4, n_groups)).astype(float)
    relevant = np.minimum(retrieved, rng.integers(0, size + 1, (4, n_groups)))
    deepest = int(retrieved.sum(1).max(initial=1))
    for k in (1.0, float(rng.integers(1, deepest + 2)), rng.integers(0, deepest + 2, 4).astype(float), np.inf):
        same("precision_sums", relevant, retrieved, np.full(4, k), out=np.full((12, 4), -7.0))
    same("threshold_sums", relevant, retrieved, out=np.full((5, 4), -7.0))
    by_grade = rng.integers(0, size + 1, (rng.integers(1, 5), 4, n_groups))
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, rng.integers(2, 3 * size + 3))))])
    gains = 2.0 ** np.arange(len(by_grade)) - 1
    same("gain_sums", by_grade, gains, discounts, out=np.zeros((3, 4)))


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS, size=st.sampled_from([2, 5, 40, 3000]))
def test_sums_over_one_group(seed: int, size: int) -> None:
    """One source, run by Python and compiled."""
    rng = np.random.default_rng(seed)
    n = rng.integers(2, size + 1, 5)
    relevant, places, before = rng.integers(1, n + 1), rng.integers(1, n), rng.integers(0, 2 * size, 5)
    hits = rng.integers(0, before + 1)
    group = [array.astype(float) for array in (before, hits, n, relevant, places)]
    ahead = list(hits * rng.random((3, 5)))
    same("average_precision_at_cut", *ahead, *group, out=np.zeros((3, 5)))
    for k in (1.0, float(before.max()), np.inf):
        same("first_relevant", group[0], group[2], group[3], k, out=np.zeros((2, 5)))


# Products


def numbers(rng: np.random.Generator, shape: tuple[int, int], dtype: type, kind: str) -> Array:
    if kind == "whole":
        return rng.integers(-40, 40, shape).astype(dtype)
    rows = rng.standard_normal(shape)
    if kind == "halfway":  # a small product, then one that ends halfway between two floats
        digits = np.finfo(dtype).nmant + 1
        odd = rng.integers(int(2 ** (digits / 2)) // 2 + 1, int(2 ** ((digits + 1) / 2)) // 2, shape) * 2 + 1
        return np.where(np.arange(shape[1]) == 0, np.sign(rows) * 2.0**-30, odd).astype(dtype)
    if kind == "far":  # sizes far apart: sums that end halfway, and in float32 beyond its smallest numbers
        rows = np.round(rows * 8) * 2.0 ** rng.integers(-75 if dtype is np.float32 else -140, 40, shape)
    return rows.astype(dtype)


@settings(deadline=None, max_examples=150)
@given(
    seed=SEEDS,
    dtype=st.sampled_from([np.float32, np.float64]),
    kind=st.sampled_from(["usual", "whole", "far", "halfway"]),
    n_columns=st.integers(1, 9),
)
def test_products(seed: int, dtype: type, kind: str, n_columns: int) -> None:
    rng = np.random.default_rng(seed)
    both = plain_product, product_kernel()
    n_rows, width = int(rng.integers(1, 27)), both[1].panel_width(np.dtype(dtype))
    rows, items = (numbers(rng, (n, n_columns), dtype, kind) for n in (n_rows, 37))
    scales = (2.0 ** rng.integers(-3, 3, n_rows)).astype(dtype)
    assert plain_product.fits(rows)
    same("squares", rows, scales, out=np.full(n_rows, -7, dtype), loops=both)
    panels = np.full((-(-n_rows // both[1].ROWS), n_columns, both[1].ROWS), -7, dtype)
    same("pack", rows, scales, out=panels, loops=both)
    gallery = np.zeros((-(-37 // width), n_columns, width), dtype)
    plain_product.pack(rows, scales, panels)
    plain_product.pack(items, np.ones(37, dtype), gallery)
    out = np.full((len(panels) * both[1].ROWS, len(gallery) * width), -7, dtype)
    same("product", panels, gallery, out=out, loops=both)
    plain_product.product(panels, gallery, out)
    same("score_rows", rows, scales, items[3].copy(), out=np.full(n_rows, -7, dtype), loops=both)
    scored = np.empty(n_rows, dtype)
    plain_product.score_rows(rows, scales, items[3], scored)
    np.testing.assert_array_equal(scored, out[:n_rows, 3])
    if dtype is np.float64:
        same("distances", panels, gallery, out=out, loops=both)


def test_both_forms_have_the_same_constants() -> None:
    compiled = product_kernel()
    assert compiled.LARGEST == plain_product.LARGEST
    np.testing.assert_array_equal(compiled.PRIMES, plain_product.PRIMES)


def test_embeddings_go_from_numpy_to_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form may lay rows out in another width; scores are the same bits before and after."""
    rng = np.random.default_rng(0)
    queries, gallery = rng.standard_normal((25, 9)), rng.standard_normal((70, 9))
    for dtype in (np.float32, np.float64):
        for similarity in SIMILARITIES:
            with monkeypatch.context() as patch:
                patch.setattr(embeddings, "product_kernel", lambda *_: plain_product)
                scores = Embeddings(queries.astype(dtype), gallery.astype(dtype), similarity)
                before = scores.rows(slice(0, 25)).copy()
            np.testing.assert_array_equal(scores.rows(slice(0, 25)), before)
            np.testing.assert_array_equal(scores.rows(slice(3, 4)), before[3:4])


def rounded(exact: Fraction, dtype: type) -> Any:
    """The float nearest to a fraction, of two equally near ones the even."""
    near = dtype(float(exact))
    around = [near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(-np.inf))]
    errors = [abs(Fraction(float(x)) - exact) for x in around]
    best = [x for x, error in zip(around, errors, strict=True) if error == min(errors)]
    return best[0] if len(best) == 1 else next(x for x in best if x.view(f"i{x.itemsize}") % 2 == 0)


def assert_rounded_once(a: float, b: float, total: float, dtype: type) -> None:
    one, other, added = (np.array([x], dtype) for x in (a, b, total))
    exact = Fraction(float(one[0])) * Fraction(float(other[0])) + Fraction(float(added[0]))
    assert plain_product._fused(one, other, added)[0] == rounded(exact, dtype), (a, b, total)


@settings(deadline=None, max_examples=300)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), sign=st.sampled_from([-1, 1]))
def test_a_fused_sum_is_rounded_once(data: st.DataObject, dtype: type, sign: int) -> None:
    """Odd numbers whose product has one digit more than a float ends halfway, and what is added, far below, decides."""
    digits = np.finfo(dtype).nmant + 1
    low, high = int(2 ** (digits / 2)) // 2 + 1, int(2 ** ((digits + 1) / 2)) // 2
    a, b = (2 * data.draw(st.integers(low, high - 1)) + 1 for _ in range(2))
    for total in (0, sign * 2.0**-60, sign * 2.0**-110, sign * 3.0, sign * data.draw(st.floats(-(2.0**30), 2.0**30))):
        assert_rounded_once(a, b, total, dtype)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("total", [2.0**-130, 3 * 2.0**-149, -(2.0**-140)])
def test_a_fused_sum_is_rounded_once_among_the_smallest_float32(total: float, sign: int) -> None:
    for a, b in ((1, 1), (1 + 2.0**-12, 1 - 2.0**-12 + 2.0**-24), (1 + 2.0**-23, 1 - 2.0**-23)):  # 1, above, below
        assert_rounded_once(2.0**-75 * a, sign * 2.0**-75 * b, total, np.float32)


def test_extreme_numbers_of_float64_are_left_to_the_compiled_loops() -> None:
    assert plain_product.fits(np.array([[0.0, 1.0, -(2.0**299)]]))
    assert not plain_product.fits(np.array([[1.0, 2.0**301]]))
    assert not plain_product.fits(np.array([[1.0, 2.0**-301]]))
    assert not plain_product.fits(np.array([[1.0, np.nan]]))
    assert plain_product.fits(np.array([[1e-45, 3e38]], np.float32))


@settings(deadline=None, max_examples=100)
@given(
    seed=SEEDS, dtype=st.sampled_from([np.float32, np.float64]), kind=st.sampled_from(["usual", "whole", "multiple"])
)
def test_directions(seed: int, dtype: type, kind: str) -> None:
    rng = np.random.default_rng(seed)
    both = plain_product, product_kernel()
    rows = numbers(rng, (9, int(rng.integers(1, 6))), dtype, "usual" if kind == "usual" else "whole")
    if kind == "multiple":
        rows *= rng.integers(1, 500, (9, 1)) * 2.0 ** rng.integers(-9, 9, (9, 1))
    rows[rng.random(rows.shape) < 0.3] = 0
    rows[0] = 0
    whole = np.int32 if dtype is np.float32 else np.int64
    bits, digits = rows.view(whole), np.finfo(dtype).nmant
    filled = []
    for module in both:
        largest, divisors = np.empty(9, whole), np.empty(9, np.int64)
        module.divisors(bits, digits, largest, divisors)
        factors, rest = np.empty((2, 9), np.int64)
        module.square_factors(bits, digits, min(1 << (digits + 1), plain_product.LARGEST), factors, rest)
        divided = rows.copy()
        module.divide(divided, divisors.astype(dtype), np.full(9, 0.5, dtype))
        filled.append((largest, divisors, factors, rest, divided))
    for one, other in zip(*filled, strict=True):
        np.testing.assert_array_equal(one, other)


# Whole evaluations


EVALUATE = """
import json, sys, numpy as np, lookalike as la
from lookalike.core import kernels
kernels.SMALL = float(sys.argv[1])
rng, labels = np.random.default_rng(5), np.arange(120) % 7
metrics = ["AP", "AP@10", "AP(norm='min')@50", "nDCG", "nDCG(gain='linear')@9", "Hit@5", "RR", "AUC", "PRAUC", "Bpref"]
results = []
for n_bits in (6, 48, 300):
    codes = la.Codes.pack(rng.integers(0, 2, (120, n_bits)))
    for relevance in (la.same_label(labels[:9], labels), la.grades(rng.integers(0, 3, (9, 120)))):
        results.append(la.evaluate(codes[:9], codes, relevance, [*metrics, "LGAP@2"]))
    relevance = la.same_label(labels[:9], labels)
    results.append(la.evaluate(codes[:9], codes, relevance, ["AP", "LGAP@2"], exclude=(labels[:9], labels // 2)))
for dtype in (np.float32, np.float64):
    for similarity in ("cosine", "dot", "euclidean"):
        rows = rng.standard_normal((120, 13)).astype(dtype)
        rows[20:40] = np.round(rows[20:40] * 9) + 10
        rows[40:60] = rows[20:40] * 3
        relevance = la.same_label(labels[:9], labels)
        results.append(la.evaluate(rows[:9], rows, relevance, metrics, similarity=similarity))
print(json.dumps([result.to_dict() for result in results]))
print("numba" in sys.modules)
"""


def run(program: str, *arguments: str) -> list[str]:
    """The lines that a program prints."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def test_a_small_evaluation_loads_no_numba_and_has_the_same_bits() -> None:
    outputs = [run(EVALUATE, small) for small in ("inf", "0")]
    assert [output[1] for output in outputs] == ["False", "True"]
    assert outputs[0][0] == outputs[1][0]
    assert len(json.loads(outputs[0][0])) == 15


def test_a_process_that_has_done_many_small_things_loads_numba() -> None:
    program = """
import sys, numpy as np, lookalike as la
from lookalike.core import kernels
codes, labels = la.Codes.pack(np.eye(30)), np.arange(30) % 3
kernels.SMALL = 400_000
for turn in range(40):
    la.evaluate(codes[:9], codes, la.same_label(labels[:9], labels), ["AP"])
    if not turn:
        print("numba" in sys.modules)
print("numba" in sys.modules)
"""
    assert run(program) == ["False", "True"]
