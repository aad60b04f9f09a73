"""What training minimises, by name: a loss of activations, what it takes, and what it has beside the network."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError, Option
from lookalike.learning import losses
from lookalike.learning.heads import BinaryTargets, Classifier
from lookalike.learning.labels import check_labels, check_tags

__all__ = ["HIERARCHY", "LOSSES", "Objective", "are_tags", "make_objective"]

HIERARCHY, CLASSIFIER = "dispersed-dsh-hierarchy", "cross-entropy"


def classify(activations: Tensor, labels: Tensor, head: Classifier, **options: Any) -> Tensor:
    """The cross-entropy of a classifier of relaxed bits: one of the activations themselves learns signs that say less.

    options: those of torch's cross_entropy.
    """
    return nn.functional.cross_entropy(head(torch.tanh(activations)), labels, **options)


@dataclass(frozen=True)
class LossKind:
    """A loss: its function, its head, and what it takes.

    head: is made of the number of bits and of classes, and given to the function after the labels. options_of: whose
    arguments are the options. alpha: whether codes are tanh(alpha · activations), with an alpha that may grow. tags:
    whether it takes several tags of an example.
    """

    function: Callable[..., Tensor]
    head: Callable[[int, int], nn.Module] | None = None
    options_of: Callable[..., Tensor] | None = None
    alpha: bool = False
    tags: bool = True


KINDS = {
    "tie-aware-ap": LossKind(losses.tie_aware_ap, alpha=True),
    "tie-aware-dcg": LossKind(losses.tie_aware_dcg, alpha=True),
    "dsh": LossKind(losses.dsh),
    "dispersed-dsh": LossKind(losses.dispersed_dsh),
    HIERARCHY: LossKind(losses.dispersed_dsh_hierarchy, tags=False),
    "mihash": LossKind(losses.mihash, alpha=True),
    "dpsh": LossKind(losses.dpsh),
    "dtsh": LossKind(losses.dtsh),
    "hashnet": LossKind(losses.hashnet, alpha=True),
    "greedy-hash": LossKind(losses.greedy_hash, head=Classifier),
    "csq": LossKind(losses.csq, head=BinaryTargets),
    "dpn": LossKind(losses.dpn, head=BinaryTargets),
    "orthohash": LossKind(losses.orthohash, head=BinaryTargets),
    CLASSIFIER: LossKind(classify, head=Classifier, options_of=nn.functional.cross_entropy, tags=False),
}
LOSSES = tuple(KINDS)


def are_tags(targets: np.ndarray) -> bool:
    """Whether labels, as `make_objective` gives them, are tags, not numbers of classes."""
    return targets.dtype == np.uint8


class Objective(nn.Module):
    """A loss with its options and its head; `alpha` may be set from step to step where it is one of them."""

    def __init__(self, name: str, n_bits: int, n_classes: int, options: dict[str, Any]) -> None:
        super().__init__()
        self.name, self.options, self.kind = name, dict(options), KINDS[name]
        self.head = None if self.kind.head is None else self.kind.head(n_bits, n_classes)

    def forward(self, activations: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch; targets as `make_objective` had them."""
        columns = targets.T if self.name == HIERARCHY else [targets]
        head = [] if self.head is None else [self.head]
        return self.kind.function(activations, *columns, *head, **self.options)

    def set_alpha(self, alpha: float) -> None:
        """The sharpness of tanh from now on; for losses without one, nothing."""
        if self.kind.alpha:
            self.options["alpha"] = alpha


def make_objective(name: str, y: Any, n_bits: int, options: dict[str, Any]) -> tuple[Objective, np.ndarray]:
    """A loss by its name, and labels as it takes them: numbers of classes, or 0/1 tags, in rows."""
    if name not in LOSSES:
        similar = nearest(name, LOSSES)
        hint = "" if similar is None else f"did you mean {similar}? "
        raise InputError(f"there is no loss {name!r}: {hint}Known are {', '.join(LOSSES)}")
    _check_options(name, options)
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    columns = 2 if name == HIERARCHY else 1
    if y.ndim == columns:
        check_labels(y)
    if name == HIERARCHY and (y.ndim != 2 or y.shape[1] != 2):
        raise InputError(f"{name} needs labels in two columns, class and superclass, got {y.shape}")
    if not KINDS[name].tags and columns == 1 and y.ndim != 1:
        raise InputError(f"{name} needs one label for each item, got {y.shape}")
    if y.ndim == 2 and columns == 1:
        check_tags(y)
        return Objective(name, n_bits, y.shape[1], options), y.astype(np.uint8)
    numbered = [np.unique(column, return_inverse=True)[1] for column in y.reshape(len(y), columns).T]
    targets = np.stack(numbered, axis=1).astype(np.int64)
    n_classes = int(targets[:, 0].max(initial=0)) + 1
    return Objective(name, n_bits, n_classes, options), targets if columns == 2 else targets[:, 0]


def _check_options(name: str, options: dict[str, Any]) -> None:
    """Raise where a loss has no such options, or they are not the user's to set there."""
    kind = KINDS[name]
    if kind.alpha and "alpha" in options:
        raise InputError(Option("alpha"), " is a setting of its own, not an option of the loss")
    try:
        inspect.signature(kind.options_of or kind.function).bind_partial(**options)
        is_own = "head" not in options
    except TypeError:
        is_own = False
    if not is_own:
        raise InputError(f"{name} has no such options: {', '.join(map(repr, options))}")
