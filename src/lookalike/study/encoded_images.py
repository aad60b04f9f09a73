"""Rows of images by one encoder, found by the images' contents: what is encoded is kept, and never encoded twice."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.codes import Codes
from lookalike.core.files import digest, provenance, read_arrays, write_arrays
from lookalike.study.image_files import PRESENT, ImageFile
from lookalike.study.model import Recipe

if TYPE_CHECKING:
    from lookalike.encoders import Encoder

BATCH = 64  # images that are encoded at once: cut otherwise, numbers would be rounded otherwise
KEEP_EVERY = 2.0  # seconds of work that a kill may cost
ARRAYS = ("contents", "rows", "failed", "reasons")

__all__ = ["Rows"]


class Rows:
    """Rows by content, and of contents that have none the reasons; those of a run that was ended early are there."""

    def __init__(self, unfinished: Path, name: str, recipe: Recipe, max_pixels: int, encoder: Any = None) -> None:
        self.recipe, self.max_pixels, self.encoder = recipe, max_pixels, encoder
        made = json.dumps([asdict(recipe), max_pixels], sort_keys=True)
        self.folder = unfinished / f"{name}-{digest(np.array(made))}"
        self.rows: dict[str, np.ndarray] = {}
        self.reasons: dict[str, str] = {}
        for path in sorted(self.folder.glob("*.npz")):
            advice = f"{path} is damaged: remove it and encode again"
            try:
                arrays, about = read_arrays(path)
            except ValueError as error:
                raise ValueError(advice) from error
            if not set(ARRAYS) <= set(arrays) or about.get("digest") != digest(*(arrays[name] for name in ARRAYS)):
                raise ValueError(advice)
            self.rows |= zip(arrays["contents"].astype(str).tolist(), arrays["rows"], strict=True)
            self.reasons |= zip(arrays["failed"].astype(str).tolist(), arrays["reasons"].tolist(), strict=True)

    def know(self, rows: Mapping[str, np.ndarray]) -> None:
        """Take rows that were made before."""
        self.rows = {**rows, **self.rows}

    def of(self, contents: Sequence[str]) -> tuple[Any, str | None]:
        """The rows of these contents and their similarity; where the encoder gives codes, Codes and None."""
        from lookalike.encoders import kind_of

        assert self.recipe.encoder is not None
        kind = kind_of(self.recipe.encoder)
        found = np.array([self.rows[content] for content in contents])
        return (Codes.pack(found), None) if kind.gives_codes else (found, kind.similarity)

    def missing(self, files: Sequence[ImageFile]) -> dict[str, ImageFile]:
        """Contents of which nothing is known, each with its first file."""
        first: dict[str, ImageFile] = {}
        for file in files:
            if file.state == PRESENT and file.content not in self.rows and file.content not in self.reasons:
                first.setdefault(file.content, file)
        return first

    def encode(self, root: Path, files: Sequence[ImageFile], threads: int | None) -> int:
        """Encode what is missing of files below a root; how many contents could be.

        Rows are written at the ends of batches, so that a run that was ended early cuts the rest into the same batches.
        """
        from lookalike.encoders import encode_files

        first = self.missing(files)
        if not first:
            return 0
        contents, paths = [*first], [root / file.path for file in first.values()]
        found = encode_files(paths, self.encoder, batch=BATCH, threads=threads, max_pixels=self.max_pixels)
        new: dict[str, np.ndarray] = {}
        done, last = 0, time.monotonic()
        for positions, block in found:
            for at, row in zip(positions.tolist(), block, strict=True):
                if wrong := _changed(paths[at], first[contents[at]]) or _fault(row, self.encoder):
                    found.reasons[at] = wrong
                else:
                    new[contents[at]] = row
            if time.monotonic() - last > KEEP_EVERY:
                upto = (int(positions[-1]) // BATCH + 1) * BATCH
                failed = {at: reason for at, reason in found.reasons.items() if done <= at < upto}
                self._keep(new, _shortened(failed, contents, paths))
                self.rows |= new
                new, done, last = {}, upto, time.monotonic()
        self.rows |= new
        self.reasons |= _shortened(found.reasons, contents, paths)
        return len(first) - len(found.reasons)

    def _keep(self, rows: Mapping[str, np.ndarray], reasons: Mapping[str, str]) -> None:
        """Write rows, so that a kill does not lose them."""
        contents, failed = (np.array([*part], "S32") for part in (rows, reasons))
        parts = (contents, np.array([*rows.values()]), failed, np.array([*reasons.values()], str))
        self.folder.mkdir(exist_ok=True)
        number = max((int(path.stem) for path in self.folder.glob("*.npz")), default=-1) + 1
        about = provenance("rows", digest=digest(*parts))
        write_arrays(self.folder / f"{number:06}.npz", dict(zip(ARRAYS, parts, strict=True)), about)


def _shortened(reasons: Mapping[int, str], contents: Sequence[str], paths: Sequence[Path]) -> dict[str, str]:
    """Reasons by content, without the path that each begins with."""
    return {contents[at]: reason.removeprefix(f"{paths[at]} ").removeprefix("is ") for at, reason in reasons.items()}


def _changed(path: Path, file: ImageFile) -> str | None:
    """Why a row is not that of a file's content: it may have been written to since it was read."""
    try:
        now = path.stat()
    except OSError:
        return "gone since it was read: encode again"
    if (now.st_size, now.st_mtime_ns) != (file.size, file.modified):
        return "changed while it was encoded: encode again"
    return None


def _fault(row: np.ndarray, encoder: "Encoder") -> str | None:
    """Why a row cannot be compared with others; None where it can."""
    if not np.isfinite(row).all():
        return f"{encoder.name} makes numbers of it that are not finite"
    if encoder.similarity == "cosine" and not encoder.gives_codes and not row.any():
        return f"{encoder.name} makes nothing but zeros of it"
    return None
