"""The columns of votes: answers, times and seconds, from what users and files bring."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

from lookalike.core.codes import as_numpy
from lookalike.core.errors import InputError
from lookalike.core.ids import RowError
from lookalike.discovery.scale import BINARY, Scale, plain_words

SIMILAR, NOT_SIMILAR, CANT_TELL = 1, 0, -1
WORDS = BINARY.answers
NO_TIME = np.datetime64("NaT", "ms")

__all__ = ["CANT_TELL", "NOT_SIMILAR", "NO_TIME", "SIMILAR", "WORDS", "answer_column", "seconds_column", "time_column"]


def answer_column(values: Any, error: RowError, scale: Scale = BINARY) -> np.ndarray:
    """Answers as grades of a scale and -1 (can't tell), from these numbers or from words."""
    array = _column(values, "answers")
    if array.dtype.kind in "biuf":
        wrong = np.flatnonzero(~np.isin(array, list(scale.answers)))
        if len(wrong):
            raise error(int(wrong[0]), f"an answer must be {scale.form}, got {array[wrong[0]]}")
        return array.astype(np.int8)
    words = {plain_words(word): answer for answer, word in scale.answers.items()}
    words |= {str(answer): answer for answer in scale.answers}
    answers = np.empty(len(array), np.int8)
    for row, value in enumerate(array.tolist()):
        answer = words.get(plain_words(str(value)))
        if answer is None:
            raise error(row, f"an answer must be {scale.form}, got {value!r}")
        answers[row] = answer
    return answers


def time_column(values: Any, error: RowError) -> np.ndarray:
    """Times in UTC to the millisecond, NaT where there is none."""
    array = _column(values, "times")
    if array.dtype.kind == "M":
        return array.astype("datetime64[ms]")
    times = np.full(len(array), NO_TIME)
    for row, value in enumerate(array.tolist()):
        if value is None or value == "" or value != value:
            continue
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            times[row] = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
        except (TypeError, ValueError, OverflowError) as cause:
            raise error(row, f"a time must be like 2024-05-01T12:30:00Z, or empty, got {value!r}") from cause
    return times


def seconds_column(values: Any, error: RowError) -> np.ndarray:
    """Seconds as numbers from 0, nan where there are none."""
    array = _column(values, "seconds")
    try:
        seconds = array.astype(float)
    except (TypeError, ValueError):
        seconds = np.array([_number(value) for value in array.tolist()])
    wrong = np.flatnonzero(np.isinf(seconds) | (seconds < 0))
    if len(wrong):
        raise error(int(wrong[0]), f"seconds must be a number from 0, or empty, got {array.tolist()[wrong[0]]!r}")
    return seconds


def _column(values: Any, what: str) -> np.ndarray:
    try:
        array = as_numpy(values)
    except (TypeError, ValueError) as cause:  # such as lists of different lengths
        raise InputError(f"{what} of votes must be a list, got {values!r}") from cause
    if array.ndim != 1:
        raise InputError(f"{what} of votes must be a list, got shape {array.shape}")
    return array


def _number(text: Any) -> float:
    """The number that a text holds; nan for an empty text, and -1, which is refused, for anything else."""
    try:
        return float(text) if text not in (None, "") else np.nan
    except (TypeError, ValueError):
        return -1.0
