"""The same items in every kind of file give the same numbers, by the command that people run.

What a vacuous test would let pass: a kind whose rows come in another order (labels would be of other items), embeddings
taken for codes or the other way round (both are tried, and the result says which it was), columns in the order of the
file instead of their numbers, or a reader that is never asked, since another one answers for its ending.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookalike as la
from helpers.commands import refused, run
from helpers.item_kinds import UNLABELLED, WRITERS, digits, label_file, parquet, table_of, write
from lookalike.study.study import Study

METRICS = "AP nDCG@10 P@5 RR"
WHATS = ("embeddings", "codes")
QUERIES, GALLERY = digits(0, 40), digits(40, 240)


def evaluated(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """The result of `lookalike evaluate` with these words."""
    code, out, err = run(capsys, "evaluate", *words, "--metrics", METRICS, "--json")
    assert code == 0, err
    return json.loads(out)


def scores(result: dict[str, Any]) -> list[Any]:
    return [result.get("bits"), result.get("columns"), *((row["metric"], row["per_query"]) for row in result["scores"])]


def expected(what: str, **options: Any) -> list[Any]:
    sides = [la.Codes.pack(side.bits) if what == "codes" else side.embeddings for side in (QUERIES, GALLERY)]
    relevance = la.same_label(QUERIES.labels, GALLERY.labels)
    similarity = {} if what == "codes" else {"similarity": "dot"}
    return scores(la.evaluate(*sides, relevance, METRICS.split(), **similarity, **options).to_dict())


def similarity(what: str) -> list[str]:
    return ["--similarity", "dot"] if what == "embeddings" else []


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_gives_the_same_numbers(
    kind: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [write(tmp_path, name, kind, items, what) for name, items in (("q", QUERIES), ("g", GALLERY))]
    result = evaluated(capsys, *paths, *similarity(what))
    assert scores(result) == expected(what)
    said = [note for note in result["notes"] if "taken from" in note]
    if kind == "npz of our names":
        assert said == []
    else:
        assert len(said) == 2
        assert f"q{paths[0].suffix}: {what} are taken from " in said[0]
        assert ", labels from " in said[0]


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize(
    ("kind", "labels"),
    [*zip((*UNLABELLED, *UNLABELLED), ("npy", "txt", "csv", "parquet", "h5", "pt", "npz", "csv"), strict=True)],
)
def test_vectors_alone_take_labels_of_any_kind(
    kind: str, labels: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[Any] = []
    for name, items in (("q", QUERIES), ("g", GALLERY)):
        ending, writer = UNLABELLED[kind]
        writer(tmp_path / f"{name}.{ending}", items, what)
        words.append(tmp_path / f"{name}.{ending}")
    for name, items, option in (("q", QUERIES, "--query-labels"), ("g", GALLERY, "--gallery-labels")):
        words += [option, label_file(tmp_path / f"{name}-labels.{labels}", items)]
    assert scores(evaluated(capsys, *words, *similarity(what))) == expected(what)


@pytest.mark.parametrize("labels", ["csv", "parquet", "h5", "pt", "npz"])
def test_labels_are_joined_by_id_in_any_order(labels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write(tmp_path, name, "Parquet", items, "codes") for name, items in (("q", QUERIES), ("g", GALLERY))]
    turned = [
        label_file(tmp_path / f"{name}-labels.{labels}", items, np.random.default_rng(0).permutation(len(items.ids)))
        for name, items in (("q", QUERIES), ("g", GALLERY))
    ]
    result = evaluated(capsys, *paths, "--query-labels", turned[0], "--gallery-labels", turned[1])
    assert scores(result) == expected("codes")


def test_a_table_of_labels_has_columns_of_its_own_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both files have the columns `class` and `image_id`: the labels are those of the file of labels."""
    paths = [write(tmp_path, name, "Parquet", items, "codes") for name, items in (("q", QUERIES), ("g", GALLERY))]
    for name, items in (("q", QUERIES), ("g", GALLERY)):
        columns = {"image_id": items.ids[::-1], "class": items.labels[::-1], "colour": items.labels[::-1] % 2}
        pq.write_table(pa.table(columns), tmp_path / f"{name}-labels.parquet")
    files = ["--query-labels", tmp_path / "q-labels.parquet", "--gallery-labels", tmp_path / "g-labels.parquet"]
    named = ["--vector", "emb", "--id", "image_id", "--label", "class"]
    result = evaluated(capsys, *paths, *files, *named)
    assert scores(result) == expected("codes")
    assert result["notes"] == []
    by_colour = evaluated(capsys, *paths, *files, "--vector", "emb", "--id", "image_id", "--label", "colour")
    assert scores(by_colour) != scores(result)
    refused(capsys, "has no column 'imageid': it has 'image_id', ", "evaluate", *paths, *files, "--id", "imageid")


def test_groups_do_not_rank_and_the_result_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = [items.labels * 2 + np.arange(len(items.labels)) % 2 for items in (QUERIES, GALLERY)]
    for name, items, group in zip("qg", (QUERIES, GALLERY), groups, strict=True):
        pq.write_table(table_of(items, "codes").append_column("product", pa.array(group)), tmp_path / f"{name}.parquet")
    paths = tmp_path / "q.parquet", tmp_path / "g.parquet"
    result = evaluated(capsys, *paths, "--group", "product")
    assert scores(result) == expected("codes", exclude=tuple(groups))
    assert scores(result) != expected("codes")
    assert "items of the query's own group do not rank, by column 'product'" in result["notes"]
    refused(capsys, "pass one of them", "evaluate", *paths, "--group", "product", "--exclude-self")
    code, _, err = run(capsys, "shard", paths[1], tmp_path / "shards", "--rows", "60")
    assert code == 0, err
    assert scores(evaluated(capsys, paths[0], tmp_path / "shards", "--group", "product")) == scores(result)
    code, _, err = run(capsys, "shard", paths[1], tmp_path / "named", "--rows", "60", "--group", "product")
    assert code == 0, err
    assert scores(evaluated(capsys, paths[0], tmp_path / "named", "--group", "product")) == scores(result)


def test_patterns_and_snapshots_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "q", "folder of Parquet", QUERIES, "codes")
    snapshot = tmp_path / "hub" / "datasets--lab--digits" / "snapshots" / "c0ffee"
    (snapshot / "data").mkdir(parents=True)
    table = table_of(GALLERY, "codes")
    for part in range(2):
        pq.write_table(table.slice(part * 100, 100), snapshot / "data" / f"train-0000{part}-of-00002.parquet")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    pattern = tmp_path / "q" / "*.parquet"
    assert scores(evaluated(capsys, pattern, "hf://datasets/lab/digits")) == expected("codes")
    one = tmp_path / "q" / "data-1.parquet"
    refused(capsys, "it is read by the same command", "hash", pattern, one, "--hasher", "LSH")
    pq.write_table(table, snapshot / "data" / "test-00000-of-00001.parquet")
    refused(capsys, "several parts of a data set, test and train", "evaluate", pattern, "hf://datasets/lab/digits")
    named = "hf://datasets/lab/digits/data/train*"
    assert scores(evaluated(capsys, pattern, named)) == expected("codes")
    (snapshot / "data" / "train-00001-of-00002.parquet").unlink()
    refused(capsys, "has 1 of 2 files", "evaluate", pattern, named)
    refused(capsys, "is not on this machine", "evaluate", pattern, "hf://datasets/lab/other")


@pytest.mark.parametrize("kind", ["CSV, a number in each column", "HDF5", "Arrow stream", "safetensors, bfloat16"])
def test_kinds_are_streamed_into_shards(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr("lookalike.shards.convert.PIECE", 64)
    paths = [write(tmp_path, name, kind, items, "embeddings") for name, items in (("q", QUERIES), ("g", GALLERY))]
    code, _, err = run(capsys, "shard", paths[1], tmp_path / "shards", "--rows", "90")
    assert code == 0, err
    result = evaluated(capsys, paths[0], tmp_path / "shards", "--similarity", "dot")
    assert scores(result) == expected("embeddings")


def test_other_commands_take_the_columns_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, items in (("q", QUERIES), ("g", GALLERY)):
        columns = {"emb": "a", "class": "b", "image_id": "c", "price": "price"}
        pq.write_table(table_of(items, "embeddings").rename_columns(columns), f"{name}.parquet")
        parquet(Path(f"{name}-codes.parquet"), items, "codes")
    named = ["--vector", "a", "--id", "c"]
    for words in (
        ["hash", "g.parquet", "codes.npz", "--bits", "16", *named, "--label", "b", "--save", "itq.npz"],
        ["usage", "g-codes.parquet", "--vector", "emb", "--id", "image_id", "--label", "class"],
        ["train", "--data", "g.parquet", *named, "--label", "b", "--epochs", "1", "--bits", "8", "--validation", "0"],
        ["shard", "g.parquet", "shards", *named, "--label", "b"],
        ["rank", "q.parquet", "shards", "out.run", *named, "--k", "3"],
    ):
        code, _, err = run(capsys, *words)
        assert code == 0, err
        assert "taken from" not in err, words
    assert la.Codes.load("codes.npz").n_bits == 16
    assert sorted(la.Shards.open("shards").columns) == ["embeddings", "ids", "labels", "price"]
    Study.create(
        tmp_path / "shop", "shop", la.discovery.Catalogue(GALLERY.ids), la.discovery.Catalogue(GALLERY.ids[:5])
    )
    shuffled = table_of(GALLERY, "embeddings").take(np.arange(200)[::-1])
    pq.write_table(shuffled, "turned.parquet")
    code, _, err = run(capsys, "study", "add", "shop", "net", "turned.parquet", "--vector", "emb", "--id", "image_id")
    assert code == 0, err
    np.testing.assert_array_equal(Study.open(tmp_path / "shop").model("net").gallery, GALLERY.embeddings)
    refused(capsys, "has no columns", "train", "--data", "digits", "--vector", "a")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("what", WHATS)
def test_tables_in_memory_are_read(library: str, what: str, caplog: pytest.LogCaptureFixture) -> None:
    import polars

    table = table_of(GALLERY, what)
    given: Any = {"pandas": table.to_pandas, "polars": lambda: polars.from_arrow(table), "pyarrow": lambda: table}
    with caplog.at_level(logging.WARNING):
        items = la.read_items(given[library](), vector="emb", label="class", id="image_id")
    assert caplog.messages == []
    wanted = la.Codes.pack(GALLERY.bits) if what == "codes" else GALLERY.embeddings
    assert (items.vectors == wanted) is True if what == "codes" else np.array_equal(items.vectors, wanted)
    assert items.labels.tolist() == [f"digit {label}" for label in GALLERY.labels]
    assert items.ids.tolist() == GALLERY.ids.tolist()


def test_ids_that_one_file_has_as_text_are_those_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"embeddings": GALLERY.embeddings, "labels": GALLERY.labels, "ids": np.arange(200)}
    np.savez(tmp_path / "a.npz", **rows)  # type: ignore[arg-type]
    lines = [f"{n},{' '.join(map(str, row))},{GALLERY.labels[n]}" for n, row in enumerate(GALLERY.embeddings)]
    (tmp_path / "a.csv").write_text("\n".join(["id,emb,label", *lines]))
    options = ["--exclude-self", "--similarity", "dot"]
    wanted = scores(evaluated(capsys, tmp_path / "a.npz", tmp_path / "a.npz", *options))
    assert scores(evaluated(capsys, tmp_path / "a.csv", tmp_path / "a.npz", *options)) == wanted
