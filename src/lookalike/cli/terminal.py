"""What commands show: tables, sentences, JSON, progress, and the one line of an error."""

import contextlib
import io
import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from lookalike.core.figures import without_nan
from lookalike.core.file_errors import naming
from lookalike.core.progress import reporting
from lookalike.core.tables.table import BEST, SECOND, ResultTable

OUTPUT = "standard output"

__all__ = [
    "OUTPUT",
    "each_note_once",
    "fail",
    "fail_by_a_bug",
    "print_every_letter",
    "print_json",
    "print_line",
    "printable",
    "progress",
    "prose",
    "remark",
    "rich_table",
    "say_how_to_open",
    "table",
    "tables",
    "tell",
    "without_password",
]


def fail(sentence: str) -> NoReturn:
    """End with one sentence and exit code 2."""
    line = without_password(" ".join(sentence.split()))
    print(f"lookalike: {line}", file=sys.stderr)  # noqa: T201  # the one line a user reads
    sys.exit(2)


def without_password(text: str) -> str:
    """A text in which no address shows its user and password, whichever part of the program repeats it.

    >>> without_password("cannot read pgvector://ann:secret@db.example/shop?table=items")
    'cannot read pgvector://…@db.example/shop?table=items'
    """
    own_words = "(?!USER:PASSWORD@)"  # how our own messages say what an address is like
    return re.sub(rf"(?<=\w)(:/{{1,2}}){own_words}[^\s/@]*:[^\s@]*@", r"\1…@", text)


def fail_by_a_bug(version: str) -> NoReturn:
    """Show the traceback of the error that is handled, ask for a report of it, and end with exit code 1."""
    traceback.print_exc()
    remark(f"this is a bug of lookalike {version}: please report it with the lines above")
    sys.exit(1)


def print_every_letter() -> None:
    """Let standard output write a letter that its encoding lacks as a number, in place of an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def remark(sentence: str) -> None:
    """Say something beside the result, on standard error."""
    print(f"lookalike: {sentence}", file=sys.stderr)  # noqa: T201


@contextlib.contextmanager
def each_note_once() -> Iterator[None]:
    """Within this block, what is logged twice is shown once."""
    shown: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        repeated = message in shown
        shown.add(message)
        return not repeated

    logger = logging.getLogger("lookalike")
    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)


def print_json(value: Any) -> None:
    """A result for other programs to read."""
    with naming(OUTPUT):
        print(json.dumps(without_nan(value), indent=1, allow_nan=False))  # noqa: T201


def print_line(text: str) -> None:
    """A line of plain text, not wrapped and not styled, for other programs to read."""
    with naming(OUTPUT):
        print(text)  # noqa: T201


class _Output(Console):
    """Standard output; an error of the system says so."""

    def print(self, *things: Any, **options: Any) -> None:
        with naming(OUTPUT):
            super().print(*things, **options)


def tell(
    form: str, facts: Callable[[], Any], tables_of: Callable[[], Sequence[ResultTable]], show: Callable[[], None]
) -> None:
    """Print a result in the form that was asked for.

    facts: everything, for JSON. tables_of: what CSV, LaTeX and Markdown show, the main table first. show: prints the
    result for the terminal.
    """
    if form == "json":
        print_json(facts())
    elif form == "table":
        show()
    else:
        _print_tables(form, tables_of())


def _print_tables(form: str, results: Sequence[ResultTable]) -> None:
    """Print tables for other programs. CSV has room for the first alone, and no room for notes: others are told of."""
    from lookalike.core.tables.formats import FORMATS  # with numpy, which --help does without

    if form == "csv":
        main, *others = results
        for sentence in (*main.legend, *main.notes):
            remark(sentence)
        if others:
            left = ", ".join(other.title or other.heads[0].name for other in others)
            remark(f"CSV has room for one table, and these are left out: {left}; --format json has everything")
        results = [main]
    marked = [result.with_marks() for result in results]
    texts = [FORMATS[form](result.transposed() if result.lying else result) for result in marked]
    with naming(OUTPUT):
        print("\n\n".join(text.rstrip("\n") for text in texts))  # noqa: T201


def rich_table(result: ResultTable, *, title: str | None = None) -> Table:
    """A table of results for the terminal: the numbers to report and the best of a column are bold.

    title: of the first column, if it has another one here.
    """
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, head in enumerate(result.heads):
        name = title if title is not None and index == 0 else head.name
        side: Literal["left", "right"] = "left" if head.align == "left" else "right"
        rows.add_column(name, justify=side, style="bold" if head.main else "", no_wrap=True)
    styles = {BEST: "bold", SECOND: "underline"}
    for row in result.with_marks().rows:
        cells = (Text(cell.shown(result.digits) + cell.sign, styles.get(cell.place, "")) for cell in row)
        rows.add_row(*cells)
    return rows


def table(*columns: tuple[str, str], first: str | None = None) -> Table:
    """A plain table with columns of numbers, behind a first one of names."""
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if first is not None:
        rows.add_column(first, no_wrap=True)
    for name, style in columns:
        rows.add_column(name, justify="right", style=style, no_wrap=True)
    return rows


def tables() -> Console:
    """Standard output for tables, as wide as they need to be."""
    return _Output(highlight=False, markup=False, emoji=False, width=max(Console().width, 160), soft_wrap=True)


def prose() -> Console:
    """Standard output for sentences, wrapped."""
    return _Output(highlight=False, markup=False, emoji=False, width=min(Console().width, 80))


def say_how_to_open(page: Path) -> None:
    """Where a page is that was written, and how to look at it."""
    say = tables().print
    say(f"\nThe report is {page} ({page.stat().st_size / 1e6:.1f} MB, one file, no network). Open it in a browser:")
    say(f"  {page.resolve().as_uri()}")


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """A bar on a terminal, elsewhere a plain line every ten seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def line(what: str, done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 10:
                last = time.monotonic()
                print(f"{what}: {done} of {total}", file=sys.stderr)  # noqa: T201

        with reporting(line):
            yield
        return
    with Progress(console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            name = what.partition(":")[0]
            if name not in tasks:
                tasks[name] = bar.add_task(what, total=total)
            elif done == 1:  # the same work once more
                bar.reset(tasks[name])
            bar.update(tasks[name], description=what, completed=done, total=total, visible=done < total)

        with reporting(show):
            yield


def printable(name: str) -> str:
    """A name on one line."""
    return name if name.isprintable() else repr(name)
