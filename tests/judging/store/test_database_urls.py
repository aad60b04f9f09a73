"""URLs of databases: every malformed one is refused in one sentence that says nothing of a password."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.commands import refused
from helpers.panels import make_vases
from lookalike.judging.store.databases import PostgreSQL, database_at

SECRET = "hunter2"
AT = f"judge:{SECRET}@127.0.0.1"
MALFORMED = {
    "": ["://", f"{AT}://db"],
    "got mysql://…": [f"mysql://{AT}/db"],
    "got sqlite://…": ["sqlite://", "sqlite:///votes.sqlite"],
    "it names no server and no database": ["postgresql://", "postgres://"],
    "cannot be read": [
        f"postgresql://{AT}:port/db", f"postgresql://{AT}:/db", f"postgresql://{AT}:1,{AT[-9:]}:2/db",
        f"postgresql://judge:{SECRET}", f"postgresql://judge:{SECRET}/db", f"postgresql://judge:{SECRET}@::1/db",
    ],
    "the port must be from 1 to 65535": [f"postgresql://{AT}:{port}/db" for port in (-1, 0, 65536, 10**9)],
    "written as % and two digits": [
        f"postgresql://{AT}:1 /db", f"postgresql://judge:{SECRET} @host/db", f"postgresql://{AT}/d\nb",
        f"postgresql://{AT}/d\tb", f"postgresql://{AT}/\udcff",
    ],
    "is itself written %25": [
        f"postgresql://judge:{SECRET}%@host/db", f"postgresql://judge:{SECRET}%zz@host/db", f"postgresql://{AT}/100%",
    ],
    "must be text in UTF-8": [
        f"postgresql://judge:{SECRET}%ff@host/db", f"postgresql://judge:{SECRET}%00@host/db", f"postgresql://{AT}/%c3%28",
    ],
    "an @ in a password is written %40": [
        f"postgresql://judge:p@{SECRET}@host/db", f"postgresql://judge:p@{SECRET}/x@host/db",
        f"postgresql://judge:p@{SECRET}?x=y@host/db",
    ],
    "brackets are for addresses": [
        f"postgresql://judge:{SECRET}@[::1/db", f"postgresql://judge:{SECRET}@::1]/db",
        f"postgresql://judge:{SECRET}@[]/db", f"postgresql://judge:{SECRET}@[host]/db",
        f"postgresql://judge:{SECRET}@[::1]x/db", f"postgresql://judge:{SECRET}@[[::1]]/db",
    ],
    "the host is no name of a server": [
        f"postgresql://judge:{SECRET}@.../db", f"postgresql://judge:{SECRET}@{'h' * 64}/db",
        f"postgresql://judge:{SECRET}@/db?host=..x",
    ],
    "after a ? stand options of PostgreSQL": [
        f"postgresql://{AT}/db?nonsense=1", f"postgresql://{AT}/db?port=x", f"postgresql://host/db?password=a&{SECRET}=b",
    ],
}  # fmt: skip
WHOLE = [
    ("postgresql://judge@db.example/shop", "PostgreSQL, shop on db.example"),
    (f"postgres://judge:{SECRET}%40%2F@[::1]:5433/shop", "PostgreSQL, shop on ::1"),
    ("postgresql+psycopg://judge@10.0.0.7", "PostgreSQL, postgres on 10.0.0.7"),
    ("postgresql:///shop?host=/run/postgresql&sslmode=disable", "PostgreSQL, shop on /run/postgresql"),
    ("postgresql:///shop?host=", "PostgreSQL, shop on this machine"),
    (f"postgresql://judge:a[{SECRET}]:b@db.example/shop", "PostgreSQL, shop on db.example"),
    ("postgresql://judge@db.example/shop?options=-csearch_path%3Dshop", "PostgreSQL, shop on db.example"),
    ("postgresql://judge@köln.example/Schöne%20Dinge", "PostgreSQL, Schöne Dinge on köln.example"),
]


@pytest.mark.parametrize(("words", "url"), [(words, url) for words, urls in MALFORMED.items() for url in urls])
def test_a_malformed_url_is_refused_in_one_sentence_without_secrets(tmp_path: Path, words: str, url: str) -> None:
    with pytest.raises(ValueError, match="the database must be") as caught:
        database_at(url, tmp_path)
    said = str(caught.value)
    assert words in said
    assert "\n" not in said
    assert SECRET not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("url", "words"), WHOLE)
def test_a_url_that_is_whole_is_taken_as_it_is(tmp_path: Path, url: str, words: str) -> None:
    database = database_at(url, tmp_path)
    assert isinstance(database, PostgreSQL)
    assert database.words == words


def test_the_command_refuses_them_too_and_remembers_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_vases(tmp_path, side=16)
    study = tmp_path / "study"
    urls = [url for urls in MALFORMED.values() for url in urls]
    for url in ["", " ", "postgresql", "postgresql:/", "//host/db", f"{AT}/db", "sqlite:votes", "SQLITE", *urls]:
        refused(capsys, "atabase must be", "judge", str(study), "--port", "0", f"--database={url}")
    assert not (study / "judging" / "database").exists()


def test_without_the_driver_it_is_said_what_to_install() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from pathlib import Path
from lookalike.judging.store.databases import database_at
database_at("postgresql://judge:hunter2@host/db", Path())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last == (
        "lookalike.core.errors.MissingPackageError: PostgreSQL needs psycopg, which is not installed or not whole: "
        "pip install 'lookalike[judge]'"
    )
