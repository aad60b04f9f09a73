"""Fine-tuning the network of an encoder on images of a catalogue. To be read from top to bottom."""

import copy
import dataclasses
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.core.checks import choice, whole_number
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.progress import report
from lookalike.encoders import Encoder, FineTuned, TorchEncoder
from lookalike.encoders import load as load_encoder
from lookalike.encoders.finetuned import write_finetuned
from lookalike.encoders.torch_network import fingerprint
from lookalike.hashers.base import check_number
from lookalike.learning.checkpoints import read_checkpoint, write_checkpoint
from lookalike.learning.finetuning_data import FinetuningData, PixelScale, finetuning_data, scale_of
from lookalike.learning.held_out_retrieval import HeldOutRetrieval, hold_out
from lookalike.learning.labelled_heads import LabelledHeads
from lookalike.learning.onnx_export import write_onnx
from lookalike.learning.self_distillation import Course, SelfDistillation
from lookalike.learning.training import batches
from lookalike.learning.views import AUGMENTATIONS

HEADS = {"identity": ("identity",), "category": ("category",), "both": ("identity", "category"), "none": ()}
OBJECTIVES = ("cross-entropy", "tie-aware-ap", "dino")
SECONDS = 300.0  # after which a checkpoint is written within an epoch
TURNS = 5  # how many times over dino's teacher should become the student in a run; with 0.4 it learned nothing
AT_ONCE = 64  # images that are encoded together to be searched

logger = logging.getLogger("lookalike")

__all__ = ["HEADS", "OBJECTIVES", "FineTuning", "FinetuneSettings", "finetune"]


@dataclass(frozen=True)
class FinetuneSettings:
    """How to fine-tune; equal settings on equal data give equal weights on one machine, bit for bit.

    Epochs, batch size, weight decay and Adam without momentum are those of Barkan et al. 2023, appendix B. They print
    no learning rate and no augmentation; docs/guide/finetuning.md says how these were chosen.
    """

    labels: str = "identity"  # or "category", "both", "none"
    objective: str | None = None  # "cross-entropy" or "tie-aware-ap" of labels; "dino" without labels
    epochs: int = 50
    batch_size: int = 64
    learning_rate: float = 3e-4
    schedule: str = "constant"  # of the learning rate; or "cosine", down to 0
    weight_decay: float = 5e-5
    momentum: float = 0.0  # of Adam, its first beta
    augment: str = "light"  # of labelled images: "none", "light" or "strong"; dino has its own crops
    local_crops: int = 4  # small crops of each image in dino
    outputs: int = 1024  # of dino's projection head
    teacher_momentum: float = 0.996  # of dino's teacher at the beginning; it grows to 1. Runs of few steps need less
    teacher_temperature: float = 0.04  # from 0.3 of the run on; before, it grows from 0.04
    validation: float = 0.1  # part of the images that is held out, to be searched for after every epoch
    patience: int | None = None  # epochs without a better one after which to stop; None: never
    seed: int = 0

    def __post_init__(self) -> None:
        choice("labels", self.labels, tuple(HEADS))
        if self.objective is None:
            object.__setattr__(self, "objective", "dino" if self.labels == "none" else "cross-entropy")
        choice("objective", self.objective, OBJECTIVES)
        if (self.objective == "dino") != (self.labels == "none"):
            wanted = "learns from images alone" if self.objective == "dino" else "learns from labels"
            raise InputError(
                Option("objective", self.objective), f" {wanted}, not with ", Option("labels", self.labels)
            )
        choice("schedule", self.schedule, ("constant", "cosine"))
        choice("augment", self.augment, tuple(AUGMENTATIONS))
        for name, least in (("epochs", 1), ("batch_size", 2), ("local_crops", 0), ("outputs", 2)):
            whole_number(name, getattr(self, name), least)
        for name in ("learning_rate", "teacher_temperature"):
            check_number(name, getattr(self, name))
        for name in ("momentum", "teacher_momentum", "validation"):
            _in_range(name, getattr(self, name), below=1.0)
        _in_range("weight_decay", self.weight_decay)
        if self.patience is not None:
            whole_number("patience", self.patience)
            if self.labels == "none" or not self.validation:
                raise InputError(Option("patience"), " needs labels to learn, and images that are held out")

    def learning_rate_at(self, progress: float) -> float:
        """The learning rate when this part of the run is done."""
        return self.learning_rate * ((1 + math.cos(math.pi * progress)) / 2 if self.schedule == "cosine" else 1)


def _in_range(name: str, value: float, below: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        most = "" if below == math.inf else f" to below {below:g}"
        raise InputError(Option(name), f" must be a number from 0{most}, got {value!r}", parameter=name, value=value)


@dataclass(frozen=True, eq=False)
class FineTuning:
    """An encoder's network after fine-tuning, and how it went.

    history: the figures of each epoch; epoch 0 is the encoder as it was. best_epoch: that of the weights. notes: what
    is remarkable about the data. about: what a saved encoder says of itself.
    """

    encoder: TorchEncoder  # that was fine-tuned; it has its old weights
    network: nn.Module
    history: list[dict[str, float]]
    best_epoch: int
    notes: tuple[str, ...]
    about: dict[str, Any]

    def save(self, path: str | Path) -> FineTuned:
        """Write the encoder to a file that ends in .lookalike, and open it: an encoder like all others."""
        return write_finetuned(path, self.encoder, self.network, training=self.about)

    def save_onnx(self, path: str | Path) -> None:
        """Write the network to an ONNX file, and beside it FILE.json, for the encoder onnx:FILE and other programs."""
        write_onnx(path, self.encoder, self.network)


def finetune(
    encoder: str | Encoder,
    images: Any,
    *,
    identities: Any = None,
    categories: Any = None,
    settings: FinetuneSettings | None = None,
    checkpoint: str | Path | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> FineTuning:
    """Fine-tune an encoder on images: from identities, categories or both, or from the images alone.

    encoder: one with a network of PyTorch, or its name. images: as `encode` takes them. identities, categories: one
    for each image, whole numbers or texts; "" is none. What is not learned from is still searched for. checkpoint: a
    file that is written after every epoch, and every five minutes; if it exists, fine-tuning goes on from it. watch:
    is called with the figures of every epoch.
    """
    settings = FinetuneSettings() if settings is None else settings
    encoder = trainable(encoder)
    data = finetuning_data(images, identities, categories, encoder, HEADS[settings.labels])
    learned, held_out = hold_out(data.labels, len(data.pictures), settings.validation, settings.seed)
    _check_sizes(data, learned, settings)
    notes = (*data.notes, *_notes(settings, len(learned)))
    for note in notes:  # before hours are spent
        logger.warning("%s", note)
    with torch.random.fork_rng(devices=[]):  # what the caller draws at random is not touched
        torch.manual_seed(settings.seed)
        lesson = _lesson(encoder, data, learned, held_out, settings)
        run = _begun(lesson)
        about = _about(lesson, run.network)
        if checkpoint is not None and Path(checkpoint).exists():
            _resume(run, checkpoint, about)
        if not run.history:
            run.note({"epoch": 0, "loss": math.nan, "seconds": 0.0, **lesson.figures(run.network)}, lesson)
        while not run.is_over(settings):
            figures = _train_epoch(run, lesson, lambda: _keep(run, checkpoint, about))
            _keep(run, checkpoint, about)
            if watch is not None:
                watch(figures)
    run.network.load_state_dict(run.best)
    history = [{name: value for name, value in each.items() if value == value} for each in run.history]  # no nan
    facts = about | {"best_epoch": run.best_epoch, "history": history, "notes": list(notes)}
    return FineTuning(encoder, run.network.eval(), run.history, run.best_epoch, notes, facts)


def trainable(encoder: str | Encoder) -> TorchEncoder:
    """An encoder that has a network of PyTorch; raises for any other."""
    found = load_encoder(encoder) if isinstance(encoder, str) else encoder
    if not isinstance(found, TorchEncoder):
        raise InputError(
            f"{found.name} cannot be fine-tuned: it is not a network of PyTorch. Choose one of `lookalike encoders`, "
            "such as efficientnet-lite0 or mobilenet-v2, or timm:NAME, open_clip:NAME or hf:NAME"
        )
    return found


def _check_sizes(data: FinetuningData, learned: np.ndarray, settings: FinetuneSettings) -> None:
    if len(learned) < settings.batch_size:
        held = f" ({len(data.pictures) - len(learned)} are held out)" if len(learned) < len(data.pictures) else ""
        raise InputError(
            Option("batch_size", settings.batch_size), f" is above the {len(learned):,} images to learn from{held}: "
            "choose a smaller one",
        )  # fmt: skip
    if settings.objective == "tie-aware-ap":
        for kind in HEADS[settings.labels]:
            labels = data.labels[kind][learned]
            if np.unique(labels[labels >= 0], return_counts=True)[1].max(initial=0) < 2:
                raise InputError(
                    Option("objective", "tie-aware-ap"), f" needs two images of some {kind} to learn from, and each "
                    "has one: use ", Option("objective", "cross-entropy"),
                )  # fmt: skip


def _notes(settings: FinetuneSettings, n_learned: int) -> list[str]:
    """What is remarkable about the course: a teacher that stays where it is, from which nothing can be learned."""
    n_steps = settings.epochs * -(-n_learned // settings.batch_size)
    if settings.objective != "dino" or n_steps * (1 - settings.teacher_momentum) > TURNS / 2:
        return []
    enough = max(0.5, 1 - TURNS / n_steps)
    still = f"the teacher hardly moves in {n_steps:,} steps with a momentum of {settings.teacher_momentum:g}"
    return [f"{still}, so little is learned: give one of about {enough:.2g}, or more epochs"]


@dataclass(frozen=True, eq=False)
class _FinetuneLesson:
    """All that stays the same during a run."""

    encoder: TorchEncoder
    data: FinetuningData
    learned: np.ndarray  # rows to learn from
    held_out: HeldOutRetrieval
    targets: np.ndarray
    scale: PixelScale
    settings: FinetuneSettings

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Rows of an epoch in batches; in ranking, several images of an identity come together."""
        targets, settings = self.targets[self.learned], self.settings
        first = targets[:, 0] if targets.shape[1] and settings.objective == "tie-aware-ap" else np.arange(len(targets))
        drawn = batches(first, settings.batch_size, min(4, settings.batch_size), (settings.seed, epoch))
        return [self.learned[positions] for positions in drawn]

    def pictures(self, rows: np.ndarray) -> Tensor:
        """Pictures as they are learned from, from 0 to 1, and whole where nothing crops them."""
        if self.settings.augment == "none" and self.settings.labels != "none":
            prepared = self.encoder.preprocess([self.data.images[row] for row in rows])
            return (prepared - self.scale.black) / (self.scale.white - self.scale.black)
        return torch.from_numpy(self.data.pictures[rows]).permute(0, 3, 1, 2).float() / 255

    def figures(self, network: nn.Module) -> dict[str, float]:
        """Retrieval by held-out images."""
        network.eval()

        def embeddings_of(rows: np.ndarray) -> np.ndarray:
            starts = range(0, len(rows), AT_ONCE)
            with torch.inference_mode():
                parts = [
                    network(self.encoder.preprocess([self.data.images[row] for row in rows[start : start + AT_ONCE]]))
                    for start in starts
                ]
            return torch.cat(parts).float().numpy()

        return self.held_out.figures(embeddings_of)

    def score(self, figures: dict[str, float]) -> float:
        """What the best epoch has most of: the mean AP of what is learned; nan where nothing of it is measured."""
        found = [figures[f"{kind} AP"] for kind in HEADS[self.settings.labels] if f"{kind} AP" in figures]
        return float(np.mean(found)) if found else math.nan


def _lesson(
    encoder: TorchEncoder, data: FinetuningData, learned: np.ndarray, held: HeldOutRetrieval, settings: FinetuneSettings
) -> _FinetuneLesson:
    targets = data.targets(HEADS[settings.labels])
    return _FinetuneLesson(encoder, data, learned, held, targets, scale_of(encoder, encoder.network()), settings)


@dataclass
class _FinetuneRun:
    """All that changes from step to step; a checkpoint holds it."""

    network: nn.Module
    objective: Any  # LabelledHeads or SelfDistillation
    optimizer: torch.optim.Optimizer
    best: dict[str, Any]  # the weights of the best epoch
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # of the steps of this epoch
    clock: float = field(default_factory=time.monotonic)  # when the last checkpoint was written

    @property
    def epoch(self) -> int:
        """The epoch that is learned now, the first being 0."""
        return len(self.history) - 1

    def is_over(self, settings: FinetuneSettings) -> bool:
        """Whether all epochs are done, or so many without a better one that it stops."""
        tired = settings.patience is not None and self.epoch - self.best_epoch >= settings.patience
        return tired or self.epoch >= settings.epochs

    def note(self, figures: dict[str, float], lesson: _FinetuneLesson) -> None:
        """Take down the figures of an epoch; the weights are kept if they are the best after learning began."""
        score = lesson.score(figures)
        past = [lesson.score(each) for each in self.history[1:]]
        if self.history and (math.isnan(score) or score > max(past, default=-1)):
            trained = self.objective.trained(self.network)
            self.best, self.best_epoch = copy.deepcopy(trained.state_dict()), int(figures["epoch"])
        self.history.append(figures)
        self.losses = []

    def state(self) -> dict[str, Any]:
        """Tensors and plain values for a checkpoint."""
        modules = {name: getattr(self, name).state_dict() for name in ("network", "objective", "optimizer")}
        plain = {name: getattr(self, name) for name in ("best", "best_epoch", "history", "losses")}
        return {**modules, **plain, "random": torch.get_rng_state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; raises what torch raises if it is of something else."""
        self.network.load_state_dict(state["best"])
        for name in ("network", "objective", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        for name in ("best", "best_epoch", "history", "losses"):
            setattr(self, name, state[name])
        torch.set_rng_state(state["random"])


def _begun(lesson: _FinetuneLesson) -> _FinetuneRun:
    network = lesson.encoder.network()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # so convolutions learn twice as fast
    settings = lesson.settings
    n_features = lesson.encoder.n_features
    assert n_features is not None
    objective: nn.Module
    if settings.objective == "dino":
        course = Course(settings.teacher_momentum, settings.teacher_temperature)
        local = settings.local_crops
        objective = SelfDistillation(network, n_features, outputs=settings.outputs, local=local, course=course)
    else:
        n_classes = {kind: int(lesson.data.labels[kind].max()) + 1 for kind in HEADS[settings.labels]}
        draw = AUGMENTATIONS[settings.augment]
        objective = LabelledHeads(n_features, n_classes, draw, settings.objective == "tie-aware-ap")
    learned = [weight for weight in (*network.parameters(), *objective.parameters()) if weight.requires_grad]
    betas = (settings.momentum, 0.999)
    optimizer = torch.optim.Adam(learned, settings.learning_rate, betas, weight_decay=settings.weight_decay)
    return _FinetuneRun(network, objective, optimizer, best=copy.deepcopy(network.state_dict()))


def _about(lesson: _FinetuneLesson, network: nn.Module) -> dict[str, Any]:
    """What must be the same in a run that goes on from a checkpoint; a saved encoder says it too."""
    return {
        "encoder": lesson.encoder.name,
        "encoder_version": lesson.encoder.version,
        "weights": fingerprint(network),
        "images": len(lesson.data.pictures),
        "held_out": len(lesson.data.pictures) - len(lesson.learned),
        "data": lesson.data.digest,
        "torch": torch.__version__,
        **dataclasses.asdict(lesson.settings),
    }


def _keep(run: _FinetuneRun, checkpoint: str | Path | None, about: dict[str, Any]) -> None:
    if checkpoint is not None:
        write_checkpoint(checkpoint, run.state(), about)
        run.clock = time.monotonic()


def _resume(run: _FinetuneRun, checkpoint: str | Path, about: dict[str, Any]) -> None:
    """Go on from a checkpoint of the same settings, encoder and data."""
    state = read_checkpoint(checkpoint, about)
    try:
        run.load_state(state)
        is_whole = len(run.history) > run.best_epoch >= 0 and all("loss" in figures for figures in run.history)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise FileError(f"{checkpoint} is damaged: remove it, or name another, to start anew", path=checkpoint)


def _train_epoch(run: _FinetuneRun, lesson: _FinetuneLesson, keep: Callable[[], None]) -> dict[str, float]:
    """Learn from every image once, and note the figures. keep: writes a checkpoint."""
    settings, started, epoch = lesson.settings, time.perf_counter(), run.epoch
    drawn = lesson.batches(epoch)
    n_steps = settings.epochs * len(drawn)
    run.network.train()
    run.objective.train()
    first = len(run.losses)  # where a checkpoint was written within the epoch
    for step in range(first, len(drawn)):
        progress = (epoch * len(drawn) + step) / n_steps
        for group in run.optimizer.param_groups:
            group["lr"] = settings.learning_rate_at(progress)
        targets = torch.from_numpy(lesson.targets[drawn[step]])
        loss = run.objective.loss(run.network, lesson.pictures(drawn[step]), targets, lesson.scale)
        if not torch.isfinite(loss):
            raise InputError(f"epoch {epoch + 1}, step {step + 1}: the loss is {loss.item()}: lower the learning rate")
        run.optimizer.zero_grad()
        loss.backward()
        run.optimizer.step()
        run.objective.follow(run.network, progress + 1 / n_steps)
        run.losses.append(loss.item())
        spent = (time.perf_counter() - started) / (step + 1 - first)
        done = epoch * len(drawn) + step + 1
        report(_progress_text(run, spent * (n_steps - done)), done, n_steps)
        if time.monotonic() - run.clock > SECONDS:
            keep()
    figures = {"epoch": epoch + 1, "loss": float(np.mean(run.losses))}
    found = lesson.figures(run.objective.trained(run.network))
    run.note({**figures, "seconds": time.perf_counter() - started, **found}, lesson)
    return run.history[-1]


def _progress_text(run: _FinetuneRun, seconds_left: float) -> str:
    minutes = math.ceil(seconds_left / 60)
    left = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    figures = [f"{name} {value:.3f}" for name, value in run.history[-1].items() if name.endswith("Hit@1")]
    return ", ".join([f"fine-tuning: loss {np.mean(run.losses[-50:]):.3f}", *figures, f"{left} left"])
