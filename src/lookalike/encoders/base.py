"""What all encoders share: images are checked, divided into batches and turned into embeddings."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.progress import track
from lookalike.core.threads import n_threads

__all__ = ["TEXT_SIDES", "Encoder"]

TEXT_SIDES = (
    "so that it cannot be searched by words: lookalike encode --model open_clip:NAME/TAG, hf:NAME of a CLIP or SigLIP "
    "network, or onnx:FILE with --text FILE makes a model that can"
)


class Encoder(ABC):
    """Images to embeddings of float32, a row for each image; rows of images that look alike are near each other.

    A subclass has a `name`, a `version`, `n_features`, its own preprocessing in `_prepare`, and `_rows`. The row of an
    image depends on that image alone, never on other images of its batch, except for the rounding of floats.
    """

    name: str  # `load(name)` gives the same encoder again
    size: int = 32  # images of a folder are made size × size before they are encoded
    enough: int | None = None  # pixels on either side; more of them change next to nothing. None: all are needed
    one_at_a_time: bool = False  # whether rows are made of single pictures, by many threads at once; else of batches
    is_cached: ClassVar[bool] = True  # whether rows take so long that `features` keeps them on disk
    gives_codes: ClassVar[bool] = False  # whether rows are bits, 0 or 1
    similarity: ClassVar[str] = "cosine"  # how a study compares rows
    takes_text: ClassVar[bool] = False  # whether there can be a text side, which puts words where their pictures are

    @property
    @abstractmethod
    def version(self) -> str:
        """A text that changes whenever the numbers would."""

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """How many numbers a row has; None where that depends on the images."""

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        """A picture as `_rows` takes it; for files, many threads do this ahead of `_rows`."""
        return picture

    def _prepare_file(self, picture: np.ndarray) -> np.ndarray:
        """The picture of a file, whatever its size, as `_rows` takes it."""
        return self._prepare(picture)

    def _make_ready(self) -> Any:
        """What `_rows` needs, loaded before many threads ask for it at once."""
        return None

    @abstractmethod
    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        """The rows of a few pictures that were prepared, at least one: (n, n_features) of float32."""

    def encode(self, images: np.ndarray | Sequence[Any], *, batch_size: int = 64) -> np.ndarray:
        """The rows of images, (n, n_features) of float32.

        images: an array (n, height, width) or (n, height, width, 3) of uint8, or a sequence of single pictures of any
        sizes: Pillow's, or (height, width) or (height, width, 3) of uint8. For files, see `encode_files`.
        """
        batch_size = whole_number("batch_size", batch_size)
        pictures = self._pictures(images)
        starts = range(0, len(pictures), batch_size)
        batches = (self._encoded(pictures[start : start + batch_size]) for start in starts)
        rows = np.empty((len(pictures), self.n_features or 0), np.float32)
        for start, batch in zip(starts, track(batches, len(starts), f"encoding ({self.name})"), strict=True):
            if start == 0 and self.n_features is None:
                rows = np.empty((len(pictures), batch.shape[1]), np.float32)
            rows[start : start + len(batch)] = batch
        return rows

    def _encoded(self, pictures: list[np.ndarray]) -> np.ndarray:
        """The rows of a batch of pictures."""
        if not self.one_at_a_time:
            return self._rows([*map(self._prepare, pictures)])
        self._make_ready()
        with ThreadPoolExecutor(min(n_threads(None), len(pictures)), "encoding") as pool:
            return np.concatenate([*pool.map(lambda picture: self._rows([self._prepare(picture)]), pictures)])

    def row(self, picture: np.ndarray) -> np.ndarray:
        """The row of one picture as that of its file would be, (1, n_features): (height, width[, 3]) of uint8."""
        return self._rows([self._prepare_file(_checked(np.asarray(picture), 0))])

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """The rows of texts, (n, n_features) of float32, comparable with those of images, if it has a text side."""
        raise InputError(f"{self.name} has no text side, {TEXT_SIDES}", value=texts)

    def codes(self, images: np.ndarray | Sequence[Any], *, batch_size: int = 64) -> Codes:
        """The codes of images, from an encoder that gives codes."""
        if not self.gives_codes:
            raise InputError(
                f"{self.name} gives numbers, not bits: learn a hasher on its rows, as in lookalike.hashers"
            )
        return Codes.pack(self.encode(images, batch_size=batch_size))

    def _pictures(self, images: np.ndarray | Sequence[Any]) -> list[np.ndarray]:
        """The images one by one; raises before any of them is encoded."""
        if not isinstance(images, Iterable) or isinstance(images, str):
            raise InputTypeError(f"pass many images as one array or as a list, a single one as [image], got {images!r}")
        return [_checked(_array(image), row) for row, image in enumerate(images)]


def _array(image: Any) -> np.ndarray:
    """An image as an array; one of Pillow's is turned upright, and made red, green and blue on white."""
    module = sys.modules.get("PIL.Image")  # if it is not loaded, no image can be one of Pillow's
    if module is not None and isinstance(image, module.Image):
        from lookalike.core.decode import upright

        return np.asarray(upright(image))
    return np.asarray(image)


def _checked(picture: np.ndarray, row: int) -> np.ndarray:
    shape = picture.shape
    if picture.dtype == np.uint8 and picture.size and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)):
        return picture
    raise InputError(
        f"image {row} must be (height, width) or (height, width, 3) of uint8, got {shape} of {picture.dtype}: "
        f"{_advice(picture)}"
    )


def _advice(picture: np.ndarray) -> str:
    """What to do about a picture that cannot be encoded.

    >>> _advice(np.zeros((8, 8, 4), np.uint8))
    'drop its transparency, image[:, :, :3]'
    """
    if picture.ndim == 3 and picture.shape[2] == 1:
        return "drop its last axis, image[:, :, 0]"
    if picture.ndim == 3 and picture.shape[2] == 4:
        return "drop its transparency, image[:, :, :3]"
    if picture.dtype.kind in "US" or (picture.dtype.kind == "O" and picture.ndim == 0):
        return "for files, use lookalike.encoders.encode_files"
    if picture.ndim not in (2, 3):
        return "pass many images as one array or as a list, a single one as [image]"
    if picture.dtype.kind == "f":
        return "scale it to 0 … 255, and round: np.rint(255 * image).astype(np.uint8) if it is from 0 to 1"
    if picture.dtype != np.uint8:
        return "scale it to 0 … 255, and convert it: image.astype(np.uint8)"
    return "leave out empty images" if not picture.size else "the last axis must be red, green and blue"
