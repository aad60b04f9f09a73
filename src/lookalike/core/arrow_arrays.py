"""Columns of Arrow as numpy arrays, and back."""

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from lookalike.core.errors import InputError

__all__ = ["arrow_columns", "arrow_table", "arrow_to_numpy", "bytes_of"]


def arrow_table(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Any:
    """A pyarrow table with a column for each array, and the facts about them as metadata."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = pa.array(array)
        elif array.dtype == np.uint8:
            flat = np.ascontiguousarray(array)
            width = array.shape[1]
            columns[name] = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(width), len(array), [None, pa.py_buffer(flat)]
            )
        else:
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1])
    return pa.table(columns, metadata={"lookalike": json.dumps(about)})


def arrow_columns(
    table: Any, path: object, *, first_row: int = 0, packed: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """The columns of a pyarrow table or batch as numpy. Only bytes are packed codes: a list of uint8 becomes int16.

    path: the name of its file in errors. first_row: where its rows begin. packed: columns of bytes that are codes.
    """
    import pyarrow as pa

    arrays = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        what = f"column {name!r} of {path}"
        if name in packed and not pa.types.is_fixed_size_binary(column.type):
            column = _as_fixed_binary(column, what, first_row)
        arrays[name] = arrow_to_numpy(column, what, first_row)
        if arrays[name].dtype == np.uint8 and not pa.types.is_fixed_size_binary(column.type):
            arrays[name] = arrays[name].astype(np.int16)
    return arrays


def _as_fixed_binary(column: Any, what: str, first_row: int) -> Any:
    """Bytes of one length as a type of its own; raises for bytes of several lengths."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(column).drop_null().to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != lengths[:1])
    if len(odd):
        raise InputError(
            f"{what} has bytes of different lengths: {lengths[0]} in its first row, {lengths[odd[0]]} in row "
            f"{first_row + odd[0]}"
        )
    return column.cast(pa.binary(int(lengths[0]) if len(lengths) else 1))


def bytes_of(kind: Any) -> int:
    """The least number of bytes that a value of an Arrow type takes.

    >>> import pyarrow as pa
    >>> bytes_of(pa.list_(pa.float32(), 64)), bytes_of(pa.binary(8)), bytes_of(pa.string())
    (256, 8, 1)
    """
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * bytes_of(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return int(kind.byte_width)
    return max(1, int(kind.bit_width) // 8) if pa.types.is_primitive(kind) else 1


def arrow_to_numpy(column: Any, what: str, first_row: int = 0) -> np.ndarray:
    """A pyarrow array as numpy: fixed-size binary becomes (n, bytes) uint8, a list (n, length).

    what: its name in errors. first_row: where its rows begin.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # what combine_chunks gives for a column without rows
        column = pa.array([], column.type)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{what} has {column.null_count} empty values, the first in row {row}")
    if pa.types.is_dictionary(column.type):
        column = _without_views(column.dictionary).take(column.indices)
    column = _without_views(column)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        flat = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        return flat[column.offset * width :][: len(column) * width].reshape(len(column), width)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return _list_to_numpy(column, _length_of_lists(column, what, first_row), what, first_row)
    if pa.types.is_fixed_size_list(column.type):
        return _list_to_numpy(column, column.type.list_size, what, first_row)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        try:
            column = column.cast(pa.large_string())
        except pa.ArrowInvalid as error:
            raise InputError(f"{what} holds bytes that are not text in UTF-8") from error
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    return values.astype(str) if values.dtype.kind == "O" else values


def _without_views(column: Any) -> Any:
    """Text and bytes of polars, in the types that all functions of Arrow take."""
    import pyarrow as pa

    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _length_of_lists(column: Any, what: str, first_row: int) -> int:
    """The one length that all lists have; raises where they have several."""
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != lengths[:1])
    if len(odd):
        raise InputError(
            f"{what} has lists of different lengths, from {lengths.min()} to {lengths.max()}: row {first_row} has "
            f"{lengths[0]} values, row {first_row + odd[0]} has {lengths[odd[0]]}"
        )
    return int(lengths[0]) if len(lengths) else 0


def _list_to_numpy(column: Any, length: int, what: str, first_row: int) -> np.ndarray:
    """Lists of one length as a matrix; raises if one holds an empty value."""
    values = column.flatten()
    if values.null_count:
        row = first_row + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // max(length, 1)
        raise InputError(f"{what} has {values.null_count} empty values within its lists, the first in row {row}")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), length)
