"""Pieces of HTML: everything that comes from data goes through `text`."""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = [
    "Card",
    "cards",
    "choice",
    "data_table",
    "facts",
    "header",
    "mark",
    "menu",
    "script_json",
    "short",
    "sortable",
    "text",
]

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


def short(name: str, most: int) -> str:
    """A name shortened to `most` characters, cut in the middle since names often begin alike.

    >>> short("efficientnet-lite0", 12), short("pixels", 12)
    ('effici…lite0', 'pixels')
    """
    return name if len(name) <= most else f"{name[: most // 2]}…{name[len(name) - (most - 1) // 2 :]}"


def script_json(value: Any) -> str:
    r"""JSON that no HTML parser takes for the end of its script or for a comment.

    >>> script_json({"name": "</script><!--"})
    '{"name":"\\u003c/script>\\u003c!--"}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def mark(index: int, *, dash: bool = False, hollow: bool = False) -> str:
    """The sign of a hasher or model in charts: colour, shape and dashes, by its number in the list of all."""
    colour = f"var(--h{index % COLOURS})"
    line = " ".join(map(str, DASHES[index % len(DASHES)]))
    stroke = (
        f'<path d="M-14 0h28" stroke="{colour}" stroke-width="2" stroke-dasharray="{line}" fill="none"/>'
        if dash
        else ""
    )
    box, width = ("-14 -6 28 12", 28) if dash else ("-6 -6 12 12", 12)
    shape = OUTLINES[SHAPES[index % len(SHAPES)]]
    paint = f'fill="var(--surface)" stroke="{colour}" stroke-width="1.6"' if hollow else f'fill="{colour}"'
    return (
        f'<svg class="mark" viewBox="{box}" width="{width}" height="12" aria-hidden="true">'
        f'{stroke}<path d="{shape}" {paint}/></svg>'
    )


def data_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A small table: its first column names the rows."""
    first = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{text(row[0])}</th>{"".join(f"<td>{text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"


def header(
    key: str,
    title: str,
    meaning: str,
    classes: str = "",
    *,
    words: bool = False,
    rising: bool = False,
    order: str = "none",
) -> str:
    """A column's header that sorts its table: by words, or by numbers, the largest first unless rising.

    order: how the table is sorted by it already.
    """
    by = " data-words" if words else " data-rising" if rising else ""
    return (
        f"<th scope='col' data-key='{text(key)}' class='{classes}' aria-sort='{order}'{by}>"
        f"<button type='button' title='{text(meaning)}'>{text(title)}</button></th>"
    )


def sortable(value: float) -> str:
    """A number as the page's script sorts it; empty for nan.

    >>> sortable(0.1234567891), sortable(float("nan"))
    ('0.123456789', '')
    """
    return "" if math.isnan(value) else f"{value:.9g}"


def choice(name: str, legend: str, choices: Sequence[tuple[str, str]]) -> str:
    """Buttons to choose one of several (value, title), the first chosen; empty if there are fewer than two."""
    if len(choices) < 2:
        return ""
    inner = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" if index == 0 else ""}>'
        f"<span>{title}</span></label>"
        for index, (value, title) in enumerate(choices)
    )
    return f'<fieldset class="choice" id="{name}"><legend>{legend}</legend>{inner}</fieldset>'


class Card(NamedTuple):
    """A number to see first: what it is, its value (or both ends of it), why it matters, and as HTML whose it is."""

    what: str
    value: str
    why: str
    who: str = ""
    small: str = ""  # after the value: " to ", " of 4,096"
    until: str = ""

    def html(self) -> str:
        """The card as an item of a list."""
        value = (
            f"{text(self.value)}<small>{text(self.small)}</small>{text(self.until)}" if self.small else text(self.value)
        )
        who = f'<span class="who">{self.who}</span>' if self.who else ""
        return (
            f'<li><span class="what">{text(self.what)}</span><strong>{value}</strong>'
            f'{who}<span class="why">{text(self.why)}</span></li>'
        )


def cards(label: str, shown: Iterable[Card]) -> str:
    """Numbers to see first, side by side."""
    return f'<ul class="cards" aria-label="{label}">{"".join(card.html() for card in shown)}</ul>'


def menu(links: Iterable[tuple[str, str]]) -> str:
    """Links to sections of the page, (name, title)."""
    return "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in links)


def facts(values: Mapping[str, Any]) -> str:
    """Names and values as a list, which says where numbers come from."""
    return "".join(
        f"<dt>{text(name)}</dt><dd>{text(value if 'seed' in str(name) else _fact(value))}</dd>"
        for name, value in values.items()
    )


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(inner)}" for name, inner in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
