"""What an encoder learns from labels: heads over its embedding that are thrown away afterwards, their losses added."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lookalike.learning.losses import tie_aware_ap
from lookalike.learning.views import ViewDraw, view

__all__ = ["UNKNOWN", "LabelledHeads"]

UNKNOWN = -1  # the number of a label that is not known
N_BITS = 64  # of the codes that rank in the tie-aware loss


class LabelledHeads(nn.Module):
    """A head for each kind of label, and the sum of their losses.

    n_classes: by kind, "identity" and "category". ranking: rank by relaxed codes of 64 bits and learn from the
    tie-aware AP (He et al. 2018); else a linear classifier with cross-entropy (Barkan et al. 2023, appendix B).
    """

    def __init__(self, n_features: int, n_classes: Mapping[str, int], draw: ViewDraw | None, ranking: bool) -> None:
        super().__init__()
        self.draw, self.ranking, self.kinds = draw, ranking, tuple(n_classes)
        self.heads = nn.ModuleDict(
            {kind: _coder(n_features) if ranking else nn.Linear(n_features, n) for kind, n in n_classes.items()}
        )

    def loss(self, network: nn.Module, pictures: Tensor, targets: Tensor, scale: Any) -> Tensor:
        """The loss of pictures (n, 3, height, width) from 0 to 1; targets (n, kinds), numbers of classes.

        scale: a function of pictures to what the network takes, and `size`, how large it takes them.
        """
        seen = pictures if self.draw is None else view(pictures, scale.size, self.draw)
        embeddings = network(scale(seen))
        total = embeddings.sum() * 0  # of a batch without any label
        for column, kind in enumerate(self.kinds):
            known = targets[:, column] != UNKNOWN
            if known.sum() > 1:
                total = total + self._loss_of(kind, embeddings[known], targets[known, column])
        return total

    def _loss_of(self, kind: str, embeddings: Tensor, labels: Tensor) -> Tensor:
        if not self.ranking:
            return cross_entropy(self.heads[kind](embeddings), labels)
        others = (labels[:, None] == labels).sum(1) > 1
        codes = self.heads[kind](embeddings)
        return tie_aware_ap(codes, labels, alpha=1.0) if others.any() else codes.sum() * 0

    def follow(self, network: nn.Module, progress: float) -> None:
        """Nothing changes after a step but the weights."""

    def trained(self, network: nn.Module) -> nn.Module:
        """The network whose weights are kept."""
        return network


def _coder(n_features: int) -> nn.Module:
    """Activations of unit variance, whose sign is the bit: alpha is 1 then."""
    return nn.Sequential(nn.Linear(n_features, N_BITS, bias=False), nn.BatchNorm1d(N_BITS, affine=False))
