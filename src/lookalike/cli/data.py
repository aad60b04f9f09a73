"""`lookalike data`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, validators

from lookalike.cli.options import FEATURES, JSON, LABELS, SEED, SETTING, SOURCE
from lookalike.cli.outputs import Output
from lookalike.cli.tasks import load, rows_of
from lookalike.cli.terminal import print_json, progress, tables

__all__ = ["data"]


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
    encoded = rows_of(dataset, features)
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
