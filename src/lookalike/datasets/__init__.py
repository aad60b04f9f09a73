"""Data sets of labelled images: four by name, and any folder of images."""

from pathlib import Path

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError, Option
from lookalike.datasets.cache import cache_folder
from lookalike.datasets.cifar import CIFAR10, CIFAR100
from lookalike.datasets.dataset import LEVELS, Dataset, Split
from lookalike.datasets.digits import read_digits
from lookalike.datasets.export import write_images
from lookalike.datasets.fashion_mnist import FASHION_MNIST
from lookalike.datasets.folder import image_folder
from lookalike.datasets.source import obtain

NAMES = ("digits", "cifar10", "cifar100", "fashion-mnist")
_ORIGINS = {origin.name: origin for origin in (CIFAR10, CIFAR100, FASHION_MNIST)}

__all__ = ["LEVELS", "NAMES", "Dataset", "Split", "cache_folder", "image_folder", "load", "write_images"]


def load(
    name_or_path: str | Path,
    *,
    source: str | Path | None = None,
    labels: str | Path | None = None,
    size: int = 32,
) -> Dataset:
    """Load a data set by its name, or a folder of images by its path.

    source: an archive of the named set, or a folder with its content; then nothing is fetched. labels: a CSV file with
    the label of each image, if the folders of images do not say it; of cifar100, "fine" or "coarse". size: images of a
    folder are made size × size; those of a named set have a size of their own.

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
    if name == "digits":
        if source is not None:
            raise InputError(Option("source"), " is not for digits, which come with scikit-learn")
        return read_digits().at_level(level)
    return obtain(_ORIGINS[name], source).at_level(level)


def _name(name_or_path: str | Path) -> str | None:
    """The name of a data set as it is in NAMES, however it is spelt; None for a path."""
    if isinstance(name_or_path, str):
        for name in NAMES:
            if _letters(name_or_path) == _letters(name):
                return name
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
