"""What is said when a command ends early: errors that a user can put right, and those of the machine."""

import os
import sys
from collections.abc import Callable
from typing import Any

from lookalike.cli.parameters import flag_of, is_flag, parameters_of
from lookalike.cli.terminal import OUTPUT
from lookalike.core.errors import Option
from lookalike.core.file_errors import FULL

OTHER_NAMES = {"exclude": "exclude_self", "n_bits": "bits", "random_state": "seed"}  # of Python's parameters

__all__ = ["sentence_of_memory", "sentence_of_system", "spelling"]


def spelling(command: Callable[..., Any] | None) -> Callable[[Option], str]:
    """How an error's options are written for those who run this command.

    An option that the command does not have is written as in Python.

    >>> from lookalike.cli.evaluate import evaluate
    >>> spell = spelling(evaluate)
    >>> spell(Option("unjudged", "condensed")), spell(Option("exclude", "self")), spell(Option("level", "product"))
    ('--unjudged condensed', '--exclude-self', "level='product'")
    """
    parameters = {} if command is None else parameters_of(command)

    def spell(option: Option) -> str:
        name = option.name if option.name in parameters else OTHER_NAMES.get(option.name, "")
        if name not in parameters:
            return str(option)
        flag = flag_of(parameters[name])
        return flag if option.value is None or is_flag(parameters[name]) else f"{flag} {option.value}"

    return spell


def sentence_of_system(error: OSError) -> str:
    """What is said of an error of the system, with the file that it is about."""
    from lookalike.core.kernels import folder_of

    about = error.filename or (folder_of(error) if _can_print() else OUTPUT)
    if error.errno is None or about is None:
        return error.strerror or str(error)
    return f"cannot write {about}: {error.strerror}" if error.errno in FULL else f"{error.strerror}: {about}"


def _can_print() -> bool:
    """Whether standard output takes what waits for it; if not, that is thrown away."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would complain of it at its end
        return False
    return True


def sentence_of_memory(error: MemoryError, command: str) -> str:
    """What there is not enough memory for: a file, as its reader says, else the command.

    >>> sentence_of_memory(MemoryError("Unable to allocate 3. TiB"), "lookalike hash")
    'there is not enough memory for lookalike hash: unable to allocate 3. TiB'
    """
    message = str(error)
    if message.startswith("there is not enough memory"):
        return message
    return f"there is not enough memory for {command}" + f": {message[:1].lower()}{message[1:]}" * bool(message)
