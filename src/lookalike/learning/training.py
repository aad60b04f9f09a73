"""Training a network to hash: batches, steps, evaluation on what was held out. To be read from top to bottom."""

import contextlib
import copy
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.core.checks import equal_lengths, whole_number
from lookalike.core.codes import Codes
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.files import digest
from lookalike.core.progress import report
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label, shared_tags
from lookalike.hashers.base import check_number
from lookalike.learning.checkpoints import read_checkpoint, write_checkpoint
from lookalike.learning.objectives import Objective, are_tags, make_objective

STEPS = ("step", "steps")  # both mean the same

__all__ = ["Training", "TrainingSettings", "activations", "batches", "held_out", "train"]


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; equal settings on equal data give equal weights on one machine, bit for bit."""

    loss: str = "tie-aware-ap"
    options: dict[str, Any] = field(default_factory=dict)  # of the loss, such as {"margin": "printed"}
    epochs: int = 30
    batch_size: int = 250
    together: int = 10  # items of a class that are drawn into one batch, where the class has as many
    optimizer: str = "adam"  # or "sgd", with a momentum of 0.9
    learning_rate: float = 1e-3
    weight_decay: float = 2e-3
    schedule: str = "cosine"  # of the learning rate; or "constant", or "step", also written "steps"
    drop: float | None = None  # of "step": the part that the learning rate loses at each step (0.4)
    every: int | None = None  # of "step": the epochs after which it does so (a fifth of the run)
    alpha: float = 1.0  # of tanh(alpha · activations), in the ranking losses
    alpha_end: float | None = None  # what alpha grows to, by the same factor from epoch to epoch; None: it stays
    validation: float = 0.0  # part of the items that is held out, to find the best epoch
    patience: int | None = None  # epochs without a better one after which to stop; None: never
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):  # checkpoints are of plain values
                object.__setattr__(self, name, value.item())

        def require(right: bool, name: str, expected: str) -> None:
            if not right:
                value = getattr(self, name)
                raise InputError(Option(name), f" must be {expected}, got {value!r}", parameter=name, value=value)

        whole_number("epochs", self.epochs)
        whole_number("batch_size", self.batch_size, 2)
        whole_number("together", self.together, 2, self.batch_size)
        for name in ("learning_rate", "alpha", "alpha_end"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name))
        require(self.learning_rate < 1e6, "learning_rate", "below a million")
        require(0 <= self.weight_decay < math.inf, "weight_decay", "0 or more")
        require(self.optimizer in ("adam", "sgd"), "optimizer", "adam or sgd")
        self._check_schedule(require)
        require(0 <= self.validation < 1, "validation", "from 0 to below 1")
        if self.patience is not None:
            whole_number("patience", self.patience)
            require(self.validation > 0, "patience", "None where no validation part is held out")

    def _check_schedule(self, require: Callable[[bool, str, str], None]) -> None:
        """Raise where the schedule of the learning rate is none."""
        require(self.schedule in ("constant", "cosine", *STEPS), "schedule", "constant, cosine or step")
        for name in ("drop", "every"):
            if self.schedule not in STEPS and getattr(self, name) is not None:
                raise InputError(Option(name), " is for ", Option("schedule", "step"), f", not for {self.schedule}")
        if self.drop is not None:
            check_number("drop", self.drop)
            require(self.drop < 1, "drop", "below 1, the part of the learning rate that is lost")
        if self.every is not None:
            whole_number("every", self.every)
            require(self.every < self.epochs, "every", f"below the {self.epochs} epochs, or nothing ever drops")

    def learning_rate_of(self, epoch: int) -> float:
        """The learning rate of an epoch, the first being 0."""
        if self.schedule == "cosine":
            return self.learning_rate * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        if self.schedule == "constant":
            return self.learning_rate
        n_steps = epoch * 5 // self.epochs if self.every is None else epoch // self.every
        return float(self.learning_rate * (1 - (0.4 if self.drop is None else self.drop)) ** n_steps)

    def alpha_of(self, epoch: int) -> float:
        """Alpha in an epoch, the first being 0."""
        if self.alpha_end is None or self.epochs == 1:
            return self.alpha
        return float(self.alpha * (self.alpha_end / self.alpha) ** (epoch / (self.epochs - 1)))


@dataclass(frozen=True)
class Training:
    """How training went: the figures of each epoch, and the epoch of the weights that the network has now."""

    history: list[dict[str, float]]  # epoch, loss, mAP of the held-out part (nan without one), alpha, seconds
    best_epoch: int


def train(
    network: nn.Module,
    X: np.ndarray,
    y: Any,
    settings: TrainingSettings,
    *,
    augment: Callable[[Tensor], Tensor] | None = None,
    checkpoint: str | Path | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> Training:
    """Train a network in place; it ends in evaluation mode with the weights of the best epoch.

    network: any module that maps a batch of X to activations (n, n_bits). y: labels (n,); tags (n, tags) of 0/1; for
    the loss "dispersed-dsh-hierarchy" (n, 2), class and superclass. augment: changes a batch before it is learned
    from. checkpoint: a file that is written after every epoch; if it exists, training goes on from it. watch: is called
    with the figures of every epoch, when the network has its weights.
    """
    X = np.asarray(X)
    X = X.astype(np.float32) if X.dtype == np.float64 else X
    equal_lengths({"items": len(X), "labels": len(y)})
    n_bits = activations(network, X[:2]).shape[1]
    with torch.random.fork_rng(devices=[]):  # what the caller draws at random is not touched
        torch.manual_seed(settings.seed)
        objective, targets = make_objective(settings.loss, y, n_bits, settings.options)
        data = _divided(X, targets, settings)
        run = _begun(network, objective.to(_device(network)), settings)
        about = {**_about(settings, network, X, targets), "bits": n_bits, "augment": augment is not None}
        if checkpoint is not None and Path(checkpoint).exists():
            _resume(run, checkpoint, about)
        while not run.is_over(settings):
            figures = _train_epoch(run, data, settings, augment)
            if checkpoint is not None:
                write_checkpoint(checkpoint, run.state(), about)
            if watch is not None:
                watch(figures)
    network.load_state_dict(run.best)
    network.eval()
    return Training(run.history, run.best_epoch)


@dataclass(frozen=True, eq=False)
class _Data:
    """Items and their labels, and which rows are learned from and which are held out."""

    X: np.ndarray
    targets: np.ndarray
    training: np.ndarray
    holding: np.ndarray


def _divided(X: np.ndarray, targets: np.ndarray, settings: TrainingSettings) -> _Data:
    training, holding = held_out(targets, settings.validation, settings.seed)
    if len(training) < 2 or len(np.unique(targets[training], axis=0)) < 2:
        raise InputError("all items have the same label: there is nothing to tell apart")
    return _Data(X, targets, training, holding)


@dataclass
class _Run:
    """All that changes from epoch to epoch; a checkpoint holds it."""

    network: nn.Module
    objective: Objective
    optimizer: torch.optim.Optimizer
    best: dict[str, Any]  # the weights of the best epoch
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    def is_over(self, settings: TrainingSettings) -> bool:
        """Whether all epochs are done, or so many without a better one that training stops."""
        n_done = len(self.history)
        tired = settings.patience is not None and n_done - self.best_epoch >= settings.patience
        return tired or n_done >= settings.epochs

    def state(self) -> dict[str, Any]:
        """Tensors and plain values for a checkpoint."""
        return {
            "network": self.network.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "history": self.history,
            "best": self.best,
            "best_epoch": self.best_epoch,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; raises what torch raises if it is of something else."""
        self.network.load_state_dict(state["best"])  # raises if they are of another network
        self.network.load_state_dict(state["network"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self.history, self.best, self.best_epoch = state["history"], state["best"], state["best_epoch"]


def _begun(network: nn.Module, objective: Objective, settings: TrainingSettings) -> _Run:
    parameters, rate, decay = (
        [*network.parameters(), *objective.parameters()],
        settings.learning_rate,
        settings.weight_decay,
    )
    optimizer: torch.optim.Optimizer
    if settings.optimizer == "adam":
        optimizer = torch.optim.Adam(parameters, rate, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(parameters, rate, momentum=0.9, weight_decay=decay)
    return _Run(network, objective, optimizer, best=copy.deepcopy(network.state_dict()))


def _resume(run: _Run, checkpoint: str | Path, about: dict[str, Any]) -> None:
    """Go on from a checkpoint of the same settings, network and data."""
    state = read_checkpoint(checkpoint, about)
    damaged = FileError(f"{checkpoint} is damaged: remove it, or name another, to start anew", path=checkpoint)
    try:
        history, best_epoch = state["history"], state["best_epoch"]
        is_whole = isinstance(history, list) and 0 <= best_epoch <= len(history) and all("mAP" in e for e in history)
        if is_whole:
            run.load_state(state)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise damaged from error
    if not is_whole:
        raise damaged


def _train_epoch(
    run: _Run, data: _Data, settings: TrainingSettings, augment: Callable[[Tensor], Tensor] | None
) -> dict[str, float]:
    """Learn from every item once, and note the figures; the weights are kept if they are the best so far."""
    started, epoch = time.perf_counter(), len(run.history)
    run.network.train()
    run.objective.set_alpha(settings.alpha_of(epoch))
    for group in run.optimizer.param_groups:
        group["lr"] = settings.learning_rate_of(epoch)
    losses = _step_through(run, data, settings, augment)
    if not all(torch.isfinite(weight).all() for weight in run.network.parameters()):
        raise InputError(f"epoch {epoch + 1}: weights are not finite after it: lower the learning rate")
    has_held_out = len(data.holding) > 0
    score = _score(run.network, data.X[data.holding], data.targets[data.holding]) if has_held_out else math.nan
    figures = {
        "epoch": epoch + 1,
        "loss": float(np.mean(losses)),
        "mAP": score,
        "alpha": settings.alpha_of(epoch),
        "seconds": time.perf_counter() - started,
    }
    if not has_held_out or score > max((past["mAP"] for past in run.history), default=-1):
        run.best, run.best_epoch = copy.deepcopy(run.network.state_dict()), epoch + 1
    run.history.append(figures)
    return figures


def _step_through(
    run: _Run, data: _Data, settings: TrainingSettings, augment: Callable[[Tensor], Tensor] | None
) -> list[float]:
    """Change the weights once for each batch of an epoch; the losses of the batches."""
    epoch, device = len(run.history), _device(run.network)
    drawn = batches(data.targets[data.training], settings.batch_size, settings.together, (settings.seed, epoch))
    losses = []
    for step, positions in enumerate(drawn, 1):
        rows = data.training[positions]
        items = torch.from_numpy(data.X[rows]).to(device)
        predicted = run.network(items if augment is None else augment(items))
        with _errors_of(f"epoch {epoch + 1}, step {step} of {len(drawn)}"):
            loss = run.objective(predicted, torch.from_numpy(data.targets[rows]).to(device))
            if not torch.isfinite(loss):
                raise InputError(f"the loss is {loss.item()}: lower the learning rate")
        run.optimizer.zero_grad()
        loss.backward()
        run.optimizer.step()
        losses.append(loss.item())
        report(_progress_text(run.history), epoch * len(drawn) + step, settings.epochs * len(drawn))
    return losses


def batches(targets: np.ndarray, batch_size: int, together: int, seed: int | tuple[int, ...]) -> list[np.ndarray]:
    """Positions of all items in random batches, in which several items of a class come together.

    The items of each class are shuffled and cut into groups of `together`; the groups are shuffled and cut into
    batches. Items with tags are shuffled alone. A last batch of one item is left out, as it has nothing to rank.

    >>> batches(np.array([0, 1, 0, 1, 1, 1, 0, 0]), 4, 2, seed=0)
    [array([0, 7, 4, 3]), array([2, 6, 5, 1])]
    """
    random = np.random.default_rng(seed)
    if are_tags(targets):
        order = random.permutation(len(targets))
    else:
        classes = targets if targets.ndim == 1 else targets[:, 0]
        shuffled = random.permutation(len(classes))
        by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
        edges = np.flatnonzero(np.diff(classes[by_class])) + 1
        groups = [
            rows[start : start + together]
            for rows in np.split(by_class, edges)
            for start in range(0, len(rows), together)
        ]
        order = np.concatenate([groups[number] for number in random.permutation(len(groups))])
    cut = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    return [rows for rows in cut if len(rows) > 1]


def held_out(targets: np.ndarray, part: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows held out, the same part of each class (of tagged items, of all).

    Of a class two are held out or none: one alone would have nothing to find.
    """
    random = np.random.default_rng([seed, 1])
    classes = np.zeros(len(targets)) if are_tags(targets) else targets if targets.ndim == 1 else targets[:, 0]
    order = random.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    ends = [np.searchsorted(classes[order], classes[order], side) for side in ("left", "right")]
    sizes = ends[1] - ends[0]
    held = np.floor(part * sizes)
    held = np.where((held == 1) & (sizes >= 4), 2, np.where(held == 1, 0, held))
    holding = np.arange(len(order)) - ends[0] < held
    if part and not holding.any():
        most = int(sizes.max(initial=0))
        raise InputError(
            f"a validation part of {part} holds out nothing, as no class has more than {most} items: hold out a larger "
            "part, or 0 for none"
        )
    return np.sort(order[~holding]), np.sort(order[holding])


def activations(network: nn.Module, X: np.ndarray, batch_size: int = 256) -> np.ndarray:
    """What a network gives for items, (n, n_bits) of float32, in evaluation mode."""
    network.eval()
    device = _device(network)
    out = []
    with torch.inference_mode():
        for start in range(0, len(X), batch_size):
            block = X[start : start + batch_size]
            # all batches have one size, so that what an item gets does not depend on how many stand beside it
            filled = np.concatenate([block, np.zeros((batch_size - len(block), *X.shape[1:]), X.dtype)])
            out.append(network(torch.from_numpy(filled).to(device))[: len(block)].float().cpu().numpy())
    return np.concatenate(out) if out else activations(network, np.zeros((1, *X.shape[1:]), X.dtype))[:0]


def _device(network: nn.Module) -> torch.device:
    """The device that a network computes on."""
    return next((weight.device for weight in network.parameters()), torch.device("cpu"))


def _about(settings: TrainingSettings, network: nn.Module, X: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """What must be the same in a run that goes on from a checkpoint."""
    chosen = dataclasses.asdict(settings)
    for name in ("drop", "every"):  # checkpoints of earlier versions do not know them
        if chosen[name] is None:
            del chosen[name]
    return {
        **chosen,
        "network": repr(network),
        "weights": [list(weight.shape) for weight in network.state_dict().values()],
        "items": list(X.shape),
        "data": digest(X, targets),
    }


@contextlib.contextmanager
def _errors_of(step: str) -> Iterator[None]:
    """Within this block, errors say in which step they arose."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{step}: ", *error.args) from error


def _score(network: nn.Module, X: np.ndarray, targets: np.ndarray) -> float:
    """Tie-aware mAP of held-out items that search each other: none was learned from, as in a real gallery.

    Of classes within superclasses, the superclass is what is searched for.
    """
    relevant = shared_tags if are_tags(targets) else same_label
    sought = targets if targets.ndim == 1 or are_tags(targets) else targets[:, 1]
    codes, own = Codes.pack(activations(network, X) > 0), np.arange(len(X))
    return float(evaluate(codes, codes, relevant(sought, sought), ["AP"], exclude=(own, own))["AP"].mean)


def _progress_text(history: list[dict[str, float]]) -> str:
    if not history:
        return "training"
    last = history[-1]
    score = "" if math.isnan(last["mAP"]) else f", held-out mAP {last['mAP']:.3f}"
    return f"training: loss {last['loss']:.3f}{score}"
