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

from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes
from lookalike.core.files import digest
from lookalike.core.progress import report
from lookalike.evaluation.evaluate import evaluate
from lookalike.evaluation.relevance import same_label, shared_tags
from lookalike.hashers.base import check_number
from lookalike.learning.checkpoints import read_checkpoint, write_checkpoint
from lookalike.learning.objectives import Objective, are_tags, make_objective

__all__ = ["Settings", "Training", "activations", "batches", "held_out", "train"]


@dataclass(frozen=True)
class Settings:
    """How to train; equal settings on equal data give equal weights on one machine, bit for bit."""

    loss: str = "tie-aware-ap"
    options: dict[str, Any] = field(default_factory=dict)  # of the loss, such as {"margin": "printed"}
    epochs: int = 30
    batch_size: int = 250
    together: int = 10  # items of a class that are drawn into one batch, where the class has as many
    optimizer: str = "adam"  # or "sgd", with a momentum of 0.9
    learning_rate: float = 1e-3
    weight_decay: float = 2e-3
    schedule: str = "cosine"  # of the learning rate; or "constant", or "steps": 40 % less after every fifth of the run
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
                raise ValueError(f"{name} must be {expected}, got {getattr(self, name)!r}")

        whole_number("epochs", self.epochs, 1)
        whole_number("batch_size", self.batch_size, 2)
        whole_number("together", self.together, 2, self.batch_size)
        for name in ("learning_rate", "alpha", "alpha_end"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name))
        require(self.learning_rate < 1e6, "learning_rate", "below a million")
        require(0 <= self.weight_decay < math.inf, "weight_decay", "0 or more")
        require(self.optimizer in ("adam", "sgd"), "optimizer", "adam or sgd")
        require(self.schedule in ("constant", "cosine", "steps"), "schedule", "constant, cosine or steps")
        require(0 <= self.validation < 1, "validation", "from 0 to below 1")
        if self.patience is not None:
            whole_number("patience", self.patience, 1)
            require(self.validation > 0, "patience", "None where no validation part is held out")

    def learning_rate_of(self, epoch: int) -> float:
        """The learning rate of an epoch, the first being 0."""
        if self.schedule == "cosine":
            return self.learning_rate * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        return self.learning_rate * (0.6 ** (epoch * 5 // self.epochs) if self.schedule == "steps" else 1)

    def alpha_of(self, epoch: int) -> float:
        """Alpha in an epoch, the first being 0."""
        if self.alpha_end is None or self.epochs == 1:
            return self.alpha
        return float(self.alpha * (self.alpha_end / self.alpha) ** (epoch / (self.epochs - 1)))


@dataclass(frozen=True)
class Training:
    """How it went: the figures of each epoch, and the epoch whose weights were kept."""

    history: list[dict[str, float]]  # epoch, loss, mAP of the held-out part (nan without one), alpha, seconds
    best_epoch: int


@dataclass
class _Run:
    """All that changes from epoch to epoch, and that a checkpoint therefore holds."""

    network: nn.Module
    objective: Objective
    optimizer: torch.optim.Optimizer
    best: dict[str, Any]  # the weights of the best epoch
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
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
        history, best_epoch = state["history"], state["best_epoch"]
        if not isinstance(history, list) or not 0 <= best_epoch <= len(history) or any("mAP" not in e for e in history):
            raise ValueError("there is no history")
        self.network.load_state_dict(state["best"])  # raises where they are of another network
        self.network.load_state_dict(state["network"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self.history, self.best, self.best_epoch = history, state["best"], best_epoch


def train(
    network: nn.Module,
    X: np.ndarray,
    y: Any,
    settings: Settings,
    *,
    augment: Callable[[Tensor], Tensor] | None = None,
    checkpoint: str | Path | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> Training:
    """Train a network in place; it ends in evaluation mode with the weights of the best epoch.

    network: any module that maps a batch of X to activations (n, n_bits). y: labels (n,); tags (n, tags) of 0/1; for
    the loss "dispersed-dsh-hierarchy" (n, 2), class and superclass. augment: changes a batch before it is learned
    from. checkpoint: a file that is written after every epoch, and gone on from where it exists. watch: is called with
    the figures of every epoch, when the network has its weights.
    """
    X = np.asarray(X)
    X = X.astype(np.float32) if X.dtype == np.float64 else X
    if len(y) != len(X):
        raise ValueError(f"there are {len(X)} items, but {len(y)} labels")
    n_bits, device = activations(network, X[:2]).shape[1], _device(network)
    with torch.random.fork_rng(devices=[]):  # what the caller draws at random is not touched
        torch.manual_seed(settings.seed)
        objective, targets = make_objective(settings.loss, y, n_bits, settings.options)
        objective.to(device)
        training, holding = held_out(targets, settings.validation, settings.seed)
        _check_classes(targets[training])
        optimizer = _make_optimizer([*network.parameters(), *objective.parameters()], settings)
        run = _Run(network, objective, optimizer, best=copy.deepcopy(network.state_dict()))
        about = {**_about(settings, network, X, targets), "bits": n_bits, "augment": augment is not None}
        if checkpoint is not None and Path(checkpoint).exists():
            state = read_checkpoint(checkpoint, about)
            try:
                run.load_state(state)
            except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
                raise ValueError(f"{checkpoint} is damaged: remove it, or name another, to start anew") from error

        for epoch in range(len(run.history), settings.epochs):
            if settings.patience is not None and epoch - run.best_epoch >= settings.patience:
                break
            started = time.perf_counter()
            network.train()
            objective.set_alpha(settings.alpha_of(epoch))
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate_of(epoch)
            losses = []
            drawn = batches(targets[training], settings.batch_size, settings.together, (settings.seed, epoch))
            for step, places in enumerate(drawn, 1):
                rows = training[places]
                items = torch.from_numpy(X[rows]).to(device)
                predicted = network(items if augment is None else augment(items))
                with _errors_of(f"epoch {epoch + 1}, step {step} of {len(drawn)}"):
                    loss = objective(predicted, torch.from_numpy(targets[rows]).to(device))
                    if not torch.isfinite(loss):
                        raise ValueError(f"the loss is {loss.item()}: lower the learning rate")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                report(_told(run.history), epoch * len(drawn) + step, settings.epochs * len(drawn))
            if not all(torch.isfinite(weight).all() for weight in network.parameters()):
                raise ValueError(f"epoch {epoch + 1}: weights are not finite after it: lower the learning rate")
            figures = {
                "epoch": epoch + 1,
                "loss": float(np.mean(losses)),
                "mAP": _score(network, X[holding], targets[holding]) if len(holding) else math.nan,
                "alpha": settings.alpha_of(epoch),
                "seconds": time.perf_counter() - started,
            }
            if not len(holding) or figures["mAP"] > max((past["mAP"] for past in run.history), default=-1):
                run.best, run.best_epoch = copy.deepcopy(network.state_dict()), epoch + 1
            run.history.append(figures)
            if checkpoint is not None:
                write_checkpoint(checkpoint, run.state(), about)
            if watch is not None:
                watch(figures)
    network.load_state_dict(run.best)
    network.eval()
    return Training(run.history, run.best_epoch)


def batches(targets: np.ndarray, batch_size: int, together: int, seed: int | tuple[int, ...]) -> list[np.ndarray]:
    """Places of all items in random batches, in which several items of a class come together.

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
        order = np.concatenate([groups[place] for place in random.permutation(len(groups))])
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
        raise ValueError(
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
    """Where a network computes."""
    return next((weight.device for weight in network.parameters()), torch.device("cpu"))


def _make_optimizer(parameters: list[nn.Parameter], settings: Settings) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, rate, weight_decay=decay)
    return torch.optim.SGD(parameters, rate, momentum=0.9, weight_decay=decay)


def _about(settings: Settings, network: nn.Module, X: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """What must be the same for a run to go on from a checkpoint."""
    return {
        **dataclasses.asdict(settings),
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
    except ValueError as error:
        raise ValueError(f"{step}: {error}") from error


def _score(network: nn.Module, X: np.ndarray, targets: np.ndarray) -> float:
    """Tie-aware mAP of held-out items that search each other: none was learned from, as in a real gallery.

    Of classes within superclasses, the superclass is what is searched for.
    """
    relevant = shared_tags if are_tags(targets) else same_label
    sought = targets if targets.ndim == 1 or are_tags(targets) else targets[:, 1]
    codes, own = Codes.pack(activations(network, X) > 0), np.arange(len(X))
    return float(evaluate(codes, codes, relevant(sought, sought), ["AP"], exclude=(own, own))["AP"].mean)


def _check_classes(targets: np.ndarray) -> None:
    if len(targets) < 2 or len(np.unique(targets, axis=0)) < 2:
        raise ValueError("all items have the same label: there is nothing to tell apart")


def _told(history: list[dict[str, float]]) -> str:
    if not history:
        return "training"
    last = history[-1]
    score = "" if math.isnan(last["mAP"]) else f", held-out mAP {last['mAP']:.3f}"
    return f"training: loss {last['loss']:.3f}{score}"
