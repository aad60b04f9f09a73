"""Networks that were exported to ONNX: the model's file, and beside it a JSON file that says how to use it."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import choice, nearest, whole_number
from lookalike.core.errors import FileError, InputError, Option
from lookalike.core.files import read_json
from lookalike.encoders.base import Encoder
from lookalike.encoders.onnx_files import check_onnx, fingerprint_of, named_entry, names_of, open_session
from lookalike.encoders.onnx_text import OnnxText
from lookalike.encoders.preprocessing import Preprocessing

__all__ = ["Onnx", "OnnxSettings"]

PREPROCESSING = 1  # raised whenever the same files are made to give other numbers
LAYOUTS, POOLS = ("NCHW", "NHWC"), ("first", "mean")
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


@dataclass(frozen=True)
class OnnxSettings:
    """What FILE.json says about the model in FILE: how it wants pictures, and which output holds the embedding."""

    preprocessing: Preprocessing
    layout: str = "NCHW"
    input: str | None = None  # None: the model has only one
    output: str | None = None  # None: the model has only one
    pool: str | None = None
    normalise: bool = False

    @classmethod
    def read(cls, path: Path) -> "OnnxSettings":
        """The settings in a file; errors name the file."""
        values = read_json(path.read_bytes(), path)
        if not isinstance(values, dict):
            raise FileError(f"{path} must hold one object, {{…}}, got {type(values).__name__}", path=path)
        try:
            return cls._of(values)
        except InputError as error:
            raise FileError(f"{path}: {error}", path=path) from error

    @classmethod
    def _of(cls, values: dict[str, Any]) -> "OnnxSettings":
        of_pictures = [field.name for field in fields(Preprocessing)]
        of_model = [field.name for field in fields(cls) if field.name != "preprocessing"]
        names = [*of_pictures, *of_model]
        for name in values:
            if name not in names:
                similar = nearest(name, names)
                hint = "" if similar is None else f"did you mean {similar}? "
                raise InputError(f"there is no setting {name!r}: {hint}Known are {', '.join(names)}")
        if missing := [name for name in ("size", "mean", "std") if name not in values]:
            raise InputError(f"{' and '.join(missing)} must be set, as the model was trained with")
        pictures = {name: values[name] for name in of_pictures if name in values}
        for name, times in (("size", 2), ("mean", 3), ("std", 3)):  # one number stands for all
            value = values[name]
            pictures[name] = tuple(value) if isinstance(value, list) else (value,) * times
        settings = cls(Preprocessing(**pictures), **{name: values[name] for name in of_model if name in values})
        settings._check()
        return settings

    def _check(self) -> None:
        choice("layout", self.layout, LAYOUTS)
        if self.pool is not None:
            choice("pool", self.pool, POOLS)
        if not isinstance(self.normalise, bool):
            raise InputError(f"normalise must be true or false, got {self.normalise!r}")
        for name in ("input", "output"):
            if not isinstance(getattr(self, name), str | None):
                raise InputError(f"{name} must be the name of an {name} of the model, got {getattr(self, name)!r}")


class Onnx(Encoder):
    """What a model that was exported to ONNX makes of images, run by ONNX Runtime; FILE.json says how it is used.

    threads: of the processor, for one batch; by default as many as there are cores. providers: where it runs, as ONNX
    Runtime names it. text, tokenizer: the text side, a model and its tokenizer.json, by default the one beside it; they
    do not change the rows of images, and so are no part of `version`.
    """

    takes_text = True  # if `text` is given

    def __init__(
        self,
        path: str | Path,
        *,
        threads: int | None = None,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        text: str | Path | None = None,
        tokenizer: str | Path | None = None,
    ) -> None:
        self.path, self.providers = Path(path), tuple(providers)
        self.threads = None if threads is None else whole_number("threads", threads)
        self.name = f"onnx:{path}"
        self._sidecar = self.path.with_name(f"{self.path.name}.json")
        check_onnx(self.path)
        if not self._sidecar.is_file():
            raise FileNotFoundError(
                f"there is no file {self._sidecar}, which says how {self.path.name} is used: write it, for example "
                '{"size": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}'
            )
        self.settings = OnnxSettings.read(self._sidecar)
        self.size = self.settings.preprocessing.shorter
        self.enough = 2 * self.size
        if text is None and tokenizer is not None:
            raise InputError("a tokenizer is of no use without a text model: give ", Option("text"), " too")
        self.text = None if text is None else OnnxText(text, tokenizer, threads=self.threads)

    @functools.cached_property
    def version(self) -> str:
        return f"preprocessing {PREPROCESSING}, model and settings {fingerprint_of([self.path, self._sidecar])}"

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        if self.text is None:
            raise InputError(
                f"{self.name} was given no text side, so that it cannot be searched by words: give the text model and "
                "its tokenizer, as in lookalike encode --text FILE --tokenizer FILE"
            )
        rows = self.text.encode_text(texts)
        if self.n_features not in (None, rows.shape[1]) and len(rows):
            raise FileError(
                f"{self.text.path} makes rows of {rows.shape[1]:,} numbers, {self.path} of {self.n_features:,}: they "
                "are not two sides of one network",
                path=self.text.path,
            )
        return rows

    @property
    def n_features(self) -> int | None:
        shape = self._output.shape
        length = shape[2 if len(shape) == 3 else 1] if len(shape) > 1 else None
        return length if isinstance(length, int) else None  # a name, where it may vary

    @functools.cached_property
    def _session(self) -> Any:
        return open_session(self.path, self.threads, self.providers, self.name)

    @functools.cached_property
    def _input(self) -> Any:
        with names_of(self.path):
            entry = named_entry(self._session.get_inputs(), self.settings.input, "input", self._sidecar)
            shape = list(entry.shape)
        if entry.type not in TYPES:
            text = f"{self.path} takes {entry.type}: export it to take one of {', '.join(TYPES)}"
            raise FileError(text, path=self.path)
        height, width = self.settings.preprocessing.size
        wanted = [3, height, width] if self.settings.layout == "NCHW" else [height, width, 3]
        if len(shape) != 4 or any(
            isinstance(length, int) and length != want for length, want in zip(shape[1:], wanted, strict=True)
        ):
            text = f"{self.path} takes {shape}, but {self._sidecar.name} says {['n', *wanted]}: correct that"
            raise FileError(text, path=self._sidecar)
        return entry

    @functools.cached_property
    def _output(self) -> Any:
        with names_of(self.path):
            return named_entry(self._session.get_outputs(), self.settings.output, "output", self._sidecar)

    def _prepare(self, picture: np.ndarray) -> np.ndarray:
        return self.settings.preprocessing(picture)

    def _rows(self, prepared: list[np.ndarray]) -> np.ndarray:
        images = np.asarray(prepared, TYPES[self._input.type])
        if self.settings.layout == "NCHW":
            images = images.transpose(0, 3, 1, 2)
        fixed = self._input.shape[0]  # a number, if the model takes so many images at once and no others
        at_once = fixed if isinstance(fixed, int) else len(images)
        rows = np.concatenate([self._run(images[at : at + at_once], at_once) for at in range(0, len(images), at_once)])
        if self.settings.normalise:
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return rows

    def _run(self, images: np.ndarray, at_once: int) -> np.ndarray:
        """The rows of images, which are filled up with black ones to the number that the model takes."""
        batch = np.zeros((at_once, *images.shape[1:]), images.dtype)
        batch[: len(images)] = images
        try:
            (values,) = self._session.run([self._output.name], {self._input.name: batch})
        except Exception as error:  # ONNX Runtime's own kinds have no common one
            reason = str(error).partition("\n")[0]
            raise OSError(
                f"{self.path} fails on {at_once} images at once: {reason} (export it with a first axis that may vary, "
                "or for one image at a time)"
            ) from error
        values = np.asarray(values)
        if values.ndim < 2 or len(values) != at_once:
            raise OSError(
                f"the output {self._output.name!r} of {self.path} is {values.shape} for {at_once} images: "
                "expected a row for each"
            )
        return self._pooled(values[: len(images)].astype(np.float32))

    def _pooled(self, values: np.ndarray) -> np.ndarray:
        """(n, features) as they are; of (n, tokens, features) the first or the mean, of feature maps the mean."""
        if values.ndim == 2 and self.settings.pool is None:
            return values
        if values.ndim == 3 and self.settings.pool is not None:
            return values[:, 0] if self.settings.pool == "first" else values.mean(1)
        if values.ndim == 4 and (self.settings.pool == "mean" or values.shape[2:] == (1, 1)):
            return values.mean((2, 3))
        raise FileError(
            f"the output {self._output.name!r} of {self.path} is {('n', *values.shape[1:])}, with "
            f"pool {self.settings.pool!r}, of which no row can be made: {self._sidecar.name} may set pool to first or "
            "mean for (n, tokens, features), to mean for (n, features, height, width), or name another output",
            path=self._sidecar,
        )
