"""The charts that compare hashers."""

import math
from typing import Any

import altair as alt
import numpy as np

from lookalike.evaluation.code_space import CodeHistogram
from lookalike.metrics.curves import Curve
from lookalike.report.hashers.entries import HasherComparison, HasherEntry
from lookalike.report.html import COLOURS
from lookalike.report.vega import Layer, Look, Rows, Spec, drawn, layer

POINTS = 64  # of a curve

__all__ = [
    "code_order_chart",
    "codes_chart",
    "curve_chart",
    "length_chart",
    "radius_chart",
    "runs",
    "spread_chart",
    "tradeoff_chart",
    "useful_radius",
]


def tradeoff_chart(comparison: HasherComparison, bits: int) -> Spec:
    """mAP over mLGAP@2 at one length: a mark for each hasher, as large as the share of possible codes it uses."""
    rows = [
        {
            "hasher": entry.hasher,
            "mLGAP@2": entry["LGAP@2"],
            "mAP": entry["mAP"],
            "worst": entry["worst"],
            "best": entry["best"],
            "used": entry["possible_utilisation"],
        }
        for entry in comparison.of_length(bits)
        if not math.isnan(entry["LGAP@2"]) and not math.isnan(entry["mAP"])
    ]
    look = Look("hasher", comparison.hashers)
    x = alt.X("mLGAP@2:Q", axis=alt.Axis(tickCount=4, format=".3~f"), scale=alt.Scale(zero=False, padding=14))
    scale = alt.Scale(domain=_span(comparison), nice=False)
    y = alt.Y("mAP:Q", axis=alt.Axis(tickCount=5), scale=scale)
    base = layer().encode(x=x, color=look.colour, opacity=look.opacity())
    ties = base.mark_rule(strokeWidth=2).encode(
        y=alt.Y("worst:Q", title="mAP", scale=scale), y2="best:Q", opacity=look.opacity(0.35)
    )
    size = alt.Size("used:Q", scale=alt.Scale(domain=[0, 1], range=[25, 300]), legend=None)
    tips = [
        alt.Tooltip("hasher:N"),
        alt.Tooltip("mAP:Q", format=".3f"),
        alt.Tooltip("worst:Q", format=".3f", title="worst order"),
        alt.Tooltip("best:Q", format=".3f", title="best order"),
        alt.Tooltip("mLGAP@2:Q", format=".3g"),
        alt.Tooltip("used:Q", format=".1%", title="of possible codes"),
    ]
    marks = base.mark_point(filled=True, stroke="var(--surface)", strokeWidth=1).encode(
        y=y, size=size, shape=look.shape, tooltip=tips
    )
    return drawn(270, *_exact(comparison, scale), (rows, ties), (rows, marks), *_leaders(look, rows, x, y))


def codes_chart(comparison: HasherComparison, entry: HasherEntry, highest: float) -> Spec:
    """Items on each code, from the fullest to the emptiest, over what evenly random bits would give."""
    used = entry.trial.usage
    end, _ = _axis_end(entry)
    index = comparison.hashers.index(entry.hasher)
    x = alt.X(
        "code:Q",
        title="codes",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(values=[0, end], format=",d", labelAlign=alt.expr("datum.value > 0 ? 'right' : 'left'")),
    )
    scale = alt.Scale(type="sqrt", domain=[0, highest], nice=False)
    y = alt.Y(
        "items:Q", title="items", stack=None, scale=scale, axis=alt.Axis(values=_sqrt_ticks(highest), format=",d")
    )
    area = layer().mark_area(
        interpolate="step-after", fill=f"var(--h{index % COLOURS})", fillOpacity=0.75, line={"strokeWidth": 1.5}
    )
    area = area.encode(x=x, y=y, color=alt.value(f"var(--h{index % COLOURS})"))
    even = layer().mark_line(
        interpolate="step-after", stroke="currentColor", strokeWidth=1.25, strokeDash=[3, 2], clip=True
    )
    layers: list[Layer] = [
        (runs(used.counts), area),
        (_even(used.items, used.n_bits, end), even.encode(x=x, y=y)),
    ]
    if used.distinct < end:
        empty = {"code": used.distinct, "end": end}
        layers.insert(0, ([empty], layer().mark_rect(fill="var(--empty)").encode(x=x, x2="end:Q")))
    return drawn(130, *layers)


def code_order_chart(comparison: HasherComparison, entry: HasherEntry, ordered: CodeHistogram, highest: int) -> Spec:
    """Items on each code, codes in numerical order, over what an even spread would give each."""
    colour = f"var(--h{comparison.hashers.index(entry.hasher) % COLOURS})"
    end = len(ordered.items)
    x = alt.X(
        "code:Q",
        title="code" if ordered.is_whole else f"first {ordered.prefix_bits} bits",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(values=[0, end - 1], format=",d", labelAlign=alt.expr("datum.value > 0 ? 'right' : 'left'")),
    )
    scale = alt.Scale(type="sqrt", domain=[0, highest], nice=False)
    y = alt.Y(
        "items:Q", title="items", stack=None, scale=scale, axis=alt.Axis(values=_sqrt_ticks(highest), format=",d")
    )
    # a list in one row is a tenth of the page that a row for each code would be
    area = layer().transform_flatten(["items"]).transform_window(number="row_number()")
    area = area.transform_calculate(code="datum.number - 1")
    area = area.mark_area(interpolate="step-after", fill=colour, fillOpacity=0.75, line={"strokeWidth": 1})
    even = layer().mark_rule(stroke="currentColor", strokeWidth=1.25, strokeDash=[3, 2])
    level: list[dict[str, Any]] = [{"items": entry.trial.usage.items / end}]
    return drawn(
        130,
        ([{"items": [*ordered.items.tolist(), 0]}], area.encode(x=x, y=y, color=alt.value(colour))),
        (level, even.encode(y=y)),
    )


def curve_chart(comparison: HasherComparison, bits: int) -> Spec:
    """Precision over recall at one length, as the cutoff grows."""
    rows = []
    for entry in comparison.of_length(bits):
        curve = entry.trial.by_cutoff
        rows += [_point(entry.hasher, curve, i) for i in _thinned(len(curve.at))]
    x = alt.X("recall:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    y = alt.Y("precision:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    return _lines(comparison, rows, x, y, [alt.Tooltip("at:Q", title="top", format=",d")])


def radius_chart(comparison: HasherComparison, bits: int, quantity: str) -> Spec:
    """Precision or recall over the Hamming radius at one length, up to where it changes no more."""
    last = useful_radius(comparison, bits)
    rows = []
    for entry in comparison.of_length(bits):
        curve = entry.trial.by_radius
        inside = np.flatnonzero(curve.at <= last)
        rows += [_point(entry.hasher, curve, i) for i in inside[_thinned(len(inside))].tolist()]
    ticks = list(range(0, last + 1, max(1, math.ceil(last / 8))))
    x = alt.X(
        "at:Q",
        title="Hamming radius",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(values=ticks, format="d"),
    )
    y = alt.Y(f"{quantity}:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    return _lines(comparison, rows, x, y, [alt.Tooltip("at:Q", title="radius", format="d")], 200)


def length_chart(comparison: HasherComparison, hasher: str) -> Spec:
    """mAP of one hasher over the length of its codes, between worst and best order of ties; the others in grey."""
    rows = [
        {
            "hasher": entry.hasher,
            "bits": entry.bits,
            "mAP": entry["mAP"],
            "worst": entry["worst"],
            "best": entry["best"],
        }
        for entry in sorted(comparison.entries, key=lambda entry: entry.bits)
        if not math.isnan(entry["mAP"])
    ]
    of_hasher = [row for row in rows if row["hasher"] == hasher]
    others = [row for row in rows if row["hasher"] != hasher]
    colour = f"var(--h{comparison.hashers.index(hasher) % COLOURS})"
    x = _bits_axis(comparison)
    scale = alt.Scale(domain=[0, _ceiling(comparison)])
    y = alt.Y("mAP:Q", scale=scale, axis=alt.Axis(tickCount=4))
    tips = [
        alt.Tooltip("bits:O"),
        alt.Tooltip("mAP:Q", format=".3f"),
        alt.Tooltip("worst:Q", format=".3f", title="worst order"),
        alt.Tooltip("best:Q", format=".3f", title="best order"),
    ]
    behind = layer().mark_line(stroke="var(--faint)", strokeWidth=1).encode(x=x, y=y, detail="hasher:N")
    band = layer().mark_area(fill=colour, fillOpacity=0.25)
    band = band.encode(x=x, y=alt.Y("worst:Q", title="mAP", scale=scale), y2="best:Q")
    line = layer().mark_line(stroke=colour).encode(x=x, y=y)
    dots = layer().mark_point(filled=True, fill=colour, size=45, opacity=1).encode(x=x, y=y, tooltip=tips)
    ticks = layer().mark_rule(stroke=colour, strokeWidth=2, opacity=0.5)
    ticks = ticks.encode(x=x, y=alt.Y("worst:Q", title="mAP", scale=scale), y2="best:Q")
    over = [(of_hasher, part) for part in (band, ticks, line, dots)]
    return drawn(150, (others, behind), *_exact(comparison, scale), *over)


def spread_chart(comparison: HasherComparison) -> Spec:
    """mLGAP@2 over the length of the codes."""
    rows = [
        {"hasher": entry.hasher, "bits": entry.bits, "mLGAP@2": entry["LGAP@2"]}
        for entry in sorted(comparison.entries, key=lambda entry: entry.bits)
        if not math.isnan(entry["LGAP@2"])
    ]
    look = Look("hasher", comparison.hashers)
    y = alt.Y("mLGAP@2:Q", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5))
    base = layer().encode(x=_bits_axis(comparison), y=y, color=look.colour, opacity=look.opacity())
    tips = [alt.Tooltip("hasher:N"), alt.Tooltip("bits:O"), alt.Tooltip("mLGAP@2:Q", format=".4f")]
    dots = base.mark_point(filled=True, size=60).encode(shape=look.shape, tooltip=tips)
    return drawn(260, (rows, base.mark_line().encode(strokeDash=look.dash)), (rows, dots))


def useful_radius(comparison: HasherComparison, bits: int) -> int:
    """The radius within which every hasher of this length finds 99 % of what is relevant; 4 at least."""
    ends = []
    for entry in comparison.of_length(bits):
        curve = entry.trial.by_radius
        enough = curve.recall >= 0.99
        ends.append(int(curve.at[enough.argmax()]) if enough.any() else bits)
    return min(bits, max(4, *ends))


def runs(counts: np.ndarray) -> list[dict[str, int]]:
    """The steps of a falling curve of counts: the first code of each run, its items, and the end.

    >>> runs(np.array([5, 2, 2, 1]))
    [{'code': 0, 'items': 5}, {'code': 1, 'items': 2}, {'code': 3, 'items': 1}, {'code': 4, 'items': 0}]
    """
    starts = np.flatnonzero(np.diff(counts, prepend=-1))
    steps = [{"code": int(start), "items": int(counts[start])} for start in starts]
    return [*steps, {"code": len(counts), "items": 0}]


def _lines(comparison: HasherComparison, rows: Rows, x: Any, y: Any, tips: list[Any], height: int = 270) -> Spec:
    look = Look("hasher", comparison.hashers)
    base = layer().encode(x=x, y=y, color=look.colour)
    lines = base.mark_line(interpolate="linear").encode(strokeDash=look.dash, opacity=look.opacity())
    numbers = [alt.Tooltip("precision:Q", format=".3f"), alt.Tooltip("recall:Q", format=".3f")]
    points = base.mark_point(filled=True, size=70, opacity=0).encode(tooltip=[alt.Tooltip("hasher:N"), *tips, *numbers])
    return drawn(height, (rows, lines), (rows, points))


def _point(hasher: str, curve: Curve, i: int) -> dict[str, Any]:
    return {
        "hasher": hasher,
        "at": int(curve.at[i]),
        "precision": float(curve.precision[i]),
        "recall": float(curve.recall[i]),
    }


def _thinned(n: int) -> list[int]:
    """Positions of at most this many points of a curve, its ends among them."""
    return np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(int)).tolist() if n else []


def _ceiling(comparison: HasherComparison) -> float:
    values = [entry["best"] for entry in comparison.entries] + [comparison.exact_score]
    defined = [value for value in values if not math.isnan(value)]
    return max(math.ceil(10 * max(defined, default=1.0)), 1) / 10


def _span(comparison: HasherComparison) -> list[float]:
    """From a little below all values of mAP to a little above."""
    values = [entry[end] for entry in comparison.entries for end in ("worst", "best")] + [comparison.exact_score]
    defined = [value for value in values if not math.isnan(value)] or [0.0, 1.0]
    margin = 0.06 * (max(defined) - min(defined)) or 0.05
    return [max(0.0, min(defined) - margin), min(1.0, max(defined) + margin)]


def _leaders(look: Look, rows: Rows, x: Any, y: Any) -> list[Layer]:
    """The names of those with the highest mAP and the highest mLGAP@2, beside their marks."""
    if not rows:
        return []
    middle = (min(row["mLGAP@2"] for row in rows) + max(row["mLGAP@2"] for row in rows)) / 2
    layers: list[Layer] = []
    accurate, spread = (max(rows, key=lambda row: row[key]) for key in ("mAP", "mLGAP@2"))
    apart = abs(accurate["mAP"] - spread["mAP"]) > 0.05  # else one name would cover the other
    for row in (accurate, spread) if apart else (accurate,):
        name = row["hasher"]
        left = row["mLGAP@2"] > middle
        side: dict[str, Any] = {"align": "right", "dx": -12} if left else {"align": "left", "dx": 12}
        words = layer()
        short = name if len(name) <= 18 else f"{name[:17]}…"
        text = words.mark_text(fontWeight=600, baseline="middle", **side)
        layers.append(([row | {"name": short}], text.encode(x=x, y=y, text="name:N", opacity=look.opacity())))
    return layers


def _exact(comparison: HasherComparison, scale: Any) -> list[Layer]:
    """A rule at the score without hashing."""
    if math.isnan(comparison.exact_score):
        return []
    row = {"exact": comparison.exact_score, "what": comparison.exact_name}
    rule = layer().mark_rule(stroke="currentColor", strokeDash=[2, 3], strokeWidth=1.25)
    tips = [alt.Tooltip("what:N", title="mAP of"), alt.Tooltip("exact:Q", format=".3f", title="is")]
    return [([row], rule.encode(y=alt.Y("exact:Q", title="mAP", scale=scale), tooltip=tips))]


def _bits_axis(comparison: HasherComparison) -> Any:
    return alt.X(
        "bits:O",
        title="bits",
        sort=comparison.lengths,
        scale=alt.Scale(type="point", padding=0.25),
        axis=alt.Axis(labelAngle=0),
    )


def _axis_end(entry: HasherEntry) -> tuple[int, bool]:
    """The end of the axis of codes: all codes if items could fill much of it, else one code for each item."""
    used = entry.trial.usage
    whole = used.n_bits <= 12 or (used.n_bits < 40 and 2**used.n_bits <= 4 * used.items)
    return (2**used.n_bits if whole else min(2 ** min(used.n_bits, 62), used.items)), whole


def _sqrt_ticks(highest: float) -> list[int]:
    """A few round numbers from 0 that a root scale spreads about evenly."""
    ticks = {0}
    for value in (highest / 16, highest / 4, highest * 9 / 16, highest):
        size = 10 ** math.floor(math.log10(max(value, 1)))
        ticks.add(max(step * size for step in (1, 2, 3, 5) if step * size <= max(value, 1)))
    return sorted(ticks)


def _even(items: int, n_bits: int, end: int) -> list[dict[str, float]]:
    """How many codes evenly random bits fill with at least 1, 2, … items, on average; the fullest first."""
    from scipy.stats import binom

    if n_bits > 50:
        return [{"code": 0.0, "items": 1}, {"code": float(items), "items": 0}]
    deepest = 1
    steps: list[dict[str, float]] = []
    while True:
        codes = float(binom.sf(deepest - 1, items, 2.0**-n_bits) * 2**n_bits)  # with at least so many
        if codes < 0.5 or deepest > items:
            break
        steps.append({"code": min(codes, end), "items": deepest})
        deepest += 1
    starts = [0.0, *(step["code"] for step in reversed(steps))]
    heights = [*(step["items"] for step in reversed(steps)), 0.0]
    return _fewer([{"code": start, "items": height} for start, height in zip(starts, heights, strict=True)])


def _fewer(steps: list[dict[str, float]]) -> list[dict[str, float]]:
    if len(steps) <= 4 * POINTS:
        return steps
    kept = np.unique(np.linspace(0, len(steps) - 1, 4 * POINTS).round().astype(int))
    return [steps[i] for i in kept.tolist()]
