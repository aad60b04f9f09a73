"""A data set of labelled images, and its division into queries, training images and gallery."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import choice
from lookalike.core.errors import InputError, Option

__all__ = ["LEVELS", "PHASE", "Dataset", "Split"]

QUERIES, TRAINING = 100, 500  # of each class, in setting 1
LEVELS = ("fine", "coarse")  # of labels, where a class belongs to a superclass
PHASE = "phase"  # a column: query, gallery, train, or another part that a split leaves out
UNSEEN = 0.25  # of all classes, those that nothing is learned from
LARGE = 1000  # a class with fewer images gives a tenth of them as queries


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a data set by their use; each part is sorted, and no query is in the other parts."""

    queries: np.ndarray
    training: np.ndarray
    gallery: np.ndarray
    unseen: tuple[int, ...] = ()  # classes of which no image is for training, though queries and gallery have some

    def __repr__(self) -> str:
        counts = [f"{len(getattr(self, name)):,} {name}" for name in ("queries", "training", "gallery")]
        more = [f"{len(self.unseen)} unseen classes"] if self.unseen else []
        return f"Split({', '.join(counts + more)})"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with a label each, all of the same size.

    >>> Dataset("tiny", np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 1, 0]), ("cat", "dog"))
    Dataset(tiny: 4 images of 8 × 8 in 2 classes)
    """

    name: str
    images: np.ndarray  # (n, height, width) or (n, height, width, 3) of uint8
    labels: np.ndarray  # (n,) of int64, index into classes
    classes: tuple[str, ...]
    test: np.ndarray | None = None  # (n,) of bool: the official test part, where there is one
    coarse: np.ndarray | None = None  # (n,) of int64, index into coarse_classes
    coarse_classes: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()  # of an image folder: the file of each image
    unreadable: tuple[tuple[Path, str], ...] = ()  # files that were skipped, and why
    ids: np.ndarray | None = None  # (n,) of text, all different: what each image is called
    identities: np.ndarray | None = None  # (n,) of text: what each image shows, such as a product
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)  # further facts by name, (n,) of text each
    boxes: np.ndarray | None = None  # (n, 4) of int64: left, top, right and bottom of the part of its file

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or not (len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)):
            raise InputError(
                "images must be (n, height, width) or (n, height, width, 3) of uint8, "
                f"got {shape} of {self.images.dtype}"
            )
        _check_labels("labels", self.labels, len(self), len(self.classes))
        if self.coarse is not None:
            _check_labels("coarse", self.coarse, len(self), len(self.coarse_classes))
        if self.test is not None and (self.test.shape != (len(self),) or self.test.dtype != bool):
            raise InputError(f"test must be ({len(self)},) of bool, got {self.test.shape} of {self.test.dtype}")
        if self.paths and len(self.paths) != len(self):
            raise InputError(f"there are {len(self)} images, but {len(self.paths)} paths")
        for name, values in {"ids": self.ids, "identities": self.identities, **self.columns}.items():
            if values is not None and values.shape != (len(self),):
                raise InputError(f"{name} must be ({len(self)},), got {values.shape}")

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        height, width = self.images.shape[1:3]
        return f"Dataset({self.name}: {len(self):,} images of {height} × {width} in {len(self.classes)} classes)"

    def pixels(self, rows: Any = slice(None)) -> np.ndarray:
        """The images of these rows, flattened: (n, values) of float32 between 0 and 1."""
        chosen = self.images[rows]
        values = chosen.reshape(len(chosen), math.prod(self.images.shape[1:])).astype(np.float32)
        values /= 255  # in place: all of CIFAR-10 is 737 MB
        return values

    def picture(self, row: int, size: int = 96) -> np.ndarray:
        """An image to look at, (height, width, 3) of uint8: from its file fitted into size × size, else as stored."""
        if self.paths:
            from lookalike.core.decode import fitted

            return fitted(self.paths[row], size, None if self.boxes is None else self.boxes[row])
        image = self.images[row]
        return image.copy() if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2)

    def at_level(self, level: str | None) -> "Dataset":
        """The same images with their coarse labels for labels, where `level` is "coarse"; else as they are.

        level: "fine", "coarse" or None. Splits are best drawn before, so that both levels have the same.
        """
        if level is None:
            return self
        choice("labels", level, LEVELS)
        if self.coarse is None:
            raise InputError(
                f"{self.name} has no coarse labels: ",
                Option("labels", level),
                ", and a loss that learns from them, are for sets such as cifar100, emoji or groceries",
            )
        if level == "fine":
            return self
        return replace(self, labels=self.coarse, classes=self.coarse_classes, coarse=None, coarse_classes=())

    def wild(self, column: str, value: str) -> "Dataset":
        """The same images, of which those with this value are queries, and all others the gallery, in setting 2.

        column: of `columns`, such as vendor. So every query comes from where no image of the gallery comes from.
        """
        if column not in self.columns:
            raise InputError(f"{self.name} does not say the {column} of images: expected a set such as emoji")
        values = self.columns[column]
        there = np.unique(values).tolist()
        choice(column, value, there)
        if len(there) == 1:
            raise InputError(f"all images of {self.name} are of the {column} {value}: nothing is left to search")
        phases = np.where(values == value, "query", "gallery")
        return replace(self, test=values == value, columns={**self.columns, PHASE: phases})

    def shuffled(self, random_state: int = 0) -> np.ndarray:
        """All rows at random, but classes take turns: of the first n, each class has as many, if it has enough.

        >>> tiny = Dataset("tiny", np.zeros((6, 8, 8), np.uint8), np.array([0, 0, 0, 0, 1, 1]), ("cat", "dog"))
        >>> tiny.labels[tiny.shuffled()]
        array([0, 1, 0, 1, 0, 0])
        """
        rows = np.random.default_rng(random_state).permutation(len(self))
        turns = np.empty(len(self), np.int64)
        for label in range(len(self.classes)):
            own = self.labels[rows] == label
            turns[own] = np.arange(own.sum())
        return rows[np.lexsort((self.labels[rows], turns))]

    def split(self, setting: int | str = 1, *, random_state: int = 0, share: float = UNSEEN) -> Split:
        """Queries, training images and gallery, as papers on hashing have them.

        Setting 1 draws 100 queries and 500 training images of each class; the gallery is all that is not a query.
        Of a class with fewer than 1,000 images a tenth are queries, and up to 500 of the others are for training.
        Setting 2 takes the official test part as queries; everything else is training and gallery. A set that says the
        phase of each image has the queries, gallery and training images that it says.
        Setting 3 is setting 1 without the training images in the gallery.
        "unseen" is setting 1 without the training images of some classes, a `share` of all, drawn by random_state
        (Sablayrolles et al. 2017): queries of these classes ask how well codes hold for what nobody has learned.

        >>> tiny = Dataset("tiny", np.zeros((40, 8, 8), np.uint8), np.arange(40) % 4, tuple("abcd"))
        >>> tiny.split("unseen")
        Split(4 queries, 27 training, 36 gallery, 1 unseen classes)
        """
        choice("setting", setting, (1, 2, 3, "unseen"))
        if setting == "unseen":
            return self._with_unseen(self._drawn(random_state), share, random_state)
        if setting in (1, 3):
            drawn = self._drawn(random_state)
            return drawn if setting == 1 else self._apart(drawn)
        if self.test is None:
            raise InputError(
                f"{self.name} has no official test part, which setting 2 takes as queries: use ", Option("setting", 1)
            )
        if PHASE in self.columns:
            return self._by_phase()
        others = np.flatnonzero(~self.test)
        return Split(np.flatnonzero(self.test), others, others)

    def _by_phase(self) -> Split:
        """The official parts; where no image is for training, those of the gallery are."""
        queries, training, gallery = (
            np.flatnonzero(self.columns[PHASE] == phase) for phase in ("query", "train", "gallery")
        )
        return Split(queries, training if len(training) else gallery, gallery)

    def _apart(self, drawn: Split) -> Split:
        """The same, without the training images in the gallery."""
        gallery = np.setdiff1d(drawn.gallery, drawn.training, assume_unique=True)
        if not len(gallery):
            raise InputError(
                f"all images of {self.name} are queries or for training, as no class has more than {TRAINING} others: "
                "use ",
                Option("setting", 1),
            )
        return replace(drawn, gallery=gallery)

    def _with_unseen(self, drawn: Split, share: float, random_state: int) -> Split:
        """The same queries and gallery, and the training images of all classes but some."""
        if not 0 < share < 1:
            raise InputError(Option("share"), f" of unseen classes must be between 0 and 1, got {share}")
        classes = np.unique(self.labels[drawn.queries])  # only these can be asked for
        n_unseen = max(1, round(share * len(classes)))
        if len(classes) - n_unseen < 2:
            raise InputError(
                f"{self.name} has {len(classes)} classes: with {n_unseen} unseen, fewer than two are left to learn from"
            )
        unseen = np.random.default_rng((random_state, len(classes))).permutation(classes)[:n_unseen]
        training = drawn.training[~np.isin(self.labels[drawn.training], unseen)]
        return Split(drawn.queries, training, drawn.gallery, tuple(sorted(unseen.tolist())))

    def _drawn(self, random_state: int) -> Split:
        rng = np.random.default_rng(random_state)
        queries, training = [], []
        for label in range(len(self.classes)):
            rows = rng.permutation(np.flatnonzero(self.labels == label))
            n = _n_queries(len(rows))
            queries.append(rows[:n])
            training.append(rows[n : n + TRAINING])
        chosen = np.sort(np.concatenate(queries))
        if not len(chosen):
            raise InputError(f"no class of {self.name} has two images: no query can be drawn that has one to find")
        gallery = np.setdiff1d(np.arange(len(self)), chosen, assume_unique=True)
        return Split(chosen, np.sort(np.concatenate(training)), gallery)


def _n_queries(n_images: int) -> int:
    """How many of a class are queries: of one image none, as nothing would be left to find.

    >>> [_n_queries(n) for n in (0, 1, 2, 19, 20, 999, 1000, 6000)]
    [0, 0, 1, 1, 2, 99, 100, 100]
    """
    if n_images < 2:
        return 0
    return QUERIES if n_images >= LARGE else max(1, n_images // 10)


def _check_labels(name: str, labels: np.ndarray, n_images: int, n_classes: int) -> None:
    if labels.shape != (n_images,) or labels.dtype != np.int64:
        raise InputError(f"{name} must be ({n_images},) of int64, got {labels.shape} of {labels.dtype}")
    if n_images and not (labels.min() >= 0 and labels.max() < n_classes):
        raise InputError(
            f"{name} must be from 0 to {n_classes - 1}, the last class, got {labels.min()} to {labels.max()}"
        )
