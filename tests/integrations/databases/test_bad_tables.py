"""What can be wrong with a database or a table is one sentence, and no sentence holds a password."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.judges import Server
from helpers.vector_tables import PASSWORD, Shop, address_of, database, to_lance, to_postgres, to_qdrant
from lookalike.core.errors import InputError, LookalikeError, MissingPackageError, StoreError
from lookalike.evaluation.item_files import read_items
from lookalike.integrations.databases import open_database
from lookalike.integrations.databases.address import address_of as parsed

EYE = np.eye(3, dtype=np.float32)


def problem(address: str) -> str:
    """The one sentence that reading a table ends with."""
    with pytest.raises(LookalikeError) as raised:  # noqa: PT012  # either may raise
        source = open_database(address)
        assert source is not None
        read_items(source)
    text = str(raised.value)
    assert "\n" not in text
    shown = "".join(traceback.format_exception(raised.value))  # the causes too
    assert PASSWORD not in shown
    return text


def made(server: Server, url: str, columns: str, *rows: str) -> str:
    """The address of a new table with these columns and rows."""
    name = f"bad{abs(hash((columns, rows)))}"
    server.run(f"CREATE TABLE {name} ({columns})", url)
    for row in rows:
        server.run(f"INSERT INTO {name} VALUES ({row})", url)
    return address_of(url, name)


# Addresses


@pytest.mark.parametrize("text", ["items.npz", "s3://bucket/gallery", "lancedb", "pgvector", "C:/items.npz"])
def test_other_texts_are_no_addresses(text: str) -> None:
    assert open_database(text) is None


@pytest.mark.parametrize(
    "address",
    [
        f"pgvector://ann:{PASSWORD}@host:port/db?table=t",
        f"pgvector://ann:{PASSWORD}@host:65536/db?table=t",
        f"pgvector://ann:{PASSWORD}/db?table=t",
        f"pgvector://ann:p@{PASSWORD}@host/db?table=t",
        f"pgvector://ann:12/{PASSWORD}@host/db?table=t",
        f"pgvector://ann:12?{PASSWORD}@host/db?table=t",
        f"pgvector://ann:{PASSWORD}#x@host/db?table=t",
        f"pgvector://ann:{PASSWORD}%zz@host/db?table=t",
        f"pgvector://ann:{PASSWORD} @host/db?table=t",
        f"pgvector://ann:{PASSWORD}@host/db?table=t&nonsense=1",
        f"pgvector://ann:{PASSWORD}@host/db?table=t&table=u",
        f"pgvector://ann:{PASSWORD}@host/db?table",
        f"pgvector://ann:{PASSWORD}@host/db",
        f"pgvector:ann:{PASSWORD}@host/db?table=t",
        f"postgresql://ann:{PASSWORD}@[host/db?table=t",
        f"qdrant://ann:{PASSWORD}@host/items",
        f"qdrant://host/items?api_key={PASSWORD}&https=perhaps",
        "qdrant://host",
        "qdrant:items",
        "lancedb:items",
        f"lancedb:s3://ann:{PASSWORD}@bucket/items",
        "lancedb:shop/items?bitorder=middle",
        "lancedb:shop/items?nulls=keep",
    ],
)
def test_addresses_that_cannot_be(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    to_lance(Path("shop"), Shop(EYE), table="items")
    assert problem(address).startswith("the address must be like ")


def test_a_misspelt_option_is_told() -> None:
    assert problem("lancedb:shop/items?lable=x").endswith("not 'lable', did you mean label?")


def test_what_is_printed_of_an_address_has_no_password() -> None:
    assert PASSWORD not in repr(parsed(f"pgvector://ann:{PASSWORD}@host/db?table=t"))


# Databases that are away


def test_a_database_that_is_away() -> None:
    for address in (
        f"pgvector://ann:{PASSWORD}@127.0.0.1:1/shop?table=items",
        f"pgvector://127.0.0.1:1/shop?table=items&user=ann&password={PASSWORD}",
        f"pgvector://ann:{PASSWORD}@/shop?host=/nowhere&table=items",
        f"qdrant://127.0.0.1:1/items?api_key={PASSWORD}",
    ):
        assert " cannot be used: " in problem(address)
        with pytest.raises(StoreError):
            open_database(address)


def test_a_wrong_password_and_a_password_of_libpq(
    server: Server, vectors_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text("local all ann scram-sha-256\n" + rules.read_text())
    server.run(f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'")
    server.run("SELECT pg_reload_conf()")
    address = to_postgres(vectors_url, Shop(EYE))
    table = address.rpartition("=")[2]
    server.run(f"GRANT SELECT ON {table} TO ann", vectors_url)
    as_ann = address.replace("postgres@", "ann@")
    wrong = problem(address.replace("postgres@", f"ann:{PASSWORD}x@"))
    assert 'password authentication failed for user "ann"' in wrong
    assert "no password supplied" in problem(as_ann)
    for right in (address.replace("postgres@", f"ann:{PASSWORD}@"), f"{as_ann}&password={PASSWORD}"):
        source = open_database(right)
        assert source is not None
        assert PASSWORD not in f"{source.name}{source.notes}{source.about}{source!r}"
        assert len(read_items(source).vectors) == 3
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert open_database(as_ann) is not None
    monkeypatch.delenv("PGPASSWORD")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"*:*:*:ann:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert open_database(as_ann) is not None
    forbidden = to_postgres(vectors_url, Shop(EYE)).replace("postgres@", "ann@")
    assert "permission denied for table" in problem(forbidden)


def test_a_database_that_is_not_there(server: Server) -> None:
    address = address_of(server.url.replace("/postgres?", "/nothing?"), "items")
    assert 'database "nothing" does not exist' in problem(address)


def test_a_server_that_goes_while_it_is_read(server: Server, vectors_url: str) -> None:
    source = open_database(to_postgres(vectors_url, Shop(np.ones((50, 3), np.float32))))
    assert source is not None
    pages = source.pages(1)
    next(pages)
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lookalike'")
    with pytest.raises(StoreError, match="cannot be used: "):
        list(pages)


@pytest.mark.parametrize(
    ("package", "address", "name"),
    [
        ("psycopg", "pgvector://host/db?table=t", "psycopg"),
        ("lancedb", "lancedb:a/b", "lancedb"),
        ("qdrant_client", "qdrant://host/b", "qdrant-client"),
    ],
)
def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, package: str, address: str, name: str) -> None:
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"needs {name}, .*: pip install 'lookalike\[databases\]'"):
        open_database(address)


# Tables


def test_a_table_that_is_not_there(server: Server) -> None:
    url = database(server, "few_tables")
    assert "no table 'itmes'; no table there has vectors" in problem(address_of(url, "itmes"))
    server.run("CREATE TABLE items (v vector(2)); CREATE TABLE plain (x int)", url)
    server.run("CREATE SCHEMA far CREATE TABLE codes (c bit(4))", url)
    told = problem(address_of(url, "itmes"))
    assert told.endswith("few_tables has no table 'itmes'; tables with vectors are far.codes, items")
    assert "a schema is named apart, as &schema=" in problem(address_of(url, "far.codes"))


def test_a_folder_and_a_table_of_files_that_are_not_there(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert problem(f"lancedb:{nowhere}/items") == f"there is no folder {nowhere} of LanceDB"
    assert problem(f"qdrant:{nowhere}/items") == f"there is no folder {nowhere} of Qdrant's local mode"
    assert not nowhere.exists()
    address = to_lance(tmp_path / "lance", Shop(EYE), table="items")
    assert problem(f"{address}x").endswith("of LanceDB, did you mean 'items'?; it has items")
    address = to_qdrant(tmp_path / "qdrant", Shop(EYE))
    assert "did you mean" in problem(f"{address}x")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client leaves its lock open
def test_a_folder_of_qdrant_that_is_open_elsewhere(tmp_path: Path) -> None:
    from qdrant_client import QdrantClient

    address = to_qdrant(tmp_path, Shop(EYE))
    client = QdrantClient(path=str(tmp_path))
    assert problem(address) == f"qdrant:{tmp_path} is open in another process: close it there first"
    client.close()
    gc.collect()


def test_a_table_without_the_extension(server: Server) -> None:
    url = database(server, "no_extension", extension=False)
    assert "has no extension vector: run CREATE EXTENSION vector" in problem(made(server, url, "id int, v real[]"))
    source = open_database(made(server, url, "id int, c bit(3)", "1, B'101'"))  # bits can be read all the same
    assert source is not None
    assert read_items(source).vectors.unpack().tolist() == [[1, 0, 1]]
    with pytest.raises(InputError, match="has no extension vector"), source.searching(None, {}):
        pass


def test_no_vectors_and_several(server: Server, vectors_url: str, tmp_path: Path) -> None:
    told = problem(made(server, vectors_url, "id int, v real[], s sparsevec(4)"))
    assert told.endswith("has no column of vectors; it has id (integer), v (real[]), s (sparsevec(4))")
    told = problem(made(server, vectors_url, "id int, a vector(2), b halfvec(3), c bit(4)"))
    assert (
        "has several columns of vectors, a (vector(2)), b (halfvec(3)), c (bit(4)): name one, such as vector=a" in told
    )
    import lancedb
    import pyarrow as pa

    lancedb.connect(tmp_path).create_table("t", pa.table({"id": [1], "v": [[1.0, 2.0]]}))
    assert "has no column of vectors; it has id (int64), v (list of double)" in problem(f"lancedb:{tmp_path}/t")


def test_columns_that_are_not_there_or_something_else(write: Callable[[Shop], str], shop: Shop) -> None:
    address = write(shop)
    mark = "&" if "?" in address else "?"
    told = problem(f"{address}{mark}label=lable")
    assert "has no column 'lable', did you mean 'label'?; it has " in told
    assert "name (" in told
    assert " cannot hold vectors; it has " in problem(f"{address}{mark}vector=label")
    assert " cannot hold tags; it has " in problem(f"{address}{mark}tags=label")
    assert "name a column for one of them" in problem(f"{address}{mark}tags=name&label=label")


def test_several_columns_that_may_be_labels(write: Callable[[Shop], str]) -> None:
    address = write(Shop(EYE, {"class": [1, 2, 3], "category": ["a", "b", "c"]}))
    told = problem(address)
    assert "has several columns that may be labels, class (" in told
    assert "category (" in told
    assert told.endswith("name one, such as label=class")
    source = open_database(address + ("&label=" if "?" in address else "?label="))  # neither
    assert source is not None
    assert read_items(source).labels is None


# Rows


def test_vectors_of_two_lengths(server: Server, vectors_url: str) -> None:
    rows = ("7, '[1,2]'", "8, '[3,4]'", "9, '[1,2,3]'")
    address = made(server, vectors_url, "id int PRIMARY KEY, v vector", *rows)
    words = "the vector of item 9 has 3 numbers, those before it have 2"
    assert words in problem(address)
    source = open_database(address)
    assert source is not None
    with pytest.raises(InputError, match=words):  # also where each page alone is of one length
        list(source.pages(1))


def test_nulls(server: Server, vectors_url: str, tmp_path: Path) -> None:
    told = problem(made(server, vectors_url, "id int PRIMARY KEY, v vector(1)", "1, '[1]'", "5, NULL"))
    assert "item 5 has no vector (NULL in 'v'): fill it in, or add nulls=skip" in told
    assert "row 1 has no vector" in problem(made(server, vectors_url, "v vector(1)", "'[1]'", "NULL"))
    told = problem(made(server, vectors_url, "id int PRIMARY KEY, v vector(1), label text", "4, '[1]', NULL"))
    assert "item 4 has no value in 'label' (NULL)" in told
    told = problem(made(server, vectors_url, "id int, v vector(1)", "NULL, '[1]'"))
    assert "row 0 has no value in 'id' (NULL)" in told
    tags = "id int PRIMARY KEY, v vector(1), tags text[]"
    assert "holds NULL" in problem(made(server, vectors_url, tags, "1, '[1]', ARRAY['a', NULL]"))
    import lancedb
    import pyarrow as pa

    kind = pa.list_(pa.float32(), 2)
    for name, vectors in (("whole", [[1.0, 2.0], None]), ("part", [[1.0, 2.0], [None, 1.0]])):
        table = pa.table({"id": [3, 4], "v": pa.array(vectors, kind)})
        lancedb.connect(tmp_path).create_table(name, table)
    assert "item 4 has no vector (NULL in 'v')" in problem(f"lancedb:{tmp_path}/whole")
    assert "the vector of item 4 holds NULL" in problem(f"lancedb:{tmp_path}/part")
    source = open_database(f"lancedb:{tmp_path}/whole?nulls=skip")
    assert source is not None
    assert read_items(source).ids.tolist() == [3]


def test_points_of_qdrant_that_lack_something(tmp_path: Path) -> None:
    from qdrant_client import QdrantClient, models

    of_vectors = models.VectorParams(size=2, distance=models.Distance.DOT)
    with_label, without = {"label": "a"}, {}
    client = QdrantClient(path=str(tmp_path))
    for name, second in (("no_vector", ({}, with_label)), ("no_label", ({"image": [1.0, 2.0]}, without))):
        client.create_collection(name, vectors_config={"image": of_vectors})
        points = [
            models.PointStruct(id=1, vector={"image": [1.0, 2.0]}, payload=with_label),
            models.PointStruct(id=2, vector=second[0], payload=second[1]),
        ]
        client.upsert(name, points)
    client.close()
    assert "item 2 has no vector" in problem(f"qdrant:{tmp_path}/no_vector")
    assert "item 2 has no value in 'label'" in problem(f"qdrant:{tmp_path}/no_label")


def test_ids_that_repeat(write: Callable[[Shop], str]) -> None:
    address = write(Shop(EYE, {"sku": ["a", "b", "a"]}))
    mark = "&" if "?" in address else "?"
    assert "ids must differ, 'a' occurs 2 times in 'sku'" in problem(f"{address}{mark}id=sku")
    source = open_database(f"{address}{mark}id=")
    assert source is not None
    assert read_items(source).ids is None


def test_an_empty_table(write: Callable[[Shop], str], server: Server, vectors_url: str) -> None:
    if "pgvector" in (address := write(Shop(EYE))):
        server.run(f"DELETE FROM {address.rpartition('=')[2]}", vectors_url)
    elif address.startswith("lancedb"):
        import lancedb

        lancedb.connect(Path(address[8:]).parent).open_table(Path(address).name).delete("true")
    else:
        from qdrant_client import QdrantClient

        client = QdrantClient(path=str(Path(address[7:]).parent))
        client.delete(Path(address).name, [0, 1, 2])
        client.close()
    assert problem(address).endswith(" has no items")


def test_nothing_is_logged_of_a_password(server: Server, vectors_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    address = to_postgres(vectors_url, Shop(EYE)).replace("postgres@", f"postgres:{PASSWORD}@")
    source = open_database(address)
    assert source is not None
    read_items(source)
    problem(f"pgvector://ann:{PASSWORD}@127.0.0.1:1/shop?table=items")
    assert PASSWORD not in caplog.text


def test_no_database_is_loaded_before_its_address_is_opened() -> None:
    modules = ("lancedb", "qdrant_client", "psycopg", "pyarrow")
    code = (
        "import sys, lookalike, lookalike.integrations.databases as databases, lookalike.cli.evaluate\n"
        f"databases.open_database('items.npz'); print([name for name in {modules!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
