"""Losses as modules, with their options."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from lookalike.learning.losses.likelihoods import dpsh, dtsh, hashnet
from lookalike.learning.losses.pairs import dispersed_dsh, dispersed_dsh_hierarchy, dsh
from lookalike.learning.losses.ranking import mihash, tie_aware_ap, tie_aware_dcg
from lookalike.learning.losses.targets import csq, dpn, greedy_hash, orthohash

__all__ = [
    "CSQ",
    "DPN",
    "DPSH",
    "DSH",
    "DTSH",
    "DispersedDSH",
    "DispersedDSHHierarchy",
    "GreedyHash",
    "HashNet",
    "MIHash",
    "OrthoHash",
    "TieAwareAP",
    "TieAwareDCG",
]


class _Loss(nn.Module):
    """A loss with its options."""

    function: Callable[..., Tensor]

    def __init__(self, **options: Any) -> None:
        super().__init__()
        inspect.signature(self.function).bind_partial(
            **options
        )  # raises for a misspelt option now, not in the first step
        self.options = options

    def forward(self, activations: Tensor, *labels: Any, **named: Any) -> Tensor:
        """The loss of a batch."""
        return self.function(activations, *labels, **self.options, **named)

    def extra_repr(self) -> str:
        """The options of the loss."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


class TieAwareAP(_Loss):
    """`tie_aware_ap` as a module: TieAwareAP(alpha=40)(activations, labels)."""

    function = staticmethod(tie_aware_ap)


class TieAwareDCG(_Loss):
    """`tie_aware_dcg` as a module."""

    function = staticmethod(tie_aware_dcg)


class DSH(_Loss):
    """`dsh` as a module."""

    function = staticmethod(dsh)


class DispersedDSH(_Loss):
    """`dispersed_dsh` as a module."""

    function = staticmethod(dispersed_dsh)


class DispersedDSHHierarchy(_Loss):
    """`dispersed_dsh_hierarchy` as a module: DispersedDSHHierarchy()(activations, labels, coarse)."""

    function = staticmethod(dispersed_dsh_hierarchy)


class MIHash(_Loss):
    """`mihash` as a module."""

    function = staticmethod(mihash)


class DPSH(_Loss):
    """`dpsh` as a module."""

    function = staticmethod(dpsh)


class DTSH(_Loss):
    """`dtsh` as a module."""

    function = staticmethod(dtsh)


class HashNet(_Loss):
    """`hashnet` as a module."""

    function = staticmethod(hashnet)


class GreedyHash(_Loss):
    """`greedy_hash` as a module: GreedyHash()(activations, labels, Classifier(n_bits, n_classes))."""

    function = staticmethod(greedy_hash)


class CSQ(_Loss):
    """`csq` as a module: CSQ()(activations, labels, BinaryTargets(n_bits, n_classes))."""

    function = staticmethod(csq)


class DPN(_Loss):
    """`dpn` as a module, with a head as `CSQ` has."""

    function = staticmethod(dpn)


class OrthoHash(_Loss):
    """`orthohash` as a module, with a head as `CSQ` has."""

    function = staticmethod(orthohash)
