"""Vectors of images by one encoder, found by the images' contents: no image is encoded twice."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.errors import FileError
from lookalike.core.files import digest, provenance, read_arrays, write_arrays
from lookalike.study.image_files import PRESENT, ImageFile
from lookalike.study.model import Recipe

if TYPE_CHECKING:
    from lookalike.encoders import Encoder

logger = logging.getLogger("lookalike")

BATCH = 64  # images that are encoded at once: other batches would round some numbers differently
KEEP_EVERY = 2.0  # seconds of work that a kill may cost
ARRAYS = ("contents", "rows", "failed", "reasons")

__all__ = ["EncodedImages", "read_encoded", "say_if_changed"]


@dataclass(eq=False)
class EncodedImages:
    """The vectors that an encoder makes of images, found by the images' contents.

    What `encode` adds is written to a folder from time to time, so that a run that is ended early loses little.
    """

    folder: Path  # for what is not yet in a model
    recipe: Recipe
    max_pixels: int
    encoder: Any  # None if nothing has to be encoded
    vectors: dict[str, np.ndarray] = field(default_factory=dict)  # by content
    reasons: dict[str, str] = field(default_factory=dict)  # why a content has no vector

    def add(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Add vectors that were made before."""
        self.vectors = {**vectors, **self.vectors}

    def vectors_of(self, contents: Sequence[str]) -> tuple[Any, str | None]:
        """The embeddings of these contents and their similarity; if the encoder gives codes, Codes and None."""
        from lookalike.encoders import kind_of

        assert self.recipe.encoder is not None
        kind = kind_of(self.recipe.encoder)
        vectors = np.array([self.vectors[content] for content in contents])
        return (Codes.pack(vectors), None) if kind.gives_codes else (vectors, kind.similarity)

    def missing(self, files: Sequence[ImageFile]) -> dict[str, ImageFile]:
        """Contents with neither a vector nor a reason, each with its first file."""
        first: dict[str, ImageFile] = {}
        for file in files:
            if file.state == PRESENT and file.content not in self.vectors and file.content not in self.reasons:
                first.setdefault(file.content, file)
        return first

    def encode(self, root: Path, files: Sequence[ImageFile], threads: int | None) -> int:
        """Encode what is missing of files below a root; how many contents could be.

        Vectors are written at the ends of batches, so that a run that goes on cuts the rest into the same batches.
        """
        from lookalike.encoders import encode_files

        first = self.missing(files)
        if not first:
            return 0
        contents, paths = [*first], [root / file.path for file in first.values()]
        encoded = encode_files(paths, self.encoder, batch=BATCH, threads=threads, max_pixels=self.max_pixels)
        new: dict[str, np.ndarray] = {}
        faults: dict[int, str] = {}  # of files that could be decoded
        done, last = 0, time.monotonic()
        for positions, block in encoded:
            for position, vector in zip(positions.tolist(), block, strict=True):
                if fault := _changed(paths[position], first[contents[position]]) or _fault(vector, self.encoder):
                    faults[position] = fault
                else:
                    new[contents[position]] = vector
            if time.monotonic() - last > KEEP_EVERY:
                end = (int(positions[-1]) // BATCH + 1) * BATCH
                reasons = encoded.short_reasons | faults
                self._write(new, {contents[at]: reasons[at] for at in sorted(reasons) if done <= at < end})
                self.vectors |= new
                new, done, last = {}, end, time.monotonic()
        self.vectors |= new
        reasons = encoded.short_reasons | faults
        self.reasons |= {contents[at]: reasons[at] for at in sorted(reasons)}
        return len(first) - len(reasons)

    def _write(self, vectors: Mapping[str, np.ndarray], reasons: Mapping[str, str]) -> None:
        """Write vectors, so that a kill does not lose them."""
        contents, failed = (np.array([*part], "S32") for part in (vectors, reasons))
        parts = (contents, np.array([*vectors.values()]), failed, np.array([*reasons.values()], str))
        self.folder.mkdir(exist_ok=True)
        number = max((int(path.stem) for path in self.folder.glob("*.npz")), default=-1) + 1
        about = provenance("rows", digest=digest(*parts))
        write_arrays(self.folder / f"{number:06}.npz", dict(zip(ARRAYS, parts, strict=True)), about)


def read_encoded(unfinished: Path, name: str, recipe: Recipe, max_pixels: int, encoder: Any = None) -> EncodedImages:
    """What a run that was ended early has encoded for a model, by the same recipe and limit."""
    made_by = json.dumps([asdict(recipe), max_pixels], sort_keys=True)
    images = EncodedImages(unfinished / f"{name}-{digest(np.array(made_by))}", recipe, max_pixels, encoder)
    for path in sorted(images.folder.glob("*.npz")):
        vectors, reasons = _read(path)
        images.vectors |= vectors
        images.reasons |= reasons
    return images


def say_if_changed(name: str, before: Recipe | None, now: Recipe) -> None:
    """Say that a model is made anew if its encoder has changed: vectors of two versions are never mixed."""
    if before is not None and before.version != now.version:
        logger.warning(
            "the encoder %s has changed since %r was made (it was %s, it is %s): all images are encoded again, since "
            "vectors of the two cannot be compared",
            now.encoder, name, before.version, now.version,
        )  # fmt: skip


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Vectors and reasons by content, from a file that was written while images were encoded."""
    damaged = FileError(f"{path} is damaged: remove it and encode again", path=path)
    try:
        arrays, about = read_arrays(path)
    except ValueError as error:
        raise damaged from error
    if not set(ARRAYS) <= set(arrays) or about.get("digest") != digest(*(arrays[name] for name in ARRAYS)):
        raise damaged
    vectors = dict(zip(arrays["contents"].astype(str).tolist(), arrays["rows"], strict=True))
    reasons = dict(zip(arrays["failed"].astype(str).tolist(), arrays["reasons"].tolist(), strict=True))
    return vectors, reasons


def _changed(path: Path, file: ImageFile) -> str | None:
    """Why a vector is not of a file's content: the file may have changed since its fingerprint was taken."""
    try:
        now = path.stat()
    except OSError:
        return "gone since it was read: encode again"
    if (now.st_size, now.st_mtime_ns) != (file.size, file.modified):
        return "changed while it was encoded: encode again"
    return None


def _fault(vector: np.ndarray, encoder: "Encoder") -> str | None:
    """Why a vector cannot be compared with others; None if it can."""
    if not np.isfinite(vector).all():
        return f"{encoder.name} makes numbers of it that are not finite"
    if encoder.similarity == "cosine" and not encoder.gives_codes and not vector.any():
        return f"{encoder.name} makes nothing but zeros of it"
    return None
