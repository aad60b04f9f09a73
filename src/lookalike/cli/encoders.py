"""`lookalike encoders`."""

import dataclasses
from typing import TYPE_CHECKING

from lookalike.cli.options import JSON
from lookalike.cli.terminal import print_json, tables

if TYPE_CHECKING:
    from lookalike.encoders import TableRow

TITLES = {
    "paper": "By the names of Barkan et al. (2023)",
    "packages": "With nothing but packages",
}

__all__ = ["encoders"]


def encoders(*, as_json: JSON = False) -> None:
    """List encoders: which weights, their licence, whether each runs now, and the command that makes it run.

    Example: lookalike encoders

    Example: lookalike encoders --json
    """
    from lookalike.encoders import table

    rows = table()
    if as_json:
        print_json([dataclasses.asdict(row) for row in rows])
        return
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
