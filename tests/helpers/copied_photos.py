"""A study of pictures of which some are there twice, byte for byte or nearly."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from lookalike.study.encode import encode_folder
from lookalike.study.study import Study


def drawn(seed: int, size: tuple[int, int] = (96, 72)) -> Image.Image:
    """A picture of soft blocks."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC)


def copied_study(folder: Path, n: int = 4) -> Study:
    """`n` pictures; each has a copy of the same bytes, and one that is smaller; and one more that is alone."""
    photos = folder / "photos"
    (photos / "sub").mkdir(parents=True)
    for number in range(n):
        picture = drawn(number)
        picture.save(photos / f"holiday-by-the-sea-{number:03}.png")
        shutil.copy(photos / f"holiday-by-the-sea-{number:03}.png", photos / "sub" / f"zz-copy-{number:03}.png")
        picture.resize((48, 36)).save(photos / f"small-{number:03}.png")
    drawn(1000).save(photos / "alone.png")
    encode_folder(photos, folder / "shop", model="colour")
    return Study.open(folder / "shop")
