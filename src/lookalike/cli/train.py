"""`lookalike train`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.options import FEATURES, JSON, LABELS, SEED, SETTING, SOURCE
from lookalike.cli.outputs import Output
from lookalike.cli.tasks import task_and_shape
from lookalike.cli.terminal import print_json, progress, remark, table, tables
from lookalike.core.endings import ITEMS
from lookalike.core.errors import FileError, InputError

if TYPE_CHECKING:
    from lookalike.experiments.task import Task
    from lookalike.learning import LearnedHasher

DATA = Annotated[
    str, Parameter(help="digits, cifar10, cifar100, fashion-mnist, a folder of images, or a file of embeddings")
]
LOSS = Annotated[
    str, Parameter(help="what is minimised: tie-aware-ap, tie-aware-dcg, dsh, dispersed-dsh or cross-entropy")
]
BITS = Annotated[int, Parameter(help="length of the codes")]
OUTPUT = Annotated[Path, Parameter(help="where to write the hasher"), Output()]
NETWORK = Annotated[
    Literal["two-layer", "linear", "convolutions"] | None,
    Parameter(help="convolutions for pixels, two-layer for other features"),
]
EPOCHS = Annotated[int | None, Parameter(help="times that every training item is seen")]
BATCH_SIZE = Annotated[int | None, Parameter(help="items that rank each other in a step")]
LEARNING_RATE = Annotated[float | None, Parameter(help="of the first step; it falls to 0 as a cosine")]
WEIGHT_DECAY = Annotated[float | None, Parameter(help="how strongly weights are held small")]
ALPHA = Annotated[float | None, Parameter(help="sharpness of tanh in the tie-aware losses")]
ALPHA_END = Annotated[float | None, Parameter(help="let alpha grow to this (by default it stays)")]
MARGIN = Annotated[float | Literal["printed"] | None, Parameter(help="of dsh and dispersed-dsh, in their distance")]
VALIDATION = Annotated[
    float | None,
    Parameter(help="part of the items that is held out to find the best epoch (0.1, if classes have 4)"),
]
PATIENCE = Annotated[int | None, Parameter(help="epochs without a better one after which to stop")]
CHECKPOINT = Annotated[
    Path | None, Parameter(help="written after every epoch; if it is there, training goes on from it"), Output()
]
FILE = Path("lookalike-hasher.npz")

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
    weight_decay: WEIGHT_DECAY = None,
    alpha: ALPHA = None,
    alpha_end: ALPHA_END = None,
    margin: MARGIN = None,
    validation: VALIDATION = None,
    patience: PATIENCE = None,
    checkpoint: CHECKPOINT = None,
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Learn a hasher from labels, with a network; hash and report take its file like a hasher's name.

    Example: lookalike train --data cifar10 --features efficientnet-lite0 --loss tie-aware-ap --bits 32 --output ap.npz

    Example: lookalike report cifar10 --features efficientnet-lite0 --hashers "ITQ ap.npz" --bits 32

    Example: lookalike train --data training.npz --bits 64 --checkpoint run.pt
    """
    from lookalike import encoders, hashers

    if output.suffix != ".npz":
        raise InputError(f"cannot write {output}: the name of a hasher's file must end in .npz")
    kind: Any = hashers.kind("LearnedHasher")  # says what to install before any work is done
    _check_loss(loss, alpha=alpha, alpha_end=alpha_end, margin=margin)
    lesson = _lesson(data, encoders.load(features).name, source, labels, setting, seed)
    if network == "convolutions" and lesson.shape is None:
        raise InputError("--network convolutions is for the pixels of a data set or of a folder of images")
    options = {
        "network": network or ("two-layer" if lesson.shape is None else "convolutions"),
        "epochs": epochs,
        "batch_size": batch_size,
        "patience": patience,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "alpha": alpha,
        "alpha_end": alpha_end,
        "validation": lesson.part_to_hold_out() if validation is None else validation,
        "options": None if margin is None else {"margin": margin},
        "image_shape": lesson.shape,
    }
    options = {name: value for name, value in options.items() if value is not None}
    hasher: LearnedHasher = kind(bits, loss=loss, random_state=seed, **options)
    seconds = _fit(hasher, lesson, checkpoint)
    hasher.save(output)
    tell = _print_figures if as_json else _show
    tell(hasher, lesson.items, seconds, None if lesson.task is None else _test(lesson.task, hasher), output)


@dataclass(frozen=True)
class _Lesson:
    """What is learned from. shape: of images, where items are their pixels. task: what to test on, if there is any."""

    items: Any
    labels: Any
    shape: tuple[int, ...] | None = None
    task: "Task | None" = None

    def part_to_hold_out(self) -> float:
        """The part that is held out by default: a tenth, where a class is large enough to spare items."""
        import numpy as np

        return 0.1 if np.unique(self.labels, axis=0, return_counts=True)[1].max() >= 4 else 0.0


def _check_loss(loss: str, **options: Any) -> None:
    """Raise where there is no such loss, or where an option is given that it does not have."""
    from lookalike.hashers import LEARNED

    if loss not in LEARNED:
        raise InputError(f"--loss must be one of {', '.join(LEARNED)}, got {loss}")
    own = {"alpha", "alpha_end"} if loss.startswith("tie-aware") else {"margin"} if loss.endswith("dsh") else set()
    for name, value in options.items():
        if value is not None and name not in own:
            raise InputError(f"--{name.replace('_', '-')} is not for {loss}")


def _lesson(
    data: str, features: str, source: Path | None, labels: Path | None, setting: int | None, seed: int
) -> _Lesson:
    """What is learned from: the training part of a data set, or a file."""
    if Path(data).suffix in ITEMS:
        if source is not None or setting is not None or features != "pixels":
            raise InputError(
                "--source, --setting and --features are for data sets and folders of images, not for files"
            )
        return _file_lesson(Path(data), labels)
    task, shape = task_and_shape(data, source, labels, setting, seed, features)
    return _Lesson(task.training, task.training_labels, shape if features == "pixels" else None, task)


def _file_lesson(path: Path, labels: Path | None) -> _Lesson:
    """The embeddings and labels of a file."""
    from lookalike.core.codes import Codes
    from lookalike.evaluation.item_files import read_items

    items = read_items(path, labels)
    if isinstance(items.vectors, Codes):
        raise FileError(f"{path} holds codes: a hasher learns from embeddings", path=path)
    if items.labels is None:
        raise FileError(
            f"{path} has no labels, which a network learns from: pass --labels, or use lookalike hash", path=path
        )
    return _Lesson(items.vectors, items.labels)


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


def _print_figures(
    hasher: "LearnedHasher", items: Any, seconds: float, figures: dict[str, Any] | None, output: Path
) -> None:
    """Print how training went, and the figures of the queries, as JSON."""
    about = {"hasher": str(output), "loss": hasher.loss, "bits": hasher.n_bits, "network": hasher.network}
    curves = {"loss": hasher.losses_.tolist(), "held_out_mAP": hasher.scores_.tolist()}
    how = {"items": len(items), "seconds": seconds, "best_epoch": hasher.best_epoch_, "curves": curves}
    print_json({**about, **how, "test": figures})


def _show(hasher: "LearnedHasher", items: Any, seconds: float, figures: dict[str, Any] | None, output: Path) -> None:
    """Print how training went, and the figures of the queries, as a table."""
    say = tables().print
    made = f"{len(items):,} items of {items.shape[1]:,} numbers → {hasher.n_bits} bits by {hasher.loss}"
    say(f"{made}, {hasher.network}: {len(hasher.losses_)} epoch{'s' * (len(hasher.losses_) > 1)} in {seconds:.1f} s\n")
    rows = table(("loss", ""), ("held-out mAP", "bold"), first="epoch")
    last = len(hasher.losses_)
    for epoch in sorted({1, *range(max(1, last // 8), last + 1, max(1, last // 8)), hasher.best_epoch_, last}):
        score = hasher.scores_[epoch - 1]
        kept = " ← kept" if epoch == hasher.best_epoch_ else ""
        rows.add_row(f"{epoch}{kept}", f"{hasher.losses_[epoch - 1]:.4f}", "–" if score != score else f"{score:.4f}")
    say(rows)
    if figures is not None:
        quality = f"mAP {figures['mAP']:.4f} ({figures['worst']:.4f} to {figures['best']:.4f} by ties)"
        used = f"mLGAP@2 {figures['LGAP@2']:.4f}, {figures['distinct']:,} codes used"
        say(f"\nqueries, which were not learned from: {quality}, {used}")
    say(f"the hasher is in {output}")
