"""What tests of clusters share beside the cluster: how many workers, and galleries in shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.clusters import Cluster, cluster
from helpers.galleries import Collection, collection
from lookalike.shards import map_reduce
from lookalike.shards.dask import connected
from lookalike.shards.gallery import Shards

WORKERS = (1, 2, 4)
LOCALLY = map_reduce._here
HASTE = 60.0  # seconds within which an error must come, where it comes without waiting for anybody


one_worker = pytest.mark.parametrize("client", [1], indirect=True, ids=lambda n: f"{n} workers")
two_workers = pytest.mark.parametrize("client", [2], indirect=True, ids=lambda n: f"{n} workers")


def in_shards(folder: Path, kind: str, rows: int, **sizes: int) -> tuple[Collection, Shards]:
    """A collection, and its gallery in shards of so many rows, written once."""
    found = collection(kind, **sizes)
    where = folder / "-".join([kind.replace(" ", "-"), str(rows), *map(str, sizes.values())])
    return found, Shards.open(where) if where.is_dir() else found.write(where, rows)


def one_sentence(text: str) -> bool:
    return "\n" not in text and "Traceback" not in text


def whole_files(folder: Path) -> list[Path]:
    """Files, without those that someone was writing when it was killed."""
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


@pytest.fixture
def nothing_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("this is the work of a cluster")

    monkeypatch.setattr(map_reduce, "_here", fail)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose scheduler stays."""
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module", params=WORKERS, ids=lambda n: f"{n} workers")
def client(request: pytest.FixtureRequest, home: Cluster) -> Iterator[Any]:
    """A client of so many workers."""
    home.resize(request.param)
    with connected(home.address) as found:
        yield found


@pytest.fixture(scope="module")
def galleries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("galleries")


@pytest.fixture(scope="module")
def shop(galleries: Path) -> tuple[Collection, Shards]:
    """A collection of 64 bits in 46 shards: sums of sums."""
    return in_shards(galleries, "64 bits", 5)
