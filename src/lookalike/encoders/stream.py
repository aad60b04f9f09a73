"""The embeddings of many image files: threads decode some files while others are encoded."""

import contextlib
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.decode import MAX_PIXELS, ImageError, decode_file, pixel_limit
from lookalike.core.errors import InputTypeError
from lookalike.core.progress import report
from lookalike.core.threads import n_threads
from lookalike.encoders.base import Encoder

__all__ = ["EncodedFiles", "encode_files"]

AHEAD = 2  # batches that are decoded while one is encoded
FEW = 8  # files that a thread reads before it encodes them: reading and encoding push each other out of the cache


class _Refusal(NamedTuple):
    """Why a file has no row."""

    sentence: str
    reason: str  # without the name of the file


class EncodedFiles:
    """The rows of files, batch by batch; `reasons` says why some files have none.

    short_reasons: the same without the names of the files, for lists that have the names already.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        encoder: Encoder,
        *,
        batch: int,
        threads: int | None,
        max_pixels: int,
        whole: bool,
    ) -> None:
        if isinstance(paths, str | Path):
            raise InputTypeError(f"paths must be a list of paths, got the single {paths!r}: pass [path]")
        self.paths, self.encoder, self.max_pixels = [*map(Path, paths)], encoder, max_pixels
        self.batch = whole_number("batch", batch)
        self.threads = n_threads(threads)
        self.enough = None if whole else encoder.enough
        self.reasons: dict[int, str] = {}
        self.short_reasons: dict[int, str] = {}

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions in `paths`, in order, (n,) of int64, and their rows, (n, n_features) of float32."""
        self.reasons.clear()
        self.short_reasons.clear()
        self.encoder._make_ready()
        start = time.monotonic()
        with (
            pixel_limit(self.max_pixels),
            ThreadPoolExecutor(self.threads, "decoding") as pool,
            contextlib.closing(self._outcomes(pool)) as ahead,
        ):
            for first in range(0, len(self.paths), self.batch):
                outcomes = dict(enumerate(islice(ahead, self.batch), first))
                readable = {row: image for row, image in outcomes.items() if not isinstance(image, _Refusal)}
                for row, outcome in outcomes.items():
                    if isinstance(outcome, _Refusal):
                        self.reasons[row], self.short_reasons[row] = outcome
                vectors = self._rows([*readable.values()]) if readable else None
                self._report(first + len(outcomes), time.monotonic() - start)
                if vectors is not None:
                    yield np.array([*readable], np.int64), vectors

    def _outcomes(self, pool: ThreadPoolExecutor) -> Generator[np.ndarray | _Refusal, None, None]:
        """What became of each file, in order; a few batches are read ahead."""
        few = 1
        if self.encoder.one_at_a_time:  # every thread has several turns, or one would have to wait for another
            few = max(1, min(FEW, self.batch, len(self.paths) // (4 * self.threads)))
        parts = (self.paths[at : at + few] for at in range(0, len(self.paths), few))
        wanted = -(-AHEAD * self.batch // few)
        ahead: deque[Future[list[np.ndarray | _Refusal]]] = deque()
        try:
            while True:
                ahead.extend(pool.submit(self._read, part) for part in islice(parts, wanted - len(ahead)))
                if not ahead:
                    return
                yield from ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()

    def _rows(self, images: list[np.ndarray]) -> np.ndarray:
        """The rows of a batch, of pictures that were prepared or, one at a time, encoded already."""
        return np.array(images) if self.encoder.one_at_a_time else self.encoder._rows(images)

    def _read(self, paths: Sequence[Path]) -> list[np.ndarray | _Refusal]:
        """Pictures as the encoder takes them, or their rows if it makes them one at a time; or why there are none."""
        outcomes = [*map(self._prepared, paths)]
        if not self.encoder.one_at_a_time:
            return outcomes
        return [each if isinstance(each, _Refusal) else self.encoder._rows([each])[0] for each in outcomes]

    def _prepared(self, path: Path) -> np.ndarray | _Refusal:
        """A picture as the encoder takes it, or why there is none."""
        try:
            picture = decode_file(path, self.max_pixels, self.enough)
        except ImageError as error:
            return _Refusal(str(error), error.reason)
        except (ValueError, OSError, MemoryError) as error:
            return _Refusal(str(error), str(error))
        try:
            return self.encoder._prepare_file(picture)
        except ValueError as error:
            reason = f"cannot be encoded: {error}"
        except MemoryError:
            reason = "cannot be encoded: it takes more memory than there is"
        return _Refusal(f"{path} {reason}", reason)

    def _report(self, done: int, seconds: float) -> None:
        rate = done / max(seconds, 1e-9)
        shown = f"{rate:,.0f} images/s" if rate >= 10 else f"{rate:.1f} images/s"
        left = _duration((len(self.paths) - done) / rate)
        report(f"encoding ({self.encoder.name}): {shown}, {left} left", done, len(self.paths))


def encode_files(
    paths: Sequence[str | Path],
    encoder: Encoder,
    *,
    batch: int = 64,
    threads: int | None = None,
    max_pixels: int = MAX_PIXELS,
    whole: bool = False,
) -> EncodedFiles:
    """The rows of image files: iterate for (positions, rows) of a batch each, in order; `reasons` tells of the others.

    threads decode ahead of the network, by default as many as there are cores. A picture of more than `max_pixels` is
    refused before it is decoded. Of large JPEGs, only as much is decoded as the encoder needs; `whole` decodes all.

    >>> from lookalike.encoders import Pixels
    >>> files = encode_files(["no-such.jpg"], Pixels())
    >>> list(files), files.reasons
    ([], {0: 'there is no file no-such.jpg'})
    """
    return EncodedFiles(paths, encoder, batch=batch, threads=threads, max_pixels=max_pixels, whole=whole)


def _duration(seconds: float) -> str:
    """A duration in words.

    >>> _duration(9.6), _duration(95), _duration(7300)
    ('10 s', '1 min 35 s', '2 h 1 min')
    """
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
