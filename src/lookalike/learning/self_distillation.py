"""What an encoder learns without labels: DINO, self-distillation of crops of one picture (Caron et al. 2021)."""

import copy
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, normalize, softmax

from lookalike.learning.views import GLOBAL, LOCAL, SECOND_GLOBAL, view

__all__ = ["Course", "ProjectionHead", "SelfDistillation"]

STUDENT_TEMPERATURE = 0.1
TEACHER_TEMPERATURE = 0.04  # at the beginning
WARM_UP = 0.3  # the part of the run in which it grows to what is set
CENTRE_MOMENTUM = 0.9
HIDDEN, BOTTLENECK = 512, 256


class Course(NamedTuple):
    """How the teacher changes: its momentum at the beginning, which grows to 1, and its last temperature."""

    momentum: float
    temperature: float


class ProjectionHead(nn.Module):
    """Three layers, then a layer of unit vectors: (n, n_features) to (n, n_outputs) logits; thrown away afterwards."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(n_features, affine=False),  # features behind a ReLU all point much the same way
            nn.Linear(n_features, HIDDEN),
            nn.GELU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.GELU(),
            nn.Linear(HIDDEN, BOTTLENECK),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        self.directions = nn.Parameter(torch.randn(n_outputs, BOTTLENECK))

    def forward(self, embeddings: Tensor) -> Tensor:
        return normalize(self.layers(embeddings), dim=1) @ normalize(self.directions, dim=1).T


class SelfDistillation(nn.Module):
    """A student that says of every crop of a picture what a teacher says of its large crops.

    The teacher is the exponential mean of the student. Its outputs are centred by their running mean and sharpened by
    a low temperature, so that neither one output nor all of them win. The teacher's weights are kept, as by the
    authors. local: how many small crops, which the student alone sees, each at half the size.
    """

    centre: Tensor
    progress: Tensor

    def __init__(self, network: nn.Module, n_features: int, *, outputs: int, local: int, course: Course) -> None:
        super().__init__()
        self.local, self.course = local, course
        self.head = ProjectionHead(n_features, outputs)
        self.teacher = copy.deepcopy(network).requires_grad_(False)
        self.teacher_head = copy.deepcopy(self.head).requires_grad_(False)
        self.register_buffer("centre", torch.zeros(outputs))
        self.register_buffer("progress", torch.zeros((), dtype=torch.float64))  # the part of the run that is done

    def loss(self, network: nn.Module, pictures: Tensor, targets: Tensor, scale: Any) -> Tensor:  # noqa: ARG002
        """The mean cross-entropy of student to teacher over pairs of different crops, of which one is large.

        The arguments are those of `LabelledHeads.loss`; targets are not looked at.
        """
        large = [scale(view(pictures, scale.size, draw)) for draw in (GLOBAL, SECOND_GLOBAL)]
        small = [scale(view(pictures, scale.small, LOCAL)) for _ in range(self.local)]
        with torch.no_grad():
            said = self.teacher_head(self.teacher(torch.cat(large)))
            if not self.progress:  # a centre of 0 would let the student learn what all pictures have in common
                self.centre.copy_(said.mean(0))
            wanted = softmax((said - self.centre) / self._temperature(), 1).chunk(2)
            self.centre.lerp_(said.mean(0), 1 - CENTRE_MOMENTUM)
        embeddings = [network(torch.cat(crops)) for crops in (large, small) if crops]
        logits = log_softmax(self.head(torch.cat(embeddings)) / STUDENT_TEMPERATURE, 1).chunk(2 + self.local)
        losses = [
            -(teacher * student).sum(1).mean()
            for first, teacher in enumerate(wanted)
            for second, student in enumerate(logits)
            if first != second
        ]
        return torch.stack(losses).mean()

    def _temperature(self) -> float:
        grown = min(1.0, float(self.progress) / WARM_UP)
        return TEACHER_TEMPERATURE + (self.course.temperature - TEACHER_TEMPERATURE) * grown

    @torch.no_grad()
    def follow(self, network: nn.Module, progress: float) -> None:
        """Move the teacher towards the student after a step. progress: the part of the run that is done."""
        self.progress.fill_(progress)
        momentum = 1 - (1 - self.course.momentum) * (1 + math.cos(math.pi * progress)) / 2  # grows to 1
        for teacher, student in ((self.teacher, network), (self.teacher_head, self.head)):
            for own, other in zip(teacher.parameters(), student.parameters(), strict=True):
                own.lerp_(other, 1 - momentum)

    def trained(self, network: nn.Module) -> nn.Module:  # noqa: ARG002
        """The network whose weights are kept: the teacher."""
        return self.teacher
