"""`lookalike finetune`."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.options import FORMAT, JSON, SEED, SETTING, SOURCE, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import printable, progress, remark, rich_table, tables, tell
from lookalike.core.endings import FINETUNED
from lookalike.core.errors import InputError
from lookalike.core.tables.table import ResultTable, TableCell, TableHead

if TYPE_CHECKING:
    from lookalike.encoders import TorchEncoder
    from lookalike.learning import FinetuneSettings, FineTuning

DATA = Annotated[
    str, Parameter(help="a study, a data set by its name, or a folder of images in a folder for each category")
]
ENCODER = Annotated[
    str,
    Parameter(help="the network to begin with: efficientnet-lite0, timm:NAME, open_clip:NAME, hf:NAME, FILE.lookalike"),
]
LABELS = Annotated[
    Literal["identity", "category", "both", "none"],
    Parameter(help="what to learn: a head over identities, categories, both (losses added), or none: images alone"),
]
OBJECTIVE = Annotated[
    Literal["cross-entropy", "tie-aware-ap", "dino"] | None,
    Parameter(help="of labels cross-entropy (the default) or tie-aware-ap; without labels dino"),
]
OUTPUT = Annotated[Path, Parameter(help="where to write the encoder"), Output(ending=FINETUNED)]
ONNX = Annotated[
    Path | None,
    Parameter(help="write the network as ONNX too, with FILE.json beside it"),
    Output(ending=".onnx"),
]
CHECKPOINT = Annotated[
    Path | None,
    Parameter(help="written as it goes; if it is there, fine-tuning goes on from it (OUTPUT.checkpoint)"),
    Output(),
]
SIZE = Annotated[int | None, Parameter(help="pixels that the network sees, of encoders that let you choose")]
EPOCHS = Annotated[int, Parameter(help="times that every image is seen")]
BATCH_SIZE = Annotated[int, Parameter(help="images in a step")]
LEARNING_RATE = Annotated[float, Parameter(name=("--lr", "--learning-rate"), help="of Adam")]
SCHEDULE = Annotated[
    Literal["constant", "cosine"], Parameter(help="how the learning rate falls: never, or to 0 as a cosine")
]
WEIGHT_DECAY = Annotated[float, Parameter(help="how strongly weights are held small")]
MOMENTUM = Annotated[float, Parameter(help="of Adam, its first beta")]
AUGMENT = Annotated[
    Literal["none", "light", "strong"],
    Parameter(help="of labelled images: none, light (crops, mirror images), strong (other colours and blur too)"),
]
LOCAL_CROPS = Annotated[int, Parameter(help="of dino: small crops of each image")]
TEACHER_MOMENTUM = Annotated[
    float, Parameter(help="without labels: how much of itself the teacher keeps at each step; few steps need less")
]
VALIDATION = Annotated[float, Parameter(help="part of the images that is held out, to be searched for")]
PATIENCE = Annotated[int | None, Parameter(help="epochs without a better one after which to stop")]

__all__ = ["finetune"]


def finetune(
    data: DATA,
    /,
    *,
    encoder: ENCODER = "efficientnet-lite0",
    labels: LABELS = "identity",
    objective: OBJECTIVE = None,
    output: OUTPUT = Path("finetuned.lookalike"),
    onnx: ONNX = None,
    checkpoint: CHECKPOINT = None,
    size: SIZE = None,
    epochs: EPOCHS = 50,
    batch_size: BATCH_SIZE = 64,
    learning_rate: LEARNING_RATE = 3e-4,
    schedule: SCHEDULE = "constant",
    weight_decay: WEIGHT_DECAY = 5e-5,
    momentum: MOMENTUM = 0.0,
    augment: AUGMENT = "light",
    local_crops: LOCAL_CROPS = 4,
    teacher_momentum: TEACHER_MOMENTUM = 0.996,
    validation: VALIDATION = 0.1,
    patience: PATIENCE = None,
    setting: SETTING = None,
    source: SOURCE = None,
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Fine-tune an encoder on the images of a study or a data set; encode takes its file like an encoder's name.

    After each epoch, images that were held out search for their identity and their category. A run that was ended
    goes on where it was. docs/guide/finetuning.md says what was chosen, and why.

    Example: lookalike finetune shop-study --labels identity --size 64 --output shop-id.lookalike

    Example: lookalike finetune shop-study --labels none --epochs 20 --output shop-own.lookalike

    Example: lookalike encode shop --study shop-study --model shop-id.lookalike
    """
    from lookalike.learning.finetuning import FinetuneSettings
    from lookalike.learning.onnx_export import check_exportable

    course: dict[str, Any] = {"labels": labels, "objective": objective, "epochs": epochs, "batch_size": batch_size}
    course |= {"learning_rate": learning_rate, "schedule": schedule, "weight_decay": weight_decay, "seed": seed}
    course |= {"momentum": momentum, "augment": augment, "local_crops": local_crops, "validation": validation}
    settings = FinetuneSettings(**course, teacher_momentum=teacher_momentum, patience=patience)
    network = _encoder(encoder, size)
    if onnx is not None:
        check_exportable(network, onnx)
    images = _images(data, network, source, setting, seed)
    place = Path(f"{output}.checkpoint") if checkpoint is None else checkpoint
    tuning, seconds = _tuned(network, images, settings, place)
    tuning.save(output)
    if onnx is not None:
        tuning.save_onnx(onnx)
    if checkpoint is None:
        place.unlink(missing_ok=True)  # what it holds is in the encoder's file now
    told = tuning, settings, seconds, output
    epochs_table = _epochs(tuning, range(len(tuning.history)))
    tell(chosen_format(form, as_json), lambda: _facts(*told), lambda: [epochs_table], lambda: _show(*told))


@dataclass(frozen=True, eq=False)
class _LabelledImages:
    """Images with what is known of each."""

    images: Any
    identities: Any
    categories: Any


def _encoder(name: str, size: int | None) -> "TorchEncoder":
    """The encoder to fine-tune; raises for one that cannot be."""
    from lookalike import encoders
    from lookalike.learning.finetuning import trainable

    return trainable(encoders.load(name, **({} if size is None else {"size": size})))


def _images(data: str, encoder: "TorchEncoder", source: Path | None, setting: int | None, seed: int) -> _LabelledImages:
    """The images of a study, all of them; of a data set or a folder, its training part."""
    if (Path(data) / "study.toml").is_file():
        from lookalike.learning.finetuning_data import canvas_of
        from lookalike.study.finetuning_images import study_images
        from lookalike.study.study import Study

        if source is not None or setting is not None:
            raise InputError("--source and --setting are for data sets, not for studies")
        with progress():
            read = study_images(Study.open(data), canvas_of(encoder))
        for path, reason in read.skipped[:5]:
            remark(f"{printable(str(path))} is left out: {reason}")
        if len(read.skipped) > 5:
            remark(f"{len(read.skipped):,} images are left out in all")
        return _LabelledImages(read.images, read.identities, read.categories)
    from lookalike import datasets

    with progress():
        dataset = datasets.load(data, source=source, size=encoder.size)
    rows = dataset.split(1 if setting is None else setting, random_state=seed).training
    identities = getattr(dataset, "identities", None)
    return _LabelledImages(dataset.images[rows], None if identities is None else identities[rows], dataset.labels[rows])


def _tuned(
    encoder: "TorchEncoder", images: _LabelledImages, settings: "FinetuneSettings", checkpoint: Path
) -> tuple["FineTuning", float]:
    """The fine-tuned network, with a progress bar, and how many seconds it took. Ctrl-C says how to go on."""
    from lookalike.learning import finetune as finetune_encoder

    started = time.perf_counter()
    if checkpoint.exists():
        remark(f"going on from {checkpoint}")
    try:
        with progress():
            tuning = finetune_encoder(
                encoder,
                images.images,
                identities=images.identities,
                categories=images.categories,
                settings=settings,
                checkpoint=checkpoint,
            )
    except KeyboardInterrupt:
        if checkpoint.exists():
            remark(f"stopped; the same command goes on from {checkpoint}")
        raise
    return tuning, time.perf_counter() - started


def _facts(tuning: "FineTuning", settings: "FinetuneSettings", seconds: float, output: Path) -> dict[str, Any]:
    """How it went, for JSON."""
    about = {"encoder": str(output), "of": tuning.encoder.name, "labels": settings.labels}
    how = {"objective": settings.objective, "images": tuning.about["images"], "held_out": tuning.about["held_out"]}
    return {**about, **how, "seconds": seconds, "best_epoch": tuning.best_epoch, "history": tuning.history}


def _epochs(tuning: "FineTuning", epochs: Iterable[int]) -> ResultTable:
    """A row for each of some epochs: the loss, and what held-out images find."""
    names = [name for name in tuning.history[-1] if name.split()[0] in ("identity", "category")]
    rows = []
    for epoch in epochs:
        figures = tuning.history[epoch]
        mark = " (before)" if epoch == 0 else " ← kept" if epoch == tuning.best_epoch else ""
        loss = TableCell(figures["loss"], f"{figures['loss']:.4f}") if epoch else TableCell(None, "–")
        found = (TableCell(figures[name], f"{figures[name]:.4f}") for name in names)
        rows.append([TableCell(epoch, f"{epoch}{mark}"), loss, *found])
    return ResultTable.of(["epoch", TableHead("loss"), *(TableHead(name, main=True) for name in names)], rows)


def _show(tuning: "FineTuning", settings: "FinetuneSettings", seconds: float, output: Path) -> None:
    """Print how it went as a table: some epochs, with what held-out images found."""
    say = tables().print
    about, last = tuning.about, len(tuning.history) - 1
    learned = f"{about['images'] - about['held_out']:,} images, {about['held_out']:,} held out"
    what = f"labels {settings.labels}, {settings.objective}"
    say(f"{tuning.encoder.name}, {what}: {learned}, {last} epoch{'s' * (last > 1)} in {seconds:.1f} s\n")
    step = max(1, last // 8)
    epochs = _epochs(tuning, sorted({0, 1, *range(step, last + 1, step), tuning.best_epoch, last}))
    say(rich_table(epochs))
    if len(epochs.heads) == 2:
        say("no image was held out that has another to find, so nothing was searched for")
    say(f"the encoder is in {output}")
