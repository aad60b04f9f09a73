"""A table of results as text, Markdown, CSV and HTML; as LaTeX in `latex`."""

import html
import re
from typing import Any

from lookalike.core.csv_files import csv_text
from lookalike.core.tables.table import BEST, SECOND, ResultTable, TableCell, TieRange, ValueRange
from lookalike.core.text_table import aligned, padded, width_of

NOTHING = "–"  # where there is no value

__all__ = ["as_csv", "as_html", "as_markdown", "as_text"]


def as_text(table: ResultTable) -> str:
    """The table as lines of text, for printing: nan is nan, and only signs mark numbers.

    >>> from lookalike.core.tables.table import TableHead
    >>> heads = ["system", *map(TableHead, "pq")]
    >>> print(as_text(ResultTable.of(heads, [["a", 0.5, 12], ["long", float("nan"), None]])))
    system       p   q
    a       0.5000  12
    long       nan
    """
    cells = [[f"{cell.shown(table.digits)}{cell.sign}" for cell in row] for row in table.rows]
    lines = aligned([[head.name for head in table.heads], *cells], _left(table))
    return "\n".join([lines, *table.legend, *table.notes])


def as_markdown(table: ResultTable) -> str:
    r"""The table with pipes between its columns: the best number is bold, the second in italics.

    >>> from lookalike.core.tables.table import TableHead
    >>> print(as_markdown(ResultTable.of(["system", TableHead("a|b")], [["x_1", 0.5], ["y", 0.25]])))
    | system |   a\|b |
    |:-------|-------:|
    | x\_1   | 0.5000 |
    | y      | 0.2500 |
    """
    heads = [_in_markdown(head.name) for head in table.heads]
    cells = [[_markdown_cell(cell, table.digits) for cell in row] for row in table.rows]
    least = ["---"] * len(heads)  # the line below the heads has three signs or more
    first, _, *others = padded([heads, least, *cells], left := _left(table))
    rule = [
        f":{'-' * (width_of(cell) + 1)}" if i in left else f"{'-' * (width_of(cell) + 1)}:"
        for i, cell in enumerate(first)
    ]
    lines = [f"| {' | '.join(first)} |", f"|{'|'.join(rule)}|", *(f"| {' | '.join(row)} |" for row in others)]
    if table.title:
        lines = [f"**{_in_markdown(table.title)}**", "", *lines]
    below = [*table.legend_with("bold", "in italics"), *table.notes]
    return "\n".join([*lines, *(f"\n{_in_markdown(sentence)}" for sentence in below)])


def as_csv(table: ResultTable) -> str:
    """The table as CSV with all digits; a number with its best and worst, and an interval, have a column for each part.

    >>> from lookalike.core.tables.table import TableHead
    >>> print(as_csv(ResultTable.of(["system", TableHead("AP")], [["a", TieRange(0.1, 0.2, 1 / 30)]])), end="")
    system,AP,AP best,AP worst
    a,0.1,0.2,0.03333333333333333
    """
    kinds = [_kind([row[index] for row in table.rows]) for index in range(len(table.heads))]
    heads = [f"{head.name}{part}" for head, kind in zip(table.heads, kinds, strict=True) for part in PARTS[kind]]
    rows = [
        [value for cell, kind in zip(row, kinds, strict=True) for value in _parts(cell.value, kind)]
        for row in table.rows
    ]
    return csv_text([heads, *rows])


PARTS: dict[type, tuple[str, ...]] = {
    TieRange: ("", " best", " worst"),
    ValueRange: (" low", " high"),
    object: ("",),
}


def _kind(cells: list[TableCell]) -> type:
    """What makes a column of CSV several: numbers with their best and worst, or intervals."""
    return next(
        (kind for kind in (TieRange, ValueRange) if any(isinstance(cell.value, kind) for cell in cells)), object
    )


def _parts(value: Any, kind: type) -> tuple[Any, ...]:
    """What a cell has in each column of CSV; nothing where a cell of another kind has less."""
    parts = tuple(value) if isinstance(value, TieRange | ValueRange) else (value,)
    return tuple("" if part is None else part for part in (*parts, *[None] * (len(PARTS[kind]) - len(parts))))


def as_html(table: ResultTable) -> str:
    """The table as HTML without styles or scripts: the best number is bold, the second underlined."""
    top = "".join(f'<th style="text-align: {head.align}">{html.escape(head.name)}</th>' for head in table.heads)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {head.align}">{_html_cell(cell, head.main, table.digits)}</td>'
            for head, cell in zip(table.heads, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    below = (*table.legend_with("bold", "underlined"), *table.notes)
    paragraphs = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in below)
    return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>{paragraphs}"


def _left(table: ResultTable) -> set[int]:
    return {index for index, head in enumerate(table.heads) if head.align == "left"}


def _markdown_cell(cell: TableCell, digits: int) -> str:
    text = NOTHING if cell.missing else _in_markdown(cell.shown(digits))
    around = {BEST: "**", SECOND: "*"}.get(cell.place, "")
    return f"{around}{text}{around}{_in_markdown(cell.sign)}"


def _in_markdown(text: str) -> str:
    """A text without what Markdown takes for a mark, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>|~$])", r"\\\1", " ".join(text.split()))


def _html_cell(cell: TableCell, main: bool, digits: int) -> str:
    text = NOTHING if cell.missing else html.escape(cell.shown(digits))
    tag = "b" if cell.place == BEST or main else "u" if cell.place == SECOND else None
    return (text if tag is None else f"<{tag}>{text}</{tag}>") + html.escape(cell.sign)
