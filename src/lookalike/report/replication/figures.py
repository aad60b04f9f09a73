"""The charts of a claim: our numbers with their intervals, and the printed ones beside them."""

import math
from collections.abc import Sequence

from lookalike.experiments.claims import MeasuredNumber, PaperClaim
from lookalike.experiments.replicate import Replication
from lookalike.report.bars import Bar, interval_bars
from lookalike.report.figure import Figure, FigurePanel
from lookalike.report.html import data_table, text
from lookalike.report.numbers import MISSING

__all__ = ["figure", "short_names"]


def figure(claim: PaperClaim, result: Replication, reading: str) -> Figure:
    """A panel for each group of numbers, and all numbers in a table."""
    groups: dict[str, list[MeasuredNumber]] = {}
    for number in result.numbers:
        if number.group:
            groups.setdefault(number.group, []).append(number)
    rows = [(n.name, *map(_shown, (n.value, n.low, n.high, n.printed))) for n in result.numbers]
    head = ["number", "value", "95 % from", "to", "printed"]
    panels = [_panel(group, numbers) for group, numbers in groups.items()]
    table = data_table(head, rows) if rows else "<p>There are no numbers.</p>"
    return Figure(claim.name, claim.title, text(claim.title), reading, panels, table, least="22rem", most=2)


def _panel(group: str, numbers: Sequence[MeasuredNumber]) -> FigurePanel:
    """Bars of ours, and hollow ones of what is printed."""
    bars, told = [], []
    for name, number in zip(short_names([number.name for number in numbers]), numbers, strict=True):
        bars.append(Bar(name, number.value, (number.low, number.high), shown=_drawn(number.value)))
        told.append(f"{name} {_shown(number.value)}")
        if not math.isnan(number.printed):
            bars.append(
                Bar(f"{name} (print)", number.printed, (math.nan, math.nan), solid=False, shown=_drawn(number.printed))
            )
            told.append(f"printed {_shown(number.printed)}")
    return FigurePanel(f"<span>{text(group)}</span>", f"{group}: {', '.join(told)}.", interval_bars(bars))


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the parts that all of them begin or end with.

    >>> short_names(["12 bits, LSH, mAP", "12 bits, ITQ, mAP"])
    ['LSH', 'ITQ']
    """
    parts = [name.split(", ") for name in names]
    if len(parts) > 1:
        while all(len(part) > 1 and part[0] == parts[0][0] for part in parts):
            parts = [part[1:] for part in parts]
        while all(len(part) > 1 and part[-1] == parts[0][-1] for part in parts):
            parts = [part[:-1] for part in parts]
    return [", ".join(part) for part in parts]


def _drawn(value: float) -> str:
    """A large value as text: without digits after the point that nobody reads; "" for a small one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 2 else ""


def _shown(value: float) -> str:
    if math.isnan(value):
        return MISSING
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return shown.replace("-", "−")
