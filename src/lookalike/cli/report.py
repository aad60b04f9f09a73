"""`lookalike report`."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.counted import HowToJudge
from lookalike.cli.hashers import choose_all
from lookalike.cli.items import is_items, open_items
from lookalike.cli.options import FLAT, FORMAT, JSON, LABELS, REL, SEED, SETTING, SOURCE, LabelOptions, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.survey import STUDY_LENGTHS, limits, report_study
from lookalike.cli.tasks import level_of, task_and_shape
from lookalike.cli.terminal import say_how_to_open
from lookalike.cli.trials import LENGTHS, tell_trials, try_all
from lookalike.core.errors import FileError, InputError

if TYPE_CHECKING:
    from lookalike.core.readers.source import Columns
    from lookalike.experiments.task import Task

DATA = Annotated[
    str,
    Parameter(
        help="a data set or folder of images, hashed by their features; a study; or a file of queries, "
        "embeddings or codes"
    ),
]
GALLERY = Annotated[str | None, Parameter(help="with a file of queries: the file of the gallery")]
FEATURES = Annotated[
    str | None,
    Parameter(help="what stands for an image of a data set: pixels (the default), or efficientnet-lite0"),
]
HASHERS = Annotated[
    str | None,
    Parameter(
        help="names, losses to learn with, and files of saved hashers; by default the first eight without labels, "
        'of a study ITQ; "all": all without a network, with labels too'
    ),
]
BITS = Annotated[str | None, Parameter(help="lengths of the codes (12 24 48; of a study 32 64 128)")]
CODES = Annotated[
    list[str] | None, Parameter(help="codes made elsewhere, NAME=QUERIES,GALLERY; may be given several times")
]
FIT = Annotated[str | None, Parameter(help="embeddings to learn from, if not from the gallery")]
SIMILARITY = Annotated[
    Literal["cosine", "dot", "euclidean"] | None,
    Parameter(help="how the features themselves are searched, for comparison (euclidean)"),
]
NEAR = Annotated[
    str | None,
    Parameter(help='in a study, which items are near-duplicates, by model: such as "phash=6 dino=0.97"'),
]
STUDY_RULE = Annotated[
    Literal["majority", "unanimous", "dawid-skene", "verdict"] | None,
    Parameter(help="in a study that experts judged, how votes become judgements: majority by default"),
]
TITLE = Annotated[str | None, Parameter(help="of the report; by default the name of the data")]
OUTPUT = Annotated[Path, Parameter(help="where to write the report"), Output(".html")]
COLUMNS = Annotated[LabelOptions, FLAT]
PAGE = Path("lookalike-report.html")

__all__ = ["report"]


def report(
    data: DATA,
    gallery: GALLERY = None,
    /,
    *,
    features: FEATURES = None,
    hashers: HASHERS = None,
    bits: BITS = None,
    codes: CODES = None,
    fit: FIT = None,
    similarity: SIMILARITY = None,
    near: NEAR = None,
    rule: STUDY_RULE = None,
    title: TITLE = None,
    output: OUTPUT = PAGE,
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    columns: COLUMNS = LabelOptions(),  # noqa: B008  # it never changes
    rel: REL = None,
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Compare hashers on your data, or show what is in a study: one HTML file with numbers, charts and pictures.

    Of a study: near-duplicates, look-alikes, models compared, what shorter codes cost; with votes, the leaderboard.

    Example: lookalike report photos/ --features efficientnet-lite0 --hashers "ITQ SH tie-aware-ap" --bits "32 64"

    Example: lookalike report queries.npz gallery.npz --codes mine=my-queries.npz,my-gallery.npz

    Example: lookalike report shop --hashers "ITQ SH" --bits "32 64" --output shop.html
    """
    from lookalike.report import check_installed

    check_installed()
    of_images: dict[str, Any] = {"features": features, "setting": setting, "source": source, "labels": labels}
    named_columns, printed = dict[str, Any](columns.columns.named), chosen_format(form, as_json)
    if gallery is None and (Path(data) / "study.toml").is_file():
        of_files = {"codes": codes, "fit": fit, "title": title, "similarity": similarity, **named_columns}
        _refuse("is not for a study, whose models and labels are known", **of_images, **of_files)
        chosen = choose_all(hashers or "ITQ", bits or STUDY_LENGTHS, seed) if (hashers, bits) != (None, None) else None
        report_study(Path(data), output, chosen, limits(near), seed, printed, HowToJudge(rule, None, rel))
        return
    others = _checked_codes(codes, near, rule, rel)
    if gallery is None:
        _check_data_set(data, {"fit": fit, **named_columns})
        task, _ = task_and_shape(data, source, labels, setting, seed, features or "pixels")
    else:
        of_images["labels"] = None if (level := level_of(labels)) else labels
        _refuse("is for data sets and folders of images, not for files", **of_images)
        task = _items_task(data, gallery, fit, level, columns.columns)
        if task.gallery is None:
            _refuse("is for embeddings: these hold codes", hashers=hashers, bits=bits, fit=fit, similarity=similarity)
            others = [(Path(gallery).stem, data, gallery), *others]
    chosen = [] if task.gallery is None else choose_all(hashers, bits or LENGTHS, seed)
    task = replace(task, title=title or task.title, about=task.about | {"seed": seed})
    trials = try_all(task, chosen, _codes_from_files(task, others, columns.columns), similarity or "euclidean")
    tell_trials(trials, output, printed, None, lambda: say_how_to_open(output))


def _check_data_set(data: str, of_files: dict[str, Any]) -> None:
    """Raise where one file of two is passed in place of a data set, or what a data set does not need."""
    if is_items(data):
        raise InputError(f"pass two files, queries and gallery: {data} is one of them")
    _refuse("is for files of embeddings, not for a data set, which has its own training part", **of_files)


def _checked_codes(
    codes: list[str] | None, near: str | None, rule: str | None, rel: int | None
) -> list[tuple[str, str, str]]:
    """The codes that were made elsewhere; raises where an option of a study was passed, and there is none."""
    _refuse("is for a study, in which near-duplicates are looked for", near=near)
    _refuse("is for a study, in which experts vote", rule=rule, rel=rel)
    return list(map(_named_codes, codes or []))


def _refuse(why: str, **options: Any) -> None:
    """Raise where an option was passed that means nothing here."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"--{name} {why}")


def _items_task(queries: str, gallery: str, fit: str | None, level: str | None, columns: "Columns") -> "Task":
    """What is searched for what, in files of queries and of a gallery."""
    from lookalike.experiments.task import items_task

    training = None if fit is None else open_items(fit, columns)
    return items_task(open_items(queries, columns), open_items(gallery, columns), training, level=level)


def _named_codes(text: str) -> tuple[str, str, str]:
    """A name, and the files of codes of queries and gallery: NAME=QUERIES,GALLERY."""
    parts = re.fullmatch(r"([^=]+)=([^,]+),([^,]+)", text)
    if parts is None:
        raise InputError(f"--codes must be NAME=QUERIES,GALLERY, got {text!r}")
    return parts[1], parts[2], parts[3]


def _codes_from_files(task: "Task", files: list[tuple[str, str, str]], columns: "Columns") -> list[Any]:
    """Names, and the codes of queries and gallery that were made elsewhere."""
    from lookalike.core.codes import Codes
    from lookalike.core.readers.source import Columns

    alone = columns if task.gallery is None else Columns()  # files beside embeddings have columns of their own

    named = []
    for name, *paths in files:
        vectors = [open_items(path, alone).vectors for path in paths]
        for path, codes, n in zip(paths, vectors, (len(task.query_labels), len(task.gallery_labels)), strict=True):
            if not isinstance(codes, Codes) or len(codes) != n:
                kind = "codes" if isinstance(codes, Codes) else "embeddings"
                raise FileError(f"{path} must hold {n} codes, one for each item, got {len(codes)} {kind}", path=path)
        named.append((name, *vectors))
    return named
