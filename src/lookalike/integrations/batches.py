"""Batches of a training loop as tensors that can be kept and sent: bits, embeddings, labels and ids, each checked."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.core.codes import Codes, as_numpy
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.tags import zero_one
from lookalike.evaluation.relevance import Relevance, hierarchy, same_label, shared_tags

RELEVANCE = ("labels", "hierarchy", "tags")

logger = logging.getLogger("lookalike")

__all__ = [
    "RELEVANCE",
    "Batch",
    "Side",
    "distinct_rows",
    "embedding_rows",
    "id_rows",
    "label_rows",
    "packed_rows",
    "relevance_of",
]


@dataclass(frozen=True)
class Batch:
    """Some queries or items: their rows, (n, columns) of bytes or floats, labels (n, columns), and ids (n,) or None."""

    rows: Tensor
    labels: Tensor
    ids: Tensor | None


@dataclass(frozen=True)
class Side:
    """All queries, or all items, as arrays."""

    rows: np.ndarray
    labels: np.ndarray
    ids: np.ndarray | None


def packed_rows(codes: Any, n_bits: int, what: str) -> Tensor:
    """Codes as packed bytes, (n, ceil(n_bits / 8)) of uint8: from bits (n, n_bits), or `la.Codes`.

    >>> packed_rows(torch.tensor([[1.0, -1.0, 1.0]]), 3, "queries")
    tensor([[5]], dtype=torch.uint8)
    """
    if not isinstance(codes, Codes):
        bits = as_numpy(codes)
        if bits.ndim != 2 or bits.shape[1] != n_bits:
            raise InputError(f"{what} must be bits of the shape (n, {n_bits}), as n_bits says, got {bits.shape}")
        if bits.dtype.kind == "f":
            _check_bits(bits, what)
        codes = Codes.pack(bits)
    if codes.n_bits != n_bits:
        raise InputError(f"{what} are codes of {codes.n_bits} bits, but n_bits is {n_bits}")
    return torch.tensor(codes.to_bytes())


def _check_bits(values: np.ndarray, what: str) -> None:
    """Raise for floats that are no bits: activations whose sign was not taken, or whose sign is 0."""
    ones, zeros, minus = values == 1, values == 0, values == -1
    if not (ones | zeros | minus).all():
        value = values[~(ones | zeros | minus)][0]
        raise InputError(
            f"{what} must be bits, 0/1, -1/+1 or booleans, got {value:.4g}: for activations pass "
            "activations.sign() or activations > 0; embeddings are for EmbeddingRetrieval"
        )
    if zeros.any() and minus.any():
        raise InputError(
            f"{what} have -1, 0 and others together, such as the sign of 0, which is 0: pass booleans, activations > 0"
        )


def embedding_rows(embeddings: Any, what: str) -> Tensor:
    """Embeddings as a matrix of floats without a gradient, on the device where they are; bfloat16 becomes float32."""
    rows = embeddings if isinstance(embeddings, Tensor) else torch.tensor(as_numpy(embeddings))
    if rows.ndim != 2:
        raise InputError(f"{what} must be a matrix (n, columns), got shape {tuple(rows.shape)}")
    if not rows.is_floating_point():
        raise InputTypeError(f"{what} must be floats, got {rows.dtype}: codes are for HammingRetrieval")
    rows = rows.detach()
    return rows.float() if rows.dtype == torch.bfloat16 else rows


def label_rows(labels: Any, n: int, relevance: str, what: str) -> Tensor:
    """Labels as (n, 1) or (n, levels) of int64, tags as (n, tags) of uint8.

    >>> label_rows([3, 1], 2, "labels", "queries").tolist()
    [[3], [1]]
    """
    if labels is None:
        raise InputError(f"{what} need labels: pass labels, one for each")
    if relevance == "hierarchy" and isinstance(labels, tuple) and len(labels) == 2:
        labels = np.stack([_column(level, n, what) for level in labels], axis=1)
    values = as_numpy(labels)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != n:
        raise InputError(f"there are {n} {what}, but labels of the shape {as_numpy(labels).shape}")
    if relevance == "tags":
        try:
            return torch.tensor(zero_one(values).astype(np.uint8))
        except InputError as error:
            raise InputError(f"{what}: ", *error.args) from error
    columns = 2 if relevance == "hierarchy" else 1
    if values.shape[1] != columns:
        raise InputError(
            f"labels of {what} have {values.shape[1]} columns, expected {columns}: "
            "say what they are with relevance='tags' (0/1) or relevance='hierarchy' (fine, coarse)"
        )
    return torch.tensor(_whole(values, f"labels of {what}"))


def _column(labels: Any, n: int, what: str) -> np.ndarray:
    values = as_numpy(labels)
    if values.shape != (n,):
        raise InputError(f"there are {n} {what}, but labels of the shape {values.shape}")
    return values


def id_rows(ids: Any, n: int, what: str) -> Tensor | None:
    """Ids as (n,) of int64."""
    if ids is None:
        return None
    values = as_numpy(ids)
    if values.shape != (n,):
        raise InputError(f"there are {n} {what}, but ids of the shape {values.shape}")
    return torch.tensor(_whole(values, f"ids of {what}"))


def _whole(values: np.ndarray, what: str) -> np.ndarray:
    """Whole numbers as int64."""
    if values.dtype.kind not in "biuf":
        raise InputTypeError(
            f"{what} must be whole numbers, as only numbers are sent between processes, got {values.dtype}: number them"
        )
    if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.floor(values))).all():
        raise InputError(f"{what} must be whole numbers, got fractions, nan or infinity")
    if values.size and (values.max() >= 2**63 or values.min() < -(2**63)):
        raise InputError(f"{what} must be whole numbers below 2^63")
    return values.astype(np.int64)


def relevance_of(kind: str, queries: np.ndarray, gallery: np.ndarray) -> Relevance:
    """The relevance by labels as `label_rows` makes them."""
    if kind == "tags":
        return shared_tags(queries, gallery)
    if kind == "hierarchy":
        return hierarchy((queries[:, 0], queries[:, 1]), (gallery[:, 0], gallery[:, 1]))
    return same_label(queries[:, 0], gallery[:, 0])


def distinct_rows(side: Side, what: str) -> Side:
    """Rows in the order of their ids, each id once; as they came where there are no ids.

    Samplers that fill the last batch give an item twice. Rows with one id and different labels are an error.
    """
    if side.ids is None:
        return side
    ids, first, number = np.unique(side.ids, return_index=True, return_inverse=True)
    if len(ids) < len(side.ids):
        differ = np.flatnonzero((side.labels != side.labels[first[number]]).any(1))
        if len(differ):
            raise InputError(
                f"{what} with the id {side.ids[differ[0]]} have different labels: ids must be those of the items, not "
                "positions in a batch"
            )
        logger.warning(
            "%d of %d %s have the id of another and were left out, as of a sampler that fills the last batch",
            len(side.ids) - len(ids),
            len(side.ids),
            what,
        )
    return Side(side.rows[first], side.labels[first], ids)
