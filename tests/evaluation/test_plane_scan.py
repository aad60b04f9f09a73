"""The scan of bit planes counts exactly what the plain scan counts, at every length, layout of labels and tail.

What a vacuous test would let pass: planes that are never taken (a spy counts the calls); codes of so few weights that
no two runs meet; queries of which none has more ones than zeros, or none so few that the sum is 0; a last block that is
only right when full; labels that begin and end where blocks do; one tile, one group of blocks, one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.counting import KINDS, Array
from lookalike.core.kernels import kernels, plane_kernels
from lookalike.evaluation import count_codes, plane_scan
from lookalike.evaluation.count_codes import CodeCounter
from lookalike.evaluation.plane_scan import BitPlanes
from lookalike.shards import ShardWriter


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Planes wherever they can be taken, however little there is to count; how many levels each call counts by them."""
    levels: list[int] = []
    count = BitPlanes.count

    def spy(self: BitPlanes, words: Array, keys: Array, out: Array) -> None:
        levels.append(len(keys))
        count(self, words, keys, out)

    monkeypatch.setattr(BitPlanes, "count", spy)
    monkeypatch.setattr(CodeCounter, "planes_pay", lambda counter: bool(counter.levels or counter.sparse))
    monkeypatch.setattr(count_codes, "ITEMS_OF_A_RUN", 0)
    yield levels
    assert levels, "no planes were counted"


def codes(rng: np.random.Generator, n: int, n_bits: int) -> la.Codes:
    """Codes of every weight: all zeros, all ones, and between them."""
    return la.Codes.pack(rng.random((n, n_bits)) < rng.choice([0, 1, 0.5, rng.random()], (n, 1)))


def assert_same(queries: la.Codes, gallery: la.Codes, relevance: Any, threads: int = 1, **options: Any) -> None:
    expected = la.count(queries, gallery, relevance, method="plain", **options)
    tally = la.count(queries, gallery, relevance, method="scan", threads=threads, **options)
    np.testing.assert_array_equal(tally.counts, expected.counts)
    np.testing.assert_array_equal(tally.unjudged, expected.unjudged)
    assert tally.method == "scan"
    assert tally.counts.sum() + tally.unjudged.sum() > 0


@pytest.mark.parametrize("first", range(1, 301, 20))
def test_every_length(first: int) -> None:
    for n_bits in range(first, first + 20):
        rng = np.random.default_rng(n_bits)
        queries, gallery = codes(rng, 9, n_bits), codes(rng, 1100, n_bits)
        assert_same(queries, gallery, la.same_label(rng.integers(0, 3, 9), rng.integers(0, 3, 1100)))


@pytest.mark.parametrize("n_bits", [511, 512, 513, 1022, 1023])
def test_long_codes(n_bits: int) -> None:
    """Nine digits are needed of the sum of up to 511 planes."""
    rng = np.random.default_rng(n_bits)
    queries, gallery = codes(rng, 5, n_bits), codes(rng, 700, n_bits)
    assert_same(queries, gallery, la.same_label([0] * 5, rng.integers(0, 2, 700)))


@pytest.mark.parametrize("n_items", [1, 63, 64, 65, 511, 512, 513, 1024, 8191, 8192, 8193, 16385])
@pytest.mark.parametrize("n_bits", [12, 64])
def test_every_tail_of_one_weight(n_items: int, n_bits: int) -> None:
    """All items have one weight, so that only the last block is ragged; groups are of up to 16 blocks, 8,192 items."""
    rng = np.random.default_rng(n_items)
    bits = np.zeros((n_items, n_bits), bool)
    bits[:, : n_bits // 3] = True
    gallery = la.Codes.pack(rng.permuted(bits, axis=1))
    labels = np.sort(rng.integers(0, 3, n_items))
    assert_same(codes(rng, 7, n_bits), gallery, la.same_label(rng.integers(0, 3, 7), labels))


@settings(deadline=None, max_examples=60)
@given(
    n_bits=st.integers(1, 130),
    n_items=st.integers(1, 1600),
    n_labels=st.integers(1, 40),
    threads=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_layouts_of_labels(n_bits: int, n_items: int, n_labels: int, threads: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, n_items) ** rng.integers(1, 3)  # some so that numbers between them are missing
    wanted = rng.integers(-1, n_labels + 1, 6)  # some labels that no item has
    assert_same(codes(rng, 6, n_bits), codes(rng, n_items, n_bits), la.same_label(wanted, labels), threads)


@pytest.mark.parametrize("items_of_a_run", [0, 1, 4, 1 << 40])
@pytest.mark.parametrize("n_bits", [16, 65])
def test_hierarchies(monkeypatch: pytest.MonkeyPatch, calls: list[int], items_of_a_run: int, n_bits: int) -> None:
    """Both levels by planes, or the coarse one alone, or none: labels of few items are copied together and scanned."""
    monkeypatch.setattr(count_codes, "ITEMS_OF_A_RUN", items_of_a_run)
    monkeypatch.setattr(count_codes, "GATHERED", 700)
    rng = np.random.default_rng(n_bits)
    fine, wanted = rng.integers(0, 60, 3000), rng.integers(0, 70, 40)  # ten fine labels, one coarse, that no item has
    relevance = la.hierarchy((wanted, wanted // 10), (fine, fine // 10))
    assert_same(codes(rng, 40, n_bits), codes(rng, 3000, n_bits), relevance, threads=2)
    levels = [items_of_a_run * n * (n_bits + 1) <= 3000 for n in (7, 70)]
    assert set(calls) == {sum(levels)}


def test_a_hierarchy_of_three_levels(calls: list[int]) -> None:
    from lookalike.evaluation.relevance import Groups, SameLabel

    rng = np.random.default_rng(0)
    fine, wanted = rng.permutation(24)[rng.integers(0, 24, 2000)], np.arange(24)
    parent = rng.permutation(24) // 3
    middle = parent[fine], parent[wanted]
    coarse = tuple((labels * 5 % 8) // 2 for labels in middle)  # no rising function of the middle label
    levels = [Groups(b, a, "labels") for a, b in (coarse, middle, (fine, wanted))]
    relevance = SameLabel(levels)
    assert relevance.nested
    assert_same(codes(rng, 24, 33), codes(rng, 2000, 33), relevance)
    assert set(calls) == {3}


@pytest.mark.parametrize("kind", ["labels", "string labels", "nested hierarchy", "judged"])
@pytest.mark.parametrize("n_bits", [7, 64, 100])
def test_kinds_with_exclusion_and_lgap(kind: str, n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    queries, gallery = codes(rng, 12, n_bits), codes(rng, 900, n_bits)
    relevance, _ = KINDS[kind](rng, 12, 900)
    ids = {"query_ids": [f"q{i}" for i in range(12)], "gallery_ids": [f"g{i}" for i in range(900)]}
    exclude = rng.integers(0, 5, 12), rng.integers(0, 9, 900)
    assert_same(queries, gallery, relevance, exclude=exclude, radius=2, **ids)
    tallies = [
        la.count(queries, gallery, relevance, method=method, exclude=exclude, radius=3, **ids)
        for method in ("scan", "plain")
    ]
    np.testing.assert_array_equal(tallies[0].largest, tallies[1].largest)


def test_shards(tmp_path: Path, calls: list[int]) -> None:
    rng = np.random.default_rng(0)
    queries, gallery = codes(rng, 20, 48), codes(rng, 2000, 48)
    wanted, labels = rng.integers(0, 4, 20), rng.integers(0, 4, 2000)
    with ShardWriter(tmp_path / "gallery", n_bits=48) as writer:
        for number, part in enumerate((slice(0, 700), slice(700, 701), slice(701, 2000))):
            writer.put(number, {"codes": gallery[part].to_bytes(), "labels": labels[part]})
    shards = la.Shards.open(tmp_path / "gallery")
    tally = la.count(queries, shards, la.same_label(wanted, shards["labels"]), threads=1)
    whole = la.count(queries, gallery, la.same_label(wanted, labels), method="plain")
    np.testing.assert_array_equal(tally.counts, whole.counts)
    assert calls == [1] * len(shards.shards)


class TestChoice:
    @pytest.fixture(autouse=True)
    def calls(self) -> None:
        """The choice as it is, with nothing counted."""

    @pytest.mark.parametrize(
        ("n_queries", "n_items", "n_bits", "pays"),
        [
            (1000, 1_000_000, 64, True),
            (10_000, 59_000, 64, True),
            (1000, 59_000, 64, False),  # compiling is not earned back soon
            (31, 1_000_000, 64, False),  # few queries: sorting and slicing is not earned back
            (100_000, 16_000, 64, False),  # few items: blocks are half empty
            (10_000, 59_000, 256, False),  # many weights, and as many transforms
            (1000, 1_000_000, 256, True),
            (64, 10_000_000, 1024, False),
        ],
    )
    def test_planes_are_taken_where_they_pay(self, n_queries: int, n_items: int, n_bits: int, pays: bool) -> None:
        counter = self.counter(n_queries, n_items, n_bits)
        if not kernels().HAS_VECTOR_POPCOUNT:
            pays = False
        assert counter.planes_pay() == pays

    def test_only_where_the_processor_counts_bits_of_vectors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for has in (False, True):
            monkeypatch.setattr(kernels(), "HAS_VECTOR_POPCOUNT", has)
            assert self.counter(1000, 1_000_000, 64).planes_pay() is has

    def counter(self, n_queries: int, n_items: int, n_bits: int) -> CodeCounter:
        class Sized:
            def __init__(self, n: int) -> None:
                self.n, self.n_bits = n, n_bits

            def __len__(self) -> int:
                return self.n

        class Counter(CodeCounter):
            queries, gallery, sparse = Sized(n_queries), Sized(n_items), True  # type: ignore[assignment]

        return Counter(None, None, [], "scan")  # type: ignore[arg-type]


def test_planes_are_the_bits_of_the_sorted_codes(calls: list[int]) -> None:
    """Unpacked again, the blocks hold the codes by weight, then by label, then in their order, and zeros behind."""
    rng = np.random.default_rng(0)
    gallery, labels = codes(rng, 3000, 70), rng.integers(0, 4, 3000)
    levels = [plane_scan.Groups([0], labels)]
    for threads in (1, 3):
        planes = plane_scan.slice_codes(gallery, plane_scan.label_keys(levels), threads)
        kernel = plane_kernels()
        blocks = planes.planes.reshape(-1, 71, kernel.LANES).view(np.uint8)
        bits = np.unpackbits(blocks, axis=2, bitorder="little")
        assert not bits[:, 70].any()
        weights = gallery.unpack().sum(1)
        order = np.lexsort([labels, weights])
        rows = np.concatenate(
            [np.pad(order[weights[order] == w], (0, -int((weights == w).sum()) % 512), constant_values=-1)
             for w in np.unique(weights)]
        )  # fmt: skip
        expected = np.where(rows[:, None] < 0, 0, gallery.unpack()[rows])
        np.testing.assert_array_equal(bits[:, :70].transpose(0, 2, 1).reshape(-1, 70), expected)
    calls.append(0)
