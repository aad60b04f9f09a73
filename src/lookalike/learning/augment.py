"""Pictures changed at random in ways that leave what they show, to learn more from few."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["flip_and_shift", "flip_and_shift_pictures"]


def flip_and_shift(shape: tuple[int, ...], by: int | None = None) -> Callable[[Tensor], Tensor]:
    """A function that does it to rows of pixels of pictures of this shape, (height, width) or (height, width, 3)."""
    height, width, channels = shape if len(shape) == 3 else (*shape, 1)

    def change(rows: Tensor) -> Tensor:
        pictures = rows.view(-1, height, width, channels).permute(0, 3, 1, 2)
        return flip_and_shift_pictures(pictures, by).permute(0, 2, 3, 1).reshape(rows.shape)

    return change


def flip_and_shift_pictures(pictures: Tensor, by: int | None = None) -> Tensor:
    """Mirror half of the pictures (n, channels, height, width), and shift each by up to an eighth of its size."""
    n, _, height, width = pictures.shape
    by = max(1, min(height, width) // 8) if by is None else by
    flipped = torch.where((torch.rand(n) < 0.5)[:, None, None, None], pictures.flip(3), pictures)
    framed = pad(flipped, (by, by, by, by), mode="replicate")
    down, right = torch.randint(0, 2 * by + 1, (2, n, 1))
    y = (down + torch.arange(height))[:, None, :, None]
    x = (right + torch.arange(width))[:, None, None, :]
    return framed[torch.arange(n)[:, None, None, None], torch.arange(pictures.shape[1])[None, :, None, None], y, x]
