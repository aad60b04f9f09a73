"""Views of pictures: crops, mirror images, other colours and blur, drawn at random from torch's generator.

Pictures are tensors (n, 3, height, width) of values from 0 to 1. Each picture is changed by its own draw.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

__all__ = ["AUGMENTATIONS", "GLOBAL", "LOCAL", "SECOND_GLOBAL", "ViewDraw", "blurred", "cropped", "recoloured", "view"]


@dataclass(frozen=True)
class ViewDraw:
    """How views are drawn. All of them are crops; the other changes happen with the chance that is set.

    scale: the part of the picture's area that a crop has, at least and at most; its sides differ by 4/3 at most.
    jitter: the chance of other colours, and how strongly brightness, contrast, saturation and hue may change.
    """

    scale: tuple[float, float]
    mirror: float = 0.5
    jitter: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    grey: float = 0.0
    blur: float = 0.0
    solarise: float = 0.0


COLOURS = (0.8, 0.4, 0.4, 0.2, 0.1)  # Caron et al. 2021, as are the four draws below
GLOBAL = ViewDraw((0.4, 1.0), jitter=COLOURS, grey=0.2, blur=1.0)
SECOND_GLOBAL = ViewDraw((0.4, 1.0), jitter=COLOURS, grey=0.2, blur=0.1, solarise=0.2)
LOCAL = ViewDraw((0.05, 0.4), jitter=COLOURS, grey=0.2, blur=0.5)
AUGMENTATIONS: dict[str, ViewDraw | None] = {
    "none": None,
    "light": ViewDraw((0.5, 1.0)),
    "strong": ViewDraw((0.2, 1.0), jitter=COLOURS, grey=0.2, blur=0.1),
}


def view(pictures: Tensor, size: int, draw: ViewDraw) -> Tensor:
    """One view of each picture, (n, 3, size, size)."""
    views = cropped(pictures, size, draw.scale, draw.mirror)
    n = len(views)
    if draw.jitter[0]:
        views = _where(draw.jitter[0], recoloured(views, *draw.jitter[1:]), views)
    if draw.grey:
        views = _where(draw.grey, views.mean(1, keepdim=True).expand_as(views), views)
    if draw.blur:
        deviations = torch.empty(n).uniform_(0.1, 2.0) * size / 224  # of pixels; 0.1 to 2 at 224
        views = _where(draw.blur, blurred(views, deviations), views)
    if draw.solarise:
        views = _where(draw.solarise, torch.where(views < 0.5, views, 1 - views), views)
    return views


def cropped(pictures: Tensor, size: int, scale: tuple[float, float], mirror: float = 0.5) -> Tensor:
    """A random part of each picture made size × size, some of them mirrored."""
    n, colours = pictures.shape[:2]
    area = torch.empty(n).uniform_(*scale)
    ratio = torch.exp(torch.empty(n).uniform_(math.log(3 / 4), math.log(4 / 3)))
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    across, down = ((1 - side) * torch.empty(n).uniform_(-1, 1) for side in (width, height))
    sign = torch.where(torch.rand(n) < mirror, -1.0, 1.0)
    zero = torch.zeros(n)
    places = torch.stack([torch.stack([sign * width, zero, across], 1), torch.stack([zero, height, down], 1)], 1)
    grid = affine_grid(places, [n, colours, size, size], align_corners=False)
    return grid_sample(pictures, grid, mode="bilinear", padding_mode="border", align_corners=False)


def recoloured(pictures: Tensor, brightness: float, contrast: float, saturation: float, hue: float) -> Tensor:
    """Pictures of other brightness, contrast, saturation and hue, each changed by up to the part that is given."""
    n = len(pictures)

    def factor(strength: float) -> Tensor:
        return torch.empty(n, 1, 1, 1).uniform_(1 - strength, 1 + strength)

    changed = (pictures * factor(brightness)).clamp(0, 1)
    middle = changed.mean((1, 2, 3), keepdim=True)
    changed = (middle + (changed - middle) * factor(contrast)).clamp(0, 1)
    grey = changed.mean(1, keepdim=True)
    changed = grey + (changed - grey) * factor(saturation)
    angle = torch.empty(n).uniform_(-hue, hue) * 2 * math.pi
    return torch.einsum("nij,njhw->nihw", _hue_turns(angle), changed).clamp(0, 1)


def _hue_turns(angle: Tensor) -> Tensor:
    """Matrices (n, 3, 3) that turn colours about the axis of greys (Rodrigues' formula)."""
    side = 1 / math.sqrt(3)
    cross = torch.tensor([[0.0, -side, side], [side, 0.0, -side], [-side, side, 0.0]])
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    return cos * torch.eye(3) + sin * cross + (1 - cos) / 3


def blurred(pictures: Tensor, deviations: Tensor) -> Tensor:
    """Pictures blurred by a Gaussian, each with its own standard deviation in pixels."""
    reach = max(1, math.ceil(3 * float(deviations.max())))
    steps = torch.arange(-reach, reach + 1)
    weights = torch.exp(-0.5 * (steps / deviations[:, None]) ** 2)  # (n, taps)
    weights = (weights / weights.sum(1, keepdim=True))[:, :, None, None, None]
    for axis in (2, 3):
        length = pictures.shape[axis]
        frame = (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0)
        framed = pad(pictures, frame, mode="replicate")
        pictures = sum(  # type: ignore[assignment]  # of tensors, not of numbers
            weights[:, tap] * framed.narrow(axis, tap, length) for tap in range(len(steps))
        )
    return pictures


def _where(chance: float, changed: Tensor, pictures: Tensor) -> Tensor:
    """Changed pictures with this chance each, the others as they are."""
    return torch.where((torch.rand(len(pictures)) < chance)[:, None, None, None], changed, pictures)
