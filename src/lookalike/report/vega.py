"""What all charts share: Vega-Lite specs made by Altair, in the colours of the page, light or dark."""

from typing import Any

import altair as alt

from lookalike.report.html import COLOURS, DASHES, SHAPES

Spec = dict[str, Any]
Rows = list[dict[str, Any]]
Layer = tuple[Rows, Any]

__all__ = ["CONFIG", "Layer", "Look", "Rows", "Spec", "drawn", "layer", "shortened"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
CONFIG: Spec = {
    "aria": False,  # the page says in words what a chart shows; its marks need not
    "background": "transparent",
    "font": FONT,
    "padding": {"left": 2, "right": 10, "top": 6, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titlePadding": 8,
        "domainColor": "var(--axis)",
        "tickColor": "var(--axis)",
        "gridColor": "var(--grid)",
        "labelOverlap": True,
    },
    "axisX": {"grid": False, "labelFlush": False},
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "text": {"fill": "currentColor", "fontSize": 12},
    "line": {"strokeWidth": 2, "strokeJoin": "round"},
}


class Look:
    """The colour, shape and dashes of each name, the same in every chart.

    field: the column of the rows that has the name.
    """

    def __init__(self, field: str, names: list[str]) -> None:
        self.field = field
        numbers = range(len(names))
        self.colour = self._of(alt.Color, [f"var(--h{i % COLOURS})" for i in numbers], names)
        self.shape = self._of(alt.Shape, [SHAPES[i % len(SHAPES)] for i in numbers], names)
        self.dash = self._of(alt.StrokeDash, [DASHES[i % len(DASHES)] for i in numbers], names)

    def _of(self, channel: Any, values: list[Any], names: list[str]) -> Any:
        return channel(f"{self.field}:N", scale=alt.Scale(domain=names, range=values), legend=None)

    def opacity(self, full: float = 1.0) -> Any:
        """Full for the names that the reader chose, or for all if there is no choice."""
        chosen = f"length(chosen) == 0 || indexof(chosen, datum.{self.field}) >= 0"
        return alt.condition(chosen, alt.value(full), alt.value(full * 0.12))


def layer() -> alt.Chart:
    """A chart for one layer. Its rows are added later, since Altair would copy and check them many times."""
    return alt.Chart(alt.NamedData("rows"))


def drawn(height: int, *layers: Layer) -> Spec:
    """Layers as Vega-Lite: as wide as their container, without the settings that all charts of a page share."""
    chart = alt.layer(*(part for _, part in layers)).add_params(alt.param(name="chosen", value=[]))
    spec: Spec = chart.properties(width="container", height=height).to_dict(validate=False)
    for name in ("$schema", "config", "data"):
        spec.pop(name, None)
    names: dict[int, str] = {}
    spec["datasets"] = {}
    for (rows, _), part in zip(layers, spec["layer"], strict=True):
        name = names.setdefault(id(rows), f"rows{len(names)}")
        spec["datasets"][name] = shortened(rows)
        part["data"] = {"name": name}
    return spec


def shortened(rows: Rows) -> Rows:
    """Rows with numbers of four digits, more than can be seen in a chart."""
    return [{key: _short(value) for key, value in row.items()} for row in rows]


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
