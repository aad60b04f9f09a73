"""Learning in PyTorch: hash functions with their losses and networks, and fine-tuning of encoders."""

from lookalike.core.errors import missing_package

try:
    import torch  # noqa: F401  # first, to say what is missing
except ModuleNotFoundError as error:
    raise missing_package("learning", "torch", "learn") from error

from lookalike.learning import losses, networks
from lookalike.learning.as_printed import inverse_rank_error_bound, relaxed_ap_as_printed, relaxed_dcg_as_printed
from lookalike.learning.finetuning import FinetuneSettings, FineTuning, finetune
from lookalike.learning.hasher import LearnedHasher
from lookalike.learning.objectives import LOSSES
from lookalike.learning.training import Training, TrainingSettings, train

Settings = TrainingSettings  # its name in the documentation and in users' programs

__all__ = [
    "LOSSES",
    "FineTuning",
    "FinetuneSettings",
    "LearnedHasher",
    "Settings",
    "Training",
    "TrainingSettings",
    "finetune",
    "inverse_rank_error_bound",
    "losses",
    "networks",
    "relaxed_ap_as_printed",
    "relaxed_dcg_as_printed",
    "train",
]
