"""What fine-tuning learns from: pictures of one size in memory, and labels as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.core.checks import equal_lengths
from lookalike.core.errors import InputError, Option
from lookalike.core.files import digest
from lookalike.core.progress import track
from lookalike.encoders import TorchEncoder
from lookalike.encoders.preprocessing import Preprocessing
from lookalike.learning.labelled_heads import UNKNOWN

__all__ = ["FinetuningData", "PixelScale", "canvas_of", "finetuning_data", "scale_of"]

ROOM = 8 / 7  # pictures are kept this many times as large as the network sees them, to be cropped


@dataclass(frozen=True, eq=False)
class FinetuningData:
    """Pictures (n, canvas, canvas, 3) of uint8, and labels by kind, numbers of classes, -1 where there is none."""

    pictures: np.ndarray
    images: Any  # as they were given
    labels: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A fingerprint of pictures and labels."""
        return digest(self.pictures, *self.labels.values())

    def targets(self, kinds: Sequence[str]) -> np.ndarray:
        """Numbers of classes in columns, (n, kinds)."""
        columns = [self.labels[kind] for kind in kinds]
        return np.stack(columns, 1) if columns else np.zeros((len(self.pictures), 0), np.int64)


@dataclass(frozen=True, eq=False)
class PixelScale:
    """How pictures from 0 to 1 become what a network takes. size, small: of large and of small views."""

    black: Tensor  # (3, 1, 1), what the network takes for black
    white: Tensor
    size: int
    small: int

    def __call__(self, pictures: Tensor) -> Tensor:
        return self.black + pictures * (self.white - self.black)


def scale_of(encoder: TorchEncoder, network: torch.nn.Module) -> PixelScale:
    """How an encoder scales pixels, found by a black and a white picture."""
    ends = [encoder.preprocess([np.full((64, 64, 3), value, np.uint8)])[0] for value in (0, 255)]
    height, width = ends[0].shape[1:]
    middle = [end[:, height // 2, width // 2].reshape(3, 1, 1).clone() for end in ends]
    size = min(height, width)
    small = -(-size // 2)
    try:  # a network of patches may take one size alone
        with torch.inference_mode():
            network(torch.zeros(2, 3, small, small))
    except Exception:  # networks of any library raise whatever they raise
        small = size
    return PixelScale(middle[0], middle[1], size, small)


def finetuning_data(
    images: Any, identities: Any, categories: Any, encoder: TorchEncoder, kinds: Sequence[str]
) -> FinetuningData:
    """Pictures as they are learned from, with labels of these kinds; raises where a kind that is needed is missing."""
    labels: dict[str, np.ndarray] = {}
    for kind, values in (("identity", identities), ("category", categories)):
        if values is not None:
            equal_lengths({"images": len(images), f"{_plural(kind)}": len(values)})
            labels[kind] = _numbered(values)
    notes = [note for kind in kinds if (note := _check(kind, labels))]
    checked = encoder._pictures(images)
    return FinetuningData(_pictures(images, checked, canvas_of(encoder)), checked, labels, tuple(notes))


def canvas_of(encoder: TorchEncoder) -> int:
    """How large pictures are kept, in pixels on each side."""
    return round(min(encoder.preprocess([np.zeros((64, 64, 3), np.uint8)]).shape[2:]) * ROOM)


def _pictures(images: Any, checked: list[np.ndarray], canvas: int) -> np.ndarray:
    """The middle of each image made canvas × canvas; images of that size are taken as they are, without a copy."""
    if isinstance(images, np.ndarray) and images.shape[1:] == (canvas, canvas, 3):
        return images
    resize = Preprocessing((canvas, canvas), (0.0,) * 3, (1.0,) * 3)
    pictures = np.empty((len(images), canvas, canvas, 3), np.uint8)
    for row, picture in enumerate(track(checked, len(checked), "preparing")):
        pictures[row] = np.rint(255 * resize(picture))
    return pictures


def _plural(kind: str) -> str:
    return {"identity": "identities", "category": "categories"}[kind]


def _numbered(values: Any) -> np.ndarray:
    """Labels as numbers from 0; -1 for empty text."""
    values = np.asarray(values)
    numbers = np.unique(values, return_inverse=True)[1].astype(np.int64)
    if values.dtype.kind == "U":
        numbers = np.where(values == "", UNKNOWN, numbers)
    return numbers


def _check(kind: str, labels: dict[str, np.ndarray]) -> str | None:
    """Raise if a head has nothing to learn from; a sentence where it has little."""
    if kind not in labels or (labels[kind] == UNKNOWN).all():
        others = [other for other in labels if other != kind and not (labels[other] == UNKNOWN).all()]
        advice: list[str | Option] = [Option("labels", others[0]), ", or "] if others else []
        raise InputError(
            f"there are no {_plural(kind)} to learn from, which ", Option("labels", kind), " needs: give them, or ",
            *advice, Option("labels", "none"), " to learn from images alone",
        )  # fmt: skip
    sizes = np.unique(labels[kind][labels[kind] != UNKNOWN], return_counts=True)[1]
    if len(sizes) < 2:
        raise InputError(f"all images have the same {kind}: there is nothing to tell apart")
    alone = int((sizes == 1).sum())
    if alone == len(sizes):
        left = "changed views of it are all there is to learn from"
        return f"each {kind} has one image: {left}, and no {kind} can be searched for"
    if kind == "identity" and alone:
        return f"{alone:,} of {len(sizes):,} identities have one image: of these, changed views are learned from"
    return None
