"""What training minimises, by name: the losses of activations, and the plain classifier that they are compared with."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.core.checks import nearest
from lookalike.core.errors import InputError, Option
from lookalike.learning import losses
from lookalike.learning.labels import check_labels, check_tags

__all__ = ["HIERARCHY", "LOSSES", "Objective", "are_tags", "make_objective"]

HIERARCHY, CLASSIFIER = "dispersed-dsh-hierarchy", "cross-entropy"
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "tie-aware-ap": losses.tie_aware_ap,
    "tie-aware-dcg": losses.tie_aware_dcg,
    "dsh": losses.dsh,
    "dispersed-dsh": losses.dispersed_dsh,
    HIERARCHY: losses.dispersed_dsh_hierarchy,
    CLASSIFIER: nn.functional.cross_entropy,
}
RANKING = ("tie-aware-ap", "tie-aware-dcg")
LOSSES = tuple(FUNCTIONS)


def are_tags(targets: np.ndarray) -> bool:
    """Whether labels, as `make_objective` gives them, are tags, not numbers of classes."""
    return targets.dtype == np.uint8


class Objective(nn.Module):
    """A loss with its options; `alpha` may be set from step to step where it is one of them."""

    def __init__(self, name: str, n_bits: int, n_classes: int, options: dict[str, Any]) -> None:
        super().__init__()
        self.name, self.options = name, dict(options)
        if name == CLASSIFIER:
            self.classifier = nn.Linear(n_bits, n_classes)

    def forward(self, activations: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch; targets as `make_objective` had them."""
        if self.name == CLASSIFIER:
            # of relaxed bits: a classifier of the activations themselves learns signs that say less
            activations = self.classifier(torch.tanh(activations))
        columns = targets.T if self.name == HIERARCHY else [targets]
        return FUNCTIONS[self.name](activations, *columns, **self.options)

    def set_alpha(self, alpha: float) -> None:
        """The sharpness of tanh from now on; for losses without one, nothing."""
        if self.name in RANKING:
            self.options["alpha"] = alpha


def make_objective(name: str, y: Any, n_bits: int, options: dict[str, Any]) -> tuple[Objective, np.ndarray]:
    """A loss by its name, and labels as it takes them: numbers of classes, or 0/1 tags, in rows."""
    if name not in LOSSES:
        similar = nearest(name, LOSSES)
        hint = "" if similar is None else f"did you mean {similar}? "
        raise InputError(f"there is no loss {name!r}: {hint}Known are {', '.join(LOSSES)}")
    if name in RANKING and "alpha" in options:
        raise InputError(Option("alpha"), " is a setting of its own, not an option of the loss")
    try:
        inspect.signature(FUNCTIONS[name]).bind_partial(**options)
    except TypeError:
        raise InputError(f"{name} has no such options: {', '.join(map(repr, options))}") from None
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    columns = 2 if name == HIERARCHY else 1
    if y.ndim == columns:
        check_labels(y)
    if name == HIERARCHY and (y.ndim != 2 or y.shape[1] != 2):
        raise InputError(f"{name} needs labels in two columns, class and superclass, got {y.shape}")
    if name == CLASSIFIER and y.ndim != 1:
        raise InputError(f"{name} needs one label for each item, got {y.shape}")
    if y.ndim == 2 and columns == 1:
        check_tags(y)
        return Objective(name, n_bits, y.shape[1], options), y.astype(np.uint8)
    numbered = [np.unique(column, return_inverse=True)[1] for column in y.reshape(len(y), columns).T]
    targets = np.stack(numbered, axis=1).astype(np.int64)
    n_classes = int(targets[:, 0].max(initial=0)) + 1
    return Objective(name, n_bits, n_classes, options), targets if columns == 2 else targets[:, 0]
