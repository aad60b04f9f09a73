"""Charts of bars: a row for each model with its name, its number, and its interval as a whisker."""

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import altair as alt

from lookalike.report.numbers import number
from lookalike.report.vega import Layer, Look, Rows, Spec, drawn, layer, shortened

ROW = 27  # pixels of a model's bar and the space below it
NARROW = "containerSize()[0] < 420"  # a phone

__all__ = ["ROW", "Bar", "interval_bars", "margin", "rowed", "ticks"]


class Bar(NamedTuple):
    """A model's value, and the interval that it may lie in; nan where unknown."""

    model: str
    value: float
    interval: tuple[float, float]
    solid: bool = True
    shown: str = ""  # the value as text, if not with three digits


def interval_bars(values: Iterable[Bar]) -> Spec | None:
    """A bar for each model that has a value, in this order, with its interval; None where there is none."""
    bars, whiskers = [], []
    for model, value, (low, high), solid, shown in values:
        if not math.isnan(value):
            bars.append({"model": model, "value": value, "shown": shown or number(value), "solid": solid})
            if not math.isnan(low):
                bars[-1] |= {"low": low, "high": high}
                whiskers.append({"model": model, "low": low, "high": high})
    if not bars:
        return None
    rows = {name: shortened(part) for name, part in (("rows0", bars), ("rows1", whiskers)) if part}
    layers = [part for part in _bars()["layer"] if part["data"]["name"] in rows]
    return _bars() | {"height": ROW * len(bars), "layer": layers, "datasets": rows}


@functools.cache
def _bars() -> Spec:
    """The chart of bars without rows, made once since Altair is slow."""
    x = alt.X("value:Q", title=None, scale=alt.Scale(zero=True, nice=True), axis=ticks())
    tips = [
        alt.Tooltip("model:N"),
        alt.Tooltip("value:Q", format=".4f"),
        alt.Tooltip("low:Q", format=".4f", title="95 % from"),
        alt.Tooltip("high:Q", format=".4f", title="to"),
    ]
    base = rowed()
    bars = base.mark_bar(cornerRadiusEnd=3, stroke="var(--accent)", strokeWidth=1.25)
    paint = alt.condition("datum.solid", alt.value("var(--bar)"), alt.value("var(--bar-later)"))
    rows: Rows = []
    whiskers: Rows = []
    layers: list[Layer] = [(rows, bars.encode(x=x, fill=paint, tooltip=tips))]
    for colour, thick in (("var(--surface)", 4.5), ("var(--ink)", 1.5)):  # a halo, so that it is seen on the bar
        rule = base.mark_rule(stroke=colour, strokeWidth=thick, strokeCap="round")
        layers.append((whiskers, rule.encode(x=alt.X("low:Q", title=None), x2="high:Q")))
    for end in ("low", "high"):
        cap = base.mark_tick(color="var(--ink)", thickness=1.5, size=9)
        layers.append((whiskers, cap.encode(x=alt.X(f"{end}:Q", title=None))))
    return drawn(ROW, *layers, (rows, margin(base)))


def rowed() -> alt.Chart:
    """A layer with a row for each model, in the order of the data; names are cut where the screen is narrow."""
    axis = alt.Axis(labelExpr=f"{NARROW} ? {_shortened(17)} : {_shortened(34)}", labelLimit=230, labelOverlap=False)
    scale = alt.Scale(paddingInner=0.32, paddingOuter=0.16)
    y = alt.Y("model:N", sort=None, title=None, scale=scale, axis=axis)
    return layer().encode(y=y, opacity=Look("model", []).opacity())


def _shortened(most: int) -> str:
    """A label shortened as `short` does, as an expression of the chart."""
    ends = f"slice(datum.label, 0, {most // 2}) + '…' + slice(datum.label, -{(most - 1) // 2})"
    return f"(length(datum.label) <= {most} ? datum.label : {ends})"


def ticks(**options: Any) -> alt.Axis:
    """The axis along which bars run."""
    few = alt.ExprRef(f"{NARROW} ? 2 : 5")
    return alt.Axis(tickCount=few, labelSeparation=10, grid=True, domain=False, ticks=False, **options)


def margin(base: alt.Chart) -> Any:
    """The numbers of bars, in the margin at their right where nothing covers them."""
    return base.mark_text(align="left", dx=8, fontWeight=600).encode(x=alt.value("width"), text="shown:N")
