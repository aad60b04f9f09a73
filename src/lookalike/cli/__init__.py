"""The command line: an app, a file for each command, and what a terminal shows."""

import logging
import sys

from cyclopts import App, CycloptsError, Parameter

from lookalike.cli import (
    data,
    demo,
    encode,
    encoders,
    evaluate,
    finetune,
    index,
    judge,
    leaderboard,
    look,
    pool,
    rank,
    replicate,
    report,
    search,
    shard,
    study,
    train,
    usage,
)
from lookalike.cli import hash as hashing
from lookalike.cli.errors import sentence_of_memory, sentence_of_system, spelling
from lookalike.cli.outputs import check_outputs
from lookalike.cli.terminal import fail, fail_by_a_bug, print_every_letter
from lookalike.core.errors import LookalikeError
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
    finetune.finetune,
    encode.encode,
    encoders.encoders,
    index.index,
    search.search,
    look.look,
    pool.pool,
    leaderboard.leaderboard,
    shard.shard,
    rank.rank,
    data.data,
    replicate.replicate,
):
    app.command(command, name=command.__name__.removesuffix("_items"))
app.command(judge.judge)
app.command(study.study)

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run a command.

    What a user can put right, and what the machine lacks, ends with one sentence and exit code 2; Ctrl-C with 130.
    Any other error is a bug: its traceback is shown, and the exit code is 1.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    print_every_letter()
    command = None
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
    except LookalikeError as error:
        fail(error.sentence(spelling(command)))
    except OSError as error:
        fail(sentence_of_system(error))
    except MemoryError as error:
        words = sys.argv[1:] if arguments is None else arguments
        fail(sentence_of_memory(error, " ".join(["lookalike", *words[:1]])))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        fail_by_a_bug(__version__)
