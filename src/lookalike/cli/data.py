"""`lookalike data`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from lookalike.cli.outputs import Output
from lookalike.cli.terminal import JSON, SEED, print_json, progress, tables

if TYPE_CHECKING:
    from lookalike.experiments.task import Task

__all__ = ["data", "load", "task_and_shape"]

SOURCE = Annotated[Path | None, Parameter(help="the archive, if you have it already")]
LABELS = Annotated[Path | None, Parameter(help="for a folder of images: a CSV with the columns file and label")]
FEATURES = Annotated[str, Parameter(help="what stands for an image: pixels, or efficientnet-lite0")]
SETTING = Annotated[
    int | None,
    Parameter(help="1 (the default): 100 queries and 500 training images a class; 2: the official test part"),
]


def data(
    name: Annotated[str, Parameter(help="digits, cifar10, cifar100, fashion-mnist, or a folder of images")],
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(help="a folder for queries.npz, training.npz and gallery.npz: features and labels"),
        Output(folder=True),
    ] = None,
    images: Annotated[
        Path | None,
        Parameter(help="a new or empty folder for the images: PNG files, a subfolder for each class"),
        Output(folder=True),
    ] = None,
    first: Annotated[
        int | None,
        Parameter(
            help="how many of the images to write, equally many of each class", validator=validators.Number(gte=1)
        ),
    ] = None,
    features: FEATURES = "pixels",
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Get a data set, say what is in it, and write its parts for other commands.

    Example: lookalike data cifar10 --output cifar10

    Example: lookalike data photos/ --labels photos.csv --features efficientnet-lite0 --output photos-parts

    Example: lookalike data fashion-mnist --images clothes --first 2000
    """
    from lookalike.datasets import cache_folder
    from lookalike.datasets.export import check_new

    if output is not None and output.exists() and not output.is_dir():
        raise ValueError(f"cannot write into {output}: it is not a folder")
    if images is not None:
        check_new(images)  # before anything is fetched
    elif first is not None:
        raise ValueError("--first says how many images to write: say where with --images")
    dataset, setting = load(name, source, labels, features), 1 if setting is None else setting
    split = dataset.split(setting, random_state=seed)
    parts = {"queries": split.queries, "training": split.training, "gallery": split.gallery}
    written = None if images is None else _write_images(dataset, images, first, seed)
    if output is not None:
        _write_parts(dataset, parts, output, features, setting, seed)
    sizes = {part: len(rows) for part, rows in parts.items()}
    if as_json:
        skipped: Any = [{"file": str(path), "why": why} for path, why in dataset.unreadable]
        facts = {"images": len(dataset), "shape": list(dataset.images.shape[1:]), "classes": list(dataset.classes)}
        print_json(
            {"name": dataset.name, **facts, **sizes, "setting": setting, "unreadable": skipped, "written": written}
        )
        return
    say = tables().print
    say(repr(dataset).removeprefix("Dataset(").removesuffix(")"))
    say(f"setting {setting}: " + ", ".join(f"{n:,} {part}" for part, n in sizes.items()))
    if dataset.unreadable:
        say(f"{len(dataset.unreadable)} files could not be read and were left out:")
        for path, why in dataset.unreadable:
            say(f"  {path}: {why}")
    if output is not None:
        say(f"written to {output}/queries.npz, training.npz and gallery.npz")
    if written is not None:
        least, most = min(written["classes"].values()), max(written["classes"].values())
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        say(f"written to {images}: {written['images']:,} images, {each} of each class")
    if output is None and images is None:
        say(f"the cache is {cache_folder()}")


def _write_parts(dataset: Any, parts: dict[str, Any], output: Path, features: str, setting: int, seed: int) -> None:
    """Features and labels of each part as a file in a folder."""
    import numpy as np

    from lookalike.core.files import check_target, provenance, write_arrays

    output.mkdir(parents=True, exist_ok=True)
    for part in parts:
        check_target(output / f"{part}.npz")
    about = provenance("items", data=dataset.name, features=features, setting=setting, seed=seed)
    encoded = _rows_of(dataset, features)
    for part, rows in parts.items():
        arrays = {"embeddings": encoded(rows), "labels": np.array(dataset.classes)[dataset.labels[rows]]}
        write_arrays(output / f"{part}.npz", {**arrays, "ids": rows}, about)


def _write_images(dataset: Any, folder: Path, first: int | None, seed: int) -> dict[str, Any]:
    """Images as files in a folder; where they are, and how many of each class."""
    import numpy as np

    from lookalike.datasets import write_images

    with progress():
        rows = write_images(dataset, folder, first=first, random_state=seed)
    counts = np.bincount(dataset.labels[rows], minlength=len(dataset.classes)).tolist()
    return {"folder": str(folder), "images": len(rows), "classes": dict(zip(dataset.classes, counts, strict=True))}


def task_and_shape(
    data: str, source: Path | None, labels: Path | None, setting: int | None, seed: int, features: str = "pixels"
) -> tuple["Task", tuple[int, ...]]:
    """What is searched for what in a data set, by these features, and the shape of its images."""
    from lookalike.encoders import load as load_encoder
    from lookalike.experiments.task import dataset_task

    features = load_encoder(features).name  # as it is written
    dataset = load(data, source, labels, features)
    rows, setting = _rows_of(dataset, features), 1 if setting is None else setting
    task = dataset_task(dataset, setting, random_state=seed, features=features, rows_of=rows)
    return task, dataset.images.shape[1:]


def _rows_of(dataset: Any, features: str) -> Callable[[Any], Any]:
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
