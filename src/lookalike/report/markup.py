"""Pieces of HTML: everything that comes from data goes through `text`."""

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["data_table", "mark", "script_json", "text"]

COLOURS = 10
DASHES = ([1, 0], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 2], [2, 2, 6, 2], [1, 4])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right")
OUTLINES = {  # in a square from -5 to 5
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-3.6-3.6h7.2v7.2h-7.2z",
    "triangle-up": "M0-4.4L4.6 3.6h-9.2z",
    "diamond": "M0-5L4.2 0L0 5L-4.2 0z",
    "cross": "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "triangle-down": "M0 4.4L4.6-3.6h-9.2z",
    "triangle-left": "M-4.4 0L3.6-4.6v9.2z",
    "triangle-right": "M4.4 0L-3.6-4.6v9.2z",
}


def text(value: Any) -> str:
    """A value as text between tags or in an attribute.

    >>> text('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(str(value).encode("utf-8", "replace").decode())  # names of files may be no text


def script_json(value: Any) -> str:
    r"""JSON that no HTML parser takes for the end of its script or for a comment.

    >>> script_json({"name": "</script><!--"})
    '{"name":"\\u003c/script>\\u003c!--"}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def mark(place: int, *, dash: bool = False) -> str:
    """The sign by which charts show the hasher in this place: its colour and shape, and the dashes of its line."""
    colour = f"var(--h{place % COLOURS})"
    line = " ".join(map(str, DASHES[place % len(DASHES)]))
    stroke = (
        f'<path d="M-14 0h28" stroke="{colour}" stroke-width="2" stroke-dasharray="{line}" fill="none"/>'
        if dash
        else ""
    )
    box, width = ("-14 -6 28 12", 28) if dash else ("-6 -6 12 12", 12)
    shape = OUTLINES[SHAPES[place % len(SHAPES)]]
    return (
        f'<svg class="mark" viewBox="{box}" width="{width}" height="12" aria-hidden="true">'
        f'{stroke}<path d="{shape}" fill="{colour}"/></svg>'
    )


def data_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A small table: its first column names the rows."""
    first = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{text(row[0])}</th>{"".join(f"<td>{text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"
