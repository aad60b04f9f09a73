"""Writes networks as ONNX without the package onnx: convolutions, ReLU6, sums, and the means of maps.

ONNX is a format of Protocol Buffers: a message is its fields one after the other, each with its number and kind before
it. The numbers of fields are those of onnx.proto.
"""

from collections.abc import Sequence

import numpy as np

__all__ = ["GraphWriter"]

IR_VERSION, OPSET = 8, 13  # of 2022 and 2020: older than any ONNX Runtime that is in use
FLOAT = 1
INT_ATTRIBUTE, INTS_ATTRIBUTE = 2, 7


class GraphWriter:
    """A network that is written layer by layer; each layer takes names of what others made, and gives its own name."""

    def __init__(self, *shape: int) -> None:
        """shape: of the input without its first axis, which may be of any length."""
        self.shape = shape
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self.input = "images"

    def convolution(
        self,
        maps: str,
        weight: np.ndarray,
        bias: np.ndarray,
        *,
        stride: int = 1,
        pads: tuple[int, int] = (0, 0),
        groups: int = 1,
    ) -> str:
        """A convolution, (outputs, inputs / groups, height, width); pads: zeros ahead of each side, and behind it."""
        inputs = [maps, self._constant(weight), self._constant(bias)]
        first, last = pads
        return self._node(
            "Conv", inputs, kernel_shape=weight.shape[2:], strides=(stride, stride), group=groups,
            pads=(first, first, last, last),
        )  # fmt: skip

    def relu6(self, maps: str) -> str:
        """Numbers cut off below 0 and above 6."""
        return self._node("Clip", [maps, self._constant(np.float32(0)), self._constant(np.float32(6))])

    def add(self, maps: str, others: str) -> str:
        """The sum of two."""
        return self._node("Add", [maps, others])

    def means(self, maps: str) -> str:
        """The mean of each map, (n, maps)."""
        return self._node("Flatten", [self._node("GlobalAveragePool", [maps])], axis=1)

    def model(self, output: str, width: int) -> bytes:
        """The whole network, whose rows are what has this name; width: how many numbers a row has."""
        graph = [_field(1, node) for node in self._nodes]
        graph += [_field(2, "lookalike"), *(_field(5, constant) for constant in self._constants)]
        graph += [_field(11, _value(self.input, self.shape)), _field(12, _value(output, (width,)))]
        opset = _field(2, OPSET)
        parts = [_field(1, IR_VERSION), _field(2, "lookalike"), _field(7, b"".join(graph)), _field(8, opset)]
        return b"".join(parts)

    def _constant(self, values: np.ndarray | np.float32) -> str:
        array, name = np.asarray(values, "<f4"), f"constant{len(self._constants)}"
        dims = b"".join(_field(1, length) for length in array.shape)
        self._constants.append(dims + _field(2, FLOAT) + _field(8, name) + _field(9, array.tobytes()))
        return name

    def _node(self, kind: str, inputs: Sequence[str], **attributes: int | Sequence[int]) -> str:
        name = f"{kind}{len(self._nodes)}"
        fields = [*(_field(1, given) for given in inputs), _field(2, name), _field(3, name), _field(4, kind)]
        fields += [_field(5, _attribute(key, value)) for key, value in attributes.items()]
        self._nodes.append(b"".join(fields))
        return name


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, INT_ATTRIBUTE)
    return _field(1, name) + b"".join(_field(8, each) for each in value) + _field(20, INTS_ATTRIBUTE)


def _value(name: str, shape: Sequence[int]) -> bytes:
    """The name, type and shape of an input or output, of which there may be any number."""
    dims = [_field(1, _field(2, "n")), *(_field(1, _field(1, length)) for length in shape)]
    tensor = _field(1, FLOAT) + _field(2, b"".join(dims))
    return _field(1, name) + _field(2, _field(1, tensor))


def _field(number: int, value: int | str | bytes) -> bytes:
    """A field of a message: a whole number, or bytes with their length before them.

    >>> _field(1, 300).hex(), _field(2, "ab").hex()
    ('08ac02', '12026162')
    """
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """A whole number from 0, seven bits in each byte, the lowest first."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
