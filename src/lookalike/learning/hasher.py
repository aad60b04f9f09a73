"""A learned hasher: a network instead of a projection, otherwise a hasher like all others."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, Option
from lookalike.hashers import Hasher
from lookalike.hashers.base import input_errors
from lookalike.learning.augment import flip_and_shift
from lookalike.learning.networks import NETWORKS, Standardised
from lookalike.learning.objectives import HIERARCHY
from lookalike.learning.training import TrainingSettings, activations, train

__all__ = ["LearnedHasher"]


class LearnedHasher(Hasher):
    """A hasher learned from labels: a network gives an activation for each bit, and its sign is the bit.

    loss: "tie-aware-ap", "tie-aware-dcg" (He et al. 2018), "dsh" (Liu et al. 2016), "dispersed-dsh",
    "dispersed-dsh-hierarchy" (Ding et al. 2018), "mihash" (Cakir et al. 2017), "dpsh" (Li et al. 2016), "dtsh" (Wang et
    al. 2016), "hashnet" (Cao et al. 2017), "greedy-hash" (Su et al. 2018), "csq" (Yuan et al. 2020), "dpn" (Fan et al.
    2020), "orthohash" (Hoe et al. 2021) or "cross-entropy", with `options` of that loss. network: "linear" or
    "two-layer" on standardised features; "convolutions" on rows of pixels, which need `image_shape`; a torch module,
    which is copied; or a function of n_features and n_bits that makes one. augment: learn from images that are flipped
    and shifted at random.
    schedule: of the learning rate, "cosine", "constant", or "step", which loses the part `drop` of it (0.4) after
    every `every` epochs (a fifth of the run).
    learning_rate and alpha: None is what suits standardised features (0.003 and 1) or other networks (0.001 and 10).
    The rest is as in lookalike.learning.Settings.
    """

    network_: nn.Module
    _checkpoint: str | Path | None
    learns_labels = True
    losses_: np.ndarray
    scores_: np.ndarray
    best_epoch_: int

    def __init__(
        self,
        n_bits: int = 32,
        *,
        loss: str = "tie-aware-ap",
        options: dict[str, Any] | None = None,
        network: str | nn.Module | Callable[[int, int], nn.Module] = "two-layer",
        hidden: int = 512,
        input_dropout: float = 0.5,
        dropout: float = 0.7,
        image_shape: tuple[int, ...] | None = None,
        augment: bool = False,
        epochs: int = 30,
        batch_size: int = 250,
        together: int = 10,
        optimizer: str = "adam",
        learning_rate: float | None = None,
        weight_decay: float = 2e-3,
        schedule: str = "cosine",
        drop: float | None = None,
        every: int | None = None,
        alpha: float | None = None,
        alpha_end: float | None = None,
        validation: float = 0.0,
        patience: int | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.n_bits = n_bits
        self.loss = loss
        self.options = options
        self.network = network
        self.hidden = hidden
        self.input_dropout = input_dropout
        self.dropout = dropout
        self.image_shape = image_shape
        self.augment = augment
        self.epochs = epochs
        self.batch_size = batch_size
        self.together = together
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.drop = drop
        self.every = every
        self.alpha = alpha
        self.alpha_end = alpha_end
        self.validation = validation
        self.patience = patience
        self.random_state = random_state

    @property
    def title(self) -> str:
        """The loss that it is learned with."""
        return self.loss

    @property
    def learns_levels(self) -> bool:
        """Whether it is fitted to labels in two columns, class and superclass."""
        return self.loss == HIERARCHY

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(self, X: Any, y: Any = None, *, checkpoint: str | Path | None = None) -> Self:
        """Learn from items in rows and a label for each; checkpoint: a file to go on from after an interruption."""
        if y is None:
            raise InputError("this hasher requires y to be passed, but the target y is None: labels to learn from")
        self._checkpoint = checkpoint
        try:
            return super().fit(X, y)
        finally:
            del self._checkpoint

    def _learn(self, X: np.ndarray, y: Any, random: np.random.RandomState) -> None:
        is_seed = isinstance(self.random_state, int | np.integer)
        seed = int(self.random_state) if is_seed else int(random.randint(2**31))  # type: ignore[arg-type]
        names = set(TrainingSettings.__dataclass_fields__) & set(self.get_params())
        chosen = {name: getattr(self, name) for name in names} | {"options": self.options or {}, "seed": seed}
        rate, alpha = (3e-3, 1.0) if self.network in ("linear", "two-layer") else (1e-3, 10.0)
        chosen["learning_rate"] = rate if self.learning_rate is None else self.learning_rate
        chosen["alpha"] = alpha if self.alpha is None else self.alpha
        chosen["together"] = min(self.together, self.batch_size)
        settings = TrainingSettings(**chosen)
        X = np.ascontiguousarray(X, np.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._make_network(X)
        n_activations = activations(network, X[:1]).shape[1]
        if n_activations != self.n_bits:
            raise InputError(
                f"the network gives {n_activations} activations for each item, but n_bits is {self.n_bits}"
            )
        change = flip_and_shift(self._shape()) if self.augment else None
        training = train(network, X, np.asarray(y), settings, augment=change, checkpoint=self._checkpoint)
        self.network_ = network
        self.losses_ = np.array([epoch["loss"] for epoch in training.history])
        self.scores_ = np.array([epoch["mAP"] for epoch in training.history])
        self.best_epoch_ = training.best_epoch

    def _make_network(self, X: np.ndarray) -> nn.Module:
        if isinstance(self.network, nn.Module):
            return copy.deepcopy(self.network)
        if not isinstance(self.network, str):
            return self.network(X.shape[1], self.n_bits)
        whole_number("hidden", self.hidden)
        if self.network not in NETWORKS:
            raise InputError(f"there is no network {self.network!r}: known are {', '.join(NETWORKS)}")
        if self.network == "convolutions":
            return NETWORKS[self.network](self.n_bits, self._shape())
        sizes: dict[str, Any] = {"input_dropout": self.input_dropout}
        if self.network == "two-layer":
            sizes |= {"hidden": self.hidden, "dropout": self.dropout}
        return Standardised(NETWORKS[self.network](X.shape[1], self.n_bits, **sizes), X)

    def _shape(self) -> tuple[int, ...]:
        if self.image_shape is None:
            raise InputError(
                "items are rows of numbers: pass ",
                Option("image_shape"),
                ", such as (32, 32, 3), to see pictures in them",
            )
        shape = tuple(np.ravel(self.image_shape).tolist())
        if len(shape) not in (2, 3) or min(shape) < 1:
            raise InputError(
                Option("image_shape"),
                f" must be (height, width) or (height, width, channels), got {self.image_shape}",
            )
        if math.prod(shape) != self.n_features_in_:
            raise InputError(f"images of {shape} have {math.prod(shape)} pixels, but items have {self.n_features_in_}")
        return shape

    def project(self, X: Any) -> np.ndarray:
        """The activations behind the bits, (n_items, n_bits) of float32; a bit is 1 where its activation is above 0."""
        with input_errors():
            check_is_fitted(self)
            X = validate_data(self, X, dtype="numeric", reset=False)
        with np.errstate(over="ignore"):
            values = activations(self.network_, np.ascontiguousarray(X, np.float32))
        if not np.isfinite(values).all():
            raise InputError("Input X contains values too large for float32: scale the items")
        return values

    def transform(self, X: Any) -> Codes:
        """The codes of items in rows."""
        codes = Codes.pack(self.project(X) > 0)
        return Codes(codes.words, codes.n_bits, hasher=self.fingerprint)

    def save(self, path: str | Path) -> None:
        """Write everything that was set and learned to a .npz file of plain arrays."""
        if not isinstance(self.network, str):
            raise InputError("a network of your own cannot be saved in a hasher's file: save its state_dict")
        super().save(path)

    def _learned(self) -> dict[str, Any]:
        weights = {f"weights.{name}": tensor.numpy() for name, tensor in self.network_.state_dict().items()}
        return {name: value for name, value in super()._learned().items() if name != "network_"} | weights

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        own = {name: array for name, array in arrays.items() if not name.startswith("weights.")}
        super()._restore(own)
        with torch.random.fork_rng(devices=[]):
            network = self._make_network(np.zeros((1, int(self.n_features_in_)), np.float32))
        state = {name.removeprefix("weights."): torch.from_numpy(arrays[name]) for name in arrays.keys() - own.keys()}
        network.load_state_dict(state)
        self.network_ = network.eval()
