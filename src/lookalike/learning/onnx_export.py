"""A network of PyTorch as an ONNX file, with FILE.json beside it that says how images are prepared for it."""

import io
import json
import logging
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lookalike.core.errors import FileError, InputError, missing_package
from lookalike.core.files import write_text, writing
from lookalike.encoders import FineTuned, Preprocessing, TorchEncoder

__all__ = ["check_exportable", "write_onnx"]


def check_exportable(encoder: TorchEncoder, path: str | Path) -> Preprocessing:
    """How an encoder prepares images; raises where no ONNX file of it can be written."""
    if Path(path).suffix != ".onnx":
        raise FileError(f"cannot write {path}: the name of an ONNX file must end in .onnx", path=path)
    try:
        import onnx  # type: ignore[import-not-found,unused-ignore]  # noqa: F401  # torch needs it
    except ModuleNotFoundError as error:
        raise missing_package("writing ONNX files", error.name, "images") from error
    origin = encoder.base if isinstance(encoder, FineTuned) else encoder
    loaded = getattr(origin, "_loaded", None)  # of networks of libraries
    preprocessing = getattr(origin, "_preprocessing", None) or getattr(loaded, "prepare", None)
    if not isinstance(preprocessing, Preprocessing):
        raise InputError(f"{origin.name} prepares images by its own library, which an ONNX file cannot say")
    return preprocessing


def write_onnx(path: str | Path, encoder: TorchEncoder, network: nn.Module) -> None:
    """Write a network that takes any number of images at once; both files whole or not at all."""
    preprocessing = check_exportable(encoder, path)
    example = encoder.preprocess([np.zeros((64, 64, 3), np.uint8)] * 2).contiguous()
    content: Any = io.BytesIO()  # torch writes to it, though it does not say so
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of shapes that become constants, as they should
        torch.onnx.export(
            network.eval(), (example,), content, dynamo=False, input_names=["images"], output_names=["embedding"],
            dynamic_axes={"images": {0: "n"}, "embedding": {0: "n"}},
        )  # fmt: skip
    write_text(f"{path}.json", json.dumps(asdict(preprocessing), indent=1) + "\n")
    with writing(path) as file:
        file.write(content.getbuffer())
