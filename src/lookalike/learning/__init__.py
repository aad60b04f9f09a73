"""Learning hash functions: losses, networks, training, and the learned hasher, in PyTorch."""

try:
    import torch  # noqa: F401  # first, to say what is missing
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('learning needs torch, which is not installed: pip install "lookalike[learn]"') from error

from lookalike.learning import losses, networks
from lookalike.learning.hasher import LearnedHasher
from lookalike.learning.objectives import LOSSES
from lookalike.learning.training import Training, TrainingSettings, train

Settings = TrainingSettings  # its name in the documentation and in users' programs

__all__ = ["LOSSES", "LearnedHasher", "Settings", "Training", "TrainingSettings", "losses", "networks", "train"]
