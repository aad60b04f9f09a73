"""The text side of a network that was exported to ONNX: a model of its own, with the file of its tokenizer."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.checks import nearest
from lookalike.core.errors import FileError, InputError, missing_package
from lookalike.core.files import read_json
from lookalike.encoders.onnx_files import check_onnx, fingerprint_of, named_entry, names_of, open_session
from lookalike.encoders.texts import checked_texts

__all__ = ["OnnxText"]

TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
MASK = "attention_mask"


@dataclass(frozen=True)
class TextSettings:
    """What FILE.json says about the text model in FILE, if it is there: all that the files do not say themselves."""

    input: str | None = None  # of the tokens; None: input_ids, or the only one
    output: str | None = None  # None: the model has only one
    length: int | None = None  # how many tokens the model takes; None: as it says itself, else the tokenizer's
    pad: int | None = None  # the token that fills up texts; None: the tokenizer's

    @classmethod
    def read(cls, path: Path) -> "TextSettings":
        """The settings in a file; those that go without saying if there is none."""
        if not path.is_file():
            return cls()
        values = read_json(path.read_bytes(), path)
        if not isinstance(values, dict):
            raise FileError(f"{path} must hold one object, {{…}}, got {type(values).__name__}", path=path)
        names = [field.name for field in fields(cls)]
        for name, value in values.items():
            if name not in names:
                similar = nearest(name, names)
                hint = "" if similar is None else f"did you mean {similar}? "
                raise FileError(f"{path}: there is no setting {name!r}: {hint}Known are {', '.join(names)}", path=path)
            least = {"length": 1, "pad": 0}.get(name)
            right = isinstance(value, str) if least is None else type(value) is int and least <= value < 2**31
            if value is not None and not right:
                what = "a name" if least is None else f"a whole number from {least}"
                raise FileError(f"{path}: {name} must be {what}, got {value!r}", path=path)
        return cls(**values)


class OnnxText:
    """What a text model that was exported to ONNX makes of texts. tokenizer: by default tokenizer.json beside it."""

    def __init__(self, path: str | Path, tokenizer: str | Path | None = None, *, threads: int | None = None) -> None:
        self.path, self.threads = Path(path), threads
        self.tokenizer_path = self.path.with_name("tokenizer.json") if tokenizer is None else Path(tokenizer)
        self._sidecar = self.path.with_name(f"{self.path.name}.json")
        check_onnx(self.path)
        if not self.tokenizer_path.is_file():
            raise FileNotFoundError(
                f"there is no file {self.tokenizer_path}, the tokenizer of {self.path.name}: put it there, or name it"
            )
        self.settings = TextSettings.read(self._sidecar)

    @functools.cached_property
    def version(self) -> str:
        """A text that changes whenever the model, the tokenizer or the settings do."""
        return fingerprint_of([self.path, self.tokenizer_path, *filter(Path.is_file, [self._sidecar])])

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """The rows of texts, (n, n_features) of float32."""
        rows = [self._row(text) for text in checked_texts(texts)]
        return np.concatenate(rows) if rows else np.zeros((0, 0), np.float32)

    def _row(self, text: str) -> np.ndarray:
        tokens, mask = self._tokens(text)
        entries = {entry.name: entry for entry in self._inputs}
        feed = {self._input.name: tokens.astype(TYPES[self._input.type])}
        if MASK in entries and self._input.name != MASK:
            feed[MASK] = mask.astype(TYPES.get(entries[MASK].type, np.int64))
        if others := [name for name in entries if name not in feed]:
            raise FileError(
                f"{self.path} takes {', '.join(others)} beside the tokens: export the text side of the network alone",
                path=self.path,
            )
        output = self._output.name
        try:
            (values,) = self._session.run([output], feed)
        except Exception as error:  # ONNX Runtime's own kinds have no common one
            reason = str(error).partition("\n")[0]
            raise OSError(f"{self.path} fails on {tokens.shape[1]} tokens of a text: {reason}") from error
        values = np.asarray(values)
        if values.ndim != 2 or len(values) != 1 or values.dtype.kind != "f" or not np.isfinite(values).all():
            raise FileError(
                f"the output {output!r} of {self.path} is {values.shape} of {values.dtype} for one text: "
                f"expected one row of finite numbers; {self._sidecar.name} may name another output",
                path=self.path,
            )
        return values.astype(np.float32)

    def _tokens(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a text, filled up to the length that the model takes, and which of them are of the text."""
        tokenizer, padding, longest = self._tokenizer
        with _tokenizer_file(self.tokenizer_path):
            ids: list[int] = tokenizer.encode(text).ids
        fixed = self._input.shape[1] if len(self._input.shape) == 2 else None
        fixed = fixed if isinstance(fixed, int) else None
        longest = fixed or self.settings.length or longest
        if longest is not None and len(ids) > longest:
            raise InputError(f"the words make {len(ids)} tokens, {self.path.name} reads {longest}: write fewer")
        length = fixed or (longest if self.settings.pad is not None else padding.get("length")) or len(ids)
        missing = max(0, length - len(ids))
        pad = self.settings.pad if self.settings.pad is not None else padding.get("pad_id")
        if missing and pad is None:
            raise FileError(
                f"{self.path.name} takes {length} tokens, and {self.tokenizer_path.name} does not say what fills up a "
                f'text: write {{"pad": 0}}, with the token that the model was trained with, into {self._sidecar}',
                path=self._sidecar,
            )
        return np.array([[*ids, *[pad] * missing]]), np.array([[1] * len(ids) + [0] * missing])

    @functools.cached_property
    def _tokenizer(self) -> tuple[Any, dict[str, Any], int | None]:
        """The tokenizer, its padding, and the most tokens of a text."""
        try:
            from tokenizers import Tokenizer
        except ModuleNotFoundError as error:
            raise missing_package("search by words", error.name, "words") from error
        with _tokenizer_file(self.tokenizer_path):
            tokenizer = Tokenizer.from_file(str(self.tokenizer_path))
        padding, truncation = tokenizer.padding or {}, tokenizer.truncation or {}
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer, padding, truncation.get("max_length")

    @functools.cached_property
    def _session(self) -> Any:
        return open_session(self.path, self.threads, ("CPUExecutionProvider",), f"the text model {self.path.name}")

    @functools.cached_property
    def _inputs(self) -> list[Any]:
        with names_of(self.path):
            entries: list[Any] = self._session.get_inputs()
            _ = [entry.name for entry in entries]
        return entries

    @functools.cached_property
    def _input(self) -> Any:
        names = [entry.name for entry in self._inputs]
        name = self.settings.input or ("input_ids" if "input_ids" in names else None)
        entry = named_entry(self._inputs, name, "input", self._sidecar)
        if entry.type not in TYPES:
            text = f"{self.path} takes {entry.type}, tokens are {' or '.join(TYPES)}: it is not a text model"
            raise FileError(text, path=self.path)
        return entry

    @functools.cached_property
    def _output(self) -> Any:
        with names_of(self.path):
            return named_entry(self._session.get_outputs(), self.settings.output, "output", self._sidecar)


@contextlib.contextmanager
def _tokenizer_file(path: Path) -> Iterator[None]:
    """Within this block, whatever a tokenizer raises is an error about its file."""
    try:
        yield
    except BaseException as error:  # the package raises nothing more exact, and panics are no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = str(error).partition("\n")[0]
        text = f"{path} is not a tokenizer, such as a tokenizer.json: {reason}"
        raise FileError(text, path=path) from error
