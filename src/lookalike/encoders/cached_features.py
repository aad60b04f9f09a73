"""The embeddings of a data set, computed once and cached: in parts, so that an interrupted run goes on."""

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
    """The rows part by part; each part is kept as soon as it is computed."""
    keeping = True  # until that fails once; a second warning would not help
    for start, path in parts.items():
        block = images[start : start + PART]
        rows = _recall(path, len(block))
        if rows is None:
            rows = encoder.encode(block)
            keeping = keeping and _keep(rows, path, about)
        yield rows


def _path(dataset: Dataset, encoder: Encoder) -> Path:
    """The file of these rows; its name depends on the images and on the version of the encoder."""
    name, encoded_by = (re.sub(r"[^\w.-]+", "-", name)[:64] for name in (dataset.name, encoder.name))
    contents = digest(dataset.images, np.array(encoder.version))
    return cache_folder() / "features" / f"{name}-{encoded_by}-{contents}.npz"


def _keep(rows: np.ndarray, path: Path, about: dict[str, Any]) -> bool:
    """Write rows; whether that was possible. A failure is only a warning, since everything works without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, {"rows": rows}, {**about, "digest": digest(rows)})
    except (OSError, ValueError) as error:
        logger.warning("features of %s are computed anew each time: %s", about["dataset"], error)
        return False
    return True


def _recall(path: Path, n_images: int) -> np.ndarray | None:
    """The rows that were kept there; a file that was altered is removed."""
    try:
        arrays, about = read_arrays(path)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        problem = str(error)
    else:
        rows = arrays.get("rows")
        if rows is not None and about.get("digest") == digest(rows) and rows.shape[:1] == (n_images,):
            return rows
        problem = f"{path} was altered"
    logger.warning("removed %s, which is computed anew: %s", path, problem)
    path.unlink(missing_ok=True)
    return None
