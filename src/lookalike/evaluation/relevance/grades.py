"""Relevance by a matrix of grades."""

from typing import Any, Self

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError, InputTypeError
from lookalike.core.files import digest
from lookalike.evaluation.relevance.base import MAX_GRADE, Relevance

__all__ = ["grades", "whole_grade"]


def grades(matrix: Any) -> Relevance:
    """Grades given in full, (n_queries, n_gallery) of whole numbers from 0."""
    return Grades(matrix)


class Grades(Relevance):
    """Grades in a matrix that the user brought."""

    kind = "grades"

    def __init__(self, matrix: Any) -> None:
        matrix = as_numpy(matrix)
        if matrix.ndim != 2:
            raise InputError(f"grades must be a matrix (n_queries, n_gallery), got shape {matrix.shape}")
        self.matrix = _whole_grades(matrix, "grades")
        self.n_queries, self.n_gallery = matrix.shape
        self.max_grade = max(1, int(self.matrix.max(initial=0)))

    def _cut(self, items: slice) -> Self:
        other = super()._cut(items)
        other.matrix = self.matrix[:, items]
        return other

    def block(self, queries: slice, items: slice) -> np.ndarray:
        return np.ascontiguousarray(self.matrix[queries, items])

    def of_pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return np.asarray(self.matrix[queries, items])

    @property
    def digest(self) -> str:
        return digest(self.matrix)


def _whole_grades(matrix: np.ndarray, what: str) -> np.ndarray:
    if matrix.dtype.kind not in "biuf":
        raise InputTypeError(f"{what} must be whole numbers, got {matrix.dtype}")
    if matrix.dtype != bool:
        with np.errstate(invalid="ignore"):
            wrong = ~((matrix >= 0) & (matrix <= MAX_GRADE) & (matrix == np.floor(matrix)))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            whole_grade(matrix[row, column].item(), f"row {row}, column {column} of the {what}")
    return matrix.astype(np.int16)


def whole_grade(value: Any, where: str) -> int:
    """The grade as an int; an error if it is none. where: its place, for the text of the error."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"a grade must be a whole number from 0 to {MAX_GRADE}, got {value!r} in {where}") from None
    if not number.is_integer() or not 0 <= number <= MAX_GRADE:
        raise InputError(f"a grade must be a whole number from 0 to {MAX_GRADE}, got {value} in {where}")
    return int(number)
