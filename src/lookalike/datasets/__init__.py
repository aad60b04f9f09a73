"""Data sets of labelled images: four by name, and any folder of images."""

import difflib
from pathlib import Path

from lookalike.datasets.cache import cache_folder
from lookalike.datasets.cifar import CIFAR10, CIFAR100
from lookalike.datasets.dataset import Dataset, Split
from lookalike.datasets.digits import read_digits
from lookalike.datasets.export import write_images
from lookalike.datasets.fashion_mnist import FASHION_MNIST
from lookalike.datasets.folder import image_folder
from lookalike.datasets.source import obtain

NAMES = ("digits", "cifar10", "cifar100", "fashion-mnist")
_ORIGINS = {origin.name: origin for origin in (CIFAR10, CIFAR100, FASHION_MNIST)}

__all__ = ["NAMES", "Dataset", "Split", "cache_folder", "image_folder", "load", "write_images"]


def load(
    name_or_path: str | Path,
    *,
    source: str | Path | None = None,
    labels: str | Path | None = None,
    size: int = 32,
) -> Dataset:
    """Load a data set by its name, or a folder of images by its path.

    `source` is an archive of the named set, or a folder with what it holds, where it is not to be fetched;
    `labels` is a CSV file with the label of each image, where the folders of images do not say it; images of a
    folder are made size × size, those of a named set have a size of their own.

    >>> load("digits")
    Dataset(digits: 1,797 images of 8 × 8 in 10 classes)
    """
    name = _name(name_or_path)
    if name is None:
        if source is not None:
            raise ValueError(f"source is for data sets that have a name ({', '.join(NAMES)}), not for a folder")
        return image_folder(name_or_path, labels, size)
    if labels is not None:
        raise ValueError(f"labels is for folders of images; {name} has labels of its own")
    if name == "digits":
        if source is not None:
            raise ValueError("source is not for digits, which come with scikit-learn")
        return read_digits()
    return obtain(_ORIGINS[name], source)


def _name(given: str | Path) -> str | None:
    """The name of a data set as it is in NAMES, however it was spelt; None for a path."""
    if isinstance(given, str):
        for name in NAMES:
            if _letters(given) == _letters(name):
                return name
    if isinstance(given, Path) or "/" in given or Path(given).is_dir():
        return None
    nearest = difflib.get_close_matches(given.lower(), NAMES, n=1, cutoff=0.4)
    question = f": did you mean {nearest[0]}?" if nearest else "."
    raise ValueError(
        f"there is no data set {given!r}{question} "
        f"Names are {', '.join(NAMES)}; the path of a folder of images may be passed too"
    )


def _letters(name: str) -> str:
    """A name without what people spell differently.

    >>> _letters("CIFAR-10"), _letters("fashion_mnist")
    ('cifar10', 'fashionmnist')
    """
    return name.lower().replace("-", "").replace("_", "")
