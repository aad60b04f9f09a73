"""`lookalike data`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from lookalike.cli.options import DATA_NAMES, FEATURES, JSON, LABELS, SEED, SETTING, SOURCE
from lookalike.cli.outputs import Output
from lookalike.cli.tasks import level_of, load, rows_of
from lookalike.cli.terminal import print_json, progress, tables
from lookalike.core.errors import InputError

if TYPE_CHECKING:
    from lookalike.datasets import Dataset

NAME = Annotated[str, Parameter(help=f"{DATA_NAMES}, or a folder of images")]
OUTPUT = Annotated[
    Path | None,
    Parameter(help="a folder for queries.npz, training.npz and gallery.npz: features and labels"),
    Output(folder=True),
]
IMAGES = Annotated[
    Path | None,
    Parameter(
        help="a new or empty folder for the images: files, a subfolder for each class; of emoji, groceries and "
        "deepfashion also items.csv, which study new takes"
    ),
    Output(folder=True),
]
FIRST = Annotated[
    int | None,
    Parameter(help="how many of the images to write, equally many of each class", validator=validators.Number(gte=1)),
]
WILD = Annotated[
    str | None,
    Parameter(help="of emoji: a vendor whose drawings are the queries, in setting 2 and in items.csv and queries.csv"),
]
ACCEPT = Annotated[
    list[str] | None,
    Parameter(
        help="of emoji: a vendor whose narrower licence your use is within, apple or facebook; may be given several "
        "times",
        negative=(),
    ),
]

__all__ = ["data"]


def data(
    name: NAME,
    /,
    *,
    output: OUTPUT = None,
    images: IMAGES = None,
    first: FIRST = None,
    features: FEATURES = "pixels",
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    wild: WILD = None,
    accept_licence: ACCEPT = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Get a data set, say what is in it, and write its parts for other commands.

    Example: lookalike data cifar10 --output cifar10

    Example: lookalike data photos/ --labels photos.csv --features efficientnet-lite0 --output photos-parts

    Example: lookalike data fashion-mnist --images clothes --first 2000

    Example: lookalike data cifar100 --source cifar-100-binary.tar.gz --setting 2 --output cifar100

    Example: lookalike data emoji --images emoji --wild twitter
    """
    from lookalike.datasets.export import check_new

    if output is not None and output.exists() and not output.is_dir():
        raise InputError(f"cannot write into {output}: it is not a folder")
    if images is not None:
        check_new(images)  # before anything is fetched
    elif first is not None:
        raise InputError("--first says how many images to write: say where with --images")
    dataset = _wild(load(name, source, labels, features, accept_licence or ()), wild)
    setting = setting or (1 if wild is None else 2)
    split = dataset.split(setting, random_state=seed)
    rows = {"queries": split.queries, "training": split.training, "gallery": split.gallery}
    dataset = dataset.at_level(level_of(labels))  # splits are the same for fine and coarse labels
    parts = _Parts(dataset, setting, seed, rows)
    written = None if images is None else _write_images(_whole(dataset, name, source, labels), images, first, seed)
    if output is not None:
        _write_parts(parts, output, features)
    if as_json:
        _print_facts(parts, written, name)
    else:
        _show(parts, output, written, name)


def _wild(dataset: "Dataset", vendor: str | None) -> "Dataset":
    """The data set, with the drawings of this vendor as its queries."""
    return dataset if vendor is None else dataset.wild("vendor", vendor.lower())


def _whole(dataset: "Dataset", name: str, source: Path | None, labels: Path | None) -> "Dataset":
    """The data set with images of their full size, to write them."""
    from lookalike import datasets

    size = datasets.full_size(name)
    if size is None:
        return dataset
    with progress():
        return datasets.load(name, source=source, size=size).at_level(level_of(labels))


@dataclass(frozen=True)
class _Parts:
    """A data set, and the rows of its parts: queries, training and gallery."""

    dataset: "Dataset"
    setting: int
    seed: int
    rows: dict[str, Any]

    @property
    def sizes(self) -> dict[str, int]:
        """How many images each part has."""
        return {part: len(rows) for part, rows in self.rows.items()}


def _print_facts(parts: _Parts, written: dict[str, Any] | None, name: str) -> None:
    """Print what is in the data set, and what was written, as JSON."""
    from lookalike.datasets import licences

    dataset = parts.dataset
    facts = {"images": len(dataset), "shape": list(dataset.images.shape[1:]), "classes": list(dataset.classes)}
    if dataset.coarse is not None:
        facts["coarse_classes"] = list(dataset.coarse_classes)
    if dataset.identities is not None:
        facts["identities"] = len(set(dataset.identities.tolist()))
    if known := licences(name):
        facts["licences"] = known
    skipped = [{"file": str(path), "why": why} for path, why in dataset.unreadable]
    about = {"setting": parts.setting, "unreadable": skipped, "written": written}
    print_json({"name": dataset.name, **facts, **parts.sizes, **about})


def _show(parts: _Parts, output: Path | None, written: dict[str, Any] | None, name: str) -> None:
    """Print what is in the data set, and what was written where."""
    from lookalike.datasets import cache_folder, licences

    dataset, say = parts.dataset, tables().print
    within = f", within {len(dataset.coarse_classes)} coarse ones" if dataset.coarse is not None else ""
    say(repr(dataset).removeprefix("Dataset(").removesuffix(")") + within)
    if dataset.identities is not None:
        say(f"{len(set(dataset.identities.tolist())):,} identities")
    if known := licences(name):
        say("licences: " + ", ".join(f"{whose}: {licence}" for whose, licence in known.items()))
    say(f"setting {parts.setting}: " + ", ".join(f"{n:,} {part}" for part, n in parts.sizes.items()))
    if dataset.unreadable:
        say(f"{len(dataset.unreadable)} files could not be read and were left out:")
        for path, why in dataset.unreadable:
            say(f"  {path}: {why}")
    if output is not None:
        say(f"written to {output}/queries.npz, training.npz and gallery.npz")
    if written is not None:
        least, most = min(written["classes"].values()), max(written["classes"].values())
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        say(f"written to {written['folder']}: {written['images']:,} images, {each} of each class")
        if dataset.ids is not None:
            _say_next(Path(written["folder"]), "phase" in dataset.columns)
    if output is None and written is None:
        say(f"the cache is {cache_folder()}")


def _say_next(folder: Path, has_phases: bool) -> None:
    """Print how a study is made of the images that were written."""
    queries = f"--queries {folder / 'queries.csv'} --phase gallery" if has_phases else "--draw 100"
    tables().print(f"Next: lookalike study new STUDY --catalogue {folder / 'items.csv'} {queries}")


def _write_parts(parts: _Parts, output: Path, features: str) -> None:
    """Features and labels of each part as a file in a folder."""
    import numpy as np

    from lookalike.core.files import check_target, provenance, write_arrays

    dataset = parts.dataset
    output.mkdir(parents=True, exist_ok=True)
    for part in parts.rows:
        check_target(output / f"{part}.npz")
    about = provenance("items", data=dataset.name, features=features, setting=parts.setting, seed=parts.seed)
    encoded = rows_of(dataset, features)
    for part, rows in parts.rows.items():
        arrays = {"embeddings": encoded(rows), "labels": np.array(dataset.classes)[dataset.labels[rows]]}
        if dataset.coarse is not None:
            arrays["coarse_labels"] = np.array(dataset.coarse_classes)[dataset.coarse[rows]]
        write_arrays(output / f"{part}.npz", {**arrays, "ids": rows}, about)


def _write_images(dataset: Any, folder: Path, first: int | None, seed: int) -> dict[str, Any]:
    """Images as files in a folder; where they are, and how many of each class."""
    import numpy as np

    from lookalike.datasets import write_images

    with progress():
        rows = write_images(dataset, folder, first=first, random_state=seed)
    counts = np.bincount(dataset.labels[rows], minlength=len(dataset.classes)).tolist()
    return {"folder": str(folder), "images": len(rows), "classes": dict(zip(dataset.classes, counts, strict=True))}
