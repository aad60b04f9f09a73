"""Learning hash functions: losses, networks, training, and the learned hasher, in PyTorch."""

from lookalike.learning import losses, networks
from lookalike.learning.hasher import LearnedHasher
from lookalike.learning.objectives import LOSSES
from lookalike.learning.training import Settings, Training, train

__all__ = ["LOSSES", "LearnedHasher", "Settings", "Training", "losses", "networks", "train"]
