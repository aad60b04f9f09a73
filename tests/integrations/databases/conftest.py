"""A shop with duplicates among its items, and databases to keep it in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.judges import Server
from helpers.vector_tables import Shop, database, to_lance, to_postgres, to_qdrant

Write = Callable[[Shop], str]


@pytest.fixture(scope="session")
def vectors_url(server: Server) -> str:
    """A database with the extension."""
    return database(server, "vectors")


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    data = la.datasets.load("digits")
    return data.pixels().astype(np.float32), np.asarray(data.labels)


@pytest.fixture(scope="session")
def shop(digits: tuple[np.ndarray, np.ndarray]) -> Shop:
    """200 digits, of which the first 10 stand there 11 times each."""
    rows = np.concatenate([np.arange(100), np.repeat(np.arange(10), 10)])
    rows = np.random.default_rng(0).permutation(rows)
    labels = digits[1][rows].tolist()
    return Shop(digits[0][rows], {"label": labels, "name": [f"n{row}" for row in range(len(rows))]})


@pytest.fixture(scope="session")
def bits(shop: Shop) -> Shop:
    """The same as codes of 24 bits."""
    middle = shop.vectors[:, 20:44] > np.median(shop.vectors[:, 20:44], axis=0)
    return Shop(middle.astype(np.uint8), shop.columns)


@pytest.fixture(scope="session", params=["pgvector", "lancedb", "qdrant"])
def write(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Write:
    """What writes a shop to a database, once, and gives its address."""
    if request.param == "pgvector":
        url = request.getfixturevalue("vectors_url")
        return functools.lru_cache(maxsize=None)(lambda shop: to_postgres(url, shop))
    folder = tmp_path_factory.mktemp(request.param)
    of_folder: Callable[[Path, Shop], str] = {"lancedb": to_lance, "qdrant": to_qdrant}[request.param]
    return functools.lru_cache(maxsize=None)(lambda shop: of_folder(folder, shop))
