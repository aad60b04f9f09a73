"""Errors of the project's own: what they are to Python, and that they come back whole from other processes."""

from __future__ import annotations

import pickle

import pytest

from lookalike.core.errors import (
    FileError,
    InputError,
    InputTypeError,
    LookalikeError,
    MissingPackageError,
    Option,
    StoreError,
    StudyError,
    missing_package,
)

KINDS = {
    InputError: (ValueError,),
    InputTypeError: (ValueError, TypeError),
    FileError: (ValueError,),
    StudyError: (ValueError,),
    StoreError: (RuntimeError,),
    MissingPackageError: (ImportError,),
}


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_what_python_users_catch(kind: type[LookalikeError]) -> None:
    assert issubclass(kind, (LookalikeError,))
    assert all(issubclass(kind, parent) for parent in KINDS[kind])
    assert issubclass(kind, TypeError) == (TypeError in KINDS[kind])


@pytest.mark.parametrize(
    "error",
    [
        InputError("give ", Option("k", 3), parameter="k", value=0),
        FileError("a.csv, line 3: odd", path="a.csv", line=3),
        missing_package("judging", "starlette", "judge"),
        StoreError("the database does not answer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_back_whole_from_other_processes(error: LookalikeError) -> None:
    again = pickle.loads(pickle.dumps(error))  # what was just written
    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
