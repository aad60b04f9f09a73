"""`lookalike encoders`."""

import dataclasses
from typing import TYPE_CHECKING

from lookalike.cli.options import FORMAT, JSON, chosen_format
from lookalike.cli.terminal import tables, tell

if TYPE_CHECKING:
    from lookalike.encoders import TableRow

TITLES = {
    "paper": "By the names of Barkan et al. (2023)",
    "packages": "With nothing but packages",
}

__all__ = ["encoders"]


def encoders(*, as_json: JSON = False, form: FORMAT = None) -> None:
    """List encoders: which weights, their licence, whether each runs now, and the command that makes it run.

    Example: lookalike encoders

    Example: lookalike encoders --json
    """
    from lookalike.core.tables.table import ResultTable
    from lookalike.encoders import table

    printed = chosen_format(form, as_json)
    rows = table()
    facts = [dataclasses.asdict(row) for row in rows]
    tell(printed, lambda: facts, lambda: [ResultTable.of_rows(facts)], lambda: _show_all(rows))


def _show_all(rows: "list[TableRow]") -> None:
    """Print all rows by group, and what their columns are."""
    for group, title in TITLES.items():
        _show(title, [row for row in rows if row.group == group])
    say = tables().print
    say("Second column, whether it runs now: yes, no, or fetches, if weights are fetched when it is first used.")
    say("Any exported network runs as onnx:FILE, any other network of the libraries as timm:NAME, open_clip:NAME/TAG")
    say("or hf:NAME.")


def _show(title: str, rows: "list[TableRow]") -> None:
    """Print each row on a line, its command below it, and an empty line at the end."""
    say = tables().print
    width, licence = max(len(row.name) for row in rows), max(len(row.licence) for row in rows)
    say(f"{title}\n")
    for row in rows:
        needs = f"; needs {row.needs}" if row.needs else ""
        say(f"{row.name:{width}}  {row.runs:7}  {row.licence:{licence}}  {row.weights}{needs}")
        say(f"{'':{width}}  {row.command}")
    say()
