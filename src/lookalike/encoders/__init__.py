"""Encoders: images to rows of numbers, which are near each other where the images look alike."""

import difflib
import inspect
from pathlib import Path
from typing import Any

from lookalike.core.decode import MAX_PIXELS, decode
from lookalike.encoders.base import Encoder
from lookalike.encoders.cached_features import features
from lookalike.encoders.colour import Colour
from lookalike.encoders.efficientnet import EfficientNetLite0
from lookalike.encoders.onnx import Onnx
from lookalike.encoders.perceptual_hashes import DHash, PHash
from lookalike.encoders.pixels import Pixels
from lookalike.encoders.preprocessing import Preprocessing
from lookalike.encoders.pretrained import HuggingFace, OpenClip, Timm
from lookalike.encoders.stream import EncodedFiles, encode_files

ENCODERS: dict[str, type[Encoder]] = {cls.name: cls for cls in (Pixels, EfficientNetLite0, PHash, DHash, Colour)}
KINDS: dict[str, type[Encoder]] = {"onnx": Onnx, "timm": Timm, "open_clip": OpenClip, "hf": HuggingFace}  # KIND:NAME

__all__ = [
    "ENCODERS",
    "KINDS",
    "MAX_PIXELS",
    "Colour",
    "DHash",
    "EfficientNetLite0",
    "EncodedFiles",
    "Encoder",
    "HuggingFace",
    "Onnx",
    "OpenClip",
    "PHash",
    "Pixels",
    "Preprocessing",
    "Timm",
    "decode",
    "encode_files",
    "features",
    "kind_of",
    "load",
]


def load(name: str, **options: Any) -> Encoder:
    """An encoder by its name, in whatever case, or as onnx:FILE, timm:NAME, open_clip:NAME or hf:NAME.

    options are those of its class, such as the size of efficientnet-lite0 or the threads of onnx.

    >>> load("pixels").name
    'pixels'
    """
    kind, colon, model = name.partition(":")
    if colon and kind.lower() in KINDS:
        if not model:
            raise ValueError(f"{name} needs a {'file' if kind.lower() == 'onnx' else 'name'} behind its colon")
        return _made(KINDS[kind.lower()], name, model, **options)
    if name.lower() in ENCODERS:
        return _made(ENCODERS[name.lower()], name, **options)
    raise ValueError(
        f"there is no encoder {name!r}: {_hint(name)}Known are {', '.join(ENCODERS)}, and onnx:FILE, timm:NAME, "
        "open_clip:NAME, hf:NAME"
    )


def kind_of(name: str) -> type[Encoder]:
    """The class of an encoder, which is not loaded.

    >>> kind_of("phash").gives_codes
    True
    """
    kind, colon, _ = name.lower().partition(":")
    return KINDS[kind] if colon else ENCODERS[kind]


def _made(cls: type[Encoder], name: str, *given: str, **options: Any) -> Encoder:
    known = [*inspect.signature(cls).parameters][len(given) :]
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}: it has {', '.join(known) or 'none'}")
    return cls(*given, **options)


def _hint(name: str) -> str:
    """What may have been meant by a name that is none."""
    kind, colon, model = name.partition(":")
    if Path(name).suffix.lower() == ".onnx" and not colon:
        return f"did you mean onnx:{name}? "
    if Path(name).is_file():
        return "it is a file, but not an encoder. "
    known, rest = (KINDS, f":{model}") if colon else (ENCODERS, "")
    nearest = difflib.get_close_matches(kind.lower(), known, 1, 0.4)
    return f"did you mean {nearest[0]}{rest}? " if nearest else ""
