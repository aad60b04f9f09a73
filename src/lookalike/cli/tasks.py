"""Data sets as tasks: what is searched for what, by which features."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.cli.terminal import progress

if TYPE_CHECKING:
    from lookalike.experiments.task import Task

__all__ = ["load", "rows_of", "task_and_shape"]


def task_and_shape(
    data: str, source: Path | None, labels: Path | None, setting: int | None, seed: int, features: str = "pixels"
) -> tuple["Task", tuple[int, ...]]:
    """What is searched for what in a data set, by these features, and the shape of its images."""
    from lookalike.encoders import load as load_encoder
    from lookalike.experiments.task import dataset_task

    features = load_encoder(features).name  # as it is written
    dataset = load(data, source, labels, features)
    rows, setting = rows_of(dataset, features), 1 if setting is None else setting
    task = dataset_task(dataset, setting, random_state=seed, features=features, rows_of=rows)
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


def load(name: str, source: Path | None, labels: Path | None, features: str = "pixels") -> Any:
    """A data set with a progress bar; a folder's images are as large as an encoder needs them."""
    from lookalike import datasets, encoders

    size = encoders.load(features).size
    with progress():
        return datasets.load(name, source=source, labels=labels, size=size)
