"""Encoders: images to embeddings. Embeddings of images that look alike are near each other."""

import inspect
from pathlib import Path
from typing import Any

from lookalike.core.checks import nearest
from lookalike.core.decode import MAX_PIXELS, decode
from lookalike.core.endings import FINETUNED
from lookalike.core.errors import InputError
from lookalike.encoders.base import Encoder
from lookalike.encoders.cached_features import features
from lookalike.encoders.colour import Colour
from lookalike.encoders.efficientnet import EfficientNetLite0
from lookalike.encoders.finetuned import FineTuned
from lookalike.encoders.onnx import Onnx
from lookalike.encoders.perceptual_hashes import DHash, PHash
from lookalike.encoders.pixels import Pixels
from lookalike.encoders.preprocessing import Preprocessing
from lookalike.encoders.pretrained import HuggingFace, OpenClip, Timm
from lookalike.encoders.stream import EncodedFiles, encode_files
from lookalike.encoders.torch_encoder import TorchEncoder

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
    "FineTuned",
    "HuggingFace",
    "Onnx",
    "OpenClip",
    "PHash",
    "Pixels",
    "Preprocessing",
    "Timm",
    "TorchEncoder",
    "decode",
    "encode_files",
    "features",
    "kind_of",
    "load",
]


def load(name: str, **options: Any) -> Encoder:
    """An encoder by its name, in whatever case, or as FILE.lookalike, onnx:FILE, timm:NAME, open_clip:NAME or hf:NAME.

    options are those of its class, such as the size of efficientnet-lite0 or the threads of onnx.

    >>> load("pixels").name
    'pixels'
    """
    if name.endswith(FINETUNED):
        return _create(FineTuned, name, name, **options)
    kind, colon, model = name.partition(":")
    if colon and kind.lower() in KINDS:
        if not model:
            raise InputError(f"{name} needs a {'file' if kind.lower() == 'onnx' else 'name'} behind its colon")
        return _create(KINDS[kind.lower()], name, model, **options)
    if name.lower() in ENCODERS:
        return _create(ENCODERS[name.lower()], name, **options)
    raise InputError(
        f"there is no encoder {name!r}: {_hint(name)}Known are {', '.join(ENCODERS)}, and onnx:FILE, timm:NAME, "
        "open_clip:NAME, hf:NAME, FILE.lookalike"
    )


def kind_of(name: str) -> type[Encoder]:
    """The class of an encoder; nothing is loaded.

    >>> kind_of("phash").gives_codes
    True
    """
    if name.endswith(FINETUNED):
        return FineTuned
    kind, colon, _ = name.lower().partition(":")
    return KINDS[kind] if colon else ENCODERS[kind]


def _create(cls: type[Encoder], name: str, *model: str, **options: Any) -> Encoder:
    names = [*inspect.signature(cls).parameters][len(model) :]
    for option in options:
        if option not in names:
            raise InputError(f"{name} has no option {option!r}: it has {', '.join(names) or 'none'}")
    return cls(*model, **options)


def _hint(name: str) -> str:
    """A guess at what was meant by a name that no encoder has."""
    kind, colon, model = name.partition(":")
    if Path(name).suffix.lower() == ".onnx" and not colon:
        return f"did you mean onnx:{name}? "
    if Path(name).is_file():
        return "it is a file, but not an encoder. "
    similar = nearest(kind, KINDS if colon else ENCODERS)
    return "" if similar is None else f"did you mean {similar}{colon}{model}? "
