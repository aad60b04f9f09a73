"""The picture of an audit: for each way to count, what the order of ties can do, and what scripts print."""

import math
import textwrap
from collections.abc import Iterator
from pathlib import Path

from lookalike.core.figures import shown
from lookalike.core.files import write_text
from lookalike.evaluation.audit import Audit, AuditRow
from lookalike.report.html import OUTLINES, text

WIDTH, LEFT, RIGHT, TOP, ROW = 980, 330, 92, 116, 46
LETTERS = 135  # of the sentence, in a line
MARKS = {  # order of ties: shape, place in the row, words of the legend
    "stored": ("circle", -9, "ties as stored"),
    "numpy": ("square", 0, "ties as numpy's argsort leaves them"),
    "names": ("triangle-up", 9, "ties by id (trec_eval)"),
    "threshold": ("cross", 9, "a tie group is one step (scikit-learn)"),
}
STYLE = """
svg { --ink: #16202c; --soft: #4a5766; --grid: #e6eaf0; --tie: #bcd8f3; --accent: #0b5cad; --reported: #b3261e;
  --stored: #00785a; --numpy: #8a4b00; --names: #6b3fa8; --threshold: #b03a84; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e8edf3; --soft: #a9b5c3; --grid: #2b3644; --tie: #274a70; --accent: #7db8f5; --reported: #ff8a80;
    --stored: #36cc9f; --numpy: #ffb163; --names: #b79af8; --threshold: #ef8fcb; --paper: #10161d; }
}
.paper { fill: var(--paper); }
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
.title { font-size: 18px; font-weight: 650; } .soft { fill: var(--soft); font-size: 12px; }
.name { font-weight: 600; } .value { font-weight: 600; text-anchor: end; font-variant-numeric: tabular-nums; }
.tick { fill: var(--soft); text-anchor: middle; font-size: 12px; } .grid { stroke: var(--grid); }
.tie { fill: var(--tie); } .open { fill: none; stroke: var(--soft); stroke-dasharray: 3 3; }
.shuffled { fill: var(--accent); fill-opacity: .5; }
.expected { stroke: var(--ink); stroke-width: 2.5; }
.reported { stroke: var(--reported); stroke-width: 2; } .said { fill: var(--reported); font-weight: 650; }
.mark { stroke: var(--paper); stroke-width: 1.2; }
""" + "\n".join(f".{name} {{ fill: var(--{name}); }}" for name in MARKS)

__all__ = ["draw", "write_picture"]


def write_picture(audit: Audit, path: str | Path, reported: str | None = None) -> None:
    """Write the picture to an .svg file, whole or not at all; it is light or dark as the reader has it."""
    write_text(path, draw(audit, reported))


def draw(audit: Audit, reported: str | None = None) -> str:
    """The picture as SVG: a strip for each way to count, from the worst to the best order of ties."""
    verdict = None if reported is None else audit.verdict(reported)
    rows = audit.distinct
    ends = [end for row in rows for end in (row.low, row.high)] + ([] if verdict is None else [verdict.reported])
    axis = _Axis(min(ends), max(ends))
    bottom = TOP + ROW * len(rows)
    sentence = verdict.range if verdict is not None else rows[0].range
    parts = [
        f'<rect class="paper" width="{WIDTH}" height="{bottom + 112}" rx="10"/>',
        '<text class="title" x="24" y="36">What scripts would have printed for these codes</text>',
        *(
            f'<text class="soft" x="24" y="{58 + 17 * number}">{text(line)}</text>'
            for number, line in enumerate(textwrap.wrap(sentence, LETTERS))
        ),
        *_grid(axis, bottom),
    ]
    middles = [TOP + ROW * number + ROW / 2 for number in range(len(rows))]
    for row, y in zip(rows, middles, strict=True):
        parts += _strip(audit, row, axis, y)
    if verdict is not None:
        x = axis(verdict.reported)
        parts += [
            f'<line class="reported" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{bottom}"/>',
            f'<text class="said" x="{x}" y="{TOP - 13}" text-anchor="middle">reported {verdict.number}</text>',
        ]
    for row, y in zip(rows, middles, strict=True):
        parts += _marks(audit, row, axis, y)
    parts += _legend(bottom + 50, f"{audit.about['shuffles']} shuffled galleries")
    told = text(" ".join([sentence, *(f"{row.name}: {shown(row.low)} to {shown(row.high)}." for row in rows)]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 112}" width="{WIDTH}" role="img" '
        f'aria-label="{told}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


class _Axis:
    """Numbers as places from left to right."""

    def __init__(self, low: float, high: float) -> None:
        span = max(high - low, 1e-4)
        self.step = next(
            step for power in range(-6, 2) for unit in (1, 2, 5) if span / (step := unit * 10.0**power) <= 7
        )
        self.low = math.floor((low - 0.03 * span) / self.step) * self.step
        self.high = math.ceil((high + 0.03 * span) / self.step) * self.step

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self) -> Iterator[float]:
        """Round numbers along the axis."""
        for number in range(round((self.high - self.low) / self.step) + 1):
            yield self.low + number * self.step


def _grid(axis: _Axis, bottom: float) -> Iterator[str]:
    """Lines at round numbers, and what they are."""
    digits = max(1, -math.floor(math.log10(axis.step)))
    for value in axis.ticks():
        x = axis(value)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{x}" y="{bottom + 18}">{value:.{digits}f}</text>'
    yield f'<text class="tick" x="{WIDTH - 48}" y="{TOP - 13}">exact</text>'


def _strip(audit: Audit, row: AuditRow, axis: _Axis, y: float) -> Iterator[str]:
    """One way to count: the range of ties, shuffled galleries, and the expectation."""
    users = [one for one in audit.numbers if one.script is not None and one.row.same_numbers(row)]
    names = ", ".join(dict.fromkeys(one.name.partition(",")[0] for one in users))
    yield f'<text class="name" x="24" y="{y - 2 if names else y + 4}">{text(row.name)}</text>'
    if names:
        yield f'<text class="soft" x="24" y="{y + 14}">{text(names)}</text>'
    known = row.worst == row.worst
    kind = "tie" if known else "open"
    low, high = axis(row.low), axis(row.high)
    yield f'<rect class="{kind}" x="{low}" y="{y - 15}" width="{max(high - low, 1):.1f}" height="30" rx="4"/>'
    if len(row.shuffled):
        start, end = axis(float(row.shuffled.min())), axis(float(row.shuffled.max()))
        yield f'<rect class="shuffled" x="{start}" y="{y - 15}" width="{max(end - start, 1):.1f}" height="30"/>'
    if known:
        x = axis(row.expected)
        yield f'<line class="expected" x1="{x}" x2="{x}" y1="{y - 18}" y2="{y + 18}"/>'
        yield f'<text class="value" x="{WIDTH - 24}" y="{y + 5}">{shown(row.expected)}</text>'


def _marks(audit: Audit, row: AuditRow, axis: _Axis, y: float) -> Iterator[str]:
    """A mark for each order of the ties."""
    values = {name: value for name, value in row.orders.items() if name in MARKS}
    if row is audit.rows[0]:
        values["threshold"] = audit.by_threshold
    for name, value in values.items():
        if axis.low <= value <= axis.high:
            yield _mark(name, axis(value), y + MARKS[name][1])


def _mark(order: str, x: float, y: float) -> str:
    return f'<path class="mark {order}" transform="translate({x} {y})" d="{OUTLINES[MARKS[order][0]]}"/>'


def _legend(y: float, shuffled: str) -> Iterator[str]:
    """What the signs mean, in two lines."""
    ranges = (
        (24, '<rect class="tie" x="{x}" y="{top}" width="26" height="14" rx="3"/>', "worst to best order of ties"),
        (252, '<line class="expected" x1="{mid}" x2="{mid}" y1="{top}" y2="{low}"/>', "exact expectation"),
        (420, '<rect class="shuffled" x="{x}" y="{top}" width="26" height="14" rx="3"/>', shuffled),
        (618, '<rect class="open" x="{x}" y="{top}" width="26" height="14" rx="3"/>', "orders that were counted"),
    )
    for x, sign, words in ranges:
        yield sign.format(x=x, top=y - 7, low=y + 7, mid=x + 13)
        yield f'<text x="{x + 34}" y="{y + 4}">{words}</text>'
    x = 24
    for order, (_, _, words) in MARKS.items():
        yield _mark(order, x + 13, y + 30)
        yield f'<text x="{x + 34}" y="{y + 34}">{text(words)}</text>'
        x += 74 + round(6.4 * len(words))
