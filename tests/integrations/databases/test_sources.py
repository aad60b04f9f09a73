"""Tables of databases as items: the same bits as from a file, in a fixed order, whatever the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.judges import Server
from helpers.vector_tables import Shop, address_of, to_lance, to_postgres, to_qdrant
from lookalike.core.codes import Codes
from lookalike.core.readers.source import Columns
from lookalike.evaluation.item_files import Items, read_items, share_words
from lookalike.integrations.databases import open_database
from lookalike.integrations.databases.table import DatabaseTable

METRICS = ["AP@50", "nDCG@10", "P@10", "AUC"]


def opened(address: str, columns: Columns | None = None) -> DatabaseTable:
    source = open_database(address) if columns is None else open_database(address, columns)
    assert source is not None
    return source


def evaluated(items: Items, similarity: str | None = None) -> dict[str, object]:
    """Everything that an evaluation of items among each other says, as it would be saved."""
    assert items.labels is not None
    relevance = la.same_label(items.labels, items.labels)
    return la.evaluate(
        items.vectors, items.vectors, relevance, METRICS, similarity=similarity,
        query_ids=items.ids, gallery_ids=items.ids, exclude="self",
    ).to_dict()  # fmt: skip


def from_npz(folder: Path, **arrays: np.ndarray) -> Items:
    np.savez(folder / "items.npz", **arrays)
    return read_items(folder / "items.npz")


@pytest.mark.parametrize("rows", [7, 1000])
def test_embeddings_come_back_bit_for_bit(write: Callable[[Shop], str], shop: Shop, rows: int) -> None:
    source = opened(write(shop))
    pages = list(source.pages(rows))
    assert [len(page["ids"]) for page in pages][:-1] == [min(rows, len(shop.vectors))] * (len(pages) - 1)
    assert set(pages[0]) == {"embeddings", "ids", "labels"}
    got = {name: np.concatenate([page[name] for page in pages]) for name in pages[0]}
    assert got["embeddings"].dtype == np.float32
    assert np.array_equal(got["embeddings"], shop.vectors)
    assert got["ids"].tolist() == list(range(len(shop.vectors)))
    assert got["labels"].tolist() == shop.columns["label"]
    again = np.concatenate([page["ids"] for page in source.pages(rows)])
    assert np.array_equal(again, got["ids"])  # it can be read once more


def test_embeddings_give_the_numbers_of_an_npz_file(write: Callable[[Shop], str], shop: Shop, tmp_path: Path) -> None:
    own = from_npz(
        tmp_path, embeddings=shop.vectors, ids=np.arange(len(shop.vectors)), labels=np.array(shop.columns["label"])
    )
    assert evaluated(read_items(opened(write(shop)))) == evaluated(own)


@pytest.mark.parametrize("place", ["pgvector", "lancedb little", "lancedb big"])
def test_codes_give_the_numbers_of_an_npz_file(place: str, vectors_url: str, bits: Shop, tmp_path: Path) -> None:
    if place == "pgvector":
        address = to_postgres(vectors_url, bits)
    else:
        bit_order = place.split()[1]
        address = to_lance(tmp_path, bits, bit_order) + f"?bitorder={bit_order}"
    items = read_items(opened(address))
    assert isinstance(items.vectors, Codes)
    assert np.array_equal(items.vectors.unpack(), bits.vectors)
    arrays = {"ids": np.arange(len(bits.vectors)), "labels": np.array(bits.columns["label"])}
    assert evaluated(items) == evaluated(from_npz(tmp_path, codes=bits.vectors, **arrays))


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 64, 65])
def test_bits_of_pgvector_keep_their_order(vectors_url: str, n_bits: int) -> None:
    bits = np.random.default_rng(n_bits).integers(0, 2, (5, n_bits)).astype(np.uint8)
    source = opened(to_postgres(vectors_url, Shop(bits)))
    assert source.about["n_bits"] == n_bits
    assert read_items(source).vectors == Codes.pack(bits)


def test_half_vectors_keep_their_bits(vectors_url: str, shop: Shop, tmp_path: Path) -> None:
    half = shop.vectors.astype(np.float16)
    for address in (
        to_postgres(vectors_url, shop, f"halfvec({shop.vectors.shape[1]})"),
        to_lance(tmp_path, replace(shop, vectors=half)),
    ):
        got = read_items(opened(address)).vectors
        assert got.dtype == np.float16
        assert np.array_equal(got, half)


def test_numbers_that_text_may_round_survive(write: Callable[[Shop], str]) -> None:
    """The largest and smallest floats, and neighbours of 1."""
    one = np.float32(1)
    vectors = np.array([[3.4028235e38, 1e-45], [np.nextafter(one, 2, dtype=np.float32), 1 / 3], [-0.1, 16777217]], "f4")
    assert read_items(opened(write(Shop(vectors)))).vectors.tobytes() == vectors.tobytes()


def test_named_vectors_of_qdrant(tmp_path: Path) -> None:
    vectors = np.array([[3, 4], [1, 0]], np.float32)  # not of length 1, and compared by cosine
    source = opened(to_qdrant(tmp_path, Shop(vectors), "cosine", name="image"))
    assert source.roles.vector.name == "image"
    assert np.array_equal(read_items(source).vectors, vectors)


# Columns


def test_columns_are_named_in_the_address_or_beside_it(write: Callable[[Shop], str], shop: Shop) -> None:
    address = write(Shop(shop.vectors, shop.columns | {"colour": ["red", "blue"] * 100, "house": [7, 8] * 100}))
    joined = "&" if "?" in address else "?"
    for source in (
        opened(f"{address}{joined}id=name&label=colour&group=house&by=label"),
        opened(address, Columns(id="name", label="colour", group="house", by="label")),
    ):
        page = next(source.pages(1000))
        order = np.argsort([int(name[1:]) for name in page["ids"].tolist()])
        assert page["ids"][order].tolist() == shop.columns["name"]
        assert page["labels"][order].tolist() == ["red", "blue"] * 100
        assert page["groups"][order].tolist() == [7, 8] * 100
        assert page["by"][order].tolist() == shop.columns["label"]


def test_what_is_taken_unasked_is_said(write: Callable[[Shop], str], shop: Shop) -> None:
    (note,) = opened(write(shop)).notes
    assert "vectors are" in note
    assert "ids are id" in note
    assert "labels are label" in note


def test_lists_of_words_are_tags(write: Callable[[Shop], str]) -> None:
    words = [["red", "round"], ["blue"], ["round"], []]
    source = opened(write(Shop(np.eye(4, dtype=np.float32), {"tags": words})))
    assert source.about["tags"] == ("blue", "red", "round")
    assert read_items(source).labels.tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_tags_of_two_tables_share_their_columns(write: Callable[[Shop], str]) -> None:
    sides = [[["a"], ["b", "c"]], [["c"], ["d", "b"]]]
    sources = [opened(write(Shop(np.eye(2, dtype=np.float32), {"tags": words}))) for words in sides]
    items = [read_items(source) for source in sources]
    left, right = share_words(*items)
    assert left.labels.tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
    assert right.labels.tolist() == [[0, 0, 1, 0], [0, 1, 0, 1]]
    with pytest.raises(ValueError, match=r"are words, and .* has labels or a 0/1 matrix"):
        share_words(replace(items[0], tag_words=None), items[1])


# Rows and names


def test_rows_without_a_vector_are_left_out_where_that_is_asked(vectors_url: str, server: Server, shop: Shop) -> None:
    address = to_postgres(vectors_url, shop)
    table = address.rpartition("=")[2]
    server.run(f"UPDATE {table} SET emb = NULL WHERE id IN (0, 9, 10, 11)", vectors_url)
    source = opened(address + "&nulls=skip")
    ids = np.concatenate([page["ids"] for page in source.pages(3)])
    assert ids.tolist() == [row for row in range(len(shop.vectors)) if row not in (0, 9, 10, 11)]
    assert source.notes[-1].endswith(": 4 rows without a vector are left out")


@pytest.mark.parametrize(
    "table", ['"; drop table vectors_stay; --', "two words", "SELECT", "it's", "%s", "a.b", "Größe", "{}"]
)
def test_names_of_tables_and_columns_are_quoted(vectors_url: str, server: Server, table: str) -> None:
    from urllib.parse import quote

    server.run("CREATE TABLE IF NOT EXISTS vectors_stay (id int)", vectors_url)
    odd = table + " column"
    shop = Shop(np.eye(3, dtype=np.float32), {odd: [4, 5, 6]})
    address = address_of(vectors_url, quote(table, safe=""), label=quote(odd, safe=""))
    to_postgres(vectors_url, shop, table=table)
    source = opened(address)
    assert read_items(source).labels.tolist() == [4, 5, 6]
    with source.searching(None, {}) as search:
        assert search.ask(search.prepare(np.array([0, 1, 0])), 1) == [1]
    assert server.run("SELECT to_regclass('vectors_stay') IS NOT NULL", vectors_url) == [(True,)]


def test_tables_of_other_schemas_and_views(vectors_url: str, server: Server) -> None:
    server.run("CREATE SCHEMA elsewhere CREATE TABLE things (v vector(2), kind text)", vectors_url)
    server.run("INSERT INTO elsewhere.things VALUES ('[1,2]', 'x'), ('[3,4]', 'y')", vectors_url)
    source = opened(address_of(vectors_url, "things", schema="elsewhere", label="kind"))
    items = read_items(source)  # without a key, in the order in which rows are stored
    assert (items.vectors.tolist(), items.labels.tolist(), items.ids) == ([[1, 2], [3, 4]], ["x", "y"], None)
    server.run("CREATE VIEW seen AS SELECT v, kind FROM elsewhere.things", vectors_url)
    with pytest.raises(ValueError, match="is a view, whose rows have no order"):
        opened(address_of(vectors_url, "seen"))
    assert read_items(opened(address_of(vectors_url, "seen", id="kind"))).ids.tolist() == ["x", "y"]


def test_ids_and_labels_of_other_types(vectors_url: str, server: Server) -> None:
    first, second = "0ab1c2d3-0000-4000-8000-000000000001", "0ab1c2d3-0000-4000-8000-000000000002"
    server.run("CREATE TYPE colour AS ENUM ('red', 'blue')", vectors_url)
    server.run("CREATE TABLE typed (key uuid PRIMARY KEY, v vector(1), label colour, ok boolean)", vectors_url)
    rows = f"('{first}', '[1]', 'red', true), ('{second}', '[2]', 'blue', false)"
    server.run(f"INSERT INTO typed VALUES {rows}", vectors_url)
    (page,) = opened(address_of(vectors_url, "typed", by="ok")).pages(10)
    assert page["ids"].tolist() == [first, second]
    assert page["labels"].tolist() == ["red", "blue"]
    assert page["by"].tolist() == [1, 0]


def test_a_table_that_changes_is_read_in_one_state(vectors_url: str, server: Server, shop: Shop) -> None:
    address = to_postgres(vectors_url, shop)
    pages = opened(address).pages(50)
    first = next(pages)
    server.run(f"DELETE FROM {address.rpartition('=')[2]}", vectors_url)
    assert len(first["ids"]) + sum(len(page["ids"]) for page in pages) == len(shop.vectors)


def test_a_table_of_lancedb_is_read_as_it_was_opened(shop: Shop, tmp_path: Path) -> None:
    import lancedb

    source = opened(to_lance(tmp_path, shop, table="items"))
    pages = source.pages(50)
    first = next(pages)
    lancedb.connect(tmp_path).open_table("items").delete("id > 20")
    assert len(first["ids"]) + sum(len(page["ids"]) for page in pages) == len(shop.vectors)
    assert sum(len(page["ids"]) for page in source.pages(50)) == len(shop.vectors)


def test_large_tables_are_not_held_in_memory(vectors_url: str, server: Server) -> None:
    """A page of 10 rows of 60 MB is there after a fetch of little more than that page."""
    import tracemalloc

    server.run("CREATE TABLE large AS SELECT n AS id, array_fill(n, ARRAY[1000])::vector AS v "
               "FROM generate_series(1, 15000) AS n", vectors_url)  # fmt: skip
    pages = opened(address_of(vectors_url, "large")).pages(10)
    tracemalloc.start()
    page = next(pages)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    pages.close()
    assert page["embeddings"].shape == (10, 1000)
    assert peak < 2_000_000
