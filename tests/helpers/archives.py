"""Archives of data sets like those that people have, with a few images each."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lookalike.datasets.dataset import Dataset
from lookalike.datasets.fashion_mnist import DIGESTS

RNG = np.random.default_rng(0)
N = 3  # images in each part of the archives made here
IMAGES = RNG.integers(0, 256, (6 * N, 32, 32, 3)).astype(np.uint8)
LABELS = RNG.integers(0, 10, 6 * N)


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
