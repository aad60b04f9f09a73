"""The charts of a leaderboard."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import altair as alt

from lookalike.discovery.bias import LeftOut
from lookalike.metrics.metric import Metric
from lookalike.report.bars import ROW, Bar, interval_bars, margin, rowed, ticks
from lookalike.report.html import short
from lookalike.report.leaderboard.standing import Number, Standing, called
from lookalike.report.leaderboard.words import signed
from lookalike.report.vega import Layer, Look, Rows, Spec, drawn, layer

NAME = 20  # characters of a name beside its mark

__all__ = ["LabelPosition", "bars_chart", "bias_chart", "change_chart", "label_positions"]


def bars_chart(standing: Standing, of: Number) -> Spec | None:
    """A bar for each model that has a value, the best first, with its interval: solid for those that built the pool."""
    return interval_bars(
        Bar(model, standing.value(model, *of), standing.interval(model, *of), _solid(standing, model))
        for model in standing.ranking(*of)
    )


def bias_chart(standing: Standing, hits: Metric, area: Metric) -> Spec | None:
    """Hit rate over AUC: a mark for each model, and a stroke to its AUC without the pairs that it alone proposed."""
    rows: Rows = []
    for model in standing.models:
        point = {"area": standing.value(model, area), "hits": standing.value(model, hits)}
        if not any(map(math.isnan, point.values())):
            own_out = standing.own_out(model, area)
            without = point["area"] if math.isnan(own_out) else own_out
            rows.append({"model": model, **point, "without": without, "solid": _solid(standing, model)})
    look = Look("model", standing.models)
    wide = alt.Scale(domain=_span([row[name] for row in rows for name in ("area", "without")]), nice=False)
    high = alt.Scale(domain=_span([row["hits"] for row in rows]), nice=False)
    x = alt.X("area:Q", title=called(area), scale=wide, axis=alt.Axis(tickCount=5, grid=True))
    y = alt.Y("hits:Q", title=called(hits), scale=high, axis=alt.Axis(tickCount=5))
    base = layer().encode(y=y, opacity=look.opacity())
    stroke = base.mark_rule(strokeWidth=2.5, strokeCap="round")
    end = base.mark_tick(thickness=2.5, size=11)
    tips = [
        alt.Tooltip("model:N"),
        alt.Tooltip("hits:Q", format=".4f", title=called(hits)),
        alt.Tooltip("area:Q", format=".4f", title=called(area)),
        alt.Tooltip("without:Q", format=".4f", title="own pairs left out"),
    ]
    points = base.encode(x=x, shape=look.shape, tooltip=tips)
    solid = points.mark_point(filled=True, size=110, stroke="var(--surface)", strokeWidth=1)
    hollow = points.mark_point(filled=True, size=95, fill="var(--surface)", strokeWidth=2.2)
    outline = alt.Stroke("model:N", scale=look.colour["scale"], legend=None)
    moved = [row for row in rows if row["without"] != row["area"]]
    layers: list[Layer] = [
        (moved, stroke.encode(x=x, x2="without:Q", color=look.colour, opacity=look.opacity(0.55))),
        (moved, end.encode(x=alt.X("without:Q", title=called(area), scale=wide), color=look.colour)),
        ([row for row in rows if row["solid"]], solid.encode(color=look.colour)),
        ([row for row in rows if not row["solid"]], hollow.encode(stroke=outline)),
    ]
    positions = label_positions(rows)
    for position in sorted({position for position in positions if position is not None}):
        here = [row for row, chosen in zip(rows, positions, strict=True) if chosen == position]
        named = [row | {"name": short(row["model"], NAME)} for row in here]
        name = base.mark_text(align=position.align, dx=position.dx, dy=position.dy, fontWeight=500)  # type: ignore[arg-type]
        layers.append((named, name.encode(x=x, text="name:N")))
    return drawn(360, *(part for part in layers if part[0])) if rows else None


def change_chart(changes_of_models: Sequence[LeftOut]) -> Spec | None:
    """How much each model gains or loses when its own pairs are dropped, as bars around 0."""
    sorted_rows = sorted((row for row in changes_of_models if not math.isnan(row.change)), key=lambda row: -row.change)
    rows: Rows = [
        {"model": row.model, "change": row.change, "shown": signed(row.change), "shift": row.shift}
        | {"dropped": row.dropped, "gain": row.change >= 0}
        for row in sorted_rows
    ]
    if not rows:
        return None
    changes = [row["change"] for row in rows]
    least = 0.08 * max(map(abs, changes)) or 0.01  # of both sides, so that 0 is seen as the middle
    scale = alt.Scale(domain=[min([-least, *changes]), max([least, *changes])], nice=False)
    words = "datum.value == 0 ? '0' : replace(format(datum.value, '+~g'), '-', '−')"
    x = alt.X("change:Q", title="change without its own pairs", scale=scale, axis=ticks(labelExpr=words))
    tips = [
        alt.Tooltip("model:N"),
        alt.Tooltip("change:Q", format="+.4f"),
        alt.Tooltip("shift:Q", format="+~g", title="places up"),
        alt.Tooltip("dropped:Q", format=",d", title="pairs dropped"),
    ]
    base = rowed()
    paint = alt.condition("datum.gain", alt.value("var(--gain)"), alt.value("var(--loss)"))
    bars = base.mark_bar(cornerRadiusEnd=3).encode(x=x, fill=paint, tooltip=tips)
    zero = layer().mark_rule(stroke="var(--ink)", strokeWidth=1.25).encode(x=alt.X("zero:Q", scale=scale))
    return drawn(ROW * len(rows), (rows, bars), ([{"zero": 0}], zero), (rows, margin(base)))


class LabelPosition(NamedTuple):
    """The position of a name beside its mark: its alignment, and its offset in pixels."""

    align: str
    dx: int
    dy: int


POSITIONS = [LabelPosition("left", 11, 0), LabelPosition("right", -11, 0)]
POSITIONS += [LabelPosition(side, dx, dy) for dy in (-14, 15) for side, dx in (("left", -4), ("right", 4))]
PHONE = 250, 360  # pixels of a chart without its axis


def label_positions(rows: Rows) -> list[LabelPosition | None]:
    """The position of each mark's name, first rows first; None where it would cover something.

    Sizes are those of a phone, so that there is room on all screens.

    >>> points = [("one", 0.5, 0.5), ("other", 0.9, 0.9)]
    >>> label_positions([{"model": model, "area": x, "hits": y, "without": x} for model, x, y in points])
    [LabelPosition(align='left', dx=11, dy=0), LabelPosition(align='right', dx=-11, dy=0)]
    """
    wide, high = (
        _span([row[name] for row in rows for name in ("area", "without")]),
        _span([row["hits"] for row in rows]),
    )
    occupied: list[_Box] = []
    for row in rows:
        ends = sorted(_scaled(row[name], wide, PHONE[0]) for name in ("area", "without"))
        height = PHONE[1] - _scaled(row["hits"], high, PHONE[1])
        occupied.append(_Box(ends[0] - 7, ends[1] + 7, height - 7, height + 7))
    out: list[LabelPosition | None] = []
    for row in rows:
        x, y = _scaled(row["area"], wide, PHONE[0]), PHONE[1] - _scaled(row["hits"], high, PHONE[1])
        boxes = {position: _name_box(position, x, y, 6.8 * len(short(row["model"], NAME))) for position in POSITIONS}
        free = (position for position, box in boxes.items() if box.inside() and not any(map(box.meets, occupied)))
        chosen = next(free, None)
        out.append(chosen)
        if chosen is not None:
            occupied.append(boxes[chosen])
    return out


class _Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float

    def inside(self) -> bool:
        return self.left >= 3 and self.right <= PHONE[0] and self.top >= 0 and self.bottom <= PHONE[1]

    def meets(self, other: "_Box") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def _name_box(position: LabelPosition, x: float, y: float, long: float) -> _Box:
    start = x + position.dx if position.align == "left" else x + position.dx - long
    return _Box(start, start + long, y + position.dy - 6.5, y + position.dy + 6.5)


def _scaled(value: float, span: list[float], pixels: int) -> float:
    return (value - span[0]) / (span[1] - span[0]) * pixels


def _solid(standing: Standing, model: str) -> bool:
    return not standing.grouped or standing.board.helped[model]


def _span(values: list[float]) -> list[float]:
    """From a little below all values to a little above."""
    if not values:
        return [0.0, 1.0]
    margin = 0.09 * (max(values) - min(values)) or 0.05
    return [min(values) - margin, max(values) + margin]
