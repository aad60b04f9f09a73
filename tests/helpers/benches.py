"""A study with its store of votes, on SQLite or PostgreSQL, and what tests ask of it."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from helpers.judges import Server
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Answer, JudgingTask
from lookalike.study.study import Study

NOW = 1_750_000_000_000  # milliseconds since 1970
MINUTE, YEAR = 60_000, 365 * 86_400_000
PEOPLE = ("ann", "bob", "eve", "joe", "kim")


class Bench:
    """A study, and where its judging is kept; stores that are opened here are closed at the end."""

    def __init__(self, study: Study, where: str | None, server: Server) -> None:
        self.study, self.where, self.server = study, where, server
        self._opened = contextlib.ExitStack()

    @property
    def on_postgres(self) -> bool:
        return self.where is not None

    def open(self, **more: Any) -> Store:
        return self._opened.enter_context(Store.open(self.where, self.study, **more))

    def ready(self, each: int = 2, people: tuple[str, ...] = PEOPLE, patience: float = 15.0, **settings: Any) -> Store:
        store = self.open(patience=patience)
        store.configure(each, **settings)
        for name in people:
            store.add_expert(name)
        return store

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Something done to the database past the store."""
        if self.where is not None:
            return self.server.run(statement, self.where)
        with contextlib.closing(
            sqlite3.connect(self.study.path / "votes.sqlite", isolation_level=None, timeout=20)
        ) as connection:
            return connection.execute(statement).fetchall()

    def close(self) -> None:
        self._opened.close()


names = itertools.count()


def say(pair: int | JudgingTask, answer: int = 1, client: str | None = None, **more: Any) -> Answer:
    return Answer(
        client or f"client {next(names)}", pair.pair if isinstance(pair, JudgingTask) else pair, answer, **more
    )


def voters(store: Store) -> dict[tuple[str, str], set[str]]:
    votes = store.votes()
    found: dict[tuple[str, str], set[str]] = {}
    for pair, expert in zip(votes.pairs, votes.experts.tolist(), strict=True):
        found.setdefault(pair, set()).add(expert)
    return found


def assert_exactly(store: Store, pairs: list[tuple[str, str]], each: int) -> None:
    """Every pair has been judged by as many experts as it wants, and the tables agree with the record."""
    found = voters(store)
    assert {pair: len(found.get(pair, ())) for pair in pairs} == dict.fromkeys(pairs, each)
    assert store.check() == []


def assert_acknowledged(bench: Bench, acknowledged: list[tuple[Any, ...]]) -> None:
    """Every vote that was acknowledged is in the record as it was sent, and none is there twice."""
    rows = bench.run("SELECT client, query, item, expert, answer FROM votes")
    kept = {row[0]: tuple(row) for row in rows}
    assert len(kept) == len(rows)
    assert len({row[0] for row in acknowledged}) == len(acknowledged)
    assert [row for row in acknowledged if kept.get(row[0]) != tuple(row)] == []


def wait_for(happens: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.005)
