"""Addresses of databases wherever a command reads items: the same numbers as from a file, streamed into shards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.photos import command
from helpers.vector_tables import PASSWORD, Shop, to_postgres
from lookalike.shards.gallery import Shards
from lookalike.study.study import Study


def told(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    capsys.readouterr()
    assert command(*map(str, words)) == 0
    return json.loads(capsys.readouterr().out)


def means(result: dict[str, Any]) -> list[tuple[float, float, float]]:
    return [(row["mean"], row["best"], row["worst"]) for row in result["scores"]]


@pytest.fixture
def files(shop: Shop, tmp_path: Path) -> tuple[Path, Path]:
    """The shop as a file, and some of its items as queries."""
    labels = np.array(shop.columns["label"])
    np.savez(tmp_path / "g.npz", embeddings=shop.vectors, labels=labels, ids=np.arange(len(labels)))
    np.savez(tmp_path / "q.npz", embeddings=shop.vectors[:20], labels=labels[:20], ids=np.arange(20))
    return tmp_path / "q.npz", tmp_path / "g.npz"


def test_a_table_is_evaluated_sharded_and_added_like_a_file(
    write: Callable[[Shop], str],
    shop: Shop,
    files: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    queries, gallery = files
    address = write(shop)
    asked = ("--exclude-self", "--metrics", "AP nDCG@10 MAP@R", "--json")
    expected = means(told(capsys, "evaluate", queries, gallery, *asked))
    assert means(told(capsys, "evaluate", queries, address, *asked)) == expected
    assert command("shard", address, "shards", "--rows", "64") == 0
    shards = Shards.open("shards")
    written = np.concatenate([shards.read(number).vectors for number in range(len(shards.shards))])
    assert np.array_equal(written, shop.vectors)
    assert means(told(capsys, "evaluate", queries, "shards", *asked)) == expected
    (tmp_path / "items.csv").write_text("id\n" + "\n".join(map(str, range(len(shop.vectors)))) + "\n")
    assert command("study", "new", "study", "--catalogue", "items.csv", "--draw", "5") == 0
    assert command("study", "add", "study", "net", address) == 0
    assert np.array_equal(Study.open("study").model("net").gallery, shop.vectors)


def test_each_value_of_a_column_of_the_queries(
    vectors_url: str, shop: Shop, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gallery = files[1]
    kinds = [("odd", "even")[int(label) % 2 == 0] for label in shop.columns["label"]]
    address = to_postgres(
        vectors_url, Shop(shop.vectors[:20], {"label": shop.columns["label"][:20], "kind": kinds[:20]})
    )
    asked = ("--metrics", "AP", "--by", "kind", "--json")
    of_table = told(capsys, "evaluate", address, gallery, *asked)
    table = tmp_path / "q.csv"
    rows = [["id", "label", "kind", *(f"emb_{n}" for n in range(shop.vectors.shape[1]))]]
    rows += [[n, shop.columns["label"][n], kinds[n], *map(repr, map(float, shop.vectors[n]))] for n in range(20)]  # type: ignore[list-item]
    table.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    of_file = told(capsys, "evaluate", table, gallery, *asked)
    assert of_table["by_group"]["groups"] == ["even", "odd"]
    assert of_table["by_group"] == of_file["by_group"]
    total = sum(score["mean"] * score["queries"] for score in of_file["by_group"]["scores"]["AP"])
    assert total / 20 == pytest.approx(of_file["scores"][0]["mean"])
    assert command("evaluate", str(table), str(gallery), "--metrics", "AP", "--by", "kind") == 0
    assert "macro mean" in capsys.readouterr().out
    assert command("evaluate", str(table), str(gallery), "--by", "kin") == 2
    assert "'kind'" in capsys.readouterr().err


def test_words_of_tags_find_each_other(
    write: Callable[[Shop], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables of other words have other columns: by position, they would give a wrong number."""
    vectors = np.eye(3, dtype=np.float32)
    queries = write(Shop(vectors, {"tags": [["red"], ["blue"], ["red", "blue"]]}))
    gallery = write(Shop(vectors, {"tags": [["red"], ["old", "red"], ["blue"]]}))
    result = told(capsys, "evaluate", queries, gallery, "--metrics", "P@1", "--json")
    assert result["scores"][0]["per_query"] == [1.0, 0.0, 1.0]
    assert command("shard", gallery, str(tmp_path / "shards")) == 2
    assert "are words, which shards do not keep" in capsys.readouterr().err
    np.savez(tmp_path / "q.npz", embeddings=vectors, labels=np.eye(3, dtype=int))
    assert command("evaluate", str(tmp_path / "q.npz"), gallery) == 2
    assert "give both as words" in capsys.readouterr().err


def test_a_database_that_is_away_is_one_sentence(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = f"pgvector://ann:{PASSWORD}@127.0.0.1:1/shop?table=items"
    for words in (("evaluate", str(files[0]), away), ("shard", away, str(tmp_path / "s")), ("usage", away)):
        capsys.readouterr()
        assert command(*words) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "Connection refused" in error
        assert PASSWORD not in error
