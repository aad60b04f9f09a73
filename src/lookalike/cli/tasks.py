"""Data sets as tasks: what is searched for what, by which features."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.cli.terminal import progress

if TYPE_CHECKING:
    from lookalike.experiments.task import Task

__all__ = ["level_of", "load", "rows_of", "task_and_shape"]


def task_and_shape(
    data: str, source: Path | None, labels: Path | None, setting: int | None, seed: int, features: str = "pixels"
) -> tuple["Task", tuple[int, ...]]:
    """What is searched for what in a data set, by these features, and the shape of its images."""
    from lookalike.encoders import load as load_encoder
    from lookalike.experiments.task import dataset_task

    features = load_encoder(features).name  # as it is written
    level = level_of(labels)
    dataset = load(data, source, labels, features)
    rows, setting = rows_of(dataset, features), 1 if setting is None else setting
    task = dataset_task(dataset, setting, random_state=seed, features=features, level=level, rows_of=rows)
    return task, dataset.images.shape[1:]


def rows_of(dataset: Any, features: str) -> Callable[[Any], Any]:
    """What gives the features of these rows of a data set, encoded once for all."""
    from lookalike import encoders

    encoder = encoders.load(features)
    if not encoder.is_cached:
        return lambda rows: encoder.encode(dataset.images[rows])
    with progress():
        encoded = encoders.features(dataset, encoder)
    return lambda rows: encoded[rows]


def load(
    name: str, source: Path | None, labels: Path | None, features: str = "pixels", accept_licence: Sequence[str] = ()
) -> Any:
    """A data set with a progress bar; a folder's images are as large as an encoder needs them.

    Of fine and coarse labels it has both, whichever `labels` asks for.
    """
    from lookalike import datasets, encoders

    size, level = encoders.load(features).size, level_of(labels)
    with progress():
        dataset = datasets.load(
            name,
            source=source,
            labels=labels if level is None else None,
            size=size,
            accept_licence=accept_licence,
        )
    dataset.at_level(level)  # raises where there is none
    return dataset


def level_of(labels: Path | None) -> str | None:
    """Which labels `--labels` asks for, "fine" or "coarse"; None where it names a file, or nothing."""
    from lookalike.datasets import LEVELS

    return str(labels) if str(labels) in LEVELS else None
