"""The figure of bits against quality, memory and speed."""

import math
from collections.abc import Callable

import altair as alt

from lookalike.report.collection.words import TASKS, memory
from lookalike.report.figure import Figure, FigurePanel
from lookalike.report.html import data_table, mark, text
from lookalike.report.leaderboard.words import interval
from lookalike.report.numbers import MISSING, number, plural
from lookalike.report.vega import Layer, Look, Rows, Spec, drawn, layer
from lookalike.study.survey import StorageOption, Tradeoff

MILLION = 1_000_000

__all__ = ["tradeoff_figure"]


def tradeoff_figure(tradeoff: Tradeoff) -> Figure:
    """Charts over the bytes that an item takes: agreement, AP where labels are, and speed."""
    wanted: list[tuple[str, str, Callable[[StorageOption], float], Callable[[StorageOption], tuple[float, float]]]] = [
        (
            f"The {tradeoff.k} nearest found again",
            "share",
            lambda option: option.agreement,
            lambda o: o.agreement_interval,
        )
    ]
    if tradeoff.label is not None:
        wanted.append((f"AP, {TASKS[tradeoff.label]}", "AP", lambda o: o.quality, lambda o: o.quality_interval))
    wanted.append(("Queries a second, one core", "queries", lambda o: o.per_second, _unknown))
    panels = []
    for title, axis, value, ends in wanted:
        told = "; ".join(f"{_name(option)} {_number(value(option))}" for option in tradeoff.options)
        rows = [_point(option, value(option), ends(option)) for option in tradeoff.options]
        panels.append(
            FigurePanel(text(title), f"{title}, over bytes an item. {told}.", _chart(rows, axis, _hashers(tradeoff)))
        )
    return Figure(
        "tradeoff",
        "Trade-off",
        "What shorter codes cost",
        _reading(tradeoff),
        panels,
        _table(tradeoff),
        least="19rem",
        most=len(panels),
    )


def _reading(tradeoff: Tradeoff) -> str:
    left_out = "".join(f"<br>Left out: {text(name)}: {text(why)}" for name, why in tradeoff.left_out)
    return (
        f"{_legend(tradeoff)}Learned from the embeddings of {text(tradeoff.model)}; dashed: the embeddings themselves. "
        f"Found again: of the first {tradeoff.k} by a code, the share that is as near as the {tradeoff.k}th by the "
        f"embeddings, for {plural(tradeoff.queries, 'item')} drawn; tied codes in random order. Speed: exact search in "
        f"this run, on this machine.{left_out}"
    )


def _hashers(tradeoff: Tradeoff) -> list[str]:
    return list(dict.fromkeys(option.name for option in tradeoff.options if option.n_bits is not None))


def _legend(tradeoff: Tradeoff) -> str:
    """The sign of each hasher."""
    signs = [
        f'<span class="sign">{mark(at, dash=True)} {text(name)}</span> ' for at, name in enumerate(_hashers(tradeoff))
    ]
    return "".join(signs) + ("<br>" if signs else "")


def _unknown(option: StorageOption) -> tuple[float, float]:  # noqa: ARG001  # as the others are called
    return math.nan, math.nan


def _point(option: StorageOption, value: float, ends: tuple[float, float]) -> dict[str, object]:
    row: dict[str, object] = {"hasher": option.name, "name": _name(option), "bytes": option.bytes, "value": value}
    row["code"] = option.n_bits is not None
    row["label"] = "" if option.n_bits is None else str(option.n_bits)
    return row if math.isnan(ends[0]) else row | {"low": ends[0], "high": ends[1]}


def _chart(points: list[dict[str, object]], axis: str, names: list[str]) -> Spec | None:
    rows: Rows = [row for row in points if not math.isnan(float(row["value"]))]  # type: ignore[arg-type]
    if not rows:
        return None
    look = Look("hasher", names)
    codes, whole = [row for row in rows if row["code"]], [row for row in rows if not row["code"]]
    speed = axis == "queries"
    x = alt.X(
        "bytes:Q",
        title="bytes an item",
        scale=alt.Scale(type="log", base=2, nice=False, padding=18),
        axis=alt.Axis(tickCount=5, format=",d", labelOverlap=True),
    )
    powers = _powers([float(row["value"]) for row in rows]) if speed else []
    y_scale = alt.Scale(type="log", domain=[powers[0], powers[-1]]) if speed else alt.Scale(domain=[0, 1])
    marks = alt.Axis(values=powers, grid=True, format="~s") if speed else alt.Axis(tickCount=5, grid=True, format="~g")
    y = alt.Y("value:Q", title=None, scale=y_scale, axis=marks)
    tips = [
        alt.Tooltip("name:N", title="option"),
        alt.Tooltip("bytes:Q", format=",d", title="bytes an item"),
        alt.Tooltip("value:Q", format=",.0f" if speed else ".4f", title=axis),
    ]
    base = layer().encode(x=x, opacity=alt.value(1))
    layers: list[Layer] = []
    if whole:
        rule = layer().mark_rule(stroke="var(--soft)", strokeDash=[5, 4], strokeWidth=1.25).encode(y=y)
        layers.append((whole, rule))
        layers.append((whole, base.mark_point(filled=True, size=90, color="var(--ink)").encode(y=y, tooltip=tips)))
        names_beside = base.mark_text(align="right", dx=4, dy=-12 if speed else 14, fill="var(--soft)").encode(
            y=y, text="name:N"
        )
        layers.append((whole, names_beside))
    if codes:
        layers.append((codes, base.mark_line().encode(y=y, color=look.colour, strokeDash=look.dash)))
        spread = [row for row in codes if "low" in row]
        if spread:
            whisker = base.mark_rule(strokeWidth=1.5).encode(
                y=alt.Y("low:Q", title=None, scale=y_scale), y2="high:Q", color=look.colour
            )
            layers.append((spread, whisker))
        point = base.mark_point(filled=True, size=90, stroke="var(--surface)", strokeWidth=1)
        layers.append((codes, point.encode(y=y, color=look.colour, shape=look.shape, tooltip=tips)))
        if len(names) == 1:  # of several, one name would cover the other
            bits = base.mark_text(align="left", dx=7, dy=11, fontWeight=600).encode(y=y, text="label:N")
            layers.append((codes, bits))
    return drawn(260, *layers)


def _table(tradeoff: Tradeoff) -> str:
    quality = tradeoff.label is not None
    first = tradeoff.options[0]
    head = ["option", "bits", "bytes an item", "times smaller", "a million items", "found again", "95 %"]
    head += [*(["AP", "95 %"] if quality else []), "queries a second"]
    rows = [
        (
            option.name,
            MISSING if option.n_bits is None else f"{option.n_bits:,}",
            f"{option.bytes:,}",
            f"{first.bytes / option.bytes:,.0f}",
            memory(MILLION * option.bytes),
            number(option.agreement),
            _span(option.agreement_interval),
            *([number(option.quality), _span(option.quality_interval)] if quality else []),
            _number(option.per_second),
        )
        for option in tradeoff.options
    ]
    return data_table(head, rows)


def _span(ends: tuple[float, float]) -> str:
    return interval(ends).replace(" to ", "–") or MISSING


def _powers(values: list[float]) -> list[float]:
    """Powers of ten from below the least of values to above the greatest.

    >>> _powers([300.0, 20_000.0])
    [100.0, 1000.0, 10000.0, 100000.0]
    """
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _name(option: StorageOption) -> str:
    return option.name if option.n_bits is None or option.stored else f"{option.name}, {option.n_bits} bits"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value > 10 else number(value)
