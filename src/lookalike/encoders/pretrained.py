"""Networks of timm, OpenCLIP and transformers, for those who have these packages and the weights."""

import contextlib
import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from lookalike.core.errors import InputError, MissingPackageError
from lookalike.encoders.preprocessing import Preprocessing
from lookalike.encoders.texts import checked_texts, checked_tokens
from lookalike.encoders.torch_encoder import TorchEncoder

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

__all__ = ["HuggingFace", "OpenClip", "Timm"]

PREPROCESSING = 1  # raised whenever the same weights are made to give other numbers
LONGEST = 64  # times as long as wide, up to which a picture is resized before it is cropped


class TextSide(NamedTuple):
    """How a network makes rows of texts: its tokenizer, loaded when it is first used, and the rows of tokens."""

    tokenizer: "Callable[[], Callable[[str], Any]]"
    rows: "Callable[[torch.nn.Module, Any], torch.Tensor]"


class Loaded(NamedTuple):
    """A network, how it or a copy of it makes rows of images, and how images are prepared for it."""

    network: "torch.nn.Module"
    rows: "Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]"
    prepare: "Callable[[np.ndarray], np.ndarray]"
    size: int
    unused: frozenset[str] = frozenset()  # names of weights that were never trained
    text: "TextSide | None" = None


class _Library(TorchEncoder):
    """What networks of libraries share: the package is needed at once, the network is loaded when it is first used."""

    kind: ClassVar[str]  # what stands before the colon
    module: ClassVar[str]
    package: ClassVar[str]  # what pip calls it

    def __init__(self, model: str) -> None:
        self.model, self.name = model, f"{self.kind}:{model}"
        if not _is_installed(self.module):
            raise self._missing(self.module)

    @abstractmethod
    def _load(self, library: Any) -> Loaded:
        """The network of this name, by the library that has it."""

    def _load_anew(self) -> Loaded:
        with self._needed():
            library = importlib.import_module(self.module)
        loaded = self._load(library)
        loaded.network.eval()
        return loaded

    @functools.cached_property
    def _loaded(self) -> Loaded:
        loaded = self._load_anew()
        loaded.network.requires_grad_(False)
        return loaded

    def network(self) -> "torch.nn.Module":
        from lookalike.encoders.torch_network import Rows

        loaded = self._load_anew()
        return Rows(loaded.network, loaded.rows).eval()

    @functools.cached_property
    def version(self) -> str:
        from lookalike.encoders.torch_network import fingerprint

        package = importlib.metadata.version(self.package)
        weights = fingerprint(self._loaded.network, self._loaded.unused)
        return f"{self.package} {package}, preprocessing {PREPROCESSING}, weights {weights}"

    @functools.cached_property
    def n_features(self) -> int:
        black = np.zeros((self._loaded.size, self._loaded.size, 3), np.uint8)
        return self._rows([self._prepare(black)]).shape[1]

    @property
    def size(self) -> int:  # type: ignore[override]  # only a loaded network tells
        return self._loaded.size

    @property
    def enough(self) -> int:  # type: ignore[override]
        return 2 * self._loaded.size

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return self._loaded.prepare(picture)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        from lookalike.encoders.torch_network import batch, run

        return run(functools.partial(self._loaded.rows, self._loaded.network), batch(prepared))

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        from lookalike.encoders.torch_network import without_gradients

        side = self._loaded.text
        if side is None:
            return super().encode_text(texts)
        rows = [np.zeros((0, self.n_features), np.float32)]
        for text in checked_texts(texts):
            with self._weights():  # a tokenizer may have files of its own, which are fetched when it is first used
                tokenise = side.tokenizer()
            tokens = checked_tokens(text, tokenise, self.name)
            rows.append(without_gradients(functools.partial(side.rows, self._loaded.network), tokens))
        return np.concatenate(rows)

    def _missing(self, module: str | None) -> MissingPackageError:
        text = f"{self.name} needs {module}, which is not installed: pip install {self.package}"
        return MissingPackageError(text, package=module)

    @contextlib.contextmanager
    def _needed(self) -> Iterator[None]:
        """Within this block, a missing package is an error that says how to get it."""
        try:
            yield
        except ModuleNotFoundError as error:
            raise self._missing(error.name) from error

    @contextlib.contextmanager
    def _weights(self) -> Iterator[None]:
        """Within this block, whatever goes wrong is an error that says how to get the weights."""
        try:
            with self._needed():
                yield
        except MissingPackageError:
            raise
        except Exception as error:  # each library, and each of its hubs, has errors of its own
            reason = (str(error) or type(error).__name__).strip().partition("\n")[0].partition(". ")[0]
            raise OSError(
                f"the weights of {self.name} cannot be had: {reason} "
                "(they are fetched when first used: where there is no network, fetch them where there is one and copy "
                f"the cache, {os.environ.get('HF_HOME') or '~/.cache/huggingface'}, or export the network to ONNX and "
                "use onnx:FILE)"
            ) from error

    def _check_model(self, model: str, models: list[str]) -> None:
        if model not in models:
            similar = difflib.get_close_matches(model, models, 3, 0.5)  # names differ by little: one is not enough
            hint = f": did you mean {' or '.join(f'{self.kind}:{name}' for name in similar)}?" if similar else ""
            raise InputError(f"{self.package} has no network {model!r}{hint}")


class Timm(_Library):
    """The pooled features of a network of timm (Wightman 2019), as timm:resnet50.a1_in1k."""

    kind, module, package = "timm", "timm", "timm"

    def _load(self, library: Any) -> Loaded:
        if ":" not in self.model:  # with it, the name is of a hub
            self._check_model(self.model.partition(".")[0], library.list_models())
        with self._weights():
            network = library.create_model(self.model, pretrained=True, num_classes=0)
        wants = library.data.resolve_model_data_config(network)
        preprocessing = Preprocessing(
            size=tuple(wants["input_size"][1:]),
            mean=tuple(wants["mean"]),
            std=tuple(wants["std"]),
            resize={"center": "crop", "squash": "squash", "border": "pad"}[wants.get("crop_mode") or "center"],
            crop=wants["crop_pct"],
            interpolation=_interpolation(wants),
        )
        return Loaded(network, lambda network, images: network(images), preprocessing, preprocessing.shorter)


class OpenClip(_Library):
    """The image embeddings of a network of OpenCLIP (Ilharco et al. 2021), as open_clip:ViT-B-32/laion2b_s34b_b79k."""

    kind, module, package = "open_clip", "open_clip", "open_clip_torch"
    takes_text = True

    def _load(self, library: Any) -> Loaded:
        model, tag = self.model, ""
        if ":" not in self.model:
            model, _, tag = self.model.partition("/")
            self._check_model(model, library.list_models())
            tags = library.list_pretrained_tags_by_model(model)
            if tag not in tags:
                raise InputError(
                    f"{self.name} must say whose weights, as {self.kind}:{model}/TAG; TAG may be {', '.join(tags)}"
                )
        with self._weights():
            network = library.create_model(model, pretrained=tag or None)
        wants = network.visual.preprocess_cfg
        size = wants["size"]
        preprocessing = Preprocessing(
            size=(size, size) if isinstance(size, int) else tuple(size),
            mean=tuple(wants["mean"]),
            std=tuple(wants["std"]),
            resize={"shortest": "crop", "squash": "squash", "longest": "pad"}[wants.get("resize_mode") or "shortest"],
            interpolation=_interpolation(wants),
            fill=wants.get("fill_color") or 0,
        )
        tokenizer = functools.cache(lambda: library.get_tokenizer(model))
        text = TextSide(tokenizer, _text_rows)
        return Loaded(network, _image_rows, preprocessing, preprocessing.shorter, text=text)


class HuggingFace(_Library):
    """The image embeddings of a network of transformers (Wolf et al. 2020), as hf:facebook/dinov2-base, or of a folder.

    They are the image features of networks such as CLIP, else the output of the pooling layer; if that layer was not
    trained, the first token, or the mean of the last feature map.
    """

    kind, module, package = "hf", "transformers", "transformers"
    takes_text = True  # if its network is one such as CLIP

    def _load(self, library: Any) -> Loaded:
        with self._weights():
            processor = library.AutoImageProcessor.from_pretrained(self.model)
            network, loading = library.AutoModel.from_pretrained(self.model, output_loading_info=True)
        untrained = frozenset(loading["missing_keys"])
        if needed := [name for name in sorted(untrained) if "pooler" not in name]:
            raise InputError(f"{self.name} lacks weights of its network, {needed[0]} among them: it is not complete")

        def rows(network: Any, images: "torch.Tensor") -> "torch.Tensor":
            if hasattr(network, "get_image_features"):
                return _pooled(network.get_image_features(pixel_values=images))
            output = network(pixel_values=images)
            pooled = getattr(output, "pooler_output", None)
            if pooled is not None and not untrained:
                return pooled.flatten(1)
            last = output.last_hidden_state
            return last[:, 0] if last.ndim == 3 else last.mean((2, 3))

        def prepare(picture: np.ndarray) -> np.ndarray:
            if max(picture.shape[:2]) > LONGEST * min(picture.shape[:2]):  # resized, its memory would have no bounds
                raise InputError(f"{self.name} takes no picture that is {LONGEST} times as long as wide or more")
            colours = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
            values = processor(images=[colours], return_tensors="np", input_data_format="channels_last")
            return np.asarray(values["pixel_values"][0], np.float32).transpose(1, 2, 0)

        text = TextSide(functools.cache(lambda: _tokenizer(library, self.model, network.config)), _features_of_text)
        has_text = hasattr(network, "get_text_features")
        return Loaded(network, rows, prepare, _size(processor), untrained, text if has_text else None)


def _image_rows(network: Any, images: "torch.Tensor") -> "torch.Tensor":
    """The rows of images, by a network that encodes texts too."""
    return network.encode_image(images)


def _tokenizer(library: Any, model: str, config: Any) -> "Callable[[str], Any]":
    """What turns a text into the tokens that a network of transformers takes, no more than it reads."""
    tokenizer = library.AutoTokenizer.from_pretrained(model)
    places = getattr(getattr(config, "text_config", None), "max_position_embeddings", None)
    longest = min(places or tokenizer.model_max_length, tokenizer.model_max_length)
    padding = "max_length" if "siglip" in config.model_type else "do_not_pad"  # it was trained on texts of one length
    return functools.partial(tokenizer, return_tensors="pt", truncation=True, max_length=longest, padding=padding)


def _features_of_text(network: Any, tokens: Any) -> "torch.Tensor":
    taken = {name: values for name, values in tokens.items() if name in ("input_ids", "attention_mask", "position_ids")}
    if "siglip" in network.config.model_type:
        taken.pop("attention_mask", None)  # it reads all places, as it did in training
    return _pooled(network.get_text_features(**taken))


def _pooled(features: Any) -> "torch.Tensor":
    """The features themselves, which newer versions of transformers return as a part of more."""
    pooled: torch.Tensor = features if hasattr(features, "shape") else features.pooler_output
    return pooled


def _text_rows(network: Any, tokens: Any) -> "torch.Tensor":
    """The rows of the tokens of a text, by a network that encodes images too."""
    rows: torch.Tensor = network.encode_text(tokens)
    return rows


def _interpolation(wants: Mapping[str, Any]) -> str:
    """The interpolation that a network wants; where it may be any, bicubic."""
    name = str(wants.get("interpolation") or "bicubic").lower()
    return "bicubic" if name == "random" else name


def _size(processor: Any) -> int:
    """The side of the square that a processor makes all of its input of."""
    for name in ("size", "crop_size"):
        wants = getattr(processor, name, None) or {}
        sides = [wants.get(side) for side in ("shortest_edge", "longest_edge", "height", "width")]
        if any(sides):
            return max(int(side) for side in sides if side)
    return 224


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # of a module without a specification, which was made by hand
        return True
