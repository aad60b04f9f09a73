"""The command line: an app, a file for each group of commands, and what a terminal shows."""

import logging
import sys

from cyclopts import App, CycloptsError, Parameter

from lookalike._version import __version__
from lookalike.cli import (
    data,
    discovering,
    evaluating,
    hashing,
    judging,
    looking,
    reports,
    searching,
    sharding,
    studies,
    training,
)
from lookalike.cli.outputs import check_outputs
from lookalike.cli.terminal import fail

app = App(
    name="lookalike",
    help="How good a visual search really is: exact, tie-aware evaluation of hash codes and embeddings.",
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative=()),
)
for command in (
    reports.demo,
    reports.report,
    evaluating.evaluate,
    hashing.hash_items,
    hashing.usage,
    training.train,
    searching.encode,
    searching.index,
    searching.search,
    looking.look,
    discovering.pool,
    discovering.leaderboard,
    sharding.shard,
    sharding.rank,
    data.data,
):
    app.command(command, name=command.__name__.removesuffix("_items"))
app.command(judging.judge)
app.command(studies.study)

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends with one sentence and exit code 2."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        check_outputs(command, bound)
        command(*bound.args, **bound.kwargs)
        sys.exit(0)
    except CycloptsError as error:
        fail(f"{str(error).strip()} (see {' '.join(['lookalike', *(error.command_chain or ())])} --help)")
    except (ValueError, TypeError, ArithmeticError, OSError, ModuleNotFoundError) as error:
        fail(f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error))
    except MemoryError:
        fail("there is not enough memory for this gallery")
    except KeyboardInterrupt:
        sys.exit(130)
