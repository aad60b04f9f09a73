"""A ResNet50 of AugNet (Chen et al. 2021), up to its pooled features."""

from torch import nn

from lookalike.encoders.packaged.resnet import ResNet
from lookalike.encoders.packaged.weights import state_of

__all__ = ["network"]

PREFIX = "module.pre."  # of all names in the file


def network(files: dict[str, bytes]) -> nn.Module:
    """The network with the weights of its one file; its last layer, to 768 numbers, is left out."""
    (content,) = files.values()
    made = ResNet(is_keras=False)
    state = {name.removeprefix(PREFIX): value for name, value in state_of(content).items()}
    made.load_state_dict({name: value for name, value in state.items() if not name.startswith("fc.")})
    return made
