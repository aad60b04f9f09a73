"""The rows of a data set's images, computed once: in parts, so that a run that was ended goes on where it was."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.files import digest, provenance, read_arrays, write_arrays
from lookalike.core.progress import track
from lookalike.datasets import Dataset, cache_folder
from lookalike.encoders.base import Encoder

logger = logging.getLogger("lookalike")

__all__ = ["features"]

PART = 5000  # images: half a minute of a small network's work


def features(dataset: Dataset, encoder: Encoder) -> np.ndarray:
    """The rows of every image of a data set, (n, n_features) of float32: computed once, then read from the cache."""
    if not encoder.is_cached:
        return encoder.encode(dataset.images)
    path = _path(dataset, encoder)
    kept = _recall(path, len(dataset))
    if kept is not None:
        return kept
    about = provenance("features", dataset=dataset.name, encoder=encoder.name, encoder_version=encoder.version)
    parts = {start: path.with_name(f"{path.stem}.from-{start}.npz") for start in range(0, len(dataset), PART)}
    blocks = _blocks(dataset.images, encoder, parts, about)
    rows = np.concatenate([*track(blocks, len(parts), f"encoding {dataset.name}")] or [encoder.encode(dataset.images)])
    if _keep(rows, path, about):
        for part in parts.values():
            part.unlink(missing_ok=True)
    return rows


def _blocks(
    images: np.ndarray, encoder: Encoder, parts: dict[int, Path], about: dict[str, Any]
) -> Iterator[np.ndarray]:
    """The rows part by part, each kept as soon as it is known."""
    keeping = True  # until that fails, which is said once
    for start, path in parts.items():
        block = images[start : start + PART]
        rows = _recall(path, len(block))
        if rows is None:
            rows = encoder.encode(block)
            keeping = keeping and _keep(rows, path, about)
        yield rows


def _path(dataset: Dataset, encoder: Encoder) -> Path:
    """The file of these rows: of other images or of another version of the encoder, it has another name."""
    name, encoded_by = (re.sub(r"[^\w.-]+", "-", name)[:64] for name in (dataset.name, encoder.name))
    contents = digest(dataset.images, np.array(encoder.version))
    return cache_folder() / "features" / f"{name}-{encoded_by}-{contents}.npz"


def _keep(rows: np.ndarray, path: Path, about: dict[str, Any]) -> bool:
    """Write rows, and whether that was possible; where that fails, say so and go on, as everything works without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, {"rows": rows}, {**about, "digest": digest(rows)})
    except (OSError, ValueError) as error:
        logger.warning("features of %s are computed anew each time: %s", about["dataset"], error)
        return False
    return True


def _recall(path: Path, n_images: int) -> np.ndarray | None:
    """The rows that were kept there; those that were altered are removed."""
    try:
        arrays, about = read_arrays(path)
        rows = arrays["rows"]
        if about.get("digest") != digest(rows) or len(rows) != n_images:
            raise ValueError(f"{path} was altered")
        return rows
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        logger.warning("removed %s, which is computed anew: %s", path, error)
        path.unlink(missing_ok=True)
        return None
