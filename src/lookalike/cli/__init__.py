"""The command line: an app, a file for each command, and what a terminal shows."""

import logging
import os
import sys

from cyclopts import App, CycloptsError, Parameter

from lookalike.cli import (
    data,
    demo,
    encode,
    evaluate,
    index,
    judge,
    leaderboard,
    look,
    pool,
    rank,
    report,
    search,
    shard,
    study,
    train,
    usage,
)
from lookalike.cli import hash as hashing
from lookalike.cli.outputs import check_outputs
from lookalike.cli.terminal import OUTPUT, fail
from lookalike.core.file_errors import FULL
from lookalike.core.kernels import folder_of
from lookalike.core.version import __version__

app = App(
    name="lookalike",
    help="How good a visual search really is: exact, tie-aware evaluation of hash codes and embeddings.",
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative=()),
)
for command in (
    demo.demo,
    report.report,
    evaluate.evaluate,
    hashing.hash_items,
    usage.usage,
    train.train,
    encode.encode,
    index.index,
    search.search,
    look.look,
    pool.pool,
    leaderboard.leaderboard,
    shard.shard,
    rank.rank,
    data.data,
):
    app.command(command, name=command.__name__.removesuffix("_items"))
app.command(judge.judge)
app.command(study.study)

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends with one sentence and exit code 2."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        try:
            command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
            check_outputs(command, bound)
            command(*bound.args, **bound.kwargs)
        finally:
            sys.stdout.flush()  # here, where its errors can be told
        sys.exit(0)
    except CycloptsError as error:
        fail(f"{str(error).strip()} (see {' '.join(['lookalike', *(error.command_chain or ())])} --help)")
    except OSError as error:
        fail(_of_the_system(error))
    except (ValueError, TypeError, ArithmeticError, ModuleNotFoundError) as error:
        fail(str(error))
    except MemoryError as error:
        fail(_of_memory(error, " ".join(["lookalike", *(sys.argv[1:] if arguments is None else arguments)[:1]])))
    except KeyboardInterrupt:
        sys.exit(130)


def _of_the_system(error: OSError) -> str:
    """An error of the system, with the file that it is about."""
    about = error.filename or (folder_of(error) if _can_print() else OUTPUT)
    if error.errno is None or about is None:
        return error.strerror or str(error)
    return f"cannot write {about}: {error.strerror}" if error.errno in FULL else f"{error.strerror}: {about}"


def _can_print() -> bool:
    """Whether standard output takes what waits for it; where it does not, that is thrown away."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would complain of it at its end
        return False
    return True


def _of_memory(error: MemoryError, command: str) -> str:
    """What there is not enough memory for: a file, as its reader says, else the command.

    >>> _of_memory(MemoryError("Unable to allocate 3. TiB"), "lookalike hash")
    'there is not enough memory for lookalike hash: unable to allocate 3. TiB'
    """
    said = str(error)
    if said.startswith("there is not enough memory"):
        return said
    return f"there is not enough memory for {command}" + f": {said[:1].lower()}{said[1:]}" * bool(said)
