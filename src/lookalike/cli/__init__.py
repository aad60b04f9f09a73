"""The command line: an app, a file for each command, and what a terminal shows."""

import functools
import importlib
import logging
import sys
from collections.abc import Iterable
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from lookalike.cli.errors import sentence_of_memory, sentence_of_system, spelling
from lookalike.cli.options import chosen_format
from lookalike.cli.outputs import check_outputs
from lookalike.cli.terminal import fail, fail_by_a_bug, print_every_letter
from lookalike.core.errors import LookalikeError
from lookalike.core.version import __version__

COMMANDS = (
    *("demo", "report", "evaluate", "compare", "audit", "hash", "usage", "train", "finetune", "encode", "encoders"),
    *("index", "search", "look", "duplicates", "pool", "leaderboard", "shard", "rank", "data", "replicate", "judge"),
    "study",
)
FUNCTIONS = {"hash": "hash_items"}  # where Python has the command's name for something else

__all__ = ["app", "main"]


def app_of(names: Iterable[str]) -> App:
    """The command line with these commands alone; each is loaded from the file of its name."""
    made = App(
        name="lookalike",
        help="How good a visual search really is: exact, tie-aware evaluation of hash codes and embeddings.",
        help_format="plaintext",
        version=__version__,
        default_parameter=Parameter(negative=()),
    )
    for name in names:
        command = getattr(importlib.import_module(f"{__name__}.{name}"), FUNCTIONS.get(name, name))
        made.command(command, **({} if isinstance(command, App) else {"name": name}))
    return made


@functools.cache
def _whole() -> App:
    return app_of(COMMANDS)


def __getattr__(name: str) -> Any:
    if name == "app":  # all commands, for those who ask for all
        return _whole()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main(arguments: list[str] | None = None) -> None:
    """Run a command.

    What a user can put right, and what the machine lacks, ends with one sentence and exit code 2; Ctrl-C with 130.
    Any other error is a bug: its traceback is shown, and the exit code is 1.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    print_every_letter()
    words = sys.argv[1:] if arguments is None else arguments
    command = None
    try:
        try:
            app = app_of(words[:1]) if words and words[0] in COMMANDS else _whole()  # the others are not loaded
            command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
            check_outputs(command, bound)
            chosen_format(bound.arguments.get("form"), bound.arguments.get("as_json", False))  # raises if they differ
            command(*bound.args, **bound.kwargs)
        finally:
            sys.stdout.flush()  # here, where its errors can be told
        sys.exit(0)
    except CycloptsError as error:
        fail(f"{str(error).strip()} (see {' '.join(['lookalike', *(error.command_chain or ())])} --help)")
    except LookalikeError as error:
        fail(error.sentence(spelling(command)))
    except OSError as error:
        fail(sentence_of_system(error))
    except MemoryError as error:
        fail(sentence_of_memory(error, " ".join(["lookalike", *words[:1]])))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        fail_by_a_bug(__version__)
