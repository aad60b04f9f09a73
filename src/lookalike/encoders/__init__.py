"""Encoders: images to rows of numbers, which are near each other where the images look alike."""

import difflib

from lookalike.encoders.efficientnet import EfficientNetLite0
from lookalike.encoders.encoder import Encoder
from lookalike.encoders.features import features
from lookalike.encoders.pixels import Pixels

ENCODERS: dict[str, type[Encoder]] = {cls.name: cls for cls in (Pixels, EfficientNetLite0)}

__all__ = ["ENCODERS", "EfficientNetLite0", "Encoder", "Pixels", "features", "load"]


def load(name: str) -> Encoder:
    """An encoder by its name, in whatever case.

    >>> load("pixels").name
    'pixels'
    """
    if name.lower() not in ENCODERS:
        nearest = difflib.get_close_matches(name.lower(), ENCODERS, 1, 0.4)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        raise ValueError(f"there is no encoder {name!r}: {hint}Known are {', '.join(ENCODERS)}")
    return ENCODERS[name.lower()]()
