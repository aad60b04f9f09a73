"""`lookalike train`."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.items import is_items, open_items
from lookalike.cli.options import (
    DATA_NAMES,
    FEATURES,
    FLAT,
    FORMAT,
    JSON,
    LABELS,
    SEED,
    SETTING,
    SOURCE,
    LabelOptions,
    chosen_format,
)
from lookalike.cli.outputs import Output
from lookalike.cli.tasks import level_of, task_and_shape
from lookalike.cli.terminal import progress, remark, rich_table, tables, tell
from lookalike.core.errors import FileError, InputError
from lookalike.core.tables.table import ResultTable, TableCell, TableHead

if TYPE_CHECKING:
    from lookalike.core.readers.source import Columns
    from lookalike.experiments.task import Task
    from lookalike.learning import LearnedHasher

DATA = Annotated[str, Parameter(help=f"{DATA_NAMES}, a folder of images, or a file of embeddings")]
LOSS = Annotated[
    str,
    Parameter(
        help="what is minimised: tie-aware-ap, tie-aware-dcg, dsh, dispersed-dsh, dispersed-dsh-hierarchy (of fine and "
        "coarse labels), mihash, dpsh, dtsh, hashnet, greedy-hash, csq, dpn, orthohash or cross-entropy"
    ),
]
BITS = Annotated[int, Parameter(help="length of the codes")]
OUTPUT = Annotated[Path, Parameter(help="where to write the hasher"), Output()]
NETWORK = Annotated[
    Literal["two-layer", "linear", "convolutions"] | None,
    Parameter(help="convolutions for pixels, two-layer for other features"),
]
EPOCHS = Annotated[int | None, Parameter(help="times that every training item is seen")]
BATCH_SIZE = Annotated[int | None, Parameter(help="items that rank each other in a step")]
LEARNING_RATE = Annotated[
    float | None, Parameter(name=("--lr", "--learning-rate"), help="of the first epoch; the schedule lowers it")
]
SCHEDULE = Annotated[
    Literal["cosine", "constant", "step"] | None,
    Parameter(help="how the learning rate falls: to 0 as a cosine (the default), never, or by steps"),
]
DROP = Annotated[float | None, Parameter(help="with --schedule step: the part that each step takes off (0.4)")]
EVERY = Annotated[int | None, Parameter(help="with --schedule step: epochs from step to step (a fifth of all)")]
OPTIMIZER = Annotated[Literal["adam", "sgd"] | None, Parameter(help="adam (the default), or sgd with momentum 0.9")]
WEIGHT_DECAY = Annotated[float | None, Parameter(help="how strongly weights are held small")]
ALPHA = Annotated[float | None, Parameter(help="sharpness of tanh in the tie-aware losses")]
ALPHA_END = Annotated[float | None, Parameter(help="let alpha grow to this (by default it stays)")]
MARGIN = Annotated[
    float | Literal["printed"] | None, Parameter(help="of dsh and the dispersed losses, in their distance")
]
BUFFERS = Annotated[
    Literal["one", "printed"] | None,
    Parameter(help="for dispersed-dsh-hierarchy: what a pair of a class pays, one buffer, or both as printed"),
]
GAIN = Annotated[Literal["exponential", "linear"] | None, Parameter(help="of a grade, in tie-aware-dcg")]
DISCOUNT = Annotated[Literal["log2", "reciprocal"] | None, Parameter(help="of a rank, in tie-aware-dcg")]
RELAXATION = Annotated[
    Literal["exact", "paper"] | None,
    Parameter(help="for the tie-aware losses: exact on codes, or with the paper's logarithms, shifted by 1/2"),
]
VALIDATION = Annotated[
    float | None,
    Parameter(help="part of the items that is held out to find the best epoch (0.1, if classes have 4)"),
]
PATIENCE = Annotated[int | None, Parameter(help="epochs without a better one after which to stop")]
CHECKPOINT = Annotated[
    Path | None, Parameter(help="written after every epoch; if it is there, training goes on from it"), Output()
]
COLUMNS = Annotated[LabelOptions, FLAT]
FILE = Path("lookalike-hasher.npz")
HIERARCHY = "dispersed-dsh-hierarchy"

__all__ = ["train"]


def train(
    *,
    data: DATA,
    features: FEATURES = "pixels",
    loss: LOSS = "tie-aware-ap",
    bits: BITS = 32,
    output: OUTPUT = FILE,
    network: NETWORK = None,
    epochs: EPOCHS = None,
    batch_size: BATCH_SIZE = None,
    learning_rate: LEARNING_RATE = None,
    schedule: SCHEDULE = None,
    drop: DROP = None,
    every: EVERY = None,
    optimizer: OPTIMIZER = None,
    weight_decay: WEIGHT_DECAY = None,
    alpha: ALPHA = None,
    alpha_end: ALPHA_END = None,
    margin: MARGIN = None,
    buffers: BUFFERS = None,
    gain: GAIN = None,
    discount: DISCOUNT = None,
    relaxation: RELAXATION = None,
    validation: VALIDATION = None,
    patience: PATIENCE = None,
    checkpoint: CHECKPOINT = None,
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    columns: COLUMNS = LabelOptions(),  # noqa: B008  # it never changes
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Learn a hasher from labels, with a network; hash and report take its file like a hasher's name.

    Example: lookalike train --data cifar10 --features efficientnet-lite0 --loss tie-aware-ap --bits 32 --output ap.npz

    Example: lookalike report cifar10 --features efficientnet-lite0 --hashers "ITQ ap.npz" --bits 32

    Example: lookalike train --data training.npz --bits 64 --checkpoint run.pt

    Example: lookalike train --data cifar10 --setting 2 --loss dispersed-dsh --batch-size 200 --epochs 750 --lr 0.01 \
--schedule step --drop 0.4 --every 150
    """
    options = {"margin": margin, "buffers": buffers, "gain": gain, "discount": discount, "relaxation": relaxation}
    _check_loss(loss, options | {"alpha": alpha, "alpha_end": alpha_end})
    _check_output(output)
    course: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "optimizer": optimizer, "network": network}
    course |= {"learning_rate": learning_rate, "schedule": schedule, "drop": drop, "every": every, "patience": patience}
    course |= {"weight_decay": weight_decay, "alpha": alpha, "alpha_end": alpha_end, "validation": validation}
    lesson = _lesson(_Source(data, features, source, labels, setting, seed, columns.columns), loss)
    hasher = _hasher(loss, bits, seed, lesson, course, options)
    seconds = _fit(hasher, lesson, checkpoint)
    hasher.save(output)
    told = hasher, lesson, seconds, None if lesson.task is None else _test(lesson.task, hasher), output
    epochs_table = _epochs(hasher, range(1, len(hasher.losses_) + 1))
    tell(chosen_format(form, as_json), lambda: _facts(*told), lambda: [epochs_table], lambda: _show(*told))


@dataclass(frozen=True)
class _Source:
    """Where the items come from, as the options say it."""

    data: str
    features: str
    source: Path | None
    labels: Path | None
    setting: int | None
    seed: int
    columns: "Columns"


@dataclass(frozen=True)
class _Lesson:
    """What is learned from. shape: of images, where items are their pixels. task: what to test on, if there is any."""

    items: Any
    labels: Any
    shape: tuple[int, ...] | None = None
    task: "Task | None" = None

    @property
    def level(self) -> str | None:
        """By which labels the queries are tested, "fine" or "coarse", where there are both."""
        return None if self.task is None else self.task.about.get("labels")

    def part_to_hold_out(self) -> float:
        """The part that is held out by default: a tenth, where a class is large enough to spare items."""
        import numpy as np

        return 0.1 if np.unique(self.labels, axis=0, return_counts=True)[1].max() >= 4 else 0.0


def _check_output(output: Path) -> None:
    """Raise where no hasher can be written, before any work is done."""
    from lookalike import hashers

    if output.suffix != ".npz":
        raise InputError(f"cannot write {output}: the name of a hasher's file must end in .npz")
    hashers.kind("LearnedHasher")  # says what to install


def _check_loss(loss: str, options: dict[str, Any]) -> None:
    """Raise where there is no such loss, or where an option is given that it does not have."""
    from lookalike.hashers import LEARNED

    if loss not in LEARNED:
        raise InputError(f"--loss must be one of {', '.join(LEARNED)}, got {loss}")
    for name, value in options.items():
        if value is not None and loss not in (having := _losses_with(name)):
            raise InputError(f"--{name.replace('_', '-')} is for {' and '.join(having)}, not for {loss}")


def _losses_with(option: str) -> list[str]:
    """The losses that have an option."""
    from lookalike.hashers import LEARNED

    exact = {
        "buffers": [HIERARCHY],
        "gain": ["tie-aware-dcg"],
        "discount": ["tie-aware-dcg"],
        "margin": ["dsh", "dispersed-dsh", HIERARCHY, "dtsh", "dpn", "orthohash"],
    }
    exact["alpha"] = exact["alpha_end"] = ["tie-aware-ap", "tie-aware-dcg", "mihash", "hashnet"]
    return exact.get(option, [loss for loss in LEARNED if "tie-aware" in loss])


def _hasher(
    loss: str, bits: int, seed: int, lesson: _Lesson, course: dict[str, Any], options: dict[str, Any]
) -> "LearnedHasher":
    """The hasher to fit. course: how it is trained; options: of the loss; None is what suits."""
    from lookalike import hashers

    if course["network"] == "convolutions" and lesson.shape is None:
        raise InputError("--network convolutions is for the pixels of a data set or of a folder of images")
    usual = {
        "network": "two-layer" if lesson.shape is None else "convolutions",
        "validation": lesson.part_to_hold_out(),
        "image_shape": lesson.shape,
        "options": {name: value for name, value in options.items() if value is not None} or None,
    }
    chosen = usual | {name: value for name, value in course.items() if value is not None}
    kind: Any = hashers.kind("LearnedHasher")
    hasher: LearnedHasher = kind(bits, loss=loss, random_state=seed, **chosen)
    return hasher


def _lesson(asked: _Source, loss: str) -> _Lesson:
    """What is learned from: the training part of a data set, or a file. A hierarchy is scored on coarse labels."""
    from lookalike import encoders

    features = encoders.load(asked.features).name
    if loss == HIERARCHY:
        if level_of(asked.labels) == "fine":
            raise InputError(
                f"{loss} learns from fine and coarse labels and is scored on coarse ones: not --labels fine"
            )
        asked = replace(asked, labels=asked.labels or Path("coarse"))
    if is_items(asked.data):
        if asked.source is not None or asked.setting is not None or features != "pixels":
            raise InputError(
                "--source, --setting and --features are for data sets and folders of images, not for files"
            )
        return _file_lesson(asked, loss)
    if asked.columns.named:
        raise InputError(f"--{min(asked.columns.named)} is for files of embeddings: {asked.data} has no columns")
    task, shape = task_and_shape(asked.data, asked.source, asked.labels, asked.setting, asked.seed, features)
    labels = task.training_levels if loss == HIERARCHY else task.training_labels
    if labels is None:
        raise InputError(f"{loss} learns from fine and coarse labels, which {asked.data} does not have")
    return _Lesson(task.training, labels, shape if features == "pixels" else None, task)


def _file_lesson(asked: _Source, loss: str) -> _Lesson:
    """The embeddings and labels of a file."""
    from lookalike.core.codes import Codes

    path, level = asked.data, level_of(asked.labels)
    items = open_items(path, asked.columns, asked.labels if level is None else None)
    if isinstance(items.vectors, Codes):
        raise FileError(f"{path} holds codes: a hasher learns from embeddings", path=path)
    if items.labels is None:
        raise FileError(
            f"{path} has no labels, which a network learns from: pass --labels, or use lookalike hash", path=path
        )
    if loss != HIERARCHY:
        return _Lesson(items.vectors, items.at_level(level).labels)
    if items.levels is None:
        needed = f"{loss} learns from fine and coarse labels: it needs arrays 'labels' and 'coarse_labels'"
        raise FileError(f"{path}: {needed}", path=path)
    return _Lesson(items.vectors, items.levels)


def _fit(hasher: "LearnedHasher", lesson: _Lesson, checkpoint: Path | None) -> float:
    """Learn, with a progress bar, and return how many seconds it took. Ctrl-C says how to go on."""
    started = time.perf_counter()
    try:
        with progress():
            hasher.fit(lesson.items, lesson.labels, checkpoint=checkpoint)
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            remark(f"stopped; the same command goes on from {checkpoint}")
        raise
    return time.perf_counter() - started


def _test(task: "Task", hasher: "LearnedHasher") -> dict[str, Any]:
    """Figures of the queries, none of which was learned from."""
    from lookalike.experiments.trials import try_hashers

    with progress():
        return try_hashers(task, [(hasher.title, hasher)]).rows()[0]


def _facts(
    hasher: "LearnedHasher", lesson: _Lesson, seconds: float, figures: dict[str, Any] | None, output: Path
) -> dict[str, Any]:
    """How training went, and the figures of the queries, for JSON."""
    about = {"hasher": str(output), "loss": hasher.loss, "bits": hasher.n_bits, "network": hasher.network}
    curves = {"loss": hasher.losses_.tolist(), "held_out_mAP": hasher.scores_.tolist()}
    how = {"items": len(lesson.items), "seconds": seconds, "best_epoch": hasher.best_epoch_, "curves": curves}
    labels = {"labels": lesson.level} if lesson.level is not None else {}
    return {**about, **how, **labels, "test": figures}


def _epochs(hasher: "LearnedHasher", epochs: Iterable[int]) -> ResultTable:
    """A row for each of some epochs: the loss, and what held-out items find."""
    found = f"held-out mAP{' of coarse labels' * (hasher.loss == HIERARCHY)}"
    rows = []
    for epoch in epochs:
        loss, score = float(hasher.losses_[epoch - 1]), float(hasher.scores_[epoch - 1])
        kept = f"{epoch} ← kept" if epoch == hasher.best_epoch_ else str(epoch)
        score_text = "–" if score != score else f"{score:.4f}"
        rows.append([TableCell(epoch, kept), TableCell(loss, f"{loss:.4f}"), TableCell(score, score_text)])
    return ResultTable.of(["epoch", TableHead("loss"), TableHead(found, main=True)], rows)


def _show(
    hasher: "LearnedHasher", lesson: _Lesson, seconds: float, figures: dict[str, Any] | None, output: Path
) -> None:
    """Print how training went, and the figures of the queries, as a table."""
    say = tables().print
    made = f"{len(lesson.items):,} items of {lesson.items.shape[1]:,} numbers → {hasher.n_bits} bits by {hasher.loss}"
    say(f"{made}, {hasher.network}: {len(hasher.losses_)} epoch{'s' * (len(hasher.losses_) > 1)} in {seconds:.1f} s\n")
    last = len(hasher.losses_)
    some = {1, *range(max(1, last // 8), last + 1, max(1, last // 8)), hasher.best_epoch_, last}
    say(rich_table(_epochs(hasher, sorted(some))))
    if figures is not None:
        quality = f"mAP {figures['mAP']:.4f} ({figures['worst']:.4f} to {figures['best']:.4f} by ties)"
        used = f"mLGAP@2 {figures['LGAP@2']:.4f}, {figures['distinct']:,} codes used"
        by = "" if lesson.level is None else f", by {lesson.level} labels"
        say(f"\nqueries, which were not learned from{by}: {quality}, {used}")
    say(f"the hasher is in {output}")
