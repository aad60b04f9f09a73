"""Files of torch.save, read as numbers without torch: their pickles are read, but never obeyed."""

import io
import math
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.core.errors import FileError
from lookalike.core.file_errors import fitting
from lookalike.core.readers.tables import ArraysTable, LazyArray, of_bfloat16, unreadable

__all__ = ["read_state", "torch_table"]

TYPES = {  # what PyTorch calls a storage, and its numbers
    "BFloat16Storage": "<u2",
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
MAGIC = 0x1950A86A20F9469CFC6C  # of files before they were zip archives
BFLOAT16_STORAGE = "BFloat16Storage"
INSTEAD = "save tensors alone, by torch.save of a dict of tensors, or as safetensors"
EXPANDED = 1 << 12  # times that a number of a storage may stand in a tensor
MARK = object()


def read_state(content: bytes, name: str = "the file") -> dict[str, np.ndarray]:
    """The arrays in a file of torch.save that holds a dict of tensors; anything else in it is refused.

    name: of the file, for errors.
    """
    try:
        tensors, storages = _opened(content)
        return {key: _array(tensor, storages) for key, tensor in tensors.items()}
    except DAMAGE as error:
        raise FileError(f"{name} is damaged, or not a file of weights that PyTorch wrote: {error}") from error


def torch_table(path: Path) -> ArraysTable:
    """The tensors of a file of torch.save: of a dict, by their names, or one tensor alone."""
    with fitting(path, path.stat().st_size):
        content = path.read_bytes()
    try:
        value, storages = _opened(content)
        if isinstance(value, _Tensor):
            return ArraysTable(str(path), "", {"": _lazy(value, storages)}, {})
        if not isinstance(value, dict):
            raise ValueError(f"it holds a {type(value).__name__}")
        arrays = {str(key): _lazy(part, storages) for key, part in value.items()}
    except PickleError as error:
        message = f"{path} would have to be unpickled, which could run any code ({error}): {INSTEAD}"
        raise FileError(message, path=path) from error
    except DAMAGE as error:
        message = f"{path} is damaged, or not a file of tensors that PyTorch wrote ({error}): {INSTEAD}"
        raise FileError(message, path=path) from error
    return ArraysTable(str(path), "tensor", arrays, {})


def _lazy(value: Any, storages: dict[str, np.ndarray]) -> LazyArray:
    """A tensor, or a list of numbers or text, as an array."""
    if isinstance(value, _Tensor):
        if value.storage.kind not in TYPES:
            problem = f"it is a tensor of {value.storage.kind}, which numpy does not have"
            return unreadable((), problem)
        array = _array(value, storages)
    elif isinstance(value, list | tuple | int | float | str) and _is_plain(value):
        array = np.array(value)
    else:
        return unreadable((), f"it is a {type(value).__name__}, not a tensor")
    return LazyArray(array.shape, array.dtype, lambda start, stop: array[start:stop] if array.ndim else array)


def _is_plain(value: Any) -> bool:
    """Whether a value is a number or text, or a list of numbers alone or of text alone."""
    values = value if isinstance(value, list | tuple) else [value]
    kinds = {type(part) for part in values}
    return kinds <= {int, float} or kinds == {str} or kinds == {bool}


# The two formats


class PickleError(Exception):
    """A pickle asks for something other than tensors."""


DAMAGE = (
    *(PickleError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError),
    *(zipfile.BadZipFile, NotImplementedError, EOFError, RecursionError),
)


def _opened(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """What a file holds, and the storages of its tensors."""
    return (_zipped if zipfile.is_zipfile(io.BytesIO(content)) else _plain)(content)


def _zipped(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """The tensors and the storages of a file since PyTorch 1.6: an archive of a pickle and a file for each storage."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        (pickle,) = (entry for entry in archive.namelist() if entry.endswith("/data.pkl"))
        folder = pickle.removesuffix("data.pkl")
        value = _Reader(io.BytesIO(archive.read(pickle))).value()
        order = f"{folder}byteorder"
        big = order in archive.namelist() and archive.read(order) == b"big"
        storages = {}
        for storage in _storages_of(value):
            if storage.kind in TYPES:
                kind = np.dtype(TYPES[storage.kind]).newbyteorder(">" if big else "<")
                storages[storage.key] = np.frombuffer(archive.read(f"{folder}data/{storage.key}"), kind)
    return value, storages


def _plain(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """The tensors and the storages of an older file: five pickles, then the numbers of each storage."""
    file = io.BytesIO(content)
    if _Reader(file).value() != MAGIC:
        raise ValueError("it does not begin as one")
    _Reader(file).value()  # the version of the protocol
    _Reader(file).value()  # the machine that wrote it
    value, keys = _Reader(file).value(), _Reader(file).value()
    kinds = {storage.key: storage.kind for storage in _storages_of(value)}
    storages = {}
    for key in keys:
        (length,) = np.frombuffer(file.read(8), "<i8")
        kind = np.dtype(TYPES[kinds[key]])
        storages[key] = np.frombuffer(file.read(int(length) * kind.itemsize), kind, int(length))
    return value, storages


def _storages_of(value: Any) -> "list[_Storage]":
    """The storages of the tensors that a file holds."""
    parts = value.values() if isinstance(value, dict) else [value]
    return [part.storage for part in parts if isinstance(part, _Tensor)]


def _array(tensor: "_Tensor", storages: dict[str, np.ndarray]) -> np.ndarray:
    """A tensor's numbers, of which each axis has its own distance from one to the next in the storage."""
    if not isinstance(tensor, _Tensor):
        raise ValueError(f"it holds a {type(tensor).__name__}")
    values = storages[tensor.storage.key]
    steps = [*zip(tensor.shape, tensor.strides, strict=True)]
    last = tensor.offset + sum((length - 1) * stride for length, stride in steps)
    if min((tensor.offset, *tensor.shape, *tensor.strides)) < 0:
        raise ValueError(f"a tensor of {tensor.shape} lies at {tensor.offset}, {tensor.strides}")
    if 0 in tensor.shape:
        return np.empty(tensor.shape, np.float32 if tensor.storage.kind == BFLOAT16_STORAGE else values.dtype)
    if last >= len(values) or math.prod(tensor.shape) > EXPANDED * len(values):
        raise ValueError(f"a tensor of {tensor.shape} ends behind its storage")
    strides = [stride * values.itemsize for stride in tensor.strides]
    array = np.lib.stride_tricks.as_strided(values[tensor.offset :], tensor.shape, strides).copy()
    return of_bfloat16(array) if tensor.storage.kind == BFLOAT16_STORAGE else array


# Pickles


class _Storage:
    """The name of a storage, and of its kind of numbers."""

    def __init__(self, kind: Any, key: str) -> None:
        self.kind, self.key = kind.rpartition(" ")[2], key


class _Tensor:
    """Where the numbers of a tensor are."""

    def __init__(self, storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides


class _Reader:
    """Reads one pickle of a dict of tensors: a name in it becomes a text, and only two names can be called."""

    def __init__(self, file: io.BytesIO) -> None:
        self.file = file
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def value(self) -> Any:
        """What the pickle says."""
        for operation, argument, _ in pickletools.genops(self.file):
            self._step(operation.name, argument)
        (value,) = self.stack
        return value

    def _step(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "PROTO" | "STOP" | "FRAME":
                pass
            case "GLOBAL" | "BINUNICODE" | "SHORT_BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                stack.append(argument)
            case "NEWTRUE" | "NEWFALSE" | "NONE":
                stack.append({"NEWTRUE": True, "NEWFALSE": False, "NONE": None}[name])
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                stack.append({"EMPTY_DICT": {}, "EMPTY_LIST": [], "EMPTY_TUPLE": ()}[name])
            case "MARK":
                stack.append(MARK)
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "APPENDS":
                values = self._since_mark()
                stack[-1].extend(values)
            case "APPEND":
                value = stack.pop()
                stack[-1].append(value)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                stack[-1][key] = value
            case "SETITEMS":
                values = self._since_mark()
                stack[-1].update(zip(values[::2], values[1::2], strict=True))
            case "BINPERSID":  # ("storage", kind, key, where it was, how long it is[, a view])
                _, kind, key, *_ = stack.pop()
                stack.append(_Storage(kind, key))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(_called(function, arguments))
            case "BUILD":  # attributes of the dict, which are not its tensors
                stack.pop()
            case _:
                raise PickleError(f"it asks for {name}")

    def _since_mark(self) -> list[Any]:
        at = len(self.stack) - 1 - self.stack[::-1].index(MARK)
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values


def _called(function: str, arguments: tuple[Any, ...]) -> Any:
    """What the two functions make that such a file may name; they are not those of the libraries."""
    if function == "collections OrderedDict":
        return dict(*arguments)
    if function == "torch._utils _rebuild_tensor_v2":
        return _Tensor(*arguments[:4])
    if function == "torch._utils _rebuild_parameter":  # the tensor, and what training needs of it
        return arguments[0]
    raise PickleError(f"it asks for {function}")
