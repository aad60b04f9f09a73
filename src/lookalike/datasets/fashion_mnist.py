"""Fashion-MNIST: 70,000 grey pictures of clothes, 28 × 28, from the authors' idx files or Debian's package of them."""

import gzip
import hashlib
import math
import zlib
from pathlib import Path

import numpy as np

from lookalike.core.errors import FileError
from lookalike.datasets.archives import members
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.download import Archive
from lookalike.datasets.source import Origin

__all__ = ["FASHION_MNIST", "has_files", "read_fashion_mnist", "read_idx"]

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
DIGESTS = {  # SHA-256 of the files as Debian compresses them
    "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}


def read_fashion_mnist(source: Path) -> Dataset:
    """Read the four idx files, of a folder or Debian's package dataset-fashion-mnist."""
    contents = members(source, DIGESTS)
    missing = [name for name in DIGESTS if name not in contents]
    if missing:
        raise FileError(f"{source} is not complete or something else: it has no {missing[0]}", path=source)
    arrays = [read_idx(contents[name], f"{name} of {source}") for name in DIGESTS]
    if [array.ndim for array in arrays] != [3, 1, 3, 1] or arrays[0].shape[1:] != arrays[2].shape[1:]:
        text = f"{source} is damaged: its files do not hold images of one size, and a label for each"
        raise FileError(text, path=source)
    images, labels = np.concatenate(arrays[::2]), np.concatenate(arrays[1::2]).astype(np.int64)
    return Dataset("fashion-mnist", images, labels, CLASSES, np.arange(len(images)) >= len(arrays[0]))


def read_idx(content: bytes, what: str = "the file") -> np.ndarray:
    """An array of bytes from a compressed idx file: two zeros, type 8, number of axes, their lengths, values.

    >>> read_idx(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])))
    array([7, 8, 9], dtype=uint8)
    """
    try:
        plain = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{what} is damaged or cut short", path=what) from error
    start = 4 + 4 * plain[3] if plain[:3] == b"\0\0\x08" and len(plain) > 3 else 0
    shape = np.frombuffer(plain[4:start], ">u4").tolist() if start and len(plain) >= start else []
    if not start or len(shape) > 3 or len(plain) - start != math.prod(shape):
        raise FileError(f"{what} is not an idx file of bytes", path=what)
    return np.frombuffer(plain, np.uint8, offset=start).reshape(shape)


def has_files(archive: Path, digests: dict[str, str] | None = None) -> bool:
    """Whether an archive holds files with these SHA-256 digests, by default the four of Fashion-MNIST."""
    digests = DIGESTS if digests is None else digests
    try:
        contents = members(archive, digests)
    except ValueError:
        return False
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()} == digests


FASHION_MNIST = Origin(
    "fashion-mnist",
    70_000,
    read_fashion_mnist,
    files=("fashion-mnist",),
    elsewhere="Debian's package dataset-fashion-mnist or a folder with the four files train-images-idx3-ubyte.gz etc.",
    fetched=Archive(
        "dataset-fashion-mnist.deb",
        ("apt-get", "download", "--print-uris", "dataset-fashion-mnist"),
        has_files,
    ),
    installed=Path("/usr/share/datasets/fashion-mnist"),
)
