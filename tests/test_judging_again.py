"""Votes that come again: imported twice at once, moved between databases, and answers changed again and again."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from judges import Server, make_study
from lookalike.discovery.votes import Votes
from lookalike.judging.databases import WRITERS
from lookalike.judging.store import Store
from lookalike.study import Study


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("template") / "study").path


@pytest.fixture
def study(tmp_path: Path, template: Path) -> Study:
    shutil.copytree(template, tmp_path / "study")
    return Study.open(tmp_path / "study")


@pytest.mark.parametrize("isolation", ["read\\ committed", "repeatable\\ read", "serializable"])
def test_the_same_votes_imported_twice_at_once_are_there_once(study: Study, server: Server, isolation: str) -> None:
    """Whatever the server's own setting is, who has waited for another writer sees what that one wrote."""
    url = f"{server.new_database()}%20-cdefault_transaction_isolation%3D{quote(isolation)}"
    queries, items = zip(*study.pool().pairs, strict=True)
    votes = Votes(queries, items, ["ann"] * len(items), [1] * len(items))
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Store.open(url, study)) for _ in range(2)]
        stores[0].add_expert("ann")
        assert [store.status().votes for store in stores] == [0, 0]
        with psycopg.connect(server.url) as first, ThreadPoolExecutor(2) as threads:
            first.execute(f"SELECT pg_advisory_xact_lock({WRITERS})")
            imports = [threads.submit(store.import_votes, votes) for store in stores]
            while server.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != [(2,)]:
                assert not any(one.done() for one in imports)
                time.sleep(0.01)
            first.rollback()
            assert sorted(one.result().added for one in imports) == [0, len(votes)]
        assert len(stores[0].votes()) == len(votes)


def test_copies_of_one_vote_move_between_databases_however_they_came(study: Study, server: Server) -> None:
    """One that was brought along, and more that were imported where it was brought to."""
    url = server.new_database()
    query, item = study.pool().pairs[0]
    study.append_votes(Votes([query], [item], ["ann"], [1]))
    with Store.open(url, study) as store:
        store.import_votes(Votes([query] * 3, [item] * 3, ["ann"] * 3, [1] * 3), add_experts=True)
        assert len(store.votes()) == 3
        assert [store.copy_votes(study), store.copy_votes(study)] == [2, 0]
    assert len(study.votes()) == 3
    study.append_votes(Votes([query], [item], ["ann"], [1]))
    with Store.open(url, study) as store:
        assert len(store.votes()) == 4
        assert store.copy_votes(study) == 0
