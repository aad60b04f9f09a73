"""Partials: what each shard gave is kept, and a job that died goes on."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from helpers.sharded import (
    AREAS,
    CUT,
    KINDS,
    MICRO,
    NEGATIVES,
    OF_CODES,
    WHOLE,
    WITHIN,
    Names,
    World,
    assert_same,
    codes_world,
    dense_kind,
    embeddings_world,
    labels_kind,
    some_are_defined,
    written,
)
from helpers.strategies import clustered_bits
from lookalike.evaluation.count_shards import codes as shard_codes
from lookalike.evaluation.count_shards import scores as shard_scores
from lookalike.shards import map_reduce
from lookalike.shards.gallery import ShardPart, Shards

WORKS = {
    "Scanned": shard_codes.Scanned,
    "OnCodes": shard_codes.OnCodes,
    "First": shard_scores.First,
    "Marks": shard_scores.Marks,
    "MarkRanks": shard_scores.MarkRanks,
    "Counted": shard_scores.Counted,
}


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is counted, and of which shard."""
    done: list[tuple[str, int]] = []

    def spied(name: str) -> Callable[..., Any]:
        real = WORKS[name].do

        def do(self: Any, part: ShardPart, block: slice) -> Any:
            done.append((name, part.number))
            return real(self, part, block)

        return do

    for name, work in WORKS.items():
        monkeypatch.setattr(work, "do", spied(name))
    return done


def no_reading(self: Shards, *arguments: Any) -> Any:
    raise AssertionError("a shard was read")


SORTS: dict[str, tuple[Callable[[], World], list[str], dict[str, Any], set[str]]] = {
    "scan": (
        lambda: codes_world(np.random.default_rng(1), 65, "judged", 20, 60),
        OF_CODES,
        {"unjudged": "relevant"},
        {"Scanned"},
    ),
    "scan by column": (
        lambda: codes_world(np.random.default_rng(1), 65, "tags", 20, 60, "by column"),
        OF_CODES,
        {},
        {"Scanned"},
    ),
    "table": (lambda: codes_world(np.random.default_rng(1), 7, "labels", 60, 300), OF_CODES, {}, {"OnCodes"}),
    "table of judged": (
        lambda: codes_world(np.random.default_rng(1), 7, "judged", 60, 300),
        OF_CODES,
        {"unjudged": "irrelevant"},
        {"OnCodes"},
    ),
    "first": (
        lambda: embeddings_world(np.random.default_rng(1), "judged"),
        CUT,
        {"unjudged": "irrelevant"},
        {"First"},
    ),
    "marks": (
        lambda: embeddings_world(np.random.default_rng(1), "tags", similarity="euclidean"),
        [*WHOLE, *WITHIN],
        {},
        {"Marks", "MarkRanks"},
    ),
    "marks of judged": (
        lambda: embeddings_world(np.random.default_rng(1), "judged", dtype=np.float64),
        [*MICRO, *NEGATIVES, *AREAS],
        {},
        {"Marks", "MarkRanks"},
    ),
}


@pytest.mark.parametrize("sort", SORTS)
def test_what_is_kept_is_not_counted_again(
    tmp_path: Path, sort: str, worked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, metrics, options, ways = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.memory(metrics, **options)
    assert some_are_defined(expected)
    assert_same(world.sharded(shards, metrics, threads=2, partials=str(kept), **options), expected)
    assert {name for name, _ in worked} == ways
    assert len(list(kept.iterdir())) == len(worked) >= len(shards.shards)
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    worked.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Shards, "read", no_reading)
        assert_same(world.sharded(shards, metrics, threads=2, partials=kept, **options), expected)
    assert worked == []
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


@pytest.mark.parametrize("sort", SORTS)
def test_a_job_that_died_goes_on(tmp_path: Path, sort: str, worked: list[tuple[str, int]]) -> None:
    """Of the shards that were counted nothing is read; those that were not, and only they, are counted."""
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.sharded(shards, metrics, threads=1, partials=kept, **options)
    gone = sorted(kept.iterdir())[::3]
    for path in gone:
        path.unlink()
    worked.clear()
    assert_same(world.sharded(shards, metrics, threads=1, partials=kept, **options), expected)
    assert len(worked) == len(gone)


def damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    """A file as it might be found after an accident."""
    yield "empty", b""
    yield "text", b"not an archive"
    for share in (0.01, 0.3, 0.6, 0.95, 0.999):
        yield f"cut at {share}", content[: int(len(content) * share)]
    yield "zeros at the end", content[: len(content) // 2] + bytes(len(content) - len(content) // 2)
    yield "zeros", bytes(len(content))
    yield "another byte", content.replace(b"NUMPY", b"NUMPX", 2)


@pytest.mark.parametrize("sort", SORTS)
def test_a_damaged_partial_is_counted_again(
    tmp_path: Path, sort: str, worked: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.sharded(shards, metrics, threads=1, partials=kept, **options)
    path = min(kept.iterdir())
    whole = path.read_bytes()
    for what, content in damages(whole):
        path.write_bytes(content)
        worked.clear()
        caplog.clear()
        found = world.sharded(shards, metrics, threads=1, partials=kept, **options)
        assert_same(found, expected)
        assert len(worked) == 1, what
        assert f"{path} is damaged, its shard is counted again" in caplog.text, what
        assert path.read_bytes() == whole, what


@pytest.mark.parametrize("sort", ["scan", "table of judged", "first", "marks"])
def test_a_partial_of_something_else_is_not_taken(tmp_path: Path, sort: str, worked: list[tuple[str, int]]) -> None:
    """That of another shard, or of another gallery, under this one's name."""
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.sharded(shards, metrics, threads=1, partials=kept, **options)
    paths = sorted(kept.iterdir(), key=lambda path: path.name.split("-")[1:])
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)
    worked.clear()
    assert_same(world.sharded(shards, metrics, threads=1, partials=kept, **options), expected)
    assert len(worked) == len(paths)


@pytest.mark.parametrize("sort", ["scan", "table of judged", "first", "marks"])
def test_a_wrong_byte_of_a_partial_is_noticed(tmp_path: Path, sort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is: what is loaded is what was kept, or nothing. The list of arrays is at the end of the file."""
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    tasks, real = [], map_reduce._here

    def here(task: Any, *arguments: Any) -> Any:
        tasks.append(task)
        return real(task, *arguments)

    monkeypatch.setattr(map_reduce, "_here", here)
    world.sharded(shards, metrics[:3], threads=1, partials=kept, **options)
    path = kept / tasks[0]._name(0, 0)
    whole = path.read_bytes()
    expected, facts = tasks[0].kept(0, 0).value.to_arrays()
    for place in [*np.linspace(0, len(whole) - 700, 60).astype(int), *range(len(whole) - 700, len(whole), 3)]:
        for bits in (0xFF, 0x01):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bits]) + whole[place + 1 :])
            found = tasks[0].kept(0, 0)
            if found is not None:
                arrays, about = found.value.to_arrays()
                assert (arrays.keys(), about) == (expected.keys(), facts), f"byte {place}"
                assert all(np.array_equal(arrays[name], expected[name]) for name in arrays)


def test_one_folder_of_partials_for_everything(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    """Other queries, relevance, items left out, radii, cutoffs and similarities: nothing is taken for another."""
    rng = np.random.default_rng(2)
    judged = codes_world(rng, 65, "judged", 20, 60)
    labels = replace(codes_world(rng, 65, "labels", 20, 60, "by column"), gallery=judged.gallery)
    other = replace(labels, queries=judged.queries, names=judged.names)
    groups = (rng.integers(0, 8, 20), rng.integers(0, 8, 60))
    table = codes_world(rng, 7, "labels", 60, 300)
    vectors = embeddings_world(rng, "judged", similarity="euclidean")
    tasks: list[tuple[World, list[str], dict[str, Any]]] = [
        (judged, ["AP", "LGAP@1"], {"unjudged": "irrelevant"}),
        (judged, ["LGAP@3"], {"unjudged": "relevant"}),
        (judged, ["AP"], {"unjudged": "condensed"}),
        (judged, NEGATIVES, {}),
        (replace(judged, queries=judged.queries[::-1]), ["AP"], {"unjudged": "irrelevant"}),
        (
            replace(judged, names=Names(judged.names.queries[::-1], judged.names.items)),
            ["AP"],
            {"unjudged": "irrelevant"},
        ),
        (replace(judged, excluded="self"), ["AP"], {"unjudged": "irrelevant"}),
        (labels, ["AP"], {}),
        (replace(labels, groups=(groups[0], labels.groups[1])), ["AP"], {}),
        (replace(labels, excluded="by array", order=None), ["AP"], {}),
        (replace(labels, excluded="by array", groups=groups, order=None), ["AP"], {}),
        (replace(labels, excluded="by array", groups=(labels.groups[0], groups[1]), order=None), ["AP"], {}),
        (replace(labels, excluded="nobody"), ["AP"], {}),
        (other, ["AP"], {}),
        (replace(other, order=None), ["AP"], {}),
        (replace(table, relevant=labels_kind(rng, 60, 300, table.names)), ["AP", "LGAP@2"], {}),
        (table, ["AP", "LGAP@1"], {}),
        (replace(table, queries=table.queries[::-1]), ["AP"], {}),
        (vectors, ["AP@3"], {"unjudged": "irrelevant"}),
        (vectors, ["AP@9"], {"unjudged": "irrelevant"}),
        (vectors, ["P(radius=1)"], {"unjudged": "irrelevant"}),
        (vectors, ["P(radius=2)"], {"unjudged": "irrelevant"}),
        (replace(vectors, similarity="dot"), ["AP@3"], {"unjudged": "irrelevant"}),
        (replace(vectors, similarity="dot"), ["AP"], {"unjudged": "irrelevant"}),
        (replace(vectors, queries=vectors.queries[::-1].copy()), ["AP@3"], {"unjudged": "irrelevant"}),
        (replace(vectors, queries=vectors.queries.astype(float)), ["AP"], {"unjudged": "irrelevant"}),
    ]
    tasks += [
        (replace(labels, relevant=KINDS[kind](rng, 20, 60, labels.names), order=None), ["AP", "nDCG"], {})
        for kind in ("labels in memory", "crossed hierarchy", "crossed hierarchy in memory", "tags", "dense grades")
        for _ in range(2)
    ]
    for turn in range(2):
        for number, (world, metrics, options) in enumerate(tasks):
            shards = world.write(tmp_path / str(number)) if not turn else Shards.open(tmp_path / str(number))
            found = world.sharded(shards, metrics, threads=1, partials=tmp_path / "kept", **options)
            assert_same(found, world.memory(metrics, **options))
        if not turn:
            assert len(list((tmp_path / "kept").iterdir())) == len(worked) > 4 * len(tasks)
            worked.clear()
    assert worked == []  # all lie side by side


def test_other_columns_of_the_same_shards(tmp_path: Path) -> None:
    """Labels, groups and ids of one column are not taken for those of another."""
    rng = np.random.default_rng(8)
    queries, gallery = (la.Codes.pack(clustered_bits(rng, n, 64)) for n in (10, 40))
    columns = {name: rng.permutation(40) // (8 if name < "c" else 1) for name in "abcd"}
    shards = written(tmp_path / "gallery", gallery, [13, 13, 14], columns)
    labels, ids = rng.integers(0, 5, 10), np.arange(10)
    judged = la.judged([(query, item, 1) for query in range(10) for item in range(query, 40, 3)])
    for _ in range(2):
        for one, two, three in itertools.product("ab", "ab", "cd"):
            options: dict[str, Any] = {"metrics": ["AP"], "unjudged": "irrelevant", "query_ids": ids}
            for mine, theirs in (
                (la.same_label(labels, shards[one]), la.same_label(labels, columns[one])),
                (
                    la.hierarchy((labels, ids), (shards[one], shards[two])),
                    la.hierarchy((labels, ids), (columns[one], columns[two])),
                ),
                (judged, judged),
            ):
                found = la.evaluate(
                    queries,
                    shards,
                    mine,
                    exclude=(labels, shards[two]),
                    gallery_ids=shards[three],
                    partials=tmp_path / "kept",
                    threads=1,
                    **options,
                )
                expected = la.evaluate(
                    queries,
                    gallery,
                    theirs,
                    exclude=(labels, columns[two]),
                    gallery_ids=columns[three],
                    **options,
                )
                assert_same(found, expected)


def test_equal_shards_in_two_places_are_two(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    """The same rows twice, with grades by position: one partial is not taken for the other."""
    rng = np.random.default_rng(3)
    bits = clustered_bits(rng, 30, 64)
    world = World(
        la.Codes.pack(bits[:10]),
        la.Codes.pack(np.concatenate([bits[10:], bits[10:]])),
        dense_kind(rng, 10, 40, Names(None, None)),
        Names(None, None),
        sizes=[20, 20],
    )
    shards = world.write(tmp_path / "gallery")
    assert shards.shards[0].sha256 == shards.shards[1].sha256
    for _ in range(2):
        found = world.sharded(shards, ["AP", "nDCG"], threads=1, partials=tmp_path / "kept")
        assert_same(found, world.memory(["AP", "nDCG"]))
        assert worked == [("Scanned", 0), ("Scanned", 1)]  # once


def test_a_shard_behind_a_longer_one_is_counted_again(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    """Judgements by position: the same shard under the same number, but its items are others."""
    rng = np.random.default_rng(3)
    queries, rows = la.Codes.pack(clustered_bits(rng, 10, 64)), clustered_bits(rng, 40, 64)
    relevance = la.judged([(query, item, 1) for query in range(10) for item in range(query, 30, 3)])
    for first in (10, 12):
        gallery = la.Codes.pack(np.concatenate([rows[:first], rows[12:30]]))
        shards = written(tmp_path / str(first), gallery, [first, 18], {})
        worked.clear()
        found = la.evaluate(
            queries, shards, relevance, ["AP"], threads=1, partials=tmp_path / "kept", unjudged="irrelevant"
        )
        assert worked == [("Scanned", 0), ("Scanned", 1)]
        assert_same(found, la.evaluate(queries, gallery, relevance, ["AP"], unjudged="irrelevant"))


def test_an_added_shard_is_counted_alone(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    rng = np.random.default_rng(4)
    for number, whole in enumerate(
        (codes_world(rng, 65, "labels", 9, 60), codes_world(rng, 65, "judged", 9, 60), embeddings_world(rng, "judged"))
    ):
        n = len(whole.gallery)
        folder, kept = tmp_path / str(number), tmp_path / "kept"
        options = {"unjudged": "irrelevant"} if whole.relevant.judged else {}
        columns = {**whole.relevant.columns, "ids": whole.names.items}
        for end in (30, n):
            vectors, sizes = whole.gallery[:end], [10, 10, 10, *([] if end == 30 else [n - 30])]
            shards = written(folder, vectors, sizes, {name: array[:end] for name, array in columns.items()})
            worked.clear()
            found = whole.sharded(shards, ["AP@4"], threads=1, partials=kept, **options)
            assert [shard for _, shard in worked] == ([0, 1, 2] if end == 30 else [3])
        assert_same(found, whole.memory(["AP@4"], **options))


def test_a_row_that_changed_is_counted_again(tmp_path: Path, worked: list[tuple[str, int]]) -> None:
    world = replace(codes_world(np.random.default_rng(5), 65, "labels", 9, 60), sizes=[20, 20, 20], order=None)
    kept = tmp_path / "kept"
    world.sharded(world.write(tmp_path / "gallery"), ["AP"], threads=1, partials=kept)
    words = world.gallery.words.copy()
    words[25, 0] ^= np.uint64(5)
    changed = replace(world, gallery=la.Codes(words, 65))
    worked.clear()
    found = changed.sharded(changed.write(tmp_path / "gallery"), ["AP"], threads=1, partials=kept)
    assert worked == [("Scanned", 1)]
    assert_same(found, changed.memory(["AP"]))


@pytest.mark.parametrize("sort", ["scan", "first", "marks"])
def test_another_number_of_threads_takes_no_partials_of_other_blocks(tmp_path: Path, sort: str) -> None:
    make, metrics, options, _ = SORTS[sort]
    world = make()
    shards, kept = world.write(tmp_path / "gallery"), tmp_path / "kept"
    expected = world.memory(metrics, **options)
    for threads in (1, 3, 2, 1):
        assert_same(world.sharded(shards, metrics, threads=threads, partials=kept, **options), expected)


def test_an_added_shard_that_makes_one_block_of_two(tmp_path: Path) -> None:
    world = codes_world(np.random.default_rng(4), 65, "labels", 20, 60)
    for sizes in ([20, 20], [20, 20, 10, 10]):
        n = sum(sizes)
        shards = written(
            tmp_path / "gallery", world.gallery[:n], sizes, {"labels": world.relevant.columns["labels"][:n]}
        )
        found = la.evaluate(
            world.queries, shards, world.relevant.sharded(shards), ["AP"], threads=2, partials=tmp_path / "kept"
        )
    assert_same(found, la.evaluate(world.queries, world.gallery, world.relevant.memory, ["AP"]))


def test_ids_that_look_alike_are_not_the_same(tmp_path: Path) -> None:
    """Judgements with strings for ids find nothing in a column of numbers; put right, nothing old may be taken."""
    rng = np.random.default_rng(6)
    queries, gallery = (la.Codes.pack(clustered_bits(rng, n, 64)) for n in (4, 20))
    shards = written(tmp_path / "gallery", gallery, [10, 10], {"ids": np.arange(20)})
    rows = [(0, item, 1) for item in range(5)]
    for pairs in ([(query, str(item), grade) for query, item, grade in rows], rows):
        found = la.evaluate(
            queries,
            shards,
            la.judged(pairs),
            ["AP"],
            gallery_ids=shards["ids"],
            unjudged="irrelevant",
            partials=tmp_path / "kept",
        )
    assert_same(found, la.evaluate(queries, gallery, la.judged(rows), ["AP"], unjudged="irrelevant"))


def test_ids_that_look_alike_and_are_nowhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    queries, gallery = (la.Codes.pack(clustered_bits(rng, n, 64)) for n in (4, 20))
    relevance = la.judged([(0, 1, 1), (0, "1", 0), (0, 7, 1)])
    expected = la.evaluate(queries, gallery, relevance, ["AP"], unjudged="irrelevant")
    for order in (np.arange(20), np.arange(20)[::-1]):
        shards = written(tmp_path / str(order[0]), gallery[order], [10, 10], {"ids": order})
        found = la.evaluate(queries, shards, relevance, ["AP"], unjudged="irrelevant", gallery_ids=shards["ids"])
        assert_same(found, expected)


def test_results_say_where_they_come_from(tmp_path: Path) -> None:
    world = codes_world(np.random.default_rng(8), 65, "labels", 9, 50, "by column")
    shards = world.write(tmp_path / "gallery")
    found = world.sharded(shards, ["AP", "P@3"])
    assert (found.about["items"], found.about["bits"]) == (50, 65)
    found.to_json(tmp_path / "found.json")
    loaded = la.Evaluation.from_json(tmp_path / "found.json")
    assert_same(loaded, found)
    assert loaded.about["inputs"]["gallery"] == shards.digest
    assert loaded.about["inputs"]["queries"] == world.queries.digest
    assert "positions" not in loaded.about["inputs"].values()
    again = replace(world, sizes=[50]).write(tmp_path / "again")
    assert again.digest != shards.digest
    shutil.copytree(tmp_path / "gallery", tmp_path / "copy")
    assert Shards.open(tmp_path / "copy").digest == shards.digest


def test_tallies_of_shards_are_saved_and_evaluated(tmp_path: Path) -> None:
    world = codes_world(np.random.default_rng(9), 65, "judged", 9, 50)
    shards = world.write(tmp_path / "gallery")
    world.count_sharded(shards, radius=2).save(tmp_path / "tally.npz")
    metrics = [*CUT, *WHOLE, "LGAP@2"]
    found = la.evaluate_tally(la.Tally.load(tmp_path / "tally.npz"), metrics, unjudged="irrelevant")
    assert_same(found, world.memory(metrics, unjudged="irrelevant"))


def test_default_metrics_and_a_string_of_metrics(tmp_path: Path) -> None:
    world = embeddings_world(np.random.default_rng(10), "labels")
    shards = world.write(tmp_path)
    relevance = world.relevant.sharded(shards)
    assert_same(
        la.evaluate(world.queries, shards, relevance),
        la.evaluate(world.queries, world.gallery, world.relevant.memory),
    )
    assert_same(
        la.evaluate(world.queries, shards, relevance, "AP@3 nDCG@2", undefined="skip"),
        la.evaluate(world.queries, world.gallery, world.relevant.memory, "AP@3 nDCG@2", undefined="skip"),
    )
